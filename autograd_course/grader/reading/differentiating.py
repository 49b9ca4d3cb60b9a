"""Find code that lets autograd compute a derivative, or that changes what ``backward`` returns."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import lru_cache

from autograd_course.grader.reading import reaching, tables
from autograd_course.grader.reading.libraries import canonical, derives, value_at
from autograd_course.grader.reading.meaning import Meaning, number
from autograd_course.grader.reading.scopes import bound_in


def hooks(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield each hook that a node registers. A class that defines its own ``apply`` also counts."""
    match node:
        case ast.ClassDef() if "apply" in bound_in(node.body) and (
            node.name in names.bases or not all(map(names.is_own_class, node.bases))
        ):
            yield (
                f"its class {node.name} defines apply, so your backward may never run: write a "
                "function next to the class instead"
            )
        case (
            ast.Attribute(attr="apply", ctx=ast.Store())
            | ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value="apply"), *_])
        ):
            yield "it sets apply, so your backward may never run"
    for name in _named(node, names):
        if name in tables.HOOKS:
            yield (
                f"it uses {name}, which can change what `backward` returns or what the grader "
                "sees of it"
            )


def differentiates(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield code that lets autograd compute a derivative. ``backward`` must be a formula."""
    if _is_off(node) or id(node) in names.inspected:
        return
    what, does = "", "lets autograd differentiate"
    for name in _named(node, names):
        if name in tables.DIFFERENTIATING and not _is_own(node, name, names):
            what = name
    if not any(_of_layer(node, names)):
        what = next(_of_method(node, names), what)
    if isinstance(node, ast.expr):
        path = canonical(names.path(node))
        if path.startswith("torch.") and path.endswith("_backward"):
            what, does = path, "computes a gradient with PyTorch's own formula"
        elif path in tables.LEAVING:
            what, does = path, "can change the grad mode"
        elif _differentiates(path):
            what = path
    if isinstance(node, ast.ClassDef):
        bases = [canonical(names.path(base)) for base in node.bases]
        what = next((base for base in bases if base in tables.MODES), what)
    what = next(_uncalled(node, names), what)
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        what = node.attr if node.attr == "requires_grad" else what
    if isinstance(node, ast.keyword) and node.arg == "requires_grad" and id(node) in names.late:
        what = "requires_grad"
    if what:
        yield (
            f"it uses {what}, which {does}, but this exercise asks for the derivative as a formula"
        )


def layers(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield calls of ``backward`` that may be a method of an own class or of a tensor."""
    for name in _of_layer(node, names):
        yield f"calls {name}: it may be the method of a tensor"


def _of_layer(node: ast.AST, names: Meaning) -> Iterator[str]:
    others = names.methods.keys() - names.functions
    if isinstance(node, ast.Attribute) and any(node.attr in names.methods[each] for each in others):
        for _ in _of_method(node, names):
            yield ast.unparse(node)


def _of_method(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield ``backward`` and ``jvp`` if a node reads them from an object that may be a tensor."""
    owner = _owner(node)
    of_own_class = owner is not None and (
        names.is_function(owner) or any(_is_own(node, name, names) for name in tables.METHODS)
    )
    if not of_own_class and not isinstance(node, ast.ImportFrom):
        yield from (name for name in _named(node, names) if name in tables.METHODS)


def _uncalled(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield the classes in :data:`tables.DIFFERENTIATING_BASES` that a node does not call."""
    called = node.func if isinstance(node, ast.Call) else None
    for child in ast.iter_child_nodes(node):
        stores = isinstance(getattr(child, "ctx", None), ast.Store | ast.Del)
        if child is called or stores or not isinstance(child, ast.expr):
            continue
        path = names.path(child)
        if path and not reaching.renames(node, child):
            bases = map(value_at, tables.DIFFERENTIATING_BASES)
            if derives(path, tuple(filter(None, bases))):
                yield path


@lru_cache(10_000)
def _differentiates(path: str) -> bool:
    """Return whether a path leads to a function that differentiates, perhaps by another name."""
    if any(path == each or path.startswith(f"{each}.") for each in tables.DIFFERENTIATORS):
        return True
    found = value_at(path)
    loaded = (each for each in tables.DIFFERENTIATORS if each.rpartition(".")[0] in sys.modules)
    return found is not None and any(found is value_at(each) for each in loaded)


def suspends(node: ast.AST) -> Iterator[str]:
    """Yield blocks that a generator leaves later, and with them a grad mode such as ``no_grad``."""
    if isinstance(node, ast.With | ast.AsyncWith):
        inner = (part for each in node.body for part in ast.walk(each))
        if any(isinstance(part, ast.Yield | ast.YieldFrom | ast.Await) for part in inner):
            yield f"yields in `with {ast.unparse(node.items[0])}`, so it can change the grad mode"


def steps(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield scalings by a constant, as in a finite difference or a complex step.

    These are divisions by a small constant and multiplications by a large one. Also yield methods
    that differentiate a polynomial.
    """
    for how, factor in _scalings(node, names):
        size = number(factor, names.numbers)
        if size is None:
            continue
        if 0 < abs(size) <= tables.SMALL if how == "divides" else abs(size) >= tables.LARGE:
            yield f"{how} by {ast.unparse(factor)}, as a finite difference does"
    for name in _named(node, names):
        if name in tables.OF_POLYNOMIALS - names.own_attributes:
            yield f"uses {name}, which differentiates a polynomial"


def _scalings(node: ast.AST, names: Meaning) -> Iterator[tuple[str, ast.expr]]:
    """Yield the expressions by which a node divides or multiplies."""
    match node:
        case ast.BinOp(op=ast.Div(), right=right) | ast.AugAssign(op=ast.Div(), value=right):
            yield "divides", right
        case ast.BinOp(op=ast.Pow(), left=left, right=right) if number(right, {}) == -1:
            yield "divides", left
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            yield "multiplies", left
            yield "multiplies", right
        case ast.AugAssign(op=ast.Mult(), value=right) | ast.keyword(arg="alpha", value=right):
            yield "multiplies", right
        case ast.Call(func=func, args=arguments, keywords=keywords):
            name = func.attr if isinstance(func, ast.Attribute) else names.path(func)
            name = name.rpartition(".")[2].rstrip("_")
            others = [each.value for each in keywords if each.arg == "other"]
            if name in tables.DIVIDING:
                yield from (("divides", each) for each in (*arguments[-1:], *others))
            elif name in tables.MULTIPLYING:
                yield from (("multiplies", each) for each in (*arguments, *others))


def _is_off(node: ast.AST) -> bool:
    """Return whether code turns off what autograd needs, as in ``requires_grad=False``."""
    match node:
        case ast.keyword(arg="requires_grad", value=ast.Constant(value=False)):
            return True
    return False


def _is_own(node: ast.AST, name: str, names: Meaning) -> bool:
    """Return whether a node uses an attribute that the answer itself defines.

    This is a method of its own class, as in ``Square.slope``, an attribute of its own object, as in
    ``ctx.slope``, or a name that only modules have otherwise. Reading some names is harmless.
    """
    match node:
        case ast.Attribute(attr=attribute) if attribute != name:
            return False
        case ast.Attribute(ctx=ast.Load()) if name in tables.WRITTEN:
            return True
        case ast.Attribute(value=ast.Name(id=owner), ctx=ast.Load()) if (
            name in names.methods.get(owner, ()) and owner not in names.stored
        ):
            return True
        case ast.Attribute(value=value) if name in names.own_attributes and not names.path(value):
            own = names.is_new(value) or id(value) in names.receivers
            return (own and names.plain_bases) or name in tables.OF_MODULES
    return False


def _owner(node: ast.AST) -> ast.expr | None:
    """Return the object of which a node reads an attribute, or ``None`` if it is unknown."""
    match node:
        case ast.Attribute(value=owner) | ast.Call(func=ast.Name(id="getattr"), args=[owner, *_]):
            return owner
    return None


def _named(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield the attribute names that a node reads and the names that it imports from a module."""
    match node:
        case ast.Call(func=func, args=given) if names.path(func) in tables.COMPUTED_OPERATORS:
            for each in given:
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield from each.value.split(".")
        case ast.Attribute(attr=name):
            yield name
        case ast.ImportFrom(names=aliases):
            yield from (alias.name for alias in aliases)
        case ast.Call(func=ast.Name(id=getter), args=[_, ast.Constant(value=str(name)), *_]):
            if getter in tables.COMPUTED:
                yield name
        case ast.MatchClass(kwd_attrs=attributes):
            yield from attributes
        case ast.ClassDef():
            yield from reaching.inherited(node, names)
