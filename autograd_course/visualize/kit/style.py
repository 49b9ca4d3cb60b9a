"""The style of the course's figures, which makes them legible on light and dark pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

# Okabe and Ito's palette (2008), which readers with color vision deficiency can distinguish.
BLUE, ORANGE, GREEN, GRAY = "#0072B2", "#D55E00", "#007A5A", "#8A8F98"
INK, PAPER, FAINT = "#22262B", "#FFFFFF", "#D9DCE1"

# The background is opaque, because a transparent figure would show dark ink on a dark page.
_LOOK: Any = {
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "axes.edgecolor": GRAY,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "lines.linewidth": 2,
    "figure.dpi": 110,
}


@contextmanager
def figure(columns: int = 1, width: float = 8.0, height: float = 3.4) -> Iterator[list[Axes]]:
    """Yield side-by-side axes in the course's style, and show the figure at the end of the block.

    Args:
        columns: The number of axes.
        width: The width of the whole figure in inches.
        height: The height of the figure in inches.

    Returns:
        A context manager that yields the list of matplotlib axes.

    Example:
        >>> from autograd_course.lesson import BLUE, figure
        >>> with figure(columns=2) as axes:
        ...     _ = axes[0].plot([0, 1, 2], [0, 1, 4], color=BLUE)
        >>> len(axes)
        2
    """
    with plt.rc_context(_LOOK):
        drawing, axes = plt.subplots(
            1, columns, figsize=(width, height), squeeze=False, layout="constrained"
        )
        yield list(axes.flat)
        plt.show()
        plt.close(drawing)


def note(axes: Axes, text: str, at: tuple[float, float], color: str = INK, **options: Any) -> None:
    """Write text next to the data, on a light background that keeps it readable.

    Args:
        axes: The axes to write on.
        text: The text.
        at: The position, in data coordinates.
        color: The color of the text.
        options: Further options of ``Axes.annotate``, such as ``ha="right"``.

    Returns:
        None

    Example:
        >>> from autograd_course.lesson import figure, note
        >>> with figure() as (axes,):
        ...     _ = axes.plot([0, 1, 2], [0, 1, 4])
        ...     note(axes, "steeper", (1.5, 2.0))
    """
    halo = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5, "alpha": 0.85}
    axes.annotate(text, at, color=color, fontsize=9, bbox=halo, **options)
