"""A card: a headline and sections of labeled rows, as text, plain or in color, and as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 88
LABEL = 9
# Stripe colors with at least 3:1 against JupyterLab's white and its dark background alike.
_STRIPE = {
    "passed": "#2a9d57",
    "wrong": "#d9534f",
    "not attempted": "#8a8f98",
    "grader failed": "#c77d0a",
    "not examined": "#c77d0a",
    "hint": "#3b82c4",
}
# In a terminal: names of its own palette, which its owner can read.
_INK = {
    "passed": "green",
    "wrong": "red",
    "not attempted": "blue",
    "grader failed": "yellow",
    "not examined": "yellow",
    "warning": "yellow",
    "info": "cyan",
}
_CODE = ("example", "at", "call")
_TEXT = "var(--jp-content-font-color1, var(--vscode-editor-foreground, inherit))"
_FAINT = "var(--jp-content-font-color2, var(--vscode-descriptionForeground, inherit))"

Rows = Iterable[tuple[str, str]]


class Heading(str):
    """A label that begins its row's text instead of standing to the left of it, such as a rule."""

    __slots__ = ()


def as_text(headline: str, *sections: Rows) -> str:
    """Return the headline and below it the rows that have a text, wrapped, labels to the left."""
    blocks = [[_text_row(label, text) for label, text in rows if text] for rows in sections]
    return headline + "\n" + "\n\n".join("\n".join(block) for block in blocks if block)


def _text_row(label: str, text: str, width: int = WIDTH) -> str:
    if isinstance(label, Heading):
        text, label = f"{label}: {text}", ""
    indent = " " * (2 + LABEL if label else 2)
    lines = wrap(
        text, width, subsequent_indent=indent, initial_indent=indent, break_on_hyphens=False
    )
    return "\n".join([f"  {label:<{LABEL}}{lines[0].strip()}" if label else lines[0], *lines[1:]])


def as_rich(headline: str, *sections: Rows, kind: str, width: int) -> Text:
    """Return the same words in color, for a terminal that may be narrower."""
    from rich.text import Text

    width = max(2 * LABEL, min(width, WIDTH))
    blocks = [[_rich_row(*row, kind, width) for row in rows if row[1]] for rows in sections]
    body = Text("\n\n").join(Text("\n").join(block) for block in blocks if block)
    return Text("\n").join([Text(headline, f"bold {_INK[kind]}"), body])


def _rich_row(label: str, text: str, kind: str, width: int) -> Text:
    from rich.text import Text

    row = Text(_text_row(label, text, width))
    style = "dim"
    if isinstance(label, Heading):  # which says how severe it is unless it is an error
        style = f"bold {_INK.get(label.partition(',')[0], _INK[kind])}"
    elif label in _CODE:
        row.stylize("cyan", 2 + LABEL)
    row.stylize(style, 2, 2 + len(label))
    return row


def as_html(headline: str, *sections: Rows, kind: str, figure: str = "") -> str:
    """Return the same as a block with a colored stripe; all text is escaped.

    ``figure`` is HTML that stands below the first section.
    """
    blocks = ["".join(_html_row(label, text) for label, text in rows if text) for rows in sections]
    blocks[:1] = [block + figure for block in blocks[:1]]
    body = "".join(f'<div style="margin-bottom: 6px">{block}</div>' for block in blocks if block)
    return (
        f'<div style="border-left: 4px solid {_STRIPE[kind]}; padding: 2px 0 2px 12px; '
        f'color: {_TEXT}; line-height: 1.5; max-width: 52em">'
        f'<div style="font-weight: 600">{escape(headline)}</div>{body}</div>'
    )


def _html_row(label: str, text: str) -> str:
    if isinstance(label, Heading):
        return f"<div><code>{escape(label)}</code> – {_marked(text)}</div>"
    if not label:
        return f"<div>{_marked(text)}</div>"
    style = f"flex: 0 0 5em; margin-right: 0.8em; color: {_FAINT}"
    return (
        f'<div style="display: flex"><span style="{style}">{escape(label)}</span>'
        f"{_value(label, text)}</div>"
    )


def _value(label: str, text: str) -> str:
    return f"<code>{escape(text)}</code>" if label in _CODE else f"<span>{_marked(text)}</span>"


def _marked(text: str) -> str:
    """Return a sentence as HTML, with what it puts in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
