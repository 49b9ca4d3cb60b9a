"""Record a program's calls, keeping a few small and distinct calls for each Function.

The recorder keeps a call if autograd records it, that is, if grad mode is on and at least one input
requires grad. It copies the tensors before the call, because ``forward`` may change them. Two calls
are distinct if their shapes, dtypes, ``requires_grad`` or plain values differ. If the tensors of a
call are huge, the recorder stores smaller tensors instead. Equal lengths stay equal.

The program must not notice the recording. The recording draws no random numbers, is not affected by
the program's modes, and takes only a small part of the program's time. When this time is used up,
the recorder still counts calls but no longer inspects them.
"""

from __future__ import annotations

import linecache
import re
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from inspect import signature, unwrap
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from autograd_doctor import _interception
from autograd_doctor._safe_repr import first_line

MOST_CALLS = 3  # per Function
MOST_STRUCTURES = 100  # distinct calls to one Function
MOST_BYTES = 64 * 2**20  # all copies together
WHOLE = 2**14  # largest call, in elements, that is kept in full
SMALL = 2**10  # largest size of a reduced call
PATIENCE = 100  # calls in a row without a new structure, after which only some calls are inspected
RAREST = 8**4 - 1
FREE = 0.03  # seconds for inspecting calls
SHARE = 0.03  # share of the program's time for further inspections
FEW = 8  # numbers in a call
DEEPEST = 4  # nesting depth of lists
LONGEST = 200  # maximum number of list elements to inspect
_PLAIN_VALUES = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)

UNDER_TRANSFORM = "every call was inside a transform of torch.func"
LISTS = "the operator takes or returns lists of tensors"
TRACED = "every call was traced, so its tensors held no numbers"


@dataclass(eq=False)
class RecordedCall:
    """A recorded call, with copies of its tensors and references to its other arguments."""

    function: Callable[..., Any]  # the class of a Function, or a custom operator
    args: tuple[Any, ...]
    size: int  # number of elements in all its tensors
    shrunk: bool = False
    backward_ran: bool = False
    create_graph: bool = False  # whether backward ran with create_graph=True
    # copies of the cotangents of the first backward pass; () if they were not kept
    grad_outputs: tuple[Tensor | None, ...] = ()
    # the leaves among the arguments
    parameters: Mapping[int, weakref.ref[Tensor]] = field(default_factory=dict)

    @property
    def rank(self) -> tuple[bool, bool, bool, int]:
        """The sort key of this call. The best call to examine comes first."""
        return not self.backward_ran, self.shrunk, *_fitness(self.size)


def _fitness(size: int) -> tuple[bool, int]:
    """Return a sort key for the size of a call.

    Small calls take less time, but very small ones reveal less.
    """
    return size < FEW, size


@dataclass(eq=False)
class RecordedFunction:
    """A Function with its recorded calls.

    Classes defined on the same line count as one Function. A custom operator also counts as a
    Function, because PyTorch runs its registered ``backward`` as one.
    """

    module: str  # "" for an operator
    name: str  # with its module
    where: str
    operator: Operator | None = None
    calls: int = 0
    differentiated: bool = False  # for at least one of the calls
    compiled: int = 0  # number of times that torch.compile traced it
    kept: list[RecordedCall] = field(default_factory=list)
    structures: dict[Any, RecordedCall | None] = field(default_factory=dict)
    why_not: Counter[str] = field(default_factory=Counter)  # reasons why calls were not kept
    fruitless: int = 0  # inspections in a row that showed no new structure
    skip: int = 0  # a call is not inspected if its number has one of these bits set

    def wants(self, size: int) -> RecordedCall | bool:
        """Return whether to keep another call.

        If it would replace a recorded call, return that recorded call instead of ``True``.
        """
        if len(self.kept) < MOST_CALLS:
            return True
        worst = max(self.kept, key=lambda call: call.rank)
        worse = not worst.backward_ran or _fitness(worst.size) > _fitness(size)
        return worst if worse else False

    def look_less(self) -> None:
        """Count an inspection. If many in a row find no new structure, inspect fewer calls.

        At first, inspect only every 8th call, then every 64th, and so on.
        """
        self.fruitless += 1
        if self.fruitless % PATIENCE == 0 and self.skip < RAREST:
            self.skip = 8 * self.skip + 7

    @property
    def best(self) -> list[RecordedCall]:
        """The recorded calls, sorted so that the best call to examine comes first."""
        return sorted(self.kept, key=lambda call: call.rank)


class Recorder:
    """Watch a program from :meth:`start` to :meth:`stop`."""

    def __init__(self) -> None:
        self.failure = ""  # the first error in our own code
        self._of_class: weakref.WeakKeyDictionary[type[Function], RecordedFunction | None] = (
            weakref.WeakKeyDictionary()
        )
        # Reading the inner dictionary is faster.
        self._by_reference: dict[Any, RecordedFunction | None] = vars(self._of_class)["data"]
        self._functions: dict[tuple[Any, ...], RecordedFunction] = {}
        self._changing = threading.Lock()
        self._bytes = 0
        self._spent = self._watched = self._since = 0.0

    @property
    def functions(self) -> list[RecordedFunction]:
        """The Functions that were called, in the order of their first calls."""
        return list(self._functions.values())

    def start(self) -> None:
        """Start watching."""
        self._since = time.perf_counter()
        _interception.watch(self)

    def stop(self) -> None:
        """Stop watching."""
        _interception.unwatch(self)
        self._watched += time.perf_counter() - self._since

    # ``_interception`` calls these methods.

    def begin(
        self, function: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[Any], None] | None:
        """Count a call. If the call will be kept, copy its arguments."""
        try:
            seen = self._by_reference[weakref.ref(function)]
        except KeyError:
            seen = self._first_seen(function)
        if seen is None:
            return None
        seen.calls += 1
        if seen.calls & seen.skip:
            return None
        if not torch.is_grad_enabled():
            return None
        called: Callable[..., Any] = function
        if seen.operator is not None:
            if seen.operator.takes_lists:
                seen.why_not[LISTS] += 1
                return None
            called, args = _operator_call(seen.operator, args)
        if torch._C._are_functorch_transforms_active():
            seen.why_not[UNDER_TRANSFORM] += 1
            return None
        if kwargs:
            try:
                args = signature(function.forward).bind(*args, **kwargs).args
            except TypeError:  # the call itself reports the mistake
                return None
        if torch._C._is_torch_function_mode_enabled():
            with torch._C.DisableTorchFunction():
                followed = _any_requires_grad(args)
        else:
            followed = _any_requires_grad(args)
        if not followed:
            return None
        seen.differentiated = True
        if self._spent > FREE and self._out_of_time():
            return None
        began = time.perf_counter()
        seen.look_less()
        try:
            with torch._C.DisableTorchFunction():
                return self._look(seen, called, args)
        finally:
            self._spent += time.perf_counter() - began

    def compiled(self, function: type[Function]) -> None:
        """Record that ``torch.compile`` traces a call."""
        seen = self._of_class.get(function) or self._first_seen(function)
        if seen is not None:
            seen.compiled += 1

    def failed(self, error: Exception) -> None:
        """Keep the first error that the doctor's own code raised, to report it at the end."""
        self.failure = self.failure or f"{type(error).__name__}: {first_line(error)}"

    # The records.

    def _first_seen(self, function: type[Function]) -> RecordedFunction | None:
        seen = None
        if operator := _operator_of(function):
            name, where = operator.name, operator.where
            new = partial(RecordedFunction, "", name, where, operator)
            seen = self._recorded((name, where), new)
        elif not f"{function.__module__}.".startswith("torch."):
            module, name = function.__module__, function.__qualname__
            seen = self._recorded(
                (module, name, *_definition(function)),
                lambda: RecordedFunction(module, f"{module}.{name}", _place(function)),
            )
        self._of_class[function] = seen
        return seen

    def _recorded(
        self, key: tuple[Any, ...], make: Callable[[], RecordedFunction]
    ) -> RecordedFunction:
        with self._changing:
            if key not in self._functions:
                self._functions[key] = make()
            return self._functions[key]

    def _out_of_time(self) -> bool:
        watched = self._watched + time.perf_counter() - self._since
        return self._spent > SHARE * watched

    def _look(
        self, seen: RecordedFunction, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> Callable[[Any], None] | None:
        if why := _unfit(args):
            seen.why_not[why] += 1
            return None
        structure = _structure(args)
        if structure in seen.structures:
            known = seen.structures[structure]
            if known is None or known.backward_ran:
                return None
            return partial(_note_backward, known)
        if len(seen.structures) >= MOST_STRUCTURES:
            return None
        seen.fruitless = seen.skip = 0
        size = sum(tensor.numel() for tensor in _tensors(args))
        seen.structures[structure] = None
        if seen.wants(min(size, SMALL)) is False:
            return None
        call = self._copied(seen, function, args, size)
        return partial(self._keep, seen, structure, call) if call else None

    def _copied(
        self,
        seen: RecordedFunction,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        size: int,
    ) -> RecordedCall | None:
        lengths = _smaller_lengths(args) if size > WHOLE else {}
        if self._bytes > MOST_BYTES:
            seen.why_not["the memory for copies of calls was used up"] += 1
            return None
        with torch.no_grad(), _without_dispatch_modes():
            copies = tuple(_copy(value, lengths) for value in args)
        leaves = {
            i: weakref.ref(value)
            for i, value in enumerate(args)
            if isinstance(value, Tensor) and value.requires_grad and value.is_leaf
        }
        return RecordedCall(
            function,
            copies,
            sum(tensor.numel() for tensor in _tensors(copies)),
            shrunk=bool(lengths),
            parameters=leaves,
        )

    def _keep(
        self, seen: RecordedFunction, structure: Any, call: RecordedCall, returned: Any
    ) -> None:
        """Keep a call that has finished without an error."""
        with self._changing, torch._C.DisableTorchFunction():
            room = seen.wants(call.size)
            if room is False:
                return
            if isinstance(room, RecordedCall):
                seen.kept.remove(room)
                self._bytes -= _bytes(room)
            seen.kept.append(call)
            seen.structures[structure] = call
            self._bytes += _bytes(call)
        _note_backward(call, returned)


def _bytes(call: RecordedCall) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(call.args))


def _note_backward(call: RecordedCall, returned: Any) -> None:
    """Record how the backward pass of a call runs, without changing the gradients."""
    compiling = sys.modules.get("torch._dynamo.compiled_autograd")
    if getattr(compiling, "compiled_autograd_enabled", False):
        return  # a hook would become part of the compiled code

    def note(grad_outputs: Any) -> None:
        if not (call.backward_ran or call.shrunk):
            with suppress(Exception):
                call.grad_outputs = _copied_cotangents(grad_outputs)
        call.backward_ran = True
        call.create_graph |= torch.is_grad_enabled()

    outputs = returned if isinstance(returned, tuple | list) else (returned,)
    with torch._C.DisableTorchFunction():
        for output in outputs:
            node = output.grad_fn if isinstance(output, Tensor) else None
            if node is not None:
                node.register_prehook(note)
                return


def _copied_cotangents(grad_outputs: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """Return copies of the cotangents, or ``()`` if they are too large or cannot be copied."""
    given = [grad for grad in grad_outputs if grad is not None]
    too_large = sum(grad.numel() for grad in given) > WHOLE
    if too_large or torch._C._are_functorch_transforms_active() or _unfit(tuple(given)):
        return ()
    with torch.no_grad(), torch._C.DisableTorchFunction(), _without_dispatch_modes():
        return tuple(None if grad is None else grad.detach().clone() for grad in grad_outputs)


# --------------------------------------------------------------------------------------------------
# The arguments of a call.
# --------------------------------------------------------------------------------------------------


def _any_requires_grad(args: Sequence[Any]) -> bool:
    for value in args:
        kind = type(value)
        if kind is Tensor or kind is nn.Parameter:
            if value.requires_grad:
                return True
        elif isinstance(value, Tensor):
            with torch._C.DisableTorchFunction():  # a subclass may behave differently
                if value.requires_grad:
                    return True
    return False


def _tensors(value: Any, deepest: int = DEEPEST) -> Iterator[Tensor]:
    """Yield the tensors in an argument, including tensors inside lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif deepest and isinstance(value, list | tuple | dict):
        for item in list(value.values() if isinstance(value, dict) else value)[:LONGEST]:
            yield from _tensors(item, deepest - 1)


def _unfit(args: tuple[Any, ...]) -> str:
    """Return the reason why the recorder cannot keep a call, or ``""`` if it can."""
    if torch._C._get_tracing_state() is not None or torch.compiler.is_compiling():
        return TRACED
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        return "every call was captured into a CUDA graph"
    for tensor in _tensors(args):
        kind = type(tensor)
        if kind not in (Tensor, nn.Parameter, nn.Buffer):
            if kind.__module__.startswith("torch._subclasses"):
                return TRACED
            return f"an argument is of the tensor type {kind.__name__}"
        if tensor.is_meta:
            return TRACED
        if tensor.is_nested or tensor.is_quantized:
            return "an argument is a nested or quantized tensor"
        if tensor.layout is not torch.strided:
            return "an argument is a sparse tensor"
    return ""


def _structure(value: Any, deepest: int = DEEPEST) -> Any:
    """Return a key that distinguishes calls without using the numbers in their tensors."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype, value.requires_grad, value.device
    if isinstance(value, _PLAIN_VALUES):
        return type(value), value
    if deepest and isinstance(value, list | tuple):
        return type(value), tuple(_structure(item, deepest - 1) for item in value[:LONGEST])
    if deepest and isinstance(value, dict):
        return type(value), tuple(_structure(item, deepest - 1) for item in value.values())
    return type(value), getattr(value, "__qualname__", "")


def _without_dispatch_modes() -> AbstractContextManager[Any]:
    """Hide the copying of tensors from the program's own modes, such as an operation counter."""
    if not torch._C._len_torch_dispatch_stack():
        return nullcontext()
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


# --------------------------------------------------------------------------------------------------
# Copies of tensors. A huge tensor gets a smaller copy.
# --------------------------------------------------------------------------------------------------

Lengths = Mapping[int, int]  # maps each large length to a smaller one


def _copy(value: Any, lengths: Lengths, deepest: int = DEEPEST) -> Any:
    if isinstance(value, Tensor):
        return _copy_tensor(value, lengths)
    if not deepest:
        return value
    kind = type(value)
    if kind in (list, tuple, torch.Size) or (isinstance(value, tuple) and hasattr(kind, "_make")):
        items = [_copy(item, lengths, deepest - 1) for item in value]
        return kind._make(items) if hasattr(kind, "_make") else kind(items)
    if kind is dict:
        return {key: _copy(item, lengths, deepest - 1) for key, item in value.items()}
    return lengths.get(value, value) if kind is int else value


def _copy_tensor(value: Tensor, lengths: Lengths) -> Tensor:
    part = value.detach()
    for dim, length in enumerate(value.shape):
        part = part.narrow(dim, 0, lengths.get(length, length))
    copy = part.clone()
    if lengths and copy.dtype in (torch.int32, torch.int64) and copy.numel():
        copy = _inside(copy, lengths)
    return copy.requires_grad_(value.requires_grad)


def _inside(positions: Tensor, lengths: Lengths) -> Tensor:
    """Limit indices and offsets to the smaller length. An offset can equal the length."""
    largest = int(positions.max())
    for length, smaller in sorted(lengths.items()):
        if smaller <= largest < length:
            return positions % smaller
        if largest == length:
            return positions.clamp(max=smaller)
    return positions


def _smaller_lengths(args: tuple[Any, ...]) -> Lengths:
    """Map lengths to smaller ones with the same order and the same remainder modulo a power of 2.

    Different lengths stay different so that a transposed or broadcast dim remains visible.
    """
    tensors = list(_tensors(args))
    lengths = sorted({length for tensor in tensors for length in tensor.shape})
    smaller: dict[int, int] = {}
    for unit in (32, 16, 8, 4, 2, 1):
        smaller, last = {}, 0
        for length in lengths:
            if length <= unit:
                last = length
                continue
            new = max(unit, last + 1)
            new += (length - new) % unit
            last = min(new, length)
            if last < length:
                smaller[length] = last
        if sum(_numel(tensor.shape, smaller) for tensor in tensors) <= SMALL:
            break
    return smaller


def _numel(shape: Sequence[int], lengths: Lengths) -> int:
    product = 1
    for length in shape:
        product *= lengths.get(length, length)
    return product


# --------------------------------------------------------------------------------------------------
# Custom operators. PyTorch wraps an operator's registered ``backward`` in a Function.
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operator:
    """A custom operator with a registered ``backward``."""

    name: str  # as in "mylib::square"
    where: str  # the definition of ``backward``
    takes_lists: bool
    overload: torch._ops.OpOverload


def _operator_of(function: type[Function]) -> Operator | None:
    """Return the operator whose ``backward`` PyTorch runs in this Function, if there is one.

    The Function is private to PyTorch. If it does not have the expected structure, return ``None``.
    """
    if function.__module__ != "torch._library.autograd":
        return None
    held = _enclosed(function.forward)
    lists = "orig_forward" in held  # PyTorch has wrapped the methods
    if lists:
        held = _enclosed(held["orig_forward"])
    overload, backward = held.get("op"), getattr(held.get("info"), "_backward_fn", None)
    if not isinstance(overload, torch._ops.OpOverload) or backward is None:
        return None
    code = getattr(_innermost(backward), "__code__", None)
    where = f"{_short(code.co_filename)}:{code.co_firstlineno}" if code else ""
    return Operator(overload.name(), where, lists, overload)


def _enclosed(function: Any) -> dict[str, Any]:
    """Return the variables that a nested function uses from the functions around it."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}


def _operator_call(
    operator: Operator, args: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the operator, with keyword-only arguments bound, and the other arguments.

    PyTorch passes its own data to the Function after the operator's arguments.
    """
    *given, metadata = args
    keywords = getattr(metadata, "keyword_only_args", {})
    overload = operator.overload
    return (partial(overload, **keywords) if keywords else overload), tuple(given)


# --------------------------------------------------------------------------------------------------
# The location of a Function's definition.
# --------------------------------------------------------------------------------------------------


def _innermost(method: Any) -> Any:
    """Return the function inside a decorator such as ``once_differentiable``."""
    return unwrap(method) if callable(method) else method


_METHODS = ("forward", "backward", "setup_context")


def _definition(function: type[Function]) -> tuple[str, int]:
    """Return the file and line of a method that the class defines or inherits."""
    for name in _METHODS:
        found = vars(function).get(name)
        code = getattr(_innermost(getattr(found, "__func__", found)), "__code__", None)
        if code is not None:
            return code.co_filename, code.co_firstlineno
    code = getattr(_innermost(function.forward), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else ("", 0)


def _place(function: type[Function]) -> str:
    """Return the file and line of the class if they are known."""
    file, line = _definition(function)
    head = re.compile(rf"\s*class\s+{re.escape(function.__name__)}\b")
    places = [(file, line)]
    if not any(name in vars(function) for name in _METHODS):  # its methods may be defined elsewhere
        places.append((getattr(sys.modules.get(function.__module__), "__file__", None) or "", 0))
    for source, last in places:
        lines = linecache.getlines(source) if source else []
        for number, text in reversed([*enumerate(lines[: last or None], 1)]):
            if head.match(text):
                return f"{_short(source)}:{number}"
    return f"{_short(file)}:{line}" if file else ""


def _short(file: str) -> str:
    """Return a path relative to the current folder, or to the folder of installed packages."""
    from pathlib import Path

    if "ipykernel_" in file or file.startswith("<ipython-input"):
        return "notebook cell"
    path = Path(file)
    for part in ("site-packages", "dist-packages"):
        if part in path.parts:
            return str(Path(*path.parts[path.parts.index(part) + 1 :]))
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file
