"""A check that a Function keeps the dtype of its input when it calls SciPy."""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import by_values


@by_values
def keeps_float32(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that a float32 input gives a float32 output. Many SciPy functions return float64."""
    single = tuple(value.float() if isinstance(value, Tensor) else value for value in inputs)
    _, outputs = applied(function, single)
    if outputs[0].dtype == torch.float32:
        return None
    dtype = str(outputs[0].dtype).removeprefix("torch.")
    return found(
        "forward-mismatch",
        f"for float32 inputs the output is {dtype}. The next layer of a float32 network would "
        "raise an error.",
        {"dtype": dtype},
        "Pass dtype=x.dtype and device=x.device to torch.as_tensor.",
    )
