"""What the docstring of a public call must contain, and its example run as a doctest."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator
from typing import Any

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def missing(call: Callable[..., Any], *, example: bool = True) -> Iterator[str]:
    """Yield what a docstring lacks: a parameter, the result, an example."""
    text = inspect.getdoc(call) or ""
    yield from (name for name in _parameters(call) if f"\n    {name}: " not in text)
    yield from ["Returns"] * ("\nReturns:\n" not in text and "\nYields:\n" not in text)
    yield from ["Example"] * (example and "\nExample:\n" not in text)


def _parameters(call: Callable[..., Any]) -> Iterator[str]:
    """Yield what a caller passes: to ``apply``, if the call is a Function."""
    passed = getattr(call, "forward", call)
    yield from (name for name in inspect.signature(passed).parameters if name != "ctx")


def failures(call: Callable[..., Any]) -> str:
    """Return what is wrong with the example, ``""`` if it prints what the docstring says."""
    (example,) = doctest.DocTestFinder(recurse=False).find(call, globs={call.__name__: call})
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append)
    return "".join(report)
