"""``diagnose`` tries another default dtype only if an output could depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from autograd_doctor import diagnose
from autograd_doctor._execution.forward import forward_pass
from autograd_doctor._execution.session import Session, subject_of
from autograd_doctor._source import line_without_dtype
from cases.making import CPLX, X, saving
from torch import Tensor
from torch.autograd import Function


def buffer(shape: torch.Size) -> Tensor:
    return torch.empty(shape)


class Buffered(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        first = torch.zeros(x.shape, dtype=x.dtype)
        first += torch.ones(
            x.shape,
            dtype=x.dtype,
        )
        y = torch.zeros(x.shape)  # in the default dtype
        y[...] = 2 * x * first
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return 2 * g


class Helped(Buffered):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return buffer(x.shape).copy_(2 * x)


class Tidy(Buffered):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        options = {"dtype": x.dtype}
        return torch.zeros(x.shape, **options) + torch.zeros_like(x) + 2 * x


class Casting(Buffered):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return (2 * x).float()


@pytest.fixture
def in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """Return a list to which every new default dtype is added."""
    dtypes: list[torch.dtype] = []
    change = torch.set_default_dtype

    def noting(dtype: torch.dtype) -> None:
        dtypes.append(dtype)
        change(dtype)

    monkeypatch.setattr(torch, "set_default_dtype", noting)
    return dtypes


def observed(function: Any, *inputs: Any) -> Any:
    return forward_pass(Session(subject_of(function, len(inputs)), inputs, (0,), 0)).default_dtype


def messages(function: Any, *inputs: Any) -> list[str]:
    findings = diagnose(function, inputs).findings
    return [finding.message for finding in findings if finding.rule == "default-dtype"]


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (Buffered, "y = torch.zeros(x.shape)"),
        (Helped, "return torch.empty(shape)"),
        (Tidy, ""),
        (Casting, ""),
    ],
)
def test_the_line_is_the_first_that_creates_a_tensor_without_a_dtype(
    function: type[Function], line: str
) -> None:
    assert line_without_dtype(function) == line


@pytest.mark.usefixtures("in_float64")
def test_float64_as_the_default_hides_nothing() -> None:
    assert messages(Buffered, X) == [
        "for float64 inputs, `forward` returns float64 only because this is PyTorch's default "
        "dtype."
    ]
    assert messages(Tidy, X) == messages(Casting, X) == []
    assert torch.get_default_dtype() == torch.float64


def test_complex_inputs_are_in_double_precision_too() -> None:
    power = saving(lambda z: torch.zeros(z.shape).copy_(z.abs()), lambda z, g: g * z.sgn())

    assert messages(power, CPLX) == [
        "for complex128 inputs, `forward` returns float32, which is PyTorch's default dtype."
    ]


def test_another_default_dtype_is_tried_only_if_an_output_has_the_default_dtype(
    tried: list[torch.dtype],
) -> None:
    assert observed(Tidy, X) is None
    assert observed(Buffered, X.float()) is None  # float32 is right for these inputs
    assert tried == []
    assert observed(Casting, X) is None
    assert tried == [torch.float64, torch.float32]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_the_default_dtype_is_put_back_when_forward_raises(error: type[BaseException]) -> None:
    def only_in_float32(x: Tensor) -> Tensor:
        if torch.get_default_dtype() != torch.float32:
            raise error
        return torch.zeros(x.shape).copy_(2 * x)

    picky = saving(only_in_float32, lambda x, g: 2 * g)
    if error is ValueError:
        assert observed(picky, X) is None
    else:
        with pytest.raises(KeyboardInterrupt):
            observed(picky, X)
    assert torch.get_default_dtype() == torch.float32


def test_another_number_of_outputs_proves_nothing() -> None:
    def outputs(x: Tensor) -> Any:
        y = torch.zeros(x.shape).copy_(2 * x)
        return y if torch.get_default_dtype() == torch.float32 else (y, y)

    assert observed(saving(outputs, lambda x, g: 2 * g), X) is None


def test_a_forward_that_does_not_end_with_another_default_dtype_proves_nothing() -> None:
    def solved(x: Tensor) -> Tensor:
        while torch.get_default_dtype() != torch.float32:
            pass
        return torch.zeros(x.shape).copy_(2 * x)

    assert observed(saving(solved, lambda x, g: 2 * g), X) is None
    assert torch.get_default_dtype() == torch.float32
