"""A trace shows what autograd really did."""

import gc
import json
import weakref
from typing import Any

import pytest
import torch
from flows import ReLU, loss, random_function, transformer_block, two_and_three
from torch import Tensor

from autograd_course.functions import Linear, ScaledSigmoid, Square, ToPolar
from autograd_course.visualize import Trace, TraceError, describe, trace_gradient_flow
from autograd_course.visualize.flow.trace import Edge, Node


def node(trace: Trace, name: str) -> Node:
    return next(node for node in trace.nodes if node.name == name)


def edge(trace: Trace, source: str, target: str) -> Edge:
    ends = (node(trace, source).id, node(trace, target).id)
    return next(edge for edge in trace.edges if (edge.source, edge.target) == ends)


def value(trace: Trace, name: str) -> Any:
    return node(trace, name).values[0].values


def gradient(trace: Trace, name: str) -> Any:
    return node(trace, name).gradients[0].values


# What is recorded


def test_values_go_forward_and_gradients_back() -> None:
    trace = trace_gradient_flow(loss, *two_and_three())

    assert [(n.name, n.kind) for n in trace.nodes] == [
        ("x", "input"),
        ("y", "input"),
        ("Square", "custom"),
        ("ReLU", "custom"),
        ("Add", "op"),
        ("loss", "output"),
    ]
    assert [n.values[0].values for n in trace.nodes] == [2, 3, 4, 3, 7, 7]
    assert [n.gradients[0].values for n in trace.nodes] == [4, 1, 1, 1, 1, 1]


def test_an_edge_carries_the_local_factor() -> None:
    trace = trace_gradient_flow(loss, *two_and_three())

    assert edge(trace, "x", "Square").factor.values == 4
    assert edge(trace, "y", "ReLU").factor.values == 1


def test_backward_is_told_in_the_order_of_the_engine() -> None:
    trace = trace_gradient_flow(loss, *two_and_three())

    names = [trace.nodes[i].name for i in trace.backward]

    assert names == ["loss", "Add", "ReLU", "y", "Square", "x"]


def test_a_custom_function_is_opened() -> None:
    opened = node(trace_gradient_flow(loss, *two_and_three()), "ReLU")

    (mask,) = opened.saved
    assert (mask.summary.values, mask.summary.dtype, mask.bytes) == (True, "bool", 1)
    assert opened.attributes == (("kink", "'zero'"),)


def test_an_attribute_shows_no_address() -> None:
    class Keeps(Square):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.keeper = object()
            return Square.forward(ctx, x)

    trace = trace_gradient_flow(Keeps, torch.tensor(1.0))

    assert node(trace, "Keeps").attributes == (("keeper", "<object object>"),)


def test_gradients_of_a_fan_out_add_up() -> None:
    trace = trace_gradient_flow(lambda x: x.sin() + x * x, torch.tensor(0.5))

    parts = [e.gradient.values for e in trace.out_of(node(trace, "x").id)]

    assert len(parts) == 3
    assert sum(parts) == pytest.approx(gradient(trace, "x"))


def test_each_output_of_a_node_has_its_own_gradient() -> None:
    def area(x: Tensor, y: Tensor) -> Tensor:
        r, theta = ToPolar.apply(x, y)
        return 3 * r + 5 * theta

    polar = node(trace_gradient_flow(area, *two_and_three()), "ToPolar")

    assert [g.values for g in polar.gradients] == [3, 5]
    assert [v.values for v in polar.values] == pytest.approx([13**0.5, 0.98279], abs=1e-4)


def test_a_value_is_the_one_that_the_graph_means_though_it_is_changed_in_place_later() -> None:
    def changed(x: Tensor) -> Tensor:
        y = x + 1
        return y.mul_(10).sum()

    trace = trace_gradient_flow(changed, torch.tensor([1.0, 2.0]))

    assert (value(trace, "Add"), value(trace, "Mul")) == ([2, 3], [20, 30])


def test_an_incoming_gradient_is_noted_before_backward_can_change_it() -> None:
    class Spoils(Square):
        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            return grad_output.mul_(2)

    trace = trace_gradient_flow(lambda x: Spoils.apply(x) * 5, torch.tensor(3.0))

    assert gradient(trace, "Spoils") == 5
    assert edge(trace, "x", "Spoils").factor.values == 2


@pytest.mark.parametrize(
    ("fn", "inputs"),
    [
        (lambda x: torch.softmax(x, 0), [torch.tensor([1.0, 2.0])]),  # not elementwise
        (lambda x, y: (x + y).sum(), [torch.ones(3), torch.ones(1)]),  # broadcast
        (lambda x: x.sin() * torch.tensor([0.0, 1.0]), [torch.ones(2)]),  # a zero among the g
        (Square, [torch.tensor([1.0, 2.0])]),  # unknown: a custom Function of an array
    ],
)
def test_a_factor_is_not_invented(fn: Any, inputs: list[Tensor]) -> None:
    trace = trace_gradient_flow(fn, *inputs)

    first = trace.into(next(n.id for n in trace.nodes if n.kind in ("op", "custom")))

    assert first[-1].factor is None


def test_an_elementwise_operation_has_a_factor_for_each_element() -> None:
    trace = trace_gradient_flow(lambda x: (x**2).sum(), torch.tensor([1.0, 2.0, 3.0]))

    assert edge(trace, "x", "Pow").factor.values == [2, 4, 6]


def test_a_larger_tensor_is_summed_up() -> None:
    summary = node(trace_gradient_flow(torch.sum, torch.arange(10.0)), "input").values[0]

    assert summary.values is None
    assert dict(summary.statistics) == pytest.approx(
        {"min": 0, "mean": 4.5, "max": 9, "norm": 285**0.5}
    )


def test_a_result_that_is_no_scalar_is_summed_and_that_is_said() -> None:
    trace = trace_gradient_flow(Square, torch.tensor([1.0, 2.0]))

    assert trace.summed
    assert gradient(trace, "output") == [1, 1]
    assert "The loss is the sum of all elements of the output." in describe(trace)


def test_a_tuple_of_results_is_summed() -> None:
    trace = trace_gradient_flow(ToPolar, *two_and_three())

    assert [n.name for n in trace.nodes if n.kind == "output"] == ["output", "output 2"]


def test_a_chain_that_only_reshapes_is_one_node() -> None:
    def reshaped(x: Tensor) -> Tensor:
        return (x.view(6).view(2, 3).t().unsqueeze(0) * 2).sum()

    trace = trace_gradient_flow(reshaped, torch.arange(6.0).view(3, 2))

    folded = node(trace, "Reshape")
    assert folded.folded == ("View", "View", "T", "Unsqueeze")
    assert folded.values[0].shape == (1, 3, 2)
    assert edge(trace, "x", "Reshape").gradient.shape == (3, 2)


# Names


def test_repeated_operations_are_numbered() -> None:
    trace = trace_gradient_flow(lambda x: x.sin().sin(), torch.tensor(1.0))

    assert [n.name for n in trace.nodes] == ["x", "Sin", "Sin 2", "loss"]


def test_tensors_that_the_function_reaches_by_itself_have_their_names() -> None:
    weight, layer = torch.ones(2, requires_grad=True), torch.nn.Linear(2, 1)

    trace = trace_gradient_flow(lambda x: layer(x * weight), torch.ones(2))

    inputs = {n.name for n in trace.nodes if n.kind == "input"}
    assert inputs == {"x", "weight", "layer.weight", "layer.bias"}


def test_given_names_are_used() -> None:
    trace = trace_gradient_flow(loss, *two_and_three(), names=("left", "right"))

    assert [n.name for n in trace.nodes if n.kind == "input"] == ["left", "right"]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, gain: Tensor) -> Tensor:
        return x * gain

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, gain = ctx.saved_tensors
        return grad_output * gain, grad_output * x


class Inherits(Scaled):
    pass


@pytest.mark.parametrize("fn", [Scaled, Inherits])
def test_inputs_are_called_what_forward_calls_them(fn: Any) -> None:
    trace = trace_gradient_flow(fn, torch.tensor(1.0), torch.tensor(2.0))

    assert [n.name for n in trace.nodes if n.kind == "input"] == ["x", "gain"]


def test_one_tensor_given_twice_is_one_input_that_collects_from_both_uses() -> None:
    x = torch.tensor(2.0)

    trace = trace_gradient_flow(loss, x, x)

    assert [n.name for n in trace.nodes if n.kind == "input"] == ["x"]
    assert gradient(trace, "x") == 5


# Truth, over random graphs


@pytest.mark.parametrize("seed", range(40))
def test_a_trace_of_any_graph_is_complete_ordered_and_true(seed: int) -> None:
    fn, rng = random_function(seed), torch.Generator().manual_seed(seed)
    inputs = [torch.randn(2, generator=rng, dtype=torch.float64) for _ in range(3)]

    trace = trace_gradient_flow(fn, *inputs, names=("a", "b", "c"))

    ids = [n.id for n in trace.nodes]
    assert ids == list(range(len(ids)))
    assert all(e.source < e.target for e in trace.edges)
    assert sorted(trace.backward) == ids
    turn = {i: at for at, i in enumerate(trace.backward)}
    assert all(turn[e.target] < turn[e.source] for e in trace.edges)
    leaves = [x.clone().requires_grad_() for x in inputs]
    expected = torch.autograd.grad(fn(*leaves), leaves)
    for name, exact in zip("abc", expected, strict=True):
        assert gradient(trace, name) == exact.tolist()


def test_what_a_node_receives_is_the_sum_of_what_its_consumers_send() -> None:
    block, x = transformer_block()

    trace = trace_gradient_flow(block, x)

    for n in trace.nodes:
        sent = [e.gradient for e in trace.out_of(n.id) if e.output == 0]
        if len(sent) == 1 and n.gradients[0] is not None:
            assert sent[0] == n.gradients[0]


def test_a_trace_is_json() -> None:
    block, x = transformer_block()

    text = json.dumps(trace_gradient_flow(block, x).to_dict(), allow_nan=False)

    assert len(json.loads(text)["nodes"]) > 40


# It leaves no trace behind


def test_nothing_of_the_graph_stays_alive() -> None:
    kept: list[weakref.ref[Any]] = []

    class Watched(Square):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = Square.forward(ctx, x)
            kept.extend((weakref.ref(ctx), weakref.ref(x)))
            return y

    gc.collect()
    gc.disable()
    try:
        trace_gradient_flow(Watched, torch.tensor(2.0))
        assert [ref() for ref in kept] == [None, None]
    finally:
        gc.enable()


def test_the_caller_is_not_disturbed() -> None:
    weight = torch.ones(2, requires_grad=True)
    outer = (weight * 2).exp()
    x = torch.ones(2, requires_grad=True)
    state, version = torch.get_rng_state(), x._version

    with torch.no_grad():
        trace_gradient_flow(lambda x: torch.nn.functional.dropout(x * outer).sum(), x)
        assert not torch.is_grad_enabled()

    assert torch.equal(torch.get_rng_state(), state)
    assert (x.grad, weight.grad, x._version) == (None, None, version)
    outer.sum().backward()  # its graph has not been freed, and has no hooks
    assert torch.equal(weight.grad, 2 * outer.detach())


def test_a_tensor_that_asks_for_no_gradient_gets_none_where_another_one_asks() -> None:
    x, target = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0)

    trace = trace_gradient_flow(lambda x, target: (x - target) ** 2, x, target)

    assert [n.name for n in trace.nodes if n.kind == "input"] == ["x"]


# If something cannot be traced, a sentence says so


class RaisesInBackward(Square):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        raise ValueError("not today")


def raises(x: Tensor) -> Tensor:
    raise KeyError("weights")


class TextlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raises_without_text(x: Tensor) -> Tensor:
    raise TextlessError


@pytest.mark.parametrize(
    ("fn", "inputs", "names", "said"),
    [
        (torch.sin, [torch.tensor(1)], None, "No input can have a gradient.*tensor of int64"),
        (torch.sin, [2.0], None, r"No input can have a gradient.*a float.*torch\.tensor\(2\.0\)"),
        (torch.sin, [], None, "No input can have a gradient.*no arguments"),
        (torch.ones(1), [], None, r"needs a function to run.*gradient_flow\(loss, x, y\)"),
        (torch.sin, [torch.eye(2).to_sparse()], None, "Output 1 is sparse"),
        (torch.sin, [torch.ones(1).to("meta")], None, "Input 1 is on the meta device"),
        (lambda x: 3.0, [torch.ones(1)], None, "returned float, not a tensor"),
        (
            lambda x: x.detach(),
            [torch.ones(1)],
            None,
            "Autograd does not connect the output",
        ),
        (raises, [torch.ones(1)], None, "raises raised KeyError at `raise KeyError"),
        (raises_without_text, [torch.ones(1)], None, "raised TextlessError at `raise Textless"),
        (RaisesInBackward, [torch.ones(1)], None, "backward of RaisesInBackward raised ValueError"),
        (loss, [torch.ones(1), torch.ones(1)], ["x"], "names has 1 entries for 2 inputs"),
        (Linear, [torch.ones(2), torch.ones(3, 3)], None, "Linear raised RuntimeError"),
    ],
)
def test_what_cannot_be_traced(fn: Any, inputs: list[Any], names: Any, said: str) -> None:
    with pytest.raises(TraceError, match=said) as caught:
        trace_gradient_flow(fn, *inputs, names=names)

    assert "\n" not in str(caught.value)


# The description in words


def test_the_account_of_a_small_graph() -> None:
    assert describe(trace_gradient_flow(loss, *two_and_three())) == (
        "Gradient flow through loss: 3 operations, 2 custom.\n"
        "  Given: x = 2, y = 3.\n"
        "Forward\n"
        "  Square of x is 4.\n"
        "  ReLU of y is 3.\n"
        "  Add of Square and ReLU is 7.\n"
        "  loss is 7.\n"
        "Backward\n"
        "  loss starts with ∂ 1 (∂L/∂L).\n"
        "  Add receives ∂ 1 and sends 1 (×1) to Square and 1 (×1) to ReLU.\n"
        "  ReLU receives ∂ 1 and sends 1 (×1) to y.\n"
        "  y has gradient ∂ 1.\n"
        "  Square receives ∂ 1 and sends 4 (×4) to x.\n"
        "  x has gradient ∂ 4."
    )


def test_the_account_shows_four_digits_at_most() -> None:
    third = torch.tensor(1 / 3, dtype=torch.float64)

    trace = trace_gradient_flow(lambda x: ScaledSigmoid.apply(x, 1.0, 2.0), third)

    assert "x = 0.3333" in describe(trace)
    assert "loss is 0.6608" in describe(trace)


def test_relu_of_the_tests_is_right() -> None:
    assert torch.autograd.gradcheck(ReLU.apply, torch.randn(3).double().requires_grad_())
