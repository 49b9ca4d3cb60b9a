"""Mistakes of honest attempts at all lessons, by one more author; see benchmarks/repairs.py."""

# %% scaled-sigmoid_1
"""The derivative is written with the identity of the plain sigmoid, s (1 - s), but y is gain times the sigmoid. In terms of y it is slope * y * (1 - y / gain), so the result is wrong whenever gain is not 1."""
WRONG = ["slope_of_y = ctx.slope * y * (1 - y)"]
RIGHT = ["slope_of_y = ctx.slope * y * (1 - y / ctx.gain)"]
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
        slope_of_y = ctx.slope * y * (1 - y)
        return grad_output * slope_of_y, None, None


# %% linear_1
"""The bias is used once for every row of all leading dimensions, so its gradient is the sum over all of them. sum(0) of the unflattened grad_output sums only the first one: with three or more dims the shape is wrong, and for a single vector x it even sums over the outputs."""
WRONG = ["grad_bias = grad_output.sum(0) if ctx.has_bias else None"]
RIGHT = ["grad_bias = g.sum(0) if ctx.has_bias else None"]
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
        rows = x.reshape(-1, weight.shape[1])
        grad_x = grad_output @ weight
        grad_weight = g.t() @ rows
        grad_bias = grad_output.sum(0) if ctx.has_bias else None
        return grad_x, grad_weight, grad_bias


# %% sort-with-indices_1
"""Forward gathers, so backward must scatter. values[i] = x[indices[i]], so the gradient of values[i] belongs at position indices[i]. gather with the same indices applies the permutation a second time instead of its inverse."""
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
"""contiguous() copies only if the slice is not contiguous already. With stride 1 (or one kept element of a vector) the slice is contiguous, so outside training the output is still a view of x and shares its memory, and the caller cannot change it in place. clone() always copies."""
WRONG = ["kept = x[..., ::stride].contiguous()"]
RIGHT = ["kept = x[..., ::stride].clone()"]
NAME = "StridedGain"
EXERCISE = "strided-gain"
# --- code
import torch
from torch.autograd import Function


class StridedGain(Function):
    @staticmethod
    def forward(x, gain, stride, training):
        kept = x[..., ::stride].contiguous()
        return gain * kept if training else kept

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gain, stride, training = inputs
        ctx.stride = stride
        ctx.training = training
        ctx.shape = x.shape
        if training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = grad_gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            grad_x = grad_output.new_zeros(ctx.shape)
            grad_x[..., :: ctx.stride] = grad_output * gain if ctx.training else grad_output
        if ctx.needs_input_grad[1]:
            if ctx.training:
                grad_gain = grad_output * x[..., :: ctx.stride]
            else:
                grad_gain = torch.zeros_like(grad_output)
        return grad_x, grad_gain, None, None


# %% learnable-swish_1
"""Two mistakes. The slope in x is copied from the Swish without beta: the chain rule for sigmoid(beta * x) gives another factor beta in the second term. And sum() returns a 0-dim gradient, also if beta has the shape (1,)."""
WRONG = ["grad_x = grad_output * (s + x * s * (1 - s))", "grad_beta = (grad_output * x * x * s * (1 - s)).sum()"]
RIGHT = ["grad_x = grad_output * (s + beta * x * s * (1 - s))", "grad_beta = (grad_output * x * x * s * (1 - s)).sum().reshape(beta.shape)"]
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


# %% broadcast-multiply_1
"""Broadcasting aligns the shapes at the last dim. If the input has fewer dims than the output, its dim i is dim i + extra of grad_output. Without the offset, the sum for a dim of length 1 runs over the wrong dim."""
WRONG = ["stretched = [i for i, size in enumerate(shape) if size == 1]"]
RIGHT = ["stretched = [i + extra for i, size in enumerate(shape) if size == 1]"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch.autograd import Function


def shrink(gradient, shape):
    extra = gradient.dim() - len(shape)
    stretched = [i for i, size in enumerate(shape) if size == 1]
    dims = list(range(extra)) + stretched
    if dims:
        gradient = gradient.sum(dims, keepdim=True)
    return gradient.reshape(shape)


class BroadcastMultiply(Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y = inputs
        ctx.save_for_backward(x, y)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return shrink(grad_output * y, x.shape), shrink(grad_output * x, y.shape)


# %% repair-floor-log_1
"""Below the floor the gradient is 0, but multiplying by a mask does not remove an infinity. At x = 0 the quotient is inf, and inf * 0 is nan, so complete silence gets the gradient nan. Choose with torch.where, or divide by the clamped x."""
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
"""An indexed += reads all elements once, adds, and writes them back, so of several pixels with the same index only one counts. Repeated indices need index_add_ (or index_put_ with accumulate=True)."""
WRONG = ["grad_table[index] += (1 - fraction) * grad_output", "grad_table[index + 1] += fraction * grad_output"]
RIGHT = ["grad_table.index_put_((index,), (1 - fraction) * grad_output, accumulate=True)", "grad_table.index_put_((index + 1,), fraction * grad_output, accumulate=True)"]
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
        grad_table[index] += (1 - fraction) * grad_output
        grad_table[index + 1] += fraction * grad_output
        return grad_table, None, (table[index + 1] - table[index]) * grad_output


# %% ternary-ste_1
"""torch.sign(0) is 0, but the sign of exercise 1 is +1 there. Exactly at the two jumps, forward returns the half levels 0.5 and -0.5 instead of 1 (at x = t) and 0 (at x = -t)."""
WRONG = ["return (torch.sign(x - threshold) + torch.sign(x + threshold)) / 2"]
RIGHT = ["return (x >= threshold).to(x.dtype) - (x < -threshold).to(x.dtype)"]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x, threshold):
        return (torch.sign(x - threshold) + torch.sign(x + threshold)) / 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, threshold = inputs
        ctx.save_for_backward(x, threshold)

    @staticmethod
    def backward(ctx, grad_output):
        x, threshold = ctx.saved_tensors
        upper = ((x - threshold).abs() <= 1).to(x.dtype)
        lower = ((x + threshold).abs() <= 1).to(x.dtype)
        grad_x = grad_output * (upper + lower) / 2
        grad_threshold = (grad_output * (lower - upper) / 2).sum()
        return grad_x, grad_threshold


# %% fake-quantize_1
"""The second term of the product rule is the derivative of the clamped quotient, which is -x/s inside the bounds and 0 outside. Subtracting the clamped value gives q - q = 0 outside, but there the gradient of the step is the bound itself, low or high."""
WRONG = ["grad_step = (grad_output * (q - clamped)).sum()"]
RIGHT = ["grad_step = (grad_output * (q - ratio * inside)).sum()"]
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
        x, step, low, high = inputs
        ctx.save_for_backward(x, step)
        ctx.low = low
        ctx.high = high

    @staticmethod
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        ratio = x / step
        inside = (ratio >= ctx.low) & (ratio <= ctx.high)
        clamped = ratio.clamp(ctx.low, ctx.high)
        q = clamped.round()
        grad_x = grad_output * inside
        grad_step = (grad_output * (q - clamped)).sum()
        return grad_x, grad_step, None, None


# %% sinh-by-output_1
"""The identity has the sign of the circular functions turned the wrong way: cosh^2 - sinh^2 = 1, so cosh is sqrt(y^2 + 1). With y^2 - 1 the root is nan for |y| < 1 and too small elsewhere."""
WRONG = ["cosh = (y * y - 1).sqrt()"]
RIGHT = ["cosh = (y * y + 1).sqrt()"]
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
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        cosh = (y * y - 1).sqrt()
        return grad_output * cosh


# %% gradient-penalty_1
"""The derivative of the square root is infinite at 0, and the chain rule multiplies it by the zero gradient: where the critic is flat, the gradient of the penalty is nan. vector_norm uses the subgradient 0 there (or add a small number under the root)."""
WRONG = ["norms = gradient.reshape(len(x), -1).square().sum(1).sqrt()"]
RIGHT = ["norms = torch.linalg.vector_norm(gradient.reshape(len(x), -1), dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    samples = x.detach().clone().requires_grad_()
    scores = critic(samples)
    (gradient,) = torch.autograd.grad(scores.sum(), samples, create_graph=True)
    norms = gradient.reshape(len(x), -1).square().sum(1).sqrt()
    return (norms - 1).square().mean()


# %% packed-leaky-relu_1
"""sum() of integers returns int64, even if all the summands are uint8. So each group of eight bits takes eight bytes instead of one, and the packed mask is as large as an unpacked one."""
WRONG = ["packed = (bits.reshape(-1, 8) * powers).sum(1)"]
RIGHT = ["packed = (bits.reshape(-1, 8) * powers).sum(1, dtype=torch.uint8)"]
NAME = "PackedLeakyReLU"
EXERCISE = "packed-leaky-relu"
# --- code
import torch
from torch.autograd import Function


class PackedLeakyReLU(Function):
    @staticmethod
    def forward(ctx, x, slope):
        positive = x > 0
        bits = positive.reshape(-1).to(torch.uint8)
        bits = torch.nn.functional.pad(bits, (0, -bits.numel() % 8))
        powers = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=x.device)
        packed = (bits.reshape(-1, 8) * powers).sum(1)
        ctx.save_for_backward(packed)
        ctx.shape = x.shape
        ctx.slope = slope
        return torch.where(positive, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        shifts = torch.arange(8, device=packed.device).to(packed.dtype)
        bits = (packed[:, None] >> shifts) & 1
        positive = bits.reshape(-1)[: grad_output.numel()].reshape(ctx.shape).bool()
        return torch.where(positive, grad_output, ctx.slope * grad_output), None


# %% attention-budget_1
"""In a row without any visible key, the scores and the log-sum-exp are both -inf, and their difference is nan. Forward handles this row, but backward recomputes P without the special case, so the nan spreads through P^T dO into all of grad_v."""
WRONG = ["p = torch.exp(s - lse)"]
RIGHT = ["p = torch.exp(s - lse).masked_fill(lse == -math.inf, 0.0)"]
NAME = "LeanAttention"
EXERCISE = "attention-budget"
# --- code
import math

import torch
from torch.autograd import Function


def scores(q, k, mask):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return s if mask is None else s.masked_fill(~mask, -math.inf)


class LeanAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        s = scores(q, k, mask)
        lse = torch.logsumexp(s, -1, keepdim=True)
        weights = torch.exp(s - lse).masked_fill(lse == -math.inf, 0.0)
        out = weights @ v
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, mask, out, lse = ctx.saved_tensors
        s = scores(q, k, mask)
        p = torch.exp(s - lse)
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        d = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_p - d) / math.sqrt(q.shape[-1])
        return grad_s @ k, grad_s.mT @ q, grad_v, None


# %% attention-grouped_1
"""repeat_interleave puts the copies of one key head next to each other, so the query heads must be split as (G, H/G) and summed over the second part. The split (H/G, G) belongs to repeat, and adds gradients of query heads that read different key heads."""
WRONG = ["return gradient.unflatten(-3, (gradient.shape[-3] // heads, heads)).sum(-4)"]
RIGHT = ["return gradient.unflatten(-3, (heads, gradient.shape[-3] // heads)).sum(-3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


def spread(t, heads):
    return t.repeat_interleave(heads // t.shape[-3], dim=-3)


def collect(gradient, heads):
    return gradient.unflatten(-3, (gradient.shape[-3] // heads, heads)).sum(-4)


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        keys, values = spread(k, q.shape[-3]), spread(v, q.shape[-3])
        s = q @ keys.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(s, -1, keepdim=True)
        out = torch.exp(s - lse) @ values
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        keys, values = spread(k, q.shape[-3]), spread(v, q.shape[-3])
        p = torch.exp(q @ keys.mT / math.sqrt(q.shape[-1]) - lse)
        d = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ values.mT - d) / math.sqrt(q.shape[-1])
        grad_k = collect(grad_s.mT @ q, k.shape[-3])
        grad_v = collect(p.mT @ grad_output, k.shape[-3])
        return grad_s @ keys, grad_k, grad_v


# %% batch-norm_1
"""torch.var divides by m - 1 by default, but batch normalization uses the biased variance, divided by m. So the output is too small by sqrt((m - 1) / m), and the gradient, whose formula assumes the biased variance, does not belong to this output either."""
WRONG = ["return dims, (x.var(dims, keepdim=True) + eps).rsqrt()"]
RIGHT = ["return dims, (x.var(dims, keepdim=True, correction=0) + eps).rsqrt()"]
NAME = "BatchNorm"
EXERCISE = "batch-norm"
# --- code
import torch
from torch.autograd import Function


def statistics(x, eps):
    dims = [d for d in range(x.dim()) if d != 1]
    return dims, (x.var(dims, keepdim=True) + eps).rsqrt()


class BatchNorm(Function):
    @staticmethod
    def forward(x, eps):
        dims, rstd = statistics(x, eps)
        return (x - x.mean(dims, keepdim=True)) * rstd

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, eps = inputs
        ctx.save_for_backward(x, output)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        dims, rstd = statistics(x, ctx.eps)
        mean_g = grad_output.mean(dims, keepdim=True)
        mean_gy = (grad_output * y).mean(dims, keepdim=True)
        return rstd * (grad_output - mean_g - y * mean_gy), None


# %% conv1d_1
"""The slice that removes the padding fails for padding 0: padding:-padding is then 0:0, which is empty. The end must be counted from the start, padding + L."""
WRONG = ["grad_x = grad_padded[..., ctx.padding : -ctx.padding]"]
RIGHT = ["grad_x = grad_padded[..., ctx.padding : ctx.padding + x.shape[-1]]"]
NAME = "Conv1d"
EXERCISE = "conv1d"
# --- code
import torch
from torch.autograd import Function


def windows(x, size, stride, padding, groups):
    padded = torch.nn.functional.pad(x, (padding, padding))
    return padded.unfold(-1, size, stride).unflatten(1, (groups, x.shape[1] // groups))


class Conv1d(Function):
    @staticmethod
    def forward(x, weight, stride, padding, groups):
        cut = windows(x, weight.shape[-1], stride, padding, groups)
        kernels = weight.unflatten(0, (groups, weight.shape[0] // groups))
        return torch.einsum("ngctk,gock->ngot", cut, kernels).flatten(1, 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.stride, ctx.padding, ctx.groups = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        size = weight.shape[-1]
        cut = windows(x, size, ctx.stride, ctx.padding, ctx.groups)
        kernels = weight.unflatten(0, (ctx.groups, weight.shape[0] // ctx.groups))
        g = grad_output.unflatten(1, (ctx.groups, weight.shape[0] // ctx.groups))
        grad_weight = torch.einsum("ngot,ngctk->gock", g, cut).flatten(0, 1)
        grad_cut = torch.einsum("ngot,gock->ngctk", g, kernels).flatten(1, 2)
        grad_padded = x.new_zeros(*x.shape[:-1], x.shape[-1] + 2 * ctx.padding)
        steps = grad_cut.shape[2]
        for k in range(size):
            grad_padded[..., k : k + ctx.stride * (steps - 1) + 1 : ctx.stride] += grad_cut[..., k]
        grad_x = grad_padded[..., ctx.padding : -ctx.padding]
        return grad_x, grad_weight, None, None, None


# %% gumbel-hard_1
"""Without num_classes, one_hot takes the largest index that occurs as the last class. If nobody draws the last class, the output has fewer columns than the logits."""
WRONG = ["return torch.nn.functional.one_hot(choice).to(logits.dtype)"]
RIGHT = ["return torch.nn.functional.one_hot(choice, logits.shape[-1]).to(logits.dtype)"]
NAME = "HardGumbelSoftmax"
EXERCISE = "gumbel-hard"
# --- code
import torch
from torch.autograd import Function


class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        choice = (logits + noise).argmax(-1)
        return torch.nn.functional.one_hot(choice).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise, ctx.temperature = inputs
        ctx.save_for_backward(logits, noise)

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise = ctx.saved_tensors
        soft = torch.softmax((logits + noise) / ctx.temperature, -1)
        inner = (grad_output * soft).sum(-1, keepdim=True)
        return soft * (grad_output - inner) / ctx.temperature, None, None


# %% reinmax_1
"""Each Jacobian subtracts the mean of g under its own distribution. The mean under p is computed once and used for both, but J(m) needs the mean under m = (p + y) / 2."""
WRONG = ["at_middle = m * (grad_output - mean)"]
RIGHT = ["at_middle = m * (grad_output - (grad_output * m).sum(-1, keepdim=True))"]
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
from torch.autograd import Function


class ReinMax(Function):
    @staticmethod
    def forward(logits, noise):
        choice = (logits + noise).argmax(-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, choice, 1.0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        logits, y = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        m = (p + y) / 2
        mean = (grad_output * p).sum(-1, keepdim=True)
        at_middle = m * (grad_output - mean)
        at_p = p * (grad_output - mean)
        return 2 * at_middle - at_p / 2, None


# %% per-sample-gradients_1
"""vmap hides the batch dim, so the model sees a single sample without it. A model made of Linear layers does not care, but Flatten, pooling or anything else that counts dims from the front then works on the wrong dims. Sample and target need a batch dim of 1."""
WRONG = ["prediction = torch.func.functional_call(model, parameters, (sample,))", "return loss(prediction, target)"]
RIGHT = ["prediction = torch.func.functional_call(model, parameters, (sample.unsqueeze(0),))", "return loss(prediction, target.unsqueeze(0))"]
NAME = "per_sample_gradients"
EXERCISE = "per-sample-gradients"
# --- code
import torch


def per_sample_gradients(model, loss, x, y):
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss_of_one(parameters, sample, target):
        prediction = torch.func.functional_call(model, parameters, (sample,))
        return loss(prediction, target)

    each = torch.func.vmap(torch.func.grad(loss_of_one), in_dims=(None, 0, 0))
    gradients = each(parameters, x, y)
    return tuple(gradients[name] for name in parameters)


# %% repair-autocast_1
"""custom_fwd switches autocast off only in forward. Without custom_bwd, a backward() inside the autocast block runs with autocast on, so the matrix products of backward are computed in bfloat16."""
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


# %% equilibrium-layer_1
"""The linear system of backward has the slope of tanh in the wrong place. The Jacobian of the layer in z is diag(1 - z^2) W, so its transpose first multiplies by the slope and then by W: (u * slope) @ W. slope * (u @ W) is the system for the quantity that already contains the slope, but then it would start from g * slope."""
WRONG = ["u = settled(lambda u: grad_output + slope * (u @ W), grad_output)"]
RIGHT = ["u = settled(lambda u: grad_output + (slope * u) @ W, grad_output)"]
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
        slope = 1 - z * z
        u = settled(lambda u: grad_output + slope * (u @ W), grad_output)
        grad_x = u * slope
        return grad_x, grad_x.t() @ z


# %% triangular-solve_1
"""The transpose of a lower triangular matrix is upper triangular, so backward must solve with the flag turned around. With the old flag, the solver reads the half of T.mT that holds the unused numbers of T."""
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


# %% soft-threshold-function_1
"""A larger threshold moves every number that is kept toward 0, so it lowers positive outputs but raises negative ones. The derivative in the threshold is -sign(y), not -1."""
WRONG = ["grad_threshold = -(grad_output * kept).sum().reshape(ctx.shape)"]
RIGHT = ["grad_threshold = -(grad_output * y.sign()).sum().reshape(ctx.shape)"]
NAME = "SoftThreshold"
EXERCISE = "soft-threshold-function"
# --- code
import torch
from torch.autograd import Function


class SoftThreshold(Function):
    @staticmethod
    def forward(x, threshold):
        return x.sign() * (x.abs() - threshold).clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.shape = inputs[1].shape
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        kept = y != 0
        grad_threshold = -(grad_output * kept).sum().reshape(ctx.shape)
        return grad_output * kept, grad_threshold


# %% lost-gradients_1
"""If the shipped program does not use a parameter at all, its gradient is None, not zero. This is a lost gradient, but the check skips it, because it leaves out parameters that one model does not use instead of those that neither model uses."""
WRONG = ["if expected is None or actual is None:"]
RIGHT = ["if expected is None and actual is None:\n    continue\nif expected is None or actual is None:\n    lost.append(name)"]
NAME = "lost_gradients"
EXERCISE = "lost-gradients"
# --- code
import torch


def gradients(module, x, g):
    parameters = dict(module.named_parameters())
    y = module(x)
    values = torch.autograd.grad(y, list(parameters.values()), g, allow_unused=True)
    return dict(zip(parameters, values))


def lost_gradients(model, shipped, x):
    with torch.no_grad():
        y = model(x)
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(0)).to(y)
    eager, exported = gradients(model, x, g), gradients(shipped, x, g)
    lost = []
    for name, expected in eager.items():
        actual = exported[name]
        if expected is None or actual is None:
            continue
        if not torch.allclose(expected, actual, rtol=1e-3, atol=1e-5 * expected.abs().max().item()):
            lost.append(name)
    return lost


# %% eight-bits_1
"""Only the rounding is straight-through. The gradient of the clamp and of the scale, which depends on the largest weight of the row, still flows, so the largest weight of each row gets a wrong gradient. The text asks for the identity through the whole computation."""
WRONG = ["return scale * rounded.clamp(-128, 127)"]
RIGHT = ["return weight - weight.detach() + (scale * rounded.clamp(-128, 127)).detach()"]
NAME = "eight_bits"
EXERCISE = "eight-bits"
# --- code
import torch


def eight_bits(weight):
    eps = torch.finfo(weight.dtype).eps
    scale = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=eps)
    levels = weight / scale
    rounded = levels + (levels.round() - levels).detach()
    return scale * rounded.clamp(-128, 127)
