"""Mistakes: held out, small Functions of a researcher. Each cell is a separate module; see benchmarks/repairs.py."""

# %% simplex_projection_1
"""The Jacobian of the simplex projection on its active face is I - 11^T/|support|; the backward divides the sum over the support by the full dimension n instead of by the number of active coordinates, so tau's gradient is too small whenever some coordinates are clipped to zero."""
WRONG = ["tau_grad = (grad_out * active).mean(dim=-1, keepdim=True)"]
RIGHT = ["tau_grad = (grad_out * active).sum(dim=-1, keepdim=True) / active.sum(dim=-1, keepdim=True)"]
NAME = "SimplexProjection"
# --- code
import torch


class SimplexProjection(torch.autograd.Function):
    """Euclidean projection of every row onto {p >= 0, sum p = radius}."""

    @staticmethod
    def forward(ctx, v, radius):
        n = v.shape[-1]
        u, _ = torch.sort(v, dim=-1, descending=True)
        cssv = u.cumsum(dim=-1) - radius
        k = torch.arange(1, n + 1, dtype=v.dtype, device=v.device)
        rho = (u - cssv / k > 0).sum(dim=-1, keepdim=True)
        tau = cssv.gather(-1, rho - 1) / rho.to(v.dtype)
        p = (v - tau).clamp(min=0)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, grad_out):
        p, = ctx.saved_tensors
        active = (p > 0).to(grad_out.dtype)
        tau_grad = (grad_out * active).mean(dim=-1, keepdim=True)
        grad_v = active * (grad_out - tau_grad)
        return grad_v, None


def inputs():
    torch.manual_seed(0)
    v = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    return (v, 1.0)


# %% rbf_gram_2
"""Two mistakes. K(X, X) depends on every row of X both as row and as column, so the cotangent has to be symmetrised (G + G^T); only the row side is used, which is right only up to the factor 2 and only for symmetric G. And the lengthscale derivative of exp(-d2/(2 l^2)) is K d2 / l^3, not K d2 / l^2."""
WRONG = ["W = grad_K * K", "grad_ell = (grad_K * K * d2).sum() / ell ** 2"]
RIGHT = ["W = (grad_K + grad_K.t()) * K", "grad_ell = (grad_K * K * d2).sum() / ell ** 3"]
NAME = "RBFGram"
# --- code
import torch


class RBFGram(torch.autograd.Function):
    """Gram matrix K_ij = exp(-|x_i - x_j|^2 / (2 ell^2)) of one point set."""

    @staticmethod
    def forward(X, ell):
        sq = (X * X).sum(-1)
        d2 = (sq[:, None] + sq[None, :] - 2.0 * X @ X.t()).clamp(min=0)
        K = torch.exp(-0.5 * d2 / ell ** 2)
        return K

    @staticmethod
    def setup_context(ctx, inputs, output):
        X, ell = inputs
        ctx.save_for_backward(X, ell, output)

    @staticmethod
    def backward(ctx, grad_K):
        X, ell, K = ctx.saved_tensors
        grad_X = grad_ell = None
        if ctx.needs_input_grad[0]:
            W = grad_K * K
            grad_X = (W @ X - W.sum(dim=1, keepdim=True) * X) / ell ** 2
        if ctx.needs_input_grad[1]:
            d2 = torch.cdist(X, X).square()
            grad_ell = (grad_K * K * d2).sum() / ell ** 2
        return grad_X, grad_ell


def inputs():
    torch.manual_seed(0)
    X = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    ell = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    return (X, ell)


def reference(X, ell):
    diff = X[:, None, :] - X[None, :, :]
    return torch.exp(-0.5 * diff.square().sum(-1) / ell ** 2)


# %% spd_logm_3
"""The divided difference (log a - log b)/(a - b) is 0/0 whenever two eigenvalues coincide, not only on the diagonal; only the diagonal is replaced by the limit 1/a, so a matrix with a repeated eigenvalue (here diag(2, 2, 1, 3)) gives NaN gradients."""
WRONG = ["same = torch.eye(lam.numel(), dtype=torch.bool, device=lam.device)"]
RIGHT = ["same = gap.abs() < 1e-9 * lam.max()"]
NAME = "SPDLog"
# --- code
import torch
from torch.autograd.function import once_differentiable


class SPDLog(torch.autograd.Function):
    """Matrix logarithm of a symmetric positive definite matrix (Daleckii-Krein)."""

    @staticmethod
    def forward(ctx, A):
        lam, U = torch.linalg.eigh(0.5 * (A + A.t()))
        log_lam = lam.log()
        ctx.save_for_backward(lam, U, log_lam)
        return (U * log_lam) @ U.t()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        lam, U, log_lam = ctx.saved_tensors
        gap = lam[:, None] - lam[None, :]
        num = log_lam[:, None] - log_lam[None, :]
        same = torch.eye(lam.numel(), dtype=torch.bool, device=lam.device)
        gap_inv = 1.0 / gap.masked_fill(same, 1.0)
        deriv = (1.0 / lam)[:, None].expand_as(gap)
        F = torch.where(same, deriv, num * gap_inv)
        grad_sym = 0.5 * (grad_out + grad_out.t())
        inner = F * (U.t() @ grad_sym @ U)
        return U @ inner @ U.t()


def inputs():
    torch.manual_seed(0)
    A = torch.diag(torch.tensor([2.0, 2.0, 1.0, 3.0], dtype=torch.float64))
    return (A.requires_grad_(True),)


# %% gp_marginal_terms_4
"""set_materialize_grads(False) means that the gradient of an unused output arrives as None, but the backward uses both gradients unconditionally; as soon as a loss uses only the data-fit term (or only the log-determinant), g_fit or g_logdet is None and the product raises a TypeError."""
WRONG = ["grad_K = g_logdet * Kinv - g_fit * torch.outer(alpha, alpha)", "return grad_K, 2.0 * g_fit * alpha"]
RIGHT = ["grad_K = torch.zeros_like(Kinv)\nif g_logdet is not None:\n    grad_K = grad_K + g_logdet * Kinv\nif g_fit is not None:\n    grad_K = grad_K - g_fit * torch.outer(alpha, alpha)", "return grad_K, None if g_fit is None else 2.0 * g_fit * alpha"]
NAME = "GPMarginalTerms"
# --- code
import torch
from torch.autograd.function import once_differentiable


class GPMarginalTerms(torch.autograd.Function):
    """Data-fit y^T K^-1 y and log det K from one Cholesky factor."""

    @staticmethod
    def forward(ctx, K, y):
        ctx.set_materialize_grads(False)
        L = torch.linalg.cholesky(0.5 * (K + K.t()))
        alpha = torch.cholesky_solve(y.unsqueeze(-1), L).squeeze(-1)
        fit = y.dot(alpha)
        logdet = 2.0 * L.diagonal().log().sum()
        ctx.save_for_backward(L, alpha)
        return fit, logdet

    @staticmethod
    @once_differentiable
    def backward(ctx, g_fit, g_logdet):
        L, alpha = ctx.saved_tensors
        Kinv = torch.cholesky_inverse(L)
        grad_K = g_logdet * Kinv - g_fit * torch.outer(alpha, alpha)
        return grad_K, 2.0 * g_fit * alpha


def inputs():
    torch.manual_seed(0)
    B = torch.randn(4, 4, dtype=torch.float64)
    K = (B @ B.t() + 2.0 * torch.eye(4, dtype=torch.float64)).requires_grad_(True)
    y = torch.randn(4, dtype=torch.float64, requires_grad=True)
    return (K, y)


# %% sinkhorn_cost_5
"""The backward is the envelope theorem: d/dC of the entropic OT value is the plan P. But the forward returns only the transport part <P, C>, not the regularised value <f, a> + <g, b>; <P, C> also depends on C through P, so P is not its gradient."""
WRONG = ["value = (P * C).sum()"]
RIGHT = ["value = f.dot(a) + g.dot(b)"]
NAME = "SinkhornCost"
# --- code
import torch
from torch.autograd.function import once_differentiable


class SinkhornCost(torch.autograd.Function):
    """Entropic optimal transport in the log domain; gradient without unrolling."""

    @staticmethod
    def forward(ctx, C, a, b, eps, n_iter):
        f = torch.zeros_like(a)
        g = torch.zeros_like(b)
        log_a, log_b = a.log(), b.log()
        for _ in range(n_iter):
            f = eps * (log_a - torch.logsumexp((g[None, :] - C) / eps, dim=1))
            g = eps * (log_b - torch.logsumexp((f[:, None] - C) / eps, dim=0))
        P = torch.exp((f[:, None] + g[None, :] - C) / eps)
        value = (P * C).sum()
        ctx.save_for_backward(P)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_value):
        P, = ctx.saved_tensors
        return grad_value * P, None, None, None, None


def inputs():
    torch.manual_seed(0)
    C = torch.rand(4, 5, dtype=torch.float64, requires_grad=True)
    a = torch.softmax(torch.randn(4, dtype=torch.float64), 0)
    b = torch.softmax(torch.randn(5, dtype=torch.float64), 0)
    return (C, a, b, 0.5, 200)


# %% diagonal_ssm_6
"""In h_t = a h_{t-1} + b x_t the derivative with respect to a is the previous state h_{t-1}, but the reverse loop multiplies by the state after the update (states[t + 1] is h_t, because states[0] is the initial state)."""
WRONG = ["grad_a = grad_a + (dh * states[t + 1]).sum(0)"]
RIGHT = ["grad_a = grad_a + (dh * states[t]).sum(0)"]
NAME = "DiagonalSSM"
# --- code
import torch
from torch.autograd.function import once_differentiable


class DiagonalSSM(torch.autograd.Function):
    """x: (T, B) scalar input, diagonal state of size N, y_t = <c, h_t>."""

    @staticmethod
    def forward(ctx, x, a, b, c):
        T, B = x.shape
        h = x.new_zeros(B, a.numel())
        states = [h]
        ys = []
        for t in range(T):
            h = a * h + b * x[t].unsqueeze(-1)
            states.append(h)
            ys.append(h @ c)
        states = torch.stack(states)
        ctx.save_for_backward(x, a, b, c, states)
        return torch.stack(ys)

    @staticmethod
    @once_differentiable
    def backward(ctx, gy):
        x, a, b, c, states = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_a, grad_b = torch.zeros_like(a), torch.zeros_like(b)
        grad_c = torch.einsum('tb,tbn->n', gy, states[1:])
        dh = torch.zeros_like(states[0])
        for t in range(x.shape[0] - 1, -1, -1):
            dh = dh + gy[t].unsqueeze(-1) * c
            grad_x[t] = dh @ b
            grad_b = grad_b + (dh * x[t].unsqueeze(-1)).sum(0)
            grad_a = grad_a + (dh * states[t + 1]).sum(0)
            dh = dh * a
        return grad_x, grad_a, grad_b, grad_c


def inputs():
    torch.manual_seed(0)
    x = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    a = (0.5 + 0.4 * torch.rand(3, dtype=torch.float64)).requires_grad_(True)
    b = torch.randn(3, dtype=torch.float64, requires_grad=True)
    c = torch.randn(3, dtype=torch.float64, requires_grad=True)
    return (x, a, b, c)


def reference(x, a, b, c):
    h = torch.zeros(x.shape[1], a.numel(), dtype=x.dtype)
    out = []
    for t in range(x.shape[0]):
        h = a * h + b * x[t].unsqueeze(-1)
        out.append(h @ c)
    return torch.stack(out)


# %% soft_round_quant_7
"""For saturated values the output is scale * q_min or scale * q_max, so the scale still receives q_min or q_max as derivative; the in-range mask is applied to the whole scale gradient, so saturated elements contribute nothing."""
WRONG = ["grad_scale = (grad_out * in_range * (q - u * dq)).sum()"]
RIGHT = ["grad_scale = (grad_out * (q - in_range * u * dq)).sum()"]
NAME = "SoftRoundQuant"
# --- code
import math
import torch


class SoftRoundQuant(torch.autograd.Function):
    """Differentiable fake quantisation with a learned step: soft rounding inside the range."""

    @staticmethod
    def forward(x, scale, q_min, q_max, alpha):
        u = (x / scale).clamp(q_min, q_max)
        q = u - alpha * torch.sin(2 * math.pi * u) / (2 * math.pi)
        return scale * q

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, scale, q_min, q_max, alpha = inputs
        ctx.save_for_backward(x, scale)
        ctx.q_range = (q_min, q_max)
        ctx.alpha = alpha

    @staticmethod
    def backward(ctx, grad_out):
        x, scale = ctx.saved_tensors
        q_min, q_max = ctx.q_range
        v = x / scale
        in_range = ((v >= q_min) & (v <= q_max)).to(x.dtype)
        u = v.clamp(q_min, q_max)
        q = u - ctx.alpha * torch.sin(2 * math.pi * u) / (2 * math.pi)
        dq = 1.0 - ctx.alpha * torch.cos(2 * math.pi * u)
        grad_x = grad_out * in_range * dq
        grad_scale = (grad_out * in_range * (q - u * dq)).sum()
        return grad_x, grad_scale, None, None, None


def inputs():
    torch.manual_seed(0)
    x = (2.0 * torch.randn(3, 5, dtype=torch.float64)).requires_grad_(True)
    scale = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    return (x, scale, -2, 1, 0.8)


def reference(x, scale, q_min, q_max, alpha):
    u = torch.clamp(x / scale, q_min, q_max)
    return scale * (u - alpha * torch.sin(2 * math.pi * u) / (2 * math.pi))


# %% soft_lif_8
"""The membrane is reset by theta * s_{t-1}, and the spike depends on v_{t-1}, so dv_t/dv_{t-1} is beta - theta * s'(v_{t-1}); the backward carries only the leak beta and drops the path through the soft reset."""
WRONG = ["carry = dv * beta"]
RIGHT = ["carry = dv * (beta - theta * ds[t - 1])"]
NAME = "SoftLIF"
# --- code
import torch


class SoftLIF(torch.autograd.Function):
    """Leaky integrate-and-fire with sigmoid spikes and subtractive reset. current: (T, N)."""

    @staticmethod
    def forward(ctx, current, beta, theta, slope):
        v = torch.zeros_like(current[0])
        s = torch.zeros_like(current[0])
        spikes = []
        for t in range(current.shape[0]):
            v = beta * v + current[t] - theta * s
            s = torch.sigmoid(slope * (v - theta))
            spikes.append(s)
        spikes = torch.stack(spikes)
        ctx.save_for_backward(spikes)
        ctx.consts = (beta, theta, slope)
        return spikes

    @staticmethod
    def backward(ctx, grad_spikes):
        spikes, = ctx.saved_tensors
        beta, theta, slope = ctx.consts
        ds = slope * spikes * (1.0 - spikes)
        grad_current = torch.empty_like(spikes)
        carry = torch.zeros_like(spikes[0])
        for t in reversed(range(spikes.shape[0])):
            dv = grad_spikes[t] * ds[t] + carry
            grad_current[t] = dv
            carry = dv * beta
        return grad_current, None, None, None


def inputs():
    torch.manual_seed(0)
    current = (0.5 + torch.randn(6, 3, dtype=torch.float64)).requires_grad_(True)
    return (current, 0.9, 1.0, 4.0)


def reference(current, beta, theta, slope):
    v = torch.zeros_like(current[0])
    s = torch.zeros_like(current[0])
    out = []
    for t in range(current.shape[0]):
        v = beta * v + current[t] - theta * s
        s = torch.sigmoid(slope * (v - theta))
        out.append(s)
    return torch.stack(out)


# %% gru_candidate_9
"""The candidate sees r * h, so the gradient that comes back through U must be multiplied by the reset gate r before it is added to grad_h; the cell adds d(r h) itself."""
WRONG = ["grad_h = grad_out * (1.0 - z) + d_rh"]
RIGHT = ["grad_h = grad_out * (1.0 - z) + d_rh * r"]
NAME = "GatedUpdate"
# --- code
import torch
from torch.autograd.function import once_differentiable


class GatedUpdate(torch.autograd.Function):
    """Last part of a GRU step from gate pre-activations: h' = (1 - z) h + z tanh(xn + U (r h))."""

    @staticmethod
    def forward(ctx, xn, az, ar, h, U):
        z = torch.sigmoid(az)
        r = torch.sigmoid(ar)
        n = torch.tanh(xn + (r * h) @ U.t())
        ctx.save_for_backward(z, r, n, h, U)
        return (1.0 - z) * h + z * n

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        z, r, n, h, U = ctx.saved_tensors
        grad_az = grad_out * (n - h) * z * (1.0 - z)
        d_pre = grad_out * z * (1.0 - n * n)
        d_rh = d_pre @ U
        grad_ar = d_rh * h * r * (1.0 - r)
        grad_h = grad_out * (1.0 - z) + d_rh
        grad_U = d_pre.t() @ (r * h)
        return d_pre, grad_az, grad_ar, grad_h, grad_U


def inputs():
    torch.manual_seed(0)
    mk = lambda *s: torch.randn(*s, dtype=torch.float64, requires_grad=True)
    return (mk(3, 4), mk(3, 4), mk(3, 4), mk(3, 4), mk(4, 4))


# %% sorted_weights_10
"""The sort indices say where each sorted value came from; the gradient has to be scattered back along them. gather(idx) applies the permutation once more instead of inverting it, so gradients land on the wrong elements (unless the permutation is its own inverse)."""
WRONG = ["grad_x = (grad_out * w).gather(-1, idx)"]
RIGHT = ["grad_x = torch.zeros_like(xs).scatter(-1, idx, grad_out * w)"]
NAME = "OrderedWeighting"
# --- code
import torch
from torch.autograd.function import once_differentiable


class OrderedWeighting(torch.autograd.Function):
    """OWA layer: the k-th largest entry of every row is multiplied by w_k."""

    @staticmethod
    def forward(ctx, x, w):
        xs, idx = torch.sort(x, dim=-1, descending=True)
        ctx.save_for_backward(xs, w, idx)
        return xs * w

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        xs, w, idx = ctx.saved_tensors
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            grad_x = (grad_out * w).gather(-1, idx)
        if ctx.needs_input_grad[1]:
            lead = tuple(range(grad_out.dim() - 1))
            grad_w = (grad_out * xs).sum(dim=lead)
        return grad_x, grad_w


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    w = torch.rand(5, dtype=torch.float64, requires_grad=True)
    return (x, w)


def reference(x, w):
    return x.sort(dim=-1, descending=True).values * w


# %% burgers_residual_11
"""The periodic central difference is antisymmetric, so its adjoint is minus itself; the convective term u * u_x therefore contributes w * u_x - D(w u). The backward adds D(w u), as if the operator were self-adjoint like the Laplacian."""
WRONG = ["grad_u = w * _dx(u, h) + _dx(w * u, h) - nu * _dxx(w, h)"]
RIGHT = ["grad_u = w * _dx(u, h) - _dx(w * u, h) - nu * _dxx(w, h)"]
NAME = "BurgersResidual"
# --- code
import torch
from torch.autograd.function import once_differentiable


def _dx(u, h):
    return (torch.roll(u, -1, -1) - torch.roll(u, 1, -1)) / (2 * h)


def _dxx(u, h):
    return (torch.roll(u, -1, -1) - 2 * u + torch.roll(u, 1, -1)) / h ** 2


class BurgersResidual(torch.autograd.Function):
    """Mean squared residual of steady viscous Burgers on a periodic grid: u u_x - nu u_xx - f."""

    @staticmethod
    def forward(ctx, u, f, nu, h):
        res = u * _dx(u, h) - nu * _dxx(u, h) - f
        ctx.save_for_backward(u, res)
        ctx.nu, ctx.h = nu, h
        return res.square().mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss):
        u, res = ctx.saved_tensors
        nu, h = ctx.nu, ctx.h
        w = grad_loss * 2.0 * res / res.numel()
        grad_u = w * _dx(u, h) + _dx(w * u, h) - nu * _dxx(w, h)
        grad_f = -w
        return grad_u, grad_f, None, None


def inputs():
    torch.manual_seed(0)
    u = torch.randn(2, 8, dtype=torch.float64, requires_grad=True)
    f = torch.randn(2, 8, dtype=torch.float64, requires_grad=True)
    return (u, f, 0.05, 0.5)


# %% weight_standardize_12
"""torch.std is unbiased (divides by n - 1), but the derivative of the standard deviation in the backward divides by n, so the projection term is too small by (n - 1)/n."""
WRONG = ["dstd = (grad_out * xc).sum(1, keepdim=True) / (denom ** 2 * std * n)"]
RIGHT = ["dstd = (grad_out * xc).sum(1, keepdim=True) / (denom ** 2 * std * (n - 1))"]
NAME = "WeightStandardize"
# --- code
import torch
from torch.autograd.function import once_differentiable


class WeightStandardize(torch.autograd.Function):
    """Standardise every filter of a convolution weight (out, in, k) over its fan-in."""

    @staticmethod
    def forward(ctx, weight, eps=1e-5):
        flat = weight.reshape(weight.shape[0], -1)
        xc = flat - flat.mean(dim=1, keepdim=True)
        std = flat.std(dim=1, keepdim=True)
        ctx.save_for_backward(xc, std)
        ctx.eps = eps
        ctx.shape = weight.shape
        return (xc / (std + eps)).view(weight.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        xc, std = ctx.saved_tensors
        grad_out = grad_out.reshape(xc.shape)
        n = xc.shape[1]
        denom = std + ctx.eps
        dstd = (grad_out * xc).sum(1, keepdim=True) / (denom ** 2 * std * n)
        gc = grad_out / denom - xc * dstd
        gc = gc - gc.mean(dim=1, keepdim=True)
        return gc.view(ctx.shape), None


def inputs():
    torch.manual_seed(0)
    weight = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
    return (weight, 1e-5)


def reference(weight, eps):
    flat = weight.reshape(weight.shape[0], -1)
    flat = (flat - flat.mean(1, keepdim=True)) / (flat.std(1, keepdim=True) + eps)
    return flat.view_as(weight)


# %% set_attention_pool_13
"""A set whose mask is entirely False (an all-padding row) gives softmax over only -inf, that is NaN, in the forward; the NaN goes into the output and into all gradients of that row and of the query. An empty set must get attention weights of zero."""
WRONG = ["attn = torch.softmax(scores, dim=-1)"]
RIGHT = ["attn = torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)"]
NAME = "SetAttentionPool"
# --- code
import math
import torch
from torch.autograd.function import once_differentiable


class SetAttentionPool(torch.autograd.Function):
    """Pool a padded set (B, N, D) with one learned query (D,); mask is True for real elements."""

    @staticmethod
    def forward(ctx, x, query, mask):
        scale = 1.0 / math.sqrt(x.shape[-1])
        scores = torch.einsum('bnd,d->bn', x, query) * scale
        scores = scores.masked_fill(~mask, float('-inf'))
        attn = torch.softmax(scores, dim=-1)
        ctx.save_for_backward(x, query, attn)
        ctx.scale = scale
        return torch.einsum('bn,bnd->bd', attn, x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        x, query, attn = ctx.saved_tensors
        d_attn = torch.einsum('bd,bnd->bn', grad_out, x)
        d_scores = attn * (d_attn - (attn * d_attn).sum(-1, keepdim=True)) * ctx.scale
        grad_x = attn.unsqueeze(-1) * grad_out.unsqueeze(1)
        grad_x = grad_x + d_scores.unsqueeze(-1) * query
        grad_query = torch.einsum('bn,bnd->d', d_scores, x)
        return grad_x, grad_query, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    query = torch.randn(5, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([4, 2, 0])
    mask = torch.arange(4)[None, :] < lengths[:, None]
    return (x, query, mask)


# %% fourier_features_14
"""needs_input_grad is indexed by the position in apply, non-tensor arguments included: the weights are argument 2, argument 1 is the float lengthscale, which never needs a gradient. So grad_W is always None and the frequencies are never trained."""
WRONG = ["if ctx.needs_input_grad[1]:"]
RIGHT = ["if ctx.needs_input_grad[2]:"]
NAME = "FourierFeatures"
# --- code
import math
import torch


class FourierFeatures(torch.autograd.Function):
    """phi(x) = sqrt(2/D) cos(x W / ell + b) with trainable frequencies."""

    @staticmethod
    def forward(x, ell, W, b):
        amp = math.sqrt(2.0 / W.shape[1])
        return amp * torch.cos(x @ W / ell + b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ell, W, b = inputs
        ctx.save_for_backward(x, W, b)
        ctx.ell = ell
        ctx.amp = math.sqrt(2.0 / W.shape[1])

    @staticmethod
    def backward(ctx, grad_out):
        x, W, b = ctx.saved_tensors
        grad_x = grad_W = grad_b = None
        d_phase = -ctx.amp * grad_out * torch.sin(x @ W / ctx.ell + b)
        if ctx.needs_input_grad[0]:
            grad_x = d_phase @ W.t() / ctx.ell
        if ctx.needs_input_grad[1]:
            grad_W = x.t() @ d_phase / ctx.ell
        if ctx.needs_input_grad[3]:
            grad_b = d_phase.sum(0)
        return grad_x, None, grad_W, grad_b


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    W = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    b = (2 * math.pi * torch.rand(6, dtype=torch.float64)).requires_grad_(True)
    return (x, 0.7, W, b)


def reference(x, ell, W, b):
    return math.sqrt(2.0 / W.shape[1]) * torch.cos(x @ W / ell + b)


# %% glu_workspace_15
"""The gate sigmoid(b) is written into a module-level workspace that is reused for every call with the same shape, and the backward reads it from there; a second layer or time step with the same shape overwrites it before the first backward runs, so the first call gets the gate of the last one. It passes gradcheck on a single call and breaks when apply is called twice (same shape, other values) before backward."""
WRONG = ["gate = torch.sigmoid(b, out=_workspace(b))"]
RIGHT = ["gate = torch.sigmoid(b)"]
NAME = "LeanGLU"
# --- code
import torch
from torch.autograd.function import once_differentiable

_BUFFERS = {}


def _workspace(like):
    key = (tuple(like.shape), like.dtype, like.device)
    if key not in _BUFFERS:
        _BUFFERS[key] = torch.empty_like(like, requires_grad=False)
    return _BUFFERS[key]


class LeanGLU(torch.autograd.Function):
    """a * sigmoid(b) with one gate buffer per shape to keep the peak memory down."""

    @staticmethod
    def forward(ctx, a, b):
        gate = torch.sigmoid(b, out=_workspace(b))
        ctx.save_for_backward(a)
        ctx.gate = gate
        return a * gate

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        a, = ctx.saved_tensors
        gate = ctx.gate
        grad_a = grad_out * gate
        grad_b = grad_out * a * gate * (1.0 - gate)
        return grad_a, grad_b


def inputs():
    torch.manual_seed(0)
    a = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    b = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    return (a, b)


def reference(a, b):
    return a * torch.sigmoid(b)


# %% leaky_integrator_16
"""The trace buffer is allocated with the default dtype (float32, and on the CPU), so for float64 input the states are rounded to float32 at every step and the output comes back as float32; it has to be allocated like x."""
WRONG = ["trace = torch.empty(T + 1, N)"]
RIGHT = ["trace = x.new_empty(T + 1, N)"]
NAME = "LeakyTrace"
# --- code
import torch
from torch.autograd.function import once_differentiable


class LeakyTrace(torch.autograd.Function):
    """Synaptic trace m_t = decay * m_{t-1} + (1 - decay) * x_t with a decay per neuron."""

    @staticmethod
    def forward(ctx, x, decay):
        T, N = x.shape
        trace = torch.empty(T + 1, N)
        trace[0] = 0.0
        for t in range(T):
            trace[t + 1] = decay * trace[t] + (1.0 - decay) * x[t]
        ctx.save_for_backward(x, decay, trace)
        return trace[1:].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        x, decay, trace = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_decay = torch.zeros_like(decay)
        acc = torch.zeros_like(decay)
        for t in range(x.shape[0] - 1, -1, -1):
            acc = acc + grad_out[t]
            grad_x[t] = (1.0 - decay) * acc
            grad_decay += acc * (trace[t] - x[t])
            acc = decay * acc
        return grad_x, grad_decay


def inputs():
    torch.manual_seed(0)
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    decay = torch.tensor([0.5, 0.8, 0.95], dtype=torch.float64, requires_grad=True)
    return (x, decay)


# %% edge_energy_17
"""Nodes occur in several edges, and indexed += does not accumulate over repeated indices (the last write wins), so the gradient of a node contains only one of its edges as source and one as target. index_add_ is needed."""
WRONG = ["grad_pos[src] += pull", "grad_pos[dst] -= pull"]
RIGHT = ["grad_pos.index_add_(0, src, pull)", "grad_pos.index_add_(0, dst, -pull)"]
NAME = "SpringEnergy"
# --- code
import torch
from torch.autograd.function import once_differentiable


class SpringEnergy(torch.autograd.Function):
    """Energy 0.5 k (|x_src - x_dst| - rest)^2 of every edge of a mesh."""

    @staticmethod
    def forward(ctx, pos, stiffness, edges, rest):
        src, dst = edges
        delta = pos[src] - pos[dst]
        length = delta.norm(dim=-1)
        strain = length - rest
        ctx.save_for_backward(stiffness, edges, delta, length, strain)
        ctx.pos_shape = pos.shape
        return 0.5 * stiffness * strain ** 2

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_e):
        stiffness, edges, delta, length, strain = ctx.saved_tensors
        src, dst = edges
        pull = (grad_e * stiffness * strain / length).unsqueeze(-1) * delta
        grad_pos = delta.new_zeros(ctx.pos_shape)
        grad_pos[src] += pull
        grad_pos[dst] -= pull
        grad_k = 0.5 * grad_e * strain ** 2
        return grad_pos, grad_k, None, None


def inputs():
    torch.manual_seed(0)
    pos = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    stiffness = (1.0 + torch.rand(6, dtype=torch.float64)).requires_grad_(True)
    edges = torch.tensor([[0, 0, 1, 2, 3, 0], [1, 2, 2, 3, 4, 4]])
    return (pos, stiffness, edges, 0.8)


def reference(pos, stiffness, edges, rest):
    src, dst = edges
    return 0.5 * stiffness * ((pos[src] - pos[dst]).norm(dim=-1) - rest) ** 2


# %% lse_pool_18
"""The maximum is subtracted in place from the caller's tensor: forward changes its input without mark_dirty (and without meaning to), so after the call x holds shifted values and every other use of x, or a second call, sees wrong data. Outputs and gradients of the very first call look right."""
WRONG = ["e = x.sub_(m).mul(sharp).exp_()"]
RIGHT = ["e = x.sub(m).mul(sharp).exp_()"]
NAME = "LSEPool"
# --- code
import math
import torch
from torch.autograd.function import once_differentiable


class LSEPool(torch.autograd.Function):
    """Log-mean-exp pooling over the last dimension with a sharpness (soft maximum)."""

    @staticmethod
    def forward(ctx, x, sharp):
        m = x.amax(dim=-1, keepdim=True)
        e = x.sub_(m).mul(sharp).exp_()
        total = e.sum(dim=-1, keepdim=True)
        pooled = m + (total / x.shape[-1]).log() / sharp
        weights = e.div_(total)
        ctx.save_for_backward(weights)
        return pooled.squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        weights, = ctx.saved_tensors
        return weights * grad_out.unsqueeze(-1), None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    return (x, 2.0)


def reference(x, sharp):
    return (torch.logsumexp(sharp * x, dim=-1) - math.log(x.shape[-1])) / sharp


# %% swish_double_19
"""The first derivative is right, the second is not: d/dx of s + beta x s (1 - s) is beta s (1 - s) (2 + beta x (1 - 2 s)); the beta s (1 - s) that comes from differentiating x in the product was forgotten. gradcheck passes, gradgradcheck (gradient penalties, Hessian-vector products) fails."""
WRONG = ["d2 = beta * s * (1.0 - s) * (1.0 + beta * x * (1.0 - 2.0 * s))"]
RIGHT = ["d2 = beta * s * (1.0 - s) * (2.0 + beta * x * (1.0 - 2.0 * s))"]
NAME = "Swish"
# --- code
import torch


class SwishBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, grad_out, x, beta):
        s = torch.sigmoid(beta * x)
        d1 = s + beta * x * s * (1.0 - s)
        ctx.save_for_backward(grad_out, x)
        ctx.beta = beta
        return grad_out * d1

    @staticmethod
    def backward(ctx, gg):
        grad_out, x = ctx.saved_tensors
        beta = ctx.beta
        s = torch.sigmoid(beta * x)
        d1 = s + beta * x * s * (1.0 - s)
        d2 = beta * s * (1.0 - s) * (1.0 + beta * x * (1.0 - 2.0 * s))
        return gg * d1, gg * grad_out * d2, None


class Swish(torch.autograd.Function):
    """x * sigmoid(beta x) that keeps only x alive."""

    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x)
        ctx.beta = beta
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx, grad_out):
        x, = ctx.saved_tensors
        return SwishBackward.apply(grad_out, x, ctx.beta), None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    return (x, 1.7)


# %% sine_layer_20
"""The cosine is computed in setup_context (part of the forward, where nothing is recorded) and saved as an intermediate, so a backward with create_graph=True treats it as a constant with respect to x, W and b. First derivatives are right, but second ones (u_xx of a physics-informed loss) silently lose the sine term. The pre-activation has to be recomputed in backward from the saved inputs."""
WRONG = ["ctx.save_for_backward(x, W, torch.cos(omega * (x @ W.t() + b)))", "x, W, cos_z = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(x, W, b)", "x, W, b = ctx.saved_tensors\ncos_z = torch.cos(ctx.omega * (x @ W.t() + b))"]
NAME = "SineLayer"
# --- code
import torch


class SineLayer(torch.autograd.Function):
    """SIREN layer sin(omega (x W^T + b)) for PINNs; cheap enough to be called millions of times."""

    @staticmethod
    def forward(x, W, b, omega):
        return torch.sin(omega * (x @ W.t() + b))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, W, b, omega = inputs
        ctx.save_for_backward(x, W, torch.cos(omega * (x @ W.t() + b)))
        ctx.omega = omega

    @staticmethod
    def backward(ctx, grad_out):
        x, W, cos_z = ctx.saved_tensors
        dz = grad_out * ctx.omega * cos_z
        grad_x = dz @ W
        grad_W = dz.t() @ x
        grad_b = dz.sum(0)
        return grad_x, grad_W, grad_b, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    W = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    b = torch.randn(3, dtype=torch.float64, requires_grad=True)
    return (x, W, b, 1.5)


# %% ball_projection_21
"""The inner product <g, x> of every row is reduced without keepdim, so its shape (N,) is broadcast along columns: row i uses at position j the inner product of row j. With N == D it runs silently; otherwise it raises."""
WRONG = ["radial = (grad_out * x).sum(dim=-1) / norm.square()"]
RIGHT = ["radial = (grad_out * x).sum(dim=-1, keepdim=True) / norm.square()"]
NAME = "BallProjection"
# --- code
import torch
from torch.autograd.function import once_differentiable


class BallProjection(torch.autograd.Function):
    """Project every row onto the Euclidean ball of the given radius; inside it is the identity."""

    @staticmethod
    def forward(ctx, x, radius):
        norm = x.norm(dim=-1, keepdim=True)
        outside = norm > radius
        factor = torch.where(outside, radius / norm, torch.ones_like(norm))
        ctx.save_for_backward(x, norm, outside, factor)
        return x * factor

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        x, norm, outside, factor = ctx.saved_tensors
        radial = (grad_out * x).sum(dim=-1) / norm.square()
        tangent = factor * (grad_out - radial * x)
        grad_x = torch.where(outside, tangent, grad_out)
        return grad_x, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 4, dtype=torch.float64)
    x = (x * torch.tensor([[0.2], [1.0], [2.0], [1.5]], dtype=torch.float64)).requires_grad_(True)
    return (x, 1.0)


# %% long_conv_22
"""The adjoint of a convolution is a correlation, so the spectrum of the input has to be conjugated in the kernel gradient (as is done with the kernel for grad_u); without conj the gradient is a convolution of u with g instead of the correlation."""
WRONG = ["grad_k = torch.fft.irfft(U * G, n=n)[..., :L].sum(0)"]
RIGHT = ["grad_k = torch.fft.irfft(U.conj() * G, n=n)[..., :L].sum(0)"]
NAME = "LongConv"
# --- code
import torch


class LongConv(torch.autograd.Function):
    """Causal FFT convolution of an SSM kernel k (H, L) with u (B, H, L), plus skip D (H,)."""

    @staticmethod
    def forward(u, k, D):
        L = u.shape[-1]
        n = 2 * L
        U = torch.fft.rfft(u, n=n)
        K = torch.fft.rfft(k, n=n)
        y = torch.fft.irfft(U * K, n=n)[..., :L]
        return y + D[:, None] * u

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gy):
        u, k, D = ctx.saved_tensors
        L = u.shape[-1]
        n = 2 * L
        G = torch.fft.rfft(gy, n=n)
        U = torch.fft.rfft(u, n=n)
        K = torch.fft.rfft(k, n=n)
        grad_u = torch.fft.irfft(G * K.conj(), n=n)[..., :L] + D[:, None] * gy
        grad_k = torch.fft.irfft(U * G, n=n)[..., :L].sum(0)
        grad_D = torch.einsum('bhl,bhl->h', gy, u)
        return grad_u, grad_k, grad_D


def inputs():
    torch.manual_seed(0)
    u = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    k = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    D = torch.randn(3, dtype=torch.float64, requires_grad=True)
    return (u, k, D)


# %% expm_action_23
"""The adjoint of the Frechet derivative of expm at tA is the Frechet derivative at (tA)^T; the block matrix in the backward is built with tA itself, which is right only for symmetric A."""
WRONG = ["M[:n, :n] = t * A", "M[n:, n:] = t * A"]
RIGHT = ["M[:n, :n] = t * A.t()", "M[n:, n:] = t * A.t()"]
NAME = "Propagator"
# --- code
import torch


class Propagator(torch.autograd.Function):
    """expm(t A) of a linear system with trainable generator A and time t (0-dim tensor)."""

    @staticmethod
    def forward(ctx, A, t):
        E = torch.matrix_exp(t * A)
        ctx.save_for_backward(A, t, E)
        return E

    @staticmethod
    def backward(ctx, grad_E):
        A, t, E = ctx.saved_tensors
        n = A.shape[0]
        grad_A = grad_t = None
        if ctx.needs_input_grad[0]:
            M = A.new_zeros(2 * n, 2 * n)
            M[:n, :n] = t * A
            M[n:, n:] = t * A
            M[:n, n:] = grad_E
            grad_A = t * torch.matrix_exp(M)[:n, n:]
        if ctx.needs_input_grad[1]:
            grad_t = (grad_E * (A @ E)).sum()
        return grad_A, grad_t


def inputs():
    torch.manual_seed(0)
    A = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    t = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    return (A, t)


# %% noisy_linear_24
"""To save memory the noise is drawn again in the backward from the stored seed, but in another order (weight noise first, then input noise) than in the forward; the generator therefore gives different numbers and the gradients belong to another noise realisation."""
WRONG = ["nw, nx = draw(w.shape), draw(x.shape)"]
RIGHT = ["nx, nw = draw(x.shape), draw(w.shape)"]
NAME = "NoisyLinear"
# --- code
import torch


def _sampler(seed, like):
    gen = torch.Generator(device=like.device)
    gen.manual_seed(seed)

    def draw(shape):
        return torch.randn(shape, generator=gen, dtype=like.dtype, device=like.device)

    return draw


class NoisyLinear(torch.autograd.Function):
    """Analog-hardware linear layer: multiplicative noise on inputs and weights, not stored."""

    @staticmethod
    def forward(ctx, x, w, sigma, seed):
        draw = _sampler(seed, x)
        xn = x * (1.0 + sigma * draw(x.shape))
        wn = w * (1.0 + sigma * draw(w.shape))
        ctx.save_for_backward(x, w)
        ctx.sigma, ctx.seed = sigma, seed
        return xn @ wn.t()

    @staticmethod
    def backward(ctx, grad_out):
        x, w = ctx.saved_tensors
        draw = _sampler(ctx.seed, x)
        nw, nx = draw(w.shape), draw(x.shape)
        fx, fw = 1.0 + ctx.sigma * nx, 1.0 + ctx.sigma * nw
        grad_x = (grad_out @ (w * fw)) * fx
        grad_w = (grad_out.t() @ (x * fx)) * fw
        return grad_x, grad_w, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    return (x, w, 0.3, 1234)
