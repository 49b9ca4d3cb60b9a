"""Check the cells' nbgrader metadata (schema 3) against nbgrader's rules and the exercises.

Source: https://nbgrader.readthedocs.io/en/stable/contributor_guide/metadata.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tools.errors import AuthoringError
from tools.percent import Cell, Source

EXERCISES = "autograd_course/exercises"
GRADER_SUFFIX = "-grade"

_REQUIRED = {"schema_version", "grade", "locked", "solution"}
_OPTIONAL = {"task", "grade_id", "points", "checksum", "cell_type"}
_FLAGS = ("grade", "locked", "solution", "task")
_GRADE_ID = re.compile(r"[a-zA-Z0-9_-]+")


def is_grader(cell: Cell) -> bool:
    """Return whether a cell grades the answer in another cell."""
    metadata = cell.nbgrader or {}
    return bool(metadata.get("grade")) and not metadata.get("solution")


def check_metadata(source: Source, points: Mapping[str, int]) -> None:
    """Raise AuthoringError for the first cell with invalid nbgrader metadata.

    ``points`` maps each exercise's id to the points that the exercise's module declares. The id of
    an answer cell must be the exercise's id. The id of the grader cell must be ``<id>-grade``, and
    this cell must be worth the declared points.
    """
    seen: set[str] = set()
    for cell in source.cells:
        if (metadata := cell.nbgrader) is None:
            continue
        for problem in _problems(source, cell, metadata, points, seen):
            raise AuthoringError(
                source.path, cell.line - 1, problem, "correct the nbgrader metadata of this cell"
            )
        seen.add(str(metadata["grade_id"]))


def _problems(
    source: Source,
    cell: Cell,
    metadata: Mapping[str, Any],
    points: Mapping[str, int],
    seen: set[str],
) -> Iterator[str]:
    if missing := _REQUIRED - metadata.keys():
        yield f"nbgrader metadata lacks {', '.join(sorted(missing))}"
    if unknown := metadata.keys() - _REQUIRED - _OPTIONAL:
        yield f"nbgrader metadata has unknown {', '.join(sorted(unknown))}"
    if unclear := [key for key in _FLAGS if not isinstance(metadata.get(key, False), bool)]:
        yield f"{', '.join(unclear)} must be true or false"
    if metadata["schema_version"] != 3:
        yield f"schema_version is {metadata['schema_version']!r}, not 3"
    if metadata.get("cell_type", cell.node.cell_type) != cell.node.cell_type:
        yield f"cell_type {metadata['cell_type']!r} on a {cell.node.cell_type} cell"
    grade_id = str(metadata.get("grade_id", ""))
    if not _GRADE_ID.fullmatch(grade_id):
        yield f"grade_id {grade_id!r} must consist of letters, digits, '-' and '_'"
    if grade_id in seen:
        yield f"grade_id {grade_id!r} is used twice"
    exercise = grade_id.removesuffix(GRADER_SUFFIX)
    module = f"{EXERCISES}/lesson_{source.path.stem}/{exercise.replace('-', '_')}.py"
    yield from _points_problems(cell, metadata, points, f"there is no {module}")


def _points_problems(
    cell: Cell, metadata: Mapping[str, Any], points: Mapping[str, int], missing: str
) -> Iterator[str]:
    grade_id = str(metadata["grade_id"])
    if ("points" in metadata) != bool(metadata["grade"]):
        yield f"{grade_id!r}: points belong to graded cells, and to every one of them"
    if is_grader(cell):
        expected = points.get(grade_id.removesuffix(GRADER_SUFFIX))
        if not metadata["locked"]:
            yield f"{grade_id!r}: a cell that grades must be locked"
        if not grade_id.endswith(GRADER_SUFFIX) or expected is None:
            yield f"{grade_id!r} grades no exercise: {missing}"
        elif metadata["points"] != expected:
            yield f"{grade_id!r} has {metadata['points']} points, its module says {expected}"
    if metadata["solution"] and not metadata["grade"]:
        if metadata["locked"]:
            yield f"{grade_id!r}: an answer cell must not be locked"
        if grade_id not in points:
            yield f"{grade_id!r} answers no exercise: {missing}"
