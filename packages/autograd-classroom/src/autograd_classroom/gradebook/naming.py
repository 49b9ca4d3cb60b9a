"""Suggest known names for a name that is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_NEAREST, _MOST = 5, 10  # maximum numbers of similar names and of other names
_SIMILAR = 0.7  # difflib's ratio for names that differ by a typing mistake
_SHORTEST = 3  # a shorter part of a name is a part of too many names


def near(asked: str, names: Iterable[str]) -> str:
    """Return the end of a sentence that suggests similar names, or else the first known names."""
    known = list(names)
    folded = {name.casefold(): name for name in known}
    word = asked.casefold()
    close = [name for key, name in folded.items() if len(word) >= _SHORTEST and word in key]
    close += [folded[key] for key in get_close_matches(word, folded, _NEAREST, _SIMILAR)]
    if found := list(dict.fromkeys(close))[:_NEAREST]:
        are = "name is" if len(found) == 1 else "names are"
        return f"; the nearest {are} {', '.join(found)}"
    return f"; the known names are {first(known)}" if known else ""


def first(names: Sequence[str]) -> str:
    """Return the first names in a sentence, and how many more there are."""
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{', '.join(names[:_MOST])}{more}"
