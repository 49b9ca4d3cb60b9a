"""A page for each rule: what it says, wrong and right code, and an experiment that shows the harm.

The pages are Markdown files beside this module, named for their rule. Their Python blocks run from
top to bottom in one namespace (:data:`GIVEN`); a ``text`` block holds what the block above prints.
Under "Wrong" and "Right" the last expression is a diagnosis.
"""

from __future__ import annotations

import re
from importlib.resources import files

from autograd_doctor._rules import RULES
from autograd_doctor._rules.rule import Rule

# What a reader has at hand in every block.
GIVEN = """\
import torch
import torch.nn.functional as F
from torch.autograd import Function

from autograd_course import diagnose

torch.manual_seed(0)
"""


def page(name: str) -> str:
    """Return the page of a rule as Markdown: the title, what and how bad it is, then the text."""
    rule = RULES[name]
    text = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    return f"# {name}\n\n{summary(rule)}\n\n{text}"


def summary(rule: Rule) -> str:
    """Return two lines on a rule: its severity and what it says, the lesson that teaches it."""
    return f"*{rule.severity}*: {rule.title}.\nTaught in lesson `{rule.lesson}`."


def contents() -> str:
    """Return all rules with what they say, in a table for each family."""
    families = dict.fromkeys(rule.family for rule in RULES.values())
    return "\n\n".join(_table(family) for family in families)


def book() -> str:
    """Return all pages as one document, with the table of contents before them."""
    linked = re.sub(r"^\| `(.+?)`", r"| [`\1`](#\1)", contents(), flags=re.MULTILINE)
    pages = "\n\n".join(lowered(page(name)).rstrip() for name in RULES)
    return f"{_PREFACE}\n{linked}\n\n{pages}\n"


def _table(family: str) -> str:
    rows = [
        f"| `{rule.name}` | {rule.severity} | {rule.title} | {rule.lesson} |"
        for rule in RULES.values()
        if rule.family == family
    ]
    head = "| Rule | Severity | Meaning | Lesson |\n| --- | --- | --- | --- |"
    return "\n".join([f"**{family.capitalize()}**", "", head, *rows])


def lowered(text: str) -> str:
    """Return Markdown with every heading one level down, code left alone."""
    inside = False
    lines = []
    for line in text.splitlines():
        inside ^= line.startswith("```")
        lines.append(f"#{line}" if line.startswith("#") and not inside else line)
    return "\n".join(lines)


_PREFACE = f"""\
# The rules of diagnose

This page lists everything that `diagnose` can find, in the order of its checks. Each rule has a
severity:

- An **error** means that a gradient or an output is wrong for some valid use.
- A **warning** means that the Function is correct today, but breaks or wastes resources in a use
  that its author has probably not tried.
- An **info** is good to know.

You can print the page of a rule with `autograd-course explain RULE`. To run the code on this page,
first run these lines:

```python
{GIVEN}```

<!-- `make notebooks` writes this page from packages/autograd-doctor/src/autograd_doctor/pages. Do not edit it. -->
"""
