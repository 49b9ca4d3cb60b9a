"""The functions that the setup cell and anywidget call on Colab."""

from types import SimpleNamespace

_widgets = SimpleNamespace(_installed_url=None)


def enable_custom_widget_manager(url: str = "https://example.com/manager.js") -> None:
    """Record that the page would load its widget manager from ``url``."""
    _widgets._installed_url = url
