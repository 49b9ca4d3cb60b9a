"""The expected gradients, which come from a reference, a surrogate, or finite differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import USERS, fresh, run_engine
from autograd_doctor._execution.isolation import generator, reseed
from autograd_doctor._numerics.closeness import size
from autograd_doctor._numerics.finite_differences import as_real, flat, jacobian
from autograd_doctor._numerics.mismatch import mismatches
from autograd_doctor._numerics.projection import flat_cotangent
from autograd_doctor._numerics.rounding import Values, distance, each, finite
from autograd_doctor._numerics.tensors import as_tuple, is_float
from autograd_doctor._safe_repr import first_line
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import (
    RANDOM,
    Cotangent,
    Evidence,
    Expected,
    Extreme,
    JacobianColumns,
)
from autograd_doctor.formatting import nth

# --------------------------------------------------------------------------------------------------
# A reference or a surrogate that the caller provides. Autograd differentiates it.
# --------------------------------------------------------------------------------------------------

MOST_CUTS = 12  # maximum number of interior nodes to hold constant, one or two at a time

Reference = Callable[..., Any]


class Declared:
    """A reference or surrogate, which is a differentiable callable.

    It runs once on the inputs, and many backward passes then reuse its graph.

    ``role`` is the name of the option that supplied the callable: ``reference`` or ``surrogate``.
    """

    def __init__(
        self, call: Reference, evidence: Evidence, seed: int, role: str = "reference"
    ) -> None:
        self.call, self.evidence, self.seed, self.role = call, evidence, seed, role
        self.leaves, args = fresh(evidence.inputs, evidence.wanted)
        reseed(seed)
        try:
            self.outputs = [o for o in as_tuple(call(*args)) if isinstance(o, Tensor)]
        except USERS as error:
            raise CannotDiagnoseError(
                f"the {role} raised {type(error).__name__} on these inputs: {first_line(error)}"
            ) from error
        self._require_like(evidence.forward.outputs)
        self.floats = [out for out in self.outputs if is_float(out)]
        forward = evidence.forward
        self._marked = [
            place in forward.marked_non_differentiable
            for place, out in enumerate(forward.outputs)
            if is_float(out)
        ]

    def _require_like(self, outputs: Sequence[Tensor]) -> None:
        """Raise an error if the outputs cannot be compared with the outputs of ``forward``."""
        if any(out.layout is not torch.strided or out.is_meta for out in self.outputs):
            raise CannotDiagnoseError(
                f"the {self.role} returned a sparse or meta tensor: return a dense one."
            )
        for right, out in zip(self.outputs, outputs, strict=False):
            if right.is_complex() != out.is_complex():
                kinds = f"{right.dtype}, but forward returned {out.dtype}"
                raise CannotDiagnoseError(
                    f"the {self.role} returned {kinds}: return the same kind."
                )

    def jacobian(self) -> tuple[JacobianColumns, ...]:
        """Differentiate the callable by finite differences to find out where it is smooth."""

        def values(args: Sequence[Any]) -> Tensor:
            reseed(self.seed)
            with torch.no_grad():
                found = flat([out for out in as_tuple(self.call(*args)) if is_float(out)])
            return found if found.numel() == like.numel() else torch.full_like(like, torch.nan)

        rng, like = generator(self.seed), flat(self.floats).detach()
        return jacobian(values, self.evidence.inputs, self.evidence.wanted, rng)

    def gradients(self, grad_outputs: Sequence[Tensor | None]) -> list[Tensor]:
        """Return the gradient of each leaf, or zeros if the graph does not reach the leaf.

        An output that the Function marks as non-differentiable receives no gradient.
        """
        pairs = [
            (out, g)
            for out, g, marked in zip(self.floats, grad_outputs, self._marked, strict=False)
            if g is not None and not marked and out.requires_grad and out.shape == g.shape
        ]
        if not pairs:
            return [torch.zeros_like(leaf) for leaf in self.leaves]
        outputs, gs = zip(*pairs, strict=True)
        grads = run_engine(outputs, gs, self.leaves, retain_graph=True)
        return [
            torch.zeros_like(leaf) if grad is None else grad.detach()
            for grad, leaf in zip(grads, self.leaves, strict=True)
        ]

    def held_fixed(
        self, grad_outputs: Sequence[Tensor | None]
    ) -> Iterator[tuple[str, tuple[Tensor | None, ...]]]:
        """Yield the gradients that would result if some intermediate results were constant."""
        nodes = list(self._interior())
        if len(nodes) > MOST_CUTS:
            return
        named = list(zip(_distinguish([_operation(node) for node in nodes]), nodes, strict=True))
        for cut in [*((one,) for one in named), *combinations(named, 2)]:
            handles = [node.register_prehook(_zeros) for _, node in cut]
            try:
                yield " and ".join(name for name, _ in cut), tuple(self.gradients(grad_outputs))
            finally:
                for handle in handles:
                    handle.remove()

    def _interior(self) -> Iterator[Any]:
        """Yield the graph nodes below the outputs, except the leaves and the clones of leaves."""
        heads = dict.fromkeys(out.grad_fn for out in self.floats)
        seen = set(heads)
        level = [parent for node in heads if node for parent, _ in node.next_functions]
        while level:
            node = level.pop()
            if node is None or node in seen or not node.next_functions:
                continue
            seen.add(node)
            level += [parent for parent, _ in node.next_functions]
            if not any(hasattr(parent, "variable") for parent, _ in node.next_functions):
                yield node


def _zeros(grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    return tuple(None if g is None else torch.zeros_like(g) for g in grads)


_IN_WORDS = {
    "add": "an addition",
    "sub": "a subtraction",
    "rsub": "a subtraction",
    "mul": "a multiplication",
    "div": "a division",
    "neg": "a negation",
    "pow": "a power",
    "mm": "a matrix multiplication",
    "bmm": "a matrix multiplication",
    "mean": "the mean",
    "sum": "the sum",
    "var": "the variance",
    "std": "the standard deviation",
    "linalgvectornorm": "the norm",
}


def _distinguish(names: Sequence[str]) -> Iterator[str]:
    """Yield the names, and add an ordinal number to repeated ones.

    The second ``the mean`` becomes ``the second mean``.
    """
    for place, name in enumerate(names):
        again = names[:place].count(name)
        bare = re.sub("^(the|an?) ", "", name)
        yield f"the {nth(again)} {bare}" if again else name


def _operation(node: Any) -> str:
    """Return the usual name of a node's operation: ``MeanBackward1`` becomes ``mean``."""
    name: str = node.name().rstrip("0123456789").removesuffix("Backward").lower()
    return _IN_WORDS.get(name, name)


# --------------------------------------------------------------------------------------------------
# Add the reference's results to the calls with inputs far from the example.
# --------------------------------------------------------------------------------------------------


def at_extremes(
    evidence: Evidence, reference: Reference, seed: int, *, gradients: bool
) -> tuple[Extreme, ...]:
    """Return the calls with the reference's outputs added and, if requested, its gradients."""
    asked = _Reference(reference, evidence, seed, gradients)
    return tuple(_answered(call, asked) for call in evidence.variants.extremes)


def _answered(call: Extreme, reference: _Reference) -> Extreme:
    """For a masked call, add the expected result.

    For a coarse call, add the reference's own error.
    """
    if call.masked is not None:
        takes_masks = reference.takes_masks(call.masked)
        return replace(call, right=reference.at(call)) if takes_masks else call
    right = reference.at(call) if call.noise else ()
    in_single = reference.at(call, Tensor.float) if right else ()
    if not in_single:
        return replace(call, right=right)
    own = each(distance, in_single, right)
    noise = tuple(
        n if n is None or o is None else torch.maximum(n, o)
        for n, o in zip(call.noise, own, strict=True)
    )
    return replace(call, right=right, noise=noise)


@dataclass(frozen=True)
class _Reference:
    call: Reference
    evidence: Evidence
    seed: int
    gradients: bool

    def at(self, call: Extreme, move: Callable[[Tensor], Tensor] = torch.clone) -> Values:
        """Return outputs and gradients, or ``()`` if the call fails or the shapes do not match."""
        inputs = tuple(move(v) if is_float(v) else v for v in call.inputs)
        try:
            declared = Declared(self.call, replace(self.evidence, inputs=inputs), self.seed)
            grads = declared.gradients([move(g) for g in call.grad_outputs])
        except Exception:  # the caller's code may raise any error far from the example
            return ()
        outputs = (out.detach() for out in declared.floats)
        right: Values = (*outputs, *(grads if self.gradients else [None for _ in grads]))
        return right if _fits(right, call.double) else ()

    def takes_masks(self, position: int) -> bool:
        """Return whether the outputs stay finite if one element of an input is -inf."""
        inputs = list(self.evidence.inputs)
        masked = inputs[position].clone()
        masked[(0,) * masked.dim()] = -torch.inf
        inputs[position] = masked
        try:
            declared = Declared(self.call, replace(self.evidence, inputs=tuple(inputs)), self.seed)
        except CannotDiagnoseError:
            return False
        return finite(tuple(declared.floats))


def _fits(right: Values, mine: Values) -> bool:
    return len(right) == len(mine) and all(
        r is None or m is None or r.shape == m.shape for r, m in zip(right, mine, strict=True)
    )


# --------------------------------------------------------------------------------------------------
# Add the expected gradients, from finite differences, a reference or a surrogate.
# --------------------------------------------------------------------------------------------------

SHORT = (torch.float16, torch.bfloat16)
FEW_BITS = 6  # maximum number of binary digits in a quantizer's levels; 16-bit numbers have more
FEWEST = 3  # enough numbers to distinguish the two cases

# Relative to a gradient's largest element. It is well above float64 rounding and below any real
# bug.
RELATIVE = 1e-6


def establish(
    evidence: Evidence, reference: Reference | None, surrogate: Reference | None, seed: int
) -> Evidence:
    """Return the evidence with the expected gradients added."""
    if not evidence.values.vjps and reference is None:
        return evidence
    declared, columns = None, evidence.values.jacobian
    if reference is not None:
        declared = Declared(reference, evidence, seed)
        right = tuple(out.detach() for out in declared.outputs)
        far = at_extremes(evidence, reference, seed, gradients=surrogate is None)
        evidence = replace(
            evidence,
            values=replace(evidence.values, reference_outputs=right),
            variants=replace(evidence.variants, extremes=far),
        )
    if surrogate is not None:  # the surrogate and forward have different kinks
        declared = Declared(surrogate, evidence, seed, "surrogate")
        columns = ()
    values = replace(evidence.values, surrogate=surrogate is not None)
    if declared is not None:  # the reference is exact
        values = replace(values, inexact=0.0)
    evidence = replace(evidence, values=values)
    if declared is None and in_16_bits(evidence):
        columns = ()
        evidence = replace(evidence, values=replace(evidence.values, ties=None))
    evidence = replace(
        evidence,
        values=replace(evidence.values, expected=_all_expected(evidence, columns, declared)),
    )
    if declared and surrogate is None and _is_surrogate(evidence, declared):
        evidence = replace(evidence, values=replace(evidence.values, surrogate=True))
    # find out where the reference is smooth
    if declared and surrogate is not None and mismatches(evidence):
        columns = declared.jacobian()
        evidence = replace(
            evidence,
            values=replace(evidence.values, expected=_all_expected(evidence, columns, declared)),
        )
    return _with_conventions(evidence, declared) if declared else evidence


FAR = 1e-2  # a relative difference between two gradients that is too large to be a rounding error


def _is_surrogate(evidence: Evidence, declared: Declared) -> bool:
    """Return whether a reference's gradient is not the slope of its values, as with ``detach``.

    Consider only the inputs for which ``backward`` and the reference return different gradients.
    """
    wrong = mismatches(evidence)
    if not wrong or not evidence.values.jacobian:
        return False
    cotangents = evidence.values.vjps[RANDOM].grad_outputs
    g, gradients = flat_cotangent(evidence, cotangents), declared.gradients(cotangents)
    for slot in (mismatch.slot for mismatch in wrong):
        known = gradients[slot]
        like = evidence.inputs[evidence.wanted[slot]]
        slope = _from_columns(evidence.values.jacobian[slot], g, like)
        off = (known - slope.value).abs().nan_to_num(0.0)
        least = (100 * slope.tolerance).clamp_min(FAR * (size(known) + size(slope.value)))
        if bool((off > least).any()):
            return True
    return False


def in_16_bits(evidence: Evidence) -> bool:
    """Return whether the outputs of ``forward`` are rounded to 16 bits, regardless of their dtype.

    Finite differences of such outputs do not show a slope.
    """
    outputs = [out for out in evidence.forward.outputs if is_float(out)]
    if any(out.dtype in SHORT for out in outputs):
        return True
    if not evidence.values.jacobian or any(
        bool(c.matrix[:, c.smooth].any()) for c in evidence.values.jacobian
    ):
        return False
    return _fit_16_bits(torch.cat([as_real(out).reshape(-1).double() for out in outputs]))


def _fit_16_bits(values: Tensor) -> bool:
    """Return whether all values fit in 16 bits but are too finely spaced for a quantizer."""
    digits = torch.frexp(values[values != 0]).mantissa * 2**FEW_BITS
    if len(digits) < FEWEST or 2 * int((digits != digits.round()).sum()) <= len(digits):
        return False
    return any(torch.equal(values, values.to(dtype).double()) for dtype in SHORT)


def _all_expected(
    evidence: Evidence, jacobian: Sequence[JacobianColumns], declared: Declared | None
) -> dict[Cotangent, tuple[Expected, ...]]:
    """Return the expected gradients for all backward passes whose gradients are compared."""
    return {
        name: tuple(_expected(evidence, jacobian, declared, vjp.grad_outputs))
        for name, vjp in evidence.values.vjps.items()
        if name.is_compared
    }


def _expected(
    evidence: Evidence,
    jacobian: Sequence[JacobianColumns],
    declared: Declared | None,
    grad_outputs: Sequence[Tensor | None],
) -> Iterator[Expected]:
    """Yield the expected gradient of each wanted input, or NaN where ``forward`` is not smooth."""
    likes = [evidence.inputs[position] for position in evidence.wanted]
    known: Sequence[JacobianColumns | None] = jacobian or [None] * len(likes)
    if declared is not None:
        exact = declared.gradients(grad_outputs)
        for like, columns, grad in zip(likes, known, exact, strict=True):
            yield _from_declared(grad, columns, like)
        return
    g = flat_cotangent(evidence, grad_outputs)
    for like, columns in zip(likes, known, strict=True):
        yield _unknown(like) if columns is None else _from_columns(columns, g, like)


def _unknown(like: Tensor) -> Expected:
    """Return NaN for every element.

    Use this result if the projections agreed, so that no expected gradient was needed.
    """
    nothing = torch.full_like(like, torch.nan)
    return Expected(nothing, torch.zeros_like(nothing.real))


def _from_columns(columns: JacobianColumns, g: Tensor, like: Tensor) -> Expected:
    value = torch.full((as_real(like).numel(),), torch.nan, dtype=torch.float64, device=like.device)
    tolerance = torch.zeros_like(value)
    index = columns.index.to(like.device)
    seen = columns.matrix.T @ g
    smooth = columns.smooth.to(like.device)
    value[index] = torch.where(smooth, seen, torch.nan)
    tolerance[index] = 3 * (columns.error.T @ g.abs())
    return Expected(_like(value, like), _like(tolerance, like).abs() + _floor(seen[smooth]))


def _from_declared(known: Tensor, columns: JacobianColumns | None, like: Tensor) -> Expected:
    value = as_real(known).clone().reshape(-1)
    if columns is not None:
        value[columns.index[~columns.smooth].to(like.device)] = torch.nan
    tolerance = torch.full(like.shape, _floor(known), dtype=torch.float64, device=like.device)
    return Expected(_like(value, like), tolerance)


def _like(real: Tensor, like: Tensor) -> Tensor:
    """Reshape a flat real vector to the shape of a tensor.

    If the tensor is complex, combine pairs of real numbers into complex numbers.
    """
    real = real.reshape(as_real(like).shape)
    return torch.view_as_complex(real) if like.is_complex() else real


def _floor(values: Tensor) -> float:
    return RELATIVE * size(values) + 1e-12


def _with_conventions(evidence: Evidence, declared: Declared) -> Evidence:
    """Add the gradients of the reference or surrogate to the evidence.

    If the actual gradients differ, also add the gradients that result from holding parts of the
    computation constant.
    """
    if RANDOM not in evidence.values.vjps:
        return evidence
    cotangents = evidence.values.vjps[RANDOM].grad_outputs
    evidence = replace(
        evidence,
        values=replace(evidence.values, reference_grads=tuple(declared.gradients(cotangents))),
    )
    if not mismatches(evidence):
        return evidence
    return replace(
        evidence, values=replace(evidence.values, held_fixed=dict(declared.held_fixed(cotangents)))
    )
