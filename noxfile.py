"""The tests on other versions of Python and PyTorch: `make versions`, or one of `nox --list`.

A Python that is not on the PATH is skipped, and named. An environment lies in `build/versions`; all
but PyTorch is as `constraints.txt` pins it.
"""

from __future__ import annotations

from pathlib import Path

import nox

PYTHONS = ("3.11", "3.12", "3.13")
OLDEST, NEWEST = "==2.11.0", ""
PINNED = "==2.13.0"
# What is about this checkout, its pins, a browser or another machine is the same on all versions.
ELSEWHERE = (
    "colab", "test_authoring.py", "test_book.py", "test_cheat_sheet.py",
    "test_classroom_platforms.py", "test_environment.py", "test_pictures.py",
)  # fmt: skip
LESSONS = ("01_template", "02_ctx_rules", "05_double_backward", "08_debugging_clinic")

nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True


@nox.session(python=PYTHONS)
@nox.parametrize("torch", [OLDEST, PINNED, NEWEST], ids=["oldest", "pinned", "newest"])
def versions(session: nox.Session, torch: str) -> None:
    """Run the tests, or those that are named behind `--`, and the lessons on the contract."""
    pins = Path(session.create_tmp(), "constraints.txt")
    lines = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
    pins.write_text("\n".join(line for line in lines if not line.startswith("torch==")), "utf-8")
    # Compiled as pip does it: what a package's own source warns of is not to fail a test.
    session.install("--compile-bytecode", f"--constraint={pins}", f"torch{torch}", "-e", ".[dev]")
    session.run("python", "-c", "import sys, torch; print(sys.version, torch.__version__)")
    ignored = [f"--ignore=tests/{name}" for name in ELSEWHERE]
    chosen = session.posargs or ["tests", *(f"notebooks/{name}.ipynb" for name in LESSONS)]
    session.run(
        "python", "-m", "pytest", *chosen, *ignored, "-m", "not thorough and not browser",
        "--nbval", "--nbval-current-env", "--nbval-cell-timeout=120", "-p", "no:cacheprovider",
    )  # fmt: skip
