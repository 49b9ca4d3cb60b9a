"""The contents of Gradescope's ``results.json`` for one student.

Format: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

import re
from typing import Any

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.gradebook.records import Problem, Score, total_points
from autograd_classroom.protocol.evidence import WARNINGS
from autograd_classroom.reports.wording import by_hand


def gradescope_results(book: Gradebook, student: str) -> dict[str, Any]:
    """Return the data that Gradescope reads, ready for ``json.dump``.

    If an answer has not been graded or the grader failed, the data does not contain any scores. A
    score of 0 would be unfair, because the student did not cause the problem.
    """
    scores = book.scores(student)
    complete = all(score.is_counted for score in scores)
    results: dict[str, Any] = {
        "execution_time": round(sum(score.seconds for score in scores), 3),
        "output": "\n".join(_file(problem) for problem in book.problems(student)),
        "output_format": "text",
        "test_output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [
            _test(number, score) | (_points(score) if complete else {})
            for number, score in enumerate(scores, 1)
        ],
    }
    if complete:
        results["score"] = total_points(scores)
    return results


def _file(problem: Problem) -> str:
    """Return the message about a file, with the file name that the student knows."""
    if problem.source == problem.student:
        return problem.message
    ours = rf"(?<!\S){re.escape(problem.student)}/"
    return re.sub(ours, "", f"{problem.source}: {problem.message}")


def _test(number: int, score: Score) -> dict[str, Any]:
    return {
        "name": score.title,
        "number": str(number),
        "status": "passed" if score.is_passed else "failed",
        "output": "\n".join([*_told(score), *score.problems]),
        "output_format": "text",
        "tags": [score.rule] if score.rule else [],
        "visibility": "visible",
        "extra_data": {"exercise": score.exercise, "status": score.status, "hash": score.hash},
    }


def _points(score: Score) -> dict[str, Any]:
    return {"score": score.points, "max_score": score.possible}


def _told(score: Score) -> list[str]:
    settled = [by_hand(score.settlement)] if score.settlement else []
    if score.status == "passed":
        warned = [f"warning: {w['rule']}: {w['message']}" for w in score.evidence.get(WARNINGS, ())]
        return [*settled, *warned]
    rule = f"{score.rule}: " if score.rule else ""
    return [*settled, f"{score.status or 'not graded'}: {rule}{score.message}"]
