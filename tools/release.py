"""``python -m tools.release [TAG]``: build the distributions, and test them as a user would.

The command writes the files to ``dist/NAME``. It builds each wheel from its source distribution,
which proves that the source distribution is complete. It tests the distributions in a new
environment, in a temporary folder outside the checkout.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path.cwd()
DISTRIBUTIONS = {
    "autograd-doctor": ROOT / "packages" / "autograd-doctor",
    "autograd-course": ROOT,
    "autograd-classroom": ROOT / "packages" / "autograd-classroom",
}
LESSON = "01_template"
# Files that only the authors need. A wheel contains only the files for users.
NOT_FOR_USERS = re.compile(
    r"(^|/)(tests?|tools|benchmarks|test_\w+\.py|conftest\.py|\w+\.ipynb)(/|$)"
)

SQUARE = """\
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output
"""
HALF = SQUARE.replace("2 * x", "x")
# The answers of five students, and the expected gradebook. Eli hands in an unchanged notebook.
CLASS = {
    "ann": (SQUARE, "passed"),
    "ben": (HALF, "wrong"),
    "cem": (SQUARE.replace("return 2", "return 2 /"), "wrong"),
    "dana": (SQUARE.replace("x * x", "x**2"), "passed"),
    "eli": ("", "not attempted"),
}
DIAGNOSE = """\
import autograd_course, autograd_doctor, sys
from autograd_course import diagnose
from half import Square as Half
from square import Square, torch

for package in (autograd_course, autograd_doctor):
    assert package.__file__.startswith(sys.prefix), f"{package.__file__} is not what was installed"
x = torch.linspace(-1, 1, 5)
right, wrong = diagnose(Square, x), diagnose(Half, x)
assert right.ok and not wrong.ok, (right, wrong)
print(f"a right Function is right, a wrong one is {wrong.findings[0].rule}")
"""
GRADE = """\
from autograd_course import grade
from half import Square as Half
from square import Square

told = [grade("square", answer).status for answer in (Half, Square)]
assert told == ["wrong", "passed"], told
print(f"square: the answers are {' and '.join(told)}")
"""
RUN_LESSON = """\
import os

import nbformat
from nbclient import NotebookClient

notebook = nbformat.read("lesson.ipynb", as_version=4)
with open(os.devnull, "w") as silent:  # a kernel may warn that it does not encrypt
    NotebookClient(notebook, timeout=300).execute(stderr=silent)
print(f"ran all {len(notebook.cells)} cells")
"""


RELATIVE_LINK = re.compile(r"\]\((?!https?://|#)[^)]+\)|src(?:set)?=\"(?!https?://)[^\"]+")


class ReleaseError(Exception):
    """Raised when a step fails. The message gives the reason."""


@dataclass(frozen=True)
class Trial:
    """An environment with the installed distributions, and the temporary folder for the test."""

    folder: Path

    @property
    def bin(self) -> Path:
        """The folder that contains the environment's commands."""
        return self.folder / "env" / ("Scripts" if os.name == "nt" else "bin")

    def run(self, *command: str, code: int = 0) -> str:
        """Run a command of the environment. Return its output if its exit code is ``code``."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JUPYTER"))}
        own = {
            "AUTOGRAD_COURSE_PROGRESS": str(self.folder / "progress.json"),
            "IPYTHONDIR": str(self.folder / "ipython"),
            "JUPYTER_DATA_DIR": str(self.folder / "jupyter"),
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
        }
        return run([str(self.bin / command[0]), *command[1:]], self.folder, code, kept | own)


def run(
    command: Sequence[str], folder: Path, code: int = 0, env: dict[str, str] | None = None
) -> str:
    """Run a command and return its output. Raises :class:`ReleaseError` for any other exit code."""
    ran = subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if ran.returncode != code:
        told = f"{' '.join(command)} ended with {ran.returncode} instead of {code}"
        raise ReleaseError(f"{told}:\n{ran.stdout}")
    return ran.stdout


def build(tag: str | None) -> str:
    """Build the source distributions from the checkout, and build a wheel from each of them."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    hatchling = [sys.executable, "-m", "hatchling", "build", "--target"]
    for name, source in DISTRIBUTIONS.items():
        folder = ROOT / "dist" / name
        run([*hatchling, "sdist", "--directory", str(folder)], source)
        (packed,) = folder.glob("*.tar.gz")
        with tempfile.TemporaryDirectory() as scratch:
            with tarfile.open(packed) as archive:
                archive.extractall(scratch, filter="data")
            unpacked = Path(scratch, packed.name.removesuffix(".tar.gz"))
            run([*hatchling, "wheel", "--directory", str(folder)], unpacked)
    versions = {path.name.split("-")[1] for path in (ROOT / "dist").glob("*/*.whl")}
    if len(versions) != 1 or (tag and tag != f"v{min(versions)}"):
        raise ReleaseError(f"the tag {tag} and the versions {sorted(versions)} differ")
    heading = rf"^## \[{re.escape(min(versions))}\] - \d{{4}}-\d\d-\d\d$"
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if tag and not re.search(heading, changes, re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md has no heading with the version and date of {tag}")
    return f"version {min(versions)} of {' and '.join(DISTRIBUTIONS)} in dist"


def contents() -> str:
    """Check that no wheel contains tests or tools, and that all links work on PyPI."""
    count = 0
    for wheel in sorted((ROOT / "dist").glob("*/*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
            shown = archive.read(metadata).decode()
        if strays := [name for name in names if NOT_FOR_USERS.search(name)]:
            raise ReleaseError(f"{wheel.name} contains what no user needs: {', '.join(strays)}")
        if links := RELATIVE_LINK.findall(shown):
            raise ReleaseError(f"PyPI cannot follow these links of {wheel.name}: {links}")
        count += len(names)
    return f"{count} files in the wheels, and no test or tool among them"


def install(trial: Trial) -> str:
    """Install all wheels in a new environment, with pinned versions of all other packages."""
    run([sys.executable, "-m", "venv", "env"], trial.folder)
    doctor, course, classroom = (
        next((ROOT / "dist" / name).glob("*.whl"))
        for name in ("autograd-doctor", "autograd-course", "autograd-classroom")
    )
    pip = ("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    constraints = str(ROOT / "constraints.txt")
    trial.run(*pip, "--constraint", constraints, str(doctor), f"{course}[lab]", str(classroom))
    trial.run("python", "-m", "pip", "check", "--disable-pip-version-check")
    return f"{trial.run('autograd-course', '--version').strip()} in a new environment"


def diagnose(trial: Trial) -> str:
    """Diagnose a correct and a wrong Function."""
    (trial.folder / "square.py").write_text(SQUARE)
    (trial.folder / "half.py").write_text(HALF)
    return trial.run("python", "-c", DIAGNOSE)


def grade(trial: Trial) -> str:
    """Grade a wrong and a correct answer to an exercise."""
    return trial.run("python", "-c", GRADE)


def lesson(trial: Trial) -> str:
    """Run a lesson in a kernel."""
    shutil.copyfile(ROOT / "notebooks" / f"{LESSON}.ipynb", trial.folder / "lesson.ipynb")
    return f"{LESSON}: {trial.run('python', '-c', RUN_LESSON)}"


def classroom(trial: Trial) -> str:
    """Grade the notebooks of five students in a sandbox."""
    homework = trial.folder / "homework"
    homework.mkdir()
    handed_out = (ROOT / "exercises" / f"{LESSON}.ipynb").read_text(encoding="utf-8")
    for student, (answer, _) in CLASS.items():
        notebook = json.loads(handed_out)
        for cell in notebook["cells"]:
            if answer and cell["metadata"].get("nbgrader", {}).get("grade_id") == "square":
                cell["source"] = answer
        (homework / f"{student}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    trial.run("autograd-course", "classroom", "grade", "homework", "--exercises", "square")
    with (trial.folder / "homework-grades" / "results.csv").open(encoding="utf-8") as file:
        told = {row["student"]: row["status"] for row in csv.DictReader(file)}
    if told != {student: status for student, (_, status) in CLASS.items()}:
        raise ReleaseError(f"the gradebook says {told}")
    counts = (f"{count} {status}" for status, count in Counter(told.values()).items())
    return f"{len(told)} submissions: {', '.join(counts)}"


def check(trial: Trial) -> str:
    """Check a correct and a wrong Function from a shell."""
    command = ("autograd-doctor", "check", "--inputs", "f64[3]")
    trial.run(*command, "square.py:Square")
    trial.run(*command, "half.py:Square", code=1)
    return "autograd-doctor check ends with 0 for a right Function and with 1 for a wrong one"


STEPS: tuple[Callable[[Trial], str], ...] = (install, diagnose, grade, lesson, classroom, check)


def main(arguments: Sequence[str]) -> int:
    """Run all steps, and print one line for each step.

    If a step fails, print the reason and return 1.
    """
    tag = arguments[0] if arguments else None
    with tempfile.TemporaryDirectory(prefix="autograd-release-") as scratch:
        trial = Trial(Path(scratch))
        steps: dict[str, Callable[[], str]] = {"build": partial(build, tag), "contents": contents}
        steps |= {step.__name__: partial(step, trial) for step in STEPS}
        for name, step in steps.items():
            try:
                print(f"ok      {name:<9}  {step().strip()}", flush=True)
            except ReleaseError as error:
                print(f"FAILED  {name:<9}  {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
