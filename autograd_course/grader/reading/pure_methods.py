"""Find the methods of the answer's own classes that leave their object alone.

Such a method may have the name of a method that changes a list or a set, such as ``add``.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from autograd_course.grader.reading.scopes import bound_in
from autograd_course.grader.reading.tables import CONTAINERS

_CONTAINERS = CONTAINERS - {"Module"}  # a module has no method with such a name


def pure_methods(nodes: Sequence[ast.AST], is_library: Callable[[ast.expr], bool]) -> set[str]:
    """Return the names of methods that surely leave their object alone, in every class.

    Return none if a class inherits the methods of a container. ``is_library`` says whether an
    expression is a function of a library or of Python.
    """
    pure: defaultdict[str, list[bool]] = defaultdict(list)
    for node in nodes:
        match node:
            case ast.ClassDef(bases=bases):
                if any(ast.unparse(base).rpartition(".")[2] in _CONTAINERS for base in bases):
                    return set()
                for name, leaves in _methods(node, is_library):
                    pure[name].append(leaves)
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()) | ast.keyword(arg=str(name)):
                pure[name].append(False)
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[_, name, *_]):
                pure[getattr(name, "value", "")].append(False)
                if not isinstance(name, ast.Constant):
                    return set()
    return {name for name, every in pure.items() if all(every)}


def _methods(
    node: ast.ClassDef, is_library: Callable[[ast.expr], bool]
) -> Iterator[tuple[str, bool]]:
    for part in node.body:
        match part:
            case ast.FunctionDef(name=name, decorator_list=[ast.Name(id="staticmethod")]):
                yield name, True
            case ast.FunctionDef(name=name, decorator_list=[] | [ast.Name(id="classmethod")]):
                yield name, _leaves_object(part, is_library)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, False
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Name(id="staticmethod"), args=[ast.Lambda()]),
            ):
                yield name, True
            case ast.Assign() | ast.AnnAssign():
                for name in bound_in([part]):
                    yield name, False


def _leaves_object(method: ast.FunctionDef, is_library: Callable[[ast.expr], bool]) -> bool:
    """Return whether a method only computes with the attributes of its object."""
    if not method.args.args:
        return False
    first = method.args.args[0].arg
    parents = {id(part): node for node in ast.walk(method) for part in ast.iter_child_nodes(node)}
    for node in ast.walk(method):
        if not isinstance(node, ast.Name) or node.id != first:
            continue
        match parents[id(node)]:
            case ast.Attribute(ctx=ast.Load()) as attribute:
                around = parents[id(attribute)]
            case _:
                return False
        match around:
            case ast.BinOp() | ast.UnaryOp() | ast.Compare():
                pass
            case ast.Call(func=function) if function is not attribute and is_library(function):
                pass
            case _:
                return False
    return True
