"""Mistakes: held out, honest attempts at exercises. Each cell is a separate module; see benchmarks/repairs.py."""

# %% linear_1
"""For a single vector x there are no leading dimensions, so the tuple of dims to sum over is empty, and torch.sum with an empty tuple of dims sums over ALL dimensions instead of none. The bias gradient becomes one number instead of a vector of length out."""
WRONG = ["grad_bias = grad_output.sum(leading)"]
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
        y = x @ weight.T
        return y + bias if ctx.has_bias else y

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x = grad_output @ weight
        rows = grad_output.reshape(-1, weight.shape[0])
        grad_weight = rows.T @ x.reshape(-1, weight.shape[1])
        grad_bias = None
        if ctx.has_bias:
            leading = tuple(range(grad_output.dim() - 1))
            grad_bias = grad_output.sum(leading)
        return grad_x, grad_weight, grad_bias


# %% to-polar_1
"""The derivatives of theta are -y/r^2 and x/r^2, that is sine and cosine divided by r once more. The code treats the change of coordinates as a pure rotation and forgets that a step of a given length turns the angle less the further away from the origin it is."""
WRONG = ["grad_x = cos * grad_r - sin * grad_theta", "grad_y = sin * grad_r + cos * grad_theta"]
RIGHT = ["grad_x = cos * grad_r - sin / r * grad_theta", "grad_y = sin * grad_r + cos / r * grad_theta"]
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


# %% strided-gain_1
"""The length of x cannot be recovered from the output: several lengths give the same number of kept elements. n * stride is only right if the length of x is a multiple of the stride; otherwise the gradient of x is too long, so the shape of x has to be stored."""
WRONG = ["_, _, ctx.stride, ctx.training = inputs", "width = grad_output.shape[-1] * ctx.stride"]
RIGHT = ["_, _, ctx.stride, ctx.training = inputs\nctx.width = inputs[0].shape[-1]", "width = ctx.width"]
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
        _, _, ctx.stride, ctx.training = inputs
        if ctx.training:
            ctx.save_for_backward(inputs[0], inputs[1])

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = grad_gain = None
        needs_x, needs_gain = ctx.needs_input_grad[:2]
        if ctx.training:
            x, gain = ctx.saved_tensors
        if needs_x:
            width = grad_output.shape[-1] * ctx.stride
            grad_x = grad_output.new_zeros(*grad_output.shape[:-1], width)
            grad_x[..., :: ctx.stride] = gain * grad_output if ctx.training else grad_output
        if needs_gain and ctx.training:
            grad_gain = grad_output * x[..., :: ctx.stride]
        return grad_x, grad_gain, None, None


# %% frozen-target_1
"""backward only runs if some input requires a gradient, so `not any(...)` is never true here. If only the target or the weight requires a gradient, backward still computes the gradient of the prediction, which nobody needs; the test has to look at the entry of the prediction alone."""
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
        grad_prediction = 2 * weight * (prediction - target) / prediction.numel() * grad_output
        return grad_prediction, None, None


# %% learnable-swish_1
"""Two mistakes. The derivative of sigma(beta x) with respect to x has an inner factor beta, which the formula taken over from the plain Swish does not have. And .sum() always returns a 0-dim tensor, but beta may have the shape (1,), so its gradient has the wrong shape there."""
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
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x)
        grad_x = grad_output * (s + x * s * (1 - s))
        grad_beta = (grad_output * x**2 * s * (1 - s)).sum()
        return grad_x, grad_beta


# %% broadcast-multiply_1
"""The dims of size 1 are counted from the left, but the leading dims that broadcasting added are still there at this point, and broadcasting aligns shapes from the right. So if an operand has both fewer dims and a dim of size 1 - (3, 1) against (2, 3, 4) - the sum runs over the wrong dim."""
WRONG = ["grad = grad.sum(dim, keepdim=True)"]
RIGHT = ["grad = grad.sum(dim - len(shape), keepdim=True)"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch.autograd import Function


def reduce_to(grad, shape):
    for dim, size in enumerate(shape):
        if size == 1:
            grad = grad.sum(dim, keepdim=True)
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
"""The maximum is a copy of one of the elements, so == is exact here. isclose also counts elements that are only nearly as large as the maximum, and gives them a share of the gradient although they are not equal to it."""
WRONG = ["winners = torch.isclose(x, y).to(grad_output.dtype)"]
RIGHT = ["winners = (x == y).to(grad_output.dtype)"]
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
        x, ctx.dim = inputs[:2]
        ctx.keepdim = inputs[2] if len(inputs) > 2 else False
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y, grad_output = y.unsqueeze(ctx.dim), grad_output.unsqueeze(ctx.dim)
        winners = torch.isclose(x, y).to(grad_output.dtype)
        share = winners / winners.sum(ctx.dim, keepdim=True)
        return grad_output * share, None, None


# %% soft-rank_1
"""x_k enters the ranks of the others with a minus sign, because they contain x_i - x_k. So the part that comes from the other ranks has to be subtracted; a shift of all x by the same number changes no rank, so the gradient must add up to 0."""
WRONG = ["return own + others, None"]
RIGHT = ["return own - others, None"]
NAME = "SoftRank"
EXERCISE = "soft-rank"
# --- code
import torch
from torch.autograd import Function


class SoftRank(Function):
    @staticmethod
    def forward(x, tau):
        return 0.5 + torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / tau).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.tau = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / ctx.tau)
        slope = s * (1 - s) / ctx.tau
        weighted = grad_output.unsqueeze(-1) * slope
        own = weighted.sum(-1)
        others = weighted.sum(-2)
        return own + others, None


# %% repair-temperature_1
"""The derivative of x / t with respect to t is -x / t^2. grad_x contains only one of the two factors 1 / t, so reusing it leaves the gradient of the temperature too large by the factor t."""
WRONG = ["grad_temperature = -(grad_x * x).sum()"]
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
        grad_temperature = -(grad_x * x).sum()
        return grad_x, grad_temperature


# %% repair-color-table_1
"""`grad_table[index + 1] += ...` looks like an addition for each pixel, but it reads, adds and writes once, so of all pixels with the same index only one counts. Only the first of the two writes was made to accumulate."""
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
        return grad_table, None, (table[index + 1] - table[index]) * grad_output


# %% repair-rms-norm_1
"""The output y is now saved, so the second derivative follows the path through y, but r is still an intermediate of forward and thus a constant in backward. The path through r is missing from the second derivative; r must be computed from x in backward."""
WRONG = ["ctx.save_for_backward(y, r)", "y, r = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(x, y)", "x, y = ctx.saved_tensors\nr = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()"]
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
"""A generator has a state, and drawing the mask in forward has advanced it. Drawing from the same generator again in backward continues the sequence and gives another mask; backward needs a new generator with the same seed."""
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


# %% ternary-ste_1
"""upper and lower are boolean tensors, and the sum of two booleans is a logical or: True + True is True, not 2. Where both clips pass the gradient, x gets half of it instead of all of it."""
WRONG = ["grad_x = 0.5 * grad_output * (upper + lower)"]
RIGHT = ["grad_x = 0.5 * (grad_output * upper + grad_output * lower)"]
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
        return (sign(x - threshold) + sign(x + threshold)) / 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, threshold = ctx.saved_tensors
        upper = (x - threshold).abs() <= 1
        lower = (x + threshold).abs() <= 1
        grad_x = 0.5 * grad_output * (upper + lower)
        grad_threshold = 0.5 * (grad_output * lower - grad_output * upper).sum()
        return grad_x, grad_threshold


# %% fake-quantize_1
"""The product rule for y = s * q(x / s) gives q minus (slope of the clamp) * x / s. Outside of the bounds the slope of the clamp is 0, so the second term vanishes and q, that is low or high, remains. The code subtracts the clamped value everywhere, so these elements add nothing to the gradient of the step."""
WRONG = ["grad_step = (grad_output * (level.round() - level)).sum()"]
RIGHT = ["grad_step = (grad_output * (level.round() - inside * level)).sum()"]
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
        scaled = x / step
        inside = (scaled >= ctx.low) & (scaled <= ctx.high)
        level = scaled.clamp(ctx.low, ctx.high)
        grad_x = grad_output * inside
        grad_step = (grad_output * (level.round() - level)).sum()
        return grad_x, grad_step, None, None


# %% logsumexp-hessian_1
"""output.unsqueeze(-1) is a new tensor, not the output, and setup_context does not record operations. So autograd takes y in backward as a constant: the first derivative is right, but the Hessian lacks the term -p_i p_j. The output itself must be saved and unsqueezed in backward."""
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
        return grad_output.unsqueeze(-1) * p


# %% hessian-vector-product_1
"""Each gradient is multiplied with its own vector and differentiated only with respect to its own input. That gives the diagonal blocks of the Hessian and leaves out all mixed second derivatives; the products have to be added up first and then differentiated with respect to all inputs."""
WRONG = ["dots = [(slope * vector).sum() for slope, vector in zip(slopes, vectors)]", "products = [second(dot, (leaf,))[0] for dot, leaf in zip(dots, leaves)]"]
RIGHT = ["dot = sum((slope * vector).sum() for slope, vector in zip(slopes, vectors))", "products = second(dot, leaves)"]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def second(dot, leaves):
    if not dot.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    return torch.autograd.grad(
        dot, leaves, retain_graph=True, allow_unused=True, materialize_grads=True
    )


def hvp(f, inputs, vectors):
    leaves = tuple(x.detach().clone().requires_grad_() for x in inputs)
    slopes = torch.autograd.grad(
        f(*leaves), leaves, create_graph=True, allow_unused=True, materialize_grads=True
    )
    dots = [(slope * vector).sum() for slope, vector in zip(slopes, vectors)]
    products = [second(dot, (leaf,))[0] for dot, leaf in zip(dots, leaves)]
    return tuple(product.detach() for product in products)


# %% gradient-penalty_1
"""The derivative of sqrt is infinite at 0. Where the critic is flat, the sum of squares is 0, and the chain rule multiplies infinity by 0: all gradients of the penalty with respect to the parameters become nan. torch.linalg.vector_norm uses the subgradient 0 there."""
WRONG = ["norms = slopes.reshape(len(x), -1).square().sum(1).sqrt()"]
RIGHT = ["norms = torch.linalg.vector_norm(slopes.reshape(len(x), -1), dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    x = x.detach().clone().requires_grad_()
    scores = critic(x)
    (slopes,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
    norms = slopes.reshape(len(x), -1).square().sum(1).sqrt()
    return (norms - 1).square().mean()


# %% packed-leaky-relu_1
"""torch.sum turns small integer dtypes into int64, so the packed mask has eight bytes for each eight elements, that is one byte per element instead of one bit. The sum needs dtype=torch.uint8."""
WRONG = ["packed = (bits * powers).sum(-1)"]
RIGHT = ["packed = (bits * powers).sum(-1, dtype=torch.uint8)"]
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
        bits = F.pad(positive.reshape(-1).to(torch.uint8), (0, -x.numel() % 8)).reshape(-1, 8)
        powers = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=x.device)
        packed = (bits * powers).sum(-1)
        ctx.save_for_backward(packed)
        ctx.slope = slope
        return torch.where(positive, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        places = torch.arange(8, dtype=torch.uint8, device=packed.device)
        bits = (packed.unsqueeze(-1) >> places) & 1
        positive = bits.reshape(-1)[: grad_output.numel()].reshape(grad_output.shape).bool()
        return torch.where(positive, grad_output, ctx.slope * grad_output), None


# %% checkpointed-block_1
"""backward resets the global generator to its state before forward and leaves it there after the second run. So the next random numbers of the program repeat the ones from after the forward call; the state that was found must be restored."""
WRONG = ["torch.set_rng_state(ctx.state)", "y = ctx.block(x)"]
RIGHT = ["found = torch.get_rng_state()\ntorch.set_rng_state(ctx.state)", "y = ctx.block(x)\ntorch.set_rng_state(found)"]
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
        ctx.state = torch.get_rng_state()
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_(ctx.needs_input_grad[1])
        torch.set_rng_state(ctx.state)
        with torch.enable_grad():
            y = ctx.block(x)
        tensors = (x, *ctx.block.parameters())
        needed = ctx.needs_input_grad[1:]
        wanted = [tensor for tensor, need in zip(tensors, needed) if need]
        found_grads = iter(torch.autograd.grad(y, wanted, grad_output, allow_unused=True))
        return None, *[next(found_grads) if need else None for need in needed]


# %% invertible-coupling_1
"""y1 is not only an output, it also enters y2. grad_x1 takes both paths into account, but the gradient that goes into the first tanh still uses only the incoming grad_y1, so grad_w and grad_x2 miss the path over y2."""
WRONG = ["inner = grad_y1 * (1 - s**2)"]
RIGHT = ["inner = grad_x1 * (1 - s**2)"]
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
        ctx.save_for_backward(*output, *inputs[2:])

    @staticmethod
    def backward(ctx, grad_y1, grad_y2):
        y1, y2, w, v = ctx.saved_tensors
        t = torch.tanh(y1 @ v)
        x2 = y2 - t
        outer = grad_y2 * (1 - t**2)
        grad_v = y1.T @ outer
        grad_x1 = grad_y1 + outer @ v.T
        s = torch.tanh(x2 @ w)
        inner = grad_y1 * (1 - s**2)
        grad_w = x2.T @ inner
        grad_x2 = grad_y2 + inner @ w.T
        return grad_x1, grad_x2, grad_w, grad_v


# %% chunked-row-losses_1
"""slope[:, words] selects the columns of all targets of the chunk in every row, so each row also loses 1 at the targets of the other rows. One element per row needs a pair of index tensors; with chunk=1 the two are the same."""
WRONG = ["slope[:, words] -= 1"]
RIGHT = ["slope[torch.arange(len(words), device=words.device), words] -= 1"]
NAME = "RowLosses"
EXERCISE = "chunked-row-losses"
# --- code
import torch
from torch.autograd import Function


class RowLosses(Function):
    @staticmethod
    def forward(ctx, x, weight, target, chunk):
        lse = x.new_empty(len(x))
        right = x.new_empty(len(x))
        for start in range(0, len(x), chunk):
            part = slice(start, start + chunk)
            logits = x[part] @ weight.T
            lse[part] = torch.logsumexp(logits, 1)
            right[part] = logits.gather(1, target[part].unsqueeze(1)).squeeze(1)
        ctx.save_for_backward(x, weight, target, lse)
        ctx.chunk = chunk
        return lse - right

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, target, lse = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_weight = torch.zeros_like(weight)
        for start in range(0, len(x), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            words = target[part]
            slope = torch.exp(x[part] @ weight.T - lse[part].unsqueeze(1))
            slope[:, words] -= 1
            slope *= grad_output[part].unsqueeze(1)
            grad_x[part] = slope @ weight
            grad_weight += slope.T @ x[part]
        return grad_x, grad_weight, None, None


# %% merge-halves_1
"""If a query sees no keys in either half, both weights are 0. Replacing the maximum of minus infinity avoids the first nan, but the division by the sum of the weights is still 0 / 0, so the output is nan instead of zeros."""
WRONG = ["out = (a * out_a + b * out_b) / total"]
RIGHT = ["out = (a * out_a + b * out_b) / total.masked_fill(total == 0, 1)"]
NAME = "merge"
EXERCISE = "merge-halves"
# --- code
import math

import torch


def merge(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b)
    top = top.masked_fill(top == -math.inf, 0)
    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)
    total = a + b
    out = (a * out_a + b * out_b) / total
    return out, top + torch.log(total)


# %% attention-backward_1
"""The saved q is already divided by sqrt(E), because forward rescaled the variable. The product of dS with this q contains the scale once; multiplying by it again makes the gradient of k too small by the factor sqrt(E). Only the gradient of q needs the extra factor."""
WRONG = ["grad_k = grad_s.mT @ q * scale"]
RIGHT = ["grad_k = grad_s.mT @ q"]
NAME = "Attention"
EXERCISE = "attention-backward"
# --- code
import math

import torch
from torch.autograd import Function


class Attention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        q = q / math.sqrt(q.shape[-1])
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
        scale = 1 / math.sqrt(q.shape[-1])
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))
        grad_q = grad_s @ k * scale
        grad_k = grad_s.mT @ q * scale
        return grad_q, grad_k, grad_v, None


# %% attention-twice_1
"""L is a function of the scores S, and the scores contain 1 / sqrt(E). So the part of dS that comes from grad_lse reaches q and k through the same scaled product and needs the same factor; here only the part from the output has it."""
WRONG = ["grad_s = scale * p * (grad_p - d) + p * grad_lse.unsqueeze(-1)"]
RIGHT = ["grad_s = scale * p * (grad_p - d + grad_lse.unsqueeze(-1))"]
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
        return torch.exp(s - lse.unsqueeze(-1)) @ v, lse

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        q, k, v, out, lse = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ k.mT * scale - lse.unsqueeze(-1))
        grad_v = p.mT @ grad_out
        grad_p = grad_out @ v.mT
        d = (grad_out * out).sum(-1, keepdim=True)
        grad_s = scale * p * (grad_p - d) + p * grad_lse.unsqueeze(-1)
        return grad_s @ k, grad_s.mT @ q, grad_v


# %% attention-grouped_1
"""forward repeats each key head for neighboring query heads, so the head dimension splits into (G, H/G) and the sum runs over the second factor. The code splits it into (H/G, G) and adds up heads that read different key heads; the shapes are right, but the gradients of k and v are mixed up."""
WRONG = ["grad_k = grad_keys.unflatten(-3, (repeats, groups)).sum(-4)", "grad_v = grad_values.unflatten(-3, (repeats, groups)).sum(-4)"]
RIGHT = ["grad_k = grad_keys.unflatten(-3, (groups, repeats)).sum(-3)", "grad_v = grad_values.unflatten(-3, (groups, repeats)).sum(-3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        repeats = q.shape[-3] // k.shape[-3]
        keys, values = k.repeat_interleave(repeats, -3), v.repeat_interleave(repeats, -3)
        s = q @ keys.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(s, -1, keepdim=True)
        out = torch.exp(s - lse) @ values
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        groups = k.shape[-3]
        repeats = q.shape[-3] // groups
        keys, values = k.repeat_interleave(repeats, -3), v.repeat_interleave(repeats, -3)
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ keys.mT * scale - lse)
        d = (grad_output * out).sum(-1, keepdim=True)
        grad_s = scale * p * (grad_output @ values.mT - d)
        grad_q = grad_s @ keys
        grad_keys = grad_s.mT @ q
        grad_values = p.mT @ grad_output
        grad_k = grad_keys.unflatten(-3, (repeats, groups)).sum(-4)
        grad_v = grad_values.unflatten(-3, (repeats, groups)).sum(-4)
        return grad_q, grad_k, grad_v


# %% log-sum-exp_1
"""The maximum of the whole tensor prevents overflow, but a slice whose entries lie far below it underflows: all its exponentials are 0, and its log is minus infinity. Each slice needs its own maximum along dim."""
WRONG = ["top = x.max().clamp(min=torch.finfo(x.dtype).min)"]
RIGHT = ["top = x.amax(dim, keepdim=True).clamp(min=torch.finfo(x.dtype).min)"]
NAME = "LogSumExp"
EXERCISE = "log-sum-exp"
# --- code
import math

import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x, dim, keepdim=False):
        top = x.max().clamp(min=torch.finfo(x.dtype).min)
        y = top + torch.log(torch.exp(x - top).sum(dim, keepdim=True))
        return y if keepdim else y.squeeze(dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.dim = inputs[:2]
        ctx.keepdim = inputs[2] if len(inputs) > 2 else False
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y, grad_output = y.unsqueeze(ctx.dim), grad_output.unsqueeze(ctx.dim)
        y = y.masked_fill(y == -math.inf, 0)
        return grad_output * torch.exp(x - y), None, None


# %% conv1d_1
"""Without padding the slice is [0:-0], and -0 is 0, so it is empty instead of the whole row. The end of the crop must be counted from the left, padding + L."""
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
        windows = F.pad(x, (padding, padding)).unfold(-1, weight.shape[-1], stride)
        windows = windows.unflatten(1, (groups, -1))
        w = weight.unflatten(0, (groups, -1))
        return torch.einsum("ngctk,gock->ngot", windows, w).flatten(1, 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.stride, ctx.padding, ctx.groups = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        kernel, steps = weight.shape[-1], grad_output.shape[-1]
        padded = F.pad(x, (ctx.padding, ctx.padding))
        windows = padded.unfold(-1, kernel, ctx.stride).unflatten(1, (ctx.groups, -1))
        w = weight.unflatten(0, (ctx.groups, -1))
        g = grad_output.unflatten(1, (ctx.groups, -1))
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).flatten(0, 1)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, w).flatten(1, 2)
        grad_padded = torch.zeros_like(padded)
        for k in range(kernel):
            end = k + ctx.stride * (steps - 1) + 1
            grad_padded[..., k : end : ctx.stride] += grad_windows[..., k]
        grad_x = grad_padded[..., ctx.padding : -ctx.padding]
        return grad_x, grad_weight, None, None, None


# %% complex-multiply_1
"""For a real input, the gradient is the real part of the product g * conj(w), which is Re g Re w + Im g Im w. Taking the real parts of both factors first loses the second term: a real z also moves the imaginary part of y."""
WRONG = ["grad_z = grad_output.real * w.real", "grad_w = grad_output.real * z.real"]
RIGHT = ["grad_z = grad_z.real", "grad_w = grad_w.real"]
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
        grad_w = grad_output * z.conj()
        if not z.is_complex():
            grad_z = grad_output.real * w.real
        if not w.is_complex():
            grad_w = grad_output.real * z.real
        return grad_z, grad_w


# %% gumbel-hard_1
"""The temperature divides the sum of logits and noise, not the logits alone. Without the division of the noise, backward evaluates the slope at another soft sample than the surrogate's; at temperature 1 both are the same."""
WRONG = ["soft = torch.softmax(logits / ctx.temperature + noise, -1)"]
RIGHT = ["soft = torch.softmax((logits + noise) / ctx.temperature, -1)"]
NAME = "HardGumbelSoftmax"
EXERCISE = "gumbel-hard"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        best = (logits + noise).argmax(-1)
        return F.one_hot(best, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise, ctx.temperature = inputs
        ctx.save_for_backward(logits, noise)

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise = ctx.saved_tensors
        soft = torch.softmax(logits / ctx.temperature + noise, -1)
        common = (grad_output * soft).sum(-1, keepdim=True)
        return soft * (grad_output - common) / ctx.temperature, None, None


# %% reinmax_1
"""J(q)^T g contains q twice, so it is quadratic in q and not linear. The combination 2 J(m) - J(p)/2 cannot be pulled inside as J(2m - p/2), whose argument does not even sum to 1."""
WRONG = ["grad_logits = pull_back(2 * m - p / 2, grad_output)"]
RIGHT = ["grad_logits = 2 * pull_back(m, grad_output) - pull_back(p, grad_output) / 2"]
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


def pull_back(q, g):
    return q * (g - (g * q).sum(-1, keepdim=True))


class ReinMax(Function):
    @staticmethod
    def forward(logits, noise):
        best = (logits + noise).argmax(-1)
        return F.one_hot(best, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        logits, y = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        m = (p + y) / 2
        grad_logits = pull_back(2 * m - p / 2, grad_output)
        return grad_logits, None


# %% per-sample-gradients_1
"""vmap hides the batch dim of the target as well, so the target of a batch of one needs a batch dim too. With mse_loss the shapes broadcast and the values happen to be right, but cross_entropy gets a batch of one prediction and a target without a batch dim and raises an error."""
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

    gradients = torch.func.vmap(torch.func.grad(sample_loss), in_dims=(None, 0, 0))(
        parameters, x, y
    )
    return tuple(gradients[name] for name in parameters)


# %% jvp-smooth-maximum_1
"""backward adds up the temperature's gradient over the rows, because all rows share t. In forward mode it is the other way round: the one tangent of t goes to every row with the slope of that row. The sum taken over from backward gives every row the total change of all rows."""
WRONG = ["from_t = (t_tangent * (y - (p * x).sum(-1)) / t).sum()"]
RIGHT = ["from_t = t_tangent * (y - (p * x).sum(-1)) / t"]
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
        from_x = (p * x_tangent).sum(-1)
        from_t = (t_tangent * (y - (p * x).sum(-1)) / t).sum()
        return from_x + from_t


# %% operator-window-sums_1
"""The routine returns a view whose rows still have the stride of the longer series, whereas the fake promises a contiguous tensor. With leading dims the strides differ, so opcheck fails and compiled code may read the wrong numbers; the result has to be made contiguous."""
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
    series = x.numpy(force=True).copy()
    return torch.from_numpy(vendor_sums(series, width))


@window_sums.register_fake
def fake(x, width):
    return x.new_empty(*x.shape[:-1], x.shape[-1] - width + 1)


def setup_context(ctx, inputs, output):
    _, ctx.width = inputs


def backward(ctx, grad_output):
    padded = F.pad(grad_output, (ctx.width - 1, ctx.width - 1))
    return window_sums(padded, ctx.width), None


window_sums.register_autograd(backward, setup_context=setup_context)


# %% repair-autocast_1
"""custom_fwd only switches autocast off in forward. If the training loop calls backward() inside the autocast block, the products in backward still run in bfloat16, because the matching custom_bwd is missing."""
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
"""The slope of tanh belongs to every pass through the layer, not only to the last one. The adjoint equation is u = slope * (g + u W), but here the part that goes around the loop again is not multiplied by the slope."""
WRONG = ["u = settled(lambda u: grad_output * slope + u @ W, grad_output)"]
RIGHT = ["u = settled(lambda u: (grad_output + u @ W) * slope, grad_output)"]
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
        slope = 1 - z**2
        u = settled(lambda u: grad_output * slope + u @ W, grad_output)
        return u, u.T @ z


# %% triangular-solve_1
"""Transposing a lower triangular matrix makes it an upper one. backward transposes T but keeps the flag of forward, so the solver reads the half that T does not use (old values or zeros) and ignores the coefficients outside of the diagonal."""
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
        ctx.lower = inputs[2] if len(inputs) > 2 else True
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        T, X = ctx.saved_tensors
        grad_B = torch.linalg.solve_triangular(T.mT, grad_output, upper=not ctx.lower)
        grad_T = -grad_B @ X.mT
        grad_T = torch.tril(grad_T) if ctx.lower else torch.triu(grad_T)
        return grad_T, grad_B, None
