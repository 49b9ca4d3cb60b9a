"""Mistakes: held out, layers, losses and quantizers. Each cell is a separate module; see benchmarks/repairs.py."""

# %% mish_1
"""The derivative of the softplus inside the tanh, which is sigmoid(x), is forgotten in the second term."""
WRONG = ["slope = t + x * (1 - t * t)"]
RIGHT = ["slope = t + x * (1 - t * t) * torch.sigmoid(x)"]
NAME = "MemoryEfficientMish"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class MemoryEfficientMish(Function):
    """x * tanh(softplus(x)); keeps only x and recomputes the rest in backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.tanh(F.softplus(x))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        t = torch.tanh(F.softplus(x))
        slope = t + x * (1 - t * t)
        return grad_output * slope


def inputs():
    torch.manual_seed(0)
    return (torch.randn(4, 5, dtype=torch.float64),)


def reference(x):
    return F.mish(x)

# %% softplus_1
"""Backward compares x itself with the threshold, but forward compares beta * x, so between threshold / beta and threshold backward uses the sigmoid although forward is linear there."""
WRONG = ["linear = x > ctx.threshold"]
RIGHT = ["linear = x * ctx.beta > ctx.threshold"]
NAME = "ThresholdedSoftplus"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class ThresholdedSoftplus(Function):
    """log(1 + exp(beta * x)) / beta, linear where beta * x is above the threshold."""

    @staticmethod
    def forward(x, beta, threshold):
        scaled = x * beta
        soft = torch.log1p(torch.exp(scaled)) / beta
        return torch.where(scaled > threshold, x, soft)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, beta, threshold = inputs
        ctx.save_for_backward(x)
        ctx.beta = beta
        ctx.threshold = threshold

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        linear = x > ctx.threshold
        slope = torch.sigmoid(x * ctx.beta)
        return torch.where(linear, grad_output, grad_output * slope), None, None


def inputs():
    torch.manual_seed(1)
    return torch.randn(5, 6, dtype=torch.float64) * 1.5, 2.0, 1.5


def reference(x, beta, threshold):
    return F.softplus(x, beta, threshold)

# %% elu_1
"""The slope of the negative part is alpha * exp(x) = y + alpha; the author wrote y + 1, which is right for alpha = 1 only."""
WRONG = ["negative = y + 1"]
RIGHT = ["negative = y + ctx.alpha"]
NAME = "ELUFromOutput"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class ELUFromOutput(Function):
    """ELU which saves only its output, so that the input can be freed."""

    @staticmethod
    def forward(ctx, x, alpha=1.0):
        y = torch.where(x > 0, x, alpha * torch.expm1(x))
        ctx.alpha = alpha
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        negative = y + 1
        slope = torch.where(y > 0, torch.ones_like(y), negative)
        return grad_output * slope, None


def inputs():
    torch.manual_seed(2)
    return torch.randn(3, 7, dtype=torch.float64), 0.7


def reference(x, alpha):
    return F.elu(x, alpha)

# %% focal_1
"""The derivative of the modulating factor (1 - p)^gamma with respect to log p lacks the factor p = dp / d log p."""
WRONG = ["d_logp = ctx.gamma * one_minus ** (ctx.gamma - 1) * logp - one_minus**ctx.gamma"]
RIGHT = ["d_logp = ctx.gamma * one_minus ** (ctx.gamma - 1) * p * logp - one_minus**ctx.gamma"]
NAME = "MulticlassFocalLoss"
# --- code
import torch
from torch.autograd import Function


class MulticlassFocalLoss(Function):
    """Mean of -(1 - p_t)^gamma log p_t over the batch; logits (N, C), target (N,)."""

    @staticmethod
    def forward(ctx, logits, target, gamma):
        log_probs = logits.log_softmax(dim=1)
        logp = log_probs.gather(1, target[:, None])
        ctx.save_for_backward(log_probs, target)
        ctx.gamma = gamma
        return -((1 - logp.exp()) ** gamma * logp).mean()

    @staticmethod
    def backward(ctx, grad_output):
        log_probs, target = ctx.saved_tensors
        logp = log_probs.gather(1, target[:, None])
        p = logp.exp()
        one_minus = 1 - p
        d_logp = ctx.gamma * one_minus ** (ctx.gamma - 1) * logp - one_minus**ctx.gamma
        # d logp / d logits = onehot - softmax
        d_logits = -log_probs.exp()
        d_logits.scatter_add_(1, target[:, None], torch.ones_like(p))
        grad_logits = grad_output * d_logp * d_logits / target.numel()
        return grad_logits, None, None


def inputs():
    torch.manual_seed(3)
    return torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 3, 1, 1, 2, 0]), 2.0


def reference(logits, target, gamma):
    logp = -torch.nn.functional.cross_entropy(logits, target, reduction="none")
    return -((1 - logp.exp()) ** gamma * logp).mean()

# %% dice_1
"""Two slips: backward rebuilds the numerator of the Dice ratio without the smoothing constant, and it forgets the 1/B of the mean over the batch."""
WRONG = ["numerator = 2 * (prob * target).sum(dim=1, keepdim=True)", "grad_prob = -grad_output * d_ratio"]
RIGHT = ["numerator = 2 * (prob * target).sum(dim=1, keepdim=True) + ctx.smooth", "grad_prob = -grad_output * d_ratio / prob.shape[0]"]
NAME = "SoftDiceLoss"
# --- code
import torch
from torch.autograd import Function


class SoftDiceLoss(Function):
    """1 - Dice of sigmoid(logits) and target, mean over the batch; both (B, N)."""

    @staticmethod
    def forward(ctx, logits, target, smooth):
        prob = torch.sigmoid(logits)
        overlap = 2 * (prob * target).sum(dim=1) + smooth
        total = prob.sum(dim=1) + target.sum(dim=1) + smooth
        ctx.save_for_backward(prob, target)
        ctx.smooth = smooth
        return (1 - overlap / total).mean()

    @staticmethod
    def backward(ctx, grad_output):
        prob, target = ctx.saved_tensors
        numerator = 2 * (prob * target).sum(dim=1, keepdim=True)
        denominator = (prob + target).sum(dim=1, keepdim=True) + ctx.smooth
        d_ratio = (2 * target * denominator - numerator) / denominator**2
        grad_prob = -grad_output * d_ratio
        return grad_prob * prob * (1 - prob), None, None


def inputs():
    torch.manual_seed(4)
    logits = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    target = (torch.rand(3, 6) > 0.5).double()
    return logits, target, 1.0


def reference(logits, target, smooth):
    prob = logits.sigmoid()
    dice = (2 * (prob * target).sum(1) + smooth) / ((prob + target).sum(1) + smooth)
    return 1 - dice.mean()

# %% label_smoothing_1
"""Two slips: the mean of forward is over the tokens that are not ignored, but backward divides by all tokens, and backward does not zero the rows of the ignored tokens."""
WRONG = ["count = target.numel()", "grad = log_probs.exp() - soft"]
RIGHT = ["count = valid.sum()", "grad = (log_probs.exp() - soft) * valid[:, None]"]
NAME = "LabelSmoothingLoss"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class LabelSmoothingLoss(Function):
    """Cross entropy with smoothed labels; tokens with target == ignore_index do not count."""

    @staticmethod
    def forward(ctx, logits, target, smoothing, ignore_index):
        num_classes = logits.shape[1]
        log_probs = F.log_softmax(logits, dim=1)
        valid = target != ignore_index
        safe = target.masked_fill(~valid, 0)
        soft = torch.full_like(log_probs, smoothing / num_classes)
        soft.scatter_(1, safe[:, None], 1 - smoothing + smoothing / num_classes)
        loss = -(soft * log_probs).sum(dim=1)
        ctx.save_for_backward(log_probs, soft, target)
        ctx.ignore_index = ignore_index
        return loss[valid].mean()

    @staticmethod
    def backward(ctx, grad_output):
        log_probs, soft, target = ctx.saved_tensors
        valid = target != ctx.ignore_index
        count = target.numel()
        grad = log_probs.exp() - soft
        return grad_output * grad / count, None, None, None


def inputs():
    torch.manual_seed(5)
    target = torch.tensor([2, -100, 0, 1, -100, 3])
    return torch.randn(6, 4, dtype=torch.float64), target, 0.1, -100


def reference(logits, target, smoothing, ignore_index):
    return F.cross_entropy(logits, target, label_smoothing=smoothing, ignore_index=ignore_index)

# %% triplet_1
"""The distance to the negative is subtracted in the loss, so its gradient with respect to the negative is +unit_n; the author returns it with a minus, like that of the positive."""
WRONG = ["grad_negative = -scale * unit_n"]
RIGHT = ["grad_negative = scale * unit_n"]
NAME = "TripletMargin"
# --- code
import torch
from torch.autograd import Function


class TripletMargin(Function):
    """mean(relu(|a - p| - |a - n| + margin)); all (N, D)."""

    @staticmethod
    def forward(ctx, anchor, positive, negative, margin):
        diff_p = anchor - positive
        diff_n = anchor - negative
        dist_p = diff_p.norm(dim=1, keepdim=True)
        dist_n = diff_n.norm(dim=1, keepdim=True)
        hinge = dist_p - dist_n + margin
        ctx.save_for_backward(diff_p, diff_n, dist_p, dist_n, hinge)
        return hinge.clamp(min=0).mean()

    @staticmethod
    def backward(ctx, grad_output):
        diff_p, diff_n, dist_p, dist_n, hinge = ctx.saved_tensors
        active = (hinge > 0).to(diff_p.dtype)
        scale = grad_output * active / hinge.numel()
        unit_p = diff_p / dist_p
        unit_n = diff_n / dist_n
        grad_anchor = scale * (unit_p - unit_n)
        grad_positive = -scale * unit_p
        grad_negative = -scale * unit_n
        return grad_anchor, grad_positive, grad_negative, None


def inputs():
    torch.manual_seed(6)
    return (*(torch.randn(5, 3, dtype=torch.float64) for _ in range(3)), 0.8)


def reference(anchor, positive, negative, margin):
    return torch.nn.functional.triplet_margin_loss(anchor, positive, negative, margin, eps=0.0)

# %% contrastive_1
"""Two slips: the clamp at zero of the negative part is forgotten in backward, so far pairs are pushed too, and the derivative of its square lacks the factor 2."""
WRONG = ["push = -(ctx.margin - dist)", "coeff = same * 2 * dist + (1 - same) * push"]
RIGHT = ["push = -(ctx.margin - dist).clamp(min=0)", "coeff = same * 2 * dist + (1 - same) * 2 * push"]
NAME = "ContrastiveLoss"
# --- code
import torch
from torch.autograd import Function


class ContrastiveLoss(Function):
    """Hadsell et al.: same * d^2 + (1 - same) * max(0, margin - d)^2, mean over pairs."""

    @staticmethod
    def forward(ctx, left, right, same, margin):
        diff = left - right
        dist = diff.pow(2).sum(dim=1).sqrt()
        ctx.save_for_backward(diff, dist, same)
        ctx.margin = margin
        hinge = (margin - dist).clamp(min=0)
        return (same * dist**2 + (1 - same) * hinge**2).mean()

    @staticmethod
    def backward(ctx, grad_output):
        diff, dist, same = ctx.saved_tensors
        push = -(ctx.margin - dist)
        coeff = same * 2 * dist + (1 - same) * push
        coeff = grad_output * coeff / dist / dist.numel()
        grad_left = coeff[:, None] * diff
        return grad_left, -grad_left, None, None


def inputs():
    torch.manual_seed(7)
    left = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    right = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    return left, right, torch.tensor([1.0, 0, 0, 1, 0, 0], dtype=torch.float64), 2.0


def reference(left, right, same, margin):
    dist = (left - right).norm(dim=1)
    return (same * dist**2 + (1 - same) * (margin - dist).relu() ** 2).mean()

# %% huber_1
"""In the linear branch the derivative is delta * sign(error); the author forgot delta."""
WRONG = ["slope = torch.where(error.abs() <= ctx.delta, error, error.sign())"]
RIGHT = ["slope = torch.where(error.abs() <= ctx.delta, error, ctx.delta * error.sign())"]
NAME = "WeightedHuber"
# --- code
import torch
from torch.autograd import Function


class WeightedHuber(Function):
    """Sum of weight * huber(pred - target), divided by the sum of the weights."""

    @staticmethod
    def forward(ctx, pred, target, weight, delta):
        error = pred - target
        small = error.abs() <= delta
        loss = torch.where(small, 0.5 * error**2, delta * (error.abs() - 0.5 * delta))
        ctx.save_for_backward(error, weight)
        ctx.delta = delta
        return (weight * loss).sum() / weight.sum()

    @staticmethod
    def backward(ctx, grad_output):
        error, weight = ctx.saved_tensors
        slope = torch.where(error.abs() <= ctx.delta, error, error.sign())
        grad_pred = grad_output * weight * slope / weight.sum()
        return grad_pred, -grad_pred, None, None


def inputs():
    torch.manual_seed(8)
    pred = torch.randn(8, dtype=torch.float64, requires_grad=True)
    target = torch.randn(8, dtype=torch.float64, requires_grad=True)
    return pred, target, torch.rand(8, dtype=torch.float64) + 0.2, 0.6


def reference(pred, target, weight, delta):
    loss = torch.nn.functional.huber_loss(pred, target, reduction="none", delta=delta)
    return (weight * loss).sum() / weight.sum()

# %% clip_loss_1
"""The loss averages a cross entropy over the rows and one over the columns, but backward takes the softmax over the rows twice."""
WRONG = ["by_text = logits.softmax(dim=1)"]
RIGHT = ["by_text = logits.softmax(dim=0)"]
NAME = "SymmetricInfoNCE"
# --- code
import torch
from torch.autograd import Function


class SymmetricInfoNCE(Function):
    """CLIP loss of image and text embeddings (N, D), matching pairs on the diagonal."""

    @staticmethod
    def forward(image, text, temperature):
        logits = image @ text.t() / temperature
        rows = logits.log_softmax(dim=1).diagonal()
        cols = logits.log_softmax(dim=0).diagonal()
        return -0.5 * (rows.mean() + cols.mean())

    @staticmethod
    def setup_context(ctx, inputs, output):
        image, text, temperature = inputs
        ctx.save_for_backward(image, text)
        ctx.temperature = temperature

    @staticmethod
    def backward(ctx, grad_output):
        image, text = ctx.saved_tensors
        logits = image @ text.t() / ctx.temperature
        eye = torch.eye(len(image), dtype=image.dtype, device=image.device)
        by_image = logits.softmax(dim=1)
        by_text = logits.softmax(dim=1)
        d_logits = 0.5 * (by_image + by_text - 2 * eye) / len(image)
        d_logits = grad_output * d_logits / ctx.temperature
        return d_logits @ text, d_logits.t() @ image, None


def inputs():
    torch.manual_seed(9)
    return torch.randn(4, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64), 0.5


def reference(image, text, temperature):
    logits = image @ text.t() / temperature
    labels = torch.arange(len(image))
    ce = torch.nn.functional.cross_entropy
    return 0.5 * (ce(logits, labels) + ce(logits.t(), labels))

# %% bce_pos_weight_1
"""The author weights the whole term sigmoid(x) - target, which is right for hard labels 0 and 1 only; with soft labels the target is weighted by pos_weight and the sigmoid by 1 + (pos_weight - 1) * target."""
WRONG = ["grad = weight * (torch.sigmoid(logits) - target)"]
RIGHT = ["grad = weight * torch.sigmoid(logits) - pos_weight * target"]
NAME = "BCEWithPosWeight"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class BCEWithPosWeight(Function):
    """Mean binary cross entropy of logits (N, C) with a weight (C,) for the positives."""

    @staticmethod
    def forward(ctx, logits, target, pos_weight):
        weight = 1 + (pos_weight - 1) * target
        loss = (1 - target) * logits + weight * F.softplus(-logits)
        ctx.save_for_backward(logits, target, pos_weight)
        return loss.mean()

    @staticmethod
    def backward(ctx, grad_output):
        logits, target, pos_weight = ctx.saved_tensors
        weight = 1 + (pos_weight - 1) * target
        grad = weight * (torch.sigmoid(logits) - target)
        return grad_output * grad / logits.numel(), None, None


def inputs():
    torch.manual_seed(10)
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    target = torch.rand(4, 3, dtype=torch.float64)
    return logits, target, torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)


def reference(logits, target, pos_weight):
    return F.binary_cross_entropy_with_logits(logits, target, pos_weight=pos_weight)

# %% layer_norm_1
"""The two mean terms are taken of grad_output instead of grad_output * weight, the gradient of the normalized values."""
WRONG = ["mean_g = grad_output.mean(dim=-1, keepdim=True)", "mean_gx = (grad_output * xhat).mean(dim=-1, keepdim=True)"]
RIGHT = ["mean_g = g.mean(dim=-1, keepdim=True)", "mean_gx = (g * xhat).mean(dim=-1, keepdim=True)"]
NAME = "FusedLayerNorm"
# --- code
import torch
from torch.autograd import Function


class FusedLayerNorm(Function):
    """Layer normalization over the last dimension of x (B, T, D) with weight and bias (D,)."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        mean = x.mean(dim=-1, keepdim=True)
        var = x.var(dim=-1, unbiased=False, keepdim=True)
        rstd = torch.rsqrt(var + eps)
        xhat = (x - mean) * rstd
        ctx.save_for_backward(xhat, rstd, weight)
        return xhat * weight + bias

    @staticmethod
    def backward(ctx, grad_output):
        xhat, rstd, weight = ctx.saved_tensors
        g = grad_output * weight
        mean_g = grad_output.mean(dim=-1, keepdim=True)
        mean_gx = (grad_output * xhat).mean(dim=-1, keepdim=True)
        grad_x = rstd * (g - mean_g - xhat * mean_gx)
        grad_weight = (grad_output * xhat).sum(dim=(0, 1))
        grad_bias = grad_output.sum(dim=(0, 1))
        return grad_x, grad_weight, grad_bias, None


def inputs():
    torch.manual_seed(11)
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    return x, torch.rand(5, dtype=torch.float64) + 0.5, torch.randn(5, dtype=torch.float64), 1e-5


def reference(x, weight, bias, eps):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)

# %% instance_norm_1
"""Forward divides by the unbiased standard deviation, the default of var, so the sum in the variance term must be divided by n - 1, not by n."""
WRONG = ["proj = (grad_output * xhat).sum(dim=(2, 3), keepdim=True) / n"]
RIGHT = ["proj = (grad_output * xhat).sum(dim=(2, 3), keepdim=True) / (n - 1)"]
NAME = "InstanceNorm2dFn"
# --- code
import torch
from torch.autograd import Function


class InstanceNorm2dFn(Function):
    """Instance normalization of (B, C, H, W) without affine parameters."""

    @staticmethod
    def forward(ctx, x, eps=1e-5):
        mean = x.mean(dim=(2, 3), keepdim=True)
        var = x.var(dim=(2, 3), keepdim=True)
        inv_std = 1.0 / torch.sqrt(var + eps)
        xhat = (x - mean) * inv_std
        ctx.save_for_backward(xhat, inv_std)
        return xhat

    @staticmethod
    def backward(ctx, grad_output):
        xhat, inv_std = ctx.saved_tensors
        n = xhat.shape[2] * xhat.shape[3]
        centered = grad_output - grad_output.mean(dim=(2, 3), keepdim=True)
        proj = (grad_output * xhat).sum(dim=(2, 3), keepdim=True) / n
        return inv_std * (centered - xhat * proj), None


def inputs():
    torch.manual_seed(12)
    return (torch.randn(2, 2, 3, 2, dtype=torch.float64),)


def reference(x, eps=1e-5):
    mean = x.mean(dim=(2, 3), keepdim=True)
    return (x - mean) / (x.var(dim=(2, 3), keepdim=True) + eps).sqrt()

# %% rms_norm_1
"""The mean square is a mean over D elements, so its term in grad_x is a mean as well; the author wrote the sum."""
WRONG = ["dot = (g * normed).sum(dim=-1, keepdim=True)"]
RIGHT = ["dot = (g * normed).mean(dim=-1, keepdim=True)"]
NAME = "RMSNormFunction"
# --- code
import torch
from torch.autograd import Function


class RMSNormFunction(Function):
    """x / rms(x) * weight over the last dimension, as in LLaMA."""

    @staticmethod
    def forward(x, weight, eps):
        inv_rms = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
        return x * inv_rms * weight, inv_rms

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, eps = inputs
        _, inv_rms = output
        ctx.mark_non_differentiable(inv_rms)
        ctx.save_for_backward(x, weight, inv_rms)

    @staticmethod
    def backward(ctx, grad_output, _grad_inv_rms):
        x, weight, inv_rms = ctx.saved_tensors
        normed = x * inv_rms
        g = grad_output * weight
        dot = (g * normed).sum(dim=-1, keepdim=True)
        grad_x = inv_rms * (g - normed * dot)
        grad_weight = (grad_output * normed).flatten(0, -2).sum(dim=0)
        return grad_x, grad_weight, None


def inputs():
    torch.manual_seed(13)
    return torch.randn(2, 3, 4, dtype=torch.float64), torch.rand(4, dtype=torch.float64) + 0.5, 1e-6


def reference(x, weight, eps):
    inv_rms = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    return x * inv_rms * weight, inv_rms.detach()

# %% weight_norm_1
"""The norm is taken per row (dim=1), but backward sums the projection over dim=0, which broadcasts without an error."""
WRONG = ["along = (grad_w * direction).sum(dim=0, keepdim=True)"]
RIGHT = ["along = (grad_w * direction).sum(dim=1, keepdim=True)"]
NAME = "WeightNormLinear"
# --- code
import torch
from torch.autograd import Function


class WeightNormLinear(Function):
    """y = x @ (gain * v / |v|)^T with one norm per output row; v (out, in), gain (out, 1)."""

    @staticmethod
    def forward(ctx, x, v, gain):
        norm = v.norm(dim=1, keepdim=True)
        direction = v / norm
        ctx.save_for_backward(x, direction, norm, gain)
        return x @ (gain * direction).t()

    @staticmethod
    def backward(ctx, grad_output):
        x, direction, norm, gain = ctx.saved_tensors
        grad_w = grad_output.t() @ x
        grad_x = grad_output @ (gain * direction)
        grad_gain = (grad_w * direction).sum(dim=1, keepdim=True)
        along = (grad_w * direction).sum(dim=0, keepdim=True)
        grad_v = gain / norm * (grad_w - direction * along)
        return grad_x, grad_v, grad_gain


def inputs():
    torch.manual_seed(14)
    return (
        torch.randn(5, 4, dtype=torch.float64),
        torch.randn(3, 4, dtype=torch.float64),
        torch.rand(3, 1, dtype=torch.float64) + 0.5,
    )


def reference(x, v, gain):
    return torch.nn.functional.linear(x, gain * v / v.norm(dim=1, keepdim=True))

# %% lora_1
"""Two slips: grad_a lacks the scaling of the low rank branch, and grad_x lacks the path through the low rank branch."""
WRONG = ["grad_x = g @ weight", "grad_a = (g @ b).t() @ flat"]
RIGHT = ["grad_x = g @ weight + ctx.scaling * (g @ b) @ a", "grad_a = ctx.scaling * (g @ b).t() @ flat"]
NAME = "LoRALinear"
# --- code
import torch
from torch.autograd import Function


class LoRALinear(Function):
    """x @ W^T + scaling * x @ A^T @ B^T. W (out, in) is frozen, A (r, in), B (out, r)."""

    @staticmethod
    def forward(ctx, x, weight, a, b, scaling):
        ctx.save_for_backward(x, weight, a, b)
        ctx.scaling = scaling
        return x @ weight.t() + scaling * (x @ a.t()) @ b.t()

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, a, b = ctx.saved_tensors
        flat = x.reshape(-1, x.shape[-1])
        g = grad_output.reshape(-1, grad_output.shape[-1])
        grad_x = g @ weight
        grad_a = (g @ b).t() @ flat
        grad_b = ctx.scaling * g.t() @ (flat @ a.t())
        return grad_x.view_as(x), None, grad_a, grad_b, None


def inputs():
    torch.manual_seed(15)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, 4, dtype=torch.float64)
    a = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    b = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    return x, weight, a, b, 0.5


def reference(x, weight, a, b, scaling):
    return torch.nn.functional.linear(x, weight + scaling * b @ a)

# %% causal_conv_1
"""The gradient of a correlation with respect to its input is a correlation with the flipped kernel; the author pads on the right, but does not flip."""
WRONG = ["grad_x = F.conv1d(padded_g, weight[:, None], groups=c)"]
RIGHT = ["grad_x = F.conv1d(padded_g, weight.flip(1)[:, None], groups=c)"]
NAME = "CausalDepthwiseConv"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class CausalDepthwiseConv(Function):
    """The short convolution of Mamba: x (B, C, T), weight (C, K), bias (C,)."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        c, k = weight.shape
        padded = F.pad(x, (k - 1, 0))
        ctx.save_for_backward(padded, weight)
        return F.conv1d(padded, weight[:, None], bias, groups=c)

    @staticmethod
    def backward(ctx, grad_output):
        padded, weight = ctx.saved_tensors
        c, k = weight.shape
        padded_g = F.pad(grad_output, (0, k - 1))
        grad_x = F.conv1d(padded_g, weight[:, None], groups=c)
        windows = padded.unfold(2, k, 1)  # B, C, T, K
        grad_weight = torch.einsum("bct,bctk->ck", grad_output, windows)
        grad_bias = grad_output.sum(dim=(0, 2))
        return grad_x, grad_weight, grad_bias


def inputs():
    torch.manual_seed(16)
    return (
        torch.randn(2, 3, 6, dtype=torch.float64),
        torch.randn(3, 3, dtype=torch.float64),
        torch.randn(3, dtype=torch.float64),
    )


def reference(x, weight, bias):
    return F.conv1d(F.pad(x, (2, 0)), weight[:, None], bias, groups=3)

# %% embedding_bag_1
"""An index that occurs in several places keeps only the last of its gradients, because they are assigned instead of accumulated."""
WRONG = ["grad_table[indices] = per_index"]
RIGHT = ["grad_table.index_add_(0, indices, per_index)"]
NAME = "MeanEmbeddingBag"
# --- code
import torch
from torch.autograd import Function


class MeanEmbeddingBag(Function):
    """Mean of the rows of table (V, D) per bag; bag_ids says which bag each index is in."""

    @staticmethod
    def forward(ctx, table, indices, bag_ids, num_bags):
        rows = table[indices]
        out = torch.zeros(num_bags, table.shape[1], dtype=table.dtype, device=table.device)
        out.index_add_(0, bag_ids, rows)
        counts = torch.bincount(bag_ids, minlength=num_bags).clamp(min=1)
        ctx.save_for_backward(indices, bag_ids, counts)
        ctx.vocab = table.shape[0]
        return out / counts[:, None]

    @staticmethod
    def backward(ctx, grad_output):
        indices, bag_ids, counts = ctx.saved_tensors
        per_index = (grad_output / counts[:, None])[bag_ids]
        grad_table = grad_output.new_zeros(ctx.vocab, grad_output.shape[1])
        grad_table[indices] = per_index
        return grad_table, None, None, None


def inputs():
    torch.manual_seed(17)
    table = torch.randn(6, 3, dtype=torch.float64)
    return table, torch.tensor([1, 4, 1, 0, 4, 5, 2]), torch.tensor([0, 0, 1, 1, 1, 2, 2]), 3


def reference(table, indices, bag_ids, num_bags):
    offsets = torch.searchsorted(bag_ids, torch.arange(num_bags))
    return torch.nn.functional.embedding_bag(indices, table, offsets, mode="mean")

# %% attention_1
"""The row sums of the softmax backward are taken without keepdim, so they broadcast over the columns; with as many queries as keys nothing complains."""
WRONG = ["row = (dp * p).sum(dim=-1)"]
RIGHT = ["row = (dp * p).sum(dim=-1, keepdim=True)"]
NAME = "MaskedAttention"
# --- code
import torch
from torch.autograd import Function


class MaskedAttention(Function):
    """softmax(q k^T / sqrt(d) + mask) v for one sequence: q, k, v (T, d), mask (T, T) additive."""

    @staticmethod
    def forward(ctx, q, k, v, mask):
        scale = q.shape[-1] ** -0.5
        scores = q @ k.t() * scale + mask
        p = torch.softmax(scores, dim=-1)
        ctx.save_for_backward(q, k, v, p)
        ctx.scale = scale
        return p @ v

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, p = ctx.saved_tensors
        grad_v = p.t() @ grad_output
        dp = grad_output @ v.t()
        row = (dp * p).sum(dim=-1)
        ds = p * (dp - row)
        grad_q = ds @ k * ctx.scale
        grad_k = ds.t() @ q * ctx.scale
        return grad_q, grad_k, grad_v, None


def inputs():
    torch.manual_seed(18)
    q, k, v = (torch.randn(4, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = torch.zeros(4, 4, dtype=torch.float64)
    mask[:, 3] = -2.0
    return q, k, v, mask


def reference(q, k, v, mask):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

# %% rotary_1
"""The gradient of a rotation is the rotation back; the author rotates grad_output by the same angle as forward."""
WRONG = ["grad_first = g1 * cos - g2 * sin", "grad_second = g2 * cos + g1 * sin"]
RIGHT = ["grad_first = g1 * cos + g2 * sin", "grad_second = g2 * cos - g1 * sin"]
NAME = "RotaryEmbedding"
# --- code
import torch
from torch.autograd import Function


class RotaryEmbedding(Function):
    """Rotates the two halves of x (B, T, D) by an angle per position and frequency."""

    @staticmethod
    def forward(ctx, x, base):
        half = x.shape[-1] // 2
        freq = base ** (-torch.arange(half, dtype=x.dtype, device=x.device) / half)
        pos = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        angle = pos[:, None] * freq
        cos, sin = angle.cos(), angle.sin()
        ctx.save_for_backward(cos, sin)
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)

    @staticmethod
    def backward(ctx, grad_output):
        cos, sin = ctx.saved_tensors
        g1, g2 = grad_output.chunk(2, dim=-1)
        grad_first = g1 * cos - g2 * sin
        grad_second = g2 * cos + g1 * sin
        return torch.cat([grad_first, grad_second], dim=-1), None


def inputs():
    torch.manual_seed(19)
    return torch.randn(2, 4, 6, dtype=torch.float64), 100.0


def reference(x, base):
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, dtype=x.dtype) / half)
    turn = torch.polar(torch.ones(x.shape[1], half, dtype=x.dtype), torch.arange(x.shape[1])[:, None] * freq)
    y = torch.complex(x[..., :half], x[..., half:]) * turn
    return torch.cat([y.real, y.imag], dim=-1)

# %% drop_path_1
"""Backward draws the mask again from the same seed, but one number for each element instead of one for each sample, so it is another mask."""
WRONG = ["mask = keep_mask(grad_output.shape, ctx.p, ctx.seed)"]
RIGHT = ["mask = keep_mask(ctx.mask_shape, ctx.p, ctx.seed)"]
NAME = "DropPath"
# --- code
import torch
from torch.autograd import Function


def keep_mask(shape, p, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator) >= p


class DropPath(Function):
    """Stochastic depth: x + branch of a sample, or x alone; the mask is drawn again in backward."""

    @staticmethod
    def forward(ctx, x, branch, p, seed):
        ctx.mask_shape = (x.shape[0],) + (1,) * (x.dim() - 1)
        ctx.p = p
        ctx.seed = seed
        mask = keep_mask(ctx.mask_shape, p, seed)
        return x + branch * mask / (1 - p)

    @staticmethod
    def backward(ctx, grad_output):
        mask = keep_mask(grad_output.shape, ctx.p, ctx.seed)
        grad_branch = grad_output * mask / (1 - ctx.p)
        return grad_output, grad_branch, None, None


def inputs():
    torch.manual_seed(20)
    return torch.randn(4, 2, 3, dtype=torch.float64), torch.randn(4, 2, 3, dtype=torch.float64), 0.5, 7


def reference(x, branch, p, seed):
    mask = torch.rand(x.shape[0], 1, 1, generator=torch.Generator().manual_seed(seed)) >= p
    return x + branch * mask.to(x.dtype) / (1 - p)

# %% fake_quant_1
"""The straight-through gradient belongs to the values inside the quantization range only; the author passes it for the clipped values too."""
WRONG = ["return grad_output.clone(), None, None, None, None"]
RIGHT = ["return grad_output * inside, None, None, None, None"]
NAME = "FakeQuantize"
# --- code
import torch
from autograd_doctor import declare
from torch.autograd import Function


def clipped(x, scale, zero_point, qmin, qmax):
    return x.clamp((qmin - zero_point) * scale, (qmax - zero_point) * scale)


@declare(surrogate=clipped)
class FakeQuantize(Function):
    """Rounds x to an integer grid; the gradient is that of the clamp."""

    @staticmethod
    def forward(ctx, x, scale, zero_point, qmin, qmax):
        q = torch.round(x / scale) + zero_point
        ctx.save_for_backward(x)
        ctx.low = (qmin - zero_point) * scale
        ctx.high = (qmax - zero_point) * scale
        return (q.clamp(qmin, qmax) - zero_point) * scale

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        inside = (x >= ctx.low) & (x <= ctx.high)
        return grad_output.clone(), None, None, None, None


def inputs():
    torch.manual_seed(21)
    return torch.randn(4, 5, dtype=torch.float64), 0.2, 2, 0, 7


def reference(x, scale, zero_point, qmin, qmax):
    soft = clipped(x, scale, zero_point, qmin, qmax)
    hard = ((torch.round(x / scale) + zero_point).clamp(qmin, qmax) - zero_point) * scale
    return soft + (hard - soft).detach()

# %% lsq_1
"""Inside the range, the gradient of the step size is round(v) - v, because x / step depends on the step too; the author forgot the - v."""
WRONG = ["d_step = torch.where(below, ctx.qmin, torch.where(above, ctx.qmax, v.round()))"]
RIGHT = ["d_step = torch.where(below, ctx.qmin, torch.where(above, ctx.qmax, v.round() - v))"]
NAME = "LearnedStepQuantizer"
# --- code
import torch
from autograd_doctor import declare
from torch.autograd import Function


def straight_through(x, step, qmin, qmax):
    v = (x / step).clamp(qmin, qmax)
    return (v + (v.round() - v).detach()) * step


@declare(surrogate=straight_through)
class LearnedStepQuantizer(Function):
    """LSQ (Esser et al.): round(clamp(x / step)) * step, with a gradient for the step too."""

    @staticmethod
    def forward(ctx, x, step, qmin, qmax):
        v = x / step
        ctx.save_for_backward(v)
        ctx.qmin = float(qmin)
        ctx.qmax = float(qmax)
        return v.clamp(qmin, qmax).round() * step

    @staticmethod
    def backward(ctx, grad_output):
        (v,) = ctx.saved_tensors
        below = v < ctx.qmin
        above = v > ctx.qmax
        grad_x = grad_output * ~(below | above)
        d_step = torch.where(below, ctx.qmin, torch.where(above, ctx.qmax, v.round()))
        grad_step = (grad_output * d_step).sum()
        return grad_x, grad_step, None, None


def inputs():
    torch.manual_seed(22)
    return torch.randn(3, 6, dtype=torch.float64), torch.tensor(0.4, dtype=torch.float64), -3, 2


def reference(x, step, qmin, qmax):
    return straight_through(x, step, qmin, qmax)

# %% binary_ste_1
"""Backward zeroes grad_output in place, which belongs to autograd and may be shared with other branches."""
WRONG = ["grad_input = grad_output"]
RIGHT = ["grad_input = grad_output.clone()"]
NAME = "BinarizeSTE"
# --- code
import torch
import torch.nn.functional as F
from autograd_doctor import declare
from torch.autograd import Function


@declare(surrogate=F.hardtanh)
class BinarizeSTE(Function):
    """Sign of the activations, with the gradient of hardtanh (BinaryNet)."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_input = grad_output
        grad_input[x.abs() > 1] = 0
        return grad_input


def inputs():
    torch.manual_seed(23)
    return (torch.randn(4, 5, dtype=torch.float64),)


def reference(x):
    soft = F.hardtanh(x)
    return soft + (torch.where(x >= 0, 1.0, -1.0).to(x.dtype) - soft).detach()

# %% grad_reversal_1
"""The strength is stored on the class instead of on ctx, so two calls with different strengths share the last one."""
WRONG = ["GradientReversal.strength = strength", "return -GradientReversal.strength * grad_output, None"]
RIGHT = ["ctx.strength = strength", "return -ctx.strength * grad_output, None"]
NAME = "GradientReversal"
# --- code
import torch
from autograd_doctor import declare
from torch.autograd import Function


def reversed_line(x, strength):
    return -strength * x


@declare(surrogate=reversed_line)
class GradientReversal(Function):
    """Identity whose gradient is multiplied by -strength (domain-adversarial training)."""

    @staticmethod
    def forward(ctx, x, strength):
        GradientReversal.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return -GradientReversal.strength * grad_output, None


def inputs():
    torch.manual_seed(24)
    return torch.randn(3, 4, dtype=torch.float64), 0.3


def reference(x, strength):
    return -strength * x + ((1 + strength) * x).detach()

# %% max_pool_1
"""The gradient of the padded signal is cropped from its start, so every gradient is shifted by the padding."""
WRONG = ["return grad_padded[:, :length], None, None, None"]
RIGHT = ["return grad_padded[:, ctx.padding : ctx.padding + length], None, None, None"]
NAME = "MaxPool1dWithIndices"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class MaxPool1dWithIndices(Function):
    """Max pooling of x (N, L); returns the maxima and where they are in the padded signal."""

    @staticmethod
    def forward(ctx, x, kernel, stride, padding):
        padded = F.pad(x, (padding, padding), value=float("-inf"))
        windows = padded.unfold(1, kernel, stride)
        values, offset = windows.max(dim=-1)
        index = offset + torch.arange(windows.shape[1], device=x.device) * stride
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        ctx.in_shape = x.shape
        ctx.padding = padding
        return values, index

    @staticmethod
    def backward(ctx, grad_values, _grad_index):
        (index,) = ctx.saved_tensors
        batch, length = ctx.in_shape
        grad_padded = grad_values.new_zeros(batch, length + 2 * ctx.padding)
        grad_padded.scatter_add_(1, index, grad_values)
        return grad_padded[:, :length], None, None, None


def inputs():
    torch.manual_seed(25)
    return torch.randn(2, 7, dtype=torch.float64), 3, 2, 1


def reference(x, kernel, stride, padding):
    y, index = F.max_pool1d(x, kernel, stride, padding, return_indices=True)
    return y, index + padding

# %% gem_pool_1
"""The exponent p occurs twice in mean(x^p)^(1/p); the author differentiated the inner power only and forgot the outer 1/p."""
WRONG = ["d_p = y * inner"]
RIGHT = ["d_p = y * (inner - m.log() / p**2)"]
NAME = "GeMPool"
# --- code
import torch
from torch.autograd import Function


class GeMPool(Function):
    """Generalized mean pooling (mean over H, W of x^p)^(1/p) with a learned p; x (B, C, H, W)."""

    @staticmethod
    def forward(ctx, x, p, eps=1e-6):
        clamped = x.clamp(min=eps)
        m = clamped.pow(p).mean(dim=(2, 3))
        y = m.pow(1 / p)
        ctx.eps = eps
        ctx.save_for_backward(x, p, m, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, p, m, y = ctx.saved_tensors
        clamped = x.clamp(min=ctx.eps)
        n = x.shape[2] * x.shape[3]
        outer = (grad_output * y / m)[:, :, None, None]
        grad_x = outer * clamped.pow(p - 1) / n * (x >= ctx.eps)
        weighted = (clamped.pow(p) * clamped.log()).mean(dim=(2, 3))
        inner = weighted / (p * m)
        d_p = y * inner
        grad_p = (grad_output * d_p).sum()
        return grad_x, grad_p, None


def inputs():
    torch.manual_seed(26)
    return torch.rand(2, 2, 2, 3, dtype=torch.float64) + 0.1, torch.tensor(3.0, dtype=torch.float64)


def reference(x, p, eps=1e-6):
    return x.clamp(min=eps).pow(p).mean(dim=(2, 3)).pow(1 / p)

# %% elman_rnn_1
"""Two slips: grad_u pairs the gradient of step t with the state after the step instead of the one before it, and grad_b keeps the last of its terms only."""
WRONG = ["grad_u += pre.t() @ states[t + 1]", "grad_b = pre.sum(dim=0)"]
RIGHT = ["grad_u += pre.t() @ states[t]", "grad_b += pre.sum(dim=0)"]
NAME = "ElmanRNN"
# --- code
import torch
from torch.autograd import Function


class ElmanRNN(Function):
    """h_t = tanh(W x_t + U h_{t-1} + b); x (T, B, I), h0 (B, H); returns all states (T, B, H)."""

    @staticmethod
    def forward(ctx, x, h0, w, u, b):
        states = [h0]
        for x_t in x:
            states.append(torch.tanh(x_t @ w.t() + states[-1] @ u.t() + b))
        states = torch.stack(states)
        ctx.save_for_backward(x, w, u, states)
        return states[1:].clone()

    @staticmethod
    def backward(ctx, grad_output):
        x, w, u, states = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_w, grad_u = torch.zeros_like(w), torch.zeros_like(u)
        grad_b = w.new_zeros(w.shape[0])
        grad_h = torch.zeros_like(states[0])
        for t in reversed(range(x.shape[0])):
            grad_h = grad_h + grad_output[t]
            pre = grad_h * (1 - states[t + 1] ** 2)
            grad_x[t] = pre @ w
            grad_w += pre.t() @ x[t]
            grad_u += pre.t() @ states[t + 1]
            grad_b = pre.sum(dim=0)
            grad_h = pre @ u
        return grad_x, grad_h, grad_w, grad_u, grad_b


def inputs():
    torch.manual_seed(27)
    shapes = [(4, 2, 3), (2, 2), (2, 3), (2, 2), (2,)]
    return tuple(0.6 * torch.randn(*shape, dtype=torch.float64) for shape in shapes)


def reference(x, h0, w, u, b):
    h, out = h0, []
    for x_t in x:
        h = (x_t @ w.t() + h @ u.t() + b).tanh()
        out.append(h)
    return torch.stack(out)

# %% ema_1
"""The loop of backward runs forward in time, but the gradient of a step comes from the later steps."""
WRONG = ["for t in range(x.shape[0]):"]
RIGHT = ["for t in reversed(range(x.shape[0])):"]
NAME = "ExponentialMovingAverage"
# --- code
import torch
from torch.autograd import Function


class ExponentialMovingAverage(Function):
    """y_t = decay * y_{t-1} + (1 - decay) * x_t, y_{-1} = 0; x (T, C), decay (C,)."""

    @staticmethod
    def forward(ctx, x, decay):
        y = torch.empty_like(x)
        prev = torch.zeros_like(decay)
        for t in range(x.shape[0]):
            prev = decay * prev + (1 - decay) * x[t]
            y[t] = prev
        ctx.save_for_backward(x, decay, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, decay, y = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_decay = torch.zeros_like(decay)
        carry = torch.zeros_like(decay)
        for t in range(x.shape[0]):
            total = grad_output[t] + carry
            prev = y[t - 1] if t > 0 else torch.zeros_like(decay)
            grad_x[t] = (1 - decay) * total
            grad_decay += (prev - x[t]) * total
            carry = decay * total
        return grad_x, grad_decay


def inputs():
    torch.manual_seed(28)
    return torch.randn(5, 3, dtype=torch.float64), torch.rand(3, dtype=torch.float64) * 0.5 + 0.3


def reference(x, decay):
    prev, out = torch.zeros_like(decay), []
    for x_t in x:
        prev = decay * prev + (1 - decay) * x_t
        out.append(prev)
    return torch.stack(out)

# %% complex_linear_1
"""For complex weights the gradient of x needs the conjugate of the weight; the author conjugated x for the weight, but forgot it here."""
WRONG = ["grad_x = grad_output @ weight"]
RIGHT = ["grad_x = grad_output @ weight.conj()"]
NAME = "ComplexLinear"
# --- code
import torch
from torch.autograd import Function


class ComplexLinear(Function):
    """y = x @ W^T + b with complex x (B, I), W (O, I), b (O,)."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_output @ weight
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t() @ x.conj()
        if ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(dim=0)
        return grad_x, grad_weight, grad_bias


def inputs():
    torch.manual_seed(29)
    return tuple(torch.randn(*s, dtype=torch.complex128) for s in [(3, 4), (2, 4), (2,)])


def reference(x, weight, bias):
    return torch.einsum("bi,oi->bo", x, weight) + bias

# %% l2_normalize_1
"""The norm is kept as a ctx attribute from forward, where no graph is recorded, so the second derivative (a gradient penalty) takes it for a constant."""
WRONG = ["norm = ctx.norm"]
RIGHT = ["norm = x.norm(dim=1, keepdim=True)"]
NAME = "L2Normalize"
# --- code
import torch
from torch.autograd import Function

DOUBLE_BACKWARD = True


class L2Normalize(Function):
    """x / |x| per row, for a critic that is trained with a gradient penalty."""

    @staticmethod
    def forward(ctx, x):
        ctx.norm = x.norm(dim=1, keepdim=True)
        ctx.save_for_backward(x)
        return x / ctx.norm

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        norm = ctx.norm
        unit = x / norm
        radial = (grad_output * unit).sum(dim=1, keepdim=True)
        return (grad_output - unit * radial) / norm


def inputs():
    torch.manual_seed(30)
    return (torch.randn(3, 4, dtype=torch.float64),)


def reference(x):
    return torch.nn.functional.normalize(x, dim=1)

# %% checkpoint_mlp_1
"""The recomputed block is differentiated with .sum(), so grad_output is not used; this is right only if the loss is the sum of the outputs."""
WRONG = ["grads = torch.autograd.grad(out.sum(), detached)"]
RIGHT = ["grads = torch.autograd.grad(out, detached, grad_output)"]
NAME = "CheckpointedMLP"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


def mlp(x, w_in, w_out):
    return F.gelu(x @ w_in.t()) @ w_out.t()


class CheckpointedMLP(Function):
    """A feed-forward block with residual; the hidden activations are recomputed in backward."""

    @staticmethod
    def forward(ctx, x, w_in, w_out):
        ctx.save_for_backward(x, w_in, w_out)
        return x + mlp(x, w_in, w_out)

    @staticmethod
    def backward(ctx, grad_output):
        detached = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        with torch.enable_grad():
            x, w_in, w_out = detached
            out = x + mlp(x, w_in, w_out)
            grads = torch.autograd.grad(out.sum(), detached)
        return grads


def inputs():
    torch.manual_seed(31)
    return tuple(torch.randn(*s, dtype=torch.float64) for s in [(3, 2), (4, 2), (2, 4)])


def reference(x, w_in, w_out):
    return x + mlp(x, w_in, w_out)

# %% film_1
"""The tests of needs_input_grad for gamma and beta are swapped, so gamma gets no gradient when beta is frozen."""
WRONG = ["if ctx.needs_input_grad[2]:", "if ctx.needs_input_grad[1]:"]
RIGHT = ["if ctx.needs_input_grad[1]:", "if ctx.needs_input_grad[2]:"]
NAME = "FiLM"
# --- code
import torch
from torch.autograd import Function


class FiLM(Function):
    """Feature-wise modulation x * (1 + gamma) + beta; x (B, C, L), gamma and beta (B, C)."""

    @staticmethod
    def forward(x, gamma, beta):
        return x * (1 + gamma[..., None]) + beta[..., None]

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gamma, _beta = inputs
        ctx.save_for_backward(x, gamma)

    @staticmethod
    def backward(ctx, grad_output):
        x, gamma = ctx.saved_tensors
        grad_x = grad_gamma = grad_beta = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_output * (1 + gamma[..., None])
        if ctx.needs_input_grad[2]:
            grad_gamma = (grad_output * x).sum(dim=-1)
        if ctx.needs_input_grad[1]:
            grad_beta = grad_output.sum(dim=-1)
        return grad_x, grad_gamma, grad_beta


def inputs():
    torch.manual_seed(32)
    return tuple(torch.randn(*s, dtype=torch.float64) for s in [(2, 3, 4), (2, 3), (2, 3)])


def reference(x, gamma, beta):
    return torch.addcmul(x, x, gamma[..., None]) + beta[..., None]

# %% inplace_leaky_1
"""Forward changes x in place and returns it, but does not call mark_dirty, so autograd does not know."""
WRONG = ["ctx.slope = slope"]
RIGHT = ["ctx.slope = slope; ctx.mark_dirty(x)"]
NAME = "InplaceLeakyReLU"
# --- code
import torch
from torch.autograd import Function


class InplaceLeakyReLU(Function):
    """leaky_relu_(x), which keeps a boolean mask only."""

    @staticmethod
    def forward(ctx, x, slope):
        negative = x < 0
        ctx.save_for_backward(negative)
        ctx.slope = slope
        x[negative] *= slope
        return x

    @staticmethod
    def backward(ctx, grad_output):
        (negative,) = ctx.saved_tensors
        return torch.where(negative, ctx.slope * grad_output, grad_output), None


def inputs():
    torch.manual_seed(33)
    return torch.randn(4, 5, dtype=torch.float64), 0.1


def reference(x, slope):
    return torch.nn.functional.leaky_relu(x, slope)

# %% center_crop_1
"""The buffer for the gradient has the default dtype float32, so gradients in float64 lose half of their digits (and those in float16 change their dtype)."""
WRONG = ["grad_x = torch.zeros(ctx.in_shape, device=grad_output.device)"]
RIGHT = ["grad_x = torch.zeros(ctx.in_shape, device=grad_output.device, dtype=grad_output.dtype)"]
NAME = "CenterCrop"
# --- code
import torch
from torch.autograd import Function


class CenterCrop(Function):
    """The skip connection of U-Net: the middle (size, size) of x (B, C, H, W), times a gain."""

    @staticmethod
    def forward(ctx, x, size, gain):
        top = (x.shape[2] - size) // 2
        left = (x.shape[3] - size) // 2
        ctx.in_shape = x.shape
        ctx.window = (slice(top, top + size), slice(left, left + size))
        ctx.gain = gain
        rows, cols = ctx.window
        return x[:, :, rows, cols] * gain

    @staticmethod
    def backward(ctx, grad_output):
        rows, cols = ctx.window
        grad_x = torch.zeros(ctx.in_shape, device=grad_output.device)
        grad_x[:, :, rows, cols] = grad_output * ctx.gain
        return grad_x, None, None


def inputs():
    torch.manual_seed(34)
    return torch.randn(1, 2, 5, 4, dtype=torch.float64), 2, 0.7


def reference(x, size, gain):
    top, left = (x.shape[2] - size) // 2, (x.shape[3] - size) // 2
    return gain * x.narrow(2, top, size).narrow(3, left, size)

# %% global_max_1
"""All elements that equal the maximum get the whole gradient, so a row with ties (zeros after a ReLU) gets several times too much; it must be shared among them."""
WRONG = ["share = is_max.to(x.dtype)"]
RIGHT = ["share = is_max.to(x.dtype) / is_max.sum(dim=1, keepdim=True)"]
NAME = "GlobalMaxPool"
# --- code
import torch
from torch.autograd import Function


class GlobalMaxPool(Function):
    """Maximum over time of x (B, T, C), usually after a ReLU."""

    @staticmethod
    def forward(ctx, x):
        y = x.amax(dim=1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        is_max = x == y[:, None]
        share = is_max.to(x.dtype)
        return grad_output[:, None] * share


def inputs():
    torch.manual_seed(35)
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    x[0, :, 1] = -x[0, :, 1].abs()
    return (x.relu(),)


def reference(x):
    return x.amax(dim=1)
