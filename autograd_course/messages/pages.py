"""Read the pages on error messages and return one page or the tables as Markdown."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from autograd_doctor import RULES

from autograd_course.messages.message import Message, MessageError, from_page

FAMILIES = (
    "engine",
    "ctx",
    "in place",
    "second derivatives",
    "transforms",
    "compiling",
    "checkpoint and autocast",
    "gradcheck",
    "warnings",
    "no message at all",
)
_MARK = "+++\n"


def read(name: str, text: str) -> Message:
    """Read a page.

    Args:
        name: The file name of the page, without its suffix.
        text: The page: a TOML header between two ``+++`` lines, followed by Markdown.

    Returns:
        The message that the page describes.

    Raises:
        MessageError: The header is missing, incomplete or wrong.
    """
    before, _, rest = text.partition(_MARK)
    head, found, body = rest.partition(_MARK)
    if before or not found:
        raise MessageError(f"messages/{name}.md must begin with a header between two +++ lines.")
    message = from_page(name, tomllib.loads(head), body)
    if message.family not in FAMILIES:
        raise MessageError(
            f"messages/{name}.md: {message.family!r} is not a family; use one of FAMILIES."
        )
    if message.rule and message.rule not in RULES:
        raise MessageError(f"messages/{name}.md: {message.rule!r} is not a rule of diagnose.")
    return message


def _read_all() -> Mapping[str, Message]:
    pages = [page for page in files(__package__).iterdir() if page.name.endswith(".md")]
    read_ = (read(p.name.removesuffix(".md"), p.read_text(encoding="utf-8")) for p in pages)
    ordered = sorted(read_, key=lambda message: (FAMILIES.index(message.family), message.name))
    return MappingProxyType({message.name: message for message in ordered})


MESSAGES = _read_all()


def page(name: str) -> str:
    """Return the page of a message as Markdown: its name, summary, wordings and explanation."""
    message = MESSAGES[name]
    wording = "\n".join(message.patterns)
    return f"# {name}\n\n{summary(message)}\n\n```\n{wording}\n```\n\n{message.text.strip()}\n"


def summary(message: Message) -> str:
    """Return the kind of the message, the lesson that covers it, and its rule."""
    kind = "*No message.*" if message.silent else f"*{message.kind}*."
    said = f"{kind} Lesson `{message.lesson}` covers it."
    if not message.rule:
        return said
    return f"{said}\n`diagnose` reports this mistake as `{message.rule}`."


def contents() -> str:
    """Return one table of messages for each family."""
    return "\n\n".join(_table(family) for family in FAMILIES)


def _table(family: str) -> str:
    rows = [
        f"| {m.patterns[0].replace('|', chr(92) + '|')} | `{m.name}` | {m.lesson} |"
        for m in MESSAGES.values()
        if m.family == family
    ]
    says = "What you see" if family == FAMILIES[-1] else "Message"
    head = f"| {says} | Page | Lesson |\n| --- | --- | --- |"
    title = f"**{family[0].upper()}{family[1:]}**"
    return "\n".join([title, "", head, *rows])
