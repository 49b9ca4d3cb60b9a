from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from answers.lesson_01 import RIGHT, SOLVED
from autograd_doctor import RULES
from barepage import running_browser
from filelock import FileLock
from sampling import first_rows

from autograd_course.grader import CATALOGUE, grade, hint, progress, reset
from autograd_course.grader.review import MOST, Missed
from autograd_course.index import INDEX
from autograd_course.learner import store
from autograd_course.learner.state import State
from autograd_course.quizzes import bank

pytestmark = pytest.mark.slow

SQUARE, BROKEN = RIGHT["square"], SOLVED["BrokenCube"]


class Unwritten(SQUARE):  # type: ignore[misc, valid-type]
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        raise NotImplementedError


FOREVER = "while True: update(lambda state: state.graded('square', 'wrong', 'flipped-sign'))"
IMPORTS = "from autograd_course.learner.store import update, load"


def saved(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def python(code: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", f"{IMPORTS}\n{code}"],
        env={**os.environ, "AUTOGRAD_COURSE_PROGRESS": str(path)},
        stdout=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[str, int]:
    """Wait for a process to end. Return its output and its exit status."""
    return process.communicate(timeout=120)[0], process.returncode


def one_wrong(state: State) -> State:
    return state.graded("square", "wrong", "flipped-sign")


# What is stored


def test_an_exercise_is_remembered_with_all_that_happened(progress_file: Path) -> None:
    hint("square")
    for answer in (None, BROKEN, BROKEN, SQUARE, BROKEN):
        grade("square", answer)

    assert saved(progress_file) == {
        "schema": 1,
        "exercises": {
            "square": {
                "status": "passed",
                "latest": "wrong",
                "attempts": 4,
                "hints": 1,
                "rules": {"forward-mismatch": 3},
            }
        },
    }


@pytest.mark.parametrize("answer", [None, Unwritten])
def test_an_exercise_run_again_without_an_answer_stays_passed(answer: Any) -> None:
    grade("square", SQUARE)
    again = grade("square", answer)
    text = str(again)

    assert (again.status, again.points, again.kept) == ("not attempted", 0, True)
    assert text.startswith("✓ Square · passed earlier · 1 of 1 point kept\n")
    assert "You passed this exercise earlier; your points are kept." in text.replace("\n", " ")
    assert "hint(" not in text
    assert "passed earlier" in again._repr_html_()
    assert "latest" not in str(progress())
    assert "1 of 20 points" in str(progress())


def test_a_wrong_answer_to_a_passed_exercise_costs_no_points() -> None:
    grade("square", SQUARE)
    text = str(grade("square", BROKEN))
    grade("square", None)

    assert text.startswith("✗ Square · wrong · 1 of 1 point kept\n")
    assert "your points are kept" in text
    assert "latest answer wrong" in str(progress())


def test_a_fault_of_the_grader_leaves_no_trace(
    progress_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograd_course.grader.kinds.function.diagnose", lambda *a, **k: 1 / 0)

    assert grade("square", SQUARE).status == "grader failed"
    assert not progress_file.exists()


@pytest.mark.thorough
def test_a_new_process_finds_the_progress(progress_file: Path) -> None:
    grade("square", SQUARE)
    other = python("print(load().state['square'].status)", progress_file)

    assert finished(other) == ("passed\n", 0)


def test_an_exercise_can_be_started_afresh(progress_file: Path) -> None:
    grade("square", SQUARE)
    grade("repair-cube", RIGHT["repair-cube"])
    reset("Square")

    assert list(saved(progress_file)["exercises"]) == ["repair-cube"]


def test_the_file_lies_in_the_users_data_folder_unless_said_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(store.VARIABLE)

    assert store.progress_path().parts[-2:] == ("autograd-course", "progress.json")


# Nothing is lost


def test_two_processes_lose_none_of_each_others_results(progress_file: Path) -> None:
    change = "state.graded('square', 'wrong', 'flipped-sign')"
    code = f"for _ in range(20): update(lambda state: {change})"
    processes = [python(code, progress_file) for _ in range(2)]

    assert [finished(process) for process in processes] == [("", 0), ("", 0)]
    assert saved(progress_file)["exercises"]["square"]["attempts"] == 40


def test_a_process_killed_while_writing_leaves_a_whole_file(progress_file: Path) -> None:
    process = python(FOREVER, progress_file)
    while not progress_file.exists():
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    finished(process)
    attempts = saved(progress_file)["exercises"]["square"]["attempts"]

    assert store.update(one_wrong).note == ""
    assert saved(progress_file)["exercises"]["square"]["attempts"] == attempts + 1


def test_a_failed_write_keeps_the_old_file_and_leaves_no_litter(
    progress_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.update(one_wrong)
    before = progress_file.read_bytes()

    def disk_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    result = grade("square", SQUARE)

    assert result.status == "passed"
    assert "Progress cannot be saved" in " ".join(str(result).split())
    assert "No space left on device" in " ".join(str(result).split())
    assert progress_file.read_bytes() == before
    assert {p.name for p in progress_file.parent.iterdir()} == {
        "progress.json",
        "progress.json.lock",
    }
    assert "✓  square" in str(progress()), "this process remembers"

    monkeypatch.undo()
    monkeypatch.setenv(store.VARIABLE, str(progress_file))
    store.update(one_wrong)
    assert saved(progress_file)["exercises"]["square"]["status"] == "passed", "and saves it later"


DAMAGED = {
    "empty": b"",
    "cut off": b'{"schema": 1, "exerc',
    "binary": b"\xff\xfe\x00",
    "a list": b"[]",
    "no schema": b'{"exercises": {}}',
    "no exercises": b'{"schema": 1}',
    "an unknown status": b'{"schema": 1, "exercises": {"square": {"status": "great"}}}',
    "an unknown field": b'{"schema": 1, "exercises": {"square": {"grade": "A"}}}',
    "text for a count": b'{"schema": 1, "exercises": {"square": {"attempts": "many"}}}',
    "a number for a record": b'{"schema": 1, "exercises": {"square": 3}}',
}


@pytest.mark.parametrize("content", first_rows(DAMAGED.values()), ids=DAMAGED)
def test_a_damaged_file_is_set_aside_and_said_once(progress_file: Path, content: bytes) -> None:
    progress_file.write_bytes(content)
    aside = progress_file.with_name("progress.json.set-aside-1")

    assert "is damaged. The next grading renames it" in " ".join(str(progress()).split())
    assert progress_file.read_bytes() == content, "looking changes nothing"

    first, second = grade("square", SQUARE), grade("square", SQUARE)
    assert aside.read_bytes() == content
    assert "The progress file is damaged. The grader renamed it to" in first.note
    assert second.note == ""
    assert saved(progress_file)["exercises"]["square"]["attempts"] == 2


def test_a_file_of_a_newer_version_is_set_aside_too(progress_file: Path) -> None:
    newer = b'{"schema": 2, "exercises": [], "more": true}'
    for _ in range(2):
        progress_file.write_bytes(newer)
        assert "newer version of the course" in grade("square", SQUARE).note

    copies = sorted(progress_file.parent.glob("*.set-aside-*"))
    assert [copy.name[-1] for copy in copies] == ["1", "2"]
    assert {copy.read_bytes() for copy in copies} == {newer}


# Progress that cannot be stored


def test_without_a_place_to_write_grading_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "file" / "progress.json"))
    result = grade("square", SQUARE)

    assert result.status == "passed"
    assert store.VARIABLE in result.note
    assert progress().passed == 1


def test_a_lock_that_is_never_released_delays_but_does_not_stop(
    progress_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.1)
    with FileLock(f"{progress_file}.lock"):
        result = grade("square", SQUARE)

    assert result.status == "passed"
    assert "another program has locked" in result.note


def test_what_waited_for_a_lock_does_not_undo_what_was_written_meanwhile(
    progress_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.1)
    with FileLock(f"{progress_file}.lock"):
        store.update(one_wrong)
        progress_file.write_text(json.dumps(one_wrong(State()).to_json()), encoding="utf-8")
    store.update(one_wrong)

    assert saved(progress_file)["exercises"]["square"]["attempts"] == 3


# The progress table


def test_progress_says_what_is_done_and_what_is_next() -> None:
    hint("scaled-sigmoid")
    for exercise, answer in {"square": SQUARE, "scaled-sigmoid": SQUARE}.items():
        grade(exercise, answer)
    grade("square", BROKEN)
    lines = str(progress()).splitlines()
    columns = [re.split(r" {2,}", line.strip()) for line in lines[2:6]]

    assert columns == [
        [
            "01 A Function from end to end · 1 of 13 passed · 1 of 20 points · 86 minutes left, "
            "21 of them optional"
        ],
        ["✓", "square", "Square", "2 attempts, latest answer wrong"],
        ["✗", "scaled-sigmoid", "Scaled sigmoid", "1 attempt, 1 hint"],
        ["·", "weighted-sum", "Weighted sum"],
    ]
    assert lines[0] == 'Next: "scaled-sigmoid" in exercises/01_template.ipynb (medium, 10 minutes)'


def test_an_optional_exercise_is_proposed_when_all_others_are_passed() -> None:
    others = [entry for entry in INDEX.values() if not entry.optional]
    first = next(entry for entry in INDEX.values() if entry.optional)

    def passed(state: State) -> State:
        for entry in others:
            state = state.graded(entry.id, "passed", "")
        return state

    store.update(passed)
    head, *rows = str(progress()).splitlines()

    assert f'"{first.id}"' in head
    assert f"(optional, {first.difficulty}, {first.minutes} minutes" in head
    assert any(row.strip().endswith(f"{first.title} (optional)") for row in rows)
    minutes = sum(e.minutes for e in INDEX.values() if e.optional and e.lesson == first.lesson)
    assert any(row.endswith(f"{minutes} minutes left, {minutes} of them optional") for row in rows)


def test_an_exercise_with_a_star_names_the_extra_section_that_it_needs() -> None:
    starred = next(entry for entry in INDEX.values() if entry.needs)

    def passed_before(state: State) -> State:
        for exercise in takewhile(lambda name: name != starred.id, INDEX):
            state = state.graded(exercise, "passed", "")
        return state

    store.update(passed_before)
    lines = str(progress()).splitlines()
    (row,) = (line for line in lines if line.split()[1:2] == [starred.id])

    assert lines[0].endswith(f'{starred.minutes} minutes, needs "{starred.needs[0]}")')
    assert row.strip().endswith(f"{starred.title} ★")


def test_a_finished_course_says_so() -> None:
    def all_passed(state: State) -> State:
        for exercise in CATALOGUE:
            state = state.graded(exercise, "passed", "")
        return state

    store.update(all_passed)
    shown = progress()

    assert shown.following is None
    assert f"is complete: all {len(CATALOGUE)} exercises are passed." in str(shown)
    assert "minutes left" not in str(shown)
    assert "The course is complete" in shown._repr_html_()


@pytest.mark.parametrize("show", [str, lambda shown: shown._repr_html_()], ids=["text", "html"])
def test_a_first_look_works_before_anything_is_graded(show: Callable[[Any], str]) -> None:
    assert "0 of 13 passed" in show(progress())


# The list of things to review


def reviewed(shown: Any) -> list[list[str]]:
    """Return the columns of the lines below "To review"."""
    lines = str(shown).splitlines()
    begin = lines.index("To review") + 1 if "To review" in lines else len(lines)
    return [re.split(r" {2,}", line.strip()) for line in lines[begin:]]


def graded(*gradings: tuple[str, str, str]) -> None:
    def change(state: State) -> State:
        for exercise, status, rule in gradings:
            state = state.graded(exercise, status, rule)
        return state

    store.update(change)


def test_before_anything_was_missed_there_is_nothing_to_review() -> None:
    graded(("square", "passed", ""), ("weighted-sum", "wrong", ""))

    assert reviewed(progress()) == []
    assert "To review" not in progress()._repr_html_()


def test_the_rules_missed_most_come_first_and_solved_ones_are_left_out() -> None:
    graded(
        *[("square", "wrong", "flipped-sign")] * 2,
        ("square", "passed", ""),
        ("weighted-sum", "wrong", "ignores-grad-output"),
        *[("scaled-sigmoid", "wrong", "constant-factor")] * 3,
    )

    assert reviewed(progress()) == [
        [
            "✗",
            "constant-factor",
            CATALOGUE["scaled-sigmoid"].read,
            'missed 3 times in scaled-sigmoid; explain("constant-factor")',
        ],
        [
            "✗",
            "ignores-grad-output",
            'lesson 01, "What backward is asked for"',
            'missed once in weighted-sum; explain("ignores-grad-output")',
        ],
    ]
    html = progress()._repr_html_()
    assert html.index("constant-factor") < html.index("ignores-grad-output")
    assert "flipped-sign" not in html


@pytest.mark.parametrize("exercise", CATALOGUE)
def test_a_wrong_forward_is_not_reviewed_in_a_section_about_backward(exercise: str) -> None:
    assert "backward" not in Missed("forward-mismatch", 1, (exercise,)).read


def test_a_rule_that_several_exercises_broke_names_what_to_read_for_each() -> None:
    graded(("square", "wrong", "forward-mismatch"), ("linear", "wrong", "forward-mismatch"))

    ((_, _, read, told),) = reviewed(progress())
    assert read == f"the statement of the exercise; {CATALOGUE['linear'].read}"
    assert told.startswith("missed 2 times in square, linear;")


def test_questions_are_reviewed_by_lesson_until_they_are_right() -> None:
    bank_question = bank().choices[0]

    def answered(right: bool) -> None:
        for lesson, name in (("02", "zeros-or-none"), ("01", "vjp"), ("course", bank_question.id)):
            store.update(lambda s, w=lesson, n=name: s.answered(w, n, right=right, chosen="a"))

    answered(False)
    assert reviewed(progress()) == [
        ["✗", "lesson 01", 'knowledge_check("01")', "not yet right: vjp"],
        ["✗", "lesson 01", 'knowledge_check("course")', f"not yet right: {bank_question.id}"],
        ["✗", "lesson 02", 'knowledge_check("02")', "not yet right: zeros-or-none"],
    ]

    answered(True)
    assert reviewed(progress()) == []


def test_votes_are_counted_in_the_row_of_their_lesson_and_are_not_reviewed() -> None:
    assert "votes" not in str(progress())
    for name, right in (("saved-as-attribute", True), ("grad-output-in-place", False)):
        store.update(lambda s, n=name, r=right: s.answered("02", n, right=r, chosen="a"))

    (row,) = (line for line in str(progress()).splitlines() if "votes" in line)
    assert row.split()[1] == "02"
    assert row.endswith(" 0 of 9 right, votes: 1 of 2 right")
    assert reviewed(progress()) == []


def test_a_file_with_rules_and_exercises_that_are_gone_is_shown(progress_file: Path) -> None:
    record = {"status": "wrong", "latest": "wrong", "attempts": 1, "rules": {"an-old-rule": 1}}
    exercises = {"gone": record, "square": record}
    progress_file.write_text(json.dumps({"schema": 1, "exercises": exercises}))

    (row,) = reviewed(progress())
    assert row[1:3] == ["an-old-rule", CATALOGUE["square"].read]


def test_what_is_shown_of_many_rules_is_the_top() -> None:
    graded(*[("square", "wrong", rule) for rule in list(RULES)[:9]])

    assert len(reviewed(progress())) == MOST


# In a notebook


@pytest.mark.browser
def test_the_next_exercise_comes_first_and_a_click_lists_the_exercises_of_a_lesson() -> None:
    graded(*[("square", "wrong", "flipped-sign")] * 2, ("scaled-sigmoid", "passed", ""))

    with running_browser() as browser:
        page = browser.new_page(viewport={"width": 600, "height": 800})
        page.set_content(progress()._repr_html_())
        lines = page.inner_text("body").splitlines()
        square = page.get_by_text("square", exact=True).first
        assert not square.is_visible()
        assert page.evaluate("document.body.lastElementChild.getBoundingClientRect().bottom") < 760
        page.get_by_text("01 A Function from end to end").click()
        assert square.is_visible()

    assert lines[0] == 'Next: "square" in exercises/01_template.ipynb (easy, 7 minutes)'
    assert any(line.startswith("01 A Function from end to end · 1 of 13 passed") for line in lines)
