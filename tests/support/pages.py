"""The contents of the pages that people read: code blocks, commands, links and pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from repository import ROOT

DERIVED = {"command_line.md", "error_messages.md", "rules.md"}  # their sources have their own tests
DOCS = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in DERIVED]
DOCTOR = ROOT / "packages" / "autograd-doctor" / "README.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", DOCTOR, *DOCS]


_COMMAND = re.compile(
    r"(\w+=\w+ )*(make|autograd-course|autograd-doctor|python -m) "
)  # in a sentence


@dataclass(frozen=True)
class Block:
    """A code block: its page, its language, and the block right before it, if any."""

    page: str
    language: str
    text: str
    before: Block | None = None

    def __str__(self) -> str:
        return f"{self.page}: {self.text.partition(chr(10))[0]}"


def blocks(page: Path) -> list[Block]:
    """Return a page's code blocks."""
    found: list[Block] = []
    tokens = [token for token in _tokens(page) if token.level == 0 or token.type == "fence"]
    for before, token in pairwise([Token("", "", 0), *tokens]):
        if token.type == "fence":
            adjacent = found[-1] if before.type == "fence" else None
            found.append(Block(page.name, token.info, token.content, adjacent))
    return found


def spans(page: Path) -> list[str]:
    """Return the code spans in a page's sentences."""
    return [each.content for token in _inline(page) for each in token if each.type == "code_inline"]


def links(page: Path) -> list[str]:
    """Return the targets of a page's links and pictures."""
    found = [str(each.attrGet("href")) for row in _inline(page) for each in row if each.tag == "a"]
    targets = [target for target in found if target != "None"]
    return targets + [tag[name] for tag in tags(page) for name in ("src", "srcset") if name in tag]


def tags(page: Path) -> list[dict[str, str]]:
    """Return the attributes of the HTML tags on a page, including its Markdown pictures."""
    reading = _Tags()
    reading.feed(MarkdownIt("gfm-like", {"linkify": False}).render(page.read_text("utf-8")))
    return reading.found


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append({"": tag} | {name: value or "" for name, value in attrs})


def commands() -> list[tuple[str, str]]:
    """Return each command in a block or a sentence of a page, with the page's name."""
    found: dict[tuple[str, str], None] = {}
    for page in PAGES:
        text = "\n".join(block.text for block in blocks(page) if block.language == "sh")
        lines = [line.partition("  #")[0].strip() for line in text.splitlines()]
        inline = [span for span in spans(page) if _COMMAND.match(span)]
        found |= dict.fromkeys((page.name, line) for line in [*lines, *inline] if line)
    return list(found)


def _tokens(page: Path) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse(page.read_text("utf-8"))


def _inline(page: Path) -> list[list[Token]]:
    return [token.children or [] for token in _tokens(page)]
