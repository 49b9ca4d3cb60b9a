"""Answers to the exercises of lesson 08. Each wrong answer is a right one with a changed line."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from answers.making import SOLUTIONS, Rewriting, Wrong
from autograd_course.functions.attention import (
    ScaledDotProductAttention,
    attention,
    dropped,
)
from tools.percent import read

LESSON = "08_attention_challenge"
changed = Rewriting(LESSON)
SOLVED = changed.solved
NAMES = {
    "masked-softmax": "MaskedSoftmax",
    "attention-forward": "attend",
    "attention-backward": "Attention",
    "attention-budget": "LeanAttention",
    "merge-halves": "merge",
    "attention-tiled": "TiledAttention",
    "attention-twice": "TwiceAttention",
    "attention-grouped": "GroupedAttention",
}
RIGHT = {
    **{exercise: SOLVED[name] for exercise, name in NAMES.items()},
    "card-late-nan": "5b",
    "predict-saved-elements": [100_000, 900, 100_000, 9_000],
}
changed.sources["attention-tiled"] = "\n\n\n".join(
    [
        *(
            cell.source
            for cell in read(SOLUTIONS / f"{LESSON}.py").cells
            if "solution-only" in cell.tags
        ),
        changed.sources["attention-tiled"],
    ]
)
rewritten = changed.answer


def twice_saving(what: str) -> tuple[tuple[str, str], ...]:
    """Return the changes for a combined forward in tier 5, which saves the output and ``what``."""
    lines = (
        "out, lse = {}\n        ctx.save_for_backward(q, k, v, out, {})\n        return out, lse"
    )
    returned = "weights @ v / total, (high + total.log()).squeeze(-1)"
    return (
        ("def forward(q", "def forward(ctx, q"),
        (f"return {returned}", lines.format(returned, what)),
        ("def setup_context", "def unused"),
    )


class ThroughTwo(Function):
    """PyTorch's softmax with repaired masked rows and saved weights, which tier 2 allows."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        s = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)
        if mask is not None:
            s = torch.where(mask, s, float("-inf"))
        p = torch.softmax(s, dim=-1)
        if mask is not None:
            p = torch.where(mask.any(-1, keepdim=True), p, 0.0)
        ctx.save_for_backward(q, k, v, p)
        return torch.matmul(p, v)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        q, k, v, p = ctx.saved_tensors
        d_p = torch.einsum("...nf,...mf->...nm", g, v)
        d_s = torch._softmax_backward_data(d_p, p, -1, p.dtype)
        c = q.size(-1) ** -0.5
        d_q = torch.einsum("...nm,...me->...ne", d_s, k) * c
        d_k = torch.einsum("...nm,...ne->...me", d_s, q) * c
        return d_q, d_k, torch.einsum("...nm,...nf->...mf", p, g), None


class LeanByPackage(ScaledDotProductAttention):
    """The course's own Function with the requested signature."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
        return ScaledDotProductAttention.forward(ctx, q, k, v)

    @staticmethod
    def backward(ctx: Any, grad_out: Any, grad_lse: Any) -> Any:
        return ScaledDotProductAttention.backward(ctx, grad_out, grad_lse)[:3]


def attend_with_softmax(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    s = torch.einsum("...ne,...me->...nm", q, k) * q.size(-1) ** -0.5
    if mask is None:
        return torch.softmax(s, -1) @ v
    if mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(mask.logical_not(), -math.inf)
    p = torch.softmax(s + mask, -1)
    return torch.where((mask == -math.inf).all(-1, keepdim=True), 0.0, p) @ v


def merge_by_maximum(
    out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor
) -> tuple[Tensor, Tensor]:
    high = torch.maximum(lse_a, lse_b).clamp(min=-1e30)
    a, b = torch.exp(lse_a - high), torch.exp(lse_b - high)
    total = a + b
    return (a * out_a + b * out_b) / total.clamp(min=1e-30), high + total.log()


def attend_by_package(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return attention(q, k, v, mask=mask)


SHARED_BY_VIEW = (
    ("        group = q.shape[-3] // k.shape[-3]\n", ""),
    ("q @ k.repeat_interleave(group, -3).mT", "q @ spread(k, q).mT"),
    ("@ v.repeat_interleave(group, -3)", "@ spread(v, q)"),
)


def spread(x: Tensor, q: Tensor) -> Tensor:
    """Repeat the heads by expanding them, as a learner who knows views would do."""
    return (
        x[..., :, None, :, :]
        .expand(*x.shape[:-2], q.shape[-3] // x.shape[-3], *x.shape[-2:])
        .reshape(*x.shape[:-3], q.shape[-3], *x.shape[-2:])
    )


SOLVED["spread"] = spread

ALSO_RIGHT: dict[str, tuple[str, Any]] = {
    "masked softmax by where": (
        "masked-softmax",
        rewritten(
            "masked-softmax",
            ("p.masked_fill(~mask, 0)", "torch.where(mask, p, torch.zeros_like(p))"),
        ),
    ),
    "halves by a common maximum": ("merge-halves", merge_by_maximum),
    "attention by PyTorch's softmax": ("attention-forward", attend_with_softmax),
    "attention of the package": ("attention-forward", attend_by_package),
    "backward by einsum": ("attention-backward", ThroughTwo),
    "the lean one in tier 2": ("attention-backward", SOLVED["LeanAttention"]),
    "lean, log-sum-exp by PyTorch": (
        "attention-budget",
        rewritten(
            "attention-budget",
            ("mask, out, high + total.log())", "mask, out, torch.logsumexp(s, -1, True))"),
        ),
    ),
    "tiles by columns in backward": (
        "attention-tiled",
        rewritten(
            "attention-tiled",
            ("for i, j in itertools", "for j, i in itertools"),
            (
                "range(0, q.shape[-2], block), range(0, k.shape[-2], block)",
                "range(0, k.shape[-2], block), range(0, q.shape[-2], block)",
            ),
        ),
    ),
    "twice differentiable by the package": ("attention-twice", LeanByPackage),
    "shared keys by expanding": (
        "attention-grouped",
        rewritten("attention-grouped", *SHARED_BY_VIEW),
    ),
}

FORWARD_MISTAKES: list[tuple[str, str, tuple[tuple[str, str], ...]]] = [
    (
        "softmax over the queries",
        "runs over the queries",
        ((".amax(-1", ".amax(-2"), (".sum(-1", ".sum(-2")),
    ),
    ("no scale", "not divided by √E", ((" / math.sqrt(q.shape[-1])", ""),)),
    ("divided by E", "not by its square root", (("math.sqrt(q.shape[-1])", "q.shape[-1]"),)),
    ("True hides", "is inverted", (("~mask", "mask"),)),
    (
        "boolean mask added",
        "as 0 and 1",
        (
            (
                "s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask",
                "s + mask",
            ),
        ),
    ),
    (
        "masked after the softmax",
        "no longer sum to 1",
        (
            ("    if mask is not None:\n", "    if False:\n"),
            (
                "return weights / total.masked_fill(total == 0, 1) @ v",
                "p = weights / total\n"
                "    if mask is None:\n"
                "        return p @ v\n"
                "    return (p * mask if mask.dtype == torch.bool else p + mask) @ v",
            ),
        ),
    ),
    ("a large negative number", "hides nothing", (("~mask, -math.inf)", "~mask, -1e9)"),)),
    (
        "fully masked rows nan",
        "-∞ - (-∞) is nan",
        (("high.masked_fill(high == -math.inf, 0)", "high"),),
    ),
    ("no shift", "overflows", (("high.masked_fill(high == -math.inf, 0)", "0"),)),
    (
        "divides a fully masked row by 0",
        "is nan, should be 0",
        (("total.masked_fill(total == 0, 1)", "total"),),
    ),
]


def built_in(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def attend_in_place(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    q /= math.sqrt(q.shape[-1])
    return attend_with_softmax(q * math.sqrt(q.shape[-1]), k, v, mask)


def forward_mistakes() -> list[Wrong]:
    rewritings = [
        changed("attention-forward", mistake, rule, *changes)
        for mistake, rule, changes in FORWARD_MISTAKES
    ]
    return [
        *rewritings,
        Wrong(
            "attention-forward",
            "the built-in",
            "scaled_dot_product_attention does the work",
            built_in,
        ),
        Wrong(
            "attention-forward",
            "scales q in place",
            "q has other values after the call",
            attend_in_place,
        ),
    ]


MERGED = "torch.exp(lse_a - safe) * out_a + torch.exp(lse_b - safe) * out_b"
SCALED = "grad_s = grad_s / math.sqrt(q.shape[-1])"
RETURNED = "return grad_s @ k, grad_s.mT @ q, grad_v, None"


DROPPED = "dropout_factor(i, j, s, dropout_p, seed)"
OPTIONS = "ctx.options = causal, dropout_p, seed, block"


def tiled_with(causal: str) -> Any:
    """Return tier 4 with a different causal mask."""
    return rewritten("attention-tiled", ("columns > rows[:, None]", causal))


MISTAKES_IN_TILES: list[tuple[str, str, str, tuple[str, str]]] = [
    (f"tiles: {mistake}", "forward-mismatch", hint, change)
    for mistake, hint, change in [
        ("no √E", "not divided by √E", (" / math.sqrt(q_i.shape[-1])", "")),
        ("E", "by E, not by", ("math.sqrt(q_i.shape[-1])", "q_i.shape[-1]")),
        ("the root of a tile", "the size of a tile", ("q_i.shape[-1])", "k_j.shape[-2])")),
        ("a factor upside down", "All outputs are nan", ("(before - high)", "(high - before)")),
        (
            "the maximum of a tile",
            "the running maximum by its own",
            ("torch.maximum(high, s.amax(-1, keepdim=True))", "s.amax(-1, keepdim=True)"),
        ),
        ("exp(S)", "relative to the maximum", ("exp(s - high)\n", "exp(s)\n")),
        ("a new sum", "running sum starts", ("rescale * total + weights", "weights")),
        ("a new output", "running output starts", ("rescale * mixed + ", "")),
        ("softmax of a tile", "a softmax of its own", ("torch.exp(s - high)\n", "s.softmax(-1)\n")),
        ("scores of 0", "The hidden scores are 0", ("-math.inf) if causal", "0) if causal")),
        ("from i on", "from i on", ("columns > rows[:, None]", "columns < rows[:, None]")),
        (
            "exchanged positions",
            "queries and keys exchanged",
            ("columns > rows[:, None]", "columns - j + i > rows[:, None] - i + j"),
        ),
        ("exchanged i and j", "in the place of", (DROPPED, DROPPED.replace("i, j", "j, i"))),
        ("no 1 / (1 - p)", "are not divided", (DROPPED, f"({DROPPED} > 0).to(s.dtype)")),
        (
            "the number of a tile",
            "the number of the tile",
            (DROPPED, DROPPED.replace("i, j", "i // block, j // block")),
        ),
        (
            "no last keys",
            "keys of the last tile are left out",
            ("range(0, k.shape[-2], block):", "range(0, k.shape[-2] // block * block, block):"),
        ),
        (
            "keys up to N",
            "Loop over all blocks",
            ("k.shape[-2], block):", "q_i.shape[-2], block):"),
        ),
        (
            "no last queries",
            "The last queries are missing",
            ("q.shape[-2], block)\n", "q.shape[-2] // block * block, block)\n"),
        ),
    ]
]
MISTAKES_IN_TILES += [
    (
        "tiles: parts joined along dim 0",
        "forward-raises",
        "lie along dim -2",
        ("torch.cat(parts, -2)", "torch.cat(parts, 0)"),
    ),
    (
        "tiles: one maximum",
        "overflow",
        "the largest score of the whole tile",
        ("s.amax(-1, keepdim=True)", "s.amax((-2, -1), keepdim=True)"),
    ),
    (
        "tiles: a maximum from 0",
        "overflow",
        "begins at 0",
        ("new_full((*q_i.shape[:-1], 1), -math.inf)", "new_zeros((*q_i.shape[:-1], 1))"),
    ),
    (
        "tiles: L without a logarithm",
        "gradient-mismatch",
        "without its logarithm",
        ("high + total.log()", "high + total"),
    ),
    (
        "tiles: softmax of a tile in backward",
        "gradient-mismatch",
        "a softmax of each tile",
        ("torch.exp(s - lse[..., rows, :])", "s.softmax(-1)"),
    ),
    (
        "tiles: dK without √E",
        "constant-factor",
        "dK is not",
        ("@ q_i", "@ q_i * q.shape[-1] ** 0.5"),
    ),
    (
        "tiles: last dV",
        "batch-dimension",
        "dV contains only",
        ("columns, :] += (f", "columns, :] = (f"),
    ),
    (
        "tiles: keys up to N in backward",
        "gradient-mismatch",
        "runs to N",
        ("range(0, k.shape[-2], block))", "range(0, q.shape[-2], block))"),
    ),
    (
        "tiles: diagonal",
        "gradient-mismatch",
        "on the diagonal",
        ("itertools.product(range", "zip(range"),
    ),
    (
        "tiles: a row",
        "backward-raises",
        "L and D have (r, 1)",
        ("(factor * p).mT @ g_i", "(factor * p) @ g_i"),
    ),
]


LSE, DELTA = "(high + total.log()).squeeze(-1)", "(grad_out * out).sum(-1) - grad_lse"
ROOT = " / math.sqrt(q.shape[-1])"
TWICE: list[tuple[str, str, str, tuple[str, str]]] = [
    (f"L: {mistake}", "forward-mismatch", hint, (LSE, change))
    for mistake, hint, change in [
        ("no maximum", "lacks the maximum", "total.log().squeeze(-1)"),
        ("no logarithm", "sum without its logarithm", "(high + total).squeeze(-1)"),
        ("the sum", "The second output is the sum of exp", "total.squeeze(-1)"),
        ("the maximum", "is the maximum of each row", "high.squeeze(-1)"),
        ("a column", "keeps the dim of the keys", "high + total.log()"),
        ("queries", "runs over the queries", "s.logsumexp(-2)"),
    ]
]
TWICE += [
    (
        "L: twice the maximum",
        "forward-mismatch",
        "do not subtract it",
        ("torch.exp(s - high)", "torch.exp(s)"),
    ),
    (
        "L is marked",
        "wrong-non-differentiable",
        "is marked as non-differentiable",
        ("*output)", "*output)\n        ctx.mark_non_differentiable(output[1])"),
    ),
    (
        "dS without √E",
        "constant-factor",
        "dQ and dK are not divided",
        ("- delta.unsqueeze(-1)) / math.sqrt(q.shape[-1])", "- delta.unsqueeze(-1))"),
    ),
    (
        "P without √E",
        "gradient-mismatch",
        "their scores are not divided",
        (f"{ROOT} - lse", " - lse"),
    ),
    (
        "D is a row",
        "batch-dimension",
        "along the keys",
        ("delta.unsqueeze(-1)", "delta.unsqueeze(-2)"),
    ),
    (
        "no D",
        "gradient-mismatch",
        "ignores that the weights",
        (DELTA, "-grad_lse"),
    ),
]
SUMMED = "g.unflatten(-3, (heads, -1)).sum(-3)"
GROUPED: list[tuple[str, str, str, tuple[str, str]]] = [
    (
        "the first heads",
        "gradient-mismatch",
        "Only the first heads",
        (SUMMED, "g[..., :heads, :, :]"),
    ),
    (
        "all heads",
        "gradient-mismatch",
        "sums over all query heads",
        (SUMMED, "g.sum(-3, keepdim=True) + torch.zeros_like(g[..., :heads, :, :])"),
    ),
    (
        "other keys in dQ",
        "gradient-mismatch",
        "dQ reads the key heads",
        (
            "return grad_s @ keys",
            "return grad_s @ k.repeat(*[1] * (k.dim() - 3), q.shape[-3] // heads, 1, 1)",
        ),
    ),
    (
        "values in turn",
        "forward-mismatch",
        "the query heads read the values 0 1 0 1",
        ("v.repeat_interleave(group, -3)", "v.repeat(*[1] * (v.dim() - 3), group, 1, 1)"),
    ),
    (
        "the first dim",
        "forward-raises",
        "count from the end",
        ("v.repeat_interleave(group, -3)", "v.repeat_interleave(group, 0)"),
    ),
    (
        "no √E",
        "forward-mismatch",
        "The scores are not divided by √E",
        (f".mT{ROOT}\n        lse", ".mT\n        lse"),
    ),
    ("dS without √E", "constant-factor", "are not divided by √E", (f"- delta){ROOT}", "- delta)")),
    ("no D", "gradient-mismatch", "ignores that the weights", (" - delta)", ")")),
]


WRONG = [
    changed(
        "masked-softmax",
        "no D",
        "missing-dependency",
        (" - (p * grad_output).sum(-1, keepdim=True)", ""),
    ),
    changed(
        "masked-softmax",
        "D without the weights",
        "missing-dependency",
        ("(p * grad_output).sum", "grad_output.sum"),
    ),
    changed(
        "masked-softmax",
        "D without its last dim",
        "batch-dimension",
        ("sum(-1, keepdim=True)", "sum(-1)"),
    ),
    changed(
        "masked-softmax",
        "fully masked rows nan",
        "forward-mismatch",
        ("p.masked_fill(~mask, 0)", "p"),
        hint="returns nan there",
    ),
    changed(
        "masked-softmax",
        "a large negative number",
        "forward-mismatch",
        ("-math.inf", "-1e9"),
        ("p.masked_fill(~mask, 0)", "p"),
        hint="uniform",
    ),
    changed(
        "masked-softmax",
        "masked after the softmax",
        "forward-mismatch",
        ("s.masked_fill(~mask, -math.inf)", "s"),
        hint="no longer sum to 1",
    ),
    changed(
        "masked-softmax",
        "True hides",
        "forward-mismatch",
        ("s.masked_fill(~mask", "s.masked_fill(mask"),
        ("p.masked_fill(~mask", "p.masked_fill(mask"),
        hint="is inverted",
    ),
    changed("masked-softmax", "no None for the mask", "wrong-arity", (", None", "")),
    *forward_mistakes(),
    # Tier 2
    changed(
        "attention-backward",
        "no D",
        "gradient-mismatch",
        (" - (p * grad_p).sum(-1, keepdim=True)", ""),
    ),
    changed("attention-backward", "no scale in backward", "constant-factor", (SCALED, "")),
    changed(
        "attention-backward",
        "no scale in dK",
        "constant-factor",
        ("grad_s.mT @ q,", "grad_s.mT @ q * math.sqrt(q.shape[-1]),"),
    ),
    changed(
        "attention-backward",
        "dQ and dK exchanged",
        "swapped-gradients",
        (RETURNED, "return grad_s.mT @ q, grad_s @ k, grad_v, None"),
    ),
    changed(
        "attention-backward",
        "dS not transposed in dK",
        "gradient-mismatch",
        ("grad_s.mT @ q", "grad_s @ q"),
    ),
    changed(
        "attention-backward",
        "D without its last dim",
        "batch-dimension",
        ("(p * grad_p).sum(-1, keepdim=True)", "(p * grad_p).sum(-1)"),
        hint="lost its last dim",
    ),
    changed(
        "attention-backward",
        "P not transposed in dV",
        "transposed-gradient",
        ("p.mT @ grad_output", "p @ grad_output"),
    ),
    changed(
        "attention-backward",
        "D over the queries",
        "gradient-mismatch",
        ("(p * grad_p).sum(-1,", "(p * grad_p).sum(-2,"),
    ),
    changed(
        "attention-backward", "no None for the mask", "wrong-arity", ("grad_v, None", "grad_v")
    ),
    changed(
        "attention-backward",
        "fully masked rows nan",
        "forward-mismatch",
        ("high.masked_fill(high == -math.inf, 0)", "high"),
        ("total.masked_fill(total == 0, 1)", "total"),
    ),
    Wrong("card-late-nan", "the softmax of forward", "so it never overflows", "1b"),
    Wrong("card-late-nan", "the division", "Are the numbers finite", "6b"),
    Wrong("card-late-nan", "the formula", "Are the weights right", "7a"),
    Wrong("card-late-nan", "gradcheck", "for small scores backward is right", "5a"),
    Wrong("card-late-nan", "the output", "for scores of any size", "5c"),
    Wrong("predict-saved-elements", "no L", "also saves the log-sum-exp", [1e5, 800, 1e5, 8000]),
    Wrong("predict-saved-elements", "by keys", "not for each key", [1e5, 9000, 1e5, 900]),
    Wrong("predict-saved-elements", "scores, too", "needs no scores", [1e5, 900, 2e5, 9000]),
    Wrong("predict-saved-elements", "the same again", "1,000 queries", [1e5, 900, 1e5, 900]),
    changed(
        "merge-halves",
        "a maximum that is never negative",
        "is at least 0",
        (
            "return " + MERGED + ", lse",
            "top = torch.maximum(lse_a, lse_b).clamp(min=0)\n"
            "    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)\n"
            "    total = a + b\n"
            "    out = (a * out_a + b * out_b) / total.masked_fill(total == 0, 1)\n"
            "    return out, top + torch.log(total)",
        ),
    ),
    changed(
        "masked-softmax",
        "the maximum of hidden scores",
        "forward-mismatch",
        (
            "p = torch.softmax(s.masked_fill(~mask, -math.inf), -1)\n"
            "        return p.masked_fill(~mask, 0)",
            "p = torch.exp(s - s.amax(-1, keepdim=True)).masked_fill(~mask, 0)\n"
            "        total = p.sum(-1, keepdim=True)\n"
            "        return p / total.masked_fill(total == 0, 1)",
        ),
        hint="may be a hidden one",
    ),
    changed("merge-halves", "the mean", "count the same", (MERGED, "(out_a + out_b) / 2")),
    changed("merge-halves", "the sum", "an average already", (MERGED, "out_a + out_b")),
    changed(
        "merge-halves",
        "adds the log-sum-exps",
        "Add the exponentials",
        (MERGED + ", lse", MERGED + ", lse_a + lse_b"),
    ),
    changed(
        "merge-halves",
        "exp of a large number",
        "overflows",
        (MERGED, "(lse_a.exp() * out_a + lse_b.exp() * out_b) / (lse_a.exp() + lse_b.exp())"),
        ("torch.logaddexp(lse_a, lse_b)", "(lse_a.exp() + lse_b.exp()).log()"),
    ),
    changed(
        "merge-halves",
        "nan if no key is seen",
        "sees no key at all",
        ("lse.masked_fill(lse == -math.inf, 0)", "lse"),
    ),
    # Tier 3
    Wrong("attention-budget", "keeps P", "oversaved", SOLVED["Attention"]),
    changed(
        "attention-budget",
        "keeps the scores too",
        "oversaved",
        ("mask, out, high + total.log())", "mask, out, high + total.log(), s)"),
        ("mask, out, lse = ctx", "mask, out, lse, s = ctx"),
        (
            "        s = q @ k.mT / math.sqrt(q.shape[-1])\n"
            "        if mask is not None:\n"
            "            s = s.masked_fill(~mask, -math.inf)\n"
            "        p",
            "        p",
        ),
    ),
    changed(
        "attention-budget",
        "keeps P as a list",
        "oversaved",
        (
            "        ctx.save",
            "        ctx.p = (weights / total.clamp(1e-30)).tolist()\n        ctx.save",
        ),
        ("p = torch.exp(s - lse.masked_fill(lse == -math.inf, 0))", "p = s.new_tensor(ctx.p)"),
        hint="If their number grows with the data",
    ),
    changed(
        "attention-budget",
        "keeps the sum and forgets the maximum",
        "gradient-mismatch",
        ("high + total.log())", "total.log())"),
    ),
    changed(
        "attention-budget",
        "forgets the mask in backward",
        "gradient-mismatch",
        (
            "            s = s.masked_fill(~mask, -math.inf)\n        p =",
            "            s = s * 1\n        p =",
        ),
        hint="without the mask.",
    ),
    changed(
        "attention-budget",
        "forgets the mask in backward, and rows that see nothing",
        "non-finite",
        (
            "            s = s.masked_fill(~mask, -math.inf)\n        p =",
            "            s = s * 1\n        p =",
        ),
        ("lse.masked_fill(lse == -math.inf, 0)", "lse"),
        hint="they are infinite",
    ),
    changed(
        "attention-budget",
        "D without its last dim",
        "batch-dimension",
        ("(grad_output * out).sum(-1, keepdim=True)", "(grad_output * out).sum(-1)"),
        hint="lost its last dim",
    ),
    changed(
        "attention-budget",
        "keeps maximum and sum apart",
        "oversaved",
        ("mask, out, high + total.log())", "mask, out, high, total)"),
        ("mask, out, lse = ctx", "mask, out, high, total = ctx"),
        (
            "torch.exp(s - lse.masked_fill(lse == -math.inf, 0))",
            "torch.exp(s - high) / total.masked_fill(total == 0, 1)",
        ),
        hint="(128, 1), float64 (128, 1)",
    ),
    changed(
        "attention-budget",
        "-∞ - (-∞) in backward",
        "non-finite",
        ("lse.masked_fill(lse == -math.inf, 0)", "lse"),
        hint="S - L is nan",
    ),
    changed(
        "attention-budget",
        "on ctx",
        "tensor-on-ctx",
        ("out, high + total.log())", "out)\n        ctx.lse = high + total.log()"),
        (
            "mask, out, lse = ctx.saved_tensors",
            "mask, out = ctx.saved_tensors\n        lse = ctx.lse",
        ),
    ),
    # Tier 4
    Wrong(
        "attention-tiled",
        "query does not see its own key",
        "forward-mismatch",
        tiled_with("columns >= rows[:, None]"),
        "Query i does not see key i",
    ),
    Wrong(
        "attention-tiled",
        "one key too many",
        "forward-mismatch",
        tiled_with("columns > rows[:, None] + 1"),
        "one key too many",
    ),
    Wrong(
        "attention-tiled",
        "causal by places in the tile",
        "forward-mismatch",
        tiled_with("columns - j > rows[:, None] - i"),
        "the causal mask of the first tile",
    ),
    changed(
        "attention-tiled",
        "dropout of the scores",
        "forward-mismatch",
        (
            "weights = weights * dropout_factor(i, j, s, dropout_p, seed)",
            "weights = weights",
        ),
        (
            "before, high = high, torch.maximum(high, s.amax(-1, keepdim=True))",
            "s = s * dropout_factor(i, j, s, dropout_p, seed)\n"
            "        before, high = high, torch.maximum(high, s.amax(-1, keepdim=True))",
        ),
        hint="Dropout multiplies the scores",
    ),
    changed(
        "attention-tiled",
        "output not rescaled",
        "forward-mismatch",
        ("mixed = rescale * mixed", "mixed = mixed"),
        hint="but not the running output",
    ),
    changed(
        "attention-tiled",
        "nothing rescaled",
        "forward-mismatch",
        ("mixed = rescale * mixed", "mixed = mixed"),
        ("total = rescale * total", "total = total"),
        hint="still relative to the old",
    ),
    changed(
        "attention-tiled",
        "sum not rescaled",
        "forward-mismatch",
        ("total = rescale * total", "total = total"),
        hint="but not the running sum",
    ),
    changed(
        "attention-tiled",
        "no dropout",
        "forward-mismatch",
        (DROPPED, "s.new_ones(())"),
        hint="No weight is dropped",
    ),
    changed(
        "attention-tiled",
        "another seed",
        "forward-mismatch",
        (DROPPED, "dropout_factor(i, j, s, dropout_p, 0)"),
        hint="belongs to another seed",
    ),
    changed(
        "attention-tiled",
        "dropout by places in the tile",
        "forward-mismatch",
        (DROPPED, "dropout_factor(0, 0, s, dropout_p, seed)"),
        hint="the dropout pattern of the first tile",
    ),
    Wrong(
        "attention-tiled",
        "not causal",
        "forward-mismatch",
        tiled_with("columns < 0"),
        "Each query sees all keys",
    ),
    changed(
        "attention-tiled",
        "all tiles at once in a list",
        "oversaved",
        ("        for i, j in itertools", "        kept = []\n        for i, j in itertools"),
        ("grad_p = factor *", "kept.append((p, factor))\n            grad_p = factor *"),
    ),
    changed(
        "attention-tiled",
        "keeps a copy of q",
        "oversaved",
        ("save_for_backward(q, k, v, out, lse)", "save_for_backward(q, k, v, out, lse, q.clone())"),
        ("q, k, v, out, lse = ctx", "q, k, v, out, lse, _ = ctx"),
    ),
    changed(
        "attention-tiled",
        "D of one tile",
        "gradient-mismatch",
        ("(grad_p - delta[..., rows, :])", "(grad_p - (p * grad_p).sum(-1, keepdim=True))"),
        hint="the keys of one tile",
    ),
    changed(
        "attention-tiled",
        "dQ of the last tile only",
        "gradient-mismatch",
        ("grad_q[..., rows, :] +=", "grad_q[..., rows, :] ="),
        hint="dQ contains only",
    ),
    changed(
        "attention-tiled",
        "tiles of one size, whatever is asked for",
        "oversaved",
        ("ctx.options = causal, dropout_p, seed, block", "block = 16\n        " + OPTIONS),
    ),
    changed(
        "attention-tiled",
        "another pattern in backward",
        "gradient-mismatch",
        (
            "dropout_factor(i, j, s, dropout_p, seed)\n            grad_v",
            "dropout_factor(i, j, s, dropout_p, seed + 1)\n            grad_v",
        ),
    ),
    changed(
        "attention-tiled",
        "dropout before the sum",
        "forward-mismatch",
        (
            "total = rescale * total + weights.sum(-1, keepdim=True)",
            "weights = weights * dropout_factor(i, j, s, dropout_p, seed)\n"
            "        total = rescale * total + weights.sum(-1, keepdim=True)",
        ),
        (
            "\n        weights = weights * dropout_factor(i, j, s, dropout_p, seed)\n        mixed",
            "\n        mixed",
        ),
        hint="the weights that dropout leaves",
    ),
    changed(
        "attention-tiled",
        "dropout forgotten in dP",
        "gradient-mismatch",
        ("factor * (g_i @ v", "(g_i @ v"),
        hint="but not in dP",
    ),
    changed(
        "attention-tiled",
        "dK of the last tile only",
        "batch-dimension",
        ("grad_k[..., columns, :] +=", "grad_k[..., columns, :] ="),
        hint="dK contains only",
    ),
    changed(
        "attention-tiled",
        "makes all scores in backward",
        "oversaved",
        (
            "s = tile_scores(q_i, k_j, i, j, causal)\n            p, factor",
            "s = tile_scores(q, k, 0, 0, causal)[..., rows, columns]\n            p, factor",
        ),
    ),
    changed(
        "attention-tiled",
        "strips of all keys",
        "oversaved",
        ("for j in range(0, k.shape[-2], block):", "for j in range(1):"),
        ("k[..., j : j + block, :]", "k"),
        ("v[..., j : j + block, :]", "v"),
    ),
    *(
        changed("attention-tiled", mistake, rule, change, hint=hint)
        for mistake, rule, hint, change in MISTAKES_IN_TILES
    ),
    *(
        changed(exercise, mistake, rule, change, hint=hint)
        for exercise, rows in {"attention-twice": TWICE, "attention-grouped": GROUPED}.items()
        for mistake, rule, hint, change in rows
    ),
    # Tier 5
    changed(
        "attention-twice",
        "gradient of L left out",
        "missing-dependency",
        ("(grad_out * out).sum(-1) - grad_lse", "(grad_out * out).sum(-1)"),
    ),
    changed(
        "attention-twice",
        "gradient of L with the wrong sign",
        "gradient-mismatch",
        (".sum(-1) - grad_lse", ".sum(-1) + grad_lse"),
    ),
    changed(
        "attention-twice",
        "gradient of L without its last dim",
        "batch-dimension",
        (".sum(-1) - grad_lse", ".sum(-1)"),
        ("delta.unsqueeze(-1))", "delta.unsqueeze(-1) + grad_lse)"),
        hint="along the keys",
    ),
    changed(
        "attention-twice",
        "saves a copy of L",
        "silent-double-backward",
        ("*output)", "output[0], output[1].clone())"),
    ),
    changed(
        "attention-twice",
        "detaches",
        "silent-double-backward",
        ("(grad_out * out)", "(grad_out * out.detach())"),
    ),
    changed(
        "attention-twice",
        "keeps P",
        "silent-double-backward",
        *twice_saving("weights / total"),
        ("v, out, lse = ctx", "v, out, p = ctx"),
        ("p = torch.exp(q @ k.mT / math.sqrt(q.shape[-1]) - lse.unsqueeze(-1))", "p = p"),
    ),
    changed(
        "attention-twice",
        "keeps P, and does not use it",
        "oversaved",
        *twice_saving("lse, weights / total"),
        ("v, out, lse = ctx", "v, out, lse, _ = ctx"),
    ),
    # Tier 6
    changed(
        "attention-grouped",
        "gradients not summed",
        "gradient-shape",
        ("(g.unflatten(-3, (heads, -1)).sum(-3) for g in (grad_k, grad_v))", "(grad_k, grad_v)"),
    ),
    changed(
        "attention-grouped",
        "the mean over the group",
        "constant-factor",
        (".sum(-3)", ".mean(-3)"),
        hint="means over the heads",
    ),
    changed(
        "attention-grouped",
        "the first head of the group",
        "gradient-mismatch",
        (".sum(-3)", "[..., 0, :, :]"),
    ),
    changed(
        "attention-grouped",
        "repeat in place of repeat_interleave",
        "forward-mismatch",
        ("k.repeat_interleave(group, -3)", "k.repeat(*[1] * (k.dim() - 3), group, 1, 1)"),
        ("v.repeat_interleave(group, -3)", "v.repeat(*[1] * (k.dim() - 3), group, 1, 1)"),
    ),
    changed(
        "attention-grouped",
        "sums over the wrong dim",
        "gradient-mismatch",
        ("unflatten(-3, (heads, -1)).sum(-3)", "unflatten(-3, (-1, heads)).sum(-4)"),
    ),
    changed(
        "attention-grouped",
        "keeps the repeated keys",
        "oversaved",
        (
            "ctx.save_for_backward(q, k, v, out, lse)",
            "ctx.save_for_backward(q, k, v, out, lse, k.repeat_interleave(group, -3))",
        ),
        ("out, lse = ctx", "out, lse, _ = ctx"),
    ),
    changed(
        "merge-halves",
        "max shift, nan both",
        "If a query sees no key at all, both",
        (
            "    lse = torch.logaddexp(lse_a, lse_b)\n"
            "    safe = lse.masked_fill(lse == -math.inf, 0)\n"
            "    return torch.exp(lse_a - safe) * out_a + torch.exp(lse_b - "
            "safe) * out_b, lse",
            "    top = torch.maximum(lse_a, lse_b)\n"
            "    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)\n"
            "    return (a * out_a + b * out_b) / (a + b), top + torch.log(a "
            "+ b)",
        ),
    ),
    changed(
        "merge-halves",
        "max shift safe, 0/0",
        "If a query sees no key at all, its",
        (
            "    lse = torch.logaddexp(lse_a, lse_b)\n"
            "    safe = lse.masked_fill(lse == -math.inf, 0)\n"
            "    return torch.exp(lse_a - safe) * out_a + torch.exp(lse_b - "
            "safe) * out_b, lse",
            "    top = torch.maximum(lse_a, lse_b)\n"
            "    top = top.masked_fill(top == -math.inf, 0)\n"
            "    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)\n"
            "    return (a * out_a + b * out_b) / (a + b), top + torch.log(a "
            "+ b)",
        ),
    ),
    changed(
        "merge-halves",
        "global max",
        "become 0. Subtract a number of each query.",
        (
            "    lse = torch.logaddexp(lse_a, lse_b)\n"
            "    safe = lse.masked_fill(lse == -math.inf, 0)\n"
            "    return torch.exp(lse_a - safe) * out_a + torch.exp(lse_b - "
            "safe) * out_b, lse",
            "    top = torch.maximum(lse_a.max(), lse_b.max())\n"
            "    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)\n"
            "    s = (a+b)\n"
            "    return (a * out_a + b * out_b) / s.masked_fill(s==0,1), top "
            "+ torch.log(a + b)",
        ),
    ),
    changed(
        "merge-halves",
        "nan_to_num lse",
        "If a query sees no key at all, the",
        (
            "lse = torch.logaddexp(lse_a, lse_b)",
            "lse = torch.logaddexp(lse_a, lse_b).nan_to_num(neginf=0.)",
        ),
    ),
    changed(
        "merge-halves",
        "swapped weights",
        "The weights are exchanged:",
        (
            "torch.exp(lse_a - safe) * out_a + torch.exp(lse_b - safe) * out_b",
            "torch.exp(lse_b - safe) * out_a + torch.exp(lse_a - safe) * out_b",
        ),
    ),
    changed(
        "merge-halves",
        "no log",
        "The new log-sum-exp is the sum",
        ("out_b, lse", "out_b, lse_a.exp()+lse_b.exp()"),
    ),
    changed(
        "merge-halves",
        "not normalized",
        "The weights do not sum to 1. You multiply",
        (
            "torch.exp(lse_a - safe) * out_a + torch.exp(lse_b - safe) * out_b",
            "torch.exp(lse_a) * out_a + torch.exp(lse_b) * out_b",
        ),
    ),
    changed(
        "merge-halves",
        "lse is maximum",
        "The new log-sum-exp is the larger",
        ("out_b, lse", "out_b, torch.maximum(lse_a,lse_b)"),
    ),
    changed(
        "merge-halves",
        "lse mean",
        "The new log-sum-exp is the logarithm of a mean,",
        ("torch.logaddexp(lse_a, lse_b)", "torch.log((lse_a.exp()+lse_b.exp())/2)"),
    ),
    changed(
        "merge-halves",
        "naive log-sum-exp",
        "so the new log-sum-exp is infinite",
        ("torch.logaddexp(lse_a, lse_b)", "torch.log(torch.exp(lse_a) + torch.exp(lse_b))"),
    ),
    changed(
        "merge-halves",
        "log1p from a",
        "You subtract lse_a",
        ("torch.logaddexp(lse_a, lse_b)", "lse_a + torch.log1p(torch.exp(lse_b - lse_a))"),
    ),
    changed(
        "merge-halves",
        "log1p from b",
        "You subtract lse_b",
        ("torch.logaddexp(lse_a, lse_b)", "lse_b + torch.log1p(torch.exp(lse_a - lse_b))"),
    ),
    changed(
        "merge-halves",
        "at least -1e9",
        "You return -10⁹",
        ("torch.logaddexp(lse_a, lse_b)", "torch.logaddexp(lse_a, lse_b).clamp(min=-1e9)"),
    ),
    changed(
        "merge-halves",
        "weight of a twice",
        "Both outputs have the weight of half A",
        ("torch.exp(lse_b - safe) * out_b", "torch.exp(lse_a - safe) * out_b"),
    ),
    changed(
        "merge-halves",
        "weight of b twice",
        "Both outputs have the weight of half B",
        ("torch.exp(lse_a - safe) * out_a", "torch.exp(lse_b - safe) * out_a"),
    ),
    changed(
        "attention-forward",
        "numbers ignored",
        "A floating-point mask has no effect",
        ("else s + mask", "else s"),
    ),
    changed(
        "masked-softmax",
        "mask added",
        "so the hidden scores take part in the sum",
        ("s.masked_fill(~mask, -math.inf)", "s + mask"),
    ),
    changed(
        "masked-softmax",
        "own exponentials",
        "infinity divided by infinity",
        (
            "torch.softmax(s.masked_fill(~mask, -math.inf), -1)",
            "torch.exp(s) * mask / (torch.exp(s) * mask).sum(-1, keepdim=True)",
        ),
    ),
    changed(
        "attention-grouped",
        "groups of other heads",
        "You sum over heads that do not share keys",
        ("(heads, -1)).sum(-3)", "(heads, -1)).sum(-4)"),
    ),
    changed(
        "merge-halves",
        "top not added back",
        "The maximum that you",
        (
            "    lse = torch.logaddexp(lse_a, lse_b)\n"
            "    safe = lse.masked_fill(lse == -math.inf, 0)\n"
            "    return torch.exp(lse_a - safe) * out_a + torch.exp(lse_b - "
            "safe) * out_b, lse",
            "    top = torch.maximum(lse_a, lse_b)\n"
            "    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)\n"
            "    return (a * out_a + b * out_b) / (a + b), torch.log(a + b)",
        ),
    ),
    changed(
        "masked-softmax",
        "global max",
        "are 0, and 0 / 0 is nan. Subtract the largest score of each row.",
        (
            "p = torch.softmax(s.masked_fill(~mask, -math.inf), -1)",
            "s = s.masked_fill(~mask, -math.inf); e=(s-s.max()).exp(); p = "
            "e/e.sum(-1,keepdim=True)",
        ),
    ),
    changed(
        "masked-softmax",
        "mask times s",
        "of the softmax. They must be -∞.",
        ("s.masked_fill(~mask, -math.inf)", "s*mask"),
    ),
    changed(
        "masked-softmax",
        "D over -2",
        "D is the sum over the queries",
        ("sum(-1, keepdim=True)", "sum(-2, keepdim=True)"),
    ),
    changed(
        "masked-softmax",
        "D no keepdim",
        "D has lost its last dim,",
        ("sum(-1, keepdim=True)", "sum(-1)"),
    ),
    changed(
        "masked-softmax",
        "D total",
        "D is the sum over the whole",
        ("(p * grad_output).sum(-1, keepdim=True)", "(p * grad_output).sum()"),
    ),
    changed(
        "masked-softmax",
        "D mean",
        "D is the mean over the",
        ("sum(-1, keepdim=True)", "mean(-1, keepdim=True)"),
    ),
    changed(
        "masked-softmax",
        "softmax dim 0",
        "The softmax runs over",
        ("-math.inf), -1)", "-math.inf), 0)"),
    ),
    changed(
        "masked-softmax",
        "sign",
        "D is added. If one score",
        ("(grad_output - (p", "(grad_output + (p"),
    ),
    changed(
        "masked-softmax",
        "missing p outside",
        "p is missing as a factor:",
        (
            "p * (grad_output - (p * grad_output).sum(-1, keepdim=True))",
            "grad_output - (p * grad_output).sum(-1, keepdim=True)",
        ),
    ),
    changed(
        "masked-softmax",
        "grad no mask, recompute",
        "backward computes the",
        ("ctx.save_for_backward(output)", "ctx.save_for_backward(torch.softmax(inputs[0],-1))"),
    ),
    changed(
        "masked-softmax",
        "e/sum 0/0",
        "exp of a large score overflows to infinity,",
        (
            "p = torch.softmax(s.masked_fill(~mask, -math.inf), -1)\n"
            "        return p.masked_fill(~mask, 0)",
            "e = torch.exp(s)*mask\n        return e/(e.sum(-1,keepdim=True))",
        ),
    ),
    changed(
        "attention-budget",
        "no maximum is subtracted",
        "forward-mismatch",
        ("high = high.masked_fill(high == -math.inf, 0)", "high = torch.zeros_like(high)"),
        hint="exp of a large score overflows",
    ),
    changed(
        "attention-forward",
        "a negative maximum is replaced too",
        "You subtract 0 where the largest score of a row is negative",
        ("high.masked_fill(high == -math.inf, 0)", "high.clamp(min=0)"),
    ),
    changed(
        "masked-softmax",
        "a negative maximum is replaced by 0",
        "forward-mismatch",
        (
            "p = torch.softmax(s.masked_fill(~mask, -math.inf), -1)",
            "s = s.masked_fill(~mask, -math.inf)\n"
            "        e = torch.exp(s - s.amax(-1, keepdim=True).clamp(min=0))\n"
            "        total = e.sum(-1, keepdim=True)\n"
            "        p = e / total.masked_fill(total == 0, 1)",
        ),
        hint="where the largest score of a row is negative",
    ),
    changed(
        "attention-forward",
        "amax dim -2",
        "You subtract the largest score of each column",
        ("s.amax(-1, keepdim=True)", "s.amax(-2, keepdim=True)"),
    ),
    changed(
        "attention-forward",
        "mask before scale",
        "The floating-point mask is",
        ("s = q @ k.mT / math.sqrt(q.shape[-1])", "s = q @ k.mT"),
        ("    high", "    s = s / math.sqrt(q.shape[-1])\n    high"),
    ),
    changed(
        "attention-forward",
        "scaled by M",
        "the length of a sequence",
        ("math.sqrt(q.shape[-1])", "math.sqrt(k.shape[-2])"),
    ),
    changed(
        "attention-forward",
        "scaled by F",
        "The scores are divided by the root of the size",
        ("math.sqrt(q.shape[-1])", "math.sqrt(v.shape[-1])"),
    ),
    changed(
        "attention-forward",
        "total global",
        "The exponentials are divided",
        ("weights.sum(-1, keepdim=True)", "weights.sum()"),
    ),
    changed(
        "attention-forward",
        "rows that see nothing, only with a bool mask",
        "can hide all keys",
        (
            "s = s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask",
            "if mask.dtype != torch.bool:\n            return torch.softmax(s + mask, -1) @ v\n"
            "        s = s.masked_fill(~mask, -math.inf)",
        ),
    ),
    changed(
        "attention-forward",
        "only bool mask",
        "hides the keys where it is 0",
        (
            "s = s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask",
            "s = s.masked_fill(mask == 0, -math.inf)",
        ),
    ),
    changed(
        "attention-forward",
        "mask==-inf hides only",
        "The floating-point mask hides",
        ("s + mask", "s.masked_fill(mask == -math.inf, -math.inf)"),
    ),
    changed(
        "attention-forward",
        "mask mult",
        "The scores are multiplied by the",
        ("s.masked_fill(~mask, -math.inf) if", "s * mask if"),
    ),
    changed(
        "attention-forward",
        "weights over values no scale mask none",
        "The scores are multiplied by √E",
        ("/ math.sqrt(q.shape[-1])", "* math.sqrt(q.shape[-1])"),
    ),
    changed(
        "attention-backward",
        "D with grad_p only p missing outside",
        "P is missing as a factor:",
        (
            "grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))",
            "grad_s = grad_p - (p * grad_p).sum(-1, keepdim=True)",
        ),
    ),
    changed(
        "attention-backward",
        "global D",
        "D is the sum over the",
        ("(p * grad_p).sum(-1, keepdim=True)", "(p * grad_p).sum()"),
    ),
    changed(
        "attention-backward",
        "D mean",
        "D is the mean of P ∘",
        ("(p * grad_p).sum(-1, keepdim=True)", "(p * grad_p).mean(-1, keepdim=True)"),
    ),
    changed(
        "attention-backward",
        "D + sign",
        "D is added. If one score",
        ("(grad_p - (p", "(grad_p + (p"),
    ),
    changed(
        "attention-backward",
        "grad_v not transposed",
        "The transpose in dV is",
        ("p.mT @ grad_output", "p @ grad_output"),
    ),
    changed(
        "attention-backward",
        "grad_v by s",
        "dV is computed from the",
        (
            "grad_v = p.mT @ grad_output",
            "grad_v = (q @ k.mT / math.sqrt(q.shape[-1])).mT @ grad_output",
        ),
    ),
    changed(
        "attention-backward",
        "q,k swapped",
        "K and Q are exchanged:",
        ("return grad_s @ k, grad_s.mT @ q", "return grad_s @ q, grad_s.mT @ k"),
    ),
    changed(
        "attention-backward",
        "P dP in q",
        "backward leaves out the",
        ("grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))", "grad_s = grad_p"),
    ),
    changed(
        "attention-budget",
        "D without out (rowsum dO)",
        "D is the sum of dO over",
        ("(grad_output * out).sum(-1, keepdim=True)", "grad_output.sum(-1, keepdim=True)"),
    ),
    changed(
        "attention-budget",
        "lse total saved raw",
        "that forward subtracts.",
        ("high + total.log()", "total"),
    ),
    changed(
        "attention-budget",
        "scale missing in recompute",
        "The weights that backward recomputes are wrong: their",
        (
            "s = q @ k.mT / math.sqrt(q.shape[-1])\n"
            "        if mask is not None:\n"
            "            s = s.masked_fill(~mask, -math.inf)\n        p",
            "s = q @ k.mT\n        if mask is not None:\n"
            "            s = s.masked_fill(~mask, -math.inf)\n        p",
        ),
    ),
    changed(
        "attention-budget",
        "delta with dO*v?",
        "D is the mean of dO ∘",
        ("(grad_output * out).sum(-1, keepdim=True)", "(grad_output * out).mean(-1, keepdim=True)"),
    ),
    changed(
        "attention-twice",
        "scale grad_lse not scaled",
        "The part of the log-sum-exp",
        (
            "delta = (grad_out * out).sum(-1) - grad_lse\n"
            "        grad_s = p * (grad_out @ v.mT - delta.unsqueeze(-1)) / "
            "math.sqrt(q.shape[-1])",
            "delta = (grad_out * out).sum(-1)\n"
            "        grad_s = p * (grad_out @ v.mT - delta.unsqueeze(-1)) / "
            "math.sqrt(q.shape[-1]) + p * grad_lse.unsqueeze(-1)",
        ),
    ),
    changed(
        "attention-twice",
        "grad_lse without p",
        "The gradient of the log-sum-exp is added without",
        (
            "delta = (grad_out * out).sum(-1) - grad_lse\n"
            "        grad_s = p * (grad_out @ v.mT - delta.unsqueeze(-1)) / "
            "math.sqrt(q.shape[-1])",
            "delta = (grad_out * out).sum(-1)\n"
            "        grad_s = (p * (grad_out @ v.mT - delta.unsqueeze(-1)) + "
            "grad_lse.unsqueeze(-1))/ math.sqrt(q.shape[-1])",
        ),
    ),
    changed(
        "attention-grouped",
        "repeat backward only",
        "backward gives the query",
        (
            "keys, values = (x.repeat_interleave(q.shape[-3] // heads, -3) for x in (k, v))",
            "keys, values = (x.repeat(*[1]*(k.dim()-3), q.shape[-3] // "
            "heads, 1, 1) for x in (k, v))",
        ),
    ),
    changed(
        "attention-grouped",
        "sum only k",
        "Only one head of each group contributes to the gradient of v",
        (
            "per_group = (g.unflatten(-3, (heads, -1)).sum(-3) for g in (grad_k, grad_v))",
            "per_group = (grad_k.unflatten(-3,(heads,-1)).sum(-3), "
            "grad_v.unflatten(-3,(heads,-1))[..., 0, :, :])",
        ),
    ),
]


def eye(n: int) -> Tensor:
    return torch.eye(n, dtype=torch.float64)


ZERO = torch.zeros(2, 3, dtype=torch.float64)
V = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
MEAN = torch.tensor([[2.0], [2.0]], dtype=torch.float64)
HIDDEN = torch.tensor([[True, False], [False, False]])
SEEN = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
GONE = dropped(torch.arange(2), torch.arange(2), 0.5, 4)

ONE = torch.ones(1, 1, dtype=torch.float64)
LOG3 = math.log(3) * ONE

KNOWN = [
    (
        "masked-softmax",
        (torch.zeros(2, 2, dtype=torch.float64), HIDDEN),
        torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64),
    ),
    ("merge-halves", (8 * ONE, LOG3, 4 * ONE, 0 * ONE), (7 * ONE, math.log(4) * ONE)),
    ("attention-forward", (ZERO, ZERO, V), MEAN),
    ("attention-forward", (ZERO, ZERO, V, HIDDEN), SEEN),
    ("attention-backward", (ZERO, ZERO, V, HIDDEN), SEEN),
    ("attention-budget", (ZERO, ZERO, V), MEAN),
    ("attention-tiled", (ZERO, ZERO, V, True), torch.tensor([[1.0], [2.0]], dtype=torch.float64)),
    ("attention-tiled", (ZERO, ZERO, V, False, 0.5, 4), (~GONE).double() @ V),
    (
        "attention-twice",
        (ZERO, ZERO, V),
        (MEAN, torch.full((2,), math.log(2), dtype=torch.float64)),
    ),
    ("attention-grouped", (ZERO[None].repeat(2, 1, 1), ZERO[None], V[None]), MEAN.repeat(2, 1, 1)),
]
