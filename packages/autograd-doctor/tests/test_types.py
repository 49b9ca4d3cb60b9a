"""The types that the package shows to a user's type checker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api", reason="mypy is not installed")

CALLS = """
from typing import assert_type

import torch
from autograd_doctor import (
    Diagnosis, Finding, ProgramDiagnosis, assert_gradients, declare, diagnose, recording
)
from torch.autograd import Function

class Square(Function): ...

x = torch.randn(3)
assert_type(diagnose(Square, x), Diagnosis)
assert_type(diagnose(lambda t: t * 2, (x, 1.0), level="full").ok, bool | None)
assert_type(diagnose(Square, [x]).findings, tuple[Finding, ...])
@declare(intentional="flipped-sign")
class Cube(Function): ...
assert_type(Cube, type[Cube])
with recording() as calls: ...
assert_type(calls.diagnose(seconds=5), ProgramDiagnosis)
assert_type(calls.diagnose().rows[0].verdict, str)
assert_type(assert_gradients(Square, (x,), warnings=True, seed=1), Diagnosis)
"""
MISTAKES = {
    "assert_gradients(Square, x, refrence=abs)": 'Unexpected keyword argument "refrence"',
    "diagnose(Square, x, level='fast')": 'Argument "level"',
    "diagnose('Square', x)": "Argument 1",
    "diagnose(Square, 1.0)": "Argument 2",
    "declare(intentional=3)": 'Argument "intentional"',
}


def errors(code: str, folder: Path) -> list[str]:
    """Return the errors that mypy --strict reports for a user's file."""
    file = folder / "users.py"
    file.write_text(code, encoding="utf-8")
    options = ["--strict", "--follow-imports=silent", f"--python-executable={sys.executable}"]
    config = ["--config-file=", f"--cache-dir={folder / 'cache'}"]
    said, failed, _ = api.run([*options, *config, str(file)])
    assert not failed
    return [line for line in said.splitlines() if "error:" in line]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return errors(CALLS + "\n".join(MISTAKES) + "\n", tmp_path_factory.mktemp("user"))


@pytest.mark.thorough
def test_ordinary_calls_have_real_types_and_mistakes_are_found(found: list[str]) -> None:
    assert len(found) == len(MISTAKES), found
    for line, expected in zip(found, MISTAKES.values(), strict=True):
        assert expected in line
