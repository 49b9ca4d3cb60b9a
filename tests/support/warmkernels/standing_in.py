"""Stand in for a forked kernel. Pass signals on to it, and end in the same way as it ends.

``python -I -S standing_in.py address arguments…`` runs once for each kernel, so it imports little.
If this process is killed, its connection closes, and the template then kills the kernel.
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
