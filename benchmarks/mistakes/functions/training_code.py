"""Mistakes: held out, training code at a company. Each cell is a separate module; see benchmarks/repairs.py."""

# %% label_smoothing_ce_01
"""Two errors: the loss is averaged over the non-ignored tokens but the backward divides by all rows, and scatter_ overwrites the smoothing mass eps/C on the true class instead of adding (1-eps) to it, so the target distribution does not sum to 1."""
WRONG = ["q.scatter_(1, safe.unsqueeze(1), 1.0 - ctx.eps)", "grad_logits = (p - q) * grad_out / p.size(0)"]
RIGHT = ["q.scatter_add_(1, safe.unsqueeze(1), torch.full_like(q[:, :1], 1.0 - ctx.eps))", "grad_logits = (p - q) * grad_out / valid.sum()"]
NAME = "LabelSmoothingCE"
# --- code
import torch
import torch.nn.functional as F


class LabelSmoothingCE(torch.autograd.Function):
    """Cross entropy with label smoothing over flattened tokens, padding tokens ignored."""

    @staticmethod
    def forward(ctx, logits, target, eps, ignore_index):
        logp = F.log_softmax(logits, dim=-1)
        valid = target != ignore_index
        safe = target.masked_fill(~valid, 0)
        nll = -logp.gather(1, safe.unsqueeze(1)).squeeze(1)
        smooth = -logp.mean(dim=-1)
        loss = (1.0 - eps) * nll + eps * smooth
        ctx.save_for_backward(logp, safe, valid)
        ctx.eps = eps
        return loss.masked_fill(~valid, 0.0).sum() / valid.sum()

    @staticmethod
    def backward(ctx, grad_out):
        logp, safe, valid = ctx.saved_tensors
        p = logp.exp()
        q = torch.full_like(p, ctx.eps / p.size(1))
        q.scatter_(1, safe.unsqueeze(1), 1.0 - ctx.eps)
        grad_logits = (p - q) * grad_out / p.size(0)
        grad_logits = grad_logits.masked_fill(~valid.unsqueeze(1), 0.0)
        return grad_logits, None, None, None


def inputs():
    torch.manual_seed(0)
    logits = torch.randn(6, 5, dtype=torch.float64)
    target = torch.tensor([1, 4, -100, 0, 2, -100])
    return (logits, target, 0.1, -100)


def reference(logits, target, eps, ignore_index):
    return F.cross_entropy(logits, target, ignore_index=ignore_index, label_smoothing=eps)


# %% adaln_modulate_02
"""Two errors: the modulation is (1 + scale) but the backward multiplies by scale only, and the gradients of scale and shift are returned in swapped order (forward takes shift first)."""
WRONG = ["gx_hat = grad_out * scale.unsqueeze(1)", "return grad_x, grad_scale, grad_shift, None"]
RIGHT = ["gx_hat = grad_out * (1 + scale.unsqueeze(1))", "return grad_x, grad_shift, grad_scale, None"]
NAME = "AdaLNModulate"
# --- code
import torch


class AdaLNModulate(torch.autograd.Function):
    """DiT block: layer norm without affine, followed by per-sample shift and scale."""

    @staticmethod
    def forward(ctx, x, shift, scale, eps):
        mu = x.mean(dim=-1, keepdim=True)
        var = x.var(dim=-1, keepdim=True, unbiased=False)
        rstd = torch.rsqrt(var + eps)
        x_hat = (x - mu) * rstd
        ctx.save_for_backward(x_hat, rstd, scale)
        return x_hat * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)

    @staticmethod
    def backward(ctx, grad_out):
        x_hat, rstd, scale = ctx.saved_tensors
        gx_hat = grad_out * scale.unsqueeze(1)
        m1 = gx_hat.mean(dim=-1, keepdim=True)
        m2 = (gx_hat * x_hat).mean(dim=-1, keepdim=True)
        grad_x = rstd * (gx_hat - m1 - x_hat * m2)
        grad_shift = grad_out.sum(dim=1)
        grad_scale = (grad_out * x_hat).sum(dim=1)
        return grad_x, grad_scale, grad_shift, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    shift = torch.randn(2, 5, dtype=torch.float64)
    scale = torch.randn(2, 5, dtype=torch.float64)
    return (x, shift, scale, 1e-6)


def reference(x, shift, scale, eps):
    y = torch.nn.functional.layer_norm(x, (x.size(-1),), eps=eps)
    return y * (1 + scale[:, None]) + shift[:, None]


# %% gqa_attention_03
"""The KV heads are expanded with repeat_interleave (query heads of one group are adjacent), but the backward folds the expanded head dimension as (rep, kv) and sums over the first axis, as if repeat() had been used, so gradients of k and v go to the wrong KV heads."""
WRONG = ["return g.view(b, rep, kv_heads, t, d).sum(dim=1)"]
RIGHT = ["return g.view(b, kv_heads, rep, t, d).sum(dim=2)"]
NAME = "GroupedQueryAttention"
# --- code
import math
import torch


def _fold_heads(g, kv_heads):
    b, h, t, d = g.shape
    rep = h // kv_heads
    return g.view(b, rep, kv_heads, t, d).sum(dim=1)


class GroupedQueryAttention(torch.autograd.Function):

    @staticmethod
    def forward(ctx, q, k, v):
        rep = q.size(1) // k.size(1)
        kx = k.repeat_interleave(rep, dim=1)
        vx = v.repeat_interleave(rep, dim=1)
        scale = 1.0 / math.sqrt(q.size(-1))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, kx) * scale
        t = q.size(2)
        causal = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
        p = scores.masked_fill(causal, float("-inf")).softmax(dim=-1)
        ctx.save_for_backward(q, k, v, p)
        ctx.scale = scale
        ctx.rep = rep
        return p @ vx

    @staticmethod
    def backward(ctx, grad_out):
        q, k, v, p = ctx.saved_tensors
        kx = k.repeat_interleave(ctx.rep, dim=1)
        vx = v.repeat_interleave(ctx.rep, dim=1)
        dv = p.transpose(-1, -2) @ grad_out
        dp = grad_out @ vx.transpose(-1, -2)
        ds = p * (dp - (dp * p).sum(dim=-1, keepdim=True)) * ctx.scale
        dq = ds @ kx
        dk = ds.transpose(-1, -2) @ q
        return dq, _fold_heads(dk, k.size(1)), _fold_heads(dv, k.size(1))


def inputs():
    torch.manual_seed(0)
    q = torch.randn(1, 4, 3, 2, dtype=torch.float64)
    k = torch.randn(1, 2, 3, 2, dtype=torch.float64)
    v = torch.randn(1, 2, 3, 2, dtype=torch.float64)
    return (q, k, v)


# %% partial_rope_04
"""Only the first rot_dim channels are rotated and the rest pass through unchanged; the backward starts from zeros, so the pass-through channels get no gradient (identity term missing)."""
WRONG = ["grad_x = torch.zeros_like(grad_out)"]
RIGHT = ["grad_x = grad_out.clone()"]
NAME = "PartialRotary"
# --- code
import torch


def _rotary_tables(positions, rot_dim, base, dtype):
    half = rot_dim // 2
    inv_freq = base ** (-torch.arange(half, dtype=dtype, device=positions.device) / half)
    ang = positions.to(dtype)[:, None] * inv_freq[None, :]
    return ang.cos()[None, :, None, :], ang.sin()[None, :, None, :]


class PartialRotary(torch.autograd.Function):

    @staticmethod
    def forward(x, positions, rot_dim, base):
        cos, sin = _rotary_tables(positions, rot_dim, base, x.dtype)
        x1, x2 = x[..., :rot_dim].chunk(2, dim=-1)
        rotated = torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)
        return torch.cat((rotated, x[..., rot_dim:]), dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, positions, rot_dim, base = inputs
        ctx.save_for_backward(positions)
        ctx.rot_dim, ctx.base = rot_dim, base

    @staticmethod
    def backward(ctx, grad_out):
        (positions,) = ctx.saved_tensors
        r = ctx.rot_dim
        cos, sin = _rotary_tables(positions, r, ctx.base, grad_out.dtype)
        g1, g2 = grad_out[..., :r].chunk(2, dim=-1)
        grad_x = torch.zeros_like(grad_out)
        grad_x[..., : r // 2] = g1 * cos + g2 * sin
        grad_x[..., r // 2 : r] = g2 * cos - g1 * sin
        return grad_x, None, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 2, 6, dtype=torch.float64)
    positions = torch.tensor([0, 1, 5])
    return (x, positions, 4, 100.0)


# %% weighted_embedding_bag_05
"""To save memory the bag id of every index is recomputed from the offsets in backward, but searchsorted is called without right=True, so the first element of every bag is assigned to the previous bag (and the very first to bag -1, the last)."""
WRONG = ["bag = torch.searchsorted(offsets, pos) - 1"]
RIGHT = ["bag = torch.searchsorted(offsets, pos, right=True) - 1"]
NAME = "WeightedEmbeddingBag"
# --- code
import torch


class WeightedEmbeddingBag(torch.autograd.Function):
    """Sum of table rows per bag, with a weight per looked-up sample."""

    @staticmethod
    def forward(ctx, table, indices, offsets, sample_weight):
        ends = torch.cat((offsets[1:], offsets.new_tensor([indices.numel()])))
        lengths = ends - offsets
        bag_ids = torch.repeat_interleave(torch.arange(offsets.numel(), device=offsets.device), lengths)
        out = table.new_zeros(offsets.numel(), table.size(1))
        out.index_add_(0, bag_ids, table[indices] * sample_weight[:, None])
        ctx.save_for_backward(table, indices, offsets, sample_weight)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        table, indices, offsets, sample_weight = ctx.saved_tensors
        pos = torch.arange(indices.numel(), device=indices.device)
        bag = torch.searchsorted(offsets, pos) - 1
        g = grad_out[bag]
        grad_table = grad_weight = None
        if ctx.needs_input_grad[0]:
            grad_table = torch.zeros_like(table)
            grad_table.index_add_(0, indices, g * sample_weight[:, None])
        if ctx.needs_input_grad[3]:
            grad_weight = (g * table[indices]).sum(dim=1)
        return grad_table, None, None, grad_weight


def inputs():
    torch.manual_seed(0)
    table = torch.randn(6, 3, dtype=torch.float64)
    indices = torch.tensor([0, 3, 3, 5, 1, 2, 0])
    offsets = torch.tensor([0, 2, 5])
    w = torch.rand(7, dtype=torch.float64)
    return (table, indices, offsets, w)


def reference(table, indices, offsets, sample_weight):
    return torch.nn.functional.embedding_bag(
        indices, table, offsets, mode="sum", per_sample_weights=sample_weight)


# %% soft_quantizer_06
"""Gradient of the step size: y = step * h(x/step), so dy/dstep = h(u) - u*h'(u) with u = x/step; the code uses x instead of u = x/step in the second term (missing division by the step)."""
WRONG = ["grad_step = (grad_out * (level - x * slope)).sum()"]
RIGHT = ["grad_step = (grad_out * (level - x / step * slope)).sum()"]
NAME = "SoftQuantizer"
# --- code
import math
import torch


class SoftQuantizer(torch.autograd.Function):
    """Differentiable soft quantization: tanh ramps between levels, learnable step, symmetric clipping."""

    @staticmethod
    def forward(ctx, x, step, qmax, sharp):
        u = (x / step).clamp(-qmax, qmax)
        cell = u.floor()
        th = torch.tanh(sharp * (u - cell - 0.5))
        level = cell + 0.5 + th / (2 * math.tanh(sharp / 2))
        ctx.save_for_backward(x, step, th, level)
        ctx.qmax, ctx.sharp = qmax, sharp
        return level * step

    @staticmethod
    def backward(ctx, grad_out):
        x, step, th, level = ctx.saved_tensors
        inside = ((x / step).abs() < ctx.qmax).to(x.dtype)
        slope = ctx.sharp * (1 - th * th) / (2 * math.tanh(ctx.sharp / 2)) * inside
        grad_x = grad_out * slope
        grad_step = (grad_out * (level - x * slope)).sum()
        return grad_x, grad_step, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 5, dtype=torch.float64)
    step = torch.tensor(0.37, dtype=torch.float64)
    return (x, step, 3, 4.0)


# %% noisy_topk_gate_07
"""The noise std is softplus(raw), whose derivative is sigmoid(raw); the code saved the activated std and uses sigmoid(std), i.e. the derivative is evaluated at the output instead of the pre-activation."""
WRONG = ["d_raw = d_noisy * noise * torch.sigmoid(std)"]
RIGHT = ["d_raw = d_noisy * noise * -torch.expm1(-std)"]
NAME = "NoisyTopKGate"
# --- code
import torch
import torch.nn.functional as F


class NoisyTopKGate(torch.autograd.Function):
    """Sparse gate of a mixture of experts: noisy logits, softmax over the k largest."""

    @staticmethod
    def forward(ctx, x, w_gate, w_noise, k, seed):
        clean = x @ w_gate
        std = F.softplus(x @ w_noise)
        gen = torch.Generator(device=x.device).manual_seed(seed)
        noise = torch.randn(clean.shape, generator=gen, dtype=x.dtype, device=x.device)
        noisy = clean + noise * std
        top_idx = noisy.topk(k, dim=-1).indices
        keep = torch.zeros_like(noisy, dtype=torch.bool).scatter_(1, top_idx, True)
        gates = noisy.masked_fill(~keep, float("-inf")).softmax(dim=-1)
        ctx.save_for_backward(x, w_gate, w_noise, std, noise, gates)
        return gates

    @staticmethod
    def backward(ctx, grad_gates):
        x, w_gate, w_noise, std, noise, gates = ctx.saved_tensors
        inner = (grad_gates * gates).sum(dim=-1, keepdim=True)
        d_noisy = gates * (grad_gates - inner)
        d_raw = d_noisy * noise * torch.sigmoid(std)
        grad_x = d_noisy @ w_gate.t() + d_raw @ w_noise.t()
        grad_wg = x.t() @ d_noisy
        grad_wn = x.t() @ d_raw
        return grad_x, grad_wg, grad_wn, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64)
    w_gate = torch.randn(3, 5, dtype=torch.float64)
    w_noise = torch.randn(3, 5, dtype=torch.float64) * 0.5
    return (x, w_gate, w_noise, 2, 7)


# %% router_losses_08
"""Contract error: gradients are not materialized (set_materialize_grads(False)) but only grad_aux is checked for None; when only the balancing loss is used (the z loss is logged but not trained) grad_z is None and the backward raises a TypeError."""
WRONG = ["grad_logits = (2.0 * grad_z / n) * lse.unsqueeze(1) * p"]
RIGHT = ["grad_logits = torch.zeros_like(p) if grad_z is None else (2.0 * grad_z / n) * lse.unsqueeze(1) * p"]
NAME = "RouterLosses"
# --- code
import torch
import torch.nn.functional as F


class RouterLosses(torch.autograd.Function):
    """Load balancing loss and z loss of a mixture-of-experts router, computed in one pass."""

    @staticmethod
    def forward(ctx, logits, k):
        n, e = logits.shape
        lse = torch.logsumexp(logits, dim=-1)
        p = (logits - lse.unsqueeze(1)).exp()
        chosen = logits.topk(k, dim=-1).indices
        frac = F.one_hot(chosen, e).sum(dim=(0, 1)).to(p.dtype) / (n * k)
        aux = e * (frac * p.mean(dim=0)).sum()
        z = lse.pow(2).mean()
        ctx.save_for_backward(p, lse, frac)
        ctx.set_materialize_grads(False)
        return aux, z

    @staticmethod
    def backward(ctx, grad_aux, grad_z):
        p, lse, frac = ctx.saved_tensors
        n, e = p.shape
        grad_logits = (2.0 * grad_z / n) * lse.unsqueeze(1) * p
        if grad_aux is not None:
            gp = grad_aux * e * frac / n
            mean_gp = (p * gp).sum(dim=-1, keepdim=True)
            grad_logits = grad_logits + p * (gp - mean_gp)
        return grad_logits, None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(6, 4, dtype=torch.float64), 2)


def reference(logits, k):
    n, e = logits.shape
    p = logits.softmax(-1)
    frac = F.one_hot(logits.topk(k, dim=-1).indices, e).sum(dim=(0, 1)).to(p.dtype) / (n * k)
    return e * (frac * p.mean(0)).sum(), torch.logsumexp(logits, -1).pow(2).mean()


# %% dot_interaction_09
"""The pairwise gradient matrix is symmetrized without counting the diagonal twice, but the derivative of x_i.x_i is 2*x_i; with self interaction on, the diagonal terms get half of their gradient."""
WRONG = ["sym = z + z.tril(-1).transpose(1, 2)"]
RIGHT = ["sym = z + z.transpose(1, 2)"]
NAME = "DotInteraction"
# --- code
import torch


class DotInteraction(torch.autograd.Function):
    """DLRM feature interaction: lower triangle of X X^T, appended to the dense features."""

    @staticmethod
    def forward(ctx, feats, dense, self_interaction):
        f = feats.size(1)
        gram = torch.bmm(feats, feats.transpose(1, 2))
        offset = 0 if self_interaction else -1
        rows, cols = torch.tril_indices(f, f, offset=offset, device=feats.device)
        ctx.save_for_backward(feats, rows, cols)
        ctx.dense_dim = dense.size(1)
        return torch.cat((dense, gram[:, rows, cols]), dim=1)

    @staticmethod
    def backward(ctx, grad_out):
        feats, rows, cols = ctx.saved_tensors
        grad_dense, grad_pairs = grad_out.split(
            [ctx.dense_dim, grad_out.size(1) - ctx.dense_dim], dim=1)
        b, f, _ = feats.shape
        z = grad_out.new_zeros(b, f, f)
        z[:, rows, cols] = grad_pairs
        sym = z + z.tril(-1).transpose(1, 2)
        grad_feats = torch.bmm(sym, feats)
        return grad_feats, grad_dense, None


def inputs():
    torch.manual_seed(0)
    feats = torch.randn(2, 3, 4, dtype=torch.float64)
    dense = torch.randn(2, 4, dtype=torch.float64)
    return (feats, dense, True)


# %% iou_loss_10
"""The union contains -inter, so inter acts on the IoU through the denominator as well: d(I/U)/dI = 1/U + I/U^2; the code keeps only 1/U."""
WRONG = ["d_inter = -g / union"]
RIGHT = ["d_inter = -g * (1.0 / union + inter / union ** 2)"]
NAME = "IoULoss"
# --- code
import torch


class IoULoss(torch.autograd.Function):
    """Mean of 1 - IoU for xyxy boxes against integer pixel ground truth."""

    @staticmethod
    def forward(ctx, pred, gt):
        gt = gt.to(pred.dtype)
        lt = torch.maximum(pred[:, :2], gt[:, :2])
        rb = torch.minimum(pred[:, 2:], gt[:, 2:])
        wh = (rb - lt).clamp(min=0)
        inter = wh[:, 0] * wh[:, 1]
        pw, ph = (pred[:, 2:] - pred[:, :2]).unbind(1)
        gw, gh = (gt[:, 2:] - gt[:, :2]).unbind(1)
        union = pw * ph + gw * gh - inter
        ctx.save_for_backward(pred, gt, wh, inter, union)
        return (1.0 - inter / union).mean()

    @staticmethod
    def backward(ctx, grad_out):
        pred, gt, wh, inter, union = ctx.saved_tensors
        g = grad_out / pred.size(0)
        d_inter = -g / union
        d_area = g * inter / union ** 2
        overlap = (wh > 0).all(dim=1, keepdim=True)
        d_wh = torch.where(overlap, d_inter[:, None] * wh.flip(1), torch.zeros_like(wh))
        side = (pred[:, 2:] - pred[:, :2]).flip(1) * d_area[:, None]
        grad_lt = -d_wh * (pred[:, :2] > gt[:, :2]) - side
        grad_rb = d_wh * (pred[:, 2:] < gt[:, 2:]) + side
        return torch.cat((grad_lt, grad_rb), dim=1), None


def inputs():
    torch.manual_seed(0)
    gt = torch.tensor([[0, 0, 4, 4], [2, 1, 6, 5], [1, 1, 3, 7], [0, 0, 2, 2]])
    pred = gt.double() + 0.8 * torch.rand(4, 4, dtype=torch.float64) - 0.4
    pred[3] += 5.0
    return (pred, gt)


# %% log_mel_11
"""For a real function of a complex spectrogram PyTorch expects the gradient 2*z*g (the conjugate Wirtinger derivative); the code returns 2*conj(z)*g, so the imaginary part has the wrong sign."""
WRONG = ["grad_spec = 2.0 * spec.conj() * g_power"]
RIGHT = ["grad_spec = 2.0 * spec * g_power"]
NAME = "LogMel"
# --- code
import torch


class LogMel(torch.autograd.Function):
    """Log mel energies from a complex STFT, with a trainable filterbank."""

    @staticmethod
    def forward(ctx, spec, fbank, floor):
        power = spec.real.square() + spec.imag.square()
        mel = torch.einsum("mf,bft->bmt", fbank, power) + floor
        ctx.save_for_backward(spec, fbank, mel)
        return mel.log()

    @staticmethod
    def backward(ctx, grad_out):
        spec, fbank, mel = ctx.saved_tensors
        g_mel = grad_out / mel
        grad_spec = grad_fbank = None
        if ctx.needs_input_grad[0]:
            g_power = torch.einsum("mf,bmt->bft", fbank, g_mel)
            grad_spec = 2.0 * spec.conj() * g_power
        if ctx.needs_input_grad[1]:
            power = spec.real.square() + spec.imag.square()
            grad_fbank = torch.einsum("bmt,bft->mf", g_mel, power)
        return grad_spec, grad_fbank, None


def inputs():
    torch.manual_seed(0)
    spec = torch.randn(2, 4, 3, dtype=torch.complex128)
    fbank = torch.rand(3, 4, dtype=torch.float64)
    return (spec, fbank, 1e-2)


def reference(spec, fbank, floor):
    return torch.log(fbank @ spec.abs().square() + floor)


# %% pcen_smoother_12
"""The recursion starts with m[0] = x[0] (no factor s), but the backward treats frame 0 like the others and scales its gradient by s."""
WRONG = ["grad_x[..., 0] = s * lam"]
RIGHT = ["grad_x[..., 0] = lam"]
NAME = "PCENSmoother"
# --- code
import torch


class PCENSmoother(torch.autograd.Function):
    """First-order smoother of PCEN with a learnable coefficient per channel, x is (batch, channel, time)."""

    @staticmethod
    def forward(ctx, x, s):
        m = torch.empty_like(x)
        m[..., 0] = x[..., 0]
        for t in range(1, x.size(-1)):
            m[..., t] = (1 - s) * m[..., t - 1] + s * x[..., t]
        ctx.save_for_backward(x, s, m)
        return m

    @staticmethod
    def backward(ctx, grad_m):
        x, s, m = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_s = torch.zeros_like(s)
        lam = torch.zeros_like(grad_m[..., 0])
        for t in range(x.size(-1) - 1, 0, -1):
            lam = grad_m[..., t] + lam
            grad_x[..., t] = s * lam
            grad_s += (lam * (x[..., t] - m[..., t - 1])).sum(dim=0)
            lam = (1 - s) * lam
        lam = grad_m[..., 0] + lam
        grad_x[..., 0] = s * lam
        return grad_x, grad_s


def inputs():
    torch.manual_seed(0)
    x = torch.rand(2, 3, 5, dtype=torch.float64)
    s = torch.tensor([0.1, 0.3, 0.6], dtype=torch.float64)
    return (x, s)


# %% gat_aggregate_13
"""The attention is normalized over the incoming edges of each destination node, but in the softmax backward the segment sum (accumulated by dst) is gathered with src, so each edge subtracts the sum of the wrong node."""
WRONG = ["grad_score = alpha * (g_alpha - seg[src])"]
RIGHT = ["grad_score = alpha * (g_alpha - seg[dst])"]
NAME = "GATAggregate"
# --- code
import torch


class GATAggregate(torch.autograd.Function):
    """Edge softmax over incoming edges and weighted aggregation, multi-head."""

    @staticmethod
    def forward(ctx, x, score, edge_index):
        src, dst = edge_index
        n, h, _ = x.shape
        top = score.new_full((n, h), float("-inf"))
        top = top.scatter_reduce(0, dst[:, None].expand_as(score), score, "amax")
        ex = (score - top[dst]).exp()
        denom = score.new_zeros(n, h).index_add_(0, dst, ex)
        alpha = ex / denom[dst]
        out = torch.zeros_like(x).index_add_(0, dst, alpha.unsqueeze(-1) * x[src])
        ctx.save_for_backward(x, alpha, edge_index)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        x, alpha, edge_index = ctx.saved_tensors
        src, dst = edge_index
        g_edge = grad_out[dst]
        grad_x = torch.zeros_like(x)
        grad_x.index_add_(0, src, alpha.unsqueeze(-1) * g_edge)
        g_alpha = (g_edge * x[src]).sum(dim=-1)
        seg = alpha.new_zeros(x.size(0), x.size(1))
        seg.index_add_(0, dst, alpha * g_alpha)
        grad_score = alpha * (g_alpha - seg[src])
        return grad_x, grad_score, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 2, 3, dtype=torch.float64)
    edge_index = torch.tensor([[0, 1, 2, 3, 0, 2, 1], [1, 2, 1, 1, 3, 3, 0]])
    score = torch.randn(7, 2, dtype=torch.float64)
    return (x, score, edge_index)


# %% scaled_weight_std_14
"""The variance is clamped from below (max(var*fan_in, eps)); for filters on the clamp the scale is constant, so the term through the variance must be zero there, but the backward always includes it."""
WRONG = ["grad_c = g * scale - dot * scale * inv.square() * centered"]
RIGHT = ["active = (centered.square().sum(dim=1, keepdim=True) > ctx.eps).to(g.dtype)\ngrad_c = g * scale - active * dot * scale * inv.square() * centered"]
NAME = "ScaledWeightStd"
# --- code
import torch


class ScaledWeightStd(torch.autograd.Function):
    """Scaled weight standardization of NFNets: zero-mean, fan-in normalized filters with a gain."""

    @staticmethod
    def forward(weight, gain, eps):
        w = weight.flatten(1)
        fan_in = w.size(1)
        mean = w.mean(dim=1, keepdim=True)
        var = w.var(dim=1, keepdim=True, unbiased=False)
        scale = torch.rsqrt((var * fan_in).clamp(min=eps)) * gain[:, None]
        return ((w - mean) * scale).view_as(weight)

    @staticmethod
    def setup_context(ctx, inputs, output):
        weight, gain, eps = inputs
        ctx.save_for_backward(weight, gain)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, grad_out):
        weight, gain = ctx.saved_tensors
        g = grad_out.flatten(1)
        w = weight.flatten(1)
        centered = w - w.mean(dim=1, keepdim=True)
        inv = torch.rsqrt(centered.square().sum(dim=1, keepdim=True).clamp(min=ctx.eps))
        scale = inv * gain[:, None]
        dot = (g * centered).sum(dim=1, keepdim=True)
        grad_c = g * scale - dot * scale * inv.square() * centered
        grad_w = grad_c - grad_c.mean(dim=1, keepdim=True)
        grad_gain = (dot * inv).squeeze(1)
        return grad_w.view_as(weight), grad_gain, None


def inputs():
    torch.manual_seed(0)
    weight = torch.randn(3, 2, 2, 2, dtype=torch.float64)
    weight[1] *= 0.02
    gain = torch.tensor([1.0, 1.7, 0.6], dtype=torch.float64)
    return (weight, gain, 1e-2)


def reference(weight, gain, eps):
    var, mean = torch.var_mean(weight, dim=(1, 2, 3), keepdim=True, unbiased=False)
    scale = torch.rsqrt((var * weight[0].numel()).clamp(min=eps)) * gain.view(-1, 1, 1, 1)
    return (weight - mean) * scale


# %% softcap_scratch_15
"""The tanh needed in backward is written into a global scratch buffer shared by all calls of the same shape; a second call (another layer, or a second micro-batch) before the backward overwrites it, and the first call silently gets the gradient of the second. A single apply followed by its backward is right."""
WRONG = ["t = torch.tanh(z, out=_scratch(z))"]
RIGHT = ["t = torch.tanh(z)"]
NAME = "SoftcapLogits"
# --- code
import torch

_POOL = {}


def _scratch(like):
    key = (tuple(like.shape), like.dtype, like.device)
    buf = _POOL.get(key)
    if buf is None:
        buf = _POOL[key] = torch.empty_like(like)
    return buf


class SoftcapLogits(torch.autograd.Function):
    """cap * tanh((logits + bias) / cap) for attention scores with a per-head bias."""

    @staticmethod
    def forward(ctx, logits, bias, cap):
        z = (logits + bias[None, :, None, None]) / cap
        t = torch.tanh(z, out=_scratch(z))
        ctx.t = t
        return cap * t

    @staticmethod
    def backward(ctx, grad_out):
        grad = grad_out * (1 - ctx.t * ctx.t)
        grad_bias = None
        if ctx.needs_input_grad[1]:
            grad_bias = grad.sum(dim=(0, 2, 3))
        return grad, grad_bias, None


def inputs():
    torch.manual_seed(0)
    logits = 3 * torch.randn(1, 2, 3, 3, dtype=torch.float64)
    bias = torch.randn(2, dtype=torch.float64)
    return (logits, bias, 5.0)


# %% lora_linear_16
"""The gradient of B is guarded by need_a (copy and paste) instead of need_b: when A is frozen and B is trained (LoRA-FA) B gets None and never learns. With all inputs requiring grad the result is right."""
WRONG = ["grad_b = scale * g2.t() @ (x2 @ a.t()) if need_a else None"]
RIGHT = ["grad_b = scale * g2.t() @ (x2 @ a.t()) if need_b else None"]
NAME = "LoRALinear"
# --- code
import torch


class LoRALinear(torch.autograd.Function):
    """y = x W^T + alpha/r * (x A^T) B^T; the low-rank activation is recomputed in backward."""

    @staticmethod
    def forward(ctx, x, weight, a, b, alpha):
        scale = alpha / a.size(0)
        ctx.save_for_backward(x, weight, a, b)
        ctx.scale = scale
        return x @ weight.t() + scale * ((x @ a.t()) @ b.t())

    @staticmethod
    def backward(ctx, grad_out):
        x, weight, a, b = ctx.saved_tensors
        need_x, need_w, need_a, need_b, _ = ctx.needs_input_grad
        scale = ctx.scale
        g2 = grad_out.reshape(-1, grad_out.size(-1))
        x2 = x.reshape(-1, x.size(-1))
        gb = g2 @ b
        grad_x = grad_w = None
        if need_x:
            grad_x = (g2 @ weight + scale * gb @ a).view_as(x)
        if need_w:
            grad_w = g2.t() @ x2
        grad_a = scale * gb.t() @ x2 if need_a else None
        grad_b = scale * g2.t() @ (x2 @ a.t()) if need_a else None
        return grad_x, grad_w, grad_a, grad_b, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    weight = torch.randn(5, 4, dtype=torch.float64)
    a = torch.randn(2, 4, dtype=torch.float64)
    b = torch.randn(5, 2, dtype=torch.float64)
    return (x, weight, a, b, 8.0)


def reference(x, weight, a, b, alpha):
    return x @ (weight + alpha / a.size(0) * b @ a).t()


# %% max_over_time_17
"""The argmax over time is stored as uint8 to save memory, but with more than 256 frames the index wraps around modulo 256 and the gradient goes to the wrong frame."""
WRONG = ["ctx.save_for_backward(best, idx.to(torch.uint8), gain)"]
RIGHT = ["ctx.save_for_backward(best, idx.to(torch.int32), gain)"]
NAME = "MaxOverTime"
# --- code
import torch


class MaxOverTime(torch.autograd.Function):
    """Max pooling over the valid frames of an utterance with a gain per channel; keeps only the indices."""

    @staticmethod
    def forward(ctx, x, lengths, gain):
        frames = torch.arange(x.size(1), device=x.device)
        pad = frames[None, :] >= lengths[:, None]
        best, idx = x.masked_fill(pad.unsqueeze(-1), float("-inf")).max(dim=1)
        ctx.save_for_backward(best, idx.to(torch.uint8), gain)
        ctx.frames = x.size(1)
        return best * gain

    @staticmethod
    def backward(ctx, grad_out):
        best, idx, gain = ctx.saved_tensors
        b, c = best.shape
        grad_x = grad_out.new_zeros(b, ctx.frames, c)
        grad_x.scatter_(1, idx.long().unsqueeze(1), (grad_out * gain).unsqueeze(1))
        grad_gain = (grad_out * best).sum(dim=0)
        return grad_x, None, grad_gain


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 300, 2, dtype=torch.float64)
    x[0, 280, 0] = 6.0
    x[1, 265, 1] = 5.0
    gain = torch.rand(2, dtype=torch.float64) + 0.5
    return (x, torch.tensor([300, 270]), gain)


# %% mish_residual_18
"""tanh(softplus(x)) is computed in forward (outside the graph) and saved; in a double backward it counts as a constant, so the second derivative silently misses the terms through it. The first gradient is right; it breaks with create_graph=True (gradient penalty): gradgradcheck fails."""
WRONG = ["x, t = ctx.saved_tensors"]
RIGHT = ["x, _ = ctx.saved_tensors\nt = torch.tanh(F.softplus(x))"]
NAME = "MishGated"
# --- code
import torch
import torch.nn.functional as F


class MishGated(torch.autograd.Function):
    """gate * mish(x), used in a critic trained with a gradient penalty."""

    @staticmethod
    def forward(ctx, x, gate):
        t = torch.tanh(F.softplus(x))
        ctx.save_for_backward(x, t)
        ctx.gate = gate
        return gate * x * t

    @staticmethod
    def backward(ctx, grad_out):
        x, t = ctx.saved_tensors
        sig = torch.sigmoid(x)
        d = t + x * sig * (1 - t * t)
        return ctx.gate * grad_out * d, None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(3, 4, dtype=torch.float64), 0.7)


def reference(x, gate):
    return gate * F.mish(x)


# %% snake_double_19
"""Custom double backward: the derivative of 1 + sin(2ax) is 2a*cos(2ax), but the factor a (inner derivative) is missing in SnakeGrad.backward; the first gradient is right, gradgradcheck fails for alpha != 1."""
WRONG = ["grad_x = gg * g * 2.0 * torch.cos(2.0 * ctx.alpha * x)"]
RIGHT = ["grad_x = gg * g * 2.0 * ctx.alpha * torch.cos(2.0 * ctx.alpha * x)"]
NAME = "Snake"
# --- code
import torch


class SnakeGrad(torch.autograd.Function):

    @staticmethod
    def forward(ctx, g, x, alpha):
        ctx.save_for_backward(g, x)
        ctx.alpha = alpha
        return g * (1.0 + torch.sin(2.0 * alpha * x))

    @staticmethod
    def backward(ctx, gg):
        g, x = ctx.saved_tensors
        grad_g = gg * (1.0 + torch.sin(2.0 * ctx.alpha * x))
        grad_x = gg * g * 2.0 * torch.cos(2.0 * ctx.alpha * x)
        return grad_g, grad_x, None


class Snake(torch.autograd.Function):
    """Snake activation of a vocoder, x + sin^2(alpha x) / alpha, with an explicit second derivative."""

    @staticmethod
    def forward(ctx, x, alpha):
        ctx.save_for_backward(x)
        ctx.alpha = alpha
        return x + torch.sin(alpha * x).square() / alpha

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        return SnakeGrad.apply(grad_out, x, ctx.alpha), None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(2, 5, dtype=torch.float64), 1.6)


# %% contrastive_inplace_20
"""The similarity matrix of the caller is divided by the temperature in place (without mark_dirty), so the input itself is changed by the forward: later uses of sim see scaled values and a second call scales it again."""
WRONG = ["logits = sim.div_(tau)"]
RIGHT = ["logits = sim / tau"]
NAME = "ContrastiveLoss"
# --- code
import torch


class ContrastiveLoss(torch.autograd.Function):
    """Symmetric InfoNCE on a square similarity matrix, positives on the diagonal."""

    @staticmethod
    def forward(ctx, sim, tau):
        n = sim.size(0)
        logits = sim.div_(tau)
        row_lse = logits.logsumexp(dim=1)
        col_lse = logits.logsumexp(dim=0)
        pos = logits.diagonal()
        loss = (row_lse.sum() + col_lse.sum() - 2 * pos.sum()) / (2 * n)
        p_row = (logits - row_lse[:, None]).exp()
        p_col = (logits - col_lse[None, :]).exp()
        ctx.save_for_backward(p_row + p_col)
        ctx.tau = tau
        return loss

    @staticmethod
    def backward(ctx, grad_out):
        (p,) = ctx.saved_tensors
        n = p.size(0)
        grad = p.clone()
        grad.diagonal().sub_(2.0)
        return grad * (grad_out / (2 * n * ctx.tau)), None


def inputs():
    torch.manual_seed(0)
    return (torch.rand(4, 4, dtype=torch.float64), 0.3)


def reference(sim, tau):
    target = torch.arange(sim.size(0))
    ce = torch.nn.functional.cross_entropy
    return 0.5 * (ce(sim / tau, target) + ce(sim.t() / tau, target))


# %% ista_step_21
"""The dictionary A occurs twice in the step (in the residual z A^T - b and in the back-projection r A); the gradient of A has only the back-projection term, the term through the residual is missing."""
WRONG = ["grad_a = -eta * (r.t() @ gu)"]
RIGHT = ["grad_a = -eta * (r.t() @ gu + gua.t() @ z)"]
NAME = "ISTAStep"
# --- code
import torch


class ISTAStep(torch.autograd.Function):
    """One unrolled proximal gradient step: soft(z - eta * (z A^T - b) A, theta)."""

    @staticmethod
    def forward(ctx, z, a, b, theta, eta):
        r = z @ a.t() - b
        u = z - eta * (r @ a)
        out = torch.sign(u) * torch.relu(u.abs() - theta)
        ctx.save_for_backward(z, a, r, out)
        ctx.eta = eta
        return out

    @staticmethod
    def backward(ctx, grad_out):
        z, a, r, out = ctx.saved_tensors
        eta = ctx.eta
        gu = grad_out * (out != 0)
        gua = gu @ a.t()
        grad_z = gu - eta * (gua @ a)
        grad_a = -eta * (r.t() @ gu)
        grad_b = eta * gua
        grad_theta = -(grad_out * torch.sign(out)).sum()
        return grad_z, grad_a, grad_b, grad_theta, None


def inputs():
    torch.manual_seed(0)
    z = torch.randn(3, 5, dtype=torch.float64)
    a = torch.randn(4, 5, dtype=torch.float64)
    b = torch.randn(3, 4, dtype=torch.float64)
    theta = torch.tensor(0.15, dtype=torch.float64)
    return (z, a, b, theta, 0.2)


# %% hard_concrete_22
"""The clip acts on the stretched variable s*(zeta-gamma)+gamma, but the mask in backward tests s itself, which is always in (0,1), so gates clipped to 0 or 1 still pass gradient to log_alpha."""
WRONG = ["is_open = ((s > 0) & (s < 1)).to(s.dtype)"]
RIGHT = ["is_open = ((z > 0) & (z < 1)).to(s.dtype)"]
NAME = "HardConcretePrune"
# --- code
import math
import torch

GAMMA, ZETA = -0.1, 1.1


class HardConcretePrune(torch.autograd.Function):
    """L0 pruning of input channels: gated weight and the expected number of open gates."""

    @staticmethod
    def forward(ctx, weight, log_alpha, beta, seed):
        gen = torch.Generator(device=weight.device).manual_seed(seed)
        u = torch.rand(log_alpha.shape, generator=gen, dtype=weight.dtype, device=weight.device)
        s = torch.sigmoid((torch.logit(u) + log_alpha) / beta)
        z = (s * (ZETA - GAMMA) + GAMMA).clamp(0.0, 1.0)
        p_open = torch.sigmoid(log_alpha - beta * math.log(-GAMMA / ZETA))
        ctx.save_for_backward(weight, s, z, p_open)
        ctx.beta = beta
        return weight * z, p_open.sum()

    @staticmethod
    def backward(ctx, grad_w, grad_l0):
        weight, s, z, p_open = ctx.saved_tensors
        grad_weight = grad_w * z
        grad_z = (grad_w * weight).sum(dim=0)
        is_open = ((s > 0) & (s < 1)).to(s.dtype)
        grad_s = grad_z * is_open * (ZETA - GAMMA)
        grad_alpha = grad_s * s * (1 - s) / ctx.beta
        grad_alpha = grad_alpha + grad_l0 * p_open * (1 - p_open)
        return grad_weight, grad_alpha, None, None


def inputs():
    torch.manual_seed(0)
    weight = torch.randn(3, 6, dtype=torch.float64)
    log_alpha = torch.tensor([-2.5, -1.0, 0.0, 0.5, 1.5, 3.0], dtype=torch.float64)
    return (weight, log_alpha, 0.66, 3)


# %% arcface_logits_23
"""The derivative of cos(acos(c) + m) by c is sin(theta + m) / sin(theta); the division by sin(theta), from the derivative of acos, is missing for the target class."""
WRONG = ["d_target = torch.sin(theta + ctx.margin)"]
RIGHT = ["d_target = torch.sin(theta + ctx.margin) / torch.sin(theta)"]
NAME = "ArcFaceLogits"
# --- code
import torch
import torch.nn.functional as F


def _unnormalize(g, unit, norm):
    return (g - unit * (g * unit).sum(dim=1, keepdim=True)) / norm


class ArcFaceLogits(torch.autograd.Function):
    """Additive angular margin logits between features and class centers."""

    @staticmethod
    def forward(ctx, feat, center, label, margin, scale):
        fn = feat.norm(dim=1, keepdim=True)
        cn = center.norm(dim=1, keepdim=True)
        f, c = feat / fn, center / cn
        cos = f @ c.t()
        row = torch.arange(feat.size(0), device=feat.device)
        theta = cos[row, label].acos()
        logits = cos.clone()
        logits[row, label] = torch.cos(theta + margin)
        ctx.save_for_backward(f, c, fn, cn, theta, label)
        ctx.margin, ctx.scale = margin, scale
        return logits * scale

    @staticmethod
    def backward(ctx, grad_out):
        f, c, fn, cn, theta, label = ctx.saved_tensors
        g_cos = grad_out * ctx.scale
        row = torch.arange(f.size(0), device=f.device)
        d_target = torch.sin(theta + ctx.margin)
        g_cos[row, label] = g_cos[row, label] * d_target
        grad_feat = _unnormalize(g_cos @ c, f, fn)
        grad_center = _unnormalize(g_cos.t() @ f, c, cn)
        return grad_feat, grad_center, None, None, None


def inputs():
    torch.manual_seed(0)
    feat = torch.randn(3, 4, dtype=torch.float64)
    center = torch.randn(5, 4, dtype=torch.float64)
    return (feat, center, torch.tensor([0, 3, 3]), 0.3, 8.0)


def reference(feat, center, label, margin, scale):
    cos = F.normalize(feat) @ F.normalize(center).t()
    hit = F.one_hot(label, center.size(0)).bool()
    return scale * torch.where(hit, torch.cos(cos.acos() + margin), cos)


# %% causal_dwconv_24
"""The input was padded by K-1 on the left, so the gradient of the padded input has to be cropped on the left ([K-1:]); the code keeps the first T samples and drops the last K-1, which shifts the gradient in time."""
WRONG = ["grad_x = F.conv_transpose1d(g, weight.unsqueeze(1), groups=c)[..., :t]"]
RIGHT = ["grad_x = F.conv_transpose1d(g, weight.unsqueeze(1), groups=c)[..., k - 1 :]"]
NAME = "CausalDepthwiseSiLU"
# --- code
import torch
import torch.nn.functional as F


class CausalDepthwiseSiLU(torch.autograd.Function):
    """Short causal depthwise convolution followed by SiLU, the pre-activation is recomputed."""

    @staticmethod
    def forward(x, weight, bias):
        k = weight.size(1)
        xp = F.pad(x, (k - 1, 0))
        return F.silu(F.conv1d(xp, weight.unsqueeze(1), bias, groups=x.size(1)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_out):
        x, weight, bias = ctx.saved_tensors
        c, k = weight.shape
        t = x.size(-1)
        xp = F.pad(x, (k - 1, 0))
        pre = F.conv1d(xp, weight.unsqueeze(1), bias, groups=c)
        sig = torch.sigmoid(pre)
        g = grad_out * sig * (1 + pre * (1 - sig))
        grad_x = F.conv_transpose1d(g, weight.unsqueeze(1), groups=c)[..., :t]
        windows = xp.unfold(-1, k, 1)
        grad_w = torch.einsum("bct,bctk->ck", g, windows)
        grad_bias = g.sum(dim=(0, 2))
        return grad_x, grad_w, grad_bias


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    weight = torch.randn(3, 4, dtype=torch.float64)
    bias = torch.randn(3, dtype=torch.float64)
    return (x, weight, bias)
