"""``kept_bytes`` and ``peak_bytes`` agree with the memory that autograd really uses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import memory_variants as variants
import pytest
import torch
from autograd_doctor.memory import Kept, kept_bytes, kept_tensors, peak_bytes
from memory_variants import FULL, W, b, batch
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu
from torch.fx import GraphModule
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.slow

# Kept memory


def test_inputs_and_parameters_cost_nothing_unless_asked_for() -> None:
    layer = (variants.LinearReLU, batch(), W, b)

    assert kept_bytes(*layer) == FULL  # the output
    assert kept_bytes(*layer, anyway=True) == 2 * FULL + W.nbytes


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (variants.ReLUByInput, FULL),
        (variants.ReLUByOutput, FULL),
        (variants.ReLUByMask, FULL // 4),
        (variants.ReLUOnCtx, FULL // 4),
        (variants.ReLUByBits, FULL // 32),
    ],
)
def test_a_mask_costs_a_byte_an_element_and_a_bit_where_it_is_packed(function, kept: int) -> None:
    inside: Callable[[Tensor], Tensor] = lambda x: function.apply(x + 1) + 1  # noqa: E731

    assert kept_bytes(inside, batch()) == kept


def test_a_storage_counts_once_and_whole() -> None:
    x = torch.randn(100)

    assert kept_bytes(lambda x: (x + 1)[:1].exp(), x) == 4  # exp keeps its output
    assert kept_bytes(lambda x: (x + 1)[:1].square(), x) == 400  # square keeps its input, a slice
    assert kept_bytes(lambda x: (y := x + 1).square() + y[3:].square().sum(), x) == 400


def test_an_output_counts_only_if_backward_needs_it() -> None:
    assert kept_bytes(torch.exp, torch.randn(100)) == 400
    assert kept_bytes(torch.neg, torch.randn(100)) == 0


def test_what_other_hooks_keep_counts() -> None:
    def packed(x: Tensor) -> Tensor:
        with save_on_cpu():
            return (x + 1).square().square()

    assert kept_bytes(packed, torch.randn(100)) == 800


def test_every_storage_is_listed_the_largest_first() -> None:
    assert kept_tensors(lambda x, w: (x + 1) @ w, torch.randn(8, 4), torch.randn(4, 2)) == (
        Kept(128, (8, 4), torch.float32, anyway=False),
        Kept(32, (4, 2), torch.float32, anyway=True),
    )


def test_the_callers_choice_of_what_needs_a_gradient_is_kept() -> None:
    x, w = torch.randn(8, 4), torch.randn(4, 2)

    assert kept_bytes(torch.matmul, x, w, anyway=True) == x.nbytes + w.nbytes
    assert kept_bytes(torch.matmul, x, w.requires_grad_(), anyway=True) == x.nbytes


# Peak memory


def test_the_peak_can_be_told_by_hand() -> None:
    x = torch.randn(100)

    assert peak_bytes(lambda x: (x + 1).neg().neg(), x, backward=False) == 800
    assert peak_bytes(torch.neg, x) == 1200  # output, and the gradients of output and input


@pytest.mark.parametrize("backward", [False, True])
def test_work_in_parts_lowers_the_peak(backward: bool) -> None:
    def whole(x: Tensor) -> Tensor:
        return (x[:, None] * x).sum()

    def in_parts(x: Tensor) -> Tensor:
        return sum(checkpoint(lambda r: (r[:, None] * x).sum(), r, use_reentrant=False)
                   for r in x.split(10))  # fmt: skip

    x = torch.randn(100)

    assert peak_bytes(whole, x, backward=backward) > 40_000
    assert peak_bytes(in_parts, x, backward=backward) < 12_000


def test_gradients_of_parameters_count_and_are_taken_back() -> None:
    layer = nn.Linear(64, 64, bias=False)

    assert peak_bytes(lambda x: layer(x).sum(), torch.randn(1, 64)) >= layer.weight.nbytes
    assert layer.weight.grad is None


# No side effects


@pytest.mark.parametrize("measure", [kept_bytes, peak_bytes])
def test_inputs_gradients_and_random_state_stay_as_they_are(measure: Any) -> None:
    layer, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout()), torch.randn(3, 4, requires_grad=True)
    layer(x).sum().backward()
    gradients, state = [x.grad, *(p.grad for p in layer.parameters())], torch.get_rng_state()
    values = [g.clone() for g in gradients]

    measure(layer, x)

    assert all(a is b for a, b in zip(gradients, [x.grad, *(p.grad for p in layer.parameters())],
                                      strict=True))  # fmt: skip
    assert all(map(torch.equal, gradients, values))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("measure", [kept_bytes, peak_bytes])
def test_two_measurements_agree(measure: Any) -> None:
    assert len({measure(variants.composed, batch()) for _ in range(3)}) == 1


def test_a_function_that_is_measured_first_is_compiled_as_ever() -> None:
    def backend(graph: GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        compiled.append(graph)
        return graph.forward

    compiled: list[GraphModule] = []
    function = torch.compile(lambda x: x.sin().sum(), backend=backend)

    peak_bytes(function, batch(), backward=False)
    assert not compiled  # otherwise, the compiler's own tensors would count

    function(batch())
    assert len(compiled) == 1


CHOICE = """
import sys, torch
from autograd_doctor.memory import peak_bytes
choice = lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
assert "torch._dynamo" not in sys.modules
for _ in range(2):
    assert peak_bytes(choice, torch.ones(100), backward=False) == 401  # the result, and a bool
    assert torch.equal(choice(torch.ones(100)), torch.ones(100).sin())
"""


@pytest.mark.thorough
def test_what_compiles_itself_does_so_after_it_has_been_measured() -> None:
    subprocess.run([sys.executable, "-c", CHOICE], check=True)


@pytest.mark.parametrize("measure", [kept_bytes, peak_bytes])
def test_what_cannot_be_measured_is_refused_in_words(measure: Any) -> None:
    with pytest.raises(TypeError, match=r"not Tensor: give the function and its inputs"):
        measure(torch.randn(3))
    with pytest.raises(ValueError, match="no tensor that requires a gradient"):
        measure(lambda x: x.detach(), torch.randn(3))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_the_allocator_tells_the_same_peak() -> None:
    x = torch.randn(1 << 20)

    assert peak_bytes(torch.exp, x.cuda()) == peak_bytes(torch.exp, x)
