"""The call that is traced: its arguments as fresh leaves, and what everything is called."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from autograd_doctor.memory import fresh_leaves as copies
from torch import Tensor

from autograd_course.grader.calls import is_float, takes_ctx
from autograd_course.visualize.kit.errors import TraceError


def as_callable(fn: Any, shown_by: str) -> Callable[..., Any]:
    """Return what is to be called: ``.apply`` of a Function class, else ``fn`` itself.

    Raises :class:`TraceError`, which tells how ``shown_by`` is called.
    """
    if _is_function(fn):
        return fn.apply  # type: ignore[no-any-return]
    if isinstance(fn, type) and issubclass(fn, torch.nn.Module):
        raise TraceError(
            f"{title(fn)} is the class of a module; make one and pass that: "
            f"{shown_by}({title(fn)}(...), x)."
        )
    if not callable(fn):
        raise TraceError(
            f"{shown_by} needs a function to run as its first argument, not {_kind(fn)}; "
            f"write {shown_by}(loss, x, y) rather than {shown_by}(loss(x, y))."
        )
    return fn  # type: ignore[no-any-return]


def _is_function(fn: Any) -> bool:
    return isinstance(fn, type) and issubclass(fn, torch.autograd.Function)


def title(fn: Any) -> str:
    """Return the name of a function, a class or an object's class."""
    name = getattr(fn, "__name__", type(fn).__name__)
    return "function" if name == "<lambda>" else str(name)


def fresh_leaves(inputs: Sequence[Any]) -> list[Any]:
    """Copy the arguments as ``memory.fresh_leaves`` does.

    Raises :class:`TraceError` if no argument can have a gradient.
    """
    if not any(is_float(x) for x in inputs):
        given = ", ".join(_kind(x) for x in inputs) or "no arguments"
        raise TraceError(
            f"No input can have a gradient (given: {given}); "
            "pass a floating-point tensor such as torch.tensor(2.0)."
        )
    return copies(inputs)


def input_names(fn: Any, inputs: Sequence[Any], names: Sequence[str] | None) -> list[str]:
    """Return a name for each argument: the given ones, else the parameters' own."""
    if names is not None:
        if not isinstance(names, Sequence):
            raise TraceError('names is a list with one name an input, such as names=["x", "y"].')
        if len(names) != len(inputs):
            raise TraceError(
                f"names has {len(names)} entries for {len(inputs)} inputs; give one name an input."
            )
        return [str(name) for name in names]
    known = list(_parameters(fn))
    spare = ["input"] if len(inputs) == 1 else [f"input {i + 1}" for i in range(len(inputs))]
    return [*known[: len(inputs)], *spare[len(known) :]]


def _parameters(fn: Any) -> Iterator[str]:
    if _is_function(fn):
        fn, skip = fn.forward, int(takes_ctx(fn))
    else:
        fn, skip = getattr(fn, "forward", fn) if isinstance(fn, torch.nn.Module) else fn, 0
    try:
        parameters = list(inspect.signature(fn).parameters.values())[skip:]
    except (TypeError, ValueError):  # a built-in has no signature
        return
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    yield from (p.name for p in parameters if p.kind in positional)


def captured_names(fn: Any) -> dict[int, str]:
    """Name the tensors that ``fn`` reaches by itself, by ``id``: parameters and outer variables."""
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
