"""The ``classroom`` command: its options, its messages and its exit codes."""

from __future__ import annotations

from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from autograd_classroom import adapter_commands, settle_command
from autograd_classroom.adapter_commands import (
    Book,
    Exercises,
    RosterFile,
    SettingsFile,
    Trust,
    WithExercises,
    chosen_or_exit,
)
from autograd_course.shell import completion
from autograd_course.shell.importing import importing
from autograd_course.shell.options import end, epilog

GRADED = "Exit codes: 0 everything graded; 1 a file or answer not graded; 2 invalid command."
WATCHED = "Exit codes: 0 stopped by you; 1 the folder cannot be graded; 2 invalid command."
AGAIN = "Exit codes: 0 same verdict; 1 different verdict; 2 invalid command."

app = typer.Typer(
    help="Grade the submissions of a class.",
    epilog=epilog("classroom grade homework --exercises 01", GRADED),
    no_args_is_help=True,
)


class Format(StrEnum):
    """The report formats, with the names that ``reports.files`` uses."""

    html = "html"
    csv = "csv"
    json = "json"
    junit = "junit"
    gradescope = "gradescope"
    canvas = "canvas"
    moodle = "moodle"
    all = "all"


Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Use this many worker processes. The default is one per core."),
]
NewBook = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Use this gradebook. The default is SUBMISSIONS-grades/gradebook.sqlite.",
    ),
]
_Reports = Annotated[
    Path | None, typer.Option("--reports", metavar="DIR", help="Write the reports to this folder.")
]


@app.command(cls=WithExercises, epilog=epilog("classroom grade homework --exercises 01", GRADED))
def grade(
    submissions: Annotated[
        Path,
        typer.Argument(
            metavar="SUBMISSIONS",
            help="The folder with the submissions, or a single submission file.",
        ),
    ],
    exercises: Exercises = None,
    jobs: Jobs = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="tcp://…", help="Grade on the workers of this Dask scheduler."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    gradebook: NewBook = None,
    reports: _Reports = None,
    settings: SettingsFile = None,
    roster: RosterFile = None,
    trust: Trust = False,
) -> None:
    """Grade submissions in a sandbox and write reports.

    Answers that are already graded and have not changed are skipped.
    The gradebook and the reports are written to SUBMISSIONS-grades, next to SUBMISSIONS.
    """
    from autograd_classroom.grading.prestart import prestart

    if not submissions.exists():
        missing = f"there is no folder {submissions}: name the one with the submissions."
        raise typer.BadParameter(missing, param_hint="SUBMISSIONS")
    with nullcontext() if dask else prestart(trust=trust) as template:
        with importing():
            from autograd_classroom import classwork
            from autograd_classroom.assignment import Assignment
            from autograd_classroom.paths import Places

        wanted = chosen_or_exit(exercises)
        try:
            places = Places.of(submissions, gradebook, reports)
            with classwork.executor(jobs, dask, template, trust=trust) as executor:
                about = Assignment.read(settings, roster)
                complete = classwork.grade(places, wanted, executor, about, resume=resume)
        except classwork.KNOWN as error:
            end(str(error))
    raise typer.Exit(0 if complete else 1)


@app.command(cls=WithExercises, epilog=epilog("classroom watch homework --exercises 01", WATCHED))
def watch(
    submissions: Annotated[
        Path, typer.Argument(metavar="SUBMISSIONS", help="The folder where submissions arrive.")
    ],
    exercises: Exercises = None,
    jobs: Jobs = None,
    gradebook: NewBook = None,
    reports: _Reports = None,
    settings: SettingsFile = None,
    roster: RosterFile = None,
    trust: Trust = False,
) -> None:
    """Grade submissions as they arrive, until you press Ctrl+C.

    The sandbox stays ready, so a new submission is graded in less than a second. The gradebook, the
    verdicts and the reports are the same as with 'classroom grade'.
    """
    from autograd_classroom.grading.prestart import prestart

    if not submissions.is_dir():
        missing = f"there is no folder {submissions}: name the one to which the submissions come."
        raise typer.BadParameter(missing, param_hint="SUBMISSIONS")
    with prestart(trust=trust) as template:
        with importing():
            from autograd_classroom import classwork, watching
            from autograd_classroom.assignment import Assignment
            from autograd_classroom.paths import Places

        wanted = chosen_or_exit(exercises)
        try:
            places = Places.of(submissions, gradebook, reports)
            with classwork.executor(jobs, None, template, trust=trust) as executor:
                about = Assignment.read(settings, roster)
                watching.watch(places, wanted, executor, about, watching.arrivals(submissions))
        except classwork.KNOWN as error:
            end(str(error))
        except KeyboardInterrupt:
            shown = classwork.short(places.gradebook)
            typer.echo(f"\nStopped. Every verdict so far is in {shown}.")


@app.command(epilog=epilog("classroom report homework-grades/gradebook.sqlite --format csv"))
def report(
    gradebook: Book,
    reports: _Reports = None,
    formats: Annotated[
        list[Format] | None,
        typer.Option(
            "--format", help="Write only this kind of report. You can repeat this option."
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="square",
            help="List the students who have not passed this exercise, and exit with code 1 if "
            "there are any. You can repeat this option.",
            autocompletion=completion.lessons_and_exercises,
        ),
    ] = None,
    settings: SettingsFile = None,
    roster: RosterFile = None,
) -> None:
    """Show the results for each exercise. With --format or --reports, write the reports again.

    With --format alone, the reports are written next to the gradebook.
    """
    from autograd_classroom import classwork
    from autograd_classroom.assignment import Assignment

    required = chosen_or_exit(require, "--require") if require else ()
    try:
        wanted = [each.value for each in formats or ()]
        about = Assignment.read(settings, roster)
        passed = classwork.report(gradebook, reports, wanted, required, about)
    except classwork.KNOWN as error:
        end(str(error))
    raise typer.Exit(0 if passed else 1)


_SETTLE = 'classroom settle homework-grades/gradebook.sqlite ann square --points 0.5 --comment "…"'
app.command(epilog=epilog(_SETTLE))(settle_command.settle)
app.command(epilog=epilog("classroom review homework-grades/gradebook.sqlite"))(
    settle_command.review
)
_AGAIN = epilog("classroom again homework-grades/gradebook.sqlite ann square", AGAIN)
app.command(epilog=_AGAIN)(adapter_commands.again)
app.command(cls=WithExercises, epilog=epilog("classroom nbgrader course --exercises 01"))(
    adapter_commands.nbgrader
)
app.command(cls=WithExercises, epilog=epilog("classroom gradescope autograder.zip"))(
    adapter_commands.gradescope
)
