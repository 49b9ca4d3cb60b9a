"""Find answers to one exercise that share more than chance and the exercise itself explain.

A fingerprint weighs more if fewer students have it. Its weight is 1 if only two students share it,
and 0 if all students have it. Two answers are similar if their common part weighs enough and makes
up nearly all of the smaller answer. A short answer, which every student must write in the same way,
never weighs enough.

A part that many students share says little about any two of them. But if many students hand in the
same long code, this is not chance: it may be a published solution. This code forms a group, however
many students have it. Any code that contains nearly all of it also belongs to the group.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from autograd_classroom.similarity.fingerprints import fingerprints

ENOUGH = 12.0  # minimum number of shared rare fingerprints
NEARLY_ALL = 0.75  # minimum share of the smaller answer's weight
LONG = 36  # number of fingerprints beyond the given code that no two students write independently
MANY = 3  # minimum number of students with the same long code
_FEW = 20  # in a smaller class, even a rare fingerprint says less
_COMMON = 40  # a fingerprint in more different answers than this is not used to find pairs


@dataclass(frozen=True)
class Handed:
    """One piece of code, with its hash and the number of students who handed it in.

    Code that is not ``attempted`` shows what every student was given. It belongs to no group.
    """

    hash: str
    source: str
    students: int = 1
    attempted: bool = True


@dataclass(frozen=True)
class Alike:
    """Similar pieces of code, by hash. ``pair`` names the two to show; they have ``share`` in
    common.

    ``share`` is at most 1. If the pair consists of variants of the same code, ``same`` is the
    number of students who have it.
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
    """Return the groups, starting with the most striking. Each hash occurs once."""
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
    """Return each fingerprint's weight, which depends on how many students have it."""
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
    """Yield code that several students handed in unchanged, as a pair with itself."""
    for place, each in enumerate(prints):
        rare, own = sum(weights[p] for p in each), len(each - given)
        if holders[each] >= MANY and own >= LONG:
            yield _Pair(place, place, 1.0, own)
            yield from _changed(place, prints, given)
        elif holders[each] > 1 and rare >= ENOUGH:
            yield _Pair(place, place, 1.0, rare)


def _changed(place: int, prints: list[frozenset[int]], given: frozenset[int]) -> Iterator[_Pair]:
    """Yield pairs of this code and other code that contains nearly all of it."""
    own = prints[place] - given
    for other, each in enumerate(prints):
        shared = len(own & each)
        if other != place and shared >= NEARLY_ALL * len(own):
            yield _Pair(place, other, shared / len(own), shared)


def _pairs(prints: list[frozenset[int]], weights: Mapping[int, float]) -> Iterator[_Pair]:
    """Yield pairs of similar answers that are not the same."""
    total = [sum(weights[p] for p in each) for each in prints]
    for one, other in _candidates(prints):
        weight = sum(weights[p] for p in prints[one] & prints[other])
        share = weight / max(min(total[one], total[other]), 1e-9)
        if weight >= ENOUGH and share >= NEARLY_ALL:
            yield _Pair(one, other, share, weight)


def _candidates(prints: list[frozenset[int]]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that share enough fingerprints to be similar."""
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
