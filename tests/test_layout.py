"""A layout is legible: nothing lies on anything else, everything flows to the right."""

import itertools
import statistics
import time

import pytest
import torch
from flows import loss, random_function, transformer_block, two_and_three

from autograd_course.visualize import Trace, trace_gradient_flow
from autograd_course.visualize.layers import layered
from autograd_course.visualize.layout import Layout, layout
from autograd_course.visualize.wording import script


def of_block() -> Trace:
    block, x = transformer_block()
    return trace_gradient_flow(lambda x: block(x).square().mean(), x)


def of_seed(seed: int) -> Trace:
    return trace_gradient_flow(random_function(seed), *(torch.ones(2) for _ in range(3)))


TRACES = {
    "two inputs": lambda: trace_gradient_flow(loss, *two_and_three()),
    "transformer block": of_block,
    "parallel edges": lambda: trace_gradient_flow(lambda x: x * x, torch.tensor(2.0)),
    **{f"random {seed}": (lambda seed=seed: of_seed(seed)) for seed in range(12)},
}


@pytest.fixture(params=TRACES)
def trace(request: pytest.FixtureRequest) -> Trace:
    return TRACES[request.param]()


@pytest.fixture
def drawn(trace: Trace) -> Layout:
    return layout(trace, script(trace))


def test_cards_do_not_overlap_and_lie_inside(drawn: Layout) -> None:
    for a, b in itertools.combinations(drawn.boxes, 2):
        beside = a.x + a.width <= b.x or b.x + b.width <= a.x
        assert beside or a.y + a.height <= b.y or b.y + b.height <= a.y
    for box in drawn.boxes:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= drawn.width
        assert box.y + box.height <= drawn.height


def test_every_edge_runs_from_its_source_to_the_right_into_its_target(
    trace: Trace, drawn: Layout
) -> None:
    for edge, curve in zip(trace.edges, drawn.curves, strict=True):
        source, target = drawn.boxes[edge.source], drawn.boxes[edge.target]
        assert curve.points[0][0] == pytest.approx(source.x + source.width, abs=0.2)
        assert curve.points[-1][0] == pytest.approx(target.x, abs=0.2)
        across = [x for x, _ in curve.points]
        assert across == sorted(across)


def test_no_edge_runs_through_a_card(trace: Trace, drawn: Layout) -> None:
    for edge, curve in zip(trace.edges, drawn.curves, strict=True):
        passed = [box for i, box in enumerate(drawn.boxes) if i not in (edge.source, edge.target)]
        for x, y in curve.points[3:-3:3]:
            assert not any(
                box.x < x < box.x + box.width and box.y < y < box.y + box.height for box in passed
            )


def test_labels_do_not_cover_each_other(drawn: Layout) -> None:
    for (x, y), (u, v) in itertools.combinations([curve.label for curve in drawn.curves], 2):
        assert abs(x - u) >= 20 or abs(y - v) >= 12


def test_a_layout_is_deterministic(trace: Trace, drawn: Layout) -> None:
    assert layout(trace, script(trace)) == drawn


def test_a_transformer_block_has_few_crossings() -> None:
    trace = of_block()
    ends = [(edge.source, edge.target) for edge in trace.edges]

    layers = layered(len(trace.nodes), ends)

    at = {place: i for column in layers.columns for i, place in enumerate(column)}
    columns = {place: c for c, column in enumerate(layers.columns) for place in column}
    crossed = sum(
        columns[a] == columns[c] and (at[a] - at[c]) * (at[b] - at[d]) < 0
        for (a, b), (c, d) in itertools.combinations(layers.links, 2)
    )
    assert len(trace.nodes) >= 45
    assert crossed <= 2


def test_a_transformer_block_is_laid_out_in_less_than_a_tenth_of_a_second() -> None:
    trace = of_block()
    words = script(trace)

    def seconds() -> float:
        begun = time.process_time()
        layout(trace, words)
        return time.process_time() - begun

    assert statistics.median(seconds() for _ in range(5)) < 0.1
