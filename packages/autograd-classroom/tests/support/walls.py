"""The sandboxes in which untrusted code can run, as parameters for a fixture.

``make test`` uses the sandbox that people use. ``make thorough`` repeats the same tests in
containers, if Docker or Podman works here.
"""

from __future__ import annotations

import os

import pytest
from autograd_classroom.sandbox import Bubblewrap, Container, bubblewrap, container
from autograd_classroom.sandbox.backend import Backend

WALLS = ["bubblewrap", pytest.param("container", marks=pytest.mark.thorough)]


def wall(name: str) -> Backend:
    """Return a sandbox on this machine, or skip the test."""
    if name == "bubblewrap":
        if not bubblewrap.works() and not os.environ.get("CI"):
            pytest.skip("bubblewrap is not installed")
        return Bubblewrap()
    if (engine := container.engine()) is None:
        pytest.skip("neither Docker nor Podman runs a container here")
    return Container(engine)
