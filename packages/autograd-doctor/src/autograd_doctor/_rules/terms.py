"""Find a factor or a term by which a gradient differs from the expected gradient."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations_with_replacement

import torch
from torch import Tensor

from autograd_doctor._numerics.closeness import within
from autograd_doctor._numerics.mismatch import Mismatch
from autograd_doctor._numerics.tensors import as_number, is_float
from autograd_doctor._rules.regions import by_norm, slice_of
from autograd_doctor._rules.rule import ordinal
from autograd_doctor.evidence import RANDOM, Evidence, Expected
from autograd_doctor.formatting import listed, number

# --------------------------------------------------------------------------------------------------
# If a gradient is a constant multiple of the expected gradient, find the constant and its origin.
# --------------------------------------------------------------------------------------------------

LARGEST_DENOMINATOR = 64
# with larger numerators, every number is close to some fraction
LARGEST_NUMERATOR = 1000
TELLING = 100.0  # times the tolerance; the ratios of smaller elements are too uncertain
TELLING_OF_FEW_DIGITS = 10.0

Key = tuple[str, str, int]  # where a number in a call comes from: kind, owner and dim


def constant_factor(m: Mismatch) -> str | None:
    """Describe the constant factor if the gradient is a multiple of the expected gradient."""
    factor = _ratio(m)
    if factor is None:
        return None
    origin = _origin(m, abs(factor))
    if m.truth.numel() == 1 and not origin and _fraction(factor) is None:
        return None  # any two numbers are multiples of each other
    told = f"about {_apart_from_one(factor, 3)}" if m.coarse else digits(factor)
    times = f"{told} times the true gradient"
    return f"the gradient of `{m.name}` is {times}{origin}{'' if origin else without_argument(m)}"


ROUNDING = 1e-13  # relative to the expected gradient


def _ratio(m: Mismatch) -> float | None:
    if m.actual.is_complex():
        return None
    known = m.known & torch.isfinite(m.actual)
    truth, actual = m.truth[known], m.actual[known]
    norm = float((truth * truth).sum())
    enough = TELLING_OF_FEW_DIGITS if m.coarse else TELLING
    telling = truth.abs() > enough * m.expected.tolerance[known]
    if norm == 0 or int(telling.sum()) < 2 <= truth.numel():
        return None
    factor = float((truth * actual).sum()) / norm
    loose = Expected(factor * m.truth, m.expected.tolerance * max(1.0, abs(factor)))
    fits = bool(within(m.actual, loose)[m.known].all())
    is_zero = abs(factor) < ROUNDING  # the gradient contains only rounding errors
    return factor if not is_zero and fits and (not m.coarse or m.fits(factor * m.truth)) else None


def digits(factor: float) -> str:
    """Format a factor as a simple fraction if possible, else with at least four digits."""
    fraction = _fraction(factor)
    return _apart_from_one(factor, 4) if fraction is None else str(fraction)


def _apart_from_one(factor: float, least: int) -> str:
    """Format a factor with at least ``least`` digits, or more if it would otherwise look like 1."""
    told = (f"{factor:.{count}g}" for count in range(least, 17))
    return next((text for text in told if float(text) != 1.0), "1")


def _fraction(factor: float) -> Fraction | None:
    fraction = Fraction(factor).limit_denominator(LARGEST_DENOMINATOR)
    simple = fraction.denominator == 1 or abs(fraction.numerator) <= LARGEST_NUMERATOR
    return fraction if simple and math.isclose(float(fraction), factor, rel_tol=1e-6) else None


def scalars(evidence: Evidence) -> Iterator[tuple[str, float]]:
    """Yield the name and the value of each argument that is a number or a one-element tensor."""
    for i, value in enumerate(evidence.inputs):
        number = as_number(value)
        if number is not None:
            yield evidence.name(i), number


def _origin(m: Mismatch, size: float) -> str:
    """Name a number in this call that equals the factor or its inverse.

    Ignore a number that does not explain the factor in other calls, because the match may be a
    coincidence.
    """
    output = m.evidence.forward.outputs[0].shape
    for key, value, what in _numbers(dict(scalars(m.evidence)), m.name, m.input.shape, output):
        for power in (1, -1):
            if math.isclose(size, value**power, rel_tol=1e-6) and _holds(m, key, value, power):
                return f" ({digits(value)} is {what})"
    return ""


def _holds(m: Mismatch, key: Key, value: float, power: int) -> bool:
    """Return whether a number explains the factor in every other call.

    In at least one of them, the number must have a different value. A number that comes from a
    shape counts as different if the shapes differ.
    """
    here, tells = (tuple(m.input.shape), tuple(m.evidence.forward.outputs[0].shape)), False
    for other in m.evidence.values.resized:
        ratio, shape = other.ratios[m.slot], other.shapes[m.position]
        if ratio is None or shape is None:
            continue
        known = {
            m.evidence.name(i): number
            for i, number in enumerate(other.numbers)
            if number is not None
        }
        there = {k: v for k, v, _ in _numbers(known, m.name, shape, other.output)}
        if key not in there or not math.isclose(abs(ratio), there[key] ** power, rel_tol=1e-4):
            return False
        differs = there[key] != value if key[0] == "value" else (shape, other.output) != here
        tells = tells or differs
    return tells


def _numbers(
    known: Mapping[str, float], name: str, shape: Sequence[int], output: Sequence[int]
) -> Iterator[tuple[Key, float, str]]:
    """Yield the origin, value and description of each number in a call that could be a factor."""
    for argument, value in known.items():
        if abs(value) not in (0, 1):
            what = "value" if value > 0 else "absolute value"
            yield ("value", argument, 0), abs(value), f"the {what} of `{argument}`"
        if 0 < value < 1:
            yield ("value", argument, 1), 1 - value, f"1 minus the value of `{argument}`"
    owners = {f"`{name}`": shape, "the output": output}
    for owner, lengths in owners.items():
        for axis, n in enumerate(lengths):
            if n > 1:
                told = f"the size of dim {axis} of {owner}"
                yield ("length", owner, axis), float(n), told
                yield ("root", owner, axis), math.sqrt(n), f"the square root of {told}"
    for owner, lengths in owners.items():
        count = math.prod(lengths)
        if count > 1:
            yield ("count", owner, 0), float(count), f"the number of elements of {owner}"
        for axis, n in enumerate((*lengths, count)):
            if n > 1:
                yield ("unbiased", owner, axis), n / (n - 1), f"N/(N-1) for N = {n}"


# --------------------------------------------------------------------------------------------------
# Find the missing term. It is a product of available tensors, with or without a sum over a dim.
#
# The product rule gives one term for each path from input to output. If backward omits one path,
# the missing term has one of these forms, with a constant k:
#
#     k · a · grad_output        or        k · a · sum(grad_output · b, axis)
#
# Here, a and b are products of a few factors. Each factor is t, 1/t or 1 − t, where t is an input,
# an output or a saved tensor.
# --------------------------------------------------------------------------------------------------

MOST_FACTORS = 2  # in each of a and b
MOST_ELEMENTS = 4096
FEWEST_ELEMENTS = 6  # with fewer elements, a term may match by chance
CLOSE = 1e-6  # relative to the missing term


@dataclass(frozen=True)
class Product:
    """A product of available tensors, with the names of its factors and its values."""

    factors: tuple[str, ...]
    values: Tensor


@dataclass(frozen=True)
class Upstream:
    """The part of a term that contains ``grad_output``.

    This is ``grad_output`` itself or, if ``axis`` is given, its weighted sum over that dim.
    """

    axis: int | None
    weight: tuple[str, ...]
    values: Tensor


def lacking_term(m: Mismatch) -> str | None:
    """Describe the term that must be added to the gradient to get the expected gradient."""
    if m.truth.numel() == 1:
        return _summed_term(m)
    if not bool(m.known.all()) or not FEWEST_ELEMENTS <= m.truth.numel() <= MOST_ELEMENTS:
        return None
    lacking = m.truth - m.actual
    return _elementwise_term(m, lacking) or _matrix_term(m, lacking)


def _summed_term(m: Mismatch) -> str | None:
    """Describe the missing term of a gradient that is a single number.

    The term is a sum over the elements of the output. Too many terms match a single number, so this
    function compares Jacobians, which have one number for each element of the output.
    """
    columns, rows = m.evidence.values.jacobian, m.evidence.values.rows
    outputs = [out for out in m.evidence.forward.outputs if is_float(out)]
    if not columns or rows is None or m.coarse or m.evidence.values.surrogate or len(outputs) != 1:
        return None
    (output,), column = outputs, columns[m.slot]
    if output.is_complex() or not FEWEST_ELEMENTS <= output.numel() == len(rows.index):
        return None
    if m.truth.is_complex() or not bool(column.smooth.all()):
        return None
    lacking = (column.matrix - rows.matrices[m.slot]).view(output.shape)
    products = list(_products(_factors(m), lacking))
    unit = Upstream(None, (), torch.ones_like(lacking))
    for k, product, _ in _multiples(lacking, products, [unit]):
        if _natural(m, k, product, unit) and product.factors:
            summed = " · ".join(("grad_output", *product.factors))
            return _times(k, f"sum({summed})")
    return None


def _elementwise_term(m: Mismatch, lacking: Tensor) -> str | None:
    g = _cotangent(m)
    if g is None:
        return None
    products = list(_products(_factors(m), lacking))
    for k, product, upstream in _multiples(lacking, products, list(_upstreams(g, products))):
        if _natural(m, k, product, upstream):
            return _written(k, product, upstream)
    return None


def _matrix_term(m: Mismatch, lacking: Tensor) -> str | None:
    """Describe the missing term if it is a matrix product that contains ``grad_output``."""
    gs = m.evidence.values.vjps[RANDOM].grad_outputs
    if m.coarse or len(gs) != 1 or gs[0] is None or lacking.is_complex() or lacking.dim() < 2:
        return None
    at_hand = [(name, t) for name, t in _at_hand_of(m) if t.dim() > 1]
    matrices = [*at_hand, *((f"{name}.mT", t.mT) for name, t in at_hand)]
    upstream = [("grad_output", gs[0]), ("grad_output.mT", gs[0].mT)] if gs[0].dim() > 1 else []
    chains = [
        factors
        for g in upstream
        for one in matrices
        for factors in (
            (g, one),
            (one, g),
            *((g, one, other) for other in matrices),
            *((one, g, other) for other in matrices),
            *((one, other, g) for other in matrices),
        )
    ]
    for factors in sorted(chains, key=len):
        product = _product_of([t for _, t in factors], lacking.shape)
        if product is None:
            continue
        k = float((product * lacking).sum() / product.square().sum())
        if bool((lacking - k * product).abs().max() <= CLOSE * lacking.abs().max()):
            return _times(k, " @ ".join(name for name, _ in factors))
    return None


def _product_of(matrices: Sequence[Tensor], shape: torch.Size) -> Tensor | None:
    """Multiply the matrices. Return ``None`` if a shape does not fit or the product is zero."""
    product = matrices[0]
    for other in matrices[1:]:
        if product.shape[-1] != other.shape[-2] or product.is_complex() or other.is_complex():
            return None
        try:
            product = product @ other
        except RuntimeError:
            return None
    return product if product.shape == shape and bool(product.any()) else None


def _natural(m: Mismatch, k: float, product: Product, upstream: Upstream) -> bool:
    """Return whether the constant ``k`` is plausible for a term of the product rule.

    A plausible constant is 1/2, 1, 2, an argument of the call, or one of these divided by the
    length of the summed dim, as in a mean. If a sum over a dim gives several numbers, any constant
    is plausible, because a match by chance is unlikely.
    """
    if not product.factors and upstream.axis is None:
        return abs(k - 1) < CLOSE  # as in the skip connection x + f(x)
    length = 1 if upstream.axis is None else product.values.shape[upstream.axis]
    if 1 < length < product.values.numel():
        return True
    constants = [0.5, 1.0, 2.0, *(abs(value) for _, value in scalars(m.evidence))]
    return any(abs(abs(k) - c / n) < CLOSE for c in constants for n in (1, length))


def _cotangent(m: Mismatch) -> Tensor | None:
    """Return the only ``grad_output``, expanded to the shape of the gradient.

    If ``forward`` reduced a dim, first restore this dim with size 1.
    """
    gs = m.evidence.values.vjps[RANDOM].grad_outputs
    if len(gs) != 1 or gs[0] is None or gs[0].is_complex() or m.truth.is_complex():
        return None
    g, shape = gs[0], m.truth.shape
    for candidate in (g, *(g.unsqueeze(axis) for axis in range(g.dim() + 1))):
        try:
            return candidate.expand(shape)
        except RuntimeError:
            continue
    return None


def _at_hand_of(m: Mismatch) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the value of each real tensor that ``backward`` can use."""
    e = m.evidence
    at_hand = [(e.name(i), v) for i, v in enumerate(e.inputs) if is_float(v)]
    at_hand += [("output", out) for out in e.forward.outputs if is_float(out)]
    saved = [t for t in e.forward.saved if is_float(t)]
    at_hand += zip(_names_of_saved(e.contract.backward_source, len(saved)), saved, strict=True)
    seen: list[Tensor] = []
    for name, tensor in at_hand:
        if tensor.is_complex() or any(torch.equal(tensor, other) for other in seen):
            continue
        seen.append(tensor)
        yield name, tensor


def _factors(m: Mismatch) -> Iterator[tuple[str, Tensor]]:
    """Yield possible factors of a term: each available tensor t, 1 - t and 1/t."""
    for name, tensor in _at_hand_of(m):
        yield name, tensor
        if bool(((tensor > 0) & (tensor < 1)).all()):  # a sigmoid or a probability
            yield f"(1 - {name})", 1 - tensor
        if bool((tensor != 0).all()):
            yield f"1/{name}", 1 / tensor


def _names_of_saved(source: str, count: int) -> list[str]:
    """Return the names that ``backward`` gives to the saved tensors, or numbered names."""
    found = re.search(r"^\s*\(?([\w, ]+?),?\)?\s*=\s*ctx\.saved_tensors", source, re.MULTILINE)
    names = [name.strip() for name in found[1].split(",")] if found else []
    if len(names) != count:
        return [f"saved tensor {k}" for k in range(count)]
    return names


def _products(factors: Iterator[tuple[str, Tensor]], like: Tensor) -> Iterator[Product]:
    """Yield products of at most ``MOST_FACTORS`` factors, starting with the empty product 1."""
    fitting = [(name, t.expand(like.shape)) for name, t in factors if _expands(t, like)]
    yield Product((), torch.ones_like(like))
    for count in range(1, MOST_FACTORS + 1):
        for chosen in combinations_with_replacement(fitting, count):
            names, tensors = zip(*chosen, strict=True)
            if not any(f"1/{name}" in names for name in names):  # x and 1/x cancel
                yield Product(names, torch.stack(tensors).prod(0))


def _expands(tensor: Tensor, like: Tensor) -> bool:
    try:
        tensor.expand(like.shape)
    except RuntimeError:
        return False
    return True


def _upstreams(g: Tensor, products: Sequence[Product]) -> Iterator[Upstream]:
    yield Upstream(None, (), g)
    for axis in reversed(range(g.dim())):
        if g.shape[axis] < 2:
            continue
        for product in products:
            total = (g * product.values).sum(axis, keepdim=True).expand_as(g)
            yield Upstream(axis, product.factors, total)


def _multiples(
    lacking: Tensor, products: Sequence[Product], upstreams: Sequence[Upstream]
) -> Iterator[tuple[float, Product, Upstream]]:
    """Yield each constant, product and upstream part that together give the missing term.

    Simple combinations come first.
    """
    a = torch.stack([p.values.reshape(-1) for p in products])
    s = torch.stack([u.values.reshape(-1) for u in upstreams])
    d = lacking.reshape(-1)
    along, squares = (a * d) @ s.T, (a * a) @ (s * s).T
    left = d.square().sum() - along.square() / squares.clamp_min(torch.finfo(d.dtype).tiny)
    likely = (left <= 1e-10 * d.square().sum()).nonzero().tolist()
    for i, j in sorted(likely, key=lambda ij: _length(products[ij[0]], upstreams[ij[1]])):
        k = float(along[i, j] / squares[i, j])
        exact = (d - k * a[i] * s[j]).abs().max() <= CLOSE * d.abs().max()
        if bool(exact):
            yield k, products[i], upstreams[j]


def _length(product: Product, upstream: Upstream) -> int:
    return len(product.factors) + len(upstream.weight) + 2 * (upstream.axis is not None)


def _written(k: float, product: Product, upstream: Upstream) -> str:
    arrives = "grad_output"
    if upstream.axis is not None:
        weighted = " · ".join(("grad_output", *upstream.weight))
        arrives = f"sum({weighted} over dim {upstream.axis})"
    return _times(k, arrives, *product.factors)


def _times(k: float, *factors: str) -> str:
    """Format a product with its constant ``k``. If ``k`` is 1 or -1, show only its sign."""
    size = [] if abs(abs(k) - 1) < CLOSE else [digits(abs(k))]
    return ("-" if k < 0 else "") + " · ".join([*size, *factors])


# --------------------------------------------------------------------------------------------------
# Describe a gradient that is the expected gradient times a tensor, or that ignores an argument.
# --------------------------------------------------------------------------------------------------


def without_argument(m: Mismatch) -> str:
    """Name the arguments that should affect the gradient but do not, or return ``""``."""
    found = m.evidence.values.unused
    if not found or m.coarse or m.evidence.values.surrogate:
        return ""
    names = [f"`{m.evidence.name(position)}`" for position in found[m.slot]]
    if not names:
        return ""
    return (
        f". A small change of {listed(names).replace(' and ', ' or ')} does not change the "
        f"gradient of `{m.name}`, although it should"
    )


def wrong_factor(m: Mismatch) -> str | None:
    """Name the tensors by which ``backward`` wrongly multiplies or divides the gradient."""
    truth, actual = m.truth, m.actual
    if m.coarse or actual.is_complex() or not bool(m.known.all()):
        return None
    telling = truth.abs() > TELLING * m.expected.tolerance
    if int(telling.sum()) < FEWEST_ELEMENTS or truth.numel() > MOST_ELEMENTS:
        return None
    (_, *products) = _products(chain(_factors(m), _selected_weights(m)), truth)
    products = [it for it in products if it.values[telling].unique().numel() > 2]
    if not products or not bool(actual.any()):
        return None
    for k, product, _ in _multiples(actual, products, [Upstream(None, (), truth)]):
        below = [name.removeprefix("1/") for name in product.factors if name.startswith("1/")]
        above = [name for name in product.factors if not name.startswith("1/")]
        times = "" if abs(k - 1) < CLOSE else f"{digits(k)} times "
        by = [f"times `{' · '.join(above)}`"] if above else []
        by += [f"divided by `{' · '.join(below)}`"] if below else []
        return f"{times}the true gradient {' and '.join(by)}"
    return None


def _selected_weights(m: Mismatch) -> Iterator[tuple[str, Tensor]]:
    """Yield ``weight[target]`` and its inverse for each vector that an integer tensor can index."""
    e, shape = m.evidence, m.truth.shape
    labels = [i for i, v in enumerate(e.inputs) if isinstance(v, Tensor) and v.dtype == torch.int64]
    for i in labels:
        label = e.inputs[i]
        if not label.numel() or label.shape != shape[: label.dim()]:
            continue
        for name, weight in _at_hand_of(m):
            if weight.dim() == 1 and 0 <= label.min() <= label.max() < len(weight):
                rows = weight[label].reshape(label.shape + (1,) * (len(shape) - label.dim()))
                yield f"{name}[{e.name(i)}]", rows
                if bool((rows != 0).all()):
                    yield f"1/{name}[{e.name(i)}]", 1 / rows


# --------------------------------------------------------------------------------------------------
# Describe a gradient that omits a path from the input to the output.
# --------------------------------------------------------------------------------------------------

GLUE = (
    *("addition", "subtraction", "negation", "transpose", "t", "permute", "unsqueeze", "squeeze"),
    *("expand", "view", "reshape", "select", "slice", "clone", "alias"),
)
ARITHMETIC = ("multiplication", "division", "reciprocal", "power", "square")
FEWEST = 6  # if the whole tensor is one slice, fewer elements may match by chance


def missing_dependency(m: Mismatch) -> str | None:
    """Describe a path from this input to the output, or a term, that the gradient omits."""
    term = lacking_term(m)
    for cut, grads in m.evidence.values.held_fixed.items():
        if m.fits(grads[m.slot]):
            named = f". The missing term is `{term}`" if term else ""
            if _is_glue(cut, of_reference=m.evidence.values.reference_outputs is not None):
                return (
                    f"the gradient of `{m.name}` does not include all paths from `{m.name}` to the "
                    f"output: `backward` treats a result that depends on `{m.name}` as a constant"
                    f"{named or without_argument(m)}"
                )
            ways, constant = (
                ("paths", "the results of these operations as constants")
                if " and " in cut
                else ("path", "the result of this operation as a constant")
            )
            return (
                f"the gradient of `{m.name}` does not include the {ways} through {cut}: `backward` "
                f"treats {constant}{named}"
            )
    if path := _output_path(m):
        return path
    if wrong_factor(m):
        return None  # no term is missing
    if term:
        return f"the gradient of `{m.name}` lacks the term `{term}`{_or_its_sign(term)}"
    return _row_term(m)


def _or_its_sign(term: str) -> str:
    """Mention the other explanation of a term with the factor -2: a wrong sign.

    A factor 2 is more likely the derivative of a square.
    """
    twice = re.fullmatch(r"-2 · (.+)", term)
    return f", or `{twice[1]}` has the wrong sign in it" if twice else ""


def _is_glue(cut: str, *, of_reference: bool) -> bool:
    """Return whether a path consists only of operations that are not worth naming in the report.

    Examples are views and additions. If there is a reference, do not name arithmetic operations
    either, because ``forward`` may use different ones.
    """
    named = re.split(r", | and ", re.sub(r" \(\d+\)", "", cut))
    glue = (*GLUE, *ARITHMETIC) if of_reference else GLUE
    return all(name.split(" ")[-1] in glue for name in named)


def _output_path(m: Mismatch) -> str | None:
    """Report that ``backward`` ignores the cotangent of one of several outputs."""
    for name, vjp in m.evidence.values.vjps.items():
        if name.kind == "single" and not vjp.failure:
            grad, truth = vjp.grads[m.slot], m.evidence.values.expected[name][m.slot].value
            if (grad is None or not bool(grad.any())) and bool((truth.nan_to_num() != 0).any()):
                return (
                    f"the gradient of `{m.name}` does not include the path through the "
                    f"{ordinal(name)} output"
                )
    return None


def _row_term(m: Mismatch) -> str | None:
    """Report an error that has a simple form in each slice of the gradient.

    In each slice, the error is a constant, a multiple of a tensor, or the sum of a constant and a
    multiple of a tensor.
    """
    residual = m.actual - m.truth
    if m.coarse or not bool(m.known.all()):
        return None
    constant = torch.ones_like(residual)
    for where, axes in _slices(residual):
        length = math.prod(residual.shape[axis] for axis in axes)
        if length < 3 or (len(axes) == residual.dim() > 1 and length < FEWEST):
            continue
        if _spanned(m, residual, [m.truth], axes):
            return None  # each slice has its own factor, and no term is missing
        if _spanned(m, residual, [constant], axes):
            return _reduced(m, where, "constant")
        for name, tensor in _at_hand(m):
            if _spanned(m, residual, [tensor], axes):
                return _reduced(m, where, f"a multiple of {name}")
            if length > 3 and _spanned(m, residual, [constant, tensor], axes):
                return _reduced(m, where, f"a constant plus a multiple of {name}")
    return None


def factors_by_slice(m: Mismatch) -> str:
    """Describe a gradient that is the expected one, but with a different factor in each slice."""
    residual = m.actual - m.truth
    if m.coarse or residual.is_complex() or residual.dim() < 2 or not bool(m.known.all()):
        return ""
    for axis in range(residual.dim()):
        rest = tuple(k for k in range(residual.dim()) if k != axis)
        if residual.select(axis, 0).numel() >= 3 and _spanned(m, residual, [m.truth], rest):
            rows = [part.movedim(axis, 0).flatten(1).norm(dim=1) for part in (m.actual, m.truth)]
            factors = (rows[0] / rows[1])[rows[1] != 0]
            if len(factors) > 1 and not bool(torch.isclose(factors, factors[0], rtol=1e-4).all()):
                least, most = (number(float(it)) for it in factors.aminmax())
                or_value = f" or on the value of `{m.name}`" if _by_value(m, axis, rows) else ""
                return (
                    "It is the true gradient times a factor, which depends on the index along dim "
                    f"{axis}{or_value} and is between {least} and {most} in size"
                )
    return ""


def _by_value(m: Mismatch, axis: int, rows: Sequence[Tensor]) -> bool:
    """Return whether the factor can depend on the value of an element instead of its index.

    This is so if the elements, in the order of their values, have at most as many runs of equal
    factors as there are slices. ``rows`` holds the norms of the actual and the true gradient of
    each slice.
    """
    told = rows[1] != 0
    values = m.input.movedim(axis, 0).flatten(1)[told]
    factors = (rows[0] / rows[1])[told].unsqueeze(1).expand_as(values)
    ordered = factors.flatten()[values.flatten().argsort()]
    changes = ~torch.isclose(ordered[1:], ordered[:-1], rtol=1e-4)
    return int(changes.sum()) < len(values)


def _slices(residual: Tensor) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each group of dims that ``forward`` may have reduced, with a description.

    The groups are all dims, all dims after the first, all dims after the second, and each single
    dim.
    """
    every = tuple(range(residual.dim()))
    if len(every) > 1:
        yield "across the whole tensor", every
    if len(every) > 2:
        yield "within each slice along dim 0", every[1:]
    if len(every) > 3:
        yield f"along dims {every[2]} to {every[-1]}", every[2:]
    yield from ((f"along dim {axis}", (axis,)) for axis in reversed(every))


def _reduced(m: Mismatch, where: str, what: str) -> str:
    place = slice_of(m.wrong, m.known & ~m.wrong & (m.truth != 0), m.name)
    if place:
        return (
            f"the gradient of `{m.name}` is wrong only {place}{by_norm(m)}. For these elements, "
            f"`backward` has one term too many or too few: {where}, the error is {what}"
        )
    return (
        f"{where}, the error in the gradient of `{m.name}` is {what}. `forward` probably reduces "
        "over these elements (a mean, a norm, a variance), and `backward` treats the result as a "
        f"constant or differentiates it with a wrong factor{without_argument(m)}"
    )


def _at_hand(m: Mismatch) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the value of each tensor that has the shape of the gradient."""
    e = m.evidence
    tensors = {"the output": e.forward.outputs[0], m.name: m.input}
    names = _names_of_saved(e.contract.backward_source, len(e.forward.saved))
    tensors |= dict(zip(map(_quoted, names), e.forward.saved, strict=True))
    for name, tensor in tensors.items():
        if is_float(tensor) and tensor.shape == m.truth.shape:
            yield name, tensor


def _quoted(name: str) -> str:
    return name if " " in name else f"`{name}`"


def _spanned(m: Mismatch, residual: Tensor, basis: Sequence[Tensor], axes: tuple[int, ...]) -> bool:
    """Return whether each slice of the error is a linear combination of slices of the basis.

    A slice extends over the dims in ``axes``.
    """
    last = tuple(range(-len(axes), 0))

    def rows(tensor: Tensor) -> Tensor:
        return tensor.expand_as(residual).movedim(axes, last).flatten(-len(axes))

    span = torch.stack([rows(t.to(residual.dtype)) for t in basis], -1)
    target = rows(residual).unsqueeze(-1)
    fitted = span @ (torch.linalg.pinv(span) @ target)
    tolerance = rows(m.expected.tolerance + 1e-9 * residual.abs().max()).unsqueeze(-1)
    return bool(((target - fitted).abs() <= tolerance).all())
