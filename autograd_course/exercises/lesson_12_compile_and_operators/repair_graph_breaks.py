"""Repair: graph breaks

1. Read both methods line by line. Which lines need the value of a tensor, and which lines do more
   than compute?
2. Replace the branch by torch.where, which computes both sides and selects elementwise. Remove the
   counter. Write backward as a formula instead of calling autograd. What is the slope on each of
   the three pieces?
3. forward returns torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2)). backward
   returns x.clamp(-delta, delta) * grad_output, and None for delta.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.extension import describe_error
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import huber_loss

from autograd_course.calls import as_tuple
from autograd_course.execution import differentiable
from autograd_course.grader.checks.calling import backward, found
from autograd_course.grader.compiling import compile_unbroken, silence
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around
from autograd_course.grader.suspecting import returning

Piece = Callable[[Tensor, float], Tensor]
Region = Callable[[Tensor, float], Tensor]


def huber(x: Tensor, delta: float) -> Tensor:
    """Return ``x²/2`` where ``|x| ≤ delta``, and the tangent line elsewhere."""
    return huber_loss(x, torch.zeros_like(x), reduction="none", delta=delta)


def errors(rng: torch.Generator, delta: float, *shape: int) -> tuple[Tensor, float]:
    """Return numbers on both sides of each kink, and ``delta``."""
    return around(rng, (-delta, delta), *shape), delta


def pieces(inside: Piece, outside: Piece, region: Region = lambda x, d: x.abs() <= d) -> Piece:
    """Return a suspect that computes ``inside`` in ``region``, and ``outside`` elsewhere."""
    return lambda x, d: torch.where(region(x, d), inside(x, d), outside(x, d))


def slopes(inside: Piece, outside: Piece, region: Region = lambda x, d: x.abs() <= d) -> Piece:
    """Return a suspect whose slope is ``inside`` in ``region``, and ``outside`` elsewhere."""
    slope = pieces(inside, outside, region)
    return returning(huber, lambda x, d, g: slope(x, d) * g)


def parabola(x: Tensor, _: float) -> Tensor:
    """Return the piece near zero."""
    return x**2 / 2


def line(x: Tensor, delta: float) -> Tensor:
    """Return the piece beyond delta."""
    return delta * (x.abs() - delta / 2)


def itself(x: Tensor, _: float) -> Tensor:
    """Return the slope near zero."""
    return x


def signed(x: Tensor, delta: float) -> Tensor:
    """Return the slope beyond delta."""
    return delta * x.sign()


SUSPECTS: Mapping[str, Piece] = {
    "The condition has no absolute value, so very negative elements are on the parabola.": pieces(
        parabola, line, lambda x, d: x <= d
    ),
    "The two pieces are exchanged. torch.where takes the value for True first.": pieces(
        line, parabola
    ),
    "The parabola is not divided by 2.": pieces(lambda x, d: x**2, line),
    "The line has x without the absolute value, so it is wrong for negative elements.": pieces(
        parabola, lambda x, d: d * (x - d / 2)
    ),
    "The line subtracts delta where it must subtract half of delta.": pieces(
        parabola, lambda x, d: d * (x.abs() - d)
    ),
    "The line does not subtract half of delta, so it does not meet the parabola.": pieces(
        parabola, lambda x, d: d * x.abs()
    ),
    "The line is not multiplied by delta.": pieces(parabola, lambda x, d: x.abs() - d / 2),
    "Only |x| is multiplied by delta. The half of delta must be multiplied too.": pieces(
        parabola, lambda x, d: d * x.abs() - d / 2
    ),
    "All elements are on the parabola. Beyond delta, the loss is a line.": parabola,
    "All elements are on the line. Near zero, the loss is a parabola.": line,
}
GRADIENT_SUSPECTS: Mapping[str, Piece] = {
    "The slope is x everywhere. Beyond delta, the loss is a line, so its slope is constant.": (
        slopes(itself, itself)
    ),
    "The slope beyond delta is 0, but the line rises. Its slope is delta times a sign.": slopes(
        itself, lambda x, d: torch.zeros_like(x)
    ),
    "The slope beyond delta has no sign. For very negative elements, it is -delta.": slopes(
        itself, lambda x, d: torch.full_like(x, d)
    ),
    "The slope beyond delta is the sign of x alone. The line is multiplied by delta.": slopes(
        itself, lambda x, d: x.sign()
    ),
    "The slope beyond delta contains |x|. The line has a constant slope.": slopes(
        itself, lambda x, d: d * x.abs()
    ),
    "The slope beyond delta is the value of the line. Differentiate it by x.": slopes(itself, line),
    "The slope is 1 or -1 at most. Its limits must be delta and -delta.": (
        slopes(itself, lambda x, d: x.clamp(-1, 1), lambda x, d: torch.zeros_like(x).bool())
    ),
    "The slope has no lower limit. For very negative elements, it is -delta.": slopes(
        itself, signed, lambda x, d: x <= d
    ),
    "The slope has no upper limit. For very large elements, it is delta.": slopes(
        itself, signed, lambda x, d: x >= -d
    ),
    "The slope of the parabola is twice too large. The derivative of x² / 2 is x.": slopes(
        lambda x, d: 2 * x, signed
    ),
    "The slope of the parabola is half of what it must be. The derivative of x² / 2 is x.": slopes(
        lambda x, d: x / 2, signed
    ),
    "The slopes of the two pieces are exchanged.": slopes(signed, itself),
    "backward multiplies by the value of the loss. It must multiply by the slope.": slopes(
        parabola, line
    ),
}

SECONDS = 120.0  # on a busy machine, the imports of the first torch.compile take half a minute


# Maps a part of the compiler's message to an explanation of the line.
BREAKS = {
    "Data-dependent branching": "This line decides by the values of a tensor, and during tracing "
    "there are none. Compute both sides, and select elementwise with `torch.where`.",
    "Tensor.item()": "This line needs the value of a tensor as a number, and during tracing there "
    "is none. Keep the result as a tensor, or leave the line out.",
    "output shape depends on input": "A mask that picks elements gives a tensor whose size depends "
    "on the values, and during tracing there are none. Compute all elements with `torch.where`.",
    "`print`": "This line prints, which a graph cannot do. Leave it out.",
    "torch.autograd.grad": "This line lets autograd compute the slope, which the compiler cannot "
    "trace in `backward`. Write the slope of each piece as a formula.",
    "compiler.disable": "The decorator tells the compiler to leave the method out. This breaks the "
    "graph. Remove it, and write lines that the compiler can trace.",
}
ASSIGNED = re.compile(r": *(\w+\.\w+|\w+\[.*\]) *[-+*]?= ")
STATE = (
    "This line changes something that outlives the call, such as a counter. A graph only computes "
    "tensors. Leave the line out."
)
OTHER = (
    "During tracing, tensors have no values, and side effects are lost. Select values with "
    "`torch.where` instead of `if`. Avoid shapes that depend on values, such as the number of "
    "elements that a mask selects. Write `backward` as a formula."
)


def compiles_whole(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that PyTorch can trace forward and backward, each as a single graph."""
    try:
        with silence():
            backward(list(as_tuple(compile_unbroken(function.apply)(*differentiable(inputs)))))
    except Exception as error:
        failure = describe_error(error)
        return found(
            "compile-mismatch",
            "The results are right, but `torch.compile` cannot trace the call into a single "
            f"graph: {failure.text}",
            {}
            if failure.line.startswith("compiles_whole")
            else {"exception": failure.kind, "text": failure.text, "line": failure.line},
            next((hint for words, hint in BREAKS.items() if words in failure.text), "")
            or (STATE if ASSIGNED.search(failure.line) else OTHER),
        )
    return None


EXERCISE = FunctionExercise(
    answer="Huber",
    points=2,
    difficulty="medium",
    minutes=10,
    section="Graph breaks",
    constraints="torch.compile makes one graph of it",
    reference=huber,
    samplers={
        "a 3×5 matrix": lambda rng: errors(rng, 0.8, 3, 5),
        "a vector, a small delta": lambda rng: errors(rng, 0.25, 6),
        "three dims, one of length 1": lambda rng: errors(rng, 2.0, 2, 1, 3),
    },
    suspects=SUSPECTS,
    gradient_suspects=GRADIENT_SUSPECTS,
    methods=("setup_context",),
    checks=(compiles_whole,),
    seconds=SECONDS,
)
