"""Additive coupling: invertible layers that save only the last output."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.functions.recorded import entered, own_parameters, vector_jacobian_product
from autograd_course.functions.replay import Replay

Block = tuple[nn.Module, nn.Module]


def coupled(blocks: Sequence[Block], x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """Apply invertible blocks to the two halves of an input, and save only the last output.

    A block ``(f, g)`` computes ``y₁ = x₁ + f(x₂)`` and ``y₂ = x₂ + g(y₁)``. Its inverse is
    ``x₂ = y₂ - g(y₁)``, ``x₁ = y₁ - f(x₂)``.

    Backward needs the inputs of ``f`` and ``g``. It recomputes them from the outputs, starting with
    the last block. With ``a = ∂L/∂y₁`` and ``c = ∂L/∂y₂``,

    ``a' = a + (∂g/∂y₁)ᵀ c``, ``c' = c + (∂f/∂x₂)ᵀ a'``; then ``∂L/∂x₁ = a'``, ``∂L/∂x₂ = c'``.

    The parameters of ``g`` get ``(∂g/∂θ)ᵀ c``, and the parameters of ``f`` get ``(∂f/∂θ)ᵀ a'``.
    Memory use therefore does not grow with the number of blocks, except for the random state of
    each ``f`` or ``g`` that draws random numbers. All blocks must be in *one* Function, because a
    separate Function for each block would save the outputs of every block.

    The recomputed values differ from the original values by rounding errors, which grow from block
    to block (``test_coupling.py`` shows how much). In half precision, the errors quickly become too
    large. Backward uses the same random numbers and autocast settings as forward, and does not
    update buffers. But if a *later* forward pass changes a running statistic that a block reads,
    backward reads the new value. Twice differentiable. Under ``create_graph``, backward keeps the
    graphs of all blocks in memory.

    Args:
        blocks: Pairs ``(f, g)`` of modules that preserve the shape. Their parameters get gradients.
            Other tensors that a module uses get no gradient.
        x1: The first half, real floating-point dtype.
        x2: The second half, with the same shape as ``x1``.

    Returns:
        The two halves after all blocks.

    Raises:
        ValueError: The halves have different shapes.

    Example:
        >>> import torch
        >>> block = (torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
        >>> y1, y2 = coupled([block, block], torch.ones(5, 3), torch.ones(5, 3))
        >>> y1.shape
        torch.Size([5, 3])

    Sources: Dinh, Krueger and Bengio (NICE), 2014; Gomez et al. (RevNet), 2017.
    """
    if x1.shape != x2.shape:
        raise ValueError(
            f"coupled needs two halves of one shape, got {tuple(x1.shape)} and {tuple(x2.shape)}"
        )
    chain = _Chain(blocks)
    out: tuple[Tensor, Tensor] = AdditiveCoupling.apply(chain, x1, x2, *chain.parameters)  # type: ignore[no-untyped-call]
    return out


def uncoupled(blocks: Sequence[Block], y1: Tensor, y2: Tensor) -> tuple[Tensor, Tensor]:
    """Invert :func:`coupled`, up to rounding.

    This function uses plain operations, so you can train through it, for example in a normalizing
    flow. A block with dropout draws new random numbers here.

    Args:
        blocks: The blocks that you passed to :func:`coupled`.
        y1: The first half of its result.
        y2: The second half of its result.

    Returns:
        The two halves that :func:`coupled` turns into ``y1`` and ``y2``.

    Example:
        >>> import torch
        >>> block = (torch.sin, torch.cos)
        >>> uncoupled([block], torch.tensor([1.0]), torch.tensor([2.0]))
        (tensor([0.0062]), tensor([1.4597]))
    """
    for f, g in reversed(blocks):
        y2 = y2 - g(y1)
        y1 = y1 - f(y2)
    return y1, y2


class AdditiveCoupling(torch.autograd.Function):
    """The Function behind :func:`coupled`: ``(chain, x1, x2, *parameters) -> (y1, y2)``."""

    @staticmethod
    def forward(
        ctx: Any, chain: "_Chain", x1: Tensor, x2: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the two halves after all blocks, and save only these halves and the parameters."""
        ctx.chain = chain
        for f, g in chain.halves:
            x1 = x1 + f.replay.first(x2)
            x2 = x2 + g.replay.first(x1)
        # Save the parameters, so that autograd detects a change before backward.
        ctx.save_for_backward(x1, x2, *parameters)
        return x1, x2

    @staticmethod
    def backward(ctx: Any, grad_1: Tensor, grad_2: Tensor) -> tuple[Tensor | None, ...]:
        """Invert the blocks from the last to the first and compute the gradients."""
        y1, y2, *_ = ctx.saved_tensors
        collected: dict[Tensor, Tensor] = {}
        for f, g in reversed(ctx.chain.halves):
            value, through = g.backward(y1, grad_2, collected)
            y2, grad_1 = y2 - value, grad_1 + through
            value, through = f.backward(y2, grad_1, collected)
            y1, grad_2 = y1 - value, grad_2 + through
        return None, grad_1, grad_2, *map(collected.get, ctx.chain.parameters)


class _Chain:
    """The blocks of one call and a list of their parameters that require gradients."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.halves = [(_Half(f), _Half(g)) for f, g in blocks]
        every = (p for pair in self.halves for half in pair for p in half.parameters)
        self.parameters = list(dict.fromkeys(every))


class _Half:
    """The ``f`` or ``g`` of a block, with the state that backward needs to rerun it."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.replay = module, Replay(module, [module])
        self.parameters = [p for p in module.parameters() if p.requires_grad]

    def backward(
        self, at: Tensor, grad_output: Tensor, collected: dict[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor | float]:
        """Return the value and the VJP at ``at``, and add parameter gradients to ``collected``."""
        at = entered(at, True)
        with own_parameters([self.module], self.parameters) as own, torch.enable_grad():
            value = self.replay.again(at)
        through, *found = vector_jacobian_product([value], [at, *own], [grad_output])
        for parameter, gradient in zip(self.parameters, found, strict=True):
            if gradient is not None:
                before = collected.get(parameter)
                collected[parameter] = gradient if before is None else before + gradient
        # Without create_graph, nothing differentiates this run again, so its graph can be freed.
        value = value if torch.is_grad_enabled() else value.detach()
        return value, 0.0 if through is None else through
