"""Find out what the names in an answer's cells mean: imports, definitions, constants and data."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from autograd_course.grader.reading.tables import CONTAINERS

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass
class Meaning:
    """The names that the cells define at the top level, and everything that they import.

    ``imports`` maps a name to the dotted path that it refers to. ``data`` contains the names of
    objects that are created once and that later code can change. ``defined`` contains the names of
    classes and functions.
    """

    imports: dict[str, str] = field(default_factory=dict)
    data: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)

    def path(self, node: ast.expr) -> str:
        """Return the dotted path that a chain of attributes refers to, or ``""`` if it is unknown.

        This method uses a loop instead of recursion, because an answer can contain a chain of any
        length.
        """
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imports:
            return ""
        return ".".join((self.imports[node.id], *reversed(attributes)))


def meaning(trees: Sequence[ast.Module]) -> Meaning:
    """Return the meaning of the names in the cells, regardless of the order of the statements."""
    found = Meaning()
    for tree in trees:
        for node in ast.walk(tree):
            found.imports.update(imported(node))
            if isinstance(node, ast.ClassDef):
                found.classes.add(node.name)
    for tree in trees:
        for statement in tree.body:
            _bind(statement, found)
    for _ in range(3):  # m = torch; n = m
        for tree in trees:
            found.imports.update(_aliases(tree, found))
    return found


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each name that an import statement defines, and the path that the name refers to."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            if alias.name == "*":
                yield from ((name, f"{node.module}.{name}") for name in _public(node.module or ""))
            else:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def module(path: str) -> ModuleType | None:
    """Return the module with this dotted path if Python has already imported it, or ``None``."""
    top, *rest = path.split(".")
    found: Any = sys.modules.get(top)
    for name in rest:
        if not isinstance(found, ModuleType):
            return None
        inner = vars(found).get(name, sys.modules.get(f"{found.__name__}.{name}"))
        found = inner
    return found if isinstance(found, ModuleType) else None


def bindings(scope: Scope) -> set[str]:
    """Return the names that a function binds. Names in nested functions are not included."""
    names = {arg.arg for arg in _arguments(scope)}
    body = [scope.body] if isinstance(scope, ast.Lambda) else scope.body
    declared: set[str] = set()
    for node in _own(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(name for name, _ in imported(node))
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            declared.update(node.names)
    return names - declared


def lasting_parameters(scope: Scope) -> set[str]:
    """Return the parameters whose default value is a mutable object that all calls share."""
    arguments = scope.args
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return {name.arg for name, default in pairs if default is not None and is_data(default)}


def is_data(value: ast.expr, classes: set[str] | None = None) -> bool:
    """Return whether an expression creates a container that later code can change."""
    if isinstance(value, ast.Tuple):
        return any(is_data(item, classes) for item in value.elts)
    if isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else ""
        name = value.func.id if isinstance(value.func, ast.Name) else name
        return name in CONTAINERS or name in (classes or ())
    kinds = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    return isinstance(value, kinds | ast.GeneratorExp)


def _bind(statement: ast.stmt, found: Meaning) -> None:
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            found.defined.add(name)
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                _assign(target, value, found)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            _assign(target, value, found)
        case ast.If() | ast.With() | ast.For() | ast.Try() | ast.While():
            for inner in ast.iter_child_nodes(statement):
                if isinstance(inner, ast.stmt):
                    _bind(inner, found)


def _assign(target: ast.expr, value: ast.expr, found: Meaning) -> None:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            found.bound.add(node.id)
            if is_data(value, found.classes):
                found.data.add(node.id)


def _aliases(tree: ast.Module, found: Meaning) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ) if path := found.path(value):
                yield name, path


def _arguments(scope: Scope) -> Iterator[ast.arg]:
    arguments = scope.args
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from filter(None, (arguments.vararg, arguments.kwarg))


def _own(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes in a function's body, except those in the bodies of nested functions."""
    left = list(body)
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, Scope | ast.ClassDef):
            left.extend(ast.iter_child_nodes(node))


def _public(name: str) -> list[str]:
    found = sys.modules.get(name)
    if found is None:
        return []
    return list(getattr(found, "__all__", [each for each in vars(found) if each[:1] != "_"]))
