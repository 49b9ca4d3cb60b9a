"""Check a built site for dead links, and for files that it loads from other hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

HEAVIEST = 1_500_000  # the maximum bytes of a page, which take 7.5 s at 1.6 Mbit/s
_FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "srcset"}
_METADATA = {"canonical", "license"}  # link relations that a browser does not load
_WIDGET = "application/vnd.jupyter.widget"
_FONT = re.compile(r"url\(['\"]?([^'\")]+\.woff2)")
_IN_STYLE = re.compile(r"url\(['\"]?(https?:|//)[^)]*\)|@import ['\"](https?:|//)")


@dataclass
class Page(HTMLParser):
    """A page's links, its anchors, and the files that a browser loads for it."""

    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    undescribed: list[str] = field(default_factory=list)
    live: set[str] = field(default_factory=set)
    widgets: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the links and files of one tag."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if (source := given.get(_FETCHED.get(tag, ""), "")) and given.get("rel") not in _METADATA:
            self.fetched.append(source)
        self.live |= {given[name] for name in ("data-live", "data-state") if name in given}
        if tag == "script" and given.get("type", "").startswith(_WIDGET):
            self.widgets += 1
        if tag == "img" and not given.get("alt", "").strip() and _tells_something(given):
            self.undescribed.append(given.get("src", ""))


def _tells_something(image: Mapping[str, str]) -> bool:
    """Return whether an image needs alternative text. The theme's own images do not."""
    return "alt" not in image or "_static/" not in image.get("src", "")


def problems(site: Path) -> Iterator[str]:
    """Yield a sentence for each problem on the pages in the folder ``site``."""
    files = sorted(set(site.rglob("*.html")) - set(site.glob("_static/**/*")))
    pages = {path.resolve(): _read(path) for path in files}
    if not pages:
        yield f"{site} has no pages: run `make book`"
    for path, page in pages.items():
        for problem in (*_on_page(path, page, pages), *_too_heavy(site, path, page)):
            yield f"{path.relative_to(site.resolve())}: {problem}"
    for style in sorted(site.rglob("*.css")):
        if found := _IN_STYLE.search(style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(site)}: fetches {found[0]}"


def _read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _on_page(path: Path, page: Page, pages: Mapping[Path, Page]) -> Iterator[str]:
    for source in page.fetched:
        if _is_foreign(source):
            yield f"fetches {source} from another host"
        elif not _file(path, source).exists():
            yield f"{source} is missing"
    for link in page.links:
        if not _is_foreign(link) and not _leads_somewhere(path, link, pages):
            yield f"the link {link} leads nowhere"
    if page.widgets:
        yield "a widget is on it without its picture: run `make book` again"
    for source in page.undescribed:
        yield f"the picture {source[:80]} has no text alternative"


def weight(site: Path, path: Path, page: Page) -> int:
    """Return the total uncompressed size in bytes of a page and of all files that it loads."""
    loaded = {_file(path, source) for source in page.fetched if not _is_foreign(source)}
    files = {file for file in loaded if file.suffix != ".html"}  # the head also names other pages
    files |= {site.resolve() / "live" / f"{name}.js" for name in page.live}
    files |= {font for file in files if file.suffix == ".css" for font in _fonts(file)}
    return sum(file.stat().st_size for file in {path, *files} if file.exists())


@cache
def _fonts(style: Path) -> frozenset[Path]:
    """Return the fonts in a style sheet.

    A browser loads a font only if the page uses its characters.
    """
    text = style.read_text(encoding="utf-8") if style.exists() else ""
    return frozenset(_file(style, found) for found in _FONT.findall(text))


def _too_heavy(site: Path, path: Path, page: Page) -> Iterator[str]:
    if (size := weight(site, path, page)) > HEAVIEST:
        megabytes = f"{size / 1e6:.2f} MB"
        yield f"the page and its files have {megabytes}, and the limit is {HEAVIEST / 1e6} MB"


def _is_foreign(address: str) -> bool:
    return re.match(r"(https?:)?//|(mailto|javascript):", address) is not None


def _file(page: Path, address: str) -> Path:
    """Return the file to which a relative address on a page leads."""
    if address.startswith("data:"):
        return page
    path = unquote(urldefrag(address).url.partition("?")[0])
    return (page.parent / path).resolve() if path else page


def _leads_somewhere(path: Path, link: str, pages: Mapping[Path, Page]) -> bool:
    target, anchor = _file(path, link), unquote(urldefrag(link).fragment)
    if not anchor or target not in pages:
        return target.is_file()
    return anchor in pages[target].anchors
