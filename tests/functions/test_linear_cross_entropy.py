"""The fused loss equals F.cross_entropy(F.linear(...)) and uses a fraction of its memory."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from autograd_doctor.memory import kept_bytes, peak_bytes
from torch import Tensor

from autograd_course import diagnose
from autograd_course.functions import linear_cross_entropy

CLASSES, WIDTH = 11, 5
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 4e-2}

each_reduction = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


def composed(
    input: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None = None, **options: Any
) -> Tensor:
    options.pop("chunk", None)
    return F.cross_entropy(F.linear(input, weight, bias), target, **options)


def draw(
    rows: int, dtype: torch.dtype = torch.float64, classes: int = CLASSES, width: int = WIDTH
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(rows)
    x, w, b = (
        torch.randn(*shape, generator=rng).to(dtype).requires_grad_()
        for shape in ((rows, width), (classes, width), (classes,))
    )
    return x, w, torch.randint(classes, (rows,), generator=rng), b


def assert_same(x: Tensor, w: Tensor, t: Tensor, b: Tensor | None, **options: Any) -> None:
    """Compare the value and the gradients for a random ``g``."""
    found, expected = (f(x, w, t, b, **options) for f in (linear_cross_entropy, composed))
    g = torch.randn_like(expected)
    leaves = [it for it in (x, w, b) if it is not None and it.requires_grad]
    results = ((y, *torch.autograd.grad(y, leaves, g)) for y in (found, expected))
    bound = TOLERANCE[x.dtype]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=bound, atol=bound, equal_nan=True)


# Values and gradients


@each_reduction
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
def test_values_and_gradients_are_those_of_the_composition(
    reduction: str, dtype: torch.dtype, smoothing: float, chunk: int
) -> None:
    x, w, t, b = draw(7, dtype)
    t[0], t[1], t[2] = 0, CLASSES - 1, -100

    assert_same(x, w, t, b, reduction=reduction, label_smoothing=smoothing, chunk=chunk)


@each_reduction
@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_or_none(reduction: str, rows: int) -> None:
    assert_same(*draw(rows), reduction=reduction)


@each_reduction
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_where_all_rows_are_ignored_the_mean_is_nan_and_the_gradients_are_0(
    reduction: str, smoothing: float
) -> None:
    x, w, t, b = draw(4)

    assert_same(x, w, torch.full_like(t, -100), b, reduction=reduction, label_smoothing=smoothing)


def test_a_class_can_be_the_one_that_is_ignored() -> None:
    assert_same(*draw(9), ignore_index=int(draw(9)[2][0]))


def test_without_a_bias() -> None:
    x, w, t, _ = draw(7)

    assert_same(x, w, t, None)


def test_a_row_alone_and_rows_of_rows() -> None:
    x, w, t, b = draw(6)

    assert_same(x[0].detach().requires_grad_(), w, t[0], b)
    losses = linear_cross_entropy(x.view(2, 3, WIDTH), w, t.view(2, 3), b, reduction="none")
    assert losses.shape == (2, 3)
    assert torch.equal(losses.flatten(), linear_cross_entropy(x, w, t, b, reduction="none"))


def test_logits_beyond_the_range_of_exp() -> None:
    x, w, t, b = draw(7)

    assert_same((1000 * x).detach().requires_grad_(), w, t, b)


def test_classes_that_are_ruled_out() -> None:
    x, w, t, b = draw(7)
    ruled_out = b.detach().clone()
    ruled_out[CLASSES - 1] = -math.inf

    assert_same(x, w, t.clamp(max=CLASSES - 2), ruled_out)


@each_reduction
@pytest.mark.parametrize("frozen", ["x", "w", "b"])
def test_what_is_frozen_costs_and_gets_nothing(reduction: str, frozen: str) -> None:
    x, w, t, b = draw(7)
    {"x": x, "w": w, "b": b}[frozen].requires_grad_(False)

    assert_same(x, w, t, b, reduction=reduction)


@each_reduction
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_under_autocast_dtypes_are_those_of_the_composition(
    reduction: str, dtype: torch.dtype
) -> None:
    x, w, t, b = draw(7, dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = (
            f(x, w, t, b, reduction=reduction) for f in (linear_cross_entropy, composed)
        )
    assert found.dtype == expected.dtype
    one, other = (torch.autograd.grad(y.sum(), (x, w, b)) for y in (found, expected))

    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)  # products alone are coarse
    for mine, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0.06, atol=0.06)


@pytest.mark.parametrize("whose", ["w", "b"])
def test_many_chunks_do_not_round_a_sum_over_rows_away(whose: str) -> None:
    x, w, t, b = draw(2000, torch.bfloat16)
    x, t = x.detach().abs(), torch.zeros_like(t)  # as no terms cancel, the sum grows large
    leaf = {"w": w, "b": b}[whose]
    (exact,) = torch.autograd.grad(
        linear_cross_entropy(x.double(), w.double(), t, b.double(), reduction="sum"), leaf
    )

    (found,) = torch.autograd.grad(linear_cross_entropy(x, w, t, b, reduction="sum", chunk=4), leaf)

    assert (found - exact).abs().max() < 0.03 * exact.abs().max()


def test_a_mean_is_taken_in_more_than_16_bits() -> None:
    x, w, t, b = (it.detach() * 0 if it.is_floating_point() else it for it in draw(100))
    (exact,) = torch.autograd.grad(composed(x, w, t, b.requires_grad_()), b)
    half = b.detach().bfloat16().requires_grad_()

    (found,) = torch.autograd.grad(linear_cross_entropy(x.bfloat16(), w.bfloat16(), t, half), half)

    assert torch.equal(found, exact.bfloat16())


# Backward


@each_reduction
def test_it_is_twice_differentiable(reduction: str) -> None:
    x, w, t, b = draw(4)
    t[1] = -100

    def call(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        options = {"reduction": reduction, "label_smoothing": 0.1, "chunk": 3}
        return linear_cross_entropy(x, w, t, b, **options)

    assert torch.autograd.gradcheck(call, (x, w, b))
    assert torch.autograd.gradgradcheck(call, (x, w, b))


@each_reduction
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_gradients_that_can_be_differentiated_are_the_same(
    reduction: str, dtype: torch.dtype, smoothing: float, autocast: bool, biased: bool
) -> None:
    x, w, t, b = draw(7, dtype)
    t[2] = -100
    leaves = (x, w, b) if biased else (x, w)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        y = linear_cross_entropy(
            x, w, t, b if biased else None, label_smoothing=smoothing, reduction=reduction
        )

    once = torch.autograd.grad(y.sum(), leaves, retain_graph=True)
    again = torch.autograd.grad(y.sum(), leaves, create_graph=True)

    bound = TOLERANCE[torch.bfloat16 if autocast else dtype]
    for one, other in zip(once, again, strict=True):
        torch.testing.assert_close(other, one, rtol=bound, atol=bound)


@each_reduction
def test_the_graph_can_be_gone_through_twice(reduction: str) -> None:
    x, w, t, b = draw(7)
    y = linear_cross_entropy(x, w, t, b, reduction=reduction).sum()

    first = torch.autograd.grad(y, (x, w, b), retain_graph=True)
    second = torch.autograd.grad(3 * y, (x, w, b))

    for one, three in zip(first, second, strict=True):
        torch.testing.assert_close(three, 3 * one)


@each_reduction
def test_the_doctor_finds_nothing(reduction: str) -> None:
    x, w, t, b = draw(4, torch.float32)

    def call(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return linear_cross_entropy(x, w, t, b, reduction=reduction, chunk=3)

    diagnosis = diagnose(call, (x, w, b), double_backward=True)

    assert diagnosis.findings == (), str(diagnosis)


# Memory

ROWS, VOCABULARY, FEATURES, CHUNK = 512, 4096, 32, 32
LOGITS = 4 * ROWS * VOCABULARY
OF_A_CHUNK = 4 * CHUNK * VOCABULARY
INPUTS = 4 * (ROWS + VOCABULARY) * FEATURES  # as large as their gradients


def large() -> tuple[Tensor, Tensor, Tensor]:
    return draw(ROWS, torch.float32, VOCABULARY, FEATURES)[:3]


@each_reduction
@pytest.mark.parametrize("backward", [False, True])
def test_the_logits_of_all_rows_never_exist(reduction: str, backward: bool) -> None:
    def ours(*inputs: Tensor) -> Tensor:
        return linear_cross_entropy(*inputs, reduction=reduction, chunk=CHUNK)

    peak = peak_bytes(ours, *large(), backward=backward)

    # One chunk's logits, the gradients (twice if they are scaled by g), and a few numbers per row
    assert peak < OF_A_CHUNK + 2 * INPUTS + 64 * ROWS
    assert peak < 0.4 * LOGITS
    assert peak_bytes(composed, *large(), backward=backward) > 2 * LOGITS


@pytest.mark.parametrize("chunk", [16, 64, 256])
def test_beside_the_gradients_the_peak_grows_with_the_chunk_alone(chunk: int) -> None:
    def forward(*inputs: Tensor) -> Tensor:
        return linear_cross_entropy(*inputs, chunk=chunk)

    rest = peak_bytes(forward, *large(), backward=False) - 4 * chunk * VOCABULARY

    assert INPUTS <= rest < INPUTS + 64 * ROWS + 8 * chunk * FEATURES


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kept_are_the_gradients_where_g_is_one_number_and_nothing_where_it_is_not(
    dtype: torch.dtype,
) -> None:
    inputs = draw(ROWS, dtype, VOCABULARY, FEATURES)[:3]

    def loss(reduction: str) -> Any:
        return lambda *inputs: linear_cross_entropy(*inputs, reduction=reduction)

    assert kept_bytes(loss("mean"), *inputs) == INPUTS * dtype.itemsize // 4
    assert kept_bytes(loss("none"), *inputs) == 0


def test_without_a_backward_pass_to_come_no_gradient_is_computed() -> None:
    with torch.no_grad():
        assert not linear_cross_entropy(*large()).requires_grad


# Rejected arguments


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"weight": torch.randn(CLASSES, 4)},
            r"needs input \(..., D\) and weight \(V, D\); got input \(7, 5\), weight \(11, 4\)",
        ),
        ({"target": torch.zeros(3, dtype=torch.long)}, "a class, an integer, for each row"),
        ({"target": torch.rand(7)}, "a class, an integer, for each row"),
        ({"bias": torch.randn(4)}, r"bias is to be \(11,\), not \(4,\)"),
        ({"reduction": "avg"}, "'mean', 'sum' or 'none', not 'avg'"),
        ({"label_smoothing": 1.5}, "between 0 and 1, not at 1.5"),
        ({"chunk": 0}, "at least one row, not 0"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(change: dict[str, Any], message: str) -> None:
    x, w, t, b = draw(7)

    with pytest.raises(ValueError, match=message):
        linear_cross_entropy(**{"input": x, "weight": w, "target": t, "bias": b, **change})


def test_a_class_that_does_not_exist_is_refused() -> None:
    x, w, t, _ = draw(7)

    with pytest.raises(RuntimeError, match="out of bounds"):
        linear_cross_entropy(x, w, torch.full_like(t, CLASSES))
