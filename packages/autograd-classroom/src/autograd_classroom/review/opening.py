"""Open an address in the browser, but hide it from other users of this machine."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def opened(url: str) -> Iterator[None]:
    """Open an address that contains a secret, through a file that only this user can read.

    All users can read the list of processes, but it then shows only the name of the file. The file
    is deleted at the end of the ``with`` block.
    """
    with tempfile.TemporaryDirectory(prefix="autograd-course-") as folder:
        page = Path(folder) / "review.html"
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={url}">', "utf-8"
        )
        webbrowser.open(page.as_uri())
        yield
