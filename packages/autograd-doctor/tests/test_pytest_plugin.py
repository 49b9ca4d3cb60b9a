"""``pytest --doctor``: its output, what it must not change, and when it makes a run fail."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from autograd_doctor import Finding, FunctionVerdict, ProgramDiagnosis
from autograd_doctor._programs import examination, watching
from autograd_doctor._programs.baseline import BaselineError, read_baseline, write_baseline
from autograd_doctor._programs.watching import conclude
from sampling import first_rows

pytestmark = pytest.mark.slow

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


class Raises(Square):
    @staticmethod
    def forward(ctx, x):
        raise ValueError("never")
"""
SUITE = """
import random

import pytest
import torch
from functions import Half, Raises, Square

square = Square.apply  # at import
random.seed(7)
torch.manual_seed(7)


def note(*values):
    with open("noted.txt", "a") as file:
        print(*values, file=file)


@pytest.mark.parametrize("size", [3, 9, 20, 50000])
def test_square(size):
    x = torch.randn(size, requires_grad=True)
    y = torch.nn.functional.dropout(square(x))
    y.sum().backward()
    note(size, y.sum().item(), x.grad.sum().item(), random.random(), torch.rand(1).item())


def test_half():
    Half.apply(torch.ones(9, requires_grad=True)).sum().backward()


def test_local():
    class Local(Half):
        pass

    with torch.no_grad():
        Local.apply(torch.ones(3))


def test_raises():
    with pytest.raises(ValueError, match="never"):
        Raises.apply(torch.ones(3, requires_grad=True))

"""
FOUND = {
    "Half": "✗ constant-factor",
    "Local": "not examined: 0 differentiated calls (no input required grad)",
    "Raises": "not examined: no call returned without an error",
    "Square": "✓",
}
# If the package is installed, pytest finds the plugin itself. In a checkout, it may need an option.
INSTALLED = bool(entry_points(group="pytest11", name="autograd_doctor"))
PLUGIN = [] if INSTALLED else ["-p", "autograd_doctor.pytest_plugin"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "functions.py").write_text(FUNCTIONS, encoding="utf-8")
    (tmp_path / "test_suite.py").write_text(SUITE, encoding="utf-8")
    return tmp_path


def run(folder: Path, *words: str, python: tuple[str, ...] = ()) -> Any:
    """Run pytest in a separate process."""
    command = [sys.executable, *python, "-m", "pytest", "-p", "no:cacheprovider", "-q", *PLUGIN]
    return subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True)


def verdicts(output: str) -> dict[str, str]:
    """Return the verdict on each Function in the table."""
    return dict(re.findall(r"^(\w+)  +\S+:\d+ +\d+  (.*)$", output, re.MULTILINE))


def calls(output: str) -> dict[str, int]:
    """Return the number of calls to each Function in the table."""
    return {n: int(c) for n, c in re.findall(r"^(\w+)  +\S+:\d+ +(\d+)  ", output, re.MULTILINE)}


def test_the_run_is_the_same_and_ends_with_a_table(folder: Path) -> None:
    plain = run(folder)
    noted = (folder / "noted.txt").read_text()
    (folder / "noted.txt").unlink()
    ours = run(folder, "--doctor", "test_suite.py")

    assert (plain.returncode, ours.returncode) == (0, 0), plain.stdout + ours.stdout
    assert (folder / "noted.txt").read_text() == noted
    assert verdicts(ours.stdout) == FOUND
    assert calls(ours.stdout) == {"Half": 1, "Local": 1, "Raises": 1, "Square": 4}
    assert "functions.py:18" in ours.stdout
    assert "✗ Half · wrong\n  constant-factor: " in ours.stdout
    assert "autograd-doctor" not in plain.stdout


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("xdist") is None, reason="needs pytest-xdist")
def test_workers_record_and_one_table_is_printed(folder: Path) -> None:
    ran = run(folder, "--doctor=strict", "-n2", "--doctor-json", "result.json")

    assert ran.returncode == 1, ran.stdout
    assert verdicts(ran.stdout) == FOUND
    assert calls(ran.stdout) == {"Half": 1, "Local": 1, "Raises": 1, "Square": 4}
    assert ran.stdout.count("✗ Half · wrong") == 1
    assert "With --doctor=strict the run fails: 1 error is not in a baseline." in ran.stdout
    assert len(json.loads((folder / "result.json").read_text())["functions"]) == 4


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("xdist") is None, reason="needs pytest-xdist")
def test_a_worker_that_is_killed_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_killed.py").write_text(
        "import os\ndef test():\n    os.kill(os.getpid(), 9)\n"
    )
    plain, ours = run(tmp_path, "-n1"), run(tmp_path, "-n1", "--doctor")

    assert ours.returncode == plain.returncode == 1
    assert "ended early, so its calls were not examined." in ours.stdout


PASSES = "def test(): pass\n"
NO_TORCH = "import sys; sys.modules['torch'] = None\n"


@pytest.mark.parametrize(
    ("conftest", "sentence"),
    first_rows(
        [
            ("", "The program did not import PyTorch, so there was nothing to examine."),
            (NO_TORCH, "PyTorch is not installed, so no Function could be examined."),
        ],
        most=1,
        unpack=True,
    ),
)
def test_without_torch_one_sentence_says_so(conftest: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "test_passes.py").write_text(PASSES)
    (tmp_path / "conftest.py").write_text(conftest)
    ran = run(tmp_path, "--doctor=strict")

    assert ran.returncode == 0, ran.stdout
    assert sentence in ran.stdout


def test_without_the_option_nothing_is_imported(tmp_path: Path) -> None:
    (tmp_path / "test_modules.py").write_text(
        "import sys\n\ndef test():\n"
        "    ours = [it for it in sys.modules if it.startswith('autograd_doctor.')]\n"
        "    assert ours == ['autograd_doctor.pytest_plugin']\n"
        "    assert not {'torch', 'numpy', 'rich', 'typer'} & {*sys.modules}\n"
    )

    assert run(tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--doctor=bogus"], 4, "--doctor"),
        (["--doctor-update-baseline"], 4, "--doctor-update-baseline needs --doctor-baseline FILE."),
    ],
)
def test_a_mistake_in_the_options_is_told(
    words: list[str], code: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "test_passes.py").write_text(PASSES)
    ran = run(tmp_path, *words)

    assert ran.returncode == code
    assert message in ran.stderr


# Exit codes and files. These runs happen in this process, which has already imported PyTorch.

pytest_plugins = ["pytester"]
SHORT = """
import torch
from functions import Half, Square

def test_half():
    Half.apply(torch.ones(9, requires_grad=True)).sum().backward()
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(functions=FUNCTIONS, test_short=SHORT)
    pytester.syspathinsert()
    return pytester


def short(suite: pytest.Pytester, *words: str) -> pytest.RunResult:
    return suite.runpytest_inprocess("-p", "no:cacheprovider", *PLUGIN, *words)


@pytest.mark.parametrize(
    ("words", "test", "code"),
    [
        (["--doctor"], "", 0),
        (["--doctor=strict"], "", 1),
        (["--doctor=strict"], "def test_fails(): assert 0", 1),
        (["--doctor=strict", "-k", "nothing"], "", 5),
    ],
)
def test_only_strict_changes_the_exit_code_of_a_run_that_passes(
    words: list[str], test: str, code: int, suite: pytest.Pytester
) -> None:
    suite.makepyfile(test_more=test)

    assert short(suite, *words).ret == code


def test_a_project_adopts_it_with_a_baseline(suite: pytest.Pytester) -> None:
    baseline = ["--doctor=strict", "--doctor-baseline", "known.json"]

    written = short(suite, *baseline, "--doctor-update-baseline")
    assert written.ret == 0
    written.stdout.fnmatch_lines(["The baseline known.json was written (1 error)."])
    text = Path("known.json").read_text()
    assert json.loads(text) == {
        "version": 1,
        "findings": [{"function": "functions.Half", "rule": "constant-factor"}],
    }

    passes = short(suite, *baseline)
    assert passes.ret == 0
    passes.stdout.fnmatch_lines(["Half *✗ constant-factor (in the baseline)"])
    passes.stdout.no_fnmatch_line("*Half · wrong*")

    suite.makepyfile(
        test_new="import torch\nfrom functions import Half\nclass New(Half): pass\n"
        "def test(): New.apply(torch.ones(9, requires_grad=True)).sum().backward()\n"
    )
    assert short(suite, *baseline).ret == 1
    assert Path("known.json").read_text() == text


@pytest.mark.parametrize(
    "content", first_rows([None, "{", "[]", '{"version": 2}', '{"version": 1}'], most=1)
)
def test_a_baseline_that_cannot_be_read_is_a_sentence(
    content: str | None, suite: pytest.Pytester
) -> None:
    if content is not None:
        Path("known.json").write_text(content)
    ran = short(suite, "--doctor=strict", "--doctor-baseline", "known.json")

    assert ran.ret == pytest.ExitCode.TESTS_FAILED
    text = " ".join(ran.outlines)
    assert "baseline known.json" in text
    assert "Which errors are new could not be examined." in text


def test_the_result_is_written_as_data(suite: pytest.Pytester) -> None:
    assert short(suite, "--doctor-json", "result.json").ret == 0

    (row,) = json.loads(Path("result.json").read_text())["functions"]
    assert row["function"] == "functions.Half"
    assert (row["where"], row["calls"]) == ("functions.py:17", 1)
    assert row["verdict"] == "✗ constant-factor"


def test_a_file_that_cannot_be_written_is_a_sentence(suite: pytest.Pytester) -> None:
    ran = short(suite, "--doctor-json", "no/such/folder.json")

    assert ran.ret == 0
    ran.stdout.fnmatch_lines(["*folder.json could not be written: No such file or directory."])


@pytest.mark.parametrize(
    ("module", "name", "what"),
    [
        (examination, "examine", "it could not examine the recorded calls"),
        (watching, "merged", "it could not report"),
    ],
)
def test_a_fault_of_ours_is_a_sentence_and_fails_a_strict_run_only(
    module: Any, name: str, what: str, suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(module, name, fail)
    ran, strict = short(suite, "--doctor"), short(suite, "--doctor=strict")

    assert (ran.ret, strict.ret) == (0, 1)
    for each in (ran, strict):
        each.stdout.fnmatch_lines([f"autograd-doctor failed: {what} (KeyError: 'ours')."])
    strict.stdout.fnmatch_lines(["With --doctor=strict the run fails: the examination failed."])


# The baseline file


def diagnosis(*pairs: tuple[str, str]) -> ProgramDiagnosis:
    return ProgramDiagnosis(
        tuple(
            FunctionVerdict("module", name, "file.py:1", 1, True, (Finding(rule, "error", "x"),))
            for name, rule in pairs
        )
    )


def test_a_baseline_is_sorted_and_keeps_what_was_not_examined(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    write_baseline(path, diagnosis(("B", "non-finite"), ("A", "flipped-sign")))
    assert path.read_text().index("module.A") < path.read_text().index("module.B")

    write_baseline(path, diagnosis(("A", "constant-factor")))
    assert read_baseline(path) == {
        ("module.A", "constant-factor"),
        ("module.B", "non-finite"),
    }


def test_an_error_that_is_gone_from_an_examined_function_is_named(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    write_baseline(path, diagnosis(("A", "x"), ("A", "y"), ("B", "z")))
    found, fails = conclude([diagnosis(("A", "x"))], json=None, baseline=path, update=False)

    assert not fails
    assert found.notes == (
        "The baseline lists what this run did not find: y of module.A. Update it.",
    )


def test_a_folder_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="could not be read"):
        read_baseline(tmp_path)
    with pytest.raises(BaselineError, match="could not be written"):
        write_baseline(tmp_path, diagnosis())


def test_without_a_baseline_every_error_is_new() -> None:
    found, fails = conclude([diagnosis(("A", "x"))], json=None, baseline=None, update=False)

    assert fails
    assert found.new == (("module.A", "x"),)
