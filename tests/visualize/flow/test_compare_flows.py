"""Two flows side by side share their steps, their sweeps and their description."""

import base64
import io
import json
from typing import Any

import pytest
import torch
from flows import RoundSTE
from PIL import Image
from torch import Tensor

from autograd_course.visualize import TraceError
from autograd_course.visualize.flow.compare import FlowComparison, compare_flows, places

pytestmark = pytest.mark.slow


def without(w: Tensor, t: Tensor) -> Tensor:
    return (w.round() - t) ** 2


def with_ste(w: Tensor, t: Tensor) -> Tensor:
    return (RoundSTE.apply(w) - t) ** 2


def longer(w: Tensor, t: Tensor) -> Tensor:
    return (w.round().sin().cos() - t) ** 2


@pytest.fixture
def pair() -> FlowComparison:
    return compare_flows(
        {"without STE": without, "with STE": with_ste}, torch.tensor(1.3), torch.tensor(3.0)
    )


def test_the_gradients_of_the_inputs_are_set_against_each_other(pair: FlowComparison) -> None:
    assert repr(pair).endswith(
        "Side by side\n  ∂ of w: 0 without STE; -4 with STE\n  ∂ of t: 4 without STE; 4 with STE\n"
        "  ≠ without STE: Round, Round to w ×0; with STE: RoundSTE, RoundSTE to w ×1"
    )


def test_each_flow_is_told_in_full(pair: FlowComparison) -> None:
    assert "without STE\nGradient flow through without: 3 operations, 0 custom." in repr(pair)
    assert "with STE\nGradient flow through with_ste: 3 operations, 1 custom." in repr(pair)


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ([(2, 2), (2, 2)], [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]),
        ([(1, 2), (3, 1)], [[0, 1, 1, 1, 2, 3], [0, 1, 2, 3, 4, 4]]),
    ],
)
def test_all_go_back_together_and_the_shorter_waits(phases: Any, expected: Any) -> None:
    assert places(phases) == expected


def test_the_last_step_is_the_last_of_all() -> None:
    pair = compare_flows({"a": without, "b": longer}, torch.tensor(1.3), torch.tensor(3.0), step=99)

    last = [len(flow["steps"]) - 1 for flow in pair.view["flows"]]
    assert [places[-1] for places in pair.view["places"]] == last
    assert pair.step == pair.steps == max(last)


def test_a_slider_moves_its_input_in_all_flows(pair: FlowComparison) -> None:
    slider = pair.numbers["sliders"][0]
    frame = pair.sweeps[0]["frames"][slider["index"]]

    assert slider["name"] == "w"
    assert frame == pair.numbers["texts"]


def twice(w: Tensor, t: Tensor) -> Tensor:
    return (w.round().round() - t) ** 2


def doubled(w: Tensor, t: Tensor) -> Tensor:
    return (2 * w).sin() * t


def tripled(w: Tensor, t: Tensor) -> Tensor:
    return (3 * w).sin() * t


def by_number(w: Tensor, t: Tensor) -> Tensor:
    return w * w.detach().sin() * t


def by_path(w: Tensor, t: Tensor) -> Tensor:
    return w * w.sin() * t


@pytest.mark.parametrize(
    ("one", "other", "at", "marked"),
    [
        (without, without, 1.3, ["/", "/"]),
        (without, with_ste, 1.3, ["2/0", "2/0"]),
        (torch.relu, torch.nn.functional.leaky_relu, 1.0, ["1/", "1/"]),
        (torch.relu, torch.nn.functional.leaky_relu, -1.0, ["1/0", "1/0"]),
        (without, twice, 1.3, ["/", "2/"]),
        (doubled, tripled, 1.0, ["/0", "/0"]),
        (by_number, by_path, 1.0, ["/", "2/0 2"]),
    ],
    ids=[
        "nothing",
        "an operation",
        "the same factor",
        "a factor",
        "one more",
        "no consequence",
        "a path",
    ],
)
def test_what_differs_is_marked(one: Any, other: Any, at: float, marked: list[str]) -> None:
    given = (torch.tensor(at), torch.tensor(3.0))[: 1 if one is torch.relu else 2]
    flows = compare_flows({"one": one, "other": other}, *given, names=["w", "t"][: len(given)])

    assert [texts[-1] for texts in flows.numbers["texts"]] == marked


@pytest.mark.colab
def test_moving_an_input_traces_all_anew(pair: FlowComparison) -> None:
    pair.inputs = {"w": -2.0}

    assert "∂ of w: 0 without STE; -10 with STE" in repr(pair)
    assert pair.numbers["answers"] == {"w": -2.0, "t": 3.0}


def test_the_picture_is_one_and_the_same_bytes_each_time(pair: FlowComparison) -> None:
    data, _ = pair._repr_mimebundle_()
    png = base64.b64decode(data["image/png"])

    assert png == pair.png
    assert len(png) < 60_000
    width, height = Image.open(io.BytesIO(png)).size
    assert width > height > 0


@pytest.mark.colab
def test_what_is_sent_to_the_page_is_json(pair: FlowComparison) -> None:
    json.dumps(pair.get_state(), allow_nan=False, default=lambda _: "widget")


def broken(w: Tensor, t: Tensor) -> Tensor:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("flows", "said"),
    [
        (without, "needs a dict of two or more functions"),
        ({"only": without}, "needs a dict of two or more functions"),
        ({"a": without, "b": broken}, "b: broken raised ValueError"),
    ],
)
def test_what_cannot_be_compared(flows: Any, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        compare_flows(flows, torch.tensor(1.0), torch.tensor(2.0))
