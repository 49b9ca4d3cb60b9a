"""Compile C++ while a lesson runs, and map compiler errors to lines in the author's source."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from platformdirs import user_cache_path

from autograd_course.errors import CourseError

_INSTALL = {
    "linux": "on Debian and Ubuntu: apt install g++",
    "darwin": "xcode-select --install",
    "win32": "the Build Tools for Visual Studio, and start from their command prompt",
}


def compiler_missing() -> str | None:
    """Return a sentence that names a missing build tool, or ``None`` if no tool is missing."""
    path = with_tools()["PATH"]
    if not shutil.which(compiler(), path=path):
        how = _INSTALL.get(sys.platform, "your system's C++ compiler")
        return (
            f"There is no C++ compiler here ('{compiler()}' is not found). Install one ({how}), "
            "or name yours in the environment variable CXX."
        )
    if not shutil.which("ninja", path=path):
        return "There is no ninja here. It calls the compiler: pip install ninja."
    return None


def compiler() -> str:
    """Return the C++ compiler: the value of ``CXX``, or else the system's compiler."""
    usual = "cl" if sys.platform == "win32" else "c++"
    return (shlex.split(os.environ.get("CXX", "")) or [usual])[0]


def with_tools() -> dict[str, str]:
    """Return the environment variables, with Python's scripts folder in ``PATH``.

    Without this folder in ``PATH``, a notebook's kernel finds ninja only if the user has activated
    the virtual environment.
    """
    path = os.pathsep.join([os.environ.get("PATH", ""), sysconfig.get_path("scripts")])
    return os.environ | {"PATH": path}


# GCC, Clang: f.cpp:7:12: error: …   MSVC: f.cpp(7): error C2065: …   nvcc: f.cu(7): error: …
_ERROR = re.compile(
    r"^(?P<file>.+?)[:(](?P<line>\d+)(?::\d+|\))?\s?:(?: fatal)? error(?: C\d+)?: (?P<what>.+)$"
)
_FROM_HERE = re.compile(
    r"^(?P<file>.+?)[:(](?P<line>\d+)[:)].*\b(?:required from|in instantiation of)"
)
# GCC and Clang print these lines before an error in a header.
_INCLUDED = re.compile(r"^(?:In file included|\s+)\s*from (?P<file>.+?):(?P<line>\d+)[:,]")
# PyTorch's headers print this message if the stable interface, for which we compile, lacks them.
_UNSTABLE = "TORCH_TARGET_VERSION is defined"
_STABLE = (
    "`build` compiles for PyTorch's stable interface. Include the headers under torch/csrc/stable, "
    "as the lesson's source does, in place of this one"
)
# PyTorch 2.11 prints this message, skips the operator and continues. Later versions abort the
# process.
REFUSED = "Exception in aoti_torch"
_UNDEFINED = re.compile(r"undefined (?:symbol: |reference to [`'])(?P<name>[^'\s]+)")


class BuildError(CourseError, RuntimeError):
    """Raised if no C++ compiler is installed, or if the source does not compile.

    ``message`` describes the problem in one line. ``line`` is the line of the author's source that
    caused the error, or ``None``. ``log`` is the complete output of the compiler.
    """

    def __init__(
        self, message: str, line: int | None = None, shown: str = "", log: str = ""
    ) -> None:
        super().__init__(shown or message)
        self.message, self.line, self.log = message, line, log


def explained(log: str, sources: list[Path]) -> BuildError:
    """Return a :class:`BuildError` that explains the ``log`` of a failed build.

    If the error is in a header, the result points to the line of ``sources`` that instantiates the
    header's template, or else to the line that includes the header.
    """
    found = _first_error(log.splitlines(), {str(path): path for path in sources})
    if found is None:
        return _after_compiling(log)
    path, line, what = found
    if path is None:
        return BuildError(f"The C++ does not compile: {what}", log=log)
    shown = f"The C++ does not compile: {path.name}, line {line}: {what}"
    text = path.read_text(encoding="utf-8").splitlines()
    if 0 < line <= len(text):
        shown += f"\n    {text[line - 1].strip()}"
    return BuildError(what, line, shown, log)


def _first_error(lines: list[str], own: dict[str, Path]) -> tuple[Path | None, int, str] | None:
    """Return the first error, and the place in the author's ``own`` files that leads to it.

    The file is ``None`` if the log names no such place.
    """
    led_here: tuple[Path, int] | None = None
    included: tuple[Path, int] | None = None
    elsewhere: str | None = None
    for text in lines:
        if (here := _FROM_HERE.match(text)) and here["file"] in own:
            led_here = own[here["file"]], int(here["line"])
        if (here := _INCLUDED.match(text)) and here["file"] in own and elsewhere is None:
            included = own[here["file"]], int(here["line"])
        if not (error := _ERROR.match(text)):
            continue
        if error["file"] in own and elsewhere is None:
            return own[error["file"]], int(error["line"]), error["what"]
        if elsewhere is None and _UNSTABLE in error["what"]:
            return *(included or (None, 0)), _STABLE
        elsewhere = elsewhere or error["what"]
        if led_here:
            break
    return (*(led_here or included or (None, 0)), elsewhere) if elsewhere else None


def _after_compiling(log: str) -> BuildError:
    if undefined := _UNDEFINED.search(log):
        what = f"The C++ uses a function that is defined nowhere: {undefined['name']}"
    elif "what():" in log or REFUSED in log:
        what = (
            "The C++ compiles, but its operators cannot be registered: look at the schemas in "
            "m.def and at the names in m.impl"
        )
    else:
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        last = lines[-1].rstrip(".") if lines else "the compiler said nothing"
        what = f"The C++ cannot be built: {last}"
    return BuildError(what, log=log)


SOURCES = Path(__file__).parent / "sources"  # the folder with the operators that lesson 14 builds
VARIABLE = "AUTOGRAD_COURSE_BUILDS"
WAIT_SECONDS = 300.0  # how long to wait while another process builds the same source

# The stable ABI of torch 2.11. Code built for it runs on every later version, and its headers
# compile in two or three seconds. `torch/extension.h` takes most of a minute.
_FLAGS = ["/O2" if sys.platform == "win32" else "-O2", "-DTORCH_TARGET_VERSION=0x020b000000000000"]

_CHILD = str(Path(__file__).with_name("child.py"))
_SUFFIX = ".pyd" if sys.platform == "win32" else ".so"

_loaded: set[str] = set()


def build(*sources: str | Path, name: str = "extension") -> Any:
    """Compile and load C++ or CUDA code, and return the namespace of its operators.

    The source code registers its operators under ``TORCH_EXTENSION_NAME``::

        STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) { m.def("f(Tensor x) -> Tensor"); }
        STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, m) { m.impl("f", TORCH_BOX(&f)); }

    If you edit the source and build it again, ``build`` returns a new namespace, because a process
    cannot register the same operator twice. ``build`` caches the result in a folder named after a
    hash of the sources, the PyTorch version, the compiler and the machine. To use a different cache
    folder, set the environment variable ``AUTOGRAD_COURSE_BUILDS``. Two processes never build the
    same source at the same time.
    Source: ``torch.utils.cpp_extension.load``.

    Args:
        sources: Paths of ``.cpp`` or ``.cu`` files, or C++ code as a string. The course's own files
            are in the folder ``SOURCES``.
        name: The prefix of the namespace's name.

    Returns:
        An object whose attribute ``f`` is the operator ``f``.

    Raises:
        BuildError: The machine has no compiler, or the source does not compile. After a compilation
            error, the attribute ``line`` is the line with the error.

    Example:
        >>> kernel = build(SOURCES / "decayed_sum.cpp")  # doctest: +SKIP
        >>> kernel.decayed_sum(torch.ones(3), 0.5, False)  # doctest: +SKIP
        tensor([1.0000, 1.5000, 1.7500])
    """
    texts = [_as_file(source) for source in sources]
    key = f"{name}_{_digest(texts)}"
    if key not in _loaded:
        _load(key, texts)
        _loaded.add(key)
    return getattr(torch.ops, key)


def is_built(operation: Any) -> bool:
    """Return whether :func:`build` has loaded an operation."""
    return getattr(operation, "namespace", "") in _loaded


def _as_file(source: str | Path) -> tuple[str, str]:
    """Return the file name and the text of a source."""
    if isinstance(source, Path):
        return source.name, source.read_text(encoding="utf-8")
    return "source.cpp", source


def _digest(texts: list[tuple[str, str]]) -> str:
    machine = sys.platform, platform.machine(), compiler()
    facts = *machine, torch.__version__, str(torch.version.cuda), *_FLAGS
    said = "\0".join([*facts, *(part for text in texts for part in text)])
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _load(key: str, texts: list[tuple[str, str]]) -> None:
    folder = _builds() / key
    folder.mkdir(parents=True, exist_ok=True)
    # The operating system releases this lock when the process that holds it ends.
    with FileLock(folder.with_suffix(".lock"), timeout=WAIT_SECONDS):
        finished = folder / "finished"
        if not finished.exists():
            _compile(key, folder, texts)
            finished.touch()
        torch.ops.load_library(str(folder / f"{key}{_SUFFIX}"))


def _builds() -> Path:
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else user_cache_path("autograd-course") / "builds"


def _compile(key: str, folder: Path, texts: list[tuple[str, str]]) -> None:
    """Compile the sources into ``folder`` and check that the result can be loaded."""
    if (missing := compiler_missing()) is not None:
        raise BuildError(missing)
    paths = [folder / name for name, _ in texts]
    for path, (_, text) in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    # A killed build leaves this lock file behind, and PyTorch would wait forever for its removal.
    (folder / "lock").unlink(missing_ok=True)
    arguments = {
        "name": key,
        "sources": [str(path) for path in paths],
        "extra_cflags": _FLAGS,
        "extra_cuda_cflags": [*_FLAGS, "-DUSE_CUDA"],
        "build_directory": str(folder),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", _CHILD, json.dumps(arguments)],
        env=with_tools(),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    if done.returncode or REFUSED in done.stderr:
        raise explained(done.stdout + done.stderr, paths)
