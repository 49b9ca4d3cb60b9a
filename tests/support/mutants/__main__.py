"""``python -m mutants [path …]``: find changes to the core of the package that no test notices.

A path names a module or a folder in ``autograd_course`` or ``autograd_doctor``. Without a path, all
of ``PARTS`` are tried.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from mutants.changes import HOMES

# The tests that should notice a change. A module belongs to the first part that it matches.
PARTS = {
    "functions/attention/*.py": ("test_attention.py", "test_attention_calls.py"),
    "functions/c[ho]*p*.py": ("test_checkpoint.py", "test_coupling.py"),  # checkpoint, coupling
    "functions/re[cp]*.py": ("test_checkpoint.py", "test_coupling.py"),  # recorded, replay
    "functions/l*_c*.py": ("test_linear_cross_entropy.py",),  # logit_chunks, linear_cross_entropy
    "functions/*.py": ("test_functions.py", "test_packed_mask.py", "test_fused_relu.py"),
    "_rules/*.py": (
        "test_rules.py",
        "test_rule_words.py",
        "test_examined.py",
    ),
}
TESTS = (Path("tests"), Path("packages/autograd-doctor/tests"))
# These modules contain no code that runs on a CPU during a test.
LEFT_OUT = ("__init__.py", "triton_attention.py", "triton_kernels.py")


def main(paths: Sequence[str]) -> int:
    """Try every mutant of these modules. Each part is a process. Return how many parts failed."""
    chosen = list(_modules(paths))
    failed = 0
    for pattern, tests in PARTS.items():
        mine = [str(path) for path in chosen if _part(path) == pattern]
        if mine:
            failed += bool(subprocess.call(_command(tests, mine)))
    return failed


def _command(tests: Sequence[str], modules: Sequence[str]) -> list[str]:
    return [
        sys.executable, "-m", "pytest", "-c", "pyproject.toml", *map(_found, tests),
        "-p", "mutants.trial", "-p", "no:cacheprovider", "-k", "not with_a_repair", "-q", "-s",
        "--mutate", *modules,
    ]  # fmt: skip


def _modules(paths: Sequence[str]) -> Iterator[Path]:
    known = [home / path for path in paths for home in HOMES if (home / path).exists()]
    for given in known or ([] if paths else HOMES):
        for path in sorted(given.rglob("*.py")) if given.is_dir() else [given]:
            if path.name not in LEFT_OUT and _part(path):
                yield path


def _part(path: Path) -> str:
    (relative,) = (path.relative_to(home) for home in HOMES if path.is_relative_to(home))
    return next((pattern for pattern in PARTS if relative.match(pattern)), "")


def _found(name: str) -> str:
    """Return the path of a test file, which belongs to the course or to the doctor."""
    return next(str(path) for folder in TESTS for path in folder.rglob(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
