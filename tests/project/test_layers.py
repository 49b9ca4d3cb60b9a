"""Rules about imports that the contracts of import-linter in pyproject.toml do not cover."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import autograd_classroom
import autograd_doctor
import pytest

import autograd_course
from tools.derived import FOLDERS

COURSE, DOCTOR, CLASSROOM = (
    Path(package.__file__).parent
    for package in (autograd_course, autograd_doctor, autograd_classroom)
)
ROOT = COURSE.parent


def name_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    name_of(path, package): path
    for package in (COURSE, DOCTOR, CLASSROOM)
    for path in sorted(package.rglob("*.py"))
}


def run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a tree's nodes, except for nodes that only a type checker reads."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from run_time(child)


@cache
def imported(path: Path) -> list[str]:
    return [*imports_of(path)]


def imports_of(path: Path) -> Iterator[str]:
    for node in run_time(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: write the import out in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_of(name: str) -> str:
    """Return the module that an imported name refers to, or the module that contains it."""
    return name if name in MODULES else name.rpartition(".")[0]


def test_no_modules_import_one_another_in_a_circle() -> None:
    graph = {
        module: {module_of(name) for name in imported(path)} & MODULES.keys() - {module}
        for module, path in MODULES.items()
    }
    TopologicalSorter(graph).prepare()  # raises an error that names the circle


def test_no_module_imports_a_lesson_or_a_test() -> None:
    above = re.compile(rf"({'|'.join([*map(str, FOLDERS), 'tests', 'tools'])})\b")

    assert len(MODULES) > 500
    assert [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        for name in imported(path)
        if above.match(name)
    ] == []


def test_nothing_private_of_the_doctor_is_used_outside_of_it() -> None:
    tops = (COURSE, CLASSROOM, ROOT / "tools", ROOT / "benchmarks")
    outside = [path for top in tops for path in top.rglob("*.py")]

    assert len(outside) > 500
    assert [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in outside
        for name in imported(path)
        if name.startswith("autograd_doctor.") and re.search(r"\._", name)
    ] == []


# If only its own dependencies and pytest are installed, the doctor's tests pass or say what they
# skip.
TESTS_OF_DOCTOR = sorted((ROOT / "packages" / "autograd-doctor" / "tests").rglob("*.py"))
THERE = {"_pytest", "autograd_doctor", "numpy", "pytest", "rich", "torch", "typer"}


@pytest.mark.parametrize("path", TESTS_OF_DOCTOR, ids=lambda path: path.name)
def test_the_doctors_tests_need_nothing_but_the_doctor(path: Path) -> None:
    beside = {test.stem for test in TESTS_OF_DOCTOR} | {"cases", "production"}
    names = {name.partition(".")[0] for name in imported(path)}

    assert names <= THERE | beside | set(sys.stdlib_module_names)


@pytest.mark.parametrize(
    "part",
    sorted({path.relative_to(COURSE).parts[0] for path in COURSE.rglob("*.py")} - {"__init__.py"}),
)
def test_every_part_has_its_place_in_the_architecture(part: str) -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

    assert f"{part}/" in page or re.search(rf"\b{part.removesuffix('.py')}\b", page)


def test_the_readme_of_the_visualizers_lists_every_folder() -> None:
    readme = (COURSE / "visualize" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^    (\w+)/", readme, re.MULTILINE)

    folders = {path.parent.name for path in (COURSE / "visualize").glob("*/*.[jp][sy]")}
    assert sorted(listed) == sorted(folders)


def test_the_picture_of_the_doctor_shows_the_layers_of_its_contract() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    (layers,) = (it["layers"] for it in contracts if it["name"] == "The layers of the doctor")
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    picture = page.partition("## Inside the doctor")[2].split("```")[1]

    drawn = [line.split() for line in picture.strip().splitlines()]

    assert len(drawn) == len(layers)
    for words, layer in zip(drawn, layers, strict=True):
        names = layer.split(" : ")
        assert words[: len(names)] == names


def test_the_architecture_of_the_classroom_names_modules_that_exist() -> None:
    page = (CLASSROOM.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    parts = {path.stem for package in (CLASSROOM, COURSE) for path in package.iterdir()}

    named = {name for name in re.findall(r"`(\w+(?:\.\w+)+)`", page) if name.split(".")[0] in parts}
    missing = {name for name in named if not any(_is_there(name, p) for p in (CLASSROOM, COURSE))}

    assert len(named) > 20
    assert not missing


def _is_there(name: str, package: Path) -> bool:
    """Whether a dotted name is a module of the package, a folder, or a class in a module."""
    at = package / name.replace(".", "/")
    if at.is_dir() or at.with_suffix(".py").is_file():
        return True
    module = at.parent.with_suffix(".py")
    return module.is_file() and f"class {at.name}" in module.read_text(encoding="utf-8")
