"""From the account of a pass to its trace: names, roles, indices."""

from collections import Counter
from collections.abc import Iterable

from autograd_course.visualize.memory.hooks import CHECKPOINT, SavedTensors
from autograd_course.visualize.memory.ledger import Entry, Ledger, Moment, Owner
from autograd_course.visualize.memory.trace import AGAIN, Event, Kept, MemoryTrace
from autograd_course.visualize.memory.watch import Watch


def finished(
    title: str, ledger: Ledger, watch: Watch, saved: SavedTensors, again_modules: int
) -> MemoryTrace:
    """Return the trace that an account tells; of the account nothing is kept."""
    _name([*_owners(ledger)], watch)
    entries = {entry: number for number, entry in enumerate(ledger.entries)}
    moments = {moment: number for number, moment in enumerate(ledger.moments)}
    return MemoryTrace(
        title=title,
        kept=tuple(_kept(entry, entries, moments, watch, saved) for entry in ledger.entries),
        events=tuple(_event(moment, entries) for moment in ledger.moments),
        operations=watch.counts["forward"],
        backward_operations=watch.counts["backward"],
        again_operations=watch.counts["again"],
        again_modules=again_modules,
    )


def _owners(ledger: Ledger) -> Iterable[Owner]:
    owners = [moment.owner for moment in ledger.moments]
    owners += [owner for entry in ledger.entries for owner in (entry.owner, *entry.also)]
    return sorted({owner for owner in owners if owner}, key=lambda owner: owner.seq)


def _name(owners: Iterable[Owner], watch: Watch) -> None:
    """Number the names that repeat, in the order of forward."""
    count: Counter[str] = Counter()
    for owner in owners:
        owner.op = owner.op or watch.names.get(owner.seq, "operation")
        plain = f"{owner.op} {AGAIN}" if owner.again else owner.op
        count[plain] += 1
        owner.name = plain if count[plain] == 1 else f"{plain} {count[plain]}"


def _kept(
    entry: Entry,
    entries: dict[Entry, int],
    moments: dict[Moment, int],
    watch: Watch,
    saved: SavedTensors,
) -> Kept:
    return Kept(
        id=entries[entry],
        owner=entry.owner.name,
        op=entry.owner.op,
        module=entry.owner.module,
        role=entry.role or _role(entry, watch, saved),
        shape=entry.shape,
        dtype=entry.dtype,
        bytes=entry.bytes,
        part=entry.part,
        how=entry.how,
        anyway=entry.anyway,
        also=tuple(owner.name for owner in entry.also),
        line=entry.line,
        born=moments[entry.born],
        freed=None if entry.freed is None else moments[entry.freed],
    )


def _role(entry: Entry, watch: Watch, saved: SavedTensors) -> str:
    """Tell what a saved tensor is to the node that saved it.

    A custom Function's outputs are known by who reads them: a later operation, or the caller.
    """
    owner = entry.owner
    if owner.op == CHECKPOINT:
        return "input"
    if owner.custom:
        if entry.key in saved.inputs.get(owner, ()):
            return "input"
        read = watch.last_read.get(entry.key, -1) > saved.ticks[entry]
        return "output" if read or entry.key in saved.outputs else "intermediate"
    if entry.key in watch.makes.get(owner.seq, ()):
        return "output"
    return "input" if entry.key in watch.reads.get(owner.seq, ()) else "intermediate"


def _event(moment: Moment, entries: dict[Entry, int]) -> Event:
    def ids(found: Iterable[Entry]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(entries[entry] for entry in found))

    owner, inside = moment.owner, moment.inside
    return Event(
        phase=moment.phase,
        kind=moment.kind,
        name=owner.name if owner else "",
        module=owner.module if owner else "",
        inside=inside.name if inside else "",
        by=moment.by,
        saves=ids(moment.saves),
        again=ids(moment.again),
        frees=ids(moment.frees),
        passed=moment.passed,
        kept=moment.kept,
        high=moment.high,
        alive=moment.alive,
        alive_high=moment.alive_high,
        allocated=moment.allocated,
    )
