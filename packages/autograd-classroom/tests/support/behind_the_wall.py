"""A class's answers: extracted solutions and stubs, and wrong answers as source."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from answers import WRONG
from answers.making import Wrong
from autograd_classroom.worker import inside
from autograd_doctor import RULES
from repository import ROOT

from autograd_course import notebook_files
from autograd_course.extraction import Answer, extract
from autograd_course.folders import COURSE
from autograd_course.grader import CATALOGUE
from autograd_course.grader.verdict import Verdict

# This code unpacks the tables of answers in the sandbox, and selects one wrong answer. The tables
# use Functions of the course, which the sandbox does not have, so these are packed as well.
_UNPACK = """\
import autograd_course, pathlib, sys
for name, text in {files!r}.items():
    path = pathlib.Path("/tmp/handed_in", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
sys.path[:0] = ["/tmp/handed_in/tests/support", "/tmp/handed_in"]
sys.meta_path[:] = [finder for finder in sys.meta_path if finder.__module__ != {inside!r}]
for name in [name for name in sys.modules if name.startswith("autograd_course.functions")]:
    del sys.modules[name]
vars(autograd_course).pop("functions", None)
autograd_course.__path__.insert(0, "/tmp/handed_in/autograd_course")
from answers.{module} import WRONG
mine = [w for w in WRONG if w.exercise == {exercise!r}]
{name} = next(w.answer for w in mine if w.mistake == {mistake!r})
"""


@cache
def handed_in(folder: str, exercise: str) -> Answer:
    """Return the answer in a notebook of ``solutions`` or ``exercises``."""
    asked = CATALOGUE[exercise]
    data = (ROOT / folder / f"{asked.lesson}.ipynb").read_bytes()
    (answer,) = extract(notebook_files.read(data), "ada", [asked])
    return answer


def mistaken(wrong: Wrong) -> Answer:
    """Return a wrong answer from the tables, as code that creates the same object."""
    lesson = CATALOGUE[wrong.exercise].lesson
    name = handed_in("solutions", wrong.exercise).name
    source = _UNPACK.format(
        files=dict(_files(lesson)),
        inside=inside.__name__,
        module=f"lesson_{lesson[:2]}",
        exercise=wrong.exercise,
        mistake=wrong.mistake,
        name=name,
    )
    return Answer(wrong.exercise, "eve", name, source)


def _files(lesson: str) -> Iterator[tuple[str, str]]:
    yield f"solutions/{lesson}.py", (ROOT / "solutions" / f"{lesson}.py").read_text("utf-8")
    for name in ("__init__", "errors", "percent"):  # modules that read the solution
        yield f"tools/{name}.py", (ROOT / "tools" / f"{name}.py").read_text("utf-8")
    here = ROOT / "tests" / "support"
    yield "tests/support/repository.py", (here / "repository.py").read_text("utf-8")
    for path in (COURSE / "functions").rglob("*.py"):
        yield f"autograd_course/{path.relative_to(COURSE)}", path.read_text("utf-8")
    yield "tests/support/answers/__init__.py", ""  # tables of only one lesson
    for path in (here / "answers" / "making.py", *here.glob(f"answers/lesson_{lesson[:2]}*.py")):
        yield f"tests/support/answers/{path.name}", path.read_text("utf-8")


def wrongs(exercise: str) -> list[Wrong]:
    """Return the wrong answers to an exercise from the tables."""
    return [wrong for wrong in WRONG if wrong.exercise == exercise]


def named(verdict: Verdict, wrong: Wrong) -> bool:
    """Whether the verdict on a wrong answer contains the rule and the hint from the table."""
    found = verdict.finding
    if wrong.rule in RULES:
        return found is not None and found.rule == wrong.rule and wrong.hint in found.hint
    return wrong.rule in f"{verdict.message} {found.hint if found else ''}"
