"""All data from the other process has the right types, at every level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from autograd_doctor._vetting import conforms


@dataclass(frozen=True)
class Tree:
    height: float
    children: tuple[Tree, ...] = ()
    names: Mapping[str, int | None] = field(default_factory=dict)
    pair: tuple[int, bool] = (0, False)
    note: Any = None


@dataclass(frozen=True)
class Shrub(Tree):
    pass


@pytest.mark.parametrize(
    ("value", "hint", "fits"),
    [
        (1, int, True),
        (True, int, False),
        (1, bool, False),
        (1, float, True),
        (True, float, False),
        ("1", float, False),
        (None, None, True),
        (None, int | None, True),
        (1.0, int | None, False),
        ((), tuple[int, ...], True),
        ((1, "2"), tuple[int, ...], False),
        ([1], tuple[int, ...], False),
        ((1, 2), tuple[int], False),
        ({"a": (1,)}, Mapping[str, tuple[int, ...]], True),
        ({1: (1,)}, Mapping[str, tuple[int, ...]], False),
        ({"a": 1}, Mapping[str, tuple[int, ...]], False),
        (Tree(1, (Tree(2.0, (), {"a": None}),)), Tree, True),
        (Tree(1, (Tree("2"),)), Tree, False),  # type: ignore[arg-type]
        (Tree(1, names={"a": True}), Tree, False),
        (Tree(1, pair=(0, 1)), Tree, False),  # type: ignore[arg-type]
        (Tree(1, note=object()), Tree, True),
        (Shrub(1), Tree, False),
        (Tree, Tree, False),
    ],
)
def test_a_value_conforms_to_a_hint_or_not(value: object, hint: object, fits: bool) -> None:
    assert conforms(value, hint) is fits
