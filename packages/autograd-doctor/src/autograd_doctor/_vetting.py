"""Check the form and the values of evidence from a process that ran untrusted code.

The caller computes the inputs, cotangents and expected gradients itself, and never takes them from
the other process. :func:`vet_evidence` checks the type of every part of the evidence. It also
checks that every count, position, shape and dtype matches the inputs. The rules therefore receive
only data that this package could have created. :func:`recheck_gradients` compares the gradients in
the evidence with expected gradients, for cotangents that the other process did not choose.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from autograd_doctor._collect import changed_numbers
from autograd_doctor._execution.isolation import generator
from autograd_doctor._execution.passes import sample_cotangents
from autograd_doctor._inputs import in_double, wanted, with_other_numbers
from autograd_doctor._numerics.finite_differences import as_real
from autograd_doctor._numerics.mismatch import Mismatch, mismatches, witness
from autograd_doctor._numerics.tensors import as_tuple, is_float, same_bytes
from autograd_doctor._probes.core import cotangents
from autograd_doctor._reference import Declared, establish
from autograd_doctor.errors import UnfitEvidenceError
from autograd_doctor.evidence import (
    ONES,
    OTHER,
    RANDOM,
    SUM,
    Comparison,
    DirectionalDerivatives,
    Evidence,
    Extreme,
    Float32Steps,
    JacobianColumns,
    JacobianRows,
    VjpResult,
)
from autograd_doctor.finding import Finding

_MOST = 4  # maximum number of pieces of evidence: the example and its variations
_MOST_EXTREMES = 20  # per differentiable input; each one costs a call of the reference
_MOST_COMPARISONS = 200


def vet_evidence(
    actual: Any,
    inputs: Sequence[Any],
    reference: Callable[..., Any],
    *,
    keep_other_numbers: bool = True,
) -> tuple[Evidence, ...]:
    """Return the evidence if :func:`collect_evidence` could have returned it for these inputs.

    Args:
        actual: The data that the other process sent.
        inputs: The arguments of the example call.
        reference: A differentiable callable with the same arguments and outputs.
        keep_other_numbers: Whether to keep evidence from calls with other numbers than the inputs.
            ``diagnose`` drops it if the user declares a surrogate or a rule about gradients.

    Returns:
        The same evidence. Each part has the type, shape and dtype that the rules rely on.

    Raises:
        UnfitEvidenceError: The data is not evidence, or does not belong to these inputs.
    """
    if not conforms(actual, tuple[Evidence, ...]) or not 1 <= len(actual) <= _MOST:
        raise UnfitEvidenceError("is no evidence")
    asked = [in_double(value) for value in inputs]
    if not _all_same(actual[0].inputs, asked):
        raise UnfitEvidenceError("is about other inputs than it was asked about")
    kinds = [out.is_complex() for out in as_tuple(reference(*asked)) if isinstance(out, Tensor)]
    for seen in actual:
        if not _fits(seen, asked, wanted(inputs)) or not _comparable(seen, kinds):
            raise UnfitEvidenceError("does not fit the question")
    return tuple(
        seen for seen in actual if keep_other_numbers or not changed_numbers(actual[0], seen)
    )


def _all_same(actual: Sequence[Any], asked: Sequence[Any]) -> bool:
    return len(actual) == len(asked) and all(map(_same, actual, asked))


def _comparable(seen: Evidence, kinds: Sequence[bool]) -> bool:
    """Return whether each output is complex if and only if the reference's output is complex."""
    pairs = zip(seen.forward.outputs, kinds, strict=False)
    return all(out.is_complex() == is_complex for out, is_complex in pairs)


# --------------------------------------------------------------------------------------------------
# Check that data has the types that its dataclass declares, at every level.
# --------------------------------------------------------------------------------------------------

Check = Callable[[Any], bool]


def conforms(value: Any, hint: Any) -> bool:
    """Return whether a value, including everything inside it, matches a type hint."""
    return _check(hint)(value)


@cache  # an answer contains a thousand values of only a few dozen types
def _check(hint: Hashable) -> Check:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda _: True
    if origin in (Union, UnionType):
        return _one_of(*map(_check, parts))
    if origin is Literal:
        return lambda value: type(value) is str and value in parts
    if origin is tuple:
        return _tuple(parts)
    if origin is Mapping:
        return _mapping(*map(_check, parts))
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    return _plain(hint)


def _one_of(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


def _tuple(parts: tuple[Any, ...]) -> Check:
    if len(parts) == 2 and parts[1] is ...:
        each = _check(parts[0])
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    checks = tuple(map(_check, parts))
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(checks)
        and all(check(item) for check, item in zip(checks, value, strict=True))
    )


def _mapping(key: Check, item: Check) -> Check:
    return lambda value: (
        isinstance(value, dict) and all(map(key, value)) and all(map(item, value.values()))
    )


def _record(record: type[Any]) -> Check:
    """Return a check for a dataclass. The dataclass can contain instances of itself."""

    def conforming(value: Any) -> bool:
        return type(value) is record and all(
            (part := getattr(value, name)) is default or check(part)
            for name, check, default in _checks(cast(Hashable, record))
        )

    return conforming


@cache
def _checks(record: Any) -> tuple[tuple[str, Check, Any], ...]:
    """Return the name, the check and the default of each field of a dataclass."""
    hints = get_type_hints(record)
    return tuple((each.name, _check(hints[each.name]), each.default) for each in fields(record))


def _plain(hint: Any) -> Check:
    """Return a check for a single value. Unlike in Python, a bool is not an integer here."""
    if hint is bool:
        return lambda value: isinstance(value, bool)
    known: Any = {None: NoneType, float: (int, float)}.get(hint, hint)
    return lambda value: isinstance(value, known) and not isinstance(value, bool)


# --------------------------------------------------------------------------------------------------
# Every count, position, shape and dtype that a rule relies on.
# --------------------------------------------------------------------------------------------------

_DOUBLE = (torch.float64, torch.complex128)
# ``backward`` may return tensors of any dtype, and ``forward`` may save such tensors. All other
# tensors have one of these dtypes.
_NUMBERS = {
    *_DOUBLE, torch.float32, torch.complex64, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
}  # fmt: skip
_ATOMS = {NoneType, bool, int, float, Tensor}
_LONGEST = 10_000  # maximum number of entries in a list, or characters in a string

Tensors = Sequence[Tensor | None]


def _fits(seen: Evidence, asked: Sequence[Any], wanted: Sequence[int]) -> bool:
    """Return whether evidence matches the inputs (in double precision) and the wanted gradients.

    The differentiated inputs may have other values, because the doctor varies the example.
    """
    return all(_facts(seen, asked, tuple(wanted)))


def _facts(seen: Evidence, asked: Sequence[Any], wanted: tuple[int, ...]) -> Iterator[bool]:
    """Yield the conditions that evidence must satisfy.

    Basic conditions come first, because later ones rely on them.
    """
    yield _is_short(seen)
    yield seen.wanted == wanted and len(seen.parameters) == len(asked)
    yield _are_inputs(seen.inputs, asked, wanted)
    # The other process must not provide facts that only the caller can know.
    yield not (seen.values.expected or seen.values.held_fixed or seen.values.surrogate)
    yield not seen.others
    yield seen.values.reference_outputs is None and seen.values.reference_grads is None
    yield _forward_fits(seen)
    yield _raw_fits(seen)
    yield _vjps_fit(seen)
    yield seen.values.slopes is None or _slopes_fit(seen, seen.values.slopes)
    yield (ties := seen.values.ties) is None or (
        _slopes_fit(seen, ties) and ties.smooth.shape == ties.matrix.shape[1:]
    )
    yield not seen.values.jacobian or _jacobian_fits(seen)
    yield seen.values.rows is None or _rows_fit(seen, seen.values.rows)
    yield len(seen.values.unused) in (0, len(wanted))
    yield all(0 <= place < len(asked) for places in seen.values.unused for place in places)
    for variant in seen.variants.dtypes:
        yield len(variant.wanted) == len(variant.got)
        is_device = not _names_a_dtype(variant.name)
        yield is_device or all(map(_names_a_dtype, (*variant.wanted, *variant.got)))
    edited = [one.edited for one in seen.memory.on_ctx if one.edited is not None]
    yield all(map(_twin_fits, (*seen.variants.comparisons, *edited)))
    yield all(0 <= one.position < len(asked) for one in seen.memory.wasted_gradients)
    yield len(seen.variants.extremes) <= _MOST_EXTREMES * len(wanted)
    yield len(seen.variants.comparisons) <= _MOST_COMPARISONS
    yield all(_extreme_fits(one, seen) for one in seen.variants.extremes)
    yield seen.variants.float32_steps is None or _float32_steps_fit(seen.variants.float32_steps)


def _is_short(value: Any) -> bool:
    """Return whether every list and string in the evidence has a reasonable size.

    The caller has already checked the types.
    """
    parts = [value]
    while parts:
        part = parts.pop()
        if type(part) in _ATOMS:
            continue
        if isinstance(part, str | tuple | dict) and len(part) > _LONGEST:
            return False
        if isinstance(part, tuple):
            parts += part
        elif isinstance(part, dict):
            parts += (*part.keys(), *part.values())
        elif hasattr(part, "__dataclass_fields__"):
            parts += vars(part).values()
    return True


def _same(one: Any, other: Any) -> bool:
    """Return whether two inputs have the same type and value and, for tensors, the same dtype."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and same_bytes(one, other)
    return type(one) is type(other) and not isinstance(one, Tensor) and bool(one == other)


def _are_inputs(actual: Sequence[Any], asked: Sequence[Any], wanted: tuple[int, ...]) -> bool:
    return len(actual) == len(asked) and all(
        _is_like(one, right) if place in wanted else _same(one, right) or _same(one, other)
        for place, (one, right, other) in enumerate(
            zip(actual, asked, with_other_numbers(asked), strict=True)
        )
    )


def _is_like(one: Any, right: Tensor) -> bool:
    """Return whether a tensor has the same shape and dtype as ``right``.

    If all elements of ``right`` are finite, the tensor's elements must be finite too.
    """
    if not isinstance(one, Tensor) or (one.shape, one.dtype) != (right.shape, right.dtype):
        return False
    return bool(torch.isfinite(one).all()) or not bool(torch.isfinite(right).all())


def _forward_fits(seen: Evidence) -> bool:
    f, inputs = seen.forward, range(len(seen.inputs))
    outputs = range(len(f.outputs))
    arguments = (*f.changed, *f.dirty, *f.written, *f.versions_moved, *(i for _, i in f.views))
    results = [*f.marked_non_differentiable, *seen.contract.own_views, *(o for o, _ in f.views)]
    results += [f.default_dtype.output] if f.default_dtype else []
    return (
        len(f.requires_grad) == len(outputs) <= len(f.kinds)
        and all(place in inputs for place in arguments)
        and all(place in outputs for place in results)
        and _are_numbers(f.outputs)
    )


def _raw_fits(seen: Evidence) -> bool:
    raw = seen.contract.direct
    if raw is None:
        return True
    floats = len(seen.forward.outputs)
    return (
        raw.count == len(raw.grads) == len(raw.kinds)
        and all(0 <= place < floats for place in raw.changed_grad_outputs)
        and all(place >= 0 for place in raw.changed_saved)
    )


def _vjps_fit(seen: Evidence) -> bool:
    """Return whether all requested gradients are present, or the first backward pass failed."""
    floats = _floats(seen)
    if not seen.values.vjps:
        return seen.variants.interleaved is None or _vjp_fits(
            seen.variants.interleaved, seen, floats
        )
    first = seen.values.vjps.get(RANDOM)
    asked = {name for name, _ in cotangents(floats, floats)}
    return (
        first is not None
        and seen.values.vjps.keys() == ({RANDOM} if first.failure else asked)
        and all(_vjp_fits(vjp, seen, floats) for vjp in seen.values.vjps.values())
        and (
            seen.variants.interleaved is None or _vjp_fits(seen.variants.interleaved, seen, floats)
        )
    )


def _vjp_fits(vjp: VjpResult, seen: Evidence, floats: Sequence[Tensor]) -> bool:
    if not _agree(vjp.grad_outputs, floats):
        return False
    if vjp.failure:
        return not vjp.grads
    return _agree(vjp.grads, [seen.inputs[place] for place in seen.wanted])


def _agree(actual: Tensors, likes: Sequence[Tensor]) -> bool:
    """Return whether each tensor is missing, or has the same shape and dtype as its counterpart."""
    return len(actual) == len(likes) and all(
        one is None or (one.shape == like.shape and one.dtype == like.dtype)
        for one, like in zip(actual, likes, strict=True)
    )


def _slopes_fit(seen: Evidence, slopes: DirectionalDerivatives) -> bool:
    if len(slopes.vectors) != len(seen.wanted) or slopes.matrix.ndim != 2:
        return False
    rows, directions = slopes.matrix.shape
    sizes = [(_real(seen.inputs[place]), directions) for place in seen.wanted]
    return (
        rows == sum(map(_real, _floats(seen)))
        and [tuple(vector.shape) for vector in slopes.vectors] == sizes
        and _is_block(slopes.matrix, slopes.error, slopes.smooth, slopes.smooth.shape)
        and slopes.smooth.shape in ((directions,), (rows, directions), (rows,))
        and all(vector.dtype == torch.float64 for vector in slopes.vectors)
    )


def _jacobian_fits(seen: Evidence) -> bool:
    return len(seen.values.jacobian) == len(seen.wanted) and all(
        _columns_fit(columns, seen, _real(seen.inputs[place]))
        for columns, place in zip(seen.values.jacobian, seen.wanted, strict=True)
    )


def _columns_fit(columns: JacobianColumns, seen: Evidence, size: int) -> bool:
    count = len(columns.index) if columns.index.ndim == 1 else -1
    return (
        _is_index(columns.index, size)
        and tuple(columns.matrix.shape) == (sum(map(_real, _floats(seen))), count)
        and _is_block(columns.matrix, columns.error, columns.smooth, (count,))
    )


def _names_a_dtype(name: str | None) -> bool:
    dtype = None if name is None else getattr(torch, name, None)
    known = isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex)
    return name is None or known


def _rows_fit(seen: Evidence, rows: JacobianRows) -> bool:
    if rows.index.ndim != 1:
        return False
    sizes = [(len(rows.index), _real(seen.inputs[place])) for place in seen.wanted]
    return (
        bool(seen.values.jacobian)
        and _is_index(rows.index, sum(map(_real, _floats(seen))))
        and [tuple(matrix.shape) for matrix in rows.matrices] == sizes
        and all(matrix.dtype == torch.float64 for matrix in rows.matrices)
    )


def _is_block(matrix: Tensor, error: Tensor, smooth: Tensor, shape: Sequence[int]) -> bool:
    return (
        matrix.dtype == error.dtype == torch.float64
        and matrix.shape == error.shape
        and smooth.dtype == torch.bool
        and tuple(smooth.shape) == tuple(shape)
    )


def _is_index(index: Tensor, size: int) -> bool:
    """Return whether a tensor contains valid indices for this many elements."""
    return (
        index.ndim == 1
        and index.dtype == torch.int64
        and bool(((index >= 0) & (index < size)).all())
    )


def _twin_fits(comparison: Comparison) -> bool:
    if comparison.failure:
        return len(comparison.actual) in (0, len(comparison.names))
    values = (*comparison.actual, *comparison.expected)
    return (
        len(comparison.names) == len(comparison.actual) == len(comparison.expected)
        and _are_numbers(values)
        and not any(value is not None and value.dtype == torch.bool for value in values)
    )


def _extreme_fits(call: Extreme, seen: Evidence) -> bool:
    masked = call.masked is not None
    if masked and call.masked not in seen.wanted:
        return False
    values = (call.single, call.double, call.error, call.noise)
    return (
        not call.right
        and len(call.inputs) == len(seen.inputs)
        and all(map(_is_argument, call.inputs, seen.inputs))
        and len(call.double) == len(call.names)
        and len(call.single) == (0 if masked else len(call.names))
        and all(len(found) in (0, len(call.names)) for found in (call.error, call.noise))
        and all(map(_are_numbers, (*values, call.grad_outputs)))
        and all(_of_one_shape(call.double, found) for found in values if found)
    )


def _is_argument(one: Any, example: Any) -> bool:
    if is_float(example):
        return isinstance(one, Tensor) and one.shape == example.shape and one.dtype == example.dtype
    return _same(one, example)


def _float32_steps_fit(float32_steps: Float32Steps) -> bool:
    calls = (float32_steps.here, float32_steps.near, float32_steps.far)
    return 0 <= float32_steps.ratio <= 1 and all(
        len(call) == len(float32_steps.names)
        and _of_one_shape(float32_steps.here, call)
        and all(value is None or value.dtype == torch.float64 for value in call)
        for call in calls
    )


def _of_one_shape(ones: Tensors, others: Tensors) -> bool:
    pairs = zip(ones, others, strict=True)
    return all(a is None or b is None or a.shape == b.shape for a, b in pairs)


def _are_numbers(tensors: Iterable[Tensor | None]) -> bool:
    return all(tensor is None or tensor.dtype in _NUMBERS for tensor in tensors)


def _floats(seen: Evidence) -> list[Tensor]:
    return [output for output in seen.forward.outputs if is_float(output)]


def _real(tensor: Tensor) -> int:
    return as_real(tensor).numel()


# --------------------------------------------------------------------------------------------------
# Check the gradients for cotangents that the caller chose.
# --------------------------------------------------------------------------------------------------

_NEEDED = {RANDOM, OTHER, SUM, ONES}  # cotangents of ordinary magnitude


def recheck_gradients(
    example: Evidence,
    reference: Callable[..., Any],
    surrogate: Callable[..., Any] | None = None,
    *,
    seed: int,
) -> Finding | None:
    """Compare gradients with expected gradients, for cotangents that the caller chose.

    The comparison uses the gradients from the other process but ignores its other claims, such as
    the positions of kinks.

    Args:
        example: The evidence about the example call, from :func:`vet_evidence`.
        reference: A differentiable callable with the same arguments and outputs.
        surrogate: A differentiable callable that provides the expected gradients instead of the
            reference.
        seed: The seed with which the evidence was collected.

    Returns:
        A ``gradient-mismatch`` finding, or ``None`` if the gradients are correct.

    Raises:
        UnfitEvidenceError: Some of the requested gradients are missing.
    """
    own = replace(
        _with_own_cotangents(example, reference, seed),
        values=replace(
            _with_own_cotangents(example, reference, seed).values,
            jacobian=_smooth(example, reference, surrogate, seed),
        ),
    )
    own = establish(own, reference, surrogate, seed)
    for cotangent in filter(lambda each: each.is_compared, own.values.vjps):
        for wrong in mismatches(own, cotangent):
            return _finding(wrong)
    return None


def _with_own_cotangents(example: Evidence, reference: Callable[..., Any], seed: int) -> Evidence:
    """Return the evidence with the caller's cotangents.

    The gradients for ordinary cotangents must be present, because every correct formula can compute
    them. With a huge cotangent, a correct formula can raise an error, for example if an iteration
    does not converge. The rules judge this case.
    """
    outputs = [out for out in as_tuple(reference(*example.inputs)) if is_float(out)]
    rng = generator(seed)
    asked = dict(cotangents(sample_cotangents(outputs, rng), sample_cotangents(outputs, rng)))
    vjps = {name: vjp for name, vjp in example.values.vjps.items() if not vjp.failure}
    if example.values.vjps.keys() != asked.keys() or not vjps.keys() >= _NEEDED:
        raise UnfitEvidenceError("leaves out requested gradients")
    own = {name: replace(vjp, grad_outputs=asked[name]) for name, vjp in vjps.items()}
    return replace(example, values=replace(example.values, vjps=own))


def _smooth(
    example: Evidence,
    reference: Callable[..., Any],
    surrogate: Callable[..., Any] | None,
    seed: int,
) -> tuple[JacobianColumns, ...]:
    """If the other process has reported any kinks, find the kinks of the reference."""
    if surrogate or not example.values.jacobian:
        return ()
    return Declared(reference, example, seed).jacobian()


def _finding(wrong: Mismatch) -> Finding:
    said = f"the gradient of {wrong.name} is not the one that the formula of forward has."
    with torch.no_grad():
        where = {k: v for k, v in witness(wrong).items() if k != "line"}
    hint = "Work one element of the gradient out by hand and compare."
    return Finding("gradient-mismatch", "error", said, where, hint, "01_template")
