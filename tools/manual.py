"""The reference page ``docs/command_line.md``, which is generated from the commands' help texts.

``python -m tools.manual`` prints the page, and ``make notebooks`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from autograd_doctor.cli import app as doctor

from autograd_course.cli import app
from autograd_course.shell.options import MEANING

_NAME = "autograd-course"
_INTRODUCTION = """\
# The command line

<!-- `make notebooks` writes this page from the help of the commands. Do not edit it. -->

This page lists the commands of `autograd-course` with their options, and at the end
`autograd-doctor run`, which [examines a whole program](programs.md). The package `autograd-doctor`
also has the commands `check` and `explain`. Its `check` has the same options as the one below. Its
`explain` knows the rules, but not PyTorch's error messages. Run `autograd-course COMMAND --help` to
print the description of a command in your terminal.

Run `autograd-course --install-completion` once to make your shell complete commands, exercise ids
and rule names.

## Exit codes

All commands use the same exit codes. For some commands, exit code 1 reports a result, such as a
wrong answer. Each command's help text explains its exit codes.

| Exit code | Meaning |
| --- | --- |"""


def page() -> str:
    """Return the reference page as Markdown."""
    return "\n".join([_INTRODUCTION, *_codes(), "", *_contents(), *_sections()]).rstrip() + "\n"


def _codes() -> Iterator[str]:
    yield from (f"| {code.value} | {meaning} |" for code, meaning in MEANING.items())


def _contents() -> Iterator[str]:
    yield from ("## Commands", "", "| Command | What it does |", "| --- | --- |")
    for called, command in _all():
        shown, anchor = called.removeprefix(f"{_NAME} "), called.replace(" ", "-")
        yield f"| [`{shown}`](#{anchor}) | {_first(command.help)} |"
    yield ""


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command of ``autograd-course`` that is not a group, with its full name."""
    yield from _below(typer.main.get_command(app), "")


def _all() -> Iterator[tuple[str, Any]]:
    yield from ((f"{_NAME} {words}", command) for words, command in commands())
    of_doctor: Any = typer.main.get_command(doctor)
    yield "autograd-doctor run", of_doctor.commands["run"]


def _below(group: Any, words: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        called = f"{words} {name}".strip()
        if hasattr(command, "commands"):
            yield from _below(command, called)
        else:
            yield called, command


def _sections() -> Iterator[str]:
    for called, command in _all():
        yield from (f"## {called}", "", *_paragraphs(command.help), "")
        yield from ("```", f"{called} {_usage(command)}".rstrip(), "```", "")
        if rows := [*map(_row, command.params)]:
            yield from ("| Argument or option | Meaning |", "| --- | --- |", *rows, "")
        yield from ("```text", command.epilog.strip(), "```", "")


def _first(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _paragraphs(text: str | None) -> Iterator[str]:
    """Yield the lines of a help text, without their indentation."""
    yield from (line.strip() for line in (text or "").strip().splitlines())


def _usage(command: Any) -> str:
    arguments = [_called(p) for p in command.params if p.param_type_name == "argument"]
    return " ".join(["[OPTIONS]", *arguments])


def _called(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _row(parameter: Any) -> str:
    help_text = (parameter.help or "").replace("|", "\\|")
    if parameter.param_type_name == "argument":
        return f"| `{parameter.metavar or parameter.name.upper()}` | {help_text} |"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = f" `{parameter.metavar}`" if parameter.metavar else ""
    return f"| {names}{value} | {help_text} |"


if __name__ == "__main__":
    print(page(), end="")
