"""The hints that rules give: a row for each hint, and rows for similar cases."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cases.making import Case, X, Y, raw, saving
from cases.order import ASKED, FULL, once, saved, split


def scaled(x: Tensor, scale: float = 2.0, shift: float = 0.0) -> Tensor:
    return scale * x + shift


def backward_of_scaled(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
    return ctx.scale * g, None, None


def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.scale = inputs[1]


def take_none(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.scale = 2.0


def refuses_tracing(x: Tensor, scale: float = 2.0, shift: float = 0.0) -> Tensor:
    if torch.compiler.is_compiling():
        raise ValueError("not compiled")
    return scaled(x, scale, shift)


def sine(x: Tensor) -> Tensor:
    return x.sin()


def times_cosine(x: Tensor, g: Tensor) -> Tensor:
    return x.cos() * g


def saves_with_a_default(ctx: Any, x: Tensor, y: Tensor | None = None) -> Tensor:
    ctx.save_for_backward(x)
    return x * x


def asks_for_the_default(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor | None]:
    (x,) = ctx.saved_tensors
    return 2 * x * g, g if ctx.needs_input_grad[1] else None


def asks_and_multiplies_a_tuple(ctx: Any, g: Tensor) -> tuple[Any, None]:
    return g * ctx.saved_tensors if ctx.needs_input_grad[0] else None, None


def unpacks_what_is_needed(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
    needs_x, needs_y = ctx.needs_input_grad
    (x,) = ctx.saved_tensors
    return 2 * x * g if needs_x else None, g if needs_y else None


def rebinds_and_marks(ctx: Any, x: Tensor) -> Tensor:
    ctx.mark_dirty(x)
    x = 2 * x  # a new tensor
    return x


def rectified(x: Tensor) -> Tensor:
    return x if x > 0 else 0 * x


def by_numpy(x: Tensor, g: Tensor) -> Tensor:
    return g * torch.as_tensor(x.cpu().numpy()).cos().to(x.device)


def not_in_float32(x: Tensor, g: Tensor) -> Tensor:
    if g.dtype is torch.float32:
        raise TypeError("no such dtype")
    return 2 * x * g


def early(ctx: Any, g: Tensor) -> Any:
    if not any(ctx.needs_input_grad[1:]):
        return g
    return g, g


def sinc_gradient(x: Tensor, g: Tensor) -> Tensor:
    """Replace 0/0 by its limit. The first derivative is right, but its graph contains 0 · nan."""
    return g * torch.where(x == 0, 0.0, (x * x.cos() - x.sin()) / x.square())


def in_place(x: Tensor, g: Tensor) -> Tensor:
    y = x.exp()
    grad = g * y
    y.mul_(2)
    return grad


def refuse_twice(x: Tensor, g: Tensor) -> Tensor:
    if torch.is_grad_enabled():
        raise NotImplementedError("Sine cannot be differentiated twice")
    return x.cos() * g


# The mistake, the Function, its inputs, options, the rule, and parts of its message, separated by
# ``…``.
ADVISED = [
    Case("backward-raises", "an entry of needs_input_grad for an argument that was left out", raw(saves_with_a_default, asks_for_the_default), (X,)),
    Case("backward-raises", "entries of needs_input_grad are unpacked, and an argument was left out", raw(saves_with_a_default, unpacks_what_is_needed), (X,)),
    Case("backward-raises", "an entry of saved_tensors that is not there", raw(saves_with_a_default, lambda ctx, g:
        (g * ctx.saved_tensors[1], None)), (X,)),
    Case("backward-raises", "needs_input_grad, and another mistake", raw(saves_with_a_default, asks_and_multiplies_a_tuple), (X,)),
    Case("forward-raises", "an if on a tensor", saving(rectified, lambda x, g: g * (x > 0)), (X,)),
    Case("forward-raises", "shapes that no product takes", saving(torch.matmul, lambda x, y, g: (g, g)), (X, Y)),
    Case("forward-raises", "an input that is changed, returned and saved", split(lambda x: x.mul_(2), lambda ctx, g: 2 * g,
        setup=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)), (X,)),
    Case("forward-raises", "an input that is returned as it was, and saved", split(lambda x: x, lambda ctx, g: g,
        setup=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)), (X,)),
    Case("wrong-mark-dirty", "marked, and another tensor under its name is returned", raw(rebinds_and_marks, lambda ctx, g: 2 * g), (X,)),
    Case("wrong-arity", "a default that setup_context makes count", split(scaled, lambda ctx, g: ctx.scale * g,
        setup=setup_context), (X,)),
    Case("wrong-arity", "a list", saving(torch.mul, lambda x, y, g: [g * y, g * x]), (X, Y)),
    Case("gradient-dtype", "NumPy has no bfloat16", saving(sine, by_numpy), (X,)),
    Case("gradient-dtype", "a dtype that another line refuses", saving(torch.square, not_in_float32), (X,)),
    Case("frozen-input", "an early return where few gradients are wanted", raw(lambda ctx, x, y: x + y, early), (X, Y)),
    Case("silent-double-backward", "0/0 is replaced by its limit, once", saving(lambda x: torch.sinc(x / torch.pi), sinc_gradient), (torch.tensor([0.0, 0.5, 2.0, -1.0]),), ASKED),
    Case("silent-double-backward", "a detached factor", saving(torch.square, lambda x, g: 2 * x.detach() * g), (X,), ASKED),
    Case("once-differentiable-leak", "once differentiable", once(torch.exp, lambda x, g: x.exp() * g), (X,)),
    Case("no-double-backward", "an operation in place in backward", saving(torch.exp, in_place), (X,), ASKED),
    Case("no-double-backward", "no second derivative", saving(sine, refuse_twice), (X,), ASKED),
    Case("wrong-jvp", "a tangent is changed in place", split(sine, saved(times_cosine), jvp=lambda ctx, t:
        t.mul_(ctx.saved_tensors[0].cos())), (X,)),
    Case("wrong-vmap", "a result of vmap without a graph", split(sine, saved(times_cosine), vmap=lambda info, dims, x:
        (x.detach().sin(), dims[0])), (X,)),
    Case("wrong-vmap", "a wrong result of vmap", split(sine, saved(times_cosine), vmap=lambda info, dims, x:
        (2 * x.sin(), dims[0])), (X,)),
    Case("compile-mismatch", "setup_context asks for what forward has a default for", split(scaled, backward_of_scaled,
        setup=setup_context), (X,), FULL),
    Case("compile-mismatch", "a result whose size depends on values",
        saving(lambda x: x[x > 0].sum(), lambda x, g: g * (x > 0)), (X,), FULL),
    Case("compile-mismatch", "forward raises where it is traced", split(refuses_tracing, backward_of_scaled,
        setup=take_none), (X,), FULL),
]  # fmt: skip
