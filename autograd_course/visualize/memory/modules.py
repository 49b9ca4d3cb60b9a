"""Which module's forward is running."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)


class Modules:
    """A stack of module calls, by path where the module is known, else by class."""

    def __init__(self, roots: Iterable[nn.Module]) -> None:
        self._paths: dict[int, str] = {}
        for root in roots:
            for path, module in root.named_modules():
                self._paths.setdefault(id(module), path)
        self._stack: list[tuple[int, str]] = []
        self.calls = 0

    @property
    def path(self) -> str:
        """The path of the innermost module that runs; nothing at the root or outside of any."""
        return self._stack[-1][1] if self._stack else ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow all module calls inside a ``with`` block."""
        handles = (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        )
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: nn.Module, _: Any) -> None:
        self.calls += 1
        self._stack.append((id(module), self._paths.get(id(module), type(module).__name__)))

    def _leave(self, module: nn.Module, *_: Any) -> None:
        while self._stack and self._stack.pop()[0] != id(module):
            pass  # a call that an exception ended
