"""Submissions that try to use up the machine. Each one gets its share and no more."""

from submissions import square

from hostile.making import FORBIDDEN, Hostile

# The signal that ends a slow cell does not reach this code.
_UNTIMED = "import os, signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\n"

BOMBS = {
    "forks": Hostile("import os\nwhile True: os.fork()", "the cell raises BlockingIOError"),
    "processes that spin": Hostile(
        "import os\nfor _ in range(20):\n    if os.fork() == 0: break\nwhile True: pass",
        "did not answer within 2 s|the cell itself was stopped", "reaches os", wall=2,
    ),
    "threads": Hostile(
        "import threading, time\nfor _ in range(1000):\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "can't start new thread", "imports threading",
    ),
    "memory at once": Hostile(
        "x = bytearray(1 << 40)", "the cell raises MemoryError.*may take 400 MiB"),
    "memory at once in a tensor": Hostile(
        square("torch.zeros(10**10)"), "can't allocate memory.*may take 400 MiB"),
    "memory by and by": Hostile("x = []\nwhile True: x.append(bytearray(1 << 20))", "[Mm]emory"),
    "memory in many processes": Hostile(
        "import os, time\nfor _ in range(10):\n    if os.fork() == 0:\n"
        "        x = bytearray(b'1') * (100 << 20)\n        time.sleep(60)\ntime.sleep(60)",
        "more than the 400 MiB of memory",
    ),
    "memory in processes whose first thread has ended": Hostile(
        "import ctypes, os, threading, time\ndef hold():\n"
        "    x = bytearray(b'1') * (200 << 20)\n    time.sleep(60)\nfor _ in range(4):\n"
        "    if os.fork() == 0:\n        threading.Thread(target=hold).start()\n"
        "        ctypes.CDLL(None).syscall(60, 0)\ntime.sleep(60)",
        "more than the 400 MiB of memory|itself was stopped", wall=60, seconds=5.0,
    ),
    "memory in other programs": Hostile(
        "import os, sys, time\ncode = 'import time; x = bytearray(b\"1\") * (90 << 20); "
        "time.sleep(60)'\n"
        "for _ in range(10):\n    if os.fork() == 0:\n"
        "        os.execv(sys.executable, ['python', '-I', '-S', '-c', code])\ntime.sleep(60)",
        "more than the 400 MiB of memory", wall=60, seconds=5.0,
    ),
    "computing in many processes": Hostile(
        f"{_UNTIMED}for _ in range(8):\n    if os.fork() == 0:\n        while True: pass\n"
        "time.sleep(60)", "computed for more than 4 s", "reaches os", wall=60,
    ),
    "computing in processes that come and go": Hostile(
        f"{_UNTIMED}signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True:\n"
        "    try: process = os.fork()\n    except OSError: continue\n    if process == 0:\n"
        "        while time.process_time() < 0.03: pass\n        os._exit(0)",
        "computed for more than 4 s|started more than 200 processes", "reaches os",
        wall=60,
    ),
    "short processes, one after the other": Hostile(
        f"{_UNTIMED}signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True:\n"
        "    try: os.fork() or os._exit(0)\n    except OSError: pass\n    time.sleep(0.001)",
        "started more than 200 processes", "reaches os", wall=60,
        unsecluded="computed for more than 4 s",  # only a namespace counts them
    ),
    "a tensor too large to send": Hostile(
        square("ctx.save_for_backward(x)\nreturn x.new_zeros(1).expand(1 << 40)"),
        "Tensor of 1,099,511,627,776 numbers",
    ),
    "100 MB of output": Hostile(
        square(before="for _ in range(100): print('x' * (1 << 20))"), status="passed"
    ),
    "100 MB on the file descriptor": Hostile(
        square(before="import os\nfor _ in range(100): os.write(1, b'x' * (1 << 20))"),
        FORBIDDEN, "reaches os",
    ),
    "100 MB of message": Hostile(
        "raise ValueError('x' * 10**8)", r"^the cell raises ValueError: x{1,2000} … \(line 1"
    ),
    "a million files": Hostile(
        "for k in range(10**6): open(f'/tmp/{k}', 'w').close()", "No space left on device",
        "uses open",  # Podman cannot limit the number of files
        unsecluded="the cell itself was stopped|No space left",
    ),
    "a large file": Hostile(
        "open('/tmp/x', 'wb', 0).write(bytes(5 << 20)) > 4 << 20 or 1 / 0", "ZeroDivisionError"
    ),
    "open files": Hostile(
        "import os\nheld = [os.dup(0) for _ in range(10**6)]", "Too many open files"
    ),
}  # fmt: skip
