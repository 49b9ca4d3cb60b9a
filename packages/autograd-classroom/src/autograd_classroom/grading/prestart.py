"""Start the sandbox early, so that it gets ready while this process imports the course.

This helps only if this module and its imports do not import PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from autograd_classroom.sandbox import NoSandboxError, choose
from autograd_classroom.sandbox.template import Template


@contextmanager
def prestart(*, trust: bool) -> Iterator[Template | None]:
    """Start the sandbox template that all workers share. Do not wait for it to be ready.

    Yield ``None`` if this machine has no sandbox, or if its sandbox does not isolate submissions
    from each other.
    """
    try:
        backend = choose(trust=trust)
    except NoSandboxError:
        yield None
        return
    if not backend.separates:
        yield None
        return
    with closing(Template(backend)) as template:
        yield template
