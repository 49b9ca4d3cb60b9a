"""The contract, linearity, values, and state between calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from cases.making import CPLX, IDX, POSITIVE, TABLE, Call, Case, W, X, Y, draw, raw, saving

# Parts that several cases share


def soft(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def soft_backward(x: Tensor, g: Tensor) -> Tensor:
    p = soft(x)
    return p * (g - (g * p).sum(-1, keepdim=True))


def center(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def norms(v: Tensor) -> Tensor:
    return v.norm(dim=(1, 2), keepdim=True)


def filters(v: Tensor, scale: Tensor) -> Tensor:
    """Return filters with the given norms, as weight normalization does."""
    return scale * v / norms(v)


def circular(z: Tensor, k: Tensor) -> Tensor:
    return torch.fft.ifft(torch.fft.fft(z) * torch.fft.fft(k))


def square_with(g_of: Callable[[Tensor], Tensor]) -> type[Function]:
    """Return the square with a backward that first applies a function to grad_output."""
    return saving(lambda x: x * x, lambda x, g: 2 * x * g_of(g))


def product_with(b: Call) -> type[Function]:
    """Return the matrix product ``x Wᵀ`` with the given backward."""
    return saving(lambda x, w: x @ w.T, b)


def sums_of_rows(x: Tensor) -> Tensor:
    y = torch.zeros(x.shape)
    for i in range(len(x)):
        y[i] = x[: i + 1].sum(0)
    return y


def sums_of_rows_backward(x: Tensor, g: Tensor) -> Tensor:
    return g.to(x.dtype).flip(0).cumsum(0).flip(0)


class InstanceForward(Function):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        self.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return ctx.saved_tensors[0].exp() * g


class InstanceBackward(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 3 * x

    def backward(self, g: Tensor) -> Tensor:  # type: ignore[override]
        return 3 * g


class ClassmethodFactory(Function):
    @classmethod
    def run(cls, x: Tensor) -> Any:
        return cls.apply(x)

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 3 * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return 3 * g


class BackwardOnModule(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.round()

    def backward(self, g: Tensor) -> Tensor:
        return g


Double = saving(lambda x: 2 * x, lambda x, g: 2 * g)


class OnTheClass(Function):
    kept: Tensor

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        OnTheClass.kept = x
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return 2 * OnTheClass.kept * g


class Counting(Function):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Counting.calls += 1
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return 2 * g


STACK: list[Tensor] = []


def dirty(ctx: Any, x: Tensor, returned: Callable[[Tensor], Tensor], change: bool = True) -> Tensor:
    if change:
        x.mul_(2)
    ctx.mark_dirty(x)
    return returned(x)


def save_something(ctx: Any, x: Tensor, *things: Any) -> Tensor:
    ctx.save_for_backward(x, *things)
    return x.sin()


def read_back(ctx: Any, x: Tensor) -> Tensor:
    ctx.save_for_backward(x)
    return ctx.saved_tensors[0].sin() if ctx.saved_tensors else x.sin()


def mark_output(ctx: Any, outputs: tuple[Tensor, ...], marked: tuple[int, ...]) -> Any:
    ctx.mark_non_differentiable(*(outputs[i] for i in marked))
    return outputs


def unmaterialized(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    ctx.set_materialize_grads(False)
    return 2 * x, 3 * x


def set_nan(x: Tensor) -> Tensor:
    return torch.where(x > 0, torch.nan, x)


TIED = torch.tensor([[1.0, 3, 3, 2], [5, 4, 5, 5], [0, 1, 2, 3]], dtype=torch.float64)


HIDDEN = torch.tensor([[1.0, -torch.inf, 1, 0], [0, 2, -torch.inf, 2]], dtype=torch.float64)


def with_marked_norm(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    norm = x.norm(dim=1, keepdim=True)
    ctx.save_for_backward(x / norm, norm)
    ctx.mark_non_differentiable(norm)
    return x / norm, norm


def tangential(y: Tensor, norm: Tensor, g: Tensor) -> Tensor:
    return (g - y * (g * y).sum(1, keepdim=True)) / norm


def share(x: Tensor) -> Tensor:
    largest = (x == x.amax(1, keepdim=True)).to(x.dtype)
    return largest / largest.sum(1, keepdim=True)


def spring(x: Tensor, k: Tensor, ends: Tensor, g: Tensor) -> tuple[Tensor, Tensor, None]:
    start, end = ends
    along = x[start] - x[end]
    pull = (2 * g * k).unsqueeze(-1) * along
    grad_x = torch.zeros_like(x).index_add(0, start, pull).index_add(0, end, -pull)
    return grad_x, g * along.square().sum(-1), None


def first_max(x: Tensor) -> Tensor:
    return F.one_hot(x.argmax(-1), x.shape[-1]).to(x.dtype)


def swish_sigma(x: Tensor) -> Tensor:
    return torch.sigmoid(x)


class SwishFixed(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        sigma = torch.sigmoid(x)
        ctx.save_for_backward(x, sigma)
        return x * sigma

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        _x, sigma = ctx.saved_tensors
        return sigma * g


def deviation(x: Tensor) -> Tensor:
    return (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()


def normalized(x: Tensor) -> Tensor:
    return center(x) * deviation(x)


FULL = {"level": "full", "intentional": "unneeded-function"}
SQUARE = saving(lambda x: x * x, lambda x, g: 2 * x * g)


def wide_gelu_backward(x: Tensor, g: Tensor) -> Tensor:
    """The error of this gradient is about ``x³ / 5`` near 0."""
    density = (-x * x).exp() / (2 * torch.pi) ** 0.5
    return g * (torch.special.ndtr(x) + x * density)


WITNESSES = [
    # Contract: forward
    Case("missing-staticmethod", "forward takes self", InstanceForward, (X,)),
    Case("missing-staticmethod", "backward takes self", InstanceBackward, (X,)),
    Case("non-tensor-saved", "a shape",
         raw(lambda ctx, x: save_something(ctx, x, x.shape), lambda ctx, g: g), (X,)),
    Case("non-tensor-saved", "a float argument",
         raw(lambda ctx, x, c: save_something(ctx, x, c), lambda ctx, g: (g, None)), (X, 2.5)),
    Case("non-tensor-saved", "all inputs as one tuple",
         raw(lambda ctx, *xs: save_something(ctx, xs[0], xs), lambda ctx, g: g), (X,)),
    Case("saved-tensors-in-forward", "read, then computed without it",
         raw(read_back, lambda ctx, g: ctx.saved_tensors[0].cos() * g), (X,)),
    Case("saved-tensors-in-forward", "unpacked at once",
         raw(lambda ctx, x: (ctx.save_for_backward(x), ctx.saved_tensors[0])[1],
             lambda ctx, g: g), (X,)),
    Case("wrong-mark-dirty", "dirty but a copy is returned",
         raw(lambda ctx, x: dirty(ctx, x, torch.clone), lambda ctx, g: 2 * g), (X,)),
    Case("wrong-mark-dirty", "dirty but unchanged",
         raw(lambda ctx, x: dirty(ctx, x, lambda t: t, change=False), lambda ctx, g: g), (X,)),
    Case("mutates-input", "relu_ without mark_dirty",
         saving(lambda x: x.relu_().clone(), lambda x, g: g * (x > 0)), (X,)),
    Case("mutates-input", "through numpy, which bumps no version",
         saving(lambda x, y: (x.numpy().__imul__(2), x + y)[1], lambda x, y, g: (2 * g, g)), (X, Y)),
    Case("forward-raises", "shapes that do not fit",
         saving(lambda x, w: x @ w, lambda x, w, g: (g @ w.T, x.T @ g)), (X, W)),
    Case("forward-raises", "a name that does not exist",
         saving(lambda x: x * undefined_scale, lambda x, g: g), (X,)),  # type: ignore[name-defined] # noqa: F821
    Case("backward-never-called", "plain autograd in a callable", lambda x: x.sin(), (X,)),
    Case("backward-never-called", "backward on a Module", BackwardOnModule(), (X,)),
    Case("backward-never-called", "detached", lambda x: Double.apply(x).detach(), (X,)),
    Case("returns-view", "the input itself", raw(lambda ctx, x: x, lambda ctx, g: g), (X,)),
    Case("returns-view", "a transpose", raw(lambda ctx, x: x.t(), lambda ctx, g: g.t()), (X,)),
    Case("returns-view", "a view of a sum that forward made",
         saving(lambda x: (x * x).sum(-1, keepdim=True).squeeze(-1),
                lambda x, g: 2 * x * g.unsqueeze(-1)), (X,), FULL),
    Case("wrong-non-differentiable", "a float mask requires grad",
         saving(lambda x: (x.relu(), (x > 0).to(x.dtype)), lambda x, g, _: g * (x > 0)), (X,)),
    Case("wrong-non-differentiable", "a smooth output is marked",
         raw(lambda ctx, x: mark_output(ctx, (2 * x, 3 * x), (1,)), lambda ctx, g, _: 2 * g), (X,)),
    Case("default-dtype", "rows are written into zeros", saving(sums_of_rows, sums_of_rows_backward), (X,)),
    Case("default-dtype", "a float mask made of ones and zeros",
         saving(lambda x: torch.where(x > 0, 1.0, 0.0) * x.float(), lambda x, g: g.to(x.dtype) * (x > 0)), (X,)),
    # Contract: backward
    Case("wrong-arity", "no None for the exponent",
         saving(lambda x, n: x**n, lambda x, n, g: n * x ** (n - 1) * g), (POSITIVE, 3)),
    Case("wrong-arity", "a gradient for the exponent",
         saving(lambda x, n: x**n, lambda x, n, g: (n * x ** (n - 1) * g, g)), (POSITIVE, 3)),
    Case("wrong-arity", "one gradient for two tensors",
         saving(lambda x, y: x * y, lambda x, y, g: y * g), (X, Y)),
    Case("wrong-arity", "one too many", saving(lambda x: 2 * x, lambda x, g: (2 * g, g)), (X,)),
    Case("gradient-shape", "a sum too much",
         saving(lambda x: x * x, lambda x, g: (2 * x * g).sum(0)), (X,)),
    Case("gradient-shape", "the bias's gradient not summed to the bias, but over the wrong axis",
         saving(lambda x, b: x + b, lambda x, b, g: (g, g.sum(1))), (X, draw(4))),
    Case("unreduced-broadcast", "a bias", saving(lambda x, b: x + b, lambda x, b, g: (g, g)),
         (X, draw(4))),
    Case("unreduced-broadcast", "a column times a row",
         saving(lambda a, b: a * b, lambda a, b, g: (g * b, g * a)), (draw(3, 1), draw(1, 4, seed=1))),
    Case("gradient-dtype", ".float() on a mask",
         saving(lambda x: x.relu(), lambda x, g: g.float() * (x > 0).float()), (X,)),
    Case("gradient-dtype", "float32 zeros",
         saving(lambda x: x * x, lambda x, g: (2 * x * g).to(torch.float32)), (X,)),
    Case("gradient-dtype", "scatter into float32 zeros crashes",
         saving(lambda x, i: x[i], lambda x, i, g:
                (torch.zeros(x.shape, device=x.device).index_add(0, i, g), None)), (TABLE, IDX)),
    Case("gradient-dtype", "a complex gradient for a real gain",
         saving(lambda z, a: z * a, lambda z, a, g: (g * a, g * z.conj())), (CPLX, draw(5))),
    Case("gradient-device", "zeros on the CPU",
         saving(lambda x: 0 * x + 1, lambda x, g: torch.zeros(x.shape, dtype=x.dtype)), (X,)),
    Case("gradient-device", "ones on the CPU in the middle",
         saving(lambda x: x.sum(0), lambda x, g: g * torch.ones(x.shape, dtype=x.dtype)), (X,)),
    Case("backward-raises", "only where grad_output adds up to less than 0",
         saving(lambda x: 2 * x, lambda x, g: 2 * g if g.sum() >= 0 else g[99]), (X,)),
    Case("backward-raises", "an index out of range", saving(lambda x: 2 * x, lambda x, g: g[99]), (X,)),
    Case("backward-raises", "a matrix product the wrong way round",
         product_with(lambda x, w, g: (w @ g, g.T @ x)), (X, W)),
    Case("mutates-grad-output", "masked in place",
         saving(lambda x: x.relu(), lambda x, g: g.mul_(x > 0)), (X,)),
    Case("mutates-grad-output", "scaled in place", saving(lambda x: 2 * x, lambda x, g: g.mul_(2)), (X,)),
    Case("mutates-saved", "the input is squared in place",
         saving(lambda x: x**3 / 3, lambda x, g: x.pow_(2) * g), (X,)),
    Case("mutates-saved", "the saved output is reused as a buffer",
         raw(lambda ctx, x: (y := x.exp(), ctx.save_for_backward(y))[0],
             lambda ctx, g: ctx.saved_tensors[0].mul_(g)), (X,)),
    Case("none-grad-output", "None is multiplied",
         raw(unmaterialized, lambda ctx, a, b: 2 * a + 3 * b), (X,)),
    Case("none-grad-output", "None is taken for the other output's zero",
         raw(unmaterialized, lambda ctx, a, b:
             2 * a + 3 * b if a is not None and b is not None else torch.zeros(3, 4).to(a if b is None else b)),
         (X,)),
    # Linearity
    Case("ignores-grad-output", "the local derivative alone",
         saving(lambda x: x**3, lambda x, g: 3 * x * x), (X,)),
    Case("ignores-grad-output", "one of two inputs",
         saving(lambda x, y: x * y, lambda x, y, g: (y * g, x)), (X, Y)),
    Case("ignores-grad-output", "a constant is added",
         saving(lambda x: x.sin(), lambda x, g: x.cos() * g + 0.5), (X,)),
    Case("nonlinear-in-grad-output", "clamped", square_with(lambda g: g.clamp(-1, 1)), (X,)),
    Case("nonlinear-in-grad-output", "its absolute value", square_with(torch.abs), (X,)),
    Case("nonlinear-in-grad-output", "squared", square_with(torch.square), (X,)),
    Case("nonlinear-in-grad-output", "guided: only the positive part", square_with(torch.relu), (X,)),
    Case("nonlinear-in-grad-output", "its sign", square_with(torch.sign), (X,)),
    Case("nonlinear-in-grad-output", "clipped far out", square_with(lambda g: g.clamp(-99, 99)), (X,)),
    Case("uniform-grad-output", "its mean",
         saving(lambda x: x.exp(), lambda x, g: x.exp() * g.mean()), (X,)),
    Case("uniform-grad-output", "its first entry",
         saving(lambda x: x.logsumexp(-1), lambda x, g: soft(x) * g[0]), (X,)),
    # Values
    Case("forward-mismatch", "a sine for a cosine",
         saving(torch.sin, lambda x, g: x.cos() * g), (X,), {"reference": torch.cos}),
    Case("forward-mismatch", "a sum over the wrong axis",
         saving(lambda x: x.sum(0), lambda x, g: g.expand_as(x)), (X,),
         {"reference": lambda x: x.sum(1)}),
    Case("forward-mismatch", "nan for some inputs",
         saving(set_nan, lambda x, g: g), (X,), {"reference": lambda x: 1.0 * x}),
    Case("undeclared-surrogate", "round", saving(torch.round, lambda x, g: g), (3 * X,)),
    Case("undeclared-surrogate", "a clipped sign",
         saving(torch.sign, lambda x, g: g * (x.abs() < 1)), (X,)),
    Case("missing-gradient", "None for the weight",
         product_with(lambda x, w, g: (g @ w, None)), (X, W)),
    Case("missing-gradient", "zeros",
         saving(lambda x, y: x * y, lambda x, y, g: (g * y, torch.zeros_like(y))), (X, Y)),
    Case("extra-gradient", "the mask's values",
         saving(lambda x, m: torch.where(m > 0, x, 0), lambda x, m, g: (g * (m > 0), g * x)), (X, Y)),
    Case("extra-gradient", "a target that only its shape matters of",
         saving(lambda x, like: x.expand_as(like).clone(),
                lambda x, like, g: (g.sum(0), g)), (draw(4), X)),
    Case("non-finite", "0/0 at zero",
         saving(lambda x: x * x.abs(), lambda x, g: 2 * x * x / x.abs() * g), (X * (X > 0),)),
    Case("non-finite", "nan everywhere",
         saving(lambda x: x.exp(), lambda x, g: torch.full_like(x, torch.nan) * g), (X,)),
    Case("non-finite", "a sparse matrix on the way, and 0/0 at zero",
         saving(lambda x: 2 * x, lambda x, g: x.to_sparse_csc().to_dense() / x * 2 * g), (X * (X > 0),)),
    Case("non-finite", "infinite, with the sign of grad_output", saving(lambda x: 2 * x, lambda x, g: g / 0), (X,)),
    Case("flipped-sign", "cosine", saving(torch.cos, lambda x, g: x.sin() * g), (X,)),
    Case("flipped-sign", "the subtrahend",
         saving(lambda x, y: x - y, lambda x, y, g: (g, g)), (X, Y)),
    Case("constant-factor", "the exponent forgotten", saving(lambda x: x**3, lambda x, g: x * x * g), (X,)),
    Case("constant-factor", "a mean without 1/N",
         saving(lambda x: x.mean(-1), lambda x, g: g[:, None].expand_as(x)), (X,)),
    Case("constant-factor", "a temperature forgotten",
         saving(lambda x, t: soft(x / t), lambda x, t, g: (soft_backward(x / t, g), None)), (X, 0.7)),
    Case("swapped-gradients", "a product",
         saving(lambda x, y: x * y, lambda x, y, g: (x * g, y * g)), (X, Y)),
    Case("swapped-gradients", "a quotient",
         saving(lambda x, y: x / y, lambda x, y, g: (-x / y**2 * g, g / y)), (X, POSITIVE)),
    Case("transposed-gradient", "a square weight",
         product_with(lambda x, w, g: (g @ w, x.T @ g)), (X, draw(4, 4, seed=5))),
    Case("transposed-gradient", "a weight that is not square",
         product_with(lambda x, w, g: (g @ w, x.T @ g)), (X, W)),
    Case("transposed-gradient", "a circular convolution with the filter's own spectrum",
         saving(circular, lambda z, k, g: (circular(g, k), circular(g, z))), (CPLX, draw(5, seed=6, dtype=CPLX.dtype))),
    Case("missing-conjugate", "z squared", saving(lambda z: z * z, lambda z, g: 2 * z * g), (CPLX,)),
    Case("missing-conjugate", "exp", saving(torch.exp, lambda z, g: z.exp() * g), (CPLX,)),
    Case("missing-cross-terms", "softmax as if element by element",
         saving(soft, lambda x, g: soft(x) * (1 - soft(x)) * g), (X,)),
    Case("missing-cross-terms", "a normalized vector",
         saving(unit, lambda x, g: g * (1 - unit(x) ** 2) / x.norm(dim=-1, keepdim=True)), (X,)),
    Case("duplicate-index", "every row that is selected is selected again",
         saving(lambda t, i: t[i], lambda t, i, g: (torch.zeros_like(t).index_put((i,), g), None)),
         (TABLE, torch.tensor([0, 2, 2, 0, 0]))),
    Case("duplicate-index", "an embedding by assignment",
         saving(lambda t, i: t[i], lambda t, i, g:
                (torch.zeros_like(t).index_copy(0, i, g), None)), (TABLE, IDX)),
    Case("duplicate-index", "gather along the last axis",
         saving(lambda x, i: x[:, i], lambda x, i, g:
                (torch.zeros_like(x).index_copy(1, i, g), None)), (draw(3, 6), IDX)),
    Case("off-by-one", "a difference that forgets its first element",
         saving(lambda x: x[:, 1:] - x[:, :-1],
                lambda x, g: F.pad(g, (1, 0)) - torch.cat([0 * g[:, :1], g[:, 1:], 0 * g[:, :1]], 1)),
         (draw(3, 6),)),
    Case("off-by-one", "a window that misses the last column",
         saving(lambda x: F.avg_pool1d(x[None], 3, 1, 1)[0],
                lambda x, g: F.avg_pool1d(g[None], 3, 1, 1)[0] * (torch.arange(6, device=g.device) < 5)), (draw(4, 6),)),
    Case("wrong-region", "an absolute value's mask", saving(torch.abs, lambda x, g: g * (x > 0)), (X,)),
    Case("wrong-region", "a clamp that forgets its ceiling",
         saving(lambda x, c: x.clamp(0, c), lambda x, c, g: (g * (x > 0), None)), (3 * X, 1.0)),
    Case("wrong-region", "soft threshold without the dead zone",
         saving(lambda x: F.softshrink(x, 0.5), lambda x, g: g), (X,)),
    Case("wrong-region", "a clamp without its mask",
         saving(lambda x, c: x.clamp(0, c), lambda x, c, g: (g, None)), (3 * X, 1.0)),
    Case("wrong-region", "one side of a pinball loss",
         saving(lambda x, y: torch.maximum(0.9 * (y - x), 0.1 * (x - y)),
                lambda x, y, g: (0.9 * torch.sign(x - y) * g, 0.9 * torch.sign(y - x) * g)), (X, Y)),
    Case("missing-dependency", "a mean held fixed", saving(center, lambda x, g: 1.0 * g), (X,)),
    Case("missing-dependency", "a norm held fixed, with a reference",
         saving(unit, lambda x, g: g / x.norm(dim=-1, keepdim=True)), (X,), {"reference": unit}),
    Case("missing-dependency", "swish that differentiates x and not its sigmoid",
         saving(lambda x: x * swish_sigma(x), lambda x, g: swish_sigma(x) * g), (X,),
         {"reference": lambda x: x * torch.sigmoid(x)}),
    Case("missing-dependency", "swish that saves its sigmoid and holds it fixed", SwishFixed, (X,)),
    Case("missing-dependency", "a normalized row without mean and variance terms",
         saving(normalized, lambda x, g: g * deviation(x)), (X,)),
    Case("missing-dependency", "a gated sum whose gate was held fixed",
         saving(lambda x, y: x * torch.tanh(x * y), lambda x, y, g:
                (torch.tanh(x * y) * g, x * x * (1 - torch.tanh(x * y) ** 2) * g)), (X, Y),
         {"reference": lambda x, y: x * torch.tanh(x * y)}),
    Case("missing-dependency", "the norms of filters held fixed",
         saving(filters, lambda v, s, g: (g * s / norms(v), (g * v / norms(v)).sum((1, 2), keepdim=True))),
         (draw(3, 2, 4), draw(3, 1, 1, seed=1))),
    Case("permuted-gradient", "the same permutation instead of its inverse",
         saving(lambda x: x[:, [1, 2, 3, 0]] * 2, lambda x, g: 2 * g[:, [1, 2, 3, 0]]), (X,)),
    Case("permuted-gradient", "a flip forgotten",
         saving(lambda x: x.flip(-1).clone(), lambda x, g: 1.0 * g), (X,)),
    Case("gradient-mismatch", "a wrong formula", saving(torch.tanh, lambda x, g: g * x.exp()), (X,)),
    Case("gradient-mismatch", "sin for tan",
         saving(torch.tan, lambda x, g: g * x.sin() + g * 0.3), (X,)),
    Case("gradient-mismatch", "an error that is too small to see near 0",
         saving(F.gelu, wide_gelu_backward),
         (draw(6, 5),)),
    Case("gradient-mismatch", "an error that is too small to see at 0",
         saving(F.gelu, wide_gelu_backward),
         (draw(6, 5, seed=4),)),
    Case("kink-convention", "clamp's bounds",
         saving(lambda x: x.clamp(0, 1), lambda x, g: g * ((x > 0) & (x < 1))),
         (torch.tensor([-1.0, 0.0, 0.3, 1.0, 2.0]),),
         # This does not use clamp's own gradient, because its value at the bounds depends on
         # PyTorch's version.
         {"reference": lambda x: torch.where((x >= 0) & (x <= 1), x, x.detach().clamp(0, 1))}),
    Case("kink-convention", "relu with slope 1 at zero",
         saving(torch.relu, lambda x, g: g * (x >= 0)), (torch.tensor([-1.0, 0.0, 2.0]),),
         {"reference": torch.relu}),
]  # fmt: skip

WITNESSES += [
    Case("shared-state", "the input is kept on the class", OnTheClass, (X,)),
    Case("shared-state", "a global list is popped", raw(
        lambda ctx, x: (STACK.append(x), x.sin())[1], lambda ctx, g: STACK[-1].cos() * g), (X,)),
]  # fmt: skip

LOOKALIKES = [
    Case("shared-state", "a counter on the class", Counting, (X,)),
    Case("missing-staticmethod", "a classmethod beside static methods", ClassmethodFactory, (X,)),
    Case("non-tensor-saved", "None may be saved",
         raw(lambda ctx, x: save_something(ctx, x, None), lambda ctx, g: ctx.saved_tensors[0].cos() * g),
         (X,)),
    Case("saved-tensors-in-forward", "read in backward only, twice",
         raw(lambda ctx, x: save_something(ctx, x),
             lambda ctx, g: (ctx.saved_tensors[0] * 0 + ctx.saved_tensors[0]).cos() * g), (X,)),
    Case("wrong-mark-dirty", "dirty, changed and returned",
         raw(lambda ctx, x: dirty(ctx, x, lambda t: t), lambda ctx, g: 2 * g), (X,)),
    Case("mutates-input", "a buffer of its own is changed",
         saving(lambda x: x.clone().mul_(2), lambda x, g: 2 * g), (X,)),
    Case("backward-never-called", "a callable that scales around apply",
         lambda x: 3 * Double.apply(x).sum(-1), (X,)),
    Case("returns-view", "a clone", raw(lambda ctx, x: x.clone(), lambda ctx, g: g.clone()), (X,)),
    Case("returns-view", "a sum in its shape at once",
         saving(lambda x: (x * x).sum(-1), lambda x, g: 2 * x * g.unsqueeze(-1)), (X,), FULL),
    Case("returns-view", "a callable that reshapes behind the Function",
         lambda x: SQUARE.apply(x).reshape(-1), (X,), FULL),
    Case("wrong-non-differentiable", "a marked float mask",
         raw(lambda ctx, x: mark_output(
             ctx, (2 * x, (x > 0).to(x.dtype)), (1,)), lambda ctx, g, _: 2 * g), (X,)),
    Case("default-dtype", "a cast to float32",
         saving(lambda x: (2 * x).float(), lambda x, g: 2 * g), (X.float(),)),
    Case("default-dtype", "a cast of one output",
         saving(lambda x: (2 * x, (x * x).float()), lambda x, g, h: 2 * g + 2 * x * h), (X.float(),)),
    Case("default-dtype", "zeros of the dtype of the input",
         saving(lambda x: torch.zeros(x.shape, dtype=x.dtype).copy_(2 * x), lambda x, g: 2 * g), (X,)),
    Case("default-dtype", "a number of the default dtype, which does not count",
         saving(lambda x: torch.tensor(2.0) * x, lambda x, g: 2 * g), (X,)),
    Case("default-dtype", "an integer output",
         raw(lambda ctx, x: mark_output(ctx, (2 * x, torch.zeros(x.shape).long()), (1,)),
             lambda ctx, g, _: 2 * g), (X,)),
    Case("default-dtype", "a bool output",
         raw(lambda ctx, x: mark_output(ctx, (2 * x, torch.ones(x.shape) > 0), (1,)),
             lambda ctx, g, _: 2 * g), (X,)),
    Case("wrong-arity", "trailing None is legal",
         saving(lambda x: 2 * x, lambda x, g: (2 * g, None, None)), (X,)),
    Case("gradient-shape", "a 0-dim input",
         saving(lambda x, s: x * s, lambda x, s, g: (g * s, (g * x).sum())), (X, draw())),
    Case("unreduced-broadcast", "summed to its size",
         saving(lambda x, b: x + b, lambda x, b, g: (g, g.sum_to_size(b.shape))), (X, draw(4))),
    Case("gradient-dtype", "a boolean mask times g",
         saving(torch.relu, lambda x, g: g * (x > 0)), (X,)),
    Case("gradient-dtype", "the real part for a real gain",
         saving(lambda z, a: z * a, lambda z, a, g: (g * a, (g * z.conj()).real)),
         (CPLX, draw(5, dtype=torch.float32))),
    Case("gradient-device", "an index on the CPU, which may be there",
         saving(lambda x: x[1:], lambda x, g:
                torch.zeros_like(x).index_put_((torch.arange(1, len(x)),), g)), (X,)),
    Case("gradient-device", "new_zeros", saving(lambda x: 1.0 * x, lambda x, g: g + g.new_zeros(g.shape)),
         (X,)),
    Case("mutates-grad-output", "a copy is changed", square_with(lambda g: g.clone().mul_(1.0)), (X,)),
    Case("mutates-saved", "a copy of the saved is changed",
         saving(lambda x: x * x, lambda x, g: x.clone().mul_(2) * g), (X,)),
    Case("none-grad-output", "None is handled",
         raw(unmaterialized, lambda ctx, a, b: sum(
             c * g for c, g in ((2, a), (3, b)) if g is not None)), (X,)),
    Case("ignores-grad-output", "a large constant factor",
         saving(lambda x: 1e4 * x, lambda x, g: 1e4 * g), (X,)),
    Case("nonlinear-in-grad-output", "a clamp of the input", saving(
        lambda x: x.clamp(-1, 1), lambda x, g: g * (x.abs() <= 1)), (X,)),
    Case("uniform-grad-output", "a true mean", saving(
        lambda x: x.mean().reshape(1), lambda x, g: g.expand_as(x) / x.numel()), (X,)),
    Case("forward-mismatch", "nan where the reference has nan, too",
         saving(torch.sqrt, lambda x, g: g / (2 * x.sqrt())), (torch.tensor([-1.0, 0.5, 1, 2, 3]),),
         {"reference": torch.sqrt}),
    Case("forward-mismatch", "another dtype than the reference's",
         saving(lambda x: (x > 0).float(), lambda x, g: 0 * g.to(x.dtype)), (X,),
         {"reference": lambda x: (x > 0).double()}),
    Case("forward-mismatch", "another formula for the same function",
         saving(lambda x: 0.5 * (1 + torch.tanh(x / 2)),
                lambda x, g: torch.sigmoid(x) * torch.sigmoid(-x) * g), (X,),
         {"reference": torch.sigmoid}),
    Case("missing-dependency", "an output that is marked, but differentiable in the reference",
         raw(with_marked_norm, lambda ctx, g, _: tangential(*ctx.saved_tensors, g)), (X,),
         {"reference": lambda x: (x / x.norm(dim=1, keepdim=True), x.norm(dim=1, keepdim=True))}),
    Case("wrong-region", "equal maxima share the gradient",
         saving(lambda x: x.amax(1, keepdim=True), lambda x, g: share(x) * g), (TIED,)),
    Case("wrong-region", "equal elements, two of them infinite",
         saving(lambda x: x.logsumexp(1), lambda x, g: x.softmax(1) * g.unsqueeze(1)), (HIDDEN,)),
    Case("wrong-region", "the first of equal maxima",
         saving(lambda x: x.amax(1, keepdim=True), lambda x, g: first_max(x) * g), (TIED,)),
    Case("undeclared-surrogate", "a median of equal elements",
         saving(lambda x: x.median(1, keepdim=True).values,
                lambda x, g: torch.zeros_like(x).scatter(1, x.median(1, keepdim=True).indices, g)),
         (torch.ones(2, 5, dtype=torch.float64),)),
    Case("batch-dimension", "a bias with a dim of length 1 beside a batch of 1",
         saving(lambda x, b: x * x + b, lambda x, b, g: (2 * x * g, g.sum(0, keepdim=True))),
         (X[:1], draw(1, 4, seed=3))),
    Case("batch-dimension", "one edge, whose ends are indices of length 1",
         saving(lambda x, k, ends: k * (x[ends[0]] - x[ends[1]]).square().sum(-1), spring),
         (X, draw(1), torch.tensor([[0], [2]]))),
    Case("undeclared-surrogate", "a declared one", saving(torch.round, lambda x, g: g), (3 * X,),
         {"surrogate": lambda x: 1.0 * x}),
    Case("undeclared-surrogate", "a true zero gradient",
         saving(torch.floor, lambda x, g: torch.zeros_like(g)), (3 * X,)),
    Case("missing-gradient", "None for an input that nothing depends on",
         saving(lambda x, y: 2 * x, lambda x, y, g: (2 * g, None)), (X, Y)),
    Case("missing-gradient", "an input that does not ask for one",
         saving(lambda x, y: x * y, lambda x, y, g: (g * y, None)), (X.clone().requires_grad_(), Y)),
    Case("extra-gradient", "zeros for an input without influence",
         saving(lambda x, y: 2.0 * x, lambda x, y, g: (2 * g, torch.zeros_like(y))), (X, Y)),
    Case("non-finite", "an infinite derivative at the edge of the domain",
         saving(torch.sqrt, lambda x, g: g / (2 * x.sqrt())), (torch.tensor([0.0, 1.0, 4.0]),)),
    Case("flipped-sign", "a declared gradient reversal",
         saving(lambda x: 1.0 * x, lambda x, g: -g), (X,), {"intentional": ("flipped-sign",)}),
    Case("constant-factor", "a Bessel correction where it belongs",
         saving(lambda x: x.var(-1), lambda x, g: 2 * center(x) / (x.shape[-1] - 1) * g[:, None]), (X,)),
    Case("swapped-gradients", "a symmetric sum", saving(lambda x, y: x + y, lambda x, y, g: (g, g)), (X, Y)),
    Case("transposed-gradient", "a symmetric product",
         saving(lambda a: a @ a.T, lambda a, g: (g + g.T) @ a), (X,)),
    Case("missing-conjugate", "conjugated as it must be",
         saving(lambda z: z * z, lambda z, g: 2 * z.conj() * g), (CPLX,)),
    Case("missing-cross-terms", "softmax with its row sum", saving(soft, soft_backward), (X,)),
    Case("duplicate-index", "accumulated",
         saving(lambda t, i: t[i], lambda t, i, g: (torch.zeros_like(t).index_add(0, i, g), None)),
         (TABLE, IDX)),
    Case("off-by-one", "a true edge",
         saving(lambda x: x[:, 1:] - x[:, :-1], lambda x, g: F.pad(g, (1, 0)) - F.pad(g, (0, 1))),
         (draw(3, 6),)),
    Case("wrong-region", "leaky relu",
         saving(lambda x: F.leaky_relu(x, 0.1), lambda x, g: torch.where(x > 0, g, 0.1 * g)), (X,)),
    Case("missing-dependency", "the mean's own share returned",
         saving(center, lambda x, g: g - g.mean(-1, keepdim=True)), (X,)),
    Case("permuted-gradient", "the inverse permutation",
         saving(lambda x: x[:, [1, 2, 3, 0]], lambda x, g: g[:, [3, 0, 1, 2]]), (X,)),
    Case("gradient-mismatch", "steep but right",
         saving(lambda x: (5 * x).sin().exp(), lambda x, g: 5 * (5 * x).cos() * (5 * x).sin().exp() * g),
         (X,)),
    Case("kink-convention", "the same convention",
         saving(torch.relu, lambda x, g: g * (x > 0)), (torch.tensor([-1.0, 0.0, 2.0]),),
         {"reference": torch.relu}),
    Case("forward-raises", "a forward that warns", saving(
        lambda x: torch.as_strided(x, x.shape, x.stride()).clone(), lambda x, g: g.clone()), (X,)),
    Case("backward-raises", "an exception caught inside", saving(
        lambda x: 2 * x, lambda x, g: 2 * g if g.dim() == 2 else g[99]), (X,)),
]  # fmt: skip
