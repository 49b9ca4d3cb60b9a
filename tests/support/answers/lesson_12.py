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

from answers.making import Rewriting, Wrong, double, spoiled

changed = Rewriting("12_compile_and_operators")
SOLVED = changed.solved
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


def _decorated(forward: str, backward: str, dtype: torch.dtype = torch.float32) -> Any:
    """Return the answer with decorators for these devices."""
    return spoiled(
        BrokenContrast,
        forward=custom_fwd(BrokenContrast.forward, device_type=forward, cast_inputs=dtype),
        backward=custom_bwd(BrokenContrast.backward, device_type=backward),
    )


class SavesInputs(ContrastByHand):
    """Computes in float32, but saves the inputs as they come, which can be bfloat16."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, temperature: Any) -> Any:
        y = ContrastByHand.forward(ctx, q, k, temperature)
        ctx.save_for_backward(q, k)
        return y


class ScoresInFloat64(BrokenContrast):
    """Subtracts the diagonal in float64, so grad_output is float64 too."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, temperature: Any) -> Any:
        return BrokenContrast.forward(ctx, q, k, temperature).double()


class ResultInFloat32(BrokenContrast):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, temperature: Any) -> Any:
        return BrokenContrast.forward(ctx, q, k, temperature).float()


def _same_as_fake(x: Any, width: int) -> Any:
    raise RecursionError


FAKES: list[tuple[str, str, Any]] = [
    (
        "of the first dim",
        "with no leading dims, the fake returns",
        lambda x, width: x.new_empty((x.shape[0], x.shape[-1] - width + 1)),
    ),
    ("in float32", "Make the tensor with x.new_empty", lambda x, w: _empty(x, w).float()),
    ("that is a view", "the fake returns a view of x", lambda x, width: x[..., width - 1 :]),
    ("that computes", "the fake raises an exception", _sums),
    ("without a result", "the fake returns NoneType", lambda x, width: None),
    ("that calls itself", "calls the operator", _same_as_fake),
]


def _backward(gradient: Any) -> Any:
    return lambda self, ctx, g: (gradient(self, g, ctx.width), None)


GRADIENTS: list[tuple[str, str, Any]] = [
    ("one window, first", "that begins there", lambda self, g, w: pad(g, (0, w - 1))),
    ("one window, last", "that ends there", lambda self, g, w: pad(g, (w - 1, 0))),
    ("the mean", "divided by width", lambda self, g, w: self(pad(g, (w - 1, w - 1)), w) / w),
    (
        "zeros in front",
        "All zeros are in front",
        lambda self, g, w: self(pad(g, (2 * w - 2, 0)), w),
    ),
    ("no zeros", "How many zeros", lambda self, g, w: self(pad(g, (0, w - 1)), w)),
    ("reversed", "is reversed", lambda self, g, w: self(pad(g, (w - 1, w - 1)), w).flip(-1)),
    ("a sum so far", "the running sum", lambda self, g, w: pad(g, (0, w - 1)).cumsum(-1)),
]


CLAMPED = "x.clamp(-ctx.delta, ctx.delta)"
NEAR, LINE = "x.abs() <= delta", "delta * (x.abs() - delta / 2)"


def _slopes(inside: str, outside: str) -> tuple[str, str]:
    return CLAMPED, f"torch.where(x.abs() <= ctx.delta, {inside}, {outside})"


HUBERS = [
    (mistake, "forward-mismatch", hint, change)
    for mistake, hint, change in [
        ("no absolute value", "The condition has no absolute value", (NEAR, "x <= delta")),
        ("exchanged", "takes the value for True first", (NEAR, "x.abs() > delta")),
        ("x squared", "not divided by 2", ("x**2 / 2", "x**2")),
        ("a line of x", "without the absolute value", (LINE, "delta * (x - delta / 2)")),
        ("all of delta", "half of delta", (LINE, "delta * (x.abs() - delta)")),
        ("a line from 0", "does not meet the parabola", (LINE, "delta * x.abs()")),
        ("a line of slope 1", "line is not multiplied", (LINE, "x.abs() - delta / 2")),
    ]
]
HUBERS += [
    (f"slope: {mistake}", "wrong-region", hint, change)
    for mistake, hint, change in [
        ("no limits", "The slope is x everywhere", (CLAMPED, "x")),
        ("no sign", "beyond delta has no sign", _slopes("x", "ctx.delta")),
        ("the sign", "the sign of x alone", _slopes("x", "x.sign()")),
        ("|x|", "contains |x|", _slopes("x", "ctx.delta * x.abs()")),
        ("one", "1 or -1 at most", (CLAMPED, "x.clamp(-1, 1)")),
        ("one limit", "no lower limit", (CLAMPED, "x.clamp(max=ctx.delta)")),
        ("twice", "twice too large", _slopes("2 * x", "ctx.delta * x.sign()")),
    ]
]
HUBERS += [
    (f"compiled: {mistake}", "compile-mismatch", hint, ("        return torch.where", before))
    for mistake, hint, before in [
        (line, hint, f"        {line}\n        return torch.where")
        for line, hint in [
            ("if x.max() > delta: x = x * 1", "decides by the values"),
            ("largest = x.max().item()", "as a number"),
            ("print(x)", "This line prints"),
            ("far = x[x.abs() > delta]", "a tensor whose size depends"),
        ]
    ]
]


def _autocast(mistake: str, hint: str, answer: Any) -> Wrong:
    return Wrong("repair-autocast", mistake, "autocast", answer, hint)


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
    *(
        Wrong("repair-graph-breaks", mistake, rule, changed.answer("repair-graph-breaks", it), hint)
        for mistake, rule, hint, it in HUBERS
    ),
    _operator("a plain function", "it is a plain function", plain),
    _operator("PyTorch's operations", "it is a plain function", unfolded),
    _operator(
        "changes its input", "changes the tensor that it receives", operator(without_first_copy)
    ),
    _operator("a part of its input", "changes the tensor that", operator(without_any_copy)),
    _operator("its input for width 1", "must not also be an input", operator(with_a_shortcut)),
    _operator("the part's strides", "a part of a longer row", operator(without_second_copy)),
    _operator("no fake", "no fake is registered", operator(fake=None)),
    _operator(
        "a fake like x",
        "the fake returns the shape (2, 6)",
        operator(fake=lambda x, w: x.new_empty(x.shape)),
    ),
    _operator("no backward", "no backward is registered", operator(backward=None)),
    _operator("NumPy in backward", "the compiler traces", operator(backward=backward_in_numpy)),
    _operator(
        "zeros on one side", "All zeros are at the end", operator(backward=backward_on_one_side)
    ),
    _operator(
        "no None for width",
        "one gradient for each argument",
        operator(backward=backward_of_x_alone),
    ),
    _operator("a detached gradient", "it has no graph", operator(backward=backward_detached)),
    *(
        _operator(f"a fake {mistake}", sentence, operator(fake=fake))
        for mistake, sentence, fake in FAKES
    ),
    *(
        _operator(f"backward: {mistake}", sentence, operator(backward=_backward(gradient)))
        for mistake, sentence, gradient in GRADIENTS
    ),
    _autocast("nothing done", "The matrix product in forward", BrokenContrast),
    _autocast("decorated, without cast_inputs", "custom_fwd alone leaves autocast on", AsForward),
    _autocast("forward alone", "Turn autocast off in backward", ForwardOnly),
    _autocast("bfloat16 inputs stay", "Cast them to float32 while", AutocastOffInForward),
    _autocast("the GPU's autocast", "custom_fwd does not turn", _decorated("cuda", "cuda")),
    _autocast("the GPU's in backward", "although custom_bwd", _decorated("cpu", "cuda")),
    _autocast(
        "cast to bfloat16", "forward casts its inputs", _decorated("cpu", "cpu", torch.bfloat16)
    ),
    _autocast("the inputs are saved", "saves bfloat16 tensors", SavesInputs),
    _autocast("scores in float64", "different dtypes", ScoresInFloat64),
    Wrong(
        "repair-autocast",
        "float32 always",
        "forward-mismatch",
        AlwaysFloat32,
        "although autocast is off",
    ),
    Wrong(
        "repair-autocast",
        "the result in float32",
        "forward-mismatch",
        ResultInFloat32,
        "a cast at the end is too late",
    ),
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
