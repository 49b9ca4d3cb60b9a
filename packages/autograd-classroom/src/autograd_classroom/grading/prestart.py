"""Start the sandbox early, so that it gets ready while this process imports the course.

This helps only if this module and its imports do not import PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from autograd_classroom.sandbox import Bubblewrap, bubblewrap
from autograd_classroom.sandbox.template import Template


@contextmanager
def prestart(*, trust: bool) -> Iterator[Template | None]:
    """Start the sandbox template that all workers share. Do not wait for it to be ready.

    If this machine does not allow a template to run in Bubblewrap, the template ends immediately.
    Yield ``None`` without Bubblewrap, because no other sandbox isolates submissions from each
    other.
    """
    if trust or not bubblewrap.is_installed():
        yield None
        return
    with closing(Template(Bubblewrap())) as template:
        yield template
