"""Draw the picture as a PNG: the page's SVG in the colors of a light page."""

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

from PIL import Image
from resvg_py import svg_to_bytes

from autograd_course.visualize.flow.describe import Script
from autograd_course.visualize.flow.differences import Different
from autograd_course.visualize.flow.layout import TURN_SIZE, WIDEST, Layout, Sheet
from autograd_course.visualize.flow.svg import ALIKE, STYLE, document, ground, svg_sheet
from autograd_course.visualize.kit.png import reduced_png

KEY = "lines and bars: norm of ∂ (log scale); dashed blue: negative ∂"
KEY_WIDTH = 420.0  # the minimum width that leaves room for the key
HEADING, _INDENT = 24.0, 20.0  # the height and indentation of a picture's name
# In pixels: the size of the key's text, the width of a saved page, and the key's size on that page.
_SMALL, _PAGE, _READ = 7.5, 890.0, 8.0
_PIXELS = 72  # dots per inch at which one pixel of the layout is one pixel of the PNG
# dots per inch; pictures with more pixels than the limit use the lower resolution
_SHARP, _PLAIN, _LARGE = 144, 100, 8e5
_SLIM = 0.92  # DejaVu Sans is wider than the fonts on most pages
# In the style sheet: where the rule for dark pages begins, and a variable with its color.
_DARK, _VARIABLE = ":is([data-jp-theme-light", r"(--agf-[\w-]+): .*?(#\w{6})\)*;"


def png(words: Script, drawn: Layout) -> bytes:
    """Draw the picture at high resolution unless it is large. A palette keeps the file small."""
    sheet = Sheet(drawn)
    return _rasterized(sheet.width, sheet.height, _with_key(sheet, words))


def png_of_several(
    named: Sequence[tuple[str, Script, Layout]], different: Sequence[Different]
) -> bytes:
    """Draw several pictures, each below its name. Place tall pictures side by side if they fit.

    ``different`` contains the differences in each picture.
    """
    sheets = [Sheet(drawn) for _, _, drawn in named]
    sizes = [(sheet.width, sheet.height + HEADING) for sheet in sheets]
    widths, heights = zip(*sizes, strict=True)
    wide = max(widths) > max(heights) - HEADING or sum(widths) > WIDEST
    left, top, parts = 0.0, 0.0, []
    for (name, words, _), sheet, (w, h), own in zip(named, sheets, sizes, different, strict=True):
        shown = _with_key(sheet, words, own)
        parts.append(
            f'<text class="agf-title" style="text-anchor:start" x="{left + _INDENT:g}" '
            f'y="{top + HEADING:g}">{escape(name)}</text>'
            f'<g transform="translate({left:g} {top + HEADING:g})">{shown}</g>'
        )
        left, top = (left, top + h) if wide else (left + w, top)
    width, height = (max(widths), sum(heights)) if wide else (sum(widths), max(heights))
    return _rasterized(width, height, "".join(parts))


def _with_key(sheet: Sheet, words: Script, different: Different = ALIKE) -> str:
    """Return a picture as SVG. Add the key to the lower right corner if it fits."""
    shown = svg_sheet(sheet, words, different)
    if sheet.width < KEY_WIDTH:
        return shown
    size = max(TURN_SIZE if sheet.turns else _SMALL, _READ * sheet.width / _PAGE)
    key = f"≠ differs between the flows; {KEY}" if any(different) else KEY
    corner = f'x="{sheet.width - 8:g}" y="{sheet.height - 6:g}"'
    return f'{shown}<text class="agf-turn" style="font-size:{size:g}px" {corner}>{key}</text>'


def _rasterized(width: float, height: float, content: str) -> bytes:
    dpi = _SHARP if width * height <= _LARGE else _PLAIN
    picture = document("", width, height, ground(width, height, _plain_style()) + content)
    drawn = svg_to_bytes(picture, zoom=dpi / _PIXELS, skip_system_fonts=True, font_files=_fonts())
    return reduced_png(Image.open(BytesIO(drawn)).convert("RGB"), dpi)


@cache
def _plain_style() -> str:
    """Return the style sheet without variables, because the rasterizer does not support them."""
    light, _, rules = STYLE.read_text(encoding="utf-8").partition(_DARK)
    colors = dict(re.findall(_VARIABLE, light))
    plain = re.sub(_VARIABLE, "", light) + rules.partition("}")[2]
    plain = re.sub(r"var\((--[\w-]+)\)", lambda found: colors[found[1]], plain)
    return re.sub(r"(?<=font-size: )\d+", lambda found: f"{_SLIM * int(found[0]):g}", plain)


@cache
def _fonts() -> list[str]:
    """Return matplotlib's font files, which make the picture the same on every machine."""
    spec = find_spec("matplotlib")  # does not import it
    folder = Path(str(spec and spec.origin)).parent / "mpl-data" / "fonts" / "ttf"
    return [str(folder / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")]
