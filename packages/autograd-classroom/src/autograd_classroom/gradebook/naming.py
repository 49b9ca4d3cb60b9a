"""Suggest known names that are similar to a misspelled name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_NAMED = 5


def near(asked: str, names: Iterable[str]) -> str:
    """Return the end of a sentence suggesting similar names, or an empty string."""
    folded = {name.casefold(): name for name in names}
    word = asked.casefold()
    close = [name for key, name in folded.items() if word and word in key]
    close += [folded[key] for key in get_close_matches(word, folded, _NAMED)]
    found = list(dict.fromkeys(close))[:_NAMED]
    return f"; the nearest names are {', '.join(found)}" if found else ""
