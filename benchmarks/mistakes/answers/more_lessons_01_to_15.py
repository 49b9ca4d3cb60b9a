# %% scaled-sigmoid_1
"""With y = gain * s, the derivative gain * slope * s * (1 - s) is slope * y * (1 - y / gain). The answer writes y * (gain - y) and does not divide by gain, so the gradient is too large by the factor gain and only right for gain = 1."""
WRONG = ["return grad_output * ctx.slope * y * (ctx.gain - y), None, None"]
RIGHT = ["return grad_output * ctx.slope * y * (ctx.gain - y) / ctx.gain, None, None"]
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
        return grad_output * ctx.slope * y * (ctx.gain - y), None, None

# %% clipped-relu_1
"""The inclusive comparison with 0 and ceiling is meant for x, but the saved tensor is the clipped output, which always lies in [0, ceiling]. So the mask is True everywhere, and the gradient also passes outside the interval."""
WRONG = ["ctx.save_for_backward(y)"]
RIGHT = ["ctx.save_for_backward(x)"]
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
        (value,) = ctx.saved_tensors
        inside = (value >= 0) & (value <= ctx.ceiling)
        return grad_output * inside, None

# %% linear_1
"""For an x without leading dimensions, the tuple of dimensions is empty, and torch.sum with an empty tuple adds up all elements. The gradient of the bias is then a single number instead of a vector of length out."""
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
        rows = grad_output.reshape(-1, weight.shape[0])
        grad_weight = rows.t() @ x.reshape(-1, weight.shape[1])
        grad_bias = None
        if ctx.has_bias:
            grad_bias = grad_output.sum(dim=tuple(range(grad_output.dim() - 1)))
        return grad_x, grad_weight, grad_bias

# %% to-polar_1
"""The derivatives of the angle are -y / r**2 and x / r**2. The answer takes the common factor 1 / r out of both terms, but the terms with grad_theta need a second 1 / r, because an angle is the arc divided by the radius."""
WRONG = ["grad_x = (x * grad_r - y * grad_theta) / r", "grad_y = (y * grad_r + x * grad_theta) / r"]
RIGHT = ["grad_x = (x * grad_r - y * grad_theta / r) / r", "grad_y = (y * grad_r + x * grad_theta / r) / r"]
NAME = "ToPolar"
EXERCISE = "to-polar"
# --- code
import torch
from torch.autograd import Function


class ToPolar(Function):
    @staticmethod
    def forward(ctx, x, y):
        r = torch.hypot(x, y)
        theta = torch.atan2(y, x)
        ctx.save_for_backward(x, y, r)
        return r, theta

    @staticmethod
    def backward(ctx, grad_r, grad_theta):
        x, y, r = ctx.saved_tensors
        grad_x = (x * grad_r - y * grad_theta) / r
        grad_y = (y * grad_r + x * grad_theta) / r
        return grad_x, grad_y

# %% strided-gain_1
"""The length of x is reconstructed as the output length times the stride. This is only right if the stride divides the length: 7 elements with stride 3 give 3 outputs, and 3 * 3 is not 7. The original shape must be stored, as x is not saved outside training."""
WRONG = ["ctx.stride, ctx.training = stride, training", "grad_x = grad_output.new_zeros(*grad_output.shape[:-1], grad_output.shape[-1] * ctx.stride)"]
RIGHT = ["ctx.stride, ctx.training, ctx.shape = stride, training, x.shape", "grad_x = grad_output.new_zeros(ctx.shape)"]
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
        ctx.stride, ctx.training = stride, training
        if training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = grad_gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            grad_x = grad_output.new_zeros(*grad_output.shape[:-1], grad_output.shape[-1] * ctx.stride)
            grad_x[..., :: ctx.stride] = grad_output * gain if ctx.training else grad_output
        if ctx.needs_input_grad[1]:
            if ctx.training:
                grad_gain = grad_output * x[..., :: ctx.stride]
            else:
                grad_gain = torch.zeros_like(grad_output)
        return grad_x, grad_gain, None, None

# %% leaky-relu-in-place_1
"""backward overwrites grad_output. This tensor belongs to the engine and may also go to another branch of the graph, so the gradient of that branch changes as well. Only x may be changed in place here."""
WRONG = ["grad_output[output <= 0] *= ctx.slope", "return grad_output, None"]
RIGHT = ["grad_x = torch.where(output > 0, grad_output, ctx.slope * grad_output)", "return grad_x, None"]
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
        ctx.save_for_backward(output)
        ctx.slope = slope

    @staticmethod
    def backward(ctx, grad_output):
        (output,) = ctx.saved_tensors
        grad_output[output <= 0] *= ctx.slope
        return grad_output, None

# %% frozen-target_1
"""The check asks whether any input needs a gradient, but backward only runs if one does, so the branch is never taken. If only the target or the weight requires a gradient, the answer still computes the gradient of the prediction. The check must ask about the prediction alone."""
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
        prediction, target, weight = inputs
        ctx.save_for_backward(prediction, target, weight)

    @staticmethod
    def backward(ctx, grad_output):
        if not any(ctx.needs_input_grad):
            return None, None, None
        prediction, target, weight = ctx.saved_tensors
        slope = 2 * weight * (prediction - target) / prediction.numel()
        return grad_output * slope, None, None

# %% learnable-swish_1
"""Two mistakes. The derivative for x is copied from the Swish without beta, so the inner derivative beta is missing in the second term. And the gradient of beta is a sum without dimensions, which does not fit a beta of shape (1,)."""
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
"""Broadcasting may add several leading dimensions, but the helper sums only one of them away. For a vector and a 3-D tensor, or a scalar and a matrix, the returned gradient still has too many dimensions."""
WRONG = ["if gradient.dim() > len(shape):"]
RIGHT = ["while gradient.dim() > len(shape):"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch.autograd import Function


def reduce_to(gradient, shape):
    if gradient.dim() > len(shape):
        gradient = gradient.sum(0)
    for dim, size in enumerate(shape):
        if size == 1 and gradient.shape[dim] != 1:
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
        return reduce_to(grad_output * y, x.shape), reduce_to(grad_output * x, y.shape)

# %% max-with-ties_1
"""The number of ties is computed with the caller's keepdim, but backward divides a tensor that always has the reduced dimension. With keepdim=False, the count lacks this dimension and is broadcast along the wrong one, so slices are divided by the counts of other slices (or the shapes do not fit)."""
WRONG = ["count = ties.sum(ctx.dim, keepdim=ctx.keepdim)"]
RIGHT = ["count = ties.sum(ctx.dim, keepdim=True)"]
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
        x, ctx.dim, *rest = inputs
        ctx.keepdim = rest[0] if rest else False
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, largest = ctx.saved_tensors
        if not ctx.keepdim:
            largest = largest.unsqueeze(ctx.dim)
            grad_output = grad_output.unsqueeze(ctx.dim)
        ties = x == largest
        count = ties.sum(ctx.dim, keepdim=ctx.keepdim)
        return grad_output * ties / count, None, None

# %% soft-rank_1
"""x_k enters the ranks of the others with a minus sign, because they contain x_i - x_k. The derivative of the sigmoid is even, which hides this, but the inner derivative is -1, so the second sum must be subtracted."""
WRONG = ["return (own + others) / ctx.tau, None"]
RIGHT = ["return (own - others) / ctx.tau, None"]
NAME = "SoftRank"
EXERCISE = "soft-rank"
# --- code
import torch
from torch.autograd import Function


def compare(x, tau):
    return torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / tau)


class SoftRank(Function):
    @staticmethod
    def forward(x, tau):
        return 0.5 + compare(x, tau).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.tau = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = compare(x, ctx.tau)
        slope = s * (1 - s)
        own = grad_output * slope.sum(-1)
        others = (grad_output.unsqueeze(-1) * slope).sum(-2)
        return (own + others) / ctx.tau, None

# %% repair-temperature_1
"""grad_x already contains the factor 1 / temperature. The derivative for the temperature is -x / temperature**2 times the slope of tanh, so only one more factor is missing. The answer divides by temperature**2 and counts it three times in all instead of twice."""
WRONG = ["grad_temperature = -(grad_x * x).sum() / temperature**2"]
RIGHT = ["grad_temperature = -(grad_x * x).sum() / temperature"]
NAME = "Tempered"
EXERCISE = "repair-temperature"
# --- code
import torch
from torch.autograd import Function


class Tempered(Function):
    @staticmethod
    def forward(ctx, x, temperature):
        ctx.save_for_backward(x, temperature)
        return torch.tanh(x / temperature)

    @staticmethod
    def backward(ctx, grad_output):
        x, temperature = ctx.saved_tensors
        y = torch.tanh(x / temperature)
        grad_x = grad_output * (1 - y**2) / temperature
        grad_temperature = -(grad_x * x).sum() / temperature**2
        return grad_x, grad_temperature

# %% repair-floor-log_1
"""Below the floor the gradient is 0, but the answer computes 1 / x first and masks afterwards. For a perfectly silent frame x = 0 this is inf * 0 = nan. The division must use the clamped value."""
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

# %% repair-rotation_1
"""The gradient of x @ R is g @ R transposed, and for a rotation the transpose is the rotation by the negative angle. The answer does both, negates the angle and transposes, so the two cancel and the gradient is rotated forward instead of back."""
WRONG = ["return grad_output @ turn(grad_output, -ctx.angle).t(), None"]
RIGHT = ["return grad_output @ turn(grad_output, -ctx.angle), None"]
NAME = "Rotate"
EXERCISE = "repair-rotation"
# --- code
import math

import torch
from torch.autograd import Function


def turn(like, angle):
    c, s = math.cos(angle), math.sin(angle)
    return like.new_tensor([[c, s], [-s, c]])


class BrokenRotate(Function):
    @staticmethod
    def forward(ctx, x, angle):
        ctx.angle = angle
        return x @ turn(x, angle)

    @staticmethod
    def backward(ctx, grad_output):
        rows = grad_output.as_strided((grad_output.numel() // 2, 2), (2, 1))
        return (rows @ turn(rows, -ctx.angle)).view(grad_output.shape), None


class Rotate(BrokenRotate):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output @ turn(grad_output, -ctx.angle).t(), None

# %% repair-dropout_1
"""backward draws from the same generator object that forward has already used. Its state has moved on, so it returns the next mask and not the same one, and the gradient passes where the output was dropped. backward needs a new generator with the seed."""
WRONG = ["ctx.p, ctx.generator = p, generator", "keep = draw(grad_output, ctx.p, ctx.generator)"]
RIGHT = ["ctx.p, ctx.seed = p, seed", "keep = draw(grad_output, ctx.p, torch.Generator(grad_output.device).manual_seed(ctx.seed))"]
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
        ctx.p, ctx.generator = p, generator
        return x * draw(x, p, generator) / (1 - p)

    @staticmethod
    def backward(ctx, grad_output):
        keep = draw(grad_output, ctx.p, ctx.generator)
        return grad_output * keep / (1 - ctx.p), None, None

# %% ternary-ste_1
"""torch.sign(0) is 0, but the sign of exercise 1 gives +1 at 0. So exactly at the two jumps x = t and x = -t, the output is 0.5 and -0.5 instead of 1 and 0."""
WRONG = ["return 0.5 * torch.sign(x - threshold) + 0.5 * torch.sign(x + threshold)"]
RIGHT = ["return (x >= threshold).to(x.dtype) - (x < -threshold).to(x.dtype)"]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x, threshold):
        return 0.5 * torch.sign(x - threshold) + 0.5 * torch.sign(x + threshold)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, threshold = ctx.saved_tensors
        upper = ((x - threshold).abs() <= 1).to(x.dtype)
        lower = ((x + threshold).abs() <= 1).to(x.dtype)
        grad_x = grad_output * (upper + lower) / 2
        grad_threshold = (grad_output * (lower - upper) / 2).sum()
        return grad_x, grad_threshold

# %% fake-quantize_1
"""Where x / step is outside the bounds, y = step * low or step * high still depends on the step, with the slope low or high. The answer multiplies the whole slope by the mask and loses these elements. Only the term x / step, which goes through the clamp, may be masked."""
WRONG = ["grad_step = (grad_output * (level - scaled) * inside).sum()"]
RIGHT = ["grad_step = (grad_output * (level - scaled * inside)).sum()"]
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
        scaled = x / step
        inside = (scaled >= ctx.low) & (scaled <= ctx.high)
        level = scaled.clamp(ctx.low, ctx.high).round()
        grad_x = grad_output * inside
        grad_step = (grad_output * (level - scaled) * inside).sum()
        return grad_x, grad_step, None, None

# %% logsumexp-hessian_1
"""The saved tensor output.unsqueeze(-1) is a new tensor and not the output itself. Autograd does not connect it to the graph, so y is a constant in backward and the part -p_i p_j of the Hessian is missing. The output itself must be saved, and unsqueezed in backward."""
WRONG = ["ctx.save_for_backward(inputs[0], output.unsqueeze(-1))", "p = torch.exp(x - y)"]
RIGHT = ["ctx.save_for_backward(inputs[0], output)", "p = torch.exp(x - y.unsqueeze(-1))"]
NAME = "LogSumExp"
EXERCISE = "logsumexp-hessian"
# --- code
import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x):
        return torch.logsumexp(x, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output.unsqueeze(-1))

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        p = torch.exp(x - y)
        return p * grad_output.unsqueeze(-1)

# %% gradient-penalty_1
"""Where the critic is flat, the sum of squares is 0 and the derivative of the square root is infinite. Multiplied by the zero derivative of the squares, this gives nan in the gradients of the parameters. torch.linalg.vector_norm uses the subgradient 0 there."""
WRONG = ["norms = gradient.reshape(len(x), -1).square().sum(1).sqrt()"]
RIGHT = ["norms = torch.linalg.vector_norm(gradient.reshape(len(x), -1), dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    leaf = x.detach().clone().requires_grad_()
    scores = critic(leaf)
    (gradient,) = torch.autograd.grad(scores.sum(), leaf, create_graph=True)
    norms = gradient.reshape(len(x), -1).square().sum(1).sqrt()
    return (norms - 1).square().mean()

# %% packed-leaky-relu_1
"""sum promotes uint8 to int64, so the packed mask takes eight bytes for eight elements instead of one. The gradients are right, but the saved mask is no smaller than a boolean mask."""
WRONG = ["packed = (bits << places).sum(-1)"]
RIGHT = ["packed = (bits << places).sum(-1, dtype=torch.uint8)"]
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
        bits = positive.flatten().to(torch.uint8)
        bits = F.pad(bits, (0, -bits.numel() % 8)).view(-1, 8)
        places = torch.arange(8, dtype=torch.uint8, device=x.device)
        packed = (bits << places).sum(-1)
        ctx.save_for_backward(packed)
        ctx.slope = slope
        return torch.where(positive, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        places = torch.arange(8, dtype=torch.uint8, device=packed.device)
        bits = (packed.unsqueeze(-1) >> places) & 1
        positive = bits.flatten()[: grad_output.numel()].view(grad_output.shape) == 1
        return torch.where(positive, grad_output, ctx.slope * grad_output), None

# %% invertible-coupling_1
"""y1 is an output and also an input of the second line, so its whole gradient is grad_y1 plus the part that comes back through v. The answer uses the whole gradient for x1 but only grad_y1 for the tanh of the first line, so the gradients of w and x2 miss a path."""
WRONG = ["inner1 = grad_y1 * (1 - t1.square())"]
RIGHT = ["inner1 = grad_x1 * (1 - t1.square())"]
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
        x1, x2, w, v = inputs
        y1, y2 = output
        ctx.save_for_backward(y1, y2, w, v)

    @staticmethod
    def backward(ctx, grad_y1, grad_y2):
        y1, y2, w, v = ctx.saved_tensors
        t2 = torch.tanh(y1 @ v)
        x2 = y2 - t2
        t1 = torch.tanh(x2 @ w)
        inner2 = grad_y2 * (1 - t2.square())
        grad_v = y1.t() @ inner2
        grad_x1 = grad_y1 + inner2 @ v.t()
        inner1 = grad_y1 * (1 - t1.square())
        grad_w = x2.t() @ inner1
        grad_x2 = grad_y2 + inner1 @ w.t()
        return grad_x1, grad_x2, grad_w, grad_v

# %% chunked-row-losses_1
"""The softmax has already been multiplied by the gradient of each row when the one-hot part is subtracted. So the entry of the right word must lose grad_output of its row and not 1. The result is only right if every row has the gradient 1."""
WRONG = ["slope[torch.arange(len(words)), words] -= 1"]
RIGHT = ["slope[torch.arange(len(words)), words] -= grad_output[start : start + ctx.chunk]"]
NAME = "RowLosses"
EXERCISE = "chunked-row-losses"
# --- code
import torch
from torch.autograd import Function


class RowLosses(Function):
    @staticmethod
    def forward(ctx, x, weight, target, chunk):
        lse = x.new_empty(len(x))
        losses = x.new_empty(len(x))
        for start in range(0, len(x), chunk):
            logits = x[start : start + chunk] @ weight.t()
            part = torch.logsumexp(logits, 1)
            picked = logits.gather(1, target[start : start + chunk, None]).squeeze(1)
            lse[start : start + chunk] = part
            losses[start : start + chunk] = part - picked
        ctx.save_for_backward(x, weight, target, lse)
        ctx.chunk = chunk
        return losses

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, target, lse = ctx.saved_tensors
        grad_x = torch.zeros_like(x)
        grad_weight = torch.zeros_like(weight)
        for start in range(0, len(x), ctx.chunk):
            rows = x[start : start + ctx.chunk]
            words = target[start : start + ctx.chunk]
            slope = torch.exp(rows @ weight.t() - lse[start : start + ctx.chunk, None])
            slope *= grad_output[start : start + ctx.chunk, None]
            slope[torch.arange(len(words)), words] -= 1
            grad_x[start : start + ctx.chunk] = slope @ weight
            grad_weight += slope.t() @ rows
        return grad_x, grad_weight, None, None

# %% masked-softmax_1
"""A large negative number instead of -inf removes masked keys only if the row has a visible key. In a fully masked row, all scores are equal to -1e9, and the softmax returns the uniform distribution 1/n instead of zeros."""
WRONG = ["return torch.softmax(s.masked_fill(~mask, -1e9), -1)"]
RIGHT = ["return torch.softmax(s.masked_fill(~mask, -math.inf), -1).masked_fill(~mask, 0)"]
NAME = "MaskedSoftmax"
EXERCISE = "masked-softmax"
# --- code
import math

import torch
from torch.autograd import Function


class MaskedSoftmax(Function):
    @staticmethod
    def forward(s, mask):
        return torch.softmax(s.masked_fill(~mask, -1e9), -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (p,) = ctx.saved_tensors
        return p * (grad_output - (p * grad_output).sum(-1, keepdim=True)), None

# %% attention-backward_1
"""The saved q already contains the factor 1 / sqrt(E). This is right for the gradient of k, but the gradient of the unscaled q needs the same factor once more, because the scores are computed from q / sqrt(E)."""
WRONG = ["grad_q = grad_s @ k"]
RIGHT = ["grad_q = grad_s @ k * ctx.scale"]
NAME = "Attention"
EXERCISE = "attention-backward"
# --- code
import math

import torch
from torch.autograd import Function


class Attention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        ctx.scale = 1 / math.sqrt(q.shape[-1])
        q = q * ctx.scale
        s = q @ k.mT
        if mask is not None:
            s = s.masked_fill(~mask, -math.inf)
        p = torch.softmax(s, -1)
        if mask is not None:
            p = p.masked_fill(~mask, 0)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, p = ctx.saved_tensors
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))
        grad_q = grad_s @ k
        grad_k = grad_s.mT @ q
        return grad_q, grad_k, grad_v, None

# %% attention-budget_1
"""backward recomputes the scores without the mask. The log-sum-exp belongs to the masked scores, so masked keys get weights exp(S - L) that are not 0 (and may be larger than 1), and gradients flow through keys that the query does not see."""
WRONG = ["scores = q @ k.mT * ctx.scale"]
RIGHT = ["scores = masked(q @ k.mT * ctx.scale, mask)"]
NAME = "LeanAttention"
EXERCISE = "attention-budget"
# --- code
import math

import torch
from torch.autograd import Function


def masked(s, mask):
    return s if mask is None else s.masked_fill(~mask, -math.inf)


class LeanAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        ctx.scale = 1 / math.sqrt(q.shape[-1])
        s = masked(q @ k.mT * ctx.scale, mask)
        lse = torch.logsumexp(s, -1, keepdim=True)
        lse = lse.masked_fill(lse == -math.inf, 0)
        out = torch.exp(s - lse) @ v
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, mask, out, lse = ctx.saved_tensors
        scores = q @ k.mT * ctx.scale
        p = torch.exp(scores - lse)
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        grad_s = p * (grad_p - (grad_output * out).sum(-1, keepdim=True)) * ctx.scale
        return grad_s @ k, grad_s.mT @ q, grad_v, None

# %% merge-halves_1
"""The sum of the weights is clamped to 1, to avoid 0 / 0 for a query that sees no keys, and the same clamped sum goes into the logarithm. So such a query gets the log-sum-exp finfo.min instead of -inf. Only the division needs the clamp."""
WRONG = ["return out, largest + total.log()"]
RIGHT = ["return out, largest + (weight_a + weight_b).log()"]
NAME = "merge"
EXERCISE = "merge-halves"
# --- code
import torch


def merge(out_a, lse_a, out_b, lse_b):
    largest = torch.maximum(lse_a, lse_b)
    largest = largest.clamp(min=torch.finfo(lse_a.dtype).min)
    weight_a = torch.exp(lse_a - largest)
    weight_b = torch.exp(lse_b - largest)
    total = (weight_a + weight_b).clamp(min=1)
    out = (weight_a * out_a + weight_b * out_b) / total
    return out, largest + total.log()

# %% attention-twice_1
"""The log-sum-exp adds +P * grad_lse to the gradient of the scores. The answer adds grad_lse to the row sum D, which is subtracted, so its contribution has the wrong sign. It must be subtracted from D."""
WRONG = ["delta = (grad_out * out).sum(-1) + grad_lse"]
RIGHT = ["delta = (grad_out * out).sum(-1) - grad_lse"]
NAME = "TwiceAttention"
EXERCISE = "attention-twice"
# --- code
import math

import torch
from torch.autograd import Function


class TwiceAttention(Function):
    @staticmethod
    def forward(q, k, v):
        s = q @ k.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(s, -1)
        out = torch.exp(s - lse.unsqueeze(-1)) @ v
        return out, lse

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        q, k, v, out, lse = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ k.mT * scale - lse.unsqueeze(-1))
        grad_v = p.mT @ grad_out
        delta = (grad_out * out).sum(-1) + grad_lse
        grad_s = p * (grad_out @ v.mT - delta.unsqueeze(-1)) * scale
        return grad_s @ k, grad_s.mT @ q, grad_v

# %% attention-grouped_1
"""repeat_interleave puts the copies of one key head next to each other, so the head dimension must be split into (G, H/G) and summed over the second part. The answer splits it as for repeat, into (H/G, G), and adds the gradients of query heads that read different key heads."""
WRONG = ["return gradient.unflatten(-3, (copies, -1)).sum(-4)"]
RIGHT = ["return gradient.unflatten(-3, (-1, copies)).sum(-3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


def collect(gradient, copies):
    return gradient.unflatten(-3, (copies, -1)).sum(-4)


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.scale = 1 / math.sqrt(q.shape[-1])
        ctx.copies = q.shape[-3] // k.shape[-3]
        many_k = k.repeat_interleave(ctx.copies, -3)
        many_v = v.repeat_interleave(ctx.copies, -3)
        s = q @ many_k.mT * ctx.scale
        lse = torch.logsumexp(s, -1, keepdim=True)
        out = torch.exp(s - lse) @ many_v
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        many_k = k.repeat_interleave(ctx.copies, -3)
        many_v = v.repeat_interleave(ctx.copies, -3)
        p = torch.exp(q @ many_k.mT * ctx.scale - lse)
        grad_p = grad_output @ many_v.mT
        grad_s = p * (grad_p - (grad_output * out).sum(-1, keepdim=True)) * ctx.scale
        grad_k = collect(grad_s.mT @ q, ctx.copies)
        grad_v = collect(p.mT @ grad_output, ctx.copies)
        return grad_s @ many_k, grad_k, grad_v

# %% batch-norm_1
"""Tensor.var divides by m - 1 by default, while forward uses the biased variance. So backward multiplies by a slightly too small 1 / sqrt(v + eps), and the gradient is too small by about the factor sqrt((m - 1) / m)."""
WRONG = ["inverse = (x.var(dims, keepdim=True) + ctx.eps).rsqrt()"]
RIGHT = ["inverse = (x.var(dims, correction=0, keepdim=True) + ctx.eps).rsqrt()"]
NAME = "BatchNorm"
EXERCISE = "batch-norm"
# --- code
import torch
from torch.autograd import Function


def all_but_channels(x):
    return tuple(dim for dim in range(x.dim()) if dim != 1)


class BatchNorm(Function):
    @staticmethod
    def forward(x, eps):
        dims = all_but_channels(x)
        centered = x - x.mean(dims, keepdim=True)
        return centered * (centered.square().mean(dims, keepdim=True) + eps).rsqrt()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.eps = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        dims = all_but_channels(x)
        inverse = (x.var(dims, keepdim=True) + ctx.eps).rsqrt()
        through_mean = grad_output.mean(dims, keepdim=True)
        through_variance = y * (grad_output * y).mean(dims, keepdim=True)
        return inverse * (grad_output - through_mean - through_variance), None

# %% plain-conv1d_1
"""Position t + k of x met the weight at k, and the loop already writes the gradient to t + k, so it must use the weight at k. The answer also flips the kernel, as in the formula that writes backward as a padded convolution, so the kernel is reversed once too often."""
WRONG = ["part = torch.einsum(\"not,oc->nct\", grad_output, weight.flip(-1)[..., k])"]
RIGHT = ["part = torch.einsum(\"not,oc->nct\", grad_output, weight[..., k])"]
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
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        length = grad_output.shape[-1]
        windows = x.unfold(-1, weight.shape[-1], 1)
        grad_weight = torch.einsum("not,nctk->ock", grad_output, windows)
        grad_x = torch.zeros_like(x)
        for k in range(weight.shape[-1]):
            part = torch.einsum("not,oc->nct", grad_output, weight.flip(-1)[..., k])
            grad_x[..., k : k + length] += part
        return grad_x, grad_weight

# %% conv1d_1
"""The padding is cut off with a negative end index. Without padding this is the slice 0:-0, that is 0:0, which is empty, so the gradient of x has length 0. The end must be padding + L."""
WRONG = ["grad_x = grad_padded[..., ctx.padding : -ctx.padding]"]
RIGHT = ["grad_x = grad_padded[..., ctx.padding : ctx.padding + x.shape[-1]]"]
NAME = "Conv1d"
EXERCISE = "conv1d"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


def cut(x, width, stride, padding, groups):
    padded = F.pad(x, (padding, padding))
    return padded.unfold(-1, width, stride).unflatten(1, (groups, -1))


class Conv1d(Function):
    @staticmethod
    def forward(x, weight, stride, padding, groups):
        windows = cut(x, weight.shape[-1], stride, padding, groups)
        blocks = weight.unflatten(0, (groups, -1))
        return torch.einsum("ngctk,gock->ngot", windows, blocks).flatten(1, 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.stride, ctx.padding, ctx.groups = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        width = weight.shape[-1]
        windows = cut(x, width, ctx.stride, ctx.padding, ctx.groups)
        blocks = weight.unflatten(0, (ctx.groups, -1))
        g = grad_output.unflatten(1, (ctx.groups, -1))
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).flatten(0, 1)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, blocks).flatten(1, 2)
        grad_padded = x.new_zeros(*x.shape[:-1], x.shape[-1] + 2 * ctx.padding)
        reach = ctx.stride * (grad_output.shape[-1] - 1) + 1
        for k in range(width):
            grad_padded[..., k : k + reach : ctx.stride] += grad_windows[..., k]
        grad_x = grad_padded[..., ctx.padding : -ctx.padding]
        return grad_x, grad_weight, None, None, None

# %% complex-multiply_1
"""For a real input, the gradient is the real part of the product with the conjugate, which also contains the product of the two imaginary parts. The answer takes the real parts before it multiplies, so this term is missing."""
WRONG = ["grad_z = grad_output * w.conj() if z.is_complex() else grad_output.real * w.real", "grad_w = grad_output * z.conj() if w.is_complex() else grad_output.real * z.real"]
RIGHT = ["grad_z = grad_output * w.conj() if z.is_complex() else (grad_output * w.conj()).real", "grad_w = grad_output * z.conj() if w.is_complex() else (grad_output * z.conj()).real"]
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
        grad_z = grad_output * w.conj() if z.is_complex() else grad_output.real * w.real
        grad_w = grad_output * z.conj() if w.is_complex() else grad_output.real * z.real
        return grad_z, grad_w

# %% gumbel-hard_1
"""Two mistakes. one_hot without the number of classes uses the largest index that was drawn, so the output is too narrow if the last class does not occur. And the soft sample in backward is recomputed from the logits without the noise, so it is the softmax and not the surrogate."""
WRONG = ["return F.one_hot((logits + noise).argmax(-1)).to(logits.dtype)", "soft = torch.softmax(logits / ctx.temperature, -1)"]
RIGHT = ["return F.one_hot((logits + noise).argmax(-1), logits.shape[-1]).to(logits.dtype)", "soft = torch.softmax((logits + noise) / ctx.temperature, -1)"]
NAME = "HardGumbelSoftmax"
EXERCISE = "gumbel-hard"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        return F.one_hot((logits + noise).argmax(-1)).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise, ctx.temperature = inputs
        ctx.save_for_backward(logits, noise)

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise = ctx.saved_tensors
        soft = torch.softmax(logits / ctx.temperature, -1)
        inner = (grad_output * soft).sum(-1, keepdim=True)
        return soft * (grad_output - inner) / ctx.temperature, None, None

# %% reinmax_1
"""J(m) needs the mean of the gradient under m itself. The answer computes the sum of g_k p_k once and uses it for both points, so the term at m subtracts the mean under p and not under m."""
WRONG = ["at_m = m * (grad_output - expected)"]
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
        drawn = (logits + noise).argmax(-1)
        return F.one_hot(drawn, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        logits, y = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        m = (p + y) / 2
        expected = (grad_output * p).sum(-1, keepdim=True)
        at_m = m * (grad_output - expected)
        at_p = p * (grad_output - expected)
        return 2 * at_m - at_p / 2, None

# %% per-sample-gradients_1
"""vmap hides the batch dimension, so the model and the loss get a single sample without it. Linear layers accept this, but a model that needs the batch dimension, such as one with nn.Flatten, computes something else or fails. Each sample must be a batch of one."""
WRONG = ["prediction = torch.func.functional_call(model, parameters, (sample,))", "return loss(prediction, target)"]
RIGHT = ["prediction = torch.func.functional_call(model, parameters, (sample.unsqueeze(0),))", "return loss(prediction, target.unsqueeze(0))"]
NAME = "per_sample_gradients"
EXERCISE = "per-sample-gradients"
# --- code
import torch


def per_sample_gradients(model, loss, x, y):
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def sample_loss(parameters, sample, target):
        prediction = torch.func.functional_call(model, parameters, (sample,))
        return loss(prediction, target)

    each = torch.func.vmap(torch.func.grad(sample_loss), in_dims=(None, 0, 0))
    gradients = each(parameters, x, y)
    return tuple(gradients[name] for name in parameters)

# %% jvp-smooth-maximum_1
"""backward sums over all outputs, because they share one temperature. Forward mode answers how each output changes, so every row keeps its own slope. The sum copied from backward adds the slopes of all rows to each output."""
WRONG = ["from_t = ((y - (p * x).sum(-1)) / t * t_tangent).sum()"]
RIGHT = ["from_t = (y - (p * x).sum(-1)) / t * t_tangent"]
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
        from_t = ((y - (p * x).sum(-1)) / t * t_tangent).sum()
        return from_x + from_t

# %% repair-autocast_1
"""custom_fwd protects only forward. Without custom_bwd, backward runs in the autocast state of its caller: if backward() is called inside the autocast block, the matrix products of backward are computed in bfloat16 and the gradients are inaccurate."""
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
"""The solved u is the gradient of z with all rounds. x and W enter through the argument of the tanh, so u must still be multiplied by the slope 1 - z**2 before it becomes the gradient of x or goes into the product for W."""
WRONG = ["return u, u.t() @ z"]
RIGHT = ["return u * slope, (u * slope).t() @ z"]
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
        slope = 1 - z.square()
        u = settled(lambda u: grad_output + (u * slope) @ W, torch.zeros_like(z))
        return u, u.t() @ z

# %% triangular-solve_1
"""The transpose of a lower triangular matrix is upper triangular, so backward must tell the solver the other half. With the flag of forward, the solver reads the half of the transpose that the exercise says is never used, apart from the diagonal, and solves a different system without an error."""
WRONG = ["grad_B = torch.linalg.solve_triangular(T.mT, grad_output, upper=not ctx.lower)"]
RIGHT = ["grad_B = torch.linalg.solve_triangular(T.mT, grad_output, upper=ctx.lower)"]
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
        T, B, *rest = inputs
        ctx.lower = rest[0] if rest else True
        ctx.save_for_backward(T, output)

    @staticmethod
    def backward(ctx, grad_output):
        T, X = ctx.saved_tensors
        grad_B = torch.linalg.solve_triangular(T.mT, grad_output, upper=not ctx.lower)
        grad_T = -grad_B @ X.mT
        grad_T = grad_T.tril() if ctx.lower else grad_T.triu()
        return grad_T, grad_B, None

# %% soft-threshold-function_1
"""A larger threshold moves positive numbers down but negative numbers up, toward 0. So the slope for the threshold is -sign(y). The answer uses -1 for all numbers that were not set to 0, which is only right for positive ones."""
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
        ctx.save_for_backward(output)
        ctx.shape = inputs[1].shape

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        kept = y != 0
        grad_x = grad_output * kept
        grad_threshold = -(grad_output * kept).sum().reshape(ctx.shape)
        return grad_x, grad_threshold

# %% any-batch_1
"""Only the flag of the outermost module is remembered, and train(was_training) sets every submodule to it. A layer that the training keeps in eval mode, such as a frozen normalization, is in training mode afterwards. The mode of each module must be restored."""
WRONG = ["was_training = model.training", "model.train(was_training)"]
RIGHT = ["modes = [(module, module.training) for module in model.modules()]", "for module, training in modes:\n    module.training = training"]
NAME = "ship"
EXERCISE = "any-batch"
# --- code
import torch


def ship(model, example):
    was_training = model.training
    model.eval()
    batch = torch.export.Dim("batch")
    try:
        return torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
    finally:
        model.train(was_training)

# %% lost-gradients_1
"""A gradient that is cut off completely, for example by a detach, arrives as None with allow_unused=True. The answer skips a parameter if either of the two gradients is None, so it misses exactly the parameters that lost their whole gradient. It may only skip if both are None."""
WRONG = ["if a is None or b is None:", "if not torch.allclose(a, b, rtol=1e-3, atol=1e-6):"]
RIGHT = ["if a is None and b is None:", "if a is None or b is None or not torch.allclose(a, b, rtol=1e-3, atol=1e-6):"]
NAME = "lost_gradients"
EXERCISE = "lost-gradients"
# --- code
import torch


def lost_gradients(model, shipped, x):
    ours = {name: p for name, p in model.named_parameters() if p.requires_grad}
    theirs = dict(shipped.named_parameters())
    y = model(x)
    rng = torch.Generator().manual_seed(0)
    g = torch.randn(y.shape, generator=rng).to(y.dtype)
    expected = torch.autograd.grad(y, list(ours.values()), g, allow_unused=True)
    others = [theirs[name] for name in ours]
    actual = torch.autograd.grad(shipped(x), others, g, allow_unused=True)
    lost = []
    for name, a, b in zip(ours, expected, actual):
        if a is None or b is None:
            continue
        if not torch.allclose(a, b, rtol=1e-3, atol=1e-6):
            lost.append(name)
    return lost

# %% reversal-that-travels_1
"""The values are right, but the first x is not detached and passes its own gradient 1. The second term adds -strength, so the gradient is 1 - strength instead of -strength."""
WRONG = ["return x + strength * (x.detach() - x)"]
RIGHT = ["return x.detach() + strength * (x.detach() - x)"]
NAME = "reverse"
EXERCISE = "reversal-that-travels"
# --- code
import torch


def reverse(x, strength):
    return x + strength * (x.detach() - x)

# %% eight-bits_1
"""Only the rounding is replaced by the identity. The clamp and the scale are still differentiated: the scale depends on the largest element of the row, and the clamp stops the gradient of a positive maximum. The exercise wants the gradient to pass straight through the whole computation."""
WRONG = ["levels = scaled + (scaled.round() - scaled).detach()", "return scale * levels.clamp(-128, 127)"]
RIGHT = ["levels = scaled.round()", "return (scale * levels.clamp(-128, 127)).detach() + (weight - weight.detach())"]
NAME = "eight_bits"
EXERCISE = "eight-bits"
# --- code
import torch


def eight_bits(weight):
    eps = torch.finfo(weight.dtype).eps
    scale = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=eps)
    scaled = weight / scale
    levels = scaled + (scaled.round() - scaled).detach()
    return scale * levels.clamp(-128, 127)
