"""A tall drawing is cut into columns that a page shows; nothing in it is cut."""

import io

import pytest
import torch
from PIL import Image
from torch import nn

from autograd_course.visualize import gradient_flow
from autograd_course.visualize.flow.columns import Sheet
from autograd_course.visualize.flow.picture import Picture


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


def test_the_png_has_the_columns_beside_each_other() -> None:
    drawn = picture(14)

    width, height = Image.open(io.BytesIO(drawn.png)).size

    assert drawn.layout.height > 6 * drawn.layout.width
    assert width > height / 2
