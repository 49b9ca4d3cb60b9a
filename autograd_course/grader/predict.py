"""``predict``: compare a learner's guess with the result of a cell in a lesson."""

from collections import defaultdict
from dataclasses import dataclass
from types import EllipsisType

from IPython.core.getipython import get_ipython
from torch import Tensor

from autograd_course.grader.comparison import agrees

TRIES = 2  # after this many different wrong guesses, the learner sees the result

# The wrong guesses in this session. Each key is a cell's id and its result.
_wrong: defaultdict[tuple[str, str], set[float]] = defaultdict(set)


@dataclass(frozen=True)
class Prediction:
    """The number that a learner expects (``None`` if there is none yet), and the actual result.

    ``revealed`` says whether a wrong guess also shows the result.
    """

    expected: float | None
    outcome: float
    revealed: bool = True

    @property
    def right(self) -> bool:
        """Whether the expected number is within 0.5 % of the result."""
        return self.expected is not None and agrees(self.expected, self.outcome)

    def __str__(self) -> str:
        if self.expected is None:
            return "Your turn: replace ... with the number that you expect, and run the cell again."
        if self.right:
            return f"Yes: {self.outcome:.4g}."
        if not self.revealed:
            return (
                f"It is not {self.expected:.4g}. Change the number and run the cell again. If you "
                "are stuck, read the explanation below."
            )
        return (
            f"You expected {self.expected:.4g}, but the run gives {self.outcome:.4g}. "
            "The explanation is below."
        )

    __repr__ = __str__


def predict(expected: float | EllipsisType, outcome: float | Tensor) -> Prediction:
    """Compare the number that you expect with the result of a run.

    Replace ``...`` with your number and run the cell again. If your first number is wrong, you can
    try again. After the second wrong number, you see the result. Below the cell, the lesson
    explains the result.

    Args:
        expected: The number that you expect, or ``...`` if you have not chosen one yet.
        outcome: The result of the run: a number or a tensor with one element.

    Returns:
        A sentence that says whether your number is right, that is, within 0.5 % of the result.

    Raises:
        TypeError: ``expected`` is not a number.

    Example:
        >>> predict(4, 2 * 2)
        Yes: 4.
        >>> predict(..., 2 * 2)
        Your turn: replace ... with the number that you expect, and run the cell again.
    """
    if not isinstance(expected, (int, float, EllipsisType)):
        raise TypeError(f"the first argument of predict must be a number, not {expected!r}")
    made = Prediction(None if expected is ... else float(expected), float(outcome))
    if made.expected is None or made.right:
        return made
    guesses = _wrong[_cell(), repr(made.outcome)]
    guesses.add(made.expected)
    return Prediction(made.expected, made.outcome, revealed=len(guesses) >= TRIES)


def _cell() -> str:
    """Return the id of the notebook cell that is running, if the notebook provides one."""
    request = getattr(get_ipython(), "parent_header", None) or {}
    return str(request.get("metadata", {}).get("cellId", ""))
