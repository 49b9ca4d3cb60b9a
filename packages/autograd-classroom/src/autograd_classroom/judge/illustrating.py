"""Add a picture to a finding if the evidence contains enough data for one."""

from __future__ import annotations

from dataclasses import replace

from autograd_doctor import Finding
from autograd_doctor.extension import Conclusion

from autograd_classroom.pictures import PICTURE, as_data


def illustrated(done: Conclusion) -> tuple[Finding, ...]:
    """Return the findings. If a gradient is incorrect, add the Jacobians to the first finding."""
    try:
        pair = done.jacobians()
    except Exception:  # the rows of a Jacobian come from the sandbox, so they may have any shape
        return done.findings
    if pair is None:
        return done.findings
    first, *others = done.findings
    return (replace(first, evidence={**first.evidence, PICTURE: as_data(pair)}), *others)
