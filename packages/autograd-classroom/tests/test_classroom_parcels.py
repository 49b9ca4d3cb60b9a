"""The code that the judge sends into the sandbox. It is complete and never contains the answer."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from autograd_classroom.folders import CLASSROOM, COURSE
from autograd_classroom.judge.parcels import KeptOutError, kept_out, packed
from autograd_classroom.judge.stub_submission import stub_submission
from autograd_classroom.protocol import parcel
from autograd_classroom.protocol.parcel import FILE, opened
from autograd_classroom.worker import inside
from autograd_classroom.worker.replies import Said
from torch import nn

from autograd_course.exercises.lesson_08_attention_challenge._constraints import linear_budget
from autograd_course.grader import CATALOGUE, checks
from autograd_course.grader.checks import keeps_at_most
from autograd_course.grader.exercise import (
    Exercise,
    FunctionExercise,
    PredictionExercise,
    RoutineExercise,
    Sampled,
    is_by_values,
)
from autograd_course.grader.verdict import wrong

pytestmark = pytest.mark.slow


def experiments(exercise: Exercise) -> Iterator[tuple[str, Any]]:
    """Yield everything that may be sent as code for an exercise, with a name for each."""
    match exercise:
        case FunctionExercise():
            yield from ((f"check {n}", check) for n, check in enumerate(exercise.every_check))
        case RoutineExercise():
            yield from ((f"trial {n}", trial) for n, trial in enumerate(exercise.trials))
            yield from ((f"sample {name}", drawn) for name, drawn in exercise.samples().items())


# These judge only values or compare with the course's own answer, so they run outside the sandbox.
JUDGED_OUTSIDE = {
    "clipped-relu: check 3",
    "clipped-sign: check 3",
    "fake-quantize: check 3",
    "fused-linear-relu: check 7",
    "gumbel-hard: check 3",
    "gumbel-hard: check 4",
    "gumbel-soft: check 3",
    "lambert-w: check 3",
    "max-with-ties: check 3",
    "max-with-ties: check 4",
    "maximum-by-mask: check 6",
    "operator-window-sums: trial 2",
    "repair-absolute: check 3",
    "soft-threshold-operator: trial 1",
    "soft-threshold-operator: trial 2",
    "soft-threshold-operator: trial 3",
    "ternary-ste: check 3",
    "triangular-solve: check 3",
    "triangular-solve: check 6",
}


def parcels() -> dict[str, bytes]:
    found = {}
    for exercise in CATALOGUE.values():
        for what, value in experiments(exercise):
            if is_by_values(value):
                continue
            try:
                found[f"{exercise.id}: {what}"] = packed(value, kept_out(exercise))
            except KeptOutError:
                continue
    return found


@pytest.fixture(scope="module")
def sent() -> dict[str, bytes]:
    return parcels()


def test_no_experiment_takes_the_answer_along(sent: dict[str, bytes]) -> None:
    asked = {f"{e.id}: {what}" for e in CATALOGUE.values() for what, _ in experiments(e)}

    assert asked - sent.keys() == JUDGED_OUTSIDE


def test_no_parcel_names_a_module_that_the_sandbox_has_not(sent: dict[str, bytes]) -> None:
    for what, data in sent.items():
        for outside in (b"autograd_course.exercises", b"autograd_course.grader"):
            assert outside not in data, what


def test_no_parcel_holds_a_hint_a_suspect_or_a_path(sent: dict[str, bytes]) -> None:
    for what, data in sent.items():
        exercise = CATALOGUE[what.partition(":")[0]]
        suspects = exercise.suspects if isinstance(exercise, Sampled) else {}
        for text in (*exercise.hints, *suspects, str(COURSE.parent)):
            assert text.encode() not in data, what


_OPEN = """
import sys
from autograd_classroom.worker.inside import only_inside
only_inside()
from pathlib import Path
from autograd_classroom.protocol.parcel import opened
from autograd_classroom.worker import main_loop, warming
warming.warm()
for path in sorted(Path(sys.argv[1]).iterdir()):
    opened(path.read_bytes())
print(*sorted(name for name, it in sys.modules.items() if getattr(it, "__file__", None)))
"""
_JUDGING = re.compile(
    r"autograd_course\.(.*\.)?(exercises|grader)"
    r"|autograd_doctor\.(_rules|_judge|_reference|_pipeline|_vetting|_repair\.search|api)"
)


def test_a_process_with_the_worker_alone_opens_each_parcel_and_imports_no_code_that_judges(
    sent: dict[str, bytes], tmp_path: Path
) -> None:
    stand_ins = {
        f"{exercise.id}: stand-in": packed(stub_submission(exercise))
        for exercise in CATALOGUE.values()
        if not isinstance(exercise, PredictionExercise)  # some of these take a while to run
    }
    for number, data in enumerate((sent | stand_ins).values()):
        (tmp_path / f"{number:04}").write_bytes(data)

    said = subprocess.run(
        [sys.executable, "-c", _OPEN, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert said.returncode == 0, said.stderr
    imported = said.stdout.split()
    assert {"autograd_doctor._probes.core", "autograd_course.execution"} <= {*imported}
    assert [name for name in imported if _JUDGING.match(name)] == []


def test_what_is_kept_out_is_refused_wherever_it_lies() -> None:
    exercise = CATALOGUE["clipped-sign"]
    assert isinstance(exercise, FunctionExercise)
    secret = exercise.surrogate

    for holder in ([secret], {"it": secret}, partial(print, secret)):
        with pytest.raises(KeptOutError, match="stays outside"):
            packed(holder, kept_out(exercise))


def test_a_module_that_the_sandbox_has_not_is_refused() -> None:
    with pytest.raises(KeptOutError, match=r"the module autograd_course\.grader\.checks stays"):
        packed([checks])


def test_a_closure_arrives_with_what_it_holds() -> None:
    check = opened(packed(keeps_at_most(linear_budget, "no more")))

    class Hoards(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(q.new_zeros(30))
            return q * k * v

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            return grads * 3

    found = check(Hoards, (*(torch.ones(3, 1, dtype=torch.float64) for _ in range(3)),))

    assert "240 bytes are saved for `backward`. This exercise allows 120: no more." in found.message
    assert check.__code__.co_filename == FILE


def test_models_of_a_sample_arrive_with_their_numbers() -> None:
    exercise = CATALOGUE["per-sample-gradients"]
    assert isinstance(exercise, RoutineExercise)
    for model, loss, x, y in exercise.samples().values():
        other, other_loss, other_x, other_y = opened(packed((model, loss, x, y)))
        assert isinstance(other, nn.Module)
        assert torch.equal(loss(model(x), y), other_loss(other(other_x), other_y))


def test_the_code_in_a_parcel_belongs_to_no_module_that_an_answer_can_import() -> None:
    exercise = CATALOGUE["any-batch"]
    assert isinstance(exercise, RoutineExercise)
    before = set(sys.modules)
    (trial,) = opened(packed(exercise.trials))
    applied = trial.__globals__["droppable"].__globals__["Applied"]

    assert set(sys.modules) == before
    assert {trial.__module__, applied.__module__, applied.forward.__module__} == {parcel.__name__}
    for code in (trial, applied.forward):
        modules = [m for m in sys.modules.values() if getattr(m, "__dict__", 0) is code.__globals__]
        assert modules == []


def test_a_verdict_inside_is_data() -> None:
    assert opened(packed([wrong]))[0]("no") == Said("wrong", "no")


@pytest.mark.parametrize(
    ("module", "there"),
    {
        "autograd_course": True,
        "autograd_course.lesson": True,
        "autograd_course.external.building": True,
        "autograd_course.functions.attention.dropout": True,
        "autograd_course.functions": False,
        "autograd_course.functions.square": False,
        "autograd_classroom.judge": False,
        "autograd_course.grader.catalogue": False,
        "autograd_course.lessons": False,
        "torch.nn": True,
    }.items(),
)
def test_the_list_says_what_is_inside(module: str, there: bool) -> None:
    assert inside.has(module) == there


def test_all_that_is_inside_exists() -> None:
    folders = {package.name: package for package in (CLASSROOM, COURSE)}

    assert inside.PARTS.keys() == folders.keys()
    assert [
        part
        for name, parts in inside.PARTS.items()
        for part in parts
        if not (folders[name] / part).exists()
    ] == []
