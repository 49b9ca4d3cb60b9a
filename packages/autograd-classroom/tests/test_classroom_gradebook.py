"""The gradebook loses nothing and grades nothing twice, even if a writer fails or is killed."""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import re
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from autograd_classroom.gradebook import Gradebook, GradebookError, Run, Score
from autograd_classroom.gradebook.opening import VERSION, unusable
from autograd_classroom.ingest import Rejected, Submission
from autograd_classroom.reports import as_csv, as_json_document, as_junit
from autograd_classroom.reports.pages import class_page, feedback

from autograd_course.extraction import Answer
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.notebook_files import Notebook

pytestmark = pytest.mark.slow

EXERCISES = [e for e in CATALOGUE.values() if e.lesson == "01_template"]
GRADER = "1"
KILLS = 25


def answers(student: str, code: str = "code") -> list[Answer]:
    return [Answer(e.id, student, "X", f"{code} {e.id}", "import torch") for e in EXERCISES]


def submission(student: str, *problems: str) -> Submission:
    return Submission(student, "01_template", f"{student}.ipynb", Notebook(()), "0" * 64, problems)


def hand_in(book: Gradebook, student: str, code: str = "code") -> None:
    book.hand_in(submission(student), answers(student, code))


def passed(answer: Answer, **more: object) -> Score:
    given = {"status": "passed", "points": 1.0, "seconds": 0.5, "hash": answer.hash}
    return Score(answer.student, answer.exercise, **(given | more))  # type: ignore[arg-type]


def grade_all(book: Gradebook, run: Run) -> list[str]:
    """Grade the pending answers, and return which ones they were."""
    graded = []
    for answer in book.pending(run):
        assert book.record(run, passed(answer))
        graded.append(f"{answer.student} {answer.source}")
    return graded


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grades.sqlite"


def test_a_verdict_comes_back_as_it_was_given(path: Path) -> None:
    with Gradebook(path) as book:
        run = book.begin(EXERCISES, GRADER)
        hand_in(book, "ann")
        answer = next(iter(book.pending(run)))
        shown = {"expected": 2.0, "actual": math.nan, "input": "x", "index": (0, 1)}
        wrong = passed(
            answer, status="wrong", points=0.0, rule="wrong-scale", message="\ud800 1 not 2",
            evidence={**shown, "odd": object}, seed="7", remarks=("imports os", "\ud800"),
        )  # fmt: skip
        assert book.record(run, wrong)
    with Gradebook(path) as book:
        score = book.scores("ann")[0]

        assert (score.status, score.rule, score.points, score.seed) == (
            "wrong", "wrong-scale", 0.0, "7",
        )  # fmt: skip
        assert score.evidence == {
            "expected": 2.0, "actual": "nan", "input": "x", "index": [0, 1],
            "odd": "<class 'object'>",
        }  # fmt: skip
        assert score.remarks == ("imports os", "?")
        assert (score.title, score.possible) == (EXERCISES[0].title, EXERCISES[0].points)
        assert book.code(score.hash) == (answer.name, answer.preamble, answer.source)


DEEP = "[" * 900 + "]" * 900
DAMAGES = {  # the damage in the file, and what remains of the verdict
    "evidence = 'no JSON'": "wrong",
    "evidence = x'ff00'": "wrong",
    "evidence = '[1, 2]'": "wrong",
    "evidence = 7": "wrong",
    f"""evidence = '{{"at": {DEEP}}}'""": "wrong",
    f"evidence = '{'[' * 10**5}'": "wrong",
    """evidence = '{"expected": {}, "actual": {"a": 1}, "index": 3}'""": "wrong",
    """evidence = '{"index": [0], "expected": 1, "actual": 2}'""": "wrong",
    """evidence = '{"given": [1], "line": 7, "without_gradient": 3}'""": "wrong",
    "remarks = '{}'": "wrong",
    "remarks = 'x'": "wrong",
    "seconds = 'long'": "wrong",
    "seed = x'ff'": "wrong",
    "points = 'many'": "",
    "points = -1e999": "",
    "message = x'ff'": "",
    "rule = 3.5": "wrong",  # SQLite stores this number as text
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage[:40])
def test_a_damaged_record_is_named_and_the_others_are_read(path: Path, damage: str) -> None:
    with Gradebook(path) as book:
        run = book.begin(EXERCISES, GRADER)
        hand_in(book, "ann")
        for answer in book.pending(run):
            wrong = {"status": "wrong", "points": 0.0, "rule": "zero-dim", "message": "No."}
            book.record(run, passed(answer, evidence={"witness": "x"}, seed="7", **wrong))
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"UPDATE results SET {damage} WHERE exercise = ?", (EXERCISES[1].id,))
        file.commit()
    with Gradebook(path) as book:
        first, second, *others = book.scores("ann")
        *_, json = [*class_page(book), *feedback(book, "ann"), as_csv(book), as_junit(book),
                    as_json_document(book)]  # fmt: skip

    assert second.status == DAMAGES[damage]
    assert damage.startswith("rule") or any("damaged record" in r for r in second.remarks)
    for score in (first, *others):
        assert (score.status, score.evidence, score.remarks) == ("wrong", {"witness": "x"}, ())
    assert "No." in json


def test_every_run_has_a_secret_seed_of_its_own(path: Path) -> None:
    with Gradebook(path) as book:
        first, other = (book.begin(EXERCISES, GRADER) for _ in range(2))

    assert first.seed != other.seed
    assert len(bytes.fromhex(first.seed)) == 16


def test_a_resumed_run_has_its_seed_and_what_is_left(path: Path) -> None:
    with Gradebook(path) as book:
        run = book.begin(EXERCISES, GRADER)
        hand_in(book, "ann")
        done, *left = book.pending(run)
        book.record(run, passed(done))
    with Gradebook(path) as book:
        again = book.begin(EXERCISES, GRADER, resume=True)
        hand_in(book, "ann")  # the same answer, collected again

        assert again == run
        assert list(book.pending(again)) == left
        book.finish(again)
        assert book.begin(EXERCISES, GRADER, resume=True).id != run.id


def test_only_what_changed_is_graded_again(path: Path) -> None:
    with Gradebook(path) as book:
        run = book.begin(EXERCISES, GRADER)
        for student in ("ann", "bob"):
            hand_in(book, student)
        assert len(grade_all(book, run)) == 2 * len(EXERCISES)

        later = book.begin(EXERCISES, GRADER)
        changed = answers("ann")[1:]
        new = Answer(EXERCISES[0].id, "ann", "X", "better")
        book.hand_in(submission("ann"), [new, *changed])

        assert grade_all(book, later) == ["ann better"]
        hand_in(book, "ann")  # the first version again, so its verdict is still valid
        assert grade_all(book, later) == []


def test_a_new_grader_grades_all_again_and_its_verdicts_count(path: Path) -> None:
    with Gradebook(path) as book:
        run = book.begin(EXERCISES, GRADER)
        hand_in(book, "ann")
        grade_all(book, run)
        newer = book.begin(EXERCISES, "2")
        first, *others = book.pending(newer)
        book.record(newer, passed(first, status="wrong", points=0.0))

        assert len(others) == len(EXERCISES) - 1
        assert [s.status for s in book.scores()] == ["wrong", *["passed"] * len(others)]


def test_a_verdict_stands_and_only_our_own_failure_gives_way(path: Path) -> None:
    with Gradebook(path) as book:
        run = book.begin(EXERCISES, GRADER)
        hand_in(book, "ann")
        answer = next(iter(book.pending(run)))

        assert book.record(run, passed(answer, status="grader failed", points=0.0))
        assert answer in list(book.pending(run))
        assert book.record(run, passed(answer))
        assert not book.record(run, passed(answer, status="wrong", points=0.0))
        assert book.scores()[0].status == "passed"


def test_an_answer_not_graded_yet_has_no_points_and_no_status(path: Path) -> None:
    with Gradebook(path) as book:
        book.begin(EXERCISES, GRADER)
        hand_in(book, "ann")

        assert {(s.status, s.points) for s in book.scores()} == {("", 0.0)}


def test_what_could_not_be_read_is_kept_by_name(path: Path) -> None:
    with Gradebook(path) as book:
        book.begin(EXERCISES, GRADER)
        book.hand_in(submission("ann", "the file is encoded as utf-16"), answers("ann"))
        book.reject(Rejected("eve", "eve.zip", "the zip is broken"))

        assert book.students() == ["ann", "eve"]
        assert [(p.student, p.message) for p in book.problems()] == [
            ("ann", "the file is encoded as utf-16"), ("eve", "the zip is broken"),
        ]  # fmt: skip
        book.forget_rejected()
        assert book.students() == ["ann"]


# Files that are not our gradebooks


def other_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()


def other_version(path: Path) -> None:
    Gradebook(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()


def cut_off(path: Path) -> None:
    fill(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwritten(path: Path) -> None:
    fill(path)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)


def fill(path: Path) -> None:
    with Gradebook(path) as book:
        book.begin(EXERCISES, GRADER)
        for i in range(20):
            hand_in(book, f"student {i}", code=f"code {i} " * 100)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_text("dear diary, " * 100), "not a database"),
        (lambda path: path.mkdir(), "left as it is"),
        (other_database, "no gradebook"),
        (other_version, f"version {VERSION + 1}"),
        (cut_off, "left as it is"),
        (overwritten, r"cannot be used \(it is damaged\)"),
    ],
    ids=["text", "a folder", "another database", "another version", "cut off", "overwritten"],
)
def test_a_file_that_is_no_sound_gradebook_is_named_and_never_changed(
    make: object, said: str, path: Path
) -> None:
    make(path)  # type: ignore[operator]
    before = path.read_bytes() if path.is_file() else None

    with pytest.raises(GradebookError, match=said) as failure:
        Gradebook(path)
    assert "\n" not in str(failure.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(GradebookError, match="cannot be used"):
        Gradebook(tmp_path / "none" / "grades.sqlite")


FULL = {  # what still fits into the full file
    "all but the last code": lambda pages: pages + 2,
    "nothing more": lambda pages: pages,
}


def filled_up(path: Path, room: str, run: Run) -> None:
    """Hand in answers until the file is full."""
    with Gradebook(path) as book:
        pages = book._connection.execute("PRAGMA page_count").fetchone()[0]
        book._connection.execute(f"PRAGMA max_page_count = {FULL[room](pages)}")
        for i in range(20):
            hand_in(book, f"student {i}", code=f"code {i} " * 100)
            grade_all(book, run)


@pytest.mark.parametrize("room", FULL)
def test_a_full_disk_is_a_sentence_and_what_was_recorded_is_kept(room: str, path: Path) -> None:
    with Gradebook(path) as book:
        run = book.begin(EXERCISES, GRADER)
        hand_in(book, "ann")
        graded = grade_all(book, run)

    with pytest.raises(GradebookError) as failure:
        filled_up(path, room, run)

    assert re.fullmatch(
        rf"the gradebook {path} cannot be written \(database or disk is full\)\. It keeps what was "
        r"recorded\. Make room on its disk, then .* add --resume\.",
        str(failure.value),
    )
    with Gradebook(path) as book:
        assert [score.status for score in book.scores("ann")] == ["passed"] * len(graded)
        assert book.begin(EXERCISES, GRADER, resume=True) == run
        hand_in(book, "student 19")


def test_where_even_the_log_finds_no_room_it_is_no_damaged_gradebook(path: Path) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_WRITE"

    assert "cannot be written (disk I/O error)" in str(unusable(path, error))
    assert "restore a copy" in str(unusable(path, sqlite3.DatabaseError("malformed")))


@pytest.mark.parametrize("name", ["SQLITE_CANTOPEN", "SQLITE_READONLY_DIRECTORY"])
@pytest.mark.parametrize("what", ["the folder", "the file"])
def test_a_gradebook_that_is_read_only_is_no_damaged_gradebook(
    what: str, name: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    locked = path if what == "the file" else path.parent
    monkeypatch.setattr(os, "access", lambda place, _: place != locked)  # root may write anywhere
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorname = name

    assert f"because {locked} is read-only: make it writable, or copy" in str(unusable(path, error))
    path.unlink()
    assert "read-only" not in str(unusable(path, error))


# Writers that are killed, and many writers at the same time


# Their parent process has already imported torch, so many starts cost little.
WRITERS = multiprocessing.get_context("forkserver")
WRITERS.set_forkserver_preload(["autograd_classroom.gradebook", "pytest"])


def write(path: Path, students: list[str], told: Path) -> None:
    """Grade as the command does. After each recorded verdict, say in ``told`` what was recorded."""
    log = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    told.with_suffix(f".{os.getpid()}").touch()
    with Gradebook(path) as book:
        run = book.begin(EXERCISES, GRADER, resume=True)
        for student in students:
            hand_in(book, student)
        for answer in book.pending(run):
            if book.record(run, passed(answer)):
                os.write(log, f"{answer.student}|{answer.exercise}\n".encode())
        book.finish(run)


def kept(path: Path) -> set[str]:
    with Gradebook(path) as book:
        return {f"{s.student}|{s.exercise}" for s in book.scores() if s.status == "passed"}


@pytest.mark.thorough
def test_a_writer_killed_again_and_again_loses_nothing_and_grades_nothing_twice(
    path: Path, tmp_path: Path
) -> None:
    students = [f"student {i}" for i in range(30)]
    rng = random.Random(0)
    log = tmp_path / "told"
    endings: Counter[int | None] = Counter()
    reached = [0]
    while endings[0] == 0:
        writer = WRITERS.Process(target=write, args=(path, students, log))
        writer.start()
        if endings.total() < KILLS:
            while not log.with_suffix(f".{writer.pid}").exists():
                time.sleep(0.001)
            more = reached[-1] + rng.choice([0, rng.randrange(1, 400)])
            while log.stat().st_size < more:
                time.sleep(0.0002)
            time.sleep(rng.uniform(0.0, 0.003))
            writer.kill()
        writer.join()
        endings[writer.exitcode] += 1
        reached.append(log.stat().st_size)

    told = Counter(log.read_text().splitlines())
    assert endings[-signal.SIGKILL] == KILLS
    assert len(set(reached)) > 4, "many were killed in the midst of their work"
    assert len(kept(path)) == len(students) * len(EXERCISES)
    assert set(told) <= kept(path), "what was said to be recorded is there"
    assert max(told.values()) == 1, "nothing was graded twice"


def open_new(folder: Path, begin: Any) -> None:
    """Open several new gradebooks, each at the same moment as the other processes do."""
    for number in range(30):
        begin.wait(10)
        Gradebook(folder / f"{number}.sqlite").close()


def test_many_create_the_same_gradebook_at_once(tmp_path: Path) -> None:
    begin = WRITERS.Barrier(5)
    openers = [WRITERS.Process(target=open_new, args=(tmp_path, begin)) for _ in range(5)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join(60)

    assert [opener.exitcode for opener in openers] == [0] * len(openers)


def test_many_write_at_once_and_each_verdict_is_kept_once(path: Path, tmp_path: Path) -> None:
    shares = [[f"student {j}" for j in range(i, i + 6)] for i in (0, 2, 4, 6)]
    writers = [
        WRITERS.Process(target=write, args=(path, share, tmp_path / "told")) for share in shares
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    told = Counter((tmp_path / "told").read_text().splitlines())
    assert [writer.exitcode for writer in writers] == [0] * len(writers)
    assert set(told) == kept(path)
    assert told.total() == 12 * len(EXERCISES)
