"""What several visualizers put into words."""

import traceback
from collections.abc import Sequence
from pathlib import Path

import torch
from autograd_doctor.extension import describe_error

from autograd_course.folders import COURSE, OURS

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
# What is shown may be a reference Function: its lines are told like the caller's own.
_FUNCTIONS = COURSE / "functions"
_OURS_AND_TORCHS = (*OURS, Path(torch.__file__).parent)


def size(count: int, exact_below: int = 1024) -> str:
    """Write a number of bytes with at most four significant digits: ``192 KiB``."""
    if count < exact_below:
        return "1 byte" if count == 1 else f"{count} bytes"
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.4g} {_UNITS[unit]}"


def listed(items: Sequence[str]) -> str:
    """Join with commas and a final ``and``."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def raised(error: BaseException) -> str:
    """Say what was raised, and on which line of the caller's code."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if _theirs(frame.filename)
    ]
    place = f" at `{frames[-1].line}`" if frames and frames[-1].line else ""
    text = " ".join(describe_error(error).text.split()).rstrip(".")
    return f"{type(error).__name__}{place}" + (f": {text}" if text else "")


def _theirs(filename: str) -> bool:
    path = Path(filename)
    if path.is_relative_to(_FUNCTIONS):
        return True
    return not any(path.is_relative_to(place) for place in _OURS_AND_TORCHS)
