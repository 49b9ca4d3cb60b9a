"""The docstrings of everything that learners call are complete, and their examples run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from docstrings import failures, missing

import autograd_course
from autograd_course import functions, lesson, visualize
from autograd_course.functions.attention import attention, dropped, tiled_attention

# The module of `triton_decayed_sum` imports Triton, which exists only for GPUs.
NAMES = [
    (module, name)
    for module in (autograd_course, lesson, visualize)
    for name in module.__all__
    if name != "triton_decayed_sum"
]
# The doctor's own tests read the docstrings of `autograd_doctor`.
CALLS: list[Callable[..., Any]] = list(
    {
        call: None
        for call in (getattr(module, name) for module, name in NAMES)
        if inspect.isroutine(call) and call.__module__.startswith("autograd_course")
    }
)

PARTS = ("AdditiveCoupling", "Checkpoint", "LinearCrossEntropy")  # of documented callables
FUNCTIONS = [
    *(getattr(functions, name) for name in functions.__all__ if name not in PARTS),
    attention,
    dropped,
    tiled_attention,
]


@pytest.mark.parametrize("call", [*CALLS, *FUNCTIONS], ids=lambda call: call.__name__)
def test_a_docstring_names_parameters_and_result_and_its_example_runs(
    call: Callable[..., Any],
) -> None:
    assert not list(missing(call))
    assert not failures(call)


@pytest.mark.parametrize("call", FUNCTIONS, ids=lambda call: call.__name__)
def test_a_docstring_of_a_function_gives_the_formula(call: Any) -> None:
    if isinstance(call, type) and issubclass(call, torch.autograd.Function):
        text = call.__doc__ or ""
        assert "Forward" in text
        assert "Backward" in text or "∂L/∂x := " in text


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_its_parameters_and_its_result_have_types(call: Callable[..., Any]) -> None:
    hints = dict(call.__annotations__)

    assert "return" in hints
    assert hints.keys() >= {*call.__code__.co_varnames[: call.__code__.co_argcount]}
