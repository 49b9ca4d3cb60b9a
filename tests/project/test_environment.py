"""The course has the same set of packages, however it is installed."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from repository import ROOT

from tools.settings import read_settings

pytestmark = pytest.mark.checkout

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = ("autograd-classroom", "autograd-course", "autograd-doctor")
CLASSROOM = tomllib.loads((ROOT / "packages/autograd-classroom/pyproject.toml").read_text())
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())


def required() -> list[Requirement]:
    lines = {
        line
        for project in (PROJECT, CLASSROOM["project"])
        for group in (project["dependencies"], *project["optional-dependencies"].values())
        for line in group
    }
    requirements = [Requirement(line) for line in sorted(lines)]
    return [wanted for wanted in requirements if wanted.name not in OURS]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    split = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): pinned for name, pinned in split}


@pytest.mark.parametrize("wanted", required(), ids=str)
def test_every_dependency_is_pinned_within_its_bounds(wanted: Requirement) -> None:
    pinned = pins().get(canonicalize_name(wanted.name))

    assert pinned is not None, f"{wanted.name} has no pin; run `make constraints`"
    assert wanted.specifier.contains(pinned), f"{pinned} is outside {wanted}; `make constraints`"


@pytest.mark.parametrize("wanted", required(), ids=str)
def test_what_is_installed_is_what_is_pinned(wanted: Requirement) -> None:
    installed = Version(version(wanted.name)).public

    assert installed == pins()[canonicalize_name(wanted.name)], "reinstall: rm -r .venv; make test"


def test_pins_are_exact_public_versions() -> None:
    assert not [pin for pin in pins().values() if Version(pin).local or str(Version(pin)) != pin]


def conda(kind: type) -> list[Any]:
    return [entry for entry in CONDA["dependencies"] if isinstance(entry, kind)]


def test_conda_installs_the_same_project_with_the_same_pins() -> None:
    (from_pip,) = conda(dict)

    assert from_pip["pip"] == [
        "--constraint constraints.txt",
        "--editable packages/autograd-doctor",
        "--editable .[dev]",
        "--editable packages/autograd-classroom",
    ]
    assert CONDA["name"] == "autograd_course"


def test_conda_asks_for_the_same_python_and_leaves_the_rest_to_pip() -> None:
    requirements = [Requirement(entry) for entry in conda(str)]

    assert {wanted.name for wanted in requirements} == {"python", "pip"}
    assert requirements[0].specifier == SpecifierSet(PROJECT["requires-python"])


DEVCONTAINER = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())


def test_a_development_container_has_a_python_that_fits() -> None:
    found = re.fullmatch(
        r"mcr\.microsoft\.com/devcontainers/python:(3\.\d+)-\w+", DEVCONTAINER["image"]
    )

    assert found is not None
    assert SpecifierSet(PROJECT["requires-python"]).contains(found[1])


def test_a_development_container_is_set_up_by_the_makefile() -> None:
    make, target = DEVCONTAINER["postCreateCommand"].split()
    planned = subprocess.run(["make", "-n", "-B", target], cwd=ROOT, capture_output=True, text=True)

    assert make == "make"
    assert planned.returncode == 0, planned.stderr
    assert "--constraint constraints.txt --editable packages/autograd-doctor" in planned.stdout


def texts() -> list[Path]:
    """Return the text files in the repository."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    binary = {".npz", ".pdf", ".png"}
    return [
        path for name in listed.stdout.splitlines() if (path := ROOT / name).suffix not in binary
    ]


def test_every_address_of_the_repository_is_the_one_of_the_setting() -> None:
    """Badges, setup cells and the lesson table use the setting. All other texts must match it."""
    address = re.compile(r"github(?:\.com)?/([\w.-]+/autograd_course)\b")
    named = {
        (path.relative_to(ROOT).as_posix(), found)
        for path in texts()
        for found in address.findall(path.read_text(encoding="utf-8"))
        if found != read_settings(ROOT).repository
    }

    assert not named
