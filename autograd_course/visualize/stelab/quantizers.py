"""Quantizers: staircases whose derivative is 0 wherever it exists."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_FAR = 8  # round and floor go on for ever; their jumps are listed up to here


@dataclass(frozen=True)
class Quantizer:
    """A staircase ``quantize``, element by element: any shape, any real floating dtype.

    It jumps by ``step`` at each of ``jumps``. ``reach`` is where an input still has a level of its
    own: beyond it the staircase saturates. ``round`` and ``floor`` never do; they are given the
    reach -2 … 2, as where inputs are to be kept small.
    """

    name: str
    label: str
    quantize: Callable[[Tensor], Tensor]
    jumps: tuple[float, ...]
    step: float
    reach: tuple[float, float]


def sign(x: Tensor) -> Tensor:
    """Return +1 where ``x >= 0``, else -1; ``torch.sign`` has a third level, 0 at 0."""
    return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


def ternary(x: Tensor) -> Tensor:
    """Return the nearest of -1, 0 and 1; ±0.5 goes to the even one, 0."""
    return x.round().clamp(-1, 1)


def uniform(bits: int) -> Quantizer:
    """Return the fake-quantizer of 2^bits levels on [-2, 2): ``s · clamp(round(x / s), …)``.

    The scale is ``s = 4 / 2^bits``; the integers are those of a signed number of so many bits, from
    ``-2^(bits-1)`` to ``2^(bits-1) - 1``, as in ``torch.fake_quantize_per_tensor_affine``.
    """
    count = 2**bits
    scale, least, most = 4 / count, -count // 2, count // 2 - 1

    def quantize(x: Tensor) -> Tensor:
        integers: Tensor = (x / scale).round().clamp(least, most)
        return torch.mul(integers, scale)

    jumps = tuple((k + 0.5) * scale for k in range(least, most))
    reach = ((least - 0.5) * scale, (most + 0.5) * scale)
    return Quantizer(f"uniform-{bits}", f"uniform, {bits} bits", quantize, jumps, scale, reach)


_ALL = (
    Quantizer("sign", "sign", sign, (0.0,), 2.0, (-1.0, 1.0)),
    Quantizer("ternary", "ternary", ternary, (-0.5, 0.5), 1.0, (-1.5, 1.5)),
    uniform(2),
    uniform(3),
    uniform(4),
    Quantizer(
        "round", "round", torch.round, tuple(k + 0.5 for k in range(-_FAR, _FAR)), 1.0, (-2.0, 2.0)
    ),
    Quantizer(
        "floor", "floor", torch.floor, tuple(map(float, range(-_FAR, _FAR + 1))), 1.0, (-2.0, 2.0)
    ),
)
QUANTIZERS = {quantizer.name: quantizer for quantizer in _ALL}
