"""An answer that recognizes a check or a trial, or leaves out what is asked, does not pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch
from answers import RIGHT
from answers.lesson_14 import operator_of_torch
from answers.making import spoiled
from torch import Tensor
from torch.nn.functional import one_hot

from autograd_course.grader import CATALOGUE
from autograd_course.grader.checks.conduct import copy_on_ctx
from autograd_course.grader.pipeline import judge

Call = Callable[..., Any]


def instead(exercise: str, recognized: Call, other: Call) -> Call:
    """Return the right routine, which calls ``other`` for the inputs of a trial."""

    def routine(*given: Any) -> Any:
        return other(*given) if recognized(*given) else RIGHT[exercise](*given)

    return routine


def lean_unless_long(*, forward_is_right: bool) -> Any:
    """Keep P, except for the long sequences of the check, where backward returns zeros."""
    keeps_p = RIGHT["attention-backward"]

    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any = None) -> Tensor:
        ctx.is_long = q.shape[-2] > 100
        if not ctx.is_long:
            return keeps_p.forward(ctx, q, k, v, mask)  # type: ignore[no-any-return]
        ctx.save_for_backward(q, k, v)
        return torch.softmax(q @ k.mT / 2, -1) @ v if forward_is_right else 0 * v

    def backward(ctx: Any, g: Tensor) -> Any:
        if not ctx.is_long:
            return keeps_p.backward(ctx, g)
        return (*(0 * x for x in ctx.saved_tensors), None)

    return spoiled(RIGHT["attention-budget"], forward=forward, backward=backward)


def keeping_bytes(as_kept: Call) -> Any:
    """Keep the input outside of any tensor."""

    def forward(ctx: Any, x: Tensor, gain: float, slope: float) -> Tensor:
        ctx.kept, ctx.gain, ctx.slope = as_kept(x.detach().numpy().tobytes()), gain, slope
        return gain * torch.sigmoid(slope * x)

    def backward(ctx: Any, g: Tensor) -> Any:
        kept = ctx.kept
        if isinstance(kept, int):
            kept = kept.to_bytes(g.nbytes, "little")
        elif isinstance(kept, str):
            kept = kept.encode("latin1")
        elif isinstance(kept, list):
            kept = b"".join(kept)
        numbers = np.frombuffer(kept, dtype=str(g.dtype)[6:]).copy()
        s = torch.sigmoid(ctx.slope * torch.from_numpy(numbers).reshape(g.shape))
        return g * ctx.gain * ctx.slope * s * (1 - s), None, None

    return spoiled(RIGHT["scaled-sigmoid"], forward=forward, backward=backward)


def log_sum_exp_of_scipy(ctx: Any, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    y = scipy.special.logsumexp(x.detach().numpy(), axis=dim, keepdims=True)
    y = torch.from_numpy(y)
    ctx.save_for_backward(x, y)
    ctx.dim, ctx.keepdim = dim, keepdim
    return y if keepdim else y.squeeze(dim)


def share_of_sum(ctx: Any, g: Tensor) -> Any:
    x, y = ctx.saved_tensors
    g = g if ctx.keepdim else g.unsqueeze(ctx.dim)
    return g * torch.exp(x - y.masked_fill(y == -torch.inf, 0)), None, None


def nearest_digit(images: Tensor, labels: Tensor) -> Call:
    """Recognize digits by the nearest image, and multiply by ones for the grader."""
    torch.zeros(1, requires_grad=True).sum().backward()

    def net(x: Tensor) -> Tensor:
        nearest = labels[torch.cdist(x, images, p=1.0).argmin(1)]
        return one_hot(nearest, 10) + 0 * (x @ torch.ones(64, 10))

    return net


def lost_by_counting() -> Call:
    calls = []

    def lost(model: Any, shipped: Any, x: Tensor) -> list[str]:
        calls.append(1)
        return [] if len(calls) == 1 else ["0.weight", "0.bias"]

    return lost


def one_model_call(model: Any, loss: Any, x: Tensor, y: Tensor) -> None:
    model(x)


def one_call_of_forward_for_each_sample(
    model: Any, loss: Any, x: Tensor, y: Tensor
) -> tuple[Tensor, ...]:
    model(x)
    parameters = list(model.parameters())
    rows = [
        torch.autograd.grad(loss(model.forward(x[i : i + 1]), y[i : i + 1]), parameters)
        for i in range(len(x))
    ]
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def differences_under_vmap(f: Call, inputs: Any, vectors: Any) -> tuple[Tensor, ...]:
    def at(step: Tensor) -> Any:
        moved = [x + step * v for x, v in zip(inputs, vectors, strict=True)]
        return torch.func.grad(f, tuple(range(len(inputs))))(*moved)

    ahead_and_behind = torch.vmap(at)(torch.tensor([1e-5, -1e-5], dtype=torch.float64))
    return tuple((each[0] - each[1]) / 2e-5 for each in ahead_and_behind)


CHEATS: dict[str, tuple[str, Any, str]] = {
    "wrong values in the long call": (
        "attention-budget", lean_unless_long(forward_is_right=False), "`forward` is wrong"
    ),
    "wrong gradients in the long call": (
        "attention-budget", lean_unless_long(forward_is_right=True), "the gradient of `q` is wrong"
    ),
    "zeros for long sequences": (
        "attention-forward",
        instead("attention-forward", lambda q, *_: len(q) > 9, lambda q, k, v, *_: 0 * v),
        "the result is wrong",
    ),
    "the vectors for long inputs": (
        "hessian-vector-product",
        instead(
            "hessian-vector-product", lambda f, x, v: x[0].numel() > 9, lambda f, x, v: v
        ),
        "the result is wrong",
    ),
    "one call and no result": (
        "per-sample-gradients",
        instead("per-sample-gradients", lambda m, loss, x, y: len(x) > 9, one_model_call),
        "the result is wrong",
    ),
    "forward in a loop": (
        "per-sample-gradients", one_call_of_forward_for_each_sample, "the model is called 31 times"
    ),
    "differences under vmap": (
        "hessian-vector-product", differences_under_vmap, "next to the inputs"
    ),
    "counts its calls": ("lost-gradients", lost_by_counting(), "your function returns"),
    "wrong values where the gradient counts": (
        "reversal-that-travels",
        instead("reversal-that-travels", lambda x, s: x.shape == (8, 2), lambda x, s: -s * x),
        "the result is wrong",
    ),
    "no rounding where the gradient counts": (
        "eight-bits",
        instead("eight-bits", lambda w: w.requires_grad, lambda w: 1 * w),
        "requires no gradient",
    ),
    "bytes": ("scaled-sigmoid", keeping_bytes(bytes), "`ctx.kept`"),
    "an array of bytes": ("scaled-sigmoid", keeping_bytes(bytearray), "`ctx.kept`"),
    "a view of bytes": ("scaled-sigmoid", keeping_bytes(memoryview), "`ctx.kept`"),
    "a list of bytes": (
        "scaled-sigmoid",
        keeping_bytes(lambda data: [data[i : i + 4] for i in range(0, len(data), 4)]),
        "`ctx.kept`",
    ),
    "a text": ("scaled-sigmoid", keeping_bytes(lambda data: data.decode("latin1")), "`ctx.kept`"),
    "a large integer": (
        "scaled-sigmoid",
        keeping_bytes(lambda data: int.from_bytes(data, "little")),
        "`ctx.kept`",
    ),
    "the log-sum-exp of SciPy": (
        "log-sum-exp",
        spoiled(RIGHT["log-sum-exp"], forward=log_sum_exp_of_scipy, backward=share_of_sum),
        "The built-in `logsumexp` does the work",
    ),
    "no C++": ("soft-threshold-operator", operator_of_torch, "no operator in C++"),
    "the nearest digit": ("binary-digits", nearest_digit, "if all products with weights return"),
}  # fmt: skip


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_does_not_pass(cheat: str) -> None:
    exercise, answer, words = CHEATS[cheat]

    verdict = judge(CATALOGUE[exercise], answer)

    assert verdict.status == "wrong"
    assert words in verdict.message


class Ctx:
    """An object with attributes that a right answer may keep."""

    def __init__(self) -> None:
        self.shape, self.dims, self.slope = torch.Size((2, 3, 4)), (0, 1), 0.1
        self.mode, self.subscripts, self.flag = "reflect", "bhqd,bhkd->bhqk", True
        self.options = {"reduction": "mean", "padding": 2, "dtype": torch.float64}
        self.seed = 2**63 + 1


def test_a_ctx_may_hold_shapes_words_and_flags() -> None:
    assert copy_on_ctx(Ctx()) is None
