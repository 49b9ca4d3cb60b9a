"""The function to examine. It takes a number x and other arguments, each with a range."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.inputs import (
    as_callable,
    finite_number,
    finite_range,
    input_names,
    positional_parameters,
    require_values,
)

Range = tuple[float, float]
GRAD_OUTPUT = "grad_output"
_LEAST_REACH = 3.0


@dataclass(frozen=True)
class Subject:
    """A function called as ``fn(x, *arguments)``. The first entry of ``names`` is the name of x.

    ``values`` contains ``grad_output`` and the arguments that have sliders.
    """

    name: str
    fn: Any
    x: float
    device: torch.device
    arguments: tuple[Any, ...]
    names: tuple[str, ...]
    ranges: Mapping[str, Range]

    def values(self) -> dict[str, float]:
        """Return the original values of ``grad_output`` and of the arguments that have sliders."""
        given = zip(self.names[1:], self.arguments, strict=True)
        return {name: float(v) for name, v in given if _movable(v)} | {GRAD_OUTPUT: 1.0}

    def range(self, name: str) -> Range:
        """Return the range of the named quantity: x, an argument, or ``grad_output``."""
        if name in self.ranges:
            return self.ranges[name]
        value = self.x if name == self.names[0] else self.values()[name]
        given = dict(zip(self.names[1:], self.arguments, strict=True)).get(name)
        if isinstance(given, int | float) and given > 0:  # a factor, a ceiling, a temperature
            return 0.1 * given, 2.0 * given
        reach = max(_LEAST_REACH, 2 * abs(value))
        return -reach, reach

    def whole(self, name: str) -> bool:
        """Return whether an argument is an integer. Its slider then has only integer positions."""
        given = dict(zip(self.names[1:], self.arguments, strict=True)).get(name)
        return isinstance(given, int)

    def inputs(self, x: float, values: Mapping[str, float], graph: bool) -> list[Any]:
        """Return new float64 tensors for a call. With ``graph``, the tensors require grad.

        Each call gets its own copies, so that in-place changes in one call do not affect later
        calls.
        """
        moved = [values.get(name) for name in self.names[1:]]
        pairs = zip(self.arguments, moved, strict=True)
        others = [_fresh(given, value, graph) for given, value in pairs]
        leaf = torch.tensor(x, dtype=torch.float64, device=self.device, requires_grad=graph)
        return [leaf, *others]

    @property
    def on_three(self) -> str:
        """The code that converts a function of a tensor to a function of a scalar."""
        apply = ".apply" if isinstance(self.fn, type) else ""
        return f"lambda x: {self.name}{apply}(x.expand(3), ...).sum()"

    def call(self, inputs: Sequence[Any]) -> Any:
        """Call the function at x and return its result."""
        return as_callable(self.fn, "function_lab")(*inputs)


def _movable(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.shape == () and value.is_floating_point() and bool(value.isfinite())
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _fresh(given: Any, value: float | None, graph: bool) -> Any:
    if not isinstance(given, Tensor):
        return given if value is None else round(value) if isinstance(given, int) else value
    copy = given.detach().clone() if value is None else torch.full_like(given.detach(), value)
    if not copy.is_floating_point():
        return copy
    copy = copy.double() if value is None else copy.double().fill_(value)
    # Arguments without a slider are constants, unless the caller says otherwise.
    return copy.requires_grad_(graph and (value is not None or given.requires_grad))


def subject(
    name: str,
    fn: Any,
    parameters: Sequence[Any],
    x: float | Tensor,
    names: Sequence[str] | None,
    ranges: Mapping[str, Range] | None,
) -> Subject:
    """Check the arguments, and add the default values and parameter names of the function.

    Raises :class:`TraceError` for an argument that is not a function, a number or a known range.
    """
    if not callable(fn):
        raise TraceError(
            f"function_lab needs a Function class or a callable, not {fn!r}; write "
            "function_lab(Square), not function_lab(Square.apply(x))."
        )
    require_values(parameters)
    arguments = (*parameters, *_defaults(name, fn, len(parameters)))
    called = tuple(input_names(fn, [x, *arguments], names))
    tensors = [value for value in (x, *arguments) if isinstance(value, Tensor)]
    device = tensors[0].device if tensors else torch.device("cpu")
    found = Subject(
        name, fn, finite_number("x", x, 2.0), device, arguments, called, _checked(ranges)
    )
    if wrong := set(found.ranges) - {called[0], *found.values()}:
        known = ", ".join((called[0], *found.values()))
        raise TraceError(
            f"ranges contains {min(wrong)!r}, but {name} has sliders only for: {known}."
        )
    return found


def _checked(ranges: Mapping[str, Range] | None) -> dict[str, Range]:
    if ranges is None:
        return {}
    if not isinstance(ranges, Mapping):
        raise TraceError('ranges must be a dict of ranges by name, such as {"x": (-3.0, 3.0)}.')
    return {name: finite_range(name, pair) for name, pair in ranges.items()}


def _defaults(name: str, fn: Any, given: int) -> list[Any]:
    """Return the default values of missing arguments, up to the first one without a default."""
    expected = positional_parameters(fn)[1 + given :]  # the first parameter is x
    if missing := [p.name for p in expected if p.default is inspect.Parameter.empty]:
        raise TraceError(
            f"{name} needs a value for {missing[0]!r}; pass it after the function, "
            f"as in function_lab(F, 1.0), in the order of forward's arguments."
        )
    return [p.default for p in expected]
