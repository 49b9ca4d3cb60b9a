"""Mistakes: held out, a mixed code base. Each cell is a separate module; see benchmarks/repairs.py."""

# %% masked_quantile_huber_1
"""The loss averages every row over its own number of valid points and then over the rows, but the backward divides by the number of valid points of the whole batch; the scale is only right when all rows have equally many valid points."""
WRONG = ["scale = mask.to(err.dtype) / mask.sum()"]
RIGHT = ["scale = mask.to(err.dtype) / (mask.sum(dim=1, keepdim=True).clamp(min=1) * mask.size(0))"]
NAME = "MaskedQuantileHuber"
# --- code
import torch


class MaskedQuantileHuber(torch.autograd.Function):
    """Smoothed pinball loss on series of unequal length; mean per series, then over series."""

    @staticmethod
    def forward(ctx, pred, target, mask, tau, delta):
        err = target - pred
        a = err.abs()
        huber = torch.where(a <= delta, 0.5 * err * err, delta * (a - 0.5 * delta))
        side = torch.where(err < 0, 1.0 - tau, tau).to(err.dtype)
        count = mask.sum(dim=1).clamp(min=1)
        per_series = (side * huber * mask).sum(dim=1) / count
        ctx.save_for_backward(err, side, mask)
        ctx.delta = delta
        return per_series.mean()

    @staticmethod
    def backward(ctx, grad_out):
        err, side, mask = ctx.saved_tensors
        scale = mask.to(err.dtype) / mask.sum()
        d_err = side * err.clamp(-ctx.delta, ctx.delta) * scale * grad_out
        return -d_err, d_err, None, None, None


def inputs():
    torch.manual_seed(0)
    pred = torch.randn(3, 6, dtype=torch.float64)
    target = torch.randn(3, 6, dtype=torch.float64)
    mask = torch.arange(6) < torch.tensor([[6], [3], [2]])
    return (pred, target, mask, 0.8, 0.7)


# %% group_norm_2
"""The per-channel weight is multiplied in after the projection instead of before it: the two group means have to be taken of grad_out * weight, because the weight varies inside a group and does not commute with the means."""
WRONG = ["g = grad_out.reshape(xhat.shape)", "grad_x = (rstd * (g - m1 - xhat * m2)).reshape(b, c, t) * weight[:, None]"]
RIGHT = ["g = (grad_out * weight[:, None]).reshape(xhat.shape)", "grad_x = (rstd * (g - m1 - xhat * m2)).reshape(b, c, t)"]
NAME = "GroupNorm1d"
# --- code
import torch
import torch.nn.functional as F


class GroupNorm1d(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, bias, groups, eps):
        b, c, t = x.shape
        xg = x.reshape(b, groups, -1)
        mean = xg.mean(dim=-1, keepdim=True)
        var = xg.var(dim=-1, unbiased=False, keepdim=True)
        y = ((xg - mean) * (var + eps).rsqrt()).reshape(b, c, t)
        return y * weight[:, None] + bias[:, None]

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, groups, eps = inputs
        ctx.save_for_backward(x, weight)
        ctx.groups, ctx.eps = groups, eps

    @staticmethod
    def backward(ctx, grad_out):
        x, weight = ctx.saved_tensors
        b, c, t = x.shape
        xg = x.reshape(b, ctx.groups, -1)
        var, mean = torch.var_mean(xg, dim=-1, unbiased=False, keepdim=True)
        rstd = (var + ctx.eps).rsqrt()
        xhat = (xg - mean) * rstd
        grad_weight = (grad_out * xhat.reshape(b, c, t)).sum(dim=(0, 2))
        grad_bias = grad_out.sum(dim=(0, 2))
        g = grad_out.reshape(xhat.shape)
        m1 = g.mean(dim=-1, keepdim=True)
        m2 = (g * xhat).mean(dim=-1, keepdim=True)
        grad_x = (rstd * (g - m1 - xhat * m2)).reshape(b, c, t) * weight[:, None]
        return grad_x, grad_weight, grad_bias, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    weight = torch.randn(6, dtype=torch.float64)
    bias = torch.randn(6, dtype=torch.float64)
    return (x, weight, bias, 2, 1e-5)


def reference(x, weight, bias, groups, eps):
    return F.group_norm(x, groups, weight, bias, eps)


# %% clamped_swiglu_3
"""The gate is clamped from above only, the linear branch from both sides; the backward uses the two-sided test for the gate too, so it drops the gradient of gates below -limit, which the forward passes unclamped."""
WRONG = ["d_gate = d_gate.masked_fill(gate.abs() > lim, 0.0)"]
RIGHT = ["d_gate = d_gate.masked_fill(gate > lim, 0.0)"]
NAME = "ClampedSwiGLU"
# --- code
import torch


class ClampedSwiGLU(torch.autograd.Function):
    """Expert activation on the packed projection: even columns gate, odd columns linear."""

    @staticmethod
    def forward(ctx, packed, alpha, limit):
        gate, lin = packed[..., ::2], packed[..., 1::2]
        gc = gate.clamp(max=limit)
        lc = lin.clamp(min=-limit, max=limit)
        ctx.save_for_backward(packed)
        ctx.alpha, ctx.limit = alpha, limit
        return gc * torch.sigmoid(alpha * gc) * (lc + 1.0)

    @staticmethod
    def backward(ctx, grad_out):
        (packed,) = ctx.saved_tensors
        lim = ctx.limit
        gate, lin = packed[..., ::2], packed[..., 1::2]
        gc = gate.clamp(max=lim)
        lc = lin.clamp(min=-lim, max=lim)
        s = torch.sigmoid(ctx.alpha * gc)
        d_gate = grad_out * (lc + 1.0) * s * (1.0 + ctx.alpha * gc * (1.0 - s))
        d_lin = grad_out * gc * s
        d_gate = d_gate.masked_fill(gate.abs() > lim, 0.0)
        d_lin = d_lin.masked_fill(lin.abs() > lim, 0.0)
        grad = torch.stack((d_gate, d_lin), dim=-1).flatten(-2)
        return grad, None, None


def inputs():
    torch.manual_seed(0)
    packed = torch.randn(4, 8, dtype=torch.float64) * 1.5
    return (packed, 1.702, 1.2)


def reference(packed, alpha, limit):
    gate = packed[..., ::2].clamp(max=limit)
    lin = packed[..., 1::2].clamp(min=-limit, max=limit)
    return gate * torch.sigmoid(alpha * gate) * (lin + 1.0)


# %% sink_attention_4
"""To save memory the probabilities are recomputed in the backward, but with a plain softmax over the keys that leaves the sink logit out of the denominator; the forward normalizes by the log-sum-exp including the sink."""
WRONG = ["p = torch.softmax(scores, dim=-1)"]
RIGHT = ["p = torch.exp(scores - lse)"]
NAME = "SinkAttention"
# --- code
import math
import torch


class SinkAttention(torch.autograd.Function):
    """Attention with one learned sink logit per head that takes probability and has no value."""

    @staticmethod
    def _scores(q, k):
        s = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.size(-1))
        t = s.size(-1)
        causal = torch.ones(t, t, dtype=torch.bool, device=s.device).triu(1)
        return s.masked_fill(causal, float("-inf"))

    @staticmethod
    def forward(ctx, q, k, v, sink):
        scores = SinkAttention._scores(q, k)
        logit = sink.view(1, -1, 1, 1)
        lse = torch.logaddexp(scores.logsumexp(dim=-1, keepdim=True), logit)
        out = torch.exp(scores - lse) @ v
        ctx.save_for_backward(q, k, v, sink, lse)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        q, k, v, sink, lse = ctx.saved_tensors
        scores = SinkAttention._scores(q, k)
        p = torch.softmax(scores, dim=-1)
        p_sink = torch.exp(sink.view(1, -1, 1, 1) - lse)
        dp = grad_out @ v.transpose(-1, -2)
        delta = (dp * p).sum(dim=-1, keepdim=True)
        ds = p * (dp - delta) / math.sqrt(q.size(-1))
        grad_sink = -(p_sink * delta).sum(dim=(0, 2, 3))
        return ds @ k, ds.transpose(-1, -2) @ q, p.transpose(-1, -2) @ grad_out, grad_sink


def inputs():
    torch.manual_seed(0)
    q = torch.randn(1, 2, 4, 3, dtype=torch.float64)
    k = torch.randn(1, 2, 4, 3, dtype=torch.float64)
    v = torch.randn(1, 2, 4, 3, dtype=torch.float64)
    sink = torch.randn(2, dtype=torch.float64)
    return (q, k, v, sink)


def reference(q, k, v, sink):
    s = SinkAttention._scores(q, k)
    extra = sink.view(1, -1, 1, 1).expand(*s.shape[:-1], 1)
    return torch.cat((s, extra), dim=-1).softmax(dim=-1)[..., :-1] @ v


# %% curve_lookup_5
"""Queries outside the table are clamped to the end values, so the curve is flat there, but the backward still returns the slope of the end cell for them."""
WRONG = ["grad_query = grad_out * (table[cell + 1] - table[cell]) / ctx.step"]
RIGHT = ["grad_query = grad_out * (table[cell + 1] - table[cell]) / ctx.step * ((query > ctx.start) & (query < ctx.start + ctx.step * (table.numel() - 1)))"]
NAME = "CurveLookup"
# --- code
import torch


class CurveLookup(torch.autograd.Function):
    """Piecewise linear efficiency map on a uniform axis, held constant beyond both ends."""

    @staticmethod
    def locate(query, n, start, step):
        pos = ((query - start) / step).clamp(0, n - 1)
        cell = pos.floor().long().clamp(max=n - 2)
        return cell, pos - cell

    @staticmethod
    def forward(ctx, query, table, start, step):
        cell, frac = CurveLookup.locate(query, table.numel(), start, step)
        ctx.save_for_backward(query, table)
        ctx.start, ctx.step = start, step
        return torch.lerp(table[cell], table[cell + 1], frac)

    @staticmethod
    def backward(ctx, grad_out):
        query, table = ctx.saved_tensors
        grad_query = grad_table = None
        cell, frac = CurveLookup.locate(query, table.numel(), ctx.start, ctx.step)
        if ctx.needs_input_grad[0]:
            grad_query = grad_out * (table[cell + 1] - table[cell]) / ctx.step
        if ctx.needs_input_grad[1]:
            grad_table = torch.zeros_like(table)
            grad_table.index_add_(0, cell.flatten(), (grad_out * (1 - frac)).flatten())
            grad_table.index_add_(0, cell.flatten() + 1, (grad_out * frac).flatten())
        return grad_query, grad_table, None, None


def inputs():
    torch.manual_seed(0)
    query = torch.tensor([[-0.63, 0.21, 0.87], [1.34, 2.71, 1.93]], dtype=torch.float64)
    table = torch.randn(5, dtype=torch.float64)
    return (query, table, 0.0, 0.5)


# %% cubic_upsample_6
"""Indexed += keeps only one of the contributions when the index list has repeated entries; every source sample is read by several outputs (and the clamped border samples even more often), so the gradient has to be accumulated with index_add_."""
WRONG = ["grad_x[:, src] += grad_out * w[:, tap]"]
RIGHT = ["grad_x.index_add_(1, src, grad_out * w[:, tap])"]
NAME = "CubicUpsample"
# --- code
import torch


def catmull_rom(f):
    w0 = ((-0.5 * f + 1.0) * f - 0.5) * f
    w1 = (1.5 * f - 2.5) * f * f + 1.0
    w2 = ((-1.5 * f + 2.0) * f + 0.5) * f
    w3 = (0.5 * f - 0.5) * f * f
    return torch.stack((w0, w1, w2, w3), dim=-1)


class CubicUpsample(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        n = x.size(1)
        pos = torch.arange(n * factor, dtype=x.dtype, device=x.device)
        pos = (pos + 0.5) / factor - 0.5
        base = pos.floor()
        w = catmull_rom(pos - base)
        base = base.long()
        out = 0
        for tap in range(4):
            src = (base + tap - 1).clamp(0, n - 1)
            out = out + x[:, src] * w[:, tap]
        ctx.save_for_backward(base, w)
        ctx.n = n
        return out

    @staticmethod
    def backward(ctx, grad_out):
        base, w = ctx.saved_tensors
        grad_x = grad_out.new_zeros(grad_out.size(0), ctx.n)
        for tap in range(4):
            src = (base + tap - 1).clamp(0, ctx.n - 1)
            grad_x[:, src] += grad_out * w[:, tap]
        return grad_x, None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(2, 5, dtype=torch.float64), 3)


# %% equilibrium_layer_7
"""The Jacobian of tanh(Wz + x) is diag(d) W, so its transpose is W^T with columns scaled by d; the backward scales the rows (unsqueeze on the wrong side) and solves with diag(d) W^T instead."""
WRONG = ["jac_t = weight.t() * d.unsqueeze(2)"]
RIGHT = ["jac_t = weight.t() * d.unsqueeze(1)"]
NAME = "EquilibriumLayer"
# --- code
import torch


class EquilibriumLayer(torch.autograd.Function):
    """Solves z = tanh(z W^T + x) and differentiates implicitly."""

    @staticmethod
    def forward(ctx, x, weight, max_iter, tol):
        z = torch.zeros_like(x)
        for _ in range(max_iter):
            z_new = torch.tanh(z @ weight.t() + x)
            done = (z_new - z).abs().max() < tol
            z = z_new
            if done:
                break
        ctx.save_for_backward(z, weight)
        return z

    @staticmethod
    def backward(ctx, grad_z):
        z, weight = ctx.saved_tensors
        d = 1.0 - z * z
        eye = torch.eye(z.size(1), dtype=z.dtype, device=z.device)
        jac_t = weight.t() * d.unsqueeze(2)
        u = torch.linalg.solve(eye - jac_t, grad_z.unsqueeze(-1)).squeeze(-1)
        grad_x = d * u
        grad_weight = torch.einsum("bi,bj->ij", grad_x, z)
        return grad_x, grad_weight, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64)
    weight = 0.25 * torch.randn(4, 4, dtype=torch.float64)
    return (x, weight, 300, 1e-13)


# %% padded_fir_8
"""The forward pads by repeating the end samples, but the backward crops the padding off; the gradients that fell on the padded copies must be added to the first and last sample."""
WRONG = ["grad_x = grad_pad[:, half:half + n]"]
RIGHT = ["grad_x = grad_pad[:, half:half + n].clone()\n        grad_x[:, 0] += grad_pad[:, :half].sum(dim=1)\n        grad_x[:, -1] += grad_pad[:, half + n:].sum(dim=1)"]
NAME = "PaddedFIR"
# --- code
import torch
import torch.nn.functional as F


class PaddedFIR(torch.autograd.Function):
    """Same-length FIR filter with learnable taps; edges are held."""

    @staticmethod
    def forward(ctx, x, taps):
        half = taps.numel() // 2
        xp = F.pad(x.unsqueeze(1), (half, half), mode="replicate").squeeze(1)
        frames = xp.unfold(1, taps.numel(), 1)
        ctx.save_for_backward(xp, taps)
        return frames @ taps

    @staticmethod
    def backward(ctx, grad_out):
        xp, taps = ctx.saved_tensors
        k, n = taps.numel(), grad_out.size(1)
        half = k // 2
        grad_taps = torch.einsum("bt,btk->k", grad_out, xp.unfold(1, k, 1))
        grad_pad = torch.zeros_like(xp)
        for j in range(k):
            grad_pad[:, j:j + n] += grad_out * taps[j]
        grad_x = grad_pad[:, half:half + n]
        return grad_x, grad_taps


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 8, dtype=torch.float64)
    taps = torch.randn(5, dtype=torch.float64)
    return (x, taps)


# %% camera_projection_9
"""The radial distortion depends on both normalized coordinates, so each of them also moves the other pixel coordinate; the backward keeps only the diagonal terms and leaves the cross terms of the distortion out."""
WRONG = ["gx = gu * (radial + slope * xn * xn)", "gy = gv * (radial + slope * yn * yn)"]
RIGHT = ["gx = gu * radial + (gu * xn + gv * yn) * slope * xn", "gy = gv * radial + (gu * xn + gv * yn) * slope * yn"]
NAME = "CameraProjection"
# --- code
import torch


class CameraProjection(torch.autograd.Function):
    """Pinhole projection with two radial distortion coefficients."""

    @staticmethod
    def forward(ctx, points, focal, center, dist):
        xy = points[:, :2] / points[:, 2:]
        r2 = (xy * xy).sum(dim=1, keepdim=True)
        radial = 1.0 + r2 * (dist[0] + dist[1] * r2)
        ctx.save_for_backward(points, focal, dist)
        return focal * xy * radial + center

    @staticmethod
    def backward(ctx, grad_pix):
        points, focal, dist = ctx.saved_tensors
        z = points[:, 2]
        xn, yn = points[:, 0] / z, points[:, 1] / z
        r2 = xn * xn + yn * yn
        radial = 1.0 + r2 * (dist[0] + dist[1] * r2)
        slope = 2.0 * (dist[0] + 2.0 * dist[1] * r2)
        gu, gv = grad_pix[:, 0] * focal[0], grad_pix[:, 1] * focal[1]
        gx = gu * (radial + slope * xn * xn)
        gy = gv * (radial + slope * yn * yn)
        grad_points = torch.stack((gx / z, gy / z, -(gx * xn + gy * yn) / z), dim=1)
        xy = torch.stack((xn, yn), dim=1)
        grad_focal = (grad_pix * xy * radial[:, None]).sum(dim=0)
        g_radial = gu * xn + gv * yn
        grad_dist = torch.stack(((g_radial * r2).sum(), (g_radial * r2 * r2).sum()))
        return grad_points, grad_focal, grad_pix.sum(dim=0), grad_dist


def inputs():
    torch.manual_seed(0)
    points = torch.randn(4, 3, dtype=torch.float64)
    points[:, 2] = points[:, 2].abs() + 2.0
    focal = torch.tensor([2.1, 1.9], dtype=torch.float64)
    center = torch.tensor([0.5, 0.4], dtype=torch.float64)
    dist = torch.tensor([0.3, -0.1], dtype=torch.float64)
    return (points, focal, center, dist)


# %% weighted_moments_10
"""The weights are normalized by their sum, so a weight also changes the denominator of the variance; the gradient of the variance with respect to a weight lacks the -var term (the mean has it through the centering)."""
WRONG = ["grad_w = (c @ g_mean + (c * c) @ g_var) / total"]
RIGHT = ["grad_w = (c @ g_mean + (c * c - var) @ g_var) / total"]
NAME = "WeightedMoments"
# --- code
import torch


class WeightedMoments(torch.autograd.Function):
    """Weighted mean and variance of the columns of x, one weight per row."""

    @staticmethod
    def forward(x, w):
        total = w.sum()
        mean = (w @ x) / total
        c = x - mean
        var = (w @ (c * c)) / total
        return mean, var

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w = inputs
        mean, var = output
        ctx.save_for_backward(x, w, mean, var)

    @staticmethod
    def backward(ctx, g_mean, g_var):
        x, w, mean, var = ctx.saved_tensors
        total = w.sum()
        c = x - mean
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            grad_x = (w / total)[:, None] * (g_mean + 2.0 * c * g_var)
        if ctx.needs_input_grad[1]:
            grad_w = (c @ g_mean + (c * c) @ g_var) / total
        return grad_x, grad_w


def inputs():
    torch.manual_seed(0)
    x = torch.randn(6, 3, dtype=torch.float64)
    w = torch.rand(6, dtype=torch.float64) + 0.2
    return (x, w)


# %% soft_step_quantizer_11
"""The scale acts twice, as the factor outside and through x / scale inside the staircase; the backward gives it only the outer factor and drops the inner term -slope * x / scale."""
WRONG = ["grad_scale = (grad_out * level).sum(dim=1, keepdim=True)"]
RIGHT = ["grad_scale = (grad_out * (level - slope * x / scale)).sum(dim=1, keepdim=True)"]
NAME = "SoftStepQuantizer"
# --- code
import math
import torch


class SoftStepQuantizer(torch.autograd.Function):
    """Per-channel differentiable quantizer: a smooth staircase of hardness beta, range clipped."""

    @staticmethod
    def forward(ctx, x, scale, beta, qmin, qmax):
        r = x / scale
        rc = r.clamp(qmin, qmax)
        k = rc.floor()
        t = torch.tanh(beta * (rc - k - 0.5))
        norm = math.tanh(0.5 * beta)
        level = k + 0.5 + 0.5 * t / norm
        inside = (r > qmin) & (r < qmax)
        ctx.save_for_backward(x, scale, level, t, inside)
        ctx.beta, ctx.norm = beta, norm
        return level * scale

    @staticmethod
    def backward(ctx, grad_out):
        x, scale, level, t, inside = ctx.saved_tensors
        slope = 0.5 * ctx.beta * (1.0 - t * t) / ctx.norm
        slope = slope.masked_fill(~inside, 0.0)
        grad_x = grad_out * slope
        grad_scale = (grad_out * level).sum(dim=1, keepdim=True)
        return grad_x, grad_scale, None, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 6, dtype=torch.float64)
    scale = torch.tensor([[0.31], [0.47], [0.6]], dtype=torch.float64)
    return (x, scale, 4.0, -3, 3)


# %% gru_cell_12
"""The hidden part of the candidate is recomputed in the backward to save memory, but without the bias b_hn that the reset gate multiplies in the forward; the gradient of the reset gate is wrong."""
WRONG = ["hn = h @ w_hh[2 * size:].t()"]
RIGHT = ["hn = h @ w_hh[2 * size:].t() + b_hh[2 * size:]"]
NAME = "FusedGRUCell"
# --- code
import torch


class FusedGRUCell(torch.autograd.Function):
    """Gates from precomputed input projections gi; keeps the three activations only."""

    @staticmethod
    def forward(ctx, gi, h, w_hh, b_hh):
        gh = torch.addmm(b_hh, h, w_hh.t())
        i_r, i_z, i_n = gi.chunk(3, dim=1)
        h_r, h_z, h_n = gh.chunk(3, dim=1)
        r = torch.sigmoid(i_r + h_r)
        z = torch.sigmoid(i_z + h_z)
        n = torch.tanh(i_n + r * h_n)
        ctx.save_for_backward(h, w_hh, b_hh, r, z, n)
        return n + z * (h - n)

    @staticmethod
    def backward(ctx, grad_h):
        h, w_hh, b_hh, r, z, n = ctx.saved_tensors
        size = h.size(1)
        hn = h @ w_hh[2 * size:].t()
        d_n = grad_h * (1 - z) * (1 - n * n)
        d_z = grad_h * (h - n) * z * (1 - z)
        d_r = d_n * hn * r * (1 - r)
        grad_gi = torch.cat((d_r, d_z, d_n), dim=1)
        d_gh = torch.cat((d_r, d_z, d_n * r), dim=1)
        grad_prev = grad_h * z + d_gh @ w_hh
        return grad_gi, grad_prev, d_gh.t() @ h, d_gh.sum(dim=0)


def inputs():
    torch.manual_seed(0)
    gi = torch.randn(2, 9, dtype=torch.float64)
    h = torch.randn(2, 3, dtype=torch.float64)
    w_hh = torch.randn(9, 3, dtype=torch.float64)
    b_hh = torch.randn(9, dtype=torch.float64)
    return (gi, h, w_hh, b_hh)


# %% lstm_pointwise_13
"""With set_materialize_grads(False) an output nobody used comes as None; the early return drops the whole gradient as soon as the cell state is unused (the last step of a sequence), although the gradient of h is there."""
WRONG = ["if grad_c is None:"]
RIGHT = ["if grad_h is None and grad_c is None:"]
NAME = "LSTMPointwise"
# --- code
import torch


class LSTMPointwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gates, c_prev):
        ctx.set_materialize_grads(False)
        i, f, g, o = gates.chunk(4, dim=1)
        i, f, o = i.sigmoid(), f.sigmoid(), o.sigmoid()
        g = g.tanh()
        c = f * c_prev + i * g
        ctx.save_for_backward(i, f, g, o, c_prev, c)
        return o * c.tanh(), c

    @staticmethod
    def backward(ctx, grad_h, grad_c):
        if grad_c is None:
            return None, None
        i, f, g, o, c_prev, c = ctx.saved_tensors
        tc = c.tanh()
        dc = torch.zeros_like(c) if grad_c is None else grad_c
        do = torch.zeros_like(c)
        if grad_h is not None:
            dc = dc + grad_h * o * (1 - tc * tc)
            do = grad_h * tc * o * (1 - o)
        di = dc * g * i * (1 - i)
        df = dc * c_prev * f * (1 - f)
        dg = dc * i * (1 - g * g)
        return torch.cat((di, df, dg, do), dim=1), dc * f


def inputs():
    torch.manual_seed(0)
    gates = torch.randn(2, 12, dtype=torch.float64)
    c_prev = torch.randn(2, 3, dtype=torch.float64)
    return (gates, c_prev)


# %% si_sdr_loss_14
"""The derivative of 10 log10(u) is 10 / (ln 10 * u); the backward multiplies by ln 10 instead of dividing, so the gradient is too large by ln(10)^2 = 5.3."""
WRONG = ["scale = -10.0 * math.log(10.0) * grad_out / est.size(0)"]
RIGHT = ["scale = -10.0 / math.log(10.0) * grad_out / est.size(0)"]
NAME = "NegSISDR"
# --- code
import math
import torch


class NegSISDR(torch.autograd.Function):
    """Negative scale-invariant SDR in dB, mean over the batch."""

    @staticmethod
    def forward(ctx, est, ref, eps):
        dot = (est * ref).sum(dim=-1, keepdim=True)
        alpha = dot / ref.square().sum(dim=-1, keepdim=True)
        proj = alpha * ref
        noise = est - proj
        p_sig = proj.square().sum(dim=-1, keepdim=True) + eps
        p_noise = noise.square().sum(dim=-1, keepdim=True) + eps
        ctx.save_for_backward(est, ref, alpha, p_sig, p_noise)
        return -10.0 * torch.log10(p_sig / p_noise).mean()

    @staticmethod
    def backward(ctx, grad_out):
        est, ref, alpha, p_sig, p_noise = ctx.saved_tensors
        scale = -10.0 * math.log(10.0) * grad_out / est.size(0)
        proj = alpha * ref
        noise = est - proj
        grad_est = 2.0 * scale * (proj / p_sig - noise / p_noise)
        grad_ref = 2.0 * scale * alpha * noise * (1.0 / p_sig + 1.0 / p_noise)
        return grad_est, grad_ref, None


def inputs():
    torch.manual_seed(0)
    ref = torch.randn(3, 6, dtype=torch.float64)
    est = 0.7 * ref + 0.5 * torch.randn(3, 6, dtype=torch.float64)
    return (est, ref, 1e-8)


def reference(est, ref, eps):
    alpha = (est * ref).sum(-1, keepdim=True) / (ref * ref).sum(-1, keepdim=True)
    proj = alpha * ref
    ratio = ((proj ** 2).sum(-1) + eps) / (((est - proj) ** 2).sum(-1) + eps)
    return -10.0 * torch.log10(ratio).mean()


# %% charbonnier_15
"""The residual is saved for the backward and then overwritten by the in-place square_/add_/sqrt_ chain in the forward, so the backward reads sqrt(r^2 + eps^2) in place of r."""
WRONG = ["value = resid.square_().add_(eps * eps).sqrt_()"]
RIGHT = ["value = resid.square().add_(eps * eps).sqrt_()"]
NAME = "CharbonnierLoss"
# --- code
import torch


class CharbonnierLoss(torch.autograd.Function):
    """Weighted robust image loss; one weight per pixel, shared by the channels."""

    @staticmethod
    def forward(ctx, pred, target, weight, eps):
        resid = pred - target
        ctx.save_for_backward(resid, weight)
        ctx.eps = eps
        value = resid.square_().add_(eps * eps).sqrt_()
        return (weight.unsqueeze(1) * value).mean()

    @staticmethod
    def backward(ctx, grad_out):
        resid, weight = ctx.saved_tensors
        root = torch.sqrt(resid * resid + ctx.eps ** 2)
        g = grad_out / resid.numel()
        grad_pred = g * weight.unsqueeze(1) * resid / root
        grad_target = grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_target = -grad_pred
        if ctx.needs_input_grad[2]:
            grad_weight = g * root.sum(dim=1)
        return grad_pred, grad_target, grad_weight, None


def inputs():
    torch.manual_seed(0)
    pred = torch.randn(2, 3, 2, 2, dtype=torch.float64)
    target = torch.randn(2, 3, 2, 2, dtype=torch.float64)
    weight = torch.rand(2, 2, 2, dtype=torch.float64)
    return (pred, target, weight, 0.1)


def reference(pred, target, weight, eps):
    return (weight.unsqueeze(1) * torch.sqrt((pred - target) ** 2 + eps ** 2)).mean()


# %% log_cosh_16
"""The first derivative tanh(a x) is right, but its own derivative in the custom double backward lacks the inner factor a; gradcheck passes, gradgradcheck fails (any a != 1)."""
WRONG = ["grad_x = grad_grad * grad_out * (1.0 - t * t)"]
RIGHT = ["grad_x = grad_grad * grad_out * ctx.a * (1.0 - t * t)"]
NAME = "LogCosh"
# --- code
import math
import torch
import torch.nn.functional as F


class LogCoshBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, grad_out, x, a):
        ctx.save_for_backward(grad_out, x)
        ctx.a = a
        return grad_out * torch.tanh(a * x)

    @staticmethod
    def backward(ctx, grad_grad):
        grad_out, x = ctx.saved_tensors
        t = torch.tanh(ctx.a * x)
        grad_x = grad_grad * grad_out * (1.0 - t * t)
        return grad_grad * t, grad_x, None


class LogCosh(torch.autograd.Function):
    """log(cosh(a x)) / a without overflow, twice differentiable for the force-matching loss."""

    @staticmethod
    def forward(ctx, x, a):
        ctx.save_for_backward(x)
        ctx.a = a
        y = (a * x).abs()
        return (y + F.softplus(-2.0 * y) - math.log(2.0)) / a

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        return LogCoshBackward.apply(grad_out, x, ctx.a), None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(3, 4, dtype=torch.float64), 2.5)


def reference(x, a):
    return torch.log(torch.cosh(a * x)) / a


# %% hard_swish_17
"""The backward multiplies the incoming gradient in place; autograd hands the same tensor to other branches, so in a residual x + f(x) the skip path gets the modified gradient. Gradcheck of f alone passes; gradcheck of x + f(x) fails."""
WRONG = ["grad_x = grad_out.mul_(slope)"]
RIGHT = ["grad_x = grad_out.mul(slope)"]
NAME = "HardSwish"
# --- code
import torch
import torch.nn.functional as F


class HardSwish(torch.autograd.Function):
    """x * relu6(x + 3) / 6; the slope is rebuilt from x in the backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * (x + 3.0).clamp(0.0, 6.0) / 6.0

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        slope = (2.0 * x + 3.0).div_(6.0)
        slope.masked_fill_(x <= -3.0, 0.0)
        slope.masked_fill_(x >= 3.0, 1.0)
        grad_x = grad_out.mul_(slope)
        return grad_x


def inputs():
    torch.manual_seed(0)
    return (torch.randn(4, 5, dtype=torch.float64) * 3.0,)


def reference(x):
    return F.hardswish(x)


# %% gaussian_smooth_18
"""The kernel cache on the class is keyed by the radius but not by sigma: the first call of a process is right, a later call with the same radius and another sigma gets the old kernel in forward and backward (output differs from the reference)."""
WRONG = ["key = (radius, x.dtype, x.device)"]
RIGHT = ["key = (radius, sigma, x.dtype, x.device)"]
NAME = "GaussianSmooth"
# --- code
import torch
import torch.nn.functional as F


class GaussianSmooth(torch.autograd.Function):
    """Depthwise Gaussian smoothing over the last axis, zero padded."""

    _kernels = {}

    @classmethod
    def kernel(cls, x, sigma, radius):
        key = (radius, x.dtype, x.device)
        if key not in cls._kernels:
            t = torch.arange(-radius, radius + 1, dtype=x.dtype, device=x.device)
            k = torch.exp(-0.5 * (t / sigma) ** 2)
            cls._kernels[key] = k / k.sum()
        return cls._kernels[key]

    @staticmethod
    def smooth(x, k):
        n = x.size(-1)
        return F.conv1d(x.reshape(-1, 1, n), k.view(1, 1, -1), padding=k.numel() // 2).view_as(x)

    @staticmethod
    def forward(ctx, x, sigma, radius):
        k = GaussianSmooth.kernel(x, sigma, radius)
        ctx.save_for_backward(k)
        return GaussianSmooth.smooth(x, k)

    @staticmethod
    def backward(ctx, grad_out):
        (k,) = ctx.saved_tensors
        return GaussianSmooth.smooth(grad_out, k.flip(0)), None, None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(2, 2, 7, dtype=torch.float64), 1.3, 2)


def reference(x, sigma, radius):
    t = torch.arange(-radius, radius + 1, dtype=x.dtype)
    k = torch.softmax(-0.5 * (t / sigma) ** 2, dim=0).expand(x.size(1), 1, -1)
    return F.conv1d(x, k, padding=radius, groups=x.size(1))


# %% strided_conv_19
"""needs_input_grad has one entry per argument of forward, non-tensor ones included; the stride sits at position 2, so the bias is at 3, and with index 2 (always False) the bias never gets a gradient."""
WRONG = ["if ctx.needs_input_grad[2]:"]
RIGHT = ["if ctx.needs_input_grad[3]:"]
NAME = "StridedConv1d"
# --- code
import torch
import torch.nn.functional as F


class StridedConv1d(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, stride, bias):
        cols = x.unfold(2, weight.size(2), stride)
        return torch.einsum("bclk,ock->bol", cols, weight) + bias[:, None]

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, stride, _ = inputs
        ctx.save_for_backward(x, weight)
        ctx.stride = stride

    @staticmethod
    def backward(ctx, grad_out):
        x, weight = ctx.saved_tensors
        k, s = weight.size(2), ctx.stride
        grad_x = grad_w = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.zeros_like(x)
            span = s * (grad_out.size(2) - 1) + 1
            for j in range(k):
                part = torch.einsum("bol,oc->bcl", grad_out, weight[:, :, j])
                grad_x[:, :, j:j + span:s] += part
        if ctx.needs_input_grad[1]:
            grad_w = torch.einsum("bol,bclk->ock", grad_out, x.unfold(2, k, s))
        if ctx.needs_input_grad[2]:
            grad_b = grad_out.sum(dim=(0, 2))
        return grad_x, grad_w, None, grad_b


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 2, 8, dtype=torch.float64)
    weight = torch.randn(3, 2, 3, dtype=torch.float64)
    bias = torch.randn(3, dtype=torch.float64)
    return (x, weight, 2, bias)


def reference(x, weight, stride, bias):
    return F.conv1d(x, weight, bias, stride=stride)


# %% absmax_rescale_20
"""The block scale is max |x|, so its gradient reaches the largest entry with the sign of that entry; the backward adds it without the sign and is wrong in every block whose largest entry is negative."""
WRONG = ["grad = grad.scatter_add(-1, pos, d_amax)"]
RIGHT = ["grad = grad.scatter_add(-1, pos, d_amax * blocks.gather(-1, pos).sign())"]
NAME = "AbsmaxRescale"
# --- code
import torch


class AbsmaxRescale(torch.autograd.Function):
    """Divides each block by its absmax before int8 packing; returns the blocks and the scales."""

    @staticmethod
    def forward(ctx, x, block, qmax):
        blocks = x.reshape(x.size(0), -1, block)
        amax, pos = blocks.abs().max(dim=-1, keepdim=True)
        y = blocks * (qmax / amax)
        ctx.save_for_backward(blocks, amax, pos)
        ctx.qmax = qmax
        return y.view_as(x), amax.squeeze(-1) / qmax

    @staticmethod
    def backward(ctx, grad_y, grad_scale):
        blocks, amax, pos = ctx.saved_tensors
        g = grad_y.reshape(blocks.shape)
        grad = g * (ctx.qmax / amax)
        d_amax = -(grad * blocks).sum(dim=-1, keepdim=True) / amax
        d_amax = d_amax + grad_scale.unsqueeze(-1) / ctx.qmax
        grad = grad.scatter_add(-1, pos, d_amax)
        return grad.reshape(grad_y.shape), None, None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(3, 8, dtype=torch.float64), 4, 127.0)


# %% spectral_weight_21
"""The derivative of W / sigma is (g - <g, W / sigma> u v^T) / sigma; the backward takes the inner product with the raw W, so the correction is too large by the factor sigma."""
WRONG = ["coef = (grad_out * weight).sum()"]
RIGHT = ["coef = (grad_out * weight).sum() / sigma"]
NAME = "SpectralWeight"
# --- code
import torch
import torch.nn.functional as F


class SpectralWeight(torch.autograd.Function):
    """Weight divided by its largest singular value, found by power iteration."""

    @staticmethod
    def forward(ctx, weight, n_iter):
        mat = weight.flatten(1)
        u = F.normalize(mat.sum(dim=1), dim=0)
        for _ in range(n_iter):
            v = F.normalize(mat.t() @ u, dim=0)
            u = F.normalize(mat @ v, dim=0)
        sigma = torch.dot(u, mat @ v)
        ctx.save_for_backward(weight, u, v, sigma)
        return weight / sigma

    @staticmethod
    def backward(ctx, grad_out):
        weight, u, v, sigma = ctx.saved_tensors
        coef = (grad_out * weight).sum()
        rank1 = torch.outer(u, v).view_as(weight)
        return (grad_out - coef * rank1) / sigma, None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(4, 2, 3, dtype=torch.float64), 400)


def reference(weight, n_iter):
    return weight / torch.linalg.matrix_norm(weight.flatten(1), ord=2)


# %% fractional_delay_22
"""Two errors: the adjoint of a delay is an advance, so the gradient of x needs the conjugate phase factor; and the derivative of exp(-i w tau) by tau has the factor -i w, the backward uses +i w and returns the delay gradient with the opposite sign."""
WRONG = ["grad_x = torch.fft.irfft(torch.fft.rfft(grad_out) * phase, n=n)", "dy = torch.fft.irfft(spec * phase * (1j * omega), n=n)"]
RIGHT = ["grad_x = torch.fft.irfft(torch.fft.rfft(grad_out) * phase.conj(), n=n)", "dy = torch.fft.irfft(spec * phase * (-1j * omega), n=n)"]
NAME = "FractionalDelay"
# --- code
import math
import torch


class FractionalDelay(torch.autograd.Function):
    """Circular delay of every channel by a learned, non-integer number of samples."""

    @staticmethod
    def ramp(delay, n):
        omega = torch.arange(n // 2 + 1, dtype=delay.dtype, device=delay.device)
        omega = omega * (2.0 * math.pi / n)
        return omega, torch.exp(-1j * delay[:, None] * omega)

    @staticmethod
    def forward(ctx, x, delay):
        n = x.size(-1)
        _, phase = FractionalDelay.ramp(delay, n)
        ctx.save_for_backward(x, delay)
        return torch.fft.irfft(torch.fft.rfft(x) * phase, n=n)

    @staticmethod
    def backward(ctx, grad_out):
        x, delay = ctx.saved_tensors
        n = x.size(-1)
        omega, phase = FractionalDelay.ramp(delay, n)
        grad_x = grad_delay = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.fft.irfft(torch.fft.rfft(grad_out) * phase, n=n)
        if ctx.needs_input_grad[1]:
            spec = torch.fft.rfft(x)
            dy = torch.fft.irfft(spec * phase * (1j * omega), n=n)
            grad_delay = (grad_out * dy).sum(dim=(0, 2))
        return grad_x, grad_delay


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 7, dtype=torch.float64)
    delay = torch.tensor([0.4, 1.7, -0.9], dtype=torch.float64)
    return (x, delay)


# %% ridge_solve_23
"""The matrix enters the normal equations twice (A^T A and A^T b); the backward keeps only the residual term r u^T and misses the term -(A u) x^T from the left factor of A^T A."""
WRONG = ["grad_a = r.unsqueeze(-1) * u.unsqueeze(-2)"]
RIGHT = ["grad_a = r.unsqueeze(-1) * u.unsqueeze(-2) - au.unsqueeze(-1) * x.unsqueeze(-2)"]
NAME = "RidgeSolve"
# --- code
import torch


class RidgeSolve(torch.autograd.Function):
    """Batched damped least squares, x = (A^T A + lam I)^-1 A^T b, one lam for all problems."""

    @staticmethod
    def forward(ctx, a, b, lam):
        eye = torch.eye(a.size(-1), dtype=a.dtype, device=a.device)
        chol = torch.linalg.cholesky(a.mT @ a + lam * eye)
        atb = torch.einsum("bmn,bm->bn", a, b)
        x = torch.cholesky_solve(atb.unsqueeze(-1), chol).squeeze(-1)
        ctx.save_for_backward(a, b, chol, x)
        return x

    @staticmethod
    def backward(ctx, grad_x):
        a, b, chol, x = ctx.saved_tensors
        u = torch.cholesky_solve(grad_x.unsqueeze(-1), chol).squeeze(-1)
        au = torch.einsum("bmn,bn->bm", a, u)
        r = b - torch.einsum("bmn,bn->bm", a, x)
        grad_a = r.unsqueeze(-1) * u.unsqueeze(-2)
        grad_lam = -(u * x).sum()
        return grad_a, au, grad_lam


def inputs():
    torch.manual_seed(0)
    a = torch.randn(2, 5, 3, dtype=torch.float64)
    b = torch.randn(2, 5, dtype=torch.float64)
    return (a, b, torch.tensor(0.3, dtype=torch.float64))


def reference(a, b, lam):
    eye = torch.eye(a.size(-1), dtype=a.dtype)
    return torch.linalg.solve(a.mT @ a + lam * eye, (a.mT @ b.unsqueeze(-1)).squeeze(-1))


# %% limited_diode_24
"""Above the critical voltage the exponential is continued by its tangent, whose slope depends on n*Vt as well; the backward uses the formula of the exponential region for n*Vt everywhere and misses the part vm * over / nvt of the tangent region."""
WRONG = ["d_nvt = -sat * e * v / nvt ** 2"]
RIGHT = ["d_nvt = -sat * e * (v + vm * over / nvt) / nvt ** 2"]
NAME = "LimitedDiode"
# --- code
import torch


class LimitedDiode(torch.autograd.Function):
    """Junction current with the exponential replaced by its tangent above v_crit, plus gmin."""

    @staticmethod
    def forward(ctx, v, sat, nvt, v_crit, gmin):
        vm = v.clamp(max=v_crit)
        over = v - vm
        e = torch.exp(vm / nvt)
        current = sat * (e * (1.0 + over / nvt) - 1.0) + gmin * v
        ctx.save_for_backward(v, sat, nvt)
        ctx.v_crit, ctx.gmin = v_crit, gmin
        return current

    @staticmethod
    def backward(ctx, grad_i):
        v, sat, nvt = ctx.saved_tensors
        vm = v.clamp(max=ctx.v_crit)
        over = v - vm
        e = torch.exp(vm / nvt)
        d_v = sat * e / nvt + ctx.gmin
        d_sat = e * (1.0 + over / nvt) - 1.0
        d_nvt = -sat * e * v / nvt ** 2
        grad_sat = (grad_i * d_sat).sum(dim=0)
        grad_nvt = (grad_i * d_nvt).sum(dim=0)
        return grad_i * d_v, grad_sat, grad_nvt, None, None


def inputs():
    torch.manual_seed(0)
    v = torch.linspace(-0.5, 1.3, 12, dtype=torch.float64).view(4, 3)
    sat = torch.tensor([0.1, 0.2, 0.15], dtype=torch.float64)
    nvt = torch.tensor([0.30, 0.35, 0.42], dtype=torch.float64)
    return (v, sat, nvt, 0.6, 1e-3)


def reference(v, sat, nvt, v_crit, gmin):
    e_c = torch.exp(v_crit / nvt)
    tangent = e_c * (1.0 + (v - v_crit) / nvt)
    return sat * (torch.where(v > v_crit, tangent, torch.exp(v / nvt)) - 1.0) + gmin * v
