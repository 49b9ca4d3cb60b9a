"""A rounding, translated

1. Write the operator's formula down once more, as operations on whole tensors: which of them has
   ONNX, under which name? One candidate treats halves in another way.
2. Round the magnitude, then give it the sign back. For a magnitude, floor(v + ½) takes every half
   up, and that is away from zero.
3. op.Abs(x) / step, then op.Floor(… + 0.5), then times op.Sign(x), then times step. The signs +, *
   and / work between ONNX values and numbers; or use op.Add, op.Mul, op.Div.
"""

# No annotations from __future__: torch.library reads the types of an operator's arguments.

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.trials.exporting import described
from autograd_course.grader.verdict import Verdict, failed, wrong
from autograd_course.ship import MissingExtraError, check_onnx, quiet, require_packages, run_onnx


def translate(x: Any, step: float) -> None:
    """Say what the arguments are; the trial alone judges."""


OPSET = 18
STEPS = (1.0, 0.25)  # powers of two: halves of a step are exact


def round_away(x: Tensor, step: float) -> Tensor:
    """Return the multiple of ``step`` nearest to ``x``, of two the one farther from zero."""
    return step * x.sign() * (x.abs() / step + 0.5).floor()


# What people write instead, and what to tell them.
SUSPECTS: Mapping[str, Callable[[Tensor, float], Tensor]] = {
    "ONNX's Round, like PyTorch's, takes a half to the even neighbor; the operator takes it away "
    "from zero.": lambda x, step: step * (x / step).round(),
    "Floor after adding a half takes negative halves up, toward zero.": (
        lambda x, step: step * (x / step + 0.5).floor()
    ),
    "Those are the multiples below x, not the nearest.": lambda x, step: step * (x / step).floor(),
    "The sign of x has been lost.": lambda x, step: round_away(x.abs(), step),
    "Those are multiples of 1: step is not used.": lambda x, step: round_away(x, 1.0),
    "That is how many steps it is; they are still to be multiplied by step.": (
        lambda x, step: round_away(x, step) / step
    ),
}


def numbers(step: float) -> Tensor:
    """Return numbers of both signs in float32: between two multiples, on one, in the middle."""
    plain = torch.tensor([0.2, 0.7, 1.3, 2.0, 3.9, -0.2, -0.7, -1.3, -2.0, -3.9, 0.0])
    return step * torch.cat((plain, torch.arange(-3.5, 4.0)))


def is_translated(translation: Callable[..., Any]) -> Verdict | None:
    """Run a translation step by step, and once its numbers are right, as part of a file."""
    try:
        require_packages("onnx", "onnxruntime", "onnxscript")
    except MissingExtraError as error:
        return failed(str(error))
    for step in STEPS:
        if verdict := _evaluated(translation, step):
            return verdict
    return _in_a_file(translation)


def _evaluated(translation: Callable[..., Any], step: float) -> Verdict | None:
    """Let onnxscript evaluate the translation's operators one by one, which is quick."""
    x, symbol = numbers(step), import_module("onnxscript.tensor").Tensor
    try:
        result = translation(symbol(x.numpy()), step)
    except TypeError as error:
        if "must be Tensor, not" not in str(error):
            raise
        return wrong(
            "it calls a function of torch. x is a value in an ONNX graph and no PyTorch tensor: "
            "only ONNX's operators, op.Abs, op.Mul and so on, can make others of it."
        )
    if not isinstance(result, symbol):
        return wrong(
            f"it returns {described(result)}; this exercise asks for what the last ONNX "
            "operator returns."
        )
    return _compared(torch.from_numpy(result.value), x, step)


def _compared(y: Tensor, x: Tensor, step: float) -> Verdict | None:
    expected = round_away(x, step)
    if y.shape != x.shape or y.dtype != x.dtype:
        found = f"shape {tuple(y.shape)} and dtype {y.dtype}"
        return wrong(f"the result has {found}; x has {tuple(x.shape)} and {x.dtype}.")
    off = (~torch.isclose(y, expected)).nonzero()
    if not len(off):
        return None
    at = int(off[0])
    words = [word for word, suspect in SUSPECTS.items() if torch.allclose(suspect(x, step), y)]
    return wrong(
        f"with step {step:g}, {x[at]:g} becomes {y[at]:g}, should be {expected[at]:g}. "
        f"{' '.join(words[:1])}".rstrip()
    )


class Rounded(nn.Module):
    """The operator, as a model."""

    def __init__(self, operator: Any) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: Tensor) -> Tensor:
        """Return what the operator does with the last of the steps."""
        rounded: Tensor = self.operator(x, STEPS[-1])
        return rounded


@cache
def operator() -> Any:
    """Register the operator, once."""
    made = torch.library.custom_op("course_grader::round_away", round_away, mutates_args=())
    made.register_fake(lambda x, step: torch.empty_like(x))
    return made


def _in_a_file(translation: Callable[..., Any]) -> Verdict | None:
    """Export the operator by the translation, check the file, run it in ONNX Runtime."""
    x, model = numbers(STEPS[-1]), Rounded(operator())
    table: dict[Callable[..., Any], Callable[..., Any]] = {
        torch.ops.course_grader.round_away.default: translation
    }
    with quiet():
        file = torch.onnx.export(
            torch.export.export(model, (x,)),
            dynamo=True,
            opset_version=OPSET,
            verbose=False,
            custom_translation_table=table,
        )
    y = run_onnx(check_onnx(file), x)
    return _compared(y, x, STEPS[-1]) if isinstance(y, Tensor) else wrong("the file has 2 outputs.")


EXERCISE = RoutineExercise(
    answer="round_away_in_onnx",
    points=3,
    difficulty="medium",
    minutes=9,
    section="An operator of your own in ONNX",
    constraints="onnx.checker accepts the file, and ONNX Runtime computes with it what the "
    "operator computes, halves of both signs included",
    reference=translate,
    trials=(is_translated,),
    seconds=120.0,
)
