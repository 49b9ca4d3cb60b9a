"""Run one Function repeatedly on one set of inputs, always with the same random numbers."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_doctor._execution.calls import fresh, subclass_of, takes_ctx
from autograd_doctor._execution.captured_state import CapturedState, TensorState
from autograd_doctor._execution.isolation import reseed
from autograd_doctor._numerics.tensors import as_tuple, is_float, is_number, on_cpu
from autograd_doctor._source import own_source, stated_design
from autograd_doctor.errors import CannotDiagnoseError

# --------------------------------------------------------------------------------------------------
# The subject of an examination: a Function subclass, or a callable that uses Functions.
# --------------------------------------------------------------------------------------------------


_NONE: Mapping[int, TensorState] = MappingProxyType({})


@dataclass(frozen=True)
class Subject:
    """The callable to examine, its name, its argument names, and its class if it is a Function."""

    name: str
    call: Callable[..., Any]
    parameters: tuple[str, ...]
    function: type[Function] | None
    omitted: tuple[str, ...] = ()  # parameters of forward that the call leaves at their defaults
    # Maps positions to arguments that the subject can also reach in another way.
    passed: Mapping[int, TensorState] = field(default_factory=dict)
    around: CapturedState = field(default_factory=CapturedState)
    in_float64: bool = True  # whether its reachable state is in float64 when the arguments are

    def begin(self, args: Sequence[Any], passed: Mapping[int, TensorState] = _NONE) -> None:
        """Reset all state that the subject can reach, in preparation for a call."""
        self.around.begin(args, passed, in_precision_of_args=self.in_float64)

    @property
    def instance_methods(self) -> tuple[str, ...]:
        """Those of ``forward``, ``backward`` and ``setup_context`` that lack ``@staticmethod``."""
        if self.function is None:
            return ()
        return tuple(
            name
            for name in ("forward", "backward", "setup_context")
            if inspect.isfunction(inspect.getattr_static(self.function, name))
        )

    @property
    def is_operator(self) -> bool:
        """Whether the subject is an operator, such as one made by ``torch.library.custom_op``."""
        return self.function is None and _schema_of(self.call) is not None

    @property
    def backward_source(self) -> str:
        """The source code of ``backward``, or ``""`` if it is unknown."""
        if self.function is None:
            return ""
        known = own_source(self.function.backward)
        return "".join(known[0]) if known else ""

    @property
    def numbers_left(self) -> Mapping[str, Any]:
        """The numbers, strings and shapes on the class and in the globals that ``forward`` sets."""
        if self.function is None:
            return {}
        held = dict(vars(self.function))
        for method in (self.function.forward, self.function.setup_context):
            code = getattr(inspect.unwrap(method), "__code__", None)
            around = getattr(inspect.unwrap(method), "__globals__", {})
            for step in dis.get_instructions(code) if code else ():
                if step.opname == "STORE_GLOBAL":
                    held[str(step.argval)] = around.get(step.argval)
        kinds = (bool, int, float, str)

        def is_plain(value: Any) -> bool:
            return isinstance(value, kinds) or (
                isinstance(value, tuple) and all(map(is_plain, value))
            )

        return {k: v for k, v in held.items() if is_plain(v) and not k.startswith("__")}

    @cached_property
    def stated_design(self) -> str:
        """The deliberate gradient design that the source mentions, or ``""`` if there is none."""
        return stated_design(self.function) if self.function else ""


def subject_of(fn: Any, count: int) -> Subject:
    """Return the subject for ``fn`` with ``count`` arguments.

    Raises :class:`CannotDiagnoseError` if ``fn`` is neither a Function nor a callable.
    """
    if isinstance(fn, type) and issubclass(fn, Function):
        if fn.forward is Function.forward:
            raise CannotDiagnoseError(
                f"{fn.__name__} has no forward yet: write it, then call diagnose again."
            )
        names = _parameters(fn.forward, int(takes_ctx(fn)), count)
        return Subject(fn.__name__, fn.apply, _numbered(names, count), fn, tuple(names[count:]))
    if isinstance(fn, type) or not callable(fn):
        raise CannotDiagnoseError(
            f"diagnose needs a torch.autograd.Function subclass or a callable, got {_describe(fn)}."
        )
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, Function) and fn.__name__ == "apply":
        return subject_of(owner, count)
    if (schema := _schema_of(fn)) is not None:
        names = [argument.name for argument in schema.arguments]
        return Subject(schema.name, fn, _numbered(names, count), None)
    called = fn.forward if isinstance(fn, torch.nn.Module) else fn
    name = getattr(fn, "__name__", type(fn).__name__)
    parameters = _numbered(_parameters(called, 0, count), count)
    return Subject("callable" if name == "<lambda>" else name, fn, parameters, None)


def _schema_of(fn: Any) -> Any:
    """Return the schema of a custom operator, or ``None`` for any other callable."""
    fn = fn.func if isinstance(fn, partial) else fn  # keyword-only arguments are bound
    operator = getattr(fn, "_opoverload", None) or getattr(fn, "default", fn)
    schema = getattr(operator, "_schema", None)
    return schema if isinstance(schema, torch.FunctionSchema) else None


def _parameters(call: Callable[..., Any], skip: int, count: int) -> list[str]:
    """Return the names of a callable's positional parameters, if its signature is known.

    Replace a parameter such as ``*weights`` with weights[0], weights[1] …, up to ``count`` names.
    """
    try:
        parameters = list(inspect.signature(call).parameters.values())[skip:]
    except (TypeError, ValueError):
        return []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for rest in (p.name for p in parameters if p.kind is p.VAR_POSITIONAL):
        names += [f"{rest}[{i}]" for i in range(count - len(names))]
    return names


def _numbered(names: list[str], count: int) -> tuple[str, ...]:
    """Return ``count`` argument names. If the signature is unknown, use numbered names."""
    return tuple(names[i] if i < len(names) else f"input{i}" for i in range(count))


def _describe(thing: Any) -> str:
    if isinstance(thing, type) and issubclass(thing, torch.nn.Module):
        return f"the class {thing.__name__}: pass an instance, such as {thing.__name__}()"
    if isinstance(thing, type):
        return f"the class {thing.__name__}, which is not a Function"
    return (
        f"{type(thing).__name__} {thing!r}"
        if isinstance(thing, str | int)
        else type(thing).__name__
    )


def with_right_arity(subject: Subject) -> Subject:
    """Return the subject with a wrapped ``backward`` that returns one value for each argument.

    Add None for missing values and drop surplus values so that the remaining checks can run.
    Arguments that the call leaves at their defaults also count. PyTorch requires a value for such
    an argument if the Function has a ``setup_context``. Otherwise, PyTorch ignores the surplus
    None.
    """
    function, count = subject.function, len(subject.parameters) + len(subject.omitted)
    assert function is not None

    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        grads = as_tuple(function.backward(ctx, *grad_outputs))
        given = [grad if isinstance(grad, Tensor) else None for grad in grads]
        return (*given, *count * [None])[:count]

    repaired = subclass_of(function, backward=staticmethod(backward))
    return replace(subject, call=repaired.apply, function=repaired)


# --------------------------------------------------------------------------------------------------
# Watch how a Function uses its ctx, without changing the user's class.
# --------------------------------------------------------------------------------------------------

_SAVED_TENSORS: Any = Function.saved_tensors  # the engine's own descriptor


@dataclass
class CtxLog:
    """The data that one forward pass stored on its ctx."""

    dirty: list[Tensor] = field(default_factory=list)
    non_differentiable: list[Tensor] = field(default_factory=list)
    saved: list[Any] = field(default_factory=list)
    read_saved_in: str = ""


class Watched:
    """A subclass of the Function that keeps a :class:`CtxLog` of each forward pass.

    The subclass inherits the user's forward, backward and class attributes. It adds the recording
    methods only to its own backward node type, so the user's class does not change.
    """

    def __init__(self, function: type[Function]) -> None:
        self.log = CtxLog()
        self._in_forward = False
        self.function = subclass_of(function)
        self._watch(self.function._backward_cls)

    def __call__(self, *inputs: Any) -> Any:
        """Start a new log, then apply the Function."""
        self.log = CtxLog()
        with self._forward_pass():
            return self.function.apply(*inputs)

    @contextmanager
    def _forward_pass(self) -> Iterator[None]:
        self._in_forward = True
        try:
            yield
        finally:
            self._in_forward = False

    def _watch(self, node_type: Any) -> None:
        """Wrap the node type's methods so that they also record their arguments."""
        inherited = {
            name: getattr(node_type, name)
            for name in ("mark_dirty", "mark_non_differentiable", "save_for_backward")
        }

        def noting(name: str, log_name: str) -> Any:
            def method(ctx: Any, *tensors: Any) -> None:
                getattr(self.log, log_name).extend(tensors)
                inherited[name](ctx, *tensors)

            return method

        def saved_tensors(ctx: Any) -> Any:
            if self._in_forward:
                old = takes_ctx(self.function)
                self.log.read_saved_in = "forward" if old else "setup_context"
            return _SAVED_TENSORS.__get__(ctx)

        node_type.mark_dirty = noting("mark_dirty", "dirty")
        node_type.mark_non_differentiable = noting("mark_non_differentiable", "non_differentiable")
        node_type.save_for_backward = noting("save_for_backward", "saved")
        node_type.saved_tensors = property(saved_tensors)


# --------------------------------------------------------------------------------------------------
# A subject with one set of inputs, which can run many times in the same way.
# --------------------------------------------------------------------------------------------------

Move = Callable[[Tensor], Tensor]
Arrange = Callable[[list[Any]], list[Any]]


def stay(tensor: Tensor) -> Tensor:
    """Return a tensor unchanged, in its dtype and on its device."""
    return tensor


@dataclass(frozen=True)
class Run:
    """The record of one call: the leaves that receive gradients, the arguments, and the result."""

    leaves: list[Tensor]
    args: list[Any]
    returned: tuple[Any, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The outputs that are tensors."""
        return tuple(value for value in self.returned if isinstance(value, Tensor))

    @property
    def floats(self) -> tuple[Tensor, ...]:
        """The outputs that can have a gradient."""
        return tuple(value for value in self.tensors if is_float(value))


class Session:
    """A subject with one set of inputs, which can run repeatedly.

    Every run gets new copies of the inputs and the same random numbers.

    At the start of each run, all other state that the subject can reach is as the caller left it.
    """

    def __init__(
        self,
        subject: Subject,
        inputs: Sequence[Any],
        wanted: Sequence[int],
        seed: int,
        own_dtypes: Sequence[torch.dtype | None] = (),
    ) -> None:
        self.subject, self.seed = subject, seed
        self.inputs, self.wanted = tuple(inputs), tuple(wanted)
        self.own_dtypes = tuple(own_dtypes)
        self._watched = Watched(subject.function) if subject.function else None

    def run(
        self,
        move: Move = stay,
        *,
        inputs: Sequence[Any] | None = None,
        wanted: Sequence[int] | None = None,
        arrange: Arrange | None = None,
        watched: bool = True,
    ) -> Run:
        """Call the subject with copies of the given inputs, or of the session's own inputs.

        ``move`` can convert the copies to another dtype or device.

        ``arrange`` can change the memory layout of the arguments, using operations that autograd
        records. Arguments that the subject can also reach in another way are passed unchanged,
        because a checkpoint recognizes them by identity.
        """
        inputs = self.inputs if inputs is None else inputs
        wanted = self.wanted if wanted is None else wanted
        leaves, args = fresh(inputs, wanted, move)
        args = args if arrange is None else arrange(args)
        self._begin(args)
        for position, held in self.subject.passed.items():
            if args[position].is_meta:
                continue
            args[position] = held.tensor
            if position in wanted:
                leaves[sorted(wanted).index(position)] = held.tensor
        return Run(leaves, args, self._called(args, watched))

    def call(self, args: Sequence[Any], watched: bool = True) -> tuple[Any, ...]:
        """Call the subject with the given arguments."""
        self._begin(args)
        return self._called(args, watched)

    def _begin(self, args: Sequence[Any]) -> None:
        reseed(self.seed)
        self.subject.begin(args, self.subject.passed)

    def _called(self, args: Sequence[Any], watched: bool) -> tuple[Any, ...]:
        call = self._watched if self._watched and watched else self.subject.call
        returned = call(*self._with_their_dtypes(args))
        # If a Function returns a list, the list counts as one value that is not a tensor. Any
        # other callable may return its outputs as a list.
        whole = self.subject.function is not None and isinstance(returned, list)
        return (returned,) if whole else as_tuple(returned)

    def _with_their_dtypes(self, args: Sequence[Any]) -> Sequence[Any]:
        """Return the arguments of a call, with dtype arguments adapted to the tensors.

        If an argument is the original dtype of one of the tensors, replace it with that tensor's
        current dtype.
        """
        if not any(isinstance(arg, torch.dtype) for arg in args):
            return args
        tensors = [(one, arg) for one, arg in zip(self.inputs, args, strict=True) if is_float(one)]
        now = {one.dtype: arg.dtype for one, arg in reversed(tensors)}
        return [now.get(arg, arg) if isinstance(arg, torch.dtype) else arg for arg in args]

    def other(self) -> Session:
        """Return a session with different input values and different random numbers.

        Both sessions share all other reachable state.

        The new session halves and reverses the values, because scaling alone would not change a
        mask or the position of a maximum.
        """
        inputs = [
            0.5 * value.flip(tuple(range(value.dim())))
            if is_float(value) and position not in self.subject.passed
            else value
            for position, value in enumerate(self.inputs)
        ]
        return Session(self.subject, inputs, self.wanted, self.seed + 1, self.own_dtypes)

    def with_other_integers(self) -> Session:
        """Return a session in which the integer and bool tensors are reversed."""
        return self.with_inputs(
            {
                position: value.flip(tuple(range(value.dim())))
                for position, value in enumerate(self.inputs)
                if isinstance(value, Tensor) and not is_float(value)
            }
        )

    def others_in_form(self) -> Iterator[Session]:
        """Yield sessions with different values.

        Each session changes a number or adds one row to an input.
        """
        other = self.other()
        for position, value in enumerate(other.inputs):
            if is_number(value):
                for instead in (value + 1, value - 1, 1, 2):
                    yield other.with_inputs({position: instead})
        longer = {
            position: torch.cat([value, value[:1]])
            for position, value in enumerate(other.inputs)
            if is_float(value) and value.dim() and position not in self.subject.passed
        }
        if len(longer) > 1:
            yield other.with_inputs(longer)
        for position, value in longer.items():
            yield other.with_inputs({position: value})

    def on_cpu(self) -> Session:
        """Return a session that uses CPU copies of the inputs.

        If no input needs a copy, return this session.

        Different shapes and extreme values can make an index invalid. On the CPU, an invalid index
        raises an error. On a GPU, an invalid index makes every later GPU call in this process fail.
        A subject that needs a GPU raises an error on the CPU. ``diagnose`` then skips that call.
        """
        if all(on_cpu(value) is value for value in self.inputs):
            return self
        inputs = map(on_cpu, self.inputs)
        return Session(self.subject, tuple(inputs), self.wanted, self.seed, self.own_dtypes)

    def with_inputs(self, instead: Mapping[int, Any]) -> Session:
        """Return a session with different arguments at some positions."""
        inputs = [instead.get(position, value) for position, value in enumerate(self.inputs)]
        return Session(self.subject, inputs, self.wanted, self.seed, self.own_dtypes)

    def in_own_dtypes(self, inputs: Sequence[Any] | None = None) -> list[Any] | None:
        """Return the given inputs, or the session's inputs, in the dtypes of the caller's inputs.

        Return ``None`` if they already have these dtypes, or if their original dtypes are unknown.
        """
        inputs = self.inputs if inputs is None else inputs
        if len(inputs) != len(self.own_dtypes):
            return None
        pairs = list(zip(inputs, self.own_dtypes, strict=True))
        if all(dtype is None or value.dtype == dtype for value, dtype in pairs):
            return None
        return [value if dtype is None else value.to(dtype) for value, dtype in pairs]

    def redraw(self) -> None:
        """Reset the subject's generators to their states at the start of the call."""
        reseed(self.seed)
        self.subject.around.redraw()

    @property
    def log(self) -> CtxLog:
        """The log of the last recorded run. It is empty for a plain callable."""
        return self._watched.log if self._watched else CtxLog()
