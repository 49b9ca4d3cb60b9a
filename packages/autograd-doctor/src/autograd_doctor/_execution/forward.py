"""Run one forward pass, and record how it affects its inputs and its ``ctx``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt, fresh, passes_within
from autograd_doctor._execution.dtypes import PATIENCE
from autograd_doctor._execution.inner_calls import watching_backward
from autograd_doctor._execution.lines import line_that_changes
from autograd_doctor._execution.operations import OperationRecorder, custom_nodes, memory
from autograd_doctor._execution.session import Run, Session
from autograd_doctor._numerics.tensors import changed, is_float
from autograd_doctor._source import line_without_dtype
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import (
    DIRTY_NOT_RETURNED,
    RETURNED_AND_SAVED,
    BackwardInside,
    DefaultDtype,
    Failure,
    Forward,
)


def forward_pass(session: Session) -> Forward:
    """Run ``forward`` once, and record how it affects its inputs and its ``ctx``."""
    leaves, args = fresh(session.inputs, session.wanted)
    before = [a.detach().clone() if isinstance(a, Tensor) else a for a in args]
    versions = _versions(args)
    backward_inside: BackwardInside = ""
    if session.subject.function:
        returned = attempt(lambda: session.call(args))
    else:
        returned, backward_inside = watching_backward(lambda: session.call(args))
    log = session.log
    if isinstance(returned, Failure):
        stopped = Forward(failure=returned, read_saved=log.read_saved_in)
        if not any(said in returned.text for said in (DIRTY_NOT_RETURNED, RETURNED_AND_SAVED)):
            return stopped
        dirty = _positions(log.dirty, args)
        return replace(
            stopped, changed=changed(before, args), dirty=dirty, written=_written(session)
        )
    tensors = Run(leaves, args, returned).tensors
    if any(t.layout is not torch.strided for t in tensors):
        raise CannotDiagnoseError(
            "forward returned a sparse tensor, which diagnose does not support: return "
            "y.to_dense()."
        )
    if any(t.is_meta for t in tensors):
        raise CannotDiagnoseError(
            "forward returned a tensor on the meta device: return it on the device of the inputs."
        )
    dirty = _positions(log.dirty, args)
    return Forward(
        outputs=tuple(t.detach().clone() for t in tensors),
        kinds=tuple(type(value).__name__ for value in returned),
        requires_grad=tuple(t.requires_grad for t in tensors),
        custom_node=any(custom_nodes(tensors)),
        backward_inside=backward_inside,
        whole=session.subject.function is not None and any(custom_nodes(tensors, depth=1)),
        changed=changed(before, args),
        dirty=dirty,
        written=_written(session) if set(dirty) - set(changed(before, args)) else dirty,
        changing_line=_changing_line(session) if set(changed(before, args)) - set(dirty) else "",
        versions_moved=tuple(i for i, v in _versions(args).items() if v != versions[i]),
        views=tuple(_shared_memory(tensors, args, dirty)),
        marked_non_differentiable=_positions(log.non_differentiable, tensors),
        saved=tuple(t.detach().clone() for t in log.saved if isinstance(t, Tensor)),
        read_saved=log.read_saved_in,
        default_dtype=_default_dtype(session, tensors),
    )


def _changing_line(session: Session) -> str:
    """Re-run ``forward``, and return the line of code that changes an argument."""
    _, args = fresh(session.inputs, session.wanted)
    watched = [value.detach() for value in args if isinstance(value, Tensor)]
    return line_that_changes(lambda: session.call(args), watched)


def _written(session: Session) -> tuple[int, ...]:
    """Re-run ``forward``, and return the positions of the arguments that an operation writes to."""
    _, args = fresh(session.inputs, session.wanted)
    with OperationRecorder() as recording:
        attempt(lambda: session.call(args))
    touched = frozenset[torch.UntypedStorage]().union(*(o.writes for o in recording.operations))
    return tuple(i for i, a in enumerate(args) if isinstance(a, Tensor) and memory([a]) & touched)


def _default_dtype(session: Session, outputs: Sequence[Tensor]) -> DefaultDtype | None:
    """Return the first output whose dtype depends on PyTorch's default dtype.

    To find this output, run ``forward`` again with another default dtype. The dtype of the output
    then changes, whereas the result of a cast such as ``x.float()`` keeps its dtype. ``forward``
    runs again only if the inputs are in double precision and an output has the default dtype. An
    ordinary Function therefore runs again only if the default dtype is float64.
    """
    default = torch.get_default_dtype()
    dtypes = {value.dtype for value in session.inputs if is_float(value)}
    suspects = [i for i, output in enumerate(outputs) if output.dtype == default]
    if not suspects or not dtypes or dtypes - {torch.float64, torch.complex128}:
        return None
    other = torch.float32 if default == torch.float64 else torch.float64
    again = _dtypes_with_default(session, other)
    found = next((i for i in suspects if len(again) == len(outputs) and again[i] == other), None)
    if found is None:
        return None
    function = session.subject.function
    return DefaultDtype(found, line_without_dtype(function) if function else "")


def _dtypes_with_default(session: Session, dtype: torch.dtype) -> list[torch.dtype]:
    """Re-run ``forward`` with another default dtype, and return the dtypes of its outputs.

    Return an empty list if ``forward`` raises an error or does not finish in time. For example, a
    solver may not converge in another dtype.
    """
    _, args = fresh(session.inputs, session.wanted)
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with passes_within(PATIENCE):
            returned = attempt(lambda: session.call(args, watched=False))
    except CannotDiagnoseError:
        return []
    finally:
        torch.set_default_dtype(default)
    if isinstance(returned, Failure):
        return []
    return [value.dtype for value in returned if isinstance(value, Tensor)]


def _positions(marked: Sequence[Any], among: Sequence[Any]) -> tuple[int, ...]:
    return tuple(i for i, value in enumerate(among) if any(value is m for m in marked))


def _shared_memory(
    outputs: Sequence[Tensor], args: Sequence[Any], dirty: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield each pair (output, input) that shares memory, unless the input is marked as dirty."""
    for i, output in enumerate(outputs):
        for j, arg in enumerate(args):
            if not isinstance(arg, Tensor) or j in dirty or not output.numel():
                continue
            if output.untyped_storage().data_ptr() == arg.untyped_storage().data_ptr():
                yield i, j


def _versions(args: Sequence[Any]) -> dict[int, int]:
    return {i: a._version for i, a in enumerate(args) if isinstance(a, Tensor)}
