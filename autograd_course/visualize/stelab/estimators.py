"""Straight-through estimators: a quantizer in forward and a surrogate gradient in backward.

To add a quantizer or a surrogate, add it to :data:`QUANTIZERS` or :data:`SURROGATES`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograd_course.visualize.kit.errors import TraceError

# --------------------------------------------------------------------------------------------------
# Quantizers: staircases whose derivative is 0 wherever it exists.
# --------------------------------------------------------------------------------------------------

_FAR = 8  # round and floor have infinitely many jumps; only those up to this one are listed


@dataclass(frozen=True)
class Quantizer:
    """An elementwise staircase ``quantize``, for any shape and any real floating-point dtype.

    The staircase jumps by ``step`` at each x in ``jumps``. Outside the interval ``reach``, it
    saturates. ``round`` and ``floor`` never saturate, and their ``reach`` is set to -2 … 2.
    """

    name: str
    label: str
    quantize: Callable[[Tensor], Tensor]
    jumps: tuple[float, ...]
    step: float
    reach: tuple[float, float]


def sign(x: Tensor) -> Tensor:
    """Return +1 if ``x >= 0``, else -1. (``torch.sign`` has a third level: it is 0 at 0.)"""
    return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


def ternary(x: Tensor) -> Tensor:
    """Return the nearest of -1, 0 and 1. At ±0.5, return 0, which is even."""
    return x.round().clamp(-1, 1)


def uniform(bits: int) -> Quantizer:
    """Return the fake quantizer with 2^bits levels on [-2, 2): ``s · clamp(round(x / s), …)``.

    The scale is ``s = 4 / 2^bits``. The integers are signed ``bits``-bit integers, from
    ``-2^(bits-1)`` to ``2^(bits-1) - 1``, as in ``torch.fake_quantize_per_tensor_affine``.
    """
    count = 2**bits
    scale, least, most = 4 / count, -count // 2, count // 2 - 1

    def quantize(x: Tensor) -> Tensor:
        integers: Tensor = (x / scale).round().clamp(least, most)
        return torch.mul(integers, scale)

    jumps = tuple((k + 0.5) * scale for k in range(least, most))
    reach = ((least - 0.5) * scale, (most + 0.5) * scale)
    return Quantizer(f"uniform-{bits}", f"uniform, {bits} bits", quantize, jumps, scale, reach)


QUANTIZERS = {
    quantizer.name: quantizer
    for quantizer in (
        Quantizer("sign", "sign", sign, (0.0,), 2.0, (-1.0, 1.0)),
        Quantizer("ternary", "ternary", ternary, (-0.5, 0.5), 1.0, (-1.5, 1.5)),
        uniform(2),
        uniform(3),
        uniform(4),
        Quantizer(
            "round",
            "round",
            torch.round,
            tuple(k + 0.5 for k in range(-_FAR, _FAR)),
            1.0,
            (-2.0, 2.0),
        ),
        Quantizer(
            "floor",
            "floor",
            torch.floor,
            tuple(map(float, range(-_FAR, _FAR + 1))),
            1.0,
            (-2.0, 2.0),
        ),
    )
}


# --------------------------------------------------------------------------------------------------
# Surrogates: the functions that replace the derivative of a staircase.
#
# Each surrogate uses a smooth or piecewise linear curve h through the staircase. Backward
# multiplies by h′. The quantizer's reach determines the curve's center c and half-width r.
#
# ReinMax (Liu et al. 2023) is not among them. It is a second-order estimate for the expectation
# over a *sampled* category. A deterministic quantizer does not sample: its expectation is the
# staircase itself, so Heun's method has no integral to approximate.
# --------------------------------------------------------------------------------------------------

_SHARPNESS = 8.0  # the sigmoid's slope at a jump is a quarter of this, for any step


@dataclass(frozen=True)
class Surrogate:
    """A surrogate gradient. ``slope(x, quantizer)`` is h′(x), elementwise, in the dtype of ``x``.

    ``formula(quantizer)`` is the formula of the factor in backward, as text. ``source`` names the
    authors.
    """

    name: str
    label: str
    formula: Callable[[Quantizer], str]
    source: str
    slope: Callable[[Tensor, Quantizer], Tensor]


def _zero(x: Tensor, quantizer: Quantizer) -> Tensor:
    return torch.zeros_like(x)


def _identity(x: Tensor, quantizer: Quantizer) -> Tensor:
    return torch.ones_like(x)


def _clipped(x: Tensor, quantizer: Quantizer) -> Tensor:
    low, high = quantizer.reach
    return ((x >= low) & (x <= high)).to(x.dtype)


def _tanh(x: Tensor, quantizer: Quantizer) -> Tensor:
    low, high = quantizer.reach
    center, half = (low + high) / 2, (high - low) / 2
    return 1 - torch.tanh((x - center) / half) ** 2


def _sigmoid(x: Tensor, quantizer: Quantizer) -> Tensor:
    jumps = torch.tensor(quantizer.jumps, dtype=x.dtype, device=x.device)
    sharpness = _SHARPNESS / quantizer.step
    rise = torch.sigmoid(sharpness * (x.unsqueeze(-1) - jumps))
    return _SHARPNESS * (rise * (1 - rise)).sum(-1)


def _clipped_formula(quantizer: Quantizer) -> str:
    low, high = quantizer.reach
    return f"1 for {low:g} ≤ x ≤ {high:g}, else 0"


def _tanh_formula(quantizer: Quantizer) -> str:
    low, high = quantizer.reach
    center, half = (low + high) / 2, (high - low) / 2
    shifted = f"(x {'+' if center < 0 else '−'} {abs(center):g})" if center else "x"
    return f"1 − tanh²({shifted}{f' / {half:g}' if half != 1 else ''})"


def _sigmoid_formula(quantizer: Quantizer) -> str:
    return "8 σ(1 − σ), summed over the jumps" if len(quantizer.jumps) > 1 else "8 σ(4x)(1 − σ(4x))"


SURROGATES = {
    surrogate.name: surrogate
    for surrogate in (
        Surrogate("zero", "zero (true)", lambda _: "0", "the true derivative", _zero),
        Surrogate("identity", "identity", lambda _: "1", "Bengio et al. 2013", _identity),
        Surrogate("clipped", "clipped", _clipped_formula, "Hubara et al. 2016", _clipped),
        Surrogate("tanh", "tanh", _tanh_formula, "after Qin et al. 2020", _tanh),
        Surrogate("sigmoid", "sigmoid", _sigmoid_formula, "Yang et al. 2019", _sigmoid),
    )
}


# --------------------------------------------------------------------------------------------------
# Quantizers and surrogates together: the course's estimators for one quantizer, or a learner's
# Functions.
# --------------------------------------------------------------------------------------------------


class Quantize(torch.autograd.Function):
    """A straight-through estimator: a staircase in forward and a surrogate's slope in backward.

    Forward: ``y = q(x)``. Backward: ``∂L/∂x := h′(x) · ∂L/∂y`` by design, where the true
    derivative ``q′`` is 0 almost everywhere.

    ``x`` can have any shape and any real floating-point dtype. ``y`` and the gradient have the same
    shape and dtype. The Function saves its input. Backward consists of differentiable operations,
    so double backward gives the second derivative of the surrogate. Source: Bengio, Léonard and
    Courville 2013, arXiv:1308.3432.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, quantizer: Quantizer, surrogate: Surrogate) -> Tensor:
        """Return ``q(x)`` and save ``x``."""
        ctx.save_for_backward(x)
        ctx.quantizer, ctx.surrogate = quantizer, surrogate
        return quantizer.quantize(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """Return ``h′(x) · grad_output``, and ``None`` for arguments that are not tensors."""
        (x,) = ctx.saved_tensors
        return ctx.surrogate.slope(x, ctx.quantizer) * grad_output, None, None


@dataclass(frozen=True)
class Estimator:
    """A quantizer with a backward. ``call(x)`` runs a real Function.

    ``formula`` is the formula of the factor in backward, as text. ``source`` names the authors. A
    learner's own Function has no ``formula`` and no ``source``.
    """

    name: str
    label: str
    call: Callable[[Tensor], Tensor]
    formula: str = ""
    source: str = ""


def by_surrogate(quantizer: Quantizer) -> tuple[Estimator, ...]:
    """Return an estimator for each surrogate, with the same quantizer."""
    return tuple(_built_in(quantizer, name) for name in SURROGATES)


def own(given: Any) -> tuple[Estimator, ...]:
    """Return estimators for one Function class, or for several classes by name.

    A value in a mapping can also be the name of a surrogate, which uses the staircase of the
    mapping's first Function. This staircase must be one of :data:`QUANTIZERS`.

    Raises :class:`TraceError` for any other value.
    """
    if not isinstance(given, Mapping):
        given = {getattr(given, "__name__", "it"): given}
    functions = {str(name): fn for name, fn in given.items() if not isinstance(fn, str)}
    if not functions:
        raise TraceError("You passed no Function; pass one, or the name of a quantizer.")
    for name, fn in functions.items():
        _needs_function(name, fn)
    return tuple(
        _named(str(name), fn, next(iter(functions.values())))
        if isinstance(fn, str)
        else Estimator(str(name), str(name), fn.apply)
        for name, fn in given.items()
    )


def find_quantizer(name: str) -> Quantizer:
    """Return the quantizer with this name. The name ``uniform`` means 3 bits."""
    name = "uniform-3" if name == "uniform" else name
    if name not in QUANTIZERS:
        raise TraceError(f"There is no quantizer {name!r}; choose one of: {', '.join(QUANTIZERS)}.")
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
        f"ste_lab shows torch.autograd.Function classes, but {name} is not one; pass the class "
        f"itself, such as ste_lab(MySTE), or the name of a quantizer, such as ste_lab('sign')."
    )


def _named(label: str, surrogate: str, like: Any) -> Estimator:
    if surrogate not in SURROGATES:
        raise TraceError(
            f"There is no surrogate {surrogate!r}; choose one of: {', '.join(SURROGATES)}."
        )
    found = _built_in(_quantizer_of(like), surrogate)
    return Estimator(label, label, found.call, found.formula, found.source)


def _quantizer_of(fn: Any) -> Quantizer:
    """Return the quantizer whose staircase is the same as the forward of ``fn``."""
    x = torch.linspace(-2.99, 2.99, 301, dtype=torch.float64)
    try:
        with torch.no_grad():
            levels = fn.apply(x.clone())
        alike = [q for q in QUANTIZERS.values() if torch.allclose(q.quantize(x), levels)]
    except Exception:  # the exception is reported when the Function is captured
        alike = []
    if not alike:
        raise TraceError(
            f"The staircase of {fn.__name__} is none of {', '.join(QUANTIZERS)}, so the lab cannot "
            "combine it with the name of a surrogate; pass only Functions."
        )
    return alike[0]
