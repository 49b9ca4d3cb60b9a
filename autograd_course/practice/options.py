"""Arguments that the commands on exercise files share."""

from __future__ import annotations

from typing import Annotated

import typer

from autograd_course.practice.targets import Target, TargetError, target
from autograd_course.shell import completing

TargetWord = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A lesson number, an exercise id, or the path of a .py or .ipynb file.",
        autocompletion=completing.targets,
    ),
]
Exercises = Annotated[
    list[str] | None,
    typer.Option(
        "--exercise",
        "--exercises",
        metavar="ID",
        help="Select only this exercise. You can repeat this option.",
        autocompletion=completing.exercises,
    ),
]


def target_or_exit(what: str, exercises: list[str] | None) -> Target:
    """Return what is named; where nothing is, the command ends."""
    try:
        return target(what, exercises or ())
    except TargetError as error:
        raise typer.BadParameter(str(error), param_hint="TARGET") from None
