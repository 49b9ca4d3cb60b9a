"""Unnecessary computations and unnecessary saved tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from cases.making import IDX, POSITIVE, TABLE, Call, Case, W, X, Y, draw, raw, saving

FULL: dict[str, Any] = {"level": "full"}


def keep(ctx: Any, result: Any, *tensors: Tensor) -> Any:
    """Save tensors and return the result, in one expression."""
    ctx.save_for_backward(*tensors)
    return result


def split(forward: Call, setup: Call, backward: Call) -> type[Function]:
    """Return a Function with a separate ``forward`` and ``setup_context``."""
    function = raw(forward, backward)
    function.setup_context = staticmethod(setup)  # type: ignore[method-assign]
    function.generate_vmap_rule = True
    return function


def weighted_error(x: Tensor, target: Tensor, weight: Tensor, g: Tensor) -> Any:
    slope = 2 * (x - target) * weight * g / x.numel()
    return slope, -slope, (x - target) ** 2 * g / x.numel()


class ThrownAway(Function):
    """A product that computes both gradients before it checks which one is needed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        grads = (g * w, g * x)
        needs = zip(grads, ctx.needs_input_grad, strict=True)
        return tuple(grad if needed else None for grad, needed in needs)


class SharedWork(Function):
    """The length of a hypotenuse. Both gradients start with the same division."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        r = torch.hypot(x, y)
        ctx.save_for_backward(x, y, r)
        return r

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, y, r = ctx.saved_tensors
        scaled = g / r
        needs_x, needs_y = ctx.needs_input_grad
        return scaled * x if needs_x else None, scaled * y if needs_y else None


class Swish(Function):
    """Saves the sigmoid for speed, and the input because second derivatives need it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s, x * s)
        return x * s

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, s, y = ctx.saved_tensors
        if torch.is_grad_enabled():
            s = torch.sigmoid(x)
            y = x * s
        return g * (s + y * (1 - s))


class OwnGraph(Function):
    """Saves its own graph. Backward uses only the graph of the saved output, and not its values."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            y = leaf.sin() + leaf
        ctx.save_for_backward(leaf, y)
        return y.detach().clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        leaf, y = ctx.saved_tensors
        (grad,) = torch.autograd.grad(y, leaf, g, retain_graph=True)
        return grad


class Dropout(Function):
    """A dropout whose mask is useless outside of training."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, training: bool) -> Tensor:
        mask = torch.rand(x.shape, device=x.device) > 0.5
        ctx.save_for_backward(mask)
        ctx.training = training
        return x * mask * 2 if training else x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return (g * mask * 2 if ctx.training else g.clone()), None


class Softplus(Function):
    """The same formula in plain code overflows for large inputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.log1p(torch.exp(x))
        ctx.save_for_backward(x, y)
        return torch.where(x > 100, x, y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        return torch.where(x > 100, g, g * (1 - torch.exp(-y)))


def relu_where_negative(ctx: Any, g: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return g.masked_fill(x < 0, 0) if x.numel() else g


def product_gradients(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    x, w = ctx.saved_tensors
    needs_x, needs_w = ctx.needs_input_grad
    return g * w if needs_x else None, g * x if needs_w else None


WITNESSES = [
    Case("wasted-gradient", "a linear layer without flags",
         saving(lambda x, w: x @ w.T, lambda x, w, g: (g @ w, g.T @ x)), (X, W)),
    Case("wasted-gradient", "the gradient of a loss's target",
         saving(lambda x, t, w: ((x - t) ** 2 * w).mean(), weighted_error), (X, Y, POSITIVE)),
    Case("wasted-gradient", "computed, then thrown away", ThrownAway, (X, Y)),
    Case("wasted-gradient", "of an input that the example itself does not differentiate",
         saving(lambda x, y: x * y, lambda x, y, g: (g * y, g * x)), (X.clone().requires_grad_(), Y)),
    Case("wasted-gradient", "written into a buffer",
         saving(lambda x, y: x * y, lambda x, y, g: (g * y, torch.zeros_like(x).addcmul_(g, x))), (X, Y)),
    Case("oversaved", "an input for its shape",
         saving(lambda x: x.sum(-1), lambda x, g: g[:, None].expand(x.shape)), (X,)),
    Case("oversaved", "a product that is never unpacked",
         raw(lambda ctx, x: keep(ctx, y := 3 * x, y), lambda ctx, g: 3 * g), (X,)),
    Case("oversaved", "input and output, where the output is enough",
         raw(lambda ctx, x: keep(ctx, y := x.exp(), x, y), lambda ctx, g: ctx.saved_tensors[1] * g), (X,)),
    Case("oversaved", "a table, where its number of rows is enough",
         saving(lambda t, i: t[i], lambda t, i, g: (torch.zeros_like(t).index_add(0, i, g), None)),
         (TABLE, IDX)),
    Case("unneeded-function", "a product with a number",
         split(lambda x: 2 * x, lambda ctx, inputs, output: None, lambda ctx, g: 2 * g), (X,), FULL),
    Case("unneeded-function", "the exponential",
         split(lambda x: x.exp(), lambda ctx, inputs, output: ctx.save_for_backward(output),
               lambda ctx, g: ctx.saved_tensors[0] * g), (X,), FULL),
    Case("unneeded-function", "a product",
         split(lambda x, w: x * w, lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
               product_gradients), (X, Y), FULL),
]  # fmt: skip

LOOKALIKES = [
    Case("wasted-gradient", "flags are heeded, the common part is computed once", SharedWork, (X, Y)),
    Case("wasted-gradient", "one kernel gives both gradients",
         saving(lambda x, w: torch.ops.aten._prelu_kernel(x, w),
                lambda x, w, g: torch.ops.aten._prelu_kernel_backward(g, x, w)), (X, Y)),
    Case("wasted-gradient", "grad_output itself, and a view of it",
         raw(lambda ctx, x, w: x + w.t(), lambda ctx, g: (g, g.t())), (X, draw(4, 3))),
    Case("wasted-gradient", "zeros for an input without influence",
         raw(lambda ctx, x, like: 2 * x, lambda ctx, g: (
             2 * g if ctx.needs_input_grad[0] else None, torch.zeros_like(g))), (X, Y)),
    Case("oversaved", "needed for the second derivative alone", Swish, (X,)),
    Case("oversaved", "a saved tensor whose graph is used", OwnGraph, (X,)),
    Case("oversaved", "a mask where it is not training", Dropout, (X, False)),
    Case("oversaved", "a comparison that comes out alike everywhere",
         raw(lambda ctx, x: keep(ctx, x.relu(), x), relu_where_negative), (POSITIVE,)),
    Case("oversaved", "a power whose derivative is constant",
         saving(lambda x, n: x**n, lambda x, n, g: (n * x ** (n - 1) * g, None)), (POSITIVE, 1)),
    Case("unneeded-function", "less memory: a mask instead of the input",
         raw(lambda ctx, x: keep(ctx, F.relu6(x), (x > 0) & (x < 6)),
             lambda ctx, g: torch.where(ctx.saved_tensors[0], g, 0)), (4 * X,), FULL),
    Case("unneeded-function", "fewer operations",
         raw(lambda ctx, x: keep(ctx, x * x * x, x), lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g), (X,), FULL),
    Case("unneeded-function", "another gradient where the derivative does not exist", SharedWork, (X, Y), FULL),
    Case("oversaved", "the factor of an input that is frozen here",
         saving(lambda x, y: x * y, lambda x, y, g: (g * y, g * x)), (X.clone().requires_grad_(), Y)),
    Case("unneeded-function", "a gradient that stays finite", Softplus, (X,), FULL),
    Case("unneeded-function", "a view, for its node",
         raw(lambda ctx, x: x.view_as(x), lambda ctx, g: g.clone()), (X,), FULL),
    Case("unneeded-function", "NumPy, through which autograd sees nothing",
         raw(lambda ctx, x: keep(ctx, torch.as_tensor(x.detach().cpu().numpy() ** 3), x),
             lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g), (X,), FULL),
    Case("unneeded-function", "a surrogate gradient",
         raw(lambda ctx, x: x.round() + 0 * x, lambda ctx, g: 1.0 * g), (3 * X,), {**FULL, "surrogate": lambda x: 1.0 * x}),
    Case("unneeded-function", "another convention at a kink",
         raw(lambda ctx, x: keep(ctx, F.hardtanh(x, 0, 1), x), lambda ctx, g: g * ((ctx.saved_tensors[0] >= 0) & (ctx.saved_tensors[0] <= 1))),
         (X,), FULL),
]  # fmt: skip
