"""A tall drawing is split into columns that fit a page. No element of it is cut."""

import io
from xml.etree import ElementTree

import pytest
import torch
from PIL import Image
from torch import nn

from autograd_course.visualize import gradient_flow
from autograd_course.visualize.flow.layout import Sheet
from autograd_course.visualize.flow.view import Picture

SVG = "{http://www.w3.org/2000/svg}"


def picture(layers: int) -> Picture:
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()) for _ in range(layers)))
    return gradient_flow(net, torch.ones(2, 4)).picture


@pytest.mark.parametrize("layers", [14, 50])
def test_a_tall_drawing_stands_in_columns_on_one_page(layers: int) -> None:
    sheet = Sheet(picture(layers).layout)

    assert sheet.drawn.height > 3000
    assert len(sheet.columns) > 1
    assert sheet.width <= 1200
    assert sheet.height <= 1900


def test_every_card_is_whole_in_one_column() -> None:
    sheet = Sheet(picture(50).layout)

    for box in sheet.drawn.boxes:
        homes = [c for c in sheet.columns if c.top <= box.y < c.bottom]
        (home,) = homes
        assert home.left <= box.x
        assert box.x + box.width <= home.right
        assert box.y + box.height <= home.bottom


def test_one_column_ends_where_the_next_begins() -> None:
    sheet = Sheet(picture(50).layout)
    tops, bottoms = zip(*((c.top, c.bottom) for c in sheet.columns), strict=True)

    assert (tops[0], bottoms[-1]) == (0.0, sheet.drawn.height)
    assert tops[1:] == bottoms[:-1]


def test_a_drawing_that_is_not_tall_stays_as_it_is() -> None:
    drawn = picture(1).layout

    (column,) = Sheet(drawn).columns

    assert (column.width, column.height) == (drawn.width, drawn.height)


def test_the_svg_has_the_columns_beside_each_other_and_every_card_once() -> None:
    drawn = picture(50)
    sheet, root = Sheet(drawn.layout), ElementTree.fromstring(drawn.svg)
    windows = root.findall(f"{SVG}svg")
    cards = [g.get("data-node") for g in root.iter(f"{SVG}g") if g.get("data-node")]

    assert root.get("viewBox") == f"0 0 {sheet.width:g} {sheet.height:g}"
    assert [window.get("x") for window in windows] == [f"{x:g}" for x, _ in sheet.placed]
    assert cards == [str(node) for node in drawn.layout.reading]
    turns = [text for text in root.iter(f"{SVG}text") if text.get("class") == "agf-turn"]
    assert len(turns) == len(windows) - 1


def test_an_edge_that_goes_on_is_in_both_columns() -> None:
    drawn = picture(14)
    root = ElementTree.fromstring(drawn.svg)
    edges = [g.get("data-edge") for g in root.iter(f"{SVG}g") if "agf-link" in g.get("class", "")]

    assert set(edges) == {str(edge) for edge in range(len(drawn.layout.curves))}
    assert len(edges) > len(drawn.layout.curves)


def test_the_png_has_the_columns_beside_each_other() -> None:
    drawn = picture(14)

    width, height = Image.open(io.BytesIO(drawn.png)).size

    assert drawn.layout.height > 6 * drawn.layout.width
    assert width > height / 2
