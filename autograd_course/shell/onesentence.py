"""An error that IPython shows as its message alone, without the frames that led to it."""


class OneSentenceError(Exception):
    """Something was typed that is not known; the message says it all."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython, and so a notebook, prints instead of a traceback."""
        return [str(self)]
