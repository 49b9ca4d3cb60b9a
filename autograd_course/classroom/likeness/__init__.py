"""Find answers that are more similar than the exercise explains. This does not prove copying."""

from autograd_course.classroom.likeness.groups import Alike, Handed, alike
from autograd_course.classroom.likeness.prints import fingerprints
from autograd_course.classroom.likeness.sides import Line, side_by_side

__all__ = ["Alike", "Handed", "Line", "alike", "fingerprints", "side_by_side"]
