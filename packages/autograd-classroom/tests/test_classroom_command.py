"""The command ``classroom``, from a class's files to its reports. Every error is one sentence."""

from __future__ import annotations

import csv
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from autograd_classroom import classwork, console
from autograd_classroom.command import Format
from autograd_classroom.gradebook import Gradebook, Score, Tally
from autograd_classroom.grading.executor import Outcome
from autograd_classroom.grading.pool import Pool
from autograd_classroom.grading.task import Task
from autograd_classroom.ingest.hand_in import hand_in
from autograd_classroom.reports.files import FORMATS
from autograd_classroom.sandbox import Trusted, bubblewrap, container
from handed_in import IMPORTS, SQUARE, STUB, cell, notebook
from repository import ROOT
from typer.testing import CliRunner, Result

from autograd_course.cli import app
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.index import INDEX

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND, SHOWN = re.search(
    r"^autograd-course (classroom grade .*?)\n```\n```text\n(.*?)```", README, re.M | re.S
).groups()  # type: ignore[union-attr]
HALF = SQUARE.replace("2 * x * grad_output", "x * grad_output")
TRUST = [] if bubblewrap.works() or os.environ.get("CI") else ["--trust"]
DONE, NOT_DONE, NOT_UNDERSTOOD = 0, 1, 2


def handed_in(answer: str) -> bytes:
    return notebook(cell(IMPORTS), cell(answer, "square"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to the folder with the class of README's example, and return it."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "homework"
    root.mkdir()
    (root / "ann.ipynb").write_bytes(handed_in(SQUARE))
    (root / "bob.ipynb").write_bytes(handed_in(HALF))
    (root / "cyd.ipynb").write_bytes(handed_in(SQUARE))  # a copy is judged only once
    (root / "dan.ipynb").write_bytes(handed_in(STUB))
    (root / "eve.zip").write_bytes(b"no zip")
    return root


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["classroom", *words], env={"COLUMNS": "200"})


def said(result: Result) -> str:
    """Return the output as one line, without the frame around an error."""
    assert "Traceback" not in result.output
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())


def test_a_class_is_graded_as_the_readme_shows(folder: Path) -> None:
    command = [sys.executable, "-m", "autograd_course.cli", *COMMAND.split()]
    ran = subprocess.run(
        [*command, "--jobs", "1", *TRUST],
        cwd=folder.parent,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    made = folder.parent / "homework-grades"
    results = (made / "results.csv").read_text(encoding="utf-8")

    assert (ran.returncode, ran.stdout) == (NOT_DONE, SHOWN), f"{ran.stderr}\n{results}"
    assert len(os.listdir(folder)) == 5, "nothing is written among the submissions"
    with (made / "grades.csv").open() as table:
        totals = {row["student"]: row["total"] for row in csv.DictReader(table)}
    assert totals == {"ann": "1", "bob": "0", "cyd": "1", "dan": "0", "eve": ""}

    before = (made / "results.csv").read_bytes()
    again = run(*COMMAND.split()[1:], "--trust")  # there is nothing to do, so no worker starts
    assert (again.exit_code, "0 answers graded" in again.output) == (NOT_DONE, True)
    assert (made / "results.csv").read_bytes() == before
    assert (
        SHOWN.partition("\n\n")[2].partition("\n\n")[0]
        in run(
            "report", str(made / "gradebook.sqlite"), "--reports", str(folder.parent / "again")
        ).output
    )
    assert (folder.parent / "again" / "results.csv").read_bytes() == before
    assert "constant-factor" in (made / "class.html").read_text()
    assert "return x * grad_output" in (made / "feedback" / "bob.html").read_text()


def test_a_format_is_written_beside_the_gradebook(folder: Path, tmp_path: Path) -> None:
    Gradebook(tmp_path / "book.sqlite").close()
    result = run("report", "book.sqlite", "--format", "html", "--format", "csv")

    assert result.exit_code == DONE
    assert {p.name for p in tmp_path.glob("*.*") if p.suffix != ".sqlite"} >= {
        "class.html", "grades.csv", "results.csv",
    }  # fmt: skip
    assert not (tmp_path / "results.json").exists()
    assert [each.value for each in Format] == [*FORMATS, "all"]


# What the command prints, and where


@pytest.mark.thorough
def test_the_work_goes_on_where_nobody_reads_what_is_said(folder: Path, tmp_path: Path) -> None:
    (folder / "eve.zip").unlink()
    command = [sys.executable, "-m", "autograd_course.cli", "classroom", "grade", "homework"]
    with subprocess.Popen(
        [*command, "--exercises", "square", "--jobs", "1", *TRUST],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as ran:  # fmt: skip
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.close()
        said = ran.stderr.read()

    where = Trusted().gap if TRUST else "The answers run in a sandbox: bubblewrap."
    assert (ran.returncode, said) == (DONE, f"{where}\n")
    assert (tmp_path / "homework-grades" / "class.html").exists()


def test_a_verdict_is_made_again_where_only_its_first_line_is_read(
    folder: Path, tmp_path: Path
) -> None:
    with Gradebook(tmp_path / "book.sqlite") as book:
        run_of = book.begin(CATALOGUE.values(), "1")
        hand_in(book, folder, [INDEX["square"]])
        for answer in book.pending(run_of):
            given = Score(answer.student, "square", "passed", 1.0, hash=answer.hash, seed="7")
            book.record(run_of, given)
    command = [sys.executable, "-m", "autograd_course.cli", "classroom", "again", "book.sqlite"]
    reads, writes = os.pipe()
    os.close(reads)
    ran = subprocess.run([*command, "ann", "square", *TRUST], stdout=writes, stderr=subprocess.PIPE)
    os.close(writes)

    assert (ran.returncode, ran.stderr.decode()) == (DONE, "")


def test_whose_answer_is_missing_is_said(folder: Path, tmp_path: Path) -> None:
    book = "book.sqlite"
    with Gradebook(tmp_path / book) as open_book:
        run_of = open_book.begin(CATALOGUE.values(), "1")
        hand_in(open_book, folder, CATALOGUE.values())
        for answer in open_book.pending(run_of):
            status = "passed" if answer.student in ("ann", "cyd") else "wrong"
            given = Score(answer.student, answer.exercise, status, 0.0, hash=answer.hash)
            open_book.record(run_of, given)
    missing = run("report", book, "--require", "square", "--require", "gumbel-hard")
    unread = run("again", book, "eve", "square")

    assert missing.exit_code == NOT_DONE
    assert "square is not passed by bob, dan, eve." in missing.stdout
    assert "gumbel-hard was handed in by no student." in missing.stdout
    assert unread.exit_code == NOT_DONE
    assert said(unread).startswith("no answer of eve's could be read. eve.zip: the zip is broken")


@pytest.mark.thorough
def test_only_the_exercises_that_are_asked_for_are_shown(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    for lesson, answer in {"01": cell(STUB, "square"), "03": cell(STUB, "linear")}.items():
        (tmp_path / "both" / f"ann_{lesson}.ipynb").write_bytes(notebook(answer))
    trust = ["--trust", "--jobs", "1"]
    first = run("grade", "both", "--exercises", "square,scaled-sigmoid", *trust)
    second = run("grade", "both", "--exercises", "square", *trust)

    assert "scaled-sigmoid" in first.stdout
    assert "square" in second.stdout
    assert "scaled-sigmoid" not in second.stdout


# Impossible requests, and their messages

WORDS = {
    "no folder": (["grade", "none"], NOT_UNDERSTOOD, "there is no folder none"),
    "no lesson": (["grade", "homework", "--exercises", "77"], NOT_UNDERSTOOD, "no lesson and no"),
    "nothing named": (
        ["grade", "homework", "--exercises", ""], NOT_UNDERSTOOD,
        "--exercises: no lesson and no exercise is named: name some, as in 01,03, or leave"),
    "nothing required": (
        ["report", "book", "--require", " , "], NOT_UNDERSTOOD, "--require: no lesson and no"),
    "lessons with a space": (
        ["grade", "homework", "--exercises", "01", "03"], NOT_UNDERSTOOD,
        "too many arguments (03): separate exercises with commas, as in --exercises 01,03."),
    "a space before the folder": (
        ["watch", "--exercises", "01", "03", "homework"], NOT_UNDERSTOOD,
        "too many arguments (homework): separate exercises with commas, as in"),
    "exercises for a platform": (
        ["gradescope", "out.zip", "--exercise", "square", "linear"], NOT_UNDERSTOOD,
        "too many arguments (linear): separate exercises with commas"),
    "two folders": (["grade", "homework", "more"], NOT_UNDERSTOOD, "too many arguments (more)."),
    "nobody at work": (["grade", "homework", "--jobs", "0"], NOT_UNDERSTOOD, "--jobs"),
    "among the submissions": (
        ["grade", "homework", "--gradebook", "homework/book"], NOT_DONE, "nothing is written"),
    "reports among them": (
        ["grade", "homework", "--reports", "homework/here"], NOT_DONE, "nothing is written"),
    "reports among them later": (
        ["report", "graded.sqlite", "--reports", "homework"], NOT_DONE, "nothing is written"),
    "reports deep among them later": (
        ["report", "graded.sqlite", "--reports", "homework/a/b"], NOT_DONE, "nothing is written"),
    "an empty folder": (["grade", "empty"], NOT_DONE, "there is nothing to grade in empty"),
    "no gradebook": (["report", "none"], NOT_DONE, "there is no gradebook none"),
    "the folder of a gradebook": (
        ["report", "theirs"], NOT_DONE,
        "theirs is a folder: name the gradebook's file, such as theirs/gradebook.sqlite."),
    "the folder of the submissions": (
        ["report", "graded"], NOT_DONE,
        "graded is a folder: name the gradebook's file, such as graded-grades/gradebook.sqlite."),
    "an empty gradebook": (["report", "empty.sqlite"], NOT_DONE, "empty, not a gradebook: grade"),
    "another database": (["report", "other.sqlite"], NOT_DONE, "no gradebook"),
    "a text": (["grade", "homework", "--gradebook", "diary"], NOT_DONE, "left as it is"),
    "their reports": (
        ["grade", "homework", "--reports", "theirs"], NOT_DONE, "was not written here"),
    "reports in a file": (
        ["grade", "homework", "--reports", "diary"], NOT_DONE,
        "diary is a file: name a folder with --reports."),
    "reports in a file later": (
        ["report", "graded.sqlite", "--reports", "diary"], NOT_DONE,
        "diary is a file: name a folder with --reports."),
    "a single file of another kind": (
        ["grade", "diary"], NOT_DONE, "there is nothing to grade in diary"),
    "a scheduler without a port": (
        ["grade", "homework", "--dask", "foo"], NOT_DONE,
        "foo is not the address of a Dask scheduler: write an address such as tcp://10.0.0.1:8786."),
    "nbgrader in a file": (
        ["nbgrader", "diary"], NOT_DONE, "diary is a file: name a new folder."),
    "an autograder without a suffix": (
        ["gradescope", "auto"], NOT_DONE, "takes only zip files: name auto.zip instead."),
    "a gradebook in a file": (
        ["grade", "homework", "--gradebook", "diary/book"], NOT_DONE, "cannot be written"),
}  # fmt: skip


@pytest.mark.parametrize("words", WORDS)
def test_what_cannot_be_done_is_one_sentence_and_changes_nothing(
    words: str, folder: Path, tmp_path: Path
) -> None:
    command, code, sentence = WORDS[words]
    (tmp_path / "empty").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "grades.csv").write_text("mine")
    (tmp_path / "diary").write_text("dear diary, " * 100)
    for name in ("graded", "graded-grades"):
        (tmp_path / name).mkdir()
    (tmp_path / "graded-grades" / "gradebook.sqlite").touch()
    (tmp_path / "empty.sqlite").touch()
    sqlite3.connect("other.sqlite").execute("CREATE TABLE theirs (x)").connection.close()
    with Gradebook(tmp_path / "graded.sqlite") as book:
        hand_in(book, folder, [])
    result = run(*command, *["--trust"] * (command[0] == "grade"))

    assert result.exit_code == code
    assert sentence in said(result)
    assert (tmp_path / "theirs" / "grades.csv").read_text() == "mine"
    assert (tmp_path / "diary").read_text() == "dear diary, " * 100
    assert len(os.listdir(folder)) == 5
    assert not (tmp_path / "empty-grades").exists()


def test_where_nothing_could_be_read_the_file_is_named_and_the_end_is_1(folder: Path) -> None:
    for path in folder.glob("*.ipynb"):
        path.unlink()
    result = run("grade", "homework", "--trust")

    assert result.exit_code == NOT_DONE
    assert "0 files read, and 1 could not be graded" in said(result)
    assert "eve.zip: the zip is broken" in said(result)


def test_files_that_nobody_hands_in_are_named_and_reports_are_no_submissions(folder: Path) -> None:
    (folder / "eve.zip").unlink()
    (folder / "tina.rar").write_bytes(b"Rar!")
    (folder / "ann 2").mkdir()
    (folder / "ann 2" / "old.ipynb").write_bytes(handed_in(STUB))
    (folder / "ann 2" / "new.ipynb").write_bytes(handed_in(SQUARE))
    run("grade", "homework/bob.ipynb", *TRUST)
    assert (folder / "bob-grades").is_dir()

    result = run("grade", "homework", "--exercises", "square", *TRUST)

    assert result.exit_code == DONE, result.output
    assert "ignored: tina.rar. Only notebooks, scripts and zip files are read." in said(result)
    assert "bob-grades" not in said(result)
    assert "could not be graded" not in said(result)
    assert "new.ipynb is graded for lesson 01 instead" in said(result)


def test_an_unread_file_of_a_student_on_the_roster_is_a_problem(folder: Path) -> None:
    (folder / "eve.zip").unlink()
    for name in ("willi_01_template.docx", "ann_01_template.docx", "notes.txt"):
        (folder / name).touch()
    (folder.parent / "roster.csv").write_text("name,id\nWilli,1\nann,2\nDora,3\n")
    result = run("grade", "homework", "--exercises", "square", "--roster", "roster.csv", *TRUST)
    grades = (folder.parent / "homework-grades" / "grades.csv").read_text(encoding="utf-8-sig")

    assert result.exit_code == NOT_DONE
    assert "willi_01_template.docx: it is not a notebook, a script or a zip file" in said(result)
    assert "ignored: ann_01_template.docx, notes.txt." in said(result)
    assert "1 student of the roster handed in nothing: Dora." in said(result)
    assert [line for line in grades.splitlines() if line.startswith("willi,")] == [
        "willi,Willi,1,,,,,1"
    ]


def test_a_student_whose_files_are_gone_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classwork, "work", lambda *_: None)
    run("grade", "homework", "--exercises", "square", "--trust")
    (folder / "ann.ipynb").rename(folder / "anna.ipynb")
    result = run("grade", "homework", "--exercises", "square", "--trust")

    assert (
        "homework no longer has the graded files of 1 student, whose grades are kept: ann."
        in said(result)
    )


LESSON = sum(exercise.points for exercise in INDEX.values() if exercise.lesson == "01_template")


@pytest.mark.parametrize("whole", ["with a whole notebook", "all damaged"])
@pytest.mark.parametrize(
    ("asked", "possible"),
    [
        ("", LESSON),
        ("01", LESSON),
        ("square", 1),
        ("square,scaled-sigmoid", 3),
        ("square,linear", 4),
    ],
)
def test_the_possible_points_are_the_same_for_all_whatever_could_be_read(
    asked: str, possible: int, whole: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classwork, "work", lambda *_: None)
    for path in folder.glob("*.ipynb"):
        if path.stem != "ann" or whole == "all damaged":
            path.write_bytes(path.read_bytes()[:-40])
    run("grade", "homework", *(["--exercises", asked] if asked else []), "--trust")
    made = folder.parent / "homework-grades"
    grades, moodle, results = (
        (made / name).read_text() for name in ("grades.csv", "moodle.csv", "results.json")
    )
    of_table = {row["possible"] for row in csv.DictReader(grades.splitlines())}
    of_moodle = {row["Maximum Grade"] for row in csv.DictReader(moodle.splitlines())}
    of_json = {student["possible"] for student in json.loads(results)["students"]}
    pages = [(made / "feedback" / f"{name}.html").read_text() for name in ("ann", "bob")]

    assert (of_table, of_moodle, of_json) == ({f"{possible}"}, {f"{possible}"}, {possible})
    of_page = f"of {possible} {'point' if possible == 1 else 'points'} so far"
    assert [of_page in page for page in pages] == [True, True]
    assert f"<strong>{possible}</strong> point" in (made / "class.html").read_text()


def test_exercises_with_answers_from_an_earlier_run_count_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classwork, "work", lambda *_: None)
    for asked in ("square,scaled-sigmoid", "square"):
        run("grade", "homework", "--exercises", asked, "--trust")
    with (folder.parent / "homework-grades" / "grades.csv").open() as table:
        assert {row["possible"] for row in csv.DictReader(table)} == {"3"}


@pytest.mark.parametrize("bwrap", ["not installed", "not allowed"])
def test_without_a_sandbox_nothing_runs(
    bwrap: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "bin" / "bwrap"
    command.parent.mkdir()
    if bwrap == "not allowed":
        command.write_text("#!/bin/sh\nexit 1\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent))
    monkeypatch.setattr(container, "engine", lambda: None)
    refused = run("grade", "homework")

    assert refused.exit_code == NOT_DONE
    assert "there is no sandbox here to run submissions in: install bubb" in said(refused)
    assert "answers graded" not in said(refused)


class DyingPool(Pool):
    """A pool whose workers all die."""

    def __call__(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        for task in tasks:
            yield Outcome(task, None)


def test_the_grader_s_own_failures_end_with_1_and_have_a_column(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "eve.zip").unlink()
    monkeypatch.setattr(classwork, "Pool", DyingPool)
    result = run("grade", "homework", "--exercises", "square", "--trust")

    assert result.exit_code == NOT_DONE
    assert "can read, change and send" in result.stderr
    assert "not attempted  grader failed  most frequent" in result.stdout
    assert (
        "The grader failed on ann square, bob square, cyd square, dan square: the worker process "
        "died of this answer twice. The next run grades these answers again. Reports:"
    ) in said(result)


@pytest.mark.parametrize(
    ("ties", "said"), [(0, "constant-factor (2)"), (2, "constant-factor and 2 more (2 each)")]
)
def test_equally_frequent_rules_are_counted(ties: int, said: str) -> None:
    tally = Tally("square", "Square", {"wrong": 6}, "constant-factor", 2, ties)

    assert [*console.summary([tally]).columns[-1].cells] == [said]
