"""Read the pages about error messages, and find the page for the message that a text contains."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from autograd_doctor import RULES

from autograd_course.errors import CourseError

GAP = "…"  # in a pattern, the placeholder for text that varies
_WORD = re.compile(r"[A-Za-z_]{3,}")


class MessageError(CourseError, ValueError):
    """Raised if a page's header is incomplete or wrong. The message says how to correct it."""


@dataclass(frozen=True)
class Message:
    """One error message from PyTorch and the page about it.

    ``kind`` is the name of the exception or warning. It is ``silent`` if PyTorch reports nothing,
    and the ``patterns`` then describe symptoms. Each pattern is one wording of the message, in
    which ``…`` matches text that varies.
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
        """Whether PyTorch reports nothing and the learner sees only a symptom."""
        return self.kind == "silent"

    @cached_property
    def _expressions(self) -> tuple[tuple[int, re.Pattern[str]], ...]:
        return tuple((len(p.replace(GAP, "")), _expression(p)) for p in self.patterns)

    def matched(self, text: str) -> int:
        """Return the length of the longest pattern that a text contains, or 0 if it contains none.

        Gaps do not count toward the length. ``text`` must already have its whitespace collapsed to
        single spaces.
        """
        return max((size for size, regex in self._expressions if regex.search(text)), default=0)

    def likeness(self, words: frozenset[str]) -> float:
        """Return the fraction of the best-matching pattern's words that ``words`` contains."""
        return max(len(own & words) / len(own) for own in map(words_of, self.patterns))


def words_of(text: str) -> frozenset[str]:
    """Return the lowercase words of a string, excluding numbers and short words."""
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
        MessageError: An entry of the header is missing, unknown or empty.
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


FAMILIES = (
    "engine",
    "ctx",
    "in place",
    "second derivatives",
    "transforms",
    "compiling",
    "checkpoint and autocast",
    "gradcheck",
    "warnings",
    "no message at all",
)
_MARK = "+++\n"


def read(name: str, text: str) -> Message:
    """Read the page about a message.

    Args:
        name: The file name of the page, without its suffix.
        text: The page: a TOML header between two ``+++`` lines, followed by Markdown.

    Returns:
        The message that the page describes.

    Raises:
        MessageError: The header is missing, incomplete or wrong.
    """
    before, _, rest = text.partition(_MARK)
    head, found, body = rest.partition(_MARK)
    if before or not found:
        raise MessageError(f"messages/{name}.md must begin with a header between two +++ lines.")
    message = from_page(name, tomllib.loads(head), body)
    if message.family not in FAMILIES:
        raise MessageError(
            f"messages/{name}.md: {message.family!r} is not a family; use one of FAMILIES."
        )
    if message.rule and message.rule not in RULES:
        raise MessageError(f"messages/{name}.md: {message.rule!r} is not a rule of diagnose.")
    return message


def _read_all() -> Mapping[str, Message]:
    pages = [page for page in files(__package__).iterdir() if page.name.endswith(".md")]
    read_ = (read(p.name.removesuffix(".md"), p.read_text(encoding="utf-8")) for p in pages)
    ordered = sorted(read_, key=lambda message: (FAMILIES.index(message.family), message.name))
    return MappingProxyType({message.name: message for message in ordered})


MESSAGES = _read_all()


def page(name: str) -> str:
    """Return the page about a message as Markdown: its name, summary, wordings and explanation."""
    message = MESSAGES[name]
    wording = "\n".join(message.patterns)
    return f"# {name}\n\n{summary(message)}\n\n```\n{wording}\n```\n\n{message.text.strip()}\n"


def summary(message: Message) -> str:
    """Summarize a message: its kind, the lesson that covers it, and its rule."""
    kind = "*No message.*" if message.silent else f"*{message.kind}*."
    said = f"{kind} Lesson `{message.lesson}` covers it."
    if not message.rule:
        return said
    return f"{said}\n`diagnose` reports this mistake as `{message.rule}`."


def contents() -> str:
    """Return tables of all messages, one table for each family."""
    return "\n\n".join(_table(family) for family in FAMILIES)


def _table(family: str) -> str:
    rows = [
        f"| {m.patterns[0].replace('|', chr(92) + '|')} | `{m.name}` | {m.lesson} |"
        for m in MESSAGES.values()
        if m.family == family
    ]
    says = "What you see" if family == FAMILIES[-1] else "Message"
    head = f"| {says} | Page | Lesson |\n| --- | --- | --- |"
    title = f"**{family[0].upper()}{family[1:]}**"
    return "\n".join([title, "", head, *rows])


_ALIKE = 0.6  # an inexact match must contain at least this share of a pattern's words
_SPECIFIC = 25  # in characters; a shorter pattern is too general to report if a longer one matches
_FRAMES = re.compile(r'^\s*File ".*", line \d+.*\n(?:\s+.*\n)?', re.MULTILINE)


@dataclass(frozen=True)
class Match:
    """The message found in a text.

    ``exact`` is true if the text contains a wording of the message, and false if the two merely
    share words. ``others`` contains other messages in the text, such as a warning before the error.
    """

    message: Message
    exact: bool
    others: tuple[Message, ...] = ()


def find(text: str) -> Match | None:
    """Find the message that a text contains.

    Args:
        text: An error message or a whole traceback.

    Returns:
        The message with the longest wording in the text, because a short wording can be part of a
        longer message. If the text contains no known wording, the result is the message that shares
        the most words with the text, or ``None`` if no message is similar enough.
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
