"""Code outside PyTorch: C++ that lessons compile, GPU kernels, and stored timings."""

from autograd_course.external.building import SOURCES, BuildError, build, compiler_missing

__all__ = ["SOURCES", "BuildError", "build", "compiler_missing"]
