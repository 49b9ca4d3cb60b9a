"""Print the cheat sheet to a PDF that contains the hash of the HTML page.

Two PDFs of the same page contain different dates, so comparing their bytes is useless. Instead, a
comment after the end of the PDF contains the hash of the page. PDF readers ignore this comment.
"""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def stamp(html: str) -> bytes:
    """Return the comment line for the end of this page's PDF."""
    return b"% printed from " + sha256(html.encode()).hexdigest().encode()


def is_current(pdf: Path, html: str) -> bool:
    """Return whether a PDF was printed from the current version of the page."""
    return pdf.exists() and pdf.read_bytes().rstrip().endswith(stamp(html))


def find_chromium() -> str | None:
    """Return the browser in the environment variable CHROMIUM, or else a browser on the PATH."""
    names = (os.environ.get("CHROMIUM", ""), *BROWSERS)
    return next((path for name in names if name and (path := shutil.which(name))), None)


def print_pdf(html: str, pdf: Path) -> bool:
    """Print a page to a PDF file.

    Without Chromium, return ``False`` and leave the file unchanged.
    """
    executable = find_chromium()
    if executable is None:
        return False
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            page = browser.new_page()
            page.set_content(html)
            content = page.pdf(prefer_css_page_size=True, print_background=True)
        finally:
            browser.close()
    pdf.write_bytes(content.rstrip() + b"\n" + stamp(html) + b"\n")
    return True
