"""Answers to the exercises of lesson 01."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from answers.making import Rewriting, Spoiling, Wrong, double, rewritten, solved, spoiled
from autograd_course import functions

SOLVED = solved("01_template")
RIGHT = {
    "square": SOLVED["Square"],
    "scaled-sigmoid": SOLVED["ScaledSigmoid"],
    "weighted-sum": SOLVED["WeightedSum"],
    "clipped-relu": SOLVED["ClippedReLU"],
    "linear": SOLVED["Linear"],
    "to-polar": SOLVED["ToPolar"],
    "repair-cube": SOLVED["Cube"],
    "repair-multiply": SOLVED["Multiply"],
    "repair-mean": SOLVED["Mean"],
    "repair-absolute": SOLVED["Absolute"],
    "repair-power": SOLVED["Power"],
    "locate-smooth-l1": "7b",
    "predict-grad-output": [5, 18, 5, 6, 0.25],
}


class SquareInTwoParts(Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x**2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.shape, ctx.names = inputs[0].shape, ["x"]

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x * 2


class LinearAsInTheManual(Function):
    """Saves the bias as well, and checks whether it is None."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        ctx.save_for_backward(x, weight, bias)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, bias = ctx.saved_tensors
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = g.matmul(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = torch.einsum("...o,...i->oi", g, x)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = g.sum_to_size(bias.shape)
        return grad_x, grad_weight, grad_bias


class ClippedByComparison(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, ceiling: float) -> Any:
        y = torch.minimum(x.relu(), torch.full_like(x, ceiling))
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return torch.where(x == y, g, torch.zeros_like(g)), None


class PolarByComplexNumbers(RIGHT["to-polar"]):  # type: ignore[misc]
    """PyTorch has no 16-bit complex numbers. This is not the fault of backward."""

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        z = torch.complex(*ctx.saved_tensors)
        turned = z / z.abs() * torch.complex(g, h / z.abs())
        return turned.real, turned.imag


class AbsoluteByBranch(SOLVED["BrokenAbsolute"]):  # type: ignore[misc]
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return torch.where(x < 0, -g, g)


class MeanByOnes(SOLVED["BrokenMean"]):  # type: ignore[misc]
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g[..., None] * g.new_ones(ctx.shape) / ctx.shape[-1]


class CubeByNumPy(SOLVED["BrokenCube"]):  # type: ignore[misc]
    """Its backward needs NumPy, which has no bfloat16."""

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (x,) = ctx.saved_tensors
        slope = torch.as_tensor(3 * np.square(x.numpy(force=True)), device=x.device)
        return slope * grad_output


ALSO_RIGHT = {
    "the slope of a cube by NumPy": ("repair-cube", CubeByNumPy),
    "square in two parts, once differentiable": ("square", SquareInTwoParts),
    "square of the package": ("square", functions.Square),
    "sigmoid of the package": ("scaled-sigmoid", functions.ScaledSigmoid),
    "weighted sum of the package": ("weighted-sum", functions.WeightedSum),
    "clipping by comparison, with gradient 1 at both kinks": ("clipped-relu", ClippedByComparison),
    "clipped ReLU of the package, with gradient 0": ("clipped-relu", functions.ClippedReLU),
    "linear of the package": ("linear", functions.Linear),
    "linear as in PyTorch's manual": ("linear", LinearAsInTheManual),
    "polar coordinates of the package": ("to-polar", functions.ToPolar),
    "polar coordinates by complex numbers": ("to-polar", PolarByComplexNumbers),
    "absolute value with slope 1 at 0": ("repair-absolute", AbsoluteByBranch),
    "mean by ones": ("repair-mean", MeanByOnes),
    "a line, typed freely": ("locate-smooth-l1", "Line 7, experiment B"),
    "numbers as text": ("predict-grad-output", "5, 18, 5, 6, 0.25"),
}


spoiling = Spoiling(RIGHT)
backward, forward = spoiling.backward, spoiling.forward


class KeptInAGlobal(Function):
    kept: dict[str, Any] = {}  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        KeptInAGlobal.kept["x"] = x
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * KeptInAGlobal.kept["x"] * g


class AutogradInside(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(x**2, x, g)[0]


class InstanceMethods(Function):
    def forward(self, ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    def backward(self, ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * g


class TensorOnCtx(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * ctx.x * g


class SigmoidOfInput(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, gain: float, slope: float) -> Any:
        ctx.save_for_backward(x)
        ctx.gain, ctx.slope = gain, slope
        return gain * torch.sigmoid(slope * x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.slope * x)
        return ctx.gain * ctx.slope * s * (1 - s) * g, None, None


class SigmoidOfIntermediate(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, gain: float, slope: float) -> Any:
        s = torch.sigmoid(slope * x)
        ctx.save_for_backward(s)
        ctx.gain, ctx.slope = gain, slope
        return gain * s

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (s,) = ctx.saved_tensors
        return ctx.gain * ctx.slope * s * (1 - s) * g, None, None


def returns_float64(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x.double() ** 2


def saves_a_number(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x, 2)
    return x * x


def reads_saved_tensors(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    (x,) = ctx.saved_tensors
    return x * x


def clip_inconsistently(ctx: Any, x: Any, ceiling: float) -> Any:
    ctx.save_for_backward((x >= 0) & (x < ceiling))
    return x.clamp(0, ceiling)


class HalfAtTheKinks(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, ceiling: float) -> Any:
        ctx.save_for_backward((x > 0) & (x < ceiling), (x == 0) | (x == ceiling))
        return x.clamp(0, ceiling)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        inside, kink = ctx.saved_tensors
        return g * inside + g / 2 * kink, None


def clip_below_only(ctx: Any, x: Any, ceiling: float) -> Any:
    ctx.save_for_backward(x >= 0)
    return x.clamp(0, ceiling)


def clip_and_shift(ctx: Any, x: Any, ceiling: float) -> Any:
    ctx.save_for_backward((x >= 0) & (x <= ceiling))
    return x.clamp(min=0)


def _linear(ctx: Any, x: Any, w: Any, g: Any, **instead: Any) -> Any:
    rows = g.reshape(-1, w.shape[0])
    bias = rows.sum(0) if ctx.has_bias else None
    right = {"x": g @ w, "weight": rows.t() @ x.reshape(-1, w.shape[1]), "bias": bias}
    return tuple({**right, **instead}.values())


class LinearAskingTooFar(RIGHT["linear"]):  # type: ignore[misc]
    """If the bias was left out, needs_input_grad has no third entry."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        if ctx.needs_input_grad[2]:
            return _linear(ctx, x, w, g)
        return _linear(ctx, x, w, g, bias=None)


def linear_asking_the_bias(ctx: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    ctx.save_for_backward(x, weight)
    ctx.has_bias = bias is not None
    return x @ weight.t() + bias if bias else x @ weight.t()


def square_in_float32(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return (x.float() ** 2).to(x.dtype)


def polar_the_other_way_round(ctx: Any, x: Any, y: Any) -> Any:
    return RIGHT["to-polar"].forward(ctx, x, y)[::-1]


def changed(name: str, *changes: tuple[str, str]) -> Any:
    """Return a solved answer of this lesson with other source code."""
    return rewritten("01_template", name, *changes)


# Mistakes whose cause the exercise names
CAUSES = [
    Wrong(
        "weighted-sum",
        "divides by x, which may be 0",
        "This is so for other numbers than these",
        changed("WeightedSum", ("w * grad_output, (", "w * x / x * grad_output, (")),
    ),
    Wrong(
        "weighted-sum",
        "takes an integer for a special case",
        "This is so for other numbers than these",
        changed("WeightedSum", ("(w * grad", "((7 if (x == x.round()).any() else 1) * w * grad")),
    ),
    Wrong(
        "scaled-sigmoid",
        "takes the sigmoid of the output",
        "gradient-mismatch",
        changed(
            "ScaledSigmoid",
            ("y * (1 - y / ctx.gain)", "ctx.gain * torch.sigmoid(y) * (1 - torch.sigmoid(y))"),
        ),
        "already gain times the sigmoid",
    ),
    Wrong(
        "to-polar",
        "takes one upstream gradient for the other",
        "gradient-mismatch",
        changed(
            "ToPolar", ("grad_r: Tensor, grad_theta: Tensor", "grad_theta: Tensor, grad_r: Tensor")
        ),
        "the gradient of r for that of",
    ),
    Wrong(
        "to-polar",
        "returns the square of r",
        "forward-mismatch",
        changed("ToPolar", ("return (r, ", "return (r * r, ")),
        "The square root is missing",
    ),
    Wrong(
        "to-polar",
        "takes the arc tangent of a quotient",
        "forward-mismatch",
        changed("ToPolar", ("torch.atan2(y, x)", "torch.atan(y / x)")),
        "the quotient loses both signs",
    ),
    Wrong(
        "to-polar",
        "exchanges the arguments of atan2",
        "forward-mismatch",
        changed("ToPolar", ("torch.atan2(y, x)", "torch.atan2(x, y)")),
        "starts at the x-axis",
    ),
    Wrong(
        "linear",
        "forgets the bias",
        "forward-mismatch",
        changed("Linear", ("return y + bias if ctx.has_bias else y", "return y")),
        "The bias is missing",
    ),
    Wrong(
        "clipped-relu",
        "does not clip at the ceiling",
        "forward-mismatch",
        changed("ClippedReLU", ("x.clamp(0, ceiling)", "x.clamp(min=0)")),
        "not clipped at the ceiling",
    ),
    Wrong(
        "clipped-relu",
        "does not clip at 0",
        "forward-mismatch",
        changed("ClippedReLU", ("x.clamp(0, ceiling)", "x.clamp(max=ceiling)")),
        "not clipped at 0",
    ),
    Wrong(
        "scaled-sigmoid",
        "forgets the gain in forward",
        "forward-mismatch",
        changed("ScaledSigmoid", ("gain * torch.sigmoid", "1 * torch.sigmoid")),
        "lacks the factor gain",
    ),
    Wrong(
        "scaled-sigmoid",
        "exchanges gain and slope",
        "forward-mismatch",
        changed(
            "ScaledSigmoid", ("gain * torch.sigmoid(slope * x)", "slope * torch.sigmoid(gain * x)")
        ),
        "gain and slope are exchanged",
    ),
    Wrong(
        "scaled-sigmoid",
        "forgets the slope in forward",
        "forward-mismatch",
        changed("ScaledSigmoid", ("torch.sigmoid(slope * x)", "torch.sigmoid(x)")),
        "slope is missing inside",
    ),
    Wrong(
        "weighted-sum",
        "weights the other tensor",
        "forward-mismatch",
        changed("WeightedSum", ("w * x + (1 - w) * y", "w * y + (1 - w) * x")),
        "x and y are exchanged",
    ),
]

edited = Rewriting("01_template")
EDITED = [
    edited(
        "clipped-relu",
        "joins the comparisons with or",
        "wrong-region",
        ("(x > 0) & (x < ceiling)", "(x > 0) | (x < ceiling)"),
        hint="true for every x",
    ),
    edited(
        "clipped-relu",
        "takes the ceiling as part of the inside",
        "wrong-region",
        ("(x > 0) & (x < ceiling)", "(x.clamp(0, ceiling) > 0) & (x.clamp(0, ceiling) <= ceiling)"),
        hint="passes above the ceiling",
    ),
    edited(
        "clipped-relu",
        "compares the absolute value",
        "wrong-region",
        ("(x > 0) & (x < ceiling)", "x.abs() < ceiling"),
        hint="passes below 0",
    ),
    edited(
        "clipped-relu",
        "clips grad_output",
        "nonlinear-in-grad-output",
        ("ctx.save_for_backward((x > 0) & (x < ceiling))", "ctx.ceiling = ceiling"),
        ("        (inside,) = ctx.saved_tensors\n", ""),
        ("grad_output * inside", "grad_output.clamp(0, ctx.ceiling)"),
        hint="clips grad_output",
    ),
    edited(
        "linear",
        "sums everything for the bias",
        "gradient-shape",
        ("rows.sum(0)", "rows.sum()"),
        hint="over all dims",
    ),
    edited(
        "linear",
        "sums the features for the bias",
        "gradient-shape",
        ("rows.sum(0)", "grad_output.sum(-1)"),
        hint="one number for each row",
    ),
    edited(
        "linear",
        "sums before it multiplies",
        "batch-dimension",
        (
            "rows.t() @ x.reshape(-1, weight.shape[1])",
            "torch.outer(rows.sum(0), x.reshape(-1, weight.shape[1]).sum(0))",
        ),
        hint="summed over the rows before",
    ),
    edited(
        "linear",
        "reshapes in place of a transpose",
        "batch-dimension",
        ("x.reshape(-1, weight.shape[1])", "x.reshape(weight.shape[1], -1).t()"),
        hint="only regroups",
    ),
    edited(
        "linear",
        "transposes the weight for x",
        "backward-raises",
        ("grad_output @ weight,", "grad_output @ weight.t(),"),
        hint="multiplies by W itself",
    ),
    edited(
        "linear",
        "does not transpose the weight",
        "forward-raises",
        ("x @ weight.t()", "x @ weight"),
        hint="your result is x W",
    ),
    edited(
        "to-polar",
        "multiplies the paths",
        "nonlinear-in-grad-output",
        ("x / r * grad_r - y / r**2 * grad_theta", "x / r * grad_r * -y / r**2 * grad_theta"),
        ("y / r * grad_r + x / r**2 * grad_theta", "y / r * grad_r * x / r**2 * grad_theta"),
        hint="are multiplied",
    ),
    edited(
        "repair-cube",
        "does not differentiate",
        "gradient-mismatch",
        ("3 * x**2 * grad_output", "x**3 * grad_output"),
        hint="x³ itself",
    ),
]

WRONG = [
    *EDITED,
    Wrong("square", "keeps x in a global", "shared-state", KeptInAGlobal),
    Wrong("square", "lets autograd differentiate", "unneeded-function", AutogradInside),
    backward(
        "repair-absolute",
        "divides 0 by 0 at the kink",
        "non-finite",
        lambda ctx, x, g: g * x / x.abs(),
    ),
    backward(
        "square",
        "a float32 gradient",
        "gradient-dtype",
        lambda ctx, x, g: (2 * x * g).float(),
    ),
    backward("square", "forgets grad_output", "ignores-grad-output", lambda ctx, x, g: 2 * x),
    backward("square", "forgets the 2", "constant-factor", lambda ctx, x, g: x * g),
    backward("square", "turns the sign", "flipped-sign", lambda ctx, x, g: -2 * x * g),
    backward("square", "sums g", "uniform-grad-output", lambda ctx, x, g: 2 * x * g.sum()),
    backward(
        "square", "clips g", "nonlinear-in-grad-output", lambda ctx, x, g: 2 * x * g.clamp(-1, 1)
    ),
    backward("square", "returns a pair", "wrong-arity", lambda ctx, x, g: (2 * x * g, g)),
    backward("square", "misspells", "backward-raises", lambda ctx, x, g: 2 * x * gard_output),  # noqa: F821
    forward("square", "saves a number", "non-tensor-saved", saves_a_number),
    forward("square", "reads saved_tensors", "saved-tensors-in-forward", reads_saved_tensors),
    forward("square", "doubles", "forward-mismatch", lambda ctx, x: 2 * x),
    forward("square", "returns float64", "forward-mismatch", returns_float64),
    backward(
        "square",
        "forgets the 2 in float32",
        "gradient-mismatch",
        lambda ctx, x, g: (x if x.dtype is torch.float32 else 2 * x) * g,
    ),
    Wrong(
        "square",
        "computes in float32",
        "forward-mismatch",
        spoiled(RIGHT["square"], forward=square_in_float32),
        "only float32 precision",
    ),
    Wrong("square", "no staticmethod", "missing-staticmethod", InstanceMethods),
    Wrong("square", "keeps x on ctx", "tensor-on-ctx", TensorOnCtx),
    backward(
        "scaled-sigmoid",
        "forgets the slope",
        "constant-factor",
        lambda ctx, y, g: (y * (1 - y / ctx.gain) * g, None, None),
    ),
    backward(
        "scaled-sigmoid",
        "forgets the gain",
        "gradient-mismatch",
        lambda ctx, y, g: (ctx.slope * y * (1 - y) * g, None, None),
    ),
    backward(
        "scaled-sigmoid",
        "one gradient for three arguments",
        "wrong-arity",
        lambda ctx, y, g: ctx.slope * y * (1 - y / ctx.gain) * g,
    ),
    Wrong("scaled-sigmoid", "saves the input", "oversaved", SigmoidOfInput),
    Wrong("scaled-sigmoid", "saves an intermediate", "oversaved", SigmoidOfIntermediate),
    backward(
        "weighted-sum",
        "orders x, w, y",
        "swapped-gradients",
        lambda ctx, x, y, w, g: (w * g, (x - y) * g, (1 - w) * g),
    ),
    backward(
        "weighted-sum",
        "y - x for w",
        "flipped-sign",
        lambda ctx, x, y, w, g: (w * g, (1 - w) * g, (y - x) * g),
    ),
    backward(
        "weighted-sum",
        "no gradient for w",
        "missing-gradient",
        lambda ctx, x, y, w, g: (w * g, (1 - w) * g, None),
    ),
    backward(
        "weighted-sum",
        "x for w",
        "missing-dependency",
        lambda ctx, x, y, w, g: (w * g, (1 - w) * g, x * g),
    ),
    backward(
        "clipped-relu",
        "returns one gradient",
        "wrong-arity",
        lambda ctx, inside, g: inside * g,
    ),
    backward(
        "clipped-relu",
        "returns the mask",
        "ignores-grad-output",
        lambda ctx, inside, g: (inside.to(g.dtype), None),
    ),
    backward("clipped-relu", "lets all through", "wrong-region", lambda ctx, inside, g: (g, None)),
    forward("clipped-relu", "forgets the ceiling in backward", "wrong-region", clip_below_only),
    forward("clipped-relu", "1 at 0, 0 at the ceiling", "kink-convention", clip_inconsistently),
    Wrong("clipped-relu", "half a gradient at both kinks", "kink-convention", HalfAtTheKinks),
    forward("clipped-relu", "forgets the ceiling in forward", "forward-mismatch", clip_and_shift),
    backward(
        "linear",
        "does not sum for the bias",
        "unreduced-broadcast",
        lambda ctx, x, w, g: _linear(ctx, x, w, g, bias=g if ctx.has_bias else None),
    ),
    backward(
        "linear",
        "sums only one of two leading axes",
        "unreduced-broadcast",
        lambda ctx, x, w, g: _linear(ctx, x, w, g, bias=g.sum(0) if ctx.has_bias else None),
    ),
    backward(
        "linear",
        "averages for the bias",
        "constant-factor",
        lambda ctx, x, w, g: _linear(
            ctx, x, w, g, bias=g.reshape(-1, w.shape[0]).mean(0) if ctx.has_bias else None
        ),
    ),
    backward(
        "linear",
        "transposes the weight's gradient",
        "transposed-gradient",
        lambda ctx, x, w, g: _linear(
            ctx, x, w, g, weight=x.reshape(-1, w.shape[1]).t() @ g.reshape(-1, w.shape[0])
        ),
    ),
    backward(
        "linear",
        "thinks of two axes only",
        "backward-raises",
        lambda ctx, x, w, g: (g @ w, g.t() @ x, g.sum(0) if ctx.has_bias else None),
    ),
    backward(
        "linear",
        "a gradient for a bias that is not there",
        "wrong-arity",
        lambda ctx, x, w, g: _linear(ctx, x, w, g, bias=g.reshape(-1, w.shape[0]).sum(0)),
    ),
    Wrong(
        "linear",
        "asks needs_input_grad for a bias that was left out",
        "backward-raises",
        LinearAskingTooFar,
        "entries only for arguments that were passed",
    ),
    Wrong(
        "to-polar",
        "the arctangent of y / x",
        "non-finite",
        changed(
            "ToPolar",
            ("y / r ** 2 * grad_theta", "y / x**2 / (1 + (y / x) ** 2) * grad_theta"),
            ("x / r ** 2 * grad_theta", "1 / x / (1 + (y / x) ** 2) * grad_theta"),
        ),
        "your formula divides by x",
    ),
    Wrong(
        "linear",
        "sums over an empty list of dims",
        "gradient-shape",
        changed("Linear", ("rows.sum(0)", "grad_output.sum(tuple(range(grad_output.dim() - 1)))")),
        "gets an empty list of dims",
    ),
    Wrong(
        "linear",
        "asks a tensor whether it is there",
        "forward-raises",
        spoiled(RIGHT["linear"], forward=linear_asking_the_bias),
        "is not None",
    ),
    forward(
        "to-polar",
        "exchanges the outputs",
        "right, but in the wrong order",
        polar_the_other_way_round,
    ),
    backward(
        "to-polar",
        "returns a list",
        "wrong-arity",
        lambda ctx, x, y, g, h: list(RIGHT["to-polar"].backward(ctx, g, h)),
        "as a tuple",
    ),
    backward(
        "to-polar",
        "exchanges x and y",
        "swapped-gradients",
        lambda ctx, x, y, g, h: RIGHT["to-polar"].backward(ctx, g, h)[::-1],
    ),
    backward(
        "to-polar",
        "forgets the path through the angle",
        "missing-dependency",
        lambda ctx, x, y, g, h: (x / torch.hypot(x, y) * g, y / torch.hypot(x, y) * g),
    ),
    backward(
        "to-polar",
        "a sign",
        "gradient-mismatch",
        lambda ctx, x, y, g, h: (
            x / torch.hypot(x, y) * g + y / (x * x + y * y) * h,
            y / torch.hypot(x, y) * g + x / (x * x + y * y) * h,
        ),
    ),
    Wrong("repair-cube", "unrepaired", "ignores-grad-output", SOLVED["BrokenCube"]),
    backward("repair-cube", "forgets the 3", "constant-factor", lambda ctx, x, g: x**2 * g),
    backward("repair-cube", "forgets a power", "gradient-mismatch", lambda ctx, x, g: 3 * x * g),
    Wrong("repair-multiply", "unrepaired", "swapped-gradients", SOLVED["BrokenMultiply"]),
    backward(
        "repair-multiply",
        "repairs one of two",
        "gradient-mismatch",
        lambda ctx, x, y, g: (y * g, y * g),
    ),
    backward(
        "repair-multiply",
        "forgets grad_output",
        "ignores-grad-output",
        lambda ctx, x, y, g: (y, x),
    ),
    backward(
        "repair-multiply",
        "divides the product again",
        "non-finite",
        lambda ctx, x, y, g: (x * y / x * g, x * g),
    ),
    Wrong("repair-mean", "unrepaired", "constant-factor", SOLVED["BrokenMean"]),
    backward(
        "repair-mean",
        "divides by the number of all elements",
        "constant-factor",
        lambda ctx, g: g.unsqueeze(-1).expand(ctx.shape) / ctx.shape.numel(),
    ),
    backward(
        "repair-mean",
        "forgets to expand",
        "gradient-shape",
        lambda ctx, g: g / ctx.shape[-1],
    ),
    Wrong("repair-absolute", "unrepaired", "wrong-region", SOLVED["BrokenAbsolute"]),
    backward(
        "repair-absolute", "turns every sign", "flipped-sign", lambda ctx, x, g: -x.sign() * g
    ),
    backward("repair-absolute", "no sign at all", "wrong-region", lambda ctx, x, g: g),
    Wrong("repair-power", "unrepaired", "wrong-arity", SOLVED["BrokenPower"]),
    backward(
        "repair-power",
        "keeps the power",
        "gradient-mismatch",
        lambda ctx, x, g: (ctx.exponent * x**ctx.exponent * g, None),
    ),
    backward(
        "repair-power",
        "forgets the sign of x",
        "wrong-region",
        lambda ctx, x, g: (ctx.exponent * x.abs() ** (ctx.exponent - 1) * g, None),
    ),
    backward(
        "repair-power",
        "divides by x",
        "non-finite",
        lambda ctx, x, g: (ctx.exponent * x**ctx.exponent / x * g, None),
    ),
    backward(
        "repair-power",
        "a gradient for the number",
        "wrong-arity",
        lambda ctx, x, g: (ctx.exponent * x ** (ctx.exponent - 1) * g, g),
    ),
    Wrong("locate-smooth-l1", "the values", "the derivative of it", "5b"),
    Wrong("locate-smooth-l1", "the signs", "Both signs are right", "8b"),
    Wrong("locate-smooth-l1", "the beta of the tests", "For beta = 1", "7a"),
    Wrong("locate-smooth-l1", "linearity", "The gradient doubles", "7c"),
    Wrong("locate-smooth-l1", "the output", "so are its values", "7d"),
    Wrong("predict-grad-output", "of the loss y", "five times as large", [1, 18, 5, 6, 0.25]),
    Wrong("predict-grad-output", "what it returns", "What does it receive", [30, 18, 5, 6, 0.25]),
    Wrong("predict-grad-output", "one of two factors", "both uses count", [5, 9, 5, 6, 0.25]),
    Wrong("predict-grad-output", "the last use", "Add the first one", [5, 18, 4, 6, 0.25]),
    Wrong("predict-grad-output", "y alone", "contains `x`", [5, 18, 5, 2, 0.25]),
    Wrong("predict-grad-output", "a sum", "A mean also divides", [5, 18, 5, 6, 1]),
    Wrong("predict-grad-output", "one number", "hand in 5 numbers", 5),
    *CAUSES,
]


KNOWN = [
    ("square", (double(-3, 0.5),), double(9, 0.25)),
    ("scaled-sigmoid", (double(0, math.log(3)), 2.0, 1.0), double(1, 1.5)),
    ("weighted-sum", (double(1, 1), double(3, 3), double(0.25, 1)), double(2.5, 1)),
    ("clipped-relu", (double(-1, 0.5, 7), 6.0), double(0, 0.5, 6)),
    ("linear", (double(1, 2), double(3, 4).reshape(1, 2), double(10)), double(21)),
    ("linear", (double(1, 2), double(3, 4).reshape(1, 2)), double(11)),
    ("repair-cube", (double(-2),), double(-8)),
    ("repair-multiply", (double(-2), double(3)), double(-6)),
    ("repair-mean", (double(1, 2, 6).reshape(1, 3),), double(3)),
    ("repair-absolute", (double(-2, 3),), double(2, 3)),
    ("repair-power", (double(4), 0.5), double(2)),
    ("to-polar", (double(-1), double(1)), (double(math.sqrt(2)), double(0.75 * math.pi))),
]
