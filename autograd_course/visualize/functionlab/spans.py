"""Python source as spans of text that are written in different looks."""

import io
import keyword
import tokenize
from collections.abc import Sequence

Span = tuple[str, str]  # kind: "keyword", "comment", "string" or "" for the rest; and the text


def spans(rows: Sequence[str]) -> list[list[Span]]:
    """Split each row; joined again, the spans of a row are the row."""
    marks: list[list[tuple[int, int, str]]] = [[] for _ in rows]
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(rows)).readline):
            _mark(token, marks, rows)
    except (tokenize.TokenError, SyntaxError):  # a part of a statement: the rest stays plain
        pass
    return [_split(row, mark) for row, mark in zip(rows, marks, strict=True)]


def _mark(
    token: tokenize.TokenInfo, marks: list[list[tuple[int, int, str]]], rows: Sequence[str]
) -> None:
    if not (kind := _kind(token)):
        return
    for line in range(token.start[0], token.end[0] + 1):
        begin = token.start[1] if line == token.start[0] else 0
        end = token.end[1] if line == token.end[0] else len(rows[line - 1])
        marks[line - 1].append((begin, end, kind))


def _kind(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME and keyword.iskeyword(token.string):
        return "keyword"
    return {tokenize.COMMENT: "comment", tokenize.STRING: "string"}.get(token.type, "")


def _split(row: str, marks: Sequence[tuple[int, int, str]]) -> list[Span]:
    found: list[Span] = []
    at = 0
    for begin, end, kind in marks:
        found += [("", row[at:begin]), (kind, row[begin:end])]
        at = end
    return [span for span in [*found, ("", row[at:])] if span[1]]
