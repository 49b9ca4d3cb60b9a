"""One run of an estimator, and what must hold of it."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.errors import first_line
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.stelab.estimators import Estimator

_SOME = 7  # every seventh element alone must give what it gives among all


def forward(estimator: Estimator, x: Tensor) -> Tensor:
    """Run forward alone; ``x`` holds float64 numbers in one row."""
    with torch.no_grad():
        return _called(estimator, x.clone()).detach()


def both_ways(estimator: Estimator, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the values, and the gradients that backward returns for ``grad_output`` 1.

    Raises :class:`TraceError` if the Function raises, mixes its elements, or has no gradient.
    """
    y, gradient = _run(estimator, x)
    for whole, part in zip((y, gradient), _run(estimator, x[::_SOME]), strict=True):
        if not torch.allclose(whole[::_SOME], part):
            raise TraceError(
                f"{estimator.name} is not element-wise: an element's result changes with the "
                "others; the lab shows quantizers that treat each element alone."
            )
    return y, gradient


def _run(estimator: Estimator, x: Tensor) -> tuple[Tensor, Tensor]:
    leaf = x.clone().requires_grad_()
    y = _called(estimator, leaf)
    if not y.requires_grad:
        raise TraceError(f"{estimator.name} returned a tensor without a graph; return a new one.")
    return y.detach(), _gradient(estimator, y, leaf)


def _called(estimator: Estimator, x: Tensor) -> Tensor:
    try:
        y: Any = estimator.call(x)
    except Exception as error:
        raise TraceError(f"The forward of {estimator.name} raised {_told(error)}") from error
    if not isinstance(y, Tensor) or y.shape != x.shape:
        what = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise TraceError(
            f"{estimator.name} is not element-wise: for shape {tuple(x.shape)} it returned {what}; "
            "the lab shows Functions that return a tensor like their input."
        )
    return _finite(estimator, "forward", y)


def _gradient(estimator: Estimator, y: Tensor, leaf: Tensor) -> Tensor:
    try:
        (gradient,) = torch.autograd.grad(y, leaf, torch.ones_like(y), allow_unused=True)
    except Exception as error:
        raise TraceError(f"The backward of {estimator.name} raised {_told(error)}") from error
    if gradient is None:
        raise TraceError(
            f"The backward of {estimator.name} returned None for its input; return a gradient, "
            "zeros if none shall pass."
        )
    return _finite(estimator, "backward", gradient)


def _finite(estimator: Estimator, way: str, result: Tensor) -> Tensor:
    if not bool(result.isfinite().all()):
        raise TraceError(
            f"The {way} of {estimator.name} returned numbers that are not finite for inputs from "
            "-6 to 6; the lab can draw only finite ones."
        )
    return result


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error).rstrip('.')}."
