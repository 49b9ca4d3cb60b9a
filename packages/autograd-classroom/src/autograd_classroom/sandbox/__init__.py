"""Sandboxes for untrusted code, which use Bubblewrap or a container."""

from __future__ import annotations

from autograd_classroom.sandbox import bubblewrap, container
from autograd_classroom.sandbox.backend import Backend, NoSandboxError
from autograd_classroom.sandbox.bubblewrap import Bubblewrap
from autograd_classroom.sandbox.container import Container
from autograd_classroom.sandbox.limits import Limits
from autograd_classroom.sandbox.trusted import Trusted

__all__ = [
    "Backend", "Bubblewrap", "Container", "Limits", "NoSandboxError", "Trusted", "choose"
]  # fmt: skip

_MISSING = (
    "there is no sandbox here to run submissions in: install bubblewrap "
    "(apt install bubblewrap), start Docker or Podman, or pass --trust if all code is your own."
)


def choose(*, trust: bool = False) -> Backend:
    """Return the best sandbox on this machine, or a plain process if ``trust`` is true.

    Raises :class:`NoSandboxError` if there is no sandbox on this machine.
    """
    if trust:
        return Trusted()
    if bubblewrap.works():
        return Bubblewrap()
    if (engine := container.engine()) is not None:
        return Container(engine)
    raise NoSandboxError(_MISSING)
