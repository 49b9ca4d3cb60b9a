"""The static picture is small and deterministic, and complete even without colors."""

import hashlib
import io
import re
import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
import pytest
import torch
from flows import loss, transformer_block, two_and_three
from PIL import Image

from autograd_course.functions import Square
from autograd_course.visualize import describe, tangent, trace_gradient_flow
from autograd_course.visualize.flow.svg import STYLE
from autograd_course.visualize.flow.view import Picture
from autograd_course.visualize.kit.errors import TraceError

pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def picture() -> Picture:
    return Picture(trace_gradient_flow(loss, *two_and_three()))


def test_the_png_is_small_and_opaque(picture: Picture) -> None:
    image = Image.open(io.BytesIO(picture.png))

    assert image.format == "PNG"
    assert image.mode == "P"
    assert "transparency" not in image.info
    assert len(picture.png) < 20_000
    assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)


def test_the_png_is_the_same_for_the_same_trace(picture: Picture) -> None:
    again = Picture(trace_gradient_flow(loss, *two_and_three()))

    assert hashlib.sha256(again.png).digest() == hashlib.sha256(picture.png).digest()


def test_the_look_of_matplotlib_does_not_matter(picture: Picture) -> None:
    with mpl.rc_context({"figure.facecolor": "black", "font.size": 30, "text.usetex": False}):
        changed = Picture(picture.trace).png

    assert changed == picture.png


def test_the_png_of_a_transformer_block_stays_below_150_kilobytes() -> None:
    block, x = transformer_block()

    assert len(Picture(trace_gradient_flow(block, x)).png) < 150_000


def test_the_svg_shows_values_gradients_and_factors(picture: Picture) -> None:
    root = ElementTree.fromstring(picture.svg)
    shown = [text.text for text in root.iter(f"{SVG}text")]

    assert {"Square", "4", "∂ 4", "×4", "ƒ custom"} <= set(shown)
    assert root.find(f"{SVG}desc").text == describe(picture.trace)


def test_a_heat_map_of_zeros_is_seen_in_the_svg_by_its_rim() -> None:
    trace = trace_gradient_flow(lambda x: (x * x).sum(), torch.zeros(2, 4), names=["x"])

    root = ElementTree.fromstring(Picture(trace).svg)

    maps = [group for group in root.iter(f"{SVG}g") if group.get("data-map")]
    rims = [path.get("d") for m in maps for path in m if path.get("class") == "agf-rim"]
    assert rims == ["M0 0h28v14h-28z"] * len(maps)
    assert maps


def test_names_cannot_break_the_svg() -> None:
    trace = trace_gradient_flow(torch.sin, torch.tensor(1.0), names=['<b "x" & {0}>'])

    root = ElementTree.fromstring(Picture(trace).svg)

    assert any(text.text.startswith("<b") for text in root.iter(f"{SVG}text"))


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "card", "custom-card"])
@pytest.mark.parametrize("ink", ["value", "gradient"])
def test_text_has_enough_contrast(ink: str, ground: str, theme: int) -> None:
    block = STYLE.read_text(encoding="utf-8").split("}")[theme]
    colors = dict(re.findall(r"--agf-([\w-]+): .*?(#\w{6})", block))
    darker, lighter = sorted((luminance(colors[ink]), luminance(colors[ground])))

    assert (lighter + 0.05) / (darker + 0.05) >= 4.5


# The tangent


def halved(x: torch.Tensor) -> torch.Tensor:
    return Square.apply(x) - (Square.apply(x) / 2 - (Square.apply(x) / 2).detach())


@pytest.mark.parametrize(
    ("fn", "x", "said"),
    [
        (
            Square,
            2.0,
            "Square at x = 2: slope 4 from backward, 4 from finite differences. ✓ They agree.",
        ),
        (
            halved,
            2.0,
            "halved at x = 2: slope 2 from backward, 4 from finite differences. ✗ They differ.",
        ),
        (
            torch.relu,
            torch.tensor(0.0),
            "relu at x = 0: slope 0 from backward, 0 on the left and 1 on the right from finite "
            "differences. The curve has a kink here, so it has no derivative.",
        ),
    ],
)
def test_a_tangent_compares_two_slopes(fn: object, x: float, said: str) -> None:
    found = tangent(fn, x)

    assert repr(found) == said
    assert Image.open(io.BytesIO(found.png)).format == "PNG"


def test_a_tangent_passes_further_arguments_on() -> None:
    assert tangent(torch.pow, 2.0, 3).backward == pytest.approx(12)


def test_a_tangent_needs_a_function_of_each_element() -> None:
    with pytest.raises(TraceError, match="an elementwise function, but sum changes the shape"):
        tangent(torch.sum, 1.0)
