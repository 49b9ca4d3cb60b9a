"""The course on Colab: what its setup cell does, and what a notebook shows.

All notebooks together take minutes, so ``make colab`` runs them. This file runs one notebook with a
widget, one with a grader, and those tests of the widgets that have the marker ``colab``.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import nbformat
import pytest
from colab import PYTHON, Machine
from colab.notebooks import differences, setup_cell
from packaging.requirements import Requirement
from repository import ROOT, SUPPORT

from tools.settings import read_settings

pytestmark = pytest.mark.thorough

PINS = (SUPPORT / "colab" / "requirements.txt").read_text(encoding="utf-8").splitlines()
PINNED = [Requirement(line) for line in PINS if not line.startswith("#")]
SHOWN = ("notebooks/00_start_here", "solutions/01_template")
WIDGETS = sorted(
    path
    for path in (ROOT / "tests" / "visualize").rglob("test_*.py")
    if "mark.colab" in path.read_text("utf-8")
)


def test_the_versions_are_those_of_colab(machine: Machine) -> None:
    names = [wanted.name for wanted in PINNED]
    found = machine.says(f"from importlib.metadata import version\nprint(*map(version, {names}))")

    assert found.split() == [str(wanted.specifier).removeprefix("==") for wanted in PINNED]


def test_the_first_setup_cell_installs_the_course_and_says_from_where(machine: Machine) -> None:
    (asked,) = machine.asked

    address = read_settings(ROOT).address
    doctor = f"{address}#subdirectory=packages/autograd-doctor"
    assert asked == ["install", "--quiet", doctor, f"autograd-course @ {address}"]
    assert (ROOT / "packages" / "autograd-doctor" / "pyproject.toml").is_file()


def test_run_again_it_does_nothing_and_says_nothing(machine: Machine) -> None:
    before = machine.asked

    assert machine.says(setup_cell(ROOT / "exercises" / "01_template.ipynb")) == ""
    assert machine.asked == before


def test_the_extra_is_asked_for_by_the_lesson_that_needs_it_alone() -> None:
    asking = {path.stem for path in ROOT.glob("*/*.ipynb") if "[ship]" in setup_cell(path)}

    assert asking == {"15_ship_it"}


def test_the_course_comes_from_the_wheel(machine: Machine) -> None:
    found = machine.says("import autograd_course\nprint(autograd_course.__file__)").strip()

    assert Path(found).is_relative_to(machine.site)


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_what_it_shows_elsewhere(name: str, machine: Machine) -> None:
    path = ROOT / f"{name}.ipynb"
    executed = machine.executed(path)
    checkups = [cell.outputs for cell in executed.cells if cell.source.endswith("\ncheckup()")]

    assert len(checkups) == (path.stem == "00_start_here")
    assert all("All set." in str(outputs) for outputs in checkups), checkups
    assert not differences(nbformat.read(path, as_version=4), executed)


@pytest.mark.usefixtures("colab")
@pytest.mark.timeout(900)
def test_the_widgets_hold_their_tests_there() -> None:
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "colab")
    # ipywidgets uses features that Python and traitlets have deprecated.
    command = [PYTHON, "-m", "pytest", *options, "-W", "ignore::DeprecationWarning", *WIDGETS]
    sources = os.pathsep.join(map(str, (ROOT, *ROOT.glob("packages/*/src"))))
    environment = {**os.environ, "PYTHONPATH": sources, "PYTEST_XDIST_WORKER": ""}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
    )

    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
