"""Facts about PyTorch in lesson 11. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from made import leaf, make
from torch import Tensor
from torch.autograd import Function, gradcheck
from torch.func import grad, hessian, jvp, vmap

pytestmark = pytest.mark.slow


class Sine(Function):
    """y = sin(ax), with a separate setup_context."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, a: Any) -> Tensor:
        return torch.sin(a * x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, a = ctx.saved_tensors
        return g * a * torch.cos(a * x), (g * x * torch.cos(a * x)).sum()


class SineWithJvp(Sine):
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx: Any, x_tangent: Tensor, a_tangent: Tensor) -> Tensor:
        x, a = ctx.saved_tensors
        return torch.cos(a * x) * (a * x_tangent + x * a_tangent)


def like_sine(**methods: Callable[..., Any]) -> type[Function]:
    statics = {name: staticmethod(method) for name, method in methods.items()}
    return type("Like", (Sine,), statics)


A = torch.tensor(2.0, dtype=torch.float64)
X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)


# torch.func and vmap


def test_torch_func_refuses_a_combined_forward_and_names_setup_context() -> None:
    combined = make(lambda ctx, x: x.sin(), lambda ctx, g: g)
    for transform in (grad, lambda f: vmap(f)):
        with pytest.raises(RuntimeError, match="must override the setup_context"):
            transform(lambda x: combined.apply(x).sum())(X)


def test_a_generated_rule_calls_forward_and_backward_once_with_the_shape_of_a_sample() -> None:
    seen: list[Any] = []

    def forward(x: Tensor, a: Tensor) -> Tensor:
        seen.append(tuple(x.shape))
        return Sine.forward(x, a)

    def backward(ctx: Any, g: Tensor) -> Any:
        seen.append(tuple(g.shape))
        return Sine.backward(ctx, g)

    f = like_sine(forward=forward, backward=backward)
    of_shared = vmap(grad(lambda a, x: f.apply(x, a).sum()), in_dims=(None, 0))(A, X)

    assert seen == [(3,), (3,)]
    torch.testing.assert_close(of_shared, (X * torch.cos(A * X)).sum(1))


# What setup_context receives


def test_setup_context_gets_all_arguments_with_defaults_and_grad_mode_is_off() -> None:
    seen: list[Any] = []

    def forward(x: Tensor, keep: float = 0.8) -> Tensor:
        return keep * x

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        seen.append((len(inputs), inputs[1], torch.is_grad_enabled(), type(output)))

    f = like_sine(forward=forward, setup_context=setup_context)
    f.apply(X.clone().requires_grad_())
    f.apply(X)  # no input requires grad

    assert seen == [(2, 0.8, False, Tensor)] * 2


# An intermediate value for backward


def returned(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs, output[1])


def saved_in_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs, torch.cos(inputs[1] * inputs[0]))


def by_cosine(ctx: Any, g: Tensor, *_: Any) -> Any:
    x, a, cosine = ctx.saved_tensors
    return g * a * cosine, (g * x * cosine).sum(), *(None,) * (len(ctx.needs_input_grad) - 2)


RETURNED = like_sine(
    forward=lambda x, a: (torch.sin(a * x), torch.cos(a * x)),
    setup_context=returned,
    backward=by_cosine,
)
IN_SETUP = like_sine(setup_context=saved_in_setup, backward=by_cosine)
GIVEN = like_sine(forward=lambda x, a, cosine: torch.sin(a * x), backward=by_cosine)


@pytest.mark.parametrize(
    ("call", "right_twice"),
    [
        (lambda x, a: RETURNED.apply(x, a)[0], False),
        (lambda x, a: IN_SETUP.apply(x, a), False),
        (lambda x, a: Sine.apply(x, a), True),
        (lambda x, a: GIVEN.apply(x, a, torch.cos(a * x)), True),
    ],
    ids=["returned and marked", "saved by setup_context", "computed in backward", "passed in"],
)
def test_how_backward_can_get_an_intermediate_and_what_the_second_derivative_is_then(
    call: Callable[[Tensor, Tensor], Tensor], right_twice: bool
) -> None:
    by_shared = vmap(grad(lambda a, x: call(x, a).sum()), in_dims=(None, 0))(A, X)
    torch.testing.assert_close(by_shared, (X * torch.cos(A * X)).sum(1))

    slope = grad(lambda x: call(x, A).sum())
    torch.testing.assert_close(slope(X), A * torch.cos(A * X))
    bend = grad(lambda x: slope(x).sum())(X)
    assert torch.allclose(bend, -A * A * torch.sin(A * X)) == right_twice


# The limits of a generated rule


def into_new_zeros(x: Tensor, a: Tensor) -> Tensor:
    y = torch.zeros(3, dtype=x.dtype)
    y += x
    return y


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda x, a: x if x.max() > 0 else -x, "data-dependent control flow"),
        (lambda x, a: torch.from_numpy(np.sin(x.numpy())), "data pointer"),
        (into_new_zeros, "doesn't match the broadcast shape"),
        (lambda x, a: x * torch.rand_like(x), "randomness"),
    ],
    ids=["branch", "numpy", "in place", "random"],
)
def test_what_a_generated_rule_cannot_do_raises(forward: Any, message: str) -> None:
    f = like_sine(forward=forward)
    with pytest.raises(RuntimeError, match=message):
        vmap(lambda x: f.apply(x, A))(X)


def test_a_rule_by_hand_gets_the_whole_tensors_and_excludes_a_generated_one() -> None:
    seen: list[Any] = []

    def rule(info: Any, in_dims: Any, x: Tensor, a: Tensor) -> Any:
        seen.append((info.batch_size, in_dims, tuple(x.shape)))
        return by_hand.apply(x, a), in_dims[0]

    by_hand = like_sine(vmap=rule)
    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and"):
        vmap(lambda x: by_hand.apply(x, A))(X)
    by_hand.generate_vmap_rule = False
    vmap(lambda x: by_hand.apply(x, A), in_dims=1)(X)

    assert seen == [(3, (1, None), (4, 3))]


# Forward mode


# torch's deprecated torch.jit.script compiles torch's own forward-mode decompositions.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_jvp_serves_forward_mode_and_the_hessian_and_reads_what_is_saved_for_it() -> None:
    x = X[0]
    tangent = jvp(lambda x: SineWithJvp.apply(x, A), (x,), (x,))[1]
    torch.testing.assert_close(tangent, A * x * torch.cos(A * x))
    found = hessian(lambda x: SineWithJvp.apply(x, A).sum())(x)
    torch.testing.assert_close(found.diag(), -A * A * torch.sin(A * x))
    with pytest.raises(NotImplementedError, match="must implement the jvp"):
        jvp(lambda x: Sine.apply(x, A), (x,), (x,))
    unsaved = like_sine(jvp=SineWithJvp.jvp)  # for backward only
    with pytest.raises(ValueError, match="not enough values to unpack"):
        jvp(lambda x: unsaved.apply(x, A), (x,), (x,))
    inputs = (leaf(0.3, -1.0), A.clone().requires_grad_())
    assert gradcheck(SineWithJvp.apply, inputs, check_forward_ad=True)


def test_one_pass_of_forward_mode_gives_a_column_and_a_pass_of_reverse_mode_a_row() -> None:
    calls = {"jvp": 0, "backward": 0}

    def jvp_counted(ctx: Any, *tangents: Tensor) -> Tensor:
        calls["jvp"] += 1
        return SineWithJvp.jvp(ctx, *tangents)

    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        calls["backward"] += 1
        return Sine.backward(ctx, g)

    f = like_sine(setup_context=SineWithJvp.setup_context, jvp=jvp_counted, backward=backward)
    x, a = X[0], A.clone().requires_grad_()
    _, column = jvp(lambda a: f.apply(x, a), (A,), (torch.ones_like(A),))
    rows = [torch.autograd.grad(y, a, retain_graph=True)[0] for y in f.apply(x, a)]

    assert calls == {"jvp": 1, "backward": 3}
    torch.testing.assert_close(column, torch.stack(rows))


def test_a_slope_that_setup_context_stores_is_a_constant_of_the_tangent() -> None:
    def save(ctx: Any, inputs: Any, output: Any) -> None:
        SineWithJvp.setup_context(ctx, inputs, output)
        ctx.slope = torch.cos(inputs[1] * inputs[0])

    def jvp_of_slope(ctx: Any, x_tangent: Tensor, a_tangent: Tensor) -> Tensor:
        x, a = ctx.saved_tensors
        return ctx.slope * (a * x_tangent + x * a_tangent)

    def bend(f: type[Function]) -> Tensor:
        ones = torch.ones_like(X)
        return grad(lambda x: jvp(lambda x: f.apply(x, A), (x,), (ones,))[1].sum())(X)

    stored = like_sine(setup_context=save, jvp=jvp_of_slope)
    inputs = (leaf(0.3, -1.0), A.clone().requires_grad_())
    assert gradcheck(stored.apply, inputs, check_forward_ad=True)
    torch.testing.assert_close(bend(SineWithJvp), -A * A * torch.sin(A * X))
    assert not bend(stored).any()


def test_a_generated_rule_wants_the_same_tensors_saved_for_both_modes() -> None:
    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs, output)

    apart = like_sine(setup_context=save)
    x = X.clone().requires_grad_()
    vmap(lambda x: Sine.apply(x, A))(x).sum().backward()
    with pytest.raises(AssertionError, match="flat_bdims must not be None"):
        vmap(lambda x: apart.apply(x, A))(x).sum().backward()


# Per-sample gradients


def test_per_sample_gradients_of_a_layer_that_mixes_the_samples_raise() -> None:
    x = X.float()
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        vmap(lambda x: torch.nn.BatchNorm1d(3)(x[None]))(x)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(torch.nn.Dropout())(x)
    assert vmap(torch.nn.Dropout(), randomness="different")(x).shape == x.shape
