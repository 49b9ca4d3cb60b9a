"""Suggest known names for a name that is unknown."""

from __future__ import annotations

from collections.abc import Iterable
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
    more = f" and {len(known) - _MOST} more" if len(known) > _MOST else ""
    return f"; the known names are {', '.join(known[:_MOST])}{more}" if known else ""
