"""Both diagnose and gradcheck accept the reference Functions."""

from __future__ import annotations

import pytest
import torch
from autograd_doctor import diagnose
from reference_calls import DECLARED_CALLS, DIAGNOSED_CALLS, REFERENCE_CALLS
from sampling import first_rows
from torch import Tensor

from autograd_course.functions import ClippedReLU


def cast(values, dtype: torch.dtype) -> tuple:
    real = [isinstance(v, Tensor) and v.is_floating_point() for v in values]
    return tuple(v.to(dtype) if is_real else v for v, is_real in zip(values, real, strict=True))


@pytest.mark.parametrize(
    "call",
    first_rows([*REFERENCE_CALLS, *DIAGNOSED_CALLS], lambda call: call[0], most=1),
    ids=lambda call: call[0].__name__,
)
@pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.thorough)]
)
def test_the_reference_functions_are_clean(call, dtype) -> None:
    function, inputs = call
    diagnosis = diagnose(function, cast(inputs, dtype))

    assert diagnosis.findings == (), str(diagnosis)


@pytest.mark.parametrize(
    ("function", "inputs", "declared"),
    first_rows(DECLARED_CALLS, unpack=True),
    ids=lambda v: getattr(v, "__name__", ""),
)
@pytest.mark.parametrize("dtype", first_rows([torch.float32, torch.float64], most=1))
def test_what_is_wrong_by_design_is_clean_once_declared(function, inputs, declared, dtype) -> None:
    diagnosis = diagnose(function, cast(inputs, dtype), double_backward=True, **declared)

    assert diagnosis.findings == (), str(diagnosis)
    assert not diagnose(function, inputs).ok


@pytest.mark.parametrize(
    "call",
    first_rows(REFERENCE_CALLS, lambda call: call[0], most=1),
    ids=lambda call: call[0].__name__,
)
def test_the_reference_functions_are_twice_differentiable(call) -> None:
    function, inputs = call
    leaves = list(cast(inputs, torch.float64))
    for at, value in enumerate(leaves):
        if isinstance(value, Tensor) and value.dtype.is_floating_point | value.dtype.is_complex:
            leaves[at] = value.clone().requires_grad_()
    if function is ClippedReLU:
        leaves[0] = (leaves[0].detach() + 0.01).requires_grad_()  # away from the kinks

    applied = getattr(function, "apply", function)

    def call(*args):  # use copies, because an in-place operation must not change a leaf
        return applied(*(a.clone() if isinstance(a, Tensor) else a for a in args))

    assert torch.autograd.gradcheck(call, leaves)
    assert torch.autograd.gradgradcheck(call, leaves)
