"""What an exercise is."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from autograd_course.doctor import Finding

Sampler = Callable[[torch.Generator], tuple[Any, ...]]
Check = Callable[[type[torch.autograd.Function], tuple[Any, ...]], Finding | None]


@dataclass(frozen=True)
class Exercise:
    """One exercise: what is asked, and how an answer is judged.

    ``id`` is kebab-case and is what a learner passes to ``grade`` and ``hint``. ``reference`` is a
    differentiable callable with the arguments of the Function that is asked for; its values and its
    own autograd are the truth. ``samplers`` draw the inputs: each is ``rng -> inputs`` for one kind
    of use (a shape, an optional argument left out …), named by its key, the plainest first.
    ``intentional`` names rules that are by design, ``asked`` rules whose finding fails the answer
    even where its severity is only a warning. ``checks`` look, once the gradients are right, for
    what only this exercise asks: each is ``(Function, inputs) -> Finding | None``. ``bounds`` says
    in words what the checks ask. ``hints`` are three, from a nudge to nearly the answer. ``read``
    names the section of the lesson to reread.
    """

    id: str
    lesson: str
    title: str
    points: int
    reference: Callable[..., Any]
    samplers: Mapping[str, Sampler]
    hints: tuple[str, str, str]
    read: str
    surrogate: Callable[..., Any] | None = None
    intentional: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    bounds: str = ""

    @property
    def signature(self) -> str:
        """The first line of the forward that is asked for, as in ``forward(ctx, x)``."""
        parameters = inspect.signature(self.reference).parameters.values()
        plain = (p.replace(annotation=inspect.Parameter.empty) for p in parameters)
        return f"forward(ctx, {', '.join(str(p) for p in plain)})"

    def samples(self) -> dict[str, tuple[Any, ...]]:
        """Draw the inputs of every sampler: the same ones each time, whatever the random state."""
        seed = zlib.crc32(self.id.encode())
        return {
            name: draw(torch.Generator().manual_seed(seed + i))
            for i, (name, draw) in enumerate(self.samplers.items())
        }
