"""Answers to the exercises of lesson 05."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function
from torch.nn.functional import softmax

from answers import lesson_05_digits as digits
from answers.making import Spoiling, double, solved
from autograd_course import functions

SOLVED = solved("05_straight_through")
RIGHT = {
    "sign-ste": SOLVED["SignSTE"],
    "clipped-sign": SOLVED["ClippedSignSTE"],
    "round-ste": SOLVED["RoundSTE"],
    "fake-quantize": SOLVED["FakeQuantize"],
    "gumbel-soft": SOLVED["GumbelSoftmax"],
    "gumbel-hard": SOLVED["HardGumbelSoftmax"],
    "binary-digits": SOLVED["train_binary_net"],
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
    """Three masks; beyond the bounds strictly, as its learned step's paper does it."""

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


class SoftByJacobian(Function):
    """The Jacobian written out, and a gradient for the noise too."""

    @staticmethod
    def forward(ctx: Any, logits: Any, noise: Any, temperature: float) -> Any:
        ctx.save_for_backward(logits + noise)
        ctx.temperature = temperature
        return softmax((logits + noise) / temperature, dim=-1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        y = softmax(ctx.saved_tensors[0] / ctx.temperature, dim=-1)
        jacobian = torch.diag_embed(y) - y[..., :, None] * y[..., None, :]
        grad = (g[..., None, :] @ jacobian).squeeze(-2) / ctx.temperature
        return grad, grad, None


class HardByScatter(SoftByJacobian):
    @staticmethod
    def forward(ctx: Any, logits: Any, noise: Any, temperature: float) -> Any:
        y = SoftByJacobian.forward(ctx, logits, noise, temperature)
        return torch.zeros_like(y).scatter_(-1, y.argmax(-1, keepdim=True), 1.0)


class HardOfThePackage(functions.GumbelSoftmax):
    @staticmethod
    def forward(ctx: Any, logits: Any, noise: Any, temperature: float) -> Any:
        return functions.GumbelSoftmax.forward(ctx, logits, noise, temperature, True)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return functions.GumbelSoftmax.backward(ctx, g)[:3]


ALSO_RIGHT = {
    "sign by arithmetic": ("sign-ste", SignByArithmetic),
    "sign of the package": ("sign-ste", functions.SignSTE),
    "clipped by writing zeros": ("clipped-sign", ClippedByEdges),
    "fake quantization of the package": ("fake-quantize", functions.FakeQuantize),
    "fake quantization by three masks": ("fake-quantize", QuantizeAsPublished),
    "softmax by its Jacobian": ("gumbel-soft", SoftByJacobian),
    "Gumbel-softmax of the package": ("gumbel-soft", functions.GumbelSoftmax),
    "one-hot by scatter": ("gumbel-hard", HardByScatter),
    "hard Gumbel-softmax of the package": ("gumbel-hard", HardOfThePackage),
    "digits without the clip": ("binary-digits", digits.trains_without_the_clip),
    "digits without a Function": ("binary-digits", digits.trains_by_detaching),
    "digits as in the lesson": ("binary-digits", digits.trains_as_the_lesson),
    "digits in small batches": ("binary-digits", digits.trains_in_small_batches),
    "digits with binary activations": ("binary-digits", digits.trains_binary_activations),
}


spoiling = Spoiling(RIGHT)
backward, forward = spoiling.backward, spoiling.forward


def torch_sign(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x.abs() <= 1)
    return x.sign()


def sign_bit(ctx: Any, x: Any) -> Any:
    return torch.copysign(torch.ones_like(x), x)


def sign_in_integers(ctx: Any, x: Any) -> Any:
    return torch.where(x >= 0, 1, -1)


def sign_of_a_neighbor(ctx: Any, x: Any) -> Any:
    return torch.sign(x + 1e-12)


def mask_of_the_output(ctx: Any, x: Any) -> Any:
    y = torch.where(x >= 0, 1.0, -1.0).to(x)
    ctx.save_for_backward(y.abs() <= 1)
    return y


def saves_x_clipped(rule: Any) -> Any:
    def clip(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(rule(x))
        return torch.where(x >= 0, 1.0, -1.0).to(x)

    return clip


def half_up(ctx: Any, x: Any, step: float) -> Any:
    return step * torch.floor(x / step + 0.5)


def forgets_to_scale_back(ctx: Any, x: Any, step: float) -> Any:
    return torch.round(x / step)


def forgets_the_bounds(ctx: Any, x: Any, step: Any, low: int, high: int) -> Any:
    ctx.save_for_backward(x, step)
    ctx.low, ctx.high = low, high
    return step * torch.round(x / step)


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


def _soft(y: Any, g: Any) -> Any:
    return y * (g - (g * y).sum(-1, keepdim=True))


def one_hot_saved(ctx: Any, logits: Any, noise: Any, temperature: float) -> Any:
    ctx.temperature = temperature
    y = softmax(logits + noise, -1)
    hard = (y == y.amax(-1, keepdim=True)).to(y)
    ctx.save_for_backward(hard)
    return hard


def all_of_the_largest(ctx: Any, logits: Any, noise: Any, temperature: float) -> Any:
    ctx.temperature = temperature
    y = softmax((logits + noise) / temperature, -1)
    ctx.save_for_backward(y)
    return (y == y.amax(-1, keepdim=True)).to(y)


def noise_forgotten(ctx: Any, logits: Any, noise: Any, temperature: float) -> Any:
    soft = softmax(logits / temperature, -1)
    ctx.save_for_backward(soft)
    ctx.temperature = temperature
    return torch.nn.functional.one_hot((logits + noise).argmax(-1), soft.shape[-1]).to(soft)


def whole_numbers(ctx: Any, logits: Any, noise: Any, temperature: float) -> Any:
    hard = SOLVED["HardGumbelSoftmax"].forward(ctx, logits, noise, temperature)
    return hard.long()


WRONG = [
    backward("sign-ste", "the true gradient", "missing-gradient", lambda ctx, g: 0 * g),
    backward("sign-ste", "returns nothing", "missing-gradient", lambda ctx, g: None),
    forward("sign-ste", "0 at 0", "forward-mismatch", torch_sign),
    forward("sign-ste", "the sign bit of zero", "forward-mismatch", sign_bit),
    forward("sign-ste", "whole numbers", "has dtype torch.int64", sign_in_integers),
    forward("sign-ste", "moves x first", "forward-mismatch", sign_of_a_neighbor),
    backward("sign-ste", "signs the gradient", "nonlinear-in-grad-output", lambda ctx, g: g.sign()),
    backward(
        "sign-ste",
        "the surrogate's derivative alone",
        "ignores-grad-output",
        lambda ctx, g: g * 0 + 1,
    ),
    backward("clipped-sign", "forgets the clip", "wrong-region", lambda ctx, inside, g: g),
    forward(
        "clipped-sign",
        "clips at 0.5",
        "wrong-region",
        saves_x_clipped(lambda x: x.abs() <= 0.5),
    ),
    forward("clipped-sign", "clips one side", "wrong-region", saves_x_clipped(lambda x: x <= 1)),
    forward("clipped-sign", "asks the output", "wrong-region", mask_of_the_output),
    forward(
        "clipped-sign",
        "stops at the bounds",
        "kink-convention",
        saves_x_clipped(lambda x: x.abs() < 1),
    ),
    forward(
        "clipped-sign",
        "multiplies by the clipped x",
        "gradient-mismatch",
        saves_x_clipped(lambda x: x.clamp(-1, 1)),
    ),
    forward(
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
    backward("round-ste", "one gradient for two", "wrong-arity", lambda ctx, g: g),
    backward("round-ste", "the true gradient", "missing-gradient", lambda ctx, g: (0 * g, None)),
    backward(
        "round-ste",
        "rounds the gradient",
        "nonlinear-in-grad-output",
        lambda ctx, g: (g.round(), None),
    ),
    forward("round-ste", "does not scale back", "forward-mismatch", forgets_to_scale_back),
    forward("round-ste", "rounds halves up", "forward-mismatch", half_up),
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
        "wrong-region",
        lambda ctx, x, s, g: _quantize(ctx, g, x=g * _inside(ctx, (x / s).round())),
        hint="for the gradient of x, too, hold x / step against the bounds",
    ),
    backward(
        "fake-quantize",
        "holds the rounded level against the bounds for both",
        "wrong-region",
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
    forward("fake-quantize", "forgets the bounds", "forward-mismatch", forgets_the_bounds),
    backward(
        "gumbel-soft",
        "passes g",
        "gradient-mismatch",
        lambda ctx, y, g: (g.clone(), None, None),
    ),
    backward(
        "gumbel-soft",
        "forgets the temperature",
        "constant-factor",
        lambda ctx, y, g: (_soft(y, g), None, None),
    ),
    backward(
        "gumbel-soft",
        "multiplies by the temperature",
        "constant-factor",
        lambda ctx, y, g: (_soft(y, g) * ctx.temperature, None, None),
    ),
    backward(
        "gumbel-soft",
        "the diagonal only",
        "missing-cross-terms",
        lambda ctx, y, g: (y * (1 - y) * g / ctx.temperature, None, None),
    ),
    backward(
        "gumbel-soft",
        "sums over everything",
        "batch-dimension",
        lambda ctx, y, g: (y * (g - (g * y).sum()) / ctx.temperature, None, None),
    ),
    backward(
        "gumbel-soft",
        "one gradient for three",
        "wrong-arity",
        lambda ctx, y, g: _soft(y, g) / ctx.temperature,
    ),
    backward(
        "gumbel-soft",
        "divides the noise's gradient by the temperature twice",
        "gradient-mismatch",
        lambda ctx, y, g: (
            _soft(y, g) / ctx.temperature,
            _soft(y, g) / ctx.temperature**2,
            None,
        ),
        hint="Noise is not learned",
    ),
    backward(
        "gumbel-hard",
        "passes g",
        "gradient-mismatch",
        lambda ctx, y, g: (g.clone(), None, None),
    ),
    backward(
        "gumbel-hard",
        "forgets the temperature",
        "constant-factor",
        lambda ctx, y, g: (_soft(y, g), None, None),
    ),
    forward("gumbel-hard", "marks all of the largest", "forward-mismatch", all_of_the_largest),
    forward("gumbel-hard", "saves the one-hot vector", "missing-gradient", one_hot_saved),
    forward("gumbel-hard", "a gradient without the noise", "gradient-mismatch", noise_forgotten),
    forward("gumbel-hard", "whole numbers", "dtype torch.int64", whole_numbers),
    forward("gumbel-hard", "stays soft", "forward-mismatch", SOLVED["GumbelSoftmax"].forward),
    *digits.WRONG_DIGITS,
]


LOGITS, NOISE = double(0, 1, 0), double(0, -1, 2)

KNOWN = [
    ("sign-ste", (double(-0.1, 0, 7),), double(-1, 1, 1)),
    ("clipped-sign", (double(-0.1, 0, 7),), double(-1, 1, 1)),
    ("round-ste", (double(0.25, 0.6, -0.75), 0.5), double(0, 0.5, -1)),
    ("fake-quantize", (double(-9, 0.6, 2), double(0.5).squeeze(), -4, 3), double(-2, 0.5, 1.5)),
    ("gumbel-soft", (LOGITS, NOISE, 2.0), softmax(double(0, 0, 1), -1)),
    ("gumbel-hard", (LOGITS, NOISE, 2.0), double(0, 0, 1)),
]
