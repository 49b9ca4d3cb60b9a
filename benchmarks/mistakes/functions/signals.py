# %% upwind_1
"""The adjoint of the forward shift roll(u, -1) is roll(., +1), but the downwind (negative velocity) part of the backward shifts the wrong way. grad of u is wrong wherever a < 0."""
WRONG = ["gu = g - (wp - torch.roll(wp, -1, -1)) - (torch.roll(wm, -1, -1) - wm)"]
RIGHT = ["gu = g - (wp - torch.roll(wp, -1, -1)) - (torch.roll(wm, 1, -1) - wm)"]
NAME = "UpwindStep"
# --- code
import torch


class UpwindStep(torch.autograd.Function):
    """One explicit upwind step of u_t + a u_x = 0 on a periodic grid."""

    @staticmethod
    def forward(ctx, u, a, dt, dx):
        lam = dt / dx
        ap = a.clamp(min=0)
        am = a.clamp(max=0)
        back = u - torch.roll(u, 1, -1)
        fwd = torch.roll(u, -1, -1) - u
        ctx.save_for_backward(a, back, fwd)
        ctx.lam = lam
        return u - lam * (ap * back + am * fwd)

    @staticmethod
    def backward(ctx, g):
        a, back, fwd = ctx.saved_tensors
        wp = ctx.lam * a.clamp(min=0) * g
        wm = ctx.lam * a.clamp(max=0) * g
        gu = g - (wp - torch.roll(wp, -1, -1)) - (torch.roll(wm, -1, -1) - wm)
        ga = -ctx.lam * g * torch.where(a > 0, back, fwd)
        return gu, ga, None, None


def inputs():
    torch.manual_seed(0)
    u = torch.randn(2, 7, dtype=torch.float64, requires_grad=True)
    a = torch.randn(2, 7, dtype=torch.float64, requires_grad=True)
    return (u, a, 0.05, 0.1)


# %% periodogram_2
"""irfft counts every interior bin twice, so those are halved before it, but for an even length the Nyquist bin occurs only once and must not be halved. The slice runs to the end and halves Nyquist too, so the gradient is wrong for even n."""
WRONG = ["w[1:] = 0.5"]
RIGHT = ["w[1:(n + 1) // 2] = 0.5"]
NAME = "Periodogram"
# --- code
import torch


class Periodogram(torch.autograd.Function):
    """One-sided power |rfft(window * x)|^2 / n along the last axis."""

    @staticmethod
    def forward(ctx, x, window):
        n = x.shape[-1]
        X = torch.fft.rfft(x * window)
        ctx.save_for_backward(X, window)
        ctx.n = n
        return (X.real.square() + X.imag.square()) / n

    @staticmethod
    def backward(ctx, g):
        X, window = ctx.saved_tensors
        n = ctx.n
        w = torch.ones(X.shape[-1], dtype=g.dtype, device=g.device)
        w[1:] = 0.5
        gx = torch.fft.irfft(2.0 * g * X * w, n=n)
        return gx * window, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    window = torch.hann_window(8, periodic=False, dtype=torch.float64)
    return (x, window)


def reference(x, window):
    return torch.fft.rfft(x * window).abs() ** 2 / x.shape[-1]


# %% map_sample_3
"""The points are (x, y) with x along columns and y along rows, but the gradient is stacked as (d/dy, d/dx): the two coordinates of the point gradient are swapped."""
WRONG = ["gp = torch.stack([dv, du], dim=-1) / ctx.res"]
RIGHT = ["gp = torch.stack([du, dv], dim=-1) / ctx.res"]
NAME = "MapSample"
# --- code
import torch


class MapSample(torch.autograd.Function):
    """Bilinear lookup of world points (x, y) in a row-major cost map."""

    @staticmethod
    def forward(ctx, grid, pts, res):
        H, W = grid.shape
        uv = pts / res
        base = uv.floor().long()
        c = base[:, 0].clamp(0, W - 2)
        r = base[:, 1].clamp(0, H - 2)
        fu = uv[:, 0] - c
        fv = uv[:, 1] - r
        ctx.save_for_backward(grid, r, c, fu, fv)
        ctx.res = res
        top = grid[r, c] * (1 - fu) + grid[r, c + 1] * fu
        bot = grid[r + 1, c] * (1 - fu) + grid[r + 1, c + 1] * fu
        return top * (1 - fv) + bot * fv

    @staticmethod
    def backward(ctx, g):
        grid, r, c, fu, fv = ctx.saved_tensors
        gg = torch.zeros_like(grid)
        gg.index_put_((r, c), g * (1 - fu) * (1 - fv), accumulate=True)
        gg.index_put_((r, c + 1), g * fu * (1 - fv), accumulate=True)
        gg.index_put_((r + 1, c), g * (1 - fu) * fv, accumulate=True)
        gg.index_put_((r + 1, c + 1), g * fu * fv, accumulate=True)
        q00, q01 = grid[r, c], grid[r, c + 1]
        q10, q11 = grid[r + 1, c], grid[r + 1, c + 1]
        du = g * ((q01 - q00) * (1 - fv) + (q11 - q10) * fv)
        dv = g * ((q10 - q00) * (1 - fu) + (q11 - q01) * fu)
        gp = torch.stack([dv, du], dim=-1) / ctx.res
        return gg, gp, None


def inputs():
    torch.manual_seed(0)
    grid = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    pts = (0.05 + 1.8 * torch.rand(6, 2, dtype=torch.float64)).requires_grad_(True)
    return (grid, pts, 0.5)


# %% quat_rotate_4
"""The forward normalises the quaternion, so its gradient must be projected on the tangent of the unit sphere (minus u (u.gu)); the backward only divides by the norm and leaves the radial part in."""
WRONG = ["gq = gu / norm"]
RIGHT = ["gq = (gu - u * (u * gu).sum(-1, keepdim=True)) / norm"]
NAME = "QuatRotate"
# --- code
import torch


class QuatRotate(torch.autograd.Function):
    """Rotate v by the quaternion q = (w, x, y, z), which need not be unit."""

    @staticmethod
    def forward(q, v):
        u = q / q.norm(dim=-1, keepdim=True)
        w, r = u[..., :1], u[..., 1:]
        t = 2.0 * torch.linalg.cross(r, v)
        return v + w * t + torch.linalg.cross(r, t)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, v = inputs
        ctx.save_for_backward(q, v)

    @staticmethod
    def backward(ctx, g):
        q, v = ctx.saved_tensors
        norm = q.norm(dim=-1, keepdim=True)
        u = q / norm
        w, r = u[..., :1], u[..., 1:]
        rv = (r * v).sum(-1, keepdim=True)
        rg = (r * g).sum(-1, keepdim=True)
        vg = (v * g).sum(-1, keepdim=True)
        gw = 2.0 * (g * torch.linalg.cross(r, v)).sum(-1, keepdim=True)
        gr = 2.0 * (w * torch.linalg.cross(v, g) + rv * g + rg * v - 2.0 * vg * r)
        gu = torch.cat([gw, gr], dim=-1)
        gq = gu / norm
        t = 2.0 * torch.linalg.cross(r, g)
        gv = g - w * t + torch.linalg.cross(r, t)
        return gq, gv


def inputs():
    torch.manual_seed(0)
    q = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    v = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    return (q, v)


def reference(q, v):
    u = q / q.norm(dim=-1, keepdim=True)
    w, x, y, z = u.unbind(-1)
    R = torch.stack([
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ], dim=-1).reshape(-1, 3, 3)
    return torch.einsum("nij,nj->ni", R, v)


# %% planar_chain_5
"""The absolute link angles are a cumsum of the joint angles, so joint j moves all links from j to the tip: its gradient is a reversed cumsum (suffix sum). The backward uses a plain prefix sum."""
WRONG = ["gtheta = gphi.cumsum(-1)"]
RIGHT = ["gtheta = gphi.flip(-1).cumsum(-1).flip(-1)"]
NAME = "PlanarChain"
# --- code
import torch


class PlanarChain(torch.autograd.Function):
    """Tip position of an n-link planar arm with relative joint angles."""

    @staticmethod
    def forward(ctx, theta, length):
        phi = theta.cumsum(-1)
        c, s = torch.cos(phi), torch.sin(phi)
        ctx.save_for_backward(length, c, s)
        return torch.stack([c @ length, s @ length], dim=-1)

    @staticmethod
    def backward(ctx, g):
        length, c, s = ctx.saved_tensors
        gx, gy = g[..., 0:1], g[..., 1:2]
        gtheta = glen = None
        if ctx.needs_input_grad[0]:
            gphi = length * (gy * c - gx * s)
            gtheta = gphi.cumsum(-1)
        if ctx.needs_input_grad[1]:
            glen = torch.einsum("...j->j", gx * c + gy * s)
        return gtheta, glen


def inputs():
    torch.manual_seed(0)
    theta = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    length = (0.5 + torch.rand(4, dtype=torch.float64)).requires_grad_(True)
    return (theta, length)


def reference(theta, length):
    phi = torch.cumsum(theta, -1)
    return torch.stack([(length * phi.cos()).sum(-1), (length * phi.sin()).sum(-1)], -1)


# %% one_pole_6
"""The gradient of the coefficient must use the adjoint state lam_t (which carries what flows back from later samples through the recursion); it uses the incoming g_t, so the effect of a on all later outputs is missed."""
WRONG = ["ga = ga + (g[:, t] * (prev - x[:, t])).sum()"]
RIGHT = ["ga = ga + (lam * (prev - x[:, t])).sum()"]
NAME = "OnePole"
# --- code
import torch


class OnePole(torch.autograd.Function):
    """y[t] = a*y[t-1] + (1-a)*x[t], zero initial state, x of shape (B, T)."""

    @staticmethod
    def forward(ctx, x, a):
        y = torch.empty_like(x)
        state = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            state = a * state + (1 - a) * x[:, t]
            y[:, t] = state
        ctx.save_for_backward(x, a, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, a, y = ctx.saved_tensors
        gx = torch.empty_like(x)
        ga = torch.zeros_like(a)
        lam = torch.zeros_like(x[:, 0])
        for t in reversed(range(x.shape[1])):
            lam = g[:, t] + a * lam
            prev = y[:, t - 1] if t > 0 else torch.zeros_like(lam)
            gx[:, t] = (1 - a) * lam
            ga = ga + (g[:, t] * (prev - x[:, t])).sum()
        return gx, ga


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    a = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    return (x, a)


# %% langevin_7
"""The generator state is recorded after the roll-out instead of before it, so the backward replays the trajectory with other noise than the forward used and differentiates another path."""
WRONG = ["y = rollout(x, k, gen, steps, dt)", "ctx.rng_state = gen.get_state()"]
RIGHT = ["ctx.rng_state = gen.get_state()", "y = rollout(x, k, gen, steps, dt)"]
NAME = "LangevinRollout"
# --- code
import math
import torch


def rollout(x, k, gen, steps, dt):
    for _ in range(steps):
        noise = torch.randn(x.shape, generator=gen, dtype=x.dtype)
        x = x + dt * k * (x - x**3) + math.sqrt(2 * dt) * noise
    return x


class LangevinRollout(torch.autograd.Function):
    """Euler-Maruyama in a double well; keeps only x0 and replays in backward."""

    @staticmethod
    def forward(ctx, x, k, seed, steps, dt):
        gen = torch.Generator().manual_seed(seed)
        y = rollout(x, k, gen, steps, dt)
        ctx.rng_state = gen.get_state()
        ctx.save_for_backward(x, k)
        ctx.steps, ctx.dt = steps, dt
        return y

    @staticmethod
    def backward(ctx, g):
        x, k = ctx.saved_tensors
        gen = torch.Generator()
        gen.set_state(ctx.rng_state)
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            k = k.detach().requires_grad_(True)
            y = rollout(x, k, gen, ctx.steps, ctx.dt)
        gx, gk = torch.autograd.grad(y, (x, k), g)
        return gx, gk, None, None, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    k = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    return (x, k, 11, 4, 0.05)


# %% von_mises_8
"""d log I0(kappa)/d kappa is I1/I0; the exponential scaling cancels only if both are scaled (i1e/i0e) or both are not. Here the scaled I1 is divided by the unscaled I0, so the kappa gradient is off by exp(-kappa) in that term."""
WRONG = ["ratio = torch.special.i1e(kappa) / torch.special.i0(kappa)"]
RIGHT = ["ratio = torch.special.i1e(kappa) / torch.special.i0e(kappa)"]
NAME = "VonMisesLogProb"
# --- code
import math
import torch


class VonMisesLogProb(torch.autograd.Function):
    @staticmethod
    def forward(x, mu, kappa):
        log_i0 = torch.log(torch.special.i0e(kappa)) + kappa
        return kappa * torch.cos(x - mu) - math.log(2 * math.pi) - log_i0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, mu, kappa = ctx.saved_tensors
        d = x - mu
        gx = -g * kappa * torch.sin(d)
        gmu = gkappa = None
        if ctx.needs_input_grad[1]:
            gmu = (-gx).sum_to_size(mu.shape)
        if ctx.needs_input_grad[2]:
            ratio = torch.special.i1e(kappa) / torch.special.i0(kappa)
            gkappa = (g * (torch.cos(d) - ratio)).sum_to_size(kappa.shape)
        return gx, gmu, gkappa


def inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    mu = torch.randn(3, dtype=torch.float64, requires_grad=True)
    kappa = (0.5 + 2 * torch.rand(3, dtype=torch.float64)).requires_grad_(True)
    return (x, mu, kappa)


def reference(x, mu, kappa):
    log_i0 = torch.log(torch.special.i0(kappa))
    return kappa * torch.cos(x - mu) - math.log(2 * math.pi) - log_i0


# %% kepler_9
"""The implicit derivative has to be evaluated at the solution E, but the context keeps the mean anomaly M in its place (the output should be saved), so cos and sin are taken at the wrong point."""
WRONG = ["ctx.save_for_backward(ecc, M)"]
RIGHT = ["ctx.save_for_backward(ecc, output)"]
NAME = "KeplerSolve"
# --- code
import torch


class KeplerSolve(torch.autograd.Function):
    """Eccentric anomaly E with E - ecc*sin(E) = M, implicit gradient."""

    @staticmethod
    def forward(M, ecc, iters):
        E = M + ecc * torch.sin(M)
        for _ in range(iters):
            f = E - ecc * torch.sin(E) - M
            E = E - f / (1 - ecc * torch.cos(E))
        return E

    @staticmethod
    def setup_context(ctx, inputs, output):
        M, ecc, _ = inputs
        ctx.save_for_backward(ecc, M)

    @staticmethod
    def backward(ctx, g):
        ecc, E = ctx.saved_tensors
        gM = g / (1 - ecc * torch.cos(E))
        gecc = gM * torch.sin(E)
        return gM, gecc, None


def inputs():
    torch.manual_seed(0)
    M = (3 * torch.rand(5, dtype=torch.float64)).requires_grad_(True)
    ecc = (0.1 + 0.5 * torch.rand(5, dtype=torch.float64)).requires_grad_(True)
    return (M, ecc, 20)


# %% simplex_10
"""The Jacobian of the simplex projection subtracts the mean of the gradient over the support (active entries) only; the backward averages over all n entries, so every row with a zero entry is wrong."""
WRONG = ["mean = gs.mean(-1, keepdim=True)"]
RIGHT = ["mean = gs.sum(-1, keepdim=True) / support.sum(-1, keepdim=True)"]
NAME = "SimplexProjection"
# --- code
import torch


class SimplexProjection(torch.autograd.Function):
    """Euclidean projection of each row of v onto {w >= 0, sum w = radius}."""

    @staticmethod
    def forward(ctx, v, radius=1.0):
        n = v.shape[-1]
        mu, _ = torch.sort(v, dim=-1, descending=True)
        css = mu.cumsum(-1) - radius
        j = torch.arange(1, n + 1, dtype=v.dtype, device=v.device)
        rho = (mu - css / j > 0).sum(-1, keepdim=True)
        tau = css.gather(-1, rho - 1) / rho.to(v.dtype)
        w = torch.clamp(v - tau, min=0)
        ctx.save_for_backward(w > 0)
        return w

    @staticmethod
    def backward(ctx, g):
        (support,) = ctx.saved_tensors
        support = support.to(g.dtype)
        gs = g * support
        mean = gs.mean(-1, keepdim=True)
        return support * (g - mean), None


def inputs():
    torch.manual_seed(0)
    v = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    return (v, 1.0)


def reference(v, radius=1.0):
    full = torch.ones_like(v)
    for _ in range(v.shape[-1] + 1):
        tau = ((v * full).sum(-1, keepdim=True) - radius) / full.sum(-1, keepdim=True)
        full = (v > tau).to(v.dtype)
    return torch.relu(v - tau)


# %% tridiagonal_11
"""The adjoint system has the transposed matrix, in which the sub- and superdiagonal change places; the backward solves with the untransposed matrix, right only for symmetric systems."""
WRONG = ["lam = thomas(lower, diag, upper, g)"]
RIGHT = ["lam = thomas(upper, diag, lower, g)"]
NAME = "TridiagonalSolve"
# --- code
import torch


def thomas(lower, diag, upper, rhs):
    n = diag.shape[0]
    c, d = [upper[0] / diag[0]], [rhs[0] / diag[0]]
    for i in range(1, n):
        m = diag[i] - lower[i - 1] * c[i - 1]
        c.append(upper[i] / m if i < n - 1 else None)
        d.append((rhs[i] - lower[i - 1] * d[i - 1]) / m)
    x = [d[-1]]
    for i in range(n - 2, -1, -1):
        x.insert(0, d[i] - c[i] * x[0])
    return torch.stack(x)


class TridiagonalSolve(torch.autograd.Function):
    """Implicit advection-diffusion step: solve a tridiagonal system."""

    @staticmethod
    def forward(ctx, lower, diag, upper, rhs):
        x = thomas(lower, diag, upper, rhs)
        ctx.save_for_backward(lower, diag, upper, x)
        return x

    @staticmethod
    def backward(ctx, g):
        lower, diag, upper, x = ctx.saved_tensors
        lam = thomas(lower, diag, upper, g)
        glower = -lam[1:] * x[:-1]
        gdiag = -lam * x
        gupper = -lam[:-1] * x[1:]
        return glower, gdiag, gupper, lam


def inputs():
    torch.manual_seed(0)
    lower = torch.randn(5, dtype=torch.float64, requires_grad=True)
    diag = (4 + torch.rand(6, dtype=torch.float64)).requires_grad_(True)
    upper = torch.randn(5, dtype=torch.float64, requires_grad=True)
    rhs = torch.randn(6, dtype=torch.float64, requires_grad=True)
    return (lower, diag, upper, rhs)


# %% logdet_12
"""The per-matrix gradient g has to be broadcast over both matrix axes (g[..., None, None]); with one axis only it lines up the batch index with the rows, silently wrong when the batch size equals the matrix size (and an error otherwise)."""
WRONG = ["return g[..., None] * inv_t"]
RIGHT = ["return g[..., None, None] * inv_t"]
NAME = "LogAbsDet"
# --- code
import torch


class LogAbsDet(torch.autograd.Function):
    """log|det A| for a batch of matrices, one LU shared with the backward."""

    @staticmethod
    def forward(ctx, A):
        LU, piv = torch.linalg.lu_factor(A)
        ctx.save_for_backward(LU, piv)
        return LU.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)

    @staticmethod
    def backward(ctx, g):
        LU, piv = ctx.saved_tensors
        eye = torch.eye(LU.shape[-1], dtype=LU.dtype, device=LU.device)
        eye = eye.expand_as(LU).contiguous()
        inv_t = torch.linalg.lu_solve(LU, piv, eye).mT
        return g[..., None] * inv_t


def inputs():
    torch.manual_seed(0)
    A = torch.randn(3, 3, 3, dtype=torch.float64) + 2 * torch.eye(3, dtype=torch.float64)
    return (A.requires_grad_(True),)


def reference(A):
    return torch.linalg.slogdet(A)[1]


# %% heat_spectral_13
"""The module-level cache of the decay factor is keyed by the grid only, though the factor also depends on nu and dt. One call alone is right (gradcheck passes); a later call with another dt or nu on the same grid gets the stale factor, so its output and its gradient are wrong."""
WRONG = ["key = (n, dx, dtype)"]
RIGHT = ["key = (n, dx, dtype, nu, dt)"]
NAME = "HeatSpectral"
# --- code
import math
import torch

_DECAY = {}


def decay_factor(n, dx, nu, dt, dtype):
    key = (n, dx, dtype)
    if key not in _DECAY:
        k = 2 * math.pi * torch.fft.rfftfreq(n, d=dx, dtype=dtype)
        _DECAY[key] = torch.exp(-nu * k.square() * dt)
    return _DECAY[key]


class HeatSpectral(torch.autograd.Function):
    """Exact periodic heat step; the operator is self-adjoint."""

    @staticmethod
    def forward(ctx, u, nu, dt, dx):
        n = u.shape[-1]
        factor = decay_factor(n, dx, nu, dt, u.dtype)
        ctx.save_for_backward(factor)
        ctx.n = n
        return torch.fft.irfft(torch.fft.rfft(u) * factor, n=n)

    @staticmethod
    def backward(ctx, g):
        (factor,) = ctx.saved_tensors
        gu = torch.fft.irfft(torch.fft.rfft(g) * factor, n=ctx.n)
        return gu, None, None, None


def inputs():
    torch.manual_seed(0)
    u = torch.randn(2, 9, dtype=torch.float64, requires_grad=True)
    return (u, 0.3, 0.1, 0.5)


def reference(u, nu, dt, dx):
    k = 2 * math.pi * torch.fft.fftfreq(u.shape[-1], d=dx, dtype=u.dtype)
    return torch.fft.ifft(torch.fft.fft(u) * torch.exp(-nu * k**2 * dt)).real


# %% haversine_14
"""Two mistakes: the lat2 gradient leaves out the product-rule term from cos(lat2), and lon1 enters as lon2 - lon1, so its gradient must have the opposite sign of lon2's."""
WRONG = ["dlat2 = 0.5 * torch.sin(lat2 - lat1)", "return k * dlat1, k * dlon, k * dlat2, k * dlon, None"]
RIGHT = ["dlat2 = 0.5 * torch.sin(lat2 - lat1) - torch.cos(lat1) * torch.sin(lat2) * s2", "return k * dlat1, -k * dlon, k * dlat2, k * dlon, None"]
NAME = "Haversine"
# --- code
import torch


class Haversine(torch.autograd.Function):
    """Great-circle distance between two points given in radians."""

    @staticmethod
    def forward(ctx, lat1, lon1, lat2, lon2, radius=6371.0):
        s2 = torch.sin(0.5 * (lon2 - lon1)).square()
        a = torch.sin(0.5 * (lat2 - lat1)).square() + torch.cos(lat1) * torch.cos(lat2) * s2
        ctx.save_for_backward(lat1, lon1, lat2, lon2, a)
        ctx.radius = radius
        return 2.0 * radius * torch.asin(torch.sqrt(a))

    @staticmethod
    def backward(ctx, g):
        lat1, lon1, lat2, lon2, a = ctx.saved_tensors
        s2 = torch.sin(0.5 * (lon2 - lon1)).square()
        k = g * ctx.radius / torch.sqrt(a * (1.0 - a))
        dlat1 = -0.5 * torch.sin(lat2 - lat1) - torch.sin(lat1) * torch.cos(lat2) * s2
        dlat2 = 0.5 * torch.sin(lat2 - lat1)
        dlon = 0.5 * torch.cos(lat1) * torch.cos(lat2) * torch.sin(lon2 - lon1)
        return k * dlat1, k * dlon, k * dlat2, k * dlon, None


def inputs():
    torch.manual_seed(0)
    pts = [(0.8 * torch.randn(4, dtype=torch.float64)).requires_grad_(True) for _ in range(4)]
    return (*pts, 2.0)


def reference(lat1, lon1, lat2, lon2, radius=6371.0):
    h = torch.sin((lat2 - lat1) / 2) ** 2
    h = h + torch.cos(lat1) * torch.cos(lat2) * torch.sin((lon2 - lon1) / 2) ** 2
    return 2 * radius * torch.asin(h.sqrt())


# %% angular_spectrum_15
"""For a real parameter of a complex output the gradient is Re(sum(conj(dU/dz) * g)) with PyTorch's convention for g; the conjugate is missing, so the z gradient is wrong whenever g has an imaginary part."""
WRONG = ["gz = (dU * g).real.sum()"]
RIGHT = ["gz = (dU.conj() * g).real.sum()"]
NAME = "AngularSpectrum"
# --- code
import math
import torch


class AngularSpectrum(torch.autograd.Function):
    """Free-space propagation of a complex field over the distance z."""

    @staticmethod
    def forward(ctx, field, z, wavelength, dx):
        fy = torch.fft.fftfreq(field.shape[-2], d=dx, dtype=z.dtype)
        fx = torch.fft.fftfreq(field.shape[-1], d=dx, dtype=z.dtype)
        arg = 1.0 / wavelength**2 - fy[:, None] ** 2 - fx[None, :] ** 2
        prop = arg > 0
        kz = 2 * math.pi * torch.sqrt(arg.clamp(min=0))
        tf = torch.exp(1j * kz * z) * prop
        spec = torch.fft.fft2(field) * tf
        ctx.save_for_backward(tf, spec, kz)
        return torch.fft.ifft2(spec)

    @staticmethod
    def backward(ctx, g):
        tf, spec, kz = ctx.saved_tensors
        gfield = gz = None
        if ctx.needs_input_grad[0]:
            gfield = torch.fft.ifft2(torch.fft.fft2(g) * tf.conj())
        if ctx.needs_input_grad[1]:
            dU = torch.fft.ifft2(1j * kz * spec)
            gz = (dU * g).real.sum()
        return gfield, gz, None, None


def inputs():
    torch.manual_seed(0)
    field = torch.randn(4, 5, dtype=torch.complex128, requires_grad=True)
    z = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    return (field, z, 2.1, 1.5)


# %% pseudo_huber_16
"""The first derivative is right, but in the double backward the gradient of r misses the factor g (the grad_output that the first backward multiplied with). gradcheck passes, gradgradcheck fails whenever grad_output is not 1."""
WRONG = ["return gg * r / s, gg / s**3, None"]
RIGHT = ["return gg * r / s, gg * g / s**3, None"]
NAME = "PseudoHuber"
# --- code
import torch


class PseudoHuberGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, g, r, delta):
        s = torch.sqrt(1 + (r / delta) ** 2)
        ctx.save_for_backward(g, r, s)
        return g * r / s

    @staticmethod
    def backward(ctx, gg):
        g, r, s = ctx.saved_tensors
        return gg * r / s, gg / s**3, None


class PseudoHuber(torch.autograd.Function):
    """delta^2 (sqrt(1 + (r/delta)^2) - 1), twice differentiable for Newton."""

    @staticmethod
    def forward(ctx, r, delta):
        ctx.save_for_backward(r)
        ctx.delta = delta
        return delta**2 * (torch.sqrt(1 + (r / delta) ** 2) - 1)

    @staticmethod
    def backward(ctx, g):
        (r,) = ctx.saved_tensors
        return PseudoHuberGrad.apply(g, r, ctx.delta), None


def inputs():
    torch.manual_seed(0)
    r = torch.randn(6, dtype=torch.float64, requires_grad=True)
    return (r, 0.8)


def reference(r, delta):
    return delta**2 * (torch.sqrt(1 + (r / delta) ** 2) - 1)


# %% framing_17
"""With hop < window length the frames overlap, and a sample's gradient is the sum over all frames that contain it (overlap-add); the backward assigns each frame's slice and overwrites what earlier frames put there."""
WRONG = ["gx[..., s:s + n] = gw[..., i, :]"]
RIGHT = ["gx[..., s:s + n] += gw[..., i, :]"]
NAME = "WindowedFrames"
# --- code
import torch


class WindowedFrames(torch.autograd.Function):
    """Cut (C, T) audio into windowed frames (C, F, n), hop in samples."""

    @staticmethod
    def forward(ctx, x, window, hop):
        n = window.shape[0]
        frames = x.unfold(-1, n, hop)
        ctx.save_for_backward(x, window)
        ctx.hop = hop
        return frames * window

    @staticmethod
    def backward(ctx, g):
        x, window = ctx.saved_tensors
        n, hop = window.shape[0], ctx.hop
        gx = gwin = None
        if ctx.needs_input_grad[0]:
            gx = torch.zeros_like(x)
            gw = g * window
            for i in range(g.shape[-2]):
                s = i * hop
                gx[..., s:s + n] = gw[..., i, :]
        if ctx.needs_input_grad[1]:
            gwin = torch.einsum("cfn,cfn->n", g, x.unfold(-1, n, hop))
        return gx, gwin, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 11, dtype=torch.float64, requires_grad=True)
    window = torch.rand(4, dtype=torch.float64, requires_grad=True)
    return (x, window, 2)


def reference(x, window, hop):
    return x.unfold(-1, window.shape[0], hop) * window


# %% saturator_18
"""The saved tanh value is scaled in place after save_for_backward (the tensor is the same, and changes inside forward are not detected), so the backward computes 1 - (level*tanh)^2 instead of 1 - tanh^2."""
WRONG = ["out = t.mul_(level)"]
RIGHT = ["out = t * level"]
NAME = "Saturator"
# --- code
import torch


class Saturator(torch.autograd.Function):
    """level * tanh(drive * x), drive per channel with shape (C, 1)."""

    @staticmethod
    def forward(ctx, x, drive, level):
        t = torch.tanh(drive * x)
        ctx.save_for_backward(x, drive, t)
        ctx.level = level
        out = t.mul_(level)
        return out

    @staticmethod
    def backward(ctx, g):
        x, drive, t = ctx.saved_tensors
        pre = g * ctx.level * (1 - t * t)
        gx = pre * drive
        gdrive = (pre * x).sum(dim=-1, keepdim=True)
        return gx, gdrive, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    drive = (0.5 + torch.rand(2, 1, dtype=torch.float64)).requires_grad_(True)
    return (x, drive, 0.6)


# %% fir_decimate_19
"""needs_input_grad is indexed by the position of the argument in forward: the taps are argument 2, but argument 1 (the integer factor, always False) is asked, so the taps never get a gradient."""
WRONG = ["if ctx.needs_input_grad[1]:"]
RIGHT = ["if ctx.needs_input_grad[2]:"]
NAME = "FirDecimate"
# --- code
import torch
import torch.nn.functional as F


class FirDecimate(torch.autograd.Function):
    """FIR filter with decimation, x (B, T), taps (K,)."""

    @staticmethod
    def forward(ctx, x, factor, taps):
        ctx.save_for_backward(x, taps)
        ctx.factor = factor
        y = F.conv1d(x.unsqueeze(1), taps.flip(0)[None, None], stride=factor)
        return y.squeeze(1)

    @staticmethod
    def backward(ctx, g):
        x, taps = ctx.saved_tensors
        T, K = x.shape[-1], taps.shape[0]
        gx = gtaps = None
        if ctx.needs_input_grad[0]:
            full = F.conv_transpose1d(
                g.unsqueeze(1), taps.flip(0)[None, None], stride=ctx.factor
            ).squeeze(1)
            gx = F.pad(full, (0, T - full.shape[-1]))
        if ctx.needs_input_grad[1]:
            frames = x.unfold(-1, K, ctx.factor)
            gtaps = torch.einsum("bf,bfk->k", g, frames).flip(0)
        return gx, None, gtaps


def inputs():
    torch.manual_seed(0)
    x = torch.randn(2, 10, dtype=torch.float64, requires_grad=True)
    taps = torch.randn(3, dtype=torch.float64, requires_grad=True)
    return (x, 2, taps)


# %% spring_net_20
"""The gradient buffer is made with torch.zeros in the default dtype (float32) and device instead of those of pos, so index_add_ raises in the backward for float64 positions (works only in float32 on the CPU)."""
WRONG = ["gpos = torch.zeros(ctx.num_nodes, ctx.dim)"]
RIGHT = ["gpos = torch.zeros(ctx.num_nodes, ctx.dim, dtype=force.dtype, device=force.device)"]
NAME = "SpringEnergy"
# --- code
import torch


class SpringEnergy(torch.autograd.Function):
    """Elastic energy of a spring network, edges as an (E, 2) index tensor."""

    @staticmethod
    def forward(ctx, pos, rest, edges, stiffness):
        i, j = edges.unbind(1)
        d = pos[j] - pos[i]
        length = d.norm(dim=-1)
        ext = length - rest
        ctx.save_for_backward(d / length.unsqueeze(-1), ext, edges)
        ctx.stiffness = stiffness
        ctx.num_nodes, ctx.dim = pos.shape
        return 0.5 * stiffness * ext.square().sum()

    @staticmethod
    def backward(ctx, g):
        unit, ext, edges = ctx.saved_tensors
        i, j = edges.unbind(1)
        tension = g * ctx.stiffness * ext
        force = tension.unsqueeze(-1) * unit
        gpos = torch.zeros(ctx.num_nodes, ctx.dim)
        gpos.index_add_(0, j, force)
        gpos.index_add_(0, i, force, alpha=-1)
        return gpos, -tension, None, None


def inputs():
    torch.manual_seed(0)
    pos = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    rest = torch.rand(5, dtype=torch.float64, requires_grad=True)
    edges = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])
    return (pos, rest, edges, 3.0)


# %% polar_21
"""set_materialize_grads(False) makes the gradient of an unused output None, and the backward does not handle None: it raises a TypeError as soon as only the range or only the bearing is used in the loss."""
WRONG = ["ctx.set_materialize_grads(False)"]
RIGHT = ["ctx.set_materialize_grads(True)"]
NAME = "RangeBearing"
# --- code
import torch


class RangeBearing(torch.autograd.Function):
    """Range and bearing of a landmark seen from pose (x, y, heading)."""

    @staticmethod
    def forward(pose, landmark):
        dx, dy = (landmark - pose[..., :2]).unbind(-1)
        rng = torch.hypot(dx, dy)
        bearing = torch.atan2(dy, dx) - pose[..., 2]
        return rng, bearing

    @staticmethod
    def setup_context(ctx, inputs, output):
        pose, landmark = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(pose, landmark, output[0])

    @staticmethod
    def backward(ctx, g_rng, g_bearing):
        pose, landmark, rng = ctx.saved_tensors
        dx, dy = (landmark - pose[..., :2]).unbind(-1)
        gx = g_rng * dx / rng - g_bearing * dy / rng**2
        gy = g_rng * dy / rng + g_bearing * dx / rng**2
        gl = torch.stack([gx, gy], dim=-1)
        gp = torch.cat([-gl, -g_bearing.unsqueeze(-1)], dim=-1)
        return gp, gl


def inputs():
    torch.manual_seed(0)
    pose = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    landmark = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    return (pose, landmark)


# %% envelope_22
"""Where the attack wins (|x| taken by the max) the previous envelope has no influence, so the carried adjoint must be cut there by the mask; the backward passes decay*lam on to the past at every sample."""
WRONG = ["carry = decay * lam"]
RIGHT = ["carry = torch.where(attack[t], torch.zeros_like(lam), decay * lam)"]
NAME = "PeakEnvelope"
# --- code
import torch


class PeakEnvelope(torch.autograd.Function):
    """Peak follower e[t] = max(|x[t]|, decay * e[t-1]), time on axis 0."""

    @staticmethod
    def forward(ctx, x, decay):
        env = torch.zeros_like(x)
        attack = torch.zeros_like(x, dtype=torch.bool)
        prev = torch.zeros_like(x[0])
        for t in range(x.shape[0]):
            mag = x[t].abs()
            rel = decay * prev
            attack[t] = mag > rel
            prev = torch.maximum(mag, rel)
            env[t] = prev
        ctx.save_for_backward(x, decay, env, attack)
        return env

    @staticmethod
    def backward(ctx, g):
        x, decay, env, attack = ctx.saved_tensors
        gx = torch.zeros_like(x)
        gdecay = torch.zeros_like(decay)
        carry = torch.zeros_like(g[0])
        for t in range(x.shape[0] - 1, -1, -1):
            lam = g[t] + carry
            gx[t] = torch.where(attack[t], lam * x[t].sign(), gx[t])
            if t > 0:
                gdecay = gdecay + (lam * env[t - 1])[~attack[t]].sum()
            carry = decay * lam
        return gx, gdecay


def inputs():
    torch.manual_seed(0)
    x = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)
    decay = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    return (x, decay)


# %% l_statistic_23
"""The gradient of sorted values must be scattered back to the original places (the inverse permutation); gather with the sort index applies the permutation a second time instead of inverting it."""
WRONG = ["gx = gs.gather(-1, order)"]
RIGHT = ["gx = torch.zeros_like(gs).scatter(-1, order, gs)"]
NAME = "LStatistic"
# --- code
import torch


class LStatistic(torch.autograd.Function):
    """Weighted sum of order statistics (trimmed means, L-moments)."""

    @staticmethod
    def forward(ctx, x, weights):
        values, order = torch.sort(x, dim=-1)
        ctx.save_for_backward(values, order, weights)
        return torch.einsum("...n,n->...", values, weights)

    @staticmethod
    def backward(ctx, g):
        values, order, weights = ctx.saved_tensors
        gx = gw = None
        if ctx.needs_input_grad[0]:
            gs = g.unsqueeze(-1) * weights
            gx = gs.gather(-1, order)
        if ctx.needs_input_grad[1]:
            gw = torch.einsum("...,...n->n", g, values)
        return gx, gw


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(6, dtype=torch.float64, requires_grad=True)
    return (x, weights)


def reference(x, weights):
    return (x.sort(-1).values * weights).sum(-1)


# %% zscore_24
"""The forward standardises with the sample standard deviation (n - 1), so the term from the deviation is z * sum(g*z) / (n - 1); the backward takes the mean (divides by n), the formula for the biased deviation."""
WRONG = ["proj = (g * z).mean(dim=ctx.dim, keepdim=True)"]
RIGHT = ["proj = (g * z).sum(dim=ctx.dim, keepdim=True) / (z.shape[ctx.dim] - 1)"]
NAME = "ZScore"
# --- code
import torch


class ZScore(torch.autograd.Function):
    """Standardise sensor channels along dim, keeps the shape."""

    @staticmethod
    def forward(ctx, x, dim):
        std, mean = torch.std_mean(x, dim=dim, keepdim=True)
        z = (x - mean) / std
        ctx.save_for_backward(z, std)
        ctx.dim = dim
        return z

    @staticmethod
    def backward(ctx, g):
        z, std = ctx.saved_tensors
        gm = g.mean(dim=ctx.dim, keepdim=True)
        proj = (g * z).mean(dim=ctx.dim, keepdim=True)
        return (g - gm - z * proj) / std, None


def inputs():
    torch.manual_seed(0)
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    return (x, 0)


def reference(x, dim):
    return (x - x.mean(dim, keepdim=True)) / x.std(dim, keepdim=True)
