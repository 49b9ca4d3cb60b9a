"""Find the Functions inside a callable, and the arguments of the first call to each Function.

``diagnose`` judges a callable by its outputs and gradients. But autograd corrects a gradient with
the wrong shape, dtype or device, so ``diagnose`` must also examine the Functions themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.autograd import Function

from autograd_doctor._execution.calls import attempt, takes_ctx
from autograd_doctor._execution.captured_state import CapturedState, TensorState
from autograd_doctor._execution.operations import custom_nodes
from autograd_doctor._execution.session import Run
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor.evidence import Failure


@dataclass(frozen=True)
class InnerCall:
    """A Function, and the arguments of one call to it.

    ``passed`` holds the arguments that the Function can also reach in another way, for example
    through a closure.
    """

    function: type[Function]
    args: tuple[Any, ...]
    passed: Mapping[int, TensorState]


def functions_inside(run: Callable[[], Run], around: CapturedState) -> Iterator[InnerCall]:
    """Yield the Functions that a callable uses. The callable runs twice.

    The first run finds the Functions in the callable's graph. The second run records their
    arguments.
    """
    first = attempt(run)
    if isinstance(first, Failure):
        return
    calls: dict[type[Function], InnerCall] = {}

    def note(function: type[Function], given: tuple[Any, ...]) -> None:
        args = given[int(takes_ctx(function)) :]
        if function not in calls:
            calls[function] = InnerCall(function, tuple(map(_copy, args)), around.passed(args))

    with ExitStack() as stack:
        for function in {node._forward_cls: None for node in custom_nodes(first.tensors)}:
            stack.enter_context(_note_calls(function, note))
        attempt(run)
    yield from calls.values()


@contextmanager
def _note_calls(function: type[Function], note: Callable[..., None]) -> Iterator[None]:
    """Temporarily replace the class's ``forward`` with one that records its arguments.

    ``sys.setprofile`` is not an alternative, because it can hang if torch.compile has run in the
    process.
    """
    own, forward = vars(function).get("forward"), function.forward

    @functools.wraps(forward)
    def noting(*args: Any) -> Any:
        note(function, args)
        return forward(*args)

    function.forward = staticmethod(noting)  # type: ignore[method-assign]
    try:
        yield
    finally:
        if own is None:
            del function.forward
        else:
            function.forward = own  # type: ignore[method-assign]


def _copy(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    asks = value.requires_grad and is_float(value)
    return value.detach().clone().requires_grad_(asks)
