"""Split the documents about rules and error messages into one page for each section."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from autograd_doctor import RULES

from autograd_course.messages import MESSAGES
from autograd_course.messages import page as message_page
from tools.book.contents import Part, hidden
from tools.book.links import Places, relinked
from tools.page_books import rule_page

RULES_PAGE, MESSAGES_PAGE = "docs/rules.md", "docs/error_messages.md"
SPLIT = MappingProxyType(
    {
        RULES_PAGE: {name: f"docs/rules/{name}.md" for name in RULES},
        MESSAGES_PAGE: {name: f"docs/error_messages/{name}.md" for name in MESSAGES},
    }
)
_TEXT = {RULES_PAGE: rule_page, MESSAGES_PAGE: message_page}


def reference(root: Path, places: Places) -> Mapping[str, str]:
    """Return both documents without their sections, and one page for each section."""
    texts = {}
    for document, pages in SPLIT.items():
        texts[document] = _table(root, document, places)
        for name, page in pages.items():
            texts[page] = relinked(_TEXT[document](name), page, places)
    return texts


def _table(root: Path, document: str, places: Places) -> str:
    pages = tuple(SPLIT[document].values())
    first = Path(pages[0]).stem
    head, _, _ = (root / document).read_text(encoding="utf-8").partition(f"\n## {first}\n")
    listed = hidden([Part("", pages)], posixpath.dirname(document))
    return relinked(head, document, places) + listed
