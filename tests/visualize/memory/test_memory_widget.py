"""The memory timeline without a browser: what it sends to the page, and what a notebook keeps."""

import base64
import json
from typing import Any

import pytest
import torch
from memory_variants import FULL, SWISHES, Normed, ReLUByMask, ReLUInCycle, batch, deep, in_cycle
from torch.autograd.graph import saved_tensors_hooks

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.memory.describe import size, verdict
from autograd_course.visualize.memory.trace import trace_memory
from autograd_course.visualize.memory.view import MOST_BANDS, OTHERS, places, ticks
from autograd_course.visualize.memory.widget import MemoryTimeline, memory_timeline

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def timeline() -> MemoryTimeline:
    return memory_timeline(SWISHES, batch(), budget=4 * FULL)


def packed_away(x: torch.Tensor) -> torch.Tensor:
    with saved_tensors_hooks(lambda saved: saved.tolist(), torch.tensor):
        return (2 * x).exp()


def variant(timeline: MemoryTimeline, name: str) -> dict[str, Any]:
    return next(told for told in timeline.story["variants"] if told["name"] == name)


@pytest.mark.colab
def test_a_saved_notebook_has_the_picture_and_the_account(timeline: MemoryTimeline) -> None:
    data, _ = timeline._repr_mimebundle_()

    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == repr(timeline)
    assert "image/svg+xml" not in data


def test_the_account_is_the_same_every_time(timeline: MemoryTimeline) -> None:
    again = memory_timeline(SWISHES, batch(), budget=4 * FULL)

    assert (repr(again), again.png) == (repr(timeline), timeline.png)


def test_the_account_says_all_that_the_picture_shows() -> None:
    told = repr(memory_timeline({"mask": lambda x: ReLUByMask.apply(x + 1)}, batch(), budget=9000))

    assert told.splitlines() == [
        "mask: peak 16 KiB, 16 KiB saved after forward; 3 operations in forward, 1 in backward, "
        "0 of them recomputed; budget 8.789 KiB: ✗ 7.211 KiB over",
        "  start    Nothing has run yet. Inputs and parameters are already resident. "
        "Saved: 0 bytes.",
        "  forward  ReLUByMask saves its mask, 16 KiB. Saved: 16 KiB.",
        "  forward  Forward is over. 16 KiB are saved for backward. Saved: 16 KiB.",
        "  backward ReLUByMask runs and frees its mask: 16 KiB. Saved: 0 bytes.",
        "  backward Add runs and frees nothing. Saved: 0 bytes.",
        "  after    Backward is over. Nothing is saved anymore. Saved: 0 bytes.",
    ]


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (in_cycle, "ReLUInCycle sets ctx.y, 64 KiB on its ctx."),
        (in_cycle, "deletes the results, but 128 KiB are still in memory: a reference cycle"),
        (in_cycle, "The garbage collector runs and frees 128 KiB."),
        (
            SWISHES["checkpoint"],
            "Sigmoid would save 64 KiB, but checkpoint did not keep it in memory. Backward rec",
        ),
        (
            SWISHES["checkpoint"],
            "Mul ↻ is recomputed inside the backward of Mul 2 and saves its input, 64 KiB",
        ),
        (
            packed_away,
            "Exp would save 64 KiB, but other saved-tensor hooks did not keep it in memory.",
        ),
        (
            SWISHES["composed"],
            "Mul saves its input, 64 KiB; the output of Sigmoid (already saved).",
        ),
        (SWISHES["composed"], "Mm 2 saves its input, 64 KiB; W (already resident)."),
        (SWISHES["checkpoint"], "The backward of Mul 2 frees the input of Mul ↻ 2: 64 KiB"),
        (Normed(), "NativeBatchNorm (body.1) saves its input, 64 KiB; its output (2 tensors), 512"),
        (lambda x: x * x * 3, "Mul saves x (already resident): 0 extra bytes."),
    ],
)
def test_sentences(fn: Any, says: str) -> None:
    assert says in repr(memory_timeline({"fn": fn}, batch()))


@pytest.mark.colab
def test_what_is_sent_to_the_page_is_json_and_small(timeline: MemoryTimeline) -> None:
    sent = json.dumps(timeline.get_state(), allow_nan=False, default=lambda _: "widget")

    told = json.dumps([timeline.story, timeline.budgets])
    assert told[1:-1].split(", ", 1)[0] in sent
    assert len(told) < 40_000


def test_a_large_model_is_sent_in_a_few_bands_and_rows() -> None:
    net, x = deep()
    told = variant(memory_timeline({"net": net}, x), "net")

    assert len(told["bands"]) <= MOST_BANDS
    assert len(told["kept"]) < 100
    assert max(told["more"]) > 0
    assert len(json.dumps(told)) < 150_000


def test_many_operations_share_the_last_band() -> None:
    def many(x: Any) -> Any:
        for name in ("exp", "sin", "tanh", "sigmoid", "erf", "cos", "asinh", "exp2", "log"):
            x = getattr(x, name)() + 1
        return x

    story = memory_timeline({"many": many}, batch().abs()).story
    assert len(story["groups"]) == MOST_BANDS
    assert story["groups"][-1]["label"] == OTHERS


def test_it_opens_at_the_peak(timeline: MemoryTimeline) -> None:
    composed = variant(timeline, "composed")

    assert timeline.variant == "composed"
    assert composed["kept"][timeline.step] == composed["peak"]


def test_forward_and_backward_stand_above_each_other() -> None:
    for fn in SWISHES.values():
        trace = trace_memory(fn, batch())
        found = places(trace)
        assert found == sorted(found)
        assert len(found) == len(trace.events) + 1
        assert found[trace.turn + 1] == 1


def test_every_budget_of_the_slider_has_verdicts(timeline: MemoryTimeline) -> None:
    sweep = timeline.budgets
    at = sweep["values"].index(4 * FULL)

    assert sweep["verdicts"][at] == ["✗ 64 KiB over", "✓ fits", "✗ 64 KiB over"]
    for value, verdicts in zip(sweep["values"], sweep["verdicts"], strict=True):
        fits = [told["peak"] <= value for told in timeline.story["variants"]]
        assert [text.startswith("✓") for text in verdicts] == fits


@pytest.mark.colab
def test_a_budget_off_the_sweep_is_taken_in() -> None:
    timeline = memory_timeline(ReLUInCycle, batch(), budget=1000)
    before = timeline.png

    timeline.budget = 70_001

    assert 70_001 in timeline.budgets["values"]
    assert timeline.png != before


@pytest.mark.colab
def test_the_kernel_may_move_it(timeline: MemoryTimeline) -> None:
    timeline.step, timeline.variant = 10**6, "fused"

    longest = max(len(told["kept"]) for told in timeline.story["variants"])
    assert timeline.step == longest - 1
    with pytest.raises(
        TraceError, match="There is no variant 'x'; choose one of: composed, fused, checkpoint"
    ):
        timeline.variant = "x"


@pytest.mark.colab
@pytest.mark.parametrize(
    ("given", "budget", "says"),
    [
        ({}, None, "Pass between 1 and 8 variants, not 0"),
        ({str(i): ReLUByMask for i in range(9)}, None, "not 9"),
        (
            ReLUByMask,
            1.5,
            "budget must be a number of bytes, such as 64 \\* 1024, not of type float",
        ),
        (ReLUByMask, -1, "0 or more, not -1"),
        (batch(), None, "write memory_timeline\\(loss, x, y\\)"),
        ({"a": batch()}, None, "write memory_timeline\\(loss, x, y\\)"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(given: Any, budget: Any, says: str) -> None:
    with pytest.raises(TraceError, match=says):
        memory_timeline(given, batch(), budget=budget)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (65536, "64 KiB"),
        (1234567, "1.177 MiB"),
        (5 * 2**40, "5 TiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_a_budget_is_kept_up_to_its_last_byte() -> None:
    assert [verdict(peak, 1024) for peak in (1023, 1024, 1025)] == [
        "✓ fits",
        "✓ fits",
        "✗ 1 byte over",
    ]


@pytest.mark.parametrize("most", [0, 1, 7, 1000, 1024, 5000, 196608, 3 * 2**20, 2**31 + 1])
def test_ticks_are_few_and_reach_the_top(most: int) -> None:
    marks = ticks(most)

    assert 2 <= len(marks) <= 8
    assert marks[0] == (0, "0")
    assert marks[-1][0] >= most
    assert len({label for _, label in marks}) == len(marks)


def test_ticks_are_round_where_the_unit_changes() -> None:
    labels = [label for _, label in ticks(1200 * 1024)]

    assert labels == ["0", "256 KiB", "512 KiB", "768 KiB", "1 MiB", "1.25 MiB"]
