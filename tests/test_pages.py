"""Every rule has a page, and the code on it does what the page says."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import autograd_course.doctor.pages as pages
from autograd_course.doctor import RULES, Diagnosis
from autograd_course.doctor.pages import GIVEN, book, page

FOLDER = Path(pages.__file__).parent
SECTIONS = ["Wrong", "Why it hurts", "Right"]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections(name: str) -> dict[str, str]:
    """Return the text of a rule's page under each of its headings."""
    first, *rest = re.split(r"^## (.+)$", page(name), flags=re.MULTILINE)
    return {"": first} | dict(zip(rest[::2], rest[1::2], strict=True))


def run(code: str, names: dict[str, Any]) -> tuple[Any, str]:
    """Run a block as a notebook cell: the value of its last expression, and what it prints."""
    tree, value, printed = ast.parse(code), None, io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<page>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<page>", "eval"), names)
    return value, printed.getvalue()


def test_there_is_one_page_for_each_rule() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_page_says_what_is_wrong_why_it_hurts_and_what_is_right(name: str) -> None:
    found = sections(name)

    assert [heading for heading in found if heading] == SECTIONS
    assert all(text.strip() for text in found.values())
    assert max(map(len, page(name).splitlines())) <= 100


@pytest.mark.parametrize("name", RULES)
@pytest.mark.filterwarnings("ignore")  # an experiment may show what PyTorch warns of
def test_the_code_of_a_page_does_what_the_page_says(name: str) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(GIVEN, names)
    verdicts: dict[str, Diagnosis] = {}
    for heading, text in sections(name).items():
        printed = ""
        for kind, body in BLOCK.findall(text):
            if kind == "text":
                assert printed.strip() == body.strip()
                continue
            value, printed = run(body, names)
            if isinstance(value, Diagnosis):
                verdicts[heading] = value

    assert verdicts["Wrong"].findings[0].rule == name, str(verdicts["Wrong"])
    assert verdicts["Right"].ok, str(verdicts["Right"])
    assert name not in [finding.rule for finding in verdicts["Right"].findings]
    assert "```text" in sections(name)["Why it hurts"], "an experiment shows what it prints"


def test_the_book_holds_every_page_and_a_table_of_them() -> None:
    text = book()

    for name in RULES:
        assert f"](#{name})" in text
        assert f"\n## {name}\n" in text
