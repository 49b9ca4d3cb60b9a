"""Random tests: a few fixed examples in every run, new ones without end by ``make fuzz``.

``AUTOGRAD_COURSE_FUZZ=20`` runs twenty times as many, at random, and keeps what failed in
``build/hypothesis``, from where the next run takes it first.
"""

from __future__ import annotations

import os

from hypothesis import Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from repository import ROOT

TIMES = int(os.environ.get("AUTOGRAD_COURSE_FUZZ", "0"))
_KEPT = ROOT / "build" / "hypothesis"


def examples(count: int) -> settings:
    """Run so many examples, always the same; in a deep run many times as many, always new.

    Only a deep run shrinks what fails, which takes minutes.
    """
    if not TIMES:
        once = {"derandomize": True, "database": None, "phases": [Phase.explicit, Phase.generate]}
        return settings(max_examples=count, deadline=None, **once)
    kept = DirectoryBasedExampleDatabase(_KEPT)
    return settings(max_examples=count * TIMES, deadline=None, database=kept, print_blob=True)
