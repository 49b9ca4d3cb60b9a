"""Answers to the routines of lesson 11: per-sample gradients, and an operator."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, grad, jacrev, vmap
from torch.library import custom_op
from torch.nn.functional import pad

from answers.making import Wrong, solved

vendor_sums = solved("11_beyond_eager")["vendor_sums"]


# Per-sample gradients


def _parameters(model: Any) -> dict[str, Any]:
    return {name: p.detach() for name, p in model.named_parameters()}


def _of_one(model: Any, loss: Any) -> Any:
    def of_one(parameters: Any, x: Any, y: Any) -> Any:
        return loss(functional_call(model, parameters, (x[None],)), y[None])

    return of_one


def by_jacobian(model: Any, loss: Any, x: Any, y: Any) -> Any:
    """The Jacobian of the vector of losses, from one call of the model."""

    def losses(parameters: Any) -> Any:
        predictions = functional_call(model, parameters, (x,))
        return vmap(lambda p, t: loss(p[None], t[None]))(predictions, y)

    return tuple(jacrev(losses)(_parameters(model)).values())


def in_a_loop(model: Any, loss: Any, x: Any, y: Any) -> Any:
    of_one = grad(_of_one(model, loss))
    rows = [of_one(_parameters(model), *one) for one in zip(x, y, strict=True)]
    return tuple(torch.stack([row[name] for row in rows]) for name in rows[0])


def of_the_batch(model: Any, loss: Any, x: Any, y: Any) -> Any:
    gradients = torch.autograd.grad(loss(model(x), y), list(model.parameters()))
    return tuple(g.expand(len(x), *g.shape) for g in gradients)


def without_batch_axis(model: Any, loss: Any, x: Any, y: Any) -> Any:
    def of_one(parameters: Any, x: Any, y: Any) -> Any:
        return loss(functional_call(model, parameters, (x,)), y)

    gradients = vmap(grad(of_one), in_dims=(None, 0, 0))(_parameters(model), x, y)
    return tuple(gradients.values())


def parameters_mapped_too(model: Any, loss: Any, x: Any, y: Any) -> Any:
    return tuple(vmap(grad(_of_one(model, loss)))(_parameters(model), x, y).values())


def divided(model: Any, loss: Any, x: Any, y: Any) -> Any:
    right = vmap(grad(_of_one(model, loss)), in_dims=(None, 0, 0))(_parameters(model), x, y)
    return tuple(g / len(x) for g in right.values())


def as_a_dict(model: Any, loss: Any, x: Any, y: Any) -> Any:
    return vmap(grad(_of_one(model, loss)), in_dims=(None, 0, 0))(_parameters(model), x, y)


# A custom operator

numbers = count()


def operator(
    kernel: Any = lambda x, width: _sums(x, width),
    fake: Any = lambda x, width: _empty(x, width),
    backward: Any = lambda self, ctx, g: (_back(self, ctx, g), None),
) -> Any:
    """An operator of these three parts, under a name of its own; ``backward`` gets it first."""

    def window_sums(x: torch.Tensor, width: int) -> torch.Tensor:
        return kernel(x, width)

    window_sums.__annotations__ = {
        "x": torch.Tensor,
        "width": int,
        "return": torch.Tensor,
    }
    made = custom_op(f"answers::window_sums_{next(numbers)}", window_sums, mutates_args=())
    if fake:
        made.register_fake(fake)
    if backward:
        made.register_autograd(
            lambda ctx, g: backward(made, ctx, g),
            setup_context=lambda ctx, inputs, output: setattr(ctx, "width", inputs[1]),
        )
    return made


def _sums(x: Any, width: int) -> Any:
    return torch.from_numpy(vendor_sums(x.numpy().copy(), width).copy())


def _empty(x: Any, width: int) -> Any:
    return x.new_empty((*x.shape[:-1], x.shape[-1] - width + 1))


def _back(self: Any, ctx: Any, g: Any) -> Any:
    return self(pad(g, (ctx.width - 1, ctx.width - 1)), ctx.width)


def by_windows(x: Any, width: int) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x.numpy(), width, -1)
    return torch.from_numpy(np.ascontiguousarray(windows.sum(-1)))


def copied_by_torch(x: Any, width: int) -> Any:
    return torch.from_numpy(vendor_sums(x.clone().numpy(), width)).clone()


def without_second_copy(x: Any, width: int) -> Any:
    return torch.from_numpy(vendor_sums(x.numpy().copy(), width))


def without_first_copy(x: Any, width: int) -> Any:
    return torch.from_numpy(vendor_sums(x.numpy(), width).copy())


def without_any_copy(x: Any, width: int) -> Any:
    return torch.from_numpy(vendor_sums(x.numpy(), width))


def with_a_shortcut(x: Any, width: int) -> Any:
    return x if width == 1 else _sums(x, width)


def plain(x: Any, width: int) -> Any:
    return _sums(x, width)


def unfolded(x: Any, width: int) -> Any:
    """PyTorch's operations, so right in every way but the one that is asked."""
    return x.unfold(-1, width, 1).sum(-1)


def backward_in_numpy(self: Any, ctx: Any, g: Any) -> Any:
    beyond = [(0, 0)] * (g.dim() - 1) + [(ctx.width - 1, ctx.width - 1)]
    padded = np.pad(g.detach().numpy(), beyond)
    return torch.from_numpy(vendor_sums(padded, ctx.width).copy()), None


def backward_on_one_side(self: Any, ctx: Any, g: Any) -> Any:
    return self(pad(g, (0, 2 * ctx.width - 2)), ctx.width), None


def backward_detached(self: Any, ctx: Any, g: Any) -> Any:
    return _back(self, ctx, g.detach()), None


def backward_of_x_alone(self: Any, ctx: Any, g: Any) -> Any:
    return _back(self, ctx, g)


ALSO_RIGHT = {
    "per-sample gradients by a Jacobian": ("per-sample-gradients", by_jacobian),
    "an operator by windows": ("operator-window-sums", operator(by_windows)),
    "an operator that copies tensors": ("operator-window-sums", operator(copied_by_torch)),
}


def _samples(mistake: str, rule: str, answer: Any) -> Wrong:
    return Wrong("per-sample-gradients", mistake, rule, answer)


def _operator(mistake: str, rule: str, answer: Any) -> Wrong:
    return Wrong("operator-window-sums", mistake, rule, answer)


WRONG = [
    _samples("a list", "this exercise asks for a tuple", lambda *given: [*by_jacobian(*given)]),
    _samples("a loop", "the model is called 30 times", in_a_loop),
    _samples("the batch's gradient", "gradient of the whole batch", of_the_batch),
    _samples("no batch axis", "raises", without_batch_axis),
    _samples("the parameters are mapped too", "raises ValueError", parameters_mapped_too),
    _samples("shares of the mean", "shares of a mean", divided),
    _samples("a dict", "of type dict", as_a_dict),
    _operator("a plain function", "it is a plain function", plain),
    _operator("PyTorch's operations", "it is a plain function", unfolded),
    _operator("changes its input", "holds other numbers afterwards", operator(without_first_copy)),
    _operator("a part of its input", "holds other numbers", operator(without_any_copy)),
    _operator("its input for width 1", "must not also be an input", operator(with_a_shortcut)),
    _operator("the part's strides", "the strides of what", operator(without_second_copy)),
    _operator("no fake", "no fake is registered", operator(fake=None)),
    _operator(
        "a fake like x", "the fake must give", operator(fake=lambda x, w: x.new_empty(x.shape))
    ),
    _operator("no backward", "no backward is registered", operator(backward=None)),
    _operator("NumPy in backward", "the compiler traces", operator(backward=backward_in_numpy)),
    _operator("zeros on one side", "In which windows", operator(backward=backward_on_one_side)),
    _operator(
        "no None for width",
        "one gradient for each argument",
        operator(backward=backward_of_x_alone),
    ),
    _operator("a detached gradient", "it has no graph", operator(backward=backward_detached)),
]
