"""A model of how long it takes to read a lesson and to solve an exercise.

For a lesson, the model counts the contents of the saved notebook:

- prose, and the questions of a knowledge check: 150 words per minute;
- code: 10 lines per minute, not counting blank lines, imports, the setup cell and hidden code;
- printed output: 20 lines per minute, because readers look only for one or two numbers;
- a figure, interactive or not: 1.5 minutes;
- a checkpoint: 3 minutes for the answer, in addition to reading the question.

For an exercise, the model counts the contents of its cells in the solved notebook:

- the problem statement: 150 words per minute;
- given code: 10 lines per minute, not counting the setup cell and hidden code;
- each line of the solution that is not in the given code: 1 minute. A repair usually changes one
  line of the given code, so learners only have to read the other lines;
- thinking, and reading one or two reports from the grader: 2 minutes for an easy exercise, 5 for a
  medium one and 10 for a hard one.

These are assumptions, not measurements. They put all lessons and exercises on the same scale. The
model does not count the time that a cell takes to run. Learners who play with every figure take
longer.

A section is *extra* if the text under its heading begins with ``*Extra: …*``. Only starred
exercises and readers with a special interest need it. A section is *reference* if the text begins
with ``*Reference: …*``. Readers use it only to look things up. Every other section is *core*. A
mark applies up to the next heading of the same or a higher level. Marks of subsections take
precedence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from nbformat import NotebookNode

from autograd_course.grader.exercise import Difficulty

Kind = Literal["core", "extra", "reference"]

MARKS: Mapping[str, Kind] = {"*Extra:": "extra", "*Reference:": "reference"}

_WORDS_A_MINUTE = 150
_CODE_LINES_A_MINUTE = 10
_OUTPUT_LINES_A_MINUTE = 20
_FIGURE = 1.5
_CHECKPOINT = 3

_WRITTEN_LINES_A_MINUTE = 1
_THINKING: Mapping[Difficulty, float] = {"easy": 2, "medium": 5, "hard": 10}

_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"(?P<marks>#{1,6}) +(?P<title>\S.*)")


@dataclass(frozen=True)
class Minutes:
    """The minutes for the core, extra and reference sections of a lesson."""

    core: float
    extra: float = 0
    reference: float = 0


@dataclass
class Section:
    """A heading, and the text and code cells between this heading and the next one."""

    heading: str
    level: int
    kind: Kind
    text: str
    code: list[NotebookNode] = field(default_factory=list)

    @property
    def minutes(self) -> float:
        """The minutes that the model gives for the section."""
        answering = _CHECKPOINT * self.heading.startswith("Checkpoint")
        cells = sum(_code_minutes(cell) for cell in self.code)
        return _reading(f"{self.heading}\n{self.text}") + cells + answering


def sections(notebook: NotebookNode) -> list[Section]:
    """Return the sections of a notebook, in order."""
    found = [Section("", 1, "core", text="")]
    around: list[tuple[int, Kind]] = []  # the marks that apply, with their heading levels
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found[-1].code.append(cell)
            continue
        before, *begun = split(cell.source)
        found[-1].text += f"\n{before[2]}"
        for level, heading, text in begun:
            around = [(outer, kind) for outer, kind in around if outer < level]
            around += [
                (level, kind) for mark, kind in MARKS.items() if text.lstrip().startswith(mark)
            ]
            kind = around[-1][1] if around else "core"
            found.append(Section(heading, level, kind, text))
    return found


def modeled(notebook: NotebookNode) -> Minutes:
    """Return the minutes that the model gives for an executed notebook."""
    total: dict[Kind, float] = dict.fromkeys(get_args(Kind), 0.0)
    for part in sections(notebook):
        total[part.kind] += part.minutes
    return Minutes(**total)


@dataclass(frozen=True)
class Effort:
    """The work that an exercise takes: words to read, lines of code to read, and lines to write."""

    words: int
    read: int
    written: int

    def minutes(self, difficulty: Difficulty) -> float:
        """Return the minutes that the model gives for the exercise."""
        return (
            self.words / _WORDS_A_MINUTE
            + self.read / _CODE_LINES_A_MINUTE
            + self.written / _WRITTEN_LINES_A_MINUTE
            + _THINKING[difficulty]
        )


def effort(
    statement: str, given: Iterable[str], solution: Iterable[str], seen: Iterable[str] = ()
) -> Effort:
    """Return the effort that an exercise with this statement, given code and solution takes.

    ``seen`` is the given code that an earlier exercise under the same heading has already shown.
    """
    read = [line.strip() for line in given if line.strip()]
    known = {*read, *map(str.strip, seen), ""}
    written = sum(line.strip() not in known for line in solution)
    return Effort(_words(statement), len(read), written)


def account(notebook: NotebookNode) -> str:
    """Return a line for each section of an executed notebook, with its kind, and the totals."""
    total = modeled(notebook)
    rows = [
        f"{'' if part.kind == 'core' else part.kind:9} {part.minutes:5.1f}  "
        f"{'#' * part.level} {part.heading}"
        for part in sections(notebook)
        if part.heading
    ]
    sums = (
        f"core {total.core:.1f}, extra {total.extra:.1f}, reference {total.reference:.1f} minutes"
    )
    return "\n".join([*rows, sums])


def split(markdown: str) -> list[tuple[int, str, str]]:
    """Return the level, heading and text of each section.

    Text before the first heading has level 0.
    """
    parts: list[tuple[int, str, list[str]]] = [(0, "", [])]
    fenced = False
    for line in markdown.splitlines():
        fenced ^= bool(_FENCE.match(line))
        if not fenced and (match := _HEADING.fullmatch(line)):
            parts.append((len(match["marks"]), match["title"], []))
        else:
            parts[-1][2].append(line)
    return [(level, heading, "\n".join(lines)) for level, heading, lines in parts]


def _words(text: str) -> int:
    return sum(any(map(str.isalnum, word)) for word in text.split())


def _reading(text: str) -> float:
    return _words(text) / _WORDS_A_MINUTE


def _code_minutes(cell: NotebookNode) -> float:
    lines = 0 if is_unread(cell) else _lines(cell.source) - _imports(cell.source)
    return lines / _CODE_LINES_A_MINUTE + sum(_output_minutes(output) for output in cell.outputs)


def is_unread(cell: NotebookNode) -> bool:
    """Return whether readers do not see the code of a cell.

    This applies to the setup cell and to hidden cells.
    """
    hidden = bool(cell.metadata.get("jupyter", {}).get("source_hidden", False))
    return hidden or "setup" in cell.metadata.get("tags", ())


def _output_minutes(output: NotebookNode) -> float:
    data = output.get("data", {})
    if any(kind.startswith("image/") for kind in data):
        return _FIGURE
    if "text/markdown" in data:
        return _reading(data["text/markdown"])
    text = output.get("text") or data.get("text/plain") or "\n".join(output.get("traceback", ()))
    return _lines(text) / _OUTPUT_LINES_A_MINUTE


def _lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def _imports(source: str) -> int:
    statements = ast.parse(source).body
    imports = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)
