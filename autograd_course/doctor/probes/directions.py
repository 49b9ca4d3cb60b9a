"""Directions to move along, in which forward is known to have a derivative."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.truth.differences import as_real
from autograd_course.doctor.truth.symmetry import is_symmetric, mirrored


def smooth_directions(evidence: Evidence) -> Iterator[Tensor]:
    """Yield a tensor like each wanted input: random, and 0 where forward is not smooth.

    It is 0 as well where that was not examined. A symmetric matrix stays symmetric along it.
    """
    slopes = evidence.slopes
    settled = slopes is not None and bool(slopes.smooth.all())
    for k, position in enumerate(evidence.wanted):
        like = evidence.inputs[position]
        flat = torch.zeros_like(as_real(like)).reshape(-1)
        if slopes is not None and settled:
            flat = slopes.vectors[k][:, 0].clone()
        elif slopes is not None and k < len(evidence.jacobian):
            columns = evidence.jacobian[k]
            smooth = columns.index[columns.smooth].to(flat.device)
            flat[smooth] = slopes.vectors[k][smooth, 0]
        real = flat.reshape(as_real(like).shape)
        if not like.is_complex() and is_symmetric(like):
            real = mirrored(real)
        yield torch.view_as_complex(real) if like.is_complex() else real
