# %% softcap_scores_01
"""The tanh derivative is taken from the saved output as 1 - y*y, but the output is cap*tanh(s/cap); it must be divided by cap before it is squared (1 - (y/cap)^2)."""
WRONG = ["ds = grad * (1.0 - y * y)"]
RIGHT = ["ds = grad * (1.0 - (y / ctx.cap) ** 2)"]
NAME = "SoftCappedScores"
# --- code
import torch
from torch.autograd import Function


class SoftCappedScores(Function):
    """Attention scores with Gemma-2 style logit soft-capping: cap * tanh(q k^T * scale / cap)."""

    @staticmethod
    def forward(q, k, scale, cap):
        s = torch.matmul(q, k.transpose(-2, -1)) * scale
        return cap * torch.tanh(s / cap)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, scale, cap = inputs
        ctx.save_for_backward(q, k, output)
        ctx.scale = scale
        ctx.cap = cap

    @staticmethod
    def backward(ctx, grad):
        q, k, y = ctx.saved_tensors
        ds = grad * (1.0 - y * y)
        ds = ds * ctx.scale
        grad_q = grad_k = None
        if ctx.needs_input_grad[0]:
            grad_q = torch.matmul(ds, k)
        if ctx.needs_input_grad[1]:
            grad_k = torch.matmul(ds.transpose(-2, -1), q)
        return grad_q, grad_k, None, None


def inputs():
    torch.manual_seed(0)
    q = torch.randn(2, 2, 3, 4, dtype=torch.float64)
    k = torch.randn(2, 2, 5, 4, dtype=torch.float64)
    return (q, k, 0.5, 2.0)


def reference(q, k, scale, cap):
    s = torch.einsum("bhqd,bhkd->bhqk", q, k) * scale
    return cap * torch.tanh(s / cap)

# %% gemma_rmsnorm_02
"""The forward scales by (1 + weight) (zero-centred weight), but the backward multiplies the incoming gradient by weight alone, so the gradient of x misses the 1 + offset."""
WRONG = ["gh = g * weight.to(g.dtype)"]
RIGHT = ["gh = g * (1.0 + weight.to(g.dtype))"]
NAME = "ZeroCenteredRMSNorm"
# --- code
import torch


class ZeroCenteredRMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps=1e-6):
        rstd = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
        xhat = x * rstd
        ctx.save_for_backward(xhat, rstd, weight)
        return xhat * (1.0 + weight)

    @staticmethod
    def backward(ctx, g):
        xhat, rstd, weight = ctx.saved_tensors
        gx = gw = None
        if ctx.needs_input_grad[1]:
            gw = (g * xhat).reshape(-1, xhat.size(-1)).sum(0)
        if ctx.needs_input_grad[0]:
            gh = g * weight.to(g.dtype)
            dot = (gh * xhat).mean(dim=-1, keepdim=True)
            gx = rstd * (gh - xhat * dot)
        return gx, gw, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    w = 0.3 * torch.randn(5, dtype=torch.float64)
    return (x, w, 1e-6)

# %% label_smoothing_ce_03
"""The loss is averaged over the tokens that are not ignored, but the backward divides by the number of all tokens, so the gradient is too small by the ratio of valid to all tokens."""
WRONG = ["grad = grad * (g / target.numel())"]
RIGHT = ["grad = grad * (g / valid.sum())"]
NAME = "SmoothedCrossEntropy"
# --- code
import torch
import torch.nn.functional as F


class SmoothedCrossEntropy(torch.autograd.Function):
    """Token-level cross entropy with label smoothing; keeps only the probabilities for backward."""

    @staticmethod
    def forward(ctx, logits, target, smoothing, ignore_index):
        logp = F.log_softmax(logits, dim=-1)
        valid = target != ignore_index
        safe = target.masked_fill(~valid, 0)
        nll = -logp.gather(-1, safe.unsqueeze(-1)).squeeze(-1)
        uniform = -logp.mean(dim=-1)
        loss = (1.0 - smoothing) * nll + smoothing * uniform
        ctx.save_for_backward(logp.exp(), target)
        ctx.smoothing = smoothing
        ctx.ignore_index = ignore_index
        return (loss * valid).sum() / valid.sum()

    @staticmethod
    def backward(ctx, g):
        p, target = ctx.saved_tensors
        valid = target != ctx.ignore_index
        safe = target.masked_fill(~valid, 0)
        soft = torch.full_like(p, ctx.smoothing / p.size(-1))
        soft.scatter_add_(-1, safe.unsqueeze(-1),
                          torch.full_like(p[..., :1], 1.0 - ctx.smoothing))
        grad = (p - soft) * valid.unsqueeze(-1)
        grad = grad * (g / target.numel())
        return grad, None, None, None


def inputs():
    torch.manual_seed(0)
    logits = torch.randn(6, 5, dtype=torch.float64)
    target = torch.tensor([1, -100, 4, 0, -100, 2])
    return (logits, target, 0.1, -100)


def reference(logits, target, smoothing, ignore_index):
    return F.cross_entropy(logits, target, ignore_index=ignore_index, label_smoothing=smoothing)

# %% rope_kv_offset_04
"""The forward rotates by the absolute positions start..start+T-1 (cached decoding), but the backward rebuilds the tables without the start offset, so it rotates the gradient back by the wrong angles."""
WRONG = ["cos, sin = rope_tables(gq, ctx.base)"]
RIGHT = ["cos, sin = rope_tables(gq, ctx.base, ctx.start)"]
NAME = "ApplyRotary"
# --- code
import torch


def rope_tables(x, base, start=0):
    t, d = x.size(-2), x.size(-1)
    inv = base ** (-torch.arange(0, d, 2, dtype=x.dtype, device=x.device) / d)
    pos = torch.arange(start, start + t, dtype=x.dtype, device=x.device)
    ang = torch.outer(pos, inv)
    ang = torch.cat([ang, ang], dim=-1)
    return ang.cos(), ang.sin()


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


class ApplyRotary(torch.autograd.Function):
    """Rotates q and k; the tables are rebuilt in backward rather than stored."""

    @staticmethod
    def forward(ctx, q, k, base, start):
        ctx.base = base
        ctx.start = start
        cos, sin = rope_tables(q, base, start)
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

    @staticmethod
    def backward(ctx, gq, gk):
        cos, sin = rope_tables(gq, ctx.base)
        grad_q = gq * cos - rotate_half(gq) * sin
        grad_k = gk * cos - rotate_half(gk) * sin
        return grad_q, grad_k, None, None


def inputs():
    torch.manual_seed(0)
    q = torch.randn(1, 2, 3, 4, dtype=torch.float64)
    k = torch.randn(1, 1, 3, 4, dtype=torch.float64)
    return (q, k, 10000.0, 7)

# %% annotated_layernorm_05
"""torch.std is the unbiased estimator (divides by N-1), but the backward averages the projection over N, as for the biased variance; the std term is too small by (N-1)/N."""
WRONG = ["proj = (gh * d).mean(-1, keepdim=True)"]
RIGHT = ["proj = (gh * d).sum(-1, keepdim=True) / (d.size(-1) - 1)"]
NAME = "StdLayerNorm"
# --- code
import torch
from torch.autograd import Function


class StdLayerNorm(Function):
    """LayerNorm as in the Annotated Transformer: a * (x - mean) / (std + eps) + b."""

    @staticmethod
    def forward(ctx, x, a, b, eps):
        d = x - x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        ctx.save_for_backward(d, std, a)
        ctx.eps = eps
        return a * d / (std + eps) + b

    @staticmethod
    def backward(ctx, g):
        d, std, a = ctx.saved_tensors
        inv = 1.0 / (std + ctx.eps)
        lead = tuple(range(g.dim() - 1))
        grad_b = g.sum(lead)
        grad_a = (g * d * inv).sum(lead)
        gh = g * a
        proj = (gh * d).mean(-1, keepdim=True)
        gx = inv * (gh - gh.mean(-1, keepdim=True))
        gx = gx - inv * inv * d * proj / std
        return gx, grad_a, grad_b, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 2, 6, dtype=torch.float64)
    a = 1 + 0.2 * torch.randn(6, dtype=torch.float64)
    b = torch.randn(6, dtype=torch.float64)
    return (x, a, b, 1e-6)

# %% unit_normalize_06
"""Where the norm is below eps the denominator is the constant eps, so the projection term must vanish there; the backward applies it to the clamped rows too."""
WRONG = ["radial = (g * y).sum(ctx.dim, keepdim=True)"]
RIGHT = ["radial = (g * y).sum(ctx.dim, keepdim=True) * (denom > ctx.eps)"]
NAME = "UnitNormalize"
# --- code
import torch
import torch.nn.functional as F


class UnitNormalize(torch.autograd.Function):
    """x / max(||x||, eps) along dim; returns the denominator too, to avoid a second pass over x."""

    @staticmethod
    def forward(x, dim, eps):
        denom = x.norm(dim=dim, keepdim=True).clamp_min(eps)
        return x / denom, denom

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, dim, eps = inputs
        y, denom = output
        ctx.mark_non_differentiable(denom)
        ctx.save_for_backward(y, denom)
        ctx.dim = dim
        ctx.eps = eps

    @staticmethod
    def backward(ctx, g, _g_denom):
        y, denom = ctx.saved_tensors
        radial = (g * y).sum(ctx.dim, keepdim=True)
        return (g - y * radial) / denom, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64)
    x[2] = torch.tensor([0.05, -0.03, 0.04], dtype=torch.float64)
    return (x, 1, 0.1)


def reference(x, dim, eps):
    return F.normalize(x, dim=dim, eps=eps), x.norm(dim=dim, keepdim=True).clamp_min(eps)

# %% masked_lme_pool_07
"""The padded positions are left out of the log-mean-exp, but the backward's softmax weights are computed for all positions; the mask is not applied again, so gradient leaks into the padding."""
WRONG = ["p = torch.exp(ctx.tau * (x - y.unsqueeze(1))) / n.unsqueeze(-1)"]
RIGHT = ["p = torch.exp(ctx.tau * (x - y.unsqueeze(1))) / n.unsqueeze(-1) * mask.unsqueeze(-1)"]
NAME = "MaskedLogMeanExp"
# --- code
import torch


class MaskedLogMeanExp(torch.autograd.Function):
    """Smooth max pooling over time: (1/tau) * log(mean(exp(tau * x))) over the valid steps."""

    @staticmethod
    def forward(ctx, x, mask, tau):
        n = mask.sum(1, keepdim=True).to(x.dtype)
        z = (tau * x).masked_fill(~mask.unsqueeze(-1), float("-inf"))
        y = (torch.logsumexp(z, dim=1) - n.log()) / tau
        ctx.save_for_backward(x, mask, y, n)
        ctx.tau = tau
        return y

    @staticmethod
    def backward(ctx, g):
        x, mask, y, n = ctx.saved_tensors
        p = torch.exp(ctx.tau * (x - y.unsqueeze(1))) / n.unsqueeze(-1)
        return g.unsqueeze(1) * p, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False], [True, True, False, False]])
    return (x, mask, 2.0)

# %% soft_vq_08
"""The codebook acts twice, as the values that are mixed and as the centres in the distances; the backward has only the value path (a^T g) and misses the gradient through the distances."""
WRONG = ["grad_c = a.t() @ g"]
RIGHT = ["grad_c = a.t() @ g + 2.0 * (gd.sum(0).unsqueeze(1) * codebook - gd.t() @ x)"]
NAME = "SoftVectorQuantize"
# --- code
import torch


class SoftVectorQuantize(torch.autograd.Function):
    """Soft-to-hard VQ: softmax over negative squared distances, then a mix of the codewords."""

    @staticmethod
    def forward(ctx, x, codebook, tau):
        d2 = (x.pow(2).sum(1, keepdim=True)
              - 2.0 * x @ codebook.t()
              + codebook.pow(2).sum(1))
        a = torch.softmax(-d2 / tau, dim=1)
        ctx.save_for_backward(x, codebook, a)
        ctx.tau = tau
        return a @ codebook

    @staticmethod
    def backward(ctx, g):
        x, codebook, a = ctx.saved_tensors
        ga = g @ codebook.t()
        gs = a * (ga - (a * ga).sum(1, keepdim=True))
        gd = -gs / ctx.tau
        grad_x = grad_c = None
        if ctx.needs_input_grad[0]:
            grad_x = 2.0 * (gd.sum(1, keepdim=True) * x - gd @ codebook)
        if ctx.needs_input_grad[1]:
            grad_c = a.t() @ g
        return grad_x, grad_c, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64)
    c = torch.randn(5, 3, dtype=torch.float64)
    return (x, c, 1.5)


def reference(x, codebook, tau):
    d2 = (x[:, None, :] - codebook[None]).pow(2).sum(-1)
    return torch.softmax(-d2 / tau, dim=1) @ codebook

# %% noise_quant_09
"""The clamp acts on v + noise, but the backward tests the bounds on v without the noise; elements that the noise pushes over (or keeps inside) a bound get the gradient of the wrong branch."""
WRONG = ["inside = (v >= ctx.qmin) & (v <= ctx.qmax)"]
RIGHT = ["inside = (v + noise >= ctx.qmin) & (v + noise <= ctx.qmax)"]
NAME = "NoiseFakeQuant"
# --- code
import torch


class NoiseFakeQuant(torch.autograd.Function):
    """Quantization-noise surrogate with a learned per-channel step: step * clamp(w / step + noise)."""

    @staticmethod
    def forward(ctx, w, step, noise, bits):
        ctx.qmin = -(2 ** (bits - 1))
        ctx.qmax = 2 ** (bits - 1) - 1
        ctx.save_for_backward(w, step, noise)
        q = (w / step + noise).clamp(ctx.qmin, ctx.qmax)
        return q * step

    @staticmethod
    def backward(ctx, g):
        w, step, noise = ctx.saved_tensors
        v = w / step
        inside = (v >= ctx.qmin) & (v <= ctx.qmax)
        q = (v + noise).clamp(ctx.qmin, ctx.qmax)
        grad_w = g * inside
        grad_step = (g * torch.where(inside, q - v, q)).sum(dim=1, keepdim=True)
        grad_noise = g * inside * step
        return grad_w, grad_step, grad_noise, None


def inputs():
    torch.manual_seed(0)
    w = torch.tensor([[0.92, -0.4, 1.6, -1.1], [0.85, 1.9, -2.6, -1.7]], dtype=torch.float64)
    step = torch.tensor([[0.95], [0.9]], dtype=torch.float64)
    noise = torch.tensor([[0.4, -0.2, -0.3, 0.1], [0.35, 0.2, -0.1, -0.45]], dtype=torch.float64)
    return (w, step, noise, 2)

# %% fused_gru_10
"""The recurrent part of the candidate enters as r * h_n, so its gradient must be multiplied by r; the backward passes the candidate's gradient to the hidden side unscaled."""
WRONG = ["grad_gh = torch.cat([gr, gz, gn], dim=1)"]
RIGHT = ["grad_gh = torch.cat([gr, gz, gn * r], dim=1)"]
NAME = "FusedGRUPointwise"
# --- code
import torch
from torch.autograd import Function


class FusedGRUPointwise(Function):
    """Pointwise part of a GRU cell; gi = W_ih x + b_ih and gh = W_hh h + b_hh come from two GEMMs."""

    @staticmethod
    def forward(ctx, gi, gh, h):
        i_r, i_z, i_n = gi.chunk(3, dim=1)
        h_r, h_z, h_n = gh.chunk(3, dim=1)
        r = torch.sigmoid(i_r + h_r)
        z = torch.sigmoid(i_z + h_z)
        n = torch.tanh(i_n + r * h_n)
        ctx.save_for_backward(r, z, n, h_n, h)
        return n + z * (h - n)

    @staticmethod
    def backward(ctx, g):
        r, z, n, h_n, h = ctx.saved_tensors
        gn = g * (1 - z) * (1 - n * n)
        gz = g * (h - n) * z * (1 - z)
        gr = gn * h_n * r * (1 - r)
        grad_gi = torch.cat([gr, gz, gn], dim=1)
        grad_gh = torch.cat([gr, gz, gn], dim=1)
        return grad_gi, grad_gh, g * z


def inputs():
    torch.manual_seed(0)
    gi = torch.randn(2, 9, dtype=torch.float64)
    gh = torch.randn(2, 9, dtype=torch.float64)
    h = torch.randn(2, 3, dtype=torch.float64)
    return (gi, gh, h)


def reference(gi, gh, h):
    i_r, i_z, i_n = gi.chunk(3, 1)
    h_r, h_z, h_n = gh.chunk(3, 1)
    r, z = (i_r + h_r).sigmoid(), (i_z + h_z).sigmoid()
    n = (i_n + r * h_n).tanh()
    return (1 - z) * n + z * h

# %% gated_scan_11
"""At t = 0 the previous state is h0, but h[:, t - 1] with t = 0 wraps around to the last state h[:, -1], so the gate gradient of the first step is wrong."""
WRONG = ["prev = h[:, t - 1]"]
RIGHT = ["prev = h[:, t - 1] if t > 0 else h0"]
NAME = "GatedLinearScan"
# --- code
import torch


class GatedLinearScan(torch.autograd.Function):
    """minGRU-style recurrence h_t = a_t * h_{t-1} + (1 - a_t) * x_t over (B, T, D)."""

    @staticmethod
    def forward(ctx, a, x, h0):
        h = torch.empty_like(x)
        state = h0
        for t in range(x.size(1)):
            state = a[:, t] * state + (1 - a[:, t]) * x[:, t]
            h[:, t] = state
        ctx.save_for_backward(a, x, h0, h)
        return h

    @staticmethod
    def backward(ctx, g):
        a, x, h0, h = ctx.saved_tensors
        grad_a = torch.empty_like(a)
        grad_x = torch.empty_like(x)
        carry = torch.zeros_like(h0)
        for t in range(x.size(1) - 1, -1, -1):
            carry = carry + g[:, t]
            prev = h[:, t - 1]
            grad_a[:, t] = carry * (prev - x[:, t])
            grad_x[:, t] = carry * (1 - a[:, t])
            carry = carry * a[:, t]
        return grad_a, grad_x, carry


def inputs():
    torch.manual_seed(0)
    a = torch.rand(2, 4, 3, dtype=torch.float64)
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    h0 = torch.randn(2, 3, dtype=torch.float64)
    return (a, x, h0)

# %% causal_attention_12
"""The saved q is already multiplied by the scale, and the backward multiplies the gradient of k by the scale again, so dk is scaled twice."""
WRONG = ["dk = torch.matmul(ds.transpose(-2, -1), q) * ctx.scale"]
RIGHT = ["dk = torch.matmul(ds.transpose(-2, -1), q)"]
NAME = "CausalAttention"
# --- code
import math
import torch


class CausalAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None):
        scale = scale if scale is not None else 1.0 / math.sqrt(q.size(-1))
        q = q * scale
        s = torch.matmul(q, k.transpose(-2, -1))
        t = s.size(-1)
        causal = torch.ones(t, t, dtype=torch.bool, device=q.device).tril()
        s = s.masked_fill(~causal, float("-inf"))
        lse = torch.logsumexp(s, dim=-1, keepdim=True)
        o = torch.matmul(torch.exp(s - lse), v)
        ctx.save_for_backward(q, k, v, o, lse, causal)
        ctx.scale = scale
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse, causal = ctx.saved_tensors
        s = torch.matmul(q, k.transpose(-2, -1))
        p = torch.exp(s - lse).masked_fill(~causal, 0.0)
        dv = torch.matmul(p.transpose(-2, -1), do)
        dp = torch.matmul(do, v.transpose(-2, -1))
        delta = (do * o).sum(-1, keepdim=True)
        ds = p * (dp - delta)
        dq = torch.matmul(ds, k) * ctx.scale
        dk = torch.matmul(ds.transpose(-2, -1), q) * ctx.scale
        return dq, dk, dv, None


def inputs():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 4, 3, dtype=torch.float64) for _ in range(3))
    return (q, k, v, 0.4)


def reference(q, k, v, scale=None):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)

# %% grouped_query_attention_13
"""repeat_interleave puts the query heads of one kv head next to each other, so the fold must view (kv_heads, group) and sum over the group; the view has the two dimensions swapped and sums the heads of different kv heads."""
WRONG = ["return t.reshape(b, group, h // group, n, d).sum(1)"]
RIGHT = ["return t.reshape(b, h // group, group, n, d).sum(2)"]
NAME = "GroupedQueryAttention"
# --- code
import torch


def fold_heads(t, group):
    b, h, n, d = t.shape
    return t.reshape(b, group, h // group, n, d).sum(1)


class GroupedQueryAttention(torch.autograd.Function):
    """GQA without keeping the expanded k and v for backward."""

    @staticmethod
    def forward(q, k, v, scale):
        group = q.size(1) // k.size(1)
        kx = k.repeat_interleave(group, dim=1)
        vx = v.repeat_interleave(group, dim=1)
        p = torch.softmax(q @ kx.transpose(-2, -1) * scale, dim=-1)
        return p @ vx

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, scale = inputs
        ctx.save_for_backward(q, k, v, output)
        ctx.scale = scale
        ctx.group = q.size(1) // k.size(1)

    @staticmethod
    def backward(ctx, do):
        q, k, v, o = ctx.saved_tensors
        kx = k.repeat_interleave(ctx.group, dim=1)
        vx = v.repeat_interleave(ctx.group, dim=1)
        p = torch.softmax(q @ kx.transpose(-2, -1) * ctx.scale, dim=-1)
        dv = p.transpose(-2, -1) @ do
        ds = p * (do @ vx.transpose(-2, -1) - (do * o).sum(-1, keepdim=True))
        ds = ds * ctx.scale
        dk = ds.transpose(-2, -1) @ q
        return ds @ kx, fold_heads(dk, ctx.group), fold_heads(dv, ctx.group), None


def inputs():
    torch.manual_seed(0)
    q = torch.randn(1, 4, 3, 2, dtype=torch.float64)
    k = torch.randn(1, 2, 3, 2, dtype=torch.float64)
    v = torch.randn(1, 2, 3, 2, dtype=torch.float64)
    return (q, k, v, 0.7)


def reference(q, k, v, scale):
    g = q.size(1) // k.size(1)
    k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)

# %% window_partition_14
"""In the window-reverse of the backward the numbers of windows along height and width are swapped in the view; it works for square maps and scrambles the gradient when H and W differ."""
WRONG = ["x = g.reshape(b, w // ws, h // ws, ws, ws, c)"]
RIGHT = ["x = g.reshape(b, h // ws, w // ws, ws, ws, c)"]
NAME = "ShiftedWindowPartition"
# --- code
import torch
from torch.autograd import Function


class ShiftedWindowPartition(Function):
    """Swin: cyclic shift and window partition in one step. (B, H, W, C) -> (B*nW, ws*ws, C)."""

    @staticmethod
    def forward(ctx, x, ws, shift):
        b, h, w, c = x.shape
        ctx.shape = (b, h, w, c)
        ctx.ws, ctx.shift = ws, shift
        if shift > 0:
            x = torch.roll(x, shifts=(-shift, -shift), dims=(1, 2))
        x = x.reshape(b, h // ws, ws, w // ws, ws, c)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, c)

    @staticmethod
    def backward(ctx, g):
        b, h, w, c = ctx.shape
        ws = ctx.ws
        x = g.reshape(b, w // ws, h // ws, ws, ws, c)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        if ctx.shift > 0:
            x = torch.roll(x, shifts=(ctx.shift, ctx.shift), dims=(1, 2))
        return x, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(1, 4, 6, 2, dtype=torch.float64)
    return (x, 2, 1)

# %% line_sample_15
"""The coordinates are unnormalized with the align_corners=False rule (derivative L/2), but the grid gradient is scaled with the align_corners=True factor (L-1)/2."""
WRONG = ["grad_grid = (g * (f1 - f0)).sum(1) * ((length - 1) / 2)"]
RIGHT = ["grad_grid = (g * (f1 - f0)).sum(1) * (length / 2)"]
NAME = "LineSample"
# --- code
import torch


class LineSample(torch.autograd.Function):
    """1-D grid_sample with linear interpolation and border padding; feat (B, C, L), grid (B, N)."""

    @staticmethod
    def _locate(grid, length):
        pos = ((grid + 1) * length - 1) / 2
        inside = (pos > 0) & (pos < length - 1)
        pos = pos.clamp(0, length - 1)
        i0 = pos.floor().long().clamp(max=length - 2)
        return i0, (pos - i0).unsqueeze(1), inside

    @staticmethod
    def forward(ctx, feat, grid):
        ctx.save_for_backward(feat, grid)
        i0, t, _ = LineSample._locate(grid, feat.size(2))
        idx = i0.unsqueeze(1).expand(-1, feat.size(1), -1)
        return torch.lerp(feat.gather(2, idx), feat.gather(2, idx + 1), t)

    @staticmethod
    def backward(ctx, g):
        feat, grid = ctx.saved_tensors
        length = feat.size(2)
        i0, t, inside = LineSample._locate(grid, length)
        idx = i0.unsqueeze(1).expand(-1, feat.size(1), -1)
        f0, f1 = feat.gather(2, idx), feat.gather(2, idx + 1)
        grad_feat = torch.zeros_like(feat)
        grad_feat.scatter_add_(2, idx, g * (1 - t))
        grad_feat.scatter_add_(2, idx + 1, g * t)
        grad_grid = (g * (f1 - f0)).sum(1) * ((length - 1) / 2)
        return grad_feat, grad_grid * inside


def inputs():
    torch.manual_seed(0)
    feat = torch.randn(2, 3, 5, dtype=torch.float64)
    grid = torch.tensor([[-0.73, 0.11, 0.52, 0.97], [-0.98, -0.31, 0.06, 0.43]], dtype=torch.float64)
    return (feat, grid)

# %% topk_router_16
"""The top-k weights are divided by their sum, which depends on them too; the backward treats the sum as a constant (g / s) and misses the term of the normalization."""
WRONG = ["g_top = g / s"]
RIGHT = ["g_top = (g - (g * w).sum(-1, keepdim=True)) / s"]
NAME = "TopKRouter"
# --- code
import torch


class TopKRouter(torch.autograd.Function):
    """MoE gate: softmax over experts, keep the k largest, renormalize them to sum to one."""

    @staticmethod
    def forward(ctx, logits, k):
        probs = torch.softmax(logits, dim=-1)
        top, idx = torch.topk(probs, k, dim=-1)
        s = top.sum(-1, keepdim=True)
        w = top / s
        ctx.save_for_backward(probs, idx, w, s)
        ctx.mark_non_differentiable(idx)
        return w, idx

    @staticmethod
    def backward(ctx, g, _):
        probs, idx, w, s = ctx.saved_tensors
        g_top = g / s
        g_probs = torch.zeros_like(probs).scatter_(-1, idx, g_top)
        inner = (g_probs * probs).sum(-1, keepdim=True)
        return probs * (g_probs - inner), None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(5, 6, dtype=torch.float64), 2)


def reference(logits, k):
    top, idx = torch.topk(torch.softmax(logits, -1), k, dim=-1)
    return top / top.sum(-1, keepdim=True), idx

# %% truncated_normal_17
"""Phi(a) enters the quantile twice, as the offset and in the width Phi(b) - Phi(a), so dz/da has the factor (1 - u); the backward keeps only the offset."""
WRONG = ["dz_da = pdf(a) / pdf(z)"]
RIGHT = ["dz_da = (1 - u) * pdf(a) / pdf(z)"]
NAME = "TruncatedNormalSample"
# --- code
import math
import torch


def pdf(t):
    return torch.exp(-0.5 * t * t) / math.sqrt(2 * math.pi)


def cdf(t):
    return torch.special.ndtr(t)


class TruncatedNormalSample(torch.autograd.Function):
    """Reparameterized sample of N(mu, sigma) restricted to [lo, hi] from uniform noise u."""

    @staticmethod
    def forward(ctx, mu, sigma, u, lo, hi):
        a, b = (lo - mu) / sigma, (hi - mu) / sigma
        z = torch.special.ndtri(cdf(a) + u * (cdf(b) - cdf(a)))
        ctx.save_for_backward(mu, sigma, u, z)
        ctx.bounds = (lo, hi)
        return mu + sigma * z

    @staticmethod
    def backward(ctx, g):
        mu, sigma, u, z = ctx.saved_tensors
        lo, hi = ctx.bounds
        a, b = (lo - mu) / sigma, (hi - mu) / sigma
        dz_da = pdf(a) / pdf(z)
        dz_db = u * pdf(b) / pdf(z)
        grad_mu = g * (1 - dz_da - dz_db)
        grad_sigma = g * (z - a * dz_da - b * dz_db)
        grad_u = g * sigma * (cdf(b) - cdf(a)) / pdf(z)
        return grad_mu, grad_sigma, grad_u, None, None


def inputs():
    torch.manual_seed(0)
    mu = 0.5 * torch.randn(5, dtype=torch.float64)
    sigma = 0.5 + torch.rand(5, dtype=torch.float64)
    u = 0.1 + 0.8 * torch.rand(5, dtype=torch.float64)
    return (mu, sigma, u, -1.0, 1.5)

# %% clamped_swiglu_18
"""clamp_ writes the clamped values into the caller's gate tensor, which is also the saved input; the backward's test gate <= limit is then true everywhere, so gradient passes through the clipped elements (and the caller's tensor is changed without mark_dirty). One forward and backward is silently wrong; a second call on the same gate before the backward, as in gradcheck, raises the saved-tensor-modified error."""
WRONG = ["h = gate.clamp_(max=limit)"]
RIGHT = ["h = gate.clamp(max=limit)"]
NAME = "ClampedSwiGLU"
# --- code
import torch


class ClampedSwiGLU(torch.autograd.Function):
    """SwiGLU with clipped branches: h * sigmoid(alpha * h) * (u + 1)."""

    @staticmethod
    def forward(gate, up, limit, alpha):
        h = gate.clamp_(max=limit)
        u = up.clamp(min=-limit, max=limit)
        return h * torch.sigmoid(alpha * h) * (u + 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        gate, up, limit, alpha = inputs
        ctx.save_for_backward(gate, up)
        ctx.limit, ctx.alpha = limit, alpha

    @staticmethod
    def backward(ctx, g):
        gate, up = ctx.saved_tensors
        h = gate.clamp(max=ctx.limit)
        u = up.clamp(min=-ctx.limit, max=ctx.limit)
        s = torch.sigmoid(ctx.alpha * h)
        dh = s + ctx.alpha * h * s * (1 - s)
        grad_gate = g * (u + 1) * dh * (gate <= ctx.limit)
        grad_up = g * h * s * (up.abs() <= ctx.limit)
        return grad_gate, grad_up, None, None


def inputs():
    torch.manual_seed(0)
    gate = 2 * torch.randn(3, 4, dtype=torch.float64)
    up = 2 * torch.randn(3, 4, dtype=torch.float64)
    return (gate, up, 1.5, 1.702)


def reference(gate, up, limit, alpha):
    h = gate.clamp(max=limit)
    return h * torch.sigmoid(alpha * h) * (up.clamp(-limit, limit) + 1)

# %% sparsemax_19
"""The mean of the incoming gradient must be taken over the support only; the sum runs over all entries while the divisor counts only the support."""
WRONG = ["v = g.sum(ctx.dim, keepdim=True) / support.sum(ctx.dim, keepdim=True)"]
RIGHT = ["v = (g * support).sum(ctx.dim, keepdim=True) / support.sum(ctx.dim, keepdim=True)"]
NAME = "Sparsemax"
# --- code
import torch
from torch.autograd import Function


class Sparsemax(Function):
    """Euclidean projection onto the simplex (Martins & Astudillo, 2016)."""

    @staticmethod
    def forward(ctx, z, dim=-1):
        ctx.dim = dim
        z = z - z.max(dim=dim, keepdim=True).values
        zs = torch.sort(z, dim=dim, descending=True).values
        shape = [1] * z.dim()
        shape[dim] = -1
        k = torch.arange(1, z.size(dim) + 1, dtype=z.dtype, device=z.device).view(shape)
        cs = zs.cumsum(dim) - 1
        size = (k * zs > cs).sum(dim, keepdim=True)
        tau = cs.gather(dim, size - 1) / size.to(z.dtype)
        y = torch.clamp(z - tau, min=0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        y, = ctx.saved_tensors
        support = (y > 0).to(g.dtype)
        v = g.sum(ctx.dim, keepdim=True) / support.sum(ctx.dim, keepdim=True)
        return support * (g - v), None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(3, 5, dtype=torch.float64), 1)

# %% clip_loss_20
"""Two at once: each of the two cross entropies subtracts the identity, so it must be subtracted twice (once is missing); and the parameter is the log of the scale, so its gradient needs the factor scale from exp."""
WRONG = ["d = (p_row + p_col - torch.eye(n, dtype=sim.dtype, device=sim.device)) / (2 * n)", "grad_log = g * (d * sim).sum()"]
RIGHT = ["d = (p_row + p_col - 2 * torch.eye(n, dtype=sim.dtype, device=sim.device)) / (2 * n)", "grad_log = g * (d * sim).sum() * scale"]
NAME = "ContrastiveLoss"
# --- code
import torch
import torch.nn.functional as F


class ContrastiveLoss(torch.autograd.Function):
    """Symmetric InfoNCE over matched pairs with a learnable log temperature (CLIP)."""

    @staticmethod
    def forward(ctx, img, txt, log_scale):
        sim = img @ txt.t()
        scale = log_scale.exp()
        logits = scale * sim
        lse_row = torch.logsumexp(logits, dim=1)
        lse_col = torch.logsumexp(logits, dim=0)
        ctx.save_for_backward(img, txt, sim, scale)
        return 0.5 * (lse_row + lse_col).mean() - logits.diagonal().mean()

    @staticmethod
    def backward(ctx, g):
        img, txt, sim, scale = ctx.saved_tensors
        n = sim.size(0)
        p_row = torch.softmax(scale * sim, dim=1)
        p_col = torch.softmax(scale * sim, dim=0)
        d = (p_row + p_col - torch.eye(n, dtype=sim.dtype, device=sim.device)) / (2 * n)
        grad_img = g * scale * (d @ txt)
        grad_txt = g * scale * (d.t() @ img)
        grad_log = g * (d * sim).sum()
        return grad_img, grad_txt, grad_log


def inputs():
    torch.manual_seed(0)
    img = F.normalize(torch.randn(4, 3, dtype=torch.float64), dim=-1)
    txt = F.normalize(torch.randn(4, 3, dtype=torch.float64), dim=-1)
    return (img, txt, torch.tensor(0.8, dtype=torch.float64))


def reference(img, txt, log_scale):
    logits = log_scale.exp() * img @ txt.t()
    t = torch.arange(img.size(0))
    return 0.5 * (F.cross_entropy(logits, t) + F.cross_entropy(logits.t(), t))

# %% soft_threshold_21
"""The backward zeroes grad_output in place with masked_fill_; autograd may hand the same buffer to another branch, so in a residual such as (f(x) + x).pow(2).sum() the skip path's gradient is zeroed too (gradcheck alone passes)."""
WRONG = ["grad_x = grad_out.masked_fill_(dead, 0)"]
RIGHT = ["grad_x = grad_out.masked_fill(dead, 0)"]
NAME = "SoftThreshold"
# --- code
import torch
from torch.autograd import Function


class SoftThreshold(Function):
    """Shrinkage of LISTA with a learned threshold per feature: sign(x) * max(|x| - lam, 0)."""

    @staticmethod
    def forward(ctx, x, lam):
        dead = x.abs() <= lam
        sign = torch.sign(x)
        ctx.save_for_backward(dead, sign)
        return (x - sign * lam).masked_fill(dead, 0)

    @staticmethod
    def backward(ctx, grad_out):
        dead, sign = ctx.saved_tensors
        grad_x = grad_out.masked_fill_(dead, 0)
        grad_lam = None
        if ctx.needs_input_grad[1]:
            grad_lam = -(grad_x * sign).sum(dim=0)
        return grad_x, grad_lam


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 5, dtype=torch.float64)
    lam = 0.2 + 0.5 * torch.rand(5, dtype=torch.float64)
    return (x, lam)

# %% seeded_dropout_22
"""The mask is redrawn in backward from the same seed but with the default float32 instead of the input's dtype; the generator gives another stream for float64, so the backward's mask is not the forward's (it is right only for float32 inputs)."""
WRONG = ["keep = draw_keep(g.shape, ctx.p, ctx.seed)"]
RIGHT = ["keep = draw_keep(g.shape, ctx.p, ctx.seed, g.dtype)"]
NAME = "BiasDropoutAdd"
# --- code
import torch


def draw_keep(shape, p, seed, dtype=torch.float32):
    gen = torch.Generator()
    gen.manual_seed(seed)
    return torch.rand(shape, generator=gen, dtype=dtype) >= p


class BiasDropoutAdd(torch.autograd.Function):
    """residual + dropout(x + bias); the mask is not stored, only its seed."""

    @staticmethod
    def forward(ctx, x, bias, residual, p, seed):
        ctx.p = p
        ctx.seed = seed
        keep = draw_keep(x.shape, p, seed, x.dtype)
        return residual + (x + bias) * keep / (1.0 - p)

    @staticmethod
    def backward(ctx, g):
        keep = draw_keep(g.shape, ctx.p, ctx.seed)
        gx = g * keep / (1.0 - ctx.p)
        grad_bias = gx.reshape(-1, gx.size(-1)).sum(0)
        return gx, grad_bias, g, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    bias = torch.randn(4, dtype=torch.float64)
    residual = torch.randn(2, 3, 4, dtype=torch.float64)
    return (x, bias, residual, 0.3, 1234)

# %% linear_leaky_23
"""needs_input_grad counts all arguments, the float slope too; the bias is argument 3, but index 2 (the slope, always False) is tested, so the bias never gets a gradient."""
WRONG = ["if bias is not None and ctx.needs_input_grad[2]:"]
RIGHT = ["if bias is not None and ctx.needs_input_grad[3]:"]
NAME = "LinearLeaky"
# --- code
import torch
import torch.nn.functional as F


class LinearLeaky(torch.autograd.Function):
    """Linear layer with a fused leaky ReLU; the bias is optional and comes last."""

    @staticmethod
    def forward(ctx, x, weight, slope, bias=None):
        z = F.linear(x, weight, bias)
        neg = z < 0
        ctx.save_for_backward(x, weight, bias, neg)
        ctx.slope = slope
        return torch.where(neg, slope * z, z)

    @staticmethod
    def backward(ctx, g):
        x, weight, bias, neg = ctx.saved_tensors
        gz = torch.where(neg, ctx.slope * g, g)
        gx = gw = gb = None
        if ctx.needs_input_grad[0]:
            gx = gz @ weight
        if ctx.needs_input_grad[1]:
            gw = torch.einsum("...o,...i->oi", gz, x)
        if bias is not None and ctx.needs_input_grad[2]:
            gb = gz.reshape(-1, gz.size(-1)).sum(0)
        return gx, gw, None, gb


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    w = torch.randn(5, 4, dtype=torch.float64)
    b = torch.randn(5, dtype=torch.float64)
    return (x, w, 0.1, b)

# %% silu_double_backward_24
"""The second derivative of x*sigmoid(x) is s(1-s)(2 + x(1-2s)); the code has 1 instead of 2, because the product rule gives s(1-s) twice. First order is right, gradgradcheck (a gradient penalty) fails."""
WRONG = ["d2 = s * (1 - s) * (1 + x * (1 - 2 * s))"]
RIGHT = ["d2 = s * (1 - s) * (2 + x * (1 - 2 * s))"]
NAME = "SmoothSiLU"
# --- code
import torch
from torch.autograd import Function


class SiLUGrad(Function):
    @staticmethod
    def forward(ctx, g, x):
        ctx.save_for_backward(g, x)
        s = torch.sigmoid(x)
        return g * s * (1 + x * (1 - s))

    @staticmethod
    def backward(ctx, gg):
        g, x = ctx.saved_tensors
        s = torch.sigmoid(x)
        d1 = s * (1 + x * (1 - s))
        d2 = s * (1 - s) * (1 + x * (1 - 2 * s))
        return gg * d1, gg * g * d2


class SmoothSiLU(Function):
    """Memory-saving SiLU that can be used under a gradient penalty (keeps only x)."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return SiLUGrad.apply(g, x)


def inputs():
    torch.manual_seed(0)
    return (torch.randn(3, 4, dtype=torch.float64),)


def reference(x):
    return torch.nn.functional.silu(x)

# %% standardize_logscale_25
"""With set_materialize_grads(False) the gradient of an unused output arrives as None; only g_ls is tested, so the backward raises (None has no attribute mean) when the loss uses the log-scale output alone."""
WRONG = ["y, rstd = ctx.saved_tensors"]
RIGHT = ["y, rstd = ctx.saved_tensors\ng_y = torch.zeros_like(y) if g_y is None else g_y"]
NAME = "Standardize"
# --- code
import torch


class Standardize(torch.autograd.Function):
    """Standardizes the last dimension and returns the log of the std next to it (for a flow's logdet)."""

    @staticmethod
    def forward(x, eps):
        var, mean = torch.var_mean(x, dim=-1, keepdim=True, unbiased=False)
        rstd = torch.rsqrt(var + eps)
        return (x - mean) * rstd, -torch.log(rstd).squeeze(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        y, log_std = output
        ctx.save_for_backward(y, torch.exp(-log_std).unsqueeze(-1))

    @staticmethod
    def backward(ctx, g_y, g_ls):
        y, rstd = ctx.saved_tensors
        centred = g_y - g_y.mean(-1, keepdim=True)
        gx = rstd * (centred - y * (g_y * y).mean(-1, keepdim=True))
        if g_ls is not None:
            gx = gx + g_ls.unsqueeze(-1) * y * rstd / y.size(-1)
        return gx, None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(3, 5, dtype=torch.float64), 1e-5)

# %% volume_composite_26
"""The opacity of a sample changes the transmittance of the samples behind it only (j > i), but the reversed cumsum is inclusive and counts the sample's own weight too."""
WRONG = ["behind = gww.flip(1).cumsum(1).flip(1)"]
RIGHT = ["behind = gww.flip(1).cumsum(1).flip(1) - gww"]
NAME = "AlphaComposite"
# --- code
import torch


class AlphaComposite(torch.autograd.Function):
    """Front-to-back compositing along rays: alpha (R, S), rgb (R, S, 3) -> colour (R, 3)."""

    @staticmethod
    def forward(ctx, alpha, rgb, background):
        ones = torch.ones_like(alpha[:, :1])
        trans = torch.cumprod(torch.cat([ones, 1 - alpha], dim=1), dim=1)
        w = alpha * trans[:, :-1]
        ctx.save_for_backward(alpha, rgb, trans)
        ctx.background = background
        return torch.einsum("rs,rsc->rc", w, rgb) + trans[:, -1:] * background

    @staticmethod
    def backward(ctx, g):
        alpha, rgb, trans = ctx.saved_tensors
        t = trans[:, :-1]
        w = alpha * t
        g_rgb = torch.einsum("rs,rc->rsc", w, g)
        gw = torch.einsum("rc,rsc->rs", g, rgb)
        gww = gw * w
        behind = gww.flip(1).cumsum(1).flip(1)
        bg = (g * ctx.background).sum(1, keepdim=True) * trans[:, -1:]
        g_alpha = gw * t - (behind + bg) / (1 - alpha)
        return g_alpha, g_rgb, None


def inputs():
    torch.manual_seed(0)
    alpha = 0.1 + 0.7 * torch.rand(3, 4, dtype=torch.float64)
    rgb = torch.rand(3, 4, 3, dtype=torch.float64)
    return (alpha, rgb, 1.0)


def reference(alpha, rgb, background):
    t = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha], 1), 1)
    return ((alpha * t[:, :-1]).unsqueeze(-1) * rgb).sum(1) + t[:, -1:] * background

# %% policy_entropy_27
"""The probabilities needed in backward live in a global workspace buffer that is shared by all calls of the same shape; a second forward before the first backward (two policy heads) overwrites them, and the first gradient is silently wrong. A single forward and backward, and gradcheck, pass."""
WRONG = ["p = workspace(\"probs\", logits)"]
RIGHT = ["p = torch.empty_like(logits)"]
NAME = "PolicyEntropy"
# --- code
import torch

_BUFFERS = {}


def workspace(name, like):
    key = (name, tuple(like.shape), like.dtype, like.device)
    if key not in _BUFFERS:
        _BUFFERS[key] = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    return _BUFFERS[key]


class PolicyEntropy(torch.autograd.Function):
    """Entropy of a categorical policy from logits, with as few allocations as possible."""

    @staticmethod
    def forward(ctx, logits, eps):
        p = workspace("probs", logits)
        torch.sub(logits, logits.amax(-1, keepdim=True), out=p)
        p.exp_()
        p.div_(p.sum(-1, keepdim=True))
        h = -(p * torch.log(p + eps)).sum(-1)
        ctx.p = p
        ctx.eps = eps
        return h

    @staticmethod
    def backward(ctx, g):
        p = ctx.p
        dp = -(torch.log(p + ctx.eps) + p / (p + ctx.eps))
        dx = p * (dp - (p * dp).sum(-1, keepdim=True))
        return g.unsqueeze(-1) * dx, None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(3, 4, dtype=torch.float64), 1e-8)

# %% fft_long_conv_28
"""The forward pads the FFT to 2L for a linear (causal) convolution, but the backward takes the FFTs of length L, so the correlation is circular and the gradient wraps around."""
WRONG = ["n = g.size(-1)"]
RIGHT = ["n = 2 * g.size(-1)"]
NAME = "FFTLongConv"
# --- code
import torch


class FFTLongConv(torch.autograd.Function):
    """Causal long convolution with a skip (Hyena / S4): x (B, D, L), k (D, L), skip (D,)."""

    @staticmethod
    def forward(ctx, x, k, skip):
        length = x.size(-1)
        n = 2 * length
        y = torch.fft.irfft(torch.fft.rfft(x, n=n) * torch.fft.rfft(k, n=n), n=n)
        ctx.save_for_backward(x, k, skip)
        return y[..., :length] + x * skip.unsqueeze(-1)

    @staticmethod
    def backward(ctx, g):
        x, k, skip = ctx.saved_tensors
        length = x.size(-1)
        n = g.size(-1)
        gf = torch.fft.rfft(g, n=n)
        gx = gk = gs = None
        if ctx.needs_input_grad[0]:
            kf = torch.fft.rfft(k, n=n)
            gx = torch.fft.irfft(gf * kf.conj(), n=n)[..., :length]
            gx = gx + g * skip.unsqueeze(-1)
        if ctx.needs_input_grad[1]:
            xf = torch.fft.rfft(x, n=n)
            gk = torch.fft.irfft((gf * xf.conj()).sum(0), n=n)[..., :length]
        if ctx.needs_input_grad[2]:
            gs = (g * x).sum(dim=(0, 2))
        return gx, gk, gs


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    k = torch.randn(3, 6, dtype=torch.float64)
    skip = torch.randn(3, dtype=torch.float64)
    return (x, k, skip)

# %% segment_max_29
"""When several entries of a segment tie for the maximum, each of them gets the full gradient, so the gradient is counted several times; it must be shared among the ties."""
WRONG = ["return g[seg] * hit, None, None"]
RIGHT = ["ties = torch.zeros_like(g).index_add_(0, seg, hit)\nreturn g[seg] * hit / ties[seg], None, None"]
NAME = "SegmentMax"
# --- code
import torch


class SegmentMax(torch.autograd.Function):
    """Max aggregation of edge features onto nodes: x (E, D), seg (E,) -> (num, D)."""

    @staticmethod
    def forward(ctx, x, seg, num):
        out = x.new_full((num, x.size(1)), float("-inf"))
        idx = seg.unsqueeze(1).expand_as(x)
        out.scatter_reduce_(0, idx, x, reduce="amax", include_self=True)
        ctx.save_for_backward(x, seg, out)
        return out

    @staticmethod
    def backward(ctx, g):
        x, seg, out = ctx.saved_tensors
        hit = (x == out[seg]).to(g.dtype)
        return g[seg] * hit, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(6, 3, dtype=torch.float64)
    seg = torch.tensor([0, 1, 0, 2, 1, 2])
    x[2] = x[0]
    x[4, 1] = x[1, 1]
    return (x, seg, 3)


def reference(x, seg, num):
    out = x.new_full((num, x.size(1)), float("-inf"))
    return out.scatter_reduce(0, seg.unsqueeze(1).expand_as(x), x, reduce="amax")

# %% hetero_nll_30
"""The per-sample error has shape (B,) while log_var is (B, 1); without keepdim their product broadcasts to (B, B) and mixes each sample's error with every other's variance. The loss is wrong, and the backward, which is written for matched pairs, does not belong to it."""
WRONG = ["err = diff.pow(2).mean(dim=-1)"]
RIGHT = ["err = diff.pow(2).mean(dim=-1, keepdim=True)"]
NAME = "HeteroscedasticNLL"
# --- code
import torch
from torch.autograd import Function


class HeteroscedasticNLL(Function):
    """Gaussian NLL with one predicted log variance per sample; pred and target (B, D), log_var (B, 1)."""

    @staticmethod
    def forward(ctx, pred, target, log_var):
        diff = pred - target
        err = diff.pow(2).mean(dim=-1)
        ctx.save_for_backward(diff, log_var)
        return 0.5 * (torch.exp(-log_var) * err + log_var).mean()

    @staticmethod
    def backward(ctx, g):
        diff, log_var = ctx.saved_tensors
        b, d = diff.shape
        inv = torch.exp(-log_var)
        grad_pred = g * inv * diff / (b * d)
        sq = diff.pow(2).sum(dim=1, keepdim=True) / d
        grad_lv = 0.5 * g * (1 - inv * sq) / b
        return grad_pred, -grad_pred, grad_lv


def inputs():
    torch.manual_seed(0)
    pred = torch.randn(4, 3, dtype=torch.float64)
    target = torch.randn(4, 3, dtype=torch.float64)
    log_var = torch.randn(4, 1, dtype=torch.float64)
    return (pred, target, log_var)


def reference(pred, target, log_var):
    err = (pred - target).pow(2).mean(1)
    lv = log_var.squeeze(1)
    return 0.5 * (err * torch.exp(-lv) + lv).mean()
