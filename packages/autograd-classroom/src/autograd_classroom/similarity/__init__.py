"""Find answers that are unusually similar to each other. Similarity does not prove copying."""

from autograd_classroom.similarity.diff import Line, side_by_side
from autograd_classroom.similarity.fingerprints import fingerprints
from autograd_classroom.similarity.groups import Alike, Handed, alike

__all__ = ["Alike", "Handed", "Line", "alike", "fingerprints", "side_by_side"]
