"""Small pieces of English: capitals, plurals, enumerations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def sentence(text: str) -> str:
    """Start a message with a capital, unless it starts with a name from the user's code."""
    word = text.split(" ")[0].rstrip(",.")
    sounds = len(word) > 2 or word in ("an", "at", "in", "it", "no")  # x and dx are names
    ordinary = word.isalpha() and word.islower() and sounds and word != "ctx"
    return text[:1].upper() + text[1:] if ordinary else text


def paragraph(sentences: Iterable[str]) -> str:
    """Return a message of several sentences, which starts as one of a single sentence does."""
    first, *others = sentences
    return " ".join(f"{text}." for text in (first, *map(sentence, others)))


def plural(count: int, thing: str) -> str:
    """Return a number with its noun: ``1 element``, ``2 elements``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def elements(some: int, whole: int) -> str:
    """Say how many elements are meant: ``3 of 12 elements``, ``all 12 elements``."""
    if whole == 1:
        return "its only element"
    return f"all {whole} elements" if some == whole else f"{some} of {whole} elements"


def nth(k: int) -> str:
    """Return an ordinal in words, counted from 0."""
    words = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
    return words[k] if k < len(words) else f"{k + 1}th"


def quoted(names: Iterable[str]) -> list[str]:
    """Return names from the user's code as a sentence shows them: in backticks."""
    return [f"`{name}`" for name in names]


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names as an enumeration, in which many are only counted."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
