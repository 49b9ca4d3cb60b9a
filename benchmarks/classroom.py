"""Grade the same class in our sandbox, with nbgrader and with Otter, in one run on this machine.

    python -m benchmarks.classroom [--students 50] [--jobs 2] [--quick]

Each student hands in the notebook of lesson 01 with a different answer to "square". A third of the
answers are wrong. No two answers are the same program, so our grader reuses no verdict. In a second
class, the answers differ only in the names of variables, as short answers in a real class often do.
There, our grader judges each program only once or twice, and all answers that are this program get
the verdict with their own names. ``nbgrader autograde`` executes the notebooks in kernels;
``otter run`` executes each notebook in its own process (``otter grade`` needs Docker). Both also
grade only "square". A quick run grades 6 students in our sandbox and 2 with each of the others, and
extrapolates the times of the others. The peak is the largest amount of memory that all processes
together use at any time. Computing time is the user and system time of the whole machine, so
nothing else should run at the same time.

    python -m benchmarks.classroom --growth 100,300,1000 [--jobs 2]

grades classes of these sizes, but only in our sandbox. A third of the answers are right, a third
are wrong and a third are stubs with a comment. No two of the right and wrong answers are the same
program. The result shows how much memory and computing time each additional student costs.

    python -m benchmarks.classroom --watch [--students 20]

hands in answers one by one while ``classroom watch`` runs. The result shows how long a student
waits, from the moment when the file is in the folder until ``watch`` prints the verdict.

    python -m benchmarks.classroom --repairs [--students 100] [--jobs 2]

grades wrong answers from ``benchmarks/mistakes/answers``, one per student, with and without the
search for repairs. The result shows how much the search reduces the throughput. The benchmark
grades the class three times each way and takes the median.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from autograd_classroom.adapters.nbgrader.course import make_course
from autograd_classroom.sandbox import NoSandboxError, choose

from autograd_course.index import INDEX
from benchmarks._common import ROOT, command_line
from benchmarks.repairs import mistakes

NBGRADER = ROOT / "build" / "nbgrader"  # created by: make build/nbgrader
LESSON, CLASS, WATCHED, QUICK, SAMPLE = "01_template", 50, 20, 6, 2
INSTALL = {
    "nbgrader": "make build/nbgrader",
    "otter": "install otter-grader in an environment that can import torch, and add its folder of "
    "commands to PATH",
}
CLASSROOM = ROOT / "packages" / "autograd-classroom" / "src"
CLASSROOM_COMMAND = ("-m", "autograd_course.cli", "classroom")
TURNS = 3
EXERCISES = ROOT / "exercises" / f"{LESSON}.ipynb"
ANSWER = """\
class Square(torch.autograd.Function):
    # by student {number}
    @staticmethod
    def forward(ctx, x_{number}):
        {own}
        ctx.save_for_backward(x_{number})
        return x_{number} * x_{number}

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return {factor} * x * grad_output
"""
STUB = """\
class Square(torch.autograd.Function):
    # by student {number}
    @staticmethod
    def forward(ctx, x):
        raise NotImplementedError
"""
OWN = "number = {number}"  # makes each program different
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
    """The cost of one way of grading, and the number of answers that it graded as right."""

    name: str
    students: int
    seconds: float
    computed: float
    peak: int
    right: int
    repaired: int = 0  # the number of wrong answers for which the search found a repair

    @property
    def rate(self) -> float:
        return self.students / self.seconds


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--students", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--growth", metavar="SIZES")
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--repairs", action="store_true")
    asked = parser.parse_args()
    try:
        choose()
    except NoSandboxError as missing:
        return print(f"This benchmark is skipped: {missing}")
    if asked.growth:
        growth([int(size) for size in asked.growth.split(",")], asked.jobs)
        return
    if asked.watch:
        watch(asked.students or (QUICK if asked.quick else WATCHED), asked.jobs)
        return
    if asked.repairs:
        repairs(asked.students or (QUICK if asked.quick else 2 * CLASS), asked.jobs)
        return
    students = asked.students or (QUICK if asked.quick else CLASS)
    others = min(SAMPLE, students) if asked.quick else students
    with tempfile.TemporaryDirectory() as scratch:
        found = list(_all(Path(scratch), students, others, asked.jobs))
    ours, renamed, *others_took = found
    print(_line(ours), _line(renamed), sep="\n")
    for took in others_took:
        whole = f", {students / took.rate:.0f} s for {students}"
        told = whole + " (extrapolated)" if took.students < students else ""
        ratios = f"{ours.rate / took.rate:.1f} x and {renamed.rate / took.rate:.1f} x"
        print(f"{_line(took)}; ours is {ratios}{told}")


def growth(sizes: Sequence[int], jobs: int) -> None:
    """Grade classes of several sizes. Print the costs, and the slope from the first to the last."""
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as scratch:
            found.append(ours(Path(scratch), size, jobs, unwritten=True))
        print(_line(found[-1]), flush=True)
    first, last = found[0], found[-1]
    if (more := last.students - first.students) > 0:
        held, computed = last.peak - first.peak, last.computed - first.computed
        print(f"A further student: {held / more / 2**10:.1f} KiB, {1000 * computed / more:.0f} ms")


def watch(students: int, jobs: int) -> None:
    """Hand in answers one by one while ``classroom watch`` runs, and print how long each takes."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "homework").mkdir()
        arguments = ["watch", "homework", "--exercises", "square", "--jobs", str(jobs)]
        with subprocess.Popen(
            [sys.executable, "-u", *CLASSROOM_COMMAND, *arguments],
            cwd=folder, env=_environment(folder), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            waits = sorted(_waits(process, folder, students))
            process.send_signal(signal.SIGINT)
    median, longest = statistics.median(waits), waits[-1]
    print(f"a watched answer: median {median:.2f} s, longest {longest:.2f} s, of {students}")


def _waits(process: subprocess.Popen[str], folder: Path, students: int) -> Iterator[float]:
    assert process.stdout is not None
    for number in range(students):
        for line in process.stdout:  # wait until the sandbox is warm and the reports are written
            if "Waiting for more" in line:
                break
        student = f"s{number:04}"
        _hand_in(folder / f"{student}.ipynb", number)
        place = folder / "homework" / student / f"{LESSON}.ipynb"
        place.parent.mkdir()
        begun = time.perf_counter()
        (folder / f"{student}.ipynb").rename(place)
        for line in process.stdout:
            if line.startswith(student):
                yield time.perf_counter() - begun
                break


def repairs(students: int, jobs: int) -> None:
    """Grade honest mistakes with and without the search for repairs, and print its cost."""
    with_search: list[Took] = []
    without: list[Took] = []
    with tempfile.TemporaryDirectory() as scratch:
        changed = Path(scratch) / "without"
        shutil.copytree(CLASSROOM, changed)
        judge = changed / "autograd_classroom" / "judge" / "repairing.py"
        code, limit = judge.read_text(), "\nLEAST = "
        if limit not in code:
            raise SystemExit("The search cannot be turned off: its limit LEAST has another name.")
        judge.write_text(code.replace(limit, f'{limit}float("inf")  # '))
        homework = Path(scratch) / "homework"
        answered = _mistakes_in(homework, students)
        for turn in range(TURNS):
            for found, source in ((with_search, CLASSROOM), (without, changed)):
                folder = _folder(Path(scratch) / f"{turn} {source.name}")
                shutil.copytree(homework, folder / "homework")
                found.append(_graded(folder, [*set(answered)], len(answered), jobs, source))
                print(_line(found[-1]), flush=True)
    for unit, cost in (("seconds", lambda it: it.seconds), ("computed", lambda it: it.computed)):
        ratio = statistics.median(map(cost, with_search)) / statistics.median(map(cost, without))
        print(f"{unit}: with the search {ratio:.2f} x")


def _mistakes_in(homework: Path, students: int) -> list[str]:
    """Hand in one wrong answer per student, and return the ids of the exercises."""
    answers = [it for it in mistakes() if it.subject.startswith("answers/")]
    step = max(1, len(answers) // students)
    answered = []
    for number, mistake in enumerate(answers[::step][:students]):
        exercise = INDEX[mistake.run()["EXERCISE"]]
        lesson = next((ROOT / "exercises").glob(f"{exercise.lesson[:2]}_*.ipynb"))
        place = homework / f"s{number:04}" / lesson.name
        code = mistake.text.partition("# --- code\n")[2]
        _hand_in(place, number, lesson, code, exercise.id)
        answered.append(exercise.id)
    return answered


def _line(took: Took) -> str:
    return (
        f"{took.name:<23} {took.students:4} students in {took.seconds:7.1f} s: "
        f"{took.rate:7.2f} a second, {took.computed:.1f} s computed, "
        f"peak {took.peak / 2**20:.0f} MiB, {took.right} right"
        f"{f', {took.repaired} repaired' if took.repaired else ''}"
    )


def _all(scratch: Path, students: int, others: int, jobs: int) -> Iterator[Took]:
    yield ours(_folder(scratch / "ours"), students, jobs)
    yield ours(_folder(scratch / "renamed"), students, jobs, renamed=True)
    for tool, measured in {"nbgrader": by_nbgrader, "otter": by_otter}.items():
        installed = NBGRADER.is_dir() if tool == "nbgrader" else shutil.which(tool)
        if not installed:
            print(f"{tool} is skipped because it is not installed: {INSTALL[tool]}")
        else:
            yield measured(_folder(scratch / tool), others)


def ours(
    folder: Path, students: int, jobs: int, *, unwritten: bool = False, renamed: bool = False
) -> Took:
    for number in range(students):
        place = folder / "homework" / f"s{number:04}" / f"{LESSON}.ipynb"
        answer = STUB if unwritten and number % 3 == 1 else ANSWER
        _hand_in(place, number, answer=answer.replace("{own}", "pass") if renamed else answer)
    took = _graded(folder, ["square"], students, jobs)
    return replace(took, name=f"{took.name}, renamed") if renamed else took


def _graded(
    folder: Path, exercises: Sequence[str], students: int, jobs: int, source: Path = CLASSROOM
) -> Took:
    """Grade the folder ``homework`` with the classroom package in ``source``."""
    command = [
        sys.executable, *CLASSROOM_COMMAND, "grade", "homework",
        "--exercises", ",".join(exercises), "--jobs", str(jobs),
    ]  # fmt: skip
    measured = _measured([command], folder, source)
    with (folder / "homework-grades" / "grades.csv").open() as table:
        right = sum(row[it] == "1" for row in csv.DictReader(table) for it in exercises)
    rows = json.loads((folder / "homework-grades" / "results.json").read_text())
    repaired = json.dumps(rows).count('"repair": {')
    return Took(f"ours, {jobs} jobs", students, *measured, right, repaired)


def by_nbgrader(folder: Path, students: int) -> Took:
    """Measure ``nbgrader autograde``, which runs the notebooks and the hidden test in kernels."""
    make_course(folder / "course", ROOT, [INDEX["square"]])
    course = folder / "course"
    (course / "nbgrader_config.json").unlink()
    (course / "nbgrader_config.py").write_text("c = get_config()\nc.Execute.timeout = 300\n")
    nbgrader = [sys.executable, "-m", "nbgrader"]
    _measured([[*nbgrader, "generate_assignment", LESSON]], course)
    released = course / "release" / LESSON / f"{LESSON}.ipynb"
    for number in range(students):
        place = course / "submitted" / f"s{number:03}" / LESSON / f"{LESSON}.ipynb"
        _hand_in(place, number, released)
    measured = _measured([[*nbgrader, "autograde", LESSON]], course)
    _measured([[*nbgrader, "export"]], course)
    with (course / "grades.csv").open() as table:
        right = sum(float(row["score"]) == 1 for row in csv.DictReader(table))
    return Took("nbgrader autograde", students, *measured, right)


def by_otter(folder: Path, students: int) -> Took:
    """Measure ``otter run``, Otter's command for grading without Docker, for each student."""
    (folder / "tests").mkdir()
    (folder / "tests" / "square.py").write_text(OTTER_TEST)
    _measured(
        [["otter", "generate", "-t", "tests", "-o", "autograder.zip", "--no-environment"]], folder
    )
    commands = []
    for number in range(students):
        _hand_in(folder / f"s{number:03}" / f"{LESSON}.ipynb", number)
        place = f"s{number:03}"
        commands.append(
            ["otter", "run", f"{place}/{LESSON}.ipynb", "-a", "autograder.zip", "-o", place]
        )
    measured = _measured(commands, folder)
    results = [json.loads(path.read_text()) for path in folder.glob("s*/results.json")]
    scores = [sum(test.get("score", 0) for test in each["tests"]) for each in results]
    return Took("otter run", students, *measured, sum(score == 1 for score in scores))


def _hand_in(
    path: Path,
    number: int,
    released: Path = EXERCISES,
    answer: str = ANSWER,
    exercise: str = "square",
) -> None:
    """Write a student's notebook: the released notebook with an answer to an exercise."""
    notebook = json.loads(released.read_text(encoding="utf-8"))
    factor = 1 if number % 3 == 2 else 2
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == exercise:
            numbered = answer.replace("{own}", OWN).replace("{number}", str(number))
            cell["source"] = numbered.replace("{factor}", str(factor))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _computed() -> float:
    """Return the user and system time of all processes on this machine.

    No process outside a sandbox can wait for the processes inside and learn their times.
    """
    spent = psutil.cpu_times()
    return float(spent.user + spent.system)


def _measured(
    commands: Sequence[Sequence[str]], folder: Path, source: Path = CLASSROOM
) -> tuple[float, float, int]:
    """Run commands one by one. Return the elapsed time, the CPU time and the peak memory."""
    environment = _environment(folder, source)
    before, peak, begun = _computed(), 0, time.perf_counter()
    for command in commands:
        with (folder / "log").open("a") as log:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
            while _runs(process):  # only once a second, because measuring also takes time
                peak = max(peak, _held(process.pid))
        if process.returncode:
            raise SystemExit(f"{command} ended with {process.returncode}:\n{_end(folder / 'log')}")
    seconds = time.perf_counter() - begun
    return seconds, _computed() - before, peak


def _environment(folder: Path, source: Path = CLASSROOM) -> dict[str, str]:
    programs = f"{Path(sys.executable).parent}:{NBGRADER / 'bin'}:{os.environ['PATH']}"
    paths = f"{source}:{ROOT}:{NBGRADER}:{os.environ.get('PYTHONPATH', '')}"
    progress = {"AUTOGRAD_COURSE_PROGRESS": str(folder / "progress.json")}
    return {**os.environ, **progress, "PATH": programs, "PYTHONPATH": paths}


def _runs(process: subprocess.Popen[bytes]) -> bool:
    """Wait up to a second for a process to end, and return whether it is still running."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    return process.returncode is None


def _held(process: int) -> int:
    """Return the memory of a process and its descendants. Count shared pages once."""
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
