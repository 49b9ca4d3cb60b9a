"""``nbgrader autograde`` without a kernel: the step that replaces nbgrader's ``Execute``.

nbgrader reads its configuration in all of its commands. So this module imports nothing heavy.
nbgrader only logs an exception in a configuration, and then runs submissions in a kernel. So a
fault must end nbgrader before it reaches a submission: with ``SystemExit``, which nbgrader does not
catch, and before it has written anything for a student, whom it would skip the next time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traitlets import Bool, Unicode
from traitlets.config import Config, Configurable

from autograd_course.classroom.sandbox import NoSandboxError
from autograd_course.errors import CourseError

if TYPE_CHECKING:
    from nbformat import NotebookNode

# nbgrader imports these when it grades. Names need no course to be written down, as in JSON.
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
    """nbgrader did not read ``nbgrader_config.py``; the message says what to do."""


class Autograding(Configurable):
    """Judge a notebook's answers in a sandbox. All inputs are drawn from ``seed``."""

    seed = Unicode().tag(config=True)
    trust = Bool(False).tag(config=True)

    def __call__(
        self, notebook: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Write the verdicts into the cells that grade.

        Raises GraderFailedError where a verdict cannot be made, NotConfiguredError without a seed.
        """
        if not self.seed:
            raise NotConfiguredError(
                "nbgrader ran no code of this submission, because it could not read "
                "nbgrader_config.py: correct the mistake that nbgrader reports in that file."
            )
        from autograd_course.classroom.nbgrader.verdicts import write

        write(notebook, self.seed, trust=self.trust)
        return notebook, resources


def safety_net() -> Mapping[str, Any]:
    """Return what ``nbgrader_config.json`` holds: the step, in case ``.py`` cannot be read."""
    return {"Autograde": {"autograde_preprocessors": list(_PREPROCESSORS)}}


def configure(c: Config, *, seed: str, trust: bool = False) -> None:
    """Configure nbgrader to judge answers in a sandbox, on inputs drawn from ``seed``.

    Args:
        c: the configuration that nbgrader reads.
        seed: keeps verdicts reproducible.
        trust: judge without a sandbox.
    """
    # Your own progress file stays as it is, where a kernel runs notebooks.
    os.environ["AUTOGRAD_COURSE_PROGRESS"] = str(
        Path(tempfile.gettempdir(), "nbgrader-progress.json")
    )
    c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError"}
    c.Execute.timeout = 300
    c.Autograde.autograde_preprocessors = list(_PREPROCESSORS)
    c.Autograding.seed, c.Autograding.trust = seed, trust
    c.Autograde.pre_convert_hook = _ready(trust)


def _ready(trust: bool) -> Callable[..., None]:
    """Return what nbgrader calls before it touches a student's files: is there a sandbox?"""

    def ready(**_: Any) -> None:
        try:
            from autograd_course.classroom.nbgrader.verdicts import sandbox

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
