"""An opened node: what a custom Function saves, what is added up in it, and what a hook changes."""

import gc
import weakref
from typing import Any

import pytest
import torch
from flows import loss, two_and_three
from torch import Tensor
from torch.autograd import Function

from autograd_course.functions import Square
from autograd_course.visualize import Trace, describe, trace_gradient_flow
from autograd_course.visualize.flow.describe import script
from autograd_course.visualize.flow.record import changed
from autograd_course.visualize.flow.trace import Node


def node(trace: Trace, name: str) -> Node:
    return next(node for node in trace.nodes if node.name == name)


def details(trace: Trace, name: str) -> dict[str, str]:
    words = script(trace)
    card = words.cards[node(trace, name).id]
    return {term: words.fill(text) for term, text, _ in card.details}


# What a custom Function saves


class Keeps(torch.autograd.Function):
    """Saves one tensor of every kind."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, target: Tensor, scale: float) -> Tensor:
        doubled = x * 2
        y = doubled * w + 0 * target
        ctx.save_for_backward(w, x, target, target.view(-1), doubled, y)
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        w, x, *_ = ctx.saved_tensors
        return 2 * w * grad_output, 2 * x * grad_output, None, None


@pytest.fixture
def kept() -> Trace:
    x, w = (torch.full((2,), v, requires_grad=True) for v in (3.0, 5.0))

    def fn(x: Tensor, w: Tensor, target: Tensor) -> Tensor:
        return Keeps.apply(x.sin(), w, target, 0.5).sum()

    return trace_gradient_flow(fn, x, w, torch.ones(2))


def test_each_saved_tensor_is_known_for_what_it_is(kept: Trace) -> None:
    told = [text for term, text in details(kept, "Keeps").items() if term.startswith("saved")]

    assert [text.split(": ")[1] for text in told] == [
        "the input w",
        "the input Sin",
        "an input without gradient",
        "an input without gradient",
        "an intermediate result",
        "the output",
    ]


def test_a_saved_tensor_has_values_dtype_and_bytes(kept: Trace) -> None:
    assert details(kept, "Keeps")["saved tensor 0"] == "[5, 5] (float32, 8 bytes): the input w"
    assert details(kept, "Keeps")["ctx.scale"] == "0.5"


def test_what_is_kept_in_setup_context_is_known_too() -> None:
    class Modern(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> tuple[Tensor, Tensor]:
            return x * x, x > 0

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
            ctx.mark_non_differentiable(output[1])
            ctx.save_for_backward(inputs[0], output[1])

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor, _: Tensor) -> Tensor:
            return 2 * ctx.saved_tensors[0] * grad_output

    trace = trace_gradient_flow(lambda x: Modern.apply(x)[0], torch.tensor(3.0))

    assert [saved.role for saved in node(trace, "Modern").saved] == ["input", "intermediate"]


def test_the_source_of_a_custom_function_is_shown(kept: Trace) -> None:
    source = node(kept, "Keeps").source

    assert source is not None
    assert source.forward.startswith("@staticmethod\ndef forward(ctx: Any, x: Tensor")
    assert source.backward.endswith("return 2 * w * grad_output, 2 * x * grad_output, None, None")
    assert node(kept, "Sin").source is None


def test_a_source_that_nobody_knows_is_left_out() -> None:
    scope: dict[str, Any] = {"torch": torch}
    body = "    @staticmethod\n    def {}(ctx, x):\n        return x * 1\n"
    exec(
        "class Unknown(torch.autograd.Function):\n"
        + body.format("forward")
        + body.format("backward"),
        scope,
    )

    assert node(trace_gradient_flow(scope["Unknown"], torch.ones(2)), "Unknown").source is None


def test_functions_of_one_class_share_one_source() -> None:
    words = script(trace_gradient_flow(lambda x: Square.apply(Square.apply(x)), torch.tensor(2.0)))

    assert [card.source for card in words.cards] == [None, 0, 0, None]
    assert len(words.sources) == 1


def test_backward_is_a_product_where_it_is_one_and_a_call_elsewhere() -> None:
    scalar = trace_gradient_flow(loss, *two_and_three())
    array = trace_gradient_flow(lambda x: Square.apply(x).sum(), torch.tensor([1.0, 2.0]))

    assert details(scalar, "Square")["sends to x"] == "1 × 4 = 4"
    assert details(array, "Square")["sends to x"] == "backward([2]) → [2, 4]"
    assert details(array, "Sum")["sends to Square"] == "[1, 1]"


# Fan-out


def twice(x: Tensor) -> Tensor:
    y = x * 3
    return y * y - y.sin() + x


def test_a_value_used_twice_has_the_sum_of_the_gradients() -> None:
    trace = trace_gradient_flow(twice, torch.tensor(0.0))

    assert "Mul receives ∂ 0 + 0 + (-1) = -1 and sends -3 (×3) to x." in describe(trace)
    assert "x has gradient ∂ -3 + 1 = -2, the sum over its 2 uses." in describe(trace)


@pytest.mark.parametrize("value", [-1.5, 0.3, 2.0])
def test_the_summands_are_autograds_own(value: float) -> None:
    x = torch.tensor(value, dtype=torch.float64)
    trace = trace_gradient_flow(twice, x)

    parts = [e.gradient.values for e in trace.out_of(node(trace, "Mul").id)]
    leaf = x.clone().requires_grad_()
    y = leaf * 3
    shares = [
        torch.autograd.grad(part, y, retain_graph=True)[0].item() for part in (y * y, -y.sin())
    ]

    assert sum(parts) == pytest.approx(sum(shares))
    text = details(trace, "Mul")["sum of ∂"]
    assert text.endswith(f" = {sum(shares):.4g}")
    assert text.count("(from Mul 2)") == 2


def test_norms_of_large_gradients_are_not_added_up_in_a_sentence() -> None:
    trace = trace_gradient_flow(lambda x: (x * x).sum(), torch.ones(20))

    assert "x has gradient ∂ [20] of norm 8.94, the sum over its 2 uses." in describe(trace)


# Hooks


def clipped(gradient: Tensor) -> Tensor:
    return gradient.clamp(max=1)


def with_tensor_hook(x: Tensor) -> Tensor:
    y = x * 3
    y.register_hook(clipped)
    return y * 5


def with_node_hook(x: Tensor) -> Tensor:
    y = x * 3
    y.grad_fn.register_prehook(lambda gradients: (gradients[0].clamp(max=1),))
    return y * 5


@pytest.mark.parametrize("fn", [with_tensor_hook, with_node_hook])
def test_a_hook_that_changes_a_gradient_is_seen(fn: Any) -> None:
    trace = trace_gradient_flow(fn, torch.tensor(2.0))

    assert details(trace, "Mul")["∂ before → after hook"] == "5 → 1"
    assert "Mul receives ∂ 5 (a hook changes it to 1) and sends 3 (×3) to x." in describe(trace)
    assert script(trace).cards[node(trace, "Mul").id].badge == "hook"
    assert node(trace, "Mul 2").before == ()


def test_a_tensor_hook_is_named() -> None:
    trace = trace_gradient_flow(with_tensor_hook, torch.tensor(2.0))

    assert node(trace, "Mul").hooks == ("clipped",)
    assert details(trace, "Mul")["hooks"] == "clipped"


def test_a_hook_that_only_looks_is_marked_but_changes_nothing() -> None:
    seen = []

    def fn(x: Tensor) -> Tensor:
        y = x * 3
        y.register_hook(seen.append)
        return y * 5

    trace = trace_gradient_flow(fn, torch.tensor(2.0))

    assert len(seen) == 1
    assert (node(trace, "Mul").hooks, node(trace, "Mul").before) == (("append",), ())


def test_a_hook_on_a_parameter_is_seen() -> None:
    weight = torch.tensor(2.0, requires_grad=True)
    weight.register_hook(clipped)

    trace = trace_gradient_flow(lambda x: x * weight, torch.tensor(3.0))

    assert node(trace, "weight").hooks == ("clipped",)
    assert details(trace, "weight")["∂ before → after hook"] == "3 → 1"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_rounding_of_a_sum_is_no_hook(dtype: torch.dtype) -> None:
    gradient = torch.linspace(-1, 1, 7, dtype=torch.float64)
    rounded = gradient * (1 + 2 * torch.finfo(dtype).eps)

    assert not changed(gradient.to(dtype), rounded.to(dtype))
    assert changed(gradient.to(dtype), (gradient * 1.3).to(dtype))


def test_a_nan_that_stays_a_nan_is_no_hook() -> None:
    broken = torch.tensor([float("nan"), 1.0])

    assert not changed(broken, broken.clone())
    assert changed(broken, torch.zeros(2))


# It leaves no objects behind


def test_no_hook_and_no_tensor_stays_behind() -> None:
    kept: list[weakref.ref[Any]] = []
    weight = torch.tensor(2.0, requires_grad=True)
    weight.register_hook(clipped)

    def fn(x: Tensor) -> Tensor:
        y = Keeps.apply(x * weight, x, weight.detach(), 1.0)
        kept.extend((weakref.ref(y), weakref.ref(y.grad_fn)))
        return y.sin()

    gc.collect()
    gc.disable()
    try:
        trace = trace_gradient_flow(fn, torch.tensor(3.0))
        assert [ref() for ref in kept] == [None, None]
    finally:
        gc.enable()
    assert list(weight._backward_hooks.values()) == [clipped]
    assert (weight.grad, trace.title) == (None, "fn")


def test_a_gradient_that_was_overwritten_is_not_called_a_sum() -> None:
    class Relu(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output.masked_fill_(x <= 0, 0)

    said = describe(trace_gradient_flow(lambda x: 3 * (x + Relu.apply(x)), torch.tensor(-2.0)))

    assert "x has gradient ∂ 0, although it receives 0 and 3: a backward has overwritten" in said
