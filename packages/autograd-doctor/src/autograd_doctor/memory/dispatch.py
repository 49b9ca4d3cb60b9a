"""The base of all modes that look on as operations run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

import torch
from torch._C._dynamo.eval_frame import (
    _FrameAction,
    _FrameExecStrategy,
    set_code_exec_strategy,
)
from torch.utils._python_dispatch import TorchDispatchMode

_NEVER_COMPILED = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)


class Watching(TorchDispatchMode):
    """A mode for eager code, whose subclass is made in no time, and which leaves no trace.

    PyTorch wraps a mode's ``__torch_dispatch__`` so that torch.compile keeps out of it, and imports
    ``torch._dynamo`` at the first call to do so: two seconds before a widget's first picture. Here
    the method itself is marked instead.
    """

    supports_higher_order_operators = True  # torch.cond is one operation, whichever it runs

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]
        looking_on = cls.__dict__.get("__torch_dispatch__")
        if looking_on is not None:
            set_code_exec_strategy(looking_on.__code__, _NEVER_COMPILED)

    def __enter__(self) -> Self:
        with ExitStack() as entered:
            entered.enter_context(_compiled_later())
            super().__enter__()  # type: ignore[no-untyped-call]
            self._entered = entered.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        self._entered.close()


def name_of(operation: Any) -> str:
    """Return the name of what a mode is given: an ATen operation's, without its overload's."""
    name: str = getattr(operation, "overloadpacket", operation).__name__
    return name


@contextmanager
def _compiled_later() -> Iterator[None]:
    """Run eagerly what torch.compile has made or shall make, and leave it as it was found.

    Of a function that it meets under any mode, PyTorch notes that it shall never be compiled, with
    FlopCounterMode too; ``torch.cond``, which compiles itself, then raises until the process ends.
    """
    if "torch._dynamo" in sys.modules:
        with torch.compiler.set_stance("force_eager"):
            yield
        return
    yield
    if "torch._dynamo" in sys.modules:  # imported meanwhile: nothing was compiled before
        torch._dynamo.reset()
