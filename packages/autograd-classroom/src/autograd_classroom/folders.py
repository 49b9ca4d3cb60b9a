"""The source folders of three packages: the classroom, the course and ``autograd_doctor``."""

from pathlib import Path

from autograd_course.folders import COURSE, DOCTOR

__all__ = ["CLASSROOM", "COURSE", "DOCTOR", "OURS"]

CLASSROOM = Path(__file__).parent
OURS = (CLASSROOM, COURSE, DOCTOR)
