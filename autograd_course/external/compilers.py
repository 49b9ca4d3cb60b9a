"""Is there what a build needs: a C++ compiler, and ninja, which calls it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig

_INSTALL = {
    "linux": "on Debian and Ubuntu: apt install g++",
    "darwin": "xcode-select --install",
    "win32": "the Build Tools for Visual Studio, and start from their command prompt",
}


def compiler_missing() -> str | None:
    """Return the sentence that says what a build lacks here, or ``None`` where one can build."""
    path = with_tools()["PATH"]
    if not shutil.which(compiler(), path=path):
        how = _INSTALL.get(sys.platform, "your system's C++ compiler")
        return (
            f"There is no C++ compiler here ('{compiler()}' is not found). Install one ({how}), "
            "or name yours in the environment variable CXX."
        )
    if not shutil.which("ninja", path=path):
        return "There is no ninja here, which calls the compiler: pip install ninja."
    return None


def compiler() -> str:
    """Return the program that compiles C++: the one that ``CXX`` names, else the system's."""
    usual = "cl" if sys.platform == "win32" else "c++"
    return (shlex.split(os.environ.get("CXX", "")) or [usual])[0]


def with_tools() -> dict[str, str]:
    """Return the environment, with the programs that pip installed beside this Python on the path.

    A notebook's kernel has them there only where the environment was activated: ninja is one.
    """
    path = os.pathsep.join([os.environ.get("PATH", ""), sysconfig.get_path("scripts")])
    return os.environ | {"PATH": path}
