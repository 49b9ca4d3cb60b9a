"""Mistakes: activations and losses. Each cell is a separate module; see benchmarks/repairs.py."""

# %% activations_1
"""The slope of softplus is taken as sigmoid(x), the well-known derivative, but with beta the inner derivative makes it sigmoid(beta * x)."""
WRONG = ["slope = torch.sigmoid(x)"]
RIGHT = ["slope = torch.sigmoid(ctx.beta * x)"]
NAME = "SoftplusThreshold"
# --- code
import torch
from torch.autograd import Function


class SoftplusThreshold(Function):
    """softplus(x) = log(1 + exp(beta * x)) / beta, linear once beta * x passes the threshold."""

    @staticmethod
    def forward(ctx, x, beta, threshold):
        z = beta * x
        # clamp first, so that exp cannot overflow in the branch we throw away
        curved = torch.log1p(torch.exp(z.clamp(max=threshold))) / beta
        ctx.save_for_backward(x)
        ctx.beta = beta
        ctx.threshold = threshold
        return torch.where(z > threshold, x, curved)

    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        # the derivative of softplus is the sigmoid
        slope = torch.sigmoid(x)
        linear = ctx.beta * x > ctx.threshold
        grad_input = torch.where(linear, grad_output, grad_output * slope)
        return grad_input, None, None


def inputs():
    torch.manual_seed(0)
    return torch.randn(4, 5) * 3, 2.0, 6.0


def reference(x, beta, threshold):
    return torch.nn.functional.softplus(x, beta, threshold)

# %% activations_10
"""The part of the gradient that comes through conj(z) is multiplied with grad_output instead of its conjugate: the author used the real chain rule for both Wirtinger derivatives."""
WRONG = ["grad_z = grad_output * d_z + grad_output * d_zbar"]
RIGHT = ["grad_z = grad_output * d_z + grad_output.conj() * d_zbar"]
NAME = "ModReLU"
# --- code
import torch
from torch.autograd import Function


class ModReLU(Function):
    """Complex activation relu(|z| + b) * z / |z| with a real bias b per feature.

    Where it is active it equals z + b * z / |z|. Wirtinger derivatives there:
        dy/dz       = 1 + b / (2 |z|)
        dy/dconj(z) = -b z^2 / (2 |z|^3)
    """

    @staticmethod
    def forward(ctx, z, b):
        r = z.abs()
        ctx.save_for_backward(z, b)
        return torch.relu(r + b) * torch.sgn(z)

    @staticmethod
    def backward(ctx, grad_output):
        z, b = ctx.saved_tensors
        r = z.abs().clamp(min=1e-12)
        active = (r + b > 0).to(r.dtype)

        d_z = active * (1 + b / (2 * r))           # real
        d_zbar = -active * b * z ** 2 / (2 * r ** 3)
        grad_z = grad_output * d_z + grad_output * d_zbar

        unit = z / r
        grad_b = (active * (grad_output * unit.conj()).real).sum(dim=0)
        return grad_z, grad_b


def inputs():
    torch.manual_seed(4)
    z = torch.randn(5, 3, dtype=torch.complex128)
    b = torch.tensor([0.3, -0.4, -0.1], dtype=torch.float64)
    return z, b


def reference(z, b):
    return torch.relu(z.abs() + b) * torch.sgn(z)

# %% activations_2
"""The derivative of the cubic 0.044715 * x**3 lost its factor 3: the author lowered the exponent and forgot to bring it down."""
WRONG = ["d_inner = SQRT_2_OVER_PI * (1 + COEFF * x.pow(2))"]
RIGHT = ["d_inner = SQRT_2_OVER_PI * (1 + 3 * COEFF * x.pow(2))"]
NAME = "GeluTanh"
# --- code
import math

import torch

SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
COEFF = 0.044715


class GeluTanh(torch.autograd.Function):
    # 0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        inner = SQRT_2_OVER_PI * (x + COEFF * x.pow(3))
        return 0.5 * x * (1 + torch.tanh(inner))

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        inner = SQRT_2_OVER_PI * (x + COEFF * x.pow(3))
        th = torch.tanh(inner)
        d_inner = SQRT_2_OVER_PI * (1 + COEFF * x.pow(2))
        left = 0.5 * (1 + th)
        right = 0.5 * x * (1 - th * th) * d_inner
        return grad_out * (left + right)


def inputs():
    torch.manual_seed(1)
    return (torch.randn(3, 7, dtype=torch.float64),)


def reference(x):
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% activations_3
"""To spare work tanh(softplus(x)) is computed once in setup_context and saved; the first gradient is right, but a saved intermediate has no graph, so the second derivative silently treats it as a constant."""
WRONG = ["ctx.save_for_backward(x, torch.tanh(F.softplus(x)))", "x, t = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(x)", "x, = ctx.saved_tensors", "t = torch.tanh(F.softplus(x))"]
NAME = "Mish"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class Mish(Function):
    """mish(x) = x * tanh(softplus(x))"""

    @staticmethod
    def forward(x):
        return x * torch.tanh(F.softplus(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, = inputs
        ctx.save_for_backward(x, torch.tanh(F.softplus(x)))

    @staticmethod
    def backward(ctx, grad):
        x, t = ctx.saved_tensors
        # softplus' = sigmoid, tanh' = 1 - tanh^2
        return grad * (t + x * (1 - t * t) * torch.sigmoid(x))


def inputs():
    torch.manual_seed(0)
    return (torch.randn(6, 2),)


def reference(x):
    return F.mish(x)

# %% activations_4
"""setup_context unpacks the inputs as (value, gate), the order in which the author thinks of the formula, while forward takes (gate, value)."""
WRONG = ["value, gate = inputs"]
RIGHT = ["gate, value = inputs"]
NAME = "SwiGLU"
# --- code
import torch
from torch.autograd import Function


def silu(x):
    return x * torch.sigmoid(x)


def silu_grad(x):
    s = torch.sigmoid(x)
    return s + x * s * (1 - s)


class SwiGLU(Function):
    @staticmethod
    def forward(gate, value):
        return silu(gate) * value

    @staticmethod
    def setup_context(ctx, inputs, output):
        value, gate = inputs
        ctx.save_for_backward(gate, value)

    @staticmethod
    def backward(ctx, grad_output):
        gate, value = ctx.saved_tensors
        grad_gate = grad_output * value * silu_grad(gate)
        grad_value = grad_output * silu(gate)
        return grad_gate, grad_value


def inputs():
    torch.manual_seed(3)
    return torch.randn(4, 6), torch.randn(4, 6)


def reference(gate, value):
    return torch.nn.functional.silu(gate) * value

# %% activations_5
"""The gradient of the per-channel alpha is summed over batch and channels instead of over batch and time: the author took the channel axis for the last one."""
WRONG = ["galpha = (g * per_element).sum(dim=(0, 1))"]
RIGHT = ["galpha = (g * per_element).sum(dim=(0, 2))"]
NAME = "Snake"
# --- code
import torch


class Snake(torch.autograd.Function):
    """x + sin(alpha x)^2 / alpha for audio of shape (batch, channels, time), one alpha per channel."""

    @staticmethod
    def forward(x, alpha):
        a = alpha.view(1, -1, 1)
        return x + torch.sin(a * x) ** 2 / a

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, alpha = ctx.saved_tensors
        a = alpha.view(1, -1, 1)
        sin2 = torch.sin(2 * a * x)                 # 2 sin cos
        gx = galpha = None
        if ctx.needs_input_grad[0]:
            gx = g * (1 + sin2)
        if ctx.needs_input_grad[1]:
            per_element = x * sin2 / a - torch.sin(a * x) ** 2 / a ** 2
            # alpha was broadcast, so add up everything it touched
            galpha = (g * per_element).sum(dim=(0, 1))
        return gx, galpha


def inputs():
    torch.manual_seed(0)
    return torch.randn(2, 4, 4), torch.rand(4) + 0.5


def reference(x, alpha):
    a = alpha[None, :, None]
    return x + torch.sin(a * x).pow(2) / a

# %% activations_6
"""The gradient of the weight collects the positive entries: the author reused the mask at hand instead of its complement."""
WRONG = ["grad_weight = torch.where(positive, grad_output * x, zeros).sum(dim=0)"]
RIGHT = ["grad_weight = torch.where(positive, zeros, grad_output * x).sum(dim=0)"]
NAME = "PReLUPerChannel"
# --- code
import torch
from torch.autograd import Function


class PReLUPerChannel(Function):
    @staticmethod
    def forward(ctx, x, weight):
        # x: (N, C), weight: (C,)
        ctx.save_for_backward(x, weight)
        return torch.where(x > 0, x, weight * x)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        positive = x > 0
        zeros = torch.zeros_like(x)
        grad_x = torch.where(positive, grad_output, grad_output * weight)
        # the weight only sees the entries it multiplied
        grad_weight = torch.where(positive, grad_output * x, zeros).sum(dim=0)
        return grad_x, grad_weight


def inputs():
    torch.manual_seed(5)
    return torch.randn(6, 3), torch.tensor([0.25, 0.1, -0.3])


def reference(x, weight):
    return torch.nn.functional.prelu(x, weight)

# %% activations_7
"""The negative slope is recovered from the output as y + alpha, which holds for ELU; in SELU the output is scaled, so it is y + scale * alpha."""
WRONG = ["slope_neg = y + ALPHA"]
RIGHT = ["slope_neg = y + SCALE * ALPHA"]
NAME = "SELUFromOutput"
# --- code
import torch
from torch.autograd import Function

ALPHA = 1.6732632423543772
SCALE = 1.0507009873554805


class SELUFromOutput(Function):
    """SELU that keeps only its output for the backward pass, as memory is tight."""

    @staticmethod
    def forward(ctx, x):
        y = SCALE * torch.where(x > 0, x, ALPHA * torch.expm1(x.clamp(max=0)))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        y, = ctx.saved_tensors
        # y has the sign of x. For x < 0 the exponential can be read off y:
        # y = s * a * (e^x - 1)
        slope_neg = y + ALPHA
        slope_pos = torch.full_like(y, SCALE)
        return grad_output * torch.where(y > 0, slope_pos, slope_neg)


def inputs():
    torch.manual_seed(0)
    return (torch.randn(10),)


def reference(x):
    return torch.selu(x)

# %% activations_8
"""The blocked entries are zeroed in grad_output itself, because the author thinks the incoming gradient is his own buffer; it may be shared with other parts of the graph."""
WRONG = ["grad_input = grad_output"]
RIGHT = ["grad_input = grad_output.clone()"]
NAME = "HardTanh"
# --- code
import torch
from torch.autograd import Function


class HardTanh(Function):
    @staticmethod
    def forward(ctx, x, lo, hi):
        ctx.save_for_backward(x)
        ctx.bounds = (lo, hi)
        return x.clamp(lo, hi)

    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        lo, hi = ctx.bounds
        grad_input = grad_output
        # no gradient where we are saturated
        grad_input[(x <= lo) | (x >= hi)] = 0
        return grad_input, None, None


def inputs():
    torch.manual_seed(2)
    return torch.randn(3, 5) * 2, -1.0, 1.0


def reference(x, lo, hi):
    return torch.nn.functional.hardtanh(x, lo, hi)

# %% activations_9
"""The second needs_input_grad test was copied from the first and still asks about input 0, so the gate gets no gradient when only it needs one."""
WRONG = ["grad_gate = grad_output * t * s * (1 - s) if ctx.needs_input_grad[0] else None"]
RIGHT = ["grad_gate = grad_output * t * s * (1 - s) if ctx.needs_input_grad[1] else None"]
NAME = "GatedTanhUnit"
# --- code
import torch


class GatedTanhUnit(torch.autograd.Function):
    """WaveNet gate: tanh(filt) * sigmoid(gate)."""

    @staticmethod
    def forward(ctx, filt, gate):
        ctx.save_for_backward(filt, gate)
        return torch.tanh(filt) * torch.sigmoid(gate)

    @staticmethod
    def backward(ctx, grad_output):
        filt, gate = ctx.saved_tensors
        t, s = torch.tanh(filt), torch.sigmoid(gate)
        # only compute what somebody asks for
        grad_filt = grad_output * (1 - t ** 2) * s if ctx.needs_input_grad[0] else None
        grad_gate = grad_output * t * s * (1 - s) if ctx.needs_input_grad[0] else None
        return grad_filt, grad_gate


def inputs():
    torch.manual_seed(0)
    return torch.randn(2, 3, 4), torch.randn(2, 3, 4)


def reference(filt, gate):
    return filt.tanh() * gate.sigmoid()

# %% losses_1
"""The modulating factor (1 - p)**gamma is differentiated like a constant weight on the cross entropy, so the second term of the product rule is missing."""
WRONG = ["dz = -alpha_t * focal * (1 - pt)"]
RIGHT = ["dz = alpha_t * focal * (gamma * pt * F.logsigmoid(z) - (1 - pt))"]
NAME = "BinaryFocalLoss"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class BinaryFocalLoss(Function):
    """mean of -alpha_t * (1 - p_t)^gamma * log(p_t); targets are integer 0 / 1."""

    @staticmethod
    def _pieces(logits, targets, alpha):
        sign = targets.to(logits.dtype) * 2 - 1      # +1 / -1
        z = sign * logits                            # p_t = sigmoid(z)
        alpha_t = torch.where(targets == 1, torch.full_like(logits, alpha), torch.full_like(logits, 1 - alpha))
        return sign, z, alpha_t

    @staticmethod
    def forward(ctx, logits, targets, alpha, gamma):
        _, z, alpha_t = BinaryFocalLoss._pieces(logits, targets, alpha)
        ctx.save_for_backward(logits, targets)
        ctx.alpha, ctx.gamma = alpha, gamma
        focal = (1 - torch.sigmoid(z)) ** gamma
        return -(alpha_t * focal * F.logsigmoid(z)).mean()

    @staticmethod
    def backward(ctx, grad_output):
        logits, targets = ctx.saved_tensors
        gamma = ctx.gamma
        sign, z, alpha_t = BinaryFocalLoss._pieces(logits, targets, ctx.alpha)
        pt = torch.sigmoid(z)
        focal = (1 - pt) ** gamma
        # d log(p_t) / dz = 1 - p_t
        dz = -alpha_t * focal * (1 - pt)
        grad_logits = grad_output * sign * dz / logits.numel()
        return grad_logits, None, None, None


def inputs():
    torch.manual_seed(0)
    logits = torch.randn(8)
    targets = torch.tensor([0, 1, 1, 0, 0, 1, 0, 1])
    return logits, targets, 0.25, 2.0


def reference(logits, targets, alpha, gamma):
    t = targets.to(logits.dtype)
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, t, reduction="none")
    pt = p * t + (1 - p) * (1 - t)
    at = alpha * t + (1 - alpha) * (1 - t)
    return (at * (1 - pt) ** gamma * ce).mean()

# %% losses_10
"""The function also returns the probabilities, and their incoming gradient is ignored because the author only logs them; yet the output is differentiable for anyone who uses it."""
WRONG = []
RIGHT = ["grad = grad + grad_probs * p * (1 - p)"]
NAME = "BCEWithProbs"
# --- code
import torch
from torch.autograd import Function


class BCEWithProbs(Function):
    """Binary cross entropy on logits; returns (mean loss, probabilities). Integer targets."""

    @staticmethod
    def forward(ctx, logits, target):
        t = target.to(logits.dtype)
        # the stable form: max(x, 0) - x t + log(1 + exp(-|x|))
        loss = logits.clamp(min=0) - logits * t + torch.log1p(torch.exp(-logits.abs()))
        ctx.save_for_backward(logits, target)
        return loss.mean(), torch.sigmoid(logits)

    @staticmethod
    def backward(ctx, grad_loss, grad_probs):
        logits, target = ctx.saved_tensors
        p = torch.sigmoid(logits)
        t = target.to(logits.dtype)
        grad = grad_loss * (p - t) / logits.numel()
        return grad, None


def inputs():
    torch.manual_seed(0)
    return torch.randn(2, 4), torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1]])


def reference(logits, target):
    t = target.to(logits.dtype)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, t)
    return loss, torch.sigmoid(logits)

# %% losses_2
"""Two mistakes: the linear branch has slope sign(d) as in smooth L1 with delta 1, not delta * sign(d), and the target gets the gradient of the prediction without its minus, since the loss is symmetric."""
WRONG = ["outside = torch.sign(d)", "return grad, grad, None"]
RIGHT = ["outside = ctx.delta * torch.sign(d)", "return grad, -grad, None"]
NAME = "HuberMean"
# --- code
import torch
from torch.autograd import Function


class HuberMean(Function):
    @staticmethod
    def forward(pred, target, delta):
        d = pred - target
        quadratic = 0.5 * d ** 2
        linear = delta * (d.abs() - 0.5 * delta)
        return torch.where(d.abs() <= delta, quadratic, linear).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pred, target, delta = inputs
        ctx.save_for_backward(pred, target)
        ctx.delta = delta

    @staticmethod
    def backward(ctx, grad_output):
        pred, target = ctx.saved_tensors
        d = pred - target
        outside = torch.sign(d)
        slope = torch.where(d.abs() <= ctx.delta, d, outside)
        grad = grad_output * slope / d.numel()
        return grad, grad, None


def inputs():
    torch.manual_seed(0)
    return torch.randn(4, 3) * 2, torch.randn(4, 3), 0.7


def reference(pred, target, delta):
    return torch.nn.functional.huber_loss(pred, target, delta=delta)

# %% losses_3
"""Backward spreads the smoothing mass over the C - 1 wrong classes as in the textbook, while forward (as PyTorch does) spreads it over all C classes."""
WRONG = ["off_value = ctx.eps / (c - 1)", "on_value = 1 - ctx.eps"]
RIGHT = ["off_value = ctx.eps / c", "on_value = 1 - ctx.eps + off_value"]
NAME = "SmoothedCrossEntropy"
# --- code
import torch
from torch.autograd import Function


class SmoothedCrossEntropy(Function):
    """Cross entropy with label smoothing, averaged over the batch. logits (N, C), target (N,) integer."""

    @staticmethod
    def forward(logits, target, eps):
        logp = torch.log_softmax(logits, dim=1)
        nll = -logp.gather(1, target.unsqueeze(1)).squeeze(1)
        uniform = -logp.mean(dim=1)
        return ((1 - eps) * nll + eps * uniform).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, target, eps = inputs
        ctx.save_for_backward(logits, target)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, grad_output):
        logits, target = ctx.saved_tensors
        n, c = logits.shape
        # the smoothed target distribution
        off_value = ctx.eps / (c - 1)
        on_value = 1 - ctx.eps
        q = torch.full_like(logits, off_value)
        q.scatter_(1, target.unsqueeze(1), on_value)
        # and the usual softmax minus target
        p = torch.softmax(logits, dim=1)
        return grad_output * (p - q) / n, None, None


def inputs():
    torch.manual_seed(7)
    return torch.randn(5, 4), torch.tensor([0, 3, 1, 1, 2]), 0.1


def reference(logits, target, eps):
    return torch.nn.functional.cross_entropy(logits, target, label_smoothing=eps)

# %% losses_4
"""The true class gets -1 from each sample, as in the binary hinge, although its score stands in every violated margin and so gets minus their number."""
WRONG = ["g = g.scatter(1, index, -1.0)"]
RIGHT = ["g = g.scatter(1, index, -g.sum(dim=1, keepdim=True))"]
NAME = "MultiMarginLoss"
# --- code
import torch
from torch.autograd import Function


class MultiMarginLoss(Function):
    # sum_{j != t} max(0, margin - x_t + x_j) / C, mean over the batch

    @staticmethod
    def forward(ctx, scores, target, margin):
        n, c = scores.shape
        index = target.view(n, 1)
        correct = scores.gather(1, index)
        violation = (margin - correct + scores).clamp(min=0)
        violation = violation.scatter(1, index, 0.0)
        ctx.save_for_backward(violation > 0, index)
        return violation.sum() / (n * c)

    @staticmethod
    def backward(ctx, grad_output):
        violated, index = ctx.saved_tensors
        n, c = violated.shape
        g = violated.to(grad_output.dtype)
        g = g.scatter(1, index, -1.0)
        return grad_output * g / (n * c), None, None


def inputs():
    torch.manual_seed(0)
    return torch.randn(6, 4, dtype=torch.float64), torch.tensor([2, 0, 1, 3, 3, 0]), 1.0


def reference(scores, target, margin):
    return torch.nn.functional.multi_margin_loss(scores, target, margin=margin)

# %% losses_5
"""Forward divides by the batch size ('batchmean') but backward divides by the number of all elements, out of the habit that a mean divides by numel."""
WRONG = ["scale = grad_output / log_q.numel()"]
RIGHT = ["scale = grad_output / log_q.size(0)"]
NAME = "KLBatchMean"
# --- code
import torch
from torch.autograd import Function


class KLBatchMean(Function):
    """KL(p || q) from log-probabilities, summed over classes and averaged over the batch."""

    @staticmethod
    def forward(ctx, log_q, log_p):
        ctx.save_for_backward(log_q, log_p)
        kl = log_p.exp() * (log_p - log_q)
        return kl.sum() / log_q.size(0)

    @staticmethod
    def backward(ctx, grad_output):
        log_q, log_p = ctx.saved_tensors
        scale = grad_output / log_q.numel()
        p = log_p.exp()
        grad_log_q = grad_log_p = None
        if ctx.needs_input_grad[0]:
            grad_log_q = -scale * p
        if ctx.needs_input_grad[1]:
            # product rule, exp is its own derivative
            grad_log_p = scale * p * (log_p - log_q + 1)
        return grad_log_q, grad_log_p


def inputs():
    torch.manual_seed(0)
    return torch.randn(3, 5).log_softmax(1), torch.randn(3, 5).log_softmax(1)


def reference(log_q, log_p):
    return torch.nn.functional.kl_div(log_q, log_p, reduction="batchmean", log_target=True)

# %% losses_6
"""Backward returns gradients only for the two tensors; the author believes flags and numbers do not count as inputs of apply."""
WRONG = ["return grad_output * d_rate, grad_output * d_target"]
RIGHT = ["return grad_output * d_rate, grad_output * d_target, None, None"]
NAME = "PoissonNLL"
# --- code
import torch
from torch.autograd import Function


class PoissonNLL(Function):
    """Negative log-likelihood of counts, up to the term in target alone. Reduced by sum."""

    @staticmethod
    def forward(rate, target, log_input, eps):
        if log_input:
            return (torch.exp(rate) - target * rate).sum()
        return (rate - target * torch.log(rate + eps)).sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        rate, target, ctx.log_input, ctx.eps = inputs
        ctx.save_for_backward(rate, target)

    @staticmethod
    def backward(ctx, grad_output):
        rate, target = ctx.saved_tensors
        if ctx.log_input:
            d_rate = torch.exp(rate) - target
            d_target = -rate
        else:
            d_rate = 1 - target / (rate + ctx.eps)
            d_target = -torch.log(rate + ctx.eps)
        return grad_output * d_rate, grad_output * d_target


def inputs():
    torch.manual_seed(0)
    return torch.randn(7), torch.tensor([0., 2., 1., 5., 3., 0., 1.]), True, 1e-8


def reference(rate, target, log_input, eps):
    if log_input:
        return (rate.exp() - target * rate).sum()
    return (rate - target * (rate + eps).log()).sum()

# %% losses_7
"""Two mistakes: the indicator in the slope is that of under- instead of over-prediction, and grad_output is left out because a loss is the end of the graph and its gradient is 1 anyway."""
WRONG = ["slope = (err > 0).to(err.dtype) - ctx.tau", "grad_pred = slope / err.numel()"]
RIGHT = ["slope = (err < 0).to(err.dtype) - ctx.tau", "grad_pred = grad_output * slope / err.numel()"]
NAME = "PinballLoss"
# --- code
import torch
from torch.autograd import Function


class PinballLoss(Function):
    """Quantile regression loss: tau * err where we predict too low, (tau - 1) * err where too high."""

    @staticmethod
    def forward(ctx, pred, target, tau):
        err = target - pred
        ctx.save_for_backward(pred, target)
        ctx.tau = tau
        return torch.maximum(tau * err, (tau - 1) * err).mean()

    @staticmethod
    def backward(ctx, grad_output):
        pred, target = ctx.saved_tensors
        err = target - pred
        # slope with respect to pred: 1[.] - tau
        slope = (err > 0).to(err.dtype) - ctx.tau
        grad_pred = slope / err.numel()
        return grad_pred, -grad_pred, None


def inputs():
    torch.manual_seed(6)
    return torch.randn(9), torch.randn(9), 0.9


def reference(pred, target, tau):
    err = target - pred
    return torch.where(err > 0, tau * err, (tau - 1) * err).mean()

# %% losses_8
"""The line for the second vector was copied from the first and its norm was not renamed: it still divides by the squared norm of x1."""
WRONG = ["g2 = d_cos * (x1 / (n1 * n2) - cos * x2 / n1 ** 2)"]
RIGHT = ["g2 = d_cos * (x1 / (n1 * n2) - cos * x2 / n2 ** 2)"]
NAME = "CosineEmbedding"
# --- code
import torch
from torch.autograd import Function


def _cosine(x1, x2):
    n1 = x1.norm(dim=1, keepdim=True).clamp(min=1e-12)
    n2 = x2.norm(dim=1, keepdim=True).clamp(min=1e-12)
    cos = (x1 * x2).sum(dim=1, keepdim=True) / (n1 * n2)
    return cos, n1, n2


class CosineEmbedding(Function):
    """1 - cos for y = 1, max(0, cos - margin) for y = -1 (integer labels), mean over the rows."""

    @staticmethod
    def forward(x1, x2, y, margin):
        cos, _, _ = _cosine(x1, x2)
        cos = cos.squeeze(1)
        return torch.where(y == 1, 1 - cos, (cos - margin).clamp(min=0)).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x1, x2, y, margin = inputs
        ctx.save_for_backward(x1, x2, y)
        ctx.margin = margin

    @staticmethod
    def backward(ctx, grad_output):
        x1, x2, y = ctx.saved_tensors
        cos, n1, n2 = _cosine(x1, x2)

        # derivative of the loss by cos
        pull = (y == 1).unsqueeze(1)
        push = (~pull) & (cos > ctx.margin)
        d_cos = push.to(cos.dtype) - pull.to(cos.dtype)
        d_cos = grad_output * d_cos / x1.shape[0]

        # derivative of cos by the vectors
        g1 = d_cos * (x2 / (n1 * n2) - cos * x1 / n1 ** 2)
        g2 = d_cos * (x1 / (n1 * n2) - cos * x2 / n1 ** 2)
        return g1, g2, None, None


def inputs():
    torch.manual_seed(1)
    return torch.randn(5, 3), torch.randn(5, 3), torch.tensor([1, -1, 1, -1, -1]), 0.0


def reference(x1, x2, y, margin):
    return torch.nn.functional.cosine_embedding_loss(x1, x2, y, margin=margin)

# %% losses_9
"""The gradient of the push term divides by the distance, which the author thinks never is zero; for two equal embeddings it gives inf * 0 = nan."""
WRONG = ["push = -2 * (ctx.margin - d).clamp(min=0) / d"]
RIGHT = ["push = -2 * (ctx.margin - d).clamp(min=0) / d.clamp(min=1e-12)"]
NAME = "ContrastiveLoss"
# --- code
import torch
from torch.autograd import Function


class ContrastiveLoss(Function):
    """Pairs (a, b): d^2 if same, max(0, margin - d)^2 otherwise, where d = |a - b|. Mean over the pairs."""

    @staticmethod
    def forward(ctx, a, b, same, margin):
        d = (a - b).norm(dim=1)
        ctx.save_for_backward(a, b, same)
        ctx.margin = margin
        return torch.where(same, d ** 2, (margin - d).clamp(min=0) ** 2).mean()

    @staticmethod
    def backward(ctx, grad_output):
        a, b, same = ctx.saved_tensors
        diff = a - b
        d = diff.norm(dim=1)
        pull = torch.full_like(d, 2.0)
        # chain rule: d' = diff / d
        push = -2 * (ctx.margin - d).clamp(min=0) / d
        coeff = torch.where(same, pull, push) / d.numel()
        grad_a = grad_output * coeff.unsqueeze(1) * diff
        return grad_a, -grad_a, None, None


def inputs():
    torch.manual_seed(0)
    a = torch.randn(6, 4)
    b = a + 0.5 * torch.randn(6, 4)
    same = torch.tensor([True, False, False, True, True, False])
    return a, b, same, 2.0


def reference(a, b, same, margin):
    d = torch.linalg.vector_norm(a - b, dim=1)
    return torch.where(same, d.square(), (margin - d).clamp(min=0).square()).mean()

# %% probability_1
"""The maximum is subtracted in place from the caller's tensor; the author saw right values and gradients (softmax does not mind the shift) and thought of x as a local variable."""
WRONG = ["x -= m"]
RIGHT = ["x = x - m"]
NAME = "LogSumExp"
# --- code
import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.save_for_backward(x)
        ctx.dim = dim
        # subtract the maximum, otherwise exp overflows
        m = x.amax(dim=dim, keepdim=True)
        x -= m
        return x.exp().sum(dim=dim).log() + m.squeeze(dim)

    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        return grad_output.unsqueeze(ctx.dim) * torch.softmax(x, dim=ctx.dim), None


def inputs():
    torch.manual_seed(0)
    return torch.randn(3, 4) * 5, 1


def reference(x, dim):
    return torch.logsumexp(x, dim)

# %% probability_2
"""The sum of grad_output goes over the whole tensor instead of along dim: the author derived the formula for one vector and tried it on one vector."""
WRONG = ["total = grad_output.sum()"]
RIGHT = ["total = grad_output.sum(dim=ctx.dim, keepdim=True)"]
NAME = "LogSoftmax"
# --- code
import torch
from torch.autograd import Function


class LogSoftmax(Function):
    @staticmethod
    def forward(x, dim):
        shifted = x - x.amax(dim=dim, keepdim=True)
        return shifted - shifted.exp().sum(dim=dim, keepdim=True).log()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.dim = inputs
        # exp(output) is the softmax, so the output is all we need
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        out, = ctx.saved_tensors
        # J^T g = g - softmax * sum(g)
        total = grad_output.sum()
        return grad_output - out.exp() * total, None


def inputs():
    torch.manual_seed(0)
    return torch.randn(4, 3), -1


def reference(x, dim):
    return torch.log_softmax(x, dim)

# %% probability_3
"""The input is kept in an attribute of the class instead of ctx, as one would keep it on a module; a second call before backward overwrites it."""
WRONG = ["x = None        # input of the forward pass, for backward", "NormalCDF.x = x", "x = NormalCDF.x"]
RIGHT = ["ctx.save_for_backward(x)", "x, = ctx.saved_tensors"]
NAME = "NormalCDF"
# --- code
import math

import torch
from torch.autograd import Function


class NormalCDF(Function):
    """Standard normal distribution function by erf."""

    x = None        # input of the forward pass, for backward

    @staticmethod
    def forward(ctx, x):
        NormalCDF.x = x
        return 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def backward(ctx, grad_output):
        x = NormalCDF.x
        pdf = torch.exp(-0.5 * x ** 2) / math.sqrt(2 * math.pi)
        return grad_output * pdf


def inputs():
    torch.manual_seed(0)
    return (torch.randn(8, dtype=torch.float64),)


def reference(x):
    return torch.special.ndtr(x)

# %% probability_4
"""Backward returns the gradients of sigma and mu in the order in which they were worked out, not in the order of forward's arguments (x, mu, sigma)."""
WRONG = ["return grad_x, grad_sigma, grad_mu"]
RIGHT = ["return grad_x, grad_mu, grad_sigma"]
NAME = "LogNormalCDF"
# --- code
import math

import torch
from torch.autograd import Function


class LogNormalCDF(Function):
    """P(X <= x) for log X ~ N(mu, sigma^2); x a tensor of positive numbers, mu and sigma scalars (0-d)."""

    @staticmethod
    def forward(x, mu, sigma):
        z = (torch.log(x) - mu) / sigma
        return 0.5 * torch.erfc(-z / math.sqrt(2.0))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, mu, sigma = ctx.saved_tensors
        z = (torch.log(x) - mu) / sigma
        phi = torch.exp(-z * z / 2) / math.sqrt(2.0 * math.pi)
        g = grad_output * phi / sigma
        # dz/dx = 1/(x sigma), dz/dsigma = -z/sigma, dz/dmu = -1/sigma
        grad_x = g / x
        grad_sigma = -(g * z).sum()
        grad_mu = -g.sum()
        return grad_x, grad_sigma, grad_mu


def inputs():
    torch.manual_seed(0)
    return torch.rand(6) * 3 + 0.2, torch.tensor(0.3), torch.tensor(0.8)


def reference(x, mu, sigma):
    return torch.special.ndtr((x.log() - mu) / sigma)

# %% probability_5
"""Two mistakes: log B(a, b) is added although it is the normaliser in the denominator, and the derivative by b forgets that b also stands in lgamma(a + b)."""
WRONG = ["return kernel + log_beta", "db = torch.log1p(-x) - torch.digamma(b)"]
RIGHT = ["return kernel - log_beta", "db = torch.log1p(-x) - torch.digamma(b) + psi_ab"]
NAME = "BetaLogProb"
# --- code
import torch
from torch.autograd import Function


class BetaLogProb(Function):
    """log density of Beta(a, b) at x in (0, 1); the three tensors have the same shape."""

    @staticmethod
    def forward(ctx, x, a, b):
        ctx.save_for_backward(x, a, b)
        log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
        kernel = (a - 1) * torch.log(x) + (b - 1) * torch.log1p(-x)
        return kernel + log_beta

    @staticmethod
    def backward(ctx, g):
        x, a, b = ctx.saved_tensors
        psi_ab = torch.digamma(a + b)
        dx = (a - 1) / x - (b - 1) / (1 - x)
        da = torch.log(x) - torch.digamma(a) + psi_ab
        db = torch.log1p(-x) - torch.digamma(b)
        return g * dx, g * da, g * db


def inputs():
    torch.manual_seed(0)
    x = torch.rand(5, dtype=torch.float64) * 0.8 + 0.1
    a = torch.rand(5, dtype=torch.float64) * 3 + 0.5
    b = torch.rand(5, dtype=torch.float64) * 3 + 0.5
    return x, a, b


def reference(x, a, b):
    return (a - 1) * x.log() + (b - 1) * (1 - x).log() - (a.lgamma() + b.lgamma() - (a + b).lgamma())

# %% probability_6
"""The saved tensors are detached in backward so that no graph is built and memory is not kept; the first gradient is right, but the second derivative comes out as zero."""
WRONG = ["x, out = [t.detach() for t in ctx.saved_tensors]"]
RIGHT = ["x, out = ctx.saved_tensors"]
NAME = "LogNormalTail"
# --- code
import math

import torch
from torch.autograd import Function

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class LogNormalTail(Function):
    """log P(Z > x) for a standard normal Z, also far out in the tail."""

    @staticmethod
    def forward(ctx, x):
        out = torch.special.log_ndtr(-x)
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        x, out = [t.detach() for t in ctx.saved_tensors]
        # -pdf / tail, formed from the logarithms so that it does not become 0 / 0
        hazard = torch.exp(-0.5 * x * x - HALF_LOG_2PI - out)
        return -grad_output * hazard


def inputs():
    torch.manual_seed(0)
    return (torch.linspace(-3.0, 8.0, 9),)


def reference(x):
    return torch.special.log_ndtr(-x)
