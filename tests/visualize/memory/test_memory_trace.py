"""A memory trace shows what autograd really keeps."""

import contextlib
import gc
import json
import random
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import memory_variants as variants
import numpy as np
import pytest
import torch
from memory_variants import FULL, SWISHES, Normed, W, b, batch, deep
from torch import Tensor, nn
from torch.autograd.function import FunctionMeta
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn.modules import module as module_hooks
from torch.utils.checkpoint import checkpoint

from autograd_course import functions as course
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.memory import trace as trace_module
from autograd_course.visualize.memory.trace import Event, Kept, MemoryTrace, trace_memory
from autograd_course.visualize.memory.view import folded, grouping

pytestmark = pytest.mark.slow

EVERY = {
    **SWISHES,
    "reentrant": variants.reentrant,
    "by hand": variants.by_hand,
    "cycle": variants.in_cycle,
    "module": Normed(),
    "on ctx": variants.ReLUOnCtx,
    "view": lambda x: (x + 1)[:1].exp().square() + (x + 1)[:1].square(),
}


@pytest.fixture(params=EVERY, ids=list(EVERY))
def trace(request: pytest.FixtureRequest) -> MemoryTrace:
    return trace_memory(EVERY[request.param], batch())


def costs(trace: MemoryTrace) -> list[Kept]:
    return [item for item in trace.kept if item.extra]


def events(trace: MemoryTrace, kind: str) -> list[Event]:
    return [event for event in trace.events if event.kind == kind]


def of_relu(relu: Any) -> MemoryTrace:
    """Trace a ReLU whose input and output have no other references."""
    return trace_memory(lambda x: relu.apply(x + 1) + 1, batch())


# What is counted


def saved_by_pytorch(fn: Callable[[Tensor], Tensor], *alive: Tensor) -> int:
    """Count the saved bytes independently: use hooks that pack nothing, and compare pointers."""
    found: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
        return tensor

    x = batch().requires_grad_()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = fn(x)
    for tensor in (x, *alive):
        found.pop(tensor.untyped_storage().data_ptr(), None)
    assert output.requires_grad
    return sum(found.values())


@pytest.mark.parametrize("name", ["composed", "fused"])
def test_between_the_passes_are_the_bytes_of_all_saved_storages(name: str) -> None:
    fn = SWISHES[name]

    assert trace_memory(fn, batch()).between == saved_by_pytorch(fn, W, b) > 0


@pytest.mark.parametrize(
    ("relu", "role", "dtype", "size"),
    [
        (variants.ReLUByInput, "input", "float32", FULL),
        (variants.ReLUByOutput, "output", "float32", FULL),
        (variants.ReLUByMask, "intermediate", "bool", FULL // 4),
        (variants.ReLUByBits, "intermediate", "uint8", FULL // 32),
    ],
)
def test_a_relu_keeps_what_it_saves(relu: Any, role: str, dtype: str, size: int) -> None:
    trace = of_relu(relu)

    (item,) = trace.kept
    assert (item.owner, item.role, item.dtype) == (relu.__name__, role, dtype)
    assert item.bytes == item.extra == trace.between == trace.peak == size


@pytest.mark.parametrize("again", [False, True])
def test_an_apply_that_was_bound_before_is_told_as_any_other(again: bool) -> None:
    def traced(apply: Callable[[Tensor], Tensor] | None) -> list[Kept]:
        def fn(x: Tensor) -> Tensor:
            return (apply or variants.ReLUByMask.apply)(x + 1) + 1

        run = (lambda x: checkpoint(fn, x, use_reentrant=False)) if again else fn
        return [replace(item, line="") for item in trace_memory(run, batch()).kept]

    assert traced(variants.ReLUByMask.apply) == traced(None)
    assert traced(None)[-1].op == "ReLUByMask"


def test_what_a_function_makes_under_enable_grad_is_not_its_own() -> None:
    trace = trace_memory(lambda x: variants.ExpInside.apply(x + 1) + 1, batch())

    assert [(item.owner, item.role) for item in trace.kept] == [
        ("Exp", "output"),
        ("ExpInside", "input"),
    ]


def test_a_fused_linear_relu_costs_its_output_alone() -> None:
    trace = trace_memory(lambda x: variants.LinearReLU.apply(x, W, b), batch())

    assert [(item.role, item.anyway, item.extra) for item in trace.kept] == [
        ("input", "x", 0),
        ("input", "W", 0),
        ("output", "", FULL),
    ]


def test_a_storage_is_counted_once() -> None:
    def fn(x: Tensor) -> Tensor:
        y = x.exp()
        return y.view(-1) * y.sin().view(-1)

    trace = trace_memory(fn, batch())

    assert [(item.owner, item.also) for item in trace.kept] == [
        ("Exp", ("Sin", "Mul")),
        ("Mul", ()),
    ]
    assert trace.peak == 2 * FULL
    last = trace.events[trace.kept[0].freed]
    assert (last.kind, last.name) == ("run", "Exp")  # Mul and Sin had it too, and ran earlier


def test_a_view_keeps_all_of_its_storage() -> None:
    trace = trace_memory(lambda x: (x + 1)[:1].exp().square() + (x + 1)[:1].square(), batch())

    view = next(item for item in trace.kept if item.part < item.bytes)
    assert (view.bytes, view.part) == (FULL, FULL // 256)


def test_what_is_alive_anyway_costs_nothing() -> None:
    trace = trace_memory(lambda x: (x @ W) * 3, batch())

    assert {item.anyway for item in trace.kept} == {"x", "W"}
    assert trace.peak == 0
    assert trace.anyway == FULL + W.nbytes


def test_a_module_tells_where_and_its_parameters_by_name() -> None:
    trace = trace_memory(Normed(), batch())

    assert "body.0.weight" in {item.anyway for item in trace.kept}
    assert {"body.1", "body.2", "body.3"} <= {item.module for item in trace.kept}


def test_the_line_of_the_callers_code_is_known() -> None:
    trace = of_relu(variants.ReLUByMask)

    assert trace.kept[0].line == "return trace_memory(lambda x: relu.apply(x + 1) + 1, batch())"


def test_a_function_of_the_course_is_told_by_the_line_that_calls_it() -> None:
    trace = trace_memory(lambda x: course.checkpoint(torch.sin, x + 1), batch())

    assert trace.kept[0].line == (
        "trace = trace_memory(lambda x: course.checkpoint(torch.sin, x + 1), batch())"
    )


# When it is freed


def test_a_node_frees_in_backward_what_it_saved_in_forward() -> None:
    trace = trace_memory(lambda x: x.exp().sigmoid().tanh(), batch())

    names = [(event.kind, event.name, event.kept // FULL) for event in trace.events]
    assert names == [
        ("start", "", 0),
        ("save", "Exp", 1),
        ("save", "Sigmoid", 2),
        ("save", "Tanh", 3),
        ("turn", "", 3),
        ("run", "Tanh", 2),
        ("run", "Sigmoid", 1),
        ("run", "Exp", 0),
        ("end", "", 0),
    ]


def test_an_attribute_on_ctx_is_found_and_outlives_backward() -> None:
    trace = of_relu(variants.ReLUOnCtx)

    (item,) = trace.kept
    assert (item.how, item.role, item.extra) == ("attribute", "ctx.mask", FULL // 4)
    ends = events(trace, "end")
    assert [(event.by, event.kept) for event in ends] == [("backward", FULL // 4), ("results", 0)]


def test_an_attribute_that_backward_removes_is_freed_there() -> None:
    trace = of_relu(variants.TidyReLU)

    assert [event.name for event in trace.events if event.frees] == ["TidyReLU"]


def test_an_output_on_ctx_waits_for_the_garbage_collector() -> None:
    trace = trace_memory(variants.in_cycle, batch())

    ends = events(trace, "end")
    assert [(event.by, event.kept) for event in ends] == [
        ("backward", 2 * FULL),
        ("results", 2 * FULL),
        ("collector", 0),
    ]


def test_an_attribute_saved_by_the_next_node_is_counted_once_from_the_beginning() -> None:
    trace = trace_memory(lambda x: variants.ReLUInCycle.apply(x + 1).square(), batch())

    (item,) = trace.kept
    assert (item.how, item.also) == ("attribute", ("Pow",))
    assert [event.kept for event in trace.events[item.born : trace.turn + 1]] == [FULL] * 3


# Checkpoints


@pytest.mark.parametrize("name", ["checkpoint", "reentrant", "by hand"])
def test_a_checkpoint_keeps_nothing_between_and_rises_in_backward(name: str) -> None:
    plain, trace = trace_memory(variants.composed, batch()), trace_memory(EVERY[name], batch())

    state = 5056 if name == "reentrant" else 0  # the state of the random number generator, on ctx
    assert trace.between == state
    assert trace.peak == plain.peak + state
    assert trace.events[trace.peak_event].phase == "backward"
    # PyTorch's newer kind stops once everything is saved, so it does not compute the last product.
    assert trace.again_operations == plain.operations - (name == "checkpoint")
    assert plain.again_operations == 0


def test_what_checkpoint_is_given_in_forward_is_told() -> None:
    trace = trace_memory(variants.checkpointed, batch())

    passed = events(trace, "pass")
    assert {event.by for event in passed} == {"checkpoint"}
    assert [event.name for event in passed] == ["Sigmoid", "Mul", "Mm 2", "Sigmoid 2", "Mul 2"]


def test_segments_trade_the_peak_for_what_is_kept() -> None:
    def two(x: Tensor) -> Tensor:
        for _ in range(2):
            x = checkpoint(variants.composed, x, use_reentrant=False)
        return x

    trace = trace_memory(two, batch())
    assert trace.between == FULL  # the input of the second segment
    assert trace.kept[-1].how == "again"
    assert (
        trace.peak < trace_memory(lambda x: variants.composed(variants.composed(x)), batch()).peak
    )


def test_tensors_on_ctx_defeat_a_checkpoint() -> None:
    def hidden(x: Tensor) -> Tensor:
        return checkpoint(lambda x: variants.ReLUOnCtx.apply(x + 1), x, use_reentrant=False)

    assert trace_memory(hidden, batch()).between == FULL // 4


def test_a_module_that_runs_again_is_counted() -> None:
    net = Normed()

    assert trace_memory(net, batch()).again_modules == 0
    again = trace_memory(lambda x: checkpoint(net, x, use_reentrant=False), batch())
    assert again.again_modules == 6


def test_other_hooks_count_with_what_they_keep() -> None:
    def offloaded(x: Tensor) -> Tensor:
        with save_on_cpu():
            return x.exp()

    trace = trace_memory(offloaded, batch())
    assert trace.between == FULL
    assert events(trace, "save")[0].by == "save_on_cpu"


# The sum is right


def test_bands_add_up_to_what_is_kept(trace: MemoryTrace) -> None:
    for told in (trace, folded(trace), folded(trace, most=12)):
        bands = grouping([told]).bands(told)
        assert [sum(column) for column in zip(*bands, strict=True)] == [e.kept for e in told.events]


def test_entries_add_up_to_what_is_kept(trace: MemoryTrace) -> None:
    for number, event in enumerate(trace.events):
        alive = [item for item in trace.kept if item.lives(number)]
        assert sum(item.extra for item in alive) == event.kept <= event.high


def test_everything_is_freed_in_the_end(trace: MemoryTrace) -> None:
    assert trace.events[-1].kept == 0
    assert all(item.freed is not None for item in trace.kept)


def test_folding_keeps_peaks(trace: MemoryTrace) -> None:
    short = folded(trace, most=12)

    assert (short.peak, short.between) == (trace.peak, trace.between)
    assert short.operations == trace.operations


def test_in_the_end_results_and_gradients_live() -> None:
    trace = trace_memory(variants.composed, batch())

    result, gradients = FULL, FULL + W.nbytes + b.nbytes
    assert trace.events[-1].alive == result + gradients
    seed = FULL  # the ones with which backward starts
    assert trace.events[trace.turn].alive == trace.between + result + seed


def test_all_tensors_alive_are_never_fewer_than_those_kept(trace: MemoryTrace) -> None:
    made = [event for event in trace.events if event.name != "CheckpointFunction"]
    state = 5056  # the state of the random number generator, created outside the dispatcher
    assert all(event.alive_high + state >= event.kept for event in made)


def test_a_thousand_nodes_are_told_by_module() -> None:
    net, x = deep()
    trace = trace_memory(net, x)
    short = folded(trace)

    assert len(trace.events) > 1000
    assert len(short.events) < 100
    assert [event.module for event in short.events if event.phase == "forward"][:2] == [
        "layers.0",
        "layers.1",
    ]


def test_the_allocator_is_read_at_every_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "_allocator", lambda _: iter(range(1000)).__next__)

    trace = trace_memory(lambda x: x.exp(), batch())

    read = [event.allocated for event in trace.events]
    assert read == sorted(set(read))
    assert len(read) == 5


@pytest.mark.gpu
def test_on_a_gpu_the_allocator_has_a_curve() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    trace = trace_memory(lambda x: x.exp().sigmoid(), batch().cuda())

    curve = [event.allocated for event in trace.events]
    assert curve[0] == 0
    assert curve[trace.turn] >= trace.between == 2 * FULL


# Inputs of all kinds


@pytest.mark.parametrize(
    "x",
    [
        torch.tensor(2.0),
        torch.empty(0, 3),
        torch.randn(4, 4, dtype=torch.complex64),
        torch.randn(4, 6).t(),
        torch.randn(4, dtype=torch.bfloat16),
    ],
    ids=["scalar", "empty", "complex", "strided", "bfloat16"],
)
def test_any_tensor_will_do(x: Tensor) -> None:
    trace = trace_memory(lambda x: (x * 2).exp(), x)

    assert trace.between == x.numel() * x.element_size()


def test_other_arguments_and_several_results_will_do() -> None:
    def fn(x: Tensor, index: Tensor, how: str) -> dict[str, Any]:
        return {"a": x.exp()[index], "rest": [x.sigmoid(), how]}

    trace = trace_memory(fn, batch(), torch.tensor([0, 2]), "sum")

    assert trace.between == 2 * FULL
    assert "index" in {item.anyway for item in trace.kept}


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (torch.ones(3), "needs a function to run as its first argument"),
        (lambda x: x.detach(), "returned no tensor that autograd connects to its inputs"),
        (lambda x: x @ x, r"raised RuntimeError at `.*`: mat1 and mat2 shapes"),
        (lambda x: 3, "returned no tensor"),
    ],
)
def test_what_cannot_be_traced_is_said(fn: Any, says: str) -> None:
    with pytest.raises(TraceError, match=says):
        trace_memory(fn, batch())


class Fails(variants.ReLUByMask):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        raise ValueError("no gradient today")


def test_a_backward_that_raises_is_named() -> None:
    with pytest.raises(TraceError, match=r"backward of Fails raised ValueError .*today"):
        trace_memory(Fails, batch())


def test_no_input_with_a_gradient_is_refused() -> None:
    with pytest.raises(TraceError, match="No input can have a gradient"):
        trace_memory(lambda x: x, torch.arange(3))


# It leaves no objects behind


def hooks_in_force() -> tuple[int, ...]:
    tables = (module_hooks._global_forward_hooks, module_hooks._global_forward_pre_hooks)
    return tuple(map(len, tables))


@pytest.mark.parametrize("fn", [*EVERY.values(), Fails, lambda x: x @ x, lambda x: x.detach()])
def test_no_hook_is_left(fn: Any) -> None:
    entering, before = saved_tensors_hooks.__enter__, hooks_in_force()
    looking_up = FunctionMeta.__getattribute__

    with contextlib.suppress(TraceError):
        trace_memory(fn, batch())

    assert saved_tensors_hooks.__enter__ is entering
    assert FunctionMeta.__getattribute__ is looking_up
    assert hooks_in_force() == before
    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None
    assert torch._C._len_torch_dispatch_stack() == 0


@pytest.mark.parametrize("name", EVERY)
def test_no_tensor_is_kept_alive(name: str) -> None:
    made: list[weakref.ref[Tensor]] = []

    def watched(x: Tensor) -> Tensor:
        y = EVERY[name].apply(x) if isinstance(EVERY[name], type) else EVERY[name](x)
        made.extend((weakref.ref(x), weakref.ref(y)))
        return y

    trace = trace_memory(watched, batch())
    gc.collect()

    assert trace.peak >= 0
    assert made
    assert not any(ref() is not None for ref in made)


def test_the_callers_world_is_as_it_was() -> None:
    net, x = Normed(), batch()
    net.body[0].weight.grad = kept = torch.ones_like(net.body[0].weight)
    running = net.body[1].running_mean.clone()
    torch.manual_seed(3)
    states = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy())

    with torch.no_grad():
        trace_memory(net, x)
        assert not torch.is_grad_enabled()

    assert net.body[0].weight.grad is kept
    assert torch.equal(kept, torch.ones_like(kept))
    assert net.body[0].bias.grad is None
    assert torch.equal(net.body[1].running_mean, running)
    assert net.body[1].num_batches_tracked == 0
    assert not x.requires_grad
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.array_equal(np.random.get_state()[1], states[2])


def test_weights_that_only_a_checkpoint_sees_get_no_gradient() -> None:
    hidden = nn.Linear(64, 64)

    trace_memory(lambda x: variants.Recompute.apply(x, hidden), batch())

    assert hidden.weight.grad is None


def test_an_interrupted_trace_gives_everything_back() -> None:
    def interrupted(x: Tensor) -> Tensor:
        torch.set_default_dtype(torch.float64)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trace_memory(interrupted, batch())
    assert torch.get_default_dtype() is torch.float32
    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None


def test_two_traces_of_the_same_are_the_same() -> None:
    assert trace_memory(variants.checkpointed, batch()) == trace_memory(
        variants.checkpointed, batch()
    )


def test_a_trace_is_plain_data() -> None:
    json.dumps(trace_memory(variants.composed, batch()).to_dict(), allow_nan=False)
