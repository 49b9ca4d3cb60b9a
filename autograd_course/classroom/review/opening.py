"""Open an address in a browser without showing it to other users of the machine."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def opened(url: str) -> Iterator[None]:
    """Open an address with a secret in it through a file that only this user can read.

    The list of processes, which everybody can read, then shows only the name of the file. The file
    is deleted at the end of the block.
    """
    with tempfile.TemporaryDirectory(prefix="autograd-course-") as folder:
        page = Path(folder) / "review.html"
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={url}">', "utf-8"
        )
        webbrowser.open(page.as_uri())
        yield
