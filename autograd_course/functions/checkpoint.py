"""Checkpointing: save only the inputs of a block, and recompute the block in backward."""

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
    """Return ``fn(*args, **kwargs)`` and save only the arguments of ``fn`` for backward.

    With ``y = f(x, θ)`` and ``g = ∂L/∂y``, backward recomputes ``y`` with a graph and returns
    ``∂L/∂x = gᵀ ∂f/∂x`` and ``∂L/∂θ = gᵀ ∂f/∂θ``. Between forward and backward, no graph of ``fn``
    exists. The cost is a second forward pass.

    The recomputation draws the same random numbers on CPU and CUDA and uses the same autocast
    settings. It also restores the modules' buffers, so batch norm counts each batch once. It does
    not restore any other state. ``fn`` must compute the same result both times.

    An output is differentiable if it has a floating-point dtype and any input requires a gradient.
    Gradients reach the inputs as usual: in ``.grad``, from ``torch.autograd.grad``, and through
    hooks. Twice differentiable: with ``create_graph``, the graph of the recomputation starts at the
    inputs themselves.

    In practice, use ``torch.utils.checkpoint.checkpoint(..., use_reentrant=False)``. It does not
    need ``uses``, because it keeps the graph and drops only the saved tensors.

    Args:
        fn: The callable. If it is a module or a method of a module, ``checkpoint`` finds its
            parameters automatically.
        args: The arguments of ``fn``: tensors, other values, and lists, tuples and dictionaries of
            these.
        uses: The modules whose parameters ``fn`` uses. Needed only if ``fn`` is neither a module
            nor a method of a module.
        kwargs: The keyword arguments of ``fn``, of the same types as ``args``.

    Returns:
        The result of ``fn``.

    Raises:
        RuntimeError: Raised in backward if ``fn`` uses a tensor that requires a gradient but is
            neither an argument nor a parameter of ``uses``. Without this error, the gradient of the
            tensor would be silently lost.

    Example:
        >>> import torch
        >>> layer = torch.nn.Linear(3, 2)
        >>> checkpoint(layer, torch.ones(5, 3)).shape
        torch.Size([5, 2])

    Source: Chen et al., "Training deep nets with sublinear memory cost", 2016.
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
    """A call that takes its arguments as a flat list and returns its result as a flat tuple."""

    result: TreeSpec

    def __init__(
        self, replay: Replay, modules: Sequence[nn.Module], arguments: TreeSpec, number: int
    ) -> None:
        self.replay, self.modules, self.arguments, self.number = replay, modules, arguments, number
        own = (parameter for module in modules for parameter in module.parameters())
        self.parameters = [p for p in dict.fromkeys(own) if p.requires_grad]

    def run(self, how: Callable[..., Any], flat: Sequence[Any]) -> tuple[Any, ...]:
        """Make the call through ``how``, which is ``replay.first`` or ``replay.again``."""
        args, kwargs = tree_unflatten(flat[: self.number], self.arguments)
        leaves, self.result = tree_flatten(how(*args, **kwargs))
        return tuple(leaves)


class Checkpoint(torch.autograd.Function):
    """The Function behind :func:`checkpoint`: ``(call, *arguments, *parameters) -> outputs``.

    It saves the arguments that are tensors. :func:`checkpoint` gives the formula.
    """

    @staticmethod
    def forward(ctx: Any, call: _Call, *inputs: Any) -> tuple[Any, ...]:
        """Run the call without a graph and save the inputs."""
        ctx.set_materialize_grads(False)
        ctx.call = call
        # Save the tensors. Other values may be attributes of ctx, which autograd does not track.
        ctx.others = [None if isinstance(it, Tensor) else it for it in inputs]
        ctx.save_for_backward(*(it if isinstance(it, Tensor) else None for it in inputs))
        return call.run(call.replay.first, inputs)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        """Rerun the call with a graph and differentiate its outputs."""
        call, needs = ctx.call, ctx.needs_input_grad[1:]
        pairs = zip(ctx.saved_tensors, ctx.others, strict=True)
        inputs = [other if saved is None else saved for saved, other in pairs]
        given = [entered(it, need) for it, need in zip(inputs, needs, strict=True)][: call.number]
        with own_parameters(call.modules, call.parameters) as own, torch.enable_grad():
            outputs = call.run(call.replay.again, given)
        wanted = [it for it, need in zip([*given, *own], needs, strict=True) if need]
        if (lost := not_given(outputs, wanted)) is not None:
            raise RuntimeError(
                f"checkpoint: the function uses a tensor of shape {tuple(lost.shape)} that "
                "requires grad; make it an argument, or name its module in uses=[...]"
            )
        found = iter(vector_jacobian_product(outputs, wanted, grad_outputs))
        return None, *(next(found) if need else None for need in needs)
