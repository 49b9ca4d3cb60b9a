"""The widget without a browser: what it sends to the page, and what it leaves in the notebook."""

import asyncio
import base64
import json
import re
from pathlib import Path

import pytest
import torch
from flows import loss, transformer_block, two_and_three
from torch import Tensor

from autograd_course.visualize import GradientFlow, TraceError, describe, gradient_flow
from autograd_course.visualize.kit import live

pytestmark = pytest.mark.colab


@pytest.fixture
def flow() -> GradientFlow:
    return gradient_flow(loss, *two_and_three())


def slider(flow: GradientFlow, name: str) -> dict:
    """Return a slider. Its ``frames`` are the texts for each of its values."""
    told = zip(flow.numbers["sliders"], flow.sweeps, strict=True)
    return next({**sweep, **slider} for slider, sweep in told if slider["name"] == name)


def card(flow: GradientFlow, title: str) -> dict:
    return next(card for card in flow.view["cards"] if card["title"] == title)


def filled(template: str, texts: list[str]) -> str:
    return re.sub(r"\{(\d+)\}", lambda slot: texts[int(slot[1])], template)


def test_a_saved_notebook_has_the_picture_and_the_account(flow: GradientFlow) -> None:
    data, _ = flow._repr_mimebundle_()

    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == describe(flow.trace) == repr(flow)
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "image/svg+xml" not in data


def test_what_is_sent_to_the_page_is_json(flow: GradientFlow) -> None:
    json.dumps(flow.get_state(), allow_nan=False, default=lambda _: "widget")


def test_the_story_goes_forward_then_back(flow: GradientFlow) -> None:
    phases = [step["phase"] for step in flow.view["steps"]]

    assert phases == ["start"] + ["forward"] * 4 + ["backward"] * 6
    assert flow.steps == 10


def test_a_step_past_the_end_is_the_end(flow: GradientFlow) -> None:
    flow.step = 99

    assert flow.step == 10


def test_a_sweep_holds_what_the_picture_says_at_each_value(flow: GradientFlow) -> None:
    sweep = slider(flow, "x")
    frame = sweep["frames"][sweep["values"].index(-1.0)]

    assert filled(card(flow, "x")["gradient"], frame) == "-2"
    assert filled(card(flow, "loss")["value"], frame) == "4"
    assert sweep["values"][sweep["index"]] == 2.0
    assert sweep["frames"][sweep["index"]] == flow.numbers["texts"]


def test_moving_an_input_traces_anew(flow: GradientFlow) -> None:
    flow.step = 10
    flow.inputs = {"x": -1.0, "y": 0.5}

    assert filled(card(flow, "loss")["value"], flow.numbers["texts"]) == "1.5"
    assert slider(flow, "y")["values"][slider(flow, "y")["index"]] == 0.5
    assert flow.step == 10


def test_a_range_can_be_chosen() -> None:
    flow = gradient_flow(loss, *two_and_three(), sweep={"y": (0, 6)})

    (only,) = flow.numbers["sliders"]
    assert (only["name"], only["values"][0], only["values"][-1]) == ("y", 0, 6)


def test_a_range_may_leave_the_value_out() -> None:
    flow = gradient_flow(torch.sin, torch.tensor(2.0), names="x", sweep={"x": (0, 1)})

    assert slider(flow, "x")["values"][-1] == 2.0


def test_sliders_can_be_left_out() -> None:
    assert gradient_flow(loss, *two_and_three(), sweep=False).numbers["sliders"] == []


def test_a_large_graph_and_a_tensor_have_no_slider() -> None:
    block, x = transformer_block()

    assert gradient_flow(block, x).numbers["sliders"] == []
    assert gradient_flow(torch.sum, torch.ones(3)).numbers["sliders"] == []


def test_sliders_of_small_tensors_stay_below_a_megabyte() -> None:
    def waves(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        grid = torch.ones(8, 8) * x
        for _ in range(5):
            grid = torch.sin(grid * y + z)
        return grid.sum()

    flow = gradient_flow(waves, *two_and_three(), torch.tensor(1.0))

    assert 0 < len(flow.numbers["sliders"]) < 3
    assert len(json.dumps(flow.view)) + len(json.dumps(flow.sweeps)) < 1_000_000


def branching(x: Tensor) -> Tensor:
    return x.sin() if x > 0 else x.exp() * 2


def test_where_the_graph_is_another_the_kernel_is_asked() -> None:
    flow = gradient_flow(branching, torch.tensor(1.0))
    sweep = slider(flow, "x")

    assert sweep["frames"][sweep["values"].index(-0.5)] is None
    flow.inputs = {"x": -0.5}
    assert [c["title"] for c in flow.view["cards"]] == ["x", "Exp", "Mul", "loss"]


def limited(x: Tensor) -> Tensor:
    if x > 3:
        raise ValueError("too large")
    return x * x


def test_where_the_function_raises_the_last_picture_stays_with_a_notice() -> None:
    flow = gradient_flow(limited, torch.tensor(2.0))
    before = flow.numbers["texts"]

    flow.inputs = {"x": 4.0}

    assert "limited raised ValueError" in flow.numbers["notice"]
    assert flow.numbers["answers"] == {"x": 4.0}
    assert flow.numbers["texts"] == before


def test_a_sweep_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def talkative(x: Tensor) -> Tensor:
        print("once")
        return x * x

    gradient_flow(talkative, torch.tensor(2.0))

    assert capsys.readouterr().out == "once\n"


@pytest.mark.parametrize("name", ["z", "y"])
def test_a_sweep_of_something_else_is_refused(name: str) -> None:
    with pytest.raises(TraceError, match=f"sweep contains '{name}', which is not a scalar input"):
        gradient_flow(
            lambda x, y: (x * y).sum(), torch.tensor(1.0), torch.ones(2), sweep={name: (0, 1)}
        )


def test_the_loss_itself_is_refused() -> None:
    with pytest.raises(TraceError, match="needs a function to run as its first argument"):
        gradient_flow(loss(*two_and_three()))


def test_a_notebook_shows_a_refusal_as_one_sentence() -> None:
    assert TraceError("No.")._render_traceback_() == ["TraceError: No."]


@pytest.mark.parametrize("path", sorted(live.BUNDLES.iterdir()), ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")

    assert not re.search(r"https?:|@import|url\((?!#)|\bimport\b", text)


def test_a_move_in_the_same_graph_sends_numbers_only() -> None:
    flow = gradient_flow(loss, *two_and_three())
    before = flow.view
    flow.inputs = {"x": 1.0, "y": 3.0}

    assert flow.view is before
    assert filled(card(flow, "x")["gradient"], flow.numbers["texts"]) == "2"


def test_what_needs_more_room_is_laid_out_anew_and_keeps_the_room() -> None:
    flow = gradient_flow(torch.exp, torch.tensor(1.0), names=["x"], sweep={"x": (-3, 3)})
    widths = []
    for x in (1.0, 29.123456, 1.0):
        flow.inputs = {"x": x}
        widths.append(flow.picture.layout.width)

    assert widths[0] < widths[1] == widths[2]


def test_where_a_slider_leads_nothing_moves() -> None:
    flow = gradient_flow(torch.exp, torch.tensor(1.0), names=["x"], sweep={"x": (-30, 30)})
    before = flow.picture.layout
    for x in (-30.0, 29.0, 1.0):
        flow.inputs = {"x": x}

        assert flow.picture.layout is before


def test_the_place_of_a_value_that_no_float_holds_stays(flow: GradientFlow) -> None:
    flow = gradient_flow(torch.exp, torch.tensor(0.2), names=["x"])
    places, frames = slider(flow, "x")["values"], slider(flow, "x")["frames"]
    flow.inputs = {"x": 0.5}

    assert slider(flow, "x")["values"] == places
    assert slider(flow, "x")["frames"] is frames


async def swept() -> None:
    """Let the kernel run its sweeps until it has nothing else to do."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=60)


def test_in_a_kernel_the_answer_comes_before_the_sweeps(flow: GradientFlow) -> None:
    async def moved() -> tuple[float, float]:
        flow.inputs = {"x": 1.0, "y": 3.0}
        at_once = slider(flow, "y")["others"]["x"]
        await swept()
        return at_once, slider(flow, "y")["others"]["x"]

    assert asyncio.run(moved()) == (2.0, 1.0)
    assert slider(flow, "y")["frames"][slider(flow, "y")["index"]] == flow.numbers["texts"]


def test_the_sweep_of_the_input_that_moved_is_kept(flow: GradientFlow) -> None:
    before = slider(flow, "x")["frames"]
    flow.inputs = {"x": 1.0, "y": 3.0}

    assert slider(flow, "x")["frames"] is before
    assert before[slider(flow, "x")["index"]] == flow.numbers["texts"]


def test_of_two_moves_only_the_last_is_swept(flow: GradientFlow) -> None:
    async def moved_twice() -> list[float]:
        times: list[float] = []
        flow.observe(lambda _: times.append(slider(flow, "y")["others"]["x"]), "sweeps")
        for x in (1.0, 0.5):
            flow.inputs = {"x": x, "y": 3.0}
            await asyncio.sleep(0)
        await swept()
        return times

    assert asyncio.run(moved_twice()) == [0.5]
