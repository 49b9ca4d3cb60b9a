"""Axis 0 as a batch: slices that do not meet in forward do not meet in backward either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Evidence, Twin
from autograd_course.doctor.probes.confirmed import (
    TOLERANCE,
    Plain,
    agrees,
    all_alike,
    asked,
    jittered,
    plain_call,
)
from autograd_course.doctor.probes.twins import twin
from autograd_course.doctor.running.calls import is_float
from autograd_course.doctor.running.passes import Pass, both_ways
from autograd_course.doctor.running.session import Session
from autograd_course.doctor.world.randomness import Stream, generator

GROWN = 3  # the length that a batch of 1 is brought to
MOST_SLICES = 64  # a longer batch is cut in two only

Sliced = tuple[int, ...]  # the positions of the inputs that are cut; the others are shared


def batch_dimension(session: Session, evidence: Evidence) -> Evidence:
    """Compare a batch with its slices, a batch of 1 with a longer one, and either with none."""
    return asked(session, evidence, _batches, draws=False)


def _batches(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Twin]:
    length = _length(plain.done.outputs)
    for sliced in _cuts(plain.inputs, length):
        compare = _grown if length == 1 else _cut
        found = compare(session, evidence, plain, sliced)
        if found is not None:
            yield found
            yield from _emptied(session, evidence, plain, sliced)
            return


def _length(outputs: Sequence[Tensor]) -> int:
    """Return the length of axis 0 that all outputs share, 0 where there is none."""
    lengths = {len(out) if out.dim() else 0 for out in outputs}
    return lengths.pop() if len(lengths) == 1 else 0


def _cuts(inputs: Sequence[Any], length: int) -> Iterator[Sliced]:
    """Yield which inputs may be cut: all that have this length along axis 0, or one of them."""
    fitting = tuple(
        i for i, v in enumerate(inputs) if isinstance(v, Tensor) and v.dim() and len(v) == length
    )
    if fitting and length:
        yield fitting
    if len(fitting) > 1 and length:  # an index alone may no longer go with the others
        yield from ((i,) for i in fitting if is_float(inputs[i]))


def _cut(session: Session, evidence: Evidence, plain: Plain, sliced: Sliced) -> Twin | None:
    """Compare a batch with its first slice and the rest; where these differ, with every slice."""
    length = _length(plain.done.outputs)
    halves = _compared(session, evidence, plain, sliced, [0, 1, length])
    if halves is None or agrees(halves) or length > MOST_SLICES:
        return halves
    finer = _compared(session, evidence, plain, sliced, range(length + 1))
    return halves if finer is None or agrees(finer) else finer


def _compared(
    session: Session, evidence: Evidence, plain: Plain, sliced: Sliced, cuts: Sequence[int]
) -> Twin | None:
    pieces = _in_pieces(session, plain, sliced, cuts)
    if pieces is None:
        return None
    how = "when the slices along dim 0 are passed one at a time"
    return twin(evidence, "batch", how, pieces, plain.done, tolerance=TOLERANCE)


def _grown(session: Session, evidence: Evidence, plain: Plain, sliced: Sliced) -> Twin | None:
    """Compare a longer batch, made of the example and varied copies of it, with its slices."""
    rng = generator(session.seed, Stream.LONGER_BATCH)

    def longer(value: Tensor) -> Tensor:
        return torch.cat([value, *(jittered(value, rng) for _ in range(GROWN - 1))])

    inputs = [longer(v) if i in sliced else v for i, v in enumerate(plain.inputs)]
    grown = plain_call(session, inputs, rng)
    if grown.done.stage == "forward" or _length(grown.done.outputs) != GROWN:
        return None
    pieces = _in_pieces(session, grown, sliced, range(GROWN + 1))
    if pieces is None or pieces.failure:
        return None
    how = f"for a batch of {GROWN}"
    return twin(evidence, "grown", how, grown.done, pieces, tolerance=TOLERANCE)


def _emptied(session: Session, evidence: Evidence, plain: Plain, sliced: Sliced) -> Iterator[Twin]:
    """Compare a batch of none, where forward takes it, with what that must give: nothing."""
    came = _piece(session, plain, sliced, slice(0, 0))
    if came.stage == "forward" or not _are_slices(came, plain, slice(0, 0)):
        return
    grads = zip(session.wanted, plain.done.grads, strict=True)
    nothing = tuple(
        g if g is None else g[:0] if i in sliced else torch.zeros_like(g) for i, g in grads
    )
    should = Pass(grads=nothing)
    how = "for an empty batch (dim 0 has size 0)"
    yield twin(evidence, "zero-size", how, replace(came, outputs=()), should, tolerance=TOLERANCE)


def _in_pieces(session: Session, plain: Plain, sliced: Sliced, cuts: Sequence[int]) -> Pass | None:
    """Return the results of the pieces put together, ``None`` where forward is not by slices."""
    pieces = []
    for start, stop in pairwise(cuts):
        piece = _piece(session, plain, sliced, slice(start, stop))
        if piece.stage == "forward" or not _are_slices(piece, plain, slice(start, stop)):
            return None
        pieces.append(piece)
    for piece in pieces:  # only now: every slice has gone through forward
        if piece.failure:
            return piece
    joined = []
    for slot, position in enumerate(session.wanted):
        grads = [grad for piece in pieces if (grad := piece.grads[slot]) is not None]
        joined.append(torch.cat(grads) if position in sliced else torch.stack(grads).sum(0))
    return Pass(plain.done.outputs, tuple(joined))


def _piece(session: Session, plain: Plain, sliced: Sliced, part: slice) -> Pass:
    """Pass one slice; an input that gets no gradient gets zeros."""
    inputs = [v[part] if i in sliced else v for i, v in enumerate(plain.inputs)]
    done = both_ways(session, [g[part] for g in plain.grad_outputs], inputs=inputs)
    pairs = zip(session.wanted, done.grads, strict=False)
    grads = (torch.zeros_like(inputs[i]) if grad is None else grad for i, grad in pairs)
    return replace(done, grads=tuple(grads))


def _are_slices(piece: Pass, plain: Plain, part: slice) -> bool:
    return all_alike(piece.outputs, [out[part] for out in plain.done.outputs])
