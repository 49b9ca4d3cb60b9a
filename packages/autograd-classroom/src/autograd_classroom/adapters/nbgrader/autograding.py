"""Run ``nbgrader autograde`` without a kernel. This step replaces nbgrader's ``Execute``.

Every nbgrader command reads the configuration, so this module imports nothing heavy. If a
configuration raises an exception, nbgrader only logs it, and then runs submissions in a kernel. So
an error must end nbgrader before it reaches a submission. ``SystemExit`` does this, because
nbgrader does not catch it. The error must also occur before nbgrader writes anything for a student,
because nbgrader would otherwise skip this student the next time.
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

# nbgrader imports these names when it grades. JSON can store names, and storing them requires no
# import.
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
        """Write the verdicts into the grader cells.

        Raises GraderFailedError if a verdict is missing, and NotConfiguredError if there is no
        seed.
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
    """Return the contents of ``nbgrader_config.json``, which adds the step if ``.py`` is
    unreadable.
    """
    return {"Autograde": {"autograde_preprocessors": list(_PREPROCESSORS)}}


def configure(c: Config, *, seed: str, trust: bool = False) -> None:
    """Configure nbgrader to judge answers in a sandbox, on inputs drawn from ``seed``.

    Args:
        c: the configuration that nbgrader reads.
        seed: keeps verdicts reproducible.
        trust: judge without a sandbox.
    """
    # Even if a kernel runs the notebooks, your own progress file does not change.
    os.environ["AUTOGRAD_COURSE_PROGRESS"] = str(
        Path(tempfile.gettempdir(), "nbgrader-progress.json")
    )
    c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError"}
    c.Execute.timeout = 300
    c.Autograde.autograde_preprocessors = list(_PREPROCESSORS)
    c.Autograding.seed, c.Autograding.trust = seed, trust
    c.Autograde.pre_convert_hook = _ready(trust)


def _ready(trust: bool) -> Callable[..., None]:
    """Check that there is a sandbox. nbgrader calls this before it touches a student's files."""

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
