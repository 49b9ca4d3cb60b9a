"""The derivatives of ``backward``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt
from autograd_doctor._execution.operations import custom_nodes, graph_nodes
from autograd_doctor._execution.passes import both_ways, copies, gradients, sample_cotangents
from autograd_doctor._execution.saved_tensors import Setting, called
from autograd_doctor._execution.session import Session
from autograd_doctor._numerics.finite_differences import (
    STEP,
    as_real,
    derivative,
    flat,
    moved_by,
)
from autograd_doctor._numerics.structure import structure_of
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor._source import line_with, saved_arguments
from autograd_doctor.evidence import (
    OTHER,
    RANDOM,
    Evidence,
    Failure,
    LostGraph,
    SecondDerivative,
    SecondOrder,
)

# --------------------------------------------------------------------------------------------------
# Directions in which forward has a derivative.
# --------------------------------------------------------------------------------------------------


def smooth_directions(evidence: Evidence) -> Iterator[Tensor]:
    """Yield a random tensor for each wanted input, with 0 where ``forward`` is not smooth.

    It is also 0 where smoothness was not examined. A step in this direction keeps the input's
    structure.
    """
    slopes = evidence.values.slopes
    is_smooth = slopes is not None and bool(slopes.smooth.all())
    for k, position in enumerate(evidence.wanted):
        like = evidence.inputs[position]
        flat = torch.zeros_like(as_real(like)).reshape(-1)
        if slopes is not None and is_smooth:
            flat = slopes.vectors[k][:, 0].clone()
        elif slopes is not None and k < len(evidence.values.jacobian):
            columns = evidence.values.jacobian[k]
            smooth = columns.index[columns.smooth].to(flat.device)
            flat[smooth] = slopes.vectors[k][smooth, 0]
        real = flat.reshape(as_real(like).shape)
        direction = torch.view_as_complex(real) if like.is_complex() else real
        structure = structure_of(like)
        yield direction if structure is None else structure.tangent(direction)


# --------------------------------------------------------------------------------------------------
# Differentiate gradients again, through the graph of backward.
# --------------------------------------------------------------------------------------------------

# one gradient, differentiated with respect to each wanted input and then to grad_output
Row = list[float | None]


@dataclass(frozen=True)
class Projection:
    """Weights for every gradient, and directions for each input and for grad_output."""

    weights: tuple[Tensor, ...]  # all flat and real
    directions: tuple[Tensor, ...]
    other: tuple[Tensor, ...]


@dataclass(frozen=True)
class Derived:
    """The results of autograd, and the delayed error in the graph of the gradients."""

    rows: list[Row]
    delayed: Failure | None


def double_backward(
    session: Session, grad_outputs: Sequence[Tensor], along: Projection, *, follow: bool
) -> Derived:
    """Differentiate ⟨weights, gradient⟩ for each gradient along each direction.

    With ``follow``, ``grad_output`` requires grad and also counts as a variable, unless its graph
    holds a delayed error.
    """
    run = session.run()
    gs = [g.clone().requires_grad_(follow) for g in grad_outputs]
    grads = gradients(run, gs, create_graph=True)
    delayed = attempt(lambda: _raise_delayed_errors(grads))
    by = [*run.leaves, *gs] if follow and delayed is None else run.leaves
    pairs = zip(grads, along.weights, strict=True)
    return Derived([list(_row(_parts(grad, h, by), along)) for grad, h in pairs], delayed)


def total(parts: Sequence[float | None]) -> float | None:
    """Add the parts that are not ``None``. Return ``None`` if all are."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _raise_delayed_errors(grads: Sequence[Tensor | None]) -> None:
    """Call the error node of @once_differentiable.

    ``.backward()`` calls this node, but ``autograd.grad`` does not.
    """
    for node in graph_nodes([grad for grad in grads if grad is not None]):
        if node.name() == "torch::autograd::Error":
            node(*(torch.zeros(()) for _ in node.next_functions))  # one for each gradient


def _parts(grad: Tensor | None, weight: Tensor, by: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Differentiate ⟨weight, grad⟩. All results are ``None`` if the gradient has no graph."""
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
    """Return the inner product. Ignore a nan where the direction is zero."""
    moved = vector != 0
    return None if tensor is None else float(flat([tensor])[moved] @ vector[moved])


# --------------------------------------------------------------------------------------------------
# Differentiate backward, by autograd and by finite differences.
#
# With a weight h for every element of a gradient, ⟨h, B(x, g)⟩ is one number. Autograd
# differentiates it through the graph of backward. Central differences of backward need no graph.
# They give the expected value, because the first derivative is already known to be right.
# --------------------------------------------------------------------------------------------------

# relative to a second derivative: a missing term is larger, and the error of differences is smaller
RELATIVE = 1e-3
ROUNDING = 1e-10  # relative to weights and cotangents: the remainder if everything cancels


def second_order(session: Session, evidence: Evidence) -> Evidence:
    """Add the second derivatives along directions in which ``forward`` is smooth."""
    if evidence.values.vjps.get(OTHER) is None or evidence.values.vjps[OTHER].failure:
        return evidence
    question = _Question(session, evidence)
    seen = attempt(lambda: question.by_autograd(follow=True))
    failure = seen if isinstance(seen, Failure) else seen.delayed
    if isinstance(seen, Failure):
        seen = attempt(lambda: question.by_autograd(follow=False))
    if isinstance(seen, Failure):
        return replace(evidence, second_order=SecondOrder((), failure))
    found = tuple(question.compared(seen.rows))
    wrong = next((it for it in found if it.wrong and math.isfinite(it.actual or 0.0)), None)
    lost = attempt(lambda: lost_graph(question, wrong)) if wrong and failure is None else None
    known = lost if isinstance(lost, LostGraph) else None
    return replace(evidence, second_order=SecondOrder(found, failure, known))


def require_second_order(session: Session, evidence: Evidence) -> Evidence:
    """Add the second derivatives of a Function that is meant to be twice differentiable."""
    return replace(second_order(session, evidence), second_order_required=True)


class _Question:
    """The gradients to differentiate, the inputs to move, and the directions in which they move."""

    def __init__(self, session: Session, evidence: Evidence) -> None:
        once, other = evidence.values.vjps[RANDOM], evidence.values.vjps[OTHER]
        self.session = session
        self.names = tuple(evidence.name(position) for position in session.wanted)
        self.grad_outputs = tuple(g for g in once.grad_outputs if g is not None)
        self.grads, self.grads_of_other = (self.flat(vjp.grads) for vjp in (once, other))
        rng = torch.Generator().manual_seed(session.seed + 2)
        likes = [session.inputs[position] for position in session.wanted]
        self.along = Projection(
            weights=tuple(flat([weight]) for weight in sample_cotangents(likes, rng)),
            directions=tuple(flat([vector]) for vector in smooth_directions(evidence)),
            other=tuple(flat([g]) for g in other.grad_outputs if g is not None),
        )

    def by_autograd(self, *, follow: bool) -> Derived:
        return double_backward(self.session, self.grad_outputs, self.along, follow=follow)

    def compared(self, rows: Sequence[Row]) -> Iterator[SecondDerivative]:
        """Yield the actual and expected derivatives for all inputs together, or for each input if
        they differ.
        """
        slots = range(len(self.names))
        together = self._by_inputs(rows, slots)
        if together and not any(found.wrong for found in together):
            yield from together
        else:
            for slot in slots:
                yield from self._by_inputs(rows, [slot])
        # a backward is linear in grad_output, so the derivative is its own value
        if len(rows[0]) > len(slots):
            other, rounding = self.grads_of_other, self._precision() * self.grads_of_other.abs()
            yield from self._beside("grad_output", [row[-1] for row in rows], other, rounding)

    def _precision(self) -> float:
        """Return the rounding error of an output's dtype, which its gradient shares."""
        return max(torch.finfo(g.dtype).eps for g in self.grad_outputs)

    def _by_inputs(self, rows: Sequence[Row], slots: Sequence[int]) -> list[SecondDerivative]:
        """Move some inputs together. Return nothing if backward has a kink on the way."""
        value, error, smooth = derivative(self._moving(slots), STEP, self.grads)
        if not smooth:
            return []
        by = ", ".join(self.names[slot] for slot in slots)
        actual = [total([row[slot] for slot in slots]) for row in rows]
        return list(self._beside(by, actual, value, error))

    def _moving(self, slots: Sequence[int]) -> Callable[[float], Tensor]:
        """Return all gradients as a function of the distance that some inputs move."""

        def gradient(offset: float) -> Tensor:
            inputs = self.moved(slots, offset)
            done = both_ways(self.session, self.grad_outputs, inputs=inputs)
            nowhere = torch.full_like(self.grads, torch.nan)
            return nowhere if done.failure else self.flat(done.grads)

        return gradient

    def moved(self, slots: Sequence[int], offset: float) -> list[Any]:
        """Return all arguments with some inputs moved along their directions."""
        places = [self.session.wanted[slot] for slot in slots]
        offsets = [offset * self.along.directions[slot] for slot in slots]
        return moved_by(self.session.inputs, places, offsets)

    def _beside(
        self, by: str, actual: Sequence[float | None], value: Tensor, error: Tensor
    ) -> Iterator[SecondDerivative]:
        """For each gradient, yield the actual result and the expected one, which is ⟨h, ·⟩."""
        weights = self.along.weights
        lengths = [len(h) for h in weights]
        rounding = ROUNDING * float(flat(self.grad_outputs).norm())
        parts = zip(
            self.names, actual, weights, value.split(lengths), error.split(lengths), strict=True
        )
        for of, number, h, v, e in parts:
            within = 3 * (e @ h.abs()) + RELATIVE * (v * h).norm() + rounding * h.norm()
            yield SecondDerivative(of, by, number, float(v @ h), float(within))

    def weighted(self, gradients: Tensor, of: str) -> Tensor:
        """Return ⟨h, gradient⟩ for the gradient of one input, given all gradients."""
        slot = self.names.index(of)
        lengths = [len(h) for h in self.along.weights]
        part: Tensor = gradients.split(lengths)[slot]
        return part @ self.along.weights[slot]

    def flat(self, grads: Sequence[Tensor | None]) -> Tensor:
        likes = (self.session.inputs[position] for position in self.session.wanted)
        pairs = zip(likes, grads, strict=True)
        return flat([torch.zeros_like(like) if g is None else g for like, g in pairs])


# --------------------------------------------------------------------------------------------------
# Find where the graph is lost.
#
# Autograd tracks saved inputs and outputs. Other saved tensors and all attributes of ctx are
# constants for autograd. We compute these constants at moved inputs and pass them to backward at
# the example's inputs. The resulting change of the gradient is the part of the second derivative
# that is lost through them. They are the cause if and only if this part equals the missing part. If
# no constant of forward is the cause, backward itself loses the graph, and its source may show
# where.
# --------------------------------------------------------------------------------------------------

CUTS = (".detach()", ".data", ".item()", ".numpy()", ".tolist()", "float(…)", "torch.no_grad()")


def lost_graph(question: _Question, wrong: SecondDerivative) -> LostGraph | None:
    """Name the value that has no graph although a gradient depends on it, if it can be found."""
    run = question.session.run()  # in PyTorch 2.11, the node lives only as long as its outputs
    node = next(custom_nodes(run.tensors, depth=1), None)
    if node is None:
        return None
    if wrong.by in question.names:
        constants = _Constants(question, wrong)
        found = constants.explaining(wrong)
        if found:
            return _named(node, found)
        if constants.found:  # they are part of the cause, but not all of it
            return None
    return _cut(node._forward_cls)


_Constant = int | str
"""A constant without a graph: the position of a saved tensor, or a ctx attribute's name."""


class _Constants:
    """The constants of a call that change with one input."""

    def __init__(self, question: _Question, wrong: SecondDerivative) -> None:
        self.question = question
        self.slots = (question.names.index(wrong.by),)
        saved, attributes = self._at(0.0)
        moved, moved_attributes = self._at(STEP)
        self.found: list[_Constant] = [
            k
            for k, (one, other) in enumerate(zip(saved, moved, strict=True))
            if not one.requires_grad and _differ(one, other)
        ]
        self.found += [
            name
            for name, value in attributes.items()
            if name in moved_attributes and _differ(value, moved_attributes[name])
        ]

    def explaining(self, wrong: SecondDerivative) -> list[_Constant]:
        """Return the constants that together explain the missing part of a derivative.

        The list is empty if none do.
        """
        if not self.found:
            return []
        missing = wrong.expected - (wrong.actual or 0.0)
        part, error = self._part(self.found, wrong.of)
        if not abs(part - missing) <= error + wrong.error + RELATIVE * abs(part):
            return []
        if len(self.found) == 1:
            return self.found
        parts = [self._part([constant], wrong.of) for constant in self.found]
        return [it for it, (p, e) in zip(self.found, parts, strict=True) if abs(p) > e]

    def _at(self, offset: float) -> tuple[Sequence[Tensor], dict[str, Any]]:
        """Return the saved tensors and the attributes of ctx at moved inputs."""
        run = self.question.session.run(inputs=self.question.moved(self.slots, offset))
        node = next(custom_nodes(run.tensors, depth=1))
        return node.saved_tensors, dict(vars(node))

    def _part(self, constants: Sequence[_Constant], of: str) -> tuple[float, float]:
        """Differentiate ⟨h, gradient⟩ only through some constants.

        Return the value and its error.
        """
        session = self.question.session
        setting = Setting(session.inputs, session.wanted)

        def gradient(offset: float) -> Tensor:
            saved, attributes = self._at(offset)
            call = called(session, setting)
            for constant in constants:
                if isinstance(constant, int):
                    call.exchange([constant], _always(saved[constant]))
                else:
                    setattr(call.node, constant, attributes[constant])
            grads = self.question.flat(gradients(call.run, copies(self.question.grad_outputs)))
            return self.question.weighted(grads, of)[None]

        center = self.question.weighted(self.question.grads, of)[None]
        value, error, smooth = derivative(gradient, STEP, center)
        return (float(value), 3 * float(error)) if smooth else (math.nan, 0.0)


def _always(value: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda _: value.detach()


def _differ(one: Any, other: Any) -> bool:
    """Whether two values of the same form contain different constants."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        alike = is_float(one) and one.shape == other.shape and not one.requires_grad
        return alike and not torch.equal(one, other)
    if isinstance(one, float) and isinstance(other, float):
        return one != other
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and any(map(_differ, one, other))
    return False


def _named(node: Any, found: Sequence[_Constant]) -> LostGraph:
    """Name the constants as the source of ``forward`` names them."""
    function = node._forward_cls
    if saved := [it for it in found if isinstance(it, int)]:
        known = saved_arguments(function)
        if known is None or len(known.names) != len(node.saved_tensors):
            return LostGraph("saved", ())
        return LostGraph("saved", tuple(known.names[place] for place in saved), known.line)
    names = tuple(f"ctx.{name}" for name in found)
    return LostGraph("attribute", names, line_with(function, f"{names[0]} ="))


def _cut(function: type) -> LostGraph | None:
    """Return the part of ``backward``'s source that cuts the graph."""
    for call in CUTS:
        if line := line_with(function, call.replace("…)", ""), methods=("backward",)):
            return LostGraph("backward", (call,), line)
    return None
