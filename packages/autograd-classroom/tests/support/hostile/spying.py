"""Submissions that look for things that are not theirs. They find nothing."""

from repository import ROOT

from hostile.making import Hostile

_NOT_THERE = "FileNotFoundError|NotADirectoryError"
_CLOSED = "PermissionError"  # other processes are visible but cannot be read


def _reads(path: object, unsecluded: str = "") -> Hostile:
    source = f"import os\npath = {str(path)!r}\n(os.listdir if os.path.isdir(path) else open)(path)"
    return Hostile(source, _NOT_THERE, "reaches os", unsecluded=unsecluded)


SPYING = {
    "the solutions": _reads(ROOT / "solutions" / "01_template.py"),
    "the solutions beside the package": _reads("/course/solutions"),
    "the tests": _reads(ROOT / "tests"),
    "the gradebook": _reads(ROOT / "gradebook.sqlite"),
    "the users": _reads("/etc/passwd"),
    "the parent's environment": _reads("/proc/1/environ", _CLOSED),
    "its own memory": _reads("/proc/self/mem", _CLOSED),
    "its own file descriptors": _reads("/proc/self/fd", "the cell defines no Square"),
    "its control socket": _reads("/course/control/x"),
    "the environment": Hostile("import os\nraise LookupError(sorted(os.environ))", "LookupError"),
}
