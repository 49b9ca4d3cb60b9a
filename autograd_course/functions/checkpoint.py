"""Checkpointing: keep the inputs of a part of the network, and run it again in backward."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from autograd_course.functions.recorded import (
    entered,
    not_given,
    own_parameters,
    vector_jacobian_product,
)
from autograd_course.functions.replay import Replay


def checkpoint(
    fn: Callable[..., Any], *args: Any, uses: Sequence[nn.Module] = (), **kwargs: Any
) -> Any:
    """Return ``fn(*args, **kwargs)``, keeping of it for backward only what it was given.

    With ``y = f(x, θ)`` and ``g = ∂L/∂y``, backward computes ``y`` a second time, recording its
    graph, and returns ``∂L/∂x = gᵀ ∂f/∂x`` and ``∂L/∂θ = gᵀ ∂f/∂θ``. Between the passes the graph
    of ``fn`` does not exist: memory for one more forward.

    Arguments and result are trees of tensors and other values (lists, tuples, dictionaries). A
    module's parameters are found, and those of a bound method's module. ``uses`` names the modules
    that any other callable reaches; tensors are to be arguments. All of them are inputs of the
    Function, so that their gradients come as all others do: into ``.grad``, out of
    ``torch.autograd.grad``, through hooks.

    The second run draws the same random numbers (CPU and CUDA), under the same autocast, and leaves
    no trace in buffers: a batch norm counts a batch once. Twice differentiable: with
    ``create_graph`` the second run is recorded on the inputs themselves. Outputs are differentiable
    if they are of a floating dtype and anything given asks for a gradient. ``fn`` must compute the
    same when it runs again; state other than PyTorch's random numbers and buffers is not restored.

    Raises in backward ``RuntimeError`` if ``fn`` has reached a tensor that asks for a gradient and
    was not given: its gradient would be lost without a word. In practice use
    ``torch.utils.checkpoint.checkpoint(..., use_reentrant=False)``, which needs no ``uses``: it
    keeps the graph and drops what the graph has saved. Source: Chen et al. 2016 (sublinear memory).
    """
    if not all(isinstance(used, nn.Module) for used in uses):
        raise TypeError("uses names modules; give tensors that need a gradient as arguments")
    owner = getattr(fn, "__self__", fn)
    modules = [owner, *uses] if isinstance(owner, nn.Module) else list(uses)
    leaves, spec = tree_flatten((args, kwargs))
    call = _Call(Replay(fn, modules), modules, spec, len(leaves))
    outputs = Checkpoint.apply(call, *leaves, *call.parameters)  # type: ignore[no-untyped-call]
    return tree_unflatten(outputs, call.result)


class _Call:
    """A call as one flat list of arguments, and its result as one flat tuple."""

    result: TreeSpec

    def __init__(
        self, replay: Replay, modules: Sequence[nn.Module], arguments: TreeSpec, number: int
    ) -> None:
        self.replay, self.modules, self.arguments, self.number = replay, modules, arguments, number
        own = (parameter for module in modules for parameter in module.parameters())
        self.parameters = [p for p in dict.fromkeys(own) if p.requires_grad]

    def run(self, how: Callable[..., Any], flat: Sequence[Any]) -> tuple[Any, ...]:
        """Call with ``how``: the replay's first run, or another one."""
        args, kwargs = tree_unflatten(flat[: self.number], self.arguments)
        leaves, self.result = tree_flatten(how(*args, **kwargs))
        return tuple(leaves)


class Checkpoint(torch.autograd.Function):
    """The Function behind :func:`checkpoint`: ``(call, *arguments, *parameters) -> outputs``.

    Saves the tensors among its arguments; the formula is that of :func:`checkpoint`.
    """

    @staticmethod
    def forward(ctx: Any, call: _Call, *inputs: Any) -> tuple[Any, ...]:
        """Run the call without a graph, and save the inputs."""
        ctx.set_materialize_grads(False)
        ctx.call = call
        # Tensors are saved; other values may stay on ctx, where nothing watches over them.
        ctx.others = [None if isinstance(it, Tensor) else it for it in inputs]
        ctx.save_for_backward(*(it if isinstance(it, Tensor) else None for it in inputs))
        return call.run(call.replay.first, inputs)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        """Run the call again with a graph, and go back through it."""
        call, needs = ctx.call, ctx.needs_input_grad[1:]
        pairs = zip(ctx.saved_tensors, ctx.others, strict=True)
        inputs = [other if saved is None else saved for saved, other in pairs]
        given = [entered(it, need) for it, need in zip(inputs, needs, strict=True)][: call.number]
        with own_parameters(call.modules, call.parameters) as own, torch.enable_grad():
            outputs = call.run(call.replay.again, given)
        wanted = [it for it, need in zip([*given, *own], needs, strict=True) if need]
        if (lost := not_given(outputs, wanted)) is not None:
            raise RuntimeError(
                f"checkpoint: the function reaches a tensor of shape {tuple(lost.shape)} that asks "
                "for a gradient; make it an argument, or name its module in uses=[...]"
            )
        found = iter(vector_jacobian_product(outputs, wanted, grad_outputs))
        return None, *(next(found) if need else None for need in needs)
