"""Reduce saved outputs to the parts that are the same on every run."""

from __future__ import annotations

import re
from typing import Any

from nbformat import NotebookNode

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
UNSAVED = "nbval-ignore-output"

_COLOR = re.compile(r"\x1b\[[0-9;]*m")


def normalize(notebook: NotebookNode) -> None:
    """Modify an executed ``notebook`` in place: remove everything that differs from run to run.

    Remove live views of widgets, because without its kernel, a view would show an error instead of
    the saved picture. Remove traceback frames outside the notebook, because they contain paths.
    Remove the output of a cell with the tag ``nbval-ignore-output``, because it depends on the
    machine.
    """
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            kept = [] if UNSAVED in cell.metadata.get("tags", ()) else cell.outputs
            cell.outputs = _merged([_stripped(output) for output in kept])


def _stripped(output: NotebookNode) -> NotebookNode:
    for bundle in ("data", "metadata"):
        output.get(bundle, {}).pop(WIDGET_VIEW, None)
    if output.output_type == "error":
        output.traceback = [text for text in output.traceback if not _is_foreign_frame(text)]
    return output


def _is_foreign_frame(text: str) -> bool:
    return _COLOR.sub("", text).startswith("File ")


def _merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join consecutive outputs to the same stream. The boundaries between them depend on timing."""
    merged: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and merged and _same_stream(merged[-1], output):
            merged[-1].text += output.text
        elif _says_something(output):
            merged.append(output)
    return merged


def _same_stream(last: Any, output: Any) -> bool:
    return bool(last.output_type == "stream" and last.name == output.name)


def _says_something(output: Any) -> bool:
    return bool(output.get("data", True))
