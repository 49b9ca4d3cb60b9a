"""Read a student's files one by one, from a folder or from a zip file.

This module reads a zip file in memory, entry by entry, and writes nothing to disk. It uses the name
of an entry only as a label, so ``../../etc/passwd`` cannot overwrite anything. It still rejects
names that point outside the zip, links, encrypted entries and zip bombs. It does not trust the
sizes stated in a zip file, so it stops reading at the limit.
"""

from __future__ import annotations

import calendar
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """The maximum number of files and their maximum sizes in bytes, per student.

    ``entries`` counts everything in the folders and zips, also in zips inside zips. ``directory``
    is the maximum size of a zip's directory, and ``ratio`` the maximum compression ratio in a zip.
    """

    files: int = 500
    entries: int = 20_000
    depth: int = 8
    file: int = 32 * MEGABYTE
    total: int = 128 * MEGABYTE
    directory: int = 4 * MEGABYTE
    ratio: int = 200
    small: int = MEGABYTE  # up to this size, any ratio is allowed: empty lines compress well


LIMITS = Limits()


class _TooMuchError(Exception):
    """Raised when a student handed in more than allowed. The message is a single sentence."""


class Left:
    """How many more files, entries and bytes of one student the grader reads.

    One object counts all folders and zips of the student.
    """

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.limits = limits
        self.files, self.entries, self.total = limits.files, limits.entries, limits.total

    def take(self, *, files: int = 0, entries: int = 0, size: int = 0) -> None:
        """Count what has been read. Raises _TooMuchError if a limit is exceeded."""
        self.files -= files
        self.entries -= entries
        self.total -= size
        if self.entries < 0:
            most = f"{self.limits.entries:,} entries"
            raise _TooMuchError(f"the folders and zip files have more than {most} in total")
        if self.files < 0 or self.total < 0:
            raise _TooMuchError("there are too many files, or too large ones")


@dataclass(frozen=True)
class Found:
    """A file with its display path, its modification time, and either its bytes or a problem.

    The path of an entry in a zip is relative to the zip until the caller prepends the zip's path.
    ``received`` is the modification time of the file in the instructor's folder. For an entry in a
    zip, it is the time of the zip, because students choose the times of the entries.
    """

    source: str
    data: bytes = b""
    modified: float = 0.0
    problem: str = ""
    received: float = 0.0


_NESTING = 2  # some course sites export zips inside a zip
_SHORTEST = 46  # bytes of an entry without a name in a zip's directory
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # Python unpacks others without a limit
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError)
_UNKNOWN = (NotImplementedError, RuntimeError)  # errors for an unknown version or encryption


class _BombError(Exception):
    """Raised when an unpacked entry is larger than allowed. The message gives the limit."""


def directory_size(file: IO[bytes]) -> int:
    """Return the size of a zip file's directory in bytes. ZipFile reads all of it at once."""
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]  # what ZipFile itself calls
    return int(end[zipfile._ECD_SIZE]) if end else 0  # type: ignore[attr-defined]


def unzipped(
    data: bytes, left: Left, wanted: Callable[[str], bool], nesting: int = _NESTING
) -> Iterator[Found]:
    """Yield the entries whose names satisfy ``wanted``.

    Also unpack nested zip files.
    """
    size = 0
    try:
        size = directory_size(io.BytesIO(data))
        if size > left.limits.directory:
            most = f"{left.limits.directory:,} bytes"
            yield Found("", problem=f"the zip has too many entries: its directory exceeds {most}")
            return
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (*_BROKEN, *_UNKNOWN) as error:
        left.take(entries=min(size, len(data)) // _SHORTEST)  # ZipFile may have read so many
        yield Found("", problem=f"the zip is broken: {error}")
        return
    with archive:
        left.take(entries=len(archive.infolist()))
        for entry in archive.infolist():
            if wanted(entry.filename):
                yield from _inside(_entry(archive, entry, left), left, wanted, nesting)


def _inside(
    file: Found, left: Left, wanted: Callable[[str], bool], nesting: int
) -> Iterator[Found]:
    if file.problem or not file.source.lower().endswith(".zip"):
        yield file
    elif nesting == 1:
        yield Found(file.source, problem="zips are nested too deep")
    else:
        for inner in unzipped(file.data, left, wanted, nesting - 1):
            yield replace(inner, source=f"{file.source}/{inner.source}".rstrip("/"))


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, left: Left) -> Found:
    name = entry.filename.replace("\\", "/")
    if problem := _refused(name, entry):
        return Found(name, problem=problem)
    try:
        return Found(name, _unpacked(archive, entry, left), _modified(entry))
    except _BombError as bomb:
        return Found(name, problem=str(bomb))
    except (*_BROKEN, *_UNKNOWN) as error:
        return Found(name, problem=f"it cannot be unpacked: {error}")


def _refused(name: str, entry: zipfile.ZipInfo) -> str:
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "this is a link, which is not followed"
    if name.startswith("/") or ".." in name.split("/") or name[1:2] == ":":
        return "its path leads out of the zip"
    if entry.compress_type not in _METHODS:
        return "it is compressed with an unusual method: create the zip with the usual one, deflate"
    return "it is encrypted" if entry.flag_bits & 1 else ""


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, left: Left) -> bytes:
    limits, packed = left.limits, max(entry.compress_size, 1)
    most = min(limits.file, max(limits.small, packed * limits.ratio))
    size = min(most, entry.file_size)
    left.take(size=size)  # before the entry is unpacked, because it may break on the way
    with archive.open(entry) as file:
        data = file.read(size + 1)
    if len(data) > most:
        raise _BombError(f"unpacked it has more than {most:,} bytes: no notebook has")
    return data


def _modified(entry: zipfile.ZipInfo) -> float:
    """Return the modification time of an entry, or 0 if the zip contains no valid time."""
    try:
        return float(calendar.timegm((*entry.date_time, 0, 0, 0)))
    except ValueError:
        return 0.0


SUFFIXES = (".ipynb", ".py")
ZIP = ".zip"

# Files and folders that tools may create next to the answers.
_SKIPPED = {"__macosx", "__pycache__", "node_modules", "venv", "site-packages", "feedback"}


def is_skipped(name: str) -> bool:
    """Return whether a file or folder with this name is hidden or belongs to a tool."""
    return name.startswith(".") or name.lower() in _SKIPPED


def is_interesting(name: str) -> bool:
    """Return whether a file with this name may contain answers."""
    return not is_skipped(name) and name.lower().endswith((*SUFFIXES, ZIP))


def found(path: Path, source: str, left: Left) -> Iterator[Found]:
    """Yield the notebooks and scripts at ``path``, which can be a file, a zip or a folder.

    Do not follow links, and open only regular files. If a file exceeds the limits, yield the
    problem instead of the contents. ``left`` counts all paths of one student.
    """
    try:
        for each, name in _walk(path, source, left):
            if isinstance(each, Found):
                yield each
                continue
            received = _received(each)
            for file in _opened(each, name, left):
                left.take(files=1)
                yield replace(file, received=received)
    except _TooMuchError as much:
        yield Found(source, problem=str(much))


def _received(path: Path) -> float:
    """Return the modification time of a file, or 0 if the file has disappeared."""
    try:
        return path.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def _walk(path: Path, source: str, left: Left) -> Iterator[tuple[Path | Found, str]]:
    """Yield each file that may contain answers, in order, with its display name."""
    waiting = [(path, source, 0)]
    while waiting:
        here, name, depth = waiting.pop()
        if here.is_symlink():
            yield Found(name, problem="this is a link, which is not followed"), name
        elif not here.is_dir():
            if is_interesting(here.name):
                yield here, name
        elif depth > left.limits.depth:
            yield Found(name, problem="the folders are nested too deep"), name
        elif (inside := _listed(here, left.entries + 1)) is None:
            yield Found(name, problem="this folder cannot be read"), name
        else:
            left.take(entries=len(inside))
            children = [child for child in inside if not is_skipped(child)]
            waiting += [(here / c, f"{name}/{printable(c)}", depth + 1) for c in children[::-1]]


def _listed(folder: Path, most: int) -> list[str] | None:
    """Return up to ``most`` sorted names in a folder, or ``None`` if the folder is unreadable."""
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


def _opened(path: Path, source: str, left: Left) -> Iterator[Found]:
    try:
        data, modified = _read(path, left.limits)
    except OSError as error:
        yield Found(source, problem=f"it cannot be read: {error.strerror or error}")
        return
    if path.suffix.lower() != ZIP:
        left.take(size=len(data))
        yield Found(source, data, modified)
        return
    for file in unzipped(data, left, is_wanted):
        within = f"{source}/{printable(file.source)}" if file.source else source
        yield replace(file, source=within)


def is_wanted(name: str) -> bool:
    """Return whether the file at this path inside a zip may contain answers."""
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
