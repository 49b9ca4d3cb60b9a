"""Run an answer's forward or backward in isolation, and record the output and any exception."""

from __future__ import annotations

import contextlib
import dis
import inspect
import io
import linecache
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from autograd_doctor.extension import preserve_global_state
from torch import Tensor
from torch.autograd import Function
from torch.utils._pytree import tree_map

from autograd_course.calls import as_tuple, differentiated, is_float, takes_ctx
from autograd_course.engine import run_backward as run_engine
from autograd_course.errors import NO_MESSAGE, first_line
from autograd_course.external import BuildError

Inputs = tuple[Any, ...]
WHOLE = "<answer>"  # used in place of a method name if the answer is a plain function
MOST_PRINTED = 2000  # the maximum number of characters kept from the output of one pass


# --------------------------------------------------------------------------------------------------
# Isolation
# --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Discard the output of a ``with`` block and restore all global state after it."""
    sink = Bounded(0)
    with (
        torch.inference_mode(False),
        preserve_global_state(seed=0),
        contextlib.redirect_stdout(sink),
        contextlib.redirect_stderr(sink),
    ):
        yield


def prepare() -> None:
    """Import the modules that backward needs before a time limit applies to the answer."""
    with torch.inference_mode(False), torch.enable_grad():
        one = torch.ones((), requires_grad=True)
        torch.autograd.grad(one * 1, one, torch.ones(()))


# --------------------------------------------------------------------------------------------------
# One pass
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Raised:
    """The description of a call that raised an error.

    ``told`` is a sentence that explains the error. If a stub raised the error, ``unwritten`` is the
    name of the unwritten method, or :data:`WHOLE`. ``separate`` says whether the answer has a
    separate ``setup_context``.
    """

    told: str
    unwritten: str = ""
    separate: bool = False


@dataclass(frozen=True)
class Computed:
    """What an answer computed in a call that a check measured.

    ``sent`` holds the gradients that arrived at the outputs with a graph, and ``gradients`` holds
    the gradients of the inputs. An input that got no gradient has ``None``.
    """

    inputs: Inputs
    outputs: Inputs
    sent: Inputs
    gradients: Inputs


def raised(error: BaseException, answer: type[Function], method: str) -> Raised:
    """Describe an exception raised by one of the answer's methods."""
    part = unfinished_part(error) if is_unfinished(error, answer) else ""
    return Raised(told(error, answer, method), part, separate=not takes_ctx(answer))


def differentiable(inputs: Inputs) -> Inputs:
    """Return ``inputs``, with each float or complex tensor replaced by a copy that requires grad.

    The copies are not leaf tensors, so the Function can modify them in place.
    """
    return tuple(
        value.detach().requires_grad_().clone() if is_float(value) else value for value in inputs
    )


def applied(function: type[Function], inputs: Inputs) -> Any:
    """Apply the Function to ``inputs`` and return the result."""
    return function.apply(*inputs)


def run_forward(answer: type[Function], inputs: Inputs) -> Inputs | Raised:
    """Run forward and return its result, or a description of its exception."""
    try:
        return as_tuple(applied(answer, differentiable(inputs)))
    except (Exception, SystemExit) as error:
        return raised(error, answer, "forward")


def run_backward(answer: type[Function], inputs: Inputs) -> Raised | None:
    """Run forward and backward. Return a description of any exception in backward."""
    outputs = as_tuple(applied(answer, differentiable(inputs)))
    used = [out for out in outputs if isinstance(out, Tensor) and out.requires_grad]
    try:
        if used:
            run_engine(used, [torch.rand_like(out) for out in used])
    except (Exception, SystemExit) as error:
        return raised(error, answer, "backward")
    return None


def run_check(check: Callable[..., Any], answer: type[Function], inputs: Inputs) -> Any | Raised:
    """Run a check on an answer. Return the check's result, or describe the answer's exception.

    A check can call the answer with other inputs. If the check itself fails, its exception
    propagates.
    """
    try:
        return check(answer, inputs)
    except (Exception, SystemExit) as error:
        method = _last_method(error, answer)
        if not method:
            raise
        return raised(error, answer, method)


def _last_method(error: BaseException, answer: type[Function]) -> str:
    """Return the name of the answer's method that raised an error, or ``""`` if none did."""
    if _OF_THE_ENGINE.match(str(error)):
        return "backward"
    own = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if _is_own(frame, answer)]
    inherited = reversed(answer.__mro__[: answer.__mro__.index(Function)])
    methods = {_code_of(part): name for cls in inherited for name, part in vars(cls).items()}
    names = [methods[frame.f_code] for frame in own if frame.f_code in methods]
    return names[-1] if names else "forward" if own else ""


# Autograd raises these errors if backward returns the wrong number of gradients or a gradient of
# the wrong shape.
_OF_THE_ENGINE = re.compile(r"[Ff]unction \w+Backward returned an? ")


def run_routine(answer: Callable[..., Any], inputs: Inputs) -> Any:
    """Call a plain function with copies of the inputs. Return its result or a :class:`Raised`."""
    try:
        return answer(*copied(inputs))
    except (Exception, SystemExit) as error:
        return raised_by(error, answer)


def raised_by(error: BaseException, answer: Callable[..., Any]) -> Raised:
    """Describe an exception raised by a plain function."""
    if not is_unfinished(error, answer):
        return Raised(told(error, answer))
    is_named = hasattr(answer, "__name__")  # an operator has none; one of its functions is the stub
    return Raised("", WHOLE if is_named else unfinished_part(error))


def copied(inputs: Inputs) -> Inputs:
    """Return copies of all input tensors. A copy requires grad if the original does."""

    def copy(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    copies: Inputs = tree_map(copy, inputs)
    return copies


def gradients(
    call: Any, inputs: Inputs, sent: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Return the gradients for ``sent``, or an empty tuple if the call fails.

    By default, a fixed random gradient arrives at each output that has a graph.

    Like ``diagnose``, this function returns gradients for the inputs that require grad. If none
    does, it returns a gradient for every floating-point input.
    """
    given = [value.detach().clone() if is_float(value) else value for value in inputs]
    leaves = [given[place].requires_grad_() for place in differentiated(inputs)]
    rng = torch.Generator().manual_seed(0)
    try:
        # An in-place Function overwrites its input, so pass it a copy instead of the leaf.
        came = call(*(value.clone() if is_float(value) else value for value in given))
        outputs = [out for out in as_tuple(came) if out.requires_grad]
        drawn = [torch.randn(out.shape, generator=rng, dtype=out.dtype) for out in outputs]
        found = run_engine(outputs, drawn if sent is None else sent, leaves)
        pairs = zip(found, leaves, strict=True)
        return tuple(torch.zeros_like(leaf) if grad is None else grad for grad, leaf in pairs)
    except Exception:
        return ()


# --------------------------------------------------------------------------------------------------
# The output of a pass
# --------------------------------------------------------------------------------------------------


class Bounded(io.StringIO):
    """A text stream that keeps the first characters and counts the rest."""

    def __init__(self, most: int = MOST_PRINTED) -> None:
        super().__init__()
        self._most, self._left_out = most, 0

    def write(self, text: str) -> int:
        """Keep as much of the text as still fits."""
        kept = text[: self._most - self.tell()]
        super().write(kept)
        self._left_out += len(text) - len(kept)
        return len(text)

    @property
    def text(self) -> str:
        """The text kept so far, followed by the number of omitted characters."""
        rest = f"\n… ({self._left_out:,} more characters)\n" if self._left_out else ""
        return self.getvalue() + rest


class Printed:
    """The output of the latest pass overall, and of the latest pass on each sample."""

    def __init__(self) -> None:
        self._latest = Bounded()
        self._on: dict[int, Bounded] = {}

    @contextlib.contextmanager
    def during(self, inputs: Any = None) -> Iterator[None]:
        """Record the output of a ``with`` block, replacing any earlier output for these inputs."""
        self._latest = self._on[id(inputs)] = Bounded()
        with contextlib.redirect_stdout(self._latest):
            yield

    @property
    def latest(self) -> str:
        """The output of the latest pass, even if the pass was interrupted."""
        return self._latest.text

    def on(self, inputs: Any) -> str:
        """Return the output of the latest pass on these inputs."""
        return self._on[id(inputs)].text if id(inputs) in self._on else ""


# --------------------------------------------------------------------------------------------------
# The message of an exception
# --------------------------------------------------------------------------------------------------


def is_unfinished(error: BaseException, answer: Any) -> bool:
    """Return whether a stub raised ``error``, or PyTorch raised it because a method is missing.

    A compiled operation can also raise NotImplementedError, but it does not use a ``raise``
    statement.
    """
    if not isinstance(error, NotImplementedError):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return _raises_here(error) and (_is_own(frame, answer) or _is_base(frame))


def unfinished_part(error: BaseException) -> str:
    """Return the name of the unfinished function that raised ``error``."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code.co_name


def told(error: BaseException, answer: Any, method: str = WHOLE) -> str:
    """Return a sentence that names the method, the exception, and the learner's line of code."""
    if isinstance(error, BuildError):
        return _built(error)
    who = "it" if method == WHOLE else f"`{method}`"
    line = place(error, answer)
    if stub := _other_stub(error, answer):
        return (
            f"{who} uses `{stub}`, which is not written yet{line}. Solve the exercise that asks "
            f"for `{stub}` first."
        )
    text = said(error).rstrip(".")
    text = f" {text}" if text == NO_MESSAGE else f": {text}"
    return f"{who} raises {type(error).__name__}{text}{line}."


def _other_stub(error: BaseException, answer: Any) -> str:
    """Return the name of a class or function outside the answer whose stub raised ``error``."""
    if not isinstance(error, NotImplementedError) or error.args or not _raises_here(error):
        return ""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    parts = (inspect.unwrap(getattr(part, "__func__", part)) for part in _parts(answer))
    beside = any(getattr(part, "__globals__", None) is frame.f_globals for part in parts)
    own = _is_own(frame, answer) or _is_base(frame)
    return frame.f_code.co_qualname.split(".")[0] if beside and not own else ""


def said(error: BaseException) -> str:
    """Return the first line of an exception's message, without the paths that PyTorch adds."""
    line = first_line(error)
    line = re.sub(r" \(with implementation in <.*?>\)", "", line)
    return re.sub(r"^opcheck\(op, \.\.\.\): \w+ failed with | \(scroll up.*", "", line)


def place(error: BaseException, answer: Any) -> str:
    """Return the last traceback line in the answer's own code, formatted as `` (line 3: `…`)``."""
    return _last_line(error, lambda frame: _is_own(frame, answer))


def line_in(error: BaseException, filename: str) -> str:
    """Return the last traceback line in the given file, in the format of :func:`place`."""
    return _last_line(error, lambda frame: frame.f_code.co_filename == filename)


def _last_line(error: BaseException, counts: Callable[[FrameType], bool]) -> str:
    own = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if counts(frame)
    ]
    if not own:
        return ""
    source = linecache.getline(*own[-1]).strip()
    return f" (line {own[-1][1]}{f': `{source}`' if source else ''})"


def _built(error: BuildError) -> str:
    """Return the error message of a failed build and the line of code that caused it."""
    sentence, _, line = str(error).partition("\n")
    return f"{sentence}{f' (`{line.strip()}`)' if line else ''}."


def _raises_here(error: BaseException) -> bool:
    """Return whether the innermost Python frame raised ``error`` with a ``raise`` statement."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    return dis.opname[last.tb_frame.f_code.co_code[last.tb_lasti]] == "RAISE_VARARGS"


def _is_own(frame: FrameType, answer: Any) -> bool:
    return frame.f_code.co_filename in set(_files(answer))


def _is_base(frame: FrameType) -> bool:
    return frame.f_code.co_filename == inspect.getfile(Function)


def _files(answer: Any) -> Iterator[str]:
    """Yield the file or notebook cell that defines the answer or, for a class, each method."""
    for code in map(_code_of, _parts(answer)):
        if code:
            yield code.co_filename


def _code_of(part: Any) -> Any:
    """Return the code object of a method, or ``None`` for anything else."""
    return getattr(inspect.unwrap(getattr(part, "__func__", part)), "__code__", None)


def _parts(answer: Any) -> Iterator[Any]:
    if isinstance(answer, torch._library.custom_ops.CustomOpDef):
        yield from vars(answer).values()  # an operator's implementation, fake and backward
    elif not isinstance(answer, type):
        yield answer
    else:
        for cls in answer.__mro__[: answer.__mro__.index(Function)]:
            yield from vars(cls).values()
