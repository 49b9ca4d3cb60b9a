"""The table of contents that Sphinx shows next to each page."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A part of the book: its title and its pages, in order."""

    title: str
    pages: tuple[str, ...]


def hidden(parts: Iterable[Part], folder: str = "") -> str:
    """Return a hidden list of the parts as MyST Markdown, for a page in ``folder``."""
    return "".join(f"\n{_tree(part, folder)}\n" for part in parts if part.pages)


def _tree(part: Part, folder: str) -> str:
    caption = f":caption: {part.title}\n" if part.title else ""
    entries = [posixpath.relpath(posixpath.splitext(page)[0], folder or ".") for page in part.pages]
    return f"```{{toctree}}\n:hidden:\n{caption}\n{chr(10).join(entries)}\n```"
