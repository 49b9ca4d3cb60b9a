"""Second derivatives, transforms and torch.compile: what diagnose promises apart from rules."""

from __future__ import annotations

import importlib
import logging

import pytest
import torch
from autograd_doctor import diagnose
from autograd_doctor._execution.session import subject_of
from autograd_doctor._probes.core import probe
from autograd_doctor._probes.second_order import second_order
from cases.making import X, Y, raw, saving
from cases.order import Exp, once, polar, polar_backward, save_inputs, split
from torch import Tensor

pytestmark = pytest.mark.slow

detached_sine = saving(torch.sin, lambda x, g: x.detach().cos() * g)


@pytest.mark.parametrize(
    ("asked", "severities", "ok"),
    [(None, ["info"], True), (True, ["error"], False), (False, [], True)],
)
def test_how_bad_a_missing_second_derivative_is_depends_on_who_asks(asked, severities, ok) -> None:
    diagnosis = diagnose(detached_sine, X, double_backward=asked)

    assert [finding.severity for finding in diagnosis.findings] == severities
    assert diagnosis.ok is ok


def test_the_witness_says_which_second_derivative_is_missing() -> None:
    def forward(ctx, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    def backward(ctx, g: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return y.detach() * g, x * g

    half = raw(forward, backward)

    (finding,) = diagnose(half, (X, Y), intentional="wasted-gradient").findings

    assert finding.evidence["witness"].startswith(
        "derivative of the gradient of x with respect to y, along a random direction: 0, should be "
    )


def snake(slope: float) -> type[torch.autograd.Function]:
    """Return ``x + sin(2x) / 2`` with a second Function for its derivative."""

    def derivative(ctx, x: Tensor, g: Tensor) -> Tensor:
        ctx.save_for_backward(x, g)
        return g * (1 + torch.cos(2 * x))

    def second(ctx, gg: Tensor) -> tuple[Tensor, Tensor]:
        x, g = ctx.saved_tensors
        return -slope * gg * g * torch.sin(2 * x), gg * (1 + torch.cos(2 * x))

    inner = raw(derivative, second)

    def backward(ctx, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return inner.apply(x, g)

    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x + torch.sin(2 * x) / 2

    return raw(forward, backward)


@pytest.mark.parametrize("asked", [None, True])
def test_a_function_that_backward_applies_must_be_right_too(asked) -> None:
    diagnosis = diagnose(snake(1.0), X, double_backward=asked)

    (finding,) = diagnosis.findings
    assert diagnosis.ok is False
    assert finding.rule == "constant-factor"
    assert finding.message.startswith("`backward` applies `Made`, whose own `backward` is wrong")
    assert diagnose(snake(2.0), X, double_backward=asked).findings == ()


def test_evidence_of_second_order_travels() -> None:
    seen = probe(subject_of(raw(polar, polar_backward), 2), (X, Y), (0, 1), 0, (second_order,))

    assert seen.second_order is not None


# PyTorch's behavior, on which messages depend


def test_autograd_grad_passes_over_what_once_differentiable_leaves_to_raise() -> None:
    exp = once(torch.exp, lambda x, g: x.exp() * g)
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(exp.apply(x).square().sum(), x, create_graph=True)
    penalty = grad.square().sum() + x.pow(3).sum()

    (second,) = torch.autograd.grad(penalty, x, retain_graph=True)

    torch.testing.assert_close(second, 3 * X**2)  # the first term is missing, without an error
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        penalty.backward()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own
def test_forward_mode_alone_asks_for_no_gradient() -> None:
    asked = []

    def setup(ctx, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        asked.append(ctx.needs_input_grad)
        save_inputs(ctx, inputs, output)

    square = split(lambda x: x * x, lambda ctx, g: g, setup=setup, jvp=lambda ctx, t: t)
    with torch.autograd.forward_ad.dual_level():
        square.apply(torch.autograd.forward_ad.make_dual(X.clone(), X))

    assert asked == [(False,)]


# torch.compile


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own
def test_what_the_caller_has_compiled_stays_compiled() -> None:
    from torch._dynamo.utils import counters

    @torch.compile(backend="aot_eager")
    def caller(x: Tensor) -> Tensor:
        return 2 * Exp.apply(x)

    caller(X)
    before = logging.root.manager.disable
    for _ in range(10):  # more often than dynamo recompiles the same code
        assert diagnose(Exp, X, level="full").ok
    graphs = counters["stats"]["unique_graphs"]
    caller(X)

    assert counters["stats"]["unique_graphs"] == graphs
    assert logging.root.manager.disable == before


def test_where_torch_compile_does_not_work_nothing_is_said_of_it(monkeypatch) -> None:
    compiled = importlib.import_module("autograd_doctor._probes.transforms")

    def unavailable(*_: object, **__: object) -> None:
        raise RuntimeError("torch.compile is not supported here")

    monkeypatch.setattr(torch, "compile", unavailable)
    compiled._available.cache_clear()
    try:
        found = diagnose(Exp, X, level="full").findings
    finally:
        compiled._available.cache_clear()

    assert "compile-mismatch" not in [finding.rule for finding in found]
