"""``assert_gradients`` in a test suite: its errors, and the output of pytest and unittest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from autograd_doctor import CannotDiagnoseError, WrongGradientError, assert_gradients
from right import Square
from torch import Tensor

pytestmark = pytest.mark.slow

X = torch.tensor([1.0, -2.0, 3.0])


class Half(Square):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return x * grad_output


class Float32(Square):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return (2 * x * grad_output).float()


def test_a_right_function_passes_and_its_diagnosis_is_returned() -> None:
    assert assert_gradients(Square, (X,)).subject == "Square"


def test_a_wrong_function_fails_with_the_report() -> None:
    with pytest.raises(WrongGradientError) as raised:
        assert_gradients(Half, X)

    assert isinstance(raised.value, AssertionError)
    assert str(raised.value) == str(raised.value.diagnosis)
    assert raised.value.diagnosis.findings[0].rule == "constant-factor"


def test_the_options_are_those_of_diagnose() -> None:
    assert_gradients(Half, X, intentional="constant-factor")
    with pytest.raises(WrongGradientError, match="forward-mismatch"):
        assert_gradients(Square, X, reference=lambda x: 2 * x)


def test_a_warning_fails_where_it_is_asked_to() -> None:
    assert_gradients(Float32, X)
    with pytest.raises(WrongGradientError, match="gradient-dtype") as raised:
        assert_gradients(Float32, X, warnings=True)

    assert raised.value.__notes__ == ["With warnings=True, a warning also fails."]


def test_what_cannot_be_examined_is_no_failure() -> None:
    with pytest.raises(CannotDiagnoseError, match="no input is a floating"):
        assert_gradients(Square, 3)


# The output of a test runner

SUITE = """
import unittest

import torch
from torch.autograd import Function

from autograd_doctor import assert_gradients


class Half(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return x * grad_output


def test_wrong():
    assert_gradients(Half, torch.ones(3))


def test_refused():
    assert_gradients(Half, 3)


class TestHalf(unittest.TestCase):
    def test_half(self):
        assert_gradients(Half, torch.ones(3))
"""
INTERNALS = ("testing.py", "diagnosing.py", "diagnosis.py", "raise_if_wrong", "def diagnose")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suite") / "test_half.py"
    path.write_text(SUITE, encoding="utf-8")
    return path


def shown_by(suite: Path, *command: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=suite.parent, capture_output=True, text=True
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_pytest_shows_the_report_and_no_internals(suite: Path) -> None:
    shown = shown_by(suite, "pytest", "-p", "no:cacheprovider", suite.name)

    assert ">       assert_gradients(Half, torch.ones(3))" in shown
    assert "E       autograd_doctor.WrongGradientError: ✗ Half · wrong\n" in shown
    assert "constant-factor: The gradient of `x` is 1/2 times the true gradient." in shown
    assert (
        "E       autograd_doctor.CannotDiagnoseError: no input is a floating-point or complex "
        "tensor" in shown
    )
    assert not [name for name in INTERNALS if name in shown], shown


@pytest.mark.thorough
def test_unittest_counts_a_wrong_gradient_as_a_failure(suite: Path) -> None:
    shown = shown_by(suite, "unittest", suite.stem)

    assert "constant-factor: The gradient of `x` is 1/2 times the true gradient." in shown
    assert "FAILED (failures=1)" in shown
