"""Execute a notebook so that its outputs depend only on its text."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import zmq
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets.config import Config

from tools.errors import AuthoringError
from tools.outputs import normalize

RAISES = "raises-exception"
CELL_TIMEOUT_SECONDS = 120
_UNKNOWN = re.compile(r'^\s*there is no exercise "(?P<id>.*?)"', re.IGNORECASE | re.MULTILINE)

# The kernel encrypts its messages if it can. Otherwise, it would print a warning to the terminal.
_QUIET = Config(KernelManager={"transport_encryption": "auto" if zmq.has("curve") else "disabled"})


def notebook_environment(scratch: Path) -> dict[str, str]:
    """Return the environment variables for building and testing notebooks.

    New files in ``scratch`` take the place of the user's own progress file and IPython profile.
    """
    return {
        "AUTOGRAD_COURSE_PROGRESS": str(scratch / "progress.json"),
        "IPYTHONDIR": str(scratch / "ipython"),
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        # Inductor trusts the CPU's flags instead of compiling a program to test vector
        # instructions.
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
    }


def execute(notebook: NotebookNode, path: Path) -> None:
    """Run ``notebook`` on the CPU, and add its normalized outputs to it.

    ``path`` is the path of its file.

    Raises AuthoringError if a cell raises an error, hangs or kills the kernel. Also raises
    AuthoringError if a cell with the tag ``raises-exception`` does not raise an error, or if the
    grader does not know an exercise.
    """
    metadata = notebook.metadata.copy()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            _client(notebook, path.parent).execute(env=_build_environment(Path(scratch)))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise AuthoringError(path, 1, f"does not run: {error}", "repair that cell") from None
    notebook.metadata = metadata  # the client has added the exact Python version
    normalize(notebook)
    _refuse_silent(notebook, path)
    _refuse_unknown(notebook, path)


def _client(notebook: NotebookNode, folder: Path) -> NotebookClient:
    return NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        store_widget_state=False,
        config=_QUIET,
    )


def _build_environment(scratch: Path) -> dict[str, str]:
    """Return the environment variables for the build, which uses only the CPU, unlike the tests."""
    return {**os.environ, **notebook_environment(scratch), "CUDA_VISIBLE_DEVICES": ""}


def _refuse_silent(notebook: NotebookNode, path: Path) -> None:
    for cell in notebook.cells:
        if RAISES in cell.metadata.get("tags", ()) and not raised(cell):
            first_line = cell.source.partition("\n")[0]
            problem = f"the cell that begins {first_line!r} is tagged {RAISES} and does not raise"
            raise AuthoringError(path, 1, problem, "remove the tag, or let the cell raise")


def _refuse_unknown(notebook: NotebookNode, path: Path) -> None:
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        text = output.get("text", "") + output.get("data", {}).get("text/plain", "")
        if found := _UNKNOWN.search(text):
            problem = f"the grader does not know the exercise {found['id']!r}"
            repair = "correct the id, or run `make lab` to link the environment to this checkout"
            raise AuthoringError(path, 1, problem, repair)


def raised(cell: NotebookNode) -> bool:
    """Return whether the saved outputs of a code cell contain an error."""
    return any(output.output_type == "error" for output in cell.outputs)
