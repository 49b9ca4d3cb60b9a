"""A live view that leaves its picture behind, for readers without a kernel."""

import base64
from pathlib import Path
from typing import Any

import anywidget

KIT = Path(__file__).parent

# Of a trait that the page sets. It is not sent back, as ipywidgets does for a second page: that
# would be one more message on the way of every move.
FROM_PAGE = {"sync": True, "echo_update": False}


def script(*files: Path) -> str:
    """Return the kit's JavaScript and a widget's own files as one module; the last one exports.

    One module, because a widget's script has no address from which it could import another.
    """
    return _joined(KIT / "kit.js", *files)


def sheet(*files: Path) -> str:
    """Return the kit's style sheet and a widget's own ones as one."""
    return _joined(KIT / "kit.css", *files)


def _joined(*files: Path) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


class Saved(anywidget.AnyWidget):
    """A widget that leaves what ``left`` gives in the saved notebook, beside the live view."""

    # ipywidgets 7 displays by this method, and leaves 110 characters of text and nothing else.
    _ipython_display_ = None

    def left(self) -> dict[str, str]:
        """What a reader without a kernel sees, by MIME type."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        # ipywidgets returns the data alone, anywidget a pair with metadata.
        bundle: Any = super()._repr_mimebundle_(**kwargs) or {}
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, **self.left()}, metadata


class Live(Saved):
    """The base of the course's widgets: a live view, a PNG for where it cannot live, and words.

    A subclass gives ``png`` and ``__repr__``; both are asked for when the widget is displayed, and
    show the state at that moment.
    """

    @property
    def png(self) -> bytes:
        """The picture of the present state; the same bytes for the same state."""
        raise NotImplementedError

    def left(self) -> dict[str, str]:
        """Return the picture, and the account in words."""
        return {"image/png": base64.b64encode(self.png).decode("ascii"), "text/plain": repr(self)}
