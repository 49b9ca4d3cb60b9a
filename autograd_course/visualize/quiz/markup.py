"""The little Markdown that questions use, as plain data: the page builds elements, never HTML."""

import re
from collections.abc import Iterator
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
