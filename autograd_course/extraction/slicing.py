"""Find the statements in other cells that define the names that an answer uses.

If an answer included all cells above it, a plot, a training run or an endless loop in a separate
cell would run again for every exercise below it. An error in one answer could also break the next
answer. Therefore, an answer includes only the definitions that it depends on. It does not include
bare calls, magics or ``grade(…)``.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    """Return the statements in other cells that an answer needs.

    If a name is defined only below the answer, the student ran the cells in a different order. The
    preamble then includes the definition, and a problem names it. Another problem lists undefined
    names.
    """
    wanted = _names(answer)
    first = _slice(above, wanted)
    bound = _bound([*answer, *first])
    later = _slice(below, _unbound([*answer, *first], bound))
    bound |= _bound(later)
    lacking = _unbound([*answer, *first, *later], bound)
    supplied = sorted(lacking & _SUPPLIED.keys())
    parts = [_SUPPLIED[name] for name in supplied] + [s.source for s in _futures_first(first)]
    problems = [
        *(f"{name} is imported nowhere, and is supplied" for name in supplied),
        *(f"{name} is defined only below the answer" for name in _said(_bound(later), answer)),
        *(f"{name} is defined nowhere in the file" for name in sorted(lacking - set(supplied))),
    ]
    return Preamble("\n".join(parts + [s.source for s in later]), tuple(problems))


def _slice(statements: Sequence[Statement], wanted: frozenset[str]) -> list[Statement]:
    """Return, in order, the statements that define ``wanted`` and everything they depend on."""
    usable = [s for s in statements if not is_talk(s)]
    by_name = _index(usable)
    kept = {i for i, s in enumerate(usable) if s.binds_anything or s.is_future}
    waiting, seen = list(wanted), set(wanted)
    while waiting:
        for i in by_name[waiting.pop()]:
            if i not in kept:
                kept.add(i)
                waiting += usable[i].needs - seen
                seen |= usable[i].needs
    return [usable[i] for i in sorted(kept)]


def _index(statements: Sequence[Statement]) -> defaultdict[str, list[int]]:
    """Map each name to the statements that bind or change it. Ignore changes to modules."""
    modules = _bound(s for s in statements if s.is_import)
    index: defaultdict[str, list[int]] = defaultdict(list)
    for i, statement in enumerate(statements):
        for name in statement.binds | (statement.changes - modules):
            index[name].append(i)
    return index


def _names(statements: Iterable[Statement]) -> frozenset[str]:
    return frozenset().union(*(s.needs for s in statements))


def _bound(statements: Iterable[Statement]) -> frozenset[str]:
    return frozenset().union(*(s.binds for s in statements))


def _unbound(statements: Sequence[Statement], bound: frozenset[str]) -> frozenset[str]:
    if any(s.binds_anything for s in statements):
        return frozenset()
    return _names(s for s in statements if not is_talk(s)) - bound - _KNOWN


def _said(names: frozenset[str], answer: Sequence[Statement]) -> list[str]:
    """Return the sorted subset of ``names`` that the answer itself uses."""
    return sorted(names & _names(answer))


def _futures_first(statements: Iterable[Statement]) -> list[Statement]:
    return sorted(statements, key=lambda s: not s.is_future)
