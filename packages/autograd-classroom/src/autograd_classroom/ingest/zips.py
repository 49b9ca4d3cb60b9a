"""Read a zip file in memory, entry by entry. Nothing is written to disk.

A name in a zip is used only as a label, so ``../../etc/passwd`` cannot overwrite anything. Names
that lead out of the zip are rejected nevertheless, and so are links, encrypted entries and zip
bombs. The sizes that a zip states are not trusted, so reading stops at the limit.
"""

from __future__ import annotations

import calendar
import io
import lzma
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from autograd_classroom.ingest.found import Found
from autograd_classroom.ingest.limits import Limits

_NESTING = 2  # some course sites export zips inside a zip
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)
_UNKNOWN = (NotImplementedError, RuntimeError)  # errors for an unknown compression or encryption


class _BombError(Exception):
    """Raised when an unpacked entry is larger than allowed. The message gives the limit."""


def unzipped(
    data: bytes, limits: Limits, wanted: Callable[[str], bool], nesting: int = _NESTING
) -> Iterator[Found]:
    """Yield the entries whose names satisfy ``wanted``.

    Zip files inside the zip are also unpacked.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (*_BROKEN, *_UNKNOWN) as error:
        yield Found("", problem=f"the zip is broken: {error}")
        return
    with archive:
        entries = archive.infolist()
        if len(entries) > limits.entries:
            yield Found("", problem=f"the zip has more than {limits.entries:,} entries")
            return
        left = limits.total
        for entry in entries:
            if entry.is_dir() or not wanted(entry.filename):
                continue
            file = _entry(archive, entry, limits, left)
            left -= len(file.data)
            yield from _inside(file, limits, wanted, nesting)


def _inside(
    file: Found, limits: Limits, wanted: Callable[[str], bool], nesting: int
) -> Iterator[Found]:
    if file.problem or not file.source.lower().endswith(".zip"):
        yield file
    elif nesting == 1:
        yield Found(file.source, problem="zips are nested too deep")
    else:
        for inner in unzipped(file.data, limits, wanted, nesting - 1):
            yield replace(inner, source=f"{file.source}/{inner.source}".rstrip("/"))


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limits: Limits, left: int) -> Found:
    name = entry.filename.replace("\\", "/")
    if problem := _refused(name, entry):
        return Found(name, problem=problem)
    try:
        return Found(name, _unpacked(archive, entry, limits, left), _modified(entry))
    except _BombError as bomb:
        return Found(name, problem=str(bomb))
    except (*_BROKEN, *_UNKNOWN) as error:
        return Found(name, problem=f"it cannot be unpacked: {error}")


def _refused(name: str, entry: zipfile.ZipInfo) -> str:
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "this is a link, which is not followed"
    if name.startswith("/") or ".." in name.split("/") or name[1:2] == ":":
        return "its path leads out of the zip"
    return "it is encrypted" if entry.flag_bits & 1 else ""


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limits: Limits, left: int) -> bytes:
    packed = max(entry.compress_size, 1)
    most = min(limits.file, left, max(limits.small, packed * limits.ratio))
    with archive.open(entry) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise _BombError(f"unpacked it has more than {most:,} bytes: no notebook has")
    return data


def _modified(entry: zipfile.ZipInfo) -> float:
    """Return the modification time of an entry, or 0 if the zip contains no valid time."""
    try:
        return float(calendar.timegm((*entry.date_time, 0, 0, 0)))
    except ValueError:
        return 0.0
