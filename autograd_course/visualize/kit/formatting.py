"""Format tensors, numbers, sizes, lists and errors as short text."""

import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from autograd_doctor.extension import describe_error
from torch import Tensor

from autograd_course.folders import COURSE, OURS

SMALL = 9  # the maximum number of elements that are shown individually


@dataclass(frozen=True)
class Summary:
    """A summary of a tensor, for a trace.

    ``values`` contains the elements, nested as in ``tolist``, if there are at most nine. Otherwise
    ``statistics`` contains ``min``, ``mean``, ``max`` and the Euclidean ``norm``. For a complex
    tensor, it contains only the norm.
    """

    shape: tuple[int, ...]
    dtype: str
    values: Any = None
    statistics: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, tensor: Tensor) -> "Summary":
        """Summarize any tensor. The summary does not keep the tensor alive."""
        tensor = tensor.detach()
        shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        if tensor.numel() <= SMALL:
            return cls(shape, dtype, values=tensor.tolist())
        return cls(shape, dtype, statistics=_statistics(tensor))

    @property
    def size(self) -> str:
        """The shape as text: ``scalar``, ``3`` or ``2×3``."""
        return "×".join(map(str, self.shape)) or "scalar"

    @property
    def short(self) -> str:
        """Short text for a card: up to three values, or the shape of a larger tensor."""
        digits = 4 if self.shape == () else 3
        return elements(self.values, digits) if self.few else f"[{self.size}]"

    @property
    def few(self) -> bool:
        """Whether the tensor has at most three values, all in one row."""
        return self.shape == () or (len(self.shape) == 1 and 0 < self.shape[0] <= 3)

    @property
    def measure(self) -> str:
        """Short text for the magnitude: up to three values, or the norm of a larger tensor."""
        return self.short if self.few else f"norm {number(self.norm, 3)}"

    @property
    def norm(self) -> float:
        """The Euclidean norm."""
        if self.statistics:
            return dict(self.statistics)["norm"]
        return math.hypot(*(abs(value) for value in _flat(self.values)))

    @property
    def brief(self) -> str:
        """A phrase for a sentence: the elements if there are few, otherwise the shape and norm."""
        return f"[{self.size}] of norm {number(self.norm, 3)}" if self.statistics else self.text

    @property
    def text(self) -> str:
        """The whole summary on one line."""
        if not self.statistics:
            return elements(self.values, 4) if 0 not in self.shape else f"[{self.size}] (empty)"
        figures = (f"{name} {number(value, 3)}" for name, value in self.statistics)
        return f"[{self.size}] {', '.join(figures)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON-compatible data. Complex and non-finite numbers are text."""
        content = (
            {"statistics": {name: _plain(value) for name, value in self.statistics}}
            if self.statistics
            else {"values": _plain(self.values)}
        )
        return {"shape": list(self.shape), "dtype": self.dtype, **content}


def number(value: Any, digits: int = 4) -> str:
    """Format a number with at most ``digits`` significant digits, and zero without a sign."""
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, complex):
        sign = "-" if value.imag < 0 else "+"
        return f"{number(value.real, digits)}{sign}{number(abs(value.imag), digits)}i"
    text = f"{value:.{digits}g}"
    return "0" if text == "-0" else text


def elements(values: Any, digits: int) -> str:
    """Format nested values. Each number has at most ``digits`` significant digits."""
    if isinstance(values, list):
        return f"[{', '.join(elements(value, digits) for value in values)}]"
    return number(values, digits)


def _statistics(tensor: Tensor) -> tuple[tuple[str, float], ...]:
    if tensor.is_complex():
        return (("norm", torch.linalg.vector_norm(tensor.to(torch.complex128)).item()),)
    tensor = tensor.double()
    low, mean, high = tensor.min().item(), tensor.mean().item(), tensor.max().item()
    # A mean that consists only of rounding noise differs between machines.
    noise = 1e-6 * max(abs(low), abs(high))
    norm = torch.linalg.vector_norm(tensor).item()
    mean = 0.0 if math.isfinite(mean) and abs(mean) <= noise else mean
    return (("min", low), ("mean", mean), ("max", high), ("norm", norm))


def _flat(values: Any) -> list[Any]:
    if not isinstance(values, list):
        return [values]
    return [leaf for value in values for leaf in _flat(value)]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    finite = isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
    return value if finite else number(value)


_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
# The traced function can be a reference Function, whose lines count as the caller's code.
_FUNCTIONS = COURSE / "functions"
_OURS_AND_TORCHS = (*OURS, Path(torch.__file__).parent)


def size(count: int, exact_below: int = 1024) -> str:
    """Format a number of bytes with at most four significant digits: ``192 KiB``."""
    if count < exact_below:
        return "1 byte" if count == 1 else f"{count} bytes"
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.4g} {_UNITS[unit]}"


def listed(items: Sequence[str]) -> str:
    """Join strings with commas and a final ``and``."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def raised(error: BaseException) -> str:
    """Describe an exception: its name, its message, and the line of the caller's code."""
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
