"""Complex numbers: a filter by FFT, magnitude and phase, holomorphic maps, a linear solve."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from production.operation import CHEAP, Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class SpectralFilter(Function):
    """Multiplies the spectrum of a real signal of even length by a complex response."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, response: Tensor) -> Tensor:
        ctx.save_for_backward(x, response)
        return torch.fft.irfft(torch.fft.rfft(x) * response, n=x.shape[-1])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        x, response = ctx.saved_tensors
        length = x.shape[-1]
        spectrum = torch.fft.rfft(g)
        grad_x = torch.fft.irfft(spectrum * response.conj(), n=length)
        both = spectrum * torch.fft.rfft(x).conj() * 2 / length
        ends = both[..., [0, -1]].real / 2  # the lowest and highest frequency occur only once
        grad_response = torch.cat([ends[..., :1], both[..., 1:-1], ends[..., 1:]], -1)
        return grad_x, grad_response.sum_to_size(response.shape)


def response_not_conjugated(ctx: Any, g: Tensor) -> Grads:
    x, response = ctx.saved_tensors
    grad_x = torch.fft.irfft(torch.fft.rfft(g) * response, n=x.shape[-1])
    return grad_x, SpectralFilter.backward(ctx, g)[1]


def every_frequency_once(ctx: Any, g: Tensor) -> Grads:
    x, response = ctx.saved_tensors
    grad_x, _ = SpectralFilter.backward(ctx, g)
    both = torch.fft.rfft(g) * torch.fft.rfft(x).conj() / x.shape[-1]
    return grad_x, both.sum_to_size(response.shape)


class Magnitude(Function):
    """``|z|``, with gradient 0 at the origin, as in PyTorch."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return z.abs()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        return g * torch.sgn(z)


def phase_of_the_conjugate(ctx: Any, g: Tensor) -> Tensor:
    (z,) = ctx.saved_tensors
    return g * torch.sgn(z).conj()


class Phase(Function):
    """The angle of z."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return z.angle()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        return g * 1j / z.conj()


def turned_clockwise(ctx: Any, g: Tensor) -> Tensor:
    (z,) = ctx.saved_tensors
    return -g * 1j / z.conj()


class HolomorphicProduct(Function):
    """``a exp(b)``. Each gradient contains the conjugate of the local derivative."""

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        return a * b.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1], output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        b, y = ctx.saved_tensors
        return g * b.exp().conj(), g * y.conj()


def no_conjugate_anywhere(ctx: Any, g: Tensor) -> Grads:
    b, y = ctx.saved_tensors
    return g * b.exp(), g * y


class Solve(Function):
    """``A⁻¹ b`` for complex square matrices."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        x = torch.linalg.solve(a, b)
        ctx.save_for_backward(a, x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        a, x = ctx.saved_tensors
        grad_b = torch.linalg.solve(a.mH, g)
        return -grad_b @ x.mH if ctx.needs_input_grad[0] else None, grad_b


def transposed_but_not_conjugated(ctx: Any, g: Tensor) -> Grads:
    a, x = ctx.saved_tensors
    grad_b = torch.linalg.solve(a.mT, g)
    return -grad_b @ x.mT, grad_b


def solved_with_the_same_matrix(ctx: Any, g: Tensor) -> Grads:
    a, x = ctx.saved_tensors
    grad_b = torch.linalg.solve(a, g)
    return -grad_b @ x.mH, grad_b


def _complex(*shape: int, seed: int = 0) -> Tensor:
    return normal(*shape, seed=seed, dtype=torch.complex64)


OPERATIONS = (
    Operation(
        "spectral filter",
        SpectralFilter,
        (normal(3, 8), _complex(5, seed=1)),
        lambda x, response: torch.fft.irfft(torch.fft.rfft(x) * response, n=8),
        (
            Mutant("transposed-gradient", response_not_conjugated),
            Mutant("gradient-mismatch", every_frequency_once),
        ),
        allowed=CHEAP,
    ),
    Operation(
        "complex magnitude",
        Magnitude,
        (_complex(5),),
        torch.abs,
        (Mutant("missing-conjugate", phase_of_the_conjugate),),
    ),
    Operation(
        "complex phase",
        Phase,
        (_complex(5),),
        torch.angle,
        (Mutant("flipped-sign", turned_clockwise),),
    ),
    Operation(
        "holomorphic product",
        HolomorphicProduct,
        (_complex(4), _complex(4, seed=1)),
        lambda a, b: a * b.exp(),
        (Mutant("missing-conjugate", no_conjugate_anywhere),),
        allowed=CHEAP,
    ),
    Operation(
        "complex linear solve",
        Solve,
        (_complex(3, 3), _complex(3, 2, seed=1)),
        torch.linalg.solve,
        (
            Mutant("missing-conjugate", transposed_but_not_conjugated),
            Mutant("transposed-gradient", solved_with_the_same_matrix),
        ),
    ),
)
