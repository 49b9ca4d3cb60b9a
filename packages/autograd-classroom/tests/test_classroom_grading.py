"""Grade a class: each piece of code is judged once, on its own inputs, even if processes die."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from autograd_classroom import classwork
from autograd_classroom.classwork import grade
from autograd_classroom.gradebook import Gradebook, Run, Score
from autograd_classroom.grading import cluster
from autograd_classroom.grading import pool as pool_module
from autograd_classroom.grading.choosing import UnknownExercisesError, chosen
from autograd_classroom.grading.cluster import Cluster
from autograd_classroom.grading.executor import GradingError, Outcome
from autograd_classroom.grading.forkserver import ForkServer
from autograd_classroom.grading.pool import Pool, Start, started
from autograd_classroom.grading.prestart import prestart
from autograd_classroom.grading.run import only_run, work
from autograd_classroom.grading.task import Task, seed_for, told
from autograd_classroom.grading.version import grader_version
from autograd_classroom.ingest import Submission
from autograd_classroom.paths import Places
from autograd_doctor import Finding
from classroom_stand import Stand
from filelock import FileLock, Timeout
from handed_in import IMPORTS, SQUARE, cell, notebook
from repository import ROOT

from autograd_course.extraction import Answer
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.verdict import Located, RuleBroken, Verdict, WrongBecause
from autograd_course.notebook_files import Notebook

pytestmark = pytest.mark.slow

EXERCISES = chosen(["square", "linear"])
LIMIT = 60.0  # maximum seconds for work that takes one; machines are busy


def task(source: str) -> Task:
    return Task(Answer("square", "", "Square", source), 7, grader_version())


def until(true: object, what: str) -> None:
    """Wait until a condition becomes true."""
    end = time.monotonic() + LIMIT
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.005)


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    (tmp_path / "stand").mkdir()
    return Stand(str(tmp_path / "stand"), pause=0.002)


@pytest.fixture(params=["multiprocessing", "fork_server"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Return a way to start a worker process."""
    if request.param == "multiprocessing":
        yield started
        return
    if sys.platform != "linux":
        pytest.skip("only Linux tells processes by descriptors")
    with ForkServer() as fork_server:
        yield fork_server.start


# Choose the exercises


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["01"], {"01_template"}),
        (["3,01"], {"01_template", "03_gradient_patterns"}),
        (["06_double_backward"], {"06_double_backward"}),
        ([], {exercise.lesson for exercise in CATALOGUE.values()}),
    ],
)
def test_lessons_are_chosen_by_number_or_name(words: list[str], found: set[str]) -> None:
    assert {exercise.lesson for exercise in chosen(words)} == found


def test_exercises_are_chosen_by_id_in_the_order_of_the_course() -> None:
    assert [exercise.id for exercise in chosen(["linear", "square"])] == ["square", "linear"]
    with pytest.raises(UnknownExercisesError, match="the nearest name is square"):
        chosen(["sqare"])


# Worker processes


def test_a_pool_takes_tasks_as_it_has_hands_for_them(stand: Stand, start: Start) -> None:
    taken, done = 0, 0

    def tasks() -> Iterator[Task]:
        nonlocal taken
        for number in range(40):
            taken += 1
            assert taken - done <= 3 + 1
            yield task(f"code {number}")

    with closing(Pool(3, stand, start=start)) as pool:
        for outcome in pool(tasks()):
            done += 1
            assert outcome.said is not None
            assert outcome.said["evidence"] == {"seed": 7}

    assert Counter(stand.told()) == Counter(f"code {number}" for number in range(40))
    assert 1 <= len(stand.workers()) <= 3
    assert all(map(is_gone, stand.workers()))


def test_workers_wait_for_the_next_call_and_a_dead_one_is_replaced(
    stand: Stand, start: Start
) -> None:
    with closing(Pool(2, stand, start=start)) as pool:
        for round in range(3):
            assert len([*pool(task(f"{round} {number}") for number in range(5))]) == 5
        before = stand.workers()
        os.kill(before[0], signal.SIGKILL)
        until(lambda: is_gone(before[0]), "a worker is dead")
        outcomes = [*pool(map(task, ["a", "b", "c"]))]

    assert len(before) <= 2
    assert all(outcome.said for outcome in outcomes)
    assert Counter(stand.told()).most_common(1)[0][1] == 1, "nothing is judged twice"
    assert all(map(is_gone, stand.workers()))


def test_a_worker_that_dies_loses_its_task_which_is_tried_once_more(
    stand: Stand, start: Start
) -> None:
    sources = ["a", "this dies once", "b", "this always dies", "c", "d"]
    with closing(Pool(2, stand, start=start)) as pool:
        said = {outcome.task.answer.source: outcome.said for outcome in pool(map(task, sources))}

    assert [source for source in sources if said[source] is None] == ["this always dies"]
    assert Counter(stand.told()) == Counter(sources) + Counter(
        ["this dies once", "this always dies"]
    )


def test_a_worker_that_takes_too_long_loses_its_task(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_LONGEST", 0.5)
    with closing(Pool(1, Stand(str(tmp_path), pause=60.0), start=start)) as pool:
        (outcome,) = pool(iter([task("a")]))

    assert outcome.said is None


def test_where_every_worker_dies_the_run_stops(stand: Stand, start: Start) -> None:
    tasks = (task(f"{number} always dies") for number in range(50))

    stopped = pytest.raises(GradingError, match="memory enough")
    with closing(Pool(1, stand, start=start)) as pool, stopped:
        list(pool(tasks))


def test_a_worker_that_cannot_judge_stops_the_run_and_says_why(stand: Stand, start: Start) -> None:
    stopped = pytest.raises(GradingError, match=r"^there is no sandbox here\.$")
    with closing(Pool(2, stand, start=start)) as pool, stopped:
        list(pool(map(task, ["a", "refuse", "b"])))
    assert all(map(is_gone, stand.workers()))


def test_a_sandbox_started_ahead_ends_with_its_block_whether_anybody_waited_or_not() -> None:
    with prestart(trust=False) as template:
        if template is None:
            pytest.skip("no Bubblewrap here")
        assert template.process.poll() is None
    assert template.process.returncode is not None
    with prestart(trust=True) as template:
        assert template is None, "without walls submissions could meet in it"


def test_whoever_stops_listening_ends_all_workers(stand: Stand, start: Start) -> None:
    slow = Stand(stand.folder, pause=LIMIT)
    with closing(Pool(2, slow, start=start)(task(f"code {n}") for n in range(9))) as outcomes:
        pool = multiprocessing.get_context("spawn")
        sleeper = pool.Process(target=time.sleep, args=(0,))
        sleeper.start()  # starts like a worker, so the workers are busy when it has ended
        assert outcomes is not None
        sleeper.join()
    assert all(map(is_gone, slow.workers()))


# The contents of the gradebook


def hand_in(book: Gradebook, student: str, sources: Sequence[str]) -> None:
    about = Submission(student, "01_template", f"{student}.ipynb", Notebook(()), "0" * 64)
    answers = [
        Answer(exercise.id, student, "X", source)
        for exercise, source in zip(EXERCISES, sources, strict=True)
    ]
    book.hand_in(about, answers)


class Here:
    """An executor without workers that answers each task at once and remembers it.

    In its verdict, the last word of the code replaces ``NAME``.
    """

    def __init__(self, verdict: Verdict | None = None) -> None:
        self.tasks: list[Task] = []
        self.verdict = verdict or Verdict(Located("1", "a", "shared-state", "right", ""))

    def __call__(self, tasks: Iterator[Task]) -> Iterator[Outcome]:
        for each in tasks:
            assert Task.from_json(each.to_json()) == each
            self.tasks.append(each)
            quoted = told(self.verdict, 0.1).replace("NAME", each.answer.source.split()[-1])
            said = None if "lost" in each.answer.source else json.loads(quoted)
            yield Outcome(each, said)


@contextmanager
def graded(path: Path, executor: Here) -> Iterator[tuple[Gradebook, Run]]:
    """Grade the pending answers in a new run."""
    with Gradebook(path) as book:
        run = book.begin(CATALOGUE.values(), grader_version())
        book.queue(run, EXERCISES)
        work(book, run, executor)  # type: ignore[arg-type]
        yield book, run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "grades.sqlite"
    with Gradebook(path) as book:
        book.begin(CATALOGUE.values(), "another")
        hand_in(book, "ann", ["copied", "own"])
        hand_in(book, "bob", ["copied", "other"])
    return path


def scores(book: Gradebook) -> list[tuple[str, str, str, float]]:
    return [(s.student, s.exercise, s.status, s.points) for s in book.scores()]


def test_the_same_code_is_judged_once_and_its_verdict_is_everybody_s(path: Path) -> None:
    executor = Here()
    with graded(path, executor) as (book, _):
        assert [t.answer.source for t in executor.tasks if t.answer.exercise == "square"] == [
            "copied"
        ]
        assert len(executor.tasks) == 3
        assert {status for _, _, status, _ in scores(book)} == {"passed"}
        assert {t.answer.student for t in executor.tasks} == {""}, "no worker hears of a student"


WRONG = RuleBroken(Finding("wrong-scale", "error", "half `NAME`", {"line": "return NAME"}, ""))
NAMED = Located("1", "a", "shared-state", "right", "")


@pytest.mark.parametrize(
    ("verdict", "judged"),
    [
        (Verdict(NAMED), 1),
        (Verdict(NAMED, remarks=("calls eval on NAME",)), 2),
        (Verdict(WRONG), 2),
        (Verdict(WrongBecause("`NAME` took too long")), 4),
    ],
    ids=["passed", "passed with a remark", "wrong", "wrong without a rule"],
)
def test_the_same_program_with_other_names_shares_a_verdict_that_quotes_its_own_names(
    path: Path, verdict: Verdict, judged: int
) -> None:
    names = {"ann": "a", "bob": "b", "cleo": "long", "dan": "it"}
    with Gradebook(path) as book:
        for student, name in names.items():
            source = f"def f():\n    # my {name}\n    {name} = 1\n    return {name}"
            hand_in(book, student, [source, "own"])
    executor = Here(verdict)

    with graded(path, executor) as (book, _):
        found = {s.student: s for s in book.scores() if s.exercise == "square"}

    assert [t.answer.exercise for t in executor.tasks].count("square") == judged
    assert len({s.hash for s in found.values()}) == 4
    assert len({s.seed for s in found.values()}) == judged, "a verdict has its inputs' seed"
    assert len({(s.status, s.rule, s.points) for s in found.values()}) == 1
    for student, name in names.items():
        quoted = [found[student].message, *found[student].remarks]
        assert any(name in text.split() or f"`{name}`" in text for text in quoted) or judged == 1
        if verdict.finding:
            assert found[student].evidence["line"] == f"return {name}"


def test_answers_that_wait_for_the_same_program_all_get_its_verdict(path: Path) -> None:
    """Several workers take tasks before the first of them has answered."""
    names = {"ann": "a", "bob": "b", "cleo": "c", "dan": "d"}
    with Gradebook(path) as book:
        for student, name in names.items():
            hand_in(book, student, [f"def f():\n    {name} = 1\n    return {name}", "own"])

    class Ahead(Here):
        def __call__(self, tasks: Iterator[Task]) -> Iterator[Outcome]:
            yield from super().__call__(iter([next(tasks)]))
            yield from super().__call__(iter([*tasks]))

    with graded(path, executor := Ahead(Verdict(WRONG))) as (book, _):
        found = [s.message for s in book.scores() if s.exercise == "square"]

    assert len([t for t in executor.tasks if t.answer.exercise == "square"]) == 2
    assert sorted(found) == ["half `a`", "half `b`", "half `c`", "half `d`"]


OUTSIDE = """\
import torch
class X(torch.autograd.Function):
    @staticmethod
    def forward(ctx, {0}): return {0}
    @staticmethod
    def check({0}): return torch.autograd.grad({0}, {0})
"""


def test_an_answer_whose_source_has_to_be_reported_is_judged_by_itself(path: Path) -> None:
    with Gradebook(path) as book:
        hand_in(book, "ann", [OUTSIDE.format("a"), "own"])
        hand_in(book, "bob", [OUTSIDE.format("b") + "'see check'", "own"])
        hand_in(book, "cleo", [OUTSIDE.format("c") + "X.check", "own"])

    with graded(path, executor := Here()):
        judged = [t.answer.source for t in executor.tasks if t.answer.exercise == "square"]

    assert len(judged) == 3


@pytest.mark.parametrize("other", ["passed", "grader failed"])
def test_if_the_anonymous_form_gets_another_verdict_each_answer_is_judged(
    path: Path, other: str
) -> None:
    with Gradebook(path) as book:
        for student, name in (("ann", "a"), ("bob", "b"), ("cleo", "c"), ("dan", "d")):
            hand_in(book, student, [f"def f():\n    {name} = 1\n    return {name}", "own"])

    class Aware(Here):
        def __call__(self, tasks: Iterator[Task]) -> Iterator[Outcome]:
            for outcome in super().__call__(tasks):
                hidden = "\ua000" in outcome.task.answer.source
                said = {"status": other, "message": ""} if hidden else outcome.said
                yield Outcome(outcome.task, said)

    with graded(path, executor := Aware(Verdict(WRONG))) as (book, _):
        found = [(s.status, s.message) for s in book.scores() if s.exercise == "square"]

    assert sorted(found) == [("wrong", f"half `{name}`") for name in "abcd"]
    assert sum("\ua000" in t.answer.source for t in executor.tasks) == 1


def test_each_code_has_inputs_of_its_own_in_each_run(path: Path) -> None:
    executor = Here()
    with graded(path, executor) as (book, run):
        seeds = {(t.answer.exercise, t.answer.hash): t.seed for t in executor.tasks}
        assert len(set(seeds.values())) == len(seeds) == len(executor.tasks)
        assert {(s.exercise, s.hash, s.seed) for s in book.scores()} == {
            (*code, str(seed)) for code, seed in seeds.items()
        }
        assert all(t.seed == seed_for(run, t.answer) for t in executor.tasks)
        other = book.begin((), grader_version())
        assert all(t.seed != seed_for(other, t.answer) for t in executor.tasks)


def test_what_changed_is_judged_again_and_nothing_else(path: Path) -> None:
    with graded(path, Here()) as (book, _):
        hand_in(book, "bob", ["own now", "other"])
    executor = Here()
    with graded(path, executor):
        assert [t.answer.source for t in executor.tasks] == ["own now"]


@pytest.mark.parametrize(
    ("grader", "changed", "said"),
    [
        ("1", False, "0 answers graded, 4 kept from earlier runs"),
        ("1", True, "1 answer graded, 3 kept from earlier runs"),
        ("2", False, "4 answers graded, 4 again because the grader has changed"),
        ("2", True, "4 answers graded, 3 again because the grader has changed"),
    ],
)
def test_what_is_new_what_is_graded_again_and_what_is_kept_is_counted(
    path: Path, grader: str, changed: bool, said: str
) -> None:
    with Gradebook(path) as book:
        run = book.begin(CATALOGUE.values(), "1")
        assert classwork._graded(book.queue(run, EXERCISES)) == "4 answers graded"
        for answer in book.pending(run):
            book.record(
                run, Score(answer.student, answer.exercise, "passed", 1.0, hash=answer.hash)
            )
        if changed:
            hand_in(book, "bob", ["own now", "other"])
        again = book.begin(CATALOGUE.values(), grader)

        assert classwork._graded(book.queue(again, EXERCISES)) == said


def test_a_lost_answer_is_the_grader_s_failure_and_is_tried_in_the_next_run(path: Path) -> None:
    with Gradebook(path) as book:
        hand_in(book, "cyd", ["lost", "own"])
    for _ in range(2):
        executor = Here()
        with graded(path, executor) as (book, _):
            (score,) = (s for s in book.scores("cyd") if s.exercise == "square")
            assert (score.status, score.points) == ("grader failed", 0.0)
            assert "lost" in [t.answer.source for t in executor.tasks]


def test_a_finding_is_recorded_with_its_witness_and_what_is_too_long_is_left_out(
    path: Path,
) -> None:
    finding = Finding("wrong-scale", "error", "half", {"actual": 1.0, "far": float("inf")}, "Look.")
    with graded(path, Here(Verdict(RuleBroken(finding), "a matrix", ("calls eval",)))) as (
        book,
        _,
    ):
        score, tally = book.scores()[0], book.tallies()[0]
        assert score.remarks == ("calls eval",)
        assert score.evidence == {"hint": "Look.", "with": "a matrix", "actual": 1.0, "far": "inf"}
        assert (tally.exercise, tally.counts, tally.rule_count) == ("square", {"wrong": 2}, 2)
        assert tally.rule == "wrong-scale"
    flood = Finding("wrong-scale", "error", "half", {"text": "x" * 10**6}, "Look.")
    assert len(told(Verdict(RuleBroken(flood)), 0.1)) < 1000


def test_of_two_runs_into_one_gradebook_the_second_is_refused(tmp_path: Path) -> None:
    book, refused = tmp_path / "book", pytest.raises(GradingError, match="another run")
    with only_run(book), refused, only_run(book):
        pass


def test_a_folder_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def acquire(lock: FileLock, **_: float) -> None:
        raise Timeout(lock.lock_file)

    monkeypatch.setattr(FileLock, "acquire", acquire)
    refused = pytest.raises(GradingError, match="cannot be written, because its folder allows no")
    with refused, only_run(tmp_path / "book"):
        pass


# The whole run is killed

# Processes are forked from one that has imported everything, so many starts cost little.
RUNS = multiprocessing.get_context("forkserver")
RUNS.set_forkserver_preload(["autograd_classroom.classwork", "pytest", "handed_in"])
KILLS, STUDENTS = 2, 15


def begin_run(root: Path, stand: Stand, said: Path) -> None:
    """Act as the command: grade a folder, and continue where an earlier run was interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        grade(Places.of(root, None, None), EXERCISES, Pool(2, stand), resume=True)
    except GradingError as error:
        said.write_text(str(error))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder of submissions. Each one is another program, after its student's name."""
    root = tmp_path / "hw"
    root.mkdir()
    for number in range(STUDENTS):
        own = f"# student{number:02}\nnumber = {number}\n{SQUARE}"
        script = notebook(cell(IMPORTS), cell(own, "square"))
        (root / f"student{number:02}.ipynb").write_bytes(script)
    return root


def recorded(root: Path) -> list[Score]:
    if not (root.parent / "hw-grades").exists():
        return []
    with Gradebook(root.parent / "hw-grades" / "gradebook.sqlite") as book:
        return [score for score in book.scores() if score.status]


@pytest.mark.thorough
def test_a_run_killed_again_and_again_loses_nothing_and_grades_nothing_twice(
    root: Path, stand: Stand, tmp_path: Path
) -> None:
    rng = random.Random(0)
    slow = Stand(stand.folder, pause=0.05)  # otherwise, all may be graded before a kill
    for kill in [True] * KILLS + [False]:
        begun, done = len(stand.told()), {f"# {score.student}" for score in recorded(root)}
        run = RUNS.Process(target=begin_run, args=(root, slow, tmp_path / "said"))
        run.start()
        if kill:
            enough = begun + rng.randrange(1, 5)
            until(lambda enough=enough: len(stand.told()) >= enough, "it begins")
            run.kill()
        run.join()
        until(lambda: all(map(is_gone, stand.workers())), "workers end when nobody listens")
        assert not done & set(stand.told()[begun:]), "what was recorded is not graded again"

    assert run.exitcode == 0
    assert len(recorded(root)) == STUDENTS * len(EXERCISES)
    with Gradebook(root.parent / "hw-grades" / "gradebook.sqlite") as book:
        assert book.begin((), "another").id == 2, "all that was interrupted is one run"


def test_ctrl_c_keeps_what_is_graded_and_says_how_to_go_on(
    root: Path, stand: Stand, tmp_path: Path
) -> None:
    slow = Stand(stand.folder, pause=0.05)
    run = RUNS.Process(target=begin_run, args=(root, slow, tmp_path / "said"))
    run.start()
    until(lambda: len(slow.told()) > 5, "it begins")
    os.kill(run.pid, signal.SIGINT)
    run.join()

    said = (tmp_path / "said").read_text()
    assert said.startswith("stopped. What was graded is kept. To go on, run: autograd-course")
    assert said.endswith(" --resume")
    assert 1 <= len(recorded(root)) < STUDENTS
    assert all(map(is_gone, slow.workers()))


# Dask

SUPPORT = Path(__file__).with_name("support")  # the workers import the judge from it


@contextmanager
def dask(word: str, *words: str, port: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of Dask's commands during a ``with`` block."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{word}", *words, "--no-dashboard"]
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}:{SUPPORT}:{os.environ.get('PYTHONPATH', '')}"
    }
    with (port.parent / f"{word}.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.thorough
@pytest.mark.skipif(
    find_spec("distributed") is None, reason="Dask is not installed (the extra 'dask')"
)
def test_on_dask_a_worker_that_is_killed_loses_nothing_and_nothing_is_graded_twice(
    path: Path, stand: Stand, tmp_path: Path
) -> None:
    file, slow = tmp_path / "scheduler.json", Stand(stand.folder, pause=0.02)
    with Gradebook(path) as book:
        for number in range(40):
            hand_in(book, f"student {number}", [f"code {number}", "own"])
    worker = ("--scheduler-file", str(file), "--nthreads", "1", "--no-nanny")
    local = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
    with dask("scheduler", *local, port=file):
        until(lambda: file.exists() and file.read_text().endswith("}"), "a scheduler starts")
        address = json.loads(file.read_text())["address"]
        with (
            dask("worker", *worker, port=file) as first,
            dask("worker", *worker, port=file),
            Gradebook(path) as book,
        ):
            run = book.begin(CATALOGUE.values(), grader_version())
            book.queue(run, EXERCISES)
            steps: list[int] = []

            def step(score: Score, answers: int) -> None:
                steps.append(answers)
                if len(slow.workers()) == 2 and first.poll() is None:
                    first.kill()

            work(book, run, Cluster(address, slow), step)
            done = book.scores()

    assert first.poll() == -signal.SIGKILL
    assert {score.status for score in done} == {"passed"}
    assert sum(steps) == len(done) == 2 * 42
    assert len(slow.told()) - len(set(slow.told())) <= 4, "only what the killed one had"
    assert len(slow.workers()) == 2


def test_without_dask_or_a_scheduler_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE", 1)
    with pytest.raises(GradingError, match=r"Dask is not installed|no Dask scheduler answers"):
        list(Cluster("tcp://127.0.0.1:9", Stand(""))(iter(())))
