"""Additive coupling: layers that can be undone, so that only the last output is kept."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.functions.recorded import entered, own_parameters, vector_jacobian_product
from autograd_course.functions.replay import Replay

Block = tuple[nn.Module, nn.Module]


def coupled(blocks: Sequence[Block], x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two halves after a sequence of blocks ``(f, g)``, each of which does

    ``y₁ = x₁ + f(x₂)``, ``y₂ = x₂ + g(y₁)``, undone by ``x₂ = y₂ - g(y₁)``, ``x₁ = y₁ - f(x₂)``.

    Backward needs the inputs of ``f`` and ``g`` and has the outputs: from the last block to the
    first it rebuilds them, and on the way, with ``a = ∂L/∂y₁`` and ``c = ∂L/∂y₂``,

    ``a' = a + (∂g/∂y₁)ᵀ c``, ``c' = c + (∂f/∂x₂)ᵀ a'``; then ``∂L/∂x₁ = a'``, ``∂L/∂x₂ = c'``,

    and the parameters of ``g`` receive ``(∂g/∂θ)ᵀ c``, those of ``f`` ``(∂f/∂θ)ᵀ a'``. So memory
    does not grow with the number of blocks, but for the random state of a ``f`` or ``g`` that drew
    numbers. This needs *one* Function for all blocks: one for each would keep the outputs of each.

    Shapes: ``x1``, ``x2``, both results, and all that ``f`` and ``g`` take and return, are alike.
    Real floating dtypes. What is rebuilt differs from what was by rounding, which grows from block
    to block (``test_coupling.py`` shows how much); in half precision it soon matters.
    Random numbers and autocast are as in forward, and buffers are written by forward alone. A block
    that reads a running statistic which a *later* forward has changed since sees the new one.
    Parameters of the modules are found; other tensors that they reach would get no gradient. Twice
    differentiable; under ``create_graph`` all blocks' graphs are kept.

    Raises ``ValueError`` if the halves differ in shape. Sources: Dinh et al. 2014 (NICE), Gomez et
    al. 2017 (RevNet).
    """
    if x1.shape != x2.shape:
        raise ValueError(
            f"coupled needs two halves of one shape, got {tuple(x1.shape)} and {tuple(x2.shape)}"
        )
    chain = _Chain(blocks)
    out: tuple[Tensor, Tensor] = AdditiveCoupling.apply(chain, x1, x2, *chain.parameters)  # type: ignore[no-untyped-call]
    return out


def uncoupled(blocks: Sequence[Block], y1: Tensor, y2: Tensor) -> tuple[Tensor, Tensor]:
    """Return the halves that :func:`coupled` makes ``y1`` and ``y2`` of, but for rounding.

    Plain operations, for use in themselves (a flow runs both ways). Dropout would draw anew.
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
        """Return the two halves after all blocks, saving no others."""
        ctx.chain = chain
        for f, g in chain.halves:
            x1 = x1 + f.replay.first(x2)
            x2 = x2 + g.replay.first(x1)
        # The parameters are saved so that a change before backward is noticed.
        ctx.save_for_backward(x1, x2, *parameters)
        return x1, x2

    @staticmethod
    def backward(ctx: Any, grad_1: Tensor, grad_2: Tensor) -> tuple[Tensor | None, ...]:
        """Undo block after block, taking the gradients along."""
        y1, y2, *_ = ctx.saved_tensors
        collected: dict[Tensor, Tensor] = {}
        for f, g in reversed(ctx.chain.halves):
            value, through = g.backward(y1, grad_2, collected)
            y2, grad_1 = y2 - value, grad_1 + through
            value, through = f.backward(y2, grad_1, collected)
            y1, grad_2 = y1 - value, grad_2 + through
        return None, grad_1, grad_2, *map(collected.get, ctx.chain.parameters)


class _Chain:
    """All blocks of a call, and the parameters that want gradients, each once."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.halves = [(_Half(f), _Half(g)) for f, g in blocks]
        every = (p for pair in self.halves for half in pair for p in half.parameters)
        self.parameters = list(dict.fromkeys(every))


class _Half:
    """The ``f`` or the ``g`` of a block, in one call."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.replay = module, Replay(module, [module])
        self.parameters = [p for p in module.parameters() if p.requires_grad]

    def backward(
        self, at: Tensor, grad_output: Tensor, collected: dict[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor | float]:
        """Return value and vector-Jacobian product at a point; collect the parameters'."""
        at = entered(at, True)
        with own_parameters([self.module], self.parameters) as own, torch.enable_grad():
            value = self.replay.again(at)
        through, *found = vector_jacobian_product([value], [at, *own], [grad_output])
        for parameter, gradient in zip(self.parameters, found, strict=True):
            if gradient is not None:
                before = collected.get(parameter)
                collected[parameter] = gradient if before is None else before + gradient
        # Without create_graph nobody goes back through this run, and its graph may go.
        value = value if torch.is_grad_enabled() else value.detach()
        return value, 0.0 if through is None else through
