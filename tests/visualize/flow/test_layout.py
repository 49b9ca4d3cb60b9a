"""A layout is legible: nothing overlaps, and everything flows in one direction."""

import itertools
import statistics
import time

import pytest
import torch
from flows import loss, random_function, transformer_block, two_and_three

from autograd_course.visualize import Trace, trace_gradient_flow
from autograd_course.visualize.flow.describe import script
from autograd_course.visualize.flow.layout import DOWN, RIGHT, Flow, Layout, layered, layout


def of_block() -> Trace:
    block, x = transformer_block()
    return trace_gradient_flow(lambda x: block(x).square().mean(), x)


def of_seed(seed: int) -> Trace:
    return trace_gradient_flow(random_function(seed), *(torch.ones(2) for _ in range(3)))


def chain(operations: int) -> Trace:
    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(operations):
            x = x.sin()
        return x

    return trace_gradient_flow(function, torch.tensor(1.0))


def direction(drawn: Layout) -> Flow:
    """Return the direction in which the first curve leaves its card."""
    (x, y), (u, v), *_ = drawn.curves[0].points
    return RIGHT if (y == v and u > x) else DOWN


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


def test_every_edge_runs_with_the_flow_from_its_source_into_its_target(
    trace: Trace, drawn: Layout
) -> None:
    flow = direction(drawn)
    for edge, curve in zip(trace.edges, drawn.curves, strict=True):
        source, target = drawn.boxes[edge.source], drawn.boxes[edge.target]
        end, _ = flow.turned(source.x + source.width, source.y + source.height)
        begin, _ = flow.turned(target.x, target.y)
        along = [flow.turned(*point)[0] for point in curve.points]
        assert along[0] == pytest.approx(end, abs=0.2)
        assert along[-1] == pytest.approx(begin, abs=0.2)
        assert along == sorted(along)
        assert curve.arrow[0] == curve.points[-1]


def test_edges_end_on_their_cards_sides(trace: Trace, drawn: Layout) -> None:
    flow = direction(drawn)
    for edge, curve in zip(trace.edges, drawn.curves, strict=True):
        for node, point in ((edge.source, curve.points[0]), (edge.target, curve.points[-1])):
            box = drawn.boxes[node]
            _, low = flow.turned(box.x, box.y)
            _, high = flow.turned(box.x + box.width, box.y + box.height)
            assert low < flow.turned(*point)[1] < high


@pytest.mark.parametrize(("operations", "flow"), [(7, RIGHT), (8, DOWN)])
def test_a_graph_of_more_than_nine_ranks_is_drawn_from_top_to_bottom(
    operations: int, flow: Flow
) -> None:
    trace = chain(operations)

    assert direction(layout(trace, script(trace))) == flow


def test_a_transformer_block_fits_the_width_of_a_notebook() -> None:
    trace = of_block()

    assert layout(trace, script(trace)).width <= 900


def test_a_chain_is_drawn_in_one_line() -> None:
    trace = chain(12)

    assert len({box.x + box.width / 2 for box in layout(trace, script(trace)).boxes}) == 1


def test_each_node_is_read_once_and_after_what_it_depends_on(trace: Trace, drawn: Layout) -> None:
    place = {node: at for at, node in enumerate(drawn.reading)}

    assert sorted(drawn.reading) == [node.id for node in trace.nodes]
    assert all(place[edge.source] < place[edge.target] for edge in trace.edges)


def test_badges_cover_no_card_and_no_arrow(trace: Trace, drawn: Layout) -> None:
    arrows = [point for curve in drawn.curves for point in curve.arrow]
    for node in (node for node in trace.nodes if node.kind == "custom"):
        badge = drawn.badges[node.id]
        assert badge.x + badge.width <= drawn.width
        for box in (box for i, box in enumerate(drawn.boxes) if i != node.id):
            beside = badge.x + badge.width <= box.x or box.x + box.width <= badge.x
            assert beside or badge.y + badge.height <= box.y or box.y + box.height <= badge.y
        for x, y in arrows:
            inside = badge.x < x < badge.x + badge.width
            assert not (inside and badge.y < y < badge.y + badge.height)


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

    at = {place: i for rank in layers.ranks for i, place in enumerate(rank)}
    crossed = sum(
        layers.rank_of[a] == layers.rank_of[c] and (at[a] - at[c]) * (at[b] - at[d]) < 0
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
