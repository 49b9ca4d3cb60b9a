"""What the Function lab knows: real runs at many places of x, as plain data."""

from dataclasses import dataclass
from typing import Literal

Phase = Literal["forward", "backward"]
# What forward does near a place: there is a slope; or forward jumps, or is infinitely steep.
Shape = Literal["smooth", "jump", "steep"]
KINK = 1e-2  # relative: one-sided differences of a smooth function are much closer than this
Verdict = Literal["agree", "differ", "surrogate", "kink", "jump", "steep", "open"]


@dataclass(frozen=True)
class Step:
    """A line that ran: its row in the listing, and what is new after it, as text."""

    row: int
    phase: Phase
    note: str


@dataclass(frozen=True)
class Kept:
    """Something that ctx holds for backward: its name there, what it is, and its value."""

    name: str
    what: str
    text: str


@dataclass(frozen=True)
class Run:
    """One forward and one backward pass, as they happened.

    ``gradient`` is ∂L/∂x as it arrived at x, and ``None`` where none did. ``returned`` is what
    backward returned, in words. ``failure`` is the sentence for a backward that raised.
    """

    y: float
    gradient: float | None
    returned: str
    kept: tuple[Kept, ...]
    steps: tuple[Step, ...]
    failure: str = ""


@dataclass(frozen=True)
class Sides:
    """The slopes of forward on the left and on the right, by differences."""

    left: float
    right: float
    shape: Shape = "smooth"

    @property
    def central(self) -> float:
        """The slope by central differences, the mean of the one-sided ones."""
        return (self.left + self.right) / 2

    @property
    def bent(self) -> bool:
        """Whether the two sides differ by more than a smooth function's do at so small a step."""
        return abs(self.right - self.left) > KINK * max(1.0, abs(self.left), abs(self.right))


@dataclass(frozen=True)
class Position:
    """A place of x: the run there, forward's slopes there, and what they amount to.

    ``run`` is ``None`` where forward raised; then ``failure`` says so, and ``stopped`` has the
    lines that ran. ``sides`` is ``None`` where forward has no finite value on both sides. ``slope``
    is ``gradient / grad_output``. ``surrogate`` is a difference where forward is a staircase: its
    derivative says nothing, and a backward that is meant as a surrogate has another.
    """

    x: float
    run: Run | None
    sides: Sides | None
    slope: float | None
    verdict: Verdict
    failure: str = ""
    stopped: tuple[Step, ...] = ()

    @property
    def flat(self) -> bool:
        """Whether forward is level at both sides."""
        return self.sides is not None and self.sides.left == self.sides.right == 0

    @property
    def steps(self) -> tuple[Step, ...]:
        """The lines that ran, up to the one that raised if one did."""
        return self.run.steps if self.run else self.stopped


@dataclass(frozen=True)
class Sweep:
    """A Function over a range of x, at fixed parameters and one ``grad_output``.

    ``variable`` is what forward calls its x. ``curve`` has forward's values on a finer grid; where
    it raises or jumps, y is ``None``.
    """

    name: str
    variable: str
    grad_output: float
    parameters: tuple[tuple[str, float], ...]
    positions: tuple[Position, ...]
    curve: tuple[tuple[float, float | None], ...]

    def at(self, x: float) -> int:
        """Return the index of the position nearest to x."""
        places = range(len(self.positions))
        return min(places, key=lambda index: abs(self.positions[index].x - x))
