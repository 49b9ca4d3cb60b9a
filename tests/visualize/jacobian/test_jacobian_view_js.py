"""The Jacobian view in a real browser, on a bare page: what a learner sees, hears and presses."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
import torch
from barepage import contrast, showing
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect
from sampling import first_rows
from torch import Tensor
from torch.autograd import Function

from autograd_course.visualize.jacobian.widget import JacobianView, jacobian_view

pytestmark = pytest.mark.browser


class Product(Function):
    """The product of x and w. The gradient of x lacks the transpose."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return g @ w, x.T @ g


@pytest.fixture(scope="module")
def product() -> JacobianView:
    w = torch.tensor([[1.0, 2.0], [5.0, 3.0]])
    return jacobian_view(Product, torch.tensor([[1.0, -1.0]]), w)


@pytest.fixture(scope="module")
def big() -> JacobianView:
    return jacobian_view(torch.tanh, torch.linspace(-1, 1, 128))


@pytest.fixture
def page(browser: Browser, product: JacobianView) -> Iterator[Page]:
    with showing(browser, product) as page:
        yield page


def maps(page: Page) -> Locator:
    return page.get_by_role("application")


def status(page: Page) -> Locator:
    return page.get_by_role("status")


def cell(page: Page) -> list[int]:
    return page.evaluate("state.cell")


def over(page: Page, which: int, row: int, column: int, size: int = 54) -> dict[str, float]:
    """Return the position of a map's cell on the page."""
    box = page.locator(".ac-jac-board").nth(which).bounding_box()
    assert box is not None
    view = page.locator(".ac-jac-board").nth(which).get_attribute("viewBox")
    scale = box["width"] / float(view.split()[2])
    return {
        "x": box["x"] + scale * (18 + (column + 0.5) * size),
        "y": box["y"] + scale * (18 + (row + 0.5) * size),
    }


# Moving about


def test_the_view_opens_on_the_worst_entry(page: Page) -> None:
    expect(status(page)).to_have_text(
        "∂output[0, 0] / ∂x[0, 1]finite differences 5backward 2difference -3"
        "✗ backward is wrong here"
    )
    expect(page.get_by_text("transposed-gradient", exact=True)).to_be_visible()
    expect(page.get_by_text("✗ 2 of 4 entries of backward are wrong.")).to_be_visible()


@pytest.mark.parametrize(
    ("keys", "at"),
    [
        (["ArrowLeft"], [0, 0]),
        (["ArrowDown"], [1, 1]),
        (["ArrowDown", "ArrowDown", "ArrowRight"], [1, 1]),
        (["Home"], [0, 0]),
        (["Home", "End"], [0, 1]),
        (["PageDown"], [1, 1]),
        (["PageDown", "PageUp"], [0, 1]),
        (["n"], [1, 0]),
        (["n", "n"], [0, 1]),
        (["p"], [1, 0]),
    ],
)
def test_keys_go_from_entry_to_entry(page: Page, keys: list[str], at: list[int]) -> None:
    maps(page).focus()
    for key in keys:
        page.keyboard.press(key)

    assert cell(page) == at
    assert page.evaluate("saved.at(-1).cell") == at, "the kernel is told"


def test_an_entry_is_told_when_it_is_reached(page: Page) -> None:
    maps(page).focus()
    page.keyboard.press("ArrowLeft")

    expect(status(page)).to_have_text(
        "∂output[0, 0] / ∂x[0, 0]finite differences 1backward 1difference 0they agree"
    )


def test_the_maps_are_one_tab_stop_and_no_key_leaves_the_widget(page: Page) -> None:
    maps(page).focus()
    for key in ("d", "d", "ArrowUp", "n", "Enter"):
        page.keyboard.press(key)

    assert page.evaluate("escaped") == []
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Previous wrong entry")).to_be_focused()


def test_buttons_lead_from_one_wrong_entry_to_the_next(page: Page) -> None:
    page.get_by_role("button", name="Next wrong entry").click()
    assert cell(page) == [1, 0]
    page.get_by_role("button", name="Previous wrong entry").click()
    assert cell(page) == [0, 1]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_pointing_shows_an_entry_and_leaving_returns(page: Page, which: int) -> None:
    at = over(page, which, 1, 1)
    page.mouse.move(at["x"], at["y"])
    expect(status(page)).to_contain_text("∂output[0, 1] / ∂x[0, 1]finite differences 3")
    assert cell(page) == [0, 1], "pointing selects nothing"

    page.mouse.move(5, 5)
    expect(status(page)).to_contain_text("∂output[0, 0] / ∂x[0, 1]")


def test_a_click_selects(page: Page) -> None:
    at = over(page, 2, 1, 0)
    page.mouse.click(at["x"], at["y"])
    page.mouse.move(5, 5)

    assert cell(page) == [1, 0]
    expect(status(page)).to_contain_text("∂output[0, 1] / ∂x[0, 0]finite differences 2backward 5")


def test_the_kernel_can_select(page: Page) -> None:
    page.evaluate("model.set('cell', [1, 1])")

    expect(status(page)).to_contain_text("∂output[0, 1] / ∂x[0, 1]")


def test_another_input_is_chosen_from_a_list(page: Page) -> None:
    page.get_by_role("combobox").select_option("the output by w")

    expect(page.get_by_text("The 2 × 4 Jacobian of the output with respect to w")).to_be_visible()
    expect(page.get_by_text("✓ Backward agrees with finite differences of forward")).to_be_visible()
    expect(page.get_by_role("button")).to_have_count(0)
    assert page.evaluate("[saved.at(-1).shown, saved.at(-1).cell]") == [1, [0, 0]]


# What is drawn


def test_a_column_of_differences_and_a_row_of_backward_are_marked(page: Page) -> None:
    sizes = page.evaluate(
        """() => [...document.querySelectorAll('.ac-jac-board')].map(board =>
             [...board.querySelectorAll('.ac-jac-band')].map(band =>
               Number(band.getAttribute('width')) * Number(band.getAttribute('height')) > 0))"""
    )

    assert sizes == [[False, True], [True, False], [True, True]]


def test_wrong_entries_are_hatched_not_only_colored(page: Page) -> None:
    paths = page.locator("path[fill^='url(#ac-jac-hatch']")

    assert [path.get_attribute("d").count("z") for path in paths.all()] == [2, 2, 2]
    expect(page.get_by_text("backward is wrong", exact=True)).to_be_visible()
    expect(page.get_by_text("not differentiable there")).to_have_count(0)


def test_two_views_on_a_page_hatch_each_their_own(page: Page) -> None:
    names = page.evaluate("[...document.querySelectorAll('pattern')].map(p => p.id)")

    assert len(set(names)) == 3


@pytest.mark.parametrize("dark", first_rows([False, True], most=1))
def test_words_are_legible(browser: Browser, product: JacobianView, dark: bool) -> None:
    with showing(browser, product, dark=dark) as page:
        colors = page.evaluate(
            """() => ['.ac-jac-how', '.ac-jac-verdict', '.ac-jac-finding code', '.ac-jac-status b']
                 .map(name => getComputedStyle(document.querySelector(name)).color)"""
        )
    ground = "rgb(17, 17, 17)" if dark else "rgb(255, 255, 255)"
    assert min(contrast(color, ground) for color in colors) >= 4.5


@pytest.mark.parametrize("dark", first_rows([False, True], most=1))
def test_the_maps_stand_on_the_pages_ground(browser: Browser, dark: bool) -> None:
    """Zero has the page's own color, and marks on a map contrast with the map."""
    view = jacobian_view(torch.tanh, torch.linspace(-1, 1, 3))
    with showing(browser, view, dark=dark) as page:
        at = over(page, 0, 1, 2)
        shown = Image.open(BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
        stroke = "element => getComputedStyle(element).stroke"
        ring = page.locator(".ac-jac-ring").first.evaluate(stroke)
    ground = (17, 17, 17) if dark else (255, 255, 255)
    assert shown.getpixel((round(at["x"]), round(at["y"]))) == ground
    assert contrast(ring, f"rgb{ground}") >= 7


def test_nothing_is_cut_off_where_it_is_narrow(browser: Browser, product: JacobianView) -> None:
    with showing(browser, product) as page:
        page.set_viewport_size({"width": 480, "height": 900})
        width = page.evaluate("document.documentElement.scrollWidth")

    assert width <= 480


def test_a_move_in_the_largest_map_takes_less_than_a_frame(
    browser: Browser, big: JacobianView
) -> None:
    with showing(browser, big) as page:
        maps(page).focus()
        slowest = page.evaluate(
            """() => {
                 const times = [], maps = document.querySelector('.ac-jac-maps');
                 for (let i = 0; i < 60; i++) {
                   const begun = performance.now();
                   const init = { key: 'ArrowRight', bubbles: true };
                   maps.dispatchEvent(new KeyboardEvent('keydown', init));
                   times.push(performance.now() - begun);
                 }
                 return times.sort((a, b) => a - b)[30];
               }"""
        )
        assert cell(page) == [0, 60]

    assert slowest < 17


def test_a_removed_view_hears_no_more(page: Page) -> None:
    page.evaluate("dispose()")
    page.evaluate("model.set('cell', [1, 1])")

    expect(status(page)).to_contain_text("∂x[0, 1]finite differences 5")
