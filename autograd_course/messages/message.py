"""One error message, matched on every PyTorch release and with any names and numbers in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autograd_course.errors import CourseError

GAP = "…"  # in a pattern: text that varies
_WORD = re.compile(r"[A-Za-z_]{3,}")


class MessageError(CourseError, ValueError):
    """The header of a page is incomplete or wrong; the message says how to correct it."""


@dataclass(frozen=True)
class Message:
    """One error message of PyTorch and the page about it.

    ``kind`` is the name of the exception or warning. It is ``silent`` if PyTorch reports nothing;
    the ``patterns`` then describe symptoms. Each pattern is one wording of the message, and ``…``
    matches text that varies.
    """

    name: str
    kind: str
    family: str
    patterns: tuple[str, ...]
    lesson: str
    rule: str
    text: str

    @property
    def silent(self) -> bool:
        """Whether PyTorch reports nothing, so that there is only a symptom."""
        return self.kind == "silent"

    @cached_property
    def _expressions(self) -> tuple[tuple[int, re.Pattern[str]], ...]:
        return tuple((len(p.replace(GAP, "")), _expression(p)) for p in self.patterns)

    def matched(self, text: str) -> int:
        """Return the length of the longest pattern found in a text, or 0 if none is found.

        Gaps do not count towards the length. Runs of whitespace in ``text`` must be single spaces.
        """
        return max((size for size, regex in self._expressions if regex.search(text)), default=0)

    def likeness(self, words: frozenset[str]) -> float:
        """Return which share of the most similar pattern's words is in ``words``."""
        return max(len(own & words) / len(own) for own in map(words_of, self.patterns))


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, without numbers and short words."""
    return frozenset(word.lower() for word in _WORD.findall(text))


def _expression(pattern: str) -> re.Pattern[str]:
    literals = (re.escape(part) for part in " ".join(pattern.split()).split(GAP))
    return re.compile(".{0,200}?".join(literals))


def from_page(name: str, head: Mapping[str, Any], text: str) -> Message:
    """Return the message that a page describes.

    Args:
        name: The file name of the page, without its suffix.
        head: The TOML header of the page.
        text: The Markdown below the header.

    Returns:
        The message.

    Raises:
        MessageError: The header lacks an entry or contains an unknown or an empty one.
    """
    if missing := {"kind", "family", "matches", "lesson"} - set(head):
        raise MessageError(
            f"messages/{name}.md has no {min(missing)}; add it between the +++ lines."
        )
    if unknown := set(head) - {"kind", "family", "matches", "lesson", "rule"}:
        raise MessageError(f"messages/{name}.md has an unknown entry {min(unknown)!r}; remove it.")
    patterns = tuple(head["matches"])
    if not patterns or not all(map(words_of, patterns)):
        raise MessageError(
            f"messages/{name}.md matches nothing; add words of the message to matches."
        )
    return Message(
        name, head["kind"], head["family"], patterns, head["lesson"], head.get("rule", ""), text
    )
