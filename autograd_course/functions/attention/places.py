"""Which tiles there are, and in which order: by rows in forward, by columns in backward."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class At(NamedTuple):
    """Where a tile lies: its number, the heads of keys, the member of their group, both slices."""

    row: int
    column: int
    heads: slice
    member: int
    queries: slice
    keys: slice

    @property
    def heads_of_query(self) -> tuple[slice, int]:
        """The index of what has an entry for each head of queries."""
        return self.heads, self.member

    @property
    def of_query(self) -> tuple[slice, int, slice]:
        """The index of what has an entry for each query."""
        return self.heads, self.member, self.queries

    @property
    def of_key(self) -> tuple[slice, slice]:
        """The index of what has an entry for each key."""
        return self.heads, self.keys


@dataclass(frozen=True)
class Places:
    """The tiles of ``heads`` score matrices, each of ``members`` times ``n`` queries by ``m`` keys.

    Queries of a group share their keys: they are more rows over the same columns. ``together``
    heads are worked on at once. With ``causal``, tiles of which no query may see a key are left
    out.
    """

    heads: int
    members: int
    n: int
    m: int
    block: tuple[int, int]
    together: int
    causal: bool

    def by_rows(self) -> Iterator[list[At]]:
        """Return the tiles of each row of tiles; a row that sees no key is left out."""
        for heads in _cut(self.heads, self.together):
            for row in range(self.members * self._height):
                tiles = (self._at(heads, row, column) for column in range(self._width))
                if seen := [at for at in tiles if self._seen(at)]:
                    yield seen

    def by_columns(self) -> Iterator[list[At]]:
        """Return the tiles of each column of tiles; a column that no query sees is left out."""
        for heads in _cut(self.heads, self.together):
            for column in range(self._width):
                rows = range(self.members * self._height)
                tiles = (self._at(heads, row, column) for row in rows)
                if seen := [at for at in tiles if self._seen(at)]:
                    yield seen

    @property
    def _height(self) -> int:
        return -(-self.n // self.block[0])

    @property
    def _width(self) -> int:
        return -(-self.m // self.block[1])

    def _at(self, heads: slice, row: int, column: int) -> At:
        member, part = divmod(row, self._height)
        queries, keys = _part(part, self.block[0], self.n), _part(column, self.block[1], self.m)
        return At(row, column, heads, member, queries, keys)

    def _seen(self, at: At) -> bool:
        return not self.causal or at.keys.start < at.queries.stop


def _cut(size: int, step: int) -> list[slice]:
    return [_part(number, step, size) for number in range(-(-size // step))]


def _part(number: int, step: int, size: int) -> slice:
    return slice(number * step, min((number + 1) * step, size))
