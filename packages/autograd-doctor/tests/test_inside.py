"""``diagnose`` examines a callable together with the Functions inside it."""

from __future__ import annotations

import pytest
import torch
from autograd_doctor import declare, diagnose
from autograd_doctor._execution.inner_calls import calls_in
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
    found = calls_in(session.run, session.subject.around)
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


# --------------------------------------------------------------------------------------------------
# Callables that run a backward pass themselves.
# --------------------------------------------------------------------------------------------------


def penalty(function, *, create_graph=True):
    """Return a callable whose result contains the gradient of a Function."""

    def penalized(x: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(function.apply(x).sum(), x, create_graph=create_graph)
        return grad.square() if create_graph else x * grad

    return penalized


Cube = saving(lambda x: x**3, lambda x, g: 3 * x.square() * g)
Detached = saving(lambda x: x**3, lambda x, g: 3 * x.detach().square() * g)
WrongFactor = saving(lambda x: x**3, lambda x, g: 2 * x.square() * g)
OutputOnCtx = raw(
    lambda ctx, x: setattr(ctx, "y", y := x.exp()) or y,
    lambda ctx, g: g * ctx.y.detach(),
)


def test_a_correct_function_that_a_callable_differentiates_is_not_blamed() -> None:
    diagnosis = diagnose(penalty(Cube), X)

    assert not diagnosis.findings
    assert "not examined" not in str(diagnosis)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (penalty(WrongFactor), "constant-factor"),
        (penalty(WrongFactor, create_graph=False), "constant-factor"),
        (penalty(Detached), "silent-double-backward"),
    ],
    ids=["first derivative", "without a graph", "second derivative"],
)
def test_a_gradient_that_a_callable_computes_is_judged_at_its_function(call, rule) -> None:
    finding = diagnose(call, X).findings[0]

    assert (finding.rule, finding.severity) == (rule, "error")
    assert finding.evidence["function"] == "Made"


def test_a_declared_function_keeps_its_gradient_inside_a_callable() -> None:
    Declared = declare(intentional="constant-factor")(
        saving(lambda x: x**3, lambda x, g: 2 * x.square() * g)
    )

    assert diagnose(penalty(Declared), X).ok


@pytest.mark.parametrize(
    ("forward", "backward"),
    [(torch.round, lambda x, g: g.clone()), (torch.clone, lambda x, g: -g)],
    ids=["straight-through", "gradient reversal"],
)
def test_a_gradient_that_may_be_intended_is_not_blamed_inside_a_callable(forward, backward) -> None:
    function = saving(lambda x: forward(x), backward)

    assert diagnose(penalty(function, create_graph=False), 3 * X).ok


def test_another_error_does_not_hide_a_second_derivative_that_is_required() -> None:
    rules = [f.rule for f in diagnose(OutputOnCtx, X, double_backward=True).findings]

    assert rules[:2] == ["tensor-on-ctx", "silent-double-backward"]


def test_a_second_derivative_that_is_required_is_judged_at_the_function_inside() -> None:
    finding = diagnose(lambda x: Detached.apply(2 * x), X, double_backward=True).findings[0]

    assert (finding.rule, finding.severity) == ("silent-double-backward", "error")
    assert finding.evidence["function"] == "Made"
