"""The widgets of a notebook share a page. None of them changes how another one looks."""

from __future__ import annotations

import pytest
from barepage import showing
from playwright.sync_api import Browser
from shown_widgets import SHOWN, built

pytestmark = [pytest.mark.thorough, pytest.mark.browser]

# Every computed style of every element of the widget.
LOOK = """async () => {
  window.look = () => [...document.querySelectorAll('main *')].map(element => {
    const styles = getComputedStyle(element);
    return [...styles].map(name => [name, styles.getPropertyValue(name)]);
  });
  await document.fonts.ready;
  for (let last = ''; last !== JSON.stringify(window.before); ) { // what is drawn late has come
    last = JSON.stringify(window.before);
    await new Promise(resolve => setTimeout(resolve, 200));
    window.before = look();
  }
}"""

CHANGES = """() => {
  const elements = [...document.querySelectorAll('main *')], found = new Set();
  look().forEach((styles, i) => styles.forEach(([name, value], k) => {
    const [, was] = before[i][k];
    const called = `${elements[i].tagName}.${elements[i].getAttribute('class')}`;
    if (value !== was) found.add(`${called} ${name}: ${value}, not ${was}`);
  }));
  return [...found];
}"""

# A widget's style sheet is added to the page when its first view appears.
ADD = """([sheets, first]) => {
  for (const sheet of sheets) {
    const style = Object.assign(document.createElement('style'), {textContent: sheet});
    if (first) document.head.prepend(style); else document.body.append(style);
  }
}"""


@pytest.mark.parametrize("first", [False, True], ids=["after it", "before it"])
@pytest.mark.parametrize("name", SHOWN)
def test_no_widget_changes_the_look_of_another(browser: Browser, name: str, first: bool) -> None:
    others = [str(widget._css) for other, widget in built().items() if other != name]
    with showing(browser, built()[name]) as page:
        page.evaluate(LOOK)
        page.evaluate(ADD, [others, first])

        assert page.evaluate(CHANGES) == []
