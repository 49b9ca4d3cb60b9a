"""Whether a lesson says how long it takes, and whether that is short enough."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from nbformat import NotebookNode

from tools.lessons import MINUTES
from tools.minutes import MARK, Minutes, modeled

LONGEST = 35
STEP = 5
# How much less or more than the model a lesson may state: always two multiples of STEP, so that no
# small edit makes both of them false.
LESS, MORE = 3, 7

_IN_DEPTH = re.compile(r"\*in depth\*,\s+another\s+(?P<minutes>\d+)")


def stated(notebook: NotebookNode) -> Minutes:
    """Return what a lesson says of itself: of a range the larger number, 0 for what it leaves out.

    It says "35 minutes" and, where sections are in depth, "*in depth*, another 20".
    """
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    main, in_depth = MINUTES.search(prose), _IN_DEPTH.search(prose)
    return Minutes(
        main=float(re.split(r"\D+", main["minutes"])[-1]) if main else 0.0,
        in_depth=float(in_depth["minutes"]) if in_depth else 0.0,
    )


def untrue(notebook: NotebookNode) -> Iterator[str]:
    """Yield what is untrue of the minutes of an executed lesson, each with its repair."""
    model, says = modeled(notebook), stated(notebook)
    yield from _main(says.main, model.main)
    yield from _in_depth(says.in_depth, model.in_depth)


def _main(says: float, model: float) -> Iterator[str]:
    if model > LONGEST:
        yield (
            f"reads in {model:.1f} minutes, more than {LONGEST}: shorten it, or begin a section "
            f"that can wait with '{MARK}: …*'"
        )
    elif says > LONGEST or not _agree(says, model):
        yield (
            f"states {says:.0f} minutes and reads in {model:.1f}: "
            f"let it say '{_rounded(model)} minutes'"
        )


def _in_depth(says: float, model: float) -> Iterator[str]:
    if model == 0 and says > 0:
        yield (
            f"states {says:.0f} minutes in depth and has no such section: "
            f"leave the number out, or begin a section with '{MARK}: …*'"
        )
    elif model > 0 and not _agree(says, model):
        yield (
            f"states {says:.0f} minutes in depth and has {model:.1f}: "
            f"let it say '*in depth*, another {_rounded(model)}'"
        )


def _agree(says: float, model: float) -> bool:
    return says > 0 and says % STEP == 0 and model - LESS <= says <= model + MORE


def _rounded(minutes: float) -> int:
    return math.ceil(minutes / STEP) * STEP
