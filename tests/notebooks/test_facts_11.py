"""What lesson 11 teaches of PyTorch, pinned: a release that changes a fact fails by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from made import leaf, make
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function, gradcheck
from torch.func import grad, hessian, jacfwd, jvp, vmap
from torch.library import custom_op, opcheck
from torch.utils.checkpoint import checkpoint

from autograd_course import replicas

CPU = {"device_type": "cpu"}
# The tracer makes an instance of each Function that it meets, and asks tensors for their .grad.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.* should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    torch._dynamo.reset()


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


# torch's own forward-mode decompositions are compiled by its deprecated torch.jit.script.
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


def test_a_generated_rule_wants_the_same_tensors_saved_for_both_modes() -> None:
    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs, output)

    apart = like_sine(setup_context=save)
    x = X.clone().requires_grad_()
    vmap(lambda x: Sine.apply(x, A))(x).sum().backward()
    with pytest.raises(AssertionError, match="flat_bdims must not be None"):
        vmap(lambda x: apart.apply(x, A))(x).sum().backward()


# torch.compile


def traced(f: Callable[..., Tensor], *calls: Any, **options: Any) -> list[Any]:
    found: list[Any] = []

    def backend(graph: Any, example_inputs: Any) -> Any:
        found.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(f, backend=backend, **options)
    for call in calls:
        compiled(*call)
    return found


def branching(x: Tensor, a: Tensor) -> Tensor:
    return x if x.max() > 100 else Sine.forward(x, a)


def test_compile_traces_both_methods_and_breaks_silently_unless_fullgraph() -> None:
    x = X.clone().requires_grad_()
    (graph,) = traced(lambda x: Sine.apply(x, A) + 1, (x,))
    inner = " ".join(module.code for module in graph.children())
    assert ".sin()" in inner or "sin(" in inner
    assert "cos(" in inner

    f = like_sine(forward=branching)
    assert len(traced(lambda x: f.apply(2 * x, A) + 1, (x,))) > 1
    with pytest.raises(Exception, match="Data-dependent branching"):
        traced(lambda x: f.apply(x, A), (x,), fullgraph=True)


@pytest.mark.parametrize(
    ("arguments", "compilations"),
    [
        ([1.0, 1.5, 2.0, 2.5, 3.0], 2),
        ([torch.tensor(float(v)) for v in range(5)], 1),
        (["a", "b", "c", "d"], 4),
    ],
    ids=["floats", "tensors", "strings"],
)
def test_how_often_a_changing_argument_compiles(arguments: list[Any], compilations: int) -> None:
    def f(x: Tensor, a: Any) -> Tensor:
        return x + len(a) if isinstance(a, str) else x + a

    assert len(traced(f, *((X, a) for a in arguments))) == compilations


# Operators


def negated(x: Tensor) -> Tensor:
    return torch.from_numpy(-x.detach().numpy())


def operator(name: str, function: Any = negated, fake: Any = torch.empty_like) -> Any:
    made = custom_op(f"facts09::{name}", function, mutates_args=())
    made.register_fake(fake)
    return made


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_an_operator_is_one_node_and_opcheck_does_not_see_a_wrong_gradient() -> None:
    f = operator("opaque")
    f.register_autograd(lambda ctx, g: -2 * g)
    x = leaf(0.5, 1.5)

    assert set(opcheck(f, (x,)).values()) == {"SUCCESS"}
    assert not gradcheck(f, x, raise_exception=False)
    (graph,) = traced(lambda x: f(2 * x), (x.detach(),), fullgraph=True)
    assert len([node for node in graph.graph.nodes if node.op == "call_function"]) == 2
    with pytest.raises(RuntimeError, match="setup_context"):
        grad(lambda x: f(x).sum())(x.detach())


def test_forward_mode_through_an_operator_is_silently_zero() -> None:
    f = operator("pushed")
    f.register_autograd(lambda ctx, g: -g)
    x = torch.ones(3)

    value, tangent = jvp(f, (x,), (x,))
    assert torch.equal(value, -x)
    assert not tangent.any()
    assert not jacfwd(f)(x).any()


def changing(x: Tensor) -> Tensor:
    x.neg_()
    return x.clone()


def viewing(x: Tensor) -> Tensor:
    return x[:1]


@pytest.mark.parametrize(
    ("function", "fake", "test"),
    [
        (changing, torch.empty_like, "test_schema"),
        (viewing, lambda x: x[:1].clone(), "test_schema"),
        (negated, lambda x: x.new_empty(()), "test_faketensor"),
    ],
    ids=["mutates", "aliases", "wrong fake"],
)
def test_opcheck_holds_an_operator_to_its_promises(function: Any, fake: Any, test: str) -> None:
    f = operator(function.__name__, function, fake)
    with pytest.raises(Exception, match=f"{test} failed"):
        opcheck(f, (torch.ones(3),))


def test_custom_op_may_be_defined_again_and_loses_what_was_registered() -> None:
    operator("again")
    bare = custom_op("facts09::again", negated, mutates_args=())
    with pytest.raises(Exception, match="no fake impl registered"):
        traced(bare, (torch.ones(3),), fullgraph=True)
    torch.library.define("facts09::once", "(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="multiple times"):
        torch.library.define("facts09::once", "(Tensor x) -> Tensor")


# Autocast


class Project(Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return x @ weight.T

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return g @ weight, g.T @ x


class Decorated(Project):
    backward = staticmethod(custom_bwd(Project.backward, **CPU))


class OnForward(Decorated):
    forward = staticmethod(custom_fwd(Project.forward, **CPU))


class OnSetupContext(Decorated):
    setup_context = staticmethod(custom_fwd(Project.setup_context, **CPU))


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (Project, "same dtype"),
        (OnForward, "_fwd_used_autocast"),
        (OnSetupContext, None),
    ],
)
def test_under_autocast_custom_fwd_belongs_where_ctx_is(
    function: type[Function], error: str | None
) -> None:
    weight = torch.randn(4, 3, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = function.apply(torch.ones(2, 3), weight)
    assert y.dtype is torch.bfloat16
    if error is None:
        y.sum().backward()
        assert weight.grad.dtype is torch.float32
    else:
        with pytest.raises((RuntimeError, AttributeError), match=error):
            y.sum().backward()


# In company


@pytest.mark.parametrize("times", [1, 2])
def test_under_checkpoint_forward_runs_inside_backward_and_saved_tensors_unpack_once(
    times: int,
) -> None:
    seen: list[str] = []

    def forward(ctx: Any, x: Tensor) -> Tensor:
        seen.append("forward")
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx: Any, g: Tensor) -> Tensor:
        seen.append("backward")
        for _ in range(times):
            (x,) = ctx.saved_tensors
        return 2 * x * g

    f = make(forward, backward)
    loss = checkpoint(lambda x: f.apply(x).sum(), leaf(1.0), use_reentrant=False)
    if times == 1:
        loss.backward()
    else:
        with pytest.raises(RuntimeError, match="already unpacked"):
            loss.backward()
    assert seen == ["forward", "backward", "forward"]


@pytest.mark.thorough
def test_a_gradient_that_is_written_is_not_averaged_over_processes() -> None:
    x = torch.linspace(-1, 2, 24).reshape(8, 3)
    layers: list[Any] = [replicas.Returned, replicas.Written]
    returned, written = replicas.gradients(layers, [x[:4], x[4:]])

    alone = [layer() for layer in layers]
    for model in alone:
        model(x).square().mean().backward()
    torch.testing.assert_close(alone[1].weight.grad, alone[0].weight.grad)
    for gradient in returned:
        torch.testing.assert_close(gradient, alone[0].weight.grad)
    assert not torch.allclose(*written)
