"""Every benchmark runs from the repository root and from any other folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT
from sampling import first_rows

from benchmarks.__main__ import FOLDER, NAMES

pytestmark = [pytest.mark.slow, pytest.mark.checkout]

SKIPPED = "This benchmark is skipped: "


def run(*command: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_the_benchmarks_are_the_files_of_the_folder() -> None:
    files = {path.stem for path in FOLDER.iterdir() if path.suffix == ".py"}

    assert set(NAMES) == files - {"__init__", "__main__", "_common"}


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_a_quick_run_prints_what_it_compares(name: str) -> None:
    ran = run("-m", f"benchmarks.{name}", "--quick")

    assert ran.returncode == 0, ran.stderr[-2000:]
    if ran.stdout.startswith(SKIPPED):
        pytest.skip(ran.stdout.removeprefix(SKIPPED))
    assert any(character.isdigit() for character in ran.stdout), ran.stdout


@pytest.mark.parametrize(
    "command", first_rows([("-m", "benchmarks.memory"), (str(FOLDER / "memory.py"),)], most=1)
)
def test_a_benchmark_is_found_from_another_folder(command: tuple[str, ...], tmp_path: Path) -> None:
    ran = run(*command, "--help", folder=tmp_path)

    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "python -m benchmarks.memory [--quick]" in ran.stdout


def test_make_bench_runs_them_all_in_their_quick_form() -> None:
    make = ["make", "--no-print-directory", "-n", "bench"]
    planned = run("-c", f"import subprocess; subprocess.run({make}, check=True)")

    assert planned.stdout.splitlines()[-1].endswith("python -m benchmarks --quick")
