"""Surrogates: what a straight-through estimator takes for the derivative of a staircase.

Each is a smooth or broken line ``h`` through the staircase; backward multiplies by ``h′``. Its
center ``c`` and half-width ``r`` are those of the quantizer's reach.

ReinMax (Liu et al. 2023) is not among them. It is a second-order estimate for the expectation over
a *sampled* category; a deterministic quantizer draws nothing, its expectation is the staircase
itself, and there is no integral for Heun's method to approximate better.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from autograd_course.visualize.stelab.quantizers import Quantizer

_SHARPNESS = 8.0  # of the sigmoid: its slope at a jump is a quarter of this, whatever the step


@dataclass(frozen=True)
class Surrogate:
    """``slope(x, quantizer)`` is h′(x), element by element, in the dtype of ``x``.

    ``formula(quantizer)`` tells what backward multiplies ``grad_output`` by, ``source`` who
    proposed it.
    """

    name: str
    label: str
    formula: Callable[[Quantizer], str]
    source: str
    slope: Callable[[Tensor, Quantizer], Tensor]


def _zero(x: Tensor, quantizer: Quantizer) -> Tensor:
    return torch.zeros_like(x)


def _identity(x: Tensor, quantizer: Quantizer) -> Tensor:
    return torch.ones_like(x)


def _clipped(x: Tensor, quantizer: Quantizer) -> Tensor:
    low, high = quantizer.reach
    return ((x >= low) & (x <= high)).to(x.dtype)


def _tanh(x: Tensor, quantizer: Quantizer) -> Tensor:
    low, high = quantizer.reach
    center, half = (low + high) / 2, (high - low) / 2
    return 1 - torch.tanh((x - center) / half) ** 2


def _sigmoid(x: Tensor, quantizer: Quantizer) -> Tensor:
    jumps = torch.tensor(quantizer.jumps, dtype=x.dtype, device=x.device)
    sharpness = _SHARPNESS / quantizer.step
    rise = torch.sigmoid(sharpness * (x.unsqueeze(-1) - jumps))
    return _SHARPNESS * (rise * (1 - rise)).sum(-1)


def _clipped_formula(quantizer: Quantizer) -> str:
    low, high = quantizer.reach
    return f"1 for {low:g} ≤ x ≤ {high:g}, else 0"


def _tanh_formula(quantizer: Quantizer) -> str:
    low, high = quantizer.reach
    center, half = (low + high) / 2, (high - low) / 2
    shifted = f"(x {'+' if center < 0 else '−'} {abs(center):g})" if center else "x"
    return f"1 − tanh²({shifted}{f' / {half:g}' if half != 1 else ''})"


def _sigmoid_formula(quantizer: Quantizer) -> str:
    return "8 σ(1 − σ), summed over the jumps" if len(quantizer.jumps) > 1 else "8 σ(4x)(1 − σ(4x))"


_ALL = (
    Surrogate("zero", "zero (true)", lambda _: "0", "the derivative itself", _zero),
    Surrogate("identity", "identity", lambda _: "1", "Bengio et al. 2013", _identity),
    Surrogate("clipped", "clipped", _clipped_formula, "Hubara et al. 2016", _clipped),
    Surrogate("tanh", "tanh", _tanh_formula, "after Qin et al. 2020", _tanh),
    Surrogate("sigmoid", "sigmoid", _sigmoid_formula, "Yang et al. 2019", _sigmoid),
)
SURROGATES = {surrogate.name: surrogate for surrogate in _ALL}
