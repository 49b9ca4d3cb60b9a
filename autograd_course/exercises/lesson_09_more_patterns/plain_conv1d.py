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

from torch import Tensor
from torch.nn import functional

from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def conv1d(x: Tensor, weight: Tensor) -> Tensor:
    """Return the cross-correlation of ``x`` (N, C, L) with ``weight`` (O, C, K)."""
    return functional.conv1d(x, weight)


EXERCISE = FunctionExercise(
    answer="PlainConv1d",
    points=2,
    difficulty="medium",
    minutes=15,
    section="Convolution",
    constraints="no built-in convolution does the work, in forward or in backward",
    reference=conv1d,
    samplers={
        "one channel in and out": lambda rng: (normal(rng, 1, 1, 6), normal(rng, 1, 1, 3)),
        "two examples, three channels": lambda rng: (normal(rng, 2, 3, 5), normal(rng, 1, 3, 2)),
        "four output channels": lambda rng: (normal(rng, 2, 2, 6), normal(rng, 4, 2, 3)),
        "a kernel of 1": lambda rng: (normal(rng, 1, 3, 4), normal(rng, 2, 3, 1)),
        "a kernel as long as the signal": lambda rng: (normal(rng, 2, 1, 3), normal(rng, 2, 1, 3)),
    },
    checks=(
        *CONDUCT,
        without(
            "convolution",
            "_convolution",
            "convolution_backward",
            "mkldnn_convolution",
            use="windows of the input (Tensor.unfold) and products",
        ),
    ),
)
