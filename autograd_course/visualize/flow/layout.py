"""Compute all positions in a layered drawing, for the pictures and the widget."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from autograd_course.visualize.flow.describe import Card, Map, Script
from autograd_course.visualize.flow.marks import cell_size
from autograd_course.visualize.flow.trace import Trace

# --- The two directions ---------------------------------------------------------------------------
# A layout uses two coordinates: *along* the flow, from rank to rank, and *across* the flow, from
# place to place within a rank. Only this class knows which of them is x.

Point = tuple[float, float]


@dataclass(frozen=True)
class Flow:
    """The direction of a drawing, and the distances in pixels that depend on the direction.

    ``gap`` is the distance between two ranks without labels, and ``beside`` is the distance between
    neighboring cards in a rank. Edges arrive in the middle part of a card's side. ``ports`` is the
    length of this part as a fraction of the side. ``badge`` is the position of a custom Function's
    badge along the top of its card, from 0 to 1.
    """

    downward: bool
    gap: float
    beside: float
    ports: float
    badge: float

    def turned(self, first: float, second: float) -> Point:
        """Convert (x, y) to (along, across), or (along, across) to (x, y)."""
        return (second, first) if self.downward else (first, second)


RIGHT = Flow(downward=False, gap=40.0, beside=22.0, ports=0.6, badge=0.5)
# In this direction, edges arrive at the top of a card and leave room for the badge.
DOWN = Flow(downward=True, gap=38.0, beside=34.0, ports=0.45, badge=1.0)


# --- Ranks, and the order within each rank --------------------------------------------------------
# A rank is a column if a drawing runs from left to right, and a row if it runs from top to bottom.

# A place in a rank: the number of a node, or (edge, rank) if an edge passes through the rank.
Place = int | tuple[int, int]
_SWEEPS = 12


@dataclass(frozen=True)
class Layers:
    """Ordered ``ranks`` of places, and ``links`` between places in adjacent ranks.

    ``routes[edge]`` contains the places along an edge, including its two ends.
    """

    ranks: list[list[Place]]
    links: list[tuple[Place, Place]]
    routes: list[list[Place]]

    @cached_property
    def rank_of(self) -> dict[Place, int]:
        """A dictionary that maps each place to its rank."""
        return {place: r for r, rank in enumerate(self.ranks) for place in rank}

    @property
    def reading(self) -> tuple[int, ...]:
        """The nodes in reading order, rank by rank."""
        return tuple(place for rank in self.ranks for place in rank if isinstance(place, int))


def layered(count: int, edges: Sequence[tuple[int, int]]) -> Layers:
    """Assign the topologically numbered nodes ``0 … count - 1`` to ranks, and order each rank."""
    rank = _ranks(count, edges)
    routes: list[list[Place]] = [
        [source, *((edge, c) for c in range(rank[source] + 1, rank[target])), target]
        for edge, (source, target) in enumerate(edges)
    ]
    ranks: list[list[Place]] = [[] for _ in range(max(rank, default=0) + 1)]
    for node in range(count):
        ranks[rank[node]].append(node)
    for place in (place for route in routes for place in route):
        if isinstance(place, tuple):
            ranks[place[1]].append(place)
    links = [link for route in routes for link in pairwise(route)]
    return Layers(_ordered(ranks, links), links, routes)


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Assign each node to the last rank that leaves room for the longest path from the node."""
    behind = [0] * count
    for source, target in sorted(edges, key=lambda edge: -edge[1]):
        behind[source] = max(behind[source], behind[target] + 1)
    longest = max(behind, default=0)
    return [longest - steps for steps in behind]


def _ordered(ranks: list[list[Place]], links: list[tuple[Place, Place]]) -> list[list[Place]]:
    sources, targets = _neighbors(links)
    best, fewest = ranks, crossings(ranks, sources)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 1
        ranks = _swept(ranks, sources if forward else targets, forward)
        ranks = _exchanged(ranks, sources, targets)
        if (crossed := crossings(ranks, sources)) < fewest:
            best, fewest = ranks, crossed
    return best


Neighbors = dict[Place, list[Place]]


def _neighbors(links: list[tuple[Place, Place]]) -> tuple[Neighbors, Neighbors]:
    sources: Neighbors = {}
    targets: Neighbors = {}
    for source, target in links:
        sources.setdefault(target, []).append(source)
        targets.setdefault(source, []).append(target)
    return sources, targets


def _swept(ranks: list[list[Place]], toward: Neighbors, forward: bool) -> list[list[Place]]:
    """Sort the places in each rank by the mean position of their neighbors in the previous rank."""
    ranks = [list(rank) for rank in ranks]
    order = range(1, len(ranks)) if forward else range(len(ranks) - 2, -1, -1)
    for c in order:
        fixed = {place: i for i, place in enumerate(ranks[c - 1 if forward else c + 1])}
        own = {place: i for i, place in enumerate(ranks[c])}

        def center(
            place: Place, fixed: dict[Place, int] = fixed, own: dict[Place, int] = own
        ) -> float:
            at = [fixed[neighbor] for neighbor in toward.get(place, ())]
            return sum(at) / len(at) if at else own[place]

        ranks[c].sort(key=center)
    return ranks


def _exchanged(
    ranks: list[list[Place]], sources: Neighbors, targets: Neighbors
) -> list[list[Place]]:
    """Swap adjacent places in a rank if the swap removes a crossing."""
    ranks = [list(rank) for rank in ranks]
    for c, rank in enumerate(ranks):
        at = {p: i for side in (c - 1, c + 1) if 0 <= side < len(ranks)
              for i, p in enumerate(ranks[side])}  # fmt: skip
        for i in range(len(rank) - 1):
            first, second = rank[i], rank[i + 1]
            gain = sum(
                _crossed(side.get(first, ()), side.get(second, ()), at)
                - _crossed(side.get(second, ()), side.get(first, ()), at)
                for side in (sources, targets)
            )
            if gain > 0:
                rank[i], rank[i + 1] = second, first
    return ranks


def _crossed(first: Sequence[Place], second: Sequence[Place], at: dict[Place, int]) -> int:
    return sum(at[a] > at[b] for a in first for b in second)


def crossings(ranks: list[list[Place]], sources: Neighbors) -> int:
    """Count the crossings of the links between adjacent ranks."""
    total = 0
    for before, rank in pairwise(ranks):
        at = {place: i for i, place in enumerate(before)}
        ends = [sources.get(place, []) for place in rank]
        total += sum(
            _crossed(ends[i], ends[j], at)
            for i in range(len(ends))
            for j in range(i + 1, len(ends))
        )
    return total


# --- The positions across the flow ----------------------------------------------------------------

_ROUNDS = 24
_BETWEEN_EDGES = 14.0
_STRAIGHT = 12.0  # the weight of a straight edge relative to a centered card
_LEAF = 0.1  # the weight of an input relative to a computed node


@dataclass(frozen=True)
class Room:
    """The sizes of the cards in a rank, and the distances between cards."""

    sizes: Sequence[float]
    beside: float

    def size(self, place: Place) -> float:
        """Return the space that a place needs in its rank. A passing edge needs none."""
        return self.sizes[place] if isinstance(place, int) else 0.0

    def distances(self, rank: Sequence[Place]) -> list[float]:
        """Return the minimum distance of each place from the previous one (0 for the first)."""
        distances = [0.0]
        for one, other in pairwise(rank):
            cards = isinstance(one, int) or isinstance(other, int)
            free = self.beside if cards else _BETWEEN_EDGES
            distances.append((self.size(one) + self.size(other)) / 2 + free)
        return distances


def across(layers: Layers, room: Room) -> dict[Place, float]:
    """Return the center of each place across the flow. The drawing begins at 0."""
    middle = _stacked(layers, room)
    leaves = _leaves(layers)
    near = _near(layers, leaves)
    forward = range(len(layers.ranks))
    for turn in range(_ROUNDS):
        for r in forward if turn % 2 else reversed(forward):
            rank = layers.ranks[r]
            wanted = [_wanted(near[place], middle) for place in rank]
            weights = [_LEAF if place in leaves else 1.0 for place in rank]
            fitted = _fitted(wanted, weights, room.distances(rank))
            middle |= zip(rank, fitted, strict=True)
    for places in _passages(layers) * 2 + _runs(layers, leaves):
        _straighten(places, layers, middle, room)
    begin = min(at - room.size(place) / 2 for place, at in middle.items())
    return {place: at - begin for place, at in middle.items()}


def _leaves(layers: Layers) -> set[Place]:
    reached = {target for _, target in layers.links}
    return {node for node in layers.reading if node not in reached}


def _passages(layers: Layers) -> list[list[Place]]:
    """Return the places that each long edge passes through. Short edges come first."""
    routes = sorted(layers.routes, key=len)
    return [route[1:-1] for route in routes if len(route) > 2]


def _runs(layers: Layers, leaves: set[Place]) -> list[list[Place]]:
    """Return the chains of computed nodes in which each node feeds only the next one."""
    computed = [(a, b) for a, b in layers.links if a not in leaves]
    uses, fed = Counter(a for a, _ in computed), Counter(b for _, b in computed)
    runs: dict[Place, list[Place]] = {}
    for a, b in sorted(computed, key=lambda link: layers.rank_of[link[0]]):
        if isinstance(a, int) and isinstance(b, int) and uses[a] == fed[b] == 1:
            run = runs.pop(a, [a])
            runs[b] = [*run, b]
    return list(runs.values())


def _straighten(
    places: Sequence[Place], layers: Layers, middle: dict[Place, float], room: Room
) -> None:
    """Align places in adjacent ranks if their neighbors leave enough room."""
    least, most = float("-inf"), float("inf")
    for place in places:
        rank = layers.ranks[layers.rank_of[place]]
        at = rank.index(place)
        distances = room.distances(rank)
        if at:
            least = max(least, middle[rank[at - 1]] + distances[at])
        if at + 1 < len(rank):
            most = min(most, middle[rank[at + 1]] - distances[at + 1])
    if least <= most:
        mean = sum(middle[place] for place in places) / len(places)
        middle |= dict.fromkeys(places, min(max(mean, least), most))


def _stacked(layers: Layers, room: Room) -> dict[Place, float]:
    middle: dict[Place, float] = {}
    for rank in layers.ranks:
        offsets = list(accumulate(room.distances(rank)))
        middle |= {p: at - offsets[-1] / 2 for p, at in zip(rank, offsets, strict=True)}
    return middle


def _near(layers: Layers, leaves: set[Place]) -> dict[Place, list[tuple[Place, float]]]:
    near: dict[Place, list[tuple[Place, float]]] = {p: [] for rank in layers.ranks for p in rank}
    for a, b in layers.links:
        weight = _STRAIGHT if isinstance(a, tuple) and isinstance(b, tuple) else 1.0
        near[a].append((b, weight))
        near[b].append((a, _LEAF if a in leaves else weight))
    return near


def _wanted(near: Sequence[tuple[Place, float]], middle: dict[Place, float]) -> float:
    total = sum(weight for _, weight in near)
    return sum(middle[place] * weight for place, weight in near) / total if near else 0.0


def _fitted(
    wanted: Sequence[float], weights: Sequence[float], distances: Sequence[float]
) -> list[float]:
    """Return the positions closest to the desired ones that keep the minimum distances.

    The positions minimize the weighted sum of squared deviations. After the distances are
    subtracted, this is isotonic regression, which the pool-adjacent-violators algorithm solves.
    """
    offsets = list(accumulate(distances))
    pools: list[tuple[float, float, int]] = []
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, total, size = want - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, more, count = pools.pop()
            mean = (mean * total + other * more) / (total + more)
            total, size = total + more, size + count
        pools.append((mean, total, size))
    levels = [mean for mean, _, size in pools for _ in range(size)]
    return [level + offset for level, offset in zip(levels, offsets, strict=True)]


# --- The paths of the edges -----------------------------------------------------------------------

LABEL_WIDTH, LABEL_HEIGHT = 40.0, 17.0  # the minimum width, and the height
ARROW = 10.0


@dataclass(frozen=True)
class Curve:
    """An edge: an arrow, a label, and a chain of cubic Bézier curves.

    ``points[0]`` is the start. Each curve adds three points: two control points and an end.
    ``arrow`` is a triangle whose first point is its tip, and ``label`` is the center of the label.
    """

    points: tuple[Point, ...]
    arrow: tuple[Point, Point, Point]
    label: Point


@dataclass(frozen=True)
class Placement:
    """The start and end of each rank along the flow, and the center of each place across the flow.

    ``sizes`` contains the sizes of the cards along and across the flow.
    """

    flow: Flow
    spans: Sequence[Point]
    middle: dict[Place, float]
    sizes: Sequence[Point]


def curved(layers: Layers, placed: Placement, labels: Sequence[float]) -> list[Curve]:
    """Route every edge from the end of its source to the start of its target, around the cards.

    ``labels`` contains the widths of the edges' labels.
    """
    arriving = _ports(layers, placed, end=-1, part=placed.flow.ports)
    leaving = _ports(layers, placed, end=0, part=placed.flow.ports / 2)
    curves = []
    for edge, route in enumerate(layers.routes):
        stops = [
            (at, placed.middle[place] + shift)
            for place, shift in _shifts(route, leaving[edge], arriving[edge])
            for at in _ends(place, layers.rank_of[place], placed)
        ]
        curves.append(_curve(stops[1:-1], placed.flow))
    return _apart(curves, labels)


def _shifts(route: Sequence[Place], first: float, last: float) -> list[tuple[Place, float]]:
    between = [0.0] * (len(route) - 2)
    return list(zip(route, [first, *between, last], strict=True))


def _ends(place: Place, rank: int, placed: Placement) -> Point:
    """Return where a place begins and ends along the flow. An edge spans its whole rank."""
    begin, end = placed.spans[rank]
    if isinstance(place, tuple):
        return begin, end
    middle, half = (begin + end) / 2, placed.sizes[place][0] / 2
    return middle - half, middle + half


def _ports(layers: Layers, placed: Placement, end: int, part: float) -> list[float]:
    """At one end of each node, spread the edges evenly along the side of its card, in order."""
    following = -2 if end else 1
    at: dict[int, list[int]] = {}
    for edge, route in enumerate(layers.routes):
        if isinstance(node := route[end], int):
            at.setdefault(node, []).append(edge)
    offset = [0.0] * len(layers.routes)
    for node, edges in at.items():
        edges.sort(key=lambda edge: (placed.middle[layers.routes[edge][following]], edge))
        for i, edge in enumerate(edges):
            offset[edge] = placed.sizes[node][1] * part * ((i + 0.5) / len(edges) - 0.5)
    return offset


def _curve(stops: Sequence[Point], flow: Flow) -> Curve:
    points = [stops[0]]
    for (a0, c0), (a1, c1) in pairwise(stops):
        bend = (a1 - a0) / 2
        points += [(a0 + bend, c0), (a1 - bend, c1), (a1, c1)]
    (a0, c0), (a1, c1) = stops[-2:]
    tip, one, other = (a1, c1), (a1 - ARROW, c1 - ARROW / 2), (a1 - ARROW, c1 + ARROW / 2)
    return Curve(
        points=tuple(_drawn(point, flow) for point in points),
        arrow=(_drawn(tip, flow), _drawn(one, flow), _drawn(other, flow)),
        label=_drawn(((a0 + a1) / 2, (c0 + c1) / 2), flow),
    )


def _drawn(point: Point, flow: Flow) -> Point:
    x, y = flow.turned(*point)
    return round(x, 1), round(y, 1)


def _apart(curves: list[Curve], widths: Sequence[float]) -> list[Curve]:
    """Move overlapping labels downward until they no longer overlap."""
    moved = list(curves)
    placed: list[tuple[float, float, float]] = []
    for edge in sorted(range(len(curves)), key=lambda edge: curves[edge].label[::-1]):
        (x, y), width = curves[edge].label, max(widths[edge], LABEL_WIDTH)
        while clash := [
            v for u, v, w in placed if abs(u - x) < (width + w) / 2 and abs(v - y) < LABEL_HEIGHT
        ]:
            y = round(max(clash) + LABEL_HEIGHT, 1)
        placed.append((x, y, width))
        moved[edge] = replace(curves[edge], label=(x, y))
    return moved


# --- The drawing ----------------------------------------------------------------------------------

# Sizes in pixels. In the widest possible substitute font, a character's width is 0.61 times the
# font size.
TITLE, LINE = 13.0, 12.0
NARROWEST, PADDING, CARD_HEIGHT = 92.0, 20.0, 67.0
BADGE_TEXT, BADGE_HEIGHT, BADGE_RISE = 12.0, 16.0, 12.0
MAP_TOP, MAP_GAP, MAP_BELOW = 62.0, 18.0, 8.0  # heat maps are side by side below the texts
MARGIN = 20.0
_WIDTH_OF_LETTER = 0.61
# A rank is about 170 pixels wide. If there are more ranks than this, the text is too small on a
# page that is 1000 pixels wide.
_MOST_COLUMNS = 9


@dataclass(frozen=True)
class Box:
    """A card or badge: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """All positions: ``boxes[i]`` and ``badges[i]`` for node ``i``, ``curves[j]`` for edge ``j``.

    ``reading`` contains the nodes in reading order, which is topological. ``downward`` is true if
    the drawing runs from top to bottom.
    """

    width: float
    height: float
    boxes: tuple[Box, ...]
    badges: tuple[Box, ...]
    curves: tuple[Curve, ...]
    reading: tuple[int, ...]
    downward: bool = False


class Sizes(NamedTuple):
    """The width and height of each card, and the width of each edge's label, in pixels."""

    cards: tuple[Point, ...]
    labels: tuple[float, ...]

    def with_(self, other: "Sizes") -> "Sizes":
        """Return the larger width and height for each card, and the larger width for each label."""
        cards = (
            (max(w, v), max(h, k)) for (w, h), (v, k) in zip(self.cards, other.cards, strict=True)
        )
        return Sizes(tuple(cards), tuple(map(max, self.labels, other.labels)))


def text_width(text: str, size: float = LINE) -> float:
    """Estimate the width of a string in pixels. The estimate is rarely too small."""
    return len(text) * size * _WIDTH_OF_LETTER


def layout(trace: Trace, words: Script, sizes: Sizes | None = None) -> Layout:
    """Lay out a trace from left to right or, if it is deep, from top to bottom.

    ``sizes`` contains the sizes of cards and labels. By default, they are computed from the text.
    The layout is deterministic. It takes about ten milliseconds for 60 nodes.
    """
    cards, labels = sizes or needed(words)
    layers = layered(len(trace.nodes), [(edge.source, edge.target) for edge in trace.edges])
    flow = RIGHT if len(layers.ranks) <= _MOST_COLUMNS else DOWN
    placed = _placed(layers, flow, cards, labels)
    curves = curved(layers, placed, labels)
    boxes = _boxes(layers, placed)
    badges = [_badge(box, card.badge, flow) for box, card in zip(boxes, words.cards, strict=True)]
    seen = [*boxes, *(badges[i] for i, card in enumerate(words.cards) if card.badge)]
    width, height = _extent(seen, curves)
    drawn = tuple(boxes), tuple(badges), tuple(curves)
    return Layout(width, height, *drawn, layers.reading, flow.downward)


def needed(words: Script) -> Sizes:
    """Return the sizes of cards and labels, computed from their text."""
    cards = tuple(card_size(words, card) for card in words.cards)
    return Sizes(cards, tuple(text_width(words.fill(text)) for text in words.factors))


def card_size(words: Script, card: Card) -> Point:
    """Return the width and height of a card, computed from its text and heat maps."""
    title, *numbers = card.lines
    widths = [text_width(title, TITLE), *(text_width(words.fill(line)) for line in numbers)]
    maps = [(m.columns * cell_size(m.columns), m.rows * cell_size(m.columns)) for m in card.maps]
    widths.append(sum(width for width, _ in maps) + MAP_GAP * (len(maps) - 1))
    widths.append(text_width(card.badge, BADGE_TEXT))
    tallest = max((height + MAP_BELOW for _, height in maps), default=0.0)
    return max(NARROWEST, max(widths) + PADDING), CARD_HEIGHT + tallest


def _placed(
    layers: Layers, flow: Flow, cards: Sequence[Point], labels: Sequence[float]
) -> Placement:
    sizes = [flow.turned(*size) for size in cards]
    room = Room([size for _, size in sizes], flow.beside)
    middle = {place: MARGIN + at for place, at in across(layers, room).items()}
    lengths = [flow.turned(width, LABEL_HEIGHT if width else 0.0)[0] for width in labels]
    return Placement(
        flow, _spans(layers, flow, [size for size, _ in sizes], lengths), middle, sizes
    )


def _spans(
    layers: Layers, flow: Flow, cards: Sequence[float], labels: Sequence[float]
) -> list[Point]:
    """Return where each rank begins and ends along the flow. The gaps leave room for labels."""
    longest = [0.0] * len(layers.ranks)
    for route, label in zip(layers.routes, labels, strict=True):
        rank = layers.rank_of[route[-1]]
        longest[rank] = max(longest[rank], label)
    spans: list[Point] = []
    at = MARGIN
    for rank, places in enumerate(layers.ranks):
        at += (flow.gap + longest[rank]) if spans else 0.0
        spans.append((at, at + max(cards[place] for place in places if isinstance(place, int))))
        at = spans[-1][1]
    return spans


def _boxes(layers: Layers, placed: Placement) -> list[Box]:
    boxes: dict[int, Box] = {}
    for (begin, end), rank in zip(placed.spans, layers.ranks, strict=True):
        for node in (place for place in rank if isinstance(place, int)):
            width, height = placed.flow.turned(*placed.sizes[node])
            x, y = placed.flow.turned((begin + end) / 2, placed.middle[node])
            corner = round(x - width / 2, 1), round(y - height / 2, 1)
            boxes[node] = Box(*corner, round(width, 1), round(height, 1))
    return [boxes[node] for node in range(len(boxes))]


def _badge(box: Box, text: str, flow: Flow) -> Box:
    width = text_width(text, BADGE_TEXT) + 8
    x = box.x + flow.badge * box.width - width / 2
    return Box(round(x, 1), round(box.y - BADGE_RISE, 1), round(width, 1), BADGE_HEIGHT)


def _extent(boxes: Iterable[Box], curves: Iterable[Curve]) -> Point:
    corners = [(box.x + box.width, box.y + box.height) for box in boxes]
    corners += [point for curve in curves for point in curve.points]
    right, low = (max(ends) for ends in zip(*corners, strict=True))
    return round(right + MARGIN, 1), round(low + MARGIN, 1)


# --- A tall drawing on a page ---------------------------------------------------------------------

BETWEEN, FOOT = 24.0, 36.0  # pixels between the columns and below them
TURN, TURN_SIZE = "continued →", 9.0  # the text at the bottom of a column, and its size in pixels
TURN_RISE, TURN_ASIDE = 22.0, 4.0  # the distance to the bottom, and to the next column
RULE_TOP = 8.0  # the distance from the top of the columns to the line between them
WIDEST = 1200.0  # the maximum width that a page shows without shrinking the text
_TALL, _COLUMN = 1400.0, 1000.0  # the height above which a drawing is split, and a column's height
# The space for a badge and an arrowhead above a card, and for the card behind it.
_RISE, _FALL = 13.0, 6.0
_HALF_LABEL = 9.0


@dataclass(frozen=True)
class Column:
    """One column of a drawing."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """The column's width in pixels."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """The column's height in pixels."""
        return self.bottom - self.top

    def holds(self, box: Box) -> bool:
        """Return whether the column contains a card."""
        return self.top <= box.y < self.bottom

    def labels(self, curve: Curve) -> bool:
        """Return whether the column contains the label of an edge."""
        return self.top <= curve.label[1] < self.bottom

    def meets(self, curve: Curve) -> bool:
        """Return whether an edge begins in, ends in, or passes through the column."""
        heights = [y for _, y in (*curve.points, *curve.arrow)]
        return min(heights) < self.bottom and max(heights) > self.top


@dataclass(frozen=True)
class Sheet:
    """A drawing that is divided into columns. Only tall and narrow drawings have more than one."""

    drawn: Layout

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns, from left to right. Their number depends on the height and the width."""
        drawn = self.drawn
        tall = drawn.downward and drawn.height > _TALL
        asked = math.ceil(drawn.height / _COLUMN) if tall else 1
        for count in range(asked, 1, -1):
            columns = tuple(_cropped(drawn, *part) for part in _parts(drawn, count))
            if _together(columns) <= WIDEST:
                return columns
        return (Column(0.0, 0.0, drawn.width, drawn.height),)

    @property
    def placed(self) -> Iterator[tuple[float, Column]]:
        """The position of each column's left edge, and the column."""
        left = 0.0
        for column in self.columns:
            yield left, column
            left += column.width + BETWEEN

    @property
    def turns(self) -> list[float]:
        """The middle of each gap between two columns."""
        return [left - BETWEEN / 2 for left, _ in self.placed][1:]

    @property
    def width(self) -> float:
        """The width of all columns."""
        return _together(self.columns)

    @property
    def height(self) -> float:
        """The height of the tallest column, plus the space below if there are several columns."""
        foot = FOOT if len(self.columns) > 1 else 0.0
        return max(column.height for column in self.columns) + foot


def _together(columns: Sequence[Column]) -> float:
    return sum(column.width for column in columns) + BETWEEN * (len(columns) - 1)


Part = tuple[float, float]  # the range of a column


def _parts(drawn: Layout, count: int) -> list[Part]:
    """Split the drawing into at most ``count`` pieces of about equal length."""
    cuts, height = _cuts(drawn), drawn.height / count
    while len(found := list(_filled(cuts, height))) > count:
        height *= 1.02
    return found


def _cuts(drawn: Layout) -> list[float]:
    """Return the positions where a cut crosses no card or label, and the end of the drawing."""
    taken = [(box.y - _RISE, box.y + box.height + _FALL) for box in drawn.boxes]
    taken += [(c.label[1] - _HALF_LABEL, c.label[1] + _HALF_LABEL) for c in drawn.curves]
    cuts, reached = [], 0.0
    for top, bottom in sorted(taken):
        if top >= reached > 0.0:
            cuts.append(top)
        reached = max(reached, bottom)
    return [*cuts, drawn.height]


def _filled(cuts: Sequence[float], height: float) -> Iterator[Part]:
    """Combine the pieces between cuts into parts that are at most ``height`` long if possible."""
    top = last = 0.0
    for cut in cuts:
        if cut - top > height and last > top:
            yield top, last
            top = last
        last = cut
    yield top, last


def _cropped(drawn: Layout, top: float, bottom: float) -> Column:
    """Crop a part to the width of its contents: cards, badges, labels and passing edges."""
    cards = [box for box in drawn.boxes if top <= box.y < bottom]
    badges = [box for box in drawn.badges if top <= box.y < bottom]
    ends = [end for box in (*cards, *badges) for end in (box.x, box.x + box.width + _FALL)]
    inside = [x for curve in drawn.curves for x, y in curve.points if top <= y <= bottom]
    labels = [c.label[0] for c in drawn.curves if top <= c.label[1] < bottom]
    ends += [*inside, *(x + side * LABEL_WIDTH for x in labels for side in (-0.5, 0.5))]
    ends = ends or [0.0, drawn.width]
    return Column(max(0.0, min(ends) - MARGIN), top, min(drawn.width, max(ends) + MARGIN), bottom)


# --- The positions on a card ----------------------------------------------------------------------

BASELINES = (19.0, 37.0, 54.0)  # title, value and gradient, from the top of a card
BADGE_BASELINE, ROUNDEST = 12.2, 31.0
PARTIAL = 8.0  # the distance from the symbol ∂ to its heat map
GAUGE_RISE = 5.5  # the distance between the gradient's bar and the bottom of a card
# The radius of the symbol that marks a difference.
UNLIKE = 8.0
_ASIDE = 8.0  # the margin of a factor's background around its text (widget.js: ASIDE)
_BEHIND = 4.0  # the visible part of the card behind a folded card


def radius(box: Box, card: Card) -> float:
    """Return the radius of a card's corners. Input cards have semicircular ends."""
    return min(box.height / 2, ROUNDEST) if card.kind == "input" else 8


def behind(box: Box) -> Box:
    """Return the bounding box of the card that is drawn behind a folded card."""
    return Box(box.x + _BEHIND, box.y + _BEHIND, box.width, box.height)


def label_box(curve: Curve, text: str) -> Box:
    """Return the bounding box of the local factor on an edge."""
    (x, y), width = curve.label, text_width(text) + _ASIDE
    return Box(x - width / 2, y - LABEL_HEIGHT / 2, width, LABEL_HEIGHT)


def unlike_card(box: Box) -> Point:
    """Return the position of the symbol ≠ for a card: the card's upper left corner."""
    return box.x + 4, box.y + 4


def unlike_label(box: Box) -> Point:
    """Return the position of the symbol ≠ for a local factor: above the factor."""
    return box.x + box.width / 2, box.y - UNLIKE + 1


def gauge_ends(box: Box, card: Card) -> tuple[float, float]:
    """Return where a full-length gradient bar begins and ends between the rounded corners."""
    clear = 0.62 * radius(box, card) if card.kind == "input" else 8
    return box.x + clear, box.x + box.width - clear


def map_corners(box: Box, card: Card) -> list[tuple[Map, float, float]]:
    """Return the heat maps of a card, each with its upper left corner."""
    widths = [m.columns * cell_size(m.columns) for m in card.maps]
    x = box.x + (box.width - sum(widths) - MAP_GAP * (len(widths) - 1)) / 2
    starts = accumulate([x, *(width + MAP_GAP for width in widths)])
    return [(m, start, box.y + MAP_TOP) for m, start in zip(card.maps, starts, strict=False)]
