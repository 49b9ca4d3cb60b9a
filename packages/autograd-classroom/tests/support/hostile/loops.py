"""Submissions that never return. Each answer has a time limit."""

from submissions import FORWARD, square

from hostile.making import FORBIDDEN, Hostile

_STOPPED = "stopped after 1 s in your code"
_DEAF = "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, {14})\nlast = 0.0\n"
_NOW_AND_THEN = """global last
if time.monotonic() - last > 0.01: time.sleep(4)
last = time.monotonic()
"""

LOOPS = {
    "at import": Hostile("while True: pass", "the cell itself was stopped"),
    "in forward": Hostile(square("while True: pass"), _STOPPED),
    "in backward": Hostile(square(backward="while True: pass"), _STOPPED),
    "that swallows what stops it": Hostile(
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "the cell itself was stopped",
    ),
    "within C, ignore_sigint to signals": Hostile(
        "import itertools\nsum(itertools.repeat(0))", "did not answer within 2 s", wall=2
    ),
    "asleep, its alarm turned off": Hostile(
        "import signal, time\nsignal.alarm(0)\nsignal.setitimer(signal.ITIMER_REAL, 0)\n"
        "signal.signal(14, signal.SIG_IGN)\ntime.sleep(100)", "did not answer within 2 s",
        "imports signal", wall=2,
    ),
    "asleep in float32, and ignore_sigint to signals": Hostile(
        square(
            "global last\nif x.dtype is torch.float32 and not last: last = time.sleep(5) or 1.0\n"
            + FORWARD, before=_DEAF
        ),
        FORBIDDEN, "imports signal", wall=60,
    ),
    "asleep for a while at each question, and ignore_sigint to signals": Hostile(
        square(_NOW_AND_THEN + FORWARD, before=_DEAF),
        "its answers took more than 9 s together", "imports signal", wall=60, whole=9,
    ),
}  # fmt: skip
