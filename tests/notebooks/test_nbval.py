"""`pytest --nbval` without further arguments, typed in the root, runs every notebook."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from repository import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.checkout]

FOLDERS = ("notebooks", "solutions", "exercises")


def run_pytest(*options: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run pytest as a person would. It does not inherit the options and workers of this run."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def collected(*options: str, folder: str = ".") -> set[str]:
    """Return the ids of the items that pytest collects in a folder of the repository."""
    ran = run_pytest(*options, "--collect-only", "-q", folder=ROOT / folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return {line for line in ran.stdout.splitlines() if "::" in line}


def cells(*beginnings: str) -> set[str]:
    """Return the ids of the code cells in all committed notebooks below a path."""
    command = ["git", "ls-files", *(f"{beginning}*.ipynb" for beginning in beginnings)]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {
        f"{name}::Cell {number}"
        for name in listed.stdout.splitlines()
        for number, _ in enumerate(
            cell
            for cell in nbformat.read(ROOT / name, as_version=4).cells
            if cell.cell_type == "code"
        )
    }


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "folder", "expected"),
    [
        (["--nbval"], ".", [f"{folder}/" for folder in FOLDERS]),
        (["--nbval-lax"], ".", [f"{folder}/" for folder in FOLDERS]),
        (["--nbval", "notebooks"], ".", ["notebooks/"]),
        (["--nbval"], "exercises", ["exercises/"]),
        (["--nbval", "../solutions/01_template.ipynb"], "tests", ["solutions/01_template"]),
    ],
    ids=["--nbval", "--nbval-lax", "a folder", "in a folder", "one notebook"],
)
def test_the_code_cells_of_the_notebooks_are_all_that_is_run(
    options: list[str], folder: str, expected: list[str]
) -> None:
    assert collected(*options, folder=folder) == cells(*expected)


@pytest.mark.thorough
def test_without_nbval_the_tests_are_all_that_is_run() -> None:
    found = collected()

    assert {item.partition("/")[0] for item in found} == {"packages", "tests"}
    assert any(item.startswith("tests/notebooks/test_nbval.py") for item in found)


def test_a_cell_runs_in_the_python_that_runs_pytest(tmp_path: Path) -> None:
    """The kernel that a notebook names may belong to a different project, or may not exist."""
    cell = nbformat.v4.new_code_cell(
        "import sys\nprint(sys.prefix)",
        execution_count=1,
        outputs=[nbformat.v4.new_output("stream", text=f"{sys.prefix}\n")],
    )
    kernel = {"name": "of-another-project", "display_name": "Another project"}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    nbformat.write(notebook, tmp_path / "one.ipynb")

    ran = run_pytest("--nbval", f"--config-file={ROOT}/pyproject.toml", folder=tmp_path)

    assert "1 passed" in ran.stdout, ran.stdout
