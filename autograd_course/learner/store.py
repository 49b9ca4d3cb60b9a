"""The learner's progress file. Every write first reads the file and then replaces it atomically."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_data_path

from autograd_course.learner.state import State, UnreadableStateError

VARIABLE = "AUTOGRAD_COURSE_PROGRESS"
LOCK_SECONDS = 2.0

Change = Callable[[State], State]

_pending: dict[Path, list[Change]] = {}  # changes that this process has not been able to write yet


@dataclass(frozen=True)
class Kept:
    """The state after a read or a write, with a note if there was a problem."""

    state: State
    note: str = ""


def progress_path() -> Path:
    """Return the path in ``AUTOGRAD_COURSE_PROGRESS``, or a path in the user's data folder."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else user_data_path("autograd-course") / "progress.json"


def load() -> Kept:
    """Read the progress file. If this fails, return an empty state and leave the file unchanged."""
    path = progress_path()
    try:
        kept = Kept(_read(path))
    except UnreadableStateError as why:
        kept = Kept(State(), f"The progress file {path} {why}. The next grading renames it.")
    except OSError as error:
        kept = Kept(State(), _cannot(path, error))
    return replace(kept, state=_with_pending(path, kept.state))


def update(change: Change) -> Kept:
    """Change the progress file under a lock, so that kernels never overwrite each other's results.

    This function never raises an exception and never waits for long. If the file cannot be written,
    this process remembers the change and writes it together with the next change. The returned note
    then says so.
    """
    path = progress_path()
    _pending.setdefault(path, []).append(change)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=LOCK_SECONDS):
            kept = _read_or_set_aside(path)
            state = _with_pending(path, kept.state)
            _write(path, state)
    except (OSError, NotImplementedError, Timeout) as error:
        return Kept(load().state, _cannot(path, error))
    _pending.pop(path, None)
    return Kept(state, kept.note)


def _with_pending(path: Path, state: State) -> State:
    return functools.reduce(lambda state, change: change(state), _pending.get(path, ()), state)


def _read(path: Path) -> State:
    try:
        return State.from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return State()
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise UnreadableStateError("is damaged") from None


def _read_or_set_aside(path: Path) -> Kept:
    try:
        return Kept(_read(path))
    except UnreadableStateError as why:
        aside = _free_name(path)
        os.replace(path, aside)
        return Kept(
            State(),
            f"The progress file {why}. The grader renamed it to {aside} and started a new file.",
        )


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.set-aside-{number}")).exists():
        number += 1
    return aside


def _write(path: Path, state: State) -> None:
    """Write a temporary file, flush it to disk, and replace the progress file with it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(state.to_json(), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _cannot(path: Path, error: Exception) -> str:
    if isinstance(error, Timeout):
        return f"Progress was not saved, because another program has locked {path}.lock."
    why = getattr(error, "strerror", None) or type(error).__name__
    return f"Progress cannot be saved in {path} ({why}). Set {VARIABLE} to another file."
