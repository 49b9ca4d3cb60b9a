"""The command ``autograd-course`` and its subcommands.

Heavy modules are imported only when a command runs. This keeps ``--help`` and shell completion
fast.
"""

import os
import sys
from importlib import import_module
from importlib.metadata import version as installed
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from autograd_doctor.cli import check, check_epilog, show_markdown
from rich.console import Console

from autograd_course.lab.folder import FIRST_NOTEBOOK, LabError, course_folder, notebook_in
from autograd_course.practice import commands as practice
from autograd_course.practice.commands import reset
from autograd_course.shell import completion
from autograd_course.shell.options import ExerciseId, Json, end, epilog

CLASSROOM = "git+https://github.com/autograd-course/autograd_course#subdirectory=packages/autograd-classroom"
app = typer.Typer(
    help="Write, test and trust custom autograd Functions in PyTorch.",
    epilog=epilog(
        "status",
        "Exit codes: 0 success; 1 error found or command failed; 2 invalid command; 3 no result.",
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
# Do not wrap, color or interpret the text, so that URLs and file names stay intact.
_out = Console(soft_wrap=True, highlight=False, markup=False)


def _wants_browser(no_browser: bool) -> bool:
    return not no_browser and os.environ.get("BROWSER", "").lower() != "none"


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"autograd-course {installed('autograd-course')}")
        raise typer.Exit


@app.callback()
def course(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Write, test and trust custom autograd Functions in PyTorch."""


@app.command(epilog=epilog("lab --port 8899"))
def lab(
    notebook: Annotated[
        Path,
        typer.Option(
            help="Open this notebook. The path is relative to the current folder or to the "
            "course folder."
        ),
    ] = FIRST_NOTEBOOK,
    port: Annotated[
        int,
        typer.Option(
            envvar="PORT",
            min=0,
            max=65535,
            help="Serve on this port, or on the next free port if this port is in use. "
            "Use 0 for any free port.",
        ),
    ] = 8888,
    no_browser: Annotated[
        bool,
        typer.Option(
            "--no-browser",
            help="Print the address without opening a browser (same as BROWSER=none).",
        ),
    ] = False,
) -> None:
    """Open the course in JupyterLab. The server accepts connections only from this machine."""
    if find_spec("jupyterlab") is None:
        end("JupyterLab is not installed. Run: pip install 'autograd-course[lab]'")
    from autograd_course.lab.launcher import serve
    from autograd_course.learner.overview import overview
    from autograd_course.learner.store import load

    try:
        folder = course_folder(Path.cwd())
    except LabError as error:
        end(str(error))
    try:
        opened = notebook_in(folder, notebook)
    except LabError as error:
        raise typer.BadParameter(str(error), param_hint="--notebook") from None
    serve(
        folder,
        opened,
        lambda: overview(load().state),
        port=port,
        open_browser=_wants_browser(no_browser),
        say=_out.print,
    )


@app.command(epilog=epilog("status"))
def status() -> None:
    """Show which exercises you have passed and how many points you have."""
    from autograd_course.grader import progress

    _out.print(str(progress()))


app.command(epilog=epilog("grade 03 --exercise gelu", practice.GRADED))(practice.grade)
app.command(epilog=epilog("watch exercises/03_gradient_patterns.py"))(practice.watch)


@app.command(epilog=epilog("hint gelu"))
def hint(exercise: ExerciseId) -> None:
    """Show the next hint for an exercise."""
    from autograd_course.grader.hints import hint as next_hint
    from autograd_course.index import UnknownExerciseError, known

    try:
        entry = known(exercise)
    except UnknownExerciseError as unknown:
        raise typer.BadParameter(str(unknown), param_hint="ID") from None
    _out.print(str(next_hint(entry.id)))


app.command(epilog=epilog("reset 03 --exercise gelu"))(reset)


@app.command(epilog=epilog("explain wrong-arity"))
def explain(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WHAT",
            help="A rule name or the text of an error message. Use - to read a traceback from "
            "standard input. Without this argument, the command lists all rules and messages.",
            autocompletion=completion.explained,
        ),
    ] = None,
) -> None:
    """Explain a rule or an error message, and show how to fix the code."""
    from autograd_course.explaining import NothingToExplainError
    from autograd_course.explaining import explain as explanation

    asked = sys.stdin.read() if what == ["-"] else " ".join(what or ())
    try:
        show_markdown(str(explanation(asked)))
    except NothingToExplainError as unknown:
        raise typer.BadParameter(str(unknown), param_hint="WHAT") from None


app.command(epilog=check_epilog("autograd-course"))(check)


# The classroom is a separate package, because learners do not need it.
if find_spec("autograd_classroom"):
    app.add_typer(import_module("autograd_classroom.command").app, name="classroom")
else:

    @app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
    def classroom() -> None:
        """Grade the submissions of a class. It needs the package autograd-classroom."""
        end(f'The classroom is not installed. Run: pip install "{CLASSROOM}"')


@app.command(epilog=epilog("doctor-self", "Exit codes: 0 no problems found; 1 problems found."))
def doctor_self(
    json: Json = False,
) -> None:
    """Check your installation and show how to fix any problems."""
    from autograd_course.doctor_self import code, document, examine, report

    found = examine()
    _out.print(document(found) if json else report(found))
    raise typer.Exit(code(found))


if __name__ == "__main__":
    app()
