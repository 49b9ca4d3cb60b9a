"""Find operators that do not belong to PyTorch. The grader cannot see what runs inside them."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.memory import DispatchMode
from torch._ops import OpOverload
from torch.autograd import Function

from autograd_course.execution import Computed
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import Check

# The namespaces of PyTorch's own operators
_OF_PYTORCH = {
    "_c10d_functional", "_dtensor", "_native", "_quantized", "aten", "c10d", "c10d_functional",
    "debugprims", "export", "inductor", "inductor_prims", "mkl", "mkldnn",
    "mkldnn_prepacked", "onednn", "prim", "prims", "profiler", "quantization", "quantized",
    "rngprims", "sparse", "symm_mem",
}  # fmt: skip
HINT = "Call PyTorch's operations directly, without an operator of your own."


class OwnOperators(DispatchMode):
    """In a ``with`` block, record the names of operators that do not belong to PyTorch.

    While such an operator runs, modes such as OperationRecorder see it as one operation.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation. If it is not one of PyTorch's, record its name."""
        if _is_own(func):
            self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))

    @property
    def told(self) -> str:
        """The sentence that names the first of these operators, or ``""``."""
        if not self.names:
            return ""
        return (
            f"The operator `{self.names[0]}` is not one of PyTorch's, so the grader cannot see the "
            "operations inside it."
        )


def seen_inside(check: Check) -> Check:
    """Return a check that also fails if the answer runs an operator that is not PyTorch's."""

    @wraps(check)
    def watched(function: type[Function], inputs: tuple[Any, ...]) -> Finding | Computed | None:
        with OwnOperators() as own:
            told = check(function, inputs)
        if own.told and not isinstance(told, Finding):
            return found("unneeded-function", own.told, {"operator": own.names[0]}, HINT)
        return told

    return watched


def _is_own(func: Any) -> bool:
    if not isinstance(func, OpOverload):  # such as torch.cond
        return False
    if func.namespace not in _OF_PYTORCH:
        return True
    name = func._schema.name
    # PyTorch defines the operators of this namespace, and their kernels for the CPU, in C++.
    kernel = f"{name.replace('::', '/')}/CPU"
    return func.namespace == "aten" and (
        name in torch.library._defs or kernel in torch.library._impls
    )
