"""JSON: everything that is known of every student, for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from autograd_course.classroom.gradebook import Gradebook
from autograd_course.classroom.gradebook.records import Score

VERSION = 1


def as_json_document(book: Gradebook) -> str:
    """Return ``{"version", "students": [{"student", "points", "possible", "results", …}]}``."""
    students = [_student(book, name) for name in book.students()]
    return json.dumps({"version": VERSION, "students": students}, ensure_ascii=False, indent=1)


def _student(book: Gradebook, name: str) -> dict[str, Any]:
    scores = book.scores(name)
    return {
        "student": name,
        "points": sum(score.points for score in scores),
        "possible": sum(score.possible for score in scores),
        "results": [_result(score) for score in scores],
        "problems": [
            {"source": problem.source, "message": problem.message}
            for problem in book.problems(name)
        ],
    }


def _result(score: Score) -> dict[str, Any]:
    result = asdict(score)
    del result["student"]
    return result | {"status": score.status or "not graded"}
