"""Helpers for the checks, for example for calling an answer or creating a finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from autograd_doctor import RULES, Finding
from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import get_gradient_edge
from torch.utils._python_dispatch import _disable_current_modes

from autograd_course.calls import as_tuple, is_float
from autograd_course.engine import run_backward
from autograd_course.execution import Computed, differentiable
from autograd_course.execution import applied as called
from autograd_course.grader.sampling import generator


def found(rule: str, message: str, evidence: dict[str, Any], hint: str) -> Finding:
    """Return a finding under one of the doctor's rules, with the exercise's own hint."""
    known = RULES[rule]
    return Finding(rule, known.severity, message, evidence, hint, known.lesson)


def applied(function: type[Function], inputs: tuple[Any, ...]) -> tuple[list[Tensor], list[Tensor]]:
    """Call an answer once. Return its input tensors and its output tensors."""
    given = differentiable(inputs)
    outputs = [out for out in as_tuple(called(function, given)) if isinstance(out, Tensor)]
    return [tensor for tensor in given if isinstance(tensor, Tensor)], outputs


def backward(outputs: list[Tensor]) -> None:
    """Run backward from every output that can have a gradient. Indices and masks cannot."""
    wanted = [out for out in outputs if out.requires_grad]
    if wanted:
        run_backward(wanted, [torch.ones_like(out) for out in wanted])


class Followed:
    """A call that a check measures, with copies of everything that it computes.

    An answer can recognize a check by its inputs. The grader therefore compares the values of this
    same call with the reference. The measurement does not see the copies.
    """

    def __init__(self, call: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
        self._call, self._inputs = call, inputs
        self._outputs: tuple[Any, ...] = ()
        self._edges: list[Any] = []
        self._sent: list[Tensor] = []
        self._gradients: dict[int, Tensor] = {}

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        """Call the answer with copies of the inputs, and return its outputs."""
        for place, value in enumerate(given):
            if is_float(value) and value.requires_grad:
                value.register_hook(partial(self._arrived, place))
        outputs = as_tuple(self._call(*given))
        with_graph = [out for out in outputs if isinstance(out, Tensor) and out.requires_grad]
        # An edge keeps the graph alive, but not the output.
        self._edges = [get_gradient_edge(out) for out in with_graph]
        with _disable_current_modes():
            rng = generator()
            self._sent = [_normal_like(out, rng) for out in with_graph]
            self._outputs = tuple(map(_copied, outputs))
        return outputs

    @property
    def ctx(self) -> Any:
        """The graph node of the first output that has a graph, which is a Function's ctx."""
        return self._edges[0].node if self._edges else None

    def backward(self) -> None:
        """Run backward from the outputs that have a graph, with random gradients."""
        if self._edges:
            run_backward(self._edges, self._sent)

    def computed(self, *, of_ones: bool = False) -> Computed:
        """Return what the answer computed. ``of_ones`` says that backward received ones."""
        arrived = [torch.ones_like(it) for it in self._sent] if of_ones else self._sent
        gradients = tuple(self._gradients.get(place) for place in range(len(self._inputs)))
        return Computed(self._inputs, self._outputs, tuple(arrived), gradients)

    def _arrived(self, place: int, gradient: Tensor | None) -> None:
        if gradient is not None:
            with _disable_current_modes():
                self._gradients[place] = gradient.detach().clone()


def computed(function: type[Function], inputs: tuple[Any, ...]) -> Computed:
    """Call an answer, run backward, and return what the answer computed."""
    followed = Followed(function.apply, inputs)
    followed(*differentiable(inputs))
    followed.backward()
    return followed.computed()


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _normal_like(tensor: Tensor, rng: torch.Generator) -> Tensor:
    return torch.randn(tensor.shape, generator=rng, dtype=tensor.dtype).to(tensor.device)


def node(outputs: list[Tensor]) -> Any:
    """Return the Function's graph node, which is its ctx, or ``None`` if no output has a graph."""
    return next((out.grad_fn for out in outputs if out.grad_fn is not None), None)


def storage(tensor: Tensor) -> int:
    """Return a key that is the same for all tensors that share memory."""
    return tensor.untyped_storage().data_ptr()


def filled(tensors: Iterable[Tensor]) -> set[int]:
    """Return the keys of the storages that are not larger than the tensors in them."""
    needed: Counter[int] = Counter()
    sizes: dict[int, int] = {}
    for tensor in tensors:
        needed[storage(tensor)] += tensor.nbytes
        sizes[storage(tensor)] = tensor.untyped_storage().nbytes()
    return {key for key, size in sizes.items() if size <= needed[key]}


def farthest(came: Tensor, right: Tensor) -> tuple[float, float]:
    """Return the elements of two tensors at the index where they differ most."""
    at = int((came - right).abs().argmax())
    return float(came.flatten()[at]), float(right.flatten()[at])
