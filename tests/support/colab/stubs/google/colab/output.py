"""What the setup cell calls, and what anywidget reads on Colab."""

from types import SimpleNamespace

_widgets = SimpleNamespace(_installed_url=None)


def enable_custom_widget_manager(url: str = "https://example.com/manager.js") -> None:
    """Note that the page would load its widget manager from ``url``."""
    _widgets._installed_url = url
