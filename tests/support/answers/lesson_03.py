"""Answers to the exercises of lesson 03."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from answers.making import Spoiling, Wrong, double, solved
from autograd_course import functions
from autograd_course.functions.conv1d import windows

SOLVED = solved("03_gradient_patterns")
RIGHT = {
    "gelu": SOLVED["GELU"],
    "swish": SOLVED["Swish"],
    "learnable-swish": SOLVED["LearnableSwish"],
    "broadcast-multiply": SOLVED["BroadcastMultiply"],
    "log-sum-exp": SOLVED["LogSumExp"],
    "max-with-ties": SOLVED["MaxWithTies"],
    "batch-norm": SOLVED["BatchNorm"],
    "soft-rank": SOLVED["SoftRank"],
    "gather-rows": SOLVED["GatherRows"],
    "conv1d": SOLVED["Conv1d"],
    "complex-multiply": SOLVED["ComplexMultiply"],
    "gradient-reversal": SOLVED["GradientReversal"],
}


def made(forward: Any, backward: Any) -> type[Function]:
    """Return a Function; its backward gets the saved tensors after ctx."""

    def with_saved(ctx: Any, *grads: Any) -> Any:
        return backward(ctx, *ctx.saved_tensors, *grads)

    methods = {"forward": staticmethod(forward), "backward": staticmethod(with_saved)}
    return type("Made", (Function,), methods)


# GELU and Swish


def gelu_by_normal(ctx: Any, x: Tensor) -> Tensor:
    cdf = torch.special.ndtr(x)
    ctx.save_for_backward(x, cdf)
    return x * cdf


def gelu_density(x: Tensor) -> Tensor:
    return (-0.5 * x**2).exp() / math.sqrt(2 * math.pi)


def gelu_by_tanh(ctx: Any, x: Tensor) -> Tensor:
    ctx.save_for_backward(x)
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_built_in(ctx: Any, x: Tensor) -> Tensor:
    ctx.save_for_backward(x)
    return F.gelu(x)


def swish_saving(*kept: str) -> Any:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        s = torch.sigmoid(x)
        all_of_them = {"x": x, "s": s, "y": x * s}
        y = all_of_them["y"]
        ctx.save_for_backward(*(all_of_them[name] for name in kept))
        return y

    return forward


def swish_by_steps(ctx: Any, x: Tensor, g: Tensor) -> Tensor:
    y = x * x.sigmoid()
    return g * (y + x.sigmoid() * (1 - y))


def swish_saving_its_derivative(ctx: Any, x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    ctx.save_for_backward(s * (1 + x * (1 - s)))
    return x * s


# Learnable Swish and the broadcast product


def learnable(beta_gradient: Any) -> Any:
    def backward(ctx: Any, x: Tensor, beta: Tensor, g: Tensor) -> Any:
        s = torch.sigmoid(beta * x)
        each = g * x**2 * s * (1 - s)
        return g * (s + beta * x * s * (1 - s)), beta_gradient(each, beta)

    return backward


def without_inner_beta(ctx: Any, x: Tensor, beta: Tensor, g: Tensor) -> Any:
    s = torch.sigmoid(beta * x)
    return g * (s + x * s * (1 - s)), (g * x**2 * s * (1 - s)).sum().reshape(beta.shape)


def product(reduce: Any) -> Any:
    def backward(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
        return reduce(y * g, x), reduce(x * g, y)

    return backward


def over_leading_axes(grad: Tensor, like: Tensor) -> Tensor:
    return grad.sum(tuple(range(grad.dim() - like.dim()))) if grad.dim() > like.dim() else grad


def with_empty_dim(grad: Tensor, like: Tensor) -> Tensor:
    """Sum over the leading axes; where there are none, ``dim=()`` sums over all of them."""
    grad = grad.sum(tuple(range(grad.dim() - like.dim())))
    ones = [axis for axis, length in enumerate(like.shape) if length == 1]
    return grad.sum(ones, keepdim=True) if ones else grad


def without_keepdim(grad: Tensor, like: Tensor) -> Tensor:
    axes = [a for a, n in enumerate((1,) * (grad.dim() - like.dim()) + like.shape) if n == 1]
    return grad.sum(axes) if axes and grad.shape != like.shape else grad


def in_one_sum(grad: Tensor, like: Tensor) -> Tensor:
    shape = (1,) * (grad.dim() - like.dim()) + tuple(like.shape)
    axes = [a for a, n in enumerate(shape) if n == 1 and grad.shape[a] != 1]
    return (grad.sum(axes, keepdim=True) if axes else grad).reshape(like.shape)


# Log-sum-exp and max


def log_sum_exp(ctx: Any, x: Tensor, dim: int, keepdim: bool = False, guard: bool = True) -> Tensor:
    top = x.max(dim, keepdim=True).values
    if guard:
        top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    y = (x - top).exp().sum(dim, keepdim=True).log() + top
    ctx.save_for_backward(x, y)
    ctx.dim, ctx.keepdim = dim, keepdim
    return y.clone() if keepdim else y.squeeze(dim)


def log_sum_exp_unguarded(ctx: Any, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    return log_sum_exp(ctx, x, dim, keepdim, guard=False)


def log_sum_exp_naive(ctx: Any, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    y = x.exp().sum(dim, keepdim=True).log()
    ctx.save_for_backward(x, y)
    ctx.dim, ctx.keepdim = dim, keepdim
    return y if keepdim else y.squeeze(dim)


def log_sum_exp_built_in(ctx: Any, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    y = torch.logsumexp(x, dim, keepdim=True)
    ctx.save_for_backward(x, y)
    ctx.dim, ctx.keepdim = dim, keepdim
    return y.clone() if keepdim else y.squeeze(dim)


def log_sum_exp_always_dropped(ctx: Any, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    return log_sum_exp(ctx, x, dim)


def by_softmax(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
    g = g if ctx.keepdim else g.unsqueeze(ctx.dim)
    return g * x.softmax(ctx.dim).nan_to_num(0.0), None, None


def by_unguarded_softmax(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
    g = g if ctx.keepdim else g.unsqueeze(ctx.dim)
    return g * (x - y).exp(), None, None


def by_last_axis(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
    g = g if ctx.keepdim else g.unsqueeze(ctx.dim)
    return g * x.softmax(-1).nan_to_num(0.0), None, None


def without_axis(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
    return g * x.softmax(ctx.dim).nan_to_num(0.0), None, None


def log_sum_exp_saving_softmax(ctx: Any, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    top = x.amax(dim, keepdim=True).clamp_min(torch.finfo(x.dtype).min)
    e = (x - top).exp()
    total = e.sum(dim, keepdim=True)
    ctx.save_for_backward(torch.where(total > 0, e / total, 0.0))
    ctx.dim, ctx.keepdim = dim, keepdim
    y = total.log() + top
    return y if keepdim else y.squeeze(dim)


def from_softmax(ctx: Any, p: Tensor, g: Tensor) -> Any:
    return (g if ctx.keepdim else g.unsqueeze(ctx.dim)) * p, None, None


def winners(share: Any) -> Any:
    def backward(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
        if not ctx.keepdim:
            y, g = y.unsqueeze(ctx.dim), g.unsqueeze(ctx.dim)
        return g * share(x, (x == y).to(g.dtype), ctx.dim), None, None

    return backward


def nearly_tied(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
    if not ctx.keepdim:
        y, g = y.unsqueeze(ctx.dim), g.unsqueeze(ctx.dim)
    near = torch.isclose(x, y)
    return g * near / near.sum(ctx.dim, keepdim=True), None, None


def all_in_full(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    return mask


def over_the_whole_axis(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    return mask / x.shape[dim]


def over_all_winners(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    return mask / mask.sum()


def first_alone(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    return torch.zeros_like(mask).scatter(dim, mask.argmax(dim, keepdim=True), 1.0)


def max_scattered(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
    """Share by ``torch.where`` with a count, as with integers."""
    if not ctx.keepdim:
        y, g = y.unsqueeze(ctx.dim), g.unsqueeze(ctx.dim)
    count = (x == y).count_nonzero(ctx.dim).unsqueeze(ctx.dim)
    return torch.where(x == y, g / count, 0.0), None, None


# Batch normalization and soft rank


def normalizing(gradient: Any) -> Any:
    def backward(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
        def mean(t: Tensor) -> Tensor:
            return t.mean(ctx.axes, keepdim=True)

        scale = (mean((x - mean(x)) ** 2) + ctx.eps).rsqrt()
        return gradient(x, y, g, scale, mean), None

    return backward


def with_unbiased(ctx: Any, x: Tensor, eps: float) -> Tensor:
    ctx.axes, ctx.eps = [axis for axis in range(x.dim()) if axis != 1], eps
    y = (x - x.mean(ctx.axes, keepdim=True)) / (x.var(ctx.axes, keepdim=True) + eps).sqrt()
    ctx.save_for_backward(x, y)
    return y


def batch_norm_built_in(ctx: Any, x: Tensor, eps: float) -> Tensor:
    ctx.axes, ctx.eps = [axis for axis in range(x.dim()) if axis != 1], eps
    y = F.batch_norm(x, None, None, training=True, eps=eps)
    ctx.save_for_backward(x, y)
    return y


def batch_norm_saving_the_scale(ctx: Any, x: Tensor, eps: float) -> Tensor:
    ctx.axes = [axis for axis in range(x.dim()) if axis != 1]
    centered = x - x.mean(ctx.axes, keepdim=True)
    scale = 1 / ((centered**2).mean(ctx.axes, keepdim=True) + eps).sqrt()
    y = centered * scale
    ctx.save_for_backward(y, scale)
    return y


def from_the_scale(ctx: Any, y: Tensor, scale: Tensor, g: Tensor) -> Any:
    m = y.numel() // y.shape[1]
    total, along = g.sum(ctx.axes, keepdim=True), (g * y).sum(ctx.axes, keepdim=True)
    return scale / m * (m * g - total - y * along), None


def step_by_step(
    x: Tensor, y: Tensor, g: Tensor, scale: Tensor, mean: Any, bessel: float = 0.0
) -> Tensor:
    """Batch normalization's gradient as in the paper: through variance, mean and numerator."""
    m = x.numel() // x.shape[1]
    axes = [axis for axis in range(x.dim()) if axis != 1]
    centered = x - mean(x)
    by_variance = (g * centered).sum(axes, keepdim=True) * -0.5 * scale**3
    by_mean = -(g * scale).sum(axes, keepdim=True)
    return g * scale + by_variance * 2 * centered / (m - bessel) + by_mean / m


def with_bessel(x: Tensor, y: Tensor, g: Tensor, scale: Tensor, mean: Any) -> Tensor:
    return step_by_step(x, y, g, scale, mean, bessel=1.0)


def ranking(gradient: Any) -> Any:
    def backward(ctx: Any, x: Tensor, g: Tensor) -> Any:
        s = torch.sigmoid((x[..., :, None] - x[..., None, :]) / ctx.tau)
        return gradient(s * (1 - s) / ctx.tau, g, ctx.tau), None

    return backward


def with_all_pairs(ctx: Any, x: Tensor, tau: float) -> Tensor:
    s = torch.sigmoid((x[..., :, None] - x[..., None, :]) / tau)
    ctx.save_for_backward(s)
    ctx.tau = tau
    return s.sum(-1) + 0.5


def from_all_pairs(ctx: Any, s: Tensor, g: Tensor) -> Any:
    slope = s * (1 - s) / ctx.tau
    return ((g[..., :, None] - g[..., None, :]) * slope).sum(-1), None


# Tables and convolution


def gathered(place: Any) -> Any:
    def backward(ctx: Any, index: Tensor, g: Tensor) -> Any:
        return place(g.new_zeros(ctx.shape), index, g), None

    return backward


def assigned(zeros: Tensor, index: Tensor, g: Tensor) -> Tensor:
    zeros[index] = g
    return zeros


def added_by_operator(zeros: Tensor, index: Tensor, g: Tensor) -> Tensor:
    zeros[index] += g
    return zeros


def accumulated(zeros: Tensor, index: Tensor, g: Tensor) -> Tensor:
    return zeros.index_put((index,), g, accumulate=True)


def by_one_hot(ctx: Any, index: Tensor, g: Tensor) -> Any:
    hot = F.one_hot(index.reshape(-1), ctx.shape[0]).to(g.dtype)
    return hot.t() @ g.reshape(-1, ctx.shape[1]), None


def in_single(ctx: Any, index: Tensor, g: Tensor) -> Any:
    rows = g.reshape(-1, ctx.shape[1])
    return torch.zeros(ctx.shape).index_add(0, index.reshape(-1), rows), None


def picked_again(ctx: Any, index: Tensor, g: Tensor) -> Any:
    return g.reshape(-1, ctx.shape[1])[index], None


def convolution(**other: Any) -> Any:
    """A backward of conv1d; what is given in ``other`` differs from the right one."""

    def backward(ctx: Any, x: Tensor, weight: Tensor, g: Tensor) -> Any:
        stride, padding, groups = ctx.geometry
        taps, steps = weight.shape[-1], g.shape[-1]
        seen = windows(x, taps, stride, padding, groups)
        kernels, g = weight.unflatten(0, (groups, -1)), g.unflatten(1, (groups, -1))
        grad_weight = torch.einsum("ngctk,ngot->gock", seen, g).flatten(0, 1)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, kernels).flatten(1, 2)
        padded = x.new_zeros(*x.shape[:-1], x.shape[-1] + 2 * padding)
        for t in range(steps):
            reached = padded[..., t * stride : t * stride + taps]
            if other.get("overwrites"):
                reached.copy_(grad_windows[..., t, :])
            else:
                flipped = grad_windows[..., t, :].flip(-1)
                reached += flipped if other.get("flips") else grad_windows[..., t, :]
        inner = slice(padding, -padding if other.get("cuts") else padding + x.shape[-1])
        return padded[..., inner], grad_weight, None, None, None

    return backward


def conv1d_built_in(ctx: Any, x: Tensor, w: Tensor, stride: int, padding: int, groups: int) -> Any:
    ctx.save_for_backward(x, w)
    ctx.geometry = stride, padding, groups
    return F.conv1d(x, w, None, stride, padding, 1, groups)


def conv1d_helpers(ctx: Any, x: Tensor, w: Tensor, g: Tensor) -> Any:
    stride, padding, groups = ctx.geometry
    return (
        torch.nn.grad.conv1d_input(x.shape, w, g, stride, padding, 1, groups),
        torch.nn.grad.conv1d_weight(x, w.shape, g, stride, padding, 1, groups),
        None,
        None,
        None,
    )


def conv1d_true(ctx: Any, x: Tensor, w: Tensor, stride: int, padding: int, groups: int) -> Any:
    """A mathematician's convolution: the kernel is turned round."""
    return SOLVED["Conv1d"].forward(ctx, x, w.flip(-1), stride, padding, groups)


def conv1d_without_remainder(ctx: Any, x: Tensor, w: Tensor, g: Tensor) -> Any:
    """Size the gradient by what the windows reach, as if nothing were left over at the end."""
    stride, padding, _ = ctx.geometry
    grads = convolution()(ctx, x, w, g)
    reached = stride * (g.shape[-1] - 1) + w.shape[-1]
    return grads[0][..., : reached - 2 * padding], *grads[1:]


def one_group(ctx: Any, x: Tensor, w: Tensor, g: Tensor) -> Any:
    ctx.geometry = (*ctx.geometry[:2], 1)
    return convolution()(ctx, x, w, g)


def conv1d_by_loop(ctx: Any, x: Tensor, w: Tensor, stride: int, padding: int, groups: int) -> Any:
    """Forward as a loop over the taps, group by group."""
    ctx.save_for_backward(x, w)
    ctx.geometry = stride, padding, groups
    padded, taps = F.pad(x, (padding, padding)), w.shape[-1]
    steps = (padded.shape[-1] - taps) // stride + 1
    done = []
    for part, kernel in zip(padded.chunk(groups, 1), w.chunk(groups, 0), strict=True):
        done.append(
            sum(
                kernel[..., k] @ part[..., k : k + stride * (steps - 1) + 1 : stride]
                for k in range(taps)
            )
        )
    return torch.cat(done, 1)


# Complex product and reversal


def complex_product(gradients: Any) -> Any:
    def backward(ctx: Any, z: Tensor, w: Tensor, g: Tensor) -> Any:
        return tuple(
            grad if like.is_complex() else grad.real
            for grad, like in zip(gradients(z, w, g), (z, w), strict=True)
        )

    return backward


def complex_by_parts(z: Tensor, w: Tensor, g: Tensor) -> Any:
    def back(other: Tensor) -> Tensor:
        if not other.is_complex():
            return g * other
        return torch.complex(
            g.real * other.real + g.imag * other.imag, g.imag * other.real - g.real * other.imag
        )

    return back(w), back(z)


def product_saving_conjugates(ctx: Any, z: Tensor, w: Tensor) -> Tensor:
    ctx.save_for_backward(z.conj(), w.conj())
    ctx.real = not z.is_complex(), not w.is_complex()
    return z * w


def from_conjugates(ctx: Any, z: Tensor, w: Tensor, g: Tensor) -> Any:
    return tuple(
        (g * other).real if real else g * other
        for other, real in zip((w, z), ctx.real, strict=True)
    )


def reversal_as_given(ctx: Any, x: Tensor, strength: float) -> Tensor:
    ctx.strength = strength
    return x


def reversal_as_view(ctx: Any, x: Tensor, strength: float) -> Tensor:
    ctx.strength = strength
    return x.view_as(x)


def reversal_of_a_copy(ctx: Any, x: Tensor, strength: float) -> Tensor:
    ctx.strength = strength
    return x.clone().view_as(x)


def reversal_by_product(ctx: Any, x: Tensor, strength: float) -> Tensor:
    ctx.strength = strength
    return 1.0 * x


def reversal_forward_too(ctx: Any, x: Tensor, strength: float) -> Tensor:
    ctx.strength = strength
    return -strength * x


ALSO_RIGHT = {
    "GELU of the package": ("gelu", functions.GELU),
    "Swish of the package": ("swish", functions.Swish),
    "learned Swish of the package": ("learnable-swish", functions.LearnedSwish),
    "product of the package": ("broadcast-multiply", functions.Multiply),
    "log-sum-exp of the package": ("log-sum-exp", functions.LogSumExp),
    "maximum of the package": ("max-with-ties", functions.Max),
    "soft rank of the package": ("soft-rank", functions.SoftRank),
    "lookup of the package": ("gather-rows", functions.Lookup),
    "convolution of the package": ("conv1d", functions.Conv1d),
    "gradient reversal of the package": ("gradient-reversal", functions.GradientReversal),
    "GELU by the normal distribution function": (
        "gelu",
        made(gelu_by_normal, lambda ctx, x, cdf, g: g.mul(cdf + x * gelu_density(x))),
    ),
    "Swish's derivative by its own value": ("swish", made(swish_saving("x"), swish_by_steps)),
    "Swish that saves its derivative": (
        "swish",
        made(swish_saving_its_derivative, lambda ctx, slope, g: g * slope),
    ),
    "log-sum-exp that saves the softmax": (
        "log-sum-exp",
        made(log_sum_exp_saving_softmax, from_softmax),
    ),
    "batch norm that saves output and scale": (
        "batch-norm",
        made(batch_norm_saving_the_scale, from_the_scale),
    ),
    "complex product that saves conjugates": (
        "complex-multiply",
        made(product_saving_conjugates, from_conjugates),
    ),
    "β's gradient by sum_to_size": (
        "learnable-swish",
        made(
            RIGHT["learnable-swish"].forward, learnable(lambda e, beta: e.sum_to_size(beta.shape))
        ),
    ),
    "broadcasting by sum_to_size": (
        "broadcast-multiply",
        made(
            RIGHT["broadcast-multiply"].forward,
            product(lambda grad, like: grad.sum_to_size(like.shape)),
        ),
    ),
    "broadcasting in one sum and a reshape": (
        "broadcast-multiply",
        made(RIGHT["broadcast-multiply"].forward, product(in_one_sum)),
    ),
    "log-sum-exp by max, where and softmax": ("log-sum-exp", made(log_sum_exp, by_softmax)),
    "max by where and a count": (
        "max-with-ties",
        made(RIGHT["max-with-ties"].forward, max_scattered),
    ),
    "batch norm as in the paper": (
        "batch-norm",
        made(RIGHT["batch-norm"].forward, normalizing(step_by_step)),
    ),
    "soft rank by differences of g": (
        "soft-rank",
        made(
            RIGHT["soft-rank"].forward,
            ranking(lambda s, g, tau: (s * (g[..., :, None] - g[..., None, :])).sum(-1)),
        ),
    ),
    "rows by index_put": (
        "gather-rows",
        made(RIGHT["gather-rows"].forward, gathered(accumulated)),
    ),
    "rows by a one-hot matrix": ("gather-rows", made(RIGHT["gather-rows"].forward, by_one_hot)),
    "conv1d by loops over taps and windows": ("conv1d", made(conv1d_by_loop, convolution())),
    "complex product by its parts": (
        "complex-multiply",
        made(RIGHT["complex-multiply"].forward, complex_product(complex_by_parts)),
    ),
    "reversal with a product": (
        "gradient-reversal",
        made(reversal_by_product, lambda ctx, g: (g.neg() * ctx.strength, None)),
    ),
}

spoiling = Spoiling(RIGHT)
backward, forward = spoiling.backward, spoiling.forward

WRONG = [
    backward(
        "gelu",
        "a float32 gradient",
        "gradient-dtype",
        lambda ctx, x, g: (g * (torch.special.ndtr(x) + x * gelu_density(x))).float(),
    ),
    forward("gelu", "approximates by tanh", "forward-mismatch", gelu_by_tanh),
    backward(
        "gelu",
        "lets torch.func differentiate",
        "unneeded-function",
        lambda ctx, x, g: torch.func.vjp(lambda x: x * torch.special.ndtr(x), x)[1](g)[0],
    ),
    forward("gelu", "calls the built-in", "unneeded-function", gelu_built_in),
    backward(
        "gelu",
        "takes Φ alone, as if it were a gate",
        "missing-dependency",
        lambda ctx, x, g: g * torch.special.ndtr(x),
    ),
    backward(
        "gelu",
        "forgets x before the density",
        "gradient-mismatch",
        lambda ctx, x, g: g * (torch.special.ndtr(x) + gelu_density(x)),
    ),
    backward(
        "gelu",
        "forgets that erf's argument was scaled",
        "gradient-mismatch",
        lambda ctx, x, g: g * (torch.special.ndtr(x) + x * (-(x**2)).exp() / math.sqrt(math.pi)),
    ),
    Wrong(
        "swish",
        "saves input and sigmoid",
        "oversaved",
        made(swish_saving("x", "s"), lambda ctx, x, s, g: g * s * (1 + x * (1 - s))),
    ),
    Wrong(
        "swish",
        "saves the sigmoid and goes back by logit",
        "overflow",
        made(swish_saving("s"), lambda ctx, s, g: g * s * (1 + s.logit() * (1 - s))),
    ),
    Wrong(
        "swish",
        "saves the output, as of a sigmoid",
        "gradient-mismatch",
        made(swish_saving("y"), lambda ctx, y, g: g * (y + y.sigmoid() * (1 - y))),
    ),
    backward(
        "swish", "takes the sigmoid alone", "missing-dependency", lambda ctx, x, g: g * x.sigmoid()
    ),
    forward(
        "swish",
        "calls the built-in",
        "unneeded-function",
        lambda ctx, x: ctx.save_for_backward(x) or F.silu(x),
    ),
    backward(
        "learnable-swish",
        "does not sum for β",
        "unreduced-broadcast",
        learnable(lambda each, beta: each),
    ),
    backward(
        "learnable-swish",
        "averages for β",
        "constant-factor",
        learnable(lambda each, beta: each.mean().reshape(beta.shape)),
    ),
    backward(
        "learnable-swish",
        "sums for β, and loses its axis",
        "gradient-shape",
        learnable(lambda each, beta: each.sum()),
    ),
    backward(
        "learnable-swish",
        "no gradient for β",
        "missing-gradient",
        learnable(lambda each, beta: None),
    ),
    backward("learnable-swish", "forgets the inner β", "gradient-mismatch", without_inner_beta),
    backward(
        "broadcast-multiply",
        "does not sum",
        "unreduced-broadcast",
        product(lambda grad, like: grad),
    ),
    backward(
        "broadcast-multiply",
        "sums over leading axes only",
        "unreduced-broadcast",
        product(over_leading_axes),
    ),
    backward(
        "broadcast-multiply",
        "sums over dim=()",
        "gradient-shape",
        product(with_empty_dim),
    ),
    backward(
        "broadcast-multiply", "loses axes of length 1", "gradient-shape", product(without_keepdim)
    ),
    backward(
        "broadcast-multiply",
        "exchanges the factors",
        "swapped-gradients",
        lambda ctx, x, y, g: ((x * g).sum_to_size(x.shape), (y * g).sum_to_size(y.shape)),
    ),
    Wrong(
        "log-sum-exp",
        "does not shift",
        "forward-mismatch",
        made(log_sum_exp_naive, by_softmax),
    ),
    Wrong(
        "log-sum-exp",
        "does not guard the shift",
        "forward-mismatch",
        made(log_sum_exp_unguarded, by_softmax),
    ),
    Wrong(
        "log-sum-exp",
        "does not guard in backward",
        "overflow",
        made(log_sum_exp, by_unguarded_softmax),
    ),
    Wrong(
        "log-sum-exp",
        "softmax along the last axis",
        "dim-argument",
        made(log_sum_exp, by_last_axis),
    ),
    Wrong(
        "log-sum-exp",
        "does not give g its axis back",
        "backward-raises",
        made(log_sum_exp, without_axis),
    ),
    Wrong(
        "log-sum-exp",
        "forgets keepdim",
        "forward-mismatch",
        made(log_sum_exp_always_dropped, by_softmax),
    ),
    Wrong(
        "log-sum-exp",
        "calls the built-in",
        "unneeded-function",
        made(log_sum_exp_built_in, by_softmax),
    ),
    backward(
        "max-with-ties", "gives every winner all of it", "kink-convention", winners(all_in_full)
    ),
    backward(
        "max-with-ties", "gives the first winner all of it", "kink-convention", winners(first_alone)
    ),
    backward("max-with-ties", "takes what is close for a tie", "kink-convention", nearly_tied),
    backward(
        "max-with-ties",
        "divides by the length of the axis",
        "constant-factor",
        winners(over_the_whole_axis),
    ),
    backward(
        "max-with-ties",
        "counts the winners of all slices",
        "constant-factor",
        winners(over_all_winners),
    ),
    backward(
        "max-with-ties",
        "does not give g its axis back",
        "backward-raises",
        lambda ctx, x, y, g: (g * (x == y), None, None),
    ),
    backward(
        "batch-norm",
        "holds mean and variance fixed",
        "missing-dependency",
        normalizing(lambda x, y, g, scale, mean: scale * g),
    ),
    backward(
        "batch-norm",
        "holds the variance fixed",
        "missing-dependency",
        normalizing(lambda x, y, g, scale, mean: scale * (g - mean(g))),
    ),
    backward(
        "batch-norm",
        "holds the mean fixed",
        "missing-dependency",
        normalizing(lambda x, y, g, scale, mean: scale * (g - y * mean(g * y))),
    ),
    backward(
        "batch-norm", "divides by m - 1 in backward", "missing-dependency", normalizing(with_bessel)
    ),
    forward("batch-norm", "divides by m - 1 in forward", "forward-mismatch", with_unbiased),
    forward("batch-norm", "calls the built-in", "unneeded-function", batch_norm_built_in),
    backward(
        "soft-rank",
        "takes the row alone",
        "missing-dependency",
        ranking(lambda s, g, tau: g * s.sum(-1)),
    ),
    backward(
        "soft-rank",
        "takes the column alone",
        "missing-dependency",
        ranking(lambda s, g, tau: -(g[..., None] * s).sum(-2)),
    ),
    backward(
        "soft-rank",
        "adds the column",
        "gradient-mismatch",
        ranking(lambda s, g, tau: g * s.sum(-1) + (g[..., None] * s).sum(-2)),
    ),
    backward(
        "soft-rank",
        "forgets the temperature",
        "constant-factor",
        ranking(lambda s, g, tau: tau * (s * (g[..., :, None] - g[..., None, :])).sum(-1)),
    ),
    Wrong("soft-rank", "keeps all pairs", "oversaved", made(with_all_pairs, from_all_pairs)),
    backward("gather-rows", "assigns", "duplicate-index", gathered(assigned)),
    backward("gather-rows", "adds with +=", "duplicate-index", gathered(added_by_operator)),
    backward("gather-rows", "makes zeros of float32", "gradient-dtype", in_single),
    backward("gather-rows", "picks once more", "gradient-shape", picked_again),
    backward(
        "gather-rows",
        "returns one gradient",
        "wrong-arity",
        lambda ctx, index, g: by_one_hot(ctx, index, g)[0],
    ),
    backward(
        "conv1d",
        "overwrites where windows overlap",
        "duplicate-index",
        convolution(overwrites=True),
    ),
    backward("conv1d", "cuts off [padding:-padding]", "gradient-shape", convolution(cuts=True)),
    backward("conv1d", "turns the kernel round", "gradient-mismatch", convolution(flips=True)),
    backward(
        "conv1d", "forgets what no window reaches", "gradient-shape", conv1d_without_remainder
    ),
    backward("conv1d", "forgets the groups", "backward-raises", one_group),
    forward("conv1d", "turns the kernel round in forward", "forward-mismatch", conv1d_true),
    forward("conv1d", "calls the built-in", "unneeded-function", conv1d_built_in),
    backward("conv1d", "calls the built-in gradients", "unneeded-function", conv1d_helpers),
    backward(
        "complex-multiply",
        "forgets the conjugate",
        "missing-conjugate",
        complex_product(lambda z, w, g: (g * w, g * z)),
    ),
    backward(
        "complex-multiply",
        "conjugates grad_output instead",
        "missing-conjugate",
        complex_product(lambda z, w, g: (g.conj() * w, g.conj() * z)),
    ),
    backward(
        "complex-multiply",
        "exchanges the factors",
        "swapped-gradients",
        complex_product(lambda z, w, g: (g * z.conj(), g * w.conj())),
    ),
    backward(
        "complex-multiply",
        "a complex gradient for a real input",
        "gradient-dtype",
        lambda ctx, z, w, g: (g * w.conj(), g * z.conj()),
    ),
    forward("gradient-reversal", "returns x", "returns-view", reversal_as_given),
    forward("gradient-reversal", "returns a view", "returns-view", reversal_as_view),
    forward("gradient-reversal", "returns a view of a copy", "returns-view", reversal_of_a_copy),
    forward("gradient-reversal", "turns forward too", "forward-mismatch", reversal_forward_too),
    backward(
        "gradient-reversal",
        "forgets the sign",
        "flipped-sign",
        lambda ctx, g: (ctx.strength * g, None),
    ),
    backward(
        "gradient-reversal", "forgets the strength", "constant-factor", lambda ctx, g: (-g, None)
    ),
    backward(
        "gradient-reversal",
        "a gradient for the number",
        "wrong-arity",
        lambda ctx, g: -ctx.strength * g,
    ),
]


THIRD = math.sqrt(1 / 2)
KNOWN = [
    ("gelu", (double(-3, 0, 1),), F.gelu(double(-3, 0, 1))),
    ("swish", (double(-2, 0, math.log(3)),), F.silu(double(-2, 0, math.log(3)))),
    ("learnable-swish", (double(0, 1), double(0)), double(0, 0.5)),
    ("broadcast-multiply", (double(2, 3), double(5).reshape(1, 1)), double(10, 15).reshape(1, 2)),
    ("log-sum-exp", (double(math.log(1), math.log(3)), 0), double(math.log(4)).reshape(())),
    ("log-sum-exp", (double(-math.inf, 1000), -1, True), double(1000)),
    ("log-sum-exp", (double(-math.inf, -math.inf), 0, True), double(-math.inf)),
    ("max-with-ties", (double(1, 4, 4).reshape(1, 3), -1, False), double(4)),
    ("batch-norm", (double(-1, 1).reshape(2, 1), 1.0), double(-THIRD, THIRD).reshape(2, 1)),
    ("soft-rank", (double(30, 10, 20), 0.1), double(3, 1, 2)),
    ("gather-rows", (double(5, 7).reshape(2, 1), torch.tensor([1, 1])), double(7, 7).reshape(2, 1)),
    (
        "conv1d",
        (double(1, 2, 3, 4).reshape(1, 1, 4), double(1, 10).reshape(1, 1, 2), 2, 1, 1),
        double(10, 32, 4).reshape(1, 1, 3),
    ),
    ("complex-multiply", (double(2) * 1j, double(3) * 1j), double(-6) + 0j),
    ("gradient-reversal", (double(2, -1), 0.5), double(2, -1)),
]
