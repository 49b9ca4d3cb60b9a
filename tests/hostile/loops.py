"""Never come back: each answer has its time."""

from submissions import square

from hostile.making import Hostile

_STOPPED = "stopped after 1 s in your code"

LOOPS = {
    "at import": Hostile("while True: pass", "ran too long"),
    "in forward": Hostile(square("while True: pass"), _STOPPED),
    "in backward": Hostile(square(backward="while True: pass"), _STOPPED),
    "that swallows what stops it": Hostile(
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "ran too long",
    ),
    "within C, deaf to signals": Hostile(
        "import itertools\nsum(itertools.repeat(0))", "did not answer within 2 s", wall=2
    ),
    "asleep, its alarm turned off": Hostile(
        "import signal, time\nsignal.alarm(0)\nsignal.setitimer(signal.ITIMER_REAL, 0)\n"
        "signal.signal(14, signal.SIG_IGN)\ntime.sleep(100)", "did not answer within 2 s",
        "imports signal", wall=2,
    ),
}  # fmt: skip
