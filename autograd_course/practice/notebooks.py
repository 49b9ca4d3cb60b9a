"""Notebooks compared without what running them leaves behind."""

from __future__ import annotations

import copy

from nbformat import NotebookNode


def same_inputs(notebook: NotebookNode, other: NotebookNode) -> bool:
    """Whether two notebooks are equal but for outputs and execution counts."""
    return _inputs(notebook) == _inputs(other)


def _inputs(notebook: NotebookNode) -> NotebookNode:
    inputs = copy.deepcopy(notebook)
    for cell in inputs.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return inputs
