"""Mistakes of learners in lessons 05 and 06; see benchmarks/repairs.py."""

# %% sign-ste_1
"""torch.where with two Python numbers returns the default dtype (float32), not the dtype of x. So a float64 or float16 input gives a float32 output."""
WRONG = ["return torch.where(x >= 0, 1.0, -1.0)"]
RIGHT = ["return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)"]
NAME = "SignSTE"
EXERCISE = "sign-ste"
# --- code
import torch
from torch.autograd import Function


class SignSTE(Function):
    @staticmethod
    def forward(x):
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output

# %% sign-ste_2
"""The comparison is strict, so an input of exactly 0 (and -0) becomes -1. The formula puts 0 on the side of +1."""
WRONG = ["positive = (x > 0).to(x.dtype)"]
RIGHT = ["positive = (x >= 0).to(x.dtype)"]
NAME = "SignSTE"
EXERCISE = "sign-ste"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class SignSTE(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        positive = (x > 0).to(x.dtype)
        return 2 * positive - 1

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output.clone()

# %% clipped-sign_1
"""The gradient itself is clamped to [-1, 1]. The surrogate clips x, so its derivative is a 0/1 mask that depends on x, and grad_output must be multiplied by that mask whatever its size."""
WRONG = ["return grad_output.clamp(-1, 1)"]
RIGHT = ["return grad_output * (x.abs() <= 1)"]
NAME = "ClippedSignSTE"
EXERCISE = "clipped-sign"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class ClippedSignSTE(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output.clamp(-1, 1)

# %% clipped-sign_2
"""The output is saved instead of the input. Every output is -1 or +1 and so always inside the interval, so the mask is 1 everywhere and the gradient also passes where |x| > 1."""
WRONG = ["ctx.save_for_backward(output)"]
RIGHT = ["ctx.save_for_backward(inputs[0])"]
NAME = "ClippedSignSTE"
EXERCISE = "clipped-sign"
# --- code
import torch
from torch.autograd import Function


class ClippedSignSTE(Function):
    @staticmethod
    def forward(x):
        one = torch.ones_like(x)
        return torch.where(x >= 0, one, -one)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        inside = (x >= -1) & (x <= 1)
        return grad_output * inside.to(grad_output.dtype)

# %% ternary-ste_1
"""The inner derivative of x - t with respect to t is -1, but the first clip enters the gradient of the threshold with a plus sign, as it does for x. So both terms are added where the first one must be subtracted."""
WRONG = ["grad_t = (grad_output * 0.5 * (upper + lower)).sum()"]
RIGHT = ["grad_t = (grad_output * 0.5 * (lower - upper)).sum()"]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x: Tensor, threshold: Tensor) -> Tensor:
        return (x >= threshold).to(x.dtype) - (x < -threshold).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, threshold = inputs
        ctx.save_for_backward(x, threshold)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, t = ctx.saved_tensors
        upper = ((x - t).abs() <= 1).to(x.dtype)
        lower = ((x + t).abs() <= 1).to(x.dtype)
        grad_x = grad_output * 0.5 * (upper + lower)
        grad_t = (grad_output * 0.5 * (upper + lower)).sum()
        return grad_x, grad_t

# %% ternary-ste_2
"""The two masks are joined with a logical or, so the gradient of x is 1 wherever at least one clip is active. Each clip contributes one half, so where only one of them passes the slope must be 0.5."""
WRONG = ["grad_x = grad_output * (first | second)"]
RIGHT = ["grad_x = grad_output * 0.5 * (first.to(x.dtype) + second.to(x.dtype))"]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x, threshold):
        y = torch.zeros_like(x)
        y[x >= threshold] = 1
        y[x < -threshold] = -1
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, threshold = ctx.saved_tensors
        first = (x - threshold >= -1) & (x - threshold <= 1)
        second = (x + threshold >= -1) & (x + threshold <= 1)
        grad_x = grad_output * (first | second)
        grad_threshold = 0.5 * grad_output * (second.to(x.dtype) - first.to(x.dtype))
        return grad_x, grad_threshold.sum()

# %% ternary-ste_3
"""torch.sign returns 0 at 0, but the sign of exercise 1 returns +1 there. So at the jumps x = t and x = -t, forward returns 0.5 instead of 1 and -0.5 instead of 0."""
WRONG = ["return 0.5 * torch.sign(x - threshold) + 0.5 * torch.sign(x + threshold)"]
RIGHT = ["return 0.5 * torch.where(x >= threshold, 1.0, -1.0).to(x.dtype) + 0.5 * torch.where(x >= -threshold, 1.0, -1.0).to(x.dtype)"]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x: Tensor, threshold: Tensor) -> Tensor:
        return 0.5 * torch.sign(x - threshold) + 0.5 * torch.sign(x + threshold)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, threshold = inputs
        ctx.save_for_backward(x, threshold)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, threshold = ctx.saved_tensors
        a = 0.5 * grad_output * ((x - threshold).abs() <= 1)
        b = 0.5 * grad_output * ((x + threshold).abs() <= 1)
        return a + b, (b - a).sum()

# %% round-ste_1
"""Only the inner derivative 1/step is applied. The outer factor step of step * (x / step) cancels it: the surrogate is simply x, and its gradient is grad_output."""
WRONG = ["return grad_output / ctx.step, None"]
RIGHT = ["return grad_output, None"]
NAME = "RoundSTE"
EXERCISE = "round-ste"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class RoundSTE(Function):
    @staticmethod
    def forward(x: Tensor, step: float) -> Tensor:
        return step * torch.round(x / step)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.step = inputs[1]

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output / ctx.step, None

# %% round-ste_2
"""floor(v + 0.5) rounds every half upwards. The exercise rounds a half to the even multiple, as torch.round does, so 0.5 * step must become 0 and not step."""
WRONG = ["return step * torch.floor(x / step + 0.5)"]
RIGHT = ["return step * torch.round(x / step)"]
NAME = "RoundSTE"
EXERCISE = "round-ste"
# --- code
import torch
from torch.autograd import Function


class RoundSTE(Function):
    @staticmethod
    def forward(x, step):
        return step * torch.floor(x / step + 0.5)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None

# %% fake-quantize_1
"""Only the first factor of the product s * q is differentiated for the gradient of s. The level q also depends on s through x / s, which adds the term -x / s where the clamp is not active."""
WRONG = ["grad_step = (grad_output * q).sum()"]
RIGHT = ["grad_step = (grad_output * (q - inside * v)).sum()"]
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
        x, step, low, high = inputs
        ctx.save_for_backward(x, step)
        ctx.low = low
        ctx.high = high

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, step = ctx.saved_tensors
        v = x / step
        q = torch.round(torch.clamp(v, ctx.low, ctx.high))
        inside = ((v >= ctx.low) & (v <= ctx.high)).to(x.dtype)
        grad_x = grad_output * inside
        grad_step = (grad_output * q).sum()
        return grad_x, grad_step, None, None

# %% fake-quantize_2
"""The mask of the clamp is applied to the whole gradient of s. It only belongs to the derivative of the clamp: where x / s is outside the bounds, y is s * low or s * high, which still has the derivative low or high with respect to s."""
WRONG = ["grad_step = grad_output * inside * (q - v)"]
RIGHT = ["grad_step = grad_output * (q - inside * v)"]
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
        v = x / step
        q = v.clamp(ctx.low, ctx.high).round()
        inside = (v >= ctx.low) & (v <= ctx.high)
        grad_step = grad_output * inside * (q - v)
        return grad_output * inside, grad_step.sum(), None, None

# %% fake-quantize_3
"""The mask compares the rounded level with the bounds, so the rounding comes before the clamp. A value like x / s = 3.3 rounds to 3 and counts as inside, although the clamp changes it and no gradient may pass."""
WRONG = ["inside = (level >= ctx.low) & (level <= ctx.high)"]
RIGHT = ["inside = (ratio >= ctx.low) & (ratio <= ctx.high)"]
NAME = "FakeQuantize"
EXERCISE = "fake-quantize"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class FakeQuantize(Function):
    @staticmethod
    def forward(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
        return torch.round(torch.clamp(x / step, low, high)) * step

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, step, low, high = inputs
        ctx.save_for_backward(x, step)
        ctx.low, ctx.high = low, high

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, step = ctx.saved_tensors
        ratio = x / step
        level = torch.round(ratio)
        inside = (level >= ctx.low) & (level <= ctx.high)
        slope = torch.where(inside, level - ratio, level.clamp(ctx.low, ctx.high))
        return grad_output * inside, (grad_output * slope).sum(), None, None

# %% binary-digits_1
"""The last layer is an ordinary nn.Linear, so the product that computes the scores uses real-valued weights. Every matrix product of the net may use only weights of -1 and +1."""
WRONG = ["torch.nn.Linear(256, 10),"]
RIGHT = ["BinaryLinear(256, 10),\ntorch.nn.BatchNorm1d(10),"]
NAME = "train_binary_net"
EXERCISE = "binary-digits"
# --- code
import torch
from torch.autograd import Function
from torch.nn.functional import cross_entropy, linear


class ClippedSignSTE(Function):
    @staticmethod
    def forward(x):
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (x.abs() <= 1)


class BinaryLinear(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(outputs, inputs).uniform_(-0.1, 0.1))

    def forward(self, x):
        return linear(x, ClippedSignSTE.apply(self.weight))


def train_binary_net(images, labels):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        BinaryLinear(64, 256),
        torch.nn.BatchNorm1d(256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(20):
        order = torch.randperm(len(labels))
        for batch in order.split(64):
            loss = cross_entropy(net(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net

# %% cube-twice_1
"""The square is computed in setup_context, where nothing is recorded, so the saved tensor is a constant for the second derivative. The path through x is missing, and backward must compute the square from the saved input."""
WRONG = ["ctx.save_for_backward(x**2)", "(square,) = ctx.saved_tensors", "return 3 * square * grad_output"]
RIGHT = ["ctx.save_for_backward(x)", "(x,) = ctx.saved_tensors", "return 3 * x**2 * grad_output"]
NAME = "Cube"
EXERCISE = "cube-twice"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Cube(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        (x,) = inputs
        ctx.save_for_backward(x**2)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (square,) = ctx.saved_tensors
        return 3 * square * grad_output

# %% exp-twice_1
"""The input is saved and the exponential is computed a second time in backward. The derivatives are right, but the exercise asks to save nothing but the output, which already is the derivative."""
WRONG = ["ctx.save_for_backward(x)", "(x,) = ctx.saved_tensors", "return grad_output * torch.exp(x)"]
RIGHT = ["ctx.save_for_backward(output)", "(y,) = ctx.saved_tensors", "return grad_output * y"]
NAME = "Exp"
EXERCISE = "exp-twice"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Exp(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.exp(x)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * torch.exp(x)

# %% sinh-by-output_1
"""The identity has the wrong sign. It is cosh² - sinh² = 1, so cosh x = sqrt(1 + y²). With sqrt(1 - y²), as for the sine, the value is too small, and NaN where |y| > 1."""
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

# %% sinh-by-output_2
"""cosh is computed in setup_context and stored as an attribute of ctx. Nothing is recorded there, so it is a constant for the second derivative. The output must be saved with save_for_backward, and cosh computed from it in backward."""
WRONG = ["ctx.cosh = torch.sqrt(1 + output * output)", "return grad_output * ctx.cosh"]
RIGHT = ["ctx.save_for_backward(output)", "(y,) = ctx.saved_tensors\nreturn grad_output * torch.sqrt(1 + y * y)"]
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
        ctx.cosh = torch.sqrt(1 + output * output)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.cosh

# %% logsumexp-hessian_1
"""output.unsqueeze(-1) is a new tensor that is made in setup_context, where nothing is recorded, so it is a constant and not the output. The second derivative misses the path through y: the Hessian is p_i δ_ij without the term -p_i p_j."""
WRONG = ["ctx.save_for_backward(x, output.unsqueeze(-1))", "p = torch.exp(x - y)"]
RIGHT = ["ctx.save_for_backward(x, output)", "p = torch.exp(x - y.unsqueeze(-1))"]
NAME = "LogSumExp"
EXERCISE = "logsumexp-hessian"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.logsumexp(x, -1)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        (x,) = inputs
        ctx.save_for_backward(x, output.unsqueeze(-1))

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        p = torch.exp(x - y)
        return grad_output.unsqueeze(-1) * p

# %% logsumexp-hessian_2
"""grad_output has one dimension fewer than x, and without unsqueeze(-1) it is broadcast along the wrong dimension. The product fails for most shapes, and gives a wrong gradient where the number of rows equals the number of columns."""
WRONG = ["return grad_output * torch.softmax(x, dim=-1)"]
RIGHT = ["return grad_output.unsqueeze(-1) * torch.softmax(x, dim=-1)"]
NAME = "LogSumExp"
EXERCISE = "logsumexp-hessian"
# --- code
import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x):
        return torch.logsumexp(x, dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.softmax(x, dim=-1)

# %% hessian-vector-product_1
"""Each gradient is differentiated only with respect to its own input, so only the diagonal blocks of the Hessian contribute. The mixed derivatives, the terms with l different from k, are missing. The sum of all products must be differentiated with respect to all inputs."""
WRONG = ["for x, g, v in zip(leaves, grads, vectors):", "product = (g * v).sum()"]
RIGHT = ["for x in leaves:", "product = sum((g * v).sum() for g, v in zip(grads, vectors))"]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def hvp(f, inputs, vectors):
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True, materialize_grads=True)
    result = []
    for x, g, v in zip(leaves, grads, vectors):
        product = (g * v).sum()
        if product.requires_grad:
            (h,) = torch.autograd.grad(product, x, retain_graph=True, materialize_grads=True)
        else:
            h = torch.zeros_like(x)
        result.append(h)
    return tuple(result)

# %% hessian-vector-product_2
"""With allow_unused=True, autograd returns None for an input that the gradient does not depend on. If f is linear in this input, its part of the product must be a tensor of zeros, as materialize_grads=True returns it."""
WRONG = ["return torch.autograd.grad(dot, leaves, allow_unused=True)"]
RIGHT = ["return torch.autograd.grad(dot, leaves, materialize_grads=True)"]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch
from torch import Tensor


def hvp(f, inputs: tuple[Tensor, ...], vectors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    leaves = tuple(x.detach().clone().requires_grad_() for x in inputs)
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True, materialize_grads=True)
    dot = sum((g * v).sum() for g, v in zip(grads, vectors))
    if not dot.requires_grad:
        return tuple(torch.zeros_like(x) for x in leaves)
    return torch.autograd.grad(dot, leaves, allow_unused=True)

# %% gradient-penalty_1
"""The norm is taken over dimension 1 only. For samples with several dimensions, such as images, this gives one norm for each remaining position instead of one norm for each sample over all its dimensions."""
WRONG = ["norms = gradient.norm(2, dim=1)"]
RIGHT = ["norms = gradient.reshape(len(x), -1).norm(2, dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch
from torch import Tensor


def gradient_penalty(critic, x: Tensor) -> Tensor:
    x = x.detach().clone().requires_grad_()
    scores = critic(x)
    (gradient,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
    norms = gradient.norm(2, dim=1)
    return ((norms - 1) ** 2).mean()

# %% gradient-penalty_2
"""The derivative of the square root is infinite at 0. Where the critic is flat, the sum of squares is 0, and infinity times 0 gives NaN in the gradient of the parameters. torch.linalg.vector_norm has the derivative 0 there."""
WRONG = ["norm = g.square().sum(dim=1).sqrt()"]
RIGHT = ["norm = torch.linalg.vector_norm(g, dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    leaf = x.detach().clone().requires_grad_(True)
    out = critic(leaf)
    g = torch.autograd.grad(out, leaf, torch.ones_like(out), create_graph=True)[0]
    g = g.reshape(g.shape[0], -1)
    norm = g.square().sum(dim=1).sqrt()
    return (norm - 1).square().mean()

# %% gradient-penalty_3
"""retain_graph=True only keeps the graph of the critic. It does not record the backward pass, so the gradient is a constant and the penalty cannot be differentiated with respect to the parameters. This needs create_graph=True."""
WRONG = ["(grad,) = torch.autograd.grad(critic(samples).sum(), samples, retain_graph=True)"]
RIGHT = ["(grad,) = torch.autograd.grad(critic(samples).sum(), samples, create_graph=True)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch
from torch import Tensor


def gradient_penalty(critic, x: Tensor) -> Tensor:
    samples = x.detach().clone().requires_grad_()
    (grad,) = torch.autograd.grad(critic(samples).sum(), samples, retain_graph=True)
    norm = grad.reshape(len(x), -1).norm(dim=1)
    return torch.mean((norm - 1) ** 2)

# %% repair-hessian_1
"""The softmax is still computed in forward, where nothing is recorded. Saving it apart from the one-hot tensor changes nothing: it is a constant, and the Hessian is zero. The logits must be saved, and the softmax computed in backward."""
WRONG = ["ctx.save_for_backward(torch.softmax(logits, -1), onehot)", "p, onehot = ctx.saved_tensors", "return (p - onehot) * grad_output.unsqueeze(-1), None"]
RIGHT = ["ctx.save_for_backward(logits, onehot)", "logits, onehot = ctx.saved_tensors", "return (torch.softmax(logits, -1) - onehot) * grad_output.unsqueeze(-1), None"]
NAME = "CrossEntropy"
EXERCISE = "repair-hessian"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class CrossEntropy(Function):
    @staticmethod
    def forward(ctx, logits: Tensor, target: Tensor) -> Tensor:
        picked = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        onehot = torch.nn.functional.one_hot(target, logits.shape[-1])
        ctx.save_for_backward(torch.softmax(logits, -1), onehot)
        return torch.logsumexp(logits, -1) - picked

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        p, onehot = ctx.saved_tensors
        return (p - onehot) * grad_output.unsqueeze(-1), None

# %% repair-hessian_2
"""one_hot without the number of classes takes the largest class in target plus one. If the last class does not occur in target, the one-hot tensor has too few columns and does not fit the softmax."""
WRONG = ["onehot = torch.nn.functional.one_hot(target)"]
RIGHT = ["onehot = torch.nn.functional.one_hot(target, logits.shape[-1])"]
NAME = "CrossEntropy"
EXERCISE = "repair-hessian"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class CrossEntropy(Function):
    @staticmethod
    def forward(ctx, logits: Tensor, target: Tensor) -> Tensor:
        picked = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        ctx.save_for_backward(logits, target)
        return torch.logsumexp(logits, -1) - picked

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        logits, target = ctx.saved_tensors
        onehot = torch.nn.functional.one_hot(target)
        slope = torch.softmax(logits, -1) - onehot
        return slope * grad_output.unsqueeze(-1), None
