"""Write the derived files, and execute the notebooks that have changed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from nbformat import NotebookNode

from autograd_course.practice.resetting import same_inputs
from tools.derived import SHEET, derive
from tools.execution import execute
from tools.notebooks import is_executed, keep_outputs, load, write
from tools.printing import is_current as is_printed
from tools.printing import print_pdf


def build(
    root: Path,
    *,
    only: Collection[str] = (),
    force: bool = False,
    run: Callable[[NotebookNode, Path], None] = execute,
    say: Callable[[str], None] = print,
) -> None:
    """Update all derived files of the course at ``root``.

    Execute a notebook if its code differs from the code of the built notebook, or if ``force`` is
    true. If only its text differs, the notebook keeps its outputs. ``only`` restricts execution to
    notebooks with these numbers, such as "01". ``run`` executes a notebook at a given path. The
    build calls ``say`` with a message about each file that it writes.
    """
    # A lesson's minutes depend on its outputs, and its text and the README state these minutes.
    while _build(root, only, force, run, say):
        force = False


def _build(
    root: Path,
    only: Collection[str],
    force: bool,
    run: Callable[[NotebookNode, Path], None],
    say: Callable[[str], None],
) -> bool:
    """Write the derived files. Return whether the outputs or the text of any notebook changed."""
    derived, changed = derive(root), False
    for path, text in derived.texts.items():
        write_text(path, text, root, say)
    if sheet := derived.texts.get(root / SHEET):
        _print(sheet, (root / SHEET).with_suffix(".pdf"), root, say)
    for path, notebook in derived.notebooks.items():
        wanted = not only or path.stem.partition("_")[0] in only
        forced, built = force and wanted, load(path)
        if not forced and is_current(built, notebook):
            continue
        if not forced and keep_outputs(notebook, built):
            write(notebook, path)
            say(f"wrote {path.relative_to(root)}")
        elif wanted:
            run(notebook, path)
            write(notebook, path)
            say(f"executed {path.relative_to(root)}")
        else:
            continue
        changed = changed or is_current(load(path), notebook)
    return changed


def is_current(built: NotebookNode | None, expected: NotebookNode) -> bool:
    """Return whether a built notebook has the same cells as ``expected`` and was executed."""
    return built is not None and same_inputs(built, expected) and is_executed(built)


def _print(sheet: str, pdf: Path, root: Path, say: Callable[[str], None]) -> None:
    if is_printed(pdf, sheet):
        return
    if print_pdf(sheet, pdf):
        say(f"printed {pdf.relative_to(root)}")
    else:
        say(f"left {pdf.relative_to(root)} as it was: there is no Chromium to print it with")


def write_text(path: Path, text: str, root: Path, say: Callable[[str], None]) -> None:
    """Write a derived file, unless the file already contains this text."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    say(f"wrote {path.relative_to(root)}")
