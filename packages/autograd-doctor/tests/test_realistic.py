"""No rule reports realistic Functions from production code, but rules name their mutants.

``test_rules`` tests that the right rule names each mutant, as it does for all other wrong
Functions.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import torch
from autograd_doctor import diagnose
from production import OPERATIONS, Operation
from torch import Tensor, nn

pytestmark = pytest.mark.thorough


def named(operation: Operation) -> str:
    return operation.name


def blamed(operation: Operation, **options: Any) -> list[str]:
    """Return the errors and warnings with which no expert would agree."""
    diagnosis = diagnose(operation.fn, operation.inputs, **operation.options, **options)
    return [
        f"{finding.rule}: {finding.message}"
        for finding in diagnosis.findings
        if finding.severity != "info" and finding.rule not in operation.allowed
    ]


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_a_correct_operation_is_not_blamed(operation: Operation) -> None:
    assert blamed(operation) == []


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_a_correct_operation_agrees_with_the_plain_expression(operation: Operation) -> None:
    assert blamed(operation, reference=operation.reference) == []


def in_double(value: Any) -> Any:
    if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    return value.detach().to(torch.complex128 if value.is_complex() else torch.float64)


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if not o.inexact], ids=named)
def test_gradcheck_agrees_that_it_is_correct(operation: Operation) -> None:
    call = operation.call
    call = copy.deepcopy(call).double() if isinstance(call, nn.Module) else call
    leaves = [in_double(value) for value in operation.inputs]
    floating = [i for i, leaf in enumerate(leaves) if leaf is not operation.inputs[i]]
    asked = [i for i in floating if operation.inputs[i].requires_grad] or floating
    for i in asked:
        leaves[i].requires_grad_()

    def repeatable(*args: Any) -> Any:
        torch.manual_seed(0)
        return call(*(arg.clone() if isinstance(arg, Tensor) else arg for arg in args))

    assert torch.autograd.gradcheck(repeatable, leaves)


def test_the_table_is_wide() -> None:
    rules = Counter(mutant.rule for operation in OPERATIONS for mutant in operation.mutants)
    names = [operation.name for operation in OPERATIONS]

    assert len(set(names)) == len(names) >= 30
    assert len(rules) >= 15
    assert rules["gradient-mismatch"] < sum(rules.values()) / 4, "most bugs have a better name"
