"""Submissions that end before the verdict. They get no points, and end only themselves."""

from submissions import square

from hostile.making import Hostile

_ENDED = "the code ended the process before it had answered"
_KILLED = "the code was stopped: .* or killed itself"

EXITS = {
    "sys.exit at import": Hostile("import sys\nsys.exit(0)", "the cell raises SystemExit"),
    "sys.exit in forward": Hostile(square("raise SystemExit(0)"), r"`forward` calls `exit\(\)`"),
    "sys.exit in backward": Hostile(
        square(backward="raise SystemExit(0)"), r"`backward` calls `exit\(\)`"
    ),
    "os._exit at import": Hostile("import os\nos._exit(0)", _ENDED, "reaches os"),
    "os._exit in forward": Hostile(square("import os; os._exit(0)"), _ENDED, "reaches os"),
    "os._exit in backward": Hostile(square(backward="import os; os._exit(0)"), _ENDED),
    "an interrupt": Hostile("raise KeyboardInterrupt", _ENDED),
    "an interrupt in forward": Hostile(square("raise KeyboardInterrupt"), _ENDED),
    "killing the parent": Hostile(
        "import os\nos.kill(os.getppid() or -1, 9)", "the cell raises ProcessLookupError",
        unsecluded=_KILLED,
    ),
    "killing the process group": Hostile(
        "import os\nos.killpg(0, 9)\nos.kill(0, 9)", "the cell defines no Square",
        unsecluded=_KILLED,
    ),
    "stopping the process group": Hostile(
        "import os\nos.killpg(0, 19)\nos._exit(0)", _ENDED, "reaches os",
        unsecluded="the code did not answer within 8 s",
    ),
    "killing all": Hostile(
        "import os\nos.kill(-1, 9)", "the cell raises ProcessLookupError", unsecluded=_KILLED
    ),
    "killing itself": Hostile("import os\nos.kill(os.getpid(), 9)\nos._exit(137)", _KILLED),
    "abort": Hostile("import os\nos.abort()", "the code crashed Python"),
    "a segfault by ctypes": Hostile(
        "import ctypes\nctypes.string_at(0)", r"crashed Python \(SIGSEGV\)", "imports ctypes"
    ),
    "a segfault in backward": Hostile(
        square(backward="import ctypes; ctypes.memset(0, 0, 9)"), r"crashed Python \(SIGSEGV\)"
    ),
    "a stack that overflows": Hostile(
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
        "took more than the 400 MiB|took too much|crashed Python", "reaches sys", wall=60,
    ),
}  # fmt: skip
