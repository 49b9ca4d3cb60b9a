"""Tracing a function: one real forward, one real backward."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from autograd_course.visualize.flow.assemble import Names, Passes, assemble
from autograd_course.visualize.flow.gradients import BackwardGradients
from autograd_course.visualize.flow.modules import ModuleCalls, module_paths, reached_modules
from autograd_course.visualize.flow.reading import Reading
from autograd_course.visualize.flow.trace import Trace
from autograd_course.visualize.flow.values import ForwardValues, tensor_hooks
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.formatting import raised
from autograd_course.visualize.kit.graph import in_forward_order, is_leaf, operation
from autograd_course.visualize.kit.inputs import (
    as_callable,
    captured_names,
    fresh_leaves,
    input_names,
    require_dense,
    require_values,
    title,
)


def trace_gradient_flow(fn: Any, *inputs: Any, names: Sequence[str] | None = None) -> Trace:
    """Run ``fn(*inputs)`` and its backward pass once, and record both.

    ``fn`` is a ``torch.autograd.Function`` class (its ``.apply`` is called) or any callable that
    returns a tensor or a tuple of some. If that is not one number, the loss is the sum of all
    elements. ``inputs`` are its arguments; tensors are copied. ``names`` are for the inputs;
    without them, the parameters' own names are used. Calls of ``nn.Module`` become groups.

    The caller's tensors, gradients, random state, grad mode and default dtype stay as they are,
    and nothing of the graph is kept alive.

    Raises :class:`TraceError` if an input has no values or none can have a gradient, if ``fn`` or a
    backward raises, or if the result is not a tensor or does not depend on the inputs.
    """
    require_values(inputs)
    call, arguments = as_callable(fn, "gradient_flow"), fresh_leaves(inputs)
    called = input_names(fn, inputs, names)
    named = {id(x): name for x, name in _named_once(arguments, called)}
    modules = reached_modules(fn, dict(zip(called, arguments, strict=True)))
    calls = ModuleCalls(module_paths(modules))
    with _undisturbed():
        with calls.watching():
            outputs, values = _forward(call, arguments, title(fn))
        passes = _backward(outputs, values, calls, [x for x in arguments if id(x) in named])
    given = list(named.values())
    if any(id(leaf) not in named for leaf in passes.leaves.values()):
        named |= {**_parameters(modules), **captured_names(fn)}
    return assemble(passes, Names(title(fn), named, given, "" in modules))


def _parameters(modules: Mapping[str, nn.Module]) -> dict[int, str]:
    return {
        id(parameter): f"{name}.{path}" if name else path
        for name, module in modules.items()
        for path, parameter in module.named_parameters()
    }


def _named_once(arguments: Sequence[Any], names: Sequence[str]) -> Iterator[tuple[Any, str]]:
    seen: set[int] = set()
    for argument, name in zip(arguments, names, strict=True):
        if isinstance(argument, Tensor) and argument.requires_grad and id(argument) not in seen:
            seen.add(id(argument))
            yield argument, name


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Trace under grad mode, whatever the caller's, and give the random state back."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    dtype = torch.get_default_dtype()
    try:
        with (
            torch.random.fork_rng(devices=list(devices)),
            torch.inference_mode(False),
            torch.enable_grad(),
        ):
            yield
    finally:
        torch.set_default_dtype(dtype)


def _forward(
    call: Callable[..., Any], arguments: Sequence[Any], name: str
) -> tuple[list[Tensor], ForwardValues]:
    with ForwardValues() as values:
        try:
            result = call(*arguments)
        except Exception as error:
            raise TraceError(f"{name} raised {raised(error)}.") from error
    outputs = list(result) if isinstance(result, tuple | list) else [result]
    tensors = [output for output in outputs if isinstance(output, Tensor)]
    if not tensors:
        raise TraceError(
            f"{name} returned {type(result).__name__}, not a tensor; let it return the loss."
        )
    differentiable = [tensor for tensor in tensors if tensor.requires_grad]
    if not differentiable:
        raise TraceError(
            f"The output of {name} does not depend on its inputs through autograd; "
            "look for detach(), no_grad(), .item() or a rounding to integers on the way."
        )
    require_dense(differentiable, "Output", "return")
    for tensor in differentiable:
        values.note(tensor)
    return differentiable, values


def _backward(
    outputs: list[Tensor], values: ForwardValues, calls: ModuleCalls, arguments: Sequence[Tensor]
) -> Passes:
    roots = [(edge.node, edge.output_nr) for edge in map(get_gradient_edge, outputs)]
    first = [get_gradient_edge(argument).node for argument in arguments]
    nodes = in_forward_order([node for node, _ in roots], first)
    leaves = {node: node.variable for node in nodes if is_leaf(node)}
    hooks = {node: names for node, leaf in leaves.items() if (names := tensor_hooks(leaf))}
    gradients = BackwardGradients()
    seeds = [torch.ones_like(output) for output in outputs]
    for (node, output), seed in zip(roots, seeds, strict=True):
        gradients.add(node, output, seed)
    with gradients.watching(nodes):
        collected = _collected(outputs, seeds, leaves, gradients)
    return Passes(
        nodes=nodes,
        roots=roots,
        leaves=leaves,
        outputs=[Reading.of(output) for output in outputs],
        seeds=[Reading.of(seed) for seed in seeds],
        values=values.of,
        gradients=gradients,
        collected={leaf: g if g is None else Reading.of(g) for leaf, g in collected.items()},
        hooks=values.hooks() | hooks,
        born=values.born,
        calls=calls.made,
    )


def _collected(
    outputs: Sequence[Tensor],
    seeds: Sequence[Tensor],
    leaves: Mapping[Any, Tensor],
    gradients: BackwardGradients,
) -> dict[Any, Tensor | None]:
    """Return the gradient of each leaf; it arrives there, after all that backward has passed."""
    try:
        # Not .backward(): that would write into the .grad of tensors that fn reaches by itself.
        found = torch.autograd.grad(
            outputs, list(leaves.values()), seeds, retain_graph=True, allow_unused=True
        )
    except Exception as error:
        where = "backward" if gradients.running is None else operation(gradients.running)
        raise TraceError(f"The backward of {where} raised {raised(error)}.") from error
    for leaf, gradient in zip(leaves, found, strict=True):
        gradients.arrive(leaf, [gradient])
    return dict(zip(leaves, found, strict=True))
