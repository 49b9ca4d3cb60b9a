"""Every exercise behind the wall beside ``grade``: its solution, its stub, one wrong answer.

    python -m benchmarks.classroom_verdicts [--wrong all] [EXERCISE or LESSON …]

Prints seconds and verdicts, and counts where the classroom says something else than ``grade``. The
same is compared that a learner reads first: the status, and the rule or the sentence; of a sentence
the numbers may differ. A Function gets the inputs that ``grade`` draws: on others another rule
may be the first to fit.
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
from pathlib import Path

os.environ["AUTOGRAD_COURSE_PROGRESS"] = str(Path(tempfile.mkdtemp()) / "progress.json")
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from answers import RIGHT
from behind_the_wall import handed_in, mistaken, wrongs

from autograd_course.classroom.extraction import Answer
from autograd_course.classroom.judging import judged
from autograd_course.classroom.sandbox import choose
from autograd_course.classroom.sandbox.running import Sandbox
from autograd_course.grader import CATALOGUE
from autograd_course.grader.exercise import Exercise
from autograd_course.grader.judge import judge
from autograd_course.grader.verdict import Verdict


def cases(exercise: Exercise, all_wrong: bool) -> Iterator[tuple[str, Answer, Verdict, bool]]:
    """Yield what is handed in, its code, what ``grade`` says of it, and whether rules decide."""
    yield "solution", handed_in("solutions", exercise.id), judge(exercise, RIGHT[exercise.id]), True
    stub = Verdict("not attempted", "")
    yield "stub", handed_in("exercises", exercise.id), stub, False
    for wrong in wrongs(exercise.id)[: None if all_wrong else 1]:
        yield wrong.mistake, mistaken(wrong), judge(exercise, wrong.answer), True


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
                there = judged(exercise, answer, sandbox, zlib.crc32(exercise.id.encode()))
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
