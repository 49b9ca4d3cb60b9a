# %% weighted-sum_1
"""torch.lerp(a, b, w) is a + w * (b - a), so the weight belongs to its second argument. With the arguments in this order, w weights y and 1 - w weights x: the output is the blend with x and y exchanged, while backward belongs to the requested one."""
WRONG = ["blend = torch.lerp(x, y, w)"]
RIGHT = ["blend = torch.lerp(y, x, w)"]
NAME = "WeightedSum"
EXERCISE = "weighted-sum"
# --- code
import torch
from torch.autograd import Function


class WeightedSum(Function):
    @staticmethod
    def forward(ctx, x, y, w):
        ctx.save_for_backward(x, y, w)
        blend = torch.lerp(x, y, w)
        return blend

    @staticmethod
    def backward(ctx, grad_output):
        x, y, w = ctx.saved_tensors
        to_x = grad_output * w
        to_y = grad_output - to_x
        to_w = grad_output * (x - y)
        return to_x, to_y, to_w


# %% clipped-relu_1
"""The slope is a step up at 0 minus a step up at the ceiling, and both steps have the value 1 at their own kink. So the slope is 1 at x = 0 but 1 - 1 = 0 at x = ceiling: the convention differs between the two kinks, which the exercise forbids."""
WRONG = ["down = torch.heaviside(x - ctx.top, one)"]
RIGHT = ["down = torch.heaviside(x - ctx.top, torch.zeros_like(one))"]
NAME = "ClippedReLU"
EXERCISE = "clipped-relu"
# --- code
import torch
from torch.autograd import Function


class ClippedReLU(Function):
    @staticmethod
    def forward(ctx, x, ceiling):
        ctx.top = ceiling
        ctx.save_for_backward(x)
        return x.clamp(0, ceiling)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        one = torch.ones((), dtype=x.dtype, device=x.device)
        up = torch.heaviside(x, one)
        down = torch.heaviside(x - ctx.top, one)
        return grad_output * (up - down), None


# %% linear_1
"""If x has no leading dimensions, grad_output is a vector and the tuple of dims is empty. torch's sum over an empty tuple of dims sums over all dims, so the gradient of the bias becomes one number (the total) instead of a vector of shape (out,)."""
WRONG = ["grad_bias = grad_output.sum(leading)"]
RIGHT = ["grad_bias = grad_output.sum(leading) if leading else grad_output.clone()"]
NAME = "Linear"
EXERCISE = "linear"
# --- code
import torch
from torch.autograd import Function


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        ctx.with_bias = bias is not None
        out = x @ weight.T
        return out + bias if ctx.with_bias else out

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x = grad_output @ weight
        grad_weight = torch.einsum("...o,...i->oi", grad_output, x)
        grad_bias = None
        if ctx.with_bias:
            leading = tuple(range(grad_output.dim() - 1))
            grad_bias = grad_output.sum(leading)
        return grad_x, grad_weight, grad_bias


# %% to-polar_1
"""(-sin, cos) is only the direction in which the angle grows. The derivatives of theta are -y / r**2 = -sin / r and x / r**2 = cos / r, so the factor 1 / r is missing in the path through theta. It is right only for points on the unit circle."""
WRONG = ["dtheta = (-s, c)"]
RIGHT = ["dtheta = (-s / r, c / r)"]
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
        c, s = theta.cos(), theta.sin()
        dr = (c, s)
        dtheta = (-s, c)
        return tuple(a * grad_r + b * grad_theta for a, b in zip(dr, dtheta))


# %% sort-with-indices_1
"""The inverse of a permutation is its ascending argsort, whatever the order of the values was. With descending=True, the argsort of the indices is also reversed, so each gradient goes to the mirrored position n - 1 - j instead of j."""
WRONG = ["back = torch.argsort(order, dim=-1, descending=ctx.descending)"]
RIGHT = ["back = torch.argsort(order, dim=-1)"]
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
        _, descending = inputs
        _, order = output
        ctx.descending = descending
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order)

    @staticmethod
    def backward(ctx, grad_values, grad_indices):
        (order,) = ctx.saved_tensors
        back = torch.argsort(order, dim=-1, descending=ctx.descending)
        return grad_values.gather(-1, back), None


# %% strided-gain_1
"""contiguous() copies only if the tensor is not contiguous yet. With stride 1, the slice of a contiguous x is already contiguous, so without training the output is still a view of x, and the caller cannot change it in place. clone() always makes a new tensor."""
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
        if training:
            return kept * gain
        return kept

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gain, stride, training = inputs
        ctx.stride, ctx.training, ctx.x_shape = stride, training, x.shape
        if training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output):
        need_x, need_gain = ctx.needs_input_grad[:2]
        grad_x = grad_gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors
            if need_gain:
                grad_gain = grad_output * x[..., :: ctx.stride]
            if need_x:
                grad_output = grad_output * gain
        if need_x:
            grad_x = grad_output.new_zeros(ctx.x_shape)
            grad_x[..., :: ctx.stride] = grad_output
        return grad_x, grad_gain, None, None


# %% leaky-relu-in-place_1
"""backward overwrites grad_output, which belongs to the engine and may be shared with other branches of the graph. Only the input of forward may be overwritten here (it is marked dirty). The gradient needs a new tensor."""
WRONG = ["grad_output[y <= 0] *= ctx.slope"]
RIGHT = ["grad_output = torch.where(y <= 0, ctx.slope * grad_output, grad_output)"]
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
        x, ctx.slope = inputs
        ctx.mark_dirty(x)
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        grad_output[y <= 0] *= ctx.slope
        return grad_output, None


# %% frozen-target_1
"""needs_input_grad has one flag per input, and the engine calls backward only if at least one of them is True, so this test never applies. If only the target or the weight requires a gradient, backward still computes the gradient of the prediction, which nobody needs. Only the flag of the prediction counts."""
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
        diff = prediction - target
        return (weight * diff * diff).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        if not any(ctx.needs_input_grad):
            return None, None, None
        prediction, target, weight = ctx.saved_tensors
        diff = prediction - target
        grad_prediction = 2 * weight * diff / diff.numel() * grad_output
        return grad_prediction, None, None


# %% gather-rows_1
"""Without num_classes, one_hot makes only as many columns as the largest index in this batch needs. If the last rows of the table are not read, the gradient has too few rows and not the shape of the table."""
WRONG = ["hot = F.one_hot(index.reshape(-1)).to(grad_output.dtype)"]
RIGHT = ["hot = F.one_hot(index.reshape(-1), ctx.table_shape[0]).to(grad_output.dtype)"]
NAME = "GatherRows"
EXERCISE = "gather-rows"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class GatherRows(Function):
    @staticmethod
    def forward(table, index):
        return table[index]

    @staticmethod
    def setup_context(ctx, inputs, output):
        table, index = inputs
        ctx.table_shape = table.shape
        ctx.save_for_backward(index)

    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        hot = F.one_hot(index.reshape(-1)).to(grad_output.dtype)
        rows = grad_output.reshape(-1, ctx.table_shape[1])
        return hot.T @ rows, None


# %% soft-rank_1
"""With several dims, grad_output is not a vector per matrix but looks like a matrix to matmul, so slopes @ grad_output multiplies each n x n matrix with the whole batch of gradients. It works for a single row only: each row of grad_output has to be a column vector of its own matrix."""
WRONG = ["from_others = slopes @ grad_output"]
RIGHT = ["from_others = (slopes @ grad_output.unsqueeze(-1)).squeeze(-1)"]
NAME = "SoftRank"
EXERCISE = "soft-rank"
# --- code
import torch
from torch.autograd import Function


def compare(x, tau):
    return torch.sigmoid((x[..., :, None] - x[..., None, :]) / tau)


class SoftRank(Function):
    @staticmethod
    def forward(x, tau):
        return compare(x, tau).sum(-1) + 0.5

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.tau = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = compare(x, ctx.tau)
        slopes = s * (1 - s) / ctx.tau
        own = grad_output * slopes.sum(-1)
        from_others = slopes @ grad_output
        return own - from_others, None


# %% gelu_1
"""The derivative of erf(t) is 2 / sqrt(pi) * exp(-t**2), and t = x / sqrt(2) has the inner derivative 1 / sqrt(2), which is missing here. So the density is too large by a factor of sqrt(2)."""
WRONG = ["density = torch.exp(-t * t) / math.sqrt(math.pi)"]
RIGHT = ["density = torch.exp(-t * t) / math.sqrt(2 * math.pi)"]
NAME = "GELU"
EXERCISE = "gelu"
# --- code
import math

import torch
from torch.autograd import Function


class GELU(Function):
    @staticmethod
    def forward(x):
        return x * (torch.erf(x / math.sqrt(2)) + 1) / 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        t = x / math.sqrt(2)
        below = (torch.erf(t) + 1) / 2
        density = torch.exp(-t * t) / math.sqrt(math.pi)
        return (below + x * density) * grad_output


# %% repair-floor-log_1
"""The mask does set the gradient below the floor to zero, but the division by the original x comes with it. For complete silence, x = 0, this is 0 / 0 = nan. Divide by the clamped x."""
WRONG = ["return grad_output * loud / x, None"]
RIGHT = ["return grad_output * loud / x.clamp(min=ctx.floor), None"]
NAME = "FloorLog"
EXERCISE = "repair-floor-log"
# --- code
import torch
from torch.autograd import Function


class FloorLog(Function):
    @staticmethod
    def forward(ctx, x, floor):
        ctx.floor = floor
        ctx.save_for_backward(x)
        return x.clamp(min=floor).log()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        loud = x > ctx.floor
        return grad_output * loud / x, None


# %% repair-color-table_1
"""Indexing with += reads all entries, adds, and writes them back, so if index + 1 contains an entry several times, only one of the additions survives. The upper weights have to be accumulated as the lower ones are."""
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


# %% repair-solver_1
"""reversed() returns an iterator, and an iterator can be consumed once. The first backward exhausts it, so the second backward on the same graph finds no steps and returns grad_output unchanged: nothing is popped, but the state on ctx still changes."""
WRONG = ["ctx.tape = reversed(list(enumerate(steps)))"]
RIGHT = ["ctx.tape = list(reversed(list(enumerate(steps))))"]
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
        ctx.tape = reversed(list(enumerate(steps)))
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        states = ctx.saved_tensors
        for i, h in ctx.tape:
            grad_output = grad_output * (1 - h * states[i].cos())
        return grad_output, None


# %% repair-dropout_1
"""Two mistakes. Forward has already drawn numbers from this generator, so backward continues its sequence and gets another mask: a new generator with the same seed would repeat it. And backward does not divide by 1 - p, although forward does."""
WRONG = ["ctx.generator = generator", "keep = draw(grad_output, ctx.p, ctx.generator)", "return grad_output * keep, None, None"]
RIGHT = ["ctx.seed = seed", "keep = draw(grad_output, ctx.p, torch.Generator(grad_output.device).manual_seed(ctx.seed))", "return grad_output * keep / (1 - ctx.p), None, None"]
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
        keep = draw(grad_output, ctx.p, ctx.generator)
        return grad_output * keep, None, None


# %% clipped-sign_1
"""The mask has to look at the latent x, but the output was saved. The output is always -1 or +1, so its absolute value is never above 1 and the gradient passes everywhere: this is the unclipped estimator."""
WRONG = ["ctx.save_for_backward(output)"]
RIGHT = ["ctx.save_for_backward(inputs[0])"]
NAME = "ClippedSignSTE"
EXERCISE = "clipped-sign"
# --- code
import torch
from torch.autograd import Function


class ClippedSignSTE(Function):
    @staticmethod
    def forward(x):
        return 2 * (x >= 0).to(x.dtype) - 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (v,) = ctx.saved_tensors
        return grad_output.masked_fill(v.abs() > 1, 0)


# %% ternary-ste_1
"""The surrogate is the mean of two clips, so its slope is half of the number of clips that pass: 0, 1/2 or 1. The logical or gives the full gradient also where only one of the two clips passes."""
WRONG = ["grad_x = grad_output * (upper | lower)"]
RIGHT = ["grad_x = grad_output * (upper.to(x.dtype) + lower.to(x.dtype)) / 2"]
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
        upper = (x - threshold).abs() <= 1
        lower = (x + threshold).abs() <= 1
        grad_x = grad_output * (upper | lower)
        half = grad_output / 2
        grad_threshold = (half * lower).sum() - (half * upper).sum()
        return grad_x, grad_threshold


# %% fake-quantize_1
"""The second factor of y = s * level depends on s only where the clamp is not active: there its derivative contributes -x/s. Outside of the bounds, the level is constant and the derivative with respect to s is just the level, but the code subtracts x/s everywhere."""
WRONG = ["d_step = level - v"]
RIGHT = ["d_step = level - v * inside"]
NAME = "FakeQuantize"
EXERCISE = "fake-quantize"
# --- code
import torch
from torch.autograd import Function


class FakeQuantize(Function):
    @staticmethod
    def forward(x, step, low, high):
        return step * (x / step).clamp(low, high).round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, ctx.low, ctx.high = inputs
        ctx.save_for_backward(x, step)

    @staticmethod
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        v = x / step
        inside = (v >= ctx.low) & (v <= ctx.high)
        level = v.clamp(ctx.low, ctx.high).round()
        d_step = level - v
        return grad_output * inside, (grad_output * d_step).sum(), None, None


# %% sinh-by-output_1
"""output.detach() is a second tensor with the same values, so autograd does not recognize it as the output and treats it as a constant in backward. The first derivative is right, but the second one misses the path through y. save_for_backward can save the output itself without a reference cycle."""
WRONG = ["ctx.save_for_backward(output.detach())"]
RIGHT = ["ctx.save_for_backward(output)"]
NAME = "Sinh"
EXERCISE = "sinh-by-output"
# --- code
import torch
from torch.autograd import Function


class Sinh(Function):
    @staticmethod
    def forward(x):
        return x.sinh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output.detach())

    @staticmethod
    def backward(ctx, grad_output):
        (sinh,) = ctx.saved_tensors
        cosh = (1 + sinh.square()).sqrt()
        return grad_output * cosh


# %% gradient-penalty_1
"""The derivative of the square root is infinite at 0. Where the critic is flat, the sum of squares is 0, and differentiating the penalty gives inf * 0 = nan in the gradient of the parameters. torch's norm uses the subgradient 0 there."""
WRONG = ["lengths = slopes.reshape(len(x), -1).pow(2).sum(1).sqrt()"]
RIGHT = ["lengths = torch.linalg.vector_norm(slopes.reshape(len(x), -1), dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    samples = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        score = critic(samples).sum()
        (slopes,) = torch.autograd.grad(score, samples, create_graph=True)
        lengths = slopes.reshape(len(x), -1).pow(2).sum(1).sqrt()
        return ((lengths - 1) ** 2).mean()


# %% repair-hessian_1
"""The softmax is also an intermediate of forward, so autograd treats the saved probabilities as constants and the Hessian is still zero. Backward has to recompute the softmax from the saved input."""
WRONG = ["ctx.save_for_backward(logits.softmax(-1), target)", "p, target = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(logits, target)", "logits, target = ctx.saved_tensors\np = logits.softmax(-1)"]
NAME = "CrossEntropy"
EXERCISE = "repair-hessian"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class CrossEntropy(Function):
    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits.softmax(-1), target)
        picked = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return torch.logsumexp(logits, -1) - picked

    @staticmethod
    def backward(ctx, grad_output):
        p, target = ctx.saved_tensors
        slope = p - F.one_hot(target, p.shape[-1])
        return slope * grad_output.unsqueeze(-1), None


# %% packed-leaky-relu_1
"""torch's sum of a uint8 tensor returns int64, so each packed byte is saved as an integer of eight bytes. The gradients are right, but the mask takes one byte per element instead of one bit."""
WRONG = ["packed = (bits.reshape(-1, 8) * powers).sum(1)"]
RIGHT = ["packed = (bits.reshape(-1, 8) * powers).sum(1, dtype=torch.uint8)"]
NAME = "PackedLeakyReLU"
EXERCISE = "packed-leaky-relu"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class PackedLeakyReLU(Function):
    @staticmethod
    def forward(ctx, x, slope):
        positive = x > 0
        bits = F.pad(positive.reshape(-1).to(torch.uint8), (0, -x.numel() % 8))
        powers = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=x.device)
        packed = (bits.reshape(-1, 8) * powers).sum(1)
        ctx.save_for_backward(packed)
        ctx.slope, ctx.shape, ctx.count = slope, x.shape, x.numel()
        return torch.where(positive, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        powers = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=packed.device)
        bits = (packed.unsqueeze(1) & powers) != 0
        positive = bits.reshape(-1)[: ctx.count].reshape(ctx.shape)
        return torch.where(positive, grad_output, ctx.slope * grad_output), None


# %% invertible-coupling_1
"""y1 reaches the loss directly and through y2, so the gradient that goes back through the first line is total = grad_y1 + d2 @ v.T. The path from x2 and w uses only grad_y1, so it misses the part of the loss that y1 affects through y2 (x1 gets it)."""
WRONG = ["d1 = grad_y1 * (1 - t1**2)"]
RIGHT = ["d1 = total * (1 - t1**2)"]
NAME = "Coupling"
EXERCISE = "invertible-coupling"
# --- code
import torch
from torch.autograd import Function


class Coupling(Function):
    @staticmethod
    def forward(x1, x2, w, v):
        y1 = x1 + torch.tanh(x2 @ w)
        return y1, x2 + torch.tanh(y1 @ v)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*output, *inputs[2:])

    @staticmethod
    def backward(ctx, grad_y1, grad_y2):
        y1, y2, w, v = ctx.saved_tensors
        t2 = torch.tanh(y1 @ v)
        x2 = y2 - t2
        d2 = grad_y2 * (1 - t2**2)
        total = grad_y1 + d2 @ v.T
        t1 = torch.tanh(x2 @ w)
        d1 = grad_y1 * (1 - t1**2)
        return total, grad_y2 + d1 @ w.T, x2.T @ d1, y1.T @ d2


# %% chunked-row-losses_1
"""The gradient of the logits is g * (softmax - one-hot), so the one-hot also has to be multiplied by the gradient of its row. Here the softmax has already been multiplied by g when 1 is subtracted, which is right only for rows with g = 1."""
WRONG = ["slope[torch.arange(len(t), device=t.device), t] -= 1"]
RIGHT = ["slope[torch.arange(len(t), device=t.device), t] -= g"]
NAME = "RowLosses"
EXERCISE = "chunked-row-losses"
# --- code
import torch
from torch.autograd import Function


class RowLosses(Function):
    @staticmethod
    def forward(ctx, x, weight, target, chunk):
        losses = x.new_empty(len(x))
        norms = x.new_empty(len(x))
        for start in range(0, len(x), chunk):
            part = slice(start, start + chunk)
            z = x[part] @ weight.T
            norms[part] = torch.logsumexp(z, 1)
            losses[part] = norms[part] - z.gather(1, target[part, None])[:, 0]
        ctx.save_for_backward(x, weight, target, norms)
        ctx.chunk = chunk
        return losses

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, target, norms = ctx.saved_tensors
        grad_x, grad_weight = torch.zeros_like(x), torch.zeros_like(weight)
        for start in range(0, len(x), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            g, t = grad_output[part], target[part]
            slope = torch.exp(x[part] @ weight.T - norms[part, None]) * g[:, None]
            slope[torch.arange(len(t), device=t.device), t] -= 1
            grad_x[part] = slope @ weight
            grad_weight += slope.T @ x[part]
        return grad_x, grad_weight, None, None


# %% attention-forward_1
"""In a row without a visible key, all scores and their maximum are -inf, and -inf - (-inf) is nan before the sum is even formed. Guarding the division by zero comes too late: the maximum has to be finite."""
WRONG = ["top = scores.amax(-1, keepdim=True)"]
RIGHT = ["top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)"]
NAME = "attend"
EXERCISE = "attention-forward"
# --- code
import math

import torch


def attend(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(mask.logical_not(), -math.inf)
        else:
            scores = scores + mask
    top = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    total = torch.where(total == 0, torch.ones_like(total), total)
    return weights @ v / total


# %% attention-backward_1
"""Forward saved the queries after scaling, so the product with them already contains the factor 1 / sqrt(E). Multiplying by the scale again makes the gradient of k too small by another factor sqrt(E). Only the gradient of the unscaled q needs the explicit factor."""
WRONG = ["dk = ds.mT @ qs * ctx.scale"]
RIGHT = ["dk = ds.mT @ qs"]
NAME = "Attention"
EXERCISE = "attention-backward"
# --- code
import torch
from torch.autograd import Function


class Attention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        ctx.scale = q.shape[-1] ** -0.5
        qs = q * ctx.scale
        s = qs @ k.mT
        if mask is None:
            p = s.softmax(-1)
        else:
            p = s.masked_fill(~mask, float("-inf")).softmax(-1).nan_to_num(0.0)
        ctx.save_for_backward(qs, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, do):
        qs, k, v, p = ctx.saved_tensors
        dv = p.mT @ do
        dp = do @ v.mT
        ds = p * (dp - (dp * p).sum(-1, keepdim=True))
        dq = ds @ k * ctx.scale
        dk = ds.mT @ qs * ctx.scale
        return dq, dk, dv, None


# %% attention-grouped_1
"""repeat_interleave puts the copies of one key head next to each other, so the H heads split into (G, H / G) and the sum goes over the second of these dims. Splitting them into (H / G, G) adds the gradients of heads that read different key heads."""
WRONG = ["return heads.unflatten(-3, (-1, groups)).sum(-4)"]
RIGHT = ["return heads.unflatten(-3, (groups, -1)).sum(-3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


def spread(t, heads):
    return t.repeat_interleave(heads // t.shape[-3], dim=-3)


def collect(heads, groups):
    return heads.unflatten(-3, (-1, groups)).sum(-4)


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        heads = q.shape[-3]
        s = q @ spread(k, heads).mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(s, -1, keepdim=True)
        out = torch.exp(s - lse) @ spread(v, heads)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        heads, groups = q.shape[-3], k.shape[-3]
        kk, vv = spread(k, heads), spread(v, heads)
        root = math.sqrt(q.shape[-1])
        p = torch.exp(q @ kk.mT / root - lse)
        d = (grad_output * out).sum(-1, keepdim=True)
        ds = p * (grad_output @ vv.mT - d) / root
        return ds @ kk, collect(ds.mT @ q, groups), collect(p.mT @ grad_output, groups)


# %% batch-norm_1
"""torch's var divides by m - 1 unless it is told otherwise, while forward uses the biased variance. So backward multiplies by a slightly too small 1 / sqrt(v + eps), which shows most with few elements per channel."""
WRONG = ["scale = (x.var(dims, keepdim=True) + ctx.eps).rsqrt()"]
RIGHT = ["scale = (x.var(dims, correction=0, keepdim=True) + ctx.eps).rsqrt()"]
NAME = "BatchNorm"
EXERCISE = "batch-norm"
# --- code
import torch
from torch.autograd import Function


def all_but_channels(t):
    return [d for d in range(t.dim()) if d != 1]


class BatchNorm(Function):
    @staticmethod
    def forward(x, eps):
        dims = all_but_channels(x)
        centered = x - x.mean(dims, keepdim=True)
        return centered / torch.sqrt(centered.square().mean(dims, keepdim=True) + eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.eps = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        dims = all_but_channels(x)
        scale = (x.var(dims, keepdim=True) + ctx.eps).rsqrt()
        mean_g = grad_output.mean(dims, keepdim=True)
        mean_gy = (grad_output * y).mean(dims, keepdim=True)
        return scale * (grad_output - mean_g - y * mean_gy), None


# %% conv1d_1
"""For padding 0, the slice 0:-0 is 0:0, which is empty, so the gradient of x has no elements at all. The end of the slice has to be counted from the front: padding + length."""
WRONG = ["grad_x = grad_padded[..., ctx.padding : -ctx.padding]"]
RIGHT = ["grad_x = grad_padded[..., ctx.padding : ctx.padding + x.shape[-1]]"]
NAME = "Conv1d"
EXERCISE = "conv1d"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class Conv1d(Function):
    @staticmethod
    def forward(x, weight, stride, padding, groups):
        padded = F.pad(x, (padding, padding)).unflatten(1, (groups, -1))
        windows = padded.unfold(-1, weight.shape[-1], stride)
        w = weight.unflatten(0, (groups, -1))
        return torch.einsum("ngctk,gock->ngot", windows, w).flatten(1, 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.stride, ctx.padding, ctx.groups = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        g = grad_output.unflatten(1, (ctx.groups, -1))
        w = weight.unflatten(0, (ctx.groups, -1))
        padded = F.pad(x, (ctx.padding, ctx.padding)).unflatten(1, (ctx.groups, -1))
        windows = padded.unfold(-1, weight.shape[-1], ctx.stride)
        grad_weight = torch.einsum("ngctk,ngot->gock", windows, g).flatten(0, 1)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, w)
        grad_padded = torch.zeros_like(padded)
        for t in range(g.shape[-1]):
            first = t * ctx.stride
            grad_padded[..., first : first + weight.shape[-1]] += grad_windows[..., t, :]
        grad_padded = grad_padded.flatten(1, 2)
        grad_x = grad_padded[..., ctx.padding : -ctx.padding]
        return grad_x, grad_weight, None, None, None


# %% complex-multiply_1
"""In PyTorch's convention, the gradient is g times the conjugate of the other factor. Here the whole product is conjugated, including g, so the imaginary part has the wrong sign unless g is real (then both expressions agree)."""
WRONG = ["full = (g * other).conj()"]
RIGHT = ["full = g * other.conj()"]
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
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        def pull_back(g, other, like):
            full = (g * other).conj()
            return full if like.is_complex() else full.real

        z, w = ctx.saved_tensors
        return pull_back(grad_output, w, z), pull_back(grad_output, z, w)


# %% gumbel-hard_1
"""one_hot returns integers (int64). The output has to have the dtype of the logits: integers are not differentiable in PyTorch, so no gradient can arrive at backward."""
WRONG = ["return F.one_hot(winner, logits.shape[-1])"]
RIGHT = ["return F.one_hot(winner, logits.shape[-1]).to(logits.dtype)"]
NAME = "HardGumbelSoftmax"
EXERCISE = "gumbel-hard"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        winner = torch.argmax(logits + noise, dim=-1)
        return F.one_hot(winner, logits.shape[-1])

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise, ctx.tau = inputs
        ctx.save_for_backward(logits, noise)

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise = ctx.saved_tensors
        soft = F.softmax((logits + noise) / ctx.tau, dim=-1)
        inner = (soft * grad_output).sum(dim=-1, keepdim=True)
        return soft * (grad_output - inner) / ctx.tau, None, None


# %% reinmax_1
"""Only the probabilities must not contain the noise; y is the sample that forward drew, with the noise. Backward recomputes y from the logits alone, so it averages with the most probable class instead of the drawn one. The output has to be saved."""
WRONG = ["ctx.save_for_backward(inputs[0])", "(logits,) = ctx.saved_tensors", "y = pick(logits)"]
RIGHT = ["ctx.save_for_backward(inputs[0], output)", "logits, drawn = ctx.saved_tensors", "y = drawn"]
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
from torch.autograd import Function


def pick(scores):
    best = scores.argmax(-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, best, 1.0)


def J(q, g):
    return q * (g - (g * q).sum(-1, keepdim=True))


class ReinMax(Function):
    @staticmethod
    def forward(logits, noise):
        return pick(logits + noise)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, grad_output):
        (logits,) = ctx.saved_tensors
        y = pick(logits)
        p = logits.softmax(-1)
        return 2 * J((p + y) / 2, grad_output) - J(p, grad_output) / 2, None


# %% split-rms-norm_1
"""apply now returns two tensors, so backward receives one gradient for each output, also for one that is marked as non-differentiable. A backward with a single gradient argument raises a TypeError as soon as the engine calls it."""
WRONG = ["def backward(ctx, grad_y):"]
RIGHT = ["def backward(ctx, grad_y, grad_rstd):"]
NAME = "RMSNorm"
EXERCISE = "split-rms-norm"
# --- code
import torch
from torch.autograd import Function


class RMSNorm(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight, eps):
        rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        return weight * (x * rstd), rstd

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        _, rstd = output
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(x, weight, rstd)

    @staticmethod
    def backward(ctx, grad_y):
        x, weight, rstd = ctx.saved_tensors
        unit = x * rstd
        g = grad_y * weight
        grad_x = rstd * (g - unit * (g * unit).mean(-1, keepdim=True))
        grad_weight = (grad_y * unit).reshape(-1, x.shape[-1]).sum(0)
        return grad_x, grad_weight, None


# %% jvp-smooth-maximum_1
"""Forward mode pushes one tangent to each output, so every row keeps its own change with the temperature. The sum belongs to backward, where the one temperature collects from all rows. Here it gives every row the total of all rows, and broadcasting hides it."""
WRONG = ["by_t = ((y - (p * x).sum(-1)) / t * t_tangent).sum()"]
RIGHT = ["by_t = (y - (p * x).sum(-1)) / t * t_tangent"]
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
        ctx.save_for_backward(*inputs, output)
        ctx.save_for_forward(*inputs, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        return p * grad_output[..., None], (grad_output * (y - (p * x).sum(-1)) / t).sum()

    @staticmethod
    def jvp(ctx, x_tangent, t_tangent):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        by_x = (p * x_tangent).sum(-1)
        by_t = ((y - (p * x).sum(-1)) / t * t_tangent).sum()
        return by_x + by_t


# %% repair-autocast_1
"""The decorators act only on the autocast of the device type that they name. With "cuda", they change nothing under the autocast of the CPU, so the scores are still computed in bfloat16. The tensors here are on the CPU."""
WRONG = ["@torch.amp.custom_fwd(device_type=\"cuda\", cast_inputs=torch.float32)", "@torch.amp.custom_bwd(device_type=\"cuda\")"]
RIGHT = ["@torch.amp.custom_fwd(device_type=\"cpu\", cast_inputs=torch.float32)", "@torch.amp.custom_bwd(device_type=\"cpu\")"]
NAME = "Contrast"
EXERCISE = "repair-autocast"
# --- code
import torch
from torch.autograd import Function


class Contrast(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, q, k, temperature):
        ctx.save_for_backward(q, k)
        ctx.temperature = temperature
        scores = q @ k.t() / temperature
        return torch.logsumexp(scores, 1) - scores.diagonal()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad_output):
        q, k = ctx.saved_tensors
        slope = torch.softmax(q @ k.t() / ctx.temperature, 1)
        slope = (slope - torch.eye(len(q), dtype=q.dtype, device=q.device)) * grad_output[:, None]
        return slope @ k / ctx.temperature, slope.t() @ q / ctx.temperature, None


# %% equilibrium-layer_1
"""Forward multiplies a row by W.T, so backward has to multiply by its transpose, W. With W.T, the adjoint equation is that of another layer. It converges to a wrong gradient, and only a symmetric W hides it."""
WRONG = ["u = settled(lambda u: slope * (grad_output + u @ W.T), slope * grad_output)"]
RIGHT = ["u = settled(lambda u: slope * (grad_output + u @ W), slope * grad_output)"]
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
        return settled(lambda z: torch.tanh(z @ W.T + x), torch.zeros_like(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1], output)

    @staticmethod
    def backward(ctx, grad_output):
        W, z = ctx.saved_tensors
        slope = 1 - z * z
        u = settled(lambda u: slope * (grad_output + u @ W.T), slope * grad_output)
        return u, u.T @ z


# %% triangular-solve_1
"""The transpose of a lower triangular matrix is an upper triangular one, so the system in backward needs the opposite flag. With the flag of forward, the solver reads the half that must never be read (zeros or old values) instead of the triangle."""
WRONG = ["lam = torch.linalg.solve_triangular(T.mT, grad_output, upper=not ctx.lower)"]
RIGHT = ["lam = torch.linalg.solve_triangular(T.mT, grad_output, upper=ctx.lower)"]
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
        T, _, ctx.lower = inputs
        ctx.save_for_backward(T, output)

    @staticmethod
    def backward(ctx, grad_output):
        T, X = ctx.saved_tensors
        lam = torch.linalg.solve_triangular(T.mT, grad_output, upper=not ctx.lower)
        grad_T = -lam @ X.mT
        grad_T = grad_T.tril() if ctx.lower else grad_T.triu()
        return grad_T, lam, None


# %% soft-threshold-function_1
"""A larger threshold moves positive outputs down and negative outputs up, so dy/dt is -sign(y). The mask y != 0 gives -1 for the negative ones too, and the gradient of the threshold has the wrong sign for them."""
WRONG = ["grad_t = -(grad_output * moved).sum()"]
RIGHT = ["grad_t = -(grad_output * y.sign()).sum()"]
NAME = "SoftThreshold"
EXERCISE = "soft-threshold-function"
# --- code
import torch
from torch.autograd import Function


class SoftThreshold(Function):
    @staticmethod
    def forward(x, threshold):
        return torch.relu(x - threshold) - torch.relu(-x - threshold)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.shape = inputs[1].shape
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        moved = (y != 0).to(y.dtype)
        grad_t = -(grad_output * moved).sum()
        return grad_output * moved, grad_t.reshape(ctx.shape)


# %% any-batch_1
"""model.train(mode) sets the mode of every layer to the mode of the whole model. A layer that was in another mode before, such as a frozen dropout or batch norm in eval mode, is switched to training. The mode of each module has to be stored and restored separately."""
WRONG = ["was_training = model.training", "model.train(was_training)"]
RIGHT = ["modes = {m: m.training for m in model.modules()}", "for m, mode in modes.items():\n    m.training = mode"]
NAME = "ship"
EXERCISE = "any-batch"
# --- code
import torch


def ship(model, example):
    was_training = model.training
    model.eval()
    try:
        batch = torch.export.Dim("batch")
        program = torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
    finally:
        model.train(was_training)
    return program


# %% eight-bits_1
"""Only the rounding is straight-through here. The scale still depends on the weight, so the largest element of each row gets an additional gradient through the multiplication and the division by the scale. The whole computation, including the scale, has to be detached."""
WRONG = ["scale = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=tiny)"]
RIGHT = ["scale = (weight.detach().abs().amax(1, keepdim=True) / 127.5).clamp(min=tiny)"]
NAME = "eight_bits"
EXERCISE = "eight-bits"
# --- code
import torch


def eight_bits(weight):
    tiny = torch.finfo(weight.dtype).eps
    scale = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=tiny)
    v = weight / scale
    rounding = (v.round().clamp(-128, 127) - v).detach()
    return scale * (v + rounding)
