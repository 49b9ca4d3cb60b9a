"""``python -m tools build | check | exercise | minutes | watch``, in the course's root folder."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import nbformat

from tools.build import build, write_text
from tools.bundle import WIDGETS, bundles
from tools.check import drift
from tools.derived import LESSONS, SOLUTIONS, exercise, lessons_of
from tools.errors import AuthoringError
from tools.headings import account_of_exercises
from tools.index import declared
from tools.lessons import account_of_course, warning
from tools.minutes import account
from tools.notebooks import load, unexecuted
from tools.percent import read, render

_INTERVAL = 0.2  # seconds between two checks of the sources


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return 0.

    If it fails, print the reason to standard error and return 1.
    """
    options = _parser().parse_args(arguments)
    root = Path.cwd()
    try:
        if options.command == "build":
            build(root, only=options.numbers, force=options.force)
            return 0
        if options.command == "watch":
            _watch(root)
            return 0
        if options.command == "minutes":
            _print_minutes(root, options.numbers)
            return 0
        if options.command == "exercise":
            source = exercise(root, f"{options.lesson}.py")
            notebook = nbformat.writes(unexecuted(source.cells))
            print(json.dumps({"script": render(source.cells), "notebook": notebook}))
            return 0
        problems = drift(root)
    except AuthoringError as error:
        problems = [str(error)]
    print(*problems, sep="\n", file=sys.stderr, end="\n" if problems else "")
    return int(bool(problems))


def _watch(root: Path) -> None:
    """Bundle the widgets each time one of their sources is saved, until the user presses Ctrl+C."""
    print(f"watching {WIDGETS}; Ctrl+C ends it", flush=True)
    known: dict[Path, int] = {}
    while True:
        with suppress(FileNotFoundError):  # an editor may replace the old file with a new one
            sources = (root / WIDGETS).glob("*/*.[jc]s*")
            saved = {path: path.stat().st_mtime_ns for path in sources}
            if saved != known:
                known = saved
                _bundle(root)
        time.sleep(_INTERVAL)


def _bundle(root: Path) -> None:
    try:
        for path, text in bundles(root).items():
            write_text(path, text, root, partial(print, flush=True))
    except AuthoringError as error:  # the file was only half written; the next save may be complete
        print(error, file=sys.stderr, flush=True)


def _print_minutes(root: Path, numbers: Sequence[str]) -> None:
    lessons = lessons_of(root)
    if not numbers:
        print(account_of_course(lessons))
    for lesson in lessons:
        if (not numbers or lesson.number in numbers) and (told := warning(lesson)):
            print(told, file=sys.stderr)
    exercises = declared(root)
    for path in sorted((root / LESSONS).glob("*.ipynb")):
        built = load(path)
        if built is not None and path.stem.partition("_")[0] in numbers:
            print(path.stem, account(built), sep="\n")
            if (solved := root / SOLUTIONS / f"{path.stem}.py").exists():
                print(account_of_exercises(read(solved), exercises))
            print()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools")
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="write everything derived, execute what changed")
    building.add_argument("numbers", nargs="*", help="execute only these, as in 01 02")
    building.add_argument("--force", action="store_true", help="execute unchanged notebooks too")
    commands.add_parser("check", help="compare everything derived with what its sources make")
    making = commands.add_parser("exercise", help="print an exercise's two files as JSON")
    making.add_argument("lesson", help="its name, as in 03_gradient_patterns")
    commands.add_parser("watch", help="bundle the widgets each time a source of theirs is saved")
    reading = commands.add_parser(
        "minutes",
        help="how long the built lessons take; with numbers, their sections and exercises",
    )
    reading.add_argument("numbers", nargs="*", help="only these lessons, as in 01 02")
    return parser


if __name__ == "__main__":
    sys.exit(main())
