"""What autograd kept during one forward and one backward pass, as plain data."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Phase = Literal["start", "forward", "backward", "after"]
AGAIN = "↻"  # marks the name of a node that belongs to a forward run again inside backward
How = Literal["saved", "attribute", "again"]
Kind = Literal["start", "save", "pass", "attribute", "turn", "run", "free", "end", "many"]


@dataclass(frozen=True)
class Kept:
    """A storage that autograd keeps, counted once however many tensors share it.

    ``owner`` is the node that kept it first, ``also`` names the others; ``op`` is the owner's
    operation, ``module`` the path of the module whose forward ran. ``role`` tells what the tensor
    is to its owner (``input``, ``output`` or ``intermediate``). ``bytes`` is the size of the whole
    storage, ``part`` that of the tensor in it. ``how`` is ``saved`` (by ``save_for_backward``),
    ``attribute`` (on the ctx of a custom Function, where no hook sees it) or ``again`` (saved by a
    forward that ran inside backward). ``anyway`` names what holds the storage besides autograd – an
    input, a parameter – so that it costs nothing. ``line`` is the line of the caller's code.
    ``born`` and ``freed`` are indices of events; ``freed`` is ``None`` if nothing freed it.
    """

    id: int
    owner: str
    op: str
    module: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    part: int
    how: How
    anyway: str
    also: tuple[str, ...]
    line: str
    born: int
    freed: int | None

    @property
    def extra(self) -> int:
        """The bytes that it costs: 0 where the storage is alive anyway."""
        return 0 if self.anyway else self.bytes

    def lives(self, event: int) -> bool:
        """Whether it is kept when an event is over."""
        return self.born <= event and (self.freed is None or event < self.freed)


@dataclass(frozen=True)
class Event:
    """One moment: a node saves, a node runs in backward, something is freed.

    ``saves``, ``again`` and ``frees`` are ids of :class:`Kept`: kept from now on, saved already by
    another node, and no longer kept. ``passed`` are bytes that were handed to other saved-tensor
    hooks (``by``), which keep nothing of them here. ``kept`` are the bytes that autograd keeps when
    the event is over and ``high`` the most during it; ``alive`` and ``alive_high`` are the same for
    all tensors that the call made, kept or not, as the dispatcher sees them. ``allocated`` is what
    the CUDA allocator has given out since the start, ``None`` on the CPU.
    """

    phase: Phase
    kind: Kind
    name: str = ""
    module: str = ""
    inside: str = ""
    by: str = ""
    saves: tuple[int, ...] = ()
    again: tuple[int, ...] = ()
    frees: tuple[int, ...] = ()
    passed: int = 0
    kept: int = 0
    high: int = 0
    alive: int = 0
    alive_high: int = 0
    allocated: int | None = None
    merged: int = 1


@dataclass(frozen=True)
class MemoryTrace:
    """One forward and one backward pass of ``title``, and all that was kept on the way.

    ``operations`` counts what forward computed, ``backward_operations`` what backward did;
    ``again_operations`` of these ran under grad mode: a forward that runs again. Views are not
    counted. ``again_modules`` counts the module calls inside backward.
    """

    title: str
    kept: tuple[Kept, ...]
    events: tuple[Event, ...]
    operations: int
    backward_operations: int
    again_operations: int
    again_modules: int = 0

    @property
    def peak(self) -> int:
        """The most bytes that autograd kept at any moment, what is alive anyway not counted."""
        return max(event.high for event in self.events)

    @property
    def peak_event(self) -> int:
        """The first event at which the peak is reached."""
        return next(i for i, event in enumerate(self.events) if event.high == self.peak)

    @property
    def turn(self) -> int:
        """The event between forward and backward."""
        return next(i for i, event in enumerate(self.events) if event.kind == "turn")

    @property
    def between(self) -> int:
        """The bytes kept when forward is over and backward has not begun."""
        return self.events[self.turn].kept

    @property
    def anyway(self) -> int:
        """The bytes of what is saved but alive anyway: inputs and parameters."""
        return sum(item.bytes for item in self.kept if item.anyway)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        return asdict(self)
