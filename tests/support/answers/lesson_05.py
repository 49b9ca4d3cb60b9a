"""Answers to the exercises of lesson 05."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from answers import lesson_05_digits as digits
from answers.making import Rewriting, Spoiling, Wrong, double, rewritten, solved
from autograd_course import functions

SOLVED = solved("05_straight_through")
RIGHT = {
    "sign-ste": SOLVED["SignSTE"],
    "clipped-sign": SOLVED["ClippedSignSTE"],
    "ternary-ste": SOLVED["TernarySTE"],
    "round-ste": SOLVED["RoundSTE"],
    "fake-quantize": SOLVED["FakeQuantize"],
    "binary-digits": SOLVED["train_binary_net"],
    "predict-straight-through": [12, 1.4, 0, 1],
    "card-activation": "3d",
}


class SignByArithmetic(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.sign() + (x == 0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 1 * g


class ClippedByEdges(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return 2 * (x >= 0).to(x.dtype) - 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        grad_input = g.clone()
        grad_input[x.abs() > 1] = 0
        return grad_input


class QuantizeAsPublished(Function):
    """Uses three masks with strict comparisons outside the bounds, as in the paper."""

    @staticmethod
    def forward(ctx: Any, x: Any, step: Any, low: int, high: int) -> Any:
        ctx.save_for_backward(x / step)
        ctx.bounds = low, high
        return (x / step).clamp(low, high).round() * step

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (v,), (low, high) = ctx.saved_tensors, ctx.bounds
        small, big = (v < low).to(v), (v > high).to(v)
        middle = 1 - small - big
        slope = small * low + big * high + middle * (v.round() - v)
        return g * middle, (g * slope).sum(), None, None


class TernaryByTwoSigns(Function):
    """Saves both masks, each of which takes one byte per element."""

    @staticmethod
    def forward(ctx: Any, x: Any, t: Any) -> Any:
        ctx.save_for_backward((x + t).abs() <= 1, (x - t).abs() <= 1)
        return (functions.SignSTE.apply(x - t) + functions.SignSTE.apply(x + t)) / 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        lower, upper = ctx.saved_tensors
        half = g / 2
        return half * lower + half * upper, (half * lower).sum() - (half * upper).sum()


ALSO_RIGHT = {
    "sign by arithmetic": ("sign-ste", SignByArithmetic),
    "sign of the package": ("sign-ste", functions.SignSTE),
    "gradients as a tensor": ("predict-straight-through", torch.tensor([12.0, 1.4, 0.0, 1.0])),
    "a card, typed freely": ("card-activation", "line 3, experiment D"),
    "clipped by writing zeros": ("clipped-sign", ClippedByEdges),
    "ternary with its masks saved": ("ternary-ste", TernaryByTwoSigns),
    "fake quantization of the package": ("fake-quantize", functions.FakeQuantize),
    "fake quantization by three masks": ("fake-quantize", QuantizeAsPublished),
    "digits without the clip": ("binary-digits", digits.trains_without_the_clip),
    "digits without a Function": ("binary-digits", digits.trains_by_detaching),
    "digits as in the lesson": ("binary-digits", digits.trains_as_the_lesson),
    "digits in small batches": ("binary-digits", digits.trains_in_small_batches),
    "digits with binary activations": ("binary-digits", digits.trains_binary_activations),
}


spoiling = Spoiling(RIGHT)
backward, forward, setup = spoiling.backward, spoiling.forward, spoiling.setup


def sign_in_integers(x: Any) -> Any:
    return torch.where(x >= 0, 1, -1)


def ternary_in_integers(x: Any, t: Any) -> Any:
    return (x >= t).long() - (x < -t).long()


def mask_of_the_output(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output.abs() <= 1)


def saves_x_clipped(rule: Any) -> Any:
    return lambda ctx, inputs, output: ctx.save_for_backward(rule(inputs[0]))


def _ternary(x: Any, t: Any, g: Any, edge: Any = torch.le, **instead: Any) -> Any:
    lower, upper = (edge((x + side * t).abs(), torch.ones_like(x)).to(x) for side in (1, -1))
    right = {"of_x": g * (lower + upper) / 2, "of_t": (g * (lower - upper)).sum() / 2}
    return (*{**right, **instead}.values(),)


def _quantize(ctx: Any, g: Any, **instead: Any) -> Any:
    right = dict(zip(("x", "step"), SOLVED["FakeQuantize"].backward(ctx, g)[:2], strict=True))
    return *{**right, **instead}.values(), None, None


def _inside(ctx: Any, v: Any) -> Any:
    return (v >= ctx.low) & (v <= ctx.high)


def _level(ctx: Any, x: Any, step: Any) -> Any:
    return (x / step).round().clamp(ctx.low, ctx.high)


def _by_level(ctx: Any, level: Any, v: Any, g: Any) -> Any:
    inside = _inside(ctx, level)
    of_step = torch.where(inside, level - v, level.clamp(ctx.low, ctx.high))
    return g * inside, (g * of_step).sum(), None, None


def changed(name: str, *changes: tuple[str, str]) -> Any:
    """Return a solved answer of this lesson with other source code."""
    return rewritten("05_straight_through", name, *changes)


# Mistakes whose cause the exercise names
CAUSES = [
    Wrong(
        "sign-ste",
        "takes torch.sign, which is 0 at 0",
        "forward-mismatch",
        changed("SignSTE", ("torch.where(x >= 0, 1.0, -1.0).to(x)", "torch.sign(x)")),
        "as torch.sign gives it",
    ),
    Wrong(
        "sign-ste",
        "counts -0 as negative",
        "forward-mismatch",
        changed(
            "SignSTE", ("torch.where(x >= 0, 1.0, -1.0).to(x)", "1 - 2 * torch.signbit(x).to(x)")
        ),
        "-0 counts",
    ),
    Wrong(
        "sign-ste",
        "divides by the absolute value",
        "forward-mismatch",
        changed("SignSTE", ("torch.where(x >= 0, 1.0, -1.0).to(x)", "x / x.abs()")),
        "0/0",
    ),
    Wrong(
        "sign-ste",
        "adds a tiny number",
        "forward-mismatch",
        changed("SignSTE", ("torch.where(x >= 0, 1.0, -1.0).to(x)", "torch.sign(x + 1e-12)")),
        "close to 0",
    ),
    Wrong(
        "clipped-sign",
        "excludes 0",
        "forward-mismatch",
        changed("ClippedSignSTE", ("x >= 0", "x > 0")),
        "The sign of 0 is -1",
    ),
    Wrong(
        "clipped-sign",
        "inverts the mask",
        "gradient-mismatch",
        changed("ClippedSignSTE", ("x.abs() <= 1", "x.abs() > 1")),
        "The mask is inverted",
    ),
    Wrong(
        "clipped-sign",
        "takes the mask of the output",
        "wrong-region",
        changed("ClippedSignSTE", ("x.abs() <= 1", "output.abs() <= 1")),
        "Both bounds must hold, and for x",
    ),
    Wrong(
        "ternary-ste",
        "minus the gradient of x for the threshold",
        "gradient-mismatch",
        changed("TernarySTE", ("(grad_output * (lower - upper)).sum() / 2", "-grad_x.sum()")),
        "as if both clips contained x - t",
    ),
    Wrong(
        "ternary-ste",
        "adds two signs that are 0 at 0",
        "forward-mismatch",
        changed(
            "TernarySTE",
            (
                "(x >= threshold).to(x) - (x < -threshold).to(x)",
                "(torch.sign(x - threshold) + torch.sign(x + threshold)) / 2",
            ),
        ),
        "±½",
    ),
    Wrong(
        "ternary-ste",
        "excludes t",
        "forward-mismatch",
        changed("TernarySTE", ("x >= threshold", "x > threshold")),
        "comparison includes t",
    ),
    Wrong(
        "ternary-ste",
        "includes -t",
        "forward-mismatch",
        changed("TernarySTE", ("x < -threshold", "x <= -threshold")),
        "comparison excludes -t",
    ),
    Wrong(
        "ternary-ste",
        "does not halve the signs",
        "forward-mismatch",
        changed(
            "TernarySTE",
            (
                "(x >= threshold).to(x) - (x < -threshold).to(x)",
                "2 * (x >= threshold).to(x) - 2 * (x < -threshold).to(x)",
            ),
        ),
        "without the ½",
    ),
    Wrong(
        "ternary-ste",
        "takes one window around 0",
        "missing-gradient",
        changed(
            "TernarySTE",
            ("lower = ((x + threshold).abs() <= 1).to(x)", "lower = upper = (x.abs() <= 1).to(x)"),
        ),
        "uses a window around 0",
    ),
    Wrong(
        "ternary-ste",
        "takes one wide window",
        "missing-gradient",
        changed(
            "TernarySTE",
            (
                "lower = ((x + threshold).abs() <= 1).to(x)",
                "lower = upper = (x.abs() <= 1 + threshold).to(x)",
            ),
        ),
        "one window from",
    ),
    Wrong(
        "ternary-ste",
        "takes no window",
        "missing-gradient",
        changed(
            "TernarySTE",
            ("lower = ((x + threshold).abs() <= 1).to(x)", "lower = upper = torch.ones_like(x)"),
        ),
        "passes everywhere",
    ),
    Wrong(
        "ternary-ste",
        "forgets an absolute value",
        "wrong-region",
        changed("TernarySTE", ("((x - threshold).abs() <= 1)", "(x - threshold <= 1)")),
        "no lower end",
    ),
    Wrong(
        "round-ste",
        "turns the step around",
        "forward-mismatch",
        changed("RoundSTE", ("step * torch.round(x / step)", "torch.round(x * step) / step")),
        "the wrong way around",
    ),
    Wrong(
        "round-ste",
        "rounds down",
        "forward-mismatch",
        changed("RoundSTE", ("torch.round(x / step)", "(x // step)")),
        "This rounds down",
    ),
    Wrong(
        "round-ste",
        "rounds towards 0",
        "forward-mismatch",
        changed("RoundSTE", ("torch.round(x / step)", "torch.trunc(x / step)")),
        "towards 0",
    ),
    Wrong(
        "round-ste",
        "floors after adding a half",
        "forward-mismatch",
        changed("RoundSTE", ("torch.round(x / step)", "torch.floor(x / step + 0.5)")),
        "rounded up",
    ),
    Wrong(
        "round-ste",
        "forgets to multiply",
        "forward-mismatch",
        changed("RoundSTE", ("step * torch.round", "torch.round")),
        "not multiplied by the step",
    ),
    Wrong(
        "fake-quantize",
        "clamps x",
        "forward-mismatch",
        changed(
            "FakeQuantize",
            ("torch.round(x / step).clamp(low, high)", "torch.round(x.clamp(low, high) / step)"),
        ),
        "No level is clamped",
    ),
    Wrong(
        "fake-quantize",
        "clamps the result",
        "forward-mismatch",
        changed(
            "FakeQuantize",
            (
                "step * torch.round(x / step).clamp(low, high)",
                "(step * torch.round(x / step)).clamp(low, high)",
            ),
        ),
        "No level is clamped",
    ),
    Wrong(
        "fake-quantize",
        "rounds down",
        "forward-mismatch",
        changed("FakeQuantize", ("torch.round(x / step)", "torch.floor(x / step)")),
        "rounded down",
    ),
    Wrong(
        "ternary-ste",
        "the sign of x for the threshold",
        "gradient-mismatch",
        changed(
            "TernarySTE",
            ("(grad_output * (lower - upper)).sum() / 2", "-(grad_x * x.sign()).sum()"),
        ),
        "The sign of x decides",
    ),
    Wrong(
        "fake-quantize",
        "no gradient for the step inside the bounds",
        "missing-dependency",
        changed("FakeQuantize", ("v.round() - v", "0 * v")),
        "as if the rounding changed nothing",
    ),
    Wrong(
        "fake-quantize",
        "forgets the level",
        "gradient-mismatch",
        changed("FakeQuantize", ("v.round() - v", "-v")),
        "lacks one of its two terms",
    ),
    Wrong(
        "fake-quantize",
        "subtracts everywhere",
        "gradient-mismatch",
        changed(
            "FakeQuantize",
            (
                "torch.where(inside, v.round() - v, v.clamp(ctx.low, ctx.high))",
                "v.round().clamp(ctx.low, ctx.high) - v",
            ),
        ),
        "outside the bounds, too",
    ),
    Wrong(
        "fake-quantize",
        "always takes the upper bound",
        "",
        changed("FakeQuantize", ("v.clamp(ctx.low, ctx.high)", "torch.full_like(v, ctx.high)")),
        "always takes high",
    ),
    Wrong(
        "fake-quantize",
        "compares x with the bounds",
        "wrong-region",
        changed(
            "FakeQuantize", ("(v >= ctx.low) & (v <= ctx.high)", "(x >= ctx.low) & (x <= ctx.high)")
        ),
        "They are levels",
    ),
    Wrong(
        "fake-quantize",
        "forgets the outside",
        "missing-dependency",
        changed("FakeQuantize", ("v.clamp(ctx.low, ctx.high)", "torch.zeros_like(v)")),
        "is 0 outside the bounds",
    ),
]

edited = Rewriting("05_straight_through")
EDITED = [
    edited(
        "sign-ste",
        "returns 1 and 0",
        "forward-mismatch",
        ("torch.where(x >= 0, 1.0, -1.0).to(x)", "(x >= 0).to(x)"),
        hint="These are 1 and 0",
    ),
    edited(
        "clipped-sign",
        "compares with 1 only",
        "wrong-region",
        ("x.abs() <= 1", "x <= 1"),
        hint="passes below -1",
    ),
    edited(
        "clipped-sign",
        "compares with -1 only",
        "wrong-region",
        ("x.abs() <= 1", "x >= -1"),
        hint="passes above 1",
    ),
    edited(
        "clipped-sign",
        "joins the comparisons with or",
        "wrong-region",
        ("x.abs() <= 1", "(x >= -1) | (x <= 1)"),
        hint="Both bounds must hold",
    ),
    edited(
        "clipped-sign",
        "begins at 0",
        "wrong-region",
        ("x.abs() <= 1", "(x >= 0) & (x <= 1)"),
        hint="not at 0",
    ),
    edited(
        "clipped-sign",
        "compares grad_output",
        "nonlinear-in-grad-output",
        ("grad_output * inside", "grad_output * (grad_output.abs() <= 1)"),
        hint="The size of x must decide",
    ),
    edited(
        "round-ste",
        "divides and multiplies after the rounding",
        "forward-mismatch",
        ("step * torch.round(x / step)", "torch.round(x) / step * step"),
        hint="so it cancels",
    ),
    edited(
        "ternary-ste",
        "passes in either window",
        "gradient-mismatch",
        (
            "grad_x = grad_output * (lower + upper) / 2",
            "grad_x = grad_output * (lower + upper > 0)",
        ),
        hint="at least one window",
    ),
    edited(
        "ternary-ste",
        "passes in both windows only",
        "wrong-region",
        (
            "grad_x = grad_output * (lower + upper) / 2",
            "grad_x = grad_output * (lower * upper > 0)",
        ),
        hint="only where both windows",
    ),
    edited(
        "ternary-ste",
        "passes x everywhere",
        "wrong-region",
        ("grad_x = grad_output * (lower + upper) / 2", "grad_x = grad_output"),
        hint="passes everywhere",
    ),
    edited(
        "ternary-ste",
        "takes windows of the width of the threshold",
        "gradient-mismatch",
        ("((x - threshold).abs() <= 1)", "((x - threshold).abs() <= threshold)"),
        ("((x + threshold).abs() <= 1)", "((x + threshold).abs() <= threshold)"),
        hint="so they extend by 1",
    ),
    edited(
        "ternary-ste",
        "forgets the upper ends",
        "wrong-region",
        ("((x - threshold).abs() <= 1)", "(x - threshold >= -1)"),
        ("((x + threshold).abs() <= 1)", "(x + threshold >= -1)"),
        hint="no upper end",
    ),
    edited(
        "ternary-ste",
        "takes the values of the clips",
        "gradient-mismatch",
        ("((x - threshold).abs() <= 1)", "(x - threshold).clamp(-1, 1)"),
        ("((x + threshold).abs() <= 1)", "(x + threshold).clamp(-1, 1)"),
        hint="values of the two clips",
    ),
    edited(
        "fake-quantize",
        "clamps above only",
        "forward-mismatch",
        ("/ step).clamp(low, high)", "/ step).clamp(max=high)"),
        hint="Only the upper bound",
    ),
    edited(
        "fake-quantize",
        "clamps below only",
        "forward-mismatch",
        ("/ step).clamp(low, high)", "/ step).clamp(min=low)"),
        hint="Only the lower bound",
    ),
    edited(
        "fake-quantize",
        "clamps symmetrically",
        "forward-mismatch",
        ("/ step).clamp(low, high)", "/ step).clamp(-high, high)"),
        hint="to -high",
    ),
    edited(
        "fake-quantize",
        "cuts the levels off",
        "forward-mismatch",
        ("torch.round(x / step)", "torch.trunc(x / step)"),
        hint="cut off",
    ),
    edited(
        "fake-quantize",
        "rounds down in the gradient",
        "gradient-mismatch",
        (
            "torch.where(inside, v.round() - v, v.clamp(ctx.low, ctx.high))",
            "torch.where(inside, v.floor() - v, v.clamp(ctx.low, ctx.high))",
        ),
        hint="rounded down in the gradient",
    ),
    edited(
        "fake-quantize",
        "multiplies two sums",
        "gradient-mismatch",
        ("(grad_output * by_step).sum()", "grad_output.sum() * by_step.sum()"),
        hint="summed separately",
    ),
    edited(
        "fake-quantize",
        "compares the absolute value",
        "wrong-region",
        ("(v >= ctx.low) & (v <= ctx.high)", "v.abs() <= ctx.high"),
        hint="need not be -high",
    ),
]

WRONG = [
    *EDITED,
    backward("sign-ste", "the true gradient", "missing-gradient", lambda ctx, g: 0 * g),
    backward("sign-ste", "returns nothing", "missing-gradient", lambda ctx, g: None),
    forward("sign-ste", "0 at 0", "forward-mismatch", lambda x: x.sign()),
    forward(
        "sign-ste",
        "the sign bit of zero",
        "forward-mismatch",
        lambda x: torch.copysign(torch.ones_like(x), x),
    ),
    forward("sign-ste", "whole numbers", "has dtype torch.int64", sign_in_integers),
    forward("sign-ste", "moves x first", "forward-mismatch", lambda x: torch.sign(x + 1e-12)),
    backward("sign-ste", "signs the gradient", "nonlinear-in-grad-output", lambda ctx, g: g.sign()),
    backward(
        "sign-ste",
        "the surrogate's derivative alone",
        "ignores-grad-output",
        lambda ctx, g: g * 0 + 1,
    ),
    backward("clipped-sign", "forgets the clip", "wrong-region", lambda ctx, inside, g: g),
    setup(
        "clipped-sign",
        "clips at 0.5",
        "wrong-region",
        saves_x_clipped(lambda x: x.abs() <= 0.5),
    ),
    setup("clipped-sign", "clips one side", "wrong-region", saves_x_clipped(lambda x: x <= 1)),
    setup("clipped-sign", "asks the output", "wrong-region", mask_of_the_output),
    setup(
        "clipped-sign",
        "stops at the bounds",
        "kink-convention",
        saves_x_clipped(lambda x: x.abs() < 1),
    ),
    setup(
        "clipped-sign",
        "multiplies by the clipped x",
        "gradient-mismatch",
        saves_x_clipped(lambda x: x.clamp(-1, 1)),
    ),
    setup(
        "clipped-sign",
        "the slope of tanh",
        "gradient-mismatch",
        saves_x_clipped(lambda x: 1 - x.tanh() ** 2),
    ),
    backward(
        "clipped-sign",
        "clips the gradient",
        "nonlinear-in-grad-output",
        lambda ctx, inside, g: g.clamp(-1, 1),
    ),
    forward(
        "ternary-ste",
        "zero at the upper threshold",
        "forward-mismatch",
        lambda x, t: (x > t).to(x) - (x < -t).to(x),
    ),
    forward(
        "ternary-ste",
        "a threshold on one side",
        "forward-mismatch",
        lambda x, t: (x >= t).to(x) - (x < 0).to(x),
    ),
    forward("ternary-ste", "whole numbers", "has dtype torch.int64", ternary_in_integers),
    backward(
        "ternary-ste",
        "the true gradient",
        "missing-gradient",
        lambda ctx, x, t, g: (0 * g, 0 * t),
    ),
    backward(
        "ternary-ste",
        "one window around 0",
        "wrong-region",
        lambda ctx, x, t, g: _ternary(x, t, g, of_x=g * (x.abs() <= 1)),
        hint="Each sign has its own clip",
    ),
    backward(
        "ternary-ste",
        "one of the two signs",
        "wrong-region",
        lambda ctx, x, t, g: _ternary(x, t, g, of_x=g * ((x - t).abs() <= 1) / 2),
    ),
    backward(
        "ternary-ste",
        "forgets the mean",
        "constant-factor",
        lambda ctx, x, t, g: _ternary(x, t, 2 * g),
    ),
    backward(
        "ternary-ste",
        "turns the threshold's sign",
        "flipped-sign",
        lambda ctx, x, t, g: (_ternary(x, t, g)[0], -_ternary(x, t, g)[1]),
    ),
    backward(
        "ternary-ste",
        "takes the threshold for a constant",
        "missing-gradient",
        lambda ctx, x, t, g: _ternary(x, t, g, of_t=None),
    ),
    backward(
        "ternary-ste",
        "does not sum for the threshold",
        "unreduced-broadcast",
        lambda ctx, x, t, g: _ternary(
            x,
            t,
            g,
            of_t=g * (((x + t).abs() <= 1).to(x) - ((x - t).abs() <= 1).to(x)) / 2,
        ),
    ),
    backward(
        "ternary-ste",
        "stops at the bounds",
        "kink-convention",
        lambda ctx, x, t, g: _ternary(x, t, g, edge=torch.lt),
    ),
    backward("round-ste", "one gradient for two", "wrong-arity", lambda ctx, g: g),
    backward("round-ste", "the true gradient", "missing-gradient", lambda ctx, g: (0 * g, None)),
    backward(
        "round-ste",
        "rounds the gradient",
        "nonlinear-in-grad-output",
        lambda ctx, g: (g.round(), None),
    ),
    forward(
        "round-ste",
        "does not scale back",
        "forward-mismatch",
        lambda x, step: torch.round(x / step),
    ),
    forward(
        "round-ste",
        "rounds halves up",
        "forward-mismatch",
        lambda x, step: step * torch.floor(x / step + 0.5),
    ),
    backward(
        "fake-quantize",
        "takes the step for a constant",
        "missing-gradient",
        lambda ctx, x, s, g: _quantize(ctx, g, step=None),
    ),
    backward(
        "fake-quantize",
        "does not sum for the step",
        "unreduced-broadcast",
        lambda ctx, x, s, g: _quantize(
            ctx,
            g,
            step=g * torch.where(_inside(ctx, x / s), (x / s).round() - x / s, _level(ctx, x, s)),
        ),
    ),
    backward(
        "fake-quantize",
        "averages for the step",
        "constant-factor",
        lambda ctx, x, s, g: _quantize(
            ctx,
            g,
            step=(
                g * torch.where(_inside(ctx, x / s), (x / s).round() - x / s, _level(ctx, x, s))
            ).mean(),
        ),
    ),
    backward(
        "fake-quantize",
        "takes the level for a constant",
        "missing-dependency",
        lambda ctx, x, s, g: _quantize(ctx, g, step=(g * _level(ctx, x, s)).sum()),
    ),
    backward(
        "fake-quantize",
        "forgets the saturated ones",
        "missing-dependency",
        lambda ctx, x, s, g: _quantize(
            ctx, g, step=(g * _inside(ctx, x / s) * ((x / s).round() - x / s)).sum()
        ),
    ),
    backward(
        "fake-quantize",
        "differentiates the rounding's value away",
        "missing-dependency",
        lambda ctx, x, s, g: _quantize(
            ctx, g, step=(g * ~_inside(ctx, x / s) * _level(ctx, x, s)).sum()
        ),
    ),
    backward(
        "fake-quantize",
        "lets saturated values pass",
        "wrong-region",
        lambda ctx, x, s, g: _quantize(ctx, g, x=g.clone()),
    ),
    backward(
        "fake-quantize",
        "holds x against the levels",
        "wrong-region",
        lambda ctx, x, s, g: _quantize(ctx, g, x=g * _inside(ctx, x)),
    ),
    backward(
        "fake-quantize",
        "holds the rounded level against the bounds",
        "gradient-mismatch",
        lambda ctx, x, s, g: _quantize(ctx, g, x=g * _inside(ctx, (x / s).round())),
        hint="for the gradient of x, also compare x / step with the bounds",
    ),
    backward(
        "fake-quantize",
        "holds the rounded level against the bounds for both",
        "gradient-mismatch",
        lambda ctx, x, s, g: _by_level(ctx, (x / s).round(), x / s, g),
        hint="The clamp comes before the rounding",
    ),
    backward(
        "fake-quantize",
        "stops at the bounds",
        "kink-convention",
        lambda ctx, x, s, g: _quantize(ctx, g, x=g * ((x / s > ctx.low) & (x / s < ctx.high))),
    ),
    backward(
        "fake-quantize",
        "divides by the step",
        "constant-factor",
        lambda ctx, x, s, g: _quantize(ctx, g, x=g * _inside(ctx, x / s) / s),
    ),
    forward(
        "fake-quantize",
        "forgets the bounds",
        "forward-mismatch",
        lambda x, step, low, high: step * torch.round(x / step),
    ),
    Wrong("predict-straight-through", "the net of h", "sees sign(x) = 1 and", [1.2, 1.4, 0, 1]),
    Wrong("predict-straight-through", "no inner factor", "one more factor", [4, 1.4, 0, 1]),
    Wrong("predict-straight-through", "true gradients", "slope of its surrogate", [0, 1, 0, 0]),
    Wrong("predict-straight-through", "the slope of |x|", "adds the second term", [12, 1, 0, 1]),
    Wrong("predict-straight-through", "the slope of x²", "the derivative of x²", [12, 0.8, 0, 1]),
    Wrong("predict-straight-through", "no clip", "outside [-1, 1]", [12, 1.4, 4, 1]),
    Wrong("predict-straight-through", "a constant loss", "its true gradient is 0", [12, 1.4, 0, 0]),
    Wrong("predict-straight-through", "both pass", "Only one of the two", [12, 1.4, 0, 2]),
    Wrong("card-activation", "the mask", "this mask is right for x", "5d"),
    Wrong("card-activation", "the names", "what its name says", "4d"),
    Wrong("card-activation", "gradcheck", "rejects a correct", "3a"),
    Wrong("card-activation", "away from the levels", "on the same side of both bounds", "3b"),
    Wrong("card-activation", "linearity", "as they should", "3c"),
    *digits.WRONG_DIGITS,
    *CAUSES,
]


KNOWN = [
    ("sign-ste", (double(-0.1, 0, 7),), double(-1, 1, 1)),
    ("clipped-sign", (double(-0.1, 0, 7),), double(-1, 1, 1)),
    ("ternary-ste", (double(-2, -0.5, 0, 0.5), double(0.5).squeeze()), double(-1, 0, 0, 1)),
    ("round-ste", (double(0.25, 0.6, -0.75), 0.5), double(0, 0.5, -1)),
    ("fake-quantize", (double(-9, 0.6, 2), double(0.5).squeeze(), -4, 3), double(-2, 0.5, 1.5)),
]
