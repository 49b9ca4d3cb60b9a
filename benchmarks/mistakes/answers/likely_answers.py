"""Mistakes: held out, likely answers. Each cell is a separate module; see benchmarks/repairs.py."""

# %% scaled-sigmoid_1
"""The factor gain appears twice. Written in terms of y, the derivative is slope * y * (1 - y / gain), because y already contains the factor gain; multiplying by gain again (as for gain * sigma * (1 - sigma)) makes the gradient gain times too large."""
WRONG = ["slope = ctx.gain * ctx.slope * y * (1 - y / ctx.gain)"]
RIGHT = ["slope = ctx.slope * y * (1 - y / ctx.gain)"]
NAME = "ScaledSigmoid"
EXERCISE = "scaled-sigmoid"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class ScaledSigmoid(Function):
    @staticmethod
    def forward(ctx, x: Tensor, gain: float, slope: float) -> Tensor:
        y = gain * torch.sigmoid(slope * x)
        ctx.save_for_backward(y)
        ctx.gain = gain
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (y,) = ctx.saved_tensors
        slope = ctx.gain * ctx.slope * y * (1 - y / ctx.gain)
        return slope * grad_output, None, None


# %% linear_1
"""The bias is shared by all rows, so its gradient is the sum over all leading dimensions. sum(0) adds up only the first one: for a 3-D x the result has the shape (time, out) instead of (out,), and for a 1-D x it even sums over the outputs. The weight gradient was flattened, the bias gradient was not."""
WRONG = ["grad_bias = grad_output.sum(0) if ctx.has_bias else None"]
RIGHT = ["grad_bias = g.sum(0) if ctx.has_bias else None"]
NAME = "Linear"
EXERCISE = "linear"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Linear(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        y = x @ weight.t()
        if bias is not None:
            y = y + bias
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        grad_x = grad_output @ weight
        g = grad_output.reshape(-1, weight.shape[0])
        grad_weight = g.t() @ x.reshape(-1, weight.shape[1])
        grad_bias = grad_output.sum(0) if ctx.has_bias else None
        return grad_x, grad_weight, grad_bias


# %% to-polar_1
"""The angle is differentiated as arctan(y / x). This is the same formula where x is not 0, but on the y axis it divides by zero, and both gradients of theta become nan, although atan2 is differentiable there. The forms -y / r**2 and x / r**2 have no such hole."""
WRONG = ["theta_x = -y / x**2 / (1 + (y / x) ** 2)", "theta_y = 1 / x / (1 + (y / x) ** 2)"]
RIGHT = ["theta_x = -y / r**2", "theta_y = x / r**2"]
NAME = "ToPolar"
EXERCISE = "to-polar"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class ToPolar(Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        r = torch.hypot(x, y)
        theta = torch.atan2(y, x)
        ctx.save_for_backward(x, y, r)
        return r, theta

    @staticmethod
    def backward(ctx, grad_r: Tensor, grad_theta: Tensor) -> tuple[Tensor, Tensor]:
        x, y, r = ctx.saved_tensors
        theta_x = -y / x**2 / (1 + (y / x) ** 2)
        theta_y = 1 / x / (1 + (y / x) ** 2)
        grad_x = x / r * grad_r + theta_x * grad_theta
        grad_y = y / r * grad_r + theta_y * grad_theta
        return grad_x, grad_y


# %% strided-gain_1
"""The length of x is guessed as (length of the output) * stride. x[..., ::stride] rounds up, so if the length of x is not a multiple of stride, the gradient of x is too long (7 elements with stride 3 give 9). The shape of x must be stored in ctx."""
WRONG = [
    "x, gain, ctx.stride, ctx.training = inputs",
    "grad_x = grad_output.new_zeros(*grad_output.shape[:-1], grad_output.shape[-1] * ctx.stride)",
]
RIGHT = [
    "x, gain, ctx.stride, ctx.training = inputs\nctx.shape = x.shape",
    "grad_x = grad_output.new_zeros(ctx.shape)",
]
NAME = "StridedGain"
EXERCISE = "strided-gain"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class StridedGain(Function):
    @staticmethod
    def forward(x: Tensor, gain: Tensor, stride: int, training: bool) -> Tensor:
        kept = x[..., ::stride]
        if training:
            return gain * kept
        return kept.clone()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, int, bool], output: Tensor) -> None:
        x, gain, ctx.stride, ctx.training = inputs
        if ctx.training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        grad_x = grad_gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            grad_x = grad_output.new_zeros(*grad_output.shape[:-1], grad_output.shape[-1] * ctx.stride)
            grad_x[..., :: ctx.stride] = gain * grad_output if ctx.training else grad_output
        if ctx.needs_input_grad[1]:
            if ctx.training:
                grad_gain = x[..., :: ctx.stride] * grad_output
            else:
                grad_gain = torch.zeros_like(grad_output)
        return grad_x, grad_gain, None, None


# %% leaky-relu-in-place_1
"""backward scales grad_output in place. Only the input x may be overwritten (and is declared with mark_dirty); grad_output belongs to the engine and can be shared with another branch or with the caller, whose gradient is then changed as well. backward must work on a copy."""
WRONG = ["grad_x = grad_output"]
RIGHT = ["grad_x = grad_output.clone()"]
NAME = "LeakyReLUInPlace"
EXERCISE = "leaky-relu-in-place"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class LeakyReLUInPlace(Function):
    @staticmethod
    def forward(x: Tensor, slope: float) -> Tensor:
        x[x <= 0] *= slope
        return x

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        x, slope = inputs
        ctx.mark_dirty(x)
        ctx.save_for_backward(output)
        ctx.slope = slope

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        grad_x = grad_output
        grad_x[y <= 0] *= ctx.slope
        return grad_x, None


# %% frozen-target_1
"""N is the number of all elements, but len(prediction) is only the size of the first dimension. For a matrix, the gradient is too large by the number of columns (and for a 0-dim prediction, len raises an error). It should be prediction.numel()."""
WRONG = ["count = len(prediction)"]
RIGHT = ["count = prediction.numel()"]
NAME = "FrozenTargetLoss"
EXERCISE = "frozen-target"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class FrozenTargetLoss(Function):
    @staticmethod
    def forward(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        return (weight * (prediction - target) ** 2).mean()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        prediction, target, weight = inputs
        ctx.save_for_backward(prediction, target, weight)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None, None
        prediction, target, weight = ctx.saved_tensors
        count = len(prediction)
        return grad_output * 2 * weight * (prediction - target) / count, None, None


# %% broadcast-multiply_1
"""If an input was not broadcast, the list of dims is empty, and Tensor.sum with an empty tuple of dims adds up all elements instead of none. The single number that is left cannot be reshaped to the shape of the input. The sum may only run if there are dims to add up."""
WRONG = ["return grad.sum(dims, keepdim=True).reshape(shape)"]
RIGHT = ["return (grad.sum(dims, keepdim=True) if dims else grad).reshape(shape)"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


def sum_to(grad: Tensor, shape: torch.Size) -> Tensor:
    extra = grad.dim() - len(shape)
    dims = list(range(extra))
    for i, size in enumerate(shape):
        if size == 1 and grad.shape[extra + i] != 1:
            dims.append(extra + i)
    return grad.sum(dims, keepdim=True).reshape(shape)


class BroadcastMultiply(Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, y = inputs
        ctx.save_for_backward(x, y)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return sum_to(grad_output * y, x.shape), sum_to(grad_output * x, y.shape)


# %% max-with-ties_1
"""The number of ties is computed with the keepdim of the caller. With keepdim=False it lacks the reduced dim, so it no longer lines up with the mask: it raises an error or, if the sizes happen to fit, each element is divided by the count of another slice. In backward, the count always needs keepdim=True."""
WRONG = ["count = mask.sum(ctx.dim, keepdim=ctx.keepdim)"]
RIGHT = ["count = mask.sum(ctx.dim, keepdim=True)"]
NAME = "MaxWithTies"
EXERCISE = "max-with-ties"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class MaxWithTies(Function):
    @staticmethod
    def forward(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
        return x.amax(dim, keepdim=keepdim)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.dim = inputs[:2]
        ctx.keepdim = inputs[2] if len(inputs) > 2 else False
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y = y.unsqueeze(ctx.dim)
            grad_output = grad_output.unsqueeze(ctx.dim)
        mask = x == y
        count = mask.sum(ctx.dim, keepdim=ctx.keepdim)
        return grad_output * mask / count, None, None


# %% soft-rank_1
"""The gradient that x_k gets from the other ranks must weight the slope of pair (i, k) with grad_output of rank i. unsqueeze(-2) puts grad_output along the columns, so the sum over i uses g_k instead of g_i. Because the slope is symmetric, this term equals the first one, and the whole gradient is zero."""
WRONG = ["others = (slope * grad_output.unsqueeze(-2)).sum(-2)"]
RIGHT = ["others = (slope * grad_output.unsqueeze(-1)).sum(-2)"]
NAME = "SoftRank"
EXERCISE = "soft-rank"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class SoftRank(Function):
    @staticmethod
    def forward(x: Tensor, tau: float) -> Tensor:
        difference = x.unsqueeze(-1) - x.unsqueeze(-2)
        return 0.5 + torch.sigmoid(difference / tau).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.tau = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / ctx.tau)
        slope = s * (1 - s) / ctx.tau
        own = grad_output * slope.sum(-1)
        others = (slope * grad_output.unsqueeze(-2)).sum(-2)
        return own - others, None


# %% repair-floor-log_1
"""The clamped tensor is saved, and backward compares it with the floor. After the clamp every element is at least the floor, so the mask is always True, and the elements below the floor get 1 / floor instead of 0. The mask needs the original x."""
WRONG = ["ctx.save_for_backward(clamped)"]
RIGHT = ["ctx.save_for_backward(x)"]
NAME = "FloorLog"
EXERCISE = "repair-floor-log"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class FloorLog(Function):
    @staticmethod
    def forward(ctx, x: Tensor, floor: float) -> Tensor:
        clamped = x.clamp(min=floor)
        ctx.save_for_backward(clamped)
        ctx.floor = floor
        return clamped.log()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        grad_x = torch.where(x >= ctx.floor, grad_output / x, 0.0)
        return grad_x, None


# %% repair-dropout_1
"""The mask is reconstructed from the output as y != 0. An element whose input is 0 (after a ReLU, about half of them) has the output 0 even if dropout keeps it, so it is mistaken for a dropped one and loses its gradient. The mask itself must be saved or drawn again from the seed."""
WRONG = [
    "ctx.save_for_backward(y)",
    "(y,) = ctx.saved_tensors",
    "return grad_output * (y != 0) / (1 - ctx.p), None, None",
]
RIGHT = [
    "ctx.save_for_backward(keep)",
    "(keep,) = ctx.saved_tensors",
    "return grad_output * keep / (1 - ctx.p), None, None",
]
NAME = "Dropout"
EXERCISE = "repair-dropout"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


def draw(x: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    """Return which elements dropout keeps. Without a generator, use PyTorch's global one."""
    return torch.rand(x.shape, generator=generator, device=x.device) >= p


class Dropout(Function):
    @staticmethod
    def forward(ctx, x: Tensor, p: float, seed: int) -> Tensor:
        generator = torch.Generator(x.device).manual_seed(seed)
        keep = draw(x, p, generator)
        y = x * keep / (1 - p)
        ctx.save_for_backward(y)
        ctx.p = p
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (y,) = ctx.saved_tensors
        return grad_output * (y != 0) / (1 - ctx.p), None, None


# %% ternary-ste_1
"""Two mistakes. torch.sign is 0 at 0, so exactly at x = t and x = -t the output is 1/2 and -1/2 instead of 1 and 0. And the threshold enters the first clip with a minus sign, so its gradient there must be negative; with a plus, the two clips add up instead of cancelling in the middle."""
WRONG = [
    "return (torch.sign(x - threshold) + torch.sign(x + threshold)) / 2",
    "grad_threshold = (grad_output * (upper + lower) / 2).sum()",
]
RIGHT = [
    "return ((x >= threshold).to(x.dtype) * 2 - 1 + (x >= -threshold).to(x.dtype) * 2 - 1) / 2",
    "grad_threshold = (grad_output * (lower - upper) / 2).sum()",
]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x: Tensor, threshold: Tensor) -> Tensor:
        return (torch.sign(x - threshold) + torch.sign(x + threshold)) / 2

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, threshold = ctx.saved_tensors
        upper = ((x - threshold).abs() <= 1).to(x.dtype)
        lower = ((x + threshold).abs() <= 1).to(x.dtype)
        grad_x = grad_output * (upper + lower) / 2
        grad_threshold = (grad_output * (upper + lower) / 2).sum()
        return grad_x, grad_threshold


# %% fake-quantize_1
"""The clamped elements are left out of the gradient of the step. The clamp only stops the path through x / s; the first factor of y = s * round(...) still has the derivative round(clamp(x / s)), so a clamped element contributes low or high. The mask belongs to the term x / s only."""
WRONG = ["grad_step = (grad_output * inside * (level - ratio)).sum()"]
RIGHT = ["grad_step = (grad_output * (level - inside * ratio)).sum()"]
NAME = "FakeQuantize"
EXERCISE = "fake-quantize"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class FakeQuantize(Function):
    @staticmethod
    def forward(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
        return step * torch.round(torch.clamp(x / step, low, high))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, step, ctx.low, ctx.high = inputs
        ctx.save_for_backward(x, step)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, step = ctx.saved_tensors
        ratio = x / step
        level = torch.round(torch.clamp(ratio, ctx.low, ctx.high))
        inside = (ratio >= ctx.low) & (ratio <= ctx.high)
        grad_x = grad_output * inside
        grad_step = (grad_output * inside * (level - ratio)).sum()
        return grad_x, grad_step, None, None


# %% sinh-by-output_1
"""The trigonometric identity cos^2 + sin^2 = 1 is used for the hyperbolic functions, which satisfy cosh^2 - sinh^2 = 1. So the slope is sqrt(1 + y^2); with sqrt(1 - y^2) it is too small, and it is nan where |y| > 1."""
WRONG = ["cosh = torch.sqrt(1 - y**2)"]
RIGHT = ["cosh = torch.sqrt(1 + y**2)"]
NAME = "Sinh"
EXERCISE = "sinh-by-output"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Sinh(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.sinh(x)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        cosh = torch.sqrt(1 - y**2)
        return grad_output * cosh


# %% hessian-vector-product_1
"""If f is linear in an input, the first gradient of this input can be a constant without a graph, and autograd.grad refuses a list of outputs in which one does not require grad. allow_unused and materialize_grads only handle unused inputs, not outputs without a graph. Adding up the products with the vectors first gives one number that has a graph."""
WRONG = ["products = torch.autograd.grad(grads, leaves, vectors, allow_unused=True, materialize_grads=True)"]
RIGHT = [
    "slope = sum((g * v).sum() + 0 * x.sum() for g, v, x in zip(grads, vectors, leaves))\nproducts = torch.autograd.grad(slope, leaves, allow_unused=True, materialize_grads=True)"
]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch
from torch import Tensor


def hvp(f, inputs: tuple[Tensor, ...], vectors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    leaves = tuple(x.detach().clone().requires_grad_() for x in inputs)
    value = f(*leaves)
    grads = torch.autograd.grad(
        value, leaves, create_graph=True, allow_unused=True, materialize_grads=True
    )
    products = torch.autograd.grad(grads, leaves, vectors, allow_unused=True, materialize_grads=True)
    return tuple(products)


# %% gradient-penalty_1
"""The norm is written as the square root of a sum of squares. The derivative of the square root at 0 is infinite, and infinity times 0 is nan, so a sample at which the critic is flat makes the gradients of all parameters nan. torch's norm returns a gradient of 0 there."""
WRONG = ["norms = gradient.flatten(1).square().sum(1).sqrt()"]
RIGHT = ["norms = gradient.flatten(1).norm(dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch
from torch import Tensor


def gradient_penalty(critic, x: Tensor) -> Tensor:
    x = x.detach().clone().requires_grad_()
    score = critic(x).sum()
    (gradient,) = torch.autograd.grad(score, x, create_graph=True)
    norms = gradient.flatten(1).square().sum(1).sqrt()
    return ((norms - 1) ** 2).mean()


# %% packed-leaky-relu_1
"""sum() of a uint8 tensor returns int64, so each group of eight mask bits is saved in eight bytes instead of one. The gradients are right, but the packed mask takes as much memory as the unpacked bool mask. The sum must be converted to uint8 (or computed with dtype=torch.uint8)."""
WRONG = ["packed = (bits * digits).sum(1)"]
RIGHT = ["packed = (bits * digits).sum(1, dtype=torch.uint8)"]
NAME = "PackedLeakyReLU"
EXERCISE = "packed-leaky-relu"
# --- code
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function


class PackedLeakyReLU(Function):
    @staticmethod
    def forward(ctx, x: Tensor, slope: float) -> Tensor:
        mask = x > 0
        flat = mask.reshape(-1).to(torch.uint8)
        bits = F.pad(flat, (0, -flat.numel() % 8)).reshape(-1, 8)
        digits = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=x.device)
        packed = (bits * digits).sum(1)
        ctx.save_for_backward(packed)
        ctx.slope = slope
        ctx.shape = x.shape
        return torch.where(mask, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (packed,) = ctx.saved_tensors
        digits = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=packed.device)
        bits = (packed.unsqueeze(1) & digits) != 0
        mask = bits.reshape(-1)[: ctx.shape.numel()].reshape(ctx.shape)
        return torch.where(mask, grad_output, ctx.slope * grad_output), None


# %% invertible-coupling_1
"""A path is missing: y1 is not only an output, it also enters the second line of forward. So the gradient of y1 (and with it that of x1, and everything behind the first tanh: w and x2) must also collect what comes back from y2 through tanh(y1 v)."""
WRONG = ["grad_x1 = grad_y1"]
RIGHT = ["grad_x1 = grad_y1 + inner2 @ v.t()"]
NAME = "Coupling"
EXERCISE = "invertible-coupling"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Coupling(Function):
    @staticmethod
    def forward(x1: Tensor, x2: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        y1 = x1 + torch.tanh(x2 @ w)
        y2 = x2 + torch.tanh(y1 @ v)
        return y1, y2

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        _, _, w, v = inputs
        y1, y2 = output
        ctx.save_for_backward(y1, y2, w, v)

    @staticmethod
    def backward(ctx, grad_y1: Tensor, grad_y2: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y1, y2, w, v = ctx.saved_tensors
        t2 = torch.tanh(y1 @ v)
        x2 = y2 - t2
        t1 = torch.tanh(x2 @ w)
        inner2 = grad_y2 * (1 - t2**2)
        grad_v = y1.t() @ inner2
        grad_x1 = grad_y1
        inner1 = grad_x1 * (1 - t1**2)
        grad_w = x2.t() @ inner1
        grad_x2 = grad_y2 + inner1 @ w.t()
        return grad_x1, grad_x2, grad_w, grad_v


# %% attention-forward_1
"""The query that sees no key is handled only for a boolean mask. A floating-point mask whose row is all -inf leads to the same case: the maximum is -inf, -inf minus -inf is nan, and the row of the result is nan instead of zeros. The test must look at the scores, not at the kind of mask."""
WRONG = [
    "if mask is not None and mask.dtype == torch.bool:",
    "p = p.masked_fill(~mask.any(-1, keepdim=True), 0.0)",
]
RIGHT = ["if mask is not None:", "p = p.masked_fill(top == -math.inf, 0.0)"]
NAME = "attend"
EXERCISE = "attention-forward"
# --- code
import math

import torch
from torch import Tensor


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
    top = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - top)
    p = weights / weights.sum(-1, keepdim=True)
    if mask is not None and mask.dtype == torch.bool:
        p = p.masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return p @ v


# %% attention-grouped_1
"""The gradients of the repeated heads are added up in the wrong groups. repeat_interleave puts the copies of a key head next to each other (0 0 1 1), so the head dim must be split as (groups, share). Split as (share, groups), the sum adds heads h and h + G, as if the copies were in the order 0 1 0 1. Only with G = 1 or G = H this makes no difference."""
WRONG = ["return grad.unflatten(-3, (-1, groups)).sum(-4)"]
RIGHT = ["return grad.unflatten(-3, (groups, -1)).sum(-3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch import Tensor
from torch.autograd import Function


def collect(grad: Tensor, groups: int) -> Tensor:
    return grad.unflatten(-3, (-1, groups)).sum(-4)


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        share = q.shape[-3] // k.shape[-3]
        keys = k.repeat_interleave(share, -3)
        values = v.repeat_interleave(share, -3)
        scores = q @ keys.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(scores, -1, keepdim=True)
        out = torch.exp(scores - lse) @ values
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, out, lse = ctx.saved_tensors
        groups = k.shape[-3]
        share = q.shape[-3] // groups
        keys = k.repeat_interleave(share, -3)
        values = v.repeat_interleave(share, -3)
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ keys.mT * scale - lse)
        d = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ values.mT - d)
        grad_q = grad_s @ keys * scale
        grad_k = collect(grad_s.mT @ q * scale, groups)
        grad_v = collect(p.mT @ grad_output, groups)
        return grad_q, grad_k, grad_v


# %% plain-conv1d_1
"""The gradient of x is a full correlation of grad_output with the flipped kernel: x[l] meets w[k] in the output l - k, so k runs backward through the window of the padded gradient. Without the flip, the first weight is multiplied by the gradient that belongs to the last one. Symmetric kernels and K = 1 hide it."""
WRONG = ['grad_x = torch.einsum("nolk,ock->ncl", around, weight)']
RIGHT = ['grad_x = torch.einsum("nolk,ock->ncl", around, weight.flip(-1))']
NAME = "PlainConv1d"
EXERCISE = "plain-conv1d"
# --- code
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function


class PlainConv1d(Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        windows = x.unfold(-1, weight.shape[-1], 1)
        return torch.einsum("nctk,ock->not", windows, weight)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        size = weight.shape[-1]
        windows = x.unfold(-1, size, 1)
        grad_weight = torch.einsum("not,nctk->ock", grad_output, windows)
        around = F.pad(grad_output, (size - 1, size - 1)).unfold(-1, size, 1)
        grad_x = torch.einsum("nolk,ock->ncl", around, weight)
        return grad_x, grad_weight


# %% complex-multiply_1
"""The conjugate is on the wrong factor. With PyTorch's convention, the gradient of z is g times the conjugate of the other factor w; here the incoming gradient is conjugated instead, so the result is the conjugate of the right gradient. For a real input only the real part is kept, which is the same, so a real input does not show it."""
WRONG = ["grad_z = grad_output.conj() * w", "grad_w = grad_output.conj() * z"]
RIGHT = ["grad_z = grad_output * w.conj()", "grad_w = grad_output * z.conj()"]
NAME = "ComplexMultiply"
EXERCISE = "complex-multiply"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class ComplexMultiply(Function):
    @staticmethod
    def forward(z: Tensor, w: Tensor) -> Tensor:
        return z * w

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        z, w = ctx.saved_tensors
        grad_z = grad_output.conj() * w
        grad_w = grad_output.conj() * z
        if not z.is_complex():
            grad_z = grad_z.real
        if not w.is_complex():
            grad_w = grad_w.real
        return grad_z, grad_w


# %% reinmax_1
"""one_hot is called without the number of classes, so it infers it from the largest index that was drawn. If no row of the batch draws the last class, the output has too few columns (and with it the shape of the gradient no longer fits). num_classes must be logits.shape[-1]."""
WRONG = ["return one_hot((logits + noise).argmax(-1)).to(logits.dtype)"]
RIGHT = ["return one_hot((logits + noise).argmax(-1), logits.shape[-1]).to(logits.dtype)"]
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import one_hot


def pull(q: Tensor, g: Tensor) -> Tensor:
    return q * (g - (g * q).sum(-1, keepdim=True))


class ReinMax(Function):
    @staticmethod
    def forward(logits: Tensor, noise: Tensor) -> Tensor:
        return one_hot((logits + noise).argmax(-1)).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        logits, _ = inputs
        ctx.save_for_backward(logits, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        logits, y = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        m = (p + y) / 2
        return 2 * pull(m, grad_output) - pull(p, grad_output) / 2, None


# %% per-sample-gradients_1
"""state_dict contains the buffers as well as the parameters. A model with a buffer (the running statistics of a batch norm, a positional table) gets gradients for tensors that are no parameters, so the tuple has too many entries, and an integer buffer even raises an error. Only named_parameters() may be differentiated."""
WRONG = ["weights = {name: value.detach() for name, value in model.state_dict().items()}"]
RIGHT = ["weights = {name: value.detach() for name, value in model.named_parameters()}"]
NAME = "per_sample_gradients"
EXERCISE = "per-sample-gradients"
# --- code
import torch
from torch import Tensor


def per_sample_gradients(model, loss, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    weights = {name: value.detach() for name, value in model.state_dict().items()}

    def one(weights, sample, target):
        prediction = torch.func.functional_call(model, weights, (sample.unsqueeze(0),))
        return loss(prediction, target.unsqueeze(0))

    gradients = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0))(weights, x, y)
    return tuple(gradients[name] for name in weights)


# %% jvp-smooth-maximum_1
"""The derivative with respect to the temperature is summed over all rows, as in backward. In reverse mode, one temperature collects from all outputs; in forward mode, each output has its own change, so the sum must not be there. With a single row there is no difference."""
WRONG = ["slope = ((y - (p * x).sum(-1)) / t).sum()"]
RIGHT = ["slope = (y - (p * x).sum(-1)) / t"]
NAME = "SmoothMaximum"
EXERCISE = "jvp-smooth-maximum"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class SmoothMaximum(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, temperature: Tensor) -> Tensor:
        return temperature * torch.logsumexp(x / temperature, -1)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, temperature = inputs
        ctx.save_for_backward(x, temperature, output)
        ctx.save_for_forward(x, temperature, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        return p * grad_output[..., None], (grad_output * (y - (p * x).sum(-1)) / t).sum()

    @staticmethod
    def jvp(ctx, x_tangent: Tensor, t_tangent: Tensor) -> Tensor:
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        slope = ((y - (p * x).sum(-1)) / t).sum()
        return (p * x_tangent).sum(-1) + slope * t_tangent


# %% repair-graph-breaks_1
"""The slope of the straight part is delta times the sign of x. Without the sign, a negative outlier gets +delta and is pushed further away. (x.clamp(-delta, delta) is the whole slope.)"""
WRONG = ["slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta)"]
RIGHT = ["slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta * x.sign())"]
NAME = "Huber"
EXERCISE = "repair-graph-breaks"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Huber(Function):
    @staticmethod
    def forward(x: Tensor, delta: float) -> Tensor:
        return torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta)
        return grad_output * slope, None


# %% repair-autocast_1
"""Only forward is decorated. custom_fwd turns autocast off and casts the inputs in forward, but it does not protect backward: if backward() is called inside the autocast block, the products there run in bfloat16. backward needs custom_bwd, which restores the autocast state of forward."""
WRONG = ["def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:"]
RIGHT = [
    '@torch.amp.custom_bwd(device_type="cpu")\ndef backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:'
]
NAME = "Contrast"
EXERCISE = "repair-autocast"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Contrast(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, q: Tensor, k: Tensor, temperature: float) -> Tensor:
        ctx.save_for_backward(q, k)
        ctx.temperature = temperature
        scores = q @ k.t() / temperature
        return torch.logsumexp(scores, 1) - scores.diagonal()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        q, k = ctx.saved_tensors
        p = torch.softmax(q @ k.t() / ctx.temperature, 1)
        slope = (p - torch.eye(len(q), dtype=p.dtype, device=p.device)) * grad_output[:, None]
        return slope @ k / ctx.temperature, slope.t() @ q / ctx.temperature, None


# %% equilibrium-layer_1
"""The adjoint equation uses the wrong transpose of W. Forward multiplies by W^T (z @ W.t()), so the vector-Jacobian product of the layer multiplies by W: u = g + (u * (1 - z^2)) @ W. With W.t() again, the equation still has a solution, but it is the gradient of a layer with the transposed weights; a symmetric W hides it."""
WRONG = ["u = settled(lambda u: grad_output + (u * slope) @ W.t(), grad_output)"]
RIGHT = ["u = settled(lambda u: grad_output + (u * slope) @ W, grad_output)"]
NAME = "Equilibrium"
EXERCISE = "equilibrium-layer"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


def settled(step, start: Tensor) -> Tensor:
    """Return the z with z = step(z), found by repeating the step from start."""
    z, near = start, 4 * torch.finfo(start.dtype).eps
    for _ in range(200):
        z, before = step(z), z
        if not z.numel() or (z - before).abs().max() <= near:
            return z
    raise RuntimeError("no convergence after 200 rounds")


class Equilibrium(Function):
    @staticmethod
    def forward(x: Tensor, W: Tensor) -> Tensor:
        return settled(lambda z: torch.tanh(z @ W.t() + x), torch.zeros_like(x))

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        _, W = inputs
        ctx.save_for_backward(W, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        W, z = ctx.saved_tensors
        slope = 1 - z**2
        u = settled(lambda u: grad_output + (u * slope) @ W.t(), grad_output)
        grad_x = u * slope
        grad_W = grad_x.t() @ z
        return grad_x, grad_W


# %% triangular-solve_1
"""The transpose of a lower triangular matrix is upper triangular. backward solves with T.mT but keeps the flag of forward, so the solver reads the half of T that must never be read and ignores the one that matters. The flag must be flipped together with the matrix."""
WRONG = ["grad_B = torch.linalg.solve_triangular(T.mT, grad_output, upper=not ctx.lower)"]
RIGHT = ["grad_B = torch.linalg.solve_triangular(T.mT, grad_output, upper=ctx.lower)"]
NAME = "TriangularSolve"
EXERCISE = "triangular-solve"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class TriangularSolve(Function):
    @staticmethod
    def forward(T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
        return torch.linalg.solve_triangular(T, B, upper=not lower)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, bool], output: Tensor) -> None:
        T = inputs[0]
        ctx.lower = inputs[2] if len(inputs) > 2 else True
        ctx.save_for_backward(T, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        T, X = ctx.saved_tensors
        grad_B = torch.linalg.solve_triangular(T.mT, grad_output, upper=not ctx.lower)
        grad_T = -grad_B @ X.mT
        grad_T = grad_T.tril() if ctx.lower else grad_T.triu()
        return grad_T, grad_B, None


# %% soft-threshold-function_1
"""The derivative with respect to the threshold is -sign(x) where |x| > t. The sign is missing, so negative numbers count in the wrong direction: they move up when t grows. sign(y) contains both the sign and the zeros."""
WRONG = ["grad_threshold = -(grad_output * passed).sum()"]
RIGHT = ["grad_threshold = -(grad_output * y.sign()).sum()"]
NAME = "SoftThreshold"
EXERCISE = "soft-threshold-function"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class SoftThreshold(Function):
    @staticmethod
    def forward(x: Tensor, threshold: Tensor) -> Tensor:
        return x.sign() * (x.abs() - threshold).clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.shape = inputs[1].shape

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        (y,) = ctx.saved_tensors
        passed = y != 0
        grad_x = grad_output * passed
        grad_threshold = -(grad_output * passed).sum()
        return grad_x, grad_threshold.reshape(ctx.shape)
