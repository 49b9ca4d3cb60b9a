"""The arguments of the call that ``check`` examines.

The arguments come from a string, from user code or from a sampler. The string describes all
arguments, as in ``f64[3,4] i64[5]<4 0.5``.

Spaces separate the arguments. Each argument is a tensor or a literal.

================  ============================================================================
``f64[3,4]``      standard normal numbers, including both parts of complex numbers
``f64[]``         a tensor without dimensions
``f64[3]>0``      above 0 (or another number): 0 + exp(z), where z is standard normal
``f64[3]<1``      below 1: 1 - exp(z)
``f64[3](-1,1)``  uniform between -1 and 1, except for 1 % of the range at each end
``i64[5]``        integers from 0 to 9
``i64[5]<4``      integers from 0 to 3
``i64[5](2,6)``   integers from 2 to 5, like ``range(2, 6)``
``bool[3]``       true or false
``const f64[3]``  a tensor that needs no gradient
``0.5`` ``True``  numbers, ``True``, ``False``, ``None``, and strings in quotes
``(2,2)``         tuples and lists of literals
================  ============================================================================

The dtypes are f16, f32, f64, bf16, c64, c128, i32, i64, bool, and PyTorch's names for them.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_doctor._execution.calls import takes_ctx
from autograd_doctor._targets import NotUnderstoodError, is_target, load, meant, raised

# --------------------------------------------------------------------------------------------------
# Random tensors with a given dtype, shape and range.
# --------------------------------------------------------------------------------------------------

DIGITS = (0, 10)  # the default range of integers: 0 to 9


@dataclass(frozen=True)
class Draw:
    """The description of a random tensor.

    If ``low`` and ``high`` are given, all elements are between them.

    If ``const`` is true, ``diagnose`` does not differentiate with respect to this tensor.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    const: bool = False

    @property
    def is_float(self) -> bool:
        """Whether the tensor can have a gradient."""
        return self.dtype.is_floating_point or self.dtype.is_complex

    def __call__(self, rng: torch.Generator) -> Tensor:
        """Draw in the widest dtype and then round so that every dtype gets the same numbers."""
        if self.dtype is torch.bool:
            return torch.randint(2, self.shape, generator=rng).bool()
        if self.dtype.is_complex:
            return torch.randn(self.shape, generator=rng, dtype=torch.complex128).to(self.dtype)
        numbers = self._floats(rng) if self.is_float else self._integers(rng)
        return numbers.to(self.dtype)

    def _integers(self, rng: torch.Generator) -> Tensor:
        low = DIGITS[0] if self.low is None else int(self.low)
        high = DIGITS[1] if self.high is None else int(self.high)
        return torch.randint(low, high, self.shape, generator=rng)

    def _floats(self, rng: torch.Generator) -> Tensor:
        if self.low is not None and self.high is not None:
            # Stay away from both ends, because rounding and finite differences must not reach them.
            part = 0.01 + 0.98 * torch.rand(self.shape, generator=rng, dtype=torch.float64)
            return self.low + (self.high - self.low) * part
        z = torch.randn(self.shape, generator=rng, dtype=torch.float64)
        if self.low is not None:
            return self.low + z.exp()
        return z if self.high is None else self.high - z.exp()


# --------------------------------------------------------------------------------------------------
# A string that describes the arguments.
# --------------------------------------------------------------------------------------------------

DTYPES = {
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "c64": torch.complex64,
    "c128": torch.complex128,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}
MOST_ELEMENTS = 10**7

# An argument can contain spaces only after const, in quotes, or in brackets (nested at most once).
_ARGUMENT = re.compile(
    r"""(?:const\s+)?(?:'[^']*'|"[^"]*"|\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\]|\S)+"""
)
_TENSOR = re.compile(r"(?P<const>const\s+)?(?P<dtype>[A-Za-z]\w*)\[(?P<shape>.*?)\](?P<range>.*)")
_SHAPE = re.compile(r"\s*(\d+\s*(,\s*\d+\s*)*)?")
_END = r"[^,()<>]+"
_RANGE = re.compile(rf">(?P<above>{_END})|<(?P<below>{_END})|\((?P<low>{_END}),(?P<high>{_END})\)")


def inputs_from(spec: str, seed: int = 0) -> tuple[Any, ...]:
    """Return the arguments that a string describes. The same seed gives the same numbers.

    Raises :class:`NotUnderstoodError` with a message that quotes the invalid argument.
    """
    described = [_described(argument) for argument in _ARGUMENT.findall(spec)]
    if not described:
        raise NotUnderstoodError("--inputs is empty. Describe each argument, as in 'f64[3,4] 0.5'.")
    rng = torch.Generator().manual_seed(seed)
    values = [d(rng) if isinstance(d, Draw) else d for d in described]
    for position in _asking(described):
        values[position].requires_grad_()
    return tuple(values)


def _asking(described: Sequence[Any]) -> Iterator[int]:
    """Yield the positions of tensors that must require grad because other tensors are ``const``."""
    floats = {i: d for i, d in enumerate(described) if isinstance(d, Draw) and d.is_float}
    const = [i for i, draw in floats.items() if draw.const]
    if const and len(const) == len(floats):
        raise NotUnderstoodError(
            "Every floating-point tensor is const. Remove const from at least one."
        )
    return (i for i in floats if const and i not in const)


def _described(text: str) -> Any:
    """Return the :class:`Draw` that an argument describes, or the value of a literal."""
    if text.endswith(","):
        raise _refused(text, "separate arguments with spaces, not with commas.")
    tensor = _TENSOR.fullmatch(text)
    if tensor is None:
        return _literal(text)
    dtype = _dtype(text, tensor["dtype"])
    if not _SHAPE.fullmatch(tensor["shape"]):
        raise _refused(text, "a shape consists of integers, as in f64[3,4] or f64[].")
    shape = tuple(int(length) for length in tensor["shape"].split(",") if length.strip())
    if math.prod(shape) > MOST_ELEMENTS:
        raise _refused(text, "this tensor is too large. A few elements are enough.")
    return Draw(dtype, shape, *_bounds(text, dtype, tensor["range"]), const=bool(tensor["const"]))


def _dtype(text: str, name: str) -> torch.dtype:
    dtype = DTYPES.get(name, getattr(torch, name, None))
    if isinstance(dtype, torch.dtype) and dtype in DTYPES.values():
        return dtype
    known = [*DTYPES, *map(_torchs_name, DTYPES.values())]
    raise _refused(text, f"{name} is not a dtype" + meant(name, known))


def _torchs_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _bounds(text: str, dtype: torch.dtype, written: str) -> tuple[float | None, float | None]:
    """Return the lower and upper bounds of a range.

    A missing bound is ``None``. An integer range always has both bounds.
    """
    if not written:
        return None, None
    found = _RANGE.fullmatch(written)
    if found is None:
        raise _refused(text, f"{written} is not a range. Write it as >0, <1 or (0,1).")
    if dtype.is_complex or dtype is torch.bool:
        raise _refused(text, "only real numbers and integers can have a range.")
    if found["above"] and not dtype.is_floating_point:
        raise _refused(text, "a range of integers needs both ends, as in i64[5](1,10).")
    low = _number(text, dtype, found["above"] or found["low"])
    high = _number(text, dtype, found["below"] or found["high"])
    if low is None and not dtype.is_floating_point:
        low = 0
    if low is not None and high is not None and not low < high:
        raise _refused(text, f"there is no number between {low} and {high}.")
    return low, high


def _number(text: str, dtype: torch.dtype, written: str | None) -> float | None:
    if written is None:
        return None
    read, limits = (float, torch.finfo) if dtype.is_floating_point else (int, torch.iinfo)
    try:
        number: float = read(written)
    except ValueError:
        number = math.nan
    if not abs(number) <= limits(dtype).max:
        raise _refused(text, f"{written} is not a valid {_torchs_name(dtype)} number.")
    return number


def _literal(text: str) -> Any:
    """Return the value of a Python literal."""
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError):
        pass
    word = re.match(r"(?:const\s*)?(\w*)", text)
    if word and (word[1] in DTYPES or text.startswith("const")):
        raise _refused(text, "write the shape of a tensor in brackets, as in f64[3,4] or f64[].")
    problem = "this is neither a tensor such as f64[3,4] nor a literal. Put strings in quotes."
    if text.isidentifier():
        problem += f" To call a function with this name, write the file as well: file.py:{text}."
    raise _refused(text, problem)


def _refused(text: str, problem: str) -> NotUnderstoodError:
    return NotUnderstoodError(f"`{text}`: {problem}")


# --------------------------------------------------------------------------------------------------
# The arguments of the example call.
# --------------------------------------------------------------------------------------------------

Sampler = Callable[[torch.Generator], Any]


def example(
    target: str, fn: Any, text: str | None, sampler: Sampler | None, seed: int
) -> tuple[Any, ...]:
    """Return the arguments from ``--inputs``, or the first arguments that the sampler draws.

    Raises :class:`NotUnderstoodError` if arguments are missing, because the mistake is in the
    command line and not in the Function.
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
    """Return the required parameters that a call with ``given`` arguments omits.

    The list is empty if the signature is unknown or invalid. The doctor reports that problem
    separately.
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
