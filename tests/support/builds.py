"""What tests of C++ builds share."""

import os

import pytest

from autograd_course.external import compiler_missing

# Where CI runs, a missing compiler is a failure; elsewhere its tests are skipped, with the reason.
NEEDS_COMPILER = pytest.mark.skipif(
    compiler_missing() is not None and "CI" not in os.environ, reason=compiler_missing() or ""
)
