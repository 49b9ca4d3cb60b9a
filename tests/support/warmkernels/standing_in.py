"""Stand for a forked kernel: pass signals on to it, end as it ends.

``python -I -S standing_in.py address arguments…``: one for each kernel, so it imports little.
If this process is killed, its connection closes, at which the template kills the kernel.
"""

import json
import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX) as template:
    template.connect(sys.argv[1])
    asked = {"arguments": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}
    template.sendall(json.dumps(asked).encode() + b"\n")
    lines = template.makefile()
    kernel = int(lines.readline())
    for passed_on in (signal.SIGINT, signal.SIGTERM):
        signal.signal(passed_on, lambda number, frame: os.kill(kernel, number))
    sys.exit(int(lines.readline() or 1))
