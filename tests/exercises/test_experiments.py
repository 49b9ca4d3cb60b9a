"""If an exercise asks for an experiment, exactly one of the four shows the mistake.

An experiment shows the mistake if the broken Function and a correct one give different results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from answers import (
    lesson_01,
    lesson_02,
    lesson_03,
    lesson_04,
    lesson_05,
    lesson_06,
    lesson_07,
    lesson_08,
)
from autograd_doctor.memory import kept_bytes
from torch import Tensor
from torch.autograd import Function, grad, gradcheck
from torch.nn.functional import silu, smooth_l1_loss

from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.exercise import LocatingExercise

Apply = Callable[..., Any]
Experiment = Callable[[Apply], Any]


def row(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def draw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def numbers(*tensors: Tensor) -> list[Any]:
    return [tensor.detach().mul(1e6).round().tolist() for tensor in tensors]


def gradient(apply: Apply, *inputs: Any, upstream: Tensor | None = None) -> Tensor:
    """Return the gradient of the first input."""
    y = apply(*inputs)
    return grad(y, inputs[0], torch.ones_like(y) if upstream is None else upstream)[0]


def passes(apply: Apply, *inputs: Any) -> bool:
    return gradcheck(apply, inputs, raise_exception=False)


def doubles(apply: Apply, *inputs: Any) -> bool:
    once, twice = (
        gradient(apply, *inputs, upstream=factor * torch.ones_like(apply(*inputs)))
        for factor in (1.0, 2.0)
    )
    return torch.allclose(twice, 2 * once)


def unchanged(apply: Apply, given: Tensor, *others: Any) -> bool:
    x = given.detach().clone()
    apply(x, *others)
    return torch.equal(x, given)


# Smooth L1


def smooth_l1(prediction: Tensor, target: Tensor, beta: float) -> Tensor:
    return smooth_l1_loss(prediction, target, reduction="none", beta=beta)


ERRORS = (row(-3.0, -0.8, -0.2, 0.1, 0.7, 3.0), torch.zeros(6, dtype=torch.float64))


# The skip connection


class MaskedReLU(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x > 0)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        return grad_output * positive


def what_becomes_of_grad_output(apply: Apply) -> bool:
    x, g = draw(6), torch.ones(6, dtype=torch.float64)
    gradient(apply, x, upstream=g)
    return torch.equal(g, torch.ones_like(g))


def twice_on_one_graph(apply: Apply) -> list[Any]:
    x = draw(6)
    y = apply(x)
    ones = torch.ones_like(y)
    return numbers(*(grad(y, x, factor * ones, retain_graph=True)[0] for factor in (1, 3)))


# Mean and spread


class MeanSpread(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        return x.mean(), (x - x.mean()).square().mean()

    @staticmethod
    def backward(ctx: Any, grad_mean: Tensor, grad_spread: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return (grad_mean + 2 * (x - x.mean()) * grad_spread) / x.numel()


def weighted(mean: float, spread: float, *shape: int) -> Experiment:
    def run(apply: Apply) -> Any:
        x = draw(*shape)
        outputs = apply(x)
        used = [(w, out) for w, out in zip((mean, spread), outputs, strict=True) if w]
        try:
            return numbers(grad(sum(w * out for w, out in used), x)[0])
        except TypeError as error:
            return type(error)

    return run


# A tenth of the gradient


class Tenth(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return 0.1 * grad_output


def version_counted(apply: Apply) -> int:
    x = 1 * draw(4)
    apply(x)
    return int(x._version)


def after_sin(apply: Apply) -> list[Any]:
    x = draw(4)
    return numbers(gradient(lambda x: apply(torch.sin(x)), x))


# The twins


class Weigh(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


def two_calls(first: Tensor, second: Tensor) -> Experiment:
    def run(apply: Apply) -> list[Any]:
        y, z = apply(first), apply(second)
        return numbers(grad(y.sum(), first)[0], grad(z.sum(), second)[0])

    return run


# A copied pattern


def second_derivative(*, by_input: bool) -> Experiment:
    def run(apply: Apply) -> list[Any]:
        x, g = draw(4), draw(4)
        first = grad(apply(x), x, g, create_graph=True)[0]
        return numbers(grad(first.sum(), x if by_input else g, materialize_grads=True)[0])

    return run


# The two-bit activation


class TwoBits(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor) -> Tensor:
        ctx.save_for_backward(x, alpha)
        step = alpha / 3
        return step * torch.round(torch.minimum(x.clamp(min=0), alpha) / step)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, alpha = ctx.saved_tensors
        inside = (x > 0) & (x < alpha)
        return grad_output * inside, (grad_output * (x >= alpha)).sum()


def both_gradients(*values: float) -> Experiment:
    def run(apply: Apply) -> list[Any]:
        x, alpha = row(*values), row(1.0).squeeze().detach().requires_grad_()
        return numbers(*grad(apply(x, alpha).sum(), (x, alpha)))

    return run


# Mean pooling

MASK = torch.tensor([[True, True, True, True], [True, True, False, False]])


def mean_pool(tokens: Tensor, mask: Tensor) -> Tensor:
    return (tokens * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True)


def pooled_gradient(apply: Apply) -> Tensor:
    upstream = torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3)
    return gradient(apply, draw(2, 4, 3), MASK, upstream=upstream)


# The clinic. If an exercise asks for a repair, the correct Function is the repaired one.

temperature = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)


def tempered(x: Tensor) -> Any:
    return lesson_04.SOLVED["Tempered"].apply(x, temperature)


def edges(apply: Apply) -> int:
    y = apply(draw(3))  # in PyTorch 2.11, its grad_fn does not outlive it
    return sum(node is not None for node, _ in y.grad_fn.next_functions)


SPECTRUM = row(0.5, 0.02, 2.0, 0.01, 1.0)


def above_the_floor(apply: Apply) -> list[Any]:
    found = gradient(apply, SPECTRUM.detach().clone().requires_grad_(), 0.1)
    return numbers(found[[0, 2, 4]])


def loss_with_weights(*weights: float) -> Experiment:
    def run(apply: Apply) -> list[Any]:
        return numbers(gradient(apply, draw(3, 2), torch.zeros(3, 2), upstream=row(*weights)))

    return run


def transposed_input(apply: Apply) -> bool:
    x = draw(3, 4, 2)
    plain = gradient(apply, x, 0.7)
    return torch.allclose(gradient(lambda x, a: apply(x.mT.contiguous().mT, a), x, 0.7), plain)


def other_strides(apply: Apply) -> bool:
    x, g = draw(3, 4, 2), draw(3, 4, 2).detach().exp()
    strided = g.transpose(0, 1).contiguous().transpose(0, 1)
    plain, other = (gradient(apply, x, 0.7, upstream=it) for it in (g, strided))
    return torch.allclose(plain, other)


def lists_left(apply: Apply) -> list[int]:
    x = draw(2)
    y = apply(x, (0.1, 0.2))
    before = [len(it) for it in vars(y.grad_fn).values() if isinstance(it, list)]
    grad(y.sum(), x, retain_graph=True)
    after = [len(it) for it in vars(y.grad_fn).values() if isinstance(it, list)]
    return [b - a for b, a in zip(before, after, strict=True) if b != a]


def seeded(apply: Apply, x: Tensor, p: float) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    y = apply(x, p)
    return y, grad(y.sum(), x)[0]


def dropped(x: Tensor, p: float) -> Any:
    return lesson_04.SOLVED["Dropout"].apply(x, p, 0)


def ones(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.float64, requires_grad=True)


def same_zeros(apply: Apply) -> bool:
    y, found = seeded(apply, ones(50), 0.4)
    return torch.equal(y == 0, found == 0)


def under_one_seed(apply: Apply) -> bool:
    first, second = (seeded(apply, ones(50), 0.4)[1] for _ in range(2))
    return torch.equal(first, second)


def is_the_identity(apply: Apply) -> list[Any]:
    return numbers(*seeded(apply, ones(5), 0.0))


# Attention


def sharpened(queries: Tensor) -> tuple[Tensor, ...]:
    return (1000 * queries).float(), draw(5, 4).float(), draw(5, 2).float()


def finite_when_sharp(apply: Apply) -> bool:
    inputs = [x.detach().requires_grad_() for x in sharpened(draw(3, 4))]
    return all(bool(found.isfinite().all()) for found in grad(apply(*inputs).sum(), inputs))


def output_when_sharp(apply: Apply) -> list[Any]:
    return numbers(apply(*sharpened(draw(3, 4))))


def values(*inputs: Any) -> Experiment:
    def run(apply: Apply) -> list[Any]:
        copies = (x.detach().clone() if isinstance(x, Tensor) else x for x in inputs)
        return numbers(apply(*copies))

    return run


def checked(*inputs: Any) -> Experiment:
    return lambda apply: passes(apply, *inputs)


def doubled(*inputs: Any) -> Experiment:
    return lambda apply: doubles(apply, *inputs)


def differentiated(*inputs: Any) -> Experiment:
    return lambda apply: numbers(gradient(apply, *inputs))


# The first share


class FirstShare(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        exps = torch.exp(x)
        total, first = exps.sum(1), exps[:, 0].clone()
        ctx.save_for_backward(x, first, total)
        return first / total

    backward = staticmethod(lesson_07.SOLVED["FirstShare"].backward)


def saved_by(apply: Apply) -> tuple[Tensor, ...]:
    y = apply(draw(9, 5))
    saved: tuple[Tensor, ...] = y.grad_fn.saved_tensors
    return saved


RUNS: dict[str, tuple[Apply, Apply, dict[str, Experiment]]] = {
    "locate-smooth-l1": (
        lesson_01.SOLVED["SmoothL1"].apply,
        smooth_l1,
        {
            "a": checked(*ERRORS, 1.0),
            "b": checked(*ERRORS, 0.5),
            "c": doubled(*ERRORS, 0.5),
            "d": values(*ERRORS, 0.5),
        },
    ),
    "card-skip-connection": (
        lesson_02.SOLVED["Rectify"].apply,
        MaskedReLU.apply,
        {
            "a": checked(draw(9, 7)),
            "b": lambda apply: numbers(gradient(apply, draw(6), upstream=draw(6).detach().cos())),
            "c": what_becomes_of_grad_output,
            "d": twice_on_one_graph,
        },
    ),
    "card-two-outputs": (
        lesson_02.SOLVED["MeanSpread"].apply,
        MeanSpread.apply,
        {
            "a": weighted(1, 1, 5),
            "b": weighted(0, 1, 5),
            "c": weighted(2, 3, 5),
            "d": weighted(1, 1, 3, 4),
        },
    ),
    "card-gradient-scale": (
        lesson_02.SOLVED["Tenth"].apply,
        Tenth.apply,
        {
            "a": lambda apply: unchanged(apply, draw(4)),
            "b": lambda apply: doubles(lambda x: apply(1 * x), draw(4)),
            "c": after_sin,
            "d": version_counted,
        },
    ),
    "card-twins": (
        lesson_02.SOLVED["Weigh"].apply,
        Weigh.apply,
        {
            "a": two_calls(row(3.0), row(5.0)),
            "b": lambda apply: two_calls(x := row(3.0), x)(apply),
            "c": checked(draw(4)),
            "d": doubled(draw(4)),
        },
    ),
    "card-second-function": (
        lesson_06.SOLVED["Swish"].apply,
        silu,
        {
            "a": checked(torch.linspace(-5, 5, 50, dtype=torch.float64).requires_grad_()),
            "b": second_derivative(by_input=False),
            "c": second_derivative(by_input=True),
            "d": doubled(draw(4)),
        },
    ),
    "card-activation": (
        lesson_05.SOLVED["QuantizedActivation"].apply,
        TwoBits.apply,
        {
            "a": checked(row(-1.0, 0.5, 2.0), row(1.0).squeeze()),
            "b": both_gradients(-1.0, 0.4, 0.6, 2.0),
            "c": doubled(row(-1.0, 0.5, 2.0), row(1.0).squeeze()),
            "d": both_gradients(0.9),
        },
    ),
    "locate-mean-pooling": (
        lesson_03.SOLVED["MeanPool"].apply,
        mean_pool,
        {
            "a": lambda apply: numbers(apply(draw(2, 4, 3), MASK)[1]),
            "b": lambda apply: passes(apply, draw(2, 4, 3), torch.ones_like(MASK)),
            "c": lambda apply: numbers(pooled_gradient(apply)[1].sum(0)),
            "d": lambda apply: numbers(pooled_gradient(apply)[~MASK]),
        },
    ),
    "card-late-nan": (
        lesson_08.SOLVED["InputsOnly"].apply,
        lesson_08.SOLVED["Attention"].apply,
        {
            "a": checked(draw(3, 4), draw(5, 4), draw(5, 2)),
            "b": finite_when_sharp,
            "c": output_when_sharp,
            "d": doubled(draw(3, 4), draw(5, 4), draw(5, 2)),
        },
    ),
    "card-saved-view": (
        lesson_07.SOLVED["FirstShare"].apply,
        FirstShare.apply,
        {
            "a": lambda apply: sum(tensor.nbytes for tensor in saved_by(apply)),
            "b": lambda apply: kept_bytes(apply, draw(9, 5)),
            "c": checked(draw(3, 4)),
            "d": lambda apply: len(saved_by(apply)),
        },
    ),
    "name-temperature": (
        lesson_04.SOLVED["BrokenTempered"].apply,
        tempered,
        {
            "a": lambda apply: numbers(gradient(apply, draw(3)).norm()),
            "b": edges,
            "c": checked(draw(3)),
            "d": values(draw(3)),
        },
    ),
    "name-floor-log": (
        lesson_04.SOLVED["BrokenFloorLog"].apply,
        lesson_04.SOLVED["FloorLog"].apply,
        {
            "a": values(SPECTRUM, 0.1),
            "b": above_the_floor,
            "c": lambda apply: [values(SPECTRUM, 0.1)(apply) for _ in range(2)],
            "d": lambda apply: unchanged(apply, SPECTRUM, 0.1),
        },
    ),
    "name-distance": (
        lesson_04.SOLVED["BrokenDistance"].apply,
        lesson_04.SOLVED["Distance"].apply,
        {
            "a": loss_with_weights(1.0, 2.0, 3.0),
            "b": loss_with_weights(1.0, 1.0, 1.0),
            "c": doubled(draw(3, 2), torch.zeros(3, 2)),
            "d": values(torch.zeros(3, 2), draw(3, 2)),
        },
    ),
    "name-rotation": (
        lesson_04.SOLVED["BrokenRotate"].apply,
        lesson_04.SOLVED["Rotate"].apply,
        {
            "a": lambda apply: [passes(apply, draw(3, 2), angle) for angle in (0.1, 0.7, 3.0)],
            "b": transposed_input,
            "c": other_strides,
            "d": doubled(draw(3, 4, 2), 0.7),
        },
    ),
    "name-solver": (
        lesson_04.SOLVED["BrokenSolve"].apply,
        lesson_04.SOLVED["Solve"].apply,
        {
            "a": lambda apply: [differentiated(draw(2), (0.1, 0.2))(apply) for _ in range(2)],
            "b": differentiated(draw(2), (0.1, 0.2)),
            "c": differentiated(draw(2), (0.3, 0.1, 0.2)),
            "d": lists_left,
        },
    ),
    "name-dropout": (
        lesson_04.SOLVED["BrokenDropout"].apply,
        dropped,
        {
            "a": lambda apply: 10 <= int((seeded(apply, ones(50), 0.4)[0] == 0).sum()) <= 30,
            "b": same_zeros,
            "c": under_one_seed,
            "d": is_the_identity,
        },
    ),
}
ASKED = [name for name, it in CATALOGUE.items() if isinstance(it, LocatingExercise)]


@pytest.fixture(autouse=True)
def a_temperature_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Define the tensor that one Function reads from its surroundings, as its notebook does."""
    monkeypatch.setitem(
        lesson_04.SOLVED["BrokenTempered"].forward.__globals__, "temperature", temperature
    )


@pytest.mark.parametrize("exercise_id", ASKED)
def test_one_experiment_shows_the_mistake(exercise_id: str) -> None:
    asked = CATALOGUE[exercise_id]
    assert isinstance(asked, LocatingExercise)
    broken, correct, experiments = RUNS[exercise_id]
    showing = [letter for letter, run in experiments.items() if run(broken) != run(correct)]

    assert showing == [asked.experiment]
    assert sorted({*asked.experiments, asked.experiment}) == list(experiments) == list("abcd")


@pytest.mark.parametrize("exercise_id", ASKED)
def test_each_numbered_line_has_its_reason(exercise_id: str) -> None:
    asked = CATALOGUE[exercise_id]
    assert isinstance(asked, LocatingExercise)
    numbered = sorted({*asked.lines, *asked.wrong_lines})

    assert numbered == [str(number) for number in range(1, len(numbered) + 1)]
    assert not {*asked.lines} & {*asked.wrong_lines}
