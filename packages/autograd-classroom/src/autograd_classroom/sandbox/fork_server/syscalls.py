"""The system calls that a child must not make. A seccomp filter refuses them.

Some of these calls allocate memory that the other limits do not count, because it belongs to the
kernel or to a file that no process maps. Other calls use parts of the kernel whose bugs have
allowed programs to escape from sandboxes. No exercise needs any of these calls. All processes that
a child starts inherit the filter.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autograd_classroom.sandbox.fork_server import kernel

_NEW_NAMESPACES = 0x7E020080  # all CLONE_NEW… flags
_SHARED_ANONYMOUS = 0x21  # MAP_SHARED and MAP_ANONYMOUS: memory that remains after unmapping


@dataclass(frozen=True)
class _Machine:
    """The numbers of the system calls on one kind of processor."""

    audit: int  # the kernel's own number for the processor
    clone: int
    clone3: int
    mmap: int
    refused: Mapping[str, int]


_ANYWHERE = {"io_uring_setup": 425, "memfd_secret": 447}
_MACHINES = {
    "x86_64": _Machine(
        0xC000003E, clone=56, clone3=435, mmap=9,
        refused=_ANYWHERE | {
            "memfd_create": 319, "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240,
            "socket": 41, "socketpair": 53, "vmsplice": 278, "add_key": 248, "request_key": 249,
            "keyctl": 250, "unshare": 272, "setns": 308, "personality": 135, "userfaultfd": 323,
            "bpf": 321, "perf_event_open": 298, "inotify_init": 253, "inotify_init1": 294,
            "fanotify_init": 300, "io_setup": 206,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7, clone=220, clone3=435, mmap=222,
        refused=_ANYWHERE | {
            "memfd_create": 279, "shmget": 194, "msgget": 186, "semget": 190, "mq_open": 180,
            "socket": 198, "socketpair": 199, "vmsplice": 75, "add_key": 217, "request_key": 218,
            "keyctl": 219, "unshare": 97, "setns": 268, "personality": 92, "userfaultfd": 282,
            "bpf": 280, "perf_event_open": 241, "inotify_init1": 26, "fanotify_init": 262,
            "io_setup": 0,
        },
    ),
}  # fmt: skip

# The filter's instructions, and the offsets of a call's number, processor and arguments.
_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _AUDIT, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_OTHER_NUMBERS = 0x40000000  # on x86_64, every call also has a second number, from here on


def available() -> bool:
    """Return whether the kernel supports filters and this module knows the call numbers."""
    return platform.machine() in _MACHINES and kernel.has_filters()


def refuse() -> None:
    """Make the kernel refuse these calls in this process and in all processes that it starts."""
    kernel.install_filter(b"".join(_program(_MACHINES[platform.machine()])))


def _program(machine: _Machine) -> Iterator[bytes]:
    yield _step(_LOAD, _AUDIT)
    yield from _unless(_IF_EQUAL, machine.audit, _KILL)
    yield _step(_LOAD, _NUMBER)
    yield from _if(_IF_AT_LEAST, _OTHER_NUMBERS, _ERROR | errno.ENOSYS)
    # If clone3 fails, the C library calls clone instead, and the filter can see the flags of clone.
    yield from _if(_IF_EQUAL, machine.clone3, _ERROR | errno.ENOSYS)
    for number in machine.refused.values():
        yield from _if(_IF_EQUAL, number, _ERROR | errno.EPERM)
    # The next two blocks each apply to one system call. Other calls skip them.
    yield _step(_IF_EQUAL, machine.clone, no=4)
    yield _step(_LOAD, _ARGUMENTS)
    yield _step(_AND, _NEW_NAMESPACES)
    yield from _unless(_IF_EQUAL, 0, _ERROR | errno.EPERM)
    yield _step(_LOAD, _NUMBER)
    yield _step(_IF_EQUAL, machine.mmap, no=4)
    yield _step(_LOAD, _ARGUMENTS + 3 * 8)
    yield _step(_AND, _SHARED_ANONYMOUS)
    yield from _if(_IF_EQUAL, _SHARED_ANONYMOUS, _ERROR | errno.EPERM)
    yield _step(_RETURN, _ALLOW)


def _if(what: int, value: int, answer: int) -> tuple[bytes, bytes]:
    return _step(what, value, no=1), _step(_RETURN, answer)


def _unless(what: int, value: int, answer: int) -> tuple[bytes, bytes]:
    return _step(what, value, yes=1), _step(_RETURN, answer)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """Return a filter instruction.

    If the condition of this instruction is true, the kernel skips the next ``yes`` instructions. If
    it is false, the kernel skips the next ``no`` instructions.
    """
    return struct.pack("HBBI", code, yes, no, value)
