"""Each reference Function has the same values and gradients as an operation of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cases.making import CPLX, IDX, TABLE, X, Y, draw
from reference_calls import (
    DECLARED_CALLS,
    DIAGNOSED_CALLS,
    INF,
    MASKED,
    REFERENCE_CALLS,
    ROWS,
    TIES,
    TRIANGLE,
    clamp,
    on_the_grid,
    second_order,
    soft_sample,
)
from torch import Tensor

from autograd_course import functions as fn
from autograd_course.functions.noise import gumbel_noise

Outputs = Tensor | tuple[Tensor, ...]


def straight_through(forward: Callable[..., Tensor], backward: Callable[..., Tensor]) -> Any:
    """Return a function with the values of one operation and the gradients of another."""

    def call(*args: Any) -> Tensor:
        soft = backward(*args)
        return soft + (forward(*args) - soft).detach()

    return call


def sign(x: Tensor, *_: Any) -> Tensor:
    return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


def one_hot(logits: Tensor, noise: Tensor, *_: Any) -> Tensor:
    return F.one_hot((logits + noise).argmax(-1), logits.shape[-1]).to(logits.dtype)


def on_grid(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    return (x / step).round().clamp(low, high) * step


def gumbel(logits: Tensor, noise: Tensor, temperature: float = 1.0, hard: bool = False) -> Tensor:
    return soft_sample(logits, noise, temperature, hard)


def polar(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return torch.sqrt(x**2 + y**2), torch.atan2(y, x)


def soft_ranks(x: Tensor, temperature: float = 1.0) -> Tensor:
    return 0.5 + ((x[..., :, None] - x[..., None, :]) / temperature).sigmoid().sum(-1)


def standardized(x: Tensor, dim: int | tuple[int, ...] = 0, eps: float = 1e-5) -> Tensor:
    return (x - x.mean(dim, keepdim=True)) / (x.var(dim, correction=0, keepdim=True) + eps).sqrt()


def iterated(x: Tensor, weight: Tensor) -> Tensor:
    z = torch.zeros_like(x)
    for _ in range(100):
        z = torch.tanh(z @ weight.t() + x)
    return z


def newton(x: Tensor) -> Tensor:
    w = torch.log1p(x)
    for _ in range(30):
        w = w - (w - x * torch.exp(-w)) / (1 + w)
    return w


def solved(T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
    return torch.linalg.solve_triangular(T, B, upper=not lower)


def sort(x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
    return tuple(torch.sort(x, dim=-1, descending=descending, stable=True))


def shrunken(x: Tensor, threshold: Tensor) -> Tensor:
    return F.relu(x - threshold) - F.relu(-x - threshold)


def smooth_maximum(x: Tensor, t: Tensor) -> Tensor:
    return t * torch.logsumexp(x / t, -1)


def leaky(x: Tensor, slope: float = 0.01) -> Tensor:
    return F.leaky_relu(x, slope)


EARLY = torch.tensor([[0.5, 2.0, 1.0], [3.0, 0.0, 1.0]])  # the last one is never the largest
NOT_ON_THE_GRID = torch.tensor([-2.0, -1.45, -1.2, -0.7, 0.0, 0.2, 0.65, 0.9, 1.3])

# A Function, its arguments, and the PyTorch operation that takes the same arguments.
CALLS: list[tuple[Any, tuple[Any, ...], Callable[..., Outputs]]] = [
    (fn.Square, (X,), torch.square),
    (fn.Square, (CPLX,), torch.square),
    (fn.ScaledSigmoid, (X, -2.0, 1.5), lambda x, gain, slope: gain * torch.sigmoid(slope * x)),
    (fn.ScaledSigmoid, (X,), torch.sigmoid),
    (fn.WeightedSum, (X, Y, draw(3, 4, seed=9)), lambda x, y, w: torch.lerp(y, x, w)),
    (fn.ClippedReLU, (torch.tensor([-1.0, 0.0, 5.5, 6.0, 6.5]),), F.relu6),
    (fn.ClippedReLU, (5 * X, 2.0), lambda x, ceiling: x.clamp(0, ceiling)),
    (fn.LeakyReLUInPlace, (X,), leaky),
    (fn.LeakyReLUInPlace, (torch.tensor([-1.0, 0.0, 1.0]), 2.0), leaky),
    (fn.Sort, (draw(3, 5),), sort),
    (fn.Sort, (draw(2, 3, 4),), sort),
    (fn.Sort, (TIES,), sort),
    (fn.Sort, (TIES, True), sort),
    (fn.Sort, (draw(2, 40).round(),), sort),
    (fn.GumbelSoftmax, (X, Y), gumbel),
    (fn.GumbelSoftmax, (X, Y, 0.7), gumbel),
    (fn.GumbelSoftmax, (X, Y, 0.7, True), straight_through(one_hot, gumbel)),
    (
        fn.GumbelSoftmax,
        (draw(2, 1, 4), draw(2, 1, 4, seed=1), 1, True),
        straight_through(one_hot, gumbel),
    ),
    (fn.GumbelSoftmax, (EARLY, 0 * EARLY, 1, True), straight_through(one_hot, gumbel)),
    (fn.ReinMax, (EARLY, 0 * EARLY), straight_through(one_hot, second_order)),
    (fn.ReinMax, (X, Y), straight_through(one_hot, second_order)),
    (fn.ReinMax, (draw(2, 1, 4), draw(2, 1, 4, seed=1)), straight_through(one_hot, second_order)),
    (fn.Linear, (draw(2, 3, 4), draw(5, 4), draw(5)), F.linear),
    (fn.Linear, (X, draw(5, 4)), F.linear),
    (fn.Linear, (X, draw(5, 4), None), F.linear),
    (fn.ToPolar, (X, Y), polar),
    (fn.Sinh, (X,), torch.sinh),
    (fn.Softplus, (X,), F.softplus),
    (fn.Multiply, (draw(2, 1, 4), draw(3, 1, seed=1)), torch.mul),
    (fn.Multiply, (X, draw(seed=1)), torch.mul),
    (fn.Multiply, (X[:2], X[:1]), torch.mul),
    (fn.Multiply, (CPLX, CPLX[:1] + 1), torch.mul),
    (fn.MatMul, (X, draw(4, 5)), torch.matmul),
    (fn.MatMul, (CPLX[None], CPLX[:, None]), torch.matmul),
    (fn.MatMul, (draw(2, 1, 3, 4), draw(5, 4, 2, seed=1)), torch.matmul),
    (fn.Max, (X,), lambda x: x.amax(-1)),
    (fn.Max, (TIES,), lambda x: x.amax(-1)),
    (fn.Max, (draw(4), -1, True), torch.amax),
    (fn.Max, (draw(),), lambda x: x.amax(-1)),
    (fn.Max, (draw(2, 3, 4), (0, -1), True), torch.amax),
    (fn.Max, (draw(2, 3, 4), (0, -1)), torch.amax),
    (fn.Softmax, (X,), lambda x: torch.softmax(x, -1)),
    (fn.Softmax, (X, 0), torch.softmax),
    (fn.LogSumExp, (X,), lambda x: torch.logsumexp(x, -1)),
    (fn.LogSumExp, (500 * X,), lambda x: torch.logsumexp(x, -1)),
    (fn.LogSumExp, (MASKED[:1],), lambda x: torch.logsumexp(x, -1)),
    (fn.LogSumExp, (draw(2, 3, 4), (0, -1), True), torch.logsumexp),
    (fn.LogSumExp, (draw(2, 3, 4), 1), torch.logsumexp),
    (fn.Standardize, (draw(6, 3),), standardized),
    (fn.Standardize, (draw(6, 3) / 100,), standardized),
    (fn.Standardize, (draw(3, 2, 4), (0, 2), 0.1), standardized),
    (fn.Conv1d, (draw(2, 3, 7), draw(4, 3, 3, seed=1)), F.conv1d),
    (
        fn.Conv1d,
        (draw(2, 4, 8), draw(6, 2, 3, seed=1), 2, 1, 2),
        lambda x, w, stride, padding, groups: F.conv1d(x, w, None, stride, padding, 1, groups),
    ),
    (fn.LocalResponseNorm, (draw(2, 5, 2), 3, 1.0), F.local_response_norm),
    (fn.LocalResponseNorm, (draw(2, 5, 2), 3), F.local_response_norm),
    (fn.LocalResponseNorm, (draw(1, 4), 1, 1.0), lambda x, *_: x * (1 + x**2) ** -0.75),
    (fn.LocalResponseNorm, (draw(2, 0, 3), 3), lambda x, n: x),
    (fn.LocalResponseNorm, (draw(1, 4, 1), 4, 2.0, 0.5, 0.7), F.local_response_norm),
    (fn.Lookup, (draw(4, 3), ROWS), lambda table, rows: F.embedding(rows, table)),
    (fn.Lookup, (TABLE[:, 0], IDX), torch.take),
    (fn.Swish, (3 * X,), F.silu),
    (fn.LearnedSwish, (X, draw(4, seed=1)), lambda x, beta: x * torch.sigmoid(beta * x)),
    (fn.LearnedSwish, (X, draw()), lambda x, beta: x * torch.sigmoid(beta * x)),
    (fn.GELU, (2 * X,), F.gelu),
    (fn.SoftThreshold, (2 * X, draw(3, 1, seed=1).abs()), shrunken),
    (fn.SoftThreshold, (torch.tensor([-0.5, 0.0, 0.5, 1.0]), torch.tensor(0.5)), shrunken),
    (fn.SoftRank, (draw(2, 4),), soft_ranks),
    (fn.SoftRank, (draw(2, 1, 4), 0.5), soft_ranks),
    (fn.SmoothMaximum, (draw(2, 3, 4), torch.tensor(0.7)), smooth_maximum),
    (fn.SmoothMaximum, (X, torch.tensor(0.7)), smooth_maximum),
    (fn.PackedReLU, (X,), F.relu),
    (fn.LinearReLU, (draw(2, 3, 4), draw(5, 4), draw(5)), lambda *a: F.relu(F.linear(*a))),
    (fn.LinearReLU, (X, draw(5, 4), None, "sign"), lambda x, w, *_: F.relu(F.linear(x, w))),
    (fn.AddReLU, (X, draw(3, 1, seed=9)), lambda a, b: F.relu(a + b)),
    (fn.LambertW, (X.abs(),), newton),
    (fn.Equilibrium, (X, draw(4, 4, seed=3) / 30), iterated),
    (fn.TriangularSolve, (TRIANGLE, X.t()), solved),
    (fn.TriangularSolve, (TRIANGLE, X.t()[:, :1], False), solved),
    (fn.GradientReversal, (X,), straight_through(torch.clone, torch.neg)),
    (fn.GradientReversal, (X, 0.3), straight_through(lambda x, _: x, lambda x, s: -s * x)),
    (fn.SignSTE, (torch.tensor([-2.0, 0.0, 2.0]),), straight_through(sign, torch.clone)),
    (fn.RoundSTE, (torch.tensor([-1.6, 0.5, 1.5]),), straight_through(torch.round, torch.clone)),
    (
        fn.ClippedSTE,
        (torch.tensor([-1.5, -1.0, 0.0, 1.0, 1.1]),),
        straight_through(sign, lambda x: clamp(x, -1, 1)),
    ),
    (fn.ClippedSTE, (X, 0.5), straight_through(sign, lambda x, bound: clamp(x, -bound, bound))),
    (
        fn.FakeQuantize,
        (NOT_ON_THE_GRID, torch.tensor(0.3), -4, 3),
        straight_through(on_grid, on_the_grid),
    ),
    (
        fn.FakeQuantize,
        (torch.tensor([-1.0, 1.5, 2.0]), torch.tensor([0.5]), -2, 3),
        straight_through(on_grid, on_the_grid),
    ),
    (fn.FakeQuantize, (X, torch.tensor([0.5]), 0, 3), straight_through(on_grid, on_the_grid)),
]


def is_differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def upstream(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Return a random cotangent for each output."""
    with torch.device("cpu"):
        dtypes = [out.dtype if is_differentiable(out) else torch.float32 for out in outputs]
        return [draw(*o.shape, seed=7, dtype=d) for o, d in zip(outputs, dtypes, strict=True)]


def grads(
    function: Callable[..., Outputs], inputs: Sequence[Any], asking: Sequence[int]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the outputs, and the gradients of the inputs that require one."""
    leaves = list(inputs)
    for at in asking:
        leaves[at] = inputs[at].detach().clone().requires_grad_()
    # Use copies, because an in-place operation must not change a leaf.
    found = function(*(a.clone() if isinstance(a, Tensor) else a for a in leaves))
    outputs = tuple(found) if isinstance(found, tuple) else (found,)
    pulled = [out for out in outputs if is_differentiable(out)]
    ups = upstream(pulled)
    return outputs, torch.autograd.grad(pulled, [leaves[at] for at in asking], ups)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0].__name__)
def test_values_and_gradients_are_those_of_pytorchs_own_operation(call, dtype) -> None:
    function, inputs, own = call
    cast = [v.to(dtype) if isinstance(v, Tensor) and v.is_floating_point() else v for v in inputs]
    asking = [at for at, value in enumerate(cast) if is_differentiable(value)]
    if function is fn.ReinMax or function is fn.Sort:
        asking = asking[:1]
    for wanted in [asking, *([at] for at in asking if len(asking) > 1)]:
        outputs, found = grads(function.apply, cast, wanted)
        expected_outputs, expected = grads(own, cast, wanted)
        torch.testing.assert_close(outputs, expected_outputs)
        torch.testing.assert_close(found, expected)


SEVERAL = [
    (function, inputs, at)
    for function, inputs, _ in CALLS
    for at, value in enumerate(inputs)
    if is_differentiable(value) and sum(map(is_differentiable, inputs)) > 1
    # ReinMax's noise has no gradient. The gradient of a triangular solve needs the output.
    if (function, at) not in {(fn.ReinMax, 1), (fn.TriangularSolve, 0)}
]


@pytest.mark.parametrize("call", SEVERAL, ids=lambda call: call[0].__name__)
def test_only_the_input_that_asks_has_a_gradient_computed(call) -> None:
    function, inputs, at = call
    asking = [v.clone().requires_grad_(i == at) if is_differentiable(v) else v
              for i, v in enumerate(inputs)]  # fmt: skip
    found = function.apply(*asking)
    outputs = found if isinstance(found, tuple) else (found,)
    node = outputs[0].grad_fn
    given = node._forward_cls.backward(node, *map(torch.ones_like, outputs))

    assert [i for i, gradient in enumerate(given) if gradient is not None] == [at]
    assert len(given) <= len({*signature(function.forward).parameters} - {"ctx"})


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0].__name__)
def test_new_tensors_are_made_where_the_inputs_are(call) -> None:
    function, inputs, _ = call
    outputs, (gradient,) = grads(function.apply, inputs, [0])
    with torch.device("meta"):  # call it directly: the engine runs backward outside this block
        found = function.apply(inputs[0].clone().requires_grad_() * 1, *inputs[1:])
        elsewhere = tuple(found) if isinstance(found, tuple) else (found,)
        node = elsewhere[0].grad_fn
        given = node._forward_cls.backward(node, *upstream(elsewhere))

    torch.testing.assert_close(elsewhere, outputs)
    torch.testing.assert_close(given[0] if isinstance(given, tuple) else given, gradient)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "call",
    [*REFERENCE_CALLS, *DIAGNOSED_CALLS, *DECLARED_CALLS],
    ids=lambda call: call[0].__name__,
)
def test_the_default_dtype_changes_nothing(call, dtype) -> None:
    function, inputs, *_ = call
    cast = [v.to(dtype) if isinstance(v, Tensor) and v.is_floating_point() else v for v in inputs]
    run = getattr(function, "apply", function)
    expected = grads(run, cast, [0])
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16 if dtype == torch.float64 else torch.float64)
    try:
        found = grads(run, cast, [0])
    finally:
        torch.set_default_dtype(default)

    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # PyTorch's own
def test_forward_mode_has_the_slopes_of_pytorchs_own_operation() -> None:
    at, along = (draw(2, 3, 4), draw()), (draw(2, 3, 4, seed=1), draw(seed=2))

    found = torch.func.jvp(fn.SmoothMaximum.apply, at, along)
    torch.testing.assert_close(found, torch.func.jvp(smooth_maximum, at, along))


def test_dropout_without_dropping_drops_nothing_whatever_is_drawn(monkeypatch) -> None:
    monkeypatch.setattr(torch, "rand", torch.zeros)

    assert torch.equal(fn.PackedDropout.apply(X, 0.0), X)


def test_dropout_drops_half_if_nothing_is_said() -> None:
    with torch.device("meta"), torch.random.fork_rng():
        torch.manual_seed(0)
        y = fn.PackedDropout.apply(torch.ones(4000, device="cpu"))

    assert sorted(y.unique().tolist()) == [0, 2]
    assert 1900 < int(y.count_nonzero()) < 2100


def test_a_row_that_is_masked_altogether_has_no_gradient() -> None:
    (y,), (gradient,) = grads(fn.LogSumExp.apply, [MASKED], [0])

    assert y[1] == -INF
    assert gradient[1].tolist() == [0, 0, 0]


def test_noise_is_gumbels_from_the_generator_that_is_given() -> None:
    like, source = torch.zeros(40_000, dtype=torch.float64), torch.Generator()
    noise = gumbel_noise(like, source.manual_seed(0))

    assert torch.equal(noise, gumbel_noise(like, source.manual_seed(0)))
    assert noise.dtype == like.dtype
    assert math.isclose(noise.mean(), 0.5772, abs_tol=0.03)
    assert math.isclose(noise.var(), math.pi**2 / 6, abs_tol=0.1)
    with torch.device("meta"):
        assert gumbel_noise(like, source).device == like.device


REFUSED = [
    (fn.FakeQuantize, (X, torch.ones(2), 0, 3), ValueError, "one step for all, got 2 of them"),
    (fn.LeakyReLUInPlace, (X, 0.0), ValueError, "needs a positive slope, .* got 0.0"),
    (fn.LeakyReLUInPlace, (X, math.nan), ValueError, "needs a positive slope, .* got nan"),
    (fn.LocalResponseNorm, (draw(4), 3), ValueError, r"\(N, C, …\) and n of 1 .* not \(4,\) and 3"),
    (fn.LocalResponseNorm, (X, 0), ValueError, r"not \(3, 4\) and 0"),
    (fn.MatMul, (X, draw(4)), ValueError, r"two matrices .*, got shapes \(3, 4\) and \(4,\)"),
    (fn.WeightedSum, (X, Y, draw(4)), ValueError, r"shape, got \(3, 4\), \(3, 4\) and \(4,\)"),
    (fn.WeightedSum, (X, draw(4), Y), ValueError, r"shape, got \(3, 4\), \(4,\) and \(3, 4\)"),
    (
        fn.Equilibrium,
        (X, 9 * torch.eye(4).flip(0)),
        RuntimeError,
        "no fixed point .* in 200 rounds",
    ),
]


@pytest.mark.parametrize(("function", "inputs", "kind", "said"), REFUSED)
def test_what_it_cannot_do_is_refused_in_a_sentence(function, inputs, kind, said) -> None:
    with pytest.raises(kind, match=said):
        function.apply(*(v.double() if isinstance(v, Tensor) else v for v in inputs))


def test_at_the_origin_the_angle_sends_no_gradient() -> None:
    x = torch.tensor([0.0, 0.6, -3.0], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0.0, -0.8, 4.0], dtype=torch.float64, requires_grad=True)

    (grad_x, grad_y) = torch.autograd.grad(fn.ToPolar.apply(x, y)[1].sum(), (x, y))

    torch.testing.assert_close(grad_x, torch.tensor([0.0, 0.8, -0.16], dtype=torch.float64))
    torch.testing.assert_close(grad_y, torch.tensor([0.0, 0.6, -0.12], dtype=torch.float64))
