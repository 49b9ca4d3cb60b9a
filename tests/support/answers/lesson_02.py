"""Answers to the exercises of lesson 02."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from answers.making import Rewriting, Spoiling, Wrong, combined, double, rewritten, solved
from autograd_course import functions

SOLVED = solved("02_ctx_rules")
RIGHT = {
    "snake": SOLVED["Snake"],
    "strided-gain": SOLVED["StridedGain"],
    "leaky-relu-in-place": SOLVED["LeakyReLUInPlace"],
    "sort-with-indices": SOLVED["SortWithIndices"],
    "frozen-target": SOLVED["FrozenTargetLoss"],
    "card-skip-connection": "4c",
    "card-two-outputs": "5b",
    "card-gradient-scale": "1d",
    "card-twins": "1a",
    "predict-backward-calls": [2, 1, 2, 0],
}


class SnakeByTheProductOfSineAndCosine(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, a: float) -> Any:
        ctx.save_for_backward(x)
        ctx.a = a
        return x + torch.sin(a * x).square() / a

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g + 2 * g * torch.sin(ctx.a * x) * torch.cos(ctx.a * x), None


class StridedGainInTwoParts(Function):
    """The flag decides what forward saves, and needs_input_grad decides what backward computes."""

    @staticmethod
    def forward(x: Any, gain: Any, stride: int, training: bool) -> Any:
        kept = x[..., ::stride]
        return kept * gain if training else kept.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, gain, ctx.stride, training = inputs
        ctx.save_for_backward(*((x, gain) if training else ()))
        ctx.length = x.shape[-1]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, gain = ctx.saved_tensors or (None, None)
        grad_x = grad_gain = None
        if ctx.needs_input_grad[0]:
            along = g if gain is None else g * gain
            grad_x = torch.zeros(*g.shape[:-1], ctx.length, dtype=g.dtype, device=g.device)
            places = torch.arange(0, ctx.length, ctx.stride, device=g.device)
            grad_x = grad_x.index_copy(-1, places, along)
        if gain is not None and ctx.needs_input_grad[1]:
            grad_gain = g * x[..., :: ctx.stride]
        return grad_x, grad_gain, None, None


class StridedGainSavingInForwardOnly(combined(RIGHT["strided-gain"])):  # type: ignore[misc]
    """forward has only one return statement. If there is no gain, it multiplies by one."""

    @staticmethod
    def forward(ctx: Any, x: Any, gain: Any, stride: int, training: bool) -> Any:
        ctx.shape, ctx.stride, ctx.training = x.shape, stride, training
        if training:
            ctx.save_for_backward(x, gain)
        return x[..., ::stride] * (gain if training else 1)


class LeakyWithMask(Function):
    """Saves the mask x > 0, and uses the built-in function with an underscore."""

    @staticmethod
    def forward(ctx: Any, x: Any, slope: float) -> Any:
        ctx.save_for_backward(x > 0)
        ctx.slope = slope
        ctx.mark_dirty(x)
        return torch.nn.functional.leaky_relu_(x, slope)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (positive,) = ctx.saved_tensors
        return g * positive + ctx.slope * g * ~positive, None


class LeakyWithFactor(Function):
    """Multiplies by a factor. If x has no dims, PyTorch gives this factor the default dtype."""

    @staticmethod
    def forward(ctx: Any, x: Any, slope: float) -> Any:
        ctx.mark_dirty(x)
        x.mul_(torch.where(x > 0, 1.0, slope))
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return torch.where(y > 0, g, ctx.slope * g), None


class SortByInverse(Function):
    """Gathers with the inverse permutation, which is the same as scattering."""

    @staticmethod
    def forward(ctx: Any, x: Any, descending: bool = False) -> Any:
        values, indices = x.sort(descending=descending)
        ctx.save_for_backward(indices)
        return values, indices

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        return g.gather(-1, ctx.saved_tensors[0].argsort(-1)), None


class FrozenTargetByDifference(Function):
    """Backward needs only one product of the saved tensors, which it computes when it is needed."""

    @staticmethod
    def forward(ctx: Any, prediction: Any, target: Any, weight: Any) -> Any:
        error = prediction - target
        ctx.save_for_backward(prediction, target, weight)
        ctx.n = error.numel()
        return (weight * error.square()).sum() / ctx.n

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        grad = None
        if ctx.needs_input_grad[0]:
            prediction, target, weight = ctx.saved_tensors
            grad = g * (2 / ctx.n) * weight * (prediction - target)
        return grad, None, None


ALSO_RIGHT = {
    "snake by sine and cosine": ("snake", SnakeByTheProductOfSineAndCosine),
    "strided gain by setup_context": ("strided-gain", StridedGainInTwoParts),
    "strided gain times one": ("strided-gain", StridedGainSavingInForwardOnly),
    "leaky relu in place with a mask": ("leaky-relu-in-place", LeakyWithMask),
    "leaky relu in place with a factor": ("leaky-relu-in-place", LeakyWithFactor),
    "leaky relu in place of the package": ("leaky-relu-in-place", functions.LeakyReLUInPlace),
    "sort by the inverse permutation": ("sort-with-indices", SortByInverse),
    "sort of the package": ("sort-with-indices", functions.Sort),
    "frozen target with n on ctx": ("frozen-target", FrozenTargetByDifference),
    "numbers as text": ("predict-backward-calls", "2, 1, 2, 0"),
    "a card, typed freely": ("card-twins", " Line 1, experiment A"),
    "the other line of two": ("card-twins", "3a"),
    "the line that asks for None": ("card-two-outputs", "1b"),
}

spoiling = Spoiling(RIGHT)
backward, forward = spoiling.backward, spoiling.forward


def snake_saves_the_number(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


class SnakeOnCtx(RIGHT["snake"]):  # type: ignore[misc]
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.x, ctx.a = inputs

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (1 + torch.sin(2 * ctx.a * ctx.x)), None


class SnakeSavingTheSine(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, a: float) -> Any:
        sine = torch.sin(a * x)
        ctx.save_for_backward(x, sine)
        ctx.a = a
        return x + sine**2 / a

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, sine = ctx.saved_tensors
        return g * (1 + 2 * sine * torch.cos(ctx.a * x)), None


def gain_saves_everything(ctx: Any, x: Any, gain: Any, stride: int, training: bool) -> Any:
    ctx.save_for_backward(x, gain, stride)
    return x[..., ::stride] * gain if training else x[..., ::stride].clone()


def gain_saves_always(ctx: Any, x: Any, gain: Any, stride: int, training: bool) -> Any:
    ctx.shape, ctx.stride, ctx.training = x.shape, stride, training
    ctx.save_for_backward(x, gain)
    kept = x[..., ::stride]
    return kept * gain if training else kept.clone()


def gain_returns_the_slice(ctx: Any, x: Any, gain: Any, stride: int, training: bool) -> Any:
    ctx.shape, ctx.stride, ctx.training = x.shape, stride, training
    kept = x[..., ::stride]
    if training:
        ctx.save_for_backward(x, gain)
    return kept * gain if training else kept


def gain_made_contiguous(ctx: Any, x: Any, gain: Any, stride: int, training: bool) -> Any:
    """With stride 1, the slice is already contiguous, so this makes no copy."""
    ctx.shape, ctx.stride, ctx.training = x.shape, stride, training
    if training:
        ctx.save_for_backward(x, gain)
    kept = x[..., ::stride].contiguous()
    return kept * gain if training else kept


class GainOnCtx(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, gain: Any, stride: int, training: bool) -> Any:
        ctx.x, ctx.gain, ctx.stride, ctx.training = x, gain, stride, training
        return x[..., ::stride] * gain if training else x[..., ::stride].clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        grad_x = torch.zeros_like(ctx.x)
        grad_x[..., :: ctx.stride] = g * ctx.gain if ctx.training else g
        return grad_x, g * ctx.x[..., :: ctx.stride] if ctx.training else None, None, None


def _gain(ctx: Any, g: Any, **instead: Any) -> Any:
    right = RIGHT["strided-gain"].backward(ctx, g)
    return tuple({**dict(zip(("x", "gain", "a", "b"), right, strict=True)), **instead}.values())


def gain_in_evaluation_too(ctx: Any, *saved_and_g: Any) -> Any:
    *saved, g = saved_and_g
    return _gain(ctx, g) if saved else _gain(ctx, g, gain=g)


def gain_asks_nothing(ctx: Any, *saved_and_g: Any) -> Any:
    *saved, g = saved_and_g
    grad_x = g.new_zeros(ctx.shape)
    grad_x[..., :: ctx.stride] = g * saved[1] if saved else g
    return grad_x, g * saved[0][..., :: ctx.stride] if saved else None, None, None


def gain_forgets_to_spread(ctx: Any, *saved_and_g: Any) -> Any:
    *saved, g = saved_and_g
    return _gain(ctx, g, x=g * saved[1] if saved else g)


def gain_keeps_x_in_evaluation(ctx: Any, x: Any, gain: Any, stride: int, training: bool) -> Any:
    if not training:
        ctx.x = x
    return combined(RIGHT["strided-gain"]).forward(ctx, x, gain, stride, training)


def leaky_unmarked(ctx: Any, x: Any, slope: float) -> Any:
    x.mul_(torch.where(x > 0, 1.0, slope))
    ctx.save_for_backward(x)
    ctx.slope = slope
    return x


def leaky_marks_and_returns_new(ctx: Any, x: Any, slope: float) -> Any:
    y = torch.where(x > 0, x, slope * x)
    ctx.mark_dirty(x)
    ctx.save_for_backward(y)
    ctx.slope = slope
    return y


def leaky_not_in_place(ctx: Any, x: Any, slope: float) -> Any:
    y = torch.where(x > 0, x, slope * x)
    ctx.save_for_backward(y)
    ctx.slope = slope
    return y


def leaky_in_other_memory(ctx: Any, x: Any, slope: float) -> Any:
    x.data = torch.where(x > 0, x, slope * x)
    ctx.mark_dirty(x)
    ctx.save_for_backward(x)
    ctx.slope = slope
    return x


def leaky_saves_a_copy_on_ctx(ctx: Any, x: Any, slope: float) -> Any:
    ctx.slope, ctx.y = slope, x
    x.mul_(torch.where(x > 0, 1.0, slope))
    ctx.mark_dirty(x)
    return x


class LeakyOnCtx(Function):
    forward = staticmethod(leaky_saves_a_copy_on_ctx)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return torch.where(ctx.y > 0, g, ctx.slope * g), None


class SortOneGradient(RIGHT["sort-with-indices"]):  # type: ignore[misc]
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (indices,) = ctx.saved_tensors
        return torch.zeros_like(g).scatter(-1, indices, g), None


def sort_saves_the_input_too(ctx: Any, x: Any, descending: bool = False) -> Any:
    values, indices = torch.sort(x, dim=-1, descending=descending)
    ctx.save_for_backward(x, indices)
    return values, indices


class SortSavingInput(Function):
    forward = staticmethod(sort_saves_the_input_too)

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        x, indices = ctx.saved_tensors
        return torch.zeros_like(x).scatter(-1, indices, g), None


class SortingAgain(Function):
    """Saves as many bytes as the indices have, and sorts a second time."""

    @staticmethod
    def forward(ctx: Any, x: Any, descending: bool = False) -> Any:
        ctx.save_for_backward(x)
        ctx.descending = descending
        return tuple(torch.sort(x, -1, descending))

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        (x,) = ctx.saved_tensors
        places = x.argsort(-1, descending=ctx.descending)
        return torch.zeros_like(g).scatter(-1, places, g), None


def sort_marks_the_values(ctx: Any, x: Any, descending: bool = False) -> Any:
    values, indices = torch.sort(x, dim=-1, descending=descending)
    ctx.mark_non_differentiable(values, indices)
    ctx.save_for_backward(indices)
    return values, indices


def _loss(p: Any, t: Any, w: Any, g: Any) -> Any:
    return 2 * w * (p - t) * g / p.numel()


def changed(name: str, *changes: tuple[str, str]) -> Any:
    """Return a solved answer of this lesson with other source code."""
    return rewritten("02_ctx_rules", name, *changes)


# Mistakes whose cause the exercise names
CAUSES = [
    Wrong(
        "snake",
        "saves the number as a tensor",
        "gradient-dtype",
        changed(
            "Snake",
            ("ctx.save_for_backward(x)", "ctx.save_for_backward(x, torch.tensor(a))"),
            ("x, = ctx.saved_tensors", "x, a = ctx.saved_tensors"),
            ("ctx.a * x", "a * x"),
        ),
        "Store a Python number",
    ),
    Wrong(
        "snake",
        "saves a product in place of x",
        "oversaved",
        changed(
            "Snake",
            ("ctx.save_for_backward(x)", "ctx.save_for_backward(a * x)"),
            ("2 * ctx.a * x", "2 * x"),
        ),
        "memory must hold it",
    ),
    Wrong(
        "snake",
        "forgets the 2 inside the sine",
        "gradient-mismatch",
        changed("Snake", ("2 * ctx.a * x", "ctx.a * x")),
        "The factor 2 inside",
    ),
    Wrong(
        "snake",
        "keeps the inner derivative a",
        "gradient-mismatch",
        changed("Snake", ("torch.sin(2", "ctx.a * torch.sin(2")),
        "only inside the sine",
    ),
    Wrong(
        "snake",
        "forgets a inside the sine",
        "gradient-mismatch",
        changed("Snake", ("2 * ctx.a * x", "2 * x")),
        "factor a inside the sine is missing",
    ),
    Wrong(
        "snake",
        "forgets the inner cosine",
        "gradient-mismatch",
        changed("Snake", ("torch.sin(2 * ctx.a * x)", "2 * torch.sin(ctx.a * x)")),
        "cos(a x)",
    ),
    Wrong(
        "snake",
        "does not square the sine",
        "forward-mismatch",
        changed("Snake", ("torch.sin(a * x) ** 2", "torch.sin(a * x)")),
        "not squared",
    ),
    Wrong(
        "snake",
        "squares before the sine",
        "forward-mismatch",
        changed("Snake", ("torch.sin(a * x) ** 2", "torch.sin(a * x ** 2)")),
        "squares the sine",
    ),
    Wrong(
        "snake",
        "does not divide by a",
        "forward-mismatch",
        changed("Snake", (" / a", "")),
        "not divided by a",
    ),
    Wrong(
        "snake",
        "forgets x",
        "forward-mismatch",
        changed("Snake", ("x + torch", "torch")),
        "The term x is missing",
    ),
    Wrong(
        "sort-with-indices",
        "ignores descending",
        "forward-mismatch",
        changed("SortWithIndices", ("descending=descending", "descending=False")),
        "ignores `descending`",
    ),
    Wrong(
        "sort-with-indices",
        "sorts along dim 0",
        "forward-mismatch",
        changed("SortWithIndices", ("dim=-1", "dim=0")),
        "sorted along dim 0",
    ),
    Wrong(
        "sort-with-indices",
        "returns the ranks",
        "forward-mismatch",
        changed(
            "SortWithIndices", ("return (values, indices)", "return (values, indices.argsort(-1))")
        ),
        "to which place",
    ),
    Wrong(
        "sort-with-indices",
        "sorts the gradients",
        "nonlinear-in-grad-output",
        changed(
            "SortWithIndices",
            (
                "torch.zeros_like(grad_values).scatter(-1, indices, grad_values)",
                "torch.sort(grad_values)[0]",
            ),
        ),
        "sorts the gradients by their size",
    ),
    Wrong(
        "sort-with-indices",
        "marks the values",
        "backward-never-called",
        changed(
            "SortWithIndices", ("mark_non_differentiable(indices)", "mark_non_differentiable(_)")
        ),
        "Only the indices get this mark",
    ),
    Wrong(
        "strided-gain",
        "computes the length from the output",
        "gradient-shape",
        changed(
            "StridedGain",
            (
                "ctx.shape = x.shape",
                "ctx.shape = (*output.shape[:-1], output.shape[-1] * ctx.stride)",
            ),
        ),
        "Keep x.shape",
    ),
    Wrong(
        "strided-gain",
        "multiplies by gain in every gradient",
        "gradient-mismatch",
        changed(
            "StridedGain",
            ("if ctx.training:\n        ", "if True:\n    "),
            ("grad_output * gain if ctx.training else grad_output", "grad_output * gain"),
            ("if ctx.training else (None, None)", "if True else ()"),
        ),
        "still multiplies the gradient of x",
    ),
    Wrong(
        "strided-gain",
        "multiplies by the first elements",
        "gradient-mismatch",
        changed(
            "StridedGain",
            ("grad_output * x[..., ::ctx.stride]", "grad_output * x[..., :grad_output.shape[-1]]"),
        ),
        "not by every stride-th one",
    ),
    Wrong(
        "strided-gain",
        "repeats the gradients",
        "gradient-mismatch",
        changed(
            "StridedGain",
            (
                "grad_x = grad_output.new_zeros(ctx.shape)",
                "each = grad_output * gain if ctx.training else grad_output\n"
                "grad_x = each.repeat_interleave(ctx.stride, -1)[..., :ctx.shape[-1]]",
            ),
            (
                "grad_x[..., ::ctx.stride] = grad_output * gain if ctx.training else grad_output",
                "pass",
            ),
        ),
        "that `forward` left out",
    ),
    Wrong(
        "strided-gain",
        "multiplies without training",
        "forward-mismatch",
        changed("StridedGain", ("kept * gain if training else kept.clone()", "kept * gain")),
        "although training is False",
    ),
    Wrong(
        "strided-gain",
        "does not multiply",
        "forward-mismatch",
        changed("StridedGain", ("kept * gain if training else kept.clone()", "kept.clone()")),
        "although training is True",
    ),
    Wrong(
        "frozen-target",
        "divides by the sum of the weights in backward",
        "constant-factor",
        changed("FrozenTargetLoss", ("prediction.numel()", "weight.sum()")),
        "by the sum of the weights",
    ),
    Wrong(
        "frozen-target",
        "takes the sum",
        "forward-mismatch",
        changed("FrozenTargetLoss", (").mean()", ").sum()")),
        "This is the sum",
    ),
    Wrong(
        "frozen-target",
        "takes the weighted mean",
        "forward-mismatch",
        changed("FrozenTargetLoss", (").mean()", ").sum() / weight.sum()")),
        "divided by the sum of the weights",
    ),
    Wrong(
        "frozen-target",
        "squares the weight",
        "forward-mismatch",
        changed(
            "FrozenTargetLoss",
            ("(weight * (prediction - target) ** 2)", "((weight * (prediction - target)) ** 2)"),
        ),
        "The weight is squared",
    ),
    Wrong(
        "frozen-target",
        "forgets the weights",
        "forward-mismatch",
        changed(
            "FrozenTargetLoss",
            ("weight * (prediction - target) ** 2", "(prediction - target) ** 2"),
        ),
        "The weights are missing",
    ),
    Wrong(
        "frozen-target",
        "takes the mean of each row",
        "forward-mismatch",
        changed("FrozenTargetLoss", (").mean()", ").mean(-1)")),
        "only over the last dim",
    ),
    Wrong(
        "leaky-relu-in-place",
        "scales everything",
        "forward-mismatch",
        changed("LeakyReLUInPlace", ("torch.where(x > 0, x, slope * x)", "slope * x")),
        "Positive numbers are multiplied",
    ),
    Wrong(
        "leaky-relu-in-place",
        "exchanges the sides",
        "forward-mismatch",
        changed(
            "LeakyReLUInPlace",
            ("torch.where(x > 0, x, slope * x)", "torch.where(x > 0, slope * x, x)"),
        ),
        "two sides are exchanged",
    ),
]

edited = Rewriting("02_ctx_rules")
EDITED = [
    edited(
        "snake",
        "keeps the square of the sine",
        "gradient-mismatch",
        ("(1 + torch.sin(2 * ctx.a * x))", "(1 + torch.sin(ctx.a * x) ** 2)"),
        hint="The sine is squared",
    ),
    edited(
        "snake",
        "keeps the square of the cosine",
        "gradient-mismatch",
        ("(1 + torch.sin(2 * ctx.a * x))", "(1 + torch.cos(ctx.a * x) ** 2)"),
        hint="but the square stayed",
    ),
    edited(
        "snake",
        "forgets the sine",
        "gradient-mismatch",
        ("(1 + torch.sin(2 * ctx.a * x))", "(1 + 2 * torch.cos(ctx.a * x))"),
        hint="the factor sin(a x)",
    ),
    edited(
        "snake",
        "squares a x",
        "forward-mismatch",
        ("torch.sin(a * x) ** 2", "torch.sin((a * x) ** 2)"),
        hint="a x is squared inside",
    ),
    edited(
        "sort-with-indices",
        "indexes with brackets",
        "backward-raises",
        ("torch.zeros_like(grad_values).scatter(-1, indices, grad_values)", "grad_values[indices]"),
        hint="whole rows of dim 0",
    ),
    edited(
        "sort-with-indices",
        "reverses the values alone",
        "forward-mismatch",
        (
            "values, indices = torch.sort(x, dim=-1, descending=descending)",
            "indices = torch.sort(x, dim=-1)[1]\n"
            "        values = torch.sort(x, dim=-1, descending=descending)[0]",
        ),
        hint="belong to the ascending order",
    ),
    edited(
        "sort-with-indices",
        "sorts -x",
        "forward-mismatch",
        (
            "torch.sort(x, dim=-1, descending=descending)",
            "torch.sort(-x if descending else x, dim=-1)",
        ),
        hint="those of -x",
    ),
    edited(
        "strided-gain",
        "writes to the first elements",
        "permuted-gradient",
        ("grad_x[..., :: ctx.stride]", "grad_x[..., : grad_output.shape[-1]]"),
        hint="go to the first elements",
    ),
    edited(
        "strided-gain",
        "multiplies by the whole x",
        "backward-raises",
        ("grad_output * x[..., :: ctx.stride]", "grad_output * x"),
        hint="works for stride 1",
    ),
    edited(
        "strided-gain",
        "exchanges the flags",
        "frozen-input",
        ("needs_x, needs_gain, _, _", "needs_gain, needs_x, _, _"),
        hint="decides about one gradient",
    ),
    edited(
        "strided-gain",
        "returns early",
        "frozen-input",
        (
            "grad_x = grad_gain = None",
            "grad_x = grad_gain = None\n"
            "        if not needs_x:\n            return None, None, None, None",
        ),
        hint="decides about one gradient",
    ),
    edited(
        "strided-gain",
        "stops the gradient in evaluation",
        "missing-gradient",
        (
            "grad_x[..., :: ctx.stride] = grad_output * gain if ctx.training else grad_output",
            "grad_x[..., :: ctx.stride] = grad_output * gain if ctx.training else 0",
        ),
        hint="is 0 everywhere",
    ),
    edited(
        "leaky-relu-in-place",
        "adds the slope",
        "forward-mismatch",
        ("x.copy_(torch.where(x > 0, x, slope * x))", "x.add_(slope * x.clamp(max=0))"),
        hint="is added",
    ),
    edited(
        "leaky-relu-in-place",
        "multiplies by the output",
        "gradient-mismatch",
        ("torch.where(y > 0, grad_output, ctx.slope * grad_output)", "y * grad_output"),
        hint="as in `forward`",
    ),
    edited(
        "leaky-relu-in-place",
        "multiplies both sides",
        "wrong-region",
        ("torch.where(y > 0, grad_output, ctx.slope * grad_output)", "ctx.slope * grad_output"),
        hint="The positive side",
    ),
    edited(
        "frozen-target",
        "takes the mean in backward",
        "gradient-shape",
        (
            "2 * weight * (prediction - target) / prediction.numel()",
            "(2 * weight * (prediction - target)).mean()",
        ),
        hint="no sum or mean",
    ),
    edited(
        "frozen-target",
        "asks all flags",
        "frozen-input",
        ("if not ctx.needs_input_grad[0]", "if not all(ctx.needs_input_grad)"),
        hint="Only its own flag",
    ),
    edited(
        "frozen-target",
        "multiplies two means",
        "forward-mismatch",
        (
            "(weight * (prediction - target) ** 2).mean()",
            "weight.mean() * ((prediction - target) ** 2).mean()",
        ),
        hint="taken separately",
    ),
]

WRONG = [
    *EDITED,
    Wrong("snake", "saves the sine too", "oversaved", SnakeSavingTheSine),
    Wrong("snake", "x on ctx", "tensor-on-ctx", SnakeOnCtx),
    spoiling.setup("snake", "saves the number", "non-tensor-saved", snake_saves_the_number),
    backward(
        "snake",
        "nothing for the number",
        "wrong-arity",
        lambda ctx, x, g: g * (1 + torch.sin(2 * ctx.a * x)),
    ),
    backward(
        "snake",
        "multiplies by the inner derivative twice",
        "gradient-mismatch",
        lambda ctx, x, g: (g * (1 + ctx.a * torch.sin(2 * ctx.a * x)), None),
    ),
    backward(
        "snake",
        "the derivative alone",
        "ignores-grad-output",
        lambda ctx, x, g: (1 + torch.sin(2 * ctx.a * x), None),
    ),
    forward("strided-gain", "saves the stride", "non-tensor-saved", gain_saves_everything),
    forward("strided-gain", "saves in evaluation too", "oversaved", gain_saves_always),
    forward("strided-gain", "x on ctx in evaluation", "tensor-on-ctx", gain_keeps_x_in_evaluation),
    forward("strided-gain", "returns the slice", "returns-view", gain_returns_the_slice),
    forward("strided-gain", "contiguous for clone", "returns-view", gain_made_contiguous),
    Wrong("strided-gain", "everything on ctx", "tensor-on-ctx", GainOnCtx),
    backward("strided-gain", "gain in evaluation too", "extra-gradient", gain_in_evaluation_too),
    backward("strided-gain", "asks nobody what is needed", "wasted-gradient", gain_asks_nothing),
    backward("strided-gain", "leaves x strided", "gradient-shape", gain_forgets_to_spread),
    backward(
        "strided-gain",
        "nothing for the stride and the flag",
        "wrong-arity",
        lambda ctx, *args: RIGHT["strided-gain"].backward(ctx, args[-1])[:2],
    ),
    forward("leaky-relu-in-place", "does not mark", "mutates-input", leaky_unmarked),
    forward(
        "leaky-relu-in-place",
        "marks and returns another",
        "wrong-mark-dirty",
        leaky_marks_and_returns_new,
    ),
    forward("leaky-relu-in-place", "not in place", "wrong-mark-dirty", leaky_not_in_place),
    forward("leaky-relu-in-place", "other memory", "wrong-mark-dirty", leaky_in_other_memory),
    Wrong("leaky-relu-in-place", "the output on ctx", "tensor-on-ctx", LeakyOnCtx),
    backward(
        "leaky-relu-in-place",
        "stops the negative side",
        "wrong-region",
        lambda ctx, y, g: (g * (y > 0), None),
    ),
    backward(
        "leaky-relu-in-place",
        "writes into grad_output",
        "mutates-grad-output",
        lambda ctx, y, g: (g.mul_(torch.where(y > 0, 1.0, ctx.slope)), None),
    ),
    Wrong("sort-with-indices", "one gradient for two outputs", "backward-raises", SortOneGradient),
    Wrong("sort-with-indices", "saves the input too", "oversaved", SortSavingInput),
    Wrong("sort-with-indices", "sorts the input again", "allows only the indices", SortingAgain),
    backward(
        "sort-with-indices",
        "gathers instead of scattering",
        "permuted-gradient",
        lambda ctx, i, g, _: (g.gather(-1, i), None),
    ),
    backward(
        "sort-with-indices",
        "leaves the gradient where it is",
        "permuted-gradient",
        lambda ctx, i, g, _: (g, None),
    ),
    backward(
        "sort-with-indices",
        "zeros in float32",
        "gradient-dtype",
        lambda ctx, i, g, _: (torch.zeros(g.shape).scatter(-1, i, g), None),
    ),
    forward(
        "sort-with-indices",
        "marks the values too",
        "wrong-non-differentiable",
        sort_marks_the_values,
    ),
    backward(
        "frozen-target",
        "forgets 1/N",
        "constant-factor",
        lambda ctx, p, t, w, g: (2 * w * (p - t) * g, None, None),
    ),
    backward(
        "frozen-target",
        "forgets the 2",
        "constant-factor",
        lambda ctx, p, t, w, g: (_loss(p, t, w, g) / 2, None, None),
    ),
    backward(
        "frozen-target",
        "a gradient for the target",
        "extra-gradient",
        lambda ctx, p, t, w, g: (_loss(p, t, w, g), -_loss(p, t, w, g), None),
    ),
    backward(
        "frozen-target",
        "zeros for target and weight",
        "extra-gradient",
        lambda ctx, p, t, w, g: (
            _loss(p, t, w, g) if ctx.needs_input_grad[0] else None,
            torch.zeros_like(t),
            torch.zeros_like(w),
        ),
    ),
    backward(
        "frozen-target",
        "target minus prediction",
        "flipped-sign",
        lambda ctx, p, t, w, g: (_loss(t, p, w, g), None, None),
    ),
    backward(
        "frozen-target",
        "forgets the weight",
        "gradient-mismatch",
        lambda ctx, p, t, w, g: (2 * (p - t) * g / p.numel(), None, None),
    ),
    backward(
        "frozen-target",
        "a single None where nothing is wanted",
        "frozen-input",
        lambda ctx, p, t, w, g: (
            (_loss(p, t, w, g), None, None) if ctx.needs_input_grad[0] else None
        ),
        "one value for each argument",
    ),
    backward(
        "frozen-target",
        "does not ask",
        "wasted-gradient",
        lambda ctx, p, t, w, g: (_loss(p, t, w, g), None, None),
    ),
    Wrong("card-skip-connection", "the values", "computes the ReLU", "2c"),
    Wrong("card-skip-connection", "what it returns", "What else did backward change", "5c"),
    Wrong("card-skip-connection", "gradcheck", "never looks at it again", "4a"),
    Wrong("card-skip-connection", "its own gradient", "somewhere else", "4b"),
    Wrong("card-two-outputs", "what is saved", "the right place for it", "2b"),
    Wrong("card-two-outputs", "both outputs", "both gradients arrive", "5a"),
    Wrong("card-two-outputs", "other weights", "with other values", "1c"),
    Wrong("card-gradient-scale", "the return", "makes a view of it", "2d"),
    Wrong("card-gradient-scale", "the values", "in a correct Function", "1a"),
    Wrong("card-gradient-scale", "after sin", "nothing goes wrong after it", "1c"),
    Wrong("predict-backward-calls", "one node", "its own node", [1, 1, 2, 0]),
    Wrong("predict-backward-calls", "one call for each use", "There is one node", [2, 2, 2, 0]),
    Wrong("predict-backward-calls", "one graph", "visits the node again", [2, 1, 1, 0]),
    Wrong("predict-backward-calls", "a node without grad", "creates no node", [2, 1, 2, 1]),
    Wrong("predict-backward-calls", "one number", "hand in 4 numbers", 2),
    Wrong("card-twins", "the values", "the product is a new tensor", "2a"),
    Wrong("card-twins", "the same input", "which one was the last", "1b"),
    Wrong("card-twins", "the name of a rule", "such as", "shared-state"),
    *CAUSES,
]


KNOWN = [
    ("snake", (double(0, torch.pi / 2), 1.0), double(0, 1 + torch.pi / 2)),
    ("strided-gain", (double(1, 2, 3), double(10, 100), 2, True), double(10, 300)),
    ("strided-gain", (double(1, 2, 3), double(10, 100), 2, False), double(1, 3)),
    ("leaky-relu-in-place", (double(-2, 3), 0.5), double(-1, 3)),
    ("sort-with-indices", (double(3, 1, 2),), (double(1, 2, 3), torch.tensor([1, 2, 0]))),
    ("sort-with-indices", (double(3, 1, 2), True), (double(3, 2, 1), torch.tensor([0, 2, 1]))),
    ("frozen-target", (double(1, 5), double(3, 5), double(2, 7)), torch.tensor(4.0).double()),
]
