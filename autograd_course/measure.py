"""Memory measures under the name that the lessons use; see :mod:`autograd_doctor.memory`."""

from autograd_doctor.memory import *  # noqa: F403
from autograd_doctor.memory import __all__  # noqa: F401
