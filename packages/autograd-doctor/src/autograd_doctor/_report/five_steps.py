"""Describe the five debugging steps, using evidence that has already been collected.

This module runs no user code. If slopes along random directions confirmed the gradient, the doctor
did not compute a Jacobian. In this case, the steps show the slopes instead of single elements. The
last step compares the numerical and the analytical Jacobian with gradcheck's default tolerances.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from autograd_doctor import card
from autograd_doctor._numerics.finite_differences import as_real
from autograd_doctor._numerics.projection import along_directions, flat_cotangent
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor.evidence import RANDOM, Evidence, Failure
from autograd_doctor.formatting import element, unraveled
from autograd_doctor.steps import (
    DIFFERENCES,
    TITLES,
    Step,
    Steps,
    describe_contract,
    describe_element,
    describe_forward,
    describe_gradcheck,
    describe_magnitudes,
    describe_never_called,
    describe_raised,
    describe_untaken,
    furthest,
)

ATOL, RTOL = 1e-5, 1e-3  # gradcheck's defaults


def steps_of(evidence: Evidence) -> Steps:
    """Return the five debugging steps for the inputs in ``evidence``."""
    steps: list[Step] = []
    for title, take in zip(
        TITLES, (_forward, _contract, _magnitudes, _element, _gradcheck), strict=True
    ):
        stopped = next((step for step in steps if step.stops), None)
        steps.append(describe_untaken(title, stopped) if stopped else take(evidence))
    return Steps(evidence.subject, tuple(steps))


def as_html(steps: Steps) -> str:
    """Return the steps as an HTML block in the report's style."""
    rows: list[tuple[str, str]] = []
    for step in steps:
        title = card.Heading(f"{step.number} {step.title}")
        rows.append((title, f"{step.mark} {step.seen}"))
        if step is steps.first_broken:
            rows.append(("", step.means))
    kind = "passed" if steps.ok else "wrong"
    return card.as_html(steps.headline, rows, kind=kind)


def _forward(evidence: Evidence) -> Step:
    if evidence.forward.failure:
        return _raised("forward", "forward", evidence.forward.failure)
    return describe_forward(evidence.forward.outputs, evidence.values.reference_outputs)


def _contract(evidence: Evidence) -> Step:
    failure = evidence.contract.direct and evidence.contract.direct.failure
    if failure:
        return _raised("contract", "backward", failure)
    if not evidence.values.vjps:
        return describe_never_called()
    if evidence.contract.direct:
        # ``grads`` contains None for each value that is not a tensor. An extra value counts only if
        # it is a tensor.
        returned = [*evidence.contract.direct.grads]
    else:
        failure = evidence.values.vjps[RANDOM].failure
        if failure:
            return _raised("contract", "backward", failure)
        found = dict(zip(evidence.wanted, evidence.values.vjps[RANDOM].grads, strict=True))
        returned = [found.get(i) for i in range(len(evidence.inputs))]
    return describe_contract(evidence.parameters, evidence.inputs, returned, evidence.wanted)


def _magnitudes(evidence: Evidence) -> Step:
    vjp, expected = evidence.values.vjps[RANDOM], evidence.values.expected.get(RANDOM, ())
    if failure := evidence.contract.rejected or vjp.failure:
        return _raised("magnitudes", "backward", failure)
    if _settled(evidence):
        assert evidence.values.slopes is not None
        seen, _ = along_directions(evidence.values.slopes, vjp)
        g = flat_cotangent(evidence, vjp.grad_outputs)
        what = f"gradient norm along {len(seen)} random directions"
        return describe_magnitudes([what], [seen], [evidence.values.slopes.matrix.T @ g])
    whats = [f"gradient norm of {evidence.name(i)}" for i in evidence.wanted]
    return describe_magnitudes(whats, vjp.grads, [e.value for e in expected], _truth(evidence))


def _element(evidence: Evidence) -> Step:
    if _settled(evidence):
        return Step(
            "one element",
            None,
            ("skipped, because backward agrees with forward along every random direction",),
        )
    grads = evidence.values.vjps[RANDOM].grads
    truths = [expected.value for expected in evidence.values.expected[RANDOM]]
    if all(bool(torch.isnan(truth).all()) for truth in truths):
        return Step(
            "one element",
            None,
            ("skipped, because finite differences find no derivative at any element",),
        )
    slot, flat = furthest(grads, truths)
    position, index = evidence.wanted[slot], unraveled(flat, truths[slot].shape)
    grad, value = grads[slot], evidence.inputs[evidence.wanted[slot]]
    actual = 0.0 if grad is None else grad[index].item()
    place = element(evidence.name(position), index)
    at, slope = value[index].item(), truths[slot][index].item()
    return describe_element(place, at, slope, actual, truth=_truth(evidence))


def _gradcheck(evidence: Evidence) -> Step:
    if evidence.values.surrogate:
        return Step(
            "gradcheck",
            None,
            ("skipped, because backward is declared to be a surrogate gradient",),
        )
    return describe_gradcheck(next(_mismatches(evidence), ""))


def _mismatches(evidence: Evidence) -> Iterator[str]:
    """Yield gradcheck's error message for each output-input pair that gradcheck would reject."""
    rows, start = evidence.values.rows, 0
    for k, out in enumerate(filter(is_float, evidence.forward.outputs)):
        end = start + as_real(out).numel()
        for slot, columns in enumerate(evidence.values.jacobian if rows else ()):
            assert rows is not None
            here = (rows.index >= start) & (rows.index < end)
            numerical = columns.matrix.cpu()[rows.index[here]][:, columns.smooth.cpu()]
            analytical = rows.matrices[slot].cpu()[here][:, columns.index[columns.smooth].cpu()]
            if not torch.allclose(analytical, numerical, RTOL, ATOL):
                yield f"Jacobian mismatch for output {k} with respect to input {slot}"
        start = end


def _settled(evidence: Evidence) -> bool:
    """Return whether slopes along random directions were enough to confirm the gradient."""
    expected = evidence.values.expected.get(RANDOM, ())
    unknown = all(bool(torch.isnan(e.value).all()) for e in expected)
    return unknown and not evidence.values.jacobian and evidence.values.slopes is not None


def _truth(evidence: Evidence) -> str:
    if evidence.values.surrogate:
        return "surrogate"
    return DIFFERENCES if evidence.values.reference_outputs is None else "reference"


def _raised(title: str, stage: str, failure: Failure) -> Step:
    return describe_raised(title, stage, failure.kind, failure.text)
