"""Print the command's output: progress bars, messages, and the results for each exercise."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from autograd_classroom.gradebook import Problem, Tally
from autograd_classroom.gradebook.naming import first

_WIDE = 120  # characters per line if the terminal's width is unknown
_NAMED = 10  # maximum number of ungraded files to list here; the reports list all of them
_STATUSES = {
    "passed": "passed",
    "wrong": "wrong",
    "not attempted": "not attempted",
    "grader failed": "grader failed",
    "settled": "settled",
    "": "not graded",
}


@contextmanager
def progress() -> Iterator[Progress]:
    """Show progress bars on standard error, but only if standard error is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as shown:  # fmt: skip
        yield shown


def summary(tallies: Iterable[Tally]) -> Table:
    """Return a table with a row for each exercise. Omit rare statuses that do not occur."""
    known = list(tallies)
    rare = {"grader failed", "settled", ""} - {
        s for t in known for s, count in t.counts.items() if count
    }
    statuses = [status for status in _STATUSES if status not in rare]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("exercise", no_wrap=True)
    for status in statuses:
        table.add_column(_STATUSES[status], justify="right", no_wrap=True)
    table.add_column("most frequent")
    for tally in known:
        counts = [str(tally.counts.get(status, 0)) for status in statuses]
        table.add_row(tally.exercise, *counts, _frequent(tally))
    return table


def _frequent(tally: Tally) -> str:
    if tally.rule_ties:
        return f"{tally.rule} and {tally.rule_ties} more ({tally.rule_count} each)"
    return f"{tally.rule} ({tally.rule_count})" if tally.rule else ""


def remarks(problems: Iterable[Problem]) -> Iterator[str]:
    """Yield a line for each of the first problems and a line with the number of other problems."""
    known = list(problems)
    for problem in known[:_NAMED]:
        yield f"{problem.source}: {problem.message}"
    if len(known) > _NAMED:
        yield f"… and {len(known) - _NAMED} more: results.json has all remarks on files."


def say(text: str = "") -> None:
    """Print a line to standard output, unless the output pipe is closed.

    For example, ``| head`` closes the pipe early. The command then continues, because it also
    writes its results to files.
    """
    try:
        typer.echo(text)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def say_ignored(names: Sequence[str]) -> None:
    """Print the names of the files that the command does not read, if there are any."""
    if names:
        say(f"ignored: {first(names)}. Only notebooks, scripts and zip files are read.")


def say_next(gradebook: Path) -> None:
    """Print the command that brings all reports up to date with the gradebook."""
    say(f"Next: autograd-course classroom report {shlex.quote(str(gradebook))} --format all")


def show(table: Table) -> None:
    """Print a table to standard output. In a terminal, the table adapts to the terminal's width."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDE
    with console.capture() as caught:
        console.print(table)
    lines = (line.rstrip() for line in caught.get().splitlines())
    say("\n".join(lines))
