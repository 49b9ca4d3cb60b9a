"""Mistakes in gradient patterns. Each cell is a separate module; see benchmarks/repairs.py."""

# %% batch-norm_1
"""Tensor.var divides by m - 1 unless told otherwise; the author took its default for the biased variance, as in numpy."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["var = x.var(axes, keepdim=True)"]
RIGHT = ["var = x.var(axes, correction=0, keepdim=True)"]
EXERCISE = "batch-norm"
NAME = "BatchNorm"
# --- code
import torch
from torch import Tensor


class BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, eps: float) -> Tensor:
        axes = [a for a in range(x.dim()) if a != 1]  # everything but the channels
        mean = x.mean(axes, keepdim=True)
        var = x.var(axes, keepdim=True)
        rstd = torch.rsqrt(var + eps)
        y = (x - mean) * rstd
        ctx.save_for_backward(y, rstd)
        ctx.axes = axes
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        y, rstd = ctx.saved_tensors
        g = grad_output
        # direct path, path through the mean, path through the variance
        g_mean = g.mean(ctx.axes, keepdim=True)
        gy_mean = (g * y).mean(ctx.axes, keepdim=True)
        return rstd * (g - g_mean - y * gy_mean), None

# %% batch-norm_2
"""Two slips in a step-by-step derivation: m is taken to be the batch size, though every channel also runs over the other axes, and the derivative of (v + eps)^(-1/2) has lost its minus sign."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["m = xc.shape[0]", "dvar = dinv * 0.5 * inv ** 3"]
RIGHT = ["m = xc.numel() // xc.shape[1]", "dvar = dinv * -0.5 * inv ** 3"]
EXERCISE = "batch-norm"
NAME = "BatchNorm"
# --- code
import torch


class BatchNorm(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, eps):
        dims = tuple(d for d in range(x.ndim) if d != 1)
        mu = x.mean(dim=dims, keepdim=True)
        xc = x - mu
        var = (xc ** 2).mean(dim=dims, keepdim=True)
        ctx.save_for_backward(xc, var)
        ctx.eps = eps
        ctx.dims = dims
        return xc / torch.sqrt(var + eps)

    @staticmethod
    def backward(ctx, grad_output):
        xc, var = ctx.saved_tensors
        dims = ctx.dims
        m = xc.shape[0]
        inv = (var + ctx.eps) ** -0.5

        # y = xc * inv
        dinv = (grad_output * xc).sum(dim=dims, keepdim=True)
        dxc = grad_output * inv

        # inv = (var + eps) ** -0.5
        dvar = dinv * 0.5 * inv ** 3

        # var = mean(xc ** 2)
        dxc = dxc + dvar * 2 * xc / m

        # xc = x - mu, mu = mean(x)
        dmu = -dxc.sum(dim=dims, keepdim=True)
        dx = dxc + dmu / m
        return dx, None

# %% broadcast-multiply_1
"""The helper sums the axes of length 1 without keepdim=True, so the axis disappears, later axes are counted wrongly and the shape does not fit; the author expected sum to undo broadcasting and leave a 1."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad = grad.sum(dim=axis)"]
RIGHT = ["grad = grad.sum(dim=axis, keepdim=True)"]
EXERCISE = "broadcast-multiply"
NAME = "BroadcastMultiply"
# --- code
import torch
from torch import Tensor


def unbroadcast(grad: Tensor, shape: torch.Size) -> Tensor:
    """Sum grad over everything that broadcasting has repeated."""
    # axes that broadcasting put in front
    while grad.dim() > len(shape):
        grad = grad.sum(dim=0)
    # axes that had length 1
    for axis, size in enumerate(shape):
        if size == 1:
            grad = grad.sum(dim=axis)
    return grad


class BroadcastMultiply(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return unbroadcast(grad_output * y, x.shape), unbroadcast(grad_output * x, y.shape)

# %% broadcast-multiply_2
"""The block for y was copied from the block for x and still asks needs_input_grad[0], so y gets no gradient when x is a constant; with both inputs requiring gradients everything looks right."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["if ctx.needs_input_grad[0]:  # same for the other factor"]
RIGHT = ["if ctx.needs_input_grad[1]:  # same for the other factor"]
EXERCISE = "broadcast-multiply"
NAME = "BroadcastMultiply"
# --- code
import torch


class BroadcastMultiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        grad_x = grad_y = None

        # skip the work for inputs that are constants
        if ctx.needs_input_grad[0]:
            grad_x = BroadcastMultiply._reduce(grad_output * y, x.shape)

        if ctx.needs_input_grad[0]:  # same for the other factor
            grad_y = BroadcastMultiply._reduce(grad_output * x, y.shape)

        return grad_x, grad_y

    @staticmethod
    def _reduce(grad, shape):
        extra = grad.dim() - len(shape)
        axes = list(range(extra))
        axes += [extra + i for i, n in enumerate(shape) if n == 1]
        if axes:
            grad = grad.sum(axes, keepdim=True)
        return grad.reshape(shape)

# %% complex-multiply_1
"""The other factor is not conjugated; the author took the derivative of z * w from real calculus, where it is just the other factor."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_z = _match(grad_output * w, z)", "grad_w = _match(grad_output * z, w)"]
RIGHT = ["grad_z = _match(grad_output * w.conj(), z)", "grad_w = _match(grad_output * z.conj(), w)"]
EXERCISE = "complex-multiply"
NAME = "ComplexMultiply"
# --- code
import torch
from torch import Tensor


def _match(grad: Tensor, like: Tensor) -> Tensor:
    """A real input gets the real part."""
    return grad if like.is_complex() else grad.real


class ComplexMultiply(torch.autograd.Function):
    @staticmethod
    def forward(z: Tensor, w: Tensor) -> Tensor:
        return z * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        z, w = inputs
        ctx.save_for_backward(z, w)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        z, w = ctx.saved_tensors
        grad_z = _match(grad_output * w, z)
        grad_w = _match(grad_output * z, w)
        return grad_z, grad_w

# %% complex-multiply_2
"""The branch for w was copied from the one for z and still looks at z, so w's gradient is made real, or left complex, according to the wrong input."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["if not torch.is_complex(z):  # and the same for w"]
RIGHT = ["if not torch.is_complex(w):  # and the same for w"]
EXERCISE = "complex-multiply"
NAME = "ComplexMultiply"
# --- code
import torch


class ComplexMultiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, w):
        ctx.save_for_backward(z, w)
        return z * w

    @staticmethod
    def backward(ctx, grad_output):
        z, w = ctx.saved_tensors

        # steepest ascent: conjugate the other factor
        grad_z = grad_output * torch.conj(w)
        grad_w = grad_output * torch.conj(z)

        # real inputs must get real gradients
        if not torch.is_complex(z):
            grad_z = torch.real(grad_z)
        if not torch.is_complex(z):  # and the same for w
            grad_w = torch.real(grad_w)

        return grad_z, grad_w

# %% conv1d_1
"""The padding is cut off with padding:-padding, which is an empty slice for padding 0; the author tested with padding 1."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_x = grad_padded[:, :, padding:-padding]"]
RIGHT = ["grad_x = grad_padded[:, :, padding : padding + length]"]
EXERCISE = "conv1d"
NAME = "Conv1d"
# --- code
import torch
import torch.nn.functional as F
from torch import Tensor


class Conv1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, stride: int, padding: int, groups: int) -> Tensor:
        n, c, _ = x.shape
        o, _, k = weight.shape
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding, ctx.groups = stride, padding, groups

        windows = F.pad(x, (padding, padding)).unfold(-1, k, stride)  # n, c, t, k
        windows = windows.reshape(n, groups, c // groups, -1, k)
        w = weight.reshape(groups, o // groups, c // groups, k)
        y = torch.einsum("ngctk,gock->ngot", windows, w)
        return y.reshape(n, o, -1)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        x, weight = ctx.saved_tensors
        stride, padding, groups = ctx.stride, ctx.padding, ctx.groups
        n, c, length = x.shape
        o, _, k = weight.shape
        t = grad_output.shape[-1]

        g = grad_output.reshape(n, groups, o // groups, t)
        w = weight.reshape(groups, o // groups, c // groups, k)

        # weight: product of the windows with the gradient
        windows = F.pad(x, (padding, padding)).unfold(-1, k, stride)
        windows = windows.reshape(n, groups, c // groups, t, k)
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).reshape(weight.shape)

        # x: gradient of every window, then add the windows back where they overlap
        grad_windows = torch.einsum("ngot,gock->ngctk", g, w).reshape(n, c, t, k)
        grad_padded = x.new_zeros(n, c, length + 2 * padding)
        for i in range(k):
            grad_padded[:, :, i : i + stride * t : stride] += grad_windows[..., i]
        grad_x = grad_padded[:, :, padding:-padding]

        return grad_x, grad_weight, None, None, None

# %% conv1d_2
"""Two slips: backward cuts the windows from the unpadded x, since x is what was saved, and the padded gradient is only as long as the windows reach, so the elements no window uses are missing from it."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["win = split_groups(x.unfold(2, K, stride), groups, 1)", "size = (T - 1) * stride + K"]
RIGHT = ["win = split_groups(pad(x, (padding, padding)).unfold(2, K, stride), groups, 1)", "size = L + 2 * padding"]
EXERCISE = "conv1d"
NAME = "Conv1d"
# --- code
import torch
from torch import Tensor
from torch.nn.functional import pad


def split_groups(t: Tensor, groups: int, axis: int) -> Tensor:
    """Cut an axis into (groups, rest)."""
    return t.unflatten(axis, (groups, t.shape[axis] // groups))


class Conv1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, stride, padding, groups):
        ctx.save_for_backward(x, weight)
        ctx.conf = stride, padding, groups
        win = pad(x, (padding, padding)).unfold(2, weight.shape[2], stride)
        win = split_groups(win, groups, 1)        # N G c T K
        w = split_groups(weight, groups, 0)       # G o c K
        return torch.einsum("bgctk,gock->bgot", win, w).flatten(1, 2)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        stride, padding, groups = ctx.conf
        K = weight.shape[2]
        L = x.shape[2]
        T = grad_output.shape[2]
        g = split_groups(grad_output, groups, 1)  # N G o T
        w = split_groups(weight, groups, 0)

        win = split_groups(x.unfold(2, K, stride), groups, 1)
        grad_w = torch.einsum("bgot,bgctk->gock", g, win).flatten(0, 1)

        # scatter the windows back: window t begins at t * stride
        grad_win = torch.einsum("bgot,gock->bgctk", g, w).flatten(1, 2)
        size = (T - 1) * stride + K
        grad_pad = grad_win.new_zeros(*x.shape[:2], size)
        for t in range(T):
            start = t * stride
            grad_pad[..., start : start + K] += grad_win[:, :, t]
        grad_x = grad_pad.narrow(2, padding, size - 2 * padding)
        return grad_x, grad_w, None, None, None

# %% gather-rows_1
"""Indexed += reads, adds and writes back once for each index, so of a row asked for several times only one contribution remains; the author expected it to accumulate."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_table[index] += grad_output"]
RIGHT = ["grad_table.index_put_((index,), grad_output, accumulate=True)"]
EXERCISE = "gather-rows"
NAME = "GatherRows"
# --- code
import torch
from torch import Tensor


class GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(table: Tensor, index: Tensor) -> Tensor:
        return table[index]

    @staticmethod
    def setup_context(ctx, inputs, output):
        table, index = inputs
        ctx.save_for_backward(index)
        ctx.table_shape = table.shape

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        grad_table = grad_output.new_zeros(ctx.table_shape)  # rows nobody asked for keep 0
        # repeated words add up
        grad_table[index] += grad_output
        return grad_table, None

# %% gather-rows_2
"""The size of the table is kept on the class instead of on ctx, so with two tables in one model the second call overwrites what backward of the first needs; with one table it works."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["num_rows = 0", "GatherRows.num_rows = table.size(0)", "grad_table = flat_grad.new_zeros(GatherRows.num_rows, width)"]
RIGHT = ["ctx.num_rows = table.size(0)", "grad_table = flat_grad.new_zeros(ctx.num_rows, width)"]
EXERCISE = "gather-rows"
NAME = "GatherRows"
# --- code
import torch
from torch import Tensor


class GatherRows(torch.autograd.Function):
    """Embedding lookup."""

    num_rows = 0

    @staticmethod
    def forward(ctx, table: Tensor, index: Tensor) -> Tensor:
        # only the size is needed later, not the values
        GatherRows.num_rows = table.size(0)
        ctx.save_for_backward(index)
        return table[index]

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        index, = ctx.saved_tensors
        width = grad_output.size(-1)
        flat_index = index.reshape(-1)
        flat_grad = grad_output.reshape(-1, width)
        grad_table = flat_grad.new_zeros(GatherRows.num_rows, width)
        grad_table.index_add_(0, flat_index, flat_grad)
        return grad_table, None

# %% gelu_1
"""The chain rule through erf(x / sqrt(2)) leaves out the inner derivative 1 / sqrt(2); the author looked up erf' = 2 / sqrt(pi) * exp(-z^2), put z in, and thought that was all of it."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["derf = 2 / math.sqrt(math.pi) * torch.exp(-z * z)"]
RIGHT = ["derf = 2 / math.sqrt(math.pi) * torch.exp(-z * z) / SQRT2"]
EXERCISE = "gelu"
NAME = "GELU"
# --- code
import math

import torch

SQRT2 = math.sqrt(2.0)


class GELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.erf(x / SQRT2))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        z = x / SQRT2
        cdf = 0.5 * (1 + torch.erf(z))
        # d erf(z) / dz = 2 / sqrt(pi) * exp(-z^2)
        derf = 2 / math.sqrt(math.pi) * torch.exp(-z * z)
        return grad_output * (cdf + 0.5 * x * derf)

# %% gelu_2
"""Backward returns the local derivative without grad_output; the author took backward for the place where the derivative is stated and expected autograd to do the chain rule."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return phi + x * density"]
RIGHT = ["return grad_output * (phi + x * density)"]
EXERCISE = "gelu"
NAME = "GELU"
# --- code
import math

import torch
from torch import Tensor


class GELU(torch.autograd.Function):
    """Exact GELU, x * Phi(x)."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        phi = (torch.erf(x / math.sqrt(2)) + 1) / 2
        ctx.save_for_backward(x, phi)
        return x * phi

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        x, phi = ctx.saved_tensors
        density = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
        # product rule: Phi(x) + x * Phi'(x)
        return phi + x * density

# %% gradient-reversal_1
"""Forward returns a view of the input, as many published versions do, instead of a tensor of its own; the author thought that a view is new enough, and it is, until an in-place layer follows."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return x.view_as(x)  # new tensor, no copy"]
RIGHT = ["return x.clone()  # new tensor"]
EXERCISE = "gradient-reversal"
NAME = "GradientReversal"
# --- code
import torch
from torch import Tensor


class GradientReversal(torch.autograd.Function):
    """Identity forward, gradient times -strength backward (Ganin & Lempitsky)."""

    @staticmethod
    def forward(ctx, x: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return x.view_as(x)  # new tensor, no copy

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output.neg() * ctx.strength, None

# %% gradient-reversal_2
"""Backward multiplies grad_output in place to save memory; that tensor belongs to the engine and may be on its way to another branch too, which then gets the reversed gradient."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return grad_output.mul_(-ctx.strength), None"]
RIGHT = ["return grad_output.mul(-ctx.strength), None"]
EXERCISE = "gradient-reversal"
NAME = "GradientReversal"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class GradientReversal(Function):
    @staticmethod
    def forward(x: Tensor, strength: float) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, strength = inputs
        ctx.strength = strength

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # in place: there is no reason to allocate a second tensor
        return grad_output.mul_(-ctx.strength), None

# %% learnable-swish_1
"""The gradient of beta is summed to a number of shape () and stays that way even if beta has shape (1,); the author only ever thought of beta as a scalar."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_beta = (grad_output * x * x * ds).sum()"]
RIGHT = ["grad_beta = (grad_output * x * x * ds).sum().reshape(beta.shape)"]
EXERCISE = "learnable-swish"
NAME = "LearnableSwish"
# --- code
import torch
from torch import Tensor


class LearnableSwish(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, beta: Tensor) -> Tensor:
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, beta = inputs
        ctx.save_for_backward(x, beta)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x)
        ds = s * (1 - s)

        grad_x = grad_output * (s + beta * x * ds)
        # beta acts on every element, so all of them contribute
        grad_beta = (grad_output * x * x * ds).sum()
        return grad_x, grad_beta

# %% learnable-swish_2
"""Two slips: the gradient of x forgets the inner derivative beta (the formula is that of plain Swish), and the gradient of beta is averaged over the elements, as one does with a batch loss, instead of summed."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_x = grad_output * gate + d_gate", "grad_beta = (d_gate * x).mean().view_as(beta)"]
RIGHT = ["grad_x = grad_output * gate + d_gate * beta", "grad_beta = (d_gate * x).sum().view_as(beta)"]
EXERCISE = "learnable-swish"
NAME = "LearnableSwish"
# --- code
import torch


def dsigmoid(s):
    """Derivative of the sigmoid, given its output."""
    return s * (1.0 - s)


class LearnableSwish(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, beta):
        gate = torch.sigmoid(beta * x)
        ctx.save_for_backward(x, beta, gate)
        return x * gate

    @staticmethod
    def backward(ctx, grad_output):
        x, beta, gate = ctx.saved_tensors
        d_gate = grad_output * x * dsigmoid(gate)   # gradient at the argument of the sigmoid
        grad_x = grad_output * gate + d_gate
        # one parameter for all elements
        grad_beta = (d_gate * x).mean().view_as(beta)
        return grad_x, grad_beta

# %% log-sum-exp_1
"""The maximum is subtracted without a guard for a slice that is all -inf, where -inf - (-inf) is nan; the author thought the max trick makes every input safe."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = []
RIGHT = ["top = top.masked_fill(top == -math.inf, 0.0)"]
EXERCISE = "log-sum-exp"
NAME = "LogSumExp"
# --- code
import math

import torch
from torch import Tensor


class LogSumExp(torch.autograd.Function):
    """log sum exp along one axis, in the numerically stable form."""

    @staticmethod
    def forward(ctx, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
        # subtract the maximum: the largest exponent is then 0 and nothing overflows
        top = x.amax(dim, keepdim=True)
        y = top + (x - top).exp().sum(dim, keepdim=True).log()
        ctx.save_for_backward(x, y)
        ctx.dim = dim
        ctx.keepdim = keepdim
        return y if keepdim else y.squeeze(dim)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            grad_output = grad_output.unsqueeze(ctx.dim)
        # dy/dx_j = exp(x_j - y), the softmax
        shift = y.masked_fill(y == -math.inf, 0.0)  # empty slices: exp(-inf) = 0
        return grad_output * (x - shift).exp(), None, None

# %% log-sum-exp_2
"""Backward returns no None for keepdim, since the author always called apply(x, dim), where the default argument is not an input and two values are enough."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return grad_x, None  # dim is no tensor"]
RIGHT = ["return grad_x, None, None  # dim is no tensor"]
EXERCISE = "log-sum-exp"
NAME = "LogSumExp"
# --- code
import torch
from torch import Tensor

NEG_INF = float("-inf")


def softmax_or_zero(x: Tensor, dim: int) -> Tensor:
    p = torch.softmax(x, dim)
    # a slice without any finite entry comes out as nan
    empty = (x == NEG_INF).all(dim, keepdim=True)
    return p.masked_fill(empty, 0)


class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
        ctx.save_for_backward(x)
        ctx.dim, ctx.keepdim = dim, keepdim

        m = x.max(dim, keepdim=True).values
        m = torch.where(m == NEG_INF, torch.zeros_like(m), m)
        total = torch.exp(x - m).sum(dim, keepdim=True)
        out = m + torch.log(total)
        return out if keepdim else out.squeeze(dim)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        x, = ctx.saved_tensors
        g = grad_output if ctx.keepdim else grad_output.unsqueeze(ctx.dim)
        grad_x = g * softmax_or_zero(x, ctx.dim)
        return grad_x, None  # dim is no tensor

# %% max-with-ties_1
"""Every one of c equal maxima gets the whole gradient instead of 1/c of it; the author argued that each of them is the maximum, so each has derivative one."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = []
RIGHT = ["share = share / share.sum(ctx.dim, keepdim=True)"]
EXERCISE = "max-with-ties"
NAME = "MaxWithTies"
# --- code
import torch
from torch import Tensor


class MaxWithTies(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
        top = torch.amax(x, dim=dim, keepdim=True)
        ctx.save_for_backward(x == top)  # True at every maximum
        ctx.dim = dim
        ctx.keepdim = keepdim
        if keepdim:
            return top
        return top.squeeze(dim)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (is_max,) = ctx.saved_tensors
        if not ctx.keepdim:
            grad_output = grad_output.unsqueeze(ctx.dim)
        share = is_max.to(grad_output.dtype)
        return grad_output * share, None, None

# %% max-with-ties_2
"""The missing axis of grad_output is put back at the end instead of at dim, which is right only for the last axis, the one the author tried."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["g = g.unsqueeze(-1)  # so that it broadcasts against x"]
RIGHT = ["g = g.unsqueeze(ctx.dim)  # so that it broadcasts against x"]
EXERCISE = "max-with-ties"
NAME = "MaxWithTies"
# --- code
import torch


class MaxWithTies(torch.autograd.Function):
    """amax with the gradient shared evenly among ties."""

    @staticmethod
    def forward(x, dim, keepdim=False):
        return x.amax(dim, keepdim=keepdim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, dim, keepdim = inputs
        ctx.dim = dim
        ctx.keepdim = keepdim
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        mask = x == x.amax(ctx.dim, keepdim=True)
        count = mask.sum(dim=ctx.dim, keepdim=True)
        g = grad_output
        if not ctx.keepdim:
            g = g.unsqueeze(-1)  # so that it broadcasts against x
        return mask * (g / count), None, None

# %% soft-rank_1
"""The gradient only counts x_k in the row of its own rank; that x_k is also subtracted in the rows of all the others was forgotten."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_x = weighted.sum(dim=-1)"]
RIGHT = ["grad_x = weighted.sum(dim=-1) - weighted.sum(dim=-2)"]
EXERCISE = "soft-rank"
NAME = "SoftRank"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class SoftRank(Function):
    @staticmethod
    def forward(x: Tensor, tau: float) -> Tensor:
        # diff[..., i, j] = x_i - x_j
        diff = x[..., :, None] - x[..., None, :]
        return 0.5 + torch.sigmoid(diff / tau).sum(dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, tau = inputs
        ctx.save_for_backward(x)  # the matrix is built again in backward
        ctx.tau = tau

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid((x[..., :, None] - x[..., None, :]) / ctx.tau)
        slope = s * (1 - s) / ctx.tau
        weighted = grad_output[..., :, None] * slope
        grad_x = weighted.sum(dim=-1)
        return grad_x, None

# %% soft-rank_2
"""Forward adds 1 because ranks begin at one, but the term j = i already gives a half, so every rank is a half too large; the gradient is not affected, and gradcheck is content."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return 1 + compare(x, tau).sum(-1)"]
RIGHT = ["return 0.5 + compare(x, tau).sum(-1)"]
EXERCISE = "soft-rank"
NAME = "SoftRank"
# --- code
import torch
from torch import Tensor


def compare(x: Tensor, tau: float) -> Tensor:
    """Soft version of x_i > x_j, shape (..., n, n)."""
    return torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / tau)


class SoftRank(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, tau: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.tau = tau
        # one plus the number of smaller ones
        return 1 + compare(x, tau).sum(-1)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        x, = ctx.saved_tensors
        c = compare(x, ctx.tau)
        d = c * (1 - c) / ctx.tau          # symmetric in i and j
        # d r_i / d x_k = (sum_j d_ij) [i = k] - d_ik
        own = grad_output * d.sum(-1)
        others = (d @ grad_output.unsqueeze(-1)).squeeze(-1)
        return own - others, None

# %% swish_1
"""The formula y + s * (1 - y) is right for the output y, but x was put in for y; it looked like the Swish derivative from the paper and only x had been saved."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return grad_output * (x + sig * (1 - x))"]
RIGHT = ["return grad_output * (x * sig + sig * (1 - x * sig))"]
EXERCISE = "swish"
NAME = "Swish"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Swish(Function):
    # One tensor is enough: x. The sigmoid is cheap, so it is computed again.

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        sig = torch.sigmoid(x)
        # f' = f + sig * (1 - f)
        return grad_output * (x + sig * (1 - x))

# %% swish_2
"""The sigmoid is kept as an attribute of ctx beside the saved x, which doubles the memory kept and goes around save_for_backward; the author believed that only save_for_backward counts."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["ctx.s = s", "s = ctx.s"]
RIGHT = ["s = torch.sigmoid(x)"]
EXERCISE = "swish"
NAME = "Swish"
# --- code
import torch
from torch import Tensor


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        s = torch.sigmoid(x)
        ctx.save_for_backward(x)  # one tensor of the size of x
        ctx.s = s
        return x * s

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        s = ctx.s
        return grad_output * s * (1 + x * (1 - s))
