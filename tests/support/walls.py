"""The walls that untrusted code can run behind, as what a fixture is parametrized by.

``make test`` has the one that people use; ``make thorough`` repeats what holds behind it in
containers, where Docker or Podman runs any.
"""

from __future__ import annotations

import os

import pytest

from autograd_course.classroom.sandbox import Bubblewrap, Container, bubblewrap, container
from autograd_course.classroom.sandbox.backend import Backend

WALLS = ["bubblewrap", pytest.param("container", marks=pytest.mark.thorough)]


def wall(name: str) -> Backend:
    """Return a sandbox of this machine, or skip the test."""
    if name == "bubblewrap":
        if not bubblewrap.works() and not os.environ.get("CI"):
            pytest.skip("bubblewrap is not installed")
        return Bubblewrap()
    if (engine := container.engine()) is None:
        pytest.skip("neither Docker nor Podman runs a container here")
    return Container(engine)
