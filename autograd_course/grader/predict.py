"""Say first, run after: the small checkpoints inside a lesson."""

import math
from dataclasses import dataclass
from types import EllipsisType

from torch import Tensor


@dataclass(frozen=True)
class Prediction:
    """A number that a learner expected (``None``: not given yet) beside the one that came out."""

    expected: float | None
    outcome: float

    @property
    def right(self) -> bool:
        """Whether the expectation came true, to three significant digits."""
        return self.expected is not None and math.isclose(
            self.expected, self.outcome, rel_tol=5e-3, abs_tol=1e-9
        )

    def __str__(self) -> str:
        if self.expected is None:
            return "Your turn: put the number you expect in place of ... and run the cell again."
        if self.right:
            return f"Yes: {self.outcome:.4g}."
        return (
            f"You expected {self.expected:.4g}; the run gives {self.outcome:.4g}. "
            "The explanation is below."
        )

    __repr__ = __str__


def predict(expected: float | EllipsisType, outcome: float | Tensor) -> Prediction:
    """Compare what a learner expects with what a run gives.

    ``expected`` is a number, or ``...`` as long as there is none; then the outcome is kept back.
    ``outcome`` is a number or a tensor of one element. The lesson explains it, folded, below.

    Raises ``TypeError`` if ``expected`` is not a number.
    """
    if not isinstance(expected, (int, float, EllipsisType)):
        raise TypeError(f"predict wants a number in the first place, not {expected!r}")
    return Prediction(None if expected is ... else float(expected), float(outcome))
