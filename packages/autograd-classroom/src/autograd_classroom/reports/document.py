"""A JSON document with every student's results, which other programs can read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.gradebook.records import Score, total_points

VERSION = 1


def as_json_document(book: Gradebook) -> str:
    """Return the results of a class as a JSON document.

    It has the form ``{"version", "students": [{"student", "points", "possible", "results", …}]}``.
    """
    return "".join(json_pieces(book))


def json_pieces(book: Gradebook) -> Iterator[str]:
    """Yield the document in pieces, one student at a time."""
    yield f'{{"version": {VERSION}, "students": ['
    possible = book.possible()
    for number, name in enumerate(book.students()):
        yield ",\n" if number else "\n"
        yield json.dumps(_student(book, name, possible), ensure_ascii=False, indent=1)
    yield "\n]}\n"


def _student(book: Gradebook, name: str, possible: float) -> dict[str, Any]:
    scores = book.scores(name)
    return {
        "student": name,
        "points": total_points(scores) if any(score.is_counted for score in scores) else None,
        "possible": possible,
        "results": [_result(score) for score in scores],
        "problems": [
            {"source": problem.source, "message": problem.message}
            for problem in book.problems(name)
        ],
    }


def _result(score: Score) -> dict[str, Any]:
    result = asdict(score)
    del result["student"], result["damage"]  # the damage is also one of the remarks
    return result | {"status": score.status or "not graded"}
