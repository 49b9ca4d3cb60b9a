"""The gradebook, which stores all submissions and verdicts in one SQLite file."""

from autograd_classroom.gradebook.book import Gradebook
from autograd_classroom.gradebook.opening import GradebookError
from autograd_classroom.gradebook.records import Problem, Run, Score, Settlement, Tally, Workload

__all__ = [
    "Gradebook",
    "GradebookError",
    "Problem",
    "Run",
    "Score",
    "Settlement",
    "Tally",
    "Workload",
]
