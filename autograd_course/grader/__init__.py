"""Grade answers to the course's exercises, show hints, and save the learner's progress."""

from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.exercise import Exercise
from autograd_course.grader.hints import Hint, hint
from autograd_course.grader.pipeline import grade
from autograd_course.grader.progress import Progress, progress, reset
from autograd_course.grader.result import Result

__all__ = [
    "CATALOGUE",
    "Exercise",
    "Hint",
    "Progress",
    "Result",
    "grade",
    "hint",
    "progress",
    "reset",
]
