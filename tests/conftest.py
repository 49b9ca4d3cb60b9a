from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def progress_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a progress file of its own, which does not exist yet."""
    path = tmp_path / "progress.json"
    monkeypatch.setenv("AUTOGRAD_COURSE_PROGRESS", str(path))
    return path
