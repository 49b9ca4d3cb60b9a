"""``diagnose`` on random Functions and arguments never crashes, hangs or blames right code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fuzz import examples
from fuzz.arguments import INPUTS, ODD, Odd, argument
from fuzz.composed import Recipe, recipes
from fuzz.examined import examined
from fuzz.odd_functions import BACKWARDS, FORWARDS, ODDITIES, made, without_ctx
from fuzz.tensors import SHAPES, tensors
from hypothesis import assume, event, given, note
from hypothesis import strategies as st
from torch import Tensor

pytestmark = pytest.mark.thorough

Example = tuple[Recipe, tuple[Tensor, ...]]


def gradients(fn: Any, xs: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """Return the float64 gradients of the inputs that require one, or of all inputs."""
    asking = [x.requires_grad for x in xs]
    asking = asking if any(asking) else [True] * len(xs)
    leaves = [x.detach().double().requires_grad_(asks) for x, asks in zip(xs, asking, strict=True)]
    outputs = fn(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    rng = torch.Generator().manual_seed(0)
    gs = [torch.randn(out.shape, generator=rng, dtype=out.dtype) for out in outputs]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    return torch.autograd.grad(outputs, wanted, gs, allow_unused=True)


def differ(recipe: Recipe, xs: tuple[Tensor, ...]) -> bool:
    """Whether the planted bug changes a gradient on these inputs by more than a percent."""
    right = gradients(recipe.plain, xs)
    try:
        wrong = gradients(recipe.function().apply, xs)
    except RuntimeError:
        return True
    return any(
        float(((0 if b is None else b) - a).abs().max() / a.abs().max()) > 1e-2
        for a, b in zip(right, wrong, strict=True)
        if a is not None and a.numel() and bool(a.any())
    )


@examples(25)
@given(recipes(wrong=False), st.booleans())
def test_a_right_function_is_given_no_error(example: Example, declared: bool) -> None:
    recipe, xs = example
    options = {"reference": recipe.plain} if declared else {}
    found = examined(recipe.function(), xs, **options)
    note(str(found))
    event(found if isinstance(found, str) else "examined")

    assert isinstance(found, str) or found.ok


@examples(25)
@given(recipes(wrong=True), st.booleans())
def test_a_bug_that_changes_gradients_is_an_error(example: Example, declared: bool) -> None:
    recipe, xs = example
    assume(differ(recipe, xs))
    options = {"reference": recipe.plain} if declared else {}
    found = examined(recipe.function(), xs, **options)
    note(str(found))
    event(found if isinstance(found, str) else "examined")

    assert isinstance(found, str) or not found.ok


FORWARD, BACKWARD = st.sampled_from(list(FORWARDS)), st.sampled_from(list(BACKWARDS))
FUNCTIONS = st.builds(made, FORWARD, BACKWARD, st.sampled_from(ODDITIES))
SOME = st.builds(made, st.sampled_from(["right", "returns its input", "view", "in place"]))
LIMITED = {"time_limit": 2.0}


@examples(12)
@given(FUNCTIONS, SHAPES.flatmap(tensors))
def test_an_odd_function_is_examined_or_refused(function: Any, x: Tensor) -> None:
    examined(function, (x,), **LIMITED)


@examples(12)
@given(SOME, INPUTS)
def test_odd_arguments_are_examined_or_refused(function: Any, drawn: list[Any]) -> None:
    examined(function, tuple(map(argument, drawn)), **LIMITED)


@examples(10)
@given(ODD)
def test_what_is_no_function_or_no_tuple_is_refused_or_examined(odd: Odd) -> None:
    examined(odd.made(), (torch.ones(3),), **LIMITED)
    examined(made("right"), odd.made(), **LIMITED)


CALLABLES = ("reference", "surrogate", "sampler")
OPTIONS = (*CALLABLES, "intentional", "double_backward", "seed", "level", "time_limit")


@examples(12)
@given(st.sampled_from(OPTIONS), ODD)
def test_an_odd_option_is_refused_or_serves(name: str, odd: Odd) -> None:
    examined(made("right"), (torch.ones(3),), **(LIMITED | {name: odd.made()}))


@examples(12)
@given(st.sampled_from(CALLABLES), FORWARD)
def test_an_odd_helper_is_refused_or_serves(name: str, forward: str) -> None:
    helper = without_ctx(forward)
    examined(made("right"), (torch.ones(3),), **LIMITED, **{name: helper})
