"""Mistakes of honest attempts at lessons 01 to 04; see benchmarks/repairs.py."""

# %% scaled-sigmoid_1
"""The derivative is written half in sigma and half in y: in gain * slope * s * (1 - s), the first s is replaced by y = gain * s, but the factor gain stays. y already contains the gain, so the gradient is too large by the factor gain (invisible for gain = 1)."""
WRONG = ["return grad_output * ctx.gain * ctx.slope * y * (1 - y / ctx.gain), None, None"]
RIGHT = ["return grad_output * ctx.slope * y * (1 - y / ctx.gain), None, None"]
NAME = "ScaledSigmoid"
EXERCISE = "scaled-sigmoid"
# --- code
import torch
from torch.autograd import Function


class ScaledSigmoid(Function):
    @staticmethod
    def forward(ctx, x, gain, slope):
        y = gain * torch.sigmoid(slope * x)
        ctx.save_for_backward(y)
        ctx.gain = gain
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * ctx.gain * ctx.slope * y * (1 - y / ctx.gain), None, None


# %% scaled-sigmoid_2
"""The gradient is right, but the tensor saved is the unscaled sigmoid s, not the output y = gain * s. The exercise allows only the output to be saved: s is an additional tensor that would be freed otherwise."""
WRONG = ["ctx.save_for_backward(s)", "return gain * s", "(s,) = ctx.saved_tensors"]
RIGHT = ["y = gain * s\nctx.save_for_backward(y)", "return y", "(y,) = ctx.saved_tensors\ns = y / ctx.gain"]
NAME = "ScaledSigmoid"
EXERCISE = "scaled-sigmoid"
# --- code
import torch
from torch.autograd import Function


class ScaledSigmoid(Function):
    @staticmethod
    def forward(ctx, x, gain, slope):
        s = 1 / (1 + torch.exp(-slope * x))
        ctx.save_for_backward(s)
        ctx.gain, ctx.slope = gain, slope
        return gain * s

    @staticmethod
    def backward(ctx, grad_output):
        (s,) = ctx.saved_tensors
        grad_x = grad_output * ctx.gain * ctx.slope * s * (1 - s)
        return grad_x, None, None


# %% clipped-relu_1
"""The mask is computed from the saved output, which equals the ceiling for every x at or above it. With <=, the whole saturated region passes the gradient, not only the kink; from the output, only the strict comparison can tell the linear part from the saturated one."""
WRONG = ["mask = (y > 0) & (y <= ctx.ceiling)"]
RIGHT = ["mask = (y > 0) & (y < ctx.ceiling)"]
NAME = "ClippedReLU"
EXERCISE = "clipped-relu"
# --- code
import torch
from torch.autograd import Function


class ClippedReLU(Function):
    @staticmethod
    def forward(ctx, x, ceiling):
        y = x.clamp(0, ceiling)
        ctx.save_for_backward(y)
        ctx.ceiling = ceiling
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        mask = (y > 0) & (y <= ctx.ceiling)
        return grad_output * mask, None


# %% linear_1
"""For an x without leading dimensions, the tuple of dims is empty, and sum with an empty tuple of dims sums over all dimensions. The bias gradient then is a single number instead of one value per output feature."""
WRONG = ["grad_bias = grad_output.sum(dim=tuple(range(grad_output.dim() - 1)))"]
RIGHT = ["grad_bias = grad_output.reshape(-1, grad_output.shape[-1]).sum(0)"]
NAME = "Linear"
EXERCISE = "linear"
# --- code
import torch
from torch.autograd import Function


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        y = x @ weight.t()
        if bias is not None:
            y = y + bias
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x = grad_output @ weight
        g2 = grad_output.reshape(-1, weight.shape[0])
        x2 = x.reshape(-1, weight.shape[1])
        grad_weight = g2.t() @ x2
        grad_bias = None
        if ctx.has_bias:
            grad_bias = grad_output.sum(dim=tuple(range(grad_output.dim() - 1)))
        return grad_x, grad_weight, grad_bias


# %% to-polar_1
"""backward recomputes the angle with atan(y / x), which only covers the right half-plane. For x < 0 the angle is off by pi, so cosine and sine (and with them all gradients) have the wrong sign."""
WRONG = ["theta = torch.atan(y / x)"]
RIGHT = ["theta = torch.atan2(y, x)"]
NAME = "ToPolar"
EXERCISE = "to-polar"
# --- code
import torch
from torch.autograd import Function


class ToPolar(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return torch.hypot(x, y), torch.atan2(y, x)

    @staticmethod
    def backward(ctx, grad_r, grad_theta):
        x, y = ctx.saved_tensors
        r = torch.hypot(x, y)
        theta = torch.atan(y / x)
        c, s = torch.cos(theta), torch.sin(theta)
        grad_x = c * grad_r - s / r * grad_theta
        grad_y = s * grad_r + c / r * grad_theta
        return grad_x, grad_y


# %% repair-mean_1
"""The gradient is divided by the number of means (the number of elements of grad_output) instead of n, the number of elements that each mean averages, which is the length of the last dimension of x."""
WRONG = ["n = grad_output.numel()"]
RIGHT = ["n = ctx.shape[-1]"]
NAME = "Mean"
EXERCISE = "repair-mean"
# --- code
import torch
from torch.autograd import Function


class Mean(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.mean(-1)

    @staticmethod
    def backward(ctx, grad_output):
        n = grad_output.numel()
        return grad_output.unsqueeze(-1).expand(ctx.shape) / n


# %% repair-absolute_1
"""x / |x| is the sign of x only where x is not 0. At x = 0 it is 0 / 0 = nan, which is no slope between -1 and 1."""
WRONG = ["return grad_output * x / x.abs()"]
RIGHT = ["return grad_output * x.sign()"]
NAME = "Absolute"
EXERCISE = "repair-absolute"
# --- code
import torch
from torch.autograd import Function


class Absolute(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x / x.abs()


# %% snake_1
"""save_for_backward accepts only tensors, but a is a Python number, so the call raises a TypeError. A number belongs in an attribute of ctx."""
WRONG = ["ctx.save_for_backward(x, a)", "x, a = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(x)\nctx.a = a", "(x,) = ctx.saved_tensors\na = ctx.a"]
NAME = "Snake"
EXERCISE = "snake"
# --- code
import torch
from torch.autograd import Function


class Snake(Function):
    @staticmethod
    def forward(x, a):
        return x + torch.sin(a * x) ** 2 / a

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, a = inputs
        ctx.save_for_backward(x, a)

    @staticmethod
    def backward(ctx, grad_output):
        x, a = ctx.saved_tensors
        return grad_output * (1 + torch.sin(2 * a * x)), None


# %% sort-with-indices_1
"""gather applies the same permutation once more instead of undoing it. values[i] came from x[indices[i]], so the gradient of values[i] has to be written to position indices[i] (scatter), not read from there."""
WRONG = ["grad_x = torch.gather(grad_values, -1, indices)"]
RIGHT = ["grad_x = torch.zeros_like(grad_values).scatter(-1, indices, grad_values)"]
NAME = "SortWithIndices"
EXERCISE = "sort-with-indices"
# --- code
import torch
from torch.autograd import Function


class SortWithIndices(Function):
    @staticmethod
    def forward(x, descending=False):
        values, indices = torch.sort(x, dim=-1, descending=descending)
        return values, indices

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, indices = output
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)

    @staticmethod
    def backward(ctx, grad_values, grad_indices):
        (indices,) = ctx.saved_tensors
        grad_x = torch.gather(grad_values, -1, indices)
        return grad_x, None


# %% sort-with-indices_2
"""The inverse of a permutation is its ascending argsort, however the values were sorted. With descending=True the argsort here is reversed too, so every gradient of a row goes to the mirrored element."""
WRONG = ["inverse = indices.argsort(dim=-1, descending=ctx.descending)"]
RIGHT = ["inverse = indices.argsort(dim=-1)"]
NAME = "SortWithIndices"
EXERCISE = "sort-with-indices"
# --- code
import torch
from torch.autograd import Function


class SortWithIndices(Function):
    @staticmethod
    def forward(x, descending=False):
        values, indices = torch.sort(x, dim=-1, descending=descending)
        return values, indices

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, descending = inputs
        values, indices = output
        ctx.descending = descending
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)

    @staticmethod
    def backward(ctx, grad_values, _):
        (indices,) = ctx.saved_tensors
        inverse = indices.argsort(dim=-1, descending=ctx.descending)
        return grad_values.gather(-1, inverse), None


# %% strided-gain_1
"""The length of x's last dimension cannot be computed from the output: x[..., ::stride] rounds up. If stride does not divide the length, the returned gradient is longer than x; the length must be stored in setup_context."""
WRONG = ["ctx.stride = stride", "length = grad_output.shape[-1] * ctx.stride"]
RIGHT = ["ctx.stride = stride\nctx.length = x.shape[-1]", "length = ctx.length"]
NAME = "StridedGain"
EXERCISE = "strided-gain"
# --- code
import torch
from torch.autograd import Function


class StridedGain(Function):
    @staticmethod
    def forward(x, gain, stride, training):
        y = x[..., ::stride]
        if training:
            return gain * y
        return y.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gain, stride, training = inputs
        ctx.stride = stride
        ctx.training = training
        if training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = grad_gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            length = grad_output.shape[-1] * ctx.stride
            grad_x = grad_output.new_zeros(*grad_output.shape[:-1], length)
            if ctx.training:
                grad_x[..., :: ctx.stride] = grad_output * gain
            else:
                grad_x[..., :: ctx.stride] = grad_output
        if ctx.needs_input_grad[1] and ctx.training:
            grad_gain = grad_output * x[..., :: ctx.stride]
        return grad_x, grad_gain, None, None


# %% strided-gain_2
"""Outside training, forward returns the slice itself, which is a view of x and shares its memory. The exercise asks for a new tensor: autograd forbids in-place changes of a view that a custom Function returns."""
WRONG = ["return kept"]
RIGHT = ["return kept.clone()"]
NAME = "StridedGain"
EXERCISE = "strided-gain"
# --- code
import torch
from torch.autograd import Function


class StridedGain(Function):
    @staticmethod
    def forward(x, gain, stride, training):
        kept = x[..., ::stride]
        if training:
            return kept * gain
        return kept

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gain, stride, training = inputs
        ctx.shape, ctx.stride, ctx.training = x.shape, stride, training
        if training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output):
        grad_x, grad_gain = None, None
        if not ctx.training:
            if ctx.needs_input_grad[0]:
                grad_x = grad_output.new_zeros(ctx.shape)
                grad_x[..., :: ctx.stride] = grad_output
            return grad_x, None, None, None
        x, gain = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            grad_x = torch.zeros_like(x)
            grad_x[..., :: ctx.stride] = grad_output * gain
        if ctx.needs_input_grad[1]:
            grad_gain = grad_output * x[..., :: ctx.stride]
        return grad_x, grad_gain, None, None


# %% leaky-relu-in-place_1
"""backward also works in place and multiplies part of grad_output by the slope. grad_output belongs to autograd and may be shared with another branch of the graph, whose gradient then becomes wrong; only x may be overwritten here."""
WRONG = ["grad_output[y <= 0] *= ctx.slope"]
RIGHT = ["grad_output = torch.where(y > 0, grad_output, ctx.slope * grad_output)"]
NAME = "LeakyReLUInPlace"
EXERCISE = "leaky-relu-in-place"
# --- code
import torch
from torch.autograd import Function


class LeakyReLUInPlace(Function):
    @staticmethod
    def forward(x, slope):
        x[x <= 0] *= slope
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, slope = inputs
        ctx.mark_dirty(x)
        ctx.slope = slope
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        grad_output[y <= 0] *= ctx.slope
        return grad_output, None


# %% frozen-target_1
"""The early exit asks whether any input needs a gradient. That is always true when backward runs, so the gradient of the prediction is computed even if only target or weight require one; the question is needs_input_grad[0]."""
WRONG = ["if not any(ctx.needs_input_grad):"]
RIGHT = ["if not ctx.needs_input_grad[0]:"]
NAME = "FrozenTargetLoss"
EXERCISE = "frozen-target"
# --- code
import torch
from torch.autograd import Function


class FrozenTargetLoss(Function):
    @staticmethod
    def forward(prediction, target, weight):
        return (weight * (prediction - target) ** 2).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        if not any(ctx.needs_input_grad):
            return None, None, None
        prediction, target, weight = ctx.saved_tensors
        grad = 2 * weight * (prediction - target) / prediction.numel()
        return grad_output * grad, None, None


# %% gather-rows_1
"""scatter_add_ does not broadcast its index: an index of the shape (n, 1) adds only column 0 of each row, so all other columns of the gradient stay 0. The index must be expanded to the D columns."""
WRONG = ["rows = index.reshape(-1, 1)"]
RIGHT = ["rows = index.reshape(-1, 1).expand(-1, ctx.shape[1])"]
NAME = "GatherRows"
EXERCISE = "gather-rows"
# --- code
import torch
from torch.autograd import Function


class GatherRows(Function):
    @staticmethod
    def forward(table, index):
        return table[index]

    @staticmethod
    def setup_context(ctx, inputs, output):
        table, index = inputs
        ctx.save_for_backward(index)
        ctx.shape = table.shape

    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        rows = index.reshape(-1, 1)
        grad_table = grad_output.new_zeros(ctx.shape)
        grad_table.scatter_add_(0, rows, grad_output.reshape(-1, ctx.shape[1]))
        return grad_table, None


# %% gather-rows_2
"""The number of rows is guessed from the largest index that occurs. If the last rows of the table are never read, the gradient has too few rows; the number V has to be stored from the table's shape."""
WRONG = ["ctx.save_for_backward(index)", "count = int(index.max()) + 1"]
RIGHT = ["ctx.save_for_backward(index)\nctx.count = table.shape[0]", "count = ctx.count"]
NAME = "GatherRows"
EXERCISE = "gather-rows"
# --- code
import torch
from torch.autograd import Function


class GatherRows(Function):
    @staticmethod
    def forward(table, index):
        return table[index]

    @staticmethod
    def setup_context(ctx, inputs, output):
        table, index = inputs
        ctx.save_for_backward(index)

    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        d = grad_output.shape[-1]
        count = int(index.max()) + 1
        grad_table = torch.zeros(count, d, dtype=grad_output.dtype, device=grad_output.device)
        grad_table.index_add_(0, index.flatten(), grad_output.reshape(-1, d))
        return grad_table, None


# %% swish_1
"""The output y is saved as with the sigmoid, and the formula y + sigma * (1 - y) is right, but sigma has to be taken at x. sigmoid(y) is another number, and x cannot be recovered from y because Swish is not monotonic; x is the tensor to save."""
WRONG = ["ctx.save_for_backward(output)", "(y,) = ctx.saved_tensors", "s = torch.sigmoid(y)"]
RIGHT = ["ctx.save_for_backward(inputs[0])", "(x,) = ctx.saved_tensors", "s = torch.sigmoid(x)\ny = x * s"]
NAME = "Swish"
EXERCISE = "swish"
# --- code
import torch
from torch.autograd import Function


class Swish(Function):
    @staticmethod
    def forward(x):
        return x * torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        s = torch.sigmoid(y)
        return grad_output * (y + s * (1 - y))


# %% learnable-swish_1
"""Two mistakes: the derivative of sigmoid(beta * x) with respect to x misses the inner derivative beta, and the gradient of beta is always a 0-dim sum, which does not have the shape of a beta of shape (1,)."""
WRONG = ["grad_x = grad_output * (s + x * s * (1 - s))", "grad_beta = (grad_output * x**2 * s * (1 - s)).sum()"]
RIGHT = ["grad_x = grad_output * (s + beta * x * s * (1 - s))", "grad_beta = (grad_output * x**2 * s * (1 - s)).sum().reshape(beta.shape)"]
NAME = "LearnableSwish"
EXERCISE = "learnable-swish"
# --- code
import torch
from torch.autograd import Function


class LearnableSwish(Function):
    @staticmethod
    def forward(x, beta):
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, beta = inputs
        ctx.save_for_backward(x, beta)

    @staticmethod
    def backward(ctx, grad_output):
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x)
        grad_x = grad_output * (s + x * s * (1 - s))
        grad_beta = (grad_output * x**2 * s * (1 - s)).sum()
        return grad_x, grad_beta


# %% broadcast-multiply_1
"""Broadcasting aligns shapes at the right, but the loop compares them from the left: it visits the dimensions of length 1 while the gradient still has its additional leading dimensions. For x of shape (1, 3) and a gradient of shape (2, 4, 3), it sums dimension 0 instead of 1 and returns the shape (4, 3). The position must be counted from the end."""
WRONG = ["grad = grad.sum(i, keepdim=True)"]
RIGHT = ["grad = grad.sum(i - len(shape), keepdim=True)"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch.autograd import Function


def reduce_to(grad, shape):
    for i, n in enumerate(shape):
        if n == 1:
            grad = grad.sum(i, keepdim=True)
    while grad.dim() > len(shape):
        grad = grad.sum(0)
    return grad


class BroadcastMultiply(Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return reduce_to(grad_output * y, x.shape), reduce_to(grad_output * x, y.shape)


# %% max-with-ties_1
"""The number of ties follows the caller's keepdim, although mask and gradient have been unsqueezed to all dimensions of x. With keepdim=False the counts lack the reduced dimension, so they broadcast against the wrong dimension: an error, or silently the counts of other slices. The count needs keepdim=True always."""
WRONG = ["ties = mask.sum(ctx.dim, keepdim=ctx.keepdim)"]
RIGHT = ["ties = mask.sum(ctx.dim, keepdim=True)"]
NAME = "MaxWithTies"
EXERCISE = "max-with-ties"
# --- code
import torch
from torch.autograd import Function


class MaxWithTies(Function):
    @staticmethod
    def forward(x, dim, keepdim=False):
        return x.amax(dim, keepdim=keepdim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, dim, keepdim = inputs
        ctx.save_for_backward(x, output)
        ctx.dim = dim
        ctx.keepdim = keepdim

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y = y.unsqueeze(ctx.dim)
            grad_output = grad_output.unsqueeze(ctx.dim)
        mask = x == y
        ties = mask.sum(ctx.dim, keepdim=ctx.keepdim)
        return mask * grad_output / ties, None, None


# %% soft-rank_1
"""The term j = i is constant, so its slope sigma'(0) = 1/4 is taken out of the own part. But the part of the others still contains j = i: with it in both parts it cancels, with it in only one, -g/(4 tau) is left over in every gradient."""
WRONG = ["own = grad_output * (slope.sum(-1) - 0.25)"]
RIGHT = ["own = grad_output * slope.sum(-1)"]
NAME = "SoftRank"
EXERCISE = "soft-rank"
# --- code
import torch
from torch.autograd import Function


class SoftRank(Function):
    @staticmethod
    def forward(x, tau):
        d = (x.unsqueeze(-1) - x.unsqueeze(-2)) / tau
        return 0.5 + torch.sigmoid(d).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, tau = inputs
        ctx.save_for_backward(x)
        ctx.tau = tau

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / ctx.tau)
        slope = s * (1 - s)
        own = grad_output * (slope.sum(-1) - 0.25)
        others = (slope * grad_output.unsqueeze(-2)).sum(-1)
        return (own - others) / ctx.tau, None


# %% gelu_1
"""The inner derivative 1/sqrt(2) of erf(x / sqrt(2)) is applied a second time. The density phi(x) already is the complete derivative of Phi(x) with respect to x, so the second term is too small by sqrt(2)."""
WRONG = ["return grad_output * (cdf + x * density / math.sqrt(2))"]
RIGHT = ["return grad_output * (cdf + x * density)"]
NAME = "GELU"
EXERCISE = "gelu"
# --- code
import math

import torch
from torch.autograd import Function


class GELU(Function):
    @staticmethod
    def forward(x):
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        density = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        return grad_output * (cdf + x * density / math.sqrt(2))


# %% repair-share_1
"""The sum now goes over ctx.dim, but it lost keepdim=True. For dim=0 of a matrix the result still broadcasts correctly, but for dim=-1 the row sums are subtracted along the columns (or the shapes do not fit)."""
WRONG = ["common = (grad_output * x / total).sum(ctx.dim)"]
RIGHT = ["common = (grad_output * x / total).sum(ctx.dim, keepdim=True)"]
NAME = "Share"
EXERCISE = "repair-share"
# --- code
import torch
from torch.autograd import Function


class Share(Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.save_for_backward(x)
        ctx.dim = dim
        return x / x.sum(dim, keepdim=True)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        total = x.sum(ctx.dim, keepdim=True)
        common = (grad_output * x / total).sum(ctx.dim)
        return (grad_output - common) / total, None


# %% repair-film_1
"""The positions are right now, but the gradient of beta is computed if gamma needs one (a copied condition). With gamma frozen and beta trained, beta gets None and does not move."""
WRONG = ["grad_beta = grad_output.sum(0) if needs_gamma else None"]
RIGHT = ["grad_beta = grad_output.sum(0) if needs_beta else None"]
NAME = "FiLM"
EXERCISE = "repair-film"
# --- code
import torch
from torch.autograd import Function


class FiLM(Function):
    @staticmethod
    def forward(ctx, x, gamma, beta):
        ctx.save_for_backward(x, gamma)
        return x * gamma + beta

    @staticmethod
    def backward(ctx, grad_output):
        x, gamma = ctx.saved_tensors
        needs_x, needs_gamma, needs_beta = ctx.needs_input_grad
        grad_x = grad_output * gamma if needs_x else None
        grad_gamma = (grad_output * x).sum(0) if needs_gamma else None
        grad_beta = grad_output.sum(0) if needs_gamma else None
        return grad_x, grad_gamma, grad_beta


# %% repair-floor-log_1
"""The mask of the clamp is multiplied after the division by the unclamped x. Where x is exactly 0 (true silence), the division gives inf, and inf * 0 is nan. Divide by the clamped value, or select with torch.where."""
WRONG = ["grad_x = grad_output / x * (x > ctx.floor)"]
RIGHT = ["grad_x = grad_output / x.clamp(min=ctx.floor) * (x > ctx.floor)"]
NAME = "FloorLog"
EXERCISE = "repair-floor-log"
# --- code
import torch
from torch.autograd import Function


class FloorLog(Function):
    @staticmethod
    def forward(ctx, x, floor):
        ctx.save_for_backward(x)
        ctx.floor = floor
        return x.clamp(min=floor).log()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_x = grad_output / x * (x > ctx.floor)
        return grad_x, None


# %% repair-color-table_1
"""+= with an index tensor does not accumulate: if an entry occurs several times in index + 1, only one of its pixels is added. The second line needs accumulate=True (or index_add_) just as the first one."""
WRONG = ["grad_table[index + 1] += fraction * grad_output"]
RIGHT = ["grad_table.index_put_((index + 1,), fraction * grad_output, accumulate=True)"]
NAME = "LookUp"
EXERCISE = "repair-color-table"
# --- code
import torch
from torch.autograd import Function


class LookUp(Function):
    @staticmethod
    def forward(ctx, table, index, fraction):
        ctx.save_for_backward(table, index, fraction)
        return (1 - fraction) * table[index] + fraction * table[index + 1]

    @staticmethod
    def backward(ctx, grad_output):
        table, index, fraction = ctx.saved_tensors
        grad_table = torch.zeros_like(table)
        grad_table.index_put_((index,), (1 - fraction) * grad_output, accumulate=True)
        grad_table[index + 1] += fraction * grad_output
        grad_fraction = (table[index + 1] - table[index]) * grad_output
        return grad_table, None, grad_fraction


# %% repair-log-cosh_1
"""The fraction is rewritten with exp(-2x), which is stable only for positive x. For a large negative x, exp(-2x) overflows and the result is -inf / inf = nan: the outlier of the other sign still breaks it. Use exp(-2|x|) and the sign, or torch.tanh."""
WRONG = ["e = torch.exp(-2 * x)", "return grad_output * (1 - e) / (1 + e)"]
RIGHT = ["e = torch.exp(-2 * x.abs())", "return grad_output * x.sign() * (1 - e) / (1 + e)"]
NAME = "LogCosh"
EXERCISE = "repair-log-cosh"
# --- code
import math

import torch
from torch.autograd import Function


class LogCosh(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs() + torch.nn.functional.softplus(-2 * x.abs()) - math.log(2)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        e = torch.exp(-2 * x)
        return grad_output * (1 - e) / (1 + e)


# %% repair-solver_1
"""tape is only another name for the list in ctx, not a copy. pop still empties the list that the node keeps, so a second backward pass finds no steps and returns grad_output unchanged."""
WRONG = ["tape = ctx.tape"]
RIGHT = ["tape = list(ctx.tape)"]
NAME = "Solve"
EXERCISE = "repair-solver"
# --- code
import torch
from torch.autograd import Function


class Solve(Function):
    @staticmethod
    def forward(ctx, x, steps):
        states = []
        for h in steps:
            states.append(x)
            x = x - h * x.sin()
        ctx.save_for_backward(*states)
        ctx.tape = list(enumerate(steps))
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        states = ctx.saved_tensors
        tape = ctx.tape
        while tape:
            i, h = tape.pop()
            grad_output = grad_output * (1 - h * states[i].cos())
        return grad_output, None


# %% repair-rms-norm_1
"""Saving the output connects y to the graph, but r is still an intermediate tensor of forward without a history, so the second derivative treats it as a constant. r must be recomputed from x in backward."""
WRONG = ["ctx.save_for_backward(y, r)", "y, r = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(x)", "(x,) = ctx.saved_tensors\nr = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()\ny = x * r"]
NAME = "RMSNorm"
EXERCISE = "repair-rms-norm"
# --- code
import torch
from torch.autograd import Function


class RMSNorm(Function):
    @staticmethod
    def forward(ctx, x):
        r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        y = x * r
        ctx.save_for_backward(y, r)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        y, r = ctx.saved_tensors
        return r * (grad_output - y * (grad_output * y).mean(-1, keepdim=True))


# %% repair-dropout_1
"""backward draws from the same generator object, but forward has already advanced it, so the mask is the next one and not the one of forward. A new generator with the stored seed (or the saved mask) gives the same mask."""
WRONG = ["ctx.generator = generator", "mask = draw(grad_output, ctx.p, ctx.generator)"]
RIGHT = ["ctx.seed = seed", "generator = torch.Generator(grad_output.device).manual_seed(ctx.seed)\nmask = draw(grad_output, ctx.p, generator)"]
NAME = "Dropout"
EXERCISE = "repair-dropout"
# --- code
import torch
from torch.autograd import Function


def draw(x, p, generator=None):
    return torch.rand(x.shape, generator=generator, device=x.device) >= p


class Dropout(Function):
    @staticmethod
    def forward(ctx, x, p, seed):
        generator = torch.Generator(x.device).manual_seed(seed)
        ctx.p = p
        ctx.generator = generator
        return x * draw(x, p, generator) / (1 - p)

    @staticmethod
    def backward(ctx, grad_output):
        mask = draw(grad_output, ctx.p, ctx.generator)
        return grad_output * mask / (1 - ctx.p), None, None
