"""What the rules of value call a wrong gradient, and what they do not take it for."""

from __future__ import annotations

import json

import pytest
from autograd_doctor import diagnose
from cases.named import NAMED, Named
from sampling import first_rows


@pytest.mark.parametrize(
    "row",
    first_rows(NAMED, lambda row: row.words[:20], most=1),
    ids=lambda row: f"{row.words[:40]}: {row.what}",
)
def test_a_wrong_gradient_is_called_what_it_is(row: Named) -> None:
    found = diagnose(row.fn, row.inputs, **row.options).findings[0]

    evidence = json.dumps(dict(found.evidence), ensure_ascii=False)
    assert row.words in f"{found.rule}: {found.message} {evidence}".replace("`", "")
