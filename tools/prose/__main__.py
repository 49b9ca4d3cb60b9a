"""``python -m tools.prose``, in the course's root folder: print the findings."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.prose.linter import findings

if __name__ == "__main__":
    found = findings(Path.cwd())
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
