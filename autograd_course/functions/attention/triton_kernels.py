"""GPU kernels for tiled attention: forward by rows, and backward by columns and by rows.

Every kernel has one program for each block of queries (or keys) of each head. All tensors are
contiguous: ``q`` is ``(heads · members, N, E)``, ``k`` is ``(heads, M, E)``, and a tensor with one
number for each row is ``(heads · members, N)``. ``WIDE`` and ``DEEP`` are ``E`` and ``F`` rounded
up to powers of 2, because the sizes of Triton's tiles must be powers of 2. Elements beyond the end
of a tensor are loaded as 0. Sums are computed in float32. ``TiledAttention`` defines the symbols.
This module needs the ``triton`` package, which comes with PyTorch for CUDA.
"""

# mypy: ignore-errors
# (kernels are not ordinary Python: they add numbers to pointers, and triton may be missing)

import triton
import triton.language as tl

from autograd_course.functions.attention.dropout import FIRST as _FIRST
from autograd_course.functions.attention.dropout import SECOND as _SECOND

FIRST, SECOND = tl.constexpr(_FIRST), tl.constexpr(_SECOND)


@triton.jit
def tile_of(x, head, rows, n, features, SIZE: tl.constexpr):
    """Load some rows of a head. Fill rows beyond the end of the head with zeros."""
    columns = tl.arange(0, SIZE)
    inside = (rows < n)[:, None] & (columns < features)[None, :]
    place = (head.to(tl.int64) * n + rows[:, None]) * features + columns[None, :]
    return tl.load(x + place, mask=inside, other=0.0)


@triton.jit
def put_tile(x, value, head, rows, n, features, SIZE: tl.constexpr):
    """Write some rows of a head. Skip rows beyond the end of the head."""
    columns = tl.arange(0, SIZE)
    inside = (rows < n)[:, None] & (columns < features)[None, :]
    place = (head.to(tl.int64) * n + rows[:, None]) * features + columns[None, :]
    tl.store(x + place, value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def scores_of(q, k, rows, keys, n, m, scale, CAUSAL: tl.constexpr):
    """Return the scores ``scale · Q Kᵀ`` of a tile, with ``-∞`` at masked or nonexistent keys."""
    s = scale * tl.dot(q, tl.trans(k), input_precision="ieee")
    visible = (rows < n)[:, None] & (keys < m)[None, :]
    if CAUSAL:
        visible = visible & (keys[None, :] <= rows[:, None])
    return tl.where(visible, s, float("-inf"))


@triton.jit
def thinned(w, row_words, column_words, head, rows, keys, n, m, below, DROPOUT: tl.constexpr):
    """Apply dropout to the weights, using the same hash as ``dropped``."""
    if DROPOUT:
        row = tl.load(row_words + head.to(tl.int64) * n + rows, mask=rows < n, other=0)
        column = tl.load(column_words + keys, mask=keys < m, other=0)
        pairs = (row[:, None] ^ column[None, :]).to(tl.uint32, bitcast=True)
        pairs = pairs * FIRST
        pairs = (pairs ^ (pairs >> 15)) * SECOND
        w = tl.where(pairs.to(tl.int32, bitcast=True) < below, 0.0, w)
    return w


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, row_words, column_words,
    n, m, e, f, members, scale, below, kept,
    ROWS: tl.constexpr, KEYS: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr,
    CAUSAL: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Write ``O`` and ``L`` for a block of queries, using an online softmax."""
    block, head = tl.program_id(0), tl.program_id(1)
    rows = block * ROWS + tl.arange(0, ROWS)
    q = tile_of(q_ptr, head, rows, n, e, WIDE)
    high = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, DEEP], tl.float32)
    end = m
    if CAUSAL:
        end = tl.minimum(m, (block + 1) * ROWS)
    for start in range(0, end, KEYS):
        keys = start + tl.arange(0, KEYS)
        k = tile_of(k_ptr, head // members, keys, m, e, WIDE)
        v = tile_of(v_ptr, head // members, keys, m, f, DEEP)
        s = scores_of(q, k, rows, keys, n, m, scale, CAUSAL)
        risen = tl.maximum(high, tl.max(s, 1))
        shift = tl.where(risen == float("-inf"), 0.0, risen)
        rescale = tl.exp(high - shift)
        w = tl.exp(s - shift[:, None])
        total = rescale * total + tl.sum(w, 1)
        w = thinned(w, row_words, column_words, head, rows, keys, n, m, below, DROPOUT)
        mixed = rescale[:, None] * mixed + tl.dot(w.to(v.dtype), v, input_precision="ieee")
        high = risen
    out = kept * mixed / tl.where(total == 0.0, 1.0, total)[:, None]
    put_tile(out_ptr, out, head, rows, n, f, DEEP)
    lse = tl.where(total == 0.0, float("-inf"), high + tl.log(tl.where(total == 0.0, 1.0, total)))
    tl.store(lse_ptr + head.to(tl.int64) * n + rows, lse, mask=rows < n)


@triton.jit
def grad_scores_of(
    q, k, v, grad, lse_ptr, delta_ptr, row_words, column_words, head, rows, keys, n, m,
    scale, below, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Return ``P`` after dropout, and ``dS``, for a tile."""
    place = head.to(tl.int64) * n + rows
    lse = tl.load(lse_ptr + place, mask=rows < n, other=0.0)
    delta = tl.load(delta_ptr + place, mask=rows < n, other=0.0)
    s = scores_of(q, k, rows, keys, n, m, scale, CAUSAL)
    p = tl.exp(s - tl.where(lse == float("-inf"), 0.0, lse)[:, None])
    d_p = tl.dot(grad, tl.trans(v), input_precision="ieee")
    d_p = thinned(d_p, row_words, column_words, head, rows, keys, n, m, below, DROPOUT)
    d_s = p * (d_p - delta[:, None])
    return thinned(p, row_words, column_words, head, rows, keys, n, m, below, DROPOUT), d_s


@triton.jit
def backward_keys_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, row_words, column_words, to_k, to_v,
    n, m, e, f, members, scale, below,
    ROWS: tl.constexpr, KEYS: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr,
    CAUSAL: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Write ``dK`` and ``dV`` for a block of keys, summed over the query heads that share them."""
    block, shared = tl.program_id(0), tl.program_id(1)
    keys = block * KEYS + tl.arange(0, KEYS)
    k = tile_of(k_ptr, shared, keys, m, e, WIDE)
    v = tile_of(v_ptr, shared, keys, m, f, DEEP)
    d_k = tl.zeros([KEYS, WIDE], tl.float32)
    d_v = tl.zeros([KEYS, DEEP], tl.float32)
    first = 0
    if CAUSAL:
        first = block * KEYS // ROWS * ROWS
    for member in range(0, members):
        head = shared * members + member
        for start in range(first, n, ROWS):
            rows = start + tl.arange(0, ROWS)
            q = tile_of(q_ptr, head, rows, n, e, WIDE)
            grad = tile_of(grad_ptr, head, rows, n, f, DEEP)
            p, d_s = grad_scores_of(
                q, k, v, grad, lse_ptr, delta_ptr, row_words, column_words, head, rows, keys, n, m,
                scale, below, CAUSAL, DROPOUT,
            )  # fmt: skip
            d_v += tl.dot(tl.trans(p).to(grad.dtype), grad, input_precision="ieee")
            d_k += tl.dot(tl.trans(d_s).to(q.dtype), q, input_precision="ieee")
    put_tile(to_k, scale * d_k, shared, keys, m, e, WIDE)
    put_tile(to_v, d_v, shared, keys, m, f, DEEP)


@triton.jit
def backward_rows_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, row_words, column_words, to_q,
    n, m, e, f, members, scale, below,
    ROWS: tl.constexpr, KEYS: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr,
    CAUSAL: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Write ``dQ`` for a block of queries."""
    block, head = tl.program_id(0), tl.program_id(1)
    rows = block * ROWS + tl.arange(0, ROWS)
    q = tile_of(q_ptr, head, rows, n, e, WIDE)
    grad = tile_of(grad_ptr, head, rows, n, f, DEEP)
    d_q = tl.zeros([ROWS, WIDE], tl.float32)
    end = m
    if CAUSAL:
        end = tl.minimum(m, (block + 1) * ROWS)
    for start in range(0, end, KEYS):
        keys = start + tl.arange(0, KEYS)
        k = tile_of(k_ptr, head // members, keys, m, e, WIDE)
        v = tile_of(v_ptr, head // members, keys, m, f, DEEP)
        _, d_s = grad_scores_of(
            q, k, v, grad, lse_ptr, delta_ptr, row_words, column_words, head, rows, keys, n, m,
            scale, below, CAUSAL, DROPOUT,
        )  # fmt: skip
        d_q += tl.dot(d_s.to(k.dtype), k, input_precision="ieee")
    put_tile(to_q, scale * d_q, head, rows, n, e, WIDE)
