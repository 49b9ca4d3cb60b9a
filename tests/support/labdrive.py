"""Control the course's JupyterLab in a headless Chromium, as a learner would."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Locator, Page, Route, expect, sync_playwright

ROOT = Path(__file__).parents[2]
SECONDS = 1000  # Playwright counts in milliseconds


# --- the server ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunningLab:
    """JupyterLab as our launcher started it. ``log`` contains everything that it has printed."""

    process: subprocess.Popen[bytes]
    log: Path
    url: str
    seconds_to_url: float

    @property
    def printed(self) -> str:
        return self.log.read_text()

    def address(self, path: str) -> str:
        """Return the address that opens the notebook at ``path`` in a new workspace."""
        parts = urlsplit(self.url)
        return parts._replace(path=f"/lab/tree/{path}", query=f"{parts.query}&reset").geturl()


def copy_course(to: Path) -> Path:
    """Copy the files that a learner opens, so that no run writes into the repository."""
    for name in ("notebooks", "exercises"):
        ignore = shutil.ignore_patterns(".*")
        shutil.copytree(ROOT / name, to / name, ignore=ignore, dirs_exist_ok=True)
    return to


def private_environment(home: Path) -> dict[str, str]:
    """Return an environment in which JupyterLab and the course keep their files under ``home``."""
    config = home / "config"
    config.mkdir(parents=True, exist_ok=True)
    settings = {"LabApp": {"expose_app_in_browser": True}}  # adds ``window.jupyterapp`` to the page
    (config / "jupyter_lab_config.json").write_text(json.dumps(settings))
    places = {
        "JUPYTER_CONFIG_DIR": config,
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "IPYTHONDIR": home / "ipython",
        "XDG_STATE_HOME": home / "state",
        "AUTOGRAD_COURSE_PROGRESS": home / "progress.json",
    }
    return {**os.environ, "BROWSER": "none", **{name: str(path) for name, path in places.items()}}


@contextlib.contextmanager
def running_lab(
    course: Path, home: Path, *options: str, terminal: bool = False, **env: str
) -> Iterator[RunningLab]:
    """Run ``autograd-course lab`` in ``course``. Stop it with SIGTERM and wait until it ends.

    If ``terminal``, its standard input is a terminal, as in a learner's shell.
    """
    command = [sys.executable, "-m", "autograd_course.cli", "lab", *options]
    with _running(command, course, home, terminal, env) as server:
        yield server


@contextlib.contextmanager
def plain_lab(course: Path, home: Path) -> Iterator[RunningLab]:
    """Run JupyterLab in ``course`` without the course's launcher and settings."""
    server = ["--ip=127.0.0.1", "--port=0", "--no-browser", "--allow-root"]
    with _running([sys.executable, "-m", "jupyterlab", *server], course, home, False, {}) as lab:
        yield lab


@contextlib.contextmanager
def _running(
    command: list[str], course: Path, home: Path, terminal: bool, env: dict[str, str]
) -> Iterator[RunningLab]:
    environment = private_environment(home) | env
    log = home / "lab.log"
    begun = time.perf_counter()
    with log.open("wb") as stream, _standard_input(terminal) as stdin:
        process = subprocess.Popen(
            command, cwd=course, env=environment, stdin=stdin, stdout=stream, stderr=stream
        )
        try:
            url = _wait_for_url(process, log)
            yield RunningLab(process, log, url, time.perf_counter() - begun)
        finally:
            stop(process)


@contextlib.contextmanager
def _standard_input(terminal: bool) -> Iterator[int]:
    if not terminal:
        yield subprocess.DEVNULL
        return
    learner, shell = os.openpty()
    try:
        yield shell
    finally:
        os.close(learner)
        os.close(shell)


def stop(process: subprocess.Popen[bytes], by: signal.Signals = signal.SIGTERM) -> int:
    """End the server with a signal, and return its exit code. The server ends its kernels first."""
    process.send_signal(by)
    try:
        return process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def _wait_for_url(process: subprocess.Popen[bytes], log: Path, timeout: float = 60) -> str:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if found := re.search(r"^ +(http://\S+)$", log.read_text(), re.MULTILINE):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"The launcher printed no URL, but:\n{log.read_text()}")


# --- the browser --------------------------------------------------------------------------------


@contextlib.contextmanager
def browsing(executable: str, **look: Any) -> Iterator[tuple[BrowserContext, list[str]]]:
    """Open Chromium, restricted to loopback. Yield a context and the list of other requested URLs.

    ``look`` contains the options that differ from a plain context, such as the viewport or the
    scale.
    """
    strays: list[str] = []

    def refuse(route: Route) -> None:
        strays.append(route.request.url)
        route.abort()

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable,
            args=["--disable-gpu", "--disable-background-networking", "--disable-component-update"],
        )
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 1000}, **look})
        context.route(re.compile(r"^(?!http://127\.0\.0\.1[:/]|data:|blob:|about:)"), refuse)
        context.set_default_timeout(20 * SECONDS)
        yield context, strays
        browser.close()


OPEN = "async path => { await jupyterapp.commands.execute('docmanager:open', {path}); }"

READY = """async ([path, timeout]) => {
  const app = window.jupyterapp, until = performance.now() + timeout;
  await app.restored;
  for (;;) {
    const panel = app.shell.currentWidget;
    if (panel?.context?.path === path) {
      await panel.context.ready;
      await panel.context.sessionContext.ready;
      const kernel = panel.context.sessionContext.session?.kernel;
      if (kernel?.status === 'idle' && app.commands.hasCommand('notebook:run-all-cells')) return;
    }
    if (performance.now() > until) throw new Error(`${path} is not ready`);
    await new Promise(resolve => setTimeout(resolve, 25));
  }
}"""

CELLS = "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON().cells"

# JupyterLab reports that it has run all cells as soon as one cell raises, even if this cell is
# allowed to raise. But the kernel goes on with the other cells. It is done when it has been idle
# for a second.
RUN_ALL = """async timeout => {
  const end = Date.now() + timeout;
  await window.jupyterapp.commands.execute('notebook:run-all-cells');
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  for (let calm = 0; calm < 10; calm = kernel.status === 'idle' ? calm + 1 : 0) {
    if (Date.now() > end) throw new Error('Run All did not end');
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}"""


@dataclass
class Lab:
    """One page of JupyterLab. A cell is identified by its nbgrader ``grade_id`` or by its index."""

    page: Page
    server: RunningLab
    pictures: Path
    path: str = field(default="", init=False)

    def open(self, path: str, timeout: float = 60) -> None:
        """Open a notebook, in JupyterLab's current page if it has one. Wait until the kernel is
        idle.
        """
        if self.page.evaluate("() => 'jupyterapp' in window"):
            self.page.evaluate(OPEN, path)
        else:
            self.page.goto(self.server.address(path), timeout=timeout * SECONDS)
            self.page.wait_for_function("window.jupyterapp", timeout=timeout * SECONDS)
        self.page.evaluate(READY, [path, timeout * SECONDS])
        self.path = path

    def cells(self) -> list[dict]:
        """Return the notebook's cells as they would be saved."""
        return self.page.evaluate(CELLS)

    def active_cell(self) -> int:
        """Return the index of the selected cell, which handles keyboard shortcuts."""
        return self.page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex")

    def run_all(self, timeout: float = 180) -> None:
        """Run every cell. Continue after cells that raise and have the tag ``raises-exception``."""
        self.page.evaluate(RUN_ALL, timeout * SECONDS)

    def surprises(self) -> list[str]:
        """Return the cells that raised unexpectedly, and the cells that did not raise but should
        have.

        On a busy machine, an error message may arrive after its cell has ended.
        """
        for _ in range(20):
            if not (found := self._surprises()):
                break
            self.page.wait_for_timeout(250)
        return found

    def _surprises(self) -> list[str]:
        found = []
        for number, cell in enumerate(self.cells()):
            outputs = cell.get("outputs", ())
            raised = [o["ename"] for o in outputs if o["output_type"] == "error"]
            expected = "raises-exception" in cell["metadata"].get("tags", ())
            if bool(raised) != expected:
                found.append(f"cell {number}: {raised or 'no exception'}: {cell['source'][:60]!r}")
        return found

    def cell(self, which: str | int) -> Locator:
        """Scroll the cell into view and return its element."""
        index = which if isinstance(which, int) else self.index(which)
        cells = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-cell")
        cell = cells.nth(index)
        cell.scroll_into_view_if_needed()
        return cell

    def index(self, grade_id: str) -> int:
        ids = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in self.cells()]
        assert grade_id in ids, f"{self.path} has no cell {grade_id!r}, but {ids}"
        return ids.index(grade_id)

    def type_into(self, which: str | int, source: str) -> None:
        """Replace a cell's text by typing into its editor."""
        self.cell(which).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(source)

    def run(self, which: str | int, timeout: float = 60) -> None:
        """Run one cell with Shift+Enter, and wait until it ends."""
        cell = self.cell(which)
        prompt = cell.locator(".jp-InputPrompt").first
        before = prompt.inner_text()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        expect(prompt).not_to_have_text(before, timeout=timeout * SECONDS)
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=timeout * SECONDS)

    def output(self, which: str | int) -> Locator:
        """Return the element with the cell's outputs."""
        return self.cell(which).locator(".jp-Cell-outputArea")

    def output_text(self, which: str | int, timeout: float = 10) -> str:
        """Return the text of a cell's outputs. Wait until there is some text."""
        output = self.output(which)
        expect(output).to_have_text(re.compile(r"\S"), timeout=timeout * SECONDS)
        return output.text_content() or ""  # inner_text is empty if the page has skipped drawing

    def picture(self, name: str) -> None:
        """Save a screenshot for visual inspection."""
        self.pictures.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=self.pictures / f"{name}.png")
