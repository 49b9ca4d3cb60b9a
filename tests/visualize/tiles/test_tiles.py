"""Attention tiles without a browser. The trace, the texts and the drawing agree with the run."""

import base64
import gc
import json
import math
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from autograd_course.functions.attention import TiledAttention
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.tiles.trace import Inputs, TileTrace, dot, trace_attention_tiles
from autograd_course.visualize.tiles.view import at, build_view, most_telling
from autograd_course.visualize.tiles.widget import AttentionTiles, attention_tiles

pytestmark = pytest.mark.slow


def head(n: int = 6, m: int = 6, e: int = 4, f: int = 3, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator) for size in ((n, e), (m, e), (m, f))]


def small() -> list[Tensor]:
    """Return two queries and four keys with one feature. Their scores are 0 1 3 3 and 0 2 6 6."""
    keys = torch.tensor([[0.0], [1.0], [3.0], [3.0]])
    return [torch.tensor([[1.0], [2.0]]), keys, torch.tensor([[1.0], [2.0], [3.0], [4.0]])]


def traced(
    tensors: list[Tensor], block: Any = (2, 2), causal: bool = False, mask: Any = None
) -> TileTrace:
    return trace_attention_tiles(Inputs(*tensors, mask), block, causal)


def places(visits: Any) -> list[tuple[int, int]]:
    return [(visit.row, visit.column) for visit in visits]


@pytest.fixture(scope="module")
def widget() -> AttentionTiles:
    return attention_tiles(*head())


@pytest.fixture
def fresh() -> AttentionTiles:
    return attention_tiles(*small(), block=(1, 2))


# The trace


def test_forward_goes_by_rows_and_backward_by_columns() -> None:
    trace = traced(head(4, 6))

    assert places(trace.forward) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert places(trace.backward) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert trace.skipped == ()


def test_causal_attention_leaves_tiles_out() -> None:
    trace = traced(head(), causal=True)

    assert trace.skipped == ((0, 1), (0, 2), (1, 2))
    assert trace.visible[2] == (True, True, True, False, False, False)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("block", [(1, 1), (2, 3), (4, 4), (6, 6)])
def test_what_it_ends_with_is_what_autograd_says(block: Any, causal: bool) -> None:
    trace = traced(head(), block, causal)
    leaves = [x.clone().requires_grad_() for x in head()]
    out = F.scaled_dot_product_attention(*leaves, is_causal=causal)
    truth = [out, *torch.autograd.grad(out.sum(), leaves)]

    for name, expected in zip(("out", "grad_q", "grad_k", "grad_v"), truth, strict=True):
        torch.testing.assert_close(torch.tensor(trace.tensors[name]).float(), expected)
    assert trace.agrees


def test_a_difference_from_full_attention_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = TiledAttention.apply

    def wrong(*inputs: Any) -> Any:
        out, lse = real(*inputs)
        return out * 1.001, lse

    monkeypatch.setattr(TiledAttention, "apply", wrong)

    trace = traced(head())
    assert not trace.agrees
    assert "do NOT agree" in build_view(trace)["frames"][-1]["text"]


def test_delta_is_the_sum_over_the_weights() -> None:
    trace = traced(head(), causal=True)

    assert trace.delta_by_weights == pytest.approx(trace.delta, abs=1e-5)


def test_the_last_turn_of_a_row_holds_the_output_times_the_sum() -> None:
    visit = traced(small()).forward[-1]

    sums = [1 + math.exp(-2 * x) + 2 * math.exp(-0 * x) for x in (1, 2)]
    weights = [[math.exp(s - 3 * x) for s in (0, x, 3 * x, 3 * x)] for x in (1, 2)]
    assert visit.column_of("max") == (3, 6)
    assert visit.column_of("sum") == pytest.approx([sum(row) for row in weights], rel=1e-6)
    assert visit.column_of("sum")[0] != pytest.approx(sums[0])
    mixed = [dot(row, (1, 2, 3, 4)) for row in weights]
    assert visit.column_of("out") == pytest.approx(mixed, rel=1e-6)


def test_bytes_are_those_of_the_tensors() -> None:
    trace = traced(head(8, 8, 4, 4))

    # Q, K, V and O are 2×4, scores and weights are 2×2, with three numbers per row, 4 bytes each.
    assert trace.forward[0].bytes == 4 * (4 * 8 + 2 * 4 + 3 * 2)
    assert trace.forward[0].square == 4 * (2 * 4)
    assert trace.whole["forward"].bytes == 4 * (4 * 32 + 2 * 64 + 3 * 8)
    assert traced([x.double() for x in head(8, 8, 4, 4)]).forward[0].bytes == 8 * 46


# The view


def test_the_parts_of_a_bar_are_the_weights_of_the_tiles_under_the_last_maximum() -> None:
    view = build_view(traced(small()))
    now = at(view, 2)

    first, second = 1 / math.exp(3) + math.exp(1 - 3), 2.0
    full = max(first + second, math.exp(-6) + math.exp(2 - 6) + 2)
    assert now["figures"]["0"]["parts"] == [round(1000 * x / full) for x in (first, second)]
    assert now["figures"]["0"]["factor"] == "×0.14"
    assert now["figures"]["0"]["ghost"] == round(1000 * (1 + math.exp(-1)) / full)


def test_a_rise_of_the_maximum_is_told_with_its_factor() -> None:
    view = build_view(traced(small(), (1, 2)))

    assert view["frames"][2]["text"] == (
        "This tile has query 0 and keys 2–3. Row 0: m rises from 1 to 3, so forward multiplies ℓ "
        "and O by exp(1 − 3) = 0.135. It recomputes nothing. Then the tile adds 2 to ℓ, which is "
        "now 2.19."
    )


def test_a_maximum_that_stays_is_told() -> None:
    q, k, v = small()
    view = build_view(traced([q, k.flip(0), v], (1, 2)))

    assert view["frames"][1]["text"].endswith("Row 0 starts with m = 3 and ℓ = 2.")
    assert view["frames"][2]["text"].endswith("Row 0: m stays 3, and ℓ grows by 0.185 to 2.19.")
    assert view["frames"][2]["figures"]["0"]["factor"] == ""


def test_backward_is_told_with_a_pair() -> None:
    view = build_view(traced(small(), (2, 2)))
    turns = [f["text"] for f in view["frames"] if f["phase"] == "backward" and f["tile"]]
    weight = math.exp(6) / (1 + math.exp(2) + 2 * math.exp(6))

    lse = math.log(1 + math.exp(2) + 2 * math.exp(6))
    assert f"query 1 and key 2, P = exp(S − L) = exp(6 − {lse:.3g}) = {weight:.3g} and" in turns[1]


def test_a_view_goes_through_all_tiles_rows_and_columns() -> None:
    frames = build_view(traced(head(), causal=True))["frames"]

    assert [frame["kind"] for frame in frames].count("tile") == 2 * 6
    assert [frame["kind"] for frame in frames].count("done") == 2 * 3
    assert [frames[0]["kind"], frames[-1]["kind"]] == ["given", "end"]
    assert [frame["kind"] for frame in frames].index("delta") == 1 + 6 + 3


def test_frames_add_up() -> None:
    view = build_view(traced(head()))

    assert at(view, 0)["trail"] == []
    assert at(view, 5)["trail"] == [[0, 0], [0, 1], [0, 2], [1, 0]]
    assert set(at(view, 5)["filled"]) == {"out 0", "out 1"}
    begun = [frame["kind"] for frame in view["frames"]].index("delta") + 1
    assert at(view, begun)["trail"] == [[0, 0]]
    end = at(view, len(view["frames"]) - 1)
    assert set(end["filled"]) == {
        f"{n} {i}" for n in ("out", "grad_q", "grad_k", "grad_v") for i in range(3)
    }
    assert all(end["figures"][str(i)]["parts"] == [1000] for i in range(6))


def test_the_most_telling_step_is_one_at_which_the_past_is_rescaled() -> None:
    trace = traced(head())
    view = build_view(trace)

    now = view["frames"][most_telling(trace, view)]
    assert any(row["factor"] for row in now["figures"].values())


def test_a_query_that_sees_no_key_is_told() -> None:
    mask = torch.ones(6, 6, dtype=torch.bool)
    mask[0] = False
    view = build_view(traced(head(), (1, 3), mask=mask))

    assert view["frames"][1]["text"] == (
        "This tile has query 0 and keys 0–2. Row 0 is fully masked in this tile."
    )
    assert view["frames"][3]["text"].endswith("it saves L = m + log ℓ: −∞.")
    assert "agree with full attention" in view["frames"][-1]["text"]


# The widget


@pytest.mark.colab
def test_a_saved_notebook_has_the_picture_and_the_account(widget: AttentionTiles) -> None:
    data, _ = widget._repr_mimebundle_()

    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == repr(widget)
    assert "image/svg+xml" not in data


def test_the_account_tells_what_the_picture_shows(fresh: AttentionTiles) -> None:
    fresh.step = 2

    assert repr(fresh).splitlines() == [
        "Tiled attention: 2 queries × 4 keys with 1 feature, in 4 tiles of 1×2.",
        f"Step 2 of 14, forward: {build_view(fresh.trace)['frames'][2]['text']}",
        "Order of the tiles in forward: (0, 0) (0, 1) (1, 0) (1, 1).",
        "Order of the tiles in backward: (0, 0) (1, 0) (0, 1) (1, 1).",
        "  row 0: m = 3.00, ℓ = 2.19, rescaled ×0.14 (shares of the tiles: 8% + 92%)",
        "  row 1: not started",
        "In memory at once: 52 bytes (Q 1×1, K 2×1, V 2×1, S 1×2, W 1×2, r 1×1, m 1×1, ℓ 1×1, "
        "O 1×1). Full matrix: 136 bytes.",
        "With 8192 queries and keys, a tile would still need at most 76 bytes. The full S and its "
        "weights would need 512 MiB per head.",
    ]


def test_two_runs_leave_the_same_bytes() -> None:
    one, other = attention_tiles(*small()), attention_tiles(*small())

    assert (one.png, repr(one), one.stories) == (other.png, repr(other), other.stories)


@pytest.mark.colab
def test_what_is_sent_to_the_page_is_json_and_small() -> None:
    state = attention_tiles(*head(8, 8, 4, 4)).get_state()

    assert len(json.dumps(state["stories"], allow_nan=False)) < 150_000


def test_every_size_and_causality_is_there(widget: AttentionTiles) -> None:
    sizes = [view["block"] for view in widget.stories.values()]

    assert list(dict.fromkeys(sizes)) == ["1×1", "2×2", "4×4", "6×6"]
    assert len(sizes) == 8
    assert (widget.block, widget.causal) == ("2×2", False)


@pytest.mark.colab
def test_another_run_can_be_chosen(fresh: AttentionTiles) -> None:
    fresh.step = fresh.steps
    fresh.causal = True

    assert fresh.trace.causal
    assert fresh.step == fresh.steps < 14
    fresh.block = "2×4"
    assert fresh.trace.block == (2, 4)
    assert fresh.step <= fresh.steps


@pytest.mark.colab
def test_a_step_past_the_end_is_the_end(fresh: AttentionTiles) -> None:
    fresh.step = 99

    assert fresh.step == fresh.steps == 14


@pytest.mark.colab
def test_an_unknown_size_is_refused(fresh: AttentionTiles) -> None:
    with pytest.raises(TraceError, match="no run with tiles of 3×3; choose 1×1, 1×2"):
        fresh.block = "3×3"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_any_float_is_shown(dtype: torch.dtype) -> None:
    widget = attention_tiles(*(x.to(dtype) for x in head()))

    assert widget.trace.itemsize == torch.finfo(dtype).bits // 8
    assert widget.png


def test_the_caller_is_left_alone() -> None:
    q, k, v = head()
    q.requires_grad_()
    before, state = [x.detach().clone() for x in (q, k, v)], torch.get_rng_state()
    with torch.inference_mode():
        widget = attention_tiles(q, k, v)

    assert widget.trace.agrees
    assert q.grad is None
    assert all(torch.equal(x, y) for x, y in zip((q, k, v), before, strict=True))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()


def test_no_tensor_is_kept() -> None:
    tensors = head()
    widget = attention_tiles(*tensors)
    refs = [weakref.ref(x) for x in tensors]
    del tensors
    gc.collect()

    assert widget.steps > 0
    assert all(ref() is None for ref in refs)


Q, K, V = head()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: attention_tiles([[1.0]], K, V), "q is of type list; pass a tensor"),
        (lambda: attention_tiles(Q[None], K, V), r"q has 3 dims, but one head has 2"),
        (lambda: attention_tiles(Q.long(), K, V), "q is int64; attention needs real floats"),
        (lambda: attention_tiles(Q, K / 0, V), "k needs finite elements only"),
        (lambda: attention_tiles(Q[:0], K, V), "q needs elements"),
        (lambda: attention_tiles(Q, K.double(), V), "the same dtype and device"),
        (lambda: attention_tiles(Q, K[:, :2], V), r"shapes do not match \(q \(6, 4\), k \(6, 2\)"),
        (lambda: attention_tiles(Q, K, V[:2]), "shapes do not match"),
        (
            lambda: attention_tiles(*[torch.ones(64, 4)] * 3, block=(1, 1)),
            r"With tiles of 1×1, a side has more than 16 tiles; use a block of \(4, 4\) or larger",
        ),
        (lambda: attention_tiles(torch.ones(65, 4), K, V), "65 queries and 6 keys are too many"),
        (lambda: attention_tiles(Q, K, V, block=2), r"block is 2; pass \(queries, keys\)"),
        (lambda: attention_tiles(Q, K, V, block=(0, 2)), r"block is \(0, 2\)"),
        (lambda: attention_tiles(Q, K, V, block=(2, 2, 2)), r"block is \(2, 2, 2\)"),
        (lambda: attention_tiles(Q, K, V, block=(2, True)), r"block is \(2, True\)"),
        (lambda: attention_tiles(Q, K, V, mask=Q), "mask must be a boolean tensor"),
        (
            lambda: attention_tiles(Q, K, V, mask=Q[:5, :3] > 0),
            r"mask has shape \(5, 3\); it needs",
        ),
        (
            lambda: attention_tiles(torch.ones(64, 1), K[:, :1], V),
            r"With tiles of 2×2, a side has more than 16 tiles; use a block of \(4, 1\) or larger",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(call: Any, says: str) -> None:
    with pytest.raises(TraceError, match=says) as raised:
        call()

    assert str(raised.value).endswith(".")


def test_a_mask_that_broadcasts_is_taken() -> None:
    widget = attention_tiles(*head(), mask=torch.tensor([True] * 5 + [False]))

    assert not any(row[5] for row in widget.trace.visible)


@pytest.mark.parametrize(
    ("n", "m", "block"),
    [(1, 1, (2, 2)), (3, 17, (2, 5)), pytest.param(64, 64, (4, 4), marks=pytest.mark.thorough)],
)
def test_odd_sizes_are_drawn(n: int, m: int, block: Any) -> None:
    widget = attention_tiles(*head(n, m, 20, 2), block=block)

    for step in (0, 1, widget.steps):
        widget.step = step
        assert widget.png.startswith(b"\x89PNG")
        assert len(repr(widget)) < 6000
