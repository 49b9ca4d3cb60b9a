"""``own_source`` returns a function's own source or nothing."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from autograd_doctor._source import own_source


def twice(x: float) -> float:
    return 2 * x


halved = lambda x: x / 2  # noqa: E731


def traced(function: Callable[[float], float]) -> Callable[[float], float]:
    @wraps(function)
    def within(x: float) -> float:
        return function(x)

    return within


@pytest.mark.parametrize(
    ("function", "begin"),
    [(twice, "def twice"), (traced(twice), "def twice"), (halved, "halved = lambda x")],
    ids=["a function", "what wraps it", "a lambda"],
)
def test_lines_and_the_number_of_the_first(function: Any, begin: str) -> None:
    lines, first = own_source(function) or ([], 0)

    assert lines[0].startswith(begin)
    assert linecache.getline(__file__, first) == lines[0]


@pytest.mark.parametrize(
    "function",
    [len, torch.relu, torch.nn.Linear, 3],
    ids=["by C", "by PyTorch", "a class", "no function"],
)
def test_what_no_lines_of_python_define_has_none(function: Any) -> None:
    assert own_source(function) is None


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("def kept(x):\n    return x\n", True),
        ("import sys\nspace = {}\n", False),
        ("def kept_apart(x):\n    return -x\n", False),
        ("", False),
    ],
    ids=["its own", "another text", "another function", "nothing"],
)
def test_what_exec_makes_has_the_text_of_its_file_only_where_that_defines_it(
    text: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This is what Python 3.13 does with the text after `python -c`.
    entry = (len(text), None, text.splitlines(keepends=True), "<string>")
    monkeypatch.setitem(linecache.cache, "<string>", entry)
    space: dict[str, Any] = {}
    exec("def kept(x):\n    return x\n", space)

    assert (own_source(space["kept"]) is not None) is known


def test_a_file_that_is_no_python_has_no_source(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\ndef halved(x): return (x\n\nSome text: (\n", encoding="utf-8")
    space: dict[str, Any] = {}
    exec(compile("\n\ndef halved(x): return x / 2", str(page), "exec"), space)

    assert own_source(space["halved"]) is None
