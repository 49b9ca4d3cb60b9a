"""Is a Function needed at all, or does plain autograd on the same forward do the same?

The user's own forward is run as ordinary code, on a stand-in for ctx that does nothing. Both ways
must give the same outputs, gradients and second derivatives, also where a formula overflows or has
a kink; then what they cost is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.doctor.evidence import PLAIN_AUTOGRAD, Cost, Evidence, Failure, Twin
from autograd_course.doctor.probes.twins import twin
from autograd_course.doctor.running.calls import attempt, fresh, is_float, takes_ctx
from autograd_course.doctor.running.graph import custom_nodes
from autograd_course.doctor.running.operations import Recording, memory
from autograd_course.doctor.running.passes import Pass, both_ways, copies, gradients
from autograd_course.doctor.running.session import Move, Run, Session, stay
from autograd_course.doctor.running.vault import Vault, derived_twice

Cotangents = Sequence[Tensor | None]


class StandIn:
    """A ctx to which a forward may tell everything, and which does nothing with it."""

    saved_tensors = ()

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad

    def save_for_backward(self, *tensors: Any) -> None:
        """Autograd saves what it needs itself."""

    save_for_forward = mark_dirty = mark_non_differentiable = save_for_backward
    set_materialize_grads = save_for_backward


def plain(session: Session, evidence: Evidence) -> Evidence:
    """Put the Function and plain autograd on its forward side by side."""
    function = session.subject.function
    if function is None or not evidence.forward.whole or _has_other_reasons(function):
        return evidence
    if not any(output.numel() for output in evidence.forward.outputs):
        return evidence
    subject = replace(session.subject, call=_as_ordinary_code(function), function=None)
    ordinary = Session(subject, session.inputs, session.wanted, session.seed)
    gs = evidence.pulls["random"].grad_outputs
    mine, other = (attempt(partial(_cost, one, gs)) for one in (session, ordinary))
    if isinstance(mine, Failure) or isinstance(other, Failure):
        return evidence
    costs = {"function": mine, "plain": other}
    twins = _twins(session, ordinary, evidence, gs)
    return replace(evidence, costs=costs, twins=(*evidence.twins, *twins))


def _has_other_reasons(function: type[Function]) -> bool:
    """Whether a Function also says how it is batched or exported."""
    return function.vmap is not Function.vmap or hasattr(function, "symbolic")


def _as_ordinary_code(function: type[Function]) -> Callable[..., Any]:
    if not takes_ctx(function):
        return function.forward

    def call(*args: Any) -> Any:
        needs = tuple(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        return function.forward(StandIn(needs), *args)

    return call


def _twins(
    session: Session, ordinary: Session, evidence: Evidence, gs: Cotangents
) -> Iterator[Twin]:
    """Yield what both ways give where the Function gives an answer."""

    def like(outputs: Sequence[Tensor]) -> Cotangents:
        pairs = zip(gs, outputs, strict=True)
        return [g if g is None else g.to(out.dtype) for g, out in pairs]

    def passes(one: Session) -> Iterator[tuple[str, Pass]]:
        yield "in float32", both_ways(one, like, _single)
        for how, inputs in _places(session.inputs):
            yield how, both_ways(one, gs, inputs=inputs)
        yield "differentiated twice", _second_pass(one, gs)

    for (how, should), (_, came) in zip(passes(session), passes(ordinary), strict=True):
        if not should.failure:
            yield twin(evidence, PLAIN_AUTOGRAD, how, came, should)


def _places(inputs: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the example, and where formulas differ: overflow, underflow, ties and kinks."""
    elsewhere: dict[str, Move] = {
        "on the example": stay,
        "at 30 times the inputs": lambda t: 30 * t,
        "at 1000 times the inputs": lambda t: 1000 * t,
        "at zero": torch.zeros_like,
        "at one": torch.ones_like,
        "at whole numbers": _rounded,
    }
    for how, move in elsewhere.items():
        yield how, [move(value) if is_float(value) else value for value in inputs]


def _rounded(tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        return torch.complex(tensor.real.round(), tensor.imag.round())
    return tensor.round()


def _single(tensor: Tensor) -> Tensor:
    return tensor.to(torch.complex64 if tensor.is_complex() else torch.float32)


def _second_pass(session: Session, gs: Cotangents) -> Pass:
    """Return the second derivatives as a pass; a failure where the Function has none."""
    found = attempt(lambda: derived_twice(session.run(), gs))
    if isinstance(found, Failure):
        return Pass(failure=found, stage="backward")
    again = found[len(session.wanted) : 2 * len(session.wanted)]
    return Pass(grads=again or tuple(None for _ in session.wanted))


def _cost(session: Session, gs: Cotangents) -> Cost:
    """Run forward and backward; count the memory that lives in between, and the operations."""
    leaves, args = fresh(session.inputs, session.wanted)
    vault, recording = Vault(), Recording()
    with recording, vault.hooks():
        run = Run(leaves, args, session.call(args))
    cotangents = copies(gs)
    with recording:
        gradients(run, cotangents)
    alive = memory([vault.saved, run.returned, *map(vars, custom_nodes(run.tensors))])
    sizes = sorted(storage.nbytes() for storage in alive)
    return Cost(tuple(sizes), len(recording.operations))
