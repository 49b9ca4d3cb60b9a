"""Find the statements in other cells that define the names that an answer uses.

If an answer included all cells above it, a plot, a training run or an endless loop in a separate
cell would run again for every exercise below it. An error in one answer could also break the next
answer. Therefore, an answer includes only the definitions that it depends on. It does not include
bare calls, magics or ``grade(…)``.
"""

from __future__ import annotations

import builtins
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from autograd_course.extraction.cleaning import is_talk
from autograd_course.extraction.statements import Statement

# Names that the released notebooks import in a separate cell.
_SUPPLIED = {
    "F": "import torch.nn.functional as F",
    "Function": "from torch.autograd import Function",
    "Tensor": "from torch import Tensor",
    "math": "import math",
    "nn": "from torch import nn",
    "torch": "import torch",
}
_KNOWN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__annotations__"}


@dataclass(frozen=True)
class Preamble:
    """The code that runs before an answer and any problems with that code."""

    source: str
    problems: tuple[str, ...]


def preamble(
    answer: Sequence[Statement], above: Sequence[Statement], below: Sequence[Statement]
) -> Preamble:
    """Return the statements in other cells that an answer needs, in an order in which they can run.

    A name that is defined both above and below the answer has its value from above. If a name is
    defined only below the answer, the student ran the cells in a different order. The preamble then
    includes the definition, and a problem names it. Another problem lists undefined names.
    """
    first, later = _slices(answer, above, below)
    found = [*first, *later]
    lacking = _unbound([*answer, *found], _bound([*answer, *found]))
    only_below = _bound(later) & _names(answer) - _bound([*answer, *first])
    if stars := [s for s in found if s.binds_anything]:
        # The import may define a name, so its value counts if another definition is only below.
        found = [*stars, *(s for s in later if not s.binds_anything), *first]
        only_below = frozenset()
    supplied = sorted(lacking & _SUPPLIED.keys())
    problems = [
        *(f"{name} is imported nowhere, and is supplied" for name in supplied),
        *(f"{name} is defined only below the answer" for name in sorted(only_below)),
        *(f"{name} is defined nowhere in the file" for name in sorted(lacking - set(supplied))),
    ]
    ordered = _runnable(found, answer)
    futures = [s.source for s in ordered if s.is_future]
    others = [s.source for s in ordered if not s.is_future]
    source = "\n".join([*futures, *(_SUPPLIED[name] for name in supplied), *others])
    return Preamble(source, tuple(problems))


def _slices(
    answer: Sequence[Statement], above: Sequence[Statement], below: Sequence[Statement]
) -> tuple[list[Statement], list[Statement]]:
    """Return the statements above and below that define what the answer and they themselves need.

    Look for a name below the answer only if nothing else defines it. However, the student ran the
    statements below that the answer needs, so the definitions between these and the answer count.
    """
    upper, lower = _usable(above), _usable(below)
    usable, border = [*upper, *lower], len(upper)
    fixed = _bound(answer) | _KNOWN
    by_name = _index(upper, lower, but=fixed)
    fixed |= _bound(s for s in upper if s.is_import)
    nearby = _index(lower)
    first = {name: i for i in reversed(range(len(lower))) for name in lower[i].binds}
    begun: defaultdict[str, int] = defaultdict(int)  # the number of visited places in ``nearby``
    kept = {i for i, s in enumerate(usable) if s.binds_anything or s.is_future}
    waiting = [(name, -1) for name in _names(_usable(answer))]
    while waiting:
        name, user = waiting.pop()
        last = -1 if name in fixed else user - border
        near = bisect(nearby[name], last)
        found = [border + i for i in nearby[name][begun[name] : near]]
        begun[name] = max(begun[name], near)
        if first.get(name, len(lower)) > last:
            found += by_name.pop(name, [])
        for i in found:
            if i not in kept:
                kept.add(i)
                waiting += [(needed, i) for needed in usable[i].needs]
    in_file = sorted(kept)
    return [usable[i] for i in in_file if i < border], [usable[i] for i in in_file if i >= border]


def _runnable(statements: Sequence[Statement], answer: Sequence[Statement]) -> list[Statement]:
    """Move up each definition that a statement above it needs when it runs.

    If a statement needs a name from the answer when it runs, add the answer's definition of it. The
    function visits each statement at most twice: to run it, and to call what it defines.
    """
    pool = [*statements, *_usable(answer)]
    by_name = _index(statements, _usable(answer))
    earlier: defaultdict[int, list[int]] = defaultdict(list)
    for places in by_name.values():
        for before, after in pairwise(places):
            earlier[after].append(before)
    ordered: list[Statement] = []
    ran: dict[str, int] = {}  # the last statement so far that defines each name
    visited: set[tuple[int, str]] = set()
    waiting = [(i, "run") for i in reversed(range(len(statements)))]
    while waiting:
        visit = i, what = waiting.pop()
        if visit in visited:
            continue
        visited.add(visit)
        statement = pool[i]
        if what == "ran":
            ordered.append(statement)
            ran |= dict.fromkeys(statement.binds, i)
            continue
        names = sorted(statement.needs if what == "call" else statement.reads)
        definitions = [ran.get(name, by_name[name][-1]) for name in names if by_name[name]]
        called = [(place, "call") for place in reversed(definitions)]
        if what == "call":
            waiting += [*called, (i, "run")]
        else:
            waiting += [(i, "ran"), *called, *((place, "run") for place in reversed(earlier[i]))]
    return ordered


def _index(
    statements: Sequence[Statement],
    others: Sequence[Statement] = (),
    but: frozenset[str] = frozenset(),
) -> defaultdict[str, list[int]]:
    """Map each name to the statements that bind or change it. Ignore changes to modules.

    ``others`` follow ``statements``. They define only names that no statement binds, except the
    names in ``but``.
    """
    modules = _bound(s for s in statements if s.is_import)
    index: defaultdict[str, list[int]] = defaultdict(list)
    for i, statement in enumerate(statements):
        for name in statement.binds | (statement.changes - modules):
            index[name].append(i)
    but |= _bound(statements)
    for name, places in _index(others).items() if others else ():
        if name not in but:
            index[name] += [len(statements) + i for i in places]
    return index


def _usable(statements: Iterable[Statement]) -> list[Statement]:
    return [s for s in statements if not is_talk(s)]


def _names(statements: Iterable[Statement]) -> frozenset[str]:
    return frozenset().union(*(s.needs for s in statements))


def _bound(statements: Iterable[Statement]) -> frozenset[str]:
    return frozenset().union(*(s.binds for s in statements))


def _unbound(statements: Sequence[Statement], bound: frozenset[str]) -> frozenset[str]:
    if any(s.binds_anything for s in statements):
        return frozenset()
    return _names(_usable(statements)) - bound - _KNOWN
