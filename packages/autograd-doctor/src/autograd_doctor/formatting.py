"""Write a number, an element, a position: for messages and for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def plain(value: Any) -> Any:
    """Return a 0-dim tensor as a JSON-compatible number; a complex one as text."""
    number = value.item() if isinstance(value, Tensor) else value
    return f"{number:.4g}" if isinstance(number, complex) else number


def element(name: str, index: Sequence[int]) -> str:
    """Write one element, as in ``x[0, 2]`` or ``output[1]``; of a 0-dim tensor the name alone."""
    name = name.replace("`", "")
    return f"{name.replace('the output', 'output')}{list(index)}" if index else name


def number(value: Any, digits: int = 4) -> str:
    """Return a number with a few significant digits."""
    return f"{value + 0.0:.{digits}g}" if isinstance(value, float) else str(value)  # + 0.0: no -0


def told_apart(one: Any, other: Any) -> tuple[str, str]:
    """Return two numbers that differ, with as many digits as it takes to see it."""
    for digits in (4, 6, 8, 10, 12):
        first, second = number(one, digits), number(other, digits)
        if first != second:
            break
    return first, second


def unraveled(position: int, shape: torch.Size) -> tuple[int, ...]:
    """Return the index of a flat position."""
    index: list[int] = []
    for length in reversed(shape):
        position, here = divmod(position, length)
        index.append(here)
    return tuple(reversed(index))
