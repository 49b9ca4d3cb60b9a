"""Exercises that do not ask for a Function, but for a routine, or for a line and an experiment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from answers import lesson_02, lesson_05

from autograd_course import diagnose
from autograd_course.execution import differentiable
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.checks import (
    backward_is_a_formula,
    makes_at_most,
    no_tensor_on_ctx,
    peaks_at_most,
    saves_only_outputs,
    without,
)
from autograd_course.grader.exercise import LocatingExercise, PredictionExercise, RoutineExercise
from autograd_course.grader.pipeline import judge
from autograd_course.grader.sampling import normal
from autograd_course.grader.verdict import Verdict, wrong

ABOUT: dict[str, Any] = {
    "lesson": "01_template",
    "points": 1,
    "difficulty": "easy",
    "minutes": 5,
    "hints": ("a", "b", "c"),
    "section": "",
    "answer": "answer",
}


def doubled(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    return x * times


def keeps_zero(routine: Callable[..., Any]) -> Verdict | None:
    if routine(torch.zeros(1)).item() == 0:
        return None
    return wrong("zero does not stay zero.")


DOUBLING = RoutineExercise(
    id="doubling",
    title="Doubling",
    reference=doubled,
    samplers={"a vector": lambda rng: (normal(rng, 3),), "times 3": lambda rng: (normal(rng), 3)},
    trials=(keeps_zero,),
    **ABOUT,
)


def unwritten(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    raise NotImplementedError


def looping(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    while True:
        time.sleep(0.01)


def changing(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    return x.mul_(times)


ROUTINES = [
    (doubled, "passed", "the results agree with the reference. Tried on: a vector; times 3."),
    (changing, "passed", "agree"),
    (unwritten, "not attempted", "you have not written the function yet."),
    (None, "not attempted", "there is no answer yet"),
    (3, "wrong", "this is int, not a function"),
    (torch.autograd.Function, "wrong", "this exercise asks for a plain function"),
    (
        lambda x: x,
        "wrong",
        "the function does not take the arguments of this exercise: write (x, times=2).",
    ),
    (torch.mul, "wrong", "it raises TypeError"),  # in C: no signature reveals this before the call
    (lambda x, times=2: x, "wrong", "the result is wrong at 3 of 3 elements. At ["),
    (lambda x, times=2: None, "wrong", "the result is None; this exercise asks for a tensor."),
    (lambda x, times=2: (x, x), "wrong", "the result has 2 values; this exercise asks for 1."),
    (lambda x, times=2: (x * times).float(), "wrong", "dtype torch.float32"),
    (lambda x, times=2: x / (times * 0) / 0, "wrong", "is wrong at"),
    (lambda x, times=2: undefined, "wrong", "it raises NameError"),  # noqa: F821
    (lambda x, times=2: x * times + (x == 0), "wrong", "zero does not stay zero."),
]


@pytest.mark.parametrize(("answer", "status", "says"), ROUTINES)
def test_a_routine_is_judged_by_what_it_returns(answer: Any, status: str, says: str) -> None:
    verdict = judge(DOUBLING, answer)

    assert verdict.status == status, verdict
    assert says in verdict.message


def test_a_suspect_that_is_right_here_is_not_recognized_in_a_tiny_error() -> None:
    tiny = RoutineExercise(
        id="tiny",
        title="Tiny",
        reference=lambda x: x,
        samplers={"1e-16": lambda rng: (torch.full((1,), 1e-16, dtype=torch.float64),)},
        atol=0.0,
        suspects={"Take the absolute value first.": torch.abs},
        **ABOUT,
    )

    message = judge(tiny, lambda x: 0 * x).message
    assert message.endswith("should be 1e-16.")


def test_a_routine_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOGRAD_COURSE_TIME_LIMIT", "0.2")

    verdict = judge(DOUBLING, looping)

    assert verdict.status == "wrong"
    assert "stopped after 0.2 s in your code" in verdict.message


MISSING = "There is no compiler here."


def not_built(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    raise RuntimeError(MISSING)


@pytest.mark.parametrize(
    ("answer", "missing", "status", "says"),
    [
        (not_built, MISSING, "grader failed", MISSING),
        (not_built, None, "wrong", "it raises RuntimeError"),
        (unwritten, MISSING, "not attempted", "you have not written"),
        (doubled, MISSING, "passed", "agree"),
        (lambda x, times=2: x, MISSING, "wrong", "is wrong at"),
    ],
)
def test_no_answer_is_blamed_for_what_a_machine_lacks(
    answer: Any, missing: str | None, status: str, says: str
) -> None:
    verdict = judge(replace(DOUBLING, needs=lambda: missing), answer)

    assert verdict.status == status, verdict
    assert says in verdict.message


BUG = LocatingExercise(
    id="card",
    title="Card",
    rule="saved-twice",
    wrong_lines="24",
    lines={"1": "It saves x.", "3": "It returns y."},
    experiment="b",
    experiments={"a": "Both save one tensor."},
    **ABOUT,
)

LOCATIONS = [
    ("2b", "passed", "line 2 is wrong, and experiment b shows it. `diagnose` calls"),
    ("4b", "passed", "the mistake `saved-twice`: "),
    (" Line 2, experiment B ", "passed", "line 2 is wrong"),
    ("b2", "passed", "line 2 is wrong"),
    ("2 and b", "passed", "line 2 is wrong"),
    ("Experiment B shows line 2", "wrong", "Hand in a line from 1 to 4"),
    (..., "not attempted", "there is no answer yet"),
    ("", "not attempted", "there is no answer yet"),
    (3, "wrong", "hand in a line and an experiment as text"),
    ("1b", "wrong", "line 1 is right. It saves x."),
    ("3a", "wrong", "line 3 is right. It returns y."),
    ("2a", "wrong", "line 2 is wrong, as you say, but experiment a does not show it. Both save"),
    *[
        (typed, "wrong", "Hand in a line from 1 to 4 and an experiment from a to b, such as")
        for typed in ("2", "b", "5b", "2c", "2bb", "saved-twice")
    ],
]


@pytest.mark.parametrize(("answer", "status", "says"), LOCATIONS)
def test_a_line_and_an_experiment_are_judged(answer: Any, status: str, says: str) -> None:
    verdict = judge(BUG, answer)

    assert verdict.status == status, verdict
    assert says in verdict.message


def one_two_three() -> list[float]:
    return [1, 2, 1000]


GUESS = PredictionExercise(
    id="guess", title="Guess", outcome=one_two_three, mistakes={(2, 4.0): "Halve it."}, **ABOUT
)

GUESSES = [
    ([1, 2, 1000], "passed", "the run gives 1, 2 and 1000."),
    ((1, torch.tensor(2.0), 1000.4), "passed", "the run gives"),
    ("1, 2, 1000", "passed", "the run gives"),
    (..., "not attempted", "there is no answer yet"),
    ([1, ..., 3], "not attempted", "there is no answer yet"),
    ([], "not attempted", "there is no answer yet"),
    ([1, 4, 1000], "wrong", "number 2 of your list: the run does not give 4. Halve it."),
    ([1, 2, 1010], "wrong", "number 3 of your list: the run does not give 1010."),
    ([float("nan"), 2, 1000], "wrong", "number 1 of your list: the run does not give nan."),
    ([1, 2], "wrong", "hand in 3 numbers, one for each question. These are 2."),
    ("one", "wrong", "this is of type str; hand in a list with one number for each"),
    ({}, "wrong", "this is of type dict; hand in a list with one number for each"),
    ([[1], {}], "wrong", "this is of type list; hand in a list with one number for each"),
    (torch.tensor([1.0, 2.0, 1000.0]), "passed", "the run gives"),
    (torch.ones(3, 1), "wrong", "this is of type Tensor; hand in a list with one number for each"),
    (np.array([1.0, 2.0, 1000.0]), "passed", "the run gives"),
    ([np.int64(1), Fraction(4, 2), np.float32(1000)], "passed", "the run gives"),
    (np.ones((3, 1)), "wrong", "this is of type ndarray; hand in a list with one number for each"),
]


@pytest.mark.parametrize(("answer", "status", "says"), GUESSES)
def test_predicted_numbers_are_judged(answer: Any, status: str, says: str) -> None:
    verdict = judge(GUESS, answer)

    assert verdict.status == status, verdict
    assert says in verdict.message


# The lessons' cards display what they say


@pytest.mark.parametrize(
    ("card", "function", "others", "options"),
    [
        ("card-skip-connection", lesson_02.SOLVED["Rectify"], (), {}),
        ("card-two-outputs", lesson_02.SOLVED["MeanSpread"], (), {}),
        (
            "card-gradient-scale",
            lesson_02.SOLVED["Tenth"],
            (),
            {"intentional": ("constant-factor",)},
        ),
        ("card-twins", lesson_02.SOLVED["Weigh"], (), {}),
        (
            "card-activation",
            lesson_05.SOLVED["QuantizedActivation"],
            (torch.tensor(1.0, dtype=torch.float64),),
            {"surrogate": lambda x, alpha: torch.minimum(x.clamp(min=0), alpha)},
        ),
    ],
)
def test_a_card_breaks_the_rule_that_it_asks_for(
    card: str, function: Any, others: tuple[Any, ...], options: dict[str, Any]
) -> None:
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    diagnosis = diagnose(function, (x, *others), **options)

    assert diagnosis.findings[0].rule == CATALOGUE[card].rule, str(diagnosis)


# In-place Functions, and outputs without a gradient


def test_checks_pass_over_outputs_without_a_gradient() -> None:
    answer, inputs = lesson_02.RIGHT["sort-with-indices"], (torch.randn(3, 5).double(),)

    assert backward_is_a_formula(answer, inputs) is None
    assert no_tensor_on_ctx(answer, inputs) is None
    assert saves_only_outputs(answer, inputs) is None


class Aware(torch.autograd.Function):
    """A Function that notices the check, because hooks return other objects for saved tensors."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.saved = id(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * g if id(x) == ctx.saved else g


class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(noise := torch.rand_like(x))
        return noise * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return ctx.saved_tensors[0] * g


def test_a_backward_is_a_formula_only_if_it_is_the_same_while_the_grader_watches() -> None:
    inputs = (torch.randn(3).double(),)

    told = backward_is_a_formula(Aware, inputs)

    assert told is not None
    assert "other gradients while the grader watches" in told.message
    assert backward_is_a_formula(Noisy, inputs) is None


def slope_of_a_graph(x: torch.Tensor) -> Any:
    with torch.enable_grad():
        z = x.detach().requires_grad_()
        return torch.autograd.grad((z**3).sum(), z)[0]


def slope_of_a_node(x: torch.Tensor) -> Any:
    with torch.enable_grad():
        z = x.detach().requires_grad_() ** 3
        return z.grad_fn(torch.ones_like(x))


def slope_of_a_transform(x: torch.Tensor) -> Any:
    return torch.func.grad(lambda z: (z**3).sum())(x)


def slope_or_formula(x: torch.Tensor) -> Any:
    try:
        return slope_of_a_transform(x)
    except RuntimeError:
        return 3 * x**2


@pytest.mark.parametrize(
    ("slope", "right"),
    [
        (slope_of_a_graph, False),
        (slope_of_a_node, False),
        (slope_of_a_transform, False),
        (slope_or_formula, False),
        (lambda x: 3 * x**2, True),
    ],
)
def test_setup_context_must_not_call_autograd_either(slope: Any, right: bool) -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x**3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(slope(inputs[0]))

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return ctx.saved_tensors[0] * g

    told = backward_is_a_formula(Cube, (torch.randn(3).double(),))

    if right:
        assert told is None
    else:
        assert told is not None
        assert told.message.startswith("`setup_context` lets autograd differentiate")


@pytest.mark.parametrize(
    ("make", "right"),
    [
        (lambda x, y: torch.stack([y, x])[0], False),
        (lambda x, y: torch.cat([y, y])[: len(y)], False),
        (lambda x, y: y.clone(), True),
        (lambda x, y: y.t().contiguous().t(), True),
        (lambda x, y: y.reshape(-1).reshape(y.shape), True),
    ],
)
def test_a_saved_output_has_no_other_tensor_in_its_memory(make: Any, right: bool) -> None:
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(y := make(x, torch.exp(x)))
            return y

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return ctx.saved_tensors[0] * g

    told = saves_only_outputs(Exp, (torch.randn(2, 3),))

    if right:
        assert told is None
    else:
        assert told is not None
        assert told.message == (
            "Saved tensor 0 is a view of a larger tensor, so 48 bytes stay in memory instead of 24."
        )


def test_two_outputs_can_share_the_memory_that_is_saved() -> None:
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            y, z = torch.stack([x.exp(), -x.exp()])
            ctx.save_for_backward(y)
            return y, z

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return ctx.saved_tensors[0] * (g - h)

    assert saves_only_outputs(Both, (torch.randn(2, 3),)) is None


@pytest.mark.parametrize(
    ("namespace", "name", "operation"),
    [
        ("learners", "act", "learners::act"),
        ("aten", "learners_gelu", "aten::learners_gelu"),
        ("aten", "sinh", "aten::sinh"),
    ],
)
@pytest.mark.parametrize(
    "check",
    [
        without("gelu", use="erf"),
        peaks_at_most(lambda x: 1000, "a lot"),
        makes_at_most(lambda x: 1000, "a lot"),
    ],
)
@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_operations_do_not_hide_in_an_operator(
    namespace: str, name: str, operation: str, check: Any
) -> None:
    with torch.library._scoped_library(namespace, "FRAGMENT") as library:
        if name != "sinh":
            library.define(f"{name}(Tensor x) -> Tensor")
        library.impl(name, torch.nn.functional.gelu, "CPU")
        call = getattr(getattr(torch.ops, namespace), name)

        class Gelu(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: torch.Tensor) -> Any:
                return call(x)

            @staticmethod
            def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
                return g

        told = check(Gelu, (torch.randn(3),))

    assert told.message == (
        f"The operator `{operation}` is not one of PyTorch's, so the grader cannot see the "
        "operations inside it."
    )


def test_checks_do_not_fail_where_no_output_has_a_gradient() -> None:
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.mark_non_differentiable(y := 2 * x)
            return y

    for check in (backward_is_a_formula, no_tensor_on_ctx, saves_only_outputs):
        assert check(Nothing, (torch.ones(3).double(),)) is None


def test_an_answer_in_place_does_not_change_the_samples() -> None:
    x = torch.tensor([-1.0, 2.0], dtype=torch.float64)
    (copy,) = differentiable((x,))
    lesson_02.RIGHT["leaky-relu-in-place"].apply(copy, 0.5)

    assert (x.tolist(), copy.tolist()) == ([-1.0, 2.0], [-0.5, 2.0])


def test_a_gradient_for_what_the_reference_holds_fixed_is_extra() -> None:
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, target)
            return x * target

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x, target = ctx.saved_tensors
            return g * target, g * x

    x, target = (
        torch.tensor([[1.0, 2.0, 0.5], [0.3, -1.0, 3.0]], dtype=torch.float64),
        torch.ones(2, 3).double(),
    )
    diagnosis = diagnose(Both, (x, target), reference=lambda x, target: x * target.detach())

    assert diagnosis.findings[0].rule == "extra-gradient"
    assert "`backward` returns a gradient for `target`" in diagnosis.findings[0].message
