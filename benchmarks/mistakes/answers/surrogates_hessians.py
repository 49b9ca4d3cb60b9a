"""Mistakes in surrogates and in second derivatives. Each cell is a separate module; see benchmarks/repairs.py."""

# %% binary-digits_1
"""The last layer is an ordinary nn.Linear, so one matrix product uses real weights; the author followed the papers on binary nets, which keep the classifier in full precision."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["nn.Linear(HIDDEN, 10, bias=False),"]
RIGHT = ["BinaryLinear(HIDDEN, 10),"]
EXERCISE = "binary-digits"
NAME = "train_binary_net"
# --- code
import torch
from torch import nn

HIDDEN = 256


class ClippedSignSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() <= 1, grad_output, torch.zeros_like(grad_output))


class BinaryLinear(nn.Module):
    """y = x sign(W)^T, where W holds the latent weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-0.1, 0.1))

    def forward(self, x):
        return nn.functional.linear(x, ClippedSignSTE.apply(self.weight))


def train_binary_net(images, labels):
    torch.manual_seed(0)
    net = nn.Sequential(
        BinaryLinear(64, HIDDEN),
        nn.BatchNorm1d(HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, 10, bias=False),
        nn.BatchNorm1d(10),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    n = len(labels)
    net.train()
    for epoch in range(25):
        order = torch.randperm(n)
        for start in range(0, n - 63, 64):  # full batches only
            batch = order[start : start + 64]
            loss = nn.functional.cross_entropy(net(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net.eval()

# %% clipped-sign_1
"""The gradient is masked in place, in grad_output itself, which other branches of the graph may share; the author took grad_output for a buffer of backward's own and the new name for a copy."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_x = grad_output"]
RIGHT = ["grad_x = grad_output.clone()"]
EXERCISE = "clipped-sign"
NAME = "ClippedSignSTE"
# --- code
import torch


class ClippedSignSTE(torch.autograd.Function):
    @staticmethod
    def forward(x):
        one = torch.ones_like(x)
        return torch.where(x >= 0, one, -one)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        # The derivative of clamp(x, -1, 1): one inside (edges included), zero outside.
        grad_x = grad_output
        grad_x[x.abs() > 1] = 0
        return grad_x

# %% clipped-sign_2
"""Two edges are on the wrong side: zero is sent to -1, and the gradient stops at exactly -1 and 1; the author thought that single points do not matter."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = [
    "positive = x > 0",
    "inside = (x > -1) & (x < 1)",
]
RIGHT = [
    "positive = x >= 0",
    "inside = (x >= -1) & (x <= 1)",
]
EXERCISE = "clipped-sign"
NAME = "ClippedSignSTE"
# --- code
import torch


class ClippedSignSTE(torch.autograd.Function):
    """sign(x) on the way there, hardtanh(x) on the way back."""

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        positive = x > 0
        # bool -> {0, 1} -> {-1, +1}
        return positive.to(x.dtype) * 2 - 1

    @staticmethod
    def backward(ctx, grad_output: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        inside = (x > -1) & (x < 1)
        return grad_output * inside.to(grad_output.dtype)

# %% cube-twice_1
"""The whole slope 3x^2 is worked out in forward and saved, so a second derivative sees a constant; the author meant to spare backward the work and believed saved tensors keep their history."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = [
    "ctx.save_for_backward(3 * square)",
    "(slope,) = ctx.saved_tensors",
]
RIGHT = [
    "ctx.save_for_backward(x)",
    "slope = 3 * ctx.saved_tensors[0] ** 2",
]
EXERCISE = "cube-twice"
NAME = "Cube"
# --- code
import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(3 * square)
        return square * x

    @staticmethod
    def backward(ctx, grad_output):
        (slope,) = ctx.saved_tensors
        return grad_output * slope

# %% cube-twice_2
"""backward is decorated with once_differentiable, which forbids the second derivative; the author had seen it in other people's Functions and took it for the way to say that backward is differentiable."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["@once_differentiable"]
RIGHT = []
EXERCISE = "cube-twice"
NAME = "Cube"
# --- code
import torch
from torch.autograd.function import once_differentiable


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.pow(3)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x.pow(2) * grad_output

# %% exp-twice_1
"""The output is kept as an attribute of ctx, which makes a reference cycle and skips the check for in-place changes; the author thought save_for_backward is only needed for inputs."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = [
    "ctx.y = output",
    "y = ctx.y",
]
RIGHT = [
    "ctx.save_for_backward(output)",
    "(y,) = ctx.saved_tensors",
]
EXERCISE = "exp-twice"
NAME = "Exp"
# --- code
import torch


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        # the output itself, not a copy: autograd has to recognize it
        ctx.y = output

    @staticmethod
    def backward(ctx, grad_output):
        y = ctx.y
        return grad_output * y

# %% fake-quantize_1
"""The gradient of the step has only the first term of the product rule; the author believed the rounded level does not depend on the step, since rounding is piecewise constant."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["dy_dstep = level"]
RIGHT = ["dy_dstep = level - inside * ratio"]
EXERCISE = "fake-quantize"
NAME = "FakeQuantize"
# --- code
import torch


class FakeQuantize(torch.autograd.Function):
    @staticmethod
    def forward(x, step, low, high):
        return step * torch.round(torch.clamp(x / step, low, high))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, low, high = inputs
        ctx.save_for_backward(x, step)
        ctx.low, ctx.high = low, high

    @staticmethod
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        ratio = x / step
        inside = ((ratio >= ctx.low) & (ratio <= ctx.high)).to(x.dtype)
        level = ratio.clamp(ctx.low, ctx.high).round()

        # x only gets through where nothing was clamped
        grad_x = grad_output * inside

        # y = step * level, so the slope along step is the level
        dy_dstep = level
        grad_step = (grad_output * dy_dstep).sum().reshape(step.shape)
        return grad_x, grad_step, None, None

# %% fake-quantize_2
"""The mask is taken from the rounded ratio, so that 3.3 counts as within the bounds, and the step's gradient is averaged over x instead of summed; the author held the order of rounding and clamping, and the size of a scalar's gradient, for matters of taste."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = [
    "passes = (q >= ctx.low) & (q <= ctx.high)",
    "grad_step = (grad_output * slope).mean()",
]
RIGHT = [
    "passes = (v >= ctx.low) & (v <= ctx.high)",
    "grad_step = (grad_output * slope).sum()",
]
EXERCISE = "fake-quantize"
NAME = "FakeQuantize"
# --- code
import torch


class FakeQuantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor, step: torch.Tensor, low: int, high: int) -> torch.Tensor:
        ctx.save_for_backward(x, step)
        ctx.low = low
        ctx.high = high
        return torch.round(torch.clamp(x / step, low, high)) * step

    @staticmethod
    def backward(ctx, grad_output: torch.Tensor):
        x, step = ctx.saved_tensors
        v = x / step
        q = torch.round(v)
        passes = (q >= ctx.low) & (q <= ctx.high)
        zero = torch.zeros_like(x)

        grad_x = torch.where(passes, grad_output, zero)
        # d(s * q)/ds = q + s * dq/ds, and dq/ds = -x / s^2 where the clamp lets it pass
        slope = q.clamp(ctx.low, ctx.high) - torch.where(passes, v, zero)
        grad_step = (grad_output * slope).mean()
        return grad_x, grad_step, None, None

# %% gradient-penalty_1
"""The norm is taken over axis 1 only, which for images is one norm per pixel over the channels; the author had rows of features in mind."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["norms = grad_x.norm(2, dim=1)"]
RIGHT = ["norms = grad_x.flatten(1).norm(2, dim=1)"]
EXERCISE = "gradient-penalty"
NAME = "gradient_penalty"
# --- code
import torch


def gradient_penalty(critic, x: torch.Tensor) -> torch.Tensor:
    x = x.detach().clone().requires_grad_(True)
    scores = critic(x)
    (grad_x,) = torch.autograd.grad(
        outputs=scores,
        inputs=x,
        grad_outputs=torch.ones_like(scores),
        create_graph=True,
    )
    norms = grad_x.norm(2, dim=1)
    return ((norms - 1) ** 2).mean()

# %% gradient-penalty_2
"""The inner gradient is taken with retain_graph instead of create_graph, so the penalty does not depend on the critic's parameters any more; the author believed that keeping the graph is what makes a gradient differentiable."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["(g,) = torch.autograd.grad(critic(leaf).sum(), leaf, retain_graph=True)"]
RIGHT = ["(g,) = torch.autograd.grad(critic(leaf).sum(), leaf, create_graph=True)"]
EXERCISE = "gradient-penalty"
NAME = "gradient_penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    leaf = x.detach().requires_grad_()
    # the scores are independent of each other, so the gradient of their sum holds all of theirs;
    # the graph must survive, because the penalty is differentiated once more
    (g,) = torch.autograd.grad(critic(leaf).sum(), leaf, retain_graph=True)
    length = torch.linalg.vector_norm(g.reshape(len(g), -1), dim=1)
    return (length - 1).square().mean()

# %% gradient-penalty_3
"""The norm is a plain square root of the sum of squares, whose derivative at zero is infinite, so a flat critic gets NaN; the author believed it to be the same as norm() in its gradient as well."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return g.square().sum(dim=1).sqrt()"]
RIGHT = ["return g.norm(dim=1)"]
EXERCISE = "gradient-penalty"
NAME = "gradient_penalty"
# --- code
import torch


def row_norms(g):
    """Euclidean length of every sample, over all its axes."""
    g = g.flatten(start_dim=1)
    return g.square().sum(dim=1).sqrt()


def gradient_penalty(critic, x):
    samples = x.detach().clone()
    samples.requires_grad = True

    with torch.enable_grad():
        total = critic(samples).sum()
        slopes = torch.autograd.grad(total, samples, create_graph=True)[0]
        penalty = (row_norms(slopes) - 1).pow(2)

    return penalty.mean()

# %% gumbel-hard_1
"""Every entry equal to the maximum becomes 1, so a tie gives a row with two ones; the author believed that noisy floats never tie."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["hard = (scores == scores.amax(dim=-1, keepdim=True)).to(logits.dtype)"]
RIGHT = ["hard = torch.zeros_like(scores).scatter(-1, scores.argmax(dim=-1, keepdim=True), 1.0)"]
EXERCISE = "gumbel-hard"
NAME = "HardGumbelSoftmax"
# --- code
import torch


class HardGumbelSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, noise, temperature):
        scores = logits + noise
        ctx.save_for_backward(logits, noise)
        ctx.tau = temperature
        hard = (scores == scores.amax(dim=-1, keepdim=True)).to(logits.dtype)
        return hard

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise = ctx.saved_tensors
        # the soft sample is cheap, so work it out again
        soft = torch.softmax((logits + noise) / ctx.tau, dim=-1)
        g = soft * (grad_output - (soft * grad_output).sum(dim=-1, keepdim=True))
        return g / ctx.tau, None, None

# %% gumbel-hard_2
"""The hard sample is saved and put into the softmax's derivative, which makes every gradient zero; the author knew that softmax differentiates by its output and took the output of forward for it."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["ctx.save_for_backward(y)"]
RIGHT = ["ctx.save_for_backward(soft)"]
EXERCISE = "gumbel-hard"
NAME = "HardGumbelSoftmax"
# --- code
import torch


class HardGumbelSoftmax(torch.autograd.Function):
    """One-hot sample; its gradient is that of softmax((logits + noise) / temperature)."""

    @staticmethod
    def forward(ctx, logits: torch.Tensor, noise: torch.Tensor, temperature: float) -> torch.Tensor:
        perturbed = logits + noise
        soft = torch.softmax(perturbed / temperature, dim=-1)
        index = perturbed.argmax(dim=-1)
        y = torch.nn.functional.one_hot(index, soft.shape[-1]).to(soft.dtype)
        # softmax needs only its output for the backward pass
        ctx.save_for_backward(y)
        ctx.temperature = temperature
        return y

    @staticmethod
    def backward(ctx, grad_output: torch.Tensor):
        (sample,) = ctx.saved_tensors
        weighted = grad_output * sample
        grad_scores = weighted - sample * weighted.sum(dim=-1, keepdim=True)
        return grad_scores / ctx.temperature, None, None

# %% gumbel-soft_1
"""Only the noise is divided by the temperature, for want of parentheses; the author read the line as the fraction on the blackboard."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["y = torch.softmax(logits + noise / temperature, dim=-1)"]
RIGHT = ["y = torch.softmax((logits + noise) / temperature, dim=-1)"]
EXERCISE = "gumbel-soft"
NAME = "GumbelSoftmax"
# --- code
import torch


class GumbelSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, noise, temperature):
        y = torch.softmax(logits + noise / temperature, dim=-1)
        ctx.save_for_backward(y)
        ctx.temperature = temperature
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        # softmax: J^T g = y * (g - <g, y>), then the chain rule through 1 / tau
        inner = (grad_output * y).sum(dim=-1, keepdim=True)
        return y * (grad_output - inner) / ctx.temperature, None, None

# %% gumbel-soft_2
"""Backward takes only the diagonal y(1 - y) of the softmax's Jacobian; the author carried the sigmoid's derivative over and believed each output depends on its own logit alone."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return y * (1 - y) * grad_output"]
RIGHT = ["return y * (grad_output - (y * grad_output).sum(-1, keepdim=True))"]
EXERCISE = "gumbel-soft"
NAME = "GumbelSoftmax"
# --- code
import torch


def softmax_backward(y: torch.Tensor, grad_output: torch.Tensor) -> torch.Tensor:
    """Gradient of softmax with respect to its argument, from its output y."""
    return y * (1 - y) * grad_output


class GumbelSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(logits: torch.Tensor, noise: torch.Tensor, temperature: float) -> torch.Tensor:
        return torch.softmax((logits + noise) / temperature, dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, ctx.temperature = inputs
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: torch.Tensor):
        (y,) = ctx.saved_tensors
        grad_scores = softmax_backward(y, grad_output)
        return grad_scores / ctx.temperature, None, None

# %% hessian-vector-product_1
"""Each gradient is differentiated by its own input alone, which leaves out the mixed second derivatives; the author read the Hessian of several tensors as one Hessian per tensor."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = [
    "products = [directional(g, leaf, v) for g, leaf, v in zip(grads, leaves, vectors)]",
]
RIGHT = [
    "products = directional(sum((g * v).sum() for g, v in zip(grads, vectors)), leaves, None)",
]
EXERCISE = "hessian-vector-product"
NAME = "hvp"
# --- code
import torch


def directional(outputs, wrt, weights):
    """Second pass: differentiate outputs, weighted by weights, with respect to wrt."""
    if not outputs.requires_grad:  # nothing left to differentiate: the first gradient was constant
        many = isinstance(wrt, (tuple, list))
        return [torch.zeros_like(t) for t in wrt] if many else torch.zeros_like(wrt)
    result = torch.autograd.grad(
        outputs, wrt, grad_outputs=weights, retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return result if isinstance(wrt, (tuple, list)) else result[0]


def hvp(f, inputs, vectors):
    leaves = [t.detach().clone().requires_grad_(True) for t in inputs]
    value = f(*leaves)
    grads = torch.autograd.grad(
        value, leaves, create_graph=True, allow_unused=True, materialize_grads=True
    )
    # H v = derivative of the gradient in direction v
    products = [directional(g, leaf, v) for g, leaf, v in zip(grads, leaves, vectors)]
    return tuple(p.detach() for p in products)

# %% hessian-vector-product_2
"""requires_grad_ is called on the caller's own tensors, which require grad from then on; the author believed that it hands back a new leaf."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["leaves = tuple(x.requires_grad_() for x in inputs)"]
RIGHT = ["leaves = tuple(x.detach().clone().requires_grad_() for x in inputs)"]
EXERCISE = "hessian-vector-product"
NAME = "hvp"
# --- code
import torch


def hvp(f, inputs, vectors):
    # leaves of our own
    leaves = tuple(x.requires_grad_() for x in inputs)

    first = torch.autograd.grad(f(*leaves), leaves, create_graph=True, allow_unused=True)
    dot = sum((g * v).sum() for g, v in zip(first, vectors) if g is not None)
    if not torch.is_tensor(dot) or not dot.requires_grad:
        # f is linear in everything
        return tuple(torch.zeros_like(v) for v in vectors)

    second = torch.autograd.grad(dot, leaves, allow_unused=True)
    return tuple(torch.zeros_like(v) if h is None else h for h, v in zip(second, vectors))

# %% logsumexp-hessian_1
"""The saved y is the one with the kept axis, an intermediate and not the tensor that forward returns, so the Hessian loses its -p_i p_j; the author believed a squeezed view is the same tensor to autograd."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = [
    "y = torch.logsumexp(x, dim=-1, keepdim=True)",
    "return y.squeeze(-1)",
    "p = torch.exp(x - y)",
]
RIGHT = [
    "y = torch.logsumexp(x, dim=-1)",
    "return y",
    "p = torch.exp(x - y.unsqueeze(-1))",
]
EXERCISE = "logsumexp-hessian"
NAME = "LogSumExp"
# --- code
import torch


class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        # keep the axis here so that backward can broadcast
        y = torch.logsumexp(x, dim=-1, keepdim=True)
        ctx.save_for_backward(x, y)
        return y.squeeze(-1)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        p = torch.exp(x - y)
        return p * grad_output.unsqueeze(-1)

# %% logsumexp-hessian_2
"""forward spells the formula out and overflows for large x, and backward multiplies by grad_output without giving it back its last axis; the author copied the formula as printed and trusted broadcasting."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = [
    "return x.exp().sum(-1).log()",
    "return grad_output * p",
]
RIGHT = [
    "return torch.logsumexp(x, -1)",
    "return grad_output.unsqueeze(-1) * p",
]
EXERCISE = "logsumexp-hessian"
NAME = "LogSumExp"
# --- code
import torch


class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp().sum(-1).log()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        # built from x, so the graph of p is there for the second derivative
        p = x.softmax(-1)
        return grad_output * p

# %% repair-hessian_1
"""The softmax is stripped of its graph by .data before 1 is subtracted, so the Hessian is still zero; the author used .data to be allowed to write in place and believed it changes nothing else."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["slope = p.data"]
RIGHT = ["slope = p.clone()"]
EXERCISE = "repair-hessian"
NAME = "CrossEntropy"
# --- code
import torch


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        # save the inputs; the slope is built in backward, where autograd can follow it
        ctx.save_for_backward(logits, target)
        picked = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return torch.logsumexp(logits, -1) - picked

    @staticmethod
    def backward(ctx, grad_output: torch.Tensor):
        logits, target = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        # p - onehot(target), without building the one-hot matrix
        slope = p.data
        index = target.unsqueeze(-1)
        slope.scatter_add_(-1, index, -torch.ones_like(index, dtype=p.dtype))
        return slope * grad_output.unsqueeze(-1), None

# %% round-ste_1
"""Rounding as floor(v + 0.5) sends every half upward, not to the even multiple; the author believed that this is what round does."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["level = torch.floor(x / step + 0.5)"]
RIGHT = ["level = torch.round(x / step)"]
EXERCISE = "round-ste"
NAME = "RoundSTE"
# --- code
import torch


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(x, step):
        # index of the nearest grid point
        level = torch.floor(x / step + 0.5)
        return step * level

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass  # the surrogate is x itself, so there is nothing to remember

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None

# %% round-ste_2
"""The outer factor step is in the gradient, but the inner derivative 1/step of x/step, which cancels it, is forgotten; the author took the rounding and its argument together as 'one'."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["d_level = torch.ones_like(grad_output)  # round passes straight through"]
RIGHT = ["d_level = torch.ones_like(grad_output) / ctx.step  # round passes straight through"]
EXERCISE = "round-ste"
NAME = "RoundSTE"
# --- code
import torch


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor, step: float) -> torch.Tensor:
        ctx.step = step
        return torch.round(x / step) * step

    @staticmethod
    def backward(ctx, grad_output: torch.Tensor):
        # y = step * level, level = round(x / step)
        d_level = torch.ones_like(grad_output)  # round passes straight through
        grad_x = grad_output * ctx.step * d_level
        return grad_x, None  # no gradient for step, which is a float

# %% sign-ste_1
"""copysign takes the sign bit, so -0.0 becomes -1 instead of +1; the author believed that -0.0 == 0.0 made the two zeros the same here too."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return torch.copysign(torch.ones_like(x), x)"]
RIGHT = ["return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))"]
EXERCISE = "sign-ste"
NAME = "SignSTE"
# --- code
import torch


class SignSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        # torch.sign is 0 at 0; copysign never is, and it keeps the dtype of x
        return torch.copysign(torch.ones_like(x), x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output

# %% sinh-by-output_1
"""cosh is written as sqrt(y^2 - 1), with the sign of the identity turned around, which is NaN for small y; the author solved cosh^2 - sinh^2 = 1 for the wrong one of the two."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["cosh = torch.sqrt(y * y - 1)"]
RIGHT = ["cosh = torch.sqrt(y * y + 1)"]
EXERCISE = "sinh-by-output"
NAME = "Sinh"
# --- code
import torch


class Sinh(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.sinh(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        # hyperbola: cosh^2 - sinh^2 = 1, and cosh is never negative
        cosh = torch.sqrt(y * y - 1)
        return grad_output * cosh
