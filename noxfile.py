"""The tests on other versions of Python and PyTorch: `make versions`, or one of `nox --list`.

A Python that is not on the PATH is skipped, and named. An environment lies in `build/versions`; all
but PyTorch is as `constraints.txt` pins it. Most of its 5 GB are CUDA's libraries: what PyPI has of
PyTorch for Linux is not imported without them, also where there is no GPU.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir
from xml.etree import ElementTree

import nox
from packaging.requirements import Requirement

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)  # its classifiers
CONSTRAINTS = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
(PINNED,) = (line for line in CONSTRAINTS if line.startswith("torch=="))
(ALLOWED,) = (
    line for line in PROJECT["project"]["dependencies"] if Requirement(line).name == "torch"
)
OLDEST, NEWEST = ALLOWED.replace(">=", "==") + ".0", "torch"
TESTS = ("tests", "packages/autograd-doctor/tests", "notebooks", "solutions")
SUMMARY = Path("build/versions/summary.txt")

nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True


@nox.session(python=PYTHONS)
@nox.parametrize("torch", [OLDEST, PINNED, NEWEST], ids=["oldest", "pinned", "newest"])
def versions(session: nox.Session, torch: str) -> None:
    """Run the tests and all lessons with their solutions, or what is named behind `--`."""
    pins = Path(session.create_tmp(), "constraints.txt")
    pins.write_text("\n".join(line for line in CONSTRAINTS if line != PINNED), "utf-8")
    # Compiled as pip does it: what a package's own source warns of is not to fail a test.
    session.install("--compile-bytecode", f"--constraint={pins}", torch,
                    "-e", "packages/autograd-doctor", "-e", ".[dev]")  # fmt: skip
    report = Path(session.create_tmp(), "report.xml")
    report.unlink(missing_ok=True)
    # Lax: a lesson is to run. What it prints is compared on the pinned versions, by `make test`:
    # PyTorch words its errors otherwise in each.
    try:
        session.run(
            "python", "-m", "pytest", *(session.posargs or TESTS),
            "-m", "not thorough and not browser and not checkout", "--nbval-lax",
            "--nbval-cell-timeout=240", "-p", "no:cacheprovider", f"--junitxml={report}",
            "--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder",
            env={"TMPDIR": gettempdir()},  # not nox's own, which is in this checkout
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
    """Return how many tests passed, failed and were skipped, by pytest's report in XML."""
    suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    tests, failures, errors, skipped = (
        int(suite.attrib[key]) for key in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    seconds = float(suite.attrib["time"])
    return f"{tests - failed - skipped} passed, {failed} failed, {skipped} skipped, {seconds:.0f} s"
