"""Repeat the call with frozen inputs or with other memory layouts, dims, shapes or batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt
from autograd_doctor._execution.isolation import Stream, generator
from autograd_doctor._execution.lines import line_that_differs
from autograd_doctor._execution.passes import Pass, both_ways
from autograd_doctor._execution.session import Session
from autograd_doctor._numerics.structure import structure_of
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor._probes.comparison import (
    TOLERANCE,
    Plain,
    agrees,
    all_alike,
    asked,
    compare,
    jittered,
    plain_call,
)
from autograd_doctor.evidence import DIM_NAMES, REFUSED, Comparison, Evidence, Failure
from autograd_doctor.formatting import listed

# --------------------------------------------------------------------------------------------------
# Pass the same values in a different memory layout. It must not affect outputs or gradients.
# --------------------------------------------------------------------------------------------------

Lay = Callable[[Tensor], Tensor]


def transposed(tensor: Tensor) -> Tensor:
    """Return a copy of the tensor that stores its last two dims in swapped order.

    The copy is not a view, because an in-place Function may change it.
    """
    return tensor.mT.contiguous().mT.clone() if tensor.dim() > 1 else tensor


def strided(tensor: Tensor) -> Tensor:
    """Return the same values as a strided view of a larger tensor. NaN fills the gaps."""
    if not tensor.dim():
        return tensor
    return torch.stack([tensor, torch.full_like(tensor, torch.nan)], -1)[..., 0]


LAYOUTS: dict[str, Lay] = {
    "laid out in memory as a transpose": transposed,
    "a strided view with gaps in memory": strided,
}

# The backward pass of ``y.sum()`` sends the same number to every element. The backward pass of
# ``y.sum(0)`` sends the same numbers to every row.
EXPANDED: dict[str, Lay] = {
    "one number expanded to the output's shape": lambda g: g.flatten()[0].expand_as(g),
    "one row expanded along dim 0": lambda g: g[:1].expand_as(g) if g.dim() > 1 else g,
}


def grad_output_layout(session: Session, evidence: Evidence) -> Evidence:
    """Pass the same cotangents to ``backward`` in other memory layouts."""
    return asked(session, evidence, _cotangents_laid_out)


def input_layout(session: Session, evidence: Evidence) -> Evidence:
    """Pass the same inputs in other memory layouts.

    Skip Functions with sparse gradients, because PyTorch does not support other layouts for them.
    """
    if evidence.contract.direct and evidence.contract.direct.sparse:
        return evidence
    return asked(session, evidence, _inputs_laid_out, draws=False)


def _cotangents_laid_out(
    session: Session, evidence: Evidence, plain: Plain
) -> Iterator[Comparison]:
    if not all(g.numel() for g in plain.grad_outputs):
        return
    for how, lay in (LAYOUTS | EXPANDED).items():
        laid = [lay(g.clone()) for g in plain.grad_outputs]
        if all(g.is_contiguous() for g in laid):
            continue
        expected = replace(plain.done, outputs=())
        if how in EXPANDED:  # expanding also changes the values
            expected = _sent_back(session, plain, [g.contiguous() for g in laid])
        actual = _sent_back(session, plain, laid)
        if not expected.failure:
            how = f"when `grad_output` is {how}"
            found = compare(
                evidence, "grad-output-layout", how, actual, expected, tolerance=TOLERANCE
            )
            plainly = [g.contiguous() for g in laid]
            yield _with_line(
                found,
                partial(_sent_back, session, plain, plainly),
                partial(_sent_back, session, plain, laid),
            )


def _sent_back(session: Session, plain: Plain, grad_outputs: Sequence[Tensor]) -> Pass:
    """Pass the cotangents to ``backward`` without copying them. Return only the gradients."""
    return replace(both_ways(session, lambda _: grad_outputs, inputs=plain.inputs), outputs=())


def _with_line(
    found: Comparison, plainly: Callable[[], object], otherwise: Callable[[], object]
) -> Comparison:
    """Return the comparison. If it shows a difference, add the first line whose results differ."""
    if agrees(found) or found.failure:
        return found
    return replace(found, line=line_that_differs(plainly, otherwise))


def _inputs_laid_out(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Comparison]:
    for how, lay in LAYOUTS.items():
        if lay is strided and evidence.forward.dirty:
            continue  # changing such a view in place would also affect the gradient of the NaNs
        places = [i for i, value in enumerate(plain.inputs) if _can_be_laid(value, lay)]
        together = [*_passed(session, evidence, plain, how, lay, places)]
        if len(places) > 1 and not all(map(agrees, together)):
            for place in places:  # find the tensor that causes the difference
                yield from _passed(session, evidence, plain, how, lay, [place])
        yield from together


def _can_be_laid(value: Any, lay: Lay) -> bool:
    return is_float(value) and bool(value.numel()) and not lay(value).is_contiguous()


def _passed(
    session: Session, evidence: Evidence, plain: Plain, how: str, lay: Lay, places: Sequence[int]
) -> Iterator[Comparison]:
    if not places:
        return

    def arrange(args: list[Any]) -> list[Any]:
        return [lay(a) if i in places else a for i, a in enumerate(args)]

    plainly = partial(both_ways, session, plain.grad_outputs, inputs=plain.inputs)
    done = plainly(arrange=arrange)
    if done.stage == "forward" or len(done.outputs) == len(plain.done.outputs):
        names = listed([f"`{evidence.name(i)}`" for i in places], len(places))
        how = f"when {names} {'is' if len(places) == 1 else 'are'} {how}"
        found = compare(evidence, "input-layout", how, done, plain.done, tolerance=TOLERANCE)
        yield _with_line(found, plainly, partial(plainly, arrange=arrange))


# --------------------------------------------------------------------------------------------------
# The gradient of an input must not depend on which other inputs require grad.
# --------------------------------------------------------------------------------------------------


def frozen_input(session: Session, evidence: Evidence) -> Evidence:
    """Repeat the call with some inputs frozen (not requiring grad), then under ``no_grad``."""
    return asked(session, evidence, _frozen)


def _frozen(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Comparison]:
    for how, kept in _masks(evidence):
        actual = both_ways(session, plain.grad_outputs, inputs=plain.inputs, wanted=kept)
        if actual.stage == "forward" and not evidence.is_function:
            continue  # the callable itself may differentiate with respect to an input
        if actual.stage == "forward" or len(actual.outputs) == len(plain.done.outputs):
            grads = [plain.done.grads[evidence.wanted.index(i)] for i in kept]
            actual, expected = replace(actual, outputs=()), Pass(grads=tuple(grads))
            yield compare(
                evidence, "frozen-input", how, actual, expected, wanted=kept, tolerance=TOLERANCE
            )
    if evidence.is_function:
        yield from _without_graph(session, evidence, plain)


def _masks(evidence: Evidence) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield the sets of inputs that require grad: each input alone, then all inputs except one.

    Each set comes with a description. If there are fewer than three inputs, skip the sets that
    leave out one input.
    """
    wanted = evidence.wanted
    if len(wanted) > 1:
        for i in wanted:
            yield f"when only `{evidence.name(i)}` requires grad", (i,)
    if len(wanted) > 2:
        for i in wanted:
            yield f"when `{evidence.name(i)}` does not require grad", [j for j in wanted if j != i]


def _without_graph(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Comparison]:
    with torch.no_grad():
        run = attempt(lambda: session.run(inputs=plain.inputs))
    done = Pass(failure=run, stage="forward") if isinstance(run, Failure) else Pass(run.floats)
    if done.failure or len(done.outputs) == len(plain.done.outputs):
        expected = Pass(plain.done.outputs)
        how = "under torch.no_grad()"
        yield compare(evidence, "frozen-input", how, done, expected, wanted=(), tolerance=TOLERANCE)


# --------------------------------------------------------------------------------------------------
# Check an argument named dim or axis: the Function must treat every dim in the same way.
# --------------------------------------------------------------------------------------------------

MOST_AXES = 4  # for inputs with many dims, the probe tries only the first ones


@dataclass(frozen=True)
class Axis:
    """The dim that a call selects.

    ``place`` is the position of the dim argument, ``home`` is the selected dim, and ``rank`` is the
    largest number of dims among the inputs.
    """

    place: int
    home: int
    rank: int

    def moved(self, tensor: Tensor, axis: int) -> Tensor:
        """Move the selected dim to position ``axis``. Return a tensor of another rank unchanged."""
        return tensor.movedim(self.home, axis).contiguous() if tensor.dim() == self.rank else tensor

    def spread(self, tensor: Tensor) -> Tensor:
        """Add leading dims to a tensor of lower rank, as in broadcasting."""
        return tensor[(None,) * (self.rank - tensor.dim())]

    def back(self, tensor: Tensor | None, axis: int) -> Tensor | None:
        """Move the selected dim from position ``axis`` back to its original position."""
        if tensor is None or tensor.dim() != self.rank:
            return tensor
        return tensor.movedim(axis, self.home)


def dim_argument(session: Session, evidence: Evidence) -> Evidence:
    """Move the selected dim of the inputs, and select it at its new position.

    Apart from the position of this dim, the results must not change.
    """
    named = _named_axis(evidence)
    if named is None:
        return evidence

    def question(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Comparison]:
        for axis, dim in _others(named, evidence.inputs[named.place]):
            yield from _called(session, evidence, plain, named, axis, dim)

    return asked(session, evidence, question, draws=False, resizes=True)


def _named_axis(evidence: Evidence) -> Axis | None:
    rank = max(value.dim() for value in evidence.inputs if isinstance(value, Tensor))
    for place, name in enumerate(evidence.parameters):
        dim = evidence.inputs[place]
        if name in DIM_NAMES and type(dim) is int and -rank <= dim < rank:
            return Axis(place, dim % rank, rank)
    return None


def _others(named: Axis, dim: int) -> Iterator[tuple[int, int]]:
    """Yield pairs of a dim's position and a value of the dim argument that selects this dim.

    Include negative values, but not the value in the original call.
    """
    for axis in range(min(named.rank, MOST_AXES)):
        yield from ((axis, d) for d in (axis, axis - named.rank) if d != dim)


def _called(
    session: Session, evidence: Evidence, plain: Plain, named: Axis, axis: int, dim: int
) -> Iterator[Comparison]:
    gs = [named.moved(g, axis) for g in plain.grad_outputs]
    for inputs in _readings(session, plain, named):
        moved = [named.moved(v, axis) if isinstance(v, Tensor) else v for v in inputs]
        moved[named.place] = dim
        done = both_ways(session, gs, inputs=moved)
        outputs = tuple(named.back(out, axis) for out in done.outputs)
        if not all_alike(outputs, plain.done.outputs):  # no outputs if forward rejects this call
            continue
        grads = tuple(named.back(grad, axis) for grad in done.grads)
        actual, expected = replace(done, outputs=(), grads=grads), replace(plain.done, outputs=())
        how = _in_words(evidence.parameters[named.place], named.home, axis, dim)
        yield compare(evidence, "dim-argument", how, actual, expected, tolerance=TOLERANCE)
        return


def _readings(session: Session, plain: Plain, named: Axis) -> Iterator[list[Any]]:
    """Yield the original inputs, then inputs in which broadcast tensors have full rank.

    Broadcast tensors, such as masks, get leading dims of size 1.
    """
    yield list(plain.inputs)
    data = {i for i, v in enumerate(plain.inputs) if isinstance(v, Tensor)} - set(session.wanted)
    lower = {i for i in data if 0 < plain.inputs[i].dim() < named.rank}
    if lower:
        yield [named.spread(v) if i in lower else v for i, v in enumerate(plain.inputs)]


def _in_words(name: str, home: int, axis: int, dim: int) -> str:
    moved = "" if home == axis else f"dim {home} is moved to dim {axis} and "
    return f"when {moved}`{name}={dim}` is passed"


# --------------------------------------------------------------------------------------------------
# Pass 0-dim inputs to an elementwise Function.
# --------------------------------------------------------------------------------------------------


def zero_dim(session: Session, evidence: Evidence) -> Evidence:
    """Pass single elements of the inputs, first in a vector and then as 0-dim tensors."""
    if not _one_shape(evidence):
        return evidence
    return asked(session, evidence, _single, draws=False, resizes=True)


def _one_shape(evidence: Evidence) -> bool:
    """Return whether all tensors in the call share one shape that is neither empty nor 0-dim."""
    given = (value for value in evidence.inputs if isinstance(value, Tensor))
    shapes = {tensor.shape for tensor in (*given, *evidence.forward.outputs)}
    shape = shapes.pop()
    return not shapes and bool(shape) and shape.numel() > 0


_ALONE = 8  # maximum number of elements that the probe passes to forward one at a time


def _single(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Comparison]:
    count = plain.done.outputs[0].numel()
    both = [-1, 0] if count > 1 else [0]
    vector = _on_elements(session, plain, both)
    first, last = (_on_elements(session, plain, place) for place in (0, -1))
    if vector is None or vector.failure or first is None or last is None:
        return  # not elementwise, or forward rejects 0-dim tensors
    some = torch.linspace(0, count - 1, min(count, _ALONE)).round().int().tolist()
    if not all(_stays_alone(session, plain, place) for place in some):
        return  # two elements may be equal by coincidence, such as masked ones
    expected = Pass(grads=tuple(g if g is None else g[-1] for g in vector.grads))
    actual, how = replace(first, outputs=()), "when the inputs are 0-dim"
    yield compare(evidence, "zero-dim", how, actual, expected, tolerance=TOLERANCE)


def _on_elements(session: Session, plain: Plain, places: list[int] | int) -> Pass | None:
    """Make the call with only some elements. Return ``None`` if this changes their outputs."""
    grads, inputs = _elements(plain.grad_outputs, places), _elements(plain.inputs, places)
    done = both_ways(session, grads, inputs=inputs)
    return done if all_alike(done.outputs, _elements(plain.done.outputs, places)) else None


def _stays_alone(session: Session, plain: Plain, place: int) -> bool:
    """Return whether forward returns the same output for an element without the others."""
    inputs = _elements(plain.inputs, place)
    outputs = attempt(lambda: session.run(inputs=inputs, wanted=()).floats)
    if isinstance(outputs, Failure):
        return False
    return all_alike(outputs, _elements(plain.done.outputs, place))


def _elements(values: Sequence[Any], places: list[int] | int) -> list[Any]:
    return [v.reshape(-1)[places] if isinstance(v, Tensor) else v for v in values]


# --------------------------------------------------------------------------------------------------
# Treat dim 0 as a batch: if forward does not mix its slices, backward must not mix them either.
# --------------------------------------------------------------------------------------------------

GROWN = 3  # a batch of 1 is extended to this length
MOST_SLICES = 64  # a longer batch is split into only two parts

Sliced = tuple[int, ...]  # positions of the inputs to split; the slices share the other inputs


def batch_dimension(session: Session, evidence: Evidence) -> Evidence:
    """Compare a batch with its slices, with a longer batch, and with an empty batch."""
    return asked(session, evidence, _batches, draws=False, resizes=True)


def _batches(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Comparison]:
    length = _length(plain.done.outputs)
    compare = _grown if length == 1 else _cut
    best: tuple[Comparison, Sliced] | None = None
    for sliced in _cuts(plain.inputs, length):
        found = compare(session, evidence, plain, sliced)
        if found is None or (length == 1 and not agrees(found) and _may_belong(plain, sliced)):
            continue
        certain = length > 1 or agrees(found)  # an input of length 1 may not belong to the batch
        if certain or best is None or best[0].failure:
            best = found, sliced
        if certain:
            break
    if best is not None:
        yield best[0]
        yield from _emptied(session, evidence, plain, best[1])


def _may_belong(plain: Plain, sliced: Sliced) -> bool:
    """Return whether another input has a dim of length 1, which may have to grow with the batch."""
    others = (it for i, it in enumerate(plain.inputs) if i not in sliced)
    return any(isinstance(it, Tensor) and 1 in it.shape for it in others)


def _length(outputs: Sequence[Tensor]) -> int:
    """Return the size of dim 0 if it is the same for all outputs, else 0."""
    lengths = {len(out) if out.dim() else 0 for out in outputs}
    return lengths.pop() if len(lengths) == 1 else 0


def _cuts(inputs: Sequence[Any], length: int) -> Iterator[Sliced]:
    """Yield sets of inputs to split along dim 0.

    The first set holds every input whose dim 0 has size ``length``. Each of the other sets holds
    one of these inputs.
    """
    fitting = tuple(
        i for i, v in enumerate(inputs) if isinstance(v, Tensor) and v.dim() and len(v) == length
    )
    if any(map(_is_one_matrix, (inputs[i] for i in fitting))):
        return  # the rows of a structured matrix belong together
    if fitting and length:
        yield fitting
    if len(fitting) > 1 and length:  # skip indices, because they may not fit the other inputs
        yield from ((i,) for i in fitting if is_float(inputs[i]))


def _is_one_matrix(value: Tensor) -> bool:
    structure = structure_of(value) if value.dim() == 2 else None
    return structure is not None and structure.is_matrix


def _cut(session: Session, evidence: Evidence, plain: Plain, sliced: Sliced) -> Comparison | None:
    """Compare a call on the whole batch with two calls: one on the first slice, one on the rest.

    If the results differ, compare the whole batch with one call per slice.
    """
    length = _length(plain.done.outputs)
    halves = _compared(session, evidence, plain, sliced, [0, 1, length])
    if halves is None or agrees(halves) or length > MOST_SLICES:
        return halves
    finer = _compared(session, evidence, plain, sliced, range(length + 1))
    return halves if finer is None or agrees(finer) else finer


def _compared(
    session: Session, evidence: Evidence, plain: Plain, sliced: Sliced, cuts: Sequence[int]
) -> Comparison | None:
    pieces = _in_pieces(session, plain, sliced, cuts)
    if pieces is None:
        return None
    how = "when the slices along dim 0 are passed one at a time"
    return compare(evidence, "batch", how, pieces, plain.done, tolerance=TOLERANCE)


def _grown(session: Session, evidence: Evidence, plain: Plain, sliced: Sliced) -> Comparison | None:
    """Compare a longer batch with its slices. The batch is the example plus varied copies of it."""
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
    return compare(evidence, "grown", how, grown.done, pieces, tolerance=TOLERANCE)


def _emptied(
    session: Session, evidence: Evidence, plain: Plain, sliced: Sliced
) -> Iterator[Comparison]:
    """If ``forward`` accepts an empty batch, check its gradients."""
    actual = _piece(session, plain, sliced, slice(0, 0))
    if actual.stage == "forward":
        yield Comparison(REFUSED, "for an empty batch", failure=actual.failure, stage="forward")
    if actual.stage == "forward" or not _are_slices(actual, plain, slice(0, 0)):
        return
    grads = zip(session.wanted, plain.done.grads, strict=True)
    nothing = tuple(
        g if g is None else g[:0] if i in sliced else torch.zeros_like(g) for i, g in grads
    )
    expected = Pass(grads=nothing)
    how = "for an empty batch (dim 0 has size 0)"
    yield compare(
        evidence, "zero-size", how, replace(actual, outputs=()), expected, tolerance=TOLERANCE
    )


def _in_pieces(session: Session, plain: Plain, sliced: Sliced, cuts: Sequence[int]) -> Pass | None:
    """Make one call per piece of the batch, and join the results.

    Return ``None`` if ``forward`` mixes the slices of a batch.
    """
    pieces = []
    for start, stop in pairwise(cuts):
        piece = _piece(session, plain, sliced, slice(start, stop))
        if piece.stage == "forward" or not _are_slices(piece, plain, slice(start, stop)):
            return None
        pieces.append(piece)
    for piece in pieces:  # after the loop, so that forward has accepted every piece
        if piece.failure:
            return piece
    joined = []
    for slot, position in enumerate(session.wanted):
        grads = [grad for piece in pieces if (grad := piece.grads[slot]) is not None]
        joined.append(torch.cat(grads) if position in sliced else torch.stack(grads).sum(0))
    return Pass(plain.done.outputs, tuple(joined))


def _piece(session: Session, plain: Plain, sliced: Sliced, part: slice) -> Pass:
    """Make the call on one piece of the batch. Replace a missing gradient with zeros."""
    inputs = [v[part] if i in sliced else v for i, v in enumerate(plain.inputs)]
    done = both_ways(session, [g[part] for g in plain.grad_outputs], inputs=inputs)
    pairs = zip(session.wanted, done.grads, strict=False)
    grads = (torch.zeros_like(inputs[i]) if grad is None else grad for i, grad in pairs)
    return replace(done, grads=tuple(grads))


def _are_slices(piece: Pass, plain: Plain, part: slice) -> bool:
    return all_alike(piece.outputs, [out[part] for out in plain.done.outputs])
