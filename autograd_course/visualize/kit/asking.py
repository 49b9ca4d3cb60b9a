"""What the visualizers check before anything runs; what they refuse is told in one sentence."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_course.visualize.kit.errors import TraceError


def require_values(given: Sequence[Any]) -> None:
    """Refuse inputs whose elements have no values to read."""
    _require(
        given,
        "Input",
        lambda x: x.is_meta,
        "is on the meta device, where tensors have no values; pass one on the CPU",
    )


def require_dense(given: Sequence[Any], what: str = "Input", repair: str = "pass") -> None:
    """Refuse inputs, or outputs, that are sparse."""
    sparse = f"is sparse, and every element is looked at here; {repair} it as .to_dense()"
    _require(given, what, lambda x: x.layout != torch.strided, sparse)


def _require(given: Sequence[Any], what: str, lacking: Callable[[Tensor], bool], told: str) -> None:
    for place, x in enumerate(given, 1):
        if isinstance(x, Tensor) and x.is_nested:
            raise TraceError(
                f"{what} {place} is a nested tensor, which has no one shape; use one of its parts."
            )
        if isinstance(x, Tensor) and lacking(x):
            raise TraceError(f"{what} {place} {told}.")


def number(what: str, given: Any, example: float) -> float:
    """Return one finite number, given as such or as a tensor of one element."""
    alone = given.detach() if isinstance(given, Tensor) else given
    try:
        value = math.nan if isinstance(given, str | bool) else float(alone)
    except (TypeError, ValueError, RuntimeError):
        value = math.nan
    if not math.isfinite(value):
        raise TraceError(f"{what} is one finite number, such as {what}={example}.")
    return value


def whole(what: str, given: Any, example: int) -> int:
    """Return a whole number that is not negative."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise TraceError(
            f"{what} is a whole number, 0 or more, such as {what}={example}, "
            f"not {type(given).__name__ if not isinstance(given, int) else given}."
        )
    return given


def span(name: str, given: Any) -> tuple[float, float]:
    """Return the range of an input: two finite numbers, the lower one first."""
    try:
        low, high = map(float, given) if isinstance(given, tuple | list) else (0.0, 0.0)
    except (TypeError, ValueError, RuntimeError):
        low = high = 0.0
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        told = given if isinstance(given, tuple | list | str | float | int) else type(given)
        raise TraceError(
            f"The range of {name!r} is {told!r}; pass two finite numbers, the lower one first."
        )
    return low, high
