"""The words that GLOSSARY.md replaces are no longer used as names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository import ROOT

ROWS = re.findall(r"^\| (.+?) \| .+? \|(.*)\|$", (ROOT / "GLOSSARY.md").read_text("utf-8"), re.M)[
    2:
]
REPLACED = {name: use for use, words in ROWS for name in re.findall(r"`(\w+)`", words)}


def names_in(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the names that a module defines, assigns or uses as parameters."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node.lineno


def test_the_table_is_read() -> None:
    assert {"came", "should", "twin"} <= REPLACED.keys()


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "packages/autograd-doctor/src/autograd_doctor").rglob("*.py")),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_replaced_word_does_not_come_back(path: Path) -> None:
    found = [
        f"line {n}: {name}, use {REPLACED[name]}" for name, n in names_in(path) if name in REPLACED
    ]
    assert not found
