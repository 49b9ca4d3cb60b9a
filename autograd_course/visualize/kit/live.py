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


class Live(anywidget.AnyWidget):
    """The base of the course's widgets: a live view, a PNG for where it cannot live, and words.

    A subclass gives ``png`` and ``__repr__``; both are asked for when the widget is displayed, and
    show the state at that moment.
    """

    @property
    def png(self) -> bytes:
        """The picture of the present state; the same bytes for the same state."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        # ipywidgets returns the data alone, anywidget a pair with metadata.
        bundle: Any = super()._repr_mimebundle_(**kwargs) or {}
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        png = base64.b64encode(self.png).decode("ascii")
        return {**data, "image/png": png, "text/plain": repr(self)}, metadata
