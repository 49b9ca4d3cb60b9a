"""The example call for a Function: described, made by the user's code, or drawn by a sampler."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from autograd_doctor._execution.calls import takes_ctx
from torch.autograd import Function

from autograd_course.check.errors import NotUnderstoodError, raised
from autograd_course.check.specs import inputs_from
from autograd_course.check.targets import is_target, load

Sampler = Callable[[torch.Generator], Any]


def example(
    target: str, fn: Any, text: str | None, sampler: Sampler | None, seed: int
) -> tuple[Any, ...]:
    """Return the arguments from ``--inputs``, or the first ones that the sampler draws.

    Raises :class:`NotUnderstoodError` if there are too few arguments, because this is not the
    Function's fault.
    """
    if text is not None:
        made = _made(text, seed)
    elif sampler is not None:
        rng = torch.Generator().manual_seed(seed)
        made = _called("the sampler", partial(sampler, rng))
    else:
        needed = ", ".join(left_out(fn, 0)) or "arguments"
        raise NotUnderstoodError(
            f"{target} needs {needed}. Describe each argument, as in --inputs 'f64[3,4] 0.5', or "
            "name a callable that returns them, as in --inputs file.py:make_inputs."
        )
    arguments = tuple(made) if isinstance(made, tuple | list) else (made,)
    if missing := left_out(fn, len(arguments)):
        raise NotUnderstoodError(f"{target} also needs {', '.join(missing)}. Add it to --inputs.")
    return arguments


def _made(text: str, seed: int) -> Any:
    if not is_target(text):
        return inputs_from(text, seed)
    found = load(text)
    return _called(text, found) if callable(found) else found


def _called(name: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (Exception, SystemExit) as error:
        raise raised(f"Calling {name}", error) from error


def left_out(fn: Any, given: int) -> list[str]:
    """Return the required parameters that a call with ``given`` arguments leaves out.

    The list is empty if the signature is unknown or wrong, because the doctor reports that.
    """
    called, skipped = fn, 0
    if isinstance(fn, type):
        if not issubclass(fn, Function) or inspect.isfunction(vars(fn).get("forward")):
            return []
        called, skipped = fn.forward, int(takes_ctx(fn))
    elif isinstance(fn, torch.nn.Module):
        called = fn.forward
    try:
        parameters = list(inspect.signature(called).parameters.values())[skipped:]
    except (TypeError, ValueError):
        return []
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [p.name for p in positional[given:] if p.default is p.empty]
