"""The function ``explain``, which returns the page about a rule.

A page is a Markdown file next to the rules, ``_rules/<rule>.md``. It shows wrong code, an
experiment in which the mistake causes harm, and correct code.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files

from autograd_doctor._rules import RULES, Rule
from autograd_doctor.errors import UnknownRuleError

MESSAGES = "https://github.com/autograd-course/autograd_course/blob/main/docs/error_messages.md"
LONGEST_NAME = 4  # in words; a longer text is an error message


@dataclass(frozen=True, repr=False)
class Explanation:
    """A page in Markdown. A notebook renders it, and ``print`` shows the Markdown source."""

    markdown: str

    def __repr__(self) -> str:
        return self.markdown

    def _repr_markdown_(self) -> str:
        return self.markdown


def explain(rule: str = "") -> Explanation:
    """Explain a rule of :func:`~autograd_doctor.diagnose` and how to fix code that breaks it.

    Args:
        rule: The name of a rule, as in ``finding.rule``. Case, spaces and underscores do not
            matter. Without a name, ``explain`` returns a table of all rules.

    Returns:
        The rule's page as Markdown.

    Raises:
        UnknownRuleError: No rule has this name. The message lists the closest names.

    Example:
        >>> from autograd_doctor import explain
        >>> print(explain("wrong_arity").markdown.splitlines()[0])
        # wrong-arity
    """
    if not isinstance(rule, str):
        kind = type(rule).__name__
        raise UnknownRuleError(f"explain takes the name of a rule, not something of type {kind}.")
    if not rule.strip():
        return Explanation(_contents())
    return Explanation(_page(RULES[_named(rule)]))


def _named(typed: str) -> str:
    known = {_letters(name): name for name in RULES}
    if name := known.get(_letters(typed)):
        return name
    if len(typed.split()) > LONGEST_NAME:
        raise UnknownRuleError(
            "autograd_doctor explains its own rules, not the error messages of PyTorch. "
            f"{MESSAGES} lists those messages, and `autograd-course explain` finds them."
        )
    close = get_close_matches(typed.strip().lower(), RULES, n=3, cutoff=0.4)
    meant = f"Did you mean {' or '.join(close)}?" if close else "explain() lists all rules."
    meant += f" {MESSAGES} lists PyTorch's error messages."
    raise UnknownRuleError(f"There is no rule {typed.strip()[:60]!r}. {meant}")


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def _page(rule: Rule) -> str:
    """Return the page about a rule: its name, severity, title and lesson, followed by the text."""
    text = files("autograd_doctor._rules").joinpath(f"{rule.name}.md").read_text(encoding="utf-8")
    lesson = f"Taught in lesson `{rule.lesson}`."
    return f"# {rule.name}\n\n*{rule.severity}*: {rule.title}.\n{lesson}\n\n{text}"


def _contents() -> str:
    """Return the tables of rules, one for each family."""
    return "\n\n".join(_table(family) for family in dict.fromkeys(r.family for r in RULES.values()))


def _table(family: str) -> str:
    rows = [
        f"| `{rule.name}` | {rule.severity} | {rule.title} | {rule.lesson} |"
        for rule in RULES.values()
        if rule.family == family
    ]
    head = "| Rule | Severity | Meaning | Lesson |\n| --- | --- | --- | --- |"
    return "\n".join([f"**{family.capitalize()}**", "", head, *rows])
