"""The Jacobian as backward has it: its answers to one-hot cotangents.

It is asked for where the gradient is not known to be right, to be shown beside the Jacobian by
differences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Evidence, Failure, Rows
from autograd_course.doctor.running.calls import attempt
from autograd_course.doctor.running.passes import gradients
from autograd_course.doctor.running.session import Run, Session
from autograd_course.doctor.truth.differences import affordable, as_real, flat

MOST_OF_AN_OUTPUT = 48
MOST_ROWS = 96  # fewer where the inputs are large


def rows(session: Session, evidence: Evidence) -> Evidence:
    """Send one-hot cotangents back through one graph, one for each of the first elements."""
    if not evidence.jacobian or evidence.cotangent_range:  # one-hot cotangents lie elsewhere
        return evidence
    run = attempt(session.run)
    if isinstance(run, Failure):
        return evidence
    entries = sum(as_real(leaf).numel() for leaf in run.leaves)
    most = affordable(MOST_ROWS, entries)
    index = torch.tensor(list(_first_elements(run))[:most], dtype=torch.long)
    found = attempt(lambda: [one_row(run, int(i)) for i in index])
    if isinstance(found, Failure) or not found:
        return evidence
    matrices = tuple(torch.stack(parts) for parts in zip(*found, strict=True))
    return replace(evidence, rows=Rows(index, matrices))


def _first_elements(run: Run) -> Iterator[int]:
    """Yield the flat positions, among all outputs, of the first elements of each."""
    start = 0
    for output in run.floats:
        count = as_real(output).numel()
        yield from range(start, start + min(count, MOST_OF_AN_OUTPUT))
        start += count


def one_row(run: Run, i: int) -> list[Tensor]:
    """Return each leaf's gradient, flat and real, for a cotangent that is 1 at one element.

    ``i`` counts the elements of all float outputs, those of a complex one twice.
    """
    cotangents = [
        torch.zeros_like(out, memory_format=torch.contiguous_format) for out in run.floats
    ]
    for g in cotangents:
        real = as_real(g).view(-1)
        if 0 <= i < real.numel():
            real[i] = 1.0
        i -= real.numel()
    grads = gradients(run, cotangents, retain_graph=True)
    pairs = zip(run.leaves, grads, strict=True)
    return [flat([torch.zeros_like(leaf) if grad is None else grad]) for leaf, grad in pairs]
