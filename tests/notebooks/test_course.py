"""Requirements for every lesson, exercise and solution."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import nbformat
import pytest
from nbformat import NotebookNode
from repository import ROOT

from autograd_course import visualize
from autograd_course.grader import Result
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.exercise import Difficulty, Exercise, PredictionExercise
from autograd_course.grader.verdict import Status
from autograd_course.index import INDEX, exercises_of
from tools.check import drift
from tools.derived import EXERCISES, FOLDERS, LESSONS, SOLUTIONS
from tools.execution import RAISES, raised
from tools.nbgrader import GRADER_SUFFIX
from tools.notebooks import is_executed
from tools.outputs import WIDGET_VIEW

PACKAGE = ROOT / "autograd_course"
LONGEST_CELL = 40

each_exercise = pytest.mark.parametrize("exercise", CATALOGUE.values(), ids=CATALOGUE)


def stems(folder: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / folder).glob("*.py"))


# Exercises in the order of the catalogue


@functools.cache
def graded(folder: str, stem: str) -> dict[str, str]:
    """Return the text that each of a notebook's grader cells has saved, by exercise.

    nbval checks that running the notebook gives the same text.
    """
    shown: dict[str, str] = {}
    for cell in code_cells(ROOT / folder / f"{stem}.ipynb"):
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if grade_id.endswith(GRADER_SUFFIX):
            (output,) = cell.outputs
            shown[grade_id.removesuffix(GRADER_SUFFIX)] = output.data["text/plain"]
    return shown


PREDICTION = re.compile(
    r'^prediction = (.+)\n(?:.*\n)*?grade\("([\w-]+)", prediction\)', re.MULTILINE
)


def test_a_stub_of_a_prediction_has_a_place_for_each_number() -> None:
    texts = [(ROOT / EXERCISES / f"{stem}.py").read_text("utf-8") for stem in stems(EXERCISES)]
    places = {name: stub for text in texts for stub, name in PREDICTION.findall(text)}

    assert places == {
        exercise.id: str([...] * len(exercise.outcome())).replace("Ellipsis", "...")
        for exercise in CATALOGUE.values()
        if isinstance(exercise, PredictionExercise)
    }


def headline(exercise: Exercise, status: Status, points: int) -> str:
    return Result(exercise.id, exercise.title, status, "", points, exercise.points).headline


@each_exercise
def test_an_untouched_exercise_is_not_attempted(exercise: Exercise) -> None:
    shown = graded(EXERCISES, exercise.lesson)[exercise.id]

    assert shown.partition("\n")[0] == headline(exercise, "not attempted", 0)


@each_exercise
def test_the_solution_passes_its_grader_without_a_warning(exercise: Exercise) -> None:
    shown = graded(SOLUTIONS, exercise.lesson)[exercise.id]

    assert shown.partition("\n")[0] == headline(exercise, "passed", exercise.points)
    assert not re.search(r"\bwarning [a-z-]+: ", shown)


@each_exercise
def test_an_exercise_is_complete(exercise: Exercise) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", exercise.id), "ids are kebab-case"
    assert exercise.points > 0
    assert exercise.difficulty in get_args(Difficulty), "say how difficult it is"
    assert exercise.minutes > 0, "say how many minutes it takes"
    assert exercise.title.strip()
    assert exercise.read.strip(), "say which section of the lesson to reread"


@each_exercise
def test_an_exercise_has_three_different_hints(exercise: Exercise) -> None:
    assert len({hint.strip() for hint in exercise.hints} - {""}) == 3


def test_the_exercise_notebooks_ask_for_the_catalogue_in_its_order() -> None:
    asked = [exercise_id for stem in stems(SOLUTIONS) for exercise_id in graded(SOLUTIONS, stem)]

    assert asked == list(CATALOGUE)


@pytest.mark.parametrize("lesson", sorted({entry.lesson for entry in INDEX.values()}))
def test_optional_exercises_come_last(lesson: str) -> None:
    optional = [entry.optional for entry in exercises_of(lesson)]

    assert optional == sorted(optional)


@pytest.mark.parametrize("stem", stems(EXERCISES))
def test_an_exercise_notebook_states_its_points_and_minutes(stem: str) -> None:
    text = (ROOT / EXERCISES / f"{stem}.py").read_text(encoding="utf-8")
    asked = [exercise for exercise in CATALOGUE.values() if exercise.lesson == stem]
    total = re.search(r"^# (\d+) points?, about (\d+) minutes", text, re.MULTILINE)

    assert total, "say in the first cell: 1 point, about 5 minutes (make notebooks corrects both)"
    assert int(total[1]) == sum(exercise.points for exercise in asked)
    assert int(total[2]) == sum(exercise.minutes for exercise in asked)


# Files


def test_exercises_solutions_and_lessons_have_the_same_numbers_and_names() -> None:
    assert stems(EXERCISES) == stems(SOLUTIONS)
    assert set(stems(SOLUTIONS)) <= set(stems(LESSONS))
    assert {exercise.lesson for exercise in CATALOGUE.values()} == set(stems(SOLUTIONS))


def test_no_two_lessons_share_a_number() -> None:
    numbers = [stem.partition("_")[0] for stem in stems(LESSONS)]

    assert len(set(numbers)) == len(numbers)
    assert all(re.fullmatch(r"\d\d", number) for number in numbers)


@pytest.mark.thorough
def test_everything_derived_is_current_and_nothing_lies_astray() -> None:
    assert drift(ROOT) == []


# Saved notebooks

NOTEBOOKS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.ipynb"))
each_notebook = pytest.mark.parametrize(
    "path", NOTEBOOKS, ids=[str(path.relative_to(ROOT)) for path in NOTEBOOKS]
)

VOLATILE = {
    "an address": re.compile(r"\b0x[0-9a-f]{5,}", re.IGNORECASE),
    "a path": re.compile(r"/tmp\b|/home/|/root/|/Users/|\b[A-Z]:\\|site-packages|ipykernel_"),
    # lesson 14 has CUDA in its title and in the title of a section
    "a device": re.compile(
        r"\b(cpu|cuda(?!, Triton| C\+\+ and Triton)|mps|nvidia)\b", re.IGNORECASE
    ),
    "a time": re.compile(
        r"\b\d+(\.\d+)?\s?(ns|µs|us|ms|s|seconds?|min)\b|\b\d\d:\d\d:\d\d\b|\b20\d\d-\d\d-\d\d\b"
    ),
}


@functools.cache
def notebook(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[NotebookNode]:
    return [cell for cell in notebook(path).cells if cell.cell_type == "code"]


def shown_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the text of each output of a notebook, with its cell's first line. Omit image data."""
    for cell in code_cells(path):
        first_line = cell.source.partition("\n")[0]
        for output in cell.outputs:
            data = output.get("data", {})
            texts = [text for kind, text in data.items() if not kind.startswith("image/")]
            fields = [output.get(name, "") for name in ("text", "evalue", "traceback")]
            shown = " ".join(str(text) for text in [*texts, *fields])
            yield first_line, re.sub(r"data:image/[^\"')]*", "", shown)


@each_notebook
def test_a_notebook_was_executed_once_from_the_top(path: Path) -> None:
    assert is_executed(notebook(path)), "run `make notebooks`"


@each_notebook
def test_a_notebook_saves_no_widget_state(path: Path) -> None:
    saved = notebook(path)
    views = [
        cell.source
        for cell in code_cells(path)
        for output in cell.outputs
        if WIDGET_VIEW in output.get("data", {})
    ]

    assert "widgets" not in saved.metadata, "run `make notebooks FORCE=1`"
    assert not views, "run `make notebooks FORCE=1`"


@each_notebook
@pytest.mark.parametrize("what", VOLATILE)
def test_no_output_names_what_differs_elsewhere(path: Path, what: str) -> None:
    found = [
        f"{first_line!r} shows {match[0]!r}"
        for first_line, text in shown_texts(path)
        for match in VOLATILE[what].finditer(text)
    ]

    assert not found, f"{what} in a saved output; change what the cell shows"


@each_notebook
def test_exactly_the_deliberate_errors_raise(path: Path) -> None:
    expected = [cell.id for cell in code_cells(path) if RAISES in cell.metadata.get("tags", ())]

    assert [cell.id for cell in code_cells(path) if raised(cell)] == expected


# Questions consist of words. A saved notebook keeps them as Markdown.
LEAVES = {"knowledge_check": "text/markdown", "vote": "text/markdown"}


def visualizers(cell: NotebookNode) -> list[str]:
    calls = [node.func for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)]
    return [
        f.id for f in calls if isinstance(f, ast.Name) and f.id in {*visualize.__all__, *LEAVES}
    ]


@each_notebook
def test_every_visualizer_leaves_its_picture_in_the_saved_notebook(path: Path) -> None:
    without = [
        cell.source
        for cell in code_cells(path)
        for name in visualizers(cell)
        if not any(LEAVES.get(name, "image/png") in o.get("data", {}) for o in cell.outputs)
    ]

    assert not without


@each_notebook
def test_no_cell_is_longer_than_a_screen(path: Path) -> None:
    cells = [cell.source.splitlines() for cell in notebook(path).cells]

    assert not [lines[0] for lines in cells if len(lines) > LONGEST_CELL]
