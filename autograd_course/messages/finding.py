"""Find the page for a message in a pasted text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autograd_course.messages.message import Message, words_of
from autograd_course.messages.pages import MESSAGES

_ALIKE = 0.6  # the share of a pattern's words that a text with another wording must contain
_SPECIFIC = 25  # characters: a shorter pattern is too general to report next to a longer match
_FRAMES = re.compile(r'^\s*File ".*", line \d+.*\n(?:\s+.*\n)?', re.MULTILINE)


@dataclass(frozen=True)
class Match:
    """The message found in a text.

    ``exact`` tells whether the text contains a wording of the message or only shares words with it.
    ``others`` are further messages in the text, such as a warning before the error.
    """

    message: Message
    exact: bool
    others: tuple[Message, ...] = ()


def find(text: str) -> Match | None:
    """Find the message that a text contains.

    Args:
        text: An error message or a whole traceback.

    Returns:
        The message with the longest wording in the text, because a short wording may be part of a
        longer message. If the text contains no known wording, the message that shares most words
        with it. ``None`` if no message is similar enough.
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
