"""The course as a learner sees it, in a real JupyterLab in a real browser.

Screenshots remain in ``artifacts/``, where you can look at them. The browser is the one in the
environment variable ``CHROMIUM``, or else Chromium or Chrome on the PATH.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from handed_in import SQUARE
from labdrive import Lab, RunningLab, browsing, copy_course, running_lab
from playwright.sync_api import Locator, expect
from repository import ROOT
from sampling import first_rows

from tools.printing import find_chromium

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

LESSON = "notebooks/01_template.ipynb"
EXERCISES = "exercises/01_template.ipynb"


@pytest.fixture(scope="module")
def executable() -> str:
    found = find_chromium()
    if found is None and os.environ.get("CI"):
        pytest.fail("CI must run the browser test, and found no Chromium: install it.")
    if found is None:
        pytest.skip("no Chromium found: install it, or name it in the environment as CHROMIUM")
    return found


def append_flow(course: Path) -> None:
    """Append the lesson's first gradient flow to its exercises, so that both run in one kernel."""
    lesson, exercises = (nbformat.read(course / path, as_version=4) for path in (LESSON, EXERCISES))
    code = [cell for cell in lesson.cells if cell.cell_type == "code"]
    _, imports, *_ = code
    flow, *_ = (cell for cell in code if "\ngradient_flow(" in cell.source)
    exercises.cells += [imports, flow]
    nbformat.write(exercises, course / EXERCISES)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    course = copy_course(tmp_path_factory.mktemp("course"))
    append_flow(course)
    with running_lab(course, tmp_path_factory.mktemp("home"), "--port", "0") as running:
        yield running


@pytest.fixture(scope="module")
def lab(executable: str, server: RunningLab) -> Iterator[Lab]:
    with browsing(executable) as (context, strays):
        yield Lab(context.new_page(), server, ROOT / "artifacts")
        assert strays == [], "the course must need nothing but this machine"


def test_the_launcher_opens_the_first_notebook(lab: Lab) -> None:
    lab.page.goto(lab.server.url)
    expect(lab.page.locator(".jp-Notebook h1").first).to_be_visible(timeout=60_000)
    expect(lab.page.locator(".lm-DockPanel-tabBar")).to_contain_text("00_start_here.ipynb")
    expect(lab.page.locator(".jp-toast, .jp-Dialog, .Toastify__toast")).to_have_count(0)
    lab.picture("launched")


def test_the_lessons_and_the_progress_stay_in_view_when_a_lesson_is_opened(lab: Lab) -> None:
    """Use the page that the test above has opened, in a window with the default layout."""
    overview = lab.page.locator("#jp-left-stack .jp-MarkdownViewer")
    expect(overview.locator("p").first).to_contain_text("You have passed 0 of")
    overview.get_by_role("link", name="A Function from end to end").click()
    tabs = lab.page.locator(".lm-DockPanel-tabBar")
    expect(tabs).to_have_count(1)
    expect(tabs).to_contain_text("01_template.ipynb", timeout=60_000)
    expect(overview).to_be_visible()
    lab.picture("overview")


def ran(lab: Lab, path: str) -> Lab:
    """Open a notebook and run all its cells. Only cells that are meant to raise may raise."""
    lab.open(path)
    lab.run_all()
    lab.picture(f"ran-{path.replace('/', '-').removesuffix('.ipynb')}")
    assert lab.surprises() == []
    assert not [cell for cell in lab.cells() if cell.get("source") and never_ran(cell)]
    return lab


def never_ran(cell: dict) -> bool:
    return cell["cell_type"] == "code" and cell["execution_count"] is None


@pytest.mark.parametrize("path", first_rows(["notebooks/00_start_here.ipynb", LESSON], most=1))
def test_run_all_raises_nothing_but_what_is_meant(path: str, lab: Lab) -> None:
    ran(lab, path)


# --- the exercises of lesson 01; the tests below stay on this page ------------------------------


@pytest.fixture(scope="module")
def exercises(lab: Lab) -> Lab:
    return ran(lab, EXERCISES)


@pytest.mark.parametrize(
    ("factor", "status", "says"), [(1, "wrong", "constant-factor"), (2, "passed", "")]
)
def test_an_answer_typed_by_a_learner_is_graded(
    exercises: Lab, factor: int, status: str, says: str
) -> None:
    lab = exercises
    assert status not in lab.output_text("square-grade")
    lab.type_into("square", SQUARE.replace("2 *", f"{factor} *"))
    lab.run("square")
    lab.run("square-grade")
    expect(lab.output("square-grade")).to_contain_text(status, timeout=10_000)
    assert says in lab.output_text("square-grade")
    lab.picture(f"graded-{status}")


# --- the gradient flow of lesson 01: L = x² + relu(y) at x = 2, y = 3; on this page, too ----------


@pytest.fixture
def flow(exercises: Lab) -> Locator:
    """Return the widget in the lesson's own cell, at its first step."""
    exercises.cell(len(exercises.cells()) - 1)
    widget = exercises.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .agf").first
    widget.scroll_into_view_if_needed(timeout=20_000)
    widget.get_by_role("slider", name="step").press("Home")
    return widget


def node(flow: Locator, title: str) -> Locator:
    """Return the card of a node by its title."""
    return flow.locator(".agf-card").filter(
        has=flow.page.locator(".agf-title", has_text=re.compile(f"^{title}$"))
    )


def test_stepping_the_visualizer_brings_the_gradient_to_x(lab: Lab, flow: Locator) -> None:
    x, scrubber = node(flow, "x"), flow.get_by_role("slider", name="step")
    shown = x.locator(".agf-gradient")
    expect(x).to_have_attribute("aria-label", re.compile("gradient not yet known"))
    expect(shown).to_have_css("opacity", "0")
    x.click()
    for _ in range(int(scrubber.get_attribute("max") or 0)):
        lab.page.keyboard.press("ArrowRight")
        if "agf-has-gradient" in (x.get_attribute("class") or ""):
            break
    expect(flow.get_by_role("status").first).to_contain_text("Backward")
    expect(x).to_have_attribute("aria-label", re.compile("gradient 4$"))
    expect(shown).to_have_css("opacity", "1")
    expect(shown).to_have_text("∂ 4")
    lab.picture("gradient-at-x")

    flow.get_by_role("button", name="Step back").click()
    expect(shown).to_have_css("opacity", "0")


def test_keys_pressed_in_the_visualizer_stay_there(lab: Lab, flow: Locator) -> None:
    node(flow, "x").click()
    cells, active = lab.cells(), lab.active_cell()
    for key in ("ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft", "d", "d", "b", "Enter"):
        lab.page.keyboard.press(key)
    assert [cell["id"] for cell in lab.cells()] == [cell["id"] for cell in cells]
    assert lab.active_cell() == active


def test_moving_an_input_moves_its_value_and_its_gradient(lab: Lab, flow: Locator) -> None:
    flow.get_by_role("button", name="Last step").click()
    value, gradient = (node(flow, "x").locator(f".agf-{kind}") for kind in ("value", "gradient"))
    before = value.text_content(), gradient.text_content()
    flow.get_by_role("slider", name="input x").press("ArrowRight")
    expect(value).not_to_have_text(before[0] or "")
    expect(gradient).not_to_have_text(before[1] or "")
