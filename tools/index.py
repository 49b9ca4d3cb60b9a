"""The index of the exercises. It lists the declarations in all exercise modules, in notebook order.

The build parses the modules instead of importing them, so it works even if the old index contains
errors.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast, get_args

from autograd_course.grader.exercise import Difficulty, parts
from tools.errors import AuthoringError
from tools.lessons import title_of
from tools.minutes import Kind
from tools.nbgrader import EXERCISES, GRADER_SUFFIX, is_grader
from tools.percent import Cell, Source

INDEX = Path(EXERCISES, "index.json")
_HOW_TO = '"Add an exercise" in CONTRIBUTING.md'


@dataclass(frozen=True)
class Declared:
    """An exercise's entry in the index, and the place where the exercise is declared."""

    path: Path
    line: int
    id: str
    lesson: str
    title: str
    points: int
    difficulty: Difficulty
    minutes: int
    answer: str
    sections: tuple[str, ...]
    optional: bool
    needs: tuple[str, ...] = ()  # the extra sections among these, which give the exercise a star

    @property
    def is_core(self) -> bool:
        """Whether the exercise is part of the core that all learners should solve."""
        return not self.needs and not self.optional


def with_stars(
    exercises: Mapping[str, Declared], kinds: Mapping[str, Mapping[str, Kind]]
) -> dict[str, Declared]:
    """Return the exercises. Add the extra sections that each exercise needs.

    ``kinds`` maps the name of each lesson to the kinds of its headings. The search for a heading
    begins in the exercise's own lesson and continues in earlier lessons, latest first. Raises
    AuthoringError if none of these lessons has the heading.
    """
    starred = {}
    for name, exercise in exercises.items():
        is_of_a_lesson = exercise.lesson in kinds  # index() reports an exercise without a lesson
        sections = exercise.sections if is_of_a_lesson else ()
        needs = (section for section in sections if _kind(exercise, section, kinds) != "core")
        starred[name] = replace(exercise, needs=tuple(needs))
    return starred


def _kind(exercise: Declared, section: str, kinds: Mapping[str, Mapping[str, Kind]]) -> Kind:
    for lesson in sorted(kinds, reverse=True):
        if lesson <= exercise.lesson and section in kinds[lesson]:
            return kinds[lesson][section]
    raise AuthoringError(
        exercise.path,
        exercise.line,
        f"neither lesson {exercise.lesson} nor one before it has a section {section!r}",
        "let EXERCISE name a heading of the lesson",
    )


def declared(root: Path) -> dict[str, Declared]:
    """Return the declarations in all exercise modules. The keys are exercise ids.

    A file whose name begins with an underscore contains code that the exercises of a lesson share.
    Raises AuthoringError if a declaration is incomplete.
    """
    paths = sorted((root / EXERCISES).glob("lesson_*/[!_]*.py"))
    found: dict[str, Declared] = {}
    for exercise in map(_read, paths):
        if other := found.get(exercise.id):
            raise AuthoringError(
                exercise.path, 1, f"{other.path.parent.name} has this exercise too", "rename one"
            )
        found[exercise.id] = exercise
    return found


def _read(path: Path) -> Declared:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        line = error.lineno or 1
        raise AuthoringError(path, line, "this is no Python", "correct the line") from None
    title, *hints = parts(ast.get_docstring(tree) or "")
    if not title or len(set(filter(None, hints))) != 3:
        raise AuthoringError(
            path,
            1,
            "the docstring is not a title and three hints",
            "write the title into its first line, and below it the hints as 1. 2. 3.",
        )
    line, said = _declaration(tree)
    points, answer = said.get("points"), said.get("answer")
    if not isinstance(points, int) or points < 1 or not isinstance(answer, str):
        raise AuthoringError(
            path,
            line,
            "there is no EXERCISE with points and an answer that are written out",
            'let it say EXERCISE = FunctionExercise(answer="Square", points=1, …)',
        )
    difficulty, minutes = said.get("difficulty"), said.get("minutes")
    if difficulty not in get_args(Difficulty):
        levels = " or ".join(f'"{level}"' for level in get_args(Difficulty))
        raise AuthoringError(
            path, line, "EXERCISE states no difficulty", f"let it say difficulty={levels}"
        )
    if not isinstance(minutes, int) or minutes < 1:
        repair = "let it say minutes=5; the next build says if the model finds another number"
        raise AuthoringError(path, line, "EXERCISE states no minutes", repair)
    sections = (said.get("section"), *cast(Sequence[object], said.get("needs_sections", ())))
    if not all(isinstance(section, str) for section in sections):
        repair = 'let it say section="What backward returns"'
        raise AuthoringError(path, line, "EXERCISE names no section of the lesson", repair)
    lesson, name = path.parent.name.removeprefix("lesson_"), path.stem.replace("_", "-")
    return Declared(
        path,
        line,
        name,
        lesson,
        title,
        points,
        cast(Difficulty, difficulty),
        minutes,
        answer,
        cast(tuple[str, ...], sections),
        bool(said.get("optional", False)),
    )


def _declaration(tree: ast.Module) -> tuple[int, Mapping[str, object]]:
    """Return the line number of ``EXERCISE = …(…)``, and the values of the literal arguments."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="EXERCISE")], value=ast.Call(keywords=keywords)):
                values = {str(k.arg): k.value for k in keywords}
                return node.lineno, {k: ast.literal_eval(v) for k, v in values.items() if _plain(v)}
    return 1, {}


def _plain(value: ast.expr) -> bool:
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(isinstance(part, ast.Constant) for part in parts)


def index(
    exercises: Mapping[str, Declared], lessons: Sequence[Source], solved: Iterable[Source]
) -> str:
    """Return the index of the exercises, in the order of the cells that grade them.

    Raises AuthoringError if an exercise and its cells are inconsistent.
    """
    titles = {lesson.path.stem: title_of(lesson) for lesson in lessons}
    blocks, missing = [], dict(exercises)
    for source in solved:
        if source.path.stem not in titles:
            raise AuthoringError(source.path, 1, "there is no lesson of this name", "rename it")
        asked = [_asked(cell, source, exercises) for cell in source.cells if is_grader(cell)]
        rows = ",\n".join(f"    {_row(exercise)}" for exercise in asked)
        stem = source.path.stem
        head = f'"lesson": {_json(stem)}, "title": {_json(titles[stem])}, "exercises": [\n'
        blocks.append(f"  {{{head}{rows}\n  ]}}")
        missing = {name: each for name, each in missing.items() if each not in asked}
    for exercise in missing.values():
        raise AuthoringError(
            exercise.path,
            1,
            f"solutions/{exercise.lesson}.py has no cell that grades {exercise.id!r}",
            f"add an answer cell and a grader cell ({_HOW_TO})",
        )
    return "[\n" + ",\n".join(blocks) + "\n]\n"


def _asked(cell: Cell, source: Source, exercises: Mapping[str, Declared]) -> Declared:
    """Return the exercise that a cell grades. It must belong to the lesson of that cell."""
    name = str((cell.nbgrader or {})["grade_id"]).removesuffix(GRADER_SUFFIX)
    exercise = exercises[name]
    if exercise.lesson != source.path.stem:
        problem, repair = f"{name!r} is declared in {exercise.path.parent.name}", "move one of them"
    elif not re.search(rf"\b{exercise.answer}\b", cell.source):
        problem = f"the cell does not grade {exercise.answer}, the answer to {name!r}"
        repair = f"correct it, or the answer in {exercise.path}"
    else:
        return exercise
    raise AuthoringError(source.path, cell.line, problem, repair)


def _row(exercise: Declared) -> str:
    fields = ("id", "title", "points", "difficulty", "minutes", "answer", "needs")
    row = {field: getattr(exercise, field) for field in fields}
    return _json(row | ({"optional": True} if exercise.optional else {}))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
