"""Take screenshots of JupyterLab in which the grader explains what is wrong with an answer."""

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import FloatRect

from tests.support.labdrive import Lab, browsing, copy_course, running_lab

NOTEBOOK, EXERCISE = "exercises/03_gradient_patterns.ipynb", "swish"
# A common first attempt: the second term of the product rule is missing.
ANSWER = """\
class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(s)
        return x * s

    @staticmethod
    def backward(ctx, grad_output):
        (s,) = ctx.saved_tensors
        return grad_output * s"""
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
SAID = "Description"  # the key of the PNG's text, which contains the grader's report
VIEWPORT = {"width": 780, "height": 1000}  # in a narrower window, the prompts are above the cells
COLORS = 128
CHANGE = "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})"
ALONE = "() => jupyterapp.commands.execute('application:toggle-left-area')"


def screenshots(executable: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each color scheme, and a screenshot in these colors as PNG."""
    with tempfile.TemporaryDirectory() as folder:
        course = copy_course(Path(folder, "course"))
        with (
            running_lab(course, Path(folder, "home"), "--port", "0") as server,
            browsing(executable, viewport=VIEWPORT, device_scale_factor=2) as (context, _),
        ):
            lab = Lab(context.new_page(), server, Path(folder))
            said = graded(lab)
            for scheme, theme in THEMES.items():
                lab.page.evaluate(CHANGE, theme)
                lab.page.wait_for_timeout(1000)  # until JupyterLab shows the new colors
                yield scheme, small(lab.page.screenshot(clip=around(lab)), said)


def graded(lab: Lab) -> str:
    """Answer the exercise, run the grader, and return its report."""
    lab.open(NOTEBOOK)
    lab.page.evaluate(ALONE)
    lab.run_all()
    lab.type_into(EXERCISE, ANSWER)
    lab.run(EXERCISE)
    lab.run(f"{EXERCISE}-grade")
    (output,) = lab.cells()[lab.index(f"{EXERCISE}-grade")]["outputs"]
    said = output["data"]["text/plain"]
    return said if isinstance(said, str) else "".join(said)


def around(lab: Lab) -> FloatRect:
    """Return the part of the page that shows the answer and the grader's report."""
    ends = lab.cell(f"{EXERCISE}-grade"), lab.cell(EXERCISE)
    first, last = (cell.bounding_box() for cell in reversed(ends))
    assert first is not None
    assert last is not None
    height = last["y"] + last["height"] - first["y"]
    return {"x": first["x"], "y": first["y"], "width": first["width"], "height": height}


def small(png: bytes, said: str) -> bytes:
    """Reduce a screenshot to a few colors, and add the grader's report as text to the PNG."""
    beside, packed = PngInfo(), io.BytesIO()
    beside.add_itxt(SAID, said)
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.quantize(COLORS, dither=Image.Dither.NONE).save(
        packed, "PNG", optimize=True, pnginfo=beside
    )
    return packed.getvalue()
