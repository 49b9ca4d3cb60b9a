"""A rounding, translated

1. Write the operator's formula as operations on whole tensors, and look up the ONNX operator for
   each operation. One candidate rounds halves differently.
2. Round the magnitude, and then multiply by the sign. For a magnitude v, floor(v + ½) rounds every
   half up, which is away from zero.
3. op.Abs(x) / step, then op.Floor(… + 0.5), then times op.Sign(x), then times step. You can use +,
   * and / between ONNX values and numbers, or op.Add, op.Mul and op.Div.
"""

# No annotations from __future__: torch.library reads the types of an operator's arguments.

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import generator
from autograd_course.grader.trials.exporting import described
from autograd_course.grader.verdict import Verdict, failed, wrong
from autograd_course.ship import MissingExtraError, check_onnx, quiet, require_packages, run_onnx


def translate(x: Any, step: float) -> None:
    """Declare the answer's arguments. The trial checks the answer without a reference."""


OPSET = 18
STEPS = (1.0, 0.25, 0.5, 2.0)  # powers of two, so that halves of a step are exact


def round_away(x: Tensor, step: float) -> Tensor:
    """Return the nearest multiple of ``step``. Ties round away from zero."""
    return step * x.sign() * (x.abs() / step + 0.5).floor()


# Likely mistakes, each with advice.
SUSPECTS: Mapping[str, Callable[[Tensor, float], Tensor]] = {
    "ONNX's Round rounds halves to the even neighbor like PyTorch, but the operator rounds them "
    "away from zero.": lambda x, step: step * (x / step).round(),
    "Floor after adding a half rounds negative halves up, toward zero.": (
        lambda x, step: step * (x / step + 0.5).floor()
    ),
    "These multiples are below x, not nearest to x.": lambda x, step: step * (x / step).floor(),
    "Round of a magnitude plus a half rounds twice. Take Floor after you add the half.": (
        lambda x, step: step * x.sign() * (x.abs() / step + 0.5).round()
    ),
    "Ceil makes every magnitude larger. Add a half to it, and take Floor.": (
        lambda x, step: step * x.sign() * (x.abs() / step).ceil()
    ),
    "Ceil after subtracting a half rounds halves toward zero. Add a half, and take Floor.": (
        lambda x, step: step * x.sign() * (x.abs() / step - 0.5).ceil()
    ),
    "Floor cuts off the fraction of the magnitude. Add a half before you take Floor.": (
        lambda x, step: step * x.sign() * (x.abs() / step).floor()
    ),
    "You add the half before you divide by step. Divide first, because it is half of a step.": (
        lambda x, step: step * x.sign() * ((x.abs() + 0.5) / step).floor()
    ),
    "You multiply |x| by step before Floor. Divide it by step to count the steps.": (
        lambda x, step: step * x.sign() * (x.abs() * step + 0.5).floor()
    ),
    "You divide the number of steps by step. Multiply it by step.": (
        lambda x, step: round_away(x, step) / step / step
    ),
    "Floor of a negative number goes away from zero. Take Floor of the magnitude, and multiply by "
    "the sign.": lambda x, step: step * (x / step + x.sign() / 2).floor(),
    "You multiply by the sign of x, but Floor has already got x with its sign. Take Floor of the "
    "magnitude.": lambda x, step: step * x.sign() * (x / step + 0.5).floor(),
    "The result has lost the sign of x.": lambda x, step: round_away(x.abs(), step),
    "These are multiples of 1. You do not use step.": lambda x, step: round_away(x, 1.0),
    "This is the number of steps. Multiply it by step.": (
        lambda x, step: round_away(x, step) / step
    ),
}


def numbers(step: float) -> Tensor:
    """Return float32 numbers of both signs: multiples of ``step``, ties, and others."""
    plain = torch.tensor([0.2, 0.7, 1.3, 2.0, 3.0, 3.9, -0.2, -0.7, -1.3, -2.0, -3.0, -3.9, 0.0])
    values = torch.cat((plain, torch.arange(-3.5, 4.0)))
    return step * values[torch.randperm(len(values), generator=generator())]


def is_translated(translation: Callable[..., Any]) -> Verdict | None:
    """Check the translation one operator at a time, and then as part of an exported file."""
    try:
        require_packages("onnx", "onnxruntime", "onnxscript")
    except MissingExtraError as error:
        return failed(str(error))
    for step in STEPS[:2]:
        if verdict := _evaluated(translation, step):
            return verdict
    last = int(torch.randint(1, len(STEPS), (), generator=generator()))
    return _in_a_file(translation, STEPS[last])


def _evaluated(translation: Callable[..., Any], step: float) -> Verdict | None:
    """Check the values if onnxscript evaluates the translation one operator at a time."""
    x, symbol = numbers(step), import_module("onnxscript.tensor").Tensor
    try:
        result = translation(symbol(x.numpy()), step)
    except TypeError as error:
        if "must be Tensor, not" not in str(error):
            raise
        return wrong(
            "it calls a function of torch. x is a value in an ONNX graph and not a PyTorch tensor. "
            "Only ONNX operators such as op.Abs and op.Mul accept it."
        )
    if not isinstance(result, symbol):
        return wrong(
            f"it returns {described(result)}, but this exercise asks for the result of the last "
            "ONNX operator."
        )
    return _compared(torch.from_numpy(result.value), x, step)


def _compared(y: Tensor, x: Tensor, step: float) -> Verdict | None:
    expected = round_away(x, step)
    if y.shape != x.shape or y.dtype != x.dtype:
        found = f"shape {tuple(y.shape)} and dtype {y.dtype}"
        return wrong(f"the result has {found}, but x has {tuple(x.shape)} and {x.dtype}.")
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
    """A model that calls the operator."""

    def __init__(self, operator: Any, step: float) -> None:
        super().__init__()
        self.operator, self.step = operator, step

    def forward(self, x: Tensor) -> Tensor:
        """Return the result of the operator."""
        rounded: Tensor = self.operator(x, self.step)
        return rounded


@cache
def operator() -> Any:
    """Register the operator on the first call, and return it."""
    made = torch.library.custom_op("course_grader::round_away", round_away, mutates_args=())
    made.register_fake(lambda x, step: torch.empty_like(x))
    return made


def _in_a_file(translation: Callable[..., Any], step: float) -> Verdict | None:
    """Export the operator with the translation, check the file, and run it in ONNX Runtime."""
    x, model = numbers(step), Rounded(operator(), step)
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
    return _compared(y, x, step) if isinstance(y, Tensor) else wrong("the file has 2 outputs.")


EXERCISE = RoutineExercise(
    answer="round_away_in_onnx",
    points=3,
    difficulty="medium",
    minutes=9,
    section="An operator of your own in ONNX",
    constraints="onnx.checker accepts the file, and ONNX Runtime computes the same values as the "
    "operator, including halves of both signs",
    reference=translate,
    trials=(is_translated,),
    seconds=120.0,
)
