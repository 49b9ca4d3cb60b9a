# %% scaled-sigmoid_1
"""The derivative takes y for the sigmoid itself: y * (1 - y) holds only for a sigmoid without gain. Since sigma = y / gain, the derivative gain * slope * sigma * (1 - sigma) is slope * y * (1 - y / gain), so the result is right only for gain = 1."""
WRONG = ["return ctx.slope * ctx.gain * y * (1 - y) * grad_output, None, None"]
RIGHT = ["return ctx.slope * y * (1 - y / ctx.gain) * grad_output, None, None"]
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
        ctx.gain, ctx.slope = gain, slope
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return ctx.slope * ctx.gain * y * (1 - y) * grad_output, None, None


# %% clipped-relu_1
"""The mask tests the saved output, which is already clipped to [0, ceiling], with inclusive comparisons, so it is true everywhere and the gradient also passes where x is negative or above the ceiling. On the output, only strict comparisons tell the inside from the clipped ends."""
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
        y = x.clamp(min=0, max=ceiling)
        ctx.save_for_backward(y)
        ctx.ceiling = ceiling
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        inside = (y >= 0) & (y <= ctx.ceiling)
        return grad_output * inside, None


# %% linear_1
"""The bias is broadcast over all leading dimensions of the output, so its gradient is the sum over all of them. sum(0) adds up only the first dimension: it is right for a matrix x, but has the wrong shape for a vector (it sums over the outputs) and for three or more dimensions."""
WRONG = ["grad_bias = grad_output.sum(0)"]
RIGHT = ["grad_bias = rows.sum(0)"]
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
            grad_bias = grad_output.sum(0)
        return grad_x, grad_weight, grad_bias


# %% to-polar_1
"""The angle changes by 1/r for each step across the radius: its derivatives are -y / r**2 and x / r**2, that is -sin / r and cos / r. The code rotates (g_r, g_theta) as if both were lengths, so the part from theta lacks the factor 1/r and is right only on the unit circle."""
WRONG = [
    "grad_x = cos * grad_r - sin * grad_theta",
    "grad_y = sin * grad_r + cos * grad_theta",
]
RIGHT = [
    "grad_x = cos * grad_r - sin * grad_theta / r",
    "grad_y = sin * grad_r + cos * grad_theta / r",
]
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
        cos, sin = x / r, y / r
        grad_x = cos * grad_r - sin * grad_theta
        grad_y = sin * grad_r + cos * grad_theta
        return grad_x, grad_y


# %% sort-with-indices_1
"""The inverse of a permutation is the ascending argsort of its indices, whether the values were sorted in ascending or descending order. Passing on the flag descending reverses the inverse permutation, so each gradient goes to the mirrored place when descending=True."""
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
        _, ctx.descending = inputs
        _, indices = output
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)

    @staticmethod
    def backward(ctx, grad_values, grad_indices):
        (indices,) = ctx.saved_tensors
        inverse = indices.argsort(dim=-1, descending=ctx.descending)
        return grad_values.gather(-1, inverse), None


# %% strided-gain_1
"""The length of x cannot be computed from the length of the output: stride * output length is the length of x only if x's length is a multiple of the stride. Otherwise the gradient of x is too long, so the shape of x has to be stored in setup_context."""
WRONG = [
    "ctx.stride, ctx.training = stride, training",
    "shape = (*grad_output.shape[:-1], grad_output.shape[-1] * ctx.stride)",
]
RIGHT = [
    "ctx.stride, ctx.training = stride, training\nctx.shape = x.shape",
    "shape = ctx.shape",
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
            shape = (*grad_output.shape[:-1], grad_output.shape[-1] * ctx.stride)
            grad_x = grad_output.new_zeros(shape)
            grad_x[..., :: ctx.stride] = grad_output * gain if ctx.training else grad_output
        if ctx.needs_input_grad[1] and ctx.training:
            grad_gain = grad_output * x[..., :: ctx.stride]
        return grad_x, grad_gain, None, None


# %% strided-gain_2
"""contiguous() copies only if the tensor is not contiguous already. For stride 1, and wherever the slice happens to be contiguous, it returns the slice itself, so forward returns a view of x instead of a new tensor, and the caller cannot change the output in place."""
WRONG = ["return x[..., ::stride].contiguous()"]
RIGHT = ["return x[..., ::stride].clone()"]
NAME = "StridedGain"
EXERCISE = "strided-gain"
# --- code
import torch
from torch.autograd import Function


class StridedGain(Function):
    @staticmethod
    def forward(x, gain, stride, training):
        if training:
            return gain * x[..., ::stride]
        return x[..., ::stride].contiguous()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gain, ctx.stride, ctx.training = inputs
        ctx.shape = x.shape
        if ctx.training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = grad_gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors
            if ctx.needs_input_grad[1]:
                grad_gain = grad_output * x[..., :: ctx.stride]
        if ctx.needs_input_grad[0]:
            grad_x = torch.zeros(ctx.shape, dtype=grad_output.dtype, device=grad_output.device)
            grad_x[..., :: ctx.stride] = gain * grad_output if ctx.training else grad_output
        return grad_x, grad_gain, None, None


# %% leaky-relu-in-place_1
"""The permission to work in place covers x, not grad_output. grad_input is only a second name for grad_output, so backward overwrites a tensor that belongs to the engine and may be shared with another branch of the graph. It needs a copy."""
WRONG = ["grad_input = grad_output"]
RIGHT = ["grad_input = grad_output.clone()"]
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
        grad_input = grad_output
        grad_input[y <= 0] *= ctx.slope
        return grad_input, None


# %% gather-rows_1
"""The number of rows of the table is taken from the largest index that occurs. If the last rows are never read, the gradient has too few rows. The indices do not contain the size of the table, so it has to be stored."""
WRONG = [
    "ctx.save_for_backward(index)",
    "rows = int(index.max()) + 1",
]
RIGHT = [
    "ctx.save_for_backward(index)\nctx.rows = table.shape[0]",
    "rows = ctx.rows",
]
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
        width = grad_output.shape[-1]
        rows = int(index.max()) + 1
        grad_table = grad_output.new_zeros(rows, width)
        grad_table.index_add_(0, index.reshape(-1), grad_output.reshape(-1, width))
        return grad_table, None


# %% learnable-swish_1
"""Two mistakes. The derivative of sigma(beta * x) with respect to x has the inner derivative beta, which is missing in grad_x. And sum() gives the gradient of beta the shape (), which is wrong for a beta of shape (1,)."""
WRONG = [
    "grad_x = grad_output * (s + x * s * (1 - s))",
    "grad_beta = (grad_output * x**2 * s * (1 - s)).sum()",
]
RIGHT = [
    "grad_x = grad_output * (s + beta * x * s * (1 - s))",
    "grad_beta = (grad_output * x**2 * s * (1 - s)).sum().reshape(beta.shape)",
]
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
"""Broadcasting may add several leading dimensions, and the gradient has to be summed over each of them. The if removes only one, so for a scalar or a vector against a 3-D tensor the returned gradient still has too many dimensions."""
WRONG = ["if grad.dim() > len(shape):"]
RIGHT = ["while grad.dim() > len(shape):"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch.autograd import Function


def reduce_to(grad, shape):
    if grad.dim() > len(shape):
        grad = grad.sum(0)
    for d, size in enumerate(shape):
        if size == 1:
            grad = grad.sum(d, keepdim=True)
    return grad


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
        return reduce_to(grad_output * y, x.shape), reduce_to(grad_output * x, y.shape)


# %% max-with-ties_1
"""Without keepdim, grad_output lacks the reduced dimension just as y does, but only y gets it back. Then grad_output is broadcast along the wrong dimension (or does not fit), unless the maximum is taken over the first dimension."""
WRONG = ["y = y.unsqueeze(ctx.dim)"]
RIGHT = ["y = y.unsqueeze(ctx.dim)\ngrad_output = grad_output.unsqueeze(ctx.dim)"]
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
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y = y.unsqueeze(ctx.dim)
        winners = (x == y).to(x.dtype)
        share = winners / winners.sum(ctx.dim, keepdim=True)
        return grad_output * share, None, None


# %% soft-rank_1
"""x_k appears in the rank r_i of every other element i, so the second sum runs over i and weights each slope with g_i. unsqueeze(-2) weights it with g_k instead, so the second sum equals the first, and the gradient is always zero."""
WRONG = ["others = (slope * grad_output.unsqueeze(-2)).sum(-2)"]
RIGHT = ["others = (slope * grad_output.unsqueeze(-1)).sum(-2)"]
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
        slope = s * (1 - s) / ctx.tau
        own = (slope * grad_output.unsqueeze(-1)).sum(-1)
        others = (slope * grad_output.unsqueeze(-2)).sum(-2)
        return own - others, None


# %% repair-floor-log_1
"""Below the floor the gradient must be 0, but the code first divides by x and then multiplies by the mask. Where x is exactly 0, this is inf * 0 = nan. The division has to use the clamped value, or the mask has to select with where."""
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


# %% repair-color-table_1
"""Indexed += does not accumulate over repeated indices: it reads the entries once, adds, and writes back, so of all pixels with the same index only one counts. The first line was repaired, but the right neighbor needs accumulate=True as well."""
WRONG = ["grad_table[index + 1] += fraction * grad_output"]
RIGHT = ["grad_table.index_put_((index + 1,), fraction * grad_output, accumulate=True)"]
NAME = "LookUp"
EXERCISE = "repair-color-table"
# --- code
import torch
from torch.autograd import Function


class BrokenLookUp(Function):
    @staticmethod
    def forward(ctx, table, index, fraction):
        ctx.save_for_backward(table, index, fraction)
        return (1 - fraction) * table[index] + fraction * table[index + 1]


class LookUp(BrokenLookUp):
    @staticmethod
    def backward(ctx, grad_output):
        table, index, fraction = ctx.saved_tensors
        grad_table = torch.zeros_like(table)
        grad_table.index_put_((index,), (1 - fraction) * grad_output, accumulate=True)
        grad_table[index + 1] += fraction * grad_output
        return grad_table, None, (table[index + 1] - table[index]) * grad_output


# %% repair-dropout_1
"""The generator that is kept on ctx has already been advanced by the draw in forward, so backward continues its sequence and draws another mask. Only a new generator with the same seed repeats the mask."""
WRONG = [
    "ctx.generator = generator",
    "mask = draw(grad_output, ctx.p, ctx.generator)",
]
RIGHT = [
    "ctx.seed = seed",
    "mask = draw(grad_output, ctx.p, torch.Generator(grad_output.device).manual_seed(ctx.seed))",
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
        ctx.generator = generator
        ctx.p = p
        return x * draw(x, p, generator) / (1 - p)

    @staticmethod
    def backward(ctx, grad_output):
        mask = draw(grad_output, ctx.p, ctx.generator)
        return grad_output * mask / (1 - ctx.p), None, None


# %% sign-ste_1
"""copysign looks at the sign bit, so it returns -1 for the number -0.0. The exercise asks for +1 at every zero, whatever its sign; the comparison x >= 0 treats both zeros alike."""
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


# %% clipped-sign_1
"""The clip belongs to the surrogate, a function of x: its derivative is 1 where |x| <= 1 and 0 elsewhere. The code clips the incoming gradient instead, so it distorts large gradients and still passes gradients where x is outside the interval."""
WRONG = [
    "pass",
    "return grad_output.clamp(-1, 1)",
]
RIGHT = [
    "ctx.save_for_backward(inputs[0])",
    "(x,) = ctx.saved_tensors\nreturn grad_output * (x.abs() <= 1)",
]
NAME = "ClippedSignSTE"
EXERCISE = "clipped-sign"
# --- code
import torch
from torch.autograd import Function


class ClippedSignSTE(Function):
    @staticmethod
    def forward(x):
        return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.clamp(-1, 1)


# %% ternary-ste_1
"""The threshold enters the two clips with opposite signs: x - t and x + t. Its gradient is half the difference of the two masks, not minus their half sum. The code treats the second clip as if it also contained -t."""
WRONG = ["grad_threshold = -0.5 * (grad_output * (upper + lower)).sum()"]
RIGHT = ["grad_threshold = 0.5 * (grad_output * (lower - upper)).sum()"]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch.autograd import Function


def sign(v):
    return torch.where(v >= 0, torch.ones_like(v), -torch.ones_like(v))


class TernarySTE(Function):
    @staticmethod
    def forward(x, threshold):
        return 0.5 * sign(x - threshold) + 0.5 * sign(x + threshold)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, threshold = inputs
        ctx.save_for_backward(x, threshold)

    @staticmethod
    def backward(ctx, grad_output):
        x, threshold = ctx.saved_tensors
        upper = ((x - threshold).abs() <= 1).to(x.dtype)
        lower = ((x + threshold).abs() <= 1).to(x.dtype)
        grad_x = 0.5 * grad_output * (upper + lower)
        grad_threshold = -0.5 * (grad_output * (upper + lower)).sum()
        return grad_x, grad_threshold


# %% fake-quantize_1
"""Two mistakes. Where x/s is clamped, the level does not depend on s, so the term -x/s must appear only inside the range, but it is subtracted everywhere. And the strict comparisons stop the gradient where x/s is exactly low or high, where it should still pass."""
WRONG = [
    "inside = (v > ctx.low) & (v < ctx.high)",
    "grad_step = (grad_output * (levels - v)).sum()",
]
RIGHT = [
    "inside = (v >= ctx.low) & (v <= ctx.high)",
    "grad_step = (grad_output * (levels - v * inside)).sum()",
]
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
        levels = torch.round(torch.clamp(v, ctx.low, ctx.high))
        inside = (v > ctx.low) & (v < ctx.high)
        grad_x = grad_output * inside
        grad_step = (grad_output * (levels - v)).sum()
        return grad_x, grad_step, None, None


# %% hessian-vector-product_1
"""Each part of the product sums over all inputs: (Hv)_k also contains the mixed derivatives with respect to x_k and every other x_l. The code differentiates each gradient only with respect to its own input, so it uses the diagonal blocks of the Hessian alone."""
WRONG = [
    "return tuple(torch.autograd.grad(dot, leaf, retain_graph=True)[0] for dot, leaf in zip(dots, leaves))"
]
RIGHT = ["return torch.autograd.grad(sum(dots), leaves)"]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def hvp(f, inputs, vectors):
    leaves = tuple(x.detach().clone().requires_grad_() for x in inputs)
    gradients = torch.autograd.grad(
        f(*leaves), leaves, create_graph=True, allow_unused=True, materialize_grads=True
    )
    # adding 0 * leaf keeps every leaf in the graph, even if f is linear in it
    dots = [
        (gradient * vector).sum() + (0 * leaf).sum()
        for gradient, vector, leaf in zip(gradients, vectors, leaves)
    ]
    return tuple(torch.autograd.grad(dot, leaf, retain_graph=True)[0] for dot, leaf in zip(dots, leaves))


# %% gradient-penalty_1
"""Each score depends only on its own sample, so the gradient of the sum contains the gradient of each score. The gradient of the mean is N times smaller, so the penalty compares norms divided by N with 1."""
WRONG = ["score = critic(x).mean()"]
RIGHT = ["score = critic(x).sum()"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    x = x.detach().clone().requires_grad_()
    score = critic(x).mean()
    (gradient,) = torch.autograd.grad(score, x, create_graph=True)
    norms = torch.linalg.vector_norm(gradient.reshape(len(x), -1), dim=1)
    return (norms - 1).square().mean()


# %% packed-leaky-relu_1
"""sum() of an integer tensor returns int64, so the packed mask takes eight bytes for eight elements instead of one, eight times the budget. The sum needs dtype=torch.uint8."""
WRONG = ["packed = (bits * powers).sum(1)"]
RIGHT = ["packed = (bits * powers).sum(1, dtype=torch.uint8)"]
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
        bits = positive.reshape(-1).to(torch.uint8)
        bits = F.pad(bits, (0, -bits.numel() % 8))
        bits = bits.reshape(bits.numel() // 8, 8)
        powers = 2 ** torch.arange(8, dtype=torch.uint8, device=x.device)
        packed = (bits * powers).sum(1)
        ctx.save_for_backward(packed)
        ctx.slope = slope
        return torch.where(positive, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
        bits = (packed.unsqueeze(1) >> shifts) & 1
        positive = bits.reshape(-1)[: grad_output.numel()].reshape(grad_output.shape).bool()
        return torch.where(positive, grad_output, ctx.slope * grad_output), None


# %% invertible-coupling_1
"""y1 is an output and also an input of the second line, so the gradient that flows back into the first line is grad_y1 plus the part that comes through y2. The code adds both parts only for x1, but uses grad_y1 alone for the tanh of the first line, so the gradients of x2 and w lack a path."""
WRONG = ["inner1 = grad_y1 * (1 - t1**2)"]
RIGHT = ["inner1 = grad_x1 * (1 - t1**2)"]
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
        t1 = torch.tanh(x2 @ w)
        inner2 = grad_y2 * (1 - t2**2)
        grad_v = y1.t() @ inner2
        grad_x1 = grad_y1 + inner2 @ v.t()
        inner1 = grad_y1 * (1 - t1**2)
        grad_w = x2.t() @ inner1
        grad_x2 = grad_y2 + inner1 @ w.t()
        return grad_x1, grad_x2, grad_w, grad_v


# %% masked-softmax_1
"""The maximum is taken over all scores, including the masked ones. If a masked score is much larger than every visible one, all visible exponentials underflow to 0, and the row comes out as if it were fully masked. The maximum must cover the visible scores only."""
WRONG = ["peak = s.amax(-1, keepdim=True)"]
RIGHT = [
    "peak = visible.amax(-1, keepdim=True).masked_fill(~mask.any(-1, keepdim=True), 0.0)"
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
        visible = s.masked_fill(~mask, -math.inf)
        peak = s.amax(-1, keepdim=True)
        weights = torch.exp(visible - peak)
        total = weights.sum(-1, keepdim=True)
        return weights / total.masked_fill(total == 0, 1.0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (p,) = ctx.saved_tensors
        return p * (grad_output - (p * grad_output).sum(-1, keepdim=True)), None


# %% attention-backward_1
"""Backward divides dS by sqrt(E) for both products, which is right for the original q. But forward saved q already divided by sqrt(E), so the gradient of k contains the factor twice and is too small by sqrt(E)."""
WRONG = ["ctx.save_for_backward(scaled, k, v, p)"]
RIGHT = ["ctx.save_for_backward(q, k, v, p)"]
NAME = "Attention"
EXERCISE = "attention-backward"
# --- code
import math

import torch
from torch.autograd import Function


class Attention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        scaled = q / math.sqrt(q.shape[-1])
        scores = scaled @ k.mT
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        peak = scores.amax(-1, keepdim=True)
        peak = peak.masked_fill(peak == -math.inf, 0.0)
        weights = torch.exp(scores - peak)
        total = weights.sum(-1, keepdim=True)
        p = weights / total.masked_fill(total == 0, 1.0)
        ctx.save_for_backward(scaled, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, p = ctx.saved_tensors
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))
        grad_s = grad_s / math.sqrt(q.shape[-1])
        grad_q = grad_s @ k
        grad_k = grad_s.mT @ q
        return grad_q, grad_k, grad_v, None


# %% attention-budget_1
"""Backward recomputes the scores without the mask. The log-sum-exp comes from the masked scores, so exp(S - L) is right for the visible keys, but the hidden keys get weights that are not zero and so take part in all three gradients."""
WRONG = ["p = torch.exp(scores - lse)"]
RIGHT = [
    "if mask is not None:\n    scores = scores.masked_fill(~mask, -math.inf)\np = torch.exp(scores - lse)"
]
NAME = "LeanAttention"
EXERCISE = "attention-budget"
# --- code
import math

import torch
from torch.autograd import Function


class LeanAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        lse = torch.logsumexp(scores, -1, keepdim=True)
        # a query that sees no key: exp(-inf - inf) is 0
        lse = lse.masked_fill(lse == -math.inf, math.inf)
        out = torch.exp(scores - lse) @ v
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, mask, out, lse = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        scores = q @ k.mT * scale
        p = torch.exp(scores - lse)
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        delta = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_p - delta) * scale
        return grad_s @ k, grad_s.mT @ q, grad_v, None


# %% attention-grouped_1
"""Neighboring query heads share a key head, so each key head has to be repeated in place (0, 0, 1, 1). repeat tiles the whole block (0, 1, 0, 1), so query head h reads key head h mod G instead of h // (H/G). The sum in backward follows the same wrong order."""
WRONG = [
    "return x.repeat(*[1] * (x.dim() - 3), copies, 1, 1)",
    "return x.unflatten(-3, (-1, groups)).sum(-4)",
]
RIGHT = [
    "return x.repeat_interleave(copies, dim=-3)",
    "return x.unflatten(-3, (groups, -1)).sum(-3)",
]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


def spread(x, heads):
    copies = heads // x.shape[-3]
    return x.repeat(*[1] * (x.dim() - 3), copies, 1, 1)


def collect(x, groups):
    return x.unflatten(-3, (-1, groups)).sum(-4)


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        heads = q.shape[-3]
        scores = q @ spread(k, heads).mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(scores, -1, keepdim=True)
        out = torch.exp(scores - lse) @ spread(v, heads)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        heads, groups = q.shape[-3], k.shape[-3]
        keys, values = spread(k, heads), spread(v, heads)
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ keys.mT * scale - lse)
        grad_values = p.mT @ grad_output
        delta = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ values.mT - delta) * scale
        grad_keys = grad_s.mT @ q
        return grad_s @ keys, collect(grad_keys, groups), collect(grad_values, groups)


# %% log-sum-exp_1
"""The clamp at 0 should protect slices that contain only -inf, but it also replaces every other negative maximum. For inputs around -2000, the code then subtracts nothing, all exponentials underflow, and the result is -inf. Only a maximum of -inf may be replaced."""
WRONG = ["peak = x.amax(dim, keepdim=True).clamp(min=0)"]
RIGHT = [
    "peak = x.amax(dim, keepdim=True)\npeak = peak.masked_fill(peak == -math.inf, 0.0)"
]
NAME = "LogSumExp"
EXERCISE = "log-sum-exp"
# --- code
import math

import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x, dim, keepdim=False):
        peak = x.amax(dim, keepdim=True).clamp(min=0)
        y = (x - peak).exp().sum(dim, keepdim=True).log() + peak
        return y if keepdim else y.squeeze(dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.dim, ctx.keepdim = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y, grad_output = y.unsqueeze(ctx.dim), grad_output.unsqueeze(ctx.dim)
        y = y.masked_fill(y == -math.inf, 0.0)
        return grad_output * (x - y).exp(), None, None


# %% plain-conv1d_1
"""The kernel is flipped twice. A flip belongs to the formula that writes the gradient of x as a convolution of the padded grad_output. Here the code already scatters the contribution of tap k to the positions t + k, which needs the weight of that same tap k."""
WRONG = ['part = torch.einsum("not,oc->nct", grad_output, weight[:, :, K - 1 - k])']
RIGHT = ['part = torch.einsum("not,oc->nct", grad_output, weight[:, :, k])']
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
        K, T = weight.shape[-1], grad_output.shape[-1]
        grad_weight = torch.einsum("not,nctk->ock", grad_output, x.unfold(-1, K, 1))
        grad_x = torch.zeros_like(x)
        for k in range(K):
            part = torch.einsum("not,oc->nct", grad_output, weight[:, :, K - 1 - k])
            grad_x[:, :, k : k + T] += part
        return grad_x, grad_weight


# %% conv1d_1
"""To remove the padding, the code slices up to -padding. For padding 0 this is the slice 0:-0, which is empty, because -0 is the index 0 and not the end. The slice has to end at padding + L."""
WRONG = ["grad_x = grad_padded[..., padding:-padding]"]
RIGHT = ["grad_x = grad_padded[..., padding : padding + x.shape[-1]]"]
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
        blocks = weight.unflatten(0, (groups, -1))
        return torch.einsum("ngctk,gock->ngot", windows, blocks).flatten(1, 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, *ctx.settings = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        stride, padding, groups = ctx.settings
        size, count = weight.shape[-1], grad_output.shape[-1]
        g = grad_output.unflatten(1, (groups, -1))
        windows = cut(x, size, stride, padding, groups)
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).flatten(0, 1)
        blocks = weight.unflatten(0, (groups, -1))
        grad_windows = torch.einsum("ngot,gock->ngctk", g, blocks).flatten(1, 2)
        grad_padded = torch.zeros_like(F.pad(x, (padding, padding)))
        for k in range(size):
            last = k + stride * (count - 1)
            grad_padded[..., k : last + 1 : stride] += grad_windows[..., k]
        grad_x = grad_padded[..., padding:-padding]
        return grad_x, grad_weight, None, None, None


# %% gumbel-hard_1
"""Backward puts the one-hot output into the softmax formula instead of the soft sample. For a one-hot y, y * (g - sum(g * y)) is zero everywhere, so no gradient flows. The soft sample has to be recomputed from the logits and the noise."""
WRONG = [
    "ctx.save_for_backward(output)",
    "(y,) = ctx.saved_tensors",
]
RIGHT = [
    "ctx.save_for_backward(logits, noise)",
    "logits, noise = ctx.saved_tensors\ny = torch.softmax((logits + noise) / ctx.temperature, -1)",
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
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        centered = grad_output - (grad_output * y).sum(-1, keepdim=True)
        return y * centered / ctx.temperature, None, None


# %% reinmax_1
"""J(q) contains q twice, as the factor and inside the weighted mean of g. The mean was computed once with p and is used for both terms, but J(m) needs the mean of g weighted with m."""
WRONG = ["at_m = m * (grad_output - mean)"]
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
        logits, _ = inputs
        ctx.save_for_backward(logits, output)

    @staticmethod
    def backward(ctx, grad_output):
        logits, y = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        m = (p + y) / 2
        mean = (grad_output * p).sum(-1, keepdim=True)
        at_p = p * (grad_output - mean)
        at_m = m * (grad_output - mean)
        return 2 * at_m - 0.5 * at_p, None


# %% jvp-smooth-maximum_1
"""The derivative of y with respect to x_i is p_i: the factor t in front of the logarithm cancels the 1/t from the inner derivative. The code keeps the inner 1/t, so the tangent of x is scaled by 1/t and is right only for t = 1."""
WRONG = ["from_x = (p * x_tangent).sum(-1) / t"]
RIGHT = ["from_x = (p * x_tangent).sum(-1)"]
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
        from_x = (p * x_tangent).sum(-1) / t
        from_t = t_tangent * (y - (p * x).sum(-1)) / t
        return from_x + from_t


# %% repair-graph-breaks_1
"""The straight parts of the loss have the slopes +delta and -delta: |x| falls on the negative side. The code returns +delta on both sides, so the gradient of large negative errors has the wrong sign."""
WRONG = ["slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta)"]
RIGHT = ["slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta * x.sign())"]
NAME = "Huber"
EXERCISE = "repair-graph-breaks"
# --- code
import torch
from torch.autograd import Function


class Huber(Function):
    @staticmethod
    def forward(x, delta):
        size = x.abs()
        return torch.where(size <= delta, x**2 / 2, delta * (size - delta / 2))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta)
        return grad_output * slope, None


# %% kepler_1
"""The gradient of e treats E = M + e * sin(E) as an explicit formula and holds the E on the right constant. But this E also depends on e, so the implicit derivative is sin(E) / (1 - e * cos(E)), with the same denominator as for M."""
WRONG = ["grad_e = (grad_output * torch.sin(E)).sum()"]
RIGHT = ["grad_e = (grad_M * torch.sin(E)).sum()"]
NAME = "Kepler"
EXERCISE = "kepler"
# --- code
import math

import torch
from torch.autograd import Function


def solve_kepler(M, e):
    E = torch.full_like(M, math.pi)
    for _ in range(100):
        E = E - (E - e * torch.sin(E) - M) / (1 - e * torch.cos(E))
    return E


class Kepler(Function):
    @staticmethod
    def forward(M, e):
        return solve_kepler(M, e)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, e = inputs
        ctx.save_for_backward(e, output)

    @staticmethod
    def backward(ctx, grad_output):
        e, E = ctx.saved_tensors
        grad_M = grad_output / (1 - e * torch.cos(E))
        grad_e = (grad_output * torch.sin(E)).sum()
        return grad_M, grad_e


# %% triangular-solve_1
"""The transpose of a lower triangular matrix is upper triangular, so the system in backward needs the opposite flag. With the same flag, the solver reads the half of the transpose that holds the unused numbers of T, and both gradients are wrong."""
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
        T, _, ctx.lower = inputs
        ctx.save_for_backward(T, output)

    @staticmethod
    def backward(ctx, grad_output):
        T, X = ctx.saved_tensors
        grad_B = TriangularSolve.apply(T.mT, grad_output, ctx.lower)
        grad_T = -grad_B @ X.mT
        grad_T = grad_T.tril() if ctx.lower else grad_T.triu()
        return grad_T, grad_B, None


# %% soft-threshold-function_1
"""The threshold moves each kept number toward 0, so the derivative of y with respect to t is -sign(x): -1 for positive, +1 for negative numbers. The code uses the mask of the kept numbers instead of their sign, so negative numbers contribute with the wrong sign."""
WRONG = ["grad_threshold = -(grad_output * kept).sum()"]
RIGHT = ["grad_threshold = -(grad_output * torch.sign(y)).sum()"]
NAME = "SoftThreshold"
EXERCISE = "soft-threshold-function"
# --- code
import torch
from torch.autograd import Function


class SoftThreshold(Function):
    @staticmethod
    def forward(x, threshold):
        return torch.sign(x) * (x.abs() - threshold).clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, threshold = inputs
        ctx.shape = threshold.shape
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        kept = (y != 0).to(grad_output.dtype)
        grad_x = grad_output * kept
        grad_threshold = -(grad_output * kept).sum()
        return grad_x, grad_threshold.reshape(ctx.shape)


# %% lost-gradients_1
"""A grad_output of ones cannot see anything behind a softmax: its outputs add up to 1, so the gradient of their sum is zero in both models, and zero equals zero even if the gradients are lost. The grad_output has to be uneven, for example random."""
WRONG = ["g = torch.ones_like(y)"]
RIGHT = ["g = torch.randn(y.shape, generator=torch.Generator().manual_seed(0)).to(y)"]
NAME = "lost_gradients"
EXERCISE = "lost-gradients"
# --- code
import torch


def gradients(y, parameters, g):
    if not y.requires_grad:
        return [None] * len(parameters)
    return torch.autograd.grad(y, parameters, g, allow_unused=True)


def lost_gradients(model, shipped, x):
    loaded = dict(shipped.named_parameters())
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    y, z = model(x), shipped(x)
    g = torch.ones_like(y)
    expected = gradients(y, [dict(model.named_parameters())[name] for name in names], g)
    arrived = gradients(z, [loaded[name] for name in names], g)
    lost = []
    for name, right, other in zip(names, expected, arrived):
        if right is None and other is None:
            continue
        right = torch.zeros_like(loaded[name]) if right is None else right
        other = torch.zeros_like(right) if other is None else other
        scale = right.abs().max().item()
        if not torch.allclose(other, right, rtol=1e-3, atol=1e-4 * scale + 1e-7):
            lost.append(name)
    return lost


# %% eight-bits_1
"""The straight-through step covers only the rounding, but the gradient should skip the whole computation. Autograd therefore also differentiates the clamp and the scale, which depends on the weight, so the largest weight of each row gets a different gradient."""
WRONG = ["return scale * levels.clamp(-128, 127)"]
RIGHT = ["return weight + (scale * levels.clamp(-128, 127) - weight).detach()"]
NAME = "eight_bits"
EXERCISE = "eight-bits"
# --- code
import torch


def eight_bits(weight):
    eps = torch.finfo(weight.dtype).eps
    scale = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=eps)
    levels = weight / scale
    levels = levels + (levels.round() - levels).detach()
    return scale * levels.clamp(-128, 127)
