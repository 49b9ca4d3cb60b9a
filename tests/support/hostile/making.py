"""What makes a hostile submission, and what must come of it."""

from __future__ import annotations

from dataclasses import dataclass

from submissions import square

from autograd_course.grader.verdict import Status

# Said where the values are right, and the source is not.
FORBIDDEN = r"the values are right, but its? .*\(line \d+: `.*An answer must not do that"
# Said where the source asks for something of the course that the sandbox has not.
ABSENT = (
    r"not in the sandbox|is not a package|No module named 'autograd_course|cannot import name"
    r"|module 'autograd_course\S* has no attribute|No such file"
)
# Its backward lacks the factor 2: whatever else a submission does, this is no right answer.
_HALF = "(x,) = ctx.saved_tensors\nreturn x * g"


@dataclass(frozen=True)
class Hostile:
    """A submission to an exercise; the least that the verdict must say.

    ``said`` stands in the message, ``seen`` in one of the remarks. ``wall`` is the time that the
    answer to one question may take, in seconds, ``whole`` that of all, where the submission is to
    use it up. ``unsecluded`` is said where it has no namespace of its own, as in a container: there
    signals reach it that the first process of a namespace never gets, and ``/proc`` is its own.
    """

    source: str
    said: str = ""
    seen: str = ""
    status: Status = "wrong"
    exercise: str = "square"
    name: str = "Square"
    wall: float = 8.0
    whole: float = 60.0
    unsecluded: str = ""


def half(before: str, forward: str = "ctx.save_for_backward(x)\nreturn x * x") -> str:
    """Return a wrong Square after lines that are to make it pass."""
    return square(forward, _HALF, before)
