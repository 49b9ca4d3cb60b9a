"""Which lines run, and what each changes: a trace function around one call.

Python calls a trace function (``sys.settrace``) before each line and at each return. A line's
effect is the difference between the local variables, and ctx, before it and after it.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from torch import Tensor
from torch._C import _FunctionBase

from autograd_course.visualize.functionlab.listing import Listing, Part
from autograd_course.visualize.functionlab.trace import Step
from autograd_course.visualize.kit.formatting import Summary, number

MOST_STEPS = 60  # of one run: a loop can go on for long
_LONGEST = 48  # characters of a value


class Lines:
    """Records the steps of a run.

    Beside another tracer, a debugger's say, it records nothing, nor where tracing is unsafe.
    """

    def __init__(self, shown: Listing) -> None:
        self._parts: Mapping[CodeType, Part] = {part.code: part for part in shown.parts}
        self.steps: list[Step] = []
        self.returned = ""  # what the last backward returned

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record what runs in this thread inside a ``with`` block."""
        begun = self.begin()
        try:
            yield
        finally:
            if begun:
                self.end()

    def begin(self) -> bool:
        """Start to record in the present thread, unless somebody traces it already."""
        if not self._parts or sys.gettrace() is not None or _would_hang():
            return False
        sys.settrace(self._called)
        return True

    def end(self) -> None:
        """Stop recording in the present thread, which no one else has traced."""
        sys.settrace(None)

    def note(self, part: Part, line: int, text: str) -> None:
        """Add a step."""
        row = part.row(line)
        if row is not None and len(self.steps) < MOST_STEPS:
            self.steps.append(Step(row, part.phase, text))

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        part = self._parts.get(frame.f_code)
        return None if part is None else _Visit(self, part, frame).seen


def _would_hang() -> bool:
    """Whether torch.compile has run in this process, on a Python that it makes tracing unsafe in.

    PyTorch's own frame evaluation and CPython 3.11's tracing can wait for each other without end;
    from 3.12 on tracing goes another way.
    """
    frames, counts = map(sys.modules.get, ("torch._dynamo.convert_frame", "torch._dynamo.utils"))
    if sys.version_info >= (3, 12) or frames is None or counts is None:
        return False
    return bool(counts.counters or frames.input_codes.seen)


class _Visit:
    """One call of a watched function."""

    def __init__(self, lines: Lines, part: Part, frame: FrameType) -> None:
        self.lines, self.part, self.line = lines, part, frame.f_code.co_firstlineno
        # What ctx holds already when backward begins is told beside the source.
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
        """Note what the line that ran last has changed."""
        new = self._new(frame)
        if self.line > 0:
            self.lines.note(self.part, self.line, ", ".join(new))

    def _leave(self, frame: FrameType, result: Any) -> None:
        if self.line < 0:  # it raised
            return
        new, returned = self._new(frame), written(result)
        if frame.f_code.co_name != "setup_context":
            new.append(f"returns {returned}")
        self.lines.note(self.part, self.line, ", ".join(new))
        if self.part.phase == "backward":
            self.lines.returned = returned

    def _new(self, frame: FrameType) -> list[str]:
        """Return what has changed since the last call, as text."""
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
    """Write any value in a few characters, without an address."""
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
    except Exception:  # sparse, meta, of a transform: it has no numbers to show
        return f"a tensor of shape {tuple(value.shape)}"
