from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from colab import PYTHON, Machine
from colab.notebooks import setup_cell
from repository import ROOT


@pytest.fixture(scope="session")
def colab() -> None:
    """Require an environment with Colab's versions. In CI, it must exist."""
    if not PYTHON.exists() and os.environ.get("CI"):
        pytest.fail("Colab's versions are missing: run `make thorough`, which installs them.")
    if not PYTHON.exists():
        pytest.skip("no build/colab: `make build/colab/.installed` installs Colab's versions there")


@pytest.fixture(scope="session")
def machine(colab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Start a machine, and open a first notebook on it. Its setup cell installs the course."""
    machine = Machine(tmp_path_factory.mktemp("colab"))
    machine.says(setup_cell(ROOT / "notebooks" / "00_start_here.ipynb"))
    yield machine
    machine.close()
