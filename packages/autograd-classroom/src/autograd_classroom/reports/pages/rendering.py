"""Render templates to HTML in pieces, and escape all inserted strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

_TEMPLATES = Path(__file__).parent / "templates"
_PIECES = 200  # number of template parts to join before writing them
# Characters that a page must not contain, and characters that change the text direction.
_UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def rendered(template: str, **values: Any) -> Iterator[str]:
    """Fill a template with values, and yield the page as pieces of HTML."""
    stream = _environment().get_template(template).stream(values)
    stream.enable_buffering(_PIECES)
    return stream


def shown(text: str) -> str:
    """Replace each character that a page must not contain with a replacement character."""
    return _UNSHOWN.sub("\N{REPLACEMENT CHARACTER}", text)


def prose(text: str) -> Markup:
    """Return a sentence as HTML. Format text in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(shown(text)))))


_CODE = re.compile("`([^`]+)`")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name, file in (("look", "look.css"), ("review_look", "review.css")):
        environment.globals[name] = Markup((_TEMPLATES / file).read_text(encoding="utf-8"))
    environment.filters["prose"] = prose
    environment.filters["points"] = lambda points: f"{points:g}"
    return environment


def _shown(value: Any) -> Any:
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value
