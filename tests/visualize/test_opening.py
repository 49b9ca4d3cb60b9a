"""A widget opens in an interesting state, and its saved picture shows the same state."""

from __future__ import annotations

import pytest
from barepage import hold_the_clock, showing
from playwright.sync_api import Browser, Page, expect
from shown_widgets import SHOWN, built

pytestmark = [pytest.mark.thorough, pytest.mark.browser, pytest.mark.uncompiled]

AT_THE_END = ("gradient-flow", "folded-flow", "compared-flows", "function-lab")


@pytest.mark.parametrize("name", SHOWN)
def test_it_opens_where_there_is_something_to_see(browser: Browser, name: str) -> None:
    built()[name].left()  # displaying it does the same
    with showing(browser, built()[name]) as page:
        expect(page.locator(SHOWN[name].root)).to_contain_text(SHOWN[name].opens)


def step(page: Page) -> int:
    return int(page.get_by_role("slider", name="step", exact=True).input_value())


@pytest.mark.parametrize("how", ["Step forward", "Play", "the picture", "the slider"])
@pytest.mark.parametrize("name", AT_THE_END)
def test_what_opens_at_its_end_begins_at_its_beginning(
    browser: Browser, name: str, how: str
) -> None:
    with showing(browser, built()[name]) as page:
        hold_the_clock(page)
        last = step(page)
        assert last > 0
        match how:
            case "the picture":
                page.locator(".agf-card[tabindex='0'], .ac-lab").first.focus()
                page.keyboard.press("ArrowRight")
            case "the slider":
                page.get_by_role("slider", name="step", exact=True).press("ArrowRight")
            case _:
                page.get_by_role("button", name=how).click()

        assert step(page) == (1 if how == "Play" else 0)
        page.get_by_role("slider", name="step", exact=True).press("End")
        expect(page.get_by_role("button", name="Step forward")).to_be_disabled()
