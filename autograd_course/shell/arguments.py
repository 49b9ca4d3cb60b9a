"""Arguments and options that several commands share, with their help texts."""

from __future__ import annotations

from typing import Annotated

import typer

from autograd_course.shell import completing

ExerciseId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The id of an exercise, for example square.",
        autocompletion=completing.exercises,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
