"""Small and large functions to trace."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.functions import Square


class ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x > 0)
        ctx.kink = "zero"
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        return grad_output * positive


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output


def loss(x: Tensor, y: Tensor) -> Tensor:
    return Square.apply(x) + ReLU.apply(y)


def two_and_three() -> tuple[Tensor, Tensor]:
    return torch.tensor(2.0), torch.tensor(3.0)


class TransformerBlock(nn.Module):
    """Pre-norm attention with a causal mask, and a GELU network. It has nearly fifty nodes."""

    def __init__(self, size: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.out(self.attend(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, size = x.shape
        parts = self.qkv(self.norm1(x)).split(size, -1)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        future = torch.ones(length, length).triu(1).bool()
        mixed = torch.softmax(scores.masked_fill(future, -torch.inf), -1) @ v
        return mixed.transpose(1, 2).reshape(batch, length, size)


def transformer_block() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return TransformerBlock(), torch.randn(2, 3, 8)


UNARY = (torch.sin, torch.tanh, torch.exp, torch.sigmoid, Square.apply, ReLU.apply)
BINARY = (torch.add, torch.mul, torch.sub, torch.maximum)


def random_function(seed: int) -> Callable[..., Tensor]:
    """Return a random function of three tensors that often reuses its intermediate values."""
    draw = random.Random(seed)
    recipe = [
        (draw.choice(UNARY), draw.random(), None)
        if draw.random() < 0.5
        else (draw.choice(BINARY), draw.random(), draw.random())
        for _ in range(draw.randint(2, 12))
    ]

    def function(*inputs: Tensor) -> Tensor:
        made = list(inputs)
        for operation, first, second in recipe:
            chosen = [made[int(at * len(made))] for at in (first, second) if at is not None]
            made.append(0.7 * operation(*chosen))
        return torch.stack([tensor.sum() for tensor in made]).sum()

    return function
