"""Compute the value that an expression in backward should have, and find a formula for it.

The search tries other edits one by one, but it examines the formulas for all expressions together.
First, ``backward`` runs once with a zero added to the value of each expression. Autograd computes
how the gradients depend on these zeros, and the search derives the values that would correct the
gradients. Then it compares the results of thousands of formulas with these values, and tries only
the formulas that fit. A formula is a product or quotient of values that the method can access, a
matrix product, a sum, a mask, or an expression from ``forward``.

A few random projections represent all elements of the gradients. The search assumes that the
gradients depend linearly on the expression, which is usually true. Otherwise, the search misses a
formula, or it finds a formula that turns out to be wrong when the search tries it.
"""

from __future__ import annotations

import ast
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement, islice, product
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import USERS
from autograd_doctor._numerics.finite_differences import as_real
from autograd_doctor._numerics.tensors import is_float, is_number
from autograd_doctor._repair.edits import (
    FORMULA,
    Edit,
    Place,
    Scope,
    is_module,
    multiplied,
    parse,
)
from autograd_doctor.evidence import Expected

COST = 1.55  # cost of the simplest formula
PROJECTIONS = 32  # with more projections than elements, only the correct value fits all of them
COMPARED = 5  # projections used to compare a formula with the missing value
MOST_NAMES = 12
MOST_TERMS = 120
MOST_ELEMENTS = 400  # elements of an expression; with more elements, the comparisons take too long
MOST_COMPARED = 50  # candidates compared in all projections; many pairs fit a single number
MOST_TRIED = 24  # formulas that the search runs, for each set of gradients
MOST_OF_ONE = 3  # formulas for one expression
LEAST = 0.5  # minimum extra cost of a formula, unless it only multiplies the expression by a factor
MORE = 0.5  # maximum extra cost compared with the best formula so far
LONGEST = 60  # characters in a formula from forward
HOLE = "__hole__"

Frame = Mapping[str, Any]
"""The names that a method can access at one place, with their values."""


@dataclass(frozen=True)
class Spot:
    """An expression in ``backward``, its value, and the names defined when it was computed."""

    place: Place
    node: ast.expr
    value: Tensor
    zero: Tensor
    frame: Frame


@dataclass(frozen=True)
class Term:
    """An expression and its value."""

    text: str
    cost: float
    value: Tensor

    @property
    def node(self) -> ast.expr:
        """The expression as a new syntax tree."""
        return parse(self.text)


# --------------------------------------------------------------------------------------------------
# Run backward once, with a zero added to every expression.
# --------------------------------------------------------------------------------------------------


class Holes:
    """A recorder that adds a zero to each value, and stores the names defined at each place.

    The zeros require grad.
    """

    def __init__(self, places: Sequence[tuple[Place, ast.expr]]) -> None:
        self._places = places
        self._seen: dict[int, Spot | None] = {}

    def __call__(self, number: int, value: Any, frame: Frame) -> Any:
        """Return the value plus its zero, or the value itself if the place is not usable."""
        if not is_float(value) or number in self._seen or value.numel() > MOST_ELEMENTS:
            self._seen[number] = None  # not a float, too large, or computed several times
            return value
        zero = torch.zeros_like(value).requires_grad_()
        place, node = self._places[number]
        self._seen[number] = Spot(place, node, value.detach().clone(), zero, dict(frame))
        return value + zero

    @property
    def spots(self) -> Sequence[Spot]:
        """The expressions that were computed exactly once, in source order.

        Outer expressions come first.
        """
        return [spot for _, spot in sorted(self._seen.items()) if spot is not None]


def hole_edits(places: Sequence[tuple[Place, ast.expr]]) -> Sequence[Edit]:
    """Return edits that wrap each expression in a call to :data:`HOLE`.

    The arguments of the call are the number of the place, the expression's value, and the names
    that are defined there.
    """
    known = ast.Call(ast.Name("locals", ast.Load()), [], [])
    hole = ast.Name(HOLE, ast.Load())
    return [
        Edit("", 0, place, ast.Call(hole, [ast.Constant(k), node, known], []))
        for k, (place, node) in enumerate(places)
    ]


@dataclass(frozen=True)
class Projected:
    """The error of some gradients along random directions, and how this error depends on each spot.

    ``lacking`` holds the error along each direction, and ``slack`` holds the uncertainty of this
    error. ``weights`` holds one tensor for each spot and direction, with the shape of the spot's
    value.
    """

    lacking: Tensor
    slack: Tensor
    weights: Mapping[int, Sequence[Tensor]]


def projected(
    spots: Sequence[Spot], grad: Tensor, expected: Expected, seed: int
) -> Projected | None:
    """Return a gradient's error and each spot's effect on it, or ``None`` if there is no effect.

    Args:
        spots: Expressions in ``backward``.
        grad: A gradient that backward returned, with its graph.
        expected: The expected gradient.
        seed: The seed for the directions. Each gradient has its own directions, because the errors
            of several gradients could otherwise cancel.
    """
    if not grad.requires_grad:
        return None
    truth = expected.value
    known = torch.isfinite(truth)
    wide = known.unsqueeze(-1) if grad.is_complex() else known
    real = torch.where(wide, as_real(grad).double(), 0.0)
    right = torch.where(wide, as_real(truth).double(), 0.0)
    limits = torch.where(known, expected.tolerance.double(), 0.0)
    room = (limits.unsqueeze(-1) if grad.is_complex() else limits) + 1e-10 * right.abs()
    rng = torch.Generator().manual_seed(seed)
    along = torch.randn(PROJECTIONS, *real.shape, generator=rng, dtype=torch.float64) * wide
    flat = along.reshape(PROJECTIONS, -1)
    lacking = flat @ (right - real.detach()).flatten()
    slack = flat.abs() @ room.flatten()
    weights: dict[int, list[Tensor]] = {}
    zeros = [spot.zero for spot in spots]
    for direction in along:
        total = (real * direction).sum()  # with `grad_outputs`, PyTorch would import SymPy
        found = torch.autograd.grad(total, zeros, retain_graph=True, allow_unused=True)
        for number, weight in enumerate(found):
            if weight is not None and weight.isfinite().all():
                weights.setdefault(number, []).append(weight.detach())
    full = {number: part for number, part in weights.items() if len(part) == PROJECTIONS}
    return Projected(
        lacking,
        slack,
        {n: part for n, part in full.items() if any(bool(weight.any()) for weight in part)},
    )


def together(parts: Sequence[Projected]) -> Projected:
    """Combine the projections of several gradients into one."""
    if len(parts) == 1:
        return parts[0]
    weights: dict[int, Sequence[Tensor]] = {}
    for part in parts:
        for number, added in part.weights.items():
            before = weights.get(number)
            pairs = zip(before, added, strict=True) if before else ()
            weights[number] = [a + b for a, b in pairs] if before else added
    lacking = torch.stack([part.lacking for part in parts]).sum(0)
    return Projected(lacking, torch.stack([part.slack for part in parts]).sum(0), weights)


# --------------------------------------------------------------------------------------------------
# The parts of a formula.
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Terms as the rows of a matrix.

    Each row has one number for each element of the expression.
    """

    terms: Sequence[Term]
    matrix: Tensor

    @cached_property
    def costs(self) -> Tensor:
        """The cost of each term."""
        return torch.tensor([term.cost for term in self.terms], dtype=torch.float64)


@dataclass(frozen=True)
class Scalar:
    """A constant factor, written as a quotient.

    An empty string as the numerator or the denominator means 1.
    """

    above: str
    below: str
    value: float
    cost: float


class Words:
    """The terms and constants that a formula may use at one place.

    Args:
        frame: The names that are defined at this place, with their values.
        scope: The scope of backward.
        written: Expressions from ``forward`` that can be evaluated in the frame.
        globals: The global names of the module.
        known: A cache of the values of expressions. All places share it.
    """

    def __init__(
        self,
        frame: Frame,
        scope: Scope,
        written: Sequence[str],
        globals: Mapping[str, Any],
        known: dict[Any, Any],
    ) -> None:
        self._frame, self._scope, self._globals = dict(frame), scope, dict(globals)
        self._written = written
        self._known = known
        self._rows: dict[Any, Rows] = {}
        self.transpose = scope.transpose

    def _value(self, text: str) -> Any:
        code = _code(text)
        key = text, *(id(self._frame.get(name)) for name in code.co_names)
        if key not in self._known:
            try:
                with torch.no_grad():
                    self._known[key] = eval(code, self._globals, self._frame)
            except USERS:
                self._known[key] = None
        return self._known[key]

    def rows(self, what: str, shape: Sequence[int], dtype: torch.dtype) -> Rows:
        """Return the terms of one kind that can be broadcast to a shape.

        The kinds are ``terms``, ``masks`` and ``products``.
        """
        key = what, shape, dtype
        if key not in self._rows:
            self._rows[key] = _rows(getattr(self, what), shape, dtype)
        return self._rows[key]

    @cached_property
    def named(self) -> Sequence[Term]:
        """The tensors that have a name."""
        found = []
        for text in self._scope.names:
            if text.startswith("_"):  # a leading underscore means that the author does not use it
                continue
            value = self._value(text)
            if isinstance(value, Tensor) and value.numel() and _is_dense(value):
                found.append(Term(text, 0.1, value.detach()))
        return found[:MOST_NAMES]

    @cached_property
    def scalars(self) -> Sequence[Scalar]:
        """The constant factors that a formula can use."""
        known: dict[str, tuple[float, float]] = {}
        for text in (*self._scope.names, *self._scope.numbers):
            value = self._value(text)
            if is_number(value):
                known[text] = float(value), 0.1
                if value < 0:
                    continue
                known[f"{text} ** 2"] = float(value) ** 2, 0.15
                known[f"(1 - {text})"] = 1.0 - value, 0.3
                known[f"({text} + 1)"] = value + 1.0, 0.4
                known[f"({text} - 1)"] = value - 1.0, 0.3
        lengths = {length for term in self.named for length in term.value.shape}
        chance = set()  # numbers that may be correct only for this shape
        for number in (2, 3, 4):
            known.setdefault(str(number), (float(number), 0.15))
            if lengths & {number, number + 1}:
                chance.add(str(number))
        for term in self.named:
            for text, length in _lengths(term):
                known.setdefault(text, (length, 0.3))
                known.setdefault(f"({text} - 1)", (length - 1, 0.4))
            if term.value.dim() > 1:
                known.setdefault(f"{term.text}.numel()", (float(term.value.numel()), 0.3))
        usable = {t: it for t, it in known.items() if it[0] not in (0.0, 1.0, -1.0)}
        for text in chance - {"2"}:
            del usable[text]
        single = [
            *(Scalar(text, "", value, cost) for text, (value, cost) in usable.items()),
            *(Scalar("", text, 1 / value, cost) for text, (value, cost) in usable.items()),
        ]
        both = [
            Scalar(above, below, a / b, c + d + 0.2)
            for (above, (a, c)), (below, (b, d)) in product(usable.items(), repeat=2)
            if above != below and not chance & {above, below}
        ]
        return [*single, *both]

    @cached_property
    def numbers(self) -> Mapping[str, tuple[float, float]]:
        """The values and costs of the numbers that can occur in a formula for a number."""
        known: dict[str, tuple[float, float]] = {}
        for text in (*self._scope.names, *self._scope.numbers):
            value = self._value(text)
            if is_number(value):
                known[text] = float(value), 0.1
        for term in self.masks[:MOST_NAMES]:
            whole = term.text if term.text.isidentifier() else f"({term.text})"
            known.setdefault(f"{whole}.sum()", (float(term.value.sum()), term.cost + 0.1))
        seen: set[torch.Size] = set()
        for term in self.named:
            shape = term.value.shape
            if shape not in seen:
                for text, length in _lengths(term):
                    known.setdefault(text, (length, 0.3))
                known.setdefault(f"{term.text}.numel()", (float(term.value.numel()), 0.3))
            seen.add(shape)
            if not shape and _is_inexact(term.value) and not term.value.is_complex():
                known.setdefault(term.text, (float(term.value), 0.1))
        known.setdefault("2", (2.0, 0.2))
        usable = ((text, it) for text, it in known.items() if it[0])
        return dict(sorted(usable, key=lambda it: it[1][1]))

    @cached_property
    def masks(self) -> Sequence[Term]:
        """Conditions on elements, as bool tensors."""
        texts = dict.fromkeys(it for text in self._written for it in _conditions(text))
        found = [*((text, 0.4) for text in texts), *((term.text, 0.1) for term in self.named)]
        values = ((text, cost, self._value(text)) for text, cost in found)
        masks = [
            Term(text, cost, value)
            for text, cost, value in values
            if isinstance(value, Tensor) and value.dtype == torch.bool and value.dim()
        ]
        both = [
            Term(f"({a.text}) & ({b.text})", a.cost + b.cost + 0.1, a.value & b.value)
            for a, b in combinations_with_replacement(masks[:6], 2)
            if a is not b and a.value.shape == b.value.shape
        ]
        return [*masks, *both]

    @cached_property
    def terms(self) -> Sequence[Term]:
        """Expressions with one or two names. Simple expressions come first."""
        floats = [term for term in self.named if _is_inexact(term.value)]
        found = [*floats]
        for text in self._written:
            value = self._value(text)
            if isinstance(value, Tensor) and value.numel() and _is_inexact(value):
                found.append(Term(text, 0.3 + 0.005 * len(text), value))
        for term in floats:
            for pattern, cost in UNARY:
                text = pattern.format(term.text)
                value = self._value(text)
                if isinstance(value, Tensor):
                    found.append(Term(text, 0.1 + cost, value))
        for mask in self.masks[:MOST_NAMES]:
            whole = mask.text if mask.text.isidentifier() else f"({mask.text})"
            for call, cost in (("sum()", 0.3), ("sum(-1, keepdim=True)", 0.3)):
                value = self._value(f"{whole}.{call}")
                if isinstance(value, Tensor):
                    found.append(Term(f"{whole}.{call}", mask.cost + cost, value.double()))
        if self._scope.mentions(r"range\(|cum|scan|roll"):
            for term in floats:
                for pattern in EARLIER:
                    text = pattern.format(term.text)
                    value = self._value(text)
                    if isinstance(value, Tensor):
                        found.append(Term(text, 0.5, value))
        numbers = ((name, self._value(name)) for name in self._scope.names)
        found += [
            Term(name, 0.1, torch.tensor(float(value), dtype=torch.float64))
            for name, value in numbers
            if is_number(value)
        ]
        return sorted(found, key=lambda term: term.cost)[:MOST_TERMS]

    @cached_property
    def products(self) -> Sequence[Term]:
        """Matrix products, and sums over a tensor or an elementwise product of two tensors."""
        floats = [term for term in self.named if _is_inexact(term.value)]
        found = []
        if self._scope.mentions(r"@|matmul|mm\(|einsum|linear"):
            for one, other in product([t for t in floats if t.value.dim() > 1], repeat=2):
                for a, b in product(("", f".{self._scope.transpose}"), repeat=2):
                    text = f"{one.text}{a} @ {other.text}{b}"
                    value = self._value(text)
                    if isinstance(value, Tensor):
                        found.append(Term(text, 0.5 + 0.1 * len(a + b), value))
        for one, other in combinations_with_replacement(floats, 2):
            pair = f"({one.text} * {other.text})" if one is not other else f"{one.text} ** 2"
            for call, cost in SUMS:
                text = f"({pair}).{call}" if one is other else f"{pair}.{call}"
                value = self._value(text)
                if isinstance(value, Tensor):
                    found.append(Term(text, 0.5 + cost, value))
        for term in floats:
            for call, cost in SUMS:
                value = self._value(f"{term.text}.{call}")
                if isinstance(value, Tensor):
                    found.append(Term(f"{term.text}.{call}", 0.3 + cost, value))
        return found


def _lengths(term: Term) -> Iterator[tuple[str, float]]:
    """Yield the lengths of a tensor, each with the code that computes it."""
    shape = term.value.shape
    for dim, length in enumerate(shape):
        at = dim - len(shape) if dim == len(shape) - 1 else dim
        yield f"{term.text}.shape[{at}]", float(length)


@lru_cache(maxsize=4096)
def _code(text: str) -> CodeType:
    return compile(text, "<formula>", "eval")


UNARY = (
    ("(1 - {})", 0.1),
    ("(1 + {})", 0.2),
    ("{} ** 2", 0.1),
    ("(1 - {} ** 2)", 0.2),
    ("{} ** 3", 0.4),
    ("{}.abs()", 0.3),
    ("{}.sign()", 0.2),
    ("{}.sqrt()", 0.4),
    ("{}.exp()", 0.4),
    ("{}.sigmoid()", 0.4),
    ("{}.log()", 0.4),
    ("{}.mT", 0.2),
    ("{}.flip(0)", 0.5),
    ("{}.flip(-1)", 0.5),
)
EARLIER = (  # the values one step earlier in a recurrence
    "torch.cat([torch.zeros_like({0}[:1]), {0}[:-1]])",
    "torch.cat([torch.zeros_like({0}[..., :1]), {0}[..., :-1]], -1)",
)
SUMS = (
    ("sum(-1, keepdim=True)", 0.1),
    ("sum(0)", 0.1),
    ("sum(-1)", 0.1),
    ("sum()", 0.1),
    ("sum(0, keepdim=True)", 0.2),
    ("sum(1, keepdim=True)", 0.2),
)


def _is_dense(value: Tensor) -> bool:
    return value.layout == torch.strided and not value.is_quantized


def _is_inexact(value: Tensor) -> bool:
    return _is_dense(value) and is_float(value)


def _conditions(text: str) -> Iterator[str]:
    """Yield conditions in the derivative of an expression, such as ``x > 0`` for relu."""
    node = parse(text)
    match node:
        case ast.Compare():
            yield text
        case ast.Call(ast.Attribute(value, call), args, keywords):
            given = [ast.unparse(it) for it in args]
            named = {it.arg: ast.unparse(it.value) for it in keywords if it.arg}
            if not is_module(value):
                given = [ast.unparse(value), *given]
            subject = f"({given[0]})" if given and " " in given[0] else "".join(given[:1])
            if call in ("relu", "relu_") and given:
                yield f"{subject} > 0"
            if call in ("clamp", "clip", "clamp_min", "clamp_max", "hardtanh") and given:
                low = named.get("min", given[1] if len(given) > 1 and call != "clamp_max" else "")
                high = named.get("max", given[2] if len(given) > 2 else "")
                if call == "clamp_max":
                    high = given[1] if len(given) > 1 else high
                if low and low != "None":
                    yield f"{subject} > {low}"
                if high and high != "None":
                    yield f"{subject} < {high}"
            if call in ("abs", "sign") and given:
                yield f"{subject} > 0"
            if call in ("maximum", "minimum") and len(given) > 1:
                yield f"{subject} {'>' if call == 'maximum' else '<'} {given[1]}"


# A formula contains no call that draws random numbers, has a side effect, or leaves PyTorch.
NOT_PURE = re.compile(
    "bernoulli|multinomial|.*dropout|gumbel_softmax|rrelu|item|tolist|numpy|backward|register_hook"
    "|retain_grad|requires_grad|cpu|cuda|to|type|share_memory|record_stream|detach|save|load"
)


def formulas_in(trees: Iterable[ast.FunctionDef]) -> Sequence[str]:
    """Return the expressions in some methods, with and without their local names expanded."""
    found: dict[str, None] = {}
    for tree in trees:
        defined = _definitions(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp | ast.Call | ast.UnaryOp | ast.Compare | ast.Subscript):
                for text in _written_out(node, defined):
                    if len(text) <= LONGEST:
                        found[text] = None
    return [*found]


def _definitions(tree: ast.FunctionDef) -> Mapping[str, ast.expr]:
    """Return the expression assigned to each name that is assigned exactly once."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign([ast.Name(name)], value):
                assigned.setdefault(name, []).append(value)
            case ast.AugAssign(ast.Name(name)) | ast.For(ast.Name(name)):
                assigned.setdefault(name, []).extend([ast.Constant(0), ast.Constant(0)])
    return {name: values[0] for name, values in assigned.items() if len(values) == 1}


def _written_out(node: ast.expr, defined: Mapping[str, ast.expr]) -> Iterator[str]:
    text = ast.unparse(node)
    for _ in range(3):
        if not _is_pure(node):
            return
        yield text
        node = _Inlined(defined).visit(parse(text))
        longer = ast.unparse(node)
        if longer == text or len(longer) > LONGEST:
            return
        text = longer


class _Inlined(ast.NodeTransformer):
    def __init__(self, defined: Mapping[str, ast.expr]) -> None:
        self._defined = defined

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._defined.get(node.id, node)


def _is_pure(node: ast.expr) -> bool:
    """Return whether an expression calls only PyTorch operations without side effects."""
    for part in ast.walk(node):
        if isinstance(part, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda):
            return False
        if isinstance(part, ast.Call):
            func = part.func
            if not isinstance(func, ast.Attribute):
                return False
            name = func.attr
            if ast.unparse(func.value) == "math":
                continue
            known = hasattr(Tensor, name) or hasattr(torch.nn.functional, name)
            if not known or name.endswith("_") or name.startswith("_") or NOT_PURE.fullmatch(name):
                return False
    return True


# --------------------------------------------------------------------------------------------------
# Compare formulas with the missing part of the gradients.
# --------------------------------------------------------------------------------------------------


def formulas(
    spots: Sequence[Spot],
    found: Projected,
    words: Callable[[Spot], Words],
) -> Iterator[Edit]:
    """Yield edits to single expressions that make the projections correct.

    Simple edits come first.
    """
    edits: list[tuple[float, Edit]] = []
    for number, weights in _different(spots, found.weights):
        spot = spots[number]
        if not _can_help(spot, weights, found):
            continue
        limit = min((cost for cost, _ in edits), default=math.inf) + MORE
        fitting = sorted(_fitting(spot, weights, found, words(spot), limit), key=lambda it: it[0])
        for cost, node in fitting[:MOST_OF_ONE]:
            edits.append((cost, Edit(FORMULA, COST + cost, spot.place, node)))
    edits.sort(key=lambda it: it[0])
    yield from (edit for _, edit in islice(edits, MOST_TRIED))


def _can_help(spot: Spot, weights: Sequence[Tensor], found: Projected) -> bool:
    """Return whether, judging by the projections, another value could correct the gradients."""
    if spot.value.is_complex() or spot.value.numel() + 2 > PROJECTIONS:
        return True
    along = torch.stack([weight.double().reshape(-1) for weight in weights])
    best = along @ (torch.linalg.pinv(along) @ found.lacking)
    room = 10 * found.slack + 1e-8 * (found.lacking.abs().max() + 1e-30)
    return bool(((best - found.lacking).abs() <= room).all())


def _different(
    spots: Sequence[Spot], weights: Mapping[int, Sequence[Tensor]]
) -> Iterator[tuple[int, Sequence[Tensor]]]:
    """Yield one spot for each group of spots with equal values and weights.

    The same formulas fit all spots in a group.
    """
    seen: list[tuple[Tensor, Tensor]] = []
    for number, weight in weights.items():
        value = spots[number].value
        if not any(
            value.shape == other.shape and torch.equal(value, other) and torch.equal(weight[0], it)
            for other, it in seen
        ):
            seen.append((value, weight[0]))
            yield number, weight


def _fitting(
    spot: Spot, weights: Sequence[Tensor], found: Projected, words: Words, limit: float
) -> Iterator[tuple[float, ast.expr]]:
    shape = spot.value.shape
    wide = torch.complex128 if spot.value.is_complex() else torch.float64

    itself = spot.value.to(wide).reshape(1, -1)
    along = torch.stack([w.to(wide).reshape(-1) for w in weights[:COMPARED]]).conj()
    lacking, slack = found.lacking[:COMPARED], found.slack[:COMPARED]
    to_replace = lacking + (along @ itself[0]).real
    terms, masks = (words.rows(what, shape, wide) for what in ("terms", "masks"))
    one = Term("", 0.0, torch.ones(()))
    ones = torch.ones_like(itself)
    factors = Rows([one, *terms.terms], torch.cat([ones, terms.matrix]))
    with_masks = Rows([*factors.terms, *masks.terms], torch.cat([factors.matrix, masks.matrix]))
    compare = _Comparison(along, slack, words.scalars)

    # Multiply or divide the expression, or what a projection leaves of it, by a factor.
    own = ast.unparse(spot.node)
    for _, factor, scalar, over in compare.products(Rows([one], itself), with_masks, to_replace):
        if factor.text or scalar:
            yield (
                factor.cost + _cost(scalar),
                _product(spot.node, factor, scalar, over),
            )
    if limit < LEAST:
        return
    bases = [term for term in _projections(spot, words) if term.value.shape == shape]
    if bases:
        known = Rows(bases, torch.stack([term.value.to(wide).reshape(-1) for term in bases]))
        for base, factor, scalar, over in compare.products(known, factors, to_replace):
            yield (
                base.cost + factor.cost + _cost(scalar),
                _product(base.node, factor, scalar, over),
            )
    # Add or subtract something, or replace the expression.
    sums = words.rows("products", shape, wide)
    left = Rows([*factors.terms[1:], *sums.terms], torch.cat([factors.matrix[1:], sums.matrix]))
    for target, added in ((lacking, True), (to_replace, False)):
        for base, factor, scalar, over in compare.products(left, with_masks, target):
            if base.text == own and not added:
                continue
            node = _product(base.node, factor, scalar, over)
            cost = base.cost + factor.cost + _cost(scalar)
            if added:
                yield cost + 0.45, _sum(spot.node, node)
            else:  # a formula of the same length may be the intended one
                yield cost + (0.05 if len(ast.unparse(node)) <= len(own) else 0.55), node
    # Use another value wherever a condition holds.
    for mask, row in zip(masks.terms, masks.matrix, strict=True):
        keep, rest = row.to(wide), 1 - row.to(wide)
        for here, inside in ((keep, True), (rest, False)):
            missing = to_replace - ((along * here) @ itself[0]).real
            others = Rows(factors.terms, factors.matrix * (1 - here))
            for base, _, scalar, _ in compare.products(others, Rows([one], ones), missing):
                if base.text or not scalar:
                    value = base.node if base.text else parse("1.0")
                    value = _product(value, one, scalar, over=False)
                    order = [spot.node, value] if inside else [value, spot.node]
                    call = ast.Attribute(parse("torch"), "where", ast.Load())
                    yield (
                        mask.cost + base.cost + _cost(scalar) + 0.6,
                        ast.Call(call, [mask.node, *order], []),
                    )


def _rows(terms: Sequence[Term], shape: Sequence[int], dtype: torch.dtype) -> Rows:
    kept, values = [], []
    for term in terms:
        value = term.value
        if value.is_complex() and not dtype.is_complex:
            continue
        if value.dim() and value.dim() == len(shape) - 1 and value.shape == shape[:-1]:
            kept.append(Term(f"{term.text}.unsqueeze(-1)", term.cost + 0.1, value))
            values.append(value.unsqueeze(-1).to(dtype).expand(shape).reshape(-1))
        if _broadcasts(value.shape, shape):
            kept.append(term)
            values.append(value.to(dtype).expand(shape).reshape(-1))
    count = math.prod(shape)
    return Rows(kept, torch.stack(values) if values else torch.zeros(0, count, dtype=dtype))


def _broadcasts(shape: Sequence[int], into: Sequence[int]) -> bool:
    """Return whether a shape can be broadcast to another shape without changing the other shape."""
    pairs = zip(reversed(shape), reversed(into), strict=False)
    return len(shape) <= len(into) and all(a in (1, b) for a, b in pairs)


def _projections(spot: Spot, words: Words) -> Iterator[Term]:
    """Yield an expression minus its mean or sum, or minus its projection onto another tensor.

    Also yield the sum of a square matrix and its transpose.
    """
    value = spot.value
    names = [
        t for t in words.named if _is_inexact(t.value) and _broadcasts(t.value.shape, value.shape)
    ]
    own = ast.unparse(spot.node)
    bare = own if isinstance(spot.node, ast.Name) else f"({own})"
    for dim in range(value.dim()):
        at = dim - value.dim() if dim == value.dim() - 1 else dim
        for call in ("sum", "mean"):
            less = getattr(value, call)(dim, keepdim=True)
            yield Term(f"{own} - {bare}.{call}({at}, keepdim=True)", 0.5, value - less)
        for one in names:
            total = (value * one.value).sum(dim, keepdim=True)
            average = total / value.shape[dim]
            for call, part in (("sum", total), ("mean", average)):
                text = f"({bare} * {one.text}).{call}({at}, keepdim=True)"
                yield Term(f"{own} - {text}", 0.6, value - part)
                for other in names:
                    yield Term(f"{own} - {other.text} * {text}", 0.6, value - other.value * part)
    if value.dim() > 1 and value.shape[-1] == value.shape[-2]:
        yield Term(f"{own} + {bare}.{words.transpose}", 0.5, value + value.mT)


@dataclass(frozen=True)
class _Comparison:
    along: Tensor  # one row for each direction
    slack: Tensor
    scalars: Sequence[Scalar]

    @cached_property
    def _sorted(self) -> tuple[Sequence[float], Sequence[Scalar]]:
        known = sorted(self.scalars, key=lambda it: it.value)
        return [it.value for it in known], known

    def products(
        self, bases: Rows, factors: Rows, target: Tensor
    ) -> Iterator[tuple[Term, Term, Scalar | None, bool]]:
        """Yield products that equal a target.

        Each result holds a base, a factor, a constant, and whether to divide by the factor. If the
        constant is 1, the result holds ``None`` instead. The numerator of the constant -1 is the
        string ``-1``.
        """
        if not bases.terms or not factors.terms:
            return
        usable = (factors.matrix != 0).all(1)
        usable[0] = False  # dividing by 1 is useless
        inverse = torch.where(usable[:, None], 1 / factors.matrix, 0.0)
        both = torch.cat([factors.matrix, inverse]).T
        room = 2 * (self.slack + 1e-10 * target.abs())
        got = torch.stack([((bases.matrix * row) @ both).real for row in self.along[:2]])
        one, other = target[:2, None, None] / got
        limits = room[0] / got[0].abs() + room[1] / got[1].abs() + 2e-9 * one.abs()
        close = ((one - other).abs() <= limits) & (got.abs() > 1e-12).all(0)
        count = len(factors.terms)
        costs = bases.costs[:, None] + factors.costs.repeat(2)
        cheap = torch.where(close, costs, math.inf).flatten()
        values, places = cheap.topk(min(MOST_COMPARED, len(cheap)), largest=False)
        places = places[values < math.inf]
        if not len(places):
            return
        i, j = places.div(2 * count, rounding_mode="floor"), places % (2 * count)
        values = ((bases.matrix[i] * both.T[j]) @ self.along.T).real
        ratio = target / values
        within = room / values.abs() + 1e-9 * ratio.abs()
        low, high = (ratio - within).amax(1), (ratio + within).amin(1)
        most = MOST_OF_ONE
        for k in (low <= high).nonzero().flatten().tolist():
            base, factor = divmod(int(places[k]), 2 * count)
            for scalar in islice(self._scalar(float(low[k]), float(high[k])), 1):
                yield bases.terms[base], factors.terms[factor % count], scalar, factor >= count
                most -= 1
            if not most:
                return

    def _scalar(self, low: float, high: float) -> Iterator[Scalar | None]:
        """Yield the simplest constants that lie between two numbers."""
        if low <= 1 <= high:
            yield None
        if low <= -1 <= high:
            yield Scalar("-1", "", -1.0, 0.1)
        values, known = self._sorted
        for sign in (1, -1):
            a, b = sorted((sign * low, sign * high))
            first, last = bisect_left(values, a), bisect_right(values, b)
            for it in sorted(known[first:last], key=lambda it: it.cost)[:1]:
                yield (
                    it if sign > 0 else Scalar(f"-{it.above or '1'}", it.below, -it.value, it.cost)
                )


def _cost(scalar: Scalar | None) -> float:
    return 0.0 if scalar is None else scalar.cost


def _product(node: ast.expr, factor: Term, scalar: Scalar | None, over: bool) -> ast.expr:
    """Return the product or quotient of an expression and a factor, multiplied by a constant."""
    if factor.text:
        node = ast.BinOp(node, ast.Div() if over else ast.Mult(), factor.node)
    if scalar is None:
        return node
    above = scalar.above
    if above.startswith("-"):
        node, above = ast.UnaryOp(ast.USub(), node), above.removeprefix("-")
    if above.isdecimal() and above != "1":
        node = multiplied(parse(above), node)
    elif above and above != "1":
        node = ast.BinOp(node, ast.Mult(), parse(above))
    if scalar.below:
        node = ast.BinOp(node, ast.Div(), parse(scalar.below))
    return node


def _sum(one: ast.expr, other: ast.expr) -> ast.expr:
    if isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.USub):
        return ast.BinOp(one, ast.Sub(), other.operand)
    match other:
        case ast.BinOp(ast.UnaryOp(ast.USub(), value), op, rest):
            return ast.BinOp(one, ast.Sub(), ast.BinOp(value, op, rest))
    return ast.BinOp(one, ast.Add(), other)
