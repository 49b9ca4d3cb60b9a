"""The sampling exercises of lesson 04: Gumbel-softmax, soft and hard, at given noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import backward_is_a_formula, no_tensor_on_ctx
from autograd_course.grader.checks.calling import applied, farthest, found
from autograd_course.grader.exercise import FunctionExercise, Sampler
from autograd_course.grader.sampling import normal


def gumbel_softmax(logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Return ``softmax((logits + noise) / temperature)`` over the last axis."""
    return torch.softmax((logits + noise) / temperature, -1)


def hard_gumbel_softmax(logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Return the one-hot vector of the largest ``logits + noise``."""
    largest = (logits + noise).argmax(-1)
    return torch.nn.functional.one_hot(largest, logits.shape[-1]).to(logits)


def one_hot_at_a_tie(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that one class alone is chosen where two are the largest alike."""
    logits = torch.tensor([0.5, 2.0, -1.0, 2.0], dtype=torch.float64)
    (chosen,) = applied(function, (logits, torch.zeros_like(logits), 1.0))[1]
    if sorted(chosen.tolist()) == [0.0, 0.0, 0.0, 1.0]:
        return None
    return found(
        "forward-mismatch",
        f"for logits {logits.tolist()} and no noise the output is {chosen.tolist()}: two classes "
        "are the largest alike, and one of them is to be chosen.",
        {"actual": chosen.tolist()},
        "Where does the largest element stand? argmax names one place, a comparison with the "
        "maximum marks all.",
    )


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

SAMPLING: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="gumbel-soft",
        lesson="04_straight_through",
        title="Gumbel-softmax, soft",
        points=3,
        reference=gumbel_softmax,
        samplers=GUMBEL_INPUTS,
        hints=(
            "Raise one logit by a little. Which entries of y change? A gradient that is g itself "
            "says: only the one entry, and by as much.",
            "Take it in two steps. The argument of the softmax is (logits + noise)/τ, an inner "
            "derivative. The softmax has ∂yᵢ/∂zⱼ = yᵢ(δᵢⱼ - yⱼ): multiply from the left by g and "
            "sum over i, before you write any code.",
            "y · (g - (g · y).sum(-1, keepdim=True)) / temperature for the logits, None for noise "
            "and temperature. Save y, the output.",
        ),
        read='lesson 04, "Soft"',
        checks=(backward_is_a_formula, no_tensor_on_ctx, noise_gets_none_or_the_truth),
    ),
    FunctionExercise(
        id="gumbel-hard",
        lesson="04_straight_through",
        title="Gumbel-softmax, hard",
        points=2,
        reference=hard_gumbel_softmax,
        surrogate=gumbel_softmax,
        samplers=GUMBEL_INPUTS,
        double_backward=False,
        hints=(
            "The one-hot vector has no gradient worth having. Which smooth vector stands in for "
            "it, and what must forward leave for backward so that its gradient can be had?",
            "backward is word for word that of the soft mode, at the same noise. It needs the soft "
            "sample, which forward computes but does not return.",
            "In forward: soft = softmax of (logits + noise)/temperature; save soft, return the "
            "one-hot vector of its argmax, in the dtype of the logits. In backward: the soft "
            "formula with the saved soft.",
        ),
        read='lesson 04, "Hard"',
        bounds="the output is one-hot, also at a tie, and its gradient that of the soft sample",
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            one_hot_at_a_tie,
            noise_gets_none_or_the_truth,
        ),
    ),
)
