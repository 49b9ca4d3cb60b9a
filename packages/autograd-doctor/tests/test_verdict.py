"""How diagnose reaches a verdict: a second run, points near kinks, limits on time and memory."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from autograd_doctor import CannotDiagnoseError, diagnose
from autograd_doctor._coverage import _OF_PROBES
from autograd_doctor._execution.time_limit import TimeUp, time_limit
from autograd_doctor._numerics.finite_differences import derivative
from autograd_doctor._pipeline import clearest, keep_confirmed
from autograd_doctor._probes import ALWAYS, probes_for
from autograd_doctor.extension import as_given
from autograd_doctor.finding import Finding
from cases.first_order import SwishFixed
from cases.making import POSITIVE, X, draw, raw, saving
from torch import Tensor
from torch.autograd import Function


def finding(rule: str, severity: str = "error") -> Finding:
    return Finding(rule, severity, "")  # type: ignore[arg-type]


# A second run


@pytest.mark.parametrize(
    ("found", "again", "left"),
    [
        (["constant-factor"], [["constant-factor"]], ["constant-factor"]),
        (["constant-factor"], [[], ["gradient-mismatch"]], ["constant-factor"]),
        (["constant-factor"], [[], []], []),
        (["constant-factor"], [["gradient-shape"]], []),
    ],
)
def test_an_error_stands_if_another_run_shows_one_of_its_family(found, again, left) -> None:
    verdicts = [tuple(map(finding, names)) for names in again]

    assert [f.rule for f in keep_confirmed(tuple(map(finding, found)), verdicts)] == left


def test_a_warning_needs_no_second_run() -> None:
    warning = (finding("gradient-dtype", "warning"),)

    assert keep_confirmed(warning, [()]) == warning


def test_an_error_that_one_run_alone_shows_is_not_reported() -> None:
    passes = iter(range(10_000))

    def once_wrong(x: Tensor, g: Tensor) -> Tensor:
        return 2 * x * g * (2 if next(passes) < 8 else 1)

    first_run_only = saving(lambda x: x * x, once_wrong)

    assert diagnose(first_run_only, (X,)).ok


def test_an_error_that_does_not_stand_explains_nothing() -> None:
    """Finite differences of a float32 forward show an error of 0.1 % only on some inputs. The
    report gives only the reason for this.
    """
    coarse = saving(lambda x: (x.float() ** 2).to(x.dtype), lambda x, g: 2.002 * x * g)

    assert [found.rule for found in diagnose(coarse, draw(3, 4)).findings] == ["precision"]


def test_a_wrong_value_stands_though_the_first_run_met_overflow_on_its_random_inputs() -> None:
    """On those inputs, backward looks nonlinear, which a second run may hide.

    The example is also wrong.
    """

    def forward(ctx, x: Tensor) -> Tensor:
        y = x.sinh()
        ctx.save_for_backward(y)
        return y

    steep = raw(forward, lambda ctx, g: ctx.saved_tensors[0].cosh() * g)
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    assert not diagnose(steep, (x,)).ok


def test_warnings_come_before_what_is_only_worth_knowing() -> None:
    example = finding("input-layout", "warning"), finding("returns-view", "info")

    assert clearest([example, example[1:]]) == example


def test_the_verdict_on_random_inputs_is_preferred_to_that_on_the_example() -> None:
    example, other = (finding("constant-factor"),), (finding("gradient-mismatch"),)

    assert clearest([example, other]) == other
    assert clearest([example, example]) == example
    assert clearest([(), example]) == example


# Kinks


def test_a_point_without_derivative_is_left_and_its_neighbors_are_judged() -> None:
    wrong_beside = saving(torch.relu, lambda x, g: g * (x >= 0) * 2)
    at_the_kink = torch.zeros(2, 3)

    assert diagnose(saving(torch.relu, lambda x, g: g * (x > 0)), (at_the_kink,)).ok
    assert diagnose(wrong_beside, (at_the_kink,)).findings[0].rule == "constant-factor"


def test_what_was_judged_beside_a_kink_is_said() -> None:
    relu = saving(torch.relu, lambda x, g: g * (x > 0))

    report = " ".join(str(diagnose(relu, (torch.tensor([-1.0, 0.0, 2.0]),))).split())

    assert "`args[0]` near kinks: `forward` is not differentiable at 1 of its 3 elements" in report


@pytest.mark.parametrize("offset", [0.0, 100.0, 1000.0])
def test_a_function_that_bends_within_one_step_has_no_kink(offset: float) -> None:
    bump = saving(lambda x: (-((x - offset) ** 2)).exp(), bump_backward(offset))

    assert "kink" not in str(diagnose(bump, (X + offset,)))


def bump_backward(offset: float):
    return lambda x, g: -2 * (x - offset) * (-((x - offset) ** 2)).exp() * g


def test_rounding_to_float32_is_no_kink() -> None:
    square = saving(lambda x: (x.float() ** 2).double(), lambda x, g: 2 * x * g)

    assert "differentiable" not in str(diagnose(square, (X,)))


# Data


def test_what_is_not_differentiated_stays_as_the_caller_gave_it() -> None:
    """This gradient is right only because the rows of the target sum to one."""
    cross_entropy = saving(
        lambda x, target: -(target * x.log_softmax(-1)).sum(),
        lambda x, target, g: (g * (x.softmax(-1) - target), None),
    )
    logits, target = X.clone().requires_grad_(), torch.eye(4)[:3]

    assert diagnose(cross_entropy, (logits, target)).ok
    assert "is data, call `requires_grad_()` on" in " ".join(
        str(diagnose(cross_entropy, (X, target))).split()
    )


def test_running_statistics_are_a_warning_that_hides_nothing() -> None:
    def centered(x: Tensor, running_mean: Tensor) -> Tensor:
        running_mean.lerp_(x.mean(0), 0.1)
        return x - x.mean(0)

    wrong = saving(centered, lambda x, running_mean, g: (2 * (g - g.mean(0)), None))
    found = diagnose(wrong, (X.clone().requires_grad_(), torch.zeros(4))).findings

    assert [(f.rule, f.severity) for f in found[:2]] == [
        ("constant-factor", "error"),
        ("mutates-input", "warning"),
    ]


def fill_border_again(table: Tensor) -> None:
    table.numpy()[..., -1] = -1.0  # autograd does not notice this


def fill_border_in_place(table: Tensor) -> None:
    table[..., -1] = -1.0


@pytest.mark.parametrize(
    ("fill", "says"),
    [
        (fill_border_again, "A second backward pass returns the same."),
        (fill_border_in_place, "A second backward pass raises."),
    ],
)
def test_a_change_of_what_is_saved_that_does_no_harm_is_a_warning(fill, says) -> None:
    """The output is a view of the saved tensor, next to the elements that change."""

    def forward(ctx, x: Tensor) -> Tensor:
        table = torch.nn.functional.pad(x.square().cumsum(-1), (0, 1))
        ctx.save_for_backward(x, table)
        return table[..., -2]

    def backward(ctx, g: Tensor) -> Tensor:
        x, table = ctx.saved_tensors
        fill(table)
        return 2 * x * g[..., None]

    diagnosis = diagnose(raw(forward, backward), (X,))

    (found,) = (f for f in diagnosis.findings if f.rule == "mutates-saved")
    assert diagnosis.ok, str(diagnosis)
    assert found.severity == "warning"
    assert says in found.message


@pytest.mark.parametrize(("marked", "severity"), [((1,), "info"), ((0, 1), "warning")])
def test_a_backward_that_no_gradient_reaches_is_a_warning(marked, severity) -> None:
    def forward(ctx, x: Tensor) -> tuple[Tensor, Tensor]:
        outputs = 2 * x, 3 * x
        ctx.mark_non_differentiable(*(outputs[k] for k in marked))
        return outputs

    (found,) = diagnose(raw(forward, lambda ctx, g, _: 2 * g), (X,)).findings

    assert (found.rule, found.severity) == ("wrong-non-differentiable", severity)


# Limits


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every pass as slow, and let the first pass use up all the time."""
    for name in ("SLOW", "FURTHER_SECONDS", "COLUMN_SECONDS"):
        monkeypatch.setattr(f"autograd_doctor._probes.core.{name}", 0.0)


@pytest.mark.usefixtures("no_time")
def test_what_there_is_no_time_for_is_said() -> None:
    diagnosis = diagnose(saving(torch.sin, lambda x, g: x.cos() * g), X)
    (left_out,) = (words for words in diagnosis.limits if "Left out: " in words)
    examined = diagnosis.examined[: diagnosis.examined.index(left_out)]

    assert diagnosis.ok
    assert "memory layouts, frozen inputs" in left_out
    assert "second derivatives" in left_out
    assert "second derivatives" not in " ".join(examined)


def test_a_busy_machine_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    computed, passed = count(0, 1e-3), count(0, 1e-2)  # a tenth of the clock's time is computing
    clock = SimpleNamespace(thread_time=lambda: next(computed), perf_counter=lambda: next(passed))
    monkeypatch.setattr("autograd_doctor._probes.core.time", clock)
    monkeypatch.setattr("autograd_doctor._probes.core.FURTHER_SECONDS", 0.0)

    diagnosis = diagnose(saving(torch.sin, lambda x, g: x.cos() * g), X)

    assert not [words for words in diagnosis.limits if "Left out: " in words]


def test_each_probe_has_words_for_what_it_examines() -> None:
    probes = (*ALWAYS, *probes_for("full", None), *probes_for("full", True))

    assert {probe.__name__ for probe in probes} == _OF_PROBES.keys()


@pytest.mark.usefixtures("no_time")
def test_there_is_always_time_for_values_and_for_what_is_required() -> None:
    wrong = saving(torch.sin, lambda x, g: 2 * x.cos() * g)
    without_graph = saving(torch.sin, lambda x, g: x.detach().cos() * g)

    assert diagnose(wrong, X).findings[0].rule == "constant-factor"
    (mismatch,) = diagnose(saving(torch.sin, lambda x, g: x * g), X).findings
    assert "4 elements that were checked" in mismatch.message
    found = diagnose(without_graph, X, double_backward=True).findings
    assert [finding.rule for finding in found] == ["silent-double-backward"]


def test_a_difference_has_the_digits_of_float64() -> None:
    value, _, smooth = derivative(lambda h: (2 + draw(3) * h) ** 2, 1e-3, torch.full((3,), 4.0))

    torch.testing.assert_close(value, 4 * draw(3), rtol=1e-12, atol=0)
    assert smooth


def never_ends(x: Tensor) -> Tensor:
    while True:
        time.sleep(0.01)


@pytest.mark.parametrize(
    "endless",
    [saving(never_ends, lambda x, g: g), saving(torch.sin, lambda x, g: never_ends(x))],
    ids=["forward", "backward"],
)
def test_a_pass_that_never_ends_is_a_clear_error(endless) -> None:
    with pytest.raises(CannotDiagnoseError, match=r"within 0\.2 s \(it was in never_ends: .*loop"):
        diagnose(endless, (X,), time_limit=0.2)


def test_waiting_counts_less_than_computing() -> None:
    with time_limit(0.1):
        time.sleep(0.2)  # as on a busy machine
    with pytest.raises(TimeUp), time_limit(0.1):
        time.sleep(5)
    with pytest.raises(TimeUp), time_limit(0.1):
        any(zero for zero in iter(int, 1))


def test_a_pass_that_never_ends_is_interrupted_in_a_thread_as_well() -> None:
    told: list[str] = []

    def examine() -> None:
        try:
            diagnose(saving(never_ends, lambda x, g: g), (X,), time_limit=0.2)
        except CannotDiagnoseError as error:
            told.append(str(error))

    thread = threading.Thread(target=examine)
    thread.start()
    thread.join(20)

    assert "did not end within 0.2 s" in told[0]


def test_too_little_memory_is_no_verdict() -> None:
    hungry = saving(lambda x: x.new_empty(2**50) * x.sum(), lambda x, g: g)

    with pytest.raises(
        CannotDiagnoseError, match=r"diagnose ran out of memory .* pass smaller inputs"
    ):
        diagnose(hungry, (X,))


def test_a_forward_that_refuses_neighboring_inputs_has_no_slope_there() -> None:
    def needs_its_input(x: Tensor) -> Tensor:
        if not torch.equal(x, POSITIVE) and not torch.equal(x, 0.5 * POSITIVE):
            raise ValueError("unknown input")
        return 2 * x

    refuses = raw(lambda ctx, x: needs_its_input(x), lambda ctx, g: 2 * g)

    diagnosis = diagnose(refuses, (POSITIVE,))

    assert diagnosis.findings == ()
    assert diagnosis.ok is None
    (why,) = diagnosis.unexamined
    assert why.startswith("values of `x`: not examined. `forward` is not differentiable at any")


def test_endless_recursion_is_a_finding() -> None:
    def deeper(x: Tensor) -> Tensor:
        return deeper(x)

    found = diagnose(saving(deeper, lambda x, g: g), (X,)).findings[0]

    assert found.rule == "forward-raises"
    assert "RecursionError" in found.message


def test_a_lacking_term_is_named_in_the_authors_words() -> None:
    message = diagnose(SwishFixed, (X,)).findings[0].message

    assert "the gradient of `x` lacks the term `grad_output · output · (1 - sigma)`" in message


def test_a_limit_waits_for_the_end_of_a_finalizer(monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    ended: list[str] = []

    class Slow:
        def __del__(self) -> None:
            compute(0.3)
            ended.append("finalizer")

    def compute(seconds: float) -> None:
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass

    def call() -> None:
        Slow()
        compute(5.0)

    with pytest.raises(TimeUp), time_limit(0.1):
        call()
    assert (ended, unraisable) == (["finalizer"], [])


def inverse(solve: Callable[[Any, float], Any], factor: float = 1.0) -> type[Function]:
    """Return a Function that solves ``y + a·tanh(y) = x`` for y in NumPy."""

    class Inverse(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, a: float) -> Tensor:
            y = torch.from_numpy(solve(x.detach().numpy(), a))
            ctx.save_for_backward(y)
            ctx.a = a
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
            (y,) = ctx.saved_tensors
            return factor * grad_output / (1 + ctx.a * (1 - torch.tanh(y) ** 2)), None

    return Inverse


def bisected(x: Any, a: float) -> Any:
    low, high = x - a, x + a
    while np.max(high - low) > 1e-6:
        middle = (low + high) / 2
        above = middle + a * np.tanh(middle) > x
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return (low + high) / 2


def iterated(x: Any, a: float) -> Any:
    y, last = x, np.inf
    while np.max(np.abs(y - last)) > 1e-4:
        y, last = x - a * np.tanh(y), y
    return y


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("solve", [bisected, iterated])
def test_a_solver_in_numpy_is_right_up_to_its_tolerance(
    solve: Callable[[Any, float], Any], seed: int
) -> None:
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(seed)).double()

    assert diagnose(inverse(solve), (x, 0.5), repair=False).ok
    assert diagnose(inverse(solve, 1.1), (x, 0.5), repair=False).ok is False


def test_elements_that_differ_in_their_signs_are_tied_too() -> None:
    tied = torch.tensor([[1.0, -1.0, 0.5, 0.2], [2.0, 1.0, 0.3, -0.1]])
    whole, part = (saving(lambda x: x.abs().amax(-1), it) for it in (unshared, shared))

    finding = diagnose(whole, tied).findings[0]
    assert finding.rule == "wrong-region"
    assert "where elements have the same magnitude" in finding.message
    assert diagnose(part, tied).ok


def unshared(x: Tensor, g: Tensor) -> Tensor:
    """Return the gradient of the largest magnitude, in full for each element that has it."""
    return g[..., None] * (x.abs() == x.abs().amax(-1, keepdim=True)) * x.sign()


def shared(x: Tensor, g: Tensor) -> Tensor:
    """Return the gradient of the largest magnitude, shared by all elements that have it."""
    largest = x.abs() == x.abs().amax(-1, keepdim=True)
    return g[..., None] * largest * x.sign() / largest.sum(-1, keepdim=True)


# What a message says about inputs that the diagnosis did not try


def vanishing(where: Callable[..., Tensor]) -> type[Function]:
    """Return a cube plus its input, whose gradient is zero in a region."""
    return saving(lambda x: x**3 / 3 + x, lambda x, g: torch.where(where(x), 0, (x * x + 1) * g))


SPREAD = torch.tensor([-2.1, -1.6, -1.2, -0.9, 0.6, 0.8, 1.1, 1.4, 1.9, 2.0])
WIDE = torch.tensor([-90, -60, -0.8, 0.1, 0.3, 0.7, 0.9])
FEW = torch.tensor([-2.1, -1.2, -0.9, 0.6, 1.4])


@pytest.mark.parametrize(
    ("where", "example", "sampler", "told"),
    [
        pytest.param(lambda x: x < -0.4, SPREAD, None, "only where `x < -0.4`", id="half a line"),
        pytest.param(lambda x: x.abs() > 1, SPREAD, None, "only where `|x| > 1`", id="both ends"),
        pytest.param(lambda x: (x < -0.4) | ((x > 0) & (x < 0.5)), SPREAD, None,
                     "at 4 of 10 elements, namely where `x < 0`", id="a second region in a gap"),
        pytest.param(lambda x: x < -0.4, FEW, as_given,
                     "at 3 of 5 elements, namely where `x < 0`", id="few are right"),
        pytest.param(lambda x: x < -2, WIDE, as_given,
                     "at 2 of 7 elements, namely where `x < -1`", id="a wide gap"),
    ],
)  # fmt: skip
def test_a_bound_needs_enough_correct_elements_near_it(where, example, sampler, told) -> None:
    found = diagnose(vanishing(where), (example,), sampler=sampler, repair=False).findings[0]

    assert told.replace("x", "args[0]") in found.message


@pytest.mark.parametrize(
    ("example", "told"),
    [
        (torch.linspace(-2, 2, 15).view(5, 3).mT, "dim 1 or on the value of `args[0]` and"),
        (draw(3, 5), "dim 1 and"),
    ],
    ids=["sorted by column", "in any order"],
)
def test_a_factor_depends_on_the_index_if_the_values_do_not_explain_it(example, told) -> None:
    steps = torch.tensor([1.0, 2, 3, 1, 2])
    by_column = saving(lambda x: x.exp(), lambda x, g: steps * x.exp() * g)

    found = diagnose(by_column, (example,), sampler=as_given, repair=False).findings[0]

    assert f"depends on the index along {told}" in found.message
