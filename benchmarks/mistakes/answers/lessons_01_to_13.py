"""Mistakes: held out, exercises of lessons 01 to 13. Each cell is a separate module; see benchmarks/repairs.py."""

# %% linear_1
"""The gradient of the bias is summed over the first dimension only, but y has any number of leading dimensions and the bias is broadcast over all of them. With one leading dimension it is right by luck; with two it has the wrong shape, and with none it sums over the features themselves."""
WRONG = ['grad_bias = grad_output.sum(0) if ctx.has_bias else None']
RIGHT = ['grad_bias = g.sum(0) if ctx.has_bias else None']
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
        return y if bias is None else y + bias

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        g = grad_output.reshape(-1, weight.shape[0])
        grad_x = grad_output @ weight
        grad_weight = g.t() @ x.reshape(-1, weight.shape[1])
        grad_bias = grad_output.sum(0) if ctx.has_bias else None
        return grad_x, grad_weight, grad_bias

# %% to-polar_2
"""The derivative of theta = atan(y/x) with respect to y needs the inner derivative 1/x of y/x by the chain rule. Only the outer derivative 1/(1 + (y/x)^2) is there, which is x^2/r^2 instead of x/r^2."""
WRONG = ['grad_y = grad_r * y / r + grad_theta / (1 + (y / x) ** 2)']
RIGHT = ['grad_y = grad_r * y / r + grad_theta * x / r**2']
NAME = "ToPolar"
EXERCISE = "to-polar"
# --- code
import torch
from torch.autograd import Function


class ToPolar(Function):
    @staticmethod
    def forward(ctx, x, y):
        r = torch.hypot(x, y)
        ctx.save_for_backward(x, y, r)
        return r, torch.atan2(y, x)

    @staticmethod
    def backward(ctx, grad_r, grad_theta):
        x, y, r = ctx.saved_tensors
        grad_x = grad_r * x / r - grad_theta * y / r**2
        grad_y = grad_r * y / r + grad_theta / (1 + (y / x) ** 2)
        return grad_x, grad_y

# %% sort-with-indices_3
"""Forward reads x at the indices (a gather), so backward has to write each gradient back to the place it came from, which is a scatter. Gathering again with the same indices applies the permutation a second time instead of its inverse."""
WRONG = ['grad_x = grad_values.gather(-1, indices)']
RIGHT = ['grad_x = torch.zeros_like(grad_values).scatter(-1, indices, grad_values)']
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

# %% strided-gain_4
"""The length of x is computed back from the length of the output. The output has ceil(n / stride) elements, so the product is too long unless n is a multiple of stride; the shape of x has to be stored on ctx."""
WRONG = ['length = grad_output.shape[-1] * ctx.stride']
RIGHT = ['length = ctx.length']
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
        x, gain, stride, training = inputs
        ctx.stride = stride
        ctx.training = training
        ctx.length = x.shape[-1]
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
            grad_x[..., :: ctx.stride] = grad_output * gain if ctx.training else grad_output
        if ctx.needs_input_grad[1] and ctx.training:
            grad_gain = grad_output * x[..., :: ctx.stride]
        return grad_x, grad_gain, None, None

# %% learnable-swish_5
"""Two mistakes. The gradient of x lacks the factor beta, the inner derivative of sigmoid(beta x), as in the plain Swish; and the sum over all elements is 0-dim, so a beta of shape (1,) gets a gradient of the wrong shape."""
WRONG = ['grad_x = grad_output * (s + x * s * (1 - s))', 'grad_beta = (grad_output * x * x * s * (1 - s)).sum()']
RIGHT = ['grad_x = grad_output * (s + beta * x * s * (1 - s))', 'grad_beta = (grad_output * x * x * s * (1 - s)).sum().reshape(beta.shape)']
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
        grad_beta = (grad_output * x * x * s * (1 - s)).sum()
        return grad_x, grad_beta

# %% broadcast-multiply_6
"""Broadcasting aligns shapes on the right, so a tensor with fewer dimensions gets its new dimensions on the left, and these have to be summed. The helper sums the last dimensions instead: the result has the wrong shape, or for square shapes the right shape and wrong numbers."""
WRONG = ['g = g.sum(-1)']
RIGHT = ['g = g.sum(0)']
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch.autograd import Function


def fit(g, shape):
    while g.dim() > len(shape):
        g = g.sum(-1)
    for i, size in enumerate(shape):
        if size == 1:
            g = g.sum(i, keepdim=True)
    return g


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
        return fit(grad_output * y, x.shape), fit(grad_output * x, y.shape)

# %% soft-rank_7
"""The pairwise matrix slope_kj (g_k - g_j) is antisymmetric, and x_k collects its row, so the sum runs over j, the last dimension. Summing over dim -2 adds up the columns and gives the negative of the gradient."""
WRONG = ['grad_x = (slope * pairs).sum(-2) / ctx.tau']
RIGHT = ['grad_x = (slope * pairs).sum(-1) / ctx.tau']
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
        slope = s * (1 - s)
        pairs = grad_output.unsqueeze(-1) - grad_output.unsqueeze(-2)
        grad_x = (slope * pairs).sum(-2) / ctx.tau
        return grad_x, None

# %% repair-floor-log_8
"""Below the floor the output is constant, so the gradient is 0 there. The mask tests the clamped tensor with >=, and every clamped element is at least the floor, so the mask is always True and silent frames still get 1/floor."""
WRONG = ['inside = clamped >= ctx.floor']
RIGHT = ['inside = clamped > ctx.floor']
NAME = "FloorLog"
EXERCISE = "repair-floor-log"
# --- code
import torch
from torch.autograd import Function


class FloorLog(Function):
    @staticmethod
    def forward(ctx, x, floor):
        clamped = x.clamp(min=floor)
        ctx.save_for_backward(clamped)
        ctx.floor = floor
        return clamped.log()

    @staticmethod
    def backward(ctx, grad_output):
        (clamped,) = ctx.saved_tensors
        inside = clamped >= ctx.floor
        return grad_output * inside / clamped, None

# %% repair-log-cosh_9
"""The fraction was divided by exp(x), which removes the overflow for large positive x only. For large negative x, exp(-2x) overflows to inf, and -inf/inf is nan; tanh is stable on both sides."""
WRONG = ['return grad_output * (1 - torch.exp(-2 * x)) / (1 + torch.exp(-2 * x))']
RIGHT = ['return grad_output * torch.tanh(x)']
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
        return grad_output * (1 - torch.exp(-2 * x)) / (1 + torch.exp(-2 * x))

# %% repair-rms-norm_10
"""The first derivative is right, but r is an intermediate of forward. Saved, it is a constant in backward, so the second derivative misses the paths through r (the output y is tracked); r has to be computed again from the saved x."""
WRONG = ['ctx.save_for_backward(r, y)', 'r, y = ctx.saved_tensors']
RIGHT = ['ctx.save_for_backward(x, y)', 'x, y = ctx.saved_tensors\nr = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()']
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
        ctx.save_for_backward(r, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        r, y = ctx.saved_tensors
        return r * (grad_output - y * (grad_output * y).mean(-1, keepdim=True))

# %% sign-ste_11
"""copysign copies the sign bit, and -0.0 has a negative sign bit. So the output at -0.0 is -1, although -0.0 >= 0 and the exercise asks for +1 at both zeros."""
WRONG = ['return torch.copysign(torch.ones_like(x), x)']
RIGHT = ['return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))']
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
        return grad_output

# %% ternary-ste_12
"""upper and lower are boolean, and the sum of two boolean tensors is a logical or, so it is True (1), not 2. Where both clips pass the gradient, x gets half of it instead of all of it; the masks must be converted to numbers before they are added."""
WRONG = ['grad_x = grad_output * (upper + lower) / 2']
RIGHT = ['grad_x = (grad_output * upper + grad_output * lower) / 2']
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x, threshold):
        return ((x >= threshold).to(x.dtype) + (x >= -threshold).to(x.dtype)) - 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, threshold = ctx.saved_tensors
        upper = (x - threshold).abs() <= 1
        lower = (x + threshold).abs() <= 1
        grad_x = grad_output * (upper + lower) / 2
        grad_threshold = (grad_output * lower - grad_output * upper).sum() / 2
        return grad_x, grad_threshold

# %% fake-quantize_13
"""The mask multiplies the whole gradient of the step, but only the second term x/s comes from inside the clamp. An element outside the bounds has y = s * low or s * high, which still depends on s, so it must contribute its level."""
WRONG = ['grad_step = (grad_output * (level - v) * inside).sum()']
RIGHT = ['grad_step = (grad_output * (level - v * inside)).sum()']
NAME = "FakeQuantize"
EXERCISE = "fake-quantize"
# --- code
import torch
from torch.autograd import Function


class FakeQuantize(Function):
    @staticmethod
    def forward(x, step, low, high):
        return step * torch.round(torch.clamp(x / step, low, high))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, ctx.low, ctx.high = inputs
        ctx.save_for_backward(x, step)

    @staticmethod
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        v = x / step
        inside = (v >= ctx.low) & (v <= ctx.high)
        level = torch.round(v.clamp(ctx.low, ctx.high))
        grad_step = (grad_output * (level - v) * inside).sum()
        return grad_output * inside, grad_step, None, None

# %% hessian-vector-product_14
"""The gradients are summed without the vectors, and the vectors multiply the result of the second pass. That is each row sum of the Hessian times v_k, not sum_l H_kl v_l; the gradients must be multiplied by the vectors before they are differentiated."""
WRONG = ['total = sum(g.sum() + 0 * x.sum() for g, x in zip(gradients, leaves))', 'return tuple(h * v for h, v in zip(products, vectors))']
RIGHT = ['total = sum((g * v).sum() + 0 * x.sum() for g, v, x in zip(gradients, vectors, leaves))', 'return tuple(products)']
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def hvp(f, inputs, vectors):
    leaves = tuple(x.detach().clone().requires_grad_() for x in inputs)
    with torch.enable_grad():
        y = f(*leaves)
        gradients = torch.autograd.grad(y, leaves, create_graph=True, materialize_grads=True)
        total = sum(g.sum() + 0 * x.sum() for g, x in zip(gradients, leaves))
        products = torch.autograd.grad(total, leaves, materialize_grads=True)
    return tuple(h * v for h, v in zip(products, vectors))

# %% gradient-penalty_15
"""The backward pass starts from the mean of the scores, so every sample's gradient is divided by N before its norm is compared with 1. The scores have to be added up; the 1/N belongs only to the mean of the penalties."""
WRONG = ['score = critic(samples).mean()']
RIGHT = ['score = critic(samples).sum()']
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    samples = x.detach().clone().requires_grad_()
    score = critic(samples).mean()
    (gradient,) = torch.autograd.grad(score, samples, create_graph=True)
    norms = torch.linalg.vector_norm(gradient.flatten(1), dim=1)
    return (norms - 1).square().mean()

# %% repair-hessian_16
"""The logits are an input, but the log-sum-exp is an intermediate of forward: saved, it is a constant in backward. The Hessian then has only its diagonal p_i and lacks the term -p_i p_j; the softmax must be computed in backward from the logits alone."""
WRONG = ['ctx.save_for_backward(logits, target, lse)', 'logits, target, lse = ctx.saved_tensors', 'p = torch.exp(logits - lse.unsqueeze(-1))']
RIGHT = ['ctx.save_for_backward(logits, target)', 'logits, target = ctx.saved_tensors', 'p = torch.softmax(logits, -1)']
NAME = "CrossEntropy"
EXERCISE = "repair-hessian"
# --- code
import torch
from torch.autograd import Function


class CrossEntropy(Function):
    @staticmethod
    def forward(ctx, logits, target):
        picked = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        lse = torch.logsumexp(logits, -1)
        ctx.save_for_backward(logits, target, lse)
        return lse - picked

    @staticmethod
    def backward(ctx, grad_output):
        logits, target, lse = ctx.saved_tensors
        onehot = torch.nn.functional.one_hot(target, logits.shape[-1])
        p = torch.exp(logits - lse.unsqueeze(-1))
        return (p - onehot) * grad_output.unsqueeze(-1), None

# %% packed-leaky-relu_17
"""packed & digits gives the value of the digit, 1, 2, 4, ..., 128, and not 0 or 1. Only the first of eight elements can be equal to 1, so the other seven count as not positive; the test must be != 0."""
WRONG = ['positive = (packed.unsqueeze(1) & digits) == 1']
RIGHT = ['positive = (packed.unsqueeze(1) & digits) != 0']
NAME = "PackedLeakyReLU"
EXERCISE = "packed-leaky-relu"
# --- code
import torch
from torch.autograd import Function


class PackedLeakyReLU(Function):
    @staticmethod
    def forward(ctx, x, slope):
        mask = x > 0
        flat = mask.flatten().to(torch.uint8)
        flat = torch.nn.functional.pad(flat, (0, -flat.numel() % 8)).view(-1, 8)
        digits = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=x.device)
        ctx.save_for_backward((flat * digits).sum(1, dtype=torch.uint8))
        ctx.slope = slope
        ctx.shape = x.shape
        return torch.where(mask, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        digits = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=packed.device)
        positive = (packed.unsqueeze(1) & digits) == 1
        mask = positive.flatten()[: ctx.shape.numel()].view(ctx.shape)
        return torch.where(mask, grad_output, ctx.slope * grad_output), None

# %% invertible-coupling_18
"""y1 is an output and also an input of the second line, so its whole gradient is grad_y1 plus what comes back through y2. The way on to x2 and w uses the incoming grad_y1 alone and misses the path through y2."""
WRONG = ['d1 = grad_y1 * (1 - t1**2)']
RIGHT = ['d1 = grad_x1 * (1 - t1**2)']
NAME = "Coupling"
EXERCISE = "invertible-coupling"
# --- code
import torch
from torch.autograd import Function


class Coupling(Function):
    @staticmethod
    def forward(x1, x2, w, v):
        y1 = x1 + torch.tanh(x2 @ w)
        y2 = x2 + torch.tanh(y1 @ v)
        return y1, y2

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, w, v = inputs
        y1, y2 = output
        ctx.save_for_backward(y1, y2, w, v)

    @staticmethod
    def backward(ctx, grad_y1, grad_y2):
        y1, y2, w, v = ctx.saved_tensors
        t2 = torch.tanh(y1 @ v)
        x2 = y2 - t2
        d2 = grad_y2 * (1 - t2**2)
        grad_x1 = grad_y1 + d2 @ v.t()
        grad_v = y1.t() @ d2
        t1 = torch.tanh(x2 @ w)
        d1 = grad_y1 * (1 - t1**2)
        grad_x2 = grad_y2 + d1 @ w.t()
        grad_w = x2.t() @ d1
        return grad_x1, grad_x2, grad_w, grad_v

# %% chunked-row-losses_19
"""The upstream gradient of the row multiplies the whole difference softmax - one-hot. Here it multiplies only the softmax, and 1 is subtracted afterwards instead of g, so the term of the right word ignores the weight of the row; rows with weight 0 still get a gradient."""
WRONG = ['slope[row, target[part]] -= 1']
RIGHT = ['slope[row, target[part]] -= g']
NAME = "RowLosses"
EXERCISE = "chunked-row-losses"
# --- code
import torch
from torch.autograd import Function


class RowLosses(Function):
    @staticmethod
    def forward(ctx, x, weight, target, chunk):
        losses = x.new_empty(len(x))
        for start in range(0, len(x), chunk):
            part = slice(start, start + chunk)
            z = x[part] @ weight.t()
            picked = z.gather(1, target[part].unsqueeze(1)).squeeze(1)
            losses[part] = torch.logsumexp(z, -1) - picked
        ctx.save_for_backward(x, weight, target)
        ctx.chunk = chunk
        return losses

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, target = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_weight = torch.zeros_like(weight)
        for start in range(0, len(x), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            g = grad_output[part]
            z = x[part] @ weight.t()
            row = torch.arange(len(z), device=x.device)
            slope = torch.softmax(z, -1) * g.unsqueeze(1)
            slope[row, target[part]] -= 1
            grad_x[part] = slope @ weight
            grad_weight += slope.t() @ x[part]
        return grad_x, grad_weight, None, None

# %% attention-forward_20
"""The floating-point mask is added to the scores after they have been divided by sqrt(E). Here the mask is divided as well, which changes every finite entry of it; -inf and boolean masks do not show it."""
WRONG = ['scores = q @ k.mT', 'weights = torch.exp((scores - top) / math.sqrt(q.shape[-1]))']
RIGHT = ['scores = q @ k.mT / math.sqrt(q.shape[-1])', 'weights = torch.exp(scores - top)']
NAME = "attend"
EXERCISE = "attention-forward"
# --- code
import math

import torch


def attend(q, k, v, mask=None):
    scores = q @ k.mT
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, -math.inf)
        else:
            scores = scores + mask
    top = scores.amax(-1, keepdim=True)
    top = top.masked_fill(top == -math.inf, 0.0)
    weights = torch.exp((scores - top) / math.sqrt(q.shape[-1]))
    total = weights.sum(-1, keepdim=True)
    p = weights / total.masked_fill(total == 0, 1.0)
    return p @ v

# %% attention-grouped_21
"""repeat_interleave puts the query heads of one key head next to each other, so the H gradients must be split into (G, H/G) and summed over the second of these. Here they are split as (H/G, G), as after repeat, so gradients of different key heads are mixed."""
WRONG = ['grad_k = (grad_s.mT @ q).unflatten(-3, (n, k.shape[-3])).sum(-4)', 'grad_v = (p.mT @ grad_output).unflatten(-3, (n, v.shape[-3])).sum(-4)']
RIGHT = ['grad_k = (grad_s.mT @ q).unflatten(-3, (k.shape[-3], n)).sum(-3)', 'grad_v = (p.mT @ grad_output).unflatten(-3, (v.shape[-3], n)).sum(-3)']
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        n = q.shape[-3] // k.shape[-3]
        scores = q @ k.repeat_interleave(n, -3).mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(scores, -1, keepdim=True)
        out = torch.exp(scores - lse) @ v.repeat_interleave(n, -3)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        n = q.shape[-3] // k.shape[-3]
        keys, values = k.repeat_interleave(n, -3), v.repeat_interleave(n, -3)
        p = torch.exp(q @ keys.mT * scale - lse)
        d = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ values.mT - d) * scale
        grad_k = (grad_s.mT @ q).unflatten(-3, (n, k.shape[-3])).sum(-4)
        grad_v = (p.mT @ grad_output).unflatten(-3, (n, v.shape[-3])).sum(-4)
        return grad_s @ keys, grad_k, grad_v

# %% attention-twice_22
"""The gradient of the log-sum-exp adds grad_lse * P to the gradient of the scores, because dL/dS = P. Here it is subtracted together with the row sum D, so this path has the wrong sign; a loss that does not use lse does not show it."""
WRONG = ['grad_s = p * (grad_out @ v.mT - (d + grad_lse).unsqueeze(-1)) * scale']
RIGHT = ['grad_s = p * (grad_out @ v.mT - (d - grad_lse).unsqueeze(-1)) * scale']
NAME = "TwiceAttention"
EXERCISE = "attention-twice"
# --- code
import math

import torch
from torch.autograd import Function


class TwiceAttention(Function):
    @staticmethod
    def forward(q, k, v):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(scores, -1)
        return torch.exp(scores - lse.unsqueeze(-1)) @ v, lse

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        q, k, v, out, lse = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ k.mT * scale - lse.unsqueeze(-1))
        d = (grad_out * out).sum(-1)
        grad_s = p * (grad_out @ v.mT - (d + grad_lse).unsqueeze(-1)) * scale
        return grad_s @ k, grad_s.mT @ q, p.mT @ grad_out

# %% conv1d_23
"""With padding 0, the slice 0:-0 is 0:0 and empty, so the gradient of x has length 0. The end of the slice must be counted from the left: padding + length."""
WRONG = ['grad_x = grad_padded[..., padding:-padding]']
RIGHT = ['grad_x = grad_padded[..., padding : padding + x.shape[-1]]']
NAME = "Conv1d"
EXERCISE = "conv1d"
# --- code
import torch
from torch.autograd import Function


class Conv1d(Function):
    @staticmethod
    def forward(x, weight, stride, padding, groups):
        n, size = x.shape[0], weight.shape[-1]
        padded = torch.nn.functional.pad(x, (padding, padding))
        windows = padded.unfold(-1, size, stride).unflatten(1, (groups, -1))
        w = weight.unflatten(0, (groups, -1))
        y = torch.einsum("ngctk,gock->ngot", windows, w)
        return y.reshape(n, weight.shape[0], -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.stride, ctx.padding, ctx.groups = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        stride, padding, groups = ctx.stride, ctx.padding, ctx.groups
        size = weight.shape[-1]
        padded = torch.nn.functional.pad(x, (padding, padding))
        windows = padded.unfold(-1, size, stride).unflatten(1, (groups, -1))
        g = grad_output.unflatten(1, (groups, -1))
        w = weight.unflatten(0, (groups, -1))
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).reshape(weight.shape)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, w).flatten(1, 2)
        grad_padded = torch.zeros_like(padded)
        for t in range(grad_windows.shape[2]):
            grad_padded[..., t * stride : t * stride + size] += grad_windows[:, :, t]
        grad_x = grad_padded[..., padding:-padding]
        return grad_x, grad_weight, None, None, None

# %% complex-multiply_24
"""The gradient is g times the conjugate of the other factor. Here the incoming gradient is conjugated instead, which gives the conjugate of the right answer: the real part is right, and the imaginary part has the wrong sign."""
WRONG = ['product = g.conj() * factor']
RIGHT = ['product = g * factor.conj()']
NAME = "ComplexMultiply"
EXERCISE = "complex-multiply"
# --- code
import torch
from torch.autograd import Function


def pull_back(g, factor, like):
    product = g.conj() * factor
    return product if like.is_complex() else product.real


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
        return pull_back(grad_output, w, z), pull_back(grad_output, z, w)

# %% gumbel-hard_25
"""The surrogate is the soft sample, softmax((logits + noise) / tau), with the noise that chose the output. Backward computes the softmax of the logits alone, so the slope is taken at a different point."""
WRONG = ['y = torch.softmax(logits / ctx.temperature, -1)']
RIGHT = ['y = torch.softmax((logits + noise) / ctx.temperature, -1)']
NAME = "HardGumbelSoftmax"
EXERCISE = "gumbel-hard"
# --- code
import torch
from torch.autograd import Function


class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        index = (logits + noise).argmax(-1)
        return torch.nn.functional.one_hot(index, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise, ctx.temperature = inputs
        ctx.save_for_backward(logits, noise)

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise = ctx.saved_tensors
        y = torch.softmax(logits / ctx.temperature, -1)
        grad_logits = y * (grad_output - (grad_output * y).sum(-1, keepdim=True))
        return grad_logits / ctx.temperature, None, None

# %% reinmax_26
"""J(q)^T g uses the same point q in both places, as the factor and in the weighted mean of g. For the first term the point is m, but the mean of g is weighted with p, so this is not the softmax Jacobian at m (its entries do not add up to 0)."""
WRONG = ['at_m = m * (grad_output - (grad_output * p).sum(-1, keepdim=True))']
RIGHT = ['at_m = m * (grad_output - (grad_output * m).sum(-1, keepdim=True))']
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
from torch.autograd import Function


class ReinMax(Function):
    @staticmethod
    def forward(logits, noise):
        index = (logits + noise).argmax(-1)
        return torch.nn.functional.one_hot(index, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, _ = inputs
        ctx.save_for_backward(logits, output)

    @staticmethod
    def backward(ctx, grad_output):
        logits, y = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        m = (p + y) / 2
        at_m = m * (grad_output - (grad_output * p).sum(-1, keepdim=True))
        at_p = p * (grad_output - (grad_output * p).sum(-1, keepdim=True))
        return 2 * at_m - at_p / 2, None

# %% split-rms-norm_27
"""Backward needs the normalized x, which is x * rstd. The saved output y = x * rstd * weight is taken for it, so the weight enters once more; with weights of 1 this does not show."""
WRONG = ['ctx.save_for_backward(y, weight, rstd)', 'y, weight, rstd = ctx.saved_tensors', 'normed, g = y, grad_output * weight']
RIGHT = ['ctx.save_for_backward(x, weight, rstd)', 'x, weight, rstd = ctx.saved_tensors', 'normed, g = x * rstd, grad_output * weight']
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
        y, rstd = output
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(y, weight, rstd)

    @staticmethod
    def backward(ctx, grad_output, _):
        y, weight, rstd = ctx.saved_tensors
        normed, g = y, grad_output * weight
        grad_x = rstd * (g - normed * (g * normed).mean(-1, keepdim=True))
        grad_weight = (grad_output * normed).reshape(-1, weight.shape[0]).sum(0)
        return grad_x, grad_weight, None

# %% jvp-smooth-maximum_28
"""The sum over all rows belongs to backward, where every output depends on the one temperature and the gradients add up. Forward mode asks how each output changes, so the term of the temperature keeps one number for each row; here it is summed and added to every row."""
WRONG = ['along_t = ((y - (p * x).sum(-1)) / t * t_tangent).sum()']
RIGHT = ['along_t = (y - (p * x).sum(-1)) / t * t_tangent']
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
        along_x = (p * x_tangent).sum(-1)
        along_t = ((y - (p * x).sum(-1)) / t * t_tangent).sum()
        return along_x + along_t

# %% repair-graph-breaks_29
"""Beyond delta the slope of delta * (|x| - delta/2) is delta times the sign of x. The sign is missing, so negative outliers get a gradient that points the wrong way."""
WRONG = ['slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta)']
RIGHT = ['slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta * x.sign())']
NAME = "Huber"
EXERCISE = "repair-graph-breaks"
# --- code
import torch
from torch.autograd import Function


class Huber(Function):
    @staticmethod
    def forward(x, delta):
        return torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta)
        return grad_output * slope, None

# %% repair-autocast_30
"""custom_fwd without cast_inputs does not turn autocast off: it only records the state, and custom_bwd then restores the same state, so the matrix products still run in bfloat16. With cast_inputs=torch.float32 the inputs are converted and both methods run without autocast."""
WRONG = ['@torch.amp.custom_fwd(device_type="cpu")']
RIGHT = ['@torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)']
NAME = "Contrast"
EXERCISE = "repair-autocast"
# --- code
import torch
from torch.autograd import Function


class Contrast(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, q, k, temperature):
        ctx.save_for_backward(q, k)
        ctx.temperature = temperature
        scores = q @ k.t() / temperature
        return torch.logsumexp(scores, 1) - scores.diagonal()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad_output):
        q, k = ctx.saved_tensors
        p = torch.softmax(q @ k.t() / ctx.temperature, 1)
        slope = (p - torch.eye(len(q), dtype=p.dtype, device=p.device)) * grad_output[:, None]
        return slope @ k / ctx.temperature, slope.t() @ q / ctx.temperature, None

# %% equilibrium-layer_31
"""The linear equation of the adjoint is u = g + (u * slope) W: going back through one step, the gradient first meets tanh and then W. Here it meets W first, and slope multiplies the wrong side of the product, so u solves a different equation."""
WRONG = ['u = settled(lambda u: grad_output + slope * (u @ W), grad_output)']
RIGHT = ['u = settled(lambda u: grad_output + (slope * u) @ W, grad_output)']
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
        _, W = inputs
        ctx.save_for_backward(W, output)

    @staticmethod
    def backward(ctx, grad_output):
        W, z = ctx.saved_tensors
        slope = 1 - z**2
        u = settled(lambda u: grad_output + slope * (u @ W), grad_output)
        grad_x = slope * u
        return grad_x, grad_x.t() @ z

# %% triangular-solve_32
"""Only the half of T that the solver reads has a gradient, and with lower=False that is the upper half. tril keeps the lower half in both cases, so for an upper T only the diagonal is right, and the entries that are never read get a gradient (and since backward solves an upper system for a lower T, its second derivative is wrong too)."""
WRONG = ['grad_T = (-grad_B @ X.mT).tril()']
RIGHT = ['grad_T = (-grad_B @ X.mT).tril() if ctx.lower else (-grad_B @ X.mT).triu()']
NAME = "TriangularSolve"
EXERCISE = "triangular-solve"
# --- code
import torch
from torch.autograd import Function


class TriangularSolve(Function):
    @staticmethod
    def forward(T, B, lower=True):
        return torch.linalg.solve_triangular(T.tril() if lower else T.triu(), B, upper=not lower)

    @staticmethod
    def setup_context(ctx, inputs, output):
        T, _, ctx.lower = inputs
        ctx.save_for_backward(T, output)

    @staticmethod
    def backward(ctx, grad_output):
        T, X = ctx.saved_tensors
        grad_B = TriangularSolve.apply(T.mT, grad_output, not ctx.lower)
        grad_T = (-grad_B @ X.mT).tril()
        return grad_T, grad_B, None
