"""What becomes of a Function under vmap and in the compiler."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import torch
from autograd_doctor import Finding
from autograd_doctor.extension import describe_error
from torch.autograd import Function

from autograd_course.grader.calls import as_tuple, is_float
from autograd_course.grader.checks.calling import backward, found
from autograd_course.grader.compiling import compile_unbroken, silence
from autograd_course.grader.judging.passes import differentiable

SAMPLES = 40


def one_call_for_the_batch(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that ``vmap`` runs forward once, however many samples there are."""
    calls = 0
    forward = function.forward

    def counted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return forward(*args)

    stacked = [v.expand(SAMPLES, *v.shape).clone() if is_float(v) else v for v in inputs]
    dims = tuple(0 if is_float(v) else None for v in inputs)
    with patch.object(function, "forward", staticmethod(counted)):
        torch.func.vmap(function.apply, dims)(*stacked)
    if calls == 1:
        return None
    if calls == 0:
        return found(
            "wrong-vmap",
            "The results are right, but `forward` never runs under `vmap`. Your rule computes them "
            "itself, without the kernel.",
            {"samples": SAMPLES, "calls": 0},
            "The rule should only rearrange the batch and call `apply` once. The kernel computes.",
        )
    return found(
        "wrong-vmap",
        f"The results are right, but for {SAMPLES} samples `forward` runs {calls} times. `vmap` "
        "should avoid this loop.",
        {"samples": SAMPLES, "calls": calls},
        "The kernel accepts leading dims. Move the batch dim of every argument to the front and "
        "call `apply` once.",
    )


def jvp_takes_a_batch(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that ``jvp`` runs under ``vmap``, as a Jacobian by forward mode and a Hessian have it."""
    wanted = tuple(i for i, value in enumerate(inputs) if is_float(value))
    try:
        torch.func.jacfwd(function.apply, wanted)(*inputs)
    except Exception as error:
        return found(
            "wrong-jvp",
            f"Forward mode is right, but `jvp` fails under `vmap`, which `jacfwd` and `hessian` "
            f"use. It raises {type(error).__name__}: {str(error).partition('. ')[0]}",
            {"error": type(error).__name__},
            "Under `vmap`, one tangent represents a whole batch of directions. Do not call "
            "`.item()` or `float()` on it, and do not branch on its values.",
        )
    return None


def compiles_whole(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that forward and backward can be traced into one graph each."""
    try:
        with silence():
            backward(list(as_tuple(compile_unbroken(function.apply)(*differentiable(inputs)))))
    except Exception as error:
        failure = describe_error(error)
        return found(
            "compile-mismatch",
            "The results are right, but `torch.compile` cannot trace the call into a single "
            f"graph: {failure.text}",
            {}
            if failure.line.startswith("compiles_whole")
            else {"exception": failure.kind, "text": failure.text, "line": failure.line},
            "While tracing, tensors have no values, and side effects are lost. Select values with "
            "`torch.where` instead of `if`. Avoid shapes that depend on values, such as the number "
            "of elements that a mask selects. Write `backward` as a formula.",
        )
    return None
