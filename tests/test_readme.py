"""What README.md promises is run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n((?:(?!```).)*)```\n```text\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^autograd-course (check .*)$", README, re.MULTILINE)
(TEST_SUITE,) = re.findall(r"```python\n((?:(?!```).)*def test_.*?)```", README, re.DOTALL)
LINKS = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_an_example_prints_what_stands_below_it(code: str, shown: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")

    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)

    assert ran.stdout == shown


def test_the_example_passes_gradcheck_as_the_text_says() -> None:
    code = EXAMPLES[0][0].replace("print(", "(")
    scope: dict[str, object] = {}
    source = ROOT / "README.md"
    exec(compile(code, str(source), "exec"), scope)
    import torch

    x = torch.linspace(-2, 2, 5, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(scope["Softplus"].apply, (x, 1.0))  # type: ignore[attr-defined]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the example's Function in a file, and a test of it."""
    (tmp_path / "softplus.py").write_text(EXAMPLES[0][0], encoding="utf-8")
    (tmp_path / "test_softplus.py").write_text(TEST_SUITE, encoding="utf-8")
    return tmp_path


def finds(folder: Path, *command: str) -> str:
    """Run a module that must find the example's error; return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=folder
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_for_a_shell_finds_the_example_s_error(words: str, folder: Path) -> None:
    report = finds(folder, "autograd_course.cli", *shlex.split(words))

    assert report.splitlines()[:2] == EXAMPLES[0][1].splitlines()[:2]


def test_the_test_suite_shows_the_report(folder: Path) -> None:
    assert EXAMPLES[0][1].splitlines()[1] in finds(folder, "pytest", "-p", "no:cacheprovider")


@pytest.mark.parametrize("link", LINKS)
def test_a_link_leads_to_a_file(link: str) -> None:
    assert (ROOT / link).exists()


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, re.MULTILINE))
def test_a_command_is_a_target_of_the_makefile(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
