"""Answers to one exercise that share more than chance and the exercise explain.

A fingerprint says the more the fewer have it: one that two alone share counts 1, one that all have
counts nothing. Two answers are similar if their common part weighs enough and is nearly all of the
smaller one. A short answer, which everybody must write in the same way, never weighs enough.

What many share says little about any two of them. But if many hand in the same long code, it is not
by chance: it may be a published solution. Such a code makes a group, however many have it. A code
that has nearly all of it belongs to the group, too.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from autograd_course.classroom.likeness.prints import fingerprints

ENOUGH = 12.0  # rare fingerprints that are shared
NEARLY_ALL = 0.75  # of the weight of the answer that has less
LONG = 36  # fingerprints beyond what was given that people do not come to by themselves
MANY = 3  # students
_FEW = 20  # students below whom even a rare fingerprint says less
_COMMON = 40  # different answers with a fingerprint above which it leads to no pair


@dataclass(frozen=True)
class Handed:
    """A code, by its hash, and how many students handed it in.

    What was not ``attempted`` shows what everybody was given, and is in no group.
    """

    hash: str
    source: str
    students: int = 1
    attempted: bool = True


@dataclass(frozen=True)
class Alike:
    """Similar codes, by hash; ``pair`` are the two to show side by side, ``share`` of 1.

    ``same`` is how many students have the code of the pair, where both are one in other clothes.
    """

    codes: tuple[str, ...]
    pair: tuple[str, str]
    share: float
    weight: float
    same: int = 0


@dataclass(frozen=True)
class _Pair:
    one: int
    other: int
    share: float
    weight: float


def alike(codes: Iterable[Handed]) -> list[Alike]:
    """Return the groups, the most striking first. Each hash is there once."""
    shapes: dict[frozenset[int], list[str]] = defaultdict(list)
    holders: Counter[frozenset[int]] = Counter()
    given: Counter[frozenset[int]] = Counter()
    for code in codes:
        prints = fingerprints(code.source)
        (holders if code.attempted else given)[prints] += code.students
        if prints and code.attempted:
            shapes[prints].append(code.hash)
    weights = _weights(holders + given)
    groups = _groups(shapes, holders, weights, frozenset().union(*given))
    return sorted(groups, key=lambda group: -group.weight)


def _weights(holders: Mapping[frozenset[int], int]) -> dict[int, float]:
    """Return what each fingerprint counts, by how many students have it."""
    students: Counter[int] = Counter()
    for prints, count in holders.items():
        students.update(dict.fromkeys(prints, count))
    everybody = sum(holders.values()) + 1
    rarest = math.log(max(everybody, _FEW) / 2)
    return {p: min(1.0, math.log(everybody / n) / rarest) for p, n in students.items()}


def _groups(
    shapes: Mapping[frozenset[int], list[str]],
    holders: Mapping[frozenset[int], int],
    weights: Mapping[int, float],
    given: frozenset[int],
) -> Iterator[Alike]:
    prints = list(shapes)
    best: dict[int, _Pair] = {}
    leaders = list(range(len(prints)))
    for pair in (*_same(prints, holders, weights, given), *_pairs(prints, weights)):
        one, other = _leader(leaders, pair.one), _leader(leaders, pair.other)
        leaders[max(one, other)] = min(one, other)
        stronger = (best.get(one), best.get(other), pair)
        best[min(one, other)] = max(filter(None, stronger), key=lambda p: p.weight)
    members = defaultdict(list)
    for place in range(len(prints)):
        members[_leader(leaders, place)].append(place)
    for leader, places in members.items():
        if found := best.get(leader):
            codes = tuple(code for place in places for code in shapes[prints[place]])
            two = (shapes[prints[found.one]][0], shapes[prints[found.other]][-1])
            same = holders[prints[found.one]] if found.one == found.other else 0
            yield Alike(codes, two, found.share, found.weight, same)


def _same(
    prints: list[frozenset[int]],
    holders: Mapping[frozenset[int], int],
    weights: Mapping[int, float],
    given: frozenset[int],
) -> Iterator[_Pair]:
    """Yield what several students have in the very same form, as a pair with itself."""
    for place, each in enumerate(prints):
        rare, own = sum(weights[p] for p in each), len(each - given)
        if holders[each] >= MANY and own >= LONG:
            yield _Pair(place, place, 1.0, own)
            yield from _changed(place, prints, given)
        elif holders[each] > 1 and rare >= ENOUGH:
            yield _Pair(place, place, 1.0, rare)


def _changed(place: int, prints: list[frozenset[int]], given: frozenset[int]) -> Iterator[_Pair]:
    """Yield a code with each other one that has nearly all of it, as after a change of a line."""
    own = prints[place] - given
    for other, each in enumerate(prints):
        shared = len(own & each)
        if other != place and shared >= NEARLY_ALL * len(own):
            yield _Pair(place, other, shared / len(own), shared)


def _pairs(prints: list[frozenset[int]], weights: Mapping[int, float]) -> Iterator[_Pair]:
    """Yield what is similar but not the same."""
    total = [sum(weights[p] for p in each) for each in prints]
    for one, other in _candidates(prints):
        weight = sum(weights[p] for p in prints[one] & prints[other])
        share = weight / max(min(total[one], total[other]), 1e-9)
        if weight >= ENOUGH and share >= NEARLY_ALL:
            yield _Pair(one, other, share, weight)


def _candidates(prints: list[frozenset[int]]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that share at least as many fingerprints as must weigh enough."""
    having: dict[int, list[int]] = defaultdict(list)
    for place, each in enumerate(prints):
        for fingerprint in each:
            having[fingerprint].append(place)
    shared: Counter[tuple[int, int]] = Counter()
    for places in having.values():
        if len(places) <= _COMMON:
            shared.update(combinations(places, 2))
    yield from (pair for pair, count in shared.items() if count >= ENOUGH / 2)


def _leader(leaders: list[int], place: int) -> int:
    while leaders[place] != place:
        place = leaders[place]
    return place
