"""The declarations about a project's Functions in its pyproject.toml."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from autograd_doctor._declaration import Declaration
from autograd_doctor._rules import RULES
from autograd_doctor._targets import NotUnderstoodError, load
from autograd_doctor.errors import AutogradDoctorError

_KEYS = ("surrogate", "intentional")


class DeclarationError(AutogradDoctorError):
    """Raised if a declaration contains a mistake. The message is one sentence."""


class Project:
    """The declarations in the nearest pyproject.toml.

    This class parses a declaration only when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.failure = ""  # why the declarations cannot be read, or "" if they can
        self._entries: Mapping[str, Any] = {}
        files = (place / "pyproject.toml" for place in (folder, *folder.parents))
        file = next((it for it in files if it.is_file()), None)
        if file is None:
            return
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8"))
            self._entries = table.get("tool", {}).get("autograd-doctor", {}).get("functions", {})
            if not isinstance(self._entries, dict):
                raise TypeError("functions is not a table")
        except OSError as error:
            self.failure = f"{file} could not be read: {error.strerror}."
        except (ValueError, TypeError, AttributeError) as error:
            self._entries = {}
            self.failure = f"The declarations in {file} could not be read: {error}."

    def declaration_of(self, function: str) -> Declaration | None:
        """Return the declaration of a Function, or raise :class:`DeclarationError`."""
        entry = self._entries.get(function)
        if entry is None:
            return None
        place = f"pyproject.toml declares {function}"
        if not isinstance(entry, dict):
            raise DeclarationError(f"{place}, but not as a table with surrogate or intentional.")
        if unknown := [key for key in entry if key not in _KEYS]:
            raise DeclarationError(
                f"{place} with the key {unknown[0]}, but only surrogate and "
                "intentional are allowed."
            )
        rules = entry.get("intentional", [])
        rules = [rules] if isinstance(rules, str) else rules
        for rule in rules if isinstance(rules, list) else [rules]:
            if rule not in RULES:
                close = get_close_matches(str(rule), RULES, 1)
                meant = f" Did you mean {close[0]!r}?" if close else ""
                raise DeclarationError(f"{place} with {rule!r}, which is not a rule.{meant}")
        return Declaration(self._surrogate(entry.get("surrogate"), place), tuple(rules))

    def _surrogate(self, target: Any, place: str) -> Any:
        if target is None:
            return None
        before = sys.path[:]
        try:
            found = load(str(target))
        except NotUnderstoodError as error:
            raise DeclarationError(f"{place} with an unusable surrogate: {error}") from None
        finally:
            sys.path[:] = before
        if not callable(found):
            raise DeclarationError(f"{place} with the surrogate {target}, which is not callable.")
        return found

    def unknown(self) -> list[str]:
        """Return a sentence for each declared name that is missing from an imported module."""
        sentences = []
        for name in self._entries:
            module, missing, known = _missing(name)
            if missing:
                close = get_close_matches(missing, known, 1)
                meant = f" Did you mean {module}.{close[0]}?" if close else ""
                sentences.append(
                    f"pyproject.toml declares {name}, but {module} has no {missing}.{meant}"
                )
        return sentences


def _missing(name: str) -> tuple[str, str, list[str]]:
    """Return the imported module in a dotted name, the part that it lacks, and the names in it."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:end]))
        if module is not None:
            there = hasattr(module, parts[end]) or "<locals>" in parts
            return ".".join(parts[:end]), "" if there else parts[end], dir(module)
    return "", "", []
