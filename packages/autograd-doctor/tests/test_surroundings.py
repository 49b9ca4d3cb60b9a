"""State that code can reach besides its arguments: it is found, cast to float64, and restored."""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from autograd_doctor import diagnose
from autograd_doctor._execution.captured_state import CapturedState, walk_reachable
from cases.making import X, draw, raw, saving
from torch import Tensor, nn
from torch.autograd import Function

GLOBAL, TABLE, LIST = draw(4), {"taps": draw(4)}, [draw(4)]
COUNT = 0
Product = saving(lambda x, w: x @ w.T, lambda x, w, g: (g @ w, g.T @ x))


def helper(x: Tensor) -> Tensor:
    return x * GLOBAL


class Scaling(Function):
    scale = draw(4)

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return helper(x) * Scaling.scale

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * GLOBAL * Scaling.scale


class Scaler:
    def __init__(self) -> None:
        self.weight = draw(4)
        self.calls: list[int] = []

    def scaled(self, x: Tensor) -> Tensor:
        self.calls.append(len(self.calls))
        return Product.apply(x, self.weight[None])


def names(*roots: Any) -> set[str]:
    return {name for name, thing in walk_reachable(*roots) if isinstance(thing, Tensor)}


def closure() -> Any:
    inner = draw(4)
    return lambda x: x * inner


def defaulting(x: Tensor, weight: Tensor = GLOBAL, *, bias: Tensor = LIST[0]) -> Tensor:
    return x * weight + bias


# Found


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (closure(), {"inner"}),
        (lambda x: helper(x), {"GLOBAL"}),
        (lambda x: [TABLE["taps"] * y for y in x], {"TABLE['taps']"}),
        (lambda x: x * LIST[0], {"LIST[0]"}),
        (defaulting, {"weight", "bias"}),
        (functools.partial(defaulting, bias=draw(4)), {"bias", "weight"}),
        (Scaler().scaled, {"self.weight"}),
        (Scaling, {"GLOBAL", "Made.scale"}),
        (Scaling.apply, {"GLOBAL", "Scaling.scale"}),
        (TABLE.get, {"self['taps']"}),
        (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, affine=False)),
         {"Made.0.weight", "Made.0.bias", "Made.1.running_mean", "Made.1.running_var",
          "Made.1.num_batches_tracked"}),
        ([{"w": draw(2)}], {"Made[0]['w']"}),
        (torch.nn.functional.conv2d, set()),
        (torch.optim.Adam, set()),
        (np.linalg.solve, set()),
        (math.sin, set()),
        (torch.sin, set()),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_code_leads_to_is_found_under_its_name(root, expected) -> None:
    assert names(("Made", root)) == expected


def test_a_search_comes_to_an_end() -> None:
    around: list[Any] = [range(3)]
    around.append(around)

    assert len(list(walk_reachable(("", around)))) <= 3
    assert len(list(walk_reachable(("", [[] for _ in range(10**5)])))) <= 2000


# Lent in float64


def test_a_layer_in_float32_is_captured() -> None:
    layer = nn.Linear(4, 3)

    assert diagnose(lambda x: Product.apply(x, layer.weight) + layer.bias, X.float()).ok


def test_a_layer_may_be_an_argument() -> None:
    assert diagnose(lambda x, layer: Product.apply(x, layer.weight), (X, nn.Linear(4, 3))).ok


def test_a_reference_may_capture_the_same_layer() -> None:
    layer = nn.Linear(4, 3, bias=False)

    assert diagnose(lambda x: Product.apply(x, layer.weight), X, reference=layer).ok


def test_code_that_insists_on_float32_is_examined_in_it() -> None:
    layer = nn.Linear(4, 3)

    def call(x: Tensor) -> Tensor:
        return Product.apply(x.float(), layer.weight)

    assert "forward-raises" not in [finding.rule for finding in diagnose(call, X).findings]


def test_a_table_in_float32_makes_no_gradient_of_another_dtype() -> None:
    table = draw(4).float()
    scaled = saving(lambda x: x * table, lambda x, g: g * table)

    assert "for float32" not in str(diagnose(scaled, X.float()).to_dict())


def test_every_call_finds_the_same_buffers() -> None:
    module = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))

    assert diagnose(lambda x: Product.apply(x, module.weight), X).ok


# Restored


def rude(tensors: list[Tensor], generator: torch.Generator) -> Any:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        global COUNT
        COUNT += 1
        nonlocal tensors
        tensors.append(x)
        tensors = [*tensors]
        made.kept = x  # type: ignore[attr-defined]
        torch.rand(1, generator=generator)
        return 2 * x

    made = raw(forward, lambda ctx, g: 2 * g)
    return made


def test_bindings_attributes_and_contents_are_put_back() -> None:
    kept: list[Tensor] = []
    generator = torch.Generator().manual_seed(1)
    made = rude(kept, generator)
    cells = {name: cell.cell_contents for name, cell in zip(
        made.forward.__code__.co_freevars, made.forward.__closure__, strict=True)}  # fmt: skip
    before = COUNT, dict(vars(made)), generator.get_state().tolist()

    assert diagnose(made, X).ok

    assert (COUNT, dict(vars(made)), generator.get_state().tolist()) == before
    assert kept == []
    assert cells["tensors"] is kept


def test_modules_and_tensors_are_put_back_bit_by_bit() -> None:
    layer, norm = nn.Linear(4, 3), nn.BatchNorm1d(3)
    (layer(X.float()) ** 2).sum().backward()
    captured = draw(3).float().requires_grad_()
    tensors = [*layer.parameters(), *norm.parameters(), *norm.buffers(), captured]

    def world() -> list[Any]:
        return [
            (t.data_ptr(), t.dtype, t.tolist(), t.requires_grad, t._version,
             None if t.grad is None else t.grad.tolist())
            for t in tensors
        ]  # fmt: skip

    before, grad = world(), layer.weight.grad
    diagnose(lambda x: norm(Product.apply(x, layer.weight)) * captured, X)

    assert world() == before
    assert layer.weight.grad is grad


def test_a_graph_from_before_still_goes_backward() -> None:
    norm = nn.BatchNorm1d(4)
    y = norm(X.float().requires_grad_())

    diagnose(lambda x: norm(Product.apply(x, torch.eye(4).to(x))), X)

    y.square().sum().backward()


def test_attributes_of_an_object_are_put_back() -> None:
    scaler = Scaler()

    diagnose(scaler.scaled, X)

    assert scaler.calls == []


def test_what_a_bound_method_leads_to_is_put_back() -> None:
    class Noting(Function):
        total = torch.zeros(())

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            Noting.total += 1
            return 2 * x

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return 2 * g

    calls: list[Tensor] = []
    double, note = Noting.apply, calls.append

    def called(x: Tensor) -> Tensor:
        note(x)
        return double(x)

    diagnose(called, X)

    assert calls == []
    assert Noting.total == 0


def test_all_is_put_back_when_the_block_raises() -> None:
    weight = torch.ones(2)

    def use() -> None:
        with CapturedState(("", [weight])).borrow():
            assert weight.dtype == torch.float64
            weight.zero_()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        use()

    assert weight.dtype == torch.float32
    assert weight.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("make", "draw_one"),
    [
        (lambda: torch.Generator().manual_seed(3), lambda g: torch.rand(1, generator=g).item()),
        (lambda: random.Random(3), lambda g: g.random()),
        (lambda: np.random.default_rng(3), lambda g: g.random()),
        (lambda: np.random.RandomState(3), lambda g: g.rand()),
    ],
)
def test_generators_draw_the_same_in_every_call_and_go_on_afterwards(make, draw_one) -> None:
    generator, other = make(), make()
    around = CapturedState(("", lambda: generator))

    with around.borrow():
        first = draw_one(generator)
        around.begin()
        again = draw_one(generator)

    assert first == again
    assert draw_one(generator) == draw_one(other)


def test_a_registry_of_subclasses_does_not_learn_of_those_that_diagnose_makes() -> None:
    kinds = []

    class Square(Function):
        def __init_subclass__(cls, *, kind: str) -> None:
            kinds.append(kind)

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 3 * x * grad_output

    found = diagnose(Square, torch.rand(3, requires_grad=True))

    assert found.findings[0].rule == "constant-factor"
    assert found.repair is not None
    assert kinds == []


def test_two_tensors_in_one_memory_stay_there() -> None:
    whole = torch.zeros(4)
    part = whole[:2]

    with CapturedState(("", [whole, part])).borrow():
        part.fill_(1)
        assert whole.tolist() == [1, 1, 0, 0]
