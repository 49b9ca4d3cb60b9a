"""Malicious submissions, with one family per module. ``BANK`` maps "family: what" to each one."""

from collections.abc import Mapping

from hostile.bombs import BOMBS
from hostile.borrowing import BORROWING
from hostile.detecting import DETECTING
from hostile.exits import EXITS
from hostile.files import FILES
from hostile.forging import FORGING
from hostile.hoarding import HOARDING
from hostile.lingering import LINGERING
from hostile.loops import LOOPS
from hostile.making import Hostile
from hostile.objects import OBJECTS
from hostile.patching import PATCHING
from hostile.peeking import PEEKING
from hostile.poisoning import POISONING
from hostile.reaching_out import REACHING_OUT
from hostile.rebinding import REBINDING
from hostile.spying import SPYING
from hostile.underived import UNDERIVED

__all__ = ["BANK", "FILES", "Hostile"]

_FAMILIES: Mapping[str, Mapping[str, Hostile]] = {
    "rebinding": REBINDING,
    "patching": PATCHING,
    "exits": EXITS,
    "forging": FORGING,
    "loops": LOOPS,
    "bombs": BOMBS,
    "hoarding": HOARDING,
    "spying": SPYING,
    "reaching out": REACHING_OUT,
    "lingering": LINGERING,
    "poisoning": POISONING,
    "borrowing": BORROWING,
    "peeking": PEEKING,
    "detecting": DETECTING,
    "objects": OBJECTS,
    "underived": UNDERIVED,
}
BANK = {
    f"{family}: {what}": hostile
    for family, hostiles in _FAMILIES.items()
    for what, hostile in hostiles.items()
}
