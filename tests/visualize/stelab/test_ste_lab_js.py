"""The STE lab in a real browser, on a bare page: what a learner moves, chooses and sees."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from barepage import hold_the_clock, showing
from flows import RoundSTE
from playwright.sync_api import Browser, Locator, Page, expect
from sampling import first_rows

from autograd_course.visualize.stelab import training_comparison
from autograd_course.visualize.stelab.trace import WIDTHS
from autograd_course.visualize.stelab.widget import STELab, ste_lab

pytestmark = pytest.mark.browser


@pytest.fixture
def lab() -> STELab:
    return ste_lab("sign", "clipped", 0.4)


@pytest.fixture
def page(browser: Browser, lab: STELab) -> Iterator[Page]:
    with showing(browser, lab) as page:
        yield page


def status(page: Page) -> Locator:
    return page.locator(".ac-status")


def slider(page: Page, name: str) -> Locator:
    return page.get_by_role("slider", name=name, exact=True)


def state(page: Page, name: str) -> Any:
    return page.evaluate("name => state[name]", name)


def hear(page: Page, **news: Any) -> None:
    """Send new trait values to the page, as the kernel does."""
    page.evaluate(
        "news => Object.entries(news).forEach(([name, value]) => model.set(name, value))", news
    )


# Moving x


def test_at_first_value_and_gradient_at_x_are_told(page: Page) -> None:
    expect(status(page)).to_have_text(
        "Forward maps x = 0.4 to 1. "
        "Backward maps grad_output = 1 to ∂ 1: the gradient passes unchanged."
        "The chord of the staircase over x ± 1 has slope 1: ∂ agrees with it."
    )
    assert page.locator(".ac-ste-number").all_text_contents() == ["1", "∂ 1"]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (["End"], "x = 3 to 1. Backward maps grad_output = 1 to ∂ 0: the gradient is blocked."),
        (["Home"], "x = -3 to -1. Backward maps grad_output = 1 to ∂ 0: the gradient is blocked."),
        (["ArrowRight", "ArrowRight"], "x = 0.5 to 1."),
    ],
)
def test_keys_move_x(page: Page, keys: list[str], told: str) -> None:
    slider(page, "x").focus()
    for key in keys:
        page.keyboard.press(key)

    expect(status(page)).to_contain_text(told)


@pytest.mark.parametrize("plot", [0, 1])
def test_x_can_be_dragged_in_either_plot(page: Page, plot: int) -> None:
    box = page.locator(".ac-plot").nth(plot).bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] * (46 + 500 / 2) / 560, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] - box["width"] * 250 / 560 / 2, middle[1])
    page.mouse.up()

    expect(status(page)).to_contain_text("x = -1.5 to -1.")
    assert state(page, "x") == -1.5
    expect(slider(page, "x")).to_be_focused()  # so further keys reach it


def test_the_kernel_is_told_only_where_the_slider_comes_to_rest(page: Page) -> None:
    slider(page, "x").evaluate(
        "range => { for (const i of [1, 2, 3]) { range.value = i; "
        "range.dispatchEvent(new Event('input')); } }"
    )
    assert page.evaluate("saved.length") == 0
    slider(page, "x").dispatch_event("change")

    assert page.evaluate("saved.length") == 1
    assert state(page, "x") == -2.85


def test_a_move_takes_less_than_a_frame(page: Page) -> None:
    took = slider(page, "x").evaluate(
        "range => { const begun = performance.now(); for (let i = 0; i < 50; i++) { "
        "range.value = i; range.dispatchEvent(new Event('input')); } "
        "return (performance.now() - begun) / 50; }"
    )
    assert took < 17


# The slope from a distance


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (0.0, "The derivative of the staircase at x is 0: ∂ is too large here."),
        (0.5, "The chord of the staircase over x ± 0.5 has slope 2: ∂ is too small here."),
        (2.0, "The chord of the staircase over x ± 2 has slope 0.5: ∂ is too large here."),
    ],
)
def test_the_width_changes_the_slope_and_what_is_said_of_it(
    page: Page, width: float, told: str
) -> None:
    slider(page, "half the width of the chord").fill(str(WIDTHS.index(width)))

    expect(status(page)).to_contain_text(told)


def test_without_a_width_jumps_are_arrows_and_there_is_no_chord(page: Page) -> None:
    expect(page.locator(".ac-ste-jump path")).to_have_count(0)
    slider(page, "half the width of the chord").fill("0")

    expect(page.locator(".ac-ste-jump path")).to_have_count(1)
    expect(page.locator(".ac-ste-band")).to_have_count(0)
    slider(page, "x").fill(str(60))  # x = 0
    expect(status(page)).to_contain_text("The staircase jumps at x and has no derivative there.")


# Choosing


def test_another_surrogate_needs_no_kernel(page: Page) -> None:
    slider(page, "x").press("End")
    page.get_by_label("Backward", exact=True).select_option("identity")

    expect(status(page)).to_contain_text("to ∂ 1: the gradient passes unchanged.")
    expect(page.get_by_text("the staircase rises by 2 and the surrogate by 6.")).to_be_visible()
    assert state(page, "surrogate") == "identity"


def test_a_card_chooses_its_surrogate(page: Page) -> None:
    card = page.get_by_role("button", name="tanh: not trained yet")
    card.click()

    expect(card).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Backward", exact=True)).to_have_value("tanh")
    expect(page.locator(".ac-ste-about")).to_contain_text("1 − tanh²(x)")


def test_another_quantizer_is_asked_of_the_kernel(page: Page) -> None:
    page.get_by_label("Forward", exact=True).select_option("round")
    assert state(page, "quantizer") == "round"

    hear(page, sweep=ste_lab("round").get_state(["sweep"])["sweep"])

    expect(page.get_by_label("Forward", exact=True)).to_have_value("round")
    expect(page.get_by_text("the staircase rises by 6")).to_be_visible()


def test_a_kernel_that_does_not_answer_is_given_up(page: Page) -> None:
    hold_the_clock(page)
    page.get_by_label("Forward", exact=True).select_option("round")
    page.clock.run_for(6_000)

    expect(page.get_by_text("The kernel has not answered.")).to_be_visible()
    expect(page.get_by_label("Forward", exact=True)).to_have_value("sign")


def test_own_functions_have_no_choice_of_forward(browser: Browser) -> None:
    with showing(browser, ste_lab({"mine": RoundSTE, "zero": "zero"})) as page:
        expect(page.get_by_label("Forward", exact=True)).to_have_count(0)
        options = page.get_by_label("Backward", exact=True).locator("option")
        assert options.all_text_contents() == ["mine", "zero"]


# Training


def test_train_asks_the_kernel_and_stop_stops_it(page: Page) -> None:
    page.get_by_role("button", name="Train", exact=True).click()
    assert state(page, "training") is True
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    hear(page, progress={**state(page, "progress"), "step": 3, "told": "step 3 of 150"})

    page.get_by_role("button", name="Stop").click()
    assert state(page, "training") is False


def test_what_the_kernel_trains_is_drawn(
    page: Page, lab: STELab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_comparison, "STEPS", 30)
    lab.train()
    hear(page, progress=lab.progress)

    expect(page.get_by_text("step 30 of")).to_be_visible()
    expect(page.locator(".ac-ste-still .ac-curve")).to_have_count(5)
    expect(page.get_by_role("button", name=re.compile(r"^clipped: loss 0\.\d\d, \d+% right$")))
    painted = page.locator("canvas").first.evaluate(
        "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, 24, 24).data).size"
    )
    assert painted > 3


@pytest.mark.parametrize(
    ("label", "value", "told"),
    [
        ("Quantized", "weights", {"place": "weights"}),
        ("Random start", "5", {"seed": 4}),
    ],
)
def test_place_and_start_are_told(page: Page, label: str, value: str, told: dict) -> None:
    page.get_by_label(label, exact=True).select_option(value)

    ((name, expected),) = told.items()
    assert state(page, name) == expected


def test_a_notice_is_shown(page: Page) -> None:
    hear(page, progress={**state(page, "progress"), "notice": "Training with F raised E: no."})

    expect(page.get_by_text("Training with F raised E: no.")).to_be_visible()


def test_a_stop_waits_for_no_answer(page: Page) -> None:
    hold_the_clock(page)
    page.get_by_role("button", name="Train", exact=True).click()
    page.get_by_role("button", name="Stop").click()
    page.clock.run_for(6_000)

    expect(page.get_by_text("The kernel has not answered.")).to_have_count(0)


def test_the_maps_follow_the_theme(
    page: Page, lab: STELab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_comparison, "STEPS", 3)
    lab.train()
    hear(page, progress=lab.progress)
    canvas = page.locator("canvas").first
    corner = "canvas => [...canvas.getContext('2d').getImageData(0, 0, 1, 1).data]"
    light = canvas.evaluate(corner)

    page.evaluate("document.body.dataset.jpThemeLight = 'false'")

    page.wait_for_function(
        f"light => String(({corner})(document.querySelector('canvas'))) !== light",
        arg=",".join(map(str, light)),
    )


# Behavior on the page


def test_no_key_leaves_the_widget(page: Page) -> None:
    for place in (slider(page, "x"), page.get_by_role("button", name="Train", exact=True)):
        place.focus()
        for key in ("d", "d", "ArrowDown", "Escape"):
            page.keyboard.press(key)

    assert page.evaluate("escaped") == []


def test_everything_has_a_name(page: Page) -> None:
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, select, input')].filter(e => "
        "!(e.ariaLabel || e.textContent.trim() || e.closest('label'))).length"
    )
    assert nameless == 0


def test_the_maps_of_a_trained_lab_have_the_colors_of_both_classes(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_comparison, "STEPS", 20)
    lab = ste_lab("sign", "clipped")
    lab.left()  # as displaying it does
    reddest = """() => {
      const ground = document.querySelector('canvas').getContext('2d');
      const { data } = ground.getImageData(0, 0, 24, 24);
      const shades = Array.from({length: data.length / 4}, (_, i) => data[4 * i] - data[4 * i + 2]);
      return Math.max(...shades) - Math.min(...shades);
    }"""
    with showing(browser, lab) as page:
        page.wait_for_function(f"({reddest})() > 20")


@pytest.mark.parametrize("width", first_rows([480, 1000], most=1))
def test_nothing_is_cut_off(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})

    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", first_rows([False, True], most=1))
def test_text_has_enough_contrast(browser: Browser, lab: STELab, dark: bool) -> None:
    with showing(browser, lab, dark=dark) as page:
        for place in (".ac-ste-about", ".ac-ste-sum", ".ac-ste-train", ".ac-ste-rest"):
            assert contrast(page.locator(place).first, dark) >= 4.5, place


def contrast(place: Locator, dark: bool) -> float:
    ink, ground = place.evaluate(
        "e => { const s = getComputedStyle(e); return [s.color, s.backgroundColor]; }"
    )
    clear = ground.replace(" ", "") == "rgba(0,0,0,0)"
    page_ground = (17, 17, 17) if dark else (255, 255, 255)
    pair = sorted((luminance(parsed(ink)), luminance(page_ground if clear else parsed(ground))))
    return (pair[1] + 0.05) / (pair[0] + 0.05)


def parsed(color: str) -> tuple[float, ...]:
    return tuple(float(part) for part in re.findall(r"[\d.]+", color)[:3])


def luminance(color: tuple[float, ...]) -> float:
    parts = torch.tensor(color) / 255
    linear = torch.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ torch.tensor([0.2126, 0.7152, 0.0722]))


def test_a_widget_that_is_closed_listens_no_more(page: Page) -> None:
    page.evaluate("dispose()")
    hear(page, x=1.0)

    expect(page.locator(".ac-ste")).to_have_count(0)
