"""``function_lab``: from what a notebook passes to a widget."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from autograd_course.visualize.functionlab.catalog import entries
from autograd_course.visualize.functionlab.subject import Range, Subject, subject
from autograd_course.visualize.functionlab.widget import FunctionLab
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.inputs import title


def function_lab(
    fn: Any = None,
    *parameters: Any,
    x: float | Tensor = 1.0,
    names: Sequence[str] | None = None,
    ranges: Mapping[str, Range] | None = None,
) -> FunctionLab:
    """Show a Function of one number x: drag x, and see forward and backward run line by line.

    Each x has one real forward and backward pass in float64, in which the lines that ran are
    recorded. The slope of ``backward`` is ``∂L/∂x / grad_output``. Next to it is the slope of
    ``forward`` by finite differences, with a step of 1e-5 of max(1, \\|x\\|).

    Args:
        fn: A Function class or any callable, called as ``fn(x, *parameters)`` on scalars, or
            several of them in a list or by name in a dict. By default the course's reference
            Functions.
        parameters: Further arguments. Those that are numbers or scalar tensors have sliders. What
            is left out is taken from forward's defaults.
        x: Where the lab begins.
        names: Names for x and the parameters.
        ranges: The ranges of the sliders, as in ``{"x": (-3.0, 3.0)}``.

    Returns:
        A widget, which a notebook shows.

    Raises:
        TraceError: ``fn`` cannot be run, or has no curve.

    Example:
        >>> from autograd_course.functions import Square
        >>> from autograd_course.visualize import function_lab
        >>> type(function_lab(Square, x=2.0)).__name__
        'FunctionLab'
    """
    if fn is None:
        return FunctionLab(_references(parameters, x, ranges))
    found = {name: subject(name, one, parameters, x, names, ranges) for name, one in _named(fn)}
    return FunctionLab(found)


def _references(
    parameters: Sequence[Any], x: float | Tensor, ranges: Mapping[str, Range] | None
) -> dict[str, Subject]:
    if parameters or ranges:
        raise TraceError(
            "parameters and ranges belong to a function of yours: pass it first, "
            "as in function_lab(Square, ranges={'x': (-2, 2)})."
        )
    return {e.name: subject(e.name, e.fn, e.parameters, x, None, e.ranges) for e in entries()}


def _named(fn: Any) -> list[tuple[str, Any]]:
    if isinstance(fn, Mapping):
        pairs = [(str(name), one) for name, one in fn.items()]
    elif isinstance(fn, list | tuple):
        titles = [title(one) for one in fn]
        again = [titles[:i].count(name) for i, name in enumerate(titles)]
        called = [f"{n} {k + 1}" if k else n for n, k in zip(titles, again, strict=True)]
        pairs = list(zip(called, fn, strict=True))
    else:
        return [(title(fn), fn)]
    if not pairs:
        raise TraceError("There is no function in what was passed; pass at least one to show.")
    return pairs
