"""Partial credit: how many points a fault costs, and how the report explains it.

The tests also cover the warnings below "passed".
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from autograd_classroom.gradebook import Gradebook, GradebookError, Score
from autograd_classroom.gradebook.settings import Settings, from_file
from autograd_classroom.grading.sandboxed_judge import verdict_on
from autograd_classroom.grading.task import told
from autograd_classroom.reports import as_grade_table, gradescope_results
from autograd_classroom.reports.pages import feedback
from autograd_classroom.sandbox import bubblewrap, choose
from autograd_classroom.sandbox.running import Sandbox
from autograd_doctor import Finding
from handed_in import IMPORTS, SQUARE
from test_classroom_pages import EXERCISES, HALF, Page, handed_in, wrong
from typer.testing import CliRunner

from autograd_course.cli import app
from autograd_course.extraction import Answer
from autograd_course.grader.verdict import FunctionAgrees, Verdict

pytestmark = pytest.mark.slow

FLAT = "return (2 * x.reshape(-1) * grad_output.view(-1)).reshape(x.shape)"
LAYOUT = SQUARE.replace("return 2 * x * grad_output", FLAT)


@pytest.mark.parametrize(
    ("weights", "rules", "left"),
    [
        ({}, ["grad-output-layout"], 0),
        ({"layout": 0.2}, ["grad-output-layout"], 0.8),
        ({"layout": 0.2, "grad-output-layout": 0.5}, ["grad-output-layout"], 0.5),
        ({"layout": 0}, ["grad-output-layout", "overflow"], 1),
        ({"layout": 0.2, "efficiency": 0.3}, ["zero-dim", "oversaved"], 0.5),
        ({"layout": 0.2}, ["grad-output-layout", "flipped-sign"], 0),
        ({"layout": 0.7}, ["grad-output-layout", "overflow"], 0),
        ({"layout": 0.2}, ["grad-output-layout", ""], 0),
    ],
)
def test_each_rule_costs_its_weight_and_what_has_none_costs_all(
    weights: dict[str, float], rules: list[str], left: float
) -> None:
    assert Settings(weights).credit(rules) == pytest.approx(left)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[weights]\nlayuot = 0.2", "no rule or family of rules 'layuot'; the nearest"),
        ("[weights]\nlayout = 1.5", "the weight of layout is 1.5, and a weight is a number from 0"),
        ("[weights]\nlayout = -0.1", "the weight of layout is -0.1"),
        ("[weights]\nlayout = nan", "the weight of layout is nan"),
        ("[weights]\nlayout = true", "the weight of layout is True"),
        ("[weights]\nlayout = 'half'", "the weight of layout is 'half'"),
        ("weights = 3", "weights is 3: write a table"),
        ("[wieghts]", "no table 'wieghts'; the nearest name is weights"),
        ("[weights", "is not a TOML file"),
        ("# weights = 3", "is empty: write the settings into it"),
        (None, "cannot be read"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used_are_one_sentence(
    tmp_path: Path, text: str | None, said: str
) -> None:
    file = tmp_path / "assignment.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(GradebookError) as failure:
        from_file(file)

    assert said in str(failure.value)
    assert str(file) in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a gradebook with Ann's answers: a layout fault, a pass with a warning, and others."""
    path = tmp_path / "grades.sqlite"
    with Gradebook(path) as book:
        run = book.begin(EXERCISES, "1")
        first, second, third, fourth = handed_in(book, "ann", "code")
        warned = {"warnings": [{"rule": "oversaved", "message": "it saves <b>x</b>."}]}
        book.record(run, wrong(first, rule="grad-output-layout", evidence={"also": []}))
        book.record(run, Score("ann", second.exercise, "passed", 2.0, hash=second.hash,
                               evidence=warned))  # fmt: skip
        book.record(run, wrong(third, rule="zero-dim", evidence={"also": ["oversaved"]}))
        book.record(run, wrong(fourth, rule="flipped-sign"))
    return path


def test_the_weights_count_in_every_report_and_can_be_changed_without_grading(
    path: Path, tmp_path: Path
) -> None:
    (tmp_path / "assignment.toml").write_text("[weights]\nlayout = 0.25\nefficiency = 0.5\n")
    with Gradebook(path) as book:
        worth = [score.possible for score in book.scores("ann")]
        assert [score.points for score in book.scores("ann")] == [0, 2, 0, 0]
    words = ["report", str(path), "--settings", str(tmp_path / "assignment.toml")]
    shown = CliRunner().invoke(app, ["classroom", *words])
    assert shown.exit_code == 0
    with Gradebook(path) as book:
        expected = [0.75 * worth[0], 2, 0.25 * worth[2], 0]
        page = " ".join(Page("".join(feedback(book, "ann"))).text.split())
        total = gradescope_results(book, "ann")["score"]

        assert [score.points for score in book.scores("ann")] == expected
        assert [score.points for score in book.outline()] == expected
        assert f"{sum(expected):g}" in as_grade_table(book)
    assert total == sum(expected)
    assert f"grad-output-layout costs {0.25 * worth[0]:g} points." in page
    assert f"zero-dim and oversaved cost {0.75 * worth[2]:g} points." in page
    assert "flipped-sign cost" not in page


WEIGHTS, DUE = "[weights]\nlayout = 0.25\n", "[deadlines]\n01 = 2026-02-01T23:59:00Z\n"
EXTENDED = "[extensions]\nann = 1\n"


@pytest.mark.parametrize(
    ("first", "then", "differs"),
    [
        ("", WEIGHTS, ""),
        (WEIGHTS, "", ""),
        (WEIGHTS, WEIGHTS, ""),
        (WEIGHTS, DUE, "removes [weights] and adds [deadlines]"),
        (WEIGHTS, WEIGHTS.replace("0.25", "0.5"), "changes [weights]"),
        (WEIGHTS + DUE, WEIGHTS + "[late]\nfree = 2\n", "removes [deadlines] and adds [late]"),
        (
            WEIGHTS + DUE + "[late]\nfree = 2\n",
            EXTENDED + DUE + "[late]\nfree = 3\n",
            "removes [weights], changes [late] and adds [extensions]",
        ),
    ],
)
def test_a_settings_file_replaces_the_earlier_one_and_says_what_differs(
    first: str, then: str, differs: str, path: Path, tmp_path: Path
) -> None:
    for text in (first, then):
        (tmp_path / "assignment.toml").write_text(text)
        words = ["--settings", str(tmp_path / "assignment.toml")] if text else []
        shown = CliRunner().invoke(app, ["classroom", "report", str(path), *words])

    said = [line for line in shown.output.splitlines() if "replaces all" in line]
    expected = f"The settings file replaces all earlier settings: it {differs}."
    assert said == ([expected] if differs else [])


def test_points_given_by_hand_stand_above_the_weights(path: Path) -> None:
    with Gradebook(path) as book:
        book.set(Settings({"layout": 0.25}))
        book.settle("ann", EXERCISES[0].id, 0.0, "Copied.", "me")

        assert book.scores("ann")[0].points == 0
        assert "Partial credit" not in "".join(feedback(book, "ann"))


def test_the_warnings_of_the_doctor_are_below_passed(path: Path) -> None:
    with Gradebook(path) as book:
        page = "".join(feedback(book, "ann"))
        gradescope = gradescope_results(book, "ann")["tests"][1]["output"]

    assert "oversaved: It saves <b>x</b>." in Page(page).text
    assert 'explain("oversaved")' in Page(page).text
    assert gradescope.endswith("warning: oversaved: it saves <b>x</b>.")


KEPT = "ctx.save_for_backward(x)\n        ctx.kept = x"
BOTH = LAYOUT.replace("ctx.save_for_backward(x)", KEPT)


@pytest.mark.parametrize(
    ("source", "rule", "also"),
    [
        (LAYOUT, "grad-output-layout", []),
        (BOTH, "grad-output-layout", ["tensor-on-ctx"]),
        (HALF, "constant-factor", []),
    ],
    ids=["one fault", "two faults", "a wrong gradient"],
)
def test_a_verdict_names_all_rules_that_an_answer_breaks(
    source: str, rule: str, also: list[str]
) -> None:
    answer = Answer("square", "ann", "Square", source, IMPORTS)
    with Sandbox(choose(trust=not bubblewrap.works())) as sandbox:
        said = json.loads(told(verdict_on(answer, sandbox, 1), 1.0))

    assert (said["rule"], said["evidence"].get("also", [])) == (rule, also)


def test_a_verdict_keeps_the_warnings_of_the_doctor() -> None:
    warned = Finding("oversaved", "warning", "it saves x.")
    passed = FunctionAgrees("reference", "", ("a matrix",))

    said = json.loads(told(Verdict(passed, warnings=(warned,)), 1.0))
    assert said["evidence"]["warnings"] == [{"rule": "oversaved", "message": "it saves x."}]
    assert "warnings" not in json.loads(told(Verdict(passed), 1.0))["evidence"]
