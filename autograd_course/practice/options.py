"""What the commands on exercise files have in common: their target."""

from __future__ import annotations

from typing import Annotated

import typer

from autograd_course.practice.targets import Target, TargetError, target
from autograd_course.shell import completing

TargetWord = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A lesson's number, an exercise's id, or a file: .py or .ipynb.",
        autocompletion=completing.targets,
    ),
]
Exercises = Annotated[
    list[str] | None,
    typer.Option(
        "--exercise",
        "--exercises",
        metavar="ID",
        help="Only this exercise; repeatable.",
        autocompletion=completing.exercises,
    ),
]


def target_or_exit(what: str, exercises: list[str] | None) -> Target:
    """Return what is named; where nothing is, the command ends."""
    try:
        return target(what, exercises or ())
    except TargetError as error:
        raise typer.BadParameter(str(error), param_hint="TARGET") from None
