"""A small net that is quantized within, and one step of its training."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

Place = Literal["activations", "weights"]
_SIZES = (2, 16, 16, 1)
_RATE, _MEAN, _SQUARE, _EPSILON = 0.03, 0.9, 0.999, 1e-8  # of Adam


class Net:
    """A net 2 → 16 → 16 → 1 for two classes, trained by Adam on all points at once.

    With ``activations`` quantized, a hidden unit is ``q(w·x + b)``. With ``weights`` quantized,
    every weight matrix is ``q(W)``, divided by the root of its inputs' number past the first, and a
    hidden unit is ``tanh``. ``seed`` draws the start; all is float64, so that a run repeats.

    Adam is written out, as importing ``torch.optim`` and stepping would first load the compiler.
    """

    def __init__(self, quantize: Callable[[Tensor], Tensor], place: Place, seed: int) -> None:
        self.quantize, self.place = quantize, place
        self.parameters = _start(seed).requires_grad_()
        self.mean = torch.zeros_like(self.parameters)
        self.square = torch.zeros_like(self.parameters)
        self.steps = 0

    def __call__(self, x: Tensor) -> Tensor:
        """Return the logits [n] of points [n, 2]."""
        layers = _layers(self.parameters)
        for i, (weight, bias) in enumerate(layers):
            x = self._linear(i, x, weight) + bias
            if i < len(layers) - 1:
                x = self.quantize(x) if self.place == "activations" else torch.tanh(x)
        return x[:, 0]

    def _linear(self, i: int, x: Tensor, weight: Tensor) -> Tensor:
        if self.place == "activations":
            return x @ weight
        return x @ self.quantize(weight) / (math.sqrt(len(weight)) if i else 1.0)

    def step(self, x: Tensor, labels: Tensor) -> tuple[float, float]:
        """Train one step; return loss (mean binary cross-entropy, nats) and accuracy before it."""
        logits = self(x)
        loss = binary_cross_entropy_with_logits(logits, labels)
        (gradient,) = torch.autograd.grad(loss, self.parameters)
        right = ((logits.detach() > 0) == (labels > 0)).double().mean()
        with torch.no_grad():
            self.parameters -= self._adam(gradient)
        return loss.item(), right.item()

    def _adam(self, gradient: Tensor) -> Tensor:
        """Return the step of Adam (Kingma and Ba 2015)."""
        self.steps += 1
        self.mean.lerp_(gradient, 1 - _MEAN)
        self.square.lerp_(gradient**2, 1 - _SQUARE)
        mean = self.mean / (1 - _MEAN**self.steps)
        square = self.square / (1 - _SQUARE**self.steps)
        return _RATE * mean / (square.sqrt() + _EPSILON)


def _start(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for inputs, outputs in pairwise(_SIZES):
        weight = torch.randn(inputs * outputs, generator=generator, dtype=torch.float64)
        bias = torch.randn(outputs, generator=generator, dtype=torch.float64)
        parts += [weight / math.sqrt(inputs), bias / 2 if outputs > 1 else bias * 0]
    return torch.cat(parts)


def _layers(parameters: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the weight [inputs, outputs] and bias [outputs] of each layer, as views."""
    lengths = [n for a, b in pairwise(_SIZES) for n in (a * b, b)]
    parts = parameters.split(lengths)
    return [
        (parts[2 * i].view(inputs, outputs), parts[2 * i + 1])
        for i, (inputs, outputs) in enumerate(pairwise(_SIZES))
    ]
