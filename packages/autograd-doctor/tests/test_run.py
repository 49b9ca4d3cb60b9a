"""``autograd-doctor run``: the program runs as with ``python``, and a report follows."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("typer", reason="the command needs the extra cli")

FUNCTIONS = """
import torch
from torch.autograd import Function


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


class Half(Square):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return x * grad_output


square = Square.apply
"""
TRAIN = """
import sys

import torch
from functions import Half, square

class Local(Half):
    pass

torch.manual_seed(0)
weight = torch.randn(20, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.01)
print("begins", flush=True)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = square(weight).sum() + Local.apply(weight).sum()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
print(torch.rand(2).tolist())
"""
ENDLESS = "1000000000"
COMMAND = [sys.executable, "-m", "autograd_doctor.cli", "run"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "functions.py").write_text(FUNCTIONS, encoding="utf-8")
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    return tmp_path


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True)


def doctor(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True)


# The program runs as with python. These programs do not use PyTorch, so they start fast.

ALONE = "The program did not import PyTorch, so there was nothing to examine.\n"
TABLE = "No custom autograd Function was called.\n"
PROGRAMS = {
    "ends": "print('done')",
    "sys.exit(3)": "import sys; sys.exit(3)",
    "sys.exit()": "import sys; sys.exit()",
    "sys.exit(text)": "import sys; sys.exit('bye')",
    "raises": "def f():\n    raise KeyError('x')\nf()",
    "raises from": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e",
    "does not parse": "print('never')\ndef f(:",
    "has a file of its own": "import pathlib; print(__name__, __file__, __doc__, __package__)",
    "reads its arguments": "import sys; print(sys.argv, sys.path[0])",
    "is the main module": (
        "import sys, pickle\nclass A: pass\nprint(sys.modules['__main__'].A is A)\n"
        "print(pickle.loads(pickle.dumps(A())).__class__)"
    ),
    "has an exit handler": "import atexit; atexit.register(print, 'bye'); print('first')",
    "has an exception hook": (
        "import sys\nsys.excepthook = lambda *error: print('mine', error[1])\nraise ValueError(1)"
    ),
}


SCRIPT, MODULE = ["program.py", "a", "--b"], ["-m", "program", "a", "--b"]
BOTH = ("reads its arguments",)
RARE = (
    "sys.exit()", "sys.exit(text)", "raises from", "has a file of its own", "has an exit handler",
    "has an exception hook",
)  # fmt: skip


def ways_to_run() -> Iterator[Any]:
    for name, code in PROGRAMS.items():
        for kind, words, always in (
            ("script", SCRIPT, name not in RARE),
            ("module", MODULE, name in BOTH),
        ):
            marks = () if always else pytest.mark.thorough
            yield pytest.param(words, code, id=f"{kind} {name}", marks=marks)


@pytest.mark.parametrize(("words", "code"), [*ways_to_run()])
def test_a_program_runs_and_ends_as_under_python(
    words: list[str], code: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(code, encoding="utf-8")
    plain, ours = python(tmp_path, *words), doctor(tmp_path, *words)

    assert ours.returncode == plain.returncode
    assert ours.stdout == plain.stdout
    assert ours.stderr == plain.stderr + TABLE + ALONE


def test_a_folder_with_a_main_file_runs_too(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("import sys; print(sys.argv, sys.path[0])")
    plain, ours = python(tmp_path, "app", "x"), doctor(tmp_path, "app", "x")

    assert (ours.returncode, ours.stdout) == (0, plain.stdout)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian.py"], "There is no file trian.py. Did you mean train.py?"),
        (["--update-baseline", "train.py"], "--update-baseline needs --baseline FILE."),
    ],
)
def test_a_mistake_in_the_command_is_one_sentence(
    words: list[str], sentence: str, folder: Path
) -> None:
    ran = doctor(folder, *words)

    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", sentence + "\n")


def test_a_module_that_does_not_exist_ends_as_under_python(tmp_path: Path) -> None:
    plain, ours = python(tmp_path, "-m", "no_module"), doctor(tmp_path, "-m", "no_module")

    assert ours.returncode == plain.returncode == 1
    assert "No module named no_module" in ours.stderr


# Findings


def verdicts(stderr: str) -> dict[str, str]:
    """Return the verdict on each Function in the table."""
    rows = re.findall(r"^(\w+)  +\S+:\d+ +\d+  (.*)$", stderr, re.MULTILINE)
    return dict(rows)


FOUND = {"Local": "✗ constant-factor", "Square": "✓"}


def test_a_script_computes_the_same_and_a_report_follows(folder: Path) -> None:
    plain, ours = python(folder, "train.py", "5"), doctor(folder, "train.py", "5")

    assert (ours.returncode, ours.stdout) == (0, plain.stdout)
    assert verdicts(ours.stderr) == FOUND
    assert "train.py:7" in ours.stderr
    assert "✗ Local · wrong\n  constant-factor: " in ours.stderr


@pytest.mark.thorough
def test_steps_are_optimizer_steps(folder: Path) -> None:
    ran = doctor(folder, "--strict", "--steps", "3", "train.py", ENDLESS)
    assert "With --strict the run fails: 1 error is not in a baseline." in ran.stderr

    assert ran.returncode == 1, ran.stderr  # for the error
    assert len(ran.stdout.splitlines()) == 3  # the third step does not print its line
    assert ran.stderr.startswith("The program was stopped after 3 optimizer steps.\n")
    assert verdicts(ran.stderr) == FOUND


def test_seconds_end_a_program_that_sleeps(tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text("import time\nprint('begins')\ntime.sleep(100)\n")
    ran = doctor(tmp_path, "--seconds", "0.5", "sleeps.py")

    assert (ran.returncode, ran.stdout) == (0, "begins\n")
    assert ran.stderr == "The program was stopped after 0.5 s.\n" + TABLE + ALONE


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda it: it.name)
def test_a_signal_still_prints_the_report_and_ends_the_process(
    number: signal.Signals, folder: Path
) -> None:
    words = ["train.py", ENDLESS]
    with subprocess.Popen(
        [*COMMAND, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Processes that a shell runs in the background ignore Ctrl-C, and their children inherit
        # this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout
        for _ in range(5):
            process.stdout.readline()
        process.send_signal(number)
        _, stderr = process.communicate(timeout=100)

    assert process.returncode == -number
    assert verdicts(stderr) == FOUND
    assert ("KeyboardInterrupt" in stderr) == (number == signal.SIGINT)
    assert "_interception" not in stderr


@pytest.mark.thorough
def test_errors_become_a_baseline_and_data(folder: Path) -> None:
    files = ["--baseline", "known.json", "--update-baseline", "--json", "result.json"]
    ran = doctor(folder, "--strict", *files, "train.py", "2")

    assert ran.returncode == 0
    assert verdicts(ran.stderr) == {"Local": "✗ constant-factor (in the baseline)", "Square": "✓"}
    assert "· wrong" not in ran.stderr
    assert json.loads((folder / "known.json").read_text()) == {
        "version": 1,
        "findings": [{"function": "__main__.Local", "rule": "constant-factor"}],
    }
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    assert [(it["function"], it["new"]) for it in result["functions"]] == [
        ("__main__.Local", []),
        ("functions.Square", []),
    ]


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_is_left_alone_and_an_exit_code_wins_over_strict(folder: Path) -> None:
    (folder / "forks.py").write_text(
        "import os, sys, torch\nfrom functions import Half\n"
        "half = Half.apply\nx = torch.ones(9, requires_grad=True)\n"
        "half(x).sum().backward()\n"
        "if os.fork() == 0:\n    print(half(x).sum().item(), flush=True)\n    os._exit(0)\n"
        "os.wait()\nsys.exit(3)\n"
    )
    ran = doctor(folder, "--strict", "forks.py")

    assert (ran.returncode, ran.stdout) == (3, "9.0\n")
    assert verdicts(ran.stderr) == {"Half": "✗ constant-factor"}
