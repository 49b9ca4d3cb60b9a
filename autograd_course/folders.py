"""The folders that contain the course's and the doctor's code, and no code of a learner."""

from pathlib import Path

import autograd_doctor

COURSE = Path(__file__).parent
DOCTOR = Path(autograd_doctor.__file__).parent
OURS = (COURSE, DOCTOR)
