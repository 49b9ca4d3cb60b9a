"""One set of packages, however the course is installed."""

from __future__ import annotations

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

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())


def required() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    requirements = [Requirement(line) for line in lines]
    return [wanted for wanted in requirements if wanted.name != PROJECT["name"]]


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

    assert from_pip["pip"] == ["--constraint constraints.txt", "--editable .[dev]"]
    assert CONDA["name"] == "autograd_course"


def test_conda_asks_for_the_same_python_and_leaves_the_rest_to_pip() -> None:
    requirements = [Requirement(entry) for entry in conda(str)]

    assert {wanted.name for wanted in requirements} == {"python", "pip"}
    assert requirements[0].specifier == SpecifierSet(PROJECT["requires-python"])
