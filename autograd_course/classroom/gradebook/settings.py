"""What an instructor sets for an assignment: how much a fault costs.

It is a TOML file, of which the gradebook keeps the contents::

    [weights]             # the share of an exercise's points that a fault costs, 1 if not named
    layout = 0.2          # a family of rules
    precision = 0         # a rule, which counts before its family
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autograd_doctor import RULES

from autograd_course.classroom.gradebook.naming import near
from autograd_course.classroom.gradebook.opening import GradebookError

FAMILIES = tuple(dict.fromkeys(rule.family for rule in RULES.values()))


class SettingsError(GradebookError):
    """The settings cannot be used; the message is one sentence."""


@dataclass(frozen=True)
class Settings:
    """The settings of an assignment. ``weights`` are by rule or family of rules."""

    weights: Mapping[str, float] = field(default_factory=dict)

    def credit(self, rules: Iterable[str]) -> float:
        """Return the share of the points that is left to an answer that breaks these rules."""
        return max(0.0, 1 - sum(map(self._weight, rules)))

    def _weight(self, rule: str) -> float:
        family = RULES[rule].family if rule in RULES else ""
        return self.weights.get(rule, self.weights.get(family, 1.0))

    def to_json(self) -> str:
        """Return the settings as text."""
        return json.dumps(asdict(self))


def from_file(path: Path) -> Settings:
    """Read a file of settings. Raises SettingsError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not a TOML file: {error}.") from None
    try:
        return from_data(data)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def from_data(data: Mapping[str, Any]) -> Settings:
    """Return checked settings. Raises SettingsError."""
    _known("table", data, ["weights"])
    return Settings(weights=_weights(data.get("weights", {})))


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


def _table(name: str, data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise SettingsError(f"{name} is {data!r}: write a table [{name}].")
    return data


def _known(what: str, data: Mapping[str, Any], names: list[str]) -> None:
    for name in data:
        if name not in names:
            raise SettingsError(f"there is no {what} {name!r}{near(name, names)}.")
