"""Arguments and options that several commands take, each with the one text that explains it."""

from __future__ import annotations

from typing import Annotated

import typer

from autograd_course.shell import completing

ExerciseId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The id of an exercise, as in: square.",
        autocompletion=completing.exercises,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
