"""Functions whose ``backward`` gets a step of ``forward`` or an expression wrong: two tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

A = torch.linspace(0.5, 1.5, 12, dtype=torch.float64).reshape(3, 4).sin() + 1
B = torch.linspace(-1.0, 2.0, 12, dtype=torch.float64).reshape(3, 4).cos() + 1.5
SQUARE_4 = torch.linspace(-1.0, 2.0, 16, dtype=torch.float64).reshape(4, 4).cos()
SQUARE = torch.linspace(-1.0, 2.0, 9, dtype=torch.float64).reshape(3, 3).cos()


def made(forward: Callable[..., Tensor], backward: Callable[..., Any]) -> type[Function]:
    """Return a Function with these formulas. ``backward`` takes the inputs and ``grad_output``."""

    class Made(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Tensor:
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Any:
            return backward(*ctx.saved_tensors, grad_output)

    return Made


@dataclass(frozen=True)
class Mistaken:
    """A wrong Function, its inputs, and what ``diagnose`` says about ``backward``."""

    said: str
    wrong: type[Function]
    inputs: tuple[Any, ...]


def slope_of_softplus_tanh(x: Tensor, slope: Tensor) -> Tensor:
    t = torch.tanh(F.softplus(x))
    return t + x * (1 - t * t) * slope


def running(x: Tensor, y: Tensor) -> list[Tensor]:
    states = [x[0]]
    for t in range(1, len(x)):
        state = states[-1]
        states.append(state * y + 0.5 * x[t])
    return states


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


MISTAKEN = (
    Mistaken(
        "takes 1 as the derivative of `F.softplus(x)`",
        made(
            lambda x: x * torch.tanh(F.softplus(x)),
            lambda x, g: g * slope_of_softplus_tanh(x, torch.ones_like(x)),
        ),
        (A,),
    ),
    Mistaken(
        "takes the result in the place of the argument in the derivative of `F.softplus(x)`",
        made(
            lambda x: x * torch.tanh(F.softplus(x)),
            lambda x, g: g * slope_of_softplus_tanh(x, torch.sigmoid(F.softplus(x))),
        ),
        (A,),
    ),
    Mistaken(
        "takes -1 as the derivative of `torch.acos(x / 4)`",
        made(
            lambda x: torch.cos(torch.acos(x / 4) + 0.5),
            lambda x, g: g * torch.sin(torch.acos(x / 4) + 0.5) / 4,
        ),
        (A,),
    ),
    Mistaken(
        "leaves out the division by `y` in `x / y`",
        made(
            lambda x, y: torch.exp(x / y),
            lambda x, y, g: (g * torch.exp(x / y), -g * torch.exp(x / y) * x / y**2),
        ),
        (A, B),
    ),
    Mistaken(
        "forgets to square the denominator in the derivative of `x / y`",
        made(
            lambda x, y: torch.exp(x / y),
            lambda x, y, g: (g * torch.exp(x / y) / y, -g * torch.exp(x / y) * x / y),
        ),
        (A, B),
    ),
    Mistaken(
        "leaves out the factor `x` of `x * y`",
        made(
            lambda x, y: torch.tanh(x * y),
            lambda x, y, g: (g * (1 - torch.tanh(x * y) ** 2) * y, g / torch.cosh(x * y) ** 2),
        ),
        (A, B),
    ),
    Mistaken(
        "treats `x.mean(-1, keepdim=True)` in `x - x.mean(-1, keepdim=True)` as a constant",
        made(
            lambda x: (x - x.mean(-1, keepdim=True)).pow(3),
            lambda x, g: 3 * g * (x - x.mean(-1, keepdim=True)) ** 2,
        ),
        (A,),
    ),
    Mistaken(
        "has the wrong sign for `x[:, :-1]` in `x[:, 1:] - x[:, :-1]`",
        made(
            lambda x: (x[:, 1:] - x[:, :-1]).exp(),
            lambda x, g: (
                F.pad(g * (x[:, 1:] - x[:, :-1]).exp(), (1, 0))
                + F.pad(g * (x[:, 1:] - x[:, :-1]).exp(), (0, 1))
            ),
        ),
        (A,),
    ),
    Mistaken(
        "leaves out the factor 3 in the derivative of `x.pow(3)`",
        made(lambda x: x.pow(3) + x, lambda x, g: g * (x**2 + 1)),
        (A,),
    ),
    Mistaken(
        "leaves out the factor 1/2 in the derivative of `torch.sqrt(x)`",
        made(lambda x: torch.sqrt(x) + x, lambda x, g: g * (1 / torch.sqrt(x) + 1)),
        (A,),
    ),
    Mistaken(
        "leaves out the division by the number of elements in `x.square().mean(-1, keepdim=True)`",
        made(
            lambda x: x * x.square().mean(-1, keepdim=True),
            lambda x, g: (
                g * x.square().mean(-1, keepdim=True) + 2 * x * (g * x).sum(-1, keepdim=True)
            ),
        ),
        (A,),
    ),
    Mistaken(
        "passes on the whole gradient, as if nothing happened in `x.clamp(max=1.7)`",
        made(lambda x: x.clamp(max=1.7).exp(), lambda x, g: g * x.clamp(max=1.7).exp()),
        (A,),
    ),
    Mistaken(
        "leaves out the sum over all outputs in the derivative of `torch.softmax(x, -1)`",
        made(
            lambda x: torch.log(torch.softmax(x, -1) + 1),
            lambda x, g: g / (softmax(x) + 1) * softmax(x),
        ),
        (A,),
    ),
    Mistaken(
        "adds up from the wrong end in the derivative of `torch.cumsum(x, -1)`",
        made(
            lambda x: torch.cumsum(x, -1).exp(),
            lambda x, g: (g * torch.cumsum(x, -1).exp()).cumsum(-1),
        ),
        (A,),
    ),
    Mistaken(
        "does not transpose `y` in the derivative of `x @ y`",
        made(
            lambda x, y: torch.exp(x @ y),
            lambda x, y, g: (g * torch.exp(x @ y) @ y, x.mT @ (g * torch.exp(x @ y))),
        ),
        (SQUARE, SQUARE.cos()),
    ),
    Mistaken(
        "treats `0.5 * x[t]` in `state * y + 0.5 * x[t]` as a constant",
        made(
            lambda x, y: running(x, y)[-1],
            lambda x, y, g: (
                torch.zeros_like(x).index_fill(0, torch.tensor(0), 1.0) * g * y ** (len(x) - 1),
                torch.stack(
                    [g * y ** (len(x) - 1 - t) * running(x, y)[t - 1] for t in range(1, len(x))]
                ).sum(0),
            ),
        ),
        (A, B[0]),
    ),
    Mistaken(
        "forgets that irfft counts the inner bins twice, in the adjoint of `torch.fft.rfft(x)`",
        made(
            lambda x: torch.fft.rfft(x).abs().square(),
            lambda x, g: 2 * torch.fft.irfft(g * torch.fft.rfft(x), n=x.shape[-1]) * x.shape[-1],
        ),
        (A,),
    ),
    Mistaken(
        "follows only `x.clamp(1.2, 1.8) * y`, as if it were always the smaller one, in "
        "`torch.min(x * y, x.clamp(1.2, 1.8) * y)`",
        made(
            lambda x, y: torch.min(x * y, x.clamp(1.2, 1.8) * y),
            lambda x, y, g: (g * y * ((x > 1.2) & (x < 1.8)), g * torch.min(x, x.clamp(1.2, 1.8))),
        ),
        (A, torch.where(B.mean() < B, B, -B)),
    ),
    Mistaken(
        "has the wrong sign for the derivative of `torch.cos(x)`",
        made(lambda x: x * torch.cos(x), lambda x, g: g * (torch.cos(x) + x * torch.sin(x))),
        (A,),
    ),
)


class Recomputed(Function):
    """``backward`` computes the differences again, but without wrapping them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        gap = x - y
        gap = gap - torch.round(gap)
        return torch.exp(gap) * gap

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        gap = x - y
        grad = grad_output * torch.exp(gap) * (gap + 1)
        return grad, -grad


class TwoSlipsInALine(Function):
    """The gradient of the softmax lacks a sum, and the scale is squared."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, scale: float) -> Tensor:
        p = torch.softmax(scale * x, -1)
        ctx.save_for_backward(x, y, p)
        ctx.scale = scale
        return p * torch.exp(y)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        _, y, p = ctx.saved_tensors
        grad_y = grad_output * p * torch.exp(y)
        grad_p = grad_output * torch.exp(y)
        grad_s = p * (grad_p - grad_p.sum(-1, keepdim=True)) * ctx.scale
        return ctx.scale * grad_s, grad_y, None


class PartOfSeveral(Function):
    """``backward`` leaves out the bias when it computes one of two parts again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(x, w, b)
        one, two = (x @ w + b).chunk(2, dim=-1)
        return torch.sigmoid(one) * torch.tanh(two)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, ...]:
        x, w, b = ctx.saved_tensors
        size = w.shape[-1] // 2
        gate = torch.sigmoid((x @ w + b)[:, :size])
        value = torch.tanh(x @ w[:, size:])
        grad_one = grad_output * value * gate * (1 - gate)
        grad = torch.cat([grad_one, grad_output * gate * (1 - value**2)], dim=-1)
        return grad @ w.mT, x.mT @ grad, grad.sum(0)


def straight(x: Tensor) -> Tensor:
    """Round, with the derivative 1."""
    return x + (x.round() - x).detach()


def quantized(x: Tensor, scale: Tensor) -> Tensor:
    return torch.clamp(straight(x / scale), -3, 3) * scale


class ClippedEverywhere(Function):
    """The gradient of the scale contains the term with x for clipped values too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(x, scale)
        return (x / scale).round().clamp(-3, 3) * scale

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, scale = ctx.saved_tensors
        steps = (x / scale).round()
        grad_scale = grad_output * (steps.clamp(-3, 3) - x / scale)
        return grad_output * (steps.abs() <= 3), grad_scale.sum()


@dataclass(frozen=True)
class WrongValue:
    """A Function, its inputs, the wrong expression, the right one, and what it corrects."""

    wrong: type[Function]
    inputs: tuple[Any, ...]
    expression: str
    right: str
    then: str


WRONG_VALUES = (
    WrongValue(
        Recomputed,
        (2 * A, B),
        "uses `x - y`",
        "value of `gap - torch.round(gap)`",
        "every gradient is right",
    ),
    WrongValue(
        TwoSlipsInALine,
        (A, B, 0.7),
        "computes `p * (grad_p - grad_p.sum(-1, keepdim=True)) * ctx.scale`",
        "gradient of `scale * x`",
        "the gradient of `x` is right",
    ),
    WrongValue(
        PartOfSeveral,
        (A - 1.5, SQUARE_4, SQUARE_4[0]),
        "uses `x @ w[:, size:]`",
        "value of `(x @ w + b).chunk(2, dim=-1)[1]`",
        "every gradient is right",
    ),
)


class DependsOnMemory(Function):
    """Autograd does not see how ``forward`` computes, because it uses ``.data``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.tanh(x.data)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * torch.tanh(x)


class WrongTwice(Function):
    """Its gradient is wrong in several steps, so none of them explains it alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return torch.exp(x * y) * torch.tanh(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        slope = torch.exp(x * y) * torch.tanh(x) + torch.exp(x * y)
        return grad_output * slope, grad_output * torch.exp(x * y) * x * torch.tanh(x)


class AngleByDivision(Function):
    """The derivatives of the angle divide by x, which is 0 on the y-axis."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        r, theta = torch.hypot(x, y), torch.atan2(y, x)
        ctx.save_for_backward(x, y, r)
        return r, theta

    @staticmethod
    def backward(ctx: Any, grad_r: Tensor, grad_theta: Tensor) -> tuple[Tensor, Tensor]:
        x, y, r = ctx.saved_tensors
        of_x = -y / x**2 / (1 + (y / x) ** 2)
        of_y = 1 / x / (1 + (y / x) ** 2)
        return grad_r * x / r + grad_theta * of_x, grad_r * y / r + grad_theta * of_y


class OnlyOnTheExample(Function):
    """A step explains the gradient only on the example, where ``x.abs()`` equals ``x``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.abs().sqrt() * x.abs()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * x.abs().sqrt()


WRONG_SIGN = made(
    lambda x, y: torch.exp(x / y),
    lambda x, y, g: (g * torch.exp(x / y) / y, g * torch.exp(x / y) * x / y**2),
)
