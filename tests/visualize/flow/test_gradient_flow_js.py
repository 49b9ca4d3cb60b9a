"""The widget in a real browser, on a bare page: what a learner sees, hears and presses."""

import re
from collections.abc import Iterator, Mapping, Sequence

import pytest
import torch
from barepage import contrast, hold_the_clock, showing
from flows import loss, transformer_block, two_and_three
from playwright.sync_api import Browser, Locator, Page, expect
from sampling import first_rows
from torch import nn

from autograd_course.visualize import GradientFlow, gradient_flow
from autograd_course.visualize.flow.compare import compare_flows
from autograd_course.visualize.flow.view import Frame, View

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", autouse=True)
def sweeps_are_computed_once() -> Iterator[None]:
    """Keep the sweeps for later widgets of the same function, because most tests show the same."""
    known: dict[object, list[Frame]] = {}
    compute = View.frames

    def frames(
        view: View, name: str, values: Sequence[float], at: Mapping[str, float]
    ) -> Iterator[Frame]:
        source = view.source
        swept = (name, *values, *sorted(at.items()))
        key = (source.fn, repr(source.inputs), view.opened, swept)
        if key not in known:
            known[key] = list(compute(view, name, values, at))
        return iter(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(View, "frames", frames)
        yield


@pytest.fixture
def flow() -> GradientFlow:
    return gradient_flow(loss, *two_and_three(), sweep={"x": (-1, 5), "y": (0, 6)}, step=0)


@pytest.fixture
def page(browser: Browser, flow: GradientFlow) -> Iterator[Page]:
    with showing(browser, flow) as page:
        yield page


def tell(page: Page, flow: GradientFlow) -> None:
    """Send the kernel's current state to the page, and again after the sweep."""
    told = {"view": flow.view, "numbers": flow.numbers}
    page.evaluate("told => model.set(told)", told)
    while flow._idle_task.busy:  # in Playwright's event loop, as in a kernel's
        page.wait_for_timeout(5)
    page.evaluate("sweeps => model.set('sweeps', sweeps)", flow.sweeps)


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=re.compile(f"^{name}, "))


def unfold_tools(page: Page) -> None:
    page.get_by_role("button", name="More").click()


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


def test_a_flow_opens_at_its_end_and_is_told_from_its_beginning(browser: Browser) -> None:
    with showing(browser, gradient_flow(loss, *two_and_three())) as page:
        expect(card(page, "x")).to_have_accessible_name("x, input: value 2, gradient 4")
        assert step(page) == 10
        page.get_by_role("button", name="Step forward").click()
        assert step(page) == 0
        page.get_by_role("button", name="Last step").click()
        expect(page.get_by_role("button", name="Step forward")).to_be_disabled()


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


def test_keys_step_after_a_click_on_a_button_too(page: Page) -> None:
    page.get_by_role("button", name="Last step").click()
    page.keyboard.press("ArrowLeft")

    assert step(page) == 9


def test_no_key_leaves_the_widget(page: Page) -> None:
    card(page, "x").focus()
    for key in ("d", "d", "ArrowDown", "Enter", "Escape", " "):
        page.keyboard.press(key)

    assert page.evaluate("escaped") == []


def test_space_plays_to_the_end_and_again_from_the_beginning(page: Page) -> None:
    hold_the_clock(page)
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


def top(element: Locator) -> float:
    box = element.bounding_box()
    assert box
    return box["y"]


@pytest.mark.parametrize("width", first_rows([600, 1280], most=1))
def test_the_sentence_is_under_the_picture_and_moves_nothing(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    scrubber, view = page.get_by_label("step", exact=True), page.locator(".agf-view")
    places = set()
    for at in range(11):
        scrubber.fill(str(at))
        places.add((top(status(page)), top(scrubber)))

    ((sentence, bar),) = places
    assert sentence - top(view) - view.evaluate("view => view.offsetHeight") < 10
    assert bar > sentence
    assert status(page).evaluate("e => getComputedStyle(e).fontSize") == "16px"


@pytest.mark.parametrize("width", first_rows([600, 1280], most=1))
def test_the_controls_are_one_row(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    bar = page.get_by_role("group", name="Playback")

    assert bar.get_by_role("button").count() == 6
    assert bar.evaluate("bar => bar.offsetHeight") < 40
    for hidden in ("Go to a node", "Zoom", "Key"):
        expect(page.get_by_label(hidden, exact=True)).to_be_hidden()


@pytest.mark.parametrize("by", ["click", "Escape"])
def test_what_is_seldom_needed_unfolds_and_folds(page: Page, by: str) -> None:
    more, key = page.get_by_role("button", name="More"), page.get_by_role("group", name="Key")
    expect(more).to_have_attribute("aria-expanded", "false")
    more.click()
    expect(more).to_have_attribute("aria-expanded", "true")
    expect(key).to_contain_text("negative ∂ (dashed, blue)")
    page.get_by_role("button", name="Zoom in").focus()
    if by == "click":
        more.click()
    else:
        page.keyboard.press("Escape")

    expect(key).to_be_hidden()
    expect(more).to_be_focused()
    expect(more).to_have_attribute("aria-expanded", "false")


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
    expect(details).to_contain_text("saved tensor 0True (bool, 1 byte): an intermediate")
    expect(details).to_contain_text("ctx.kink'zero'")


# Moving inputs


def test_a_slider_rewrites_the_numbers_without_the_kernel(page: Page) -> None:
    move(page.get_by_label("input x"), 60)

    expect(card(page, "x")).to_have_accessible_name("x, input: value 5, gradient 10")
    expect(card(page, "loss")).to_have_accessible_name(re.compile("value 28,"))
    assert page.evaluate("state.inputs") == {"x": 2, "y": 3}


PLACES = """() => [...document.querySelectorAll('.agf-face, .agf input')].map(element => {
  const {x, y, width, height} = element.getBoundingClientRect();
  return [x, y, width, height];
})"""


@pytest.mark.parametrize("at", [0, 10])
def test_nothing_jumps_as_an_input_is_dragged(page: Page, flow: GradientFlow, at: int) -> None:
    page.get_by_label("step", exact=True).fill(str(at))
    slider = page.get_by_label("input x")
    box, before = slider.bounding_box(), page.evaluate(PLACES)
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    for part in (0.5, 0.4, 0.1, 0.9):
        page.mouse.move(box["x"] + box["width"] * part, box["y"] + box["height"] / 2)
        assert page.evaluate(PLACES) == before
    page.mouse.up()
    page.wait_for_function("saved.some(({ inputs }) => inputs.x !== 2)")
    reply(page, flow)

    assert page.evaluate(PLACES) == before


def test_at_rest_the_kernel_is_told_and_its_answer_shown(page: Page, flow: GradientFlow) -> None:
    hold_the_clock(page)
    release(page, 60)
    assert page.evaluate("saved.at(-1).inputs") == {"x": 5, "y": 3}

    reply(page, flow)
    move(page.get_by_label("input y"), 60)

    expect(card(page, "loss")).to_have_accessible_name(re.compile("value 31,"))


def test_keys_in_a_row_are_one_question(page: Page) -> None:
    hold_the_clock(page)
    x = page.get_by_label("input x")
    for index in range(55, 61):
        move(x, index)
        move(x, index, "change")
        page.clock.run_for(100)
    assert asked(page) == []

    page.clock.run_for(300)
    assert asked(page) == [5]


def test_before_the_answer_another_input_is_not_swept_from_its_old_place(
    page: Page, flow: GradientFlow
) -> None:
    move(page.get_by_label("input x"), 60)
    move(page.get_by_label("input y"), 60)
    assert page.evaluate("saved.at(-1).inputs") == {"x": 5, "y": 6}

    reply(page, flow)

    expect(card(page, "loss")).to_have_accessible_name(re.compile("value 31,"))


def reply(page: Page, flow: GradientFlow) -> None:
    """Answer the page's last request as the kernel would."""
    flow.inputs = page.evaluate("saved.at(-1).inputs")
    tell(page, flow)


def asked(page: Page) -> list[float]:
    """Return the values of x that the page requested from the kernel. The trace was at x = 2."""
    return page.evaluate("saved.map(({ inputs }) => inputs.x).filter(x => x !== 2)")


def release(page: Page, index: int) -> None:
    """Move x and let it rest. The test controls the page's clock."""
    x = page.get_by_label("input x")
    move(x, index)
    move(x, index, "change")
    page.clock.run_for(300)


def test_an_answer_to_an_older_question_does_not_move_the_slider_back(
    page: Page, flow: GradientFlow
) -> None:
    hold_the_clock(page)  # the page must not lose patience while a busy machine sweeps
    release(page, 50)
    move(page.get_by_label("input x"), 60)

    reply(page, flow)

    expect(card(page, "x")).to_have_accessible_name("x, input: value 5, gradient 10")


def test_one_question_is_asked_at_a_time_and_the_newest_next(
    page: Page, flow: GradientFlow
) -> None:
    hold_the_clock(page)  # the page must not lose patience while a busy machine sweeps
    for index in (50, 55, 60):
        release(page, index)
    assert asked(page) == [4]

    reply(page, flow)
    assert asked(page) == [4, 5]
    reply(page, flow)

    assert asked(page) == [4, 5]


def test_a_dead_kernel_does_not_lock_the_sliders(page: Page, flow: GradientFlow) -> None:
    hold_the_clock(page)
    release(page, 60)
    page.clock.run_for(4_000)
    expect(page.get_by_text("The kernel has not answered")).to_have_count(0)
    page.clock.run_for(2_000)

    expect(page.get_by_text("The kernel has not answered")).to_be_visible()
    expect(card(page, "x")).to_have_accessible_name("x, input: value 2, gradient 4")
    release(page, 60)
    assert asked(page) == [5, 5]

    reply(page, flow)
    expect(page.get_by_text("The kernel has not answered")).to_have_count(0)
    expect(card(page, "x")).to_have_accessible_name("x, input: value 5, gradient 10")


def test_back_where_it_was_nothing_is_asked(page: Page, flow: GradientFlow) -> None:
    hold_the_clock(page)
    move(page.get_by_label("input x"), 60)
    release(page, flow.numbers["sliders"][0]["index"])

    assert asked(page) == []


def test_a_notice_is_shown(page: Page, flow: GradientFlow) -> None:
    numbers = {**flow.numbers, "notice": "loss raised ValueError."}

    page.evaluate("numbers => model.set('numbers', numbers)", numbers)

    expect(page.get_by_text("loss raised ValueError.")).to_be_visible()


# Finding, unfolding, opening


@pytest.fixture
def folded() -> GradientFlow:
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)))
    return gradient_flow(net, torch.randn(2, 4), names=["x"], depth=0)


@pytest.fixture
def modules(browser: Browser, folded: GradientFlow) -> Iterator[Page]:
    with showing(browser, folded) as page:
        yield page


def test_a_menu_goes_to_a_node_and_opens_it(page: Page) -> None:
    unfold_tools(page)
    menu = page.get_by_label("Go to a node")

    assert menu.locator("option").all_text_contents() == [
        "Go to …", "x, input", "y, input", "Square, custom Function", "ReLU, custom Function",
        "Add, operation", "loss, output",
    ]  # fmt: skip
    menu.select_option(label="Square, custom Function")
    expect(page.get_by_role("region", name="Details")).to_contain_text("Square, custom Function")
    expect(card(page, "Square")).to_have_attribute("tabindex", "0")
    expect(menu).to_have_value("")


def test_arrows_walk_through_a_closed_menu_and_enter_goes(page: Page) -> None:
    unfold_tools(page)
    menu, details = page.get_by_label("Go to a node"), page.get_by_role("region", name="Details")
    menu.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(details).to_be_hidden()
    page.keyboard.press("Enter")

    expect(details).to_contain_text("Square, custom Function")
    expect(menu).to_be_focused()
    expect(menu).to_have_value("")


@pytest.mark.parametrize("key", ["Enter", "Escape"])
def test_who_closes_the_details_is_back_at_the_node(page: Page, key: str) -> None:
    card(page, "Square").press("Enter")
    page.get_by_role("button", name="Close details").press(key)

    expect(card(page, "Square")).to_be_focused()


def test_a_menu_goes_to_a_node_that_is_out_of_sight(deep: Page) -> None:
    expect(card(deep, "Gelu")).not_to_be_in_viewport()
    unfold_tools(deep)
    deep.get_by_label("Go to a node").select_option(label="Gelu, operation")
    expect(card(deep, "Gelu")).to_be_in_viewport(ratio=1)


def test_the_source_of_a_function_can_be_read(page: Page) -> None:
    card(page, "ReLU").click()
    details = page.get_by_role("region", name="Details")

    expect(details.locator("pre")).to_have_count(2)
    expect(details.locator("pre").last).to_be_hidden()
    details.get_by_text("source of backward").click()
    expect(details.locator("pre").last).to_contain_text("return grad_output * positive")
    move(page.get_by_label("input x"), 60)
    expect(details.locator("pre").last).to_be_visible()


def unfolded(page: Page, flow: GradientFlow) -> None:
    """Answer the page's last request to open a group, as the kernel would."""
    flow.opened = page.evaluate("state.opened")
    tell(page, flow)


@pytest.mark.parametrize("by", first_rows(["click", "Enter"], most=1))
def test_a_folded_module_unfolds(modules: Page, folded: GradientFlow, by: str) -> None:
    module = card(modules, "1")
    if by == "click":
        module.click()
    else:
        module.focus()
        modules.keyboard.press("Enter")
    unfolded(modules, folded)

    expect(card(modules, "1")).to_have_count(0)
    expect(card(modules, "1.0")).to_have_count(1)
    expect(card(modules, "Tanh 2")).to_have_count(1)
    expect(card(modules, "1.0")).to_be_focused()


@pytest.mark.parametrize("by", first_rows(["menu", "details", "key"], most=1))
def test_an_unfolded_module_folds_again(modules: Page, folded: GradientFlow, by: str) -> None:
    card(modules, "1").click()
    unfolded(modules, folded)
    if by == "menu":
        unfold_tools(modules)
        menu = modules.get_by_label("Fold a module")
        menu.focus()
        menu.select_option(label="1")
    elif by == "details":
        card(modules, "Tanh 2").click()
        modules.get_by_role("button", name="Fold 1").click()
    else:
        card(modules, "Tanh 2").focus()
        modules.keyboard.press("Backspace")
    unfolded(modules, folded)

    assert folded.opened == [[]]
    expect(card(modules, "1")).to_be_focused()
    expect(card(modules, "1")).to_have_count(1)
    expect(modules.get_by_label("Fold a module")).to_be_hidden()


def test_a_dead_kernel_unfolds_nothing_and_that_is_said(modules: Page) -> None:
    hold_the_clock(modules)
    card(modules, "1").click()
    modules.clock.run_for(6_000)

    expect(modules.get_by_text("The kernel has not answered")).to_be_visible()
    expect(card(modules, "1")).to_have_count(1)


def test_who_unfolds_at_the_end_stays_at_the_end(modules: Page, folded: GradientFlow) -> None:
    modules.get_by_label("step", exact=True).fill(str(folded.steps))
    folded.step = folded.steps
    card(modules, "1").click()
    unfolded(modules, folded)
    modules.evaluate(f"model.set('step', {folded.step})")

    expect(modules.get_by_role("button", name="Last step")).to_be_disabled()
    expect(card(modules, "x")).to_have_accessible_name(re.compile("gradient norm"))


# Signs and sizes


def test_an_edge_is_as_thick_as_its_gradient_is_large_once_it_went_back(
    browser: Browser,
) -> None:
    flow = gradient_flow(lambda x: 1e-4 * x - 100 * x, torch.tensor(1.0), names=["x"], step=0)
    with showing(browser, flow) as page:
        edges = page.locator("[data-edge].agf-link .agf-edge")
        widths = "paths => paths.map(path => parseFloat(getComputedStyle(path).strokeWidth))"
        assert set(edges.evaluate_all(widths)) == {1.6}
        page.evaluate(f"model.set('step', {flow.steps})")
        into = dict(zip([(e.source, e.target) for e in flow.trace.edges],
                        edges.evaluate_all(widths), strict=True))  # fmt: skip
    assert 1 < into[0, 1] < 3 < into[0, 2] == 4


def test_a_negative_gradient_is_dashed_as_well_as_blue(browser: Browser) -> None:
    flow = gradient_flow(lambda x: -x, torch.tensor(1.0), step=9)
    with showing(browser, flow) as page:
        looks = page.locator("[data-edge].agf-link .agf-edge").evaluate_all(
            "paths => paths.map(path => getComputedStyle(path).strokeDasharray)"
        )
        gauges = page.locator(".agf-gauge").evaluate_all(
            "paths => paths.map(path => getComputedStyle(path).strokeDasharray)"
        )
    assert looks == ["5px, 3.5px", "none"]
    assert gauges == ["5px, 3.5px", "none", "none"]


def test_a_heat_map_has_a_dash_in_each_negative_cell(browser: Browser) -> None:
    x = torch.tensor([[1.0, -2.0], [-3.0, 4.0]])
    flow = gradient_flow(torch.sum, x, names=["x"], step=0)
    with showing(browser, flow) as page:
        dashes = page.locator("[data-node='0'] .agf-map.agf-value .agf-dash").get_attribute("d")
        card(page, "x").click()
        large = page.get_by_role("img", name="heat map of the value, 2 by 2")
        expect(large).to_be_visible()
        expect(page.get_by_role("img", name="heat map of the gradient")).to_have_count(0)
    assert dashes.count("M") == 2


def test_a_slider_moves_marks_too(page: Page) -> None:
    page.evaluate("model.set('step', 10)")
    gauge = page.locator("[data-node='0'] .agf-gauge")
    before = gauge.get_attribute("d")
    move(page.get_by_label("input x"), 0)

    expect(gauge).to_have_class(re.compile("agf-minus"))
    assert gauge.get_attribute("d") != before


# Side by side


def test_two_flows_are_stepped_together(browser: Browser) -> None:
    pair = compare_flows({"plain": torch.sin, "twice": lambda x: x.sin().sin()}, torch.tensor(1.0))
    with showing(browser, pair) as page:
        steps = page.locator(".agf-status")
        page.get_by_label("step", exact=True).fill("3")
        expect(steps.first).to_have_text("plainForwardloss is 0.8415.")
        expect(steps.last).to_have_text("twiceForwardloss is 0.7456.")
        page.get_by_label("step", exact=True).fill("7")
        expect(steps.first).to_have_text(re.compile("^plainBackwardinput has gradient ∂ 0.5403"))
        expect(steps.last).to_have_text(re.compile("^twiceBackwardinput has gradient ∂ 0.36"))


def test_one_slider_moves_both_flows(browser: Browser) -> None:
    pair = compare_flows({"plain": torch.sin, "twice": lambda x: x.sin().sin()}, torch.tensor(1.0))
    with showing(browser, pair) as page:
        slider = pair.numbers["sliders"][0]
        move(page.get_by_label(f"input {slider['name']}"), slider["values"].index(0.0))
        for flow in (0, 1):
            loss = (
                page.locator(".agf-pane").nth(flow).get_by_role("button", name=re.compile("^loss"))
            )
            expect(loss).to_have_accessible_name("loss, output: value 0, gradient 1")


@pytest.mark.parametrize("width", first_rows([600, 1280], most=1))
def test_each_sentence_stands_under_its_own_picture(browser: Browser, width: int) -> None:
    pair = compare_flows({"plain": torch.sin, "twice": lambda x: x.sin().sin()}, torch.tensor(1.0))
    with showing(browser, pair) as page:
        page.set_viewport_size({"width": width, "height": 800})
        for scene in page.locator(".agf-pane:has(.agf-view)").all():
            below, told = scene.locator(".agf-view").bounding_box(), scene.get_by_role("status")
            assert below
            assert 0 <= top(told) - below["y"] - below["height"] < 10


def test_what_differs_bears_a_sign_and_is_said(browser: Browser) -> None:
    pair = compare_flows({"plain": torch.sin, "twice": lambda x: x.sin().sin()}, torch.tensor(1.0))
    with showing(browser, pair) as page:
        once, twice = page.locator(".agf-pane:has(.agf-view)").all()
        expect(once.locator(".agf-unlike")).to_have_count(0)
        expect(twice.locator(".agf-unlike")).to_have_text(["≠", "≠"])
        expect(twice.locator(".agf-factor.agf-differs")).to_have_text("×0.6664≠")
        expect(twice.get_by_role("button", name=re.compile("^Sin 2, .*≠ differs"))).to_have_count(1)
        unfold_tools(page)
        expect(page.get_by_role("group", name="Key")).to_contain_text("≠ differs between the flows")


def test_a_slider_moves_what_differs_too(browser: Browser) -> None:
    flows = {"relu": torch.relu, "leaky": torch.nn.functional.leaky_relu}
    with showing(browser, compare_flows(flows, torch.tensor(1.0), names=["x"])) as page:
        factors = page.locator(".agf-factor.agf-differs")
        expect(factors).to_have_count(0)
        move(page.get_by_label("input x"), 0)
        expect(factors).to_have_text(["×0≠", "×0.01≠"])


# Look

SMALLEST = """() => Math.min(...[...document.querySelectorAll('svg.agf-picture text')].map(text =>
  parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""


@pytest.mark.parametrize("shown", ["one", "two", "deep"])
def test_no_label_is_smaller_than_11_pixels(browser: Browser, shown: str) -> None:
    block, x = transformer_block()
    widget = {
        "one": lambda: gradient_flow(loss, *two_and_three()),
        "two": lambda: compare_flows({"plain": loss, "same": loss}, *two_and_three()),
        "deep": lambda: gradient_flow(block, x),
    }[shown]()
    with showing(browser, widget) as page:
        for width in (1280, 600):
            page.set_viewport_size({"width": width, "height": 800})
            page.evaluate("() => new Promise(requestAnimationFrame)")
            assert page.evaluate(SMALLEST) >= 11 - 1e-3


def test_two_flows_scroll_to_where_the_story_is(browser: Browser) -> None:
    pair = compare_flows({"plain": loss, "same": loss}, *two_and_three(), step=0)
    with showing(browser, pair) as page:
        page.set_viewport_size({"width": 400, "height": 1200})
        for at, there in [(4, "loss"), (10, "x"), (5, "loss"), (0, "x")]:
            page.get_by_label("step", exact=True).fill(str(at))
            for here in page.get_by_role("button", name=re.compile(f"^{there}, ")).all():
                expect(here).to_be_in_viewport(ratio=0.99)


def test_a_flow_opens_where_its_story_is(browser: Browser) -> None:
    block, x = transformer_block()
    flow = gradient_flow(block, x)
    flow.step = flow.phases[0]
    with showing(browser, flow) as page:
        expect(card(page, "output")).to_be_in_viewport(ratio=1)


def test_a_pulse_travels_only_where_motion_is_wanted(browser: Browser, flow: GradientFlow) -> None:
    for still, count in ((True, 0), (False, 1)):
        with showing(browser, flow, still=still) as page:
            page.get_by_role("button", name="Step forward").click()
            assert page.locator(".agf-pulse").count() == count


@pytest.mark.parametrize("dark", first_rows([False, True], most=1))
def test_the_key_has_the_pictures_colors(browser: Browser, dark: bool) -> None:
    color = "element => getComputedStyle(element).getPropertyValue('--agf-minus')"
    with showing(browser, gradient_flow(loss, *two_and_three()), dark=dark) as page:
        picture, swatch = page.locator(".agf-picture"), page.locator(".agf-swatch").first

        assert swatch.evaluate(color) == picture.evaluate(color)


@pytest.mark.parametrize("dark", first_rows([False, True], most=1))
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


def test_a_side_with_more_of_the_picture_fades(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    view = page.locator(".agf-view")

    view.evaluate("view => view.scrollTo({left: 0, behavior: 'instant'})")
    expect(view).to_have_attribute("data-more", "right")
    view.evaluate("view => view.scrollTo({left: 40, behavior: 'instant'})")
    expect(view).to_have_attribute("data-more", "left right")
    view.evaluate("view => view.scrollTo({left: view.scrollWidth, behavior: 'instant'})")
    expect(view).to_have_attribute("data-more", "left")
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(view).to_have_attribute("data-more", "")


def test_a_deep_graph_leaves_room_for_its_controls(deep: Page) -> None:
    expect(deep.get_by_role("button", name="Play (space)")).to_be_in_viewport()
    view = deep.locator(".agf-view")
    assert view.evaluate("view => view.scrollHeight > view.clientHeight")
    assert view.evaluate("view => view.scrollWidth <= view.clientWidth")


def test_arrows_go_down_a_deep_graph_and_it_scrolls_along(deep: Page) -> None:
    deep.locator("[data-node][tabindex='0']").focus()
    middles = []  # cards in the same rank may differ in height
    for _ in range(47):
        deep.keyboard.press("ArrowDown")
        focused = deep.locator("[data-node]:focus > .agf-face")
        expect(focused).to_be_in_viewport(ratio=1)
        top, height = (float(focused.get_attribute(name)) for name in ("y", "height"))
        middles.append(round(top + height / 2))

    assert middles == sorted(middles)
    expect(card(deep, "output")).to_be_focused()


def test_a_zoomed_picture_fits_on_demand(deep: Page) -> None:
    unfold_tools(deep)
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
