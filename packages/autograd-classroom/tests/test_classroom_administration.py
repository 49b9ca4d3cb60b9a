"""What a class needs besides verdicts: a roster, deadlines, and files for Canvas and Moodle."""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from autograd_classroom.assignment import Assignment
from autograd_classroom.classwork import report
from autograd_classroom.gradebook import Gradebook, GradebookError, Score
from autograd_classroom.gradebook.roster import Person, from_file, matched
from autograd_classroom.gradebook.settings import Settings, from_data
from autograd_classroom.gradebook.settings import from_file as settings_from
from autograd_classroom.ingest import Rejected, Submission
from autograd_classroom.ingest.collecting import collect
from autograd_classroom.ingest.hand_in import hand_in
from autograd_classroom.ingest.times import handed_in as time_of
from autograd_classroom.reports import as_csv, as_grade_table, files
from autograd_classroom.reports.pages import class_page, feedback
from autograd_classroom.reports.sites import canvas_pieces, moodle_pieces
from autograd_classroom.review.pages import matrix_page
from handed_in import IMPORTS, SQUARE, cell, notebook
from pages import blocks
from repository import ROOT
from test_classroom_pages import EXERCISES, Page
from typer.testing import CliRunner

from autograd_course.cli import app
from autograd_course.extraction import Answer
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.notebook_files import Notebook

pytestmark = pytest.mark.slow

ANN = Person("Ann Böll", id="s-17", login="ab17", email="ann@uni.example", group="Tue")
BOB = Person("Bob", id="s-18", email="bob@uni.example", group="Wed", site="4711")
CYD = Person("Cyd", id="s-19", email="cyd@uni.example")
ROSTER = """name,id,login,email,group
Ann Böll,s-17,ab17,ann@uni.example,Tue
Bob,s-18,,bob@uni.example,Wed
"""
CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Homework (9)
    Points Possible,,,,,3
"Böll, Ann",4710,s-17,ab17,Tue,1
Bob,4711,s-18,,Wed,
"""
MOODLE = """First name;Surname;ID number;Email address
Ann;Böll;s-17;ann@uni.example
"""


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# The roster


@pytest.mark.parametrize(
    ("text", "people"),
    [
        (ROSTER, [ANN, Person("Bob", id="s-18", email="bob@uni.example", group="Wed")]),
        (CANVAS, [
            Person("Böll, Ann", id="s-17", login="ab17", group="Tue", site="4710"),
            Person("Bob", id="s-18", group="Wed", site="4711"),
        ]),
        (MOODLE, [Person("Ann Böll", id="s-17", email="ann@uni.example")]),
        ("\ufeffE-Mail,\nann@uni.example,,\n\n", [Person(email="ann@uni.example")]),
        ("name\tid\nAnn Böll\ts-17\n", [Person("Ann Böll", id="s-17")]),
    ],
    ids=["plain", "Canvas", "Moodle", "addresses", "tabs"],
)  # fmt: skip
def test_a_roster_is_read_with_the_columns_of_its_site(
    tmp_path: Path, text: str, people: list[Person]
) -> None:
    (tmp_path / "students.csv").write_text(text, encoding="utf-8")

    assert from_file(tmp_path / "students.csv") == tuple(people)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,id\nAnn,1\nBob,1\n", "lines 2 and 3 have the id 1: give each student a single line"),
        ("name,id,group\nAnn,1,x\n\nAnn,1,y\n", "lines 2 and 4 have the id 1: give each student"),
        ("name,email\nAnn,a@b\nBob,A@B\n", "lines 2 and 3 have the email A@B"),
        ("name\nAnn\nAnn\n", "lines 2 and 3 have the name Ann: .* in a column called id"),
        ('name,id\n"Ann,1\nBob,2\n', "line 2 has a quote at one end of a field"),
        ('name,id\n"Ann,1\nBob,"2"\n', "line 2 has a quote at one end of a field"),
        ('name,id\n"Ann,1\nBob",2\n', "line 2 has a field with a line break"),
        ('name,group\nAnn,"x\nBob,y"\n', "line 2 has a field with a line break"),
        ("name,id,group\nAnn,1,x\n\n,,y\n", "line 4 has no name, no id and no e-mail address"),
        ("name,id\nAnn,1\nBöll, Bob,2\n", "line 3 has 3 fields, .* 2 column names: put a field"),
        ("name;id\nBöll; Bob;2\n", 'a field that contains ";" in quotes'),
        ("name,id\n", "it names no students"),
        ("name,name,id\n", "two columns are called name: keep one of them."),
        ("Ann,Bob\n", "no column is called name, id, login or email"),
        ("", "it is empty: give it a row of column names"),
    ],
)
def test_a_roster_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "students.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(GradebookError, match=said) as failure:
        from_file(file)

    assert str(file) in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("student", "person"),
    [
        ("Ann Böll_123", ANN),  # a folder from Moodle
        ("bollann_99", ANN),  # a file from Canvas, without the accent
        ("bob_4711", BOB),  # a number from Canvas
        ("roebob_4711", BOB),
        ("Bob J. Roe_4711", BOB),
        ("Ann Böll_4711", ANN),  # Moodle's own number, which is the id of another student
        ("Zed Zap_4711", None),
        ("zapzed_4711", None),
        ("s-17", ANN),
        ("AB17", ANN),
        ("ann", ANN),  # from the e-mail address
        ("Boll Ann", ANN),
        ("Someone_s-17", None),
        ("Ann Böll_s-17", ANN),  # Gradescope's number is the id of the same student
        ("dora", None),
        ("", None),
    ],
)
def test_a_student_is_found_on_the_roster(student: str, person: Person | None) -> None:
    assert matched([student], (ANN, BOB, CYD)).get(student) == person


def test_two_of_the_same_name_are_told_apart_by_number_or_not_at_all() -> None:
    one, other = Person("Kim Lee", site="1"), Person("Kim Lee", site="2")

    roster = (one, other, Person("Kim Roe", id="9"))
    students = ["Kim Lee_2", "Kim Lee_7", "Kim Lee_9", "Kim Lee"]

    assert matched(students, roster) == {"Kim Lee_2": other}


@pytest.mark.parametrize(
    ("student", "source", "conflicts"),
    [
        ("Zed_4711", "Zed_4711_assignsubmission_file/work.ipynb", True),
        ("zed_4711", "zed_4711_98765_work.ipynb", True),
        ("ann_4711", "ann_4711_98765_work.ipynb", True),  # Ann's name with Bob's number
        ("jobobson_4711", "jobobson_4711_98765_work.ipynb", False),
        ("hw_4711", "hw_4711.ipynb", False),  # the instructor's own name
    ],
)
def test_a_number_of_a_site_is_used_if_the_names_fit(
    student: str, source: str, conflicts: bool, tmp_path: Path
) -> None:
    path = tmp_path / "grades.sqlite"
    with Gradebook(path) as book:
        book.enroll((ANN, BOB))
        book.hand_in(Submission(student, "01_template", source, Notebook(()), "0"), ())
        people = book.people()
    said = CliRunner().invoke(app, ["classroom", "report", str(path)]).output

    assert people == ({} if conflicts else {student: BOB})
    assert (f"if both names are one person: {student} (Bob)." in said) == conflicts


# The files of a class


SOURCES = {
    "Ann Böll_123": "Ann Böll_123_assignsubmission_file/work.ipynb",
    "bob_4711": "bob_LATE_4711_98765_work-1.ipynb",
    "dora": "dora/work.ipynb",
}


@pytest.fixture
def book(tmp_path: Path) -> Gradebook:
    """Return a gradebook in which every student has passed all but the last exercise."""
    book = Gradebook(tmp_path / "grades.sqlite")
    run = book.begin(EXERCISES, "1")
    for student, source in SOURCES.items():
        answers = [Answer(e.id, student, "X", "code") for e in EXERCISES]
        time = "2026-02-03T10:00:00+00:00"
        book.hand_in(
            Submission(student, "01_template", source, Notebook(()), "0", handed_in=time), answers
        )
        for answer in answers:
            possible = CATALOGUE[answer.exercise].points
            status, points = ("passed", possible) if answer.exercise != "to-polar" else ("wrong", 0)
            book.record(run, Score(student, answer.exercise, status, points, hash=answer.hash))
    return book


def test_who_has_handed_in_nothing_is_in_every_report(book: Gradebook, tmp_path: Path) -> None:
    assert rows(as_grade_table(book))[0].keys() == {
        "student", *(e.id for e in EXERCISES), "total", "possible",
    }  # fmt: skip
    book.enroll((ANN, BOB, CYD))
    grades = rows(as_grade_table(book))
    page = Page("".join(class_page(book))).text

    assert [(row["student"], row["name"], row["email"]) for row in grades] == [
        ("Ann Böll_123", "Ann Böll", "ann@uni.example"),
        ("bob_4711", "Bob", "bob@uni.example"),
        ("dora", "", ""),
        ("", "Cyd", "cyd@uni.example"),
    ]
    assert "1 student handed in nothing" in page
    assert "The roster does not have these students:" in page
    shown = CliRunner().invoke(app, ["classroom", "report", str(tmp_path / "grades.sqlite")])
    assert "1 student of the roster handed in nothing: Cyd." in shown.output
    assert "Not on the roster: dora." in shown.output


def test_who_has_handed_in_nothing_can_be_given_points(book: Gradebook, tmp_path: Path) -> None:
    book.enroll((ANN, BOB, CYD))
    unsettled = matrix_page(book, "/", "all")
    book.settle("Cyd", "square", 1.0, "An oral exam.", "me")
    settled = matrix_page(book, "/", "all")
    with pytest.raises(GradebookError, match="'bop_4712'; the nearest name is bob_4711"):
        book.settle("bop_4712", "square", 1.0, "", "me")

    (cyd,) = (row for row in rows(as_grade_table(book)) if row["name"] == "Cyd")
    assert (cyd["student"], cyd["id"], cyd["total"]) == ("Cyd", "s-19", "1")
    assert book.absent() == [CYD]
    assert unsettled.count(">Cyd<") == settled.count(">Cyd<") == 1
    path = str(tmp_path / "grades.sqlite")
    shown = CliRunner().invoke(app, ["classroom", "report", path, "--require", "square"])
    assert "1 student of the roster handed in nothing: Cyd." in shown.output
    assert (shown.exit_code, "is not passed by" in shown.output) == (0, False)


@pytest.mark.parametrize("name", ["bob_4711", "Bob", "s-18", "BOB@uni.example"])
def test_points_find_their_student_by_every_name_on_the_roster(book: Gradebook, name: str) -> None:
    book.enroll((ANN, BOB, CYD))

    assert book.settle(name, "square", 0.5, "", "me").student == "bob_4711"


def test_the_command_reads_the_roster_once(book: Gradebook, tmp_path: Path) -> None:
    path, roster = str(tmp_path / "grades.sqlite"), tmp_path / "students.csv"
    roster.write_text(ROSTER, encoding="utf-8")
    words = ["classroom", "report", path]
    assert CliRunner().invoke(app, [*words, "--roster", str(roster)]).exit_code == 0
    roster.write_text("name\nAnn\nAnn\n")
    refused = CliRunner().invoke(app, [*words, "--roster", str(roster)])

    assert (refused.exit_code, "lines 2 and 3 have the name Ann" in refused.output) == (1, True)
    assert [person.label for person in book.roster()] == ["Ann Böll", "Bob"]


def test_a_required_exercise_is_missed_by_who_has_handed_in_nothing(
    book: Gradebook, tmp_path: Path
) -> None:
    book.enroll((ANN, BOB, CYD))
    words = ["classroom", "report", str(tmp_path / "grades.sqlite"), "--require", "square"]
    reported = CliRunner().invoke(app, words)

    assert reported.exit_code == 1
    assert "square is not passed by Cyd." in reported.output


def test_canvas_reads_its_columns(book: Gradebook) -> None:
    book.enroll((ANN, BOB, CYD))
    possible, ann, bob, dora = rows("".join(canvas_pieces(book)))

    assert list(ann)[:6] == [
        "Student", "ID", "SIS User ID", "SIS Login ID", "Section", EXERCISES[0].title,
    ]  # fmt: skip
    assert possible["Student"].strip() == "Points Possible"
    assert possible[EXERCISES[0].title] == f"{EXERCISES[0].points}"
    assert (ann["ID"], ann["SIS User ID"], ann["SIS Login ID"]) == ("", "s-17", "ab17")
    assert (bob["ID"], bob["Section"], bob[EXERCISES[0].title]) == ("4711", "Wed", "1")
    assert (dora["Student"], dora["ID"]) == ("dora", "")


def test_no_two_rows_of_a_site_s_table_name_the_same_person(
    book: Gradebook, tmp_path: Path
) -> None:
    book.enroll((ANN, BOB, CYD))
    source = "Ann Boll/Bob_123_assignsubmission_file/01_template.ipynb"
    about = Submission("Ann Boll", "01_template", source, Notebook(()), "0")
    book.hand_in(about, [Answer(EXERCISES[0].id, "Ann Boll", "X", "more")])
    reported = CliRunner().invoke(
        app, ["classroom", "report", str(tmp_path / "grades.sqlite")], terminal_width=500
    )

    for pieces, column in ((moodle_pieces, "Identifier"), (canvas_pieces, "SIS User ID")):
        found = [row[column] for row in rows("".join(pieces(book))) if row[column]]
        assert len(found) == len({*found})
    assert "Each of these is one person on the roster: Ann Boll and Ann" in reported.output


def test_canvas_finds_a_student_without_a_roster_by_the_number_in_the_file(book: Gradebook) -> None:
    assert [row["ID"] for row in rows("".join(canvas_pieces(book)))] == ["", "", "4711", ""]


# the top of a student's path → the identifier in Moodle's worksheet
IDENTIFIERS = {
    "Eve X_123_assignsubmission_file": "Participant 123",
    "Eve X_123_assignsubmission_onlinetext_": "Participant 123",
    "Eve X_123_assignsubmission_file_Ann B_456_assignsubmission_file": "",
    "eve_123_8_Ann B_456_assignsubmission_file": "",
}


@pytest.mark.parametrize("top", IDENTIFIERS)
def test_a_file_name_of_a_student_s_own_gives_no_other_identifier(top: str, tmp_path: Path) -> None:
    (tmp_path / "homework" / top).mkdir(parents=True)
    with Gradebook(tmp_path / "grades.sqlite") as book:
        hand_in(book, tmp_path / "homework", CATALOGUE.values())
        (eve,) = rows("".join(moodle_pieces(book)))

    assert eve["Identifier"] == IDENTIFIERS[top]


def test_moodle_finds_a_student_whose_folder_has_no_notebook(tmp_path: Path) -> None:
    folder = tmp_path / "homework" / "Ned_113_assignsubmission_file"
    folder.mkdir(parents=True)
    (folder / "essay.pdf").touch()
    with Gradebook(tmp_path / "grades.sqlite") as book:
        hand_in(book, tmp_path / "homework", CATALOGUE.values())
        (ned,) = rows("".join(moodle_pieces(book)))
        files.write(book, tmp_path / "reports", ("html",))

    assert (ned["Identifier"], ned["Grade"]) == ("Participant 113", "")
    with zipfile.ZipFile(tmp_path / "reports" / "feedback.zip") as archive:
        assert archive.namelist() == ["Ned_113_assignsubmission_file/feedback.html"]


def test_a_file_that_could_not_be_read_is_no_grade_of_zero(book: Gradebook) -> None:
    book.reject(Rejected("eve", "eve/work.ipynb", "it is not JSON"))
    *_, eve = rows("".join(moodle_pieces(book)))

    assert (eve["Full name"], eve["Grade"]) == ("eve", "")
    assert eve["Feedback comments"] == "eve/work.ipynb: it is not JSON"


def test_moodle_reads_its_columns(book: Gradebook) -> None:
    book.enroll((ANN, BOB, CYD))
    book.settle("Ann Böll_123", "to-polar", 1.0, "Fine.\nReally.", "me")
    ann, bob, _ = rows("".join(moodle_pieces(book)))
    total = sum(e.points for e in EXERCISES if e.id != "to-polar")

    assert (ann["Identifier"], ann["Full name"]) == ("Participant 123", "Ann Böll")
    assert (ann["Grade"], bob["Grade"]) == (f"{total + 1}", f"{total}")
    assert ann["Feedback comments"].endswith(": Fine.\nReally.")
    assert (bob["Identifier"], bob["Email address"]) == ("", "bob@uni.example")
    assert "Last modified (grade)" in ann


def test_a_row_that_a_site_cannot_match_is_named(book: Gradebook, tmp_path: Path) -> None:
    book.enroll((ANN, BOB, CYD))
    words = ["classroom", "report", str(tmp_path / "grades.sqlite"), "--format"]
    canvas, moodle = (
        " ".join(CliRunner().invoke(app, [*words, site]).output.split())
        for site in ("canvas", "moodle")
    )

    assert "canvas.csv has no ID for dora, so Canvas looks for the name." in canvas
    assert "moodle.csv has no Identifier for bob_4711, dora, so Moodle skips" in moodle


@pytest.mark.parametrize(
    ("words", "sites", "says_next"),
    [
        ("--settings a.toml", [], True),
        ("--roster students.csv", [], True),
        ("--settings a.toml --format csv", [], True),
        ("--settings a.toml --format canvas", ["canvas.csv"], True),
        ("--settings a.toml --format all", ["canvas.csv", "moodle.csv"], False),
        ("--format csv", [], False),
        ("", [], False),
    ],
)
def test_the_command_says_how_to_write_the_reports_that_it_leaves_out_of_date(
    words: str, sites: list[str], says_next: bool, book: Gradebook, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("students.csv").write_text(ROSTER, encoding="utf-8")
    Path("a.toml").write_text("[weights]\nlayout = 0.5\n")
    book.enroll((ANN, BOB, CYD))
    command = ["classroom", "report", "grades.sqlite", *words.split()]
    said = CliRunner().invoke(app, command).output

    assert [site for site in ("canvas.csv", "moodle.csv") if f"{site} has no" in said] == sites
    assert (
        said.endswith("Next: autograd-course classroom report grades.sqlite --format all\n")
        == says_next
    )


def test_the_feedback_has_the_names_that_the_site_gave(book: Gradebook, tmp_path: Path) -> None:
    files.write(book, tmp_path / "reports", ("html",))
    data = (tmp_path / "reports" / "feedback.zip").read_bytes()
    files.write(book, tmp_path / "reports", ("html",))

    assert data == (tmp_path / "reports" / "feedback.zip").read_bytes(), "the same feedback"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == [
            "Ann Böll_123_assignsubmission_file/feedback.html",
            "bob_4711_98765_feedback.html",
            "dora.html",
        ]
        assert "Feedback for" in archive.read("dora.html").decode()


# Deadlines


DUE = {"01_template": "2026-02-01T23:59:00+01:00", "02_ctx_rules": "2026-02-08T23:59:00+01:00"}
IN_TIME, ONE_DAY, TWO_DAYS = (
    "2026-02-01T22:59:00+00:00", "2026-02-01T22:59:01+00:00", "2026-02-03T10:00:00+00:00",
)  # fmt: skip


@pytest.mark.parametrize(
    ("late", "handed_in", "found"),
    [
        ({}, {"01_template": IN_TIME}, {}),
        ({}, {"01_template": TWO_DAYS}, {"01_template": (2, 0, 0)}),
        ({"cost": 0.1}, {"01_template": ONE_DAY}, {"01_template": (1, 0, 0.1)}),
        ({"cost": 0.1}, {"01_template": TWO_DAYS}, {"01_template": (2, 0, 0.2)}),
        ({"cost": 0.1, "days": 1}, {"01_template": TWO_DAYS}, {"01_template": (2, 0, 1)}),
        (
            {"cost": 0.1, "free": 9, "days": 1},
            {"01_template": TWO_DAYS},
            {"01_template": (2, 0, 1)},
        ),
        ({"cost": 0.7}, {"01_template": TWO_DAYS}, {"01_template": (2, 0, 1)}),
        ({"cost": 0.1}, {"01_template": "", "03_gradient_patterns": TWO_DAYS}, {}),
        ({"cost": 0.1}, {"01_template": "damaged"}, {}),
        (
            {"cost": 0.1, "free": 3},
            {"01_template": TWO_DAYS, "02_ctx_rules": "2026-02-10T23:00:00+01:00"},
            {"01_template": (2, 2, 0), "02_ctx_rules": (2, 1, 0.1)},
        ),
    ],
)
def test_late_days_cost_what_was_set(
    late: dict[str, float], handed_in: dict[str, str], found: dict[str, tuple[int, int, float]]
) -> None:
    settings = from_data({"deadlines": DUE, "late": late})

    assert settings.lateness(handed_in) == found


@pytest.mark.parametrize(
    ("extensions", "found"),
    [
        ({"ann": 1}, {"01_template": (1, 0, 0.1)}),
        ({"ann": 1, "ann@school.org": 2}, {}),
        ({"bob": 5}, {"01_template": (2, 0, 0.2)}),
    ],
)
def test_an_extension_moves_the_deadline_of_one_student(
    extensions: dict[str, int], found: dict[str, tuple[int, int, float]]
) -> None:
    settings = from_data({"deadlines": DUE, "late": {"cost": 0.1}, "extensions": extensions})

    assert settings.lateness({"01_template": TWO_DAYS}, ("ann", "ann@school.org")) == found
    assert from_data(json.loads(settings.to_json())) == settings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[deadlines]\n1 = 2026-02-01",
            "the deadline of 1 is 2026-02-01: write a time with its zone",
        ),
        ("[deadlines]\n99 = 2026-02-01T23:59:00Z", "there is no lesson '99'"),
        ("[deadlines]\n01 = 2026-02-01T23:59:00", "write a time with its zone"),
        ("[deadlines]\n01 = 2026-02-01", "write a time with its zone"),
        (
            "[deadlines]\n01 = 2026-11-10T23:59Z # 23:59",
            "the time 2026-11-10T23:59 has no seconds: write 2026-11-10T23:59:00.",
        ),
        ("# 01 = 2026-11-10T23:59Z\n[deadlines", "is not a TOML file"),
        ("[weights]\nlayout = 20%", "Write 20% as 0.2, and put names with spaces in quotes."),
        ("[extensions]\n'Jürgen' = 1", "is not UTF-8 text: save it as UTF-8."),
        ("[deadlines]\n01 = 'soon'", "the deadline of 01 is soon"),
        ("[late]\ncosts = 1", "no setting of [late] 'costs'; the nearest name is cost."),
        ("[late]\ncost = 10", "cost in [late] is 10, and it has to be a share"),
        ("[late]\nfree = 1.5", "free in [late] is 1.5, and it has to be a whole number of days"),
        ("[late]\ndays = -1", "days in [late] is -1"),
        (
            "[extensions]\nann = 'long'",
            "the extension of ann is 'long', and it has to be a whole number of days, 0",
        ),
    ],
)
def test_deadlines_that_cannot_be_used_are_one_sentence(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "a.toml").write_text(text, encoding="latin-1")
    with pytest.raises(GradebookError) as failure:
        settings_from(tmp_path / "a.toml")

    assert said in str(failure.value)
    assert "\n" not in str(failure.value)


def test_an_extension_finds_its_student_by_every_name_on_the_roster(book: Gradebook) -> None:
    book.enroll((ANN, BOB))
    book.set(Settings(deadlines=DUE, cost=0.1, extensions={"bob@uni.example": 1, "dora": 2}))

    late = {student: book.scores(student)[0].late for student in SOURCES}
    assert late == {"Ann Böll_123": 2, "bob_4711": 1, "dora": 0}
    assert book.unknown_extensions() == ([], [])


@pytest.mark.parametrize(
    "roster", [(), (Person("Kim Lee", id="s-1", site="1"), Person("Kim Lee", id="s-2", site="2"))]
)
def test_an_extension_for_a_name_that_two_students_have_is_named(
    roster: tuple[Person, ...], book: Gradebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for student in ("Kim Lee_1", "Kim Lee_2"):
        book.hand_in(Submission(student, "01_template", "x", Notebook(()), "1"), ())
    book.enroll(roster)
    book.set(Settings(deadlines=DUE, extensions={"Kim Lee": 2, "dorra": 1}))
    report(tmp_path / "grades.sqlite", None)

    said = capsys.readouterr().out
    assert "These names under [extensions] match no student: dorra.\n" in said
    assert "match several students and have no effect: Kim Lee. Name each student" in said


@pytest.mark.parametrize("first", ["the settings", "the roster"])
def test_two_extensions_for_one_student_are_refused(
    first: str, book: Gradebook, tmp_path: Path
) -> None:
    given = Settings(deadlines=DUE, extensions={"bob_4711": 3, "s-18": 0})
    both = {"the settings": Assignment(settings=given), "the roster": Assignment(roster=(ANN, BOB))}
    both.pop(first).keep(book)
    (then,) = both.values()
    with pytest.raises(GradebookError, match=r"bob_4711 and s-18 .* are the same student: keep"):
        then.keep(book)
    with pytest.raises(GradebookError, match="are the same student"):
        Assignment(given, (ANN, BOB)).keep(book)

    assert (bool(book.settings().extensions), bool(book.roster())) == (
        first == "the settings", first == "the roster",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(cost=0.1), "Without [deadlines], [late] has no effect.\n"),
        (
            Settings(free=2, extensions={"dora": 1}),
            "Without [deadlines], [late] and [extensions] have no effect.\n",
        ),
        (Settings({"layout": 0.2}), ""),
        (Settings(deadlines=DUE, cost=0.1), ""),
    ],
)
def test_settings_that_need_a_deadline_say_so(
    settings: Settings, said: str, book: Gradebook, capsys: pytest.CaptureFixture[str]
) -> None:
    Assignment(settings).keep(book)

    assert capsys.readouterr().out == said


def test_late_students_and_an_extension_for_nobody_are_named(
    book: Gradebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book.set(Settings(deadlines=DUE, extensions={"dorra": 2}))
    book.close()
    report(tmp_path / "grades.sqlite", None)

    said = capsys.readouterr().out
    assert "These names under [extensions] match no student: dorra." in said
    assert "3 students handed in late: Ann Böll_123 (2 days), bob_4711 (2 days), dora (2" in said


def test_a_date_in_the_future_is_told_once_per_student_if_there_is_a_deadline(
    book: Gradebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")
    for lesson in DUE:
        for student, time in {"ann": soon, "bob": IN_TIME, "cyd": soon}.items():
            book.hand_in(Submission(student, lesson, "x", Notebook(()), "1", handed_in=time), ())
    told = []
    for settings in (Settings(), Settings(deadlines=DUE)):
        book.set(settings)
        report(tmp_path / "grades.sqlite", None)
        told.append([s for s in capsys.readouterr().out.splitlines() if "in the future" in s])

    assert told == [[], [
        "These students' files have dates in the future, so check the dates and your clock: "
        "ann, cyd."
    ]]  # fmt: skip


def test_late_days_count_in_every_report_but_not_above_points_by_hand(book: Gradebook) -> None:
    book.set(Settings(deadlines=DUE, cost=0.1))
    book.settle("dora", "square", 1.0, "", "me")
    first, *_ = book.scores("dora")
    found = rows(as_csv(book))[0]

    assert book.scores("bob_4711")[0].points == pytest.approx(0.8)
    assert (found["points"], found["late_days"]) == ("0.8", "2")
    assert (first.points, first.late) == (1.0, 2)
    assert "Handed in 2 days late, which costs 20% of 1 point." in "".join(
        feedback(book, "bob_4711")
    )
    assert "3 students handed in late" in "".join(class_page(book))


@pytest.mark.parametrize(
    ("free", "said"),
    [
        (1, "Handed in 2 days late, 1 of them free, which costs 10% of 1 point."),
        (2, "Handed in 2 days late, all of them free."),
    ],
)
def test_a_page_says_how_many_late_days_are_free(book: Gradebook, free: int, said: str) -> None:
    book.set(Settings(deadlines=DUE, cost=0.1, free=free))

    assert said in "".join(feedback(book, "bob_4711"))
    assert book.scores("bob_4711")[0].late_free == free


def test_a_page_shows_how_faults_and_late_days_add_up(book: Gradebook) -> None:
    run = book.begin(EXERCISES, "2")
    for answer in book.pending(run):
        found = {"hash": answer.hash, "rule": "constant-factor"}
        book.record(run, Score(answer.student, answer.exercise, "wrong", 0.0, **found))
    page = []
    for days in (5, 1):
        book.set(Settings({"values": 0.5}, deadlines=DUE, cost=0.05, days=days))
        page.append(" ".join(Page("".join(feedback(book, "bob_4711"))).text.split()))

    assert "0.45 of 1 point" in page[0]
    assert (
        "Partial credit: constant-factor costs 0.5 points. "
        "Handed in 2 days late, which costs 10% of the remaining 0.5 points." in page[0]
    )
    assert "Handed in 2 days late, which costs 100% of the points." in page[1]


def test_a_page_names_what_the_student_did_not_hand_in(book: Gradebook) -> None:
    asked = [CATALOGUE[name] for name in ("square", "clipped-relu", "gather-rows", "swish")]
    book.begin(asked, "2")
    book.expect(asked)
    page = " ".join(Page("".join(feedback(book, "bob_4711"))).text.split())
    relu, *others = (CATALOGUE[name] for name in ("clipped-relu", "gather-rows", "swish"))
    lesson = sum(exercise.points for exercise in others)

    said = f"{relu.title} ({relu.points} points) and lesson 03 ({lesson} points)."
    assert f"Without an answer from you: {said}" in page


def test_a_page_says_once_how_late_it_was_and_names_the_student_as_the_roster_does(
    book: Gradebook,
) -> None:
    book.set(Settings(deadlines=DUE))
    page = "".join(feedback(book, "bob_4711", "Bob Roe"))

    assert page.count("Handed in 2 days late.") == 1
    assert "Feedback for <bdi>Bob Roe</bdi>" in page
    assert "bob_4711" not in page


def test_the_time_is_that_of_the_file_and_stays_when_it_is_downloaded_again(tmp_path: Path) -> None:
    root = tmp_path / "homework"
    root.mkdir()
    file = root / "ann.ipynb"
    file.write_bytes(notebook(cell(IMPORTS), cell(SQUARE, "square")))
    early = datetime.fromisoformat(IN_TIME).timestamp()
    with Gradebook(tmp_path / "grades.sqlite") as book:
        book.set(Settings(deadlines=DUE))
        book.begin(CATALOGUE.values(), "1")
        late = []
        for seconds in (early, early + 1e6):
            os.utime(file, (seconds, seconds))
            hand_in(book, root, CATALOGUE.values())
            late.append(book.scores("ann")[0].late)
        file.write_bytes(file.read_bytes() + b"\n")
        os.utime(file, (early + 1e6, early + 1e6))
        hand_in(book, root, CATALOGUE.values())
        late.append(book.scores("ann")[0].late)

    assert late == [0, 0, 12]


def test_the_time_of_a_zip_is_that_of_the_zip_and_not_of_what_is_inside(tmp_path: Path) -> None:
    root = tmp_path / "homework"
    root.mkdir()
    entry = zipfile.ZipInfo("01_template.ipynb", (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(root / "ann.zip", "w") as archive:
        archive.writestr(entry, notebook(cell(IMPORTS), cell(SQUARE, "square")))
    late = datetime.fromisoformat(IN_TIME).timestamp() + 1e6
    os.utime(root / "ann.zip", (late, late))
    with Gradebook(tmp_path / "grades.sqlite") as book:
        book.set(Settings(deadlines=DUE))
        book.begin(CATALOGUE.values(), "1")
        hand_in(book, root, CATALOGUE.values())

        assert book.scores("ann")[0].late == 12


def test_blackboard_names_the_time() -> None:
    named = time_of("hw_ann_attempt_2026-01-31-23-59-59_work.ipynb", 1.0)
    local = datetime(2026, 1, 31, 23, 59, 59).astimezone()

    assert abs(datetime.fromisoformat(named) - local) < timedelta(seconds=1)
    assert time_of("hw_ann_attempt_2026-13-31-23-59-59_work.ipynb", 0.0) == ""


RECORDED = {
    "Gradescope, in UTC": ("assignment_7_export", "2026-10-01 12:00:00.000000000 Z", 12),
    "Gradescope, with an offset": ("assignment_7_export", "2026-10-01 12:00:00.5 +02:00", 10),
    "Gradescope, damaged": ("assignment_7_export", "2026-10-99 12:00:00 Z", 0),
    "nbgrader": ("submitted", "2026-10-01 12:00:00.948203 UTC", 12),
    "nbgrader, in another zone": ("submitted", "2026-10-01 12:00:00.948203 +0200", 10),
    "nbgrader, in a zone with a name": ("submitted", "2026-10-01 12:00:00.948203 CEST", 0),
    "a folder that a student has named": ("ann/submitted", "2026-10-01 12:00:00 UTC", 0),
}


@pytest.mark.parametrize(("folder", "written", "hour"), RECORDED.values(), ids=RECORDED)
def test_a_time_that_a_site_has_recorded_counts_instead_of_the_file_s(
    tmp_path: Path, folder: str, written: str, hour: int
) -> None:
    place = tmp_path / folder / "submission_9" / "01_template"
    place.mkdir(parents=True)
    (place / "work.ipynb").write_bytes(notebook(cell(IMPORTS), cell(SQUARE, "square")))
    (place / "timestamp.txt").write_text(written)
    if "export" in folder:
        about = f"submission_9:\n  :submitters:\n  - :name: Ann\n  :created_at: {written}\n"
        (tmp_path / folder / "submission_metadata.yml").write_text(about)
    os.utime(place / "work.ipynb", (1e9, 1e9))

    (submission,) = (it for it in collect(tmp_path) if isinstance(it, Submission))

    time = datetime.fromisoformat(submission.handed_in)
    assert time.hour == hour if hour else time.timestamp() == 1e9


FORGED = "x_attempt_2020-01-01-00-00-00_01_template.ipynb"


@pytest.mark.parametrize(
    ("path", "year"),
    [
        (FORGED, 2027),
        (f"eve/{FORGED}", 2027),
        (f"eve/hw_{FORGED}", 2027),
        (f"eve.zip/hw_{FORGED}", 2027),
        (f"submitted/eve/hw_{FORGED}", 2027),
        (f"01_template/eve/hw_{FORGED}", 2027),
        (f"assignment_7_export/submission_9/hw_{FORGED}", 2027),
        (f"Eve_5_assignsubmission_file/hw_{FORGED}", 2027),
        (f"Eve_5_assignsubmission_file_hw_{FORGED}", 2027),
        (f"eve_123_8_{FORGED}", 2027),
        (f"hw_eve_attempt_2026-05-31-23-59-59_hw_{FORGED}", 2026),
        (f"hw_eve_attempt_2026-05-31-23-59-59_work.zip/hw_{FORGED}", 2026),
        (f"01_template/hw_eve_attempt_2026-05-31-23-59-59_hw_{FORGED}", 2026),
    ],
)
def test_a_student_cannot_choose_the_time(path: str, year: int) -> None:
    modified = datetime(2027, 6, 1).timestamp()

    assert datetime.fromisoformat(time_of(path, modified)).year == year


# The contents of the instructor's page


def test_the_files_that_the_page_shows_are_read(tmp_path: Path) -> None:
    shown = {block.text.split("\n")[0]: block.text for block in blocks(ROOT / "docs/classroom.md")}
    whole = "\n".join([shown["[weights]"], shown["[deadlines]"]])
    (tmp_path / "assignment.toml").write_text(whole, encoding="utf-8")
    (tmp_path / "students.csv").write_text(shown["name,id,email,group"], encoding="utf-8")

    settings = settings_from(tmp_path / "assignment.toml")
    assert (settings.weights["layout"], settings.cost, settings.free, settings.days) == (
        0.2,
        0.1,
        2,
        5,
    )
    assert [person.label for person in from_file(tmp_path / "students.csv")] == ["Ann Böll"]
