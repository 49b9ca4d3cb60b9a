"""The meta device is used only if code could distinguish a second device from the first."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from autograd_doctor._execution.time_limit import TimeUp, time_limit, untimed
from autograd_doctor.extension import collect_evidence
from torch import Tensor

TWO = torch.tensor(2.0, dtype=torch.float64)
TWOS = torch.tensor([2.0, 2.0, 2.0], dtype=torch.float64)
Backward = Callable[[Tensor, Tensor], Tensor]

INHERITED: dict[str, Backward] = {
    "arithmetic": lambda x, g: 2 * x * g,
    "zeros like the input": lambda x, g: torch.zeros_like(x) + 2 * x * g,
    "new zeros": lambda x, g: x.new_zeros(x.shape) + 2 * x * g,
    "another dtype": lambda x, g: (2 * x * g).to(torch.float32).to(g.dtype),
    "in place": lambda x, g: g.clone().mul_(x).mul_(2),
    "a list of parts": lambda x, g: torch.cat([2 * x[:2] * g[:2], 2 * x[2:] * g[2:]]),
    "a factory that is told where": lambda x, g: torch.full((3,), 2.0, device=x.device) * x * g,
    "a captured number": lambda x, g: TWO * x * g,
    "to where another is": lambda x, g: (2 * x * g).to(x),
}
CHOSEN: dict[str, Backward] = {
    "a factory": lambda x, g: torch.full((3,), 2.0, dtype=g.dtype) * x * g,
    "a captured tensor": lambda x, g: TWOS * x * g,
    "a captured gradient": lambda x, g: TWOS,
    "by way of NumPy": lambda x, g: torch.from_numpy((2 * x * g).numpy()),
    "to a device": lambda x, g: (2 * x * g).to("cpu"),
    "cpu()": lambda x, g: (2 * x * g).cpu(),
    "a path for each device": lambda x, g: 2 * x * g if x.is_cpu else x * g * 2,
}


@pytest.mark.parametrize(
    ("passed", "asked"),
    [(f, False) for f in INHERITED.values()] + [(f, True) for f in CHOSEN.values()],
    ids=[*INHERITED, *CHOSEN],
)
def test_the_meta_device_is_asked_where_code_may_choose_a_device(
    passed: Backward, asked: bool
) -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return passed(x, grad_output)

    seen, *_ = collect_evidence(Square, (torch.randn(3, dtype=torch.float64),))

    assert ("meta" in {variant.name for variant in seen.variants.dtypes}) == asked


FIRST = """
import sys, torch
from autograd_doctor import diagnose
from right import Square
assert diagnose(Square, torch.randn(3)).ok
assert "torch._dynamo" not in sys.modules
"""


def test_the_first_diagnosis_does_not_wait_for_the_compiler_to_be_imported() -> None:
    subprocess.run([sys.executable, "-c", FIRST], check=True, cwd=Path(__file__).parent / "support")


def compute(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_a_limit_inside_a_longer_one_ends_first_and_leaves_the_longer_one() -> None:
    applies, ends = [], []

    def compute_within(seconds: float) -> None:
        with time_limit(seconds) as each:
            applies.append(each)
            compute(5)

    def both() -> None:
        with pytest.raises(TimeUp):
            compute_within(0.2)
        ends.append(time.process_time() - begun)
        compute_within(5)

    begun = time.process_time()
    with pytest.raises(TimeUp), time_limit(0.8):
        both()
    ends.append(time.process_time() - begun)

    assert applies == [True, False]
    assert ends[0] < 0.7 < ends[1] + 0.1 < 1.9


def test_what_is_untimed_is_left_out_of_the_limit_around_it() -> None:
    def both() -> None:
        with untimed():
            compute(0.5)
        compute(1.0)

    with time_limit(0.3), untimed():
        compute(0.5)
    begun = time.process_time()
    with pytest.raises(TimeUp), time_limit(0.3):
        both()
    assert 0.5 < time.process_time() - begun < 1.4
    with untimed():
        compute(0.01)
