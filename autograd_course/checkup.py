"""Is everything in place? What lesson 00 shows before the course begins."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

import torch
from packaging.requirements import Requirement

_PYTHON = (3, 11)
_SHOWN = ("torch", "ipywidgets", "anywidget")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found, and the repair if it will not do."""

    what: str
    found: str
    repair: str = ""

    def __str__(self) -> str:
        line = f"{'OK' if not self.repair else 'REPAIR':8}{self.what:14}{self.found}"
        return f"{line}\n{'':8}{self.repair}" if self.repair else line


@dataclass(frozen=True, repr=False)
class Checkup:
    """All checks, shown as a table with a last line that says whether to go on."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing needs a repair."""
        return not any(check.repair for check in self.checks)

    def __repr__(self) -> str:
        last = "All set." if self.ok else "Repair what is marked, restart the kernel, run again."
        return "\n".join([*map(str, self.checks), "", last])


def checkup() -> Checkup:
    """Look at Python, the packages that the course needs, the accelerator, doctor and grader."""
    return Checkup((_python(), *_packages(), _accelerator(), _doctor(), _grader()))


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    fits = sys.version_info[:2] >= _PYTHON
    return Check("Python", found, "" if fits else "the course needs Python 3.11 or newer")


def _packages() -> Iterator[Check]:
    """Yield the packages that a learner may ask about, and every other that does not fit."""
    for line in requires("autograd-course") or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            check = _package(requirement)
            if check.repair or requirement.name in _SHOWN:
                yield check


def _package(requirement: Requirement) -> Check:
    repair = f'run  %pip install "{requirement}"  in a cell'
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        return Check(requirement.name, "not installed", repair)
    fits = requirement.specifier.contains(found, prereleases=True)
    return Check(requirement.name, found, "" if fits else repair)


def _accelerator() -> Check:
    found = torch.accelerator.is_available()
    return Check("accelerator", "found" if found else "none, and none is needed")


def _doctor() -> Check:
    from autograd_course.doctor import diagnose
    from autograd_course.functions import Square

    answers = diagnose(Square, (torch.linspace(-1, 1, 3),)).ok
    repair = "" if answers else "a correct Function was blamed: reinstall the course"
    return Check("doctor", "examines a correct Function and finds nothing wrong", repair)


def _grader() -> Check:
    from autograd_course.grader import CATALOGUE
    from autograd_course.grader.store import update

    saved = update(lambda state: state)
    return Check("grader", f"knows {len(CATALOGUE)} exercises and keeps progress", saved.note)
