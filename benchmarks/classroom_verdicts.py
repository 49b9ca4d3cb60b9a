"""Compare the sandbox with ``grade`` on each exercise: the solution, the stub and a wrong answer.

    python -m benchmarks.classroom_verdicts [--quick] [--wrong all] [EXERCISE or LESSON …]

The benchmark prints seconds and verdicts, and counts how often the classroom's verdict differs from
the verdict of ``grade``. It compares the parts that a learner reads first: the status, and the rule
or the sentence. The numbers in a sentence may differ. Both sides use the inputs of ``grade``, and
the doctor draws from the same seed, because other inputs may lead to a different rule. A quick run
takes three exercises.
"""

from __future__ import annotations

import re
import statistics
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import torch

from benchmarks._common import command_line, some

from answers import RIGHT  # isort: skip
from behind_the_wall import handed_in, mistaken, wrongs  # isort: skip

from autograd_classroom.judge import judged, seeds
from autograd_classroom.sandbox import NoSandboxError, choose
from autograd_classroom.sandbox.running import Sandbox
from autograd_doctor import diagnose

from autograd_course.extraction import Answer
from autograd_course.grader import CATALOGUE
from autograd_course.grader.exercise import Exercise, RoutineExercise, Trial
from autograd_course.grader.kinds import function
from autograd_course.grader.pipeline import judge
from autograd_course.grader.verdict import Verdict, unfinished

TRIAL = 0  # the seed of each trial


def graded(exercise: Exercise, answer: Any) -> Verdict:
    """Return the verdict that ``grade`` gives an answer. Each trial begins with the same seed."""
    if isinstance(exercise, RoutineExercise):
        exercise = replace(exercise, trials=tuple(map(seeded, exercise.trials)))
    with patch.object(function, "diagnose", partial(diagnose, seed=seed_for(exercise))):
        return judge(exercise, answer)


def seeded(trial: Trial) -> Trial:
    """Return a trial that begins with the seed :data:`TRIAL`."""

    def tried(answer: Any) -> Verdict | None:
        torch.manual_seed(TRIAL)
        return trial(answer)

    return tried


def seed_for(exercise: Exercise) -> int:
    """Return the seed from which ``grade`` draws the inputs of an exercise."""
    return zlib.crc32(exercise.id.encode())


def in_the_classroom(exercise: Exercise, answer: Answer, sandbox: Sandbox) -> Verdict:
    """Return the verdict that the classroom gives an answer, with the inputs of ``grade``."""
    seed, about, derived = seed_for(exercise), seeds.about, seeds.derived
    looks = {"look": seed, "look again": seed + 1}  # the two runs of ``diagnose``

    def like_grade(secret: int, purpose: str, inputs: tuple[Any, ...]) -> int:
        return looks.get(purpose) or about(secret, purpose, inputs)

    def seed_of(secret: int, *purpose: str) -> int:
        return TRIAL if purpose[0] == "trial" else derived(secret, *purpose)

    with (
        patch.object(seeds, "derived", seed_of),
        patch.object(seeds, "samples", lambda exercise, secret: exercise.samples(secret)),
        patch.object(seeds, "about", like_grade),
    ):
        return judged(exercise, answer, sandbox, seed)


def cases(exercise: Exercise, all_wrong: bool) -> Iterator[tuple[str, Answer, Any, bool]]:
    """Yield the kind of answer, its code, the answer for ``grade``, and whether sentences count.

    For a stub, ``grade`` gets None, and the classroom's verdict must be "not attempted".
    """
    yield "solution", handed_in("solutions", exercise.id), RIGHT[exercise.id], True
    yield "stub", handed_in("exercises", exercise.id), None, False
    for wrong in wrongs(exercise.id)[: None if all_wrong else 1]:
        yield wrong.mistake, mistaken(wrong), wrong.answer, True


def timed(call: Callable[[], Verdict]) -> tuple[float, Verdict]:
    began = time.monotonic()
    verdict = call()
    return time.monotonic() - began, verdict


def same(there: Verdict, here: Verdict, worded: bool) -> bool:
    """Return whether two verdicts agree in the parts that a learner reads first."""
    if there.status != here.status or bool(there.finding) != bool(here.finding):
        return False
    if there.finding and here.finding:
        return there.finding.rule == here.finding.rule
    return not worded or _without_numbers(there.message) == _without_numbers(here.message)


def _without_numbers(message: str) -> str:
    return re.sub(r"-?\d[\d.,e+-]*", "#", message)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("only", nargs="*")
    parser.add_argument("--wrong", choices=("one", "all"), default="one")
    asked = parser.parse_args()
    try:
        backend = choose()
    except NoSandboxError as missing:
        return print(f"This benchmark is skipped: {missing}")
    differences, ratios, wanted = 0, [], set(asked.only)
    chosen = [e for e in CATALOGUE.values() if not wanted or wanted & {e.id, e.lesson[:2]}]
    with Sandbox(backend) as sandbox:
        for exercise in some(chosen, asked.quick, count=3):
            for what, code, answer, worded in cases(exercise, asked.wrong == "all"):
                seconds, there = timed(lambda e=exercise, c=code: in_the_classroom(e, c, sandbox))
                took, here = 0.0, unfinished("")
                if answer is not None:
                    took, here = timed(lambda e=exercise, a=answer: graded(e, a))
                    ratios.append(seconds / took)
                print(f"{seconds:6.2f} s  {exercise.id}  {there.status}  ({what})", flush=True)
                if there.remarks and what in ("solution", "stub"):
                    print("          remarks:", *there.remarks)
                if not same(there, here, worded):
                    differences += 1
                    print(f"          there: {there}\n          here:  {here}")
    print(f"{differences} differences")
    print(f"time in the sandbox ÷ time of grade: {statistics.median(ratios):.2f} (median)")


if __name__ == "__main__":
    main()
