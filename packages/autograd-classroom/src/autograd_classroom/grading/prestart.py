"""Start slow parts early, so that they get ready while this process imports the course.

For this reason, this module and its imports must not import PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from autograd_classroom.sandbox import NoSandboxError, choose
from autograd_classroom.sandbox.template import Template


@contextmanager
def prestart(*, trust: bool) -> Iterator[Template | None]:
    """Start the sandbox's template, which all workers share, without waiting for it.

    Yield ``None`` if there is no sandbox, or if two submissions could reach each other in it.
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
