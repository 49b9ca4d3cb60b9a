"""``diagnose`` examines a callable together with the Functions inside it."""

from __future__ import annotations

import pytest
import torch
from autograd_doctor import diagnose
from autograd_doctor._execution.inside import functions_inside
from autograd_doctor._execution.session import Session, subject_of
from cases.making import X, draw, raw, saving
from right import ScaledSigmoid, Square
from torch import Tensor, nn

Double = saving(lambda x: 2 * x, lambda x, g: 2 * g)
Bias = saving(lambda x, b: x + b, lambda x, b, g: (g, g))
Power = saving(lambda x, n: x**n, lambda x, n, g: n * x ** (n - 1) * g)
Masked = saving(torch.relu, lambda x, g: g.mul_(x > 0))
Straight = raw(lambda ctx, x: x.round(), lambda ctx, g: g.clone())


def inside(call, *args):
    session = Session(subject_of(call, len(args)), args, (0,), 0)
    found = functions_inside(session.run, session.subject.around)
    return [(call.function, call.args) for call in found]


def test_the_functions_of_a_graph_are_found_with_the_arguments_of_their_first_call() -> None:
    found = inside(lambda x: ScaledSigmoid.apply(Square.apply(Square.apply(x)), -2.0, 3.0), X)

    arguments = dict(found)
    assert set(arguments) == {Square, ScaledSigmoid}
    assert torch.equal(arguments[Square][0], X)
    assert arguments[Square][0].requires_grad
    assert arguments[ScaledSigmoid][1:] == (-2.0, 3.0)


def test_functions_that_a_factory_made_are_told_apart() -> None:
    assert set(dict(inside(lambda x: Double.apply(Masked.apply(x)), X))) == {Double, Masked}


def test_the_classes_are_left_as_they_were() -> None:
    before = dict(vars(Square))

    inside(lambda x: Square.apply(x), X)

    assert dict(vars(Square)) == before


class Shifted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return Bias.apply(x, self.bias)


@pytest.mark.parametrize(
    ("call", "inputs", "rule", "says"),
    [
        (
            lambda x, b: 3 * Bias.apply(x, b),
            (X, draw(4)),
            "unreduced-broadcast",
            "In `Made`, `",
        ),
        (
            lambda x: Masked.apply(x) + x,
            (X,),
            "mutates-grad-output",
            "In `Made`, `backward`",
        ),
        (lambda x: Power.apply(x.abs() + 1, 2), (X,), "wrong-arity", "`forward` takes 2 arguments"),
        (Shifted(), (X,), "unreduced-broadcast", "for `args[1]`, which has shape (4,)"),
    ],
)
def test_what_the_engine_mends_is_seen_at_the_function_inside(call, inputs, rule, says) -> None:
    diagnosis = diagnose(call, inputs, level="full")

    assert rule in [finding.rule for finding in diagnosis.findings]
    assert says in " ".join(str(diagnosis).split())


def test_values_are_judged_by_the_whole_callable() -> None:
    assert diagnose(lambda x: Straight.apply(x), (3 * X,), surrogate=lambda x: 1.0 * x).ok
