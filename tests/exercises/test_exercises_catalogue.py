from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
import torch
from answers import KNOWN
from repository import ROOT
from torch import Tensor

from autograd_course.calls import is_float
from autograd_course.grader import CATALOGUE, Exercise
from autograd_course.grader.exercise import FunctionExercise, Sampled
from autograd_course.grader.sampling import CLEARANCE, around
from autograd_course.index import LESSONS

SAMPLED = {e.id: e for e in CATALOGUE.values() if isinstance(e, Sampled)}
FUNCTIONS = {e.id: e for e in CATALOGUE.values() if isinstance(e, FunctionExercise)}
each = pytest.mark.parametrize("exercise", CATALOGUE.values(), ids=CATALOGUE)
each_sampled = pytest.mark.parametrize("exercise", SAMPLED.values(), ids=SAMPLED)
each_function = pytest.mark.parametrize("exercise", FUNCTIONS.values(), ids=FUNCTIONS)
NOTEBOOKS = ROOT / "notebooks"


def headings(lesson: str) -> list[str]:
    source = (NOTEBOOKS / f"{lesson}.py").read_text(encoding="utf-8")
    return re.findall(r"^# #+ (.+)$", source, re.MULTILINE)


@pytest.mark.parametrize(("exercise", "inputs", "output"), KNOWN, ids=[k[0] for k in KNOWN])
def test_a_reference_gives_known_values(
    exercise: str, inputs: tuple[Any, ...], output: Any
) -> None:
    torch.testing.assert_close(SAMPLED[exercise].reference(*inputs), output)


def tensors(inputs: tuple[Any, ...]) -> list[Tensor]:
    return [value for value in inputs if isinstance(value, Tensor)]


@each_sampled
def test_samples_are_the_same_every_time_and_leave_the_random_state(exercise: Sampled) -> None:
    state = torch.get_rng_state()
    first = exercise.samples()
    torch.rand(1)
    second = exercise.samples()
    torch.set_rng_state(state)

    for name, inputs in first.items():
        torch.testing.assert_close(tensors(inputs), tensors(second[name]), rtol=0, atol=0)


@each_function
def test_samples_are_legal_and_leave_a_gradient_to_find(exercise: FunctionExercise) -> None:
    truth, found = exercise.surrogate or exercise.reference, []
    for inputs in exercise.samples().values():
        given = [t.requires_grad_() for t in tensors(inputs) if is_float(t)]
        outputs = truth(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        total = sum(out.abs().nan_to_num(0, 0, 0).sum() for out in outputs if is_float(out))
        gradients = torch.autograd.grad(total, given, allow_unused=True)

        assert all(t.dtype in (torch.float64, torch.complex128) for t in given)
        found += [gradient for gradient in gradients if gradient is not None]
    assert all(bool(torch.isfinite(gradient).all()) for gradient in found)
    assert any(bool(gradient.any()) for gradient in found)


@each_function
def test_samples_cover_shapes_that_naive_code_forgets(exercise: FunctionExercise) -> None:
    shapes = [t.shape for inputs in exercise.samples().values() for t in tensors(inputs)]

    assert len(set(shapes)) >= 3, "three shapes at least"
    assert any(1 in shape or shape == () for shape in shapes), "an axis of length 1, or none"
    assert any(shape[-2] != shape[-1] for shape in shapes if len(shape) >= 2), "not square"


def test_numbers_around_kinks_lie_on_every_side_and_not_close() -> None:
    x = around(torch.Generator().manual_seed(0), (0.0, 6.0), 2, 3)

    assert x.shape == (2, 3)
    assert all(bool(side.any()) for side in (x < 0, (x > 0) & (x < 6), x > 6))
    assert min(float(x.abs().min()), float((x - 6).abs().min())) >= CLEARANCE


IMPORTED = """
import sys
from autograd_course.grader.catalogue import CATALOGUE, find
find({exercise!r})
modules = [name for name in sys.modules if name.startswith("autograd_course.exercises.")]
assert "an-unknown-id" not in CATALOGUE and len(CATALOGUE) > 1
print(*sorted(name for name in modules if name.count(".") == 3))
"""


@pytest.mark.parametrize(
    ("exercise", "modules"),
    [
        ("square", ["lesson_01_template.square"]),
        ("sign-ste", ["lesson_05_straight_through._sign", "lesson_05_straight_through.sign_ste"]),
    ],
)
def test_only_the_module_of_the_exercise_is_imported(exercise: str, modules: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED.format(exercise=exercise)], capture_output=True, text=True
    )

    assert ran.stdout.split() == [f"autograd_course.exercises.{name}" for name in modules], ran


@each
def test_what_to_reread_is_a_section_of_the_lesson(exercise: Exercise) -> None:
    section = re.fullmatch(rf'lesson {exercise.lesson[:2]}, "(.+)"', exercise.read)

    assert section
    assert section[1] in headings(exercise.lesson)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_is_called_in_the_catalogue_as_in_its_notebook(lesson: str) -> None:
    assert headings(lesson)[0] == f"{lesson[:2]} · {LESSONS[lesson]}"
