"""``explain``: the page of a rule, or of the message that an error prints."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from autograd_course import messages
from autograd_course.doctor import pages
from autograd_course.doctor.rules import RULES


class NothingToExplainError(LookupError):
    """No page fits what was asked for; one sentence says what is near."""


@dataclass(frozen=True, repr=False)
class Explanation:
    """A page, as Markdown: laid out in a notebook, as it is where it is printed."""

    markdown: str

    def __repr__(self) -> str:
        return self.markdown

    def _repr_markdown_(self) -> str:
        return self.markdown


def explain(what: str | BaseException = "") -> Explanation:
    """Say what a rule of the diagnosis means, or a message of PyTorch, and what repairs it.

    ``what`` is the name of a rule or of a page, the text of an error or a whole traceback (with
    whatever names and numbers), or the exception itself. Without it, the tables of both are given.
    Raises :class:`NothingToExplainError` where no page fits.
    """
    if isinstance(what, BaseException):
        what = f"{type(what).__name__}: {what}"
    asked = what.strip()
    if not asked:
        return Explanation(f"{pages.contents()}\n\n{messages.contents()}")
    if asked in RULES:
        return Explanation(pages.page(asked))
    if asked in messages.MESSAGES:
        return Explanation(messages.page(asked))
    if match := messages.find(asked):
        return Explanation(_found(match))
    raise NothingToExplainError(_unknown(asked))


def _found(match: messages.Match) -> str:
    text = messages.page(match.message.name)
    if not match.exact:
        text = f"*The closest message that is known here; the wording differs.*\n\n{text}"
    if match.others:
        names = ", ".join(f"`{message.name}`" for message in match.others)
        text += f"\nThe text holds other messages, too: {names}.\n"
    return text


def _unknown(asked: str) -> str:
    if len(asked.split()) > 1:
        return "No message of the index is like this one. explain without an argument lists all."
    names = sorted({*RULES, *messages.MESSAGES})
    typed = asked.lower().replace("_", "-")
    closest = get_close_matches(typed, names, n=3, cutoff=0.4) or sorted(RULES)
    return f"There is no rule {asked!r}. Closest: {', '.join(closest)}."
