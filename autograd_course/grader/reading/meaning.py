"""Find out what the names in an answer's cells mean: imports, definitions, constants and data."""

from __future__ import annotations

import ast
import builtins
import contextlib
import math
import operator
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, TypeGuard

import torch
from torch.autograd import Function

from autograd_course.grader.reading.libraries import derives, imported, loaded, public, value_at
from autograd_course.grader.reading.pure_methods import pure_methods
from autograd_course.grader.reading.receivers import receivers
from autograd_course.grader.reading.scopes import (
    Scope,
    arguments,
    assigned,
    bound_in,
    decorators,
    elements,
    is_data,
    local_names,
    origins,
    own_globals,
    root,
)
from autograd_course.grader.reading.tables import (
    BASES,
    FRESH_CONTAINERS,
    MUTATING,
    OPEN_MODULES,
    PLAIN_MODULES,
)

LONGEST_CHAIN = 50
_NAMESPACE = "types.SimpleNamespace"
# Functions of NumPy that return a number for a number
_OF_NUMBERS = {f"numpy.{name}" for name in ("cbrt", "exp", "float64", "log", "sqrt")}
_GENERATIONS = 10  # the most classes in a row that derive from each other
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}


@dataclass
class Meaning:
    """What the names and some syntax nodes in an answer's cells mean.

    A syntax node is stored as its ``id``.
    """

    is_whole: bool = True  # whether the cells contain all code of the answer
    reads_nodes: bool = False  # whether the cells read the nodes of a graph of torch.fx
    runs_annotations: bool = False  # whether the cells may run string annotations as code

    # Names
    imports: dict[str, str] = field(default_factory=dict)  # a name and its dotted path
    starred: set[str] = field(default_factory=set)  # names from ``from module import *``
    aliases: set[str] = field(default_factory=set)  # variables that may refer to an import
    ambiguous: set[str] = field(default_factory=set)  # names of several objects of libraries
    modules: set[str] = field(default_factory=set)  # open modules of the imported libraries
    defined: set[str] = field(default_factory=set)  # top-level classes and functions
    bound: set[str] = field(default_factory=set)  # top-level variables
    data: set[str] = field(default_factory=set)  # objects made once, which later code can change
    containers: set[str] = field(default_factory=set)  # such data as attributes of classes
    objects: set[str] = field(default_factory=set)  # own objects there that change themselves
    own_globals: set[str] = field(default_factory=set)  # defined before the cells mention them
    stored: Counter[str] = field(default_factory=Counter)  # how often code sets a variable
    counted: Counter[str] = field(default_factory=Counter)  # how often code adds a number to it
    read: Counter[str] = field(default_factory=Counter)  # how often code reads a name
    decorating: Counter[str] = field(default_factory=Counter)  # how often it decorates at the start
    making: Counter[str] = field(default_factory=Counter)  # how often a call of it does so
    filled: Counter[str] = field(default_factory=Counter)  # how often code only adds to a container
    alone: Counter[str] = field(default_factory=Counter)  # how often code sets only this variable
    values: dict[str, list[ast.expr]] = field(default_factory=dict)  # what a variable is set to
    origins: dict[str, list[ast.expr]] = field(default_factory=dict)  # also loops and unpacking
    passed: dict[str, list[ast.expr]] = field(default_factory=dict)  # what a parameter receives
    numbers: dict[str, float] = field(default_factory=dict)  # variables that may be numbers
    classes: set[str] = field(default_factory=set)  # classes that are what their statement says
    enums: set[str] = field(default_factory=set)  # classes of named constants
    stateless: set[str] = field(default_factory=set)  # those whose objects never change
    plain_functions: set[str] = field(default_factory=set)  # top-level ones without decorators
    bases: set[str] = field(default_factory=set)  # the names in the bases of classes
    plain_bases: bool = True  # whether no class inherits from a library what differentiates
    functions: set[str] = field(default_factory=set)  # those that derive from Function
    methods: dict[str, set[str]] = field(default_factory=dict)  # the methods of each class
    pure_methods: set[str] = field(default_factory=set)  # those that leave their object alone
    setters: set[str] = field(default_factory=set)  # functions that set attributes of an argument
    own_attributes: set[str] = field(default_factory=set)  # every attribute that the cells define
    fields: set[str] = field(default_factory=set)  # the attributes of each SimpleNamespace

    # Syntax nodes
    locals: set[int] = field(default_factory=set)  # local variables
    receivers: set[int] = field(default_factory=set)  # a ``ctx``, or an object of an own class
    late: set[int] = field(default_factory=set)  # everything in functions
    inside: set[int] = field(default_factory=set)  # everything in classes that derive from Function
    decorators: set[int] = field(default_factory=set)  # decorators
    in_class: set[int] = field(default_factory=set)  # statements in class bodies
    annotations: set[int] = field(default_factory=set)  # everything in annotations
    counters: set[int] = field(default_factory=set)  # attributes and items that count something
    counting: set[str] = field(default_factory=set)  # the names of such attributes
    inspected: set[int] = field(default_factory=set)  # expressions that code shows or compares
    shown: set[int] = field(default_factory=set)  # what only leads to a harmless attribute
    named: set[int] = field(default_factory=set)  # ``vars(x)`` where the source shows the keys

    def bind(self, name: str, path: str, kinds: Any) -> None:
        """Record what a name refers to. It is ambiguous if it refers to several such objects."""
        known = self.imports.setdefault(name, path)
        if known == path:
            return
        one, other = value_at(known), value_at(path)
        plain = all(each.rpartition(".")[0] in PLAIN_MODULES for each in (known, path))
        if one is not other and not plain and (isinstance(one, kinds) or isinstance(other, kinds)):
            self.ambiguous.add(name)

    def note(self, name: str, value: ast.expr) -> None:
        """Record a number that a variable may be. The smallest and largest numbers matter most."""
        size, known = number(value, {}), self.numbers.get(name, 1.0)
        if size and abs(math.log(abs(size))) >= abs(math.log(abs(known))):
            self.numbers[name] = size

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
            return derives(path, Function)
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

    def is_own_class(self, node: ast.expr) -> bool:
        """Return whether a name surely refers to one of the answer's own classes."""
        return isinstance(node, ast.Name) and node.id in self.classes - self.stored.keys()

    def is_enum(self, node: ast.ClassDef) -> bool:
        """Return whether a class only names constants, as a plain ``Enum`` does."""
        return (
            len(node.bases) == 1
            and self.path(node.bases[0]) in ("enum.Enum", "enum.IntEnum", "enum.StrEnum")
            and all(isinstance(part, ast.Assign | ast.Expr) for part in node.body)
            and all(self._is_constant(value) for part in node.body for _, value in assigned(part))
        )

    def is_plain_base(self, node: ast.expr) -> bool:
        """Return whether a base is an own class, a Function, a module or a helper for types."""
        if not (path := self.path(node)):
            return self.is_own_class(node) or self.is_builtin(node)
        return derives(path, (Function, torch.nn.Module)) or self.is_made_to_derive(path)

    def defines(self, name: str) -> bool:
        """Return whether the cells define a method or an attribute with this name."""
        return name in self.own_attributes

    def is_made_to_derive(self, path: str) -> bool:
        """Return whether a path leads to a class from which code is meant to derive classes."""
        return path in BASES or path.partition(".")[0] in BASES

    def is_tensor(self, node: ast.expr) -> bool:
        """Return whether a name surely refers to the result of a function of ``torch``."""
        return self.is_always(
            node,
            lambda value: (
                isinstance(value, ast.Call) and self.path(value.func).startswith("torch.")
            ),
        )

    def only_decorates(self, name: str) -> bool:
        """Return whether a function only decorates what the cells define, as in ``@name``."""
        return 0 < self.read[name] == self.decorating[name]

    def only_makes_decorators(self, name: str) -> bool:
        """Return whether a function only makes such decorators, as in ``@name("scale")``."""
        return 0 < self.read[name] == self.making[name]

    def is_log(self, name: str) -> bool:
        """Return whether a name surely refers to a container that code fills but never reads."""
        known = self.defined | self.imports.keys()
        has_no_other_name = name not in known and self.stored[name] == self.alone[name]
        fresh = has_no_other_name and self.is_always(ast.Name(name), self._is_container)
        if self.defines("__eq__") or self.defines("__hash__"):  # a container calls them
            return False
        return fresh and 0 < self.read[name] == self.filled[name]

    def _is_container(self, value: ast.expr) -> bool:
        match value:
            case ast.List() | ast.Dict() | ast.Set():
                return True
            case ast.Call(func=function):
                name = self.path(function).removeprefix("collections.")
                if self.is_builtin(function):
                    name = ast.unparse(function)
                return name in FRESH_CONTAINERS
        return False

    def is_counter(self, name: str) -> bool:
        """Return whether code sets a global only to numbers, and only adds numbers to it."""
        values = self.values.get(name, [])
        numbers = sum(isinstance(value, ast.Constant) for value in values)
        return 0 < self.stored[name] == numbers + self.counted[name]

    def is_constant(self, name: str) -> bool:
        """Return whether a name surely refers to a container of numbers, strings and functions."""
        return self.is_always(ast.Name(name), self._is_constant)

    def is_stateless(self, name: str) -> bool:
        """Return whether a name surely refers to an object that never changes."""
        return self.is_always(ast.Name(name), self._makes_stateless)

    def _is_constant(self, value: ast.expr, known: Container[str] = ()) -> bool:
        """Return whether an expression is a constant if the ``known`` names are constants."""
        every = partial(self._is_constant, known=known)
        match value:
            case ast.Constant() | ast.Lambda():
                return True
            case ast.Name(id=name):
                is_function = name in self.plain_functions and not self.stored[name]
                return name in known or is_function or self.is_always(value, self._is_plain_number)
            case ast.Attribute(value=ast.Call(func=function, args=parts, keywords=[])) if self.path(
                function
            ) in ("numpy.finfo", "numpy.iinfo", "torch.finfo", "torch.iinfo"):
                return all(map(every, parts))
            case ast.Attribute(value=ast.Name(id=owner)) if owner in self.enums:
                return not self.stored[owner]
            case ast.Attribute():
                return self.path(value) != ""
            case ast.Call(func=ast.Name(id="dict") as function, args=[], keywords=given):
                named = all(part.arg for part in given)
                return self.is_builtin(function) and named and all(every(it.value) for it in given)
            case ast.Call(func=ast.Name(id="range") as function, args=parts):
                return self.is_builtin(function) and all(map(every, parts))
            case ast.ListComp(elt=item, generators=loops) | ast.SetComp(elt=item, generators=loops):
                return self._is_constant_loop([item], loops)
            case ast.DictComp(key=key, value=item, generators=loops):
                return self._is_constant_loop([key, item], loops)
            case ast.UnaryOp(operand=inner):
                return every(inner)
            case ast.BinOp(left=left, right=right):
                return every(left) and every(right)
            case ast.Call(func=function, args=parts, keywords=[]) if self._is_number(function):
                return all(map(every, parts))
            case ast.Call() if self._is_plain_number(value):
                return True
            case ast.List(elts=[_, *_] as parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return all(map(every, parts))
            case ast.Dict(keys=[_, *_] as keys, values=values):
                return all(part is not None and every(part) for part in (*keys, *values))
        return self._makes_stateless(value)

    def _is_constant_loop(self, parts: list[ast.expr], loops: list[ast.comprehension]) -> bool:
        if not all(self._is_constant(loop.iter) for loop in loops):
            return False
        targets = (node for loop in loops for node in ast.walk(loop.target))
        known = {node.id for node in targets if isinstance(node, ast.Name)}
        tests = [test for loop in loops for test in loop.ifs]
        return all(self._is_constant(part, known) for part in (*parts, *tests))

    def _is_plain_number(self, value: ast.expr) -> bool:
        """Return whether an expression computes a number from the numbers in it."""
        match value:
            case ast.Constant(value=int() | float() | complex()):
                return True
            case ast.Attribute():
                return self.path(value) in ("math.e", "math.pi", "numpy.e", "numpy.pi", "torch.pi")
            case ast.UnaryOp(operand=inner):
                return self._is_plain_number(inner)
            case ast.BinOp(left=left, right=right):
                return self._is_plain_number(left) and self._is_plain_number(right)
            case ast.Call(func=function, args=parts, keywords=[]):
                known = self._is_number(function) or self.path(function) in _OF_NUMBERS
                return known and all(map(self._is_plain_number, parts))
        return False

    def _is_number(self, function: ast.expr) -> bool:
        """Return whether a function surely returns a number."""
        if self.is_builtin(function):
            return ast.unparse(function) in ("abs", "float", "int", "max", "min", "round")
        return self.path(function).startswith("math.")

    def _makes_stateless(self, value: ast.expr) -> bool:
        match value:
            case ast.Call(func=function, args=arguments, keywords=keywords):
                own = isinstance(function, ast.Name) and function.id in self.stateless
                if own or self.path(function) == _NAMESPACE:
                    given = (*arguments, *(keyword.value for keyword in keywords))
                    return all(map(self._is_constant, given))
        return False

    def is_type(self, node: ast.Name) -> bool:
        """Return whether a name surely refers to a type, and not to a string that describes one."""
        if node.id in self.imports.keys() | self.classes:
            return node.id not in self.stored
        return self.is_builtin(node) or self.is_always(node, _is_type)

    def is_new(self, node: ast.expr) -> bool:
        """Return whether an expression surely creates an object of the answer's own class."""
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in self.classes:
                return "__new__" not in self.own_attributes
            case ast.Call(func=function):
                return self.path(function) == _NAMESPACE
            case ast.Name(id=name):
                values = self.origins.get(name, [])
                every = id(node) not in self.locals or len(values) == self.stored[name]
                calls = all(isinstance(value, ast.Call) for value in values)
                return bool(values) and every and calls and all(map(self.is_new, values))
        return False

    def is_own_object(self, node: ast.expr) -> bool:
        """Return whether an expression is an object or a class of the answer."""
        return self.is_own_class(node) or id(node) in self.receivers or self.is_new(node)

    def is_text(self, node: ast.expr) -> bool:
        """Return whether a name surely refers to a string that the cells contain."""
        return self.is_always(node, lambda value: isinstance(value, ast.Constant))

    def is_always(self, node: ast.expr, fits: Callable[[ast.expr], bool]) -> bool:
        """Return whether everything that the cells assign to a name fits."""
        name = node.id if isinstance(node, ast.Name) else ""
        values = self.values.get(name, [])
        return bool(values) and len(values) == self.stored[name] and all(map(fits, values))

    def path(self, node: ast.expr) -> str:
        """Return the dotted path that a chain of attributes refers to, or ``""`` if it is unknown.

        ``getattr(torch, "ops")`` counts as ``torch.ops``.
        The path of a chain with more than ``LONGEST_CHAIN`` attributes is unknown.
        """
        attributes: list[str] = []
        while len(attributes) <= LONGEST_CHAIN:
            match node:
                case (
                    ast.Attribute(value=owner, attr=name)
                    | ast.Call(
                        func=ast.Name(id="getattr"),
                        args=[owner, ast.Constant(value=str(name)), *_],
                    )
                ):
                    attributes.append(name)
                    node = owner
                case _:
                    break
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
    every = [node for tree in trees for node in ast.walk(tree)]
    for node in every:
        _collect(node, found)
    classes = [node for node in every if isinstance(node, ast.ClassDef)]
    defined = Counter(each.name for each in classes)
    top = {id(each) for tree in trees for each in tree.body}
    plain = [each for each in classes if _is_plain(each) and defined[each.name] == 1]
    found.classes = {each.name for each in plain}
    found.enums = {each.name for each in plain if found.is_enum(each)}
    found.stateless = {each.name for each in plain if _is_stateless(each, found.path)}
    changing = {each.name for each in classes if _changes_itself(each)}
    for name, value in _kept_by_classes(trees, classes):
        if is_data(value, changing):
            is_own = isinstance(value, ast.Call) and not is_data(value)
            (found.objects if is_own else found.containers).add(name)
    found.plain_bases = all(found.is_plain_base(base) for each in classes for base in each.bases)
    found.methods = {each.name: bound_in(each.body) for each in plain}
    for tree in trees:
        found.locals.update(local_names(tree.body, frozenset()))
        for statement in tree.body:
            _bind(statement, found)
    for each in every:
        if isinstance(each, ast.Call) and found.path(each.func) == _NAMESPACE:
            found.fields.update(keyword.arg for keyword in each.keywords if keyword.arg)
    found.own_globals = own_globals([each for tree in trees for each in tree.body])
    functions = [each for each in every if isinstance(each, Scope)]
    inside = [part for each in functions for part in ast.walk(each) if part is not each]
    nested = set(map(id, inside))
    found.late = nested.union(map(id, functions))
    found.aliases = {name for each in inside for name, _ in imported(each)}
    for each in every:
        if id(each) not in nested:
            found.bound.update(_set_by(each))
            for name, is_called in decorators(each):
                (found.making if is_called else found.decorating)[name] += 1
    for name, value in arguments(trees):
        found.note(name, value)
        found.passed.setdefault(name, []).append(value)
    changed = found.data & _may_change(trees, found)
    found.data = {
        name
        for name in found.data
        if not (
            found.is_stateless(name)
            or found.is_log(name)
            or (name not in changed and found.is_constant(name))
        )
    }
    for _ in range(3):  # m = torch; n = m
        for tree in trees:
            for name, path in [*_aliases(tree, found)]:
                found.bind(name, path, ModuleType)
                found.aliases.add(name)
    for path in {*found.imports.values()} & OPEN_MODULES:
        loaded(path)  # its classes tell which attributes are ordinary
    tops = {path.partition(".")[0] for path in found.imports.values()}
    if "scipy" in tops or any(isinstance(it, ast.Attribute) and it.attr == "numpy" for it in every):
        tops.add("numpy")  # its arrays need no import
    found.modules = {path for path in OPEN_MODULES if path.partition(".")[0] in tops}
    known = [each for each in plain if id(each) in top]
    for _ in known[:_GENERATIONS]:
        for each in known:
            if any(map(found.is_function, each.bases)):
                found.functions.add(each.name)
    for each in known:
        if each.name in found.functions:
            found.inside.update(map(id, ast.walk(each)))
    found.receivers = receivers(trees, found.is_new, found.path)
    found.pure_methods = pure_methods(
        every, lambda it: bool(found.path(it)) or found.is_builtin(it)
    )
    for each in every:
        match each:
            case ast.Call(func=ast.Name(id="print") as function, args=printed):
                if found.is_builtin(function):
                    found.shown.update(id(it) for it in printed if _is_class_of_object(it))
            case (
                ast.Call(func=ast.Attribute(attr="__class__", value=ast.Name() as thing) as own)
                | ast.Call(
                    func=ast.Call(func=ast.Name(id="type") as own, args=[ast.Name() as thing])
                )
            ):
                if id(thing) in found.receivers and id(thing) not in found.inside:
                    found.shown.add(id(own))
            case ast.Call(func=ast.Name(id="vars") as function, args=[ast.Name() as thing]):
                if id(thing) in found.receivers:  # vars(ctx) is ctx.__dict__
                    found.shown.add(id(function))
            case ast.Call(
                func=ast.Attribute(attr="__setattr__", value=ast.Name(id="object")) as function,
                args=[ast.Name() as thing, ast.Constant(value=str(name)), _],
            ):
                if id(thing) in found.receivers:  # as in a frozen dataclass
                    found.shown.add(id(function))
                    found.fields.add(name)
    return found


def _collect(node: ast.AST, found: Meaning) -> None:
    """Record what a syntax node alone says about names and about the nodes inside it."""
    starred = isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
    for name, path in imported(node):
        if starred:
            found.imports.setdefault(name, path)
        else:
            found.bind(name, path, ModuleType | Callable)
    found.own_attributes.update(_attributes(node))
    found.stored.update(_set_by(node))
    found.filled.update(_filled(node))
    found.alone.update(_set_alone(node))
    match node:
        case ast.ClassDef(bases=bases, body=body):
            found.in_class.update(map(id, body))
            parts = (part for base in bases for part in ast.walk(base))
            found.bases.update(part.id for part in parts if isinstance(part, ast.Name))
        case ast.AugAssign(target=ast.Name(id=name), value=ast.Constant(value=int() | float())):
            found.counted[name] += 1
        case ast.AugAssign(
            target=ast.Attribute() | ast.Subscript(slice=ast.Constant()) as target,
            value=ast.Constant(value=int() | float()),
        ):
            found.counters.add(id(target))
            found.counting.update([target.attr] if isinstance(target, ast.Attribute) else [])
        case (
            ast.Expr(value=ast.Call() as call)
            | ast.withitem(context_expr=ast.Call() as call, optional_vars=None)
        ):
            found.inspected.update(_turns_off(call))
        case ast.FormattedValue(value=value):
            found.inspected.add(id(value))
            found.shown.update([id(value)] if _is_class_of_object(value) else [])
        case ast.Compare(left=value, comparators=[ast.Constant(value=None)]):
            found.inspected.add(id(value))
        case ast.Compare(left=value, ops=[ast.Is() | ast.IsNot()], comparators=[other]):
            found.shown.update(id(it) for it in (value, other) if _is_class_of_object(it))
        case ast.Attribute(attr="nodes" | "find_nodes"):
            found.reads_nodes = True
        case ast.Attribute(
            attr="__name__" | "__qualname__", value=ast.Attribute(attr="__class__") as owner
        ):
            found.shown.add(id(owner))
        case ast.Attribute(attr="exercises", value=ast.Attribute(attr="ops") as owner):
            found.shown.add(id(owner))  # the namespace of the learner's own operators
        case (
            ast.Attribute(attr="get", value=ast.Attribute(attr="environ") as owner)
            | ast.Subscript(
                value=ast.Attribute(attr="environ") as owner,
                slice=ast.Constant(value=str()),
                ctx=ast.Load() | ast.Store(),
            )
        ):
            found.shown.add(id(owner))
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Name(id="vars")) | ast.Attribute(attr="__dict__") as owner,
                attr="update",
            ),
            args=parts,
            keywords=keywords,
        ):
            found.fields.update(keyword.arg for keyword in keywords if keyword.arg)
            if not parts and all(keyword.arg for keyword in keywords):
                found.named.add(id(owner))
        case ast.Subscript(
            value=ast.Call(func=ast.Name(id="vars")) | ast.Attribute(attr="__dict__") as owner,
            slice=ast.Constant(value=str(name)),
        ):
            found.fields.add(name)
            found.named.add(id(owner))
        case ast.ImportFrom(module=str(home), names=[ast.alias(name="*")]):
            found.starred.update(public(home))
        case ast.arg(arg=name):
            found.stored[name] += 1
        case ast.FunctionDef(name=name, args=args) | ast.AsyncFunctionDef(name=name, args=args):
            found.own_attributes.add(name)  # such as an operator with the same name
            if not node.decorator_list:
                found.plain_functions.add(name)
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
    for name, value in assigned(node):
        found.values.setdefault(name, []).append(value)
        found.note(name, value)
    for name, value in origins(node):
        found.origins.setdefault(name, []).append(value)
    for name, value in elements(node):
        found.note(name, value)
    for decorator in getattr(node, "decorator_list", ()):
        found.decorators.add(id(decorator))
        found.inspected.update(_turns_off(decorator))
    found.read.update([node.id] if _is_read(node) else [])
    for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
        found.annotations.update(map(id, ast.walk(annotation)) if annotation else ())


def _is_class_of_object(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "__class__"


def _set_by(node: ast.AST) -> list[str]:
    """Return the variable that a syntax node sets or deletes."""
    match node:
        case (
            ast.Name(id=name, ctx=ast.Store() | ast.Del())
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
            | ast.ExceptHandler(name=str(name))
        ):
            return [name]
    return []


def _filled(node: ast.AST) -> list[str]:
    """Return the name of the container to which a statement adds an element."""
    match node:
        case (
            ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))])
            | ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(
                        value=ast.Name(id=name), attr="append" | "add" | "extend" | "update"
                    )
                )
            )
        ):
            return [name]
    return []


def _set_alone(node: ast.AST) -> list[str]:
    """Return the variable that a statement sets, if it sets no other variable."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _turns_off(call: ast.expr) -> Iterator[int]:
    """Yield the id of the function in ``set_grad_enabled(False)``."""
    match call:
        case ast.Call(
            func=ast.Attribute(attr="set_grad_enabled")
            | ast.Name(id="set_grad_enabled") as function,
            args=[ast.Constant(value=False)],
        ):
            yield id(function)


def _is_plain(node: ast.ClassDef) -> bool:
    """Return whether the name of a class surely refers to what its ``class`` statement defines."""
    decorators = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
    return not node.keywords and decorators <= {"dataclass", "dataclasses.dataclass"}


def _kept_by_classes(
    trees: Sequence[ast.Module], classes: Sequence[ast.ClassDef]
) -> Iterator[tuple[str, ast.expr]]:
    """Yield the attributes that code gives to classes before all calls, and their values."""
    for each in classes:
        for part in each.body:
            yield from assigned(part)
    for tree in trees:
        for part in tree.body:
            match part:
                case ast.Assign(targets=[ast.Attribute(attr=name)], value=value):
                    yield name, value


def _changes_itself(node: ast.ClassDef) -> bool:
    """Return whether a method other than the constructor changes an object of the class."""
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or method.name in ("__init__", "__post_init__"):
            continue
        for part in ast.walk(method):
            match part:
                case (
                    ast.Attribute(ctx=ast.Store() | ast.Del())
                    | ast.Subscript(ctx=ast.Store() | ast.Del())
                ):
                    if "." in ast.unparse(part):
                        return True
                case ast.Call(func=ast.Attribute(value=ast.Attribute(), attr=name)):
                    if name in MUTATING:
                        return True
                case ast.Call(func=ast.Name(id="setattr")):
                    return True
    return False


def _is_stateless(node: ast.ClassDef, path: Callable[[ast.expr], str]) -> bool:
    """Return whether the objects of a class never change, as those of a frozen dataclass."""
    if any(map(is_data, (value for part in node.body for _, value in assigned(part)))):
        return False
    if node.decorator_list:
        return any(
            keyword.arg == "frozen" and getattr(keyword.value, "value", False) is True
            for each in node.decorator_list
            if isinstance(each, ast.Call)
            for keyword in each.keywords
        )
    made = {id(part) for method in node.body for part in _set_by_constructor(method)}
    stores = (ast.Store, ast.Del)
    return all(path(base) == "typing.NamedTuple" for base in node.bases) and not any(
        (isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, stores))
        or (isinstance(part, ast.Name) and part.id in ("setattr", "delattr"))
        for part in ast.walk(node)
        if id(part) not in made
    )


def _set_by_constructor(method: ast.stmt) -> Iterator[ast.expr]:
    """Yield the attributes that a constructor sets to numbers or to its own arguments."""
    if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
        return
    plain = ast.Constant | ast.Name | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop
    for part in method.body:
        match part:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name()) as target], value=value):
                if all(isinstance(it, plain | ast.expr_context) for it in ast.walk(value)):
                    yield target


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
            case ast.Assign(targets=[ast.Tuple() | ast.List()], value=owner):
                reads.add(id(owner))
            case ast.Starred(value=owner) | ast.keyword(arg=None, value=owner):
                reads.add(id(owner))
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=owners):
                reads.update(map(id, owners))
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Name() as owner,
                    attr="copy" | "count" | "get" | "index" | "items" | "keys" | "values",
                )
            ):
                reads.add(id(owner))
            case ast.Call(func=ast.Attribute(attr="new_tensor"), args=[owner]):
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


def _is_read(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _is_type(value: ast.expr) -> bool:
    """Return whether an expression is a type such as ``tuple[Tensor, ...]``, without any call."""
    shapes = ast.Subscript | ast.Attribute | ast.BinOp | ast.Constant
    texts = (part.value for part in ast.walk(value) if isinstance(part, ast.Constant))
    computed = any(isinstance(part, ast.Call | ast.JoinedStr) for part in ast.walk(value))
    return isinstance(value, shapes) and not computed and not any(isinstance(t, str) for t in texts)


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
        if isinstance(node, ast.Name) and is_data(value, found.classes):
            found.data.add(node.id)


def _aliases(tree: ast.Module, found: Meaning) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        for name, value in assigned(node):
            if path := found.path(value):
                yield name, path
