"""Mistakes of learners in lessons 07 and 08; see benchmarks/repairs.py."""

# %% elu-by-output_1
"""The slope of the negative branch is alpha * exp(x), and with y = alpha * exp(x) - alpha this is y + alpha. The answer adds 1 instead of alpha, which is right only for alpha = 1."""
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
        return torch.where(x > 0, x, alpha * (torch.exp(x) - 1))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, alpha = inputs
        ctx.alpha = alpha
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        slope = torch.where(y > 0, torch.ones_like(y), y + 1)
        return grad_output * slope, None


# %% elu-by-output_2
"""The derivative alpha * exp(x) is written as a function of the input, but the saved tensor is the output y. exp(y) is not exp(x): in terms of y the slope is y + alpha."""
WRONG = ["return torch.where(y > 0, grad_output, grad_output * ctx.alpha * torch.exp(y)), None"]
RIGHT = ["return torch.where(y > 0, grad_output, grad_output * (y + ctx.alpha)), None"]
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
        ctx.save_for_backward(output)
        ctx.alpha = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        y, = ctx.saved_tensors
        return torch.where(y > 0, grad_output, grad_output * ctx.alpha * torch.exp(y)), None


# %% maximum-by-mask_1
"""The mask is converted to the dtype of the inputs before it is saved, so it takes four bytes per element in float32 (eight in float64) instead of one. A boolean mask takes one byte and can be multiplied just as well."""
WRONG = ["mask = (a > b).to(a.dtype)"]
RIGHT = ["mask = a > b"]
NAME = "Maximum"
EXERCISE = "maximum-by-mask"
# --- code
import torch
from torch.autograd import Function


class Maximum(Function):
    @staticmethod
    def forward(a, b):
        return torch.maximum(a, b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b = inputs
        mask = (a > b).to(a.dtype)
        ctx.save_for_backward(mask)

    @staticmethod
    def backward(ctx, grad_output):
        (mask,) = ctx.saved_tensors
        grad_a = grad_output * mask
        return grad_a, grad_output - grad_a


# %% maximum-by-mask_2
"""Where a equals b, the sign of the difference is 0, so neither input gets the gradient there and it is lost. One of the two must get it."""
WRONG = ["return grad_output * (sign > 0), grad_output * (sign < 0)"]
RIGHT = ["return grad_output * (sign > 0), grad_output * (sign <= 0)"]
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


# %% swiglu_1
"""By the product rule, the derivative of a * sigmoid(a) is sigmoid(a) + a * sigmoid(a) * (1 - sigmoid(a)). The factor a of the second term is missing."""
WRONG = ["grad_a = grad_output * b * (s + s * (1 - s))"]
RIGHT = ["grad_a = grad_output * b * (s + a * s * (1 - s))"]
NAME = "SwiGLU"
EXERCISE = "swiglu"
# --- code
import torch
from torch.autograd import Function


class SwiGLU(Function):
    @staticmethod
    def forward(a, b):
        return a * torch.sigmoid(a) * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b = inputs
        ctx.save_for_backward(a, b)

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        s = torch.sigmoid(a)
        grad_a = grad_output * b * (s + s * (1 - s))
        grad_b = grad_output * a * s
        return grad_a, grad_b


# %% fused-linear-relu_1
"""The output of a ReLU is never negative, so y >= 0 is True everywhere and nothing is masked. The gradient must be 0 where y is 0, which is y > 0."""
WRONG = ["grad = grad_output * (y >= 0)"]
RIGHT = ["grad = grad_output * (y > 0)"]
NAME = "LinearReLU"
EXERCISE = "fused-linear-relu"
# --- code
import torch
from torch.autograd import Function


class LinearReLU(Function):
    @staticmethod
    def forward(x, weight, bias):
        return torch.relu(x @ weight.T + bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias = inputs
        ctx.save_for_backward(x, weight, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, y = ctx.saved_tensors
        grad = grad_output * (y >= 0)
        return grad @ weight, grad.T @ x, grad.sum(0)


# %% fused-linear-relu_2
"""The bias is added before the ReLU, so its gradient must also pass through the mask of the ReLU. The answer sums the gradient of the output without the mask."""
WRONG = ["grad_bias = grad_output.sum(0)"]
RIGHT = ["grad_bias = grad_z.sum(0)"]
NAME = "LinearReLU"
EXERCISE = "fused-linear-relu"
# --- code
import torch
from torch.autograd import Function


class LinearReLU(Function):
    @staticmethod
    def forward(x, weight, bias):
        return (x @ weight.T + bias).clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, output = ctx.saved_tensors
        grad_z = torch.where(output > 0, grad_output, torch.zeros_like(grad_output))
        grad_x = grad_z @ weight
        grad_weight = grad_z.T @ x
        grad_bias = grad_output.sum(0)
        return grad_x, grad_weight, grad_bias


# %% packed-leaky-relu_1
"""sum promotes uint8 to int64, so each packed number takes eight bytes instead of one and the Function saves one byte per element, eight times the budget. The sum needs dtype=torch.uint8."""
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
        mask = x > 0
        bits = mask.flatten().to(torch.uint8)
        bits = F.pad(bits, (0, -bits.numel() % 8)).reshape(-1, 8)
        powers = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=x.device)
        packed = (bits * powers).sum(1)
        ctx.save_for_backward(packed)
        ctx.slope = slope
        return torch.where(mask, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        powers = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=packed.device)
        mask = (packed[:, None] & powers) != 0
        mask = mask.flatten()[: grad_output.numel()].reshape(grad_output.shape)
        return torch.where(mask, grad_output, ctx.slope * grad_output), None


# %% packed-leaky-relu_2
"""Forward packs the first of eight elements into the highest bit, but backward reads the lowest bit first. So the mask comes back with each group of eight reversed."""
WRONG = ["shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)"]
RIGHT = ["shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)"]
NAME = "PackedLeakyReLU"
EXERCISE = "packed-leaky-relu"
# --- code
import torch
from torch.autograd import Function


class PackedLeakyReLU(Function):
    @staticmethod
    def forward(ctx, x, slope):
        positive = x > 0
        n = x.numel()
        bits = torch.zeros((n + 7) // 8 * 8, dtype=torch.uint8, device=x.device)
        bits[:n] = positive.reshape(-1)
        bits = bits.view(-1, 8)
        packed = torch.zeros(len(bits), dtype=torch.uint8, device=x.device)
        for i in range(8):
            packed = packed * 2 + bits[:, i]
        ctx.save_for_backward(packed)
        ctx.slope = slope
        return torch.where(positive, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
        bits = (packed[:, None] >> shifts) & 1
        positive = bits.reshape(-1)[: grad_output.numel()].view(grad_output.shape).bool()
        grad_x = torch.where(positive, grad_output, ctx.slope * grad_output)
        return grad_x, None


# %% checkpointed-block_1
"""The parameters are not inputs of the Function, so autograd does not know that the output depends on them: torch.autograd.grad finds no path to them, and if x requires no gradient, neither does the output. The parameters must be passed to apply, and backward must return their gradients instead of accumulating them."""
WRONG = ["return Checkpointed.apply(block, x)", "def forward(ctx, block, x):", "y.backward(grad_output)", "return None, x.grad"]
RIGHT = ["return Checkpointed.apply(block, x, *block.parameters())", "def forward(ctx, block, x, *params):", "inputs = [x, *ctx.block.parameters()]\ngrads = iter(torch.autograd.grad(y, [t for t in inputs if t.requires_grad], grad_output, allow_unused=True))", "return None, *[next(grads) if t.requires_grad else None for t in inputs]"]
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
        state = torch.get_rng_state()
        ctx.save_for_backward(x, state)
        return block(x)

    @staticmethod
    def backward(ctx, grad_output):
        x, state = ctx.saved_tensors
        x = x.detach().requires_grad_(ctx.needs_input_grad[1])
        now = torch.get_rng_state()
        torch.set_rng_state(state)
        with torch.enable_grad():
            y = ctx.block(x)
        torch.set_rng_state(now)
        y.backward(grad_output)
        return None, x.grad


# %% checkpointed-block_2
"""Backward sets the random state to the one of the first run and does not restore it after the second run. So all random numbers after backward repeat: the state must be the same as without the second run."""
WRONG = ["with torch.enable_grad():"]
RIGHT = ["with torch.random.fork_rng(devices=[]), torch.enable_grad():"]
NAME = "checkpointed"
EXERCISE = "checkpointed-block"
# --- code
import torch
from torch.autograd import Function


def checkpointed(block, x):
    return Checkpointed.apply(block, x, *block.parameters())


class Checkpointed(Function):
    @staticmethod
    def forward(ctx, block, x, *params):
        ctx.block = block
        ctx.save_for_backward(x, torch.get_rng_state(), *params)
        return block(x)

    @staticmethod
    def backward(ctx, grad_output):
        x, rng_state, *params = ctx.saved_tensors
        x = x.detach().requires_grad_(ctx.needs_input_grad[1])
        with torch.enable_grad():
            torch.set_rng_state(rng_state)
            y = ctx.block(x)
        wanted = [t for t in (x, *params) if t.requires_grad]
        found = list(torch.autograd.grad(y, wanted, grad_output, allow_unused=True))
        grads = [found.pop(0) if t.requires_grad else None for t in (x, *params)]
        return None, *grads


# %% invertible-coupling_1
"""y1 also feeds y2, so the whole gradient of y1 is grad_y1 plus the part that comes back through tanh(y1 v). The answer uses this sum for x1, but the gradient through tanh(x2 w), and so those of w and x2, uses only grad_y1."""
WRONG = ["d1 = grad_y1 * (1 - t1**2)"]
RIGHT = ["d1 = grad_x1 * (1 - t1**2)"]
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

        d2 = grad_y2 * (1 - t2**2)
        grad_v = y1.T @ d2
        grad_x1 = grad_y1 + d2 @ v.T

        d1 = grad_y1 * (1 - t1**2)
        grad_w = x2.T @ d1
        grad_x2 = grad_y2 + d1 @ w.T
        return grad_x1, grad_x2, grad_w, grad_v


# %% invertible-coupling_2
"""The tanh of the first line of forward has the argument x2 w, but the answer evaluates it at y2 w. It has to use the reconstructed x2 = y2 - tanh(y1 v)."""
WRONG = ["inner = torch.tanh(y2 @ w)"]
RIGHT = ["inner = torch.tanh(x2 @ w)"]
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
        _, _, w, v = inputs
        ctx.save_for_backward(*output, w, v)

    @staticmethod
    def backward(ctx, grad_y1, grad_y2):
        y1, y2, w, v = ctx.saved_tensors
        outer = torch.tanh(y1 @ v)
        x2 = y2 - outer
        grad_outer = grad_y2 * (1 - outer * outer)
        grad_v = y1.mT @ grad_outer
        grad_y1 = grad_y1 + grad_outer @ v.mT
        inner = torch.tanh(y2 @ w)
        grad_inner = grad_y1 * (1 - inner * inner)
        grad_w = x2.mT @ grad_inner
        grad_x2 = grad_y2 + grad_inner @ w.mT
        return grad_y1, grad_x2, grad_w, grad_v


# %% chunked-row-losses_1
"""p[:, target] selects the columns of all targets of the chunk in every row, so 1 is subtracted in each row at the words of the other rows too. Row i must lose 1 only at its own word: the row index has to be an arange."""
WRONG = ["p[:, target[rows]] -= 1"]
RIGHT = ["p[torch.arange(len(p), device=p.device), target[rows]] -= 1"]
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
            rows = slice(start, start + chunk)
            logits = x[rows] @ weight.T
            lse[rows] = torch.logsumexp(logits, 1)
            losses[rows] = lse[rows] - logits.gather(1, target[rows, None])[:, 0]
        ctx.save_for_backward(x, weight, target, lse)
        ctx.chunk = chunk
        return losses

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, target, lse = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_weight = torch.zeros_like(weight)
        for start in range(0, len(x), ctx.chunk):
            rows = slice(start, start + ctx.chunk)
            p = torch.exp(x[rows] @ weight.T - lse[rows, None])
            p[:, target[rows]] -= 1
            p *= grad_output[rows, None]
            grad_x[rows] = p @ weight
            grad_weight += p.T @ x[rows]
        return grad_x, grad_weight, None, None


# %% chunked-row-losses_2
"""The gradient of each row's loss must be multiplied by grad_output of that row before it is summed into the gradient of the weight. The answer multiplies only the gradient of x, so grad_weight is right only if all rows have weight 1."""
WRONG = ["grad_weight += grad_z.mT @ x[i:j]"]
RIGHT = ["grad_weight += (g * grad_z).mT @ x[i:j]"]
NAME = "RowLosses"
EXERCISE = "chunked-row-losses"
# --- code
import torch
from torch.autograd import Function


class RowLosses(Function):
    @staticmethod
    def forward(ctx, x, weight, target, chunk):
        losses, lses = [], []
        for i in range(0, x.shape[0], chunk):
            z = x[i : i + chunk] @ weight.mT
            t = target[i : i + chunk]
            lse = torch.logsumexp(z, dim=-1)
            lses.append(lse)
            losses.append(lse - z[torch.arange(len(t), device=t.device), t])
        ctx.save_for_backward(x, weight, target, torch.cat(lses))
        ctx.chunk = chunk
        return torch.cat(losses)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, target, lse = ctx.saved_tensors
        grad_x = torch.zeros_like(x)
        grad_weight = torch.zeros_like(weight)
        for i in range(0, x.shape[0], ctx.chunk):
            j = min(i + ctx.chunk, x.shape[0])
            grad_z = torch.exp(x[i:j] @ weight.mT - lse[i:j].unsqueeze(1))
            grad_z[torch.arange(j - i, device=x.device), target[i:j]] -= 1
            g = grad_output[i:j].unsqueeze(1)
            grad_x[i:j] = g * (grad_z @ weight)
            grad_weight += grad_z.mT @ x[i:j]
        return grad_x, grad_weight, None, None


# %% masked-softmax_1
"""The maximum is taken over all scores, including the masked ones. If a masked score is much larger than the visible ones, all visible weights underflow to 0 and the row becomes zeros. The maximum must be taken over the visible scores only."""
WRONG = ["top = s.amax(-1, keepdim=True)"]
RIGHT = ["top = s.masked_fill(~mask, -math.inf).amax(-1, keepdim=True)"]
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
        weights = torch.exp((s - top).masked_fill(~mask, -math.inf))
        total = weights.sum(-1, keepdim=True)
        return weights / torch.where(total > 0, total, torch.ones_like(total))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (p,) = ctx.saved_tensors
        return p * (grad_output - (p * grad_output).sum(-1, keepdim=True)), None


# %% masked-softmax_2
"""The sum over the last dim lacks keepdim=True, so it is broadcast along the rows instead of the columns: entry j of each row gets the sum of row j. For a matrix that is not square this raises an error."""
WRONG = ["grad_s = p * (grad_output - (grad_output * p).sum(-1))"]
RIGHT = ["grad_s = p * (grad_output - (grad_output * p).sum(-1, keepdim=True))"]
NAME = "MaskedSoftmax"
EXERCISE = "masked-softmax"
# --- code
import torch
from torch.autograd import Function


class MaskedSoftmax(Function):
    @staticmethod
    def forward(s, mask):
        p = torch.softmax(s.masked_fill(~mask, float("-inf")), -1)
        return torch.where(mask.any(-1, keepdim=True), p, torch.zeros_like(p))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        p, = ctx.saved_tensors
        grad_s = p * (grad_output - (grad_output * p).sum(-1))
        return grad_s, None


# %% attention-forward_1
"""The boolean mask is True where the query sees the key, but masked_fill writes -inf where its mask is True. So the answer hides exactly the visible keys; the mask has to be inverted."""
WRONG = ["s = s.masked_fill(mask, -math.inf)"]
RIGHT = ["s = s.masked_fill(~mask, -math.inf)"]
NAME = "attend"
EXERCISE = "attention-forward"
# --- code
import math

import torch


def attend(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        if mask.dtype == torch.bool:
            s = s.masked_fill(mask, -math.inf)
        else:
            s = s + mask
    top = s.amax(-1, keepdim=True)
    top = torch.where(top == -math.inf, torch.zeros_like(top), top)
    e = torch.exp(s - top)
    total = e.sum(-1, keepdim=True)
    p = e / torch.where(total == 0, torch.ones_like(total), total)
    return p @ v


# %% attention-backward_1
"""The scores are Q K^T / sqrt(E), so the factor 1 / sqrt(E) also belongs in the gradients of q and k. The answer leaves it out, and both gradients are too large by sqrt(E)."""
WRONG = ["grad_q = grad_s @ k", "grad_k = grad_s.mT @ q"]
RIGHT = ["grad_q = grad_s @ k / math.sqrt(q.shape[-1])", "grad_k = grad_s.mT @ q / math.sqrt(q.shape[-1])"]
NAME = "Attention"
EXERCISE = "attention-backward"
# --- code
import math

import torch
from torch.autograd import Function


class Attention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        s = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            s = s.masked_fill(~mask, -math.inf)
        top = s.amax(-1, keepdim=True)
        top = top.masked_fill(top == -math.inf, 0)
        weights = torch.exp(s - top)
        total = weights.sum(-1, keepdim=True)
        p = weights / total.masked_fill(total == 0, 1)
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


# %% attention-backward_2
"""Forward overwrites q with the scaled q and saves that one, and backward divides by sqrt(E) again. So the gradient of k contains the scale twice; q itself must be saved."""
WRONG = ["q = q / math.sqrt(q.shape[-1])", "scores = q @ k.mT"]
RIGHT = ["scaled = q / math.sqrt(q.shape[-1])", "scores = scaled @ k.mT"]
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
        scores = q @ k.mT
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        p = torch.softmax(scores, -1)
        p = torch.where(torch.isnan(p), torch.zeros_like(p), p)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, dO):
        q, k, v, p = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        dV = p.mT @ dO
        dP = dO @ v.mT
        dS = p * (dP - (dP * p).sum(-1, keepdim=True)) * scale
        dQ = dS @ k
        dK = dS.mT @ q
        return dQ, dK, dV, None


# %% attention-budget_1
"""The log-sum-exp is computed as written, without subtracting the maximum of the row. With large scores exp overflows, L becomes inf (or -inf if all exponentials underflow), and output and gradients are wrong. torch.logsumexp shifts by the maximum."""
WRONG = ["lse = torch.log(torch.exp(s).sum(-1, keepdim=True))"]
RIGHT = ["lse = torch.logsumexp(s, -1, keepdim=True)"]
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
        lse = torch.log(torch.exp(s).sum(-1, keepdim=True))
        lse = torch.where(lse == -math.inf, torch.zeros_like(lse), lse)
        out = torch.exp(s - lse) @ v
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, mask, out, lse = ctx.saved_tensors
        p = torch.exp(scores(q, k, mask) - lse)
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        d = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_p - d) / math.sqrt(q.shape[-1])
        return grad_s @ k, grad_s.mT @ q, grad_v, None


# %% attention-budget_2
"""Backward recomputes P from the scores without the mask, so masked keys get weights that they do not have in forward. The mask has to be saved and applied again before exp(S - L)."""
WRONG = ["ctx.save_for_backward(q, k, v, out, lse)", "q, k, v, out, lse = ctx.saved_tensors", "p = torch.exp(s - lse)"]
RIGHT = ["ctx.save_for_backward(q, k, v, mask, out, lse)", "q, k, v, mask, out, lse = ctx.saved_tensors", "s = s if mask is None else s.masked_fill(~mask, -math.inf)\np = torch.exp(s - lse)"]
NAME = "LeanAttention"
EXERCISE = "attention-budget"
# --- code
import math

import torch
from torch.autograd import Function


class LeanAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        scale = 1 / math.sqrt(q.shape[-1])
        s = q @ k.mT * scale
        if mask is not None:
            s = s.masked_fill(~mask, -math.inf)
        top = s.amax(-1, keepdim=True)
        top = top.masked_fill(top == -math.inf, 0)
        weights = torch.exp(s - top)
        total = weights.sum(-1, keepdim=True)
        total = total.masked_fill(total == 0, 1)
        out = weights @ v / total
        lse = top + torch.log(total)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        s = q @ k.mT * ctx.scale
        p = torch.exp(s - lse)
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        delta = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_p - delta)
        grad_q = grad_s @ k * ctx.scale
        grad_k = grad_s.mT @ q * ctx.scale
        return grad_q, grad_k, grad_v, None


# %% merge-halves_1
"""If a query sees no keys in either half, lse and both half log-sum-exps are -inf, and -inf - (-inf) is nan. The output must be zeros there, so -inf must be replaced before the subtraction."""
WRONG = ["out = out_a * torch.exp(lse_a - lse) + out_b * torch.exp(lse_b - lse)"]
RIGHT = ["safe = torch.where(lse == -math.inf, torch.zeros_like(lse), lse)\nout = out_a * torch.exp(lse_a - safe) + out_b * torch.exp(lse_b - safe)"]
NAME = "merge"
EXERCISE = "merge-halves"
# --- code
import math

import torch


def merge(out_a, lse_a, out_b, lse_b):
    lse = torch.logaddexp(lse_a, lse_b)
    out = out_a * torch.exp(lse_a - lse) + out_b * torch.exp(lse_b - lse)
    return out, lse


# %% attention-twice_1
"""The gradient of L with respect to the scores is P, so grad_lse has to be multiplied by P like the rest. The answer adds grad_lse to every score of the row without this factor."""
WRONG = ["grad_s = p * (grad_p - d) + grad_lse[..., None]"]
RIGHT = ["grad_s = p * (grad_p - d + grad_lse[..., None])"]
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
        return torch.exp(s - lse[..., None]) @ v, lse

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        q, k, v, out, lse = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ k.mT * scale - lse[..., None])
        grad_p = grad_out @ v.mT
        d = (grad_out * out).sum(-1, keepdim=True)
        grad_s = p * (grad_p - d) + grad_lse[..., None]
        grad_s = grad_s * scale
        return grad_s @ k, grad_s.mT @ q, p.mT @ grad_out


# %% attention-grouped_1
"""Concatenating copies of the heads gives the order 0, 1, 0, 1, so query head h reads key head h mod G instead of h // (H/G). The heads must be repeated next to each other, and backward must sum over neighbouring heads."""
WRONG = ["return torch.cat([t] * repeats, dim=-3)", "return t.unflatten(-3, (-1, groups)).sum(-4)"]
RIGHT = ["return t.repeat_interleave(repeats, dim=-3)", "return t.unflatten(-3, (groups, -1)).sum(-3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


def widen(t, repeats):
    return torch.cat([t] * repeats, dim=-3)


def narrow(t, groups):
    return t.unflatten(-3, (-1, groups)).sum(-4)


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        repeats = q.shape[-3] // k.shape[-3]
        s = q @ widen(k, repeats).mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(s, -1, keepdim=True)
        out = torch.exp(s - lse) @ widen(v, repeats)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        groups = k.shape[-3]
        repeats = q.shape[-3] // groups
        wide_k, wide_v = widen(k, repeats), widen(v, repeats)
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ wide_k.mT * scale - lse)
        grad_p = grad_output @ wide_v.mT
        d = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_p - d) * scale
        grad_q = grad_s @ wide_k
        grad_k = narrow(grad_s.mT @ q, groups)
        grad_v = narrow(p.mT @ grad_output, groups)
        return grad_q, grad_k, grad_v


# %% attention-grouped_2
"""Forward saves the repeated keys and values, which take H/G times the memory of k and v and exceed the budget. It should save k and v and repeat them again in backward."""
WRONG = ["ctx.save_for_backward(q, kk, vv, out, lse)", "q, kk, vv, out, lse = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(q, k, v, out, lse)", "q, k, v, out, lse = ctx.saved_tensors\nkk, vv = k.repeat_interleave(ctx.n, -3), v.repeat_interleave(ctx.n, -3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.n = q.shape[-3] // k.shape[-3]
        kk = k.repeat_interleave(ctx.n, dim=-3)
        vv = v.repeat_interleave(ctx.n, dim=-3)
        s = q @ kk.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(s, dim=-1, keepdim=True)
        out = torch.exp(s - lse) @ vv
        ctx.save_for_backward(q, kk, vv, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, kk, vv, out, lse = ctx.saved_tensors
        p = torch.exp(q @ kk.mT / math.sqrt(q.shape[-1]) - lse)
        dv = p.mT @ grad_output
        dp = grad_output @ vv.mT
        ds = p * (dp - (grad_output * out).sum(-1, keepdim=True))
        ds = ds / math.sqrt(q.shape[-1])
        dq = ds @ kk
        dk = ds.mT @ q
        dk = dk.unflatten(-3, (-1, ctx.n)).sum(-3)
        dv = dv.unflatten(-3, (-1, ctx.n)).sum(-3)
        return dq, dk, dv
