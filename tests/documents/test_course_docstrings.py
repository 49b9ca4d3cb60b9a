"""The docstrings of everything that learners call are complete, and their examples run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from docstrings import failures, missing

import autograd_course
from autograd_course import functions, lesson, visualize

CALLS: list[Callable[..., Any]] = [
    autograd_course.explain,
    autograd_course.grade,
    autograd_course.hint,
    autograd_course.progress,
    lesson.benchmark_results,
    lesson.build,
    lesson.check_onnx,
    lesson.checkup,
    lesson.dropped,
    lesson.gumbel_noise,
    lesson.leaderboard,
    lesson.load_digits,
    lesson.predict,
    lesson.quiet,
    lesson.require_packages,
    lesson.run_onnx,
    lesson.show_error,
    lesson.show_warning,
    lesson.split_digits,
    lesson.vote,
    visualize.attention_tiles,
    visualize.compare_flows,
    visualize.function_lab,
    visualize.gradient_flow,
    visualize.jacobian_view,
    visualize.knowledge_check,
    visualize.memory_timeline,
    visualize.ste_lab,
    visualize.tangent,
]

PARTS = ("AdditiveCoupling", "Checkpoint", "LinearCrossEntropy")  # of documented callables
FUNCTIONS = [getattr(functions, name) for name in functions.__all__ if name not in PARTS]


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
