"""The five steps: the result of each step, and the same results from a diagnosis's evidence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from autograd_doctor import CannotDiagnoseError, Diagnosis, diagnose
from autograd_doctor._check import as_page
from autograd_doctor.steps import (
    Step,
    Steps,
    check_element,
    compare_forward,
    compare_magnitudes,
    five_steps,
    run_backward,
    run_gradcheck,
)
from cases.making import draw, raw, saving
from right import LeakyReLUInPlace, Linear, Sort, Square
from torch import Tensor

X = draw(2, 3)
W = draw(3, seed=1)

Oks = tuple[bool | None, ...]


def too_few(ctx: Any, g: Tensor) -> Any:
    return g


def never(ctx: Any, x: Tensor) -> Any:
    raise ValueError("this; not that")


def square(backward: Any) -> Any:
    return saving(lambda x: x**2, backward)


ADD = (lambda ctx, x, w: x + w), (X, W)
RIGHT = (True, True, True, True, True)

# The examples: the Function, its inputs, the reference, and which steps pass.
WALKS: dict[str, tuple[Any, tuple[Any, ...], Any, Oks]] = {
    "right": (Square, (X,), torch.square, RIGHT),
    "right, several inputs": (Linear, (X, draw(4, 3)), torch.nn.functional.linear, RIGHT),
    "right, a callable": (lambda x: Square.apply(x).sum(0), (X,), lambda x: (x**2).sum(0), RIGHT),
    "right, in place": (LeakyReLUInPlace, (X, 0.1), None, (None, *RIGHT[1:])),
    "right, an index beside it": (Sort, (draw(4),), None, (None, *RIGHT[1:])),
    "another forward": (Square, (X,), torch.exp, (False, *RIGHT[1:])),
    "too few": (raw(ADD[0], too_few), ADD[1], torch.add, (True, False, False, None, None)),
    "not summed": (
        raw(ADD[0], lambda ctx, g: (g, g)), ADD[1], torch.add, (True, False, *RIGHT[2:]),
    ),
    "float32": (
        square(lambda x, g: (2 * x * g).float()), (X.float().double(),), torch.square,
        (True, False, *RIGHT[2:]),
    ),
    "not finite": (
        square(lambda x, g: g * x / (x - x)), (X,), torch.square,
        (True, False, False, False, False),
    ),
    "a factor": (square(lambda x, g: x * g), (X,), torch.square, (True, True, False, False, False)),
    "a sign": (
        square(lambda x, g: -2 * x * g), (X,), torch.square, (True, True, True, False, False),
    ),
    "raises": (square(lambda x, g: g @ g), (X,), torch.square, (True, False, None, None, None)),
    "forward raises": (raw(never, too_few), (X,), None, (False, None, None, None, None)),
    "detached": (lambda x: x.detach(), (X,), None, (None, False, None, None, None)),
}  # fmt: skip


def oks(steps: Steps) -> Oks:
    return tuple(step.ok for step in steps)


@pytest.mark.parametrize("walk", WALKS)
def test_each_step_sees_what_it_is_for(walk: str) -> None:
    fn, inputs, reference, expected = WALKS[walk]

    assert oks(five_steps(fn, inputs, reference)) == expected


# If forward is wrong, the evidence uses the reference's gradient instead of finite differences.
TOLD = sorted(set(WALKS) - {"another forward", "detached"})


@pytest.mark.parametrize("walk", TOLD)
def test_a_diagnosis_tells_the_same_steps_from_its_evidence(walk: str) -> None:
    fn, inputs, reference, expected = WALKS[walk]

    told = diagnose(fn, inputs, reference=reference).steps

    assert told is not None
    pairs = list(zip(told, five_steps(fn, inputs, reference), expected, strict=True))
    for mine, by_hand, ok in pairs:
        assert mine.ok in (ok, None), (mine, by_hand)
        if mine.title in ("forward", "contract", "gradcheck"):
            assert mine == by_hand or mine.ok is None


def test_the_page_of_a_diagnosis_ends_with_the_steps() -> None:
    diagnosis = diagnose(Square, (X,))
    page = as_page(diagnosis)

    assert diagnosis.steps is not None
    assert diagnosis.steps.headline in page
    assert "3 magnitudes" in page
    assert "magnitudes" not in str(diagnosis) + diagnosis._repr_html_()
    assert "steps" not in diagnosis.to_dict()


def test_a_diagnosis_without_steps_has_a_page() -> None:
    assert "contract" not in as_page(Diagnosis("F", ()))


def test_a_surrogate_is_what_the_numbers_are_compared_with() -> None:
    through = saving(torch.round, lambda x, g: g)
    steps = diagnose(through, (X,), surrogate=lambda x: 1 * x).steps

    assert steps is not None
    assert oks(steps)[2:] == (True, True, None)
    assert "surrogate" in steps.steps[2].seen


def test_only_the_first_step_that_breaks_is_explained() -> None:
    text = str(five_steps(square(lambda x, g: x * g), (X,), torch.square))

    assert text.startswith("✗ Made · step 3 fails: magnitudes\n")
    assert "a constant is missing or doubled" in " ".join(text.split())
    assert "term by term" not in text
    assert max(map(len, text.splitlines())) <= 88


def test_one_element_shows_every_number() -> None:
    step = check_element(Square, (torch.tensor([1.0, 3.0]),), (0, 1))

    assert step.ok
    name, numbers = step.seen.split(": ")
    above, below = (float(number) for number in numbers[1:].split(") / ")[0].split(" − "))
    claimed = float(step.seen.rsplit(" ", 1)[1])
    assert name == "x[1] = 3"
    assert (above - below) / 2e-5 == pytest.approx(claimed, rel=1e-3)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (compare_forward(Square, (X,)), "  1 forward     – no reference given, so `forward"),
        (run_backward(Square, (X,)), "  2 contract    ✓ 1 value for 1 argument, with matching"),
        (compare_magnitudes(Square, (X,)), "  3 magnitudes  ✓ gradient norm of x: backward "),
        (run_gradcheck(Square, (X,)), "  5 gradcheck   ✓ passes"),
    ],
    ids=lambda value: value.title if isinstance(value, Step) else "",
)
def test_a_step_is_a_line_that_is_the_same_on_every_run(step: Step, line: str) -> None:
    assert str(step).startswith(line)


def test_the_callers_tensors_are_left_alone() -> None:
    x = X.clone().requires_grad_()
    before = x.detach().clone()
    five_steps(LeakyReLUInPlace, (x, 0.1))

    assert torch.equal(x, before)
    assert x.grad is None


class Named(torch.nn.Module):
    def forward(self, signal: Tensor) -> Tensor:
        return Square.apply(signal)


def of_any_name(context: Any, signal: Tensor) -> Tensor:
    context.save_for_backward(signal)
    return signal**2


def squared(context: Any, g: Tensor) -> Tensor:
    return 2 * context.saved_tensors[0] * g


@pytest.mark.parametrize("fn", [raw(of_any_name, squared), Named()], ids=["ctx renamed", "module"])
def test_an_argument_has_the_name_that_forward_gives_it(fn: Any) -> None:
    assert check_element(fn, (X,), (0, 0)).seen.startswith("signal[0, 0] = ")


def test_what_cannot_be_called_is_refused_in_a_sentence() -> None:
    with pytest.raises(CannotDiagnoseError, match="Function subclass or a callable, got int 3"):
        five_steps(3, (X,))


def test_complex_inputs_are_refused_in_a_sentence() -> None:
    with pytest.raises(TypeError, match="real tensors"):
        run_gradcheck(Square, (torch.ones(2, dtype=torch.complex128),))
