"""The same class graded by us, isolated, and by what others use, in one run on this machine.

    python -m benchmarks.classroom [--students 50] [--jobs 2] [--quick]

Everybody hands in lesson 01's notebook with an own "square", a third of them a wrong one; no two
are the same code, so that none is judged for two. ``nbgrader autograde`` executes the notebooks in
kernels; ``otter run`` executes each in a process of its own (``otter grade`` needs Docker). They,
too, are asked to grade square alone. With ``--quick`` both get 5 students and the rest is
extrapolated. The peak is that of all processes of one way that were alive at once.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil

from autograd_course.classroom.nbgrader.course import make_course
from autograd_course.grader.exercises import CATALOGUE

ROOT = Path(__file__).parent.parent
LESSON, SAMPLE = "01_template", 5
EXERCISES = ROOT / "exercises" / f"{LESSON}.ipynb"
ANSWER = """\
class Square(torch.autograd.Function):
    # by student {number}
    @staticmethod
    def forward(ctx, x_{number}):
        ctx.save_for_backward(x_{number})
        return x_{number} * x_{number}

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return {factor} * x * grad_output
"""
OTTER_TEST = """\
OK_FORMAT = False
name = "square"
points = 1
from otter.test_files import test_case

@test_case(points=1, hidden=False)
def test_square(Square, grade):
    assert grade("square", Square).status == "passed"
"""


@dataclass(frozen=True)
class Took:
    """What one way of grading took, and how many it found right."""

    name: str
    students: int
    seconds: float
    peak: int
    right: int

    @property
    def rate(self) -> float:
        return self.students / self.seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--students", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    others = min(SAMPLE, asked.students) if asked.quick else asked.students
    with tempfile.TemporaryDirectory() as scratch:
        found = list(_all(Path(scratch), asked.students, others, asked.jobs))
    ours = found[0]
    for took in found:
        whole = f", {asked.students / took.rate:.0f} s for {asked.students}"
        told = whole + " (extrapolated)" if took.students < asked.students else ""
        print(
            f"{took.name:<20} {took.students:3} students in {took.seconds:7.1f} s: "
            f"{took.rate:7.2f} a second, peak {took.peak / 2**20:.0f} MiB, {took.right} right; "
            f"ours is {ours.rate / took.rate:.1f} x{told}"
        )


def _all(scratch: Path, students: int, others: int, jobs: int) -> Iterator[Took]:
    yield ours(_folder(scratch / "ours"), students, jobs)
    for tool, measured in {"nbgrader": by_nbgrader, "otter": by_otter}.items():
        if find_spec(tool) is None:
            print(f"{tool} is not installed: pip install {tool.replace('otter', 'otter-grader')}")
        else:
            yield measured(_folder(scratch / tool), others)


def ours(folder: Path, students: int, jobs: int) -> Took:
    for number in range(students):
        _hand_in(folder / "homework" / f"s{number:03}" / f"{LESSON}.ipynb", number)
    command = [
        sys.executable, "-m", "autograd_course.cli", "classroom", "grade", "homework",
        "--exercises", "square", "--jobs", str(jobs),
    ]  # fmt: skip
    seconds, peak = _measured([command], folder)
    with (folder / "homework-grades" / "grades.csv").open() as table:
        right = sum(row["square"] == "1" for row in csv.DictReader(table))
    return Took(f"ours, {jobs} jobs", students, seconds, peak, right)


def by_nbgrader(folder: Path, students: int) -> Took:
    """Measure nbgrader's own ``autograde``: kernels, and the hidden test in them."""
    make_course(folder / "course", ROOT, [CATALOGUE["square"]])
    course = folder / "course"
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text().partition("c.Autograde.")[0])
    nbgrader = [sys.executable, "-m", "nbgrader"]
    _measured([[*nbgrader, "generate_assignment", LESSON]], course)
    released = course / "release" / LESSON / f"{LESSON}.ipynb"
    for number in range(students):
        place = course / "submitted" / f"s{number:03}" / LESSON / f"{LESSON}.ipynb"
        _hand_in(place, number, released)
    seconds, peak = _measured([[*nbgrader, "autograde", LESSON]], course)
    _measured([[*nbgrader, "export"]], course)
    with (course / "grades.csv").open() as table:
        right = sum(float(row["score"]) == 1 for row in csv.DictReader(table))
    return Took("nbgrader autograde", students, seconds, peak, right)


def by_otter(folder: Path, students: int) -> Took:
    """Measure ``otter run``, once for each student, as its documentation has it without Docker."""
    (folder / "tests").mkdir()
    (folder / "tests" / "square.py").write_text(OTTER_TEST)
    otter = [sys.executable, "-m", "otter"]
    _measured(
        [[*otter, "generate", "-t", "tests", "-o", "autograder.zip", "--no-environment"]], folder
    )
    commands = []
    for number in range(students):
        _hand_in(folder / f"s{number:03}" / f"{LESSON}.ipynb", number)
        place = f"s{number:03}"
        commands.append(
            [*otter, "run", f"{place}/{LESSON}.ipynb", "-a", "autograder.zip", "-o", place]
        )
    seconds, peak = _measured(commands, folder)
    results = [json.loads(path.read_text()) for path in folder.glob("s*/results.json")]
    scores = [sum(test.get("score", 0) for test in each["tests"]) for each in results]
    return Took("otter run", students, seconds, peak, sum(score == 1 for score in scores))


def _hand_in(path: Path, number: int, released: Path = EXERCISES) -> None:
    """Write a student's notebook: the released one, with square answered."""
    notebook = json.loads(released.read_text(encoding="utf-8"))
    factor = 1 if number % 3 == 2 else 2
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "square":
            cell["source"] = ANSWER.format(number=number, factor=factor)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _measured(commands: Sequence[Sequence[str]], folder: Path) -> tuple[float, int]:
    """Run commands one after the other; return the seconds, and the peak of what they held."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    paths = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
    progress = {"AUTOGRAD_COURSE_PROGRESS": str(folder / "progress.json")}
    environment = os.environ | progress | {"PATH": programs, "PYTHONPATH": paths}
    peak, begun = 0, time.perf_counter()
    for command in commands:
        with (folder / "log").open("a") as log:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
            while process.poll() is None:
                peak = max(peak, _held(process.pid))
                time.sleep(1)  # asking what is held takes time of its own
        if process.returncode:
            raise SystemExit(f"{command} ended with {process.returncode}:\n{_end(folder / 'log')}")
    return time.perf_counter() - begun, peak


def _held(process: int) -> int:
    """Return the memory of a process and all that it started, shared pages once."""
    total = 0
    try:
        family = [root := psutil.Process(process), *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for member in family:
        try:
            total += member.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def _end(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


if __name__ == "__main__":
    main()
