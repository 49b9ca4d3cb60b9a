"""Find unneeded saved tensors, wasted computations, and graphs in reference cycles."""

from __future__ import annotations

import gc
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt
from autograd_doctor._execution.operations import OperationRecorder, custom_nodes
from autograd_doctor._execution.passes import copies, gradients, handed_over
from autograd_doctor._execution.saved_tensors import (
    Call,
    Derivatives,
    Exchange,
    Group,
    SavedTensorSwapper,
    Setting,
    called,
    derived_once,
    derived_twice,
    exchanges_for,
    groups_in,
    name_of,
)
from autograd_doctor._execution.session import Session
from autograd_doctor._numerics.tensors import is_float, same_bytes
from autograd_doctor.evidence import RANDOM, Evidence, Failure, Kept, WastedGradient

# --------------------------------------------------------------------------------------------------
# Does backward need the values that were saved for it?
#
# When backward unpacks a saved tensor, the probe gives it a tensor with different values. If no
# replacement changes a gradient, no gradient depends on the saved values. A tensor also counts as
# needed if a variant of the call needs it: a second derivative, a frozen input, other inputs, or
# another number or flag as an argument.
# --------------------------------------------------------------------------------------------------

MOST_TENSORS = 8


@dataclass(frozen=True)
class _Asked:
    """The derivatives of a call with its original saved tensors, and the tensors it unpacked."""

    session: Session
    setting: Setting
    grad_outputs: Sequence[Tensor | None]
    derivatives: Derivatives
    unpacked: set[int]

    def depends_on(self, group: Group, exchanges: Sequence[Exchange]) -> bool:
        """Return whether a derivative depends on the values of a group of saved tensors.

        Return true if this is unknown.
        """
        if not self.unpacked.intersection(group):
            return False
        return not exchanges or any(self._changes(group, exchange) for exchange in exchanges)

    def _changes(self, group: Group, exchange: Exchange) -> bool:
        def other() -> Derivatives:
            call = called(self.session, self.setting)
            call.exchange(group, exchange)
            return _derivatives(call, self.setting, self.grad_outputs)

        actual = attempt(other)
        return isinstance(actual, Failure) or not _same(actual, self.derivatives)


def kept(session: Session, evidence: Evidence) -> Evidence:
    """Find saved tensors whose values do not affect any gradient."""
    if not evidence.forward.whole or not 0 < len(evidence.forward.saved) <= MOST_TENSORS:
        return evidence
    gs = evidence.values.vjps[RANDOM].grad_outputs
    example = _asked(session, Setting(session.inputs, session.wanted), gs)
    if example is None:
        return evidence
    call = called(session, example.setting)
    exchanges = {group: _exchanges(call, group) for group in groups_in(call)}
    read, used = set[Group](), set[Group]()
    for asked in _calls(session, example):
        read |= {group for group in exchanges if asked.unpacked.intersection(group)}
        used |= {
            group
            for group, ways in exchanges.items()
            if group not in used and asked.depends_on(group, ways)
        }
        if len(used) == len(exchanges):
            break
    told = (_kept_of(evidence, call, group, group in read, group in used) for group in exchanges)
    return replace(evidence, memory=replace(evidence.memory, kept=tuple(told)))


def _calls(session: Session, example: _Asked) -> Iterator[_Asked]:
    """Yield the call on the example, then each variant of the call that raises no error."""
    yield example
    for setting in _elsewhere(session):
        if asked := _asked(session, setting, example.grad_outputs):
            yield asked


def _elsewhere(session: Session) -> Iterator[Setting]:
    """Yield variants of the call that may need saved values that the example does not need."""
    floating = [position for position, value in enumerate(session.inputs) if is_float(value)]
    yield Setting(session.inputs, floating, twice=True)
    if len(floating) > 1:
        yield from (Setting(session.inputs, (position,)) for position in floating)
    for factor in (-1.0, 100.0):
        scaled = [factor * value if is_float(value) else value for value in session.inputs]
        yield Setting(scaled, session.wanted)
    for position, value in enumerate(session.inputs):
        if isinstance(value, bool | int | float):
            other = [*session.inputs[:position], _another(value), *session.inputs[position + 1 :]]
            yield Setting(other, session.wanted)


def _another(number: bool | int | float) -> bool | int | float:
    if isinstance(number, bool):
        return not number
    return number + 1 if isinstance(number, int) else 0.5 * number + 0.25


def _asked(session: Session, setting: Setting, gs: Sequence[Tensor | None]) -> _Asked | None:
    """Run a call with its original saved tensors. Return ``None`` if the call fails."""

    def plainly() -> _Asked:
        call = called(session, setting)
        derivatives = _derivatives(call, setting, gs)
        return _Asked(session, setting, gs, derivatives, call.unpacked)

    found = attempt(plainly)
    return None if isinstance(found, Failure) else found


def _derivatives(call: Call, setting: Setting, gs: Sequence[Tensor | None]) -> Derivatives:
    return (derived_twice if setting.twice else derived_once)(call.run, gs)


def _same(actual: Derivatives, plain: Derivatives) -> bool:
    return len(actual) == len(plain) and all(
        one is other if one is None or other is None else same_bytes(one, other)
        for one, other in zip(actual, plain, strict=True)
    )


def _exchanges(call: Call, group: Group) -> tuple[Exchange, ...]:
    dtypes = {call.saved[place].dtype for place in group}
    return exchanges_for(dtypes.pop()) if len(dtypes) == 1 else ()


def _kept_of(evidence: Evidence, call: Call, group: Group, read: bool, used: bool) -> Kept:
    tensors = [call.saved[place] for place in group]
    names = tuple(dict.fromkeys(name_of(evidence, call, tensor) for tensor in tensors))
    return Kept(names, tensors[0].untyped_storage().nbytes(), read, used)


# --------------------------------------------------------------------------------------------------
# Does backward compute a gradient that the call does not need?
#
# The probe freezes one input, calls backward directly, and records its operations. An operation is
# wasted if it contributes only to the gradient of the frozen input.
# --------------------------------------------------------------------------------------------------

MOST_INPUTS = 8


@dataclass(frozen=True)
class Backward:
    """A recorded call to ``backward``.

    ``names`` lists the operations. For each gradient, ``leading`` holds the positions of the
    operations that contribute to it.
    """

    names: tuple[str, ...]
    leading: tuple[set[int], ...]  # in the order of the arguments

    def toward(self, position: int) -> set[int]:
        """Return the positions of the operations that contribute to the gradient of an argument."""
        return self.leading[position] if position < len(self.leading) else set()


def wasted_gradients(session: Session, evidence: Evidence) -> Evidence:
    """Record the operations in ``backward`` that contribute only to gradients of frozen inputs."""
    floating = [position for position, value in enumerate(session.inputs) if is_float(value)]
    if not evidence.forward.whole or not 2 <= len(floating) <= MOST_INPUTS:
        return evidence
    gs = [g for g in evidence.values.vjps[RANDOM].grad_outputs if g is not None]
    everything = _backward(session, gs, session.wanted)
    if everything is None:
        return evidence
    return replace(
        evidence,
        memory=replace(
            evidence.memory, wasted_gradients=tuple(_wasted(session, gs, floating, everything))
        ),
    )


def _wasted(
    session: Session, gs: Sequence[Tensor], floating: Sequence[int], everything: Backward
) -> Iterator[WastedGradient]:
    for frozen in floating:
        asking = [position for position in session.wanted if position != frozen]
        backward = _backward(session, gs, asking) if asking else None
        if backward is None:
            continue
        # If backward computes a gradient and then discards it, it runs the same operations as
        # without a frozen input. The recording without frozen inputs shows which ones are wasted.
        same = backward.names == everything.names
        needed = set().union(*map(backward.toward, asking))
        wasted = (everything if same else backward).toward(frozen) - needed
        if wasted:
            yield WastedGradient(frozen, tuple(backward.names[place] for place in sorted(wasted)))


def _backward(session: Session, gs: Sequence[Tensor], wanted: Sequence[int]) -> Backward | None:
    """Call ``backward`` directly and record its operations. Return ``None`` if this fails."""
    run = attempt(lambda: session.run(wanted=wanted))
    if isinstance(run, Failure):
        return None
    node = next(custom_nodes(run.tensors, depth=1), None)
    if node is None:
        return None
    given = list(handed_over(run.returned, gs))
    recording = OperationRecorder()
    with torch.no_grad(), recording:
        got = attempt(lambda: node.apply(*given))
    if isinstance(got, Failure):
        return None
    grads = got if isinstance(got, tuple) else (got,)
    return Backward(recording.names, tuple(map(recording.leading_to, grads)))


# --------------------------------------------------------------------------------------------------
# How often does backward unpack a saved tensor, and is the graph freed?
# --------------------------------------------------------------------------------------------------

WHILE = 0.02  # seconds that the engine's threads get to release their references to a graph


def unpacking(session: Session, evidence: Evidence) -> Evidence:
    """Count how often one backward pass of a custom node unpacks the same saved tensor."""
    swapper = SavedTensorSwapper()

    def most() -> int:
        with swapper.hooks():
            run = session.run()
        numbers = [n for node in custom_nodes(run.tensors) for n in swapper.numbers_of(node)]
        swapper.unpacked.clear()  # a callable can run backward passes itself
        gradients(run, copies(evidence.values.vjps[RANDOM].grad_outputs))
        times = Counter(swapper.unpacked)
        return max((times[number] for number in numbers), default=0)

    counted = attempt(most)
    return (
        replace(evidence, memory=replace(evidence.memory, unpacked=counted))
        if isinstance(counted, int)
        else evidence
    )


def cycles(session: Session, evidence: Evidence) -> Evidence:
    """Check whether deleting the results of a call frees its graph, before and after backward."""
    with _no_collector():
        outlived = tuple(
            stage
            for stage in ("forward", "backward")
            if _only_the_collector_frees(_dropped(session, evidence, stage == "backward"))
        )
    return replace(evidence, memory=replace(evidence.memory, outlived=outlived))


@contextmanager
def _no_collector() -> Iterator[None]:
    """Disable Python's cyclic garbage collector inside a ``with`` block."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _dropped(session: Session, evidence: Evidence, backward: bool) -> list[weakref.ref[object]]:
    """Make a call, delete its results, and return weak references to each ctx in its graph."""

    def call() -> list[weakref.ref[object]]:
        run = session.run(watched=False)  # logging would keep the tensors alive
        contexts = [weakref.ref(node) for node in custom_nodes(run.tensors)]
        if backward:
            gradients(run, copies(evidence.values.vjps[RANDOM].grad_outputs))
        return contexts

    contexts = attempt(call)
    return contexts if isinstance(contexts, list) else []


def _only_the_collector_frees(contexts: list[weakref.ref[object]]) -> bool:
    """Return whether a reference cycle keeps a ctx alive until the garbage collector runs."""
    if not _alive(contexts):
        return False
    time.sleep(WHILE)
    before = _alive(contexts)
    if not before:
        return False
    gc.collect()
    return _alive(contexts) < before


def _alive(contexts: list[weakref.ref[object]]) -> int:
    return sum(context() is not None for context in contexts)


# --------------------------------------------------------------------------------------------------
# Find outputs that autograd treats as views even though they share no memory with an input.
# --------------------------------------------------------------------------------------------------


def own_views(session: Session, evidence: Evidence) -> Evidence:
    """Record the outputs that are views of tensors created in ``forward``."""
    run = attempt(session.run)
    if isinstance(run, Failure) or not evidence.forward.whole:
        return evidence
    shared = {output for output, _ in evidence.forward.views}
    views = (i for i, out in enumerate(run.tensors) if out.requires_grad and out._is_view())
    return replace(
        evidence,
        contract=replace(evidence.contract, own_views=tuple(i for i in views if i not in shared)),
    )
