"""On other people's code, diagnose agrees with an expert. It gives no false errors or warnings."""

from __future__ import annotations

import pytest
import third_party
from third_party import BY_HAND, GROUP, TORCH, Shipped, installed, told, verdict

MISSING = "{} (or what it needs) is not installed: pip install -e '.[third-party]'"

pytestmark = pytest.mark.thorough


def row(shipped: Shipped) -> str:
    return f"{shipped.package}: {shipped.name}"


@pytest.mark.parametrize("shipped", [*GROUP, *TORCH, *filter(installed, BY_HAND)], ids=row)
def test_code_that_ships_gets_the_verdict_of_an_expert(shipped: Shipped) -> None:
    if not installed(shipped):
        pytest.skip(MISSING.format(shipped.package))

    diagnosis = verdict(shipped)

    assert told(diagnosis, shipped.verdict) == shipped.verdict, str(diagnosis)


def test_the_table_names_at_least_ten_packages_and_a_reason_for_each_finding() -> None:
    rows = third_party.ROWS

    assert len({shipped.package for shipped in GROUP}) >= 10
    assert [row(s) for s in rows if (s.verdict or s.options.get("intentional")) and not s.why] == []
