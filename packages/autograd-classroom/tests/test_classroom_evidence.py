"""The judge gives a verdict on any evidence that arrives, or refuses it with UnansweredError."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
import torch
from answers import RIGHT, WRONG
from autograd_classroom.judge.asked import Asked, UnansweredError
from autograd_classroom.judge.remote import RemoteFunction
from autograd_classroom.protocol import Frame
from autograd_classroom.protocol.wire import pack, unpack
from autograd_doctor.evidence import Evidence
from autograd_doctor.extension import collect_evidence, vet_evidence
from sampling import first_rows
from torch import Tensor

from autograd_course.grader import CATALOGUE
from autograd_course.grader.exercise import FunctionExercise

pytestmark = pytest.mark.slow

SECRET = 7
EXERCISES = [e for e in CATALOGUE.values() if isinstance(e, FunctionExercise)]


def nested(levels: int) -> Any:
    value: Any = ()
    for _ in range(levels):
        value = (value,)
    return value


OTHERS: tuple[Any, ...] = (
    None, True, 3, -1, 99, 10**40, 0.5, float("nan"), float("inf"), "", "x", "x" * 10**6,
    (), (1,), (0, 0), ("x",), (None,) * 10**5, [], {}, {"a": 1}, nested(200), nested(900),
    torch.zeros(0), torch.tensor(1.0), torch.tensor(True), torch.tensor([1, 2, 3]),
    torch.tensor([10**12]), torch.tensor([-1]), torch.zeros(3).to(torch.float8_e4m3fn),
    torch.zeros(3, dtype=torch.complex64), torch.zeros(2, 7, dtype=torch.float64),
    torch.full((3, 5), float("nan"), dtype=torch.float64),
)  # fmt: skip


def changed(value: Any) -> Iterator[Any]:
    """Yield values that resemble a value but differ from it."""
    match value:
        case tuple() if value:
            yield from (value[:-1], value + value, value[::-1], value * 1000)
        case dict() if value:
            yield dict(list(value.items())[1:])
            yield {f"{key}?": item for key, item in value.items()}
        case Tensor():
            flat = value.reshape(-1)
            yield from (flat, flat[:0], value[None], value * 0, value.float())
            yield from (value.to(torch.int64), value.to(torch.complex128))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield all fields of the evidence at all levels. Each one is a path with the value at this
    path.
    """
    yield path, value
    parts: Any = ()
    if is_dataclass(value):
        parts = [(field.name, getattr(value, field.name)) for field in fields(value)]
    elif isinstance(value, tuple):
        parts = enumerate(value)
    elif isinstance(value, dict):
        parts = value.items()
    for name, part in parts:
        yield from places(part, (*path, name))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return the evidence with a different value at a path."""
    if not path:
        return new
    first, rest = path[0], path[1:]
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{first: put(getattr(value, first), rest, new)})
    if isinstance(value, tuple):
        return tuple(put(v, rest, new) if i == first else v for i, v in enumerate(value))
    return {key: put(v, rest, new) if key == first else v for key, v in value.items()}


def seen_of(exercise: FunctionExercise, answer: Any) -> tuple[Any, tuple[Evidence, ...]]:
    inputs = next(iter(exercise.samples(SECRET).values()))
    asked = exercise.double_backward
    return inputs, tuple(collect_evidence(answer, inputs, double_backward=asked, seed=SECRET))


def packed(value: Any) -> bytes:
    """Return a value as bytes, however deeply it is nested."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        return pack(value)
    finally:
        sys.setrecursionlimit(usual)


def diagnosed(exercise: FunctionExercise, inputs: Any, data: bytes) -> None:
    class Child:
        def ask(self, question: Frame) -> Frame:
            return Frame({}, data)

    RemoteFunction(exercise, Asked(Child()), SECRET).diagnosed(inputs, varied=True)  # type: ignore[arg-type]


TRIED = {
    "a right answer": ("square", True),
    "a wrong answer": ("square", False),
    "two outputs": ("to-polar", True),
    "second derivatives": ("cube-twice", True),
}


@pytest.mark.thorough
@pytest.mark.parametrize("what", TRIED)
@pytest.mark.parametrize("turn", range(3))
def test_evidence_with_anything_in_any_place_is_judged_or_refused(what: str, turn: int) -> None:
    id_, right = TRIED[what]
    exercise = CATALOGUE[id_]
    assert isinstance(exercise, FunctionExercise)
    answer = RIGHT[id_] if right else next(w.answer for w in WRONG if w.exercise == id_)
    inputs, seen = seen_of(exercise, answer)
    rng, failures = random.Random(turn), []
    once: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # one place of each kind
    for path, value in places(seen):
        kind = tuple(part for part in path if isinstance(part, str))
        if kind not in once or rng.random() < 0.2:
            once[kind] = (path, value)
    for path, value in once.values():
        for new in rng.sample([*OTHERS, *changed(value)], 4):
            data = packed(put(seen, path, new))
            try:
                diagnosed(exercise, inputs, data)
            except UnansweredError:
                pass
            except Exception as error:
                failures.append((path, repr(new)[:60], f"{type(error).__name__}: {error}"[:80]))

    assert not failures, "\n".join(map(str, failures))


@pytest.mark.parametrize(
    "exercise", first_rows(EXERCISES, lambda e: e.lesson, 1), ids=lambda e: e.id
)
def test_what_the_doctor_sees_of_a_right_answer_is_evidence(exercise: FunctionExercise) -> None:
    inputs, seen = seen_of(exercise, RIGHT[exercise.id])

    assert len(vet_evidence(unpack(pack(seen)), inputs, exercise.reference)) == len(seen)
