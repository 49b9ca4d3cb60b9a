"""Arguments that cannot be shown are refused in one sentence. Unusual ones are shown correctly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from autograd_course.functions import Square
from autograd_course.visualize import (
    TraceError,
    attention_tiles,
    compare_flows,
    describe,
    function_lab,
    gradient_flow,
    jacobian_view,
    knowledge_check,
    memory_timeline,
    ste_lab,
    tangent,
    trace_gradient_flow,
    trace_memory,
)

ONE = torch.tensor(1.0)
META = torch.empty(4, device="meta")
SPARSE = torch.eye(3).to_sparse()
TWICE = {"once": Square, "again": Square}


def nested() -> torch.Tensor:
    with pytest.warns(UserWarning, match="nested tensors"):
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


def freed() -> torch.Tensor:
    loss = (torch.ones(3, requires_grad=True) ** 2).sum()
    loss.backward()
    return loss


NESTED = nested()
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no function": (lambda: gradient_flow(None, ONE), "needs a function to run"),
    "a module's class": (lambda: gradient_flow(nn.Linear, ONE), "create a module and pass it"),
    "a module alone": (lambda: gradient_flow(nn.Linear(4, 4)), "No input can have a gradient"),
    "another class": (lambda: gradient_flow(object, ONE), "object raised TypeError"),
    "meta": (lambda: gradient_flow(Square, META), "Input 1 is on the meta device"),
    "nested": (lambda: compare_flows(TWICE, NESTED), "Input 1 is a nested tensor"),
    "sparse": (lambda: trace_gradient_flow(Square, SPARSE), "Output 1 is sparse"),
    "a freed graph": (lambda: gradient_flow(lambda x: x * freed(), ONE), "a second time"),
    "names": (lambda: gradient_flow(Square, ONE, names=3), "a name for each input"),
    "sweep": (lambda: gradient_flow(Square, ONE, sweep=[1]), "sweep must be True, False"),
    "a range": (lambda: gradient_flow(Square, ONE, sweep={"x": ONE}), "two finite numbers"),
    "a range from nan": (
        lambda: gradient_flow(Square, ONE, sweep={"x": (float("nan"), 1.0)}),
        "two finite numbers",
    ),
    "step": (lambda: gradient_flow(Square, ONE, step="end"), "step must be a whole number"),
    "depth": (lambda: gradient_flow(Square, ONE, depth=-1), "depth must be a whole number"),
    "no trace": (lambda: describe(ONE), "describe needs a trace"),
    "jacobian of meta": (lambda: jacobian_view(Square, META), "Input 1 is on the meta device"),
    "jacobian of sparse": (lambda: jacobian_view(Square, SPARSE), "Input 1 is sparse"),
    "memory of sparse": (lambda: trace_memory(Square, SPARSE), "Input 1 is sparse"),
    "memory of nested": (lambda: memory_timeline(Square, NESTED), "Input 1 is a nested tensor"),
    "tangent at a text": (lambda: tangent(Square, "x"), "x must be a finite number"),
    "tangent at nan": (lambda: tangent(Square, float("nan")), "x must be a finite number"),
    "tangent over a vector": (lambda: tangent(Square, torch.ones(2)), "x must be a finite number"),
    "span": (lambda: tangent(Square, 1.0, span=float("inf")), "span must be a finite number"),
    "lab of a class": (lambda: function_lab(nn.Linear), "Linear needs a value for"),
    "lab's ranges": (
        lambda: function_lab(Square, ranges=3),
        "ranges must be a dict of ranges by name",
    ),
    "lab at a complex": (lambda: function_lab(Square, x=ONE + 1j), "x must be a finite number"),
    "ste width": (lambda: ste_lab(width=torch.ones(2)), "width is 'Tensor'"),
    "causal": (
        lambda: attention_tiles(*[torch.ones(4, 4)] * 3, causal=torch.ones(2)),
        "causal must be True or False",
    ),
    "sparse attention": (lambda: attention_tiles(*[SPARSE] * 3), "q must be a dense tensor"),
    "lesson": (lambda: knowledge_check(["01"]), "a lesson such as"),
    "seed": (lambda: knowledge_check("course", seed=ONE), "a number or a name"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_what_cannot_be_shown_is_refused_in_one_sentence(name: str) -> None:
    call, says = REFUSED[name]
    with pytest.raises(TraceError) as refusal:
        call()

    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("shape", [(0,), (0, 3)], ids=str)
def test_a_tensor_without_elements_flows(shape: tuple[int, ...]) -> None:
    flow = gradient_flow(Square, torch.empty(shape))

    assert "(empty)" in repr(flow)
    assert flow.png


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_where_no_derivative_is_found_backward_does_not_agree(value: float) -> None:
    view = jacobian_view(Square, torch.full((2,), value))

    assert view.views[0]["verdict"].startswith("There is nothing to compare")


def test_memory_is_told_of_tensors_that_have_no_values() -> None:
    assert "Square" in repr(memory_timeline(Square, META))
