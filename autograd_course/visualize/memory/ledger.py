"""The record of a run: which node holds which storage at each event."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["start", "forward", "backward", "after"]
How = Literal["saved", "attribute", "again"]
Kind = Literal["start", "save", "pass", "attribute", "turn", "run", "free", "end", "many"]


@dataclass(eq=False)
class Owner:
    """The node that saved a storage. ``seq`` is its position in forward order."""

    op: str
    seq: int
    module: str = ""
    again: bool = False
    custom: bool = False
    name: str = ""


@dataclass(eq=False)
class Entry:
    """A storage that autograd holds. ``holds`` counts the references to it."""

    key: int
    bytes: int
    owner: Owner
    shape: tuple[int, ...]
    dtype: str
    part: int
    role: str
    how: How
    line: str
    anyway: str
    born: "Moment"
    freed: "Moment | None" = None
    holds: int = 0
    also: list[Owner] = field(default_factory=list)


@dataclass(eq=False)
class Moment:
    """An event that is still being recorded."""

    phase: Phase
    kind: Kind
    owner: Owner | None = None
    seq: int = -1
    by: str = ""
    inside: Owner | None = None
    saves: list[Entry] = field(default_factory=list)
    again: list[Entry] = field(default_factory=list)
    frees: list[Entry] = field(default_factory=list)
    passed: int = 0
    kept: int = 0
    high: int = 0
    alive: int = 0
    alive_high: int = 0
    allocated: int | None = None


class Ledger:
    """Saved bytes and bytes in memory, and the moments at which they changed.

    ``known`` maps the keys of storages that are already resident to their names. ``allocated`` is a
    callable that returns the number of bytes that the device's allocator has allocated.
    """

    def __init__(self, known: dict[int, str], allocated: Callable[[], int | None]) -> None:
        self.known = known
        self.allocated = allocated
        self.moments: list[Moment] = []
        self.entries: list[Entry] = []
        self.held: dict[int, Entry] = {}
        self.kept = self.alive = self._early = 0
        self.phase: Phase = "start"
        self.running: Owner | None = None  # the node that runs in backward
        self.closed = False  # storages that are freed after this are not recorded
        self.begin("start")

    def begin(self, kind: Kind, owner: Owner | None = None, **about: Any) -> Moment:
        """End the current moment and begin a new one."""
        moment = Moment(self.phase, kind, owner, **about)
        if self.phase == "backward" and kind != "run":
            moment.inside = self.running
        moment.high, moment.alive_high = self.kept, max(self.alive, self._early)
        self._early = 0
        self.settle()
        self.moments.append(moment)
        return moment

    @property
    def now(self) -> Moment:
        """The current moment."""
        return self.moments[-1]

    def settle(self) -> None:
        """Record the totals at the end of the current moment."""
        if self.moments:
            now = self.now
            now.kept, now.alive, now.allocated = self.kept, self.alive, self.allocated()
            if now.kind == "start":  # recorded only when the first operation has run
                now.alive = 0
                now.allocated = None if now.allocated is None else 0

    def saving(self, owner: Owner, kind: Kind, by: str, seq: int) -> Moment:
        """Return the moment for a node that saves. All tensors of the node share this moment."""
        now = self.now
        if (now.kind, now.owner, now.by) == (kind, owner, by) and not now.frees:
            return now
        return self.begin(kind, owner, by=by, seq=seq)

    def hold(self, key: int, size: int, owner: Owner, moment: Moment, **about: Any) -> Entry:
        """Count a storage unless it is already counted or resident, and return its entry."""
        entry = self.held.get(key)
        if entry is None:
            anyway = self.known.get(key, "")
            entry = Entry(key, size, owner, anyway=anyway, born=moment, **about)
            self.entries.append(entry)
            self.held[key] = entry
            moment.saves.append(entry)
            self._grow(0 if anyway else size)
        else:
            (moment.saves if entry in moment.saves else moment.again).append(entry)
            if owner is not entry.owner and owner not in entry.also:
                entry.also.append(owner)
        entry.holds += 1
        return entry

    def release(self, entry: Entry) -> None:
        """Release one reference. When the last reference is released, the storage is freed."""
        if self.closed:
            return
        entry.holds -= 1
        if entry.holds:
            return
        if self.now.kind in ("save", "pass", "attribute"):
            self.begin("free")
        self.now.frees.append(entry)
        entry.freed = self.now
        del self.held[entry.key]
        if not entry.anyway:
            self.kept -= entry.bytes

    def _grow(self, size: int) -> None:
        self.kept += size
        self.now.high = max(self.now.high, self.kept)

    def lived(self, size: int) -> None:
        """Count the bytes of a new tensor, or of a freed tensor if ``size`` is negative."""
        self.alive += size
        if self.now.kind == "start":  # nothing is saved yet, so the bytes belong to the first event
            self._early = max(self._early, self.alive)
        else:
            self.now.alive_high = max(self.now.alive_high, self.alive)
