"""One message: what it says, on every release and with any names and numbers in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

GAP = "…"  # in a pattern: what differs from one occurrence to the next
_WORD = re.compile(r"[A-Za-z_]{3,}")


class MessageError(ValueError):
    """A page's head is not complete; one sentence says what is missing."""


@dataclass(frozen=True)
class Message:
    """A message of PyTorch and where it belongs.

    ``kind`` is the name of the exception or warning, ``silent`` where nothing is said and
    ``patterns`` are symptoms. Each pattern is one wording; ``…`` stands for what varies.
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
        """Whether there is no message, only a symptom."""
        return self.kind == "silent"

    @cached_property
    def _expressions(self) -> tuple[tuple[int, re.Pattern[str]], ...]:
        return tuple((len(p.replace(GAP, "")), _expression(p)) for p in self.patterns)

    def matched(self, text: str) -> int:
        """Return how many characters of a pattern, gaps left out, stand in a text; 0: no match.

        ``text`` has its whitespace reduced to single spaces.
        """
        return max((size for size, regex in self._expressions if regex.search(text)), default=0)

    def likeness(self, words: frozenset[str]) -> float:
        """Return which share of a pattern's words is among ``words``, of the likest pattern."""
        return max(len(own & words) / len(own) for own in map(words_of, self.patterns))


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text in lower case; numbers and short words say nothing."""
    return frozenset(word.lower() for word in _WORD.findall(text))


def _expression(pattern: str) -> re.Pattern[str]:
    literals = (re.escape(part) for part in " ".join(pattern.split()).split(GAP))
    return re.compile(".{0,200}?".join(literals))


def from_page(name: str, head: Mapping[str, Any], text: str) -> Message:
    """Return the message of a page; a head that is incomplete raises :class:`MessageError`."""
    if missing := {"kind", "family", "matches", "lesson"} - set(head):
        raise MessageError(f"messages/{name}.md has no {min(missing)}; say it between the +++.")
    if unknown := set(head) - {"kind", "family", "matches", "lesson", "rule"}:
        raise MessageError(f"messages/{name}.md has {min(unknown)!r}, which is not known.")
    patterns = tuple(head["matches"])
    if not patterns or not all(map(words_of, patterns)):
        raise MessageError(f"messages/{name}.md matches nothing; give the words of the message.")
    return Message(
        name, head["kind"], head["family"], patterns, head["lesson"], head.get("rule", ""), text
    )
