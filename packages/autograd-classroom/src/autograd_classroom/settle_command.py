"""The ``classroom`` commands for awarding points by hand."""

from __future__ import annotations

import getpass
import os
from contextlib import nullcontext, suppress
from typing import Annotated

import typer

from autograd_classroom.adapter_commands import Book, Student
from autograd_course.shell import completion
from autograd_course.shell.options import end

By = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The person giving the points. The default is your login name."
    ),
]


def _total(typed: str) -> float:
    """Parse the points like the review page. Raises BadParameter."""
    from autograd_classroom.gradebook.settling import SettlingError, total_from

    try:
        return total_from(typed)
    except SettlingError as error:
        raise typer.BadParameter(str(error)) from None


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
        typer.Option(
            parser=_total,
            metavar="P",
            help="The total points for the answer, from 0 to the maximum for the exercise.",
        ),
    ] = None,
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Tell the student why.")] = "",
    by: By = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Withdraw the points, so that the verdict counts.")
    ] = False,
) -> None:
    """Award points for an answer manually, regardless of the grader's verdict.

    The points and the comment are kept when you grade again, and the student sees them.
    Afterwards, regenerate the reports with 'classroom report GRADEBOOK --format all'.
    """
    from autograd_classroom.console import say_next
    from autograd_classroom.gradebook import Gradebook, GradebookError
    from autograd_classroom.reports.wording import by_hand, out_of

    if (points is None) != withdraw:
        raise typer.BadParameter("give either --points or --withdraw", param_hint="--points")
    try:
        with Gradebook.existing(gradebook) as book:
            before = book.score_of(student, exercise).settlement
            score = book.settle(student, exercise, points, comment, by or login())
    except GradebookError as error:
        end(str(error))
    if before and score.settlement:
        typer.echo(f"This replaces: {out_of(before.points, score.possible)}. {by_hand(before)}")
    if score.settlement:
        worth = out_of(score.points, score.possible)
        typer.echo(f"{score.student}, {exercise}: {worth}. {by_hand(score.settlement)}")
    else:
        worth = f" ({out_of(score.points, score.possible)})" if score.is_counted else ""
        typer.echo(
            f"{score.student}, {exercise}: the grader's verdict counts: {score.outcome}{worth}."
        )
    say_next(gradebook)


def login() -> str:
    """Return the user's login name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user in a container may have no name
        return f"user {os.getuid()}"


def review(
    gradebook: Book,
    by: By = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Serve on this port. The default is a free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in your browser.")
    ] = True,
) -> None:
    """Review the answers in your browser and assign points manually.

    The page is only served to your own machine. Stop the command with Ctrl-C.
    """
    from autograd_classroom.console import say_next
    from autograd_classroom.gradebook import Gradebook, GradebookError
    from autograd_classroom.review import Review
    from autograd_classroom.review.server import opened

    try:
        Gradebook.existing(gradebook).close()
        server = Review(gradebook, by or login(), port)
    except GradebookError as error:
        end(str(error))
    except OSError as error:
        end(f"port {port} cannot be used ({error.strerror}): name another one with --port.")
    with server, opened(server.url) if browser else nullcontext():
        typer.echo(f"The review is at {server.url}")
        typer.echo("Stop it with Ctrl-C.")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    say_next(gradebook)
