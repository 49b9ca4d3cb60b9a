"""A course folder with one lesson's exercises, whose cells the tests can fill with answers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from handed_in import LESSON, SQUARE
from repository import ROOT

HALF = SQUARE.replace("2 * x", "x")
UNFINISHED = SQUARE.replace("(x,) = ctx", "(x,) = (ctx")
ENDLESS = SQUARE.replace("return 2", "while True:\n            pass\n        return 2")
EXITS = f"import os\nos._exit(3)\n{SQUARE}"


def course(folder: Path) -> Path:
    """Create a course folder and return it."""
    for name in ("notebooks", "solutions", "exercises"):
        (folder / name).mkdir()
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tools").symlink_to(ROOT / "tools")  # needed to build an exercise from its solution
    (folder / "notebooks" / "00_start_here.ipynb").write_text("{}")
    shutil.copy(ROOT / "solutions" / f"{LESSON}.py", folder / "solutions")
    for suffix in (".ipynb", ".py"):  # the script must be newer
        shutil.copy(ROOT / "exercises" / f"{LESSON}{suffix}", folder / "exercises")
    return folder


def answered(text: str, exercise: str, answer: str) -> str:
    """Return a script with an answer in the cell of an exercise."""
    mark = rf'(# %% nbgrader={{[^\n]*"grade_id": "{exercise}",[^\n]*\n)'
    cell = re.compile(rf"{mark}.*?(?=# %%)", re.S)
    changed, count = cell.subn(lambda match: f"{match[1]}{answer}\n\n", text)
    assert count == 1, exercise
    return changed


def line_of(text: str, exercise: str) -> int:
    """Return the line of a script where the answer to an exercise begins."""
    (mark,) = re.finditer(rf'# %% nbgrader=[^\n]*"grade_id": "{exercise}",[^\n]*\n', text)
    return text.count("\n", 0, mark.end()) + 1
