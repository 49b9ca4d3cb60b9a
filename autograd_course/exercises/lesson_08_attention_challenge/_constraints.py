"""Constraints for the attention exercises, such as a memory budget and no built-in attention."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, keeps_at_most, on, without
from autograd_course.grader.checks.tiles import elements
from autograd_course.grader.sampling import normal

LONG, BLOCK = 128, 16  # 16,384 scores, with 256 in each tile
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
    "scaled_dot_product_attention",
    "multi_head_attention_forward",
    "_safe_softmax",  # the built-in attention calls it if no fused kernel fits
)


def rows(rng: torch.Generator, *heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values whose sequences are much longer than their features."""
    return normal(rng, *heads, LONG, 4), normal(rng, *heads, LONG, 4), normal(rng, *heads, LONG, 3)


def linear_budget(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> int:
    """Return the total size in bytes of the inputs, the output, and one number per query."""
    queries: int = q.shape[:-1].numel()
    kept: int = elements(q, k, v) + queries * v.shape[-1] + queries
    masks: int = sum(x.nbytes for x in rest if isinstance(x, Tensor))
    return FLOAT64 * kept + masks


OWN_WORK = (
    *CONDUCT,
    on(lambda rng: rows(rng, 1, 2), without(*BUILT_IN, use="matrix products, exp and sums")),
)

lean = keeps_at_most(linear_budget, "q, k, v, the output, and one number for each query")
keeps_little = on(rows, lean)
