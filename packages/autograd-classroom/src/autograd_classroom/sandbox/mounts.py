"""The files that are visible in the sandbox: Python, PyTorch, the worker and a compiler."""

from __future__ import annotations

import os
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autograd_classroom.folders import CLASSROOM, COURSE, DOCTOR
from autograd_classroom.worker.inside import PARTS

# The sandbox's folder for our packages and their dependencies, wherever they are installed.
INSIDE = Path("/course")
# The variable that ``autograd_course.grader.limits`` reads. Importing its name from there would
# import PyTorch and thus delay the start of the sandbox.
TIME_LIMIT = "AUTOGRAD_COURSE_TIME_LIMIT"
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libx32")
_LINKS = ("/lib", "/lib64", "/lib32", "/libx32")
# The programs needed to build a C++ operator, and their paths in the sandbox. ninja calls the
# shell.
_PROGRAMS = {name: Path("/usr/bin", name) for name in ("c++", "as", "ld", "ninja")} | {
    "sh": Path("/bin/sh")
}
_HEADERS = Path("/usr/include")


@dataclass(frozen=True)
class Shown:
    """A file or folder on this machine, and its path in the sandbox, where it is read-only."""

    source: Path
    target: Path


def shown() -> tuple[Shown, ...]:
    """Return all files and folders on this machine that are visible in the sandbox."""
    return (*_of_the_system(), *_of_the_compiler(), *_of_python(), *_of_the_course())


def links() -> dict[str, str]:
    """Return the symbolic links in the sandbox's root folder, such as ``{"/lib": "usr/lib"}``."""
    return {link: os.readlink(link) for link in _LINKS if Path(link).is_symlink()}


def interpreter() -> Path:
    """Return the path of the real Python executable, even in a virtual environment."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def environment() -> Mapping[str, str]:
    """Return the environment variables that are set in the sandbox."""
    limit = {TIME_LIMIT: os.environ[TIME_LIMIT]} if TIME_LIMIT in os.environ else {}
    return limit | {
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "LOGNAME": "nobody",  # without it, torch._dynamo in PyTorch 2.11 reads /etc/passwd
        "OMP_NUM_THREADS": "1",
        "PATH": "/usr/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONPATH": ":".join(["/course", *map(str, _sites().values())]),
    }


def _of_the_system() -> Iterator[Shown]:
    folders = [*_LIBRARIES, *(link for link in _LINKS if not Path(link).is_symlink())]
    for path in map(Path, [*folders, "/etc/ld.so.cache"]):
        if path.exists():
            yield Shown(path, path)


def _of_the_compiler() -> Iterator[Shown]:
    """Yield the compiler's programs and headers, if this machine has all of them.

    A compiler does not make the sandbox less safe, because a submission's Python code could create
    machine code without one.
    """
    found = {name: shutil.which(name) for name in _PROGRAMS}
    if all(found.values()) and _HEADERS.is_dir():
        yield from (Shown(Path(p).resolve(), _PROGRAMS[name]) for name, p in found.items() if p)
        yield Shown(_HEADERS, _HEADERS)


def _of_python() -> Iterator[Shown]:
    prefix = Path(sys.base_prefix).resolve()
    # A system Python is in /usr together with many other files, so only its executable is shown.
    own = interpreter() if prefix == Path("/usr") else prefix
    yield Shown(own, own)


def hidden() -> tuple[Path, ...]:
    """Return the folders that must be hidden in the sandbox, because they contain all our code."""
    sites = [*_sites(), Path(sysconfig.get_path("purelib", vars={"base": sys.base_prefix}))]
    whole = {CLASSROOM, COURSE, *(site.resolve() / name for site in sites for name in PARTS)}
    found = (
        each.target / folder.relative_to(each.source)
        for folder in whole
        for each in shown()
        if folder.is_dir() and folder.is_relative_to(each.source)
    )
    return tuple(sorted(found))


def _of_the_course() -> Iterator[Shown]:
    yield Shown(DOCTOR, INSIDE / DOCTOR.name)
    for package in (CLASSROOM, COURSE):
        for part in PARTS[package.name]:
            yield Shown(package / part, INSIDE / package.name / part)
    for source, target in _sites().items():
        yield Shown(source, target)


def _sites() -> dict[Path, Path]:
    """Map each folder of installed packages to its path in the sandbox.

    The path ends in ``site-packages``, because the doctor recognizes libraries by this name. The
    doctor treats all other code as the author's own code.
    """
    found = [Path(folder).resolve() for folder in site.getsitepackages()]
    there = [folder for folder in found if folder.is_dir()]
    return {folder: INSIDE / str(number) / "site-packages" for number, folder in enumerate(there)}
