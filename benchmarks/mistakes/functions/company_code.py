"""Mistakes: held out, one company's code. Each cell is a separate module; see benchmarks/repairs.py."""

# %% group_rms_norm_1
"""The RMS is taken over one group of C/G channels, but the backward averages the projection term over all C channels (x.shape[-1]); the correction term comes out G times too small."""
WRONG = ["proj = (gxh * xhat).sum(-1, keepdim=True) / x.shape[-1]"]
RIGHT = ["proj = (gxh * xhat).sum(-1, keepdim=True) / xhat.shape[-1]"]
NAME = "GroupRMSNorm"
# --- code
import torch


class GroupRMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, groups, eps):
        xg = x.unflatten(-1, (groups, -1))
        rstd = torch.rsqrt(xg.pow(2).mean(-1, keepdim=True) + eps)
        y = (xg * rstd).flatten(-2) * weight
        return y, rstd

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, groups, eps = inputs
        _, rstd = output
        ctx.groups = groups
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(x, weight, rstd)

    @staticmethod
    def backward(ctx, gy, _grstd):
        x, weight, rstd = ctx.saved_tensors
        split = (ctx.groups, -1)
        xhat = x.unflatten(-1, split) * rstd
        gw = (gy * xhat.flatten(-2)).sum(0)
        gxh = (gy * weight).unflatten(-1, split)
        proj = (gxh * xhat).sum(-1, keepdim=True) / x.shape[-1]
        gx = rstd * (gxh - xhat * proj)
        return gx.flatten(-2), gw, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    w = torch.rand(6, dtype=torch.float64).add(0.5).requires_grad_()
    return (x, w, 2, 1e-5)


# %% gqa_attention_2
"""k and v are expanded with repeat_interleave (query head h uses kv head h // rep), but the backward folds the heads as if they had been tiled (h % Hk), so the gradients of k and v are summed over the wrong query heads."""
WRONG = ["return t.view(B, rep, Hk, *t.shape[2:]).sum(1)"]
RIGHT = ["return t.view(B, Hk, rep, *t.shape[2:]).sum(2)"]
NAME = "GroupedQueryAttention"
# --- code
import math
import torch


def _fold(t, Hk):
    B, H = t.shape[:2]
    rep = H // Hk
    return t.view(B, rep, Hk, *t.shape[2:]).sum(1)


class GroupedQueryAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        rep = q.shape[1] // k.shape[1]
        kk = k.repeat_interleave(rep, dim=1)
        vv = v.repeat_interleave(rep, dim=1)
        scale = 1.0 / math.sqrt(q.shape[-1])
        s = torch.einsum("bhqd,bhkd->bhqk", q, kk) * scale
        if causal:
            T = q.shape[2]
            s = s.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))
        p = s.softmax(-1)
        ctx.scale, ctx.rep = scale, rep
        ctx.save_for_backward(q, k, v, p)
        return p @ vv

    @staticmethod
    def backward(ctx, go):
        q, k, v, p = ctx.saved_tensors
        kk = k.repeat_interleave(ctx.rep, dim=1)
        vv = v.repeat_interleave(ctx.rep, dim=1)
        gv = p.transpose(-1, -2) @ go
        gp = go @ vv.transpose(-1, -2)
        gs = p * (gp - (gp * p).sum(-1, keepdim=True)) * ctx.scale
        gq = gs @ kk
        gk = gs.transpose(-1, -2) @ q
        return gq, _fold(gk, k.shape[1]), _fold(gv, k.shape[1]), None


def inputs():
    torch.manual_seed(0)
    q = torch.randn(1, 4, 3, 2, dtype=torch.float64, requires_grad=True)
    k = torch.randn(1, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    v = torch.randn(1, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    return (q, k, v, True)


def reference(q, k, v, causal):
    rep = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(rep, 1)
    v = v.repeat_interleave(rep, 1)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


# %% weight_standardize_3
"""The forward uses the unbiased variance (divides by n - 1), but the backward takes the plain mean (divides by n) in the variance term, which is only right for the biased variance."""
WRONG = ["gvar = (gh * what).mean(DIMS, keepdim=True)"]
RIGHT = ["gvar = (gh * what).sum(DIMS, keepdim=True) / (what[0].numel() - 1)"]
NAME = "StandardizeWeight"
# --- code
import torch

DIMS = (1, 2, 3)


class StandardizeWeight(torch.autograd.Function):
    """Scaled weight standardization for conv kernels (O, I, kh, kw)."""

    @staticmethod
    def forward(ctx, w, gain, eps=1e-6):
        mean = w.mean(DIMS, keepdim=True)
        var = w.var(DIMS, keepdim=True)
        rstd = (var + eps).rsqrt()
        what = (w - mean) * rstd
        ctx.save_for_backward(what, rstd, gain)
        return what * gain.view(-1, 1, 1, 1)

    @staticmethod
    def backward(ctx, g):
        what, rstd, gain = ctx.saved_tensors
        ggain = None
        if ctx.needs_input_grad[1]:
            ggain = (g * what).sum(DIMS)
        gh = g * gain.view(-1, 1, 1, 1)
        gmean = gh.mean(DIMS, keepdim=True)
        gvar = (gh * what).mean(DIMS, keepdim=True)
        gw = rstd * (gh - gmean - what * gvar)
        return gw, ggain, None


def inputs():
    torch.manual_seed(0)
    w = torch.randn(3, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    gain = torch.rand(3, dtype=torch.float64).add(0.5).requires_grad_()
    return (w, gain)


def reference(w, gain, eps=1e-6):
    var, mean = torch.var_mean(w, DIMS, keepdim=True)
    return (w - mean) / torch.sqrt(var + eps) * gain.view(-1, 1, 1, 1)


# %% weighted_ce_4
"""The class weight of the target, weight[target], scales a whole row of p - onehot; the backward multiplies by the weight vector itself, which broadcasts over the class columns, so every column gets its own class weight."""
WRONG = ["gx = (p - onehot) * weight / denom"]
RIGHT = ["gx = (p - onehot) * weight[tgt].unsqueeze(-1) / denom"]
NAME = "WeightedCrossEntropy"
# --- code
import torch
import torch.nn.functional as F


class WeightedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, weight, ignore_index):
        valid = target != ignore_index
        tgt = target.masked_fill(~valid, 0)
        logp = F.log_softmax(logits, dim=-1)
        w = weight[tgt] * valid
        denom = w.sum()
        nll = -logp.gather(-1, tgt[:, None]).squeeze(-1)
        ctx.save_for_backward(logp, tgt, valid, weight, denom)
        return (w * nll).sum() / denom

    @staticmethod
    def backward(ctx, g):
        logp, tgt, valid, weight, denom = ctx.saved_tensors
        p = logp.exp()
        onehot = torch.zeros_like(p).scatter_(-1, tgt[:, None], 1.0)
        gx = (p - onehot) * weight / denom
        gx = gx.masked_fill(~valid[:, None], 0.0)
        return g * gx, None, None, None


def inputs():
    torch.manual_seed(0)
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, 3, -100, 1, 2, 3])
    weight = torch.tensor([0.2, 1.0, 2.0, 0.7], dtype=torch.float64)
    return (logits, target, weight, -100)


def reference(logits, target, weight, ignore_index):
    return F.cross_entropy(logits, target, weight=weight, ignore_index=ignore_index)


# %% focal_bce_5
"""Two mistakes: the backward treats the focal factor (1 - pt)**gamma as a constant and so misses the term gamma * (1 - pt)**gamma * pt * log(pt); and it divides by the number of all elements where the forward divides by the number of valid ones."""
WRONG = ["dz = -sign * (1 - pt) ** (gamma + 1)", "return g * dz * valid / valid.numel(), None, None, None"]
RIGHT = ["dz = sign * (gamma * (1 - pt) ** gamma * pt * pt.log() - (1 - pt) ** (gamma + 1))", "return g * dz * valid / valid.sum(), None, None, None"]
NAME = "MaskedFocalLoss"
# --- code
import torch


class MaskedFocalLoss(torch.autograd.Function):
    @staticmethod
    def forward(logits, target, valid, gamma):
        sign = 2 * target - 1
        z = sign * logits
        logpt = torch.nn.functional.logsigmoid(z)
        pt = logpt.exp()
        loss = -((1 - pt) ** gamma) * logpt
        return (loss * valid).sum() / valid.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, target, valid, gamma = inputs
        ctx.gamma = gamma
        ctx.save_for_backward(logits, target, valid)

    @staticmethod
    def backward(ctx, g):
        logits, target, valid = ctx.saved_tensors
        gamma = ctx.gamma
        sign = 2 * target - 1
        pt = torch.sigmoid(sign * logits)
        dz = -sign * (1 - pt) ** (gamma + 1)
        return g * dz * valid / valid.numel(), None, None, None


def inputs():
    torch.manual_seed(0)
    logits = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    target = (torch.rand(3, 4) > 0.5).double()
    valid = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], dtype=torch.float64)
    return (logits, target, valid, 2.0)


# %% masked_info_nce_6
"""The parameter is log_scale and the forward uses exp(log_scale); the backward returns the gradient with respect to the scale itself, without the factor scale of the exp."""
WRONG = ["gls = (dlog * sim).sum()"]
RIGHT = ["gls = (dlog * sim).sum() * scale"]
NAME = "ClipLoss"
# --- code
import torch
import torch.nn.functional as F


class ClipLoss(torch.autograd.Function):
    """Symmetric contrastive loss; `drop` marks false negatives to be left out."""

    @staticmethod
    def forward(ctx, img, txt, log_scale, drop):
        sim = img @ txt.t()
        scale = log_scale.exp()
        logits = (scale * sim).masked_fill(drop, float("-inf"))
        tgt = torch.arange(img.shape[0], device=img.device)
        loss = 0.5 * (F.cross_entropy(logits, tgt) + F.cross_entropy(logits.t(), tgt))
        ctx.save_for_backward(img, txt, sim, scale, drop)
        return loss

    @staticmethod
    def backward(ctx, g):
        img, txt, sim, scale, drop = ctx.saved_tensors
        n = img.shape[0]
        logits = (scale * sim).masked_fill(drop, float("-inf"))
        eye = torch.eye(n, dtype=img.dtype, device=img.device)
        dlog = logits.softmax(1) + logits.softmax(0) - 2 * eye
        dlog = dlog * (g / (2 * n))
        gls = (dlog * sim).sum()
        dsim = dlog * scale
        return dsim @ txt, dsim.t() @ img, gls, None


def inputs():
    torch.manual_seed(0)
    img = F.normalize(torch.randn(4, 3, dtype=torch.float64), dim=-1).requires_grad_()
    txt = F.normalize(torch.randn(4, 3, dtype=torch.float64), dim=-1).requires_grad_()
    log_scale = torch.tensor(1.2, dtype=torch.float64, requires_grad=True)
    drop = torch.zeros(4, 4, dtype=torch.bool)
    drop[0, 2] = drop[3, 1] = True
    return (img, txt, log_scale, drop)


# %% group_dequant_7
"""The gradient of the scale is the sum of g * (codes - zero), but the backward multiplies by the raw codes and forgets the zero point."""
WRONG = ["gscale = (gg * q).sum(-1)"]
RIGHT = ["gscale = (gg * (q - zero.unsqueeze(-1))).sum(-1)"]
NAME = "GroupDequantLinear"
# --- code
import torch


class GroupDequantLinear(torch.autograd.Function):
    """x @ W.T with W stored as int codes, one (scale, zero) for each group of input columns."""

    @staticmethod
    def forward(ctx, x, codes, scale, zero, group):
        q = codes.to(x.dtype).unflatten(1, (-1, group))
        w = (scale.unsqueeze(-1) * (q - zero.unsqueeze(-1))).flatten(1)
        ctx.save_for_backward(x, codes, scale, zero)
        ctx.group = group
        return x @ w.t()

    @staticmethod
    def backward(ctx, g):
        x, codes, scale, zero = ctx.saved_tensors
        q = codes.to(x.dtype).unflatten(1, (-1, ctx.group))
        gx = gscale = gzero = None
        if ctx.needs_input_grad[0]:
            w = (scale.unsqueeze(-1) * (q - zero.unsqueeze(-1))).flatten(1)
            gx = g @ w
        gg = (g.t() @ x).unflatten(1, (-1, ctx.group))
        if ctx.needs_input_grad[2]:
            gscale = (gg * q).sum(-1)
        if ctx.needs_input_grad[3]:
            gzero = -scale * gg.sum(-1)
        return gx, None, gscale, gzero, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    codes = torch.randint(0, 16, (3, 6), dtype=torch.uint8)
    scale = torch.rand(3, 2, dtype=torch.float64).add(0.1).requires_grad_()
    zero = (torch.rand(3, 2, dtype=torch.float64) * 4 + 6).requires_grad_()
    return (x, codes, scale, zero, 3)


# %% soft_threshold_prune_8
"""The backward changes the incoming gradient in place (mul_ on g). Autograd hands the same tensor to other consumers, so with z = SoftPrune(w, t) + w followed by a weighted sum, the skip branch gets a masked gradient; gradcheck of the Function alone passes."""
WRONG = ["g.mul_(keep)"]
RIGHT = ["g = g * keep"]
NAME = "SoftPrune"
# --- code
import torch


class SoftPrune(torch.autograd.Function):
    """Soft-threshold pruning with one learnable threshold per output row."""

    @staticmethod
    def forward(ctx, w, thr):
        t = thr.unsqueeze(1)
        mag = w.abs() - t
        keep = mag > 0
        ctx.save_for_backward(w.sign().to(torch.int8), keep)
        return torch.where(keep, w.sign() * mag, torch.zeros_like(w))

    @staticmethod
    def backward(ctx, g):
        sgn, keep = ctx.saved_tensors
        g.mul_(keep)
        gthr = None
        if ctx.needs_input_grad[1]:
            gthr = -(g * sgn).sum(1)
        return g, gthr


def inputs():
    torch.manual_seed(0)
    w = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    thr = torch.tensor([0.3, 0.5, 0.8], dtype=torch.float64, requires_grad=True)
    return (w, thr)


def reference(w, thr):
    return w.sign() * torch.relu(w.abs() - thr.unsqueeze(1))


# %% hard_concrete_9
"""The clamp to [0, 1] acts on the stretched value s * (hi - lo) + lo, but the backward tests the unstretched sigmoid s, which is always inside (0, 1); saturated gates still get a gradient."""
WRONG = ["inside = (s > 0) & (s < 1)"]
RIGHT = ["inside = (s * (hi - lo) + lo > 0) & (s * (hi - lo) + lo < 1)"]
NAME = "HardConcreteGate"
# --- code
import torch


class HardConcreteGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, log_alpha, u, beta, lo, hi):
        noise = u.log() - torch.log1p(-u)
        s = torch.sigmoid((noise + log_alpha) / beta)
        ctx.save_for_backward(s)
        ctx.cfg = (beta, lo, hi)
        return (s * (hi - lo) + lo).clamp(0.0, 1.0)

    @staticmethod
    def backward(ctx, g):
        (s,) = ctx.saved_tensors
        beta, lo, hi = ctx.cfg
        inside = (s > 0) & (s < 1)
        ds = s * (1 - s) / beta
        gla = g * inside * ds * (hi - lo)
        while gla.dim() > 1:
            gla = gla.sum(0)
        return gla, None, None, None, None


def inputs():
    torch.manual_seed(0)
    log_alpha = torch.tensor([-3.0, -0.5, 0.0, 0.8, 4.0], dtype=torch.float64, requires_grad=True)
    u = torch.rand(3, 5, dtype=torch.float64) * 0.8 + 0.1
    return (log_alpha, u, 2.0 / 3.0, -0.1, 1.1)


# %% graph_mean_agg_10
"""The mean divides by the in-degree of the receiving node, so the gradient of an edge must be divided by deg[dst]; the backward divides by the degree of the sending node. The two agree only if all degrees are equal."""
WRONG = ["ge = g[dst] / deg[src].unsqueeze(-1)"]
RIGHT = ["ge = g[dst] / deg[dst].unsqueeze(-1)"]
NAME = "MeanAggregate"
# --- code
import torch


class MeanAggregate(torch.autograd.Function):
    """out[i] = mean over edges (j -> i) of x[j]; isolated nodes get zero."""

    @staticmethod
    def forward(ctx, x, edge_index):
        src, dst = edge_index
        deg = torch.zeros(x.shape[0], dtype=x.dtype, device=x.device)
        deg.index_add_(0, dst, torch.ones_like(dst, dtype=x.dtype))
        deg.clamp_(min=1)
        out = torch.zeros_like(x).index_add_(0, dst, x[src])
        ctx.save_for_backward(edge_index, deg)
        return out / deg.unsqueeze(-1)

    @staticmethod
    def backward(ctx, g):
        edge_index, deg = ctx.saved_tensors
        src, dst = edge_index
        ge = g[dst] / deg[src].unsqueeze(-1)
        gx = torch.zeros_like(g).index_add_(0, src, ge)
        return gx, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    edge_index = torch.tensor([[0, 1, 2, 3, 0, 4, 2], [1, 0, 1, 1, 3, 3, 4]])
    return (x, edge_index)


# %% chamfer_11
"""Several points of b can have the same nearest point in a; indexed in-place subtraction writes only one of the repeated contributions instead of summing them (index_add_ is needed)."""
WRONG = ["ga[idx_ba] -= db"]
RIGHT = ["ga.index_add_(0, idx_ba, db, alpha=-1)"]
NAME = "ChamferDistance"
# --- code
import torch


class ChamferDistance(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        d2 = (a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(-1)
        min_ab, idx_ab = d2.min(dim=1)
        min_ba, idx_ba = d2.min(dim=0)
        ctx.save_for_backward(a, b, idx_ab, idx_ba)
        return min_ab.mean() + min_ba.mean()

    @staticmethod
    def backward(ctx, g):
        a, b, idx_ab, idx_ba = ctx.saved_tensors
        da = 2 * g / a.shape[0] * (a - b[idx_ab])
        db = 2 * g / b.shape[0] * (b - a[idx_ba])
        ga = da.clone()
        gb = db.clone()
        gb.index_add_(0, idx_ab, da, alpha=-1)
        ga[idx_ba] -= db
        return ga, gb


def inputs():
    torch.manual_seed(0)
    a = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    b = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    return (a, b)


def reference(a, b):
    d2 = (a[:, None] - b[None]).pow(2).sum(-1)
    return d2.min(1).values.mean() + d2.min(0).values.mean()


# %% drop_edge_12
"""To save memory the dropout mask is drawn again in the backward, but from the generator that the forward already advanced; without resetting it to the seed the backward uses a different mask."""
WRONG = ["keep = _edge_mask(src.numel(), ctx.p, ctx.gen)"]
RIGHT = ["keep = _edge_mask(src.numel(), ctx.p, ctx.gen.manual_seed(ctx.seed))"]
NAME = "DropEdgeConv"
# --- code
import torch


def _edge_mask(n, p, gen):
    return torch.rand(n, generator=gen) >= p


class DropEdgeConv(torch.autograd.Function):
    """Weighted neighbour sum with edge dropout; the mask is not kept, only its seed."""

    @staticmethod
    def forward(ctx, x, ew, src, dst, p, seed):
        gen = torch.Generator().manual_seed(seed)
        w = ew * _edge_mask(src.numel(), p, gen) / (1 - p)
        ctx.gen, ctx.seed, ctx.p = gen, seed, p
        ctx.save_for_backward(x, ew, src, dst)
        return torch.zeros_like(x).index_add_(0, dst, w[:, None] * x[src])

    @staticmethod
    def backward(ctx, g):
        x, ew, src, dst = ctx.saved_tensors
        keep = _edge_mask(src.numel(), ctx.p, ctx.gen)
        m = keep / (1 - ctx.p)
        ge = g[dst]
        gx = torch.zeros_like(x).index_add_(0, src, (ew * m)[:, None] * ge)
        gew = (x[src] * ge).sum(-1) * m
        return gx, gew, None, None, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    ew = torch.rand(9, dtype=torch.float64).add(0.2).requires_grad_()
    src = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 1])
    dst = torch.tensor([1, 2, 3, 0, 2, 3, 0, 1, 0])
    return (x, ew, src, dst, 0.4, 7)


# %% preemphasis_13
"""The first sample has no predecessor, so the forward reflects and uses x[1]; the backward lacks this edge contribution, -coef * g[0] to x[1]."""
WRONG = ["gx[:, :-1] -= coef * g[:, 1:]"]
RIGHT = ["gx[:, :-1] -= coef * g[:, 1:]\ngx[:, 1] -= coef * g[:, 0]"]
NAME = "PreEmphasis"
# --- code
import torch


class PreEmphasis(torch.autograd.Function):
    @staticmethod
    def forward(ctx, wave, coef):
        prev = torch.cat([wave[:, 1:2], wave[:, :-1]], dim=1)
        ctx.save_for_backward(prev, coef)
        return torch.addcmul(wave, coef, prev, value=-1)

    @staticmethod
    def backward(ctx, g):
        prev, coef = ctx.saved_tensors
        gx = gcoef = None
        if ctx.needs_input_grad[0]:
            gx = g.clone()
            gx[:, :-1] -= coef * g[:, 1:]
        if ctx.needs_input_grad[1]:
            gcoef = -(g * prev).sum()
        return gx, gcoef


def inputs():
    torch.manual_seed(0)
    wave = torch.randn(2, 8, dtype=torch.float64, requires_grad=True)
    coef = torch.tensor(0.97, dtype=torch.float64, requires_grad=True)
    return (wave, coef)


def reference(wave, coef):
    pad = torch.nn.functional.pad(wave.unsqueeze(0), (1, 0), mode="reflect").squeeze(0)
    return pad[:, 1:] - coef * pad[:, :-1]


# %% power_spectrum_14
"""irfft counts every bin twice except DC and, for even n, Nyquist. The backward halves all bins but DC, so for even n the Nyquist bin gets only half its gradient."""
WRONG = ["z[..., 1:] *= 0.5"]
RIGHT = ["z[..., 1:(n + 1) // 2] *= 0.5"]
NAME = "PowerSpectrum"
# --- code
import torch


class PowerSpectrum(torch.autograd.Function):
    """Windowed one-sided power spectrum of frames (..., n)."""

    @staticmethod
    def forward(frames, window, norm):
        spec = torch.fft.rfft(frames * window)
        return norm * (spec.real.square() + spec.imag.square())

    @staticmethod
    def setup_context(ctx, inputs, output):
        frames, window, norm = inputs
        ctx.norm = norm
        ctx.save_for_backward(frames, window)

    @staticmethod
    def backward(ctx, g):
        frames, window = ctx.saved_tensors
        n = frames.shape[-1]
        z = 2 * ctx.norm * g * torch.fft.rfft(frames * window)
        z[..., 1:] *= 0.5
        gw = torch.fft.irfft(z, n=n, norm="forward")
        return gw * window, None, None


def inputs():
    torch.manual_seed(0)
    frames = torch.randn(2, 8, dtype=torch.float64, requires_grad=True)
    window = torch.hann_window(8, periodic=False, dtype=torch.float64) + 0.08
    return (frames, window, 1.0 / 8)


# %% log_mel_15
"""To save memory the mel energies are kept in bfloat16; the backward divides by this rounded value, so the gradients have only about 2 to 3 digits, whatever the dtype of the input."""
WRONG = ["ctx.save_for_backward(mel.to(torch.bfloat16), fbank, power)"]
RIGHT = ["ctx.save_for_backward(mel, fbank, power)"]
NAME = "LogMel"
# --- code
import torch


class LogMel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, power, fbank, floor):
        mel = torch.einsum("bft,fm->bmt", power, fbank)
        ctx.floor = floor
        ctx.save_for_backward(mel.to(torch.bfloat16), fbank, power)
        return (mel + floor).log()

    @staticmethod
    def backward(ctx, g):
        mel, fbank, power = ctx.saved_tensors
        gm = g / (mel.to(g.dtype) + ctx.floor)
        gp = gf = None
        if ctx.needs_input_grad[0]:
            gp = torch.einsum("bmt,fm->bft", gm, fbank)
        if ctx.needs_input_grad[1]:
            gf = torch.einsum("bft,bmt->fm", power, gm)
        return gp, gf, None


def inputs():
    torch.manual_seed(0)
    power = torch.rand(1, 5, 3, dtype=torch.float64).add(0.05).requires_grad_()
    fbank = torch.rand(5, 2, dtype=torch.float64).add(0.05).requires_grad_()
    return (power, fbank, 1e-3)


# %% quat_rotate_16
"""The forward normalizes the quaternion; the backward only divides by the norm and leaves out the projection onto the tangent space, gn - n (n . gn)."""
WRONG = ["gq = gn / norm"]
RIGHT = ["gq = (gn - n * (n * gn).sum(-1, keepdim=True)) / norm"]
NAME = "QuatRotate"
# --- code
import torch


class QuatRotate(torch.autograd.Function):
    """Rotate points v (B, 3) by quaternions q (B, 4), w first, any length."""

    @staticmethod
    def forward(ctx, q, v):
        norm = q.norm(dim=-1, keepdim=True)
        n = q / norm
        w, u = n[:, :1], n[:, 1:]
        t = 2 * torch.linalg.cross(u, v)
        ctx.save_for_backward(n, norm, v)
        return v + w * t + torch.linalg.cross(u, t)

    @staticmethod
    def backward(ctx, g):
        n, norm, v = ctx.saved_tensors
        w, u = n[:, :1], n[:, 1:]
        cross = torch.linalg.cross
        dot = lambda a, b: (a * b).sum(-1, keepdim=True)
        tg = 2 * cross(u, g)
        gv = g - w * tg + cross(u, tg)
        gw = 2 * dot(g, cross(u, v))
        gu = 2 * (w * cross(v, g) + dot(u, v) * g + dot(u, g) * v - 2 * dot(v, g) * u)
        gn = torch.cat([gw, gu], dim=-1)
        gq = gn / norm
        return gq, gv


def inputs():
    torch.manual_seed(0)
    q = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    v = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    return (q, v)


# %% planar_chain_17
"""A joint moves all links after it, so the adjoint of cumsum over the angles is a reversed cumsum; the backward uses the forward cumsum for the joint angles."""
WRONG = ["gtheta = gang.cumsum(-1)"]
RIGHT = ["gtheta = _rcumsum(gang)"]
NAME = "PlanarChainFK"
# --- code
import torch


def _rcumsum(t):
    return t.flip(-1).cumsum(-1).flip(-1)


class PlanarChainFK(torch.autograd.Function):
    """Joint positions of an n-link planar arm: returns x (B, n) and y (B, n)."""

    @staticmethod
    def forward(ctx, theta, length):
        ang = theta.cumsum(-1)
        c, s = ang.cos(), ang.sin()
        ctx.save_for_backward(c, s, length)
        return (length * c).cumsum(-1), (length * s).cumsum(-1)

    @staticmethod
    def backward(ctx, gx, gy):
        c, s, length = ctx.saved_tensors
        gx = _rcumsum(gx)
        gy = _rcumsum(gy)
        glen = (gx * c + gy * s).sum(0)
        gang = length * (gy * c - gx * s)
        gtheta = gang.cumsum(-1)
        return gtheta, glen


def inputs():
    torch.manual_seed(0)
    theta = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    length = torch.rand(4, dtype=torch.float64).add(0.5).requires_grad_()
    return (theta, length)


# %% bond_energy_18
"""The first derivative is right; the custom double backward keeps only the stiffness along the bond and leaves out the transverse (geometric) term (1 - r0/r) (I - d d^T / r^2), so the Hessian is right only for bonds at rest length. gradcheck passes, gradgradcheck fails."""
WRONG = ["hu = 2 * k * g * d * du / r**2"]
RIGHT = ["hu = 2 * k * g * ((1 - r0 / r) * u + r0 * d * du / r**3)"]
NAME = "BondEnergy"
# --- code
import torch


class _BondGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, g, x, i, j, k, r0):
        ctx.save_for_backward(g, x, i, j)
        ctx.k, ctx.r0 = k, r0
        d = x[i] - x[j]
        f = 2 * k * g * (1 - r0 / d.norm(dim=-1, keepdim=True)) * d
        return torch.zeros_like(x).index_add_(0, i, f).index_add_(0, j, -f)

    @staticmethod
    def backward(ctx, gg):
        g, x, i, j = ctx.saved_tensors
        k, r0 = ctx.k, ctx.r0
        d = x[i] - x[j]
        r = d.norm(dim=-1, keepdim=True)
        u = gg[i] - gg[j]
        du = (d * u).sum(-1, keepdim=True)
        gge = (2 * k * (1 - r0 / r) * du).sum()
        hu = 2 * k * g * d * du / r**2
        hx = torch.zeros_like(x).index_add_(0, i, hu).index_add_(0, j, -hu)
        return gge, hx, None, None, None, None


class BondEnergy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, i, j, k, r0):
        ctx.save_for_backward(x, i, j)
        ctx.k, ctx.r0 = k, r0
        return (k * ((x[i] - x[j]).norm(dim=-1) - r0) ** 2).sum()

    @staticmethod
    def backward(ctx, g):
        x, i, j = ctx.saved_tensors
        return _BondGrad.apply(g, x, i, j, ctx.k, ctx.r0), None, None, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    i = torch.tensor([0, 1, 2, 0])
    j = torch.tensor([1, 2, 3, 3])
    return (x, i, j, 1.5, 0.8)


def reference(x, i, j, k, r0):
    return (k * ((x[i] - x[j]).norm(dim=-1) - r0) ** 2).sum()


# %% vae_sample_kl_19
"""set_materialize_grads(False) makes the gradient of an unused output None, but the backward does arithmetic with gz and gkl without testing for None; it raises as soon as only z or only kl reaches the loss."""
WRONG = ["ctx.set_materialize_grads(False)"]
RIGHT = ["ctx.set_materialize_grads(True)"]
NAME = "SampleWithKL"
# --- code
import torch


class SampleWithKL(torch.autograd.Function):
    """z = mu + sigma * noise together with KL(q || N(0, 1)) per row."""

    @staticmethod
    def forward(mu, logvar, noise):
        std = torch.exp(0.5 * logvar)
        kl = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum(-1)
        return mu + std * noise, kl

    @staticmethod
    def setup_context(ctx, inputs, output):
        mu, logvar, noise = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(mu, logvar, noise)

    @staticmethod
    def backward(ctx, gz, gkl):
        mu, logvar, noise = ctx.saved_tensors
        gkl = gkl.unsqueeze(-1)
        gmu = gz + gkl * mu
        glv = 0.5 * gz * noise * torch.exp(0.5 * logvar)
        glv = glv + 0.5 * gkl * (logvar.exp() - 1)
        return gmu, glv, None


def inputs():
    torch.manual_seed(0)
    mu = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    logvar = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    noise = torch.randn(3, 4, dtype=torch.float64)
    return (mu, logvar, noise)


# %% gmm_loglik_20
"""needs_input_grad counts all arguments, the float sigma too; index 1 is sigma and always False, so the gradient of mu is never computed and comes back as None."""
WRONG = ["if ctx.needs_input_grad[1]:"]
RIGHT = ["if ctx.needs_input_grad[2]:"]
NAME = "MixtureLogLik"
# --- code
import math
import torch


class MixtureLogLik(torch.autograd.Function):
    """Log-likelihood (N,) of x (N, D) under an isotropic mixture with means mu (K, D)."""

    @staticmethod
    def forward(ctx, x, sigma, mu, logits):
        D = x.shape[-1]
        diff = x[:, None, :] - mu
        logn = -0.5 * diff.pow(2).sum(-1) / sigma**2 - D * math.log(sigma * math.sqrt(2 * math.pi))
        joint = logn + torch.log_softmax(logits, 0)
        ll = torch.logsumexp(joint, dim=1)
        ctx.sigma = sigma
        ctx.save_for_backward(diff, (joint - ll[:, None]).exp(), logits.softmax(0))
        return ll

    @staticmethod
    def backward(ctx, g):
        diff, resp, pi = ctx.saved_tensors
        gx = gmu = glogits = None
        r = g[:, None] * resp
        rd = r[:, :, None] * diff / ctx.sigma**2
        if ctx.needs_input_grad[0]:
            gx = -rd.sum(1)
        if ctx.needs_input_grad[1]:
            gmu = rd.sum(0)
        if ctx.needs_input_grad[3]:
            glogits = (r - g[:, None] * pi).sum(0)
        return gx, None, gmu, glogits


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    mu = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    logits = torch.randn(3, dtype=torch.float64, requires_grad=True)
    return (x, 0.7, mu, logits)


# %% mvn_cholesky_21
"""solve_triangular reads only the lower triangle of L, so entries above the diagonal have zero gradient; the backward returns the full outer product without tril and fills the upper triangle."""
WRONG = ["gL = a.t() @ (g[:, None] * z)"]
RIGHT = ["gL = (a.t() @ (g[:, None] * z)).tril()"]
NAME = "MvnLogProb"
# --- code
import math
import torch


class MvnLogProb(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, loc, L):
        D = x.shape[-1]
        z = torch.linalg.solve_triangular(L, (x - loc).t(), upper=False).t()
        logdet = L.diagonal().log().sum()
        ctx.save_for_backward(z, L)
        return -0.5 * z.pow(2).sum(-1) - logdet - 0.5 * D * math.log(2 * math.pi)

    @staticmethod
    def backward(ctx, g):
        z, L = ctx.saved_tensors
        a = torch.linalg.solve_triangular(L.t(), z.t(), upper=True).t()
        gx = -g[:, None] * a
        gL = a.t() @ (g[:, None] * z)
        gL.diagonal().sub_(g.sum() / L.diagonal())
        return gx, -gx.sum(0), gL


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    loc = torch.randn(3, dtype=torch.float64, requires_grad=True)
    L = torch.randn(3, 3, dtype=torch.float64).tril(-1) + torch.diag(torch.tensor([1.0, 1.5, 0.8], dtype=torch.float64))
    return (x, loc, L.requires_grad_())


def reference(x, loc, L):
    L = L.tril()
    return torch.distributions.MultivariateNormal(loc, scale_tril=L, validate_args=False).log_prob(x)


# %% ridge_lu_solve_22
"""The adjoint system has the transposed matrix; the backward reuses the LU factors without adjoint=True and solves with A instead of A^T. It is right only for symmetric A."""
WRONG = ["lam = torch.linalg.lu_solve(LU, piv, g)"]
RIGHT = ["lam = torch.linalg.lu_solve(LU, piv, g, adjoint=True)"]
NAME = "ShiftedSolve"
# --- code
import torch


class ShiftedSolve(torch.autograd.Function):
    """Solve (A + shift * I) X = B, keeping the factorization for the backward pass."""

    @staticmethod
    def forward(ctx, A, B, shift):
        eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        LU, piv = torch.linalg.lu_factor(A + shift * eye)
        X = torch.linalg.lu_solve(LU, piv, B)
        ctx.save_for_backward(LU, piv, X)
        return X

    @staticmethod
    def backward(ctx, g):
        LU, piv, X = ctx.saved_tensors
        lam = torch.linalg.lu_solve(LU, piv, g)
        gA = gshift = None
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[2]:
            gA = -lam @ X.mT
            gshift = gA.diagonal(dim1=-2, dim2=-1).sum()
        return gA, lam, gshift


def inputs():
    torch.manual_seed(0)
    A = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    B = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    shift = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    return (A, B, shift)


# %% sqrtm_psd_23
"""The Sylvester equation of the matrix square root has the roots of the eigenvalues in its denominator, but the forward saves the eigenvalues themselves, so the backward divides by lam_i + lam_j instead of sqrt(lam_i) + sqrt(lam_j)."""
WRONG = ["ctx.save_for_backward(lam, U)"]
RIGHT = ["ctx.save_for_backward(lam.sqrt(), U)"]
NAME = "SqrtmPSD"
# --- code
import torch


class SqrtmPSD(torch.autograd.Function):
    """Symmetric square root; the input is symmetrized first."""

    @staticmethod
    def forward(ctx, A):
        lam, U = torch.linalg.eigh(0.5 * (A + A.mT))
        lam = lam.clamp(min=1e-12)
        ctx.save_for_backward(lam, U)
        return (U * lam.sqrt().unsqueeze(-2)) @ U.mT

    @staticmethod
    def backward(ctx, g):
        s, U = ctx.saved_tensors
        g = 0.5 * (g + g.mT)
        denom = s.unsqueeze(-1) + s.unsqueeze(-2)
        Y = (U.mT @ g @ U) / denom
        return U @ Y @ U.mT


def inputs():
    torch.manual_seed(0)
    M = torch.randn(2, 3, 3, dtype=torch.float64)
    A = M @ M.mT + 0.5 * torch.eye(3, dtype=torch.float64)
    return (A.requires_grad_(),)


# %% tridiag_solve_24
"""The gradient of the matrix is -lam x^T; the lower diagonal is entry (i+1, i) and needs lam[1:] * x[:-1], the upper one lam[:-1] * x[1:]. The backward returns the two exchanged."""
WRONG = ["return -lam[:-1] * x[1:], -lam * x, -lam[1:] * x[:-1], lam"]
RIGHT = ["return -lam[1:] * x[:-1], -lam * x, -lam[:-1] * x[1:], lam"]
NAME = "TridiagonalSolve"
# --- code
import torch


def _thomas(lower, diag, upper, rhs):
    n = diag.shape[0]
    c, d = [upper[0] / diag[0]], [rhs[0] / diag[0]]
    for i in range(1, n):
        m = diag[i] - lower[i - 1] * c[-1]
        if i < n - 1:
            c.append(upper[i] / m)
        d.append((rhs[i] - lower[i - 1] * d[-1]) / m)
    x = [d[-1]]
    for i in range(n - 2, -1, -1):
        x.append(d[i] - c[i] * x[-1])
    return torch.stack(x[::-1])


class TridiagonalSolve(torch.autograd.Function):
    @staticmethod
    def forward(lower, diag, upper, rhs):
        return _thomas(lower, diag, upper, rhs)

    @staticmethod
    def setup_context(ctx, inputs, output):
        lower, diag, upper, _ = inputs
        ctx.save_for_backward(lower, diag, upper, output)

    @staticmethod
    def backward(ctx, g):
        lower, diag, upper, x = ctx.saved_tensors
        lam = _thomas(upper, diag, lower, g)
        return -lam[:-1] * x[1:], -lam * x, -lam[1:] * x[:-1], lam


def inputs():
    torch.manual_seed(0)
    lower = torch.randn(4, dtype=torch.float64, requires_grad=True)
    diag = (torch.rand(5, dtype=torch.float64) + 4).requires_grad_()
    upper = torch.randn(4, dtype=torch.float64, requires_grad=True)
    rhs = torch.randn(5, dtype=torch.float64, requires_grad=True)
    return (lower, diag, upper, rhs)


def reference(lower, diag, upper, rhs):
    A = torch.diag(diag) + torch.diag(lower, -1) + torch.diag(upper, 1)
    return torch.linalg.solve(A, rhs)


# %% reversible_scan_25
"""To save memory the backward rebuilds the earlier states by running the recurrence backwards, h = (h - b) / a; where a gate is exactly zero (a reset) the state cannot be recovered and 0/0 gives NaN."""
WRONG = ["h = (h - b[:, t]) / a[:, t]"]
RIGHT = ["h = _run(a[:, :t], b[:, :t], h0)"]
NAME = "GatedScan"
# --- code
import torch


def _run(a, b, h):
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
    return h


class GatedScan(torch.autograd.Function):
    """Final state of h_t = a_t * h_{t-1} + b_t; the states in between are not stored."""

    @staticmethod
    def forward(ctx, a, b, h0):
        h = _run(a, b, h0)
        ctx.save_for_backward(a, b, h0, h)
        return h

    @staticmethod
    def backward(ctx, g):
        a, b, h0, h = ctx.saved_tensors
        ga = torch.empty_like(a)
        gb = torch.empty_like(b)
        for t in range(a.shape[1] - 1, -1, -1):
            h = (h - b[:, t]) / a[:, t]
            ga[:, t] = g * h
            gb[:, t] = g
            g = g * a[:, t]
        return ga, gb, g


def inputs():
    torch.manual_seed(0)
    a = torch.rand(2, 5, 2, dtype=torch.float64) * 0.8 + 0.1
    a[0, 2] = 0.0
    b = torch.randn(2, 5, 2, dtype=torch.float64, requires_grad=True)
    h0 = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    return (a.requires_grad_(), b, h0)


# %% crf_partition_26
"""Padded steps are masked in the gradient of the emissions but not in that of the transitions, so sequences shorter than T add transition counts for steps that the forward skipped."""
WRONG = ["gt += pair.sum(0)"]
RIGHT = ["gt += (pair * m[:, t, None, None]).sum(0)"]
NAME = "CrfLogPartition"
# --- code
import torch


class CrfLogPartition(torch.autograd.Function):
    """Linear-chain CRF log Z for emissions (B, T, K) with padding mask (B, T)."""

    @staticmethod
    def forward(ctx, emit, trans, m):
        alpha = emit[:, 0]
        alphas = [alpha]
        for t in range(1, emit.shape[1]):
            nxt = torch.logsumexp(alpha[:, :, None] + trans, 1) + emit[:, t]
            alpha = torch.where(m[:, t, None], nxt, alpha)
            alphas.append(alpha)
        logz = torch.logsumexp(alpha, -1)
        ctx.save_for_backward(emit, trans, m, torch.stack(alphas, 1), logz)
        return logz

    @staticmethod
    def backward(ctx, g):
        emit, trans, m, alphas, logz = ctx.saved_tensors
        ge, gt = torch.zeros_like(emit), torch.zeros_like(trans)
        beta = torch.zeros_like(emit[:, 0])
        for t in range(emit.shape[1] - 1, 0, -1):
            right = trans + (emit[:, t] + beta)[:, None, :]
            pair = (alphas[:, t - 1, :, None] + right - logz[:, None, None]).exp()
            pair = pair * g[:, None, None]
            ge[:, t] = pair.sum(1) * m[:, t, None]
            gt += pair.sum(0)
            beta = torch.where(m[:, t, None], torch.logsumexp(right, 2), beta)
        ge[:, 0] = (alphas[:, 0] + beta - logz[:, None]).exp() * g[:, None]
        return ge, gt, None


def inputs():
    torch.manual_seed(0)
    emit = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    trans = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    m = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], dtype=torch.bool)
    return (emit, trans, m)


# %% lstm_pointwise_27
"""gates[:, :3H] is a view of the caller's tensor, and sigmoid_ on it overwrites the input pre-activations in place (not declared with mark_dirty), so every later use of the input sees changed values."""
WRONG = ["sig = gates[:, : 3 * H].sigmoid_()"]
RIGHT = ["sig = gates[:, : 3 * H].sigmoid()"]
NAME = "LSTMPointwise"
# --- code
import torch


class LSTMPointwise(torch.autograd.Function):
    """Fused pointwise part of an LSTM cell; gates = [i | f | o | u], each H wide."""

    @staticmethod
    def forward(ctx, gates, c_prev):
        H = c_prev.shape[-1]
        sig = gates[:, : 3 * H].sigmoid_()
        i, f, o = sig.chunk(3, dim=-1)
        u = gates[:, 3 * H :].tanh()
        c = f * c_prev + i * u
        tc = c.tanh()
        ctx.save_for_backward(sig.clone(), u, tc, c_prev)
        return o * tc, c

    @staticmethod
    def backward(ctx, gh, gc):
        sig, u, tc, c_prev = ctx.saved_tensors
        i, f, o = sig.chunk(3, dim=-1)
        gc = gc + gh * o * (1 - tc * tc)
        dsig = torch.cat([gc * u, gc * c_prev, gh * tc], dim=-1)
        du = gc * i * (1 - u * u)
        return torch.cat([dsig * sig * (1 - sig), du], dim=-1), gc * f


def inputs():
    torch.manual_seed(0)
    gates = torch.randn(2, 12, dtype=torch.float64, requires_grad=True)
    c_prev = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    return (gates, c_prev)


# %% bag_mean_padding_28
"""The forward averages over the non-padding entries of a bag, but the backward counts all entries, padding included, so bags with padding get too small a gradient."""
WRONG = ["n = torch.bincount(bag, minlength=g.shape[0]).clamp(min=1)"]
RIGHT = ["n = torch.bincount(bag[keep], minlength=g.shape[0]).clamp(min=1)"]
NAME = "BagMean"
# --- code
import torch


class BagMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, idx, offsets, padding_idx):
        nbags = offsets.numel()
        pos = torch.arange(idx.numel(), device=idx.device)
        bag = torch.bucketize(pos, offsets, right=True) - 1
        keep = idx != padding_idx
        count = torch.bincount(bag[keep], minlength=nbags).clamp(min=1)
        out = table.new_zeros(nbags, table.shape[1])
        out.index_add_(0, bag[keep], table[idx[keep]])
        ctx.num_rows = table.shape[0]
        ctx.save_for_backward(idx, bag, keep)
        return out / count[:, None]

    @staticmethod
    def backward(ctx, g):
        idx, bag, keep = ctx.saved_tensors
        n = torch.bincount(bag, minlength=g.shape[0]).clamp(min=1)
        rows = (g / n[:, None])[bag[keep]]
        gt = g.new_zeros(ctx.num_rows, g.shape[1])
        gt.index_add_(0, idx[keep], rows)
        return gt, None, None, None


def inputs():
    torch.manual_seed(0)
    table = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    idx = torch.tensor([1, 2, 0, 0, 3, 5, 3, 0, 4])
    offsets = torch.tensor([0, 4, 7])
    return (table, idx, offsets, 0)


def reference(table, idx, offsets, padding_idx):
    return torch.nn.functional.embedding_bag(idx, table, offsets, mode="mean", padding_idx=padding_idx)


# %% csr_spmv_29
"""The row indices are cached on the class under the key (number of rows + 1, nnz) only; a second matrix of the same size and nnz but with another row structure gets the rows of the first, and its output and gradients are wrong. A single matrix works, gradcheck on one passes."""
WRONG = ["key = (crow.numel(), col.numel())"]
RIGHT = ["key = tuple(crow.tolist())"]
NAME = "CsrMatVec"
# --- code
import torch


class CsrMatVec(torch.autograd.Function):
    """y = A x with A in CSR form; expanded row indices are cached, they are costly to build."""

    _rows = {}

    @classmethod
    def _expand(cls, crow, col):
        key = (crow.numel(), col.numel())
        if key not in cls._rows:
            n = torch.arange(crow.numel() - 1, device=crow.device)
            cls._rows[key] = n.repeat_interleave(crow.diff())
        return cls._rows[key]

    @staticmethod
    def forward(ctx, crow, col, val, x):
        row = CsrMatVec._expand(crow, col)
        ctx.save_for_backward(row, col, val, x)
        y = x.new_zeros(crow.numel() - 1)
        return y.index_add_(0, row, val * x[col])

    @staticmethod
    def backward(ctx, g):
        row, col, val, x = ctx.saved_tensors
        gr = g[row]
        gval = gr * x[col] if ctx.needs_input_grad[2] else None
        gx = None
        if ctx.needs_input_grad[3]:
            gx = torch.zeros_like(x).index_add_(0, col, gr * val)
        return None, None, gval, gx


def inputs():
    torch.manual_seed(0)
    crow = torch.tensor([0, 2, 3, 6])
    col = torch.tensor([0, 2, 1, 0, 2, 3])
    val = torch.randn(6, dtype=torch.float64, requires_grad=True)
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    return (crow, col, val, x)


def reference(crow, col, val, x):
    row = torch.arange(crow.numel() - 1).repeat_interleave(crow.diff())
    return torch.zeros(crow.numel() - 1, dtype=x.dtype).index_add(0, row, val * x[col])


# %% lut_interp_30
"""Inputs outside the table are clamped to its ends, where the output is constant in x; the backward still returns the slope of the first or last cell for them."""
WRONG = ["gx = g * (table[i + 1] - table[i]) / step"]
RIGHT = ["gx = g * (table[i + 1] - table[i]) / step * ((pos > 0) & (pos < table.numel() - 1))"]
NAME = "TableLookup"
# --- code
import torch


class TableLookup(torch.autograd.Function):
    """Piecewise linear lookup in a uniform table that starts at x0 with spacing step."""

    @staticmethod
    def forward(ctx, x, table, x0, step):
        pos = (x - x0) / step
        p = pos.clamp(0, table.numel() - 1)
        i = p.floor().long().clamp(max=table.numel() - 2)
        f = p - i
        ctx.step = step
        ctx.save_for_backward(pos, i, f, table)
        return torch.lerp(table[i], table[i + 1], f)

    @staticmethod
    def backward(ctx, g):
        pos, i, f, table = ctx.saved_tensors
        step = ctx.step
        gx = gt = None
        if ctx.needs_input_grad[0]:
            gx = g * (table[i + 1] - table[i]) / step
        if ctx.needs_input_grad[1]:
            gt = torch.zeros_like(table)
            gt.index_put_((i,), g * (1 - f), accumulate=True)
            gt.index_put_((i + 1,), g * f, accumulate=True)
        return gx, gt, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.tensor([[-1.7, -0.63, 0.11], [0.42, 0.93, 2.4]], dtype=torch.float64, requires_grad=True)
    table = torch.randn(5, dtype=torch.float64, requires_grad=True)
    return (x, table, -1.0, 0.5)
