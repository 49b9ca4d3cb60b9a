"""How commands end: their exit codes, the sentence before them, the last lines of their help."""

from __future__ import annotations

from enum import IntEnum
from typing import NoReturn

import typer


class Exit(IntEnum):
    """How a command ended; a script may rely on these."""

    DONE = 0
    NOT_SO = 1
    NOT_UNDERSTOOD = 2
    NOT_EXAMINED = 3


MEANING = {
    Exit.DONE: "done, and nothing is wrong",
    Exit.NOT_SO: "something is wrong or not passed, or could not be done",
    Exit.NOT_UNDERSTOOD: "what was typed is not understood",
    Exit.NOT_EXAMINED: "nothing can be said: the doctor or the grader could not do its work",
}
CODES = "Exit codes: 0 done; 1 could not be done; 2 not understood."


def epilog(example: str, codes: str = CODES) -> str:
    """Return what stands below a command's options: one call of it, and its exit codes."""
    return f"Example: autograd-course {example}\n\n{codes}"


def end(message: str, code: Exit = Exit.NOT_SO) -> NoReturn:
    """Say in a sentence why the command ends, and end it."""
    typer.echo(message, err=True)
    raise typer.Exit(code)
