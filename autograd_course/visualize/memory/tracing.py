"""Tracing a call: one real forward, one real backward, and every byte kept between them."""

import gc
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from autograd_doctor.memory import iter_storages, storage_keys
from torch import Tensor

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.formatting import raised
from autograd_course.visualize.kit.inputs import (
    as_callable,
    fresh_leaves,
    input_names,
    require_dense,
    title,
)
from autograd_course.visualize.memory.finish import finished
from autograd_course.visualize.memory.graph import Graph, nodes_behind
from autograd_course.visualize.memory.hooks import SavedTensors
from autograd_course.visualize.memory.isolation import Gradients, Reach, as_it_was
from autograd_course.visualize.memory.ledger import Ledger
from autograd_course.visualize.memory.modules import Modules
from autograd_course.visualize.memory.trace import MemoryTrace
from autograd_course.visualize.memory.watch import Watch


def trace_memory(fn: Any, *inputs: Any) -> MemoryTrace:
    """Run ``fn(*inputs)`` and its backward pass once, and note what autograd keeps, and when.

    ``fn`` is a ``torch.autograd.Function`` class (its ``.apply`` is called), a module, or any
    callable that returns a tensor or a tree of some; the backward pass starts with ones. Tensors
    among ``inputs`` are copied. What is kept is counted in bytes of distinct storages: from the
    moment at which a node saves a tensor to the moment at which it gives it up, as saved-tensor
    hooks see both. Storages of the inputs, and of tensors that ``fn`` reaches by itself (its
    parameters), are alive anyway and cost nothing. Tensors that a custom Function puts on its ctx
    as attributes are found there and counted too.

    The caller's tensors, gradients, buffers, random states, grad mode and default dtype stay as
    they are, and nothing of the graph is kept alive.

    Raises :class:`TraceError` if no input can have a gradient, if ``fn`` or a backward raises, or
    if the result holds no tensor that depends on the inputs.
    """
    if not callable(fn):
        raise TraceError(
            "memory_timeline needs a function to run as its first argument, or a dict of some; "
            "write memory_timeline(block, x) rather than memory_timeline(block(x))."
        )
    require_dense(inputs)
    reach = Reach.of(fn)
    arguments = fresh_leaves(inputs)
    known = reach.storages()
    for name, it in zip(input_names(fn, inputs, None), arguments, strict=True):
        known |= dict.fromkeys(storage_keys(it), name)
    ledger = Ledger(known, _allocator(arguments))
    run = _Run(ledger, Modules(reach.modules), title(fn))
    with as_it_was(reach) as gradients:
        run.forward(as_callable(fn, "memory_timeline"), arguments)
        run.backward(gradients)
        run.drop()
    return finished(title(fn), ledger, run.watch, run.saved, run.again_modules)


class _Run:
    """One forward and one backward."""

    def __init__(self, ledger: Ledger, modules: Modules, name: str) -> None:
        self.ledger, self.modules, self.name = ledger, modules, name
        self.watch = Watch(ledger, modules)
        self.saved = SavedTensors(ledger, self.watch, modules)
        self.outputs: list[Tensor] = []
        self.again_modules = 0

    def forward(self, call: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self.ledger.phase = "forward"
        try:
            with self._watching():
                result = call(*arguments)
        except Exception as error:
            raise TraceError(f"{self.name} raised {raised(error)}.") from error
        tensors = {id(it): it for _, _, it in iter_storages(result)}
        self.outputs = [it for it in tensors.values() if it.requires_grad]
        if not self.outputs:
            raise TraceError(
                f"{self.name} returned no tensor that depends on its inputs through autograd; "
                "return the output, and look for detach(), no_grad() or .item() on the way to it."
            )
        self.saved.outputs = storage_keys(self.outputs)

    def backward(self, gradients: Gradients) -> None:
        ledger = self.ledger
        nodes = nodes_behind(self.outputs)
        self.graph = graph = Graph(ledger, nodes, self.saved.owners.values(), self.watch.paths)
        ledger.settle()
        graph.look_into_ctx()
        gradients.lend(graph.leaves)
        ledger.begin("turn")
        calls = self.modules.calls
        try:
            with self._watching(), graph.watching():
                seeds = [torch.ones_like(output) for output in self.outputs]
                ledger.phase = "backward"
                # Not grad(): checkpoint's reentrant kind refuses to run inside of it.
                torch.autograd.backward(self.outputs, seeds)
        except Exception as error:
            where = ledger.running.op if ledger.running else self.name
            raise TraceError(f"The backward of {where} raised {raised(error)}.") from error
        graph.check_ctx()
        self.again_modules = self.modules.calls - calls
        graph.let_go()

    def drop(self) -> None:
        """Let go of the results, and with them of the graph; then of what only cycles hold."""
        ledger = self.ledger
        ledger.phase, ledger.running = "after", None
        ledger.begin("end", by="backward")
        ledger.settle()
        if ledger.held:
            ledger.begin("end", by="results")
            self.outputs = []
            ledger.settle()
        if ledger.held:
            ledger.begin("end", by="collector")
            _collect(ledger)
            ledger.settle()
        self.outputs = []
        ledger.closed = True

    def _watching(self) -> ExitStack:
        with ExitStack() as stack:
            for watching in (self.saved.watching(), self.modules.watching(), self.watch):
                stack.enter_context(watching)
            return stack.pop_all()


def _collect(ledger: Ledger) -> None:
    """Run the garbage collector as long as it frees anything.

    Where one leaking node leads to another through the graph, which is C++, a collection sees only
    the outermost: each frees one layer.
    """
    held = -1
    while held != len(ledger.held) and ledger.held:
        held = len(ledger.held)
        gc.collect()


def _allocator(arguments: Sequence[Any]) -> Callable[[], int | None]:
    """Return what reads the CUDA allocator of the inputs' device; on the CPU there is none."""
    devices = {it.device for it in arguments if isinstance(it, Tensor) and it.is_cuda}
    if len(devices) != 1:
        return lambda: None
    (device,) = devices  # pragma: no cover - a GPU
    start = torch.cuda.memory_allocated(device)  # pragma: no cover
    return lambda: torch.cuda.memory_allocated(device) - start  # pragma: no cover
