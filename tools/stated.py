"""Write the minutes that the model computes into a lesson's text.

Minutes are rounded only once: a lesson's minutes in this module, and an exercise's minutes in its
declaration. Every document shows these rounded numbers or their sums.
"""

from __future__ import annotations

import math
import re

from tools.errors import AuthoringError
from tools.minutes import Minutes
from tools.percent import Source

STEP = 5

_SENTENCE = re.compile(r"\*\*It takes\*\*[^.]*\.")


def stated(minutes: float) -> int:
    """Return the minutes that a lesson's text states, rounded up to a multiple of 5."""
    return math.ceil(minutes / STEP) * STEP


def sentence(minutes: Minutes) -> str:
    """Return the sentence about the minutes that appears in a lesson's first cell."""
    extra = f"; the *extra* sections take another {stated(minutes.extra)}" if minutes.extra else ""
    return f"**It takes** about {stated(minutes.core)} minutes{extra}."


def with_minutes(lesson: Source, minutes: Minutes) -> Source:
    """Return a lesson whose text states the minutes from the model.

    Raises AuthoringError if the lesson has no sentence about its minutes.
    """
    first, *others = lesson.cells
    if not _SENTENCE.search(first.source):
        raise AuthoringError(
            lesson.path,
            1,
            "the first cell of a lesson does not say how long it takes",
            "write '**It takes** about 5 minutes.' into it; the build corrects the number",
        )
    corrected = first.with_source(_SENTENCE.sub(sentence(minutes), first.source, count=1))
    return Source(lesson.path, (corrected, *others))
