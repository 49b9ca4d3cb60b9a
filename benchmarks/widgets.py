"""The visualizers' response times, compared with ``interact`` and matplotlib in the same run.

    python -m benchmarks.widgets [--quick]

JupyterLab runs as the course's launcher starts it, in headless Chromium. Both widgets show the same
function in one notebook. The time of a move runs from the browser's time stamp of the key event to
the first frame after the picture has changed. Then the next move starts. "Through the kernel" means
that the page does not have the new values yet, because a second input moves before the kernel has
received the first move. "To another graph" means that the move changes the graph, so our widget
draws everything again. "Ordinary" is ``interact`` with a matplotlib figure in an Output widget.
"One number there and back" is JupyterLab's own round-trip time on this machine. A widget that asks
the kernel cannot be faster. "A frame of the animation" is the time of one page frame while a pulse
moves. The layout time is the best of several separate runs. A quick run makes 4 moves of each kind
instead of 30.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import torch
from playwright.sync_api import Locator, Page
from rich.console import Console
from rich.table import Table

from benchmarks._common import command_line

from labdrive import Lab, browsing, running_lab  # isort: skip

from autograd_course.lab.folder import FIRST_NOTEBOOK
from autograd_course.visualize import trace_gradient_flow
from autograd_course.visualize.flow.describe import script
from autograd_course.visualize.flow.layout import layout
from tools.printing import find_chromium

MOVES, QUICK = 30, 4
PAUSE = 150  # ms from the end of a move to the next move
REST = 6 * PAUSE  # the pause if a move asks the kernel, because our widget then computes sweeps
OURS = """
import torch
from autograd_course import functions, gradient_flow

def loss(x, y):
    y = y if x > 0 else y * 1
    return (functions.Square.apply(x) + functions.ClippedReLU.apply(y, 6.0)).tanh() * x.exp() + y

gradient_flow(loss, torch.tensor(0.2), torch.tensor(0.3), names=("x", "y"))
"""
# JupyterLab's own round trip: send a number to the kernel, and receive text on the page.
BARE = """
import anywidget
import traitlets

class Bare(anywidget.AnyWidget):
    _esm = '''
    export default { render({ model, el }) {
      const slider = document.createElement("input"), text = document.createElement("output");
      slider.type = "range";
      slider.max = 60;
      slider.addEventListener("keydown", event => event.stopPropagation()); // not JupyterLab's keys
      slider.addEventListener("input", () => {
        model.set("sent", Number(slider.value));
        model.save_changes();
      });
      model.on("change:back", () => { text.textContent = model.get("back"); });
      el.className = "bare";
      el.append(slider, text);
    } };
    '''
    sent = traitlets.Int(0).tag(sync=True, echo_update=False)
    back = traitlets.Int(0).tag(sync=True)

    @traitlets.observe("sent")
    def _answer(self, change):
        self.back = change["new"]

Bare()
"""
ORDINARY = """
import matplotlib.pyplot as plt
from ipywidgets import FloatSlider, interact

def show(x):
    at = [torch.tensor(v, requires_grad=True) for v in (x, 0.3)]
    value = loss(*at)
    value.backward()
    fig, ax = plt.subplots(figsize=(7, 3))
    for place, (name, number) in enumerate(
        [("x", at[0]), ("y", at[1]), ("∂x", at[0].grad), ("∂y", at[1].grad), ("loss", value)]
    ):
        ax.text(place, 0.5, f"{name}\\n{number.item():.4g}", ha="center")
    ax.set(xlim=(-1, 5), ylim=(0, 1))
    plt.show()

interact(show, x=FloatSlider(0.2, min=-3.0, max=3.0, step=0.1, continuous_update=True));
"""
# The ordinary widget shows a new <img>. Our widget changes the SVG's text and attributes.
WATCH = """(root, [selector, key]) => {
  const moves = (window.moves ||= {})[key] = [];
  const seen = () => [...root.querySelectorAll(selector)].map(
    shown => shown.src || shown.textContent + shown.getAttribute('aria-label')).join('|');
  let begun = null, before = seen();
  root.addEventListener('keydown', event => { begun = event.timeStamp; }, true);
  new MutationObserver(() => {
    const now = seen();
    if (begun === null || now === before || !now) return;
    before = now;
    const from = begun;
    begun = null;
    requestAnimationFrame(() => {
      const afterPaint = new MessageChannel();
      afterPaint.port1.onmessage = () => moves.push(performance.now() - from);
      afterPaint.port2.postMessage(null);
    });
  }).observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
}"""
FRAMES = """root => new Promise(done => {
  const times = [];
  const frame = now => {
    times.push(now);
    if (times.length < 60) requestAnimationFrame(frame);
    else done(times.slice(1).map((time, i) => time - times[i]));
  };
  root.querySelector('[aria-label^="Step forward"]').click();
  requestAnimationFrame(frame);
})"""


def moves(
    page: Page, control: Locator, key: str, count: int, pause: int = PAUSE
) -> Iterator[float]:
    """Press arrow keys on a control: twice right, twice left and so on. Yield the times."""
    control.focus()
    for move in range(count):
        with seen(page, key, pause) as times:
            page.keyboard.press("ArrowRight" if move % 4 < 2 else "ArrowLeft")
        yield from times


@contextmanager
def seen(page: Page, key: str, pause: int) -> Iterator[list[float]]:
    """Wait until the picture shows this move. Otherwise, the next move would include it."""
    times: list[float] = []
    page.evaluate("key => { window.moves[key].length = 0; }", key)
    yield times
    page.wait_for_function("key => window.moves[key].length > 0", arg=key)
    page.wait_for_timeout(pause)
    times.append(page.evaluate("key => window.moves[key][0]", key))


def course_with(cells: list[str], folder: Path) -> Path:
    """Write a course whose first notebook consists of these cells."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    path = folder / FIRST_NOTEBOOK
    path.parent.mkdir()
    nbformat.write(notebook, path)
    return folder


def measured(lab: Lab, count: int) -> Iterator[tuple[str, list[float]]]:
    """Yield the name of each kind of move, with its times in milliseconds."""
    lab.open(FIRST_NOTEBOOK.as_posix())
    lab.run_all()
    assert not lab.surprises(), lab.surprises()
    page = lab.page
    widget, ordinary = page.locator(".agf").first, page.locator(".widget-interact").first
    bare = page.locator(".bare").first
    ordinary.locator("img").wait_for()
    widget.evaluate(WATCH, [".agf-card", "ours"])
    bare.evaluate(WATCH, ["output", "bare"])
    ordinary.evaluate(WATCH, ["img", "ordinary"])
    step = widget.get_by_role("slider", name="step")
    step.press("Home")  # the widget opens at the last step
    slider = widget.get_by_role("slider", name="input x")
    yield "ours: step", list(moves(page, step, "ours", count))
    step.press("End")
    yield "ours: input, on the sweep", list(moves(page, slider, "ours", count))
    second = widget.get_by_role("slider", name="input y")
    yield "ours: input, through the kernel", list(through_the_kernel(page, slider, second, count))
    yield "ours: input, to another graph", list(to_another_graph(page, slider, count))
    for name, shown, key in (
        ("JupyterLab: one number there and back", bare, "bare"),
        ("ordinary: interact + matplotlib", ordinary, "ordinary"),
    ):
        yield name, list(moves(page, shown.get_by_role("slider"), key, count, REST))
    step.press("Home")
    yield "a frame of the animation", widget.evaluate(FRAMES)


def through_the_kernel(page: Page, first: Locator, second: Locator, count: int) -> Iterator[float]:
    """Move a second input before the kernel has received the first move. Yield the times."""
    for move in range(count):
        first.evaluate(JUMP, 1.0 + move % 2)
        page.wait_for_timeout(PAUSE)
        yield jumped(page, second, 1.5 + move % 2)


def to_another_graph(page: Page, slider: Locator, count: int) -> Iterator[float]:
    """Yield the times of moves across 0, each of which leads to a different graph."""
    for move in range(count):
        yield jumped(page, slider, -0.5 if move % 2 == 0 else 0.5)


def jumped(page: Page, slider: Locator, value: float) -> float:
    """Return the time that one jump takes."""
    with seen(page, "ours", REST) as times:
        slider.evaluate(JUMP, value)
    return times[0]


# Make the native slider jump. Its key event starts the clock of WATCH.
JUMP = """(slider, value) => {
  const middle = (Number(slider.max)) / 2;
  slider.value = Math.round(middle + value * middle / 3);
  slider.dispatchEvent(new KeyboardEvent('keydown', { key: 'Tab', bubbles: true }));
  slider.dispatchEvent(new Event('input', { bubbles: true }));
}"""


def ladder(rungs: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function whose graph has three nodes per rung, plus the input and the loss."""

    def climb(x: torch.Tensor) -> torch.Tensor:
        for _ in range(rungs):
            x = x.sin() + x.cos()
        return x

    return climb


def layouts() -> Iterator[tuple[int, float]]:
    """Yield a graph's number of nodes, and the milliseconds that its layout takes."""
    for rungs in (3, 19, 66):
        trace = trace_gradient_flow(ladder(rungs), torch.tensor(0.5))
        words = script(trace)
        yield len(trace.nodes), min(timed(lambda t=trace, w=words: layout(t, w)) for _ in range(5))


def timed(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e3


def main() -> None:
    """Run the measurements, and print two tables."""
    quick, chromium = command_line(__doc__).parse_args().quick, find_chromium()
    if chromium is None:
        return print("This benchmark is skipped: install Chromium, or set CHROMIUM to its path.")
    if find_spec("jupyterlab") is None:
        return print("This benchmark is skipped: pip install 'autograd-course[lab]'")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        course = course_with([OURS, BARE, ORDINARY], folder)
        with (
            running_lab(course, folder / "home", "--port", "0") as server,
            browsing(chromium) as (context, _),
        ):
            times = dict(
                measured(Lab(context.new_page(), server, folder), QUICK if quick else MOVES)
            )
    report(times)


def report(times: dict[str, list[float]]) -> None:
    table = Table("from key to painted frame", "moves", "median, ms", "p95, ms")
    for name, found in times.items():
        p95 = statistics.quantiles(found, n=20)[-1]
        row = (str(len(found)), f"{statistics.median(found):.1f}", f"{p95:.1f}")
        table.add_row(name, *row)
    kernel = statistics.median(times["ours: input, through the kernel"])
    ahead = statistics.median(times["ordinary: interact + matplotlib"]) / kernel
    table.add_section()
    table.add_row("ordinary / ours through the kernel", "", f"{ahead:.1f}×", "")
    console = Console()
    console.print(table)
    placed = Table("nodes", "layout, ms")
    for nodes, milliseconds in layouts():
        placed.add_row(str(nodes), f"{milliseconds:.1f}")
    console.print(placed)


if __name__ == "__main__":
    main()
