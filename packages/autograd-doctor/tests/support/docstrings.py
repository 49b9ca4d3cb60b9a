"""Check that a public callable's docstring is complete, and run its example as a doctest."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator
from typing import Any

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def missing(call: Callable[..., Any], *, example: bool = True) -> Iterator[str]:
    """Yield the missing parts of a docstring: a parameter, the result, an example."""
    text = inspect.getdoc(call) or ""
    yield from (name for name in _parameters(call) if f"\n    {name}: " not in text)
    yield from ["Returns"] * ("\nReturns:\n" not in text and "\nYields:\n" not in text)
    yield from ["Example"] * (example and "\nExample:\n" not in text)


def _parameters(call: Callable[..., Any]) -> Iterator[str]:
    """Yield the names of the parameters. For a Function, these are the parameters of ``apply``."""
    passed = getattr(call, "forward", call)
    yield from (name for name in inspect.signature(passed).parameters if name != "ctx")


def failures(call: Callable[..., Any]) -> str:
    """Return the failures of the example, or ``""`` if it prints the documented result."""
    (example,) = doctest.DocTestFinder(recurse=False).find(call, globs={call.__name__: call})
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append)
    return "".join(report)
