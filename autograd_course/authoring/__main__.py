"""``python -m autograd_course.authoring build | check``, run in the course's root folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from autograd_course.authoring.build import build
from autograd_course.authoring.check import drift
from autograd_course.authoring.errors import AuthoringError
from autograd_course.grader.exercises import CATALOGUE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 1 with the reason on standard error."""
    options = _parser().parse_args(arguments)
    points = {exercise.id: exercise.points for exercise in CATALOGUE.values()}
    root = Path.cwd()
    try:
        if options.command == "build":
            build(root, points, only=options.numbers, force=options.force)
            return 0
        problems = drift(root, points)
    except AuthoringError as error:
        problems = [str(error)]
    print(*problems, sep="\n", file=sys.stderr, end="\n" if problems else "")
    return int(bool(problems))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m autograd_course.authoring")
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="write everything derived, execute what changed")
    building.add_argument("numbers", nargs="*", help="execute only these, as in 01 02")
    building.add_argument("--force", action="store_true", help="execute unchanged notebooks too")
    commands.add_parser("check", help="compare everything derived with what its sources make")
    return parser


if __name__ == "__main__":
    sys.exit(main())
