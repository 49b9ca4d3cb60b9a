"""Facts about PyTorch in lesson 07. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from autograd_doctor.memory import kept_bytes, peak_bytes
from made import leaf, make, price
from torch import Tensor, nn
from torch.autograd import Function, grad, gradcheck
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import cross_entropy, gelu
from torch.utils import checkpoint as torch_checkpoint
from torch.utils.flop_counter import FlopCounterMode

from autograd_course.functions import checkpoint

pytestmark = pytest.mark.slow

KiB = 1024
X = torch.randn(256, 64, generator=torch.Generator().manual_seed(0))
FULL = X.nbytes  # 64 KiB


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


# What is saved


def test_a_boolean_takes_a_byte() -> None:
    assert (X > 0).nbytes == X.numel()


@pytest.mark.parametrize(("copy", "kept"), [(False, FULL), (True, FULL // 64)])
def test_a_view_that_is_kept_keeps_its_whole_storage(copy: bool, kept: int) -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        column = torch.exp(x)[:, 0]
        ctx.save_for_backward(column.clone() if copy else column)
        return column.clone()

    assert kept_bytes(make(forward, lambda ctx, g: g), X) == kept


def test_swish_composed_keeps_its_input_and_the_sigmoid_each_once() -> None:
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    h = (2 * X).requires_grad_()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        h * torch.sigmoid(h)

    assert len(saved) == 3
    assert len({tensor.data_ptr() for tensor in saved}) == 2


def test_deleting_a_name_does_not_free_what_the_graph_keeps() -> None:
    def tidy(x: Tensor) -> Tensor:
        h = 2 * x
        y = h * torch.sigmoid(h)
        del h
        return y

    assert kept_bytes(tidy, X) == 2 * FULL


def test_a_relu_between_two_layers_keeps_nothing_of_its_own() -> None:
    up, down = nn.Linear(64, 64), nn.Linear(64, 64)

    assert kept_bytes(lambda x: down(torch.relu(up(x))), X) == FULL
    assert kept_bytes(lambda x: down(up(x)), X) == FULL


@pytest.mark.parametrize(
    ("f", "inputs", "expected"),
    [
        pytest.param(torch.add, 2, (1, 0, 0), id="an addition costs nothing in backward"),
        pytest.param(torch.relu, 1, (1, 1, 4), id="relu keeps a float an element"),
        pytest.param(gelu, 1, (1, 1, 4), id="gelu is one operation each way and keeps its input"),
    ],
)
def test_price_of_built_in_operations(
    f: Callable[..., Tensor], inputs: int, expected: tuple[int, int, int]
) -> None:
    assert price(f, *(torch.ones(64, requires_grad=True) for _ in range(inputs))) == expected


@pytest.mark.parametrize(
    ("program", "kept"),
    [
        pytest.param(
            lambda x: torch.maximum(2 * x, x - 1), 2 * FULL, id="maximum saves its inputs"
        ),
        pytest.param(lambda x: (2 * x) * (x > 0), FULL // 4, id="a product saves only the mask"),
        pytest.param(lambda x: torch.exp(2 * x)[:, :1], FULL, id="exp saves more than the slice"),
    ],
)
def test_what_built_in_operations_keep(program: Callable[[Tensor], Tensor], kept: int) -> None:
    assert kept_bytes(program, X) == kept


def test_a_composed_gelu_keeps_three_times_what_the_built_in_keeps() -> None:
    def composed(x: Tensor) -> Tensor:
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    assert price(composed, torch.ones(64, requires_grad=True))[2] == 3 * 4


def test_saved_tensors_live_until_backward_has_passed_their_node() -> None:
    y = (2 * X).requires_grad_().sigmoid()
    y.sum().backward(retain_graph=True)
    assert y.grad_fn is not None
    assert y.grad_fn._saved_result is not None
    y.sum().backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        _ = y.grad_fn._saved_result


# Recomputation


class Again(Function):
    """A checkpoint that has all the mistakes of a first attempt."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.block = block
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.block(x)
        return grad(y, x, g)[0], None


def naive(block: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = Again.apply(x, block)  # type: ignore[no-untyped-call]
    return result


def of_torch(block: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = torch_checkpoint.checkpoint(block, x, use_reentrant=False)
    return result


def of_the_course(block: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = checkpoint(block, x)
    return result


def test_gradcheck_passes_a_checkpoint_that_forgets_the_parameters() -> None:
    layer, x = nn.Linear(3, 2).double(), leaf(0.5, -1.0, 2.0)

    assert gradcheck(Again.apply, (x, layer))
    Again.apply(x, layer).sum().backward()  # type: ignore[no-untyped-call]
    assert layer.weight.grad is None


@pytest.mark.parametrize(("run", "same"), [(naive, False), (of_torch, True), (of_the_course, True)])
def test_a_second_run_draws_a_new_mask_unless_the_random_state_is_restored(
    run: Callable[[nn.Module, Tensor], Tensor], same: bool
) -> None:
    ones = torch.ones(64, requires_grad=True)
    y = run(nn.Dropout(0.5), ones)

    assert torch.equal(grad(y.sum(), ones)[0], y) is same


@pytest.mark.parametrize(("run", "times"), [(naive, 2), (of_torch, 2), (of_the_course, 1)])
def test_a_batch_norm_counts_a_batch_twice_in_torch_s_checkpoint_too(
    run: Callable[[nn.Module, Tensor], Tensor], times: int
) -> None:
    norm = nn.BatchNorm1d(64)
    run(norm, X.clone().requires_grad_()).sum().backward()

    assert int(norm.num_batches_tracked or 0) == times


@pytest.mark.parametrize(
    ("run", "second"),
    [
        (naive, torch.float32),
        (of_torch, torch.bfloat16),
        (of_the_course, torch.bfloat16),
    ],
)
def test_a_second_run_is_under_autocast_only_if_it_is_put_back(
    run: Callable[[nn.Module, Tensor], Tensor], second: torch.dtype
) -> None:
    layer, seen = nn.Linear(64, 4), []
    layer.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        # PyTorch's second run stops once all saved tensors are recomputed, which is at the sigmoid
        # here.
        y = run(nn.Sequential(layer, nn.Sigmoid()), X.clone().requires_grad_())
    y.sum().backward()

    assert seen == [torch.bfloat16, second]


def test_without_enable_grad_the_second_run_records_nothing() -> None:
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        return grad(x * x, x, g)[0]

    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    with pytest.raises(RuntimeError, match="does not require grad"):
        make(forward, backward).apply(leaf(1.0)).sum().backward()


@pytest.mark.parametrize("times", [1, 2])
def test_under_a_checkpoint_saved_tensors_can_be_unpacked_once(times: int) -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * sum(2 * ctx.saved_tensors[0] / times for _ in range(times))

    square, x = make(forward, backward).apply, leaf(1.0)
    assert grad(square(x).sum(), x)[0].tolist() == [2.0]
    y = torch_checkpoint.checkpoint(square, x, use_reentrant=False)
    if times == 1:
        assert grad(y.sum(), x)[0].tolist() == [2.0]
    else:
        with pytest.raises(torch_checkpoint.CheckpointError, match="already unpacked once"):
            grad(y.sum(), x)


# Releasing tensors during backward: two attributes of PyTorch 2.13

new_in_2_13 = pytest.mark.skipif(
    not hasattr(Function, "boxed_grads_call"),
    reason="clear_saved_tensors_on_access and boxed_grads_call are new in PyTorch 2.13",
)


class Sines(Function):
    @staticmethod
    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.sin(x) for x in tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return Sines.gradients(ctx, list(grads))

    @staticmethod
    def gradients(ctx: Any, grads: list[Tensor]) -> tuple[Tensor, ...]:
        saved, found = list(ctx.saved_tensors), []
        while saved:
            found.append(grads.pop() * torch.cos(saved.pop()))
        return tuple(reversed(found))


class ClearingSines(Sines):
    clear_saved_tensors_on_access = True


class BoxedSines(Sines):
    boxed_grads_call = True

    @staticmethod
    def backward(ctx: Any, grads: Any) -> Any:
        assert isinstance(grads, list)
        return Sines.gradients(ctx, grads)


def squares(sines: Any, *tensors: Tensor) -> Tensor:
    return torch.stack([(y**2).sum() for y in sines.apply(*(2 * x for x in tensors))]).sum()


@new_in_2_13
@pytest.mark.parametrize("lean", [ClearingSines, BoxedSines])
def test_backward_can_release_saved_tensors_and_gradients_early(lean: Any) -> None:
    tensors = X.expand(8, 256, 64).clone().requires_grad_().unbind()

    expected, actual = (grad(squares(sines, *tensors), tensors) for sines in (Sines, lean))
    assert all(map(torch.equal, expected, actual))
    usual, less = (peak_bytes(squares, sines, *tensors) for sines in (Sines, lean))
    assert usual >= less + 5 * FULL


@new_in_2_13
@pytest.mark.parametrize("again", ["an access", "a backward pass"])
def test_a_function_that_clears_its_saved_tensors_reads_them_once(again: str) -> None:
    class Clearing(Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            if again == "an access":
                (x,) = ctx.saved_tensors
            return 2 * x * g

    y = Clearing.apply(leaf(1.0)).sum()  # type: ignore[no-untyped-call]
    if again == "a backward pass":
        y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="can only be accessed once"):
        y.backward()


# Segments


def test_one_segment_peaks_like_no_checkpoint_and_the_root_is_best() -> None:
    deep = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(16)]
    x = torch.randn(1024, 16)

    def peak(segments: int) -> int:
        size = len(deep) // segments

        def run(x: Tensor) -> Tensor:
            for begin in range(0, len(deep), size):
                x = checkpoint(nn.Sequential(*deep[begin : begin + size]), x)
            return x

        return peak_bytes(run, x)

    peaks = {segments: peak(segments) for segments in (1, 2, 4, 8, 16)}
    assert peaks[1] >= peak_bytes(nn.Sequential(*deep), x)
    assert min(peaks, key=lambda segments: peaks[segments]) == 4


def in_halves(block: nn.Sequential, x: Tensor) -> Tensor:
    return of_torch(block[2:], of_torch(block[:2], x))


@pytest.mark.parametrize(
    ("run", "forwards"), [(nn.Module.__call__, 3), (of_torch, 4), (in_halves, 4)]
)
def test_backward_costs_two_forwards_and_a_checkpoint_a_third(
    run: Callable[..., Tensor], forwards: int
) -> None:
    block = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    with FlopCounterMode(display=False) as counter:
        y = run(block, X.clone().requires_grad_())
        forward = counter.get_total_flops()
        y.sum().backward()

    assert counter.get_total_flops() == forwards * forward


@pytest.mark.filterwarnings("ignore:A saved_tensors_hooks context:FutureWarning")  # PyTorch 2.15
def test_a_selective_checkpoint_keeps_what_its_policy_says() -> None:
    keep, again = (
        torch_checkpoint.CheckpointPolicy.MUST_SAVE,
        torch_checkpoint.CheckpointPolicy.PREFER_RECOMPUTE,
    )

    def policy(ctx: Any, operation: Any, *args: Any, **kwargs: Any) -> Any:
        return keep if operation is torch.ops.aten.addmm.default else again

    def contexts() -> Any:
        return torch_checkpoint.create_selective_checkpoint_contexts(policy)

    block = nn.Sequential(nn.Linear(64, 64), nn.Sigmoid(), nn.Sigmoid())
    assert kept_bytes(block, X) == 2 * FULL
    assert kept_bytes(lambda x: of_torch(block, x), X) == 0
    selective = kept_bytes(
        lambda x: torch_checkpoint.checkpoint(block, x, use_reentrant=False, context_fn=contexts),
        X,
    )
    assert selective == FULL


# Chunks


def early(reduction: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a cross entropy that computes the gradients of the plain sum in forward."""

    def forward(ctx: Any, x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
        slope = torch.softmax(x @ weight.T, 1)
        slope[torch.arange(len(x)), target] -= 1
        ctx.save_for_backward(slope @ weight, slope.T @ x)
        return cross_entropy(x @ weight.T, target, reduction=reduction)

    def backward(ctx: Any, g: Tensor) -> Any:
        grad_x, grad_weight = ctx.saved_tensors
        return (g[:, None] if g.dim() else g) * grad_x, g.mean() * grad_weight, None

    return make(forward, backward).apply


@pytest.mark.parametrize(("reduction", "right"), [("sum", True), ("none", False)])
def test_gradients_computed_in_forward_need_a_scalar_g(reduction: str, right: bool) -> None:
    x, weight = torch.randn(2, 4, 3, dtype=torch.float64).requires_grad_().unbind()
    target = torch.tensor([0, 3, 1, 2])
    row_weights = torch.arange(4.0, dtype=torch.float64) if reduction == "none" else 3.0

    def weight_gradient(f: Callable[..., Tensor]) -> Tensor:
        return grad((row_weights * f(x, weight, target)).sum(), weight)[0]

    expected = weight_gradient(
        lambda x, weight, target: cross_entropy(x @ weight.T, target, reduction=reduction)
    )
    assert torch.allclose(weight_gradient(early(reduction)), expected) is right


def test_a_plain_head_has_three_matrices_of_logits_at_once() -> None:
    x, weight, target = X, torch.randn(1024, 64), torch.randint(1024, (256,))
    logits = 256 * 1024 * 4

    peak = peak_bytes(lambda x, w: cross_entropy(x @ w.T, target), x, weight)
    assert 3 * logits <= peak < 3.2 * logits
