"""Find out which names belong to which scope: functions, classes, comprehensions and the module."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from autograd_course.grader.reading.libraries import imported
from autograd_course.grader.reading.tables import CONTAINERS

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def bindings(scope: Scope) -> set[str]:
    """Return the names that a function binds. Names in nested functions are not included."""
    return ({arg.arg for arg in _arguments(scope)} | bound_in(body_of(scope))) - declared(scope)


def bound_in(body: Sequence[ast.AST]) -> set[str]:
    """Return the names that the body of a function or class binds, including declared ones."""
    names: set[str] = set()
    own = list(_own(body))
    fleeting = {
        id(name)
        for node in own
        if isinstance(node, ast.comprehension)
        for name in ast.walk(node.target)
    }
    for node in own:
        if id(node) in fleeting:  # the variable of a comprehension
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(name for name, _ in imported(node))
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
    return names


def declared(scope: Scope | ast.ClassDef) -> set[str]:
    """Return the names that a function or class declares as global or nonlocal."""
    nodes = _own(body_of(scope))
    found = [node.names for node in nodes if isinstance(node, ast.Global | ast.Nonlocal)]
    return {name for names in found for name in names}


def root(node: ast.AST) -> str:
    """Return the name at which a chain of attributes and items begins, or ``""``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def lasting_parameters(scope: Scope) -> set[str]:
    """Return the parameters that refer to an object that all calls share.

    These are parameters with a mutable default value, and a class method's first parameter.
    """
    shared = {name for name, default in defaults(scope.args) if is_data(default)}
    return shared | ({first_parameter(scope)} if is_class_method(scope) else set())


def decorators(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield the names of a definition's decorators, and whether it calls them, as in ``@f(1)``."""
    for decorator in getattr(node, "decorator_list", ()):
        match decorator:
            case ast.Name(id=name):
                yield name, False
            case ast.Call(func=ast.Name(id=name)):
                yield name, True


def first_parameter(scope: Scope) -> str:
    """Return the name of a function's first positional parameter, or ``""``."""
    plain = (*scope.args.posonlyargs, *scope.args.args)
    return plain[0].arg if plain else ""


def defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """Yield each parameter that has a default value, with this value."""
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    yield from ((name.arg, default) for name, default in pairs if default is not None)


def is_class_method(scope: Scope) -> bool:
    """Return whether a method gets a class as its first argument, whatever its name is."""
    return not isinstance(scope, ast.Lambda) and (
        scope.name in ("__new__", "__init_subclass__", "__class_getitem__")
        or any(is_named(each, "classmethod") for each in scope.decorator_list)
    )


def is_named(node: ast.AST, name: str) -> bool:
    """Return whether a node is this name."""
    return isinstance(node, ast.Name) and node.id == name


def assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with the values that a node assigns to them. Defaults of parameters count."""
    match node:
        case ast.arguments():
            yield from defaults(node)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            | ast.NamedExpr(target=ast.Name(id=name), value=value)
        ):
            yield name, value


def elements(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with what a loop over a tuple or an unpacking assigns to them."""
    left: list[tuple[ast.expr, ast.expr]] = []
    match node:
        case ast.Assign(targets=[ast.Tuple() | ast.List() as target], value=value):
            left.append((target, value))
        case (
            ast.For(target=target, iter=ast.Tuple(elts=values) | ast.List(elts=values))
            | ast.comprehension(target=target, iter=ast.Tuple(elts=values) | ast.List(elts=values))
        ):
            left += [(target, value) for value in values]
    while left:
        match left.pop():
            case ast.Name(id=name), value:
                yield name, value
            case (
                ast.Tuple(elts=targets) | ast.List(elts=targets),
                ast.Tuple(elts=values) | ast.List(elts=values),
            ):
                left += zip(targets, values, strict=False)


def arguments(trees: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the parameters of the functions that code calls by name, with what it passes."""
    every = [node for tree in trees for node in ast.walk(tree)]
    known: dict[str, ast.arguments] = {}
    for node in every:
        match node:
            case (
                ast.FunctionDef(name=name, args=parameters)
                | ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda(args=parameters))
            ):
                known[name] = parameters
    for node in every:
        match node:
            case ast.Call(func=ast.Name(id=name), args=values, keywords=words) if name in known:
                parameters = known[name]
                plain = (each.arg for each in (*parameters.posonlyargs, *parameters.args))
                yield from zip(plain, values, strict=False)
                yield from ((word.arg, word.value) for word in words if word.arg)


def origins(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with the expressions from which their values come."""
    match node:
        case ast.Assign(targets=targets, value=value):
            pass
        case (
            ast.AnnAssign(target=target, value=ast.expr() as value)
            | ast.NamedExpr(target=target, value=value)
            | ast.For(target=target, iter=value)
            | ast.comprehension(target=target, iter=value)
        ):
            targets = [target]
        case _:
            return
    for part in (part for target in targets for part in ast.walk(target)):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id, value


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


def local_names(body: Sequence[ast.AST], outer: frozenset[str]) -> Iterator[int]:
    """Yield the ids of the syntax nodes that are local variables of a function."""
    for node in _own(body):
        if isinstance(node, ast.Name) and node.id in outer:
            yield id(node)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield from _looped(node)
        if isinstance(node, Scope):
            inner = body_of(node)
            yield from local_names(inner, (outer - declared(node)) | bindings(node))
            rest = [part for part in ast.iter_child_nodes(node) if part not in inner]
            yield from local_names(rest, outer)
        elif isinstance(node, ast.ClassDef):
            visible = outer - bound_in(node.body) - declared(node)
            yield from local_names(list(ast.iter_child_nodes(node)), visible)


def _looped(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Iterator[int]:
    """Yield the ids of the names that refer to the loop variables of a comprehension."""
    first, *_ = node.generators
    outside = {id(part) for part in ast.walk(first.iter)}
    loops = (part for loop in node.generators for part in ast.walk(loop.target))
    variables = {part.id for part in loops if isinstance(part, ast.Name)}
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in variables and id(part) not in outside:
            yield id(part)


def body_of(scope: Scope | ast.ClassDef) -> Sequence[ast.AST]:
    """Return the statements of a function or class, or the expression of a ``lambda``."""
    return [scope.body] if isinstance(scope, ast.Lambda) else scope.body


def own_globals(statements: Sequence[ast.stmt]) -> set[str]:
    """Return the names that a top-level statement defines before the cells mention them."""
    found: set[str] = set()
    mentioned: set[str] = set()
    for statement in statements:
        names: set[str] = set()
        match statement:
            case ast.FunctionDef(name=name, args=arguments, decorator_list=decorators):
                names = {name} - _mentioned([arguments, *decorators])
            case ast.ClassDef(name=name):
                names = {name} - _mentioned([statement])
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names = {name} - _mentioned([value])
            case ast.Import() | ast.ImportFrom():
                names = {name for name, _ in imported(statement)}
        found |= names - mentioned
        mentioned |= _mentioned([statement])
    deleted: set[str] = set()
    for node in (node for statement in statements for node in ast.walk(statement)):
        match node:
            case ast.Name(id=name, ctx=ast.Del()) | ast.ExceptHandler(name=str(name)):
                deleted.add(name)  # Python deletes the name after "except … as name"
    return found - deleted


def _mentioned(nodes: Sequence[ast.AST]) -> set[str]:
    names = [part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)]
    return {name.id for name in names}


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
