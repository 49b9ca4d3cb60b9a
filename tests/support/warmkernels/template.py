"""A process that has imported the modules for notebooks, and forks a kernel for each request.

``python template.py address`` serves until its standard input closes. It does not run a notebook's
code, and it starts neither threads nor CUDA, because these would not survive a fork.
"""

import json
import os
import random
import selectors
import signal
import socket
import sys
from typing import Any

sys.path.pop(0)  # the folder of the tests, which is not on a kernel's path
os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")  # as kernels do

import anywidget  # noqa: F401
import ipykernel.ipkernel  # noqa: F401
import ipywidgets  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import numpy as np
import torch._dynamo  # noqa: F401
from ipykernel.kernelapp import IPKernelApp

import autograd_course.grader
import autograd_course.visualize  # noqa: F401


class Template:
    """Knows which connection requested which kernel. Each connection represents one kernel."""

    def __init__(self, address: str) -> None:
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(address)
        self.listening.listen()
        self.ended, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self.kernels: dict[socket.socket, int] = {}
        self.waiting = selectors.DefaultSelector()
        for source in (self.listening, self.ended, sys.stdin):
            self.waiting.register(source, selectors.EVENT_READ)

    def serve(self) -> None:
        """Fork kernels and report how they end, until standard input closes. Then kill the rest."""
        while True:
            for key, _ in self.waiting.select():
                if key.fileobj is sys.stdin:
                    return self.kill()
                if key.fileobj is self.listening:
                    self.fork(self.listening.accept()[0])
                elif key.fileobj == self.ended:
                    os.read(self.ended, 1024)
                    self.bury()
                elif key.fileobj in self.kernels:  # the process that stood in for it is gone
                    os.kill(self.kernels[key.fileobj], signal.SIGKILL)
                    self.waiting.unregister(key.fileobj)

    def fork(self, asker: socket.socket) -> None:
        asked = json.loads(asker.makefile().readline())
        if (kernel := os.fork()) == 0:
            self.leave(asker)
            live(asked)
        self.kernels[asker] = kernel
        self.waiting.register(asker, selectors.EVENT_READ)
        asker.sendall(b"%d\n" % kernel)

    def leave(self, asker: socket.socket) -> None:
        """In a new kernel, release everything that belongs to the template."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.waiting.close()
        for held in (self.listening, asker, *self.kernels):
            held.close()

    def bury(self) -> None:
        for asker, kernel in list(self.kernels.items()):
            done, status = os.waitpid(kernel, os.WNOHANG)
            if done:
                del self.kernels[asker]
                if asker in self.waiting.get_map():
                    self.waiting.unregister(asker)
                    asker.sendall(b"%d\n" % abs(os.waitstatus_to_exitcode(status)))
                asker.close()

    def kill(self) -> None:
        for kernel in self.kernels.values():
            os.kill(kernel, signal.SIGKILL)


def live(asked: dict[str, Any]) -> None:
    """Run as a kernel, which keeps nothing of the template but its modules."""
    os.setsid()
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    random.seed()  # a notebook without a seed must give varying results
    np.random.seed()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    sys.argv = ["ipykernel_launcher.py", *asked["arguments"]]
    try:
        IPKernelApp.launch_instance()
    finally:
        os._exit(0)


if __name__ == "__main__":
    template = Template(sys.argv[1])
    print("ready", flush=True)
    template.serve()
