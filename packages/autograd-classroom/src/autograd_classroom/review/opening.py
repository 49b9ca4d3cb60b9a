"""Open a secret address in the browser without revealing it to other users of this machine."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def opened(url: str) -> Iterator[None]:
    """Open a secret address in the browser by opening a private file that redirects to it.

    All users can see the browser's command line, but it contains only the name of this file. The
    file is deleted at the end of the ``with`` block.
    """
    with tempfile.TemporaryDirectory(prefix="autograd-course-") as folder:
        page = Path(folder) / "review.html"
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={url}">', "utf-8"
        )
        webbrowser.open(page.as_uri())
        yield
