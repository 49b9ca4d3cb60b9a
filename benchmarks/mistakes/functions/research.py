"""Mistakes: held out, research code. Each cell is a separate module; see benchmarks/repairs.py."""

# %% linear_solve
"""The gradient of A is the outer product the wrong way round: it must be the adjoint times the solution, -outer(lam, x), and not its transpose."""
WRONG = ["grad_a = -torch.outer(x, lam)"]
RIGHT = ["grad_a = -torch.outer(lam, x)"]
NAME = "DenseSolve"
# --- code
import torch
from torch.autograd import Function


class DenseSolve(Function):
    """x with A x = b, for one right-hand side."""

    @staticmethod
    def forward(a, b):
        return torch.linalg.solve(a, b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, _ = inputs
        ctx.save_for_backward(a, output)

    @staticmethod
    def backward(ctx, grad_x):
        a, x = ctx.saved_tensors
        lam = torch.linalg.solve(a.mT, grad_x)
        grad_a = -torch.outer(x, lam)
        return grad_a, lam


def inputs():
    torch.manual_seed(0)
    a = torch.randn(4, 4, dtype=torch.float64) + 4 * torch.eye(4, dtype=torch.float64)
    return a, torch.randn(4, dtype=torch.float64)


def reference(a, b):
    return torch.linalg.inv(a) @ b

# %% logdet_batch
"""The gradient of each log determinant must be broadcast over its own matrix, grad[:, None, None]; without it the batch of 3 is silently lined up with the columns of the 3 x 3 matrices."""
WRONG = ["return grad * torch.cholesky_inverse(chol), None"]
RIGHT = ["return grad[:, None, None] * torch.cholesky_inverse(chol), None"]
NAME = "LogDetKernel"
# --- code
import torch
from torch.autograd import Function


def jittered_cholesky(kernel, jitter):
    eye = torch.eye(kernel.shape[-1], dtype=kernel.dtype, device=kernel.device)
    symmetric = (kernel + kernel.mT) / 2
    return torch.linalg.cholesky(symmetric + jitter * eye)


class LogDetKernel(Function):
    """log det(K + jitter I) for a batch of kernel matrices, (B, n, n) to (B,)."""

    @staticmethod
    def forward(ctx, kernel, jitter):
        chol = jittered_cholesky(kernel, jitter)
        ctx.save_for_backward(kernel)
        ctx.jitter = jitter
        return 2 * chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @staticmethod
    def backward(ctx, grad):
        (kernel,) = ctx.saved_tensors
        chol = jittered_cholesky(kernel, ctx.jitter)
        return grad * torch.cholesky_inverse(chol), None


def inputs():
    torch.manual_seed(1)
    x = torch.randn(3, 3, 5, dtype=torch.float64)
    return x @ x.mT / 5 + 0.5 * torch.eye(3, dtype=torch.float64), 1e-3


def reference(kernel, jitter):
    eye = torch.eye(kernel.shape[-1], dtype=kernel.dtype)
    return torch.logdet((kernel + kernel.mT) / 2 + jitter * eye)

# %% matrix_exponential
"""On the diagonal of the divided differences the limit is exp(w), the derivative, and not 1."""
WRONG = ["quotient = torch.where(same, torch.ones_like(gap), quotient)"]
RIGHT = ["quotient = torch.where(same, w.exp().unsqueeze(-1).expand_as(gap), quotient)"]
NAME = "SymmetricExp"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class SymmetricExp(Function):
    """exp of the symmetric part of a matrix, through its eigenvalues (Daleckii-Krein)."""

    @staticmethod
    def forward(ctx, a):
        w, v = torch.linalg.eigh((a + a.mT) / 2)
        ctx.save_for_backward(w, v)
        return (v * w.exp()) @ v.mT

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        w, v = ctx.saved_tensors
        gap = w.unsqueeze(-1) - w.unsqueeze(-2)
        same = gap.abs() < 1e-9
        quotient = (w.exp().unsqueeze(-1) - w.exp().unsqueeze(-2)) / gap.masked_fill(same, 1)
        quotient = torch.where(same, torch.ones_like(gap), quotient)
        inner = v.mT @ grad @ v
        full = v @ (quotient * inner) @ v.mT
        return (full + full.mT) / 2


def inputs():
    torch.manual_seed(2)
    return (torch.randn(4, 4, dtype=torch.float64),)


def reference(a):
    return torch.linalg.matrix_exp((a + a.mT) / 2)

# %% column_space
"""A appears twice in the projector A (AᵀA)⁻¹ Aᵀ; the gradient lacks the term that the residual contributes, outer(b - y, A⁺ g)."""
WRONG = ["grad_a = torch.outer(grad - a @ z, coef)"]
RIGHT = ["grad_a = torch.outer(grad - a @ z, coef) + torch.outer(b - a @ coef, z)"]
NAME = "ColumnSpaceProjection"
# --- code
import torch
from torch.autograd import Function


def least_squares(a, b):
    return torch.linalg.solve(a.mT @ a, a.mT @ b)


class ColumnSpaceProjection(Function):
    """Orthogonal projection of b on the span of the columns of A."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ least_squares(a, b)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        coef = least_squares(a, b)
        z = least_squares(a, grad)
        # the projector is symmetric and idempotent
        grad_b = a @ z
        grad_a = torch.outer(grad - a @ z, coef)
        return grad_a, grad_b


def inputs():
    torch.manual_seed(3)
    return torch.randn(6, 3, dtype=torch.float64), torch.randn(6, dtype=torch.float64)


def reference(a, b):
    return a @ (torch.linalg.pinv(a) @ b)

# %% mvn_log_prob
"""forward reads only the lower triangle of the factor, so the gradient above the diagonal is zero: the outer product must be cut with tril()."""
WRONG = ["grad_chol = (grad[:, None] * w).mT @ z"]
RIGHT = ["grad_chol = ((grad[:, None] * w).mT @ z).tril()"]
NAME = "GaussianLogProb"
# --- code
import math

import torch
from torch.autograd import Function


def whiten(x, mean, chol):
    return torch.linalg.solve_triangular(chol, (x - mean).mT, upper=False).mT


class GaussianLogProb(Function):
    """log N(x; mean, L Lᵀ) for x: (N, d), mean: (d,), L: (d, d) lower triangular."""

    @staticmethod
    def forward(ctx, x, mean, chol):
        z = whiten(x, mean, chol)
        ctx.save_for_backward(x, mean, chol)
        log_det = chol.diagonal().log().sum()
        return -0.5 * (z * z).sum(-1) - log_det - 0.5 * x.shape[1] * math.log(2 * math.pi)

    @staticmethod
    def backward(ctx, grad):
        x, mean, chol = ctx.saved_tensors
        z = whiten(x, mean, chol)
        # w = L^-T z
        w = torch.linalg.solve_triangular(chol.mT, z.mT, upper=True).mT
        grad_x = -grad[:, None] * w
        grad_chol = (grad[:, None] * w).mT @ z
        grad_chol = grad_chol - torch.diag(grad.sum() / chol.diagonal())
        return grad_x, -grad_x.sum(0), grad_chol


def inputs():
    torch.manual_seed(4)
    chol = (0.3 * torch.randn(3, 3, dtype=torch.float64)).tril(-1) + torch.diag(
        torch.tensor([1.0, 0.8, 1.4], dtype=torch.float64)
    )
    return torch.randn(5, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64), chol


def reference(x, mean, chol):
    return torch.distributions.MultivariateNormal(mean, scale_tril=chol.tril()).log_prob(x)

# %% weighted_least_squares
"""The residual sum of squares is returned only for logging, but it is not marked as non-differentiable, so a loss that uses it silently gets no gradient."""
WRONG = ["ctx.save_for_backward(design, y, weight, coef)"]
RIGHT = ["ctx.save_for_backward(design, y, weight, coef)\n        ctx.mark_non_differentiable(rss)"]
NAME = "WeightedLeastSquares"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class WeightedLeastSquares(Function):
    """Coefficients of a weighted regression, and the residual sum of squares to log."""

    @staticmethod
    def forward(ctx, design, y, weight):
        weighted = design * weight[:, None]
        coef = torch.linalg.solve(weighted.mT @ design, weighted.mT @ y)
        rss = (weight * (y - design @ coef) ** 2).sum()
        ctx.save_for_backward(design, y, weight, coef)
        return coef, rss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_coef, _grad_rss):
        design, y, weight, coef = ctx.saved_tensors
        normal = (design * weight[:, None]).mT @ design
        z = torch.linalg.solve(normal, grad_coef)
        fitted_z = design @ z
        residual = y - design @ coef
        grad_design = torch.outer(weight * residual, z) - torch.outer(weight * fitted_z, coef)
        return grad_design, weight * fitted_z, fitted_z * residual


def inputs():
    torch.manual_seed(5)
    return (
        torch.randn(7, 3, dtype=torch.float64),
        torch.randn(7, dtype=torch.float64),
        torch.rand(7, dtype=torch.float64) + 0.5,
    )


def reference(design, y, weight):
    root = weight.sqrt()
    coef = torch.linalg.pinv(design * root[:, None]) @ (y * root)
    return coef, (weight * (y - design @ coef) ** 2).sum().detach()

# %% log_barrier
"""The slack is computed in forward, where nothing is recorded, so a second derivative takes it for a constant; it must be computed again in backward from x."""
WRONG = ["ctx.save_for_backward(a, x, slack)", "a, x, slack = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(a, x, b)", "a, x, b = ctx.saved_tensors\n        slack = b - a @ x"]
NAME = "LogBarrier"
# --- code
import torch
from torch.autograd import Function


class LogBarrier(Function):
    """-sum log(b - A x), for a Newton method that needs its Hessian."""

    @staticmethod
    def forward(ctx, a, b, x):
        slack = b - a @ x
        ctx.save_for_backward(a, x, slack)
        return -slack.log().sum()

    @staticmethod
    def backward(ctx, grad):
        a, x, slack = ctx.saved_tensors
        grad_slack = -grad / slack
        return -torch.outer(grad_slack, x), grad_slack, -(a.mT @ grad_slack)


def inputs():
    torch.manual_seed(6)
    a = torch.randn(5, 3, dtype=torch.float64)
    x = 0.3 * torch.randn(3, dtype=torch.float64)
    return a, a @ x + 0.5 + torch.rand(5, dtype=torch.float64), x


def reference(a, b, x):
    return -torch.log(b - a @ x).sum()

# %% tridiagonal
"""The buffer of the solution is allocated in the default dtype, so a float64 system is solved into float32."""
WRONG = ["x = torch.zeros(rhs.shape[0], device=rhs.device)"]
RIGHT = ["x = torch.zeros_like(rhs)"]
NAME = "TridiagonalSolve"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def thomas(lower, diag, upper, rhs):
    """lower[i] is A[i + 1, i], and upper[i] is A[i, i + 1]."""
    n = diag.shape[0]
    pivot, reduced = [diag[0]], [rhs[0]]
    for i in range(1, n):
        factor = lower[i - 1] / pivot[-1]
        pivot.append(diag[i] - factor * upper[i - 1])
        reduced.append(rhs[i] - factor * reduced[-1])
    x = torch.zeros(rhs.shape[0], device=rhs.device)
    x[n - 1] = reduced[n - 1] / pivot[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = (reduced[i] - upper[i] * x[i + 1]) / pivot[i]
    return x


class TridiagonalSolve(Function):
    """An implicit diffusion step: solves a tridiagonal system with the Thomas algorithm."""

    @staticmethod
    def forward(ctx, lower, diag, upper, rhs):
        x = thomas(lower, diag, upper, rhs)
        ctx.save_for_backward(lower, diag, upper, x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_x):
        lower, diag, upper, x = ctx.saved_tensors
        adjoint = thomas(upper, diag, lower, grad_x)
        grad_lower = -adjoint[1:] * x[:-1]
        grad_upper = -adjoint[:-1] * x[1:]
        return grad_lower, -adjoint * x, grad_upper, adjoint


def inputs():
    torch.manual_seed(7)
    return (
        torch.randn(4, dtype=torch.float64),
        torch.rand(5, dtype=torch.float64) + 3,
        torch.randn(4, dtype=torch.float64),
        torch.randn(5, dtype=torch.float64),
    )


def reference(lower, diag, upper, rhs):
    matrix = torch.diag(lower, -1) + torch.diag(diag) + torch.diag(upper, 1)
    return torch.linalg.solve(matrix, rhs)

# %% gumbel_softmax
"""backward draws new Gumbel noise for the gradient of the temperature; it must use the noise of forward."""
WRONG = ["ctx.save_for_backward(logits, tau, sample)", "logits, tau, sample = ctx.saved_tensors", "perturbed = logits + gumbel_like(logits)"]
RIGHT = ["ctx.save_for_backward(logits, tau, noise)", "logits, tau, noise = ctx.saved_tensors", "perturbed = logits + noise\n        sample = (perturbed / tau).softmax(-1)"]
NAME = "RelaxedCategorical"
# --- code
import torch
from torch.autograd import Function


def gumbel_like(logits):
    return -(-torch.rand_like(logits).clamp(1e-9, 1 - 1e-9).log()).log()


class RelaxedCategorical(Function):
    """A Gumbel-softmax sample with a learned temperature (a scalar)."""

    @staticmethod
    def forward(ctx, logits, tau):
        noise = gumbel_like(logits)
        sample = ((logits + noise) / tau).softmax(-1)
        ctx.save_for_backward(logits, tau, sample)
        return sample

    @staticmethod
    def backward(ctx, grad):
        logits, tau, sample = ctx.saved_tensors
        perturbed = logits + gumbel_like(logits)
        grad_scaled = sample * (grad - (grad * sample).sum(-1, keepdim=True))
        grad_tau = -(grad_scaled * perturbed).sum() / tau**2
        return grad_scaled / tau, grad_tau


def inputs():
    torch.manual_seed(8)
    return torch.randn(3, 4, dtype=torch.float64), torch.tensor(0.9, dtype=torch.float64)


def reference(logits, tau):
    noise = -(-torch.rand_like(logits).clamp(1e-9, 1 - 1e-9).log()).log()
    return torch.softmax((logits + noise) / tau, -1)

# %% truncated_normal
"""The bounds move with sigma as -alpha/sigma and -beta/sigma, so the gradient of log Z with respect to sigma needs the factors beta and alpha in front of the two densities."""
WRONG = ["dlogz_dsigma = -(density(beta) - density(alpha)) / (mass * sigma)"]
RIGHT = ["dlogz_dsigma = -(beta * density(beta) - alpha * density(alpha)) / (mass * sigma)"]
NAME = "TruncatedNormalLogProb"
# --- code
import math

import torch
from torch.autograd import Function


def density(z):
    return torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def standardized_bounds(mu, sigma, low, high):
    alpha = (low - mu) / sigma
    beta = (high - mu) / sigma
    return alpha, beta, torch.special.ndtr(beta) - torch.special.ndtr(alpha)


class TruncatedNormalLogProb(Function):
    """log density of a normal truncated to [low, high]; x, mu, sigma of one shape."""

    @staticmethod
    def forward(ctx, x, mu, sigma, low, high):
        _, _, mass = standardized_bounds(mu, sigma, low, high)
        ctx.save_for_backward(x, mu, sigma)
        ctx.bounds = low, high
        return density((x - mu) / sigma).log() - sigma.log() - mass.log()

    @staticmethod
    def backward(ctx, grad):
        x, mu, sigma = ctx.saved_tensors
        alpha, beta, mass = standardized_bounds(mu, sigma, *ctx.bounds)
        z = (x - mu) / sigma
        dlogz_dmu = -(density(beta) - density(alpha)) / (mass * sigma)
        dlogz_dsigma = -(density(beta) - density(alpha)) / (mass * sigma)
        grad_mu = grad * (z / sigma - dlogz_dmu)
        grad_sigma = grad * ((z * z - 1) / sigma - dlogz_dsigma)
        return -grad * z / sigma, grad_mu, grad_sigma, None, None


def inputs():
    torch.manual_seed(9)
    return (
        torch.rand(5, dtype=torch.float64) * 2 - 0.8,
        0.4 * torch.randn(5, dtype=torch.float64),
        torch.rand(5, dtype=torch.float64) + 0.6,
        -1.0,
        2.0,
    )


def reference(x, mu, sigma, low, high):
    normal = torch.distributions.Normal(mu, sigma)
    mass = normal.cdf(torch.tensor(high, dtype=x.dtype)) - normal.cdf(torch.tensor(low, dtype=x.dtype))
    return normal.log_prob(x) - mass.log()

# %% spectral_gain
"""A half spectrum holds every interior bin for two, itself and its mirror image, so the gradient of the gain counts these bins twice; here they count once."""
WRONG = ["weight = torch.ones_like(gain)"]
RIGHT = ["weight = torch.full_like(gain, 2.0)\n        weight[0] = 1.0\n        weight[-1] = 1.0"]
NAME = "SpectralGain"
# --- code
import torch
from torch.autograd import Function


class SpectralGain(Function):
    """Filters real signals (B, n), n even, with a real gain for each of the n/2 + 1 bins."""

    @staticmethod
    def forward(ctx, x, gain):
        n = x.shape[-1]
        ctx.save_for_backward(x, gain)
        return torch.fft.irfft(torch.fft.rfft(x) * gain, n=n)

    @staticmethod
    def backward(ctx, grad):
        x, gain = ctx.saved_tensors
        n = x.shape[-1]
        grad_spectrum = torch.fft.rfft(grad)
        grad_x = torch.fft.irfft(grad_spectrum * gain, n=n)
        weight = torch.ones_like(gain)
        overlap = (torch.fft.rfft(x).conj() * grad_spectrum).real
        grad_gain = (weight * overlap / n).sum(0)
        return grad_x, grad_gain


def inputs():
    torch.manual_seed(10)
    return torch.randn(2, 8, dtype=torch.float64), torch.rand(5, dtype=torch.float64)


def reference(x, gain):
    full = torch.cat([gain, gain[1:-1].flip(0)])
    return torch.fft.ifft(torch.fft.fft(x) * full).real

# %% leaky_integrator
"""Two slips: the gradient of the decay uses the state after each step and not before it, and the gradient of the initial state lacks the decay of the first step."""
WRONG = ["grad_decay = (adjoint * (states - x)).sum()", "grad_start = adjoint[0]"]
RIGHT = ["grad_decay = (adjoint * (torch.cat([start.reshape(1), states[:-1]]) - x)).sum()", "grad_start = decay * adjoint[0]"]
NAME = "LeakyIntegrator"
# --- code
import torch
from torch.autograd import Function


class LeakyIntegrator(Function):
    """s[t] = a s[t-1] + (1 - a) x[t], from the state `start`."""

    @staticmethod
    def forward(ctx, x, decay, start):
        state, states = start, []
        for value in x:
            state = decay * state + (1 - decay) * value
            states.append(state)
        output = torch.stack(states)
        ctx.save_for_backward(x, decay, start, output)
        return output

    @staticmethod
    def backward(ctx, grad):
        x, decay, start, states = ctx.saved_tensors
        carry, collected = torch.zeros_like(start), []
        for g in grad.flip(0):
            carry = g + decay * carry
            collected.append(carry)
        adjoint = torch.stack(collected[::-1])
        grad_decay = (adjoint * (states - x)).sum()
        grad_start = adjoint[0]
        return (1 - decay) * adjoint, grad_decay, grad_start


def inputs():
    torch.manual_seed(11)
    return (
        torch.randn(6, dtype=torch.float64),
        torch.tensor(0.7, dtype=torch.float64),
        torch.tensor(0.4, dtype=torch.float64),
    )


def reference(x, decay, start):
    state, states = start, []
    for value in x:
        state = decay * state + (1 - decay) * value
        states.append(state)
    return torch.stack(states)

# %% impedance
"""The gradient of a real parameter of a complex output is Re(conj(dZ/dL) g); the conjugate is forgotten for the inductance."""
WRONG = ["grad_l = (1j * omega * grad).real.sum()"]
RIGHT = ["grad_l = ((1j * omega).conj() * grad).real.sum()"]
NAME = "SeriesImpedance"
# --- code
import torch
from torch.autograd import Function


class SeriesImpedance(Function):
    """Z(omega) = R + i omega L + 1 / (i omega C) at several frequencies."""

    @staticmethod
    def forward(ctx, resistance, inductance, capacitance, omega):
        ctx.save_for_backward(capacitance, omega)
        return resistance + 1j * omega * inductance + 1 / (1j * omega * capacitance)

    @staticmethod
    def backward(ctx, grad):
        capacitance, omega = ctx.saved_tensors
        grad_r = grad.real.sum()
        grad_l = (1j * omega * grad).real.sum()
        dz_dc = -1 / (1j * omega * capacitance**2)
        grad_c = (dz_dc.conj() * grad).real.sum()
        return grad_r, grad_l, grad_c, None


def inputs():
    omega = torch.linspace(0.5, 3.0, 5, dtype=torch.float64)
    values = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (1.5, 0.8, 0.6)]
    return *values, omega


def reference(resistance, inductance, capacitance, omega):
    return torch.complex(
        resistance.expand_as(omega), omega * inductance - 1 / (omega * capacitance)
    )

# %% phase_shift
"""The derivative of exp(i phi) brings a factor i, so the gradient of the phase is the imaginary part of conj(y) g and not the real part."""
WRONG = ["grad_phase = (rotated.conj() * grad).real.sum(0)"]
RIGHT = ["grad_phase = (rotated.conj() * grad).imag.sum(0)"]
NAME = "PhaseShift"
# --- code
import torch
from torch.autograd import Function


class PhaseShift(Function):
    """Multiplies complex channels (B, C) by exp(i phase), phase: (C,) and real."""

    @staticmethod
    def forward(signal, phase):
        return signal * torch.polar(torch.ones_like(phase), phase)

    @staticmethod
    def setup_context(ctx, inputs, output):
        signal, phase = inputs
        ctx.save_for_backward(signal, phase)

    @staticmethod
    def backward(ctx, grad):
        signal, phase = ctx.saved_tensors
        turn = torch.polar(torch.ones_like(phase), phase)
        rotated = signal * turn
        grad_phase = (rotated.conj() * grad).real.sum(0)
        return grad * turn.conj(), grad_phase


def inputs():
    torch.manual_seed(12)
    return torch.randn(3, 4, dtype=torch.complex128), torch.randn(4, dtype=torch.float64)


def reference(signal, phase):
    return signal * torch.exp(1j * phase)

# %% decibel
"""Bins below the floor are constant and pass no gradient; the mask for the clamp is forgotten."""
WRONG = ["grad_power = grad * 10 / (math.log(10) * power.clamp(min=ctx.floor))"]
RIGHT = ["grad_power = grad * 10 / (math.log(10) * power.clamp(min=ctx.floor)) * (power > ctx.floor)"]
NAME = "DecibelSpectrum"
# --- code
import math

import torch
from torch.autograd import Function


class DecibelSpectrum(Function):
    """Power spectrum of a real signal in decibels, not lower than that of `floor`."""

    @staticmethod
    def forward(ctx, x, floor):
        power = torch.fft.fft(x).abs() ** 2
        ctx.save_for_backward(x)
        ctx.floor = floor
        return 10 * power.clamp(min=floor).log10()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        spectrum = torch.fft.fft(x)
        power = spectrum.real**2 + spectrum.imag**2
        grad_power = grad * 10 / (math.log(10) * power.clamp(min=ctx.floor))
        # the adjoint of the transform is the inverse times n
        grad_x = torch.fft.ifft(2 * grad_power * spectrum).real * x.shape[-1]
        return grad_x, None


def inputs():
    t = torch.arange(8, dtype=torch.float64)
    x = 1.5 * torch.cos(2 * math.pi * t / 8) + 0.9 * torch.cos(math.pi * t + 0.3) + 0.05 * t
    return x, 0.5


def reference(x, floor):
    spectrum = torch.fft.fft(x)
    power = spectrum.real**2 + spectrum.imag**2
    return 10 * torch.log10(torch.where(power > floor, power, torch.full_like(power, floor)))

# %% windowed_frames
"""backward multiplies the incoming gradient in place, and so changes a tensor that other branches may share."""
WRONG = ["grad.mul_(window)"]
RIGHT = ["grad = grad * window"]
NAME = "WindowedFrames"
# --- code
import torch
from torch.autograd import Function


class WindowedFrames(Function):
    """Cuts a signal into overlapping frames and multiplies each by a learned window."""

    @staticmethod
    def forward(ctx, x, window, hop):
        size = window.shape[0]
        ctx.save_for_backward(x, window)
        ctx.hop = hop
        return x.unfold(0, size, hop) * window

    @staticmethod
    def backward(ctx, grad):
        x, window = ctx.saved_tensors
        size, hop = window.shape[0], ctx.hop
        frames = x.unfold(0, size, hop)
        grad_window = (grad * frames).sum(0)
        grad.mul_(window)
        # overlap-add
        start = torch.arange(frames.shape[0], device=x.device) * hop
        position = start[:, None] + torch.arange(size, device=x.device)
        grad_x = torch.zeros_like(x).index_add(0, position.flatten(), grad.flatten())
        return grad_x, grad_window, None


def inputs():
    torch.manual_seed(13)
    return torch.randn(10, dtype=torch.float64), torch.rand(4, dtype=torch.float64), 2


def reference(x, window, hop):
    size = window.shape[0]
    return torch.stack([x[i : i + size] * window for i in range(0, len(x) - size + 1, hop)])

# %% detrend
"""forward removes the mean in place and does not tell autograd with mark_dirty."""
WRONG = ["traces.sub_(traces.mean(-1, keepdim=True))"]
RIGHT = ["traces.sub_(traces.mean(-1, keepdim=True))\n        ctx.mark_dirty(traces)"]
NAME = "Detrend"
# --- code
import torch
from torch.autograd import Function


class Detrend(Function):
    """Removes the mean of every trace (B, T) in place: the recordings are large."""

    @staticmethod
    def forward(ctx, traces):
        traces.sub_(traces.mean(-1, keepdim=True))
        return traces

    @staticmethod
    def backward(ctx, grad):
        return grad - grad.mean(-1, keepdim=True)


def inputs():
    torch.manual_seed(14)
    return (torch.randn(2, 5, dtype=torch.float64) + 1,)


def reference(traces):
    return traces - traces.mean(-1, keepdim=True)

# %% z_score
"""forward divides by the unbiased standard deviation, so the last term of the gradient is divided by n - 1; mean() divides it by n."""
WRONG = ["inner = (grad * z).mean(-1, keepdim=True)"]
RIGHT = ["inner = (grad * z).sum(-1, keepdim=True) / (x.shape[-1] - 1)"]
NAME = "ZScore"
# --- code
import torch
from torch.autograd import Function


class ZScore(Function):
    """Standardizes every row with its mean and its sample standard deviation."""

    @staticmethod
    def forward(x):
        return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        std = x.std(-1, keepdim=True)
        z = (x - x.mean(-1, keepdim=True)) / std
        inner = (grad * z).mean(-1, keepdim=True)
        return (grad - grad.mean(-1, keepdim=True) - z * inner) / std


def inputs():
    torch.manual_seed(15)
    return (torch.randn(3, 6, dtype=torch.float64),)


def reference(x):
    centered = x - x.mean(-1, keepdim=True)
    return centered / (centered.square().sum(-1, keepdim=True) / (x.shape[-1] - 1)).sqrt()

# %% finite_difference
"""forward has three arguments, but backward returns only two values: the option `periodic`, added later, needs a None as well."""
WRONG = ["return grad_field, None"]
RIGHT = ["return grad_field, None, None"]
NAME = "CentralDifference"
# --- code
import torch
from torch.autograd import Function


class CentralDifference(Function):
    """(f[i+1] - f[i-1]) / 2h along the last dimension."""

    @staticmethod
    def forward(ctx, field, spacing, periodic=True):
        ctx.spacing, ctx.periodic, ctx.size = spacing, periodic, field.shape[-1]
        if periodic:
            return (field.roll(-1, -1) - field.roll(1, -1)) / (2 * spacing)
        return (field[..., 2:] - field[..., :-2]) / (2 * spacing)

    @staticmethod
    def backward(ctx, grad):
        scaled = grad / (2 * ctx.spacing)
        if ctx.periodic:
            grad_field = scaled.roll(1, -1) - scaled.roll(-1, -1)
        else:
            pad = torch.nn.functional.pad
            grad_field = pad(scaled, (2, 0)) - pad(scaled, (0, 2))
        return grad_field, None


def inputs():
    torch.manual_seed(16)
    return torch.randn(2, 7, dtype=torch.float64), 0.25, False


def reference(field, spacing, periodic):
    return torch.gradient(field, spacing=spacing, dim=-1)[0][..., 1:-1]

# %% quaternion_rotate
"""forward normalizes the quaternion, but backward returns the gradient of the unit quaternion: the derivative of the normalization (project on the tangent, divide by the length) is missing."""
WRONG = ["grad_quat = grad_unit"]
RIGHT = ["grad_quat = (grad_unit - unit * (unit * grad_unit).sum(-1, keepdim=True)) / quat.norm(dim=-1, keepdim=True)"]
NAME = "QuaternionRotate"
# --- code
import torch
from torch.autograd import Function


def cross(a, b):
    return torch.linalg.cross(a, b, dim=-1)


def rotate(unit, v):
    w, u = unit[..., :1], unit[..., 1:]
    t = 2 * cross(u, v)
    return v + w * t + cross(u, t)


class QuaternionRotate(Function):
    """Rotates points (N, 3) by quaternions (N, 4) of any length, scalar first."""

    @staticmethod
    def forward(ctx, quat, points):
        ctx.save_for_backward(quat, points)
        return rotate(quat / quat.norm(dim=-1, keepdim=True), points)

    @staticmethod
    def backward(ctx, grad):
        quat, v = ctx.saved_tensors
        unit = quat / quat.norm(dim=-1, keepdim=True)
        w, u = unit[..., :1], unit[..., 1:]
        grad_w = 2 * (cross(u, v) * grad).sum(-1, keepdim=True)
        uv = (u * v).sum(-1, keepdim=True)
        ug = (u * grad).sum(-1, keepdim=True)
        vg = (v * grad).sum(-1, keepdim=True)
        grad_u = 2 * w * cross(v, grad) + 2 * (grad * uv + v * ug - 2 * u * vg)
        grad_unit = torch.cat([grad_w, grad_u], -1)
        grad_quat = grad_unit
        inverse = torch.cat([w, -u], -1)
        return grad_quat, rotate(inverse, grad)


def inputs():
    torch.manual_seed(17)
    return torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)


def reference(quat, points):
    w, x, y, z = (quat / quat.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = [
        torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
        torch.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
        torch.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
    ]
    return (torch.stack(rows, -2) @ points.unsqueeze(-1)).squeeze(-1)

# %% pinhole_camera
"""Two slips: the gradient of the depth uses the pixel with the principal point still in it, and the gradient of the focal lengths lacks the division by the depth."""
WRONG = ["grad_z = -(grad * pixel).sum(-1, keepdim=True) / z", "grad_focal = (grad * xy).sum(0)"]
RIGHT = ["grad_z = -(grad * (pixel - center)).sum(-1, keepdim=True) / z", "grad_focal = (grad * xy / z).sum(0)"]
NAME = "PinholeCamera"
# --- code
import torch
from torch.autograd import Function


class PinholeCamera(Function):
    """Projects points (N, 3) in front of the camera to pixels (N, 2)."""

    @staticmethod
    def forward(points, focal, center):
        return focal * points[:, :2] / points[:, 2:] + center

    @staticmethod
    def setup_context(ctx, inputs, output):
        points, focal, center = inputs
        ctx.save_for_backward(points, focal, center, output)

    @staticmethod
    def backward(ctx, grad):
        points, focal, center, pixel = ctx.saved_tensors
        xy, z = points[:, :2], points[:, 2:]
        grad_xy = grad * focal / z
        grad_z = -(grad * pixel).sum(-1, keepdim=True) / z
        grad_focal = (grad * xy).sum(0)
        return torch.cat([grad_xy, grad_z], -1), grad_focal, grad.sum(0)


def inputs():
    torch.manual_seed(18)
    points = torch.randn(4, 3, dtype=torch.float64)
    points[:, 2] = points[:, 2].abs() + 1.5
    return (
        points,
        torch.tensor([1.2, 1.4], dtype=torch.float64),
        torch.tensor([0.5, -0.3], dtype=torch.float64),
    )


def reference(points, focal, center):
    x, y, z = points.unbind(-1)
    return torch.stack([focal[0] * x / z + center[0], focal[1] * y / z + center[1]], -1)

# %% self_distances
"""Every point is in a row and in a column of the distance matrix; the gradient counts only its row and lacks grad.mT."""
WRONG = ["weight = grad / distance"]
RIGHT = ["weight = (grad + grad.mT) / distance"]
NAME = "SelfDistances"
# --- code
import torch
from torch.autograd import Function


def smooth_distance(points, eps):
    diff = points[:, None, :] - points[None, :, :]
    return diff, ((diff * diff).sum(-1) + eps).sqrt()


class SelfDistances(Function):
    """The matrix of smoothed distances between the points of one cloud (N, d)."""

    @staticmethod
    def forward(ctx, points, eps=1e-2):
        _, distance = smooth_distance(points, eps)
        ctx.save_for_backward(points)
        ctx.eps = eps
        return distance

    @staticmethod
    def backward(ctx, grad):
        (points,) = ctx.saved_tensors
        diff, distance = smooth_distance(points, ctx.eps)
        weight = grad / distance
        return (weight[..., None] * diff).sum(1), None


def inputs():
    torch.manual_seed(19)
    return torch.randn(5, 2, dtype=torch.float64), 1e-2


def reference(points, eps):
    square = (points * points).sum(-1)
    squared = square[:, None] + square[None, :] - 2 * points @ points.mT
    return (squared + eps).sqrt()

# %% catmull_rom
"""Several queries fall between the same knots, and += with repeated indices keeps only one of their contributions; it must be index_add_."""
WRONG = ["grad_knots[index] += grad * basis[:, k]"]
RIGHT = ["grad_knots = grad_knots.index_add(0, index, grad * basis[:, k])"]
NAME = "CatmullRom"
# --- code
import torch
from torch.autograd import Function


def locate(t, n):
    cell = t.floor().long().clamp(1, n - 3)
    return cell, t - cell


class CatmullRom(Function):
    """Evaluates a Catmull-Rom spline with values at 0, 1, ..., n-1 at the queries t."""

    @staticmethod
    def forward(ctx, knots, t):
        cell, u = locate(t, len(knots))
        ctx.save_for_backward(knots, t)
        basis = CatmullRom.basis(u)
        return sum(basis[:, k] * knots[cell + k - 1] for k in range(4))

    @staticmethod
    def basis(u):
        return 0.5 * torch.stack(
            [-u + 2 * u**2 - u**3, 2 - 5 * u**2 + 3 * u**3, u + 4 * u**2 - 3 * u**3, u**3 - u**2],
            -1,
        )

    @staticmethod
    def backward(ctx, grad):
        knots, t = ctx.saved_tensors
        cell, u = locate(t, len(knots))
        basis = CatmullRom.basis(u)
        slope = 0.5 * torch.stack(
            [-1 + 4 * u - 3 * u**2, -10 * u + 9 * u**2, 1 + 8 * u - 9 * u**2, 3 * u**2 - 2 * u], -1
        )
        grad_knots, grad_t = torch.zeros_like(knots), torch.zeros_like(t)
        for k in range(4):
            index = cell + k - 1
            grad_knots[index] += grad * basis[:, k]
            grad_t = grad_t + grad * slope[:, k] * knots[index]
        return grad_knots, grad_t


def inputs():
    torch.manual_seed(20)
    t = torch.tensor([1.2, 1.7, 2.4, 3.3, 3.6, 1.4], dtype=torch.float64)
    return torch.randn(6, dtype=torch.float64), t


def reference(knots, t):
    cell = t.floor().long().clamp(1, len(knots) - 3)
    u = t - cell
    a, b, c, d = (knots[cell + k] for k in (-1, 0, 1, 2))
    m, n = (c - a) / 2, (d - b) / 2
    return b + u * (m + u * (3 * (c - b) - 2 * m - n + u * (2 * (b - c) + m + n)))

# %% lens_distortion
"""The coefficients are input 1, but their branch asks needs_input_grad[0]: with fixed points and learned coefficients, they get no gradient."""
WRONG = ["if ctx.needs_input_grad[0]:  # coefficients"]
RIGHT = ["if ctx.needs_input_grad[1]:  # coefficients"]
NAME = "RadialDistortion"
# --- code
import torch
from torch.autograd import Function


class RadialDistortion(Function):
    """p (1 + k1 r² + k2 r⁴) for image points (N, 2) and coefficients (2,)."""

    @staticmethod
    def forward(ctx, points, coefficients):
        ctx.save_for_backward(points, coefficients)
        r2 = (points * points).sum(-1, keepdim=True)
        return points * (1 + coefficients[0] * r2 + coefficients[1] * r2**2)

    @staticmethod
    def backward(ctx, grad):
        points, coefficients = ctx.saved_tensors
        k1, k2 = coefficients
        r2 = (points * points).sum(-1, keepdim=True)
        along = (grad * points).sum(-1, keepdim=True)
        grad_points = grad_coefficients = None
        if ctx.needs_input_grad[0]:  # points
            radial = points * along * (2 * k1 + 4 * k2 * r2)
            grad_points = grad * (1 + k1 * r2 + k2 * r2**2) + radial
        if ctx.needs_input_grad[0]:  # coefficients
            grad_coefficients = torch.stack([(along * r2).sum(), (along * r2**2).sum()])
        return grad_points, grad_coefficients


def inputs():
    torch.manual_seed(21)
    return torch.randn(4, 2, dtype=torch.float64), torch.tensor([0.1, -0.05], dtype=torch.float64)


def reference(points, coefficients):
    r2 = points.square().sum(-1)
    factor = 1 + coefficients[0] * r2 + coefficients[1] * r2.square()
    return torch.einsum("n,nd->nd", factor, points)

# %% lookup_table
"""Two slips: the slope is per cell and lacks the division by the spacing, and queries outside the table are clamped but still get the slope of the last cell."""
WRONG = ["grad_query = grad * (table[cell + 1] - table[cell])"]
RIGHT = ["grad_query = grad * (table[cell + 1] - table[cell]) / ctx.step * ((pos > 0) & (pos < len(table) - 1))"]
NAME = "LookupTable"
# --- code
import torch
from torch.autograd import Function


class LookupTable(Function):
    """Linear interpolation in a table of values at start, start + step, ...; constant outside."""

    @staticmethod
    def forward(ctx, table, query, start, step):
        pos = (query - start) / step
        inside = pos.clamp(0, len(table) - 1)
        cell = inside.floor().long().clamp(max=len(table) - 2)
        frac = inside - cell
        ctx.save_for_backward(table, query)
        ctx.start, ctx.step = start, step
        return (1 - frac) * table[cell] + frac * table[cell + 1]

    @staticmethod
    def backward(ctx, grad):
        table, query = ctx.saved_tensors
        pos = (query - ctx.start) / ctx.step
        inside = pos.clamp(0, len(table) - 1)
        cell = inside.floor().long().clamp(max=len(table) - 2)
        frac = inside - cell
        grad_table = torch.zeros_like(table)
        grad_table = grad_table.index_add(0, cell, grad * (1 - frac))
        grad_table = grad_table.index_add(0, cell + 1, grad * frac)
        grad_query = grad * (table[cell + 1] - table[cell])
        return grad_table, grad_query, None, None


def inputs():
    torch.manual_seed(22)
    query = torch.tensor([-0.3, 0.1, 0.35, 0.55, 0.88, 1.4], dtype=torch.float64)
    return torch.randn(6, dtype=torch.float64), query, 0.0, 0.2


def reference(table, query, start, step):
    nodes = start + step * torch.arange(len(table), dtype=table.dtype)
    hats = (1 - (query.clamp(start, start + step * (len(table) - 1))[:, None] - nodes).abs() / step)
    return hats.clamp(min=0) @ table

# %% leapfrog
"""The second half kick acts at the new angle, so its derivative is cos(q_new); backward uses the old angle q for both kicks."""
WRONG = ["grad_q_new = grad_q_new - half * q.cos() * grad_v_new"]
RIGHT = ["grad_q_new = grad_q_new - half * (q + ctx.dt * (v - half * q.sin())).cos() * grad_v_new"]
NAME = "PendulumLeapfrog"
# --- code
import torch
from torch.autograd import Function


class PendulumLeapfrog(Function):
    """One kick-drift-kick step of q'' = -sin q."""

    @staticmethod
    def forward(ctx, q, v, dt):
        v_half = v - dt / 2 * q.sin()
        q_new = q + dt * v_half
        v_new = v_half - dt / 2 * q_new.sin()
        ctx.save_for_backward(q, v)
        ctx.dt = dt
        return q_new, v_new

    @staticmethod
    def backward(ctx, grad_q_new, grad_v_new):
        q, v = ctx.saved_tensors
        half = ctx.dt / 2
        # kick, drift, kick, from the end
        grad_q_new = grad_q_new - half * q.cos() * grad_v_new
        grad_v = grad_v_new + ctx.dt * grad_q_new
        grad_q = grad_q_new - half * q.cos() * grad_v
        return grad_q, grad_v, None


def inputs():
    torch.manual_seed(23)
    return torch.randn(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64), 0.6


def reference(q, v, dt):
    drift = q + dt * v - dt * dt / 2 * torch.sin(q)
    return drift, v - dt / 2 * (torch.sin(q) + torch.sin(drift))

# %% kepler
"""The implicit derivative must be taken at the solution E; backward evaluates cos and sin at the mean anomaly M, the input."""
WRONG = ["slope = 1 - eccentricity * mean.cos()", "return grad / slope, (grad * mean.sin() / slope).sum()"]
RIGHT = ["slope = 1 - eccentricity * anomaly.cos()", "return grad / slope, (grad * anomaly.sin() / slope).sum()"]
NAME = "KeplerEquation"
# --- code
import torch
from torch.autograd import Function


class KeplerEquation(Function):
    """The eccentric anomaly E with E - e sin E = M, by Newton's method; e is a scalar."""

    @staticmethod
    def forward(ctx, mean, eccentricity):
        anomaly = mean.clone()
        for _ in range(20):
            residual = anomaly - eccentricity * anomaly.sin() - mean
            anomaly = anomaly - residual / (1 - eccentricity * anomaly.cos())
        ctx.save_for_backward(mean, eccentricity, anomaly)
        return anomaly

    @staticmethod
    def backward(ctx, grad):
        mean, eccentricity, anomaly = ctx.saved_tensors
        slope = 1 - eccentricity * mean.cos()
        return grad / slope, (grad * mean.sin() / slope).sum()


def inputs():
    return (
        torch.tensor([0.3, 1.1, 2.0, -0.8], dtype=torch.float64),
        torch.tensor(0.4, dtype=torch.float64),
    )


def reference(mean, eccentricity):
    anomaly = mean
    for _ in range(60):
        anomaly = mean + eccentricity * torch.sin(anomaly)
    return anomaly

# %% volume_rendering
"""A density dims only the samples behind it, so the suffix sum of grad * weight must exclude the sample itself; flip-cumsum-flip includes it."""
WRONG = ["behind = (grad * weight).flip(-1).cumsum(-1).flip(-1)"]
RIGHT = ["behind = (grad * weight).flip(-1).cumsum(-1).flip(-1) - grad * weight"]
NAME = "RenderWeights"
# --- code
import torch
from torch.autograd import Function


def optical(density, length):
    depth = (density * length).cumsum(-1)
    after = torch.exp(-depth)
    before = torch.exp(-(depth - density * length))
    return before, after


class RenderWeights(Function):
    """Weights of the samples of each ray, T_i (1 - exp(-density_i length_i)), all (rays, n)."""

    @staticmethod
    def forward(ctx, density, length):
        before, after = optical(density, length)
        ctx.save_for_backward(density, length)
        return before - after

    @staticmethod
    def backward(ctx, grad):
        density, length = ctx.saved_tensors
        before, after = optical(density, length)
        weight = before - after
        behind = (grad * weight).flip(-1).cumsum(-1).flip(-1)
        grad_depth = grad * after - behind
        return grad_depth * length, grad_depth * density


def inputs():
    torch.manual_seed(24)
    return torch.rand(2, 5, dtype=torch.float64) + 0.2, torch.rand(2, 5, dtype=torch.float64) + 0.3


def reference(density, length):
    keep = torch.exp(-density * length)
    seen = torch.cumprod(torch.cat([torch.ones_like(keep[:, :1]), keep[:, :-1]], -1), -1)
    return seen * (1 - keep)

# %% euler_checkpoint
"""The trajectory is computed again in backward, but without the step size: it takes the default dt of the helper."""
WRONG = ["end = integrate(state, rates, ctx.steps)"]
RIGHT = ["end = integrate(state, rates, ctx.steps, ctx.dt)"]
NAME = "EulerFlow"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def integrate(state, rates, steps, dt=0.1):
    for _ in range(steps):
        state = state + dt * torch.tanh(state @ rates)
    return state


class EulerFlow(Function):
    """Integrates y' = tanh(y W) and keeps nothing of the trajectory."""

    @staticmethod
    def forward(ctx, state, rates, steps, dt):
        ctx.save_for_backward(state, rates)
        ctx.steps, ctx.dt = steps, dt
        return integrate(state, rates, steps, dt)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        state, rates = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            end = integrate(state, rates, ctx.steps)
        grad_state, grad_rates = torch.autograd.grad(end, (state, rates), grad)
        return grad_state, grad_rates, None, None


def inputs():
    torch.manual_seed(25)
    return torch.randn(3, 2, dtype=torch.float64), torch.randn(2, 2, dtype=torch.float64), 4, 0.25


def reference(state, rates, steps, dt):
    for _ in range(steps):
        state = state + dt * torch.tanh(torch.einsum("bi,ij->bj", state, rates))
    return state

# %% simplex_projection
"""The mean of the gradient must be taken over the support of the projection, not over all elements."""
WRONG = ["center = (grad * support).mean(-1, keepdim=True)"]
RIGHT = ["center = (grad * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)"]
NAME = "SimplexProjection"
# --- code
import torch
from torch.autograd import Function


class SimplexProjection(Function):
    """Euclidean projection of every row on the probability simplex (sparsemax)."""

    @staticmethod
    def forward(ctx, scores):
        ordered = scores.sort(-1, descending=True).values
        rank = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        excess = ordered.cumsum(-1) - 1
        size = (ordered * rank > excess).sum(-1, keepdim=True)
        threshold = excess.gather(-1, size - 1) / size
        projected = (scores - threshold).clamp(min=0)
        ctx.save_for_backward(projected)
        return projected

    @staticmethod
    def backward(ctx, grad):
        (projected,) = ctx.saved_tensors
        support = (projected > 0).to(grad.dtype)
        center = (grad * support).mean(-1, keepdim=True)
        return support * (grad - center)


def inputs():
    return (
        torch.tensor(
            [[0.9, 0.3, -0.8, 0.5], [0.2, 1.0, 0.35, -0.9], [0.3, 0.25, 0.4, 0.2]],
            dtype=torch.float64,
        ),
    )


def reference(scores):
    with torch.no_grad():
        low, high = scores.amin(-1, keepdim=True) - 1, scores.amax(-1, keepdim=True)
        for _ in range(80):
            middle = (low + high) / 2
            above = (scores - middle).clamp(min=0).sum(-1, keepdim=True) > 1
            low, high = torch.where(above, middle, low), torch.where(above, high, middle)
        support = scores > low
    threshold = ((scores * support).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
    return torch.where(support, scores - threshold, torch.zeros_like(scores))

# %% soft_threshold
"""Two slips: the gradient of the threshold lacks the sign of x, and it is summed over the features and not over the batch (both are 4 here)."""
WRONG = ["grad_lam = -(grad * active).sum(-1)"]
RIGHT = ["grad_lam = -(grad * active * x.sign()).sum(0)"]
NAME = "SoftThreshold"
# --- code
import torch
from torch.autograd import Function


class SoftThreshold(Function):
    """The proximal operator of the l1 norm, x: (B, n), with a threshold for each feature (n,)."""

    @staticmethod
    def forward(ctx, x, lam):
        ctx.save_for_backward(x, lam)
        return x.sign() * (x.abs() - lam).clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        x, lam = ctx.saved_tensors
        active = (x.abs() > lam).to(grad.dtype)
        grad_lam = -(grad * active).sum(-1)
        return grad * active, grad_lam


def inputs():
    torch.manual_seed(26)
    return (
        torch.randn(4, 4, dtype=torch.float64),
        torch.tensor([0.3, 0.5, 0.2, 0.4], dtype=torch.float64),
    )


def reference(x, lam):
    return torch.relu(x - lam) - torch.relu(-x - lam)

# %% sorted_l1
"""The gradient of a sorted quantity goes back to its place with scatter; gather applies the permutation a second time."""
WRONG = ["weight_of_element = weights.gather(0, order)"]
RIGHT = ["weight_of_element = torch.zeros_like(weights).scatter(0, order, weights)"]
NAME = "SortedL1"
# --- code
import torch
from torch.autograd import Function


class SortedL1(Function):
    """The SLOPE penalty: the largest magnitude gets the first weight, and so on."""

    @staticmethod
    def forward(ctx, x, weights):
        ctx.save_for_backward(x, weights)
        return (weights * x.abs().sort(descending=True).values).sum()

    @staticmethod
    def backward(ctx, grad):
        x, weights = ctx.saved_tensors
        ordered, order = x.abs().sort(descending=True)
        weight_of_element = weights.gather(0, order)
        return grad * weight_of_element * x.sign(), grad * ordered


def inputs():
    x = torch.tensor([0.9, -1.7, 0.5, 2.4, -0.2], dtype=torch.float64)
    return x, torch.tensor([2.0, 1.6, 1.1, 0.7, 0.4], dtype=torch.float64)


def reference(x, weights):
    return x.abs().topk(len(x)).values @ weights

# %% group_shrink
"""The norms are kept on the class, so a second call overwrites them before the backward of the first one has read them."""
WRONG = ["norms = GroupShrink.norms = x.norm(dim=-1, keepdim=True)", "norms = GroupShrink.norms  # not again"]
RIGHT = ["norms = x.norm(dim=-1, keepdim=True)", "norms = x.norm(dim=-1, keepdim=True)"]
NAME = "GroupShrink"
# --- code
import torch
from torch.autograd import Function


class GroupShrink(Function):
    """The proximal operator of the group lasso: shrinks the norm of every row by lam."""

    @staticmethod
    def forward(ctx, x, lam):
        norms = GroupShrink.norms = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(x, lam)
        return x * (1 - lam / norms).clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        x, lam = ctx.saved_tensors
        norms = GroupShrink.norms  # not again
        active = (norms > lam).to(grad.dtype)
        unit = x / norms
        along = (unit * grad).sum(-1, keepdim=True)
        grad_x = active * ((1 - lam / norms) * grad + lam / norms * unit * along)
        return grad_x, -(active * along).sum()


def inputs():
    torch.manual_seed(27)
    x = torch.randn(4, 3, dtype=torch.float64)
    x[1] *= 0.1
    return x, torch.tensor(0.7, dtype=torch.float64)


def reference(x, lam):
    norms = (x * x).sum(-1, keepdim=True).sqrt()
    return x / norms * torch.relu(norms - lam)

# %% black_scholes
"""Two slips: the vega lacks the square root of the maturity, and the gradients of volatility and maturity are returned in the wrong order."""
WRONG = ["vega = spot * normal_density(d1)", "return grad * delta, grad * by_strike, grad * by_maturity, grad * vega, None"]
RIGHT = ["vega = spot * normal_density(d1) * maturity.sqrt()", "return grad * delta, grad * by_strike, grad * vega, grad * by_maturity, None"]
NAME = "BlackScholesCall"
# --- code
import math

import torch
from torch.autograd import Function


def normal_density(z):
    return torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def d1_d2(spot, strike, vol, maturity, rate):
    spread = vol * maturity.sqrt()
    d1 = ((spot / strike).log() + (rate + vol * vol / 2) * maturity) / spread
    return d1, d1 - spread


class BlackScholesCall(Function):
    """The price of European calls, all tensors (N,), with one interest rate."""

    @staticmethod
    def forward(ctx, spot, strike, vol, maturity, rate):
        ctx.save_for_backward(spot, strike, vol, maturity)
        ctx.rate = rate
        d1, d2 = d1_d2(spot, strike, vol, maturity, rate)
        discounted = strike * torch.exp(-rate * maturity)
        return spot * torch.special.ndtr(d1) - discounted * torch.special.ndtr(d2)

    @staticmethod
    def backward(ctx, grad):
        spot, strike, vol, maturity = ctx.saved_tensors
        rate = ctx.rate
        d1, d2 = d1_d2(spot, strike, vol, maturity, rate)
        discount = torch.exp(-rate * maturity)
        delta = torch.special.ndtr(d1)
        by_strike = -discount * torch.special.ndtr(d2)
        vega = spot * normal_density(d1)
        carry = rate * strike * discount * torch.special.ndtr(d2)
        by_maturity = spot * normal_density(d1) * vol / (2 * maturity.sqrt()) + carry
        return grad * delta, grad * by_strike, grad * by_maturity, grad * vega, None


def inputs():
    f = lambda *values: torch.tensor(values, dtype=torch.float64)
    return f(1.0, 1.2, 0.9), f(1.1, 1.0, 1.0), f(0.3, 0.4, 0.25), f(0.5, 1.5, 2.0), 0.03


def reference(spot, strike, vol, maturity, rate):
    normal = torch.distributions.Normal(0.0, 1.0)
    forward = spot * torch.exp(rate * maturity)
    total = vol * maturity**0.5
    d1 = torch.log(forward / strike) / total + total / 2
    price = forward * normal.cdf(d1) - strike * normal.cdf(d1 - total)
    return torch.exp(-rate * maturity) * price

# %% cox_loss
"""A subject is at risk at all events up to its own time, which are those further down this list; the sum over events must run from the end."""
WRONG = ["hazard = (event / risk).cumsum(0)"]
RIGHT = ["hazard = (event / risk).flip(0).cumsum(0).flip(0)"]
NAME = "CoxPartialLikelihood"
# --- code
import torch
from torch.autograd import Function


class CoxPartialLikelihood(Function):
    """Negative partial log likelihood per event; subjects sorted by falling time, no ties.

    The risk set of subject i is then 0 ... i. `event` is 1 for a death and 0 if censored.
    """

    @staticmethod
    def forward(log_risk, event):
        at_risk = log_risk.logcumsumexp(0)
        return -(event * (log_risk - at_risk)).sum() / event.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        log_risk, event = inputs
        ctx.save_for_backward(log_risk, event)

    @staticmethod
    def backward(ctx, grad):
        log_risk, event = ctx.saved_tensors
        risk = log_risk.exp().cumsum(0)
        hazard = (event / risk).cumsum(0)
        grad_log_risk = -(event - log_risk.exp() * hazard) / event.sum()
        return grad * grad_log_risk, None


def inputs():
    torch.manual_seed(28)
    return (
        torch.randn(6, dtype=torch.float64),
        torch.tensor([1, 0, 1, 1, 0, 1]),
    )


def reference(log_risk, event):
    n = len(log_risk)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    at_risk = log_risk.expand(n, n).masked_fill(~mask, float("-inf")).logsumexp(-1)
    return -(event * (log_risk - at_risk)).sum() / event.sum()

# %% lambert_w
"""The output is kept as an attribute of ctx and not with save_for_backward: the output and its node then hold each other, and the memory is not freed."""
WRONG = ["ctx.w = w", "w = ctx.w"]
RIGHT = ["ctx.save_for_backward(w)", "(w,) = ctx.saved_tensors"]
NAME = "LambertW"
# --- code
import torch
from torch.autograd import Function


class LambertW(Function):
    """The principal branch of w exp(w) = x for x > 0, by Halley's method."""

    @staticmethod
    def forward(ctx, x):
        w = torch.log1p(x)
        for _ in range(12):
            e = w.exp()
            f = w * e - x
            w = w - f / (e * (w + 1) - (w + 2) * f / (2 * w + 2))
        ctx.w = w
        return w

    @staticmethod
    def backward(ctx, grad):
        w = ctx.w
        return grad / (w.exp() * (1 + w))


def inputs():
    return (torch.tensor([0.2, 0.9, 1.7, 4.0, 11.0], dtype=torch.float64),)


def reference(x):
    # w = log(x / w), from a close start, with Newton steps that autograd can follow
    w = torch.log1p(x)
    for _ in range(8):
        w = w - (w + torch.log(w) - torch.log(x)) / (1 + 1 / w)
    return w
