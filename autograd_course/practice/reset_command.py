"""The command ``reset``: what it puts back, what it keeps, what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograd_course.practice.options import Exercises, TargetWord, target_or_exit
from autograd_course.practice.targets import SUFFIXES, Target
from autograd_course.shell.exits import Exit, end

if TYPE_CHECKING:
    from autograd_course.practice.resetting import Change


def reset(
    what: TargetWord,
    exercises: Exercises = None,
    progress: Annotated[
        bool,
        typer.Option("--progress", help="Also delete your results and the record of used hints."),
    ] = False,
) -> None:
    """Restore the original exercises of a lesson, and keep a copy of your version.

    Both the .py and the .ipynb file are restored.
    """
    from autograd_course.practice.resetting import put_back
    from autograd_course.practice.shipped import NotShippedError, shipped

    wanted = target_or_exit(what, exercises)
    if not wanted.lesson:
        end(
            f"{what} does not have the name of a lesson. Pass the lesson instead, for example 03.",
            Exit.NOT_UNDERSTOOD,
        )
    files = tuple(wanted.files[0].with_name(f"{wanted.lesson}{suffix}") for suffix in SUFFIXES)
    try:
        new = shipped(wanted.files[0].resolve().parents[1], wanted.lesson)
        changes = list(put_back(files, new, wanted.only))
    except NotShippedError as error:
        end(str(error), Exit.NOT_SO)
    except OSError as error:
        end(f"{error.filename} cannot be written: {error.strerror}.", Exit.NOT_SO)
    _tell(files, changes)
    _forget(wanted, progress)


def _tell(files: tuple[Path, ...], changes: list[Change]) -> None:
    changed = {change.path: change for change in changes}
    for path in files:
        if path not in changed:
            typer.echo(f"{path.name} is already the original.")
        elif kept := changed[path].kept:
            typer.echo(f"Restored {path.name}. Your version is saved as {kept.name}.")
        else:
            typer.echo(f"Restored {path.name}, which was missing.")


def _forget(wanted: Target, progress: bool) -> None:
    if not progress:
        typer.echo("Your progress is unchanged. Use --progress to delete it too.")
        return
    from autograd_course.grader import reset as forget
    from autograd_course.index import exercises_of

    ids = [exercise.id for exercise in exercises_of(wanted.lesson)]
    notes = {forget(each).note for each in wanted.only or ids}
    typer.echo(
        "; ".join(filter(None, notes)) or "Deleted the results and the record of used hints."
    )
