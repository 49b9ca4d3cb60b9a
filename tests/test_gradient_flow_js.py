"""The widget in a real browser, in a bare page: what a learner sees, hears and presses."""

import re
from collections.abc import Iterator

import pytest
from barepage import running_browser, showing
from flows import loss, transformer_block, two_and_three
from playwright.sync_api import Browser, Locator, Page, expect

from autograd_course.visualize import GradientFlow, gradient_flow

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture
def flow() -> GradientFlow:
    return gradient_flow(loss, *two_and_three(), sweep={"x": (-1, 5), "y": (0, 6)})


@pytest.fixture
def page(browser: Browser, flow: GradientFlow) -> Iterator[Page]:
    with showing(browser, flow) as page:
        yield page


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=re.compile(f"^{name}, "))


def step(page: Page) -> int:
    return page.evaluate("state.step")


def status(page: Page) -> Locator:
    return page.get_by_role("status").first


def move(slider: Locator, index: int, event: str = "input") -> None:
    slider.evaluate(
        "(range, [index, event]) => { range.value = index; range.dispatchEvent(new Event(event)) }",
        [index, event],
    )


# Stepping


def test_at_first_only_the_inputs_are_known(page: Page) -> None:
    expect(card(page, "x")).to_have_accessible_name("x, input: value 2, gradient not yet known")
    expect(card(page, "loss")).to_have_accessible_name(re.compile("value not yet known"))
    expect(status(page)).to_have_text("StartGiven: x = 2, y = 3.")


def test_values_appear_then_gradients(page: Page) -> None:
    forward = page.get_by_role("button", name="Step forward")
    for _ in range(4):
        forward.click()
    expect(card(page, "loss")).to_have_accessible_name(
        "loss, output: value 7, gradient not yet known"
    )
    expect(page.locator(".agf-factor.agf-went-back")).to_have_count(0)
    for _ in range(6):
        forward.click()
    expect(card(page, "x")).to_have_accessible_name("x, input: value 2, gradient 4")
    expect(page.locator(".agf-factor.agf-went-back", has_text="×4")).to_have_css("opacity", "1")
    expect(forward).to_be_disabled()


def test_a_step_is_told(page: Page) -> None:
    page.get_by_label("step", exact=True).fill("9")

    expect(status(page)).to_have_text("BackwardSquare receives ∂ 1 and sends 4 (×4) to x.")


@pytest.mark.parametrize(
    ("keys", "arrived"),
    [
        (["ArrowRight", "ArrowRight", "ArrowLeft"], 1),
        (["End"], 10),
        (["End", "ArrowRight"], 10),
        (["End", "Home"], 0),
        (["ArrowLeft"], 0),
    ],
)
def test_keys_step(page: Page, keys: list[str], arrived: int) -> None:
    page.locator("svg.agf-picture").click(position={"x": 3, "y": 3})
    for key in keys:
        page.keyboard.press(key)

    assert step(page) == arrived


def test_no_key_leaves_the_widget(page: Page) -> None:
    card(page, "x").focus()
    for key in ("d", "d", "ArrowDown", "Enter", "Escape", " "):
        page.keyboard.press(key)

    assert page.evaluate("escaped") == []


def test_space_plays_to_the_end_and_again_from_the_beginning(page: Page) -> None:
    page.clock.install()
    card(page, "x").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.clock.run_for(20_000)
    assert step(page) == 10
    expect(page.get_by_role("button", name="Play (space)")).to_be_visible()

    page.keyboard.press("Space")
    assert step(page) == 1
    page.keyboard.press("Space")
    page.clock.run_for(5_000)
    assert step(page) == 1


def test_the_kernel_can_set_the_step(page: Page) -> None:
    page.evaluate("model.set('step', 10)")

    expect(card(page, "y")).to_have_accessible_name("y, input: value 3, gradient 1")


# Moving between nodes, and looking into them


def test_the_picture_is_one_tab_stop_and_arrows_go_from_node_to_node(page: Page) -> None:
    assert page.locator("[data-node][tabindex='0']").count() == 1
    card(page, "x").focus()
    page.keyboard.press("ArrowDown")
    expect(card(page, "y")).to_be_focused()
    assert page.locator("[data-node][tabindex='0']").count() == 1
    page.keyboard.press("Tab")
    expect(page.locator("[data-node]:focus")).to_have_count(0)


def test_enter_opens_a_node_and_escape_closes_it(page: Page) -> None:
    card(page, "Square").focus()
    page.keyboard.press("Enter")

    details = page.get_by_role("region", name="Details")
    expect(details).to_contain_text("Square, custom Function")
    expect(details).to_contain_text("gradient ∂not yet known")
    page.keyboard.press("End")
    expect(details).to_contain_text("1 × 4 = 4")
    expect(details).to_contain_text("2 (float32, 4 bytes)")
    page.keyboard.press("Escape")
    expect(details).to_be_hidden()


def test_a_click_opens_ctx(page: Page) -> None:
    card(page, "ReLU").click()
    page.keyboard.press("End")

    details = page.get_by_role("region", name="Details")
    expect(details).to_contain_text("saved tensor 0True (bool, 1 bytes)")
    expect(details).to_contain_text("ctx.kink'zero'")


# Moving inputs


def test_a_slider_rewrites_the_numbers_without_the_kernel(page: Page) -> None:
    move(page.get_by_label("input x"), 60)

    expect(card(page, "x")).to_have_accessible_name("x, input: value 5, gradient 10")
    expect(card(page, "loss")).to_have_accessible_name(re.compile("value 28,"))
    assert page.evaluate("state.inputs") == {"x": 2, "y": 3}


def test_on_release_the_kernel_is_told_and_its_answer_shown(page: Page, flow: GradientFlow) -> None:
    x, y = page.get_by_label("input x"), page.get_by_label("input y")
    move(x, 60)
    expect(y).to_be_disabled()
    move(x, 60, "change")
    asked = page.evaluate("saved.at(-1).inputs")
    assert asked == {"x": 5, "y": 3}

    flow.inputs = asked
    page.evaluate("story => model.set('story', story)", flow.story)

    expect(y).to_be_enabled()
    move(y, 60)
    expect(card(page, "loss")).to_have_accessible_name(re.compile("value 31,"))


def reply(page: Page, flow: GradientFlow) -> None:
    """Answer as the kernel would what the page asked last."""
    flow.inputs = page.evaluate("saved.at(-1).inputs")
    page.evaluate("story => model.set('story', story)", flow.story)


def asked(page: Page) -> list[float]:
    """Return the values of x for which the kernel was asked; it was traced at 2."""
    return page.evaluate("saved.map(({ inputs }) => inputs.x).filter(x => x !== 2)")


def release(slider: Locator, index: int) -> None:
    move(slider, index)
    move(slider, index, "change")


def test_an_answer_to_an_older_question_does_not_move_the_slider_back(
    page: Page, flow: GradientFlow
) -> None:
    x = page.get_by_label("input x")
    release(x, 50)
    move(x, 60)

    reply(page, flow)

    expect(card(page, "x")).to_have_accessible_name("x, input: value 5, gradient 10")


def test_one_question_is_asked_at_a_time_and_the_newest_next(
    page: Page, flow: GradientFlow
) -> None:
    x = page.get_by_label("input x")
    for index in (50, 55, 60):
        release(x, index)
    assert asked(page) == [4]

    reply(page, flow)
    assert asked(page) == [4, 5]
    reply(page, flow)

    assert asked(page) == [4, 5]
    expect(page.get_by_label("input y")).to_be_enabled()


def test_a_dead_kernel_does_not_lock_the_sliders(page: Page, flow: GradientFlow) -> None:
    page.clock.install()
    x, y = page.get_by_label("input x"), page.get_by_label("input y")
    release(x, 60)
    page.clock.run_for(4_000)
    expect(y).to_be_disabled()
    page.clock.run_for(2_000)

    expect(y).to_be_enabled()
    expect(page.get_by_text("The kernel has not answered")).to_be_visible()
    expect(card(page, "x")).to_have_accessible_name("x, input: value 2, gradient 4")
    release(x, 60)
    assert asked(page) == [5, 5]

    reply(page, flow)
    expect(page.get_by_text("The kernel has not answered")).to_have_count(0)
    expect(card(page, "x")).to_have_accessible_name("x, input: value 5, gradient 10")


def test_back_where_it_was_nothing_is_asked(page: Page, flow: GradientFlow) -> None:
    x, traced = page.get_by_label("input x"), flow.story["sliders"][0]["index"]
    move(x, 60)
    release(x, traced)

    assert asked(page) == []
    expect(page.get_by_label("input y")).to_be_enabled()


def test_a_notice_is_shown(page: Page, flow: GradientFlow) -> None:
    story = {**flow.story, "notice": "loss raised ValueError."}

    page.evaluate("story => model.set('story', story)", story)

    expect(page.get_by_text("loss raised ValueError.")).to_be_visible()


# Look


def test_a_pulse_travels_only_where_motion_is_wanted(browser: Browser, flow: GradientFlow) -> None:
    for still, count in ((True, 0), (False, 1)):
        with showing(browser, flow, still=still) as page:
            page.get_by_role("button", name="Step forward").click()
            assert page.locator(".agf-pulse").count() == count


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_legible_on_its_card(browser: Browser, flow: GradientFlow, dark: bool) -> None:
    with showing(browser, flow, dark=dark) as page:
        page.get_by_label("step", exact=True).fill("10")
        pairs = page.evaluate(
            """() => [...document.querySelectorAll('[data-node] > text')].map(text => [
                 getComputedStyle(text).fill,
                 getComputedStyle(text.parentNode.querySelector('rect')).fill])"""
        )
    assert len(pairs) == 18
    for ink, ground in pairs:
        assert contrast(ink, ground) >= 4.5


def contrast(one: str, other: str) -> float:
    low, high = sorted(luminance(color) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_no_text_is_wider_than_its_card(browser: Browser) -> None:
    block, x = transformer_block()
    with showing(browser, gradient_flow(block, x)) as page:
        spilled = page.evaluate(
            """() => [...document.querySelectorAll('[data-node] > text')].filter(text =>
                 text.getBBox().width > text.parentNode.querySelector('rect').getBBox().width)
                 .map(text => text.textContent)"""
        )
    assert spilled == []


@pytest.fixture
def deep(browser: Browser) -> Iterator[Page]:
    block, x = transformer_block()
    with showing(browser, gradient_flow(block, x)) as page:
        yield page


def test_a_deep_graph_scrolls_to_where_the_story_is(deep: Page) -> None:
    expect(card(deep, "output")).not_to_be_in_viewport()
    deep.locator("svg.agf-picture").click(position={"x": 3, "y": 3})
    for key, there in [("End", "x"), ("ArrowLeft", "norm1.weight"), ("Home", "x")]:
        deep.keyboard.press(key)
        expect(card(deep, there)).to_be_in_viewport(ratio=1)


def test_a_deep_graph_leaves_room_for_its_controls(deep: Page) -> None:
    expect(deep.get_by_role("button", name="Play (space)")).to_be_in_viewport()
    view = deep.locator(".agf-view")
    assert view.evaluate("view => view.scrollHeight > view.clientHeight")
    assert view.evaluate("view => view.scrollWidth <= view.clientWidth")


def test_arrows_go_down_a_deep_graph_and_it_scrolls_along(deep: Page) -> None:
    deep.locator("[data-node][tabindex='0']").focus()
    tops = []
    for _ in range(47):
        deep.keyboard.press("ArrowDown")
        focused = deep.locator("[data-node]:focus > rect")
        expect(focused).to_be_in_viewport(ratio=1)
        tops.append(float(focused.get_attribute("y")))

    assert tops == sorted(tops)
    expect(card(deep, "output")).to_be_focused()


def test_a_zoomed_picture_fits_on_demand(deep: Page) -> None:
    wide = "view => view.scrollWidth > view.clientWidth"
    for _ in range(4):
        deep.get_by_role("button", name="Zoom in").click()
    assert deep.locator(".agf-view").evaluate(wide)
    deep.get_by_role("button", name="Fit to width").click()
    assert not deep.locator(".agf-view").evaluate(wide)


def test_a_disposed_view_hears_nothing_more(page: Page) -> None:
    page.evaluate("dispose()")
    page.evaluate("model.set('step', 3)")

    expect(page.locator(".agf")).to_have_count(0)
