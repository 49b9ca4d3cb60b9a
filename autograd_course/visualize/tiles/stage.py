"""Where everything lies on the stage, in the units of the page's drawing (stage.js, matrix.js)."""

from autograd_course.visualize.tiles.story import Story

Box = tuple[float, float, float, float]  # left, top, width, height
_STRIP, _GAP, _HEAD, _NUMBER, _FACTOR, _BAR, _SUM = 26, 4, 18, 40, 52, 68, 42
_WIDE, _WIDER, _TALL, _MOST, _FIGURED = 256, 330, 300, 32, 12
_STEP = _STRIP + _GAP
# The numbers in a row's columns, by their names; the third column is the factor's.
COLUMNS: tuple[tuple[str, ...], ...] = (("m",), ("ℓ", "D"), (), ("L",))


class Stage:
    """The places of a story's tiles, strips and rows."""

    def __init__(self, told: Story) -> None:
        self.told = told
        self.blocks = (told["rows"], told["columns"])
        self.n, self.m = (blocks[-1][1] for blocks in self.blocks)
        self.figured = self._fitting(_WIDE) >= _FIGURED
        self.cell = self._fitting(_WIDE if self.figured else _WIDER)
        self.left, self.top = 2 * _STRIP + _GAP + 9, 4 * _STEP + _HEAD
        self.right = self.left + self.m * self.cell + 4
        self.bar = self.right + (2 * _NUMBER + _FACTOR if self.figured else 8)
        self.end = self.bar + _BAR
        self.after = self.end + (_SUM if self.figured else 0) + 10
        self.width = self.after + 2 * _STRIP + _GAP + 2
        self.height = self.top + self.n * self.cell + 3
        right = (_NUMBER - 4, 2 * _NUMBER - 4, 2 * _NUMBER + _FACTOR - 11)
        self.ends = (*(self.right + at for at in right), self.end + _SUM - 6)

    def _fitting(self, wide: float) -> float:
        return float(min(wide / self.m, max(_TALL, wide) / self.n, _MOST))

    def block(self, name: str, start: int, stop: int) -> Box:
        """Return the box of a block of a strip."""
        long = (stop - start) * self.cell - 2
        side = {"grad_q": 1, "q": 1 + _STEP, "out": self.after, "grad_out": self.after + _STEP}
        if name in side:
            return side[name], self.top + start * self.cell + 1, _STRIP, long
        above = ("grad_v", "grad_k", "v", "k").index(name) * _STEP
        return self.left + start * self.cell + 1, above + 1, long, _STRIP

    def label(self, name: str) -> tuple[float, float, str]:
        """Return where a strip's label stands, and how it is aligned."""
        x, y, _, height = self.block(name, 0, 1)
        if name in ("q", "grad_q", "out", "grad_out"):
            return x + _STRIP / 2, self.top - 6, "center"
        return self.left - 6, y + height / 2 + 4, "right"

    def tile(self, row: int, column: int) -> Box:
        """Return the box of a tile."""
        (top, bottom), (left, right) = self.blocks[0][row], self.blocks[1][column]
        x, y = self.left + left * self.cell + 1, self.top + top * self.cell + 1
        return x, y, (right - left) * self.cell - 2, (bottom - top) * self.cell - 2

    def middle(self, row: int, column: int) -> tuple[float, float]:
        """Return the middle of a tile."""
        x, y, width, height = self.tile(row, column)
        return x + width / 2, y + height / 2

    def pair_middle(self, query: int, key: int) -> tuple[float, float]:
        """Return the middle of a pair's cell."""
        return self.left + (key + 0.5) * self.cell, self.top + (query + 0.5) * self.cell

    @property
    def hidden(self) -> list[tuple[int, int]]:
        """The pairs that take no part, in tiles that are not skipped."""
        skipped = [self._pairs(*place) for place in self.told["skipped"]]
        out = {pair for pairs in skipped for pair in pairs}
        rows = enumerate(self.told["hidden"])
        every = ((i, j) for i, row in rows for j, one in enumerate(row) if one == "1")
        return [pair for pair in every if pair not in out]

    def _pairs(self, row: int, column: int) -> list[tuple[int, int]]:
        queries, keys = range(*self.blocks[0][row]), range(*self.blocks[1][column])
        return [(i, j) for i in queries for j in keys]

    def number_at(self, tile: list[int], i: int, j: int) -> tuple[float, float]:
        """Return where the number of a pair in a tile stands."""
        x, y, *_ = self.tile(*tile)
        return x - 1 + (j + 0.5) * self.cell, y + 3 + (i + 0.5) * self.cell

    def bar_box(self, query: int, begin: float, part: int) -> Box:
        """Return the box of a part, in thousandths, of a row's bar."""
        height = min(15.0, 0.72 * self.cell)
        y = self.top + query * self.cell + (self.cell - height) / 2
        return begin, y, part * _BAR / 1000, height
