"""The README as the book's front page."""

from __future__ import annotations

import re

_PICTURE_IN_LINK = re.compile(r"!\[([^\]]*)\]\(https?:[^)]*\)(?=\]\()")
_TWO_PICTURES = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">'
    r'\s*<img src="(?P<light>[^"]+)"(?P<rest>[^>]*)>\s*</picture>'
)
# Add blank lines around them, because Sphinx ignores Markdown inside an HTML block.
_SWITCHED = r"""
<img class="only-light" src="\g<light>"\g<rest>>
<img class="only-dark" src="\g<dark>"\g<rest>>
"""
_FLOW = '\n<img class="only-light" src="docs/pictures/gradient_flow'


def fronted(readme: str, flow: str = "") -> str:
    """Return the README's text for the book.

    Its pictures follow the theme that the reader selects on the page, not the theme of the
    operating system. ``flow`` is the HTML element of the live gradient flow, which comes before the
    pictures of the flow.

    Replace each badge with its alternative text, because badges are images from another host.
    """
    text = _TWO_PICTURES.sub(_SWITCHED, _PICTURE_IN_LINK.sub(r"\1", readme))
    return text.replace(_FLOW, f"\n{flow}\n{_FLOW}")
