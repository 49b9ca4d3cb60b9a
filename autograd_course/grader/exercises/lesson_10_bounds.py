"""What the exercises of lesson 10 ask beyond right gradients."""

from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.extension import OperationRecorder
from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks

from autograd_course.grader.checks.calling import applied, backward, found

A_ROUND = 8  # tensors that PyTorch keeps for one round, generously: its product, tanh and sum


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


def records_one_round(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that backward does not run the solver again under autograd: one call of it will do."""
    _, outputs = applied(function, inputs)
    kept: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    try:
        with saved_tensors_hooks(note, lambda tensor: tensor):
            backward(outputs)
    except RuntimeError as error:  # torch.func differentiates too, and refuses hooks
        if "saved tensor hooks" not in str(error):
            raise
        kept = _rounds(function, inputs) * [*outputs]
    if len(kept) <= A_ROUND:
        return None
    return found(
        "oversaved",
        f"backward runs the solver again and records it: {len(kept)} tensors are kept on the way, "
        f"and this exercise allows one round, {A_ROUND} at most. What forward saved, backward "
        "spends.",
        {"tensors": len(kept)},
        "The solution is saved. One round from there, recorded or written down as a formula, says "
        "all about the linear system.",
    )


def _rounds(function: type[Function], inputs: tuple[Any, ...]) -> int:
    """Count the tanhs of backward: one for each round that it runs, each of which keeps its own."""
    _, outputs = applied(function, inputs)
    recording = OperationRecorder()
    with recording:
        backward(outputs)
    return recording.names.count("tanh")
