"""The checkpoints inside a lesson."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from autograd_course.grader.predict import predict


def test_the_outcome_is_kept_back_until_a_number_is_given() -> None:
    shown = repr(predict(..., 42.0))
    assert "Your turn" in shown
    assert "42" not in shown


@pytest.mark.parametrize(
    ("expected", "outcome", "right"),
    [
        (3, torch.tensor(3.0), True),
        (0, 0.0, True),
        (0.333, 1 / 3, True),
        (0.3, 1 / 3, False),
        (-3, 3.0, False),
        (0, 0.1, False),
    ],
)
def test_a_prediction_is_compared_to_three_digits(
    expected: float, outcome: Any, right: bool
) -> None:
    prediction = predict(expected, outcome)
    assert prediction.right is right
    assert repr(prediction).startswith("Yes: " if right else "You expected ")


def test_what_is_not_a_number_is_refused() -> None:
    with pytest.raises(TypeError, match="wants a number in the first place, not 'three'"):
        predict("three", 3.0)  # type: ignore[arg-type]
