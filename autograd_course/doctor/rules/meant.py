"""What about a wrong gradient may be by design, so that the report says how that is declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autograd_course.doctor.comparing.closeness import identical
from autograd_course.doctor.comparing.mismatch import Mismatch
from autograd_course.doctor.rules.labels import labeled


def perhaps_meant(rule: str, wrong: Sequence[Mismatch]) -> dict[str, Any]:
    """Return what evidence there is of a design, for mismatches that one rule explains."""
    return dict(_found(rule, wrong))


def _found(rule: str, wrong: Sequence[Mismatch]) -> Iterator[tuple[str, Any]]:
    without = [m.name for m in wrong if not m.returned]
    if without and len(without) < len(wrong[0].evidence.wanted):
        yield "without_gradient", without  # others have one: these may be data
    if held := [m.name for m in wrong if _held_fixed(m)]:
        yield "held_fixed", held
    if rule == "constant-factor" and all(map(_returned, wrong)):
        yield "acts_on_the_gradient_alone", True  # a reversal or a scale


def _held_fixed(m: Mismatch) -> bool:
    """Whether the gradient is 0 exactly where an argument says, as that of padding is."""
    return bool(m.actual.any()) and not bool(m.actual[m.wrong].any()) and labeled(m) is not None


def _returned(m: Mismatch) -> bool:
    """Whether forward returns the input as it is."""
    return any(identical(output, m.input) for output in m.evidence.forward.outputs)
