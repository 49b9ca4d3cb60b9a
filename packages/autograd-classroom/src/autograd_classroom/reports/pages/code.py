"""Render a learner's code as HTML, and mark the lines that a finding names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from autograd_classroom.reports.pages.rendering import shown

_MOST = 40_000  # maximum number of characters shown from one answer
# The time that Pygments takes grows with the square of the length of a line and of blank lines with
# spaces. Therefore, remove these spaces, and do not highlight code with a line longer than this.
_WIDEST = 200
_NUMBERED = re.compile(r"\(line (\d+)(?:: `(.*)`)?\)")
_NAMED = re.compile(r"(forward|backward|jvp|vmap|setup_context): (.+)")
_FORMATTER = HtmlFormatter(nowrap=True)


@lru_cache(maxsize=256)  # code from other cells often repeats
def highlighted(source: str, marked: frozenset[int] = frozenset()) -> Markup:
    """Return code as HTML with syntax highlighting. Mark the lines whose numbers are in ``marked``.

    Line numbers start at 1.
    """
    lines = [line.rstrip() for line in shown(source[:_MOST]).rstrip("\n").split("\n")]
    text = "\n".join(lines)
    if max(map(len, lines)) <= _WIDEST:
        text = highlight(text, PythonLexer(stripnl=False), _FORMATTER).rstrip("\n")
    else:
        text = escape(text)
    rows = (
        f'<span class="line{" marked" if number in marked else ""}">{line or " "}</span>'
        for number, line in enumerate(text.split("\n"), 1)
    )
    cut = '<span class="line cut">…</span>' if len(source) > _MOST else ""
    return Markup('<pre class="code"><code>' + "".join(rows) + cut + "</code></pre>")


def offending(source: str, message: str, evidence: Mapping[str, Any]) -> frozenset[int]:
    """Return the numbers of the lines that a finding or an error message names."""
    at = str(evidence.get("line") or "")
    if not at:
        return _numbered(source, message)
    named = _NAMED.fullmatch(at)
    method, wanted = named.groups() if named else ("backward", at)
    methods = _methods(source)
    same = {n for n, line in enumerate(source.split("\n"), 1) if line.strip() == wanted.strip()}
    return frozenset({n for n in same if methods[n] == method} or same)


def _numbered(source: str, message: str) -> frozenset[int]:
    """Return the line number in a message, unless the source has different code on that line."""
    told = _NUMBERED.search(message)
    lines = source.split("\n")
    number = int(told[1]) if told and len(told[1]) < 9 else 0
    if not told or not 1 <= number <= len(lines):
        return frozenset()
    here = told[2] is None or lines[number - 1].strip() == told[2]
    return frozenset({number} if here else ())


def _methods(source: str) -> dict[int, str]:
    """Map each line number to the name of the last function that starts at or before that line."""
    current, methods = "", {}
    for number, line in enumerate(source.split("\n"), 1):
        if begun := re.match(r"\s*(?:async )?def (\w+)", line):
            current = begun[1]
        methods[number] = current
    return methods
