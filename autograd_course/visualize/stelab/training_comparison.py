"""The same net trained by several estimators side by side, a few steps at a time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from autograd_doctor.extension import preserve_global_state

from autograd_course.errors import first_line
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.stelab.estimators import Estimator
from autograd_course.visualize.stelab.net import Net, Place
from autograd_course.visualize.stelab.task import chart, points

STEPS, EVERY = 150, 3  # training steps; steps between two points of a curve
_SHADES = 15  # of the map: 0 is surely one class, 15 the other


@dataclass(frozen=True)
class Run:
    """One net so far: ``losses`` at every third step, and the share of points that are right.

    ``shades`` is the map of its decisions, a hexadecimal digit a cell, row by row; f is class 1.
    """

    name: str
    label: str
    losses: tuple[float, ...]
    accuracy: float
    shades: str


@dataclass(frozen=True)
class RaceTrace:
    """All nets after ``step`` steps. ``notice`` tells why it ended early, if it did."""

    place: Place
    seed: int
    step: int
    runs: tuple[Run, ...]
    notice: str = ""


class Race:
    """Nets that start alike and see the same points; they differ in backward alone."""

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
        """Whether there is nothing left to train."""
        return self.step >= STEPS or bool(self.notice)

    def advance(self) -> None:
        """Train every net for a few steps. What raises ends the race with a notice."""
        with preserve_global_state(self.step):
            torch.set_num_threads(1)  # for nets so small, threads would mostly wait for each other
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

    def trace(self) -> RaceTrace:
        """Return what there is to see now."""
        with preserve_global_state(self.step), torch.no_grad():
            runs = () if self.notice else tuple(map(self._run, range(len(self.nets))))
        return RaceTrace(self.place, self.seed, self.step, runs, self.notice)

    def _run(self, i: int) -> Run:
        estimator, net = self.estimators[i], self.nets[i]
        shades = (net(chart()).sigmoid().nan_to_num(0.5) * _SHADES).round().int().tolist()
        losses, digits = tuple(self.losses[i]), "".join(f"{shade:x}" for shade in shades)
        return Run(estimator.name, estimator.label, losses, self.accuracies[i], digits)


def whole_race(estimators: Sequence[Estimator], place: Place, seed: int) -> RaceTrace:
    """Train to the end and return what there is to see."""
    race = Race(estimators, place, seed)
    while not race.done:
        race.advance()
    return race.trace()


def not_started(place: Place, seed: int) -> RaceTrace:
    """Return a race in which nothing has happened yet."""
    return RaceTrace(place, seed, 0, ())


def checked_place(place: str) -> Place:
    """Return the place.

    Raises :class:`TraceError` if nothing can be quantized there.
    """
    if place == "activations":
        return "activations"
    if place == "weights":
        return "weights"
    raise TraceError(f"place is 'activations' or 'weights', not {place!r}.")
