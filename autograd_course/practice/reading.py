"""Read the answers in an exercise file as source code, without running them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograd_course.extraction import Answer, extract
from autograd_course.extraction.lessons import lesson_of
from autograd_course.extraction.program import program
from autograd_course.index import INDEX, exercises_of
from autograd_course.notebook_files import Notebook, UnreadableError, clean, read
from autograd_course.practice.targets import Target, TargetError


@dataclass(frozen=True)
class Task:
    """An answer in a file. ``above`` is the number of lines in ``file`` before the answer.

    For a script, ``file`` is the path. For a notebook, ``file`` is an artificial name, because line
    numbers start at 1 in each cell.
    """

    answer: Answer
    file: str
    above: int = 0
    is_script: bool = True


@dataclass(frozen=True)
class Reading:
    """The answers in a file, in course order, and one sentence for each invalid cell."""

    path: Path
    tasks: tuple[Task, ...]
    broken: tuple[str, ...] = ()


def reading(path: Path, data: bytes, wanted: Target) -> Reading:
    """Read the requested answers from a file. Raises UnreadableError or TargetError."""
    _refuse_half(path, data)
    notebook = read(data)
    lesson = wanted.lesson or lesson_of(notebook, path.name)
    ids = [exercise.id for exercise in exercises_of(lesson)]
    if strangers := [each for each in wanted.only if each not in ids]:
        raise TargetError(
            f"{path.name} does not contain exercise {strangers[0]}. Pass the notebook that does."
        )
    if not ids:
        raise TargetError(f"{path.name} contains no exercise of the course.")
    chosen = [INDEX[each] for each in ids if each in wanted.only or not wanted.only]
    lines = clean(data.decode("utf-8", "replace")).split("\n") if path.suffix == ".py" else []
    tasks = tuple(_task(answer, path, lines) for answer in extract(notebook, "", chosen))
    return Reading(path, tasks, tuple(_broken(notebook, [e.id for e in chosen], lines)))


def _refuse_half(path: Path, data: bytes) -> None:
    """Raise an error if a notebook is invalid JSON, because an editor may still be writing it."""
    if path.suffix != ".ipynb":
        return
    try:
        json.loads(data)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UnreadableError(f"its JSON is invalid{where}. Save the notebook again.") from None


def _task(answer: Answer, path: Path, lines: Sequence[str]) -> Task:
    above = _above(answer.source.split("\n"), lines)
    if above is None:
        return Task(answer, f"<{answer.exercise}>", is_script=False)
    return Task(answer, str(path), above)


def _above(body: Sequence[str], lines: Sequence[str]) -> int | None:
    """Return the number of lines in a script above a cell from which course calls were removed."""
    for i in range(len(lines) - len(body) + 1):
        if all(map(_same, body, lines[i:])):
            return i
    return None


def _same(kept: str, line: str) -> bool:
    return kept == line or kept.strip() in ("", "pass")


def _broken(notebook: Notebook, ids: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    """Yield the syntax errors in all cells except the answers, which report their own errors."""
    for block in program(notebook).blocks:
        if block.error and block.exercise not in ids:
            body = block.source.split("\n")
            above = _above(body, lines)
            where = f" that begins at line {above + 1}" if above is not None else ""
            begin = next((line.strip() for line in body if line.strip()), "")
            yield f"a cell{where} is not Python, {block.error} (it begins `{begin[:60]}`)"
