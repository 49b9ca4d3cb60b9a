"""Record the source of forward and backward, the lines that run, and the effect of each line.

Python calls a trace function (``sys.settrace``) before each line and at each return. The effect of
a line consists of the changes that it makes to the local variables and to ctx.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Literal

from autograd_doctor.extension import own_source
from torch import Tensor
from torch._C import _FunctionBase
from torch.autograd import Function

from autograd_course.visualize.kit.formatting import Summary, number
from autograd_course.visualize.kit.inputs import title

Phase = Literal["forward", "backward"]
MOST_STEPS = 60  # the limit for one run, because a loop may be long
_LONGEST = 48  # the maximum length of a value, in characters


@dataclass(frozen=True)
class Step:
    """A line that ran: its row in the listing, and its effect, as text."""

    row: int
    phase: Phase
    note: str


@dataclass(frozen=True)
class Part:
    """The source code of one function. ``first`` is the row of its first line in the listing.

    ``lines`` contains the line number in the file for each row. The trace function uses these
    numbers to find the row of a line.
    """

    heading: str
    phase: Phase
    code: CodeType
    first: int
    lines: tuple[int, ...]
    rows: tuple[str, ...]

    def row(self, line: int) -> int | None:
        """Return the row of a line in the file. Lines above the ``def`` belong to its row."""
        if line in self.lines:
            return self.first + self.lines.index(line)
        return self.first if self.lines and line < self.lines[0] else None


@dataclass(frozen=True)
class Listing:
    """The source that is shown. ``missing`` names the functions whose source is not available.

    ``own`` is true if the backward comes from a custom Function rather than from autograd.
    """

    parts: tuple[Part, ...]
    missing: tuple[str, ...]
    own: bool

    @property
    def rows(self) -> tuple[str, ...]:
        """All rows of all parts."""
        return tuple(row for part in self.parts for row in part.rows)


def listing(fn: Any, inside: Sequence[type[Function]]) -> Listing:
    """Return the source of a Function class, or of a callable and the Functions ``inside`` it."""
    parts: list[Part] = []
    missing: list[str] = []
    for heading, phase, function in _functions(fn, inside):
        first = sum(len(part.rows) for part in parts)
        part = _part(heading, phase, function, first)
        if part is None:
            missing.append(heading)
        elif part.code not in [known.code for known in parts]:
            parts.append(part)
    return Listing(tuple(parts), tuple(missing), bool(inside))


def _functions(
    fn: Any, inside: Sequence[type[Function]]
) -> Iterator[tuple[str, Phase, Callable[..., Any]]]:
    if fn not in inside:
        yield title(fn), "forward", getattr(fn, "forward", fn)
    for phase, names in (("forward", ("forward", "setup_context")), ("backward", ("backward",))):
        for function in inside:
            for name in names:
                if getattr(function, name) is not getattr(Function, name):
                    yield f"{function.__name__}.{name}", phase, getattr(function, name)  # type: ignore[misc]


def _part(heading: str, phase: Phase, function: Callable[..., Any], first: int) -> Part | None:
    known = own_source(function)
    if known is None:
        return None
    source, start = known
    code: CodeType = inspect.unwrap(function).__code__
    text = textwrap.dedent("".join(source)).rstrip().split("\n")
    kept = [row for row in range(len(text)) if row not in _unshown(text)]
    lines = tuple(max(start, 1) + row for row in kept)
    return Part(heading, phase, code, first, lines, tuple(text[row] for row in kept))


def _unshown(text: Sequence[str]) -> set[int]:
    """Return the rows of decorators and the docstring, which a run does not execute."""
    try:
        (definition,) = ast.parse("\n".join(text)).body
    except (SyntaxError, ValueError):  # the line of a lambda may not parse as a statement
        return set()
    if not isinstance(definition, ast.FunctionDef):
        return set()
    rows = set(range(definition.lineno - 1))
    if ast.get_docstring(definition) is not None and len(definition.body) > 1:
        doc = definition.body[0]
        rows |= set(range(doc.lineno - 1, doc.end_lineno or doc.lineno))
    return rows


class Lines:
    """A recorder for the steps of a run.

    It records nothing if another tracer, such as a debugger, is active or if tracing is unsafe.
    """

    def __init__(self, shown: Listing) -> None:
        self._parts: Mapping[CodeType, Part] = {part.code: part for part in shown.parts}
        self.steps: list[Step] = []
        self.returned = ""  # the last result of backward

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record the lines that run in this thread during a ``with`` block."""
        begun = self.begin()
        try:
            yield
        finally:
            if begun:
                self.end()

    def begin(self) -> bool:
        """Start recording in the current thread, unless another tracer is active."""
        if not self._parts or sys.gettrace() is not None or _would_hang():
            return False
        sys.settrace(self._called)
        return True

    def end(self) -> None:
        """Stop recording in the current thread."""
        sys.settrace(None)

    def note(self, part: Part, line: int, text: str) -> None:
        """Add a step to the record."""
        row = part.row(line)
        if row is not None and len(self.steps) < MOST_STEPS:
            self.steps.append(Step(row, part.phase, text))

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        part = self._parts.get(frame.f_code)
        return None if part is None else _Visit(self, part, frame).seen


def _would_hang() -> bool:
    """Return whether tracing can deadlock: torch.compile has already run on Python 3.11.

    PyTorch's frame evaluation and trace functions together can deadlock in CPython 3.11. From 3.12
    on, tracing works differently.
    """
    frames, counts = map(sys.modules.get, ("torch._dynamo.convert_frame", "torch._dynamo.utils"))
    if sys.version_info >= (3, 12) or frames is None or counts is None:
        return False
    return bool(counts.counters or frames.input_codes.seen)


class _Visit:
    """One call to a watched function."""

    def __init__(self, lines: Lines, part: Part, frame: FrameType) -> None:
        self.lines, self.part, self.line = lines, part, frame.f_code.co_firstlineno
        # Next to the source, the page shows the contents of ctx before backward begins.
        self.before = _on_ctx(dict(frame.f_locals))

    def seen(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self._finish(frame)
            self.line = frame.f_lineno
        elif event == "return":
            self._leave(frame, arg)
        elif event == "exception" and arg[0] is not StopIteration:
            self.lines.note(self.part, self.line, f"raises {arg[0].__name__}")
            self.line = -1
        return self.seen

    def _finish(self, frame: FrameType) -> None:
        """Record the changes that the last line made to the variables and to ctx."""
        new = self._new(frame)
        if self.line > 0:
            self.lines.note(self.part, self.line, ", ".join(new))

    def _leave(self, frame: FrameType, result: Any) -> None:
        if self.line < 0:  # the line raised an error
            return
        new, returned = self._new(frame), written(result)
        if frame.f_code.co_name != "setup_context":
            new.append(f"returns {returned}")
        self.lines.note(self.part, self.line, ", ".join(new))
        if self.part.phase == "backward":
            self.lines.returned = returned

    def _new(self, frame: FrameType) -> list[str]:
        """Return the changes to the variables and to ctx since the last call, as text."""
        before, self.before = self.before, _state(frame)
        return [text for name, text in self.before.items() if before.get(name) != text]


def _state(frame: FrameType) -> dict[str, str]:
    variables = dict(frame.f_locals)
    named = {
        name: f"{name} = {written(value)}"
        for name, value in variables.items()
        if name not in ("self", "cls") and not isinstance(value, _FunctionBase)
    }
    return named | _on_ctx(variables)


def _on_ctx(variables: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in variables.items():
        if isinstance(value, _FunctionBase):
            found |= _kept(name, value, variables)
    return found


def _kept(name: str, ctx: Any, variables: Mapping[str, Any]) -> dict[str, str]:
    found = {f"{name}.{key}": f"{name}.{key} = {written(v)}" for key, v in vars(ctx).items()}
    saved = getattr(ctx, "to_save", None) or ()
    if saved:
        called = {id(value): key for key, value in variables.items()}
        texts = (called.get(id(value)) or written(value) for value in saved)
        found["to_save"] = f"saves {', '.join(texts)}"
    return found


def written(value: Any) -> str:
    """Format any value in a few characters, without its memory address."""
    if isinstance(value, Tensor):
        return _tensor(value)
    if isinstance(value, bool | int | float | complex):
        return number(value)
    if isinstance(value, tuple) and 0 < len(value) <= 6:
        return ", ".join(map(written, value))
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _tensor(value: Tensor) -> str:
    try:
        return Summary.of(value).brief
    except Exception:  # sparse and meta tensors, and tensors in a transform, show no numbers
        return f"a tensor of shape {tuple(value.shape)}"
