"""Repairs, which are changes to the author's code that correct its gradients."""

from __future__ import annotations

import difflib
import linecache
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from tokenize import detect_encoding
from typing import TYPE_CHECKING, Any

from autograd_doctor.finding import place_of

if TYPE_CHECKING:
    from autograd_doctor.jacobians import Jacobians


@dataclass(frozen=True)
class Change:
    """Some lines of a file before and after a change. ``line`` is the number of the first line."""

    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]

    def compared(self) -> tuple[tuple[str, str], tuple[Spans, Spans]]:
        """Return the old and new lines without common indentation, and the spans that differ."""
        texts = textwrap.dedent("\n".join([*self.before, *self.after])).split("\n")
        count = len(self.before)
        before, after = "\n".join(texts[:count]), "\n".join(texts[count:])
        one, other = WORDS.findall(before), WORDS.findall(after)
        steps = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
        differ = [step for step in steps if step[0] != "equal"]
        return (before, after), (
            _spans(one, [(i, j) for _, i, j, _, _ in differ if j > i]),
            _spans(other, [(i, j) for _, _, _, i, j in differ if j > i]),
        )


WORDS = re.compile(r"\w+|\s+|\W")
Spans = tuple[tuple[int, int], ...]


def _spans(words: Sequence[str], ranges: Sequence[tuple[int, int]]) -> Spans:
    """Convert ranges of words to character positions."""
    starts = [0, *accumulate(map(len, words))]
    return tuple((starts[i], starts[j]) for i, j in ranges)


@dataclass(frozen=True)
class Repair:
    """Tested changes to a file that remove a finding.

    If an error remains, ``left`` describes it.

    Attributes:
        file: The path of the file, or Python's name for a notebook cell.
        changes: One change, or several changes that are needed together.
        checked_on: Descriptions of the inputs for which every gradient was correct after the
            changes.
        removes: The rule of the finding that the changes remove, if the finding is a warning or one
            of several errors; otherwise ``""``.
        summary: The old and new code in general terms that also describe the same mistake in other
            code.
        kinds: The mistake in each changed line, such as "a sign is wrong".
        holds: The results that are correct on these inputs, as the beginning of a sentence.
        left: A sentence about the remaining error, or ``""`` if no error remains.
        right: The inputs whose gradients are correct after the changes, if other gradients are
            still wrong.
        compute: A callable that computes :attr:`jacobians`.
        made: The object that the changed code defines. Like ``compute``, it is lost when a repair
            is sent to another process.
        signatures: Keys for finding the same edits in other code.
    """

    file: str
    changes: tuple[Change, ...]
    checked_on: tuple[str, ...]
    removes: str = ""
    summary: str = ""
    kinds: tuple[str, ...] = ()
    holds: str = "every gradient is right"
    left: str = ""
    right: tuple[str, ...] = ()
    compute: Callable[[], Jacobians | None] | None = field(default=None, repr=False, compare=False)
    made: Callable[..., Any] | None = field(default=None, repr=False, compare=False)
    signatures: tuple[tuple[str, ...], ...] = field(default=(), repr=False, compare=False)

    @property
    def jacobians(self) -> Jacobians | None:
        """The Jacobians of ``forward`` and ``backward`` after the changes, if they can be drawn."""
        return self.compute() if self.compute else None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "compute": None, "made": None}

    @property
    def where(self) -> str:
        """A phrase that names the file."""
        return place_of(self.file)

    @property
    def reason(self) -> str:
        """A sentence that names the inputs on which the changes were tested."""
        changes = "these changes" if len(self.changes) > 1 else "this change"
        holds = f"{self.holds} on {_listed(self.checked_on)}" if self.checked_on else ""
        removed = f"`{self.removes}` is gone" if self.removes else ""
        if not self.left:
            gain = f"{removed}, and {holds}" if removed else holds
            return f"With {changes}, {gain}."
        names = _listed([f"`{name}`" for name in self.right]) if self.right else ""
        right = f"the gradient of {names} is right" if names else "values are right"
        return f"With {changes}, {removed or holds or right}. Still wrong after it: {self.left}"

    def to_dict(self) -> dict[str, Any]:
        """Return the repair as a JSON-compatible dictionary."""
        return {
            "file": self.file,
            "changes": [
                {"line": it.line, "before": list(it.before), "after": list(it.after)}
                for it in self.changes
            ],
            "summary": self.summary,
            "kinds": list(self.kinds),
            "checked_on": list(self.checked_on),
            "removes": self.removes,
            "left": self.left,
        }

    def patch(self) -> str:
        """Return the changes as a unified diff of the file."""
        before = linecache.getlines(self.file)
        after = patched(before, self.changes)
        return "".join(difflib.unified_diff(before, after, self.file, self.file))

    def apply(self) -> None:
        """Write the changes to the file.

        Raises:
            ValueError: The file no longer contains the lines to change.
            OSError: The file cannot be read or written.
        """
        path = Path(self.file)
        with path.open("rb") as file:
            encoding, _ = detect_encoding(file.readline)
        with path.open(encoding=encoding, newline="") as text:
            lines = text.readlines()
        for change in self.changes:
            held = lines[change.line - 1 : change.line - 1 + len(change.before)]
            if tuple(line.rstrip("\r\n") for line in held) != change.before:
                raise ValueError(f"{self.file} has changed since it was examined, so run it again.")
        new = path.with_name(f".{path.name}.new")
        with new.open("w", encoding=encoding, newline="") as text:
            text.writelines(patched(lines, self.changes))
        shutil.copymode(path, new)
        new.replace(path)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for change in self.changes:
            yield f"line {change.line}"
            for sign, text in zip("-+", change.compared()[0], strict=True):
                yield from (f"{sign} {line}" for line in text.splitlines())
        yield self.reason


def patched(lines: Sequence[str], changes: Sequence[Change]) -> list[str]:
    """Apply the changes to the lines of a file, and return the new lines."""
    result = list(lines)
    for change in sorted(changes, key=lambda it: -it.line):
        first = change.line - 1
        last = first + len(change.before)
        end = result[last - 1][len(result[last - 1].rstrip("\r\n")) :]
        new = [f"{text}{end or chr(10)}" for text in change.after]
        if new:
            new[-1] = f"{change.after[-1]}{end}"
        result[first:last] = new
    return result


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
