"""Attention tiles in a real browser, on a bare page: what a learner sees, hears and presses."""

import re
from collections.abc import Iterator

import pytest
import torch
from barepage import hold_the_clock, showing
from playwright.sync_api import Browser, Locator, Page, expect
from sampling import first_rows

from autograd_course.visualize.tiles.widget import AttentionTiles, attention_tiles

pytestmark = pytest.mark.browser


def made(**options: bool) -> AttentionTiles:
    """Return four queries and four keys whose scores grow, so that each tile raises the maximum."""
    q = torch.tensor([[1.0], [0.5], [2.0], [1.0]])
    k, v = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([[1.0], [0.0], [2.0], [1.0]])
    made = attention_tiles(q, k, v, **options)
    made.step = 0
    return made


@pytest.fixture(scope="module")
def widget() -> AttentionTiles:
    return made()


@pytest.fixture
def page(browser: Browser, widget: AttentionTiles) -> Iterator[Page]:
    with showing(browser, widget) as page:
        yield page


def status(page: Page) -> Locator:
    return page.get_by_role("status").first


def step(page: Page) -> int:
    return page.evaluate("state.step")


def go(page: Page, to: int) -> None:
    page.get_by_label("step", exact=True).fill(str(to))


def told(widget: AttentionTiles, name: str, number: int) -> str:
    return widget.stories[name]["story"]["frames"][number]["text"]


# Stepping


def test_at_first_no_tile_is_done(page: Page, widget: AttentionTiles) -> None:
    expect(status(page)).to_have_text(f"Start {told(widget, '2×2', 0)}")
    expect(page.locator(".ac-tiles-tile")).to_have_count(4)
    expect(page.locator(".ac-tiles-tile.ac-tiles-done, .ac-tiles-tile.ac-tiles-now")).to_have_count(
        0
    )


@pytest.mark.parametrize("number", [1, 2, 3, 6, 7, 8, 9, 13])
def test_a_step_is_told_in_the_kernels_words(
    page: Page, widget: AttentionTiles, number: int
) -> None:
    go(page, number)

    expect(status(page)).to_contain_text(told(widget, "2×2", number))


def test_only_the_present_tile_shows_its_scores(page: Page) -> None:
    go(page, 2)

    expect(page.locator(".ac-tiles-cells text")).to_have_text(["2.00", "3.00", "1.00", "1.50"])
    expect(page.locator(".ac-tiles-tile.ac-tiles-done")).to_have_count(1)
    go(page, 3)
    expect(page.locator(".ac-tiles-cells text")).to_have_count(0)


def test_a_rise_of_the_maximum_shows_factor_and_former_bar(page: Page) -> None:
    go(page, 2)

    expect(page.locator(".ac-tiles-factor").filter(has_text="×")).to_have_text(["×0.14", "×0.37"])
    widths = page.locator(".ac-tiles-ghost").evaluate_all("g => g.map(x => x.width.baseVal.value)")
    assert [width > 0 for width in widths] == [True, True, False, False]
    go(page, 1)
    expect(page.locator(".ac-tiles-factor").filter(has_text="×")).to_have_count(0)


def test_old_parts_shrink_by_the_factor(page: Page) -> None:
    first = page.locator(".ac-tiles-part").first
    go(page, 1)
    before = float(first.evaluate("bar => parseFloat(bar.style.width)"))
    go(page, 2)
    after = float(first.evaluate("bar => parseFloat(bar.style.width)"))

    assert after / before == pytest.approx(0.1353, rel=0.02)


def test_a_row_that_is_done_keeps_only_its_log_sum_exp(page: Page) -> None:
    go(page, 3)

    expect(page.get_by_role("img")).to_have_accessible_name(re.compile(r"row 0: L = 3\.44; row 1"))


def test_backward_goes_down_the_columns(page: Page) -> None:
    go(page, 9)

    done = page.locator(".ac-tiles-tile").evaluate_all(
        "tiles => tiles.map(tile => tile.classList.contains('ac-tiles-done'))"
    )
    assert done == [True, False, False, False]
    expect(page.locator(".ac-tiles-tile").nth(2)).to_have_class(re.compile("ac-tiles-now"))


def test_gradients_fill_up(page: Page) -> None:
    gradients = page.locator(".ac-tiles-gradient path")
    go(page, 6)
    expect(gradients).to_have_count(0)
    go(page, 13)
    assert gradients.count() >= 6


@pytest.mark.parametrize(
    ("keys", "arrived"),
    [
        (["ArrowRight", "ArrowRight", "ArrowLeft"], 1),
        (["End"], 14),
        (["End", "ArrowRight", "Home", "ArrowLeft"], 0),
    ],
)
def test_keys_step(page: Page, keys: list[str], arrived: int) -> None:
    page.get_by_label("step", exact=True).focus()
    for key in keys:
        page.keyboard.press(key)

    assert step(page) == arrived


def test_space_plays_to_the_end(page: Page) -> None:
    hold_the_clock(page)
    page.get_by_role("button", name="Play (space)").press("Enter")
    page.clock.run_for(40_000)

    assert step(page) == 14
    expect(page.get_by_role("button", name="Play (space)")).to_be_visible()


def test_no_key_leaves_the_widget(page: Page) -> None:
    for control in ("step", "tile size", "causal"):
        page.get_by_label(control, exact=True).focus()
        for key in ("d", "d", "ArrowDown", "Escape"):
            page.keyboard.press(key)

    assert page.evaluate("escaped") == []


def test_a_click_goes_to_a_tiles_turn(page: Page) -> None:
    go(page, 1)
    page.locator(".ac-tiles-tile").nth(3).click()
    assert step(page) == 5
    go(page, 8)
    page.locator(".ac-tiles-tile").nth(1).click()
    assert step(page) == 11


def test_after_a_click_keys_go_on_from_there(page: Page) -> None:
    go(page, 1)
    page.locator(".ac-tiles-tile").nth(3).click()

    expect(page.get_by_role("slider", name="step")).to_be_focused()
    page.keyboard.press("ArrowRight")
    assert step(page) == 6


def test_the_kernel_can_set_the_step(page: Page) -> None:
    page.evaluate("model.set('step', 14)")

    expect(status(page)).to_contain_text("All gradients are complete.")


# Choosing


def test_another_size_is_the_same_attention_in_other_tiles(page: Page) -> None:
    page.get_by_label("tile size").select_option("1×1")

    expect(page.locator(".ac-tiles-tile")).to_have_count(16)
    assert page.evaluate("saved.at(-1).block") == "1×1"
    page.get_by_label("tile size").select_option("4×4")
    expect(page.locator(".ac-tiles-tile")).to_have_count(1)


def test_causal_attention_skips_tiles(page: Page) -> None:
    page.get_by_label("causal").check()

    expect(page.locator(".ac-tiles-skipped")).to_have_count(1)
    page.keyboard.press("End")
    go(page, 3)
    expect(status(page)).to_contain_text("This tile has queries 2–3 and keys 0–1.")


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (5, "Forward This tile has query 2 and key 2"),
        (9, "Backward This tile has query 2 and key 0"),
    ],
)
def test_a_choice_keeps_the_place(page: Page, number: int, says: str) -> None:
    go(page, number)
    page.get_by_label("tile size").select_option("1×1")

    expect(status(page)).to_contain_text(says)


def test_the_end_stays_the_end(page: Page) -> None:
    go(page, 14)
    page.get_by_label("tile size").select_option("4×4")

    expect(status(page)).to_contain_text("All gradients are complete.")


# Memory


def test_a_turn_holds_less_than_the_matrix_as_one_tile(page: Page, widget: AttentionTiles) -> None:
    go(page, 1)
    memory = page.get_by_role("group", name="Memory")

    expect(memory).to_contain_text("this tile88 bytes")
    expect(memory).to_contain_text("full matrix240 bytes")
    expect(memory).to_contain_text("Q 2×1, K 2×1, V 2×1, S 2×2, W 2×2")
    go(page, 3)
    expect(memory).to_contain_text("this tilenothing")


# Look


@pytest.mark.parametrize(
    ("at", "heads", "first", "last"),
    [
        (0, ["m", "ℓ", "×r", "L", "ℓ, max 2.2"], ["−∞", "0.00", "", ""], ["−∞", "0.00", "", ""]),
        (2, ["m", "ℓ", "×r", "L", "ℓ, max 2.2"], ["3.00", "1.55", "", ""], ["−∞", "0.00", "", ""]),
        (3, ["m", "ℓ", "×r", "L", "ℓ, max 2.2"], ["", "", "", "3.44"], ["−∞", "0.00", "", ""]),
        (9, ["", "D", "", "L", "Σ P, max 1"], ["", "1.15", "", "3.44"], ["", "1.15", "", "3.44"]),
    ],
)
def test_the_columns_beside_the_scores_have_heads_and_are_filled(
    page: Page, at: int, heads: list[str], first: list[str], last: list[str]
) -> None:
    go(page, at)
    svg = page.locator(".ac-tiles-stage svg")

    expect(svg.locator(":scope > text")).to_have_text(heads)
    rows = svg.locator("g:has(> .ac-tiles-ghost)")
    texts = "g => [...g.querySelectorAll('text:not(.ac-tiles-factor)')].map(t => t.textContent)"
    assert [rows.first.evaluate(texts), rows.last.evaluate(texts)] == [first, last]


@pytest.mark.parametrize("at", [0, 6])
def test_forward_and_backward_are_marked_under_the_slider(page: Page, at: int) -> None:
    """The marks are separated at the last step of forward."""
    go(page, at)
    forward, backward = page.locator(".ac-phases > *").all()
    expect(forward).to_have_text("forward")
    expect(backward).to_have_text("backward")
    expect(forward).to_have_css("border-top-style", "solid")
    expect(backward).to_have_css("border-top-style", "dashed")
    one, other = forward.bounding_box(), backward.bounding_box()
    slider = page.get_by_label("step", exact=True).bounding_box()
    assert one
    assert other
    assert slider
    part = (one["x"] + one["width"] - slider["x"] - 8) / (slider["width"] - 16)
    assert part == pytest.approx(6 / 14, abs=0.01)
    assert other["x"] + other["width"] == pytest.approx(slider["x"] + slider["width"] - 8, abs=1)


@pytest.mark.parametrize("width", first_rows([480, 900], most=1))
def test_the_stage_fits_the_page(browser: Browser, widget: AttentionTiles, width: int) -> None:
    with showing(browser, widget) as page:
        page.set_viewport_size({"width": width, "height": 800})
        go(page, 9)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", first_rows([False, True], most=1))
def test_numbers_are_legible_on_the_deepest_shade(
    browser: Browser, widget: AttentionTiles, dark: bool
) -> None:
    with showing(browser, widget, dark=dark) as page:
        go(page, 2)
        ink, shade, opacity = page.evaluate(
            """() => ['.ac-tiles-cells text', '.ac-tiles-cells .ac-tiles-8', '.ac-tiles-8'].map(
                 (which, i) => getComputedStyle(document.querySelector(which))[
                   i === 2 ? 'fillOpacity' : 'fill'])"""
        )
    ground = (17, 17, 17) if dark else (255, 255, 255)
    deepest = [
        float(opacity) * x + (1 - float(opacity)) * y
        for x, y in zip(rgb(shade), ground, strict=True)
    ]
    assert contrast(rgb(ink, ground), deepest) >= 4.5


def rgb(text: str, ground: tuple[int, ...] = (0, 0, 0)) -> list[float]:
    *color, alpha = [*map(float, re.findall(r"[\d.]+", text)), 1.0][:4]
    return [alpha * x + (1 - alpha) * y for x, y in zip(color, ground, strict=True)]


def contrast(one: list[float], other: list[float]) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color: list[float]) -> float:
    parts = [x / 255 for x in color]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_bars_grow_only_where_motion_is_wanted(browser: Browser, widget: AttentionTiles) -> None:
    for still, moving in ((True, ["0s", "none"]), (False, ["0.5s", "ac-tiles-grow"])):
        with showing(browser, widget, still=still) as page:
            go(page, 1)
            transition, animation = page.locator(".ac-tiles-newest").first.evaluate(
                "bar => ['transitionDuration', 'animationName'].map(n => getComputedStyle(bar)[n])"
            )
            assert [transition.split(",")[0], animation] == moving


def test_a_disposed_view_hears_nothing_more(page: Page) -> None:
    page.evaluate("dispose()")
    page.evaluate("model.set('step', 3)")

    expect(page.locator(".ac-tiles")).to_have_count(0)
