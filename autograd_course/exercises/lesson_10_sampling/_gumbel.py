"""References, checks and inputs for the sampling exercises."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import one_hot

from autograd_course.grader.checks.calling import farthest, found
from autograd_course.grader.exercise import Sampler, by_values
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import mistaken


def gumbel_softmax(logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Return ``softmax((logits + noise) / temperature)`` over the last dimension."""
    return torch.softmax((logits + noise) / temperature, -1)


def one_hot_sample(logits: Tensor, noise: Tensor) -> Tensor:
    """Return the one-hot vector that marks the largest element of ``logits + noise``."""
    return one_hot((logits + noise).argmax(-1), logits.shape[-1]).to(logits)


def softly(
    step: Callable[[Tensor, Tensor], Tensor],
    soft: Callable[[Tensor, Tensor, float], Tensor] = gumbel_softmax,
    scale: Callable[[float], float] = lambda temperature: 1 / temperature,
) -> Callable[..., Any]:
    """Return a Gumbel-softmax with the gradient ``step(y, grad_output) * scale(temperature)``.

    ``y`` is the result of ``soft``, by default the soft sample.
    """

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor]:
        return (step(soft(*inputs), g) * scale(inputs[-1]),)

    return mistaken(gumbel_softmax, backward)


def through_softmax(y: Tensor, g: Tensor) -> Tensor:
    """Return the input gradient of a softmax over the last dim, given its output ``y``."""
    return y * (g - (g * y).sum(-1, keepdim=True))


SOFTMAX_MISTAKES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "y · g is only a part of the gradient. All outputs of a sample share one sum, so subtract "
    "y · (g · y).sum(-1, keepdim=True).": lambda y, g: y * g,
    "y · (1 - y) is the derivative of each entry with respect to its own logit. Each logit also "
    "changes the other entries of its sample.": lambda y, g: y * (1 - y) * g,
    "The sum in your formula contains g alone. It must be the sum of g · y.": (
        lambda y, g: y * (g - g.sum(-1, keepdim=True))
    ),
    "The sum is subtracted without the factor y. The gradient is y · g - y · (g · y).sum(-1).": (
        lambda y, g: y * g - (g * y).sum(-1, keepdim=True)
    ),
    "The factor y is missing in front. The gradient is y · (g - (g · y).sum(-1)).": (
        lambda y, g: g - (g * y).sum(-1, keepdim=True)
    ),
    "The sum is added. It must be subtracted: if one entry rises, the others fall.": (
        lambda y, g: y * (g + (g * y).sum(-1, keepdim=True))
    ),
    "Your formula has the mean of g · y. It must be the sum.": (
        lambda y, g: y * (g - (g * y).mean(-1, keepdim=True))
    ),
    "The sum runs over the whole tensor. Each sample has a sum of its own, over the last dim.": (
        lambda y, g: y * (g - (g * y).sum())
    ),
    "The sum runs over dim 0. It must run over the classes, the last dim.": (
        lambda y, g: y * (g - (g * y).sum(0, keepdim=True))
    ),
}
SOFT_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    **{told: softly(step) for told, step in SOFTMAX_MISTAKES.items()},
    "grad_output passes unchanged. The gradient must go through the softmax.": (
        softly(lambda y, g: g, scale=lambda temperature: 1.0)
    ),
    "grad_output is only divided by the temperature. It must also go through the softmax.": (
        softly(lambda y, g: g)
    ),
    "The gradient must be divided by the temperature: the input of the softmax is (logits + noise) "
    "/ temperature.": softly(through_softmax, scale=lambda temperature: 1.0),
    "You multiply by the temperature. The derivative of (logits + noise) / temperature is 1 / "
    "temperature.": softly(through_softmax, scale=lambda temperature: temperature),
    "Your gradient has no noise in the softmax, and it is not divided by the temperature. Use the "
    "softmax of (logits + noise) / temperature.": softly(
        through_softmax, lambda logits, noise, _: logits.softmax(-1), lambda temperature: 1.0
    ),
    "The softmax in backward contains neither the noise nor the temperature. It must be the soft "
    "sample.": softly(through_softmax, lambda logits, noise, _: logits.softmax(-1)),
    "The softmax in backward lacks the noise. It must be the soft sample, with the same noise as "
    "in forward.": softly(through_softmax, lambda logits, noise, t: (logits / t).softmax(-1)),
    "The softmax in backward lacks the noise, and the gradient is not divided by the "
    "temperature.": (
        softly(through_softmax, lambda logits, noise, t: (logits / t).softmax(-1), lambda t: 1.0)
    ),
    "The softmax in backward lacks the temperature. It must be the soft sample, softmax((logits + "
    "noise) / temperature).": softly(
        through_softmax, lambda logits, noise, _: (logits + noise).softmax(-1)
    ),
    "The temperature is nowhere in your gradient. It belongs in the softmax, and the gradient is "
    "divided by it.": softly(
        through_softmax, lambda logits, noise, _: (logits + noise).softmax(-1), lambda t: 1.0
    ),
    "In the softmax, only the logits are divided by the temperature. Divide the sum of logits and "
    "noise.": softly(through_softmax, lambda logits, noise, t: (logits / t + noise).softmax(-1)),
    "Your formula contains the one-hot output. Its place belongs to the soft sample.": softly(
        through_softmax, lambda logits, noise, _: one_hot_sample(logits, noise)
    ),
}
SOFT_SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "The temperature is missing. Divide logits + noise by it.": (
        lambda logits, noise, t: (logits + noise).softmax(-1)
    ),
    "Only the logits are divided by the temperature. Divide the sum of logits and noise.": (
        lambda logits, noise, t: (logits / t + noise).softmax(-1)
    ),
    "Only the noise is divided by the temperature. Divide the sum of logits and noise.": (
        lambda logits, noise, t: (logits + noise / t).softmax(-1)
    ),
    "You multiply by the temperature. Divide by it.": (
        lambda logits, noise, t: ((logits + noise) * t).softmax(-1)
    ),
    "The noise is missing. Add it to the logits.": (
        lambda logits, noise, t: (logits / t).softmax(-1)
    ),
    "The noise is subtracted. Add it.": (
        lambda logits, noise, t: ((logits - noise) / t).softmax(-1)
    ),
    "The softmax runs over dim 0. It must run over the last dim, the classes.": (
        lambda logits, noise, t: ((logits + noise) / t).softmax(0)
    ),
}
HARD_SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "The noise is missing. The largest entry of logits + noise wins.": (
        lambda logits, noise, *_: one_hot_sample(logits, 0 * noise)
    ),
    "The noise is subtracted. Add it.": (lambda logits, noise, *_: one_hot_sample(logits, -noise)),
    "The smallest entry wins. It must be the largest.": (
        lambda logits, noise, *_: one_hot_sample(-logits, -noise)
    ),
    "one_hot does not know the number of classes, so it takes the largest index plus 1. If the "
    "last class does not win, columns are missing. Pass the number of classes.": (
        lambda logits, noise, *_: one_hot((logits + noise).argmax(-1)).to(logits)
    ),
    "Only the largest entry of the whole tensor is 1. Choose the largest entry of each sample, "
    "along the last dim.": lambda logits, noise, *_: (logits + noise == (logits + noise).amax()).to(
        logits
    ),
    "The largest entry is chosen along dim 0. Choose it along the last dim.": (
        lambda logits, noise, *_: (logits + noise == (logits + noise).amax(0)).to(logits)
    ),
    "The output is an index. It must be one-hot, with as many entries as there are classes.": (
        lambda logits, noise, *_: (logits + noise).argmax(-1)
    ),
    "The output has integers. Give it the dtype of the logits.": (
        lambda logits, noise, *_: one_hot_sample(logits, noise).long()
    ),
    "The output is the soft sample. In forward, only the largest entry is 1.": (
        lambda logits, noise, t=1.0: gumbel_softmax(logits, noise, t)
    ),
    "The output is the largest number itself, and not 1.": (
        lambda logits, noise, *_: one_hot_sample(logits, noise) * (logits + noise)
    ),
}


@by_values
def noise_gets_none_or_the_truth(
    function: type[Function], inputs: tuple[Any, ...]
) -> Finding | None:
    """Check that the noise gets no gradient, or the same gradient as the logits."""
    logits, noise, temperature = inputs
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (logits, noise)]
    sample = function.apply(*leaves, temperature)
    arriving = torch.randn(sample.shape, generator=torch.Generator().manual_seed(0)).to(sample)
    of_logits, of_noise = torch.autograd.grad(sample, leaves, arriving, allow_unused=True)
    if of_noise is None or not of_noise.any() or torch.allclose(of_noise, of_logits):
        return None
    came, right = farthest(of_noise, of_logits)
    return found(
        "gradient-mismatch",
        f"the gradient of the logits is right, but that of the noise is wrong: {came:.4g}, should "
        f"be {right:.4g}.",
        {"actual": came, "expected": right},
        "The noise is not learned, so you can return None. If you return a gradient, it must be "
        "that of the logits, because forward adds the two.",
    )


def logits_and_noise(rng: torch.Generator, *shape: int) -> tuple[Tensor, Tensor]:
    """Return logits that require a gradient, and noise that does not."""
    waiting = torch.empty(shape, dtype=torch.float64, device="cpu").exponential_(generator=rng)
    return normal(rng, *shape).requires_grad_(), -waiting.log()


def _at(temperature: float, *shape: int) -> Sampler:
    return lambda rng: (*logits_and_noise(rng, *shape), temperature)


def last_never_wins(rng: torch.Generator, *shape: int) -> tuple[Tensor, Tensor]:
    """Return logits and noise for which the last class never wins."""
    logits, noise = logits_and_noise(rng, *shape)
    logits = logits.detach()
    logits[..., -1] -= 50
    return logits.requires_grad_(), noise


GUMBEL_INPUTS: Mapping[str, Sampler] = {
    "three samples of five classes, temperature 0.5": _at(0.5, 3, 5),
    "one sample, temperature 1": _at(1.0, 4),
    "two leading axes, one of length 1, temperature 2": _at(2.0, 2, 1, 3),
    "a low temperature, 0.2": _at(0.2, 2, 3),
}
