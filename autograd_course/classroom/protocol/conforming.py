"""Is plain data of the types that a dataclass declares, all the way down?"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

Check = Callable[[Any], bool]


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value, and all in it, is what a type hint says."""
    return _check(hint)(value)


@cache  # an answer brings a thousand values, of a few dozen types
def _check(hint: Hashable) -> Check:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda _: True
    if origin in (Union, UnionType):
        return _one_of(*map(_check, parts))
    if origin is Literal:
        return lambda value: type(value) is str and value in parts
    if origin is tuple:
        return _tuple(parts)
    if origin is Mapping:
        return _mapping(*map(_check, parts))
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    return _plain(hint)


def _one_of(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


def _tuple(parts: tuple[Any, ...]) -> Check:
    if len(parts) == 2 and parts[1] is ...:
        each = _check(parts[0])
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    checks = tuple(map(_check, parts))
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(checks)
        and all(check(item) for check, item in zip(checks, value, strict=True))
    )


def _mapping(key: Check, item: Check) -> Check:
    return lambda value: (
        isinstance(value, dict) and all(map(key, value)) and all(map(item, value.values()))
    )


def _record(record: type[Any]) -> Check:
    """Return the check of a dataclass, which may hold others of its own kind."""

    def conforming(value: Any) -> bool:
        return type(value) is record and all(
            check(getattr(value, name)) for name, check in _checks(cast(Hashable, record))
        )

    return conforming


@cache
def _checks(record: Any) -> tuple[tuple[str, Check], ...]:
    hints = get_type_hints(record)
    return tuple((field.name, _check(hints[field.name])) for field in fields(record))


def _plain(hint: Any) -> Check:
    """Return the check of a single value; Python counts truth values among the integers."""
    if hint is bool:
        return lambda value: isinstance(value, bool)
    known: Any = {None: NoneType, float: (int, float)}.get(hint, hint)
    return lambda value: isinstance(value, known) and not isinstance(value, bool)
