"""The parts of a hostile submission, and the outcome that it must have."""

from __future__ import annotations

from dataclasses import dataclass

from submissions import square

from autograd_course.grader.verdict import Status

# The message if the values are right but the source is not allowed.
FORBIDDEN = r"the values are right, but its? .*\(line \d+: `.*An answer must not do that"
# The message if the source needs a part of the course that the sandbox does not have.
ABSENT = (
    r"not in the sandbox|is not a package|No module named 'autograd_course|cannot import name"
    r"|module 'autograd_course\S* has no attribute|No such file"
)
# This backward lacks the factor 2. So whatever else a submission does, it is not a right answer.
_HALF = "(x,) = ctx.saved_tensors\nreturn x * g"


@dataclass(frozen=True)
class Hostile:
    """A submission to an exercise, and the least that the verdict on it must say.

    The message must contain ``said``, and one of the remarks must contain ``seen``. ``seconds``
    limits one call of the submission's code, ``wall`` the answer to one question, and ``whole`` all
    answers together. Without its own namespace, as in a container, the message must contain
    ``unsecluded`` instead. There, the submission receives signals that the first process of a
    namespace never gets, and it has its own ``/proc``.
    """

    source: str
    said: str = ""
    seen: str = ""
    status: Status = "wrong"
    exercise: str = "square"
    name: str = "Square"
    seconds: float = 1.0
    wall: float = 8.0
    whole: float = 60.0
    unsecluded: str = ""


def half(before: str, forward: str = "ctx.save_for_backward(x)\nreturn x * x") -> str:
    """Return a wrong Square, preceded by lines that try to make it pass."""
    return square(forward, _HALF, before)
