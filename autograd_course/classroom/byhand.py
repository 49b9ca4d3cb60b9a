"""The commands of ``classroom`` for verdicts that a person settles."""

from __future__ import annotations

import getpass
import os
from typing import Annotated

import typer

from autograd_course.classroom.elsewhere import Book, Student
from autograd_course.shell import completion
from autograd_course.shell.options import end

By = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Who gives the points. The default is your login name."),
]


def settle(
    gradebook: Book,
    student: Student,
    exercise: Annotated[
        str,
        typer.Argument(
            metavar="EXERCISE",
            help="The id of the exercise, for example square.",
            autocompletion=completion.exercises,
        ),
    ],
    points: Annotated[
        float | None,
        typer.Option(metavar="P", help="The points, from 0 to the points of the exercise."),
    ] = None,
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Tell the student why.")] = "",
    by: By = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take the points back. The grader's verdict counts.")
    ] = False,
) -> None:
    """Give an answer points by hand, whatever the grader's verdict is.

    The points and the comment stay when you grade again, and the student sees them.
    Run 'classroom report' afterwards to write the reports again.
    """
    from autograd_course.classroom.gradebook import Gradebook, GradebookError
    from autograd_course.classroom.reports.wording import by_hand

    if (points is None) != withdraw:
        raise typer.BadParameter("give either --points or --withdraw", param_hint="--points")
    try:
        with Gradebook.existing(gradebook) as book:
            score = book.settle(student, exercise, points, comment, by or login())
    except GradebookError as error:
        end(str(error))
    if score.settlement:
        worth = f"{score.points:g} of {score.possible:g} points"
        typer.echo(f"{student}, {exercise}: {worth}. {by_hand(score.settlement)}")
    else:
        worth = f" ({score.points:g} of {score.possible:g} points)" if score.is_counted else ""
        typer.echo(f"{student}, {exercise}: the grader's verdict counts: {score.outcome}{worth}.")


def login() -> str:
    """Return the name of who is logged in."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return f"user {os.getuid()}"
