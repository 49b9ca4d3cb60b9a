"""Run the tests on other versions of Python and PyTorch: `make versions`, or see `nox --list`.

If a Python version is not on the PATH, nox prints a message and skips its sessions. The
environments are in `build/versions`. All packages except PyTorch have the versions that
`constraints.txt` pins. CUDA libraries take up most of an environment's 6 GB, because PyPI's PyTorch
for Linux cannot be imported without them, even on a machine without a GPU.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir
from xml.etree import ElementTree

import nox
from packaging.requirements import Requirement

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)  # from its classifiers
CONSTRAINTS = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
(PINNED,) = (line for line in CONSTRAINTS if line.startswith("torch=="))
(ALLOWED,) = (
    line for line in PROJECT["project"]["dependencies"] if Requirement(line).name == "torch"
)
OLDEST, NEWEST = ALLOWED.replace(">=", "==") + ".0", "torch"
TESTS = (
    "tests",
    "packages/autograd-doctor/tests",
    "packages/autograd-classroom/tests",
    "notebooks",
    "solutions",
)
SUMMARY = Path("build/versions/summary.txt")

nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True


@nox.session(python=PYTHONS)
@nox.parametrize("torch", [OLDEST, PINNED, NEWEST], ids=["oldest", "pinned", "newest"])
def versions(session: nox.Session, torch: str) -> None:
    """Run the tests and all lessons with their solutions, or only the paths given after `--`."""
    pins = Path(session.create_tmp(), "constraints.txt")
    pins.write_text("\n".join(line for line in CONSTRAINTS if line != PINNED), "utf-8")
    # Compile packages as pip does. Warnings about a package's own source should not fail a test.
    session.install("--compile-bytecode", f"--constraint={pins}", torch,
                    "-e", "packages/autograd-doctor", "-e", ".[dev]",
                    "-e", "packages/autograd-classroom")  # fmt: skip
    report = Path(session.create_tmp(), "report.xml")
    report.unlink(missing_ok=True)
    # With `--nbval-lax`, a lesson only has to run. PyTorch versions word their errors differently,
    # so only `make test`, which uses the pinned versions, compares the outputs.
    try:
        session.run(
            "python", "-m", "pytest", *(session.posargs or TESTS),
            "-m", "not thorough and not browser and not checkout", "--nbval-lax",
            "--nbval-cell-timeout=240", "-p", "no:cacheprovider", f"--junitxml={report}",
            "--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder",
            env={"TMPDIR": gettempdir()},  # nox's own temporary folder is in this checkout
        )  # fmt: skip
    finally:
        if report.exists():
            with SUMMARY.open("a", encoding="utf-8") as summary:
                print(f"{session.name}, torch {installed(session)}: {counts(report)}", file=summary)


def installed(session: nox.Session) -> str:
    """Return the version of PyTorch in a session's environment."""
    asked = "from importlib.metadata import version; print(version('torch'))"
    return str(session.run("python", "-c", asked, silent=True)).strip()


def counts(report: Path) -> str:
    """Return how many tests passed, failed and were skipped according to pytest's XML report."""
    suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    tests, failures, errors, skipped = (
        int(suite.attrib[key]) for key in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    seconds = float(suite.attrib["time"])
    return f"{tests - failed - skipped} passed, {failed} failed, {skipped} skipped, {seconds:.0f} s"
