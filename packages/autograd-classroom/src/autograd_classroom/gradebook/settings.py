"""An instructor's settings for an assignment: how many points mistakes and late days cost.

The instructor writes the settings in a TOML file, and the gradebook stores them::

    [weights]             # the share of an exercise's points that a fault costs; the default is 1
    layout = 0.2          # for a family of rules
    precision = 0         # for a single rule, which takes precedence over its family

    [deadlines]           # one per lesson, with a time zone
    01 = 2026-02-01T23:59:00+01:00

    [late]
    cost = 0.1            # the share of the points that each late day costs; the default is 0
    free = 2              # late days that cost nothing, per student and over all lessons
    days = 5              # an answer that is later than this gets no points

    [extensions]          # the number of days by which a student's deadlines are later
    ann = 3
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from autograd_doctor import RULES
from autograd_doctor.formatting import listed

from autograd_classroom.gradebook.naming import near
from autograd_classroom.gradebook.opening import GradebookError
from autograd_course.index import LESSONS

_DAY = 24 * 60 * 60  # seconds
_DAYS = "a whole number of days, 0 or more"
_NO_SECONDS = re.compile(r"^[^#\n]*=\s*(\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(?![:\d])", re.MULTILINE)
FAMILIES = tuple(dict.fromkeys(rule.family for rule in RULES.values()))


class SettingsError(GradebookError):
    """Raised when the settings cannot be used. The message is a single sentence."""


class Late(NamedTuple):
    """The number of late days, how many of them are free, and the share of the points they cost."""

    days: int = 0
    free: int = 0
    cost: float = 0.0


@dataclass(frozen=True)
class Settings:
    """The settings of an assignment.

    The keys of ``weights`` are rules or families of rules. ``deadlines`` maps each lesson to a time
    in ISO format. Each late day costs the share ``cost`` of the points. A student's first ``free``
    late days cost nothing. An answer that is more than ``days`` days late gets no points. If
    ``days`` is ``None``, there is no limit. ``extensions`` maps each student to the number of days
    by which all of this student's deadlines are extended.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    deadlines: Mapping[str, str] = field(default_factory=dict)
    cost: float = 0.0
    free: int = 0
    days: int | None = None
    extensions: Mapping[str, int] = field(default_factory=dict)

    def credit(self, rules: Iterable[str]) -> float:
        """Return the share of the points that an answer keeps if it breaks these rules."""
        return max(0.0, 1 - sum(map(self._weight, rules)))

    def _weight(self, rule: str) -> float:
        family = RULES[rule].family if rule in RULES else ""
        return self.weights.get(rule, self.weights.get(family, 1.0))

    def lateness(self, handed_in: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, Late]:
        """Map each lesson that was handed in late to its late days.

        ``handed_in`` maps each lesson to the time at which the student handed it in. If the time is
        unknown, the lesson does not count as late. ``names`` are the names under which the student
        may have an extension.
        """
        extension = timedelta(days=max((self.extensions.get(name, 0) for name in names), default=0))
        found, free = {}, self.free
        for lesson, deadline in sorted(self.deadlines.items(), key=lambda item: _time(item[1])):
            try:
                after = _time(handed_in.get(lesson, "")) - _time(deadline) - extension
            except (TypeError, ValueError):  # the student handed in nothing, or the time is unknown
                continue
            late = math.ceil(after.total_seconds() / _DAY)
            if late > 0:
                used = min(late, free)
                free -= used
                too_late = self.days is not None and late > self.days
                share = min(1.0, self.cost * (late - used))
                found[lesson] = Late(late, 0, 1.0) if too_late else Late(late, used, share)
        return found

    def tables(self) -> dict[str, Mapping[str, Any]]:
        """Return the tables of a settings file with these settings."""
        late = {"cost": self.cost, "free": self.free}
        late |= {} if self.days is None else {"days": self.days}
        return {
            "weights": self.weights,
            "deadlines": self.deadlines,
            "late": late,
            "extensions": self.extensions,
        }

    def to_json(self) -> str:
        """Return the settings as JSON text."""
        return json.dumps(self.tables())

    def instead_of(self, earlier: Settings) -> str:
        """Return a sentence that names the tables in which these settings differ from earlier ones.

        Return an empty string if no table differs, or if there were no earlier settings.
        """
        if earlier in (self, _NONE):
            return ""
        before, after, did = earlier.tables(), self.tables(), []
        for name, none in _UNSET.items():
            if after[name] != before[name]:
                verb = "adds" if before[name] == none else "changes"
                did.append(f"{'removes' if after[name] == none else verb} [{name}]")
        return f"The settings file replaces all earlier settings: it {listed(did, len(did))}."

    def without_effect(self) -> str:
        """Return a sentence that names the tables that need deadlines, if there are none."""
        tables = self.tables()
        idle = [f"[{name}]" for name in ("late", "extensions") if tables[name] != _UNSET[name]]
        if self.deadlines or not idle:
            return ""
        return (
            f"Without [deadlines], {listed(idle)} {'has' if len(idle) == 1 else 'have'} no effect."
        )

    def refuse_repeated(self, owners: Mapping[str, Hashable]) -> None:
        """Raise SettingsError if several extensions are for the same student.

        ``owners`` maps names to the students on the roster.
        """
        seen: dict[Hashable, str] = {}
        for name in self.extensions:
            other = seen.setdefault(owners.get(name, name), name)
            if other != name:
                raise SettingsError(
                    f"{other} and {name} under [extensions] are the same student: keep one of them."
                )


_NONE = Settings()
_UNSET = _NONE.tables()


def from_file(path: Path) -> Settings:
    """Read a settings file. Raises SettingsError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text: save it as UTF-8.") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        if short := _NO_SECONDS.search(text):
            raise SettingsError(
                f"{path}: the time {short[1]} has no seconds: write {short[1]}:00."
            ) from None
        raise SettingsError(
            f"{path} is not a TOML file: {error}. Write 20% as 0.2, and put names with spaces in "
            "quotes."
        ) from None
    if not data:
        raise SettingsError(f"{path} is empty: write the settings into it, or leave it out.")
    try:
        return from_data(data)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def from_data(data: Mapping[str, Any]) -> Settings:
    """Validate the data and return it as settings. Raises SettingsError."""
    _known("table", data, ["weights", "deadlines", "late", "extensions"])
    return Settings(
        weights=_weights(data.get("weights", {})),
        deadlines=_deadlines(data.get("deadlines", {})),
        **_late(data.get("late", {})),
        extensions=_extensions(data.get("extensions", {})),
    )


def _deadlines(data: Any) -> dict[str, str]:
    lessons = {
        name: lesson for lesson in LESSONS for name in (lesson, lesson[:2], lesson[:2].lstrip("0"))
    }
    table = _table("deadlines", data)
    _known("lesson", table, list(lessons))
    found = {}
    for name, value in table.items():
        try:
            time = datetime.fromisoformat(value) if isinstance(value, str) else value
            if not isinstance(time, datetime) or time.tzinfo is None:
                raise ValueError
        except ValueError:
            raise SettingsError(
                f"the deadline of {name} is {value}: write a time with its zone, such as "
                "2026-02-01T23:59:00+01:00."
            ) from None
        found[lessons[name]] = time.isoformat()
    return found


def _late(data: Any) -> dict[str, Any]:
    table = _table("late", data)
    _known("setting of [late]", table, ["cost", "free", "days"])
    for name, value in table.items():
        share = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
        if not (share if name == "cost" else _is_count(value)):
            what = "a share of the points from 0 to 1" if name == "cost" else _DAYS
            raise SettingsError(f"{name} in [late] is {value!r}, and it has to be {what}.")
    return dict(table)


def _extensions(data: Any) -> dict[str, int]:
    table = _table("extensions", data)
    for name, value in table.items():
        if not _is_count(value):
            raise SettingsError(
                f"the extension of {name} is {_shown(value)}, and it has to be {_DAYS}."
            )
    return dict(table)


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _weights(data: Any) -> dict[str, float]:
    table = _table("weights", data)
    _known("rule or family of rules", table, [*FAMILIES, *RULES])
    for name, weight in table.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
            raise SettingsError(
                f"the weight of {name} is {weight!r}, and a weight is a number from 0 (the fault "
                "costs nothing) to 1 (it costs all points)."
            )
    return {name: float(weight) for name, weight in table.items()}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _table(name: str, data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise SettingsError(f"{name} is {data!r}: write a table [{name}].")
    return data


def _known(what: str, data: Mapping[str, Any], names: list[str]) -> None:
    for name in data:
        if name not in names:
            raise SettingsError(f"there is no {what} {name!r}{near(name, names)}.")
