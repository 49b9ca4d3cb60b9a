"""On the way out: what lesson 11 needs of packages that the rest of the course does without."""

from autograd_course.ship.extra import INSTALL, MissingExtraError, missing, require
from autograd_course.ship.onnx_files import checked, run_onnx
from autograd_course.ship.quiet import first_sentence, quiet

__all__ = [
    "INSTALL",
    "MissingExtraError",
    "checked",
    "first_sentence",
    "missing",
    "quiet",
    "require",
    "run_onnx",
]
