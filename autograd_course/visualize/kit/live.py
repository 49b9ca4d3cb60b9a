"""A live view that saves its picture in the notebook, for readers without a kernel."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import anywidget
from IPython.core.getipython import get_ipython
from ipywidgets import Box
from PIL import Image

# Each widget's JavaScript and style sheet, bundled from the sources by tools/bundle.py.
BUNDLES = Path(__file__).parents[1] / "bundles"
VIEW = "application/vnd.jupyter.widget-view+json"

# For a trait that the page sets. By default, ipywidgets sends the value back, in case a second page
# shows the widget. This setting avoids an extra message for every move.
FROM_PAGE = {"sync": True, "echo_update": False}


class Saved(anywidget.AnyWidget):
    """A widget that saves ``left`` in the notebook, for readers without a kernel.

    A live view needs its kernel. But JupyterLab prefers a saved view to a saved picture, and shows
    "Error displaying widget" after the kernel has stopped. So the notebook shows the view but does
    not save it: ``saving.js`` removes the view from the data that JupyterLab writes to the file.
    JupyterLab, the book, nbconvert and GitHub then all show the picture. The metadata of the output
    still contains the id of the view. If a notebook is reopened while its kernel is running, the
    script restores the view.

    This approach needs neither a setting nor an extension. A JupyterLab extension would work only
    if the course and JupyterLab were installed in the same environment. JupyterLab's own "save
    widget state" is off by default, adds 35 to 150 KB per widget, and makes nbconvert fetch scripts
    from a CDN. Colab and VS Code do not run the script's JupyterLab part.
    """

    # ipywidgets 7 displays widgets with this method, and saves only 110 characters of text.
    _ipython_display_ = None

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        shell = get_ipython()
        if shell and shell.display_formatter:
            shell.display_formatter.mimebundle_formatter.for_type(Box, _box_bundle)

    def left(self) -> dict[str, str]:
        """The content that is saved for readers without a kernel, by MIME type."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return _pictured(super()._repr_mimebundle_(**kwargs), self.left())


def _pictured(bundle: Any, left: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a widget's MIME bundle, including its picture. ``saving.js`` reads the metadata."""
    # ipywidgets returns only the data. anywidget returns a pair of data and metadata.
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
    return {**data, **left}, {VIEW: data.get(VIEW, {}), **metadata}


def _box_bundle(box: Box) -> Any:
    """Return the MIME bundle of an ipywidgets box, with the pictures of the widgets inside it.

    The notebook saves only the output of the outermost widget.
    """
    own = box._repr_mimebundle_()
    parts = [widget.left() for widget in _inside(box)]
    return _pictured(own, together(parts)) if parts else own


def _inside(box: Box) -> Iterator[Saved]:
    for child in box.children:
        if isinstance(child, Saved):
            yield child
        elif isinstance(child, Box):
            yield from _inside(child)


def together(parts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return one MIME bundle for several widgets, with their pictures and text below each other.

    A picture between pieces of text becomes part of the Markdown, because every page prefers
    Markdown to a PNG.
    """
    left = {"text/plain": "\n\n".join(part["text/plain"] for part in parts)}
    if pictures := [part["image/png"] for part in parts if "image/png" in part]:
        left["image/png"] = _stacked(pictures)
    if any("text/markdown" in part for part in parts):
        left["text/markdown"] = "\n\n".join(map(_as_markdown, parts))
    return left


def _as_markdown(part: Mapping[str, str]) -> str:
    if "text/markdown" in part:
        return part["text/markdown"]
    return f"![{part['text/plain'].splitlines()[0]}](data:image/png;base64,{part['image/png']})"


def _stacked(pictures: Sequence[str]) -> str:
    drawn = [Image.open(BytesIO(base64.b64decode(png))).convert("RGB") for png in pictures]
    size = max(each.width for each in drawn), sum(each.height for each in drawn)
    paper, top, output = Image.new("RGB", size, "white"), 0, BytesIO()
    for each in drawn:
        paper.paste(each, (0, top))
        top += each.height
    paper.quantize().save(output, "PNG")
    return base64.b64encode(output.getvalue()).decode("ascii")


class Live(Saved):
    """The base class of the course's widgets: a live view, a PNG for saved notebooks, and text.

    A subclass defines ``png`` and ``__repr__``. Both are computed when the widget is displayed, and
    show its state at that time.
    """

    @property
    def png(self) -> bytes:
        """The picture of the current state. The same state always gives the same bytes."""
        raise NotImplementedError

    def left(self) -> dict[str, str]:
        """Return the picture and the plain text."""
        return {"image/png": base64.b64encode(self.png).decode("ascii"), "text/plain": repr(self)}
