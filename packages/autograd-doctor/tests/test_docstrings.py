"""The docstrings of what users call: complete, and with examples that run."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import autograd_course
from autograd_course.digits import load_digits

CALLS: list[Callable[..., Any]] = [
    autograd_course.diagnose,
    autograd_course.assert_gradients,
    load_digits,
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_docstring_names_every_parameter_and_the_result(call: Callable[..., Any]) -> None:
    text = inspect.getdoc(call) or ""

    for name in inspect.signature(call).parameters:
        assert f"\n    {name}: " in text
    assert "\nReturns:\n" in text
    assert "\nExample:\n" in text


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_the_examples_of_a_docstring_run(call: Callable[..., Any]) -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(call, globs={call.__name__: call})
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append)

    assert example.examples
    assert not report, "".join(report)
