"""Make a verdict safe to print and store, because it quotes untrusted code."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from autograd_course.grader.verdict import Verdict

_LAYOUT = "\n\t"


def plain(verdict: Verdict) -> Verdict:
    """Escape invalid characters and terminal control characters in a verdict."""
    return replace(
        verdict,
        reason=_data(verdict.reason),
        remarks=_data(verdict.remarks),
        warnings=_data(verdict.warnings),
    )


def shown(text: str) -> str:
    """Escape unprintable characters in a text, such as control characters.

    Also escape characters that change the writing direction.
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
    if is_dataclass(value) and not isinstance(value, type):  # a reason, or a finding in a reason
        return replace(value, **{f.name: _data(getattr(value, f.name)) for f in fields(value)})
    return value
