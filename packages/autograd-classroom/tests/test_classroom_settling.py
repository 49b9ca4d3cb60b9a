"""Points that a person gives by hand. They count everywhere, and grading never changes them."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest
from autograd_classroom.gradebook import Gradebook, GradebookError, Score
from autograd_classroom.gradebook.naming import near
from autograd_classroom.gradebook.settling import ChangedMeanwhileError
from autograd_classroom.ingest import Rejected
from autograd_classroom.reports import (
    as_csv,
    as_grade_table,
    as_json_document,
    as_junit,
    gradescope_results,
)
from autograd_classroom.reports.pages import class_page, feedback
from test_classroom_pages import EXERCISES, Page, handed_in, wrong
from typer.testing import CliRunner, Result

from autograd_course.cli import app

pytestmark = pytest.mark.slow

SQUARE, SIGMOID, SUM, POLAR = (exercise.id for exercise in EXERCISES)
HOSTILE = '=1+1 <script>alert(1)</script> "\u202e\x00'


def graded(book: Gradebook, student: str, code: str, grader: str = "1") -> None:
    """Hand in and grade four answers: wrong, passed, grader failed and not graded."""
    run = book.begin(EXERCISES, grader)
    first, second, third, _ = handed_in(book, student, code)
    book.record(run, wrong(first))
    book.record(run, Score(student, second.exercise, "passed", 2.0, hash=second.hash))
    book.record(run, Score(student, third.exercise, "grader failed", 0.0, hash=third.hash))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "grades.sqlite"
    with Gradebook(path) as book:
        graded(book, "ann", "code")
        graded(book, "Anna-Maria", "code")
        book.reject(Rejected("eve", "eve.zip", "the zip is broken"))
    return path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["classroom", *words], env={"COLUMNS": "200"})


def test_points_given_by_hand_count_in_every_report(path: Path) -> None:
    with Gradebook(path) as book:
        possible = {score.exercise: score.possible for score in book.scores("ann")}
        book.settle("ann", SQUARE, 0.5, "Right idea.", "Dr. Who")
        book.settle("ann", SIGMOID, 0.0, "Copied.", "Dr. Who")
        book.settle("ann", SUM, possible[SUM], "", "Dr. Who")
        book.settle("ann", POLAR, 1.0, HOSTILE, "Dr. Who")
        total = 0.5 + possible[SUM] + 1
        rows = [r for r in csv.DictReader(io.StringIO(as_csv(book))) if r["student"] == "ann"]
        grades = {row["student"]: row for row in csv.DictReader(io.StringIO(as_grade_table(book)))}
        ann = next(
            s for s in json.loads(as_json_document(book))["students"] if s["student"] == "ann"
        )
        suite = next(s for s in ElementTree.fromstring(as_junit(book)) if s.get("name") == "ann")
        gradescope = gradescope_results(book, "ann")
        page, overview = "".join(feedback(book, "ann")), "".join(class_page(book))

    assert [row["status"] for row in rows] == ["wrong", "passed", "grader failed", "not graded"]
    assert [float(row["points"]) for row in rows] == [0.5, 0, possible[SUM], 1]
    assert {row["settled_by"] for row in rows} == {"Dr. Who"}
    assert rows[0]["comment"] == "Right idea."
    assert rows[3]["comment"].startswith("'=1+1")
    assert (grades["ann"][SQUARE], float(grades["ann"]["total"])) == ("0.5", total)
    assert ann["points"] == gradescope["score"] == total
    assert ann["results"][0]["settlement"]["comment"] == "Right idea."
    assert [case.find("failure") is not None for case in suite.findall("testcase")] == [
        True, True, False, True,
    ]  # fmt: skip
    assert [test["status"] for test in gradescope["tests"]] == [
        "failed", "failed", "passed", "failed",
    ]  # fmt: skip
    assert "Settled by Dr. Who on" in gradescope["tests"][0]["output"]
    text = Page(page).text
    assert f"{total:g} of {sum(possible.values()):g} points" in " ".join(text.split())
    for shown in ("0.5 points given by hand", "by Dr. Who on", "Right idea.", "verdict: wrong"):
        assert shown in text
    assert not Page(page).tags["script"]
    assert not Page(overview).tags["script"]
    assert "Settled by hand" in Page(overview).text


def test_a_settlement_survives_grading_again_and_says_that_the_code_has_changed(path: Path) -> None:
    with Gradebook(path) as book:
        book.settle("ann", SQUARE, 0.5, "Right idea.", "me")
        graded(book, "ann", "code", grader="2")
        same = book.score_of("ann", SQUARE)
        graded(book, "ann", "other code", grader="2")
        other = book.score_of("ann", SQUARE)
        page = Page("".join(feedback(book, "ann"))).text
        rows = list(csv.DictReader(io.StringIO(as_csv(book))))

    assert same.settlement is not None
    assert (same.settlement.changed, same.points) == (False, 0.5)
    assert other.settlement is not None
    assert (other.settlement.changed, other.points) == (True, 0.5)
    assert "The code has changed since." in page
    assert [r["changed_since"] for r in rows if r["comment"]] == ["yes"]


def test_withdrawing_leaves_the_verdict_of_the_grader(path: Path) -> None:
    with Gradebook(path) as book:
        before = book.score_of("ann", SIGMOID)
        book.settle("ann", SIGMOID, 0.0, "Copied.", "me")
        assert book.settle("ann", SIGMOID, None, "", "me") == before

        with pytest.raises(GradebookError, match="is not settled"):
            book.settle("ann", SIGMOID, None, "", "me")
    with closing(sqlite3.connect(path)) as file:
        kept = file.execute("SELECT points, comment FROM settlements").fetchall()
    assert kept == [(0.0, "Copied."), (None, "")], "who decided what, and when, is kept"


def test_the_rule_of_a_settled_answer_is_still_counted(path: Path) -> None:
    with Gradebook(path) as book:
        book.settle("ann", SQUARE, 0.5, "Right idea.", "me")
        tally = next(tally for tally in book.tallies() if tally.exercise == SQUARE)
        rule = book.score_of("ann", SQUARE).rule

    assert (tally.rule, tally.rule_count, tally.rule_ties) == (rule, 2, 0)
    assert tally.counts == {"settled": 1, "wrong": 1}


def test_who_has_no_readable_answer_can_be_given_points(path: Path) -> None:
    with Gradebook(path) as book:
        book.settle("eve", SQUARE, 1.0, "Explained at the board.", "me")
        (score,) = book.scores("eve")
        page = Page("".join(feedback(book, "eve"))).text
        counted = next(tally for tally in book.tallies() if tally.exercise == SQUARE).counts

    assert (score.points, score.is_passed, score.outcome) == (1.0, True, "settled")
    assert "Explained at the board." in page
    assert "not graded yet" not in page
    assert (counted["settled"], counted["wrong"]) == (1, 2)


def test_a_row_that_changed_since_it_was_seen_is_not_overwritten(path: Path) -> None:
    with Gradebook(path) as one, Gradebook(path) as other:
        seen = one.score_of("ann", SQUARE).stamp
        other.settle("ann", SQUARE, 1.0, "Fine.", "other", seen=seen)
        with pytest.raises(ChangedMeanwhileError, match="has changed since you opened it"):
            one.settle("ann", SQUARE, 0.0, "No.", "one", seen=seen)

        assert one.score_of("ann", SQUARE).points == 1.0


def test_an_older_gradebook_is_brought_to_this_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        for what in (
            "VIEW scored", "VIEW settled", "TABLE settlements", "TABLE settings",
        ):  # fmt: skip
            file.execute(f"DROP {what}")
        file.execute("ALTER TABLE submissions DROP COLUMN handed_in")
        file.execute("PRAGMA user_version = 3")
    with Gradebook(path) as book:
        book.settle("ann", SQUARE, 0.5, "", "me")

        assert [score.points for score in book.scores("ann")] == [0.5, 2, 0, 0]


CLASS = [f"{who} {number}" for number in range(50) for who in ("Ann", "Bob")]


@pytest.mark.parametrize(
    ("asked", "names", "said"),
    [
        ("costs", ["cost", "free", "days"], "; the nearest name is cost"),
        ("anna", ["ann", "Anna-Maria"], "; the nearest names are Anna-Maria, ann"),
        ("bob 4", CLASS, "; the nearest names are Bob 4, Bob 40, Bob 41, Bob 42, Bob 43"),
        ("nobody", ["bob", "hugo"], "; the known names are bob, hugo"),
        ("o", ["bob", "hugo"], "; the known names are bob, hugo"),
        ("eve", CLASS, f"; the known names are {', '.join(CLASS[:10])} and 90 more"),
        ("eve", [], ""),
    ],
)
def test_an_unknown_name_is_told_with_near_names_or_else_with_the_known_ones(
    asked: str, names: list[str], said: str
) -> None:
    assert near(asked, names) == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ann", SQUARE, "--points", "0.5", "--comment", "Why."), f"{SQUARE}: 0.5 of 1 point."),
        (("ann", SQUARE, "--points", "0,5"), f"ann, {SQUARE}: 0.5 of 1"),
        (("anna", SQUARE, "--points", "1"), "no student 'anna'; the nearest names are Anna-Maria,"),
        (("zzz", SQUARE, "--points", "1"), "'zzz'; the known names are Anna-Maria, ann, eve."),
        (("ann", "sqare", "--points", "1"), f"'sqare'; the nearest name is {SQUARE}."),
        (("ann", "snake", "--points", "1"), "no student has handed in the exercise 'snake'"),
        (("ann", SQUARE, "--points", "7"), f"{SQUARE} is not worth 7: give a number from 0 to 1."),
        (("ann", SQUARE, "--points", "+1"), "+1 does not add points: give a number for the total"),
        (("ann", SQUARE, "--points", "one"), "'one' is not a number: give a number such as 0.5."),
        (("ann", SQUARE, "--points", "nan"), "not worth nan: give a number from 0 to 1."),
        (("ann", SQUARE, "--withdraw"), f"ann's {SQUARE} is not settled"),
        (("ann", SQUARE), "give either --points or --withdraw"),
        (("ann", SQUARE, "--points", "1", "--withdraw"), "give either --points or --withdraw"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_the_command_settles_or_says_in_one_sentence_why_not(
    path: Path, words: tuple[str, ...], said: str
) -> None:
    result = run("settle", str(path), *words)

    assert said in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output
    assert (result.exit_code == 0) == (words[-1] in ("Why.", "0,5"))


def test_the_command_shows_the_settlement_that_it_replaces(path: Path) -> None:
    run("settle", str(path), "ann", SQUARE, "--points", "0.5", "--comment", "Right idea.")

    result = run("settle", str(path), "ann", SQUARE, "--points", "1")

    assert "This replaces: 0.5 of 1 point. Settled by" in result.output
    assert "Right idea." in result.output


def test_an_answer_settled_with_all_points_counts_as_passed(path: Path) -> None:
    assert run("report", str(path), "--require", SQUARE).exit_code == 1
    for student in ("ann", "Anna-Maria", "eve"):  # eve's file could not be read
        assert run("settle", str(path), student, SQUARE, "--points", "1").exit_code == 0

    result = run("report", str(path), "--require", SQUARE)
    assert result.exit_code == 0
    assert "settled" in result.output
