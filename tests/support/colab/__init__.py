"""A simulated Colab machine: its versions and its working folder, but without the course.

``make build/colab/.installed`` creates an environment in which Colab's versions come before the
installed ones, and which does not contain the course. Colab's own modules are in ``stubs``. Nothing
is downloaded.
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

# On Colab, kernels have imported this package, so the setup cell knows that it runs on Colab. The
# packages of a course extra are missing until the setup cell requests the extra.
AT_START = """\
import os, sys
import google.colab
sys.modules |= dict.fromkeys(os.environ["COLAB_LACKS"].split())
"""

# Colab's version of ipykernel does not support encrypted connections, and would never answer.
PLAIN = Config(KernelManager={"transport_encryption": "disabled"})


class Machine:
    """A machine that has just been started in ``folder``. ``close`` ends its kernels."""

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
        """The arguments of each call to pip, in order."""
        asked = self.folder / "asked"
        return [json.loads(line) for line in asked.read_text().splitlines()]

    def says(self, code: str) -> str:
        """Return what ``code`` prints in a separate process, which must not fail."""
        command = [str(PYTHON), "-c", AT_START + code]
        ran = subprocess.run(
            command, cwd=self.content, env=self.environment, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr

    def executed(self, notebook: Path) -> NotebookNode:
        """Run a notebook from top to bottom in a forked kernel. Return it without changing its
        file.
        """
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
        """Return the variables that differ between notebooks. Each one starts on a new machine."""
        progress = self.folder / notebook.parent.name / f"{notebook.stem}.json"
        progress.unlink(missing_ok=True)
        lacks = "" if "[ship]" in setup_cell(notebook) else " ".join(PACKAGES)
        return {"AUTOGRAD_COURSE_PROGRESS": str(progress), "COLAB_LACKS": lacks}

    def close(self) -> None:
        self._kernels.close()
