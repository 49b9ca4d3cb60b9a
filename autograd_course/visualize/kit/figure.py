"""Helpers for saved pictures: colors, axes, and a small PNG. They do not change pyplot's state."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

INK, PAPER, SOFT, GRAY, FAINT = "#22262b", "#ffffff", "#5b636e", "#878f9a", "#d9dce1"
VALUE, GRADIENT = "#00609a", "#ad4300"  # the colors of forward and backward
SANS, MONO = ["DejaVu Sans"], ["DejaVu Sans Mono"]  # part of matplotlib, so fonts do not differ
_COLORS = 48
_EVERY = 5  # every fifth row is enough to choose the colors, because each color fills more rows


def plain_frame(axes: Axes, **grid: Any) -> None:
    """Draw a grid behind the data, and axis lines on the left and below."""
    axes.grid(**{"color": FAINT, "linewidth": 0.6, **grid})
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRAY)


def small_png(figure: Figure, keep: Sequence[tuple[int, ...]] = ()) -> bytes:
    """Render a figure with a small color palette. The same figure always gives the same bytes.

    ``keep`` contains colors (red, green, blue) that have a meaning. They stay exact even if they
    fill only a small part of the figure.
    """
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = bytes(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    picture = Image.frombuffer("RGBA", canvas.get_width_height(), pixels).convert("RGB")
    rows = picture.resize((picture.width, picture.height // _EVERY), Image.Resampling.NEAREST)
    palette = rows.quantize(_COLORS, dither=Image.Dither.NONE)
    if keep:
        found = list(palette.getpalette() or ())[: 3 * _COLORS]
        palette.putpalette([*found, *(part for color in keep for part in color)])
    output = BytesIO()
    reduced = _exact_ground(picture.quantize(palette=palette, dither=Image.Dither.NONE), picture)
    reduced.save(output, "PNG", dpi=(figure.dpi, figure.dpi))
    return output.getvalue()


def _exact_ground(reduced: Image.Image, picture: Image.Image) -> Image.Image:
    """Restore the exact color of the corner, because a slightly different white is visible."""
    colors: list[int] = list(reduced.getpalette() or ())
    index: Any = reduced.getpixel((0, 0))
    colors[3 * index : 3 * index + 3] = list(picture.getpixel((0, 0)))  # type: ignore[arg-type]
    reduced.putpalette(colors)
    return reduced
