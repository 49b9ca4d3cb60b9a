"""Numbers as pictures: the cells of a heat map, and the mark and flag of a gradient."""

import math

import pytest
import torch
from torch import Tensor

from autograd_course.visualize.flow import marks
from autograd_course.visualize.flow.trace import Reading

NAN, INF = math.nan, math.inf


# The recorded values of a tensor


@pytest.mark.parametrize(
    ("tensor", "sign"),
    [
        (torch.tensor(2.0), "+"),
        (torch.tensor([-1.0, 0.0]), "-"),
        (torch.tensor([-1.0, 1.0]), "±"),
        (torch.zeros(20), "0"),
        (-torch.ones(20), "-"),
        (torch.tensor([1.0, NAN]), "!"),
        (torch.full((20,), INF), "!"),
        (torch.tensor([1j]), "±"),
        (torch.tensor([True, False]), "+"),
        (torch.ones(0), "0"),
    ],
)
def test_the_sign_of_a_tensor(tensor: Tensor, sign: str) -> None:
    assert Reading.of(tensor).sign == sign


def test_a_large_tensor_is_told_in_statistics() -> None:
    tensor = torch.tensor([0.0] * 6 + [3.0, -4.0, 1.0, 2.0])

    assert Reading.of(tensor).text == "[10] mean 0.2, std 1.81, |max| 4, norm 5.48, 60 % zeros"


def test_broken_elements_are_counted() -> None:
    assert Reading.of(torch.tensor([1.0, NAN, INF])).broken == 2
    assert Reading.of(torch.tensor([NAN] * 3 + [1.0] * 17)).broken == 3


@pytest.mark.parametrize(
    ("shape", "grid"),
    [
        ((2, 2), (2, 2)),
        ((8, 8), (8, 8)),
        ((2, 3, 8), (6, 8)),
        ((16,), (1, 16)),
        ((3,), None),  # shown as numbers
        ((9, 7), None),  # too many rows
        ((65,), None),
        ((8, 1), None),
    ],
)
def test_a_small_tensor_has_a_heat_map(
    shape: tuple[int, ...], grid: tuple[int, int] | None
) -> None:
    found = Reading.of(torch.arange(math.prod(shape)).reshape(shape).float()).heat

    assert (found and (found.rows, found.columns)) == grid


def test_a_sparse_tensor_is_read_like_a_dense_one() -> None:
    dense = torch.tensor([[0.0, 2.0], [0.0, 0.0]])

    assert Reading.of(dense.to_sparse()) == Reading.of(dense)


# Heat maps


def test_cells_are_sixths_of_the_largest_magnitude() -> None:
    reading = Reading.of(torch.tensor([[6.0, 1.0, 0.0], [-3.0, -6.0, 1e-9]]))

    assert marks.coded(reading.heat) == "fa.CFa"


def test_a_cell_that_is_no_number_is_marked_and_does_not_blind_the_others() -> None:
    assert marks.coded(Reading.of(torch.tensor([NAN, INF, 1.0, 2.0])).heat) == "!!cf"


def test_the_last_digits_of_a_machine_move_no_cell() -> None:
    exact = torch.arange(1.0, 7.0, dtype=torch.float64)
    above = exact + torch.tensor([1e-12] * 5 + [0.0], dtype=torch.float64)

    assert marks.coded(Reading.of(exact).heat) == marks.coded(Reading.of(above).heat) == "abcdef"


def test_a_negative_cell_is_told_from_a_positive_one_without_color() -> None:
    assert [marks.shade(letter) for letter in "fF.!"] == [
        ("plus", 1.0), ("minus", 1.0), ("zero", 0.0), ("broken", 1.0),
    ]  # fmt: skip


# Marks and flags


@pytest.mark.parametrize(
    ("gradient", "written"),
    [
        (1.0, "+80"),
        (-1.0, "-80"),
        (1e-3, "+50"),
        (1e-8, "+0"),
        (1e9, "+100"),
        (0.0, "0"),
        (NAN, "!100"),
    ],
)
def test_a_mark_is_logarithmic(gradient: float, written: str) -> None:
    assert marks.mark(Reading.of(torch.tensor(gradient, dtype=torch.float64)), 1.0) == written


@pytest.mark.parametrize(
    ("gradient", "word"),
    [
        (1e-5, ""),
        (9e-7, "▼ vanishing"),
        (9e3, ""),
        (-2e4, "▲ exploding"),
        (0.0, ""),
        (INF, "✕ nan or inf"),
    ],
)
def test_what_is_wrong_with_a_gradients_size_is_said(gradient: float, word: str) -> None:
    assert marks.flag(Reading.of(torch.tensor(gradient)), 1.0) == word


def test_a_gradient_is_measured_by_the_losss() -> None:
    gradient = Reading.of(torch.tensor(3e-6))

    assert marks.flag(gradient, 1.0) == ""
    assert marks.flag(gradient, 10.0) == "▼ vanishing"


@pytest.mark.parametrize(
    ("gradient", "said"),
    [
        (torch.tensor(-2.0), "|∂| is 2 × that of the loss"),
        (torch.tensor(1e-9), "|∂| is 1e-09 × that of the loss: vanishing"),
        (torch.zeros(3), "zero in every element, so nothing before it learns from this path"),
        (
            torch.tensor([NAN, 1.0]),
            "1 element is nan or infinite, and so is every sum with this gradient",
        ),
    ],
)
def test_the_size_of_a_gradient_in_words(gradient: Tensor, said: str) -> None:
    assert marks.size(Reading.of(gradient), 1.0) == said


def test_no_gradient_is_no_zero_gradient() -> None:
    assert marks.size(None, 1.0).startswith("no gradient arrives")
