"""Every rule has a page, and the code on it does what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from running_pages import BLOCK, run, sections

import autograd_doctor.pages as pages
from autograd_doctor import RULES, Diagnosis
from autograd_doctor.pages import GIVEN, book, page

FOLDER = Path(pages.__file__).parent
SECTIONS = ["Wrong", "Why it hurts", "Right"]


def test_there_is_one_page_for_each_rule() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_page_says_what_is_wrong_why_it_hurts_and_what_is_right(name: str) -> None:
    found = sections(page(name))

    assert [heading for heading in found if heading] == SECTIONS
    assert all(text.strip() for text in found.values())
    assert max(map(len, page(name).splitlines())) <= 100


@pytest.mark.parametrize("name", RULES)
@pytest.mark.filterwarnings("ignore")  # an experiment may show what PyTorch warns of
def test_the_code_of_a_page_does_what_the_page_says(name: str) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(GIVEN, names)
    verdicts: dict[str, Diagnosis] = {}
    for heading, text in sections(page(name)).items():
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
    assert "```text" in sections(page(name))["Why it hurts"], "an experiment shows what it prints"


def test_the_book_holds_every_page_and_a_table_of_them() -> None:
    text = book()

    for name in RULES:
        assert f"](#{name})" in text
        assert f"\n## {name}\n" in text
