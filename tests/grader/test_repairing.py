"""Changes that make a wrong answer right, in routines, in forward and in constraints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograd_course.grader import CATALOGUE, repairing
from autograd_course.grader.pipeline import judge

PENALTY = """
import torch


def penalty(critic, x):
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    norms = gradient.flatten(1).norm(dim=1)
    return (norms - 1).square().mean()
"""
PRODUCT = """
import torch


def product(f, inputs, vectors):
    leaves = tuple(x.detach().requires_grad_() for x in inputs)
    gradients = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    dots = sum((g * v).sum() for g, v in zip(gradients, vectors))
    return torch.autograd.grad(dots, leaves, materialize_grads=True)
"""
NORM = """
import torch


class BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):
        axes = [d for d in range(x.dim()) if d != 1]
        spread = x.var(axes, correction=0, keepdim=True) + eps
        y = (x - x.mean(axes, keepdim=True)) / spread.sqrt()
        ctx.save_for_backward(y, spread)
        return y

    @staticmethod
    def backward(ctx, g):
        y, spread = ctx.saved_tensors
        axes = [d for d in range(y.dim()) if d != 1]
        g = g - g.mean(axes, keepdim=True) - y * (g * y).mean(axes, keepdim=True)
        return g / spread.sqrt(), None
"""
CLIPPED = """
import torch


class ClippedReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, ceiling):
        ctx.save_for_backward(x)
        ctx.ceiling = ceiling
        return x.clamp(0, ceiling)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        inside = (x >= 0) & (x < ctx.ceiling)
        return 2 * grad_output * inside, None
"""


FROZEN = """
import torch


class FrozenTargetLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, prediction, target, weight):
        ctx.save_for_backward(prediction, target, weight)
        return (weight * (prediction - target) ** 2).mean()

    @staticmethod
    def backward(ctx, grad_output):
        if not ctx.needs_input_grad[0]:
            return None, None, None
        prediction, target, weight = ctx.saved_tensors
        grad = 2 * weight * (prediction - target) / prediction.numel()
        return grad_output * grad, None, None
"""


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairing, "SECONDS", 30.0)
    monkeypatch.setattr("autograd_doctor._repair.search.SECONDS", 10.0)


def written(path: Path, text: str) -> Callable[..., Any]:
    """Return the last object that a file defines."""
    path.write_text(text, encoding="utf-8")
    scope: dict[str, Any] = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), scope)
    found: Callable[..., Any] = [*scope.values()][-1]
    return found


ROWS = {
    "create_graph forgotten": (
        "hessian-vector-product", PRODUCT, ", create_graph=True", "", "create_graph=True",
    ),
    "retain_graph for create_graph": (
        "hessian-vector-product", PRODUCT, "create_graph", "retain_graph", "create_graph=True",
    ),
    "a penalty without a graph": (
        "gradient-penalty", PENALTY, ", create_graph=True", "", "create_graph=True",
    ),
    "one norm over all samples": (
        "gradient-penalty", PENALTY, "gradient.flatten(1).norm(dim=1)", "gradient.norm()",
        "norms = gradient.flatten(1).norm(dim=1)",
    ),
    "the square of the mean": (
        "gradient-penalty", PENALTY, ".square().mean()", ".mean().square()",
        "return (norms - 1).square().mean()",
    ),
    "a flag of any input": (
        "frozen-target", FROZEN, "ctx.needs_input_grad[0]", "any(ctx.needs_input_grad)",
        "if not ctx.needs_input_grad[0]:",
    ),
    "no flag": (
        "frozen-target", FROZEN,
        "if not ctx.needs_input_grad[0]:\n            return None, None, None\n        ", "",
        "if not ctx.needs_input_grad[0]:",
    ),
    "the unbiased variance": (
        "batch-norm", NORM, "correction=0, ", "", "correction=0",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("exercise", "right", "part", "mistake", "said"), ROWS.values(), ids=list(ROWS)
)
def test_the_line_is_found_on_which_the_result_depends(
    exercise: str, right: str, part: str, mistake: str, said: str, tmp_path: Path
) -> None:
    assert judge(CATALOGUE[exercise], written(tmp_path / "right.py", right)).status == "passed"
    verdict = judge(
        CATALOGUE[exercise], written(tmp_path / "wrong.py", right.replace(part, mistake))
    )
    assert verdict.search is not None
    repair = verdict.search()
    assert repair is not None

    (change,) = repair.changes
    assert said in change.after[0]
    assert repair.left == ""


def test_a_constraint_that_is_still_broken_is_told(tmp_path: Path) -> None:
    verdict = judge(CATALOGUE["clipped-relu"], written(tmp_path / "clipped.py", CLIPPED))
    assert verdict.search is not None
    repair = verdict.search()
    assert repair is not None

    assert [line.strip() for line in repair.changes[0].after] == [
        "return grad_output * inside, None"
    ]
    assert "With this change, values are right. Still wrong after it: At x = [0, 2]" in str(repair)
    assert not repair.kinds


def test_a_right_answer_is_not_searched(tmp_path: Path) -> None:
    verdict = judge(CATALOGUE["gradient-penalty"], written(tmp_path / "right.py", PENALTY))

    assert (verdict.status, verdict.search) == ("passed", None)
