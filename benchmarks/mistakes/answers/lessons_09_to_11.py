"""Mistakes of learners in lessons 09 to 11; see benchmarks/repairs.py."""

# %% log-sum-exp_1
"""The shift in forward is the slice's maximum, which is -inf for a slice that contains only -inf. Then x - m is -inf - (-inf) = nan, so the output is nan instead of -inf; the shift must be replaced with a finite number there."""
WRONG = ["m = x.amax(dim, keepdim=True)"]
RIGHT = ["m = x.amax(dim, keepdim=True)\nm = m.masked_fill(m == -torch.inf, 0.0)"]
NAME = "LogSumExp"
EXERCISE = "log-sum-exp"
# --- code
import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x, dim, keepdim=False):
        m = x.amax(dim, keepdim=True)
        y = (x - m).exp().sum(dim, keepdim=True).log() + m
        return y if keepdim else y.squeeze(dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, dim, keepdim = inputs
        ctx.save_for_backward(x, output)
        ctx.dim, ctx.keepdim = dim, keepdim

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y = y.unsqueeze(ctx.dim)
            grad_output = grad_output.unsqueeze(ctx.dim)
        p = (x - y).exp()
        p = p.masked_fill(x == -torch.inf, 0.0)
        return grad_output * p, None, None


# %% log-sum-exp_2
"""Forward shifts by the maximum of the whole tensor instead of the maximum of each slice. Nothing overflows, but in a slice that lies far below the global maximum all exponentials underflow to 0, and the result is log 0 = -inf."""
WRONG = ["m = x.max()"]
RIGHT = ["m = x.amax(dim, keepdim=True)"]
NAME = "LogSumExp"
EXERCISE = "log-sum-exp"
# --- code
import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x, dim, keepdim=False):
        m = x.max()
        m = m.masked_fill(m == -torch.inf, 0.0)
        y = (x - m).exp().sum(dim, keepdim=True).log() + m
        return y if keepdim else y.squeeze(dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, dim, keepdim = inputs
        ctx.save_for_backward(x, output)
        ctx.dim, ctx.keepdim = dim, keepdim

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y = y.unsqueeze(ctx.dim)
            grad_output = grad_output.unsqueeze(ctx.dim)
        p = (x - y).exp()
        p = p.masked_fill(x == -torch.inf, 0.0)
        return grad_output * p, None, None


# %% batch-norm_1
"""torch.var divides by m - 1 by default (unbiased), while the exercise asks for the biased variance (division by m). The output of forward is too small by a factor, and it does not match backward, which uses the biased variance."""
WRONG = ["v = x.var(dims, keepdim=True)"]
RIGHT = ["v = x.var(dims, correction=0, keepdim=True)"]
NAME = "BatchNorm"
EXERCISE = "batch-norm"
# --- code
import torch
from torch.autograd import Function


class BatchNorm(Function):
    @staticmethod
    def forward(x, eps):
        dims = [d for d in range(x.dim()) if d != 1]
        mu = x.mean(dims, keepdim=True)
        v = x.var(dims, keepdim=True)
        return (x - mu) / torch.sqrt(v + eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, eps = inputs
        ctx.save_for_backward(x)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        dims = [d for d in range(x.dim()) if d != 1]
        centered = x - x.mean(dims, keepdim=True)
        v = (centered * centered).mean(dims, keepdim=True)
        inv_std = (v + ctx.eps).rsqrt()
        x_hat = centered * inv_std
        g = grad_output
        m = x.numel() // x.shape[1]
        sum_g = g.sum(dims, keepdim=True)
        sum_gx = (g * x_hat).sum(dims, keepdim=True)
        grad_x = inv_std * (g - sum_g / m - x_hat * sum_gx / m)
        return grad_x, None


# %% batch-norm_2
"""The number of averaged elements m is taken as the batch size N only. The mean and the variance run over all dims except the channels, so for inputs with more than two dims, m must also count the spatial elements."""
WRONG = ["m = x.shape[0]"]
RIGHT = ["m = x.numel() // x.shape[1]"]
NAME = "BatchNorm"
EXERCISE = "batch-norm"
# --- code
import torch
from torch.autograd import Function


class BatchNorm(Function):
    @staticmethod
    def forward(x, eps):
        dims = [d for d in range(x.dim()) if d != 1]
        mu = x.mean(dims, keepdim=True)
        v = x.var(dims, correction=0, keepdim=True)
        return (x - mu) / torch.sqrt(v + eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, eps = inputs
        ctx.save_for_backward(x)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        dims = [d for d in range(x.dim()) if d != 1]
        centered = x - x.mean(dims, keepdim=True)
        v = (centered * centered).mean(dims, keepdim=True)
        inv_std = (v + ctx.eps).rsqrt()
        x_hat = centered * inv_std
        g = grad_output
        m = x.shape[0]
        sum_g = g.sum(dims, keepdim=True)
        sum_gx = (g * x_hat).sum(dims, keepdim=True)
        grad_x = inv_std * (g - sum_g / m - x_hat * sum_gx / m)
        return grad_x, None


# %% plain-conv1d_1
"""The gradients of overlapping windows are assigned instead of added. An element of x appears in up to K windows, so its gradient is a sum over all of them; with = only the last k survives."""
WRONG = ["grad_x[:, :, k : k + T] = grad_windows[..., k]"]
RIGHT = ["grad_x[:, :, k : k + T] += grad_windows[..., k]"]
NAME = "PlainConv1d"
EXERCISE = "plain-conv1d"
# --- code
import torch
from torch.autograd import Function


class PlainConv1d(Function):
    @staticmethod
    def forward(x, weight):
        windows = x.unfold(-1, weight.shape[-1], 1)
        return torch.einsum("nctk,ock->not", windows, weight)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        K = weight.shape[-1]
        T = grad_output.shape[-1]
        windows = x.unfold(-1, K, 1)
        grad_weight = torch.einsum("not,nctk->ock", grad_output, windows)
        grad_windows = torch.einsum("not,ock->nctk", grad_output, weight)
        grad_x = torch.zeros_like(x)
        for k in range(K):
            grad_x[:, :, k : k + T] = grad_windows[..., k]
        return grad_x, grad_weight


# %% plain-conv1d_2
"""The gradient of x is the full correlation of the padded grad_output with the flipped kernel, because x[l] meets w[k] at the output t = l - k. The kernel is not flipped here, so each weight is applied to the wrong output position."""
WRONG = ["grad_x = torch.einsum(\"nolk,ock->ncl\", padded.unfold(-1, K, 1), weight)"]
RIGHT = ["grad_x = torch.einsum(\"nolk,ock->ncl\", padded.unfold(-1, K, 1), weight.flip(-1))"]
NAME = "PlainConv1d"
EXERCISE = "plain-conv1d"
# --- code
import torch
from torch.autograd import Function
import torch.nn.functional as F


class PlainConv1d(Function):
    @staticmethod
    def forward(x, weight):
        windows = x.unfold(-1, weight.shape[-1], 1)
        return torch.einsum("nctk,ock->not", windows, weight)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        K = weight.shape[-1]
        grad_weight = torch.einsum("not,nctk->ock", grad_output, x.unfold(-1, K, 1))
        padded = F.pad(grad_output, (K - 1, K - 1))
        grad_x = torch.einsum("nolk,ock->ncl", padded.unfold(-1, K, 1), weight)
        return grad_x, grad_weight


# %% conv1d_1
"""The padding is cut off with the slice p:-p. With padding 0 this is 0:-0, which is the same as 0:0, so grad_x is empty and has the wrong shape."""
WRONG = ["grad_x = grad_padded[:, :, p:-p]"]
RIGHT = ["grad_x = grad_padded[:, :, p : p + L]"]
NAME = "Conv1d"
EXERCISE = "conv1d"
# --- code
import torch
from torch.autograd import Function
import torch.nn.functional as F


class Conv1d(Function):
    @staticmethod
    def forward(x, weight, stride, padding, groups):
        N, C, L = x.shape
        O, _, K = weight.shape
        padded = F.pad(x, (padding, padding))
        windows = padded.unfold(-1, K, stride)
        T = windows.shape[2]
        windows = windows.reshape(N, groups, C // groups, T, K)
        w = weight.reshape(groups, O // groups, C // groups, K)
        y = torch.einsum("ngctk,gock->ngot", windows, w)
        return y.reshape(N, O, T)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, stride, padding, groups = inputs
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding, ctx.groups = stride, padding, groups

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        s, p, G = ctx.stride, ctx.padding, ctx.groups
        N, C, L = x.shape
        O, _, K = weight.shape
        T = grad_output.shape[-1]
        g = grad_output.reshape(N, G, O // G, T)
        windows = F.pad(x, (p, p)).unfold(-1, K, s).reshape(N, G, C // G, T, K)
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).reshape(weight.shape)
        blocks = weight.reshape(G, O // G, C // G, K)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, blocks).reshape(N, C, T, K)
        grad_padded = x.new_zeros(N, C, L + 2 * p)
        for t in range(T):
            grad_padded[:, :, s * t : s * t + K] += grad_windows[:, :, t]
        grad_x = grad_padded[:, :, p:-p]
        return grad_x, grad_weight, None, None, None


# %% conv1d_2
"""When the window gradients are added back, window t is placed at position t instead of s * t, so the stride is ignored. For a stride above 1 the gradient of x arrives at the wrong elements."""
WRONG = ["grad_padded[:, :, t : t + K] += grad_windows[:, :, t]"]
RIGHT = ["grad_padded[:, :, s * t : s * t + K] += grad_windows[:, :, t]"]
NAME = "Conv1d"
EXERCISE = "conv1d"
# --- code
import torch
from torch.autograd import Function
import torch.nn.functional as F


class Conv1d(Function):
    @staticmethod
    def forward(x, weight, stride, padding, groups):
        N, C, L = x.shape
        O, _, K = weight.shape
        padded = F.pad(x, (padding, padding))
        windows = padded.unfold(-1, K, stride)
        T = windows.shape[2]
        windows = windows.reshape(N, groups, C // groups, T, K)
        w = weight.reshape(groups, O // groups, C // groups, K)
        y = torch.einsum("ngctk,gock->ngot", windows, w)
        return y.reshape(N, O, T)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, stride, padding, groups = inputs
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding, ctx.groups = stride, padding, groups

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        s, p, G = ctx.stride, ctx.padding, ctx.groups
        N, C, L = x.shape
        O, _, K = weight.shape
        T = grad_output.shape[-1]
        g = grad_output.reshape(N, G, O // G, T)
        windows = F.pad(x, (p, p)).unfold(-1, K, s).reshape(N, G, C // G, T, K)
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).reshape(weight.shape)
        blocks = weight.reshape(G, O // G, C // G, K)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, blocks).reshape(N, C, T, K)
        grad_padded = x.new_zeros(N, C, L + 2 * p)
        for t in range(T):
            grad_padded[:, :, t : t + K] += grad_windows[:, :, t]
        grad_x = grad_padded[:, :, p : p + L]
        return grad_x, grad_weight, None, None, None


# %% conv1d_3
"""The gradient buffer gets the length that the windows cover, (T - 1) * s + K, instead of the padded length L + 2p. If L + 2p - K is not a multiple of the stride, the elements after the last window are missing, and grad_x is shorter than x when they are not all padding."""
WRONG = ["grad_padded = x.new_zeros(N, C, (T - 1) * s + K)"]
RIGHT = ["grad_padded = x.new_zeros(N, C, L + 2 * p)"]
NAME = "Conv1d"
EXERCISE = "conv1d"
# --- code
import torch
from torch.autograd import Function
import torch.nn.functional as F


class Conv1d(Function):
    @staticmethod
    def forward(x, weight, stride, padding, groups):
        N, C, L = x.shape
        O, _, K = weight.shape
        padded = F.pad(x, (padding, padding))
        windows = padded.unfold(-1, K, stride)
        T = windows.shape[2]
        windows = windows.reshape(N, groups, C // groups, T, K)
        w = weight.reshape(groups, O // groups, C // groups, K)
        y = torch.einsum("ngctk,gock->ngot", windows, w)
        return y.reshape(N, O, T)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, stride, padding, groups = inputs
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding, ctx.groups = stride, padding, groups

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        s, p, G = ctx.stride, ctx.padding, ctx.groups
        N, C, L = x.shape
        O, _, K = weight.shape
        T = grad_output.shape[-1]
        g = grad_output.reshape(N, G, O // G, T)
        windows = F.pad(x, (p, p)).unfold(-1, K, s).reshape(N, G, C // G, T, K)
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).reshape(weight.shape)
        blocks = weight.reshape(G, O // G, C // G, K)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, blocks).reshape(N, C, T, K)
        grad_padded = x.new_zeros(N, C, (T - 1) * s + K)
        for t in range(T):
            grad_padded[:, :, s * t : s * t + K] += grad_windows[:, :, t]
        grad_x = grad_padded[:, :, p : p + L]
        return grad_x, grad_weight, None, None, None


# %% complex-multiply_1
"""The gradients lack the complex conjugate. In PyTorch's convention, the gradient of z is g times the conjugate of w (and likewise for w); without the conjugate the imaginary parts are wrong for complex factors."""
WRONG = ["grad_z = grad_output * w", "grad_w = grad_output * z"]
RIGHT = ["grad_z = grad_output * w.conj()", "grad_w = grad_output * z.conj()"]
NAME = "ComplexMultiply"
EXERCISE = "complex-multiply"
# --- code
import torch
from torch.autograd import Function


class ComplexMultiply(Function):
    @staticmethod
    def forward(z, w):
        return z * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        z, w = inputs
        ctx.save_for_backward(z, w)

    @staticmethod
    def backward(ctx, grad_output):
        z, w = ctx.saved_tensors
        grad_z = grad_output * w
        grad_w = grad_output * z
        if not z.is_complex():
            grad_z = grad_z.real
        if not w.is_complex():
            grad_w = grad_w.real
        return grad_z, grad_w


# %% complex-multiply_2
"""The whole product is conjugated, so grad_output is conjugated too. Only the other factor may be conjugated; grad_output enters as it is. For complex gradients the imaginary part gets the wrong sign."""
WRONG = ["grad_z = (grad_output * w).conj()", "grad_w = (grad_output * z).conj()"]
RIGHT = ["grad_z = grad_output * w.conj()", "grad_w = grad_output * z.conj()"]
NAME = "ComplexMultiply"
EXERCISE = "complex-multiply"
# --- code
import torch
from torch.autograd import Function


class ComplexMultiply(Function):
    @staticmethod
    def forward(z, w):
        return z * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        z, w = inputs
        ctx.save_for_backward(z, w)

    @staticmethod
    def backward(ctx, grad_output):
        z, w = ctx.saved_tensors
        grad_z = (grad_output * w).conj()
        grad_w = (grad_output * z).conj()
        if not z.is_complex():
            grad_z = grad_z.real
        if not w.is_complex():
            grad_w = grad_w.real
        return grad_z, grad_w


# %% gradient-reversal_1
"""Forward returns a view of x, not a new tensor. If the next layer works in place on the output, autograd raises an error, because an output of a custom Function that is a view of its input must not be changed in place."""
WRONG = ["return x.view_as(x)"]
RIGHT = ["return x.clone()"]
NAME = "GradientReversal"
EXERCISE = "gradient-reversal"
# --- code
import torch
from torch.autograd import Function


class GradientReversal(Function):
    @staticmethod
    def forward(x, strength):
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, strength = inputs
        ctx.strength = strength

    @staticmethod
    def backward(ctx, grad_output):
        return -ctx.strength * grad_output, None


# %% gumbel-soft_1
"""The inner derivative of (logits + noise) / temperature is missing. By the chain rule the softmax gradient must also be divided by the temperature, so the gradient is off by the factor temperature."""
WRONG = ["grad_logits = y * (grad_output - inner)"]
RIGHT = ["grad_logits = y * (grad_output - inner) / ctx.temperature"]
NAME = "GumbelSoftmax"
EXERCISE = "gumbel-soft"
# --- code
import torch
from torch.autograd import Function


class GumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        return torch.softmax((logits + noise) / temperature, dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.temperature = inputs[2]

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        inner = (grad_output * y).sum(dim=-1, keepdim=True)
        grad_logits = y * (grad_output - inner)
        return grad_logits, None, None


# %% gumbel-soft_2
"""Only the logits are divided by the temperature, because the brackets around the sum of logits and noise are missing. The temperature must scale the noise as well, so the output (and with it the gradient) is wrong for every temperature except 1."""
WRONG = ["return torch.softmax(logits / temperature + noise, dim=-1)"]
RIGHT = ["return torch.softmax((logits + noise) / temperature, dim=-1)"]
NAME = "GumbelSoftmax"
EXERCISE = "gumbel-soft"
# --- code
import torch
from torch.autograd import Function


class GumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        return torch.softmax(logits / temperature + noise, dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.temperature = inputs[2]

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        inner = (grad_output * y).sum(dim=-1, keepdim=True)
        grad_logits = y * (grad_output - inner) / ctx.temperature
        return grad_logits, None, None


# %% gumbel-hard_1
"""The output is saved and used as if it were the soft sample, but it is one-hot. The softmax gradient y * (g - sum(g * y)) is 0 everywhere for a one-hot y, so no gradient arrives; the soft sample must be computed from logits, noise and temperature."""
WRONG = ["ctx.save_for_backward(output)"]
RIGHT = ["soft = torch.softmax((logits + noise) / temperature, dim=-1)\nctx.save_for_backward(soft)"]
NAME = "HardGumbelSoftmax"
EXERCISE = "gumbel-hard"
# --- code
import torch
from torch.autograd import Function
from torch.nn.functional import one_hot


class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        index = (logits + noise).argmax(dim=-1)
        return one_hot(index, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise, temperature = inputs
        ctx.save_for_backward(output)
        ctx.temperature = temperature

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        inner = (grad_output * y).sum(dim=-1, keepdim=True)
        return y * (grad_output - inner) / ctx.temperature, None, None


# %% gumbel-hard_2
"""one_hot is called without the number of classes, so it takes the largest chosen index plus 1. If the last class is not chosen in the batch, the output has too few columns."""
WRONG = ["return one_hot(index).to(logits.dtype)"]
RIGHT = ["return one_hot(index, logits.shape[-1]).to(logits.dtype)"]
NAME = "HardGumbelSoftmax"
EXERCISE = "gumbel-hard"
# --- code
import torch
from torch.autograd import Function
from torch.nn.functional import one_hot


class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        index = (logits + noise).argmax(dim=-1)
        return one_hot(index).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise, temperature = inputs
        ctx.save_for_backward(logits, noise)
        ctx.temperature = temperature

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise = ctx.saved_tensors
        y = torch.softmax((logits + noise) / ctx.temperature, dim=-1)
        inner = (grad_output * y).sum(dim=-1, keepdim=True)
        return y * (grad_output - inner) / ctx.temperature, None, None


# %% reinmax_1
"""The probabilities p are computed from the perturbed logits. In ReinMax the noise only decides which y is drawn; p must be softmax(logits) without the noise."""
WRONG = ["p = torch.softmax(logits + noise, dim=-1)"]
RIGHT = ["p = torch.softmax(logits, dim=-1)"]
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
from torch.autograd import Function
from torch.nn.functional import one_hot


def jacobian_times(q, g):
    return q * (g - (g * q).sum(dim=-1, keepdim=True))


class ReinMax(Function):
    @staticmethod
    def forward(logits, noise):
        index = (logits + noise).argmax(dim=-1)
        return one_hot(index, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise = inputs
        ctx.save_for_backward(logits, noise, output)

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise, y = ctx.saved_tensors
        p = torch.softmax(logits + noise, dim=-1)
        m = (p + y) / 2
        grad_logits = 2 * jacobian_times(m, grad_output) - 0.5 * jacobian_times(p, grad_output)
        return grad_logits, None


# %% reinmax_2
"""The brackets around the sum are missing, so only y is halved and m is p + y / 2 instead of the mean (p + y) / 2. The entries of m then sum to 1.5, and the first term of the gradient is wrong."""
WRONG = ["m = p + y / 2"]
RIGHT = ["m = (p + y) / 2"]
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
from torch.autograd import Function
from torch.nn.functional import one_hot


def jacobian_times(q, g):
    return q * (g - (g * q).sum(dim=-1, keepdim=True))


class ReinMax(Function):
    @staticmethod
    def forward(logits, noise):
        index = (logits + noise).argmax(dim=-1)
        return one_hot(index, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise = inputs
        ctx.save_for_backward(logits, output)

    @staticmethod
    def backward(ctx, grad_output):
        logits, y = ctx.saved_tensors
        p = torch.softmax(logits, dim=-1)
        m = p + y / 2
        grad_logits = 2 * jacobian_times(m, grad_output) - 0.5 * jacobian_times(p, grad_output)
        return grad_logits, None


# %% split-rms-norm_1
"""The Function returns two outputs, so backward receives one gradient for each of them. It accepts only the gradient of y, so each backward pass raises a TypeError."""
WRONG = ["def backward(ctx, grad_output):"]
RIGHT = ["def backward(ctx, grad_output, grad_rstd):"]
NAME = "RMSNorm"
EXERCISE = "split-rms-norm"
# --- code
import torch
from torch.autograd import Function


class RMSNorm(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight, eps):
        rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
        return x * rstd * weight, rstd

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, eps = inputs
        y, rstd = output
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(x, weight, rstd)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, rstd = ctx.saved_tensors
        normed = x * rstd
        g = grad_output * weight
        grad_x = rstd * (g - normed * (g * normed).mean(-1, keepdim=True))
        grad_weight = (grad_output * normed).reshape(-1, x.shape[-1]).sum(0)
        return grad_x, grad_weight, None


# %% split-rms-norm_2
"""The gradient of the weight is summed over dim 0 only. x may have any number of leading dims (none for a single row, as under vmap, or several), so the sum must run over all dims except the last; otherwise the gradient has the wrong shape."""
WRONG = ["grad_weight = (grad_output * normed).sum(0)"]
RIGHT = ["grad_weight = (grad_output * normed).reshape(-1, x.shape[-1]).sum(0)"]
NAME = "RMSNorm"
EXERCISE = "split-rms-norm"
# --- code
import torch
from torch.autograd import Function


class RMSNorm(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight, eps):
        rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
        return x * rstd * weight, rstd

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, eps = inputs
        y, rstd = output
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(x, weight, rstd)

    @staticmethod
    def backward(ctx, grad_output, grad_rstd):
        x, weight, rstd = ctx.saved_tensors
        normed = x * rstd
        g = grad_output * weight
        grad_x = rstd * (g - normed * (g * normed).mean(-1, keepdim=True))
        grad_weight = (grad_output * normed).sum(0)
        return grad_x, grad_weight, None


# %% per-sample-gradients_1
"""The batch dim that vmap hides is restored for the sample but not for its target. The loss gets a prediction of shape (1, ...) and a target without the batch dim, which fails for class indices and for other losses relies on broadcasting."""
WRONG = ["return loss(prediction, yi)"]
RIGHT = ["return loss(prediction, yi.unsqueeze(0))"]
NAME = "per_sample_gradients"
EXERCISE = "per-sample-gradients"
# --- code
import torch
from torch.func import functional_call, grad, vmap


def per_sample_gradients(model, loss, x, y):
    params = {name: p.detach() for name, p in model.named_parameters()}

    def sample_loss(params, xi, yi):
        prediction = functional_call(model, params, (xi.unsqueeze(0),))
        return loss(prediction, yi)

    grads = vmap(grad(sample_loss), in_dims=(None, 0, 0))(params, x, y)
    return tuple(grads[name] for name in params)


# %% per-sample-gradients_2
"""vmap is called without in_dims, so it maps over dim 0 of the parameters as well. All samples share the parameters, so their in_dim must be None; now vmap raises an error about different sizes (or takes a slice of each parameter for each sample)."""
WRONG = ["grads = vmap(grad(sample_loss))(params, x, y)"]
RIGHT = ["grads = vmap(grad(sample_loss), in_dims=(None, 0, 0))(params, x, y)"]
NAME = "per_sample_gradients"
EXERCISE = "per-sample-gradients"
# --- code
import torch
from torch.func import functional_call, grad, vmap


def per_sample_gradients(model, loss, x, y):
    params = {name: p.detach() for name, p in model.named_parameters()}

    def sample_loss(params, xi, yi):
        prediction = functional_call(model, params, (xi.unsqueeze(0),))
        return loss(prediction, yi.unsqueeze(0))

    grads = vmap(grad(sample_loss))(params, x, y)
    return tuple(grads[name] for name in params)


# %% vmap-solve_1
"""The test for a shared argument uses the truth value of in_dims, but dim 0 is also false. An argument with its samples along dim 0 is treated as shared and gets a second batch dim, so the result has the wrong shape."""
WRONG = ["a = a.movedim(a_dim, 0) if a_dim else a.expand(info.batch_size, *a.shape)", "b = b.movedim(b_dim, 0) if b_dim else b.expand(info.batch_size, *b.shape)"]
RIGHT = ["a = a.expand(info.batch_size, *a.shape) if a_dim is None else a.movedim(a_dim, 0)", "b = b.expand(info.batch_size, *b.shape) if b_dim is None else b.movedim(b_dim, 0)"]
NAME = "Solve"
EXERCISE = "vmap-solve"
# --- code
import numpy as np
import torch
from torch.autograd import Function


class Solve(Function):
    @staticmethod
    def forward(a, b):
        y = np.linalg.solve(a.detach().numpy(), b.detach().numpy()[..., None])
        return torch.from_numpy(y[..., 0])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        a, y = ctx.saved_tensors
        grad_b = Solve.apply(a.mT, grad_output)
        grad_a = -grad_b[..., :, None] * y[..., None, :] if ctx.needs_input_grad[0] else None
        return grad_a, grad_b

    @staticmethod
    def vmap(info, in_dims, a, b):
        a_dim, b_dim = in_dims
        a = a.movedim(a_dim, 0) if a_dim else a.expand(info.batch_size, *a.shape)
        b = b.movedim(b_dim, 0) if b_dim else b.expand(info.batch_size, *b.shape)
        return Solve.apply(a, b), 0


# %% vmap-solve_2
"""The rule returns the in_dim of b as the out_dim, but both arguments were moved to dim 0, so the samples of the result lie along dim 0. If b's samples lie along another dim, or b is shared (None), the result is wrong."""
WRONG = ["return Solve.apply(a, b), b_dim"]
RIGHT = ["return Solve.apply(a, b), 0"]
NAME = "Solve"
EXERCISE = "vmap-solve"
# --- code
import numpy as np
import torch
from torch.autograd import Function


class Solve(Function):
    @staticmethod
    def forward(a, b):
        y = np.linalg.solve(a.detach().numpy(), b.detach().numpy()[..., None])
        return torch.from_numpy(y[..., 0])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        a, y = ctx.saved_tensors
        grad_b = Solve.apply(a.mT, grad_output)
        grad_a = -grad_b[..., :, None] * y[..., None, :] if ctx.needs_input_grad[0] else None
        return grad_a, grad_b

    @staticmethod
    def vmap(info, in_dims, a, b):
        a_dim, b_dim = in_dims
        a = a.expand(info.batch_size, *a.shape) if a_dim is None else a.movedim(a_dim, 0)
        b = b.expand(info.batch_size, *b.shape) if b_dim is None else b.movedim(b_dim, 0)
        return Solve.apply(a, b), b_dim


# %% jvp-smooth-maximum_1
"""The temperature part is summed over all rows, as in backward. Backward needs this sum because one temperature collects the gradients of all outputs, but in forward mode each output has its own tangent, so the sum mixes the rows."""
WRONG = ["from_t = (t_tangent * (y - (p * x).sum(-1)) / t).sum()"]
RIGHT = ["from_t = t_tangent * (y - (p * x).sum(-1)) / t"]
NAME = "SmoothMaximum"
EXERCISE = "jvp-smooth-maximum"
# --- code
import torch
from torch.autograd import Function


class SmoothMaximum(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, temperature):
        return temperature * torch.logsumexp(x / temperature, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, temperature = inputs
        ctx.save_for_backward(x, temperature, output)
        ctx.save_for_forward(x, temperature, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        return p * grad_output[..., None], (grad_output * (y - (p * x).sum(-1)) / t).sum()

    @staticmethod
    def jvp(ctx, x_tangent, t_tangent):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        from_x = (p * x_tangent).sum(-1)
        from_t = (t_tangent * (y - (p * x).sum(-1)) / t).sum()
        return from_x + from_t


# %% jvp-smooth-maximum_2
"""The tensors are saved with save_for_backward only. In jvp, ctx.saved_tensors holds what save_for_forward saved, so it is empty there and unpacking it raises an error."""
WRONG = ["ctx.save_for_backward(x, temperature, output)"]
RIGHT = ["ctx.save_for_backward(x, temperature, output)\nctx.save_for_forward(x, temperature, output)"]
NAME = "SmoothMaximum"
EXERCISE = "jvp-smooth-maximum"
# --- code
import torch
from torch.autograd import Function


class SmoothMaximum(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, temperature):
        return temperature * torch.logsumexp(x / temperature, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, temperature = inputs
        ctx.save_for_backward(x, temperature, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        return p * grad_output[..., None], (grad_output * (y - (p * x).sum(-1)) / t).sum()

    @staticmethod
    def jvp(ctx, x_tangent, t_tangent):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        from_x = (p * x_tangent).sum(-1)
        from_t = t_tangent * (y - (p * x).sum(-1)) / t
        return from_x + from_t
