"""Widgets in the book, and the files that a page loads to show widgets without a kernel.

Each lesson runs once for the book. The folder ``build/book-states`` keeps the states of the
lesson's widgets until the code of the lesson or of a widget changes. The saved notebooks do not
contain these states.
"""

from __future__ import annotations

import json
import math
import posixpath
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from gzip import compress
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograd_course.grader.predict import TRIES, Prediction
from autograd_course.learner.state import State
from autograd_course.quizzes import COURSE, Quiz, Vote, draw, load
from autograd_course.visualize.quiz import describe as quiz_words
from autograd_course.visualize.vote import describe as vote_words
from tools.book.pictures import shows_widget
from tools.book.questions import READ_ON
from tools.bundle import BUNDLES
from tools.errors import AuthoringError
from tools.execution import execute

Json = dict[str, Any]
Recorded = Mapping[int, Sequence[Json]]  # the widgets of each cell, by its position in the notebook

STATES = Path("build", "book-states")

_CODE = (  # the sources on which the recorded states depend, in addition to the lesson itself
    "autograd_course/visualize/**/*.py",
    "autograd_course/functions/**/*.py",
    "tools/book/recording.py",
    "tools/book/answers.py",
)
_AT_ONCE = 2  # the number of lessons that run at the same time
_NEEDS = (
    '<p class="needs-kernel" role="status" hidden>This control needs Python: '
    '<a href="{colab}">open this page in Colab</a> or <a href="{lab}">in JupyterLab</a>.</p>'
)


# --- Run each lesson to record the states ---------------------------------------------------------


def record(root: Path, lessons: Iterable[str]) -> list[str]:
    """Run the lessons whose recorded states are out of date.

    Return the reasons for any failures.
    """
    late = [lesson for lesson in lessons if not _file(root, lesson).exists()]
    if len(late) < 2:
        return [problem for problem in map(partial(_recorded, root), late) if problem]
    with ProcessPoolExecutor(_AT_ONCE) as pool:
        return [problem for problem in pool.map(partial(_recorded, root), late) if problem]


def recorded(root: Path, lesson: str) -> Recorded:
    """Return a lesson's recorded states, or an empty record if its code has changed since then."""
    file = _file(root, lesson)
    if not file.exists():
        return {}
    found = json.loads(file.read_text(encoding="utf-8"))
    return {int(place): shown for place, shown in found.items()}


def _file(root: Path, lesson: str) -> Path:
    digest = sha256()
    for cell in nbformat.read(root / lesson, as_version=4).cells:
        if cell.cell_type == "code":
            digest.update(cell.source.encode() + b"\0")
    for path in sorted(path for pattern in _CODE for path in root.glob(pattern)):
        digest.update(path.read_bytes() + b"\0")
    return root / STATES / f"{Path(lesson).stem}-{digest.hexdigest()[:16]}.json"


def _recorded(root: Path, lesson: str) -> str:
    notebook = nbformat.read(root / lesson, as_version=4)
    cells = _until_the_last_widget(notebook.cells)
    shown: Recorded = {}
    if cells:
        print(f"{lesson}: running it for the states of its widgets", flush=True)
        try:
            shown = _run(notebook, cells, root, root / lesson)
        except AuthoringError as error:
            return f"{error}. The page of this lesson shows the pictures of its widgets."
    file = _file(root, lesson)
    file.parent.mkdir(parents=True, exist_ok=True)
    for old in file.parent.glob(f"{Path(lesson).stem}-*.json"):
        old.unlink()
    file.write_text(json.dumps(shown), encoding="utf-8")
    return ""


def _until_the_last_widget(cells: Sequence[NotebookNode]) -> Sequence[NotebookNode]:
    live = [
        place
        for place, cell in enumerate(cells)
        if cell.cell_type == "code" and (shows_widget(cell.source) or "predict(" in cell.source)
    ]
    return cells[: max(live, default=-1) + 1]


def _run(
    notebook: NotebookNode, cells: Sequence[NotebookNode], root: Path, path: Path
) -> dict[int, Sequence[Json]]:
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "shown.json"
        begin = f"import sys\nsys.path.append({str(root)!r})\n"
        begin += "from tools.book.recording import record\nrecord()"
        end = f"from tools.book.recording import write\nwrite({str(file)!r})"
        code: Callable[..., NotebookNode] = nbformat.v4.new_code_cell
        notebook.cells = [code(begin), *cells, code(end)]
        execute(notebook, path)
        found = json.loads(file.read_text(encoding="utf-8"))
    places = [
        place
        for place, cell in enumerate(cells)
        if cell.cell_type == "code" and cell.source.strip()
    ]
    return {places[int(number) - 1]: shown for number, shown in found.items()}


# --- The files of a page, and the elements that load them -----------------------------------------


@dataclass
class LivePage:
    """The live elements on one page, in order.

    ``files`` maps names to the files that the elements load.
    """

    place: str
    colab: str
    recorded: Recorded = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    _count: int = 0

    def widgets(self, place: int) -> list[str]:
        """Return an HTML element for each widget and prediction in the code cell at ``place``."""
        return [self.widget(shown) for shown in self.recorded.get(place, ())]

    def widget(self, shown: Json) -> str:
        """Return an HTML element for a recorded widget or prediction."""
        return self._element(**_small(shown))

    def knowledge_check(self, number: str) -> str:
        """Return the HTML element for a knowledge check."""
        quiz = draw() if number == COURSE else load(number)
        state = {"quiz": quiz_words.page(quiz), "summaries": _summaries(quiz)}
        return self._element("quiz", state, key=f"quiz {number}")

    def vote(self, number: str, vote_id: str) -> str:
        """Return the HTML element for a vote in a lesson."""
        return self.ballot(load(number).vote(vote_id))

    def ballot(self, vote: Vote) -> str:
        """Return the HTML element for a vote."""
        page = {**vote_words.page(vote), "title": READ_ON}
        said = "You voted for {}, and your browser keeps your vote. Read on to see what happens."
        return self._element(
            "vote", {"vote": page, "said": said}, key=f"vote {vote.home} {vote.id}"
        )

    def _element(
        self, kind: str, state: Json, answers: Sequence[Json] = (), key: str | None = None
    ) -> str:
        self._count += 1
        name = f"{Path(self.place).stem}-{self._count}"
        self.files[f"{name}.js"] = _state(name, state)
        if answers:
            self.files[f"{name}-answers.js"] = _state(f"{name}-answers", answers)
        lab = posixpath.relpath("docs/installing.html", posixpath.dirname(self.place) or ".")
        needs = _NEEDS.format(colab=escape(self.colab), lab=escape(lab))
        key = escape(key or f"{kind} {name}")
        data = f'data-live="{kind}" data-state="{name}" data-key="{key}"'
        return f'<div class="live" {data}>{needs}</div>'


def scripts(root: Path) -> dict[str, str]:
    """Return the script and the style sheet of each kind of widget.

    The keys are file names in the book.
    """
    found = {}
    for bundle in sorted((root / BUNDLES).glob("*.js")):
        module = bundle.read_text(encoding="utf-8").partition("//# sourceURL")[0]
        body, _, widget = module.rpartition("\nexport default ")
        sheet = json.dumps(bundle.with_suffix(".css").read_text(encoding="utf-8"))
        call = f"autogradCourse.widget({json.dumps(bundle.stem)}, {sheet}, () => {{\n"
        found[bundle.name] = f"{call}{body}\nreturn {widget}}});\n"
    return found


def _state(name: str, value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    packed = b64encode(compress(text.encode(), mtime=0)).decode("ascii")
    return f'autogradCourse.state("{name}", "{packed}");\n'


def _small(shown: Json) -> Json:
    """Return the record of a widget, with each answer reduced to the parts that change."""
    kind, state, answers = shown["kind"], dict(shown["state"]), shown["answers"]
    if kind == "predict":
        state["words"] = _prediction_words(state["outcome"])
    if kind == "functionlab":  # in the book, its sliders have only the positions with answers
        now = state["scene"]["answers"]["function"]
        first = next(a for a in answers if a["first"] and a["asked"]["function"] == now)
        state["scene"] = {**state["scene"], "sliders": first["sent"]["scene"]["sliders"]}
    bases = {**state, "trained": state.get("progress")}
    small = [
        {**each, "sent": {n: changes(bases[n], sent) for n, sent in each["sent"].items()}}
        for each in answers
    ]
    return {"kind": kind, "state": state, "answers": small}


def changes(before: Any, after: Any) -> Json:
    """Return the changes as JSON: ``{"=": new}`` for a new value, or a dictionary of changes."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        pairs: Iterable[tuple[Any, Any]] = ((key, before[key]) for key in before)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(before)
    else:
        return {"=": after}
    return {str(key): changes(old, after[key]) for key, old in pairs if old != after[key]}


def _summaries(quiz: Quiz) -> list[list[str]]:
    """Return a check's summary for each number of correct answers and each number of essays."""
    essays = [question for question in quiz.questions if question.essay]

    def told(right: int, written: int) -> str:
        state = State()
        for question in [*quiz.choices[:right], *essays[:written]]:
            state = state.answered(question.home, question.id, right=True)
        return quiz_words.summary(quiz, state)

    return [
        [told(right, written) for written in range(len(essays) + 1)]
        for right in range(len(quiz.choices) + 1)
    ]


def _prediction_words(outcome: float) -> Json:
    return {
        "ask": "The number that you expect:",
        "check": "Check",
        "number": "Enter a number.",
        "tries": TRIES,
        "right": str(Prediction(outcome, outcome)),
        "again": "It is not {}. Try another number. If you are stuck, read the explanation below.",
        "wrong": str(Prediction(math.inf, outcome)).replace("inf", "{}", 1),
    }
