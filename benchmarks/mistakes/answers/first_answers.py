"""Mistakes: held out, first answers to exercises. Each cell is a separate module; see benchmarks/repairs.py."""

# %% linear_1
"""Reads ctx.needs_input_grad[2] to decide whether there is a bias. If the caller leaves the bias out, apply receives two arguments, so needs_input_grad has only two entries and backward raises an IndexError; the default value of forward is no input of apply."""
WRONG = ["grad_bias = flat.sum(0) if ctx.needs_input_grad[2] else None"]
RIGHT = ["grad_bias = flat.sum(0) if len(ctx.needs_input_grad) > 2 and ctx.needs_input_grad[2] else None"]
NAME = "Linear"
EXERCISE = "linear"
# --- code
import torch
from torch.autograd import Function


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        y = x @ weight.mT
        if bias is not None:
            y = y + bias
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        flat = grad_output.reshape(-1, weight.shape[0])
        grad_x = grad_output @ weight
        grad_weight = flat.mT @ x.reshape(-1, weight.shape[1])
        grad_bias = flat.sum(0) if ctx.needs_input_grad[2] else None
        return grad_x, grad_weight, grad_bias


# %% to-polar_1
"""The angle's derivatives are those of the inverse map: dx/dtheta = -r sin(theta) and dy/dtheta = r cos(theta) belong to (r, theta) -> (x, y). Here dtheta/dx = -sin(theta)/r and dtheta/dy = cos(theta)/r are needed, so the factor r must be a divisor."""
WRONG = [
    "grad_x = theta.cos() * grad_r - r * theta.sin() * grad_theta",
    "grad_y = theta.sin() * grad_r + r * theta.cos() * grad_theta",
]
RIGHT = [
    "grad_x = theta.cos() * grad_r - theta.sin() / r * grad_theta",
    "grad_y = theta.sin() * grad_r + theta.cos() / r * grad_theta",
]
NAME = "ToPolar"
EXERCISE = "to-polar"
# --- code
import torch
from torch.autograd import Function


class ToPolar(Function):
    @staticmethod
    def forward(ctx, x, y):
        r, theta = torch.hypot(x, y), torch.atan2(y, x)
        ctx.save_for_backward(r, theta)
        return r, theta

    @staticmethod
    def backward(ctx, grad_r, grad_theta):
        r, theta = ctx.saved_tensors
        grad_x = theta.cos() * grad_r - r * theta.sin() * grad_theta
        grad_y = theta.sin() * grad_r + r * theta.cos() * grad_theta
        return grad_x, grad_y


# %% clipped-relu_1
"""The mask with the convention 1 at both kinks is computed from the saved output. The output always lies in [0, ceiling], so the mask is true everywhere and the gradient also passes where the input was clipped."""
WRONG = ["inside = (y >= 0) & (y <= ctx.ceiling)"]
RIGHT = ["inside = (y > 0) & (y < ctx.ceiling)"]
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
        inside = (y >= 0) & (y <= ctx.ceiling)
        return grad_output * inside, None


# %% sort-with-indices_1
"""backward gathers with the same indices as forward, so it applies the permutation a second time instead of inverting it. The gradient of values[i] must go to position indices[i] of x, which is a scatter; the two agree only for permutations that are their own inverse."""
WRONG = ["grad_x = grad_values.gather(-1, indices)"]
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
        grad_x = grad_values.gather(-1, indices)
        return grad_x, None


# %% strided-gain_1
"""backward reconstructs the length of x as (number of kept elements) * stride. Several lengths give the same number of kept elements, so the gradient has the wrong shape whenever the length of x is not a multiple of the stride; the length must be remembered in setup_context."""
WRONG = [
    "x, gain, ctx.stride, ctx.training = inputs",
    "grad_x = kept.new_zeros(*kept.shape[:-1], kept.shape[-1] * ctx.stride)",
]
RIGHT = [
    "x, gain, ctx.stride, ctx.training = inputs\nctx.length = x.shape[-1]",
    "grad_x = kept.new_zeros(*kept.shape[:-1], ctx.length)",
]
NAME = "StridedGain"
EXERCISE = "strided-gain"
# --- code
import torch
from torch.autograd import Function


class StridedGain(Function):
    @staticmethod
    def forward(x, gain, stride, training):
        kept = x[..., ::stride]
        return gain * kept if training else kept.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gain, ctx.stride, ctx.training = inputs
        if ctx.training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = grad_gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            kept = grad_output * gain if ctx.training else grad_output
            grad_x = kept.new_zeros(*kept.shape[:-1], kept.shape[-1] * ctx.stride)
            grad_x[..., :: ctx.stride] = kept
        if ctx.needs_input_grad[1]:
            if ctx.training:
                grad_gain = grad_output * x[..., :: ctx.stride]
            else:
                grad_gain = torch.zeros_like(grad_output)
        return grad_x, grad_gain, None, None


# %% frozen-target_1
"""Two mistakes: the mean divides by the number of all elements, but len() counts only the first dimension, so the gradient of a matrix is too large. And backward ignores ctx.needs_input_grad, so it computes a gradient even when the prediction requires none."""
WRONG = [
    "prediction, target, weight = ctx.saved_tensors",
    "slope = 2 * weight * (prediction - target) / len(prediction)",
]
RIGHT = [
    "if not ctx.needs_input_grad[0]:\n    return None, None, None\nprediction, target, weight = ctx.saved_tensors",
    "slope = 2 * weight * (prediction - target) / prediction.numel()",
]
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
        prediction, target, weight = ctx.saved_tensors
        slope = 2 * weight * (prediction - target) / len(prediction)
        return grad_output * slope, None, None


# %% soft-rank_1
"""pairs[i, j] is what the pair (i, j) contributes to the gradient of x_i, so it must be summed over j, the last dim. The matrix is antisymmetric, so the sum over i (dim -2) gives exactly the negative gradient."""
WRONG = ["return pairs.sum(-2), None"]
RIGHT = ["return pairs.sum(-1), None"]
NAME = "SoftRank"
EXERCISE = "soft-rank"
# --- code
import torch
from torch.autograd import Function


class SoftRank(Function):
    @staticmethod
    def forward(x, tau):
        difference = x.unsqueeze(-1) - x.unsqueeze(-2)
        return 0.5 + torch.sigmoid(difference / tau).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.tau = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / ctx.tau)
        slope = s * (1 - s) / ctx.tau
        pairs = (grad_output.unsqueeze(-1) - grad_output.unsqueeze(-2)) * slope
        return pairs.sum(-2), None


# %% broadcast-multiply_1
"""The helper compares the sizes from the left, but broadcasting aligns shapes from the right. With fewer dims, it therefore sums the wrong dims, or none when the sizes happen to agree, as for a (3, 3) matrix and a vector of 3."""
WRONG = ["wide = tuple(shape)"]
RIGHT = ["wide = (1,) * (gradient.dim() - len(shape)) + tuple(shape)"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch.autograd import Function


def reduce_to(gradient, shape):
    wide = tuple(shape)
    dims = [i for i, (a, b) in enumerate(zip(gradient.shape, wide)) if a != b]
    if dims:
        gradient = gradient.sum(dims, keepdim=True)
    return gradient.reshape(shape)


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


# %% repair-floor-log_1
"""The gradient below the floor is set to 0 by multiplying 1/x with the mask. True silence has x = 0, where 1/x is inf and inf * 0 is nan; the mask must select (torch.where) or the division must use the clamped value."""
WRONG = ["return grad_output / x * (x > ctx.floor), None"]
RIGHT = ["return grad_output / x.clamp(min=ctx.floor) * (x > ctx.floor), None"]
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
        return grad_output / x * (x > ctx.floor), None


# %% repair-dropout_1
"""backward draws from the generator object that forward has already used. Its state has advanced, so it draws the next random numbers, a different mask; the generator must be seeded again (or the mask saved)."""
WRONG = [
    "ctx.generator = generator",
    "mask = draw(grad_output, ctx.p, ctx.generator)",
]
RIGHT = [
    "ctx.seed = seed",
    "generator = torch.Generator(grad_output.device).manual_seed(ctx.seed)\nmask = draw(grad_output, ctx.p, generator)",
]
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


# %% repair-rms-norm_1
"""backward computes r again from x, so the second derivative has its path, but it leaves out the 1e-6 that forward adds. The gradient is slightly wrong everywhere, far off for rows of small numbers, and nan for a row of zeros."""
WRONG = ["r = x.square().mean(-1, keepdim=True).rsqrt()"]
RIGHT = ["r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()"]
NAME = "RMSNorm"
EXERCISE = "repair-rms-norm"
# --- code
import torch
from torch.autograd import Function


class RMSNorm(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        r = x.square().mean(-1, keepdim=True).rsqrt()
        return r * grad_output - r**3 * x * (grad_output * x).mean(-1, keepdim=True)


# %% ternary-ste_1
"""The gradient of the threshold is taken as the negative gradient of x, as if both signs contained x - t. The second sign contains x + t, so its clip passes the gradient to t with a plus; where both clips pass, the two parts cancel."""
WRONG = ["grad_threshold = -grad_x.sum()"]
RIGHT = ["grad_threshold = (0.5 * grad_output * (plus - minus)).sum()"]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x, threshold):
        return (x >= threshold).to(x.dtype) - (x < -threshold).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, threshold = ctx.saved_tensors
        minus = ((x - threshold).abs() <= 1).to(x.dtype)
        plus = ((x + threshold).abs() <= 1).to(x.dtype)
        grad_x = 0.5 * grad_output * (minus + plus)
        grad_threshold = -grad_x.sum()
        return grad_x, grad_threshold


# %% fake-quantize_1
"""The gradient of the step subtracts the clamped ratio everywhere. Outside the bounds the clamp has slope 0, so nothing may be subtracted there: the gradient is the level itself (low or high), but here it becomes low - low = 0."""
WRONG = ["grad_step = (grad_output * (level - ratio.clamp(ctx.low, ctx.high))).sum()"]
RIGHT = ["grad_step = (grad_output * (level - ratio * inside)).sum()"]
NAME = "FakeQuantize"
EXERCISE = "fake-quantize"
# --- code
import torch
from torch.autograd import Function


class FakeQuantize(Function):
    @staticmethod
    def forward(x, step, low, high):
        return step * torch.round((x / step).clamp(low, high))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, ctx.low, ctx.high = inputs
        ctx.save_for_backward(x, step)

    @staticmethod
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        ratio = x / step
        inside = (ratio >= ctx.low) & (ratio <= ctx.high)
        level = torch.round(ratio.clamp(ctx.low, ctx.high))
        grad_step = (grad_output * (level - ratio.clamp(ctx.low, ctx.high))).sum()
        return grad_output * inside, grad_step, None, None


# %% sign-ste_1
"""copysign reads the sign bit, so the negative zero gives -1. The output at zero must be +1 whatever the sign of that zero, which the comparison x >= 0 does."""
WRONG = ["return torch.copysign(torch.ones_like(x), x)"]
RIGHT = ["return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))"]
NAME = "SignSTE"
EXERCISE = "sign-ste"
# --- code
import torch
from torch.autograd import Function


class SignSTE(Function):
    @staticmethod
    def forward(x):
        return torch.copysign(torch.ones_like(x), x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.clone()


# %% sinh-by-output_1
"""setup_context saves the finished slope sqrt(1 + y^2) instead of the output. It is a constant for autograd, so the first derivative is right, but the second one lacks the path through y (and something other than the output is saved)."""
WRONG = ["ctx.save_for_backward(torch.sqrt(1 + output**2))", "return grad_output * slope"]
RIGHT = ["ctx.save_for_backward(output)", "return grad_output * torch.sqrt(1 + slope**2)"]
NAME = "Sinh"
EXERCISE = "sinh-by-output"
# --- code
import torch
from torch.autograd import Function


class Sinh(Function):
    @staticmethod
    def forward(x):
        return torch.sinh(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(torch.sqrt(1 + output**2))

    @staticmethod
    def backward(ctx, grad_output):
        (slope,) = ctx.saved_tensors
        return grad_output * slope


# %% hessian-vector-product_1
"""Each first gradient is differentiated only with respect to its own input, so the result contains only the diagonal blocks of the Hessian. The mixed derivatives of two different inputs are missing; the sum of all g_l * v_l must be differentiated with respect to every input."""
WRONG = ["(product,) = torch.autograd.grad(g, leaf, v, retain_graph=True, materialize_grads=True)"]
RIGHT = [
    "total = sum((h * w).sum() for h, w in zip(gradients, vectors))\n(product,) = torch.autograd.grad(total, leaf, retain_graph=True, materialize_grads=True)"
]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def hvp(f, inputs, vectors):
    leaves = tuple(x.detach().clone().requires_grad_() for x in inputs)
    gradients = torch.autograd.grad(f(*leaves), leaves, create_graph=True, materialize_grads=True)
    products = []
    for g, leaf, v in zip(gradients, leaves, vectors):
        if not g.requires_grad:
            products.append(torch.zeros_like(leaf))
            continue
        (product,) = torch.autograd.grad(g, leaf, v, retain_graph=True, materialize_grads=True)
        products.append(product)
    return tuple(products)


# %% gradient-penalty_1
"""The norm is written as the square root of a sum of squares. Where the critic is flat the sum is 0, the slope of the root is inf, and inf * 0 makes the gradient of the parameters nan; vector_norm returns the gradient 0 there."""
WRONG = ["norms = gradient.flatten(1).square().sum(1).sqrt()"]
RIGHT = ["norms = torch.linalg.vector_norm(gradient.flatten(1), dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    x = x.detach().clone().requires_grad_()
    scores = critic(x)
    (gradient,) = torch.autograd.grad(scores.sum(), x, create_graph=True, materialize_grads=True)
    norms = gradient.flatten(1).square().sum(1).sqrt()
    return (norms - 1).square().mean()


# %% elu-by-output_1
"""The slope for negative x is alpha * e^x, and e^x = y / alpha + 1, so it is y + alpha. The code uses e^x = y + 1, which holds only for alpha = 1."""
WRONG = ["slope = torch.where(y > 0, torch.ones_like(y), ctx.alpha * (y + 1))"]
RIGHT = ["slope = torch.where(y > 0, torch.ones_like(y), y + ctx.alpha)"]
NAME = "ELU"
EXERCISE = "elu-by-output"
# --- code
import torch
from torch.autograd import Function


class ELU(Function):
    @staticmethod
    def forward(x, alpha):
        return torch.where(x > 0, x, alpha * torch.expm1(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.alpha = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        slope = torch.where(y > 0, torch.ones_like(y), ctx.alpha * (y + 1))
        return grad_output * slope, None


# %% packed-leaky-relu_1
"""sum() of a uint8 tensor returns int64, so each group of eight bits is saved in eight bytes instead of one. The gradients are right, but the mask takes as much memory as an unpacked one."""
WRONG = ["packed = (padded * powers).sum(1)"]
RIGHT = ["packed = (padded * powers).sum(1, dtype=torch.uint8)"]
NAME = "PackedLeakyReLU"
EXERCISE = "packed-leaky-relu"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


def bit_values(device):
    return torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=device)


class PackedLeakyReLU(Function):
    @staticmethod
    def forward(ctx, x, slope):
        positive = x > 0
        bits = positive.reshape(-1).to(torch.uint8)
        padded = F.pad(bits, (0, -bits.numel() % 8)).reshape(-1, 8)
        powers = bit_values(x.device)
        packed = (padded * powers).sum(1)
        ctx.save_for_backward(packed)
        ctx.shape, ctx.slope = x.shape, slope
        return torch.where(positive, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        powers = bit_values(packed.device)
        bits = (packed.unsqueeze(1) & powers) != 0
        positive = bits.reshape(-1)[: ctx.shape.numel()].reshape(ctx.shape)
        return torch.where(positive, grad_output, ctx.slope * grad_output), None


# %% chunked-row-losses_1
"""The 1 of the one-hot vector is subtracted after the probabilities have been multiplied by the upstream gradient of the row. The upstream gradient multiplies the whole difference softmax - one-hot, so g must be subtracted; the two agree only if every g is 1, as for a plain sum."""
WRONG = ["slope[torch.arange(len(slope), device=slope.device), target[rows]] -= 1"]
RIGHT = ["slope[torch.arange(len(slope), device=slope.device), target[rows]] -= grad_output[rows]"]
NAME = "RowLosses"
EXERCISE = "chunked-row-losses"
# --- code
import torch
from torch.autograd import Function


class RowLosses(Function):
    @staticmethod
    def forward(ctx, x, weight, target, chunk):
        lse, picked = x.new_empty(len(x)), x.new_empty(len(x))
        for start in range(0, len(x), chunk):
            rows = slice(start, start + chunk)
            logits = x[rows] @ weight.t()
            lse[rows] = torch.logsumexp(logits, 1)
            picked[rows] = logits.gather(1, target[rows].unsqueeze(1)).squeeze(1)
        ctx.save_for_backward(x, weight, target, lse)
        ctx.chunk = chunk
        return lse - picked

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, target, lse = ctx.saved_tensors
        grad_x, grad_weight = torch.empty_like(x), torch.zeros_like(weight)
        for start in range(0, len(x), ctx.chunk):
            rows = slice(start, start + ctx.chunk)
            p = torch.exp(x[rows] @ weight.t() - lse[rows].unsqueeze(1))
            slope = p * grad_output[rows].unsqueeze(1)
            slope[torch.arange(len(slope), device=slope.device), target[rows]] -= 1
            grad_x[rows] = slope @ weight
            grad_weight += slope.t() @ x[rows]
        return grad_x, grad_weight, None, None


# %% masked-softmax_1
"""The maximum that is subtracted before exp is taken over all scores, also over the masked ones. If a masked score is much larger than the visible ones, all visible exponentials underflow to 0 and the row becomes zeros (or loses its digits); the maximum must be over the visible scores."""
WRONG = ["top = s.amax(-1, keepdim=True)"]
RIGHT = ["top = s.masked_fill(~mask, torch.finfo(s.dtype).min).amax(-1, keepdim=True)"]
NAME = "MaskedSoftmax"
EXERCISE = "masked-softmax"
# --- code
import torch
from torch.autograd import Function


class MaskedSoftmax(Function):
    @staticmethod
    def forward(s, mask):
        top = s.amax(-1, keepdim=True)
        weights = torch.exp(s - top).masked_fill(~mask, 0)
        total = weights.sum(-1, keepdim=True)
        return torch.where(total > 0, weights / total, 0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (p,) = ctx.saved_tensors
        return p * (grad_output - (p * grad_output).sum(-1, keepdim=True)), None


# %% attention-forward_1
"""The boolean mask fills hidden scores with the smallest finite number instead of -inf. In the row of a query that sees no key, all scores are then equal, so the softmax is uniform and the query gets the mean of all values instead of zeros."""
WRONG = ["scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)"]
RIGHT = ["scores = scores.masked_fill(~mask, -math.inf)"]
NAME = "attend"
EXERCISE = "attention-forward"
# --- code
import math

import torch


def attend(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        else:
            scores = scores + mask
    p = torch.softmax(scores, -1)
    p = torch.where(p.isnan(), 0, p)
    return p @ v


# %% attention-grouped_1
"""The gradients of the repeated key heads are collected as if the copies were interleaved the other way: head h is added to key head h modulo G. repeat_interleave puts the copies of one head next to each other, so neighboring query heads must be added (h // (H / G))."""
WRONG = ["return gradient.unflatten(-3, (-1, heads)).sum(-4)"]
RIGHT = ["return gradient.unflatten(-3, (heads, -1)).sum(-3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


def collect(gradient, heads):
    return gradient.unflatten(-3, (-1, heads)).sum(-4)


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        copies = q.shape[-3] // k.shape[-3]
        keys, values = k.repeat_interleave(copies, -3), v.repeat_interleave(copies, -3)
        scores = q @ keys.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(scores, -1, keepdim=True)
        out = torch.exp(scores - lse) @ values
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        heads = k.shape[-3]
        copies = q.shape[-3] // heads
        scale = 1 / math.sqrt(q.shape[-1])
        keys, values = k.repeat_interleave(copies, -3), v.repeat_interleave(copies, -3)
        p = torch.exp(q @ keys.mT * scale - lse)
        grad_p = grad_output @ values.mT
        d = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_p - d) * scale
        return grad_s @ keys, collect(grad_s.mT @ q, heads), collect(p.mT @ grad_output, heads)


# %% batch-norm_1
"""The two means in backward divide by the batch size N. A channel's statistics are over all dims except dim 1, so the divisor must be the number of elements per channel, N times the spatial size; the gradient is right only for inputs of shape (N, C)."""
WRONG = ["m = x.shape[0]"]
RIGHT = ["m = x.numel() // x.shape[1]"]
NAME = "BatchNorm"
EXERCISE = "batch-norm"
# --- code
import torch
from torch.autograd import Function


def normalize(x, eps):
    dims = [d for d in range(x.dim()) if d != 1]
    centered = x - x.mean(dims, keepdim=True)
    rstd = (centered.square().mean(dims, keepdim=True) + eps).rsqrt()
    return centered * rstd, rstd, dims


class BatchNorm(Function):
    @staticmethod
    def forward(x, eps):
        return normalize(x, eps)[0]

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.eps = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        y, rstd, dims = normalize(x, ctx.eps)
        m = x.shape[0]
        through_mean = grad_output.sum(dims, keepdim=True) / m
        through_variance = y * (grad_output * y).sum(dims, keepdim=True) / m
        return rstd * (grad_output - through_mean - through_variance), None


# %% conv1d_1
"""The padding is cut off with the slice padding:-padding. For padding = 0 this is 0:-0, which is the empty slice 0:0, so the gradient of x has length 0; the end must be counted from the front."""
WRONG = ["grad_x = grad_padded[..., ctx.padding : -ctx.padding]"]
RIGHT = ["grad_x = grad_padded[..., ctx.padding : ctx.padding + x.shape[-1]]"]
NAME = "Conv1d"
EXERCISE = "conv1d"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


def cut(x, size, stride, padding, groups):
    windows = F.pad(x, (padding, padding)).unfold(-1, size, stride)
    return windows.unflatten(1, (groups, -1))


class Conv1d(Function):
    @staticmethod
    def forward(x, weight, stride, padding, groups):
        windows = cut(x, weight.shape[-1], stride, padding, groups)
        y = torch.einsum("ngctk,gock->ngot", windows, weight.unflatten(0, (groups, -1)))
        return y.flatten(1, 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.stride, ctx.padding, ctx.groups = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        size = weight.shape[-1]
        windows = cut(x, size, ctx.stride, ctx.padding, ctx.groups)
        g = grad_output.unflatten(1, (ctx.groups, -1))
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).flatten(0, 1)
        blocks = weight.unflatten(0, (ctx.groups, -1))
        grad_windows = torch.einsum("ngot,gock->ngctk", g, blocks).flatten(1, 2)
        grad_padded = x.new_zeros(*x.shape[:2], x.shape[-1] + 2 * ctx.padding)
        span = ctx.stride * (grad_output.shape[-1] - 1) + 1
        for k in range(size):
            grad_padded[..., k : k + span : ctx.stride] += grad_windows[..., k]
        grad_x = grad_padded[..., ctx.padding : -ctx.padding]
        return grad_x, grad_weight, None, None, None


# %% complex-multiply_1
"""For a real input, the real part must be taken of the finished product g * conj(w). The code multiplies the two real parts instead, so the product of the two imaginary parts, which is also real, is missing."""
WRONG = ["return grad_output.real * other.real"]
RIGHT = ["return (grad_output * other.conj()).real"]
NAME = "ComplexMultiply"
EXERCISE = "complex-multiply"
# --- code
import torch
from torch.autograd import Function


def gradient_for(own, other, grad_output):
    if own.is_complex():
        return grad_output * other.conj()
    return grad_output.real * other.real


class ComplexMultiply(Function):
    @staticmethod
    def forward(z, w):
        return z * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        z, w = ctx.saved_tensors
        return gradient_for(z, w, grad_output), gradient_for(w, z, grad_output)


# %% gumbel-hard_1
"""backward recomputes the soft sample without the noise, so it differentiates the softmax of the logits alone. The surrogate is the soft sample with the same noise that forward used; the noise must be saved and added."""
WRONG = [
    "ctx.save_for_backward(logits)",
    "(logits,) = ctx.saved_tensors",
    "soft = torch.softmax(logits / ctx.temperature, -1)",
]
RIGHT = [
    "ctx.save_for_backward(logits, noise)",
    "logits, noise = ctx.saved_tensors",
    "soft = torch.softmax((logits + noise) / ctx.temperature, -1)",
]
NAME = "HardGumbelSoftmax"
EXERCISE = "gumbel-hard"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        chosen = (logits + noise).argmax(-1)
        return F.one_hot(chosen, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise, ctx.temperature = inputs
        ctx.save_for_backward(logits)

    @staticmethod
    def backward(ctx, grad_output):
        (logits,) = ctx.saved_tensors
        soft = torch.softmax(logits / ctx.temperature, -1)
        inner = (grad_output * soft).sum(-1, keepdim=True)
        return soft * (grad_output - inner) / ctx.temperature, None, None


# %% reinmax_1
"""The inner sum over g_k q_k is computed once with p and reused for the midpoint m. J(m) needs the sum with m, which differs from the sum with p because m also contains the drawn y."""
WRONG = ["at_m = m * (grad_output - inner)"]
RIGHT = ["at_m = m * (grad_output - (grad_output * m).sum(-1, keepdim=True))"]
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class ReinMax(Function):
    @staticmethod
    def forward(logits, noise):
        chosen = (logits + noise).argmax(-1)
        return F.one_hot(chosen, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        logits, y = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        m = (p + y) / 2
        inner = (grad_output * p).sum(-1, keepdim=True)
        at_m = m * (grad_output - inner)
        at_p = p * (grad_output - inner)
        return 2 * at_m - 0.5 * at_p, None


# %% split-rms-norm_1
"""backward accepts only one gradient, as in the old class. forward now returns two tensors, so backward is called with one gradient for each output and raises a TypeError; the gradient of rstd needs a parameter even though it is ignored."""
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
        x, weight, _ = inputs
        _, rstd = output
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(x, weight, rstd)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, rstd = ctx.saved_tensors
        normed, g = x * rstd, grad_output * weight
        grad_x = rstd * (g - normed * (g * normed).mean(-1, keepdim=True))
        grad_weight = (grad_output * normed).reshape(-1, x.shape[-1]).sum(0)
        return grad_x, grad_weight, None


# %% per-sample-gradients_1
"""The sample gets its batch dim back, but its target does not: vmap hides the batch dim of y, so the loss compares a batch of one prediction with a target without a batch dim. cross_entropy raises an error; other losses only broadcast by luck."""
WRONG = ["return loss(prediction, target)"]
RIGHT = ["return loss(prediction, target.unsqueeze(0))"]
NAME = "per_sample_gradients"
EXERCISE = "per-sample-gradients"
# --- code
import torch


def per_sample_gradients(model, loss, x, y):
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def sample_loss(parameters, sample, target):
        prediction = torch.func.functional_call(model, parameters, (sample.unsqueeze(0),))
        return loss(prediction, target)

    gradients = torch.func.vmap(torch.func.grad(sample_loss), in_dims=(None, 0, 0))(parameters, x, y)
    return tuple(gradients.values())


# %% jvp-smooth-maximum_1
"""The temperature term of jvp ends with the .sum() copied from backward. In reverse mode all rows add up in the gradient of the one temperature, but in forward mode each output has its own change; the sum mixes the rows and adds the total to every output."""
WRONG = ["from_t = (slope_t * t_tangent).sum()"]
RIGHT = ["from_t = slope_t * t_tangent"]
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
        x, t = inputs
        ctx.save_for_backward(x, t, output)
        ctx.save_for_forward(x, t, output)

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
        slope_t = (y - (p * x).sum(-1)) / t
        from_t = (slope_t * t_tangent).sum()
        return from_x + from_t


# %% operator-window-sums_1
"""The operator returns the vendor's view of the longer work array, so its strides belong to rows of n numbers, while the fake promises a contiguous tensor. For two or more dims, the real and the fake output have different strides and opcheck fails; the result must be copied."""
WRONG = ["return torch.from_numpy(vendor_sums(series, width))"]
RIGHT = ["return torch.from_numpy(vendor_sums(series, width).copy())"]
NAME = "window_sums"
EXERCISE = "operator-window-sums"
# --- code
import torch
import torch.nn.functional as F


def vendor_sums(series, width):
    series.cumsum(axis=-1, out=series)
    series[..., width:] -= series[..., :-width].copy()
    return series[..., width - 1 :]


@torch.library.custom_op("exercises::window_sums", mutates_args=())
def window_sums(x: torch.Tensor, width: int) -> torch.Tensor:
    series = x.detach().numpy().copy()
    return torch.from_numpy(vendor_sums(series, width))


@window_sums.register_fake
def fake(x: torch.Tensor, width: int) -> torch.Tensor:
    return x.new_empty(*x.shape[:-1], x.shape[-1] - width + 1)


def setup_context(ctx, inputs, output):
    ctx.width = inputs[1]


def backward(ctx, grad_output):
    padded = F.pad(grad_output, (ctx.width - 1, ctx.width - 1))
    return window_sums(padded, ctx.width), None


window_sums.register_autograd(backward, setup_context=setup_context)


# %% repair-autocast_1
"""Only forward is decorated. custom_fwd switches autocast off during forward, but if backward() is called inside the autocast block, backward still runs under autocast and its matrix products are in bfloat16; it needs custom_bwd."""
WRONG = ["def backward(ctx, grad_output):"]
RIGHT = ["@torch.amp.custom_bwd(device_type=\"cpu\")\ndef backward(ctx, grad_output):"]
NAME = "Contrast"
EXERCISE = "repair-autocast"
# --- code
import torch
from torch.autograd import Function


class Contrast(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, q, k, temperature):
        ctx.save_for_backward(q, k)
        ctx.temperature = temperature
        scores = q @ k.t() / temperature
        return torch.logsumexp(scores, 1) - scores.diagonal()

    @staticmethod
    def backward(ctx, grad_output):
        q, k = ctx.saved_tensors
        p = torch.softmax(q @ k.t() / ctx.temperature, 1)
        slope = (p - torch.eye(len(q), dtype=p.dtype, device=p.device)) * grad_output[:, None]
        return slope @ k / ctx.temperature, slope.t() @ q / ctx.temperature, None


# %% kepler_1
"""The gradient of e has the wrong sign. With F = E - e sin E - M, the derivative is dE/de = -F_e / F_E and F_e is already -sin E, so the two minus signs cancel: dE/de = sin E / (1 - e cos E)."""
WRONG = ["return grad_M, -(grad_M * torch.sin(E)).sum()"]
RIGHT = ["return grad_M, (grad_M * torch.sin(E)).sum()"]
NAME = "Kepler"
EXERCISE = "kepler"
# --- code
import math

import torch
from torch.autograd import Function


def solve_kepler(M, e):
    M, e = M.double(), e.double()
    E = torch.full_like(M, math.pi)
    for _ in range(50):
        E = E - (E - e * torch.sin(E) - M) / (1 - e * torch.cos(E))
    return E


class Kepler(Function):
    @staticmethod
    def forward(M, e):
        return solve_kepler(M.detach(), e.detach()).to(M.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1], output)

    @staticmethod
    def backward(ctx, grad_output):
        e, E = ctx.saved_tensors
        grad_M = grad_output / (1 - e * torch.cos(E))
        return grad_M, -(grad_M * torch.sin(E)).sum()


# %% equilibrium-layer_1
"""Two mistakes: u is already the gradient before the tanh, because the iterated equation contains the slope 1 - z^2, so multiplying by the slope again counts it twice. And the gradient of W is transposed: W[i, j] multiplies z[:, j] to give output i, so it is u^T z, not z^T u, which has the same square shape."""
WRONG = ["inner = u * slope", "return inner, z.t() @ inner"]
RIGHT = ["inner = u", "return inner, inner.t() @ z"]
NAME = "Equilibrium"
EXERCISE = "equilibrium-layer"
# --- code
import torch
from torch.autograd import Function


def settled(step, start):
    z, near = start, 4 * torch.finfo(start.dtype).eps
    for _ in range(200):
        z, before = step(z), z
        if not z.numel() or (z - before).abs().max() <= near:
            return z
    raise RuntimeError("no convergence after 200 rounds")


class Equilibrium(Function):
    @staticmethod
    def forward(x, W):
        return settled(lambda z: torch.tanh(z @ W.t() + x), torch.zeros_like(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1], output)

    @staticmethod
    def backward(ctx, grad_output):
        W, z = ctx.saved_tensors
        slope = 1 - z**2
        u = settled(lambda u: slope * (grad_output + u @ W), torch.zeros_like(z))
        inner = u * slope
        return inner, z.t() @ inner


# %% triangular-solve_1
"""The transpose of a lower triangular matrix is upper triangular, so the system in backward needs the opposite flag. With the same flag, the solver reads the half of T that must never be read and ignores the right one."""
WRONG = ["grad_B = TriangularSolve.apply(T.mT, grad_output, ctx.lower)"]
RIGHT = ["grad_B = TriangularSolve.apply(T.mT, grad_output, not ctx.lower)"]
NAME = "TriangularSolve"
EXERCISE = "triangular-solve"
# --- code
import torch
from torch.autograd import Function


class TriangularSolve(Function):
    @staticmethod
    def forward(T, B, lower=True):
        return torch.linalg.solve_triangular(T, B, upper=not lower)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.lower = inputs[2] if len(inputs) > 2 else True
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        T, X = ctx.saved_tensors
        grad_B = TriangularSolve.apply(T.mT, grad_output, ctx.lower)
        grad_T = -grad_B @ X.mT
        grad_T = grad_T.tril() if ctx.lower else grad_T.triu()
        return grad_T, grad_B, None
