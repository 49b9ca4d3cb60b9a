"""Every visualizer in a real JupyterLab: with only the keyboard, with a mouse, in dark colors.

One notebook has a widget in each cell. The screenshots remain in ``artifacts/``, where you can look
at them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from barepage import chromium_or_skip, contrast
from labdrive import Lab, browsing, running_lab
from playwright.sync_api import Locator, expect
from repository import ROOT
from shown_widgets import SETUP, SHOWN

from autograd_course.lab.folder import FIRST_NOTEBOOK

pytestmark = [pytest.mark.thorough, pytest.mark.browser, pytest.mark.timeout(600)]

LOOKS = ("Light", "Dark")
LOOKED_AT = [(look, name) for look in LOOKS for name in SHOWN]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run the notebook."""
    chromium = chromium_or_skip()
    course = tmp_path_factory.mktemp("course")
    write_notebook(course / FIRST_NOTEBOOK)
    home = tmp_path_factory.mktemp("home")
    with (
        running_lab(course, home, "--port", "0") as server,
        browsing(chromium) as (context, strays),
    ):
        lab = Lab(context.new_page(), server, ROOT / "artifacts")
        lab.open(FIRST_NOTEBOOK.as_posix())
        lab.run_all()
        assert lab.surprises() == []
        yield lab
        assert strays == [], "a widget must need nothing but this machine"


def write_notebook(path: Path) -> None:
    sources = [SETUP, *(shown.call for shown in SHOWN.values())]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    path.parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)


def widget(lab: Lab, name: str) -> Locator:
    found = lab.cell(1 + list(SHOWN).index(name)).locator(SHOWN[name].root)
    expect(found).to_be_visible(timeout=20_000)
    return found


def dress(lab: Lab, look: str) -> None:
    """Switch JupyterLab to its light or dark theme."""
    light = "true" if look == "Light" else "false"
    if lab.page.locator("body").get_attribute("data-jp-theme-light") != light:
        change = f"'apputils:change-theme', {{theme: 'JupyterLab {look}'}}"
        lab.page.evaluate(f"() => jupyterapp.commands.execute({change})")
    expect(lab.page.locator("body")).to_have_attribute("data-jp-theme-light", light)


# --- the keyboard alone -------------------------------------------------------------------------

# Tab must reach every control. Of the radio buttons with the same name, it reaches the chosen one.
OPERABLE = """root => {
  for (const e of root.querySelectorAll('[data-stop]')) delete e.dataset.stop;
  return [...root.querySelectorAll(
  'button, input, select, textarea, summary, [tabindex="0"]')]
  .filter(e => e.checkVisibility() && e.tabIndex >= 0)
  .filter(e => e.type !== 'radio' || e.checked || ![...root.querySelectorAll('[type=radio]')].some(
    other => other.name === e.name && (other.checked || other.compareDocumentPosition(e) & 4)))
  .map((e, stop) => { e.dataset.stop = stop; return stop; });
}"""

# The focused element, and how its focus is shown.
FOCUSED = """root => {
  const e = document.activeElement, inside = root.contains(e), box = e.getBoundingClientRect();
  const look = getComputedStyle(e), face = e.querySelector(':scope > .agf-face');
  const [line, width] = face
    ? [getComputedStyle(face).stroke, getComputedStyle(face).strokeWidth]
    : [look.outlineColor, look.outlineStyle === 'none' ? '0px' : look.outlineWidth];
  const seen = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return {inside, stop: Number(e.dataset.stop), line, width: parseFloat(width), seen};
}"""


def stops(lab: Lab, root: Locator) -> Iterator[dict[str, Any]]:
    """Enter a widget with Tab, and press Tab until the focus leaves it."""
    root.evaluate("root => root.closest('.jp-Cell').focus()")
    inside = False
    for _ in range(80):
        lab.page.keyboard.press("Tab")
        at = root.evaluate(FOCUSED)
        if inside and not at["inside"]:
            return
        inside = at["inside"]
        if inside:
            yield at
    raise AssertionError("Tab does not leave the widget" if inside else "Tab does not reach it")


@pytest.mark.parametrize(("look", "name"), LOOKED_AT)
def test_tab_reaches_every_control_and_leaves(lab: Lab, look: str, name: str) -> None:
    dress(lab, look)
    root = widget(lab, name)
    operable = root.evaluate(OPERABLE)
    ground = lab.page.locator(".jp-Notebook").first.evaluate(
        "notebook => getComputedStyle(notebook).backgroundColor"
    )
    reached = []
    for at in stops(lab, root):
        reached.append(at["stop"])
        here = lab.page.locator(":focus")
        expect(here).to_have_accessible_name(re.compile(r"\w"))
        assert at["seen"], here.evaluate("e => e.outerHTML")
        assert at["width"] >= 2, here.evaluate("e => e.outerHTML")
        assert contrast(at["line"], ground) >= 3, here.evaluate("e => e.outerHTML")

    assert reached == operable
    for _ in range(4):  # past the next cell's toolbar
        lab.page.keyboard.press("Shift+Tab")
        if root.evaluate(FOCUSED)["inside"]:
            break
    assert root.evaluate(FOCUSED)["inside"], "Shift+Tab does not lead back"
    root.scroll_into_view_if_needed()
    lab.picture(f"widget-{name}-{look.lower()}")


# Everything that a screen reader would read by itself, in order.
LISTEN = """root => {
  window.heard = [];
  const live = '[role=status], [role=alert], output:not([role])';
  new MutationObserver(changes => {
    const told = new Set(changes.map(({target}) =>
      (target.closest ? target : target.parentElement).closest(live)).filter(Boolean));
    for (const region of told) if (region.ariaLive !== 'off') heard.push(region.innerText);
  }).observe(root, {subtree: true, childList: true, characterData: true});
}"""


def heard(lab: Lab) -> list[str]:
    """Return the texts that a screen reader reads. Emptying a region makes it read nothing."""
    return [" ".join(text.split()) for text in lab.page.evaluate("heard") if text.strip()]


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_key_changes_is_heard_once(lab: Lab, name: str) -> None:
    shown, root = SHOWN[name], widget(lab, name)
    control = root.locator(shown.control).first
    control.focus()
    lab.page.keyboard.press("End" if shown.key == "Home" else "Home")
    root.evaluate(LISTEN)
    lab.page.keyboard.press(shown.key)
    lab.page.wait_for_function("heard.some(text => text.trim())")
    lab.page.wait_for_timeout(100)

    told = heard(lab)
    assert shown.says in told[0]
    assert len(told) == (2 if name == "compared-flows" else 1), told


KEYS = ("ArrowRight", "ArrowDown", "End", "Home", "PageUp", "d", "d", "Enter", "Space", "Escape")


@pytest.mark.parametrize("name", SHOWN)
def test_no_key_drops_the_focus_or_leaves_the_widget(lab: Lab, name: str) -> None:
    root, cells = widget(lab, name), [cell["id"] for cell in lab.cells()]
    for stop in root.evaluate(OPERABLE):
        here = root.locator(f"[data-stop='{stop}']")
        if not here.count():
            continue  # a folded card that was unfolded in the meantime
        here.focus()
        for key in KEYS:
            lab.page.keyboard.press(key)
            lab.page.evaluate("() => new Promise(requestAnimationFrame)")
            assert root.evaluate(FOCUSED)["inside"], (stop, key)

    assert [cell["id"] for cell in lab.cells()] == cells
    assert len(lab.page.locator(".jp-Dialog").all()) == 0


def test_what_is_told_by_a_slider_is_not_told_twice(lab: Lab) -> None:
    root = widget(lab, "function-lab")
    x = root.get_by_label("x", exact=True)
    x.focus()
    root.evaluate(LISTEN)
    lab.page.keyboard.press("ArrowRight")

    expect(x).to_have_attribute("aria-valuetext", re.compile(r"^x = \S+\. \S+ .*slope"))
    lab.page.wait_for_timeout(100)
    assert heard(lab) == []


def test_saving_stays_the_notebooks(lab: Lab) -> None:
    dirty = "jupyterapp.shell.currentWidget.context.model.dirty"
    widget(lab, "gradient-flow").get_by_role("slider", name="step").focus()
    lab.page.evaluate(f"() => {{ {dirty} = true; }}")
    lab.page.keyboard.press("ControlOrMeta+s")

    lab.page.wait_for_function(f"!{dirty}", timeout=5000)


# --- the mouse, and colors ----------------------------------------------------------------------


def test_the_function_lab_follows_the_mouse(lab: Lab) -> None:
    root = widget(lab, "function-lab")
    plot = root.locator(".ac-plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    before = root.inner_text()
    middle = box["y"] + box["height"] / 2
    lab.page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    lab.page.mouse.down()
    lab.page.mouse.move(box["x"] + box["width"] * 0.25, middle, steps=8)
    lab.page.mouse.up()

    assert root.inner_text() != before
    lab.picture("widget-function-lab-dragged")


def test_a_question_is_answered_and_explained(lab: Lab) -> None:
    root = widget(lab, "knowledge-check")
    root.get_by_role("button", name="Question 1,").click()
    root.get_by_role("radio").nth(1).check()
    root.get_by_role("button", name="Check").first.click()

    expect(root.get_by_text(re.compile("[✓✗]")).first).to_be_visible()
    lab.picture("widget-knowledge-check")


@pytest.mark.parametrize(("look", "name"), LOOKED_AT)
def test_ink_stands_out_from_the_page(lab: Lab, look: str, name: str) -> None:
    dress(lab, look)
    ink = widget(lab, name).evaluate("root => getComputedStyle(root).color")
    ground = lab.page.locator(".jp-Notebook").first.evaluate(
        "notebook => getComputedStyle(notebook).backgroundColor"
    )
    assert contrast(ink, ground) >= 7
