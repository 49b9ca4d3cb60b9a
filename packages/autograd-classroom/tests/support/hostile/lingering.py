"""Submissions that try to keep running. They end with the verdict and leave no trace."""

from submissions import square

from hostile.making import FORBIDDEN, Hostile

LINGERING = {
    "a thread": Hostile(
        square(before="import threading, time\n"
               "threading.Thread(target=time.sleep, args=(99,)).start()"),
        FORBIDDEN, "imports threading",
    ),
    "atexit": Hostile(
        square(before="import atexit, time\natexit.register(time.sleep, 99)"),
        seen="imports atexit", status="passed",
    ),
    "a daemon": Hostile(
        square(before="import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(99)"),
        FORBIDDEN, "reaches os",
    ),
    "files": Hostile(
        square(before="for place in ('/tmp', '/dev/shm'):\n"
               "    print('here', file=open(f'{place}/left', 'w'))"),
        FORBIDDEN, "uses open",
    ),
    "a kernel's key": Hostile(
        square(before="import ctypes\nadd_key = 248\n"
               "ctypes.CDLL(None).syscall(add_key, b'user', b'left', b'x', 1, -3)"),
        FORBIDDEN, "imports ctypes",
    ),
    "a finalizer": Hostile(
        square(before="import time\nclass Late:\n    def __del__(self): time.sleep(99)\n"
               "LATE = [Late()]\nLATE.append(LATE)"),
        FORBIDDEN, "defines __del__",
    ),
}  # fmt: skip
