"""nbgrader never runs a student's code, even if the course or the sandbox is broken or missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from autograd_classroom.adapters.nbgrader.autograding import Autograding, NotConfiguredError
from handed_in import LESSON, solution
from test_classroom_platforms import ENVIRONMENT, NBGRADER, TRUST, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.skipif(
        not NBGRADER.exists() and not os.environ.get("CI"),
        reason="no build/nbgrader: `make build/nbgrader` puts nbgrader there",
    ),
]
STOPPED = "nbgrader stopped before it ran any submission: "


def nbgrader(course: Path, *words: str, **changed: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nbgrader", *words]
    return subprocess.run(
        command, cwd=course, env=ENVIRONMENT | changed, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a course folder with the answers of two students, whose code would leave a file."""
    folder = tmp_path_factory.mktemp("prepared")
    course = folder / "course"
    assert run("nbgrader", course, "--exercises", "01").exit_code == 0
    made = nbgrader(course, "generate_assignment", LESSON)
    assert made.returncode == 0, made.stderr
    work = nbformat.reads(solution().decode(), as_version=4)
    work.cells.insert(0, nbformat.v4.new_code_cell("open('/tmp/MARK', 'w')", id="harm"))
    for student in ("ann", "bob"):
        place = course / "submitted" / student / LESSON / f"{LESSON}.ipynb"
        place.parent.mkdir(parents=True)
        place.write_text(nbformat.writes(work))
    return course


@pytest.fixture
def course(prepared: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder, whose students' code would write into this test's folder."""
    copied = tmp_path / "course"
    shutil.copytree(prepared, copied)
    for path in copied.glob("submitted/*/*/*.ipynb"):
        path.write_text(path.read_text().replace("/tmp/MARK", str(tmp_path / "ran")))
    return copied


def broken_course(source: str) -> Callable[[Path], dict[str, str]]:
    """Return a function that puts a broken ``autograd_course`` in front of the real one."""

    def prepare(course: Path) -> dict[str, str]:
        package = course.parent / "elsewhere" / "autograd_course"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(source)
        paths = [str(package.parent), ENVIRONMENT["PYTHONPATH"]]
        return {"PYTHONPATH": os.pathsep.join(paths)}

    return prepare


def no_sandbox(course: Path) -> dict[str, str]:
    """Remove bubblewrap and all container engines from the PATH."""
    return {"PATH": str(course.parent / "empty")}


def broken_sandbox(course: Path) -> dict[str, str]:
    """Provide a bubblewrap that passes its trial run but starts nothing."""
    programs = course.parent / "programs"
    programs.mkdir()
    program = programs / "bwrap"
    program.write_text('#!/bin/sh\ncase "$*" in *secluded) echo no room >&2; exit 1;; esac\n')
    program.chmod(0o755)
    return {"PATH": f"{programs}:/usr/bin:/bin"}


HINDERED = {
    "no course": (
        broken_course("raise ModuleNotFoundError(\"No module named 'autograd_course'\")"),
        r"nbgrader_config.py failed (ModuleNotFoundError: No module named 'autograd_course'). Run "
        f"nbgrader with the Python that the course is installed in; this one is {sys.executable}.",
    ),
    "another course of the name": (broken_course(""), "nbgrader_config.py failed (ModuleNotFound"),
    "a course that raises": (broken_course("1 / 0"), "failed (ZeroDivisionError: division by"),
    "a course that is no Python": (broken_course("def"), "nbgrader_config.py failed (SyntaxError"),
    "no sandbox": (no_sandbox, "this machine has no sandbox. Install bubblewrap"),
    "a sandbox that does not start": (broken_sandbox, "the sandbox does not start (SandboxError"),
}  # fmt: skip


@pytest.mark.skipif(bool(TRUST), reason="there is no sandbox that could be missing")
@pytest.mark.parametrize("what", HINDERED)
def test_nbgrader_ends_with_one_sentence_before_it_runs_any_code(what: str, course: Path) -> None:
    prepare, sentence = HINDERED[what]
    ran = nbgrader(course, "autograde", LESSON, **prepare(course))

    assert ran.returncode != 0
    *_, last = ran.stderr.strip().splitlines()
    assert last.startswith(STOPPED), ran.stderr
    assert sentence in last
    assert "Traceback" not in ran.stderr
    assert_nothing_ran(course)


def assert_nothing_ran(course: Path) -> None:
    assert not (course.parent / "ran").exists(), "a student's code ran without a sandbox"
    left = list(course.glob("autograded/*/*"))
    assert left == [], "nbgrader would take these for graded, and skip them"


MISTAKES = {
    "no Python": lambda text: text.replace("try:", "try"),
    "an exception below": lambda text: f"{text}\n1 / 0\n",
    "an empty file": lambda text: "",
    "no file": None,
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_configuration_does_not_bring_the_kernel_back(
    mistake: str, course: Path
) -> None:
    config, change = course / "nbgrader_config.py", MISTAKES[mistake]
    config.write_text(change(config.read_text())) if change else config.unlink()
    ran = nbgrader(course, "autograde", LESSON)

    assert ran.returncode != 0
    assert "correct the mistake that nbgrader reports in that file" in ran.stderr
    assert_nothing_ran(course)


@pytest.mark.parametrize("command", ["export", "generate_feedback", "list"])
def test_no_command_goes_on_with_half_a_configuration(command: str, course: Path) -> None:
    prepare, _ = HINDERED["no course"]
    ran = nbgrader(course, command, **prepare(course))

    assert ran.returncode != 0
    assert ran.stderr.strip().startswith(STOPPED), ran.stderr


def test_a_student_who_was_stopped_is_graded_the_next_time(course: Path) -> None:
    if TRUST:
        config = course / "nbgrader_config.py"
        config.write_text(config.read_text().replace("trust=False", "trust=True"))
    else:
        assert nbgrader(course, "autograde", LESSON, **no_sandbox(course)).returncode != 0
    ran = nbgrader(course, "autograde", LESSON)

    assert ran.returncode == 0, ran.stderr
    assert (course / "autograded" / "ann" / LESSON / f"{LESSON}.ipynb").exists()
    assert not (course.parent / "ran").exists() or TRUST


def test_the_step_refuses_to_work_without_a_seed() -> None:
    with pytest.raises(NotConfiguredError, match=r"nbgrader ran no code of this submission"):
        Autograding()(nbformat.v4.new_notebook(), {})
