"""The folders with the code of the course and of the doctor, which no learner wrote."""

from pathlib import Path

import autograd_doctor

COURSE = Path(__file__).parent
DOCTOR = Path(autograd_doctor.__file__).parent
OURS = (COURSE, DOCTOR)
