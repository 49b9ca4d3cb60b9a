from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from barepage import running_browser
from playwright.sync_api import Browser

VARIABLE = "AUTOGRAD_COURSE_PROGRESS"
NUMBERS = count()


@pytest.fixture(autouse=True)
def no_progress(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each test without any progress. No folder is created, because this would take time."""
    path = tmp_path_factory.getbasetemp() / f"progress-{next(NUMBERS)}.json"
    monkeypatch.setenv(VARIABLE, str(path))


@pytest.fixture
def progress_file(no_progress: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path where the test stores its progress. The file does not exist yet."""
    path = tmp_path / "progress.json"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run one headless Chromium for all tests in a file."""
    with running_browser() as browser:
        yield browser
