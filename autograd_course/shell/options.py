"""Arguments and options that several commands share, and the exit codes of all commands."""

from __future__ import annotations

from typing import Annotated

import typer
from autograd_doctor.cli import Exit, end

from autograd_course.shell import completion

__all__ = ["CODES", "MEANING", "Exit", "end", "epilog"]


MEANING = {
    Exit.DONE: "The command succeeded.",
    Exit.NOT_SO: "The command found an error or failed, or an exercise was not passed.",
    Exit.NOT_UNDERSTOOD: "The command line contains a mistake.",
    Exit.NOT_EXAMINED: "The command has no result, because diagnose or the grader failed.",
}
CODES = "Exit codes: 0 success; 1 failure; 2 invalid command."


def epilog(example: str, codes: str = CODES) -> str:
    """Return the end of a command's help: an example call and the exit codes."""
    return f"Example: autograd-course {example}\n\n{codes}"


ExerciseId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The id of an exercise, for example square.",
        autocompletion=completion.exercises,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
