"""Check the arguments of ``diagnose``. An invalid value raises an error with a short message."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from autograd_doctor._probes import PROBES
from autograd_doctor._rules import RULES
from autograd_doctor._safe_repr import shown
from autograd_doctor.errors import CannotDiagnoseError


def rules_named(intentional: Any) -> tuple[str, ...]:
    """Return the names of the rules that the Function breaks by design."""
    names = (intentional,) if isinstance(intentional, str) else _items(intentional)
    for name in names:
        if not isinstance(name, str):
            raise _no_names(name)
        if name not in RULES:
            close = difflib.get_close_matches(name, RULES, 1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            raise CannotDiagnoseError(
                f"intentional= got {name[:60]!r}, which is not the name of a rule.{meant}"
            )
    # A random backward has its own rule, but it is also nondeterministic.
    return (*names, "rng-not-restored") if "nondeterministic" in names else names


def _items(intentional: Any) -> tuple[Any, ...]:
    if isinstance(intentional, Collection) and not isinstance(intentional, bytes | Tensor):
        return tuple(intentional)
    raise _no_names(intentional)


def _no_names(thing: Any) -> CannotDiagnoseError:
    example = "intentional=('flipped-sign',)"
    return CannotDiagnoseError(
        f"intentional= must hold names of rules, for example {example}, not {_describe(thing)}."
    )


def require_numbers() -> None:
    """Raise an error in modes where tensors hold no numbers or represent other tensors."""
    modes = _get_current_dispatch_mode_stack()
    if torch._C._functorch.peek_interpreter_stack() is not None:
        inside = "a function that torch.func transforms (grad, vmap, jvp, …)"
    elif any(isinstance(mode, FakeTensorMode) for mode in modes):
        inside = "FakeTensorMode"
    elif torch.get_default_device().type == "meta":
        inside = "torch.device('meta')"
    else:
        return
    raise CannotDiagnoseError(
        f"call diagnose outside {inside}: tensors hold no numbers to check there."
    )


def require_callables(**given: Any) -> None:
    """Raise an error if an argument that must be callable is not."""
    for name, thing in given.items():
        if thing is not None and not callable(thing):
            raise CannotDiagnoseError(f"{name}= must be a callable, not {_describe(thing)}.")


def require_settings(level: Any, seed: Any, time_limit: Any, double_backward: Any) -> None:
    """Raise an error for an invalid level, seed, time limit or ``double_backward``."""
    if not (isinstance(level, str) and level in PROBES):
        raise CannotDiagnoseError(
            f"level= must be {' or '.join(map(repr, PROBES))}, not {_describe(level)}."
        )
    if not (isinstance(seed, int) and 0 <= seed < 2**62):
        raise CannotDiagnoseError(
            f"seed= must be an integer from 0 to 2**62, not {_describe(seed)}."
        )
    if not _is_time(time_limit):
        raise CannotDiagnoseError(
            "time_limit= must be a number of seconds, or 0 for no limit, not "
            f"{_describe(time_limit)}."
        )
    if not (double_backward is None or isinstance(double_backward, bool)):
        raise CannotDiagnoseError(
            f"double_backward= must be True, False or None, not {_describe(double_backward)}."
        )


def _is_time(limit: Any) -> bool:
    return isinstance(limit, int | float) and 0 <= limit < math.inf


def _describe(thing: Any) -> str:
    return shown(thing, 60) if isinstance(thing, int | float | str) else type(thing).__name__
