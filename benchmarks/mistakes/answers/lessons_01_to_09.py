"""Mistakes: held out, exercises of lessons 01 to 09. Each cell is a separate module; see benchmarks/repairs.py."""

# %% clipped-relu_1
"""The mask compares the saved output with both bounds inclusively. The output has already been clamped, so it always lies in [0, ceiling] and the mask is True everywhere: the gradient also passes where x is below 0 or above the ceiling."""
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


# %% linear_1
"""If x has no leading dimension, the tuple of dims is empty, and sum over an empty tuple of dims adds up all elements in PyTorch. The gradient of the bias is then one number instead of a vector of shape (out,)."""
WRONG = ["grad_bias = grad_output.sum(tuple(range(grad_output.dim() - 1)))"]
RIGHT = ["grad_bias = grad_output.reshape(-1, weight.shape[0]).sum(0)"]
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
        grad_x = grad_output @ weight
        rows = grad_output.reshape(-1, weight.shape[0])
        grad_weight = rows.t() @ x.reshape(-1, weight.shape[1])
        grad_bias = None
        if ctx.has_bias:
            grad_bias = grad_output.sum(tuple(range(grad_output.dim() - 1)))
        return grad_x, grad_weight, grad_bias


# %% to-polar_1
"""atan(y / x) loses the quadrant: for x < 0 the angle is off by pi, so the output theta is wrong there (and nan at x = y = 0). Its derivatives are the same as those of atan2, so backward is right and only the values of forward are wrong."""
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
        r = torch.hypot(x, y)
        theta = torch.atan(y / x)
        ctx.save_for_backward(x, y, r)
        return r, theta

    @staticmethod
    def backward(ctx, grad_r, grad_theta):
        x, y, r = ctx.saved_tensors
        grad_x = grad_r * x / r - grad_theta * y / r**2
        grad_y = grad_r * y / r + grad_theta * x / r**2
        return grad_x, grad_y


# %% sort-with-indices_1
"""The inverse of a permutation is its ascending argsort, however the permutation was made. With descending=True, the argsort is also descending, so it gives the inverse in reverse order, and every gradient goes to the wrong element."""
WRONG = ["inverse = indices.argsort(-1, descending=ctx.descending)"]
RIGHT = ["inverse = indices.argsort(-1)"]
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
        ctx.descending = inputs[1]
        _, indices = output
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)

    @staticmethod
    def backward(ctx, grad_values, grad_indices):
        (indices,) = ctx.saved_tensors
        inverse = indices.argsort(-1, descending=ctx.descending)
        return grad_values.gather(-1, inverse), None


# %% strided-gain_1
"""Outside training, forward returns the slice itself. A slice is a view of x and not a new tensor, so the output shares memory with x and the caller must not change it in place; the product in training hides this, because it is a new tensor."""
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
            return gain * kept
        return kept

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


# %% strided-gain_2
"""The conditions for saving are exchanged: the gradient of x needs the gain, and the gradient of the gain needs x. If only one of the two requires a gradient, the tensor that backward needs was not saved (it is None), and backward fails."""
WRONG = [
    "x if ctx.needs_input_grad[0] else None,",
    "gain if ctx.needs_input_grad[1] else None,",
]
RIGHT = [
    "x if ctx.needs_input_grad[1] else None,",
    "gain if ctx.needs_input_grad[0] else None,",
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
        return kept * gain if training else kept.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gain, ctx.stride, ctx.training = inputs
        ctx.x_shape, ctx.gain_shape = x.shape, gain.shape
        if ctx.training:
            ctx.save_for_backward(
                x if ctx.needs_input_grad[0] else None,
                gain if ctx.needs_input_grad[1] else None,
            )

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = grad_gain = None
        x, gain = ctx.saved_tensors if ctx.training else (None, None)
        if ctx.needs_input_grad[0]:
            kept = grad_output * gain if ctx.training else grad_output
            grad_x = torch.zeros(ctx.x_shape, dtype=kept.dtype, device=kept.device)
            grad_x[..., :: ctx.stride] = kept
        if ctx.needs_input_grad[1] and ctx.training:
            grad_gain = grad_output * x[..., :: ctx.stride]
        return grad_x, grad_gain, None, None


# %% frozen-target_1
"""The loss is divided by the sum of the weights, as in a weighted mean. The formula divides by N, the number of elements, so both the loss and its gradient have the wrong scale unless the weights add up to N."""
WRONG = [
    "return (weight * (prediction - target) ** 2).sum() / weight.sum()",
    "scale = 2 * grad_output / weight.sum()",
]
RIGHT = [
    "return (weight * (prediction - target) ** 2).sum() / weight.numel()",
    "scale = 2 * grad_output / weight.numel()",
]
NAME = "FrozenTargetLoss"
EXERCISE = "frozen-target"
# --- code
import torch
from torch.autograd import Function


class FrozenTargetLoss(Function):
    @staticmethod
    def forward(prediction, target, weight):
        return (weight * (prediction - target) ** 2).sum() / weight.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        if not ctx.needs_input_grad[0]:
            return None, None, None
        prediction, target, weight = ctx.saved_tensors
        scale = 2 * grad_output / weight.sum()
        return scale * weight * (prediction - target), None, None


# %% gather-rows_1
"""one_hot without the number of classes takes it from the largest index that occurs. If the last rows of the table are never read, the gradient has too few rows and not the shape of the table."""
WRONG = ["hits = F.one_hot(index.flatten())"]
RIGHT = ["hits = F.one_hot(index.flatten(), ctx.shape[0])"]
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
        ctx.shape = table.shape
        ctx.save_for_backward(index)

    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        hits = F.one_hot(index.flatten())
        rows = grad_output.reshape(-1, ctx.shape[1])
        return hits.to(rows.dtype).t() @ rows, None


# %% broadcast-multiply_1
"""The helper concludes from an equal number of elements that nothing was broadcast. Broadcasting can also add dims of length 1: for shapes (3,) and (1, 3), the gradient of the vector is returned with the shape (1, 3)."""
WRONG = ["if gradient.numel() == math.prod(shape):"]
RIGHT = ["if gradient.shape == shape:"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import math

import torch
from torch.autograd import Function


def sum_to(gradient, shape):
    if gradient.numel() == math.prod(shape):
        return gradient
    extra = gradient.dim() - len(shape)
    if extra > 0:
        gradient = gradient.sum(tuple(range(extra)))
    for dim, size in enumerate(shape):
        if size == 1:
            gradient = gradient.sum(dim, keepdim=True)
    return gradient


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
        return sum_to(grad_output * y, x.shape), sum_to(grad_output * x, y.shape)


# %% max-with-ties_1
"""isclose also counts elements that are only close to the maximum. The maximum is a copy of an element, so == is exact here; with isclose, an element that is slightly smaller takes a share of the gradient, although only equal maxima may."""
WRONG = ["ties = torch.isclose(x, top)"]
RIGHT = ["ties = x == top"]
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
        x, ctx.dim, ctx.keepdim = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, top = ctx.saved_tensors
        if not ctx.keepdim:
            top = top.unsqueeze(ctx.dim)
            grad_output = grad_output.unsqueeze(ctx.dim)
        ties = torch.isclose(x, top)
        count = ties.sum(ctx.dim, keepdim=True)
        return grad_output * ties / count, None, None


# %% soft-rank_1
"""The comparison of an element with itself is constant, so its derivative must vanish. In the matrix of slopes, the diagonal appears in both paths and cancels; here it is removed from the path of the own rank only, so each gradient is too small by g / (4 tau)."""
WRONG = ["own = grad_output * (slope.sum(-1) - 0.25 / ctx.tau)"]
RIGHT = ["own = grad_output * slope.sum(-1)"]
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
        own = grad_output * (slope.sum(-1) - 0.25 / ctx.tau)
        others = (grad_output.unsqueeze(-1) * slope).sum(-2)
        return own - others, None


# %% swish_1
"""Only the sigmoid is saved, and x is recovered with logit. The sigmoid rounds to exactly 1 (or 0) for large |x|, so logit returns inf there, and inf times 0 makes the gradient nan. x has to be saved instead."""
WRONG = [
    "ctx.save_for_backward(torch.sigmoid(inputs[0]))",
    "(s,) = ctx.saved_tensors",
    "x = torch.logit(s)",
]
RIGHT = [
    "ctx.save_for_backward(inputs[0])",
    "(x,) = ctx.saved_tensors",
    "s = torch.sigmoid(x)",
]
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
        ctx.save_for_backward(torch.sigmoid(inputs[0]))

    @staticmethod
    def backward(ctx, grad_output):
        (s,) = ctx.saved_tensors
        x = torch.logit(s)
        return grad_output * (s + x * s * (1 - s))


# %% repair-floor-log_1
"""The mask is multiplied with the gradient before the division by x. At complete silence x is exactly 0, and 0 / 0 is nan instead of 0; the division has to be masked (or divide by the clamped x)."""
WRONG = ["return grad_output * (x > ctx.floor) / x, None"]
RIGHT = ["return torch.where(x > ctx.floor, grad_output / x, torch.zeros_like(x)), None"]
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
        return grad_output * (x > ctx.floor) / x, None


# %% repair-distance_1
"""The new axis is inserted after the first dim, but the distances sum over the last dim, so it belongs at the end. This is the same only for a matrix; for a single row there is no dim to index, and for a batch of sequences the gradients are multiplied along the wrong dim or do not broadcast."""
WRONG = ["upstream = grad_output[:, None]"]
RIGHT = ["upstream = grad_output.unsqueeze(-1)"]
NAME = "Distance"
EXERCISE = "repair-distance"
# --- code
import torch
from torch.autograd import Function


class Distance(Function):
    @staticmethod
    def forward(ctx, x, target):
        ctx.save_for_backward(x, target)
        return (x - target).square().sum(-1) / 2

    @staticmethod
    def backward(ctx, grad_output):
        x, target = ctx.saved_tensors
        upstream = grad_output[:, None]
        return (x - target) * upstream, (target - x) * upstream


# %% repair-rotation_1
"""contiguous() does not change the tensor, it returns a contiguous copy, and this result is thrown away. as_strided still reads the original grad_output in the order of its storage, so a gradient with other strides is still read wrongly."""
WRONG = ["grad_output.contiguous()"]
RIGHT = ["grad_output = grad_output.contiguous()"]
NAME = "Rotate"
EXERCISE = "repair-rotation"
# --- code
import math

import torch
from torch.autograd import Function


def turn(like, angle):
    c, s = math.cos(angle), math.sin(angle)
    return like.new_tensor([[c, s], [-s, c]])


class Rotate(Function):
    @staticmethod
    def forward(ctx, x, angle):
        ctx.angle = angle
        return x @ turn(x, angle)

    @staticmethod
    def backward(ctx, grad_output):
        grad_output.contiguous()
        rows = grad_output.as_strided((grad_output.numel() // 2, 2), (2, 1))
        return (rows @ turn(rows, -ctx.angle)).view(grad_output.shape), None


# %% repair-solver_1
"""tape is a second name for the list in ctx, not a copy. Each pop still empties the list in ctx, so a second backward through the same graph finds no steps and returns grad_output unchanged."""
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


# %% repair-dropout_1
"""backward reuses the generator object of forward. Its state has moved on since it drew the first mask, so the second draw gives a different mask; the generator must be seeded again (or the mask saved)."""
WRONG = ["generator = ctx.generator"]
RIGHT = ["generator = torch.Generator(grad_output.device).manual_seed(ctx.seed)"]
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
        ctx.seed = seed
        ctx.generator = generator
        return x * draw(x, p, generator) / (1 - p)

    @staticmethod
    def backward(ctx, grad_output):
        generator = ctx.generator
        return grad_output * draw(grad_output, ctx.p, generator) / (1 - ctx.p), None, None


# %% sign-ste_1
"""copysign reads the sign bit, so it gives -1 for a negative zero. The output at exactly 0 has to be +1 whatever the sign of that zero; a comparison x >= 0 treats both zeros alike."""
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
        return grad_output


# %% ternary-ste_1
"""The lower jump is treated as a mirror image of the upper one, so x = -t gives -1. The definition says -t <= x < t gives 0: the sign of 0 is +1 at both jumps, so the lower comparison has to be strict."""
WRONG = ["return (x >= threshold).to(x.dtype) - (x <= -threshold).to(x.dtype)"]
RIGHT = ["return (x >= threshold).to(x.dtype) - (x < -threshold).to(x.dtype)"]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x, threshold):
        return (x >= threshold).to(x.dtype) - (x <= -threshold).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, threshold = ctx.saved_tensors
        upper = ((x - threshold).abs() <= 1) * 0.5 * grad_output
        lower = ((x + threshold).abs() <= 1) * 0.5 * grad_output
        return upper + lower, (lower - upper).sum()


# %% fake-quantize_1
"""The gradient of the step subtracts the clamped ratio everywhere. Where x/s is outside the bounds, the clamp is constant in s, so only the factor s contributes and the slope is the level itself (low or high); here level - clamped is 0 there, so clipped elements give the step no gradient."""
WRONG = ["grad_step = (grad_output * (level - clamped)).sum()"]
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
        clamped = ratio.clamp(ctx.low, ctx.high)
        level = clamped.round()
        inside = (ratio >= ctx.low) & (ratio <= ctx.high)
        grad_step = (grad_output * (level - clamped)).sum()
        return grad_output * inside, grad_step.reshape(step.shape), None, None


# %% fake-quantize_2
"""The mask tests the rounded ratio, as if the rounding came before the clamp. A ratio up to half a level outside the bounds rounds to a bound and counts as inside, so x gets a gradient there, and the gradient of the step is wrong too."""
WRONG = ["inside = (nearest >= ctx.low) & (nearest <= ctx.high)"]
RIGHT = ["inside = (ratio >= ctx.low) & (ratio <= ctx.high)"]
NAME = "FakeQuantize"
EXERCISE = "fake-quantize"
# --- code
import torch
from torch.autograd import Function


class FakeQuantize(Function):
    @staticmethod
    def forward(x, step, low, high):
        return step * torch.round(x / step).clamp(low, high)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, low, high = inputs
        ctx.save_for_backward(x, step)
        ctx.low, ctx.high = low, high

    @staticmethod
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        ratio = x / step
        nearest = ratio.round()
        level = nearest.clamp(ctx.low, ctx.high)
        inside = (nearest >= ctx.low) & (nearest <= ctx.high)
        slope = torch.where(inside, level - ratio, level)
        return grad_output * inside, (grad_output * slope).sum(), None, None


# %% hessian-vector-product_1
"""If f is linear in an input, the gradient of this input can be a constant that has no graph, and torch.autograd.grad refuses to differentiate it, because it does not require a gradient. materialize_grads only fills in zeros for inputs that are not reached, not for outputs without a graph."""
WRONG = ["return torch.autograd.grad(grads, leaves, vectors, materialize_grads=True)"]
RIGHT = [
    "product = sum((g * v).sum() for g, v in zip(grads, vectors)) + 0 * sum(t.sum() for t in leaves)\nreturn torch.autograd.grad(product, leaves, materialize_grads=True)"
]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def hvp(f, inputs, vectors):
    leaves = tuple(t.detach().clone().requires_grad_() for t in inputs)
    value = f(*leaves)
    grads = torch.autograd.grad(value, leaves, create_graph=True, materialize_grads=True)
    return torch.autograd.grad(grads, leaves, vectors, materialize_grads=True)


# %% gradient-penalty_1
"""The derivative of sqrt is infinite at 0. Where the critic is flat, the sum of squares is 0, and inf times 0 makes the gradient of the critic's parameters nan; torch.linalg.vector_norm uses the slope 0 there."""
WRONG = ["norms = gradient.flatten(1).square().sum(1).sqrt()"]
RIGHT = ["norms = torch.linalg.vector_norm(gradient.flatten(1), dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    points = x.detach().clone().requires_grad_()
    scores = critic(points)
    (gradient,) = torch.autograd.grad(scores.sum(), points, create_graph=True)
    norms = gradient.flatten(1).square().sum(1).sqrt()
    return (norms - 1).square().mean()


# %% repair-hessian_1
"""The saved log-sum-exp is an intermediate of forward, neither input nor output, so it is a constant in the second derivative. The path through it is missing, and the Hessian is diag(p) instead of diag(p) - p p^T; the softmax has to be computed from the logits alone."""
WRONG = ["p = torch.exp(logits - total.unsqueeze(-1))"]
RIGHT = ["p = torch.softmax(logits, -1)"]
NAME = "CrossEntropy"
EXERCISE = "repair-hessian"
# --- code
import torch
from torch.autograd import Function


class CrossEntropy(Function):
    @staticmethod
    def forward(ctx, logits, target):
        picked = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        total = torch.logsumexp(logits, -1)
        ctx.save_for_backward(logits, target, total)
        return total - picked

    @staticmethod
    def backward(ctx, grad_output):
        logits, target, total = ctx.saved_tensors
        p = torch.exp(logits - total.unsqueeze(-1))
        onehot = torch.nn.functional.one_hot(target, logits.shape[-1])
        return (p - onehot) * grad_output.unsqueeze(-1), None


# %% packed-leaky-relu_1
"""If the number of elements is already a multiple of 8, the padding is 8 instead of 0, so a whole unnecessary byte is packed and saved. The gradients are right, but the mask is larger than one bit per element rounded up."""
WRONG = ["padding = 8 - flat.numel() % 8"]
RIGHT = ["padding = -flat.numel() % 8"]
NAME = "PackedLeakyReLU"
EXERCISE = "packed-leaky-relu"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class PackedLeakyReLU(Function):
    @staticmethod
    def forward(ctx, x, slope):
        mask = x > 0
        flat = mask.flatten().to(torch.uint8)
        padding = 8 - flat.numel() % 8
        bits = F.pad(flat, (0, padding)).reshape(-1, 8)
        shifts = torch.arange(8, dtype=torch.uint8, device=x.device)
        packed = (bits << shifts).sum(1, dtype=torch.uint8)
        ctx.save_for_backward(packed)
        ctx.shape = x.shape
        ctx.slope = slope
        return torch.where(mask, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
        bits = (packed.unsqueeze(1) >> shifts) & 1
        mask = bits.flatten()[: ctx.shape.numel()].reshape(ctx.shape).bool()
        return torch.where(mask, grad_output, ctx.slope * grad_output), None


# %% maximum-by-mask_1
"""Where a and b are equal, the saved sign is 0, and both comparisons are False, so neither input gets the gradient. The exercise lets you choose the receiver of a tie, but one of them has to receive it."""
WRONG = ["return grad_output * (side > 0), grad_output * (side < 0)"]
RIGHT = ["return grad_output * (side > 0), grad_output * (side <= 0)"]
NAME = "Maximum"
EXERCISE = "maximum-by-mask"
# --- code
import torch
from torch.autograd import Function


class Maximum(Function):
    @staticmethod
    def forward(a, b):
        return torch.where(a > b, a, b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b = inputs
        ctx.save_for_backward(torch.sign(a - b).to(torch.int8))

    @staticmethod
    def backward(ctx, grad_output):
        (side,) = ctx.saved_tensors
        return grad_output * (side > 0), grad_output * (side < 0)


# %% checkpointed-block_1
"""backward sets the random state back for the second run and never restores it. The mask of dropout is right, but after backward the global generator is where it was after the forward of this block, so later random numbers repeat earlier ones."""
WRONG = [
    "torch.set_rng_state(state)",
    "found = iter(torch.autograd.grad(y, wanted, grad_output, allow_unused=True))",
]
RIGHT = [
    "before = torch.get_rng_state()\ntorch.set_rng_state(state)",
    "torch.set_rng_state(before)\nfound = iter(torch.autograd.grad(y, wanted, grad_output, allow_unused=True))",
]
NAME = "checkpointed"
EXERCISE = "checkpointed-block"
# --- code
import torch
from torch.autograd import Function


def checkpointed(block, x):
    return Checkpointed.apply(block, x, *block.parameters())


class Checkpointed(Function):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block = block
        ctx.save_for_backward(x, torch.get_rng_state())
        return block(x)

    @staticmethod
    def backward(ctx, grad_output):
        x, state = ctx.saved_tensors
        needs = ctx.needs_input_grad[1:]
        x = x.detach().requires_grad_(needs[0])
        tensors = (x, *ctx.block.parameters())
        wanted = [tensor for tensor, needed in zip(tensors, needs) if needed]
        torch.set_rng_state(state)
        with torch.enable_grad():
            y = ctx.block(x)
        found = iter(torch.autograd.grad(y, wanted, grad_output, allow_unused=True))
        return (None, *[next(found) if needed else None for needed in needs])


# %% chunked-row-losses_1
"""The softmax is scaled by the gradient of its row first, and then 1 is subtracted at the target. The one-hot part belongs to the same slope and needs the same factor g_i, so the gradient is right only where g_i is 1 (for example for the loss y.sum())."""
WRONG = ["slope[torch.arange(len(slope), device=x.device), target[rows]] -= 1"]
RIGHT = ["slope[torch.arange(len(slope), device=x.device), target[rows]] -= grad_output[rows]"]
NAME = "RowLosses"
EXERCISE = "chunked-row-losses"
# --- code
import torch
from torch.autograd import Function


class RowLosses(Function):
    @staticmethod
    def forward(ctx, x, weight, target, chunk):
        lse = x.new_empty(len(x))
        picked = x.new_empty(len(x))
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
        grad_x = torch.empty_like(x)
        grad_weight = torch.zeros_like(weight)
        for start in range(0, len(x), ctx.chunk):
            rows = slice(start, start + ctx.chunk)
            slope = torch.exp(x[rows] @ weight.t() - lse[rows].unsqueeze(1))
            slope *= grad_output[rows].unsqueeze(1)
            slope[torch.arange(len(slope), device=x.device), target[rows]] -= 1
            grad_x[rows] = slope @ weight
            grad_weight += slope.t() @ x[rows]
        return grad_x, grad_weight, None, None


# %% masked-softmax_1
"""The maximum that is subtracted against overflow also covers the masked scores. If a masked score is much larger than the visible ones, all visible weights underflow to 0, the sum is 0, and the row is treated as fully masked."""
WRONG = ["top = s.amax(-1, keepdim=True)"]
RIGHT = [
    "top = s.masked_fill(~mask, -math.inf).amax(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).min)"
]
NAME = "MaskedSoftmax"
EXERCISE = "masked-softmax"
# --- code
import math

import torch
from torch.autograd import Function


class MaskedSoftmax(Function):
    @staticmethod
    def forward(s, mask):
        top = s.amax(-1, keepdim=True)
        weights = torch.exp(s - top).masked_fill(~mask, 0.0)
        total = weights.sum(-1, keepdim=True)
        return weights / total.masked_fill(total == 0, 1.0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (p,) = ctx.saved_tensors
        return p * (grad_output - (p * grad_output).sum(-1, keepdim=True)), None


# %% attention-forward_1
"""Queries that see no key are set to zero only for a boolean mask. A floating-point mask can also hide all keys of a query with -inf, and the softmax of a row of -inf is nan."""
WRONG = [
    "if mask is not None and mask.dtype == torch.bool:",
    "p = p.masked_fill(~mask.any(-1, keepdim=True), 0.0)",
]
RIGHT = [
    "if mask is not None:",
    "p = p.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0)",
]
NAME = "attend"
EXERCISE = "attention-forward"
# --- code
import math

import torch


def attend(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, -math.inf)
        else:
            scores = scores + mask
    p = torch.softmax(scores, -1)
    if mask is not None and mask.dtype == torch.bool:
        p = p.masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return p @ v


# %% merge-halves_1
"""Clamping the common maximum at 0 avoids -inf minus -inf, but it also raises the maximum of ordinary negative log-sum-exps. If both are around -1000, both weights underflow to 0, and the result is an output of zeros and -inf, as if the query saw no keys."""
WRONG = ["top = torch.maximum(lse_a, lse_b).clamp(min=0)"]
RIGHT = ["top = torch.maximum(lse_a, lse_b).clamp(min=torch.finfo(lse_a.dtype).min)"]
NAME = "merge"
EXERCISE = "merge-halves"
# --- code
import torch


def merge(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b).clamp(min=0)
    weight_a = torch.exp(lse_a - top)
    weight_b = torch.exp(lse_b - top)
    total = weight_a + weight_b
    mixed = weight_a * out_a + weight_b * out_b
    out = mixed / total.masked_fill(total == 0, 1.0)
    return out, top + torch.log(total)


# %% attention-grouped_1
"""The query heads of one group are neighbours, so the heads must be split as (groups, heads per group). Splitting them as (heads per group, groups) adds up the heads h, h + G, ..., so the gradients of k and v collect the heads of other groups."""
WRONG = ["return t.unflatten(-3, (t.shape[-3] // groups, groups)).sum(-4)"]
RIGHT = ["return t.unflatten(-3, (groups, t.shape[-3] // groups)).sum(-3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


def sum_heads(t, groups):
    return t.unflatten(-3, (t.shape[-3] // groups, groups)).sum(-4)


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        share = q.shape[-3] // k.shape[-3]
        keys = k.repeat_interleave(share, -3)
        values = v.repeat_interleave(share, -3)
        s = q @ keys.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(s, -1, keepdim=True)
        out = torch.exp(s - lse) @ values
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        groups = k.shape[-3]
        keys = k.repeat_interleave(q.shape[-3] // groups, -3)
        values = v.repeat_interleave(q.shape[-3] // groups, -3)
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ keys.mT * scale - lse)
        d = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ values.mT - d) * scale
        grad_k = sum_heads(grad_s.mT @ q, groups)
        grad_v = sum_heads(p.mT @ grad_output, groups)
        return grad_s @ keys, grad_k, grad_v


# %% log-sum-exp_1
"""The special case is tested for the whole output at once. If only some slices contain nothing but -inf, the test is False, and these slices compute exp(-inf - (-inf)), which is nan; each slice needs its own test."""
WRONG = ["empty = (y == -math.inf).all()"]
RIGHT = ["empty = y == -math.inf"]
NAME = "LogSumExp"
EXERCISE = "log-sum-exp"
# --- code
import math

import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x, dim, keepdim=False):
        top = x.amax(dim, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
        y = top + torch.exp(x - top).sum(dim, keepdim=True).log()
        return y if keepdim else y.squeeze(dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.dim, ctx.keepdim = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y = y.unsqueeze(ctx.dim)
            grad_output = grad_output.unsqueeze(ctx.dim)
        empty = (y == -math.inf).all()
        p = torch.where(empty, torch.zeros_like(x), torch.exp(x - y))
        return grad_output * p, None, None


# %% conv1d_1
"""The padding is cut off with the slice padding:-padding. For padding 0 this is 0:-0, an empty slice, so the gradient of x has length 0 instead of L."""
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
        padded = F.pad(x, (padding, padding))
        windows = padded.unfold(-1, weight.shape[-1], stride).unflatten(1, (groups, -1))
        kernels = weight.unflatten(0, (groups, -1))
        return torch.einsum("ngctk,gock->ngot", windows, kernels).flatten(1, 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.stride, ctx.padding, ctx.groups = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        size = weight.shape[-1]
        padded = F.pad(x, (ctx.padding, ctx.padding))
        windows = padded.unfold(-1, size, ctx.stride).unflatten(1, (ctx.groups, -1))
        kernels = weight.unflatten(0, (ctx.groups, -1))
        g = grad_output.unflatten(1, (ctx.groups, -1))
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).flatten(0, 1)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, kernels).flatten(1, 2)
        grad_padded = torch.zeros_like(padded)
        last = ctx.stride * (g.shape[-1] - 1)
        for k in range(size):
            grad_padded[..., k : k + last + 1 : ctx.stride] += grad_windows[..., k]
        grad_x = grad_padded[..., ctx.padding : -ctx.padding]
        return grad_x, grad_weight, None, None, None


# %% complex-multiply_1
"""Whether a gradient must be real depends on its own input, not on the other factor. The tests are exchanged: for a real z and a complex w, the gradient of z stays complex, and the gradient of w loses its imaginary part."""
WRONG = ["if not w.is_complex():", "if not z.is_complex():"]
RIGHT = ["if not z.is_complex():", "if not w.is_complex():"]
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
        z, w = ctx.saved_tensors
        grad_z = grad_output * w.conj()
        if not w.is_complex():
            grad_z = grad_z.real
        grad_w = grad_output * z.conj()
        if not z.is_complex():
            grad_w = grad_w.real
        return grad_z, grad_w


# %% gradient-reversal_1
"""contiguous() copies only if it has to: for a contiguous x it returns x itself. forward then does not return a new tensor, and a following layer that works in place raises an error."""
WRONG = ["return x.contiguous()"]
RIGHT = ["return x.clone()"]
NAME = "GradientReversal"
EXERCISE = "gradient-reversal"
# --- code
import torch
from torch.autograd import Function


class GradientReversal(Function):
    @staticmethod
    def forward(x, strength):
        return x.contiguous()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.strength = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        return -ctx.strength * grad_output, None
