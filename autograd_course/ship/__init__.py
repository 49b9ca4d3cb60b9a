"""On the way out: what lesson 11 needs of packages that the rest of the course does without."""

from autograd_course.ship.extra import INSTALL, MissingExtraError, missing, require_packages
from autograd_course.ship.onnx_files import check_onnx, run_onnx
from autograd_course.ship.quiet import first_sentence, quiet

checked, require = check_onnx, require_packages  # the names that lesson 11 imported

__all__ = [
    "INSTALL",
    "MissingExtraError",
    "check_onnx",
    "checked",
    "first_sentence",
    "missing",
    "quiet",
    "require",
    "require_packages",
    "run_onnx",
]
