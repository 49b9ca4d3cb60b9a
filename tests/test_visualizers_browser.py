"""Every visualizer alive in a real JupyterLab: by keyboard, by mouse, in the dark.

One notebook, one widget a cell; its screenshots stay in ``artifacts/`` for looking at.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from barepage import chromium_or_skip, contrast
from labdrive import REPOSITORY, Lab, browsing, running_lab
from playwright.sync_api import Locator, expect

from autograd_course.lab.folder import FIRST_NOTEBOOK

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

SETUP = """
import torch
from autograd_course.functions import ClippedReLU, Square
from autograd_course.visualize import *

def loss(x, y):
    return Square.apply(x) + ClippedReLU.apply(y, 6.0)

class HalfSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return y * (1 - y) * grad_output

torch.manual_seed(0)
"""


@dataclass(frozen=True)
class Shown:
    """A widget, the control to move, the key that moves it, and what must be another after it."""

    call: str
    root: str
    control: str
    key: str
    changes: str


SHOWN = {
    "gradient-flow": Shown(
        "gradient_flow(loss, torch.tensor(2.0), torch.tensor(3.0))",
        ".agf", 'input[aria-label="step"]', "End", ".agf-card",
    ),
    "compared-flows": Shown(
        'compare_flows({"once": torch.sin, "twice": lambda x: x.sin().sin()}, torch.tensor(1.0))',
        ".agf", 'input[aria-label="step"]', "End", ".agf-card",
    ),
    "function-lab": Shown(
        "function_lab(Square, x=1.5)",
        ".ac-lab", 'input[aria-label="step"]', "Home", "[role=status]",
    ),
    "ste-lab": Shown(
        'ste_lab("sign", "clipped")', ".ac-ste", "input[type=range]", "End", "[role=status]"
    ),
    "jacobian-view": Shown(
        "jacobian_view(HalfSoftmax, torch.randn(3, 4))",
        ".ac-jac", "[tabindex='0']", "ArrowRight", "[role=status]",
    ),
    "memory-timeline": Shown(
        "memory_timeline(lambda x: (x @ x.T).softmax(-1) @ x, torch.randn(64, 32))",
        ".ac-memory", 'input[aria-label="step"]', "End", "[role=status]",
    ),
    "attention-tiles": Shown(
        "attention_tiles(torch.randn(8, 4), torch.randn(8, 4), torch.randn(8, 4), block=(2, 2))",
        ".ac-tiles", 'input[aria-label="step"]', "End", "[role=status]",
    ),
}  # fmt: skip


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
        lab = Lab(context.new_page(), server, REPOSITORY / "artifacts")
        lab.open(FIRST_NOTEBOOK.as_posix())
        lab.run_all()
        assert lab.surprises() == []
        yield lab
        assert strays == [], "a widget must need nothing but this machine"


def write_notebook(path: Path) -> None:
    sources = [SETUP, *(shown.call for shown in SHOWN.values()), 'knowledge_check("01")']
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    path.parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)


def widget(lab: Lab, cell: int, root: str) -> Locator:
    found = lab.cell(cell).locator(root)
    expect(found).to_be_visible(timeout=20_000)
    return found


def texts(root: Locator, selector: str) -> list[str]:
    told = "one.textContent + one.getAttribute('aria-label') + one.className.baseVal"
    return root.locator(selector).evaluate_all(f"all => all.map(one => {told})")


@pytest.mark.parametrize("name", SHOWN)
def test_a_key_moves_it_and_stays_inside(lab: Lab, name: str) -> None:
    shown = SHOWN[name]
    root = widget(lab, 1 + list(SHOWN).index(name), shown.root)
    control = root.locator(shown.control).first
    before, cells = texts(root, shown.changes), len(lab.cells())
    control.focus()
    lab.page.keyboard.press(shown.key)

    expect_other(lab, root, shown.changes, before)
    lab.page.keyboard.press("d")
    lab.page.keyboard.press("d")
    assert len(lab.cells()) == cells
    root.scroll_into_view_if_needed()
    lab.picture(f"widget-{name}")


def expect_other(lab: Lab, root: Locator, selector: str, before: list[str]) -> None:
    for _ in range(100):
        if texts(root, selector) != before:
            return
        lab.page.wait_for_timeout(50)
    raise AssertionError(f"{selector} tells still the same: {before}")


def test_the_function_lab_follows_the_mouse(lab: Lab) -> None:
    root = widget(lab, 1 + list(SHOWN).index("function-lab"), ".ac-lab")
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
    root = widget(lab, 1 + len(SHOWN), ".ac-quiz")
    root.get_by_role("radio").nth(1).check()
    root.get_by_role("button", name="Check").first.click()

    expect(root.get_by_text(re.compile("[✓✗]")).first).to_be_visible()
    lab.picture("widget-knowledge-check")


def test_in_the_dark_the_ink_is_light(lab: Lab) -> None:
    change = "'apputils:change-theme', {theme: 'JupyterLab Dark'}"
    lab.page.evaluate(f"() => jupyterapp.commands.execute({change})")
    for cell, (name, shown) in enumerate(SHOWN.items(), start=1):
        root = widget(lab, cell, shown.root)
        ink = root.evaluate("root => getComputedStyle(root).color")
        ground = lab.page.locator(".jp-Notebook").first.evaluate(
            "notebook => getComputedStyle(notebook).backgroundColor"
        )
        assert contrast(ink, ground) >= 7, (name, ink, ground)
        lab.picture(f"widget-{name}-dark")
