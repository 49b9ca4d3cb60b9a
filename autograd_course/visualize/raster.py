"""A matplotlib figure as a small PNG, without any state of pyplot."""

from io import BytesIO

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

_COLORS = 48


def small_png(figure: Figure) -> bytes:
    """Render with a palette of a few colors; the same bytes for the same figure."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = bytes(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    picture = Image.frombuffer("RGBA", canvas.get_width_height(), pixels).convert("RGB")
    output = BytesIO()
    reduced = picture.quantize(_COLORS, dither=Image.Dither.NONE)
    reduced.save(output, "PNG", optimize=True, dpi=(figure.dpi, figure.dpi))
    return output.getvalue()
