from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from barepage import running_browser
from playwright.sync_api import Browser


@pytest.fixture(autouse=True)
def progress_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a progress file of its own, which does not exist yet."""
    path = tmp_path / "progress.json"
    monkeypatch.setenv("AUTOGRAD_COURSE_PROGRESS", str(path))
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run one headless Chromium for all tests of a file."""
    with running_browser() as browser:
        yield browser
