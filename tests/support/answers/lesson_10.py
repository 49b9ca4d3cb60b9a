"""Answers to the exercises of lesson 10."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function
from torch.nn.functional import softmax

from answers.making import Spoiling, Wrong, double, solved, spoiled
from autograd_course import functions

SOLVED = solved("10_sampling")
RIGHT = {
    "gumbel-soft": SOLVED["GumbelSoftmax"],
    "gumbel-hard": SOLVED["HardGumbelSoftmax"],
    "reinmax": SOLVED["ReinMax"],
}


class SoftByJacobian(Function):
    """Writes out the Jacobian, and also returns a gradient for the noise."""

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


class ReinMaxByOneJacobian(SoftByJacobian):
    """Writes out the Jacobians, and computes the values for backward in forward."""

    @staticmethod
    def forward(ctx: Any, logits: Any, noise: Any) -> Any:
        p = softmax(logits, -1)
        y = torch.zeros_like(p).scatter_(-1, (logits + noise).argmax(-1, keepdim=True), 1.0)
        ctx.save_for_backward(p, (p + y) / 2)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        p, m = ctx.saved_tensors
        at_p, at_m = (torch.diag_embed(q) - q[..., :, None] * q[..., None, :] for q in (p, m))
        return (g[..., None, :] @ (2 * at_m - at_p / 2)).squeeze(-2), None


ALSO_RIGHT = {
    "softmax by its Jacobian": ("gumbel-soft", SoftByJacobian),
    "Gumbel-softmax of the package": ("gumbel-soft", functions.GumbelSoftmax),
    "one-hot by scatter": ("gumbel-hard", HardByScatter),
    "hard Gumbel-softmax of the package": ("gumbel-hard", HardOfThePackage),
    "ReinMax by its Jacobians": ("reinmax", ReinMaxByOneJacobian),
    "ReinMax of the package": ("reinmax", functions.ReinMax),
}


spoiling = Spoiling(RIGHT)
backward, forward = spoiling.backward, spoiling.forward


def _soft(y: Any, g: Any) -> Any:
    return y * (g - (g * y).sum(-1, keepdim=True))


def _hard(ctx: Any, logits: Any, noise: Any) -> Any:
    return softmax((logits + noise) / ctx.temperature, -1)


def all_of_the_largest(logits: Any, noise: Any, temperature: float) -> Any:
    sums = logits + noise
    return (sums == sums.amax(-1, keepdim=True)).to(sums)


def whole_numbers(logits: Any, noise: Any) -> Any:
    return torch.nn.functional.one_hot((logits + noise).argmax(-1), logits.shape[-1])


def without_noise(logits: Any, noise: Any) -> Any:
    return RIGHT["reinmax"].forward(logits, 0 * noise)


def _reinmax(logits: Any, y: Any, g: Any, at_m: float = 2.0, at_p: float = -0.5) -> Any:
    p = softmax(logits, -1)
    return at_m * _soft((p + y) / 2, g) + at_p * _soft(p, g), None


def saves_noisy_logits(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0] + inputs[1], output)


WRONG = [
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
        hint="The noise is not learned",
    ),
    backward(
        "gumbel-hard",
        "passes g",
        "gradient-mismatch",
        lambda ctx, logits, noise, g: (g.clone(), None, None),
    ),
    backward(
        "gumbel-hard",
        "forgets the temperature",
        "constant-factor",
        lambda ctx, logits, noise, g: (_soft(_hard(ctx, logits, noise), g), None, None),
    ),
    backward(
        "gumbel-hard",
        "a gradient without the noise",
        "gradient-mismatch",
        lambda ctx, logits, noise, g: (
            _soft(_hard(ctx, logits, 0 * noise), g) / ctx.temperature,
            None,
            None,
        ),
    ),
    Wrong(
        "gumbel-hard",
        "saves the one-hot vector",
        "missing-gradient",
        spoiled(SOLVED["GumbelSoftmax"], forward=RIGHT["gumbel-hard"].forward),
    ),
    forward("gumbel-hard", "marks all of the largest", "forward-mismatch", all_of_the_largest),
    forward(
        "gumbel-hard",
        "whole numbers",
        "dtype torch.int64",
        lambda logits, noise, temperature: whole_numbers(logits, noise),
    ),
    forward("gumbel-hard", "stays soft", "forward-mismatch", SOLVED["GumbelSoftmax"].forward),
    backward(
        "reinmax",
        "straight through",
        "gradient-mismatch",
        lambda ctx, logits, y, g: (_soft(softmax(logits, -1), g), None),
        hint="ReinMax also needs the slope at m",
    ),
    backward(
        "reinmax",
        "forgets the slope at p",
        "missing-dependency",
        lambda ctx, logits, y, g: _reinmax(logits, y, g, at_p=0.0),
    ),
    backward(
        "reinmax",
        "adds the two slopes",
        "gradient-mismatch",
        lambda ctx, logits, y, g: _reinmax(logits, y, g, at_p=0.5),
    ),
    backward(
        "reinmax",
        "half of it",
        "constant-factor",
        lambda ctx, logits, y, g: _reinmax(logits, y, g, at_m=1.0, at_p=-0.25),
    ),
    backward(
        "reinmax",
        "the one-hot vector in place of m",
        "missing-dependency",
        lambda ctx, logits, y, g: (2 * _soft(y, g) - _soft(softmax(logits, -1), g) / 2, None),
    ),
    backward(
        "reinmax",
        "sums over everything",
        "batch-dimension",
        lambda ctx, logits, y, g: (
            (lambda p, m: 2 * m * (g - (g * m).sum()) - p * (g - (g * p).sum()) / 2)(
                softmax(logits, -1), (softmax(logits, -1) + y) / 2
            ),
            None,
        ),
    ),
    backward(
        "reinmax",
        "one gradient for two",
        "wrong-arity",
        lambda ctx, logits, y, g: _reinmax(logits, y, g)[0],
    ),
    Wrong(
        "reinmax",
        "noise in the probabilities",
        "gradient-mismatch",
        spoiled(RIGHT["reinmax"], setup_context=saves_noisy_logits),
        hint="Compute p from the logits alone",
    ),
    forward("reinmax", "chooses without the noise", "forward-mismatch", without_noise),
    forward("reinmax", "whole numbers", "dtype torch.int64", whole_numbers),
]


LOGITS, NOISE = double(0, 1, 0), double(0, -1, 2)

KNOWN = [
    ("gumbel-soft", (LOGITS, NOISE, 2.0), softmax(double(0, 0, 1), -1)),
    ("gumbel-hard", (LOGITS, NOISE, 2.0), double(0, 0, 1)),
    ("reinmax", (LOGITS, NOISE), double(0, 0, 1)),
]
