"""Mistakes: held out, science. Each cell is a separate module; see benchmarks/repairs.py."""

# %% bessel_1
"""The forward is careful near zero, the backward uses the textbook recurrence j1' = j0 - 2 j1 / x everywhere and gives NaN at x = 0; the author thinks the guard of the forward is enough."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["slope = j0 - 2 * j1 / x"]
RIGHT = ["slope = j0 - 2 * j1_over_x(x)"]
NAME = "SphericalBesselJ1"
# --- code
import math

import torch
from torch.autograd import Function

SMALL = 0.05


def j1_over_x(x):
    """j1(x) / x, by its power series close to zero."""
    small = x.abs() < SMALL
    safe = torch.where(small, torch.ones_like(x), x)
    direct = (torch.sin(safe) / safe - torch.cos(safe)) / safe ** 2
    x2 = x * x
    series = (1 - x2 / 10 * (1 - x2 / 28)) / 3
    return torch.where(small, series, direct)


class SphericalBesselJ1(Function):
    """Spherical Bessel function j1(x) = sin(x)/x^2 - cos(x)/x, also at x = 0."""

    @staticmethod
    def forward(ctx, x):
        j1 = x * j1_over_x(x)
        ctx.save_for_backward(x, j1)
        return j1

    @staticmethod
    def backward(ctx, grad_output):
        x, j1 = ctx.saved_tensors
        j0 = torch.sinc(x / math.pi)
        # recurrence: j1' = j0 - 2 j1 / x
        slope = j0 - 2 * j1 / x
        return grad_output * slope


def inputs():
    return (torch.tensor([-2.0, -0.5, 0.0, 0.01, 1.3, 7.0], dtype=torch.float64),)

# %% catmullrom_1
"""The slope of the spline is taken with respect to the cell coordinate t, the factor dt/dx = 1/h is forgotten; the author tested with a grid spacing of one."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["slope = (weight_slopes(t) * samples[nodes]).sum(-1)"]
RIGHT = ["slope = (weight_slopes(t) * samples[nodes]).sum(-1) / ctx.h"]
NAME = "CatmullRom"
# --- code
import torch
from torch.autograd import Function


def locate(query, h, n):
    """Cell index and local coordinate t in [0, 1) on a periodic grid."""
    s = query / h
    cell = torch.floor(s)
    t = s - cell
    return cell.long() % n, t


def weights(t):
    t2, t3 = t * t, t * t * t
    return torch.stack([
        -0.5 * t3 + t2 - 0.5 * t,
        1.5 * t3 - 2.5 * t2 + 1.0,
        -1.5 * t3 + 2.0 * t2 + 0.5 * t,
        0.5 * t3 - 0.5 * t2,
    ], dim=-1)


def weight_slopes(t):
    t2 = t * t
    return torch.stack([
        -1.5 * t2 + 2.0 * t - 0.5,
        4.5 * t2 - 5.0 * t,
        -4.5 * t2 + 4.0 * t + 0.5,
        1.5 * t2 - t,
    ], dim=-1)


def stencil(cell, n):
    return (cell.unsqueeze(-1) + torch.arange(-1, 3)) % n


class CatmullRom(Function):
    """Catmull-Rom interpolation of samples on a periodic uniform grid with spacing h."""

    @staticmethod
    def forward(samples, query, h):
        n = samples.shape[0]
        cell, t = locate(query, h, n)
        return (weights(t) * samples[stencil(cell, n)]).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        samples, query, h = inputs
        ctx.save_for_backward(samples, query)
        ctx.h = h

    @staticmethod
    def backward(ctx, grad):
        samples, query = ctx.saved_tensors
        n = samples.shape[0]
        cell, t = locate(query, ctx.h, n)
        nodes = stencil(cell, n)

        # spread every query's gradient back on its four nodes
        contrib = grad.unsqueeze(-1) * weights(t)
        grad_samples = torch.zeros_like(samples).index_add(0, nodes.flatten(), contrib.flatten())

        slope = (weight_slopes(t) * samples[nodes]).sum(-1)
        return grad_samples, grad * slope, None


def inputs():
    torch.manual_seed(1)
    samples = torch.randn(7, dtype=torch.float64)
    query = torch.rand(5, dtype=torch.float64) * 1.7
    return samples, query, 0.25


def reference(samples, query, h):
    n = samples.shape[0]
    cell = torch.floor(query.detach() / h)
    t = query / h - cell
    i = cell.long()
    p0, p1, p2, p3 = (samples[(i + k) % n] for k in (-1, 0, 1, 2))
    return 0.5 * (2 * p1 + (p2 - p0) * t + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t ** 2
                  + (3 * p1 - p0 - 3 * p2 + p3) * t ** 3)

# %% cic_1
"""Scatters onto the grid with indexed +=, in the belief that repeated indices accumulate; with two particles in one cell only one of them is counted."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["g_field[left] += g * (1 - frac)", "g_field[right] += g * frac"]
RIGHT = ["g_field = g_field.index_add(0, left, g * (1 - frac))", "g_field = g_field.index_add(0, right, g * frac)"]
NAME = "CloudInCellGather"
# --- code
import torch


class CloudInCellGather(torch.autograd.Function):
    """Field value at particle positions (periodic box of length n, unit cells), linear weights."""

    @staticmethod
    def forward(ctx, field, pos):
        n = field.numel()
        left = pos.floor().long() % n
        right = (left + 1) % n
        frac = pos - pos.floor()
        ctx.save_for_backward(field, pos)
        return field[left] * (1 - frac) + field[right] * frac

    @staticmethod
    def backward(ctx, g):
        field, pos = ctx.saved_tensors
        n = field.numel()
        left = pos.floor().long() % n
        right = (left + 1) % n
        frac = pos - pos.floor()

        g_field = g_pos = None
        if ctx.needs_input_grad[0]:
            # charge deposition, the transpose of the gather
            g_field = torch.zeros_like(field)
            g_field[left] += g * (1 - frac)
            g_field[right] += g * frac
        if ctx.needs_input_grad[1]:
            g_pos = g * (field[right] - field[left])
        return g_field, g_pos


def inputs():
    torch.manual_seed(2)
    field = torch.randn(6)
    pos = torch.tensor([0.3, 2.2, 2.7, 5.4, 3.1])
    return field, pos


def reference(field, pos):
    n = field.numel()
    lo = pos.detach().floor()
    w = pos - lo
    i = lo.long() % n
    return torch.lerp(field[i], field[(i + 1) % n], w)

# %% coulomb_1
"""Saves the inverse distances computed in forward to spare the recomputation; they carry no graph, so differentiating the forces again (Hessian, force matching) is silently wrong."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["ctx.save_for_backward(pos, charge, inv)", "pos, charge, inv = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(pos, charge)", "pos, charge = ctx.saved_tensors", "inv = inverse_distance(pos)     # again, with a graph"]
NAME = "SoftCoulomb"
# --- code
import torch
from torch.autograd import Function

SOFTENING = 0.1


def inverse_distance(pos):
    diff = pos[:, None, :] - pos[None, :, :]
    return torch.rsqrt((diff ** 2).sum(-1) + SOFTENING ** 2)


class SoftCoulomb(Function):
    """Electrostatic energy  1/2 sum_{i != j} q_i q_j / sqrt(r_ij^2 + s^2)  of point charges."""

    @staticmethod
    def forward(ctx, pos, charge):
        inv = inverse_distance(pos)
        off = 1 - torch.eye(len(charge), dtype=pos.dtype)
        ctx.save_for_backward(pos, charge, inv)
        return 0.5 * charge @ (off * inv) @ charge

    @staticmethod
    def backward(ctx, grad):
        pos, charge, inv = ctx.saved_tensors
        off = 1 - torch.eye(len(charge), dtype=pos.dtype)

        grad_charge = grad * ((off * inv) @ charge)

        qq = charge[:, None] * charge[None, :] * off
        diff = pos[:, None, :] - pos[None, :, :]
        grad_pos = -grad * ((qq * inv ** 3)[..., None] * diff).sum(1)
        return grad_pos, grad_charge


def inputs():
    torch.manual_seed(19)
    return torch.randn(4, 3, dtype=torch.float64), torch.randn(4, dtype=torch.float64)


def reference(pos, charge):
    i, j = torch.triu_indices(len(charge), len(charge), 1)
    r2 = (pos[i] - pos[j]).square().sum(-1)
    return (charge[i] * charge[j] / torch.sqrt(r2 + SOFTENING ** 2)).sum()

# %% cubicroot_1
"""Keeps the root on the class instead of ctx, as one keeps state on a module; a second call before backward overwrites the first one's root."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["ctx.save_for_backward(p)", "DepressedCubic.root = y", "p, = ctx.saved_tensors", "y = DepressedCubic.root"]
RIGHT = ["ctx.save_for_backward(p, y)", "p, y = ctx.saved_tensors"]
NAME = "DepressedCubic"
# --- code
import torch
from torch.autograd import Function


class DepressedCubic(Function):
    """The only real root y of  y^3 + p y + q = 0  for p > 0 (elementwise)."""

    @staticmethod
    def forward(ctx, p, q):
        y = -q / (p + q.abs() ** (2 / 3))       # good enough a start
        for _ in range(30):
            y = y - (y ** 3 + p * y + q) / (3 * y ** 2 + p)
        ctx.save_for_backward(p)
        DepressedCubic.root = y
        return y

    @staticmethod
    def backward(ctx, grad_y):
        p, = ctx.saved_tensors
        y = DepressedCubic.root
        # implicit function theorem: (3 y^2 + p) dy + y dp + dq = 0
        lam = -grad_y / (3 * y ** 2 + p)
        return lam * y, lam


def inputs():
    torch.manual_seed(18)
    return torch.rand(5, dtype=torch.float64) + 0.5, torch.randn(5, dtype=torch.float64)


def reference(p, q):
    d = torch.sqrt(q ** 2 / 4 + p ** 3 / 27)
    # both radicands with their signs
    u = d - q / 2
    v = d + q / 2
    return u ** (1 / 3) - v ** (1 / 3)

# %% cumtrapz_1
"""The adjoint of a cumulative sum is the cumulative sum from the other end; the author runs it from the front again."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_panels = torch.cumsum(grad_out, 0)"]
RIGHT = ["grad_panels = torch.cumsum(grad_out.flip(0), 0).flip(0)"]
NAME = "CumulativeTrapezoid"
# --- code
import torch
from torch.autograd import Function
from torch.nn.functional import pad


class CumulativeTrapezoid(Function):
    """Running integral of samples y (n,) over a nonuniform axis x (n,); the result has n - 1 entries."""

    @staticmethod
    def forward(ctx, y, x):
        ctx.save_for_backward(y, x)
        panels = 0.5 * (y[1:] + y[:-1]) * (x[1:] - x[:-1])
        return torch.cumsum(panels, 0)

    @staticmethod
    def backward(ctx, grad_out):
        y, x = ctx.saved_tensors
        grad_panels = torch.cumsum(grad_out, 0)

        to_y = 0.5 * grad_panels * (x[1:] - x[:-1])     # the same for both ends of a panel
        to_dx = 0.5 * grad_panels * (y[1:] + y[:-1])
        grad_y = pad(to_y, (1, 0)) + pad(to_y, (0, 1))
        grad_x = pad(to_dx, (1, 0)) - pad(to_dx, (0, 1))
        return grad_y, grad_x


def inputs():
    torch.manual_seed(13)
    return torch.randn(7), torch.cumsum(torch.rand(7) + 0.1, 0)


def reference(y, x):
    return torch.cumulative_trapezoid(y, x)

# %% fftconv_1
"""The gradient of the kernel is computed as a convolution with the signal instead of a correlation: the conjugate of the signal's spectrum is forgotten, after it was remembered in the line above."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_kernel = torch.fft.irfft(G * S, n=n)"]
RIGHT = ["grad_kernel = torch.fft.irfft(G * S.conj(), n=n)"]
NAME = "CircularConv"
# --- code
import torch
from torch.autograd import Function


class CircularConv(Function):
    """Circular convolution of two real signals of equal length through the FFT."""

    @staticmethod
    def forward(signal, kernel):
        return torch.fft.irfft(torch.fft.rfft(signal) * torch.fft.rfft(kernel), n=signal.shape[-1])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_out):
        signal, kernel = ctx.saved_tensors
        n = signal.shape[-1]
        G = torch.fft.rfft(grad_out)
        S = torch.fft.rfft(signal)
        K = torch.fft.rfft(kernel)
        grad_signal = torch.fft.irfft(G * K.conj(), n=n)
        grad_kernel = torch.fft.irfft(G * S, n=n)
        return grad_signal, grad_kernel


def inputs():
    torch.manual_seed(5)
    return torch.randn(3, 8, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)


def reference(signal, kernel):
    n = signal.shape[-1]
    return sum(kernel[..., k:k + 1] * torch.roll(signal, k, -1) for k in range(n))

# %% gaussintegral_1
"""Two slips in Leibniz' rule: the integrand at the lower limit gets no minus sign, and the derivative with respect to a brings down x instead of x squared."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["inner = quadrature(lambda x: -x * torch.exp(-a.unsqueeze(-1) * x * x), lower, upper)", "return grad * at_lower, grad * at_upper, grad * inner"]
RIGHT = ["inner = quadrature(lambda x: -x ** 2 * torch.exp(-a.unsqueeze(-1) * x * x), lower, upper)", "return -grad * at_lower, grad * at_upper, grad * inner"]
NAME = "GaussianIntegral"
# --- code
import torch
from torch.autograd import Function


def gauss_legendre(n, dtype):
    """Golub-Welsch: nodes and weights on [-1, 1]."""
    k = torch.arange(1, n, dtype=dtype)
    beta = k / torch.sqrt(4 * k * k - 1)
    nodes, vecs = torch.linalg.eigh(torch.diag(beta, 1) + torch.diag(beta, -1))
    return nodes, 2 * vecs[0] ** 2


def quadrature(f, lower, upper, n=24):
    nodes, w = gauss_legendre(n, lower.dtype)
    half = (upper - lower) / 2
    mid = (upper + lower) / 2
    x = mid.unsqueeze(-1) + half.unsqueeze(-1) * nodes
    return half * (f(x) * w).sum(-1)


class GaussianIntegral(Function):
    """I(lower, upper, a) = int_lower^upper exp(-a x^2) dx, all three of shape (N,)."""

    @staticmethod
    def forward(ctx, lower, upper, a):
        ctx.save_for_backward(lower, upper, a)
        return quadrature(lambda x: torch.exp(-a.unsqueeze(-1) * x * x), lower, upper)

    @staticmethod
    def backward(ctx, grad):
        lower, upper, a = ctx.saved_tensors
        at_lower = torch.exp(-a * lower ** 2)
        at_upper = torch.exp(-a * upper ** 2)
        # differentiate under the integral sign
        inner = quadrature(lambda x: -x * torch.exp(-a.unsqueeze(-1) * x * x), lower, upper)
        return grad * at_lower, grad * at_upper, grad * inner


def inputs():
    torch.manual_seed(12)
    lower = torch.randn(4, dtype=torch.float64)
    upper = lower + torch.rand(4, dtype=torch.float64) * 2
    a = torch.rand(4, dtype=torch.float64) + 0.5
    return lower, upper, a


def reference(lower, upper, a):
    r = a.sqrt()
    return torch.pi ** 0.5 / (2 * r) * (torch.erf(r * upper) - torch.erf(r * lower))

# %% kepler_1
"""In the implicit derivative of Kepler's equation the cosine is taken at the mean anomaly M (the input) instead of the solution E."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["jac = 1 - e * torch.cos(M)"]
RIGHT = ["jac = 1 - e * torch.cos(E)"]
NAME = "EccentricAnomaly"
# --- code
import torch
from torch.autograd import Function


class EccentricAnomaly(Function):
    # Solves  E - e sin(E) = M  for E by Newton's method.
    # Implicit differentiation:  (1 - e cos) dE = dM + sin(E) de

    @staticmethod
    def forward(ctx, M, e):
        E = M + e * torch.sin(M)
        for _ in range(20):
            residual = E - e * torch.sin(E) - M
            E = E - residual / (1 - e * torch.cos(E))
        ctx.save_for_backward(M, e, E)
        return E

    @staticmethod
    def backward(ctx, grad_E):
        M, e, E = ctx.saved_tensors
        jac = 1 - e * torch.cos(M)
        grad_M = grad_E / jac
        grad_e = grad_M * torch.sin(E)
        return grad_M, grad_e


def inputs():
    torch.manual_seed(3)
    M = torch.rand(6, dtype=torch.float64) * 3
    e = torch.rand(6, dtype=torch.float64) * 0.7
    return M, e


def reference(M, e):
    E = M + e * torch.sin(M)
    for _ in range(20):
        E = E - (E - e * torch.sin(E) - M) / (1 - e * torch.cos(E))
    return E

# %% lennardjones_1
"""The factor 1/2 against double counting of pairs is carried into the gradient, although each atom's position stands in two of the ordered pairs and the two halves add up to one."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_pos = 0.5 * ((offdiag * dv_over_r).unsqueeze(-1) * diff).sum(1)"]
RIGHT = ["grad_pos = ((offdiag * dv_over_r).unsqueeze(-1) * diff).sum(1)"]
NAME = "LennardJones"
# --- code
import torch
from torch.autograd import Function


def pair_geometry(pos):
    diff = pos.unsqueeze(1) - pos.unsqueeze(0)          # (N, N, 3), diff[i, j] = r_i - r_j
    eye = torch.eye(pos.shape[0], dtype=pos.dtype)
    r2 = (diff * diff).sum(-1) + eye                    # keep the diagonal away from zero
    return diff, r2, 1 - eye


class LennardJones(Function):
    """Total Lennard-Jones energy of N atoms, open boundaries, no cutoff."""

    @staticmethod
    def forward(ctx, pos, epsilon, sigma):
        _, r2, offdiag = pair_geometry(pos)
        s6 = (sigma ** 2 / r2) ** 3
        ctx.save_for_backward(pos)
        ctx.epsilon, ctx.sigma = epsilon, sigma
        return 0.5 * (offdiag * 4 * epsilon * (s6 * s6 - s6)).sum()

    @staticmethod
    def backward(ctx, grad_energy):
        pos, = ctx.saved_tensors
        diff, r2, offdiag = pair_geometry(pos)
        s6 = (ctx.sigma ** 2 / r2) ** 3
        # dV/dr / r
        dv_over_r = 4 * ctx.epsilon * (6 * s6 - 12 * s6 * s6) / r2
        grad_pos = 0.5 * ((offdiag * dv_over_r).unsqueeze(-1) * diff).sum(1)
        return grad_energy * grad_pos, None, None


def inputs():
    torch.manual_seed(7)
    lattice = torch.tensor([[0., 0, 0], [1.2, 0, 0], [0, 1.2, 0], [0, 0, 1.2]], dtype=torch.float64)
    return lattice + 0.05 * torch.randn(4, 3, dtype=torch.float64), 0.8, 1.0


def reference(pos, epsilon, sigma):
    i, j = torch.triu_indices(pos.shape[0], pos.shape[0], 1)
    x = sigma / (pos[i] - pos[j]).norm(dim=-1)
    return (4 * epsilon * (x ** 12 - x ** 6)).sum()

# %% linsolve_1
"""The adjoint system is solved with A instead of A transposed; the author's test matrices were symmetric, so the checks passed."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["adjoint = torch.linalg.solve(A, grad_X)"]
RIGHT = ["adjoint = torch.linalg.solve(A.T, grad_X)"]
NAME = "LinearSolve"
# --- code
import torch
from torch.autograd import Function


class LinearSolve(Function):
    """X = A^{-1} B for a dense square A and several right-hand sides (columns of B)."""

    @staticmethod
    def forward(ctx, A, B):
        X = torch.linalg.solve(A, B)
        ctx.save_for_backward(A, X)
        return X

    @staticmethod
    def backward(ctx, grad_X):
        A, X = ctx.saved_tensors
        # adjoint solve, then dA = -A^{-1} dA X
        adjoint = torch.linalg.solve(A, grad_X)
        grad_A = -adjoint @ X.T
        grad_B = adjoint
        return grad_A, grad_B


def inputs():
    torch.manual_seed(0)
    A = torch.randn(4, 4, dtype=torch.float64) + 4 * torch.eye(4, dtype=torch.float64)
    B = torch.randn(4, 2, dtype=torch.float64)
    return A, B


def reference(A, B):
    return torch.linalg.solve(A, B)

# %% logcumsum_1
"""Subtracts the maximum in place to save memory: the caller's tensor is changed, and nothing says so to autograd."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["shifted = x.sub_(peak)"]
RIGHT = ["shifted = x - peak"]
NAME = "LogCumSumExp"
# --- code
import torch
from torch.autograd import Function


class LogCumSumExp(Function):
    """log of the running sum of exp(x) along the last dimension, stable."""

    @staticmethod
    def forward(ctx, x):
        peak = x.amax(-1, keepdim=True)
        shifted = x.sub_(peak)
        ctx.save_for_backward(x)
        return shifted.exp().cumsum(-1).log() + peak

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        weight = torch.softmax(x, -1)
        running = weight.cumsum(-1)
        # x_j enters every later sum: suffix sum of grad / running
        ratio = grad / running
        suffix = ratio.flip(-1).cumsum(-1).flip(-1)
        return weight * suffix


def inputs():
    torch.manual_seed(15)
    return (torch.randn(2, 5, dtype=torch.float64),)


def reference(x):
    return torch.logcumsumexp(x, -1)

# %% logdet_1
"""The incoming gradient (B,) is multiplied on (B, n, n) without new dimensions: it broadcasts along the columns, not along the batch; with .sum() as a loss it looks right."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return grad * inv_t"]
RIGHT = ["return grad[:, None, None] * inv_t"]
NAME = "LogAbsDet"
# --- code
import torch
from torch.autograd import Function


class LogAbsDet(Function):
    """log|det A| for a batch of square matrices (B, n, n) -> (B,)."""

    @staticmethod
    def forward(matrices):
        lu, _ = torch.linalg.lu_factor(matrices)
        return lu.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        matrices, = ctx.saved_tensors
        # Jacobi's formula
        inv_t = torch.linalg.inv(matrices).mT
        return grad * inv_t


def inputs():
    torch.manual_seed(17)
    return (torch.randn(3, 3, 3, dtype=torch.float64) + 2 * torch.eye(3, dtype=torch.float64),)


def reference(matrices):
    return torch.linalg.slogdet(matrices).logabsdet

# %% mixer_1
"""The gradient of the real frequency lacks the conjugate on the derivative, and backward forgets the None for the time step."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_omega = (grad * dz).real.sum()", "return grad_z, grad_omega"]
RIGHT = ["grad_omega = (grad * dz.conj()).real.sum()", "return grad_z, grad_omega, None"]
NAME = "FrequencyShift"
# --- code
import torch
from torch.autograd import Function


def carrier(z, omega, dt):
    t = torch.arange(z.shape[-1], dtype=omega.dtype) * dt
    return t, torch.exp(1j * omega * t)


class FrequencyShift(Function):
    """Complex mixer: z[k] * exp(i omega k dt), with omega a real 0-dim tensor and dt a float."""

    @staticmethod
    def forward(ctx, z, omega, dt):
        _, osc = carrier(z, omega, dt)
        ctx.save_for_backward(z, omega)
        ctx.dt = dt
        return z * osc

    @staticmethod
    def backward(ctx, grad):
        z, omega = ctx.saved_tensors
        t, osc = carrier(z, omega, ctx.dt)
        grad_z = grad * osc.conj()
        dz = 1j * t * z * osc
        grad_omega = (grad * dz).real.sum()
        return grad_z, grad_omega


def inputs():
    torch.manual_seed(16)
    return torch.randn(6, dtype=torch.complex128), torch.tensor(1.7, dtype=torch.float64), 0.1


def reference(z, omega, dt):
    phase = omega * dt * torch.arange(z.shape[-1], dtype=omega.dtype)
    return torch.complex(z.real * phase.cos() - z.imag * phase.sin(),
                         z.real * phase.sin() + z.imag * phase.cos())

# %% quaternion_1
"""Treats the norm of the quaternion as a constant in backward: the projection onto the tangent space of the unit sphere is forgotten."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["g_q = g_u / length"]
RIGHT = ["g_q = (g_u - u * dot(u, g_u)) / length"]
NAME = "QuaternionRotate"
# --- code
import torch
from torch.autograd import Function


def cross(a, b):
    return torch.linalg.cross(a, b, dim=-1)


def dot(a, b):
    return (a * b).sum(-1, keepdim=True)


class QuaternionRotate(Function):
    """Rotates vectors v (N, 3) by quaternions q (N, 4) = (w, x, y, z), which need not be normalised."""

    @staticmethod
    def forward(q, v):
        u = q / q.norm(dim=-1, keepdim=True)
        w, a = u[:, :1], u[:, 1:]
        t = 2 * cross(a, v)
        return v + w * t + cross(a, t)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, v = inputs
        ctx.save_for_backward(q, v)

    @staticmethod
    def backward(ctx, g):
        q, v = ctx.saved_tensors
        length = q.norm(dim=-1, keepdim=True)
        u = q / length
        w, a = u[:, :1], u[:, 1:]

        # y = v + 2 w (a x v) + 2 a (a.v) - 2 v (a.a)
        g_w = 2 * dot(g, cross(a, v))
        g_a = 2 * w * cross(v, g) + 2 * (g * dot(a, v) + v * dot(a, g) - 2 * a * dot(v, g))
        g_u = torch.cat([g_w, g_a], dim=-1)
        g_q = g_u / length

        # inverse rotation: conjugate quaternion
        t = -2 * cross(a, g)
        g_v = g + w * t - cross(a, t)
        return g_q, g_v


def inputs():
    torch.manual_seed(8)
    return torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)


def reference(q, v):
    w, x, y, z = torch.nn.functional.normalize(q, dim=-1).unbind(-1)
    R = torch.stack([
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1).reshape(-1, 3, 3)
    return (R @ v.unsqueeze(-1)).squeeze(-1)

# %% rotate2d_1
"""The angles come in as (B, 1) but their gradient is summed over the points without keepdim, so that it has shape (B,)."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_angle = (gy * rx - gx * ry).sum(dim=-1)"]
RIGHT = ["grad_angle = (gy * rx - gx * ry).sum(dim=-1, keepdim=True)"]
NAME = "Rotate2D"
# --- code
import torch
from torch.autograd import Function


class Rotate2D(Function):
    """Rotate B point clouds (B, N, 2), each by its own angle (B, 1), counterclockwise."""

    @staticmethod
    def forward(ctx, points, angle):
        c, s = angle.cos(), angle.sin()         # (B, 1), broadcasts over the N points
        px, py = points[..., 0], points[..., 1]
        rotated = torch.stack([c * px - s * py, s * px + c * py], dim=-1)
        ctx.save_for_backward(angle, rotated)
        return rotated

    @staticmethod
    def backward(ctx, grad):
        angle, rotated = ctx.saved_tensors
        c, s = angle.cos(), angle.sin()
        gx, gy = grad.unbind(-1)
        # transpose = rotation by -angle
        grad_points = torch.stack([c * gx + s * gy, c * gy - s * gx], dim=-1)
        # d(rotated)/d(angle) is the rotated point turned by another 90 degrees: (-y, x)
        rx, ry = rotated.unbind(-1)
        grad_angle = (gy * rx - gx * ry).sum(dim=-1)
        return grad_points, grad_angle


def inputs():
    torch.manual_seed(9)
    return torch.randn(3, 5, 2), torch.rand(3, 1) * 6


def reference(points, angle):
    z = torch.complex(points[..., 0], points[..., 1]) * torch.exp(1j * angle)
    return torch.view_as_real(z)

# %% smoothing_1
"""The derivative with respect to alpha uses the filter's current output y_t, though the recursion multiplies (1 - alpha) with the previous one y_{t-1}; off by one step."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_alpha = (adjoint * (x - y)).sum()"]
RIGHT = ["y_prev = torch.cat([torch.zeros_like(y[:, :1]), y[:, :-1]], dim=1)", "grad_alpha = (adjoint * (x - y_prev)).sum()"]
NAME = "ExponentialSmoothing"
# --- code
import torch
from torch.autograd import Function


class ExponentialSmoothing(Function):
    """y_t = alpha * x_t + (1 - alpha) * y_{t-1},  y_{-1} = 0;  x has shape (channels, time), alpha is a scalar."""

    @staticmethod
    def forward(ctx, x, alpha):
        state = torch.zeros_like(x[:, 0])
        frames = []
        for t in range(x.shape[1]):
            state = alpha * x[:, t] + (1 - alpha) * state
            frames.append(state)
        y = torch.stack(frames, dim=1)
        ctx.save_for_backward(x, alpha, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, alpha, y = ctx.saved_tensors
        steps = x.shape[1]
        # adjoint recursion runs backward in time
        lam = torch.zeros_like(x[:, 0])
        adjoint = [None] * steps
        for t in reversed(range(steps)):
            lam = grad_y[:, t] + (1 - alpha) * lam
            adjoint[t] = lam
        adjoint = torch.stack(adjoint, dim=1)

        grad_x = alpha * adjoint
        grad_alpha = (adjoint * (x - y)).sum()
        return grad_x, grad_alpha


def inputs():
    torch.manual_seed(4)
    return torch.randn(2, 6), torch.tensor(0.3)


def reference(x, alpha):
    out = [alpha * x[:, 0]]
    for t in range(1, x.shape[1]):
        out.append(out[-1] + alpha * (x[:, t] - out[-1]))
    return torch.stack(out, 1)

# %% stencil_1
"""The author believes that every finite-difference stencil is its own adjoint, as the Laplacian is; the first derivative is antisymmetric, so the gradient has the wrong sign."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return central4(g, ctx.h), None"]
RIGHT = ["return -central4(g, ctx.h), None"]
NAME = "PeriodicDerivative"
# --- code
import torch


def central4(u, h):
    # fourth order: (u[i-2] - 8 u[i-1] + 8 u[i+1] - u[i+2]) / 12h
    m2, m1 = torch.roll(u, 2, -1), torch.roll(u, 1, -1)
    p1, p2 = torch.roll(u, -1, -1), torch.roll(u, -2, -1)
    return (m2 - 8 * m1 + 8 * p1 - p2) / (12 * h)


class PeriodicDerivative(torch.autograd.Function):

    @staticmethod
    def forward(u, h):
        return central4(u, h)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.h = inputs

    @staticmethod
    def backward(ctx, g):
        # linear operator: apply its transpose, nothing needs saving
        return central4(g, ctx.h), None


def inputs():
    torch.manual_seed(6)
    return torch.randn(2, 9), 0.5


def reference(u, h):
    d1 = (u.roll(-1, -1) - u.roll(1, -1)) / (2 * h)
    d2 = (u.roll(-2, -1) - u.roll(2, -1)) / (4 * h)
    return (4 * d1 - d2) / 3

# %% thirdmoment_1
"""Treats the mean inside the third central moment as a constant, as one may for the variance, where its contribution vanishes; here it does not."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["dm3 = 3 * d2 / n    # the deviations sum to zero, so the mean drops out"]
RIGHT = ["dm3 = 3 * (d2 - d2.mean(-1, keepdim=True)) / n"]
NAME = "ThirdCentralMoment"
# --- code
import torch
from torch.autograd import Function


class ThirdCentralMoment(Function):
    """mean((x - mean(x))^3) over the last dimension."""

    @staticmethod
    def forward(x):
        return (x - x.mean(-1, keepdim=True)).pow(3).mean(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        n = x.shape[-1]
        d = x - x.mean(-1, keepdim=True)
        d2 = d * d
        dm3 = 3 * d2 / n    # the deviations sum to zero, so the mean drops out
        return grad.unsqueeze(-1) * dm3


def inputs():
    torch.manual_seed(14)
    return (torch.randn(3, 6),)


def reference(x):
    m = x.mean(-1)
    return (x ** 3).mean(-1) - 3 * m * (x ** 2).mean(-1) + 2 * m ** 3

# %% vonmises_1
"""Mixes the scaled Bessel function i1e with the unscaled i0 in the ratio I1/I0: the exponential factors no longer cancel."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["bessel_ratio = torch.special.i1e(kappa) / torch.special.i0(kappa)   # I1 / I0"]
RIGHT = ["bessel_ratio = torch.special.i1e(kappa) / torch.special.i0e(kappa)   # I1 / I0"]
NAME = "VonMisesLogProb"
# --- code
import math

import torch
from torch.autograd import Function


class VonMisesLogProb(Function):
    """log p(x | mu, kappa) = kappa cos(x - mu) - log(2 pi I0(kappa)), elementwise, all of one shape."""

    @staticmethod
    def forward(x, mu, kappa):
        # i0e(k) = exp(-k) I0(k) does not overflow for large kappa
        log_i0 = torch.log(torch.special.i0e(kappa)) + kappa
        return kappa * torch.cos(x - mu) - math.log(2 * math.pi) - log_i0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, mu, kappa = ctx.saved_tensors
        delta = x - mu
        g_mu = grad * kappa * torch.sin(delta)
        g_x = -g_mu
        bessel_ratio = torch.special.i1e(kappa) / torch.special.i0(kappa)   # I1 / I0
        g_kappa = grad * (torch.cos(delta) - bessel_ratio)
        return g_x, g_mu, g_kappa


def inputs():
    torch.manual_seed(10)
    x = torch.rand(5, dtype=torch.float64) * 6 - 3
    mu = torch.rand(5, dtype=torch.float64)
    kappa = torch.rand(5, dtype=torch.float64) * 3 + 0.5
    return x, mu, kappa


def reference(x, mu, kappa):
    return kappa * torch.cos(x - mu) - torch.log(2 * math.pi * torch.special.i0(kappa))
