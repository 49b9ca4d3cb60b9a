"""Call the user's code with fresh copies of the inputs, and record the outcome as data."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function, Variable

from autograd_doctor._execution.time_limit import TimeUp, many_limits, time_limit, untimed
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor._safe_repr import first_line, said
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import Failure

T = TypeVar("T")

LONGEST = 200  # maximum length of the reason why dynamo stopped tracing

_OURS_OR_TORCHS = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"]


# Errors that the user's code may raise. A student's sys.exit() must not end the grader, but a
# keyboard interrupt must.
USERS = (Exception, SystemExit, GeneratorExit)

_seconds: ContextVar[float] = ContextVar("seconds a pass of the user's code may take", default=0.0)


@contextmanager
def passes_within(seconds: float) -> Iterator[None]:
    """Limit the running time of every :func:`attempt` in the block; 0 means no limit."""
    token = _seconds.set(seconds)
    try:
        with many_limits() if seconds else nullcontext():
            yield
    finally:
        _seconds.reset(token)


def run_engine(
    outputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor],
    leaves: Sequence[Tensor],
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the same gradients as ``torch.autograd.grad``, but do not check ``grad_outputs``.

    PyTorch's check imports sympy, which takes longer than a whole diagnosis.
    """
    found: tuple[Tensor | None, ...] = Variable._execution_engine.run_backward(
        tuple(outputs), tuple(grad_outputs), retain_graph, create_graph, tuple(leaves), True, False
    )
    return found


def prepare() -> None:
    """Start PyTorch's autograd engine now so that no time limit interrupts its startup."""
    with torch.inference_mode(False), torch.enable_grad():
        one = torch.ones((), requires_grad=True)
        run_engine([one * 1], [torch.ones(())], [one])


def prepare_meta() -> None:
    """Import the modules that PyTorch's meta device needs.

    This takes longer than :func:`prepare`, and most diagnoses do not need it.
    """
    with untimed():
        torch.empty(1, device="meta") * 2


def attempt(call: Callable[[], T]) -> T | Failure:
    """Return the result of the call, or a :class:`Failure` if the user's code raises an error.

    If time or memory runs out, raise :class:`CannotDiagnoseError`, because this does not mean that
    the code is wrong.
    """
    own_limit = False
    try:
        with time_limit(_seconds.get()) as own_limit:
            return call()
    except TimeUp as stop:
        if not own_limit:
            raise
        raise CannotDiagnoseError(_out_of_time(stop)) from None
    except USERS as error:
        if _out_of_memory(error):
            raise CannotDiagnoseError(
                f"diagnose ran out of memory ({first_line(error)}): pass smaller inputs."
            ) from error
        return describe_error(error)


def describe_error(error: BaseException) -> Failure:
    """Return an exception as data: its type, its message, and the line of user code that raised it.

    The message is safe to display: it contains no memory addresses and has a limited length. It is
    empty if ``__str__`` raises.

    Args:
        error: An exception that user code raised.

    Returns:
        A :class:`Failure` with the exception's class name (``kind``), its message (``text``), and
        the line of code (``line``, or ``""`` if unknown).
    """
    if type(error).__module__.startswith("torch._dynamo"):
        return describe_compile_error(error)
    return Failure(type(error).__name__, said(error), users_line(error))


def describe_compile_error(error: BaseException) -> Failure:
    """Return a one-line reason why dynamo stopped tracing, and the line of user code."""
    lines = [line.strip() for line in said(error, most=None).splitlines() if line.strip()]
    why = [line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation: ")]
    text = re.sub(r"\b0x[0-9a-fA-F]+", "0x…", ": ".join([*lines[:1], *why[:1]]))
    traced = getattr(error, "real_stack", None)  # set if the traced code never ran
    line = users_last(traced) if traced else users_line(error)
    return Failure(type(error).__name__, shorten(text, LONGEST, placeholder=" …"), line)


def _out_of_time(stop: BaseException) -> str:
    line = users_line(stop)
    where = f" (it was in {line})" if line else ""
    return (
        f"one pass did not end within {_seconds.get():g} s{where}: look for an endless loop there, "
        "or pass a larger time_limit=."
    )


def _out_of_memory(error: BaseException) -> bool:
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or (isinstance(error, RuntimeError) and "allocate memory" in said(error))


def users_line(error: BaseException) -> str:
    """Return the innermost line of user code in an exception's traceback."""
    return users_last(traceback.extract_tb(error.__traceback__))


def users_last(frames: Sequence[traceback.FrameSummary]) -> str:
    """Return the innermost line of user code in a stack."""
    own = [frame for frame in frames if frame.line and is_users_file(frame.filename)]
    return f"{own[-1].name}: {own[-1].line}" if own else ""


def is_users_file(filename: str) -> bool:
    """Whether a file is outside Python's standard library, PyTorch and the doctor."""
    standard = filename.startswith(_STANDARD_LIBRARY) and "site-packages" not in filename
    return not standard and not filename.startswith(_OURS_OR_TORCHS)


def takes_ctx(function: type[Function]) -> bool:
    """Whether ``forward`` takes ``ctx`` (the old style). Otherwise, ``setup_context`` takes it."""
    return function.setup_context is Function.setup_context


class _Unnoticed:
    """A base class that keeps the ``__init_subclass__`` of the other bases from running."""

    __slots__ = ()

    def __init_subclass__(cls, **_: Any) -> None: ...


def subclass_of(function: type[Function], **attributes: Any) -> type[Function]:
    """Return a subclass of the user's Function, for example to replace a method.

    The user's ``__init_subclass__`` does not run, because it may enter the subclass in a registry
    or require arguments.

    Args:
        function: The user's Function. It does not change.
        attributes: The methods and other attributes of the subclass.

    Returns:
        The subclass, with the name and the module of ``function``.
    """
    first = next(base for base in function.__mro__ if "__init_subclass__" in vars(base))
    bases = (function,) if first in (_Unnoticed, object) else (_Unnoticed, function)
    make: Any = type(function)
    made: type[Function] = make(
        function.__name__, bases, {"__module__": function.__module__, **attributes}
    )
    return made


def fresh(
    inputs: Sequence[Any], wanted: Sequence[int], move: Callable[[Tensor], Tensor] = lambda t: t
) -> tuple[list[Tensor], list[Any]]:
    """Return new leaves for the wanted inputs, and the arguments for a call that uses these leaves.

    The arguments are clones of the leaves, because autograd lets an in-place Function modify a
    clone but not a leaf.
    """
    leaves, args = [], []
    for position, value in enumerate(inputs):
        if position in wanted:
            leaf = move(value).detach().clone().requires_grad_()
            leaves.append(leaf)
            args.append(leaf.clone())
        else:
            args.append(_copy(value, move))
    return leaves, args


def _copy(value: Any, move: Callable[[Tensor], Tensor]) -> Any:
    if not isinstance(value, Tensor):
        return value
    return (move(value) if is_float(value) else value).detach().clone()
