"""The names that value rules must give or avoid for wrong gradients: a row for each branch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from cases.first_order import SwishFixed
from cases.making import CPLX, IDX, POSITIVE, TABLE, Case, X, Y, draw, raw, saving


def square(x: Tensor) -> Tensor:
    return x * x


def mean(x: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True)


def center(x: Tensor) -> Tensor:
    return x - mean(x)


def deviation(x: Tensor) -> Tensor:
    return (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()


def length(x: Tensor) -> Tensor:
    return x.norm(dim=-1, keepdim=True)


def gated(x: Tensor, y: Tensor) -> Tensor:
    return x * torch.tanh(x * y)


def gated_backward(x: Tensor, y: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    return torch.tanh(x * y) * g, x * x * (1 - torch.tanh(x * y) ** 2) * g


def keeps_a_bell(ctx: Any, x: Tensor) -> Tensor:
    bell = (-x * x).exp()
    ctx.save_for_backward(bell)
    return x * bell


def keeps_a_share(ctx: Any, x: Tensor) -> Tensor:
    share = x.sigmoid()
    ctx.save_for_backward(x, share)
    return x * x * share


def of_the_share_alone(ctx: Any, g: Tensor) -> Tensor:
    return g * ctx.saved_tensors[0] ** 2 * ctx.saved_tensors[1] * (1 - ctx.saved_tensors[1])


class ShareFirst(Function):
    """Saves an intermediate result, then its input."""

    @staticmethod
    def forward(ctx, x):
        share = x.sigmoid()
        ctx.save_for_backward(share, x)
        return x * x * share

    @staticmethod
    def backward(ctx, g):
        share, x = ctx.saved_tensors
        return g * x * x * share * (1 - share)


AGAIN = [0, 1, 1, 2]


def last_one_kept(x: Tensor, g: Tensor) -> Tensor:
    grad = torch.zeros_like(x)
    for k, i in enumerate(AGAIN):
        grad[:, i] = g[:, k]
    return grad


def some_kept(change: Any) -> Any:
    """Return a backward of ``x[:, AGAIN]`` that changes the sum of two terms."""

    def backward(x: Tensor, g: Tensor) -> Tensor:
        right = torch.zeros_like(x).index_add(1, torch.tensor(AGAIN, device=x.device), g)
        right[:, 1] = change(right[:, 1], g[:, 1])
        return right

    return backward


def last_kept(*indices: int) -> type[Function]:
    """Return a selection of columns whose backward keeps only one term for a repeated column."""

    def backward(x: Tensor, g: Tensor) -> Tensor:
        grad = torch.zeros_like(x)
        for k, i in enumerate(indices):
            grad[:, i] = g[:, k]
        return grad

    return saving(lambda x: 1 * x[:, list(indices)], backward)


def one_of_them(total: Tensor, first: Tensor) -> Tensor:
    return torch.cat((first[:1], total[1:] / 2))


def summed_by(x: Tensor, i: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(0, i, x)


def without(x: Tensor, *edges: int) -> Tensor:
    """Return twice the input, with zeros at these positions of the last axis."""
    return 2 * x.index_fill(-1, torch.tensor(edges, device=x.device), 0)


def pairs(x: Tensor) -> Tensor:
    return (x[:, None] + x).square().sum(1)


def unequal_pairs(x: Tensor, g: Tensor) -> Tensor:
    apart = (x[:, None] != x) | torch.eye(len(x), device=x.device).bool()
    slope = 2 * (x[:, None] + x) * apart
    return slope.sum(1) * g + (slope * g[:, None]).sum(0)


def unequal_pairs_but_threes(x: Tensor, g: Tensor) -> Tensor:
    threes = x == 3
    return torch.where(threes, all_pairs(x, g), unequal_pairs(x, g))


def all_pairs(x: Tensor, g: Tensor) -> Tensor:
    slope = 2 * (x[:, None] + x)
    return slope.sum(1) * g + (slope * g[:, None]).sum(0)


def one_index_zero(x: Tensor, k: int) -> Tensor:
    return x.exp().index_fill(1, torch.tensor([k], device=x.device), 0)


def lookup(table: Tensor, index: Tensor, pad: int) -> Tensor:
    return table[index]


def pad_gets_none(table: Tensor, index: Tensor, pad: int, g: Tensor) -> Any:
    grad = torch.zeros_like(table).index_add(0, index, g)
    return grad.index_fill(0, torch.tensor([pad], device=g.device), 0), None, None


def pinball(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(0.9 * (y - x), 0.1 * (x - y))


def either(x: Tensor, m: Tensor) -> Tensor:
    return torch.where(m, x, x.exp())


def unless(x: Tensor, rows: Tensor) -> Tensor:
    return torch.where(rows[:, None], x.exp(), x)


def in_half(x: Tensor, w: Tensor) -> Tensor:
    return (x.half() @ w.half().T).to(x.dtype)


def sine_where_not(x: Tensor, m: Tensor, g: Tensor) -> tuple[Tensor, None]:
    return torch.where(m, g, x.sin() * g), None


def softmax_but_not_last(ctx: Any, x: Tensor, dim: int) -> Tensor:
    if dim % x.dim() == x.dim() - 1:
        raise NotImplementedError("not along the last axis")
    ctx.save_for_backward(x.softmax(dim))
    return x.softmax(dim)


def along_the_first(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
    (y,) = ctx.saved_tensors
    return y * (g - (g * y).sum(0, keepdim=True)), None


def wrong_for(label: int) -> type[Function]:
    """Return an exponential that is a different function for one class, which backward ignores."""
    return saving(lambda x, i: torch.where((i == label)[:, None], 2 * x, x.exp()),
                  lambda x, i, g: (x.exp() * g, None))  # fmt: skip


def in_single(f: Any) -> Any:
    """Return a function that computes in float32, so only a few digits of its slope are known."""
    return lambda x: f(x.float()).to(x.dtype)


def within_bounds(x: Tensor) -> Tensor:
    return (x > -0.2) & (x < 1.2)


def twice_at(*at: int) -> type[Function]:
    """Return an exponential whose gradient is twice the true one at some positions."""

    def backward(x: Tensor, g: Tensor) -> Tensor:
        right = x.exp() * g
        return right + right * (torch.tensor([k in at for k in range(len(x))], device=x.device))

    return saving(torch.exp, backward)


def stretched(*inputs: Tensor) -> Any:
    """Return a sampler of multiples of these inputs, which keeps their ties and their order."""
    return lambda rng: tuple(t.double() * (1 + 0.1 * torch.rand((), generator=rng)) for t in inputs)


WITH_KINK = torch.tensor([0.0, 1, -2, 3, -4, 0.5])
ALONE = torch.tensor([False, False, True, False, False, False])
TIED = torch.tensor([1.0, 2, 2, 3, 5, 4, -1, 3])
SORTED = torch.tensor([1.0, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10, 11])
CLASSES = torch.tensor([3, 0, -100, 4, 3, 2])
NARROW = torch.linspace(0.701, 0.801, 21)
WITH_ONE = POSITIVE.index_fill(1, torch.tensor([0]), 1)
ONE_FLAT = torch.tensor([0.01, 0.02, -0.03, 0.5, -0.7, 0.9, 2, 3])
ENDS_TIE = torch.tensor([-3.0, -2, -1, -1, 0, 0.5, 1, 1.5, 2, 2, 2.5, 3])
ROW_TIES = torch.stack((X[0], Y[1] + 1, Y[2]))
MIX = draw(5, 5, seed=8, dtype=torch.complex128)


def last_doubled(x: Tensor) -> Tensor:
    factors = torch.ones_like(x)
    factors[-1] = 2
    return factors


def named(rule: str, what: str, fn: Any, *inputs: Any, **options: Any) -> Case:
    return Case(rule, what, fn, inputs, options)


def column(k: int, factor: float, like: Tensor) -> Tensor:
    """Return a tensor of ones with a factor in one column."""
    factors = torch.ones_like(like)
    factors[:, k] = factor
    return factors


BANDS = torch.tensor([0, 2, 2])
SEGMENTS = torch.tensor([0, 0, 1, 3, 3, 3])
ONE_SHORT = draw(4, 3) * torch.tensor([[1], [0.01], [1], [1]])


def segment_mean(x: Tensor, segments: Tensor) -> Tensor:
    sums = x.new_zeros(4, x.shape[1]).index_add(0, segments, x)
    return sums / segments.bincount(minlength=4).clamp(min=1)[:, None]


NAMED = [
    named("gradient-mismatch", "a column", saving(lambda x: x.sin(), lambda x, g: g * x.cos() * column(1, 0.6, x)), X),
    named("gradient-mismatch", "the later columns",
          saving(lambda x: x.sin(), lambda x, g: torch.cat([g[:, :2] * x[:, :2].cos(), g[:, 2:] * x[:, 2:].sin()], 1)), X),
    named("gradient-mismatch", "the class of each row", saving(lambda x, t: x.exp(), lambda x, t, g:
          (g * x.exp() * (1 + torch.zeros_like(x).scatter(1, t[:, None], 0.1 * x)), None)), X, BANDS),
    named("gradient-mismatch", "a group's own factor",
          saving(lambda x, t: x.exp(), lambda x, t, g: (g * x.exp() / (2 + t)[:, None], None)), X, BANDS),
    named("gradient-mismatch", "divided by the number of all members",
          saving(segment_mean, lambda x, t, g: (g[t] / len(t), None)), draw(6, 2), SEGMENTS),
    named("gradient-mismatch", "a factor forgotten",
          saving(lambda x, y: x.tanh() * y, lambda x, y, g: ((1 - x.tanh() ** 2) * g, x.tanh() * g)), X, POSITIVE),
    named("gradient-mismatch", "the weight of a class forgotten",
          saving(lambda x, t, w: x.exp() * w[t][:, None], lambda x, t, w, g:
          (g * x.exp(), None, (g * x.exp()).sum(1).new_zeros(4).index_add(0, t, (g * x.exp()).sum(1)))),
          X, torch.tensor([0, 1, 3]), POSITIVE[0]),
    named("gradient-mismatch", "smoothing forgotten", saving(lambda x, t, s:
          F.cross_entropy(x, t, label_smoothing=s, reduction="sum"), lambda x, t, s, g:
          (g * (F.one_hot(t, 5) * -1.0 + x.softmax(1)), None, None)), draw(6, 5), torch.tensor([0, 1, 1, 4, 2, 3]), 0.1),
    named("gradient-mismatch", "the weight of a norm forgotten, and its mean",
          saving(lambda x, w: center(x) * deviation(x) * w, lambda x, w, g: (deviation(x) * (g - center(x) *
          deviation(x) * mean(g * center(x) * deviation(x))), (g * center(x) * deviation(x)).sum(0))), X, POSITIVE[0]),
    named("gradient-mismatch", "the last columns forgotten",
          saving(torch.matmul, lambda x, w, g: (g[:, :2] @ w[:, :2].mT, x.mT @ g)), draw(5, 3), draw(3, 4, seed=1)),
    named("missing-dependency", "the way around low-rank factors", saving(lambda x, a, w: x @ w.mT + x @ a,
          lambda x, a, w, g: (g @ a.mT, x.mT @ g, g.mT @ x)), X, draw(4, 3, seed=5), draw(3, 4, seed=6)),
    named("missing-dependency", "of one number",
          saving(lambda x, s: s.exp() - x * s, lambda x, s, g: (-s * g, (g * s.exp()).sum())), X, torch.tensor(0.4)),
    named("duplicate-index", "one of all copies",
          saving(lambda x, n: x.repeat_interleave(n, -1), lambda x, n, g: (g[..., ::n], None)), X, 2),
    named("constant-factor", "a factor of a mixture",
          saving(lambda x, a: (1 - a) * x.sin(), lambda x, a, g: ((1 - a) ** 2 * x.cos() * g, None)), X, 0.3),
    named("missing-dependency", "a clamp of a norm forgotten",
          saving(lambda x, eps: x / length(x).clamp(min=eps), lambda x, eps, g: ((g - x * (g * x).sum(-1, True) /
          length(x).clamp(min=eps) ** 2) / length(x).clamp(min=eps), None)), ONE_SHORT, 0.1),
    named("undeclared-surrogate", "levels that no 16 bits hold",
          saving(lambda x: (300 * x).round() / 300, lambda x, g: g.clone()), draw(6, 4)),
    named("undeclared-surrogate", "levels of few digits",
          saving(lambda x: (8 * x).round() / 8, lambda x, g: g.clone()), draw(6, 4)),
    named("gradient-mismatch", "the first does not depend on it", saving(lambda x, y: (y.exp(), x.sin()), lambda x, y, g, h:
          (h * x.tanh(), g * y.exp())), X, Y),
    named("off-by-one", "of a hundred elements", saving(lambda x: x**3, lambda x, g: 3 * x**2 * g * last_doubled(x)), draw(10, 10)),
    named("wrong-region", "of thousands of elements", saving(lambda x: x**3, lambda x, g: 3 * x**2 * g * (x <= 3)), draw(60, 60)),
    named("gradient-mismatch", "a mean, in float32",
          saving(in_single(center), lambda x, g: g.clone()), X),
    named("constant-factor", "parallel to one number beside a kink, as the true one is",
          saving(lambda x: x.relu().sum().expand(4), lambda x, g: 2 * g.sum() * (x > 0)), WITH_KINK),
    named("extra-gradient", "a constant is no quantizer", saving(torch.ones_like, lambda x, g: g), X),
    named("extra-gradient", "and the gradient would be wrong", saving(torch.mul, lambda x, y, g: (g * y, 2 * g * x)),
          X, Y, reference=lambda x, y: x * y.detach()),
    named("missing-dependency", "one of two in the other's place is not swapped",
          saving(torch.mul, lambda x, y, g: (g * (x + y), g * y)), X, Y),
    named("missing-gradient", "no return", raw(lambda ctx, x: 2 * x, lambda ctx, g: None), X),
    named("missing-conjugate", "more elements than the Jacobian has columns", saving(torch.exp, lambda z, g: z.exp() * g),
          draw(20, 20, dtype=torch.complex128)),
    named("gradient-mismatch", "a wrong complex formula",
          saving(torch.square, lambda z, g: g * z.exp()), CPLX),
    named("gradient-mismatch", "a wrong complex formula, of a sum",
          saving(lambda z: square(z).reshape(2, 3).sum(0), lambda z, g: z.exp() * g.repeat(2)),
          draw(6, dtype=torch.complex128)),
    named("gradient-mismatch", "a wrong formula, real of complex numbers",
          saving(torch.abs, lambda z, g: g * z.exp()), draw(6, dtype=torch.complex128)),
    named("gradient-mismatch", "a wrong formula, complex of real numbers",
          saving(lambda x: torch.complex(x, x * x), lambda x, g: g.real * x.exp()), X),
    named("missing-conjugate", "a complex matrix",
          saving(lambda z: MIX.to(z) @ z, lambda z, g: MIX.to(z).T @ g), CPLX),
    named("gradient-mismatch", "a wrong formula, looked at in part",
          saving(torch.tanh, lambda x, g: g * x.exp()), draw(20, 20)),
    named("gradient-mismatch", "the own derivative, where a surrogate is declared",
          saving(square, lambda x, g: 2 * x * g), X, surrogate=lambda x: 1 * x),
    named("gradient-mismatch", "a wrong part of two", saving(lambda x: (x * x, x.sin()), lambda x, g, h: g * x + h * x.cos()), X),
    named("gradient-mismatch", "two wrong parts of three", saving(lambda x: (x.exp(), x.sin(), 2 * x), lambda x, g, h, k:
          g * x.tan() + h * x.tanh() + 2 * k), X),
    named("gradient-mismatch", "both parts of two are wrong",
          saving(lambda x: (x.exp(), x.sin()), lambda x, g, h: g * x.tan() + h * x.tanh()), X),
    named("missing-gradient", "no input has a gradient",
          saving(torch.sin, lambda x, g: None), X),
    named("gradient-mismatch", "three wrong parts of five",
          saving(lambda x: (x.exp(), x.sin(), 2 * x, 3 * x, x.cos()), lambda x, g, h, k, m, n:
          g * x.exp() + h * x.cos() + k * x + m * x.tanh() + n * x.tan()), X),
    named("gradient-mismatch", "a real part, which has no complex derivative",
          saving(lambda z: torch.complex(z.real, 0 * z.real), lambda z, g: g.clone()), CPLX),
    named("gradient-mismatch", "a conjugate, which has no complex derivative",
          saving(lambda z: 1j * z.conj(), lambda z, g: 1j * g), CPLX),
    named("transposed-gradient", "of complex numbers",
          saving(lambda z: z.cumsum(0), lambda z, g: g.cumsum(0)), CPLX),
    named("transposed-gradient", "an output in float32",
          saving(lambda x: x.float().cumsum(0), lambda x, g: g.to(x.dtype).cumsum(0)), X[0]),
    named("gradient-mismatch", "forward's own linear map, where a surrogate is declared",
          saving(lambda x: x.cumsum(0), lambda x, g: g.cumsum(0)), X[0], surrogate=lambda x: 1 * x),
    # A repeated index
    named("gradient-mismatch", "an index repeats, and that is not it",
          saving(lambda t, i: t[i] ** 2, lambda t, i, g:
                 (torch.zeros_like(t).index_add(0, i, g * t[i].exp()), None)), TABLE, IDX),
    named("duplicate-index", "not the numbers that repeat, nor the index that does not",
          saving(lambda t, j, i: t[j][i], lambda t, j, i, g:
                 (torch.zeros_like(t).index_copy(0, j[i], g), None, None)),
          TABLE.round(), torch.arange(5, -1, -1), IDX),
    named("duplicate-index", "no index among the arguments", saving(lambda x: 1 * x[:, AGAIN], last_one_kept), X),
    named("duplicate-index", "of three", last_kept(0, 1, 1, 1), X),
    named("gradient-mismatch", "each element is used twice", last_kept(0, 0, 1, 1), X),
    named("gradient-mismatch", "half of their sum",
          saving(lambda x: 1 * x[:, AGAIN], some_kept(lambda total, first: total / 2)), X),
    named("gradient-mismatch", "nothing of their sum",
          saving(lambda x: 1 * x[:, AGAIN], some_kept(lambda total, first: 0 * total)), X),
    named("gradient-mismatch", "one term in one row, half of the sum in the others",
          saving(lambda x: 1 * x[:, AGAIN], some_kept(one_of_them)), X),
    named("gradient-mismatch", "of complex outputs",
          saving(lambda x: 1j * x[:, AGAIN], lambda x, g: last_one_kept(x, g.imag)), X),
    named("duplicate-index", "squares of sums",
          saving(lambda x, i: summed_by(x, i) ** 2, lambda x, i, g: (2 * x * g[i], None)),
          draw(4, 3), IDX),
    named("gradient-mismatch", "squares of sums, by no argument",
          saving(lambda x: summed_by(x, IDX.to(x.device)) ** 2,
                 lambda x, g: 2 * x * g[IDX.to(x.device)]), draw(4, 3)),
    named("permuted-gradient", "three values", saving(lambda x: x.sum(0).flip(0), lambda x, g:
          g.expand_as(x)), draw(2, 3), reference=lambda x: x.sum(0).flip(0)),
    # An edge
    named("off-by-one", "both ends", saving(lambda x: 2 * x, lambda x, g: without(g, 0, 5)), draw(3, 6)),
    named("off-by-one", "a short axis comes last", saving(lambda x: 2 * x, lambda x, g: without(g.mT, 0).mT),
          draw(4, 2)),
    named("gradient-mismatch", "a vector's last element", saving(lambda x: 2 * x, lambda x, g:
          without(g, 7)), draw(8)),
    named("gradient-mismatch", "a column's last element", saving(lambda x: 2 * x, lambda x, g:
          without(g.mT, 7).mT), draw(8, 1)),
    # An axis
    named("dim-argument", "where forward takes no other", raw(softmax_but_not_last, along_the_first), draw(2, 3, 4), 1),
    # A region
    named("wrong-region", "an absolute value's slope",
          saving(torch.abs, lambda x, g: g), X),
    named("wrong-region", "a leak",
          saving(lambda x: F.leaky_relu(x, 0.1), lambda x, g: torch.where(x > 0, g, 0.2 * g)), X),
    named("wrong-region", "a dead zone",
          saving(lambda x: 2 * F.softshrink(x, 0.5), lambda x, g: torch.where(x.abs() > 0.5, 2 * g, g)),
          X),
    named("wrong-region", "rows are summed", saving(lambda x: x.relu().sum(1), lambda x, g:
          g[:, None].expand_as(x)), X),
    named("wrong-region", "the second of two outputs",
          saving(lambda x: (x.exp(), x.relu()), lambda x, g, h: x.exp() * g + h), X),
    named("wrong-region", "one side of a pinball loss", saving(pinball, lambda x, y, g:
          (0.9 * torch.sign(x - y) * g, 0.9 * torch.sign(y - x) * g)), X, Y),
    named("wrong-region", "an argument", saving(lambda x, c: x.clamp_min(c), lambda x, c, g:
          (g, None)), X, 0.7),
    named("wrong-region", "minus an argument", saving(lambda x, c: x.clamp_min(-c),
          lambda x, c, g: (g, None)), X, 0.7),
    named("wrong-region", "at most 1", saving(lambda x: x.clamp_max(1), lambda x, g: g), 3 * X),
    named("wrong-region", "at least -1", saving(lambda x: x.clamp_min(-1), lambda x, g: g),
          3 * X),
    named("gradient-mismatch", "the smallest of five, by chance",
          saving(torch.exp, lambda x, g: x.exp() * g + 0.3 * g * (x == x.min())), draw(5)),
    named("wrong-region", "at two elements",
          saving(lambda x: F.leaky_relu(x, 0.1), lambda x, g: torch.where(x > 0, g, 0.2 * g)),
          torch.tensor([1.0, 2, -1, 3, -2, 4, 5, 6])),
    named("wrong-region", "by less than a hundredth",
          saving(lambda x: 3 * x, lambda x, g: torch.where(x > 0, 3.015 * g, 3 * g)), X),
    named("wrong-region", "a bound of three digits",
          saving(lambda x: torch.where(x > 0.7735, 3 * x, x.exp()), lambda x, g: 3 * g), NARROW),
    named("gradient-mismatch", "some of those that tie",
          saving(pairs, unequal_pairs_but_threes), TIED),
    named("wrong-region", "a mask",
          saving(lambda x, m: torch.where(m, x, 3 * x), lambda x, m, g: (torch.where(m, g, 0), None)),
          X, Y > 0.2),
    named("wrong-region", "a mask, and another formula", saving(either, sine_where_not),
          X, Y > 0.2),
    named("wrong-region", "a mask between two that are equal",
          saving(either, sine_where_not), SORTED, torch.arange(12) < 6),
    named("wrong-region", "a mask's one row", saving(unless, lambda x, m, g:
          (torch.where(m[:, None], x.sin() * g, g), None)), draw(6, 3), ALONE),
    named("wrong-region", "all rows of a mask but one", saving(
          lambda x, m: unless(x, ~m), lambda x, m, g: (torch.where(m[:, None], g, x.sin() * g), None)),
          draw(6, 3), ~ALONE),
    named("gradient-mismatch", "rows of a mask, and elements beyond it", saving(unless, lambda x, m, g:
          (torch.where(m[:, None] | (x.cos() > 0.8), x.sin() * g, g), None)),
          draw(6, 3), torch.tensor([False, True, True, False, False, True])),
    named("wrong-region", "a mask's other side", saving(either, lambda x, m, g:
          (torch.where(m, 0.3 * g * x.sin(), x.exp() * g), None)), X, Y > 0.2),
    named("gradient-mismatch", "a half of a mask", saving(either, lambda x, m, g:
          (torch.where(m, g, x.exp() * g) + torch.where(m & (x.cos() > 0.6), x.sin() * g, 0), None)),
          draw(6, 5), draw(6, 5, seed=1) > 0.2),
    named("gradient-mismatch", "all of a mask, and nothing else is there",
          saving(lambda x, m: torch.where(m, x.exp(), 0), lambda x, m, g:
          (torch.where(m, x.sin() * g, 0), None)), X, Y > 0.2),
    named("wrong-region", "what is ignored", wrong_for(-100), draw(6, 3), CLASSES),
    named("wrong-region", "a class that comes twice", wrong_for(3), draw(6, 3), CLASSES),
    named("gradient-mismatch", "a class that comes once", wrong_for(0), draw(6, 3), CLASSES),
    named("wrong-region", "the index in an argument",
          saving(one_index_zero, lambda x, k, g: (x.exp() * g, None)), draw(5, 3), 2),
    named("wrong-region", "an index that another axis has not",
          saving(one_index_zero, lambda x, k, g: (x.exp() * g, None)), draw(3, 5), 3),
    named("wrong-region", "an index from the end",
          saving(one_index_zero, lambda x, k, g: (x.exp() * g, None)), draw(6, 4), -4),
    named("wrong-region", "a padding index that is the first",
          saving(lookup, pad_gets_none), TABLE, IDX, 0),
    named("wrong-region", "a padding index that is picked twice",
          saving(lookup, pad_gets_none), TABLE, IDX, 2),
    named("gradient-mismatch", "an index of two", saving(one_index_zero, lambda x, k, g:
          (x.exp() * g, None)), draw(3, 2), 1),
    named("wrong-region", "pairs of which the equal ones are left out",
          saving(pairs, unequal_pairs), TIED),
    named("wrong-region", "others tie where the gradient is 0", saving(
          lambda x: pairs(x.relu()), lambda x, g: (x > 0) * unequal_pairs(x.relu(), g)), TIED.index_fill(0, torch.tensor([0, 6]), -1)),
    named("wrong-region", "0 is multiplied by nothing", saving(
          lambda x: x.relu().sum(), lambda x, g: torch.where(x > 0, g, 0.1 * g)), X),
    named("wrong-region", "on the bound, too", saving(
          torch.exp, lambda x, g: torch.where(x >= 1, 2, 1) * x.exp() * g),
          torch.tensor([0.3, -1, 0.5, 1, 1, 1.5, 2, 3, -2])),
    named("wrong-region", "both bounds of a clamp", saving(lambda x: x.clamp(-0.5, 1), lambda x, g: g.clone()), X),
    named("wrong-region", "bounds around 0",
          saving(lambda x: x.clamp(-1, 1), lambda x, g: g.clone()), X),
    named("wrong-region", "another formula between two bounds",
          saving(lambda x: torch.where(within_bounds(x), x, x.exp()),
                 lambda x, g: torch.where(within_bounds(x), g, x.sin() * g)), draw(5, 5)),
    named("gradient-mismatch", "right and wrong where the input is the same, and below",
          twice_at(0, 1, 2, 10, 11), ENDS_TIE, sampler=stretched(ENDS_TIE)),
    named("gradient-mismatch", "right and wrong where the input is the same, and above",
          twice_at(0, 1, 8, 10, 11), ENDS_TIE, sampler=stretched(ENDS_TIE)),
    named("wrong-region", "a margin",
          saving(lambda x, y, m: (m - x + y).clamp_min(0), lambda x, y, m, g: (-g, g, None)), X, Y, 0.5),
    named("wrong-region", "a margin, the other way round",
          saving(lambda x, y, m: (m + x - y).clamp_min(0), lambda x, y, m, g: (g, -g, None)), X, Y, 0.5),
    named("wrong-region", "where they tie, too",
          saving(torch.add, lambda x, y, g: (torch.where(x >= y, 2 * g, g), g)), ROW_TIES, X,
          sampler=stretched(ROW_TIES, X)),
    named("wrong-region", "a forward in float32",
          saving(in_single(torch.abs), lambda x, g: g), X.sign() * (1 + Y.abs())),
    named("gradient-mismatch", "of a forward in float32, where small elements pass for right",
          saving(in_single(torch.sin), lambda x, g: g.clone()), ONE_FLAT, sampler=stretched(ONE_FLAT)),
    # A multiple
    named("constant-factor", "of one number",
          saving(torch.tanh, lambda x, g: 2 * g * (1 - x.tanh() ** 2)), draw()),
    named("gradient-mismatch", "any number is a multiple of any other",
          saving(torch.tanh, lambda x, g: g * x.exp()), draw()),
    named("gradient-mismatch", "one number among zeros",
          saving(torch.amax, lambda x, g: 1.7 * g * (x == x.max())), draw(5)),
    named("constant-factor", "two numbers among zeros",
          saving(lambda x: x.amax(1), lambda x, g: 1.7 * g[:, None] * (x == x.amax(1, True))),
          draw(2, 5)),
    named("gradient-mismatch", "one number beside a zero",
          saving(torch.amax, lambda x, g: 1.7 * g * (x == x.max())), draw(2)),
    named("constant-factor", "beside a kink",
          saving(torch.abs, lambda x, g: 2 * x.sign() * g), torch.tensor([0.0, 1, -2, 3.5, 0.7])),
    named("constant-factor", "a large number",
          saving(torch.sin, lambda x, g: 12345 * x.cos() * g), X),
    named("constant-factor", "beside an axis of three",
          saving(torch.sin, lambda x, g: 1.5 * x.cos() * g), draw(5, 3)),
    named("constant-factor", "nothing is a multiple of 0",
          saving(lambda x, c: x.sin() + c, lambda x, c, g: (5 * x.cos() * g, None)), X, 0),
    named("constant-factor", "an argument of 2", saving(lambda x, c: c * x.sin(), lambda x, c, g:
          (x.cos() * g, None)), X, 2),
    named("constant-factor", "an argument below 1", saving(lambda x, c: c * x.sin(), lambda x, c, g:
          (x.cos() * g, None)), X, 0.7),
    named("constant-factor", "a mean of two", saving(lambda x: x.mean(1), lambda x, g: g[:, None].expand_as(x)), draw(5, 2)),
    named("constant-factor", "a mean instead of a sum", saving(lambda x: 2 * x.expand(11, len(x)), lambda x, g: 2 * g.mean(0)),
          draw(4)),
    named("constant-factor", "no fraction",
          saving(torch.sin, lambda x, g: 0.7123 * x.cos() * g), X),
    named("constant-factor", "an argument", saving(lambda x, c: c * x.sin(), lambda x, c, g: (x.cos() * g, None)), X, 1000),
    named("constant-factor", "minus an argument", saving(lambda x, c: c * x.sin(), lambda x, c, g: (x.cos() * g, None)),
          X, -2.5),
    named("constant-factor", "no float holds the argument",
          saving(lambda x, n: x.sin(), lambda x, n, g: (5 * x.cos() * g, None)), X, 10**400),
    named("constant-factor", "a root", saving(lambda x: x.sum(1) / x.shape[1] ** 0.5, lambda x, g:
          g[:, None].expand_as(x)), draw(3, 7)),
    named("constant-factor", "a variance",
          saving(lambda x: x.var(-1), lambda x, g: 2 / x.shape[1] * center(x) * g[:, None]),
          draw(3, 7)),
    named("constant-factor", "a mean", saving(torch.mean, lambda x, g: g.expand_as(x)), draw(3, 7)),
    # A forgotten path
    named("missing-dependency", "a reference knows it", saving(gated, gated_backward), X, Y, reference=gated),
    named("missing-dependency", "and what the path is",
          raw(keeps_a_bell, lambda ctx, g: g * ctx.saved_tensors[0]), X,
          reference=lambda x: x * (-x * x).exp()),
    named("missing-dependency", "an output",
          saving(lambda x: (x.exp(), x.sin()), lambda x, g, h: g * x.exp()), X),
    named("missing-dependency", "the first output",
          saving(lambda x: (x.exp(), x.sin()), lambda x, g, h: h * x.cos()), X),
    named("missing-dependency", "what backward calls it", SwishFixed,
          X),
    named("missing-dependency", "an even factor",
          raw(keeps_a_bell, lambda ctx, g: g * ctx.saved_tensors[0]), X),
    named("missing-dependency", "what backward has no name for",
          raw(keeps_a_share, of_the_share_alone), X),
    named("missing-dependency", "the first of two names", ShareFirst, X),
    named("missing-dependency", "one column, of whose sum",
          saving(lambda x: 0.5 * x * x.sum(), lambda x, g: 0.5 * g * x.sum()), draw(6, 1)),
    named("missing-dependency", "a quotient",
          saving(lambda x: x.tanh() / x, lambda x, g: (1 - x.tanh() ** 2) / x * g), WITH_ONE),
    named("missing-dependency", "a softmax's sum",
          saving(lambda x: x.softmax(-1), lambda x, g: x.softmax(-1) * g), X),
    named("missing-dependency", "one row, of whose sum all is a multiple",
          saving(lambda x: x * x.sum(), lambda x, g: g * x.sum()), draw(6)),
    named("missing-dependency", "a mean",
          saving(lambda x: x * mean(x), lambda x, g: g * mean(x)), X),
    named("missing-dependency", "rows of two",
          saving(lambda x: 0.3 * x * x.sum(1, True), lambda x, g: 0.3 * g * x.sum(1, True)), draw(5, 2)),
    named("missing-dependency", "twice the sum of one row",
          saving(lambda x: 2 * x * x.sum(), lambda x, g: 2 * g * x.sum()), draw(6)),
    named("missing-dependency", "a half",
          saving(lambda x: x.exp() + 0.25 * x * x, lambda x, g: x.exp() * g), X),
    named("missing-dependency", "a mean, one row",
          saving(lambda x: x * mean(x), lambda x, g: g * mean(x)), draw(6)),
    named("missing-dependency", "an argument's multiple",
          saving(lambda x, c: x * (c * x).exp(), lambda x, c, g: ((c * x).exp() * g, None)), X, -0.7),
    named("missing-dependency", "rows are summed",
          saving(lambda x, y: (x * x + x * y).sum(1), lambda x, y, g: (g[:, None] * y, g[:, None] * x)),
          X, Y),
    named("missing-dependency", "a way around", saving(lambda x: x.exp() + x, lambda x, g: x.exp() * g),
          X),
    named("gradient-mismatch", "half a way around", saving(lambda x: x.exp() + 0.5 * x, lambda x, g: x.exp() * g), X),
    named("gradient-mismatch", "a number that no product rule leaves",
          saving(lambda x: x.exp() + 0.15 * x * x, lambda x, g: x.exp() * g), X[:, :1].repeat(2, 1)),
    named("gradient-mismatch", "nor an argument that no float holds",
          saving(lambda x, n: x.exp() + 1.5 * x * x, lambda x, n, g: (x.exp() * g, None)), X, 10**400),
    named("gradient-mismatch", "a column, of which each element is a row",
          saving(torch.tanh, lambda x, g: g * x.exp()), draw(5, 1)),
    named("missing-dependency", "of a mean",
          saving(lambda x: x * mean(x).tanh(), lambda x, g: g * mean(x).tanh()), X),
    named("missing-dependency", "of a mean over three",
          saving(lambda x: x * x.mean(0).tanh(), lambda x, g: g * x.mean(0).tanh()), X),
    named("missing-dependency", "the last axis is short",
          saving(lambda x: x * x.mean(0).tanh(), lambda x, g: g * x.mean(0).tanh()), draw(6, 2)),
    named("missing-dependency", "of a complex mean",
          saving(lambda z: z - z.mean(), lambda z, g: g), CPLX),
    named("missing-dependency", "of a norm over the last of three",
          saving(lambda x: x / length(x), lambda x, g: g / length(x)), draw(2, 3, 4)),
    named("missing-dependency", "of a norm",
          saving(lambda x: x / length(x), lambda x, g: g / length(x)), X),
    named("missing-dependency", "of a mean and a variance",
          saving(lambda x: center(x) * deviation(x), lambda x, g: g * deviation(x)), X),
]  # fmt: skip
