"""Our checkpoint has the same values, gradients, bytes and operations as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from autograd_doctor.memory import kept_bytes, peak_bytes
from torch import Tensor, nn

from autograd_course.functions import checkpoint
from autograd_course.visualize.memory.trace import trace_memory

WIDTH = 8


def plain(fn: Callable[..., Any], *args: Any) -> Any:
    return fn(*args)


ours = checkpoint
reentrant = partial(torch.utils.checkpoint.checkpoint, use_reentrant=True)
hooked = partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)
each_kind = pytest.mark.parametrize("kind", [ours, reentrant, hooked], ids=["ours", "re", "hooked"])


def mlp(layers: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        *(part for _ in range(layers) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    )


def block() -> nn.Sequential:
    """Return a block with the difficult parts: parameters, dropout and batch norm statistics."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.5), nn.Linear(WIDTH, WIDTH)
    )


def batch(rows: int = 16) -> Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(1))


def trained(kind: Callable[..., Any], module: nn.Module, steps: int = 3) -> dict[str, Tensor]:
    """Train for a few steps. Return everything that the training changes."""
    module, x = deepcopy(module), batch().requires_grad_()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    torch.manual_seed(7)
    for _ in range(steps):
        optimizer.zero_grad()
        kind(module, x).square().mean().backward()
        optimizer.step()
    gradients = {f"{name}.grad": p.grad for name, p in module.named_parameters()}
    random = {"the next draw": torch.rand(3)}
    return {**module.state_dict(), **gradients, **random, "x.grad": x.grad}


def test_training_leaves_behind_what_it_does_without() -> None:
    expected, found = trained(plain, block()), trained(ours, block())

    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def test_pytorch_counts_a_batch_twice_and_we_once() -> None:
    counts = {
        kind: int(trained(kind, block(), 1)["1.num_batches_tracked"])
        for kind in (plain, ours, reentrant, hooked)
    }

    assert counts == {plain: 1, ours: 1, reentrant: 2, hooked: 2}


# Bytes and operations


@each_kind
def test_nothing_but_what_was_given_is_kept(kind: Callable[..., Any]) -> None:
    module = mlp()

    assert kept_bytes(lambda x: plain(module, x), batch()) == 4 * batch().nbytes
    # PyTorch's hooks also keep a reference to the input, which is in memory anyway.
    assert kept_bytes(lambda x: kind(module, x), batch()) == 0


def segmented(kind: Callable[..., Any], module: nn.Sequential, segments: int) -> Any:
    length = len(module) // segments
    parts = [module[i : i + length] for i in range(0, len(module), length)]

    def run(x: Tensor) -> Tensor:
        for part in parts:
            x = kind(part, x)
        return x

    return run


def test_the_peak_is_that_of_the_reentrant_kind_and_falls_with_segments() -> None:
    module, x = mlp(16), batch(4096)
    weights = sum(p.nbytes for p in module.parameters())
    peaks = {
        (kind, n): peak_bytes(segmented(kind, module, n), x)
        for kind in (plain, ours, reentrant)
        for n in (1, 4, 16)
    }

    for n in (1, 4, 16):
        assert 0 <= peaks[ours, n] - peaks[reentrant, n] < weights  # the gradients exist together
    assert peaks[ours, 4] < 0.6 * peaks[plain, 1]  # √16 segments
    assert peaks[ours, 4] < min(peaks[ours, 1], peaks[ours, 16])


@each_kind
def test_forward_runs_a_second_time_and_not_more(kind: Callable[..., Any]) -> None:
    module = mlp()

    without, trace = (trace_memory(partial(k, module), batch()) for k in (plain, kind))

    # PyTorch's hooks stop the second run when the last saved tensor has been recomputed.
    assert trace.again_operations in (without.operations, without.operations - (kind is hooked))
    assert trace.backward_operations == without.backward_operations + trace.again_operations


# Arguments and results


def test_trees_of_tensors_go_in_and_out() -> None:
    def fn(pair: dict[str, Tensor], scale: float, *, shift: list[Tensor]) -> Any:
        product = pair["a"] * pair["b"] * scale + shift[0]
        return {"product": product, "at": [product.argmax(), "text"]}, product.sum()

    a, b, c = (torch.randn(5, dtype=torch.double, requires_grad=True) for _ in range(3))
    call = partial(fn, {"a": a, "b": b}, 2.0, shift=[c])
    expected = torch.autograd.grad(call()[1], (a, b, c))

    result, total = checkpoint(fn, {"a": a, "b": b}, 2.0, shift=[c])

    assert result["at"][1] == "text"
    assert not result["at"][0].requires_grad
    assert torch.equal(result["product"], call()[0]["product"])
    for found, right in zip(torch.autograd.grad(total, (a, b, c)), expected, strict=True):
        assert torch.equal(found, right)


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_outputs_that_are_not_used_contribute_nothing(used: tuple[int, ...]) -> None:
    x = batch().requires_grad_()

    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sin(), x.exp()

    expected = torch.autograd.grad(sum(fn(x)[i].sum() for i in used), x)
    assert torch.equal(torch.autograd.grad(sum(checkpoint(fn, x)[i].sum() for i in used), x)[0],
                       expected[0])  # fmt: skip


def test_an_output_that_is_not_used_contributes_nothing_where_its_derivative_is_infinite() -> None:
    x = torch.zeros(3, requires_grad=True)

    checkpoint(lambda x: (x.sin(), x.sqrt()), x)[0].sum().backward()

    assert x.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("frozen", ["x", "0.weight", "0.bias", "3.weight"])
def test_what_is_frozen_gets_no_gradient_and_changes_no_other(frozen: str) -> None:
    def gradients(kind: Callable[..., Any]) -> dict[str, Tensor | None]:
        module, x = block(), batch()
        named = {"x": x, **dict(module.named_parameters())}
        for name, tensor in named.items():
            tensor.requires_grad_(name != frozen)
        torch.manual_seed(3)
        kind(module, x).square().sum().backward()
        return {name: tensor.grad for name, tensor in named.items()}

    expected, found = gradients(plain), gradients(ours)

    assert found[frozen] is None
    for name, gradient in expected.items():
        assert gradient is None or torch.equal(found[name], gradient), name


def test_gradients_come_out_of_grad_too_which_the_reentrant_kind_refuses() -> None:
    module, x = mlp(), batch().requires_grad_()
    wanted = (x, *module.parameters())
    expected = torch.autograd.grad(module(x).sum(), wanted)

    for found, right in zip(torch.autograd.grad(ours(module, x).sum(), wanted), expected,
                            strict=True):  # fmt: skip
        assert torch.equal(found, right)
    with pytest.raises(RuntimeError, match="use_reentrant=True"):
        torch.autograd.grad(reentrant(module, x).sum(), wanted)


def test_parameters_train_though_no_argument_asks_for_a_gradient() -> None:
    module = mlp()

    ours(module, batch()).sum().backward()

    assert all(parameter.grad is not None for parameter in module.parameters())
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        assert not reentrant(module, batch()).requires_grad


def test_what_a_function_reaches_by_itself_is_to_be_given() -> None:
    layer, x = nn.Linear(WIDTH, 2, bias=False), batch().requires_grad_()

    def fn(x: Tensor, w: Tensor = layer.weight) -> Tensor:
        return x @ w.t()

    advice = r"shape \(2, 8\) that requires grad; make it .* or name its module in uses=.*\]$"
    with pytest.raises(RuntimeError, match=advice):
        checkpoint(fn, x).sum().backward()
    with pytest.raises(TypeError, match=r"^uses names modules; give tensors .* as arguments$"):
        checkpoint(fn, x, uses=[layer.weight])
    for call in (lambda: checkpoint(lambda x: layer(x), x, uses=[layer]),
                 lambda: checkpoint(fn, x, layer.weight)):  # fmt: skip
        (found,) = torch.autograd.grad(call().sum(), layer.weight)
        assert torch.equal(found, torch.autograd.grad(fn(x).sum(), layer.weight)[0])


def test_what_it_reaches_is_found_behind_any_of_its_outputs() -> None:
    w, x = (torch.ones(3, requires_grad=True) for _ in range(2))

    for fn in (lambda x: (w.exp(), x.exp()), lambda x: (x.exp(), w.exp())):
        with pytest.raises(RuntimeError, match="uses a tensor"):
            sum(checkpoint(fn, x)).sum().backward()


def test_a_graph_is_searched_by_its_nodes_not_by_its_paths() -> None:
    def doubled(x: Tensor) -> Tensor:
        for _ in range(64):
            x = x + x
        return x

    x = torch.ones(1, requires_grad=True)

    checkpoint(doubled, x).backward()

    assert x.grad == 2.0**64


def test_a_bound_method_brings_its_module() -> None:
    class Half(nn.Linear):
        def halved(self, x: Tensor) -> Tensor:
            return self(x) / 2

    module, x = Half(WIDTH, WIDTH), batch()

    checkpoint(module.halved, x).sum().backward()

    assert torch.equal(
        module.weight.grad, torch.autograd.grad(module.halved(x).sum(), module.weight)[0]
    )


# The second run


def test_autocast_is_that_of_the_first_run() -> None:
    module, x = mlp(), batch().requires_grad_()
    seen: list[torch.dtype] = []

    def fn(x: Tensor) -> Tensor:
        y = module(x)
        seen.append(y.dtype)
        return y

    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = checkpoint(fn, x, uses=[module])
    y.float().sum().backward()

    assert seen == [torch.bfloat16, torch.bfloat16]
    assert x.grad.dtype == torch.float32


@pytest.mark.parametrize("kind", [plain, ours])
def test_weights_get_gradients_when_backward_too_runs_under_autocast(kind: Any) -> None:
    module, x = mlp(), batch().requires_grad_()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        (kind(module, x).sum() + module(x).sum()).backward()

    torch.testing.assert_close(
        module[0].weight.grad, _twice(module, x.detach()), rtol=0.1, atol=0.1
    )


def _twice(module: nn.Module, x: Tensor) -> Tensor:
    return torch.autograd.grad(2 * module(x).sum(), module[0].weight)[0]


def test_a_forward_that_reads_the_buffer_it_writes_runs_again_on_the_old_one() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x * self.calls

    module, x = Counting(), torch.ones(3, requires_grad=True)

    checkpoint(module, x).sum().backward()

    assert x.grad.tolist() == [1, 1, 1]
    assert module.calls == 1


def test_the_graph_can_be_gone_through_twice() -> None:
    module, x = block(), batch().requires_grad_()
    y = checkpoint(module, x)
    g = torch.randn_like(y)

    (first,) = torch.autograd.grad(y, x, g, retain_graph=True)
    (second,) = torch.autograd.grad(y, x, 2 * g)

    torch.testing.assert_close(second, 2 * first)


@pytest.mark.parametrize("outer", [ours, reentrant, hooked], ids=["ours", "re", "hooked"])
def test_checkpoints_go_into_each_other(outer: Callable[..., Any]) -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = mlp()

        def forward(self, x: Tensor) -> Tensor:
            return ours(self.block, x).square()

    module, x = Inner(), batch().requires_grad_()
    expected = torch.autograd.grad(module.block(x).square().sum(), x)[0]

    outer(module, x).sum().backward()

    assert torch.equal(x.grad, expected)


def test_it_is_twice_differentiable_in_arguments() -> None:
    x, w = batch(3).double().requires_grad_(), torch.randn(WIDTH, 2).double().requires_grad_()

    def call(x: Tensor, w: Tensor) -> Tensor:
        return checkpoint(lambda x, w: torch.tanh(x @ w), x, w)

    assert torch.autograd.gradcheck(call, (x, w))
    assert torch.autograd.gradgradcheck(call, (x, w))


@pytest.mark.parametrize("times", [1, 2])
def test_it_is_twice_differentiable_in_parameters_also_where_what_comes_before_uses_them(
    times: int,
) -> None:
    module, x = mlp(2).double(), batch(3).double().requires_grad_()
    wanted = (x, *module.parameters())

    def second(kind: Callable[..., Any]) -> tuple[Tensor, ...]:
        y = x
        for _ in range(times):
            y = kind(module, y)
        first = torch.autograd.grad(y.square().sum(), wanted, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), wanted)

    for found, expected in zip(second(ours), second(plain), strict=True):
        torch.testing.assert_close(found, expected)


def test_without_grad_nothing_is_recorded() -> None:
    with torch.no_grad():
        assert not checkpoint(block(), batch()).requires_grad


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_dropout_on_a_gpu_drops_the_same_again() -> None:
    x = torch.ones(1 << 10, device="cuda", requires_grad=True)

    y = checkpoint(nn.Dropout(0.5), x)
    y.sum().backward()

    assert torch.equal(x.grad, y.detach())
