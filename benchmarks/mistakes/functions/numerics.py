"""Mistakes: held out, numerical computing. Each cell is a separate module; see benchmarks/repairs.py."""

# %% implicit_euler_1
"""The implicit-function adjoint needs the Jacobian of the residual and the W-derivative at the converged state y1, but the starting state y0 is saved, so backward linearises at the wrong point."""
WRONG = ["ctx.save_for_backward(y0, W)"]
RIGHT = ["ctx.save_for_backward(y, W)"]
NAME = "ImplicitEulerStep"
# --- code
import torch


class ImplicitEulerStep(torch.autograd.Function):
    """Solves y1 = y0 + h * tanh(W y1) with Newton, one step per row of y0."""

    @staticmethod
    def forward(ctx, y0, W, h, iters):
        eye = torch.eye(W.shape[0], dtype=W.dtype, device=W.device)
        y = y0.clone()
        for _ in range(iters):
            f = torch.tanh(y @ W.T)
            res = y - y0 - h * f
            jac = eye - h * (1 - f * f).unsqueeze(-1) * W
            y = y - torch.linalg.solve(jac, res.unsqueeze(-1)).squeeze(-1)
        ctx.save_for_backward(y0, W)
        ctx.h = h
        return y

    @staticmethod
    def backward(ctx, grad_y):
        y, W = ctx.saved_tensors
        h = ctx.h
        f = torch.tanh(y @ W.T)
        slope = 1 - f * f
        eye = torch.eye(W.shape[0], dtype=W.dtype, device=W.device)
        jac = eye - h * slope.unsqueeze(-1) * W
        lam = torch.linalg.solve(jac.transpose(-1, -2), grad_y.unsqueeze(-1)).squeeze(-1)
        grad_W = h * torch.einsum("bi,bj->ij", lam * slope, y)
        return lam, grad_W, None, None


def inputs():
    torch.manual_seed(0)
    y0 = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    W = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    return (y0, W, 0.2, 25)


# %% gauss_logpdf_2
"""The forward only reads the lower triangle of the Cholesky factor, so the gradient of L has to be cut to its lower triangle; without tril the strictly upper entries get a non-zero gradient."""
WRONG = ["grad_L = torch.einsum(\"ib,jb,b->ij\", a, z, grad_logp)"]
RIGHT = ["grad_L = torch.tril(torch.einsum(\"ib,jb,b->ij\", a, z, grad_logp))"]
NAME = "GaussianLogDensity"
# --- code
import math
import torch


class GaussianLogDensity(torch.autograd.Function):
    """log N(x; mu, L L^T) for a batch of x."""

    @staticmethod
    def forward(x, mu, L):
        n = L.shape[0]
        z = torch.linalg.solve_triangular(L, (x - mu).T, upper=False)
        logdet = torch.log(torch.diagonal(L)).sum()
        return -0.5 * (z * z).sum(0) - logdet - 0.5 * n * math.log(2 * math.pi)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, mu, L = inputs
        ctx.save_for_backward(x, mu, L)

    @staticmethod
    def backward(ctx, grad_logp):
        x, mu, L = ctx.saved_tensors
        z = torch.linalg.solve_triangular(L, (x - mu).T, upper=False)
        a = torch.linalg.solve_triangular(L.T, z, upper=True)
        grad_x = -a.T * grad_logp.unsqueeze(-1)
        grad_mu = -grad_x.sum(0)
        grad_L = torch.einsum("ib,jb,b->ij", a, z, grad_logp)
        grad_L = grad_L - torch.diag(grad_logp.sum() / torch.diagonal(L))
        return grad_x, grad_mu, grad_L


def inputs():
    torch.manual_seed(0)
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    mu = torch.randn(3, dtype=torch.float64, requires_grad=True)
    L = torch.tril(torch.randn(3, 3, dtype=torch.float64), -1) + torch.diag(torch.rand(3, dtype=torch.float64) + 0.7)
    return (x, mu, L.requires_grad_())


def reference(x, mu, L):
    return torch.distributions.MultivariateNormal(mu, scale_tril=torch.tril(L), validate_args=False).log_prob(x)


# %% lennard_jones_3
"""Backward recomputes the pair vectors from the saved positions without the minimum-image wrap, so pairs that interact through the periodic boundary get the force of the unwrapped distance."""
WRONG = ["d = pos[i] - pos[j]"]
RIGHT = ["d = pos[i] - pos[j]\nd = d - box * torch.round(d / box)"]
NAME = "PeriodicLennardJones"
# --- code
import torch


class PeriodicLennardJones(torch.autograd.Function):
    @staticmethod
    def forward(ctx, pos, eps, sigma, box, rc):
        n = pos.shape[0]
        i, j = torch.triu_indices(n, n, offset=1, device=pos.device)
        dr = pos[i] - pos[j]
        dr = dr - box * torch.round(dr / box)
        r2 = (dr * dr).sum(-1)
        keep = r2 < rc * rc
        s6 = (sigma * sigma / r2) ** 3
        sc6 = (sigma / rc) ** 6
        pair = 4 * eps * (s6 * s6 - s6 - sc6 * sc6 + sc6)
        ctx.save_for_backward(pos, eps, sigma)
        ctx.box, ctx.rc = box, rc
        return (pair * keep).sum()

    @staticmethod
    def backward(ctx, g):
        pos, eps, sigma = ctx.saved_tensors
        box, rc = ctx.box, ctx.rc
        n = pos.shape[0]
        i, j = torch.triu_indices(n, n, offset=1, device=pos.device)
        d = pos[i] - pos[j]
        r2 = (d * d).sum(-1)
        keep = (r2 < rc * rc).to(pos.dtype)
        s6 = (sigma * sigma / r2) ** 3
        sc6 = (sigma / rc) ** 6
        f = -24 * eps * (2 * s6 * s6 - s6) / r2 * keep
        fij = f.unsqueeze(-1) * d
        grad_pos = torch.zeros_like(pos).index_add_(0, i, fij).index_add_(0, j, -fij)
        grad_eps = (4 * (s6 * s6 - s6 - sc6 * sc6 + sc6) * keep).sum()
        grad_sigma = (24 * eps / sigma * (2 * s6 * s6 - s6 - 2 * sc6 * sc6 + sc6) * keep).sum()
        return g * grad_pos, g * grad_eps, g * grad_sigma, None, None


def inputs():
    torch.manual_seed(0)
    pos = torch.tensor([[0.2, 0.3, 0.4], [2.9, 0.2, 0.3], [1.4, 1.5, 1.3], [0.3, 2.8, 1.1]], dtype=torch.float64, requires_grad=True)
    eps = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    sigma = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    return (pos, eps, sigma, 3.2, 1.5)


def reference(pos, eps, sigma, box, rc):
    n = pos.shape[0]
    i, j = torch.triu_indices(n, n, offset=1)
    rij = pos[i] - pos[j]
    r = (rij - box * torch.round(rij / box)).norm(dim=-1)

    def u(r):
        return 4 * eps * ((sigma / r) ** 12 - (sigma / r) ** 6)
    return torch.where(r < rc, u(r) - u(rc), torch.zeros_like(r)).sum()


# %% black_scholes_4
"""The trader's theta (change of price as calendar time passes, -dC/dT) is returned as the gradient for the time to maturity T; the derivative with respect to T has the opposite sign."""
WRONG = ["theta = -S * pdf * sigma / (2 * sqT) - r * K * disc * nd2"]
RIGHT = ["theta = S * pdf * sigma / (2 * sqT) + r * K * disc * nd2"]
NAME = "BlackScholesCall"
# --- code
import math
import torch


def _ncdf(x):
    return 0.5 * torch.erfc(-x / math.sqrt(2.0))


class BlackScholesCall(torch.autograd.Function):
    @staticmethod
    def forward(ctx, S, K, r, sigma, T):
        sqT = T.sqrt()
        d1 = (torch.log(S / K) + (r + 0.5 * sigma * sigma) * T) / (sigma * sqT)
        d2 = d1 - sigma * sqT
        disc = torch.exp(-r * T)
        ctx.save_for_backward(S, K, sigma, T, d1, d2)
        ctx.r = r
        return S * _ncdf(d1) - K * disc * _ncdf(d2)

    @staticmethod
    def backward(ctx, g):
        S, K, sigma, T, d1, d2 = ctx.saved_tensors
        r = ctx.r
        sqT = T.sqrt()
        disc = torch.exp(-r * T)
        nd2 = _ncdf(d2)
        pdf = torch.exp(-0.5 * d1 * d1) / math.sqrt(2 * math.pi)
        delta = _ncdf(d1)
        dual_delta = -disc * nd2
        vega = S * pdf * sqT
        theta = -S * pdf * sigma / (2 * sqT) - r * K * disc * nd2
        return g * delta, g * dual_delta, None, g * vega, g * theta


def inputs():
    torch.manual_seed(0)
    S = (90 + 20 * torch.rand(4, dtype=torch.float64)).requires_grad_()
    K = (90 + 20 * torch.rand(4, dtype=torch.float64)).requires_grad_()
    sigma = (0.2 + 0.2 * torch.rand(4, dtype=torch.float64)).requires_grad_()
    T = (0.5 + torch.rand(4, dtype=torch.float64)).requires_grad_()
    return (S, K, 0.03, sigma, T)


# %% planar_arm_5
"""The heading of the tool is the sum of all joint angles, so its gradient goes to every joint; here it is added to the last joint only."""
WRONG = ["grad_q[:, -1] += grad_heading"]
RIGHT = ["grad_q += grad_heading.unsqueeze(-1)"]
NAME = "PlanarArm"
# --- code
import torch


class PlanarArm(torch.autograd.Function):
    """Tool position and heading of a planar n-link arm with relative joint angles."""

    @staticmethod
    def forward(q, lengths):
        phi = torch.cumsum(q, dim=-1)
        xy = torch.stack([(lengths * phi.cos()).sum(-1), (lengths * phi.sin()).sum(-1)], dim=-1)
        return xy, phi[:, -1].clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, lengths = inputs
        ctx.save_for_backward(q, lengths)

    @staticmethod
    def backward(ctx, grad_xy, grad_heading):
        q, lengths = ctx.saved_tensors
        phi = torch.cumsum(q, dim=-1)
        gx, gy = grad_xy[:, :1], grad_xy[:, 1:]
        c, s = phi.cos(), phi.sin()
        g_phi = lengths * (gy * c - gx * s)
        grad_q = g_phi.flip(-1).cumsum(-1).flip(-1)
        grad_q[:, -1] += grad_heading
        grad_lengths = (gx * c + gy * s).sum(0)
        return grad_q, grad_lengths


def inputs():
    torch.manual_seed(0)
    q = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    lengths = (torch.rand(4, dtype=torch.float64) + 0.5).requires_grad_()
    return (q, lengths)


def reference(q, lengths):
    phi = q.cumsum(-1)
    xy = torch.stack([(lengths * phi.cos()).sum(-1), (lengths * phi.sin()).sum(-1)], dim=-1)
    return xy, phi[:, -1]


# %% periodogram_6
"""irfft counts every bin twice except DC and, only for even n, the last (Nyquist) bin. Backward halves bins 1..-2 in all cases, so for odd n the last bin, which also has a mirror, stays too large by a factor two."""
WRONG = ["spec[..., 1:-1] *= 0.5"]
RIGHT = ["spec[..., 1:(n + 1) // 2] *= 0.5"]
NAME = "Periodogram"
# --- code
import torch


class Periodogram(torch.autograd.Function):
    """One-sided |rfft(w * x)|^2 / (fs * sum w^2), without the doubling of the middle bins."""

    @staticmethod
    def forward(ctx, x, window, fs):
        X = torch.fft.rfft(x * window, dim=-1)
        scale = 1.0 / (fs * (window * window).sum().item())
        ctx.save_for_backward(X, window)
        ctx.scale = scale
        return (X.real ** 2 + X.imag ** 2) * scale

    @staticmethod
    def backward(ctx, grad_p):
        X, window = ctx.saved_tensors
        n = window.shape[-1]
        spec = 2.0 * ctx.scale * grad_p * X
        spec[..., 1:-1] *= 0.5
        grad_x = torch.fft.irfft(spec, n=n, dim=-1) * n
        return grad_x * window, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 9, dtype=torch.float64, requires_grad=True)
    window = torch.hann_window(9, periodic=True, dtype=torch.float64) + 0.1
    return (x, window, 50.0)


def reference(x, window, fs):
    return torch.fft.rfft(x * window, dim=-1).abs().square() / (fs * (window * window).sum())


# %% quat_rotate_7
"""The derivative of q/|q| is (I - qn qn^T)/|q|; the projection is there but the division by the norm is missing, which only unit quaternions hide."""
WRONG = ["grad_q = gn - (gn * qn).sum(-1, keepdim=True) * qn"]
RIGHT = ["grad_q = (gn - (gn * qn).sum(-1, keepdim=True) * qn) / norm"]
NAME = "QuaternionRotate"
# --- code
import torch


def _cross(a, b):
    return torch.linalg.cross(a, b, dim=-1)


class QuaternionRotate(torch.autograd.Function):
    """Rotates v by the quaternion q = (w, x, y, z); q is normalised first."""

    @staticmethod
    def forward(ctx, q, v):
        norm = q.norm(dim=-1, keepdim=True)
        qn = q / norm
        w, u = qn[..., :1], qn[..., 1:]
        t = 2 * _cross(u, v)
        ctx.save_for_backward(qn, norm, v)
        return v + w * t + _cross(u, t)

    @staticmethod
    def backward(ctx, g):
        qn, norm, v = ctx.saved_tensors
        w, u = qn[..., :1], qn[..., 1:]
        dot = lambda a, b: (a * b).sum(-1, keepdim=True)
        gw = 2 * dot(g, _cross(u, v))
        gu = 2 * w * _cross(v, g) + 2 * (dot(u, v) * g + dot(g, u) * v - 2 * dot(g, v) * u)
        gn = torch.cat([gw, gu], dim=-1)
        grad_q = gn - (gn * qn).sum(-1, keepdim=True) * qn
        t = -2 * _cross(u, g)
        grad_v = g + w * t - _cross(u, t)
        return grad_q, grad_v


def inputs():
    torch.manual_seed(0)
    q = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    v = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    return (q, v)


# %% elastoplastic_8
"""Backward zeroes the plastic points in grad_output itself (masked_fill_), a tensor that autograd shares with other consumers. It breaks when the same incoming gradient is still needed, e.g. total = visc + f(strain) with visc = eta * rate computed before f (the gradients of eta and rate are zeroed at the plastic points), and the tensor a user passes to backward(g) is overwritten; a gradcheck of the function alone passes."""
WRONG = ["g_el = grad_stress.masked_fill_(plastic, 0.0)"]
RIGHT = ["g_el = grad_stress.masked_fill(plastic, 0.0)"]
NAME = "PerfectPlasticStress"
# --- code
import torch


class PerfectPlasticStress(torch.autograd.Function):
    """1D elastic-perfectly-plastic law: stress = clamp(E * strain, -sy, sy)."""

    @staticmethod
    def forward(ctx, strain, E, sy):
        trial = E * strain
        plastic = trial.abs() > sy
        stress = torch.where(plastic, sy * trial.sign(), trial)
        ctx.save_for_backward(strain, E, plastic)
        return stress

    @staticmethod
    def backward(ctx, grad_stress):
        strain, E, plastic = ctx.saved_tensors
        grad_strain = grad_E = grad_sy = None
        if ctx.needs_input_grad[2]:
            side = torch.sign(E * strain)
            grad_sy = (grad_stress * side)[plastic].sum()
        g_el = grad_stress.masked_fill_(plastic, 0.0)
        if ctx.needs_input_grad[0]:
            grad_strain = g_el * E
        if ctx.needs_input_grad[1]:
            grad_E = (g_el * strain).sum()
        return grad_strain, grad_E, grad_sy


def inputs():
    torch.manual_seed(0)
    strain = torch.tensor([-1.3, -0.4, 0.1, 0.3, 0.9, 1.6], dtype=torch.float64, requires_grad=True)
    E = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    sy = torch.tensor(1.1, dtype=torch.float64, requires_grad=True)
    return (strain, E, sy)


def reference(strain, E, sy):
    return torch.minimum(torch.maximum(E * strain, -sy), sy)


# %% face_normals_9
"""Vertices are shared between faces, and indexed += keeps only one contribution per repeated index; the face gradients have to be accumulated with index_add_."""
WRONG = ["grad_v[faces.reshape(-1)] += contrib.reshape(-1, 3)"]
RIGHT = ["grad_v.index_add_(0, faces.reshape(-1), contrib.reshape(-1, 3))"]
NAME = "FaceAreaVectors"
# --- code
import torch


class FaceAreaVectors(torch.autograd.Function):
    """Half cross product of the two edges of each triangle."""

    @staticmethod
    def forward(verts, faces):
        p0, p1, p2 = verts[faces].unbind(1)
        return 0.5 * torch.linalg.cross(p1 - p0, p2 - p0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        verts, faces = inputs
        ctx.save_for_backward(verts, faces)

    @staticmethod
    def backward(ctx, grad_n):
        verts, faces = ctx.saved_tensors
        p0, p1, p2 = verts[faces].unbind(1)
        g1 = 0.5 * torch.linalg.cross(p2 - p0, grad_n)
        g2 = 0.5 * torch.linalg.cross(grad_n, p1 - p0)
        contrib = torch.stack([-g1 - g2, g1, g2], dim=1)
        grad_v = torch.zeros_like(verts)
        grad_v[faces.reshape(-1)] += contrib.reshape(-1, 3)
        return grad_v, None


def inputs():
    torch.manual_seed(0)
    verts = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    faces = torch.tensor([[0, 1, 2], [0, 2, 3], [1, 4, 2], [3, 2, 4]])
    return (verts, faces)


# %% hencky_strain_10
"""The divided difference (log wi - log wj)/(wi - wj) is 0/0 off the diagonal when two eigenvalues coincide; only the diagonal gets the limit 1/w, so repeated stretches (as in uniaxial or isotropic states) give NaN gradients."""
WRONG = ["F = (lw.unsqueeze(1) - lw) / dw"]
RIGHT = ["F = torch.where(dw.abs() < 1e-9, (1.0 / w).expand_as(dw), (lw.unsqueeze(1) - lw) / dw)"]
NAME = "SPDLogarithm"
# --- code
import torch


class SPDLogarithm(torch.autograd.Function):
    """Matrix logarithm of a symmetric positive definite tensor (Hencky strain)."""

    @staticmethod
    def forward(ctx, C):
        S = 0.5 * (C + C.T)
        w, V = torch.linalg.eigh(S)
        ctx.save_for_backward(w, V)
        return (V * w.log()) @ V.T

    @staticmethod
    def backward(ctx, G):
        w, V = ctx.saved_tensors
        G = 0.5 * (G + G.T)
        lw = w.log()
        dw = w.unsqueeze(1) - w
        F = (lw.unsqueeze(1) - lw) / dw
        F.diagonal().copy_(1.0 / w)
        inner = V.T @ G @ V
        return V @ (F * inner) @ V.T


def inputs():
    torch.manual_seed(0)
    C = torch.diag(torch.tensor([0.81, 0.81, 1.6], dtype=torch.float64))
    return (C.requires_grad_(),)


# %% debye_sinc_11
"""The second derivative of sin(x)/x is -sin(x)/x - 2 (x cos x - sin x)/x^3; the factor 2 from differentiating 1/x^2 is missing. First-order gradients are right, the double backward (gradgradcheck, Hessians) is wrong."""
WRONG = ["d2 = -x.sin() / x - num / x ** 3"]
RIGHT = ["d2 = -x.sin() / x - 2.0 * num / x ** 3"]
NAME = "DebyeSinc"
# --- code
import torch


class _DebyeSincGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, g):
        ctx.save_for_backward(x, g)
        return g * (x * x.cos() - x.sin()) / (x * x)

    @staticmethod
    def backward(ctx, gg):
        x, g = ctx.saved_tensors
        num = x * x.cos() - x.sin()
        d2 = -x.sin() / x - num / x ** 3
        return gg * g * d2, gg * num / (x * x)


class DebyeSinc(torch.autograd.Function):
    """sin(qr)/(qr) of the Debye scattering formula; qr > 0 off the diagonal."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin() / x

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return _DebyeSincGrad.apply(x, g)


def inputs():
    torch.manual_seed(0)
    x = 0.6 + 3 * torch.rand(2, 3, dtype=torch.float64)
    return (x.requires_grad_(),)


def reference(x):
    return torch.sin(x) / x


# %% tridiagonal_12
"""With A[i+1, i] = lower[i] and A[i, i+1] = upper[i], dA = -lam x^T gives lower: -lam[1:] * x[:-1] and upper: -lam[:-1] * x[1:]. The two are exchanged."""
WRONG = ["grad_lower = -lam[:-1] * x[1:]", "grad_upper = -lam[1:] * x[:-1]"]
RIGHT = ["grad_lower = -lam[1:] * x[:-1]", "grad_upper = -lam[:-1] * x[1:]"]
NAME = "TridiagonalSolve"
# --- code
import torch


def _thomas(lower, diag, upper, rhs):
    n = diag.shape[0]
    c = [upper[0] / diag[0]]
    d = [rhs[0] / diag[0]]
    for i in range(1, n):
        m = diag[i] - lower[i - 1] * c[i - 1]
        if i < n - 1:
            c.append(upper[i] / m)
        d.append((rhs[i] - lower[i - 1] * d[i - 1]) / m)
    x = [d[-1]]
    for i in range(n - 2, -1, -1):
        x.append(d[i] - c[i] * x[-1])
    return torch.stack(x[::-1])


class TridiagonalSolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, lower, diag, upper, rhs):
        x = _thomas(lower, diag, upper, rhs)
        ctx.save_for_backward(lower, diag, upper, x)
        return x

    @staticmethod
    def backward(ctx, g):
        lower, diag, upper, x = ctx.saved_tensors
        lam = _thomas(upper, diag, lower, g)
        grad_lower = -lam[:-1] * x[1:]
        grad_upper = -lam[1:] * x[:-1]
        return grad_lower, -lam * x, grad_upper, lam


def inputs():
    torch.manual_seed(0)
    lower = torch.randn(4, dtype=torch.float64, requires_grad=True)
    diag = (4 + torch.rand(5, dtype=torch.float64)).requires_grad_()
    upper = torch.randn(4, dtype=torch.float64, requires_grad=True)
    rhs = torch.randn(5, dtype=torch.float64, requires_grad=True)
    return (lower, diag, upper, rhs)


def reference(lower, diag, upper, rhs):
    A = torch.diag(diag) + torch.diag(lower, -1) + torch.diag(upper, 1)
    return torch.linalg.solve(A, rhs)


# %% simplex_projection_13
"""On the active face the Jacobian of the simplex projection is I - 11^T/|support|; the mean is taken over all n coordinates instead of the coordinates in the support."""
WRONG = ["mean = (grad_y * support).mean(ctx.dim, keepdim=True)"]
RIGHT = ["mean = (grad_y * support).sum(ctx.dim, keepdim=True) / support.sum(ctx.dim, keepdim=True)"]
NAME = "SimplexProjection"
# --- code
import torch


class SimplexProjection(torch.autograd.Function):
    """Euclidean projection onto {y >= 0, sum y = radius} along dim."""

    @staticmethod
    def forward(x, radius, dim):
        u, _ = torch.sort(x, dim=dim, descending=True)
        css = u.cumsum(dim) - radius
        shape = [1] * x.dim()
        shape[dim] = -1
        k = torch.arange(1, x.shape[dim] + 1, dtype=x.dtype, device=x.device).view(shape)
        rho = (u * k > css).sum(dim, keepdim=True)
        tau = css.gather(dim, rho - 1) / rho.to(x.dtype)
        return torch.clamp(x - tau, min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.dim = inputs[2]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_y):
        y, = ctx.saved_tensors
        support = (y > 0).to(grad_y.dtype)
        mean = (grad_y * support).mean(ctx.dim, keepdim=True)
        return support * (grad_y - mean), None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    return (x, 1.0, 1)


# %% student_t_14
"""The normalisation contains -0.5*log(nu*pi), whose derivative -0.5/nu is missing from the gradient of the degrees of freedom."""
WRONG = ["d_nu = 0.5 * (torch.digamma(0.5 * (nu + 1)) - torch.digamma(0.5 * nu) - torch.log1p(z2 / nu))"]
RIGHT = ["d_nu = 0.5 * (torch.digamma(0.5 * (nu + 1)) - torch.digamma(0.5 * nu) - 1.0 / nu - torch.log1p(z2 / nu))"]
NAME = "StudentTLogProb"
# --- code
import math
import torch


class StudentTLogProb(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, nu, mu, scale):
        z = (x - mu) / scale
        ctx.save_for_backward(z, nu, scale)
        norm = torch.lgamma(0.5 * (nu + 1)) - torch.lgamma(0.5 * nu) - 0.5 * torch.log(nu * math.pi)
        return norm - scale.log() - 0.5 * (nu + 1) * torch.log1p(z * z / nu)

    @staticmethod
    def backward(ctx, g):
        z, nu, scale = ctx.saved_tensors
        z2 = z * z
        w = (nu + 1) / (nu + z2)
        d_x = -w * z / scale
        d_scale = (w * z2 - 1) / scale
        d_nu = 0.5 * (torch.digamma(0.5 * (nu + 1)) - torch.digamma(0.5 * nu) - torch.log1p(z2 / nu))
        d_nu = d_nu + 0.5 * w * z2 / nu
        grad_x = g * d_x
        return grad_x, (g * d_nu).sum(), -grad_x.sum(0), (g * d_scale).sum(0)


def inputs():
    torch.manual_seed(0)
    x = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    nu = torch.tensor(3.5, dtype=torch.float64, requires_grad=True)
    mu = torch.randn(2, dtype=torch.float64, requires_grad=True)
    scale = (0.5 + torch.rand(2, dtype=torch.float64)).requires_grad_()
    return (x, nu, mu, scale)


def reference(x, nu, mu, scale):
    return torch.distributions.StudentT(nu, mu, scale).log_prob(x)


# %% kalman_update_15
"""set_materialize_grads(False) makes the gradient of an unused output None, but backward does arithmetic on both gradients without checking; it raises a TypeError whenever only the mean or only the variance enters the loss."""
WRONG = ["ctx.set_materialize_grads(False)"]
RIGHT = ["ctx.set_materialize_grads(True)"]
NAME = "KalmanUpdate"
# --- code
import torch


class KalmanUpdate(torch.autograd.Function):
    """Measurement update of independent scalar Kalman filters."""

    @staticmethod
    def forward(ctx, m, P, z, R):
        S = P + R
        K = P / S
        ctx.save_for_backward(m, P, z, R)
        ctx.set_materialize_grads(False)
        return m + K * (z - m), K * R

    @staticmethod
    def backward(ctx, g_m, g_P):
        m, P, z, R = ctx.saved_tensors
        S = P + R
        K = P / S
        g_K = g_m * (z - m)
        grad_m = g_m * (1 - K)
        grad_z = g_m * K
        grad_P = g_K * R / S ** 2 + g_P * (R / S) ** 2
        grad_R = -g_K * P / S ** 2 + g_P * K ** 2
        return grad_m, grad_P, grad_z, grad_R


def inputs():
    torch.manual_seed(0)
    m = torch.randn(4, dtype=torch.float64, requires_grad=True)
    P = (0.3 + torch.rand(4, dtype=torch.float64)).requires_grad_()
    z = torch.randn(4, dtype=torch.float64, requires_grad=True)
    R = (0.3 + torch.rand(4, dtype=torch.float64)).requires_grad_()
    return (m, P, z, R)


def reference(m, P, z, R):
    K = P / (P + R)
    return m + K * (z - m), (1 - K) * P


# %% ray_sphere_16
"""For rays that miss, the root of the negative discriminant is NaN, and multiplying by the zero mask keeps the NaN (NaN * 0 = NaN); the misses have to be selected away with where."""
WRONG = ["w = hit * grad_t / root"]
RIGHT = ["w = torch.where(hit, grad_t / root, torch.zeros_like(grad_t))"]
NAME = "RaySphere"
# --- code
import torch


class RaySphere(torch.autograd.Function):
    """Distance to the near intersection (0 on a miss) and the hit mask; d is a unit direction."""

    @staticmethod
    def forward(ctx, o, d, center, radius):
        oc = o - center
        b = (oc * d).sum(-1)
        disc = b * b - (oc * oc).sum(-1) + radius * radius
        hit = disc > 0
        root = disc.sqrt()
        t = torch.where(hit, -b - root, torch.zeros_like(b))
        ctx.save_for_backward(oc, d, radius, t, root, hit)
        ctx.mark_non_differentiable(hit)
        return t, hit

    @staticmethod
    def backward(ctx, grad_t, _grad_hit):
        oc, d, radius, t, root, hit = ctx.saved_tensors
        w = hit * grad_t / root
        wt = (w * t).unsqueeze(-1)
        grad_o = wt * d + w.unsqueeze(-1) * oc
        grad_d = wt * oc
        grad_r = -(w * radius).sum()
        return grad_o, grad_d, -grad_o.sum(0), grad_r


def inputs():
    torch.manual_seed(0)
    o = torch.tensor([[0.0, 0.0, -4.0], [0.4, -0.2, -3.0], [3.0, 0.0, -4.0]], dtype=torch.float64, requires_grad=True)
    d = torch.tensor([[0.0, 0.1, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    d = (d / d.norm(dim=-1, keepdim=True)).requires_grad_()
    center = torch.tensor([0.1, 0.1, 0.2], dtype=torch.float64, requires_grad=True)
    radius = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    return (o, d, center, radius)


# %% cloud_in_cell_17
"""Two scalings are missing: backward forgets that the density was divided by dx, and that the weight changes with position as d(frac)/dx = 1/dx. The charge gradient is off by dx, the position gradient by dx^2."""
WRONG = ["g = grad_rho", "grad_x = q * (g[right] - g[left])"]
RIGHT = ["g = grad_rho / dx", "grad_x = q * (g[right] - g[left]) / dx"]
NAME = "CloudInCell"
# --- code
import torch


class CloudInCell(torch.autograd.Function):
    """Deposits particle charges q at x on a periodic 1D grid, as a density."""

    @staticmethod
    def forward(ctx, x, q, ncell, length):
        dx = length / ncell
        s = x / dx
        cell = torch.floor(s)
        frac = s - cell
        left = cell.long() % ncell
        right = (left + 1) % ncell
        rho = torch.zeros(ncell, dtype=x.dtype, device=x.device)
        rho.index_add_(0, left, q * (1 - frac))
        rho.index_add_(0, right, q * frac)
        ctx.save_for_backward(q, frac, left, right)
        ctx.dx = dx
        return rho / dx

    @staticmethod
    def backward(ctx, grad_rho):
        q, frac, left, right = ctx.saved_tensors
        dx = ctx.dx
        g = grad_rho
        grad_q = (1 - frac) * g[left] + frac * g[right]
        grad_x = q * (g[right] - g[left])
        return grad_x, grad_q, None, None


def inputs():
    torch.manual_seed(0)
    x = (3.0 * torch.rand(6, dtype=torch.float64)).requires_grad_()
    q = torch.randn(6, dtype=torch.float64, requires_grad=True)
    return (x, q, 5, 3.0)


# %% oscillator_response_18
"""PyTorch's gradient of a complex output needs the conjugate of the derivative: grad_D = grad_H * conj(dH/dD). The conjugate is missing, so the real parameters w0 and gamma get wrong gradients."""
WRONG = ["gD = grad_H * (-H * H)"]
RIGHT = ["gD = grad_H * (-H * H).conj()"]
NAME = "OscillatorResponse"
# --- code
import torch


class OscillatorResponse(torch.autograd.Function):
    """Frequency response 1 / (w0^2 - w^2 + i gamma w) for every mode (rows) and frequency."""

    @staticmethod
    def forward(w0, gamma, w):
        D = torch.complex(w0[:, None] ** 2 - w ** 2, gamma[:, None] * w)
        return 1.0 / D

    @staticmethod
    def setup_context(ctx, inputs, output):
        w0, gamma, w = inputs
        ctx.save_for_backward(w0, w, output)

    @staticmethod
    def backward(ctx, grad_H):
        w0, w, H = ctx.saved_tensors
        gD = grad_H * (-H * H)
        grad_w0 = 2 * w0 * gD.real.sum(-1)
        grad_gamma = (gD.imag * w).sum(-1)
        return grad_w0, grad_gamma, None


def inputs():
    torch.manual_seed(0)
    w0 = (1 + torch.rand(3, dtype=torch.float64)).requires_grad_()
    gamma = (0.3 + torch.rand(3, dtype=torch.float64)).requires_grad_()
    w = torch.linspace(0.2, 3.0, 5, dtype=torch.float64)
    return (w0, gamma, w)


def reference(w0, gamma, w):
    return 1.0 / (w0[:, None] ** 2 - w ** 2 + 1j * gamma[:, None] * w)


# %% mass_action_19
"""The derivative is written as rate * order / c, which is 0/0 = NaN for a species with concentration zero, though the true derivative there is finite (the product of the other factors for order one)."""
WRONG = ["drate = rate.unsqueeze(1) * order / c"]
RIGHT = ["drate = torch.stack([k * order[:, s] * c[s] ** (order[:, s] - 1).clamp(min=0) * (c ** order)[:, [j for j in range(len(c)) if j != s]].prod(1) for s in range(len(c))], dim=1)"]
NAME = "MassActionRates"
# --- code
import torch


class MassActionRates(torch.autograd.Function):
    """rate_r = k_r * prod_s c_s ** order_rs"""

    @staticmethod
    def forward(ctx, c, k, order):
        rate = k * (c ** order).prod(dim=1)
        ctx.save_for_backward(c, k, order, rate)
        return rate

    @staticmethod
    def backward(ctx, grad_rate):
        c, k, order, rate = ctx.saved_tensors
        grad_c = grad_k = None
        if ctx.needs_input_grad[0]:
            drate = rate.unsqueeze(1) * order / c
            grad_c = torch.einsum("r,rs->s", grad_rate, drate)
        if ctx.needs_input_grad[1]:
            grad_k = grad_rate * (c ** order).prod(dim=1)
        return grad_c, grad_k, None


def inputs():
    torch.manual_seed(0)
    c = torch.tensor([0.7, 0.0, 1.3, 0.4], dtype=torch.float64, requires_grad=True)
    k = torch.tensor([1.5, 0.8, 2.0], dtype=torch.float64, requires_grad=True)
    order = torch.tensor([[1, 1, 0, 0], [0, 2, 1, 0], [1, 0, 0, 2]], dtype=torch.float64)
    return (c, k, order)


# %% helmholtz_lu_20
"""The LU factors are kept on the class, so a second call before backward overwrites them and the adjoint of the first call is solved with the matrix of the second. One call followed by its backward (and so gradcheck) is right; two applies with different A in one loss are wrong."""
WRONG = ["LU, pivots = HelmholtzSolve.factor = torch.linalg.lu_factor(A)", "LU, piv = HelmholtzSolve.factor"]
RIGHT = ["LU, pivots = ctx.factor = torch.linalg.lu_factor(A)", "LU, piv = ctx.factor"]
NAME = "HelmholtzSolve"
# --- code
import torch


class HelmholtzSolve(torch.autograd.Function):
    """Solves (K - omega^2 M) u = f; the factorisation is reused for the adjoint solve."""

    factor = None

    @staticmethod
    def forward(ctx, K, M, f, omega):
        A = K - omega ** 2 * M
        LU, pivots = HelmholtzSolve.factor = torch.linalg.lu_factor(A)
        u = torch.linalg.lu_solve(LU, pivots, f)
        ctx.save_for_backward(u)
        ctx.omega = omega
        return u

    @staticmethod
    def backward(ctx, grad_u):
        u, = ctx.saved_tensors
        LU, piv = HelmholtzSolve.factor
        lam = torch.linalg.lu_solve(LU, piv, grad_u, adjoint=True)
        grad_A = -lam @ u.T
        return grad_A, -ctx.omega ** 2 * grad_A, lam, None


def inputs():
    torch.manual_seed(0)
    K = (torch.randn(4, 4, dtype=torch.float64) + 5 * torch.eye(4, dtype=torch.float64)).requires_grad_()
    M = (torch.eye(4, dtype=torch.float64) + 0.1 * torch.randn(4, 4, dtype=torch.float64)).requires_grad_()
    f = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    return (K, M, f, 0.9)


def reference(K, M, f, omega):
    return torch.linalg.solve(K - omega ** 2 * M, f)


# %% leapfrog_21
"""The stiffness k is the fifth argument (index 4) of forward, but needs_input_grad[2] belongs to the float dt and is always False, so k never gets a gradient."""
WRONG = ["gk = gk if ctx.needs_input_grad[2] else None"]
RIGHT = ["gk = gk if ctx.needs_input_grad[4] else None"]
NAME = "ReversibleLeapfrog"
# --- code
import torch


class ReversibleLeapfrog(torch.autograd.Function):
    """n kick-drift-kick steps of q'' = -k q - q^3; backward runs the steps in reverse to save memory."""

    @staticmethod
    def forward(ctx, q, v, dt, n, k):
        acc = lambda q: -k * q - q ** 3
        for _ in range(n):
            v = v + 0.5 * dt * acc(q)
            q = q + dt * v
            v = v + 0.5 * dt * acc(q)
        ctx.save_for_backward(q, v, k)
        ctx.dt, ctx.n = dt, n
        return q, v

    @staticmethod
    def backward(ctx, gq, gv):
        q, v, k = ctx.saved_tensors
        dt, h = ctx.dt, 0.5 * ctx.dt
        gk = torch.zeros_like(k)
        for _ in range(ctx.n):
            v = v - h * (-k * q - q ** 3)
            gq = gq + h * (-k - 3 * q * q) * gv
            gk = gk - (h * q * gv).sum(0)
            q = q - dt * v
            gv = gv + dt * gq
            v = v - h * (-k * q - q ** 3)
            gq = gq + h * (-k - 3 * q * q) * gv
            gk = gk - (h * q * gv).sum(0)
        gk = gk if ctx.needs_input_grad[2] else None
        return gq, gv, None, None, gk


def inputs():
    torch.manual_seed(0)
    q = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    v = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    k = (0.5 + torch.rand(3, dtype=torch.float64)).requires_grad_()
    return (q, v, 0.1, 6, k)


# %% rodrigues_22
"""At zero rotation the gradient of the axis-angle vector is p x grad, not zero; zeroing it in the small-angle branch stops every optimisation that starts from the identity."""
WRONG = ["return torch.where(small, torch.zeros_like(grad_w), grad_w), grad_p"]
RIGHT = ["return grad_w, grad_p"]
NAME = "RodriguesRotate"
# --- code
import torch


def _coeffs(w):
    th2 = (w * w).sum(-1, keepdim=True)
    small = th2 < 1e-8
    s2 = torch.where(small, torch.ones_like(th2), th2)
    th = s2.sqrt()
    A = torch.where(small, 1 - th2 / 6, th.sin() / th)
    B = torch.where(small, 0.5 - th2 / 24, (1 - th.cos()) / s2)
    dA = torch.where(small, -1.0 / 3 + th2 / 30, (th.cos() - A) / s2)
    dB = torch.where(small, -1.0 / 12 + th2 / 180, (A - 2 * B) / s2)
    return small, A, B, dA, dB


class RodriguesRotate(torch.autograd.Function):
    """Rotates points p by the axis-angle vectors w."""

    @staticmethod
    def forward(ctx, w, p):
        _, A, B, _, _ = _coeffs(w)
        wp = torch.linalg.cross(w, p)
        ctx.save_for_backward(w, p)
        return p + A * wp + B * torch.linalg.cross(w, wp)

    @staticmethod
    def backward(ctx, g):
        w, p = ctx.saved_tensors
        small, A, B, dA, dB = _coeffs(w)
        dot = lambda a, b: (a * b).sum(-1, keepdim=True)
        wp, wg = torch.linalg.cross(w, p), torch.linalg.cross(w, g)
        grad_p = g - A * wg + B * torch.linalg.cross(w, wg)
        grad_w = A * torch.linalg.cross(p, g)
        grad_w = grad_w + B * (dot(w, p) * g + dot(g, w) * p - 2 * dot(g, p) * w)
        grad_w = grad_w + w * (dA * dot(g, wp) + dB * dot(g, torch.linalg.cross(w, wp)))
        return torch.where(small, torch.zeros_like(grad_w), grad_w), grad_p


def inputs():
    torch.manual_seed(0)
    w = torch.randn(3, 3, dtype=torch.float64)
    w[1] = 0.0
    p = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    return (w.requires_grad_(), p)


# %% rbf_gram_23
"""Each x_i appears in row i and in column i of the Gram matrix, which needs W + W^T; 2*W assumes that the incoming gradient is symmetric, which holds for a kernel loss like logdet but not in general."""
WRONG = ["Ws = 2.0 * W"]
RIGHT = ["Ws = W + W.T"]
NAME = "RBFGram"
# --- code
import torch


class RBFGram(torch.autograd.Function):
    """K_ij = exp(-|x_i - x_j|^2 / (2 ell^2)) + jitter * delta_ij"""

    @staticmethod
    def forward(ctx, X, ell, jitter=1e-6):
        sq = (X * X).sum(-1)
        d2 = (sq[:, None] + sq[None, :] - 2 * X @ X.T).clamp_(min=0)
        d2.fill_diagonal_(0.0)
        K = torch.exp(-0.5 * d2 / ell ** 2)
        ctx.save_for_backward(X, ell, d2, K.clone())
        K.diagonal().add_(jitter)
        return K

    @staticmethod
    def backward(ctx, grad_K):
        X, ell, d2, K = ctx.saved_tensors
        W = grad_K * K
        Ws = 2.0 * W
        grad_X = -(Ws.sum(1, keepdim=True) * X - Ws @ X) / ell ** 2
        grad_ell = (W * d2).sum() / ell ** 3
        return grad_X, grad_ell, None


def inputs():
    torch.manual_seed(0)
    X = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    ell = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    return (X, ell, 1e-4)


def reference(X, ell, jitter):
    d2 = (X[:, None] - X[None]).square().sum(-1)
    return torch.exp(-0.5 * d2 / ell ** 2) + jitter * torch.eye(len(X), dtype=X.dtype)


# %% one_pole_filter_24
"""The output buffer is made with torch.zeros(x.shape), i.e. in the default float32, so float64 signals are silently rounded (and the recursion runs on rounded states); the buffer has to have the dtype of x."""
WRONG = ["y = torch.zeros(x.shape)"]
RIGHT = ["y = torch.zeros_like(x)"]
NAME = "OnePoleFilter"
# --- code
import torch


class OnePoleFilter(torch.autograd.Function):
    """y[n] = b * x[n] + a * y[n-1] along the last dimension, y[-1] = 0."""

    @staticmethod
    def forward(ctx, x, a, b):
        y = torch.zeros(x.shape)
        y[..., 0] = b * x[..., 0]
        for n in range(1, x.shape[-1]):
            y[..., n] = b * x[..., n] + a * y[..., n - 1]
        ctx.save_for_backward(x, a, b, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, a, b, y = ctx.saved_tensors
        lam = torch.zeros_like(x)
        lam[..., -1] = g[..., -1]
        for n in range(x.shape[-1] - 2, -1, -1):
            lam[..., n] = g[..., n] + a * lam[..., n + 1]
        grad_a = (lam[..., 1:] * y[..., :-1]).sum()
        grad_b = (lam * x).sum()
        return b * lam, grad_a, grad_b


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 7, dtype=torch.float64, requires_grad=True)
    a = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    b = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    return (x, a, b)
