"""The place where a second derivative loses its graph: its names, its line, and the repair."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from autograd_doctor import declare, diagnose
from autograd_doctor._probes import core
from autograd_doctor._repair import search, verification
from cases.making import draw
from torch import Tensor
from torch.autograd import Function

X, W = draw(3, 4), draw(4)


@pytest.fixture(autouse=True)
def there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all probes even on a busy machine."""
    monkeypatch.setattr(core, "SLOW", 10.0)
    monkeypatch.setattr(search, "SECONDS", 4.0)
    monkeypatch.setattr(verification, "SECONDS", 20.0)


class SavedSigmoid(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        x, s = ctx.saved_tensors
        return grad_output * s * (1 + x * (1 - s))


class SavedSoftmax(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        p = torch.softmax(x, -1)
        ctx.save_for_backward(p)
        return torch.logsumexp(x, -1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (p,) = ctx.saved_tensors
        return grad_output[..., None] * p


class SavedInSetup(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.exp().square()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0].exp())

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (e,) = ctx.saved_tensors
        return 2 * grad_output * e * e


class SoftmaxSaved(Function):
    """The cross-entropy of each row; it saves the softmax, which has no graph in backward."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        picked = logits.gather(-1, target[:, None])[:, 0]
        ctx.save_for_backward(torch.softmax(logits, -1), target)
        return torch.logsumexp(logits, -1) - picked

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        p, target = ctx.saved_tensors
        onehot = torch.nn.functional.one_hot(target, p.shape[-1])
        return (p - onehot) * grad_output[:, None], None


class OutputSavedInAnotherShape(Function):
    """The log-sum-exp of each row; it saves a copy of the output, which has no graph."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.logsumexp(x, -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        (x,) = inputs
        ctx.save_for_backward(x, output.unsqueeze(-1))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        return torch.exp(x - y) * grad_output.unsqueeze(-1)


class BothSaved(Function):
    """Two intermediate values are saved, and each alone spoils another second derivative."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.sin(x).exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        (x,) = inputs
        ctx.save_for_backward(x.sin().exp(), x.cos())

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        y, slope = ctx.saved_tensors
        return grad_output * y * slope


class TwoSaved(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        norm = x.norm(dim=-1, keepdim=True)
        unit = x / norm
        largest = x.argmax(-1)
        ctx.save_for_backward(norm, unit, largest)
        return unit.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        n, u, _ = ctx.saved_tensors
        return (grad_output - u * (grad_output * u).sum(-1, keepdim=True)) / n


class NumberOnCtx(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.norm = x.norm().item()
        return x / ctx.norm

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        n = ctx.norm
        return grad_output / n - x * (grad_output * x).sum() / n**3


class OutputOnCtx(Function):
    """The output is on ctx without its graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.exp()
        ctx.y = y.detach()
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output * ctx.y


class Detached(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return (x * x) @ w

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, w = (t.detach() for t in ctx.saved_tensors)
        return 2 * grad_output[:, None] * x * w, (x * x).T @ grad_output


@torch.no_grad()
def slope(x: Tensor) -> Tensor:
    return 3 * x * x


class HelperWithoutGrad(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * slope(x)


def cube_root(x: Tensor) -> Tensor:
    return torch.from_numpy(x.detach().numpy() ** (1 / 3))


class SolvedAgain(Function):
    """Forward and backward both call a solver, which has no graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return cube_root(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output / (3 * cube_root(x) ** 2)


def test_a_solver_that_backward_calls_again_is_named() -> None:
    finding = diagnose(SolvedAgain, X.abs() + 1, double_backward=True).findings[0]

    assert finding.rule == "silent-double-backward"
    assert "`backward` calls `cube_root`." in finding.message
    assert "`forward` calls `cube_root`, too." in finding.hint


def exponential(x: Tensor) -> Tensor:
    return x.detach().exp()


def power(rate: float, x: Tensor) -> Tensor:
    return (rate * x).exp()


class PartialForward(Function):
    """Forward is a partial function, which has no source of its own."""

    forward = staticmethod(partial(power, 1.0))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * exponential(x)


def test_a_forward_without_source_calls_no_known_solver() -> None:
    finding = diagnose(PartialForward, X, double_backward=True).findings[0]

    assert finding.rule == "silent-double-backward"
    assert "In `backward`, `.detach()` gives values without a graph." in finding.message


@dataclass(frozen=True)
class Lost:
    fn: type[Function]
    inputs: tuple[Tensor, ...]
    names: list[str]
    line: str
    repaired: list[str]  # the lines after the repair


LOST = (
    Lost(SavedSigmoid, (X,), ["s"], "ctx.save_for_backward(x, s)",
         ["ctx.save_for_backward(x)", "(x,) = ctx.saved_tensors", "s = torch.sigmoid(x)"]),
    Lost(SavedSoftmax, (X,), ["p"], "ctx.save_for_backward(p)",
         ["ctx.save_for_backward(x)", "(x,) = ctx.saved_tensors", "p = torch.softmax(x, -1)"]),
    Lost(SavedInSetup, (X,), ["inputs[0].exp()"], "ctx.save_for_backward(inputs[0].exp())",
         ["ctx.save_for_backward(inputs[0])", "(x,) = ctx.saved_tensors", "e = x.exp()"]),
    Lost(SoftmaxSaved, (X, torch.tensor([1, 3, 0])), ["torch.softmax(logits, -1)"],
         "ctx.save_for_backward(torch.softmax(logits, -1), target)",
         ["ctx.save_for_backward(target, logits)", "target, logits = ctx.saved_tensors",
          "p = torch.softmax(logits, -1)"]),
    Lost(OutputSavedInAnotherShape, (X,), ["output.unsqueeze(-1)"],
         "ctx.save_for_backward(x, output.unsqueeze(-1))",
         ["ctx.save_for_backward(x, output)", "x, output = ctx.saved_tensors",
          "y = output.unsqueeze(-1)"]),
    Lost(BothSaved, (X,), ["x.sin().exp()", "x.cos()"],
         "ctx.save_for_backward(x.sin().exp(), x.cos())",
         ["ctx.save_for_backward(x)", "(x,) = ctx.saved_tensors", "y = x.sin().exp()",
          "slope = x.cos()"]),
    Lost(TwoSaved, (X,), ["norm", "unit"], "ctx.save_for_backward(norm, unit, largest)",
         ["ctx.save_for_backward(largest, x)", "_, x = ctx.saved_tensors",
          "n = x.norm(dim=-1, keepdim=True)", "u = x / n"]),
    Lost(NumberOnCtx, (X,), ["ctx.norm"], "ctx.norm = x.norm().item()",
         ["(x,) = ctx.saved_tensors", "norm = x.norm()", "n = norm"]),
    Lost(Detached, (X, W), [".detach()"], "x, w = (t.detach() for t in ctx.saved_tensors)",
         ["x, w = (t for t in ctx.saved_tensors)"]),
    Lost(HelperWithoutGrad, (X,), ["torch.no_grad()"], "@torch.no_grad()", []),
)  # fmt: skip


@pytest.mark.parametrize("lost", LOST, ids=lambda it: it.fn.__name__)
def test_the_place_is_named_and_repaired(lost: Lost) -> None:
    finding = diagnose(lost.fn, lost.inputs, double_backward=True).findings[0]

    assert finding.rule == "silent-double-backward"
    assert (finding.evidence["lost"], finding.evidence["line"]) == (lost.names, lost.line)
    assert all(f"`{name}`" in finding.message for name in lost.names)
    changes = finding.repair.changes if finding.repair else ()
    assert [line.strip() for change in changes for line in change.after] == lost.repaired


@pytest.mark.parametrize("lost", LOST, ids=lambda it: it.fn.__name__)
def test_a_note_says_where(lost: Lost) -> None:
    report = " ".join(str(diagnose(lost.fn, lost.inputs)).split())
    names = " and ".join(f"`{name}`" for name in lost.names)

    assert f"The graph ends at {names} in `{lost.line}`. Pass `double_backward=True`" in report


class WrongInside(Function):
    """Its backward calls another Function, whose backward is wrong. The graph is complete."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        cube = x**3
        ctx.save_for_backward(x, cube.sign())
        return cube

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        x, _ = ctx.saved_tensors
        return grad_output * WrongSlope.apply(x)


@declare(surrogate=lambda x: 5 * x * x / 2)
class WrongSlope(Function):
    """Its ``backward`` is declared, so it is not examined again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return 3 * x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 5 * x * grad_output


def test_where_nothing_is_lost_no_place_is_named() -> None:
    finding = diagnose(WrongInside, X, double_backward=True).findings[0]

    assert finding.rule == "silent-double-backward"
    assert "lost" not in finding.evidence
    assert "calls another Function whose `backward` is wrong" in finding.message


def test_a_copy_of_an_output_on_ctx_is_named() -> None:
    found = diagnose(OutputOnCtx, X, double_backward=True).findings
    finding = next(it for it in found if it.rule == "silent-double-backward")

    assert "`ctx.y` is a copy of `y` without a graph." in finding.message
    assert finding.hint.startswith("Save `y` itself with `ctx.save_for_backward`.")
