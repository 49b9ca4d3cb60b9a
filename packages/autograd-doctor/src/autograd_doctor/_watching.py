"""Watch a whole program, from before it imports PyTorch to its end, and examine what it called.

This module imports no PyTorch until the program has done so, and nothing in it raises: whatever
fails here becomes a sentence below the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from autograd_doctor._baseline import BaselineError, read_baseline, write_baseline
from autograd_doctor._safe_repr import first_line
from autograd_doctor._when_imported import when_imported
from autograd_doctor.program import ProgramDiagnosis

if TYPE_CHECKING:
    from autograd_doctor._recording import Recorder


class Watching:
    """Records the calls of this process from :meth:`start` to :meth:`stop`."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._failures: list[str] = []
        self._cancel: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin, now or when PyTorch is imported."""
        self._cancel = when_imported("torch", self._record)

    def _record(self) -> None:
        try:
            from autograd_doctor._recording import Recorder

            recorder = Recorder()
            recorder.start()
            self._recorder = recorder
        except Exception as error:
            self._fail("it could not record calls", error)

    def stop(self) -> None:
        """End it."""
        self._cancel()
        if self._recorder is not None:
            self._recorder.stop()

    def diagnose(
        self, seconds: float, folder: Path, claim: Callable[[str], bool] = lambda name: True
    ) -> ProgramDiagnosis:
        """Examine what was recorded; ``claim`` tells which Functions this process is to examine."""
        found = ProgramDiagnosis()
        if self._recorder is None:
            notes = self._failures or [_why_nothing()]
            return replace(found, notes=tuple(notes))
        try:
            from autograd_doctor._programs import examine

            found = examine(self._recorder, seconds=seconds, folder=folder, claim=claim)
        except Exception as error:
            self._fail("it could not examine the recorded calls", error)
        return replace(found, notes=(*found.notes, *self._failures))

    def _fail(self, what: str, error: Exception) -> None:
        why = f"{type(error).__name__}: {first_line(error)}"
        self._failures.append(f"autograd-doctor failed: {what} ({why}).")


def _why_nothing() -> str:
    try:
        installed = find_spec("torch") is not None
    except (ImportError, ValueError):
        installed = False
    if installed:
        return "The program did not import PyTorch, so there was nothing to examine."
    return "PyTorch is not installed, so no Function could be examined."


def conclude(
    diagnosis: ProgramDiagnosis, *, json: Path | None, baseline: Path | None, update: bool
) -> tuple[ProgramDiagnosis, bool]:
    """Compare a diagnosis with the baseline, and write the files that are wanted.

    Args:
        diagnosis: What was found.
        json: Where to write it as data.
        baseline: The file with the errors that are known.
        update: Whether to write that file instead.

    Returns:
        The diagnosis, which knows what is new and has notes on what failed here, and whether new
        errors are to fail the run.
    """
    notes: list[str] = []
    counts = True
    if baseline is not None:
        try:
            if update:
                entries = write_baseline(baseline, diagnosis)
                errors = "1 error" if entries == 1 else f"{entries} errors"
                notes.append(f"The baseline {baseline} was written ({errors}).")
            diagnosis = diagnosis.compared(read_baseline(baseline))
        except BaselineError as error:
            notes.append(f"{error} Which errors are new could not be examined.")
            counts = False
    diagnosis = replace(diagnosis, notes=(*diagnosis.notes, *notes))
    if json is not None:
        try:
            json.write_text(diagnosis.to_json() + "\n", encoding="utf-8")
        except OSError as error:
            note = f"{json} could not be written: {error.strerror}."
            diagnosis = replace(diagnosis, notes=(*diagnosis.notes, note))
    return diagnosis, counts and bool(diagnosis.new)


def claim_in(folder: Path) -> Callable[[str], bool]:
    """Return a claim that several processes share: the first to make a file has the Function."""
    from hashlib import sha256

    def claim(name: str) -> bool:
        try:
            (folder / sha256(name.encode()).hexdigest()).touch(exist_ok=False)
        except FileExistsError:
            return False
        except OSError:  # the folder is gone: better examined twice than not at all
            return True
        return True

    return claim
