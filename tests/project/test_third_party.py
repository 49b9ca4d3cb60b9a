"""Code that nobody here wrote gets an expert's verdict: no false errors, no false warnings."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import pytest
import third_party
from third_party import BY_HAND, GROUP, TORCH, Shipped

from autograd_course import Diagnosis, diagnose

MISSING = "{} (or what it needs) is not installed: pip install -e '.[third-party]'"

pytestmark = pytest.mark.thorough


def row(shipped: Shipped) -> str:
    return f"{shipped.package}: {shipped.name}"


def installed(shipped: Shipped) -> bool:
    needed = [shipped.path.partition(":")[0].partition(".")[0]]
    if shipped.path.startswith("torch.testing."):
        needed.append("expecttest")
    return all(map(find_spec, needed))


def verdict(shipped: Shipped) -> Diagnosis:
    with warnings.catch_warnings():  # what a package warns of is its own affair
        warnings.simplefilter("ignore")
        return diagnose(shipped.subject(), shipped.inputs(), **shipped.options)


def told(diagnosis: Diagnosis, expected: tuple[str, ...]) -> tuple[str, ...]:
    """Return the rules found: errors, warnings, and those notes that an expert mentions too."""
    return tuple(
        finding.rule
        for finding in diagnosis.findings
        if finding.severity != "info" or finding.rule in expected
    )


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
