"""Notebook kernels for nbval, forked from one process that has already imported PyTorch.

Three dozen notebooks would import the same modules, which takes some seconds each time. A forked
kernel has these modules in ``sys.modules`` and is otherwise new. It has its own namespace, random
state, environment and folder. Learners get a kernel that imports everything itself. The build uses
this kind of kernel, and so do the tests on systems that cannot fork.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import local_provisioner

HERE = Path(__file__).parent
READY = b"ready\n"
FORKS = sys.platform == "linux"  # Windows has no fork, and macOS's libraries do not survive one


class WarmKernels:
    """The template, which is started with the first kernel. ``close`` ends it and all its kernels.

    The template and its kernels use ``python`` and ``environment``. The defaults are those of this
    process.
    """

    def __init__(
        self, python: Path | str = sys.executable, environment: Mapping[str, str] | None = None
    ) -> None:
        self._python, self._environment = python, environment
        self._folder = tempfile.TemporaryDirectory(prefix="autograd-course-kernels-")
        self._template: subprocess.Popen[bytes] | None = None

    @contextmanager
    def used(self) -> Iterator[None]:
        """Within the block, fork the kernels that jupyter_client starts."""
        usual = local_provisioner.launch_kernel
        local_provisioner.launch_kernel = self._launch
        try:
            yield
        finally:
            local_provisioner.launch_kernel = usual

    def close(self) -> None:
        """Close the template's standard input. The template then ends all kernels that it has
        forked.
        """
        if self._template is not None:
            self._template.communicate()
        self._folder.cleanup()

    def _launch(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process that stands in for the kernel, instead of ``python -m … arguments``."""
        options.pop("independent", None)
        arguments = command[command.index("-m") + 2 :]
        standing_in = [sys.executable, "-I", "-S", HERE / "standing_in.py", self._address()]
        started = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **options}
        return subprocess.Popen([*standing_in, *arguments], start_new_session=True, **started)

    def _address(self) -> str:
        address = str(Path(self._folder.name, "template"))
        if self._template is None:
            self._template = subprocess.Popen(
                [self._python, "-W", "ignore", HERE / "template.py", address],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert self._template.stdout is not None
            if self._template.stdout.readline() != READY:
                raise RuntimeError("the template of the notebooks' kernels could not be started")
        return address
