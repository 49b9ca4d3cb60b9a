"""Every hostile submission in the bank is contained, scored correctly and explained.

A student who is graded after it finds no trace of it. A student who is graded at the same time gets
the usual verdict.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from autograd_classroom.ingest import Rejected, collect
from autograd_classroom.judge import judge, judged
from autograd_classroom.protocol import Frame
from autograd_classroom.sandbox import Limits
from autograd_classroom.sandbox.running import Sandbox
from hostile import BANK, FILES
from sampling import first_rows
from submissions import IMPORTS, square
from walls import WALLS, wall

from autograd_course.extraction import Answer, extract
from autograd_course.grader import CATALOGUE
from autograd_course.grader.limits import VARIABLE
from autograd_course.grader.reading import reaching, reader
from autograd_course.grader.reading.skipping import skip
from autograd_course.grader.verdict import FunctionAgrees, Verdict

pytestmark = pytest.mark.slow

MIB = 1 << 20
TIGHT = Limits(
    wall=8.0, cpu=4, memory=400 * MIB, processes=30, started=200, disk=4 * MIB, files=100
)


@pytest.fixture(scope="module", autouse=True)
def short_answers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "1")
        yield


@pytest.fixture(scope="module", params=WALLS)
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    keep_a_key()
    with Sandbox(wall(request.param), TIGHT) as running:
        yield running


def keep_a_key() -> None:
    """Add a key to the keyring, as in a login session. No submission should be able to find it."""
    libc = ctypes.CDLL(None)
    libc.syscall(250, 1, None)  # a session keyring that belongs to this process
    libc.syscall(248, b"user", b"left", b"secret", 6, -3)


@pytest.fixture(scope="module")
def usual_seconds(box: Sandbox) -> float:
    return min(seconds_of_a_neighbor(box) for _ in range(2))


def verdict_on(
    box: Sandbox, source: str, exercise: str = "square", name: str = "Square"
) -> Verdict:
    answer = Answer(exercise, "eve", name, source, IMPORTS)
    return judged(CATALOGUE[exercise], answer, box, secret=2024)


def seconds_of_a_neighbor(box: Sandbox) -> float:
    box.start()  # a container starts again for each answer, so this is not timed
    began = time.monotonic()
    assert verdict_on(box, square()) == replace(HONEST, remarks=())
    return time.monotonic() - began


HONEST = Verdict(
    FunctionAgrees("reference", "", tuple(CATALOGUE["square"].samplers))  # type: ignore[attr-defined]
)

LEAVING = ("bombs", "exits", "lingering", "patching", "poisoning")
# This code raises a list of everything that earlier submissions have left or changed.
LOOKS = """
import builtins, ctypes, os, sys, threading, torch
search = ctypes.CDLL(None).syscall(250, 10, -3, b"user", b"left", 0)
raise LookupError([
    *(n for n in os.listdir("/tmp") if not n.startswith("torchinductor_")),  # the template's own
    *os.listdir("/dev/shm"), *(n for n in os.environ if "LEFT" in n),
    *(["a builtin"] if hasattr(builtins, "LEFT") else []),
    *(["a key"] if search != -1 else []),
    *(["a thread"] if threading.active_count() != 1 else []),
    *(["a function"] if "built-in" not in repr(torch.allclose) else []),
    *(["a dtype"] if torch.get_default_dtype() is not torch.float32 else []),
    *(["a mode"] if not torch.is_grad_enabled() else []),
    *(["a hook"] if sys.gettrace() else []),
])
"""


@pytest.fixture
def everything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also run the code that the classroom leaves out, because it might miss some of it."""
    monkeypatch.setattr(reader, "skip", lambda cells, name, uses: (tuple(cells), []))
    monkeypatch.setattr(judge, "keep_answer", lambda cells, name: tuple(cells))


@pytest.mark.usefixtures("usual_seconds", "everything_runs")  # the former before hostile code runs
@pytest.mark.parametrize("what", first_rows(BANK, lambda what: what.partition(":")[0], 1))
def test_it_is_contained_scored_rightly_and_explained(
    box: Sandbox, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = BANK[what]
    said = hostile.said if box.backend.separates else hostile.unsecluded or hostile.said
    monkeypatch.setenv(VARIABLE, str(hostile.seconds))
    monkeypatch.setattr(box, "limits", replace(TIGHT, wall=hostile.wall, whole=hostile.whole))

    verdict = verdict_on(box, hostile.source, hostile.exercise, hostile.name)

    assert verdict.status == hostile.status, verdict
    assert re.search(said, verdict.message), verdict
    assert any(hostile.seen in remark for remark in verdict.remarks) or not hostile.seen, verdict
    assert "".join([verdict.message, *verdict.remarks]).replace("\n", "").isprintable()
    if what.startswith(LEAVING):
        assert "LookupError: []" in verdict_on(box, LOOKS).message, "the next one finds something"


# Submissions that attack the grader, and that also derive the gradient themselves.
DERIVED = r"(bombs|lingering|poisoning): "


@pytest.mark.parametrize("what", [
    what for what, hostile in BANK.items()
    if skip([IMPORTS, hostile.source], hostile.name, reaching.uses)[1]
])  # fmt: skip
def test_an_attack_that_the_answer_does_not_need_never_runs(box: Sandbox, what: str) -> None:
    hostile = BANK[what]

    verdict = verdict_on(box, hostile.source, hostile.exercise, hostile.name)

    assert verdict.status == "wrong" or (verdict.status == "passed" and re.match(DERIVED, what))


def test_after_all_of_them_a_neighbor_is_graded_as_ever(box: Sandbox, usual_seconds: float) -> None:
    assert min(seconds_of_a_neighbor(box) for _ in range(2)) < 2 * usual_seconds + 0.5


def test_meanwhile_a_neighbor_is_graded_as_ever(box: Sandbox, usual_seconds: float) -> None:
    with Sandbox(box.backend, TIGHT) as beside:
        seconds_of_a_neighbor(beside)
        hostile = threading.Thread(target=run_bombs, args=(box,))
        hostile.start()
        taken = []
        while hostile.is_alive():
            taken.append(seconds_of_a_neighbor(beside))

    assert taken, "the bombs were over too soon"
    assert min(taken) < 3 * usual_seconds + 0.5


def run_bombs(box: Sandbox) -> None:
    for what in ("forks", "threads", "memory in many processes"):
        cells = [IMPORTS, BANK[f"bombs: {what}"].source]
        with box.child() as child:
            begin = {"kind": "function", "cells": cells, "name": "Square", "seconds": 1}
            child.ask(Frame(begin))


# Before any code runs


@pytest.mark.parametrize("what", FILES)
def test_a_file_is_graded_or_refused_in_words_and_stops_nobody(what: str, tmp_path: Path) -> None:
    hostile = FILES[what]
    (tmp_path / hostile.name).write_bytes(hostile.data)
    if hostile.size:
        os.truncate(tmp_path / hostile.name, hostile.size)
    (tmp_path / "zoe.py").write_text(f"{IMPORTS}\n{square()}")

    *_, first, last = collect(tmp_path)
    theirs, zoes = sorted((first, last), key=lambda each: each.student == "zoe")

    assert not isinstance(zoes, Rejected)
    assert f"{theirs.student}{theirs.source}".isprintable()
    if isinstance(theirs, Rejected):
        assert not hostile.student, theirs
        assert hostile.said in theirs.problem
        return
    (answer,) = extract(theirs.notebook, theirs.student, [CATALOGUE["square"]])
    assert answer.found
    assert theirs.student == hostile.student
    assert hostile.said in "; ".join((*theirs.problems, *answer.problems))
