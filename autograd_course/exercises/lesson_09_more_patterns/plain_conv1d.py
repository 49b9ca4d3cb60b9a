"""One-dimensional convolution

1. Cut x into windows, one for each output position: x.unfold(-1, K, 1) has the shape (N, C, T, K).
   Then forward is a product of the windows and the weight, summed over channels and taps. Which
   elements of x are in several windows?
2. Two more products give the gradients of the weight and of the windows. Forward copies each sample
   into several windows, so backward adds their gradients. Start with zeros that have the same shape
   as x, and add the gradient of each window at the position of the window.
3. forward is einsum("nctk,ock->not"). The gradient of the weight is einsum("nctk,not->ock"), and
   the gradient of the windows is einsum("not,ock->nctk"). For each tap k, add element k of the
   windows' gradient to grad_x[..., k : k + T].
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from autograd_course.exercises.lesson_09_more_patterns._convolutions import CONVOLUTIONS
from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import mistaken


def conv1d(x: Tensor, weight: Tensor) -> Tensor:
    """Return the cross-correlation of ``x`` (N, C, L) with ``weight`` (O, C, K)."""
    return functional.conv1d(x, weight)


def over_windows(
    grad_x: Callable[..., Tensor] | None = None, grad_weight: Callable[..., Tensor] | None = None
) -> Callable[..., Any]:
    """Return a convolution that replaces one of the two gradients.

    Both callables take x, the weight and ``grad_output``.
    """

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = inputs
        right = _right(x, weight, g)
        wrong = (made and made(x, weight, g) for made in (grad_x, grad_weight))
        of_x, of_weight = (r if w is None else w for r, w in zip(right, wrong, strict=True))
        return of_x, of_weight

    return mistaken(conv1d, backward)


def _right(x: Tensor, weight: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    windows = x.unfold(-1, weight.shape[-1], 1)
    return _scattered(x, weight, g), torch.einsum("nctk,not->ock", windows, g)


def _scattered(
    x: Tensor, weight: Tensor, g: Tensor, *, taps: int = 0, steps: int = 0, mean: bool = False
) -> Tensor:
    """Return the gradient of x without the last ``taps`` taps and the last ``steps`` windows.

    With ``mean``, average the gradients of overlapping windows instead of adding them.
    """
    in_windows = torch.einsum("not,ock->nctk", g, weight)
    of_x, count = torch.zeros_like(x), torch.zeros_like(x)
    for t in range(g.shape[-1] - steps):
        for k in range(weight.shape[-1] - taps):
            of_x[..., t + k] += in_windows[..., t, k]
            count[..., t + k] += 1
    return of_x / count.clamp(min=1) if mean else of_x


def _first_channel(x: Tensor, weight: Tensor, g: Tensor) -> Tensor:
    return _scattered(x, weight[:1], g[:, :1])


CONV_SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "The kernel is flipped. In this exercise, tap k multiplies x at t + k, so there is no flip.": (
        lambda x, weight: conv1d(x, weight.flip(-1))
    ),
}
CONV_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "The gradient of x has the taps in reverse order. Tap k of window t has read x at t + k, so "
    "its gradient goes there.": over_windows(
        lambda x, weight, g: _scattered(x, weight.flip(-1), g)
    ),
    "The gradient of the weight has the taps in reverse order.": over_windows(
        None, lambda x, weight, g: _right(x, weight, g)[1].flip(-1)
    ),
    "The gradient of the weight is the mean over the examples. All examples use the same weight, "
    "so their gradients must be added.": over_windows(
        None, lambda x, weight, g: _right(x, weight, g)[1] / len(x)
    ),
    "The gradient of the weight contains only the first example. All examples use the same weight, "
    "so add their gradients.": over_windows(
        None, lambda x, weight, g: _right(x[:1], weight, g[:1])[1]
    ),
    "The gradient of x lacks the last tap of each window.": over_windows(
        lambda x, weight, g: _scattered(x, weight, g, taps=1)
    ),
    "The gradient of x lacks the last window. There are L - K + 1 windows.": over_windows(
        lambda x, weight, g: _scattered(x, weight, g, steps=1)
    ),
    "The gradients of overlapping windows are averaged. They must be added.": over_windows(
        lambda x, weight, g: _scattered(x, weight, g, mean=True)
    ),
    "The gradient of x contains only the first output channel. x has an effect on all of them.": (
        over_windows(_first_channel)
    ),
}

EXERCISE = FunctionExercise(
    answer="PlainConv1d",
    points=2,
    difficulty="medium",
    minutes=15,
    section="Convolution",
    constraints="no built-in convolution does the work, in forward or in backward",
    reference=conv1d,
    samplers={
        "two examples, one channel in and out": lambda rng: (
            normal(rng, 2, 1, 6),
            normal(rng, 1, 1, 3),
        ),
        "two examples, three channels": lambda rng: (normal(rng, 2, 3, 5), normal(rng, 1, 3, 2)),
        "four output channels": lambda rng: (normal(rng, 2, 2, 6), normal(rng, 4, 2, 3)),
        "a kernel of 1": lambda rng: (normal(rng, 1, 3, 4), normal(rng, 2, 3, 1)),
        "a kernel as long as the signal": lambda rng: (normal(rng, 2, 1, 3), normal(rng, 2, 1, 3)),
    },
    suspects=CONV_SUSPECTS,
    gradient_suspects=CONV_GRADIENTS,
    checks=(
        *CONDUCT,
        without(
            *CONVOLUTIONS,
            use="windows of the input (Tensor.unfold) and products",
        ),
    ),
)
