"""The same values in another memory layout: gradients and outputs must not notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Evidence, Twin
from autograd_course.doctor.probes.confirmed import TOLERANCE, Plain, agrees, asked
from autograd_course.doctor.probes.twins import twin
from autograd_course.doctor.running.calls import is_float
from autograd_course.doctor.running.passes import Pass, both_ways
from autograd_course.doctor.running.session import Session
from autograd_course.doctor.words import listed

Lay = Callable[[Tensor], Tensor]


def transposed(tensor: Tensor) -> Tensor:
    """Return the same values with the last two axes exchanged in memory.

    What is returned is no view: an in-place Function may change it.
    """
    return tensor.mT.contiguous().mT.clone() if tensor.dim() > 1 else tensor


def strided(tensor: Tensor) -> Tensor:
    """Return the same values as every other element of a larger tensor, NaN in between."""
    if not tensor.dim():
        return tensor
    return torch.stack([tensor, torch.full_like(tensor, torch.nan)], -1)[..., 0]


LAYOUTS: dict[str, Lay] = {
    "transposed in memory": transposed,
    "a strided view with gaps in memory": strided,
}

# One number for all is what ``y.sum()`` sends back, one row for all ``y.sum(0)``.
EXPANDED: dict[str, Lay] = {
    "one number expanded to the output's shape": lambda g: g.flatten()[0].expand_as(g),
    "one row expanded along dim 0": lambda g: g[:1].expand_as(g) if g.dim() > 1 else g,
}


def grad_output_layout(session: Session, evidence: Evidence) -> Evidence:
    """Send the same cotangents back in other layouts."""
    return asked(session, evidence, _cotangents_laid_out)


def input_layout(session: Session, evidence: Evidence) -> Evidence:
    """Pass the same inputs in other layouts; PyTorch cannot lead a sparse gradient through them."""
    if evidence.raw and evidence.raw.sparse:
        return evidence
    return asked(session, evidence, _inputs_laid_out, draws=False)


def _cotangents_laid_out(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Twin]:
    if not all(g.numel() for g in plain.grad_outputs):
        return
    for how, lay in (LAYOUTS | EXPANDED).items():
        laid = [lay(g) for g in plain.grad_outputs]
        if all(g.is_contiguous() for g in laid):
            continue
        should = replace(plain.done, outputs=())
        if how in EXPANDED:  # these are other values
            should = _sent_back(session, plain, [g.contiguous() for g in laid])
        came = _sent_back(session, plain, laid)
        if not should.failure:
            how = f"when `grad_output` is {how}"
            yield twin(evidence, "grad-output-layout", how, came, should, tolerance=TOLERANCE)


def _sent_back(session: Session, plain: Plain, grad_outputs: Sequence[Tensor]) -> Pass:
    """Send cotangents back as they lie in memory, and return the gradients alone."""
    return replace(both_ways(session, lambda _: grad_outputs, inputs=plain.inputs), outputs=())


def _inputs_laid_out(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Twin]:
    for how, lay in LAYOUTS.items():
        if lay is strided and evidence.forward.dirty:
            continue  # an in-place change of a view of NaNs reaches their gradient as well
        places = [i for i, value in enumerate(plain.inputs) if _can_be_laid(value, lay)]
        together = [*_passed(session, evidence, plain, how, lay, places)]
        if len(places) > 1 and not all(map(agrees, together)):
            for place in places:  # which of them is it?
                yield from _passed(session, evidence, plain, how, lay, [place])
        yield from together


def _can_be_laid(value: Any, lay: Lay) -> bool:
    return is_float(value) and bool(value.numel()) and not lay(value).is_contiguous()


def _passed(
    session: Session, evidence: Evidence, plain: Plain, how: str, lay: Lay, places: Sequence[int]
) -> Iterator[Twin]:
    if not places:
        return

    def arrange(args: list[Any]) -> list[Any]:
        return [lay(a) if i in places else a for i, a in enumerate(args)]

    done = both_ways(session, plain.grad_outputs, inputs=plain.inputs, arrange=arrange)
    if done.stage == "forward" or len(done.outputs) == len(plain.done.outputs):
        names = listed([f"`{evidence.name(i)}`" for i in places], len(places))
        how = f"when {names} {'is' if len(places) == 1 else 'are'} {how}"
        yield twin(evidence, "input-layout", how, done, plain.done, tolerance=TOLERANCE)
