"""Code that is not PyTorch's: C++ built on the spot, GPU kernels, figures measured elsewhere."""

from autograd_course.external.building import SOURCES, BuildError, build, compiler_missing

__all__ = ["SOURCES", "BuildError", "build", "compiler_missing"]
