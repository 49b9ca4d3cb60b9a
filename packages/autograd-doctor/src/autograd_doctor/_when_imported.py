"""Call a function as soon as the program imports a module, without importing it earlier.

A tool that watches a program must not import PyTorch before the program does, because the program
may first set environment variables that PyTorch reads during its import.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Cancel = Callable[[], None]


def when_imported(name: str, act: Callable[[], None]) -> Cancel:
    """Call ``act`` when the module ``name`` is imported, or immediately if it already is.

    Return a callable that cancels the call.
    """
    module = sys.modules.get(name)
    if module is not None and not _still_importing(module):
        act()
        return lambda: None
    finder = _Finder(name, act)
    sys.meta_path.insert(0, finder)
    return finder.withdraw


def _still_importing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


class _Finder:
    """A finder that loads one module through the other finders and then calls a function."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self._name, self._act = name, act

    def withdraw(self) -> None:
        """Stop watching imports."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the awaited module.

        Leave all other modules to the other finders.
        """
        if name != self._name:
            return None
        self.withdraw()
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            self._act_after(spec.loader)
        return spec

    def _act_after(self, loader: Any) -> None:
        run, act = loader.exec_module, self._act

        def exec_module(module: ModuleType) -> None:
            run(module)
            loader.exec_module = run
            with suppress(Exception):  # never break the program's import
                act()

        loader.exec_module = exec_module
