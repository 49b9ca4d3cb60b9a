"""Coupled blocks equal their plain composition. The number of blocks does not affect the memory."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
import torch
from autograd_doctor.memory import kept_bytes, peak_bytes
from torch import Tensor, nn

from autograd_course.functions import coupled, uncoupled

WIDTH, ROWS = 8, 32
HALF = 4 * WIDTH * ROWS

Blocks = list[tuple[nn.Module, nn.Module]]


def chain(number: int, *extra: nn.Module, scale: float = 1.0) -> Blocks:
    torch.manual_seed(0)

    def part() -> nn.Sequential:
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), *map(deepcopy, extra))

    blocks = [(part(), part()) for _ in range(number)]
    for parameter in modules(blocks).parameters():
        parameter.data *= scale
    return blocks


def modules(blocks: Blocks) -> nn.ModuleList:
    return nn.ModuleList([half for block in blocks for half in block])


def halves(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(1)
    return tuple(torch.randn(ROWS, WIDTH, generator=rng, dtype=torch.double).to(dtype)
                 for _ in range(2))  # fmt: skip


def plain(blocks: Sequence[tuple[nn.Module, nn.Module]], x1: Tensor, x2: Tensor) -> Any:
    for f, g in blocks:
        x1 = x1 + f(x2)
        x2 = x2 + g(x1)
    return x1, x2


def results(fn: Any, blocks: Blocks, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Run forward and backward once. Return all outputs and gradients."""
    blocks = deepcopy(blocks)
    every = modules(blocks).to(dtype)
    x1, x2 = (x.requires_grad_() for x in halves(dtype))
    torch.manual_seed(5)
    y1, y2 = fn(blocks, x1, x2)
    (y1.sin() * y2).sum().backward()
    seen = {"y1": y1, "y2": y2, "x1.grad": x1.grad, "x2.grad": x2.grad, "draw": torch.rand(2)}
    gradients = {f"{name}.grad": p.grad for name, p in every.named_parameters()}
    return {**seen, **gradients, **dict(every.named_buffers())}


@pytest.mark.parametrize("number", [1, 2, 5])
@pytest.mark.parametrize("extra", [(), (nn.Dropout(0.5),), (nn.BatchNorm1d(WIDTH),)], ids=repr)
def test_values_gradients_buffers_and_draws_are_those_of_the_plain_blocks(number, extra) -> None:
    blocks = chain(number, *extra)

    expected, found = results(plain, blocks), results(coupled, blocks)

    assert expected.keys() == found.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, msg=name)


def test_a_module_that_is_used_in_several_places_collects_from_all() -> None:
    f, g = chain(1)[0]
    blocks = [(f, g), (f, f)]

    expected, found = results(plain, blocks), results(coupled, blocks)

    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, msg=name)


class Constant(nn.Linear):
    """Uses only the shape of its half, not the values."""

    def forward(self, x: Tensor) -> Tensor:
        return self.bias.expand(x.shape)


def test_a_part_that_does_not_look_at_its_half_sends_no_gradient_there() -> None:
    blocks = [(Constant(WIDTH, WIDTH), Constant(WIDTH, WIDTH)), *chain(1)]

    expected, found = results(plain, blocks), results(coupled, blocks)

    for name in expected.keys() - {"0.weight.grad", "1.weight.grad"}:
        torch.testing.assert_close(found[name], expected[name], msg=name)
    assert found["0.weight.grad"] is None


def test_what_is_frozen_gets_no_gradient() -> None:
    blocks = chain(2)
    blocks[0][0][0].weight.requires_grad_(False)

    expected, found = results(plain, blocks), results(coupled, blocks)

    assert found["0.0.weight.grad"] is None
    for name in expected.keys() - {"0.0.weight.grad"}:
        torch.testing.assert_close(found[name], expected[name], msg=name)


def kept(fn: Any, number: int) -> int:
    blocks = chain(number)
    return kept_bytes(lambda x1, x2: fn(blocks, x1, x2), *halves())


def one_by_one(blocks: Blocks, x1: Tensor, x2: Tensor) -> Any:
    for block in blocks:
        x1, x2 = coupled([block], x1, x2)
    return x1, x2


@pytest.mark.parametrize("number", [1, 4, 16])
def test_kept_are_the_last_outputs_whatever_the_number_of_blocks(number: int) -> None:
    assert kept(coupled, number) == 2 * HALF
    assert kept(plain, number) >= number * 2 * HALF


def test_one_function_for_each_block_would_keep_the_outputs_of_each() -> None:
    assert kept(one_by_one, 16) == 16 * 2 * HALF


def test_beside_the_gradients_of_parameters_the_peak_does_not_grow() -> None:
    def beside(number: int) -> int:
        blocks = chain(number)
        gradients = sum(p.nbytes for p in modules(blocks).parameters())
        return peak_bytes(lambda a, b: coupled(blocks, a, b), *halves()) - gradients

    assert beside(32) <= beside(4) + HALF


def drift(number: int, dtype: torch.dtype, scale: float = 1.0) -> float:
    """Return the error of the rebuilt inputs, in units of the dtype's rounding error."""
    blocks = chain(number, scale=scale)
    modules(blocks).to(dtype)
    given = halves(dtype)
    with torch.no_grad():
        rebuilt = uncoupled(blocks, *coupled(blocks, *given))
    pairs = zip(given, rebuilt, strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs) / torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_what_is_rebuilt_drifts_by_rounding_and_the_more_the_more_blocks(dtype) -> None:
    assert 0 < drift(1, dtype) < 8
    assert drift(1, dtype) < drift(64, dtype) < 1e4


def test_the_gradients_of_64_blocks_are_right_in_float32() -> None:
    exact, found = results(plain, chain(64)), results(coupled, chain(64), torch.float32)

    for name in ("x1.grad", "x2.grad", "0.0.weight.grad"):
        error = (found[name] - exact[name]).abs().max() / exact[name].abs().max()
        assert error < 1e-3, name


def test_it_is_twice_differentiable() -> None:
    blocks = chain(2)
    every = modules(blocks).double()
    x1, x2 = (x[:2].requires_grad_() for x in halves(torch.float64))

    assert torch.autograd.gradcheck(lambda a, b: coupled(blocks, a, b), (x1, x2))
    assert torch.autograd.gradgradcheck(lambda a, b: coupled(blocks, a, b), (x1, x2))

    def second(fn: Any) -> tuple[Tensor, ...]:
        wanted = (x1, x2, *every.parameters())
        y1, y2 = fn(blocks, x1, x2)
        first = torch.autograd.grad((y1.sin() * y2).sum(), wanted, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), wanted)

    for found, expected in zip(second(coupled), second(plain), strict=True):
        torch.testing.assert_close(found, expected)


def test_a_parameter_that_has_changed_before_backward_is_noticed() -> None:
    blocks = chain(1)
    y1, _ = coupled(blocks, *halves())
    with torch.no_grad():
        blocks[0][0][0].weight.add_(1)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y1.sum().backward()


def test_halves_of_two_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"got \(3,\) and \(4,\)"):
        coupled([], torch.ones(3), torch.ones(4))
