"""Check the arguments of tiled attention, run it, and record the data of each tile."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from autograd_doctor.extension import preserve_global_state
from torch import Tensor

from autograd_course.functions.attention import ScaledDotProductAttention, Tile, TiledAttention
from autograd_course.visualize.kit.errors import TraceError

Matrix = tuple[tuple[float, ...], ...]
Place = tuple[int, int]
Phase = Literal["forward", "backward"]
_SQUARE = ("scores", "weights", "grad_scores")


@dataclass(frozen=True)
class Held:
    """A tensor that was in memory at the end of a tile: its values, and its size in bytes."""

    values: Matrix
    bytes: int

    @property
    def size(self) -> str:
        """The tensor's shape as text, such as ``2×4``."""
        return f"{len(self.values)}×{len(self.values[0])}"

    @property
    def elements(self) -> int:
        """The number of elements."""
        return sum(map(len, self.values))


@dataclass(frozen=True)
class Visit:
    """A visit to one tile. ``held`` has the same names as ``live`` in a :class:`Tile`."""

    row: int
    column: int
    held: dict[str, Held]

    def of(self, name: str) -> Matrix:
        """Return the values of the tensor with this name."""
        return self.held[name].values

    def column_of(self, name: str) -> tuple[float, ...]:
        """Return the elements of a tensor with one number per row: ``max``, ``sum`` or ``lse``."""
        return tuple(row[0] for row in self.of(name))

    @property
    def bytes(self) -> int:
        """The size of all tensors in memory, in bytes."""
        return sum(held.bytes for held in self.held.values())

    @property
    def square(self) -> int:
        """The number of bytes in tensors that have one element for each query-key pair."""
        return sum(self.held[name].bytes for name in _SQUARE if name in self.held)


@dataclass(frozen=True)
class TileTrace:
    """One forward and one backward pass of ``TiledAttention``, with the tiles in their order.

    ``visible`` marks the keys that are not masked for each query. ``delta`` is ``rowsum(∂O∘O)``.
    ``whole`` contains the visits of a second run, in which the whole matrix is one tile. ``agrees``
    is true if the output and the gradients agree with full attention, up to rounding. The loss is
    the sum of the output.
    """

    queries: int
    keys: int
    features: int
    block: Place
    causal: bool
    itemsize: int
    visible: tuple[tuple[bool, ...], ...]
    tensors: dict[str, Matrix]
    lse: tuple[float, ...]
    delta: tuple[float, ...]
    forward: tuple[Visit, ...]
    backward: tuple[Visit, ...]
    whole: dict[Phase, Visit]
    agrees: bool

    @cached_property
    def rows(self) -> tuple[range, ...]:
        """The range of queries in each row of tiles."""
        return _blocks(self.queries, self.block[0])

    @cached_property
    def columns(self) -> tuple[range, ...]:
        """The range of keys in each column of tiles."""
        return _blocks(self.keys, self.block[1])

    @cached_property
    def skipped(self) -> tuple[Place, ...]:
        """The tiles that the run skipped because all their pairs are masked."""
        seen = {(visit.row, visit.column) for visit in self.forward}
        every = ((i, j) for i in range(len(self.rows)) for j in range(len(self.columns)))
        return tuple(place for place in every if place not in seen)

    @cached_property
    def delta_by_weights(self) -> tuple[float, ...]:
        """``rowsum(P∘∂P)``, summed over the tiles of backward. It should equal ``delta``."""
        sums = [0.0] * self.queries
        for visit in self.backward:
            pairs = zip(
                self.rows[visit.row], visit.of("weights"), visit.of("grad_out"), strict=True
            )
            for query, weights, grad in pairs:
                sums[query] += sum(
                    p * dot(grad, v) for p, v in zip(weights, visit.of("v"), strict=True)
                )
        return tuple(sums)

    @cached_property
    def longest_sum(self) -> float:
        """The largest running sum, at which the bar of a row has its full length."""
        return max(total for visit in self.forward for total in visit.column_of("sum")) or 1.0

    @cached_property
    def largest(self) -> int:
        """The number of elements in the largest tensor of any tile."""
        visits = (*self.forward, *self.backward)
        return max(held.elements for visit in visits for held in visit.held.values())


def dot(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the inner product of two vectors."""
    return sum(x * y for x, y in zip(one, other, strict=True))


def _blocks(size: int, step: int) -> tuple[range, ...]:
    return tuple(range(start, min(start + step, size)) for start in range(0, size, step))


# --------------------------------------------------------------------------------------------------
# The run.
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """The queries, keys and values of one head, and their mask."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None

    @property
    def size(self) -> Place:
        """The number of queries and the number of keys."""
        return self.q.shape[0], self.k.shape[0]

    def leaves(self) -> list[Tensor]:
        """Return copies of the queries, keys and values. The copies require grad."""
        return [x.detach().clone().requires_grad_() for x in (self.q, self.k, self.v)]


def trace_attention_tiles(inputs: Inputs, block: Place, causal: bool) -> TileTrace:
    """Run ``TiledAttention`` and full attention forward and backward on copies of the inputs."""
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
    """Return the visits in forward and backward, both outputs, and the three gradients."""
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
    live = {name: x[0] for name, x in tile.live.items()}  # there is only one head
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


# --------------------------------------------------------------------------------------------------
# Checks of the arguments, with messages for unsupported ones.
# --------------------------------------------------------------------------------------------------

MOST_TILES, LONGEST = 16, 64  # the maximum number of tiles per side, and of queries or keys


def checked_inputs(q: Any, k: Any, v: Any, mask: Any) -> Inputs:
    """Check the tensors of one head. Raise ``TraceError`` if they cannot be shown."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        _one_head(name, x)
    if len({x.dtype for x in (q, k, v)}) > 1 or len({x.device for x in (q, k, v)}) > 1:
        raise TraceError(
            "q, k and v must have the same dtype and device; convert them with .to(q)."
        )
    if q.shape[1] != k.shape[1] or k.shape[0] != v.shape[0]:
        shapes = ", ".join(f"{n} {tuple(x.shape)}" for n, x in (("q", q), ("k", k), ("v", v)))
        raise TraceError(
            f"The shapes do not match ({shapes}); q (N, E) needs k (M, E) and v (M, F)."
        )
    if max(q.shape[0], k.shape[0]) > LONGEST:
        raise TraceError(
            f"{q.shape[0]} queries and {k.shape[0]} keys are too many to show; "
            f"pass at most {LONGEST} of each, such as q[:{LONGEST}]."
        )
    return Inputs(q, k, v, _checked_mask(mask, q, k))


def _one_head(name: str, x: Any) -> None:
    if not isinstance(x, Tensor):
        raise TraceError(
            f"{name} is of type {type(x).__name__}; pass a tensor of shape (tokens, features)."
        )
    if not x.is_nested and x.dim() != 2:
        raise TraceError(
            f"{name} has {x.dim()} dims, but one head has 2, (tokens, features); "
            "pass one head, such as q[0, 0]."
        )
    if not x.is_floating_point():
        raise TraceError(
            f"{name} is {str(x.dtype)[6:]}; attention needs real floats: {name}.float()."
        )
    if x.layout != torch.strided or x.is_nested or x.is_meta:
        raise TraceError(f"{name} must be a dense tensor with values; convert it to one.")
    if not x.numel() or not x.isfinite().all():
        lack = "elements" if not x.numel() else "finite elements only"
        raise TraceError(f"{name} needs {lack}; check how it was made.")


def _checked_mask(mask: Any, q: Tensor, k: Tensor) -> Tensor | None:
    if mask is None:
        return None
    size = (q.shape[0], k.shape[0])
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TraceError(
            "mask must be a boolean tensor that is False for masked pairs, such as scores > 0."
        )
    try:
        return mask.to(q.device).expand(size)
    except RuntimeError as error:
        raise TraceError(f"mask has shape {tuple(mask.shape)}; it needs {size}.") from error


def checked_block(block: Any, size: Place) -> Place:
    """Return the block as a pair, clipped to the size of the score matrix."""
    pair = tuple(block) if isinstance(block, tuple | list) else (block,)
    if len(pair) != 2 or not all(type(side) is int and side > 0 for side in pair):
        raise TraceError(f"block is {block!r}; pass (queries, keys) of a tile, such as (2, 2).")
    height, width = (min(side, most) for side, most in zip(pair, size, strict=True))
    if not legible((height, width), size):
        least = tuple(-(-most // MOST_TILES) for most in size)
        raise TraceError(
            f"With tiles of {height}×{width}, a side has more than {MOST_TILES} tiles; "
            f"use a block of {least} or larger, or fewer queries and keys."
        )
    return height, width


def legible(block: Place, size: Place) -> bool:
    """Return whether both sides of the matrix have few enough tiles for a readable picture."""
    return all(side * MOST_TILES >= most for side, most in zip(block, size, strict=True))


def choices(block: Place, size: Place, most: int = 36) -> list[Place]:
    """Return the possible blocks: powers of two, the given block, and the whole matrix."""
    sides = [2**power for power in range(7) if 2**power < max(size)]
    squares = [(min(side, size[0]), min(side, size[1])) for side in sides]
    few = [square for square in squares if _tiles(square, size) <= most and legible(square, size)]
    return sorted({*few, block, size})


def _tiles(block: Place, size: Place) -> int:
    return -(-size[0] // block[0]) * -(-size[1] // block[1])
