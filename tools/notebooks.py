"""Convert cells to an .ipynb file with metadata, stable cell ids, and reproducible bytes."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.percent import Cell

_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}


def unexecuted(cells: Iterable[Cell]) -> NotebookNode:
    """Return a notebook with ``cells`` and without outputs.

    The cell ids depend only on the cells.
    """
    notebook: NotebookNode = nbformat.v4.new_notebook(metadata=copy.deepcopy(_METADATA))
    seen: Counter[str] = Counter()
    for cell in cells:
        node = copy.deepcopy(cell.node)
        node.metadata.pop("lines_to_next_cell", None)  # layout of the .py file, not needed here
        node.id = _cell_id(cell, seen)
        notebook.cells.append(node)
    return notebook


def _cell_id(cell: Cell, seen: Counter[str]) -> str:
    """Return the exercise's id, or a hash for other cells. Unchanged cells keep their ids."""
    grade_id = (cell.nbgrader or {}).get("grade_id")
    if grade_id is not None:
        return str(grade_id)
    text = f"{cell.node.cell_type}\n{cell.source}"
    seen[text] += 1
    return hashlib.sha256(f"{seen[text]}\n{text}".encode()).hexdigest()[:8]


def load(path: Path) -> NotebookNode | None:
    """Return the notebook at ``path``, or None if it cannot be read as a notebook."""
    try:
        notebook: NotebookNode = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    except (FileNotFoundError, nbformat.reader.NotJSONError, nbformat.ValidationError):
        return None
    return notebook


def write(notebook: NotebookNode, path: Path) -> None:
    """Write ``notebook`` to a file. Equal notebooks result in equal bytes."""
    nbformat.validate(notebook)
    text = nbformat.writes(notebook).rstrip("\n") + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")


def is_executed(notebook: NotebookNode) -> bool:
    """Return whether every code cell has been run exactly once, from top to bottom."""
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    return counts == list(range(1, len(counts) + 1))


def keep_outputs(notebook: NotebookNode, built: NotebookNode | None) -> bool:
    """Copy the outputs of a built notebook.

    Return False if the built notebook is missing, was not executed, or has different code.
    """
    if built is None:
        return False
    ours, theirs = (
        [cell for cell in each.cells if cell.cell_type == "code"] for each in (notebook, built)
    )
    same = [(cell.source, cell.metadata) for cell in ours] == [
        (cell.source, cell.metadata) for cell in theirs
    ]
    if not (same and is_executed(built)):
        return False
    for cell, old in zip(ours, theirs, strict=True):
        cell.outputs, cell.execution_count = old.outputs, old.execution_count
    return True
