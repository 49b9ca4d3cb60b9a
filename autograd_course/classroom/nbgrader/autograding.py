"""``nbgrader autograde`` without a kernel: what stands in the place of nbgrader's ``Execute``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode


@dataclass(frozen=True)
class Autograding:
    """Judges a notebook's answers behind the wall; ``seed`` is what all inputs are drawn from."""

    seed: str
    trust: bool = False

    def __call__(
        self, notebook: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Write the verdicts into the cells that grade; raises GraderFailedError."""
        from autograd_course.classroom.nbgrader.verdicts import write  # not before it is used:
        # nbgrader reads its configuration, which makes this object, in all of its commands

        write(notebook, self.seed, trust=self.trust)
        return notebook, resources
