"""Check a finding's evidence, because untrusted code may have produced or changed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autograd_classroom.protocol.frames import is_deeper

REPAIR = "repair"  # the evidence key for a repair
ALSO = "also"  # the evidence key for other rules broken by a wrong answer
WARNINGS = "warnings"  # the evidence key for the doctor's warnings about an answer that passed
_DEEPEST = 6  # maximum nesting depth; the matrices in a picture need four levels
_LARGEST = 1 << 64  # a larger integer does not fit into a tensor, and perhaps not into a float
_LONGEST = 20_000  # maximum number of characters in a string; a line of code can be long


def sound(evidence: Any) -> dict[str, Any]:
    """Return those entries of a finding's evidence that have the types expected by the reports.

    Omit all other entries. Also omit ``index`` if ``input`` is missing.
    """
    if not isinstance(evidence, Mapping):
        return {}
    kept = {key: value for key, value in evidence.items() if _is_sound(key, value)}
    if "index" in kept and "input" not in kept:
        del kept["index"]
    return kept


def _is_sound(key: Any, value: Any) -> bool:
    if not isinstance(key, str) or len(key) > _LONGEST or is_deeper(value, _DEEPEST):
        return False
    return _PARTS[key](value) if key in _PARTS else True


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def _number(value: Any) -> bool:
    """Return whether a value is ``None``, a number, or a string such as ``"nan"``."""
    if isinstance(value, int):
        return abs(value) <= _LARGEST
    return value is None or isinstance(value, float) or _text(value)


def _value(value: Any) -> bool:
    """Return whether a value is a number or a nested list of numbers (a shape or a tensor)."""
    return _number(value) or _list_of(_value)(value)


def _list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(check, value))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _given(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return all(map(_text, value)) and all(map(_number, value.values()))


def _repair(value: Any) -> bool:
    """Return whether a value has the format that ``Repair.to_dict`` returns."""
    if not isinstance(value, Mapping) or not _text(value.get("summary")):
        return False
    changes = value.get("changes")
    return isinstance(changes, list | tuple) and all(map(_change, changes))


def _warning(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return _text(value.get("rule")) and _text(value.get("message"))


def _change(value: Any) -> bool:
    lines = _list_of(_text)
    return (
        isinstance(value, Mapping)
        and _whole(value.get("line"))
        and lines(value.get("before"))
        and lines(value.get("after"))
    )


_PARTS: Mapping[str, Callable[[Any], bool]] = {
    "input": _text,
    "index": _list_of(_whole),
    "shape": _list_of(_whole),
    "expected": _value,
    "actual": _value,
    "at": _value,
    "grad_output": _number,
    "given": _given,
    "witness": _text,
    "line": _text,
    "call": _text,
    "hint": _text,
    "with": _text,
    "without_gradient": _list_of(_text),
    REPAIR: _repair,
    ALSO: _list_of(_text),
    WARNINGS: _list_of(_warning),
}
