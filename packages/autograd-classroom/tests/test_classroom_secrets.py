"""The judge's seed stays outside. The data for a child does not reveal the seed or later inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import pytest
import torch
from answers import RIGHT, WRONG
from autograd_classroom.judge import judged, seeds
from autograd_classroom.protocol import Frame
from autograd_classroom.protocol.wire import pack, unpack
from autograd_classroom.sandbox import Limits
from autograd_classroom.worker.handlers import Handlers
from autograd_classroom.worker.tamper_check import TamperCheck
from torch import nn
from torch.utils._pytree import tree_leaves

from autograd_course.extraction import Answer
from autograd_course.grader import CATALOGUE
from autograd_course.grader.exercise import Sampled
from autograd_course.grader.verdict import Verdict

pytestmark = pytest.mark.slow

SECRET = 0x5EC2E7_0123456789ABCDEF_5EC2E7
NEAR = range(-50, 51)  # close to a seed that the child received


@dataclass
class Listening:
    """A sandbox in this process that records everything that its child receives."""

    answer: Any
    told: list[Frame] = field(default_factory=list)
    limits: ClassVar = Limits()

    @contextmanager
    def child(self, limits: Limits) -> Iterator[Any]:
        desk: list[Handlers] = []

        class Child:
            @staticmethod
            def ask(question: Frame) -> Frame:
                self.told.append(question)
                if desk:
                    return desk[0].answered(question)
                desk.append(Handlers(question.said["kind"], self.answer, TamperCheck(()), 20.0))
                return Frame({"submitted": "right"})

        yield Child()


def judgement(exercise: str, answer: Any) -> tuple[Verdict, list[Frame]]:
    box = Listening(answer)
    code = Answer(exercise, "eve", "X", "")
    return judged(CATALOGUE[exercise], code, box, SECRET), box.told  # type: ignore[arg-type]


ASKED = {
    "a right Function": ("square", RIGHT["square"], "passed"),
    "a wrong Function, looked at twice": (
        "square", next(w.answer for w in WRONG if w.exercise == "square"), "wrong",
    ),
    "a right routine": ("hessian-vector-product", RIGHT["hessian-vector-product"], "passed"),
}  # fmt: skip


@pytest.mark.parametrize("what", ASKED)
def test_the_child_is_told_neither_the_seed_nor_one_that_draws_later_inputs(what: str) -> None:
    exercise, answer, status = ASKED[what]
    verdict, told = judgement(exercise, answer)
    assert verdict.status == status, verdict

    for frame in told:
        said = str(frame.said)
        assert str(SECRET) not in said
        assert f"{SECRET:x}" not in said
        for order in ("big", "little"):
            assert SECRET.to_bytes(16, order) not in frame.payload  # type: ignore[arg-type]
    sampled = CATALOGUE[exercise]
    assert isinstance(sampled, Sampled)
    drawn = seeds.samples(sampled, SECRET)
    for frame in told:
        for name, inputs in drawn.items():
            if "seed" in frame.said:
                assert not foreseen(sampled, name, frame.said["seed"], inputs)


def foreseen(exercise: Sampled, name: str, seed: int, inputs: Any) -> bool:
    """Whether a sampler draws these inputs from a seed or from a nearby seed."""
    draw = exercise.samplers[name]
    tries = (draw(torch.Generator().manual_seed(seed + by)) for by in NEAR)
    return any(numbers(found) == numbers(inputs) for found in tries)


def numbers(inputs: Any) -> list[Any]:
    parts = [
        [*part.parameters()] if isinstance(part, nn.Module) else [part]
        for part in tree_leaves(inputs)
    ]
    return [value.tolist() for part in parts for value in part if isinstance(value, torch.Tensor)]


def test_each_look_and_each_sample_has_a_seed_that_no_other_is_close_to() -> None:
    _, told = judgement("square", ASKED["a wrong Function, looked at twice"][1])
    looks = [frame.said["seed"] for frame in told if frame.said.get("ask") == "look"]
    exercise = CATALOGUE["square"]
    assert isinstance(exercise, Sampled)
    samples = [seeds.of_sample(SECRET, name) for name in exercise.samplers]

    different = {*looks, *samples}  # an equal question about an equal sample has the same seed
    assert len({*looks}) >= len(samples)
    assert all(abs(one - other) > 10**6 for one, other in combinations(different, 2))


def test_each_answer_has_inputs_of_its_own_and_again_the_same() -> None:
    exercise = CATALOGUE["square"]
    assert isinstance(exercise, Sampled)
    one, same, other = (seeds.samples(exercise, secret) for secret in (SECRET, SECRET, SECRET + 1))

    assert [pack(inputs) for inputs in one.values()] == [pack(inputs) for inputs in same.values()]
    for name in one:
        assert pack(one[name]) != pack(other[name])


def test_the_same_secret_asks_the_same_questions() -> None:
    (first, told), (second, again) = (judgement(*ASKED["a right Function"][:2]) for _ in range(2))

    assert first == second
    assert [frame.said for frame in told] == [frame.said for frame in again]
    assert [unpacked(frame) for frame in told] == [unpacked(frame) for frame in again]


def unpacked(frame: Frame) -> list[Any]:
    data = frame.payload[frame.said.get("code", 0) :]
    return numbers(unpack(data)) if data else []
