"""Helpers for matplotlib pictures. They do not change pyplot's state."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from autograd_course.visualize.kit.png import reduced_png

INK, PAPER, SOFT, GRAY, FAINT = "#22262b", "#ffffff", "#5b636e", "#878f9a", "#d9dce1"
VALUE, GRADIENT = "#00609a", "#ad4300"  # the colors of forward and backward
SANS, MONO = ["DejaVu Sans"], ["DejaVu Sans Mono"]  # bundled with matplotlib, so always available


def plain_frame(axes: Axes, **grid: Any) -> None:
    """Draw a grid behind the data, and axis lines on the left and at the bottom."""
    axes.grid(**{"color": FAINT, "linewidth": 0.6, **grid})
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRAY)


def small_png(figure: Figure, keep: Sequence[tuple[int, ...]] = ()) -> bytes:
    """Return a figure as a PNG with few colors (see :func:`reduced_png`)."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = bytes(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    picture = Image.frombuffer("RGBA", canvas.get_width_height(), pixels).convert("RGB")
    return reduced_png(picture, figure.dpi, keep)
