"""What autocast leaves of a Function's digits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.calls import is_float
from autograd_course.grader.checks.calling import applied, farthest, found
from autograd_course.grader.exercise import Check
from autograd_course.grader.raised import told

Tensors = tuple[Tensor, ...]
Way = tuple[str, tuple[Any, ...], bool, float]


def same_under_autocast(*values: Any, close: float = 2e-3) -> Check:
    """Return a check that autocast to bfloat16 costs no digits.

    ``values`` are inputs for it, in float32; the results, and the gradients of their sum, are
    compared with those without autocast. Some loops run backward inside the block, too, and some
    hand in bfloat16, the output of a layer before: each is tried.
    """
    inputs = tuple(v.bfloat16().float() if is_float(v) else v for v in values)

    def check(function: type[Function], _: tuple[Any, ...]) -> Finding | None:
        right = _run(function, inputs, block=False)
        for how, given, inside, share in _ways(inputs, close):
            try:
                came = _run(function, given, block=True, inside=inside)
            except Exception as error:
                return _clash(f"Under autocast, {how}, {told('it', error, function)}")
            for name, one, other in zip(_names(right), came, right, strict=True):
                if float((one - other).abs().max()) > share * float(other.abs().max()):
                    return _imprecise(how, name, one, other)
        return None

    return check


def _ways(inputs: tuple[Any, ...], close: float) -> Iterator[Way]:
    """Yield each way in words, its inputs, whether backward is inside, and how far off is close."""
    low = tuple(v.bfloat16() if is_float(v) else v for v in inputs)
    yield "with float32 inputs", inputs, False, close
    yield "with backward inside the block", inputs, True, close
    yield "with bfloat16 inputs", low, False, 4 * close  # their gradients are rounded to bfloat16


def _run(
    function: type[Function], inputs: tuple[Any, ...], block: bool, inside: bool = False
) -> Tensors:
    """Return outputs and gradients, in float32."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=block):
        given, outputs = applied(function, inputs)
        total = torch.stack([output.float().sum() for output in outputs]).sum()
        leaves = [tensor for tensor in given if tensor.requires_grad]
        grads = torch.autograd.grad(total, leaves) if inside else ()
    grads = grads or torch.autograd.grad(total, leaves)
    return tuple(tensor.detach().float() for tensor in (*outputs, *grads))


def _names(results: Tensors) -> list[str]:
    return ["the output", *(f"gradient {i}" for i in range(len(results) - 1))]


def _clash(message: str) -> Finding:
    return found(
        "autocast",
        message,
        {},
        "The saved tensors and `grad_output` have different dtypes. Which dtype does each tensor "
        "have in `backward`, and what casts it?",
    )


def _imprecise(how: str, name: str, came: Tensor, right: Tensor) -> Finding:
    one, other = farthest(came, right)
    return found(
        "autocast",
        f"Under autocast to bfloat16, {how}, {name} loses precision: it is {one:.4g}, and "
        f"{other:.4g} without autocast.",
        {"actual": one, "expected": other},
        "Inside the block, every matrix product runs in bfloat16, whatever the dtype of its "
        "factors. Both methods must fix the dtype that they run in.",
    )
