"""Facts about PyTorch in lesson 04. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

import inspect
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from made import keeping, leaf, make, sample, squaring
from torch import Tensor
from torch.autograd import Function, detect_anomaly, grad, gradcheck, gradgradcheck
from torch.nn.functional import local_response_norm

from autograd_course.functions import LocalResponseNorm

pytestmark = pytest.mark.slow

SETTINGS = (3, 2.0, 0.5, 1.0)
REPAIRS = {
    "if c > pre_pad:": "if c >= pre_pad:",
    "inversePrePad = int(ctx.size - (ctx.size - 1) / 2)": (
        "inversePrePad = int(ctx.size - (ctx.size - 1) / 2) - 1"
    ),
}
CHANNELS = torch.linspace(-1.5, 2, 6, dtype=torch.float64).reshape(1, 6, 1, 1)


# CrossMapLRN2d: If one of these tests fails, PyTorch has repaired or removed this layer. Then the
# opening of lesson 04 needs a different layer, or a copy of this one.


def shipped() -> Any:
    from torch.nn.modules import _functions

    return _functions


def operated(*wrong: str) -> Any:
    source = inspect.getsource(shipped().CrossMapLRN2d)
    for text in wrong:
        assert source.count(text) == 1, f"CrossMapLRN2d has changed: {text!r} is not in it once"
        source = source.replace(text, REPAIRS[text])
    names = dict(vars(shipped()))
    exec(source, names)
    return names["CrossMapLRN2d"]


def test_pytorch_still_ships_a_cross_map_lrn_that_differs_from_local_response_norm() -> None:
    came = shipped().CrossMapLRN2d.apply(CHANNELS, *SETTINGS)
    right = local_response_norm(CHANNELS, *SETTINGS)

    off = (came - right).abs().flatten() > 1e-3
    assert off.tolist() == [False, False, True, True, True, True]


def test_its_backward_is_still_wrong_for_its_own_forward() -> None:
    assert not gradchecked(shipped().CrossMapLRN2d)


def test_one_comparison_mends_its_forward_and_one_offset_its_backward() -> None:
    forward, offset = REPAIRS
    half, whole = operated(forward), operated(forward, offset)

    for mended in (half, whole):
        torch.testing.assert_close(
            mended.apply(CHANNELS, *SETTINGS), local_response_norm(CHANNELS, *SETTINGS)
        )
    assert not gradchecked(half)
    assert gradchecked(whole)


@pytest.mark.parametrize("size", range(1, 7))
@pytest.mark.parametrize("shape", [(2, 5, 3), (1, 4, 2, 2)])
def test_the_courses_own_equals_local_response_norm(size: int, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    torch.testing.assert_close(
        LocalResponseNorm.apply(x, size, 1.0, 0.75, 2.0),
        local_response_norm(x, size, 1.0, 0.75, 2.0),
    )


def test_the_courses_own_is_right_twice() -> None:
    x = CHANNELS.clone().requires_grad_()
    assert gradcheck(LocalResponseNorm.apply, (x, *SETTINGS))
    assert gradgradcheck(LocalResponseNorm.apply, (x, *SETTINGS))


@pytest.mark.parametrize(("shape", "size"), [((4,), 3), ((2, 4), 0)])
def test_the_courses_own_says_what_does_not_fit(shape: tuple[int, ...], size: int) -> None:
    with pytest.raises(ValueError, match="wants x of shape"):
        LocalResponseNorm.apply(torch.ones(shape), size)


def gradchecked(function: Any) -> bool:
    x = CHANNELS.clone().requires_grad_()
    return gradcheck(function.apply, (x, *SETTINGS), raise_exception=False)


# Anomaly mode


def root() -> Any:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.sqrt()
        ctx.save_for_backward(y)
        return y

    return make(forward, lambda ctx, g: g / (2 * ctx.saved_tensors[0])).apply


def under_anomaly_mode(f: Callable[[Tensor], Tensor]) -> str | list[float]:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with detect_anomaly():
            try:
                return grad(f(x).sum(), x)[0].tolist()  # type: ignore[no-any-return]
            except RuntimeError as error:
                return str(error)


def test_anomaly_mode_names_the_node_that_returned_a_nan() -> None:
    said = under_anomaly_mode(lambda x: torch.where(x > 0, root()(x), 0.0))
    assert said == "Function 'MadeBackward' returned nan values in its 0th output."


def test_anomaly_mode_blames_the_multiplication_that_was_handed_an_infinity() -> None:
    said = under_anomaly_mode(lambda x: root()(x * (x > 0)))
    assert said == "Function 'MulBackward0' returned nan values in its 0th output."


def test_anomaly_mode_lets_an_infinity_pass() -> None:
    assert under_anomaly_mode(root()) == [float("inf"), 0.25]


# Errors that gradcheck does not look for

LAST: dict[str, Tensor] = {}


def remembering(ctx: Any, x: Tensor) -> Tensor:
    LAST["x"] = x
    return x**2


TOUR = {
    "clips g": (squaring(lambda x, g: 2 * x * g.clamp(-1, 1)), "passes"),
    "writes into g": (squaring(lambda x, g: g.mul_(2 * x)), "raises"),
    "state outside ctx": (make(remembering, lambda ctx, g: 2 * LAST["x"] * g), "passes"),
    "assumes g's memory": (squaring(lambda x, g: 2 * x * g.view(-1).view(x.shape)), "passes"),
    "hard-coded float32": (squaring(lambda x, g: (2 * x * g).float()), "fails"),
    "a constant inside": (squaring(lambda x, g: 2 * x.detach() * g), "fails"),
}


@pytest.mark.parametrize("wrong", TOUR)
def test_gradcheck_passes_what_the_tour_shows_and_gradgradcheck_sees_some(wrong: str) -> None:
    function, twice = TOUR[wrong]
    x = leaf(1.0, -2.0, 0.5).reshape(1, 3).detach().requires_grad_()

    assert gradcheck(function.apply, x)
    try:
        seen = "passes" if gradgradcheck(function.apply, x, raise_exception=False) else "fails"
    except RuntimeError:
        seen = "raises"
    assert seen == twice


def test_gradcheck_passes_a_wrong_forward_whose_backward_fits_it() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.square().sum()  # a length without its square root

    assert gradcheck(make(forward, lambda ctx, g: 2 * g * ctx.saved_tensors[0]).apply, leaf(1.0, 2))


# Adam


@pytest.mark.parametrize(("factor", "end"), [(1.0, 1.5), (4.0, 2.4)])
def test_a_factor_on_one_of_two_terms_moves_adams_minimum(factor: float, end: float) -> None:
    x = torch.tensor(0.0, requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        (factor * (x - 3) ** 2 + x**2).backward()
        optimizer.step()

    assert x.item() == pytest.approx(end, abs=5e-3)


# The opening: a loss of zero


def test_a_search_through_the_wrong_forward_reaches_zero_and_another_stimulus() -> None:
    sensor = torch.arange(16, dtype=torch.float64)
    stimulus = 0.3 + 2 * torch.exp(-0.5 * (sensor / 1.5) ** 2)
    stimulus += torch.exp(-0.5 * ((sensor - 9) / 2) ** 2)
    readings = local_response_norm(stimulus.reshape(1, 16, 1, 1), *SETTINGS)
    found, losses = [], []
    for layer in (torch.nn.CrossMapLRN2d(*SETTINGS), lambda x: local_response_norm(x, *SETTINGS)):
        x = torch.ones(1, 16, 1, 1, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.Adam([x], lr=0.1)
        for _ in range(300):
            loss = (layer(x) - readings).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found.append(x.detach().flatten())
        losses.append(loss.item())
    by_module, by_function = found

    assert max(losses) < 1e-10
    assert int((by_module > 2 * stimulus).sum()) == 13
    torch.testing.assert_close(by_function, stimulus, atol=1e-3, rtol=0)


def test_its_second_derivative_raises_and_its_scale_is_an_attribute() -> None:
    x = CHANNELS.clone().requires_grad_()
    y = shipped().CrossMapLRN2d.apply(x, *SETTINGS)

    assert isinstance(y.grad_fn.scale, Tensor)
    with pytest.raises(RuntimeError, match="out="):
        grad(y.square().sum(), x, create_graph=True)


# What autograd does if a gradient has the wrong shape


def test_autograd_sums_a_gradient_over_the_rows_that_backward_forgot_to_sum() -> None:
    x, w = sample(2, 3), sample(3)
    unsummed = keeping(lambda x, w: x * w, lambda g, x, w: (g * w, g * x))

    (came,) = grad(unsummed.apply(x, w).sum(), w)
    torch.testing.assert_close(came, x.sum(0))


# A debugger in backward


class Watched(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        breakpoint()
        return 2 * grad_output


def test_a_breakpoint_stops_in_backward_below_the_line_that_called_backward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped: list[tuple[str, list[str], threading.Thread]] = []

    def stop() -> None:
        frame = inspect.currentframe()
        assert frame
        assert frame.f_back
        callers = [it.name for it in traceback.extract_stack(frame.f_back)]
        values = frame.f_back.f_locals
        stopped.append((str(values["grad_output"].tolist()), callers, threading.current_thread()))
        assert values["ctx"].saved_tensors[0].tolist() == [3.0]

    monkeypatch.setattr(sys, "breakpointhook", stop)
    Watched.apply(torch.tensor([3.0], requires_grad=True)).sum().backward()
    ((given, callers, thread),) = stopped

    assert given == "[1.0]"
    assert callers[-1] == "backward"
    assert inspect.currentframe().f_code.co_name in callers  # type: ignore[union-attr]
    assert thread is threading.current_thread()
    # The lesson types these commands: five times up.
    assert callers[-6] == inspect.currentframe().f_code.co_name  # type: ignore[union-attr]


class Raising(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output.view(99)


@pytest.mark.parametrize("function", [Raising, root().__self__])
@pytest.mark.parametrize(
    ("on_in_forward", "warned"),
    [(True, "the_line_of_forward = "), (False, "No forward pass information available")],
)
def test_anomaly_mode_shows_the_line_of_forward_if_it_was_on_there(
    function: Any, on_in_forward: bool, warned: str
) -> None:
    x = torch.zeros(3, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.autograd.set_detect_anomaly(on_in_forward):
            the_line_of_forward = function.apply(x)
        with pytest.raises(RuntimeError), detect_anomaly():
            (0 * the_line_of_forward).sum().backward()

    assert warned in str(caught[-1].message)


# Hooks on modules


def net_with_hooks() -> tuple[torch.nn.Sequential, list[str]]:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    order: list[str] = []
    for name, module in {"net": net, "first": net[0], "last": net[1]}.items():
        module.register_full_backward_hook(lambda *_, name=name: order.append(name))  # type: ignore[misc]
    return net, order


def test_module_hooks_run_from_last_to_first_and_the_containers_at_the_end() -> None:
    net, order = net_with_hooks()
    net(torch.ones(1, 2, requires_grad=True)).sum().backward()

    assert order == ["last", "first", "net"]


def test_without_an_input_that_requires_a_gradient_the_containers_hook_runs_first() -> None:
    net, order = net_with_hooks()
    with pytest.warns(UserWarning, match="Full backward hook is firing"):
        net(torch.ones(1, 2)).sum().backward()

    assert order == ["net", "last", "first"]


# A second derivative


@pytest.mark.parametrize(("saves", "second"), [("slope", 2.0), ("input", 14.0)])
def test_a_saved_intermediate_is_a_constant_in_the_second_derivative(
    saves: str, second: float
) -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(3 * x**2 if saves == "slope" else x)
        return x**3

    def backward(ctx: Any, g: Tensor) -> Tensor:
        (saved,) = ctx.saved_tensors
        slope = saved if saves == "slope" else 3 * saved**2
        return g * slope

    x = leaf(2.0)
    (first,) = grad((make(forward, backward).apply(x) + x**2).sum(), x, create_graph=True)
    (came,) = grad(first.sum(), x)

    assert came.item() == second
