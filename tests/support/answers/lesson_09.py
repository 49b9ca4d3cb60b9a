"""Answers to the exercises of lesson 09."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from answers.making import Rewriting, Spoiling, Wrong, double, made, solved
from autograd_course import functions
from autograd_course.functions.conv1d import windows

SOLVED = solved("09_more_patterns")
RIGHT = {
    "log-sum-exp": SOLVED["LogSumExp"],
    "batch-norm": SOLVED["BatchNorm"],
    "plain-conv1d": SOLVED["PlainConv1d"],
    "conv1d": SOLVED["Conv1d"],
    "complex-multiply": SOLVED["ComplexMultiply"],
    "gradient-reversal": SOLVED["GradientReversal"],
}
spoiling = Spoiling(RIGHT)
backward, forward, answer = spoiling.backward, spoiling.forward, spoiling.answer
changed = Rewriting("09_more_patterns")


# Log-sum-exp


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


def log_sum_exp_from_zero(ctx: Any, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    top = x.amax(dim, keepdim=True).clamp(min=0)
    y = (x - top).exp().sum(dim, keepdim=True).log() + top
    ctx.save_for_backward(x, y)
    ctx.dim, ctx.keepdim = dim, keepdim
    return y.clone() if keepdim else y.squeeze(dim)


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


# Batch normalization


def normalizing(gradient: Any) -> Any:
    def backward(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
        dims = [dim for dim in range(x.dim()) if dim != 1]

        def mean(t: Tensor) -> Tensor:
            return t.mean(dims, keepdim=True)

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
    """Compute batch normalization's gradient as in the paper: via variance, mean and numerator."""
    m = x.numel() // x.shape[1]
    axes = [axis for axis in range(x.dim()) if axis != 1]
    centered = x - mean(x)
    by_variance = (g * centered).sum(axes, keepdim=True) * -0.5 * scale**3
    by_mean = -(g * scale).sum(axes, keepdim=True)
    return g * scale + by_variance * 2 * centered / (m - bessel) + by_mean / m


def with_bessel(x: Tensor, y: Tensor, g: Tensor, scale: Tensor, mean: Any) -> Tensor:
    return step_by_step(x, y, g, scale, mean, bessel=1.0)


# Convolution


def plain(**other: Any) -> Any:
    """Return a backward for plain-conv1d. ``other`` names its mistakes."""

    def backward(ctx: Any, x: Tensor, weight: Tensor, g: Tensor) -> Any:
        taps = weight.shape[-1]
        grad_weight = torch.einsum("nctk,not->ock", x.unfold(-1, taps, 1), g)
        grad_windows = torch.einsum("not,ock->nctk", g, weight)
        if other.get("flips"):
            grad_windows = grad_windows.flip(-1)
        grad_x = x.new_zeros(x.shape)
        for t in range(g.shape[-1]):
            reached = grad_x[..., t : t + taps]
            if other.get("overwrites"):
                reached.copy_(grad_windows[..., t, :])
            else:
                reached += grad_windows[..., t, :]
        if other.get("averages"):
            grad_weight = grad_weight / len(x)
        return grad_x, grad_weight

    return backward


def plain_true(x: Tensor, w: Tensor) -> Tensor:
    """Compute a mathematician's convolution, in which the kernel is flipped."""
    return SOLVED["PlainConv1d"].forward(x, w.flip(-1))


def plain_helpers(ctx: Any, x: Tensor, w: Tensor, g: Tensor) -> Any:
    return torch.nn.grad.conv1d_input(x.shape, w, g), torch.nn.grad.conv1d_weight(x, w.shape, g)


def convolution(**other: Any) -> Any:
    """Return a backward for conv1d. ``other`` names the differences from the right one."""

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


def conv1d_true(x: Tensor, w: Tensor, stride: int, padding: int, groups: int) -> Any:
    """Compute a mathematician's convolution, in which the kernel is flipped."""
    return SOLVED["Conv1d"].forward(x, w.flip(-1), stride, padding, groups)


def conv1d_without_remainder(ctx: Any, x: Tensor, w: Tensor, g: Tensor) -> Any:
    """Give the gradient the size that the windows cover, as if no elements were left over at the
    end.
    """
    stride, padding, _ = ctx.geometry
    grads = convolution()(ctx, x, w, g)
    reached = stride * (g.shape[-1] - 1) + w.shape[-1]
    return grads[0][..., : reached - 2 * padding], *grads[1:]


def one_group(ctx: Any, x: Tensor, w: Tensor, g: Tensor) -> Any:
    ctx.geometry = (*ctx.geometry[:2], 1)
    return convolution()(ctx, x, w, g)


def conv1d_by_loop(ctx: Any, x: Tensor, w: Tensor, stride: int, padding: int, groups: int) -> Any:
    """Compute forward in a loop over the taps, one group at a time."""
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
    "log-sum-exp of the package": ("log-sum-exp", functions.LogSumExp),
    "convolution of the package": ("conv1d", functions.Conv1d),
    "gradient reversal of the package": ("gradient-reversal", functions.GradientReversal),
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
    "log-sum-exp by max, where and softmax": ("log-sum-exp", made(log_sum_exp, by_softmax)),
    "batch norm as in the paper": (
        "batch-norm",
        answer("batch-norm", normalizing(step_by_step)),
    ),
    "conv1d by loops over taps and windows": ("conv1d", made(conv1d_by_loop, convolution())),
    "plain conv1d by a loop over windows": ("plain-conv1d", answer("plain-conv1d", plain())),
    "complex product by its parts": (
        "complex-multiply",
        answer("complex-multiply", complex_product(complex_by_parts)),
    ),
    "reversal with a product": (
        "gradient-reversal",
        made(reversal_by_product, lambda ctx, g: (g.neg() * ctx.strength, None)),
    ),
}

WRONG = [
    changed(
        "complex-multiply",
        "asks whether the other input is real",
        "gradient-dtype",
        ("grad_z if z.is_complex()", "grad_z if w.is_complex()"),
        ("grad_w if w.is_complex()", "grad_w if z.is_complex()"),
        hint="conditions are exchanged",
    ),
    Wrong(
        "log-sum-exp",
        "does not shift",
        "forward-mismatch",
        made(log_sum_exp_naive, by_softmax),
    ),
    Wrong(
        "log-sum-exp",
        "clamps the shift",
        "forward-mismatch",
        made(log_sum_exp_from_zero, by_softmax),
        "Replace only a maximum of -inf",
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
    changed(
        "batch-norm",
        "divides by the size of dim 0",
        "missing-dependency",
        (
            "centered = grad_output - grad_output.mean(dims, keepdim=True)",
            "m = y.shape[0]\n"
            "        centered = grad_output - grad_output.sum(dims, keepdim=True) / m",
        ),
        (
            "(grad_output * y).mean(dims, keepdim=True)",
            "(grad_output * y).sum(dims, keepdim=True) / m",
        ),
        hint="by the size of dim 0",
    ),
    changed(
        "log-sum-exp",
        "adds shapes that differ",
        "forward-mismatch",
        ("torch.exp(x - shift).sum(dim, keepdim=True)", "torch.exp(x - shift).sum(dim, keepdim)"),
        ("return y if keepdim else y.squeeze(dim)", "return y"),
        hint="gives (3, 3)",
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
        "plain-conv1d",
        "overwrites where windows overlap",
        "duplicate-index",
        plain(overwrites=True),
    ),
    backward("plain-conv1d", "flips the kernel", "gradient-mismatch", plain(flips=True)),
    backward("plain-conv1d", "averages over the batch", "constant-factor", plain(averages=True)),
    forward("plain-conv1d", "flips the kernel in forward", "forward-mismatch", plain_true),
    forward("plain-conv1d", "calls the built-in", "unneeded-function", lambda x, w: F.conv1d(x, w)),
    backward("plain-conv1d", "calls the built-in gradients", "unneeded-function", plain_helpers),
    backward(
        "conv1d",
        "overwrites where windows overlap",
        "duplicate-index",
        convolution(overwrites=True),
    ),
    backward("conv1d", "cuts off [padding:-padding]", "gradient-shape", convolution(cuts=True)),
    backward("conv1d", "turns the kernel round", "gradient-mismatch", convolution(flips=True)),
    backward(
        "conv1d",
        "forgets what no window reaches",
        "gradient-shape",
        conv1d_without_remainder,
        hint="Take the length of the padded x",
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
    changed(
        "log-sum-exp",
        "unsqueeze though keepdim",
        "With keepdim=True, y",
        (
            "        if not ctx.keepdim:\n"
            "            y, grad_output = y.unsqueeze(ctx.dim), "
            "grad_output.unsqueeze(ctx.dim)",
            "        y, grad_output = y.unsqueeze(ctx.dim), grad_output.unsqueeze(ctx.dim)",
        ),
    ),
    changed(
        "log-sum-exp",
        "unsqueeze g only though keepdim",
        "With keepdim=True, grad_output",
        (
            "        if not ctx.keepdim:\n"
            "            y, grad_output = y.unsqueeze(ctx.dim), "
            "grad_output.unsqueeze(ctx.dim)",
            "        if not ctx.keepdim:\n"
            "            y = y.unsqueeze(ctx.dim)\n"
            "        grad_output = grad_output.unsqueeze(ctx.dim)",
        ),
    ),
    changed(
        "log-sum-exp",
        "fixed dim -1 in fwd",
        "The sum runs over the",
        ("amax(dim,", "amax(-1,"),
        ("sum(dim,", "sum(-1,"),
        ("squeeze(dim)", "squeeze(-1)"),
    ),
    changed(
        "log-sum-exp",
        "no guard fwd",
        "In a slice of -inf only,",
        ("        shift = shift.masked_fill(shift == -torch.inf, 0)\n", ""),
    ),
    changed(
        "log-sum-exp",
        "global max",
        "You subtract the largest",
        ("x.amax(dim, keepdim=True)", "x.max()"),
    ),
    changed(
        "log-sum-exp",
        "no shift",
        "exp of a large number",
        ("x.amax(dim, keepdim=True)", "torch.zeros_like(x.amax(dim, keepdim=True))"),
    ),
    changed(
        "log-sum-exp", "shift not added", "The maximum that you", ("y = shift + torch", "y = torch")
    ),
    changed(
        "log-sum-exp",
        "keepdim ignored",
        "keepdim has no effect",
        ("return y if keepdim else y.squeeze(dim)", "return y.squeeze(dim)"),
        ("        if not ctx.keepdim:\n            y, g", "        if True:\n            y, g"),
    ),
    changed(
        "log-sum-exp",
        "always keepdim",
        "The output always keeps",
        ("return y if keepdim else y.squeeze(dim)", "return y"),
        (
            "        if not ctx.keepdim:\n"
            "            y, grad_output = y.unsqueeze(ctx.dim), "
            "grad_output.unsqueeze(ctx.dim)\n",
            "",
        ),
    ),
    changed(
        "log-sum-exp", "squeeze all", "squeeze() without an", ("y.squeeze(dim)", "y.squeeze()")
    ),
    changed(
        "log-sum-exp",
        "softmax missing",
        "Your derivative is exp(x)",
        ("grad_output * torch.exp(x - y)", "grad_output * torch.exp(x)"),
    ),
    changed(
        "log-sum-exp",
        "nan_to_num clip result",
        "A slice of -inf only must give -inf. You return a large",
        ("return y if", "y = y.nan_to_num()\n        return y if"),
    ),
    changed(
        "log-sum-exp",
        "softmax div",
        "The softmax is divided",
        ("torch.exp(x - y)", "torch.exp(x - y) / torch.exp(x - y).sum()"),
    ),
    changed(
        "log-sum-exp",
        "mean instead of sum",
        "This is the logarithm",
        ("torch.exp(x - shift).sum(", "torch.exp(x - shift).mean("),
    ),
    changed(
        "batch-norm",
        "unbiased",
        "The variance is divided by m - 1.",
        ("unbiased=False", "unbiased=True"),
    ),
    changed(
        "batch-norm",
        "unbiased bwd only",
        "backward uses the variance",
        (
            "scale = torch.rsqrt(x.var(dims, unbiased=False",
            "scale = torch.rsqrt(x.var(dims, unbiased=True",
        ),
    ),
    changed(
        "batch-norm",
        "dims 0 only",
        "Mean and variance are taken only over",
        ("[dim for dim in range(x.dim()) if dim != 1]", "[0]"),
    ),
    changed(
        "batch-norm",
        "eps outside",
        "eps is added outside of the square root. It",
        ("torch.sqrt(variance + eps)", "(torch.sqrt(variance) + eps)"),
    ),
    changed(
        "batch-norm",
        "only scale*g",
        "This is only the path",
        ("scale * (centered - along_y)", "scale * grad_output"),
    ),
    changed(
        "batch-norm",
        "no variance path",
        "The path through the variance is missing",
        ("scale * (centered - along_y)", "scale * centered"),
    ),
    changed(
        "batch-norm",
        "no mean path",
        "The path through the mean",
        ("centered - along_y", "grad_output - along_y"),
    ),
    changed(
        "batch-norm",
        "eps forgotten bwd",
        "eps is missing in backward",
        ("keepdim=True) + ctx.eps)", "keepdim=True))"),
    ),
    changed(
        "batch-norm",
        "along y sum",
        "The component along y contains",
        ("(grad_output * y).mean(", "(grad_output * y).sum("),
    ),
    changed(
        "batch-norm",
        "layer norm dims",
        "Mean and variance are taken over dim 1,",
        ("[dim for dim in range(x.dim()) if dim != 1]", "list(range(1, x.dim()))"),
    ),
    changed(
        "batch-norm",
        "along without y",
        "The component along y lacks",
        ("along_y = y * (", "along_y = ("),
    ),
    changed(
        "batch-norm",
        "centered x instead of y",
        "The path through the variance contains",
        (
            "along_y = y * (grad_output * y).mean",
            "along_y = (x-x.mean(dims,keepdim=True)) * (grad_output * "
            "(x-x.mean(dims,keepdim=True))).mean",
        ),
    ),
    changed(
        "batch-norm",
        "std ddof",
        "The variance is divided by m - 1,",
        ("torch.sqrt(variance + eps)", "(x.std(dims, keepdim=True) + eps)"),
    ),
    changed(
        "batch-norm",
        "no sqrt",
        "The square root is missing. Divide",
        ("torch.sqrt(variance + eps)", "(variance + eps)"),
    ),
    changed(
        "batch-norm",
        "scale 1/var",
        "backward divides by v",
        (
            "torch.rsqrt(x.var(dims, unbiased=False, keepdim=True) + ctx.eps)",
            "1/(x.var(dims, unbiased=False, keepdim=True) + ctx.eps)",
        ),
    ),
    changed(
        "batch-norm",
        "dims all",
        "Mean and variance are taken over the whole",
        ("[dim for dim in range(x.dim()) if dim != 1]", "list(range(x.dim()))"),
    ),
    changed(
        "batch-norm",
        "bwd dims 0 only",
        "backward takes its means only over",
        (
            "        dims = [dim for dim in range(x.dim()) if dim != 1]\n        scale",
            "        dims = [0]\n        scale",
        ),
    ),
    changed(
        "batch-norm",
        "g*x",
        "The component along y is the",
        ("(grad_output * y).mean", "(grad_output * x).mean"),
    ),
    changed(
        "plain-conv1d",
        "flipped kernel bwd",
        "The gradient of x has",
        ('"not,ock->nctk", grad_output, weight)', '"not,ock->nctk", grad_output, weight.flip(-1))'),
    ),
    changed(
        "plain-conv1d",
        "gw no sum over batch",
        "The gradient of the weight contains",
        (
            '"nctk,not->ock", x.unfold(-1, taps, 1), grad_output)',
            '"nctk,not->ock", x[:1].unfold(-1, taps, 1), grad_output[:1])',
        ),
    ),
    changed(
        "plain-conv1d",
        "gw mean",
        "The gradient of the weight is",
        ("return grad_x, grad_weight", "return grad_x, grad_weight / len(x)"),
    ),
    changed(
        "plain-conv1d",
        "only first out channel",
        "The gradient of x contains",
        ('"not,ock->nctk", grad_output, weight', '"nt,ck->nctk", grad_output[:, 0], weight[0]'),
    ),
    changed(
        "plain-conv1d",
        "loop taps-1",
        "The gradient of x lacks the last tap",
        ("for k in range(taps)", "for k in range(taps - 1)"),
    ),
    changed(
        "plain-conv1d",
        "t misses last",
        "The gradient of x lacks the last window",
        (
            "        for k in range(taps):\n"
            "            grad_x[..., k : k + steps] += grad_windows[..., k]",
            "        for t in range(steps - 1):\n"
            "            grad_x[..., t : t + taps] += grad_windows[..., t, :]",
        ),
    ),
    changed(
        "plain-conv1d",
        "averaged windows",
        "The gradients of overlapping",
        (
            "        return grad_x, grad_weight",
            "        c = torch.zeros_like(grad_x)\n"
            "        for k in range(taps):\n"
            "            c[..., k : k + steps] += 1\n"
            "        return grad_x / c, grad_weight",
        ),
    ),
    changed(
        "plain-conv1d",
        "gw flipped",
        "The gradient of the weight has",
        ("return grad_x, grad_weight", "return grad_x, grad_weight.flip(-1)"),
    ),
    changed(
        "conv1d",
        "no padding cut",
        "The gradient of x begins",
        ("grad_padded[..., padding : padding + length]", "grad_padded[..., :length]"),
    ),
    changed(
        "conv1d",
        "stride ignored in bwd",
        "backward ignores the",
        ("slice(k, k + stride * (steps - 1) + 1, stride)", "slice(k, k + steps)"),
    ),
    changed(
        "conv1d",
        "groups interleaved",
        "The kernels are divided",
        (
            "weight.unflatten(0, (groups, -1))\n        return",
            "weight.unflatten(0, (-1, groups)).transpose(0,1)\n        return",
        ),
    ),
    changed(
        "conv1d",
        "groups interleaved fwd x",
        "The channels are divided",
        (
            "stride).unflatten(1, (groups, -1))\n        kernels = w",
            "stride).unflatten(1, (-1, groups)).transpose(1,2)\n        kernels = w",
        ),
    ),
    changed(
        "conv1d",
        "pad left only",
        "added only on the left",
        (
            "(padding, padding))\n        windows = padded.unfold(-1, weight",
            "(padding, 0))\n        windows = padded.unfold(-1, weight",
        ),
    ),
    changed(
        "conv1d",
        "stride 1 fwd",
        "The stride has no effect",
        ("unfold(-1, weight.shape[-1], stride)", "unfold(-1, weight.shape[-1], 1)"),
    ),
    changed(
        "complex-multiply",
        "conj on g too",
        "You conjugate g in place",
        (
            "grad_output * w.conj(), grad_output * z.conj()",
            "(grad_output * w.conj()).conj(), (grad_output * z.conj()).conj()",
        ),
    ),
    changed(
        "complex-multiply",
        "always real",
        "Your gradients are real,",
        ("grad_z if z.is_complex() else grad_z.real", "grad_z.real"),
        ("grad_w if w.is_complex() else grad_w.real", "grad_w.real"),
    ),
    changed(
        "complex-multiply",
        "imag",
        "A real input gets the imaginary",
        ("else grad_z.real", "else grad_z.imag"),
        ("else grad_w.real", "else grad_w.imag"),
    ),
    changed(
        "complex-multiply",
        "real of g first",
        "A real input gets the real",
        ("else grad_z.real", "else grad_output.real * w.real"),
        ("else grad_w.real", "else grad_output.real*z.real"),
    ),
    changed(
        "complex-multiply",
        "forward conj",
        "w is conjugated in forward",
        ("return z * w", "return z * w.conj()"),
    ),
    changed(
        "gradient-reversal",
        "not negated",
        "The minus sign is missing",
        ("-ctx.strength * g", "ctx.strength * g"),
    ),
    changed(
        "gradient-reversal",
        "no strength",
        "The factor strength is",
        ("-ctx.strength * grad_output", "-grad_output"),
    ),
    changed(
        "gradient-reversal",
        "forward scaled",
        "The reversal belongs",
        ("return x.clone()", "return -strength * x"),
    ),
    changed(
        "gradient-reversal",
        "forward times strength",
        "The strength belongs",
        ("return x.clone()", "return strength * x"),
    ),
    changed(
        "gradient-reversal",
        "divides",
        "You divide by the strength",
        ("-ctx.strength * grad_output", "-grad_output / ctx.strength"),
    ),
    changed(
        "gradient-reversal",
        "grads in 1- form",
        "You subtract the strength",
        ("-ctx.strength * grad_output", "(1 - ctx.strength) * grad_output"),
    ),
    changed(
        "complex-multiply",
        "z always real",
        "The gradient of z is real",
        ("grad_z if z.is_complex() else grad_z.real", "grad_z.real"),
    ),
    changed(
        "complex-multiply",
        "w always real",
        "The gradient of w is real",
        ("grad_w if w.is_complex() else grad_w.real", "grad_w.real"),
    ),
    changed(
        "complex-multiply",
        "imaginary part of z",
        "A real z gets the imaginary",
        ("else grad_z.real", "else grad_z.imag"),
    ),
    changed(
        "complex-multiply",
        "imaginary part of w",
        "A real input gets the imaginary",
        ("else grad_w.real", "else grad_w.imag"),
    ),
    changed(
        "complex-multiply",
        "real factors of z",
        "A real z gets the real part of each",
        ("else grad_z.real", "else grad_output.real * w.real"),
    ),
    changed(
        "complex-multiply",
        "real factors of w",
        "A real input gets the real part of each",
        ("else grad_w.real", "else grad_output.real * z.real"),
    ),
]

THIRD = math.sqrt(1 / 2)
KNOWN = [
    ("log-sum-exp", (double(math.log(1), math.log(3)), 0), double(math.log(4)).reshape(())),
    ("log-sum-exp", (double(-math.inf, 1000), -1, True), double(1000)),
    ("log-sum-exp", (double(-math.inf, -math.inf), 0, True), double(-math.inf)),
    ("batch-norm", (double(-1, 1).reshape(2, 1), 1.0), double(-THIRD, THIRD).reshape(2, 1)),
    (
        "conv1d",
        (double(1, 2, 3, 4).reshape(1, 1, 4), double(1, 10).reshape(1, 1, 2), 2, 1, 1),
        double(10, 32, 4).reshape(1, 1, 3),
    ),
    (
        "plain-conv1d",
        (double(1, 2, 3).reshape(1, 1, 3), double(1, 10).reshape(1, 1, 2)),
        double(21, 32).reshape(1, 1, 2),
    ),
    ("complex-multiply", (double(2) * 1j, double(3) * 1j), double(-6) + 0j),
    ("gradient-reversal", (double(2, -1), 0.5), double(2, -1)),
]
