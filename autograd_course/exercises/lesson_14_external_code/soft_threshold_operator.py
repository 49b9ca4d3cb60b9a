"""Soft threshold in C++: the operator

1. Start from MODEL. Rename the operator everywhere, and change its loop. Call build(source()) after
   each change: if the compiler fails, the message names the line. Your operator must accept an
   input that MODEL rejects. Which one? And what does MODEL assume about memory?
2. MODEL assumes that the elements are next to each other in memory. Write const Tensor x =
   torch::stable::contiguous(given). MODEL also rejects float32. Turn the loop into a template,
   template <typename T> void run(const T* x, T t, T* y, int64_t n), and let x.scalar_type()
   determine T.
3. y[i] = x[i] > t ? x[i] - t : x[i] < -t ? x[i] + t : 0; with x contiguous and y = empty_like(x).
   if (x.scalar_type() == ScalarType::Float) run<float>(…); else {
   STD_TORCH_CHECK(x.scalar_type() == ScalarType::Double, "…"); run<double>(…); }
"""

from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor.memory import DispatchMode
from torch import Tensor

from autograd_course.exercises.lesson_14_external_code._soft_threshold import (
    SECONDS,
    soft_threshold,
)
from autograd_course.external import compiler_missing
from autograd_course.external.building import is_built
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import around, generator
from autograd_course.grader.verdict import Verdict, wrong


def one_sided(x: Tensor, threshold: float) -> Tensor:
    """Return ``max(x - threshold, 0)``, which is correct only for positive numbers."""
    return (x - threshold).clamp(min=0)


def hard(x: Tensor, threshold: float) -> Tensor:
    """Return the *hard* threshold: ``x`` where ``|x|`` exceeds the threshold, and 0 elsewhere."""
    return torch.where(x.abs() > threshold, x, 0.0)


def example() -> Tensor:
    """Return twelve random numbers on both sides of -0.5 and 0.5."""
    return around(generator(), (-0.5, 0.5), 3, 4)


def reads_any_layout(routine: Callable[..., Any]) -> Verdict | None:
    """Check the results for noncontiguous tensors."""
    x = example()
    layouts = {
        "a transposed x": x.t(),
        "every second column of x": x[:, ::2],
        "an expanded row": x[:1].expand(3, 4),
    }
    for what, given in layouts.items():
        expected = soft_threshold(given, 0.5)
        got = routine(given, 0.5)
        if got.shape != expected.shape or not torch.allclose(got, expected):
            return wrong(
                f"the result is right if x is contiguous, but for {what} it is {_listed(got)} and "
                f"should be {_listed(expected)}. data_ptr() is the address of the first element, "
                "and the strides determine where the others are. Which function of the stable "
                "interface copies all elements next to each other? Does the output have the layout "
                "of that copy?"
            )
    return None


def takes_float32(routine: Callable[..., Any]) -> Verdict | None:
    """Check the result for float32.

    The input is the first two elements of a longer tensor. If an operator incorrectly reads
    doubles, it therefore reads no memory outside that tensor.
    """
    x = torch.zeros(64, dtype=torch.float32)
    x[0], x[1] = -2.0, 3.0
    got = routine(x[:2], 0.5)
    expected = soft_threshold(x[:2], 0.5)
    if got.dtype == torch.float32 and torch.allclose(got, expected):
        return None
    return wrong(
        f"the result is right for float64, but for float32 it is {_listed(got)} ({_dtype(got)}) "
        f"and should be {_listed(expected)} (float32). x.scalar_type() is the dtype of the bytes. "
        "You need the loop once for each of the two types, so make it a template."
    )


READS_BYTES = "It reads the bytes of integers as floating-point numbers. "


def refuses_integers(routine: Callable[..., Any]) -> Verdict | None:
    """Check that the operator raises an error for integers instead of reading their bytes."""
    x = torch.zeros(64, dtype=torch.int64)
    x[0], x[1] = -2, 3
    try:
        got = routine(x[:2], 1.0)
    except Exception:
        return None
    bytes_read = not torch.equal(got.double(), soft_threshold(x[:2].double(), 1.0))
    return wrong(
        "the result is right for float64 and float32, but for x = [-2, 3] in int64 the operator "
        f"returns {_listed(got)} and raises no error. {READS_BYTES if bytes_read else ''}You can "
        "cast a pointer to any type, so check the dtype first: STD_TORCH_CHECK(condition, message)."
    )


def leaves_x_alone(routine: Callable[..., Any]) -> Verdict | None:
    """Check that the operator does not write into its input."""
    x = example()
    given = x.clone()
    routine(given, 0.5)
    if torch.equal(given, x):
        return None
    return wrong(
        "the result is right, but the operator changes x: it writes into the memory of its input, "
        "and its schema promises not to. Write into a new tensor, torch::stable::empty_like(x)."
    )


class Built(DispatchMode):
    """In a ``with`` block, record the calls of operators that ``build`` has loaded."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[list[Tensor], Tensor]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation. If it is an operator in C++, record its tensors and its result."""
        kwargs = kwargs or {}
        if not is_built(func):
            return func(*args, **kwargs)
        given = [_sorted(each) for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
        result = func(*args, **kwargs)
        if isinstance(result, Tensor):
            self.calls.append((given, _sorted(result)))
        return result


def is_in_cpp(routine: Callable[..., Any]) -> Verdict | None:
    """Check that an operator in C++ computes the result from the numbers of x."""
    x = example()
    with Built() as built:
        y = routine(x, 0.5)
    inputs = [given for given, result in built.calls if torch.equal(result, _sorted(y))]
    if any(torch.equal(each, _sorted(x)) for given in inputs for each in given):
        return None
    what = "no operator in C++ computes it"
    if inputs:
        what = "the operator in C++ that returns it does not receive x"
    return wrong(
        f"the result is right, but {what}. Write the loop in the text that source() returns, and "
        "return the result of build(source()).soft_threshold(x, threshold)."
    )


def _sorted(tensor: Tensor) -> Tensor:
    """Return the numbers of a tensor in order. A copy in another layout has the same ones."""
    return tensor.flatten().sort().values


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
    constraints="the operator accepts any layout, float32 and float64, and it raises an error for "
    "other dtypes",
    reference=soft_threshold,
    samplers={
        "24 numbers": lambda rng: (around(rng, (-0.5, 0.5), 4, 6), 0.5),
        "a threshold of 0": lambda rng: (around(rng, (0.0,), 7), 0.0),
        "three dims, one of size 1": lambda rng: (around(rng, (-1.0, 1.0), 2, 1, 3), 1.0),
        "a single number (0-dim)": lambda rng: (around(rng, (-0.3, 0.3)), 0.3),
        "no number at all": lambda rng: (torch.zeros(0, 3, dtype=torch.float64), 0.5),
    },
    suspects={
        "The result has no negative numbers. What should x = -2 become?": one_sided,
        "Numbers beyond the threshold should move toward 0 by t, but they stay the same.": hard,
        "Negative numbers move away from 0. They must move toward 0 by t.": (
            lambda x, t: torch.where(x.abs() > t, x - t, 0.0)
        ),
        "The result is |x| - t, without the sign of x.": lambda x, t: (x.abs() - t).clamp(min=0),
        "Numbers within the threshold stay the same. They must become 0.": (
            lambda x, t: torch.where(x.abs() > t, x - t * x.sign(), x)
        ),
        "The result is x limited to -t and t. The soft threshold is what this cuts off.": (
            lambda x, t: x.clamp(-t, t)
        ),
        "The result is x - t for all numbers. It must be 0 near 0, and x + t below -t.": (
            lambda x, t: x - t
        ),
    },
    trials=(leaves_x_alone, reads_any_layout, takes_float32, refuses_integers, is_in_cpp),
    rtol=1e-12,
    atol=1e-12,
    seconds=SECONDS,
    needs=compiler_missing,
)
