"""Grade a class: read the submitted files, judge the answers, and write the reports."""

from __future__ import annotations

import functools
import os
import shlex
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import typer

from autograd_classroom import console
from autograd_classroom.assignment import NOTHING, Assignment
from autograd_classroom.gradebook import Gradebook, GradebookError, Run, Tally, Workload
from autograd_classroom.gradebook.naming import first
from autograd_classroom.gradebook.roster import Person
from autograd_classroom.grading.cluster import Cluster
from autograd_classroom.grading.executor import Executor, GradingError
from autograd_classroom.grading.forkserver import ForkServer
from autograd_classroom.grading.pool import Pool, started
from autograd_classroom.grading.run import only_run, work
from autograd_classroom.grading.sandboxed_judge import SandboxedJudge
from autograd_classroom.grading.version import grader_version
from autograd_classroom.ingest.collecting import NoSubmissionsError, by_student
from autograd_classroom.ingest.hand_in import hand_in
from autograd_classroom.paths import PlaceError, Places, refuse_among_submissions
from autograd_classroom.reports import files
from autograd_classroom.reports.sites import unmatched
from autograd_classroom.sandbox import NoSandboxError, Trusted, choose
from autograd_classroom.sandbox.template import Template
from autograd_course.index import INDEX, Entry

KNOWN = (
    GradebookError, GradingError, NoSandboxError, NoSubmissionsError, PlaceError,
    files.ReportsError,
)  # fmt: skip


@contextmanager
def executor(
    jobs: int | None, scheduler: str | None, template: Template | None = None, *, trust: bool
) -> Iterator[Executor]:
    """Provide an executor. It uses a Dask cluster if a scheduler is given, otherwise local workers.

    ``template`` is a running sandbox template. Each local worker gets a fork of it.

    Raises NoSandboxError if the local workers need a sandbox and this machine has none.
    """
    judge = SandboxedJudge(trust=trust)
    if scheduler is not None:
        if trust:
            _note(Trusted().gap)
        yield Cluster(scheduler, judge)
        return
    if template and template.has_ended:
        template = None
    backend = template.backend if template else choose(trust=trust)
    _note(backend.gap or f"The answers run in a sandbox: {backend.name}.")
    share = functools.partial(judge.share, template) if template else None
    with ForkServer() if sys.platform == "linux" else nullcontext() as fork_server:
        start = fork_server.start if fork_server else started
        with closing(Pool(jobs or _cores(), judge, share, start)) as pool:
            yield pool


@contextmanager
def open_for_grading(places: Places, about: Assignment) -> Iterator[Gradebook]:
    """Open the gradebook for a single run, and prepare the reports folder."""
    files.prepare(places.reports)
    places.make_room()
    with only_run(places.gradebook), Gradebook(places.gradebook) as book:
        about.keep(book)
        yield book


def grade(
    places: Places,
    exercises: tuple[Entry, ...],
    executor: Executor,
    about: Assignment = NOTHING,
    *,
    resume: bool,
) -> bool:
    """Grade the pending answers and write reports. Return whether grading was complete.

    Grading is incomplete if the grader failed on an answer or if a submitted file was rejected.
    """
    if not by_student(places.submissions):  # before the folder for the results is created
        raise _nothing_in(places.submissions)
    with open_for_grading(places, about) as book:
        run = book.begin(INDEX.values(), grader_version(), resume=resume)
        try:
            found = _collect(book, places.submissions, exercises)
            _judge(book, run, exercises, executor)
        except KeyboardInterrupt:
            raise GradingError(f"stopped. What was graded is kept. {_go_on()}") from None
        book.finish(run)
        tallies = _show(book, exercises)
        about_grading = (*_failed(book), *_changed(book))
        for line in (*about_grading, *_late(book), *_unknown(book), *_unmatched(book)):
            console.say(line)
        files.write(book, places.reports)
        console.say(f"Reports: {short(places.reports)}")
        return found and not any(tally.counts.get("grader failed") for tally in tallies)


def report(
    gradebook: Path,
    reports: Path | None,
    formats: Iterable[str] = (),
    required: Iterable[Entry] = (),
    about: Assignment = NOTHING,
) -> bool:
    """Show a class's results. If a folder or a format is given, also write the reports.

    Without a folder, write the reports next to the gradebook. Without a format, write all formats.
    If new settings or a new roster leave some reports out of date, print the command that writes
    them all.

    Return whether all students have passed the required exercises. If no student has handed in a
    required exercise, return false.
    """
    with Gradebook.existing(gradebook) as book:
        if reports is not None:
            sources = [source for _, source in book.sources()]
            refuse_among_submissions(reports, gradebook, sources)
        about.keep(book)
        _show(book)
        for line in (*_late(book), *_unknown(book)):
            console.say(line)
        wanted = tuple(formats)
        writes = reports is not None or bool(wanted)
        everything = writes and (not wanted or "all" in wanted)
        if writes:
            folder = reports or gradebook.absolute().parent
            files.write(book, folder, tuple(files.FORMATS) if everything else wanted)
            for line in _unmatched(book, () if everything else wanted):
                console.say(line)
            console.say(f"Reports: {short(folder)}")
        missing = [line for exercise in required for line in _not_passed(book, exercise)]
        for line in missing:
            console.say(line)
        if about != NOTHING and not everything:
            console.say_next(gradebook)
        return not missing


def _collect(book: Gradebook, root: Path, exercises: Iterable[Entry]) -> bool:
    """Read the submitted files and print how many there are. Return false if any was rejected."""
    with console.progress() as shown:
        reading = shown.add_task("reading", total=None)
        came = hand_in(book, root, exercises, lambda: shown.advance(reading))
    if not came.notebooks and not came.rejected:
        raise _nothing_in(root)
    book.expect(came.exercises)
    rejected = f", and {came.rejected} could not be graded" if came.rejected else ""
    console.say(f"{some(came.notebooks, 'file')} read{rejected}")
    console.say_ignored(came.ignored)
    if came.gone:
        console.say(
            f"{short(root)} no longer has the graded files of {some(len(came.gone), 'student')}, "
            f"whose grades are kept: {first(came.gone)}."
        )
    return not came.rejected


def _nothing_in(root: Path) -> NoSubmissionsError:
    return NoSubmissionsError(
        f"there is nothing to grade in {root}: no notebook, script or zip of these exercises."
    )


def _judge(book: Gradebook, run: Run, exercises: Iterable[Entry], executor: Executor) -> None:
    load = book.queue(run, exercises)
    with console.progress() as shown:
        grading = shown.add_task("grading", total=load.graded)
        work(book, run, executor, lambda score, answers: shown.advance(grading, answers))
    console.say(_graded(load))


def _graded(load: Workload) -> str:
    """Return how many answers were graded, how many of them again, and how many were kept."""
    again = f", {load.again} again because the grader has changed" if load.again else ""
    kept = f", {load.kept} kept from earlier runs" if load.kept else ""
    return f"{some(load.graded, 'answer')} graded{again}{kept}"


def _failed(book: Gradebook) -> Iterator[str]:
    """Yield a line for each reason why the grader failed, with the answers on which it failed."""
    answers: defaultdict[str, list[str]] = defaultdict(list)
    for score in book.scores():
        if score.outcome == "grader failed":
            answers[score.message].append(f"{score.student} {score.exercise}")
    for reason, named in answers.items():
        yield f"The grader failed on {first(named)}: {reason}"
    if answers:
        yield "The next run grades these answers again."


def _changed(book: Gradebook) -> Iterator[str]:
    """Yield a line listing the answers whose code has changed since they were graded by hand."""
    changed = [s for s in book.scores() if s.settlement and s.settlement.changed]
    if changed:
        named = ", ".join(f"{score.student} {score.exercise}" for score in changed)
        yield f"The code has changed since these answers were settled by hand: {named}."


def _late(book: Gradebook) -> Iterator[str]:
    """Yield lines about the students with late work, and about dates in the future."""
    if late := book.late():
        named = ", ".join(f"{name} ({some(days, 'day')})" for name, days in late.items())
        yield f"{some(len(late), 'student')} handed in late: {named}."
    if ahead := book.ahead():
        yield (
            "These students' files have dates in the future, so check the dates and your clock: "
            f"{', '.join(ahead)}."
        )


def _unknown(book: Gradebook) -> Iterator[str]:
    """Yield lines about absent students and about names that match no student, or several."""
    unknown, several = book.unknown_extensions()
    if unknown:
        yield f"These names under [extensions] match no student: {', '.join(unknown)}."
    if several:
        yield (
            "These names under [extensions] match several students and have no effect: "
            f"{', '.join(several)}. Name each student as in the reports."
        )
    if not book.roster():
        return
    if absent := book.absent():
        named = ", ".join(person.label for person in absent)
        yield f"{some(len(absent), 'student')} of the roster handed in nothing: {named}."
    people = book.people()
    if conflicts := book.conflicting():
        named = ", ".join(f"{student} ({who.label})" for student, who in conflicts.items())
        yield (
            "The roster gives the numbers of these students to other names, so correct the roster "
            f"if both names are one person: {named}."
        )
    rows: defaultdict[Person, list[str]] = defaultdict(list)
    for student, person in people.items():
        rows[person].append(student)
    if shared := [" and ".join(names) for names in rows.values() if len(names) > 1]:
        yield (
            f"Each of these is one person on the roster: {'; '.join(shared)}. A course site can "
            "import only one row per person, so put the files of each person into one folder, and "
            "grade into a new gradebook."
        )
    if strangers := [student for student in book.students() if student not in people]:
        yield f"Not on the roster: {', '.join(strangers)}."


UNMATCHED = {
    "canvas": "canvas.csv has no ID for {}, so Canvas looks for the name. The roster can contain "
    "IDs.",
    "moodle": "moodle.csv has no Identifier for {}, so Moodle skips each such row of the "
    "grading worksheet. The Identifier is the number in the name of the downloaded folder.",
}


def _unmatched(book: Gradebook, wanted: Iterable[str] = ()) -> Iterator[str]:
    """Yield a line about the rows that a course site cannot match to a student.

    ``wanted`` are the formats that the caller requested, or empty if all formats are written. If a
    site cannot match any row, the class probably does not use this site. In this case, yield a line
    only if the caller requested the site's format.
    """
    for site, line in UNMATCHED.items():
        found = unmatched(book, site) if not wanted or site in wanted else []
        if found and (wanted or len(found) < len(book.students())):
            yield line.format(", ".join(found))


def _not_passed(book: Gradebook, exercise: Entry) -> Iterator[str]:
    """Yield a line that lists the students who have not passed an exercise.

    These include students whose file was unreadable, students who handed in only a different
    lesson, and students on the roster who handed in nothing. If no student handed in the exercise,
    the line states this.
    """
    scores = [score for score in book.scores() if score.exercise == exercise.id]
    passed = {score.student for score in scores if score.is_passed}
    missing = [student for student in book.students() if student not in passed]
    missing += [person.label for person in book.unrecorded()]
    if not scores:
        yield f"{exercise.id} was handed in by no student."
    elif missing:
        yield f"{exercise.id} is not passed by {', '.join(missing)}."


def _show(book: Gradebook, only: Iterable[Entry] = ()) -> list[Tally]:
    """Print problems with files and a table of results. Return the tallies that the table shows.

    The table has a row for each exercise in ``only``, or for all exercises if ``only`` is empty.
    """
    problems = book.problems()
    if problems:
        console.say(f"{some(len(problems), 'remark')} on files:")
    for line in console.remarks(problems):
        console.say(f"  {line}")
    console.say()
    named = {exercise.id for exercise in only}
    tallies = [tally for tally in book.tallies() if not named or tally.exercise in named]
    console.show(console.summary(tallies))
    console.say()
    return tallies


def _go_on() -> str:
    words = [word for word in sys.argv[1:] if word != "--resume"]
    return f"To go on, run: autograd-course {shlex.join(words)} --resume"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def short(path: Path) -> Path:
    """Return a path relative to the current folder, if the path is inside this folder."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def some(count: int, what: str) -> str:
    """Return a number and its noun, as in ``3 notebooks``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _note(message: str) -> None:
    typer.echo(message, err=True)
