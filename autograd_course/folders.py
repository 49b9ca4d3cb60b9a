"""The folders that contain the code of the course and of ``autograd_doctor``."""

from pathlib import Path

import autograd_doctor

COURSE = Path(__file__).parent
DOCTOR = Path(autograd_doctor.__file__).parent
OURS = (COURSE, DOCTOR)
