"""C++ and CUDA operators, built on the spot and kept: a second call, or kernel, builds nothing."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from platformdirs import user_cache_path

from autograd_course.external.compilers import compiler, compiler_missing, with_tools
from autograd_course.external.errors import REFUSED, BuildError, explained

SOURCES = Path(__file__).parent / "sources"  # of the operators that lesson 10 builds
VARIABLE = "AUTOGRAD_COURSE_BUILDS"
WAIT_SECONDS = 300.0  # for another process that builds the same

# The stable interface of torch 2.11: what is built for it runs on every later version, and its
# headers compile in two or three seconds. `torch/extension.h` takes most of a minute.
_FLAGS = ["/O2" if sys.platform == "win32" else "-O2", "-DTORCH_TARGET_VERSION=0x020b000000000000"]

_CHILD = str(Path(__file__).with_name("child.py"))
_SUFFIX = ".pyd" if sys.platform == "win32" else ".so"

_loaded: set[str] = set()


def build(*sources: str | Path, name: str = "extension") -> Any:
    """Compile C++ or CUDA, load it, and return the namespace of the operators that it registers.

    A source registers its operators under ``TORCH_EXTENSION_NAME``::

        STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) { m.def("f(Tensor x) -> Tensor"); }
        STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, m) { m.impl("f", TORCH_BOX(&f)); }

    If you edit a source and build again, you get another namespace, so that nothing is registered
    twice in one process. What was built is kept in your cache folder (``AUTOGRAD_COURSE_BUILDS``
    names another), under a hash of sources, PyTorch, compiler and machine. Two processes never
    build at once. Source: ``torch.utils.cpp_extension.load``.

    Args:
        sources: Paths of ``.cpp`` or ``.cu`` files (the folder ``SOURCES`` contains those of the
            course), or C++ as text.
        name: The first part of the namespace's name.

    Returns:
        An object whose attribute ``f`` is the operator ``f``.

    Raises:
        BuildError: There is no compiler, or the source does not compile. ``line`` is the line of
            the source.

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


def _as_file(source: str | Path) -> tuple[str, str]:
    """Return a file name and the text that belongs into it."""
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
    # Held by the operating system, so that a process that was killed holds nothing.
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
    """Compile into ``folder``, and see that the result can be loaded."""
    if (missing := compiler_missing()) is not None:
        raise BuildError(missing)
    paths = [folder / name for name, _ in texts]
    for path, (_, text) in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    (folder / "lock").unlink(missing_ok=True)  # left by a killed build: PyTorch would wait forever
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
