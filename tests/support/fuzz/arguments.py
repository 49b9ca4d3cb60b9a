"""Arguments that users should not pass to a Function, but sometimes do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from fuzz.tensors import SHAPES, tensors


class Labeled(Tensor):
    """A subclass of Tensor, such as some libraries define."""


class Inconvenient:
    """An object on which every operation raises an error."""

    def __bool__(self) -> bool:
        raise RuntimeError("no truth value")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __hash__ = None  # type: ignore[assignment]


def _generator() -> Any:
    yield torch.ones(2)


MADE: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "text": lambda: "mean\n<b>&\x00\ud800",
    "bytes": lambda: b"\xff",
    "a huge int": lambda: 10**400,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "a complex number": lambda: 1j,
    "an ellipsis": lambda: ...,
    "a slice": lambda: slice(None),
    "a list of tensors": lambda: [torch.ones(2), torch.ones(3, requires_grad=True)],
    "nested": lambda: [[(torch.ones(2),)], {"a": [None]}],
    "a dict": lambda: {"x": torch.ones(2), 3: None},
    "a set": lambda: {1, 2},
    "an array": lambda: np.ones((2, 3)),
    "an array of objects": lambda: np.array([None, "x"], dtype=object),
    "a scalar of NumPy's": lambda: np.float32(2),
    "a module": lambda: nn.Linear(3, 2),
    "a lazy module": lambda: nn.LazyLinear(2),
    "a generator": _generator,
    "a function": lambda: lambda x: x,
    "a class": lambda: Labeled,
    "a random generator": torch.Generator,
    "a dtype": lambda: torch.float32,
    "an inconvenient object": Inconvenient,
    "itself inside": lambda: _recursive(),
    "integers": lambda: torch.arange(6).view(2, 3),
    "truth values": lambda: torch.tensor([True, False]),
    "bytes of a tensor": lambda: torch.arange(3, dtype=torch.uint8),
    "complex numbers": lambda: torch.randn(3, dtype=torch.complex64),
    "conjugate": lambda: torch.randn(3, dtype=torch.complex128).conj(),
    "negated lazily": lambda: torch.randn(3, dtype=torch.complex128).conj().imag,
    "with nan": lambda: torch.tensor([1.0, float("nan"), 2.0]),
    "with infinities": lambda: torch.tensor([float("-inf"), float("inf"), 0.0]),
    "huge numbers": lambda: torch.full((3,), 1e300, dtype=torch.float64),
    "tiny numbers": lambda: torch.full((3,), 5e-324, dtype=torch.float64),
    "zeros": lambda: torch.zeros(2, 3),
    "a parameter": lambda: nn.Parameter(torch.randn(3)),
    "an uninitialized parameter": nn.UninitializedParameter,
    "no leaf": lambda: torch.randn(3, requires_grad=True) * 2,
    "a view": lambda: torch.randn(2, 3, requires_grad=True)[0],
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse by rows": lambda: _quietly(lambda: torch.eye(3).to_sparse_csr()),
    "meta": lambda: torch.randn(3, device="meta"),
    "a subclass": lambda: torch.randn(3).as_subclass(Labeled),
    "overlapping": lambda: torch.randn(3).as_strided((3, 3), (0, 1)),
    "from inference mode": lambda: _inferred(),
    "eight bits": lambda: torch.randn(3).to(torch.float8_e5m2),
    "quantized": lambda: _quietly(
        lambda: torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8)
    ),
    "nested tensor": lambda: _quietly(
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    ),
    "many dimensions": lambda: torch.randn((1,) * 20),
    "of NumPy's memory": lambda: torch.from_numpy(np.ones(3)),
}


def _recursive() -> list[Any]:
    inside: list[Any] = []
    inside.append(inside)
    return inside


def _inferred() -> Tensor:
    with torch.inference_mode():
        return torch.randn(3)


def _quietly(make: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


ODD = st.sampled_from(list(MADE)).map(lambda name: Odd(name))


class Odd:
    """An argument and its name, so that a failure says which argument it was."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def made(self) -> Any:
        return MADE[self.name]()


def argument(drawn: Any) -> Any:
    return drawn.made() if isinstance(drawn, Odd) else drawn


INPUTS = st.lists(ODD | SHAPES.flatmap(tensors), max_size=3)
