"""What SciPy returns, and what a net wants."""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks.calling import applied, found


def keeps_float32(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that float32 goes in and comes out: SciPy returns float64 wherever it likes to."""
    single = tuple(value.float() if isinstance(value, Tensor) else value for value in inputs)
    _, outputs = applied(function, single)
    if outputs[0].dtype == torch.float32:
        return None
    dtype = str(outputs[0].dtype).removeprefix("torch.")
    return found(
        "forward-mismatch",
        f"for float32 inputs the output is {dtype}: the next layer of a float32 net would refuse "
        "it.",
        {"dtype": dtype},
        "Say to torch.as_tensor which dtype is wanted, and which device.",
    )
