"""What the exercises of lesson 07 ask beyond right gradients."""

from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor.extension import OperationRecorder
from torch import Tensor

from autograd_course.grader.checks import (
    backward_is_a_formula,
    keeps_at_most,
    makes_at_most,
    no_tensor_on_ctx,
    on,
    peaks_at_most,
    without,
)
from autograd_course.grader.checks.tiles import elements
from autograd_course.grader.sampling import normal
from autograd_course.grader.verdict import Verdict, wrong

LONG, BLOCK = 128, 16  # as a matrix of scores 16,384 elements, of which a tile has 256
FEW, FINE = 24, 2
FLOAT64 = 8
BUILT_IN = (
    *(
        f"_scaled_dot_product_{kind}"
        for kind in (
            "attention_math",
            "flash_attention",
            "flash_attention_for_cpu",
            "efficient_attention",
            "cudnn_attention",
            "fused_attention_overrideable",
        )
    ),
    "_safe_softmax",  # of the built-in where no fused kernel fits
)


def rows(*heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values of a sequence that is long beside their width."""
    rng = torch.Generator().manual_seed(7)
    return normal(rng, *heads, LONG, 4), normal(rng, *heads, LONG, 4), normal(rng, *heads, LONG, 3)


def linear_budget(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> int:
    """Return the bytes of inputs, output and one number for each query."""
    queries: int = q.shape[:-1].numel()
    kept: int = elements(q, k, v) + queries * v.shape[-1] + queries
    masks: int = sum(x.nbytes for x in rest if isinstance(x, Tensor))
    return FLOAT64 * kept + masks


def tile_budget(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> int:
    """Return the bytes of the largest input, or of four tiles if that is more."""
    block: int = rest[-1]
    return FLOAT64 * max(4 * block**2, *(x.numel() for x in (q, k, v)))


def half_of_the_scores(q: Tensor, k: Tensor, *rest: Any) -> int:
    """Return the bytes of every second score."""
    return FLOAT64 * q.shape[-2] * k.shape[-2] // 2


def tiled_rows() -> tuple[Any, ...]:
    """Return :func:`rows` with everything that the tiled exercise can be asked for."""
    return (*rows(), True, 0.25, 3, BLOCK)


def finely_tiled_rows() -> tuple[Any, ...]:
    """Return a few of them with tiles so small that others, of :data:`BLOCK`, are too large."""
    return (*(x[..., :FEW, :].clone() for x in rows()), True, 0.25, 3, FINE)


own_work = on(
    lambda: rows(1, 2), without(*BUILT_IN, use="matrix products, exp and sums of your own")
)
CONDUCT = (backward_is_a_formula, no_tensor_on_ctx, own_work)
lean = keeps_at_most(linear_budget, "q, k, v, the output, and one number for each query")
keeps_little = on(rows, lean)
tiles_only = on(
    tiled_rows,
    makes_at_most(
        tile_budget, f"as much as q has, or four tiles of {BLOCK}×{BLOCK}, for {LONG} queries"
    ),
    lean,
)
few_tiles_at_once = on(
    tiled_rows, peaks_at_most(half_of_the_scores, f"half of what all {LONG}×{LONG} scores take")
)
fine_tiles_only = on(
    finely_tiled_rows,
    makes_at_most(tile_budget, f"as much as q has, for {FEW} queries and block={FINE}"),
)
grouped_rows = on(
    lambda: (rows(6)[0], *rows(2)[1:]),
    keeps_at_most(
        linear_budget, "q, the output, one number for each query, and k and v as they were given"
    ),
)


def no_built_in(routine: Callable[..., Any]) -> Verdict | None:
    """Ask that the routine does not call attention by its name."""
    with OperationRecorder() as recording:
        routine(*rows(1, 2))
    if any(name in BUILT_IN for name in recording.names):
        return wrong(
            "right, but PyTorch's own scaled_dot_product_attention does the work. This tier asks "
            "for the scores, their softmax and the product, from matrix products, exp and sums."
        )
    return None


def leaves_its_arguments(routine: Callable[..., Any]) -> Verdict | None:
    """Ask that the routine changes no tensor of the caller's."""
    given, mask = rows(), torch.ones(LONG, LONG, dtype=torch.bool).tril()
    before = [x.clone() for x in (*given, mask)]
    routine(*given, mask)
    for name, x, was in zip(("q", "k", "v", "mask"), (*given, mask), before, strict=True):
        if not torch.equal(x, was):
            return wrong(
                f"right, but {name} has other values after the call: an operation in place changes "
                "the caller's tensor. Compute a new one."
            )
    return None


def stays_in_range(routine: Callable[..., Any]) -> Verdict | None:
    """Ask for finite outputs in float32 where the scores are in the hundreds."""
    q, k, v = (30 * x.float() for x in rows())
    if bool(routine(q, k, v).isfinite().all()):
        return None
    return wrong(
        "right in float64, but in float32 exp overflows above 88, and here scores are in the "
        "hundreds. Which number may be subtracted from all scores of a row without changing its "
        "softmax?"
    )
