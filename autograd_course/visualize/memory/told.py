"""What the caller's code has raised, in words."""

import traceback
from pathlib import Path

import torch

_NOT_THEIRS = {Path(__file__).parent, Path(torch.__file__).parent}


def told(error: Exception) -> str:
    """Say what was raised, and on which line of the caller's code."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not _NOT_THEIRS & set(Path(frame.filename).parents)
    ]
    place = f" at `{frames[-1].line}`" if frames and frames[-1].line else ""
    text = str(error).strip().rstrip(".")
    return f"{type(error).__name__}{place}" + (f": {text}" if text else "")
