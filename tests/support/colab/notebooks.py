"""Compare the outputs of a notebook on Colab with the saved ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from tools.outputs import normalize


def setup_cell(notebook: Path) -> str:
    """Return the source of the notebook's setup cell."""
    cells = nbformat.read(notebook, as_version=4).cells
    (source,) = (cell.source for cell in cells if "setup" in cell.metadata.get("tags", ()))
    return source


def differences(saved: NotebookNode, executed: NotebookNode) -> list[str]:
    """Return the cells whose outputs differ from the outputs in the saved notebook.

    First, the outputs that the build does not save are removed from ``executed``.
    """
    normalize(executed)
    return [
        f"{now.source}\nsaved {_told(then)}\nhere  {_told(now)}"
        for then, now in zip(saved.cells, executed.cells, strict=True)
        if "nbval-ignore-output" not in now.metadata.get("tags", ()) and _told(then) != _told(now)
    ]


def _told(cell: NotebookNode) -> list[Any]:
    """Return a cell's outputs. All text is included, but images are only mentioned."""
    return [_output(output) for output in cell.get("outputs", ())]


def _output(output: NotebookNode) -> Any:
    if output.output_type == "stream":
        return output.name, output.text
    if output.output_type == "error":
        return output.ename, output.evalue
    return {kind: "image" in kind or said for kind, said in output.data.items()}
