"""``autograd-doctor check``: its arguments, its output, and its exit codes."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from autograd_doctor import Diagnosis, Finding, diagnose

pytestmark = pytest.mark.slow

testing = pytest.importorskip("typer.testing", reason="the command needs the extra cli")

from autograd_doctor._targets import GUARD  # noqa: E402
from autograd_doctor.cli import app, check  # noqa: E402
from rich.console import Console  # noqa: E402

NO_ERROR, ERROR, NOT_UNDERSTOOD, NOT_EXAMINED = range(4)

OPERATIONS = """
import torch
from torch.autograd import Function

print("the module says hello")


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        print("forward says hello")
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


class Float(Square):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return (2 * x * grad_output).float()


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, factor, bias=0.0):
        ctx.factor = factor
        return factor * x + bias

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.factor * grad_output, None, None


class Reversed(Function):
    @staticmethod
    def forward(ctx, x):
        return 1.0 * x

    @staticmethod
    def backward(ctx, grad_output):
        return -grad_output


class Sign(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.sign(x)

    @staticmethod
    def backward(ctx, grad_output):
        return 1.0 * grad_output


class Half_Line(Function):
    \"\"\"Wrong for negative numbers alone.\"\"\"

    @staticmethod
    def forward(ctx, x):
        return x.abs()

    @staticmethod
    def backward(ctx, grad_output):
        return 1.0 * grad_output


def half_twice(x):
    return Half.apply(x) + Half.apply(x)


def square(x):
    return x * x


def identity(x):
    return x


def draw(rng):
    return (torch.randn(3, 4, generator=rng),)


def make():
    return torch.randn(3), 2.0


def draw_one(rng=None):
    return torch.randn(3, generator=rng)


def fail_later(rng, calls=[]):
    calls.append(rng)
    return draw(rng) if len(calls) == 1 else {}["key"]


def fail():
    return {}["key"]


EXAMPLE = (torch.tensor([1.0, -2.0, 3.0]),)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a folder of modules. Forget the modules imported from it afterwards."""
    files = {
        "operations.py": OPERATIONS,
        "package/__init__.py": "from package.inner import Square",
        "package/inner.py": "from .helper import Square",
        "package/helper.py": OPERATIONS,
        "random.py": "x = 1",
        "raises.py": "table = {}\ntable['key']",
        "textless.py": "class E(Exception):\n  def __str__(self): raise RuntimeError\nraise E",
        "unread.py": "def f(:\n    pass",
        "leaves.py": "import sys\nsys.exit('bye')",
        "needs.py": "import nothing_of_this_name",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def run(*words: str) -> Any:
    return testing.CliRunner().invoke(app, ["check", *words], env={"COLUMNS": "200"})


# The examined Functions


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("operations:Square", NO_ERROR),
        ("operations.py:Half", ERROR),
        ("./operations.py:Half.apply", ERROR),
        ("operations:half_twice", ERROR),
        ("package.inner:Square", NO_ERROR),
        ("package/inner.py:Square", NO_ERROR),
    ],
)
def test_a_target_is_an_object_of_a_module_or_of_a_file(
    folder: Path, target: str, code: int
) -> None:
    result = run(target, "--inputs", "f64[3]")

    assert result.exit_code == code, result.output


def test_a_file_elsewhere_is_imported_with_its_neighbors(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "user.py").write_text("from operations import Square")
    monkeypatch.chdir("/")

    assert run(f"{folder}/user.py:Square", "--inputs", "f64[3]").exit_code == NO_ERROR


@pytest.mark.parametrize(
    "words",
    [
        ("operations:Scaled", "--inputs", "operations:make"),
        ("operations:Scaled", "--inputs", "f64[3] 2.0"),
        ("operations:Scaled", "--inputs", "f64[3] 2.0 1.0"),
        ("operations:Square", "--inputs", "operations.py:EXAMPLE"),
        ("operations:Square", "--sampler", "operations:draw"),
        ("operations:Square", "--sampler", "operations:draw_one"),
        ("operations:Square", "--inputs", "f64[3]", "--reference", "operations:square"),
        ("operations:Half", "--inputs", "f64[3]", "--intentional", "constant-factor"),
        ("operations:Sign", "--inputs", "f64[3]", "--surrogate", "operations:identity"),
        ("operations:Square", "--inputs", "f64[3]", "--no-double-backward", "--level", "full"),
    ],
    ids=" ".join,
)
def test_inputs_and_options_reach_the_doctor(folder: Path, words: tuple[str, ...]) -> None:
    result = run(*words)

    assert result.exit_code == NO_ERROR, result.output


def test_a_sampler_finds_what_the_example_hides(folder: Path) -> None:
    hidden = ("operations:Half_Line", "--inputs", "f64[3]>0")

    assert run(*hidden).exit_code == NO_ERROR
    assert run(*hidden, "--sampler", "operations:draw").exit_code == ERROR


def test_a_factory_draws_from_the_seed(folder: Path) -> None:
    words = ("operations:Half", "--inputs", "operations:draw_one", "--json")

    one, again, other = (run(*words, "--seed", seed).stdout for seed in "001")

    assert one == again != other


def test_every_option_of_diagnose_is_one_of_the_command() -> None:
    options = {*inspect.signature(diagnose).parameters} - {"fn"}

    assert options <= {*inspect.signature(check).parameters}
    limit = inspect.signature(diagnose).parameters["time_limit"].default
    assert inspect.signature(check).parameters["time_limit"].default == limit


# The output and its streams


def test_standard_output_is_the_report_alone(folder: Path) -> None:
    result = run("operations:Half", "--inputs", "f64[3]")

    assert result.stdout.startswith("✗ Half · wrong\n  constant-factor: ")
    assert result.stdout.endswith("  lesson   01_template\n")
    assert "the module says hello" in result.stderr
    assert "forward says hello" in result.stderr


def test_json_is_one_document(folder: Path) -> None:
    result = run("operations:Half", "--inputs", "f64[3]", "--json")

    found = json.loads(result.stdout)
    assert result.exit_code == ERROR
    assert (found["subject"], found["ok"]) == ("Half", False)
    assert [finding["rule"] for finding in found["findings"]] == ["constant-factor"]


def test_numbers_that_json_lacks_are_strings() -> None:
    from autograd_doctor._check import as_json

    seen = Finding("overflow", "error", "", {"actual": float("nan"), "index": [0], "at": -1e999})
    evidence = json.loads(as_json(Diagnosis("F", (seen,))))["findings"][0]["evidence"]

    assert evidence == {"actual": "nan", "index": [0], "at": "-inf"}


NOISY = """
import atexit, os, subprocess, sys
from operations import Square

os.write(1, b"straight to the descriptor\\n")
subprocess.run(["echo", "a child process"])
sys.__stdout__.write("to the original stream\\n")
atexit.register(print, "at exit")
"""


def test_nothing_spoils_json_in_a_process_of_its_own(folder: Path) -> None:
    (folder / "noisy.py").write_text(NOISY)
    command = [sys.executable, "-P", "-m", "autograd_doctor.cli", "check", "noisy.py:Square"]

    ran = subprocess.run(
        [*command, "--inputs", "f64[3]", "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert ran.returncode == NO_ERROR, ran.stderr
    assert json.loads(ran.stdout)["ok"]
    for said in ("descriptor", "child process", "original stream", "at exit"):
        assert said in ran.stderr


IMPORTED = """
import sys
import autograd_doctor.cli
assert "torch" not in sys.modules
import autograd_doctor._check
assert not {"IPython", "ipywidgets", "jupyterlab", "matplotlib"} & {*sys.modules}
"""


def test_the_command_starts_quickly() -> None:
    subprocess.run([sys.executable, "-c", IMPORTED], check=True)


def test_html_is_a_page(folder: Path) -> None:
    result = run("operations:Half", "--inputs", "f64[3]", "--html", "report.html")

    page = (folder / "report.html").read_text(encoding="utf-8")
    assert result.exit_code == ERROR
    assert page.startswith("<!doctype html>")
    assert "<title>Half: gradients</title>" in page
    assert "constant-factor" in page
    assert "<script" not in page


def test_a_warning_fails_on_request(folder: Path) -> None:
    words = ("operations:Float", "--inputs", "f64[3]")

    assert run(*words).exit_code == NO_ERROR
    asked = run(*words, "--warnings")
    assert asked.exit_code == ERROR
    assert "With --warnings, a warning counts as an error." in asked.stderr
    assert run("operations:Square", "--inputs", "f64[3]", "--warnings").exit_code == NO_ERROR


# Invalid arguments, and targets that cannot be examined


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("operations", "'operations' is not a target. Write it as package.module:Function or "
         "path/to/file.py:Function. To examine every Function that a program or a test suite "
         "calls, use autograd-doctor run or pytest --doctor."),
        ("operation:Square", "There is no module operation. Did you mean operations?"),
        ("package.iner:Square", "There is no module package.iner. Did you mean package.inner?"),
        ("paackage.inner:Square", "There is no module paackage. Did you mean package?"),
        ("operation.py:Square", "There is no file operation.py. Did you mean operations.py?"),
        ("operations:Sqare", "There is no Sqare in operations. Did you mean Square?"),
        ("operations:Square.aply", "There is no aply in operations:Square. Did you mean apply?"),
        ("random.py:x", "random.py could not be imported, because another module is also named "
         "random. Rename the file."),
        ("textless:F", "Importing textless raised E: without a message (textless.py:3: raise E). "
         "{guard}"),
        ("raises:F", "Importing raises raised KeyError: 'key' (raises.py:2: table['key']). "
         "{guard}"),
        ("unread.py:F", "Importing unread.py raised SyntaxError: invalid syntax (unread.py:1: "
         "def f(:)."),
        ("leaves.py:F", "Importing leaves.py called exit() (leaves.py:2: sys.exit('bye')). "
         "{guard}"),
        ("needs:F", "Importing needs raised ModuleNotFoundError: No module named "
         "'nothing_of_this_name' (needs.py:1: import nothing_of_this_name)."),
        ("operations:Scaled", "operations:Scaled needs x, factor. Describe each argument, as in "
         "--inputs 'f64[3,4] 0.5', or name a callable that returns them, as in --inputs "
         "file.py:make_inputs."),
        ("operations:Scaled --inputs f64[3]", "operations:Scaled also needs factor. Add it to "
         "--inputs."),
        ("operations:square --inputs operations:fail", "Calling operations:fail raised KeyError: "
         "'key' (operations.py:{line}: return {{}}[\"key\"])."),
        ("operations:Square --inputs f65[3]", "`f65[3]`: f65 is not a dtype. Did you mean f64?"),
        ("operations:Square --inputs f64[3] --reference operations:EXAMPLE", "--reference "
         "needs a callable, but operations:EXAMPLE is of type tuple."),
        ("operations:Square --inputs f64[3] --intentional fliped-sign", "There is no rule "
         "named fliped-sign. Did you mean flipped-sign?"),
        ("operations:Square --inputs f64[3] --html no/report.html", "no/report.html could not be "
         "written: No such file or directory."),
    ],
    ids=lambda value: value if ":" not in value[-9:] else "",
)  # fmt: skip
def test_what_is_not_understood_is_told_in_one_sentence(
    folder: Path, words: str, says: str
) -> None:
    line = OPERATIONS.splitlines().index('    return {}["key"]') + 1

    result = run(*words.split())

    assert result.exit_code == NOT_UNDERSTOOD
    fields = {"{line}": str(line), "{{}}": "{}", "{guard}": GUARD}
    for field, text in fields.items():
        says = says.replace(field, text)
    assert result.stderr.splitlines()[-1] == says


@pytest.mark.parametrize("option", [("--levl", "full"), ("--level", "ful"), ("--seed", "x")])
def test_an_unknown_option_is_not_understood(folder: Path, option: tuple[str, ...]) -> None:
    result = run("operations:Square", "--inputs", "f64[3]", *option)

    assert result.exit_code == NOT_UNDERSTOOD
    assert option[0] in result.stderr


@pytest.mark.parametrize("target", ["operations:EXAMPLE", "operations:Function", "torch.nn:Linear"])
def test_what_cannot_be_examined_is_no_verdict(folder: Path, target: str) -> None:
    result = run(target, "--inputs", "f64[3]", "--json")

    assert result.exit_code == NOT_EXAMINED
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_a_sampler_that_raises_is_no_verdict(folder: Path) -> None:
    result = run("operations:Square", "--sampler", "operations:fail_later")

    assert result.exit_code == NOT_EXAMINED
    assert "the sampler raised KeyError: 'key'\n" in result.stderr


# The report in a terminal

WRONG = Diagnosis(
    "Softplus",
    (
        Finding(
            "nonlinear-in-grad-output",
            "error",
            "doubling `grad_output` does not double the gradient of `x`",
            {"witness": "x[0]: :bug: [bold]", "line": "return torch.sigmoid(x)[:, None], " * 5},
            "A vector-Jacobian product is linear.",
            "01_template",
        ),
        Finding("gradient-dtype", "warning", "a float32 gradient for a float64 input"),
        Finding("kink-convention", "info", "it differs at a kink"),
    ),
)
CLEAN = Diagnosis("Square", (), ("the contract", "linearity in `grad_output`"))
ESCAPES = re.compile(r"\x1b\[[\d;]*m")


def printed(diagnosis: Diagnosis, **options: Any) -> str:
    file = io.StringIO()
    Console(**{"file": file, "width": 100, "color_system": "truecolor", **options}).print(diagnosis)
    return file.getvalue()


@pytest.mark.parametrize("options", [{}, {"force_terminal": True, "no_color": True}])
@pytest.mark.parametrize("diagnosis", [WRONG, CLEAN])
def test_without_a_terminal_or_without_color_it_is_the_text(
    diagnosis: Diagnosis, options: dict[str, bool]
) -> None:
    assert printed(diagnosis, **options) == f"{diagnosis}\n"


@pytest.mark.parametrize("diagnosis", [WRONG, CLEAN])
def test_a_terminal_shows_the_same_text_in_color(diagnosis: Diagnosis) -> None:
    shown = printed(diagnosis, force_terminal=True)

    assert ESCAPES.search(shown)
    assert ESCAPES.sub("", shown) == f"{diagnosis}\n"


@pytest.mark.parametrize("width", [60, 30])
def test_a_narrow_terminal_wraps_the_same_words(width: int) -> None:
    shown = ESCAPES.sub("", printed(WRONG, force_terminal=True, width=width))

    assert max(map(len, shown.splitlines())) <= width
    assert "".join(shown.split()) == "".join(str(WRONG).split())


def test_color_tells_how_severe_a_finding_is() -> None:
    shown = printed(WRONG, force_terminal=True)

    assert "\x1b[1;31mnonlinear-in-grad-output" in shown
    assert "\x1b[1;33mwarning, gradient-dtype" in shown
    assert "\x1b[2mnotes\x1b[0m    `kink-convention`: no result is wrong" in shown


# --- a repair -----------------------------------------------------------------------------------


def test_fix_shows_a_diff_and_writes_nothing_unasked(folder: Path) -> None:
    result = run("operations.py:Half", "--inputs", "f64[3]", "--fix")

    assert result.exit_code == ERROR
    assert "-        return x * grad_output\n+        return 2 * x * grad_output\n" in result.stdout
    assert "Nothing was written. --fix --yes writes the change." in result.stdout
    assert (folder / "operations.py").read_text(encoding="utf-8") == OPERATIONS


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_yes_writes_the_change_and_nothing_else(folder: Path, end: str) -> None:
    file = folder / "operations.py"
    file.write_bytes(OPERATIONS.replace("\n", end).encode())

    result = run("operations.py:Half", "--inputs", "f64[3]", "--fix", "--yes")

    assert result.exit_code == NO_ERROR
    assert result.stdout.endswith(f"{file} was changed.\n")
    right = OPERATIONS.replace("return x * grad_output", "return 2 * x * grad_output")
    assert file.read_bytes() == right.replace("\n", end).encode()


@pytest.mark.parametrize(
    ("name", "words"),
    [("Square", ""), ("Sign", "No small change was found that makes every gradient right.")],
)
def test_without_a_repair_nothing_is_written(folder: Path, name: str, words: str) -> None:
    result = run(f"operations.py:{name}", "--inputs", "f64[3]", "--fix", "--yes")

    assert words in result.stdout
    assert "was changed" not in result.stdout
    assert (folder / "operations.py").read_text(encoding="utf-8") == OPERATIONS


@pytest.mark.parametrize(
    ("backward", "code"),
    [("(2 * x * grad_output).float()", NO_ERROR), ("(x * grad_output).float()", ERROR)],
    ids=["the warning is repaired", "a warning is left"],
)
def test_the_exit_code_after_a_fix_says_what_is_left(
    folder: Path, backward: str, code: int
) -> None:
    text = OPERATIONS.replace("return x * grad_output", f"return {backward}")
    (folder / "operations.py").write_text(text, encoding="utf-8")

    result = run("operations.py:Half", "--inputs", "f64[3]", "--warnings", "--fix", "--yes")

    assert "was changed" in result.stdout
    assert result.exit_code == code


def test_a_file_that_has_changed_since_is_left_alone(folder: Path) -> None:
    sys.path.insert(0, str(folder))
    operations = import_module("operations")

    repair = diagnose(operations.Half, (torch.linspace(1, 2, 3, dtype=torch.float64),)).repair
    file = folder / "operations.py"
    file.write_text("# new\n", encoding="utf-8")

    assert repair is not None
    with pytest.raises(ValueError, match="has changed since it was examined"):
        repair.apply()
    assert file.read_text(encoding="utf-8") == "# new\n"
