"""Every command on a page calls something that exists, and passes valid arguments."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.util import find_spec

import pytest
import typer
import yaml
from autograd_doctor import pytest_plugin
from autograd_doctor.cli import app as doctor_app
from pages import commands
from repository import ROOT
from typer.core import TyperGroup

from autograd_course.cli import app
from tools.settings import read_settings

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
(_, USAGE_ERROR, *_) = typer.BadParameter.__mro__  # the error of click, which typer may bundle
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


DOCTOR = "packages/autograd-doctor"
CLASSROOM = "packages/autograd-classroom"


def understands(words: list[str], app: typer.Typer = app) -> None:
    """Parse one of our command lines as the command would, but do nothing."""
    command, context = typer.main.get_command(app), None
    while isinstance(command, TyperGroup):
        name, *words = words
        context = command.context_class(command, context, info_name=name)
        command = command.commands[name]
    if words != ["--help"]:
        command.make_context(command.name, words, context)


def is_made(words: list[str]) -> None:
    """Find targets and variables in the Makefile. ``…`` stands for any target."""
    for word in words:
        name, is_variable, _ = word.partition("=")
        where = rf"\b{name}\b" if is_variable else rf"^{name}:"
        assert word == "…" or re.search(where, MAKEFILE, re.MULTILINE), f"make knows no {word}"


def is_a_module(words: list[str]) -> None:
    """Find a module. Its test options must be in the Makefile, or name tests that exist."""
    flag, name, *options = words
    assert flag == "-m"
    assert find_spec(name)
    if name == "venv":
        assert "-m venv $(VENV)" in MAKEFILE
        assert f"VENV := {options[0]}\n" in MAKEFILE
    if name == "pytest" and "-k" in options:
        paths = [ROOT / path for path in options[: options.index("-k")]]
        (word,) = options[options.index("-k") + 1 :]
        assert [path for path in paths if not path.exists()] == []
        assert any(word in file.read_text("utf-8") for path in paths for file in path.rglob("*.py"))
    elif name == "pytest":
        made = MAKEFILE.replace("$(TESTS_OF)", f"tests {DOCTOR}/tests {CLASSROOM}/tests")
        made = made.replace("$(NOTEBOOKS)", "notebooks solutions exercises")
        given = {option for option in options if not (ROOT / option).exists()}
        assert given <= set(made.split())


def is_installed(words: list[str]) -> None:
    """Find the constraints file and the extras."""
    address = read_settings(ROOT).address.partition("@")[0]
    if words[1].startswith(address):
        assert words[1:] in (
            [f"{address}#subdirectory={DOCTOR}"],
            [f"{address}#subdirectory={CLASSROOM}"],
            [f"{address}#subdirectory={DOCTOR}", address],
        )
        return
    assert words[:6] == ["install", "-c", "constraints.txt", "-e", DOCTOR, "-e"]
    assert words[7:] == ["-e", CLASSROOM]
    (extras,) = re.fullmatch(r"\.\[(.*)\]", words[6]).groups()  # type: ignore[union-attr]
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def is_conda_s(words: list[str]) -> None:
    """Find the environment's file and its name."""
    file = ROOT / "environment.yml"
    name = yaml.safe_load(file.read_text(encoding="utf-8"))["name"]
    assert words in (["env", "create", "-f", file.name], ["activate", name])


def is_the_shell_s(words: list[str]) -> None:
    """Accept only three folders: the clone, nbgrader's example and the environment."""
    name = read_settings(ROOT).repository.rpartition("/")[2]
    assert words in (["course"], [name], [".venv/bin/activate"])


def is_git_s(words: list[str]) -> None:
    """Accept only commands for the repository and for one branch."""
    assert words in (
        ["clone", f"https://github.com/{read_settings(ROOT).repository}"],
        ["switch", "-c", "my-change"],
        ["push", "-u", "origin", "my-change"],
    )


def is_nbgrader_s(words: list[str]) -> None:
    """Check that a test of nbgrader runs this command."""
    assert f'nbgrader(course, "{words[0]}"' in (
        ROOT / CLASSROOM / "tests" / "test_classroom_platforms.py"
    ).read_text(encoding="utf-8")


def is_pytest_s(words: list[str]) -> None:
    """Parse the options of the doctor's plugin. All other options belong to pytest."""
    parser = pytest.Parser(_ispytest=True)
    pytest_plugin.pytest_addoption(parser)
    known, others = parser.parse_known_and_unknown_args(words)
    assert known.doctor
    assert not others


CALLS = {
    "autograd-course": understands,
    "autograd-doctor": lambda words: understands(words, doctor_app),
    "make": is_made,
    "pytest": is_pytest_s,
    "python": is_a_module,
    "pip": is_installed,
    "conda": is_conda_s,
    "cd": is_the_shell_s,
    "git": is_git_s,
    "source": is_the_shell_s,
    "nbgrader": is_nbgrader_s,
}


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_calls_what_is_there(page: str, line: str) -> None:
    words = [
        word
        for word in shlex.split(line)
        if not re.match(r"(PORT|BROWSER|PYTHONPATH|ANYWIDGET_HMR)=", word)
    ]
    CALLS[words[0]](words[1:])


WRONG = ("check f.py:F --input 1", "grades homework", "classroom grade", "hint")


@pytest.mark.parametrize("words", WRONG)
def test_a_command_that_would_not_be_understood_is_found(words: str) -> None:
    with pytest.raises((USAGE_ERROR, KeyError)):
        understands(words.split())
