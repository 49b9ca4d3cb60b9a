"""A small PNG of a picture."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from PIL import Image

_COLORS = 48
_EVERY = 5  # every fifth row is enough to choose the colors, because each color covers several rows


def reduced_png(picture: Image.Image, dpi: float, keep: Sequence[tuple[int, ...]] = ()) -> bytes:
    """Return an RGB picture as a PNG with few colors. Equal pictures always give equal bytes.

    ``keep`` contains RGB colors that have a meaning. They stay exact even if they cover only a
    small part of the picture.
    """
    rows = picture.resize((picture.width, picture.height // _EVERY), Image.Resampling.NEAREST)
    palette = rows.quantize(_COLORS, dither=Image.Dither.NONE)
    if keep:
        found = list(palette.getpalette() or ())[: 3 * _COLORS]
        palette.putpalette([*found, *(part for color in keep for part in color)])
    output = BytesIO()
    reduced = _exact_ground(picture.quantize(palette=palette, dither=Image.Dither.NONE), picture)
    reduced.save(output, "PNG", dpi=(dpi, dpi))
    return output.getvalue()


def _exact_ground(reduced: Image.Image, picture: Image.Image) -> Image.Image:
    """Restore the exact color of the corner. Even a slight change in white would be visible."""
    colors: list[int] = list(reduced.getpalette() or ())
    index: Any = reduced.getpixel((0, 0))
    colors[3 * index : 3 * index + 3] = list(picture.getpixel((0, 0)))  # type: ignore[arg-type]
    reduced.putpalette(colors)
    return reduced
