"""``python -m tools.book states | stage FOLDER | light SITE | check SITE``, in the root."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.book.light import lighten
from tools.book.live import record
from tools.book.pages import Book, book
from tools.book.pages import found as course
from tools.book.site import problems
from tools.errors import AuthoringError

EXTRA = ".extra"  # the folder that Sphinx copies into the site unchanged


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return 0.

    If it fails, print the reasons to standard error and return 1.
    """
    options = _parser().parse_args(arguments)
    try:
        found = list(problems(options.folder)) if options.command == "check" else []
        if options.command == "states":
            print(*record(Path.cwd(), course(Path.cwd()).lessons), sep="\n")
        if options.command == "light":
            lighten(options.folder)
        if options.command == "stage":
            stage(book(Path.cwd()), Path.cwd(), options.folder)
    except AuthoringError as error:
        found = [str(error)]
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    return int(bool(found))


def stage(made: Book, root: Path, folder: Path) -> None:
    """Empty ``folder``, and write the Sphinx sources of the course at ``root`` into it."""
    shutil.rmtree(folder, ignore_errors=True)
    for place, text in made.texts.items():
        _opened(folder / place).write_text(text, encoding="utf-8", newline="\n")
    for place in made.copied:
        shutil.copyfile(root / place, _opened(folder / place))
    for name, text in made.scripts.items():
        _opened(folder / EXTRA / "live" / name).write_text(text, encoding="utf-8", newline="\n")


def _opened(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.book")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("states", help="run the lessons that show widgets, if their code is new")
    staging = commands.add_parser("stage", help="write what Sphinx is to read")
    staging.add_argument("folder", type=Path, help="it is emptied first")
    lightening = commands.add_parser("light", help="take out of a built site what no page needs")
    lightening.add_argument("folder", type=Path)
    checking = commands.add_parser("check", help="look through the links of a built site")
    checking.add_argument("folder", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
