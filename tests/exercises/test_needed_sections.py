"""Core exercises need only core sections, and so do questions without a star.

For an exercise, the test looks at the PyTorch names that its solution uses. A question in a
knowledge check names the section that teaches its answer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import pytest
import torch.func
import torch.library
import torch.utils.checkpoint
from repository import ROOT
from torch.autograd import Function, forward_ad, graph

from autograd_course.index import INDEX
from autograd_course.quizzes import QUIZZES, Question, load
from tools.derived import declared_in
from tools.exercises import SOLUTION_ONLY
from tools.index import Declared
from tools.minutes import Section, is_unread, sections
from tools.nbgrader import GRADER_SUFFIX, is_grader
from tools.notebooks import unexecuted
from tools.percent import Cell, Source, read
from tools.regions import find_regions

_MODULES = (
    torch.amp,
    torch.autograd,
    torch.autograd.function,
    torch.func,
    torch.library,
    torch.utils.checkpoint,
    forward_ad,
    graph,
)
# The names that a lesson has to teach before an exercise may need them. The names of ctx and of a
# Function's methods are attributes of the class. The names in the last row belong to other modules.
TAUGHT_NAMES = {
    *(name for module in _MODULES for name in getattr(module, "__all__", ())),
    *(name for name in dir(Function) if not name.startswith("_")),
    *("create_graph", "enable_grad", "inference_mode", "no_grad", "needs_input_grad"),
    *("saved_tensors", "is_grad_enabled", "allow_in_graph", "export"),
    *("custom_fwd", "custom_bwd"),  # PyTorch 2.11 does not list the names in torch.amp
} - {"name"}  # many things have this attribute
# These sections repeat the content of other sections.
_TEACHES_NOTHING = ("Do you know it?", "Summary", "Where next")
# Code in text is a block, or a span with a keyword argument. All other spans only mention a name.
_IN_TEXT = re.compile(r"^```\w*\n.*?^```|`[^`\n]*=[^`\n]*`", re.MULTILINE | re.DOTALL)


def names(code: str, lines: Iterable[range]) -> Iterator[str]:
    """Yield the names in those parts of a cell that include some of its lines."""
    wanted = {line for span in lines for line in span}
    for node in ast.walk(ast.parse(code)):
        begin, end = getattr(node, "lineno", 0), getattr(node, "end_lineno", None) or 0
        if not wanted.intersection(range(begin, end + 1)):
            continue
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


def solved(cell: Cell, source: Source) -> Iterator[str]:
    """Yield the names that a cell's solution uses."""
    if SOLUTION_ONLY in cell.tags:
        yield from names(cell.source, [range(1, len(cell.source.splitlines()) + 1)])
    else:
        regions = find_regions(cell.source, source.path, cell.line)
        yield from names(cell.source, [range(r.begin + 1, r.end + 2) for r in regions])


@cache
def uses() -> Mapping[str, set[str]]:
    """Return, by exercise, the names that a lesson has to teach before it."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "solutions").glob("*.py")):
        source, used = read(path), set[str]()
        for cell in source.cells:
            if is_grader(cell):
                name = str((cell.nbgrader or {})["grade_id"]).removesuffix(GRADER_SUFFIX)
                found[name], used = used & TAUGHT_NAMES, set()
            elif cell.is_code:
                used.update(solved(cell, source))
    return found


@cache
def lessons() -> Mapping[str, list[tuple[Section, set[str]]]]:
    """Return, by lesson, the sections that teach, with the words in their visible code."""
    taught = {}
    for path in sorted((ROOT / "notebooks").glob("*.py")):
        parts = sections(unexecuted(read(path).cells))
        taught[path.stem] = [(part, set(code_words(part))) for part in parts if part.level > 1]
    return taught


def code_words(section: Section) -> Iterator[str]:
    shown = [cell.source for cell in section.code if not is_unread(cell)]
    in_text = [match.group() for match in _IN_TEXT.finditer(section.text)]
    for code in [*shown, *in_text]:
        yield from re.findall(r"\w+", code)


def taught(exercise: Declared) -> set[str]:
    """Return the names in the code of earlier core sections, and of the extra sections with a star.

    The electives have higher numbers than the lessons of the core path, so no core lesson depends
    on an elective.
    """
    return {
        word
        for lesson, parts in lessons().items()
        for part, words in parts
        if lesson <= exercise.lesson
        and (part.kind == "core" or part.heading in exercise.needs)
        and part.heading not in _TEACHES_NOTHING
        for word in words
    }


@cache
def exercises() -> Mapping[str, Declared]:
    return declared_in(ROOT)


def mentioned(question: Question) -> set[str]:
    """Return the words of the core sections so far, and of the section with a star."""
    return {
        word
        for lesson, parts in lessons().items()
        for part, words in parts
        if lesson[:2] <= question.lesson
        and (part.kind == "core" or (question.extra and part.heading == question.section))
        and part.heading not in _TEACHES_NOTHING
        for word in [*words, *re.findall(r"\w+", part.text)]
    }


QUESTIONS = [question for number in QUIZZES for question in load(number).questions]
OF_THE_LESSONS = [question for question in QUESTIONS if question.lesson > "00"]


def named(question: Question) -> str:
    return f"{question.lesson}/{question.id}"


def test_the_solutions_of_all_exercises_are_read() -> None:
    assert uses().keys() == exercises().keys() == INDEX.keys()
    assert "needs_input_grad" in uses()["strided-gain"]
    assert "mark_dirty" in uses()["leaky-relu-in-place"]
    assert {"setup_context", "jvp"} <= uses()["jvp-smooth-maximum"]
    assert "vmap" in uses()["vmap-solve"]


def test_a_name_that_only_an_extra_section_teaches_is_missed() -> None:
    exercise = exercises()["leaky-relu-in-place"]

    assert exercise.needs == ("Writing in place: mark_dirty",)
    assert "mark_dirty" in taught(exercise)
    assert "mark_dirty" not in taught(exercises()["strided-gain"])


@pytest.mark.parametrize("name", INDEX)
def test_the_sections_that_an_exercise_needs_teach_what_its_solution_uses(name: str) -> None:
    missing = uses()[name] - taught(exercises()[name])

    assert not missing, f"name the section that teaches {missing} in needs_sections of {name}"


@pytest.mark.parametrize("question", OF_THE_LESSONS, ids=named)
def test_a_question_has_a_star_if_it_needs_an_extra_section(question: Question) -> None:
    (parts,) = (parts for lesson, parts in lessons().items() if lesson[:2] == question.lesson)
    kinds = {part.heading: part.kind for part, _ in parts}

    assert question.section in kinds, "write section = the heading that teaches the answer"
    assert (kinds[question.section] == "extra") == question.extra


@pytest.mark.parametrize("question", QUESTIONS, ids=named)
def test_a_question_asks_about_names_that_a_learner_has_read(question: Question) -> None:
    asked = " ".join([question.text, *(option.text for option in question.options)])
    names = TAUGHT_NAMES & {*re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", asked)))}

    assert names <= mentioned(question)


def test_the_checks_of_the_first_two_lessons_need_only_the_core() -> None:
    assert not [question.id for question in QUESTIONS if question.extra and question.lesson < "03"]
