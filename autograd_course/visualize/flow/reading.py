"""What a trace remembers of a tensor: a summary, and what shows its size, sign and pattern."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from autograd_course.visualize.kit.formatting import Summary, number

Sign = Literal["+", "-", "±", "0", "!"]
_FEWEST, _MOST = 4, 64  # elements that are shown as a heat map
_ROWS, _COLUMNS = 8, 16


@dataclass(frozen=True)
class Heat:
    """A small tensor as a grid, row by row; leading dimensions are stacked."""

    columns: int
    cells: tuple[float, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.cells) // self.columns


@dataclass(frozen=True)
class Reading(Summary):
    """A summary with its ``heat`` map (up to 64 elements), ``std``, and share of ``zeros``.

    ``sign`` is ``+`` or ``-`` where no element has the other sign, ``±`` where both occur (or the
    numbers are complex), ``0`` where all are zero, and ``!`` where one is nan or infinite;
    ``broken`` counts these.
    """

    sign: Sign = "0"
    heat: Heat | None = None
    std: float | None = None
    zeros: float = 0.0
    broken: int = 0

    @classmethod
    def of(cls, tensor: Tensor) -> "Reading":
        """Read a tensor of any shape, dtype, layout and device; nothing of it is kept alive."""
        tensor = tensor if tensor.layout == torch.strided else tensor.detach().to_dense()
        seen = Summary.of(tensor)
        given = (seen.shape, seen.dtype, seen.values, seen.statistics)
        if tensor.is_complex() or not tensor.numel():
            return cls(*given, sign="±" if tensor.numel() else "0")
        if seen.statistics:
            return cls(*given, **_of_many(tensor.detach(), dict(seen.statistics)))
        flat = _flat(seen.values)
        broken = sum(not math.isfinite(value) for value in flat)
        sign = _sign(min(flat), max(flat), broken)
        return cls(*given, sign=sign, heat=_heat(seen, flat), broken=broken)

    @property
    def text(self) -> str:
        """All that is known, in one line of text."""
        if not self.statistics or self.std is None:
            return super().text
        figures = dict(self.statistics)
        largest = max(abs(figures["min"]), abs(figures["max"]))
        shown = {"mean": figures["mean"], "std": self.std, "|max|": largest, "norm": self.norm}
        told = [f"{name} {number(value, 3)}" for name, value in shown.items()]
        told += [f"{number(100 * self.zeros, 3)} % zeros"] if self.zeros else []
        return f"[{self.size}] {', '.join(told)}"


def _flat(values: Any) -> list[float]:
    if not isinstance(values, list):
        return [values]
    return [leaf for value in values for leaf in _flat(value)]


def _of_many(tensor: Tensor, figures: dict[str, float]) -> dict[str, Any]:
    size = tensor.numel()
    broken = 0 if math.isfinite(figures["norm"]) else size - int(tensor.isfinite().sum())
    seen = Summary(tuple(tensor.shape), "")
    return {
        "sign": _sign(figures["min"], figures["max"], broken),
        "heat": _heat(seen, tensor.flatten().tolist()) if size <= _MOST else None,
        "std": tensor.double().std().item(),
        "zeros": 1 - int(torch.count_nonzero(tensor)) / size,
        "broken": broken,
    }


def _sign(low: float, high: float, broken: int) -> Sign:
    if broken:
        return "!"
    if low < 0 < high:
        return "±"
    return "-" if low < 0 else "+" if high > 0 else "0"


def _heat(seen: Summary, flat: list[float]) -> Heat | None:
    if not _FEWEST <= len(flat) <= _MOST or seen.few:
        return None
    columns = seen.shape[-1]
    if not (1 < columns <= _COLUMNS and len(flat) <= _ROWS * columns):
        return None
    return Heat(columns, tuple(float(value) for value in flat))
