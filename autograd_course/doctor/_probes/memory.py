"""Does backward need the values that were saved for it?

A saved tensor is exchanged for another one when backward unpacks it. If every gradient stays the
same to the last bit, whatever the other values are, no gradient depends on them. Needed is also
what is needed elsewhere: for a second derivative, where an input is frozen, at other inputs, or
with another number or flag in the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from autograd_course.doctor.evidence import Evidence, Failure, Kept
from autograd_course.doctor.running.calls import attempt, is_float, same_bytes
from autograd_course.doctor.running.saved import Group, groups_in, name_of
from autograd_course.doctor.running.session import Session
from autograd_course.doctor.running.vault import (
    Call,
    Derivatives,
    Exchange,
    Setting,
    called,
    derived_once,
    derived_twice,
    exchanges_for,
)

MOST_TENSORS = 8


@dataclass(frozen=True)
class _Asked:
    """A call, its derivatives as they are, and what backward unpacked for them."""

    session: Session
    setting: Setting
    grad_outputs: Sequence[Tensor | None]
    derivatives: Derivatives
    unpacked: set[int]

    def depends_on(self, group: Group, exchanges: Sequence[Exchange]) -> bool:
        """Whether a derivative depends on a group's values, or it cannot be told."""
        if not self.unpacked.intersection(group):
            return False
        return not exchanges or any(self._changes(group, exchange) for exchange in exchanges)

    def _changes(self, group: Group, exchange: Exchange) -> bool:
        def other() -> Derivatives:
            call = called(self.session, self.setting)
            call.exchange(group, exchange)
            return _derivatives(call, self.setting, self.grad_outputs)

        came = attempt(other)
        return isinstance(came, Failure) or not _same(came, self.derivatives)


def kept(session: Session, evidence: Evidence) -> Evidence:
    """Look which saved tensors hold values that no gradient depends on."""
    if not evidence.forward.whole or not 0 < len(evidence.forward.saved) <= MOST_TENSORS:
        return evidence
    gs = evidence.pulls["random"].grad_outputs
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
    told = (_told(evidence, call, group, group in read, group in used) for group in exchanges)
    return replace(evidence, kept=tuple(told))


def _calls(session: Session, example: _Asked) -> Iterator[_Asked]:
    """Yield the example, and those other calls that run."""
    yield example
    for setting in _elsewhere(session):
        if asked := _asked(session, setting, example.grad_outputs):
            yield asked


def _elsewhere(session: Session) -> Iterator[Setting]:
    """Yield the calls that may need what the example does not."""
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
    """Run a call as it is, ``None`` where it does not run."""

    def plainly() -> _Asked:
        call = called(session, setting)
        derivatives = _derivatives(call, setting, gs)
        return _Asked(session, setting, gs, derivatives, call.unpacked)

    found = attempt(plainly)
    return None if isinstance(found, Failure) else found


def _derivatives(call: Call, setting: Setting, gs: Sequence[Tensor | None]) -> Derivatives:
    return (derived_twice if setting.twice else derived_once)(call.run, gs)


def _same(came: Derivatives, plain: Derivatives) -> bool:
    return len(came) == len(plain) and all(
        one is other if one is None or other is None else same_bytes(one, other)
        for one, other in zip(came, plain, strict=True)
    )


def _exchanges(call: Call, group: Group) -> tuple[Exchange, ...]:
    dtypes = {call.saved[place].dtype for place in group}
    return exchanges_for(dtypes.pop()) if len(dtypes) == 1 else ()


def _told(evidence: Evidence, call: Call, group: Group, read: bool, used: bool) -> Kept:
    tensors = [call.saved[place] for place in group]
    names = tuple(dict.fromkeys(name_of(evidence, call, tensor) for tensor in tensors))
    return Kept(names, tensors[0].untyped_storage().nbytes(), read, used)
