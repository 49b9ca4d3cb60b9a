"""The docstrings of what learners call are complete, and their examples run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from docstrings import failures, missing

from autograd_course.digits import load_digits

CALLS: list[Callable[..., Any]] = [load_digits]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_docstring_names_parameters_and_result_and_its_example_runs(
    call: Callable[..., Any],
) -> None:
    assert not list(missing(call))
    assert not failures(call)
