"""The template process, which forks a child for each submission.

Run it as ``python -m autograd_classroom.sandbox.fork_server SOCKET secluded|contained|plain``.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from functools import partial

from autograd_classroom.sandbox.fork_server import kernel, memory, syscalls
from autograd_classroom.sandbox.fork_server.control import say
from autograd_classroom.sandbox.fork_server.serving import Template, serve
from autograd_classroom.sandbox.fork_server.spawn import can_leave
from autograd_classroom.sandbox.fork_server.usage import held_by
from autograd_classroom.worker.inside import only_inside
from autograd_course.shell.importing import importing


def main(meeting: str, how: str) -> None:
    """Import the modules that submissions need, then start a child for each submission.

    ``how`` specifies how a child is isolated: by its own namespaces (``secluded``), by a container
    (``contained``), or not at all (``plain``).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started the template ends it
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.connect(meeting)
    if how == "secluded" and not can_leave():
        sys.exit("this machine does not let an answer have its own namespaces.")
    only_inside()
    with importing():
        from autograd_classroom.worker.main_loop import serve_child
        from autograd_classroom.worker.warming import import_slow, warm

        integrity = warm()
    memory.compact()

    def prepare() -> None:
        with importing():
            import_slow()
        memory.compact()

    if how != "secluded":  # here, submissions run as the same user as the template
        kernel.cannot_be_traced()
    say(control, {"ready": True})
    template = Template(
        partial(serve_child, integrity=integrity),
        prepare,
        secluded=how == "secluded",
        filtered=how != "plain" and syscalls.available(),
        held=held_by(os.getpid()),
    )
    serve(control, template)


if __name__ == "__main__":
    main(*sys.argv[1:3])
