"""Find the calls to other Functions that ``backward`` makes while autograd differentiates it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.autograd import Function

from autograd_doctor import _interception
from autograd_doctor._execution.calls import attempt
from autograd_doctor._execution.passes import gradients
from autograd_doctor._execution.session import Session
from autograd_doctor._numerics.tensors import is_float

Call = tuple[type[Function], tuple[Any, ...]]


class _Calls:
    """A watcher that keeps the arguments of the first call to each Function."""

    def __init__(self, besides: type[Function] | None) -> None:
        self._besides = besides
        self.found: dict[type[Function], tuple[Any, ...]] = {}

    def begin(
        self, function: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Keep copies of the arguments."""
        if function is not self._besides and not kwargs:
            self.found.setdefault(function, tuple(map(_copy, args)))

    def compiled(self, function: type[Function]) -> None:
        """Ignore calls that ``torch.compile`` traces."""

    def failed(self, error: Exception) -> None:
        """Ignore errors that this watcher raises."""


def _copy(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    copy = value.detach().clone()
    return copy.requires_grad_(value.requires_grad) if is_float(copy) else copy


def calls_in_backward(session: Session, grad_outputs: Sequence[Tensor | None]) -> Sequence[Call]:
    """Return the calls to other Functions in ``backward``, with copies of their arguments.

    Args:
        session: The session of the Function to examine.
        grad_outputs: The gradients of its outputs.
    """
    run = session.run()
    sent = [None if g is None else g.clone().requires_grad_() for g in grad_outputs]
    calls = _Calls(session.subject.function)
    with _interception.only(calls):
        attempt(lambda: gradients(run, sent, create_graph=True))
    return [*calls.found.items()]
