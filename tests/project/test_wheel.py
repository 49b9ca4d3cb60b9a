"""The wheels are built, installed outside the checkout and used there. They work without it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from repository import ROOT
from shown_widgets import SETUP, SHOWN

pytestmark = [pytest.mark.slow, pytest.mark.checkout]

GET = "git clone https://github.com/autograd-course/autograd_course"
# Modules that only the extras install. The environment that runs the tests has them.
EXTRAS = (
    "distributed", "jupyter_server", "jupyterlab", "jupytext", "nbclient", "nbformat",
    "onnx", "onnxruntime", "onnxscript", "pytest", "ruff", "torchao", "zmq",
)  # fmt: skip
SQUARE = """\
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
"""


# Each distribution's project folder, and the folder in it that contains the package.
SOURCES = {
    "autograd_doctor": (ROOT / "packages" / "autograd-doctor", "src"),
    "autograd_classroom": (ROOT / "packages" / "autograd-classroom", "src"),
    "autograd_course": (ROOT, "."),
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build the wheels from the checkout, offline."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    for project, _ in SOURCES.values():
        built = subprocess.run(command, cwd=project, capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


# Files that an installed course does not read, because it reads the bundles built from them.
BUNDLED = re.compile(r"autograd_course/visualize/(\w+/widget\.(js|css)|kit/\w+\.(js|css))")


@pytest.mark.parametrize("package", SOURCES)
def test_a_wheel_holds_every_file_of_its_package_and_no_other(
    package: str, wheels: dict[str, Path]
) -> None:
    project, below = SOURCES[package]
    home = project / below
    listing = ("git", "ls-files", "--cached", "--others", "--exclude-standard", package)
    listed = subprocess.run(listing, cwd=home, capture_output=True, text=True, check=True)
    there = {name for name in listed.stdout.splitlines() if (home / name).is_file()}
    there = {name for name in there if not BUNDLED.fullmatch(name)}
    with zipfile.ZipFile(wheels[package]) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert packed == there


class Installed(NamedTuple):
    """An environment with the wheels and their requirements, and an empty working folder."""

    bin: Path
    folder: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CI")}
        environment = {**inherited, "AUTOGRAD_COURSE_PROGRESS": str(self.folder / "progress.json")}
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
        )

    def says(self, code: str) -> Any:
        """Return the last line that a script prints, parsed as JSON. The script must not fail."""
        ran = self.run("python", "-c", code)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheels into a new environment. Their requirements come from this environment.

    The ``.pth`` files of this environment are not read, so the checkout is not on the path. Modules
    that only the extras install cannot be imported.
    """
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    scripts = folder / "env" / "bin"
    offline = ("--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check", "--quiet")
    pip = (sys.executable, "-m", "pip", "--python", str(scripts / "python"), "install")
    subprocess.run([*pip, *offline, *map(str, wheels.values())], check=True)
    (site,) = folder.glob("env/lib/python*/site-packages")
    beneath = sysconfig.get_path("purelib")
    lacking = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))"
    # The classroom's sandbox shows the site-packages of each prefix.
    prefix = f"import site; site.PREFIXES.append({sys.prefix!r})"
    (site / "beneath.pth").write_text(f"{beneath}\n{lacking}\n{prefix}\n")
    work = folder / "empty"
    work.mkdir()
    (work / "square.py").write_text(SQUARE)
    return Installed(scripts, work)


def test_the_package_is_the_one_of_the_wheel(installed: Installed) -> None:
    code = "import autograd_course, json; print(json.dumps(autograd_course.__file__))"

    assert Path(installed.says(code)).is_relative_to(installed.bin.parent)


CALLS = {
    "diagnose(Square, x)": "nothing wrong found",
    "diagnose(Half, x)": "constant-factor",
    "assert_gradients(Square, x)": "nothing wrong found",
    "assert_gradients(Half, x)": "WrongGradientError: ",
    "grade('square', Square)": "passed",
    "grade('round-away-in-onnx', torch.round)": "pip install",
    "hint('square')": "hint 1 of 3",
    "progress()": "1 of 13 passed",
    "explain('forward-mismatch')": "# forward-mismatch",
    "explain('leaf Variable that requires grad is being used in an in-place')": "## Repair",
    "checkup()": "All set.",
    "gradient_flow(loss, torch.tensor(0.5))": "GradientFlow",
    "show.tangent(Square, 0.5)": "Tangent",
    "vote('02', 'saved-as-attribute')": "Vote before you run the next cell",
}
CALLING = """
import json
import torch
import autograd_course.visualize as show
from autograd_course import assert_gradients, diagnose, explain, gradient_flow
from autograd_course import grade, hint, progress
from autograd_course.checkup import checkup
from autograd_course.lesson import vote
from square import Half, Square

def said(call):
    try:
        value = eval(call)
        return f"{type(value).__name__} {value!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"

x, loss = torch.linspace(-1, 1, 3), lambda x: Square.apply(x).sum()
print(json.dumps([said(call) for call in CALLS]))
"""


def test_every_widget_is_created(installed: Installed) -> None:
    created = ", ".join(f"repr({shown.call})" for shown in SHOWN.values())

    words = installed.says(f"{SETUP}\nimport json\nprint(json.dumps([{created}]))")

    assert all(words)


def test_what_the_package_offers_works(installed: Installed) -> None:
    said = installed.says(f"CALLS = {list(CALLS)}\n{CALLING}")

    wrong = [
        f"{call} gave {text}"
        for (call, expected), text in zip(CALLS.items(), said, strict=True)
        if expected not in text
    ]
    assert not wrong, "\n\n".join(wrong)


# The output of a command and its exit code, in a folder with square.py and homework.
COMMANDS = {
    "--help": (0, "doctor-self"),
    "--version": (0, "autograd-course "),
    "check square.py:Square --inputs f64[3]": (0, "nothing wrong found"),
    "check square.py:Half --inputs f64[3] --html half.html": (1, "constant-factor"),
    "explain": (0, "| `forward-mismatch` |"),
    "explain wrong-arity": (0, "# wrong-arity"),
    "hint gelu": (0, "hint 1 of 3"),
    "status": (0, "Knowledge checks"),
    "doctor-self": (0, GET),
    "lab": (1, "JupyterLab is not installed. Run: pip install 'autograd-course[lab]'"),
    "grade 03": (2, GET),
    "watch 03": (2, GET),
    "reset 03": (2, GET),
    "grade 01_template.py --exercise square": (1, "You have not written `forward` yet"),
    "reset 01": (1, f"Get a complete copy of the course with {GET}"),
    "classroom grade homework --exercises square": (0, "1 answer graded"),
    "classroom grade homework --dask tcp://127.0.0.1:9": (1, "autograd-classroom[dask]"),
    "classroom report homework-grades/gradebook.sqlite": (0, "square"),
    "classroom gradescope autograder.zip --exercises 01": (0, "wrote autograder.zip"),
    "classroom nbgrader course --exercises 01": (1, "name your copy of the course with --course"),
}
RUNNING = """
import json
import sys
from typer.testing import CliRunner
from autograd_course.cli import app

def said(command):
    result = CliRunner().invoke(app, command.split())
    raised = "" if isinstance(result.exception, SystemExit | None) else repr(result.exception)
    return result.exit_code, raised + result.output

print(json.dumps([said(command) for command in COMMANDS]))
"""


@pytest.mark.thorough
def test_each_command_works_or_says_what_is_missing(installed: Installed) -> None:
    exercises = installed.folder / "exercises"
    homework = installed.folder / "homework" / "eve"
    for folder in (exercises, homework):
        folder.mkdir(parents=True)
        (folder / "01_template.py").write_bytes((ROOT / "exercises/01_template.py").read_bytes())
    said = installed.says(f"COMMANDS = {list(COMMANDS)}\n{RUNNING}")

    wrong = [
        f"{command} ended with {code}: {text}"
        for (command, expected), (code, text) in zip(COMMANDS.items(), said, strict=True)
        if code != expected[0] or expected[1] not in unwrapped(text)
    ]
    assert not wrong, "\n\n".join(wrong)
    assert (installed.folder / "half.html").stat().st_size > 1000
    assert (installed.folder / "homework-grades" / "class.html").stat().st_size > 1000


def unwrapped(text: str) -> str:
    """Return the output of a command as one line, without the frame around an error."""
    return " ".join(text.replace("│", " ").split())


def test_the_command_is_installed(installed: Installed) -> None:
    ran = installed.run("autograd-course", "--version")

    assert (ran.returncode, ran.stdout.startswith("autograd-course ")) == (0, True), ran.stderr
