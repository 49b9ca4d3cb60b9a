"""Mistakes: held out, all kinds of Functions. Each cell is a separate module; see benchmarks/repairs.py."""

# %% geglu_1
"""The forward uses the tanh approximation of GELU while the backward differentiates the exact erf GELU (which the reference also uses), so forward and backward belong to two different functions; the derivative of the gate is off by up to about 1e-3, far more than rounding."""
WRONG = ['y = val * F.gelu(gate, approximate="tanh")']
RIGHT = ['y = val * F.gelu(gate)']
NAME = "BiasGEGLU"
# --- code
import math
import torch
import torch.nn.functional as F


class BiasGEGLU(torch.autograd.Function):
    """Bias add, split and GELU gate in one op; only the projection output is kept."""

    @staticmethod
    def _split(x, bias, gate_first):
        a, b = (x + bias).chunk(2, dim=-1)
        return (b, a) if gate_first else (a, b)

    @staticmethod
    def forward(ctx, x, bias, gate_first):
        val, gate = BiasGEGLU._split(x, bias, gate_first)
        y = val * F.gelu(gate, approximate="tanh")
        ctx.save_for_backward(x, bias)
        ctx.gate_first = gate_first
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, bias = ctx.saved_tensors
        val, gate = BiasGEGLU._split(x, bias, ctx.gate_first)
        cdf = 0.5 * (1.0 + torch.erf(gate / math.sqrt(2.0)))
        pdf = torch.exp(-0.5 * gate * gate) / math.sqrt(2.0 * math.pi)
        d_val = grad_y * gate * cdf
        d_gate = grad_y * val * (cdf + gate * pdf)
        parts = (d_gate, d_val) if ctx.gate_first else (d_val, d_gate)
        grad_x = torch.cat(parts, dim=-1)
        grad_bias = grad_x.flatten(0, -2).sum(0)
        return grad_x, grad_bias, None


def inputs():
    torch.manual_seed(0)
    x = 2.0 * torch.randn(2, 3, 8, dtype=torch.float64)
    bias = torch.randn(8, dtype=torch.float64)
    return (x.requires_grad_(), bias.requires_grad_(), True)


def reference(x, bias, gate_first):
    a, b = (x + bias).chunk(2, dim=-1)
    val, gate = (b, a) if gate_first else (a, b)
    return val * F.gelu(gate)

# %% swiglu_2
"""The sigmoid is kept in a workspace shared by all calls of the class, so a second call with the same shape before the backward of the first (two layers, or the same layer twice) overwrites what the first backward needs. A single forward followed by its backward is right; y = f(a, b) + f(c, d) gives wrong gradients for a and b."""
WRONG = ['sig = ctx.sig']
RIGHT = ['sig = torch.sigmoid(gate)']
NAME = "SwiGLU"
# --- code
import torch


class SwiGLU(torch.autograd.Function):
    _workspace = {}

    @staticmethod
    def forward(ctx, gate, up, scale):
        key = (gate.shape, gate.dtype, gate.device)
        sig = SwiGLU._workspace.get(key)
        if sig is None:
            sig = torch.empty_like(gate)
            SwiGLU._workspace[key] = sig
        torch.sigmoid(gate, out=sig)
        ctx.save_for_backward(gate, up)
        ctx.sig = sig
        ctx.scale = scale
        return gate * sig * up * scale

    @staticmethod
    def backward(ctx, grad_out):
        gate, up = ctx.saved_tensors
        sig = ctx.sig
        grad_out = grad_out * ctx.scale
        silu = gate * sig
        grad_gate = grad_up = None
        if ctx.needs_input_grad[0]:
            grad_gate = grad_out * up * (sig + silu * (1 - sig))
        if ctx.needs_input_grad[1]:
            grad_up = grad_out * silu
        return grad_gate, grad_up, None


def inputs():
    torch.manual_seed(0)
    gate = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    up = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    return (gate, up, 0.7)

# %% giou_3
"""The backward of the intersection area multiplies by the other side length before clamping. If the boxes overlap in x but not in y, the clamped height is 0 and the intersection is constant, but the raw height is negative and gives a gradient."""
WRONG = ['d_wh = d_inter.unsqueeze(1) * wh.flip(1) * (wh > 0)']
RIGHT = ['d_wh = d_inter.unsqueeze(1) * wh.clamp(min=0).flip(1) * (wh > 0)']
NAME = "GIoULoss"
# --- code
import torch


class GIoULoss(torch.autograd.Function):
    """Mean of 1 - GIoU over pairs of xyxy boxes; the targets get no gradient."""

    @staticmethod
    def forward(ctx, pred, target, eps):
        wh = torch.min(pred[:, 2:], target[:, 2:]) - torch.max(pred[:, :2], target[:, :2])
        ewh = torch.max(pred[:, 2:], target[:, 2:]) - torch.min(pred[:, :2], target[:, :2])
        inter = wh.clamp(min=0).prod(1)
        area_p = (pred[:, 2:] - pred[:, :2]).prod(1)
        area_t = (target[:, 2:] - target[:, :2]).prod(1)
        union = area_p + area_t - inter + eps
        enc = ewh.prod(1) + eps
        giou = inter / union - (enc - union) / enc
        ctx.save_for_backward(pred, target, wh, ewh, inter, union, enc)
        return (1 - giou).mean()

    @staticmethod
    def backward(ctx, grad_out):
        pred, target, wh, ewh, inter, union, enc = ctx.saved_tensors
        d_giou = -grad_out / pred.shape[0]
        d_union = d_giou * (1 / enc - inter / union ** 2)
        d_inter = d_giou / union - d_union
        d_enc = -d_giou * union / enc ** 2
        size = pred[:, 2:] - pred[:, :2]
        d_wh = d_inter.unsqueeze(1) * wh.flip(1) * (wh > 0)
        d_ewh = d_enc.unsqueeze(1) * ewh.flip(1)
        d_size = d_union.unsqueeze(1) * size.flip(1)
        inner_lt = pred[:, :2] > target[:, :2]
        inner_rb = pred[:, 2:] < target[:, 2:]
        d_lt = -torch.where(inner_lt, d_wh, d_ewh) - d_size
        d_rb = torch.where(inner_rb, d_wh, d_ewh) + d_size
        return torch.cat([d_lt, d_rb], dim=1), None, None


def inputs():
    torch.manual_seed(0)
    pred = torch.tensor([[0.1, 0.2, 1.3, 1.5], [0.0, 0.0, 2.0, 1.0], [0.4, 0.3, 0.9, 1.1]], dtype=torch.float64)
    target = torch.tensor([[0.5, 0.4, 1.7, 1.2], [0.7, 1.6, 2.9, 2.4], [0.2, 0.1, 1.2, 0.8]], dtype=torch.float64)
    return (pred.requires_grad_(), target, 1e-7)


def reference(pred, target, eps):
    wh = (torch.min(pred[:, 2:], target[:, 2:]) - torch.max(pred[:, :2], target[:, :2])).clamp(min=0)
    ewh = torch.max(pred[:, 2:], target[:, 2:]) - torch.min(pred[:, :2], target[:, :2])
    inter = wh.prod(1)
    union = (pred[:, 2:] - pred[:, :2]).prod(1) + (target[:, 2:] - target[:, :2]).prod(1) - inter + eps
    enc = ewh.prod(1) + eps
    return (1 - (inter / union - (enc - union) / enc)).mean()

# %% listmle_4
"""The gradient in sorted order is brought back with a second gather by the sorting permutation; the inverse permutation (a scatter) is needed. It only agrees when the permutation is its own inverse."""
WRONG = ['grad = d.gather(1, order)']
RIGHT = ['grad = torch.empty_like(d).scatter_(1, order, d)']
NAME = "ListMLE"
# --- code
import torch


class ListMLE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, relevance, reduction):
        order = relevance.argsort(dim=1, descending=True)
        s = scores.gather(1, order)
        tail = s.flip(1).logcumsumexp(1).flip(1)
        per_list = (tail - s).sum(1)
        ctx.save_for_backward(s, tail, order)
        ctx.reduction = reduction
        if reduction == "mean":
            return per_list.mean()
        return per_list

    @staticmethod
    def backward(ctx, grad_out):
        s, tail, order = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad_out = grad_out / s.shape[0]
            grad_out = grad_out.expand(s.shape[0])
        top = s.amax(1, keepdim=True)
        weights = torch.exp(top - tail).cumsum(1)
        d = torch.exp(s - top) * weights - 1
        d = d * grad_out.unsqueeze(1)
        grad = d.gather(1, order)
        return grad, None, None


def inputs():
    torch.manual_seed(0)
    scores = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    relevance = torch.rand(3, 5, dtype=torch.float64)
    return (scores, relevance, "mean")


def reference(scores, relevance, reduction):
    order = relevance.argsort(dim=1, descending=True)
    s = scores.gather(1, order)
    rows = [torch.logsumexp(s[:, i:], 1) - s[:, i] for i in range(s.shape[1])]
    loss = torch.stack(rows, 1).sum(1)
    return loss.mean() if reduction == "mean" else loss

# %% crf_5
"""The pairwise marginals of the padded steps are added to the gradient of the transition matrix; only steps inside the sequence (t < length) have a transition. It is right when all sequences have full length."""
WRONG = ['g_trans += (pair * grad_z.view(-1, 1, 1)).sum(0)']
RIGHT = ['g_trans += (pair * (grad_z.view(-1, 1, 1) * live.unsqueeze(2))).sum(0)']
NAME = "CRFLogPartition"
# --- code
import torch


class CRFLogPartition(torch.autograd.Function):
    """log Z of a linear-chain CRF, gradients from the forward-backward recursion."""

    @staticmethod
    def forward(ctx, emissions, trans, lengths):
        alpha = [emissions[:, 0]]
        for t in range(1, emissions.shape[1]):
            nxt = torch.logsumexp(alpha[-1].unsqueeze(2) + trans, dim=1) + emissions[:, t]
            live = (t < lengths).unsqueeze(1)
            alpha.append(torch.where(live, nxt, alpha[-1]))
        alpha = torch.stack(alpha, dim=1)
        log_z = torch.logsumexp(alpha[:, -1], dim=1)
        ctx.save_for_backward(emissions, trans, lengths, alpha, log_z)
        return log_z

    @staticmethod
    def backward(ctx, grad_z):
        emissions, trans, lengths, alpha, log_z = ctx.saved_tensors
        g_em = torch.zeros_like(emissions)
        g_trans = torch.zeros_like(trans)
        beta = torch.zeros_like(emissions[:, 0])
        for t in range(emissions.shape[1] - 1, 0, -1):
            live = (t < lengths).unsqueeze(1)
            g_em[:, t] = torch.exp(alpha[:, t] + beta - log_z.unsqueeze(1)) * live
            msg = trans + (emissions[:, t] + beta).unsqueeze(1)
            pair = torch.exp(alpha[:, t - 1].unsqueeze(2) + msg - log_z.view(-1, 1, 1))
            g_trans += (pair * grad_z.view(-1, 1, 1)).sum(0)
            beta = torch.where(live, torch.logsumexp(msg, dim=2), beta)
        g_em[:, 0] = torch.exp(alpha[:, 0] + beta - log_z.unsqueeze(1))
        return g_em * grad_z.view(-1, 1, 1), g_trans, None


def inputs():
    torch.manual_seed(0)
    emissions = torch.randn(3, 5, 3, dtype=torch.float64, requires_grad=True)
    trans = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    return (emissions, trans, torch.tensor([5, 3, 2]))

# %% biasattn_6
"""The bias is added after the logits are scaled, but its gradient is taken from the score gradient already multiplied by scale, so the bias gradient is too small by that factor."""
WRONG = ['d_bias = ds.sum(0)']
RIGHT = ['d_bias = ds.sum(0) / ctx.scale']
NAME = "BiasedAttention"
# --- code
import torch


class BiasedAttention(torch.autograd.Function):
    """q, k, v: (B, H, T, D); bias: (H, T, S), shared over the batch."""

    @staticmethod
    def forward(q, k, v, bias, scale):
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) * scale + bias
        attn = scores.softmax(-1)
        return torch.einsum("bhts,bhsd->bhtd", attn, v), attn

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, _, scale = inputs
        attn = output[1]
        ctx.mark_non_differentiable(attn)
        ctx.save_for_backward(q, k, v, attn)
        ctx.scale = scale

    @staticmethod
    def backward(ctx, d_out, _):
        q, k, v, attn = ctx.saved_tensors
        dv = torch.einsum("bhts,bhtd->bhsd", attn, d_out)
        dp = torch.einsum("bhtd,bhsd->bhts", d_out, v)
        delta = (dp * attn).sum(-1, keepdim=True)
        ds = attn * (dp - delta)
        ds = ds * ctx.scale
        dq = torch.einsum("bhts,bhsd->bhtd", ds, k)
        dk = torch.einsum("bhts,bhtd->bhsd", ds, q)
        d_bias = ds.sum(0)
        return dq, dk, dv, d_bias, None


def inputs():
    torch.manual_seed(0)
    q = torch.randn(2, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    k = torch.randn(2, 2, 4, 4, dtype=torch.float64, requires_grad=True)
    v = torch.randn(2, 2, 4, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    return (q, k, v, bias, 0.5)

# %% softcap_7
"""The derivative of the tanh soft cap is taken from the saved logits after masking, where masked entries are -inf: 0 * (1 - inf) is nan, so all gradients of q and k become nan as soon as anything is masked."""
WRONG = ['ds = ds * (1 - (s / ctx.cap) ** 2)']
RIGHT = ['ds = ds * (1 - (s / ctx.cap) ** 2).masked_fill(s.isinf(), 0.0)']
NAME = "WindowSoftcapAttention"
# --- code
import torch


class WindowSoftcapAttention(torch.autograd.Function):
    """Causal sliding-window attention with tanh-capped logits, (B, T, D)."""

    @staticmethod
    def forward(ctx, q, k, v, window, cap):
        t = q.shape[1]
        scale = q.shape[2] ** -0.5
        s = cap * torch.tanh(q @ k.transpose(1, 2) * (scale / cap))
        dist = torch.arange(t, device=q.device).view(-1, 1) - torch.arange(t, device=q.device)
        outside = (dist < 0) | (dist >= window)
        s = s.masked_fill(outside, float("-inf"))
        lse = torch.logsumexp(s, dim=-1, keepdim=True)
        out = torch.exp(s - lse) @ v
        ctx.save_for_backward(q, k, v, s, lse, out)
        ctx.cap, ctx.scale = cap, scale
        return out

    @staticmethod
    def backward(ctx, d_out):
        q, k, v, s, lse, out = ctx.saved_tensors
        p = torch.exp(s - lse)
        delta = (d_out * out).sum(-1, keepdim=True)
        dv = p.transpose(1, 2) @ d_out
        ds = p * (d_out @ v.transpose(1, 2) - delta)
        ds = ds * (1 - (s / ctx.cap) ** 2)
        ds = ds * ctx.scale
        return ds @ k, ds.transpose(1, 2) @ q, dv, None, None


def inputs():
    torch.manual_seed(0)
    q = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    k = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    v = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    return (q, k, v, 3, 2.0)


def reference(q, k, v, window, cap):
    t = q.shape[1]
    s = cap * torch.tanh(q @ k.transpose(1, 2) * (q.shape[2] ** -0.5 / cap))
    dist = torch.arange(t).view(-1, 1) - torch.arange(t)
    s = s.masked_fill((dist < 0) | (dist >= window), float("-inf"))
    return s.softmax(-1) @ v

# %% addrmsnorm_8
"""The summed residual stream h = x + residual is also an output. Its gradient flows equally to x and to residual, but only x gets it; the residual branch gets the part through the norm only."""
WRONG = ['return d_h + g_h, d_h, d_w, None']
RIGHT = ['return d_h + g_h, d_h + g_h, d_w, None']
NAME = "AddRMSNorm"
# --- code
import torch


class AddRMSNorm(torch.autograd.Function):
    """Returns (rmsnorm(x + residual) * (1 + weight), x + residual)."""

    @staticmethod
    def forward(ctx, x, residual, weight, eps=1e-6):
        h = x + residual
        rstd = torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
        y = h * rstd * (1 + weight)
        ctx.save_for_backward(h, rstd, weight)
        return y, h

    @staticmethod
    def backward(ctx, g_y, g_h):
        h, rstd, weight = ctx.saved_tensors
        normed = h * rstd
        wg = g_y * (1 + weight)
        d_h = rstd * (wg - normed * (wg * normed).mean(-1, keepdim=True))
        d_w = (g_y * normed).reshape(-1, weight.shape[0]).sum(0)
        return d_h + g_h, d_h, d_w, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    residual = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, dtype=torch.float64, requires_grad=True)
    return (x, residual, weight, 1e-6)


def reference(x, residual, weight, eps=1e-6):
    h = x + residual
    return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * (1 + weight), h

# %% layernorm_9
"""The saved normalized tensor is overwritten in place by the affine step after save_for_backward, so the backward sees y instead of xhat. No version check complains, because the tensors are only packed when forward returns."""
WRONG = ['y = xhat.mul_(weight).add_(bias)']
RIGHT = ['y = xhat.mul(weight).add_(bias)']
NAME = "LayerNormND"
# --- code
import torch


class LayerNormND(torch.autograd.Function):
    """Layer norm over the trailing dims given by the shape of weight."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        dims = tuple(range(x.dim() - weight.dim(), x.dim()))
        mean = x.mean(dims, keepdim=True)
        xhat = x - mean
        rstd = xhat.square().mean(dims, keepdim=True).add_(eps).rsqrt_()
        xhat.mul_(rstd)
        ctx.save_for_backward(xhat, rstd, weight)
        ctx.dims = dims
        y = xhat.mul_(weight).add_(bias)
        return y

    @staticmethod
    def backward(ctx, g):
        xhat, rstd, weight = ctx.saved_tensors
        lead = tuple(range(g.dim() - weight.dim()))
        g_weight = (g * xhat).sum(lead)
        g_bias = g.sum(lead)
        gw = g * weight
        m1 = gw.mean(ctx.dims, keepdim=True)
        m2 = (gw * xhat).mean(ctx.dims, keepdim=True)
        g_x = (gw - m1 - xhat * m2) * rstd
        return g_x, g_weight, g_bias, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    return (x, weight, bias, 1e-5)

# %% moedispatch_10
"""Tokens beyond the capacity are dropped in the forward, but the backward clamps their position and so hands them the gradient of the last slot of the expert, which belongs to another token; dropped tokens must get zero."""
WRONG = ['g = grad_buf.reshape(-1, x.shape[1])[slot]']
RIGHT = ['g = grad_buf.reshape(-1, x.shape[1])[slot] * keep.unsqueeze(1)']
NAME = "MoEDispatch"
# --- code
import torch
import torch.nn.functional as F


class MoEDispatch(torch.autograd.Function):
    """Scatter gated tokens into per-expert buffers of fixed capacity."""

    @staticmethod
    def forward(ctx, x, gate, expert, num_experts, capacity):
        onehot = F.one_hot(expert, num_experts)
        pos = (onehot.cumsum(0) - 1).gather(1, expert.unsqueeze(1)).squeeze(1)
        keep = pos < capacity
        slot = expert * capacity + pos.clamp(max=capacity - 1)
        buf = x.new_zeros(num_experts * capacity, x.shape[1])
        buf[slot[keep]] = (x * gate.unsqueeze(1))[keep]
        ctx.save_for_backward(x, gate, slot, keep)
        return buf.view(num_experts, capacity, -1)

    @staticmethod
    def backward(ctx, grad_buf):
        x, gate, slot, keep = ctx.saved_tensors
        g = grad_buf.reshape(-1, x.shape[1])[slot]
        grad_x = grad_gate = None
        if ctx.needs_input_grad[0]:
            grad_x = g * gate.unsqueeze(1)
        if ctx.needs_input_grad[1]:
            grad_gate = (g * x).sum(1)
        return grad_x, grad_gate, None, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    gate = torch.rand(7, dtype=torch.float64, requires_grad=True)
    expert = torch.tensor([0, 1, 0, 0, 2, 1, 0])
    return (x, gate, expert, 3, 2)

# %% biasrouter_11
"""topk runs on the scores plus the balancing bias, and its biased values are saved; the backward then uses them for the normalization and as sigmoid values, where the unbiased gathered scores are needed. It is right while the bias is still zero."""
WRONG = ['ctx.save_for_backward(top_val, top_idx)']
RIGHT = ['ctx.save_for_backward(sel, top_idx)']
NAME = "BiasCorrectedRouter"
# --- code
import torch


class BiasCorrectedRouter(torch.autograd.Function):
    """Sigmoid router; the bias only steers the choice of experts and gets no gradient."""

    @staticmethod
    def forward(ctx, logits, bias, k, route_scale):
        scores = torch.sigmoid(logits)
        top_val, top_idx = torch.topk(scores + bias, k, dim=-1)
        sel = scores.gather(-1, top_idx)
        weights = sel / sel.sum(-1, keepdim=True) * route_scale
        ctx.save_for_backward(top_val, top_idx)
        ctx.num_experts = logits.shape[-1]
        ctx.route_scale = route_scale
        ctx.mark_non_differentiable(top_idx)
        return weights, top_idx

    @staticmethod
    def backward(ctx, g_weights, _):
        s, top_idx = ctx.saved_tensors
        total = s.sum(-1, keepdim=True)
        p = s / total
        g = g_weights * ctx.route_scale
        g_s = (g - (g * p).sum(-1, keepdim=True)) / total
        g_sel = g_s * s * (1 - s)
        g_logits = g_sel.new_zeros(*g_sel.shape[:-1], ctx.num_experts)
        g_logits.scatter_(-1, top_idx, g_sel)
        return g_logits, None, None, None


def inputs():
    torch.manual_seed(0)
    logits = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    bias = 0.3 * torch.randn(6, dtype=torch.float64)
    return (logits, bias, 3, 2.5)

# %% pwlembed_12
"""The gradient of the right knot is added with an indexed +=, which keeps only one contribution when several inputs fall in the same cell; it must accumulate (index_add_), as is done for the left knot."""
WRONG = ['grad_table[left + 1] += frac.unsqueeze(1) * g']
RIGHT = ['grad_table.index_add_(0, left + 1, frac.unsqueeze(1) * g)']
NAME = "PiecewiseLinearEmbedding"
# --- code
import torch


class PiecewiseLinearEmbedding(torch.autograd.Function):
    """Embeds a scalar feature by interpolation between the rows of a table."""

    @staticmethod
    def forward(x, table, lo, hi):
        left, frac = PiecewiseLinearEmbedding.locate(x, table.shape[0], lo, hi)
        return torch.lerp(table[left], table[left + 1], frac.unsqueeze(1))

    @staticmethod
    def locate(x, n, lo, hi):
        pos = (x - lo) * ((n - 1) / (hi - lo))
        left = pos.floor().clamp(0, n - 2).long()
        return left, pos - left

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, table, ctx.lo, ctx.hi = inputs
        ctx.save_for_backward(x, table)

    @staticmethod
    def backward(ctx, g):
        x, table = ctx.saved_tensors
        n = table.shape[0]
        left, frac = PiecewiseLinearEmbedding.locate(x, n, ctx.lo, ctx.hi)
        slope = (table[left + 1] - table[left]) * ((n - 1) / (ctx.hi - ctx.lo))
        grad_x = (g * slope).sum(1)
        grad_table = torch.zeros_like(table)
        grad_table.index_add_(0, left, (1 - frac).unsqueeze(1) * g)
        grad_table[left + 1] += frac.unsqueeze(1) * g
        return grad_x, grad_table, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.tensor([-0.9, -0.8, 0.1, 0.25, 0.3, 0.95, 1.2], dtype=torch.float64, requires_grad=True)
    table = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    return (x, table, -1.0, 1.0)

# %% loraembed_13
"""The slice of needs_input_grad starts at 0, which is ids, so every flag is shifted by one argument: with the base weight frozen the flag of A is read from the weight and A gets no gradient at all."""
WRONG = ['need_w, need_a, need_b = ctx.needs_input_grad[:3]']
RIGHT = ['need_w, need_a, need_b = ctx.needs_input_grad[1:4]']
NAME = "LoRAEmbedding"
# --- code
import torch
import torch.nn.functional as F


class LoRAEmbedding(torch.autograd.Function):
    """weight[ids] + scaling * lora_a[ids] @ lora_b"""

    @staticmethod
    def forward(ids, weight, lora_a, lora_b, scaling):
        out = F.embedding(ids, weight)
        return out + scaling * (F.embedding(ids, lora_a) @ lora_b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ids, weight, lora_a, lora_b, scaling = inputs
        ctx.save_for_backward(ids, lora_a, lora_b)
        ctx.w_shape = weight.shape
        ctx.scaling = scaling

    @staticmethod
    def backward(ctx, grad_out):
        ids, lora_a, lora_b = ctx.saved_tensors
        need_w, need_a, need_b = ctx.needs_input_grad[:3]
        flat = ids.reshape(-1)
        g = grad_out.reshape(-1, grad_out.shape[-1])
        gw = ga = gb = None
        if need_w:
            gw = g.new_zeros(ctx.w_shape).index_add_(0, flat, g)
        if need_a:
            ga = torch.zeros_like(lora_a)
            ga.index_add_(0, flat, ctx.scaling * (g @ lora_b.t()))
        if need_b:
            gb = ctx.scaling * (lora_a[flat].t() @ g)
        return None, gw, ga, gb, None


def inputs():
    torch.manual_seed(0)
    ids = torch.tensor([[1, 4, 1], [0, 2, 4]])
    weight = torch.randn(5, 4, dtype=torch.float64)
    lora_a = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    lora_b = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    return (ids, weight, lora_a, lora_b, 0.5)


def reference(ids, weight, lora_a, lora_b, scaling):
    return weight[ids] + scaling * lora_a[ids] @ lora_b

# %% lsq_14
"""The clipping mask compares the raw weight with the integer bounds; the forward clips w / step, so the mask must be taken on w / step. For small weights everything counts as inside the range, and clipped weights get a gradient and the wrong step term."""
WRONG = ['inside = (w >= ctx.qmin) & (w <= ctx.qmax)']
RIGHT = ['inside = (v >= ctx.qmin) & (v <= ctx.qmax)']
NAME = "LSQWeight"
# --- code
import torch


class LSQWeight(torch.autograd.Function):
    """Learned step size quantization, one step per output row.

    Surrogate: round() is passed straight through (derivative 1), the clamp is
    differentiated as it is. The gradient of step is also multiplied by
    1 / sqrt(row size * qmax), as in the paper.
    """

    @staticmethod
    def forward(ctx, w, step, qmin, qmax):
        ctx.save_for_backward(w, step)
        ctx.qmin, ctx.qmax = qmin, qmax
        return torch.round(torch.clamp(w / step, qmin, qmax)) * step

    @staticmethod
    def backward(ctx, grad_out):
        w, step = ctx.saved_tensors
        v = w / step
        inside = (w >= ctx.qmin) & (w <= ctx.qmax)
        grad_w = grad_out * inside
        clipped = v.clamp(ctx.qmin, ctx.qmax)
        d_step = torch.where(inside, v.round() - v, clipped)
        gscale = (w.shape[1] * ctx.qmax) ** -0.5
        grad_step = (grad_out * d_step).sum(1, keepdim=True) * gscale
        return grad_w, grad_step, None, None


def inputs():
    torch.manual_seed(0)
    w = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    step = torch.tensor([[0.3], [0.25], [0.4]], dtype=torch.float64, requires_grad=True)
    return (w, step, -4, 3)


def reference(w, step, qmin, qmax):
    gscale = (w.shape[1] * qmax) ** -0.5
    s = step * gscale + (step - step * gscale).detach()
    v = torch.clamp(w / s, qmin, qmax)
    return (v + (v.round() - v).detach()) * s

# %% affinequant_15
"""In the gradient of the scale the term -x/scale exists only for values inside the quantization range (it comes from x/scale in the rounding); here it is subtracted for clipped values as well."""
WRONG = ['g_scale = (g * (q - zq - x / scale)).sum()']
RIGHT = ['g_scale = (g * (q - zq - x / scale * inside)).sum()']
NAME = "AffineFakeQuant"
# --- code
import torch


class AffineFakeQuant(torch.autograd.Function):
    """Asymmetric fake quantization with a trainable scale and zero point.

    Surrogate: both round() calls are passed straight through (derivative 1);
    everything else, clamp included, is differentiated as it is.
    """

    @staticmethod
    def forward(x, scale, zero_point, bits):
        zq = zero_point.round()
        q = torch.clamp((x / scale).round() + zq, 0, 2 ** bits - 1)
        return (q - zq) * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, scale, zero_point, ctx.bits = inputs
        ctx.save_for_backward(x, scale, zero_point)

    @staticmethod
    def backward(ctx, g):
        x, scale, zero_point = ctx.saved_tensors
        qmax = 2 ** ctx.bits - 1
        zq = zero_point.round()
        raw = (x / scale).round() + zq
        inside = (raw >= 0) & (raw <= qmax)
        q = raw.clamp(0, qmax)
        g_x = g * inside
        g_scale = (g * (q - zq - x / scale)).sum()
        g_zero = -(g * ~inside).sum() * scale
        return g_x, g_scale, g_zero, None


def inputs():
    torch.manual_seed(0)
    x = 2 * torch.randn(4, 5, dtype=torch.float64)
    scale = torch.tensor(0.31, dtype=torch.float64)
    zero_point = torch.tensor(5.8, dtype=torch.float64)
    return (x.requires_grad_(), scale.requires_grad_(), zero_point.requires_grad_(), 4)


def reference(x, scale, zero_point, bits):
    def ste(t):
        return t + (t.round() - t).detach()
    zq = ste(zero_point)
    q = torch.clamp(ste(x / scale) + zq, 0, 2 ** bits - 1)
    return (q - zq) * scale

# %% truncnormal_16
"""The density weights of the two truncation bounds are swapped: cdf(x) = (1-u) cdf(a) + u cdf(b), so the lower bound has weight 1-u and the upper u. Both gradients (mu and sigma) are wrong unless u = 1/2 or the bounds are far away."""
WRONG = ['wa, wb = u * phi(a) / phi(x), (1 - u) * phi(b) / phi(x)']
RIGHT = ['wa, wb = (1 - u) * phi(a) / phi(x), u * phi(b) / phi(x)']
NAME = "TruncatedNormalSample"
# --- code
import math
import torch


def phi(t):
    return torch.exp(-0.5 * t * t) / math.sqrt(2 * math.pi)


class TruncatedNormalSample(torch.autograd.Function):
    """Inverse-cdf sample of N(mu, sigma) restricted to [lo, hi]; u is uniform noise (N, D)."""

    @staticmethod
    def forward(ctx, mu, sigma, u, lo, hi):
        a = (lo - mu) / sigma
        b = (hi - mu) / sigma
        ca, cb = torch.special.ndtr(a), torch.special.ndtr(b)
        x = torch.special.ndtri(ca + u * (cb - ca))
        ctx.save_for_backward(a, b, x, u)
        return mu + sigma * x

    @staticmethod
    def backward(ctx, grad_z):
        a, b, x, u = ctx.saved_tensors
        wa, wb = u * phi(a) / phi(x), (1 - u) * phi(b) / phi(x)
        d_mu = 1 - wa - wb
        d_sigma = x - wa * a - wb * b
        grad_mu = (grad_z * d_mu).sum(0)
        grad_sigma = (grad_z * d_sigma).sum(0)
        return grad_mu, grad_sigma, None, None, None


def inputs():
    torch.manual_seed(0)
    mu = torch.tensor([0.2, -0.5, 1.0], dtype=torch.float64, requires_grad=True)
    sigma = torch.tensor([0.8, 1.3, 0.6], dtype=torch.float64, requires_grad=True)
    u = torch.rand(4, 3, dtype=torch.float64) * 0.9 + 0.05
    return (mu, sigma, u, -1.0, 2.0)

# %% weibull_17
"""The shape gradient is rebuilt from the saved sample with log(z / scale), which already contains the factor 1/k (z/scale = E**(1/k)); dividing by k squared is one k too many. It is right only for k = 1."""
WRONG = ['d_k = -z * torch.log(z / lam) / k ** 2']
RIGHT = ['d_k = -z * torch.log(z / lam) / k']
NAME = "WeibullRSample"
# --- code
import torch


class WeibullRSample(torch.autograd.Function):
    """z = lam * (-log(1 - u)) ** (1 / k), noise not kept for the backward."""

    @staticmethod
    def forward(lam, k, u):
        e = -torch.log1p(-u)
        return lam * e.pow(1 / k)

    @staticmethod
    def setup_context(ctx, inputs, output):
        lam, k, _ = inputs
        ctx.save_for_backward(lam, k, output)

    @staticmethod
    def backward(ctx, grad_z):
        lam, k, z = ctx.saved_tensors
        grad_lam = grad_k = None
        if ctx.needs_input_grad[0]:
            grad_lam = (grad_z * z / lam).sum_to_size(lam.shape)
        if ctx.needs_input_grad[1]:
            d_k = -z * torch.log(z / lam) / k ** 2
            grad_k = (grad_z * d_k).sum_to_size(k.shape)
        return grad_lam, grad_k, None


def inputs():
    torch.manual_seed(0)
    lam = torch.tensor([1.5, 0.7, 2.0], dtype=torch.float64, requires_grad=True)
    k = torch.tensor([[1.8], [0.6]], dtype=torch.float64, requires_grad=True)
    u = torch.rand(4, 2, 3, dtype=torch.float64) * 0.9 + 0.05
    return (lam, k, u)


def reference(lam, k, u):
    return lam * (-torch.log1p(-u)) ** (1 / k)

# %% softrank_18
"""The matrix of sigmoid slopes is treated as symmetric (D @ g instead of D^T @ g). Without padding it is symmetric, but the padding mask zeroes only its columns, so padded positions receive gradient."""
WRONG = ['via_j = torch.einsum("bij,bj->bi", slope, g)']
RIGHT = ['via_j = torch.einsum("bji,bj->bi", slope, g)']
NAME = "SoftRank"
# --- code
import torch


class SoftRank(torch.autograd.Function):
    """Descending soft ranks: rank_i = 1/2 + sum_j sigmoid((x_j - x_i) / tau) over valid j."""

    @staticmethod
    def forward(ctx, x, valid, tau):
        diff = (x.unsqueeze(1) - x.unsqueeze(2)) / tau
        wins = torch.sigmoid(diff) * valid.unsqueeze(1)
        rank = 0.5 + wins.sum(2)
        rank = rank * valid
        ctx.save_for_backward(wins, valid)
        ctx.tau = tau
        return rank

    @staticmethod
    def backward(ctx, g):
        wins, valid = ctx.saved_tensors
        g = g * valid
        slope = wins * (1 - wins) / ctx.tau
        via_j = torch.einsum("bij,bj->bi", slope, g)
        via_i = slope.sum(2) * g
        return via_j - via_i, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    valid = torch.arange(5).unsqueeze(0) < torch.tensor([[5], [3], [4]])
    return (x, valid.to(torch.float64), 0.7)

# %% quatrotate_19
"""The quaternion is normalized in the forward, and the backward projects out the radial part but forgets to divide by the norm, so the gradient is only right for unit quaternions."""
WRONG = ['grad_q = gq - qn * (qn * gq).sum(-1, keepdim=True)']
RIGHT = ['grad_q = (gq - qn * (qn * gq).sum(-1, keepdim=True)) / norm']
NAME = "QuatRotate"
# --- code
import torch


def cross(a, b):
    return torch.linalg.cross(a, b, dim=-1)


class QuatRotate(torch.autograd.Function):
    """Rotate points v (B, P, 3) by quaternions q (B, 4), wxyz, any length."""

    @staticmethod
    def forward(ctx, q, v):
        norm = q.norm(dim=-1, keepdim=True)
        qn = q / norm
        w, r = qn[:, None, :1], qn[:, None, 1:].expand_as(v)
        t = 2 * cross(r, v)
        ctx.save_for_backward(qn, norm, v)
        return v + w * t + cross(r, t)

    @staticmethod
    def backward(ctx, g):
        qn, norm, v = ctx.saved_tensors
        w, r = qn[:, None, :1], qn[:, None, 1:].expand_as(v)
        t = 2 * cross(r, v)
        gt = w * g + cross(g, r)
        gw = (g * t).sum(-1, keepdim=True)
        gr = cross(t, g) + 2 * cross(v, gt)
        grad_v = g + 2 * cross(gt, r)
        gq = torch.cat([gw, gr], dim=-1).sum(1)
        grad_q = gq - qn * (qn * gq).sum(-1, keepdim=True)
        return grad_q, grad_v


def inputs():
    torch.manual_seed(0)
    q = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    v = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    return (q, v)

# %% composite_20
"""The opacity gradient misses that every sample also shades the background: the sum over what lies behind sample i must contain the background term T_end * bg. It is right for a black background."""
WRONG = ['behind = contrib.flip(1).cumsum(1).flip(1) - contrib']
RIGHT = ['behind = contrib.flip(1).cumsum(1).flip(1) - contrib + (t_end * (g @ bg)).unsqueeze(1)']
NAME = "AlphaComposite"
# --- code
import torch


class AlphaComposite(torch.autograd.Function):
    """Front-to-back compositing. alpha (R, S), color (R, S, C), bg (C,) -> (R, C)."""

    @staticmethod
    def forward(ctx, alpha, color, bg):
        trans = torch.cumprod(1 - alpha, dim=1)
        t_end = trans[:, -1]
        trans = torch.cat([torch.ones_like(trans[:, :1]), trans[:, :-1]], dim=1)
        weight = trans * alpha
        rgb = torch.einsum("rs,rsc->rc", weight, color)
        rgb = rgb + t_end.unsqueeze(1) * bg
        ctx.save_for_backward(alpha, color, bg, trans, t_end)
        return rgb

    @staticmethod
    def backward(ctx, g):
        alpha, color, bg, trans, t_end = ctx.saved_tensors
        weight = trans * alpha
        shade = torch.einsum("rc,rsc->rs", g, color)
        contrib = weight * shade
        behind = contrib.flip(1).cumsum(1).flip(1) - contrib
        g_alpha = trans * shade - behind / (1 - alpha).clamp(min=1e-10)
        g_color = weight.unsqueeze(2) * g.unsqueeze(1)
        g_bg = t_end @ g
        return g_alpha, g_color, g_bg


def inputs():
    torch.manual_seed(0)
    alpha = torch.rand(3, 4, dtype=torch.float64) * 0.8 + 0.05
    color = torch.rand(3, 4, 3, dtype=torch.float64)
    bg = torch.tensor([1.0, 0.9, 0.8], dtype=torch.float64)
    return (alpha.requires_grad_(), color.requires_grad_(), bg.requires_grad_())


def reference(alpha, color, bg):
    out, t = 0, torch.ones_like(alpha[:, 0])
    for i in range(alpha.shape[1]):
        out = out + (t * alpha[:, i]).unsqueeze(1) * color[:, i]
        t = t * (1 - alpha[:, i])
    return out + t.unsqueeze(1) * bg

# %% spectralgain_21
"""For even length the Nyquist bin appears only once in the full spectrum, like DC, but it is counted twice in the gain gradient: the weight 2 is only for the bins strictly between. Right for odd lengths."""
WRONG = ['mult[1:] = 2.0']
RIGHT = ['mult[1:(n + 1) // 2] = 2.0']
NAME = "SpectralGain"
# --- code
import torch


class SpectralGain(torch.autograd.Function):
    """Zero-phase filter with one real gain per rfft bin and channel: x (B, C, n), gain (C, n//2+1)."""

    @staticmethod
    def forward(x, gain):
        n = x.shape[-1]
        return torch.fft.irfft(torch.fft.rfft(x) * gain, n=n)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, gain = ctx.saved_tensors
        n = x.shape[-1]
        gf = torch.fft.rfft(g)
        grad_x = grad_gain = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.fft.irfft(gf * gain, n=n)
        if ctx.needs_input_grad[1]:
            mult = torch.ones_like(gain[0])
            mult[1:] = 2.0
            xf = torch.fft.rfft(x)
            power = xf.real * gf.real + xf.imag * gf.imag
            grad_gain = power.sum(0) * mult / n
        return grad_x, grad_gain


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 2, 8, dtype=torch.float64, requires_grad=True)
    gain = torch.rand(2, 5, dtype=torch.float64, requires_grad=True)
    return (x, gain)

# %% biquad_22
"""The feed-forward taps are followed by the recursion, so their gradient must use the adjoint signal (the output gradient filtered backward through the poles), not the output gradient itself. It is right only without feedback (a = 0)."""
WRONG = ['grad_b = torch.stack([(g * delay(x, k)).sum() for k in range(3)])']
RIGHT = ['grad_b = torch.stack([(lam * delay(x, k)).sum() for k in range(3)])']
NAME = "Biquad"
# --- code
import torch
import torch.nn.functional as F


def delay(s, k):
    return F.pad(s, (k, 0))[..., : s.shape[-1]]


def all_pole(s, a):
    rows = []
    for t in range(s.shape[-1]):
        cur = s[..., t].clone()
        for k in range(2):
            if t - k >= 1:
                cur = cur - a[k] * rows[t - k - 1]
        rows.append(cur)
    return torch.stack(rows, dim=-1)


class Biquad(torch.autograd.Function):
    """y_t = sum_k b_k x_{t-k} - a_1 y_{t-1} - a_2 y_{t-2}; x (B, T), b (3,), a (2,)."""

    @staticmethod
    def forward(ctx, x, b, a):
        fir = b[0] * x + b[1] * delay(x, 1) + b[2] * delay(x, 2)
        y = all_pole(fir, a)
        ctx.save_for_backward(x, y, b, a)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y, b, a = ctx.saved_tensors
        lam = all_pole(g.flip(-1), a).flip(-1)
        grad_x = sum(b[k] * delay(lam.flip(-1), k).flip(-1) for k in range(3))
        grad_b = torch.stack([(g * delay(x, k)).sum() for k in range(3)])
        grad_a = -torch.stack([(lam * delay(y, k + 1)).sum() for k in range(2)])
        return grad_x, grad_b, grad_a


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 7, dtype=torch.float64, requires_grad=True)
    b = torch.randn(3, dtype=torch.float64, requires_grad=True)
    a = torch.tensor([-0.6, 0.3], dtype=torch.float64, requires_grad=True)
    return (x, b, a)

# %% deq_23
"""The implicit backward must solve with the transposed Jacobian (I - D W)^T; here the untransposed system is solved. All shapes fit because the matrix is square, and it is right only if D W is symmetric."""
WRONG = ['u = torch.linalg.solve(lhs, g.unsqueeze(2)).squeeze(2)']
RIGHT = ['u = torch.linalg.solve(lhs.transpose(1, 2), g.unsqueeze(2)).squeeze(2)']
NAME = "TanhFixedPoint"
# --- code
import torch


class TanhFixedPoint(torch.autograd.Function):
    """z = tanh(W z + x), solved by iteration, differentiated implicitly."""

    @staticmethod
    def forward(ctx, x, weight, max_iter, tol):
        z = torch.zeros_like(x)
        for _ in range(max_iter):
            z_next = torch.tanh(z @ weight.t() + x)
            done = (z_next - z).abs().max() < tol
            z = z_next
            if done:
                break
        ctx.save_for_backward(z, weight)
        return z

    @staticmethod
    def backward(ctx, g):
        z, weight = ctx.saved_tensors
        d = 1 - z * z
        eye = torch.eye(weight.shape[0], dtype=z.dtype, device=z.device)
        lhs = eye - d.unsqueeze(2) * weight
        u = torch.linalg.solve(lhs, g.unsqueeze(2)).squeeze(2)
        g_pre = d * u
        return g_pre, g_pre.t() @ z, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    weight = 0.25 * torch.randn(4, 4, dtype=torch.float64)
    return (x, weight.requires_grad_(), 200, 1e-14)

# %% siren_24
"""In the backward of the gradient op the derivative with respect to x misses the inner factor w0 (the argument is w0*x + phase; for phase the factor is 1). First-order gradients are right; second derivatives, as a PINN loss needs them, are wrong (gradgradcheck fails)."""
WRONG = ['return inner * cos, dz, dz.sum(0), None']
RIGHT = ['return inner * cos, dz * ctx.w0, dz.sum(0), None']
NAME = "SirenSine"
# --- code
import torch


class SirenSineGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, g, x, phase, w0):
        gc = g * torch.cos(w0 * x + phase)
        ctx.save_for_backward(g, x, phase)
        ctx.w0 = w0
        return gc * w0, gc.sum(0)

    @staticmethod
    def backward(ctx, gg_x, gg_phase):
        g, x, phase = ctx.saved_tensors
        arg = ctx.w0 * x + phase
        cos, sin = torch.cos(arg), torch.sin(arg)
        inner = gg_x * ctx.w0 + gg_phase
        dz = -inner * g * sin
        return inner * cos, dz, dz.sum(0), None


class SirenSine(torch.autograd.Function):
    """sin(w0 * x + phase) for x (N, D), phase (D,), differentiable twice."""

    @staticmethod
    def forward(ctx, x, phase, w0):
        ctx.save_for_backward(x, phase)
        ctx.w0 = w0
        return torch.sin(w0 * x + phase)

    @staticmethod
    def backward(ctx, g):
        x, phase = ctx.saved_tensors
        gx, gp = SirenSineGrad.apply(g, x, phase, ctx.w0)
        return gx, gp, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    phase = torch.randn(3, dtype=torch.float64, requires_grad=True)
    return (x, phase, 3.0)


def reference(x, phase, w0):
    return torch.sin(w0 * x + phase)

# %% gpnll_25
"""With m output columns the log determinant enters the loss m times, but its gradient K^-1 is counted only once. It is right for a single target column."""
WRONG = ['g_cov = 0.5 * (k_inv - alpha @ alpha.t()) * g']
RIGHT = ['g_cov = 0.5 * (alpha.shape[1] * k_inv - alpha @ alpha.t()) * g']
NAME = "GPNegLogLik"
# --- code
import math
import torch


class GPNegLogLik(torch.autograd.Function):
    """Negative log marginal likelihood of y (n, m) under independent GPs with one kernel matrix."""

    @staticmethod
    def forward(ctx, cov, log_noise, y):
        n, m = y.shape
        k = 0.5 * (cov + cov.t())
        k.diagonal().add_(log_noise.exp())
        chol = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y, chol)
        fit = 0.5 * (y * alpha).sum()
        logdet = m * chol.diagonal().log().sum()
        ctx.save_for_backward(chol, alpha, log_noise)
        return fit + logdet + 0.5 * n * m * math.log(2 * math.pi)

    @staticmethod
    def backward(ctx, g):
        chol, alpha, log_noise = ctx.saved_tensors
        k_inv = torch.cholesky_inverse(chol)
        g_cov = 0.5 * (k_inv - alpha @ alpha.t()) * g
        g_noise = g_cov.diagonal().sum() * log_noise.exp()
        g_y = alpha * g
        return g_cov, g_noise, g_y


def inputs():
    torch.manual_seed(0)
    b = torch.randn(4, 4, dtype=torch.float64)
    cov = b @ b.t() + torch.eye(4, dtype=torch.float64)
    log_noise = torch.tensor(-0.7, dtype=torch.float64)
    y = torch.randn(4, 3, dtype=torch.float64)
    return (cov.requires_grad_(), log_noise.requires_grad_(), y.requires_grad_())

# %% logm_26
"""For equal eigenvalues the divided difference of log must be its limit 1/lambda, also off the diagonal; here such off-diagonal pairs get 0, and only the diagonal is set. The gradient loses terms when eigenvalues repeat, as for an isotropic covariance plus a low-rank part."""
WRONG = ['div = torch.where(close, torch.zeros_like(num), num / den)']
RIGHT = ['div = torch.where(close, (1 / lam).unsqueeze(-1), num / den)']
NAME = "SPDLog"
# --- code
import torch


class SPDLog(torch.autograd.Function):
    """Matrix logarithm of a batch of symmetric positive definite matrices."""

    @staticmethod
    def forward(ctx, mat):
        lam, vec = torch.linalg.eigh(0.5 * (mat + mat.mT))
        ctx.save_for_backward(lam, vec)
        return (vec * lam.log().unsqueeze(-2)) @ vec.mT

    @staticmethod
    def backward(ctx, g):
        lam, vec = ctx.saved_tensors
        log = lam.log()
        num = log.unsqueeze(-1) - log.unsqueeze(-2)
        den = lam.unsqueeze(-1) - lam.unsqueeze(-2)
        close = den.abs() < 1e-9
        den = den.masked_fill(close, 1.0)
        div = torch.where(close, torch.zeros_like(num), num / den)
        div.diagonal(dim1=-2, dim2=-1).copy_(1 / lam)
        sym = 0.5 * (g + g.mT)
        inner = div * (vec.mT @ sym @ vec)
        return vec @ inner @ vec.mT


def inputs():
    torch.manual_seed(0)
    v = torch.randn(2, 4, 1, dtype=torch.float64)
    mat = 0.5 * torch.eye(4, dtype=torch.float64) + v @ v.mT
    return (mat.requires_grad_(),)

# %% gcnnorm_27
"""The inverse square root degree enters each edge at both ends, but only the row end is collected; the contribution through the degree of the column node is missing in the gradient of the edge weights."""
WRONG = ['g_dis.index_add_(0, row, g_norm * w * dis[col])']
RIGHT = ['g_dis.index_add_(0, row, g_norm * w * dis[col])\ng_dis.index_add_(0, col, g_norm * w * dis[row])']
NAME = "GCNPropagate"
# --- code
import torch


class GCNPropagate(torch.autograd.Function):
    """out = D^-1/2 A D^-1/2 x with A given by edges (row, col) and weights w; D from the row sums."""

    @staticmethod
    def forward(ctx, x, w, row, col):
        deg = x.new_zeros(x.shape[0]).index_add_(0, row, w)
        dis = deg.clamp(min=1e-12).rsqrt()
        norm = dis[row] * w * dis[col]
        out = torch.zeros_like(x).index_add_(0, row, norm.unsqueeze(1) * x[col])
        ctx.save_for_backward(x, w, row, col, dis)
        return out

    @staticmethod
    def backward(ctx, g):
        x, w, row, col, dis = ctx.saved_tensors
        norm = dis[row] * w * dis[col]
        g_row = g[row]
        g_x = torch.zeros_like(x).index_add_(0, col, norm.unsqueeze(1) * g_row)
        g_w = None
        if ctx.needs_input_grad[1]:
            g_norm = (g_row * x[col]).sum(1)
            g_dis = torch.zeros_like(dis)
            g_dis.index_add_(0, row, g_norm * w * dis[col])
            g_deg = -0.5 * g_dis * dis ** 3
            g_w = g_norm * dis[row] * dis[col] + g_deg[row]
        return g_x, g_w, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    row = torch.tensor([0, 0, 1, 2, 2, 3, 3])
    col = torch.tensor([1, 2, 0, 3, 0, 2, 3])
    w = (torch.rand(7, dtype=torch.float64) + 0.3).requires_grad_()
    return (x, w, row, col)

# %% segsoftmax_28
"""The per-segment maximum starts from zeros and scatter_reduce includes them, so it is never below 0. A segment whose scores are all very negative (below about -745 in double, -104 in float) underflows to 0/0 = nan, in the output and in the gradient."""
WRONG = ['top = score.new_zeros(n, h).scatter_reduce(0, index, score, "amax")']
RIGHT = ['top = score.new_zeros(n, h).scatter_reduce(0, index, score, "amax", include_self=False)']
NAME = "SegmentSoftmax"
# --- code
import torch


class SegmentSoftmax(torch.autograd.Function):
    """Softmax of edge scores (E, H) over the edges with the same target node."""

    @staticmethod
    def forward(ctx, score, seg, num_segments):
        n, h = num_segments, score.shape[1]
        index = seg.unsqueeze(1).expand_as(score)
        top = score.new_zeros(n, h).scatter_reduce(0, index, score, "amax")
        e = torch.exp(score - top[seg])
        total = score.new_zeros(n, h).index_add_(0, seg, e)
        prob = e / total[seg]
        ctx.save_for_backward(prob, seg)
        ctx.num_segments = num_segments
        return prob

    @staticmethod
    def backward(ctx, grad_prob):
        prob, seg = ctx.saved_tensors
        pg = prob * grad_prob
        acc = pg.new_zeros(ctx.num_segments, pg.shape[1]).index_add_(0, seg, pg)
        return pg - prob * acc[seg], None, None


def inputs():
    torch.manual_seed(0)
    score = torch.randn(7, 2, dtype=torch.float64)
    score[4:6] -= 800.0
    seg = torch.tensor([0, 0, 1, 1, 2, 2, 0])
    return (score.requires_grad_(), seg, 4)


def reference(score, seg, num_segments):
    out = torch.zeros_like(score)
    for s in range(num_segments):
        pick = (seg == s).nonzero().squeeze(1)
        if pick.numel():
            out = out.index_copy(0, pick, score[pick].softmax(0))
    return out

# %% chunkedce_29
"""The gradients computed in the forward are scaled in place by the upstream gradient, so the cached buffers are changed by the backward: a second backward over the same graph (retain_graph, several losses) multiplies by the upstream gradient again, and the first returned gradients change with it. One backward is right."""
WRONG = ['g_hidden.mul_(grad_loss)', 'g_weight.mul_(grad_loss)']
RIGHT = ['g_hidden = g_hidden * grad_loss', 'g_weight = g_weight * grad_loss']
NAME = "ChunkedLinearCE"
# --- code
import torch
import torch.nn.functional as F


class ChunkedLinearCE(torch.autograd.Function):
    """Cross entropy of hidden @ weight.T in chunks of rows; the full logits never exist."""

    @staticmethod
    def forward(ctx, hidden, weight, target, ignore_index, chunk):
        n_valid = (target != ignore_index).sum().clamp(min=1)
        g_hidden = torch.empty_like(hidden)
        g_weight = torch.zeros_like(weight)
        loss = hidden.new_zeros(())
        for start in range(0, hidden.shape[0], chunk):
            sl = slice(start, start + chunk)
            h, t = hidden[sl], target[sl]
            valid = t != ignore_index
            safe = t.masked_fill(~valid, 0)
            logp = F.log_softmax(h @ weight.t(), dim=-1)
            loss -= (logp.gather(1, safe.unsqueeze(1)).squeeze(1) * valid).sum()
            d = logp.exp_()
            d.scatter_add_(1, safe.unsqueeze(1), -torch.ones_like(d[:, :1]))
            d.mul_(valid.unsqueeze(1)).div_(n_valid)
            g_hidden[sl] = d @ weight
            g_weight.addmm_(d.t(), h)
        ctx.grads = (g_hidden, g_weight)
        return loss / n_valid

    @staticmethod
    def backward(ctx, grad_loss):
        g_hidden, g_weight = ctx.grads
        g_hidden.mul_(grad_loss)
        g_weight.mul_(grad_loss)
        return g_hidden, g_weight, None, None, None


def inputs():
    torch.manual_seed(0)
    hidden = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([2, -100, 5, 0, 3])
    return (hidden, weight, target, -100, 2)


def reference(hidden, weight, target, ignore_index, chunk):
    return F.cross_entropy(hidden @ weight.t(), target, ignore_index=ignore_index)

# %% timemax_30
"""The time index of the maximum is stored as uint8 to save memory, which wraps around for positions above 255, so the gradient goes to the wrong time step (index modulo 256) in long sequences."""
WRONG = ['ctx.save_for_backward(arg.to(torch.uint8))']
RIGHT = ['ctx.save_for_backward(arg.to(torch.int32))']
NAME = "MaskedTimeMax"
# --- code
import torch


class MaskedTimeMax(torch.autograd.Function):
    """Max over time of x (B, T, C) within the given lengths; keeps only the positions."""

    @staticmethod
    def forward(ctx, x, lengths):
        t = x.shape[1]
        pad = torch.arange(t, device=x.device).unsqueeze(0) >= lengths.unsqueeze(1)
        val, arg = x.masked_fill(pad.unsqueeze(2), float("-inf")).max(dim=1)
        ctx.save_for_backward(arg.to(torch.uint8))
        ctx.x_shape = x.shape
        return val

    @staticmethod
    def backward(ctx, g):
        (arg,) = ctx.saved_tensors
        grad_x = g.new_zeros(ctx.x_shape)
        grad_x.scatter_(1, arg.long().unsqueeze(1), g.unsqueeze(1))
        return grad_x, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 300, 2, dtype=torch.float64)
    x[0, 280, 0] += 6.0
    x[1, 290, 1] += 8.0
    return (x.requires_grad_(), torch.tensor([295, 270]))


def reference(x, lengths):
    pad = torch.arange(x.shape[1]).unsqueeze(0) >= lengths.unsqueeze(1)
    return x.masked_fill(pad.unsqueeze(2), float("-inf")).amax(1)
