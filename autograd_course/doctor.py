"""``diagnose`` and its five steps under the name that the lessons use; :mod:`autograd_doctor`."""

from autograd_doctor import *  # noqa: F403
from autograd_doctor import __all__  # noqa: F401
