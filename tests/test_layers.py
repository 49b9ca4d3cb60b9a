"""The package's layers: arrows go down only, and no circle is closed anywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tools.derived import FOLDERS

PACKAGE = Path(__file__).parents[1] / "autograd_course"

MAY_IMPORT = {
    "functions": set(),
    "external": set(),
    "measure": set(),
    "doctor": {"measure"},
    "messages": {"doctor"},
    "explaining": {"doctor", "messages", "shell"},
    "quizzes": set(),
    "ship": set(),
    "visualize": {"doctor", "functions", "grader", "measure", "quizzes"},
    "grader": {"digits", "doctor", "external", "functions", "measure", "quizzes", "shell", "ship"},
    "shell": set(),
    "classroom": {"doctor", "grader", "shell"},
    "practice": {"classroom", "doctor", "grader", "lab", "shell"},
    "lab": set(),
    "replicas": {"functions"},
    "digits": set(),
    "checkup": {"doctor", "functions", "grader"},
    "check": {"doctor", "shell"},
    "doctor_self": {"checkup", "classroom", "external", "lab", "shell", "ship"},
    "testing": {"doctor"},
    "cli": {
        "check", "classroom", "doctor", "doctor_self", "explaining", "grader", "lab", "practice",
        "shell",
    },
    "__init__": {"doctor", "explaining", "grader", "testing", "visualize"},
}  # fmt: skip


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a tree's nodes, less those that only a type checker reads."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from run_time(child)


def imported(path: Path) -> Iterator[str]:
    for node in run_time(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: write the import out in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_of(name: str) -> str:
    """Return the module that an imported name is, or lies in."""
    return name if name in MODULES else name.rpartition(".")[0]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_the_layers_below(module: str) -> None:
    layer = MODULES[module].relative_to(PACKAGE).parts[0].removesuffix(".py")
    names = [name.split(".") for name in imported(MODULES[module])]
    layers = {parts[1] for parts in names if parts[0] == "autograd_course" and len(parts) > 1}

    assert layer in MAY_IMPORT, "say in MAY_IMPORT what this part of the package may import"
    assert layers <= MAY_IMPORT[layer] | {layer}
    assert not {parts[0] for parts in names} & {*FOLDERS, "tests"}, "the package imports no lesson"


def test_no_modules_import_one_another_in_a_circle() -> None:
    graph = {
        module: {module_of(name) for name in imported(path)} & MODULES.keys() - {module}
        for module, path in MODULES.items()
    }
    TopologicalSorter(graph).prepare()  # names the circle


@pytest.mark.parametrize("part", sorted(MAY_IMPORT.keys() - {"__init__"}))
def test_every_part_has_its_place_in_the_architecture(part: str) -> None:
    folder = (PACKAGE / part).is_dir()
    page = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")

    assert f"{part}/" in page if folder else re.search(rf"\b{part}\b", page)
