"""Train a small net with each of several estimators, a few steps at a time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from autograd_doctor.extension import preserve_global_state
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from autograd_course.errors import first_line
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.stelab.estimators import Estimator

Place = Literal["activations", "weights"]
STEPS, EVERY = 150, 3  # the training steps, and the steps between two points of a curve
_SHADES = 15  # the highest shade: 0 means certainly class 0, and 15 means certainly class 1


@dataclass(frozen=True)
class Run:
    """The state of one net: ``losses`` at every third step, and the share of correct points.

    ``shades`` is the map of its decisions, with one hexadecimal digit per cell, row by row. The
    digit f means class 1.
    """

    name: str
    label: str
    losses: tuple[float, ...]
    accuracy: float
    shades: str


@dataclass(frozen=True)
class TrainingTrace:
    """All nets after ``step`` steps. If the training ended early, ``notice`` gives the reason."""

    place: Place
    seed: int
    step: int
    runs: tuple[Run, ...]
    notice: str = ""


class TrainingComparison:
    """Nets that have the same initial weights and training points, and differ only in backward."""

    def __init__(self, estimators: Sequence[Estimator], place: Place, seed: int) -> None:
        self.estimators, self.place, self.seed = tuple(estimators), place, seed
        self.nets = [Net(estimator.call, place, seed) for estimator in estimators]
        self.losses: list[list[float]] = [[] for _ in estimators]
        self.accuracies = [math.nan] * len(self.nets)
        self.points = points()
        self.step = 0
        self.notice = ""

    @property
    def done(self) -> bool:
        """Whether the training is complete."""
        return self.step >= STEPS or bool(self.notice)

    def advance(self) -> None:
        """Train each net for a few steps. After an exception, show a notice and stop training."""
        with preserve_global_state(self.step):
            torch.set_num_threads(1)  # in a net this small, threads usually wait for each other
            for i, estimator in enumerate(self.estimators):
                try:
                    self._train(i)
                except Exception as error:
                    what = f"{type(error).__name__}: {first_line(error).rstrip('.')}"
                    self.notice = f"Training with {estimator.name} raised {what}."
                    return
        self.step += EVERY

    def _train(self, i: int) -> None:
        for step in range(EVERY):
            loss, accuracy = self.nets[i].step(*self.points)
            if step == 0:
                self.losses[i].append(loss)
                self.accuracies[i] = accuracy

    def trace(self) -> TrainingTrace:
        """Return the current state."""
        with preserve_global_state(self.step), torch.no_grad():
            runs = () if self.notice else tuple(map(self._run, range(len(self.nets))))
        return TrainingTrace(self.place, self.seed, self.step, runs, self.notice)

    def _run(self, i: int) -> Run:
        estimator, net = self.estimators[i], self.nets[i]
        shades = (net(chart()).sigmoid().nan_to_num(0.5) * _SHADES).round().int().tolist()
        losses, digits = tuple(self.losses[i]), "".join(f"{shade:x}" for shade in shades)
        return Run(estimator.name, estimator.label, losses, self.accuracies[i], digits)


def train_to_the_end(estimators: Sequence[Estimator], place: Place, seed: int) -> TrainingTrace:
    """Train to the end and return the result."""
    comparison = TrainingComparison(estimators, place, seed)
    while not comparison.done:
        comparison.advance()
    return comparison.trace()


def not_started(place: Place, seed: int) -> TrainingTrace:
    """Return a comparison that has not started."""
    return TrainingTrace(place, seed, 0, ())


def checked_place(place: str) -> Place:
    """Check the place of the quantizer, and return it.

    Raises :class:`TraceError` if the place is unknown.
    """
    if place == "activations":
        return "activations"
    if place == "weights":
        return "weights"
    raise TraceError(f"place must be 'activations' or 'weights', not {place!r}.")


# --------------------------------------------------------------------------------------------------
# The net, which contains quantizers, and one step of its training.
# --------------------------------------------------------------------------------------------------

_SIZES = (2, 16, 16, 1)
_RATE, _MEAN, _SQUARE, _EPSILON = 0.03, 0.9, 0.999, 1e-8  # the settings of Adam


class Net:
    """A 2 → 16 → 16 → 1 net for two classes, trained by Adam on all points at once.

    If the ``activations`` are quantized, a hidden unit is ``q(w·x + b)``. If the ``weights`` are
    quantized, each weight matrix is ``q(W)``, and a hidden unit is ``tanh``. After the first layer,
    the product is divided by the square root of the number of inputs. ``seed`` determines the
    initial weights. All tensors are float64, so that runs are exactly reproducible.

    This class implements Adam itself, because ``torch.optim`` would first load the compiler.
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
        """Train for one step. Return the loss (mean binary cross-entropy in nats) and accuracy."""
        logits = self(x)
        loss = binary_cross_entropy_with_logits(logits, labels)
        (gradient,) = torch.autograd.grad(loss, self.parameters)
        right = ((logits.detach() > 0) == (labels > 0)).double().mean()
        with torch.no_grad():
            self.parameters -= self._adam(gradient)
        return loss.item(), right.item()

    def _adam(self, gradient: Tensor) -> Tensor:
        """Compute one step of Adam (Kingma and Ba 2015)."""
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
    """Return views of every layer's weight [inputs, outputs] and bias [outputs]."""
    lengths = [n for a, b in pairwise(_SIZES) for n in (a * b, b)]
    parts = parameters.split(lengths)
    return [
        (parts[2 * i].view(inputs, outputs), parts[2 * i + 1])
        for i, (inputs, outputs) in enumerate(pairwise(_SIZES))
    ]


# --------------------------------------------------------------------------------------------------
# The task: two classes on a checkerboard of four squares. No straight line separates the classes.
# --------------------------------------------------------------------------------------------------

REACH = 1.5  # the points lie in the square from -REACH to REACH
POINTS = 160
CELLS = 24  # the number of cells along a side of the map that shows a net's decisions
_SEED = 100  # the points never change; the user's seed changes only the initial weights


def points() -> tuple[Tensor, Tensor]:
    """Return positions [160, 2] and labels [160]. The label is 1 if both signs are equal."""
    generator = torch.Generator().manual_seed(_SEED)
    unit = torch.rand(POINTS, 2, generator=generator, dtype=torch.float64)
    positions = (2 * unit - 1) * REACH
    return positions, (positions.prod(1) > 0).double()


def chart() -> Tensor:
    """Return the centers of the map's cells [CELLS², 2], row by row from the upper left."""
    steps = ((torch.arange(CELLS, dtype=torch.float64) + 0.5) / CELLS * 2 - 1) * REACH
    down, across = torch.meshgrid(-steps, steps, indexing="ij")
    return torch.stack([across.flatten(), down.flatten()], 1)
