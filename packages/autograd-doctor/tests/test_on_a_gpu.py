"""On a GPU, no call to diagnose makes an index invalid, because this would disable the GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from autograd_doctor import diagnose
from autograd_doctor._execution import session
from autograd_doctor._probes import comparison, core, values
from autograd_doctor._repair import verification
from cases import LOOKALIKES, WITNESSES, Case
from sampling import first_rows
from torch import Tensor
from torch.autograd import Function

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")
COPIED = "_is_a_copy_on_the_cpu"


def copied(value: Any) -> Any:
    """Replace ``on_cpu`` as if every tensor of the caller were on a GPU."""
    if not isinstance(value, Tensor) or hasattr(value, COPIED):
        return value
    copy = value.detach().clone().requires_grad_(value.requires_grad)
    setattr(copy, COPIED, True)
    return copy


# Rules about different shapes, extreme values and different numbers, and a rule with a repair.
RULES = (
    "batch-dimension",
    "zero-size",
    "zero-dim",
    "dim-argument",
    "overflow",
    "undeclared-surrogate",
    "constant-factor",
    "gradient-mismatch",
)


def rule_of(case: Case) -> str:
    return case.rule


@pytest.mark.parametrize(
    "case",
    [
        row
        for table in (WITNESSES, LOOKALIKES)
        for row in first_rows((it for it in table if it.rule in RULES), rule_of, most=1)
    ],
    ids=lambda case: f"{case.rule}: {case.what}",
)
def test_the_calls_that_are_made_on_the_cpu_find_the_same(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = diagnose(case.fn, case.inputs, **case.options)
    for module in (session, comparison, core, values, verification):
        monkeypatch.setattr(module, "on_cpu", copied)
    on_cpu = diagnose(case.fn, case.inputs, **case.options)

    assert [it.rule for it in on_cpu.findings] == [it.rule for it in plain.findings]
    assert bool(on_cpu.repair) == bool(plain.repair)


class Doubled(Function):
    """A Function that runs only on a GPU.

    In the test below, complex tensors represent CPU tensors.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        if x.is_complex():
            raise RuntimeError("the kernel needs a GPU")
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return 2 * grad_output


def test_the_report_says_what_a_function_that_needs_a_gpu_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def moved(value: Any) -> Any:
        real = isinstance(value, Tensor) and not value.is_complex()
        return value.to(torch.complex128) if real else value

    monkeypatch.setattr(session, "on_cpu", moved)
    diagnosis = diagnose(Doubled, torch.randn(3, 4))

    assert diagnosis.ok
    assert diagnosis.limits == (
        "no calls that could make an index invalid (batches, dim arguments, 0-dim inputs, "
        "overflow), because your Function does not run on the CPU",
    )
    assert "batches" not in " ".join(diagnosis.examined[:-1])


@pytest.mark.gpu
@NEEDS_GPU
@pytest.mark.parametrize("rule", ["permuted-gradient", "duplicate-index"])
def test_the_gpu_works_afterwards(rule: str) -> None:
    case = next(it for it in WITNESSES if it.rule == rule)
    diagnosis = diagnose(case.fn, tuple(x.cuda() for x in case.inputs), **case.options)

    assert [it.rule for it in diagnosis.findings][:1] == [rule]
    assert diagnosis.repair is None or "on the CPU" in str(diagnosis.repair)
    assert torch.ones(3, device="cuda").sum().item() == 3
