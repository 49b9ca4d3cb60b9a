"""Objects from imports with garbage collection off are not collected until the process ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEFT = """
import os
from autograd_course.shell.importing import importing

with importing():
    class Made:
        def __del__(self, write=os.write):
            write(1, b"found")

    Made.__module__ = "{made}"
    left = Made()
    left.itself = left
    del left
"""


@pytest.mark.parametrize(("made", "said"), [("nanobind", "found"), ("another", "")])
def test_at_the_end_only_the_instances_that_nanobind_would_complain_of_are_looked_for(
    made: str, said: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LEFT.format(made=made)], capture_output=True, text=True, check=True
    )

    assert (ran.stdout, ran.stderr) == (said, "")
