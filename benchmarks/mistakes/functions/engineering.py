"""Mistakes: held out, machine-learning engineering. Each cell is a separate module; see benchmarks/repairs.py."""

# %% swiglu_1
"""The factor sig of the second term is forgotten: the derivative of gate * sigmoid(gate) is sig + gate * sig * (1 - sig)."""
WRONG = ["grad_gate = grad_out * up * (sig + gate * (1 - sig))"]
RIGHT = ["grad_gate = grad_out * up * (sig + gate * sig * (1 - sig))"]
NAME = "SwiGLU"
# --- code
import torch
from torch.autograd import Function


class SwiGLU(Function):
    """silu(gate) * up without keeping silu(gate) in memory."""

    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return gate * torch.sigmoid(gate) * up

    @staticmethod
    def backward(ctx, grad_out):
        gate, up = ctx.saved_tensors
        sig = torch.sigmoid(gate)
        grad_up = grad_out * gate * sig
        grad_gate = grad_out * up * (sig + gate * (1 - sig))
        return grad_gate, grad_up


def inputs():
    torch.manual_seed(0)
    return tuple(torch.randn(3, 4, dtype=torch.float64) for _ in range(2))


def reference(gate, up):
    return torch.nn.functional.silu(gate) * up

# %% softcap_1
"""The saved output is cap * tanh, but 1 - out ** 2 needs tanh itself, out / cap."""
WRONG = ["return grad_out * (1 - out * out), None"]
RIGHT = ["return grad_out * (1 - (out / ctx.cap) ** 2), None"]
NAME = "LogitSoftcap"
# --- code
import torch
from torch.autograd import Function


class LogitSoftcap(Function):
    """Bound the logits smoothly by +-cap."""

    @staticmethod
    def forward(logits, cap):
        return cap * torch.tanh(logits / cap)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, cap = inputs
        ctx.cap = cap
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_out):
        (out,) = ctx.saved_tensors
        return grad_out * (1 - out * out), None


def inputs():
    torch.manual_seed(1)
    return 3 * torch.randn(2, 5, dtype=torch.float64), 4.0


def reference(logits, cap):
    return cap * torch.tanh(logits / cap)

# %% hard_swish_1
"""The region above 3, where the output is x and the slope 1, is forgotten: the parabola's slope is used there too."""
WRONG = ["slope = (2 * x + 3) / 6"]
RIGHT = ["slope = torch.where(x < 3, (2 * x + 3) / 6, torch.ones_like(x))"]
NAME = "HardSwish"
# --- code
import torch
from torch.autograd import Function


class HardSwish(Function):
    """x * relu6(x + 3) / 6."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.clamp(x + 3, 0, 6) / 6

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        slope = (2 * x + 3) / 6
        slope = torch.where(x > -3, slope, torch.zeros_like(x))
        return grad_out * slope


def inputs():
    torch.manual_seed(2)
    return 4 * torch.randn(3, 5, dtype=torch.float64)


def reference(x):
    return torch.nn.functional.hardswish(x)

# %% label_smoothing_1
"""scatter_ replaces the eps / K that the target class also gets; it should be added to it."""
WRONG = ["soft.scatter_(1, target.unsqueeze(1), 1 - ctx.eps)"]
RIGHT = ["soft.scatter_(1, target.unsqueeze(1), 1 - ctx.eps + ctx.eps / logits.shape[1])"]
NAME = "SmoothedCrossEntropy"
# --- code
import torch
from torch.autograd import Function


class SmoothedCrossEntropy(Function):
    """Mean cross entropy with label smoothing eps, logits (N, K), target (N,)."""

    @staticmethod
    def forward(ctx, logits, target, eps):
        logp = torch.log_softmax(logits, dim=1)
        ctx.save_for_backward(logits, target)
        ctx.eps = eps
        nll = -logp.gather(1, target.unsqueeze(1)).squeeze(1)
        smooth = -logp.mean(dim=1)
        return ((1 - eps) * nll + eps * smooth).mean()

    @staticmethod
    def backward(ctx, grad_out):
        logits, target = ctx.saved_tensors
        p = torch.softmax(logits, dim=1)
        soft = torch.full_like(p, ctx.eps / logits.shape[1])
        soft.scatter_(1, target.unsqueeze(1), 1 - ctx.eps)
        grad = (p - soft) / logits.shape[0]
        return grad_out * grad, None, None


def inputs():
    torch.manual_seed(3)
    return torch.randn(4, 5, dtype=torch.float64), torch.tensor([0, 3, 1, 3]), 0.2


def reference(logits, target, eps):
    return torch.nn.functional.cross_entropy(logits, target, label_smoothing=eps)

# %% ignored_tokens_1
"""forward takes the mean over the tokens that are not ignored, backward divides by all of them."""
WRONG = ["grad = grad / target.numel()"]
RIGHT = ["grad = grad / valid.sum()"]
NAME = "TokenLoss"
# --- code
import torch
from torch.autograd import Function


class TokenLoss(Function):
    """Mean negative log likelihood of the tokens whose target is not ignore_index."""

    @staticmethod
    def forward(logits, target, ignore_index):
        valid = target != ignore_index
        logp = logits.log_softmax(dim=-1)
        picked = logp.gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        return -(picked * valid).sum() / valid.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, target, ctx.ignore_index = inputs
        ctx.save_for_backward(logits, target)

    @staticmethod
    def backward(ctx, grad_out):
        logits, target = ctx.saved_tensors
        valid = target != ctx.ignore_index
        one_hot = torch.zeros_like(logits)
        one_hot.scatter_(-1, target.clamp(min=0).unsqueeze(-1), 1.0)
        grad = (logits.softmax(dim=-1) - one_hot) * valid.unsqueeze(-1)
        grad = grad / target.numel()
        return grad_out * grad, None, None


def inputs():
    torch.manual_seed(4)
    target = torch.tensor([[1, -100, 3], [0, 2, -100]])
    return torch.randn(2, 3, 4, dtype=torch.float64), target, -100


def reference(logits, target, ignore_index):
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=ignore_index
    )

# %% nt_xent_1
"""z enters z @ z.T twice, as rows and as columns; the gradient of the columns is forgotten."""
WRONG = ["grad_z = d_sim @ z / ctx.tau"]
RIGHT = ["grad_z = (d_sim + d_sim.t()) @ z / ctx.tau"]
NAME = "NTXent"
# --- code
import torch
from torch.autograd import Function


def similarity(z, tau):
    sim = z @ z.t() / tau
    return sim.masked_fill(torch.eye(len(z), dtype=torch.bool, device=z.device), float("-inf"))


class NTXent(Function):
    """SimCLR loss; z holds N first views and then the N second views, each of unit length."""

    @staticmethod
    def forward(ctx, z, tau):
        n = len(z) // 2
        positive = torch.arange(2 * n, device=z.device).roll(n)
        logp = similarity(z, tau).log_softmax(dim=1)
        ctx.save_for_backward(z, positive)
        ctx.tau = tau
        return -logp.gather(1, positive[:, None]).mean()

    @staticmethod
    def backward(ctx, grad_out):
        z, positive = ctx.saved_tensors
        d_sim = similarity(z, ctx.tau).softmax(dim=1)
        d_sim[torch.arange(len(z), device=z.device), positive] -= 1
        d_sim = d_sim * (grad_out / len(z))
        grad_z = d_sim @ z / ctx.tau
        return grad_z, None


def inputs():
    torch.manual_seed(5)
    z = torch.nn.functional.normalize(torch.randn(6, 3, dtype=torch.float64), dim=1)
    return z, 0.5


def reference(z, tau):
    sim = (z @ z.t() / tau).masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    return torch.nn.functional.cross_entropy(sim, torch.arange(len(z)).roll(len(z) // 2))

# %% list_mle_1
"""Item k is in the denominators of the positions up to k, so the sum runs from the front; the author sums from the back, as in forward."""
WRONG = ["inverse = (-lse).flip(-1).logcumsumexp(-1).flip(-1)"]
RIGHT = ["inverse = (-lse).logcumsumexp(-1)"]
NAME = "ListMLE"
# --- code
import torch
from torch.autograd import Function


class ListMLE(Function):
    """Negative log likelihood of a ranking; scores (B, n) are in the true order, best first."""

    @staticmethod
    def forward(ctx, scores):
        # denominator of position i: all items that are still left, i..n-1
        lse = scores.flip(-1).logcumsumexp(-1).flip(-1)
        ctx.save_for_backward(scores, lse)
        return (lse - scores).sum(-1)

    @staticmethod
    def backward(ctx, grad_out):
        scores, lse = ctx.saved_tensors
        inverse = (-lse).flip(-1).logcumsumexp(-1).flip(-1)
        grad = torch.exp(scores + inverse) - 1
        return grad_out.unsqueeze(-1) * grad


def inputs():
    torch.manual_seed(6)
    return torch.randn(2, 5, dtype=torch.float64)


def reference(scores):
    return sum(scores[:, i:].logsumexp(-1) - scores[:, i] for i in range(scores.shape[1]))

# %% rms_norm_1
"""The mean is of gw * x_hat, not of gw * x: one factor 1/rms is missing in the projection."""
WRONG = ["mean = (gw * x).mean(dim=-1, keepdim=True)"]
RIGHT = ["mean = (gw * x_hat).mean(dim=-1, keepdim=True)"]
NAME = "RMSNorm"
# --- code
import torch
from torch.autograd import Function


class RMSNorm(Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        rrms = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, rrms)
        return x * rrms * weight

    @staticmethod
    def backward(ctx, grad_out):
        x, weight, rrms = ctx.saved_tensors
        x_hat = x * rrms
        gw = grad_out * weight
        mean = (gw * x).mean(dim=-1, keepdim=True)
        grad_x = rrms * (gw - x_hat * mean)
        grad_weight = (grad_out * x_hat).flatten(0, -2).sum(dim=0)
        return grad_x, grad_weight, None


def inputs():
    torch.manual_seed(7)
    return 2 * torch.randn(2, 3, 4, dtype=torch.float64), torch.rand(4, dtype=torch.float64), 1e-6


def reference(x, weight, eps):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)

# %% layer_norm_1
"""The mean that is subtracted is of grad_out; it should be of gw, which includes the weight."""
WRONG = ["grad_x = gw - grad_out.mean(-1, keepdim=True) - x_hat * (gw * x_hat).mean(-1, keepdim=True)"]
RIGHT = ["grad_x = gw - gw.mean(-1, keepdim=True) - x_hat * (gw * x_hat).mean(-1, keepdim=True)"]
NAME = "FusedLayerNorm"
# --- code
import torch
from torch.autograd import Function


class FusedLayerNorm(Function):
    """Layer norm over the last dimension with weight and bias; keeps x_hat and rstd."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, unbiased=False, keepdim=True)
        rstd = torch.rsqrt(var + eps)
        x_hat = (x - mean) * rstd
        ctx.save_for_backward(x_hat, rstd, weight)
        return x_hat * weight + bias

    @staticmethod
    def backward(ctx, grad_out):
        x_hat, rstd, weight = ctx.saved_tensors
        rows = tuple(range(grad_out.dim() - 1))
        grad_bias = grad_out.sum(rows)
        grad_weight = (grad_out * x_hat).sum(rows)

        gw = grad_out * weight
        grad_x = gw - grad_out.mean(-1, keepdim=True) - x_hat * (gw * x_hat).mean(-1, keepdim=True)
        return grad_x * rstd, grad_weight, grad_bias, None


def inputs():
    torch.manual_seed(8)
    d = torch.float64
    return torch.randn(3, 5, dtype=d), torch.rand(5, dtype=d) + 0.5, torch.randn(5, dtype=d), 1e-5


def reference(x, weight, bias, eps):
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, eps)

# %% advantage_norm_1
"""std divides by n - 1, torch's default, but the term through it is averaged over n."""
WRONG = ["through_std = normed * (grad_out * normed).mean(dim=0)"]
RIGHT = ["through_std = normed * (grad_out * normed).sum(dim=0) / (grad_out.shape[0] - 1)"]
NAME = "NormalizeAdvantages"
# --- code
import torch
from torch.autograd import Function


class NormalizeAdvantages(Function):
    """(adv - mean) / std over the batch, per agent."""

    @staticmethod
    def forward(ctx, adv):
        std = adv.std(dim=0)
        normed = (adv - adv.mean(dim=0)) / std
        ctx.save_for_backward(normed, std)
        return normed

    @staticmethod
    def backward(ctx, grad_out):
        normed, std = ctx.saved_tensors
        through_mean = grad_out.mean(dim=0)
        through_std = normed * (grad_out * normed).mean(dim=0)
        return (grad_out - through_mean - through_std) / std


def inputs():
    torch.manual_seed(9)
    return torch.randn(6, 2, dtype=torch.float64)


def reference(adv):
    return (adv - adv.mean(dim=0)) / adv.std(dim=0)

# %% weight_norm_1
"""Two slips: grad_x uses the direction v instead of the weight w, and grad_v lacks the gain g."""
WRONG = ["grad_x = grad_out @ v", "grad_v = (dw - v * grad_g / norm) / norm"]
RIGHT = ["grad_x = grad_out @ (g * v / norm)", "grad_v = g * (dw - v * grad_g / norm) / norm"]
NAME = "WeightNormLinear"
# --- code
import torch
from torch.autograd import Function


class WeightNormLinear(Function):
    """y = x @ w.T with w = g * v / |v|, the norm per output row; g is (out, 1)."""

    @staticmethod
    def forward(ctx, x, g, v):
        norm = v.norm(dim=1, keepdim=True)
        ctx.save_for_backward(x, g, v, norm)
        return x @ (g * v / norm).t()

    @staticmethod
    def backward(ctx, grad_out):
        x, g, v, norm = ctx.saved_tensors
        grad_x = grad_out @ v
        dw = grad_out.t() @ x
        grad_g = (dw * v).sum(dim=1, keepdim=True) / norm
        grad_v = (dw - v * grad_g / norm) / norm
        return grad_x, grad_g, grad_v


def inputs():
    torch.manual_seed(10)
    d = torch.float64
    return torch.randn(4, 3, dtype=d), torch.rand(2, 1, dtype=d) + 0.5, torch.randn(2, 3, dtype=d)


def reference(x, g, v):
    return torch.nn.functional.linear(x, torch._weight_norm(v, g, 0))

# %% rope_1
"""backward rotates by +theta as forward does; the transpose of a rotation rotates by -theta."""
WRONG = ["return grad_out * cos + rotate_half(grad_out) * sin, None, None"]
RIGHT = ["return grad_out * cos - rotate_half(grad_out) * sin, None, None"]
NAME = "RotaryEmbedding"
# --- code
import torch
from torch.autograd import Function


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rope_tables(x, offset, base):
    t, d = x.shape[-2:]
    freq = base ** (-torch.arange(0, d, 2, dtype=x.dtype, device=x.device) / d)
    angle = torch.arange(offset, offset + t, dtype=x.dtype, device=x.device)[:, None] * freq
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()


class RotaryEmbedding(Function):
    """Rotary positions for x (B, H, T, d); offset is the length of the KV cache."""

    @staticmethod
    def forward(x, offset, base):
        cos, sin = rope_tables(x, offset, base)
        return x * cos + rotate_half(x) * sin

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, offset, base = inputs
        ctx.save_for_backward(*rope_tables(x, offset, base))

    @staticmethod
    def backward(ctx, grad_out):
        cos, sin = ctx.saved_tensors
        return grad_out * cos + rotate_half(grad_out) * sin, None, None


def inputs():
    torch.manual_seed(11)
    return torch.randn(1, 2, 3, 4, dtype=torch.float64), 2, 100.0


def reference(x, offset, base):
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, dtype=x.dtype) / half)
    pos = torch.arange(offset, offset + x.shape[-2], dtype=x.dtype)
    turn = torch.polar(torch.ones((), dtype=x.dtype), pos[:, None] * freq)
    z = torch.complex(x[..., :half], x[..., half:]) * turn
    return torch.cat((z.real, z.imag), dim=-1)

# %% soft_vq_1
"""Two slips: the codebook enters the output directly and through the weights, and the direct path p.T @ grad_out is missing; and grad_x lacks the 2 of the squared distance."""
WRONG = ["grad_x = -d_dist @ codebook", "grad_codebook = 2 * (d_dist.sum(0)[:, None] * codebook - d_dist.t() @ x)"]
RIGHT = ["grad_x = -2 * d_dist @ codebook", "grad_codebook = p.t() @ grad_out + 2 * (d_dist.sum(0)[:, None] * codebook - d_dist.t() @ x)"]
NAME = "SoftQuantize"
# --- code
import torch
from torch.autograd import Function


class SoftQuantize(Function):
    """Soft vector quantization: x (N, d) becomes a mixture of the codes (K, d)."""

    @staticmethod
    def forward(ctx, x, codebook, temperature):
        dist = (x[:, None] - codebook).pow(2).sum(-1)
        p = torch.softmax(-dist / temperature, dim=1)
        ctx.save_for_backward(x, codebook, p)
        ctx.temperature = temperature
        return p @ codebook

    @staticmethod
    def backward(ctx, grad_out):
        x, codebook, p = ctx.saved_tensors
        dp = grad_out @ codebook.t()
        ds = p * (dp - (dp * p).sum(1, keepdim=True))
        d_dist = -ds / ctx.temperature
        # the rows of d_dist sum to 0, so the terms with x itself cancel
        grad_x = -d_dist @ codebook
        grad_codebook = 2 * (d_dist.sum(0)[:, None] * codebook - d_dist.t() @ x)
        return grad_x, grad_codebook, None


def inputs():
    torch.manual_seed(12)
    return torch.randn(4, 2, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64), 1.5


def reference(x, codebook, temperature):
    return torch.softmax(-torch.cdist(x, codebook).square() / temperature, dim=1) @ codebook

# %% relative_bias_1
"""`grad_table[rel] +=` keeps one of the repeated indices; each distance occurs many times and has to be summed."""
WRONG = ["grad_table[rel] += grad_out.permute(1, 2, 0)"]
RIGHT = ["grad_table.index_put_((rel,), grad_out.permute(1, 2, 0), accumulate=True)"]
NAME = "RelativeBias"
# --- code
import torch
from torch.autograd import Function


class RelativeBias(Function):
    """scores (H, T, T) plus a learned bias per head and distance; table is (2T - 1, H)."""

    @staticmethod
    def forward(ctx, scores, table):
        t = scores.shape[-1]
        pos = torch.arange(t, device=scores.device)
        rel = pos[:, None] - pos[None, :] + t - 1
        ctx.save_for_backward(rel)
        ctx.table_shape = table.shape
        return scores + table[rel].permute(2, 0, 1)

    @staticmethod
    def backward(ctx, grad_out):
        (rel,) = ctx.saved_tensors
        grad_table = grad_out.new_zeros(ctx.table_shape)
        grad_table[rel] += grad_out.permute(1, 2, 0)
        return grad_out, grad_table


def inputs():
    torch.manual_seed(13)
    return torch.randn(2, 3, 3, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)


def reference(scores, table):
    t = scores.shape[-1]
    rows = [torch.stack([table[i - j + t - 1] for j in range(t)]) for i in range(t)]
    return scores + torch.stack(rows).permute(2, 0, 1)

# %% ema_scan_1
"""The decay multiplies the state before the step, states[:, t]; the author takes the state after it."""
WRONG = ["grad_decay += (carry * (states[:, t + 1] - x[:, t])).sum(0)"]
RIGHT = ["grad_decay += (carry * (states[:, t] - x[:, t])).sum(0)"]
NAME = "EMAScan"
# --- code
import torch
from torch.autograd import Function


class EMAScan(Function):
    """h_t = decay * h_{t-1} + (1 - decay) * x_t with h_{-1} = 0; x (B, T, D), decay (D,)."""

    @staticmethod
    def forward(ctx, x, decay):
        h = torch.zeros_like(x[:, 0])
        states = [h]
        for t in range(x.shape[1]):
            h = decay * h + (1 - decay) * x[:, t]
            states.append(h)
        states = torch.stack(states, dim=1)
        ctx.save_for_backward(x, decay, states)
        return states[:, 1:].clone()

    @staticmethod
    def backward(ctx, grad_out):
        x, decay, states = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_decay = torch.zeros_like(decay)
        carry = torch.zeros_like(x[:, 0])
        for t in reversed(range(x.shape[1])):
            carry = carry + grad_out[:, t]
            grad_x[:, t] = carry * (1 - decay)
            grad_decay += (carry * (states[:, t + 1] - x[:, t])).sum(0)
            carry = carry * decay
        return grad_x, grad_decay


def inputs():
    torch.manual_seed(14)
    return torch.randn(2, 4, 3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)


def reference(x, decay):
    h, out = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = decay * h + (1 - decay) * x[:, t]
        out.append(h)
    return torch.stack(out, dim=1)

# %% sliding_window_1
"""The mask in backward lets one more key into the window than forward does: > window instead of >= window."""
WRONG = ["outside = (dist < 0) | (dist > ctx.window)"]
RIGHT = ["outside = (dist < 0) | (dist >= ctx.window)"]
NAME = "SlidingWindowAttention"
# --- code
import torch
from torch.autograd import Function


class SlidingWindowAttention(Function):
    """Each query sees itself and the window - 1 keys before it; keeps only the log-sum-exp."""

    @staticmethod
    def forward(ctx, q, k, v, window):
        pos = torch.arange(q.shape[-2], device=q.device)
        dist = pos[:, None] - pos
        masked = (dist < 0) | (dist >= window)
        scores = (q @ k.mT) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(masked, float("-inf"))
        lse = scores.logsumexp(-1, keepdim=True)
        ctx.save_for_backward(q, k, v, lse)
        ctx.window = window
        return torch.exp(scores - lse) @ v

    @staticmethod
    def backward(ctx, grad_out):
        q, k, v, lse = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        pos = torch.arange(q.shape[-2], device=q.device)
        dist = pos[:, None] - pos
        outside = (dist < 0) | (dist > ctx.window)
        p = torch.exp((q @ k.mT) * scale - lse).masked_fill(outside, 0.0)

        grad_v = p.mT @ grad_out
        dp = grad_out @ v.mT
        ds = p * (dp - (p * dp).sum(-1, keepdim=True))
        return ds @ k * scale, ds.mT @ q * scale, grad_v, None


def inputs():
    torch.manual_seed(15)
    return (*(torch.randn(2, 5, 3, dtype=torch.float64) for _ in range(3)), 2)


def reference(q, k, v, window):
    ones = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool)
    mask = ones.tril() & ones.triu(1 - window)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

# %% embedding_bag_1
"""Two slips: the rows of the table lack the sample weights, and grad_weights lacks the padding mask."""
WRONG = ["rows = keep.unsqueeze(-1) * grad_out.unsqueeze(1)", "grad_weights = (table[ids] * grad_out.unsqueeze(1)).sum(-1)"]
RIGHT = ["rows = (weights * keep).unsqueeze(-1) * grad_out.unsqueeze(1)", "grad_weights = (table[ids] * grad_out.unsqueeze(1)).sum(-1) * keep"]
NAME = "WeightedBag"
# --- code
import torch
from torch.autograd import Function


class WeightedBag(Function):
    """Weighted sum of embeddings per bag: table (V, D), ids and weights (B, L); skips padding."""

    @staticmethod
    def forward(ctx, table, ids, weights, padding_idx):
        keep = (ids != padding_idx).to(table.dtype)
        ctx.save_for_backward(table, ids, weights, keep)
        return torch.einsum("bl,bld->bd", weights * keep, table[ids])

    @staticmethod
    def backward(ctx, grad_out):
        table, ids, weights, keep = ctx.saved_tensors
        rows = keep.unsqueeze(-1) * grad_out.unsqueeze(1)
        grad_table = torch.zeros_like(table)
        grad_table.index_add_(0, ids.flatten(), rows.flatten(0, 1))
        grad_weights = (table[ids] * grad_out.unsqueeze(1)).sum(-1)
        return grad_table, None, grad_weights, None


def inputs():
    torch.manual_seed(16)
    ids = torch.tensor([[3, 1, 3, 0], [2, 0, 0, 0], [4, 4, 1, 2]])
    table = torch.randn(5, 3, dtype=torch.float64)
    return table, ids, torch.rand(3, 4, dtype=torch.float64), 0


def reference(table, ids, weights, padding_idx):
    keep = (ids != padding_idx).unsqueeze(-1)
    return (table[ids] * weights.unsqueeze(-1) * keep).sum(1)

# %% last_token_1
"""The last token of a sequence is at lengths - 1, as in forward; backward writes to the one after it."""
WRONG = ["grad_hidden[rows, lengths] = grad_out"]
RIGHT = ["grad_hidden[rows, lengths - 1] = grad_out"]
NAME = "LastTokenPool"
# --- code
import torch
from torch.autograd import Function


class LastTokenPool(Function):
    """The hidden state of the last real token: hidden (B, T, D), lengths (B,)."""

    @staticmethod
    def forward(hidden, lengths):
        rows = torch.arange(hidden.shape[0], device=hidden.device)
        return hidden[rows, lengths - 1]

    @staticmethod
    def setup_context(ctx, inputs, output):
        hidden, lengths = inputs
        ctx.save_for_backward(lengths)
        ctx.shape = hidden.shape

    @staticmethod
    def backward(ctx, grad_out):
        (lengths,) = ctx.saved_tensors
        rows = torch.arange(ctx.shape[0], device=grad_out.device)
        grad_hidden = grad_out.new_zeros(ctx.shape)
        grad_hidden[rows, lengths] = grad_out
        return grad_hidden, None


def inputs():
    torch.manual_seed(17)
    return torch.randn(3, 5, 2, dtype=torch.float64), torch.tensor([2, 4, 3])


def reference(hidden, lengths):
    return torch.stack([h[n - 1] for h, n in zip(hidden, lengths.tolist())])

# %% lsq_1
"""Inside the range the gradient of the step is round(v) - v; the - v, from x / step, is forgotten."""
WRONG = ["d_step = torch.where(inside, torch.round(v), v.clamp(ctx.low, ctx.high))"]
RIGHT = ["d_step = torch.where(inside, torch.round(v) - v, v.clamp(ctx.low, ctx.high))"]
NAME = "LearnedStepQuantize"
# --- code
import torch
from torch.autograd import Function


class LearnedStepQuantize(Function):
    """LSQ fake quantization; straight through for x, learned step size."""

    @staticmethod
    def forward(ctx, x, step, low, high):
        ctx.save_for_backward(x, step)
        ctx.low, ctx.high = low, high
        return torch.round(x / step).clamp(low, high) * step

    @staticmethod
    def backward(ctx, grad_out):
        x, step = ctx.saved_tensors
        v = x / step
        inside = (v > ctx.low) & (v < ctx.high)
        grad_x = grad_out * inside
        d_step = torch.where(inside, torch.round(v), v.clamp(ctx.low, ctx.high))
        grad_step = (grad_out * d_step).sum()
        return grad_x, grad_step, None, None


def inputs():
    torch.manual_seed(18)
    return torch.randn(3, 4, dtype=torch.float64), torch.tensor(0.4, dtype=torch.float64), -4, 3


def reference(x, step, low, high):
    v = (x / step).clamp(low, high)
    return (v + (v.round() - v).detach()) * step

# %% int8_linear_1
"""The gradients are returned in the wrong order: the gradient of scale stands where that of qweight belongs."""
WRONG = ["return grad_x, grad_scale, None, grad_bias"]
RIGHT = ["return grad_x, None, grad_scale, grad_bias"]
NAME = "Int8Linear"
# --- code
import torch
from torch.autograd import Function


class Int8Linear(Function):
    """Weight-only int8 linear layer with one trainable scale per output row."""

    @staticmethod
    def forward(ctx, x, qweight, scale, bias):
        ctx.save_for_backward(x, qweight, scale)
        weight = qweight.to(x.dtype) * scale[:, None]
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx, grad_out):
        x, qweight, scale = ctx.saved_tensors
        q = qweight.to(x.dtype)
        grad_x = (grad_out * scale) @ q
        grad_weight = grad_out.t() @ x
        grad_scale = (grad_weight * q).sum(dim=1)
        grad_bias = grad_out.sum(dim=0)
        return grad_x, grad_scale, None, grad_bias


def inputs():
    torch.manual_seed(19)
    d = torch.float64
    qweight = torch.randint(-127, 128, (2, 3), dtype=torch.int8)
    scale = 0.01 + 0.01 * torch.rand(2, dtype=d)
    return torch.randn(4, 3, dtype=d), qweight, scale, torch.randn(2, dtype=d)


def reference(x, qweight, scale, bias):
    return torch.nn.functional.linear(x, qweight.to(x.dtype) * scale[:, None], bias)

# %% dropout_add_1
"""The state of the random generator is kept after the draw of forward, so backward draws another mask."""
WRONG = ["keep = draw_mask(x, p)\n        ctx.rng_state = torch.get_rng_state()"]
RIGHT = ["ctx.rng_state = torch.get_rng_state()\n        keep = draw_mask(x, p)"]
NAME = "DropoutAdd"
# --- code
import torch
from torch.autograd import Function


def draw_mask(like, p):
    return torch.rand(like.shape, dtype=like.dtype, device=like.device) > p


class DropoutAdd(Function):
    """residual + dropout(x); the mask is drawn again in backward instead of being stored."""

    @staticmethod
    def forward(ctx, x, residual, p):
        keep = draw_mask(x, p)
        ctx.rng_state = torch.get_rng_state()
        ctx.p = p
        return residual + x * keep / (1 - p)

    @staticmethod
    def backward(ctx, grad_out):
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.rng_state)
            keep = draw_mask(grad_out, ctx.p)
        return grad_out * keep / (1 - ctx.p), grad_out, None


def inputs():
    torch.manual_seed(20)
    return torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64), 0.4


def reference(x, residual, p):
    keep = draw_mask(x, p)
    return residual + torch.where(keep, x / (1 - p), torch.zeros_like(x))

# %% segment_softmax_1
"""The dot product of the softmax backward is summed over all edges; it should be summed per segment."""
WRONG = ["dot = (alpha * grad_out).sum(dim=0)"]
RIGHT = ["dot = segment_sum(alpha * grad_out, target, ctx.num_nodes)[target]"]
NAME = "EdgeSoftmax"
# --- code
import torch
from torch.autograd import Function


def segment_sum(values, index, n):
    return values.new_zeros(n, *values.shape[1:]).index_add_(0, index, values)


class EdgeSoftmax(Function):
    """Graph attention: softmax of the edge scores (E, H) over the edges with the same target."""

    @staticmethod
    def forward(ctx, scores, target, num_nodes):
        top = scores.new_full((num_nodes, scores.shape[1]), float("-inf"))
        top = top.index_reduce_(0, target, scores, "amax")
        e = torch.exp(scores - top[target])
        alpha = e / segment_sum(e, target, num_nodes)[target]
        ctx.save_for_backward(alpha, target)
        ctx.num_nodes = num_nodes
        return alpha

    @staticmethod
    def backward(ctx, grad_out):
        alpha, target = ctx.saved_tensors
        dot = (alpha * grad_out).sum(dim=0)
        return alpha * (grad_out - dot), None, None


def inputs():
    torch.manual_seed(21)
    return torch.randn(6, 2, dtype=torch.float64), torch.tensor([0, 2, 1, 0, 2, 2]), 3


def reference(scores, target, num_nodes):
    same = (target[:, None] == target).to(scores.dtype)
    return scores.exp() / (same @ scores.exp())

# %% spmm_1
"""The gradient of dense needs the transposed matrix, rows and columns swapped; the author reuses forward as if the graph were symmetric."""
WRONG = ["grad_dense.index_add_(0, row, values[:, None] * grad_out[col])"]
RIGHT = ["grad_dense.index_add_(0, col, values[:, None] * grad_out[row])"]
NAME = "SparseMatmul"
# --- code
import torch
from torch.autograd import Function


class SparseMatmul(Function):
    """A @ dense for a square A in COO form: row, col and values (nnz,), dense (N, D)."""

    @staticmethod
    def forward(values, dense, row, col):
        out = torch.zeros_like(dense)
        return out.index_add_(0, row, values[:, None] * dense[col])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_out):
        values, dense, row, col = ctx.saved_tensors
        grad_values = (grad_out[row] * dense[col]).sum(dim=1)
        grad_dense = torch.zeros_like(dense)
        grad_dense.index_add_(0, row, values[:, None] * grad_out[col])
        return grad_values, grad_dense, None, None


def inputs():
    torch.manual_seed(22)
    row, col = torch.tensor([0, 0, 1, 2, 3, 3]), torch.tensor([1, 3, 2, 2, 0, 1])
    return torch.randn(6, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64), row, col


def reference(values, dense, row, col):
    n = len(dense)
    return values.new_zeros(n, n).index_put((row, col), values, accumulate=True) @ dense

# %% ssm_scan_1
"""Off by one: h_t reaches the loss through h_{t+1} = a_{t+1} * h_t, so the carry is multiplied with a[:, t + 1], not a[:, t]."""
WRONG = ["carry = carry * a[:, t]"]
RIGHT = ["carry = carry * a[:, t + 1]"]
NAME = "SelectiveScan"
# --- code
import torch
from torch.autograd import Function


class SelectiveScan(Function):
    """Diagonal state space scan h_t = a_t * h_{t-1} + b_t, h_{-1} = h0; a, b are (B, T, N)."""

    @staticmethod
    def forward(ctx, a, b, h0):
        h, hs = h0, []
        for t in range(a.shape[1]):
            h = a[:, t] * h + b[:, t]
            hs.append(h)
        out = torch.stack(hs, dim=1)
        ctx.save_for_backward(a, h0, out)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        a, h0, h = ctx.saved_tensors
        last = a.shape[1] - 1
        prev = torch.cat([h0.unsqueeze(1), h[:, :-1]], dim=1)
        carry = grad_out[:, last]
        grad_b = torch.zeros_like(a)
        grad_b[:, last] = carry
        for t in range(last - 1, -1, -1):
            carry = carry * a[:, t]
            carry = carry + grad_out[:, t]
            grad_b[:, t] = carry
        grad_a = grad_b * prev
        return grad_a, grad_b, carry * a[:, 0]


def inputs():
    torch.manual_seed(23)
    d = torch.float64
    return torch.rand(2, 4, 3, dtype=d), torch.randn(2, 4, 3, dtype=d), torch.randn(2, 3, dtype=d)


def reference(a, b, h0):
    h, out = h0, []
    for t in range(a.shape[1]):
        h = torch.addcmul(b[:, t], a[:, t], h)
        out.append(h)
    return torch.stack(out, dim=1)

# %% gru_cell_1
"""h also enters the output directly as z * h; this path is missing in grad_h."""
WRONG = ["grad_h = d_pre @ u.t()"]
RIGHT = ["grad_h = d_pre @ u.t() + grad_out * z"]
NAME = "MinimalGatedUnit"
# --- code
import torch
from torch.autograd import Function


class MinimalGatedUnit(Function):
    """A step of a gated unit without reset gate: x_proj (B, 2H), h (B, H), u (H, 2H)."""

    @staticmethod
    def forward(ctx, x_proj, h, u):
        pre_z, pre_n = (x_proj + h @ u).chunk(2, dim=-1)
        z = torch.sigmoid(pre_z)
        n = torch.tanh(pre_n)
        ctx.save_for_backward(h, u, z, n)
        return (1 - z) * n + z * h

    @staticmethod
    def backward(ctx, grad_out):
        h, u, z, n = ctx.saved_tensors
        d_pre_z = grad_out * (h - n) * z * (1 - z)
        d_pre_n = grad_out * (1 - z) * (1 - n * n)
        d_pre = torch.cat([d_pre_z, d_pre_n], dim=-1)
        grad_u = h.t() @ d_pre
        grad_h = d_pre @ u.t()
        return d_pre, grad_h, grad_u


def inputs():
    torch.manual_seed(24)
    d = torch.float64
    return torch.randn(3, 4, dtype=d), torch.randn(3, 2, dtype=d), torch.randn(2, 4, dtype=d)


def reference(x_proj, h, u):
    gate, candidate = (x_proj + h @ u).chunk(2, dim=-1)
    return torch.lerp(candidate.tanh(), h, gate.sigmoid())

# %% lstm_cell_1
"""Two slips: dc lacks the gradient that arrives at the second output, the cell state, and the forget gate's gradient multiplies with the new cell state instead of the old one."""
WRONG = ["dc = grad_h * o * (1 - tc * tc)", "d_f = dc * c_new * f * (1 - f)"]
RIGHT = ["dc = grad_c + grad_h * o * (1 - tc * tc)", "d_f = dc * c * f * (1 - f)"]
NAME = "LSTMPointwise"
# --- code
import torch
from torch.autograd import Function


class LSTMPointwise(Function):
    """Pointwise part of an LSTM cell: gates (B, 4H) before activation, c (B, H) -> h, c."""

    @staticmethod
    def forward(ctx, gates, c):
        i, f, g, o = gates.chunk(4, dim=1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c_new = f * c + i * g
        ctx.save_for_backward(i, f, g, o, c, c_new)
        return o * torch.tanh(c_new), c_new

    @staticmethod
    def backward(ctx, grad_h, grad_c):
        i, f, g, o, c, c_new = ctx.saved_tensors
        tc = torch.tanh(c_new)
        dc = grad_h * o * (1 - tc * tc)
        d_i = dc * g * i * (1 - i)
        d_f = dc * c_new * f * (1 - f)
        d_g = dc * i * (1 - g * g)
        d_o = grad_h * tc * o * (1 - o)
        return torch.cat([d_i, d_f, d_g, d_o], dim=1), dc * f


def inputs():
    torch.manual_seed(25)
    return torch.randn(3, 8, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64)


def reference(gates, c):
    i, f, g, o = gates.chunk(4, dim=1)
    c_new = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c_new.tanh(), c_new

# %% s4d_kernel_1
"""The gradient of the complex c needs the conjugate of powers; the conjugate is forgotten."""
WRONG = ["grad_c = 2 * g @ powers.t()"]
RIGHT = ["grad_c = 2 * g @ powers.conj().t()"]
NAME = "S4DKernel"
# --- code
import torch
from torch.autograd import Function


class S4DKernel(Function):
    """Convolution kernel 2 Re(sum_n c_hn exp(lam_n l)); c (H, N) and lam (N,) are complex."""

    @staticmethod
    def forward(ctx, c, lam, length):
        steps = torch.arange(length, dtype=lam.real.dtype, device=lam.device)
        powers = torch.exp(lam[:, None] * steps)
        ctx.save_for_backward(c, powers, steps)
        return 2 * (c @ powers).real

    @staticmethod
    def backward(ctx, grad_out):
        c, powers, steps = ctx.saved_tensors
        g = grad_out.to(c.dtype)
        grad_c = 2 * g @ powers.t()
        d_powers = 2 * c.conj().t() @ g
        grad_lam = (d_powers * (powers * steps).conj()).sum(dim=1)
        return grad_c, grad_lam, None


def inputs():
    torch.manual_seed(26)
    lam = torch.complex(-torch.rand(3, dtype=torch.float64), torch.randn(3, dtype=torch.float64))
    return torch.randn(2, 3, dtype=torch.complex128), lam, 4


def reference(c, lam, length):
    terms = [2 * (c * (lam * step).exp()).sum(-1).real for step in range(length)]
    return torch.stack(terms, dim=-1)

# %% topk_router_1
"""The sum that renormalizes the top k weights is treated as a constant; its own gradient is missing."""
WRONG = ["grad_top = grad_w / total"]
RIGHT = ["grad_top = (grad_w - (grad_w * w).sum(dim=-1, keepdim=True)) / total"]
NAME = "TopKRouter"
# --- code
import torch
from torch.autograd import Function


class TopKRouter(Function):
    """Softmax over all experts, then the k largest, renormalized to sum to 1; logits (T, E)."""

    @staticmethod
    def forward(ctx, logits, k):
        probs = torch.softmax(logits, dim=-1)
        top, experts = probs.topk(k, dim=-1)
        total = top.sum(dim=-1, keepdim=True)
        w = top / total
        ctx.save_for_backward(probs, experts, total, w)
        ctx.mark_non_differentiable(experts)
        return w, experts

    @staticmethod
    def backward(ctx, grad_w, _):
        probs, experts, total, w = ctx.saved_tensors
        grad_top = grad_w / total
        grad_probs = torch.zeros_like(probs).scatter_(-1, experts, grad_top)
        dot = (grad_probs * probs).sum(dim=-1, keepdim=True)
        return probs * (grad_probs - dot), None


def inputs():
    torch.manual_seed(27)
    return torch.randn(3, 5, dtype=torch.float64), 2


def reference(logits, k):
    top, experts = logits.topk(k, dim=-1)
    return top.softmax(dim=-1), experts

# %% moe_dispatch_1
"""backward must undo x[order] with the inverse permutation. The author applies order once more."""
WRONG = ["grad = grad_out[order]"]
RIGHT = ["grad = grad_out[torch.argsort(order)]"]
NAME = "DispatchTokens"
# --- code
import torch
from torch.autograd import Function


class DispatchTokens(Function):
    """Scale tokens (T, D) by their gate (T,) and sort them by expert: order is a permutation."""

    @staticmethod
    def forward(ctx, tokens, gate, expert):
        order = torch.argsort(expert, stable=True)
        ctx.save_for_backward(tokens, gate, order)
        return (tokens * gate.unsqueeze(1))[order]

    @staticmethod
    def backward(ctx, grad_out):
        tokens, gate, order = ctx.saved_tensors
        grad = grad_out[order]
        grad_tokens = grad * gate.unsqueeze(1)
        grad_gate = (grad * tokens).sum(dim=1)
        return grad_tokens, grad_gate, None


def inputs():
    torch.manual_seed(28)
    expert = torch.tensor([2, 0, 3, 1, 0])
    return torch.randn(5, 3, dtype=torch.float64), torch.rand(5, dtype=torch.float64), expert


def reference(tokens, gate, expert):
    scaled = tokens * gate[:, None]
    return torch.cat([scaled[expert == e] for e in expert.unique()])

# %% lora_1
"""Two slips: the indices of needs_input_grad are one too small, as if the frozen weight were not an argument, so a gets no gradient; and grad_b lacks the scale."""
WRONG = ["if ctx.needs_input_grad[1]:", "if ctx.needs_input_grad[2]:", "grad_b = grad_out.t() @ (x @ a.t())"]
RIGHT = ["if ctx.needs_input_grad[2]:", "if ctx.needs_input_grad[3]:", "grad_b = ctx.scale * (grad_out.t() @ (x @ a.t()))"]
NAME = "LoRALinear"
# --- code
import torch
from torch.autograd import Function


class LoRALinear(Function):
    """x @ weight.T + scale * x @ a.T @ b.T; weight (out, in) is frozen, a (r, in), b (out, r)."""

    @staticmethod
    def forward(ctx, x, weight, a, b, scale):
        ctx.save_for_backward(x, weight, a, b)
        ctx.scale = scale
        return x @ weight.t() + scale * (x @ a.t()) @ b.t()

    @staticmethod
    def backward(ctx, grad_out):
        x, weight, a, b = ctx.saved_tensors
        grad_x = grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_out @ weight + ctx.scale * (grad_out @ b) @ a
        if ctx.needs_input_grad[1]:
            grad_a = ctx.scale * ((grad_out @ b).t() @ x)
        if ctx.needs_input_grad[2]:
            grad_b = grad_out.t() @ (x @ a.t())
        return grad_x, None, grad_a, grad_b, None


def inputs():
    torch.manual_seed(29)
    d = torch.float64
    x, weight = torch.randn(5, 4, dtype=d, requires_grad=True), torch.randn(3, 4, dtype=d)
    a, b = torch.randn(2, 4, dtype=d, requires_grad=True), torch.randn(3, 2, dtype=d, requires_grad=True)
    return x, weight, a, b, 0.25


def reference(x, weight, a, b, scale):
    return torch.nn.functional.linear(x, weight + scale * b @ a)

# %% linear_cross_entropy_1
"""grad_weight is overwritten by each chunk instead of summed, so only the last chunk counts."""
WRONG = ["grad_weight = d_logits.t() @ h"]
RIGHT = ["grad_weight += d_logits.t() @ h"]
NAME = "ChunkedLinearCrossEntropy"
# --- code
import torch
from torch.autograd import Function


class ChunkedLinearCrossEntropy(Function):
    """Mean cross entropy of hidden @ weight.T without ever holding all logits."""

    @staticmethod
    def forward(ctx, hidden, weight, target, chunk):
        total = hidden.new_zeros(())
        for h, t in zip(hidden.split(chunk), target.split(chunk)):
            logits = h @ weight.t()
            picked = logits.gather(1, t[:, None]).squeeze(1)
            total = total + (logits.logsumexp(dim=1) - picked).sum()
        ctx.save_for_backward(hidden, weight, target)
        ctx.chunk = chunk
        return total / len(target)

    @staticmethod
    def backward(ctx, grad_out):
        hidden, weight, target = ctx.saved_tensors
        grad_hidden = []
        grad_weight = torch.zeros_like(weight)
        for h, t in zip(hidden.split(ctx.chunk), target.split(ctx.chunk)):
            d_logits = torch.softmax(h @ weight.t(), dim=1)
            d_logits[torch.arange(len(t), device=t.device), t] -= 1
            d_logits = d_logits * (grad_out / len(target))
            grad_hidden.append(d_logits @ weight)
            grad_weight = d_logits.t() @ h
        return torch.cat(grad_hidden), grad_weight, None, None


def inputs():
    torch.manual_seed(30)
    target = torch.tensor([0, 3, 1, 2, 3])
    return torch.randn(5, 2, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64), target, 2


def reference(hidden, weight, target, chunk):
    return torch.nn.functional.cross_entropy(hidden @ weight.t(), target)

# %% geglu_recompute_1
"""To save memory, mul_ overwrites grad_out, which belongs to autograd and may be used by others."""
WRONG = ["d_gate = grad_out.mul_(up) * gelu_slope(gate)"]
RIGHT = ["d_gate = grad_out * up * gelu_slope(gate)"]
NAME = "GEGLURecompute"
# --- code
import math

import torch
from torch.autograd import Function
from torch.nn.functional import gelu


def gelu_slope(x):
    cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    return cdf + x * torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


class GEGLURecompute(Function):
    """gelu(x @ w_gate.T) * (x @ w_up.T); the two projections are recomputed in backward."""

    @staticmethod
    def forward(x, w_gate, w_up):
        return gelu(x @ w_gate.t()) * (x @ w_up.t())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_out):
        x, w_gate, w_up = ctx.saved_tensors
        gate = x @ w_gate.t()
        up = x @ w_up.t()
        d_up = grad_out * gelu(gate)
        # the last use of grad_out, so its memory can be taken
        d_gate = grad_out.mul_(up) * gelu_slope(gate)
        grad_x = d_gate @ w_gate + d_up @ w_up
        return grad_x, d_gate.t() @ x, d_up.t() @ x


def inputs():
    torch.manual_seed(31)
    d = torch.float64
    return torch.randn(4, 3, dtype=d), torch.randn(2, 3, dtype=d), torch.randn(2, 3, dtype=d)


def reference(x, w_gate, w_up):
    return gelu(torch.nn.functional.linear(x, w_gate)) * torch.nn.functional.linear(x, w_up)

# %% leaky_relu_inplace_1
"""x is changed in place and returned, but ctx.mark_dirty(x) is missing."""
WRONG = ["ctx.slope = slope"]
RIGHT = ["ctx.slope = slope\n        ctx.mark_dirty(x)"]
NAME = "LeakyReLUInplace"
# --- code
import torch
from torch.autograd import Function


class LeakyReLUInplace(Function):
    """Leaky ReLU in the memory of its input; the sign of the output is that of the input."""

    @staticmethod
    def forward(ctx, x, slope):
        factor = torch.where(x > 0, 1.0, slope)
        x.mul_(factor)
        ctx.slope = slope
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad_out):
        (out,) = ctx.saved_tensors
        return torch.where(out > 0, grad_out, grad_out * ctx.slope), None


def inputs():
    torch.manual_seed(32)
    return torch.randn(3, 4, dtype=torch.float64), 0.1


def reference(x, slope):
    return torch.nn.functional.leaky_relu(x, slope)

# %% padded_softmax_1
"""The mask is kept on the class, not on ctx, so a second call before backward overwrites it."""
WRONG = ["PaddedSoftmax.padding = padding", "p = scores.masked_fill(PaddedSoftmax.padding, float('-inf')).softmax(dim=-1)"]
RIGHT = ["ctx.padding = padding", "p = scores.masked_fill(ctx.padding, float('-inf')).softmax(dim=-1)"]
NAME = "PaddedSoftmax"
# --- code
import torch
from torch.autograd import Function


class PaddedSoftmax(Function):
    """Softmax over the keys that are not padding; recomputed in backward."""

    @staticmethod
    def forward(ctx, scores, lengths):
        padding = torch.arange(scores.shape[-1], device=scores.device) >= lengths[:, None]
        PaddedSoftmax.padding = padding
        ctx.save_for_backward(scores)
        return scores.masked_fill(padding, float("-inf")).softmax(dim=-1)

    @staticmethod
    def backward(ctx, grad_out):
        (scores,) = ctx.saved_tensors
        p = scores.masked_fill(PaddedSoftmax.padding, float('-inf')).softmax(dim=-1)
        dot = (p * grad_out).sum(dim=-1, keepdim=True)
        return p * (grad_out - dot), None


def inputs():
    torch.manual_seed(33)
    return torch.randn(3, 4, dtype=torch.float64), torch.tensor([4, 2, 3])


def reference(scores, lengths):
    keep = (torch.arange(scores.shape[-1]) < lengths[:, None]).to(scores.dtype)
    return torch.softmax(scores + keep.log(), dim=-1)

# %% energy_1
"""backward uses p, an intermediate result of forward, which has no graph: the gradient is right, but the second derivative (for a gradient penalty) treats p as a constant and is 0."""
WRONG = ["ctx.save_for_backward(p)", "(p,) = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(logits)", "p = torch.softmax(ctx.saved_tensors[0] / ctx.temperature, dim=-1)"]
NAME = "FreeEnergy"
# --- code
import torch
from torch.autograd import Function


class FreeEnergy(Function):
    """-T * logsumexp(logits / T), the energy score for out-of-distribution detection."""

    @staticmethod
    def forward(ctx, logits, temperature):
        scaled = logits / temperature
        p = torch.softmax(scaled, dim=-1)
        ctx.save_for_backward(p)
        ctx.temperature = temperature
        return -temperature * torch.logsumexp(scaled, dim=-1)

    @staticmethod
    def backward(ctx, grad_out):
        (p,) = ctx.saved_tensors
        return -grad_out.unsqueeze(-1) * p, None


def inputs():
    torch.manual_seed(34)
    return torch.randn(3, 4, dtype=torch.float64), 2.0


def reference(logits, temperature):
    return -temperature * torch.logsumexp(logits / temperature, dim=-1)

# %% position_embedding_1
"""torch.zeros has the default dtype and is on the CPU; it should have the dtype and device of grad_out."""
WRONG = ["grad_table = torch.zeros(ctx.num_positions, grad_out.shape[-1])"]
RIGHT = ["grad_table = grad_out.new_zeros(ctx.num_positions, grad_out.shape[-1])"]
NAME = "AddPositions"
# --- code
import torch
from torch.autograd import Function


class AddPositions(Function):
    """x (B, T, D) plus learned positions: table (P, D), positions (B, T) for packed sequences."""

    @staticmethod
    def forward(ctx, x, table, positions):
        ctx.save_for_backward(positions)
        ctx.num_positions = table.shape[0]
        return x + table[positions]

    @staticmethod
    def backward(ctx, grad_out):
        (positions,) = ctx.saved_tensors
        grad_table = torch.zeros(ctx.num_positions, grad_out.shape[-1])
        grad_table.index_add_(0, positions.flatten(), grad_out.flatten(0, 1))
        return grad_out, grad_table, None


def inputs():
    torch.manual_seed(35)
    positions = torch.tensor([[0, 1, 2, 0], [0, 1, 0, 1]])
    return torch.randn(2, 4, 3), torch.randn(5, 3), positions


def reference(x, table, positions):
    return x + torch.nn.functional.embedding(positions, table)
