"""Mistakes: held out, at work. Each cell is a separate module; see benchmarks/repairs.py."""

# %% attention_1
"""Two slips: grad_q lacks the 1/sqrt(d) of the scores, and grad_k was copied from grad_q without transposing the score gradient, which the author does not notice because queries and keys have the same length."""
WRONG = ["grad_q = ds @ k", "grad_k = (ds @ q) * ctx.scale"]
RIGHT = ["grad_q = (ds @ k) * ctx.scale", "grad_k = (ds.transpose(-2, -1) @ q) * ctx.scale"]
NAME = "CausalAttention"
# --- code
import math

import torch
from torch.autograd import Function


def attention_weights(q, k, scale):
    scores = (q @ k.transpose(-2, -1)) * scale
    t = scores.shape[-1]
    future = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(dim=-1)


class CausalAttention(Function):
    """Single head causal self attention, q, k, v: (B, T, d).

    The T x T matrix is not kept, it is rebuilt in backward.
    """

    @staticmethod
    def forward(ctx, q, k, v):
        ctx.scale = 1.0 / math.sqrt(q.shape[-1])
        ctx.save_for_backward(q, k, v)
        return attention_weights(q, k, ctx.scale) @ v

    @staticmethod
    def backward(ctx, grad_out):
        q, k, v = ctx.saved_tensors
        p = attention_weights(q, k, ctx.scale)

        grad_v = p.transpose(-2, -1) @ grad_out
        dp = grad_out @ v.transpose(-2, -1)
        # softmax backward; future positions have p = 0 and so ds = 0
        ds = p * (dp - (p * dp).sum(dim=-1, keepdim=True))
        grad_q = ds @ k
        grad_k = (ds @ q) * ctx.scale
        return grad_q, grad_k, grad_v


def inputs():
    torch.manual_seed(4)
    return tuple(torch.randn(2, 4, 3, dtype=torch.float64) for _ in range(3))


def reference(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

# %% clip_norm_1
"""The norm is turned into a Python number with .item(), because it is 'only a scale'; the first gradient is right, but a second one does not see that the norm depends on x."""
WRONG = ["length = x.norm().item()"]
RIGHT = ["length = x.norm()"]
NAME = "ClipByNorm"
# --- code
import torch
from torch.autograd import Function


class ClipByNorm(Function):
    """Scale x down so that its overall norm is at most max_norm (update clipping in the unrolled optimizer)."""

    @staticmethod
    def forward(ctx, x, max_norm):
        ctx.save_for_backward(x)
        ctx.max_norm = max_norm
        norm = x.norm()
        if norm <= max_norm:
            return x.clone()
        return x * (max_norm / norm)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        length = x.norm().item()
        if length <= ctx.max_norm:
            return g, None
        # derivative of max_norm * x / |x|
        along = (g * x).sum() / length ** 2
        return (ctx.max_norm / length) * (g - along * x), None


def inputs():
    torch.manual_seed(19)
    return 2.0 * torch.randn(3, 4, dtype=torch.float64), 1.5


def reference(x, max_norm):
    return x * torch.clamp(max_norm / x.norm(), max=1.0)

# %% elu_1
"""grad_in = grad_out makes no copy, so the masked multiplication writes into the incoming gradient, which other branches of the graph may share; the author takes the assignment for a fresh tensor."""
WRONG = ["grad_in = grad_out"]
RIGHT = ["grad_in = grad_out.clone()"]
NAME = "ELU"
# --- code
import torch
from torch.autograd import Function


class ELU(Function):
    """x for x > 0, alpha * (exp(x) - 1) otherwise."""

    @staticmethod
    def forward(ctx, x, alpha=1.0):
        ctx.save_for_backward(x)
        ctx.alpha = alpha
        return torch.where(x > 0, x, alpha * torch.expm1(x))

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        neg = x <= 0
        grad_in = grad_out
        # positive side: slope 1, nothing to do
        grad_in[neg] *= ctx.alpha * x[neg].exp()
        return grad_in, None


def inputs():
    torch.manual_seed(17)
    return torch.randn(3, 4), 0.7


def reference(x, alpha=1.0):
    return torch.nn.functional.elu(x, alpha)

# %% fft_conv_1
"""In the frequency domain the layer is a product, and the author differentiates it like a real product; the adjoint of a multiplication by a complex number needs the conjugate."""
WRONG = ["grad_x = torch.fft.irfft(G * K, n=n)", "grad_kernel = torch.fft.irfft(G * X, n=n).sum(dim=0)"]
RIGHT = ["grad_x = torch.fft.irfft(G * K.conj(), n=n)", "grad_kernel = torch.fft.irfft(G * X.conj(), n=n).sum(dim=0)"]
NAME = "CircularConv"
# --- code
import torch
from torch.autograd import Function


class CircularConv(Function):
    """Long convolution through the FFT (periodic). x: (B, N), kernel: (N,)."""

    @staticmethod
    def forward(ctx, x, kernel):
        ctx.save_for_backward(x, kernel)
        n = x.shape[-1]
        return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(kernel), n=n)

    @staticmethod
    def backward(ctx, grad_out):
        x, kernel = ctx.saved_tensors
        n = x.shape[-1]
        G = torch.fft.rfft(grad_out)
        X, K = torch.fft.rfft(x), torch.fft.rfft(kernel)

        grad_x = torch.fft.irfft(G * K, n=n)
        grad_kernel = torch.fft.irfft(G * X, n=n).sum(dim=0)
        return grad_x, grad_kernel


def inputs():
    torch.manual_seed(14)
    return torch.randn(2, 8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)


def reference(x, kernel):
    n = x.shape[-1]
    return sum(kernel[j] * torch.roll(x, j, dims=-1) for j in range(n))

# %% film_1
"""gamma is used as gamma[:, None, :] in forward, so the author keeps that axis in its gradient too; but the argument itself is (B, C) and the gradient must be as well."""
WRONG = ["grad_gamma = (grad_out * x).sum(dim=1, keepdim=True)"]
RIGHT = ["grad_gamma = (grad_out * x).sum(dim=1)"]
NAME = "FiLM"
# --- code
import torch
from torch.autograd import Function


class FiLM(Function):
    # x: (B, T, C), gamma: (B, C), beta: (B, C)
    @staticmethod
    def forward(ctx, x, gamma, beta):
        ctx.save_for_backward(x, gamma)
        return x * (1 + gamma[:, None, :]) + beta[:, None, :]

    @staticmethod
    def backward(ctx, grad_out):
        x, gamma = ctx.saved_tensors
        grad_x = grad_out * (1 + gamma[:, None, :])
        # every time step saw the same gamma and beta
        grad_gamma = (grad_out * x).sum(dim=1, keepdim=True)
        grad_beta = grad_out.sum(dim=1)
        return grad_x, grad_gamma, grad_beta


def inputs():
    torch.manual_seed(2)
    return torch.randn(2, 5, 3), torch.randn(2, 3), torch.randn(2, 3)


def reference(x, gamma, beta):
    return x * (1 + gamma.unsqueeze(1)) + beta.unsqueeze(1)

# %% focal_loss_1
"""The loss is averaged in forward, but the author takes the gradient of a single element as the gradient of the loss and forgets to divide by the number of elements."""
WRONG = ["grad_logits = grad_output * sign * d"]
RIGHT = ["grad_logits = grad_output * sign * d / logits.numel()"]
NAME = "BinaryFocalLoss"
# --- code
import torch
from torch.autograd import Function


class BinaryFocalLoss(Function):
    """Mean of -(1 - p_t)^gamma * log(p_t), on logits. target is 0/1."""

    @staticmethod
    def forward(logits, target, gamma):
        sign = 2 * target - 1
        log_pt = torch.nn.functional.logsigmoid(sign * logits)
        pt = log_pt.exp()
        return (-(1 - pt) ** gamma * log_pt).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, target, gamma = inputs
        ctx.save_for_backward(logits, target)
        ctx.gamma = gamma

    @staticmethod
    def backward(ctx, grad_output):
        logits, target = ctx.saved_tensors
        gamma = ctx.gamma
        sign = 2 * target - 1
        log_pt = torch.nn.functional.logsigmoid(sign * logits)
        pt = log_pt.exp()

        # derivative with respect to sign * logits, p' = p (1 - p) already multiplied in
        d = gamma * pt * (1 - pt) ** gamma * log_pt - (1 - pt) ** (gamma + 1)
        grad_logits = grad_output * sign * d
        return grad_logits, None, None


def inputs():
    torch.manual_seed(1)
    logits = torch.randn(4, 3, dtype=torch.float64)
    target = torch.randint(0, 2, (4, 3))
    return logits, target, 2.0


def reference(logits, target, gamma):
    bce = torch.nn.functional.binary_cross_entropy_with_logits(logits, target.to(logits.dtype), reduction="none")
    return ((1 - torch.exp(-bce)) ** gamma * bce).mean()

# %% hardswish_1
"""The author saves memory with add_ on the input, thinking that nothing is recorded inside forward and so it does no harm; the caller's tensor and the saved one are the same and are overwritten."""
WRONG = ["gate = x.add_(3.0)"]
RIGHT = ["gate = x.add(3.0)"]
NAME = "HardSwish"
# --- code
import torch
from torch.autograd import Function


class HardSwish(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        # relu6(x + 3) / 6, the later steps reuse one buffer
        gate = x.add_(3.0)
        gate = gate.clamp_(0.0, 6.0).div_(6.0)
        return x * gate

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        slope = (2.0 * x + 3.0) / 6.0
        slope = torch.where(x <= -3.0, torch.zeros_like(x), slope)
        slope = torch.where(x >= 3.0, torch.ones_like(x), slope)
        return grad_output * slope


def inputs():
    torch.manual_seed(16)
    return (3.0 * torch.randn(3, 5),)


def reference(x):
    return torch.nn.functional.hardswish(x)

# %% l2_normalize_1
"""The projection has to use the unit vector y (the output); the author wrote it with the input x, as in the formula for vectors that are already normalized."""
WRONG = ["radial = x * (grad_y * x).sum(dim=-1, keepdim=True)"]
RIGHT = ["radial = y * (grad_y * y).sum(dim=-1, keepdim=True)"]
NAME = "L2Normalize"
# --- code
import torch
from torch.autograd import Function


class L2Normalize(Function):
    """Unit vectors along the last dim (embeddings before the cosine head)."""

    @staticmethod
    def forward(ctx, x):
        y = x / x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, y = ctx.saved_tensors
        # y cannot leave the sphere: take out the radial part of the gradient
        radial = x * (grad_y * x).sum(dim=-1, keepdim=True)
        return (grad_y - radial) / x.norm(dim=-1, keepdim=True)


def inputs():
    torch.manual_seed(11)
    return (torch.randn(3, 4, dtype=torch.float64),)


def reference(x):
    return torch.nn.functional.normalize(x, dim=-1)

# %% layer_norm_1
"""Two slips: the author sends grad_output into the normalization without multiplying it by weight first, and in the input gradient leaves out the term that comes through the mean, believing it cancels."""
WRONG = ["g = grad_output", "grad_x = rstd * (g - along_x_hat)"]
RIGHT = ["g = grad_output * weight", "grad_x = rstd * (g - g.mean(dim=-1, keepdim=True) - along_x_hat)"]
NAME = "LayerNorm"
# --- code
import torch
from torch.autograd import Function


def standardize(x, eps):
    centered = x - x.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt((centered ** 2).mean(dim=-1, keepdim=True) + eps)
    return centered * rstd, rstd


class LayerNorm(Function):
    """Layer norm over the last dimension, with affine parameters of shape (D,)."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps=1e-5):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        x_hat, _ = standardize(x, eps)
        return x_hat * weight + bias

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        x_hat, rstd = standardize(x, ctx.eps)

        # parameters are shared by all rows
        grad_weight = (grad_output * x_hat).flatten(0, -2).sum(0)
        grad_bias = grad_output.flatten(0, -2).sum(0)

        g = grad_output
        # through the variance
        along_x_hat = x_hat * (g * x_hat).mean(dim=-1, keepdim=True)
        grad_x = rstd * (g - along_x_hat)
        return grad_x, grad_weight, grad_bias, None


def inputs():
    torch.manual_seed(3)
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    weight = torch.rand(6, dtype=torch.float64) + 0.5
    bias = torch.randn(6, dtype=torch.float64)
    return x, weight, bias, 1e-5


def reference(x, weight, bias, eps=1e-5):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)

# %% lora_1
"""The author counts ctx as argument 0 when indexing needs_input_grad; the tuple starts at forward's first argument after ctx, so each gradient is decided by its neighbour's flag and lora_b, asking about the plain number, never gets one."""
WRONG = ["if ctx.needs_input_grad[1]:", "if ctx.needs_input_grad[2]:", "if ctx.needs_input_grad[3]:"]
RIGHT = ["if ctx.needs_input_grad[0]:", "if ctx.needs_input_grad[1]:", "if ctx.needs_input_grad[2]:"]
NAME = "LoRADelta"
# --- code
import torch
from torch.autograd import Function


class LoRADelta(Function):
    """scaling * x @ A^T @ B^T with x: (N, d_in), A: (r, d_in), B: (d_out, r).

    In fine-tuning x often needs no gradient, so nothing is computed in vain.
    """

    @staticmethod
    def forward(ctx, x, lora_a, lora_b, scaling):
        ctx.save_for_backward(x, lora_a, lora_b)
        ctx.scaling = scaling
        return scaling * (x @ lora_a.t()) @ lora_b.t()

    @staticmethod
    def backward(ctx, grad_out):
        x, lora_a, lora_b = ctx.saved_tensors
        grad_x = grad_a = grad_b = None

        g = ctx.scaling * grad_out          # (N, d_out)
        g_low = g @ lora_b                  # (N, r)
        if ctx.needs_input_grad[1]:
            grad_x = g_low @ lora_a
        if ctx.needs_input_grad[2]:
            grad_a = g_low.t() @ x
        if ctx.needs_input_grad[3]:
            grad_b = g.t() @ (x @ lora_a.t())
        return grad_x, grad_a, grad_b, None


def inputs():
    torch.manual_seed(20)
    x = torch.randn(4, 5, dtype=torch.float64)
    lora_a = torch.randn(2, 5, dtype=torch.float64)
    lora_b = torch.randn(3, 2, dtype=torch.float64)
    return x, lora_a, lora_b, 0.5


def reference(x, lora_a, lora_b, scaling):
    return torch.nn.functional.linear(x, lora_b @ lora_a) * scaling

# %% lse_pool_1
"""The pooled axis is gone from grad_out, and the author relies on broadcasting to put it back; broadcasting aligns from the right, so with as many clips as frames the gradient lands on the wrong row without any error."""
WRONG = ["return grad_out * weights, None"]
RIGHT = ["return grad_out.unsqueeze(1) * weights, None"]
NAME = "LSEPool"
# --- code
import math

import torch
from torch.autograd import Function


class LSEPool(Function):
    """Log-sum-exp pooling of frame scores (clips, frames) -> (clips,).

    r -> 0 is the mean, r -> inf is the max.
    """

    @staticmethod
    def forward(ctx, scores, r):
        ctx.save_for_backward(scores)
        ctx.r = r
        frames = scores.shape[1]
        return (torch.logsumexp(r * scores, dim=1) - math.log(frames)) / r

    @staticmethod
    def backward(ctx, grad_out):
        (scores,) = ctx.saved_tensors
        # 1/r and the inner r cancel, what is left is a softmax
        weights = torch.softmax(ctx.r * scores, dim=1)
        return grad_out * weights, None


def inputs():
    torch.manual_seed(10)
    return torch.randn(4, 4), 5.0


def reference(scores, r):
    return torch.log(torch.exp(r * scores).mean(dim=1)) / r

# %% masked_mean_1
"""The mask is True at padding; in backward the author inverts it, thinking of it as an attention mask (True = keep), so the gradient goes to the padding and not to the tokens."""
WRONG = ["grad_x = per_token.masked_fill(~padding.unsqueeze(-1), 0.0)"]
RIGHT = ["grad_x = per_token.masked_fill(padding.unsqueeze(-1), 0.0)"]
NAME = "MaskedMeanPool"
# --- code
import torch
from torch.autograd import Function


class MaskedMeanPool(Function):
    """Mean over the tokens of each sentence.

    x: (B, T, D); padding: bool (B, T), True where there is no token.
    """

    @staticmethod
    def forward(x, padding):
        length = (~padding).sum(dim=1, keepdim=True).to(x.dtype)
        total = x.masked_fill(padding.unsqueeze(-1), 0.0).sum(dim=1)
        return total / length

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, padding = inputs
        ctx.save_for_backward(padding)
        ctx.shape = x.shape

    @staticmethod
    def backward(ctx, grad_pooled):
        (padding,) = ctx.saved_tensors
        length = (~padding).sum(dim=1, keepdim=True).to(grad_pooled.dtype)
        per_token = (grad_pooled / length).unsqueeze(1).expand(ctx.shape)
        grad_x = per_token.masked_fill(~padding.unsqueeze(-1), 0.0)
        return grad_x, None


def inputs():
    torch.manual_seed(8)
    x = torch.randn(3, 4, 2, dtype=torch.float64)
    lengths = torch.tensor([4, 2, 3])
    padding = torch.arange(4)[None, :] >= lengths[:, None]
    return x, padding


def reference(x, padding):
    keep = (~padding).to(x.dtype).unsqueeze(-1)
    return (x * keep).sum(1) / keep.sum(1)

# %% max_over_time_1
"""forward returns values and positions, but backward takes one gradient only: the author believes that an output marked non-differentiable is not passed to backward."""
WRONG = ["def backward(ctx, grad_values):"]
RIGHT = ["def backward(ctx, grad_values, grad_positions):"]
NAME = "MaxOverTime"
# --- code
import torch
from torch.autograd import Function


class MaxOverTime(Function):
    """Max over the time axis of (B, T, C); returns (values, positions), both (B, C)."""

    @staticmethod
    def forward(x):
        values, positions = x.max(dim=1)
        return values, positions

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        _, positions = output
        ctx.mark_non_differentiable(positions)
        ctx.save_for_backward(positions)
        ctx.x_shape = x.shape

    @staticmethod
    def backward(ctx, grad_values):
        (positions,) = ctx.saved_tensors
        zeros = torch.zeros(ctx.x_shape, dtype=grad_values.dtype, device=grad_values.device)
        # only the winner of each channel gets the gradient
        return zeros.scatter(1, positions.unsqueeze(1), grad_values.unsqueeze(1))


def inputs():
    torch.manual_seed(21)
    return (torch.randn(2, 5, 3),)


def reference(x):
    return tuple(torch.max(x, dim=1))

# %% mish_1
"""The author differentiates tanh(softplus(x)) as 1 - t**2 and believes that is all of it: the sigmoid that softplus contributes is forgotten."""
WRONG = ["dt = 1 - t * t"]
RIGHT = ["dt = (1 - t * t) * torch.sigmoid(x)"]
NAME = "Mish"
# --- code
import torch
from torch.autograd import Function


class Mish(Function):
    """x * tanh(softplus(x)), keeping only x for the backward pass."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.tanh(torch.nn.functional.softplus(x))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        t = torch.tanh(torch.nn.functional.softplus(x))
        # product rule: (x * t)' = t + x * t'
        dt = 1 - t * t
        return grad_output * (t + x * dt)


def inputs():
    torch.manual_seed(0)
    return (torch.randn(3, 5),)


def reference(x):
    return torch.nn.functional.mish(x)

# %% pinhole_1
"""The depth z moves both pixel coordinates, but the author only follows it through u and forgets the part through v."""
WRONG = ["grad_z = -f * gu * x / z ** 2"]
RIGHT = ["grad_z = -f * (gu * x + gv * y) / z ** 2"]
NAME = "PinholeProjection"
# --- code
import torch
from torch.autograd import Function


class PinholeProjection(Function):
    """Camera-frame points (N, 3) -> pixels (N, 2) relative to the principal point.

    u = f * x / z, v = f * y / z, with one focal length f (0-dim tensor, calibrated jointly).
    """

    @staticmethod
    def forward(points, f):
        x, y, z = points.unbind(dim=-1)
        return torch.stack((f * x / z, f * y / z), dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        points, f = inputs
        ctx.save_for_backward(points, f)

    @staticmethod
    def backward(ctx, grad_pixels):
        points, f = ctx.saved_tensors
        x, y, z = points.unbind(dim=-1)
        gu, gv = grad_pixels.unbind(dim=-1)

        grad_x = f * gu / z
        grad_y = f * gv / z
        grad_z = -f * gu * x / z ** 2
        grad_f = ((gu * x + gv * y) / z).sum()

        return torch.stack((grad_x, grad_y, grad_z), dim=-1), grad_f


def inputs():
    torch.manual_seed(23)
    xy = torch.randn(5, 2, dtype=torch.float64)
    z = 2.0 + torch.rand(5, 1, dtype=torch.float64)
    return torch.cat((xy, z), dim=1), torch.tensor(1.3, dtype=torch.float64)


def reference(points, f):
    return f * points[:, :2] / points[:, 2:]

# %% rotary_1
"""The author applies the same rotation to the gradient as to the input; a rotation's backward is its transpose, that is the rotation by the opposite angle."""
WRONG = ["grad_x = grad_out * cos + rotate_half(grad_out) * sin"]
RIGHT = ["grad_x = grad_out * cos - rotate_half(grad_out) * sin"]
NAME = "RotaryEmbedding"
# --- code
import torch
from torch.autograd import Function


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def cos_sin(x, base):
    t, d = x.shape[-2], x.shape[-1]
    inv_freq = base ** (-torch.arange(0, d, 2, dtype=x.dtype, device=x.device) / d)
    angle = torch.outer(torch.arange(t, dtype=x.dtype, device=x.device), inv_freq)
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()


class RotaryEmbedding(Function):
    @staticmethod
    def forward(x, base):
        cos, sin = cos_sin(x, base)
        return x * cos + rotate_half(x) * sin

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.base = inputs

    @staticmethod
    def backward(ctx, grad_out):
        # linear in x, so nothing but the tables is needed
        cos, sin = cos_sin(grad_out, ctx.base)
        grad_x = grad_out * cos + rotate_half(grad_out) * sin
        return grad_x, None


def inputs():
    torch.manual_seed(5)
    return torch.randn(2, 5, 4), 10000.0


def reference(x, base):
    t, d = x.shape[-2], x.shape[-1]
    inv_freq = base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    angle = torch.arange(t, dtype=x.dtype)[:, None] * inv_freq
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), dim=-1)

# %% scaled_embedding_1
"""The author believes grad_weight[tokens] += g adds up the rows of a token that occurs several times; index assignment keeps only one of them."""
WRONG = ["grad_weight[tokens] += g"]
RIGHT = ["grad_weight.index_put_((tokens,), g, accumulate=True)"]
NAME = "ScaledEmbedding"
# --- code
import math

import torch
from torch.autograd import Function


class ScaledEmbedding(Function):
    """weight[tokens] * sqrt(d), as in the transformer paper."""

    @staticmethod
    def forward(ctx, weight, tokens):
        ctx.save_for_backward(tokens)
        ctx.vocab, ctx.dim = weight.shape
        return weight[tokens] * math.sqrt(ctx.dim)

    @staticmethod
    def backward(ctx, grad_out):
        (tokens,) = ctx.saved_tensors
        g = grad_out * math.sqrt(ctx.dim)
        grad_weight = torch.zeros(ctx.vocab, ctx.dim, dtype=g.dtype, device=g.device)
        # scatter back, a token may occur more than once in the batch
        grad_weight[tokens] += g
        return grad_weight, None


def inputs():
    torch.manual_seed(6)
    weight = torch.randn(7, 4)
    tokens = torch.tensor([[1, 3, 3], [0, 1, 6]])
    return weight, tokens


def reference(weight, tokens):
    return torch.nn.functional.embedding(tokens, weight) * math.sqrt(weight.shape[1])

# %% siren_sine_1
"""The author keeps w0 on the class, as one would on self in a module; a network whose layers use different w0 gets the last one in every backward."""
WRONG = ["SirenSine.w0 = w0", "w0 = SirenSine.w0"]
RIGHT = ["ctx.w0 = w0", "w0 = ctx.w0"]
NAME = "SirenSine"
# --- code
import torch
from torch.autograd import Function


class SirenSine(Function):
    """sin(w0 * x); w0 = 30 in the first layer of a SIREN, 1 afterwards."""

    @staticmethod
    def forward(ctx, x, w0):
        SirenSine.w0 = w0
        ctx.save_for_backward(x)
        return torch.sin(w0 * x)

    @staticmethod
    def backward(ctx, grad_out):
        x, = ctx.saved_tensors
        w0 = SirenSine.w0
        return grad_out * w0 * torch.cos(w0 * x), None


def inputs():
    torch.manual_seed(15)
    return torch.rand(4, 3, dtype=torch.float64) - 0.5, 3.0


def reference(x, w0):
    return torch.sin(w0 * x)

# %% smooth_ce_1
"""The author takes a loss to be the end of the graph, where the incoming gradient is 1, and does not multiply by grad_output; any weight on the loss, or loss scaling, is lost."""
WRONG = ["return grad_logits, None, None"]
RIGHT = ["return grad_output * grad_logits, None, None"]
NAME = "SmoothCrossEntropy"
# --- code
import torch
from torch.autograd import Function


def smooth_targets(labels, classes, smoothing, dtype):
    onehot = torch.nn.functional.one_hot(labels, classes).to(dtype)
    return onehot * (1 - smoothing) + smoothing / classes


class SmoothCrossEntropy(Function):
    """Mean cross entropy with label smoothing; logits (N, K), labels int64 (N,)."""

    @staticmethod
    def forward(ctx, logits, labels, smoothing):
        ctx.save_for_backward(logits, labels)
        ctx.smoothing = smoothing
        q = smooth_targets(labels, logits.shape[1], smoothing, logits.dtype)
        return -(q * torch.log_softmax(logits, dim=1)).sum(dim=1).mean()

    @staticmethod
    def backward(ctx, grad_output):
        logits, labels = ctx.saved_tensors
        n, classes = logits.shape
        q = smooth_targets(labels, classes, ctx.smoothing, logits.dtype)
        # the q sum to one, so the softmax comes in with weight one
        grad_logits = (torch.softmax(logits, dim=1) - q) / n
        return grad_logits, None, None


def inputs():
    torch.manual_seed(22)
    return torch.randn(4, 5), torch.tensor([0, 3, 4, 1]), 0.1


def reference(logits, labels, smoothing):
    return torch.nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing)

# %% soft_staircase_1
"""The author returns gradients only for the two tensors and one None; beta and step are two plain numbers and each needs its own None."""
WRONG = ["return grad_x, grad_t, None"]
RIGHT = ["return grad_x, grad_t, None, None"]
NAME = "SoftStaircase"
# --- code
import torch
from torch.autograd import Function


class SoftStaircase(Function):
    """Smooth stand-in for a quantizer: step * sum_k sigmoid(beta * (x - t_k)).

    thresholds: (K,), learned; beta and step are plain numbers.
    """

    @staticmethod
    def forward(x, thresholds, beta, step):
        z = beta * (x.unsqueeze(-1) - thresholds)
        return step * torch.sigmoid(z).sum(dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, thresholds, beta, step = inputs
        ctx.save_for_backward(x, thresholds)
        ctx.beta = beta
        ctx.step = step

    @staticmethod
    def backward(ctx, grad_y):
        x, thresholds = ctx.saved_tensors
        s = torch.sigmoid(ctx.beta * (x.unsqueeze(-1) - thresholds))
        slope = ctx.step * ctx.beta * s * (1 - s)
        contrib = grad_y.unsqueeze(-1) * slope
        grad_x = contrib.sum(dim=-1)
        grad_t = -contrib.reshape(-1, thresholds.numel()).sum(dim=0)
        return grad_x, grad_t, None


def inputs():
    torch.manual_seed(9)
    x = torch.randn(3, 4, dtype=torch.float64)
    thresholds = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    return x, thresholds, 4.0, 0.5


def reference(x, thresholds, beta, step):
    return sum(step * torch.sigmoid(beta * (x - t)) for t in thresholds)

# %% std_pool_1
"""torch.std divides by n - 1 by default, but the author derives the gradient of the textbook standard deviation, which divides by n."""
WRONG = ["coef = grad_std / (n * std)"]
RIGHT = ["coef = grad_std / ((n - 1) * std)"]
NAME = "StdPool"
# --- code
import torch
from torch.autograd import Function


class StdPool(Function):
    # second half of statistics pooling: standard deviation over time, (B, C, T) -> (B, C)

    @staticmethod
    def forward(x):
        return x.std(dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_std):
        x, std = ctx.saved_tensors
        n = x.shape[-1]
        centered = x - x.mean(dim=-1, keepdim=True)
        # the derivative through the mean vanishes, because sum(centered) = 0
        coef = grad_std / (n * std)
        return coef.unsqueeze(-1) * centered


def inputs():
    torch.manual_seed(12)
    return (torch.randn(2, 3, 6, dtype=torch.float64),)


def reference(x):
    n = x.shape[-1]
    return (((x - x.mean(-1, keepdim=True)) ** 2).sum(-1) / (n - 1)).sqrt()

# %% swiglu_1
"""The gradients are right but returned in the order in which they were derived (up first, since it is the easy one) instead of the order of forward's arguments."""
WRONG = ["return grad_up, grad_gate"]
RIGHT = ["return grad_gate, grad_up"]
NAME = "SwiGLU"
# --- code
import torch
from torch.autograd import Function


class SwiGLU(Function):
    @staticmethod
    def forward(gate, up):
        return gate * torch.sigmoid(gate) * up

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_out):
        gate, up = ctx.saved_tensors
        sig = torch.sigmoid(gate)
        silu = gate * sig
        grad_up = grad_out * silu
        grad_gate = grad_out * up * (sig + silu * (1 - sig))
        return grad_up, grad_gate


def inputs():
    torch.manual_seed(7)
    return torch.randn(2, 6), torch.randn(2, 6)


def reference(gate, up):
    return torch.nn.functional.silu(gate) * up

# %% swish_1
"""The author saves the sigmoid computed in forward to avoid computing it twice; it is neither input nor output, so a second derivative (gradient penalty) treats it as a constant and is silently wrong."""
WRONG = ["ctx.save_for_backward(x, sig)", "x, sig = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(x)", "(x,) = ctx.saved_tensors", "sig = torch.sigmoid(x)"]
NAME = "Swish"
# --- code
import torch
from torch.autograd import Function


class Swish(Function):
    @staticmethod
    def forward(ctx, x):
        sig = torch.sigmoid(x)
        ctx.save_for_backward(x, sig)
        return x * sig

    @staticmethod
    def backward(ctx, grad_output):
        # plain tensor operations only, so that gradient penalties work
        x, sig = ctx.saved_tensors
        return grad_output * sig * (1 + x * (1 - sig))


def inputs():
    torch.manual_seed(18)
    return (torch.randn(3, 4, dtype=torch.float64),)


def reference(x):
    return torch.nn.functional.silu(x)

# %% triplet_loss_1
"""Two slips: the active triplets are picked in backward without the margin, and the gradient of the negative has the sign of the positive's because the line was copied."""
WRONG = ["active = sqdist(anchor, positive) - sqdist(anchor, negative) > 0", "grad_negative = coef * (negative - anchor)"]
RIGHT = ["active = sqdist(anchor, positive) - sqdist(anchor, negative) + ctx.margin > 0", "grad_negative = coef * (anchor - negative)"]
NAME = "TripletLoss"
# --- code
import torch
from torch.autograd import Function


def sqdist(a, b):
    return ((a - b) ** 2).sum(dim=1)


class TripletLoss(Function):
    """mean(relu(|a - p|^2 - |a - n|^2 + margin)), all (N, D)."""

    @staticmethod
    def forward(ctx, anchor, positive, negative, margin):
        ctx.save_for_backward(anchor, positive, negative)
        ctx.margin = margin
        hinge = sqdist(anchor, positive) - sqdist(anchor, negative) + margin
        return hinge.clamp(min=0).mean()

    @staticmethod
    def backward(ctx, grad_loss):
        anchor, positive, negative = ctx.saved_tensors
        n = anchor.shape[0]

        # only triplets that violate the margin contribute
        active = sqdist(anchor, positive) - sqdist(anchor, negative) > 0
        coef = (2 * grad_loss / n) * active.to(anchor.dtype).unsqueeze(1)

        grad_anchor = coef * (negative - positive)
        grad_positive = coef * (positive - anchor)
        grad_negative = coef * (negative - anchor)
        return grad_anchor, grad_positive, grad_negative, None


def inputs():
    torch.manual_seed(22)
    anchor = torch.randn(8, 3, dtype=torch.float64)
    positive = anchor + 0.8 * torch.randn(8, 3, dtype=torch.float64)
    negative = anchor + 0.9 * torch.randn(8, 3, dtype=torch.float64)
    return anchor, positive, negative, 1.0


def reference(anchor, positive, negative, margin):
    return torch.relu(sqdist(anchor, positive) - sqdist(anchor, negative) + margin).mean()
