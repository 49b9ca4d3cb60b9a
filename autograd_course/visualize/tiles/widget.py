"""The live picture of tiled attention, with controls to step, play, drag and select a run."""

from typing import Any

import traitlets
from torch import Tensor

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.live import BUNDLES, FROM_PAGE, Live
from autograd_course.visualize.tiles.describe import describe
from autograd_course.visualize.tiles.figure import draw
from autograd_course.visualize.tiles.trace import (
    Inputs,
    TileTrace,
    checked_block,
    checked_inputs,
    choices,
    trace_attention_tiles,
)
from autograd_course.visualize.tiles.view import at, build_view, most_telling


class AttentionTiles(Live):
    """Tiled attention, step by step. :func:`attention_tiles` creates this widget.

    ``step`` is the current step, from 0 to ``steps``. The widget opens at a step at which a running
    maximum rises. ``block`` (such as ``"2×2"``) and ``causal`` select the run. You can set all
    three. ``trace`` is the selected run.
    """

    _esm = BUNDLES / "tiles.js"
    _css = BUNDLES / "tiles.css"

    stories = traitlets.Dict().tag(sync=True)
    block = traitlets.Unicode().tag(**FROM_PAGE)
    causal = traitlets.Bool().tag(**FROM_PAGE)
    step = traitlets.Int(0, min=0).tag(**FROM_PAGE)

    def __init__(self, traces: dict[str, TileTrace], block: str, causal: bool) -> None:
        self._traces = traces
        views = {name: build_view(trace) for name, trace in traces.items()}
        told = {n: {"block": _size(traces[n]), "story": views[n]} for n in traces}
        name = _name(block, causal)
        step = most_telling(traces[name], views[name])
        super().__init__(stories=told, block=block, causal=causal, step=step)
        self.observe(self._stay_inside, ["block", "causal"])

    @property
    def trace(self) -> TileTrace:
        """The selected run."""
        return self._traces[_name(self.block, self.causal)]

    @property
    def steps(self) -> int:
        """The number of the last step, at which all gradients are complete."""
        return len(self._view["frames"]) - 1

    @property
    def _view(self) -> dict[str, Any]:
        told: dict[str, Any] = self.stories[_name(self.block, self.causal)]["story"]
        return told

    @traitlets.validate("block")
    def _one_of_the_sizes(self, proposal: Any) -> str:
        known = dict.fromkeys(told["block"] for told in self.stories.values())
        if proposal["value"] not in known:
            raise TraceError(
                f"There is no run with tiles of {proposal['value']}; choose {', '.join(known)}."
            )
        return str(proposal["value"])

    @traitlets.validate("step")
    def _within_the_story(self, proposal: Any) -> int:
        return min(int(proposal["value"]), self.steps)

    def _stay_inside(self, _: Any) -> None:
        self.step = min(self.step, self.steps)

    @property
    def png(self) -> bytes:
        """The static picture."""
        return draw(self._view, self.step)

    def __repr__(self) -> str:
        return describe(self._view, at(self._view, self.step), self.step)


def attention_tiles(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    block: tuple[int, int] = (2, 2),
    causal: bool = False,
    mask: Tensor | None = None,
) -> AttentionTiles:
    """Show how tiled attention processes the score matrix, and how much memory each tile needs.

    The widget runs ``TiledAttention`` forward and backward on copies of the tensors, for ``block``
    and for other blocks that you can select, with and without ``causal``. The loss is the sum of
    the output.

    Args:
        q: The queries of one head, with shape ``(N, E)`` and N up to 64.
        k: The keys, with shape ``(M, E)`` and M up to 64.
        v: The values, with shape ``(M, F)``.
        block: The number of queries and the number of keys in a tile.
        causal: Whether a query attends only to keys up to its own position.
        mask: A boolean tensor with shape ``(N, M)`` that is False for masked pairs.

    Returns:
        A widget for display in a notebook.

    Raises:
        TraceError: The shapes do not match or are too large to show.

    Example:
        >>> import torch
        >>> from autograd_course.visualize import attention_tiles
        >>> type(attention_tiles(*torch.randn(3, 6, 4))).__name__
        'AttentionTiles'
    """
    if not isinstance(causal, bool):
        raise TraceError(f"causal must be True or False, not of type {type(causal).__name__}.")
    inputs = checked_inputs(q, k, v, mask)
    size = checked_block(block, inputs.size)
    traces = _runs(inputs, size)
    return AttentionTiles(traces, _size(traces[_name(f"{size[0]}×{size[1]}", False)]), causal)


def _runs(inputs: Inputs, block: tuple[int, int]) -> dict[str, TileTrace]:
    runs = {}
    for one in choices(block, inputs.size):
        for causal in (False, True):
            trace = trace_attention_tiles(inputs, one, causal)
            runs[_name(_size(trace), causal)] = trace
    return runs


def _size(trace: TileTrace) -> str:
    return f"{trace.block[0]}×{trace.block[1]}"


def _name(block: str, causal: bool) -> str:
    return f"{block} causal" if causal else block
