"""Compare results with a reference: their number, types, shapes, dtypes, and finally values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Literal

import torch
from torch import Tensor

from autograd_course.calls import as_tuple

MISSING_RETURN = "Is the return statement missing?"
SHAPES = "Print the shape after each step of `forward`. Which step loses, keeps or adds a dim?"
COUNT = "Compare the return statement of `forward` with what `apply` should return."
DTYPE = (
    "Print the dtype after each step of `forward`. Which step changes it? New tensors, and "
    "torch.where with two Python numbers, have the default dtype."
)
BY_HAND = "Compute `forward`'s formula by hand for one element and compare."
SINGLE = (
    "The value has only float32 precision. Which step casts, or creates a tensor in a fixed dtype?"
)
MOST_ORDERED = 4  # try other orders only for at most this many outputs
RTOL, ATOL = 1e-7, 1e-9  # for float64; reordering the same operations has a much smaller effect
EXACT = 1e-12  # relative tolerance if every value of a float64 result fits in float32


def agrees(guess: float, outcome: float) -> bool:
    """Return whether a predicted number is within 0.5 % of the result."""
    return math.isclose(guess, outcome, rel_tol=5e-3, abs_tol=1e-9)


@dataclass(frozen=True)
class Source:
    """The name that a message gives to the results, such as "`forward`", and the verb after it."""

    name: str
    verb: Literal["returns", "has"]
    inputs: Mapping[str, torch.dtype] = field(default_factory=dict)


NO_INPUTS: Mapping[str, torch.dtype] = {}
FORWARD = Source("`forward`", "returns")


@dataclass(frozen=True)
class Difference:
    """The first difference between two results: a message, a hint, and the values that show it."""

    message: str
    hint: str = BY_HAND
    evidence: Mapping[str, Any] = field(default_factory=dict)


def difference(
    actual: tuple[Any, ...],
    expected: tuple[Any, ...],
    source: Source = FORWARD,
    rtol: float = RTOL,
    atol: float = ATOL,
) -> Difference | None:
    """Return the first difference from the expected results, or ``None`` if there is none."""
    what = source.name
    if len(actual) != len(expected):
        if len(actual) == 1 and not isinstance(_tensor(actual[0]), Tensor):
            hint = MISSING_RETURN if actual[0] is None else SHAPES
            asked = f"this exercise asks for {len(expected)} tensors"
            return Difference(f"{what} is {_described(actual[0])}; {asked}.", hint)
        values = "1 value" if len(actual) == 1 else f"{len(actual)} values"
        asked = f"this exercise asks for {len(expected)}"
        return Difference(f"{what} {source.verb} {values}; {asked}.", COUNT)
    if _in_other_order(actual, expected, rtol, atol):
        return Difference(f"the outputs of {what} are right, but in the wrong order.", COUNT)
    for number, (got, right) in enumerate(zip(actual, expected, strict=True)):
        name = what if len(expected) == 1 else f"output {number} of {what}"
        if found := _difference(name, _tensor(got), _tensor(right), rtol, atol, source.inputs):
            return found
    return None


def _in_other_order(
    actual: tuple[Any, ...], expected: tuple[Any, ...], rtol: float, atol: float
) -> bool:
    """Return whether the results are correct except for their order."""

    def agree(given: tuple[Any, ...]) -> bool:
        pairs = zip(given, expected, strict=True)
        return all(_difference("", _tensor(g), right, rtol, atol) is None for g, right in pairs)

    if not 1 < len(actual) <= MOST_ORDERED or agree(actual):
        return False
    return any(map(agree, permutations(actual)))


def recognized(
    actual: tuple[Any, ...],
    suspects: Mapping[str, Callable[..., Any]],
    inputs: tuple[Any, ...],
    rtol: float = RTOL,
    atol: float = ATOL,
    earlier: Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]] = (),
) -> str:
    """Return the sentence about the first suspect with the same results, or ``""`` if none matches.

    ``earlier`` holds inputs for which the answer is correct, each with the correct results. A
    suspect must also give these results. Otherwise, it is a different mistake that has the same
    effect on ``inputs``.

    Pass the same tolerances with which you found the results to be wrong. With larger tolerances, a
    suspect that is correct on these inputs would match.

    Where a suspect's results contain nan or infinity, the answer's results must contain the same
    value.
    """
    for sentence, suspect in suspects.items():
        if difference(actual, as_tuple(suspect(*inputs)), rtol=rtol, atol=atol) is None and all(
            difference(as_tuple(suspect(*other)), right, rtol=rtol, atol=atol) is None
            for other, right in earlier
        ):
            return sentence
    return ""


def _tensor(value: Any) -> Any:
    return torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else value


def _difference(
    name: str,
    got: Any,
    right: Tensor,
    rtol: float,
    atol: float,
    inputs: Mapping[str, torch.dtype] = NO_INPUTS,
) -> Difference | None:
    if not isinstance(got, Tensor):
        message = f"{name} is {_described(got)}; this exercise asks for a tensor."
        return Difference(message, MISSING_RETURN) if got is None else Difference(message)
    if got.shape != right.shape:
        shapes = {"expected": tuple(right.shape), "actual": tuple(got.shape)}
        asked = f"this exercise asks for {shapes['expected']}"
        message = f"{name} has shape {shapes['actual']}; {asked}."
        return Difference(message, SHAPES, shapes)
    if got.dtype != right.dtype:
        message = f"{name} has dtype {got.dtype}; this exercise asks for {right.dtype}"
        of = next((given for given, dtype in inputs.items() if dtype == right.dtype), "")
        message += f", the dtype of `{of}`." if of else "."
        return Difference(message, DTYPE)
    return _value_difference(name, got.detach(), right.detach(), rtol, atol)


def _value_difference(
    name: str, got: Tensor, right: Tensor, rtol: float, atol: float
) -> Difference | None:
    """Return the difference at the element with the largest error. NaN counts as the largest."""
    close = torch.isclose(got, right, rtol=rtol, atol=atol, equal_nan=True)
    single = _fits_in_float32(got) and not _fits_in_float32(right)
    if single:  # the result was rounded to float32 at the end
        close &= torch.isclose(got, right, rtol=EXACT, atol=EXACT, equal_nan=True)
    if bool(close.all()):
        return None
    error = (got - right if got.dtype != torch.bool else got ^ right).abs().double()
    error = error.nan_to_num(nan=float("inf")).masked_fill(close, -1)
    index = tuple(int(i) for i in torch.unravel_index(error.argmax(), right.shape))
    where = f" at {int((~close).sum())} of {close.numel()} elements" if close.ndim else ""
    near = single and torch.allclose(got, right, rtol=1e-4, atol=1e-6)
    return Difference(
        f"{name} is wrong{where}.",
        SINGLE if near else BY_HAND,
        evidence={
            "input": name.replace("`", ""),
            "index": list(index),
            "shape": tuple(right.shape),
            "expected": right[index].item(),
            "actual": got[index].item(),
        },
    )


def _fits_in_float32(value: Tensor) -> bool:
    return value.dtype == torch.float64 and torch.equal(value, value.float().double())


def _described(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
