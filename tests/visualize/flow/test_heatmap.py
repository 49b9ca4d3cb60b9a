"""The picture in a report shows two Jacobians and their difference. Its bytes never vary."""

from __future__ import annotations

import re
from base64 import b64decode
from hashlib import sha256
from io import BytesIO
from math import inf, isnan, nan

import pytest
import torch
from autograd_doctor.jacobians import SHADES, png
from barepage import running_browser
from cases.making import CPLX, X, draw, saving
from PIL import Image, ImageColor

from autograd_course import diagnose
from autograd_course.functions import Square

pytestmark = pytest.mark.slow


def soft(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


HalfSquare = saving(lambda x: x * x, lambda x, g: x * g)
SoftDiagonal = saving(soft, lambda x, g: soft(x) * (1 - soft(x)) * g)


def image(data: bytes) -> Image.Image:
    picture = Image.open(BytesIO(data))
    picture.load()
    return picture


def images(html: str) -> list[Image.Image]:
    return [image(b64decode(data)) for data in re.findall(r"base64,([^\"]+)", html)]


# The picture itself


def test_the_bytes_are_the_same_everywhere() -> None:
    data = png(((1.0, 0.5), (nan, -1.0)), 1.0)

    assert sha256(data).hexdigest() == (
        "dba9f463084782250a4ab01de12c0c2db58fddf4146f88f47cbc5df5c8de6931"
    )


@pytest.mark.parametrize("noise", [1e-13, -1e-13])
def test_rounding_does_not_show(noise: float) -> None:
    halves = tuple(k / 16 for k in range(-16, 17))

    assert png((halves,), 1.0) == png((tuple(v + noise for v in halves),), 1.0 + noise)


def on(ground: str, data: bytes) -> Image.Image:
    """Draw a map onto a page."""
    drawn = image(data).convert("RGBA")
    page = Image.new("RGBA", drawn.size, ground)
    return Image.alpha_composite(page, drawn).convert("RGB")


@pytest.mark.parametrize("ground", ["#ffffff", "#111111"])
def test_every_entry_has_its_place_and_color(ground: str) -> None:
    picture = on(ground, png(((0.0, 1.0, -1.0), (nan, inf, 1e-3)), 1.0))
    colors = [[picture.getpixel((16 * j + 8, 16 * i + 8)) for j in range(3)] for i in range(2)]

    zero, most, least = colors[0]
    unknown, infinite, little = colors[1]
    assert picture.size == (48, 32)
    assert zero == ImageColor.getrgb(ground), "zero lets the page through"
    assert most == infinite
    assert most[0] > most[2], "positive is orange"
    assert least[2] > least[0], "negative is blue"
    assert little not in (zero, most), "what is not zero is seen"
    assert max(unknown) - min(unknown) < 20, "gray"


def test_there_are_shades_of_each_sign() -> None:
    steps = tuple(k / SHADES for k in range(-SHADES, SHADES + 1))

    assert len(image(png((steps,), 1.0)).convert("RGBA").getcolors()) == 2 * SHADES + 1


# In the report


def test_a_wrong_gradient_is_shown_beside_the_differences() -> None:
    diagnosis = diagnose(SoftDiagonal, (X,))

    html = diagnosis._repr_html_()

    assert [picture.size for picture in images(html)] == 3 * [(48, 48)]
    assert "The 12 × 12 Jacobian of the output with respect to args[0]" in html
    assert "finite differences of forward: 48 of 144 entries" in html
    assert "backward: only the diagonal" in html
    assert "backward − finite differences: 36 of 144 entries" in html
    assert "Jacobian of" not in str(diagnosis), "the text needs no picture"
    assert "jacobians" not in diagnosis.to_dict()


def test_the_matrices_are_there_to_be_looked_at() -> None:
    pair = diagnose(HalfSquare, torch.tensor([1.0, -2.0])).jacobians

    assert pair is not None
    assert pair.backward == ((1, 0), (0, -2))
    assert [list(row) for row in pair.differences] == [pytest.approx(r) for r in ([2, 0], [0, -4])]
    assert [list(row) for row in pair.off] == [pytest.approx(r) for r in ([-1, 0], [0, 2])]


def test_of_several_outputs_and_inputs_the_wrong_ones_are_shown() -> None:
    function = saving(lambda x, y: (x * y, x + y), lambda x, y, g, h: (g * y + h, g * x - h))

    pair = diagnose(function, (X, draw(3, 4, seed=1))).jacobians

    assert pair is not None
    assert (pair.output, pair.input) == ("output 1", "args[1]")


def test_of_a_large_jacobian_the_first_entries_are_shown() -> None:
    diagnosis = diagnose(SoftDiagonal, draw(3, 32))

    assert diagnosis.jacobians is not None
    assert diagnosis.jacobians.whole == (96, 96)
    assert [len(diagnosis.jacobians.off), len(diagnosis.jacobians.off[0])] == [48, 48]
    assert "The 96 × 96 Jacobian of the output with respect to args[0] (the first 48 × 48 " in (
        diagnosis._repr_html_()
    )


def test_a_point_without_a_derivative_is_gray() -> None:
    one_sided = saving(lambda x: x.abs().sum(-1), lambda x, g: g[:, None] * (x > 0))

    diagnosis = diagnose(one_sided, torch.tensor([[0.0, 1.0, -2.0], [3.0, -1.0, 0.0]]))

    assert diagnosis.jacobians is not None
    assert isnan(diagnosis.jacobians.off[0][0])
    assert "> not differentiable<" in diagnosis._repr_html_()


def test_a_complex_element_counts_as_two() -> None:
    pair = diagnose(saving(lambda z: z * z, lambda z, g: 2 * z * g), (CPLX,)).jacobians

    assert pair is not None
    assert pair.whole == (10, 10)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (Square, {}),
        (saving(torch.round, lambda x, g: 2 * g), {"surrogate": lambda x: 1.0 * x}),
        (saving(lambda x: x * x, lambda x, g: 2 * x * g.clamp(-1, 1)), {}),
        (saving(lambda x: x.sum(-1), lambda x, g: g[:, None].expand(x.shape)), {}),
    ],
    ids=["right", "a surrogate", "wrong for a long grad_output alone", "a warning"],
)
def test_where_the_jacobians_show_nothing_there_is_no_picture(function, options) -> None:
    assert "<img" not in diagnose(function, (3 * X,), **options)._repr_html_()


@pytest.mark.browser
def test_a_browser_shows_the_pictures() -> None:
    with running_browser() as browser:
        page = browser.new_page()
        page.set_content(diagnose(SoftDiagonal, (X,))._repr_html_())
        sizes = page.evaluate("[...document.images].map(i => [i.naturalWidth, i.width, i.height])")

    assert sizes == 3 * [[48, 336, 336]]
