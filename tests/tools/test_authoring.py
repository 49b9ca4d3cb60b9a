"""Build derived files and detect outdated ones, in a small course with one lesson."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output
from repository import ROOT
from sampling import first_rows

from tools.__main__ import main
from tools.build import build
from tools.check import drift
from tools.errors import AuthoringError
from tools.outputs import WIDGET_VIEW, normalize
from tools.settings import read_settings

pytestmark = [pytest.mark.slow, pytest.mark.checkout]

GREEN, PLAIN = "\x1b[32m", "\x1b[39m"

PROJECT = '[tool.autograd-course]\nrepository = "someone/a_course"\nbranch = "trunk"\n'

LESSON = """\
# %% [markdown]
# # 01 · Sample lesson
#
# What you do here. **It takes** about 90 minutes.

# %%
import os

print("progress" in os.environ["AUTOGRAD_COURSE_PROGRESS"], os.environ["CUDA_VISIBLE_DEVICES"])

# %% tags=["raises-exception"]
raise ValueError("on purpose")
"""

SOLUTION = """\
# %% [markdown]
# # 01 · Sample exercises
#
# 1 point, about 90 minutes.
#
# ## 1 · The square

# %% nbgrader={"grade": false, "grade_id": "square", "locked": false, "schema_version": 3, "solution": true}
def square(x):
    ### BEGIN SOLUTION
    return x * x
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "square-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false}
callable(square)
"""  # noqa: E501

EXERCISE = '''\
"""The square of a number

1. Think.
2. Multiply.
3. Write x * x.
"""

from autograd_course.grader.exercise import RoutineExercise

EXERCISE = RoutineExercise(
    answer="square",
    points=2,
    difficulty="easy",
    minutes=3,
    section="",
    reference=lambda x: x * x,
)
'''
MODULE = "autograd_course/exercises/lesson_01_sample/square.py"
INDEX = """\
[
  {"lesson": "01_sample", "title": "Sample lesson", "exercises": [
    {"id": "square", "title": "The square of a number", "points": 2, "difficulty": "easy", \
"minutes": 3, "answer": "square", "needs": []}
  ]}
]
"""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Return a course that has its sources, but not yet its derived files."""
    return write_course(tmp_path / "course")


@pytest.fixture(scope="module")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_course(tmp_path_factory.mktemp("built") / "course")
    build(root, say=silent)
    return root


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Path:
    """Return a course that is built, including the notebooks, which kernels have executed."""
    return Path(shutil.copytree(built_once, tmp_path / "built"))


def write_course(root: Path) -> Path:
    for name, text in {
        "pyproject.toml": PROJECT,
        "README.md": "# A course\n\n<!-- lessons -->\n<!-- /lessons -->\n\nThe end.\n",
        "notebooks/01_sample.py": LESSON,
        "solutions/01_sample.py": SOLUTION,
        MODULE: EXERCISE,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def cells(root: Path, name: str) -> list[NotebookNode]:
    return list(nbformat.read(root / name, as_version=4).cells)


def silent(_: str) -> None:
    pass


def pretend(notebook: NotebookNode, _: Path) -> None:
    """Replace a kernel if the outputs do not matter. It only counts the cells."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, 1):
        cell.execution_count = count


def plan(root: Path) -> list[str]:
    """Build without kernels. Return the files that were written and executed."""
    written: list[str] = []
    build(root, run=pretend, say=written.append)
    return written


def test_one_build_makes_everything_and_leaves_no_drift(built: Path) -> None:
    assert drift(built) == []
    assert sorted(contents(built)) == [
        "README.md",
        "autograd_course/exercises/index.json",
        MODULE,
        "docs/error_messages.md",
        "docs/rules.md",
        "exercises/01_sample.ipynb",
        "exercises/01_sample.py",
        "notebooks/01_sample.ipynb",
        "notebooks/01_sample.py",
        "pyproject.toml",
        "solutions/01_sample.ipynb",
        "solutions/01_sample.py",
    ]


def test_the_index_holds_what_the_modules_of_the_exercises_declare(course: Path) -> None:
    plan(course)

    assert (course / "autograd_course/exercises/index.json").read_text(encoding="utf-8") == INDEX


def test_a_second_build_writes_nothing_and_a_forced_one_the_same_bytes(built: Path) -> None:
    first = contents(built)

    written = plan(built)
    build(built, force=True, say=silent)

    assert written == []
    assert contents(built) == first


def test_only_what_changed_is_executed_and_other_cells_keep_their_ids(course: Path) -> None:
    plan(course)
    before = [cell.id for cell in cells(course, "notebooks/01_sample.ipynb")]
    lesson = course / "notebooks/01_sample.py"
    lesson.write_text(lesson.read_text() + "\n# %%\n1 + 1\n")

    written = plan(course)

    after = [cell.id for cell in cells(course, "notebooks/01_sample.ipynb")]
    assert written == ["executed notebooks/01_sample.ipynb"]
    assert after[: len(before)] == before
    assert len(set(after)) == len(before) + 1


def test_a_build_of_one_number_executes_no_other(course: Path) -> None:
    written: list[str] = []

    build(course, only=["02"], say=written.append)

    assert not any("executed" in line for line in written)


def test_notebooks_are_executed_on_the_cpu_in_a_fresh_environment(built: Path) -> None:
    printed, raised = cells(built, "notebooks/01_sample.ipynb")[2:]

    assert printed.outputs == [{"name": "stdout", "output_type": "stream", "text": "True \n"}]
    assert raised.outputs[0].evalue == "on purpose"


def test_notebooks_record_the_language_but_no_version_and_no_machine(built: Path) -> None:
    notebook = json.loads((built / "exercises/01_sample.ipynb").read_text())

    assert notebook["nbformat_minor"] >= 5
    assert notebook["metadata"]["kernelspec"]["display_name"] == "Python 3"
    assert notebook["metadata"].keys() == {"kernelspec", "language_info"}
    assert "version" not in notebook["metadata"]["language_info"]


def test_cells_of_an_exercise_are_named_for_it(course: Path) -> None:
    plan(course)

    assert [cell.id for cell in cells(course, "exercises/01_sample.ipynb")][2:] == [
        "square",
        "square-grade",
    ]


def test_the_exercise_is_stubbed_and_its_metadata_survives(course: Path) -> None:
    plan(course)
    answer, grader = cells(course, "exercises/01_sample.ipynb")[2:]

    assert answer.source == "def square(x):\n    # YOUR CODE HERE\n    raise NotImplementedError"
    assert answer.metadata.nbgrader.solution is True
    assert grader.metadata.nbgrader.points == 2


def test_every_notebook_gets_the_link_and_the_setup_cell_of_the_one_setting(course: Path) -> None:
    plan(course)

    for folder in ("notebooks", "solutions", "exercises"):
        intro, setup = cells(course, f"{folder}/01_sample.ipynb")[:2]
        url = "https://colab.research.google.com/github/someone/a_course/blob/trunk/"
        assert intro.source.splitlines()[0].endswith(f"({url}{folder}/01_sample.ipynb)")
        assert setup.metadata == {"tags": ["setup"], "jupyter": {"source_hidden": True}}
        assert "git+https://github.com/someone/a_course@trunk" in setup.source


def test_another_repository_changes_badges_and_setup_cells_in_place(course: Path) -> None:
    plan(course)
    project = course / "pyproject.toml"
    project.write_text(PROJECT.replace("someone", "someone_else"))

    plan(course)

    texts = [text for name, text in contents(course).items() if name != "pyproject.toml"]
    assert not any(b"someone/a_course" in text for text in texts)
    assert len(cells(course, "notebooks/01_sample.ipynb")) == 4


def test_the_readme_lists_each_lesson_and_keeps_its_prose(course: Path) -> None:
    plan(course)
    readme = (course / "README.md").read_text()

    assert readme.startswith("# A course\n\n<!-- lessons -->\n|")
    assert readme.endswith("<!-- /lessons -->\n\nThe end.\n")
    assert (
        "| | **Core path** | **0 hours** | **0 hours** | |\n"
        "| 01 | [Sample lesson](notebooks/01_sample.ipynb) | 5 min "
        "| [1 exercise](exercises/01_sample.ipynb), 3 min |" in readme
    )


MORE = (
    "\n# %% [markdown]\n# ## More\n#\n# *Extra: for the square.*\n#\n# word" + " word" * 199 + "\n"
)


def add_an_extra_section(root: Path) -> None:
    lesson = root / "notebooks/01_sample.py"
    lesson.write_text(lesson.read_text(encoding="utf-8") + MORE, encoding="utf-8")


def test_the_first_cell_states_the_minutes_as_the_lesson_was_executed(course: Path) -> None:
    def with_figures(notebook: NotebookNode, path: Path) -> None:
        pretend(notebook, path)
        figure = new_output("display_data", data={"image/png": "aGk="})
        if path.parent.name == "notebooks":
            notebook.cells[2].outputs = [figure] * 20

    add_an_extra_section(course)
    written: list[str] = []
    build(course, run=with_figures, say=written.append)

    for name in ("notebooks/01_sample.py", "notebooks/01_sample.ipynb"):
        text = (course / name).read_text(encoding="utf-8")
        assert "**It takes** about 35 minutes; the *extra* sections take another 5." in text
    assert "| 35 + 5 min |" in (course / "README.md").read_text(encoding="utf-8")
    assert written.count("executed notebooks/01_sample.ipynb") == 1
    assert drift(course) == []


def test_an_exercise_that_needs_an_extra_section_has_a_star(course: Path) -> None:
    add_an_extra_section(course)
    edit(MODULE, 'section=""', 'section="", needs_sections=("01 · Sample lesson", "More")')(course)

    plan(course)

    index = (course / "autograd_course/exercises/index.json").read_text(encoding="utf-8")
    assert '"needs": ["More"]' in index
    for folder in ("solutions", "exercises"):
        intro = cells(course, f"{folder}/01_sample.ipynb")[0].source
        assert intro.endswith(
            "2 points, about 3 minutes (3 of them for the exercises with ★, which need an *extra* "
            "section).\n\n"
            '## 1 · The square ★ (2 points · easy · 3 minutes · needs "More")'
        )
    assert "(exercises/01_sample.ipynb), 0 + 3 min |" in (course / "README.md").read_text(
        encoding="utf-8"
    )

    edit("notebooks/01_sample.py", "*Extra:", "Now core:")(course)
    plan(course)

    assert "★" not in (course / "solutions/01_sample.py").read_text(encoding="utf-8")


def test_lesson_00_lists_the_lessons_with_what_an_author_says_they_are_for(course: Path) -> None:
    start = course / "notebooks/00_start.py"
    table = "# <!-- lessons -->\n# | 00 | | to start |\n# | 01 | An old title | a sample |\n"
    start.write_text(
        "# %% [markdown]\n# # 00 · Start\n#\n# **It takes** about 5 minutes.\n#\n"
        f"{table}# <!-- /lessons -->\n",
        encoding="utf-8",
    )
    elective = course / "notebooks/09_more.py"
    elective.write_text(LESSON.replace("01 · Sample lesson", "09 · More"), encoding="utf-8")

    with pytest.raises(AuthoringError, match=r"add the line '\| 09 \| \| what it is for \|' to it"):
        plan(course)

    edit("notebooks/00_start.py", "| a sample |\n", "| a sample |\n# | 09 | | more |\n")(course)
    plan(course)

    assert cells(course, "notebooks/00_start.ipynb")[0].source.endswith(
        "<!-- lessons -->\n"
        "| | Lesson | What it is for |\n"
        "| --- | --- | --- |\n"
        "| | **Core path** | |\n"
        "| 00 | [Start](00_start.ipynb) | to start |\n"
        "| 01 | [Sample lesson](01_sample.ipynb) | a sample |\n"
        "| | **Electives** | |\n"
        "| 09 | [More](09_more.ipynb) | more |\n"
        "<!-- /lessons -->"
    )


def test_a_notebook_of_which_only_text_changed_keeps_its_outputs(built: Path) -> None:
    printed = cells(built, "notebooks/01_sample.ipynb")[2].outputs
    edit("notebooks/01_sample.py", "What you do here", "What happens here")(built)

    assert plan(built) == ["wrote notebooks/01_sample.ipynb"]
    assert cells(built, "notebooks/01_sample.ipynb")[2].outputs == printed
    assert drift(built) == []


def test_headings_and_sums_are_those_that_the_exercises_declare(course: Path) -> None:
    plan(course)

    for folder in ("solutions", "exercises"):
        intro = cells(course, f"{folder}/01_sample.ipynb")[0].source
        assert intro.endswith(
            "2 points, about 3 minutes.\n\n## 1 · The square (2 points · easy · 3 minutes)"
        )


def test_exercises_under_one_heading_are_told_apart_there(course: Path) -> None:
    module = (course / MODULE).read_text(encoding="utf-8")
    for old, new in {"easy": "hard", "minutes=3": "minutes=10", "points=2": "points=1"}.items():
        module = module.replace(old, new)
    (course / MODULE).with_stem("again").write_text(module, encoding="utf-8")
    solution = course / "solutions/01_sample.py"
    both = solution.read_text(encoding="utf-8")
    pair = "# %% nbgrader" + both.partition("# %% nbgrader")[2]
    pair = pair.replace('"square', '"again').replace('"points": 2', '"points": 1')
    solution.write_text(f"{both}\n{pair}", encoding="utf-8")

    plan(course)

    text = solution.read_text(encoding="utf-8")
    assert "# 3 points, about 13 minutes.\n" in text
    assert "# ## 1 · The square (2 + 1 points · easy + hard · 3 + 10 minutes)\n" in text


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        text = (root / name).read_text(encoding="utf-8")
        assert old in text
        (root / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


def unexecute(root: Path) -> None:
    path = root / "notebooks/01_sample.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[2].execution_count = None
    nbformat.write(notebook, path)


DRIFT = {
    "a source edited": (
        edit("notebooks/01_sample.py", "import os", "import os\n"),
        "notebooks/01_sample.ipynb differs from the .py next to it from cell 3 on",
    ),
    "a solution edited": (
        edit("solutions/01_sample.py", "def square(x)", "def square(y)"),
        "exercises/01_sample.py differs from what its source makes of it",
    ),
    "the title of an exercise edited": (
        edit(MODULE, "The square of a number", "Square"),
        "autograd_course/exercises/index.json differs from what its source makes of it",
    ),
    "the heading of an exercise edited": (
        edit("solutions/01_sample.py", "(2 points", "(3 points"),
        "solutions/01_sample.py differs from what its source makes of it",
    ),
    "the minutes of an exercise edited": (
        edit(MODULE, "minutes=3", "minutes=4"),
        "solutions/01_sample.py differs from what its source makes of it",
    ),
    "an exercise edited": (
        edit("exercises/01_sample.py", "# YOUR CODE HERE", "# Your code"),
        "exercises/01_sample.py differs from what its source makes of it",
    ),
    "a notebook's cell edited": (
        edit("exercises/01_sample.ipynb", "YOUR CODE HERE", "your code"),
        "exercises/01_sample.ipynb differs from the .py next to it from cell 3 on",
    ),
    "nbgrader metadata of a notebook edited": (
        edit("exercises/01_sample.ipynb", '"points": 2', '"points": 20'),
        "exercises/01_sample.ipynb differs from the .py next to it",
    ),
    "a badge edited": (
        edit("notebooks/01_sample.py", "blob/trunk", "blob/old"),
        "notebooks/01_sample.py differs from what its source makes of it",
    ),
    "a setup cell edited": (
        edit("solutions/01_sample.py", "import sys", "import sys, os"),
        "solutions/01_sample.py differs from what its source makes of it",
    ),
    "the lesson table edited": (
        edit("README.md", "| 5 min |", "| 15 |"),
        "README.md differs from what its source makes of it",
    ),
    "a notebook removed": (
        lambda root: (root / "notebooks/01_sample.ipynb").unlink(),
        "notebooks/01_sample.ipynb is missing, or no notebook",
    ),
    "an exercise removed": (
        lambda root: (root / "exercises/01_sample.py").unlink(),
        "exercises/01_sample.py is missing",
    ),
    "a notebook not executed": (
        unexecute,
        "notebooks/01_sample.ipynb was not executed from top to bottom",
    ),
}


@pytest.mark.parametrize("what", first_rows(DRIFT, most=4))
def test_drift_names_the_file_and_the_command_that_repairs_it(course: Path, what: str) -> None:
    change, message = DRIFT[what]
    plan(course)
    change(course)

    assert f"{message}: run `make notebooks`" in drift(course)

    plan(course)
    assert drift(course) == []


def test_minutes_that_are_untrue_are_drift_of_a_lesson_and_of_no_exercise(course: Path) -> None:
    plan(course)
    edit("notebooks/01_sample.py", "about 5 minutes", "about 20 minutes")(course)
    edit("solutions/01_sample.py", "Sample exercises", "Sample exercises, 90 minutes")(course)

    plan(course)

    text = (course / "notebooks/01_sample.py").read_text(encoding="utf-8")
    assert "**It takes** about 5 minutes." in text
    assert "90 minutes" in (course / "solutions/01_sample.py").read_text(encoding="utf-8")


def test_the_minutes_of_a_lesson_are_printed_section_by_section_and_of_each_exercise(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_an_extra_section(course)
    plan(course)
    monkeypatch.chdir(course)

    assert main(["minutes", "01"]) == 0

    name, title, section, total, exercise = capsys.readouterr().out.split("\n")[:5]
    assert (name, title) == ("01_sample", "            0.6  # 01 · Sample lesson")
    assert section == "extra       1.4  ## More"
    assert total == "core 0.6, extra 1.4, reference 0.0 minutes"
    assert exercise == (
        "easy       3.1  square, declared as 3: words 3, given lines 1, lines to write 1"
    )
    assert main(["minutes", "02"]) == 0
    assert capsys.readouterr().out == ""


def test_the_minutes_of_all_lessons_are_one_table_with_sums(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_an_extra_section(course)
    plan(course)
    monkeypatch.chdir(course)

    assert main(["minutes"]) == 0

    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert table == [
        ["core", "extra", "reference", "exercises", "others"],
        ["01_sample", "0.6", "1.4", "0.0", "3", "0"],
        ["core", "path", "0.6", "1.4", "0.0", "3", "0"],
        ["total", "0.6", "1.4", "0.0", "3", "0"],
    ]


@pytest.mark.parametrize("stray", ["exercises/02_gone.ipynb", "notebooks/data.csv"])
def test_a_file_that_belongs_to_no_source_is_drift(course: Path, stray: str) -> None:
    plan(course)
    (course / stray).write_text("")

    assert drift(course) == [
        f"{stray} belongs to no source: remove it, or add what it is built from"
    ]


FAULTS = {
    "a lesson without a title": (
        edit("notebooks/01_sample.py", "# # 01 · Sample lesson", "# A lesson"),
        "notebooks/01_sample.py:1: a lesson needs a '# Title'; write it into its first",
    ),
    "a lesson without minutes": (
        edit("notebooks/01_sample.py", "**It takes** about 90 minutes", "It takes a while"),
        "notebooks/01_sample.py:1: the first cell of a lesson does not say how long it takes; "
        "write '**It takes** about 5 minutes.' into it",
    ),
    "an exercise of a section that is not in the lesson": (
        edit(MODULE, 'section=""', 'section="", needs_sections=("Cubes",)'),
        f"{MODULE}:10: neither lesson 01_sample nor one before it has a section 'Cubes'; "
        "let EXERCISE name a heading of the lesson",
    ),
    "an exercise without a section": (
        edit(MODULE, '    section="",\n', ""),
        f"{MODULE}:10: EXERCISE names no section of the lesson; let it say section=",
    ),
    "a README without a place for the table": (
        edit("README.md", "<!-- lessons -->", ""),
        "README.md:1: no place for the lesson table; add <!-- lessons --> <!-- /lessons -->",
    ),
    "a syntax error": (
        edit("notebooks/01_sample.py", "import os\n", "import os os\n"),
        "notebooks/01_sample.py:1: ruff cannot format it",
    ),
    "a cell that raises": (
        edit("notebooks/01_sample.py", "import os\n", "import os\n\n1 / 0\n"),
        "notebooks/01_sample.ipynb:1: does not run",
    ),
    "a result that cannot be shown": (
        edit(
            "notebooks/01_sample.py",
            'raise ValueError("on purpose")',
            'raise ValueError("on purpose")\n\n'
            "# %%\nclass Mute:\n    def __repr__(self):\n        return 1 / 0\n\n\nMute()",
        ),
        "notebooks/01_sample.ipynb:1: does not run",
    ),
    "a deliberate error that does not happen": (
        edit("notebooks/01_sample.py", 'raise ValueError("on purpose")', "print(1)"),
        "notebooks/01_sample.ipynb:1: the cell that begins 'print(1)' is tagged raises-exception",
    ),
    "an exercise that the installed course does not have": (
        edit(
            "solutions/01_sample.py",
            "callable(square)",
            'from autograd_course import grade\n\ngrade("square" * 2, square)',
        ),
        "solutions/01_sample.ipynb:1: the grader does not know the exercise 'squaresquare'; "
        "correct the id, or run `make lab` to link the environment to this checkout",
    ),
    "points that are not the catalogue's": (
        edit("solutions/01_sample.py", '"points": 2', '"points": 3'),
        "solutions/01_sample.py:15: 'square-grade' has 3 points, its module says 2",
    ),
    "a cell of an exercise that has no module": (
        edit("solutions/01_sample.py", '"grade_id": "square",', '"grade_id": "the-cube",'),
        "solutions/01_sample.py:8: 'the-cube' answers no exercise: there is no "
        "autograd_course/exercises/lesson_01_sample/the_cube.py",
    ),
    "an exercise that no cell grades": (
        lambda root: shutil.copy(root / MODULE, (root / MODULE).with_stem("the_cube")),
        "lesson_01_sample/the_cube.py:1: solutions/01_sample.py has no cell that grades "
        "'the-cube'; add an answer cell and a grader cell (\"Add an exercise\" in CONTRIBUTING.md)",
    ),
    "an exercise of two lessons": (
        lambda root: shutil.copytree(
            (root / MODULE).parent, (root / MODULE).parent.with_name("lesson_02_more")
        ),
        "lesson_02_more/square.py:1: lesson_01_sample has this exercise too; rename one",
    ),
    "an exercise in the folder of another lesson": (
        lambda root: (root / MODULE).parent.rename((root / MODULE).parents[1] / "lesson_02_more"),
        "solutions/01_sample.py:16: 'square' is declared in lesson_02_more; move one of them",
    ),
    "an exercise with two hints": (
        edit(MODULE, "\n3. Write x * x.", ""),
        f"{MODULE}:1: the docstring is not a title and three hints; write the title into its first",
    ),
    "an exercise whose points are computed": (
        edit(MODULE, "points=2", "points=1 + 1"),
        f"{MODULE}:10: there is no EXERCISE with points and an answer that are written out",
    ),
    "an exercise that is no Python": (
        edit(MODULE, "EXERCISE =", "EXERCISE = ="),
        f"{MODULE}:10: this is no Python; correct the line",
    ),
    "an exercise without a difficulty": (
        edit(MODULE, '    difficulty="easy",\n', ""),
        f"{MODULE}:10: EXERCISE states no difficulty; "
        'let it say difficulty="easy" or "medium" or "hard"',
    ),
    "an exercise of another difficulty": (
        edit(MODULE, '"easy"', '"simple"'),
        f"{MODULE}:10: EXERCISE states no difficulty; let it say difficulty=",
    ),
    "an exercise without minutes": (
        edit(MODULE, "    minutes=3,\n", ""),
        f"{MODULE}:10: EXERCISE states no minutes; let it say minutes=5; the next build says",
    ),
    "minutes that are invented": (
        edit(MODULE, "minutes=3", "minutes=6"),
        f"{MODULE}:10: EXERCISE states 6 minutes, and by the model it takes 3.1; "
        "let it say minutes=3",
    ),
    "an exercise without a heading": (
        edit("solutions/01_sample.py", "#\n# ## 1 · The square\n", ""),
        "solutions/01_sample.py:14: there is no heading above the exercise 'square'; "
        "begin its statement with '## 1 · Title'",
    ),
    "exercises without a lesson": (
        lambda root: (root / "notebooks/01_sample.py").rename(root / "notebooks/02_sample.py"),
        "solutions/01_sample.py:1: there is no lesson of this name; rename it",
    ),
    "an answer that is not graded": (
        edit(MODULE, 'answer="square"', 'answer="Square"'),
        "solutions/01_sample.py:16: the cell does not grade Square, the answer to 'square'",
    ),
    "one id twice": (
        edit("solutions/01_sample.py", '"grade_id": "square-grade"', '"grade_id": "square"'),
        "solutions/01_sample.py:15: grade_id 'square' is used twice",
    ),
    "an unknown key": (
        edit("solutions/01_sample.py", '"locked": true,', '"locked": true, "weight": 1,'),
        "solutions/01_sample.py:15: nbgrader metadata has unknown weight",
    ),
    "a missing key": (
        edit("solutions/01_sample.py", '"locked": true, ', ""),
        "solutions/01_sample.py:15: nbgrader metadata lacks locked",
    ),
    "a flag in words": (
        edit("solutions/01_sample.py", '"locked": true', '"locked": "yes"'),
        "solutions/01_sample.py:15: locked must be true or false",
    ),
    "an older schema": (
        edit("solutions/01_sample.py", '"schema_version": 3', '"schema_version": 2'),
        "solutions/01_sample.py:8: schema_version is 2, not 3",
    ),
    "a grader cell that can be edited": (
        edit("solutions/01_sample.py", '"locked": true', '"locked": false'),
        "solutions/01_sample.py:15: 'square-grade': a cell that grades must be locked",
    ),
    "points on an answer": (
        edit("solutions/01_sample.py", '"locked": false', '"locked": false, "points": 2'),
        "solutions/01_sample.py:8: 'square': points belong to graded cells",
    ),
    "an answer that is locked": (
        edit("solutions/01_sample.py", '"locked": false', '"locked": true'),
        "solutions/01_sample.py:8: 'square': an answer cell must not be locked",
    ),
    "an id with a space": (
        edit("solutions/01_sample.py", '"grade_id": "square",', '"grade_id": "a b",'),
        "solutions/01_sample.py:8: grade_id 'a b' must consist of letters",
    ),
    "another cell type": (
        edit("solutions/01_sample.py", '"grade": true', '"cell_type": "markdown", "grade": true'),
        "solutions/01_sample.py:15: cell_type 'markdown' on a code cell",
    ),
}


@pytest.mark.parametrize(("change", "message"), FAULTS.values(), ids=FAULTS)
def test_a_source_at_fault_is_named_with_its_line(
    course: Path, change: Callable[[Path], None], message: str
) -> None:
    change(course)

    with pytest.raises(AuthoringError) as caught:
        build(course, say=silent)

    assert message in str(caught.value)


def test_the_setting_of_this_course_makes_valid_addresses() -> None:
    settings = read_settings(ROOT)

    assert settings.repository.count("/") == 1
    assert settings.branch


@pytest.fixture
def fresh_from_a_kernel() -> NotebookNode:
    """Return a kernel's typical outputs: split streams, a widget with picture, a foreign frame."""
    cell = new_code_cell("show()")
    cell.metadata.execution = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
    cell.outputs = [
        new_output("stream", name="stdout", text="a"),
        new_output("stream", name="stdout", text="b\n"),
        new_output("stream", name="stderr", text="c\n"),
        new_output(
            "display_data",
            data={WIDGET_VIEW: {"model_id": "1"}, "image/png": "aGk=", "text/plain": "Picture"},
        ),
        new_output("display_data", data={WIDGET_VIEW: {"model_id": "2"}}),
        new_output(
            "error",
            ename="ValueError",
            evalue="no",
            traceback=[
                "Cell \x1b[32mIn[1]\x1b[39m, line 1",
                "\x1b[36mFile\x1b[39m /tmp/x.py",
                "no",
            ],
        ),
    ]
    return new_notebook(cells=[cell], metadata={"widgets": {"state": {}}})


def test_normalizing_keeps_what_is_the_same_on_every_run(fresh_from_a_kernel: NotebookNode) -> None:
    normalize(fresh_from_a_kernel)
    cell = fresh_from_a_kernel.cells[0]
    out, err, picture, error = cell.outputs

    assert (out.text, err.text) == ("ab\n", "c\n")
    assert picture.data == {"image/png": "aGk=", "text/plain": "Picture"}
    assert error.traceback == [f"Cell {GREEN}In[1]{PLAIN}, line 1", "no"]
    assert "execution" not in cell.metadata
    assert "widgets" not in fresh_from_a_kernel.metadata


def test_what_is_about_the_machine_is_not_saved(fresh_from_a_kernel: NotebookNode) -> None:
    fresh_from_a_kernel.cells[0].metadata.tags = ["nbval-ignore-output"]

    normalize(fresh_from_a_kernel)

    assert fresh_from_a_kernel.cells[0].outputs == []
