"""Gumbel-softmax at given noise: soft, and made hard."""

from collections.abc import Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks.calling import farthest, found
from autograd_course.grader.exercise import Sampler
from autograd_course.grader.sampling import normal


def gumbel_softmax(logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Return ``softmax((logits + noise) / temperature)`` over the last axis."""
    return torch.softmax((logits + noise) / temperature, -1)


def noise_gets_none_or_the_truth(
    function: type[Function], inputs: tuple[Any, ...]
) -> Finding | None:
    """Ask that a gradient of the noise, which nobody has to return, is that of the logits."""
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
        f"the gradients of the logits are right. One of the noise came too: {came:.4g}, should be "
        f"{right:.4g}.",
        {"actual": came, "expected": right},
        "Noise is not learned, so None will do. Logits and noise enter as a sum: what one gets, "
        "the other gets.",
    )


def _draw(temperature: float, *shape: int) -> Sampler:
    """Return a sampler in which only the logits ask for a gradient: noise is given, not learned."""

    def sampler(rng: torch.Generator) -> tuple[Tensor, Tensor, float]:
        waiting = torch.empty(shape, dtype=torch.float64, device="cpu").exponential_(generator=rng)
        return normal(rng, *shape).requires_grad_(), -waiting.log(), temperature

    return sampler


GUMBEL_INPUTS: Mapping[str, Sampler] = {
    "three samples of five classes, temperature 0.5": _draw(0.5, 3, 5),
    "one sample, temperature 1": _draw(1.0, 4),
    "two leading axes, one of length 1, temperature 2": _draw(2.0, 2, 1, 3),
    "a low temperature, 0.2": _draw(0.2, 2, 3),
}
