"""Reports from a gradebook. Each one is read back with an independent reader."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from autograd_classroom.gradebook import Gradebook, Score
from autograd_classroom.gradebook.records import total_points
from autograd_classroom.ingest import Rejected, Submission
from autograd_classroom.reports import (
    as_csv,
    as_grade_table,
    as_json_document,
    as_junit,
    files,
    gradescope_results,
)
from autograd_classroom.reports.table import written

from autograd_course.extraction import Answer
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.notebook_files import Notebook

pytestmark = pytest.mark.slow

EXERCISES = [CATALOGUE[name] for name in ("square", "scaled-sigmoid", "weighted-sum", "linear")]
STATUS = {"square": "passed", "scaled-sigmoid": "wrong", "weighted-sum": "not attempted"}
NASTY = "=cmd|' /C calc'!A0, \"quoted\"\nand \x1b[31mred\x00 \ufffe ]]> <b>&amp;"


def submitted(book: Gradebook, student: str) -> list[Answer]:
    answers = [Answer(e.id, student, "X", "code", problems=(NASTY,)) for e in EXERCISES]
    book.hand_in(Submission(student, "01_template", f"{student}.py", Notebook(()), "0"), answers)
    return answers


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Gradebook]:
    """Ann's answers have the four outcomes, bob's have all passed, and eve's file is broken."""
    with Gradebook(tmp_path / "grades.sqlite") as book:
        run = book.begin(EXERCISES, "1")
        for answer in submitted(book, "ann"):
            status = STATUS.get(answer.exercise, "grader failed")
            points = 1.0 if status == "passed" else 0.0
            found = (
                {
                    "rule": "wrong-scale",
                    "evidence": {"actual": 1},
                    "remarks": ("imports os", "calls eval"),
                }
                if status == "wrong"
                else {}
            )
            book.record(run, Score(
                "ann", answer.exercise, status, points, message=NASTY, seconds=0.25,
                hash=answer.hash, **found,  # type: ignore[arg-type]
            ))  # fmt: skip
        for answer in submitted(book, "bob"):
            points = CATALOGUE[answer.exercise].points
            book.record(run, Score("bob", answer.exercise, "passed", points, hash=answer.hash))
        book.reject(Rejected("eve", "eve.zip", NASTY))
        yield book


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_csv_has_a_row_for_each_answer_and_for_a_student_whose_file_is_broken(
    book: Gradebook,
) -> None:
    *found, broken = rows(as_csv(book))

    assert [row["status"] for row in found] == [
        "passed", "wrong", "not attempted", "grader failed", *["passed"] * 4,
    ]  # fmt: skip
    assert (broken["student"], broken["status"], broken["points"]) == ("eve", "not graded", "")
    assert "eve.zip" in broken["problems"]
    assert [row["points"] for row in found][:4] == ["1", "0", "0", ""]
    assert found[1]["rule"] == "wrong-scale"
    assert [row["remarks"] for row in found[:3]] == ["", "imports os; calls eval", ""]


def test_a_sum_of_points_has_no_rounding_error() -> None:
    scores = [Score("ann", "square", "wrong", points) for points in (0.1, 0.2, 0.3)]

    assert sum(score.points for score in scores) != 0.6
    assert total_points(scores) == 0.6


def test_no_field_of_a_csv_is_a_formula(book: Gradebook) -> None:
    fields = [field for text in (as_csv(book), as_grade_table(book)) for row in rows(text)
              for field in row.values()]  # fmt: skip

    assert any("calc" in field for field in fields)
    assert not [field for field in fields if field.startswith(("=", "+", "-", "@"))]


# a field → how a CSV file has it
FIELDS = {
    "x;=cmd|' /C calc'!A0;": "x;'=cmd|' /C calc'!A0;",
    "x; +1;\t-1": "x; '+1;\t'-1",
    "x\t@SUM(1)": "x\t'@SUM(1)",
    'x;"=1+1"': 'x;"\'=1+1"',
    "x\r\n=1": "x\r\n'=1",
    "\n" * 40_000 + "=1": "\n" * 40_000 + "'=1",
    " =1": " '=1",
    "-1+cmd": "'-1+cmd",
    "-1": "-1",
    "-0.25": "-0.25",
    "1e-05": "1e-05",
    "Ann-Lee O'Brien; B.": "Ann-Lee O'Brien; B.",
    "ann@uni.example": "ann@uni.example",
}


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field[:20])
def test_a_field_begins_no_formula_where_a_spreadsheet_begins_a_cell(field: str) -> None:
    text = written([["Ann", field, "1"]])
    read = [csv.reader(io.StringIO(text), delimiter=separator) for separator in ",;\t"]
    cells = [cell for lines in read for row in lines for cell in row]

    assert next(csv.reader(io.StringIO(text, newline="")))[1] == FIELDS[field]
    assert not [cell for cell in cells if cell.strip().startswith(("=", "+", "-", "@"))
                and not cell.strip()[1:].replace(".", "").isdigit()]  # fmt: skip


def test_the_grade_table_has_a_row_for_each_student(book: Gradebook) -> None:
    possible = f"{sum(e.points for e in EXERCISES)}"

    ann, bob, eve = rows(as_grade_table(book))
    assert (ann["student"], ann["total"], ann["possible"], ann["linear"]) == (
        "ann", "1", possible, "",
    )  # fmt: skip
    assert bob["total"] == possible
    assert (eve["student"], eve["total"], eve["square"]) == ("eve", "", "")


def test_the_json_document_holds_everything(book: Gradebook) -> None:
    ann, bob, eve = json.loads(as_json_document(book))["students"]

    assert [r["status"] for r in ann["results"]] == [*STATUS.values(), "grader failed"]
    assert ann["results"][1]["evidence"] == {"actual": 1}
    assert ann["results"][1]["remarks"] == ["imports os", "calls eval"]
    assert bob["points"] == bob["possible"]
    assert eve["problems"][0]["source"] == "eve.zip"


@pytest.mark.parametrize("name", ["class.html", "results.csv", "junit.xml"])
def test_a_full_disk_is_a_sentence_and_the_earlier_report_is_kept(
    book: Gradebook, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "reports"
    files.write(book, folder)
    before = (folder / name).read_bytes()
    (folder / f".{name}.new").symlink_to("/dev/full")
    with pytest.raises(files.ReportsError) as failure:
        files.write(book, folder)

    assert str(failure.value) == (
        f"{folder / name} cannot be written (No space left on device). The gradebook keeps all "
        "results: run the command again once the file can be written."
    )
    assert (folder / name).read_bytes() == before
    assert not [path for path in folder.rglob(".*.new") if path.is_symlink() or path.exists()]
    files.write(book, folder)


def test_junit_counts_what_it_lists(book: Gradebook) -> None:
    root = ElementTree.fromstring(as_junit(book))

    assert root.tag == "testsuites"
    assert [suite.get("name") for suite in root] == ["ann", "bob", "eve"]
    for suite in root:
        cases = suite.findall("testcase")
        counts = [("tests", len(cases))]
        for attribute, tag in (
            ("failures", "failure"), ("errors", "error"), ("skipped", "skipped"),
        ):  # fmt: skip
            counts.append((attribute, sum(case.find(tag) is not None for case in cases)))
        assert [(name, int(suite.get(name, ""))) for name, _ in counts] == counts
        assert all(float(case.get("time", "")) >= 0 for case in cases)
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.get("type") == "wrong-scale"


FORMATS = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
SHOWN = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
GRADESCOPE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["tests"],
    "properties": {
        "score": {"type": "number"},
        "execution_time": {"type": "number"},
        "output": {"type": "string"},
        "output_format": FORMATS,
        "test_output_format": FORMATS,
        "test_name_format": FORMATS,
        "visibility": SHOWN,
        "stdout_visibility": SHOWN,
        "extra_data": {"type": "object"},
        "leaderboard": {"type": "array"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "score": {"type": "number"},
                    "max_score": {"type": "number"},
                    "status": {"enum": ["passed", "failed"]},
                    "name": {"type": "string"},
                    "name_format": FORMATS,
                    "number": {"type": "string"},
                    "output": {"type": "string"},
                    "output_format": FORMATS,
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "visibility": SHOWN,
                    "extra_data": {"type": "object"},
                },
            },
        },
    },
}


@pytest.mark.parametrize("student", ["ann", "bob", "eve"])
def test_gradescope_results_have_its_fields_and_no_others(book: Gradebook, student: str) -> None:
    results = json.loads(json.dumps(gradescope_results(book, student)))

    jsonschema.validate(results, GRADESCOPE)


def test_gradescope_gets_the_points_of_what_was_graded(book: Gradebook) -> None:
    results = gradescope_results(book, "bob")

    assert results["score"] == sum(e.points for e in EXERCISES)
    assert {test["status"] for test in results["tests"]} == {"passed"}


def test_remarks_are_for_the_instructor_alone(book: Gradebook) -> None:
    assert "imports os" not in json.dumps(gradescope_results(book, "ann")) + as_junit(book)


def test_gradescope_gets_no_score_where_the_grader_failed(book: Gradebook) -> None:
    results = gradescope_results(book, "ann")

    assert "score" not in results
    assert not [test for test in results["tests"] if "score" in test]
    assert "grader failed" in results["tests"][-1]["output"]
