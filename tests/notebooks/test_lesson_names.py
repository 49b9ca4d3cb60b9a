"""Lessons import from only four modules of the course, which are documented."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from types import FunctionType, ModuleType

import nbformat
import pytest
from repository import ROOT

from autograd_course import lesson

SURFACE = (
    "autograd_course",
    "autograd_course.functions",
    "autograd_course.lesson",
    "autograd_course.visualize",
)
NOTEBOOKS = sorted(
    path for folder in ("notebooks", "solutions") for path in ROOT.glob(f"{folder}/*.py")
)


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the module and name of each import from the course or the doctor in a notebook."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        yield from ((module, name) for module, name in names if module.startswith("autograd_"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_notebook_imports_public_names_of_four_modules(path: Path) -> None:
    names = {*imported(path)}

    assert {module for module, _ in names} <= {*SURFACE}
    for module, name in names:
        public = {*import_module(module).__all__, *(it.rpartition(".")[2] for it in SURFACE)}
        assert name in public, f"{path.name} imports {name}, which is not in {module}.__all__"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_first_cells_of_code_are_folded(path: Path) -> None:
    """Then the first screen shows the subject of the lesson."""
    cells = nbformat.read(path.with_suffix(".ipynb"), as_version=4).cells
    code = takewhile(lambda cell: cell.cell_type == "code", cells[1:])

    assert all(cell.metadata.get("jupyter", {}).get("source_hidden") for cell in code)


def test_the_module_for_lessons_offers_what_lessons_import_and_nothing_else() -> None:
    used = {
        name for path in NOTEBOOKS for module, name in imported(path) if module == lesson.__name__
    }

    assert used == {*lesson.__all__}


@pytest.mark.parametrize("name", lesson.__all__)
def test_every_name_is_explained(name: str) -> None:
    assert f"``{name}``" in (lesson.__doc__ or "")

    if name == "triton_decayed_sum":
        pytest.importorskip("triton", reason="Triton is not installed")
    value = getattr(lesson, name)
    if isinstance(value, type | FunctionType | ModuleType):
        assert re.match(r"\S.*[.:?]", inspect.getdoc(value) or "")


def test_importing_the_module_imports_neither_pytorch_nor_matplotlib() -> None:
    code = "import sys, autograd_course.lesson; print({'torch', 'matplotlib'} & {*sys.modules})"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "set()\n"
