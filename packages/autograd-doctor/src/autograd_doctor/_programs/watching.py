"""Watch a whole program, even before it imports PyTorch, and examine its calls.

This module does not import PyTorch until the program has imported it. No function in this module
raises an error. If something fails, a sentence below the table reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from autograd_doctor._programs.baseline import (
    BaselineError,
    no_longer_found,
    read_baseline,
    write_baseline,
)
from autograd_doctor._safe_repr import first_line
from autograd_doctor._when_imported import when_imported
from autograd_doctor.program import ProgramDiagnosis, merged

if TYPE_CHECKING:
    from autograd_doctor._programs.recording import Recorder


class Watching:
    """Record the calls that this process makes between :meth:`start` and :meth:`stop`."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._failures: list[str] = []
        self._cancel: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start watching now, or as soon as PyTorch is imported."""
        self._cancel = when_imported("torch", self._record)

    def _record(self) -> None:
        try:
            from autograd_doctor._programs.recording import Recorder

            recorder = Recorder()
            recorder.start()
            self._recorder = recorder
        except Exception as error:
            self._fail("it could not record calls", error)

    def stop(self) -> None:
        """Stop watching."""
        self._cancel()
        if self._recorder is not None:
            self._recorder.stop()

    def diagnose(
        self, seconds: float, folder: Path, claim: Callable[[str], bool] = lambda name: True
    ) -> ProgramDiagnosis:
        """Examine the recorded calls.

        ``claim`` takes a Function's name and returns whether this process must examine the
        Function.
        """
        found = ProgramDiagnosis()
        if self._recorder is None:
            notes = self._failures or [_why_nothing()]
            return replace(found, notes=tuple(notes), broken=bool(self._failures))
        try:
            from autograd_doctor._programs.examination import examine

            found = examine(self._recorder, seconds=seconds, folder=folder, claim=claim)
        except Exception as error:
            self._fail("it could not examine the recorded calls", error)
        broken = found.broken or bool(self._failures)
        return replace(found, notes=(*found.notes, *self._failures), broken=broken)

    def _fail(self, what: str, error: Exception) -> None:
        self._failures.append(_failure(what, error))


def _why_nothing() -> str:
    try:
        installed = find_spec("torch") is not None
    except (ImportError, ValueError):
        installed = False
    if installed:
        return "The program did not import PyTorch, so there was nothing to examine."
    return "PyTorch is not installed, so no Function could be examined."


def conclude(
    parts: Sequence[ProgramDiagnosis], *, json: Path | None, baseline: Path | None, update: bool
) -> tuple[ProgramDiagnosis, bool]:
    """Combine the results of one or more processes, and write the requested files.

    Args:
        parts: The results of each process.
        json: The file to which to write the result as JSON.
        baseline: The file with the known errors.
        update: Whether to update the baseline first.

    Returns:
        The combined result, and whether a strict run must fail. A strict run must fail if there are
        new errors, if the baseline could not be read, or if the examination failed. In the last
        case, the result contains a note.
    """
    try:
        found, readable = _compared(merged(parts), baseline, update)
        if json is not None:
            found = _written(found, json)
    except Exception as error:
        note = _failure("it could not report", error)
        return ProgramDiagnosis(notes=(note,), broken=True), True
    return found, bool(found.new) or not readable or found.broken


def _compared(
    found: ProgramDiagnosis, baseline: Path | None, update: bool
) -> tuple[ProgramDiagnosis, bool]:
    """Compare the results with the baseline. Also return whether the baseline could be read."""
    if baseline is None:
        return found, True
    try:
        if update:
            entries = write_baseline(baseline, found)
            errors = "1 error" if entries == 1 else f"{entries} errors"
            found = _noted(found, f"The baseline {baseline} was written ({errors}).")
        known = read_baseline(baseline)
        if gone := no_longer_found(found, known):
            found = _noted(found, gone)
        return found.compared(known), True
    except BaselineError as error:
        return _noted(found, f"{error} Which errors are new could not be examined."), False


def _written(found: ProgramDiagnosis, json: Path) -> ProgramDiagnosis:
    try:
        json.write_text(found.to_json() + "\n", encoding="utf-8")
    except OSError as error:
        return _noted(found, f"{json} could not be written: {error.strerror}.")
    return found


def _noted(found: ProgramDiagnosis, note: str) -> ProgramDiagnosis:
    return replace(found, notes=(*found.notes, note))


def _failure(what: str, error: Exception) -> str:
    return f"autograd-doctor failed: {what} ({type(error).__name__}: {first_line(error)})."


def claim_in(folder: Path) -> Callable[[str], bool]:
    """Return a function with which several processes divide the Functions among themselves.

    The first process to create the file for a Function examines that Function.
    """
    from hashlib import sha256

    def claim(name: str) -> bool:
        try:
            (folder / sha256(name.encode()).hexdigest()).touch(exist_ok=False)
        except FileExistsError:
            return False
        except OSError:  # the folder is gone; examining a Function twice is better than not at all
            return True
        return True

    return claim
