"""The commands of ``classroom`` for other people's platforms, and for one verdict made again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograd_course.shell import completing
from autograd_course.shell.arguments import ExerciseId
from autograd_course.shell.exits import end

if TYPE_CHECKING:
    from autograd_course.grader.exercise import Exercise

Exercises = Annotated[
    list[str] | None,
    typer.Option(
        "--exercises",
        "--exercise",
        metavar="03",
        help="A lesson, or ids of exercises (repeatable); by default all.",
        autocompletion=completing.lessons_and_exercises,
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run without a sandbox, where all code is your own: it can do whatever you can.",
    ),
]
_REPOSITORY = Path(__file__).parents[2]


def nbgrader(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder to make, for nbgrader to work in.")
    ],
    exercises: Exercises = None,
    course: Annotated[
        Path, typer.Option(help="Your copy of the course, with its solutions.")
    ] = _REPOSITORY,
) -> None:
    """Make a course folder for nbgrader: source notebooks with hidden tests, and a configuration.

    Then, in that folder: nbgrader generate_assignment, autograde, generate_feedback, export.
    """
    from autograd_course.classroom.nbgrader.course import CourseFolderError, make_course

    try:
        made = make_course(folder, course, chosen_or_exit(exercises))
    except CourseFolderError as error:
        end(str(error))
    for path in made:
        typer.echo(f"wrote {path}")
    typer.echo(f"Next: cd {folder} && nbgrader generate_assignment {made[0].stem}")


def gradescope(
    target: Annotated[Path, typer.Argument(metavar="OUT.zip", help="The autograder to write.")],
    exercises: Exercises = None,
) -> None:
    """Write an autograder for Gradescope: upload the zip under Configure Autograder."""
    from autograd_course.classroom.gradescope.autograder import AutograderError, write_zip

    wanted = chosen_or_exit(exercises)
    try:
        write_zip(target, wanted)
    except AutograderError as error:
        end(str(error))
    points = sum(exercise.points for exercise in wanted)
    typer.echo(f"wrote {target}: upload it to Gradescope under Configure Autograder.")
    typer.echo(f"The assignment has {points} points there.")


def again(
    gradebook: Annotated[
        Path, typer.Argument(metavar="GRADEBOOK", help="The gradebook that grade wrote.")
    ],
    student: Annotated[
        str, typer.Argument(metavar="STUDENT", help="The student, as the reports name them.")
    ],
    exercise: ExerciseId,
    trust: Trust = False,
) -> None:
    """Judge one answer again from the stored code and seed, and show the whole diagnosis.

    Nothing is recorded.
    """
    from autograd_course.classroom import appeal, classwork

    try:
        same = appeal.again(gradebook, student, exercise, trust=trust)
    except (*classwork.KNOWN, appeal.NoVerdictError) as error:
        end(str(error))
    raise typer.Exit(0 if same else 1)


def chosen_or_exit(words: list[str] | None) -> tuple[Exercise, ...]:
    """Return the exercises that are asked for; where one is unknown the command ends."""
    from autograd_course.classroom.grading.choosing import UnknownExercisesError, chosen

    try:
        return chosen(words or ())
    except UnknownExercisesError as unknown:
        raise typer.BadParameter(str(unknown), param_hint="--exercises") from None
