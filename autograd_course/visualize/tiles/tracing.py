"""Running tiled attention and writing down each tile's turn."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from autograd_doctor.extension import preserve_global_state
from torch import Tensor

from autograd_course.functions.attention import ScaledDotProductAttention, Tile, TiledAttention
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.tiles.trace import Held, Matrix, Place, TileTrace, Visit


@dataclass(frozen=True)
class Inputs:
    """One head's queries, keys and values, and which of their pairs take part."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None

    @property
    def size(self) -> Place:
        """The numbers of queries and keys."""
        return self.q.shape[0], self.k.shape[0]

    def leaves(self) -> list[Tensor]:
        """Return copies of the three that ask for a gradient."""
        return [x.detach().clone().requires_grad_() for x in (self.q, self.k, self.v)]


def trace_attention_tiles(inputs: Inputs, block: Place, causal: bool) -> TileTrace:
    """Run ``TiledAttention`` forward and backward on copies, and full attention beside it."""
    with _at_work():
        forward, backward, found = _watched(inputs, block, causal)
        whole = _watched(inputs, inputs.size, causal)
        truth = _by_full_attention(inputs, causal)
        names = ("out", "lse", "grad_q", "grad_k", "grad_v")
        results = dict(zip(names, map(_matrix, found), strict=True))
        given = {"q": inputs.q, "k": inputs.k, "v": inputs.v, "grad_out": torch.ones_like(found[0])}
        return TileTrace(
            *inputs.size,
            features=inputs.q.shape[1],
            block=block,
            causal=causal,
            itemsize=inputs.q.element_size(),
            visible=_visible(inputs, causal),
            tensors={**results, **{name: _matrix(x) for name, x in given.items()}},
            lse=tuple(found[1].tolist()),
            delta=tuple(found[0].sum(-1).tolist()),
            forward=tuple(forward),
            backward=tuple(backward),
            whole={"forward": whole[0][0], "backward": whole[1][0]},
            agrees=all(map(_close, found, truth)),
        )


@contextmanager
def _at_work() -> Iterator[None]:
    with preserve_global_state(0):
        try:
            yield
        except (ValueError, RuntimeError) as error:
            raise TraceError(f"Attention cannot run on these tensors: {error}.") from error


def _watched(
    inputs: Inputs, block: Place, causal: bool
) -> tuple[list[Visit], list[Visit], tuple[Tensor, ...]]:
    """Return the turns of forward, those of backward, and the two outputs and three gradients."""
    visits: list[Visit] = []
    leaves = inputs.leaves()
    call: Any = TiledAttention.apply
    out, lse = call(
        *leaves, inputs.mask, causal, None, 0.0, 0, block, lambda t: visits.append(_visit(t))
    )
    turn = len(visits)
    gradients = torch.autograd.grad(out.sum(), leaves)
    return visits[:turn], visits[turn:], (out.detach(), lse.detach(), *gradients)


def _by_full_attention(inputs: Inputs, causal: bool) -> tuple[Tensor, ...]:
    leaves = inputs.leaves()
    call: Any = ScaledDotProductAttention.apply
    out, lse = call(*leaves, inputs.mask, causal)
    return out.detach(), lse.detach(), *torch.autograd.grad(out.sum(), leaves)


def _visit(tile: Tile) -> Visit:
    live = {name: x[0] for name, x in tile.live.items()}  # of the only head
    held = {name: Held(_matrix(x), x.numel() * x.element_size()) for name, x in live.items()}
    return Visit(tile.row, tile.column, held)


def _matrix(x: Tensor) -> Matrix:
    rows = x.detach().double()
    rows = rows[:, None] if rows.dim() == 1 else rows
    return tuple(map(tuple, rows.tolist()))


def _visible(inputs: Inputs, causal: bool) -> tuple[tuple[bool, ...], ...]:
    seen = torch.ones(inputs.size, dtype=torch.bool, device=inputs.q.device)
    seen = seen if inputs.mask is None else seen & inputs.mask
    return tuple(map(tuple, (seen.tril() if causal else seen).tolist()))


def _close(found: Tensor, truth: Tensor) -> bool:
    unit = 100 * torch.finfo(found.dtype).eps
    return torch.allclose(found, truth, rtol=unit, atol=unit)
