"""The two generated parts of every notebook: the link to Colab and the setup cell."""

from __future__ import annotations

from pathlib import PurePosixPath

import nbformat

from tools.percent import Cell, Source
from tools.settings import Settings

_BADGE_IMAGE = "https://colab.research.google.com/assets/colab-badge.svg"
_LINK_START = "[Open in Colab]"

# The setup cell installs packages only if the course is missing. Colab's own torch and ipywidgets
# satisfy the course's lower bounds, so pip does not change them.
_SETUP = """\
# Install the course on Colab.
# Elsewhere `make lab` has done so, and this cell does nothing.
import sys

if "google.colab" in sys.modules:
    import importlib.util
    import subprocess

    from google.colab import output

    if importlib.util.find_spec("autograd_course") is None:
        address = "{address}"
        doctor = address + "#subdirectory=packages/autograd-doctor"
        course = "autograd-course{extra} @ " + address
        pip = [sys.executable, "-m", "pip", "install", "--quiet", doctor, course]
        subprocess.run(pip, check=True)
    output.enable_custom_widget_manager()"""


def refreshed(source: Source, place: PurePosixPath, settings: Settings) -> tuple[Cell, ...]:
    """Return the cells of a source with an updated link to Colab and an updated setup cell.

    ``place`` is the source's path in the repository. Add a missing link as the first line of the
    first Markdown cell. Insert a missing setup cell before all other code. JupyterLab hides the
    setup cell's code.
    """
    cells = list(source.cells)
    _refresh_link(cells, f"{_LINK_START}({_colab(place, settings)})")
    _refresh_setup(cells, _SETUP.format(address=settings.address, extra=_extra(source)))
    return tuple(cells)


def _extra(source: Source) -> str:
    """Return the extra in pyproject.toml that the notebook needs. Only lesson 15 needs an extra."""
    uses = any("require_packages()" in cell.source for cell in source.cells if cell.is_code)
    return "[ship]" if uses else ""


def badge(place: PurePosixPath, settings: Settings) -> str:
    """Return a badge in Markdown. The badge opens the notebook at ``place`` in Colab."""
    return f"[![Open In Colab]({_BADGE_IMAGE})]({_colab(place, settings)})"


def _colab(place: PurePosixPath, settings: Settings) -> str:
    return settings.colab_url(str(place.with_suffix(".ipynb")))


def _refresh_link(cells: list[Cell], line: str) -> None:
    for index, cell in enumerate(cells):
        if not cell.is_code:
            rest = cell.source
            if rest.startswith(_LINK_START):
                rest = rest.partition("\n")[2].lstrip("\n")
            cells[index] = cell.with_source(f"{line}\n\n{rest}")
            return


def _refresh_setup(cells: list[Cell], text: str) -> None:
    for index, cell in enumerate(cells):
        if "setup" in cell.tags:
            cells[index] = cell.with_source(text).folded()
            return
    first = next((index for index, cell in enumerate(cells) if cell.is_code), len(cells))
    node = nbformat.v4.new_code_cell(source=text, metadata={"tags": ["setup"]})
    cells.insert(first, Cell(node, line=1).folded())
