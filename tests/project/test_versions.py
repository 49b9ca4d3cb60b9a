"""Each version is defined in one place. All other places agree with it.

The versions of the distributions are in the ``__init__.py`` of their packages. The oldest Python
and the oldest PyTorch are in ``pyproject.toml``, and the pinned PyTorch in ``constraints.txt``.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import autograd_classroom
import autograd_doctor
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from pages import PAGES, blocks
from repository import ROOT

import autograd_course
from tools.release import DISTRIBUTIONS
from tools.release import ROOT as RELEASED

pytestmark = pytest.mark.checkout


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


COURSE = tomllib.loads(read("pyproject.toml"))
DOCTOR = tomllib.loads(read("packages/autograd-doctor/pyproject.toml"))
CLASSROOM = tomllib.loads(read("packages/autograd-classroom/pyproject.toml"))
CLASSIFIER = "Programming Language :: Python :: 3."
PYTHONS = [
    name.rpartition(" ")[2] for name in COURSE["project"]["classifiers"] if CLASSIFIER in name
]
OLDEST = COURSE["project"]["requires-python"].removeprefix(">=")
(PINNED,) = re.findall(r"^torch==(.*)$", read("constraints.txt"), re.MULTILINE)
TEXTS = ["Makefile", *(str(page.relative_to(ROOT)) for page in PAGES)]


def required(project: dict[str, Any], name: str) -> Requirement:
    wanted = map(Requirement, project["project"]["dependencies"])
    (found,) = (each for each in wanted if each.name == name)
    return found


# --- the distributions ----------------------------------------------------------------------------


def test_the_distributions_require_one_another_in_the_same_version() -> None:
    same = SpecifierSet(f"=={autograd_course.__version__}")

    assert autograd_course.__version__ == autograd_doctor.__version__
    assert autograd_course.__version__ == autograd_classroom.__version__
    assert required(COURSE, "autograd-doctor").specifier == same
    assert required(CLASSROOM, "autograd-course").specifier == same


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_distribution_has_the_version_of_its_package(name: str) -> None:
    folder = DISTRIBUTIONS[name].relative_to(RELEASED)
    project = tomllib.loads(read(f"{folder}/pyproject.toml"))

    assert "version" in project["project"]["dynamic"]
    assert f'__version__ = "{autograd_course.__version__}"\n' in read(
        f"{folder}/{project['tool']['hatch']['version']['path']}"
    )


def test_the_citation_and_the_changelog_name_the_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", read("CHANGELOG.md"), re.MULTILINE)

    assert yaml.safe_load(read("CITATION.cff"))["version"] == autograd_course.__version__
    assert headings[0] == "Unreleased"
    assert headings[1:2] in ([], [autograd_course.__version__]), "no release or the last one"


# --- Python ---------------------------------------------------------------------------------------


def test_the_oldest_python_is_the_same_wherever_a_tool_reads_it() -> None:
    container = json.loads(read(".devcontainer/devcontainer.json"))["image"]
    gradescope = read(
        "packages/autograd-classroom/src/autograd_classroom/adapters/gradescope/setup.sh.txt"
    )
    said = {
        "the doctor": DOCTOR["project"]["requires-python"].removeprefix(">="),
        "mypy": COURSE["tool"]["mypy"]["python_version"],
        "the oldest that is tested": PYTHONS[0],
        "the container": re.findall(r"python:([\d.]+)-", container)[0],
        "Gradescope": ".".join(re.findall(r"version_info < \((\d+), (\d+),", gradescope)[0]),
    }

    assert said == dict.fromkeys(said, OLDEST)
    assert "target-version" not in COURSE["tool"]["ruff"], "ruff reads requires-python"


@pytest.mark.parametrize("path", TEXTS)
def test_a_page_names_no_other_python_as_the_oldest(path: str) -> None:
    assert set(re.findall(r"Python (3\.\d+) or (?:newer|later)", read(path))) <= {OLDEST}


def test_the_readme_names_the_oldest_python() -> None:
    assert f"Python {OLDEST} or newer" in read("README.md")


def test_contributing_names_the_tested_pythons() -> None:
    listed = " ".join(read("CONTRIBUTING.md").split())

    assert f"Python {', '.join(PYTHONS[:-1])} and {PYTHONS[-1]}." in listed


def pythons_of(value: Any) -> Iterator[str]:
    """Yield each ``python-version`` in a workflow."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "python-version":
                yield inner
            yield from pythons_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from pythons_of(inner)


WORKFLOWS = sorted(path.name for path in (ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_runs_on_the_oldest_python_or_on_that_of_a_session(name: str) -> None:
    found = set(pythons_of(yaml.safe_load(read(f".github/workflows/{name}"))))

    assert found <= {OLDEST, "${{ matrix.session.python }}"}


def test_a_workflow_on_a_page_uses_a_tested_python() -> None:
    shown = [block for page in PAGES for block in blocks(page) if block.language == "yaml"]
    found = {python for block in shown for python in pythons_of(yaml.safe_load(block.text))}

    assert found
    assert found <= set(PYTHONS)


# --- PyTorch --------------------------------------------------------------------------------------


def test_both_distributions_allow_the_same_pytorch_and_the_pinned_one() -> None:
    allowed = required(COURSE, "torch").specifier

    assert required(DOCTOR, "torch").specifier == allowed
    assert allowed.contains(PINNED)


MINOR = PINNED.rpartition(".")[0]


@pytest.mark.parametrize("path", ["README.md", "packages/autograd-doctor/README.md"])
def test_the_bugs_in_public_code_are_in_the_pinned_versions(path: str) -> None:
    third_party = COURSE["project"]["optional-dependencies"]["third-party"]

    assert re.search(
        rf"CrossMapLRN2d`(\]\([^)]*/v{PINNED}/[^)]*\))? in PyTorch {MINOR} ", read(path)
    )
    for version in re.findall(r"GPyTorch ([\d.]+\d)", read(path)):
        assert f"gpytorch=={version}" in third_party


# --- the sessions of nox --------------------------------------------------------------------------


def test_the_sessions_of_nox_repeat_no_version() -> None:
    assert re.findall(r"\d\.\d+", read("noxfile.py")) == []
