"""Workers are forks of a process that was forked before any file was opened."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("only Linux tells processes by descriptors", allow_module_level=True)

from autograd_classroom.grading.executor import GradingError
from autograd_classroom.grading.forkserver import ForkServer

pytestmark = pytest.mark.slow

LONG = 60.0  # maximum seconds for work that takes a fraction of one; machines are busy


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer() as fork_server:
        yield fork_server


def greet(connection: Connection, hand: socket.socket) -> None:
    hand.sendall(connection.recv_bytes() + b" there")


def tell(connection: Connection, what: str) -> None:
    facts = {
        "Ctrl-C": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        "descriptors": len(os.listdir("/proc/self/fd")),
    }
    connection.send(facts[what])


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def fail() -> None:
    raise ValueError("on purpose")


def told(fork_server: ForkServer, what: str) -> object:
    ours, theirs = multiprocessing.Pipe()
    with ours:
        with theirs:
            fork_server.start(tell, theirs, what)
        assert ours.poll(LONG)
        return ours.recv()


def test_a_process_is_handed_what_it_is_called_with_its_sockets_too(
    fork_server: ForkServer,
) -> None:
    ours, theirs = multiprocessing.Pipe()
    here, there = socket.socketpair()
    with ours, here:
        with theirs, there:
            process = fork_server.start(greet, theirs, there)
        ours.send_bytes(b"hello")
        assert here.recv(100) == b"hello there"
    process.join(LONG)
    assert not process.is_alive()


def test_nothing_is_open_in_it_but_what_it_was_handed(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    before = told(fork_server, "descriptors")
    with (tmp_path / "gradebook").open("w"):
        assert told(fork_server, "descriptors") == before


def test_ctrl_c_is_not_for_it() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    try:
        with ForkServer() as fork_server:
            assert told(fork_server, "Ctrl-C") is True
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_it_can_be_ended_at_any_time_and_more_than_once(fork_server: ForkServer, end: str) -> None:
    process = fork_server.start(sleep, LONG)
    process.join(0.01)
    assert process.is_alive()
    for _ in range(2):
        getattr(process, end)()
        process.join(LONG)
        assert not process.is_alive()


def test_what_it_raises_ends_it_alone(fork_server: ForkServer) -> None:
    atexit.register(os.abort)
    try:
        for _ in range(3):
            process = fork_server.start(fail)
            process.join(LONG)
            assert not process.is_alive()
    finally:
        atexit.unregister(os.abort)
    assert told(fork_server, "Ctrl-C") is True


def test_one_that_is_gone_is_told_in_a_sentence() -> None:
    with ForkServer() as fork_server:
        os.kill(fork_server._process, signal.SIGKILL)
        os.waitid(os.P_PID, fork_server._process, os.WEXITED | os.WNOWAIT)
        with pytest.raises(GradingError, match=r"^no worker process can be started \(.+--jobs\.$"):
            fork_server.start(sleep, 0)


USED = """
import multiprocessing, os
import torch
from autograd_classroom.grading.forkserver import ForkServer

class Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        if ctx.depth:
            with torch.enable_grad():
                x = torch.ones((), requires_grad=True)
                Nested.apply(x, ctx.depth - 1).backward()
        return grad_output, None

def tell(connection):
    x = torch.ones((), requires_grad=True)
    x.clone().backward()
    connection.send(x.grad.item())

if __name__ == "__main__":
    Nested.apply(torch.ones((), requires_grad=True), 100).backward()
    ours, theirs = multiprocessing.Pipe()
    with ForkServer() as fork_server:
        fork_server.start(tell, theirs)
        print(ours.poll(60) and ours.recv())
"""


def test_workers_are_new_processes_where_autograd_has_started_threads(tmp_path: Path) -> None:
    (tmp_path / "used.py").write_text(USED)
    ran = subprocess.run([sys.executable, "used.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("1.0\n", "")


ORPHANED = """
import os, signal
from autograd_classroom.grading.forkserver import ForkServer
print(ForkServer()._process, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_with_whoever_made_it() -> None:
    ran = subprocess.run([sys.executable, "-c", ORPHANED], capture_output=True, text=True)
    until = time.monotonic() + LONG
    while Path(f"/proc/{ran.stdout.strip()}/status").exists():
        state = Path(f"/proc/{ran.stdout.strip()}/status").read_text()
        if "State:\tZ" in state:
            break
        assert time.monotonic() < until
        time.sleep(0.02)
