"""Backward called by itself, as the engine calls it before it mends what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Failure, Raw
from autograd_course.doctor.running.calls import (
    attempt,
    changed,
    is_float,
)
from autograd_course.doctor.running.passes import dense, fitting, like, runs_in_own_dtype
from autograd_course.doctor.running.session import Move, Run, Session, stay


def direct_call(
    session: Session, grad_outputs: Sequence[Tensor], move: Move = stay, run: Run | None = None
) -> Raw:
    """Call ``backward`` itself on the graph's own node, as the engine does before it mends."""
    run = run or session.run(move)
    node = own_node(run)
    gs = list(handed_over(run.returned, grad_outputs))
    saved = attempt(lambda: [t for t in node.saved_tensors if isinstance(t, Tensor)])
    held = [] if isinstance(saved, Failure) else saved
    gs_before = [g if g is None else g.clone() for g in gs]
    held_before = [t.detach().clone() for t in held]
    with torch.no_grad():
        got = attempt(lambda: node.apply(*gs))
    if isinstance(got, Failure):
        runs = move is stay and runs_directly(session, grad_outputs, session.in_own_dtypes())
        return Raw(failure=runs_in_own_dtype(got) if runs else got)
    grads = got if isinstance(got, tuple) else (got,)
    return Raw(
        count=len(grads),
        grads=tuple(dense(g.detach()) if isinstance(g, Tensor) else None for g in grads),
        kinds=tuple(type(g).__name__ for g in grads),
        changed_grad_outputs=changed(gs_before, gs),
        changed_saved=changed(held_before, held),
        sparse=any(isinstance(g, Tensor) and g.layout is not torch.strided for g in grads),
    )


def runs_directly(
    session: Session, grad_outputs: Sequence[Tensor], inputs: Sequence[Any] | None
) -> bool:
    """Whether backward, called directly, does not raise for these inputs."""

    def both() -> Any:
        run = session.run(inputs=inputs, watched=False)
        return call_backward(run, fitting(run.floats, grad_outputs))

    return inputs is not None and not isinstance(attempt(both), Failure)


def call_backward(run: Run, grad_outputs: Sequence[Tensor | None]) -> Any:
    """Hand cotangents to the graph's own node, and return whatever backward returns."""
    gs = tuple(handed_over(run.returned, grad_outputs))
    with torch.no_grad():
        return own_node(run).apply(*gs)


def own_node(run: Run) -> Any:
    """Return the node of the graph whose ``apply`` is the subject's backward."""
    return next(out.grad_fn for out in run.tensors if out.grad_fn is not None)


def handed_over(
    returned: Sequence[Any], grad_outputs: Sequence[Tensor | None]
) -> Iterator[Tensor | None]:
    """Yield what autograd hands over: a cotangent, zeros for integers, None for the rest.

    A cotangent has the dtype and the device of its output, whatever those of the inputs are.
    """
    given = iter(grad_outputs)
    for output in returned:
        if is_float(output):
            g = next(given)
            yield g if g is None else like(g, output)
        else:
            yield torch.zeros_like(output) if isinstance(output, Tensor) else None
