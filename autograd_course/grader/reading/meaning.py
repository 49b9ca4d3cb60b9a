"""Find out what the names in an answer's cells mean: imports, definitions, constants and data."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import importlib.util
import math
import operator
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import Any

from torch.autograd import Function

from autograd_course.grader.reading.tables import CONTAINERS, OPEN_MODULES

LONGEST_CHAIN = 50
_GENERATIONS = 10  # the most classes in a row that derive from each other
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass
class Meaning:
    """The names that the cells define at the top level, and everything that they import.

    ``imports`` maps a name to the dotted path that it refers to. ``data`` contains the names of
    objects that are created once and that later code can change. ``defined`` contains the names of
    classes and functions. ``own_attributes`` contains every attribute that the cells define.
    """

    imports: dict[str, str] = field(default_factory=dict)
    data: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    own_attributes: set[str] = field(default_factory=set)
    own_globals: set[str] = field(default_factory=set)
    locals: set[int] = field(default_factory=set)  # the ids of syntax nodes
    modules: set[str] = field(default_factory=set)  # open modules of the imported libraries
    shown: set[int] = field(default_factory=set)  # the ids of classes of which code reads the name
    starred: set[str] = field(default_factory=set)  # names from ``from module import *``
    functions: set[str] = field(default_factory=set)  # classes that derive from Function
    inside: set[int] = field(default_factory=set)  # the ids of the nodes of these classes
    is_whole: bool = True  # whether the cells contain all code of the answer
    numbers: dict[str, float] = field(default_factory=dict)
    annotations: set[int] = field(default_factory=set)  # the ids of syntax nodes
    stored: Counter[str] = field(default_factory=Counter)
    values: dict[str, list[ast.expr]] = field(default_factory=dict)  # what a name is set to
    runs_annotations: bool = False  # whether the cells may run string annotations as code
    methods: dict[str, set[str]] = field(default_factory=dict)  # the methods of each own class
    setters: set[str] = field(default_factory=set)  # functions that set attributes
    in_class: set[int] = field(default_factory=set)  # the ids of statements in class bodies
    aliases: set[str] = field(default_factory=set)  # variables that may refer to an import
    counted: Counter[str] = field(default_factory=Counter)  # how often code adds a number to a name
    counters: set[int] = field(default_factory=set)  # the ids of nodes to which code adds a number
    inspected: set[int] = field(default_factory=set)  # the ids of nodes that have no effect
    late: set[int] = field(default_factory=set)  # the ids of the nodes in functions
    contexts: set[int] = field(default_factory=set)  # the ids of names that refer to a ``ctx``

    def is_own(self, node: ast.AST) -> bool:
        """Return whether a name surely refers to the answer's own object, and not to a built-in.

        A function's local variable never refers to a built-in. A global variable may, unless a
        top-level statement defines it before the cells mention it.
        """
        return isinstance(node, ast.Name) and (
            id(node) in self.locals or node.id in self.own_globals
        )

    def is_builtin(self, node: ast.AST) -> bool:
        """Return whether nothing in the cells defines the name."""
        return isinstance(node, ast.Name) and node.id not in (
            self.stored.keys() | self.defined | self.imports.keys()
        )

    def is_function(self, node: ast.expr) -> bool:
        """Return whether an expression is a Function: its class, or ``super()`` in a Function.

        If the cells do not contain all code, any global object may be a Function.
        """
        if path := self.path(node):
            found = value_at(path)
            return isinstance(found, type) and issubclass(found, Function)
        if not self.is_whole:
            while isinstance(node, ast.Attribute | ast.Subscript):
                node = node.value
            if isinstance(node, ast.Name):
                return id(node) not in self.locals
        match node:
            case ast.Call(func=ast.Name(id="super"), args=[]):
                return id(node) in self.inside
            case ast.Call(func=ast.Name(id="super"), args=[ast.Name(id=one), ast.Name(id=other)]):
                return id(node) in self.inside and one == other and one in self.functions
            case ast.Name(id=name):
                return (
                    name in self.functions and name not in self.stored.keys() | self.imports.keys()
                )
        return False

    def is_tensor(self, node: ast.expr) -> bool:
        """Return whether a name surely refers to the result of a function of ``torch``."""
        return self._is_always(
            node,
            lambda value: (
                isinstance(value, ast.Call) and self.path(value.func).startswith("torch.")
            ),
        )

    def is_counter(self, name: str) -> bool:
        """Return whether code sets a global only to numbers, and only adds numbers to it."""
        values = self.values.get(name, [])
        numbers = sum(isinstance(value, ast.Constant) for value in values)
        return 0 < self.stored[name] == numbers + self.counted[name]

    def is_constant(self, name: str) -> bool:
        """Return whether a name surely refers to a container of numbers, strings and lambdas."""
        return self._is_always(ast.Name(name), _is_constant)

    def is_type(self, node: ast.Name) -> bool:
        """Return whether a name surely refers to a type, and not to a string that describes one."""
        if node.id in self.imports.keys() | self.classes:
            return node.id not in self.stored
        return self.is_builtin(node) or self._is_always(node, _is_type)

    def is_text(self, node: ast.expr) -> bool:
        """Return whether a name surely refers to a string that the cells contain."""
        return self._is_always(node, lambda value: isinstance(value, ast.Constant))

    def _is_always(self, node: ast.expr, fits: Callable[[ast.expr], bool]) -> bool:
        """Return whether everything that the cells assign to a name fits."""
        name = node.id if isinstance(node, ast.Name) else ""
        values = self.values.get(name, [])
        return bool(values) and len(values) == self.stored[name] and all(map(fits, values))

    def path(self, node: ast.expr) -> str:
        """Return the dotted path that a chain of attributes refers to, or ``""`` if it is unknown.

        The path of a chain with more than ``LONGEST_CHAIN`` attributes is unknown.
        """
        attributes: list[str] = []
        while isinstance(node, ast.Attribute) and len(attributes) <= LONGEST_CHAIN:
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imports:
            return ""
        if id(node) in self.locals and node.id not in self.aliases:
            return ""
        return ".".join((self.imports[node.id], *reversed(attributes)))


def meaning(trees: Sequence[ast.Module], *, is_whole: bool = True) -> Meaning:
    """Return the meaning of the names in the cells, regardless of the order of the statements.

    ``is_whole`` says whether the cells contain all code of the answer.
    """
    found = Meaning(is_whole=is_whole)
    classes: list[ast.ClassDef] = []
    for tree in trees:
        for node in ast.walk(tree):
            found.imports.update(imported(node))
            found.own_attributes.update(_attributes(node))
            match node:
                case ast.ClassDef(name=name, body=body):
                    classes.append(node)
                    found.in_class.update(map(id, body))
                case ast.AugAssign(
                    target=ast.Name(id=name), value=ast.Constant(value=int() | float())
                ):
                    found.counted[name] += 1
                case ast.AugAssign(
                    target=ast.Attribute() | ast.Subscript(slice=ast.Constant()) as target,
                    value=ast.Constant(value=int() | float()),
                ):
                    found.counters.add(id(target))
                case ast.Call(
                    func=ast.Attribute(attr="set_grad_enabled")
                    | ast.Name(id="set_grad_enabled") as function,
                    args=[ast.Constant(value=False)],
                ):
                    found.inspected.add(id(function))
                case ast.FormattedValue(value=value):
                    found.inspected.add(id(value))
                case ast.Compare(left=value, comparators=[ast.Constant(value=None)]):
                    found.inspected.add(id(value))
                case ast.Attribute(attr="__name__", value=ast.Attribute(attr="__class__") as owner):
                    found.shown.add(id(owner))
                case ast.ImportFrom(module=str(home), names=[ast.alias(name="*")]):
                    found.starred.update(public(home))
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                    found.stored[name] += 1
                case (
                    ast.MatchAs(name=str(name))
                    | ast.MatchStar(name=str(name))
                    | ast.MatchMapping(rest=str(name))
                    | ast.ExceptHandler(name=str(name))
                ):
                    found.stored[name] += 1
                case (
                    ast.FunctionDef(name=name, args=args)
                    | ast.AsyncFunctionDef(name=name, args=args)
                ):
                    found.own_attributes.add(name)  # such as an operator with the same name
                    sets = any(_sets(part, args.args[:1]) for part in ast.walk(node))
                    if sets and id(node) not in found.in_class:
                        found.setters.add(name)
                case (
                    ast.Attribute(attr="custom_op" | "triton_op")
                    | ast.alias(name="custom_op" | "triton_op")
                    | ast.Name(id="custom_op" | "triton_op")
                    | ast.Constant(value="custom_op" | "triton_op")
                ):
                    found.runs_annotations = True
            for name, value in _assigned(node):
                found.values.setdefault(name, []).append(value)
                if (size := number(value, {})) is not None:
                    found.numbers[name] = size
            for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
                found.annotations.update(map(id, ast.walk(annotation)) if annotation else ())
    defined = Counter(each.name for each in classes)
    top = {id(each) for tree in trees for each in tree.body}
    plain = [each for each in classes if _is_plain(each) and defined[each.name] == 1]
    found.classes = {each.name for each in plain}
    found.methods = {each.name: bound_in(each.body) for each in plain}
    for tree in trees:
        found.locals.update(_local(tree.body, frozenset()))
        for statement in tree.body:
            _bind(statement, found)
    found.own_globals = _own_globals([each for tree in trees for each in tree.body])
    functions = [each for tree in trees for each in ast.walk(tree) if isinstance(each, Scope)]
    inside = [each for function in functions for each in ast.walk(function)]
    found.late = set(map(id, inside))
    found.aliases = {name for each in inside for name, _ in imported(each)}
    changed = found.data & _may_change(trees, found)
    found.data = {name for name in found.data if name in changed or not found.is_constant(name)}
    for _ in range(3):  # m = torch; n = m
        for tree in trees:
            aliases = dict(_aliases(tree, found))
            found.imports.update(aliases)
            found.aliases.update(aliases)
    for path in {*found.imports.values()} & OPEN_MODULES:
        _loaded(path)  # its classes tell which attributes are ordinary
    tops = {path.partition(".")[0] for path in found.imports.values()}
    found.modules = {path for path in OPEN_MODULES if path.partition(".")[0] in tops}
    known = [each for each in plain if id(each) in top]
    for _ in known[:_GENERATIONS]:
        for each in known:
            if any(map(found.is_function, each.bases)):
                found.functions.add(each.name)
    for each in known:
        if each.name in found.functions:
            found.inside.update(map(id, ast.walk(each)))
            found.contexts.update(_contexts(each))
    return found


def _contexts(node: ast.ClassDef) -> Iterator[int]:
    """Yield the ids of the names that refer to the first parameter of a Function's methods."""
    for method in node.body:
        match method:
            case ast.FunctionDef(
                name="forward" | "backward" | "setup_context" | "jvp",
                args=ast.arguments(args=[ast.arg(arg=first), *_]),
            ):
                names = (part for part in ast.walk(method) if isinstance(part, ast.Name))
                yield from (id(name) for name in names if name.id == first)


def _is_plain(node: ast.ClassDef) -> bool:
    """Return whether the name of a class surely refers to what its ``class`` statement defines."""
    decorators = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
    return not node.keywords and decorators <= {"dataclass", "dataclasses.dataclass"}


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each name that an import statement defines, and the path that the name refers to."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            if alias.name == "*":
                yield from ((name, f"{node.module}.{name}") for name in public(node.module or ""))
            else:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def module(path: str) -> ModuleType | None:
    """Return the module with this dotted path, or ``None``.

    A module that answers may not use is found only if Python has already imported it.
    """
    found = value_at(path)
    return found if isinstance(found, ModuleType) else None


def value_at(path: str) -> Any:
    """Return the module with this dotted path, the value of a name in a module, or ``None``."""
    return _resolved(path)[1]


def canonical(path: str) -> str:
    """Return the path under which PyTorch and other libraries define what a path leads to.

    For example, ``torch.nn.functional.torch.func.jvp`` leads to ``torch.func.jvp``.
    """
    return _resolved(path)[0]


@lru_cache(10_000)
def _resolved(path: str) -> tuple[str, Any]:
    home, *rest = path.split(".")
    found: Any = _loaded(home)
    for position, name in enumerate(rest):
        if not isinstance(found, ModuleType):
            return ".".join((home, *rest[position:])), None
        inner = vars(found).get(name)
        if inner is None:
            inner = _loaded(f"{found.__name__}.{name}")
        found = inner
        home = found.__name__ if isinstance(found, ModuleType) else f"{home}.{name}"
    return home, found


def is_submodule(path: str) -> bool:
    """Return whether the path leads to a module that Python has not imported yet."""
    owner, _, name = path.rpartition(".")
    if name in vars(module(owner) or sys):
        return False
    try:
        return importlib.util.find_spec(path) is not None
    except (ImportError, ValueError):
        return False


def _loaded(path: str) -> ModuleType | None:
    if path in OPEN_MODULES and path not in sys.modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(path)
    return sys.modules.get(path)


def bindings(scope: Scope) -> set[str]:
    """Return the names that a function binds. Names in nested functions are not included."""
    return ({arg.arg for arg in _arguments(scope)} | bound_in(_body(scope))) - declared(scope)


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
    nodes = _own(_body(scope))
    found = [node.names for node in nodes if isinstance(node, ast.Global | ast.Nonlocal)]
    return {name for names in found for name in names}


def root(node: ast.AST) -> str:
    """Return the name at which a chain of attributes and items begins, or ``""``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def lasting_parameters(scope: Scope) -> set[str]:
    """Return the parameters whose default value is a mutable object that all calls share."""
    return {name for name, default in _defaults(scope.args) if is_data(default)}


def number(node: ast.expr, known: Mapping[str, float], depth: int = 20) -> float | None:
    """Return the value of arithmetic with numbers and ``known`` names, or ``None``."""
    if depth == 0:
        return None
    match node:
        case ast.Constant(value=int() | float() | complex() as value):
            with contextlib.suppress(OverflowError):
                return float(value if isinstance(value, int | float) else abs(value))
        case ast.Name(id=name):
            return known.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            size = number(operand, known, depth - 1)
            return None if size is None else -size
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            parts = number(left, known, depth - 1), number(right, known, depth - 1)
            if parts[0] is not None and parts[1] is not None:
                with contextlib.suppress(ArithmeticError, ValueError):
                    return _ARITHMETIC[type(op)](parts[0], parts[1])
    return None


def _sets(node: ast.AST, first: Sequence[ast.arg]) -> bool:
    """Return whether a node sets an attribute of ``ctx``, ``self`` or the first parameter."""
    owners = {"ctx", "self", *(each.arg for each in first)}
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store()):
            return root(node) in owners
        case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[ast.Name(id=name), *_]):
            return name in owners
    return False


def _is_constant(value: ast.expr) -> bool:
    match value:
        case ast.Constant() | ast.Lambda():
            return True
        case ast.UnaryOp(operand=inner):
            return _is_constant(inner)
        case ast.List(elts=[_, *_] as parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return all(map(_is_constant, parts))
        case ast.Dict(keys=[_, *_] as keys, values=values):
            return all(key is not None and _is_constant(key) for key in keys) and all(
                map(_is_constant, values)
            )
    return False


def _may_change(trees: Sequence[ast.Module], found: Meaning) -> set[str]:
    """Return the names that code uses in other ways than to read elements."""
    reads: set[int] = set()
    every = [node for tree in trees for node in ast.walk(tree)]
    for node in every:
        match node:
            case ast.Subscript(value=owner, ctx=ast.Load()):
                reads.add(id(owner))
            case ast.For(iter=owner) | ast.comprehension(iter=owner):
                reads.add(id(owner))
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=owners):
                reads.update(map(id, owners))
            case ast.Call(
                func=ast.Attribute(value=ast.Name() as owner, attr="get" | "items" | "values")
            ):
                reads.add(id(owner))
            case ast.Call(func=function, args=arguments):
                library = found.path(function).partition(".")[0]
                builtin = found.is_builtin(function) and ast.unparse(function) in dir(builtins)
                if library in ("torch", "numpy") or builtin:
                    reads.update(map(id, arguments))
    changed = {
        root(node)
        for node in every
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)
    }
    return changed | {
        node.id
        for node in every
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in reads
    }


def _is_type(value: ast.expr) -> bool:
    """Return whether an expression is a type such as ``tuple[Tensor, ...]``, without any call."""
    shapes = ast.Subscript | ast.Attribute | ast.BinOp | ast.Constant
    texts = (part.value for part in ast.walk(value) if isinstance(part, ast.Constant))
    computed = any(isinstance(part, ast.Call | ast.JoinedStr) for part in ast.walk(value))
    return isinstance(value, shapes) and not computed and not any(isinstance(t, str) for t in texts)


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with the values that a node assigns to them. Defaults of parameters count."""
    match node:
        case ast.arguments():
            yield from _defaults(node)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            | ast.NamedExpr(target=ast.Name(id=name), value=value)
        ):
            yield name, value


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    yield from ((name.arg, default) for name, default in pairs if default is not None)


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


def _attributes(node: ast.AST) -> Iterator[str]:
    """Yield the attributes that a node defines: methods, fields, and what it stores in objects."""
    match node:
        case ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=str(name)), *_]):
            yield name
        case ast.Call(func=ast.Name(id="namedtuple") | ast.Attribute(attr="namedtuple")):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield from part.value.replace(",", " ").split()
        case ast.Call(
            func=ast.Name(id="SimpleNamespace") | ast.Attribute(attr="SimpleNamespace"),
            keywords=keywords,
        ):
            yield from (keyword.arg for keyword in keywords if keyword.arg)
        case ast.ClassDef(body=body):
            for part in body:
                for inner in ast.walk(part):
                    match inner:
                        case ast.Name(id=name, ctx=ast.Store()):
                            yield name
                        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                            yield name


def _local(body: Sequence[ast.AST], outer: frozenset[str]) -> Iterator[int]:
    """Yield the ids of the syntax nodes that are local variables of a function."""
    for node in _own(body):
        if isinstance(node, ast.Name) and node.id in outer:
            yield id(node)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield from _looped(node)
        if isinstance(node, Scope):
            inner = _body(node)
            yield from _local(inner, (outer - declared(node)) | bindings(node))
            rest = [part for part in ast.iter_child_nodes(node) if part not in inner]
            yield from _local(rest, outer)
        elif isinstance(node, ast.ClassDef):
            visible = outer - bound_in(node.body) - declared(node)
            yield from _local(list(ast.iter_child_nodes(node)), visible)


def _looped(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Iterator[int]:
    """Yield the ids of the names that refer to the loop variables of a comprehension."""
    first, *_ = node.generators
    outside = {id(part) for part in ast.walk(first.iter)}
    loops = (part for loop in node.generators for part in ast.walk(loop.target))
    variables = {part.id for part in loops if isinstance(part, ast.Name)}
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in variables and id(part) not in outside:
            yield id(part)


def _body(scope: Scope | ast.ClassDef) -> Sequence[ast.AST]:
    return [scope.body] if isinstance(scope, ast.Lambda) else scope.body


def _own_globals(statements: Sequence[ast.stmt]) -> set[str]:
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
        for name, value in _assigned(node):
            if path := found.path(value):
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


def public(name: str) -> tuple[str, ...]:
    """Return the names that ``from name import *`` defines, or none if they are unknown."""
    found = _loaded(name)
    if found is None:
        return ()
    return tuple(getattr(found, "__all__", [each for each in vars(found) if each[:1] != "_"]))
