"""Write the points, difficulty and minutes of exercises into the text of a notebook.

The build takes these facts from the exercises' declarations. They appear at the end of each
heading, as in ``## 1 · Square (1 point · easy · 5 minutes)``. The totals also appear in the text,
as in ``18 points, about 73 minutes``. An exercise that needs an extra section of a lesson gets a
star, and its heading names the section: ``## 2 · Sort ★ (2 points · easy · 9 minutes · needs
"Outputs without a gradient")``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autograd_course.index import STAR
from tools.errors import AuthoringError
from tools.exercises import SOLUTION_ONLY
from tools.index import Declared
from tools.minutes import Effort, effort, is_unread, split
from tools.nbgrader import GRADER_SUFFIX, is_grader
from tools.percent import Cell, Source
from tools.regions import find_regions

_EXACT, _STEP = 10, 5  # up to 10, any number of minutes is possible; above 10, only multiples of 5
# How far a declared number may differ from the model: by up to a third, or by up to 2 minutes if
# that is more. Learners differ by more than this. With this tolerance, a number from the build
# stays valid when the solution becomes one line longer or shorter.
_SHARE, _LEAST = 1 / 3, 2

_FACTS = re.compile(rf"(?: {STAR})?\s+\((?:optional · )?\d[^()]*\bpoints?\b.*\)$")
_TOTAL = re.compile(r"^\d+ points?, about \d+ minutes(?: \(\d+ of them for [^)]*\))?", re.MULTILINE)


@dataclass(frozen=True)
class Task:
    """An exercise in a solved notebook: the cell with its heading, and the required effort."""

    exercise: Declared
    heading: int
    effort: Effort


def tasks(source: Source, exercises: Mapping[str, Declared]) -> Iterator[Task]:
    """Yield the exercises of a solved notebook, in order.

    The cells of an exercise begin with the closest heading above its grader cell. If an earlier
    exercise shares this heading, they begin after the earlier exercise's grader cell. Raises
    AuthoringError if there is no heading.
    """
    heading, begin = None, 0
    for number, cell in enumerate(source.cells):
        if not cell.is_code and any(level > 1 for level, _, _ in split(cell.source)):
            heading = begin = number
        if is_grader(cell):
            name = str((cell.nbgrader or {})["grade_id"]).removesuffix(GRADER_SUFFIX)
            if heading is None:
                problem = f"there is no heading above the exercise {name!r}"
                repair = "begin its statement with '## 1 · Title'"
                raise AuthoringError(source.path, cell.line, problem, repair)
            _, seen, _ = _read(source, source.cells[heading:begin])
            statement, given, solution = _read(source, source.cells[begin:number])
            yield Task(
                exercises[name], heading, effort("\n".join(statement), given, solution, seen)
            )
            begin = number + 1


def _read(source: Source, cells: Sequence[Cell]) -> tuple[list[str], list[str], list[str]]:
    """Return an exercise's statement, its lines of given code, and the lines of its solution."""
    statement: list[str] = []
    given: list[str] = []
    solution: list[str] = []
    for cell in cells:
        lines = cell.source.splitlines()
        if not cell.is_code:
            *_, (_, heading, text) = split(cell.source)
            statement += [] if SOLUTION_ONLY in cell.tags else [_FACTS.sub("", heading), text]
        elif SOLUTION_ONLY in cell.tags:
            solution += lines
        elif not is_unread(cell.node):
            for region in reversed(find_regions(cell.source, source.path, cell.line)):
                solution += lines[region.begin + 1 : region.end]
                del lines[region.begin : region.end + 1]
            given += lines
    return statement, given, solution


def check_minutes(task: Task) -> None:
    """Raise AuthoringError if the declared minutes of an exercise contradict the model."""
    exercise = task.exercise
    model, says = task.effort.minutes(exercise.difficulty), exercise.minutes
    if not agree(says, model):
        raise AuthoringError(
            exercise.path,
            exercise.line,
            f"EXERCISE states {says} minutes, and by the model it takes {model:.1f}",
            f"let it say minutes={rounded(model)}",
        )


def agree(says: int, model: float) -> bool:
    """Return whether an exercise's declared minutes are close enough to the model's minutes."""
    on_scale = says <= _EXACT or says % _STEP == 0
    return on_scale and abs(says - model) <= max(_LEAST, _SHARE * model)


def account_of_exercises(source: Source, exercises: Mapping[str, Declared]) -> str:
    """Return a line for each exercise in a solved notebook that shows how its minutes add up."""
    return "\n".join(
        f"{task.exercise.difficulty:8} {task.effort.minutes(task.exercise.difficulty):5.1f}  "
        f"{task.exercise.id}, declared as {task.exercise.minutes}: words {task.effort.words}, "
        f"given lines {task.effort.read}, lines to write {task.effort.written}"
        for task in tasks(source, exercises)
    )


def rounded(minutes: float) -> int:
    """Round to whole minutes, or to a multiple of 5 above 10 minutes."""
    step = 1 if minutes <= _EXACT else _STEP
    return math.floor(minutes / step + 0.5) * step


def total_minutes(exercises: Iterable[Declared]) -> int:
    """Return the total minutes of several exercises, which is the sum of their declared minutes."""
    return sum(exercise.minutes for exercise in exercises)


def with_facts(source: Source, exercises: Mapping[str, Declared]) -> Source:
    """Return a solved notebook whose headings and totals match its exercises.

    Raises AuthoringError if an exercise has no heading, or if its minutes contradict the model.
    """
    cells, asked = list(source.cells), list(tasks(source, exercises))
    for task in asked:
        check_minutes(task)
        together = [other.exercise for other in asked if other.heading == task.heading]
        cells[task.heading] = _with_heading(cells[task.heading], _facts(together))
    declared = [task.exercise for task in asked]
    points = _counted([sum(exercise.points for exercise in declared)], "point")
    sums = f"{points}, about {total_minutes(declared)} minutes"
    others = []
    if starred := total_minutes(each for each in declared if each.needs and not each.optional):
        others.append(
            f"{starred} of them for the exercises with {STAR}, which need an *extra* section"
        )
    if optional := total_minutes(each for each in declared if each.optional):
        others.append(f"{optional} of them for the optional exercises")
    if others:
        sums += f" ({'; '.join(others)})"
    for number, cell in enumerate(cells):
        if not cell.is_code:
            cells[number] = cell.with_source(_TOTAL.sub(sums, cell.source))
    return Source(source.path, tuple(cells))


def _facts(exercises: Sequence[Declared]) -> str:
    """Return the facts that follow a title, as in " ★ (optional · 1 point · easy · 5 minutes)"."""
    needs = dict.fromkeys(f'"{section}"' for exercise in exercises for section in exercise.needs)
    facts = [
        *(["optional"] if any(exercise.optional for exercise in exercises) else []),
        _counted([exercise.points for exercise in exercises], "point"),
        " + ".join(dict.fromkeys(exercise.difficulty for exercise in exercises)),
        _counted([exercise.minutes for exercise in exercises], "minute"),
        *([f"needs {' and '.join(needs)}"] if needs else []),
    ]
    return f"{f' {STAR}' if needs else ''} ({' · '.join(facts)})"


def _counted(numbers: Sequence[int], unit: str) -> str:
    return f"{' + '.join(map(str, numbers))} {unit}{'' if sum(numbers) == 1 else 's'}"


def _with_heading(cell: Cell, facts: str) -> Cell:
    """Return a cell in which the facts follow the last heading."""
    *_, (_, heading, _) = split(cell.source)
    before, _, after = cell.source.rpartition(f" {heading}")
    return cell.with_source(f"{before} {_FACTS.sub('', heading)}{facts}{after}")
