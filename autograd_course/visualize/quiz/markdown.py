"""Questions as Markdown for saved notebooks, in which nothing runs and nothing leads away.

A file of questions may come from anyone, and GitHub, JupyterLab, nbconvert and the book differ in
what they let through: HTML, links, pictures and formulas become text before any of them reads it.
"""

import re
from collections.abc import Mapping
from typing import Any

from autograd_course.visualize.quiz.markup import blocks

_BETWEEN = "\N{ZERO WIDTH SPACE}"  # keeps one code span apart from the next
_ACTIVE = re.compile(
    r"(?P<entity>`|<(?=[\w/!?])|&(?=#?\w+;)|\](?=\s*[(\[:]))"  # HTML; what makes a link of [text]
    r"|(?P<code>[$\\]+)"  # formulas: no page looks for them in code
)


def marked(text: str) -> str:
    """Write a question's text as Markdown: its paragraphs, code and emphasis, and nothing else."""
    return "\n\n".join(map(_block, blocks(text)))


def plainly(text: str) -> str:
    """Write a line as Markdown that shows it as it is."""
    return _ACTIVE.sub(_literally, text)


def _block(block: Mapping[str, Any]) -> str:
    if "code" in block:
        return f"```python\n{block['code']}\n```"
    written = "".join(_span(kind, text) for kind, text in block["spans"])
    return written.replace("``", f"`{_BETWEEN}`")


def _span(kind: str, text: str) -> str:
    if kind == "code":
        return f"`{text}`"
    return f"*{plainly(text)}*" if kind else plainly(text)


def _literally(found: re.Match[str]) -> str:
    if found["code"]:
        return f"`{found['code']}`"
    return f"&#{ord(found['entity'])};"
