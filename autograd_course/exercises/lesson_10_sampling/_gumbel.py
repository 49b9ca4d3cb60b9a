"""References, checks and inputs that the sampling exercises share."""

from collections.abc import Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import one_hot

from autograd_course.grader.checks.calling import farthest, found
from autograd_course.grader.exercise import Sampler, by_values
from autograd_course.grader.sampling import normal


def gumbel_softmax(logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Return ``softmax((logits + noise) / temperature)`` over the last dimension."""
    return torch.softmax((logits + noise) / temperature, -1)


def one_hot_sample(logits: Tensor, noise: Tensor) -> Tensor:
    """Return the one-hot vector of the largest ``logits + noise``."""
    return one_hot((logits + noise).argmax(-1), logits.shape[-1]).to(logits)


@by_values
def noise_gets_none_or_the_truth(
    function: type[Function], inputs: tuple[Any, ...]
) -> Finding | None:
    """Check that the noise has no gradient or the same gradient as the logits."""
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


GUMBEL_INPUTS: Mapping[str, Sampler] = {
    "three samples of five classes, temperature 0.5": _at(0.5, 3, 5),
    "one sample, temperature 1": _at(1.0, 4),
    "two leading axes, one of length 1, temperature 2": _at(2.0, 2, 1, 3),
    "a low temperature, 0.2": _at(0.2, 2, 3),
}
