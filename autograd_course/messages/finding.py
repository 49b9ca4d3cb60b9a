"""From a pasted text to the page of the message in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autograd_course.messages.message import Message, words_of
from autograd_course.messages.pages import MESSAGES

_ALIKE = 0.6  # share of a pattern's words that must stand in a text whose wording is another
_SPECIFIC = 25  # characters: shorter patterns yield to any longer one
_FRAMES = re.compile(r'^\s*File ".*", line \d+.*\n(?:\s+.*\n)?', re.MULTILINE)


@dataclass(frozen=True)
class Match:
    """The message that a text holds; ``exact`` if by its wording, else by the words it shares.

    ``others`` are further messages in the text, such as a warning before the error.
    """

    message: Message
    exact: bool
    others: tuple[Message, ...] = ()


def find(text: str) -> Match | None:
    """Return what a text, a message or a whole traceback, is about; ``None`` where it is unknown.

    The longest wording that the text holds is taken for its message: a short one may stand in a
    longer one's text.
    """
    said = " ".join(_FRAMES.sub("", text).split())
    sizes = {message: message.matched(said) for message in MESSAGES.values()}
    found = sorted((m for m, size in sizes.items() if size), key=lambda m: -sizes[m])
    if found:
        clear = [m for m in found[1:] if sizes[m] >= _SPECIFIC]
        return Match(found[0], True, tuple(clear))
    words = words_of(said)
    likest = max(MESSAGES.values(), key=lambda message: message.likeness(words))
    return Match(likest, False) if likest.likeness(words) >= _ALIKE else None
