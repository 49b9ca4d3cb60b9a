"""Different implementations of the same computations, which save different tensors for backward."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

ROWS, WIDTH = 256, 64
FULL = ROWS * WIDTH * 4  # bytes of one float32 activation

_generator = torch.Generator().manual_seed(0)
W = (torch.randn(WIDTH, WIDTH, generator=_generator) / 8).requires_grad_()
b = torch.zeros(WIDTH, requires_grad=True)


def batch() -> Tensor:
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))


class ReLUByInput(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output * (ctx.saved_tensors[0] > 0)


class ReLUByOutput(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.clamp(min=0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output * (ctx.saved_tensors[0] > 0)


class ReLUByMask(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x > 0)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output * ctx.saved_tensors[0]


_BITS = 2 ** torch.arange(8, dtype=torch.uint8)


class ReLUByBits(Function):
    """Saves the signs of eight elements in one byte.

    The number of elements is a multiple of eight.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        signs = (x > 0).view(-1, 8)
        ctx.save_for_backward((signs * _BITS).sum(-1, dtype=torch.uint8))
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (packed,) = ctx.saved_tensors
        mask = (packed[:, None] & _BITS).ne(0).view(grad_output.shape)
        return grad_output * mask


class ExpInside(Function):
    """An operation inside its forward saves a tensor before the Function saves its own input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        with torch.enable_grad():
            ctx.inner = x.detach().requires_grad_().exp()
        ctx.save_for_backward(x)
        return ctx.inner.detach().clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output * ctx.saved_tensors[0].exp()


class ReLUOnCtx(Function):
    """Breaks the rules: the mask is an attribute of ctx."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mask = x > 0
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output * ctx.mask


class ReLUInCycle(Function):
    """Worse: the output is an attribute of ctx, and ctx is the output's own node."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.y = x.clamp(min=0)
        return ctx.y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output * (ctx.y > 0)


class TidyReLU(ReLUOnCtx):
    """Stores an attribute that backward itself deletes."""

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        mask = ctx.mask
        del ctx.mask
        return grad_output * mask


class LinearReLU(Function):
    """A fused linear layer and ReLU. The output determines the mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y = torch.addmm(bias, x, weight.T).clamp_(min=0)
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight, y = ctx.saved_tensors
        g = grad_output * (y > 0)
        return g @ weight, g.T @ x, g.sum(0)


class Swish(Function):
    """x·σ(x). Saves only x, and computes σ(x) again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return grad_output * (s + x * s * (1 - s))


class Recompute(Function):
    """A hand-written checkpoint. It saves the input and runs ``fn`` again in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, fn: Any) -> Tensor:
        ctx.fn = fn
        ctx.save_for_backward(x)
        with torch.no_grad():
            return fn(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, None]:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        torch.autograd.backward(y, grad_output)
        return x.grad, None


def composed(x: Tensor) -> Tensor:
    """Two layers of swish, built from PyTorch operations."""
    h = x @ W + b
    h = h * torch.sigmoid(h)
    h = h @ W + b
    return h * torch.sigmoid(h)


def fused(x: Tensor) -> Tensor:
    return Swish.apply(Swish.apply(x @ W + b) @ W + b)


def checkpointed(x: Tensor) -> Tensor:
    return checkpoint(composed, x, use_reentrant=False)


def reentrant(x: Tensor) -> Tensor:
    return checkpoint(composed, x, use_reentrant=True)


def by_hand(x: Tensor) -> Tensor:
    return Recompute.apply(x, composed)


def in_cycle(x: Tensor) -> Tensor:
    return ReLUInCycle.apply(ReLUInCycle.apply(x * 2) * 2)


SWISHES = {"composed": composed, "fused": fused, "checkpoint": checkpointed}


class Normed(nn.Module):
    """Has parameters, a buffer that forward changes, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Dropout(0.5)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).square()


def deep(layers: int = 24) -> tuple[nn.Module, Tensor]:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, layers), torch.randn(2, 4, 16)


VARIANTS = {
    **SWISHES,
    "by hand": by_hand,
    "cycle": in_cycle,
    "on ctx": ReLUOnCtx,
    "bits": ReLUByBits,
    "module": Normed(),
    "view": lambda x: (x + 1)[:1].exp().square(),
}
