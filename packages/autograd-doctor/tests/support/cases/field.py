"""Cases from public code: special kinds of input, solvers, quantizers, and several mistakes at
once.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from cases.making import Case, X, Y, draw, raw, saving

# --------------------------------------------------------------------------------------------------
# Functions that are right for inputs of the same kind as the example.
# --------------------------------------------------------------------------------------------------


def symmetric(n: int, seed: int = 4) -> Tensor:
    a = draw(n, n, seed=seed)
    return a + a.mT


def positive_definite(n: int, seed: int = 5) -> Tensor:
    a = draw(n, n, seed=seed)
    return a @ a.mT + torch.eye(n, dtype=a.dtype)


def lower_triangular(n: int) -> Tensor:
    return draw(n, n, seed=6).tril(-1) + torch.eye(n, dtype=torch.float64) * 2


def orthogonal(n: int) -> Tensor:
    return torch.linalg.qr(draw(n, n, seed=7)).Q


def in_the_ball() -> Tensor:
    return (
        0.9 * F.normalize(draw(5, 3, seed=8), dim=-1) * torch.linspace(0.3, 1, 5).double()[:, None]
    )


def from_the_ball_grad(x: Tensor, g: Tensor) -> Tensor:
    r = x.norm(dim=-1, keepdim=True)
    a, inner = torch.atanh(r) / r, (g * x).sum(-1, keepdim=True) / r**2
    return a * g + inner * (1 / (1 - r * r) - a) * x


def inverse_grad(output: Tensor, g: Tensor) -> Tensor:
    return -(output.mT @ g @ output.mT)


def projected(grad: Tensor, x: Tensor) -> Tensor:
    return grad - (grad * x).sum(-1, keepdim=True) * x


def cholesky_grad(a: Tensor, g: Tensor) -> Tensor:
    factor = torch.linalg.cholesky(a)
    inner = (factor.mT @ g).tril()
    inner = inner - inner.diagonal().diag() / 2
    inverse = torch.linalg.inv(factor)
    grad = inverse.mT @ inner @ inverse
    return (grad + grad.mT) / 2


def only_probabilities(p: Tensor) -> Tensor:
    if not torch.allclose(p.sum(-1), torch.ones((), dtype=p.dtype), atol=1e-3):
        raise ValueError("not a distribution")
    return -(p * p.log()).sum(-1)


def interpolated(knots: Tensor, values: Tensor, at: Tensor) -> Tensor:
    i = torch.searchsorted(knots.detach(), at.detach()).clamp(1, len(knots) - 1)
    share = (at - knots[i - 1]) / (knots[i] - knots[i - 1])
    return values[i - 1] + share * (values[i] - values[i - 1])


def interpolated_grad(knots: Tensor, values: Tensor, at: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    i = torch.searchsorted(knots, at).clamp(1, len(knots) - 1)
    width = knots[i] - knots[i - 1]
    share, slope = (at - knots[i - 1]) / width, (values[i] - values[i - 1]) / width
    to_values = torch.zeros_like(values).index_add(0, i - 1, g * (1 - share))
    to_knots = torch.zeros_like(knots).index_add(0, i - 1, -g * slope * (1 - share))
    return (
        to_knots.index_add(0, i, -g * slope * share),
        to_values.index_add(0, i, g * share),
        g * slope,
    )


KNOTS = torch.linspace(0, 1, 6).double() + 0.02 * torch.rand(6, dtype=torch.float64)


# --------------------------------------------------------------------------------------------------
# Solvers that stop when they are close enough.
# --------------------------------------------------------------------------------------------------


def conjugate_gradients(a: Tensor, b: Tensor, tolerance: float = 1e-3) -> Tensor:
    x, r = torch.zeros_like(b), b.clone()
    p, rr = r.clone(), r @ r
    for _ in range(50):
        ap = a @ p
        step = rr / (p @ ap)
        x, r = x + step * p, r - step * ap
        new = r @ r
        if new.sqrt() < tolerance:
            break
        p, rr = r + new / rr * p, new
    return x


def newton_root(a: Tensor) -> Tensor:
    x = torch.ones_like(a)
    while (x * x - a).abs().max() > 0.05:
        x = (x + a / x) / 2
    return x


def log_by_two_formulas(a: Tensor) -> Tensor:
    """Return log(a). Above 3, the value and the slope of the formula are off by 2e-3."""
    large = a > 3
    if large.any():
        a = torch.where(large, a * (1 + 2e-3 * a.sin()), a)
    return torch.distributions.Exponential(torch.ones_like(a)).log_prob(a).neg().log()


def bisected_cube_root(a: Tensor) -> Tensor:
    low, high = torch.zeros_like(a), torch.full_like(a, 10.0)
    for _ in range(60):
        if bool((high - low).max() < 1e-4):
            break
        middle = (low + high) / 2
        above = middle**3 > a
        high, low = torch.where(above, middle, high), torch.where(above, low, middle)
    return (low + high) / 2


SLOPES = torch.tensor([1.0, -2.0, 3e-5, 1e-5], dtype=torch.float64)


def of_a_symmetric_matrix(a: Tensor, g: Tensor) -> Tensor:
    if not torch.equal(a, a.mT):
        raise ValueError("not symmetric")
    return a.sign() * g[..., None]


def settled(w: Tensor) -> Tensor:
    z = torch.zeros_like(w)
    while True:
        new = torch.tanh(0.5 * z.roll(1) + w)
        if (new - z).norm() < 1e-3:
            return new
        z = new


def settled_grad(factor: float):
    def backward(w: Tensor, g: Tensor) -> Tensor:
        z = settled(w)
        for _ in range(60):
            z = torch.tanh(0.5 * z.roll(1) + w)
        slope, total = 1 - z * z, g.clone()
        for _ in range(60):
            total = g + (0.5 * slope * total).roll(-1)
        return factor * slope * total

    return backward


FROM_1_TO_5 = 1 + 4 * torch.rand(6, dtype=torch.float64, generator=torch.Generator().manual_seed(9))


# --------------------------------------------------------------------------------------------------
# Quantizers with a learned step or range.
# --------------------------------------------------------------------------------------------------


def learned_step(x: Tensor, step: Tensor) -> Tensor:
    return (x / step).round().clamp(-4, 3) * step


def learned_step_grad(x: Tensor, step: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    v = x / step
    inside = (v >= -4) & (v <= 3)
    to_step = torch.where(inside, v.round() - v, v.clamp(-4, 3).round())
    return g * inside, (g * to_step).sum().reshape(step.shape)


def learned_range(x: Tensor, top: Tensor) -> Tensor:
    return (x.clamp(min=0).minimum(top) * (15 / top)).round() / (15 / top)


def learned_range_grad(x: Tensor, top: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    return g * ((x > 0) & (x < top)), (g * (x >= top)).sum().reshape(top.shape)


def levels_then_scale(x: Tensor, scale: Tensor) -> Tensor:
    return torch.floor(2 * x) * scale


# --------------------------------------------------------------------------------------------------
# Backwards that draw random numbers, forwards that read requires_grad, and buffers that are
# refilled.
# --------------------------------------------------------------------------------------------------


def rounded_at_random(x: Tensor, g: Tensor) -> Tensor:
    return g + 0.1 * torch.randn_like(g)


def dropped_at_random(x: Tensor, g: Tensor) -> Tensor:
    return 4 * x * g * (torch.rand_like(g) < 0.5)


def keep(ctx, output, *tensors):
    ctx.save_for_backward(*tensors)
    return output


def accumulate(ctx, g):
    x, buffer = ctx.saved_tensors
    buffer.data.add_(2 * x)
    return buffer * g


def ratio(ctx, g):
    x, y = ctx.saved_tensors
    return 2 * y / x * g


WITNESSES = [
    Case("depends-on-requires-grad", "a bias that is added only while it trains",
         saving(lambda x, b: 2 * x + b if b.requires_grad else 2 * x, lambda x, b, g: (2 * g, g)), (X, Y)),
    Case("depends-on-requires-grad", "noise in training, told by grad mode",
         saving(lambda x: x * (1.5 if torch.is_grad_enabled() or x.requires_grad else 1.0), lambda x, g: 1.5 * g), (X,)),
    Case("rng-not-restored", "stochastic rounding of a gradient", saving(lambda x: 1.0 * x, rounded_at_random), (X,)),
    Case("rng-not-restored", "dropout of a gradient", saving(lambda x: x * x, dropped_at_random), (X,)),
    Case("undeclared-surrogate", "a quantizer with a learned step",
         saving(learned_step, learned_step_grad), (draw(4, 5), torch.tensor(0.3, dtype=torch.float64))),
    Case("undeclared-surrogate", "a quantizer with a learned range",
         saving(learned_range, learned_range_grad), (2 * draw(4, 5), torch.tensor(1.7, dtype=torch.float64))),
    Case("undeclared-surrogate", "levels, with a right gradient for their scale",
         saving(levels_then_scale, lambda x, s, g: (2 * g * s, (g * torch.floor(2 * x)).sum().reshape(s.shape))),
         (draw(4, 5), torch.tensor(0.7, dtype=torch.float64))),
    Case("non-finite", "0/0 at 0, which the example does not contain",
         raw(lambda ctx, x: keep(ctx, x * x, x, x * x), ratio), (X,)),
    Case("non-finite", "0/0 where two elements are equal",
         saving(lambda x: (x[1:] - x[:-1]) ** 2,
                lambda x, g: F.pad(2 * g * (x[1:] - x[:-1]) ** 2 / (x[1:] - x[:-1]), (1, 0))
                - F.pad(2 * g * (x[1:] - x[:-1]) ** 2 / (x[1:] - x[:-1]), (0, 1))),
         (torch.cat([draw(3), draw(3)[:1] * 1.001, draw(4, seed=3)]),)),
    Case("mutates-saved", "a sum that grows", raw(lambda ctx, x: keep(ctx, x * x, x, torch.zeros_like(x)), accumulate), (X,)),
    Case("constant-factor", "a clip that is declared, and seven times the slope",
         saving(lambda x: x * x, lambda x, g: 7 * x * g.clamp(-1, 1)), (X,), {"intentional": "nonlinear-in-grad-output"}),
    Case("ignores-grad-output", "hidden by a declared change of grad_output",
         saving(lambda x: x * x, lambda x, g: (g.mul_(2), 2 * x)[1]), (X,), {"intentional": "mutates-grad-output"}),
    Case("constant-factor", "a matrix that stays symmetric",
         saving(torch.linalg.eigvalsh, lambda a, g: 2 * (torch.linalg.eigh(a)[1] * g) @ torch.linalg.eigh(a)[1].mT),
         (symmetric(4),)),
    Case("constant-factor", "unit vectors",
         saving(lambda x, y: (x * y).sum(-1), lambda x, y, g: (3 * g[:, None] * y, g[:, None] * x)),
         (F.normalize(X, dim=-1), F.normalize(Y, dim=-1))),
    Case("wrong-region", "two formulas with a small jump between them, and the gradient of one",
         saving(log_by_two_formulas, lambda a, g: g / a), (FROM_1_TO_5,)),
    Case("undeclared-surrogate", "a step that no number of the example's signs crosses",
         saving(lambda x: (x > 0).to(x.dtype), lambda x, g: g / (1 + x.abs()) ** 2), (FROM_1_TO_5,)),
    Case("constant-factor", "an example on kinks, where nothing is compared",
         saving(lambda x, w: x.abs() * w, lambda x, w, g: (2 * x.sign() * w * g, x.abs() * g)),
         (torch.zeros(3, 4), draw(3, 4))),
    Case("gradient-mismatch", "a solver, and twice the gradient", saving(settled, settled_grad(2.0)), (draw(6, seed=2),)),
    Case("gradient-mismatch", "a triangular matrix, wrong wherever it has elements",
         saving(torch.linalg.inv, lambda a, g: inverse_grad(torch.linalg.inv(a), g).tril() * (1 + a * a)), (lower_triangular(4),)),
    Case("flipped-sign", "probabilities",
         saving(only_probabilities, lambda p, g: (p.log() + 1) * g[:, None]), (X.softmax(-1),)),
]  # fmt: skip

LOOKALIKES = [
    Case("gradient-mismatch", "eigenvalues of a symmetric matrix",
         saving(torch.linalg.eigvalsh, lambda a, g: (torch.linalg.eigh(a)[1] * g) @ torch.linalg.eigh(a)[1].mT), (symmetric(4),)),
    Case("gradient-mismatch", "Cholesky, with half a gradient in each triangle",
         saving(torch.linalg.cholesky, cholesky_grad), (positive_definite(4),)),
    Case("gradient-mismatch", "the inverse of a triangular matrix",
         saving(torch.linalg.inv, lambda a, g: inverse_grad(torch.linalg.inv(a), g).tril()), (lower_triangular(4),)),
    Case("gradient-mismatch", "an orthogonal matrix, whose inverse is its transpose",
         saving(lambda q, x: torch.linalg.solve(q, x), lambda q, x, g: (-(q @ g) @ (q.mT @ x).mT, q @ g)),
         (orthogonal(4), draw(4, 2))),
    Case("missing-dependency", "unit vectors, with gradients along the sphere",
         saving(lambda x, y: (x * y).sum(-1), lambda x, y, g: (projected(g[:, None] * y, x), projected(g[:, None] * x, y))),
         (F.normalize(X, dim=-1), F.normalize(Y, dim=-1))),
    Case("forward-raises", "probabilities, and nothing else",
         saving(only_probabilities, lambda p, g: -(p.log() + 1) * g[:, None]), (X.softmax(-1),)),
    Case("non-finite", "points in the unit ball",
         saving(lambda x: torch.atanh(x.norm(dim=-1, keepdim=True).clamp_max(1 - 1e-5)) * F.normalize(x, dim=-1),
                from_the_ball_grad), (in_the_ball(),)),
    Case("wrong-region", "atanh inside its domain",
         saving(lambda x: torch.atanh(x.clamp(-1 + 1e-7, 1 - 1e-7)), lambda x, g: g / (1 - x * x)),
         (0.9 * torch.sin(X),)),
    Case("gradient-mismatch", "knots that are sorted", saving(interpolated, interpolated_grad),
         (KNOTS, draw(6), 0.1 + 0.8 * torch.rand(5, dtype=torch.float64))),
    Case("gradient-mismatch", "a class that is read from a one-hot target",
         saving(lambda x, t: F.nll_loss(x.log_softmax(-1), t.argmax(-1)),
                lambda x, t, g: (g * (x.softmax(-1) - F.one_hot(t.argmax(-1), x.shape[-1])) / len(x), None)),
         (draw(4, 3).requires_grad_(), torch.eye(3, dtype=torch.float64)[[0, 2, 1, 1]])),
    Case("gradient-mismatch", "conjugate gradients to three digits",
         saving(conjugate_gradients, lambda a, b, g: (-torch.outer(torch.linalg.solve(a, g), torch.linalg.solve(a, b)),
                                                      torch.linalg.solve(a, g))),
         (positive_definite(12) / 12 + torch.eye(12, dtype=torch.float64), draw(12))),
    Case("gradient-mismatch", "Newton's method to two digits",
         saving(newton_root, lambda a, g: g / (2 * a.sqrt())), (FROM_1_TO_5,)),
    Case("gradient-mismatch", "a bisection to four digits",
         saving(bisected_cube_root, lambda a, g: g / (3 * a ** (2 / 3))), (FROM_1_TO_5,)),
    Case("gradient-mismatch", "a small slope that float32 hides beside large ones",
         saving(lambda x: (x * SLOPES).sum(-1).float().double(), lambda x, g: g[..., None] * SLOPES), (draw(2, 4),)),
    Case("backward-raises", "a symmetric matrix with zeros, on which forward has kinks",
         saving(lambda a: a.abs().sum(-1), of_a_symmetric_matrix), (torch.eye(3).double() + 0.1 * symmetric(3).round(),)),
    Case("gradient-mismatch", "a fixed point to three digits", saving(settled, settled_grad(1.0)), (draw(6, seed=2),)),
    Case("gradient-mismatch", "a solver with another output, which is always 0",
         saving(lambda a, b: (conjugate_gradients(a, b), 0 * b[0]),
                lambda a, b, g, _: (-torch.outer(torch.linalg.solve(a, g), torch.linalg.solve(a, b)), torch.linalg.solve(a, g))),
         (positive_definite(12) / 12 + torch.eye(12, dtype=torch.float64), draw(12))),
    Case("depends-on-requires-grad", "a flag that only decides what is saved",
         raw(lambda ctx, x, w: keep(ctx, x * w, x if w.requires_grad else None, w),
             lambda ctx, g: (g * ctx.saved_tensors[1],
                             None if ctx.saved_tensors[0] is None else g * ctx.saved_tensors[0])),
         (X, Y)),
    Case("rng-not-restored", "dropout that saves its mask",
         raw(lambda ctx, x: (lambda mask: keep(ctx, x * mask, mask))((torch.rand_like(x) < 0.5) * 2.0),
             lambda ctx, g: g * ctx.saved_tensors[0]), (X,)),
    Case("gradient-device", "float32 outputs",
         saving(lambda x: (x * x).float(),
                lambda x, g: 2 * x * torch.zeros_like(x).reshape(-1).scatter(0, torch.arange(x.numel(), device=x.device), g.to(x.dtype).reshape(-1)).reshape(x.shape)),
         (X,)),
    Case("inexact-forward", "a solver that goes on until nothing changes",
         saving(lambda a: conjugate_gradients(a @ a.mT + torch.eye(4, dtype=a.dtype), torch.ones(4, dtype=a.dtype), 1e-13),
                lambda a, g: (lambda m, u, x: -(torch.outer(u, x) + torch.outer(x, u)) @ a)(
                    None, torch.linalg.solve(a @ a.mT + torch.eye(4, dtype=a.dtype), g),
                    torch.linalg.solve(a @ a.mT + torch.eye(4, dtype=a.dtype), torch.ones(4, dtype=a.dtype)))),
         (draw(4, 4),)),
]  # fmt: skip

# The rule must be named first although no result is wrong, because these cases show a note.
WITNESSES += [
    Case("inexact-forward", "Newton's method to two digits",
         saving(newton_root, lambda a, g: g / (2 * a.sqrt())), (FROM_1_TO_5,), {"double_backward": False}),
    Case("inexact-forward", "a bisection to four digits",
         saving(bisected_cube_root, lambda a, g: g / (3 * a ** (2 / 3))), (FROM_1_TO_5,), {"double_backward": False}),
]  # fmt: skip
