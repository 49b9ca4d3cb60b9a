"""The exit codes of the commands, and the lines about them in the help."""

from __future__ import annotations

from enum import IntEnum
from typing import NoReturn

import typer


class Exit(IntEnum):
    """The exit code of a command. Scripts may rely on these."""

    DONE = 0
    NOT_SO = 1
    NOT_UNDERSTOOD = 2
    NOT_EXAMINED = 3


MEANING = {
    Exit.DONE: "The command succeeded.",
    Exit.NOT_SO: "The command found an error or failed, or an exercise is not passed.",
    Exit.NOT_UNDERSTOOD: "The command line contains a mistake.",
    Exit.NOT_EXAMINED: "The command has no result, because diagnose or the grader failed.",
}
CODES = "Exit codes: 0 success; 1 failure; 2 invalid command."


def epilog(example: str, codes: str = CODES) -> str:
    """Return the end of a command's help: an example call and the exit codes."""
    return f"Example: autograd-course {example}\n\n{codes}"


def end(message: str, code: Exit = Exit.NOT_SO) -> NoReturn:
    """Print why the command ends, and end it."""
    typer.echo(message, err=True)
    raise typer.Exit(code)
