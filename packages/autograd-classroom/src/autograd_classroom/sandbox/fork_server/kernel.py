"""The few system calls that the sandbox needs but Python does not provide."""

from __future__ import annotations

import ctypes
import os
import platform

NEW_USER, NEW_PROCESSES, NEW_MOUNTS, NEW_IPC = 0x10000000, 0x20000000, 0x00020000, 0x08000000
_RECURSIVE, _PRIVATE = 0x4000, 0x40000
_NO_SUID, _NO_DEVICES = 0x2, 0x4
_SET_DUMPABLE, _SET_NO_NEW_PRIVILEGES, _SET_PARENT_DEATH_SIGNAL = 4, 38, 1
_GET_FILTER_MODE, _SET_FILTER_MODE, _WITH_PROGRAM = 21, 22, 2
_CAPABILITIES_3 = 0x20080522
_KEYCTL = {"x86_64": 250, "aarch64": 219}  # the system call's number on each processor
_JOIN_SESSION_KEYRING = 1
_COLLAPSE = 25

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    """A filter in the kernel's format, with the number of 8-byte instructions and their address."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def unshare(flags: int) -> None:
    """Move this process, or the children that it forks later, into new namespaces."""
    _checked("unshare", _libc.unshare(flags))


def mounts_are_private() -> None:
    """Hide all later mounts of this process from processes outside its namespace."""
    flags = ctypes.c_ulong(_RECURSIVE | _PRIVATE)
    _checked("mount", _libc.mount(b"none", b"/", None, flags, None))


def mount_memory(place: str, options: str) -> None:
    """Mount an empty in-memory file system over a folder."""
    flags = ctypes.c_ulong(_NO_SUID | _NO_DEVICES)
    done = _libc.mount(b"tmpfs", place.encode(), b"tmpfs", flags, options.encode())
    _checked(f"mount {place}", done)


def drop_capabilities() -> None:
    """Permanently give up all privileges, even in this process's own namespaces."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _checked("prctl", _libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked("capset", _libc.capset(header, none))


def has_filters() -> bool:
    """Return whether this kernel can filter the system calls of a process."""
    return bool(_libc.prctl(_GET_FILTER_MODE, 0, 0, 0, 0) >= 0)


def install_filter(program: bytes) -> None:
    """Permanently filter the system calls of this process with a seccomp program."""
    _checked("prctl", _libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    steps = ctypes.create_string_buffer(program, len(program))
    told = _Program(len(program) // 8, ctypes.addressof(steps))
    _checked("seccomp", _libc.prctl(_SET_FILTER_MODE, _WITH_PROGRAM, ctypes.byref(told), 0, 0))


def can_write_own_maps() -> None:
    """Take ownership of this process's files in ``/proc``.

    After a process changes its user, these files belong to root.
    """
    _checked("prctl", _libc.prctl(_SET_DUMPABLE, 1, 0, 0, 0))


def cannot_be_traced() -> None:
    """Prevent other processes of the same user from tracing this process and its forks."""
    _checked("prctl", _libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0))


def in_large_pages(start: int, size: int) -> bool:
    """Move memory of this process into large pages, and return whether this succeeded.

    This requires Linux 6.1 or later.
    """
    place = ctypes.c_void_p(start), ctypes.c_size_t(size)
    return bool(_libc.madvise(*place, _COLLAPSE) == 0)


def leave_keyring() -> None:
    """Replace the login session's keyring with a private one, if the kernel has keyrings."""
    if number := _KEYCTL.get(platform.machine()):
        _libc.syscall(number, _JOIN_SESSION_KEYRING, None)


def die_with_parent(signal: int) -> None:
    """Ask the kernel to send a signal to this process when its parent exits."""
    _checked("prctl", _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal, 0, 0, 0))


def _checked(call: str, returned: int) -> None:
    if returned != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
