"""Run a script or module as ``python`` would, up to a time limit or a number of optimizer steps.

The program sees the same ``sys.argv``, ``sys.path`` and ``__main__`` as with ``python script.py``
or ``python -m module``, and it ends in the same way.
"""

from __future__ import annotations

import io
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any

from autograd_doctor._when_imported import when_imported

_OURS = str(Path(__file__).parents[1])


class Stop(BaseException):
    """Raised in the program when it reaches its limit."""


class Terminated(BaseException):
    """Raised when the process receives SIGTERM."""


@dataclass(frozen=True)
class End:
    """How a program ended: its exit code, or the signal that must also end this process."""

    code: int = 0
    by_signal: int = 0
    note: str = ""


def run_program(
    command: Sequence[str], *, module: bool, seconds: float | None, steps: int | None
) -> End:
    """Run a program in this process and return how it ended.

    Args:
        command: The script or module, followed by its arguments.
        module: Whether the command names a module.
        seconds: The time limit, if any.
        steps: The maximum number of optimizer steps, if any.

    Returns:
        How the program ended. If an exception ended it, this function has already printed the
        exception as Python would.
    """
    try:
        with _terminable(), _at_most_seconds(seconds), _at_most_steps(steps):
            (_run_module if module else _run_file)(command)
    except Stop as stop:
        return End(note=f"The program was stopped after {stop}.")
    except Terminated:
        return End(by_signal=signal.SIGTERM)
    except SystemExit as error:
        return End(_exit_code(error.code))
    except BaseException as error:
        _show(error)
        return End(by_signal=signal.SIGINT) if isinstance(error, KeyboardInterrupt) else End(1)
    return End()


def _run_file(command: Sequence[str]) -> None:
    script = command[0]
    path = os.path.abspath(script)
    sys.argv[:] = command
    main = _fresh_main()
    if os.path.isdir(path) or not _is_source(path):
        _put_first(path)  # a folder or an archive with a __main__.py
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
        return
    _put_first(os.path.dirname(os.path.realpath(path)))
    with io.open_code(path) as file:
        source = file.read()
    main.__dict__.update(
        __file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path)
    )
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def _run_module(command: Sequence[str]) -> None:
    sys.argv[:] = ["-m", *command[1:]]
    _fresh_main()
    _put_first(os.getcwd())
    runpy._run_module_as_main(command[0])  # type: ignore[attr-defined]


def _fresh_main() -> ModuleType:
    """Replace ``__main__`` with an empty module.

    The module stays in ``sys.modules``, because the program's classes refer to it.
    """
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=sys.modules["builtins"], __annotations__={})
    sys.modules["__main__"] = main
    sys.excepthook = sys.__excepthook__  # the command line formats tracebacks differently
    return main


def _is_source(path: str) -> bool:
    import zipfile

    return not zipfile.is_zipfile(path)


def _put_first(folder: str) -> None:
    """Replace this command's folder in sys.path with the program's folder, as Python would."""
    if not sys.flags.safe_path:
        sys.path[:1] = [folder]


# --------------------------------------------------------------------------------------------------
# The end of the program.
# --------------------------------------------------------------------------------------------------


@contextmanager
def _terminable() -> Iterator[None]:
    """Convert SIGTERM to an exception, so that the doctor can still examine the recorded calls."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _at_most_seconds(seconds: float | None) -> Iterator[None]:
    """Raise :class:`Stop` in the program after this many seconds, and then again every second."""
    if seconds is None or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stop(f"{seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _at_most_steps(steps: int | None) -> Iterator[None]:
    """Raise :class:`Stop` when the program has taken this many optimizer steps."""
    if steps is None:
        yield
        return
    done = 0

    def count(*_: Any) -> None:
        nonlocal done
        done += 1
        if done >= steps:
            raise Stop("1 optimizer step" if steps == 1 else f"{steps} optimizer steps")

    with ExitStack() as stack:

        def register() -> None:
            from torch.optim.optimizer import register_optimizer_step_post_hook

            stack.callback(register_optimizer_step_post_hook(count).remove)

        stack.callback(when_imported("torch", register))
        yield


def _exit_code(code: Any) -> int:
    """Return the exit code for ``sys.exit(code)``. Print the message that Python would print."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def _show(error: BaseException) -> None:
    """Print an exception as Python would, showing only the program's own frames."""
    _without_ours(error, set())
    sys.stdout.flush()
    sys.excepthook(type(error), error, error.__traceback__)


def _without_ours(error: BaseException | None, seen: set[int]) -> None:
    """Remove the doctor's frames from the tracebacks of an exception and its causes."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    error.__traceback__ = _filtered(error.__traceback__)
    _without_ours(error.__cause__, seen)
    _without_ours(error.__context__, seen)


def _filtered(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OURS):
            kept.append(trace)
        trace = trace.tb_next
    following = None
    for one in reversed(kept):
        following = TracebackType(following, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return following


def end_by(number: Callable[[], int]) -> None:
    """Let a signal end this process after all exit handlers have run, as Python does after Ctrl-C.

    ``number`` returns the signal, or 0 for none. Call this function before the program registers
    its exit handlers, so that these run first.
    """
    import atexit

    def die() -> None:
        if signal_number := number():
            sys.stdout.flush()
            sys.stderr.flush()
            signal.signal(signal_number, signal.SIG_DFL)
            os.kill(os.getpid(), signal_number)

    atexit.register(die)
