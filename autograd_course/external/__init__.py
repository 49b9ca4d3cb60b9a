"""Code that is not PyTorch's: C++ built on the spot, GPU kernels, figures measured elsewhere."""

from autograd_course.external.building import SOURCES, build
from autograd_course.external.compilers import compiler_missing
from autograd_course.external.errors import BuildError

__all__ = ["SOURCES", "BuildError", "build", "compiler_missing"]
