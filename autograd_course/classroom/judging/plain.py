"""A verdict as it can be printed and stored: what it quotes comes from a stranger's process."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from autograd_course.grader.verdict import Verdict

_LAYOUT = "\n\t"


def plain(verdict: Verdict) -> Verdict:
    """Return the verdict with nothing in it that steers a terminal, or is no text at all."""
    return replace(
        verdict,
        reason=_data(verdict.reason),
        remarks=_data(verdict.remarks),
        warnings=_data(verdict.warnings),
    )


def shown(text: str) -> str:
    """Return a text with what cannot be printed written out: control characters, half characters.

    Marks that turn the direction of writing are among them.
    """
    return "".join(c if c.isprintable() or c in _LAYOUT else ascii(c)[1:-1] for c in text)


def _data(value: Any) -> Any:
    match value:
        case str():
            return shown(value)
        case dict():
            return {_data(key): _data(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(map(_data, value))
    if is_dataclass(value) and not isinstance(value, type):  # a reason, or a finding in one
        return replace(value, **{f.name: _data(getattr(value, f.name)) for f in fields(value)})
    return value
