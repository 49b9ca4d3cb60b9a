"""Differentiate gradients once more, through the graph that backward left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Failure
from autograd_course.doctor.running.calls import attempt
from autograd_course.doctor.running.graph import graph_nodes
from autograd_course.doctor.running.passes import gradients
from autograd_course.doctor.running.session import Session
from autograd_course.doctor.truth.differences import as_real, flat

Row = list[float | None]  # one gradient, derived by each wanted input and then by grad_output


@dataclass(frozen=True)
class Projection:
    """Weights of every gradient's elements, and a direction for each input and grad_output."""

    weights: tuple[Tensor, ...]  # all flat and real
    directions: tuple[Tensor, ...]
    other: tuple[Tensor, ...]


@dataclass(frozen=True)
class Derived:
    """What autograd found, and the error that waits in the graph of the gradients."""

    rows: list[Row]
    delayed: Failure | None


def double_backward(
    session: Session, grad_outputs: Sequence[Tensor], along: Projection, *, follow: bool
) -> Derived:
    """Derive ⟨weights, gradient⟩ for each gradient along each direction.

    ``follow`` lets grad_output require grad and derives by it too, unless an error waits there.
    """
    run = session.run()
    gs = [g.clone().requires_grad_(follow) for g in grad_outputs]
    grads = gradients(run, gs, create_graph=True)
    delayed = attempt(lambda: _raise_delayed_errors(grads))
    by = [*run.leaves, *gs] if follow and delayed is None else run.leaves
    pairs = zip(grads, along.weights, strict=True)
    return Derived([list(_row(_parts(grad, h, by), along)) for grad, h in pairs], delayed)


def total(parts: Sequence[float | None]) -> float | None:
    """Add up the parts that there are, ``None`` where there is none."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _raise_delayed_errors(grads: Sequence[Tensor | None]) -> None:
    """Call what @once_differentiable puts into the graph: .backward() does, autograd.grad not."""
    for node in graph_nodes([grad for grad in grads if grad is not None]):
        if node.name() == "torch::autograd::Error":
            node(*(torch.zeros(()) for _ in node.next_functions))  # one for each gradient


def _parts(grad: Tensor | None, weight: Tensor, by: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Differentiate ⟨weight, grad⟩; all ``None`` where the gradient has no graph."""
    if grad is None or not grad.requires_grad:
        return [None for _ in by]
    number = (as_real(grad).reshape(-1) * weight).sum()
    return torch.autograd.grad(number, by, allow_unused=True, retain_graph=True)


def _row(parts: Sequence[Tensor | None], along: Projection) -> Iterator[float | None]:
    inputs = len(along.directions)
    yield from map(_inner, parts[:inputs], along.directions)
    if len(parts) > inputs:
        yield total(list(map(_inner, parts[inputs:], along.other)))


def _inner(tensor: Tensor | None, vector: Tensor) -> float | None:
    """Return their inner product; where nothing is moved, a nan is nobody's."""
    moved = vector != 0
    return None if tensor is None else float(flat([tensor])[moved] @ vector[moved])
