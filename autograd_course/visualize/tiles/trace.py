"""A tiled attention as it really ran, as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Matrix = tuple[tuple[float, ...], ...]
Place = tuple[int, int]
Phase = Literal["forward", "backward"]
_SQUARE = ("scores", "weights", "grad_scores")


@dataclass(frozen=True)
class Held:
    """A tensor that was alive at the end of a tile's turn: its values, and its size in bytes."""

    values: Matrix
    bytes: int

    @property
    def size(self) -> str:
        """Its shape in words, such as ``2×4``."""
        return f"{len(self.values)}×{len(self.values[0])}"

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return sum(map(len, self.values))


@dataclass(frozen=True)
class Visit:
    """One tile's turn. ``held`` has the names of :class:`attention_tiles.Tile`'s ``live``."""

    row: int
    column: int
    held: dict[str, Held]

    def of(self, name: str) -> Matrix:
        """Return the values of what was alive under a name."""
        return self.held[name].values

    def column_of(self, name: str) -> tuple[float, ...]:
        """Return one number a row: ``max``, ``sum``, ``rescale``, ``lse`` or ``delta``."""
        return tuple(row[0] for row in self.of(name))

    @property
    def bytes(self) -> int:
        """All that was alive, in bytes."""
        return sum(held.bytes for held in self.held.values())

    @property
    def square(self) -> int:
        """The bytes of what has an element for each pair of the tile's queries and keys."""
        return sum(self.held[name].bytes for name in _SQUARE if name in self.held)


@dataclass(frozen=True)
class TileTrace:
    """One forward and one backward pass of ``TiledAttention``, tile by tile, in their order.

    ``visible`` tells for each query which keys take part. ``delta`` is ``rowsum(∂O∘O)``.
    ``whole`` has the turns of ``forward`` and ``backward`` when the whole matrix is one tile.
    ``agrees`` tells whether output and gradients are full attention's but for rounding. The loss
    is the sum of the output.
    """

    queries: int
    keys: int
    features: int
    block: Place
    causal: bool
    itemsize: int
    visible: tuple[tuple[bool, ...], ...]
    tensors: dict[str, Matrix]
    lse: tuple[float, ...]
    delta: tuple[float, ...]
    forward: tuple[Visit, ...]
    backward: tuple[Visit, ...]
    whole: dict[Phase, Visit]
    agrees: bool

    @cached_property
    def rows(self) -> tuple[range, ...]:
        """The queries of each row of tiles."""
        return _blocks(self.queries, self.block[0])

    @cached_property
    def columns(self) -> tuple[range, ...]:
        """The keys of each column of tiles."""
        return _blocks(self.keys, self.block[1])

    @cached_property
    def skipped(self) -> tuple[Place, ...]:
        """The tiles that were never visited."""
        seen = {(visit.row, visit.column) for visit in self.forward}
        every = ((i, j) for i in range(len(self.rows)) for j in range(len(self.columns)))
        return tuple(place for place in every if place not in seen)

    @cached_property
    def delta_by_weights(self) -> tuple[float, ...]:
        """``rowsum(P∘∂P)``, summed over the tiles of backward; it should be ``delta``."""
        sums = [0.0] * self.queries
        for visit in self.backward:
            pairs = zip(
                self.rows[visit.row], visit.of("weights"), visit.of("grad_out"), strict=True
            )
            for query, weights, grad in pairs:
                sums[query] += sum(
                    p * dot(grad, v) for p, v in zip(weights, visit.of("v"), strict=True)
                )
        return tuple(sums)

    @cached_property
    def longest_sum(self) -> float:
        """The largest running sum, the full length of a row's bar."""
        return max(total for visit in self.forward for total in visit.column_of("sum")) or 1.0

    @cached_property
    def largest(self) -> int:
        """The elements of the largest tensor that was alive in a turn."""
        visits = (*self.forward, *self.backward)
        return max(held.elements for visit in visits for held in visit.held.values())


def dot(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the inner product."""
    return sum(x * y for x, y in zip(one, other, strict=True))


def _blocks(size: int, step: int) -> tuple[range, ...]:
    return tuple(range(start, min(start + step, size)) for start in range(0, size, step))
