"""Find the names that surely refer to a ``ctx``, or to an object of the answer's own class.

An answer may set attributes of such an object. A name such as ``self`` is not enough, because it
can also refer to a class of PyTorch.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from autograd_course.grader.reading.scopes import (
    Scope,
    bindings,
    first_parameter,
    is_class_method,
    is_named,
)

_NAMES = {"ctx", "self"}
_Functions = dict[str, ast.FunctionDef | None]
_METHODS = {"forward", "backward", "setup_context", "jvp"}


@dataclass(frozen=True)
class _Receiver:
    """A function, the class that contains it, and the names of its first parameter in it."""

    function: ast.FunctionDef
    owner: ast.ClassDef | None
    first: str
    names: frozenset[int]

    def is_read_by(
        self, node: ast.AST, call: ast.Call | None, is_object: Callable[[ast.expr], bool]
    ) -> bool:
        """Return whether a node reads the function by its name, or the method from its class.

        ``call`` is the call of what the node reads, if any. ``is_object`` says whether an
        expression is an object of the answer's own class.
        """
        match node:
            case ast.Name():
                return self.owner is None or node in self._class_level
            case ast.Attribute(value=value) | ast.Call(args=[value, *_]) if self.owner is not None:
                decorators = self.function.decorator_list
                static = any(is_named(each, "staticmethod") for each in decorators)
                return static or not (is_object(value) or self._needs_object(call))
        return False

    @cached_property
    def _class_level(self) -> Collection[ast.AST]:
        """The nodes in the body of the class that are outside of its methods."""
        body = self.owner.body if self.owner is not None else []
        return [part for each in body if not isinstance(each, Scope) for part in ast.walk(each)]

    def _needs_object(self, call: ast.Call | None) -> bool:
        """Return whether a call passes so few arguments that Python has to add the object."""
        if call is None or any(isinstance(each, ast.Starred) for each in call.args):
            return False
        words = {word.arg for word in call.keywords}
        parameters = self.function.args
        plain = [*parameters.posonlyargs, *parameters.args]
        required = len(plain) - len(parameters.defaults)
        return not words & {None, self.first} and len(call.args) + len(words) < required


@dataclass
class _Uses:
    """How code uses functions. A syntax node is stored as its ``id``."""

    reads: defaultdict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    calls: dict[int, ast.Call] = field(default_factory=dict)  # by the node of their function
    harmless: set[int] = field(default_factory=set)  # PyTorch or a decorator passes the object


def receivers(
    trees: Sequence[ast.Module],
    is_own: Callable[[ast.expr], bool],
    path: Callable[[ast.expr], str],
) -> set[int]:
    """Return the ids of the names that refer to the first parameter of a method or a helper.

    Leave out a function if it binds the name again, or if code may call it with another object.
    ``is_own`` says whether an expression is an object that the answer creates. ``path`` returns
    the dotted path of an imported object.
    """
    every = [node for tree in trees for node in ast.walk(tree)]
    left, uses = list(_receivers(every, path)), _uses(every)
    while True:
        names = frozenset().union(*(each.names for each in left))
        kept = [each for each in left if _receives(each, uses, names, is_own)]
        if len(kept) == len(left):
            return set(names)
        left = kept


def _receives(
    each: _Receiver, uses: _Uses, names: frozenset[int], is_own: Callable[[ast.expr], bool]
) -> bool:
    """Return whether code calls the function with no other objects than those that are known."""

    def is_object(value: ast.expr) -> bool:
        return id(value) in names or is_own(value) or _is_super(value)

    for node in uses.reads[each.function.name]:
        call = uses.calls.get(id(node))
        if id(node) in uses.harmless or not each.is_read_by(node, call, is_object):
            continue
        words = [word.value for word in call.keywords if word.arg == each.first] if call else []
        given = [*call.args[:1], *words] if call else []
        if not given or not is_object(given[0]):
            return False
    return True


def _is_super(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    )


def _receivers(every: Sequence[ast.AST], path: Callable[[ast.expr], str]) -> Iterator[_Receiver]:
    classes = (node for node in every if isinstance(node, ast.ClassDef))
    owners = {id(part): node for node in classes for part in node.body}
    functions = _functions(every)
    for node in every:
        if not isinstance(node, ast.FunctionDef) or is_class_method(node):
            continue
        if not all(_passes_on(each, functions, path) for each in node.decorator_list):
            continue
        owner = owners.get(id(node))
        first = first_parameter(node)
        if first in _NAMES or (first and owner is not None and node.name in _METHODS):
            inside = list(_inside(node, first))
            if not any(_binds(part, first) for part in inside):
                named = (part for part in inside if isinstance(part, ast.Name) and part.id == first)
                yield _Receiver(node, owner, first, frozenset(map(id, named)))


def _functions(every: Sequence[ast.AST]) -> _Functions:
    """Return the names that the cells define, with the function if it is the only definition."""
    found: _Functions = {}
    for node in every:
        match node:
            case ast.FunctionDef(name=name):
                found[name] = None if name in found else node
            case ast.Name(id=name, ctx=ast.Store()) | ast.ClassDef(name=name):
                found[name] = None
    return found


def _passes_on(decorator: ast.expr, functions: _Functions, path: Callable[[ast.expr], str]) -> bool:
    """Return whether a decorated function surely gets the first argument of its caller."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    match called:
        case ast.Name(id=name) if name in functions:
            known = functions[name]
            is_factory = called is not decorator
            return known is not None and _hands_first_argument_on(known, is_factory=is_factory)
        case ast.Name(id="staticmethod" | "property") | ast.Attribute(attr="setter"):
            return True
    return not path(called).startswith("functools.partial") and path(called) != ""


def _hands_first_argument_on(decorator: ast.FunctionDef, *, is_factory: bool) -> bool:
    """Return whether a decorator calls what it decorates only as ``f(*args)`` or ``f(self, …)``.

    A factory returns the decorator. Its own parameters are not the decorated function.
    """
    scopes = [node for node in ast.walk(decorator) if isinstance(node, Scope)][is_factory:]
    outer = [each for each in scopes if sum(isinstance(it, Scope) for it in ast.walk(each)) > 1]
    inner = [each for each in scopes if each not in outer]
    decorated = {first_parameter(each) for each in outer or inner}
    objects = {first_parameter(each) for each in inner}
    harmless: set[int] = set()
    for node in ast.walk(decorator):
        match node:
            case ast.Call(func=function, args=[ast.Starred(), *_]):
                harmless.add(id(function))
            case ast.Call(func=function, args=[ast.Name(id=name), *_]) if name in objects:
                harmless.add(id(function))
            case ast.Call(func=ast.Name(id="wraps") | ast.Attribute(attr="wraps"), args=[value]):
                harmless.add(id(value))
            case ast.Attribute(attr="__name__" | "__qualname__", value=value):
                harmless.add(id(value))
            case ast.Return(value=ast.Name() as value):
                harmless.add(id(value))
    names = (node for node in ast.walk(decorator) if isinstance(node, ast.Name))
    return all(id(node) in harmless for node in names if node.id in decorated)


def _inside(function: ast.FunctionDef, name: str) -> Iterator[ast.AST]:
    """Yield the nodes in a function, but not those in functions with their own such variable."""
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        yield node
        if not (isinstance(node, Scope) and name in bindings(node)):
            left.extend(ast.iter_child_nodes(node))


def _binds(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Name(id=bound, ctx=ast.Store() | ast.Del()):
            return bound == name
        case ast.Nonlocal(names=bound) | ast.Global(names=bound):
            return name in bound
        case ast.alias(name=path, asname=alias):
            return name in (path, alias)
        case (
            ast.FunctionDef(name=bound)
            | ast.AsyncFunctionDef(name=bound)
            | ast.ClassDef(name=bound)
            | ast.MatchAs(name=bound)
            | ast.MatchStar(name=bound)
            | ast.MatchMapping(rest=bound)
            | ast.ExceptHandler(name=bound)
        ):
            return bound == name
    return False


def _uses(every: Sequence[ast.AST]) -> _Uses:
    found = _Uses()
    for node in every:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                found.reads[name].append(node)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                found.reads[name].append(node)
            case ast.ClassDef(body=body):
                for part in body:  # such as forward = staticmethod(helper)
                    if isinstance(part, ast.Assign) and _target(part) in _METHODS:
                        found.harmless.update(map(id, ast.walk(part.value)))
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if name in _METHODS:
                found.harmless.update(map(id, ast.walk(value)))
            case ast.Call(func=ast.Name(id="type"), args=[_, _, ast.Dict(values=values)]):
                harmless = (part for value in values for part in ast.walk(value))
                found.harmless.update(map(id, harmless))
            case ast.Call(func=ast.Attribute(attr="register_autograd"), args=arguments):
                found.harmless.update(map(id, arguments))
            case ast.keyword(arg="setup_context", value=value):
                found.harmless.add(id(value))
        if isinstance(node, ast.Call):
            found.calls[id(node.func)] = node
        found.harmless.update(map(id, getattr(node, "decorator_list", ())))
    return found


def _target(node: ast.Assign) -> str:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
