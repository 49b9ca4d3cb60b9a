"""Rules of value: does forward compute what the reference does?"""

from __future__ import annotations

import torch
from torch import Tensor

from autograd_course.doctor.comparing.closeness import size
from autograd_course.doctor.comparing.numbers import plain
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.words import elements, plural


@rule(
    "forward-mismatch",
    "values",
    "error",
    "forward differs from the reference",
    hint="Repair `forward` first: a gradient can be right only for the function that `forward` "
    "computes.",
    lesson="01_template",
    after=("contract",),
    by_design=("values", "wrong-jvp", "overflow"),
)
def forward_mismatch(evidence: Evidence) -> Seen | None:
    wanted = evidence.reference_outputs
    if wanted is None or evidence.forward.failure:
        return None
    got = evidence.forward.outputs
    if len(got) != len(wanted):
        return Seen(
            f"`forward` returns {plural(len(got), 'tensor')}, but the reference returns "
            f"{len(wanted)}."
        )
    for k, (mine, reference) in enumerate(zip(got, wanted, strict=True)):
        which = "output" if len(got) == 1 else f"output {k}"
        named = "the output" if len(got) == 1 else which
        if mine.shape != reference.shape:
            return Seen(
                f"{named} of `forward` has shape {tuple(mine.shape)}, but the reference returns "
                f"shape {tuple(reference.shape)}.",
                {"expected": list(reference.shape), "actual": list(mine.shape)},
            )
        off = _far(mine, reference)
        if bool(off.any()):
            index = tuple(off.nonzero()[0].tolist())
            return Seen(
                f"{named} of `forward` differs from the reference at "
                f"{elements(int(off.sum()), off.numel())}.",
                {
                    "input": which,
                    "index": list(index),
                    "expected": plain(reference[index]),
                    "actual": plain(mine[index]),
                },
            )
    return None


def _far(mine: Tensor, reference: Tensor) -> Tensor:
    close = torch.isclose(
        mine.to(reference.dtype), reference, rtol=1e-7, atol=1e-9 * size(reference), equal_nan=True
    )
    return ~close
