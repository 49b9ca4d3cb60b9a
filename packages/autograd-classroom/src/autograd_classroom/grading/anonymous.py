"""The anonymous form of an answer: its code without its own variable names and comments.

The verdict on a wrong answer quotes names and lines. If several wrong answers have the same
anonymous form, the run judges this form, and each answer gets the verdict with its own names.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from autograd_classroom.gradebook import Score
from autograd_classroom.gradebook.records import as_json
from autograd_classroom.grading.canonical import canonical, name_in, uses_of_variables
from autograd_course.extraction import Answer
from autograd_course.notebook_files import tree_of

# An anonymous name is one letter of a script that neither this project nor its students use. No
# text can contain half of such a name, and no text gets longer than with the own names.
_FIRST, _MOST = 0xA000, 1165  # the syllables of the Yi script
_NAMES = re.compile(f"[{chr(_FIRST)}-{chr(_FIRST + _MOST - 1)}]")
# Not everybody ends a line only at "\n".
_UNFIT = re.compile(f"{_NAMES.pattern}|[\r\f\v\x1c-\x1e\x85\u2028\u2029]")
_LONGEST = 50  # characters of a name
_MOST_QUOTED = 500  # names in a verdict; code that writes letters may have written more
# These names stay, because they may tell the doctor what a variable is for.
_TELLING = re.compile(
    "order|perm|ind|idx|rank|eps|alpha|beta|gamma|scale|gain|cpu|numpy|^(ctx|self|cls)$|^_"
)


@dataclass(frozen=True)
class Anonymous:
    """An anonymous answer, and the own names of its variables by number."""

    answer: Answer
    names: tuple[str, ...]

    def named(self, score: Score, code: str) -> Score:
        """Return the verdict on the anonymous answer with the own names, for code with this hash.

        The own names replace the anonymous ones in all texts.
        """
        texts = as_json([score.message, score.evidence, score.remarks])
        if len(_NAMES.findall(texts)) > _MOST_QUOTED:
            return replace(score, hash=code)
        return replace(
            score,
            hash=code,
            message=self._told(score.message),
            evidence=self._told(score.evidence),
            remarks=tuple(map(self._told, score.remarks)),
        )

    def _name(self, letter: str) -> str:
        number = ord(letter) - _FIRST
        return self.names[number] if number < len(self.names) else letter

    def _told(self, value: Any) -> Any:
        match value:
            case str():
                return _NAMES.sub(lambda found: self._name(found[0]), value)
            case Mapping():
                return {self._told(key): self._told(item) for key, item in value.items()}
            case list() | tuple():
                return [self._told(item) for item in value]
        return value


def anonymous(answer: Answer) -> Anonymous | None:
    """Return the anonymous form of an answer, or ``None`` if it has none.

    Each line keeps its number. An answer has no anonymous form if it has no canonical form (see
    :func:`~autograd_classroom.grading.canonical.canonical`).
    """
    form = canonical(answer)
    if form is None or any(map(_UNFIT.search, answer.cells)):
        return None
    try:
        cells = [_without_comments(cell).encode().split(b"\n") for cell in answer.cells]
    except (SyntaxError, tokenize.TokenError):
        return None
    trees = [tree_of(b"\n".join(lines).decode()) or ast.Module([], []) for lines in cells]
    uses = [(n, node) for n, node in uses_of_variables(trees) if not _TELLING.search(name_in(node))]
    names = tuple(dict.fromkeys(name_in(node) for _, node in uses))
    if len(names) > _MOST or any(len(name) > _LONGEST for name in names):
        return None
    letters = {name: chr(_FIRST + number).encode() for number, name in enumerate(names)}
    for n, node in sorted(uses, key=lambda use: (use[1].lineno, use[1].col_offset), reverse=True):
        lines, at, name = cells[n], node.col_offset, name_in(node)
        line = lines[node.lineno - 1]
        if not line.startswith(name.encode(), at):  # Python 3.11 misplaces names in f-strings
            return None
        lines[node.lineno - 1] = line[:at] + letters[name] + line[at + len(name.encode()) :]
    hidden = answer.with_cells([b"\n".join(lines).decode() for lines in cells])
    return Anonymous(hidden, names) if canonical(hidden) == form else None


def _without_comments(cell: str) -> str:
    """Return a cell with empty lines in the place of lines that contain only a comment."""
    lines = cell.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(cell).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT and not lines[row - 1][:column].strip():
            lines[row - 1] = ""
    return "\n".join(lines)
