"""Adapt links to the book. A link leads to a page of the book, or else to GitHub."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path

from tools.errors import AuthoringError
from tools.settings import Settings

MOVED = {"README.md": "index.md", "docs/cheat_sheet.html": "docs/cheat_sheet.md"}

_MARKDOWN = re.compile(
    r"(?P<kept>^ *```[^\n]*\n.*?^ *```$|^#[^\n]*$)"  # leave code and headings unchanged
    r"|\]\((?P<target>[^)\s]+)\)"
    r"|(?<!\[)`(?P<name>\w+(?:[-_]\w+)+)`(?!\])"
    r"|(?<=\| )(?P<stem>\d\d_\w+)(?= \|$)",  # the last column in the tables of rules and messages
    re.DOTALL | re.MULTILINE,
)
_IN_HTML = re.compile(r"<(?P<tag>code|span)>(?P<name>\w+(?:[-_]\w+)+)</(?P=tag)>")


@dataclass(frozen=True)
class Places:
    """The possible link targets: files in the book (by repository path), and names.

    ``names`` maps the name of each rule, message and lesson to its page. ``split`` contains the
    files whose sections are separate pages in the book. For each of these files, it maps anchors to
    pages.
    """

    root: Path
    settings: Settings
    files: Collection[str]
    names: Mapping[str, str]
    split: Mapping[str, Mapping[str, str]]


def relinked(text: str, place: str, places: Places, seen_from: str = "") -> str:
    """Return the Markdown of the file ``place`` with its links adapted to the book.

    Names of rules, messages and lessons become links. The link to a lesson shows its title.

    If the text appears on a different page, ``seen_from`` is that page. Raises AuthoringError if
    the target of a link does not exist.
    """
    return _MARKDOWN.sub(partial(_markdown, place, seen_from or place, places), text)


def linked_html(html: str, place: str, places: Places) -> str:
    """Return the HTML of an output, in which the names of rules and lessons become links."""

    def link(match: re.Match[str]) -> str:
        page = places.names.get(match["name"])
        if page is None:
            return match[0]
        return f'<a href="{escape(_relative(_built(page), place))}">{match[0]}</a>'

    return _IN_HTML.sub(link, html)


def _markdown(place: str, seen_from: str, places: Places, match: re.Match[str]) -> str:
    if match["target"]:
        return f"]({_target(match['target'], place, seen_from, places)})"
    name = match["name"] or match["stem"]
    page = places.names.get(name or "")
    if page is None or page == seen_from:
        return match[0]
    # In a link without text, Sphinx writes the lesson's number and title.
    text = "" if page.startswith("notebooks/") else match[0]
    return f"[{text}]({_relative(page, seen_from)})"


def _target(written: str, place: str, seen_from: str, places: Places) -> str:
    path, _, anchor = written.partition("#")
    if ":" in path:
        return written
    asked = posixpath.normpath(posixpath.join(posixpath.dirname(place), path)) if path else place
    page = places.split.get(asked, {}).get(anchor)
    if page:
        return _relative(page, seen_from)
    asked = MOVED.get(asked, asked)
    if asked in places.files:
        here = asked == seen_from and anchor
        return f"#{anchor}" if here else _relative(asked, seen_from) + (anchor and f"#{anchor}")
    return _outside(asked, places, place, written)


def _outside(asked: str, places: Places, place: str, written: str) -> str:
    """Return the GitHub address of a file that is in the repository but is not part of the book."""
    lying = places.root / asked
    if not lying.exists():
        problem = f"the link {written} leads to no file"
        raise AuthoringError(places.root / place, 1, problem, "correct it")
    kind = "tree" if lying.is_dir() else "blob"
    return (
        f"https://github.com/{places.settings.repository}/{kind}/{places.settings.branch}/{asked}"
    )


def _relative(target: str, page: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def _built(page: str) -> str:
    return posixpath.splitext(page)[0] + ".html"
