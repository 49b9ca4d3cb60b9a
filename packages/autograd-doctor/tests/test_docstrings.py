"""The docstrings of the public callables are complete, and their examples run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import autograd_doctor
import pytest
from autograd_doctor import extension, jacobians, memory, repair_search, steps
from docstrings import failures, missing

CALLS: list[Callable[..., Any]] = [
    autograd_doctor.assert_gradients,
    autograd_doctor.declare,
    autograd_doctor.diagnose,
    autograd_doctor.explain,
    autograd_doctor.recording,
    jacobians.compute_jacobians,
    memory.kept_bytes,
    memory.kept_tensors,
    memory.peak_bytes,
    memory.stored_bytes,
    steps.check_element,
    steps.compare_forward,
    steps.compare_magnitudes,
    steps.five_steps,
    steps.run_backward,
    steps.run_gradcheck,
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_docstring_names_parameters_and_result_and_its_example_runs(
    call: Callable[..., Any],
) -> None:
    assert not list(missing(call))
    assert not failures(call)


@pytest.mark.parametrize("name", [*extension.__all__, *repair_search.__all__])
def test_every_name_of_the_extension_api_is_documented(name: str) -> None:
    found = getattr(extension, name, None) or getattr(repair_search, name)

    assert inspect.getdoc(found)
    if not isinstance(found, type):
        assert not list(missing(found, example=False))


def test_the_extension_api_stays_small() -> None:
    assert 10 <= len(extension.__all__) <= 18
