"""The caller's own call: the same inputs, in the dtypes that they have.

Everything else is examined on float64 copies. A Function may take float32 alone: what it does to
float64 copies is then not held against it. Or it may fail on the caller's inputs and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autograd_course.doctor.evidence import Evidence, Failure, OwnDtype
from autograd_course.doctor.running.calls import attempt, is_float
from autograd_course.doctor.running.direct import call_backward
from autograd_course.doctor.running.passes import drawn, gradients
from autograd_course.doctor.running.session import Run, Session
from autograd_course.doctor.world.randomness import generator


def in_own_dtypes(session: Session, found: Evidence) -> Evidence:
    """Make the call in the caller's own dtypes, and note where it and the float64 copies differ."""
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
    """Send a cotangent back: directly into a Function's backward, else through autograd."""
    gs = drawn(run.floats, generator(seed))
    (call_backward if whole else gradients)(run, gs)


def _with(
    session: Session, found: Evidence, inputs: Sequence[Any], stage: str, failure: Failure
) -> Evidence:
    """Note the failure, unless an example of several dtypes, or a module's, may be its cause."""
    dtypes = {str(v.dtype).removeprefix("torch.") for v in inputs if is_float(v)}
    if len(dtypes) > 1 or session.subject.around.held:
        return found
    return replace(found, own=OwnDtype(dtypes.pop(), stage, failure))
