"""Run all lessons and solved exercises on Colab, as a reader does. ``make colab`` runs this.

This is separate from ``make test``, which runs the same cells on the installed versions.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from colab import Machine
from colab.notebooks import differences
from repository import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb")) + sorted(
    (ROOT / "solutions").glob("*.ipynb")
)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_notebook_shows_what_it_shows_elsewhere(path: Path, machine: Machine) -> None:
    saved = nbformat.read(path, as_version=4)

    assert not differences(saved, machine.executed(path))
