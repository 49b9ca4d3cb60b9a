"""A machine as Colab lends it: its versions, its working folder, and nothing of the course yet.

``make build/colab/.installed`` makes an environment that has those versions before the installed
ones, and does not hold the course. What is Colab's own is in ``stubs``; nothing is fetched.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from repository import ROOT
from traitlets.config import Config
from warmkernels import WarmKernels

from autograd_course.ship import PACKAGES
from colab.notebooks import setup_cell
from tools.execution import CELL_TIMEOUT_SECONDS, notebook_environment

PYTHON = ROOT / "build" / "colab" / "bin" / "python"
STUBS = Path(__file__).parent / "stubs"

# Kernels on Colab have that package imported, by which the setup cell knows where it is. What an
# extra of the course brings is not there before the extra was asked for.
AT_START = """\
import os, sys
import google.colab
sys.modules |= dict.fromkeys(os.environ["COLAB_LACKS"].split())
"""

# That version of ipykernel knows no encrypted connections, and would never answer.
PLAIN = Config(KernelManager={"transport_encryption": "disabled"})


class Machine:
    """One that was just started, in ``folder``; ``close`` ends its kernels."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.content, self.site = folder, folder / "content", folder / "site"
        self.content.mkdir(parents=True)
        startup = folder / "ipython" / "profile_default" / "startup"
        startup.mkdir(parents=True)
        (startup / "colab.py").write_text(AT_START)
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            **notebook_environment(folder),
            "PYTHONPATH": os.pathsep.join(map(str, (STUBS, self.site))),
            "PYTHONWARNINGS": "ignore",
            "COLAB_ASKED": str(folder / "asked"),
            "COLAB_SITE": str(self.site),
            "COLAB_LACKS": " ".join(PACKAGES),
        }
        self._kernels = WarmKernels(PYTHON, self.environment)

    @property
    def asked(self) -> list[list[str]]:
        """What pip was asked for, call by call."""
        asked = self.folder / "asked"
        return [json.loads(line) for line in asked.read_text().splitlines()]

    def says(self, code: str) -> str:
        """Return what ``code`` prints in a process of its own, which must not fail."""
        command = [str(PYTHON), "-c", AT_START + code]
        ran = subprocess.run(
            command, cwd=self.content, env=self.environment, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr

    def executed(self, notebook: Path) -> NotebookNode:
        """Return the notebook, run from top to bottom in a forked kernel, without its file."""
        node = nbformat.read(notebook, as_version=4)
        client = NotebookClient(
            node,
            timeout=CELL_TIMEOUT_SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": str(self.content)}},
            store_widget_state=False,
            config=PLAIN,
        )
        with self._kernels.used():
            client.execute(env={**self.environment, **self._own(notebook)})
        return node

    def _own(self, notebook: Path) -> dict[str, str]:
        """Return what differs from notebook to notebook: each begins on a new machine."""
        progress = self.folder / notebook.parent.name / f"{notebook.stem}.json"
        progress.unlink(missing_ok=True)
        lacks = "" if "[ship]" in setup_cell(notebook) else " ".join(PACKAGES)
        return {"AUTOGRAD_COURSE_PROGRESS": str(progress), "COLAB_LACKS": lacks}

    def close(self) -> None:
        self._kernels.close()
