"""One call, ready for the steps: copies in float64, a random cotangent, gradients both ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.running.calls import as_tuple
from autograd_course.doctor.running.subject import subject_of

EPS = 1e-5  # error: f'''·eps²/6 from the curvature, 1e-16/eps from rounding; 1e-10 of either


class Call:
    """``fn`` and copies of its inputs: floats in float64, those to be differentiated as leaves.

    As for ``diagnose``, these are all floating tensors or, where some require grad, those alone.
    ``L = Σ g·y`` over all floating outputs, with a ``g`` that is random and always the same.
    """

    def __init__(self, fn: Any, inputs: Any) -> None:
        given = as_tuple(inputs)
        subject = subject_of(fn, len(given))
        self.name, self.names = subject.name, subject.parameters
        self.function, self.call = subject.function, subject.call
        asking = [i for i, v in enumerate(given) if isinstance(v, Tensor) and v.requires_grad]
        self.wanted = asking or [i for i, value in enumerate(given) if is_real(value)]
        self.args = [_copy(value, i in self.wanted) for i, value in enumerate(given)]

    def outputs(self, args: Sequence[Any] | None = None) -> tuple[Tensor, ...]:
        """Call ``fn``; in-place Functions may write into what they get."""
        passed = [a.clone() if isinstance(a, Tensor) else a for a in args or self.args]
        return tuple(out for out in as_tuple(self.call(*passed)) if isinstance(out, Tensor))

    def cotangents(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """Return a random g for each output, zeros where that cannot carry a gradient."""
        rng = torch.Generator().manual_seed(0)
        shapes = [
            (out, torch.randn(out.shape, generator=rng, dtype=torch.float64)) for out in outputs
        ]
        return [g.to(out.device) if is_real(out) else torch.zeros_like(out) for out, g in shapes]

    def loss(self, args: Sequence[Any]) -> float:
        """Return L without a graph."""
        with torch.no_grad():
            outputs = self.outputs(args)
        pairs = zip(outputs, self.cotangents(outputs), strict=True)
        return sum(float((out * g).sum()) for out, g in pairs if is_real(out))

    def gradients(self) -> list[Tensor]:
        """Return ∂L/∂x as backward has it, for each input that is asked for; zeros for None."""
        outputs = [out for out in self.outputs() if is_real(out) and out.requires_grad]
        leaves = [self.args[i] for i in self.wanted]
        if not outputs:
            return [torch.zeros_like(leaf) for leaf in leaves]
        found = torch.autograd.grad(outputs, leaves, self.cotangents(outputs), allow_unused=True)
        pairs = zip(found, leaves, strict=True)
        return [torch.zeros_like(leaf) if g is None else g for g, leaf in pairs]

    def spread(self, grads: Sequence[Tensor]) -> list[Tensor | None]:
        """Return one value for each argument: its gradient, None where none was asked for."""
        found = dict(zip(self.wanted, grads, strict=True))
        return [found.get(i) for i in range(len(self.args))]

    def around(self, position: int, index: int, eps: float) -> tuple[float, float]:
        """Return L with one input element moved up by ``eps``, and down."""
        above, below = (self._moved(position, index, by) for by in (eps, -eps))
        return self.loss(above), self.loss(below)

    def _moved(self, position: int, index: int, eps: float) -> list[Any]:
        args = list(self.args)
        args[position] = args[position].detach().clone(memory_format=torch.contiguous_format)
        args[position].view(-1)[index] += eps
        return args

    def differences(self, eps: float = EPS) -> list[Tensor]:
        """Return ∂L/∂x by central differences, two calls of forward for each element."""
        found = [
            (torch.tensor([*self._slopes(i, eps)], dtype=torch.float64), self.args[i])
            for i in self.wanted
        ]
        return [slopes.to(leaf).reshape(leaf.shape) for slopes, leaf in found]

    def _slopes(self, position: int, eps: float) -> Iterator[float]:
        for index in range(self.args[position].numel()):
            above, below = self.around(position, index, eps)
            yield (above - below) / (2 * eps)


def is_real(value: object) -> bool:
    """Whether a value is a tensor of real numbers."""
    return isinstance(value, Tensor) and value.is_floating_point()


def _copy(value: Any, wanted: bool) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.is_complex():
        raise TypeError(
            "the five steps support only real tensors; diagnose supports complex ones too"
        )
    copy = value.detach().clone()
    return copy.double().requires_grad_(wanted) if value.is_floating_point() else copy
