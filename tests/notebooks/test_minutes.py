"""How long lessons and exercises take: the model on small ones, and what they say themselves."""

from __future__ import annotations

import symtable
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from repository import ROOT

from autograd_course.grader.exercise import Difficulty
from tools.headings import Task, agree, check_minutes, rounded, tasks
from tools.index import declared
from tools.minutes import Effort, Minutes, effort, modeled, sections
from tools.notebooks import load
from tools.percent import parse, read
from tools.stated import LONGEST, MORE, STEP, stated, untrue

LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=[path.stem for path in LESSONS])


def words(count: int) -> str:
    return "word " * count


def notebook(*cells: NotebookNode | str) -> NotebookNode:
    """Return a notebook of cells; a text stands for a markdown cell."""
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
    "prose": (words(440), 2),
    "pipes and rules of a table are no words": ("| | |\n| --- | --- |\n" + words(220), 1),
    "a checkpoint is read, and answered": (f"### Checkpoint 2\n{words(218)}", 2.5),
    "code": (code("x = 1\n" * 15), 1),
    "blank lines": (code("x = 1\n\n\n" * 15), 1),
    "imports": (code("import os\nfrom a import (\n    b,\n    c,\n)\n" + "x = 1\n" * 15), 1),
    "a setup cell": (code("x = 1\n" * 15, tags=["setup"]), 0),
    "code that is hidden, but not what it shows": (
        code("x = 1\n" * 15, PRINTED, jupyter={"source_hidden": True}),
        1,
    ),
    "what is printed": (code("", PRINTED), 1),
    "a traceback": (code("", RAISED), 2 / 30),
    "a result": (code("", shown(text_plain="a\nb\nc")), 0.1),
    "a figure, its account in words unseen": (
        code("", shown(image_png="aGk=", text_plain=words(220))),
        0.5,
    ),
    "a knowledge check": (code("", shown(text_markdown=words(660), text_plain="Quiz")), 3),
}


@pytest.mark.parametrize(("cell", "minutes"), PIECES.values(), ids=PIECES)
def test_each_piece_takes_its_time(cell: NotebookNode | str, minutes: float) -> None:
    assert modeled(notebook(cell)) == pytest.approx(Minutes(minutes, 0))


DEEP = "*In depth: it can wait.*\n\n"


def test_a_section_in_depth_reaches_to_the_next_heading_of_its_level_or_higher() -> None:
    lesson = notebook(
        f"# 01 · Title\n\n## One\n\ntext\n\n### Two\n\n{DEEP}",
        code("1\n"),
        "#### Three\n\ntext",
        code("2\n"),
        f"text\n\n### Four\n\n## Five\n{DEEP}### Six\n\n## Seven",
        code("3\n"),
    )

    deep = [section.heading for section in sections(lesson) if section.in_depth]
    cells = [
        cell.source for section in sections(lesson) if section.in_depth for cell in section.code
    ]

    assert deep == ["Two", "Three", "Five", "Six"]
    assert cells == ["1\n", "2\n"]


@pytest.mark.parametrize(
    "text",
    [
        f"## A\n\n```python\n# ## B\n## C\n```\n\n{DEEP}",
        f"## A\n\ntext, then\n\n{DEEP}",
        f"{DEEP}## A",
        "## A\n\n*In short: no.*",
    ],
)
def test_the_mark_stands_right_under_a_heading_and_code_has_no_headings(text: str) -> None:
    found = sections(notebook(text))

    assert [section.heading for section in found] == ["", "A"]
    assert not any(section.in_depth for section in found)


def lesson(says: str, main: int, in_depth: int = 0) -> NotebookNode:
    """Return a lesson that says how long it takes, and takes as long as the numbers say."""
    told = len(says.split())
    deep = f"## Deep\n\n{DEEP}{words(220 * in_depth - 6)}" if in_depth else ""
    return notebook(f"{says}\n\n{words(220 * main - told)}", deep)


SAYS = "**It takes** {} minutes; the sections marked *in depth*, another\n{}, can wait."
CLAIMS: dict[str, tuple[NotebookNode, list[str]]] = {
    "true": (lesson("35 minutes", 34), []),
    "a little less": (lesson("30 minutes", 32), []),
    "a little more": (lesson("35 minutes", 29), []),
    "a range goes by its end": (lesson("15–20 minutes", 18), []),
    "both true": (lesson(SAYS.format(35, 25), 34, 24), []),
    "too little": (
        lesson("30 minutes", 34),
        ["states 30 minutes and reads in 34.0: let it say '35 minutes'"],
    ),
    "too much": (
        lesson("30 minutes", 21),
        ["states 30 minutes and reads in 21.0: let it say '25 minutes'"],
    ),
    "more than is allowed": (
        lesson("40 minutes", 34),
        ["states 40 minutes and reads in 34.0: let it say '35 minutes'"],
    ),
    "as if measured": (
        lesson("33 minutes", 33),
        ["states 33 minutes and reads in 33.0: let it say '35 minutes'"],
    ),
    "too long": (
        lesson("35 minutes", 36),
        [
            "reads in 36.0 minutes, more than 35: shorten it, or begin a section that can wait "
            "with '*In depth: …*'"
        ],
    ),
    "in depth untold": (
        lesson("35 minutes", 34, 12),
        ["states 0 minutes in depth and has 12.0: let it say '*in depth*, another 15'"],
    ),
    "in depth misjudged": (
        lesson(SAYS.format(35, 5), 34, 12),
        ["states 5 minutes in depth and has 12.0: let it say '*in depth*, another 15'"],
    ),
    "nothing in depth": (
        lesson(SAYS.format(35, 5), 34),
        [
            "states 5 minutes in depth and has no such section: leave the number out, or begin a "
            "section with '*In depth: …*'"
        ],
    ),
}


@pytest.mark.parametrize(("made", "problems"), CLAIMS.values(), ids=CLAIMS)
def test_what_is_untrue_is_said_with_its_repair(made: NotebookNode, problems: list[str]) -> None:
    assert list(untrue(made)) == problems


def test_two_numbers_are_always_true_so_that_no_small_edit_makes_both_false() -> None:
    for main in range(3, LONGEST - MORE):
        true = [n for n in range(0, 50, STEP) if not list(untrue(lesson(f"{n} minutes", main)))]
        assert len(true) >= 2, main


def test_a_lesson_says_both_numbers_over_a_line_s_end_and_the_first_is_the_main_line_s() -> None:
    assert stated(lesson(SAYS.format(35, 25), 1)) == Minutes(35, 25)
    assert stated(notebook("It takes a while.")) == Minutes(0, 0)


# The lessons


@each_lesson
def test_a_lesson_takes_the_minutes_that_it_states(path: Path) -> None:
    built = load(path)
    assert built is not None

    assert list(untrue(built)) == []


def names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell reads from the notebook, and those that it gives to it."""
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
    """Yield what the main line uses as a section in depth has left it."""
    last_bound_in_depth: dict[str, bool] = {}
    for section in sections(made):
        for cell in section.code:
            read, bound = names(cell.source)
            if not section.in_depth:
                skipped = sorted(name for name in read if last_bound_in_depth.get(name))
                yield from (f"{section.heading}: {name}" for name in skipped)
            last_bound_in_depth |= dict.fromkeys(bound, section.in_depth)


def test_a_name_that_only_a_skipped_section_explains_is_found() -> None:
    made = notebook(
        code("x = 1\nimport a"),
        f"## Deep\n\n{DEEP}",
        code("x = 2\ndef f():\n    y = x"),
        "## Main",
        code("def g(y):\n    return [f(z) for z in (x, y, a)]"),
        code("x = 3"),
        code("x"),
    )

    assert list(unexplained(made)) == ["Main: f", "Main: x"]


@each_lesson
def test_who_skips_what_is_in_depth_has_seen_every_name_of_the_main_line(path: Path) -> None:
    built = load(path)
    assert built is not None

    assert list(unexplained(built)) == []


# The exercises

DECLARED = declared(ROOT)
TASKS = [
    task
    for path in sorted((ROOT / "solutions").glob("*.py"))
    for task in tasks(read(path), DECLARED)
]


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


@pytest.mark.parametrize("task", TASKS, ids=[task.exercise.id for task in TASKS])
def test_an_exercise_takes_the_minutes_that_it_declares(task: Task) -> None:
    check_minutes(task)


def test_the_model_is_asked_about_every_exercise() -> None:
    assert {task.exercise.id for task in TASKS} == {*DECLARED}
