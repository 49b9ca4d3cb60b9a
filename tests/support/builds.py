"""Helpers for the tests that build C++ code."""

import os

import pytest

from autograd_course.external import compiler_missing

# In CI, a missing compiler is a failure. Elsewhere, the tests are skipped with this reason.
NEEDS_COMPILER = pytest.mark.skipif(
    compiler_missing() is not None and "CI" not in os.environ, reason=compiler_missing() or ""
)
