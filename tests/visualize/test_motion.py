"""Users who ask for reduced motion see none. For others, motion appears where it explains."""

import pytest
from barepage import showing
from playwright.sync_api import Browser
from shown_widgets import SHOWN, built

pytestmark = [pytest.mark.thorough, pytest.mark.browser]

MOVING = {"gradient-flow", "folded-flow", "compared-flows", "attention-tiles"}

# Counts everything that moves: CSS, a pulse on an edge, and a smooth scroll.
WATCH = """() => {
  window.moved = 0;
  for (const way of ['scrollBy', 'scrollTo', 'scrollIntoView']) {
    const plain = Element.prototype[way];
    Element.prototype[way] = function (how) {
      if (how?.behavior === 'smooth') moved += 1;
      plain.call(this, how);
    };
  }
  const look = () => {
    moved += document.getAnimations().length + document.querySelectorAll('.agf-pulse').length;
    requestAnimationFrame(look);
  };
  look();
}"""


@pytest.mark.parametrize("still", [True, False], ids=["reduced", "any"])
@pytest.mark.parametrize("name", SHOWN)
def test_nothing_moves_for_who_wants_it_still(browser: Browser, name: str, still: bool) -> None:
    with showing(browser, built()[name], still=still) as page:
        page.evaluate(WATCH)
        for control in page.locator("button:visible, input[type=range], [role=application]").all():
            if not control.is_visible():
                continue
            control.focus()
            for key in ("Home", "ArrowRight", "Enter"):
                page.keyboard.press(key)
        page.wait_for_timeout(150)
        moved = page.evaluate("moved")

    assert (moved > 0) == (not still and name in MOVING)
