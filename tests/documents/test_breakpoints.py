"""Test where a debugger stops, as described in docs/breakpoints.md. No GPU is needed."""

from __future__ import annotations

import bdb
import subprocess
import sys
import threading
from collections.abc import Callable
from textwrap import indent
from types import FrameType
from typing import Any

import pytest
import stopping
import torch
from debugadapter import stops
from pages import blocks
from repository import ROOT, SUPPORT
from stopping import Square, here, in_a_thread_of_the_engine
from torch import Tensor

from autograd_course.ship import quiet

pytestmark = [pytest.mark.slow, pytest.mark.uncompiled]

FILE = SUPPORT / "stopping.py"
SOURCE = FILE.read_text(encoding="utf-8")
LINE = next(n for n, text in enumerate(SOURCE.splitlines(), 1) if text.endswith("# stop here"))


class Debugger(bdb.Bdb):
    """Counts the stops at a line breakpoint that is set as in pdb and similar debuggers."""

    found = 0

    def user_line(self, frame: FrameType) -> None:
        self.found += frame.f_lineno == LINE
        self.set_continue()


def line_stops(run: Callable[[], object]) -> int:
    debugger = Debugger()
    debugger.set_break(str(FILE), LINE)
    before = sys.gettrace()
    try:
        debugger.runcall(run)
    finally:
        sys.settrace(before)
    return debugger.found


def compiled() -> None:
    torch._dynamo.reset()
    model = torch.compile(lambda x: Square.apply(x).sum(), backend="aot_eager")
    model(torch.ones(3, requires_grad=True)).backward()


def uncompiled() -> None:
    with torch.compiler.set_stance("force_eager"):
        compiled()


@pytest.mark.parametrize(
    ("run", "expected"),
    [(here, 1), (in_a_thread_of_the_engine, 0), (compiled, 0), (uncompiled, 1)],
    ids=["on the CPU", "in a thread of the engine", "compiled", "compiled, forced to eager"],
)
def test_a_line_breakpoint_stops(run: Callable[[], object], expected: int) -> None:
    torch._dynamo.reset()  # import it now, because this takes half a minute under a debugger
    with quiet():
        assert line_stops(run) == expected


@pytest.mark.thorough
@pytest.mark.checkout  # Python 3.12 gives debuggers a new way to observe lines
@pytest.mark.parametrize(
    ("arguments", "expected"), [((), 1), (("engine",), 0), (("engine", "settrace"), 1)], ids=str
)
def test_a_line_breakpoint_of_vs_code_stops(arguments: tuple[str, ...], expected: int) -> None:
    pytest.importorskip("debugpy")

    assert stops(FILE, LINE, *arguments) == expected


def test_the_lines_for_vs_code_are_those_that_were_run() -> None:
    (shown,) = (b.text for b in blocks(ROOT / "docs" / "breakpoints.md") if "settrace" in b.text)

    assert indent(shown, 12 * " ") in SOURCE


class Stopping(Square):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        breakpoint()
        return Square.backward(ctx, grad_output)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the threads in which breakpoint() was called."""
    names: list[str] = []
    monkeypatch.setattr(
        sys, "breakpointhook", lambda: names.append(threading.current_thread().name)
    )
    return names


def test_a_call_of_breakpoint_stops_in_a_thread_of_the_engine(
    stopped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "Square", Stopping)
    in_a_thread_of_the_engine()

    (name,) = stopped
    assert name != threading.current_thread().name


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # from PyTorch's own code
def test_a_call_of_breakpoint_stops_in_a_compiled_model_and_breaks_its_graph(
    stopped: list[str],
) -> None:
    x = torch.ones(3, requires_grad=True)
    for options in ({}, {"fullgraph": True}):
        torch._dynamo.reset()
        model = torch.compile(lambda x: Stopping.apply(x).sum(), backend="aot_eager", **options)
        if options:
            with quiet(), pytest.raises(torch._dynamo.exc.Unsupported, match="breakpoint"):
                model(x)
        else:
            with quiet():
                model(x).backward()
            assert len(stopped) == 1


def test_a_breakpoint_without_a_terminal_raises() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "breakpoint()"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip

    assert "bdb.BdbQuit" in ran.stderr


def test_pytorch_has_a_breakpoint_for_one_of_several_processes() -> None:
    assert callable(torch.distributed.breakpoint)


@pytest.mark.thorough
def test_the_variable_turns_compilation_off() -> None:
    code = "import torch; print(torch.compile(f := lambda x: x) is f, torch._dynamo.config.disable)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"TORCH_COMPILE_DISABLE": "1"}, capture_output=True, text=True,
    )  # fmt: skip

    assert ran.stdout.split() == ["False", "True"], ran.stderr
