"""Every promise in README.md, CONTRIBUTING.md and the pages of docs/ is tested."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from runpy import run_path

import pytest
import torch
from autograd_doctor import RULES
from pages import DERIVED, PAGES, Block, blocks, commands, links, spans, tags
from repository import ROOT
from torch import Tensor

from autograd_course import assert_gradients, diagnose, visualize
from tools.exercises import exercise_cells
from tools.nbgrader import check_metadata
from tools.percent import parse

pytestmark = pytest.mark.slow

BLOCKS = [block for page in PAGES for block in blocks(page)]
EXAMPLES = [
    b for b in BLOCKS if b.language == "text" and b.before and b.before.language == "python"
]
COMMANDS = commands()

# The blocks that are not run by the tests of examples and commands, and the tests that run them.
ELSEWHERE = {
    "README.md: import torch": "documents/test_readme.py::test_the_test_suite_shows_the_report",
    "README.md: 4 files read, and 1 could not be graded":
        "../packages/autograd-classroom/tests/test_classroom_command.py::test_a_class_is_graded_as_the_readme_shows",
    **dict.fromkeys(
        ("classroom.md: [weights]", "classroom.md: name,id,email,group",
         "classroom.md: [deadlines]"),
        "../packages/autograd-classroom/tests/test_classroom_administration.py::test_the_files_that_the_page_shows_are_read",
    ),
    "classroom.md: name: Grade":
        "../packages/autograd-classroom/tests/test_classroom_platforms.py::test_the_workflow_grades_a_student_s_repository",
    'CONTRIBUTING.md: # %% nbgrader={"grade": false, "grade_id": "square", "locked": false, '
    '"schema_version": 3, "solution": true}':
        "documents/test_readme.py::test_the_example_of_an_exercise_becomes_a_stub",
    **dict.fromkeys(
        (
            "from_formula_to_ci.md: import scipy.special",
            "from_formula_to_ci.md: def dispersion(x: Tensor, *, center: Tensor | float = 0.0, "
            "width: Tensor | float = 1.0) -> Tensor:",
            "from_formula_to_ci.md: class Dispersion(nn.Module):",
            "from_formula_to_ci.md: import pytest",
            "from_formula_to_ci.md: name: Test",
        ),
        "documents/test_readme.py::test_the_formula_reaches_ci",
    ),
    **dict.fromkeys(
        (
            "five_functions.md: import torch",
            "five_functions.md: class Scale(Function):",
            "five_functions.md: class Relu(Function):",
            "five_functions.md: class Center(Function):",
            "five_functions.md: class LogSumExp(Function):",
            "five_functions.md: from autograd_course.visualize import compare_flows",
            "five_functions.md: Relu",
            "five_functions.md: from torch.autograd import gradcheck",
            "five_functions.md: Reciprocal True",
            "five_functions.md: from autograd_course import diagnose",
        ),
        "documents/test_five_functions.py::test_the_page_prints_what_it_shows",
    ),
    "breakpoints.md: import pydevd":
        "documents/test_breakpoints.py::test_the_lines_for_vs_code_are_those_that_were_run",
    "kinks.md: import torch":
        "documents/test_kinks.py::test_the_test_on_the_page_passes_for_its_function",
    "programs.md: import torch":
        "documents/test_readme.py::test_a_test_run_ends_with_the_table_shown",
    "programs.md: Function  where defined       calls  verdict":
        "documents/test_readme.py::test_a_test_run_ends_with_the_table_shown",
    'programs.md: [tool.autograd-doctor.functions."package.module.Sign"]':
        "documents/test_readme.py::test_the_declarations_shown_are_understood",
}  # fmt: skip


# --- code, and what it prints ---------------------------------------------------------------------


@pytest.mark.parametrize("shown", EXAMPLES, ids=str)
def test_an_example_prints_what_stands_below_it(
    shown: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "example.py"
    script.write_text(shown.before.text, encoding="utf-8")

    run_path(str(script))

    assert capsys.readouterr().out == shown.text


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language != "sh"], ids=str)
def test_a_block_that_is_no_command_has_a_test(block: Block) -> None:
    if block in EXAMPLES or block in [shown.before for shown in EXAMPLES]:
        return
    assert str(block) in ELSEWHERE, "name the test that runs it in ELSEWHERE"
    file, name = ELSEWHERE[str(block)].split("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")


SOFTPLUS = next(shown for shown in EXAMPLES if "class Softplus" in shown.before.text)
(TEST_SUITE,) = (b.text for b in BLOCKS if b.page == "README.md" and "def test_" in b.text)


def test_the_example_passes_gradcheck_as_the_text_says() -> None:
    scope: dict[str, object] = {}
    exec(compile(SOFTPLUS.before.text.replace("print(", "("), "README.md", "exec"), scope)
    x = torch.linspace(-2, 2, 5, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(scope["Softplus"].apply, (x, 1.0))  # type: ignore[attr-defined]


# --- the bugs in public code that README names ----------------------------------------------------


def normalized(x: Tensor, channels: dict[int, list[int]]) -> Tensor:
    """Return x divided by a power of 1 + the mean square of the channels given for each one."""
    sums = torch.stack([x[:, seen].square().sum(dim=1) for seen in channels.values()], dim=1)
    return x * (1 + sums / 3) ** -0.75


def test_the_windows_of_torch_s_response_norm_are_what_the_readme_says() -> None:
    x = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(1, 6, 1, 1).requires_grad_()
    right = {c: [d for d in (c - 1, c, c + 1) if 0 <= d < 6] for c in range(6)}
    never_drops_the_first = {c: sorted({0, *seen}) for c, seen in right.items()}

    y = torch.nn.CrossMapLRN2d(size=3, alpha=1.0)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)

    torch.testing.assert_close(y, normalized(x, never_drops_the_first))
    scale = (y / x) ** (-1 / 0.75)  # 1 + the mean square that forward used
    ratio = (y / scale).detach()
    shifted = {c: [d for d in (c - 2, c - 1, c) if d >= 0] for c in range(6)}
    summed = torch.stack([ratio[:, seen].sum(dim=1) for seen in shifted.values()], dim=1)
    torch.testing.assert_close(gradient, scale**-0.75 - 2 * 0.75 / 3 * x * summed)


def test_gpytorch_s_log_normal_cdf_is_as_the_readme_says() -> None:
    cdf = pytest.importorskip("gpytorch.functions").LogNormalCDF
    z = torch.linspace(-4, -1.0001, 1000, dtype=torch.float64)

    off = (cdf.apply(z) - torch.special.log_ndtr(z)).abs().max()
    assert 0.0015 < off < 0.0025
    example = torch.tensor([-3.0, -1.5, 0.5], dtype=torch.float64)
    assert torch.autograd.gradcheck(cdf.apply, (example.clone().requires_grad_(),))
    assert diagnose(cdf, (example,)).findings[0].rule == "gradient-mismatch"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a file that has the example's Function, and a test for it."""
    (tmp_path / "softplus.py").write_text(SOFTPLUS.before.text, encoding="utf-8")
    (tmp_path / "test_softplus.py").write_text(TEST_SUITE, encoding="utf-8")
    return tmp_path


def finds(folder: Path, *command: str) -> str:
    """Run a module that must find the example's error. Return its output."""
    ran = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=folder
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("words", sorted({line for _, line in COMMANDS if " softplus.py:" in line}))
def test_a_command_for_a_shell_finds_the_example_s_error(words: str, folder: Path) -> None:
    report = finds(folder, "autograd_course.cli", *shlex.split(words)[1:])

    assert report.splitlines()[:2] == SOFTPLUS.text.splitlines()[:2]


@pytest.mark.thorough
def test_the_test_suite_shows_the_report(folder: Path) -> None:
    assert SOFTPLUS.text.splitlines()[1] in finds(folder, "pytest", "-p", "no:cacheprovider")


@pytest.mark.thorough
def test_a_test_run_ends_with_the_table_shown(tmp_path: Path) -> None:
    page = [block for block in BLOCKS if block.page == "programs.md"]
    (suite,) = (block.text for block in page if "def test_" in block.text)
    (shown,) = (block.text for block in page if "where defined" in block.text)
    (tmp_path / "test_softplus.py").write_text(suite, encoding="utf-8")
    installed = entry_points(group="pytest11", name="autograd_doctor")
    plugin = () if installed else ("-p", "autograd_doctor.pytest_plugin")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, "--doctor"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )

    assert ran.returncode == 0, ran.stdout
    assert shown in ran.stdout


def test_the_formula_reaches_ci(tmp_path: Path) -> None:
    function, signature, module, tests, workflow = (
        block.text for block in blocks(ROOT / "docs" / "from_formula_to_ci.md")
    )
    (tmp_path / "dawson.py").write_text(
        "\n\n".join((function, signature, module)), encoding="utf-8"
    )
    (tmp_path / "test_dawson.py").write_text(tests, encoding="utf-8")
    (command,) = re.findall(r"- run: (pytest .*)", workflow)

    run = subprocess.run(
        [sys.executable, "-m", *command.split(), "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{tests.count('def test_')} passed" in run.stdout
    assert re.search(r"Dawson +dawson.py:7 +\d+ +✓", run.stdout)


def test_the_declarations_shown_are_understood() -> None:
    (shown,) = (block.text for block in BLOCKS if "[tool.autograd-doctor" in block.text)
    functions = tomllib.loads(shown)["tool"]["autograd-doctor"]["functions"]

    assert {key for entry in functions.values() for key in entry} == {"surrogate", "intentional"}
    assert {rule for it in functions.values() for rule in it.get("intentional", ())} <= {*RULES}


def test_every_argument_of_diagnose_is_explained() -> None:
    explained = set(
        re.findall(
            r"^\| `(\w+)=` \|", (ROOT / "docs/checking.md").read_text(encoding="utf-8"), re.M
        )
    )

    arguments = set(inspect.signature(diagnose).parameters) - {"fn", "inputs"}
    assert explained == arguments
    assert set(inspect.signature(assert_gradients).parameters) - {"fn", "inputs"} == (
        arguments - {"repair"} | {"warnings"}
    )


def test_the_example_of_an_exercise_becomes_a_stub() -> None:
    (example,) = (block.text for block in BLOCKS if "### BEGIN SOLUTION" in block.text)
    solution = parse(example, Path("solutions", "01_template.py"))

    check_metadata(solution, {"square": 1})
    answer, grader = exercise_cells(solution)
    assert answer.source.endswith(
        "def forward(ctx, x):\n        # YOUR CODE HERE\n        raise NotImplementedError"
    )
    assert grader.source == 'grade("square", Square)'


CALLS_OF_FIGURES = [s for s in spans(ROOT / "docs" / "checking.md") if s.endswith(")")]


@pytest.mark.parametrize("call", [c for c in CALLS_OF_FIGURES if c != "to_dict()"])
def test_a_figure_takes_what_the_table_gives_it(call: str) -> None:
    (calling,) = (node for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Call))
    figure = getattr(visualize, ast.unparse(calling.func))

    given = {keyword.arg: ... for keyword in calling.keywords}
    assert inspect.signature(figure).bind(*calling.args, **given)


# --- paths, links and pictures -------------------------------------------------------------------

READ = [*PAGES, ROOT / "ARCHITECTURE.md", *(ROOT / "docs" / name for name in sorted(DERIVED))]
DOCTOR = ROOT / "packages" / "autograd-doctor"
FROM = (ROOT, ROOT / "autograd_course", DOCTOR, DOCTOR / "src" / "autograd_doctor")
NAMED = re.compile(r"[\w.]+(/[\w.]+)*(/|\.(py|md|toml|txt|yml|css))")  # no NN, no <name>, no *


def test_a_path_that_contributing_names_is_there() -> None:
    named = [span for span in spans(ROOT / "CONTRIBUTING.md") if NAMED.fullmatch(span)]
    paths = [path for path in named if "NN" not in path]

    assert len(paths) > 10
    assert not [path for path in paths if not any((root / path).exists() for root in FROM)]


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_a_link_leads_to_a_file(page: Path) -> None:
    relative = [link for link in links(page) if not re.match("https?:|#", link)]

    assert not [link for link in relative if not (page.parent / link.partition("#")[0]).exists()]


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_a_picture_says_what_is_seen(page: Path) -> None:
    pictures = [tag for tag in tags(page) if tag[""] == "img"]

    assert not [tag for tag in pictures if len(tag.get("alt", "")) < len("Open In Colab")]
