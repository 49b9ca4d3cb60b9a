"""The classroom on other platforms: nbgrader, Gradescope and GitHub. Verdicts are reproducible."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import runpy
import shlex
import shutil
import sqlite3
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import jsonschema
import nbformat
import pytest
import yaml
from answers import RIGHT
from autograd_classroom import appeal, classwork
from autograd_classroom.adapters.gradescope import running
from autograd_classroom.adapters.nbgrader import hidden
from autograd_classroom.adapters.nbgrader.course import as_source
from autograd_classroom.gradebook import Gradebook
from autograd_classroom.gradebook.settings import Settings
from autograd_classroom.grading.executor import Inline, Judge, RefusedError
from autograd_classroom.grading.sandboxed_judge import SandboxedJudge
from autograd_classroom.sandbox import bubblewrap
from handed_in import LESSON, SQUARE, STUB, cell, notebook, solution
from repository import ROOT
from sampling import first_rows
from test_classroom_reports import GRADESCOPE
from typer.testing import CliRunner, Result

from autograd_course.cli import app
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.verdict import ForbiddenCode, Verdict, failed

pytestmark = [pytest.mark.slow, pytest.mark.checkout]

DOCS = (ROOT / "docs" / "classroom.md").read_text(encoding="utf-8")
HALF = b"return x * grad_output"
TRUST = [] if bubblewrap.works() or os.environ.get("CI") else ["--trust"]
POINTS = {e.id: e.points for e in CATALOGUE.values() if e.lesson == LESSON}
NBGRADER = ROOT / "build" / "nbgrader"  # `make thorough` creates it there
ENVIRONMENT = os.environ | {
    "PATH": f"{NBGRADER / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    "PYTHONPATH": os.pathsep.join(filter(None, (str(NBGRADER), os.environ.get("PYTHONPATH")))),
}


def run(*words: object) -> Result:
    ran = CliRunner().invoke(app, ["classroom", *map(str, words)], env={"COLUMNS": "200"})
    assert "Traceback" not in ran.output
    return ran


def half_solved() -> bytes:
    assert b"return 2 * x * grad_output" in solution()
    return solution().replace(b"return 2 * x * grad_output", HALF)


# nbgrader


@pytest.mark.parametrize("lesson", sorted({e.lesson for e in CATALOGUE.values()}))
def test_a_source_has_a_hidden_test_and_the_catalogue_s_points_for_each_exercise(
    lesson: str,
) -> None:
    wanted = {e.id: e.points for e in CATALOGUE.values() if e.lesson == lesson}
    source = as_source(json.loads(solution(lesson)), wanted)

    nbformat.validate(nbformat.from_dict(source))
    graders = [c for c in source["cells"] if c["metadata"].get("nbgrader", {}).get("grade")]
    said = {c["metadata"]["nbgrader"]["grade_id"]: c for c in graders}
    assert {name.removesuffix("-grade") for name in said} == set(wanted)
    for exercise, points in wanted.items():
        grader = said[f"{exercise}-grade"]
        visible, _, tests = grader["source"].partition("### BEGIN HIDDEN TESTS\n")
        asked = re.fullmatch(rf'grade\("{exercise}", (.*)\)\n', visible)
        assert asked, visible
        assert grader["metadata"]["nbgrader"]["points"] == points
        assert f'points("{exercise}", {asked[1]})\n### END HIDDEN TESTS' in tests
    assert not [c for c in source["cells"] if "solution-only" in c["metadata"].get("tags", [])]


def test_only_what_is_asked_for_gives_points() -> None:
    source = as_source(json.loads(solution()), ["square"])

    graded = [c["metadata"].get("nbgrader", {}) for c in source["cells"]]
    assert [n["grade_id"] for n in graded if n.get("grade")] == ["square-grade"]
    assert sum(bool(n.get("solution")) for n in graded) == len(POINTS)


def test_a_lesson_is_added_to_a_course_folder_and_what_is_there_stays(tmp_path: Path) -> None:
    course = tmp_path / "course"
    assert run("nbgrader", course, "--exercises", "01").exit_code == 0
    (course / "gradebook.db").write_text("grades")
    (course / "source" / LESSON / f"{LESSON}.ipynb").write_text("edited")
    before = {path: path.read_bytes() for path in course.rglob("*") if path.is_file()}
    added = run("nbgrader", course, "--exercises", "03")

    assert added.exit_code == 0, added.output
    new = course / "source" / "03_gradient_patterns" / "03_gradient_patterns.ipynb"
    after = {path: path.read_bytes() for path in course.rglob("*") if path.is_file()}
    assert after == before | {new: new.read_bytes()}
    assert "BEGIN HIDDEN TESTS" in new.read_text()

    twice = run("nbgrader", course, "--exercises", "01,05")
    assert twice.exit_code == 1
    assert "01_template exists already: delete it to create" in " ".join(twice.output.split())
    assert len(list((course / "source").iterdir())) == 2, "nothing is written"


OTHERS = {"a file": "notes.txt", "a configuration": "nbgrader_config.py"}


@pytest.mark.parametrize("what", OTHERS)
def test_a_folder_of_somebody_else_s_is_left_as_it_is(what: str, tmp_path: Path) -> None:
    (tmp_path / OTHERS[what]).write_text("c = get_config()\n")
    refused = run("nbgrader", tmp_path, "--exercises", "01")

    assert refused.exit_code == 1
    assert "is not empty, and has no nbgrader_config.py of this command" in refused.output
    assert [path.name for path in tmp_path.iterdir()] == [OTHERS[what]]


ANSWERS = {"right": (RIGHT["square"], 1), "unfinished": (None, 0), "no Function": (dict, 0)}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_hidden_test_s_value_is_its_points(
    answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, points = ANSWERS[answer]

    assert hidden.points("square", code, seed=7) == points
    assert "Square" in capsys.readouterr().out


def test_where_the_grader_fails_the_kernel_ends_and_nobody_gets_a_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(hidden, "judge", lambda *_: failed("it broke"))
    monkeypatch.setattr(os, "kill", lambda process, signal: ended.append(process))
    hidden.points("square", None, seed=7)

    assert ended == [os.getpid()]


@pytest.mark.skipif(
    not NBGRADER.exists() and not os.environ.get("CI"),
    reason="no build/nbgrader: `make build/nbgrader` puts nbgrader there",
)
@pytest.mark.thorough
def test_nbgrader_itself_grades_a_class(tmp_path: Path) -> None:
    course = tmp_path / "course"
    assert run("nbgrader", course, "--exercises", "01").exit_code == 0
    if TRUST:
        config = course / "nbgrader_config.py"
        config.write_text(config.read_text().replace("trust=False", "trust=True"))
    nbgrader(course, "generate_assignment", LESSON)
    released = (course / "release" / LESSON / f"{LESSON}.ipynb").read_bytes()
    for student, work in {
        "ann": solution(), "bob": half_solved(), "dan": released,
    }.items():  # fmt: skip
        place = course / "submitted" / student / LESSON / f"{LESSON}.ipynb"
        place.parent.mkdir(parents=True)
        place.write_bytes(work)
    nbgrader(course, "autograde", LESSON)
    nbgrader(course, "generate_feedback", LESSON)
    nbgrader(course, "export")

    assert codes(released) == codes((ROOT / "exercises" / f"{LESSON}.ipynb").read_bytes())
    with (course / "grades.csv").open() as table:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(table)}
    whole = sum(POINTS.values())
    assert scores == {"ann": whole, "bob": whole - POINTS["square"], "dan": 0}
    feedback = (course / "feedback" / "bob" / LESSON / f"{LESSON}.html").read_text()
    assert "constant-factor" in feedback


def nbgrader(course: Path, *words: str) -> None:
    command = [sys.executable, "-m", "nbgrader", *words]
    ran = subprocess.run(command, cwd=course, env=ENVIRONMENT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]


def codes(data: bytes) -> list[str]:
    """Return the code of a notebook whose stubs were written by nbgrader or by us.

    After its comment, nbgrader always raises an exception. We do not if the cell assigns a value.
    """
    cells = nbformat.reads(data.decode(), as_version=4).cells
    sources = [cell.source.strip() for cell in cells if cell.cell_type == "code"]
    return [text.removesuffix("raise NotImplementedError").strip() for text in sources]


# Gradescope


@pytest.fixture
def autograder(tmp_path: Path) -> Path:
    """Return a folder that looks like Gradescope's /autograder, with our zip in ``source/``."""
    made = run("gradescope", tmp_path / "autograder.zip", "--exercises", "square,linear,gelu")
    assert made.exit_code == 0, made.output
    assert (
        f"Enter {sum(CATALOGUE[e].points for e in ('square', 'linear', 'gelu'))} as" in made.output
    )
    root = tmp_path / "autograder"
    for name in ("source", "submission", "results"):
        (root / name).mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "autograder.zip") as archive:
        for entry in archive.infolist():
            extracted = archive.extract(entry, root / "source")
            os.chmod(extracted, (entry.external_attr >> 16) & 0o777)
    return root


@pytest.mark.thorough
def test_gradescope_s_autograder_runs_as_it_is_laid_out_there(autograder: Path) -> None:
    (autograder / "submission" / "my homework.ipynb").write_bytes(half_solved())
    (autograder / "results" / "results.json").write_text('{"score": 1000}')  # not ours
    source = autograder / "source"
    for script in ("setup.sh", "run_autograder"):
        assert (source / script).stat().st_mode & stat.S_IXUSR
        subprocess.run(["bash", "-n", source / script], check=True)
    environment = os.environ | {"AUTOGRADER": str(autograder), "PYTHON": sys.executable}
    ran = subprocess.run(
        [source / "run_autograder"], env=environment, capture_output=True, text=True
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("graded in a sandbox" if not TRUST else "graded WITHOUT a sandbox")
    results = json.loads((autograder / "results" / "results.json").read_text())
    jsonschema.validate(results, GRADESCOPE)
    scores = {test["extra_data"]["exercise"]: test["score"] for test in results["tests"]}
    assert scores == {"square": 0, "linear": POINTS["linear"], "gelu": 0}
    assert results["score"] == POINTS["linear"]
    said = {test["extra_data"]["exercise"]: test["output"] for test in results["tests"]}
    assert "constant-factor" in said["square"]
    assert "handed in" in said["gelu"]


def notebooks(**answers: str) -> dict[str, bytes]:
    return {
        f"{name}.ipynb": notebook(cell("import torch"), cell(answer, "square"))
        for name, answer in answers.items()
    }


def zipped(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


WRONG = SQUARE.replace("2 * x", "x")
HANDED_IN: dict[str, tuple[dict[str, bytes], float, str]] = {
    "right": (notebooks(homework=SQUARE), 1, ""),
    "wrong": (notebooks(homework=WRONG), 0, "wrong: constant-factor"),
    "a stub": (notebooks(homework=STUB), 0, "not attempted: you have not written `forward` yet"),
    "broken": ({"homework.ipynb": solution()[:500]}, 0, "the notebook's JSON is broken"),
    "a script": ({"01_template.py": f"import torch\n{SQUARE}".encode()}, 1, "in another cell"),
    "nothing": ({}, 0, "it contains no notebook and no script\nnot attempted: no Square"),
    "two": (notebooks(a=WRONG, b=SQUARE), 1, "a.ipynb: b.ipynb is graded for lesson 01 instead"),
    "and a script": (
        notebooks(homework=SQUARE) | {"helpers.py": b"import torch"},
        1,
        "helpers.py: it answers no exercise of the course",
    ),
    "in a zip": ({"homework.zip": zipped(notebooks(homework=SQUARE))}, 1, ""),
    "old in a zip": (
        notebooks(new=SQUARE) | {"homework.zip": zipped(notebooks(old=WRONG))},
        1,
        "homework.zip/old.ipynb: new.ipynb is graded for lesson 01 instead",
    ),
    "no name in ASCII": ({"Übung 解答.ipynb": solution()[:500]}, 0, "Übung 解答.ipynb: the "),
    "no name in UTF-8": ({os.fsdecode(b"\xfc.ipynb"): solution()[:500]}, 0, r"\xfc.ipynb: the "),
}


@pytest.mark.parametrize("what", first_rows(HANDED_IN))
def test_gradescope_s_results_tell_a_student_of_whatever_was_handed_in(
    what: str, tmp_path: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, points, said = HANDED_IN[what]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(running, "_bench", lambda: (lambda: nullcontext(judge), "here"))

    results, _ = running.graded(tmp_path, "square")

    jsonschema.validate(results, GRADESCOPE)
    (test,) = results["tests"]
    told = f"{results['output']}\n{test['output']}"
    assert (results["score"], test["score"], test["max_score"]) == (points, points, 1)
    assert said in told
    assert "student/" not in told, "a folder of ours"
    assert told.encode(), "it can be written"


NOT_GRADED = {
    "no sandbox starts": (RefusedError("the sandbox did not start: no room."), "no room."),
    "the grader breaks": (ZeroDivisionError("division by zero"), "ZeroDivisionError: division"),
}


@pytest.mark.parametrize("what", NOT_GRADED)
def test_where_nothing_can_be_graded_gradescope_is_told_why_and_nobody_has_a_score(
    what: str,
    autograder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    error, sentence = NOT_GRADED[what]
    monkeypatch.setattr(running, "graded", Mock(side_effect=error))

    run_autograder(autograder, monkeypatch)

    results = json.loads((autograder / "results" / "results.json").read_text())
    jsonschema.validate(results, GRADESCOPE)
    assert (results["tests"], "score" in results) == ([], False)
    assert sentence in results["output"]
    assert "no fault of what was handed in" in results["output"]
    assert sentence in capsys.readouterr().out, "where instructors look"


def run_autograder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do the work of the script in this process."""
    monkeypatch.setattr(sys, "argv", ["", str(root)])
    runpy.run_module("autograd_classroom.adapters.gradescope", run_name="__main__")


def test_a_file_that_the_grading_user_may_not_read_costs_nobody_a_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "homework.ipynb").write_bytes(solution())
    monkeypatch.setattr(shutil, "copyfile", Mock(side_effect=PermissionError))
    monkeypatch.setattr(os, "access", Mock(return_value=False))

    results, told = running.results_of(tmp_path, "square")

    assert "score" not in results
    assert told.endswith("homework.ipynb cannot be read by the user that grades.")


def test_where_the_results_may_not_be_written_one_sentence_says_so(
    autograder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "graded", Mock(return_value=({"tests": []}, "")))
    (autograder / "results" / "results.json").mkdir()  # even root cannot overwrite a folder

    with pytest.raises(SystemExit, match=r"results.json cannot be written by the user that grades"):
        run_autograder(autograder, monkeypatch)


def test_all_of_the_zip_can_be_read_by_whoever_grades(autograder: Path) -> None:
    modes = {path.stat().st_mode & 0o777 for path in (autograder / "source").rglob("*.*")}
    scripts = {(autograder / "source" / name).stat().st_mode & 0o777 for name in SCRIPTS}

    assert modes - {0o755} == {0o644}
    assert scripts == {0o755}


SCRIPTS = ("setup.sh", "run_autograder")
PYTHONS = {
    "of Ubuntu 22.04": ((3, 10, 12, "final", 0), True),
    "a release candidate of Ubuntu 22.04": ((3, 11, 0, "candidate", 1), True),
    "of Debian 12": ((3, 11, 2, "final", 0), False),
    "of Ubuntu 24.04": ((3, 12, 3, "final", 0), False),
}


@pytest.mark.parametrize("python", PYTHONS)
def test_setup_takes_the_system_s_python_unless_it_is_too_old(
    python: str, autograder: Path
) -> None:
    version, too_old = PYTHONS[python]
    script = (autograder / "source" / "setup.sh").read_text()
    (asked,) = re.findall(r"sys\.exit\((sys\.version_info < .*)\)'", script)

    assert eval(asked, {"sys": SimpleNamespace(version_info=version)}) is too_old


def test_the_zip_installs_the_versions_that_are_here(autograder: Path) -> None:
    pins = (autograder / "source" / "requirements.txt").read_text().splitlines()

    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    assert any(pin.startswith("torch==") for pin in pins)
    assert "$here/requirements.txt" in (autograder / "source" / "setup.sh").read_text()


# GitHub Classroom, and all commands on the page


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """Open one sandbox for all answers that are graded here."""
    with SandboxedJudge(trust=bool(TRUST))() as judge:
        yield judge


@pytest.fixture(scope="module")
def no_workers(judge: Judge) -> Iterator[None]:
    """Grade in this process, because other tests cover the workers."""
    with pytest.MonkeyPatch.context() as patch:
        alone = Inline(lambda: nullcontext(judge))
        patch.setattr(classwork, "executor", lambda *_, **__: nullcontext(alone))
        yield


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, no_workers: None) -> Path:
    """Grade the page's class once. Return the folder with the class and its gradebook."""
    folder = tmp_path_factory.mktemp("graded")
    for name, answer in {"ann": SQUARE, "bob": SQUARE.replace("2 * x", "x"), "dan": STUB}.items():
        place = folder / "homework" / name / "01_template.ipynb"
        place.parent.mkdir(parents=True)
        place.write_bytes(notebook(cell("import torch"), cell(answer, "square")))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ran = run("grade", "homework", "--exercises", "square")
    assert ran.exit_code == 0, ran.output
    return folder


@pytest.fixture
def homework(graded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with a copy of the graded class, and return its gradebook."""
    shutil.copytree(graded, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "homework-grades" / "gradebook.sqlite"


@pytest.mark.thorough
def test_the_page_s_commands_do_what_it_says(homework: Path) -> None:
    for name, begin in {"assignment.toml": "[weights]", "students.csv": "name,id,email"}.items():
        text = DOCS.partition(f"\n{begin}")[2].partition("```")[0]
        Path(name).write_text(begin + text, encoding="utf-8")
    found = re.findall(r"^autograd-course classroom (report .*|again .*)$", DOCS, re.MULTILINE)
    reports = {words: run(*shlex.split(words)) for words in found[:-1]}
    again = run(*shlex.split(found[-1]), *TRUST)

    assert len(reports) == 5
    for words, ran in reports.items():
        assert ran.exit_code == ("--require" in words), ran.output
    assert again.exit_code == 0, again.output
    with Gradebook(homework) as book:
        (score,) = book.scores("bob")
    assert all(part in again.stdout for part in (score.hash, score.seed, "return x * grad_output"))
    assert "The gradebook has the same verdict: wrong, constant-factor." in again.stdout


def test_a_verdict_is_made_again_with_the_points_of_the_reports(
    homework: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remarked = Verdict(ForbiddenCode(("it reaches sys",)), remarks=("imports os", "it reaches sys"))
    monkeypatch.setattr(appeal, "verdict_on", lambda *_: remarked)
    said = []
    with Gradebook(homework) as book:
        book.set(Settings({"values": 0.25}))
        said.append(run("again", homework, "bob", "square", "--trust").output)
        book.settle("bob", "square", 0.5, "Nearly.", "me")
        said.append(run("again", homework, "bob", "square", "--trust").output)

    assert "The answer has 0.75 of 1 point.\n" in said[0]
    assert re.search(r"has 0.5 of 1 point. Settled by me on [0-9-]+: Nearly.\n", said[1])
    assert said[0].count("of 1 point") == 1
    assert "to look at: it imports os\n" in said[0]
    assert "to look at: it reaches sys\n" in said[0]


def test_code_shows_a_terminal_no_control_characters(
    homework: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "class Square:\n\t# \x1b[2J\x1b]0;title\x07\x9b8m\u202e\r\n\n\tpass"
    monkeypatch.setattr(
        appeal, "verdict_on", lambda *_: Verdict(ForbiddenCode(("it reaches sys",)))
    )
    monkeypatch.setattr(Gradebook, "code", lambda *_: ("Square", "", code))
    said = run("again", homework, "bob", "square", "--trust").output

    assert r"class Square:" + "\n\t# " + r"\x1b[2J\x1b]0;title\x07\x9b8m\u202e" in said
    assert not [c for c in said if not c.isprintable() and c not in "\n\t"]


UNKNOWN = {
    "nobody": (
        ["eve", "square"],
        "the gradebook has no student 'eve'; the known names are ann, bob, dan.",
    ),
    "nothing": (
        ["ann", "linear"],
        "the gradebook has no verdict on ann's 'linear'; the known names are square.",
    ),
}


@pytest.mark.parametrize("words", UNKNOWN)
def test_a_verdict_that_was_not_made_is_not_made_again(words: str, homework: Path) -> None:
    named, sentence = UNKNOWN[words]
    ran = run("again", homework, *named)

    assert (ran.exit_code, ran.output.strip()) == (1, sentence)


FORGED = """{"expected": {}, "actual": [[]], "index": 3, "input": 1, "hint": [], "given": 7}"""
FORGERIES = {
    f"UPDATE results SET evidence = '{FORGED}'": (0, "damaged record in the gradebook (evidence)"),
    "UPDATE results SET evidence = 'no JSON', seconds = 'x'": (0, "(seconds, evidence)"),
    "UPDATE results SET evidence = '{}', status = 'passed'": (1, "has another verdict"),
    "UPDATE results SET points = 'x'": (1, "(points)"),
    "UPDATE results SET seed = 'x'": (1, "the verdict on bob's 'square' cannot be made again: the "
                                         "seed is damaged"),
    "UPDATE code SET source = x'ff'": (1, "the code is damaged in the gradebook"),
}  # fmt: skip


@pytest.mark.parametrize("forgery", first_rows(FORGERIES, most=1), ids=lambda forgery: forgery[:60])
def test_a_verdict_is_made_again_whatever_stands_in_its_record(
    forgery: str, homework: Path
) -> None:
    code, said = FORGERIES[forgery]
    with closing(sqlite3.connect(homework)) as file:
        file.execute(forgery)
        file.commit()
    ran = run("again", homework, "bob", "square", *TRUST)

    assert ran.exit_code == code, ran.output
    assert said in ran.output
    assert run("report", homework).exit_code == 0


@pytest.mark.parametrize("page", ["docs/classroom.md", "packages/autograd-classroom/README.md"])
def test_a_command_that_installs_the_classroom_also_installs_what_it_needs(page: str) -> None:
    (command,) = re.findall(r"pip install .*git.*", (ROOT / page).read_text(encoding="utf-8"))
    repository = "git+https://github.com/autograd-course/autograd_course"

    assert set(re.findall(r'"(git[^"]*)"', command)) == {
        repository,
        f"{repository}#subdirectory=packages/autograd-doctor",
        f"{repository}#subdirectory=packages/autograd-classroom",
    }


def test_the_workflow_grades_a_student_s_repository(
    tmp_path: Path, no_workers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL)
    steps = yaml.safe_load(text)["jobs"]["grade"]["steps"]
    repository = steps[0]["with"]["path"].replace(
        "${{ github.event.repository.name }}", "01-template-ann"
    )
    monkeypatch.chdir(tmp_path)
    place = tmp_path / repository / "01_template.ipynb"
    place.parent.mkdir(parents=True)
    place.write_bytes(notebook(cell("import torch"), cell(SQUARE, "square")))
    commands = [s["run"] for s in steps if s.get("run", "").startswith("autograd-course classroom")]
    ran = [run(*shlex.split(command)[2:]) for command in commands]

    assert [each.exit_code for each in ran] == [0, 0, 1], [each.output for each in ran]
    with Gradebook(tmp_path / "grades" / "gradebook.sqlite") as book:
        assert book.students() == ["ann"]
    assert (tmp_path / "grades" / "junit.xml").exists()
