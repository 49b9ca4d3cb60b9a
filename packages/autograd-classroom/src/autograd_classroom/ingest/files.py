"""Read one student's files one by one, from a folder or from a zip file.

Zip files are unpacked in memory, not to disk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autograd_classroom.ingest.found import Found
from autograd_classroom.ingest.limits import LIMITS, Limits
from autograd_classroom.ingest.zips import unzipped

SUFFIXES = (".ipynb", ".py")
ZIP = ".zip"

# Files and folders of tools, which may be next to the answers.
_SKIPPED = {"__macosx", "__pycache__", "node_modules", "venv", "site-packages", "feedback"}


def is_skipped(name: str) -> bool:
    """Whether a file or folder with this name is hidden or belongs to a tool."""
    return name.startswith(".") or name.lower() in _SKIPPED


def is_interesting(name: str) -> bool:
    """Whether a file with this name may contain answers."""
    return not is_skipped(name) and name.lower().endswith((*SUFFIXES, ZIP))


def found(path: Path, source: str, limits: Limits = LIMITS) -> Iterator[Found]:
    """Yield the notebooks and scripts at ``path``, which can be a file, a zip or a folder.

    Links are not followed, and only regular files are opened. A file that exceeds the limits is
    listed but not read.
    """
    left_files, left_bytes = limits.files, limits.total
    for each, name in _walk(path, source, limits):
        if isinstance(each, Found):
            yield each
            continue
        for file in _opened(each, name, limits):
            left_files -= 1
            left_bytes -= len(file.data)
            if left_files < 0 or left_bytes < 0:
                yield Found(source, problem="there are too many files, or too large ones")
                return
            yield file


def _walk(path: Path, source: str, limits: Limits) -> Iterator[tuple[Path | Found, str]]:
    """Yield each file that may contain answers, in order, with its display name."""
    waiting = [(path, source, 0)]
    entries = 0
    while waiting:
        here, name, depth = waiting.pop()
        if here.is_symlink():
            yield Found(name, problem="this is a link, which is not followed"), name
        elif not here.is_dir():
            if is_interesting(here.name):
                yield here, name
        elif depth > limits.depth:
            yield Found(name, problem="the folders are nested too deep"), name
        elif (inside := _listed(here, limits.entries - entries)) is None:
            yield Found(name, problem="this folder cannot be read"), name
        else:
            entries += len(inside)
            if entries >= limits.entries:
                yield Found(source, problem=f"there are more than {entries - 1:,} files"), name
                return
            children = [child for child in inside if not is_skipped(child)]
            waiting += [(here / c, f"{name}/{printable(c)}", depth + 1) for c in children[::-1]]


def _listed(folder: Path, most: int) -> list[str] | None:
    """Return up to ``most`` names in a folder, sorted, or ``None`` if the folder is unreadable."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) >= most:
                    break
    except OSError:
        return None
    return sorted(names)


def _opened(path: Path, source: str, limits: Limits) -> Iterator[Found]:
    try:
        data, modified = _read(path, limits)
    except OSError as error:
        yield Found(source, problem=f"it cannot be read: {error.strerror or error}")
        return
    if path.suffix.lower() != ZIP:
        yield Found(source, data, modified)
        return
    for file in unzipped(data, limits, is_wanted):
        within = f"{source}/{printable(file.source)}" if file.source else source
        yield replace(file, source=within)


def is_wanted(name: str) -> bool:
    """Whether the file at a path inside a zip may contain answers."""
    parts = name.replace("\\", "/").split("/")
    folders = [part for part in parts[:-1] if part not in ("", "..")]
    return is_interesting(parts[-1]) and not any(map(is_skipped, folders))


def _read(path: Path, limits: Limits) -> tuple[bytes, float]:
    """Return a regular file's bytes and modification time. Raises OSError for a link or a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError("it is no regular file")
        if about.st_size > limits.file:
            raise OSError(f"it has more than {limits.file:,} bytes; clear its outputs")
        return file.read(limits.file), about.st_mtime


def printable(name: str) -> str:
    """Escape invalid and unprintable characters in a file name."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
