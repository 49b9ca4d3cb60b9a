"""The command ``autograd-course``.

Exit codes: 0 done, 1 could not be done, 2 not understood (an unknown name or option). ``check`` has
its own, where 1 is a verdict.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from autograd_course.check.command import EPILOG, check
from autograd_course.classroom import command as classroom
from autograd_course.lab.folder import FIRST_NOTEBOOK, LabError, course_folder, notebook_in

app = typer.Typer(
    help="Write, test and trust custom autograd Functions in PyTorch.",
    epilog="Exit codes: 0 done, 1 could not be done, 2 not understood.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(epilog=EPILOG)(check)
app.add_typer(classroom.app, name="classroom")
# A URL or a file name must stay in one piece: nothing here is wrapped, colored or read as markup.
_out = Console(soft_wrap=True, highlight=False, markup=False)
_err = Console(soft_wrap=True, highlight=False, markup=False, stderr=True)


def _fail(message: str, code: int) -> NoReturn:
    _err.print(message)
    raise typer.Exit(code)


def _wants_browser(no_browser: bool) -> bool:
    return not no_browser and os.environ.get("BROWSER", "").lower() != "none"


@app.callback()
def course() -> None:
    """Write, test and trust custom autograd Functions in PyTorch."""


@app.command()
def lab(
    notebook: Annotated[
        Path, typer.Option(help="The notebook to open, relative to here or to the course folder.")
    ] = FIRST_NOTEBOOK,
    port: Annotated[
        int,
        typer.Option(
            envvar="PORT",
            min=0,
            max=65535,
            help="Where to serve; if it is taken, the next free port. 0: any.",
        ),
    ] = 8888,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address; so does BROWSER=none.")
    ] = False,
) -> None:
    """Open the course in JupyterLab, served to this machine only."""
    if find_spec("jupyterlab") is None:
        _fail("JupyterLab is not installed. Run: pip install 'autograd-course[lab]'", 1)
    from autograd_course.lab.launcher import serve

    try:
        folder = course_folder(Path.cwd())
    except LabError as error:
        _fail(str(error), 1)
    try:
        opened = notebook_in(folder, notebook)
    except LabError as error:
        raise typer.BadParameter(str(error), param_hint="--notebook") from None
    serve(folder, opened, port=port, open_browser=_wants_browser(no_browser), say=_out.print)


@app.command()
def status() -> None:
    """Show which exercises are passed and which points they gave."""
    from autograd_course.grader import progress

    _out.print(str(progress()))


@app.command()
def hint(
    exercise: Annotated[str, typer.Argument(help="The id of an exercise, as in: square.")],
) -> None:
    """Give the next hint for an exercise."""
    from autograd_course.grader.exercises import UnknownExerciseError, find
    from autograd_course.grader.hints import hint as next_hint

    try:
        known = find(exercise)
    except UnknownExerciseError as unknown:
        raise typer.BadParameter(str(unknown), param_hint="EXERCISE") from None
    _out.print(str(next_hint(known.id)))


@app.command()
def explain(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="The name of a rule, as a diagnosis prints it, or the text of an error message; "
            "- reads a traceback from standard input; none: list all."
        ),
    ] = None,
) -> None:
    """Say what a rule of the diagnosis or an error message means, and what is right instead."""
    from autograd_course.explaining import NothingToExplainError
    from autograd_course.explaining import explain as explanation

    asked = sys.stdin.read() if what == ["-"] else " ".join(what or ())
    try:
        _show(str(explanation(asked)))
    except NothingToExplainError as unknown:
        raise typer.BadParameter(str(unknown), param_hint="WHAT") from None


def _show(markdown: str) -> None:
    """Print Markdown: laid out in a terminal, as it is where it is piped on."""
    if not _out.is_terminal:
        return _out.print(markdown)
    from rich.markdown import Markdown

    return Console().print(Markdown(markdown))


if __name__ == "__main__":
    app()
