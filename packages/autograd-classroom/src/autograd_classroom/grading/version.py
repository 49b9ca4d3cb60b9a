"""The version of the grader. All workers must have the same version.

When the version changes, the next run recomputes all verdicts.
"""

from __future__ import annotations

import functools
import hashlib

from autograd_classroom.folders import CLASSROOM, COURSE, DOCTOR

# All source files that can affect a verdict: the rules, the catalogue, the references, and the code
# on both sides of the sandbox.
_DECIDES = (
    *(CLASSROOM / name for name in ("judge", "protocol", "sandbox", "worker")),
    *(COURSE / name for name in ("exercises", "external", "functions", "grader", "ship")),
)


@functools.cache
def grader_version() -> str:
    """Return a hash of all source files that can affect a verdict."""
    digest = hashlib.sha256()
    for folder in (DOCTOR, *_DECIDES):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"\0{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
