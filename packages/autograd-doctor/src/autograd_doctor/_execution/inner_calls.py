"""Find the calls to other Functions that a callable or a ``backward`` makes.

``diagnose`` judges a callable by its outputs and gradients. But autograd corrects a gradient with
the wrong shape, dtype or device, so ``diagnose`` must also examine the Functions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_doctor import _interception
from autograd_doctor._execution.calls import attempt
from autograd_doctor._execution.captured_state import CapturedState, TensorState
from autograd_doctor._execution.passes import gradients
from autograd_doctor._execution.session import Run, Session
from autograd_doctor._numerics.tensors import as_tuple, is_float, is_wrapped
from autograd_doctor.evidence import BackwardInside, Failure

# --------------------------------------------------------------------------------------------------
# The arguments of the first call to each Function.
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InnerCall:
    """A Function, and copies of the arguments of one call to it.

    ``passed`` holds the arguments that the Function can also reach in another way, for example
    through a closure.
    """

    function: type[Function]
    args: tuple[Any, ...]
    passed: Mapping[int, TensorState]


class _Watcher:
    """A watcher that ignores compiled calls and its own errors."""

    def compiled(self, function: type[Function]) -> None:
        """Ignore calls that ``torch.compile`` traces."""

    def failed(self, error: Exception) -> None:
        """Ignore errors that this watcher raises."""


class _FirstCalls(_Watcher):
    """A watcher that keeps the first call to each Function whose result can have a gradient."""

    def __init__(self, around: CapturedState) -> None:
        self._around = around
        self.found: dict[type[Function], InnerCall] = {}

    def begin(
        self, function: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Keep copies of the arguments, unless PyTorch made the Function for an operator."""
        if function in self.found or function.__module__ == "torch._library.autograd":
            return
        if not kwargs and _gets_gradient(args):
            copies = tuple(map(_copy, args))
            self.found[function] = InnerCall(function, copies, self._around.passed(args))


def _gets_gradient(args: Sequence[Any]) -> bool:
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    if not torch.is_grad_enabled() or any(map(is_wrapped, tensors)):
        return False
    return any(it.requires_grad for it in tensors)


def _copy(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    asks = value.requires_grad and is_float(value)
    return value.detach().clone().requires_grad_(asks)


def calls_in(run: Callable[[], Run], around: CapturedState) -> list[InnerCall]:
    """Return the first call to each Function that a callable applies."""
    calls = _FirstCalls(around)
    with _interception.only(calls):
        attempt(run)
    return [*calls.found.values()]


def calls_in_backward(
    session: Session, grad_outputs: Sequence[Tensor | None]
) -> Sequence[InnerCall]:
    """Return the first call to each other Function in ``backward``.

    Args:
        session: The session of the Function to examine.
        grad_outputs: The upstream gradients of the Function's outputs.
    """
    run = session.run()
    sent = [None if g is None else g.clone().requires_grad_() for g in grad_outputs]
    calls = _FirstCalls(session.subject.around)
    with _interception.only(calls):
        attempt(lambda: gradients(run, sent, create_graph=True))
    return [call for it, call in calls.found.items() if it is not session.subject.function]


# --------------------------------------------------------------------------------------------------
# Does a callable itself run the backward of a Function, for example in torch.autograd.grad?
# --------------------------------------------------------------------------------------------------


class _BackwardPasses(_Watcher):
    """A watcher that records whether the ``backward`` of a Function runs."""

    def __init__(self) -> None:
        self.seen: BackwardInside = ""

    def begin(
        self, function: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[Any], None]:
        """Return a callable that adds a hook to the graph node of the result."""
        return self._watch

    def _watch(self, returned: Any) -> None:
        for tensor in as_tuple(returned):
            node: Any = getattr(tensor, "grad_fn", None)
            if hasattr(node, "_forward_cls"):
                node.register_prehook(self._note)
                return

    def _note(self, _: Any) -> None:
        if torch.is_grad_enabled():
            self.seen = "with create_graph"
        else:
            self.seen = self.seen or "once"


def watching_backward(call: Callable[[], Any]) -> tuple[Any | Failure, BackwardInside]:
    """Run a callable, and return its result and whether it runs the ``backward`` of a Function."""
    passes = _BackwardPasses()
    with _interception.only(passes):
        returned = attempt(call)
    return returned, passes.seen
