"""Find state that a Function keeps between calls in globals, classes, defaults or closures."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from autograd_course.grader.reading import tables
from autograd_course.grader.reading.meaning import Meaning
from autograd_course.grader.reading.scopes import (
    Scope,
    bindings,
    body_of,
    declared,
    defaults,
    lasting_parameters,
    root,
)

_Use = tuple[ast.AST, str, bool]
_WHY = "which outlives the call: pass what `backward` needs to `ctx.save_for_backward`"
_CACHES = "keeps results from call to call"
_KEEPING = {"classmethod", "partial", "property", "setattr", "staticmethod", "tuple", "zip"}
_OF_FACTS = {"bool", "int", "len", "list", "repr", "round", "sorted", "str", "tuple"}
_OF_TENSORS = {"add"}  # methods that change a set, but not a tensor


def uses(tree: ast.Module, names: Meaning) -> Iterator[_Use]:
    """Yield state that functions keep between calls. A check looks for state on ctx."""
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and names.path(node) in tables.CACHES:
            yield node, _CACHES, False
    for node in _from_classes(tree, names):
        if id(node) in names.late:
            yield node, f"uses {ast.unparse(node)}, which is made once for all calls", False
    for node in _changing(ast.walk(tree), names):
        if id(node) not in names.late:
            yield node, f"hands on {ast.unparse(node)}, which changes an object", False
    scopes = list(_scopes(tree.body))
    early = _early(tree, scopes)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for each in classes:
        if each.name in early:
            yield from _kept_on(each, names)
    methods = {id(part) for each in classes for part in ast.walk(each)}
    at_start = set() if any(id(each) in names.late for each in classes) else names.inside
    if any(map(_calls_init_subclass, ast.walk(tree))):
        at_start = set()
    for scope in scopes:
        if getattr(scope, "name", "") == "__init_subclass__" and id(scope) in at_start:
            continue  # it runs when the cells define a class
        stored = _Stored(names)
        late = None if id(scope) in methods else _late_parts(scope, names)
        if late is not None:
            for inner, outer in late:
                yield from stored.within(inner, outer, outer)
            continue
        yield from stored.within(scope, set(), set())
        if isinstance(scope, ast.Lambda) or scope.name in early:
            yield from _handed_out(scope, stored)


def _from_classes(tree: ast.Module, names: Meaning) -> Iterator[ast.Attribute]:
    """Yield the reads of an object that a class keeps and that other code may change.

    A container counts only if code hands it on.
    """
    kept = names.objects | names.containers
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Attribute(attr=name, value=ast.Name(), ctx=ast.Load()) if name in kept:
                    if name in names.objects or not _reads_elements(node, child, names):
                        yield child


def _reads_elements(node: ast.AST, container: ast.expr, names: Meaning) -> bool:
    """Return whether a node only reads or changes a container itself, and does not hand it on."""
    match node:
        case ast.Call(func=function):
            return (
                function is container
                or bool(names.path(function))
                or names.is_builtin(function)
                or isinstance(function, ast.Attribute)
            )
        case ast.Attribute() | ast.Subscript() | ast.Compare() | ast.For() | ast.comprehension():
            return True
    return isinstance(node, ast.FormattedValue | ast.Starred | ast.BoolOp | ast.If | ast.IfExp)


def _calls_init_subclass(node: ast.AST) -> bool:
    """Return whether code reads ``__init_subclass__`` from a class, other than from ``super()``."""
    match node:
        case ast.Attribute(attr="__init_subclass__", value=ast.Call(func=ast.Name(id="super"))):
            return False
        case ast.Attribute(attr="__init_subclass__"):
            return True
    return False


def _kept_on(node: ast.ClassDef, names: Meaning) -> Iterator[_Use]:
    """Yield the properties of a class that keep results on an object, if it outlives a call."""
    for method in node.body:
        for decorator in getattr(method, "decorator_list", ()):
            if names.path(decorator) == "functools.cached_property":
                yield decorator, _CACHES, False


def _late_parts(function: Scope, names: Meaning) -> list[tuple[Scope, set[str]]] | None:
    """Return the functions in a decorator that run later than the decorator itself.

    Each comes with the variables of the functions around it. Return ``None`` if the function may
    run later than the cells. A decorator runs only once, before all calls. A function that no code
    reads never runs, so for such a function, return an empty list.
    """
    if not isinstance(function, ast.FunctionDef):
        return None
    if names.read[function.name] == 0:
        return None if _is_handed_on(function, names) else []
    own = bindings(function)
    nested = [(node, own) for node in _nodes(function.body) if isinstance(node, Scope)]
    if names.only_decorates(function.name):
        return nested
    if not names.only_makes_decorators(function.name):
        return None
    made = _returned(function)
    late = [(inner, outer) for inner, outer in nested if inner is not made]
    if made:
        around = own | bindings(made)
        late += [(node, around) for node in _nodes(made.body) if isinstance(node, Scope)]
    return late


def _is_handed_on(function: ast.FunctionDef, names: Meaning) -> bool:
    """Return whether a decorator may hand a function to other code."""
    paths = map(names.path, function.decorator_list)
    others = any(path != "contextlib.contextmanager" for path in paths)
    return others or not names.is_whole or function.name.startswith("__")


def _returned(function: ast.FunctionDef) -> ast.FunctionDef | None:
    """Return the nested function that a function only returns."""
    nodes = list(ast.walk(function))
    for each in function.body:
        if isinstance(each, ast.FunctionDef) and not each.decorator_list:
            named = [node for node in nodes if isinstance(node, ast.Name) and node.id == each.name]
            match function.body[-1]:
                case ast.Return(value=ast.Name() as value) if named == [value]:
                    return each
    return None


def _handed_out(scope: Scope, stored: _Stored) -> Iterator[_Use]:
    """Yield the state that a function keeps if it runs before all calls, as in ``f = make()``.

    Its variables outlive the call if it hands out a nested function that changes them.
    """
    nodes = [node for node in ast.walk(scope) if node is not scope]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    called = {id(call.func) for call in calls}
    given = {
        id(value): call
        for call in calls
        for value in (*call.args, *(keyword.value for keyword in call.keywords))
    }
    for method in _changing(nodes, stored.names):
        if root(method) in bindings(scope) and not stored.only_calls(given.get(id(method))):
            yield method, f"it hands out {ast.unparse(method)}, {_WHY}", True
    for inner in (node for node in _nodes(body_of(scope)) if isinstance(node, Scope)):
        reads = _reads(inner, nodes)
        kept = [node for node in reads if id(node) not in called]
        kept = [node for node in kept if not stored.only_calls(given.get(id(node)))]
        if kept:
            surely = any(id(node) not in given for node in kept)
            for node, what, is_forbidden in stored.within(inner, bindings(scope), bindings(scope)):
                yield node, what, is_forbidden and surely


def _changing(nodes: Iterable[ast.AST], names: Meaning) -> Iterator[ast.Attribute]:
    """Yield the methods that change an object and are not called at once, as in ``x.append``."""
    every = list(nodes)
    called = {id(node.func) for node in every if isinstance(node, ast.Call)}
    for node in every:
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()) if name in tables.MUTATING:
                if id(node) not in called and not names.path(node):
                    yield node


def _reads(inner: Scope, nodes: list[ast.AST]) -> list[ast.AST]:
    """Return the nodes that read a nested function: its names, or the ``lambda`` itself."""
    name = "" if isinstance(inner, ast.Lambda) else inner.name
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if value is inner:
                name = target
            case ast.ClassDef(body=body) if inner in body:
                name = ""  # a method
    found = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    return [node for node in found if isinstance(node.ctx, ast.Load)] if name else [inner]


def _early(tree: ast.Module, scopes: list[Scope]) -> set[str]:
    """Return the functions and methods that may run before all calls, by their names."""
    found: set[str] = set()
    left: list[ast.AST] = list(tree.body)
    inside = {scope.name: scope for scope in scopes if not isinstance(scope, ast.Lambda)}
    while left:
        node = left.pop()
        name = getattr(node, "id", getattr(node, "attr", ""))
        if isinstance(getattr(node, "ctx", None), ast.Load) and name not in found:
            found.add(name)
            left += ast.walk(inside[name]) if name in inside else []
        if isinstance(node, Scope):
            left += getattr(node, "decorator_list", [])
            left += [default for _, default in defaults(node.args)]
        else:
            left.extend(ast.iter_child_nodes(node))
    return found


def _scopes(body: list[ast.stmt]) -> Iterator[Scope]:
    """Yield the functions and methods that are not nested in another function."""
    left: list[ast.AST] = list(body)
    while left:
        node = left.pop(0)
        if isinstance(node, Scope):
            yield node
        else:
            left.extend(ast.iter_child_nodes(node))


class _Stored:
    def __init__(self, names: Meaning) -> None:
        self.names = names

    def within(self, scope: Scope, outer: set[str], lasting: set[str]) -> Iterator[_Use]:
        """Yield the state that a function keeps. ``outer`` contains the enclosing scopes' names."""
        own = bindings(scope)
        local = (outer - declared(scope)) | own
        lasting = (lasting - own) | lasting_parameters(scope)
        lasting |= {"cls"} & own
        nodes = list(_nodes(body_of(scope)))
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if self._lasts(value, local, lasting) and root(value):
                        lasting |= {name}
        harmless = {*map(id, self._records(nodes)), *self._printed(nodes)}
        of_constants = set(map(id, self._tables(nodes)))
        for node in nodes:
            if id(node) in harmless:
                continue
            for where, what, is_forbidden in self._stores(node, local, lasting):
                if id(node) in of_constants:
                    yield (
                        where,
                        f"keeps a table of constants from call to call in {_held(node)}",
                        False,
                    )
                else:
                    yield where, what, is_forbidden
            if isinstance(node, Scope):
                yield from self.within(node, local, lasting)

    def _records(self, nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
        """Yield changes of a container that add only times, shapes or texts to it."""
        for node in nodes:
            match node:
                case (
                    ast.Assign(targets=[ast.Subscript() as target], value=value)
                    | ast.AugAssign(target=ast.Subscript() as target, value=value)
                ):
                    if self._describes(value) and self._is_key(target.slice):
                        yield from self._container(target)
                case ast.Call(
                    func=ast.Attribute(value=owner, attr="append" | "add" | "extend" | "update"),
                    args=[value],
                    keywords=[],
                ):
                    if self._describes(value):
                        yield node
                        yield from self._container(owner)

    def _is_key(self, node: ast.expr, *, unknown: bool = False) -> bool:
        """Return whether a key is a time, a shape or a text, also if it is an argument.

        ``unknown`` says what to return if no code passes this argument.
        """
        if isinstance(node, ast.Name) and node.id not in self.names.values:
            given = self.names.passed.get(node.id, [])
            return all(map(self._describes, given)) if given else unknown
        return self._describes(node)

    def _printed(self, nodes: Iterable[ast.AST]) -> Iterator[int]:
        """Yield the ids of the arguments of ``print``."""
        for node in nodes:
            match node:
                case ast.Call(func=ast.Name(id="print") as function, args=parts, keywords=options):
                    own = [it for it in options if it.arg in (None, "file")]
                    files = [self.names.path(it.value) for it in own]
                    plain = all(path in ("sys.stderr", "sys.stdout") for path in files)
                    yield from map(id, parts if plain and self.names.is_builtin(function) else [])

    def _container(self, node: ast.expr) -> Iterator[ast.AST]:
        """Yield the parts of an expression such as ``times``, or ``times.setdefault(name, [])``."""
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Name):
            yield node
            if isinstance(node, ast.Name):
                return
            node = node.value
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="setdefault"), args=[_, value]):
                if self._describes(value):
                    yield node
                    yield from self._container(owner)

    def _tables(self, nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
        """Yield changes of a container that add only tensors of constants to it."""
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Subscript(slice=key) as target], value=value):
                    if self._is_table(value) and self._is_key(key, unknown=True):
                        yield target
                case ast.Call(func=ast.Attribute(attr="setdefault"), args=[key, value]):
                    if self._is_table(value) and self._is_key(key, unknown=True):
                        yield node

    def _is_table(self, node: ast.expr, depth: int = 8) -> bool:
        """Return whether an expression surely computes a tensor from sizes, as ``eye(n)`` does."""
        if depth == 0:
            return False
        every = partial(self._is_table, depth=depth - 1)
        match node:
            case ast.Constant():
                return True
            case ast.Name():
                return self.names.is_always(node, every)
            case ast.UnaryOp(operand=part) | ast.Subscript(value=part):
                return every(part)
            case ast.BinOp(left=left, right=right):
                return every(left) and every(right)
            case ast.Compare(left=left, comparators=others):
                return all(map(every, (left, *others)))
            case ast.Call(func=function, args=arguments):
                path = self.names.path(function)
                if path.rpartition(".")[2] in tables.OF_SIZES:
                    return path.startswith(("torch.", "numpy."))
                if path.startswith(("torch.", "numpy.")):
                    return all(map(every, arguments))
                owner = function.value if isinstance(function, ast.Attribute) else None
                return owner is not None and all(map(every, (owner, *arguments)))
        return False

    def _describes(self, node: ast.expr, depth: int = 5) -> bool:
        """Return whether an expression surely computes a time, a shape or a text."""
        every = partial(self._describes, depth=depth - 1)
        match node:
            case ast.Constant():
                return True
            case ast.Name() if depth > 0:
                return self.names.is_always(node, every)
            case ast.Attribute(attr=name):
                return name in tables.DESCRIPTIONS and name not in self.names.own_attributes
            case ast.JoinedStr(values=parts):
                return all(map(every, parts))
            case ast.FormattedValue(value=value):
                return every(value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.BoolOp(values=parts):
                return all(map(every, parts))
            case ast.Dict(keys=keys, values=values):
                return all(part is not None and every(part) for part in (*keys, *values))
            case ast.BinOp(left=left, right=right):
                return every(left) and every(right)
            case ast.Compare(left=left, comparators=others):
                return all(map(every, (left, *others)))
            case ast.UnaryOp(operand=part) | ast.Subscript(value=part):
                return every(part)
            case ast.IfExp(test=test, body=one, orelse=other):
                return all(map(every, (test, one, other)))
            case ast.Call(func=ast.Name(id="len") as function, args=[_], keywords=[]):
                return self.names.is_builtin(function) and not self.names.defines("__len__")
            case ast.Call(func=ast.Name(id=name) as function, args=parts, keywords=[]) if (
                name in _OF_FACTS
            ):
                return self.names.is_builtin(function) and all(map(every, parts))
            case ast.Call(func=ast.Attribute(attr=name), args=parts, keywords=options) if (
                name in tables.DESCRIPTIONS
            ):
                given = [*parts, *(option.value for option in options)]
                return name not in self.names.own_attributes and all(map(every, given))
            case ast.Call(func=function, args=parts, keywords=[]):
                known = self.names.path(function).startswith(("math.", "time."))
                return known and all(map(every, parts))
        return False

    def _stores(self, node: ast.AST, local: set[str], lasting: set[str]) -> Iterator[_Use]:
        match node:
            case ast.Nonlocal(names=declared_names):
                for name in declared_names:
                    if name in lasting and not self.names.is_counter(name):
                        yield node, f"it declares nonlocal {name}, {_WHY}", True
            case ast.Global(names=declared_names):
                for name in declared_names:
                    if not self.names.is_counter(name):
                        yield node, f"it declares global {name}, {_WHY}", True
            case ast.Attribute(
                value=ast.Call(func=ast.Name(id="type")), ctx=ast.Store() | ast.Del()
            ):
                yield node, f"it changes a class, {_WHY}", True
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del())
                | ast.Subscript(ctx=ast.Store() | ast.Del())
            ) if id(node) not in self.names.counters and self._lasts(node, local, lasting):
                yield node, f"it changes {root(node)}, {_WHY}", True
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if self._lasts(
                owner, local, lasting
            ) and self._mutates(owner, name):
                yield node, f"it changes {root(owner)}, {_WHY}", True
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="dict" | "list" | "set"), attr=name),
                args=[owner, *_],
            ) if name in tables.MUTATING and self._lasts(owner, local, lasting):
                yield node, f"it changes {root(owner)}, {_WHY}", True
            case ast.Call(func=ast.Name(id="setattr"), args=[owner, *_]) if self._lasts(
                owner, local, lasting
            ):
                yield node, f"it changes {root(owner)}, {_WHY}", True
            case ast.keyword(arg="out", value=value) if self._lasts(value, local, lasting):
                yield node, f"it changes {root(value)}, {_WHY}", True
            case ast.Call(func=ast.Name(id="setattr"), args=[ast.Call(), *_]):
                yield node, f"it changes a class, {_WHY}", True
            case ast.Attribute(attr=name, ctx=ast.Load()) if name in self.names.counting:
                if id(node) not in self.names.inspected and self._lasts(node, local, lasting):
                    yield node, f"reads {ast.unparse(node)}, which may count the calls", False
            case ast.Name(id=name, ctx=ast.Load()) if name in self.names.data - local:
                yield node, f"uses {name}, which is made once for all calls", False
            case ast.Name(id=name, ctx=ast.Load()) if self.names.counted[name]:
                if id(node) not in self.names.inspected and name in self.names.bound - local:
                    yield node, f"reads {name}, which may count the calls", False

    def only_calls(self, call: ast.Call | None) -> bool:
        """Return whether a call surely keeps no function that it gets, as in ``map(visit, x)``."""
        if call is None or _called(call) in tables.CONTAINERS | _KEEPING:
            return False
        return bool(self.names.path(call.func)) or self.names.is_builtin(call.func)

    def _mutates(self, owner: ast.expr, name: str) -> bool:
        """Return whether a method changes its object. A tensor's ``add`` does not."""
        if name in _OF_TENSORS and self.names.is_tensor(owner):
            return False
        is_pure = self.names.plain_bases and name in self.names.pure_methods
        if is_pure and self.names.is_own_object(owner):
            return False
        return name in tables.MUTATING or (name.endswith("_") and name[:1] != "_")

    def _lasts(self, node: ast.expr, local: set[str], lasting: set[str]) -> bool:
        """Return whether an attribute or item chain begins at an object that outlives the call."""
        first = root(node)
        if not first or first in self.names.imports or self.names.is_log(first):
            return False
        if first in lasting:
            return True
        return first not in local and first in self.names.defined | self.names.bound


def _held(node: ast.AST) -> str:
    return root(node.func) if isinstance(node, ast.Call) else root(node)


def _called(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""


def _nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield all nodes of a function, including nested functions but not their bodies."""
    left: list[ast.AST] = list(body)
    while left:
        node = left.pop(0)
        yield node
        if not isinstance(node, Scope):
            left.extend(ast.iter_child_nodes(node))
