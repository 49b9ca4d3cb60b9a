"""Nodes are grouped by the module that created them, and folded to keep a picture legible."""

import gc
import random
import weakref
from typing import Any

import pytest
import torch
from flows import random_function, transformer_block
from torch import Tensor, nn
from torch.nn.modules import module

from autograd_course.functions import Square
from autograd_course.visualize import Trace, TraceError, gradient_flow, trace_gradient_flow
from autograd_course.visualize.flow.describe import script
from autograd_course.visualize.flow.grouping import MOST_CARDS, chosen, shown
from autograd_course.visualize.flow.trace import Node


class Squared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Square.apply(x) + 1


class Net(nn.Module):
    """Two layers and a module with a Function from the course. One layer is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.body = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), Squared())

    def forward(self, x: Tensor) -> Tensor:
        return self.first(self.body(self.first(x))).sum()


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def trace(net: Net) -> Trace:
    return trace_gradient_flow(net, torch.ones(2, 3))


def sigmoids(depth: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()) for _ in range(depth)))


def names(trace: Trace) -> list[str]:
    return [node.name for node in trace.nodes]


def node(trace: Trace, name: str) -> Node:
    return next(node for node in trace.nodes if node.name == name)


# Grouping


def test_groups_are_the_modules_that_ran_in_their_order(trace: Trace) -> None:
    found = [(g.name, g.kind, g.parent) for g in trace.groups]

    assert found == [
        ("first", "Linear", None),
        ("body", "Sequential", None),
        ("body.0", "Linear", 1),
        ("body.2", "Squared", 1),
        ("first 2", "Linear", None),
    ]


def test_a_node_lies_in_the_innermost_module_that_made_it(trace: Trace) -> None:
    inside = {n.name: n.group and trace.groups[n.group].name for n in trace.nodes}

    assert inside["Square"] == "body.2"
    assert inside["Tanh"] == "body"  # a module with only one operation is not a group
    assert (inside["Sum"], inside["x"], inside["loss"]) == (None, None, None)


def test_a_parameter_lies_where_all_its_uses_are(trace: Trace) -> None:
    inside = {n.name: n.group and trace.groups[n.group].name for n in trace.nodes}

    assert inside["body.0.weight"] == "body.0"
    assert inside["first.weight"] is None  # the layer is called twice


def test_modules_of_a_closure_and_of_an_argument_have_their_paths(net: Net) -> None:
    captured = trace_gradient_flow(lambda x: net.body(x).sum(), torch.ones(2, 3))
    given = trace_gradient_flow(lambda model, x: model(x), net.body, torch.ones(2, 3))

    assert [g.name for g in captured.groups] == ["net.body", "net.body.0", "net.body.2"]
    assert [g.name for g in given.groups] == ["model", "model.0", "model.2"]
    assert "model.0.weight" in names(given)


def test_hooks_on_modules_are_removed_even_if_the_function_raises(net: Net) -> None:
    def fails(x: Tensor) -> Tensor:
        raise ValueError(str(net.body(x).shape))

    trace_gradient_flow(net, torch.ones(2, 3))
    with pytest.raises(TraceError, match="fails raised ValueError"):
        trace_gradient_flow(fails, torch.ones(2, 3))

    assert not module._global_forward_hooks
    assert not module._global_forward_pre_hooks


# Folding


def test_a_folded_module_shows_what_leaves_it_and_what_comes_back(trace: Trace) -> None:
    folded = node(shown(trace, ()), "body")

    assert (folded.kind, folded.op) == ("module", "Sequential")
    assert folded.values == node(trace, "Add").values
    assert folded.gradients == node(trace, "Add").gradients
    assert folded.inside is not None
    assert folded.inside.custom == ("Square",)
    assert [name for name, _ in folded.inside.parameters] == ["body.0.bias", "body.0.weight"]


def test_what_a_folded_module_sends_is_what_its_first_operation_sends(trace: Trace) -> None:
    folded = shown(trace, ())
    (into,) = folded.into(node(folded, "body").id)

    assert folded.nodes[into.source].name == "first"
    assert into.gradient == node(folded, "first").gradients[0]
    assert into.factor is None


def test_the_factor_of_one_operation_is_not_the_modules() -> None:
    trace = trace_gradient_flow(lambda x: Squared()(x).sin(), torch.tensor(3.0))
    (whole,) = trace.out_of(0)

    (edge,) = [e for e in shown(trace, ()).edges if e.source == 0]

    assert whole.factor is not None
    assert (edge.gradient, edge.factor) == (whole.gradient, None)


def test_opening_a_module_keeps_what_lies_outside(trace: Trace) -> None:
    closed, opened = shown(trace, ()), shown(trace, {1})

    assert "body" in names(closed)
    assert "body" not in names(opened)
    assert {"body.0", "Tanh", "body.2"} <= set(names(opened))
    outside = {"x", "first", "first 2", "Sum", "loss"}
    assert outside <= set(names(closed)) & set(names(opened))


def test_a_module_in_a_closed_one_stays_hidden(trace: Trace) -> None:
    assert names(shown(trace, {2})) == names(shown(trace, ()))


def test_everything_opened_is_the_trace_itself(trace: Trace) -> None:
    assert shown(trace, range(len(trace.groups))) == trace


def every_choice(trace: Trace, seed: int) -> list[set[int]]:
    draw = random.Random(seed)
    groups = range(len(trace.groups))
    return [{g for g in groups if draw.random() < 0.5} for _ in range(12)]


def of_random(seed: int) -> Trace:
    """Trace a random graph whose pieces run inside nested modules."""

    class Piece(nn.Module):
        def __init__(self, number: int, inner: nn.Module | None) -> None:
            super().__init__()
            self.number, self.inner = number, inner

        def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
            made = random_function(self.number)(a, b, c)
            return made if self.inner is None else self.inner(a, made * b, c) + made

    inner = Piece(seed, None)
    outer = Piece(seed + 100, Piece(seed + 200, inner))
    rng = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(2, generator=rng, dtype=torch.float64) for _ in range(3)]
    return trace_gradient_flow(lambda a, b, c: inner(a, outer(a, b, c) * b, c), *inputs)


@pytest.mark.parametrize("seed", range(15))
def test_however_it_is_folded_each_node_is_shown_once_in_topological_order(seed: int) -> None:
    trace = of_random(seed)
    operations = sum(n.kind in ("op", "custom") for n in trace.nodes)

    for opened in every_choice(trace, seed):
        folded = shown(trace, opened)
        ids = [n.id for n in folded.nodes]
        assert ids == list(range(len(ids)))
        assert sorted(folded.backward) == ids
        turn = {n: at for at, n in enumerate(folded.backward)}
        assert all(e.source < e.target for e in folded.edges)
        assert all(turn[e.target] < turn[e.source] for e in folded.edges)
        assert operations == sum(
            n.inside.operations if n.inside else n.kind in ("op", "custom") for n in folded.nodes
        )


@pytest.mark.parametrize("seed", range(5))
def test_however_it_is_folded_what_crosses_an_edge_is_what_crossed_it(seed: int) -> None:
    trace = of_random(seed)
    real = [edge.gradient for edge in trace.edges]

    for opened in every_choice(trace, seed):
        for edge in shown(trace, opened).edges:
            assert any(edge.gradient is gradient for gradient in real)


# Choosing what to fold


def test_a_small_graph_is_shown_whole() -> None:
    block, x = transformer_block()
    trace = trace_gradient_flow(block, x)

    assert shown(trace, chosen(trace)) == trace


def test_a_deep_chain_folds_to_its_layers() -> None:
    trace = trace_gradient_flow(sigmoids(14), torch.ones(2, 4))

    found = names(shown(trace, chosen(trace)))

    assert len(trace.nodes) > MOST_CARDS
    assert found[:4] == ["input", "0.0", "Sigmoid", "1.0"]
    assert len(found) == 30


class Uneven(nn.Module):
    """A small stem and head around a body of equal layers."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.body = sigmoids(layers)
        self.head = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.stem(x)))


@pytest.mark.parametrize(
    ("layers", "opened"),
    [
        (2, {"stem", "stem.0", "body", "body.0", "body.1", "body.0.0", "body.1.0", "head"}),
        (20, {"stem", "stem.0", "body", "head", "head.0"}),  # each layer remains one card
        (45, {"stem", "stem.0", "body", "head", "head.0"}),
    ],
)
def test_level_by_level_what_is_alike_opens_together_as_long_as_it_fits(
    layers: int, opened: set[str]
) -> None:
    trace = trace_gradient_flow(Uneven(layers), torch.ones(2, 4))

    found = chosen(trace)

    assert {trace.groups[group].name for group in found} >= opened
    assert len(shown(trace, found).nodes) <= MOST_CARDS
    kinds = {(g.kind, g.parent) for n, g in enumerate(trace.groups) if n in found}
    assert not kinds & {(g.kind, g.parent) for n, g in enumerate(trace.groups) if n not in found}


def test_a_depth_can_be_asked_for() -> None:
    net = sigmoids(3)
    flow = gradient_flow(net, torch.ones(2, 4), names=["x"], depth=0)

    assert names(flow.picture.trace) == ["x", "0", "1", "2", "output"]


def recurrent(x: Tensor) -> Tensor:
    for _ in range(1000):
        x = torch.tanh(x * 0.9 + 0.1)
    return x.sum()


def test_a_chain_without_modules_is_cut_into_runs() -> None:
    trace = trace_gradient_flow(recurrent, torch.ones(2))

    folded = shown(trace, chosen(trace))

    assert len(trace.nodes) > 3000
    assert 10 < len(folded.nodes) <= MOST_CARDS
    assert "run 1" in names(folded)


def test_a_payload_of_thousands_of_nodes_stays_below_a_megabyte() -> None:
    flow = gradient_flow(recurrent, torch.ones(2))

    assert len(repr(flow.view)) < 1_000_000


# In the widget


def test_opening_a_group_retells_the_story() -> None:
    flow = gradient_flow(sigmoids(3), torch.ones(2, 4), names=["x"], depth=0)
    (card,) = [c for c in flow.view["cards"] if c["title"] == "▸ 1"]

    flow.opened = [[card["opens"]]]

    assert flow.view["opened"] == [[card["opens"]]]
    assert "▸ 1.0" in [c["title"] for c in flow.view["cards"]]
    assert "1.0" in repr(flow)


@pytest.mark.parametrize(
    ("step", "after"), [(0, 0), (4, 5), (6, 7), (9, 11)], ids=["start", "forward", "back", "end"]
)
def test_the_story_stands_where_it_stood(step: int, after: int) -> None:
    flow = gradient_flow(sigmoids(3), torch.ones(2, 4), depth=0, step=step)
    assert flow.phases == (4, 5)

    flow.opened = [[2]]  # one card becomes two

    assert flow.phases == (5, 6)
    assert flow.step == after


def test_a_card_says_what_is_around_it() -> None:
    flow = gradient_flow(sigmoids(3), torch.ones(2, 4), depth=1)
    (card,) = [c for c in flow.view["cards"] if c["title"] == "▸ 1.0"]

    assert [flow.view["groups"][group] for group in card["within"]] == ["1"]
    assert ("part of", "1 (Sequential)", "value") in card["details"]


@pytest.mark.parametrize("opened", [[[99]], [[-1]], [[0, 0]]])
def test_an_answer_comes_to_any_question(opened: list[list[int]]) -> None:
    flow = gradient_flow(sigmoids(2), torch.ones(2, 4), depth=0)

    flow.opened = opened

    assert flow.opened == flow.view["opened"]


def test_a_folded_custom_function_is_announced(trace: Trace) -> None:
    words = script(shown(trace, ()))
    (body,) = [card for card in words.cards if card.label == "body, Sequential, folded"]

    assert body.badge == "ƒ 1"
    assert ("custom Functions", "Square", "value") in body.details


def test_a_parameters_gradient_is_told_by_its_folded_module(net: Net) -> None:
    x = torch.ones(2, 3)
    words = script(shown(trace_gradient_flow(net, x), ()))
    net(x).backward()
    exact = net.body[0].bias.grad

    (body,) = [card for card in words.cards if card.label.startswith("body,")]
    told = {term: words.fill(text) for term, text, _ in body.details}

    expected = ", ".join(f"{value:.4g}" for value in exact.tolist())
    assert told["∂ of body.0.bias"] == f"[{expected}]"


# It leaves no objects behind


def test_nothing_of_a_model_and_its_graph_stays_alive() -> None:
    net = sigmoids(3)
    kept: list[weakref.ref[Any]] = []
    net[1].register_forward_hook(lambda _, __, out: kept.append(weakref.ref(out)))

    gc.collect()
    gc.disable()
    try:
        trace_gradient_flow(net, torch.ones(2, 4))
        assert [ref() for ref in kept] == [None]
    finally:
        gc.enable()
    assert all(p.grad is None for p in net.parameters())
