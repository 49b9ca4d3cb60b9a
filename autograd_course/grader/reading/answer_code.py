"""Tell the code of an answer from code in the same cells that only tries the answer.

Students often try their Function in the cell that defines it. Such code may call ``backward`` or
register a hook. A statement that changes a name of the answer is part of the answer. The reader
remarks on other ways in which code can reach the answer, such as a global container.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from torch.autograd import Function

from autograd_course.extraction.statements import Statement
from autograd_course.grader.reading import tables
from autograd_course.grader.reading.libraries import imported
from autograd_course.grader.reading.scopes import bindings, decorators, root

# Reading these attributes of a class passes nothing from other code to the class.
_HARMLESS = {"apply", "backward", "forward", "jvp", "vmap", "setup_context", "__name__", "__doc__"}

# Libraries do not call methods with these names.
_TEST = re.compile("test|check|demo|example|sanity|self_test|try_|verify|main$")
_SETTING = {"setattr", "delattr", "setitem", "delitem"}


def answer_code(statements: Sequence[Statement], name: str) -> list[Statement]:
    """Return the statements that define or change ``name`` or the names that it needs.

    If no statement defines the name, return all of them.
    """
    if not any(name in each.binds for each in statements):
        return list(statements)
    libraries = _libraries(statements)
    other_names = _other_names(statements, libraries)
    changing: defaultdict[str, list[Statement]] = defaultdict(list)
    functions = {
        each.node.name: each.node for each in statements if isinstance(each.node, ast.FunctionDef)
    }
    for each in statements:
        own = [functions[name] for name, _ in decorators(each.node) if name in functions]
        by_decorators = (name for it in own for name in {*_changed(it)} - bindings(it))
        changes = {*each.changes, *_changed(each.node), *by_decorators} - libraries
        meant = (other_names[changed] for changed in changes if changed in other_names)
        for changed in each.binds.union(changes, *meant):
            changing[changed].append(each)
        for operator in _operators(each.node):
            changing[operator].append(each)
    counted: set[int] = set()
    waiting, seen = [name], {name}
    while waiting:
        for each in changing[waiting.pop()]:
            if id(each) not in counted:
                counted.add(id(each))
                needs = each.needs.union(_operators(each.node))
                waiting += needs - seen
                seen |= needs
    return [each for each in statements if id(each) in counted]


def _libraries(statements: Sequence[Statement]) -> frozenset[str]:
    """Return the names that imports bind, also those in blocks if nothing else binds the name."""
    found = frozenset().union(*(each.binds for each in statements if each.is_import))
    for each in statements:
        if not each.is_import and not isinstance(each.node, ast.ClassDef | ast.FunctionDef):
            parts = list(ast.walk(each.node))
            stored = {
                part.id
                for part in parts
                if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)
            }
            names = {name for part in parts for name, _ in imported(part)} - stored
            others = (other.binds for other in statements if other is not each)
            found |= names.difference(*others)
    return found


def without_tests(trees: Sequence[ast.Module]) -> list[ast.Module]:
    """Leave out methods that only try their class, such as a static method ``test``.

    Their names say so, they store nothing, and no other code of the answer contains their names,
    except for a call as a statement. ``trees`` holds the answer's statements in each cell.
    """
    statements = [node for tree in trees for node in tree.body if not _only_calls(node)]
    every = [part for node in statements for part in ast.walk(node)]
    tests = {
        id(each)
        for cls in every
        if isinstance(cls, ast.ClassDef) and all(map(_is_function, cls.bases))
        for each in cls.body
        if isinstance(each, ast.FunctionDef) and _is_test(each, every)
    }
    return [ast.Module([_without(node, tests) for node in tree.body], []) for tree in trees]


def _is_function(base: ast.expr) -> bool:
    """Return whether a base is ``Function``. The methods of other classes may call a test."""
    return ast.unparse(base).rpartition(".")[2] == "Function"


def _is_test(method: ast.FunctionDef, every: Sequence[ast.AST]) -> bool:
    plain = all(
        isinstance(each, ast.Name) and each.id in ("staticmethod", "classmethod")
        for each in method.decorator_list
    )
    if not plain or not _TEST.match(method.name) or hasattr(Function, method.name):
        return False
    inside = list(ast.walk(method))
    if any(map(_stores, inside)):
        return False
    known = set(map(id, inside))
    return not any(_names(node, method.name) for node in every if id(node) not in known)


def _only_calls(node: ast.stmt) -> bool:
    """Return whether a statement calls a method and drops the result, as in ``Square.test()``."""
    match node:
        case (
            ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name()), args=[], keywords=[]))
            | ast.Assert(test=ast.Call(func=ast.Attribute(value=ast.Name()), args=[], keywords=[]))
        ):
            return True
    return False


def _stores(node: ast.AST) -> bool:
    """Return whether code may change more than the variables of its function."""
    match node:
        case (
            ast.Global()
            | ast.Nonlocal()
            | ast.Attribute(ctx=ast.Store() | ast.Del())
            | ast.Subscript(ctx=ast.Store() | ast.Del())
        ):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in tables.MUTATING or name.strip("_") in _SETTING
    return False


def _names(node: ast.AST, name: str) -> bool:
    """Return whether a syntax node contains a name, perhaps in a text."""
    if isinstance(node, ast.Constant):
        return name in str(node.value)
    parts = (value if isinstance(value, list) else [value] for _, value in ast.iter_fields(node))
    return any(each == name for part in parts for each in part if isinstance(each, str))


def _without(node: ast.stmt, left_out: set[int]) -> ast.stmt:
    if not isinstance(node, ast.ClassDef):
        return node
    body = [each for each in node.body if id(each) not in left_out]
    if len(body) == len(node.body):
        return node
    fields = {**dict(ast.iter_fields(node)), "body": body}
    return ast.copy_location(ast.ClassDef(**fields), node)


def _other_names(statements: Sequence[Statement], libraries: frozenset[str]) -> dict[str, set[str]]:
    """Map each name that may refer to the same object as others to the other names.

    ``M = Box``, ``M = (Box,)[0]`` and ``for M in [Box]`` are examples. ``M = Box.apply(x)`` is not.
    """
    own = frozenset().union(*(each.binds for each in statements)) - libraries
    groups: dict[str, set[str]] = {}
    for each in statements:
        if isinstance(each.node, ast.ClassDef | ast.FunctionDef) or not each.binds:
            continue
        group: set[str] = set(own) & {*each.binds, *_handed_on(each.node)}
        for name in tuple(group):
            group |= groups.get(name, set())
        groups.update(dict.fromkeys(group, group))
    return groups


def _handed_on(node: ast.AST) -> Iterator[str]:
    """Yield the names that code uses as values.

    Leave out owners of a Function's methods, and containers that only receive an element.
    """
    harmless = {
        id(part.value)
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and part.attr in _HARMLESS
    }
    for part in ast.walk(node):
        match part:
            case ast.Call(func=ast.Attribute(value=owner, attr=name) as called):
                harmless |= {id(called), id(owner)} if name in tables.MUTATING else {id(called)}
            case ast.Call(func=called):
                harmless.add(id(called))
            case ast.Subscript(value=owner, ctx=ast.Store()):
                harmless.add(id(owner))
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and id(part) not in harmless:
            yield part.id


def _operators(node: ast.AST) -> Iterator[str]:
    """Yield the operators that a statement mentions, such as ``"exercises::f"``."""
    for part in ast.walk(node):
        match part:
            case ast.Constant(value=str(text)) if re.fullmatch(r"\w+::\w+(\.\w+)?", text):
                yield text.partition(".")[0]
            case ast.Attribute(
                attr=name,
                value=ast.Attribute(attr=home, value=ast.Attribute(attr="ops")),
            ):
                yield f"{home}::{name}"


def _changed(node: ast.AST) -> Iterator[str]:
    """Yield the names of objects that a statement, or a function in it, may bind or change."""
    for part in ast.walk(node):
        match part:
            case ast.Global(names=names):
                yield from names
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del())
                | ast.Subscript(ctx=ast.Store() | ast.Del())
            ):
                yield root(part)
            case ast.Call(func=ast.Attribute(attr=name) as method) if name in tables.MUTATING:
                yield root(method)
            case ast.Attribute(attr=name) if name.startswith("register_"):
                yield root(part)  # the methods of a custom operator
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[ast.Name(id=name), *_]):
                yield name
