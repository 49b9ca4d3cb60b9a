"""Convert the small part of Markdown that questions use to plain data or to safe Markdown.

The page builds its elements from the data and never uses HTML. A saved notebook can come from
anyone, and GitHub, JupyterLab, nbconvert and the book filter it differently. A question in a saved
notebook therefore contains neither executable code nor links. This module first converts HTML,
links, pictures and formulas to text.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_FENCE = re.compile(r"^```\w*\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`|\*([^*\s][^*]*)\*")


def blocks(text: str) -> list[dict[str, Any]]:
    """Return paragraphs and code blocks: ``{"code": …}`` or ``{"spans": [[kind, text], …]}``.

    A span's kind is ``""``, ``"code"`` or ``"em"``.
    """
    found: list[dict[str, Any]] = []
    for k, part in enumerate(_FENCE.split(text)):
        if k % 2:
            found.append({"code": part})
        else:
            paragraphs = (" ".join(p.split()) for p in part.split("\n\n"))
            found += [{"spans": list(_spans(p))} for p in paragraphs if p]
    return found


def _spans(text: str) -> Iterator[list[str]]:
    start = 0
    for match in _SPAN.finditer(text):
        if match.start() > start:
            yield ["", text[start : match.start()]]
        yield ["code", match[1]] if match[1] else ["em", match[2]]
        start = match.end()
    if start < len(text):
        yield ["", text[start:]]


_BETWEEN = "\N{ZERO WIDTH SPACE}"  # separates a code span from the next one
_ACTIVE = re.compile(
    r"(?P<entity>`|<(?=[\w/!?])|&(?=#?\w+;)|\](?=\s*[(\[:]))"  # HTML and the start of a link
    r"|(?P<code>[$\\]+)"  # formulas become code, because the pages do not render formulas in code
)


def safe_markdown(text: str) -> str:
    """Write a question's text as Markdown: only paragraphs, code and emphasis."""
    return "\n\n".join(map(_block_in_markdown, blocks(text)))


def _block_in_markdown(block: Mapping[str, Any]) -> str:
    if "code" in block:
        return f"```python\n{block['code']}\n```"
    looks = {"": "{}", "code": "`{}`", "em": "*{}*"}
    spans = ((kind, text if kind == "code" else escape(text)) for kind, text in block["spans"])
    return "".join(looks[kind].format(text) for kind, text in spans).replace("``", f"`{_BETWEEN}`")


def escape(text: str) -> str:
    """Escape a line so that Markdown renders exactly this text."""
    return _ACTIVE.sub(
        lambda found: f"`{found['code']}`" if found["code"] else f"&#{ord(found['entity'])};", text
    )
