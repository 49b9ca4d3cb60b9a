"""Answers to the exercises of lesson 10."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function
from torch.nn.functional import softmax

from answers.making import Rewriting, Spoiling, Wrong, double, solved, spoiled
from autograd_course import functions

changed = Rewriting("10_sampling")
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


def needs_noise(logits: Any, noise: Any, temperature: float) -> Any:
    """Raise an exception for inputs that only a check of the exercise uses."""
    if not noise.any():
        raise ValueError("there is no noise")
    return RIGHT["gumbel-hard"].forward(logits, noise, temperature)


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
    forward("gumbel-hard", "raises without noise", "when the grader checks", needs_noise),
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
        "one slope at a mixture",
        "gradient-mismatch",
        lambda ctx, logits, y, g: (_soft(softmax(logits, -1) / 2 + y, g), None),
        hint="J(q)ᵀg contains q twice",
    ),
    backward(
        "reinmax",
        "the mean of two slopes",
        "gradient-mismatch",
        lambda ctx, logits, y, g: (
            (_soft(softmax(logits, -1), g) + _soft(y, g)) - _soft(softmax(logits, -1), g) / 2,
            None,
        ),
        hint="not the slope at m",
    ),
    backward(
        "reinmax",
        "draws again without the noise",
        "gradient-mismatch",
        lambda ctx, logits, y, g: _reinmax(logits, RIGHT["reinmax"].forward(logits, 0 * y), g),
        hint="but without the noise",
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
    changed(
        "gumbel-soft",
        "no temperature fwd",
        "The temperature is missing",
        ("(logits + noise) / temperature, -1", "logits + noise, -1"),
    ),
    changed(
        "gumbel-soft",
        "T only on logits",
        "Only the logits are divided",
        ("(logits + noise) / temperature", "logits / temperature + noise"),
    ),
    changed(
        "gumbel-soft",
        "times T",
        "You multiply by the temperature. Divide",
        ("(logits + noise) / temperature", "(logits + noise) * temperature"),
    ),
    changed(
        "gumbel-soft",
        "no noise",
        "The noise is missing",
        ("(logits + noise) / temperature", "logits / temperature"),
    ),
    changed(
        "gumbel-soft",
        "minus noise",
        "The noise is subtracted",
        ("(logits + noise)", "(logits - noise)"),
    ),
    changed(
        "gumbel-soft", "dim 0", "The softmax runs over", ("temperature, -1)", "temperature, 0)")
    ),
    changed(
        "gumbel-soft",
        "no 1/T bwd",
        "The gradient must be",
        ("grad_logits / ctx.temperature", "grad_logits"),
    ),
    changed(
        "gumbel-soft",
        "times T bwd",
        "You multiply by the temperature. The",
        ("grad_logits / ctx.temperature", "grad_logits * ctx.temperature"),
    ),
    changed(
        "gumbel-soft",
        "only y*g",
        "y · g is only a part",
        ("weighted - y * weighted.sum(-1, keepdim=True)", "weighted"),
    ),
    changed(
        "gumbel-soft",
        "y(1-y)",
        "y · (1 - y) is the derivative",
        ("weighted - y * weighted.sum(-1, keepdim=True)", "weighted * (1 - y)"),
    ),
    changed("gumbel-soft", "sum all", "The sum runs over the", ("sum(-1, keepdim=True)", "sum()")),
    changed(
        "gumbel-soft",
        "sum dim 0",
        "The sum runs over dim",
        ("sum(-1, keepdim=True)", "sum(0, keepdim=True)"),
    ),
    changed(
        "gumbel-soft",
        "g.sum",
        "The sum in your formula",
        ("weighted.sum(-1, keepdim=True)", "grad_output.sum(-1, keepdim=True)"),
    ),
    changed(
        "gumbel-soft",
        "no y on sum",
        "The sum is subtracted",
        ("weighted - y * weighted", "weighted - weighted"),
    ),
    changed("gumbel-soft", "plus", "The sum is added. It", ("weighted - y", "weighted + y")),
    changed("gumbel-soft", "mean", "Your formula has the", ("weighted.sum(", "weighted.mean(")),
    changed(
        "gumbel-soft",
        "identity",
        "grad_output is only divided",
        ("weighted - y * weighted.sum(-1, keepdim=True)", "grad_output"),
    ),
    changed(
        "gumbel-hard",
        "no noise bwd, no 1/T",
        "Your gradient has no",
        ("(logits + noise) / ctx.temperature", "logits"),
        ("grad_logits / ctx.temperature", "grad_logits"),
    ),
    changed(
        "gumbel-hard",
        "no noise bwd",
        "The softmax in backward lacks the noise.",
        ("(logits + noise) / ctx.temperature", "logits / ctx.temperature"),
    ),
    changed(
        "gumbel-hard",
        "no T in soft",
        "The softmax in backward lacks the temperature",
        ("(logits + noise) / ctx.temperature", "(logits + noise)"),
    ),
    changed(
        "gumbel-hard",
        "no T at all",
        "The temperature is nowhere",
        ("(logits + noise) / ctx.temperature", "(logits + noise)"),
        ("grad_logits / ctx.temperature", "grad_logits"),
    ),
    changed(
        "gumbel-hard",
        "no 1/T bwd",
        "The gradient must be",
        ("grad_logits / ctx.temperature", "grad_logits"),
    ),
    changed(
        "gumbel-hard",
        "straight through",
        "grad_output passes unchanged",
        (
            "soft = torch.softmax((logits + noise) / ctx.temperature, -1)\n"
            "        weighted = grad_output * soft\n"
            "        grad_logits = weighted - soft * weighted.sum(-1, "
            "keepdim=True)\n        return grad_logits / ctx.temperature",
            "return grad_output",
        ),
    ),
    changed(
        "gumbel-hard",
        "uses hard y",
        "Your formula contains",
        (
            "soft = torch.softmax((logits + noise) / ctx.temperature, -1)",
            "soft = torch.nn.functional.one_hot((logits+noise).argmax(-1), "
            "logits.shape[-1]).to(logits)",
        ),
    ),
    changed(
        "gumbel-hard",
        "argmax logits",
        "The noise is missing",
        ("(logits + noise).argmax(-1)", "logits.argmax(-1)"),
    ),
    changed("gumbel-hard", "int", "The output has integers", (".to(logits)", "")),
    changed(
        "gumbel-hard",
        "returns index",
        "The output is an index",
        ("return one_hot(largest, logits.shape[-1]).to(logits)", "return largest"),
    ),
    changed(
        "gumbel-hard",
        "no num classes",
        "one_hot does not know",
        ("one_hot(largest, logits.shape[-1])", "one_hot(largest)"),
    ),
    changed(
        "gumbel-hard",
        "max compare",
        "Only the largest entry",
        (
            "largest = (logits + noise).argmax(-1)\n"
            "        return one_hot(largest, logits.shape[-1]).to(logits)",
            "z = logits + noise\n        return (z == z.max()).to(logits)",
        ),
    ),
    changed(
        "gumbel-hard",
        "only y*g",
        "y · g is only a part",
        ("weighted - soft * weighted.sum(-1, keepdim=True)", "weighted"),
    ),
    changed(
        "gumbel-hard",
        "y(1-y)",
        "y · (1 - y) is the derivative",
        ("weighted - soft * weighted.sum(-1, keepdim=True)", "weighted * (1 - soft)"),
    ),
    changed(
        "gumbel-hard",
        "T on logits only",
        "In the softmax, only",
        ("(logits + noise) / ctx.temperature", "logits / ctx.temperature + noise"),
    ),
    changed(
        "gumbel-hard",
        "temp wrong: *T",
        "You multiply by the temperature",
        ("grad_logits / ctx.temperature", "grad_logits * ctx.temperature"),
    ),
    changed("gumbel-hard", "argmin", "The smallest entry wins", ("argmax", "argmin")),
    changed("reinmax", "no 2", "The first term lacks", ("2 * by_m", "by_m")),
    changed("reinmax", "no half", "The second term lacks", ("by_p / 2", "by_p")),
    changed("reinmax", "plus", "The second term is added", ("by_m - by_p", "by_m + by_p")),
    changed("reinmax", "m is p+y", "m is p + y in your formula", ("(p + y) / 2", "p + y")),
    changed(
        "reinmax",
        "average of J",
        "You take the mean of",
        ("2 * by_m - by_p / 2", "(by_m + by_p) / 2"),
    ),
    changed("reinmax", "only m", "This is only the slope", ("2 * by_m - by_p / 2", "by_m")),
    changed(
        "reinmax", "only 2m", "The second term, -½ J(p)ᵀg,", ("2 * by_m - by_p / 2", "2 * by_m")
    ),
    changed(
        "reinmax",
        "jm with p",
        "In J(m)ᵀg, the sum contains",
        (
            "by_m = m * (grad_output - (grad_output * m)",
            "by_m = m * (grad_output - (grad_output * p)",
        ),
    ),
    changed(
        "reinmax",
        "jy",
        "m is y in your formula",
        (
            "by_m = m * (grad_output - (grad_output * m)",
            "by_m = y * (grad_output - (grad_output * y)",
        ),
    ),
    changed(
        "reinmax",
        "sum g",
        "J(q)ᵀg has the sum of",
        ("(grad_output * m).sum", "grad_output.sum"),
        ("(grad_output * p).sum", "grad_output.sum"),
    ),
    changed(
        "reinmax",
        "elementwise",
        "q · (1 - q) is only the",
        ("m * (grad_output - (grad_output * m).sum(-1, keepdim=True))", "m * (1-m) * grad_output"),
        ("p * (grad_output - (grad_output * p).sum(-1, keepdim=True))", "p * (1-p) * grad_output"),
    ),
    changed(
        "reinmax", "ste", "grad_output passes unchanged", ("2 * by_m - by_p / 2", "grad_output")
    ),
    changed(
        "reinmax",
        "fwd no noise",
        "The noise is missing",
        ("(logits + noise).argmax", "logits.argmax"),
    ),
]


LOGITS, NOISE = double(0, 1, 0), double(0, -1, 2)

KNOWN = [
    ("gumbel-soft", (LOGITS, NOISE, 2.0), softmax(double(0, 0, 1), -1)),
    ("gumbel-hard", (LOGITS, NOISE, 2.0), double(0, 0, 1)),
    ("reinmax", (LOGITS, NOISE), double(0, 0, 1)),
]
