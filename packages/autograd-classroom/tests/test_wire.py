"""Evidence is sent between processes as plain data, and arrives unchanged."""

from __future__ import annotations

import json

import pytest
from autograd_classroom.protocol.wire import from_bytes, to_bytes
from autograd_doctor import RULES
from autograd_doctor.extension import collect_evidence, judge_evidence
from cases import WITNESSES
from sampling import first_rows
from torch import Tensor


@pytest.mark.parametrize(
    "case",
    first_rows(WITNESSES, lambda case: RULES[case.rule].lesson, most=1),
    ids=lambda case: f"{case.rule}: {case.what}",
)
def test_a_verdict_on_evidence_that_traveled_is_the_same(case) -> None:
    known = {name: case.options.get(name) for name in ("reference", "surrogate")}
    asked = {k: case.options[k] for k in ("double_backward",) if k in case.options}
    inputs = [v.detach() if isinstance(v, Tensor) else v for v in case.inputs]
    seen = collect_evidence(case.fn, inputs, **asked)[0]
    traveled = from_bytes(to_bytes(seen))
    here, there = (judge_evidence(evidence, **known) for evidence in (seen, traveled))

    assert json.dumps([f.to_dict() for f in here]) == json.dumps([f.to_dict() for f in there])
    assert repr(traveled.second_order) == repr(seen.second_order)


@pytest.mark.parametrize("data", [b"", b"nonsense", to_bytes(None), b"\xff" * 64])  # type: ignore[arg-type]
def test_what_is_no_evidence_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="this is no evidence"):
        from_bytes(data)
