"""Find groups of similar answers to one exercise.

Each fingerprint has a weight, which is higher if fewer students have the fingerprint. The weight is
1 if only two students share the fingerprint, and nearly 0 if all students have it. Two answers are
similar if their shared fingerprints have a high total weight and make up nearly all of the smaller
answer. A short answer that every student must write in the same way never has a high total weight.

A fingerprint that many students share says little about any two of them. However, many students do
not write the same long code by chance. They may all have copied a published solution. Such code
forms a group, no matter how many students have it. The group also includes code that contains
nearly all of the shared code.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from autograd_classroom.similarity.fingerprints import fingerprints

ENOUGH = 12.0  # minimum total weight of the shared fingerprints
NEARLY_ALL = 0.75  # minimum shared part of the smaller answer's weight
LONG = 36  # students do not share this many fingerprints by chance, not counting the given code
MANY = 3  # minimum number of students with the same long code
_FEW = 20  # in a smaller class, even a rare fingerprint has less weight
_COMMON = 40  # ignore a fingerprint in more than this many answers when searching for pairs


@dataclass(frozen=True)
class Handed:
    """One piece of code, with its hash and the number of students who handed it in.

    If ``attempted`` is false, the code is the given stub, which never belongs to a group.
    """

    hash: str
    source: str
    students: int = 1
    attempted: bool = True


@dataclass(frozen=True)
class Alike:
    """A group of similar pieces of code. ``codes`` contains their hashes.

    ``pair`` contains the two pieces to show, and ``share`` is the part that they have in common,
    from 0 to 1. If both pieces have the same fingerprints, ``same`` is the number of students who
    handed in code with these fingerprints.
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
    """Return the groups of similar code, highest weight first. No code is in two groups."""
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
    """Map each fingerprint to its weight, which depends on how many students have it."""
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
    """If several students handed in the same code, yield a pair of this code with itself.

    If the code is long, also pair it with other code that contains nearly all of it.
    """
    for place, each in enumerate(prints):
        rare, own = sum(weights[p] for p in each), len(each - given)
        if holders[each] >= MANY and own >= LONG:
            yield _Pair(place, place, 1.0, own)
            yield from _changed(place, prints, given)
        elif holders[each] > 1 and rare >= ENOUGH:
            yield _Pair(place, place, 1.0, rare)


def _changed(place: int, prints: list[frozenset[int]], given: frozenset[int]) -> Iterator[_Pair]:
    """Yield a pair for each other piece of code that contains nearly all of this code."""
    own = prints[place] - given
    for other, each in enumerate(prints):
        shared = len(own & each)
        if other != place and shared >= NEARLY_ALL * len(own):
            yield _Pair(place, other, shared / len(own), shared)


def _pairs(prints: list[frozenset[int]], weights: Mapping[int, float]) -> Iterator[_Pair]:
    """Yield pairs of similar answers that have different fingerprints."""
    total = [sum(weights[p] for p in each) for each in prints]
    for one, other in _candidates(prints):
        weight = sum(weights[p] for p in prints[one] & prints[other])
        share = weight / max(min(total[one], total[other]), 1e-9)
        if weight >= ENOUGH and share >= NEARLY_ALL:
            yield _Pair(one, other, share, weight)


def _candidates(prints: list[frozenset[int]]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that share enough fingerprints to be worth comparing."""
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
