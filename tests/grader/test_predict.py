"""The prediction checkpoints inside a lesson."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
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
    assert repr(prediction).startswith("Yes: " if right else "It is not ")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograd_course.grader.predict._wrong", defaultdict(set))


def test_the_second_wrong_number_is_answered_with_the_result() -> None:
    first, same, second = (repr(predict(guess, 42.0)) for guess in (6, 6, 7))

    assert first == same
    assert "Change the number" in first
    assert "42" not in first
    assert second == "You expected 7, but the run gives 42. The explanation is below."


def test_each_checkpoint_has_its_own_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    for cell in ("one", "other"):
        shell = SimpleNamespace(parent_header={"metadata": {"cellId": cell}})
        monkeypatch.setattr("autograd_course.grader.predict.get_ipython", lambda shell=shell: shell)
        assert "Change the number" in repr(predict(6, 42.0))
    assert "Change the number" in repr(predict(6, 43.0))


def test_a_right_number_after_a_wrong_one_is_right() -> None:
    predict(6, 42.0)

    assert repr(predict(42, 42.0)) == "Yes: 42."


def test_what_is_not_a_number_is_refused() -> None:
    with pytest.raises(
        TypeError, match="the first argument of predict must be a number, not 'three'"
    ):
        predict("three", 3.0)  # type: ignore[arg-type]
