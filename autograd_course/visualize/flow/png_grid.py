"""The cells of all heat maps of a PNG, as few artists: thousands of single ones would be slow."""

from matplotlib.collections import LineCollection, PolyCollection

from autograd_course.visualize.flow.heat import cell_size, cells, shade

_GROUND, _DASH = "#ffffff", "#22262b"
_COLORS = {"plus": "#d55e00", "minus": "#0072b2", "zero": "#ffffff", "broken": "#b3261e"}
_RIM = "#b9bfc7"


class Grid:
    """Collects cells, and gives them as artists: squares, dashes in the negative ones, and rims."""

    def __init__(self) -> None:
        self._squares: list[list[tuple[float, float]]] = []
        self._colors: list[str] = []
        self._dashes: list[list[tuple[float, float]]] = []
        self._rims: list[list[tuple[float, float]]] = []

    def add(self, code: str, columns: int, x: float, y: float) -> None:
        """Add one heat map with its upper left corner at (x, y)."""
        side = cell_size(columns)
        for left, top, letter in cells(code, columns, x, y):
            name, share = shade(letter)
            self._squares.append(_square(left, top, side, side))
            self._colors.append(_mixed(_COLORS[name], share))
            if name == "minus":
                middle = top + side / 2
                self._dashes.append([(left + side / 4, middle), (left + 3 * side / 4, middle)])
        self._rims.append(_square(x, y, columns * side, len(code) // columns * side))

    def artists(self) -> list[PolyCollection | LineCollection]:
        """Return what is to be drawn, in its order."""
        if not self._squares:
            return []
        return [
            PolyCollection(self._squares, facecolors=self._colors, edgecolors="none", zorder=3),
            LineCollection(self._dashes, colors=_DASH, linewidths=0.7, zorder=4),
            PolyCollection(
                self._rims, facecolors="none", edgecolors=_RIM, linewidths=0.6, zorder=4
            ),
        ]


def _square(x: float, y: float, width: float, height: float) -> list[tuple[float, float]]:
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def _mixed(color: str, share: float) -> str:
    """Mix a color with the ground, as the widget's opacity does."""
    pairs = ((int(c[i : i + 2], 16) for c in (color, _GROUND)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)
