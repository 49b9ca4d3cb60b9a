"""The Function lab in a real browser, on a bare page: dragging, stepping and asking the kernel."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from barepage import contrast, hold_the_clock, showing
from playwright.sync_api import Browser, Locator, Page, expect
from sampling import first_rows
from torch import Tensor

from autograd_course.functions import ClippedReLU, Square
from autograd_course.visualize.functionlab.widget import FunctionLab, function_lab

pytestmark = [pytest.mark.browser, pytest.mark.uncompiled]


class CalmSquare(Square):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output.clamp(-1, 1)


class Identity(Square):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output


def bent(x: Tensor, at: Tensor) -> Tensor:
    if x > at:
        return Square.apply(x)
    return x


@pytest.fixture
def lab() -> FunctionLab:
    return function_lab({"right": Square, "wrong": CalmSquare})


@pytest.fixture
def page(browser: Browser, lab: FunctionLab) -> Iterator[Page]:
    with showing(browser, lab) as page:
        yield page


def verdict(page: Page) -> Locator:
    return page.locator(".ac-lab-verdict")


def rows(page: Page) -> Locator:
    return page.locator(".ac-lab-parts li")


def slide(slider: Locator, index: int, event: str = "input") -> None:
    slider.evaluate(
        "(range, [index, event]) => { range.value = index; range.dispatchEvent(new Event(event)) }",
        [index, event],
    )


@pytest.mark.parametrize("plot", [0, 1])
def test_each_axis_has_three_numbers_or_more(page: Page, plot: int) -> None:
    up = page.locator(".ac-plot").nth(plot).locator("text[text-anchor=end]")

    assert up.count() >= 3


def test_where_slopes_differ_the_wash_is_quiet_and_has_a_sign(browser: Browser) -> None:
    with showing(browser, function_lab(Identity)) as page:
        lower = page.locator(".ac-plot").nth(1).locator(".ac-lab-differ")
        expect(lower.locator("text").first).to_have_text("✗")
        for wash in page.locator(".ac-lab-differ rect").all():
            expect(wash).to_have_css("fill-opacity", "0.06")


# Moving x


def test_the_slider_moves_everything_without_the_kernel(page: Page, lab: FunctionLab) -> None:
    slide(page.get_by_label("x", exact=True), lab.sweep.at(-2.0))

    expect(verdict(page)).to_have_text(
        "✓ The slopes agree at x = -2: -4 from backward, -4 from finite differences."
    )
    expect(page.locator(".ac-lab-legend")).to_contain_text("forward4")
    expect(rows(page).last).to_contain_text("returns -4")
    assert page.evaluate("[state.x, saved.length]") == [-2, 0]


def test_when_the_hand_lets_go_the_kernel_knows_x(page: Page, lab: FunctionLab) -> None:
    x = page.get_by_label("x", exact=True)
    slide(x, lab.sweep.at(2.0))
    slide(x, lab.sweep.at(2.0), "change")

    assert page.evaluate("saved.at(-1).x") == 2


@pytest.mark.parametrize("plot", [0, 1])
def test_the_curve_itself_can_be_dragged(page: Page, plot: int) -> None:
    box = page.locator("svg.ac-plot").nth(plot).bounding_box()
    assert box is not None

    def place(x: float) -> tuple[float, float]:
        across = (40 + (x + 3) / 6 * 388) / 440
        return box["x"] + across * box["width"], box["y"] + box["height"] / 2

    page.mouse.move(*place(0.0))
    page.mouse.down()
    page.mouse.move(*place(1.5), steps=4)
    expect(verdict(page)).to_contain_text("x = 1.5: 3 from backward")
    page.mouse.up()
    assert page.evaluate("saved.at(-1).x") == 1.5
    page.keyboard.press("ArrowLeft")
    expect(verdict(page)).to_contain_text("x = 1.4")


def test_keys_move_x_by_one_place(page: Page) -> None:
    page.get_by_label("x", exact=True).focus()
    page.keyboard.press("ArrowRight")

    expect(verdict(page)).to_contain_text("x = 1.1")
    expect(page.get_by_label("x", exact=True)).to_have_attribute(
        "aria-valuetext", re.compile(r"x = 1\.1\. ✓ The slopes agree")
    )


def test_the_slider_stands_under_the_point(page: Page, lab: FunctionLab) -> None:
    for x in (-3.0, 0.0, 2.5):
        slide(page.get_by_label("x", exact=True), lab.sweep.at(x))
        point = page.locator(".ac-plot").first.locator(".ac-upright").bounding_box()
        track = page.get_by_label("x", exact=True).bounding_box()
        assert point is not None
        assert track is not None
        thumb = track["x"] + 8 + (x + 3) / 6 * (track["width"] - 16)
        assert abs(point["x"] + point["width"] / 2 - thumb) < 2


def test_the_kernel_can_move_x(page: Page) -> None:
    page.evaluate("model.set('x', -1)")

    expect(verdict(page)).to_contain_text("x = -1")


def test_a_move_takes_less_than_a_frame(page: Page) -> None:
    milliseconds = page.evaluate(
        """() => { const range = document.querySelector('.ac-lab-x input');
             const move = i => { range.value = i; range.dispatchEvent(new Event('input'));
                                 document.body.offsetHeight; };
             for (let i = 0; i < 20; i++) move(i);
             const begun = performance.now();
             for (let i = 0; i < 60; i++) move(i);
             return (performance.now() - begun) / 60; }"""
    )

    print(f"{milliseconds:.2f} ms a move")
    assert milliseconds < 17


def test_a_tangent_is_equally_long_everywhere(page: Page, lab: FunctionLab) -> None:
    def length() -> float:
        return page.locator("line.ac-lab-claimed").last.evaluate(
            "({ x1, x2, y1, y2 }) => Math.hypot(x2.baseVal.value - x1.baseVal.value, "
            "y2.baseVal.value - y1.baseVal.value)"
        )

    for x in (-3.0, 0.0, 1.0):
        slide(page.get_by_label("x", exact=True), lab.sweep.at(x))
        assert length() == pytest.approx(170, abs=0.5)


# Stepping through the lines


def test_at_first_all_lines_have_run(page: Page) -> None:
    expect(page.locator(".ac-lab-parts li[data-ran]")).to_have_count(7)
    expect(rows(page).last).to_have_attribute("aria-current", "step")
    expect(page.get_by_text("grad_output ∂ 1 → backward → ∂ 2")).to_be_visible()
    expect(page.locator(".ac-lab-kept")).to_contain_text("saved tensor 0 = 1 the input x")


def test_stepping_shows_only_what_has_happened(page: Page) -> None:
    page.get_by_role("button", name="First step").click()
    expect(page.locator(".ac-lab-parts li[data-ran]")).to_have_count(1)
    expect(page.locator(".ac-lab-kept")).not_to_contain_text("saved tensor")
    expect(page.get_by_text("→ backward →")).to_have_count(0)

    page.get_by_role("button", name="Step forward").click()
    expect(page.locator("[aria-current]")).to_have_text("▶ctx.save_for_backward(x)saves x")
    expect(page.locator(".ac-lab-now")).to_have_text("Forward · ctx.save_for_backward(x) · saves x")
    assert page.evaluate("saved.at(-1).step") == 1


def test_a_click_on_a_line_goes_to_it(page: Page) -> None:
    rows(page).nth(4).click()

    expect(rows(page).nth(4)).to_have_attribute("aria-current", "step")
    assert page.evaluate("state.step") == 4


def test_keys_step_where_the_source_has_the_focus(page: Page) -> None:
    page.get_by_role("region", name="Source of forward and backward").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("state.step") == 1
    page.keyboard.press("End")
    assert page.evaluate("state.step") == -1


def test_the_end_stays_the_end_where_another_branch_is_longer(browser: Browser) -> None:
    lab = function_lab(bent, torch.tensor(0.0), x=1.0)
    with showing(browser, lab) as page:
        count = page.locator(".ac-count")
        longer = count.text_content()
        slide(page.get_by_label("x", exact=True), lab.sweep.at(-1.0))
        expect(count).to_have_text("2 / 2")
        assert longer == "9 / 9"
        expect(page.locator("[aria-current]")).to_contain_text("return x")


def test_no_key_leaves_the_widget(page: Page) -> None:
    page.locator("svg.ac-plot").first.click()
    for key in ("d", "d"):
        page.keyboard.press(key)
    for name in ("x", "grad_output"):
        page.get_by_label(name, exact=True).focus()
        for key in ("d", "d", "ArrowUp", "Enter", " "):
            page.keyboard.press(key)

    assert page.evaluate("escaped") == []


# Asking the kernel


def reply(page: Page, lab: FunctionLab) -> None:
    """Answer the page's last request as the kernel would."""
    lab.choice = page.evaluate("saved.at(-1).choice")
    page.evaluate("scene => model.set('scene', scene)", lab.scene)


def asked(page: Page) -> list[float]:
    return page.evaluate("saved.map(({ choice }) => choice.parameters.grad_output)")


def test_a_parameter_asks_the_kernel_and_shows_its_answer(page: Page, lab: FunctionLab) -> None:
    slider = page.get_by_label("grad_output", exact=True)
    page.get_by_label("Function", exact=True).select_option("wrong")
    reply(page, lab)
    expect(verdict(page)).to_contain_text("The slopes agree")

    slide(slider, 50)
    assert asked(page)[-1] == 2
    reply(page, lab)

    expect(verdict(page)).to_have_text(
        "✗ The slopes differ at x = 1: 1 from backward, 2 from finite differences."
    )
    expect(page.locator(".ac-lab-differ").first).to_be_visible()
    expect(page.get_by_text("slope = 2 / 2 = 1")).to_be_visible()


def test_one_question_is_asked_at_a_time_and_the_newest_next(page: Page, lab: FunctionLab) -> None:
    slider = page.get_by_label("grad_output", exact=True)
    for index in (45, 50, 55):
        slide(slider, index)
    assert asked(page) == [1.5]

    reply(page, lab)
    assert asked(page) == [1.5, 2.5]
    expect(slider).to_have_value("55")  # an answer to an older request must not move it back
    reply(page, lab)

    assert asked(page) == [1.5, 2.5]
    expect(slider).to_have_value("55")


def test_a_silent_kernel_puts_the_sliders_back(page: Page, lab: FunctionLab) -> None:
    hold_the_clock(page)
    slider = page.get_by_label("grad_output", exact=True)
    slide(slider, 50)
    page.clock.run_for(6_000)

    expect(page.get_by_text("The kernel has not answered")).to_be_visible()
    expect(slider).to_have_value("40")
    slide(slider, 50)
    reply(page, lab)
    expect(page.get_by_text("The kernel has not answered")).to_have_count(0)
    expect(slider).to_have_value("50")


def test_a_notice_of_the_kernel_is_shown(page: Page, lab: FunctionLab) -> None:
    page.evaluate("s => model.set('scene', {...s, notice: 'It raised.'})", lab.scene)

    expect(page.get_by_text("It raised.")).to_be_visible()


# Look


@pytest.mark.parametrize("dark", first_rows([False, True], most=1))
def test_text_is_legible(browser: Browser, lab: FunctionLab, dark: bool) -> None:
    lab.choice = {"function": "wrong", "parameters": {"grad_output": 2.0}}
    with showing(browser, lab, dark=dark) as page:
        pairs = page.evaluate(
            """() => [...document.querySelectorAll('.ac-lab *')].filter(e =>
                 [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
                 .map(e => { let at = e, ground;
                   do { ground = getComputedStyle(at).backgroundColor; at = at.parentElement; }
                   while (at && / 0\\)|transparent|0\\.\\d+\\)/.test(ground));
                   const style = getComputedStyle(e);
                   const ink = e.ownerSVGElement ? style.fill : style.color;
                   return [ink, ground, e.textContent]; })"""
        )
    assert len(pairs) > 40
    for ink, ground, text in pairs:
        assert contrast(ink, ground) >= 4.5, text


@pytest.mark.parametrize("width", first_rows([360, 480, 1100], most=1))
def test_nothing_is_cut_off(browser: Browser, width: int) -> None:
    with showing(browser, function_lab(ClippedReLU, 3.0, x=3.0)) as page:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        parts = page.get_by_role("region", name="Source of forward and backward")
        assert parts.evaluate("parts => parts.scrollWidth <= parts.clientWidth")


def test_a_disposed_view_hears_nothing_more(page: Page) -> None:
    page.evaluate("dispose()")
    page.evaluate("model.set('x', 2)")

    expect(page.locator(".ac-lab")).to_have_count(0)
