"""Widgets in separate frames, as on Colab. A frame knows only the theme's name, not its colors."""

import json
from collections.abc import Iterator

import pytest
from anywidget import AnyWidget
from barepage import MODEL, contrast, state
from playwright.sync_api import Browser, Frame, Page
from repository import ROOT
from shown_widgets import SHOWN, built

pytestmark = [pytest.mark.thorough, pytest.mark.browser]

WIDTHS = (320, 600, 1000)
GROUNDS = {"light": "#ffffff", "dark": "#383838"}  # the colors of Colab's page

# The frame is as high as its content, and never scrolls.
GROWING = """
new ResizeObserver(() => {
  const frame = parent.document.querySelector('iframe');
  frame.style.height = document.body.scrollHeight + 'px';
}).observe(document.body);
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    yield page
    page.close()


def framed(page: Page, widget: AnyWidget, theme: str, width: int) -> Frame:
    """Show a widget in a frame with this width. The frame's height follows its content."""
    page.set_content(f"<iframe style='width: {width}px; height: 20px; border: 0'></iframe>")
    inner = page.frames[1]
    attribute = " theme=dark" if theme == "dark" else ""
    inner.set_content(
        f"<!doctype html><html{attribute}>"
        f"<body style='margin: 0; display: flow-root; background: {GROUNDS[theme]}'>"
        f"<style>{widget._css}</style><main></main>"
    )
    script = MODEL.replace("STATE", json.dumps(state(widget))).replace(
        "MODULE", json.dumps(str(widget._esm))
    )
    inner.evaluate(f"(async () => {{{script}; {GROWING}}})()")
    page.wait_for_timeout(300)
    return inner


def pictured(page: Page, name: str) -> None:
    """Save a screenshot of the frame for visual inspection."""
    (ROOT / "artifacts").mkdir(exist_ok=True)
    page.locator("iframe").screenshot(path=ROOT / "artifacts" / f"{name}.png")


# Each text with its color, and with the combined color of everything painted below it.
TEXTS = """() => {
  const read = color => color.match(/[\\d.]+/g).map(Number);
  const below = e => {
    const [r, g, b, a = 1] = read(getComputedStyle(e).backgroundColor);
    if (a === 1) return [r, g, b];
    return below(e.parentElement).map((under, i) => (1 - a) * under + a * [r, g, b][i]);
  };
  const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node; (node = walk.nextNode());) {
    const e = node.parentElement;
    const shown = e.checkVisibility({opacityProperty: true, visibilityProperty: true});
    if (!node.data.trim() || !shown || e.closest('svg, [aria-disabled=true], option')) continue;
    found.push([node.data.trim(), getComputedStyle(e).color, `rgb(${below(e)})`]);
  }
  return found;
}"""


@pytest.mark.parametrize("theme", GROUNDS)
@pytest.mark.parametrize("name", SHOWN)
def test_it_fits_its_frame(page: Page, name: str, theme: str) -> None:
    for width in WIDTHS:
        inner = framed(page, built()[name], theme, width)
        pictured(page, f"frame-{name}-{theme}-{width}")
        told = "[document.documentElement.scrollWidth, document.body.scrollHeight, innerHeight]"
        wide, high, frame = inner.evaluate(told)

        assert wide <= width, (width, wide)
        assert high == frame
        assert 150 < high < 2400, (width, high)
        for text, ink, ground in inner.evaluate(TEXTS):
            assert contrast(ink, ground) >= 4.5, (text, ink, ground)
