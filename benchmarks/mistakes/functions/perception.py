"""Mistakes: held out, vision, audio, rendering and learning to act. Each cell is a separate module; see benchmarks/repairs.py."""

# %% bilinear_warp_1
"""The sampling positions are clamped to the image border in forward, but the backward hands a coordinate gradient also to points that were clamped. For points outside the image the output does not depend on the coordinate, so their gradient must be zero."""
WRONG = ["gxy = torch.stack([(grad * dx).sum(0), (grad * dy).sum(0)], dim=1)"]
RIGHT = ["gxy = torch.stack([(grad * dx).sum(0), (grad * dy).sum(0)], dim=1)\ngxy = gxy * ((xy >= 0) & (xy <= xy.new_tensor([w - 1, h - 1])))"]
NAME = "BilinearWarp"
# --- code
import torch


def corners(xy, h, w):
    x = xy[:, 0].clamp(0, w - 1)
    y = xy[:, 1].clamp(0, h - 1)
    x0 = x.floor().clamp(max=w - 2)
    y0 = y.floor().clamp(max=h - 2)
    base = (y0 * w + x0).long()
    return base, x - x0, y - y0


class BilinearWarp(torch.autograd.Function):
    """Sample img (C, H, W) at pixel positions xy (N, 2), border padding."""

    @staticmethod
    def forward(ctx, img, xy):
        c, h, w = img.shape
        base, fx, fy = corners(xy, h, w)
        flat = img.reshape(c, h * w)
        a, b = flat[:, base], flat[:, base + 1]
        d, e = flat[:, base + w], flat[:, base + w + 1]
        ctx.save_for_backward(img, xy)
        return (a * (1 - fx) + b * fx) * (1 - fy) + (d * (1 - fx) + e * fx) * fy

    @staticmethod
    def backward(ctx, grad):
        img, xy = ctx.saved_tensors
        c, h, w = img.shape
        base, fx, fy = corners(xy, h, w)
        flat = img.reshape(c, h * w)
        a, b = flat[:, base], flat[:, base + 1]
        d, e = flat[:, base + w], flat[:, base + w + 1]

        gflat = torch.zeros_like(flat)
        gflat.index_add_(1, base, grad * (1 - fx) * (1 - fy))
        gflat.index_add_(1, base + 1, grad * fx * (1 - fy))
        gflat.index_add_(1, base + w, grad * (1 - fx) * fy)
        gflat.index_add_(1, base + w + 1, grad * fx * fy)

        dx = (b - a) * (1 - fy) + (e - d) * fy
        dy = (d - a) * (1 - fx) + (e - b) * fx
        gxy = torch.stack([(grad * dx).sum(0), (grad * dy).sum(0)], dim=1)
        return gflat.view(c, h, w), gxy


def inputs():
    torch.manual_seed(0)
    img = torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
    xy = torch.tensor([[0.3, 1.6], [-0.7, 2.2], [3.4, 0.5], [5.2, 1.3], [2.6, 3.8]],
                      dtype=torch.float64, requires_grad=True)
    return (img, xy)


# %% alpha_composite_2
"""The gradient of an alpha holds minus everything that lies behind the sample, divided by (1 - alpha). The suffix sum counts only the later samples and leaves out the background, whose weight is the final transmittance and also falls with every alpha."""
WRONG = ["behind = wc.flip(1).cumsum(1).flip(1) - wc"]
RIGHT = ["behind = wc.flip(1).cumsum(1).flip(1) - wc + (t_end * (grad @ bg))[:, None]"]
NAME = "AlphaComposite"
# --- code
import torch
from torch.autograd.function import once_differentiable


class AlphaComposite(torch.autograd.Function):
    """Front to back compositing. alpha (R, S) < 1, color (R, S, 3), bg (3,)."""

    @staticmethod
    def forward(alpha, color, bg):
        trans = torch.cumprod(1 - alpha, dim=1)
        t_end = trans[:, -1]
        trans = torch.cat([torch.ones_like(trans[:, :1]), trans[:, :-1]], dim=1)
        w = trans * alpha
        rgb = torch.einsum("rs,rsc->rc", w, color) + t_end[:, None] * bg
        return rgb, w.detach(), t_end.detach()

    @staticmethod
    def setup_context(ctx, inputs, output):
        alpha, color, bg = inputs
        _, w, t_end = output
        ctx.save_for_backward(alpha, color, bg, w, t_end)
        ctx.mark_non_differentiable(w, t_end)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _gw, _gt):
        alpha, color, bg, w, t_end = ctx.saved_tensors
        gc = torch.einsum("rc,rsc->rs", grad, color)
        gcolor = w[..., None] * grad[:, None, :]
        gbg = (t_end[:, None] * grad).sum(0)
        wc = w * gc
        behind = wc.flip(1).cumsum(1).flip(1) - wc
        trans = torch.cumprod(1 - alpha, dim=1) / (1 - alpha)
        galpha = trans * gc - behind / (1 - alpha)
        return galpha, gcolor, gbg


def inputs():
    torch.manual_seed(0)
    alpha = (torch.rand(3, 4, dtype=torch.float64) * 0.7 + 0.1).requires_grad_()
    color = torch.rand(3, 4, 3, dtype=torch.float64, requires_grad=True)
    bg = torch.tensor([0.9, 0.8, 1.0], dtype=torch.float64, requires_grad=True)
    return (alpha, color, bg)


def reference(alpha, color, bg):
    t = torch.ones_like(alpha[:, 0])
    rgb, ws = 0, []
    for s in range(alpha.shape[1]):
        ws.append(t * alpha[:, s])
        rgb = rgb + ws[-1][:, None] * color[:, s]
        t = t * (1 - alpha[:, s])
    return rgb + t[:, None] * bg, torch.stack(ws, 1).detach(), t.detach()


# %% chamfer_3
"""Several points share the same nearest neighbour. An indexed in-place subtraction (`gy[i1] -= ...`) does not accumulate over repeated indices: only one contribution per target survives. It needs index_add_ (or index_put_ with accumulate)."""
WRONG = ["gy[i1] -= to_y", "gx[i2] -= to_x"]
RIGHT = ["gy.index_add_(0, i1, to_y, alpha=-1)", "gx.index_add_(0, i2, to_x, alpha=-1)"]
NAME = "ChamferDistance"
# --- code
import torch


class ChamferDistance(torch.autograd.Function):
    """Squared nearest neighbour distances in both directions: (N,), (M,)."""

    @staticmethod
    def forward(ctx, x, y):
        d = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
        d1, i1 = d.min(dim=1)
        d2, i2 = d.min(dim=0)
        ctx.save_for_backward(x, y, i1, i2)
        return d1, d2

    @staticmethod
    def backward(ctx, g1, g2):
        x, y, i1, i2 = ctx.saved_tensors
        to_y = 2 * g1[:, None] * (x - y[i1])
        to_x = 2 * g2[:, None] * (y - x[i2])
        gx = to_y.clone()
        gy = to_x.clone()
        gy[i1] -= to_y
        gx[i2] -= to_x
        return gx, gy


def inputs():
    torch.manual_seed(0)
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    y = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    return (x, y)


def reference(x, y):
    d = ((x[:, None] - y[None]) ** 2).sum(-1)
    return d.min(dim=1).values, d.min(dim=0).values


# %% rotary_offset_4
"""The backward builds the cos/sin table anew to save memory, but without the position offset that forward used (decoding with a cache), so the gradient is rotated by the angles of the wrong positions."""
WRONG = ["cos, sin = rope_table(t, d, ctx.base, grad)"]
RIGHT = ["cos, sin = rope_table(t, d, ctx.base, grad, ctx.offset)"]
NAME = "ApplyRotary"
# --- code
import torch


def rope_table(t, d, base, like, offset=0):
    inv = base ** (-torch.arange(0, d, 2, dtype=like.dtype, device=like.device) / d)
    pos = torch.arange(offset, offset + t, dtype=like.dtype, device=like.device)
    ang = pos[:, None] * inv[None, :]
    return ang.cos(), ang.sin()


class ApplyRotary(torch.autograd.Function):
    """Rotate the first rot_dim channels of x (B, H, T, D), half-split layout."""

    @staticmethod
    def forward(x, rot_dim, base, offset):
        head, tail = x[..., :rot_dim], x[..., rot_dim:]
        cos, sin = rope_table(x.shape[-2], rot_dim, base, x, offset)
        a, b = head.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin, tail], dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.rot_dim, ctx.base, ctx.offset = inputs

    @staticmethod
    def backward(ctx, grad):
        t, d = grad.shape[-2], ctx.rot_dim
        cos, sin = rope_table(t, d, ctx.base, grad)
        a, b = grad[..., :d].chunk(2, dim=-1)
        gx = torch.cat([a * cos + b * sin, b * cos - a * sin, grad[..., d:]], dim=-1)
        return gx, None, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(1, 2, 3, 6, dtype=torch.float64, requires_grad=True)
    return (x, 4, 10000.0, 5)


# %% relative_bias_5
"""The bias table is read at key position minus query position, but its gradient is added at query minus key: the index in backward is transposed, so the gradients of positive and negative distances are swapped."""
WRONG = ["rel = (pos[:, None] - pos[None, :]).clamp(-m, m) + m"]
RIGHT = ["rel = (pos[None, :] - pos[:, None]).clamp(-m, m) + m"]
NAME = "RelativeScores"
# --- code
import torch


class RelativeScores(torch.autograd.Function):
    """Attention scores q k^T * scale + table[h, clip(j - i)]; table (H, 2M+1)."""

    @staticmethod
    def forward(ctx, q, k, table, max_dist):
        n = q.shape[-2]
        key = torch.arange(n, device=q.device).expand(n, n)
        bucket = torch.clamp(key - key.t(), min=-max_dist, max=max_dist) + max_dist
        ctx.scale = q.shape[-1] ** -0.5
        ctx.max_dist = max_dist
        ctx.save_for_backward(q, k)
        return torch.einsum("hid,hjd->hij", q, k) * ctx.scale + table[:, bucket]

    @staticmethod
    def backward(ctx, grad):
        q, k = ctx.saved_tensors
        gq = gk = gtable = None
        if ctx.needs_input_grad[0]:
            gq = torch.einsum("hij,hjd->hid", grad, k) * ctx.scale
        if ctx.needs_input_grad[1]:
            gk = torch.einsum("hij,hid->hjd", grad, q) * ctx.scale
        if ctx.needs_input_grad[2]:
            m = ctx.max_dist
            pos = torch.arange(grad.shape[-1], device=grad.device)
            rel = (pos[:, None] - pos[None, :]).clamp(-m, m) + m
            gtable = grad.new_zeros(grad.shape[0], 2 * m + 1)
            gtable.index_add_(1, rel.reshape(-1), grad.reshape(grad.shape[0], -1))
        return gq, gk, gtable, None


def inputs():
    torch.manual_seed(0)
    q = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    k = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    table = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    return (q, k, table, 2)


# %% gemma_rmsnorm_6
"""The scale of this norm is (1 + weight), as in Gemma, but the gradient of x is multiplied with the bare weight, as in the usual RMSNorm."""
WRONG = ["gh = grad * weight"]
RIGHT = ["gh = grad * (1.0 + weight)"]
NAME = "GemmaRMSNorm"
# --- code
import torch


class GemmaRMSNorm(torch.autograd.Function):
    """RMS norm with a zero-centred scale, over the last dimension."""

    @staticmethod
    def forward(x, weight, eps):
        rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        return x * rstd * (1.0 + weight)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, eps = inputs
        ctx.save_for_backward(x, weight)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + ctx.eps)
        xhat = x * rstd
        gx = gw = None
        if ctx.needs_input_grad[0]:
            gh = grad * weight
            gx = rstd * (gh - xhat * (gh * xhat).mean(-1, keepdim=True))
        if ctx.needs_input_grad[1]:
            gw = (grad * xhat).reshape(-1, x.shape[-1]).sum(0)
        return gx, gw, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    weight = (0.1 * torch.randn(5, dtype=torch.float64)).requires_grad_()
    return (x, weight, 1e-6)


def reference(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * (1 + weight)


# %% zloss_cross_entropy_7
"""The backward turns the probabilities kept on ctx into the gradient in place. The first backward is right, but a second one through the same graph (retain_graph, two autograd.grad calls) starts from the overwritten buffer and gives a wrong gradient."""
WRONG = ["g = ctx.probs"]
RIGHT = ["g = ctx.probs.clone()"]
NAME = "ZLossCrossEntropy"
# --- code
import torch
from torch.autograd.function import once_differentiable


class ZLossCrossEntropy(torch.autograd.Function):
    """Mean of CE + z * logsumexp^2 over the tokens of logits (N, V)."""

    @staticmethod
    def forward(ctx, logits, target, z_weight):
        lse = torch.logsumexp(logits, dim=-1)
        picked = logits.gather(1, target[:, None]).squeeze(1)
        loss = (lse - picked + z_weight * lse.square()).mean()
        ctx.probs = torch.exp(logits - lse[:, None])
        ctx.z_weight = z_weight
        ctx.save_for_backward(target, lse)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        target, lse = ctx.saved_tensors
        n = target.shape[0]
        g = ctx.probs
        g.mul_((1 + 2 * ctx.z_weight * lse)[:, None])
        g[torch.arange(n, device=g.device), target] -= 1
        g.mul_(grad / n)
        return g, None, None


def inputs():
    torch.manual_seed(0)
    logits = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, 3, 1, 1, 2])
    return (logits, target, 0.05)


def reference(logits, target, z_weight):
    lse = logits.logsumexp(-1)
    ce = torch.nn.functional.cross_entropy(logits, target)
    return ce + z_weight * (lse ** 2).mean()


# %% ppo_clip_8
"""The gradient is dropped wherever the ratio lies outside the clip range. The objective is a minimum, so whether the clipped branch is taken also depends on the sign of the advantage: with ratio > 1+eps and A < 0 (or ratio < 1-eps and A > 0) the unclipped term is active and its gradient must flow."""
WRONG = ["active = (ratio >= 1 - ctx.eps) & (ratio <= 1 + ctx.eps)"]
RIGHT = ["active = torch.where(adv >= 0, ratio <= 1 + ctx.eps, ratio >= 1 - ctx.eps)"]
NAME = "ClippedSurrogate"
# --- code
import torch
from torch.autograd.function import once_differentiable


class ClippedSurrogate(torch.autograd.Function):
    """PPO policy loss over valid steps. Old log-probs and advantages are data."""

    @staticmethod
    def forward(ctx, logp, logp_old, adv, valid, eps):
        ratio = torch.exp(logp - logp_old)
        surr = torch.minimum(ratio * adv, ratio.clamp(1 - eps, 1 + eps) * adv)
        count = valid.sum().clamp(min=1)
        ctx.eps = eps
        ctx.save_for_backward(ratio, adv, valid, count)
        return -(surr * valid).sum() / count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        ratio, adv, valid, count = ctx.saved_tensors
        active = (ratio >= 1 - ctx.eps) & (ratio <= 1 + ctx.eps)
        g = torch.where(active & valid, -adv * ratio, torch.zeros_like(adv))
        return grad * g / count, None, None, None, None


def inputs():
    torch.manual_seed(0)
    logp = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    old = logp.detach() + 0.4 * torch.randn(3, 4, dtype=torch.float64)
    adv = torch.randn(3, 4, dtype=torch.float64)
    valid = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]], dtype=torch.bool)
    return (logp, old, adv, valid, 0.2)


def reference(logp, logp_old, adv, valid, eps):
    ratio = (logp - logp_old).exp()
    surr = torch.min(ratio * adv, ratio.clamp(1 - eps, 1 + eps) * adv)
    return -surr[valid].mean()


# %% gae_9
"""Two mistakes with the episode mask. The recursion in backward uses the done flag of step t where that of step t-1 links h[t] to h[t-1], and the gradient for the next state's value is not masked at episode ends although the bootstrap is."""
WRONG = ["carry = grad[t] + ctx.decay * nd[t] * carry", "gv[1:] += ctx.gamma * h"]
RIGHT = ["carry = grad[t] + (ctx.decay * nd[t - 1] * carry if t > 0 else 0)", "gv[1:] += ctx.gamma * nd * h"]
NAME = "GAE"
# --- code
import torch


class GAE(torch.autograd.Function):
    """Generalised advantages. rewards, done (T, B); values (T + 1, B)."""

    @staticmethod
    def forward(ctx, rewards, values, done, gamma, lam):
        nd = 1.0 - done.to(rewards.dtype)
        delta = rewards + gamma * nd * values[1:] - values[:-1]
        adv = torch.empty_like(delta)
        last = torch.zeros_like(delta[0])
        for t in reversed(range(delta.shape[0])):
            last = delta[t] + gamma * lam * nd[t] * last
            adv[t] = last
        ctx.gamma, ctx.decay = gamma, gamma * lam
        ctx.save_for_backward(nd)
        return adv

    @staticmethod
    def backward(ctx, grad):
        (nd,) = ctx.saved_tensors
        h = torch.empty_like(grad)
        carry = torch.zeros_like(grad[0])
        for t in range(grad.shape[0]):
            carry = grad[t] + ctx.decay * nd[t] * carry
            h[t] = carry
        gv = grad.new_zeros(grad.shape[0] + 1, grad.shape[1])
        gv[:-1] -= h
        gv[1:] += ctx.gamma * h
        return h, gv, None, None, None


def inputs():
    torch.manual_seed(0)
    rewards = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    values = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    done = torch.tensor([[0, 0], [1, 0], [0, 0], [0, 1], [0, 0]], dtype=torch.bool)
    return (rewards, values, done, 0.95, 0.9)


# %% log_spectrogram_10
"""The adjoint of rfft is not n * irfft: irfft counts every bin except DC and Nyquist twice (its mirrored half), so the inner bins must be halved first. As it stands their part of the gradient is doubled."""
WRONG = ["gframes = torch.fft.irfft(gspec, n=n) * n"]
RIGHT = ["gspec[..., 1:(n + 1) // 2] *= 0.5\ngframes = torch.fft.irfft(gspec, n=n) * n"]
NAME = "LogSpectrogram"
# --- code
import torch
from torch.autograd.function import once_differentiable


class LogSpectrogram(torch.autograd.Function):
    """log(|STFT|^2 + eps) of a batch of waveforms (B, L) -> (B, frames, bins)."""

    @staticmethod
    def forward(ctx, wav, window, hop, eps):
        n = window.numel()
        spec = torch.fft.rfft(wav.unfold(-1, n, hop) * window)
        power = spec.real.square() + spec.imag.square()
        ctx.save_for_backward(spec, power, window)
        ctx.hop, ctx.eps, ctx.length = hop, eps, wav.shape[-1]
        return torch.log(power + eps)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        spec, power, window = ctx.saved_tensors
        n = window.numel()
        gspec = 2 * spec * (grad / (power + ctx.eps))
        gframes = torch.fft.irfft(gspec, n=n) * n
        gframes = gframes * window
        gwav = grad.new_zeros(grad.shape[0], ctx.length)
        for i in range(gframes.shape[1]):
            start = i * ctx.hop
            gwav[:, start:start + n] += gframes[:, i]
        return gwav, None, None, None


def inputs():
    torch.manual_seed(0)
    wav = torch.randn(2, 14, dtype=torch.float64, requires_grad=True)
    return (wav, torch.hann_window(8, dtype=torch.float64) + 0.1, 3, 1e-2)


def reference(wav, window, hop, eps):
    spec = torch.fft.rfft(wav.unfold(-1, window.numel(), hop) * window)
    return (spec.abs() ** 2 + eps).log()


# %% edge_max_pool_11
"""argmax gives the slot in the neighbour list (0..K-1), not the point. The gradient of the maximum is scattered to points 0..K-1 instead of to idx[i, argmax], the neighbour that won."""
WRONG = ["gx.scatter_add_(0, arg, gmax)"]
RIGHT = ["gx.scatter_add_(0, idx.gather(1, arg), gmax)"]
NAME = "EdgeMaxMean"
# --- code
import torch


class EdgeMaxMean(torch.autograd.Function):
    """Edge features x[j] - x[i], pooled by max and mean over K neighbours."""

    @staticmethod
    def forward(x, idx):
        edge = x[idx] - x[:, None, :]
        top, arg = edge.max(dim=1)
        return top, edge.mean(dim=1), arg

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, idx = inputs
        ctx.mark_non_differentiable(output[2])
        ctx.save_for_backward(idx, output[2])

    @staticmethod
    def backward(ctx, gmax, gmean, _):
        idx, arg = ctx.saved_tensors
        n, k = idx.shape
        gx = -(gmax + gmean)
        gx.scatter_add_(0, arg, gmax)
        share = (gmean / k)[:, None, :].expand(n, k, -1)
        gx.index_add_(0, idx.reshape(-1), share.reshape(n * k, -1))
        return gx, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    idx = torch.tensor([[1, 3, 5], [0, 2, 4], [3, 1, 5], [4, 2, 0], [5, 3, 1], [0, 4, 2]])
    return (x, idx)


# %% periodic_distance_12
"""The distance of a point to itself is zero, so dividing by the distance gives 0/0 on the diagonal and the whole gradient is NaN. The zero distances must be left out of the division."""
WRONG = ["unit = diff / dist[..., None]"]
RIGHT = ["unit = diff / torch.where(dist > 0, dist, torch.ones_like(dist))[..., None]"]
NAME = "PeriodicDistance"
# --- code
import torch
from torch.autograd.function import once_differentiable


class PeriodicDistance(torch.autograd.Function):
    """All pair distances (N, N) in a periodic box, nearest image convention."""

    @staticmethod
    def forward(ctx, pos, box):
        diff = pos[:, None, :] - pos[None, :, :]
        diff = diff - box * torch.round(diff / box)
        dist = diff.square().sum(-1).sqrt()
        ctx.save_for_backward(diff, dist)
        return dist

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        diff, dist = ctx.saved_tensors
        unit = diff / dist[..., None]
        sym = grad + grad.t()
        gpos = torch.einsum("ij,ijd->id", sym, unit)
        return gpos, None


def inputs():
    torch.manual_seed(0)
    pos = (3.0 * torch.rand(5, 3, dtype=torch.float64)).requires_grad_()
    return (pos, 3.0)


# %% rbm_free_energy_13
"""The backward uses hidden probabilities that were computed in forward, outside the graph. First derivatives are right, but in a double backward (score matching, gradient penalty) these probabilities count as constants, so the second derivatives lack the sigmoid' term. They must be recomputed from the saved inputs in backward."""
WRONG = ["ctx.save_for_backward(v, weight, b, torch.sigmoid(pre))", "v, weight, b, hidden = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(v, weight, b, c)", "v, weight, b, c = ctx.saved_tensors\nhidden = torch.sigmoid(v @ weight + c)"]
NAME = "FreeEnergy"
# --- code
import torch
import torch.nn.functional as F


class FreeEnergy(torch.autograd.Function):
    """Gauss-Bernoulli RBM energy 0.5 |v - b|^2 - sum softplus(v W + c), per row."""

    @staticmethod
    def forward(ctx, v, weight, b, c):
        pre = v @ weight + c
        ctx.save_for_backward(v, weight, b, torch.sigmoid(pre))
        return 0.5 * (v - b).square().sum(-1) - F.softplus(pre).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        v, weight, b, hidden = ctx.saved_tensors
        g = grad[:, None]
        gv = g * (v - b - hidden @ weight.t())
        gweight = -v.t() @ (g * hidden)
        gb = -(g * (v - b)).sum(0)
        gc = -(g * hidden).sum(0)
        return gv, gweight, gb, gc


def inputs():
    torch.manual_seed(0)
    v = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    b = torch.randn(4, dtype=torch.float64, requires_grad=True)
    c = torch.randn(2, dtype=torch.float64, requires_grad=True)
    return (v, weight, b, c)


def reference(v, weight, b, c):
    return 0.5 * ((v - b) ** 2).sum(-1) - F.softplus(v @ weight + c).sum(-1)


# %% fair_crps_14
"""The pair term needs the rank of each member, but `order` from sort is the permutation that sorts (which member stands at place k). The rank is its inverse, order.argsort()."""
WRONG = ["rank = order"]
RIGHT = ["rank = order.argsort(dim=1)"]
NAME = "FairCRPS"
# --- code
import torch


class FairCRPS(torch.autograd.Function):
    """Area-weighted fair CRPS. ens (B, M, P), obs (B, P), area (P,) fixed."""

    @staticmethod
    def forward(ctx, ens, obs, area):
        m = ens.shape[1]
        srt, order = ens.sort(dim=1)
        coef = 2 * torch.arange(m, dtype=ens.dtype, device=ens.device) - (m - 1)
        spread = (coef[:, None] * srt).sum(1) / (m * (m - 1))
        skill = (ens - obs[:, None]).abs().mean(1)
        w = area / area.sum()
        ctx.save_for_backward(ens, obs, order, w)
        return ((skill - spread) * w).sum(-1).mean()

    @staticmethod
    def backward(ctx, grad):
        ens, obs, order, w = ctx.saved_tensors
        b, m, _ = ens.shape
        scale = grad * w / b
        sgn = torch.sign(ens - obs[:, None]) / m
        rank = order
        pair = (2 * rank - (m - 1)).to(ens.dtype) / (m * (m - 1))
        gens = (sgn - pair) * scale
        gobs = -sgn.sum(1) * scale
        return gens, gobs, None


def inputs():
    torch.manual_seed(0)
    ens = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    obs = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    area = torch.tensor([0.5, 1.0, 0.7], dtype=torch.float64)
    return (ens, obs, area)


def reference(ens, obs, area):
    m = ens.shape[1]
    skill = (ens - obs[:, None]).abs().mean(1)
    pair = (ens[:, :, None] - ens[:, None]).abs().sum((1, 2)) / (2 * m * (m - 1))
    return ((skill - pair) * (area / area.sum())).sum(-1).mean()


# %% polar_pad_15
"""Across the poles the forward mirrors the rows and turns them by half the globe. The backward undoes the turn but not the mirroring of the rows: with more than one padding row the gradients land in the wrong latitude rows."""
WRONG = ["gx[..., :p, :] += torch.roll(north, -half, -1)", "gx[..., -p:, :] += torch.roll(south, -half, -1)"]
RIGHT = ["gx[..., :p, :] += torch.roll(north.flip(-2), -half, -1)", "gx[..., -p:, :] += torch.roll(south.flip(-2), -half, -1)"]
NAME = "GlobePad"
# --- code
import torch


class GlobePad(torch.autograd.Function):
    """Pad a lat-lon field (B, C, H, W): across the poles and around in longitude."""

    @staticmethod
    def forward(x, p):
        half = x.shape[-1] // 2
        top = torch.roll(x[..., :p, :].flip(-2), half, -1)
        bottom = torch.roll(x[..., -p:, :].flip(-2), half, -1)
        z = torch.cat([top, x, bottom], dim=-2)
        return torch.cat([z[..., -p:], z, z[..., :p]], dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.p = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        p = ctx.p
        gz = grad[..., p:-p].clone()
        gz[..., -p:] += grad[..., :p]
        gz[..., :p] += grad[..., -p:]
        half = gz.shape[-1] // 2
        north, south = gz[..., :p, :], gz[..., -p:, :]
        gx = gz[..., p:-p, :].clone()
        gx[..., :p, :] += torch.roll(north, -half, -1)
        gx[..., -p:, :] += torch.roll(south, -half, -1)
        return gx, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(1, 2, 4, 6, dtype=torch.float64, requires_grad=True)
    return (x, 2)


# %% truncated_normal_16
"""The standardised bounds a and b depend on sigma too, so the sample moves with sigma also through them. The derivative for sigma keeps only z and misses this term (the one for mu has it)."""
WRONG = ["dsigma = z"]
RIGHT = ["dsigma = z - ((1 - u) * pdf(a) * a + u * pdf(b) * b) / pdf(z)"]
NAME = "TruncatedNormalSample"
# --- code
import math
import torch
from torch.autograd.function import once_differentiable


def pdf(t):
    return torch.exp(-0.5 * t * t) / math.sqrt(2 * math.pi)


class TruncatedNormalSample(torch.autograd.Function):
    """Reparameterised sample of N(mu, sigma) cut to [low, high]; u is the noise."""

    @staticmethod
    def forward(ctx, mu, sigma, u, low, high):
        a = (low - mu) / sigma
        b = (high - mu) / sigma
        pa, pb = torch.special.ndtr(a), torch.special.ndtr(b)
        z = torch.special.ndtri(pa + u * (pb - pa))
        ctx.save_for_backward(z, a, b, u)
        return mu + sigma * z

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        z, a, b, u = ctx.saved_tensors
        gmu = gsigma = None
        if ctx.needs_input_grad[0]:
            dmu = 1 - ((1 - u) * pdf(a) + u * pdf(b)) / pdf(z)
            gmu = grad * dmu
        if ctx.needs_input_grad[1]:
            dsigma = z
            gsigma = grad * dsigma
        return gmu, gsigma, None, None, None


def inputs():
    torch.manual_seed(0)
    mu = (0.5 * torch.randn(4, 3, dtype=torch.float64)).requires_grad_()
    sigma = (0.5 + torch.rand(4, 3, dtype=torch.float64)).requires_grad_()
    u = 0.1 + 0.8 * torch.rand(4, 3, dtype=torch.float64)
    return (mu, sigma, u, -1.0, 1.0)


# %% chunked_lm_loss_17
"""The gradients are computed chunk by chunk in forward and only handed out in backward. The incoming gradient is applied to the hidden states but not to the head weight: as soon as the loss is scaled (gradient accumulation, loss scaling, a weighted sum of losses) the weight gradient is wrong. With an incoming gradient of exactly 1 (a bare loss.backward()) it looks right."""
WRONG = ["return ghidden * grad, gweight, None, None, None"]
RIGHT = ["return ghidden * grad, gweight * grad, None, None, None"]
NAME = "ChunkedLMLoss"
# --- code
import torch
from torch.autograd.function import once_differentiable


class ChunkedLMLoss(torch.autograd.Function):
    """Mean cross entropy of hidden @ weight.T without the full logits in memory."""

    @staticmethod
    def forward(ctx, hidden, weight, target, ignore_index, chunk):
        count = (target != ignore_index).sum().clamp(min=1)
        total = hidden.new_zeros(())
        ghidden = torch.zeros_like(hidden)
        gweight = torch.zeros_like(weight)
        for s in range(0, hidden.shape[0], chunk):
            h, t = hidden[s:s + chunk], target[s:s + chunk]
            keep = (t != ignore_index).to(h.dtype)[:, None]
            t = t.clamp(min=0)[:, None]
            logp = torch.log_softmax(h @ weight.t(), dim=-1)
            total -= (logp.gather(1, t) * keep).sum()
            g = logp.exp()
            g.scatter_add_(1, t, -torch.ones_like(keep))
            g *= keep / count
            ghidden[s:s + chunk] = g @ weight
            gweight += g.t() @ h
        ctx.save_for_backward(ghidden, gweight)
        return total / count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        ghidden, gweight = ctx.saved_tensors
        return ghidden * grad, gweight, None, None, None


def inputs():
    torch.manual_seed(0)
    hidden = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([1, -100, 3, 0, 2])
    return (hidden, weight, target, -100, 2)


def reference(hidden, weight, target, ignore_index, chunk):
    return torch.nn.functional.cross_entropy(hidden @ weight.t(), target, ignore_index=ignore_index)


# %% sh_color_18
"""The basis and the clamp mask are stored on the class, not on ctx. When the Function is applied twice before backward (two views in one loss) both backwards use the state of the last call, so the first call's gradient is wrong (or its shape does not fit). A single call followed by its backward is right."""
WRONG = ["SHColor.basis, SHColor.on = basis, rgb > 0", "basis, on = SHColor.basis, SHColor.on"]
RIGHT = ["ctx.basis, ctx.on = basis, rgb > 0", "basis, on = ctx.basis, ctx.on"]
NAME = "SHColor"
# --- code
import torch
from torch.autograd.function import once_differentiable

C0 = 0.28209479177387814
C1 = 0.4886025119029199


class SHColor(torch.autograd.Function):
    """Degree 1 spherical harmonics: coeffs (N, 4, 3), unit dirs (N, 3) -> rgb (N, 3)."""

    basis = None
    on = None

    @staticmethod
    def forward(ctx, coeffs, dirs):
        x, y, z = dirs.unbind(-1)
        basis = torch.stack([torch.full_like(x, C0), -C1 * y, C1 * z, -C1 * x], dim=-1)
        rgb = torch.einsum("nk,nkc->nc", basis, coeffs) + 0.5
        SHColor.basis, SHColor.on = basis, rgb > 0
        ctx.save_for_backward(coeffs)
        return rgb.clamp(min=0)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (coeffs,) = ctx.saved_tensors
        basis, on = SHColor.basis, SHColor.on
        grad = grad * on
        gcoeffs = basis[:, :, None] * grad[:, None, :]
        gb = torch.einsum("nc,nkc->nk", grad, coeffs)
        gdirs = C1 * torch.stack([-gb[:, 3], -gb[:, 1], gb[:, 2]], dim=-1)
        return gcoeffs, gdirs


def inputs():
    torch.manual_seed(0)
    coeffs = torch.randn(4, 4, 3, dtype=torch.float64, requires_grad=True)
    dirs = torch.nn.functional.normalize(torch.randn(4, 3, dtype=torch.float64), dim=-1)
    return (coeffs, dirs.requires_grad_())


def reference(coeffs, dirs):
    x, y, z = dirs.unbind(-1)
    rgb = C0 * coeffs[:, 0] - C1 * y[:, None] * coeffs[:, 1] + C1 * z[:, None] * coeffs[:, 2] - C1 * x[:, None] * coeffs[:, 3]
    return torch.relu(rgb + 0.5)


# %% learned_pool_19
"""needs_input_grad counts all arguments of forward, the stride as well. Index 1 is the stride (always False), so the weight never gets a gradient; index 2 is the weight, not the bias."""
WRONG = ["if ctx.needs_input_grad[1]:", "if ctx.needs_input_grad[2]:"]
RIGHT = ["if ctx.needs_input_grad[2]:", "if ctx.needs_input_grad[3]:"]
NAME = "LearnedPool1d"
# --- code
import torch


class LearnedPool1d(torch.autograd.Function):
    """Strided pooling of x (B, C, L) with one learned filter (C, K) per channel."""

    @staticmethod
    def forward(ctx, x, stride, weight, bias):
        k = weight.shape[1]
        patches = x.unfold(-1, k, stride)
        ctx.stride = stride
        ctx.save_for_backward(x, weight)
        return torch.einsum("bclk,ck->bcl", patches, weight) + bias[:, None]

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        k, s = weight.shape[1], ctx.stride
        n = grad.shape[-1]
        gx = gweight = gbias = None
        if ctx.needs_input_grad[0]:
            gx = torch.zeros_like(x)
            for j in range(k):
                gx[..., j:j + s * (n - 1) + 1:s] += grad * weight[:, j, None]
        if ctx.needs_input_grad[1]:
            gweight = torch.einsum("bcl,bclk->ck", grad, x.unfold(-1, k, s))
        if ctx.needs_input_grad[2]:
            gbias = grad.sum(dim=(0, 2))
        return gx, None, gweight, gbias


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(3, dtype=torch.float64, requires_grad=True)
    return (x, 2, weight, bias)


def reference(x, stride, weight, bias):
    return torch.nn.functional.conv1d(x, weight[:, None, :], bias, stride=stride, groups=x.shape[1])


# %% edge_smoothness_20
"""To save memory only the signs of the differences are kept, as uint8. An unsigned type cannot hold -1: it becomes 255, so falling edges get a huge gradient of the wrong sign. It must be int8."""
WRONG = ["ctx.save_for_backward(sx.to(torch.uint8), sy.to(torch.uint8), wx, wy)"]
RIGHT = ["ctx.save_for_backward(sx.to(torch.int8), sy.to(torch.int8), wx, wy)"]
NAME = "EdgeAwareSmoothness"
# --- code
import torch


class EdgeAwareSmoothness(torch.autograd.Function):
    """L1 smoothness of a disparity (B, H, W), damped where the image has edges."""

    @staticmethod
    def forward(ctx, disp, image, beta):
        dx = disp[:, :, 1:] - disp[:, :, :-1]
        dy = disp[:, 1:, :] - disp[:, :-1, :]
        wx = torch.exp(-beta * (image[:, :, 1:] - image[:, :, :-1]).abs())
        wy = torch.exp(-beta * (image[:, 1:, :] - image[:, :-1, :]).abs())
        sx, sy = torch.sign(dx), torch.sign(dy)
        ctx.save_for_backward(sx.to(torch.uint8), sy.to(torch.uint8), wx, wy)
        ctx.shape = disp.shape
        return (wx * dx.abs()).mean() + (wy * dy.abs()).mean()

    @staticmethod
    def backward(ctx, grad):
        sx, sy, wx, wy = ctx.saved_tensors
        gx = grad * wx * sx / wx.numel()
        gy = grad * wy * sy / wy.numel()
        gdisp = wx.new_zeros(ctx.shape)
        gdisp[:, :, 1:] += gx
        gdisp[:, :, :-1] -= gx
        gdisp[:, 1:, :] += gy
        gdisp[:, :-1, :] -= gy
        return gdisp, None, None


def inputs():
    torch.manual_seed(0)
    disp = torch.rand(1, 4, 5, dtype=torch.float64, requires_grad=True)
    image = torch.rand(1, 4, 5, dtype=torch.float64)
    return (disp, image, 2.0)


# %% feature_standardize_21
"""`feat -= mean` works in place, so forward changes the caller's tensor (without mark_dirty): after the call the features are centred for everyone else who uses them. It must make a new tensor."""
WRONG = ["feat -= mu"]
RIGHT = ["feat = feat - mu"]
NAME = "StandardizeFeatures"
# --- code
import torch
from torch.autograd.function import once_differentiable


class StandardizeFeatures(torch.autograd.Function):
    """Per-utterance mean and variance norm of log-mels (B, M, T), padded frames out."""

    @staticmethod
    def forward(ctx, feat, mask, eps):
        m = mask[:, None, :].to(feat.dtype)
        count = m.sum(-1, keepdim=True)
        mu = (feat * m).sum(-1, keepdim=True) / count
        feat -= mu
        var = (feat.square() * m).sum(-1, keepdim=True) / count
        rstd = torch.rsqrt(var + eps)
        out = feat * rstd * m
        ctx.save_for_backward(out, rstd, m, count)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        xhat, rstd, m, count = ctx.saved_tensors
        g = grad * m
        mean_g = g.sum(-1, keepdim=True) / count
        mean_gx = (g * xhat).sum(-1, keepdim=True) / count
        return rstd * m * (g - mean_g - xhat * mean_gx), None, None


def inputs():
    torch.manual_seed(0)
    feat = (1.5 + torch.randn(2, 3, 5, dtype=torch.float64)).requires_grad_()
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)
    return (feat, mask, 1e-5)


# %% affine_coupling_22
"""The layer has two outputs, and the log-determinant is the sum of the log-scales. The gradient that comes in for the log-determinant is not passed on to the scale: only the part through the transformed half arrives."""
WRONG = ["glog = gb * b * scale"]
RIGHT = ["glog = gb * b * scale + glogdet[:, None]"]
NAME = "AffineCoupling"
# --- code
import torch


class AffineCoupling(torch.autograd.Function):
    """y = [a, b * exp(cap * tanh(raw)) + shift] and log|det J| per row."""

    @staticmethod
    def forward(x, raw, shift, cap):
        a, b = x.chunk(2, dim=1)
        log_scale = cap * torch.tanh(raw)
        y = torch.cat([a, b * log_scale.exp() + shift], dim=1)
        return y, log_scale.sum(dim=1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, raw, _, cap = inputs
        ctx.save_for_backward(x, raw)
        ctx.cap = cap

    @staticmethod
    def backward(ctx, gy, glogdet):
        x, raw = ctx.saved_tensors
        b = x.chunk(2, dim=1)[1]
        ga, gb = gy.chunk(2, dim=1)
        th = torch.tanh(raw)
        scale = torch.exp(ctx.cap * th)
        glog = gb * b * scale
        graw = glog * ctx.cap * (1 - th * th)
        gx = torch.cat([ga, gb * scale], dim=1)
        return gx, graw, gb, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    raw = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    shift = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    return (x, raw, shift, 1.5)


def reference(x, raw, shift, cap):
    a, b = x.chunk(2, dim=1)
    s = cap * torch.tanh(raw)
    return torch.cat([a, b * s.exp() + shift], dim=1), s.sum(1)


# %% attention_lse_23
"""Materialising of gradients is switched off, but the backward does not expect None. When a loss uses only one of the two outputs (out or lse, the usual case) the other gradient is None and the backward raises a TypeError/AttributeError. With both outputs used the gradients are right."""
WRONG = ["ctx.set_materialize_grads(False)"]
RIGHT = ["ctx.set_materialize_grads(True)"]
NAME = "AttentionWithLSE"
# --- code
import torch
from torch.autograd.function import once_differentiable


class AttentionWithLSE(torch.autograd.Function):
    """Causal attention (H, T, D) that also returns the log-sum-exp, for merging blocks."""

    @staticmethod
    def forward(ctx, q, k, v):
        t, d = q.shape[-2:]
        s = torch.einsum("hid,hjd->hij", q, k) * d ** -0.5
        future = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
        s = s.masked_fill(future, float("-inf"))
        lse = torch.logsumexp(s, dim=-1)
        p = torch.exp(s - lse[..., None])
        out = p @ v
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, p, out)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, gout, glse):
        q, k, v, p, out = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        gv = p.transpose(1, 2) @ gout
        gp = gout @ v.transpose(1, 2)
        delta = (gout * out).sum(-1) - glse
        gs = p * (gp - delta[..., None]) * scale
        return gs @ k, gs.transpose(1, 2) @ q, gv


def inputs():
    torch.manual_seed(0)
    q = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    k = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    v = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    return (q, k, v)


# %% soft_dtw_24
"""In the backward recursion the weight of each successor subtracts the cost of that successor's own cell. The step to the right subtracts the cost of the current cell instead of the one at (i, j + 1), so the alignment weights are wrong."""
WRONG = ["right = torch.exp((r[i, j + 1] - r[i, j] - cost[i, j]) / ctx.gamma)"]
RIGHT = ["right = torch.exp((r[i, j + 1] - r[i, j] - cost[i, j + 1]) / ctx.gamma)"]
NAME = "SoftDTW"
# --- code
import torch
from torch.autograd.function import once_differentiable


class SoftDTW(torch.autograd.Function):
    """Soft-DTW between two feature sequences x (N, C) and y (M, C)."""

    @staticmethod
    def forward(ctx, x, y, gamma):
        n, m = x.shape[0], y.shape[0]
        cost = x.new_zeros(n + 2, m + 2)
        cost[1:-1, 1:-1] = (x[:, None] - y[None]).square().sum(-1)
        r = x.new_full((n + 2, m + 2), float("inf"))
        r[0, 0] = 0
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                prev = torch.stack([r[i - 1, j - 1], r[i - 1, j], r[i, j - 1]])
                r[i, j] = cost[i, j] - gamma * torch.logsumexp(-prev / gamma, 0)
        ctx.gamma = gamma
        ctx.save_for_backward(x, y, cost, r)
        return r[n, m].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, y, cost, r = ctx.saved_tensors
        n, m = x.shape[0], y.shape[0]
        r = r.clone()
        r[n + 1, :] = r[:, m + 1] = float("-inf")
        r[n + 1, m + 1] = r[n, m]
        e = torch.zeros_like(r)
        e[n + 1, m + 1] = 1
        for i in range(n, 0, -1):
            for j in range(m, 0, -1):
                down = torch.exp((r[i + 1, j] - r[i, j] - cost[i + 1, j]) / ctx.gamma)
                right = torch.exp((r[i, j + 1] - r[i, j] - cost[i, j]) / ctx.gamma)
                diag = torch.exp((r[i + 1, j + 1] - r[i, j] - cost[i + 1, j + 1]) / ctx.gamma)
                e[i, j] = e[i + 1, j] * down + e[i, j + 1] * right + e[i + 1, j + 1] * diag
        e = e[1:-1, 1:-1] * grad
        gx = 2 * (e.sum(1, keepdim=True) * x - e @ y)
        gy = 2 * (e.sum(0)[:, None] * y - e.t() @ x)
        return gx, gy, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    y = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    return (x, y, 0.8)
