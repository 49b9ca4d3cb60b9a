"""A preprocessor that grades without a kernel. It replaces nbgrader's ``Execute``.

Every nbgrader command loads the configuration, so this module must not import anything slow. If the
configuration raises an ordinary exception, nbgrader logs it and then runs submissions in a kernel.
An error must therefore stop nbgrader before it runs a submission. This module raises
``SystemExit``, because nbgrader does not catch it. The error must also occur before nbgrader writes
anything for a student. Otherwise, nbgrader would skip this student in the next run.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograd_classroom.sandbox import NoSandboxError
from traitlets import Bool, Unicode
from traitlets.config import Config, Configurable

from autograd_course.errors import CourseError

if TYPE_CHECKING:
    from nbformat import NotebookNode

# nbgrader imports these classes by name when it grades. Because of the names, JSON can represent
# the configuration, and this module does not have to import the classes.
_PREPROCESSORS = (
    f"{__name__}.Autograding",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
)
_STOPPED = "nbgrader stopped before it ran any submission"


class NotConfiguredError(CourseError):
    """Raised when nbgrader has not read ``nbgrader_config.py``. The message explains what to do."""


class Autograding(Configurable):
    """Judge the answers in a notebook.

    The answers run in a sandbox, with inputs drawn from ``seed``.
    """

    seed = Unicode().tag(config=True)
    trust = Bool(False).tag(config=True)

    def __call__(
        self, notebook: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Write the verdicts into the grader cells.

        Raises GraderFailedError if the judge cannot reach a verdict, and NotConfiguredError if the
        seed is empty.
        """
        if not self.seed:
            raise NotConfiguredError(
                "nbgrader ran no code of this submission, because it could not read "
                "nbgrader_config.py: correct the mistake that nbgrader reports in that file."
            )
        from autograd_classroom.adapters.nbgrader.verdicts import write

        write(notebook, self.seed, trust=self.trust)
        return notebook, resources


def safety_net() -> Mapping[str, Any]:
    """Return the contents of ``nbgrader_config.json``.

    If nbgrader cannot read ``nbgrader_config.py``, this file still enables the preprocessor.
    """
    return {"Autograde": {"autograde_preprocessors": list(_PREPROCESSORS)}}


def configure(c: Config, *, seed: str, trust: bool = False) -> None:
    """Configure nbgrader to judge answers in a sandbox, with inputs drawn from ``seed``.

    Args:
        c: the configuration that nbgrader reads.
        seed: the seed for all inputs, which makes verdicts reproducible.
        trust: whether to judge without a sandbox.
    """
    # Protects your own progress file if a kernel runs the notebooks.
    os.environ["AUTOGRAD_COURSE_PROGRESS"] = str(
        Path(tempfile.gettempdir(), "nbgrader-progress.json")
    )
    c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError"}
    c.Execute.timeout = 300
    c.Autograde.autograde_preprocessors = list(_PREPROCESSORS)
    c.Autograding.seed, c.Autograding.trust = seed, trust
    c.Autograde.pre_convert_hook = _ready(trust)


def _ready(trust: bool) -> Callable[..., None]:
    """Return a hook that checks for a sandbox.

    nbgrader calls the hook before it changes a student's files.
    """

    def ready(**_: Any) -> None:
        try:
            from autograd_classroom.adapters.nbgrader.verdicts import sandbox

            sandbox(trust).start()
        except NoSandboxError:
            raise SystemExit(
                f"{_STOPPED}: this machine has no sandbox. Install bubblewrap (apt install "
                "bubblewrap), or start Docker or Podman. If all code is your own, set trust=True "
                "in nbgrader_config.py."
            ) from None
        except Exception as error:
            raise SystemExit(
                f"{_STOPPED}: the sandbox does not start ({type(error).__name__}: {error})."
            ) from None

    return ready
