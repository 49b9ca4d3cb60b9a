"""From a folder of submissions to a finished gradebook; verdicts are made by workers."""

from autograd_course.classroom.grading.choosing import UnknownExercisesError, chosen
from autograd_course.classroom.grading.crew import Crew, GradingError
from autograd_course.classroom.grading.handing_in import HandedIn, hand_in
from autograd_course.classroom.grading.run import only_run, work
from autograd_course.classroom.grading.version import grader_version

__all__ = [
    "Crew", "GradingError", "HandedIn", "UnknownExercisesError", "chosen", "grader_version",
    "hand_in", "only_run", "work",
]  # fmt: skip
