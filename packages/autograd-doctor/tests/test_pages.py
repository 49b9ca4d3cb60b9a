"""Every rule has a page, and the code on the page does what the text says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import autograd_doctor
import pytest
from autograd_doctor import RULES, Diagnosis, UnknownRuleError, explain
from running_pages import BLOCK, run, sections
from sampling import first_rows

pytestmark = pytest.mark.slow

FOLDER = Path(autograd_doctor.__file__).parent / "_rules"
GIVEN = """
import torch
import torch.nn.functional as F
from torch.autograd import Function
from autograd_doctor import diagnose
torch.manual_seed(0)
"""
SECTIONS = ["Wrong", "Why it hurts", "Right"]


def test_there_is_one_page_for_each_rule() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_page_says_what_is_wrong_why_it_hurts_and_what_is_right(name: str) -> None:
    found = sections(explain(name).markdown)

    assert [heading for heading in found if heading] == SECTIONS
    assert all(text.strip() for text in found.values())
    assert max(map(len, explain(name).markdown.splitlines())) <= 100


@pytest.mark.parametrize("name", first_rows(RULES, lambda name: RULES[name].lesson, most=2))
@pytest.mark.filterwarnings("ignore")  # an experiment may cause a warning from PyTorch
def test_the_code_of_a_page_does_what_the_page_says(name: str) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(GIVEN, names)
    verdicts: dict[str, Diagnosis] = {}
    for heading, text in sections(explain(name).markdown).items():
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
    assert "```text" in sections(explain(name).markdown)["Why it hurts"], (
        "an experiment shows what it prints"
    )


def test_the_table_lists_every_rule() -> None:
    text = explain().markdown

    assert all(f"| `{name}` |" in text for name in RULES)


@pytest.mark.parametrize("typed", ["wrong-arity", "Wrong Arity", "WRONG_ARITY", " wrongarity "])
def test_a_name_may_be_typed_in_any_way(typed: str) -> None:
    assert explain(typed).markdown.startswith("# wrong-arity\n")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("wrong-arty", "There is no rule 'wrong-arty'. Did you mean wrong-arity"),
        ("?", r"There is no rule '\?'. explain\(\) lists all rules."),
        ("one of the variables needed for gradient computation", "explains its own rules, not the"),
        (3, "explain takes the name of a rule, not something of type int"),
    ],
)
def test_an_unknown_rule_is_refused_in_one_sentence(typed: str, says: str) -> None:
    with pytest.raises(UnknownRuleError, match=says):
        explain(typed)
