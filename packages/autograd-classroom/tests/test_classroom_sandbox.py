from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from autograd_classroom import classwork, sandbox
from autograd_classroom.judge import judged
from autograd_classroom.protocol import Frame, Malformed
from autograd_classroom.protocol.wire import pack
from autograd_classroom.sandbox import (
    Bubblewrap,
    Container,
    Limits,
    Trusted,
    bubblewrap,
    mounts,
)
from autograd_classroom.sandbox.backend import NoSandboxError, SandboxError, Start
from autograd_classroom.sandbox.fork_server import kernel, syscalls
from autograd_classroom.sandbox.fork_server.spawn import born
from autograd_classroom.sandbox.running import Sandbox, told
from autograd_classroom.sandbox.template import Template
from autograd_classroom.worker import given
from repository import ROOT
from submissions import FORWARD, IMPORTS, square

from autograd_course.extraction import Answer
from autograd_course.grader import CATALOGUE
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.limits import VARIABLE
from autograd_course.grader.verdict import Verdict
from autograd_course.lesson import HOMES

pytestmark = pytest.mark.slow

MIB = 1 << 20
SQUARE = CATALOGUE["square"]
assert isinstance(SQUARE, FunctionExercise)
needs_bubblewrap = pytest.mark.skipif(
    not bubblewrap.works() and not os.environ.get("CI"), reason="bubblewrap is not installed"
)
TIGHT = Limits(
    wall=8.0, cpu=4, memory=400 * MIB, processes=30, started=200, disk=4 * MIB, files=100
)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "1")
        with Sandbox(Bubblewrap(), TIGHT) as running:
            yield running


def answer(source: str) -> Answer:
    return Answer("square", "ada", "Square", source, IMPORTS)


def handed_in(box: Sandbox, source: str) -> Verdict:
    return judged(SQUARE, answer(source), box, secret=2024)


def seen(box: Sandbox, expression: str) -> object:
    """Return an expression's value in the sandbox. Earlier lines are run as statements."""
    *before, last = expression.strip().splitlines()
    source = "\n".join(["import json, sys", *before, f"raise LookupError(json.dumps({last}))"])
    message = handed_in(box, source).message
    assert "LookupError: " in message, message
    begins = message.index("LookupError: ") + len("LookupError: ")
    return json.JSONDecoder().raw_decode(message[begins:])[0]


# What the sandbox shows


OUTSIDE = (
    "autograd_classroom/gradebook",
    "autograd_classroom/judge",
    "autograd_course/exercises",
    "autograd_course/functions/__init__.py",
    "autograd_course/functions/square.py",
    "autograd_course/grader",
    "autograd_course/quizzes",
)


@needs_bubblewrap
def test_neither_environment_nor_files_nor_processes_are_in_sight(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gradebook.sqlite").write_text("secret")
    root = ROOT
    look = f"""import os, glob
{{"environment": sorted(os.environ), "tmp": os.listdir("/tmp"), "proc": os.listdir("/proc"),
 "there": [p for p in {[str(tmp_path), str(root / "solutions"), str(root / "tests")]!r}
           + ["/etc/passwd", "/bin/ls", "/usr/bin/env", "/course/solutions"]
           + ["/course/" + part for part in {OUTSIDE!r}] if os.path.exists(p)],
 "root": sorted(os.listdir("/root")) if os.path.exists("/root") else [],
 "id": [os.getpid(), os.getppid()], "user": os.getuid()}}"""
    lines = look.splitlines()

    saw = seen(box, lines[0] + "\n" + " ".join(lines[1:]))

    assert isinstance(saw, dict)
    assert saw["tmp"] == saw["proc"] == saw["there"] == []
    assert saw["id"] == [1, 0]
    assert saw["user"] != 0
    assert set(saw["root"]) <= set(Path(sys.base_prefix).resolve().parts), "but Python's own place"
    assert set(saw["environment"]) <= {
        VARIABLE, "HOME", "LANG", "LOGNAME", "OMP_NUM_THREADS", "PATH", "PWD",
        "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "PYTHONPATH", "TORCHINDUCTOR_CACHE_DIR",
    }  # fmt: skip


@needs_bubblewrap
def test_a_course_that_is_installed_is_not_in_sight(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed = tmp_path / "site-packages"
    (installed / "autograd_course" / "exercises").mkdir(parents=True)
    (installed / "autograd_classroom" / "judge").mkdir(parents=True)
    (installed / "another").mkdir()
    sites = mounts._sites() | {installed: mounts.INSIDE / "9" / "site-packages"}
    monkeypatch.setattr(mounts, "_sites", lambda: sites)
    there = "/course/9/site-packages"

    with Sandbox(Bubblewrap(), TIGHT) as box:
        look = f"[os.path.exists('{there}/' + part) for part in {['another', *INSTALLED]!r}]"
        assert seen(box, f"import os\n{look}") == [True, *[False for _ in INSTALLED]]


INSTALLED = ("autograd_classroom/judge", "autograd_course/exercises", "autograd_course/__init__.py")


@needs_bubblewrap
def test_what_the_worker_imports_of_the_course_is_what_the_list_says(box: Sandbox) -> None:
    before = "import sys\nfrom autograd_classroom.worker.inside import has"
    outside = seen(box, f"{before}\n[name for name in sys.modules if not has(name)]")

    assert isinstance(outside, list)
    # Folders that are only partly inside, and names that do nothing.
    stands_for = given._ABSENT.keys() | HOMES.keys()
    parts = {".".join(name.split(".")[:n]) for name in stands_for for n in range(2, 5)}
    assert {*outside} <= parts | {"autograd_classroom.sandbox", "autograd_course.shell"}


@needs_bubblewrap
def test_the_standard_library_is_at_hand(box: Sandbox) -> None:
    assert seen(box, "import fractions, statistics, numpy\nstr(fractions.Fraction(1, 2))") == "1/2"


@needs_bubblewrap
def test_the_template_never_holds_a_submission(box: Sandbox) -> None:
    mark = "".join(map(chr, (110, 111, 98, 111, 100, 121, 115))) + "-formula"
    assert handed_in(box, f"# {mark}\n" + square()).status == "passed"
    assert isinstance(box._running, Template)

    held = [memory_of(process) for process in below(box._running.process.pid)]

    assert any(b"autograd_classroom.sandbox.fork_server" in memory for memory in held)
    assert not any(mark.encode() in memory for memory in held)


@needs_bubblewrap
def test_a_fork_of_the_template_grades_until_it_is_left(box: Sandbox) -> None:
    template = box._running
    assert isinstance(template, Template)
    before = alive_below(template.process.pid)

    with Sandbox(Bubblewrap(), TIGHT, template.twin()) as other:
        assert alive_below(template.process.pid) == before + 1
        assert handed_in(other, square()).status == handed_in(box, square()).status == "passed"

    until = time.monotonic() + 60
    while alive_below(template.process.pid) > before and time.monotonic() < until:
        time.sleep(0.005)
    assert alive_below(template.process.pid) == before


def alive_below(process: int) -> int:
    stats = [Path(f"/proc/{number}/stat").read_text() for number in below(process)]
    return sum(stat.rpartition(")")[2].split()[0] != "Z" for stat in stats)


def below(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *(deeper for child in children for deeper in below(int(child)))]


def memory_of(process: int) -> bytes:
    """Return all memory that a process can write to."""
    if os.geteuid() != 0:
        pytest.skip("only root may read the memory of what runs in a sandbox")
    regions = []
    lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for line in (line for line in lines if line.split()[1].startswith("rw")):
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            memory.seek(begin)
            regions.append(memory.read(end - begin) or b"")
    return b"".join(regions)


# Time limits


@needs_bubblewrap
def test_what_all_answers_take_together_is_bounded_and_what_passes_between_them_is_not(
    box: Sandbox,
) -> None:
    asleep = square(before="import time", forward="time.sleep(0.2)\nreturn x * x")
    begin = {"kind": "function", "cells": [IMPORTS, asleep], "name": "Square", "seconds": 5}
    question = Frame({"ask": "forward"}, pack((torch.ones(3),)))
    with box.child(replace(TIGHT, whole=1.0)) as child:
        first = child.ask(Frame(begin))
        time.sleep(1.1)
        second, *_, last = (child.ask(question) for _ in range(6))

    assert isinstance(first, Frame)
    assert isinstance(second, Frame)
    assert isinstance(last, Malformed)
    assert last.reason == "the code was stopped: its answers took more than 1 s together."


# The sandbox itself


@needs_bubblewrap
def test_what_one_child_imports_slowly_the_next_child_has() -> None:
    has_it = "'torch._dynamo' in sys.modules"
    with Sandbox(Bubblewrap()) as box:
        before = seen(box, has_it)
        needed = square(f"torch._dynamo.reset\n{FORWARD}", before="import torch._dynamo")
        remarks = handed_in(box, needed).remarks
        after = seen(box, has_it)

        assert (before, after) == (False, True)
        assert not any("replaces" in remark for remark in remarks)
        assert handed_in(box, square()).remarks == ()


def test_without_any_sandbox_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.bubblewrap, "works", lambda: False)
    monkeypatch.setattr(sandbox.container, "engine", lambda: None)

    with pytest.raises(NoSandboxError, match=r"apt install bubblewrap.*--trust"):
        sandbox.choose()
    assert sandbox.choose(trust=True) == Trusted()
    monkeypatch.setattr(sandbox.container, "engine", lambda: "podman")
    assert sandbox.choose() == Container("podman")


@pytest.mark.parametrize("why", ["another processor", "another kernel"])
def test_where_the_kernel_refuses_no_calls_the_instructor_is_told(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Bubblewrap().gap == Container("podman").gap == ""
    if why == "another processor":
        monkeypatch.setattr("platform.machine", lambda: "riscv64")
    else:
        monkeypatch.setattr(kernel, "has_filters", lambda: False)
    told: list[str] = []
    monkeypatch.setattr(classwork, "_note", told.append)
    monkeypatch.setattr(classwork, "choose", lambda **_: Bubblewrap())
    with classwork.executor(1, None, trust=False):
        pass

    assert told == [
        "The kernel of this machine cannot filter system calls for the sandbox, so an answer can "
        "take more memory than its limit."
    ]


HEADERS = {"x86_64": "x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "asm-generic/unistd.h"}


@pytest.mark.parametrize("machine", HEADERS)
def test_the_refused_calls_have_the_numbers_of_the_kernels_headers(machine: str) -> None:
    header = Path("/usr/include", HEADERS[machine])
    if not header.exists():
        pytest.skip(f"there is no {header}")
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)\b", header.read_text()))
    known = syscalls._MACHINES[machine]
    numbers = {"clone": known.clone, "clone3": known.clone3, "mmap": known.mmap, **known.refused}

    assert {name: int(found[name]) for name in numbers} == numbers


def test_a_container_promises_the_same_by_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograd_classroom.sandbox.container.image", lambda engine: "empty")
    start = Container("docker").start(Path("/run/meeting"))
    command = start.command

    assert command[:3] == ("docker", "run", "--rm")
    assert {
        "--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
        "--ipc=private", "--pids-limit=64", "--ulimit=nproc=64:64",
    } <= set(command)  # fmt: skip
    (called,) = (part.removeprefix("--name=") for part in command if part.startswith("--name="))
    assert start.ending == ("docker", "kill", called)
    (user,) = (part.removeprefix("--user=") for part in command if part.startswith("--user="))
    assert int(user.partition(":")[0]) > 60000, "nobody who has files here"
    assert "/run/meeting:/course/control" in command
    mounted = [command[i + 1] for i, part in enumerate(command) if part == "--volume"]
    assert all(volume.endswith(":ro") for volume in mounted if "meeting" not in volume)
    assert not Container("docker").separates


# In a container and in trusted mode, a submission shares its namespace with its keeper.
ENDS = {
    "itself": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "its process group": lambda: os.killpg(0, signal.SIGKILL),
    "its keeper": lambda: os.kill(os.getppid(), signal.SIGKILL) or signal.pause(),
}  # fmt: skip


@pytest.mark.parametrize("what", ENDS)
def test_without_a_namespace_of_its_own_whatever_a_child_kills_is_told_as_a_shell_would(
    what: str,
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, born(theirs, TIGHT, lambda _: ENDS[what](), secluded=False) as child:
        code = child.reaped()
        theirs.close()
        assert ours.recv(1) == b"", "the child is gone, too"

    assert code == 128 + signal.SIGKILL
    assert told(Malformed("", gone=True), {"code": code}, TIGHT).endswith("or killed itself.")


def test_a_child_runs_nothing_before_its_keeper_has_told_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = os.write
    monkeypatch.setattr("os.write", lambda *args: time.sleep(0.3) or write(*args))
    ours, theirs = socket.socketpair()

    with ours, theirs, born(theirs, TIGHT, lambda _: ENDS["its keeper"](), secluded=False) as child:
        assert child.reaped() == 128 + signal.SIGKILL


@pytest.mark.thorough
def test_ones_own_code_runs_without_a_sandbox() -> None:
    with Sandbox(Trusted()) as box:
        assert handed_in(box, square()).status == "passed"
        assert "ended the process" in handed_in(box, "import os\nos._exit(3)").message


def test_a_template_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograd_classroom.sandbox.trusted.FORK_SERVER", "no_such_module")

    with pytest.raises(SandboxError, match=r"did not start: .*no_such_module"):
        Sandbox(Trusted()).start()
    assert judged(SQUARE, answer(""), Sandbox(Trusted()), 1).status == "grader failed"


def test_a_template_that_did_not_start_says_so_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograd_classroom.sandbox.trusted.FORK_SERVER", "no_such_module")

    with closing(Template(Trusted())) as template:
        for _ in range(2):
            with pytest.raises(SandboxError, match="did not start"):
                template.twin()


class Forking(Trusted):
    """A sandbox whose first process forks and waits, as Bubblewrap's does while it starts."""

    def __init__(self, told: Path) -> None:
        self.told = told

    def start(self, meeting: Path) -> Start:
        return Start(("sh", "-c", f"sleep 60 & echo $! > {self.told}; wait"))


@pytest.mark.skipif(sys.platform != "linux", reason="the test reads /proc")
def test_a_template_that_ends_while_it_starts_leaves_no_process(tmp_path: Path) -> None:
    told = tmp_path / "second"
    with closing(Template(Forking(told))):
        until = time.monotonic() + 10
        while not (told.exists() and told.read_text()) and time.monotonic() < until:
            time.sleep(0.01)
    second = Path("/proc", told.read_text().strip(), "stat")

    until = time.monotonic() + 10
    while second.exists() and ") Z " not in second.read_text():
        assert time.monotonic() < until, "the second process is still there"
        time.sleep(0.01)


@pytest.mark.parametrize("symlinks", [True, False])
def test_the_python_of_the_sandbox_is_that_of_no_environment(
    symlinks: bool, tmp_path: Path
) -> None:
    """A virtual environment may be in a folder that the sandbox does not see."""
    venv.create(tmp_path / "env", symlinks=symlinks)
    command = "import sys; sys.path += {!r}; from autograd_classroom.sandbox import mounts; "
    asked = command.format(sys.path) + "print(mounts.interpreter())"
    told = subprocess.check_output([tmp_path / "env" / "bin" / "python", "-c", asked], text=True)

    assert (
        Path(told.strip()) == Path(sys.base_exec_prefix, "bin", Path(told.strip()).name).resolve()
    )
