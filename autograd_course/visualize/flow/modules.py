"""Which nodes came into being while which ``nn.Module`` ran.

Autograd numbers its nodes as it makes them. The number that is next when a module's forward
begins, and when it ends, therefore enclose the nodes that this call made.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)


@dataclass
class ModuleCall:
    """One call of a module: nodes numbered from ``begin`` to before ``end`` are its own."""

    path: str
    kind: str
    parent: int | None
    begin: int
    end: int = 0


class ModuleCalls:
    """Notes every call of a module inside a ``with`` block; ``paths`` names modules by ``id``."""

    def __init__(self, paths: Mapping[int, str]) -> None:
        self.made: list[ModuleCall] = []
        self._paths = paths
        self._running: list[tuple[int, int]] = []  # the id of a module, and its call

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hook all modules for the duration of a ``with`` block."""
        before = register_module_forward_pre_hook(self._enter)
        after = register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    def _enter(self, module: nn.Module, _: Any) -> None:
        kind = type(module).__name__
        parent = self._running[-1][1] if self._running else None
        path = self._paths.get(id(module), kind)
        self.made.append(ModuleCall(path, kind, parent, _next_number()))
        self._running.append((id(module), len(self.made) - 1))

    def _leave(self, module: nn.Module, _: Any, __: Any) -> None:
        while self._running:
            entered, call = self._running.pop()
            self.made[call].end = _next_number()
            if entered == id(module):
                return


def _next_number() -> int:
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


def innermost(calls: Sequence[ModuleCall], number: int) -> int | None:
    """Return the innermost call that made the node of this number; calls stand as they began."""
    return max((i for i, c in enumerate(calls) if c.begin <= number < c.end), default=None)


def reached_modules(fn: Any, given: Mapping[str, Any]) -> dict[str, nn.Module]:
    """Name the modules that ``fn`` is, reaches by itself, or gets as an argument."""
    owner = getattr(fn, "__self__", fn)
    reached: dict[str, Any] = {"": owner}
    if inspect.isfunction(fn):
        variables = inspect.getclosurevars(fn)
        reached |= {**variables.globals, **variables.nonlocals}
    return {n: m for n, m in {**reached, **given}.items() if isinstance(m, nn.Module)}


def module_paths(roots: Mapping[str, nn.Module]) -> dict[int, str]:
    """Name every module inside some roots by its path, by ``id``."""
    paths: dict[int, str] = {}
    for name, root in roots.items():
        for path, module in root.named_modules():
            joined = ".".join(part for part in (name, path) if part)
            paths.setdefault(id(module), joined or type(root).__name__)
    return paths
