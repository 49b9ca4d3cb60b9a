"""What a rule says in those of its branches that no first witness takes."""

from __future__ import annotations

import json
import re

import pytest
import torch
from cases import LOOKALIKES, WITNESSES, Case
from cases.advised import ADVISED
from cases.making import X, saving
from cases.worded import CLEAN, OF_LOOKALIKES, OF_WITNESSES, SAID

from autograd_course import Finding, diagnose
from autograd_course.functions import LeakyReLUInPlace


def assert_says(found: Finding, words: str) -> None:
    """Look for words of all that is said; ``…`` stands for what lies between them."""
    evidence = json.dumps(found.to_dict()["evidence"], ensure_ascii=False)
    said = f"{found.severity}: {found.message} {evidence} {found.hint}"
    assert re.search(".*".join(map(re.escape, words.split("…"))), said, re.DOTALL), said


def only(name: str, cases: list[Case]) -> Case:
    (case,) = [case for case in cases if f"{case.rule}: {case.what}" == name]
    return case


@pytest.mark.parametrize(
    ("fn", "inputs", "options", "rule", "words"),
    [row[1:] for row in SAID + ADVISED], ids=[f"{row[4]}: {row[0]}" for row in SAID + ADVISED],
)  # fmt: skip
def test_a_rule_says_which_of_its_cases_it_is(fn, inputs, options, rule, words) -> None:
    found = diagnose(fn, inputs, **options).findings[0]

    assert found.rule == rule
    assert_says(found, words)


@pytest.mark.parametrize("name", OF_WITNESSES)
def test_a_rule_says_it_in_these_words(name: str) -> None:
    case = only(name, WITNESSES)
    found = diagnose(case.fn, case.inputs, **case.options).findings[0]

    assert_says(found, OF_WITNESSES[name])


@pytest.mark.parametrize("name", OF_LOOKALIKES)
def test_a_rule_takes_this_for_no_fault(name: str) -> None:
    case = only(name, LOOKALIKES)
    diagnosis = diagnose(case.fn, case.inputs, **case.options)

    assert case.rule not in [finding.rule for finding in diagnosis.findings], str(diagnosis)


def test_what_float32_loses_is_told_by_the_element_that_loses_most() -> None:
    far_from_zero = saving(lambda x: 1 - x.cos(), lambda x, g: x.sin() * g)
    found = diagnose(far_from_zero, (torch.tensor([0, 0.5, 0.6, 0.7, 0.8, 0.9, 3]),)).findings[0]

    told = r"args\[0\]\[[1-5]\] = \d\S+: \d\S+, should be \d\S+, a relative error of \de-0[1-5]"
    assert found.rule == "precision"
    assert re.fullmatch(told, found.evidence["witness"]), found.evidence["witness"]


def test_a_gradient_in_a_shorter_dtype_is_told_once() -> None:
    narrow = saving(torch.sin, lambda x, g: (g * x.cos()).float())

    assert [found.rule for found in diagnose(narrow, (X,)).findings] == ["gradient-dtype"]


@pytest.mark.parametrize(("forward", "backward"), [r[1:] for r in CLEAN], ids=[r[0] for r in CLEAN])
def test_a_rule_does_not_take_rounding_for_a_mistake(forward, backward) -> None:
    diagnosis = diagnose(saving(forward, backward), (X,))

    assert diagnosis.ok, str(diagnosis)


def test_a_callable_may_change_the_input_that_it_returns() -> None:
    assert diagnose(lambda x: LeakyReLUInPlace.apply(x, 0.5), (X,)).ok
