"""The measures agree with the memory timeline, and exercises can limit them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from autograd_doctor.memory import kept_bytes, peak_bytes
from made import make
from memory_variants import VARIANTS, batch

from autograd_course.execution import Computed
from autograd_course.grader.checks import keeps_at_most, peaks_at_most
from autograd_course.visualize.memory.trace import trace_memory


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_kept_is_what_the_timeline_shows_between_the_passes(name: str) -> None:
    assert kept_bytes(VARIANTS[name], batch()) == trace_memory(VARIANTS[name], batch()).between


@pytest.mark.parametrize("name", VARIANTS)
def test_the_peak_is_that_of_all_tensors_the_timeline_sees_alive(name: str) -> None:
    events = trace_memory(VARIANTS[name], batch()).events

    assert peak_bytes(VARIANTS[name], batch()) == max(event.alive_high for event in events)


# Checks of the grader

Doubled = make(lambda ctx, x: 2 * x, lambda ctx, g: 2 * g)
Kept_x = make(lambda ctx, x: ctx.save_for_backward(x) or 2 * x, lambda ctx, g: 2 * g)
Wasteful = make(lambda ctx, x: (2 * x[:, None] * torch.ones_like(x))[:, 0], lambda ctx, g: 2 * g)
OnCtx = make(lambda ctx, x: setattr(ctx, "y", 2 * x) or 2 * x, lambda ctx, g: 2 * g)


def test_a_budget_of_kept_bytes() -> None:
    check = keeps_at_most(lambda x: 0, "nothing at all")

    assert isinstance(check(Doubled, (torch.randn(50),)), Computed)
    assert check(Kept_x, (torch.randn(50),)).message == (
        "200 bytes are saved for `backward`. This exercise allows 0: nothing at all."
    )
    assert check(OnCtx, (torch.randn(50),)).evidence["bytes"] == 200


def resized(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(0).resize_(x.shape).copy_(x)


def written(x: torch.Tensor) -> torch.Tensor:
    return torch.mul(x, 3, out=torch.empty(0))


def extended(x: torch.Tensor) -> torch.Tensor:
    y = 3 * x[:1]
    y.untyped_storage().resize_(x.nbytes)
    return y


@pytest.mark.parametrize("grown", [resized, written, extended])
def test_a_storage_counts_with_the_size_to_which_it_has_grown(grown: Any) -> None:
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(grown(x))
        return 2 * x

    assert kept_bytes(make(forward, lambda ctx, g: 2 * g), torch.randn(50)) == 200


def test_a_budget_of_peak_bytes() -> None:
    check = peaks_at_most(lambda x: 4 * x.nbytes, "four times x")

    assert isinstance(check(Doubled, (torch.randn(50),)), Computed)
    assert check(Wasteful, (torch.randn(50),)).message == (
        "`forward` and `backward` need 10,400 bytes at once. "
        "This exercise allows 800: four times x."
    )
