"""Which answers are alike beyond what the exercise makes alike: something to look at, no proof."""

from autograd_course.classroom.likeness.groups import Alike, Handed, alike
from autograd_course.classroom.likeness.prints import fingerprints
from autograd_course.classroom.likeness.sides import Line, side_by_side

__all__ = ["Alike", "Handed", "Line", "alike", "fingerprints", "side_by_side"]
