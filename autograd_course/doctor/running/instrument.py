"""Watch what a Function does with its ctx, without touching the user's class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.autograd import Function

_SAVED_TENSORS: Any = Function.saved_tensors  # the engine's own descriptor


@dataclass
class CtxLog:
    """What one forward pass told its ctx."""

    dirty: list[Tensor] = field(default_factory=list)
    non_differentiable: list[Tensor] = field(default_factory=list)
    saved: list[Any] = field(default_factory=list)
    read_saved_in_forward: bool = False


class Watched:
    """A subclass of the Function whose ctx keeps a :class:`CtxLog` of each forward pass.

    The subclass inherits the user's forward, backward and class attributes; only its own backward
    node type gets the watching methods, so that the user's class is never written to.
    """

    def __init__(self, function: type[Function]) -> None:
        self.log = CtxLog()
        self._in_forward = False
        make: Any = type(function)
        self.function = make(function.__name__, (function,), {"__module__": function.__module__})
        self._watch(self.function._backward_cls)

    def __call__(self, *inputs: Any) -> Any:
        """Apply the Function, starting a new log."""
        self.log = CtxLog()
        with self._forward_pass():
            return self.function.apply(*inputs)

    @contextmanager
    def _forward_pass(self) -> Iterator[None]:
        self._in_forward = True
        try:
            yield
        finally:
            self._in_forward = False

    def _watch(self, node_type: Any) -> None:
        """Give the node type methods that note their arguments and then do what they always did."""
        inherited = {
            name: getattr(node_type, name)
            for name in ("mark_dirty", "mark_non_differentiable", "save_for_backward")
        }

        def noting(name: str, log_name: str) -> Any:
            def method(ctx: Any, *tensors: Any) -> None:
                getattr(self.log, log_name).extend(tensors)
                inherited[name](ctx, *tensors)

            return method

        def saved_tensors(ctx: Any) -> Any:
            self.log.read_saved_in_forward |= self._in_forward
            return _SAVED_TENSORS.__get__(ctx)

        node_type.mark_dirty = noting("mark_dirty", "dirty")
        node_type.mark_non_differentiable = noting("mark_non_differentiable", "non_differentiable")
        node_type.save_for_backward = noting("save_for_backward", "saved")
        node_type.saved_tensors = property(saved_tensors)
