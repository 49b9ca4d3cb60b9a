"""``leaderboard``: compare the cost of attention implementations on this machine over time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from autograd_doctor.memory import peak_bytes
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import scaled_dot_product_attention

from autograd_course.calls import as_tuple
from autograd_course.learner.state import Measurement, State
from autograd_course.learner.store import update

BUILT_IN = "PyTorch's own"
_CELL = "text-align: right; padding: 1px 16px 1px 0; background: none"
HEADINGS = ("", "time", "peak memory", "best time so far", "runs")


@dataclass(frozen=True)
class Row:
    """One entrant's measurements: the current run (``None`` if it raised), and all runs so far."""

    name: str
    now: Measurement | None
    history: tuple[Measurement, ...]
    why: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells of this row as text."""
        if self.now is None:
            return self.name, self.why, "", "", ""
        best = min(run.milliseconds for run in self.history)
        peak = self.now.peak_bytes / 2**20
        times = f"{self.now.milliseconds:.1f} ms", f"{peak:.1f} MiB", f"{best:.1f} ms"
        return self.name, *times, str(len(self.history))


@dataclass(frozen=True, repr=False)
class Leaderboard:
    """Rows sorted by peak memory, printed as text or shown as an HTML table in a notebook."""

    title: str
    rows: tuple[Row, ...]
    note: str = ""

    def __repr__(self) -> str:
        cells = [HEADINGS, *(row.cells for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
            for line in cells
        ]
        return "\n".join(filter(None, [self.title, *lines, self.note]))

    def _repr_html_(self) -> str:
        lines = "".join(
            "<tr>" + "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in line) + "</tr>"
            for line in (HEADINGS, *(row.cells for row in self.rows))
        )
        return (
            f"<div>{escape(self.title)}</div>"
            f'<table style="margin: 2px 0; border-collapse: collapse">{lines}</table>'
            f"<div>{escape(self.note)}</div>"
        )


def leaderboard(
    entrants: Mapping[str, Any], *, heads: int = 2, length: int = 1024, width: int = 32
) -> Leaderboard:
    """Measure forward and backward for each attention implementation, including PyTorch's own.

    The inputs are random ``q``, ``k`` and ``v`` of shape ``(1, heads, length, width)``, float32, on
    the GPU if there is one. The time is the best of three passes. The memory is the peak size of
    all tensors except the inputs. The function saves each run in the progress file, so that the
    table can also show your best time so far.

    Args:
        entrants: A dictionary that maps names to Functions, or to callables of ``q, k, v``. If an
            entrant returns several tensors, the first one counts. If it raises an error, its row
            shows the error.
        heads: The number of heads.
        length: The number of queries, which is also the number of keys.
        width: The number of elements in each query, key and value.

    Returns:
        A table, sorted by peak memory.

    Example:
        >>> leaderboard({}, length=8)  # doctest: +SKIP
        2 heads, 8 queries and keys, width 32, on cpu
                          time  peak memory  best time so far  runs
        PyTorch's own   0.1 ms      0.1 MiB            0.1 ms     1
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    setting = f"{heads}×{length}×{width} {device}"
    rng = torch.Generator().manual_seed(0)
    inputs = [torch.randn(1, heads, length, width, generator=rng).to(device) for _ in range(3)]
    found = {
        name: _measured(call, inputs)
        for name, call in {BUILT_IN: scaled_dot_product_attention, **entrants}.items()
    }
    kept = update(lambda state: _with(state, setting, found))
    rows = [_row(name, one, kept.state, setting) for name, one in found.items()]
    rows.sort(key=lambda row: row.now.peak_bytes if row.now else float("inf"))
    title = f"{heads} heads, {length:,} queries and keys, width {width}, on {device}"
    return Leaderboard(title, tuple(rows), kept.note)


def _with(state: State, setting: str, found: Mapping[str, Measurement | str]) -> State:
    for name, one in found.items():
        if isinstance(one, Measurement):
            state = state.measured(f"attention {setting}/{name}", one)
    return state


def _row(name: str, found: Measurement | str, state: State, setting: str) -> Row:
    if isinstance(found, str):
        return Row(name, None, (), found)
    return Row(name, found, state.measurements[f"attention {setting}/{name}"])


def _measured(entrant: Any, inputs: list[Tensor]) -> Measurement | str:
    """Measure forward and backward. Return their cost, or the reason if they fail."""
    is_function = isinstance(entrant, type) and issubclass(entrant, Function)
    call = entrant.apply if is_function else entrant
    try:
        peak = peak_bytes(lambda *qkv: as_tuple(call(*qkv))[0], *inputs)
        return Measurement(min(_timed(call, inputs) for _ in range(3)), peak)
    except NotImplementedError:
        return "not written yet"
    except Exception as error:
        return f"raises {type(error).__name__}"


def _timed(call: Callable[..., Any], inputs: list[Tensor]) -> float:
    start = time.perf_counter()
    _pass(call, inputs)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return round(1000 * (time.perf_counter() - start), 3)


def _pass(call: Callable[..., Any], inputs: list[Tensor]) -> None:
    leaves = [x.detach().requires_grad_() for x in inputs]
    out = as_tuple(call(*leaves))[0]
    torch.autograd.grad(out, leaves, torch.ones_like(out))
