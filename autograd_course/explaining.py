"""``explain``: show the page about a rule or an error message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from autograd_doctor import RULES, Explanation
from autograd_doctor import explain as explain_rule

from autograd_course import messages
from autograd_course.errors import OneSentenceError
from autograd_course.index import id_typed, named
from autograd_course.messages.pages import words_of

LONGEST_NAME = 4  # in words; anything longer is an error message


class NothingToExplainError(OneSentenceError, LookupError):
    """Raised if no page matches. The message is one sentence that names the closest pages."""


def explain(what: str | BaseException = "") -> Explanation:
    """Explain a rule of ``diagnose`` or a message from PyTorch, and show how to fix the code.

    Args:
        what: The name of a rule or page, an error message, a whole traceback, or the exception
            itself. Case, spaces and underscores in a name do not matter. You can also pass a few
            words to find the pages whose title or message contains them. If you omit this argument,
            the result lists all rules and all messages in two tables.

    Returns:
        The page as Markdown.

    Raises:
        NothingToExplainError: No page matches.

    Example:
        >>> from autograd_course import explain
        >>> print(explain("wrong-arity").markdown.splitlines()[0])
        # wrong-arity
    """
    if isinstance(what, BaseException):
        what = f"{type(what).__name__}: {what}"
    if not isinstance(what, str):
        raise NothingToExplainError(
            "explain takes the name of a rule, the text of an error or the exception itself, not "
            f"something of type {type(what).__name__}."
        )
    asked = what.strip()
    if not asked:
        return Explanation(f"{explain_rule().markdown}\n\n{messages.contents()}")
    if rule := named(asked, RULES):
        return explain_rule(rule)
    if message := named(asked, messages.MESSAGES):
        return Explanation(messages.page(message))
    if match := messages.find(asked):
        return Explanation(_found(match))
    if pages := _pages_with(asked):
        (name, *others) = pages
        return Explanation(_listed(asked, pages)) if others else explain(name)
    raise NothingToExplainError(_unknown(asked))


def _titles() -> Iterator[tuple[str, str, str]]:
    """Yield each page's name, title and searchable text."""
    for name, rule in RULES.items():
        yield name, rule.title, f"{name} {rule.title}"
    for name, message in messages.MESSAGES.items():
        yield name, message.patterns[0], f"{name} {' '.join(message.patterns)} {message.family}"


def _pages_with(asked: str) -> dict[str, str]:
    """Return the names and titles of the pages whose text contains every word of ``asked``."""
    words = words_of(asked)
    return {name: title for name, title, text in _titles() if words and words <= words_of(text)}


def _listed(asked: str, pages: Mapping[str, str]) -> str:
    rows = [f"- `{name}`: {title}" for name, title in pages.items()]
    shown = "\n".join(rows[:MOST_PAGES])
    return f"These pages contain the words *{asked}*. Call `explain` with a name:\n\n{shown}\n"


MOST_PAGES = 12


def _found(match: messages.Match) -> str:
    text = messages.page(match.message.name)
    if not match.exact:
        text = f"*This is the closest message with a page; its wording differs.*\n\n{text}"
    if match.others:
        names = ", ".join(f"`{message.name}`" for message in match.others)
        text += f"\nThe text also contains these messages: {names}.\n"
    return text


def _unknown(asked: str) -> str:
    names, typed = sorted({*RULES, *messages.MESSAGES}), id_typed(asked)
    is_name = len(asked.split()) == 1
    closest = get_close_matches(typed, names, n=3, cutoff=0.4 if is_name else 0.6)
    if not is_name and (not closest or len(asked.split()) > LONGEST_NAME):
        return (
            "No page is about a message like this one. Call diagnose with your Function, which "
            "names the mistake itself. explain without an argument lists all pages."
        )
    if not closest:
        return f"There is no rule {asked!r}. explain without an argument lists all rules."
    return f"There is no rule {asked!r}. Did you mean {' or '.join(closest)}?"
