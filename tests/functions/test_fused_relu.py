"""Fused layers equal their parts, and save only the tensors that backward needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from autograd_doctor.memory import kept_bytes, peak_bytes
from torch import Tensor

from autograd_course.functions import AddReLU, LinearReLU

ROWS, IN, OUT = 64, 32, 48
Y = 4 * ROWS * OUT


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def layer(*leading: int) -> tuple[Tensor, Tensor, Tensor]:
    return draw(*leading, IN), draw(OUT, IN, seed=1), draw(OUT, seed=2)


def linear_relu(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    return torch.nn.functional.linear(x, w, b).relu()


def add_relu(a: Tensor, b: Tensor) -> Tensor:
    return (a + b).relu()


def assert_same(f: Callable[..., Tensor], g: Callable[..., Tensor], *inputs: Any) -> None:
    leaves = [it.clone().requires_grad_() for it in inputs]
    one, other = f(*leaves), g(*leaves)
    up = torch.randn_like(one)
    torch.testing.assert_close(one, other)
    for mine, theirs in zip(*(torch.autograd.grad(y, leaves, up) for y in (one, other)),
                            strict=True):  # fmt: skip
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("keep", ["output", "sign"])
@pytest.mark.parametrize("leading", [(), (0,), (5,), (2, 3)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_linear_relu_is_a_linear_layer_and_a_relu(keep: str, leading: Any, bias: bool) -> None:
    def fused(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        return LinearReLU.apply(x, w, b, keep)

    assert_same(fused, linear_relu, *layer(*leading)[: 2 + bias])


def test_linear_relu_keeps_the_signs_where_the_parts_keep_the_output() -> None:
    x, w, b = layer(ROWS)

    def then(fn: Callable[..., Tensor], *options: Any) -> int:
        return kept_bytes(lambda x, w, b: fn(x, w, b, *options) + 1, x, w, b)

    assert then(linear_relu) == then(LinearReLU.apply) == Y
    assert then(LinearReLU.apply, "sign") == Y // 32


def test_linear_relu_makes_one_tensor_where_the_parts_make_two() -> None:
    x, w, b = layer(ROWS)

    assert peak_bytes(linear_relu, x, w, b, backward=False) == 2 * Y
    assert peak_bytes(LinearReLU, x, w, b, backward=False) == Y


def test_what_linear_relu_is_to_keep_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="'output' or 'sign', not 'mask'"):
        LinearReLU.apply(*layer(3), "mask")


@pytest.mark.parametrize("other", [(5, 4), (4,), (1, 4), (5, 1), ()], ids=str)
def test_add_relu_is_an_addition_and_a_relu(other: tuple[int, ...]) -> None:
    a, b = draw(5, 4), draw(*other, seed=1)

    assert_same(AddReLU.apply, add_relu, a, b)
    assert_same(AddReLU.apply, add_relu, b, a)


def test_add_relu_keeps_an_eighth_of_a_byte_for_each_element() -> None:
    a, b = draw(ROWS, OUT), draw(ROWS, OUT, seed=1)

    assert kept_bytes(lambda a, b: add_relu(a, b) + 1, a, b) == Y
    assert kept_bytes(lambda a, b: AddReLU.apply(a, b) + 1, a, b) == Y // 32
    assert peak_bytes(AddReLU, a, b, backward=False) < peak_bytes(add_relu, a, b, backward=False)
