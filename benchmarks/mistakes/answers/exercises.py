"""Mistakes: held out, exercises. Each cell is a separate module; see benchmarks/repairs.py."""

# %% attention-backward_1
"""The author put the scale 1/sqrt(E) into dQ and forgot it in dK, because the formula was written down for dQ and then turned round."""
WRONG = ["dk = ds.mT @ q"]
RIGHT = ["dk = scale * (ds.mT @ q)"]
EXERCISE = "attention-backward"
NAME = "Attention"
# --- code
import math

import torch
from torch import Tensor


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    scores = (q @ k.mT) / math.sqrt(q.shape[-1])
    if mask is None:
        return scores.softmax(-1)
    p = scores.masked_fill(~mask, -math.inf).softmax(-1)
    sees_nothing = ~mask.any(-1, keepdim=True)
    return p.masked_fill(sees_nothing, 0.0)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return attention_weights(q, k, mask) @ v

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, mask = inputs
        ctx.save_for_backward(q, k, v, attention_weights(q, k, mask))

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        q, k, v, p = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        dv = p.mT @ grad_output
        dp = grad_output @ v.mT
        ds = p * (dp - (dp * p).sum(-1, keepdim=True))
        dq = scale * (ds @ k)
        dk = ds.mT @ q
        return dq, dk, dv, None

# %% attention-forward_1
"""The author masks with -1e9, "as good as minus infinity"; a query that sees no key then gets the average of all values instead of zeros."""
WRONG = ["scores = scores.masked_fill(~mask, -1e9)  # not -inf, that makes nan"]
RIGHT = ['scores = scores.masked_fill(~mask, float("-inf"))']
EXERCISE = "attention-forward"
NAME = "attend"
# --- code
import math

import torch
from torch import Tensor


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, -1e9)  # not -inf, that makes nan
        else:
            scores = scores + mask
    blind = torch.isneginf(scores).all(dim=-1, keepdim=True)
    weights = torch.softmax(scores, dim=-1).masked_fill(blind, 0.0)
    return weights @ v

# %% attention-grouped_1
"""The author copies the key heads with repeat, which gives 0 1 0 1, where the exercise wants 0 0 1 1 (repeat_interleave); backward, which adds up neighbors, expects the latter."""
WRONG = ["return t.repeat(*[1] * (t.dim() - 3), times, 1, 1)"]
RIGHT = ["return t.repeat_interleave(times, dim=-3)"]
EXERCISE = "attention-grouped"
NAME = "GroupedAttention"
# --- code
import math

import torch
from torch import Tensor


def to_query_heads(t: Tensor, heads: int) -> Tensor:
    """Each key head as often as query heads read it: (..., G, M, E) -> (..., H, M, E)."""
    times = heads // t.shape[-3]
    return t.repeat(*[1] * (t.dim() - 3), times, 1, 1)


def to_key_heads(t: Tensor, groups: int) -> Tensor:
    """Its backward: add up the query heads that read the same key head."""
    return t.unflatten(-3, (groups, t.shape[-3] // groups)).sum(-3)


class GroupedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads = q.shape[-3]
        scores = q @ to_query_heads(k, heads).mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(scores, -1, keepdim=True)
        out = torch.exp(scores - lse) @ to_query_heads(v, heads)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, out, lse = ctx.saved_tensors
        heads, groups = q.shape[-3], k.shape[-3]
        scale = 1 / math.sqrt(q.shape[-1])
        wide_k, wide_v = to_query_heads(k, heads), to_query_heads(v, heads)

        p = torch.exp(scale * (q @ wide_k.mT) - lse)
        d = (grad_output * out).sum(-1, keepdim=True)
        ds = p * (grad_output @ wide_v.mT - d) * scale

        grad_q = ds @ wide_k
        grad_k = to_key_heads(ds.mT @ q, groups)
        grad_v = to_key_heads(p.mT @ grad_output, groups)
        return grad_q, grad_k, grad_v

# %% batch-norm_1
"""The author took x.var without saying which variance; PyTorch's default divides by m - 1, the exercise and the author's own backward divide by m."""
WRONG = ["variance = x.var(axes, keepdim=True)"]
RIGHT = ["variance = x.var(axes, correction=0, keepdim=True)"]
EXERCISE = "batch-norm"
NAME = "BatchNorm"
# --- code
import torch
from torch import Tensor


class BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, eps: float) -> Tensor:
        axes = [a for a in range(x.dim()) if a != 1]
        mean = x.mean(axes, keepdim=True)
        variance = x.var(axes, keepdim=True)
        inv_std = torch.rsqrt(variance + eps)
        y = (x - mean) * inv_std
        ctx.axes = axes
        ctx.save_for_backward(y, inv_std)
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        y, inv_std = ctx.saved_tensors
        # directly, through the mean, through the variance
        through_mean = grad_output.mean(ctx.axes, keepdim=True)
        through_variance = y * (grad_output * y).mean(ctx.axes, keepdim=True)
        return inv_std * (grad_output - through_mean - through_variance), None

# %% checkpointed-block_1
"""The author rewinds the random numbers for the second run and leaves them there, believing that after the second run they stand where they stood before backward."""
WRONG = []
RIGHT = ["now = torch.get_rng_state()", "torch.set_rng_state(now)"]
EXERCISE = "checkpointed-block"
NAME = "checkpointed"
# --- code
import torch
from torch import Tensor, nn


def checkpointed(block: nn.Module, x: Tensor) -> Tensor:
    # The parameters go in as well: otherwise autograd would not know that the output
    # depends on them, and a first layer (x without grad) would not be trained at all.
    return Checkpointed.apply(block, x, *block.parameters())


class Checkpointed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block = block
        # where the random numbers stand, for the same dropout mask in the second run
        ctx.save_for_backward(x, torch.get_rng_state(), *parameters)
        with torch.no_grad():
            return block(x)

    @staticmethod
    def backward(ctx, grad_output):
        x, state, *parameters = ctx.saved_tensors
        needed = ctx.needs_input_grad[1:]
        x = x.detach().requires_grad_(needed[0])
        # the same run again, with a graph this time
        torch.set_rng_state(state)
        with torch.enable_grad():
            y = ctx.block(x)

        tensors = [x, *parameters]
        wanted = [t for t, need in zip(tensors, needed) if need]
        found = iter(torch.autograd.grad(y, wanted, grad_output, allow_unused=True))
        return (None, *[next(found) if need else None for need in needed])

# %% chunked-row-losses_1
"""In backward the author counts the chunks with rows // chunk, so the last, shorter chunk is never visited and its rows get gradient zero; tried with a multiple of chunk only."""
WRONG = ["for i in range(len(x) // ctx.chunk):"]
RIGHT = ["for i in range((len(x) + ctx.chunk - 1) // ctx.chunk):"]
EXERCISE = "chunked-row-losses"
NAME = "RowLosses"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class RowLosses(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, target: Tensor, chunk: int) -> Tensor:
        ctx.save_for_backward(x, weight, target)
        ctx.chunk = chunk
        losses = []
        for rows, words in zip(x.split(chunk), target.split(chunk)):
            logits = rows @ weight.T
            picked = logits.gather(1, words.unsqueeze(1)).squeeze(1)
            losses.append(torch.logsumexp(logits, dim=1) - picked)
        return torch.cat(losses)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, weight, target = ctx.saved_tensors
        grad_x = torch.zeros_like(x)
        grad_weight = torch.zeros_like(weight)
        for i in range(len(x) // ctx.chunk):
            part = slice(i * ctx.chunk, (i + 1) * ctx.chunk)
            dz = torch.softmax(x[part] @ weight.T, dim=1)
            dz[torch.arange(len(dz), device=dz.device), target[part]] -= 1
            dz *= grad_output[part].unsqueeze(1)
            grad_x[part] = dz @ weight
            grad_weight += dz.T @ x[part]
        return grad_x, grad_weight, None, None

# %% clipped-relu_1
"""The author saved the output, as one does for a ReLU; but after the clamp every element lies in [0, ceiling], so the mask with >= and <= lets everything pass."""
WRONG = ["ctx.save_for_backward(output)  # like relu: the output tells where it was clipped"]
RIGHT = ["ctx.save_for_backward(inputs[0])"]
EXERCISE = "clipped-relu"
NAME = "ClippedReLU"
# --- code
import torch
from torch import Tensor


class ClippedReLU(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, ceiling: float) -> Tensor:
        return x.clamp(0, ceiling)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.ceiling = inputs[1]
        ctx.save_for_backward(output)  # like relu: the output tells where it was clipped

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (t,) = ctx.saved_tensors
        open_gate = (t >= 0) & (t <= ctx.ceiling)  # both edges belong to it
        return torch.where(open_gate, grad_output, torch.zeros_like(grad_output)), None

# %% complex-multiply_1
"""Two: for z the author conjugated the incoming gradient instead of the other factor (remembering only that somewhere a conjugate belongs), and the line for w was copied from z's and still asks whether z is complex."""
WRONG = ["grad_z = grad_output.conj() * w", "grad_w = grad_w if z.is_complex() else grad_w.real"]
RIGHT = ["grad_z = grad_output * w.conj()", "grad_w = grad_w if w.is_complex() else grad_w.real"]
EXERCISE = "complex-multiply"
NAME = "ComplexMultiply"
# --- code
import torch


class ComplexMultiply(torch.autograd.Function):
    @staticmethod
    def forward(z, w):
        return z * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        z, w = ctx.saved_tensors
        grad_z = grad_output.conj() * w
        grad_w = grad_output * z.conj()
        # a real input has a real gradient
        grad_z = grad_z if z.is_complex() else grad_z.real
        grad_w = grad_w if z.is_complex() else grad_w.real
        return grad_z, grad_w

# %% conv1d_1
"""The author cut the padding off with [p:-p], which is an empty slice when there is no padding."""
WRONG = ["grad_x = grad_padded[..., padding:-padding]"]
RIGHT = ["grad_x = grad_padded[..., padding : padding + length]"]
EXERCISE = "conv1d"
NAME = "Conv1d"
# --- code
import torch
from torch import Tensor


def windows_of(x: Tensor, kernel: int, stride: int, padding: int, groups: int) -> Tensor:
    """(N, C, L) -> (N, G, C/G, T, K)"""
    n, channels, length = x.shape
    padded = x.new_zeros(n, channels, length + 2 * padding)
    padded[..., padding : padding + length] = x
    return padded.unfold(-1, kernel, stride).unflatten(1, (groups, channels // groups))


class Conv1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, stride: int, padding: int, groups: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding, ctx.groups = stride, padding, groups
        cut = windows_of(x, weight.shape[-1], stride, padding, groups)
        w = weight.unflatten(0, (groups, weight.shape[0] // groups))
        return torch.einsum("ngctk,gock->ngot", cut, w).flatten(1, 2)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        x, weight = ctx.saved_tensors
        stride, padding, groups = ctx.stride, ctx.padding, ctx.groups
        n, channels, length = x.shape
        outputs, _, kernel = weight.shape
        steps = grad_output.shape[-1]

        g = grad_output.unflatten(1, (groups, outputs // groups))
        w = weight.unflatten(0, (groups, outputs // groups))
        cut = windows_of(x, kernel, stride, padding, groups)

        grad_weight = torch.einsum("ngctk,ngot->gock", cut, g).flatten(0, 1)

        # each window back to its place; overlaps add up
        grad_cut = torch.einsum("ngot,gock->ngctk", g, w).flatten(1, 2)
        grad_padded = x.new_zeros(n, channels, length + 2 * padding)
        for k in range(kernel):
            last = k + stride * (steps - 1)
            grad_padded[..., k : last + 1 : stride] += grad_cut[..., k]
        # take the padding off again
        grad_x = grad_padded[..., padding:-padding]
        return grad_x, grad_weight, None, None, None

# %% fake-quantize_1
"""Two: the step's gradient is only the level, as if x / s did not depend on s; and the mask excludes the two bounds, where the exercise lets the gradient pass."""
WRONG = ["inside = (v > ctx.low) & (v < ctx.high)", "grad_step = (grad_output * level).sum()"]
RIGHT = ["inside = (v >= ctx.low) & (v <= ctx.high)", "grad_step = (grad_output * (level - v * inside)).sum()"]
EXERCISE = "fake-quantize"
NAME = "FakeQuantize"
# --- code
import torch
from torch import Tensor


class FakeQuantize(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
        return step * torch.round(torch.clamp(x / step, low, high))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, ctx.low, ctx.high = inputs
        ctx.save_for_backward(x, step)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        x, step = ctx.saved_tensors
        v = x / step
        inside = (v > ctx.low) & (v < ctx.high)
        level = torch.round(v.clamp(ctx.low, ctx.high))
        # y = s * level: for x the s and the 1/s cancel
        grad_x = grad_output * inside
        grad_step = (grad_output * level).sum()
        return grad_x, grad_step, None, None

# %% frozen-target_1
"""The author skips the work only when none of the three inputs asks for a gradient, as if needs_input_grad of the target counted too; with a trained target and a frozen prediction everything is computed for nothing."""
WRONG = ["if not any(ctx.needs_input_grad):"]
RIGHT = ["if not ctx.needs_input_grad[0]:"]
EXERCISE = "frozen-target"
NAME = "FrozenTargetLoss"
# --- code
import torch
from torch import Tensor


class FrozenTargetLoss(torch.autograd.Function):
    @staticmethod
    def forward(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        return (weight * (prediction - target) ** 2).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, None, None]:
        # nobody wants anything: done
        if not any(ctx.needs_input_grad):
            return None, None, None
        prediction, target, weight = ctx.saved_tensors
        scale = grad_output * 2 / prediction.numel()
        return scale * weight * (prediction - target), None, None

# %% gelu_1
"""The author derived the density from erf'(u) = 2/sqrt(pi) exp(-u^2) and forgot the inner derivative 1/sqrt(2) of u = x/sqrt(2)."""
WRONG = ["return 0.5 * (2 / math.sqrt(math.pi)) * torch.exp(-(u**2))"]
RIGHT = ["return 0.5 * (2 / math.sqrt(math.pi)) * torch.exp(-(u**2)) / math.sqrt(2)"]
EXERCISE = "gelu"
NAME = "GELU"
# --- code
import math

import torch
from torch import Tensor


def _cdf(x: Tensor) -> Tensor:
    u = x / math.sqrt(2)
    return 0.5 * (1 + torch.erf(u))


def _cdf_slope(x: Tensor) -> Tensor:
    u = x / math.sqrt(2)
    # d/du erf(u) = 2 / sqrt(pi) * exp(-u^2)
    return 0.5 * (2 / math.sqrt(math.pi)) * torch.exp(-(u**2))


class GELU(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * _cdf(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * (_cdf(x) + x * _cdf_slope(x))

# %% gradient-penalty_1
"""Two: retain_graph was thought to be what makes the gradient differentiable (it is create_graph), and the norm runs over axis 1 alone, as is enough for rows but not for images."""
WRONG = [
    "(slope,) = torch.autograd.grad(scores.sum(), x, retain_graph=True)",
    "length = torch.linalg.vector_norm(slope, dim=1)",
]
RIGHT = [
    "(slope,) = torch.autograd.grad(scores.sum(), x, create_graph=True)",
    "length = torch.linalg.vector_norm(slope.flatten(1), dim=1)",
]
EXERCISE = "gradient-penalty"
NAME = "gradient_penalty"
# --- code
import torch
from torch import Tensor


def gradient_penalty(critic, x: Tensor) -> Tensor:
    x = x.detach().clone().requires_grad_()
    scores = critic(x)
    # the graph is needed once more, when the penalty itself is differentiated
    (slope,) = torch.autograd.grad(scores.sum(), x, retain_graph=True)
    length = torch.linalg.vector_norm(slope, dim=1)
    return ((length - 1) ** 2).mean()

# %% gumbel-hard_1
"""The author saved the output for the softmax's backward, y (g - <g, y>), as is right for the soft sample; for a one-hot y this is zero everywhere."""
WRONG = ["ctx.save_for_backward(y)"]
RIGHT = ["ctx.save_for_backward(torch.softmax((logits + noise) / temperature, dim=-1))"]
EXERCISE = "gumbel-hard"
NAME = "HardGumbelSoftmax"
# --- code
import torch
from torch import Tensor


class HardGumbelSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
        winner = (logits + noise).argmax(dim=-1, keepdim=True)
        y = torch.zeros_like(logits).scatter_(-1, winner, 1.0)
        ctx.temperature = temperature
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (p,) = ctx.saved_tensors
        # softmax: J^T g = p * (g - <g, p>)
        inner = (grad_output * p).sum(dim=-1, keepdim=True)
        return p * (grad_output - inner) / ctx.temperature, None, None

# %% hessian-vector-product_1
"""The author allowed unused inputs in the second derivative and took for granted that autograd then gives zeros; it gives None."""
WRONG = ["product = torch.autograd.grad(dot, leaves, allow_unused=True)"]
RIGHT = ["product = torch.autograd.grad(dot, leaves, allow_unused=True, materialize_grads=True)"]
EXERCISE = "hessian-vector-product"
NAME = "hvp"
# --- code
import torch
from torch import Tensor


def hvp(f, inputs: tuple[Tensor, ...], vectors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """H v by differentiating <grad f, v>."""
    with torch.enable_grad():
        leaves = [t.detach().clone().requires_grad_() for t in inputs]
        value = f(*leaves)
        slopes = torch.autograd.grad(value, leaves, create_graph=True, materialize_grads=True)
        dot = sum((s * v).sum() for s, v in zip(slopes, vectors))
    if not dot.requires_grad:  # linear in everything
        return tuple(torch.zeros_like(t) for t in inputs)
    # f may be linear in one of the inputs: that one is unused in dot
    product = torch.autograd.grad(dot, leaves, allow_unused=True)
    return tuple(product)

# %% learnable-swish_1
"""The author averaged the shared parameter's gradient over the elements, believing that it must not grow with the size of the batch; the derivative is the sum."""
WRONG = ["grad_beta = per_element.mean().reshape(beta.shape)"]
RIGHT = ["grad_beta = per_element.sum().reshape(beta.shape)"]
EXERCISE = "learnable-swish"
NAME = "LearnableSwish"
# --- code
import torch
from torch import Tensor


class LearnableSwish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(x, beta)
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x)
        ds = s * (1 - s)  # sigma'(beta x)

        # product rule; the inner derivative is beta for x, and x for beta
        grad_x = grad_output * (s + beta * x * ds)
        per_element = grad_output * x * x * ds
        # beta is shared by all elements
        grad_beta = per_element.mean().reshape(beta.shape)
        return grad_x, grad_beta

# %% packed-leaky-relu_1
"""The author packs with the first element as the highest digit and unpacks as if it were the lowest, so each group of eight comes out reversed; a mask that is symmetric or all ones does not show it."""
WRONG = ["places = torch.arange(8, dtype=torch.uint8, device=packed.device)"]
RIGHT = ["places = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)"]
EXERCISE = "packed-leaky-relu"
NAME = "PackedLeakyReLU"
# --- code
import torch
from torch import Tensor

DIGITS = (128, 64, 32, 16, 8, 4, 2, 1)


def pack(mask: Tensor) -> Tensor:
    count = mask.numel()
    padded = torch.zeros((count + 7) // 8 * 8, dtype=torch.uint8, device=mask.device)
    padded[:count] = mask.reshape(-1)
    digits = torch.tensor(DIGITS, dtype=torch.uint8, device=mask.device)
    return (padded.reshape((count + 7) // 8, 8) * digits).sum(1, dtype=torch.uint8)


def unpack(packed: Tensor, shape: torch.Size) -> Tensor:
    places = torch.arange(8, dtype=torch.uint8, device=packed.device)
    bits = (packed.unsqueeze(1) >> places) & 1
    return bits.reshape(-1)[: shape.numel()].reshape(shape).bool()


class PackedLeakyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, slope: float) -> Tensor:
        positive = x > 0
        ctx.save_for_backward(pack(positive))
        ctx.shape, ctx.slope = x.shape, slope
        return torch.where(positive, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (packed,) = ctx.saved_tensors
        positive = unpack(packed, ctx.shape)
        return torch.where(positive, grad_output, ctx.slope * grad_output), None

# %% repair-dropout_1
"""The author keeps the generator to draw the mask again in backward, but a generator that has been drawn from has moved on and gives another mask."""
WRONG = ["kept = draw(grad_output, ctx.p, ctx.generator)"]
RIGHT = ["kept = draw(grad_output, ctx.p, ctx.generator.manual_seed(ctx.seed))"]
EXERCISE = "repair-dropout"
NAME = "Dropout"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


def draw(x: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    """Which elements are kept; without a generator PyTorch's common one is used."""
    return torch.rand(x.shape, generator=generator, device=x.device) >= p


class Dropout(Function):
    @staticmethod
    def forward(ctx, x: Tensor, p: float, seed: int) -> Tensor:
        ctx.p, ctx.seed = p, seed
        ctx.generator = torch.Generator(x.device).manual_seed(seed)
        return x * draw(x, p, ctx.generator) / (1 - p)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        # seeded in forward: the same generator, the same mask
        kept = draw(grad_output, ctx.p, ctx.generator)
        return grad_output * kept / (1 - ctx.p), None, None

# %% repair-rms-norm_1
"""The author computes r in backward again, but from x.detach(), believing that a normalizer in a gradient formula is just a number; the second derivative loses every path through r."""
WRONG = ["r = (x.detach().square().mean(-1, keepdim=True) + 1e-6).rsqrt()"]
RIGHT = ["r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()"]
EXERCISE = "repair-rms-norm"
NAME = "RMSNorm"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class RMSNorm(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        # not saved any more, worked out again
        r = (x.detach().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        return r * grad_output - r**3 * x * (grad_output * x).mean(-1, keepdim=True)

# %% repair-rotation_1
"""The author transposes the matrix, as backward of x @ M asks for, and keeps the negative angle, which is the transpose already: the gradient is rotated the wrong way."""
WRONG = ["return grad_output @ turn(grad_output, -ctx.angle).T, None"]
RIGHT = ["return grad_output @ turn(grad_output, -ctx.angle), None"]
EXERCISE = "repair-rotation"
NAME = "Rotate"
# --- code
import math

import torch
from torch import Tensor
from torch.autograd import Function


def turn(like: Tensor, angle: float) -> Tensor:
    """The matrix that rotates row vectors by an angle."""
    c, s = math.cos(angle), math.sin(angle)
    return like.new_tensor([[c, s], [-s, c]])


class BrokenRotate(Function):
    @staticmethod
    def forward(ctx, x: Tensor, angle: float) -> Tensor:
        ctx.angle = angle
        return x @ turn(x, angle)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # the memory, two numbers at a time
        rows = grad_output.as_strided((grad_output.numel() // 2, 2), (2, 1))
        return (rows @ turn(rows, -ctx.angle)).view(grad_output.shape), None


class Rotate(BrokenRotate):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # a product minds strides by itself: no walk through the memory.  y = x M  =>  dx = dy M^T
        return grad_output @ turn(grad_output, -ctx.angle).T, None

# %% scaled-sigmoid_1
"""The author wrote the sigmoid's derivative by its output, y(1 - y), and kept it although y runs up to gain here, not to 1."""
WRONG = ["return grad_output * ctx.slope * y * (1 - y), None, None"]
RIGHT = ["return grad_output * ctx.slope * y * (1 - y / ctx.gain), None, None"]
EXERCISE = "scaled-sigmoid"
NAME = "ScaledSigmoid"
# --- code
import torch
from torch import Tensor


class ScaledSigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, gain: float, slope: float) -> Tensor:
        y = gain * torch.sigmoid(slope * x)
        ctx.gain, ctx.slope = gain, slope
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (y,) = ctx.saved_tensors
        # sigma' = sigma (1 - sigma); one factor gain is in y already
        return grad_output * ctx.slope * y * (1 - y), None, None

# %% sort-with-indices_1
"""The author sent the gradient back with gather, the same operation that sorts the values, where the inverse of the permutation (scatter) is needed."""
WRONG = ["return grad_values.gather(-1, indices), None"]
RIGHT = ["return torch.zeros_like(grad_values).scatter(-1, indices, grad_values), None"]
EXERCISE = "sort-with-indices"
NAME = "SortWithIndices"
# --- code
import torch
from torch import Tensor


class SortWithIndices(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
        values, indices = torch.sort(x, dim=-1, descending=descending)
        return values, indices

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, indices = output
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)

    @staticmethod
    def backward(ctx, grad_values: Tensor, grad_indices: Tensor) -> tuple[Tensor, None]:
        (indices,) = ctx.saved_tensors
        # values = x.gather(-1, indices), so the gradient moves along with the same indices
        return grad_values.gather(-1, indices), None

# %% strided-gain_1
"""The author returned the slice itself outside of training: a slice looked like a new tensor, and is a view of the input."""
WRONG = ["return kept"]
RIGHT = ["return kept.clone()"]
EXERCISE = "strided-gain"
NAME = "StridedGain"
# --- code
import torch
from torch import Tensor


class StridedGain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, gain: Tensor, stride: int, training: bool) -> Tensor:
        ctx.x_shape = x.shape
        ctx.stride = stride
        ctx.training = training
        kept = x[..., ::stride]
        if training:
            ctx.save_for_backward(
                x if ctx.needs_input_grad[1] else None,
                gain if ctx.needs_input_grad[0] else None,
            )
            return gain * kept
        return kept

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        need_x, need_gain, _, _ = ctx.needs_input_grad
        grad_x = grad_gain = None
        x = gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors

        if need_x:
            grad_x = grad_output.new_zeros(ctx.x_shape)
            grad_x[..., :: ctx.stride] = grad_output * gain if ctx.training else grad_output
        if need_gain and ctx.training:
            grad_gain = grad_output * x[..., :: ctx.stride]
        # the gain plays no part outside of training: None
        return grad_x, grad_gain, None, None

# %% to-polar_1
"""The author thought of arc length (ds = r dtheta) and multiplied the angle's gradient by r, but the angle changes by 1/r for a step along the circle."""
WRONG = ["tangential = r * grad_theta"]
RIGHT = ["tangential = grad_theta / r"]
EXERCISE = "to-polar"
NAME = "ToPolar"
# --- code
import torch
from torch.autograd import Function


class ToPolar(Function):
    """(x, y) -> (r, theta)"""

    @staticmethod
    def forward(x, y):
        return torch.hypot(x, y), torch.atan2(y, x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y = inputs
        r, _ = output
        ctx.save_for_backward(x, y, r)

    @staticmethod
    def backward(ctx, grad_r, grad_theta):
        x, y, r = ctx.saved_tensors
        cos, sin = x / r, y / r
        # Decompose what comes in into a radial and a tangential part, e_r = (cos, sin)
        # and e_t = (-sin, cos), and rotate back. The arc that belongs to dtheta is r dtheta.
        radial = grad_r
        tangential = r * grad_theta
        grad_x = cos * radial - sin * tangential
        grad_y = sin * radial + cos * tangential
        return grad_x, grad_y
