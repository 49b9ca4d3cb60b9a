"""Soft threshold in C++: the operator

1. Begin with MODEL and change its name, wherever it stands, and its loop. Build it after each
   change: build(source()) says in which line the compiler stumbles. What does MODEL refuse that you
   are to take, and what does it take for granted?
2. It takes for granted that the elements lie side by side: const Tensor x =
   torch::stable::contiguous(given). And it refuses float32: make the loop a template, template
   <typename T> void run(const T* x, T t, T* y, int64_t n), and call the one that x.scalar_type()
   asks for.
3. y[i] = x[i] > t ? x[i] - t : x[i] < -t ? x[i] + t : 0; with x contiguous and y = empty_like(x).
   if (x.scalar_type() == ScalarType::Float) run<float>(…); else {
   STD_TORCH_CHECK(x.scalar_type() == ScalarType::Double, "…"); run<double>(…); }
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograd_course.exercises.lesson_14_external_code._soft_threshold import (
    SECONDS,
    soft_threshold,
)
from autograd_course.external import compiler_missing
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import around
from autograd_course.grader.verdict import Verdict, wrong


def one_sided(x: Tensor, threshold: float) -> Tensor:
    """Return ``max(x - threshold, 0)``: the positive half of it."""
    return (x - threshold).clamp(min=0)


def hard(x: Tensor, threshold: float) -> Tensor:
    """Return ``x`` where it is beyond the threshold: cut, not shrunk."""
    return torch.where(x.abs() > threshold, x, 0.0)


def example() -> Tensor:
    """Return twelve numbers on both sides of ±0.5, and some between."""
    return torch.arange(-6, 6, dtype=torch.float64).add(0.25).div(4).reshape(3, 4)


def reads_any_layout(routine: Callable[..., Any]) -> Verdict | None:
    """Ask for the same of tensors whose elements do not lie side by side in memory."""
    x = example()
    layouts = {
        "a transposed x": x.t(),
        "every second column of x": x[:, ::2],
        "a row that is expanded": x[:1].expand(3, 4),
    }
    for what, given in layouts.items():
        expected = soft_threshold(given, 0.5)
        got = routine(given, 0.5)
        if got.shape != expected.shape or not torch.allclose(got, expected):
            return wrong(
                f"right where x is contiguous; of {what} it makes {_listed(got)}, and should make "
                f"{_listed(expected)}. data_ptr() is the address of the first element; where the "
                "second one lies, the strides say. Which function of the stable interface "
                "puts all elements side by side, and is the output made like its result?"
            )
    return None


def takes_float32(routine: Callable[..., Any]) -> Verdict | None:
    """Ask for float32; two elements, in front of others, so that a double's eight bytes are there.

    An operator that takes them for doubles then reads and writes no memory that is not its own.
    """
    x = torch.zeros(64, dtype=torch.float32)
    x[0], x[1] = -2.0, 3.0
    got = routine(x[:2], 0.5)
    expected = soft_threshold(x[:2], 0.5)
    if got.dtype == torch.float32 and torch.allclose(got, expected):
        return None
    return wrong(
        f"right for float64; for float32 it gives {_listed(got)} ({_dtype(got)}), and should give "
        f"{_listed(expected)} (float32). x.scalar_type() tells how the bytes are to be read, and "
        "the loop is needed once for each of the two: a template has the type as its parameter."
    )


def refuses_integers(routine: Callable[..., Any]) -> Verdict | None:
    """Ask that an operator does not take the bytes of integers for floating numbers."""
    x = torch.zeros(64, dtype=torch.int64)
    x[0], x[1] = -2, 3
    try:
        got = routine(x[:2], 1.0)
    except Exception:
        return None
    bytes_read = not torch.equal(got.double(), soft_threshold(x[:2].double(), 1.0))
    return wrong(
        f"right for float64 and float32; for an x of int64, [-2, 3], it returns {_listed(got)} and "
        f"no error{': bytes of another dtype are read as floating numbers' if bytes_read else ''}. "
        "A pointer has any type that you cast it to, so ask first: STD_TORCH_CHECK(condition, "
        "message)."
    )


def leaves_x_alone(routine: Callable[..., Any]) -> Verdict | None:
    """Ask that the input's own memory is not written to."""
    x = example()
    routine(x, 0.5)
    if torch.equal(x, example()):
        return None
    return wrong(
        "right, but x itself is changed: the operator writes into the memory of its input, and "
        "its schema says that it does not. Write into a new tensor, torch::stable::empty_like(x)."
    )


def _listed(tensor: Tensor) -> str:
    shown = tensor.double().reshape(-1)[:12] + 0.0  # no -0.0
    return str([float(f"{value:.3g}") for value in shown.tolist()])


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


EXERCISE = RoutineExercise(
    answer="soft_threshold",
    points=3,
    difficulty="hard",
    minutes=30,
    section="A C++ operator, built on the spot",
    constraints="any layout, float32 and float64 are taken, and other dtypes refused",
    reference=soft_threshold,
    samplers={
        "24 numbers": lambda rng: (around(rng, (-0.5, 0.5), 4, 6), 0.5),
        "a threshold of 0": lambda rng: (around(rng, (0.0,), 7), 0.0),
        "three axes, one of length 1": lambda rng: (around(rng, (-1.0, 1.0), 2, 1, 3), 1.0),
        "a single number (0-dim)": lambda rng: (around(rng, (-0.3, 0.3)), 0.3),
        "no number at all": lambda rng: (torch.zeros(0, 3, dtype=torch.float64), 0.5),
    },
    suspects={
        "Nothing negative comes out. What is to become of x = -2?": one_sided,
        "What lies beyond the threshold is to move toward 0 by it; this leaves it where it is.": (
            hard
        ),
    },
    trials=(leaves_x_alone, reads_any_layout, takes_float32, refuses_integers),
    rtol=1e-12,
    atol=1e-12,
    seconds=SECONDS,
    needs=compiler_missing,
)
