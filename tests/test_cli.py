"""The command line: what it prints, and its exit codes."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from autograd_course.cli import app
from autograd_course.doctor import RULES
from autograd_course.doctor.pages import page
from autograd_course.lab import folder, launcher
from autograd_course.messages import MESSAGES
from autograd_course.messages import page as message_page

DONE, NOT_DONE, NOT_UNDERSTOOD = 0, 1, 2
COMMANDS = ("check", "classroom", "lab", "status", "hint", "explain")


def run(*words: str, **env: str) -> Result:
    """Run the command in a wide terminal, where no message is broken into lines."""
    return CliRunner().invoke(
        app,
        words,
        prog_name="autograd-course",
        env={"TERMINAL_WIDTH": "200", "COLUMNS": "200", **env},
    )


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Stand in a course folder; note what would be served instead of serving it."""
    notebook = tmp_path / folder.FIRST_NOTEBOOK
    notebook.parent.mkdir()
    notebook.write_text("{}")
    monkeypatch.chdir(tmp_path)
    asked: dict[str, Any] = {}

    def serve(folder: Path, notebook: Path, **options: Any) -> None:
        asked.update(options, folder=folder, notebook=notebook)

    monkeypatch.setattr(launcher, "serve", serve)
    return asked


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    assert command in run("--help").output
    result = run(command, "--help")
    assert result.exit_code == DONE
    assert f"Usage: autograd-course {command}" in result.output


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
    assert result.output.strip() == page(name).strip()


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
    assert "No message of the index is like this one" in result.output


@pytest.mark.parametrize("typed", ["constant_factr", "Constant-Factor", "constantfactor"])
def test_explain_names_the_closest_rules(typed: str) -> None:
    result = run("explain", typed)
    assert result.exit_code == NOT_UNDERSTOOD
    assert re.search(r"Closest: .*constant-factor", result.output)
