"""Is plain data of the types that a dataclass declares, all the way down?"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value, and all in it, is what a type hint says."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(conforms(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and _items(value, parts)
    if origin is Mapping:
        return isinstance(value, dict) and all(
            conforms(key, parts[0]) and conforms(item, parts[1]) for key, item in value.items()
        )
    if is_dataclass(hint) and isinstance(hint, type):
        return type(value) is hint and _record(value)
    return _plain(value, NoneType if hint is None else hint)


def _items(value: tuple[Any, ...], parts: tuple[Any, ...]) -> bool:
    if len(parts) == 2 and parts[1] is ...:
        return all(conforms(item, parts[0]) for item in value)
    return len(value) == len(parts) and all(map(conforms, value, parts))


def _record(value: Any) -> bool:
    hints = _hints(cast(Hashable, type(value)))
    return all(conforms(getattr(value, f.name), hints[f.name]) for f in fields(value))


@cache
def _hints(record: Hashable) -> dict[str, Any]:
    return get_type_hints(record)


def _plain(value: Any, hint: type) -> bool:
    if isinstance(value, bool):  # which Python counts among the integers
        return hint is bool
    return isinstance(value, (int, float)) if hint is float else isinstance(value, hint)
