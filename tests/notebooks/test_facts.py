"""Facts about PyTorch in lesson 01. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import jupytext
import pytest
import torch
from made import CLAMP_AT_BOUNDS, keeping, leaf, make, price, squaring
from repository import ROOT
from torch import Tensor
from torch.autograd import Function, gradcheck
from torch.nn.functional import leaky_relu, relu6

from autograd_course import diagnose

pytestmark = pytest.mark.slow

# When to write one


def test_forward_alone_is_part_of_the_graph_and_backward_raises() -> None:
    class ForwardOnly(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x**2

    y = ForwardOnly.apply(leaf(1.0, 2.0))
    assert y.grad_fn is not None
    with pytest.raises(NotImplementedError, match="must implement either the backward or vjp"):
        y.sum().backward()


def test_autograd_does_not_differentiate_a_comparison() -> None:
    force, low, high = leaf(2.0), torch.tensor(-10.0), torch.tensor(10.0)
    y = torch.where(force > 1, low, high)
    assert y.grad_fn is None
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        y.sum().backward()


def test_a_wrong_backward_is_believed() -> None:
    x = leaf(3.0)
    squaring(lambda x, g: -17 * g).apply(x).backward()
    assert x.grad.item() == -17


def test_a_test_on_sum_cannot_see_a_forgotten_grad_output() -> None:
    f = squaring(lambda x, g: 2 * x).apply
    x, weights = leaf(1.0, 2.0), torch.tensor([1.0, 10.0])
    assert torch.equal(torch.autograd.grad(f(x).sum(), x)[0], 2 * x)
    assert torch.equal(torch.autograd.grad((100 * f(x)).sum(), x)[0], 2 * x)
    assert torch.equal(torch.autograd.grad((weights * f(x)).sum(), x)[0], 2 * x)


def test_a_hook_on_a_tensor_clips_its_gradient() -> None:
    x = leaf(1.0, 2.0)
    y = 3 * x
    y.register_hook(lambda g: g.clamp(-1, 1))
    (torch.tensor([10.0, 0.5]) * y).sum().backward()
    assert x.grad.tolist() == [3.0, 1.5]


def test_gradcheck_calls_backward_with_one_hot_gradients_and_with_zeros() -> None:
    seen = []
    gradcheck(squaring(lambda x, g: seen.append(g.tolist()) or 2 * x * g).apply, leaf(1.0, 2.0))
    assert {*map(tuple, seen)} == {(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)}


def test_a_saved_boolean_mask_takes_a_byte_an_element() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x > 0)
        return x.clamp(min=0)

    relu = make(forward, lambda ctx, g: g * ctx.saved_tensors[0])
    assert price(relu.apply, torch.ones(64, requires_grad=True))[2] == 1


def test_a_saved_output_is_shared_with_the_next_layer() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = 3 * torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    hand = make(forward, lambda ctx, g: g * ctx.saved_tensors[0])
    x, w = torch.ones(8, 8, requires_grad=True), torch.ones(8, 8, requires_grad=True)
    assert price(lambda x, w: hand.apply(x) @ w, x, w)[2] == 2 * 4
    assert price(lambda x, w: (3 * torch.sigmoid(x)) @ w, x, w)[2] == 3 * 4


# Anatomy


def test_grad_mode_is_off_inside_forward() -> None:
    modes: list[bool] = []

    def forward(ctx: Any, x: Tensor) -> Tensor:
        modes.append(torch.is_grad_enabled())
        return x * 2

    make(forward, lambda ctx, g: g * 2).apply(leaf(1.0))
    assert modes == [False]


def test_a_direct_call_warns_runs_no_forward_and_returns_no_tensor() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        pytest.fail("forward ran")

    made = make(forward, lambda ctx, g: g)
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        result = made(leaf(1.0))
    assert isinstance(result, made)
    assert not isinstance(result, Tensor)


def test_ctx_is_the_node_of_the_graph() -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Tensor) -> Tensor:
        seen.append(ctx)
        return x * 2

    y = make(forward, lambda ctx, g: g * 2).apply(leaf(1.0))
    assert y.grad_fn is seen[0]
    assert y.grad_fn.name() == "MadeBackward"


def test_saved_tensors_are_freed_after_backward() -> None:
    y = squaring(lambda x, g: 2 * x * g).apply(leaf(1.0))
    y.backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        _ = y.grad_fn.saved_tensors


def test_an_in_place_change_of_a_saved_tensor_is_noticed() -> None:
    x = leaf(1.0)
    inner = x * 1
    y = squaring(lambda x, g: 2 * x * g).apply(inner)
    inner.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


G = torch.full((3,), 2.0)


@pytest.mark.parametrize(
    ("returned", "x_grad"),
    [
        pytest.param((G, None), [2.0, 2, 2], id="one value an argument is accepted"),
        pytest.param((G, None, None), [2.0, 2, 2], id="surplus trailing None is accepted"),
        pytest.param((G.expand(2, 3), None), [4.0, 4, 4], id="surplus rows are summed silently"),
        pytest.param((None, None), None, id="None for an input that needs a gradient is accepted"),
    ],
)
def test_backward_may_return(returned: Any, x_grad: list[float] | None) -> None:
    x = torch.ones(3, requires_grad=True)
    make(lambda ctx, x, factor: factor * x, lambda ctx, g: returned).apply(x, 2.0).sum().backward()
    assert (None if x.grad is None else x.grad.tolist()) == x_grad


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        pytest.param((G,), r"incorrect number of gradients \(expected 2, got 1\)", id="too few"),
        pytest.param((G, None, G), r"\(expected 2, got 3\)", id="surplus that is not None"),
        pytest.param((G[:2], None), "invalid gradient at index 0", id="incompatible shape"),
    ],
)
def test_backward_may_not_return(returned: Any, message: str) -> None:
    x = torch.ones(3, requires_grad=True)
    y = make(lambda ctx, x, factor: factor * x, lambda ctx, g: returned).apply(x, 2.0)
    with pytest.raises(RuntimeError, match=message):
        y.sum().backward()


def test_needs_input_grad_has_an_entry_for_each_argument_passed() -> None:
    lengths: list[int] = []

    def forward(ctx: Any, x: Tensor, shift: Tensor | None = None) -> Tensor:
        lengths.append(len(ctx.needs_input_grad))
        return x * 2

    made = make(forward, lambda ctx, g: (g * 2, None))
    made.apply(leaf(1.0))
    made.apply(leaf(1.0), None)
    assert lengths == [1, 2]


def test_the_gradient_of_an_unused_output_arrives_as_zeros() -> None:
    arrived: list[Tensor] = []

    def backward(ctx: Any, grad_s: Tensor, grad_c: Tensor) -> Tensor:
        arrived.extend((grad_s, grad_c))
        return grad_s

    s, _ = make(lambda ctx, x: (x.sin(), x.cos()), backward).apply(leaf(0.0, 1.0))
    s.sum().backward()
    assert [g.tolist() for g in arrived] == [[1.0, 1.0], [0.0, 0.0]]


# Kinks and gradcheck


@pytest.mark.parametrize(
    ("f", "kink", "slope"),
    [
        pytest.param(torch.relu, 0.0, 0.0, id="convex, slopes 0 and 1"),
        pytest.param(torch.abs, 0.0, 0.0, id="convex, slopes -1 and 1"),
        pytest.param(leaky_relu, 0.0, 0.01, id="convex, slopes 0.01 and 1"),
        pytest.param(relu6, 0.0, 0.0, id="relu6 at 0: convex, slopes 0 and 1"),
        pytest.param(relu6, 6.0, 0.0, id="relu6 at 6: concave, slopes 1 and 0"),
        pytest.param(torch.sqrt, 0.0, math.inf, id="by continuity"),
    ],
)
def test_at_a_kink_pytorch_takes_the_slope_of_minimum_norm(
    f: Callable[[Tensor], Tensor], kink: float, slope: float
) -> None:
    x = leaf(kink)
    assert torch.autograd.grad(f(x).sum(), x)[0].item() == slope


def test_clamp_has_a_convention_of_its_own_at_its_bounds() -> None:
    x = leaf(0.0, 6.0)
    at_bounds = torch.autograd.grad(x.clamp(0, 6).sum(), x)[0]
    assert at_bounds.tolist() == 2 * [CLAMP_AT_BOUNDS]


def test_gradcheck_across_a_kink_sees_half_of_each_side() -> None:
    with pytest.raises(RuntimeError, match=r"numerical:tensor\(\[\[0\.5000"):
        gradcheck(relu6, leaf(0.0))


def test_gradcheck_shows_a_row_for_each_input_element() -> None:
    with pytest.raises(RuntimeError, match=r"analytical:tensor\(\[\[2., 2.\],\s+\[6., 6.\]\]"):
        gradcheck(squaring(lambda x, g: 2 * x).apply, leaf(1.0, 3.0))


@pytest.mark.parametrize("size", [3, 10, 30])
@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_calls_each_way_twice_an_element_and_two_more_or_four_if_fast(
    size: int, fast: bool
) -> None:
    calls = {"forward": 0, "backward": 0}

    def forward(ctx: Any, x: Tensor) -> Tensor:
        calls["forward"] += 1
        return x * 2

    def backward(ctx: Any, g: Tensor) -> Tensor:
        calls["backward"] += 1
        return g * 2

    x = torch.linspace(0, 1, size, dtype=torch.float64, requires_grad=True)
    gradcheck(make(forward, backward).apply, x, fast_mode=fast)
    expected = 4 if fast else 2 * size + 2
    assert calls == {"forward": expected, "backward": expected}


def test_gradcheck_in_float32_warns_and_fails_correct_code() -> None:
    x = leaf(0.5, 3.0, 7.0, dtype=torch.float32)
    with pytest.warns(UserWarning, match="not a double precision"):
        assert not gradcheck(relu6, x, raise_exception=False)


def test_gradcheck_defaults() -> None:
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(gradcheck).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    assert defaults == {
        "eps": 1e-6,
        "atol": 1e-5,
        "rtol": 1e-3,
        "raise_exception": True,
        "nondet_tol": 0.0,
        "check_undefined_grad": True,
        "check_grad_dtypes": False,
        "check_batched_grad": False,
        "check_batched_forward_grad": False,
        "check_forward_ad": False,
        "check_backward_ad": True,
        "fast_mode": False,
        "masked": None,
    }


# torch's deprecated torch.jit.script compiles torch's own forward-mode decompositions.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_gradcheck_does_not_call_jvp_unless_asked() -> None:
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        raise AssertionError("jvp ran")

    made = make(lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    made.jvp = staticmethod(jvp)  # type: ignore[method-assign]
    assert gradcheck(made.apply, leaf(1.0, 2.0))
    with pytest.raises(AssertionError, match="jvp ran"):
        gradcheck(made.apply, leaf(1.0, 2.0), check_forward_ad=True)


# What gradcheck cannot see


@pytest.mark.parametrize(
    "distort",
    [
        pytest.param(lambda g: g.clamp(-1, 1), id="clamp"),
        pytest.param(torch.abs, id="abs"),
        pytest.param(torch.relu, id="relu"),
        pytest.param(lambda g: g * g, id="square"),
    ],
)
def test_gradcheck_passes_a_backward_that_is_not_linear_in_g(
    distort: Callable[[Tensor], Tensor],
) -> None:
    f = squaring(lambda x, g: 2 * x * distort(g)).apply
    x = leaf(1.0, 2.0, 3.0)
    assert gradcheck(f, x)
    assert not torch.allclose(torch.autograd.grad((-10 * f(x)).sum(), x)[0], -20 * x)


def test_gradcheck_passes_an_unreduced_broadcast_which_the_engine_sums() -> None:
    made = make(lambda ctx, x, offset: x + offset, lambda ctx, g: (g, g))
    rows, offset = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True), leaf(0.0, 0.0, 0.0)
    y = made.apply(rows, offset)
    assert made.backward(y.grad_fn, torch.ones_like(y))[1].shape == (2, 3)
    y.sum().backward()
    assert offset.grad.tolist() == [2.0, 2.0, 2.0]
    assert gradcheck(made.apply, (rows, offset))


def test_gradcheck_passes_a_branch_that_no_input_enters() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x > 0)
        return x.clamp(0, 6)

    forgetful = make(forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply
    assert gradcheck(forgetful, leaf(-2.0, 0.5, 3.0))
    assert not gradcheck(forgetful, leaf(-2.0, 0.5, 7.0), raise_exception=False)


def test_diagnose_needs_an_example_that_visits_every_branch() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x > 0)
        return x.clamp(0, 6)

    forgetful = make(forward, lambda ctx, g: g * ctx.saved_tensors[0])
    assert not diagnose(forgetful, (leaf(-2.0, 3.0),)).findings
    (finding,) = diagnose(forgetful, (leaf(-2.0, 3.0, 7.0),)).findings
    assert finding.rule == "wrong-region"


# The colleague's Function


def test_diagnose_finds_the_colleagues_mistake_by_the_call_that_checkpoint_2_suggests() -> None:
    lesson = jupytext.read(ROOT / "notebooks" / "01_template.py").cells
    needed = ("from autograd_course import", "class PinballLoss", "rain = ", "class RepairedLoss")
    names: dict[str, Any] = {}
    for cell in lesson:
        if cell.cell_type == "code" and any(text in cell.source for text in needed):
            exec(cell.source, names)
    (call,) = {*re.findall(r"`(diagnose\(RepairedLoss.*?)` in a new cell", str(lesson))}

    finding = eval(call, names).findings[0]

    assert finding.rule == "wrong-region"
    assert "prediction > target" in finding.message
    assert "9 times" in finding.message


# A test for your own project


@pytest.fixture(scope="module")
def check_gradients() -> Callable[..., None]:
    """Return the function in the lesson's cell, which needs nothing but PyTorch."""
    (cell,) = (
        cell.source
        for cell in jupytext.read(ROOT / "notebooks" / "01_template.py").cells
        if "def check_gradients" in cell.source
    )
    names: dict[str, Any] = {}
    exec(cell.partition("\ncheck_gradients(")[0], names)
    assert {*re.findall(r"^(?:from|import) (\w+)", cell, re.MULTILINE)} == {"torch"}
    check: Callable[..., None] = names["check_gradients"]
    return check


BATCH = torch.tensor([[1.0, -2.0], [3.0, 0.5]])


@pytest.mark.parametrize(
    "function",
    [
        squaring(lambda x, g: 2 * x * g),
        keeping(lambda x: x.square().mean(), lambda g, x: 2 * x * g / x.numel()),
    ],
    ids=["a square", "a mean"],
)
def test_the_test_to_copy_accepts_right_functions(
    check_gradients: Callable[..., None], function: type[Function]
) -> None:
    check_gradients(function.apply, BATCH)


WRONG = {
    "a wrong gradient": (squaring(lambda x, g: x * g), "Jacobian mismatch"),
    "not linear": (squaring(lambda x, g: 2 * x * g.clamp(-1, 1)), "not linear in grad_output"),
    "a wrong second derivative": (squaring(lambda x, g: 2 * x.detach() * g), "Jacobian mismatch"),
    "writes into grad_output": (squaring(lambda x, g: g.mul_(2 * x)), "in-place operation"),
    "assumes a layout": (
        squaring(lambda x, g: 2 * x * g.as_strided(g.shape, (g.shape[-1], 1))),
        "not contiguous",
    ),
    "another dtype": (
        make(lambda ctx, x: 2 * x.double(), lambda ctx, g: 2 * g),
        "another dtype comes out",
    ),
    "wrong in float32": (
        squaring(lambda x, g: 2 * x * g if x.dtype == torch.float64 else x * g),
        "wrong in float32",
    ),
    "an empty batch": (squaring(lambda x, g: 2 * x * g + 0 * x.max()), "max"),
}


@pytest.mark.parametrize(("function", "message"), WRONG.values(), ids=WRONG)
def test_the_test_to_copy_rejects_wrong_functions(
    check_gradients: Callable[..., None], function: type[Function], message: str
) -> None:
    with pytest.raises((AssertionError, RuntimeError), match=message):
        check_gradients(function.apply, BATCH)


def test_the_line_for_grad_output_is_needed_without_second_derivatives() -> None:
    cell = (ROOT / "notebooks" / "01_template.py").read_text(encoding="utf-8")
    function = cell[cell.index("def check_gradients") :].partition("\n\n\n")[0]
    names: dict[str, Any] = {}
    exec("from torch.autograd import grad, gradcheck", names)
    exec("import torch\nfrom torch.testing import assert_close", names)
    exec(re.sub(r".*gradgradcheck.*\n", "", function), names)

    with pytest.raises(AssertionError, match="backward changes grad_output"):
        names["check_gradients"](squaring(lambda x, g: g.mul_(2 * x)).apply, BATCH)
