"""The time that lessons and exercises take: the model on small examples, and the stated times."""

from __future__ import annotations

import re
import symtable
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from repository import ROOT

from autograd_course.grader.exercise import Difficulty
from autograd_course.grader.progress import Progress
from autograd_course.index import exercises_of
from autograd_course.learner.state import State
from tools.derived import declared_in, lessons_of
from tools.errors import AuthoringError
from tools.headings import Task, agree, check_minutes, rounded, tasks
from tools.index import declared
from tools.lessons import LONGEST, Lesson, warning
from tools.minutes import Effort, Kind, Minutes, Section, effort, modeled, sections
from tools.notebooks import load
from tools.percent import Source, parse, read
from tools.route import ROUTE, point, stops
from tools.stated import stated, with_minutes

LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=[path.stem for path in LESSONS])


def words(count: int) -> str:
    return "word " * count


def notebook(*cells: NotebookNode | str) -> NotebookNode:
    """Return a notebook made from cells. A string becomes a Markdown cell."""
    made = [new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    return new_notebook(cells=made)


def code(source: str, *outputs: NotebookNode, **metadata: object) -> NotebookNode:
    return new_code_cell(source, outputs=list(outputs), metadata=metadata)


def shown(**data: str) -> NotebookNode:
    return new_output(
        "display_data", data={kind.replace("_", "/"): text for kind, text in data.items()}
    )


PRINTED = new_output("stream", name="stdout", text="a line\n" * 30)
RAISED = new_output("error", ename="E", evalue="no", traceback=["Cell 1", "\n", "E: no"])

PIECES = {
    "prose": (words(300), 2),
    "pipes and rules of a table are no words": ("| | |\n| --- | --- |\n" + words(150), 1),
    "a checkpoint is read, and answered": (f"### Checkpoint 2\n{words(148)}", 4),
    "code": (code("x = 1\n" * 15), 1.5),
    "blank lines": (code("x = 1\n\n\n" * 15), 1.5),
    "imports": (code("import os\nfrom a import (\n    b,\n    c,\n)\n" + "x = 1\n" * 15), 1.5),
    "a setup cell": (code("x = 1\n" * 15, tags=["setup"]), 0),
    "code that is hidden, but not what it shows": (
        code("x = 1\n" * 15, PRINTED, jupyter={"source_hidden": True}),
        1.5,
    ),
    "what is printed": (code("", PRINTED), 1.5),
    "a traceback": (code("", RAISED), 0.1),
    "a result": (code("", shown(text_plain="a\nb\nc")), 0.15),
    "a figure, its account in words unseen": (
        code("", shown(image_png="aGk=", text_plain=words(150))),
        1.5,
    ),
    "a knowledge check": (code("", shown(text_markdown=words(450), text_plain="Quiz")), 3),
}


@pytest.mark.parametrize(("cell", "minutes"), PIECES.values(), ids=PIECES)
def test_each_piece_takes_its_time(cell: NotebookNode | str, minutes: float) -> None:
    assert modeled(notebook(cell)) == pytest.approx(Minutes(minutes))


EXTRA = "*Extra: for a few readers.*\n\n"
REFERENCE = "*Reference: look here later.*\n\n"


def test_a_mark_reaches_to_the_next_heading_of_its_level_or_higher() -> None:
    lesson = notebook(
        f"# 01 · Title\n\n## One\n\ntext\n\n### Two\n\n{EXTRA}",
        code("1\n"),
        f"#### Three\n\ntext\n\n#### Four\n{REFERENCE}\n#### Five",
        code("2\n"),
        f"text\n\n### Six\n\n## Seven\n{REFERENCE}### Eight\n\n## Nine",
        code("3\n"),
    )

    kinds: dict[Kind, list[str]] = {"core": [], "extra": [], "reference": []}
    for section in sections(lesson):
        kinds[section.kind].append(section.heading)

    assert kinds == {
        "core": ["", "01 · Title", "One", "Six", "Nine"],
        "extra": ["Two", "Three", "Five"],
        "reference": ["Four", "Seven", "Eight"],
    }
    assert [[cell.source for cell in section.code] for section in sections(lesson)][3] == ["1\n"]


def test_the_minutes_of_each_kind_are_counted_apart() -> None:
    lesson = notebook(
        f"## A\n\n{words(149)}\n\n## B\n\n{EXTRA}{words(294)}\n\n## C\n\n{REFERENCE}",
        code("", shown(image_png="aGk=")),
    )

    assert modeled(lesson) == pytest.approx(Minutes(1, 2, 1.5 + 5 / 150))


@pytest.mark.parametrize(
    "text",
    [
        f"## A\n\n```python\n# ## B\n## C\n```\n\n{EXTRA}",
        f"## A\n\ntext, then\n\n{EXTRA}",
        f"{EXTRA}## A",
        "## A\n\n*In short: no.*",
        "## A\n\n*Extra work:* no.",
    ],
)
def test_the_mark_stands_right_under_a_heading_and_code_has_no_headings(text: str) -> None:
    found = sections(notebook(text))

    assert [section.heading for section in found] == ["", "A"]
    assert {section.kind for section in found} == {"core"}


def lesson(says: str, text: str = "") -> Source:
    """Return the source of a lesson whose first cell states how long the lesson takes."""
    return parse(f"# %% [markdown]\n# # 01 · Title\n#\n# {says}\n{text}", Path("01_title.py"))


SENTENCES = {
    "core alone": (Minutes(34), "**It takes** about 35 minutes."),
    "rounded up": (Minutes(35.1), "**It takes** about 40 minutes."),
    "a multiple of five": (Minutes(35), "**It takes** about 35 minutes."),
    "with extra sections": (
        Minutes(58, 22),
        "**It takes** about 60 minutes; the *extra* sections take another 25.",
    ),
    "reference is not read in a go": (Minutes(58, 0, 9), "**It takes** about 60 minutes."),
}


@pytest.mark.parametrize(("minutes", "states"), SENTENCES.values(), ids=SENTENCES)
@pytest.mark.parametrize(
    "says",
    [
        "**It takes** about 5 minutes.",
        "**It takes** 35 minutes; the sections marked *in depth*,\n# another 25, can wait.",
    ],
)
def test_the_first_cell_states_the_minutes_of_the_model_whatever_it_said(
    minutes: Minutes, states: str, says: str
) -> None:
    built = with_minutes(lesson(f"You need nothing. {says} Then rest."), minutes)

    assert built.cells[0].source == f"# 01 · Title\n\nYou need nothing. {states} Then rest."
    assert with_minutes(built, minutes) == built


def test_a_first_cell_without_the_sentence_is_a_fault_with_its_repair() -> None:
    with pytest.raises(AuthoringError, match=r"write '\*\*It takes\*\* about 5 minutes\.' into it"):
        with_minutes(lesson("It takes a while."), Minutes(5))


def test_a_core_of_more_than_an_hour_is_worth_a_warning() -> None:
    assert warning(Lesson("01_title", "Title", Minutes(LONGEST, 90, 90))) == ""
    assert warning(Lesson("01_title", "Title", Minutes(61))) == (
        "warning: the core of 01_title takes 61 minutes, more than 60: shorten it, or mark a "
        "section that no core exercise needs: '*Extra: …*'"
    )


# The lessons


def names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell reads from other cells, and the names that it defines."""
    top = symtable.symtable(source, "cell", "exec")
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    read = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    inner = list(top.get_children())
    while inner:
        scope = inner.pop()
        inner += scope.get_children()
        symbols = scope.get_symbols()
        read |= {s.get_name() for s in symbols if s.is_global() and s.is_referenced()}
    return read - bound, bound


def unexplained(made: NotebookNode) -> Iterator[str]:
    """Yield the names that a core section uses with a value from a section of another kind."""
    last_bound_elsewhere: dict[str, bool] = {}
    for section in sections(made):
        for cell in section.code:
            read, bound = names(cell.source)
            if section.kind == "core":
                skipped = sorted(name for name in read if last_bound_elsewhere.get(name))
                yield from (f"{section.heading}: {name}" for name in skipped)
            last_bound_elsewhere |= dict.fromkeys(bound, section.kind != "core")


@pytest.mark.parametrize("mark", [EXTRA, REFERENCE])
def test_a_name_that_only_a_skipped_section_explains_is_found(mark: str) -> None:
    made = notebook(
        code("x = 1\nimport a"),
        f"## Skipped\n\n{mark}",
        code("x = 2\ndef f():\n    y = x"),
        "## Core",
        code("def g(y):\n    return [f(z) for z in (x, y, a)]"),
        code("x = 3"),
        code("x"),
    )

    assert list(unexplained(made)) == ["Core: f", "Core: x"]


def parts_of(stem: str) -> list[Section]:
    built = load(ROOT / "notebooks" / f"{stem}.ipynb")
    assert built is not None
    return sections(built)


def test_who_follows_the_route_has_seen_every_name_of_it() -> None:
    for stage in ROUTE:
        unread = set[str]()
        for part in parts_of(stage.lesson):
            is_read = part.level == 1 or part.heading in stage.sections
            for cell in part.code:
                used, bound = names(cell.source)
                assert not (is_read and used & unread), f"{part.heading}: {used & unread}"
                unread = unread - bound if is_read else unread | bound


@each_lesson
def test_who_reads_only_the_core_has_seen_every_name_of_it(path: Path) -> None:
    built = load(path)
    assert built is not None

    assert list(unexplained(built)) == []


# The exercises

DECLARED = declared(ROOT)


@cache
def solved() -> Mapping[str, Task]:
    """Return the exercises of the solved notebooks, by their ids."""
    paths = sorted((ROOT / "solutions").glob("*.py"))
    return {task.exercise.id: task for path in paths for task in tasks(read(path), DECLARED)}


@pytest.mark.parametrize(
    ("what", "difficulty", "minutes"),
    [
        (effort("", (), ()), "easy", 2),
        (effort("", (), ()), "medium", 5),
        (effort("", (), ()), "hard", 10),
        (effort(words(300), (), ()), "easy", 2 + 2),
        (effort("", ["x = 1", "", "  y = 2"] * 10, ()), "easy", 2 + 2),
        (effort("", (), ["x = 1", "", "  y = 2"]), "easy", 2 + 2),
        (effort("", ["x = 1"] * 10, ["    x = 1", "y = 2"]), "easy", 2 + 1 + 1),
        (effort("", (), ["x = 1", "y = 2"], seen=["  y = 2"]), "easy", 2 + 1),
    ],
    ids=[
        "an easy one",
        "a medium one",
        "a hard one",
        "a statement",
        "given code",
        "a solution",
        "a repair, which is mostly given code",
        "a second exercise on the same code",
    ],
)
def test_each_part_of_an_exercise_takes_its_time(
    what: Effort, difficulty: Difficulty, minutes: float
) -> None:
    assert what.minutes(difficulty) == pytest.approx(minutes)


SOLVED = """\
# %% [markdown]
# # 01 · Title
#
# Words before the first heading.
#
# ## 1 · Square (1 point · easy · 7 minutes)
#
# Square it.

# %%
given = 1

# %% nbgrader={"grade": false, "grade_id": "square", "locked": false, "solution": true}
def square(x):
    ### BEGIN SOLUTION
    return x * x
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "square-grade", "locked": true, "solution": false}
grade("square", square)

# %% [markdown]
# More words.

# %% tags=["solution-only"]
helper = 2

# %% nbgrader={"grade": false, "grade_id": "swish", "locked": false, "solution": true}
### BEGIN SOLUTION
given = 1
name = helper
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "swish-grade", "locked": true, "solution": false}
grade("swish", name)
"""


def test_an_exercise_begins_with_its_heading_or_behind_the_exercise_before_it() -> None:
    first, second = tasks(parse(SOLVED, Path("01_title.py")), DECLARED)

    assert (first.exercise.id, second.exercise.id) == ("square", "swish")
    assert first.effort == Effort(words=4, read=2, written=1)
    assert second.effort == Effort(words=2, read=0, written=2)
    assert first.heading == second.heading == 0


def test_a_number_stays_true_if_the_solution_gets_a_line_more_or_less() -> None:
    for model in (n / 100 for n in range(300, 7000)):
        says = rounded(model)
        assert all(agree(says, model + change) for change in (-1, 0, 1)), model


def test_half_and_double_of_what_the_model_finds_are_false_and_so_is_what_looks_measured() -> None:
    for model in range(6, 70):
        assert not agree(rounded(model / 2), model), model
        assert not agree(rounded(2 * model), model), model
    assert not agree(13, 13)


@pytest.mark.parametrize("name", DECLARED)
def test_an_exercise_takes_the_minutes_that_it_declares(name: str) -> None:
    check_minutes(solved()[name])


def test_the_model_is_asked_about_every_exercise() -> None:
    assert solved().keys() == DECLARED.keys()


# The times that the texts state

README = (ROOT / "README.md").read_text(encoding="utf-8")
START = (ROOT / "notebooks" / "00_start_here.py").read_text(encoding="utf-8")
STEMS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.py"))


@cache
def lessons() -> Mapping[str, Lesson]:
    return {lesson.stem: lesson for lesson in lessons_of(ROOT)}


@pytest.mark.parametrize("stem", STEMS)
def test_every_place_shows_sums_of_the_same_minutes(stem: str) -> None:
    lesson = lessons()[stem]
    asked = exercises_of(lesson.stem)
    core = sum(e.minutes for e in asked if not (e.needs or e.optional))
    more = sum(e.minutes for e in asked) - core
    says = (ROOT / "notebooks" / f"{lesson.stem}.py").read_text(encoding="utf-8")
    reading, extra = stated(lesson.minutes.core), stated(lesson.minutes.extra)
    (row,) = re.findall(rf"^\| {lesson.number} \| \[.*\| \[!.*$", README, re.MULTILINE)

    assert f"**It takes** about {reading} minutes" in says
    assert not extra or f"sections take another {extra}." in says.replace("\n# ", " ")
    assert f"| {reading} + {extra} min |" in row if extra else f"| {reading} min |" in row
    if asked:
        solve = (ROOT / "exercises" / f"{lesson.stem}.py").read_text(encoding="utf-8")
        shown = str(Progress(State())).splitlines()
        assert re.search(rf"points?, about {core + more} minutes", solve)
        assert f", {core} + {more} min |" in row if more else f", {core} min |" in row
        (line,) = (line for line in shown if line.startswith(f"{lesson.number} "))
        assert f" {core + more} minutes left" in line


def test_the_hours_in_the_readme_add_up() -> None:
    rows = re.findall(r"\*\*(\d+)(?: \+ (\d+))? hours\*\*", README)
    hours = [(int(core), int(more or 0)) for core, more in rows]

    assert len(hours) == 4
    assert f"The core path takes about {hours[0][0] + hours[1][0]} hours" in README
    assert f"The whole course takes about {sum(map(sum, hours))} hours" in " ".join(README.split())


def test_the_route_takes_90_minutes_by_the_same_count() -> None:
    at = [*stops({stage.lesson: parts_of(stage.lesson) for stage in ROUTE}, declared_in(ROOT))]
    total = sum(stop.reading + stop.solving for stop in at)

    assert 85 <= total <= 95
    for text in (README, START):
        for stop in at:
            assert point(stop) in text.replace("\n# ", "\n")
        assert f"Together, this takes about {total} minutes." in text
