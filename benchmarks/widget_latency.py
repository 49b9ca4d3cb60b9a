"""How long a key press on the gradient-flow widget takes until the page has been painted.

    python -m benchmarks.widget_latency

JupyterLab runs as the course's launcher starts it, in headless Chromium. A move begins with the
browser's time stamp of the key event; it ends with the first frame after the widget's DOM changed.
Prints JSON: median and 95th percentile in milliseconds, over the moves of each control.
"""

import json
import statistics
import tempfile
from pathlib import Path

import nbformat
from playwright.sync_api import Locator, Page

from autograd_course.lab.folder import FIRST_NOTEBOOK
from tests.labdrive import Lab, browsing, find_chromium, running_lab

COMMAND = "python -m benchmarks.widget_latency"
MOVES = 30
PAUSE = 120  # ms between two keys: slower than any move, so that moves do not queue
CELL = """
import torch
from autograd_course import functions, gradient_flow

def loss(x, y):
    return (functions.Square.apply(x) + functions.ClippedReLU.apply(y, 6.0)).tanh() * x.exp() + y

gradient_flow(loss, torch.tensor(0.2), torch.tensor(0.3), names=("x", "y"))
"""
WATCH = """root => {
  const moves = (window.moves = []);
  let begun = null;
  root.addEventListener('keydown', event => { begun = event.timeStamp; }, true);
  new MutationObserver(() => {
    if (begun === null) return;
    const from = begun;
    begun = null;
    requestAnimationFrame(() => {
      const afterPaint = new MessageChannel();
      afterPaint.port1.onmessage = () => moves.push(performance.now() - from);
      afterPaint.port2.postMessage(null);
    });
  }).observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
}"""


def milliseconds(page: Page, control: Locator) -> list[float]:
    """Press the arrow keys on ``control``, two right, two left …; return each move's time."""
    control.focus()
    page.evaluate("() => { window.moves.length = 0; }")
    for move in range(MOVES):
        page.keyboard.press("ArrowRight" if move % 4 < 2 else "ArrowLeft")
        page.wait_for_timeout(PAUSE)
    return page.evaluate("() => window.moves")


def summary(times: list[float]) -> dict[str, float]:
    """Return the median and the 95th percentile, and how many moves changed the picture."""
    return {
        "median_ms": round(statistics.median(times), 1),
        "p95_ms": round(statistics.quantiles(times, n=20)[-1], 1),
        "moves_seen": len(times),
    }


def course_with(cell: str, folder: Path) -> Path:
    """Write a course whose first notebook has one cell."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell)],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    path = folder / FIRST_NOTEBOOK
    path.parent.mkdir()
    nbformat.write(notebook, path)
    return folder


def main() -> None:
    """Measure each control of the widget and print the times."""
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit(
            "No Chromium found: install it, or name it in the environment as CHROMIUM."
        )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        course = course_with(CELL, folder)
        with (
            running_lab(course, folder / "home", "--port", "0") as server,
            browsing(chromium) as (context, _),
        ):
            lab = Lab(context.new_page(), server, folder)
            print(json.dumps({"command": COMMAND, **measured(lab)}, indent=2))


def measured(lab: Lab) -> dict[str, dict[str, float]]:
    """Return the times of each control of the widget, by its name."""
    lab.open(FIRST_NOTEBOOK.as_posix())
    lab.run_all()
    assert not lab.surprises(), lab.surprises()
    widget = lab.page.locator(".agf").first
    widget.evaluate(WATCH)
    controls = {
        "step by key": widget.locator(".agf-card[tabindex='0']"),
        "scrub": widget.get_by_role("slider", name="step"),
        "move an input (sweep)": widget.get_by_role("slider", name="input x"),
    }
    return {name: summary(milliseconds(lab.page, control)) for name, control in controls.items()}


if __name__ == "__main__":
    main()
