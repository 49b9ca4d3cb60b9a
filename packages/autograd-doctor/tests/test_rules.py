"""Every rule is the first to report its wrong Functions, and reports no similar right Function."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from autograd_doctor import RULES, Diagnosis, diagnose
from autograd_doctor.finding import without_search
from cases import BRANCHES, LOOKALIKES, WITNESSES, Case, said
from sampling import first_rows

SAID = json.loads(said.FILE.read_text(encoding="utf-8"))


def rule_of(case: Case) -> str:
    return case.rule


@pytest.fixture(
    scope="module",
    params=[*first_rows(WITNESSES, rule_of, most=1), *first_rows(BRANCHES, rule_of, most=1)],
    ids=list(map(said.named, WITNESSES + BRANCHES)),
)
def diagnosed(request: pytest.FixtureRequest) -> tuple[Case, Diagnosis]:
    """Return a wrong Function with its diagnosis, which the tests below share."""
    case = request.param
    return case, diagnose(case.fn, case.inputs, **case.options)


def test_a_wrong_function_is_named_by_its_rule_first(diagnosed: tuple[Case, Diagnosis]) -> None:
    case, diagnosis = diagnosed

    assert [finding.rule for finding in diagnosis.findings][:1] == [case.rule], str(diagnosis)


def test_it_says_what_it_has_seen(diagnosed: tuple[Case, Diagnosis]) -> None:
    case, diagnosis = diagnosed
    if (expected := SAID.get(said.named(case))) is not None:
        found = json.loads(json.dumps(said.said(diagnosis)))
        assert said.alike(found, expected), f"{found}\nis not\n{expected}"


def test_what_is_said_is_known_of_two_witnesses_of_each_rule_and_of_each_branch() -> None:
    assert list(SAID) == [name for name, _ in said.chosen()]


def test_every_report_is_data_text_and_safe_html(diagnosed: tuple[Case, Diagnosis]) -> None:
    case, diagnosis = diagnosed

    assert_reported(case, replace(diagnosis, findings=without_search(diagnosis.findings)))


@pytest.mark.thorough
def test_every_report_with_a_repair_is_as_well(diagnosed: tuple[Case, Diagnosis]) -> None:
    assert_reported(*diagnosed)


def assert_reported(case: Case, diagnosis: Diagnosis) -> None:
    assert json.loads(json.dumps(diagnosis.to_dict()))["findings"][0]["rule"] == case.rule
    assert case.rule in str(diagnosis)
    messages = [finding.message for finding in diagnosis.findings]
    assert messages == [message.strip() for message in messages], "a sentence was cut off"
    assert "0x" not in str(diagnosis), "an address changes from run to run"
    assert "<lambda>" not in diagnosis._repr_html_()


@pytest.mark.parametrize("case", first_rows(LOOKALIKES, rule_of, most=1), ids=said.named)
def test_a_right_function_that_comes_close_is_not_blamed(case: Case) -> None:
    diagnosis = diagnose(case.fn, case.inputs, **case.options)

    assert diagnosis.ok, str(diagnosis)
    assert case.rule not in [finding.rule for finding in diagnosis.findings], str(diagnosis)


def test_every_rule_has_two_witnesses_and_a_lookalike() -> None:
    witnesses = Counter(case.rule for case in WITNESSES)
    lookalikes = Counter(case.rule for case in LOOKALIKES)

    assert {rule: witnesses[rule] for rule in RULES if witnesses[rule] < 2} == {}
    assert [rule for rule in RULES if not lookalikes[rule]] == []


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_says_what_to_look_at_and_where_it_is_taught(rule) -> None:
    assert rule.title
    assert rule.hint.endswith((".", "?"))
    assert rule.lesson[:2].isdigit()
