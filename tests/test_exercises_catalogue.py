from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from autograd_course.grader import CATALOGUE, Exercise
from autograd_course.grader.exercises import LESSONS
from autograd_course.grader.sampling import CLEARANCE, around

each = pytest.mark.parametrize("exercise", CATALOGUE.values(), ids=CATALOGUE)
NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def headings(lesson: str) -> list[str]:
    source = (NOTEBOOKS / f"{lesson}.py").read_text(encoding="utf-8")
    return re.findall(r"^# #+ (.+)$", source, re.MULTILINE)


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


KNOWN = [
    ("square", (double(-3, 0.5),), double(9, 0.25)),
    ("scaled-sigmoid", (double(0, math.log(3)), 2.0, 1.0), double(1, 1.5)),
    ("weighted-sum", (double(1, 1), double(3, 3), double(0.25, 1)), double(2.5, 1)),
    ("clipped-relu", (double(-1, 0.5, 7), 6.0), double(0, 0.5, 6)),
    ("linear", (double(1, 2), double(3, 4).reshape(1, 2), double(10)), double(21)),
    ("linear", (double(1, 2), double(3, 4).reshape(1, 2)), double(11)),
    ("repair-cube", (double(-2),), double(-8)),
    ("repair-multiply", (double(-2), double(3)), double(-6)),
    ("repair-mean", (double(1, 2, 6).reshape(1, 3),), double(3)),
    ("repair-absolute", (double(-2, 3),), double(2, 3)),
    ("repair-power", (double(4), 0.5), double(2)),
]


@pytest.mark.parametrize(("exercise", "inputs", "output"), KNOWN, ids=[k[0] for k in KNOWN])
def test_a_reference_gives_known_values(
    exercise: str, inputs: tuple[Any, ...], output: Tensor
) -> None:
    torch.testing.assert_close(CATALOGUE[exercise].reference(*inputs), output)


def test_polar_coordinates_of_a_known_point() -> None:
    radius, angle = CATALOGUE["to-polar"].reference(double(-1), double(1))

    torch.testing.assert_close((radius, angle), (double(math.sqrt(2)), double(0.75 * math.pi)))


def tensors(inputs: tuple[Any, ...]) -> list[Tensor]:
    return [value for value in inputs if isinstance(value, Tensor)]


@each
def test_samples_are_the_same_every_time_and_leave_the_random_state(exercise: Exercise) -> None:
    state = torch.get_rng_state()
    first = exercise.samples()
    torch.rand(1)
    second = exercise.samples()
    torch.set_rng_state(state)

    for name, inputs in first.items():
        torch.testing.assert_close(tensors(inputs), tensors(second[name]), rtol=0, atol=0)


@each
def test_samples_are_legal_and_leave_a_gradient_to_find(exercise: Exercise) -> None:
    for inputs in exercise.samples().values():
        given = [t.requires_grad_() for t in tensors(inputs)]
        outputs = exercise.reference(*inputs)
        total = sum(out.sum() for out in (outputs if isinstance(outputs, tuple) else (outputs,)))
        gradients = torch.autograd.grad(total, given)

        assert all(t.dtype == torch.float64 for t in given)
        assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


@each
def test_samples_cover_shapes_that_naive_code_forgets(exercise: Exercise) -> None:
    shapes = [inputs[0].shape for inputs in exercise.samples().values()]

    assert {len(shape) for shape in shapes} >= {1, 2, 3}, "a vector, a matrix, three axes"
    assert any(len(shape) == 2 and shape[0] != shape[1] for shape in shapes), "not square"
    assert any(1 in shape for shape in shapes), "an axis of length 1"
    elementwise = exercise.id not in ("linear", "repair-mean")
    assert elementwise <= any(shape == () for shape in shapes), "a single number"


def test_numbers_around_kinks_lie_on_every_side_and_not_close() -> None:
    x = around(torch.Generator().manual_seed(0), (0.0, 6.0), 2, 3)

    assert x.shape == (2, 3)
    assert all(bool(side.any()) for side in (x < 0, (x > 0) & (x < 6), x > 6))
    assert min(float(x.abs().min()), float((x - 6).abs().min())) >= CLEARANCE


@each
def test_what_to_reread_is_a_section_of_the_lesson(exercise: Exercise) -> None:
    section = re.fullmatch(rf'lesson {exercise.lesson[:2]}, "(.+)"', exercise.read)

    assert section
    assert section[1] in headings(exercise.lesson)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_is_called_in_the_catalogue_as_in_its_notebook(lesson: str) -> None:
    assert headings(lesson)[0] == f"{lesson[:2]} · {LESSONS[lesson]}"
