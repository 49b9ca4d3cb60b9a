"""Declare, next to a Function's definition, how it intentionally deviates from the rules.

This module does not import PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

ATTRIBUTE = "__autograd_doctor__"
C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Declaration:
    """A Function's surrogate, and the names of the rules that the Function breaks by design."""

    surrogate: Callable[..., Any] | None = None
    intentional: str | Collection[str] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The word ``surrogate`` if there is a surrogate, followed by the names of the rules."""
        rules = (self.intentional,) if isinstance(self.intentional, str) else self.intentional
        return (*("surrogate" for _ in [self.surrogate] if _), *map(str, rules))


def declare(
    *, surrogate: Callable[..., Any] | None = None, intentional: str | Collection[str] = ()
) -> Callable[[C], C]:
    """Declare a Function's deliberate deviations so that callers need not pass them to
    ``diagnose``.

    The decorator stores the declaration on the class and returns the class unchanged, so it has no
    effect when the Function runs. It does not import PyTorch. ``diagnose`` uses the declaration
    unless its caller passes ``surrogate=`` or ``intentional=``. Subclasses do not inherit the
    declaration.

    Args:
        surrogate: A differentiable callable with the same arguments. ``backward`` is meant to
            return its gradient, as a straight-through estimator does.
        intentional: The names of the rules that the Function breaks by design.

    Returns:
        A decorator that returns the class it is given.

    Example:
        >>> import torch
        >>> from autograd_doctor import declare, diagnose
        >>> @declare(surrogate=lambda x: x)
        ... class Sign(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return torch.sign(x)
        ...     @staticmethod
        ...     def backward(ctx, grad_output):
        ...         return 1.0 * grad_output
        >>> diagnose(Sign, torch.tensor([-1.5, 0.5, 2.0])).ok
        True
    """

    def remember(owner: C) -> C:
        setattr(owner, ATTRIBUTE, Declaration(surrogate, intentional))
        return owner

    return remember


def declaration_of(fn: Any) -> Declaration | None:
    """Return the declaration of a Function. ``fn`` can be the class or its ``apply`` method."""
    owner = fn if isinstance(fn, type) else getattr(fn, "__self__", None)
    found = vars(owner).get(ATTRIBUTE) if isinstance(owner, type) else None
    return found if isinstance(found, Declaration) else None
