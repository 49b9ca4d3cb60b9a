"""Facts about PyTorch in lesson 12. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from made import leaf, make
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function, gradcheck
from torch.func import grad, jacfwd, jvp, vmap
from torch.library import custom_op, opcheck
from torch.utils.checkpoint import checkpoint

from autograd_course import replicas

CPU = {"device_type": "cpu"}
# The tracer creates an instance of each Function that it encounters, and reads .grad of tensors.
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
    """y = sin x, with a separate ``setup_context``."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * torch.cos(x)


class SineWithJvp(Sine):
    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return tangent * torch.cos(x)


class CombinedSine(Sine):
    setup_context = staticmethod(Function.setup_context)

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.sin(x)


class BranchingSine(Sine):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x if x.max() > 100 else torch.sin(x)


X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)


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


def test_compile_traces_both_methods_and_breaks_silently_unless_fullgraph() -> None:
    x = X.clone().requires_grad_()
    (graph,) = traced(lambda x: Sine.apply(x) + 1, (x,))
    inner = " ".join(module.code for module in graph.children())
    assert ".sin()" in inner or "sin(" in inner
    assert "cos(" in inner

    assert len(traced(lambda x: BranchingSine.apply(2 * x) + 1, (x,))) > 1
    with pytest.raises(Exception, match="Data-dependent branching"):
        traced(BranchingSine.apply, (x,), fullgraph=True)


def test_a_graph_break_does_not_change_the_result() -> None:
    x = X.clone().requires_grad_()

    def f(x: Tensor) -> Tensor:
        return torch.tanh(BranchingSine.apply(2 * x))

    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(f, backend="eager")(x), f(x))


@pytest.mark.parametrize("function", [CombinedSine, Sine])
def test_both_forms_work_with_compile_and_checkpoint(function: type[Function]) -> None:
    x = X.clone().requires_grad_()

    assert len(traced(lambda x: function.apply(x) + 1, (x,), fullgraph=True)) == 1
    checkpoint(function.apply, x, use_reentrant=False).sum().backward()
    torch.testing.assert_close(x.grad, torch.cos(X))


def test_a_jvp_keeps_a_function_out_of_the_compiled_graph() -> None:
    x = X.clone().requires_grad_()

    assert len(traced(lambda x: SineWithJvp.apply(2 * x) + 1, (x,))) > 1
    with pytest.raises(Exception, match="Unsupported custom jvp"):
        traced(SineWithJvp.apply, (x,), fullgraph=True)


def test_a_function_that_autograd_could_do_loses_the_transforms_and_nothing_else() -> None:
    """The page of the rule unneeded-function states this fact."""

    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight

    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return g * weight, g * x

    scale = make(forward, backward)
    inputs = (X.clone().requires_grad_(), (X + 2).requires_grad_())
    assert torch.autograd.gradgradcheck(scale.apply, inputs)
    assert len(traced(scale.apply, inputs, fullgraph=True)) == 1
    with pytest.raises(RuntimeError, match="must override the setup_context"):
        grad(lambda x: scale.apply(x, X).sum())(X)


def looped(x: Tensor) -> Tensor:
    y, state = np.empty_like(x.numpy()), 0.0
    for t in range(x.shape[-1]):
        state = state + x.numpy()[t]
        y[t] = state
    return torch.from_numpy(y)


def test_a_numpy_loop_is_unrolled_for_each_length_until_a_limit_of_eight_graphs() -> None:
    graphs = traced(looped, *((torch.ones(length),) for length in range(2, 12)))
    sizes = [sum(node.op == "call_function" for node in it.graph.nodes) for it in graphs]
    steps = {later - earlier for earlier, later in pairwise(sizes)}

    assert len(graphs) == 8
    assert len(steps) == 1
    assert min(steps) > 0


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
    made = custom_op(f"facts12::{name}", function, mutates_args=())
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


# torch's deprecated torch.jit.script compiles torch's own forward-mode decompositions.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
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


def test_eager_mode_notices_a_returned_view_and_neither_a_change_nor_a_wrong_fake() -> None:
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        operator("a_view", viewing)(x)
    assert operator("a_change", changing)(x).tolist() == [-1.0] * 3
    assert x.tolist() == [-1.0] * 3
    assert operator("a_wrong_fake", fake=lambda x: x.new_empty(()))(x).shape == x.shape


def test_custom_op_may_be_defined_again_and_loses_what_was_registered() -> None:
    operator("again")
    bare = custom_op("facts12::again", negated, mutates_args=())
    with pytest.raises(Exception, match="no fake impl registered"):
        traced(bare, (torch.ones(3),), fullgraph=True)
    torch.library.define("facts12::once", "(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="multiple times"):
        torch.library.define("facts12::once", "(Tensor x) -> Tensor")


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_calls_an_operator_for_each_sample_unless_a_rule_is_registered() -> None:
    shapes: list[Any] = []

    def counted(x: Tensor) -> Tensor:
        shapes.append(tuple(x.shape))
        return negated(x)

    f = operator("mapped", counted)
    assert torch.equal(vmap(f)(X), -X)
    assert shapes == [(3,)] * 4

    shapes.clear()
    f.register_vmap(lambda info, in_dims, x: (f(x.movedim(in_dims[0], 0)), 0))
    assert torch.equal(vmap(f)(X), -X)
    assert shapes == [(4, 3)]


def test_an_operator_that_writes_counts_as_a_change_and_cannot_have_a_gradient() -> None:
    def negate(x: Tensor) -> None:
        x.numpy()[:] *= -1  # PyTorch does not see this write

    f = custom_op("facts12::negate_", negate, mutates_args=("x",))
    x = torch.ones(3)
    f(x)
    assert (x.tolist(), x._version) == ([-1.0] * 3, 1)

    saved = leaf(0.5).exp()
    with torch.no_grad():
        f(saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()
    with pytest.raises(RuntimeError, match="non-functional operator"):
        f.register_autograd(lambda ctx, g: g)


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


def test_autocast_computes_in_bfloat16_on_the_cpu_and_in_float16_on_a_gpu() -> None:
    assert torch.get_autocast_dtype("cpu") is torch.bfloat16
    assert torch.get_autocast_dtype("cuda") is torch.float16


# Tools around a Function


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


def test_backward_runs_on_the_cpu_in_the_thread_that_calls_it() -> None:
    seen: list[tuple[str, bool]] = []
    settings = threading.local()
    settings.scale = 2.0

    def backward(ctx: Any, g: Tensor) -> Tensor:
        seen.append((threading.current_thread().name, hasattr(settings, "scale")))
        return g

    y = make(lambda ctx, x: 2 * x, backward).apply(leaf(1.0))
    thread = threading.Thread(target=y.sum().backward, name="worker")
    thread.start()
    thread.join()

    assert seen == [("worker", False)]


def test_compiled_autograd_records_backward_and_the_accumulation() -> None:
    names: list[str] = []

    def backend(graph: Any, example_inputs: Any) -> Any:
        names.extend(node.name for node in graph.graph.nodes)
        return graph.forward

    x = X.clone().requires_grad_()
    y = Sine.apply(x).sum()
    torch._dynamo.reset()
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend=backend)):
        y.backward()

    torch.testing.assert_close(x.grad, torch.cos(X))
    assert {"cos", "accumulate_grad"} <= set(names)


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
