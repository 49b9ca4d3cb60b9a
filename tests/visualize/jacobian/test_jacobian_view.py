"""The Jacobian view without a browser: its two matrices, their description, and its errors."""

from __future__ import annotations

import base64
import gc
import json
import random
import re
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch
from autograd_doctor import jacobians as heatmap
from autograd_doctor.jacobians import MOST_ELEMENTS
from cases.making import saving
from PIL import Image
from torch import Tensor
from torch.autograd import Function

from autograd_course import diagnose
from autograd_course.visualize.jacobian.describe import looks
from autograd_course.visualize.jacobian.trace import MOST as MOST_CELLS
from autograd_course.visualize.jacobian.trace import capture
from autograd_course.visualize.jacobian.widget import JacobianView, jacobian_view
from autograd_course.visualize.kit.errors import TraceError


def soft(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


SoftDiagonal = saving(soft, lambda x, g: soft(x) * (1 - soft(x)) * g)
HalfSquare = saving(lambda x: x * x, lambda x, g: x * g)


class Untransposed(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return g @ w, x.T @ g


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def number(view: JacobianView, part: int, row: int, column: int) -> str:
    """Return the displayed number. Part 0 is differences, 1 is backward, 2 is their difference."""
    page = view.views[view.shown]
    return page["texts"][page["numbers"][part][row * len(page["columns"]) + column]]


# The matrices


CALLS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "softmax": (soft, (draw(2, 3),)),
    "a matrix product": (torch.matmul, (draw(2, 3), draw(3, 2, seed=1))),
    "a scalar": (torch.sin, (torch.tensor(1.0),)),
    "a cumulative sum": (lambda x: x.cumsum(0), (draw(5),)),
    "two outputs": (lambda x: (x.sum(), x * x), (draw(3),)),
    "an expanded output": (lambda x: x.expand(3, 2), (draw(2),)),
}


@pytest.mark.parametrize(("fn", "inputs"), CALLS.values(), ids=CALLS)
def test_both_matrices_of_correct_code_are_its_jacobian(
    fn: Callable[..., Any], inputs: tuple[Tensor, ...]
) -> None:
    exact = torch.autograd.functional.jacobian(fn, tuple(x.double() for x in inputs))
    by_output = exact if isinstance(exact[0], tuple) else (exact,)
    captured = capture(fn, inputs, None, None)

    # Our order goes over inputs first, then over outputs.
    order = [(k, i) for i in range(len(inputs)) for k in range(len(by_output))]
    for pair, (k, i) in zip(captured.pairs, order, strict=True):
        right = by_output[k][i].reshape(pair.whole)
        torch.testing.assert_close(torch.tensor(pair.backward).to(right), right)
        torch.testing.assert_close(
            torch.tensor(pair.differences).to(right), right, rtol=1e-7, atol=1e-9
        )
        assert not any(entry for line in pair.off for entry in line)


def test_a_row_is_what_backward_returns_for_a_one_hot_grad_output() -> None:
    x = draw(2, 3)
    (pair,) = capture(SoftDiagonal, (x,), None, None).pairs
    leaf = x.double().requires_grad_()
    one_hot = torch.zeros(2, 3, dtype=torch.float64)
    one_hot[1, 0] = 1

    (row,) = torch.autograd.grad(SoftDiagonal.apply(leaf), leaf, one_hot)

    assert pair.backward[3] == tuple(row.flatten().tolist())


def test_what_is_wrong_is_marked_and_nothing_else() -> None:
    view = jacobian_view(SoftDiagonal, draw(2, 2))

    assert view.views[0]["marks"] == (".x..", "x...", "...x", "..x.")
    assert view.views[0]["wrong"] == 4
    assert number(view, 1, 0, 1) == "0"
    assert float(number(view, 0, 0, 1)) == -float(number(view, 2, 0, 1)) < 0


def test_too_small_is_as_wrong_as_too_large() -> None:
    page = jacobian_view(HalfSquare, torch.tensor([1.0, -2.0])).views[0]

    assert page["marks"] == ("x.", ".x")


def test_where_forward_is_not_differentiable_nothing_is_judged() -> None:
    view = jacobian_view(torch.relu, torch.tensor([-1.0, 0.0, 2.0]))

    assert view.views[0]["marks"] == (".?.", ".?.", ".?.")
    assert number(view, 0, 1, 1) == "–"
    assert "in all 9 entries where finite differences find a derivative" in view.views[0]["verdict"]


def test_a_backward_that_returns_nan_is_wrong() -> None:
    function = saving(lambda x: x * x, lambda x, g: g * float("nan"))

    view = jacobian_view(function, torch.tensor([1.0, 2.0]))

    assert view.views[0]["marks"] == ("xx", "xx")
    assert view.png


def test_a_reference_takes_the_place_of_differences() -> None:
    rounding = saving(torch.round, lambda x, g: g)

    alone = jacobian_view(rounding, torch.tensor([0.3, 1.2]))
    declared = jacobian_view(rounding, torch.tensor([0.3, 1.2]), reference=lambda x: 1 * x)

    assert alone.views[0]["wrong"] == 2
    assert declared.views[0]["wrong"] == 0
    assert declared.views[0]["maps"][0]["title"] == "reference by autograd"


def test_of_several_outputs_one_can_be_chosen() -> None:
    view = jacobian_view(lambda x: (x.sum(), x * x), draw(3), of=1)

    assert [page["heading"] for page in view.views] == [
        "The 3 × 3 Jacobian of output 1 with respect to x"
    ]


def test_the_first_input_with_a_wrong_gradient_comes_on_stage() -> None:
    swapped = saving(lambda x, w: x @ w, lambda x, w, g: (g @ w.T, (g.T @ x) * 2))

    view = jacobian_view(swapped, draw(2, 2), draw(2, 2, seed=1))

    assert [page["name"] for page in view.views] == [
        "the output by args[0]",
        "the output by args[1]",
    ]
    assert view.shown == 1


def test_a_complex_element_has_two_rows() -> None:
    view = jacobian_view(lambda z: z * z, torch.tensor([1 + 2j]))

    assert view.views[0]["rows"] == ("output[0].real", "output[0].imag")
    assert [number(view, 1, *at) for at in ((0, 0), (0, 1), (1, 0), (1, 1))] == [
        "2", "-4", "4", "2",
    ]  # fmt: skip


# Names for the patterns


def test_the_doctors_first_finding_stands_above() -> None:
    view = jacobian_view(Untransposed, draw(2, 3), draw(3, 3, seed=1))

    assert view.finding.startswith("transposed-gradient: The gradient of `x` is the Jacobian times")


def test_plain_autograd_is_not_blamed_for_having_no_function() -> None:
    assert jacobian_view(soft, draw(2, 2)).finding == ""


BLOCKS = torch.block_diag(torch.ones(2, 3), 2 * torch.ones(2, 3))
PATTERNS: dict[str, Tensor] = {
    "zero": torch.zeros(3, 3),
    "the identity": torch.eye(3),
    "a multiple of the identity": -2 * torch.eye(3),
    "diagonal": torch.diag(torch.tensor([1.0, 2.0, 0.0])),
    "a permuted diagonal": torch.eye(4)[[2, 0, 3, 1]],
    "block diagonal (2 blocks of 2 × 3), of rank 2": BLOCKS,
    "independent parts (2 blocks of 2 × 3), of rank 2": BLOCKS[[0, 2, 1, 3]],
    "lower triangular": torch.ones(3, 3).tril(),
    "upper triangular": torch.ones(3, 3).triu(),
    "dense, symmetric, of rank 1": torch.ones(3, 3),
    "dense": torch.tensor([[1.0, 2.0], [3.0, 5.0]]),
    "": torch.full((2, 2), torch.nan),
}


@pytest.mark.parametrize(("words", "matrix"), PATTERNS.items(), ids=PATTERNS)
def test_a_pattern_is_named_by_its_numbers(words: str, matrix: Tensor) -> None:
    matrix = matrix.double()

    assert looks(matrix) == words
    assert looks(matrix * (1 + 1e-10)) == words, "rounding changes no name"


@pytest.mark.parametrize("fn", [soft, lambda x: x.cumsum(-1)])
def test_one_wrong_entry_changes_the_name(fn: Callable[[Tensor], Tensor]) -> None:
    (pair,) = capture(fn, (draw(2, 3),), None, None).pairs
    matrix = torch.tensor(pair.backward, dtype=torch.float64)
    before = looks(matrix)
    matrix[0, 5] += 1

    assert looks(matrix) != before


# Large matrices


def test_a_large_jacobian_is_shown_in_blocks_and_says_so() -> None:
    off_once = saving(lambda x: 2 * x, lambda x, g: 2 * g + g * (torch.arange(len(x)) == 200))

    view = jacobian_view(off_once, draw(300))
    page = view.views[0]

    assert len(page["rows"]) == len(page["columns"]) == 100 <= MOST_CELLS
    assert "shows the largest of 3 × 3 entries" in page["scale"]
    assert [k for k, line in enumerate(page["marks"]) if "x" in line] == [66]
    assert page["rows"][66] == "output[198] … output[200]"
    assert number(view, 2, 66, 66) == "1"
    assert view.cell == [66, 66]


def test_up_to_128_each_entry_has_its_cell() -> None:
    page = jacobian_view(lambda x: 2 * x, draw(MOST_CELLS)).views[0]

    assert (len(page["rows"]), page["scale"]) == (MOST_CELLS, "")


# From a diagnosis


def test_a_diagnosis_shows_its_own_matrices() -> None:
    diagnosis = diagnose(SoftDiagonal, draw(3, 4))
    assert diagnosis.jacobians is not None

    view = jacobian_view(diagnosis)

    assert view.view.pair is diagnosis.jacobians
    assert view.finding.startswith("missing-cross-terms: ")
    assert view.views[0]["rows"][5] == "output[1, 1]"
    heading = "The 12 × 12 Jacobian of the output with respect to args[0]"
    assert heading in diagnosis._repr_html_()
    assert view.views[0]["heading"] == heading


def test_widget_and_report_are_siblings() -> None:
    diagnosis = diagnose(SoftDiagonal, draw(3, 4))

    maps, html = jacobian_view(diagnosis).views[0]["maps"], diagnosis._repr_html_()

    for shown in maps:
        assert shown["image"] in html, "the same picture, byte by byte"
        assert shown["title"] in html
        assert shown["filling"].partition(";")[0] in html


# It leaves no trace behind


@pytest.mark.colab
def test_a_saved_notebook_has_the_picture_and_the_account() -> None:
    view = jacobian_view(SoftDiagonal, draw(2, 3))
    data, _ = view._repr_mimebundle_()

    assert base64.b64decode(data["image/png"]) == view.png
    assert data["text/plain"] == repr(view)
    assert "image/svg+xml" not in data


def test_the_account_tells_what_the_picture_shows() -> None:
    text = repr(jacobian_view(HalfSquare, torch.tensor([1.0, -2.0])))

    assert text.splitlines() == [
        "constant-factor: The gradient of `args[0]` is 1/2 times the true gradient.",
        "The 2 × 2 Jacobian of the output with respect to args[0]",
        "  ✗ 2 of 4 entries of backward are wrong.",
        "  finite differences of forward: only the diagonal, up to ±4",
        "  backward: only the diagonal, up to ±2",
        "  backward − finite differences: only the diagonal, up to ±2",
        "  finite differences of forward",
        "     2   0",
        "     0  -4",
        "  backward",
        "     1   0",
        "     0  -2",
        "  backward − finite differences",
        "    -1   0",
        "     0   2",
        "  selected ∂output[1] / ∂args[0][1]: finite differences -4, backward -2, difference 2; "
        "✗ backward is wrong here",
    ]


def test_of_a_larger_one_the_account_lists_wrong_entries() -> None:
    text = repr(jacobian_view(SoftDiagonal, draw(3, 4)))

    assert text.count("✗ backward is wrong here") == 7
    assert "and 30 more" in text


def colors(view: JacobianView) -> set[tuple[int, ...]]:
    picture = Image.open(BytesIO(view.png)).convert("RGB")
    return {color for _, color in picture.getcolors(1 << 24)}


def test_the_picture_has_the_exact_colors_of_the_scale() -> None:
    view = jacobian_view(SoftDiagonal, draw(3, 4))

    assert {heatmap.NEGATIVE, heatmap.POSITIVE, (255, 255, 255)} <= colors(view)


def test_the_same_state_gives_the_same_bytes_and_another_cell_others() -> None:
    one, other = (jacobian_view(HalfSquare, torch.tensor([1.0, -2.0])) for _ in range(2))
    assert (one.png, repr(one)) == (other.png, repr(other))

    other.cell = [0, 1]

    assert one.png != other.png
    assert "selected ∂output[0] / ∂args[0][1]: finite differences 0" in repr(other)


@pytest.mark.colab
def test_a_cell_outside_is_the_nearest_inside() -> None:
    view = jacobian_view(HalfSquare, torch.tensor([1.0, -2.0]))
    view.cell = [9, -3]

    assert view.cell == [1, 0]


@pytest.mark.colab
def test_choosing_another_jacobian_goes_to_its_worst_cell() -> None:
    view = jacobian_view(Untransposed, draw(2, 3), draw(3, 3, seed=1))
    view.shown = 1

    assert view.cell == [0, 0]
    assert "with respect to w" in view.view.heading
    view.shown = 7
    assert view.shown == 1


@pytest.mark.colab
@pytest.mark.parametrize("size", [4, 128])
def test_what_is_sent_to_the_page_is_json_and_not_large(size: int) -> None:
    state = jacobian_view(torch.tanh, draw(size)).get_state()

    sent = json.dumps(state["views"], allow_nan=False)

    assert len(sent) < 300_000


def test_nothing_of_the_callers_is_changed() -> None:
    torch.manual_seed(3)
    weight = torch.nn.Linear(3, 2)
    x = draw(2, 3).requires_grad_()
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy())
    kept = [p.detach().clone() for p in weight.parameters()]

    jacobian_view(weight, x)

    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()
    assert x.grad is None
    assert all(torch.equal(a, b) for a, b in zip(weight.parameters(), kept, strict=True))
    assert {p.dtype for p in weight.parameters()} == {torch.float32}
    assert all(p.grad is None for p in weight.parameters())


def test_no_graph_stays_alive() -> None:
    def alive() -> int:
        gc.collect()
        return sum(type(it) is Tensor and it.grad_fn is not None for it in gc.get_objects())

    before = alive()
    view = jacobian_view(SoftDiagonal, draw(3))

    assert alive() == before
    assert view.views


# Rejected arguments, each with one sentence


def raising(x: Tensor) -> Tensor:
    raise ValueError("no luck today.\nsecond line")


RaisesBackward = saving(lambda x: x * x, lambda x, g: 1 / 0)

REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "a tensor": ((torch.ones(2),), {}, "write jacobian_view(loss, x, y), not"),
    "no inputs": ((torch.sin,), {}, "pass at least one, for example torch.randn(3, 4)"),
    "integers": ((torch.sin, torch.tensor([1, 2])), {}, "No input is a floating"),
    "too large": ((torch.sin, torch.zeros(MOST_ELEMENTS + 1)), {}, "Pass a smaller example"),
    "too large an output": (
        (lambda x: x[:, None] * x, torch.zeros(30)), {}, "Output 0 of callable has 900 elements",
    ),
    "an empty input": ((torch.sin, torch.zeros(0)), {}, "pass an example with elements"),
    "a sparse input": ((torch.sin, torch.eye(2).to_sparse()), {}, "Input 1 is sparse"),
    "no output": ((lambda x: None, torch.ones(2)), {}, "return the tensor that is differentiated"),
    "forward raises": (
        (raising, torch.ones(2)), {}, "The forward of raising raised ValueError: no luck today.",
    ),
    "backward raises": ((RaisesBackward, torch.ones(2)), {}, "raised ZeroDivisionError"),
    "no such output": ((torch.sin, torch.ones(2)), {"of": 3}, "counted from 0"),
    "another reference": (
        (torch.sin, torch.ones(2)), {"reference": lambda x: x.sum()}, "returns other shapes",
    ),
    "a right diagnosis": (
        (diagnose(saving(torch.sin, lambda x, g: g * x.cos()), torch.ones(2)),),
        {}, "contains no Jacobians",
    ),
    "a diagnosis and inputs": (
        (diagnose(HalfSquare, torch.ones(2)), torch.ones(2)), {}, "A diagnosis takes no inputs",
    ),
}  # fmt: skip


@pytest.mark.colab
@pytest.mark.parametrize(("args", "options", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_shown_is_refused_in_one_sentence(
    args: tuple[Any, ...], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(TraceError, match=re.escape(words)) as refusal:
        jacobian_view(*args, **options)

    assert "\n" not in str(refusal.value)
