"""The ``classroom`` commands for nbgrader and Gradescope, and the command ``classroom again``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from autograd_course.folders import COURSE
from autograd_course.shell import completion
from autograd_course.shell.options import ExerciseId, end

if TYPE_CHECKING:
    from autograd_course.index import Entry

Exercises = Annotated[
    list[str] | None,
    typer.Option(
        "--exercises",
        "--exercise",
        metavar="03,square",
        help="Include these lessons and exercises. The default is all exercises.",
        autocompletion=completion.lessons_and_exercises,
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run the answers without a sandbox. Use this option only for code that you trust.",
    ),
]
Book = Annotated[
    Path, typer.Argument(metavar="GRADEBOOK", help="Gradebook written by 'classroom grade'.")
]
Student = Annotated[
    str, typer.Argument(metavar="STUDENT", help="The student's name as shown in the reports.")
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE.toml",
        help="Use the weights and deadlines in this file. The gradebook remembers them.",
    ),
]
RosterFile = Annotated[
    Path | None,
    typer.Option(
        "--roster",
        metavar="students.csv",
        help="Read the students' names, ids, e-mail addresses and groups from this file. "
        "The gradebook remembers them.",
    ),
]
_REPOSITORY = COURSE.parent


class WithExercises(TyperCommand):
    """A command with the option ``--exercises``. Its users often separate exercises with spaces."""

    allow_extra_args = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. If it has too many arguments, say how to separate exercises."""
        named = any(word.startswith("--exercise") for word in args)
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            fix = ": separate exercises with commas, as in --exercises 01,03" if named else ""
            ctx.fail(f"too many arguments ({' '.join(rest)}){fix}.")
        return rest


def nbgrader(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="The folder to create. If an earlier run created it, the lessons are added to it.",
        ),
    ],
    exercises: Exercises = None,
    course: Annotated[Path, typer.Option(help="Use this copy of the course.")] = _REPOSITORY,
) -> None:
    """Create a course folder for nbgrader, with hidden tests and a configuration file.

    Then run these commands in that folder:
    nbgrader generate_assignment, autograde, generate_feedback and export.
    """
    from autograd_classroom.adapters.nbgrader.course import CourseFolderError, make_course
    from autograd_classroom.console import say

    try:
        made = make_course(folder, course, chosen_or_exit(exercises))
    except CourseFolderError as error:
        end(str(error))
    for path in made:
        say(f"wrote {path}")
    say(f"Next: cd {folder} && nbgrader generate_assignment {made[0].stem}")


def gradescope(
    target: Annotated[Path, typer.Argument(metavar="OUT.zip", help="The zip file to write.")],
    exercises: Exercises = None,
) -> None:
    """Write an autograder for Gradescope as a zip file."""
    from autograd_classroom.adapters.gradescope.zip_file import AutograderError, write_zip
    from autograd_classroom.console import say

    wanted = chosen_or_exit(exercises)
    try:
        write_zip(target, wanted)
    except AutograderError as error:
        end(str(error))
    points = sum(exercise.points for exercise in wanted)
    say(f"wrote {target}: upload it to Gradescope under Configure Autograder.")
    say(f"Enter {points} as the assignment's total points there.")


def again(
    gradebook: Book,
    student: Student,
    exercise: ExerciseId,
    trust: Trust = False,
) -> None:
    """Reproduce one verdict from the stored code and seed, and show the full diagnosis.

    The gradebook is not changed.
    """
    from autograd_classroom import appeal, classwork

    try:
        same = appeal.again(gradebook, student, exercise, trust=trust)
    except (*classwork.KNOWN, appeal.NoVerdictError) as error:
        end(str(error))
    raise typer.Exit(0 if same else 1)


def chosen_or_exit(words: list[str] | None, option: str = "--exercises") -> tuple[Entry, ...]:
    """Return the requested exercises. Exit with an error message if one of them is unknown."""
    from autograd_classroom.grading.choosing import UnknownExercisesError, chosen

    try:
        return chosen(words or ())
    except UnknownExercisesError as unknown:
        raise typer.BadParameter(str(unknown), param_hint=option) from None
