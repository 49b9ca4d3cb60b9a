"""Format numbers, elements, names and sentences for reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor


def plain(value: Any) -> Any:
    """Convert a 0-dim tensor to a JSON-compatible number. Convert a complex number to a string."""
    number = value.item() if isinstance(value, Tensor) else value
    return f"{number:.4g}" if isinstance(number, complex) else number


def element(name: str, index: Sequence[int]) -> str:
    """Return the name of an element, such as ``x[0, 2]`` or ``output[1]``.

    A 0-dim tensor has no index.
    """
    name = name.replace("`", "")
    return f"{name.replace('the output', 'output')}{list(index)}" if index else name


def number(value: Any, digits: int = 4) -> str:
    """Return a number with a few significant digits."""
    return f"{value + 0.0:.{digits}g}" if isinstance(value, float) else str(value)  # + 0.0: no -0


def distinguish(one: Any, other: Any) -> tuple[str, str]:
    """Format two different numbers with enough digits to show the difference."""
    for digits in (4, 6, 8, 10, 12):
        first, second = number(one, digits), number(other, digits)
        if first != second:
            break
    return first, second


def unraveled(position: int, shape: torch.Size) -> tuple[int, ...]:
    """Convert a flat position to an index with one number per dim."""
    index: list[int] = []
    for length in reversed(shape):
        position, here = divmod(position, length)
        index.append(here)
    return tuple(reversed(index))


def sentence(text: str) -> str:
    """Capitalize a message, unless it starts with a name from the user's code."""
    word = text.split(" ")[0].rstrip(",.")
    sounds = len(word) > 2 or word in ("an", "at", "in", "it", "no")  # x and dx are names
    ordinary = word.isalpha() and word.islower() and sounds and word != "ctx"
    return text[:1].upper() + text[1:] if ordinary else text


def paragraph(sentences: Iterable[str]) -> str:
    """Join several sentences into one message. Capitalize all of them except the first."""
    first, *others = sentences
    return " ".join(f"{text}." for text in (first, *map(sentence, others)))


def plural(count: int, thing: str) -> str:
    """Return a number with its noun: ``1 element``, ``2 elements``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def elements(some: int, whole: int) -> str:
    """Describe how many elements are affected, as in ``3 of 12 elements``."""
    if whole == 1:
        return "its only element"
    return f"all {whole} elements" if some == whole else f"{some} of {whole} elements"


def nth(k: int) -> str:
    """Return an ordinal number in words. ``k`` counts from 0."""
    words = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
    return words[k] if k < len(words) else f"{k + 1}th"


def quoted(names: Iterable[str]) -> list[str]:
    """Return names from the user's code in backticks, as they appear in messages."""
    return [f"`{name}`" for name in names]


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names as a list in words. If the list is long, replace its end with a count."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
