"""The set-up check in lesson 00."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from autograd_course import checkup as module
from autograd_course.checkup import checkup

pytestmark = pytest.mark.slow


def test_a_working_installation_is_all_set() -> None:
    found = checkup()
    assert found.ok, found
    assert repr(found).endswith("All set.")


def test_a_package_that_is_too_old_is_named_with_its_repair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "version", lambda name: "0.1")
    assert not checkup().ok
    assert '%pip install "torch>=' in repr(checkup())


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", missing)
    assert "not installed" in repr(checkup())


def test_progress_that_cannot_be_kept_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOGRAD_COURSE_PROGRESS", str(tmp_path / "file" / "progress.json"))
    assert "Progress cannot be saved" in repr(checkup())
