"""Mistakes: held out, from code reviews. Each cell is a separate module; see benchmarks/repairs.py."""

# %% weighted_smooth_ce_1
"""With label smoothing and class weights the coefficient of the softmax in the gradient must be the total weight of the soft target, (1-eps)*w[y] + eps/K*sum(w). The code uses w[y] alone, which is only right when all class weights are equal."""
WRONG = ["mass = weight[safe]"]
RIGHT = ["mass = (1 - ctx.eps) * weight[safe] + ctx.eps / K * weight.sum()"]
NAME = "WeightedSmoothCE"
# --- code
import torch
import torch.nn.functional as F


class WeightedSmoothCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, weight, eps, ignore_index):
        logp = torch.log_softmax(logits, dim=-1)
        valid = target != ignore_index
        safe = target.masked_fill(~valid, 0)
        K = logits.size(-1)
        wy = weight[safe]
        hard = -wy * logp.gather(1, safe[:, None]).squeeze(1)
        soft = -(logp * weight).sum(-1) / K
        norm = (wy * valid).sum()
        loss = (((1 - eps) * hard + eps * soft) * valid).sum() / norm
        ctx.save_for_backward(logp, safe, valid, weight, norm)
        ctx.eps = eps
        return loss

    @staticmethod
    def backward(ctx, grad_out):
        logp, safe, valid, weight, norm = ctx.saved_tensors
        K = logp.size(-1)
        mass = weight[safe]
        grad = logp.exp() * mass[:, None]
        grad = grad - ctx.eps / K * weight
        hard = (1 - ctx.eps) * weight[safe]
        grad.scatter_add_(1, safe[:, None], -hard[:, None])
        grad = grad * valid[:, None] * (grad_out / norm)
        return grad, None, None, None, None


def inputs():
    torch.manual_seed(0)
    logits = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, 3, -100, 1, 2])
    weight = torch.tensor([0.5, 1.0, 2.0, 1.5], dtype=torch.float64)
    return (logits, target, weight, 0.2, -100)


def reference(logits, target, weight, eps, ignore_index):
    return F.cross_entropy(logits, target, weight=weight, label_smoothing=eps, ignore_index=ignore_index)


# %% cosine_attention_2
"""The logit scale is clamped before the exp, so a head whose log scale lies above the maximum has zero gradient; backward multiplies by the scale but forgets the derivative of the clamp (the indicator log_scale < max)."""
WRONG = ["g_tau = (gs * cos).sum(dim=(0, 2, 3)) * scale.view(-1)"]
RIGHT = ["g_tau = (gs * cos).sum(dim=(0, 2, 3)) * scale.view(-1) * (log_scale < ctx.max_log_scale)"]
NAME = "CosineAttention"
# --- code
import math
import torch


class CosineAttention(torch.autograd.Function):
    """softmax(exp(min(log_scale, max)) * cos(q, k)) v with one log scale for each head (Swin v2)."""

    @staticmethod
    def forward(ctx, q, k, v, log_scale, max_log_scale):
        qn = q / q.norm(dim=-1, keepdim=True)
        kn = k / k.norm(dim=-1, keepdim=True)
        scale = log_scale.clamp(max=max_log_scale).exp().view(1, -1, 1, 1)
        cos = qn @ kn.transpose(-1, -2)
        p = torch.softmax(scale * cos, dim=-1)
        ctx.save_for_backward(q, k, v, log_scale, p)
        ctx.max_log_scale = max_log_scale
        return p @ v

    @staticmethod
    def backward(ctx, g):
        q, k, v, log_scale, p = ctx.saved_tensors
        q_len = q.norm(dim=-1, keepdim=True)
        k_len = k.norm(dim=-1, keepdim=True)
        qn, kn = q / q_len, k / k_len
        scale = log_scale.clamp(max=ctx.max_log_scale).exp().view(1, -1, 1, 1)
        cos = qn @ kn.transpose(-1, -2)
        gv = p.transpose(-1, -2) @ g
        gp = g @ v.transpose(-1, -2)
        gs = p * (gp - (gp * p).sum(-1, keepdim=True))
        g_tau = (gs * cos).sum(dim=(0, 2, 3)) * scale.view(-1)
        gcos = gs * scale
        gqn = gcos @ kn
        gkn = gcos.transpose(-1, -2) @ qn
        gq = (gqn - qn * (qn * gqn).sum(-1, keepdim=True)) / q_len
        gk = (gkn - kn * (kn * gkn).sum(-1, keepdim=True)) / k_len
        return gq, gk, gv, g_tau, None


def inputs():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    log_scale = torch.tensor([1.2, 5.0], dtype=torch.float64, requires_grad=True)
    return (q, k, v, log_scale, math.log(10.0))


# %% grouped_query_attention_3
"""repeat_interleave puts the query heads of one kv head next to each other (head = kv*G + g), but the fold in backward views the heads as (groups, kv heads) and sums over the first, so the gradients of k and v are gathered from the wrong query heads."""
WRONG = ["return t.view(b, groups, h // groups, n, d).sum(dim=1)"]
RIGHT = ["return t.view(b, h // groups, groups, n, d).sum(dim=2)"]
NAME = "GroupedQueryAttention"
# --- code
import torch
import torch.nn.functional as F


def _fold_heads(t, groups):
    b, h, n, d = t.shape
    return t.view(b, groups, h // groups, n, d).sum(dim=1)


class GroupedQueryAttention(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, causal):
        groups = q.size(1) // k.size(1)
        kk = k.repeat_interleave(groups, dim=1)
        vv = v.repeat_interleave(groups, dim=1)
        s = q @ kk.transpose(-1, -2) * q.size(-1) ** -0.5
        if causal:
            n = q.size(-2)
            future = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
            s = s.masked_fill(future, float("-inf"))
        lse = torch.logsumexp(s, dim=-1, keepdim=True)
        p = (s - lse).exp()
        return p @ vv, p

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, _ = inputs
        out, p = output
        ctx.mark_non_differentiable(p)
        ctx.save_for_backward(q, k, v, out, p)

    @staticmethod
    def backward(ctx, g, _):
        q, k, v, out, p = ctx.saved_tensors
        groups = q.size(1) // k.size(1)
        kk = k.repeat_interleave(groups, dim=1)
        vv = v.repeat_interleave(groups, dim=1)
        delta = (g * out).sum(-1, keepdim=True)
        ds = p * (g @ vv.transpose(-1, -2) - delta) * q.size(-1) ** -0.5
        dq = ds @ kk
        dk = _fold_heads(ds.transpose(-1, -2) @ q, groups)
        dv = _fold_heads(p.transpose(-1, -2) @ g, groups)
        return dq, dk, dv, None


def inputs():
    torch.manual_seed(0)
    q = torch.randn(1, 4, 3, 2, dtype=torch.float64, requires_grad=True)
    k = torch.randn(1, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    v = torch.randn(1, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    return (q, k, v, True)


def reference(q, k, v, causal):
    g = q.size(1) // k.size(1)
    kk, vv = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    s = q @ kk.transpose(-1, -2) / q.size(-1) ** 0.5
    if causal:
        s = s.masked_fill(torch.ones(q.size(-2), q.size(-2), dtype=torch.bool).triu(1), float("-inf"))
    p = torch.softmax(s, -1)
    return p @ vv, p.detach()


# %% topk_gate_4
"""The gates are vals / total; the derivative of the quotient divides both terms by the total. Here the second term (sum of g*gates) is not divided by the total, so the gradient of the renormalisation is wrong."""
WRONG = ["g_vals = g / total - (g * gates).sum(-1, keepdim=True)"]
RIGHT = ["g_vals = (g - (g * gates).sum(-1, keepdim=True)) / total"]
NAME = "TopKGate"
# --- code
import torch


class TopKGate(torch.autograd.Function):
    """Router: softmax over the experts, the k best kept and renormalised to sum one."""

    @staticmethod
    def forward(ctx, logits, k):
        probs = torch.softmax(logits, dim=-1)
        vals, idx = probs.topk(k, dim=-1)
        total = vals.sum(-1, keepdim=True)
        gates = vals / total
        ctx.save_for_backward(probs, idx, gates, total)
        ctx.mark_non_differentiable(idx)
        return gates, idx

    @staticmethod
    def backward(ctx, g, _g_idx):
        probs, idx, gates, total = ctx.saved_tensors
        g_vals = g / total - (g * gates).sum(-1, keepdim=True)
        g_probs = torch.zeros_like(probs).scatter(-1, idx, g_vals)
        inner = (g_probs * probs).sum(-1, keepdim=True)
        return probs * (g_probs - inner), None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(4, 5, dtype=torch.float64, requires_grad=True), 2)


def reference(logits, k):
    vals, idx = torch.softmax(logits, -1).topk(k, -1)
    return vals / vals.sum(-1, keepdim=True), idx


# %% edge_softmax_5
"""g_score already contains the factor beta; the gradient of beta is sum(g_logit * scores) with the gradient of the logit, so using g_score applies beta twice."""
WRONG = ["g_beta = (g_score * score).sum()"]
RIGHT = ["g_beta = (g_logit * score).sum()"]
NAME = "EdgeSoftmax"
# --- code
import torch


class EdgeSoftmax(torch.autograd.Function):
    """Softmax of beta * score over the edges that share a destination node."""

    @staticmethod
    def forward(score, beta, dst, num_nodes):
        logit = beta * score
        top = logit.new_full((num_nodes,), float("-inf"))
        top = top.scatter_reduce(0, dst, logit, reduce="amax")
        e = (logit - top[dst]).exp()
        z = e.new_zeros(num_nodes).index_add(0, dst, e)
        return e / z[dst]

    @staticmethod
    def setup_context(ctx, inputs, output):
        score, beta, dst, num_nodes = inputs
        ctx.save_for_backward(score, beta, dst, output)
        ctx.num_nodes = num_nodes

    @staticmethod
    def backward(ctx, g):
        score, beta, dst, att = ctx.saved_tensors
        g_score = g_beta = None
        ga = g * att
        per_node = ga.new_zeros(ctx.num_nodes).index_add(0, dst, ga)
        g_logit = ga - att * per_node[dst]
        g_score = beta * g_logit
        if ctx.needs_input_grad[1]:
            g_beta = (g_score * score).sum()
        return g_score, g_beta, None, None


def inputs():
    torch.manual_seed(0)
    score = torch.randn(7, dtype=torch.float64, requires_grad=True)
    beta = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    return (score, beta, torch.tensor([0, 2, 0, 1, 2, 2, 0]), 4)


# %% truncated_normal_6
"""The sample is ndtri((1-u)*Phi(alpha) + u*Phi(beta)), so the lower bound carries the weight 1-u and the upper bound u. The weights are swapped in backward."""
WRONG = ["wa, wb = u * _pdf(alpha), (1 - u) * _pdf(beta)"]
RIGHT = ["wa, wb = (1 - u) * _pdf(alpha), u * _pdf(beta)"]
NAME = "TruncatedNormalSample"
# --- code
import math
import torch


def _pdf(z):
    return torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


class TruncatedNormalSample(torch.autograd.Function):
    """Reparametrised sample of a normal truncated to [low, high]; u is uniform noise."""

    @staticmethod
    def forward(ctx, mu, sigma, u, low, high):
        alpha = (low - mu) / sigma
        beta = (high - mu) / sigma
        ca, cb = torch.special.ndtr(alpha), torch.special.ndtr(beta)
        z = torch.special.ndtri(ca + u * (cb - ca))
        ctx.save_for_backward(alpha, beta, z, u)
        return mu + sigma * z

    @staticmethod
    def backward(ctx, g):
        alpha, beta, z, u = ctx.saved_tensors
        wa, wb = u * _pdf(alpha), (1 - u) * _pdf(beta)
        inv = 1.0 / _pdf(z)
        g_mu = g * (1.0 - (wa + wb) * inv)
        g_sigma = g * (z - (wa * alpha + wb * beta) * inv)
        return g_mu, g_sigma, None, None, None


def inputs():
    torch.manual_seed(0)
    mu = torch.randn(5, dtype=torch.float64, requires_grad=True)
    sigma = (torch.rand(5, dtype=torch.float64) + 0.6).requires_grad_()
    u = torch.rand(5, dtype=torch.float64) * 0.8 + 0.1
    return (mu, sigma, u, -1.0, 2.0)


# %% cholesky_nll_7
"""The forward reads only the lower triangle of the factor (solve_triangular), so the gradient must be lower triangular; the outer product is returned full and gives nonzero gradients for the entries above the diagonal that are never used."""
WRONG = ["g_factor = -torch.einsum(\"b,bi,bj->bij\", g, w, z)"]
RIGHT = ["g_factor = -torch.einsum(\"b,bi,bj->bij\", g, w, z).tril()"]
NAME = "CholeskyGaussianNLL"
# --- code
import math
import torch


class CholeskyGaussianNLL(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mean, factor):
        diff = x - mean
        z = torch.linalg.solve_triangular(factor, diff.unsqueeze(-1), upper=False).squeeze(-1)
        diag = factor.diagonal(dim1=-2, dim2=-1)
        n = x.size(-1)
        nll = 0.5 * z.square().sum(-1) + diag.log().sum(-1) + 0.5 * n * math.log(2 * math.pi)
        ctx.save_for_backward(factor, z)
        return nll

    @staticmethod
    def backward(ctx, g):
        factor, z = ctx.saved_tensors
        w = torch.linalg.solve_triangular(factor.mT, z.unsqueeze(-1), upper=True).squeeze(-1)
        gx = g.unsqueeze(-1) * w
        g_factor = None
        if ctx.needs_input_grad[2]:
            g_factor = -torch.einsum("b,bi,bj->bij", g, w, z)
            diag = factor.diagonal(dim1=-2, dim2=-1)
            g_factor.diagonal(dim1=-2, dim2=-1).add_(g.unsqueeze(-1) / diag)
        return gx, -gx, g_factor


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    mean = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    a = torch.randn(2, 3, 3, dtype=torch.float64)
    factor = torch.linalg.cholesky(a @ a.mT + torch.eye(3, dtype=torch.float64)).requires_grad_()
    return (x, mean, factor)


def reference(x, mean, factor):
    d = torch.distributions.MultivariateNormal(mean, scale_tril=factor.tril(), validate_args=False)
    return -d.log_prob(x)


# %% whitening_matrix_8
"""The divided differences of lambda^(-1/2) are -(r_i r_j)^2 / (r_i + r_j) with r = lambda^(-1/2). The code has r_i*r_j without the square, so the gradient has the wrong scale for each pair of eigenvalues."""
WRONG = ["kernel = -rr / (r.unsqueeze(-1) + r.unsqueeze(-2))"]
RIGHT = ["kernel = -rr.square() / (r.unsqueeze(-1) + r.unsqueeze(-2))"]
NAME = "WhiteningMatrix"
# --- code
import torch


class WhiteningMatrix(torch.autograd.Function):
    """(sym(A) + eps I)^(-1/2) through eigh, safe for equal eigenvalues."""

    @staticmethod
    def forward(ctx, cov, eps):
        sym = 0.5 * (cov + cov.mT)
        lam, vec = torch.linalg.eigh(sym)
        r = (lam + eps).rsqrt()
        ctx.save_for_backward(r, vec)
        return (vec * r.unsqueeze(-2)) @ vec.mT

    @staticmethod
    def backward(ctx, g):
        r, vec = ctx.saved_tensors
        rr = r.unsqueeze(-1) * r.unsqueeze(-2)
        kernel = -rr / (r.unsqueeze(-1) + r.unsqueeze(-2))
        inner = vec.mT @ g @ vec
        out = vec @ (kernel * inner) @ vec.mT
        return 0.5 * (out + out.mT), None


def inputs():
    torch.manual_seed(0)
    a = torch.randn(2, 3, 5, dtype=torch.float64)
    cov = (a @ a.mT / 5 + 0.3 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    return (cov, 0.1)


# %% lambert_w_9
"""dW/dx = w / (x (1 + w)) is 0/0 at x = 0 and gives NaN there, although the derivative is 1; the form exp(-w)/(1+w) is regular at zero."""
WRONG = ["return g * w / (x * (1 + w)), None"]
RIGHT = ["return g * torch.exp(-w) / (1 + w), None"]
NAME = "LambertW"
# --- code
import torch


class LambertW(torch.autograd.Function):
    """Principal branch for x >= 0 by Halley's iteration, derivative by the implicit function."""

    @staticmethod
    def forward(x, max_iter):
        w = torch.log1p(x)
        for _ in range(max_iter):
            e = torch.exp(w)
            f = w * e - x
            step = f / (e * (w + 1) - (w + 2) * f / (2 * w + 2))
            w = w - step
            if step.abs().max() < 1e-14:
                break
        return w

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, _ = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w / (x * (1 + w)), None


def inputs():
    torch.manual_seed(0)
    x = torch.rand(2, 4, dtype=torch.float64) * 3
    x[0, 2] = 0.0
    return (x.requires_grad_(), 30)


# %% one_pole_filter_10
"""The initial state enters the first output multiplied by a (y_0 = a*z0 + (1-a)*x_0), so its gradient is a*lam_0; the factor a is missing because the loop stops before the last multiplication."""
WRONG = ["g_state = lam[:, 0]"]
RIGHT = ["g_state = a * lam[:, 0]"]
NAME = "OnePoleFilter"
# --- code
import torch


class OnePoleFilter(torch.autograd.Function):
    """y[t] = a y[t-1] + (1 - a) x[t]; returns the signal and the final state."""

    @staticmethod
    def forward(ctx, x, a, state):
        prev, ys = state, []
        for t in range(x.size(1)):
            prev = a * prev + (1 - a) * x[:, t]
            ys.append(prev)
        y = torch.stack(ys, dim=1)
        ctx.save_for_backward(x, a, state, y)
        return y, y[:, -1].clone()

    @staticmethod
    def backward(ctx, gy, g_last):
        x, a, state, y = ctx.saved_tensors
        lam = torch.empty_like(gy)
        acc = g_last
        for t in range(x.size(1) - 1, -1, -1):
            acc = gy[:, t] + (acc if t == x.size(1) - 1 else a * acc)
            lam[:, t] = acc
        y_prev = torch.cat([state.unsqueeze(1), y[:, :-1]], dim=1)
        gx = (1 - a) * lam
        ga = (lam * (y_prev - x)).sum().reshape(a.shape)
        g_state = lam[:, 0]
        return gx, ga, g_state


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    a = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    state = torch.randn(2, dtype=torch.float64, requires_grad=True)
    return (x, a, state)


# %% capsule_sdf_11
"""The closest point is (1-h)*a + h*b, so the gradient for the end a is -(1-h)*n. The code returns -n for a, as if h were independent of a and the axis were not (b - a)."""
WRONG = ["ga = -gn.sum(0)"]
RIGHT = ["ga = -((1 - h) * gn).sum(0)"]
NAME = "CapsuleSDF"
# --- code
import torch


class CapsuleSDF(torch.autograd.Function):
    """Signed distance of points (N, 3) to a capsule with the ends a, b and a radius."""

    @staticmethod
    def forward(ctx, points, a, b, radius):
        axis = b - a
        rel = points - a
        h = (rel @ axis / axis.dot(axis)).clamp(0.0, 1.0).unsqueeze(-1)
        offset = rel - h * axis
        dist = offset.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(offset / dist, h)
        return dist.squeeze(-1) - radius

    @staticmethod
    def backward(ctx, g):
        n, h = ctx.saved_tensors
        gn = g.unsqueeze(-1) * n
        ga = -gn.sum(0)
        gb = -(h * gn).sum(0)
        g_radius = -g.sum()
        return gn, ga, gb, g_radius


def inputs():
    torch.manual_seed(0)
    points = (torch.randn(6, 3, dtype=torch.float64) * 2).requires_grad_()
    a = torch.tensor([-1.0, 0.2, 0.1], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([1.0, -0.3, 0.4], dtype=torch.float64, requires_grad=True)
    radius = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    return (points, a, b, radius)


def reference(points, a, b, radius):
    ab = b - a
    h = ((points - a) @ ab / ab.dot(ab)).clamp(0, 1)[:, None]
    return (points - a - h * ab).norm(dim=-1) - radius


# %% linear_cross_entropy_12
"""The loss is the mean over all valid tokens of the batch, but the gradient made in the forward is divided by the number of valid tokens in its own chunk, so the chunks are weighted wrongly."""
WRONG = ["p.div_(keep.sum())"]
RIGHT = ["p.div_(n_valid)"]
NAME = "LinearCrossEntropy"
# --- code
import torch
import torch.nn.functional as F


class LinearCrossEntropy(torch.autograd.Function):
    """LM head and mean cross entropy in chunks, gradients made in the forward: no (N, V) logits."""

    @staticmethod
    def forward(ctx, hidden, weight, target, chunk, ignore_index):
        n_valid = (target != ignore_index).sum()
        g_hidden = torch.zeros_like(hidden)
        g_weight = torch.zeros_like(weight)
        loss = hidden.new_zeros(())
        for start in range(0, hidden.size(0), chunk):
            sl = slice(start, start + chunk)
            h, t = hidden[sl], target[sl]
            keep = t != ignore_index
            safe = t.masked_fill(~keep, 0)
            logits = h @ weight.t()
            lse = torch.logsumexp(logits, dim=-1, keepdim=True)
            nll = lse.squeeze(-1) - logits.gather(1, safe[:, None]).squeeze(1)
            loss += (nll * keep).sum()
            p = (logits - lse).exp_()
            p.scatter_add_(1, safe[:, None], -torch.ones_like(lse))
            p.mul_(keep[:, None])
            p.div_(keep.sum())
            g_hidden[sl] = p @ weight
            g_weight.addmm_(p.t(), h)
        ctx.save_for_backward(g_hidden, g_weight)
        return loss / n_valid

    @staticmethod
    def backward(ctx, g):
        g_hidden, g_weight = ctx.saved_tensors
        return g * g_hidden, g * g_weight, None, None, None


def inputs():
    torch.manual_seed(0)
    hidden = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([1, -1, 0, 3, 2, -1, 1])
    return (hidden, weight, target, 3, -1)


def reference(hidden, weight, target, chunk, ignore_index):
    return F.cross_entropy(hidden @ weight.t(), target, ignore_index=ignore_index)


# %% inplace_abn_13
"""The forward scales with |weight| + eps to keep the layer invertible; the gradient of weight lacks the derivative of the absolute value, sign(weight), and has the wrong sign for channels with negative weight."""
WRONG = ["g_weight = dot"]
RIGHT = ["g_weight = dot * weight.sign()"]
NAME = "InvertedABN"
# --- code
import torch
import torch.nn.functional as F


class InvertedABN(torch.autograd.Function):
    """Batch norm and leaky ReLU that keep only the output and rebuild the normalised input from it."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps, slope):
        mean = x.mean(0)
        inv = (x.var(0, unbiased=False) + eps).rsqrt()
        gamma = weight.abs() + eps
        y = F.leaky_relu((x - mean) * inv * gamma + bias, slope)
        ctx.save_for_backward(y, weight, bias, inv)
        ctx.eps, ctx.slope = eps, slope
        return y

    @staticmethod
    def backward(ctx, g):
        y, weight, bias, inv = ctx.saved_tensors
        gamma = weight.abs() + ctx.eps
        neg = y < 0
        z = torch.where(neg, y / ctx.slope, y)
        gz = torch.where(neg, g * ctx.slope, g)
        xhat = (z - bias) / gamma
        g_bias = gz.sum(0)
        dot = (gz * xhat).sum(0)
        g_weight = dot
        n = y.size(0)
        gx = gamma * inv * (gz - g_bias / n - xhat * dot / n)
        return gx, g_weight, g_bias, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([1.1, -0.7, 0.5], dtype=torch.float64, requires_grad=True)
    bias = torch.randn(3, dtype=torch.float64, requires_grad=True)
    return (x, weight, bias, 1e-3, 0.1)


# %% affine_fake_quant_14
"""Where the value is clipped the output is (q - zero_point) * scale, so the derivative for the scale is q - zero_point; the clipped branch forgets the zero point. (Against the straight-through surrogate; without the surrogate gradcheck cannot pass inside the range.)"""
WRONG = ["d_scale = torch.where(inside, q - zp - x / scale, q)"]
RIGHT = ["d_scale = torch.where(inside, q - zp - x / scale, q - zp)"]
NAME = "AffineFakeQuant"
# --- code
import torch


class AffineFakeQuant(torch.autograd.Function):
    """Asymmetric fake quantisation with a learned scale per channel.

    Surrogate: straight-through, round() has derivative 1 in the backward; the clamp is exact.
    """

    @staticmethod
    def forward(ctx, x, scale, zp, qmin, qmax):
        level = torch.round(x / scale) + zp
        q = level.clamp(qmin, qmax)
        inside = (level >= qmin) & (level <= qmax)
        ctx.save_for_backward(x, scale, zp, q, inside)
        return (q - zp) * scale

    @staticmethod
    def backward(ctx, g):
        x, scale, zp, q, inside = ctx.saved_tensors
        gx = g * inside
        d_scale = torch.where(inside, q - zp - x / scale, q)
        g_scale = (g * d_scale).sum(dim=1, keepdim=True)
        return gx, g_scale, None, None, None


def inputs():
    torch.manual_seed(0)
    x = (torch.randn(3, 6, dtype=torch.float64) * 2).requires_grad_()
    scale = torch.tensor([[0.3], [0.25], [0.4]], dtype=torch.float64, requires_grad=True)
    zp = torch.tensor([[5.0], [8.0], [6.0]], dtype=torch.float64)
    return (x, scale, zp, 0, 15)


def reference(x, scale, zp, qmin, qmax):
    xs = x / scale
    level = xs + (torch.round(xs) - xs).detach() + zp
    return (level.clamp(qmin, qmax) - zp) * scale


# %% group_shrink_15
"""The derivative of 1 - t/|w| adds (t/|w|) * u (u.g) with the unit vector u = w/|w|; after replacing w by u the remaining 1/|w| was lost."""
WRONG = ["gw = keep * (ratio * g + thr * unit * along)"]
RIGHT = ["gw = keep * (ratio * g + thr / length * unit * along)"]
NAME = "GroupShrink"
# --- code
import torch


class GroupShrink(torch.autograd.Function):
    """Structured pruning: each row is shrunk towards zero by its learned threshold, or set to zero."""

    @staticmethod
    def forward(weight, thr):
        length = weight.norm(dim=1, keepdim=True).clamp_min(1e-12)
        return weight * (1 - thr / length).clamp_min(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        weight, thr = ctx.saved_tensors
        length = weight.norm(dim=1, keepdim=True).clamp_min(1e-12)
        unit = weight / length
        ratio = 1 - thr / length
        keep = ratio > 0
        along = (unit * g).sum(dim=1, keepdim=True)
        gw = gt = None
        if ctx.needs_input_grad[0]:
            gw = keep * (ratio * g + thr * unit * along)
        if ctx.needs_input_grad[1]:
            gt = -(keep * along)
        return gw, gt


def inputs():
    torch.manual_seed(0)
    weight = torch.randn(4, 3, dtype=torch.float64)
    weight[2] *= 0.1
    thr = torch.tensor([[0.5], [0.3], [0.6], [0.8]], dtype=torch.float64, requires_grad=True)
    return (weight.requires_grad_(), thr)


def reference(weight, thr):
    return weight * torch.relu(1 - thr / weight.norm(dim=1, keepdim=True))


# %% masked_instance_norm_16
"""The statistics are taken over the valid frames only, but backward averages over the padded length (mean over the time axis) instead of dividing by the number of valid frames."""
WRONG = ["m1 = gh.mean(-1, keepdim=True)", "m2 = (gh * xhat).mean(-1, keepdim=True)"]
RIGHT = ["m1 = gh.sum(-1, keepdim=True) / count", "m2 = (gh * xhat).sum(-1, keepdim=True) / count"]
NAME = "MaskedInstanceNorm"
# --- code
import torch


class MaskedInstanceNorm(torch.autograd.Function):
    """Instance norm of (B, C, T) over the valid frames; padded frames give zero."""

    @staticmethod
    def forward(ctx, x, weight, bias, mask, eps=1e-5):
        m = mask.unsqueeze(1).to(x.dtype)
        count = m.sum(-1, keepdim=True)
        mean = (x * m).sum(-1, keepdim=True) / count
        centred = (x - mean) * m
        inv = (centred.square().sum(-1, keepdim=True) / count + eps).rsqrt()
        xhat = centred * inv
        ctx.save_for_backward(xhat, inv, weight, m, count)
        return (xhat * weight[:, None] + bias[:, None]) * m

    @staticmethod
    def backward(ctx, g):
        xhat, inv, weight, m, count = ctx.saved_tensors
        g = g * m
        gw = (g * xhat).sum(dim=(0, 2))
        gb = g.sum(dim=(0, 2))
        gh = g * weight[:, None]
        m1 = gh.mean(-1, keepdim=True)
        m2 = (gh * xhat).mean(-1, keepdim=True)
        gx = inv * (gh - m1 - xhat * m2) * m
        return gx, gw, gb, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 2, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(5)[None, :] < torch.tensor([[3], [4]])
    return (x, weight, bias, mask, 1e-5)


# %% snake_double_backward_17
"""The first gradient is right, but its own backward has d/dx sin(2ax) = 2*cos(2ax) without the inner factor a, so second derivatives (gradient penalty, gradgradcheck) are wrong."""
WRONG = ["gx = gg * g * 2 * torch.cos(2 * freq * x)"]
RIGHT = ["gx = gg * g * 2 * freq * torch.cos(2 * freq * x)"]
NAME = "Snake"
# --- code
import torch


class _SnakeGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, g, x, freq):
        ctx.save_for_backward(g, x)
        ctx.freq = freq
        return g * (1 + torch.sin(2 * freq * x))

    @staticmethod
    def backward(ctx, gg):
        g, x = ctx.saved_tensors
        freq = ctx.freq
        gout = gg * (1 + torch.sin(2 * freq * x))
        gx = gg * g * 2 * torch.cos(2 * freq * x)
        return gout, gx, None


class Snake(torch.autograd.Function):
    """x + sin(freq x)^2 / freq, the periodic activation of neural vocoders."""

    @staticmethod
    def forward(ctx, x, freq):
        ctx.save_for_backward(x)
        ctx.freq = freq
        return x + torch.sin(freq * x).square() / freq

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return _SnakeGrad.apply(g, x, ctx.freq), None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(3, 4, dtype=torch.float64, requires_grad=True), 2.5)


def reference(x, freq):
    return x + torch.sin(freq * x) ** 2 / freq


# %% soft_histogram_18
"""The position is (x - low)/(high - low) * (bins - 1) because the bins are centred on the grid points, so its derivative has bins - 1; backward uses bins."""
WRONG = ["slope = ctx.bins / (ctx.high - ctx.low)"]
RIGHT = ["slope = (ctx.bins - 1) / (ctx.high - ctx.low)"]
NAME = "SoftHistogram"
# --- code
import torch


class SoftHistogram(torch.autograd.Function):
    """Weighted histogram with linear votes to the two nearest bins; values are inside [low, high)."""

    @staticmethod
    def forward(ctx, x, weight, low, high, bins):
        pos = (x - low) / (high - low) * (bins - 1)
        left = pos.floor().long().clamp(0, bins - 2)
        frac = pos - left
        hist = x.new_zeros(bins)
        hist.index_add_(0, left, weight * (1 - frac))
        hist.index_add_(0, left + 1, weight * frac)
        ctx.save_for_backward(weight, left, frac)
        ctx.low, ctx.high, ctx.bins = low, high, bins
        return hist

    @staticmethod
    def backward(ctx, g):
        weight, left, frac = ctx.saved_tensors
        g0, g1 = g[left], g[left + 1]
        gx = gw = None
        if ctx.needs_input_grad[0]:
            slope = ctx.bins / (ctx.high - ctx.low)
            gx = weight * (g1 - g0) * slope
        if ctx.needs_input_grad[1]:
            gw = torch.lerp(g0, g1, frac)
        return gx, gw, None, None, None


def inputs():
    torch.manual_seed(0)
    x = (torch.rand(8, dtype=torch.float64) * 1.9 - 0.95).requires_grad_()
    weight = torch.rand(8, dtype=torch.float64, requires_grad=True)
    return (x, weight, -1.0, 1.0, 5)


# %% crf_partition_19
"""The step t is taken only where mask[:, t] is set; the pair marginals for the transitions are gated with mask[:, t-1], so one extra transition into the padding is counted for every shorter sequence."""
WRONG = ["g_trans += ((pair - log_z[:, None, None]).exp() * (g * mask[:, t - 1])[:, None, None]).sum(0)"]
RIGHT = ["g_trans += ((pair - log_z[:, None, None]).exp() * (g * mask[:, t])[:, None, None]).sum(0)"]
NAME = "CRFLogPartition"
# --- code
import torch


class CRFLogPartition(torch.autograd.Function):
    """log Z of a linear chain CRF; gradients are the marginals of forward-backward."""

    @staticmethod
    def forward(ctx, emit, trans, mask):
        alpha = [emit[:, 0]]
        for t in range(1, emit.size(1)):
            step = torch.logsumexp(alpha[-1].unsqueeze(2) + trans, dim=1) + emit[:, t]
            alpha.append(torch.where(mask[:, t, None], step, alpha[-1]))
        alpha = torch.stack(alpha, dim=1)
        log_z = torch.logsumexp(alpha[:, -1], dim=-1)
        ctx.save_for_backward(emit, trans, mask, alpha, log_z)
        return log_z

    @staticmethod
    def backward(ctx, g):
        emit, trans, mask, alpha, log_z = ctx.saved_tensors
        beta = torch.zeros_like(emit[:, 0])
        g_emit = torch.zeros_like(emit)
        g_trans = torch.zeros_like(trans)
        for t in range(emit.size(1) - 1, -1, -1):
            node = (alpha[:, t] + beta - log_z[:, None]).exp()
            g_emit[:, t] = node * (g * mask[:, t])[:, None]
            if t == 0:
                break
            tail = trans + (emit[:, t] + beta).unsqueeze(1)
            pair = alpha[:, t - 1].unsqueeze(2) + tail
            g_trans += ((pair - log_z[:, None, None]).exp() * (g * mask[:, t - 1])[:, None, None]).sum(0)
            beta = torch.where(mask[:, t, None], torch.logsumexp(tail, dim=2), beta)
        return g_emit, g_trans, None


def inputs():
    torch.manual_seed(0)
    emit = torch.randn(3, 4, 3, dtype=torch.float64, requires_grad=True)
    trans = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(4)[None, :] < torch.tensor([[4], [2], [3]])
    return (emit, trans, mask)


# %% rotary_offset_20
"""The tables of cos and sin are rebuilt in backward without the position offset of the cache, so the gradient is rotated back by the angles of the positions 0..L-1 instead of offset..offset+L-1."""
WRONG = ["cos, sin = _tables(g.size(-2), g.size(-1) // 2, ctx.base, like=g)"]
RIGHT = ["cos, sin = _tables(g.size(-2), g.size(-1) // 2, ctx.base, ctx.offset, like=g)"]
NAME = "RotaryEmbedding"
# --- code
import torch


def _tables(length, half, base, offset=0, like=None):
    pos = torch.arange(length, dtype=like.dtype, device=like.device) + offset
    inv = base ** (-torch.arange(half, dtype=like.dtype, device=like.device) / half)
    ang = pos[:, None] * inv
    return ang.cos(), ang.sin()


class RotaryEmbedding(torch.autograd.Function):
    """Rotary positions (split halves); the tables are made again in backward and not stored."""

    @staticmethod
    def forward(x, base, offset):
        cos, sin = _tables(x.size(-2), x.size(-1) // 2, base, offset, like=x)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.base, ctx.offset = inputs

    @staticmethod
    def backward(ctx, g):
        cos, sin = _tables(g.size(-2), g.size(-1) // 2, ctx.base, like=g)
        ga, gb = g.chunk(2, dim=-1)
        return torch.cat([ga * cos + gb * sin, gb * cos - ga * sin], dim=-1), None, None


def inputs():
    torch.manual_seed(0)
    return (torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True), 100.0, 5)


# %% gaussian_blur_21
"""The kernel is normalised to sum one, so the derivative for sigma is k * (i^2 - E[i^2]) / sigma^3. The code differentiates the unnormalised exponential only and leaves out the mean from the normalisation."""
WRONG = ["dk = kernel * sq / sigma ** 3"]
RIGHT = ["dk = kernel * (sq - (kernel * sq).sum()) / sigma ** 3"]
NAME = "GaussianBlur1d"
# --- code
import torch
import torch.nn.functional as F


class GaussianBlur1d(torch.autograd.Function):
    """Gaussian smoothing of (B, T) signals with a learned width, zero padding."""

    @staticmethod
    def forward(ctx, x, sigma, radius):
        i = torch.arange(-radius, radius + 1, dtype=x.dtype, device=x.device)
        kernel = torch.softmax(-0.5 * (i / sigma) ** 2, dim=0)
        y = F.conv1d(x.unsqueeze(1), kernel.view(1, 1, -1), padding=radius)
        ctx.save_for_backward(x, sigma, kernel)
        ctx.radius = radius
        return y.squeeze(1)

    @staticmethod
    def backward(ctx, g):
        x, sigma, kernel = ctx.saved_tensors
        r = ctx.radius
        gx = gs = None
        if ctx.needs_input_grad[0]:
            gx = F.conv_transpose1d(g.unsqueeze(1), kernel.view(1, 1, -1), padding=r).squeeze(1)
        if ctx.needs_input_grad[1]:
            windows = F.pad(x, (r, r)).unfold(-1, 2 * r + 1, 1)
            gk = torch.einsum("bt,btk->k", g, windows)
            sq = torch.arange(-r, r + 1, dtype=x.dtype, device=x.device).square()
            dk = kernel * sq / sigma ** 3
            gs = (gk * dk).sum()
        return gx, gs, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 8, dtype=torch.float64, requires_grad=True)
    sigma = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    return (x, sigma, 2)


def reference(x, sigma, radius):
    i = torch.arange(-radius, radius + 1, dtype=x.dtype)
    k = torch.exp(-i ** 2 / (2 * sigma ** 2))
    k = k / k.sum()
    return F.conv1d(x[:, None], k[None, None], padding=radius)[:, 0]


# %% dropout_add_22
"""The mask is made again in backward from the seed but with dtype=g.dtype, while the forward drew it in the default float32. The generator gives another sequence for float64, so backward uses a different mask."""
WRONG = ["keep = _keep_mask(g.shape, ctx.p, ctx.seed, dtype=g.dtype)"]
RIGHT = ["keep = _keep_mask(g.shape, ctx.p, ctx.seed)"]
NAME = "DropoutAdd"
# --- code
import torch


def _keep_mask(shape, p, seed, dtype=None):
    gen = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=gen, dtype=dtype) >= p


class DropoutAdd(torch.autograd.Function):
    """residual + layer_scale * dropout(x); the mask is not stored but drawn again from its seed."""

    @staticmethod
    def forward(ctx, x, residual, layer_scale, p, seed):
        keep = _keep_mask(x.shape, p, seed)
        ctx.save_for_backward(x, layer_scale)
        ctx.p, ctx.seed = p, seed
        return residual + layer_scale * (x * keep / (1 - p))

    @staticmethod
    def backward(ctx, g):
        x, layer_scale = ctx.saved_tensors
        keep = _keep_mask(g.shape, ctx.p, ctx.seed, dtype=g.dtype)
        gd = g * keep / (1 - ctx.p)
        g_scale = (gd * x).flatten(0, -2).sum(0)
        return gd * layer_scale, g, g_scale, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    residual = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    scale = torch.rand(4, dtype=torch.float64, requires_grad=True)
    return (x, residual, scale, 0.4, 1234)


# %% causal_depthwise_conv_23
"""needs_input_grad has one entry for every argument, the integer dilation included. The first three entries are read as x, weight, bias, so the flag for weight is that of dilation (always False) and weight never gets a gradient, while bias follows the flag of weight."""
WRONG = ["need_x, need_w, need_b = ctx.needs_input_grad[:3]"]
RIGHT = ["need_x, _, need_w, need_b = ctx.needs_input_grad"]
NAME = "CausalDepthwiseConv"
# --- code
import torch
import torch.nn.functional as F


class CausalDepthwiseConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dilation, weight, bias):
        pad = (weight.size(-1) - 1) * dilation
        ctx.save_for_backward(x, weight)
        ctx.dilation, ctx.pad = dilation, pad
        return F.conv1d(F.pad(x, (pad, 0)), weight, bias, dilation=dilation, groups=x.size(1))

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        need_x, need_w, need_b = ctx.needs_input_grad[:3]
        gx = gw = gb = None
        if need_x:
            gx = F.conv_transpose1d(g, weight, dilation=ctx.dilation, groups=x.size(1))
            gx = gx[..., ctx.pad:]
        if need_w:
            xp = F.pad(x, (ctx.pad, 0))
            taps = []
            for k in range(weight.size(-1)):
                start = k * ctx.dilation
                taps.append((g * xp[..., start:start + g.size(-1)]).sum(dim=(0, 2)))
            gw = torch.stack(taps, dim=-1).unsqueeze(1)
        if need_b:
            gb = g.sum(dim=(0, 2))
        return gx, None, gw, gb


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 2, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 1, 3, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, dtype=torch.float64, requires_grad=True)
    return (x, 2, weight, bias)


def reference(x, dilation, weight, bias):
    pad = (weight.size(-1) - 1) * dilation
    return F.conv1d(F.pad(x, (pad, 0)), weight, bias, dilation=dilation, groups=x.size(1))


# %% distillation_kl_24
"""backward scales the saved tensor in place to spare memory, which destroys it: a second backward through the same graph (retain_graph, gradcheck's repeat) raises the in-place version error. The first backward is right."""
WRONG = ["g_student = delta.mul_(g * ctx.coef)"]
RIGHT = ["g_student = delta * (g * ctx.coef)"]
NAME = "DistillationKL"
# --- code
import torch


class DistillationKL(torch.autograd.Function):
    """T^2 KL(teacher || student) at temperature T, mean over the valid rows; no gradient to the teacher."""

    @staticmethod
    def forward(ctx, student, teacher, valid, temperature):
        log_q = torch.log_softmax(student / temperature, dim=-1)
        log_p = torch.log_softmax(teacher / temperature, dim=-1)
        p = log_p.exp()
        rows = (p * (log_p - log_q)).sum(-1) * valid
        n = valid.sum().clamp(min=1).item()
        delta = log_q.exp_().sub_(p).mul_(valid.unsqueeze(-1))
        ctx.save_for_backward(delta)
        ctx.coef = temperature / n
        return rows.sum() * temperature ** 2 / n

    @staticmethod
    def backward(ctx, g):
        (delta,) = ctx.saved_tensors
        g_student = None
        if ctx.needs_input_grad[0]:
            g_student = delta.mul_(g * ctx.coef)
        return g_student, None, None, None


def inputs():
    torch.manual_seed(0)
    student = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(4, 3, dtype=torch.float64)
    return (student, teacher, torch.tensor([True, True, False, True]), 2.0)
