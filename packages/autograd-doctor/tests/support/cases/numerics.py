"""Range and precision: overflow, lost digits, autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cases.making import POSITIVE, Case, W, X, draw, raw, saving


def by_rows(x: Tensor) -> Tensor:
    return torch.logsumexp(x, -1)


def softmax_times(x: Tensor, g: Tensor) -> Tensor:
    return x.softmax(-1) * g[..., None]


def shifted_by(shift: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a log-sum-exp that first subtracts ``shift(x)`` from each row."""

    def log_sum_exp(x: Tensor) -> Tensor:
        m = shift(x.amax(-1, keepdim=True))
        return (x - m).exp().sum(-1).log() + m[..., 0]

    return log_sum_exp


def masked_softmax_times(x: Tensor, g: Tensor) -> Tensor:
    return x.softmax(-1).nan_to_num() * g[..., None]


def swish_derivatives(x: Tensor, b: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    s = torch.sigmoid(b * x)
    slope = s * (1 - s)
    return g * (s + b * x * slope), (g * x * x * slope).sum().view(b.shape)


def mish_derivative(x: Tensor) -> Tensor:
    """The formula from the paper, in powers of the exponential."""
    e = x.exp()
    omega = 4 * (x + 1) + 4 * e**2 + e**3 + e * (4 * x + 6)
    return e * omega / (2 * e + e**2 + 2) ** 2


def entropy(x: Tensor) -> Tensor:
    return -(x.softmax(-1) * x.log_softmax(-1)).sum(-1)


def entropy_backward(x: Tensor, g: Tensor) -> Tensor:
    p, logs = x.softmax(-1), x.log_softmax(-1)
    return -p * (logs - (p * logs).sum(-1, keepdim=True)) * g[..., None]


THREE = torch.tensor(3.0)


def either(x: Tensor) -> Tensor:
    """Return 1 or -1. The sign stays the same for a tiny step, but not for a larger one."""
    return 1 - 2 * ((1e6 * x.sum()).floor() % 2)


def root(x: Tensor) -> Tensor:
    """The square root by Newton's iteration."""
    y = torch.ones_like(x)
    for _ in range(4 if x.dtype == torch.float32 else 20):
        y = (y + x / y) / 2
    return y


def at_least_single(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def softmax_backward(p: Tensor, g: Tensor) -> Tensor:
    return p * (g - (g * p).sum(-1, keepdim=True))


def variance_backward(x: Tensor, g: Tensor) -> Tensor:
    return 2 * (x - x.mean(-1, keepdim=True)) / x.shape[-1] * g[..., None]


def distances(a: Tensor, b: Tensor) -> Tensor:
    return (a * a).sum(-1)[:, None] - 2 * a @ b.T + (b * b).sum(-1)


def distances_backward(a: Tensor, b: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    return 2 * (g.sum(1)[:, None] * a - g @ b), 2 * (g.sum(0)[:, None] * b - g.T @ a)


def dropped(ctx: Any, x: Tensor) -> Tensor:
    keep = torch.rand(x.shape, dtype=x.dtype) < 0.5  # different draws in a different dtype
    ctx.save_for_backward(keep)
    return torch.where(keep, 2 * x, 0)


def rms(x: Tensor) -> Tensor:
    return (x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).rsqrt()


def rms_norm_backward(x: Tensor, g: Tensor) -> Tensor:
    r = rms(x)
    return r * (g - x * r * (g * x * r).mean(-1, keepdim=True))


def product(x: Tensor, w: Tensor) -> Tensor:
    return x @ w.T


def product_backward(x: Tensor, w: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    return g @ w, g.T @ x


def tanh_by_numpy(x: Tensor, w: Tensor) -> Tensor:
    return torch.from_numpy(np.tanh(product(x, w).numpy()))


def tanh_backward(x: Tensor, w: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    return product_backward(x, w, g * (1 - product(x, w).tanh() ** 2))


class Product(torch.autograd.Function):
    """Runs backward in the dtype in which forward ran."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")  # type: ignore[misc]
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return product(x, w)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")  # type: ignore[misc]
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        return product_backward(*ctx.saved_tensors, g)


FULL = {"level": "full"}

WITNESSES = [
    Case("overflow", "the sigmoid's derivative in exponentials",
         saving(torch.sigmoid, lambda x, g: g * (-x).exp() / (1 + (-x).exp()) ** 2), (X,)),
    Case("overflow", "log-sum-exp without a shift",
         saving(lambda x: x.exp().sum(-1).log(), softmax_times), (X,)),
    Case("overflow", "log cosh as it is written",
         saving(lambda x: x.cosh().log(), lambda x, g: x.tanh() * g), (X,)),
    Case("overflow", "mish's derivative in powers of the exponential",
         saving(F.mish, lambda x, g: mish_derivative(x) * g), (X,)),
    Case("overflow", "an exponential masked by a product, not by where",
         saving(F.elu, lambda x, g: g * ((x > 0) + (x <= 0) * x.exp())), (X,)),
    Case("overflow", "log-sum-exp of a row that is masked wholly",
         saving(shifted_by(lambda m: m), masked_softmax_times), (X,), {"reference": by_rows}),
    Case("overflow", "zero times infinity at a masked element",
         saving(entropy, entropy_backward), (X,),
         {"reference": lambda x: torch.special.entr(x.softmax(-1)).sum(-1)}),
    Case("precision", "a variance as a difference of squares",
         saving(lambda x: (x * x).mean(-1) - x.mean(-1) ** 2, variance_backward), (draw(5, 6),)),
    Case("precision", "a small number added to one",
         saving(lambda x: torch.log(1 + x), lambda x, g: g / (1 + x)), (POSITIVE,)),
    Case("precision", "one minus a cosine",
         saving(lambda x: 1 - x.cos(), lambda x, g: x.sin() * g), (X,)),
    Case("precision", "squared distances, multiplied out",
         saving(distances, distances_backward), (draw(6, 5), draw(7, 5, seed=1))),
    Case("precision", "backward in bfloat16",
         saving(lambda x: x * x, lambda x, g: (2 * x.bfloat16() * g.bfloat16()).to(g.dtype)), (X,)),
    Case("precision", "backward in float16",
         saving(lambda x: x.sin(), lambda x, g: (x.cos().half() * g.half()).to(g.dtype)), (X,)),
    Case("precision", "forward in float32",
         saving(lambda x: x.float().softmax(-1).to(x.dtype),
                lambda x, g: softmax_backward(x.softmax(-1), g)), (X,)),
    Case("precision", "a product of matrices in float32",
         saving(lambda x: (x.float() @ x.float().mT).to(x.dtype), lambda x, g: (g + g.mT) @ x), (X,)),
    Case("precision", "a slope in float32, times grad_output in float64",
         saving(torch.sin, lambda x, g: g * x.float().cos().to(g.dtype)), (X,)),
    Case("precision", "a linear backward in float32",
         saving(lambda x: 2 * x, lambda x, g: (2 * g.float()).to(x.dtype)), (X,)),
    # Finite differences of a float32 forward show only a few digits, so the rule says no more than
    # these.
    Case("constant-factor", "a factor beside a forward in float32",
         saving(lambda x: x.float().exp().to(x.dtype), lambda x, g: 1.1 * x.exp() * g), (X,)),
    Case("constant-factor", "a mean in float32, divided by half of N",
         saving(lambda x: x.float().mean(-1).to(x.dtype),
                lambda x, g: (g / x.shape[-1] * 2)[..., None].expand(x.shape)), (X,)),
    Case("gradient-mismatch", "a ripple beside a forward in float32",
         saving(lambda x: x.float().square().to(x.dtype),
                lambda x, g: 2 * x * (1 + 0.05 * (7 * x).sin()) * g), (X,)),
    Case("constant-factor", "a factor near 1 beside a forward in float32",
         saving(lambda x: (x.float() ** 3).to(x.dtype), lambda x, g: 3.009 * x * x * g), (X,)),
    Case("autocast", "a product of grad_output and what was saved",
         saving(product, product_backward), (X, W), FULL),
    Case("autocast", "a convolution's own gradients",
         saving(F.conv1d, lambda x, w, g: (torch.nn.grad.conv1d_input(x.shape, w, g),
                                           torch.nn.grad.conv1d_weight(x, w.shape, g))),
         (draw(2, 3, 8), draw(4, 3, 3)), FULL),
    Case("autocast", "numpy, which has no bfloat16",
         saving(tanh_by_numpy, tanh_backward), (X, W), FULL),
]  # fmt: skip

LOOKALIKES = [
    Case("overflow", "the result itself overflows", saving(torch.exp, lambda x, g: x.exp() * g), (X,)),
    Case("overflow", "a high power", saving(lambda x: x**5, lambda x, g: 5 * x**4 * g), (X,)),
    Case("overflow", "log-sum-exp with its largest element subtracted",
         saving(shifted_by(lambda m: m), softmax_times), (X,)),
    Case("overflow", "log-sum-exp with a shift that is finite",
         saving(shifted_by(lambda m: torch.where(m.isfinite(), m, 0)), masked_softmax_times), (X,),
         {"reference": by_rows}),
    Case("overflow", "a quotient, of which no mask removes an element",
         saving(lambda x: x * x / (1 + x * x), lambda x, g: g * 2 * x / (1 + x * x) ** 2), (X,),
         {"reference": lambda x: 1 - 1 / (1 + x * x)}),
    Case("overflow", "nan where the reference has nan, too",
         saving(by_rows, lambda x, g: (x - by_rows(x)[..., None]).exp() * g[..., None]), (X,),
         {"reference": by_rows}),
    Case("overflow", "nan where a surrogate alone has a gradient",
         saving(by_rows, lambda x, g: x.softmax(-1) * g[..., None] + 0 * x), (X,),
         {"reference": by_rows, "surrogate": by_rows}),
    Case("overflow", "nan at -inf for a parameter, which no mask hides",
         saving(lambda x, b: F.silu(b * x) / b, swish_derivatives),
         (torch.tensor([-2.0, -1.5, 1.0, 3.0]).double(), torch.full((1,), 1.3).double()),
         {"reference": lambda x, b: x * torch.sigmoid(b * x)}),
    Case("overflow", "an exponential masked by where",
         saving(F.elu, lambda x, g: torch.where(x > 0, g, g * x.exp())), (X,)),
    Case("overflow", "infinity where it is as good as another",
         saving(lambda x, y: x + 0.3 * (y - x), lambda x, y, g: (0.7 * g, 0.3 * g)),
         (X, draw(3, 4, seed=7)), {"reference": lambda x, y: 0.7 * x + 0.3 * y}),
    Case("precision", "a variance of centered numbers",
         saving(lambda x: x.var(-1, correction=0), variance_backward), (draw(5, 6),)),
    Case("precision", "a sigmoid's gradient in its tail",
         saving(torch.sigmoid, lambda x, g: g * torch.sigmoid(x) * (1 - torch.sigmoid(x))),
         (10 + POSITIVE,)),
    Case("precision", "a random mask that depends on the dtype",
         raw(dropped, lambda ctx, g: torch.where(ctx.saved_tensors[0], 2 * g, 0)), (X,)),
    Case("precision", "an epsilon that depends on the dtype",
         saving(lambda x: x * rms(x), rms_norm_backward), (X,)),
    Case("precision", "at least float32",
         saving(lambda x: at_least_single(x).sin().to(x.dtype),
                lambda x, g: (at_least_single(x).cos() * g).to(x.dtype)), (X,)),
    Case("precision", "a constant in float32", saving(lambda x: 3 * x, lambda x, g: g * THREE), (X,)),
    Case("precision", "fine levels, declared",
         saving(lambda x: (x * 1e5).round() / 1e5, lambda x, g: 1 * g), (X,),
         {"surrogate": lambda x: 1 * x}),
    Case("precision", "a gradient that is zero but for rounding",
         saving(lambda x: x / x.abs(), lambda x, g: g / x.abs() - g * x * x / x.abs() ** 3), (X,)),
    Case("precision", "a sign that may be either, as an eigenvector's",
         saving(lambda x: 0.01 * x * either(x), lambda x, g: 0.01 * g * either(x)), (X,),
         {"reference": lambda x: 0.01 * x * either(x.detach())}),
    Case("precision", "a cast to 16 bits, declared",
         saving(lambda x: x.bfloat16(), lambda x, g: g.to(x.dtype)), (X,),
         {"reference": lambda x: x.bfloat16()}),
    Case("precision", "levels, on the edges of which the input lies",
         saving(lambda x: (4 * x).floor() / 4, lambda x, g: 0 * g),
         (torch.tensor([20.0, 31, 42, 53, 64]),)),
    Case("precision", "a solver that stops early in float32",
         saving(root, lambda x, g: g / (2 * root(x))), (POSITIVE,)),
    Case("autocast", "custom_fwd and custom_bwd", Product, (X, W), FULL),
    Case("autocast", "no product of matrices", saving(lambda x: x * x, lambda x, g: 2 * x * g), (X,), FULL),
]  # fmt: skip
