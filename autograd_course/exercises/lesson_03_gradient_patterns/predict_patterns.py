"""Predict: five gradients

1. For each tensor, count the uses of one element, and add up what comes back from each use.
2. In a, six copies of the element are used. In b, two winners share. In c, each mean has four
   elements. In d, row 2 is read twice. In e, ask how the sum of the outputs changes with an input.
3. a: six copies, each with the gradient 1. b: half of 4. c: 3 divided by 4. d: 1 + 100. e: the
   outputs of a softmax always sum to 1, so the loss is constant.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import grad

from autograd_course.grader.exercise import PredictionExercise


def outcome() -> list[float]:
    """Return the five gradients that the exercise asks for."""

    def leaf(value: Tensor) -> Tensor:
        return value.double().requires_grad_()

    def first(loss: Tensor, x: Tensor) -> Tensor:
        return grad(loss, x)[0]

    with torch.enable_grad():
        scale, tied = leaf(torch.ones(1)), leaf(torch.tensor([3, 1, 3]))
        matrix, table, scores = leaf(torch.ones(2, 4)), leaf(torch.zeros(4)), leaf(torch.zeros(3))
        weights = torch.tensor([1.0, 10.0, 100.0])
        return [
            first((scale * torch.ones(2, 3)).sum(), scale)[0].item(),
            first(4 * tied.amax(0), tied)[0].item(),
            first((3 * matrix.mean(1)).sum(), matrix)[0, 0].item(),
            first((weights * table[torch.tensor([2, 0, 2])]).sum(), table)[2].item(),
            round(first(scores.softmax(0).sum(), scores)[0].item(), 9),
        ]


DIAGONAL = "That is y (1 - y), the diagonal of the Jacobian alone."
EXERCISE = PredictionExercise(
    answer="prediction",
    points=1,
    difficulty="easy",
    minutes=5,
    section="Copies forward, sums backward",
    section_is_on_backward=True,
    needs_sections=("Reductions", "Max, and what ties do", "Softmax without a Jacobian"),
    outcome=outcome,
    mistakes={
        (1, 1.0): "Broadcasting copies `x` to all six elements of `w`, and the copies add up.",
        (1, 3.0): "`x` is also copied along dim 0, to both rows of `w`.",
        (2, 4.0): "`amax` shares the gradient between the winners. The shares add up to 4.",
        (2, 0.0): "`max(0)` gives everything to one winner, so it can be 0 there. `amax` shares.",
        (3, 3.0): "That is the gradient for a sum. A mean also divides.",
        (3, 0.375): "Each mean has 4 elements, not all 8.",
        (4, 100.0): "Row 2 is read twice, and both gradients count.",
        (4, 1.0): "Row 2 is read twice, and both gradients count.",
        (5, 1.0): "1 is the gradient of the loss with respect to each output. What about an input?",
        (5, 0.222): DIAGONAL,
        (5, 2 / 9): DIAGONAL,
    },
)
