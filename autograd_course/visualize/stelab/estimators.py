"""What the lab compares: the course's estimators for one quantizer, or Functions of the learner."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.stelab.quantize import Quantize
from autograd_course.visualize.stelab.quantizers import QUANTIZERS, Quantizer
from autograd_course.visualize.stelab.surrogates import SURROGATES


@dataclass(frozen=True)
class Estimator:
    """A quantizer with the gradient that its backward returns: ``call(x)`` runs a real Function.

    ``formula`` says what backward multiplies by, ``source`` who proposed it; a learner's own
    Function has neither.
    """

    name: str
    label: str
    call: Callable[[Tensor], Tensor]
    formula: str = ""
    source: str = ""


def by_surrogate(quantizer: Quantizer) -> tuple[Estimator, ...]:
    """Return the estimators of one quantizer, one for each surrogate."""
    return tuple(_built_in(quantizer, name) for name in SURROGATES)


def own(given: Any) -> tuple[Estimator, ...]:
    """Return estimators for a Function class, or for several of them by name.

    In a mapping a value may also be the name of a surrogate; it then takes the staircase of the
    first Function in the mapping, if that is one of :data:`QUANTIZERS`.

    Raises :class:`TraceError` for anything else.
    """
    if not isinstance(given, Mapping):
        given = {getattr(given, "__name__", "it"): given}
    functions = {str(name): fn for name, fn in given.items() if not isinstance(fn, str)}
    if not functions:
        raise TraceError("There is no Function to show; give one, or the name of a quantizer.")
    for name, fn in functions.items():
        _needs_function(name, fn)
    return tuple(
        _named(str(name), fn, next(iter(functions.values())))
        if isinstance(fn, str)
        else Estimator(str(name), str(name), fn.apply)
        for name, fn in given.items()
    )


def find_quantizer(name: str) -> Quantizer:
    """Return the quantizer of a name; ``uniform`` is the one of 3 bits."""
    name = "uniform-3" if name == "uniform" else name
    if name not in QUANTIZERS:
        raise TraceError(f"There is no quantizer {name!r}; there are {', '.join(QUANTIZERS)}.")
    return QUANTIZERS[name]


def _built_in(quantizer: Quantizer, name: str) -> Estimator:
    surrogate = SURROGATES[name]
    call = partial(_apply, quantizer=quantizer, surrogate=surrogate)
    return Estimator(name, surrogate.label, call, surrogate.formula(quantizer), surrogate.source)


def _apply(x: Tensor, **declared: Any) -> Tensor:
    return Quantize.apply(x, *declared.values())  # type: ignore[no-any-return, no-untyped-call]


def _needs_function(name: str, fn: Any) -> None:
    if isinstance(fn, type) and issubclass(fn, torch.autograd.Function):
        return
    raise TraceError(
        f"ste_lab shows torch.autograd.Function classes, and {name} is not one; give the class "
        f"itself, such as ste_lab(MySTE), or the name of a quantizer, such as ste_lab('sign')."
    )


def _named(label: str, surrogate: str, like: Any) -> Estimator:
    if surrogate not in SURROGATES:
        raise TraceError(f"There is no surrogate {surrogate!r}; there are {', '.join(SURROGATES)}.")
    found = _built_in(_quantizer_of(like), surrogate)
    return Estimator(label, label, found.call, found.formula, found.source)


def _quantizer_of(fn: Any) -> Quantizer:
    """Return the quantizer that has the staircase of ``fn``, seen between its jumps."""
    x = torch.linspace(-2.99, 2.99, 301, dtype=torch.float64)
    try:
        with torch.no_grad():
            levels = fn.apply(x.clone())
        alike = [q for q in QUANTIZERS.values() if torch.allclose(q.quantize(x), levels)]
    except Exception:  # what it raises is told where it is captured
        alike = []
    if not alike:
        raise TraceError(
            f"The staircase of {fn.__name__} is none of {', '.join(QUANTIZERS)}, so a surrogate's "
            "name has nothing to go with; give Functions only."
        )
    return alike[0]
