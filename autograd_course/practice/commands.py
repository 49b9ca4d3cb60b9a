"""The commands ``grade``, ``watch`` and ``reset``: their arguments, output and exit codes."""

from __future__ import annotations

import json as jsonlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from autograd_course.practice.targets import SUFFIXES, Target, TargetError, target
from autograd_course.shell import completion
from autograd_course.shell.importing import importing
from autograd_course.shell.options import Exit, Json, end

if TYPE_CHECKING:
    from autograd_course.practice.resetting import Change
    from autograd_course.practice.running import Graded


TargetWord = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A lesson number, an exercise id, or the path of a .py or .ipynb file.",
        autocompletion=completion.targets,
    ),
]
Exercises = Annotated[
    list[str] | None,
    typer.Option(
        "--exercise",
        "--exercises",
        metavar="ID",
        help="Select only this exercise. You can repeat this option.",
        autocompletion=completion.exercises,
    ),
]


def target_or_exit(what: str, exercises: list[str] | None) -> Target:
    """Return the target that the user named, or exit with an error message if it does not exist."""
    try:
        return target(what, exercises or ())
    except TargetError as error:
        raise typer.BadParameter(str(error), param_hint="TARGET") from None


GRADED = "Exit codes: 0 all passed; 1 not all passed; 2 invalid command; 3 the grader failed."


def grade(
    what: TargetWord,
    exercises: Exercises = None,
    json: Json = False,
) -> None:
    """Grade the answers in an exercise file.

    If a lesson has both a .py and an .ipynb file, the newer file is graded.
    The results are saved in your progress, as in a notebook.
    The output of your own code goes to stderr.
    """
    wanted = target_or_exit(what, exercises)
    path = _latest(wanted)
    results = []
    for result in _results(path, wanted):
        results.append(result)
        if result.printed:
            typer.echo(result.printed, err=True, nl=not result.printed.endswith("\n"))
        if not json:
            _show(result)
    if json:
        typer.echo(_document(path, results))
    else:
        typer.echo(_summary(path, results))
    raise typer.Exit(_code(results))


def watch(what: TargetWord, exercises: Exercises = None) -> None:
    """Grade an exercise file every time you save it.

    The screen shows the first exercise that you have not passed.
    Press n or p for the next or previous exercise, h for a hint,
    l for a list of all exercises, and q to quit.
    If the output is not a terminal, each verdict is printed once.
    """
    wanted = target_or_exit(what, exercises)
    _latest(wanted)
    seen = sys.stdout.isatty()
    if seen:
        typer.echo("Importing PyTorch …")
    with importing():
        from autograd_course.practice.terminal import Lines, NoKeys, keyboard, screen
        from autograd_course.practice.watching import Watch

    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _interrupt)
    try:
        if seen:
            with keyboard() as keys, screen() as face:
                Watch(wanted, keys, face).run()
        else:
            Watch(wanted, NoKeys(), Lines()).run()
    except KeyboardInterrupt:
        pass
    if seen:
        typer.echo(
            "Your answers are in your file. Run autograd-course status to see your progress."
        )


def _results(path: Path, wanted: Target) -> Iterator[Graded]:
    """Yield the result for each answer, or exit with an error message if the file is unreadable."""
    with importing():
        from autograd_course.notebook_files import UnreadableError
        from autograd_course.practice.reading import reading
        from autograd_course.practice.running import Grading

    try:
        found = reading(path, path.read_bytes(), wanted)
    except (UnreadableError, TargetError) as error:
        end(f"{path.name} cannot be graded: {error}", Exit.NOT_UNDERSTOOD)
    except OSError as error:
        end(f"{path} cannot be read: {error.strerror}.", Exit.NOT_UNDERSTOOD)
    for sentence in found.broken:
        typer.echo(f"{path.name}: {sentence}", err=True)
    for task in found.tasks:
        grading = Grading(task)
        try:
            while (result := grading.wait(1.0)) is None:
                pass
            yield result
        finally:
            grading.stop()


def _show(result: Graded) -> None:
    if sys.stdout.isatty():
        console = Console(soft_wrap=True)
        console.print(result.rich(console.width), "")
    else:
        typer.echo(f"{result.text}\n")


def _summary(path: Path, results: list[Graded]) -> str:
    passed = [result for result in results if result.passed]
    points, possible = (sum(r.points for r in results), sum(r.possible for r in results))
    counted = f"{len(passed)} of {len(results)} passed · {points} of {possible} points"
    return f"{path.name} · {counted}"


def _document(path: Path, results: list[Graded]) -> str:
    document: dict[str, Any] = {"file": str(path), "exercises": [r.to_dict() for r in results]}
    return jsonlib.dumps(document, indent=2, ensure_ascii=False)


def _code(results: list[Graded]) -> Exit:
    if any(result.status == "grader failed" for result in results):
        return Exit.NOT_EXAMINED
    return Exit.DONE if all(result.passed for result in results) else Exit.NOT_SO


def _latest(wanted: Target) -> Path:
    path = wanted.latest
    assert path is not None, "a target is found only where one of its files is"
    return path


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def reset(
    what: TargetWord,
    exercises: Exercises = None,
    progress: Annotated[
        bool,
        typer.Option("--progress", help="Also delete your results and the list of used hints."),
    ] = False,
) -> None:
    """Restore the original exercises of a lesson, and keep a copy of your version.

    Both the .py and the .ipynb file are restored.
    """
    from autograd_course.practice.resetting import NotShippedError, put_back, shipped

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
    typer.echo("; ".join(filter(None, notes)) or "Deleted the results and the list of used hints.")
