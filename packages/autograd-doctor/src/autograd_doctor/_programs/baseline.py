"""The baseline, a file that lists a project's known errors that have not been fixed yet.

The file is sorted JSON with one entry for each Function and rule. It contains no numbers, so it
changes only when a finding appears or disappears.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from autograd_doctor.errors import AutogradDoctorError
from autograd_doctor.program import ProgramDiagnosis

VERSION = 1

Known = frozenset[tuple[str, str]]  # pairs of a Function's name and a rule


class BaselineError(AutogradDoctorError):
    """Raised if a baseline cannot be read or written. The message is one sentence."""


def read_baseline(path: Path) -> Known:
    """Return the entries of a baseline, or raise :class:`BaselineError`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            raise BaselineError(
                f"The baseline {path} has version {data['version']}, but this autograd-doctor "
                f"reads version {VERSION}."
            )
        return frozenset((str(it["function"]), str(it["rule"])) for it in data["findings"])
    except FileNotFoundError:
        raise BaselineError(
            f"The baseline {path} does not exist. Create it with --doctor-update-baseline in "
            "pytest, or with --update-baseline in autograd-doctor run."
        ) from None
    except OSError as error:
        raise BaselineError(f"The baseline {path} could not be read: {error.strerror}.") from error
    except (ValueError, TypeError, KeyError) as error:
        raise BaselineError(f"The baseline {path} is not a baseline that can be read.") from error


def why_it_fails(found: ProgramDiagnosis, baseline: Path | None) -> str:
    """Return the reason why a strict run fails, as the end of a sentence."""
    count = len(found.new)
    what = "1 error is" if count == 1 else f"{count} errors are"
    where = "the baseline" if baseline else "a baseline"
    if count:
        return f"{what} not in {where}"
    return "the examination failed" if found.broken else "the baseline could not be read"


def no_longer_found(found: ProgramDiagnosis, known: Known) -> str:
    """Return a sentence about errors in the baseline that the examined Functions no longer have."""
    examined = {row.function: row.errors for row in found.rows if row.ok is not None}
    gone = sorted(it for it in known if it[0] in examined and it[1] not in examined[it[0]])
    listed = ", ".join(f"{rule} of {function}" for function, rule in gone)
    return f"The baseline lists what this run did not find: {listed}. Update it." if gone else ""


def write_baseline(path: Path, diagnosis: ProgramDiagnosis) -> int:
    """Write the errors of a diagnosis to a baseline, and return the number of its entries.

    Entries for Functions that this run did not examine stay in the file.
    """
    found = {(row.function, rule) for row in diagnosis.rows for rule in row.errors}
    examined = {row.function for row in diagnosis.rows if row.ok is not None}
    try:
        before: Collection[tuple[str, str]] = read_baseline(path)
    except BaselineError:
        before = ()
    entries = sorted({*found, *(it for it in before if it[0] not in examined)})
    data = {
        "version": VERSION,
        "findings": [{"function": name, "rule": rule} for name, rule in entries],
    }
    try:
        path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise BaselineError(
            f"The baseline {path} could not be written: {error.strerror}."
        ) from error
    return len(entries)
