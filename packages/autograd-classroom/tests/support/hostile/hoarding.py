"""Submissions that take memory that no other limit counts. The kernel refuses the calls."""

from __future__ import annotations

from hostile.making import Hostile

_MUCH = 600  # MiB; the tests' limit is 400
_KERNEL = """\
import ctypes, mmap, os, socket, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.shmat.restype = ctypes.c_void_p
PART = 20 << 20
held = []
def called(name, *args):
    came = getattr(libc, name)(*args)
    if came is None or came in (-1, 2**64 - 1):
        raise OSError(ctypes.get_errno(), name)
    return came
def mapped(flags, file=-1):
    return called("mmap", None, ctypes.c_size_t(PART), 3, flags, file, ctypes.c_long(0))
def filled(place):
    ctypes.memset(ctypes.c_void_p(place), 1, PART)
    return ctypes.c_void_p(place)
def kept_in_part(place):
    libc.munmap(ctypes.c_void_p(filled(place).value + 4096), ctypes.c_size_t(PART - 4096))
"""


def _takes(part: str, said: str = "PermissionError", unsecluded: str = "") -> Hostile:
    """Take 20 MiB at a time until everything is taken or the kernel refuses."""
    lines = "".join(f"    {line}\n" for line in part.splitlines())
    source = f"{_KERNEL}for part in range({_MUCH // 20}):\n{lines}raise LookupError('it is taken')"
    return Hostile(source, said, "imports ctypes", unsecluded=unsecluded)


HOARDING = {
    "files in memory": _takes(
        "for _ in range(5):\n    held.append(os.memfd_create('x'))\n"
        "    os.posix_fallocate(held[-1], 0, PART // 5)"
    ),
    "shared memory of System V": _takes(
        "place = called('shmat', called('shmget', 0, ctypes.c_size_t(PART), 0o1600), None, 0)\n"
        "libc.shmdt(filled(place))"
    ),
    "semaphores of System V": _takes(
        "for _ in range(10): called('semget', 0, 32000, 0o1600)"
    ),
    "messages of System V": _takes(
        "text = ctypes.create_string_buffer(b'1', 8200)\n"
        "for _ in range(PART // 16000):\n"
        "    queue = called('msgget', 0, 0o1600)\n"
        "    for _ in range(2): libc.msgsnd(queue, text, 8000, 0o4000)"
    ),
    "shared memory that is unmapped": _takes("kept_in_part(mapped(0x21))"),
    "shared memory of a device": _takes(
        "kept_in_part(mapped(0x01, os.open('/dev/zero', os.O_RDWR)))", r"OSError: \[Errno 19\]",
        unsecluded="it is taken",  # the container's own limit counts it
    ),
    "sockets": _takes(
        "for _ in range(48):\n    pair = socket.socketpair()\n    held.extend(pair)\n"
        "    for end in pair:\n"
        "        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)\n"
        "        end.setblocking(False)\n"
        "        try:\n            while True: end.send(bytes(1 << 16))\n"
        "        except BlockingIOError: pass"
    ),
    "large pages in pipes": _takes(
        "place = mapped(0x22)\nlibc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(PART), 14)\n"
        "filled(place)\nheld.extend(os.pipe())\n"
        "for page in range(place, place + PART, 2 << 20):\n"
        "    called('vmsplice', held[-1], (ctypes.c_uint64 * 2)(page, 4096), 1, 0)\n"
        "libc.munmap(ctypes.c_void_p(place), ctypes.c_size_t(PART))"
    ),
    "keys": _takes(
        "for k in range(100):\n    name = b'%d-%d' % (part, k)\n"
        "    called('syscall', 248, b'user', name, bytes(100), 100, -2)"
    ),
    "io_uring": _takes("held.append(called('syscall', 425, 8, ctypes.create_string_buffer(200)))"),
    "events of files": _takes("held.append(called('inotify_init1', 0))"),
    "a queue of reads": _takes(
        "called('syscall', 206, 60000, ctypes.byref(ctypes.c_uint64(0)))"
    ),
    "a user namespace": _takes("called('unshare', 0x10020000)\nbreak"),
    "a process in a user namespace": _takes(
        "called('syscall', 56, 0x10000011, 0, 0, 0, 0) or os._exit(0)\nbreak"
    ),
    "another personality": _takes("called('personality', 0x0040000)"),
    "the calls under their other numbers": _takes(
        "called('syscall', 0x40000000 + 319, b'x', 0)", r"OSError: \[Errno 38\]"
    ),
}  # fmt: skip
