"""The installation check in lesson 00."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

_SHOWN = ("torch", "ipywidgets", "anywidget")
IN_A_CELL = 'run  %pip install "{}"  in a cell'


@dataclass(frozen=True)
class Check:
    """The result of one check. If the check found a problem, the result says how to fix it.

    The course works without ``optional`` parts. If one is missing, the result names the lessons
    that need it.
    """

    what: str
    found: str
    repair: str = ""
    optional: bool = False

    @property
    def state(self) -> str:
        """The status word at the start of this check's line in the table, such as ``OK``."""
        return "OK" if not self.repair else "OPTION" if self.optional else "REPAIR"

    def __str__(self) -> str:
        line = f"{self.state:8}{self.what:14}{self.found}"
        return f"{line}\n{'':8}{self.repair}" if self.repair else line


@dataclass(frozen=True, repr=False)
class Checkup:
    """A table of all checks. Its last line says whether everything works."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether the installation passed every check."""
        return not any(check.repair and not check.optional for check in self.checks)

    def __repr__(self) -> str:
        last = (
            "All set."
            if self.ok
            else "Follow the advice below each REPAIR line, restart the kernel, and run this cell "
            "again."
        )
        return "\n".join([*map(str, self.checks), "", last])


def checkup() -> Checkup:
    """Check that this installation can run the course.

    This function checks Python, the required packages, the accelerator, ``diagnose`` and the
    grader.

    Returns:
        A table with one line for each check. The text below a ``REPAIR`` line says how to fix the
        problem.

    Example:
        >>> checkup()  # doctest: +ELLIPSIS
        OK      Python        3...
        All set.
    """
    return Checkup((python(), *packages(), accelerator(), doctor(), grader()))


def python() -> Check:
    """Check the version of Python."""
    found = ".".join(map(str, sys.version_info[:3]))
    needed = metadata("autograd-course")["Requires-Python"]
    fits = SpecifierSet(needed).contains(found)
    oldest = needed.removeprefix(">=")
    return Check("Python", found, "" if fits else f"the course needs Python {oldest} or newer")


def packages(repair: str = IN_A_CELL) -> Iterator[Check]:
    """Yield one check per main package, and one per other package that is missing or incompatible.

    ``repair`` says how to install a package. The function replaces ``{}`` in it with the package's
    name and version range.
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
    """Look for a GPU or another accelerator."""
    import torch

    found = torch.accelerator.is_available()
    return Check("accelerator", "found" if found else "none (the course does not need one)")


def doctor() -> Check:
    """Check that ``diagnose`` finds no mistake in a correct Function."""
    import torch
    from autograd_doctor import diagnose

    from autograd_course.functions import Square

    answers = diagnose(Square, (torch.linspace(-1, 1, 3),)).ok
    repair = "" if answers else "diagnose reports a correct Function as wrong: reinstall the course"
    return Check("doctor", "examines a correct Function and finds nothing wrong", repair)


def grader() -> Check:
    """Check that the grader can read the list of exercises and write the progress file."""
    from autograd_course.index import INDEX
    from autograd_course.learner.store import update

    saved = update(lambda state: state)
    return Check("grader", f"knows {len(INDEX)} exercises and saves progress", saved.note)
