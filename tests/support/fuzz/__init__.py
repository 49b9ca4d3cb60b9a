"""Random tests. Every run tries a few fixed examples, and ``make fuzz`` keeps trying new ones.

``AUTOGRAD_COURSE_FUZZ=20`` runs twenty times as many random examples. It stores failing examples in
``build/hypothesis``, and the next run tries them first.
"""

from __future__ import annotations

import os

from hypothesis import Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from repository import ROOT

TIMES = int(os.environ.get("AUTOGRAD_COURSE_FUZZ", "0"))
_KEPT = ROOT / "build" / "hypothesis"


def examples(count: int) -> settings:
    """Run the same ``count`` examples each time. A deep run tries many more, which are new.

    Only a deep run shrinks failing examples, because this takes minutes.
    """
    if not TIMES:
        once = {"derandomize": True, "database": None, "phases": [Phase.explicit, Phase.generate]}
        return settings(max_examples=count, deadline=None, **once)
    kept = DirectoryBasedExampleDatabase(_KEPT)
    return settings(max_examples=count * TIMES, deadline=None, database=kept, print_blob=True)
