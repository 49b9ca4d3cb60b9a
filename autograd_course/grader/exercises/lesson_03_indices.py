"""Lesson 03, where forward picks: rows of a table, windows of a signal."""

import torch
from torch import Tensor
from torch.nn import functional

from autograd_course.grader.checks import backward_is_a_formula, no_tensor_on_ctx, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def gather_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return ``table[index]``, of the shape of ``index`` followed by that of a row."""
    return table[index]


def conv1d(x: Tensor, weight: Tensor, stride: int, padding: int, groups: int) -> Tensor:
    """Return the cross-correlation of ``x`` (N, C, L) with ``weight`` (O, C / groups, K)."""
    return functional.conv1d(x, weight, None, stride, padding, 1, groups)


def repeating(rng: torch.Generator, rows: int, *shape: int) -> Tensor:
    """Return indices below ``rows`` that never name the last row, but name row 0 twice or more."""
    index = torch.randint(rows - 1, shape, generator=rng, device="cpu")
    index.view(-1)[[0, -1]] = 0
    return index


INDICES: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="gather-rows",
        lesson="03_gradient_patterns",
        title="Rows of a table",
        points=2,
        reference=gather_rows,
        samplers={
            "5 rows picked from 4": lambda rng: (normal(rng, 4, 3), repeating(rng, 4, 5)),
            "a 2×3 matrix of indices": lambda rng: (normal(rng, 5, 2), repeating(rng, 5, 2, 3)),
            "a single index (0-dim)": lambda rng: (normal(rng, 3, 2), torch.tensor(1)),
            "rows of one number": lambda rng: (normal(rng, 6, 1), repeating(rng, 6, 4)),
        },
        accepted=("returns-view",),  # table[index] is one for a 0-dim index
        hints=(
            "The gradient of the table is zero but for the rows that were picked. What if a row "
            "was picked three times, so that three rows of the output are copies of it?",
            "Copies forward are sums backward: every row of grad_output is added to the row of the "
            "table that it came from. An assignment keeps only one of the copies; PyTorch has an "
            "operation that adds.",
            "Keep the table's shape. grad = grad_output.new_zeros(shape), which takes the dtype "
            "along; then grad.index_add(0, index.reshape(-1), grad_output with its leading axes "
            "flattened into one). None for the index.",
        ),
        read='lesson 03, "Indices that repeat"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            without(
                "embedding_dense_backward",
                "index_backward",
                "index_select_backward",
                use="zeros, and an operation that adds rows to them",
            ),
        ),
    ),
    FunctionExercise(
        id="conv1d",
        lesson="03_gradient_patterns",
        title="One-dimensional convolution",
        points=4,
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
            "stride 2, the last element unused": lambda rng: (
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
            "one channel a group, a kernel of 1": lambda rng: (
                normal(rng, 1, 3, 4),
                normal(rng, 3, 1, 1),
                1,
                0,
                3,
            ),
        },
        hints=(
            "Cut the padded input into windows, one for each output position: "
            "padded.unfold(-1, K, stride) has shape (N, C, T, K). What is left of forward is a "
            "product of windows and weight, summed over channels and taps.",
            "Split the channels of windows and weight into (groups, …), then forward is one einsum "
            "over channels-in-a-group and taps. Two more einsums give the gradients of weight and "
            "of the windows. The windows overlap, and what forward copied, backward adds: put "
            "their gradient back into zeros of the padded shape, and cut the padding off.",
            "With windows of shape (N, G, C/G, T, K) and the weight as (G, O/G, C/G, K): forward "
            'is einsum("ngctk,gock->ngot"), the gradient of the weight '
            'einsum("ngctk,ngot->gock"), that of the windows einsum("ngot,gock->ngctk"). Then for '
            "each tap k add its slice to padded_grad[..., k : k + stride · (T - 1) + 1 : stride], "
            "and return padded_grad[..., padding : padding + L]; None for the three numbers.",
        ),
        read='lesson 03, "Convolution"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            without(
                "convolution",
                "_convolution",
                "convolution_backward",
                "mkldnn_convolution",
                use="windows of the padded input (Tensor.unfold) and products",
            ),
        ),
        bounds="no built-in convolution does the work, forward or backward",
    ),
)
