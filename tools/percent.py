"""Convert notebook sources from py:percent text to cells with line numbers, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from tools.errors import AuthoringError

_HEADER = re.compile(r"# ?%%(\s|$)")
_INDENTED = re.compile(r"[^\S\n]+\S")


@dataclass(frozen=True)
class Cell:
    """A notebook cell, and the line in the source file at which its text begins (from 1)."""

    node: NotebookNode
    line: int

    @property
    def is_code(self) -> bool:
        """Whether this is a code cell."""
        return bool(self.node.cell_type == "code")

    @property
    def source(self) -> str:
        """The cell's text."""
        return str(self.node.source)

    @property
    def tags(self) -> tuple[str, ...]:
        """The cell's tags."""
        return tuple(self.node.metadata.get("tags", ()))

    @property
    def nbgrader(self) -> dict[str, object] | None:
        """The cell's nbgrader metadata, if it has any."""
        metadata = self.node.metadata.get("nbgrader")
        return None if metadata is None else dict(metadata)

    def with_source(self, source: str) -> Cell:
        """Return the cell with a different text."""
        return Cell(NotebookNode(self.node | {"source": source}), self.line)

    def folded(self) -> Cell:
        """Return the cell with its code collapsed. Readers click to see the code."""
        metadata = self.node.metadata | {"jupyter": {"source_hidden": True}}
        return Cell(NotebookNode(self.node | {"metadata": NotebookNode(metadata)}), self.line)


@dataclass(frozen=True)
class Source:
    """A py:percent file: its path and its cells."""

    path: Path
    cells: tuple[Cell, ...]


def parse(text: str, path: Path) -> Source:
    """Split ``text`` into cells. Raises AuthoringError if some text is outside all cells."""
    nodes = jupytext.reads(text, fmt="py:percent").cells
    headers = [n for n, line in enumerate(text.splitlines(), 1) if _HEADER.match(line)]
    if len(nodes) != len(headers):
        raise AuthoringError(
            path,
            1,
            f"{len(nodes)} cells but {len(headers)} lines '# %%'",
            "begin every cell, the first one too, with a line '# %%' of its own",
        )
    for node, line in zip(nodes, headers, strict=True):
        if node.cell_type == "code" and _INDENTED.match(node.source):
            raise AuthoringError(
                path,
                line + 1,
                "a cell of code begins with an indented line",
                "begin it at the margin: jupytext would write the cell's '# %%' indented too",
            )
    return Source(path, tuple(Cell(node, n + 1) for node, n in zip(nodes, headers, strict=True)))


def read(path: Path) -> Source:
    """Parse a py:percent file."""
    return parse(path.read_text(encoding="utf-8"), path)


def render(cells: Iterable[Cell]) -> str:
    """Return ``cells`` as canonical py:percent text, without a header or version numbers."""
    notebook = nbformat.v4.new_notebook(cells=[cell.node for cell in cells])
    notebook.metadata["jupytext"] = {"notebook_metadata_filter": "-all"}
    return str(jupytext.writes(notebook, fmt="py:percent"))
