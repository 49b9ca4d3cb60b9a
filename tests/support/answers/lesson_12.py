"""Answers to the exercises of lesson 12."""

from __future__ import annotations

import math
from itertools import count
from typing import Any

import numpy as np
import torch
from torch.amp import custom_bwd, custom_fwd
from torch.library import custom_op
from torch.nn.functional import pad

from answers.making import Wrong, double, solved, spoiled

SOLVED = solved("12_compile_and_operators")
SOLVED["window_sums"].register_autograd(SOLVED["backward"], setup_context=SOLVED["setup_context"])
RIGHT = {
    "repair-graph-breaks": SOLVED["Huber"],
    "operator-window-sums": SOLVED["window_sums"],
    "repair-autocast": SOLVED["Contrast"],
}
Huber, BrokenContrast = SOLVED["Huber"], SOLVED["BrokenContrast"]
vendor_sums = SOLVED["vendor_sums"]


# Repair: graph breaks


def huber_of_pieces(x: Any, delta: Any) -> Any:
    inside = x.clamp(-delta, delta)
    return inside * (x - inside / 2)


def huber_of_signs(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return torch.where(x.abs() <= ctx.delta, x, ctx.delta * x.sign()) * g, None


def huber_branching(x: Any, delta: Any) -> Any:
    if (x.abs() <= delta).all():
        return x**2 / 2
    return Huber.forward(x, delta)


def huber_in_place(x: Any, delta: Any) -> Any:
    y = x**2 / 2
    far = x.abs() > delta
    y[far] = delta * (x[far].abs() - delta / 2)
    return y


def huber_by_autograd(ctx: Any, g: Any) -> Any:
    x = ctx.saved_tensors[0].detach().requires_grad_()
    with torch.enable_grad():
        y = Huber.forward(x, ctx.delta)
    return torch.autograd.grad(y, x, g)[0], None


def huber_printing(x: Any, delta: Any) -> Any:
    print("outliers")
    return Huber.forward(x, delta)


class HuberCounting(Huber):
    calls = 0

    @staticmethod
    def forward(x: Any, delta: Any) -> Any:
        HuberCounting.calls += 1
        return Huber.forward(x, delta)


def huber_without_outside(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return torch.where(x.abs() <= ctx.delta, x, 0) * g, None


# A custom operator

numbers = count()


def operator(
    kernel: Any = lambda x, width: _sums(x, width),
    fake: Any = lambda x, width: _empty(x, width),
    backward: Any = lambda self, ctx, g: (_back(self, ctx, g), None),
) -> Any:
    """Return an operator with these three parts and a new name. ``backward`` gets the operator
    first.
    """

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
    """Use PyTorch's operations. The result is right, but the exercise asks for an operator."""
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


# Repair: a loss under autocast


class ContrastByHand(BrokenContrast):
    """Turns autocast off, and casts dtypes that are narrower than float32."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, temperature: Any) -> Any:
        with torch.autocast(q.device.type, enabled=False):
            wide = torch.promote_types(q.dtype, torch.float32)
            return BrokenContrast.forward(ctx, q.to(wide), k.to(wide), temperature)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        with torch.autocast(g.device.type, enabled=False):
            return BrokenContrast.backward(ctx, g)


on = {"device_type": "cpu"}
AsForward = spoiled(
    BrokenContrast,
    forward=custom_fwd(BrokenContrast.forward, **on),
    backward=custom_bwd(BrokenContrast.backward, **on),
)
ForwardOnly = spoiled(
    BrokenContrast,
    forward=custom_fwd(BrokenContrast.forward, **on, cast_inputs=torch.float32),
)


class AutocastOffInForward(BrokenContrast):
    """Correct for float32 inputs, but bfloat16 inputs stay in bfloat16."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, temperature: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return BrokenContrast.forward(ctx, q, k, temperature)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return BrokenContrast.backward(ctx, g)


class AlwaysFloat32(BrokenContrast):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, temperature: Any) -> Any:
        return BrokenContrast.forward(ctx, q.float(), k.float(), temperature)


ALSO_RIGHT = {
    "Huber by a clamp": ("repair-graph-breaks", spoiled(Huber, forward=huber_of_pieces)),
    "Huber's slope by signs": ("repair-graph-breaks", spoiled(Huber, backward=huber_of_signs)),
    "an operator by windows": ("operator-window-sums", operator(by_windows)),
    "an operator that copies tensors": ("operator-window-sums", operator(copied_by_torch)),
    "autocast switched off by hand": ("repair-autocast", ContrastByHand),
}


def _huber(mistake: str, rule: str, **methods: Any) -> Wrong:
    return Wrong("repair-graph-breaks", mistake, rule, spoiled(Huber, **methods))


def _operator(mistake: str, rule: str, answer: Any) -> Wrong:
    return Wrong("operator-window-sums", mistake, rule, answer)


WRONG = [
    _huber("a branch on values", "compile-mismatch", forward=huber_branching),
    _huber("written in place at a mask", "compile-mismatch", forward=huber_in_place),
    _huber("autograd in backward", "compile-mismatch", backward=huber_by_autograd),
    _huber("prints", "compile-mismatch", forward=huber_printing),
    _huber("the outside is forgotten", "wrong-region", backward=huber_without_outside),
    Wrong("repair-graph-breaks", "the counter stays", "compile-mismatch", HuberCounting),
    _operator("a plain function", "it is a plain function", plain),
    _operator("PyTorch's operations", "it is a plain function", unfolded),
    _operator(
        "changes its input", "changes the tensor that it receives", operator(without_first_copy)
    ),
    _operator("a part of its input", "changes the tensor that", operator(without_any_copy)),
    _operator("its input for width 1", "must not also be an input", operator(with_a_shortcut)),
    _operator("the part's strides", "the strides of what", operator(without_second_copy)),
    _operator("no fake", "no fake is registered", operator(fake=None)),
    _operator(
        "a fake like x", "the fake must return", operator(fake=lambda x, w: x.new_empty(x.shape))
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
    Wrong("repair-autocast", "nothing done", "autocast", BrokenContrast),
    Wrong("repair-autocast", "decorated, without cast_inputs", "autocast", AsForward),
    Wrong("repair-autocast", "forward alone", "autocast", ForwardOnly),
    Wrong("repair-autocast", "bfloat16 inputs stay", "autocast", AutocastOffInForward),
    Wrong("repair-autocast", "float32 always", "dtype torch.float32", AlwaysFloat32),
]

KNOWN = [
    ("repair-graph-breaks", (double(-3.0, 0.5), 1.0), double(2.5, 0.125)),
    ("operator-window-sums", (double(1.0, 2.0, 3.0, 4.0, 5.0), 3), double(6.0, 9.0, 12.0)),
    (
        "repair-autocast",
        (torch.eye(2).double(), torch.eye(2).double(), 1.0),
        double(*[math.log(math.e + 1) - 1] * 2),
    ),
]
