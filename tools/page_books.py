"""The pages about rules and about error messages, as two documents in ``docs/``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from autograd_doctor import RULES, explain

from autograd_course.messages import MESSAGES
from autograd_course.messages import contents as message_tables
from autograd_course.messages import page as message_page

_GIVEN = """\
import torch
import torch.nn.functional as F
from torch.autograd import Function

from autograd_doctor import diagnose

torch.manual_seed(0)
"""


def rules_book() -> str:
    """Return ``docs/rules.md``: the tables of rules, followed by a page for each rule."""
    return _book(_RULES_PREFACE, explain().markdown, map(rule_page, RULES))


def messages_book() -> str:
    """Return ``docs/error_messages.md``: the tables, followed by a page for each message."""
    return _book(_MESSAGES_PREFACE, message_tables(), map(message_page, MESSAGES))


def rule_page(name: str) -> str:
    """Return the page about a rule as Markdown."""
    return explain(name).markdown


def _book(preface: str, tables: str, pages: Iterable[str]) -> str:
    linked = re.sub(r"\| `([a-z0-9-]+)` \|", r"| [`\1`](#\1) |", tables)
    headed = re.sub(r"^\*\*(.+)\*\*$", r"## \1", linked, flags=re.MULTILINE)
    return f"{preface}\n{headed}\n\n" + "\n\n".join(lowered(page).rstrip() for page in pages) + "\n"


def lowered(text: str) -> str:
    """Return Markdown in which every heading is one level lower. Code blocks do not change."""
    inside = False
    lines = []
    for line in text.splitlines():
        inside ^= line.startswith("```")
        lines.append(f"#{line}" if line.startswith("#") and not inside else line)
    return "\n".join(lines)


_RULES_PREFACE = f"""\
# The rules of diagnose

This page lists everything that `diagnose` can find, in the order of its checks. Each rule has a
severity:

- An **error** means that a gradient or an output is wrong in some valid use.
- A **warning** means that the Function is correct today, but breaks in a use that its author has
  probably not tried.
- An **info** points out something that costs time or memory, or that concerns only second
  derivatives. The report mentions it in one line.

You can print the page of a rule with `autograd-doctor explain RULE`. To run the code on this page,
first run these lines:

```python
{_GIVEN}```

<!-- `make notebooks` writes this page from packages/autograd-doctor/src/autograd_doctor/_rules. Do
not edit it. -->
"""

_MESSAGES_PREFACE = f"""\
# The index of error messages

This page explains the error messages that you may see when a custom Function goes wrong, and how
to fix the code. In the messages, `…` stands for text that varies.

You can also look up a message from a shell. Paste the message or the whole traceback:

```
autograd-course explain "returned an incorrect number of gradients (expected 3, got 1)"
pytest 2>&1 | autograd-course explain -
```

In a notebook, call `explain(error)` after `from autograd_course import explain`.

On each page, the last block of code before "Repair" triggers the message. The pages in the last
group have no message, because PyTorch does not notice these mistakes. Use `diagnose` to find them.

To run the code on this page, first run these lines:

```python
{_GIVEN}```

<!-- `make notebooks` writes this page from autograd_course/messages. Do not edit it. -->
"""
