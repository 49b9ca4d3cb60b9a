"""Which term a gradient lacks: products of the tensors at hand, with or without a sum over an axis.

The product rule leaves one term for each path from input to output. A backward that forgets a path
lacks, to a constant k,

    k · a · grad_output        or        k · a · sum(grad_output · b, axis)

where a and b are products of a few of: inputs, outputs, saved tensors t, 1/t, 1 − t.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import torch
from torch import Tensor

from autograd_course.doctor.comparing.mismatch import Mismatch
from autograd_course.doctor.rules.factors import digits, scalars
from autograd_course.doctor.running.calls import is_float

MOST_FACTORS = 2  # in each of a and b
MOST_ELEMENTS = 4096
FEWEST_ELEMENTS = 6  # fewer than these are met by chance
CLOSE = 1e-6  # of the lacking term's own size


@dataclass(frozen=True)
class Product:
    """A product of tensors at hand: its factors' names and its values, of the gradient's shape."""

    factors: tuple[str, ...]
    values: Tensor


@dataclass(frozen=True)
class Upstream:
    """What grad_output contributes: itself, or a sum of it over an axis, weighted."""

    axis: int | None
    weight: tuple[str, ...]
    values: Tensor


def lacking_term(m: Mismatch) -> str | None:
    """Return the one term by which the gradient differs from the truth, in words."""
    lacking = m.truth - m.actual
    g = _cotangent(m)
    n = lacking.numel()
    if g is None or not bool(m.known.all()) or not FEWEST_ELEMENTS <= n <= MOST_ELEMENTS:
        return None
    products = list(_products(_factors(m), lacking))
    for k, product, upstream in _multiples(lacking, products, list(_upstreams(g, products))):
        if _natural(m, k, product, upstream):
            return _written(k, product, upstream)
    return None


def _natural(m: Mismatch, k: float, product: Product, upstream: Upstream) -> bool:
    """Whether the constant is one that a product rule leaves: small, or an argument of the call.

    A sum over an axis comes with a constant of its own, as a mean's 1/N. Of a single row's sum any
    number is a multiple: there the constant has to be one of these, or such a mean's.
    """
    if not product.factors and upstream.axis is None:
        return abs(k - 1) < CLOSE  # as the way around, in x + f(x)
    length = 1 if upstream.axis is None else product.values.shape[upstream.axis]
    if 1 < length < product.values.numel():
        return True
    constants = [0.5, 1.0, 2.0, *(abs(value) for _, value in scalars(m.evidence))]
    return any(abs(abs(k) - c / n) < CLOSE for c in constants for n in (1, length))


def _cotangent(m: Mismatch) -> Tensor | None:
    """Return the one grad_output, with the axis put back that forward may have reduced."""
    gs = m.evidence.pulls["random"].grad_outputs
    if len(gs) != 1 or gs[0] is None or gs[0].is_complex() or m.truth.is_complex():
        return None
    g, shape = gs[0], m.truth.shape
    for candidate in (g, *(g.unsqueeze(axis) for axis in range(g.dim() + 1))):
        try:
            return candidate.expand(shape)
        except RuntimeError:
            continue
    return None


def _factors(m: Mismatch) -> Iterator[tuple[str, Tensor]]:
    """Yield what the author had at hand when writing backward, by name."""
    e = m.evidence
    at_hand = [(e.name(i), v) for i, v in enumerate(e.inputs) if is_float(v)]
    at_hand += [("output", out) for out in e.forward.outputs if is_float(out)]
    saved = [t for t in e.forward.saved if is_float(t)]
    at_hand += zip(_names_of_saved(e.backward_source, len(saved)), saved, strict=True)
    seen: list[Tensor] = []
    for name, tensor in at_hand:
        if tensor.is_complex() or any(torch.equal(tensor, other) for other in seen):
            continue
        seen.append(tensor)
        yield name, tensor
        if bool(((tensor > 0) & (tensor < 1)).all()):  # a sigmoid, a probability
            yield f"(1 - {name})", 1 - tensor
        if bool((tensor != 0).all()):
            yield f"1/{name}", 1 / tensor


def _names_of_saved(source: str, count: int) -> list[str]:
    """Return the names that backward unpacks its saved tensors to, or numbers where it does not."""
    found = re.search(r"^\s*\(?([\w, ]+?),?\)?\s*=\s*ctx\.saved_tensors", source, re.MULTILINE)
    names = [name.strip() for name in found[1].split(",")] if found else []
    if len(names) != count:
        return [f"saved tensor {k}" for k in range(count)]
    return names


def _products(factors: Iterator[tuple[str, Tensor]], like: Tensor) -> Iterator[Product]:
    """Yield products of few factors, the shortest first; the empty one is 1."""
    fitting = [(name, t.expand(like.shape)) for name, t in factors if _expands(t, like)]
    yield Product((), torch.ones_like(like))
    for count in range(1, MOST_FACTORS + 1):
        for chosen in combinations_with_replacement(fitting, count):
            names, tensors = zip(*chosen, strict=True)
            if not any(f"1/{name}" in names for name in names):  # which would cancel
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
    """Yield the pairs whose multiple is the lacking term, the simplest first."""
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
    sign, size = "-" if k < 0 else "", abs(k)
    parts = [] if abs(size - 1) < CLOSE else [digits(size)]
    if upstream.axis is None:
        parts.append("grad_output")
    else:
        weighted = " · ".join(("grad_output", *upstream.weight))
        parts.append(f"sum({weighted} over dim {upstream.axis})")
    return sign + " · ".join([*parts, *product.factors])
