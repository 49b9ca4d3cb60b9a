"""The memory timeline in a real browser, on a bare page: what a learner sees, hears and presses."""

import re
from collections.abc import Iterator

import pytest
from barepage import contrast, showing
from memory_variants import FULL, SWISHES, batch, in_cycle
from playwright.sync_api import Browser, Locator, Page, expect
from sampling import first_rows

from autograd_course.visualize.memory.widget import MemoryTimeline, memory_timeline

pytestmark = pytest.mark.browser

VARIANTS = {**SWISHES, "on ctx": in_cycle}


@pytest.fixture(scope="module")
def timeline() -> MemoryTimeline:
    return memory_timeline(VARIANTS, batch(), budget=4 * FULL)


@pytest.fixture
def page(browser: Browser, timeline: MemoryTimeline) -> Iterator[Page]:
    with showing(browser, timeline) as page:
        yield page


def status(page: Page) -> Locator:
    return page.get_by_role("status").first


def go(page: Page, step: int) -> None:
    page.get_by_label("step", exact=True).fill(str(step))


def chart(page: Page) -> Locator:
    return page.locator(".ac-memory-chart")


def kept(page: Page) -> Locator:
    return page.get_by_role("region", name="Saved at this moment")


def choose(page: Page, name: str) -> None:
    page.get_by_role("radio", name=name).check()


# Walking through the events


def test_a_step_is_told(page: Page) -> None:
    go(page, 1)

    expect(status(page)).to_have_text(
        "ForwardMm saves W and x (already resident): 0 extra bytes.0 bytes saved"
    )


def test_backward_is_told_by_a_sign_too(page: Page, timeline: MemoryTimeline) -> None:
    go(page, timeline.story["variants"][0]["turn"] + 1)

    expect(status(page)).to_contain_text("Backward ∂Mul 2 runs and frees")


@pytest.mark.parametrize(
    ("keys", "arrived"), [(["Home", "ArrowRight", "ArrowRight", "ArrowLeft"], 1), (["Home"], 0)]
)
def test_keys_step(page: Page, keys: list[str], arrived: int) -> None:
    chart(page).click()
    for key in keys:
        page.keyboard.press(key)

    assert page.evaluate("state.step") == arrived


def test_no_key_leaves_the_widget(page: Page) -> None:
    chart(page).click()
    for key in ("d", "d", "ArrowLeft", "Enter", "Escape", " ", " "):
        page.keyboard.press(key)

    assert page.evaluate("escaped") == []


def test_a_click_goes_to_the_event_under_it(page: Page, timeline: MemoryTimeline) -> None:
    box = chart(page).bounding_box()
    page.mouse.click(box["x"] + 75, box["y"] + 150)

    assert page.evaluate("state.step") == 0


def test_a_drag_walks_and_hovering_only_looks(page: Page) -> None:
    go(page, 0)
    box = chart(page).bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 150)
    expect(status(page)).not_to_contain_text("Nothing has run")
    assert page.evaluate("state.step") == 0
    page.mouse.move(box["x"] + 300, box["y"] - 60)
    expect(status(page)).to_contain_text("Nothing has run")

    page.mouse.move(box["x"] + 200, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 600, box["y"] + 150, steps=5)
    page.mouse.up()
    assert page.evaluate("state.step") > 5


def test_what_is_kept_is_listed_and_what_goes_is_crossed_out(
    page: Page, timeline: MemoryTimeline
) -> None:
    told = timeline.story["variants"][0]
    go(page, told["turn"])
    expect(kept(page)).to_contain_text("Saved at this moment: 320 KiB")
    expect(kept(page).locator("tbody tr")).to_have_count(7)
    go(page, told["turn"] + 1)

    gone = kept(page).locator(".ac-memory-gone")
    expect(gone.first).to_contain_text("− freed")
    expect(gone.locator("td").nth(1)).to_have_css("text-decoration-line", "line-through")


def test_the_cursor_stands_where_the_event_is(page: Page, timeline: MemoryTimeline) -> None:
    lefts = []
    for step in range(timeline.story["variants"][0]["turn"] + 3):
        go(page, step)
        lefts.append(float(page.locator(".ac-memory-cursor").get_attribute("x")))

    assert lefts == sorted(set(lefts))


# Variants and budget


def test_another_variant_comes_to_the_front_at_the_same_place(
    page: Page, timeline: MemoryTimeline
) -> None:
    go(page, timeline.story["variants"][0]["turn"])
    choose(page, "checkpoint")

    assert page.evaluate("state.variant") == "checkpoint"
    expect(status(page)).to_contain_text("Forward is over. 0 bytes are saved for backward.")
    expect(chart(page)).to_have_accessible_name(re.compile("^checkpoint: peak 320 KiB"))
    expect(page.locator(".ac-memory-chart .ac-memory-ghost")).to_have_count(3)


def test_a_row_can_be_clicked(page: Page) -> None:
    page.get_by_role("row", name=re.compile("fused")).get_by_role("cell").first.click()

    expect(page.get_by_role("radio", name="fused")).to_be_checked()


def test_bands_have_letters_and_marks_not_only_colors(page: Page) -> None:
    choose(page, "checkpoint")
    bands = page.locator(".ac-memory-band").count()
    letters = page.locator(".ac-memory-letter").all_text_contents()
    assert len(letters) == len(set(letters)) == bands > 2
    expect(page.locator(".ac-memory-chart path[fill*='-again']")).not_to_have_count(0)

    choose(page, "on ctx")
    expect(page.locator(".ac-memory-chart path[fill*='-hidden']")).to_have_count(1)


def test_the_budget_moves_without_the_kernel(page: Page, timeline: MemoryTimeline) -> None:
    verdicts = page.locator(".ac-memory-verdict")
    expect(verdicts).to_have_text(["✗ 64 KiB over", "✓ fits", "✗ 64 KiB over", "✓ fits"])
    slider = page.get_by_label("budget")
    last = len(timeline.budgets["values"]) - 1
    slider.evaluate("(s, i) => { s.value = i; s.dispatchEvent(new Event('input')) }", last)

    expect(verdicts).to_have_text(["✓ fits"] * 4)
    assert page.evaluate("state.budget") == 4 * FULL
    slider.evaluate("s => s.dispatchEvent(new Event('change'))")
    assert page.evaluate("state.budget") == timeline.budgets["values"][last]


def test_without_a_budget_there_is_no_slider(browser: Browser) -> None:
    with showing(browser, memory_timeline(in_cycle, batch())) as page:
        expect(page.get_by_label("budget")).to_have_count(0)
        expect(page.locator(".ac-memory-budget")).to_have_count(0)


def test_all_tensors_have_a_curve_of_their_own(page: Page) -> None:
    choose(page, "fused")
    page.get_by_role("checkbox", name="also show all tensors").check()

    expect(page.locator(".ac-memory-more")).to_have_count(1)
    expect(status(page)).to_contain_text("in all tensors")
    expect(page.get_by_role("checkbox")).to_have_count(1)  # there is no CUDA allocator here


# Look


@pytest.mark.parametrize("width", first_rows([420, 900], most=1))
def test_nothing_is_wider_than_the_page(
    browser: Browser, timeline: MemoryTimeline, width: int
) -> None:
    with showing(browser, timeline) as page:
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(
            "w => document.querySelector('.ac-memory-chart').clientWidth < w", arg=width
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", first_rows([False, True], most=1))
def test_text_is_legible(browser: Browser, timeline: MemoryTimeline, dark: bool) -> None:
    with showing(browser, timeline, dark=dark) as page:
        inks = page.evaluate(
            """() => [...document.querySelectorAll(
                 '.ac-memory td, .ac-memory th, .ac-memory small, .ac-memory-chart text')]
               .filter(e => !e.matches('.ac-memory-letter'))
               .map(e => getComputedStyle(e)[e instanceof SVGElement ? 'fill' : 'color'])"""
        )
        fills = page.evaluate(
            "[...document.querySelectorAll('.ac-memory-band')].map(e => getComputedStyle(e).fill)"
        )
    ground = "rgb(17, 17, 17)" if dark else "rgb(255, 255, 255)"
    assert min(contrast(ink, ground) for ink in inks) >= 4.5
    assert min(contrast("rgb(22, 25, 29)", fill) for fill in fills) >= 4.5


def test_a_disposed_widget_is_gone_and_deaf(page: Page) -> None:
    page.evaluate("dispose()")
    page.evaluate("model.set('step', 1)")

    expect(page.locator(".ac-memory")).to_have_count(0)


def test_the_kernel_can_set_step_variant_and_budget(page: Page, timeline: MemoryTimeline) -> None:
    page.evaluate("model.set('variant', 'fused')")
    page.evaluate("model.set('step', 0)")
    page.evaluate("b => model.set('budget', b)", timeline.budgets["values"][0])

    expect(page.get_by_role("radio", name="fused")).to_be_checked()
    expect(status(page)).to_contain_text("Nothing has run")
    expect(page.locator(".ac-memory-verdict").nth(1)).to_contain_text("over")
