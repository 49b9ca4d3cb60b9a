"""The checks that ``autograd-course doctor-self`` runs and the advice that it prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from autograd_course.checkup import Check, Checkup, accelerator, doctor, grader, packages, python
from autograd_course.lab.folder import GET, LabError, course_folder
from autograd_course.shell.options import Exit

_IN_A_SHELL = 'pip install "{}"'
# The extensions that JupyterLab needs to show widgets.
_EXTENSIONS = {"ipywidgets": "@jupyter-widgets/jupyterlab-manager", "anywidget": "anywidget"}
Look = Callable[[], Check]


def examine(here: Path | None = None) -> Checkup:
    """Check everything that the course uses. If a check fails, run the other checks anyway."""
    installed = [python(), *packages(_IN_A_SHELL)]
    looks: dict[str, Look] = {
        "PyTorch": _torch,
        "accelerator": accelerator,
        "doctor": doctor,
        "grader": grader,
        "compiler": _compiler,
        "sandbox": _sandbox,
        "lesson 15": _ship,
        "course": lambda: _course(here or Path.cwd()),
    }
    looked = [_surely(what, look) for what, look in looks.items()]
    return Checkup((*installed, *_jupyter(), *looked))


def report(found: Checkup) -> str:
    """Return the table of checks. Its last line is a summary."""
    options = sum(bool(check.repair) and check.optional for check in found.checks)
    last = (
        "All set."
        if found.ok
        else "Follow the advice below each REPAIR line, then run this command again."
    )
    more = (
        " Each OPTION line is about software that only one part of the course needs."
        if options
        else ""
    )
    return "\n".join([*map(str, found.checks), "", last + more])


def document(found: Checkup) -> str:
    """Return the checks as JSON."""
    checks = [
        {"what": c.what, "found": c.found, "state": c.state.lower(), "do": c.repair}
        for c in found.checks
    ]
    return json.dumps({"ok": found.ok, "checks": checks}, indent=2, ensure_ascii=False)


def code(found: Checkup) -> Exit:
    """Return the exit code of ``autograd-course doctor-self`` for this result."""
    return Exit.DONE if found.ok else Exit.NOT_SO


def _surely(what: str, look: Look) -> Check:
    """Run a check. If the check raises an exception, report the exception as a problem."""
    try:
        return look()
    except Exception as error:
        line = str(error).strip().partition("\n")[0]
        found = f"fails: {type(error).__name__}: {line}"
        return Check(what, found, "reinstall the course in a new virtual environment")


def _torch() -> Check:
    import torch

    x = torch.ones(2, requires_grad=True)
    (x * x).sum().backward()
    right = x.grad is not None and x.grad.tolist() == [2.0, 2.0]
    found = "imports and computes gradients" if right else "computes wrong gradients"
    return Check("PyTorch", found, "" if right else 'pip install --force-reinstall "torch"')


def _jupyter() -> Iterator[Check]:
    if find_spec("jupyterlab") is None:
        repair = 'for notebooks: pip install "autograd-course[lab]"'
        yield Check("JupyterLab", "not installed", repair, optional=True)
        return
    from jupyter_core.paths import jupyter_path

    folders = [Path(path) for path in jupyter_path("labextensions")]
    for package, name in _EXTENSIONS.items():
        yield _extension(package, name, folders)


def _extension(package: str, name: str, folders: list[Path]) -> Check:
    places = [folder for folder in folders if (folder / name / "package.json").is_file()]
    if places:
        return Check(f"{package} JS", f"found in {places[0]}")
    repair = f'widgets do not work without it: pip install --force-reinstall "{package}"'
    return Check(f"{package} JS", f"JupyterLab does not find the extension {name}", repair)


def _compiler() -> Check:
    from autograd_course.external.building import compiler, compiler_missing

    missing = compiler_missing()
    found = "none" if missing else f"{compiler()}, with ninja"
    return Check("compiler", found, f"for lesson 14: {missing}" if missing else "", optional=True)


def _sandbox() -> Check:
    if not find_spec("autograd_classroom"):
        repair = "to grade a class, install the package autograd-classroom"
        return Check("sandbox", "not installed", repair, optional=True)
    sandbox = import_module("autograd_classroom.sandbox")
    try:
        backend = sandbox.choose()
        return Check("sandbox", f"{backend.name} works. {backend.gap}".strip())
    except sandbox.NoSandboxError as missing:
        return Check("sandbox", "none", f"to grade a class: {missing}", optional=True)


def _ship() -> Check:
    from autograd_course.ship import INSTALL, PACKAGES, missing

    absent = missing()
    found = f"missing: {', '.join(absent)}" if absent else ", ".join(PACKAGES)
    return Check("lesson 15", found, INSTALL if absent else "", optional=True)


def _course(here: Path) -> Check:
    try:
        return Check("course", f"found in {course_folder(here)}")
    except LabError:
        repair = f"for the notebooks, change into your copy of the course, or get one with {GET}"
        return Check("course", "not found in this folder or above it", repair, optional=True)
