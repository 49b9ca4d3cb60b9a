"""Random text that is typed, written or sent is read as intended or refused in a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from autograd_classroom.protocol.wire import from_bytes, pack, to_bytes, unpack
from autograd_doctor._example_call import DTYPES, inputs_from
from autograd_doctor.extension import collect_evidence
from fuzz import examples
from hypothesis import example, given
from hypothesis import strategies as st

from autograd_course.functions import Square
from tools.errors import AuthoringError
from tools.percent import Cell, parse, render

pytestmark = pytest.mark.thorough


def refusal(read: Callable[[Any], object], given: Any) -> str:
    """Return the sentence that refuses the input, or an empty string if the input is accepted."""
    try:
        read(given)
    except ValueError as refused:
        return str(refused)
    return ""


# Inputs for ``check``

SHAPES = st.lists(st.integers(0, 4), max_size=3)
LITERALS = st.sampled_from(["0.5", "-3", "None", "True", "'sum it'", "(2,2)", "[1, 2]"])
ALPHABET = "f64i32bc [](),.<>0123456789-e'\"constx\\\n{}#:~\x00é"


def written(dtype: str, shape: list[int]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


@examples(60)
@given(st.lists(st.tuples(st.sampled_from(list(DTYPES)), SHAPES), min_size=1, max_size=3), LITERALS)
def test_a_description_is_drawn_as_written(tensors: list[Any], literal: str) -> None:
    *drawn, last = inputs_from(" ".join([*(written(*each) for each in tensors), literal]))

    assert [(x.dtype, list(x.shape)) for x in drawn] == [(DTYPES[d], s) for d, s in tensors]
    assert repr(last).replace(" ", "") == literal.replace(" ", "")


@examples(300)
@given(st.text(ALPHABET, max_size=20) | st.text(max_size=10) | LITERALS)
def test_a_text_is_understood_or_refused_in_a_sentence(text: str) -> None:
    said = refusal(inputs_from, text)

    assert said.endswith((".", "?")) or not said


# Notebook sources

LINES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=20)
SOURCES = st.lists(LINES, min_size=1, max_size=4).map("\n".join)


@examples(25)
@given(
    st.lists(st.tuples(st.sampled_from(["", " [markdown]", ' tags=["x"]']), SOURCES), max_size=3)
)
@example([("", " 0")])
def test_a_source_is_the_same_once_written(cells: list[tuple[str, str]]) -> None:
    text = "".join(f"# %%{header}\n{source}\n\n" for header, source in cells)
    try:
        read = parse(text, Path("x.py")).cells
    except AuthoringError:
        return
    again = parse(render(read), Path("x.py")).cells

    assert [about(cell) for cell in again] == [about(cell) for cell in read]


def about(cell: Cell) -> tuple[bool, str, tuple[str, ...]]:
    return cell.is_code, cell.source, cell.tags


# Evidence in transit

NUMBERS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text()
DRAWN = st.builds(
    lambda dtype, shape: (10 * torch.randn(shape)).to(dtype),
    st.sampled_from(list(DTYPES.values())),
    SHAPES,
)
VALUES = st.recursive(
    NUMBERS | DRAWN,
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.lists(inside, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inside, max_size=3)
    ),
    max_leaves=6,
)
EVIDENCE = to_bytes(collect_evidence(Square, (torch.ones(2, 3, dtype=torch.float64),))[0])


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other or (math.isnan(one) and math.isnan(other))


@examples(60)
@given(VALUES)
def test_what_is_sent_arrives(value: Any) -> None:
    there = unpack(pack(value))

    assert type(there) is type(value)
    assert same(value, there)


@examples(100)
@given(st.data())
def test_damaged_evidence_is_refused_in_a_sentence_or_read(data: st.DataObject) -> None:
    spoiled = bytearray(EVIDENCE)
    for _ in range(data.draw(st.integers(1, 5))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(spoiled)) | st.just(len(spoiled)))
    said = refusal(from_bytes, bytes(spoiled[:cut]))

    assert said.startswith("this is no evidence") or not said


@examples(100)
@given(st.binary(max_size=200))
def test_bytes_are_no_evidence(data: bytes) -> None:
    assert refusal(from_bytes, data).startswith("this is no evidence")
