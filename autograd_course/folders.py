"""The folders that contain the code of the course and the doctor, but no code of learners."""

from pathlib import Path

import autograd_doctor

COURSE = Path(__file__).parent
DOCTOR = Path(autograd_doctor.__file__).parent
OURS = (COURSE, DOCTOR)
