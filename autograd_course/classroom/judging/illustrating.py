"""A finding takes along the picture that shows it, as far as what came can be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autograd_course.classroom.pictures import PICTURE, as_data
from autograd_doctor._pipeline import Findings
from autograd_doctor._report.jacobians import choose_jacobians
from autograd_doctor.evidence import Evidence


def illustrated(
    found: Findings, verdicts: Sequence[Findings], seen: Sequence[Evidence]
) -> Findings:
    """Return the findings; to the first, where values are wrong, its Jacobians are added."""
    try:
        pair = choose_jacobians(found, verdicts, seen)
    except Exception:  # rows of a Jacobian came from the other side: they may be of any shape
        return found
    if pair is None:
        return found
    first, *others = found
    return (replace(first, evidence={**first.evidence, PICTURE: as_data(pair)}), *others)
