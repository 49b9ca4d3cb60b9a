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

from torch import Tensor
from torch.nn import functional

from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def conv1d(x: Tensor, weight: Tensor, stride: int, padding: int, groups: int) -> Tensor:
    """Return the cross-correlation of ``x`` (N, C, L) with ``weight`` (O, C / groups, K)."""
    return functional.conv1d(x, weight, None, stride, padding, 1, groups)


EXERCISE = FunctionExercise(
    answer="Conv1d",
    points=4,
    difficulty="hard",
    minutes=30,
    section="Convolution",
    constraints="no built-in convolution does the work, in forward or in backward",
    reference=conv1d,
    samplers={
        "one output channel": lambda rng: (normal(rng, 2, 3, 6), normal(rng, 1, 3, 3), 1, 0, 1),
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
    checks=(
        *CONDUCT,
        without(
            "convolution",
            "_convolution",
            "convolution_backward",
            "mkldnn_convolution",
            use="windows of the padded input (Tensor.unfold) and products",
        ),
    ),
)
