"""Mistakes of honest attempts at lessons 05 to 08; see benchmarks/repairs.py."""

# %% sign-ste_1
"""copysign reads the sign bit, and -0.0 has its sign bit set, so the output at -0.0 is -1. The exercise demands +1 for both zeros, and the comparison x >= 0 gives that because -0.0 >= 0 is True."""
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


# %% clipped-sign_1
"""This clips the incoming gradient to [-1, 1] (gradient clipping) instead of differentiating the clip. The derivative of clip(x) is a 0/1 mask that depends on x, not on the size of grad_output, so backward is also no longer linear in grad_output."""
WRONG = ["return grad_output.clamp(-1, 1)"]
RIGHT = ["return grad_output * (x.abs() <= 1)"]
NAME = "ClippedSignSTE"
EXERCISE = "clipped-sign"
# --- code
import torch
from torch.autograd import Function


class ClippedSignSTE(Function):
    @staticmethod
    def forward(x):
        return (x >= 0).to(x.dtype) * 2 - 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output.clamp(-1, 1)


# %% ternary-ste_1
"""The inner derivative of clip(x - t) with respect to t is -1, so the first mask enters the threshold's gradient with a minus sign. Here both masks are added, as in the gradient of x."""
WRONG = ["grad_threshold = (grad_output * (lower + upper) / 2).sum()"]
RIGHT = ["grad_threshold = (grad_output * (lower - upper) / 2).sum()"]
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
        upper = ((x - threshold).abs() <= 1).to(grad_output.dtype)
        lower = ((x + threshold).abs() <= 1).to(grad_output.dtype)
        grad_x = grad_output * (lower + upper) / 2
        grad_threshold = (grad_output * (lower + upper) / 2).sum()
        return grad_x, grad_threshold


# %% ternary-ste_2
"""The boundary at -t is on the wrong side: the formula gives 0 at exactly x = -t, because the sign of 0 is +1, but x <= -t gives -1 there. The levels are not symmetric: t belongs to +1, and -t belongs to 0."""
WRONG = ["return (x >= t).to(x.dtype) - (x <= -t).to(x.dtype)"]
RIGHT = ["return (x >= t).to(x.dtype) - (x < -t).to(x.dtype)"]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x, t):
        return (x >= t).to(x.dtype) - (x <= -t).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, t = inputs
        ctx.save_for_backward(x, t)

    @staticmethod
    def backward(ctx, grad_output):
        x, t = ctx.saved_tensors
        half = grad_output / 2
        minus = half * ((x - t).abs() <= 1)
        plus = half * ((x + t).abs() <= 1)
        return minus + plus, plus.sum() - minus.sum()


# %% round-ste_1
"""The inner derivative of x / step is missing. With round(v) replaced by v, the surrogate is step * (x / step) = x, so its derivative is 1 and not step."""
WRONG = ["return grad_output * ctx.step, None"]
RIGHT = ["return grad_output, None"]
NAME = "RoundSTE"
EXERCISE = "round-ste"
# --- code
import torch
from torch.autograd import Function


class RoundSTE(Function):
    @staticmethod
    def forward(x, step):
        return step * torch.round(x / step)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, step = inputs
        ctx.step = step

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.step, None


# %% fake-quantize_1
"""The mask is applied to the whole factor, so elements outside the range give no gradient to the step. Only the derivative of the clamp is 0 there: y is still step * low or step * high, so these elements contribute low or high."""
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
        return step * torch.round(torch.clamp(x / step, low, high))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, low, high = inputs
        ctx.save_for_backward(x, step)
        ctx.low = low
        ctx.high = high

    @staticmethod
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        scaled = x / step
        level = torch.round(torch.clamp(scaled, ctx.low, ctx.high))
        inside = (scaled >= ctx.low) & (scaled <= ctx.high)
        grad_x = grad_output * inside
        grad_step = (grad_output * (level - scaled) * inside).sum()
        return grad_x, grad_step, None, None


# %% fake-quantize_2
"""Only the first factor of the product step * round(clamp(x / step)) is differentiated. The second factor also depends on the step: its derivative, -x / step**2 inside the range, times step gives the missing term -x / step."""
WRONG = ["grad_s = (grad_output * output / s).sum()"]
RIGHT = ["grad_s = (grad_output * (output / s - passes * x / s)).sum()"]
NAME = "FakeQuantize"
EXERCISE = "fake-quantize"
# --- code
import torch
from torch.autograd import Function


class FakeQuantize(Function):
    @staticmethod
    def forward(x, s, low, high):
        return s * (x / s).clamp(low, high).round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, s, ctx.low, ctx.high = inputs
        ctx.save_for_backward(x, s, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, s, output = ctx.saved_tensors
        passes = (x / s >= ctx.low) & (x / s <= ctx.high)
        grad_s = (grad_output * output / s).sum()
        return grad_output * passes, grad_s, None, None


# %% binary-digits_1
"""The last layer is an ordinary linear layer with real-valued weights, as in many published binary nets that keep the last layer in full precision. The exercise demands weights of -1 and +1 in every matrix product of the forward pass."""
WRONG = ["torch.nn.Linear(256, 10, bias=False),"]
RIGHT = ["BinaryLinear(256, 10),"]
NAME = "train_binary_net"
EXERCISE = "binary-digits"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class ClippedSignSTE(Function):
    @staticmethod
    def forward(x):
        return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * ((x >= -1) & (x <= 1))


class BinaryLinear(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(outputs, inputs).uniform_(-0.1, 0.1))

    def forward(self, x):
        return F.linear(x, ClippedSignSTE.apply(self.weight))


def train_binary_net(images, labels):
    net = torch.nn.Sequential(
        BinaryLinear(64, 256),
        torch.nn.BatchNorm1d(256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 10, bias=False),
        torch.nn.BatchNorm1d(10),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(25):
        for rows in torch.randperm(len(images)).split(100):
            loss = F.cross_entropy(net(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net


# %% cube-twice_1
"""The slope is computed from the output as 3y/x. For x = 0 this is 0/0, so the gradient is nan instead of 0; backward should read only x, where 3x² is defined everywhere."""
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
"""backward multiplies grad_output in place, but this tensor does not belong to the Function: autograd may pass the same tensor to other branches, or an expanded tensor that cannot be written to. The values may look right, but other gradients change, or backward raises an error."""
WRONG = ["return grad_output.mul_(y)"]
RIGHT = ["return grad_output * y"]
NAME = "Exp"
EXERCISE = "exp-twice"
# --- code
import torch
from torch.autograd import Function


class Exp(Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output.mul_(y)


# %% sinh-by-output_1
"""The identity is the one of sine and cosine, cos² = 1 - sin². For the hyperbolic functions, cosh² - sinh² = 1, so cosh x = sqrt(1 + y²). With the minus sign, the gradient is too small, and nan where |y| > 1."""
WRONG = ["cosh = torch.sqrt(1 - y**2)"]
RIGHT = ["cosh = torch.sqrt(1 + y**2)"]
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
        cosh = torch.sqrt(1 - y**2)
        return grad_output * cosh


# %% logsumexp-hessian_1
"""output.unsqueeze(-1) in setup_context is a new tensor, neither an input nor an output, so autograd treats the saved log-sum-exp as a constant. The first derivative is right, but the term -p_i p_j is missing from the Hessian. Save the output itself and unsqueeze it in backward."""
WRONG = ["ctx.save_for_backward(x, output.unsqueeze(-1))", "p = torch.exp(x - y)"]
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
        ctx.save_for_backward(x, output.unsqueeze(-1))

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        p = torch.exp(x - y)
        return p * grad_output.unsqueeze(-1)


# %% hessian-vector-product_1
"""Each gradient is differentiated only with respect to its own input, so the result contains only the diagonal blocks of the Hessian. The mixed terms, the sum over l != k, are missing; the products of all gradients with their vectors must be added up before the second pass."""
WRONG = ["return tuple(torch.autograd.grad(g, x, v, retain_graph=True, materialize_grads=True)[0] if g.requires_grad else torch.zeros_like(x) for g, x, v in zip(grads, leaves, vectors))"]
RIGHT = ["dot = sum((g * v).sum() for g, v in zip(grads, vectors))\nreturn torch.autograd.grad(dot, leaves, materialize_grads=True)"]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def hvp(f, inputs, vectors):
    leaves = tuple(x.detach().clone().requires_grad_() for x in inputs)
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True, materialize_grads=True)
    return tuple(torch.autograd.grad(g, x, v, retain_graph=True, materialize_grads=True)[0] if g.requires_grad else torch.zeros_like(x) for g, x, v in zip(grads, leaves, vectors))


# %% gradient-penalty_1
"""The mean over the scores divides the gradient of each sample by N, so every norm is compared with 1 after it was divided by the batch size. The sum of the scores gives the gradient of each sample."""
WRONG = ["(grad,) = torch.autograd.grad(critic(x).mean(), x, create_graph=True)"]
RIGHT = ["(grad,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    x = x.detach().clone().requires_grad_()
    (grad,) = torch.autograd.grad(critic(x).mean(), x, create_graph=True)
    norms = torch.linalg.vector_norm(grad.flatten(1), dim=1)
    return ((norms - 1) ** 2).mean()


# %% repair-hessian_1
"""Only the subtraction of the one-hot moved to backward. The softmax is still an intermediate of forward, which autograd treats as a constant, so the Hessian is still zero. Save the logits, which are an input, and compute the softmax in backward."""
WRONG = ["ctx.save_for_backward(torch.softmax(logits, -1), target)", "probabilities, target = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(logits, target)", "logits, target = ctx.saved_tensors\nprobabilities = torch.softmax(logits, -1)"]
NAME = "CrossEntropy"
EXERCISE = "repair-hessian"
# --- code
import torch
from torch.autograd import Function


class CrossEntropy(Function):
    @staticmethod
    def forward(ctx, logits, target):
        picked = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        ctx.save_for_backward(torch.softmax(logits, -1), target)
        return torch.logsumexp(logits, -1) - picked

    @staticmethod
    def backward(ctx, grad_output):
        probabilities, target = ctx.saved_tensors
        onehot = torch.nn.functional.one_hot(target, probabilities.shape[-1])
        slope = probabilities - onehot
        return slope * grad_output.unsqueeze(-1), None


# %% elu-by-output_1
"""On the negative side, the slope is alpha * e^x, which is y + alpha, because y = alpha * e^x - alpha. The constant 1 is right only if alpha is 1."""
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
"""Where a and b are equal, the saved sign is 0, so neither side > 0 nor side < 0 holds, and the gradient is lost. One of the two inputs must get it."""
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
        return torch.maximum(a, b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b = inputs
        ctx.save_for_backward(torch.sign(a - b).to(torch.int8))

    @staticmethod
    def backward(ctx, grad_output):
        (side,) = ctx.saved_tensors
        return grad_output * (side > 0), grad_output * (side < 0)


# %% swiglu_1
"""The derivative of a * sigmoid(a) is s + a * s * (1 - s), because the sigmoid's derivative is s * (1 - s). Here the factor s is missing from the second term."""
WRONG = ["grad_a = grad_output * b * (s + a * (1 - s))"]
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
        grad_a = grad_output * b * (s + a * (1 - s))
        grad_b = grad_output * a * s
        return grad_a, grad_b


# %% fused-linear-relu_1
"""The mask is computed from the output of the ReLU, which is never negative, so y >= 0 is always True and nothing is masked. A unit that the ReLU has cut off has the output 0, so the mask must be y > 0."""
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
        return (x @ weight.mT + bias).clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, y = ctx.saved_tensors
        grad = grad_output * (y >= 0)
        return grad @ weight, grad.mT @ x, grad.sum(0)


# %% packed-leaky-relu_1
"""Two mistakes that cost memory: sum() promotes uint8 to int64, so each packed number takes eight bytes instead of one; and the padding is 8 instead of 0 if the number of elements is a multiple of 8, so there is one packed number too many."""
WRONG = ["padding = 8 - bits.numel() % 8", "packed = (bits.view(-1, 8) * powers).sum(1)"]
RIGHT = ["padding = -bits.numel() % 8", "packed = (bits.view(-1, 8) * powers).sum(1, dtype=torch.uint8)"]
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
        padding = 8 - bits.numel() % 8
        bits = F.pad(bits, (0, padding))
        powers = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=x.device)
        packed = (bits.view(-1, 8) * powers).sum(1)
        ctx.save_for_backward(packed)
        ctx.slope = slope
        return torch.where(mask, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        powers = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=packed.device)
        bits = (packed.unsqueeze(1) & powers) != 0
        mask = bits.flatten()[: grad_output.numel()].view(grad_output.shape)
        return torch.where(mask, grad_output, ctx.slope * grad_output), None


# %% checkpointed-block_1
"""backward of the second run writes the gradients of the parameters directly into their .grad, and the Function returns None for them. So loss.backward() works, but torch.autograd.grad gets no gradients for the parameters and changes .grad as a side effect. The gradients must be computed with torch.autograd.grad and returned."""
WRONG = ["y.backward(grad_output)", "return None, x.grad, *(None for _ in ctx.block.parameters())"]
RIGHT = ["tensors = (x, *ctx.block.parameters())\nwanted = [t for t in tensors if t.requires_grad]\ngrads = iter(torch.autograd.grad(y, wanted, grad_output, allow_unused=True))", "return None, *(next(grads) if t.requires_grad else None for t in tensors)"]
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
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.state)
        with torch.enable_grad():
            y = ctx.block(x)
        torch.set_rng_state(now)
        y.backward(grad_output)
        return None, x.grad, *(None for _ in ctx.block.parameters())


# %% invertible-coupling_1
"""y1 is also an input of the second line of forward, so its whole gradient is grad_y1 plus what comes back through tanh(y1 v). x1 gets this sum, but the path through tanh(x2 w) uses only grad_y1, so the gradients of x2 and w miss a term."""
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
        _, _, w, v = inputs
        y1, y2 = output
        ctx.save_for_backward(y1, y2, w, v)

    @staticmethod
    def backward(ctx, grad_y1, grad_y2):
        y1, y2, w, v = ctx.saved_tensors
        t2 = torch.tanh(y1 @ v)
        x2 = y2 - t2
        t1 = torch.tanh(x2 @ w)
        d2 = grad_y2 * (1 - t2**2)
        grad_v = y1.mT @ d2
        grad_x1 = grad_y1 + d2 @ v.mT
        d1 = grad_y1 * (1 - t1**2)
        grad_w = x2.mT @ d1
        grad_x2 = grad_y2 + d1 @ w.mT
        return grad_x1, grad_x2, grad_w, grad_v


# %% chunked-row-losses_1
"""The softmax is already multiplied by grad_output when the one-hot is subtracted, so the 1 must be multiplied by it as well. As it stands, the one-hot part of the gradient has weight 1 in each row, whatever grad_output is."""
WRONG = ["d[torch.arange(len(t)), t] -= 1"]
RIGHT = ["d[torch.arange(len(t)), t] -= grad_output[rows]"]
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
            z = x[rows] @ weight.mT
            lse[rows] = torch.logsumexp(z, 1)
            losses[rows] = lse[rows] - z.gather(1, target[rows, None])[:, 0]
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
            d = torch.exp(x[rows] @ weight.mT - lse[rows, None]) * grad_output[rows, None]
            d[torch.arange(len(t)), t] -= 1
            grad_x[rows] = d @ weight
            grad_weight += d.mT @ x[rows]
        return grad_x, grad_weight, None, None


# %% masked-softmax_1
"""The maximum also covers the masked scores. If a masked score is much larger than the visible ones, all visible exponentials underflow to 0, and the row is treated as fully masked. The maximum must be taken over the visible scores only."""
WRONG = ["top = s.amax(-1, keepdim=True)"]
RIGHT = ["top = s.masked_fill(~mask, torch.finfo(s.dtype).min).amax(-1, keepdim=True)"]
NAME = "MaskedSoftmax"
EXERCISE = "masked-softmax"
# --- code
import torch
from torch.autograd import Function


class MaskedSoftmax(Function):
    @staticmethod
    def forward(s, mask):
        top = s.amax(-1, keepdim=True)
        e = torch.exp(s - top).masked_fill(~mask, 0)
        total = e.sum(-1, keepdim=True)
        return e / total.masked_fill(total == 0, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (p,) = ctx.saved_tensors
        return p * (grad_output - (p * grad_output).sum(-1, keepdim=True)), None


# %% attention-forward_1
"""The floating-point mask is added before the scaling, so it is divided by the square root of E too. The formula scales only the scores; the mistake shows for finite mask values, not for 0 and -inf."""
WRONG = ["s = (q @ k.mT + mask) * scale"]
RIGHT = ["s = q @ k.mT * scale + mask"]
NAME = "attend"
EXERCISE = "attention-forward"
# --- code
import math

import torch


def attend(q, k, v, mask=None):
    scale = 1 / math.sqrt(q.shape[-1])
    if mask is None:
        s = q @ k.mT * scale
    elif mask.dtype == torch.bool:
        s = (q @ k.mT * scale).masked_fill(~mask, -math.inf)
    else:
        s = (q @ k.mT + mask) * scale
    top = s.amax(-1, keepdim=True)
    top = top.masked_fill(top == -math.inf, 0)
    e = torch.exp(s - top)
    total = e.sum(-1, keepdim=True)
    return e @ v / total.masked_fill(total == 0, 1)


# %% attention-backward_1
"""The scale 1/sqrt(E) belongs to both factors of the product Q K^T. The gradient of q contains it, but the gradient of k does not, so it is too large by sqrt(E)."""
WRONG = ["grad_k = grad_s.mT @ q"]
RIGHT = ["grad_k = grad_s.mT @ q * ctx.scale"]
NAME = "Attention"
EXERCISE = "attention-backward"
# --- code
import torch
from torch.autograd import Function


class Attention(Function):
    @staticmethod
    def forward(ctx, q, k, v, mask=None):
        ctx.scale = q.shape[-1] ** -0.5
        s = (q @ k.mT) * ctx.scale
        if mask is not None:
            s = s.masked_fill(~mask, float("-inf"))
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
        grad_s = p * (grad_p - (grad_p * p).sum(-1, keepdim=True))
        grad_q = grad_s @ k * ctx.scale
        grad_k = grad_s.mT @ q
        return grad_q, grad_k, grad_v, None


# %% attention-budget_1
"""A query that sees no key has L = -inf, and its scores are -inf too, so S - L is nan in backward, and the nan spreads to the gradients of all keys and values. forward treats this row separately, but backward does not."""
WRONG = ["p = torch.exp(s - lse)"]
RIGHT = ["p = torch.exp(s - lse.masked_fill(lse == -math.inf, 0))"]
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
        out = torch.nan_to_num(torch.softmax(s, -1)) @ v
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, mask, out, lse = ctx.saved_tensors
        s = scores(q, k, mask)
        p = torch.exp(s - lse)
        delta = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ v.mT - delta) / math.sqrt(q.shape[-1])
        return grad_s @ k, grad_s.mT @ q, p.mT @ grad_output, None


# %% merge-halves_1
"""The maximum is taken over the whole tensors instead of for each query. A query whose log-sum-exps are far below the largest one in the batch gets weights that underflow to 0, so its output becomes 0 and its log-sum-exp -inf. Each query needs its own maximum."""
WRONG = ["top = torch.maximum(lse_a.max(), lse_b.max())"]
RIGHT = ["top = torch.maximum(lse_a, lse_b)"]
NAME = "merge"
EXERCISE = "merge-halves"
# --- code
import math

import torch


def merge(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a.max(), lse_b.max())
    top = top.masked_fill(top == -math.inf, 0)
    weight_a = torch.exp(lse_a - top)
    weight_b = torch.exp(lse_b - top)
    total = weight_a + weight_b
    out = (weight_a * out_a + weight_b * out_b) / total.masked_fill(total == 0, 1)
    return out, top + torch.log(total)


# %% attention-twice_1
"""The gradient of the log-sum-exp is outside the parentheses, so it is not multiplied by P. Since dL_i/dS_ij = P_ij, its contribution to dS is P times grad_lse."""
WRONG = ["grad_s = p * (grad_p - delta) + grad_lse.unsqueeze(-1)"]
RIGHT = ["grad_s = p * (grad_p - delta + grad_lse.unsqueeze(-1))"]
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
        return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        q, k, v, out, lse = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ k.mT * scale - lse.unsqueeze(-1))
        grad_p = grad_out @ v.mT
        delta = (grad_out * out).sum(-1, keepdim=True)
        grad_s = p * (grad_p - delta) + grad_lse.unsqueeze(-1)
        grad_s = grad_s * scale
        return grad_s @ k, grad_s.mT @ q, p.mT @ grad_out


# %% attention-grouped_1
"""repeat_interleave puts the query heads of one group next to each other, so the heads must be unflattened to (G, H/G) and summed over the second of these dimensions. Here they are unflattened to (H/G, G) and summed over the first, which adds up heads of different groups."""
WRONG = ["return grad.unflatten(-3, (-1, groups)).sum(-4)"]
RIGHT = ["return grad.unflatten(-3, (groups, -1)).sum(-3)"]
NAME = "GroupedAttention"
EXERCISE = "attention-grouped"
# --- code
import math

import torch
from torch.autograd import Function


def spread(t, heads):
    return t.repeat_interleave(heads // t.shape[-3], dim=-3)


def collect(grad, groups):
    return grad.unflatten(-3, (-1, groups)).sum(-4)


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
        k_all, v_all = spread(k, heads), spread(v, heads)
        scale = 1 / math.sqrt(q.shape[-1])
        p = torch.exp(q @ k_all.mT * scale - lse)
        delta = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ v_all.mT - delta) * scale
        grad_k = collect(grad_s.mT @ q, groups)
        grad_v = collect(p.mT @ grad_output, groups)
        return grad_s @ k_all, grad_k, grad_v
