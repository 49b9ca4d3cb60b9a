"""After a wrong choice, the errors are those that docs/function_or_operator.md describes."""

from __future__ import annotations

from typing import Any

import pytest
import scipy.special
import surviving
import torch
from surviving import Separate, X, halved
from torch import Tensor, nn
from torch.autograd import Function
from torch.func import grad, jvp

from autograd_course.ship import quiet

pytestmark = pytest.mark.slow

WEIGHT = torch.eye(3)


def in_forward_mode(call: Any) -> Tensor:
    with quiet():
        return jvp(lambda x: call(x, WEIGHT), (X,), (torch.ones_like(X),))[1]


def test_a_function_without_jvp_raises_in_forward_mode() -> None:
    with pytest.raises((RuntimeError, NotImplementedError), match="jvp"):
        in_forward_mode(Separate.apply)


def test_an_operator_raises_in_grad_and_returns_zeros_in_forward_mode() -> None:
    with pytest.raises(RuntimeError, match="setup_context"):
        grad(lambda x: halved(x, WEIGHT).sum())(X)

    assert torch.equal(in_forward_mode(halved), torch.zeros(2, 3))


class Expi(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.as_tensor(scipy.special.expi(x.numpy(force=True)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * x.exp() / x


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Expi.apply(x)


def test_a_function_around_other_code_breaks_the_graph_and_cannot_be_exported() -> None:
    x = torch.ones(3, requires_grad=True)
    torch._dynamo.reset()
    with quiet(), pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(Model(), backend="aot_eager", fullgraph=True)(x)
    torch._dynamo.reset()
    with quiet():
        torch.testing.assert_close(torch.compile(Model(), backend="aot_eager")(x), Model()(x))
    with quiet(), pytest.raises(RuntimeError, match="numpy"):
        torch.export.export(Model(), (x,))


class Hooked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = 2 * x
        if y.requires_grad:
            y.register_hook(torch.neg)
        return y


def test_export_drops_a_hook_without_a_message() -> None:
    x = torch.ones(1, requires_grad=True)
    exported = torch.export.export(Hooked(), (x,)).module()

    slopes = [torch.autograd.grad(model(x), x)[0].item() for model in (Hooked(), exported)]
    assert slopes == [-2, 2]


def test_torch_func_sees_a_function_with_setup_context_and_a_vmap_rule() -> None:
    slopes = torch.func.vmap(grad(lambda x: surviving.Batched.apply(x[None], WEIGHT).sum()))(X)

    assert torch.equal(slopes, torch.full((2, 3), 0.5))
