"""Is everything in place? What lesson 00 shows before the course begins."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

_PYTHON = (3, 11)
_SHOWN = ("torch", "ipywidgets", "anywidget")
IN_A_CELL = 'run  %pip install "{}"  in a cell'


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found, and the repair if it will not do.

    The course works without what is ``optional``; its repair says what it is needed for.
    """

    what: str
    found: str
    repair: str = ""
    optional: bool = False

    @property
    def state(self) -> str:
        """The word in front of it in a table."""
        return "OK" if not self.repair else "OPTION" if self.optional else "REPAIR"

    def __str__(self) -> str:
        line = f"{self.state:8}{self.what:14}{self.found}"
        return f"{line}\n{'':8}{self.repair}" if self.repair else line


@dataclass(frozen=True, repr=False)
class Checkup:
    """All checks, shown as a table with a last line that says whether to go on."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing needs a repair."""
        return not any(check.repair and not check.optional for check in self.checks)

    def __repr__(self) -> str:
        last = (
            "All set."
            if self.ok
            else "Do what each REPAIR says, restart the kernel, and run this cell again."
        )
        return "\n".join([*map(str, self.checks), "", last])


def checkup() -> Checkup:
    """Check that this installation can run the course.

    It looks at Python, the packages that the course needs, the accelerator, doctor and grader.

    Returns:
        A table with one line for each check. A line ``REPAIR`` is followed by what to do.

    Example:
        >>> checkup()  # doctest: +ELLIPSIS
        OK      Python        3...
        All set.
    """
    return Checkup((python(), *packages(), accelerator(), doctor(), grader()))


def python() -> Check:
    """Look at the version of Python."""
    found = ".".join(map(str, sys.version_info[:3]))
    fits = sys.version_info[:2] >= _PYTHON
    return Check("Python", found, "" if fits else "the course needs Python 3.11 or newer")


def packages(repair: str = IN_A_CELL) -> Iterator[Check]:
    """Yield the packages that a learner may ask about, and every other that does not fit.

    ``repair`` says how one is installed, with ``{}`` in the place of its name and version.
    """
    for line in requires("autograd-course") or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            check = _package(requirement, repair.format(requirement))
            if check.repair or requirement.name in _SHOWN:
                yield check


def _package(requirement: Requirement, repair: str) -> Check:
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        return Check(requirement.name, "not installed", repair)
    fits = requirement.specifier.contains(found, prereleases=True)
    return Check(requirement.name, found, "" if fits else repair)


def accelerator() -> Check:
    """Look for a GPU or the like."""
    import torch

    found = torch.accelerator.is_available()
    return Check("accelerator", "found" if found else "none, and none is needed")


def doctor() -> Check:
    """Examine a Function that is right."""
    import torch
    from autograd_doctor import diagnose

    from autograd_course.functions import Square

    answers = diagnose(Square, (torch.linspace(-1, 1, 3),)).ok
    repair = "" if answers else "it blames a correct Function: install the course again"
    return Check("doctor", "examines a correct Function and finds nothing wrong", repair)


def grader() -> Check:
    """Read the catalogue, write the progress as it is."""
    from autograd_course.grader.store import update
    from autograd_course.index import INDEX

    saved = update(lambda state: state)
    return Check("grader", f"knows {len(INDEX)} exercises and keeps progress", saved.note)
