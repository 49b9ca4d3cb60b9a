"""A notebook is run and saved, its kernel ends, and the notebook is opened again the next day.

The tests use the course's JupyterLab and a plain one. They also build the book from the file.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from barepage import chromium_or_skip
from labdrive import Lab, RunningLab, browsing, plain_lab, running_lab
from nbformat import NotebookNode
from playwright.sync_api import Page
from repository import ROOT
from shown_widgets import SETUP, SHOWN

from autograd_course.lab.folder import FIRST_NOTEBOOK
from tools.book.links import Places
from tools.book.notebook_pages import page
from tools.settings import Settings

pytestmark = [pytest.mark.thorough, pytest.mark.browser, pytest.mark.timeout(600)]

BOXED = ", ".join(SHOWN[name].call for name in ("gradient-flow", "knowledge-check"))
CALLS = {name: shown.call for name, shown in SHOWN.items()}
CALLS["boxed"] = f"from ipywidgets import HBox, VBox\nVBox([HBox([{BOXED}])])"
READ = {  # questions become text
    "knowledge-check": "Knowledge check 01",
    "boxed": "Knowledge check 01",
    "vote": "Vote before you run the next cell",
}
PLACE = FIRST_NOTEBOOK.as_posix()

SHUT_DOWN = """async () => {
  const panel = jupyterapp.shell.currentWidget;
  await panel.context.sessionContext.shutdown();
  panel.dispose();
}"""
CLOSE = "() => jupyterapp.shell.currentWidget.dispose()"
SAVE = "() => jupyterapp.commands.execute('docmanager:save')"
DIRTY = "() => jupyterapp.shell.currentWidget.context.model.dirty"

# The contents of an output, once it has the live view or its replacement. If a view has no kernel,
# JupyterLab searches for two seconds before it says so. ``innerText`` would be empty if the page
# skips drawing.
OUTPUT = """async (cell, live) => {
  const until = performance.now() + 5000;
  for (;;) {
    const area = cell.querySelector('.jp-Cell-outputArea'), text = area?.textContent ?? '';
    const found = {
      live: area?.querySelectorAll('.ac').length ?? 0,
      pictures: [...area?.querySelectorAll('img') ?? []].filter(e => e.naturalWidth > 300).length,
      text, error: text.includes('Error displaying'),
    };
    const settled = live ? found.live : found.pictures || text.includes('Without the widget');
    if (settled || found.error || performance.now() > until) return found;
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}"""


@dataclass
class Days:
    """The contents of each output at each moment, and the saved notebook."""

    shown: dict[str, dict[str, Any]] = field(default_factory=dict)
    dirty: bool = True
    saved: NotebookNode = field(default_factory=NotebookNode)


def launched(course: Path, home: Path) -> AbstractContextManager[RunningLab]:
    return running_lab(course, home, "--port", "0")


@pytest.fixture(scope="module", params=[launched, plain_lab], ids=["launched", "plain"])
def days(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Days:
    """Run a notebook and save it. Open it again while the kernel runs, and without the kernel."""
    course, home = tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("home")
    write_notebook(course / FIRST_NOTEBOOK)
    days, look = Days(), f"{request.param.__name__}"
    with browsing(chromium_or_skip()) as (context, _):
        with request.param(course, home) as server:
            lab = opened(context.new_page(), server)
            lab.run_all()
            assert lab.surprises() == []
            days.shown["run"] = outputs(lab, live=True)
            lab.page.evaluate(SAVE)
            days.saved = nbformat.read(course / FIRST_NOTEBOOK, as_version=4)
            lab.page.evaluate(CLOSE)
            lab.open(PLACE)
            days.shown["opened while the kernel runs"] = outputs(lab, live=True)
            days.dirty = lab.page.evaluate(DIRTY)
            lab.page.evaluate(SAVE)
            lab.page.evaluate(SHUT_DOWN)
            lab.open(PLACE)
            days.shown["opened after the kernel"] = outputs(lab, live=False)
        with request.param(course, home) as server:
            lab = opened(context.new_page(), server)
            days.shown["opened after the server"] = outputs(lab, live=False)
            lab.picture(f"reopened-{look}")
    return days


def write_notebook(path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(source) for source in [SETUP, *CALLS.values()]]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    path.parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)


def opened(page: Page, server: RunningLab) -> Lab:
    lab = Lab(page, server, ROOT / "artifacts")
    lab.open(PLACE)
    return lab


def outputs(lab: Lab, live: bool) -> dict[str, Any]:
    return {name: lab.cell(1 + n).evaluate(OUTPUT, live) for n, name in enumerate(CALLS)}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("moment", ["run", "opened while the kernel runs"])
def test_with_its_kernel_a_widget_lives(days: Days, moment: str, name: str) -> None:
    shown = days.shown[moment][name]

    assert shown["live"] == (2 if name == "boxed" else 1)
    assert shown["pictures"] == 0, "a picture beside the live view"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("moment", ["opened after the kernel", "opened after the server"])
def test_without_its_kernel_a_widget_shows_its_picture(days: Days, moment: str, name: str) -> None:
    shown = days.shown[moment][name]

    assert not shown["error"], shown["text"]
    assert shown["pictures"] == (name not in {"knowledge-check", "vote"})
    assert [words for words in {*READ.values()} if words in shown["text"]] == (
        [READ[name]] if name in READ else []
    )


def test_opening_a_notebook_changes_nothing_in_it(days: Days) -> None:
    assert not days.dirty


@pytest.mark.parametrize("name", CALLS)
def test_a_book_of_what_was_saved_shows_the_picture(days: Days, name: str) -> None:
    places = Places(ROOT, Settings("someone/a_course", "trunk"), {PLACE}, {}, {})
    first = nbformat.v4.new_markdown_cell("# Title")
    (_, cell, *more) = page(
        nbformat.v4.new_notebook(cells=[first, days.saved.cells[1 + list(CALLS).index(name)]]),
        PLACE,
        places,
    ).cells

    kinds = {kind for output in cell.outputs for kind in output.data}
    assert "application/vnd.jupyter.widget-view+json" not in kinds
    assert "image/png" in kinds or READ[name] in more[0].source
