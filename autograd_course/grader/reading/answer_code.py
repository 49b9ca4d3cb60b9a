"""Tell the code of an answer from code in the same cells that only tries the answer.

Students often try their Function in the cell that defines it. Such code may call ``backward`` or
register a hook, because it runs before the grader asks for anything. But it must not give the
answer an object that can do so later, such as a function or a mode.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

from autograd_course.extraction.statements import Statement
from autograd_course.grader.reading.meaning import Meaning, Scope

# Reading these attributes of a class passes nothing from other code to the class.
_HARMLESS = {"apply", "backward", "forward", "jvp", "vmap", "setup_context", "__name__", "__doc__"}
# A call of these returns an object that has an effect later, unless a with statement enters it.
_MODES = {
    "disable_saved_tensors_hooks", "dual_level", "enable_grad", "inference_mode", "save_on_cpu",
    "saved_tensors_hooks", "set_grad_enabled",
}  # fmt: skip


def answer_code(statements: Sequence[Statement], name: str) -> list[Statement]:
    """Return the statements that define ``name`` and the names that it needs.

    If no statement defines the name, return all of them. The result also contains every class, and
    every function that code may pass on as a value.
    """
    if not any(name in each.binds for each in statements):
        return list(statements)
    changing: defaultdict[str, list[Statement]] = defaultdict(list)
    other_names = _other_names(statements)
    for each in statements:
        changes = {*each.changes, *_changed(each.node)}
        meant = (other_names[changed] for changed in changes if changed in other_names)
        for changed in each.binds.union(changes, *meant):
            changing[changed].append(each)
    values = {value for each in statements for value in _values(each.node)}
    found = [each for each in statements if _may_be_called_later(each.node, values)]
    seen = {name}.union(*(each.needs for each in found))
    waiting = [*seen]
    counted = set(map(id, found))
    while waiting:
        for each in changing[waiting.pop()]:
            if id(each) not in counted:
                counted.add(id(each))
                waiting += each.needs - seen
                seen |= each.needs
    return [each for each in statements if id(each) in counted]


def lasting(node: ast.AST, names: Meaning) -> Iterator[ast.AST]:
    """Yield the nodes of code that only tries an answer, without what ends with this code."""
    later = {id(part) for scope in _scopes(node) for part in ast.walk(scope)}
    ending = {
        id(part)
        for parent in ast.walk(node)
        for part in _ending(parent, names)
        if id(part) not in later
    }
    yield from (part for part in ast.walk(node) if id(part) not in ending)


def _other_names(statements: Sequence[Statement]) -> dict[str, set[str]]:
    """Map each name that may refer to the same object as others to the other names.

    ``M = Box``, ``M = (Box,)[0]`` and ``for M in [Box]`` are examples. ``M = Box.apply(x)`` is not.
    """
    groups: dict[str, set[str]] = {}
    for each in statements:
        if isinstance(each.node, ast.ClassDef | ast.FunctionDef) or not each.binds:
            continue
        group = {*each.binds, *_handed_on(each.node)}
        for name in tuple(group):
            group |= groups.get(name, set())
        groups.update(dict.fromkeys(group, group))
    return groups


def _handed_on(node: ast.AST) -> Iterator[str]:
    """Yield the names that code uses as values, except owners of a Function's methods."""
    harmless = {
        id(part.value)
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and part.attr in _HARMLESS
    }
    called = {id(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and id(part) not in harmless | called:
            yield part.id


def _changed(node: ast.AST) -> Iterator[str]:
    """Yield the global names that a statement, or a function in it, may bind or change."""
    for part in ast.walk(node):
        match part:
            case ast.Global(names=names):
                yield from names
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[ast.Name(id=name), *_]):
                yield name


def _values(node: ast.AST) -> Iterator[str]:
    """Yield the names that code mentions without calling them."""
    called = {id(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and id(part) not in called:
            yield part.id


def _may_be_called_later(node: ast.stmt, values: set[str]) -> bool:
    """Return whether code may store a function of this statement, and call it later."""
    if isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
        return True
    if not isinstance(node, ast.FunctionDef):
        return False
    stops = any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node))
    return stops or bool(node.decorator_list) or node.name in values


def _scopes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the functions, generators and classes in a statement, but not the statement itself."""
    for part in ast.walk(node):
        if isinstance(part, Scope | ast.GeneratorExp | ast.ClassDef) and part is not node:
            yield part


def _ending(node: ast.AST, names: Meaning) -> Iterator[ast.AST]:
    """Yield the parts of a node whose effect ends with it, such as the method that a call runs."""
    match node:
        case ast.ImportFrom() | ast.keyword() | ast.Attribute(ctx=ast.Store()):
            yield node
        case ast.Expr() | ast.Assert():  # such as print(y.grad_fn)
            graph = (part for part in ast.walk(node) if isinstance(part, ast.Attribute))
            yield from (part for part in graph if part.attr in ("grad_fn", "next_functions"))
    match node:
        case (
            ast.withitem(context_expr=ast.Call(func=function))
            | ast.Expr(value=ast.Call(func=function))
        ):
            yield from _chain(function)
        case ast.Call(func=ast.Call(func=function)) if not _is_mode(function):
            yield from _chain(function)  # torch.func.grad(f)(x)
        case ast.Call(func=ast.Attribute() | ast.Name() as function) if not _is_mode(function):
            if not names.path(function).startswith("torch.func."):
                yield from _chain(function)


def _is_mode(function: ast.expr) -> bool:
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return name in _MODES


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    yield node
    while isinstance(node, ast.Attribute):
        node = node.value
        yield node
