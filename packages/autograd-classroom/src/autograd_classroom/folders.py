"""The folders that contain the code of the classroom, of the course and of ``autograd_doctor``."""

from pathlib import Path

from autograd_course.folders import COURSE, DOCTOR

__all__ = ["CLASSROOM", "COURSE", "DOCTOR", "OURS"]

CLASSROOM = Path(__file__).parent
OURS = (CLASSROOM, COURSE, DOCTOR)
