"""The command line: its output and its exit codes."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from autograd_doctor import RULES, explain
from repository import ROOT
from typer.testing import CliRunner, Result

import autograd_course
from autograd_course import doctor_self
from autograd_course.checkup import Check, Checkup
from autograd_course.cli import app
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.index import LESSONS
from autograd_course.lab import folder, launcher
from autograd_course.messages import MESSAGES
from autograd_course.messages import page as message_page
from autograd_course.shell import completion
from tools import manual
from tools.manual import commands

DONE, NOT_DONE, NOT_UNDERSTOOD = 0, 1, 2
COMMANDS = dict(commands())


def run(*words: str, **env: str) -> Result:
    """Run the command in a wide terminal, so that no message is wrapped."""
    return CliRunner().invoke(
        app,
        words,
        prog_name="autograd-course",
        env={"TERMINAL_WIDTH": "200", "COLUMNS": "200", **env},
    )


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Change to a course folder, and record what would be served instead of serving it."""
    notebook = tmp_path / folder.FIRST_NOTEBOOK
    notebook.parent.mkdir()
    notebook.write_text("{}")
    monkeypatch.chdir(tmp_path)
    asked: dict[str, Any] = {}

    def serve(folder: Path, notebook: Path, overview: Callable[[], str], **options: Any) -> None:
        asked.update(options, folder=folder, notebook=notebook, overview=overview)

    monkeypatch.setattr(launcher, "serve", serve)
    return asked


WITHOUT_THE_CLASSROOM = """\
import importlib.util

found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: "classroom" not in name and found(name, *more)
from autograd_course.cli import app

app()
"""


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["classroom", "grade", "homework", "--jobs", "2"], 1, "The classroom is not installed."),
        (["--help"], 0, "It needs the package autograd-classroom."),
        (["status"], 0, ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_without_the_classroom_its_command_says_what_to_install(
    words: list[str], code: int, says: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", WITHOUT_THE_CLASSROOM, *words]
    env = {**os.environ, "AUTOGRAD_COURSE_PROGRESS": str(tmp_path / "progress.json")}
    ran = subprocess.run(command, capture_output=True, text=True, env={**env, "COLUMNS": "200"})

    assert ran.returncode == code, ran.stderr
    assert says in ran.stdout + ran.stderr


# --- all commands ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == DONE
    assert f"Usage: autograd-course {command}" in result.output


def test_the_help_lists_every_command() -> None:
    listed = run("--help").output
    assert all(command.split()[0] in listed for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_sentence_an_example_and_exit_codes(command: str) -> None:
    sentence, _, _ = (COMMANDS[command].help or "").partition("\n")
    epilog = COMMANDS[command].epilog

    assert re.fullmatch(r"[A-Z][a-z]+ .*\.", sentence), "an imperative, and a full stop"
    assert "Exit codes: 0 " in epilog
    assert all(parameter.help for parameter in COMMANDS[command].params)

    (example,) = re.findall(rf"Example: autograd-course ({command}.*)", epilog)
    known = {name for parameter in COMMANDS[command].params for name in parameter.opts}
    assert set(re.findall(r"--[a-z-]+", example)) <= known


def test_the_page_on_the_command_line_is_the_commands_own_help() -> None:
    written = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")

    assert written == manual.page(), "run `make notebooks`"


def test_the_same_thing_has_one_name_everywhere() -> None:
    names: dict[str, set[tuple[str, ...]]] = {}
    for command in COMMANDS.values():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                names.setdefault(parameter.name, set()).add(tuple(sorted(parameter.opts)))

    assert not {name: written for name, written in names.items() if len(written) > 1}


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").output == f"autograd-course {autograd_course.__version__}\n"


# --- completion -----------------------------------------------------------------------------------

COMPLETED = {
    "gra": {"grade"},
    "hint ge": {"gelu"},
    "grade 0": {f"0{n}" for n in range(1, 10)},
    "watch exercises/03": {f"exercises/03_gradient_patterns.{kind}" for kind in ("py", "ipynb")},
    "watch exp": {"exp-twice"},
    "reset 09 --exercise conv": {"conv1d"},
    "explain incorrect": {"incorrect-number-of-gradients"},
    "check x.py:F --intentional flip": {"flipped-sign"},
    "classroom grade homework --exercises squ": {"square"},
}


def completed(words: str) -> dict[str, str]:
    """Return the environment in which a shell asks what may follow these words."""
    typed = f"autograd-course {words}"
    return {
        "_AUTOGRAD_COURSE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }


@pytest.mark.parametrize("words", COMPLETED)
def test_a_shell_completes(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    assert set(run(**completed(words)).stdout.split()) == COMPLETED[words]


def test_what_is_completed_is_what_there_is() -> None:
    assert completion.exercises("") == list(CATALOGUE)
    assert completion.lessons("") == [lesson[:2] for lesson in LESSONS]
    assert set(completion.rules("")) == set(RULES)
    assert set(completion.explained("")) == {*RULES, *MESSAGES}


LIGHT = """
import os, sys
from autograd_course.cli import app
for words, env in {asked!r}:
    os.environ.update(env)
    try:
        app(words, prog_name="autograd-course")
    except SystemExit:
        print()
print("heavy" if {{"torch", "IPython", "matplotlib"}} & set(sys.modules) else "light")
"""


def test_help_and_completion_do_not_wait_for_pytorch() -> None:
    asked = [((word, "--help"), {}) for word in ("grade", "check", "doctor-self")]
    asked += [((), completed(words)) for words in ("hint ge", "explain wr", "watch exercises/")]
    ran = subprocess.run(
        [sys.executable, "-c", LIGHT.format(asked=asked)], capture_output=True, text=True
    )

    assert ran.stdout.splitlines()[-1] == "light", ran.stderr
    assert {"gelu", "wrong-arity"} <= set(ran.stdout.split())


@pytest.mark.parametrize("words", [(), ("laab",), ("lab", "--pot", "1"), ("hint",)], ids=" ".join)
def test_what_is_not_understood_ends_with_2_and_names_the_help(words: tuple[str, ...]) -> None:
    result = run(*words)
    assert result.exit_code == NOT_UNDERSTOOD
    assert "--help" in result.output
    assert "Traceback" not in result.output


# --- lab ------------------------------------------------------------------------------------------


def test_lab_opens_the_first_notebook_of_the_course_at_8888(served: dict[str, Any]) -> None:
    assert run("lab", BROWSER="", PORT="").exit_code == DONE
    assert served["folder"] == Path.cwd().resolve()
    assert served["notebook"] == folder.FIRST_NOTEBOOK
    assert served["overview"]().startswith("# Your course\n")
    assert served["port"] == 8888
    assert served["open_browser"] is True


@pytest.mark.parametrize(
    ("options", "env", "port"),
    [
        ((), {"PORT": "9001"}, 9001),
        (("--port", "9002"), {}, 9002),
        (("--port", "9002"), {"PORT": "9001"}, 9002),
    ],
)
def test_lab_takes_its_port_from_the_option_else_the_environment(
    served: dict[str, Any], options: tuple[str, ...], env: dict[str, str], port: int
) -> None:
    assert run("lab", *options, **env).exit_code == DONE
    assert served["port"] == port


@pytest.mark.parametrize(
    ("options", "browser", "opened"),
    [((), "firefox", True), ((), "none", False), (("--no-browser",), "firefox", False)],
)
def test_lab_opens_a_browser_unless_told_not_to(
    served: dict[str, Any], options: tuple[str, ...], browser: str, opened: bool
) -> None:
    assert run("lab", *options, BROWSER=browser).exit_code == DONE
    assert served["open_browser"] is opened


@pytest.mark.parametrize(
    ("options", "env", "says"),
    [
        (("--port", "70000"), {}, "65535"),
        ((), {"PORT": "eighty"}, "PORT"),
        (("--notebook", "99.ipynb"), {}, "There is no notebook 99.ipynb"),
    ],
)
def test_lab_refuses_what_it_cannot_open(
    served: dict[str, Any], options: tuple[str, ...], env: dict[str, str], says: str
) -> None:
    result = run("lab", *options, **env)
    assert result.exit_code == NOT_UNDERSTOOD
    assert says in result.output
    assert not served


def test_lab_without_a_course_or_without_jupyterlab_says_what_to_do(
    served: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_course(_start: Path) -> Path:
        raise folder.LabError("No course folder here.")

    monkeypatch.setattr("autograd_course.cli.course_folder", no_course)
    result = run("lab")
    assert (result.exit_code, result.output) == (NOT_DONE, "No course folder here.\n")

    monkeypatch.setattr("autograd_course.cli.find_spec", lambda name: None)
    result = run("lab")
    assert result.exit_code == NOT_DONE
    assert "pip install 'autograd-course[lab]'" in result.output


# --- status, hint, explain ------------------------------------------------------------------------


def test_status_prints_the_progress_of_every_exercise() -> None:
    result = run("status")
    assert result.exit_code == DONE
    assert "square" in result.output


def test_hint_prints_one_more_each_time() -> None:
    first, second = run("hint", "square"), run("hint", "square")
    assert first.exit_code == second.exit_code == DONE
    assert first.output != second.output


def test_hint_names_the_closest_exercises() -> None:
    result = run("hint", "sqare")
    assert result.exit_code == NOT_UNDERSTOOD
    assert "square" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", sorted(RULES))
def test_explain_prints_the_page_of_a_rule(name: str) -> None:
    result = run("explain", name)
    assert result.exit_code == DONE
    assert result.output.strip() == explain(name).markdown.strip()


def test_explain_alone_lists_every_rule_and_every_message() -> None:
    result = run("explain")
    assert result.exit_code == DONE
    assert all(f"`{name}`" in result.output for name in (*RULES, *MESSAGES))


@pytest.mark.parametrize("quoted", [True, False])
def test_explain_finds_the_page_of_a_message(quoted: bool) -> None:
    said = "RuntimeError: function MyBackward returned an incorrect number of gradients"
    said += " (expected 7, got 2)"
    result = run("explain", *([said] if quoted else said.split()))
    assert result.exit_code == DONE
    assert result.output.strip() == message_page("incorrect-number-of-gradients").strip()


def test_explain_reads_a_traceback_from_standard_input() -> None:
    said = "Traceback (most recent call last):\nRuntimeError: grad can be implicitly created only"
    result = CliRunner().invoke(app, ["explain", "-"], input=f"{said}\nfor scalar outputs\n")
    assert result.exit_code == DONE
    assert result.output.startswith("# scalar-outputs")


def test_explain_says_where_a_message_is_not_known() -> None:
    result = run("explain", "KeyError: the weight of layer 3")
    assert result.exit_code == NOT_UNDERSTOOD
    assert "No page is about a message like this one" in result.output


@pytest.mark.parametrize("typed", ["Constant_Factor", "constantfactor", "constant factor"])
def test_explain_takes_a_rule_typed_in_other_ways(typed: str) -> None:
    assert run("explain", typed).output.startswith("# constant-factor")


@pytest.mark.parametrize("typed", ["constant_factr", "Constant-Facto", "constant facto"])
def test_explain_names_the_closest_rules(typed: str) -> None:
    result = run("explain", typed)
    assert result.exit_code == NOT_UNDERSTOOD
    assert re.search(r"Did you mean .*constant-factor", result.output)


# --- doctor-self ----------------------------------------------------------------------------------


def test_a_machine_in_order_is_all_set() -> None:
    result = run("doctor-self", "--json")
    found = json.loads(result.output)
    states = {check["what"]: check["state"] for check in found["checks"]}

    assert (result.exit_code, found["ok"]) == (DONE, True), result.output
    assert states.keys() >= {
        "Python", "torch", "ipywidgets", "anywidget", "ipywidgets JS", "anywidget JS",
        "PyTorch", "accelerator", "compiler", "sandbox", "course",
    }  # fmt: skip
    assert set(states.values()) <= {"ok", "option"}


def test_what_fails_is_a_line_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Check:
        raise OSError("libtorch_cpu.so: no such file\nand more")

    monkeypatch.setattr(doctor_self, "_torch", fails)
    result = run("doctor-self")

    assert result.exit_code == NOT_DONE
    assert "REPAIR  PyTorch       fails: OSError: libtorch_cpu.so: no such file" in result.output
    assert "OK      grader" in result.output
    assert "Traceback" not in result.output


def test_an_option_that_is_missing_is_said_and_is_no_failure() -> None:
    option = Check("compiler", "none", "for lesson 14: apt install g++", optional=True)
    needed = Check("torch", "not installed", 'pip install "torch>=2.11"')

    assert doctor_self.code(Checkup((option,))) == DONE
    assert doctor_self.report(Checkup((option,))).startswith("OPTION  compiler      none\n")
    assert doctor_self.code(Checkup((option, needed))) == NOT_DONE
    assert "REPAIR  torch" in doctor_self.report(Checkup((option, needed)))


def test_an_extension_that_jupyterlab_does_not_find_is_to_be_repaired(tmp_path: Path) -> None:
    name = "@jupyter-widgets/jupyterlab-manager"
    (tmp_path / "there" / name).mkdir(parents=True)
    (tmp_path / "there" / name / "package.json").write_text("{}")

    lost, there = (
        doctor_self._extension("ipywidgets", name, [tmp_path / place])
        for place in ("lost", "there")
    )
    assert (lost.state, there.state) == ("REPAIR", "OK")
    assert "pip install" in lost.repair
