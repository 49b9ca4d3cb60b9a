"""A submission may be any file. Each file is read or reported, and no file prevents the others from
being read.

A child may also send any message. Each answer is judged or refused, no message makes a wrong answer
pass, and an answer that makes the grader fail is reported.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import pytest
from answers import RIGHT, WRONG
from autograd_classroom.grading.task import told
from autograd_classroom.ingest import Rejected, Submission, collect
from autograd_classroom.judge import judged
from fuzz import examples
from fuzz.handed import files
from fuzz.lying import Liar, Lie, lies
from handed_in import SQUARE, cell, notebook
from hypothesis import given
from hypothesis import strategies as st

from autograd_course.extraction import Answer, extract
from autograd_course.grader import CATALOGUE
from autograd_course.index import exercises_of
from autograd_course.notebook_files import read

pytestmark = pytest.mark.thorough

MOST_SECONDS = 20.0


@examples(20)
@given(st.lists(files(), min_size=1, max_size=2))
def test_every_file_is_graded_or_named(handed: list[tuple[str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for i, (name, data) in enumerate(handed):
            (root / f"student{i}").mkdir()
            (root / f"student{i}" / name).write_bytes(data)
        begun = time.process_time()
        outcomes = list(collect(root))

        assert {each.student for each in outcomes} == {f"student{i}" for i in range(len(handed))}
        for outcome in outcomes:
            require_sound(outcome)
        assert time.process_time() - begun < MOST_SECONDS


def require_sound(outcome: Submission | Rejected) -> None:
    if isinstance(outcome, Rejected):
        assert outcome.problem
        assert "the grader failed" not in outcome.problem
        return
    exercises = exercises_of(outcome.lesson)
    answers = extract(outcome.notebook, outcome.student, exercises)
    assert [answer.exercise for answer in answers] == [exercise.id for exercise in exercises]
    for answer in answers:
        assert len(answer.hash) == 64
        json.dumps([answer.cells, answer.problems], ensure_ascii=False).encode()


CELLS = st.tuples(
    st.text(max_size=200) | st.sampled_from(["def f(:", "%%bash\nls", "x = (", "while 1: pass"]),
    st.text(max_size=8) | st.sampled_from(["sigmoid", "square-grade", "square "]),
    st.sampled_from(["code", "markdown", "raw", "heading"]),
)


@examples(10)
@given(st.lists(CELLS, max_size=4), st.lists(CELLS, max_size=4))
def test_an_untouched_answer_is_found_whatever_stands_beside_it(above, below) -> None:
    others = [[cell(*each) for each in part if "Square" not in each[0]] for part in (above, below)]
    handed = notebook(*others[0], cell(SQUARE, "square"), *others[1])

    square = next(
        answer
        for answer in extract(read(handed), "ann", exercises_of("01_template"))
        if answer.exercise == "square"
    )

    assert square.source.strip() == SQUARE.strip()


@examples(50)
@given(st.binary(max_size=300))
def test_bytes_are_read_or_refused(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ann.ipynb").write_bytes(data)

        for outcome in collect(Path(folder)):
            require_sound(outcome)


# For each of these exercises, a right answer passes. A rule, a check or a trial reports a wrong
# one.
LIED_ABOUT = ("square", "gelu", "to-polar", "round-ste", "hessian-vector-product", "eight-bits")


@examples(60)
@given(st.sampled_from(LIED_ABOUT), st.booleans(), lies(), st.integers(1, 24))
def test_no_lie_lets_a_wrong_answer_pass_or_the_grader_fail_unseen(
    exercise: str, right: bool, lie: Lie, at: int
) -> None:
    wrong = next(w.answer for w in WRONG if w.exercise == exercise)
    liar = Liar(RIGHT[exercise] if right else wrong, lie, at)

    verdict = judged(CATALOGUE[exercise], Answer(exercise, "eve", "X", ""), liar, secret=2024)  # type: ignore[arg-type]

    judgeable = (("passed",) if right else ()) + ("wrong", "not attempted")
    assert verdict.status in judgeable or "keeps the grader from its work" in verdict.remarks
    assert right or verdict.status != "passed", verdict
    assert verdict.message.replace("\n", "").replace("\t", "").isprintable()
    assert told(verdict, 0.0).encode()
