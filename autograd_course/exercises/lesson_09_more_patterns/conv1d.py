"""Convolution with stride, padding and groups

1. Start with the convolution from the previous exercise, and add the padding first. If forward pads
   x, backward cuts off the padding. Then add the stride: padded.unfold(-1, K, stride) has the shape
   (N, C, T, K). Where does window t begin?
2. Split the channels of the windows and of the weight into (groups, …). Then forward is one einsum
   over the taps and the channels of a group. Two more einsums give the gradients of the weight and
   of the windows. Add the gradient of the windows to a tensor of zeros with the padded shape, and
   cut off the padding.
3. Give the windows the shape (N, G, C/G, T, K) and the weight the shape (G, O/G, C/G, K). Then
   forward is einsum("ngctk,gock->ngot"). The gradient of the weight is einsum("ngctk,ngot->gock"),
   and the gradient of the windows is einsum("ngot,gock->ngctk"). For each tap k, add element k of
   the windows' gradient to padded_grad[..., k : k + stride · (T - 1) + 1 : stride]. Return
   padded_grad[..., padding : padding + L], and None for the three numbers.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from autograd_course.exercises.lesson_09_more_patterns._convolutions import CONVOLUTIONS
from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import mistaken


def conv1d(x: Tensor, weight: Tensor, stride: int, padding: int, groups: int) -> Tensor:
    """Return the cross-correlation of ``x`` (N, C, L) with ``weight`` (O, C / groups, K)."""
    return functional.conv1d(x, weight, None, stride, padding, 1, groups)


def at_other_places(
    place: Callable[[int, int, int, int], int], cut: Callable[[int], int] = lambda padding: padding
) -> Callable[..., Any]:
    """Return a convolution that adds the gradients of the windows at other positions.

    ``place`` takes the window t, the tap k, the stride and the padding, and returns a position in
    the padded x. ``cut`` takes the padding and returns the position where the gradient of x begins.
    """

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, weight, stride, padding, groups = inputs
        with torch.enable_grad():
            leaf = weight.detach().requires_grad_()
            (of_weight,) = torch.autograd.grad(conv1d(x.detach(), leaf, *inputs[2:]), leaf, g)
        outputs = g.unflatten(1, (groups, -1))
        kernels = weight.unflatten(0, (groups, -1))
        in_windows = torch.einsum("ngot,gock->ngctk", outputs, kernels).flatten(1, 2)
        padded = functional.pad(x, (padding, padding)).zero_()
        for t in range(g.shape[-1]):
            for k in range(weight.shape[-1]):
                if 0 <= (at := place(t, k, stride, padding)) < padded.shape[-1]:
                    padded[..., at] += in_windows[..., t, k]
        start = cut(padding)
        return padded[..., start : start + x.shape[-1]], of_weight

    return mistaken(conv1d, backward)


def mixed(channels: bool) -> Callable[..., Tensor]:
    """Return a convolution in which each group takes every ``groups``-th channel or output."""

    def mistake(x: Tensor, weight: Tensor, stride: int, padding: int, groups: int) -> Tensor:
        if channels:
            x = x.unflatten(1, (-1, groups)).transpose(1, 2).flatten(1, 2)
        else:
            weight = weight.unflatten(0, (-1, groups)).transpose(0, 1).flatten(0, 1)
        return conv1d(x, weight, stride, padding, groups)

    return mistake


CONV_SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "The kernel is flipped. In this exercise, tap k multiplies x at t + k, so there is no flip.": (
        lambda x, weight, *rest: conv1d(x, weight.flip(-1), *rest)
    ),
    "The stride has no effect. Window t begins at stride · t.": (
        lambda x, weight, stride, *rest: conv1d(x, weight, 1, *rest)
    ),
    "The padding has no effect. Add padding zeros on both sides.": (
        lambda x, weight, stride, padding, groups: conv1d(x, weight, stride, 0, groups)
    ),
    "The zeros are added only on the left side. Add them on both sides.": (
        lambda x, weight, stride, padding, groups: conv1d(
            functional.pad(x, (padding, 0)), weight, stride, 0, groups
        )
    ),
    "The zeros are added only on the right side. Add them on both sides.": (
        lambda x, weight, stride, padding, groups: conv1d(
            functional.pad(x, (0, padding)), weight, stride, 0, groups
        )
    ),
    "The kernels are divided into groups in turn, 0 1 0 1. The groups are blocks of neighbors, "
    "0 0 1 1: unflatten to (groups, …).": mixed(channels=False),
    "The channels are divided into groups in turn, 0 1 0 1. The groups are blocks of neighbors, "
    "0 0 1 1: unflatten to (groups, …).": mixed(channels=True),
}
CONV_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "The gradient of x has the taps in reverse order. Tap k of window t has read the padded x at "
    "stride · t + k, so its gradient goes there.": at_other_places(
        lambda t, k, stride, padding: stride * t - k
    ),
    "The gradient of x begins at the padding. Cut off padding elements at the start.": (
        at_other_places(lambda t, k, stride, padding: stride * t + k, lambda padding: 0)
    ),
    "The padding is cut off twice at the start of the gradient of x.": at_other_places(
        lambda t, k, stride, padding: stride * t + k - padding
    ),
    "backward ignores the stride. Window t begins at stride · t, so its gradient goes there.": (
        at_other_places(lambda t, k, stride, padding: t + k)
    ),
    "The stride multiplies the tap. Window t begins at stride · t, and its taps are neighbors.": (
        at_other_places(lambda t, k, stride, padding: t + stride * k)
    ),
    "The stride multiplies both the window and the tap. The taps of a window are neighbors.": (
        at_other_places(lambda t, k, stride, padding: stride * (t + k))
    ),
}


def takes_the_length_of_the_windows(
    function: type[Function], inputs: tuple[Any, ...]
) -> Finding | None:
    """Return a finding if the gradient of x ends where the last window ends."""
    x, weight, stride, padding, groups = inputs
    output = function.apply(x.detach().requires_grad_(), weight.detach(), stride, padding, groups)
    length = function.backward(output.grad_fn, torch.ones_like(output))[0].shape[-1]
    covered = (output.shape[-1] - 1) * stride + weight.shape[-1]
    if length == x.shape[-1] or length not in (covered - padding, covered - 2 * padding):
        return None
    return found(
        "gradient-shape",
        "The length is that of the windows.",
        {"length": length},
        f"The windows cover {covered} elements of the padded x, and {x.shape[-1] + 2 * padding} "
        "are there. The last elements may be in no window, but they need a gradient of 0. Take the "
        "length of the padded x.",
    )


EXERCISE = FunctionExercise(
    answer="Conv1d",
    points=4,
    difficulty="hard",
    minutes=30,
    section="Convolution",
    constraints="no built-in convolution does the work, in forward or in backward",
    reference=conv1d,
    samplers={
        "one output channel, no padding": lambda rng: (
            normal(rng, 2, 3, 6),
            normal(rng, 1, 3, 3),
            1,
            0,
            1,
        ),
        "two output channels, padding 2": lambda rng: (
            normal(rng, 2, 1, 4),
            normal(rng, 2, 1, 3),
            1,
            2,
            1,
        ),
        "stride 2, the last element is in no window": lambda rng: (
            normal(rng, 1, 2, 8),
            normal(rng, 3, 2, 3),
            2,
            0,
            1,
        ),
        "two groups, stride 3, padding 1": lambda rng: (
            normal(rng, 2, 4, 8),
            normal(rng, 6, 2, 2),
            3,
            1,
            2,
        ),
        "one channel in each group, a kernel of 1": lambda rng: (
            normal(rng, 1, 3, 4),
            normal(rng, 3, 1, 1),
            1,
            0,
            3,
        ),
    },
    suspects=CONV_SUSPECTS,
    gradient_suspects=CONV_GRADIENTS,
    causes=(takes_the_length_of_the_windows,),
    checks=(
        *CONDUCT,
        without(
            *CONVOLUTIONS,
            use="windows of the padded input (Tensor.unfold) and products",
        ),
    ),
)
