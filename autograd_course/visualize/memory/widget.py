"""The live timeline: step through the events, select a variant, and move the budget."""

from collections.abc import Callable, Mapping
from typing import Any

import traitlets

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.inputs import title
from autograd_course.visualize.kit.live import BUNDLES, FROM_PAGE, Live
from autograd_course.visualize.memory.describe import describe
from autograd_course.visualize.memory.figure import draw
from autograd_course.visualize.memory.trace import MemoryTrace, trace_memory
from autograd_course.visualize.memory.view import budgets, build_view, folded

_MOST = 8  # the maximum number of variants


class MemoryTimeline(Live):
    """Memory traces of one or more variants. :func:`memory_timeline` creates this widget.

    ``traces`` contains the complete trace of each variant. ``variant`` is the name of the selected
    variant, ``step`` is the index of the current event, and ``budget`` is a number of bytes. You
    can set all three.
    """

    _esm = BUNDLES / "memory.js"
    _css = BUNDLES / "memory.css"

    story = traitlets.Dict().tag(sync=True)
    budgets: Any = traitlets.Dict(allow_none=True).tag(sync=True)
    variant = traitlets.Unicode().tag(**FROM_PAGE)
    step = traitlets.Int(0, min=0).tag(**FROM_PAGE)
    budget = traitlets.Int(allow_none=True, default_value=None).tag(**FROM_PAGE)

    def __init__(self, traces: Mapping[str, MemoryTrace], budget: int | None = None) -> None:
        self.traces = dict(traces)
        self._shown = {name: folded(trace) for name, trace in traces.items()}
        first = next(iter(self.traces))
        super().__init__(
            story=build_view(self._shown, budget),
            budgets=budgets(self._shown, budget),
            variant=first,
            step=self._shown[first].peak_event,
            budget=budget,
        )
        self.observe(self._follow, "budget")

    @traitlets.validate("variant")
    def _known(self, proposal: Any) -> str:
        name = proposal["value"]
        if name not in self._shown:
            raise TraceError(
                f"There is no variant {name!r}; choose one of: {', '.join(self._shown)}."
            )
        return str(name)

    @traitlets.validate("step")
    def _within_the_events(self, proposal: Any) -> int:
        most = max(len(trace.events) for trace in self._shown.values()) - 1
        return min(int(proposal["value"]), most)

    def _follow(self, change: Any) -> None:
        if self.budgets is None or change["new"] not in self.budgets["values"]:
            self.budgets = budgets(self._shown, change["new"])
            self.story = build_view(self._shown, change["new"])

    @property
    def png(self) -> bytes:
        """The picture of all variants, side by side."""
        return draw(self._shown, self.budget)

    def __repr__(self) -> str:
        items = self._shown.items()
        return "\n\n".join(describe(name, trace, self.budget) for name, trace in items)


def memory_timeline(
    variants: Callable[..., Any] | Mapping[str, Any], *inputs: Any, budget: int | None = None
) -> MemoryTimeline:
    """Show which tensors autograd saves for backward, which node saves them, and for how long.

    Each variant runs once, forward and backward, on copies of the inputs. Each storage counts once.
    Inputs and parameters count as 0 because they are already resident.

    Args:
        variants: A Function class, a module or a function, or a dict that maps up to eight names to
            variants. All variants should compute the same result from the same inputs. They are
            drawn on the same scale.
        inputs: The arguments of the call.
        budget: A number of bytes, drawn as a line. The widget shows which variants stay within it.

    Returns:
        A widget for display in a notebook.

    Raises:
        TraceError: A variant cannot be traced, or the budget is not a number of bytes.

    Example:
        >>> import torch
        >>> from autograd_course.visualize import memory_timeline
        >>> type(memory_timeline(torch.exp, torch.randn(8))).__name__
        'MemoryTimeline'
    """
    given = variants if isinstance(variants, Mapping) else {title(variants): variants}
    if not 0 < len(given) <= _MOST:
        raise TraceError(f"Pass between 1 and {_MOST} variants, not {len(given)}.")
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int)):
        raise TraceError(
            "budget must be a number of bytes, such as 64 * 1024, "
            f"not of type {type(budget).__name__}."
        )
    if budget is not None and budget < 0:
        raise TraceError(f"budget must be a number of bytes, 0 or more, not {budget}.")
    traces = {str(name): trace_memory(fn, *inputs) for name, fn in given.items()}
    return MemoryTimeline(traces, budget)
