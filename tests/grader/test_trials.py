"""The information that trials get about a learner's net and its training."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, linear

from autograd_course.digits import HELD_OUT, split_digits
from autograd_course.grader.trials.optimizing import watched
from autograd_course.grader.trials.products import weights_used

pytestmark = pytest.mark.slow

BATCHES = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
WEIGHT = torch.tensor([[1.0, -1, 1, 1], [-1, 1, 1, -1]])

NETS = {
    "linear": lambda x: linear(x, WEIGHT),
    "linear with bias": lambda x: linear(x, WEIGHT, torch.ones(2)),
    "@": lambda x: x @ WEIGHT.t(),
    "@ from the left": lambda x: WEIGHT @ x.t(),
    "einsum": lambda x: torch.einsum("bi,oi->bo", x, WEIGHT),
    "more axes": lambda x: linear(x[:, None], WEIGHT, torch.ones(2)),
    "convolution": lambda x: conv1d(x[:, None], WEIGHT[:, None]),
    "after dead values": lambda x: linear(0 * linear(x, WEIGHT), torch.ones(3, 2)),
    "between data": lambda x: linear(x @ x.t() @ x, WEIGHT),
}


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_the_weights_of_a_product_are_told_from_its_data(net: Callable[[Tensor], Tensor]) -> None:
    (used,) = weights_used(net, *BATCHES)

    assert used.numel() == WEIGHT.numel()
    assert used.abs().eq(1).all()


def step(parameter: nn.Parameter, gradient: Tensor | None, lr: float) -> None:
    parameter.grad = gradient
    torch.optim.SGD([parameter], lr=lr).step()


def test_a_training_is_watched_through_its_optimizers() -> None:
    asleep, crept, flipped, vector = (nn.Parameter(torch.ones(shape)) for shape in SHAPES)
    with watched() as training:
        step(asleep, torch.zeros_like(asleep), 1.0)
        step(crept, torch.ones_like(crept), 0.1)
        step(flipped, torch.ones_like(flipped), 2.0)
        step(vector, torch.ones_like(vector), 2.0)
    step(asleep, torch.ones_like(asleep), 2.0)

    assert training.steps == 4
    assert [tuple(t.shape) for t in training.untaught()] == [(1, 1)]
    assert [tuple(t.shape) for t in training.unflipped()] == [(1, 1), (2, 2)]


SHAPES = ((1, 1), (2, 2), (3, 3), (4,))


def test_held_out_digits_are_not_trained_with() -> None:
    shown, held_out = split_digits()

    assert len(shown.labels) + len(held_out.labels) == 1797
    assert len(held_out.labels) == HELD_OUT
    assert set(held_out.labels.tolist()) == set(range(10))
    assert (shown.images.min(), shown.images.max()) == (-1, 1)
