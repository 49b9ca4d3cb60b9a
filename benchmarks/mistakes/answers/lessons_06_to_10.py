# %% cube-twice_1
"""The slope 3x² is computed as 3y/x, which is 0/0 = nan at x = 0, although the true derivative there is 0. The formula is only equivalent where x is not zero."""
WRONG = ["return 3 * y / x * grad_output"]
RIGHT = ["return 3 * x * x * grad_output"]
NAME = "Cube"
EXERCISE = "cube-twice"
# --- code
import torch
from torch.autograd import Function


class Cube(Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return 3 * y / x * grad_output


# %% exp-twice_1
"""The saved tensor is the output y = exp(x), which already is the derivative. Backward treats it as the input and applies exp a second time, so the gradient is exp(exp(x))."""
WRONG = ["return grad_output * torch.exp(y)"]
RIGHT = ["return grad_output * y"]
NAME = "Exp"
EXERCISE = "exp-twice"
# --- code
import torch
from torch.autograd import Function


class Exp(Function):
    @staticmethod
    def forward(x):
        return torch.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * torch.exp(y)


# %% sinh-by-output_1
"""1/sqrt(1 + y²) is the derivative of the inverse function arsinh at y (dx/dy). Backward needs dy/dx = cosh x = sqrt(1 + y²), so it must multiply, not divide."""
WRONG = ["return grad_output / torch.sqrt(1 + y * y)"]
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
        return grad_output / torch.sqrt(1 + y * y)


# %% logsumexp-hessian_1
"""The log-sum-exp is computed again in setup_context (to get the kept dim), and this new tensor is not the output: in the double backward it is a constant. So the Hessian is diag(p) and lacks the part -p_i p_j that flows through y."""
WRONG = ["ctx.save_for_backward(x, torch.logsumexp(x, -1, keepdim=True))", "p = torch.exp(x - y)"]
RIGHT = ["ctx.save_for_backward(x, output)", "p = torch.exp(x - y.unsqueeze(-1))"]
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
        return grad_output.unsqueeze(-1) * p


# %% hessian-vector-product_1
"""With allow_unused=True alone, autograd.grad returns None for an input in which f is linear (the gradient does not depend on it). The product for this input must be a tensor of zeros, so the Nones have to be materialized."""
WRONG = ["return torch.autograd.grad(pairing, leaves, allow_unused=True)"]
RIGHT = ["return torch.autograd.grad(pairing, leaves, allow_unused=True, materialize_grads=True)"]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def hvp(f, inputs, vectors):
    leaves = tuple(t.detach().clone().requires_grad_() for t in inputs)
    grads = torch.autograd.grad(
        f(*leaves), leaves, create_graph=True, allow_unused=True, materialize_grads=True
    )
    pairing = sum((grad * vector).sum() for grad, vector in zip(grads, vectors))
    if not pairing.requires_grad:
        return tuple(torch.zeros_like(t) for t in inputs)
    return torch.autograd.grad(pairing, leaves, allow_unused=True)


# %% hessian-vector-product_2
"""Each gradient is paired with its own vector and differentiated only with respect to its own input, so only the diagonal blocks of the Hessian are used. The mixed blocks between different inputs (the sum over l with l ≠ k) are missing."""
WRONG = ["pairings = [(grad * vector).sum() for grad, vector in zip(grads, vectors)]", "products = [torch.autograd.grad(p, t, retain_graph=True, materialize_grads=True)[0] if p.requires_grad else torch.zeros_like(t) for p, t in zip(pairings, leaves)]"]
RIGHT = ["pairing = sum((grad * vector).sum() for grad, vector in zip(grads, vectors))", "products = torch.autograd.grad(pairing, leaves, materialize_grads=True) if pairing.requires_grad else [torch.zeros_like(t) for t in leaves]"]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def hvp(f, inputs, vectors):
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True, materialize_grads=True)
    pairings = [(grad * vector).sum() for grad, vector in zip(grads, vectors)]
    products = [torch.autograd.grad(p, t, retain_graph=True, materialize_grads=True)[0] if p.requires_grad else torch.zeros_like(t) for p, t in zip(pairings, leaves)]
    return tuple(product.detach() for product in products)


# %% gradient-penalty_1
"""The derivative of sqrt at 0 is infinite. Where the critic is flat, the sum of squares is 0, and backward computes inf · 0 = nan for the parameters. A norm with a zero subgradient at 0 (torch.linalg.vector_norm) is finite there."""
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


# %% gradient-penalty_2
"""The norm is taken over dim 1 only. For images of shape (N, C, H, W), this gives a norm for each pixel instead of one norm for each sample over all its dimensions."""
WRONG = ["norms = gradient.norm(2, dim=1)"]
RIGHT = ["norms = gradient.reshape(len(x), -1).norm(2, dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    samples = x.detach().clone().requires_grad_()
    scores = critic(samples)
    (gradient,) = torch.autograd.grad(
        scores, samples, grad_outputs=torch.ones_like(scores), create_graph=True
    )
    norms = gradient.norm(2, dim=1)
    return torch.mean((norms - 1) ** 2)


# %% repair-hessian_1
"""softmax saves its result for its own backward, and the subtraction changes this result in place. The first gradient is right, but differentiating it again raises an error, because a tensor needed for the computation was modified. The one-hot part must be subtracted out of place."""
WRONG = ["slope[torch.arange(len(target)), target] -= 1"]
RIGHT = ["slope = slope - torch.nn.functional.one_hot(target, logits.shape[-1])"]
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
        slope = torch.softmax(logits, -1)
        slope[torch.arange(len(target)), target] -= 1
        return slope * grad_output.unsqueeze(-1), None


# %% elu-by-output_1
"""For x ≤ 0, y = alpha (e^x - 1) gives alpha e^x = y + alpha. The code uses e^x = y + 1, which only holds for alpha = 1, so the slope alpha (y + 1) is wrong for any other alpha."""
WRONG = ["slope = torch.where(y > 0, torch.ones_like(y), ctx.alpha * (y + 1))"]
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
        _, alpha = inputs
        ctx.alpha = alpha
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        slope = torch.where(y > 0, torch.ones_like(y), ctx.alpha * (y + 1))
        return grad_output * slope, None


# %% maximum-by-mask_1
"""The mask is uint8, and ~ on integers flips all eight bits: ~0 is 255 and ~1 is 254, not 1 and 0. So the gradient of b is multiplied by about 255 everywhere. On a bool mask, ~ would be the logical not."""
WRONG = ["mask = (a >= b).to(torch.uint8)"]
RIGHT = ["mask = a >= b"]
NAME = "Maximum"
EXERCISE = "maximum-by-mask"
# --- code
import torch
from torch.autograd import Function


class Maximum(Function):
    @staticmethod
    def forward(a, b):
        return torch.where(a >= b, a, b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b = inputs
        mask = (a >= b).to(torch.uint8)
        ctx.save_for_backward(mask)

    @staticmethod
    def backward(ctx, grad_output):
        (mask,) = ctx.saved_tensors
        return grad_output * mask, grad_output * ~mask


# %% swiglu_1
"""The derivative of the swish a σ(a) is σ + swish · (1 - σ). The code puts the complete output y = a σ(a) b in place of the swish, so the second term contains the factor b twice."""
WRONG = ["grad_a = grad_output * b * (s + y * (1 - s))"]
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
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        s = torch.sigmoid(a)
        y = a * s * b
        grad_a = grad_output * b * (s + y * (1 - s))
        grad_b = grad_output * a * s
        return grad_a, grad_b


# %% fused-linear-relu_1
"""The output of a ReLU is never negative, so y >= 0 is true everywhere and nothing is masked: gradients also flow through the units that the ReLU has cut off. Only y > 0 tells that a unit is active."""
WRONG = ["grad_z = grad_output * (y >= 0)"]
RIGHT = ["grad_z = grad_output * (y > 0)"]
NAME = "LinearReLU"
EXERCISE = "fused-linear-relu"
# --- code
import torch
from torch.autograd import Function


class LinearReLU(Function):
    @staticmethod
    def forward(x, weight, bias):
        return torch.relu(x @ weight.mT + bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, y = ctx.saved_tensors
        grad_z = grad_output * (y >= 0)
        return grad_z @ weight, grad_z.mT @ x, grad_z.sum(0)


# %% packed-leaky-relu_1
"""packed & powers gives the value of the bit (0 or 1, 2, 4, ..., 128), not 0 or 1. The comparison with 1 finds only the first of the eight bits, so seven of eight positive elements get the negative slope in backward."""
WRONG = ["mask = bits.flatten()[: grad_output.numel()] == 1"]
RIGHT = ["mask = bits.flatten()[: grad_output.numel()] != 0"]
NAME = "PackedLeakyReLU"
EXERCISE = "packed-leaky-relu"
# --- code
import torch
from torch.autograd import Function


class PackedLeakyReLU(Function):
    @staticmethod
    def forward(ctx, x, slope):
        mask = x > 0
        count = mask.numel()
        padded = torch.zeros((count + 7) // 8 * 8, dtype=torch.uint8, device=x.device)
        padded[:count] = mask.flatten()
        powers = 2 ** torch.arange(8, dtype=torch.uint8, device=x.device)
        packed = (padded.view(-1, 8) * powers).sum(1, dtype=torch.uint8)
        ctx.save_for_backward(packed)
        ctx.slope = slope
        return torch.where(mask, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        powers = 2 ** torch.arange(8, dtype=torch.uint8, device=packed.device)
        bits = packed.unsqueeze(1) & powers
        mask = bits.flatten()[: grad_output.numel()] == 1
        mask = mask.view(grad_output.shape)
        return torch.where(mask, grad_output, ctx.slope * grad_output), None


# %% packed-leaky-relu_2
"""sum() of a uint8 tensor returns int64 unless a dtype is given. So each group of eight bits is saved in eight bytes instead of one: a whole byte per element, and the packing saves nothing."""
WRONG = ["packed = (padded.view(-1, 8) << shifts).sum(-1)"]
RIGHT = ["packed = (padded.view(-1, 8) << shifts).sum(-1, dtype=torch.uint8)"]
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
        padded = F.pad(flat, (0, -flat.numel() % 8))
        shifts = torch.arange(8, dtype=torch.uint8, device=x.device)
        packed = (padded.view(-1, 8) << shifts).sum(-1)
        ctx.save_for_backward(packed)
        ctx.slope = slope
        ctx.shape = x.shape
        return torch.where(mask, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
        bits = (packed.unsqueeze(-1) >> shifts) & 1
        mask = bits.flatten()[: ctx.shape.numel()].view(ctx.shape).bool()
        return torch.where(mask, grad_output, ctx.slope * grad_output), None


# %% checkpointed-block_1
"""Backward rewinds the random number generator to replay the dropout, but it does not put back the state that the generator had before. If anything was drawn between forward and backward, the program goes on from an old state afterwards and draws the same numbers again."""
WRONG = ["torch.set_rng_state(ctx.rng_state)", "output = ctx.block(leaf)"]
RIGHT = ["later = torch.get_rng_state()\ntorch.set_rng_state(ctx.rng_state)", "output = ctx.block(leaf)\ntorch.set_rng_state(later)"]
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
        ctx.rng_state = torch.get_rng_state()
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        needed = ctx.needs_input_grad[1:]
        leaf = x.detach().requires_grad_(needed[0])
        with torch.enable_grad():
            torch.set_rng_state(ctx.rng_state)
            output = ctx.block(leaf)
        inputs = [leaf, *ctx.block.parameters()]
        wanted = [t for t, need in zip(inputs, needed) if need]
        grads = iter(torch.autograd.grad(output, wanted, grad_output, allow_unused=True))
        return None, *[next(grads) if need else None for need in needed]


# %% checkpointed-block_2
"""autograd.grad is asked for the gradients of all parameters, also of the frozen ones. A frozen parameter is not part of the graph, so the call raises an error. Only tensors that require a gradient may be asked for, and the others get None."""
WRONG = ["grads = torch.autograd.grad(output, [leaf, *params], grad_output)", "return None, *grads"]
RIGHT = ["wanted = [t for t in (leaf, *params) if t.requires_grad]\ngrads = iter(torch.autograd.grad(output, wanted, grad_output, allow_unused=True))", "return None, *[next(grads) if t.requires_grad else None for t in (leaf, *params)]"]
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
        ctx.state = torch.get_rng_state()
        ctx.save_for_backward(x)
        with torch.no_grad():
            return block(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        leaf = x.detach().requires_grad_()
        params = list(ctx.block.parameters())
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.block(leaf)
        grads = torch.autograd.grad(output, [leaf, *params], grad_output)
        return None, *grads


# %% invertible-coupling_1
"""The gradient that comes back through y2 is added to the incoming gradient in place. The incoming gradient does not belong to this Function: another part of the graph or the caller may hold it, and after a .sum() it is an expanded tensor, so the addition raises an error."""
WRONG = ["grad_y1 += h2 @ v.mT"]
RIGHT = ["grad_y1 = grad_y1 + h2 @ v.mT"]
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
        h2 = grad_y2 * (1 - t2 * t2)
        grad_y1 += h2 @ v.mT
        h1 = grad_y1 * (1 - t1 * t1)
        grad_x2 = grad_y2 + h1 @ w.mT
        return grad_y1, grad_x2, x2.mT @ h1, y1.mT @ h2


# %% chunked-row-losses_1
"""p[:, t] selects the columns of all targets of the chunk in every row, so 1 is subtracted in all rows for each of these words. The one-hot matrix has one entry in each row, so row r must be paired with its own target."""
WRONG = ["p[:, t] -= 1"]
RIGHT = ["p[torch.arange(len(t), device=t.device), t] -= 1"]
NAME = "RowLosses"
EXERCISE = "chunked-row-losses"
# --- code
import torch
from torch.autograd import Function


class RowLosses(Function):
    @staticmethod
    def forward(ctx, x, weight, target, chunk):
        losses = x.new_empty(len(x))
        lse = x.new_empty(len(x))
        for start in range(0, len(x), chunk):
            rows = slice(start, start + chunk)
            logits = x[rows] @ weight.mT
            lse[rows] = torch.logsumexp(logits, 1)
            losses[rows] = lse[rows] - logits.gather(1, target[rows, None]).squeeze(1)
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
            t = target[rows]
            p = torch.exp(x[rows] @ weight.mT - lse[rows, None])
            p[:, t] -= 1
            grad_logits = p * grad_output[rows, None]
            grad_x[rows] = grad_logits @ weight
            grad_weight += grad_logits.mT @ x[rows]
        return grad_x, grad_weight, None, None


# %% chunked-row-losses_2
"""The incoming gradient of each row is applied to grad_x only. The gradient of the weight sums over the rows, so every row must be scaled by its own g before the product; without it, the result is right only if all g are 1."""
WRONG = ["grad_weight += slope.mT @ x[rows]"]
RIGHT = ["grad_weight += (g * slope).mT @ x[rows]"]
NAME = "RowLosses"
EXERCISE = "chunked-row-losses"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class RowLosses(Function):
    @staticmethod
    def forward(ctx, x, weight, target, chunk):
        losses = []
        for part, words in zip(x.split(chunk), target.split(chunk)):
            logits = part @ weight.mT
            picked = logits.gather(1, words.unsqueeze(1)).squeeze(1)
            losses.append(torch.logsumexp(logits, 1) - picked)
        ctx.save_for_backward(x, weight, target)
        ctx.chunk = chunk
        return torch.cat(losses)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, target = ctx.saved_tensors
        grad_x = torch.zeros_like(x)
        grad_weight = torch.zeros_like(weight)
        for i in range(0, x.shape[0], ctx.chunk):
            rows = slice(i, i + ctx.chunk)
            g = grad_output[rows].unsqueeze(1)
            slope = torch.softmax(x[rows] @ weight.mT, 1)
            slope = slope - F.one_hot(target[rows], weight.shape[0])
            grad_x[rows] = g * (slope @ weight)
            grad_weight += slope.mT @ x[rows]
        return grad_x, grad_weight, None, None


# %% masked-softmax_1
"""The maximum is taken over all scores, also over the masked ones. If a masked score is much larger than the visible ones, all visible exponentials underflow to 0, and the row is treated as if it were fully masked."""
WRONG = ["top = s.amax(-1, keepdim=True)"]
RIGHT = ["top = s.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)\ntop = top.masked_fill(top == -torch.inf, 0)"]
NAME = "MaskedSoftmax"
EXERCISE = "masked-softmax"
# --- code
import torch
from torch.autograd import Function


class MaskedSoftmax(Function):
    @staticmethod
    def forward(s, mask):
        top = s.amax(-1, keepdim=True)
        weights = torch.where(mask, torch.exp(s - top), 0)
        total = weights.sum(-1, keepdim=True)
        return torch.where(total > 0, weights / total, 0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (p,) = ctx.saved_tensors
        return p * (grad_output - (p * grad_output).sum(-1, keepdim=True)), None


# %% attention-forward_1
"""Two mistakes. The boolean mask is True where the query sees the key (the convention of nn.MultiheadAttention is the opposite), so ~mask must be filled. And the scores are scaled by the width of the values instead of the width E of queries and keys."""
WRONG = ["scores = q @ k.mT / math.sqrt(v.shape[-1])", "scores = scores.masked_fill(mask, -torch.inf)"]
RIGHT = ["scores = q @ k.mT / math.sqrt(q.shape[-1])", "scores = scores.masked_fill(~mask, -torch.inf)"]
NAME = "attend"
EXERCISE = "attention-forward"
# --- code
import math

import torch


def attend(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(v.shape[-1])
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(mask, -torch.inf)
        else:
            scores = scores + mask
    top = scores.amax(-1, keepdim=True)
    top = top.masked_fill(top == -torch.inf, 0)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    p = weights / total.masked_fill(total == 0, 1)
    return p @ v


# %% attention-backward_1
"""The saved q has already been multiplied by 1/sqrt(E), so grad_s.mT @ q contains the scale. Multiplying it by the scale again makes the gradient of k too small by a factor sqrt(E). (The gradient of q needs the factor, because k is not scaled.)"""
WRONG = ["grad_k = scale * (grad_s.mT @ q)"]
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
        scale = 1 / math.sqrt(q.shape[-1])
        q = q * scale
        scores = q @ k.mT
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        p = torch.softmax(scores, -1).nan_to_num(0.0)
        ctx.save_for_backward(q, k, v, p)
        ctx.scale = scale
        return p @ v

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, p = ctx.saved_tensors
        scale = ctx.scale
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        grad_s = p * (grad_p - (grad_p * p).sum(-1, keepdim=True))
        grad_q = scale * (grad_s @ k)
        grad_k = scale * (grad_s.mT @ q)
        return grad_q, grad_k, grad_v, None


# %% attention-budget_1
"""Backward recomputes the scores without the mask. For a hidden key, exp(S - L) is then not 0 but some positive number, so hidden keys take part in all three gradients."""
WRONG = ["p = torch.exp(scores - lse)"]
RIGHT = ["if mask is not None:\n    scores = scores.masked_fill(~mask, -torch.inf)\np = torch.exp(scores - lse)"]
NAME = "LeanAttention"
EXERCISE = "attention-budget"
# --- code
import math

import torch
from torch.autograd import Function


class LeanAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        ctx.scale = 1 / math.sqrt(q.shape[-1])
        scores = q @ k.mT * ctx.scale
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        lse = torch.logsumexp(scores, -1, keepdim=True)
        lse = lse.masked_fill(lse == -torch.inf, torch.inf)
        out = torch.exp(scores - lse) @ v
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, mask, out, lse = ctx.saved_tensors
        scores = q @ k.mT * ctx.scale
        p = torch.exp(scores - lse)
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        delta = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_p - delta) * ctx.scale
        return grad_s @ k, grad_s.mT @ q, grad_v, None


# %% merge-halves_1
"""nan_to_num replaces not only nan but also -inf, by the smallest finite number. It makes the weights safe, but a query without any key must still have the log-sum-exp -inf, and the function returns the replaced value."""
WRONG = ["return out, safe"]
RIGHT = ["return out, lse"]
NAME = "merge"
EXERCISE = "merge-halves"
# --- code
import torch


def merge(out_a, lse_a, out_b, lse_b):
    lse = torch.logaddexp(lse_a, lse_b)
    safe = lse.nan_to_num()
    weight_a = torch.exp(lse_a - safe)
    weight_b = torch.exp(lse_b - safe)
    out = weight_a * out_a + weight_b * out_b
    return out, safe


# %% attention-twice_1
"""The gradient of the log-sum-exp has the wrong sign: since dL_i/dS_ij = P_ij, it adds P · grad_lse to the gradient of the scores. In this line it is subtracted together with D."""
WRONG = ["grad_s = p * (grad_p - (delta + grad_lse)[..., None])"]
RIGHT = ["grad_s = p * (grad_p - (delta - grad_lse)[..., None])"]
NAME = "TwiceAttention"
EXERCISE = "attention-twice"
# --- code
import math

import torch
from torch.autograd import Function


class TwiceAttention(Function):
    @staticmethod
    def forward(q, k, v):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(scores, -1)
        out = torch.exp(scores - lse[..., None]) @ v
        return out, lse

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        q, k, v, out, lse = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ k.mT * scale - lse[..., None])
        grad_v = p.mT @ grad_out
        grad_p = grad_out @ v.mT
        delta = (grad_out * out).sum(-1)
        grad_s = p * (grad_p - (delta + grad_lse)[..., None])
        return grad_s @ k * scale, grad_s.mT @ q * scale, grad_v


# %% attention-twice_2
"""setup_context saves lse.unsqueeze(-1), a new tensor without a graph, instead of the output itself. The first derivative is right, but in the double backward the log-sum-exp is a constant, and the path through it is missing."""
WRONG = ["ctx.save_for_backward(q, k, v, out, lse.unsqueeze(-1))", "p = torch.exp(scores - lse)"]
RIGHT = ["ctx.save_for_backward(q, k, v, out, lse)", "p = torch.exp(scores - lse.unsqueeze(-1))"]
NAME = "TwiceAttention"
EXERCISE = "attention-twice"
# --- code
import math

import torch
from torch.autograd import Function


class TwiceAttention(Function):
    @staticmethod
    def forward(q, k, v):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        out = torch.softmax(scores, -1) @ v
        return out, torch.logsumexp(scores, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v = inputs
        out, lse = output
        ctx.save_for_backward(q, k, v, out, lse.unsqueeze(-1))

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        q, k, v, out, lse = ctx.saved_tensors
        scale = math.sqrt(q.shape[-1])
        scores = q @ k.mT / scale
        p = torch.exp(scores - lse)
        grad_p = grad_out @ v.mT + grad_lse.unsqueeze(-1)
        grad_s = p * (grad_p - (grad_out * out).sum(-1, keepdim=True))
        return grad_s @ k / scale, grad_s.mT @ q / scale, p.mT @ grad_out


# %% attention-grouped_1
"""repeat_interleave puts the query heads of one key head next to each other, so the H heads unfold into (G, H/G). The backward unfolds them into (H/G, G) and adds up query heads that belong to different key heads."""
WRONG = ["return t.unflatten(-3, (repeats, -1)).sum(-4)"]
RIGHT = ["return t.unflatten(-3, (-1, repeats)).sum(-3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


def fold(t, repeats):
    return t.unflatten(-3, (repeats, -1)).sum(-4)


class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        repeats = q.shape[-3] // k.shape[-3]
        keys = k.repeat_interleave(repeats, -3)
        values = v.repeat_interleave(repeats, -3)
        scores = q @ keys.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(scores, -1, keepdim=True)
        out = torch.exp(scores - lse) @ values
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.repeats = repeats
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        keys = k.repeat_interleave(ctx.repeats, -3)
        values = v.repeat_interleave(ctx.repeats, -3)
        p = torch.exp(q @ keys.mT * scale - lse)
        grad_p = grad_output @ values.mT
        delta = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_p - delta) * scale
        grad_k = fold(grad_s.mT @ q, ctx.repeats)
        grad_v = fold(p.mT @ grad_output, ctx.repeats)
        return grad_s @ keys, grad_k, grad_v


# %% log-sum-exp_1
"""clamp(min=0) is meant to replace a maximum of -inf, but it also replaces every negative maximum. For inputs around -1000, nothing is shifted up, all exponentials underflow, and the result is -inf instead of about -1000. Only a maximum of -inf may be replaced."""
WRONG = ["top = x.amax(dim, keepdim=True).clamp(min=0)"]
RIGHT = ["top = x.amax(dim, keepdim=True)\ntop = top.masked_fill(top == -torch.inf, 0)"]
NAME = "LogSumExp"
EXERCISE = "log-sum-exp"
# --- code
import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x, dim, keepdim=False):
        top = x.amax(dim, keepdim=True).clamp(min=0)
        y = top + torch.exp(x - top).sum(dim, keepdim=True).log()
        return y if keepdim else y.squeeze(dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.dim, *rest = inputs
        ctx.keepdim = rest[0] if rest else False
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y = y.unsqueeze(ctx.dim)
            grad_output = grad_output.unsqueeze(ctx.dim)
        p = torch.exp(x - y.masked_fill(y == -torch.inf, 0))
        return grad_output * p, None, None


# %% batch-norm_1
"""Each channel has m = N · (all further dims) elements, but the sums are divided by N = x.shape[0] only. The formula is right for (N, C) and wrong as soon as x has further dims."""
WRONG = ["m = y.shape[0]"]
RIGHT = ["m = y.numel() // y.shape[1]"]
NAME = "BatchNorm"
EXERCISE = "batch-norm"
# --- code
import torch
from torch.autograd import Function


class BatchNorm(Function):
    @staticmethod
    def forward(x, eps):
        dims = [d for d in range(x.dim()) if d != 1]
        mean = x.mean(dims, keepdim=True)
        var = x.var(dims, correction=0, keepdim=True)
        return (x - mean) / torch.sqrt(var + eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, eps = inputs
        dims = [d for d in range(x.dim()) if d != 1]
        var = x.var(dims, correction=0, keepdim=True)
        ctx.save_for_backward(output, torch.rsqrt(var + eps))
        ctx.dims = dims

    @staticmethod
    def backward(ctx, grad_output):
        y, inv_std = ctx.saved_tensors
        m = y.shape[0]
        sum_g = grad_output.sum(ctx.dims, keepdim=True)
        sum_gy = (grad_output * y).sum(ctx.dims, keepdim=True)
        return inv_std * (grad_output - sum_g / m - y * sum_gy / m), None


# %% batch-norm_2
"""Backward recomputes the standard deviation without eps, while forward divides by sqrt(v + eps). The gradient is too large by the factor sqrt((v + eps) / v), which is hardly visible for a tiny eps and infinite for a constant channel."""
WRONG = ["std = x.var(dims, correction=0, keepdim=True).sqrt()"]
RIGHT = ["std = (x.var(dims, correction=0, keepdim=True) + ctx.eps).sqrt()"]
NAME = "BatchNorm"
EXERCISE = "batch-norm"
# --- code
import torch
from torch.autograd import Function


class BatchNorm(Function):
    @staticmethod
    def forward(x, eps):
        dims = (0, *range(2, x.ndim))
        centered = x - x.mean(dims, keepdim=True)
        var = centered.square().mean(dims, keepdim=True)
        return centered / (var + eps).sqrt()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.eps = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        dims = (0, *range(2, x.ndim))
        std = x.var(dims, correction=0, keepdim=True).sqrt()
        mean_g = grad_output.mean(dims, keepdim=True)
        mean_gy = (grad_output * y).mean(dims, keepdim=True)
        return (grad_output - mean_g - y * mean_gy) / std, None


# %% plain-conv1d_1
"""An element of x belongs to up to K windows, and its gradient is the sum over all of them. The assignment overwrites what the earlier taps have written, so only the contribution of the last tap that reaches the element is left."""
WRONG = ["grad_x[..., i : i + T] = grad_windows[..., i]"]
RIGHT = ["grad_x[..., i : i + T] += grad_windows[..., i]"]
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
        K = weight.shape[-1]
        grad_weight = torch.einsum("not,nctk->ock", grad_output, x.unfold(-1, K, 1))
        grad_windows = torch.einsum("not,ock->nctk", grad_output, weight)
        grad_x = torch.zeros_like(x)
        T = grad_output.shape[-1]
        for i in range(K):
            grad_x[..., i : i + T] = grad_windows[..., i]
        return grad_x, grad_weight


# %% plain-conv1d_2
"""The gradient of x is a correlation of the padded gradient with the *flipped* kernel: x[l] meets w[k] in the output t = l - k. Without the flip, each tap is combined with the mirrored position."""
WRONG = ["grad_x = torch.einsum(\"nolk,ock->ncl\", spread, weight)"]
RIGHT = ["grad_x = torch.einsum(\"nolk,ock->ncl\", spread, weight.flip(-1))"]
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
        x, weight = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        K = weight.shape[-1]
        spread = F.pad(grad_output, (K - 1, K - 1)).unfold(-1, K, 1)
        grad_x = torch.einsum("nolk,ock->ncl", spread, weight)
        grad_weight = torch.einsum("not,nctk->ock", grad_output, x.unfold(-1, K, 1))
        return grad_x, grad_weight


# %% conv1d_1
"""Two forgotten special cases. The buffer ends with the last window, so if the stride leaves a remainder, the elements after it are missing and the gradient is too short. And with padding 0, the slice padding:-padding is 0:0, which is empty."""
WRONG = ["buffer = grad_output.new_zeros(*x.shape[:2], (steps - 1) * s + K)", "grad_x = buffer[..., p:-p]"]
RIGHT = ["buffer = grad_output.new_zeros(*x.shape[:2], x.shape[-1] + 2 * p)", "grad_x = buffer[..., p : p + x.shape[-1]]"]
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
        x, weight, *ctx.numbers = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        s, p, groups = ctx.numbers
        K = weight.shape[-1]
        steps = grad_output.shape[-1]
        windows = F.pad(x, (p, p)).unfold(-1, K, s).unflatten(1, (groups, -1))
        kernels = weight.unflatten(0, (groups, -1))
        g = grad_output.unflatten(1, (groups, -1))
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).flatten(0, 1)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, kernels).flatten(1, 2)
        buffer = grad_output.new_zeros(*x.shape[:2], (steps - 1) * s + K)
        for k in range(K):
            buffer[..., k : k + (steps - 1) * s + 1 : s] += grad_windows[..., k]
        grad_x = buffer[..., p:-p]
        return grad_x, grad_weight, None, None, None


# %% complex-multiply_1
"""For a real input, the code multiplies the real parts instead of taking the real part of the product. Re(g · conj(w)) = Re g · Re w + Im g · Im w, so the contribution of the imaginary parts is missing."""
WRONG = ["return g.real * other.real"]
RIGHT = ["return (g * other.conj()).real"]
NAME = "ComplexMultiply"
EXERCISE = "complex-multiply"
# --- code
import torch
from torch.autograd import Function


def slope(g, own, other):
    if own.is_complex():
        return g * other.conj()
    return g.real * other.real


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
        return slope(grad_output, z, w), slope(grad_output, w, z)


# %% gradient-reversal_1
"""detach() returns a new tensor object, but it shares the memory of x. If the next layer works in place, it overwrites x as well. The output needs memory of its own, for example a clone."""
WRONG = ["return x.detach()"]
RIGHT = ["return x.clone()"]
NAME = "GradientReversal"
EXERCISE = "gradient-reversal"
# --- code
import torch
from torch.autograd import Function


class GradientReversal(Function):
    @staticmethod
    def forward(x, strength):
        return x.detach()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.strength = inputs

    @staticmethod
    def backward(ctx, grad_output):
        return -ctx.strength * grad_output, None


# %% gumbel-soft_1
"""The division binds more tightly than the addition, so only the noise is divided by the temperature. The sum of logits and noise must be divided; backward already assumes this."""
WRONG = ["return torch.softmax(logits + noise / temperature, -1)"]
RIGHT = ["return torch.softmax((logits + noise) / temperature, -1)"]
NAME = "GumbelSoftmax"
EXERCISE = "gumbel-soft"
# --- code
import torch
from torch.autograd import Function


class GumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        return torch.softmax(logits + noise / temperature, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.temperature = inputs[2]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        inner = (grad_output * y).sum(-1, keepdim=True)
        return y * (grad_output - inner) / ctx.temperature, None, None


# %% gumbel-hard_1
"""one_hot returns int64, not the dtype of the logits. Autograd does not differentiate integer outputs, so the sample does not require a gradient and backward is never called."""
WRONG = ["return F.one_hot(choice, logits.shape[-1])"]
RIGHT = ["return F.one_hot(choice, logits.shape[-1]).to(logits.dtype)"]
NAME = "HardGumbelSoftmax"
EXERCISE = "gumbel-hard"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        choice = (logits + noise).argmax(-1)
        return F.one_hot(choice, logits.shape[-1])

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise, temperature = inputs
        ctx.save_for_backward(logits, noise)
        ctx.temperature = temperature

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise = ctx.saved_tensors
        soft = torch.softmax((logits + noise) / ctx.temperature, -1)
        inner = (grad_output * soft).sum(-1, keepdim=True)
        return soft * (grad_output - inner) / ctx.temperature, None, None


# %% reinmax_1
"""The code averages the two products J(p)g and J(y)g instead of evaluating J at the average m. J is quadratic in q, so the two are not the same; J(y) is even 0 for a one-hot y, and the result is only half of J(p)g."""
WRONG = ["middle = (product(p, grad_output) + product(y, grad_output)) / 2"]
RIGHT = ["middle = product((p + y) / 2, grad_output)"]
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


def product(q, g):
    return q * (g - (g * q).sum(-1, keepdim=True))


class ReinMax(Function):
    @staticmethod
    def forward(logits, noise):
        choice = (logits + noise).argmax(-1)
        return F.one_hot(choice, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        logits, y = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        middle = (product(p, grad_output) + product(y, grad_output)) / 2
        return 2 * middle - product(p, grad_output) / 2, None


# %% reinmax_2
"""The centered gradient g - Σ g p is computed once and used for both terms. In J(m)g, the subtracted mean must be taken with the weights m, because J(q) depends on q in both places."""
WRONG = ["slope_m = m * centered"]
RIGHT = ["slope_m = m * (grad_output - (grad_output * m).sum(-1, keepdim=True))"]
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
from torch.autograd import Function


class ReinMax(Function):
    @staticmethod
    def forward(logits, noise):
        index = (logits + noise).argmax(-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, index, 1.0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, _ = inputs
        ctx.save_for_backward(torch.softmax(logits, -1), output)

    @staticmethod
    def backward(ctx, grad_output):
        p, y = ctx.saved_tensors
        m = (p + y) / 2
        centered = grad_output - (grad_output * p).sum(-1, keepdim=True)
        slope_p = p * centered
        slope_m = m * centered
        return 2 * slope_m - 0.5 * slope_p, None
