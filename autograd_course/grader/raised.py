"""What an exception out of a learner's code says to the learner."""

from __future__ import annotations

import dis
import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.autograd import Function

from autograd_course.errors import first_line
from autograd_course.external import BuildError


def is_unfinished(error: BaseException, answer: Any) -> bool:
    """Whether a stub raised ``error``, or torch did for a method that is missing.

    A compiled operation may raise NotImplementedError too, but not by a ``raise`` statement.
    """
    if not isinstance(error, NotImplementedError):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return _raises_here(error) and (_is_own(frame, answer) or _is_base(frame))


def unfinished_part(error: BaseException) -> str:
    """Return the name of the function that raised ``error``."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code.co_name


def not_written(part: str) -> str:
    """Say that a part of an answer is a stub: a method by its name, or "the function"."""
    return f"you have not written {part if ' ' in part else f'`{part}`'} yet."


def told(method: str, error: BaseException, answer: Any) -> str:
    """Return one sentence: which method raised what, and the learner's own line."""
    if isinstance(error, BuildError):
        return _built(error)
    who = method if method == "it" else f"`{method}`"
    return f"{who} raises {type(error).__name__}: {said(error).rstrip('.')}{place(error, answer)}."


def said(error: BaseException) -> str:
    """Return the first line of what an exception says, without the paths that torch tells."""
    line = first_line(error)
    line = re.sub(r" \(with implementation in <.*?>\)", "", line)
    return re.sub(r"^opcheck\(op, \.\.\.\): \w+ failed with | \(scroll up.*", "", line)


def place(error: BaseException, answer: Any) -> str:
    """Return the last line of the answer's own code in the traceback, as `` (line 3: `…`)``."""
    return _last_line(error, lambda frame: _is_own(frame, answer))


def line_in(error: BaseException, filename: str) -> str:
    """Return the last line of a file in the traceback, as :func:`place` does."""
    return _last_line(error, lambda frame: frame.f_code.co_filename == filename)


def _last_line(error: BaseException, counts: Callable[[FrameType], bool]) -> str:
    own = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if counts(frame)
    ]
    if not own:
        return ""
    source = linecache.getline(*own[-1]).strip()
    return f" (line {own[-1][1]}{f': `{source}`' if source else ''})"


def _built(error: BuildError) -> str:
    """Return what a build says: the learner's own line is one of the C++, not the call's."""
    sentence, _, line = str(error).partition("\n")
    return f"{sentence}{f' (`{line.strip()}`)' if line else ''}."


def _raises_here(error: BaseException) -> bool:
    """Whether the innermost Python frame raised ``error`` itself, by a ``raise`` statement."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    return dis.opname[last.tb_frame.f_code.co_code[last.tb_lasti]] == "RAISE_VARARGS"


def _is_own(frame: FrameType, answer: Any) -> bool:
    return frame.f_code.co_filename in set(_files(answer))


def _is_base(frame: FrameType) -> bool:
    return frame.f_code.co_filename == inspect.getfile(Function)


def _files(answer: Any) -> Iterator[str]:
    """Yield the files, or notebook cells, of the answer: of a function, or a class's methods."""
    for part in _parts(answer):
        code: Any = getattr(inspect.unwrap(getattr(part, "__func__", part)), "__code__", 0)
        if code:
            yield code.co_filename


def _parts(answer: Any) -> Iterator[Any]:
    if isinstance(answer, torch._library.custom_ops.CustomOpDef):
        yield from vars(answer).values()  # the operator, its fake, its backward
    elif not isinstance(answer, type):
        yield answer
    else:
        for cls in answer.__mro__[: answer.__mro__.index(Function)]:
            yield from vars(cls).values()
