"""Compare the contents of the derived files with the files on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from autograd_course.practice.resetting import KEPT, same_inputs
from tools.derived import FOLDERS, SHEET, Derived, derive
from tools.notebooks import is_executed, load
from tools.printing import is_current

REPAIR = "run `make notebooks`"


def drift(root: Path) -> list[str]:
    """Return one line for each derived file that is out of date. An empty list means success.

    Do not compare outputs, because this would require executing the notebooks. ``make test``
    compares them with nbval.
    """
    derived = derive(root)
    problems = [
        *_texts(derived),
        *_print(root, derived),
        *_notebooks(derived),
        *_strays(root, derived),
    ]
    return [problem.replace(f"{root}/", "") for problem in problems]


def _texts(derived: Derived) -> Iterator[str]:
    for path, text in derived.texts.items():
        if not path.exists():
            yield f"{path} is missing: {REPAIR}"
        elif path.read_text(encoding="utf-8") != text:
            yield f"{path} differs from what its source makes of it: {REPAIR}"


def _print(root: Path, derived: Derived) -> Iterator[str]:
    sheet, pdf = root / SHEET, (root / SHEET).with_suffix(".pdf")
    if sheet in derived.texts and not is_current(pdf, derived.texts[sheet]):
        yield f"{pdf} was not printed from {sheet.name}: {REPAIR} where Chromium is installed"


def _notebooks(derived: Derived) -> Iterator[str]:
    for path, expected in derived.notebooks.items():
        built = load(path)
        if problem := _notebook_problem(built, expected):
            yield f"{path} {problem}: {REPAIR}"


def _notebook_problem(built: NotebookNode | None, expected: NotebookNode) -> str:
    if built is None:
        return "is missing, or no notebook"
    if not same_inputs(built, expected):
        return f"differs from the .py next to it{_first_difference(built, expected)}"
    return "" if is_executed(built) else "was not executed from top to bottom"


def _first_difference(built: NotebookNode, expected: NotebookNode) -> str:
    for number, (ours, theirs) in enumerate(zip(built.cells, expected.cells, strict=False), 1):
        if ours.source != theirs.source:
            return f" from cell {number} on"
    return ""


def _strays(root: Path, derived: Derived) -> Iterator[str]:
    known = derived.texts.keys() | derived.notebooks.keys()
    for folder in FOLDERS:
        for path in sorted((root / folder).glob("*")):
            passed_over = path.name.startswith((".", "__")) or KEPT in path.name
            if path not in known and not passed_over:
                yield f"{path} belongs to no source: remove it, or add what it is built from"
