"""Mistakes: held out, exercises of lessons 06 to 13. Each cell is a separate module; see benchmarks/repairs.py."""

# %% cube-twice_1
"""setup_context saves x * x, which is computed while autograd records nothing. It is neither an input nor an output, so it is a constant in backward, and the second derivative lacks the path from the slope to x (it lacks 6x g)."""
WRONG = ["ctx.save_for_backward(x * x)", "(square,) = ctx.saved_tensors", "return 3 * square * grad_output"]
RIGHT = ["ctx.save_for_backward(x)", "(x,) = ctx.saved_tensors", "return 3 * x * x * grad_output"]
NAME = "Cube"
EXERCISE = "cube-twice"
# --- code
import torch
from torch.autograd import Function


class Cube(Function):
    @staticmethod
    def forward(x):
        return x * x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x * x)

    @staticmethod
    def backward(ctx, grad_output):
        (square,) = ctx.saved_tensors
        return 3 * square * grad_output


# %% sinh-by-output_1
"""The slope is cosh(x), but cosh is evaluated at the output y instead of at the input x. In terms of y, cosh(x) is sqrt(1 + y^2)."""
WRONG = ["return grad_output * torch.cosh(y)"]
RIGHT = ["return grad_output * torch.sqrt(1 + y * y)"]
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
        return grad_output * torch.cosh(y)


# %% logsumexp-hessian_1
"""setup_context recomputes the log-sum-exp instead of saving the output. The recomputed tensor has the same values, but autograd does not connect it to x. So the Hessian lacks the term -p_i p_j and is diagonal."""
WRONG = ["ctx.save_for_backward(x, torch.logsumexp(x, -1, keepdim=True))", "x, y = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(x, output)", "x, y = ctx.saved_tensors\ny = y.unsqueeze(-1)"]
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
        (x,) = inputs
        ctx.save_for_backward(x, torch.logsumexp(x, -1, keepdim=True))

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        p = torch.exp(x - y)
        return p * grad_output.unsqueeze(-1)


# %% hessian-vector-product_1
"""Each gradient is multiplied by its own vector and differentiated only with respect to its own input. So the result contains only the diagonal blocks of the Hessian times v. The mixed blocks between different inputs are missing; the dot product must be summed over all inputs and then differentiated with respect to all of them."""
WRONG = ["parts = [torch.autograd.grad((g * v).sum(), x, retain_graph=True, materialize_grads=True)[0] if g.requires_grad else torch.zeros_like(x) for g, v, x in zip(grads, vectors, leaves)]"]
RIGHT = ["dot = sum((g * v).sum() for g, v in zip(grads, vectors))\nparts = torch.autograd.grad(dot, leaves, materialize_grads=True) if dot.requires_grad else [torch.zeros_like(x) for x in leaves]"]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def hvp(f, inputs, vectors):
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    y = f(*leaves)
    grads = torch.autograd.grad(y, leaves, create_graph=True, materialize_grads=True)
    parts = [torch.autograd.grad((g * v).sum(), x, retain_graph=True, materialize_grads=True)[0] if g.requires_grad else torch.zeros_like(x) for g, v, x in zip(grads, vectors, leaves)]
    return tuple(parts)


# %% hessian-vector-product_2
"""The second call of autograd.grad has allow_unused=True, so an input in which f is linear (and whose gradient no other gradient depends on) gets None. Its part of the product must be a tensor of zeros."""
WRONG = ["return torch.autograd.grad(dot, leaves, allow_unused=True)"]
RIGHT = ["parts = torch.autograd.grad(dot, leaves, allow_unused=True)\nreturn tuple(torch.zeros_like(x) if part is None else part for part, x in zip(parts, leaves))"]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def hvp(f, inputs, vectors):
    leaves = tuple(x.detach().requires_grad_() for x in inputs)
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    dot = sum(torch.sum(g * v) for g, v in zip(grads, vectors))
    if not dot.requires_grad:
        return tuple(torch.zeros_like(x) for x in leaves)
    return torch.autograd.grad(dot, leaves, allow_unused=True)


# %% gradient-penalty_1
"""The norm is taken over dim 1 only. For samples with several dimensions (images), this gives one norm for each pixel instead of one norm for each sample over all its dimensions."""
WRONG = ["norms = torch.linalg.vector_norm(gradient, dim=1)"]
RIGHT = ["norms = torch.linalg.vector_norm(gradient.flatten(1), dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    points = x.detach().clone().requires_grad_()
    scores = critic(points)
    (gradient,) = torch.autograd.grad(scores.sum(), points, create_graph=True)
    norms = torch.linalg.vector_norm(gradient, dim=1)
    return (norms - 1).square().mean()


# %% gradient-penalty_2
"""The norm is a square root of a sum of squares. Where the critic is flat, the sum is 0, the slope of the square root is infinite, and infinity times 0 makes the gradient of the parameters nan. vector_norm uses the subgradient 0 there."""
WRONG = ["norms = gradient.square().flatten(1).sum(1).sqrt()"]
RIGHT = ["norms = torch.linalg.vector_norm(gradient.flatten(1), dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    x = x.detach().requires_grad_(True)
    scores = critic(x).reshape(len(x))
    (gradient,) = torch.autograd.grad(scores, x, torch.ones_like(scores), create_graph=True)
    norms = gradient.square().flatten(1).sum(1).sqrt()
    return ((norms - 1) ** 2).mean()


# %% repair-hessian_1
"""The softmax is recomputed in backward, but the one-hot is subtracted in place. The softmax has saved its output for its own backward, so the second derivative raises an error that this tensor was modified by an inplace operation."""
WRONG = ["slope = torch.softmax(logits, -1).sub_(onehot)"]
RIGHT = ["slope = torch.softmax(logits, -1) - onehot"]
NAME = "CrossEntropy"
EXERCISE = "repair-hessian"
# --- code
import torch
from torch.autograd import Function


class CrossEntropy(Function):
    @staticmethod
    def forward(ctx, logits, target):
        picked = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        ctx.save_for_backward(logits, target)
        return torch.logsumexp(logits, -1) - picked

    @staticmethod
    def backward(ctx, grad_output):
        logits, target = ctx.saved_tensors
        onehot = torch.nn.functional.one_hot(target, logits.shape[-1])
        slope = torch.softmax(logits, -1).sub_(onehot)
        return slope * grad_output.unsqueeze(-1), None


# %% elu-by-output_1
"""On the negative side, the slope is alpha e^x. Since y = alpha (e^x - 1), this is y + alpha. The code computes y + 1, which is right only for alpha = 1."""
WRONG = ["slope = torch.where(y > 0, torch.ones_like(y), y + 1)"]
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
        slope = torch.where(y > 0, torch.ones_like(y), y + 1)
        return grad_output * slope, None


# %% maximum-by-mask_1
"""The sign of a - b has three values. Where a and b are equal, it is 0, so neither a nor b gets the gradient and it is lost. One of the two must get it."""
WRONG = ["return grad_output * (sign > 0), grad_output * (sign < 0)"]
RIGHT = ["return grad_output * (sign >= 0), grad_output * (sign < 0)"]
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
        (sign,) = ctx.saved_tensors
        return grad_output * (sign > 0), grad_output * (sign < 0)


# %% fused-linear-relu_1
"""The output of a ReLU is never negative, so y >= 0 is True everywhere. The mask lets every gradient through, also those of the units that the ReLU has switched off. The condition must be y > 0."""
WRONG = ["g = grad_output * (y >= 0)"]
RIGHT = ["g = grad_output * (y > 0)"]
NAME = "LinearReLU"
EXERCISE = "fused-linear-relu"
# --- code
import torch
from torch.autograd import Function


class LinearReLU(Function):
    @staticmethod
    def forward(x, weight, bias):
        return (x @ weight.t() + bias).clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, y = ctx.saved_tensors
        g = grad_output * (y >= 0)
        return g @ weight, g.t() @ x, g.sum(0)


# %% packed-leaky-relu_1
"""sum() of a uint8 tensor returns int64. So each group of eight elements takes eight bytes instead of one, and the packed mask is as large as a mask with one byte for each element."""
WRONG = ["packed = (bits * weights).sum(1)"]
RIGHT = ["packed = (bits * weights).sum(1, dtype=torch.uint8)"]
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
        flat = torch.nn.functional.pad(flat, (0, -flat.numel() % 8))
        bits = flat.view(-1, 8)
        weights = 2 ** torch.arange(8, dtype=torch.uint8, device=x.device)
        packed = (bits * weights).sum(1)
        ctx.save_for_backward(packed)
        ctx.slope = slope
        ctx.shape = x.shape
        return torch.where(mask, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
        bits = (packed[:, None] >> shifts) & 1
        mask = bits.flatten()[: grad_output.numel()].view(ctx.shape).bool()
        return torch.where(mask, grad_output, ctx.slope * grad_output), None


# %% packed-leaky-relu_2
"""The padding is 8 - n % 8, which is 8 instead of 0 if the number of elements is a multiple of 8. Then the mask has one whole byte too many (16 elements take 3 bytes)."""
WRONG = ["padding = 8 - flat.numel() % 8"]
RIGHT = ["padding = -flat.numel() % 8"]
NAME = "PackedLeakyReLU"
EXERCISE = "packed-leaky-relu"
# --- code
import torch
from torch.autograd import Function


class PackedLeakyReLU(Function):
    @staticmethod
    def forward(ctx, x, slope):
        positive = x > 0
        flat = positive.reshape(-1).to(torch.uint8)
        padding = 8 - flat.numel() % 8
        flat = torch.cat([flat, flat.new_zeros(padding)]).reshape(-1, 8)
        packed = flat.new_zeros(len(flat))
        for i in range(8):
            packed = packed | (flat[:, i] << i)
        ctx.save_for_backward(packed)
        ctx.slope = slope
        return torch.where(positive, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        columns = [(packed >> i) & 1 for i in range(8)]
        flat = torch.stack(columns, 1).reshape(-1)[: grad_output.numel()]
        positive = flat.reshape(grad_output.shape) == 1
        return torch.where(positive, grad_output, ctx.slope * grad_output), None


# %% checkpointed-block_1
"""The random state is set back for the second run, but it is not restored afterwards. After backward, the generator is where it was after the forward of this block, so the rest of the program draws the same random numbers again."""
WRONG = ["torch.set_rng_state(ctx.rng_state)", "y = ctx.block(x)"]
RIGHT = ["now = torch.get_rng_state()\ntorch.set_rng_state(ctx.rng_state)", "y = ctx.block(x)\ntorch.set_rng_state(now)"]
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
        ctx.rng_state = torch.get_rng_state()
        ctx.save_for_backward(x, *parameters)
        return block(x)

    @staticmethod
    def backward(ctx, grad_output):
        x, *parameters = ctx.saved_tensors
        x = x.detach().requires_grad_(ctx.needs_input_grad[1])
        with torch.enable_grad():
            torch.set_rng_state(ctx.rng_state)
            y = ctx.block(x)
        wanted = [t for t in (x, *parameters) if t.requires_grad]
        grads = iter(torch.autograd.grad(y, wanted, grad_output, allow_unused=True))
        return None, *(next(grads) if t.requires_grad else None for t in (x, *parameters))


# %% checkpointed-block_2
"""apply receives only the block and x, not the parameters. So autograd does not know that the output depends on the parameters: torch.autograd.grad finds no path to them, and if x requires no gradient, the output requires none and no parameter gets a gradient."""
WRONG = ["return Checkpointed.apply(block, x)", "def forward(ctx, block, x):", "y.backward(grad_output)", "return None, x.grad"]
RIGHT = ["return Checkpointed.apply(block, x, *block.parameters())", "def forward(ctx, block, x, *parameters):", "inputs = [x, *ctx.block.parameters()]\nneeded = [t for t in inputs if t.requires_grad]\ngrads = iter(torch.autograd.grad(y, needed, grad_output, allow_unused=True))", "return None, *[next(grads) if t.requires_grad else None for t in inputs]"]
NAME = "checkpointed"
EXERCISE = "checkpointed-block"
# --- code
import torch
from torch.autograd import Function


def checkpointed(block, x):
    return Checkpointed.apply(block, x)


class Checkpointed(Function):
    @staticmethod
    def forward(ctx, block, x):
        ctx.block = block
        ctx.state = torch.get_rng_state()
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, grad_output):
        (saved,) = ctx.saved_tensors
        x = saved.detach().requires_grad_(saved.requires_grad)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            y = ctx.block(x)
        y.backward(grad_output)
        return None, x.grad


# %% invertible-coupling_1
"""y1 is an output and also an input of the second line. The gradient of x1 and of the first tanh must contain both paths, but the first line is differentiated with grad_y1 alone; the part that comes from y2 through y1 is lost."""
WRONG = ["grad_x1 = grad_y1"]
RIGHT = ["grad_x1 = grad_y1 + inner2 @ v.t()"]
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
        inner2 = grad_y2 * (1 - t2 * t2)
        grad_v = y1.t() @ inner2
        grad_x1 = grad_y1
        inner1 = grad_x1 * (1 - t1 * t1)
        grad_w = x2.t() @ inner1
        grad_x2 = grad_y2 + inner1 @ w.t()
        return grad_x1, grad_x2, grad_w, grad_v


# %% chunked-row-losses_1
"""slope[:, t] selects the columns of all targets of the chunk in every row. So 1 is subtracted also at the targets of the other rows. Each row needs its own target only: slope[arange, t]."""
WRONG = ["slope[:, t] -= 1"]
RIGHT = ["slope[torch.arange(len(t), device=t.device), t] -= 1"]
NAME = "RowLosses"
EXERCISE = "chunked-row-losses"
# --- code
import torch
from torch.autograd import Function


class RowLosses(Function):
    @staticmethod
    def forward(ctx, x, weight, target, chunk):
        losses, lses = [], []
        for rows, t in zip(x.split(chunk), target.split(chunk)):
            logits = rows @ weight.t()
            lse = torch.logsumexp(logits, 1)
            lses.append(lse)
            losses.append(lse - logits.gather(1, t[:, None])[:, 0])
        ctx.save_for_backward(x, weight, target, torch.cat(lses))
        ctx.chunk = chunk
        return torch.cat(losses)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, target, lse = ctx.saved_tensors
        grad_x, grad_weight = torch.empty_like(x), torch.zeros_like(weight)
        for start in range(0, len(x), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            t = target[part]
            slope = torch.exp(x[part] @ weight.t() - lse[part, None])
            slope[:, t] -= 1
            slope *= grad_output[part, None]
            grad_x[part] = slope @ weight
            grad_weight += slope.t() @ x[part]
        return grad_x, grad_weight, None, None


# %% attention-forward_1
"""The maximum of the whole matrix is subtracted instead of the maximum of each row. In a row whose scores all lie far below the maximum of another row, every exp underflows to 0, and the query gets zeros although it sees keys."""
WRONG = ["highest = scores.max()"]
RIGHT = ["highest = scores.amax(-1, keepdim=True)"]
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
    highest = scores.max()
    highest = torch.where(highest == -math.inf, 0.0, highest)
    weights = torch.exp(scores - highest)
    total = weights.sum(-1, keepdim=True)
    p = weights / torch.where(total == 0, 1.0, total)
    return p @ v


# %% attention-forward_2
"""A floating-point mask is added to the scores before they are divided by sqrt(E), so a finite mask (a position bias) is also divided by sqrt(E). It must be added to the scaled scores."""
WRONG = ["scores = q @ k.mT", "p = torch.softmax(scores / math.sqrt(q.shape[-1]), -1)"]
RIGHT = ["scores = q @ k.mT / math.sqrt(q.shape[-1])", "p = torch.softmax(scores, -1)"]
NAME = "attend"
EXERCISE = "attention-forward"
# --- code
import math

import torch


def attend(q, k, v, mask=None):
    scores = q @ k.mT
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, float("-inf"))
        else:
            scores = scores + mask
    p = torch.softmax(scores / math.sqrt(q.shape[-1]), -1)
    p = torch.nan_to_num(p, nan=0.0)
    return p @ v


# %% attention-backward_1
"""The backward of the softmax subtracts the plain sum of dP. It must subtract the sum weighted with P, because dS_j = P_j (dP_j - sum_k P_k dP_k)."""
WRONG = ["grad_s = p * (grad_p - grad_p.sum(-1, keepdim=True))"]
RIGHT = ["grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))"]
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
        s = q @ k.transpose(-1, -2) * ctx.scale
        if mask is not None:
            s = s.masked_fill(~mask, float("-inf"))
        p = torch.softmax(s, -1).nan_to_num(0.0)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, p = ctx.saved_tensors
        grad_v = p.transpose(-1, -2) @ grad_output
        grad_p = grad_output @ v.transpose(-1, -2)
        grad_s = p * (grad_p - grad_p.sum(-1, keepdim=True))
        grad_s = grad_s * ctx.scale
        return grad_s @ k, grad_s.transpose(-1, -2) @ q, grad_v, None


# %% attention-budget_1
"""A query that sees no key has only scores of -inf and L = -inf. In backward, S - L is -inf + inf = nan, so P and all gradients become nan. P must be 0 in such a row (for example by replacing L there)."""
WRONG = ["p = torch.exp(scores(q, k, mask) - lse)"]
RIGHT = ["p = torch.exp(scores(q, k, mask) - lse.masked_fill(lse == -math.inf, 0.0))"]
NAME = "LeanAttention"
EXERCISE = "attention-budget"
# --- code
import math

import torch
from torch.autograd import Function


def scores(q, k, mask):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf)
    return s


class LeanAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        s = scores(q, k, mask)
        lse = torch.logsumexp(s, -1, keepdim=True)
        out = torch.softmax(s, -1).nan_to_num(0.0) @ v
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, mask, out, lse = ctx.saved_tensors
        p = torch.exp(scores(q, k, mask) - lse)
        grad_v = p.mT @ grad_output
        d = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ v.mT - d) / math.sqrt(q.shape[-1])
        return grad_s @ k, grad_s.mT @ q, grad_v, None


# %% merge-halves_1
"""If a query sees no key of both halves, both log-sum-exps are -inf and so is their maximum. Then lse - top is -inf + inf = nan, and the output and the log-sum-exp are nan instead of 0 and -inf. The maximum must be replaced by a finite number there, and then the output must not be divided by the total 0."""
WRONG = ["top = torch.maximum(lse_a, lse_b)", "out = (weight_a * out_a + weight_b * out_b) / total"]
RIGHT = ["top = torch.maximum(lse_a, lse_b)\ntop = torch.where(torch.isinf(top), torch.zeros_like(top), top)", "out = (weight_a * out_a + weight_b * out_b) / torch.where(total == 0, torch.ones_like(total), total)"]
NAME = "merge"
EXERCISE = "merge-halves"
# --- code
import torch


def merge(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b)
    weight_a = torch.exp(lse_a - top)
    weight_b = torch.exp(lse_b - top)
    total = weight_a + weight_b
    out = (weight_a * out_a + weight_b * out_b) / total
    return out, top + torch.log(total)


# %% attention-grouped_1
"""Forward repeats each key head for consecutive query heads, so the repeated heads are ordered (G, H/G). Backward splits the gradient of the H heads into (H/G, G) and sums over the first, which adds the gradients of the wrong query heads."""
WRONG = ["grad_k = grad_k.unflatten(-3, (ctx.times, -1)).sum(-4)", "grad_v = grad_v.unflatten(-3, (ctx.times, -1)).sum(-4)"]
RIGHT = ["grad_k = grad_k.unflatten(-3, (-1, ctx.times)).sum(-3)", "grad_v = grad_v.unflatten(-3, (-1, ctx.times)).sum(-3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.times = q.shape[-3] // k.shape[-3]
        keys = k.repeat_interleave(ctx.times, -3)
        values = v.repeat_interleave(ctx.times, -3)
        s = q @ keys.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(s, -1, keepdim=True)
        out = torch.exp(s - lse) @ values
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        keys = k.repeat_interleave(ctx.times, -3)
        values = v.repeat_interleave(ctx.times, -3)
        p = torch.exp(q @ keys.mT / math.sqrt(q.shape[-1]) - lse)
        d = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ values.mT - d) / math.sqrt(q.shape[-1])
        grad_q = grad_s @ keys
        grad_k = grad_s.mT @ q
        grad_v = p.mT @ grad_output
        grad_k = grad_k.unflatten(-3, (ctx.times, -1)).sum(-4)
        grad_v = grad_v.unflatten(-3, (ctx.times, -1)).sum(-4)
        return grad_q, grad_k, grad_v


# %% log-sum-exp_1
"""grad_output gets the missing dim back with unsqueeze in every case. With keepdim=True, it still has this dim, so it gets one dim too many and is broadcast against the wrong dims of x. The unsqueeze belongs only to keepdim=False."""
WRONG = ["g = grad_output.unsqueeze(ctx.dim)"]
RIGHT = ["g = grad_output if ctx.keepdim else grad_output.unsqueeze(ctx.dim)"]
NAME = "LogSumExp"
EXERCISE = "log-sum-exp"
# --- code
import math

import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x, dim, keepdim=False):
        top = x.amax(dim, keepdim=True)
        top = torch.where(top == -math.inf, torch.zeros_like(top), top)
        y = torch.log(torch.exp(x - top).sum(dim, keepdim=True)) + top
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
        y = torch.where(y == -math.inf, torch.zeros_like(y), y)
        g = grad_output.unsqueeze(ctx.dim)
        return g * torch.exp(x - y), None, None


# %% plain-conv1d_1
"""The gradient of x is computed as a correlation of the padded grad_output with the weight, but the weight is not flipped along the kernel dim. x_t is multiplied by w_k in window t - k, so the weight must run backwards."""
WRONG = ["grad_x = torch.einsum(\"notk,ock->nct\", windows_of_g, weight)"]
RIGHT = ["grad_x = torch.einsum(\"notk,ock->nct\", windows_of_g, weight.flip(-1))"]
NAME = "PlainConv1d"
EXERCISE = "plain-conv1d"
# --- code
import torch
import torch.nn.functional as F
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
        width = weight.shape[-1]
        windows = x.unfold(-1, width, 1)
        grad_weight = torch.einsum("not,nctk->ock", grad_output, windows)
        padded = F.pad(grad_output, (width - 1, width - 1))
        windows_of_g = padded.unfold(-1, width, 1)
        grad_x = torch.einsum("notk,ock->nct", windows_of_g, weight)
        return grad_x, grad_weight


# %% conv1d_1
"""The padding is cut off with the slice padding:-padding. Without padding, this is 0:-0, which is an empty slice, so the gradient of x has no elements. The end of the slice must be padding + L."""
WRONG = ["grad_x = grad_padded[..., p:-p]"]
RIGHT = ["grad_x = grad_padded[..., p : p + x.shape[-1]]"]
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
        blocks = weight.unflatten(0, (groups, -1))
        return torch.einsum("ngctk,gock->ngot", windows, blocks).flatten(1, 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.stride, ctx.padding, ctx.groups = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        s, p, width = ctx.stride, ctx.padding, weight.shape[-1]
        padded = F.pad(x, (p, p))
        windows = padded.unfold(-1, width, s).unflatten(1, (ctx.groups, -1))
        blocks = weight.unflatten(0, (ctx.groups, -1))
        g = grad_output.unflatten(1, (ctx.groups, -1))
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).flatten(0, 1)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, blocks).flatten(1, 2)
        grad_padded = torch.zeros_like(padded)
        count = grad_output.shape[-1]
        for k in range(width):
            grad_padded[..., k : k + s * (count - 1) + 1 : s] += grad_windows[..., k]
        grad_x = grad_padded[..., p:-p]
        return grad_x, grad_weight, None, None, None


# %% complex-multiply_1
"""The whole product is conjugated, which also conjugates the incoming gradient. Only the other factor is conjugated: the gradient for z is g times conj(w)."""
WRONG = ["grad_z = (grad_output * w).conj()", "grad_w = (grad_output * z).conj()"]
RIGHT = ["grad_z = grad_output * w.conj()", "grad_w = grad_output * z.conj()"]
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
        grad_z = (grad_output * w).conj()
        grad_w = (grad_output * z).conj()
        if not z.is_complex():
            grad_z = grad_z.real
        if not w.is_complex():
            grad_w = grad_w.real
        return grad_z, grad_w


# %% gumbel-hard_1
"""Two mistakes: the soft sample in backward is computed without the noise, so it is not the sample whose largest entry forward has chosen; and the derivative lacks the factor 1 / temperature."""
WRONG = ["soft = torch.softmax(logits / ctx.temperature, -1)", "return soft * (grad_output - inner), None, None"]
RIGHT = ["soft = torch.softmax((logits + noise) / ctx.temperature, -1)", "return soft * (grad_output - inner) / ctx.temperature, None, None"]
NAME = "HardGumbelSoftmax"
EXERCISE = "gumbel-hard"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        index = (logits + noise).argmax(-1)
        return F.one_hot(index, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise, ctx.temperature = inputs
        ctx.save_for_backward(logits, noise)

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise = ctx.saved_tensors
        soft = torch.softmax(logits / ctx.temperature, -1)
        inner = (soft * grad_output).sum(-1, keepdim=True)
        return soft * (grad_output - inner), None, None


# %% per-sample-gradients_1
"""vmap hides the batch dim, and the sample is not turned into a batch of one. A model that expects a batch dim (flatten(1), a softmax over dim 1, a cross entropy) then works on the wrong dim or raises an error."""
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

    gradients = torch.func.vmap(torch.func.grad(loss_of_one), in_dims=(None, 0, 0))(parameters, x, y)
    return tuple(gradients[name] for name, _ in model.named_parameters())


# %% repair-autocast_1
"""Only forward has a decorator. backward has no custom_bwd, so if the training loop calls backward() inside the autocast block, its matrix products run in bfloat16 and the probabilities and gradients are inaccurate."""
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
        eye = torch.eye(len(q), dtype=p.dtype, device=p.device)
        slope = (p - eye) * grad_output[:, None]
        return slope @ k / ctx.temperature, slope.t() @ q / ctx.temperature, None


# %% equilibrium-layer_1
"""Two forms of the adjoint equation are mixed. With the slope s outside the product, the fixed point of u = g + s (u W) is not the adjoint. It must be u = g + (s u) W, because the slope belongs to the output of the tanh and is applied before the product with W."""
WRONG = ["u = settled(lambda u: grad_output + s * (u @ W), grad_output)"]
RIGHT = ["u = settled(lambda u: grad_output + (s * u) @ W, grad_output)"]
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
        s = 1 - z * z
        u = settled(lambda u: grad_output + s * (u @ W), grad_output)
        inner = s * u
        return inner, inner.t() @ z


# %% triangular-solve_1
"""The gradient of T is always cut to the lower triangle. With lower=False, the solver reads the upper half, so the gradient must be cut with triu; here it loses its upper half and keeps numbers in the half that is never read."""
WRONG = ["grad_T = torch.tril(-grad_B @ X.t())"]
RIGHT = ["grad_T = -grad_B @ X.t()\ngrad_T = torch.tril(grad_T) if ctx.lower else torch.triu(grad_T)"]
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
        grad_B = TriangularSolve.apply(T.t(), grad_output, not ctx.lower)
        grad_T = torch.tril(-grad_B @ X.t())
        return grad_T, grad_B, None
