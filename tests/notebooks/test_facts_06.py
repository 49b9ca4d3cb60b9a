"""Facts about PyTorch in lesson 06. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from made import leaf, make
from torch import Tensor
from torch.autograd import Function, grad, gradcheck, gradgradcheck
from torch.autograd.function import once_differentiable
from torch.autograd.functional import hessian
from torch.nn.functional import softplus

pytestmark = pytest.mark.slow


def saving(backward: Callable[..., Any], forward: Callable[[Tensor], Tensor] = torch.exp) -> Any:
    """Return a Function that saves its input. Its backward is ``backward(x, g)``."""

    def method(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return forward(x)

    return make(method, lambda ctx, g: backward(ctx.saved_tensors[0], g))


def keeping_its_slope(
    forward: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]
) -> type[Function]:
    """Return a Function that computes its derivative in forward and saves it."""

    def method(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(slope(x))
        return forward(x)

    return make(method, lambda ctx, g: g.unsqueeze(-1) * ctx.saved_tensors[0])


LogSumExp = keeping_its_slope(lambda x: torch.logsumexp(x, -1), lambda x: torch.softmax(x, -1))


# When backward is recorded


@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_mode_is_on_in_backward_if_and_only_if_create_graph(create_graph: bool) -> None:
    modes: list[bool] = []

    def backward(x: Tensor, g: Tensor) -> Tensor:
        modes.append(torch.is_grad_enabled())
        return g * x.exp()

    x = leaf(1.0)
    (first,) = grad(saving(backward).apply(x).sum(), x, create_graph=create_graph)

    assert modes == [create_graph]
    assert first.requires_grad is create_graph


@pytest.mark.parametrize("retain_graph", [False, True])
def test_grad_mode_is_off_in_backward_without_create_graph_retained_or_not(
    retain_graph: bool,
) -> None:
    modes: list[bool] = []
    f = saving(lambda x, g: (modes.append(torch.is_grad_enabled()), g * x.exp())[1])
    f.apply(leaf(1.0)).sum().backward(retain_graph=retain_graph)

    assert modes == [False]


def test_grad_mode_is_off_in_setup_context_so_what_it_computes_is_a_constant() -> None:
    modes: list[bool] = []

    class Sigmoid(Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return softplus(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            modes.append(torch.is_grad_enabled())
            ctx.save_for_backward(torch.sigmoid(*inputs))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * ctx.saved_tensors[0]

    assert not gradgradcheck(Sigmoid.apply, leaf(1.0), raise_exception=False)
    assert not any(modes)


def test_grad_mode_is_always_on_in_backward_under_torch_func_grad() -> None:
    modes: list[bool] = []

    class Cube(Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x**3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            modes.append(torch.is_grad_enabled())
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    assert torch.func.grad(Cube.apply)(torch.tensor(2.0)) == 12
    assert modes == [True]


# What carries a graph


def test_saved_inputs_and_outputs_have_a_graph_and_intermediates_have_none() -> None:
    seen: list[str | None] = []

    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = softplus(x)
        ctx.save_for_backward(x, torch.sigmoid(x), y, y.clone(), y.unsqueeze(-1))
        return y

    def backward(ctx: Any, g: Tensor) -> Tensor:
        seen.extend(t.grad_fn.name() if t.grad_fn else None for t in ctx.saved_tensors)
        return g

    x = leaf(1.0)
    grad(make(forward, backward).apply(2 * x).sum(), x, create_graph=True)

    assert seen == ["MulBackward0", None, "MadeBackward", None, None]


def test_a_saved_intermediate_makes_the_second_derivative_incomplete() -> None:
    f = keeping_its_slope(lambda x: x.sum(-1) ** 3, lambda x: 3 * x**2)
    x = leaf(1.0)
    (first,) = grad(f.apply(x) ** 2 / 2, x, create_graph=True)
    (second,) = grad(first.sum(), x)

    assert (first.item(), second.item()) == (3, 9)  # 15 is right


def test_the_hessian_of_a_logsumexp_with_a_saved_softmax_is_all_zeros() -> None:
    x = leaf(0.0, 1.0, 2.0)

    assert gradcheck(LogSumExp.apply, x)
    assert not gradgradcheck(LogSumExp.apply, x, raise_exception=False)
    assert not hessian(LogSumExp.apply, x.detach()).any()


def test_strict_hessian_raises_at_no_graph_and_accepts_an_incomplete_one() -> None:
    x = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    with pytest.raises(RuntimeError, match="is independent of the input"):
        hessian(LogSumExp.apply, x, strict=True)

    found = hessian(lambda x: LogSumExp.apply(x) ** 2, x, strict=True)
    right = hessian(lambda x: torch.logsumexp(x, -1) ** 2, x)
    assert not torch.allclose(found, right)


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(lambda x: x.detach(), id="detach"),
        pytest.param(lambda x: x.data, id="data"),
        pytest.param(lambda x: torch.from_numpy(x.detach().numpy()), id="numpy"),
    ],
)
def test_gradcheck_passes_a_backward_that_cuts_its_graph_and_gradgradcheck_does_not(
    cut: Callable[[Tensor], Tensor],
) -> None:
    f = saving(lambda x, g: g * cut(x).exp()).apply
    x = leaf(0.3, 1.0)

    assert gradcheck(f, x)
    assert not gradgradcheck(f, x, raise_exception=False)


# Repairs


def two_outputs(*, uses_both: bool) -> Callable[[Tensor], Tensor]:
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        s = torch.sigmoid(x)
        ctx.save_for_backward(s)
        return softplus(x), s

    def backward(ctx: Any, g: Tensor, g_s: Tensor) -> Tensor:
        (s,) = ctx.saved_tensors
        return s * g + (s * (1 - s) * g_s if uses_both else 0)

    made = make(forward, backward)
    return lambda x: made.apply(x)[0]


def by_a_second_function() -> Callable[[Tensor], Tensor]:
    def inner_forward(ctx: Any, g: Tensor, x: Tensor, s: Tensor) -> Tensor:
        ctx.save_for_backward(g, x)
        return g * s

    def inner_backward(ctx: Any, h: Tensor) -> tuple[Tensor, Tensor, None]:
        g, x = ctx.saved_tensors
        s = torch.sigmoid(x)
        return h * s, h * g * s * (1 - s), None

    inner = make(inner_forward, inner_backward)

    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x, torch.sigmoid(x))
        return softplus(x)

    applied: Any = make(forward, lambda ctx, g: inner.apply(g, *ctx.saved_tensors)).apply
    return applied  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "repaired",
    [
        pytest.param(saving(lambda x, g: g * x.sigmoid(), softplus).apply, id="recompute"),
        pytest.param(two_outputs(uses_both=True), id="one more output"),
        pytest.param(by_a_second_function(), id="a second Function"),
    ],
)
def test_a_repaired_function_has_four_right_derivatives(
    repaired: Callable[[Tensor], Tensor],
) -> None:
    def derivatives(f: Callable[[Tensor], Tensor]) -> list[Tensor]:
        x = leaf(0.7)
        value, found = f(x), []
        for _ in range(4):
            (value,) = grad(value.sum(), x, create_graph=True)
            found.append(value.detach())
        return found

    torch.testing.assert_close(derivatives(repaired), derivatives(softplus))
    assert gradgradcheck(repaired, leaf(-1.0, 2.0))


def test_the_gradient_of_an_extra_output_may_not_be_left_out() -> None:
    assert not gradgradcheck(two_outputs(uses_both=False), leaf(1.0), raise_exception=False)


def test_the_slope_of_arctan_from_its_output_loses_digits_where_x_is_large() -> None:
    x = torch.tensor(1e6)
    right = 1 / (1 + x.double() ** 2)

    assert abs(torch.atan(x).cos() ** 2 / right - 1) > 0.05
    assert abs(1 / (1 + x**2) / right - 1) < 1e-6


# Hessian-vector products


@pytest.mark.parametrize("size", [4, 100])
def test_a_hessian_vector_product_calls_backward_twice_and_the_matrix_once_a_row(size: int) -> None:
    calls: list[None] = []

    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.logsumexp(x, -1)
        ctx.save_for_backward(x, y)
        return y

    def backward(ctx: Any, g: Tensor) -> Tensor:
        calls.append(None)
        x, y = ctx.saved_tensors
        return g * torch.exp(x - y)

    f: Any = make(forward, backward).apply
    x, v = leaf(*range(size)), leaf(*range(size)).detach()
    (g,) = grad(f(x), x, create_graph=True)
    (product,) = grad(g @ v, x)
    assert len(calls) == 2

    calls.clear()
    torch.testing.assert_close(hessian(f, x.detach()) @ v, product)
    assert len(calls) == 1 + size


def test_grad_raises_at_an_input_without_influence_and_materialize_grads_returns_zeros() -> None:
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        grad((x**2).sum(), (x, y))

    assert grad((x**2).sum(), (x, y), materialize_grads=True)[1].item() == 0


def test_a_constant_gradient_raises_as_an_output_and_does_no_harm_in_a_sum() -> None:
    x, y = leaf(1.0), leaf(2.0)
    of_x, of_y = grad((x**3 + 2 * y).sum(), (x, y), create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad((of_x, of_y), x, grad_outputs=(torch.ones_like(x), torch.ones_like(y)))

    assert grad((of_x + of_y).sum(), x)[0].item() == 6


# once_differentiable

OnceCube = make(
    saving(None, lambda x: x**3).forward,  # type: ignore[arg-type]
    once_differentiable(lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g),
)


def test_once_differentiable_turns_grad_mode_off_in_backward() -> None:
    modes: list[bool] = []

    def backward(ctx: Any, g: Tensor) -> Tensor:
        modes.append(torch.is_grad_enabled())
        return g

    x = leaf(1.0)
    grad(make(lambda ctx, x: x * 1, once_differentiable(backward)).apply(x), x, create_graph=True)
    assert modes == [False]


def test_once_differentiable_raises_in_backward_where_g_requires_grad() -> None:
    x = leaf(1.0)
    (first,) = grad((OnceCube.apply(x) ** 2).sum(), x, create_graph=True)

    assert first.requires_grad
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        first.sum().backward()


def test_behind_a_sum_once_differentiable_leaves_no_graph_and_a_penalty_is_dropped() -> None:
    x = leaf(1.0)
    (first,) = grad(OnceCube.apply(x).sum(), x, create_graph=True)

    assert not first.requires_grad
    (x + first**2).sum().backward()
    assert x.grad.item() == 1  # 37 is right


def test_autograd_grad_drops_what_once_differentiable_would_raise_at() -> None:
    x = leaf(1.0)
    (first,) = grad((OnceCube.apply(x) ** 2 / 2).sum(), x, create_graph=True)

    assert first.requires_grad
    assert grad((x + first**2).sum(), x)[0].item() == 1  # 91 is right


def test_backward_by_inputs_drops_it_too() -> None:
    x = leaf(1.0)
    (first,) = grad((OnceCube.apply(x) ** 2 / 2).sum(), x, create_graph=True)
    (x + first**2).sum().backward(inputs=[x])

    assert x.grad.item() == 1


def test_gradgradcheck_does_not_pass_once_differentiable() -> None:
    assert not gradgradcheck(OnceCube.apply, leaf(1.0, 2.0), raise_exception=False)


@pytest.mark.parametrize("weight", [1.0, 2.0])
@pytest.mark.parametrize("by_grad", [False, True])
def test_behind_a_linear_loss_once_differentiable_never_raises(
    weight: float, by_grad: bool
) -> None:
    x = leaf(1.0)
    (first,) = grad((weight * OnceCube.apply(x)).sum(), x, create_graph=True)
    total = (x + first**2).sum()
    if by_grad:
        (found,) = grad(total, x)
    else:
        total.backward()
        found = x.grad

    assert found.item() == 1


# The fast path


def test_in_place_arithmetic_in_backward_raises_when_differentiated_again() -> None:
    in_place = saving(lambda x, g: torch.sigmoid(x).mul_(g), softplus)
    x = leaf(1.0)
    (first,) = grad((in_place.apply(x) ** 2).sum(), x, create_graph=True)

    assert gradcheck(in_place.apply, x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        grad(first.sum(), x)


def test_a_fast_path_where_grad_mode_is_off_keeps_both_orders_right() -> None:
    def backward(x: Tensor, g: Tensor) -> Tensor:
        return x.sigmoid() * g if torch.is_grad_enabled() else x.sigmoid().mul_(g)

    f = saving(backward, softplus).apply
    assert gradcheck(f, leaf(1.0, -2.0))
    assert gradgradcheck(f, leaf(1.0, -2.0))


# Forward mode


# torch's deprecated torch.jit.script compiles torch's own forward-mode decompositions.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_a_right_jvp_does_not_serve_double_backward() -> None:
    class Softplus(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            s = torch.sigmoid(x)
            ctx.save_for_backward(s)
            ctx.save_for_forward(s)
            return softplus(x)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx: Any, tangent: Tensor) -> Tensor:
            return tangent * ctx.saved_tensors[0]

    x = leaf(0.3, -1.0)
    assert gradcheck(Softplus.apply, x, check_forward_ad=True)
    assert not gradgradcheck(Softplus.apply, x, raise_exception=False)


class Composite(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return softplus(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * ctx.saved_tensors[0].sigmoid()


class CompositeWithJvp(Composite):
    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return tangent * ctx.saved_tensors[0].sigmoid()


def forward_over_reverse(function: type[Function], x: Tensor, v: Tensor) -> Tensor:
    gradient = torch.func.grad(lambda x: function.apply(x).square().sum())
    product: Tensor = torch.func.jvp(gradient, (x,), (v,))[1]
    return product


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_forward_over_reverse_needs_a_jvp_and_agrees_with_reverse_over_reverse() -> None:
    x, v = torch.tensor([0.3, -1.0]), torch.tensor([1.0, 2.0])
    with pytest.raises(NotImplementedError, match="must implement the jvp function"):
        forward_over_reverse(Composite, x, v)

    right = hessian(lambda x: softplus(x).square().sum(), x) @ v
    torch.testing.assert_close(forward_over_reverse(CompositeWithJvp, x, v), right)


# Penalties


@pytest.mark.parametrize(
    ("saves", "decorated", "create_graph", "right"),
    [
        pytest.param("x", False, True, True, id="recomputed"),
        pytest.param("p", False, True, False, id="softmax saved"),
        pytest.param("x", True, True, False, id="once_differentiable"),
        pytest.param("x", False, False, False, id="without create_graph"),
    ],
)
def test_a_penalty_has_the_right_value_and_reaches_the_bias_only_by_a_recorded_softmax(
    saves: str, decorated: bool, create_graph: bool, right: bool
) -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x if saves == "x" else torch.softmax(x, -1))
        return torch.logsumexp(x, -1)

    def backward(ctx: Any, g: Tensor) -> Tensor:
        (saved,) = ctx.saved_tensors
        return g.unsqueeze(-1) * (torch.softmax(saved, -1) if saves == "x" else saved)

    def penalty_and_bias_gradient(f: Callable[[Tensor], Tensor], **options: bool) -> list[Tensor]:
        weight, bias = leaf(*range(6)), leaf(0.0, 1.0, 0.5)
        x = leaf(0.3, -0.2)
        (slope,) = grad(f(weight.reshape(3, 2) @ x + bias), x, **options)
        penalty = slope.square().sum()
        return [penalty.detach(), grad(penalty + 0 * bias.sum(), bias)[0]]

    f: Any = make(forward, once_differentiable(backward) if decorated else backward).apply
    value, found = penalty_and_bias_gradient(f, create_graph=create_graph)
    expected = penalty_and_bias_gradient(lambda x: torch.logsumexp(x, -1), create_graph=True)

    torch.testing.assert_close(value, expected[0])
    assert torch.allclose(found, expected[1]) is right
    assert bool(found.any()) is right


def penalty(**options: bool) -> tuple[Tensor, Tensor]:
    weight = leaf(2.0)
    x = leaf(3.0)
    energy = (weight * x**2).sum()
    (slope,) = grad(energy, x, **options)
    (0 * energy + slope.square().sum()).backward()
    return slope, weight.grad


def test_without_create_graph_one_graph_raises_and_suggests_retain_graph() -> None:
    with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
        penalty()


@pytest.mark.parametrize(
    ("options", "arrives"), [({"retain_graph": True}, 0), ({"create_graph": True}, 144)]
)
def test_a_penalty_arrives_by_create_graph_and_not_by_retain_graph(
    options: dict[str, bool], arrives: float
) -> None:
    slope, by_weight = penalty(**options)

    assert slope.requires_grad is ("create_graph" in options)
    assert by_weight.item() == arrives  # ∂(2wx)²/∂w = 8wx²
