"""Repeat a call in other dtypes and on the meta device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt, passes_within, prepare_meta
from autograd_doctor._execution.isolation import generator
from autograd_doctor._execution.operations import DevicesNamed, OneDevice, Strangers
from autograd_doctor._execution.passes import (
    call_backward,
    direct_call,
    gradients,
    runs_directly,
    runs_in_own_dtype,
    sample_cotangents,
)
from autograd_doctor._execution.session import Move, Run, Session
from autograd_doctor._numerics.tensors import is_float, is_plain
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import DirectBackward, Evidence, Failure, OwnDtype, Variant

# --------------------------------------------------------------------------------------------------
# The caller's original call: the same inputs, in their own dtypes.
#
# All other probes use float64 copies. If a Function accepts only float32, its behavior on float64
# copies does not count against it. Conversely, a Function may fail only on the caller's inputs.
# --------------------------------------------------------------------------------------------------


def in_own_dtypes(session: Session, found: Evidence) -> Evidence:
    """Repeat the call in the dtypes of the caller's inputs.

    Compare the result with the float64 result.
    """
    inputs = session.in_own_dtypes()
    if inputs is None:
        return found
    run = attempt(lambda: session.run(inputs=inputs, watched=False))
    forward = found.forward
    if isinstance(run, Failure):
        return found if forward.failure else _with(session, found, inputs, "forward", run)
    if forward.failure:
        other = replace(forward.failure, runs_in_own_dtype=True)
        return replace(found, forward=replace(forward, failure=other))
    if [out.shape for out in run.tensors] != [out.shape for out in forward.outputs]:
        other = Failure("", "forward returns other shapes", "", runs_in_own_dtype=True)
        return replace(found, forward=replace(forward, failure=other))
    done = attempt(lambda: _backward(run, found.forward.whole, session.seed))
    return _with(session, found, inputs, "backward", done) if isinstance(done, Failure) else found


def _backward(run: Run, whole: bool, seed: int) -> None:
    """Pass a cotangent directly to a Function's ``backward``.

    For other callables, pass it through autograd.
    """
    gs = sample_cotangents(run.floats, generator(seed))
    (call_backward if whole else gradients)(run, gs)


def _with(
    session: Session, found: Evidence, inputs: Sequence[Any], stage: str, failure: Failure
) -> Evidence:
    """Add the failure to the evidence, unless mixed dtypes or a module could be the cause."""
    dtypes = {str(v.dtype).removeprefix("torch.") for v in inputs if is_float(v)}
    if len(dtypes) > 1 or session.subject.around.held:
        return found
    return replace(
        found, contract=replace(found.contract, own=OwnDtype(dtypes.pop(), stage, failure))
    )


PATIENCE = 1.0  # time limit in seconds for one pass in another dtype


# --------------------------------------------------------------------------------------------------
# Repeat the direct call in other dtypes and on a simulated device.
# --------------------------------------------------------------------------------------------------


def variants(
    session: Session, grad_outputs: Sequence[Tensor], raw: DirectBackward
) -> tuple[Variant, ...]:
    """Repeat the direct call to ``backward`` in other dtypes and on the ``meta`` device.

    If an argument contains tensors, such as a module with weights, do not repeat the call, because
    the conversion would not reach those tensors.
    """
    if not all(map(is_plain, session.inputs)):
        return (_variant("float64", session, session.inputs, raw, _dtype),)
    dtypes: dict[str, Move] = {
        "float32": lambda t: t.to(torch.complex64 if t.is_complex() else torch.float32)
    }
    # PyTorch has no complex bfloat16. In a call with complex numbers, real gradients have the same
    # precision as the complex ones.
    if not any(value.is_complex() for value in (*session.inputs, *grad_outputs) if is_float(value)):
        dtypes["bfloat16"] = lambda t: t.to(torch.bfloat16)
    found: list[Variant | None] = [_variant("float64", session, session.inputs, raw, _dtype)]
    found += [_moved(name, session, grad_outputs, move, _dtype) for name, move in dtypes.items()]
    found = _with_own_dtype(session, grad_outputs, raw, found)
    floats = all(is_float(value) for value in session.inputs if isinstance(value, Tensor))
    if floats and _may_place(session, grad_outputs):
        prepare_meta()
        found.append(_moved("meta", session, grad_outputs, lambda t: t.to("meta"), _device))
    return tuple(variant for variant in found if variant is not None)


def _with_own_dtype(
    session: Session,
    grad_outputs: Sequence[Tensor],
    raw: DirectBackward,
    found: Sequence[Variant | None],
) -> list[Variant | None]:
    """Mark each variant that fails even though the call works in the caller's own dtypes."""
    if not any(variant and variant.failure for variant in found):
        return list(found)
    own = session.in_own_dtypes()
    runs = not raw.failure if own is None else runs_directly(session, grad_outputs, own)
    return [
        replace(variant, failure=runs_in_own_dtype(variant.failure))
        if runs and variant and variant.failure
        else variant
        for variant in found
    ]


def _may_place(session: Session, grad_outputs: Sequence[Tensor]) -> bool:
    """Whether forward or backward might create a tensor on a different device than the inputs."""

    def both() -> Any:
        return call_backward(session.run(watched=False), grad_outputs)

    strangers = Strangers([*session.inputs, *grad_outputs])
    devices = DevicesNamed(strangers)
    with strangers, devices:
        grads = attempt(both)
    strangers.meet([grads])
    return isinstance(grads, Failure) or strangers.found or devices.found


def _moved(
    name: str,
    session: Session,
    grad_outputs: Sequence[Tensor],
    move: Move,
    describe: Callable[[Tensor], str],
) -> Variant | None:
    """Describe the gradients that ``backward`` returns for moved or converted inputs.

    Return ``None`` if ``forward`` fails in this dtype, or if its output shapes differ from the
    float64 output shapes.
    """
    try:
        with passes_within(PATIENCE):
            run = attempt(lambda: session.run(move))
    except CannotDiagnoseError:  # at such low precision, a solver may not converge
        return None
    if isinstance(run, Failure) or [out.shape for out in run.floats] != [
        g.shape for g in grad_outputs
    ]:
        return None
    with OneDevice() if name == "meta" else nullcontext():
        raw = attempt(lambda: direct_call(session, grad_outputs, move, run))
    return _variant(name, session, run.args, raw, describe, {out.dtype for out in run.floats})


def _variant(
    name: str,
    session: Session,
    args: Sequence[Any],
    raw: DirectBackward | Failure,
    describe: Callable[[Tensor], str],
    given: Collection[torch.dtype] = (),
) -> Variant:
    """Describe the gradients that ``backward`` returned, and the corresponding inputs.

    ``given`` holds the dtypes of the cotangents. If ``forward`` itself changes the dtype, a
    gradient is allowed to have the dtype of its cotangent.
    """
    if isinstance(raw, Failure) or raw.failure:
        return Variant(name, failure=raw if isinstance(raw, Failure) else raw.failure)
    kept = [
        (arg, grad)
        for i, (arg, grad) in enumerate(zip(args, raw.grads, strict=False))
        if i in session.wanted and grad is not None
    ]
    found = [
        describe(arg if grad.dtype in given and arg.dtype not in given else grad)
        for arg, grad in kept
    ]
    return Variant(name, tuple(describe(arg) for arg, _ in kept), tuple(found))


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _device(tensor: Tensor) -> str:
    return tensor.device.type
