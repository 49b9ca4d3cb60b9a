"""Check, copy and name the arguments of the traced call."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from autograd_doctor.memory import fresh_leaves as copies
from torch import Tensor

from autograd_course.visualize.kit.errors import TraceError


def as_callable(fn: Any, shown_by: str) -> Callable[..., Any]:
    """Return the callable to trace: ``.apply`` of a Function class, or else ``fn`` itself.

    Raises :class:`TraceError` with a message that shows how to call ``shown_by``.
    """
    if _is_function(fn):
        return fn.apply  # type: ignore[no-any-return]
    if isinstance(fn, type) and issubclass(fn, torch.nn.Module):
        raise TraceError(
            f"{title(fn)} is a module class; create a module and pass it: "
            f"{shown_by}({title(fn)}(...), x)."
        )
    if not callable(fn):
        raise TraceError(
            f"{shown_by} needs a function to run as its first argument, not {_kind(fn)}; "
            f"write {shown_by}(loss, x, y), not {shown_by}(loss(x, y))."
        )
    return fn  # type: ignore[no-any-return]


def _is_function(fn: Any) -> bool:
    return isinstance(fn, type) and issubclass(fn, torch.autograd.Function)


def title(fn: Any) -> str:
    """Return the name of a function or class. For any other object, return its class name."""
    name = getattr(fn, "__name__", type(fn).__name__)
    return "function" if name == "<lambda>" else str(name)


def fresh_leaves(inputs: Sequence[Any]) -> list[Any]:
    """Copy the arguments with ``memory.fresh_leaves``.

    Raises :class:`TraceError` if no argument can have a gradient.
    """
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    if not any(x.is_floating_point() or x.is_complex() for x in tensors):
        given = ", ".join(_kind(x) for x in inputs) or "no arguments"
        raise TraceError(
            f"No input can have a gradient (given: {given}); "
            "pass a floating-point tensor such as torch.tensor(2.0)."
        )
    return copies(inputs)


def input_names(fn: Any, inputs: Sequence[Any], names: Sequence[str] | None) -> list[str]:
    """Return a name for each argument: the given name, or else the name of the parameter."""
    if names is not None:
        if not isinstance(names, Sequence):
            raise TraceError(
                'names must be a list with a name for each input, such as names=["x", "y"].'
            )
        if len(names) != len(inputs):
            raise TraceError(
                f"names has {len(names)} entries for {len(inputs)} inputs; "
                "pass a name for each input."
            )
        return [str(name) for name in names]
    known = [parameter.name for parameter in positional_parameters(fn)]
    spare = ["input"] if len(inputs) == 1 else [f"input {i + 1}" for i in range(len(inputs))]
    return [*known[: len(inputs)], *spare[len(known) :]]


def positional_parameters(fn: Any) -> list[inspect.Parameter]:
    """Return the positional parameters of a call, excluding ``ctx`` in a Function's forward.

    The list is empty for a built-in, which has no signature.
    """
    skip = int(_is_function(fn) and fn.setup_context is torch.autograd.Function.setup_context)
    called = fn.forward if _is_function(fn) or isinstance(fn, torch.nn.Module) else fn
    try:
        parameters = list(inspect.signature(called).parameters.values())[skip:]
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter for parameter in parameters if parameter.kind in kinds]


def captured_names(fn: Any) -> dict[int, str]:
    """Map the ``id`` of each tensor that ``fn`` uses, apart from its arguments, to its name."""
    owner = getattr(fn, "__self__", fn)
    reached: dict[str, Any] = {"": owner} if isinstance(owner, torch.nn.Module) else {}
    if inspect.isfunction(fn):
        variables = inspect.getclosurevars(fn)
        reached |= {**variables.globals, **variables.nonlocals}
    named: dict[int, str] = {}
    for name, value in reached.items():
        if isinstance(value, Tensor):
            named[id(value)] = name
        elif isinstance(value, torch.nn.Module):
            prefix = f"{name}." if name else ""
            named |= {id(p): f"{prefix}{path}" for path, p in value.named_parameters()}
    return named


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')}"
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}"


def require_values(given: Sequence[Any]) -> None:
    """Raise ``TraceError`` if an input has no values, such as a meta tensor."""
    meta = "is on the meta device, where tensors have no values; pass a tensor on the CPU"
    _require(given, "Input", lambda x: x.is_meta, meta)


def require_dense(given: Sequence[Any], what: str = "Input", repair: str = "pass") -> None:
    """Raise ``TraceError`` if a tensor is sparse."""
    sparse = f"is sparse, but this view shows every element; {repair} it as .to_dense()"
    _require(given, what, lambda x: x.layout != torch.strided, sparse)


def _require(given: Sequence[Any], what: str, lacks: Callable[[Tensor], bool], why: str) -> None:
    for place, x in enumerate(given, 1):
        if isinstance(x, Tensor) and x.is_nested:
            raise TraceError(
                f"{what} {place} is a nested tensor, whose parts have different shapes; "
                "use one of its parts."
            )
        if isinstance(x, Tensor) and lacks(x):
            raise TraceError(f"{what} {place} {why}.")


def finite_number(what: str, given: Any, example: float) -> float:
    """Check that a value is a finite number, and return it. Accept a tensor with one element."""
    alone = given.detach() if isinstance(given, Tensor) else given
    try:
        value = math.nan if isinstance(given, str | bool) else float(alone)
    except (TypeError, ValueError, RuntimeError):
        value = math.nan
    if not math.isfinite(value):
        raise TraceError(f"{what} must be a finite number, such as {what}={example}.")
    return value


def whole_number(what: str, given: Any, example: int) -> int:
    """Check that a value is a nonnegative integer, and return it."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise TraceError(
            f"{what} must be a whole number, 0 or more, such as {what}={example}, "
            f"not {type(given).__name__ if not isinstance(given, int) else given}."
        )
    return given


def finite_range(name: str, given: Any) -> tuple[float, float]:
    """Check that an input's range is two finite numbers in ascending order, and return it."""
    try:
        low, high = map(float, given) if isinstance(given, tuple | list) else (0.0, 0.0)
    except (TypeError, ValueError, RuntimeError):
        low = high = 0.0
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        told = given if isinstance(given, tuple | list | str | float | int) else type(given)
        raise TraceError(
            f"The range of {name!r} is {told!r}; pass two finite numbers, the lower one first."
        )
    return low, high
