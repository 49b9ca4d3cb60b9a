"""Every exercise behind the wall beside ``grade``: its solution, its stub, one wrong answer.

    python -m benchmarks.classroom_verdicts [--wrong all] [EXERCISE or LESSON …]

Prints seconds and verdicts, and counts where the classroom says something else than ``grade``. The
same is compared that a learner reads first: the status, and the rule or the sentence; of a sentence
the numbers may differ. Inputs are those of ``grade``, and the doctor draws from one seed on both
sides: on others another rule may be the first to fit.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ["AUTOGRAD_COURSE_PROGRESS"] = str(Path(tempfile.mkdtemp()) / "progress.json")
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from answers import RIGHT
from behind_the_wall import handed_in, mistaken, wrongs

from autograd_course.classroom.extraction import Answer
from autograd_course.classroom.judging import judged
from autograd_course.classroom.sandbox import choose
from autograd_course.classroom.sandbox.running import Sandbox
from autograd_course.doctor import diagnose
from autograd_course.grader import CATALOGUE
from autograd_course.grader.exercise import Exercise
from autograd_course.grader.judge import judge
from autograd_course.grader.judging import function
from autograd_course.grader.verdict import Verdict


def graded(exercise: Exercise, answer: Any) -> Verdict:
    """Return what ``grade`` says."""
    with patch.object(function, "diagnose", partial(diagnose, seed=seed_for(exercise))):
        return judge(exercise, answer)


def seed_for(exercise: Exercise) -> int:
    """Return the seed that ``grade`` draws an exercise's inputs from."""
    return zlib.crc32(exercise.id.encode())


def cases(exercise: Exercise, all_wrong: bool) -> Iterator[tuple[str, Answer, Verdict, bool]]:
    """Yield what is handed in, its code, what ``grade`` says of it, and whether rules decide."""
    right = graded(exercise, RIGHT[exercise.id])
    yield "solution", handed_in("solutions", exercise.id), right, True
    stub = Verdict("not attempted", "")
    yield "stub", handed_in("exercises", exercise.id), stub, False
    for wrong in wrongs(exercise.id)[: None if all_wrong else 1]:
        yield wrong.mistake, mistaken(wrong), graded(exercise, wrong.answer), True


def same(there: Verdict, here: Verdict, worded: bool) -> bool:
    """Whether two verdicts say the same first."""
    if there.status != here.status or bool(there.finding) != bool(here.finding):
        return False
    if there.finding and here.finding:
        return there.finding.rule == here.finding.rule
    return not worded or _without_numbers(there.message) == _without_numbers(here.message)


def _without_numbers(message: str) -> str:
    return re.sub(r"-?\d[\d.,e+-]*", "#", message)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("only", nargs="*")
    parser.add_argument("--wrong", choices=("one", "all"), default="one")
    asked = parser.parse_args()
    differences = 0
    with Sandbox(choose()) as sandbox:
        for exercise in CATALOGUE.values():
            if asked.only and not {exercise.id, exercise.lesson[:2]} & set(asked.only):
                continue
            for what, answer, here, worded in cases(exercise, asked.wrong == "all"):
                began = time.monotonic()
                there = judged(exercise, answer, sandbox, seed_for(exercise))
                seconds = time.monotonic() - began
                print(f"{seconds:6.2f} s  {exercise.id}  {there.status}  ({what})", flush=True)
                if there.remarks and what in ("solution", "stub"):
                    print("          remarks:", *there.remarks)
                if not same(there, here, worded):
                    differences += 1
                    print(f"          there: {there}\n          here:  {here}")
    print(f"{differences} differences")


if __name__ == "__main__":
    main()
