"""The layout of a notebook source. The project's ruff settings determine this layout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.errors import AuthoringError


def formatted(text: str, path: Path) -> str:
    """Format ``text``, the contents of the file ``path``, with ``ruff format``.

    Raises AuthoringError if the text is not valid Python.
    """
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(path)]
    done = subprocess.run([*command, "-"], input=text, capture_output=True, encoding="utf-8")
    if done.returncode:
        reason = done.stderr.strip().removeprefix("error: ")
        raise AuthoringError(path, 1, f"ruff cannot format it ({reason})", "correct the syntax")
    return done.stdout
