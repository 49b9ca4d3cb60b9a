"""Submissions that try to leave the sandbox. There is no way out."""

from hostile.making import Hostile

_REFUSED = r"Error: \[Errno"
_LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"


def _call(call: str) -> Hostile:
    """Return a submission that makes a kernel call. If the kernel refuses it, the cell ends."""
    return Hostile(
        f"{_LIBC}if libc.{call} < 0: raise OSError(ctypes.get_errno(), 'refused')",
        _REFUSED,
        "imports ctypes",
    )


REACHING_OUT = {
    "a socket": Hostile(
        "import socket\nsocket.create_connection(('1.1.1.1', 53), 2)", _REFUSED, "imports socket"
    ),
    "a name": Hostile(
        "import socket\nsocket.getaddrinfo('example.org', 80)", "gaierror", "imports socket"
    ),
    "a package from the network": Hostile(
        "import urllib.request\nurllib.request.urlopen('http://example.org')", "URLError",
        "imports urllib",
    ),
    "the template's socket": Hostile(
        "import socket\nsocket.socket(1, 5).connect('/course/control')", _REFUSED
    ),
    "a device": Hostile("open('/dev/mine', 'w')", _REFUSED),
    "another root": Hostile("import os\nos.chroot('/tmp')", _REFUSED),
    "another user": Hostile("import os\nos.setuid(0)", _REFUSED),
    "another name for the machine": Hostile("import socket\nsocket.sethostname('x')", _REFUSED),
    "ptrace": _call("ptrace(16, 2, 0, 0)"),
    "another's memory": _call("process_vm_readv(2, None, 0, None, 0, 0) or -1"),
    "unmounting": _call("umount(b'/proc')"),
    "mounting": _call("mount(b'proc', b'/proc', b'proc', 0, 0)"),
    "another program": Hostile(
        "import subprocess\nsubprocess.run(['ls', '/'])", "FileNotFoundError", "imports subprocess"
    ),
}  # fmt: skip
