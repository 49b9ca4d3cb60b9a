"""Adapt a built site to slow connections and narrow screens.

With the theme, each page loads thousands of icons, a search index that only one page uses, and
style rules for elements that no page contains. A script in a page's ``<head>`` delays the first
paint.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import unquote

from PIL import Image

from tools.book.pictures import PLOT

_SCRIPT = re.compile(r'<script (?P<rest>[^>]*?src="(?P<file>[^"]+)"[^>]*)></script>\n?')
_ICONS = "fontawesome.js"  # the style sheet shows the same icons with a font
_SEARCH = ("searchtools.js", "language_data.js", "searchindex.js")
_TEXT = ".bd-article"
_AT_ONCE = "documentation_options.js"  # other scripts use it while the page is loading
_PICTURE = re.compile(
    r'<img (?P<rest>[^>]*?src="(?P<file>[^"]*_images/[^"]+)"[^>]*?)(?P<end> ?/?)>'
)
_PLOT = f'class="{PLOT}"'
_LEGIBLE = 88  # the pixels per inch at which the smallest labels of a plot, of 9 pt, have 11 pixels
_TABLE = re.compile(r'<table class="[^"]*\btable\b.*?</table>', re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_CLASS = re.compile(r"\.(-?[A-Za-z_](?:[\w-]|\\.)*)")
_ARGUMENTS = re.compile(r"\((?:[^()]|\([^()]*\))*\)")
_NESTING = ("@media", "@supports", "@layer", "@container")


def lighten(site: Path) -> None:
    """Rewrite the pages and style sheets in the folder ``site``."""
    pages = sorted(site.rglob("*.html"))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        page.write_text(_lighter(text, page), encoding="utf-8", newline="\n")
    (site / "_static" / "scripts" / _ICONS).unlink(missing_ok=True)
    search = site / "_static" / "searchtools.js"
    if search.exists():  # the excerpts in search results would contain the page's buttons
        text = search.read_text(encoding="utf-8")
        search.write_text(text.replace('[role="main"]', _TEXT), encoding="utf-8", newline="\n")
    scripts = sorted(site.rglob("*.js"))
    words = {word for path in (*pages, *scripts) for word in _words(path)}
    for sheet in sorted(site.rglob("*.css")):
        text = sheet.read_text(encoding="utf-8")
        sheet.write_text(used_rules(text, words), encoding="utf-8", newline="\n")


def _words(path: Path) -> set[str]:
    return set(re.findall(r"[\w-]+", path.read_text(encoding="utf-8")))


def _lighter(text: str, page: Path) -> str:
    def script(match: re.Match[str]) -> str:
        name = match["file"].partition("?")[0].rpartition("/")[2]
        if name == _ICONS or (name in _SEARCH and page.name != "search.html"):
            return ""
        if name == _AT_ONCE:
            code = (page.parent / match["file"].partition("?")[0]).read_text(encoding="utf-8")
            return f"<script>{code}</script>\n"
        if "defer" in match["rest"]:
            return match[0]
        return f"<script defer {match['rest']}></script>\n"

    pictures = iter(['fetchpriority="high"'])

    def picture(match: re.Match[str]) -> str:
        how = next(pictures, 'loading="lazy"')
        shown = f"<img {match['rest']}{_size(page, match)} {how}{match['end']}>"
        return f'<div class="scrolls">{shown}</div>' if _PLOT in match["rest"] else shown

    lighter = _PICTURE.sub(picture, _SCRIPT.sub(script, text))
    # Without JavaScript, nothing selects a theme, and the page shows parts of both.
    lighter = lighter.replace("<html ", '<html data-theme="light" ', 1)
    return _TABLE.sub(lambda table: labeled(table[0]), lighter)


def labeled(table: str) -> str:
    """Return a table whose cells contain the names of their columns as an attribute.

    On a narrow screen, the style sheet shows the cells of a row below each other, with these names.
    """
    names = [_TAG.sub("", name).strip() for name in _HEAD.findall(table)]

    def row(match: re.Match[str]) -> str:
        left = iter(names)
        return re.sub(r"<td\b", lambda _: f'<td data-label="{next(left, "")}"', match[0])

    return _ROW.sub(row, table)


def _size(page: Path, match: re.Match[str]) -> str:
    """Return the size of a picture, so that the page can reserve space for it.

    For a plot, also return the width that the page needs to show its labels legibly.
    """
    path = page.parent / unquote(match["file"])
    if "width=" in match["rest"] or path.suffix != ".png" or not path.exists():
        return ""
    with Image.open(path) as image:
        size = f' width="{image.width}" height="{image.height}"'
        if _PLOT in match["rest"]:
            inches = image.width / image.info["dpi"][0]
            size += f' style="--legible: {round(_LEGIBLE * inches)}px"'
        return size


def used_rules(css: str, words: Collection[str]) -> str:
    """Return a style sheet without the rules for classes that do not occur in ``words``."""
    return "".join(_kept(css, words))


def _kept(css: str, words: Collection[str]) -> Iterator[str]:
    for prelude, block in _rules(css):
        if block is None or prelude.strip().startswith("@"):
            nested = block is not None and prelude.strip().startswith(_NESTING)
            inner = used_rules(block or "", words) if nested else block
            if inner or not nested:
                yield prelude if inner is None else f"{prelude}{{{inner}}}"
            continue
        chosen = [one for one in _split(prelude) if _classes(one) <= set(words)]
        if chosen:
            yield f"{','.join(chosen)}{{{block}}}"


def _classes(selector: str) -> set[str]:
    while (shorter := _ARGUMENTS.sub("", selector)) != selector:  # :not(.a) does not require a
        selector = shorter
    return {name.replace("\\", "") for name in _CLASS.findall(selector)}


def _split(prelude: str) -> list[str]:
    """Split a list of CSS selectors at the commas that are outside parentheses."""
    parts, depth = [""], 0
    for letter in prelude:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


_TOKEN = re.compile(
    r"/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|url\([^)\"']*\)|\\.|[{};]", re.DOTALL
)


def _rules(css: str) -> Iterator[tuple[str, str | None]]:
    """Yield the prelude and the block of each top-level CSS rule.

    For other statements, the block is None.
    """
    begin = opened = depth = 0
    for token in _TOKEN.finditer(css):
        if token[0].startswith("/*") and not depth and not css[begin : token.start()].strip():
            begin = token.end()
        elif token[0] == "{":
            opened = opened if depth else token.start()
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if not depth:
                yield css[begin:opened], css[opened + 1 : token.start()]
                begin = token.end()
        elif token[0] == ";" and not depth:
            yield css[begin : token.end()], None
            begin = token.end()
