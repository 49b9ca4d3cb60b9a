"""A mask that is stored as bits has the exact size in bytes and the right gradients."""

from __future__ import annotations

import math

import pytest
import torch
from autograd_doctor.memory import kept_bytes, peak_bytes
from torch import Tensor

from autograd_course import diagnose
from autograd_course.functions import PackedDropout, PackedReLU, pack_bits, unpack_bits

each_shape = pytest.mark.parametrize(
    "shape", [(), (0,), (1,), (7,), (8,), (9,), (3, 5), (2, 0, 4), (4, 4, 4)], ids=str
)


def drawn(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@each_shape
def test_what_is_unpacked_is_what_was_packed_in_an_eighth_of_the_bytes(shape) -> None:
    mask = drawn(shape) > 0

    packed = pack_bits(mask)

    assert torch.equal(unpack_bits(packed, shape), mask)
    assert (packed.dtype, packed.nbytes) == (torch.uint8, math.ceil(mask.numel() / 8))
    assert packed.untyped_storage().nbytes() == packed.nbytes


def test_the_first_element_is_the_lowest_bit_and_spare_bits_are_0() -> None:
    mask = torch.tensor([True] + 6 * [False] + 3 * [True])

    assert pack_bits(mask).tolist() == [0b1000_0001, 0b0000_0011]


def test_layout_does_not_matter() -> None:
    mask = drawn((6, 5)) > 0

    assert torch.equal(unpack_bits(pack_bits(mask.t()), (5, 6)), mask.t())
    assert torch.equal(unpack_bits(pack_bits(mask[::2]), (3, 5)), mask[::2])
    assert torch.equal(pack_bits(mask[:1].expand(4, 5)), pack_bits(mask[:1].repeat(4, 1)))


def test_what_cannot_be_right_is_refused() -> None:
    with pytest.raises(TypeError, match=r"a boolean mask, not torch\.float32"):
        pack_bits(torch.zeros(3))
    with pytest.raises(ValueError, match=r"shape \(3, 3\) has 2 bytes, not 1"):
        unpack_bits(pack_bits(torch.ones(8, dtype=torch.bool)), (3, 3))


# ReLU


@each_shape
def test_relu_has_values_and_gradients_of_pytorchs(shape) -> None:
    x, g = drawn(shape).requires_grad_(), drawn(shape) + 2

    assert torch.equal(PackedReLU.apply(x), x.relu())
    assert torch.equal(*(torch.autograd.grad(y, x, g)[0] for y in (PackedReLU.apply(x), x.relu())))


def test_relu_has_no_gradient_at_0() -> None:
    x = torch.zeros(3, requires_grad=True)

    assert torch.autograd.grad(PackedReLU.apply(x).sum(), x)[0].tolist() == [0, 0, 0]


def test_relu_keeps_a_bit_where_pytorchs_keeps_its_output_and_a_mask_a_byte() -> None:
    x = drawn((1000,))

    assert kept_bytes(lambda x: (x + 1).relu() + 1, x) == 4000
    assert kept_bytes(lambda x: PackedReLU.apply(x + 1) + 1, x) == 125
    assert kept_bytes(lambda x: torch.where(x + 1 > 0, x + 1, 0), x) == 1000


def test_packing_needs_nothing_larger_than_the_mask() -> None:
    x = drawn((8000,))

    assert peak_bytes(PackedReLU, x, backward=False) == x.nbytes + 1000  # the output and the bits
    assert peak_bytes(PackedReLU, x) <= 3 * x.nbytes + 1000 + 8000 + 8  # two gradients, a mask


# Dropout


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout_drops_as_often_as_it_should_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    y = PackedDropout.apply(torch.ones(100_000), p)

    assert float((y == 0).float().mean()) == pytest.approx(p, abs=0.01)
    assert float(y.mean()) == pytest.approx(float(p < 1), abs=0.02)


def test_backward_drops_what_forward_has_dropped() -> None:
    x = torch.ones(1000, requires_grad=True)
    y = PackedDropout.apply(x, 0.4)

    (gradient,) = torch.autograd.grad(y.sum(), x)

    assert torch.equal(gradient, y.detach())


def test_dropout_keeps_a_bit_where_pytorchs_keeps_more() -> None:
    x = drawn((1000,))

    assert kept_bytes(lambda x: PackedDropout.apply(x, 0.5) + 1, x) == 125
    assert kept_bytes(lambda x: torch.dropout(x, 0.5, True) + 1, x) >= 1000


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match=r"p = 1\.5"):
        PackedDropout.apply(torch.ones(3), 1.5)


@each_shape
def test_the_doctor_finds_nothing_in_dropout(shape) -> None:
    diagnosis = diagnose(PackedDropout, (drawn(shape), 0.3))

    assert diagnosis.findings == (), str(diagnosis)
