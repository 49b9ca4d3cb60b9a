"""Compute second derivatives by differentiating ``backward``."""

from __future__ import annotations

import math
import re
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
from autograd_doctor._source import line_with, saved_arguments, shared_helper
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
# Choose directions along which forward has a derivative.
# --------------------------------------------------------------------------------------------------


def smooth_directions(evidence: Evidence) -> Iterator[Tensor]:
    """Yield a random direction for each input that requires grad.

    A direction is 0 at each element that was not examined or along which ``forward`` is not smooth.
    A step along the direction preserves the structure of the input, such as symmetry.
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
# Differentiate the gradients through the graph of backward.
# --------------------------------------------------------------------------------------------------

# derivatives of one gradient with respect to each wanted input, then with respect to grad_output
Row = list[float | None]


@dataclass(frozen=True)
class Projection:
    """Weights for each gradient, and directions for each input and for ``grad_output``."""

    weights: tuple[Tensor, ...]  # all three fields hold flat, real tensors
    directions: tuple[Tensor, ...]
    other: tuple[Tensor, ...]


@dataclass(frozen=True)
class Derived:
    """The derivatives that autograd returns, and the delayed error in the graph, if any."""

    rows: list[Row]
    delayed: Failure | None


def double_backward(
    session: Session, grad_outputs: Sequence[Tensor], along: Projection, *, follow: bool
) -> Derived:
    """For each gradient, differentiate ⟨weights, gradient⟩ along each direction.

    If ``follow`` is true, also differentiate with respect to ``grad_output``, unless the graph
    contains a delayed error.
    """
    run = session.run()
    gs = [g.clone().requires_grad_(follow) for g in grad_outputs]
    grads = gradients(run, gs, create_graph=True)
    delayed = attempt(lambda: _raise_delayed_errors(grads))
    by = [*run.leaves, *gs] if follow and delayed is None else run.leaves
    pairs = zip(grads, along.weights, strict=True)
    return Derived([list(_row(_parts(grad, h, by), along)) for grad, h in pairs], delayed)


def total(parts: Sequence[float | None]) -> float | None:
    """Return the sum of the parts that are not ``None``, or ``None`` if every part is ``None``."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _raise_delayed_errors(grads: Sequence[Tensor | None]) -> None:
    """Call the error nodes that @once_differentiable adds to the graph.

    ``.backward()`` runs these nodes, which raise an error. ``autograd.grad`` does not run them.
    """
    for node in graph_nodes([grad for grad in grads if grad is not None]):
        if node.name() == "torch::autograd::Error":
            node(*(torch.zeros(()) for _ in node.next_functions))  # one for each gradient


def _parts(grad: Tensor | None, weight: Tensor, by: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Differentiate ⟨weight, grad⟩ with respect to each tensor in ``by``.

    If the gradient has no graph, every result is ``None``.
    """
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
    """Return the inner product. Ignore elements where ``vector`` is zero, even if they are nan."""
    moved = vector != 0
    return None if tensor is None else float(flat([tensor])[moved] @ vector[moved])


# --------------------------------------------------------------------------------------------------
# Differentiate backward B(x, g) by autograd and by finite differences, and compare the results.
#
# A weight h turns each gradient into one number, ⟨h, B(x, g)⟩. Autograd differentiates this number
# through the graph of backward. Central differences of backward need no graph. They give the
# expected value if the first derivative is correct, which other rules check.
# --------------------------------------------------------------------------------------------------

# relative to the second derivative; a missing term is larger, the finite-difference error smaller
RELATIVE = 1e-3
ROUNDING = 1e-10  # relative to weights and cotangents: what remains if all terms cancel


def second_order(session: Session, evidence: Evidence) -> Evidence:
    """Record second derivatives along directions in which ``forward`` is smooth."""
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
    """Record second derivatives, and record that the user requires them."""
    return replace(second_order(session, evidence), second_order_required=True)


class _Question:
    """The gradients to differentiate, the inputs to move, and the direction of each move."""

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
        """Yield the second derivatives that autograd returns, with their expected values.

        First, move all inputs together. If a result differs from its expected value, or if
        ``backward`` has a kink along this direction, move each input alone.
        """
        slots = range(len(self.names))
        together = self._by_inputs(rows, slots)
        if together and not any(found.wrong for found in together):
            yield from together
        else:
            for slot in slots:
                yield from self._by_inputs(rows, [slot])
        # backward is linear in grad_output, so its derivative along g is its value for g
        if len(rows[0]) > len(slots):
            other, rounding = self.grads_of_other, self._precision() * self.grads_of_other.abs()
            yield from self._beside("grad_output", [row[-1] for row in rows], other, rounding)

    def _precision(self) -> float:
        """Return the relative rounding error of the coarsest dtype among the cotangents."""
        return max(torch.finfo(g.dtype).eps for g in self.grad_outputs)

    def _by_inputs(self, rows: Sequence[Row], slots: Sequence[int]) -> list[SecondDerivative]:
        """Return the second derivatives for some inputs that move together.

        Return an empty list if ``backward`` has a kink along this direction.
        """
        value, error, smooth = derivative(self._moving(slots), STEP, self.grads)
        if not smooth:
            return []
        by = ", ".join(self.names[slot] for slot in slots)
        actual = [total([row[slot] for slot in slots]) for row in rows]
        return list(self._beside(by, actual, value, error))

    def _moving(self, slots: Sequence[int]) -> Callable[[float], Tensor]:
        """Return a function that moves some inputs by an offset and returns all gradients."""

        def gradient(offset: float) -> Tensor:
            inputs = self.moved(slots, offset)
            done = both_ways(self.session, self.grad_outputs, inputs=inputs)
            nowhere = torch.full_like(self.grads, torch.nan)
            return nowhere if done.failure else self.flat(done.grads)

        return gradient

    def moved(self, slots: Sequence[int], offset: float) -> list[Any]:
        """Return the arguments, with some inputs moved along their directions by ``offset``."""
        places = [self.session.wanted[slot] for slot in slots]
        offsets = [offset * self.along.directions[slot] for slot in slots]
        return moved_by(self.session.inputs, places, offsets)

    def _beside(
        self, by: str, actual: Sequence[float | None], value: Tensor, error: Tensor
    ) -> Iterator[SecondDerivative]:
        """For each gradient, yield the actual derivative of ⟨h, gradient⟩ and the expected one.

        ``value`` holds the finite-difference estimates for all gradients, and ``error`` holds their
        errors.
        """
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
        """Return ⟨h, gradient⟩ for the input ``of``, given all gradients as one vector."""
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
# Autograd tracks the saved inputs and outputs. It treats other saved tensors and all attributes of
# ctx as constants. The probe computes these constants for moved inputs, and passes them to backward
# together with the original inputs. The resulting change in the gradient is the part of the second
# derivative that is lost through these constants. They are the cause if and only if this part
# equals the missing part of the second derivative. If no constant is the cause, backward itself
# loses the graph, and the source of backward may show where.
# --------------------------------------------------------------------------------------------------

# Methods that return a copy or a view of a whole tensor
SAME = "detach|clone|contiguous|squeeze|unsqueeze|view|reshape|flatten|unflatten"
COPY = re.compile(rf"(\w+)(\.({SAME})\([^()]*\)|\.data|\[[^]]*\bNone\b[^]]*\])$")
CUTS = (".detach()", ".data", ".item()", ".numpy()", ".tolist()", "float(…)", "torch.no_grad()")


def lost_graph(question: _Question, wrong: SecondDerivative) -> LostGraph | None:
    """Find a value that affects a gradient but has no graph. Return ``None`` if there is none."""
    run = question.session.run()  # in PyTorch 2.11, the node exists only as long as its outputs
    node = next(custom_nodes(run.tensors, depth=1), None)
    if node is None:
        return None
    if wrong.by in question.names:
        constants = _Constants(question, wrong)
        found = constants.explaining(wrong)
        if found:
            tracked = [it for it in (*question.session.inputs, *run.tensors) if is_float(it)]
            return _named(node, found, tracked)
        if constants.found:  # the constants are only part of the cause
            return None
    return _cut(node._forward_cls)


_Constant = int | str
"""A value without a graph: the position of a saved tensor, or the name of a ctx attribute."""


class _Constants:
    """Saved values that have no graph but change when one input moves."""

    def __init__(self, question: _Question, wrong: SecondDerivative) -> None:
        self.question = question
        self.slots = (question.names.index(wrong.by),)
        saved, attributes = self._at(0.0)
        moved, moved_attributes = self._at(STEP)
        self.found: list[_Constant] = [
            k
            for k, (one, other) in enumerate(zip(saved, moved, strict=True))
            if _differ(one, other)
        ]
        self.found += [
            name
            for name, value in attributes.items()
            if name in moved_attributes and _differ(value, moved_attributes[name])
        ]

    def explaining(self, wrong: SecondDerivative) -> list[_Constant]:
        """Return the constants that together explain the missing part of a second derivative.

        Return an empty list if the constants do not explain it.
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
        """Return the saved tensors and the ctx attributes for inputs moved by ``offset``."""
        run = self.question.session.run(inputs=self.question.moved(self.slots, offset))
        node = next(custom_nodes(run.tensors, depth=1))
        return node.saved_tensors, dict(vars(node))

    def _part(self, constants: Sequence[_Constant], of: str) -> tuple[float, float]:
        """Return the derivative of ⟨h, gradient⟩ and its error when only ``constants`` change."""
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
    """Return whether two values of the same form differ in a number or in an untracked tensor."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        alike = is_float(one) and one.shape == other.shape and not _has_graph(one)
        return alike and not torch.equal(one, other)
    if isinstance(one, float) and isinstance(other, float):
        return one != other
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and any(map(_differ, one, other))
    return False


def _has_graph(value: Tensor) -> bool:
    """Return whether autograd tracks a tensor.

    If forward makes a view of an output, ``requires_grad`` of the view becomes True, but autograd
    does not track the view.
    """
    base = value._base
    is_cut = base is not None and base.grad_fn is not None and value.grad_fn is None
    return value.requires_grad and not is_cut


def _named(node: Any, found: Sequence[_Constant], tracked: Sequence[Tensor]) -> LostGraph:
    """Return the names that the source of ``forward`` uses for the constants."""
    function = node._forward_cls

    def copied(code: str, value: Tensor) -> str:
        """Return the name of the input or output that ``code`` copies, or ``""``."""
        known, flat = COPY.match(code), value.flatten()
        same = any(torch.equal(flat, it.detach().flatten()) for it in tracked)
        return known[1] if known and same else ""

    if saved := [it for it in found if isinstance(it, int)]:
        known = saved_arguments(function)
        if known is None or len(known.names) != len(node.saved_tensors):
            return LostGraph("saved", ())
        names = tuple(known.names[place] for place in saved)
        source = copied(names[0], node.saved_tensors[saved[0]]) if len(names) == 1 else ""
        return LostGraph("saved", names, known.line, source)
    names = tuple(f"ctx.{name}" for name in found)
    line = line_with(function, f"{names[0]} =")
    value = getattr(node, str(found[0])) if len(found) == 1 else None
    source = copied(line.partition("=")[2].strip(), value) if isinstance(value, Tensor) else ""
    return LostGraph("attribute", names, line, source)


def _cut(function: type) -> LostGraph | None:
    """Find an expression in ``backward``'s source that cuts the graph, such as ``.detach()``."""
    for call in CUTS:
        if line := line_with(function, call.replace("…)", ""), methods=("backward",)):
            return LostGraph("backward", (call,), line, helper=shared_helper(function, line))
    return None
