"""Check which tensors a Function saves for backward, and count their bytes."""

from typing import Any

from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks.calling import applied, filled, found, node, storage
from autograd_course.grader.checks.memory import odd_metadata


def keeps_no_intermediate(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that every saved tensor is an input or an output, and not a part of a larger tensor."""
    given, outputs = applied(function, inputs)
    known = {storage(tensor) for tensor in given} | filled(outputs)
    for position, saved in enumerate(outputs[0].grad_fn.saved_tensors):  # type: ignore[union-attr]
        if saved is not None and storage(saved) not in known:
            return found(
                "oversaved",
                f"Saved tensor number {position}, of shape {tuple(saved.shape)}, is neither an "
                "input nor the output. Only this Function keeps it in memory until `backward`.",
                {"position": position, "shape": tuple(saved.shape)},
                "Save the same tensor object that `forward` returns. The next layer usually saves "
                "it anyway. Can backward compute what it needs from the inputs and the output?",
            )
    return odd_metadata(node(outputs), inputs)


def bytes_of(*tensors: Tensor) -> int:
    """Return the total size of the tensors, in bytes."""
    return sum(tensor.nbytes for tensor in tensors)
